"""Kernels with a known bug, each found at its line under many schedules, and their corrected versions, silent under as many: bugs.py BUILD
FOLDER SCHEDULES. A line with `// bug: ID` is the finding's place, or the other side of its race. All are compiled as one program.
"""
import json
import os
import re
import subprocess
import sys
import tempfile


def run(words):
    return subprocess.run(words, capture_output=True, text=True)


def findings(build, words, program, version):
    with tempfile.NamedTemporaryFile(suffix=".json") as out:
        done = run([f"{build}/lockstep", "spmd", "-n", "4", *words, "--json", out.name, program,
                    "--", version])
        cases = json.load(open(out.name, encoding="utf-8"))["cases"]
    return done, [f for case in cases for f in case["findings"]]


def whole(sources, names):
    """The source of one program with both versions of all kernels."""
    lines = ["#include <string.h>"]
    if os.path.basename(sources) == "nvshmem":
        lines += ["#include <nvshmemx.h>", "#include <stdio.h>", "#include <stdlib.h>"]
    else:
        lines += [f'#include "{os.path.dirname(sources)}/bugs/common.h"']
    for name in names:
        for version in ("wrong", "correct"):
            lines += ["#define CORRECT" if version == "correct" else "#undef CORRECT",
                      f"namespace {name}_{version} {{", f'#include "{sources}/{name}.cu"', "}"]
    lines += ["int main(int argc, char **argv) {"]
    for name in names:
        lines += [f'    if (strcmp(argv[1], "{name}_{v}") == 0) return {name}_{v}::main();'
                  for v in ("wrong", "correct")]
    return "\n".join(lines + ["    return 2;", "}", ""])


def check(build, source, program, schedules):
    complaints = []
    name = os.path.basename(source)[:-3]
    lines = open(source, encoding="utf-8").read().splitlines()
    wanted = [(i + 1, m.group(1)) for i, line in enumerate(lines)
              if (m := re.search(r"// bug: ([a-z0-9_.]+)", line))]
    for words in [[]] + [["--schedule", "random", "--seed", str(seed)] for seed in range(4)]:
        done, found = findings(build, words, program, f"{name}_wrong")
        for line, what in wanted:
            at = [f"{name}.cu:{n}" for n in (line, line - 1)]  # a call of two lines
            hits = [f for f in found if f["id"] == what and
                    any(re.search(re.escape(a) + r"\b", f"{f['where']} {f['text']}") for a in at)]
            if done.returncode != 1 or not hits:
                complaints.append(f"{name} {words}: no {what} at line {line}: {found} "
                                  f"{done.stdout[-400:]} {done.stderr}")
    done, found = findings(build, ["--explore", str(schedules)], program, f"{name}_correct")
    if done.returncode != 0 or found:
        complaints.append(f"{name}, corrected: {found} {done.stdout[-400:]} {done.stderr[-400:]}")
    return complaints


def main():
    build, sources, schedules = sys.argv[1], sys.argv[2], int(sys.argv[3])
    names = sorted(name[:-3] for name in os.listdir(sources) if name.endswith(".cu"))
    complaints = []
    with tempfile.TemporaryDirectory() as folder:
        with open(f"{folder}/all.cu", "w", encoding="utf-8") as out:
            out.write(whole(sources, names))
        made = run([f"{build}/lockstep-cuda-cc", f"{folder}/all.cu", "-o", f"{folder}/all"])
        if made.returncode != 0:
            sys.exit(made.stderr)
        for name in names:
            complaints += check(build, f"{sources}/{name}.cu", f"{folder}/all", schedules)
    print("\n".join(complaints))
    sys.exit(1 if complaints else 0)


main()
