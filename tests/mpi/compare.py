"""Compares every scenario with real MPI processes and checks the report: compare.py PROGRAM SOURCE.

The verdict must be pass, every stage that only moves data bit exact, and the JSON as the reference
says. Then a recording is made and compared with again.
"""
import glob
import json
import os
import subprocess
import sys
import tempfile

MOVES_ONLY = ("input_dist",)
CASE_KEYS = {"name", "file", "backend", "real", "verdict", "class", "stages", "findings", "reproduce"}
STAGE_KEYS = {"name", "class", "elements", "differing", "max_ulps", "bound_ratio", "order"}


def run(arguments, expect=0):
    done = subprocess.run(arguments, capture_output=True, text=True)
    if done.returncode != expect:
        sys.exit("%s: exit code %d, not %d\n%s%s" % (" ".join(arguments), done.returncode, expect,
                                                     done.stdout[-4000:], done.stderr[-4000:]))
    return done.stdout


def check(report, command, real, cases):
    assert report["format"] == 1 and report["command"] == command
    assert report["verdict"] == "pass" and report["failed"] == 0
    assert report["passed"] == cases == len(report["cases"])
    for case in report["cases"]:
        assert CASE_KEYS <= set(case), case
        assert case["verdict"] == "pass" and case["real"] == real, case["name"]
        for stage in case["stages"]:
            assert STAGE_KEYS <= set(stage), stage
            if stage["name"] in MOVES_ONLY:
                assert stage["class"] == "bit_exact", (case["name"], stage)


def main():
    program, source = sys.argv[1:]
    files = sorted(glob.glob(os.path.join(source, "scenarios", "*", "*.yaml")))
    assert len(files) > 10
    check(json.loads(run([program, "compare", *files, "--real", "mpi", "--json", "-"])), "compare",
          "mpi", len(files))
    torch = sorted(glob.glob(os.path.join(source, "scenarios", "torch_results", "*.yaml")))
    with tempfile.TemporaryDirectory() as folder:
        out = os.path.join(folder, "recordings")
        run([program, "record", *torch, "--backend", "mpi", "--out", out, "--quiet"])
        check(json.loads(run([program, "compare", *torch, "--real", out, "--json", "-"])),
              "compare", "recording", len(torch))
        check(json.loads(run([program, "replay", out, "--json", "-"])), "replay", "recording",
              len(torch))
    print("%d scenarios compared" % len(files))


main()
