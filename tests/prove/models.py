"""Models that must be proved, and others with a defect, in one run: models.py LOCKSTEP PROGRAM."""
import json
import subprocess
import sys

LOCKSTEP, PROGRAM = sys.argv[1:3]


REASONS = {  # of a defect: its first wrong tensor, and the text about it
    "wrong not reduced": ("gradient 3.bias", "not averaged, the mean of what the ranks have is the reference"),
    "wrong table": ("input out",), "wrong bias": ("forward model", "parameter layer.bias is added 1 times too often"),
    "wrong eps": ("forward 2",), "wrong decay": ("step 0 parameter 2.weight", "of the 2 ranks only 0 has"),
    "wrong scale": ("backward 3",)}


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
            assert case["verdict"] == "pass" and "proved" in classes and classes <= {"proved", "bit_exact"}, (name, case, said)
            assert "on 2 ranks and on 1" in case["checked"] and "n / 2147483647" in case["checked"], case
        else:
            assert case["verdict"] == "fail" and "wrong" in classes, (name, case, said)
            first = next(stage for stage in case["stages"] if stage["class"] == "wrong")
            for text in REASONS.get(name, ()):
                assert text in first["name"] + first["divergence"], (name, first)
    assert "without a rule" not in said, said


main()
