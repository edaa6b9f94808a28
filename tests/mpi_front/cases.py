"""Small MPI programs (cases/), each correct and wrong: an error is found with its name, its line and the given words, and the correct
program is silent. cases.py BUILD SOURCES [NAME]
"""
import glob
import os
import re
import shutil
import subprocess
import sys
import tempfile


def cases_of(source):
    """(name, finding, line, words) of each function with a "// wrong: FINDING[, WORDS]" at or above
    the line."""
    name = None
    for number, line in enumerate(open(source, encoding="utf-8"), 1):
        start = re.match(r"\s*(?:static )?(?:inline )?(?:void|int) (\w+)\(.*\) \{$", line)
        name = start.group(1) if start else name
        wrong = re.search(r"// wrong: ([\w.]+)(?:, (.+))?$", line)
        if wrong:
            number += line.strip().startswith("//")
            yield name, wrong.group(1), f"{os.path.basename(source)}:{number}", wrong.group(2) or ""


def builds(sources, folder):
    """(source, options) of each program; places of variables depend on the compiler options."""
    cxx = os.path.join(folder, "variables_of_classes.cpp")
    shutil.copy(os.path.join(sources, "variables_of_classes.h"), cxx)
    for source in sorted(glob.glob(os.path.join(sources, "*.c"))) + [cxx]:
        yield source, ["-I", sources]
        if os.path.basename(source).startswith("variables"):
            yield source, ["-I", sources, "-O2"]


def run(build, program, *arguments):
    done = subprocess.run([os.path.join(build, "lockstep"), "mpi", "-n", "3", "--explore", "100",
                           "--deadline", "0", program, "--", *arguments], capture_output=True, text=True)
    return done.returncode, " ".join((done.stdout + done.stderr).split())


def main():
    build, sources = sys.argv[1:3]
    only = sys.argv[3:]
    bad, count = [], 0
    with tempfile.TemporaryDirectory() as folder:
        for source, flags in builds(sources, folder):
            program = os.path.join(folder, "program")
            compiler = "lockstep-c++" if source.endswith(".cpp") else "lockstep-cc"
            subprocess.run([os.path.join(build, compiler), "-Wall", "-Wextra", "-Werror",
                            "-Wno-free-nonheap-object", "-Wno-use-after-free", *flags,
                            source, "-o", program], check=True)
            for name, finding, place, words in cases_of(source):
                if only and name not in only:
                    continue
                count += 1
                code, text = run(build, program, name)
                if code != 0:
                    bad.append(f"{name} {flags[2:]}: right, but exit code {code}\n{text}")
                code, text = run(build, program, name, "wrong")
                if code != 1 or f"{finding}," not in text or place not in text or words not in text:
                    bad.append(f"{name} {flags[2:]}: not {finding} at {place}, {words}, exit code {code}\n{text}")
    print("\n".join(bad))
    print(f"{count} mistakes and their twins, {len(bad)} not as they should be")
    assert count > 0 and not bad


if __name__ == "__main__":
    main()
