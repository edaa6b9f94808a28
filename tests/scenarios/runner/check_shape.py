"""Runs without data against runs with it: check_shape.py LOCKSTEP SOURCE.

Every scenario of the catalogue of bugs, and every one of collectives on buffers, runs twice. A finding about calls and waits must be equal
without data, word for word; a finding about data must never be a pass. And 65,536 ranks must fit, one of which uses another operation.
"""
import glob
import json
import os
import subprocess
import sys
import tempfile

# Findings about the contents of buffers; no run without data can have them.
NEED_DATA = {"buffer.uninitialised", "buffer.modified_in_flight", "buffer.use_before_wait", "replica.diverged",
             "value.nan_first", "value.inf_first", "collective.redundant_reduce"}

CROWD = """lockstep: 1
name: a crowd
mesh: {{shape: [{ranks}]}}
program:
  steps:
    - all_reduce: {{count: 1048576, op: sum}}
    - reduce_scatter: {{count: 16, op: sum{except_}}}
    - barrier: {{}}
"""


def run(program, files, *arguments):
    done = subprocess.run([program, "run", *files, "--json", "-", *arguments], capture_output=True, text=True, check=False)
    assert done.stdout, (arguments, done.stderr)
    report = json.loads(done.stdout)
    skips = [{"findings": [], "verdict": "skip", **skip} for skip in report["skips"]]
    return done.returncode, {case["file"]: case for case in report["cases"] + skips}


def sentences(case):
    return [(f["id"], f["ranks"], f["where"], f["text"]) for f in case["findings"] if f["id"] not in NEED_DATA]


def check(whole, shape):
    name = whole["file"]
    passed = shape["verdict"] == "pass"
    assert not passed or shape["findings"], f"{name}: passes without data and without a finding"
    if not shape["findings"]:
        assert shape["verdict"] == "skip" and shape["reason"].startswith("unjudged: "), (name, shape)
        of_data = "depends on their data" in shape["reason"] or not sentences(whole)
        assert of_data, f"{name}: lost {sentences(whole)}"
        return 0
    # An earlier finding about data ends a run that continues without it.
    if len(sentences(whole)) == len(whole["findings"]):
        assert sentences(shape) == sentences(whole), (name, sentences(shape), sentences(whole))
    assert passed == (whole["verdict"] == "pass"), (name, shape)
    return len(shape["findings"])


def check_crowd(program, folder):
    path = os.path.join(folder, "crowd.yaml")
    for except_, expected in (("", []), (", except: [{ranks: [40000], op: max}]", [("collective.op_mismatch", [40000])])):
        with open(path, "w", encoding="utf-8") as file:
            file.write(CROWD.format(ranks=65536, except_=except_))
        code, cases = run(program, [path], "--shape-only", "--memory", "8G")
        case = cases[path]
        assert [(f["id"], f["ranks"]) for f in case["findings"]] == expected, case["findings"]
        assert code == (1 if expected else 5), code
        calls = {row["call"]: (row["calls"], row["bytes"]) for row in case["calls"]}
        assert calls["all_reduce"] == (65536, 65536 * 4 * 1048576), calls
        assert ("reduce_scatter" in calls) == (not expected), calls
        if not expected:
            assert calls["reduce_scatter"] == (65536, 65536 * 65536 * 4 * 16), calls


def main():
    program, source = sys.argv[1], sys.argv[2]
    files = sorted(glob.glob(os.path.join(source, "scenarios/bugs/*.yaml")) +
                   glob.glob(os.path.join(source, "scenarios/nccl_sweep/*.yaml")))
    _, whole = run(program, files)
    _, shape = run(program, files, "--shape-only")
    assert set(whole) == set(shape) == set(files)
    found = sum(check(whole[file], shape[file]) for file in files)
    assert found > 40, f"{found} findings without data: too few to prove anything"
    with tempfile.TemporaryDirectory() as folder:
        check_crowd(program, folder)
    print(f"{len(files)} scenarios, {found} findings without data")


if __name__ == "__main__":
    sys.exit(main())
