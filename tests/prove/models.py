"""Models that must be proved, and others with a defect, in one run: models.py LOCKSTEP PROGRAM."""
import json
import subprocess
import sys

LOCKSTEP, PROGRAM = sys.argv[1:3]


def prove(ranks, *words):
    done = subprocess.run([LOCKSTEP, "prove", "-n", ranks, "--all", "--json", "-", "--", sys.executable, PROGRAM, *words],
                          capture_output=True, text=True, check=False)
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout)["cases"], done.stderr


def main():
    code, cases, said = prove("1,2")
    assert code == 1, (code, said)
    names = {case["name"].split(" ", 1)[1].split(",")[0]: case for case in cases}
    assert len(names) > 5, names.keys()
    for name, case in names.items():
        classes = {stage["class"] for stage in case["stages"]}
        if name.startswith("right"):
            assert case["verdict"] == "pass" and classes == {"proved"} or classes == {"proved", "bit_exact"}, (name, case, said)
        else:
            assert case["verdict"] == "fail" and "wrong" in classes, (name, case, said)
    assert "without a rule" not in said, said


main()
