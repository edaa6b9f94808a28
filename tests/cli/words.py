"""User names that equal words of reports and of the runner: words.py LOCKSTEP FOLDER.

Each word names a scenario, its tensors, steps, tables and features. Runs and comparisons with a good and a damaged recording must print the
same as for an ordinary word.
"""
import glob
import json
import os
import shutil
import subprocess
import sys

NEUTRAL = "quince"
WORDS = """oracle real reference calls tensors tensor full recv send mpi nccl sim pass fail finding
wrong error recording simulated expected case stage stages input_dist lookup output_dist forward
backward update bit_exact within_bound reordered by_design unjudged world rank lengths ids values
weights input output all off none order class scenario manifest inputs checks table feature
0_all_reduce oracle:x reference:x real:x""".split()

PROGRAM = """lockstep: 1
name: {word}
mesh: {{shape: [3]}}
program:
  tensors:
    - {{name: '{word}', shape: [6, 4], placements: S(0), values: {{normal: {{std: 1}}}}}}
  steps:
    - redistribute: {{name: '{word}', tensor: '{word}', to: R}}
    - all_reduce: {{name: '{word}.', count: 40, op: sum, values: {{normal: {{std: 1}}}}{more}}}
checks: {{oracle: within_bound, real: bit_exact}}
"""
TABLES = """lockstep: 1
name: {word}
mesh: {{shape: [2]}}
tables:
  - {{name: '{word}', rows: 10, dim: 4, features: ['{word}'], weights: {{arange: {{}}}},
     sharding: {{type: row_wise}}}}
inputs:
  batch: 4
  features:
    '{word}': {{lengths: {{constant: 3}}}}
"""
KINDS = {"program": (PROGRAM, ""), "broken": (PROGRAM, ", except: [{ranks: [1], op: max}]"),
         "tables": (TABLES, "")}


def run(lockstep, *arguments):
    """The cases of a command, by file."""
    done = subprocess.run([lockstep, *arguments, "--json", "-"], capture_output=True, text=True)
    if not done.stdout:
        sys.exit(f"{arguments[0]}: exit code {done.returncode}\n{done.stderr}")
    told = json.loads(done.stdout)
    return {case["file"]: case for case in told["cases"] + told["skips"]}


def verdict(case, word, kind):
    """The text of a case without the word, and without numbers, since a name seeds its values."""
    own = {before + word + after: before + "W" + after
           for before in ("", "oracle:") for after in ("", ".") if kind != "tables"}
    own["the tensors"], own["oracle:the tensors"] = "tensors", "oracle:tensors"
    stages = [(own.get(s["name"], s["name"]), s["class"], s["elements"])
              for s in case.get("stages", [])]
    findings = [(f["id"], f["ranks"]) for f in case.get("findings", [])]
    return (case.get("verdict", "skipped"), case.get("class"), "error" in case, stages, findings)


def compare_all(what, kind, cases, files, complaints):
    neutral = verdict(cases[files[NEUTRAL]], NEUTRAL, kind)
    for word, file in files.items():
        got = verdict(cases[file], word, kind)
        if got != neutral:
            complaints.append(f"{what} {kind}, {word}:\n  {got}\ninstead of\n  {neutral}")
    return neutral


def check_kind(lockstep, folder, kind, complaints):
    text, more = KINDS[kind]
    files = {}
    for i, word in enumerate([NEUTRAL] + WORDS):
        files[word] = os.path.join(folder, f"{kind}_{i}.yaml")
        with open(files[word], "w") as out:
            out.write(text.format(word=word, more=more))
    said = compare_all("run", kind, run(lockstep, "run", *files.values()), files, complaints)
    if kind == "broken":
        return said[0] == "fail"
    kept = os.path.join(folder, f"kept_{kind}")
    run(lockstep, "record", *files.values(), "--backend", "sim", "--out", kept)
    right = compare_all("compare", kind, run(lockstep, "compare", *files.values(), "--real", kept),
                        files, complaints)
    for path in glob.glob(os.path.join(kept, "*", "rank_00001.safetensors")):
        with open(path, "r+b") as recorded:  # the last number's exponent
            recorded.seek(-1, os.SEEK_END)
            byte = recorded.read(1)[0]
            recorded.seek(-1, os.SEEK_END)
            recorded.write(bytes([byte ^ 0x41]))
    wrong = compare_all("compare damaged", kind,
                        run(lockstep, "compare", *files.values(), "--real", kept), files, complaints)
    return said[0] == right[0] == "pass" and wrong[0] == "fail"


def main():
    lockstep, folder = sys.argv[1:3]
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    complaints = []
    for kind in KINDS:
        if not check_kind(lockstep, folder, kind, complaints):
            complaints.append(f"{kind}: the neutral word itself does not pass and fail as it must")
    shutil.rmtree(folder, ignore_errors=True)
    if complaints:
        sys.exit("\n".join(complaints[:20] + [f"{len(complaints)} in all"]))


if __name__ == "__main__":
    main()
