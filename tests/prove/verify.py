"""`lockstep verify`, and `exec --capture` with diff, on an unchanged program: verify.py LOCKSTEP PROGRAM."""
import json
import os
import re
import subprocess
import sys
import tempfile

LOCKSTEP, PROGRAM = sys.argv[1:3]


def lockstep(*words):
    return subprocess.run([LOCKSTEP, *words], capture_output=True, text=True, check=False)


def verify(case, *options):
    done = lockstep("verify", "-n", "1,2", *options, "--json", "-", "--", sys.executable, PROGRAM, case)
    assert done.stdout, done.stderr
    report = json.loads(done.stdout)
    return done.returncode, report["cases"], json.dumps(report["skips"]) + done.stderr


def right():
    code, cases, said = verify("right", "--prove")
    classes = {case["name"].split(" ", 1)[1]: {stage["class"] for stage in case["stages"]} for case in cases}
    assert code == 0 and len(cases) == 18, (code, classes, said)
    for name, of in classes.items():
        assert of <= ({"proved", "bit_exact"} if "exact" in name else {"bit_exact", "within_bound", "unjudged"}), (name, of)
    losses = [stage["order"] for case in cases for stage in case["stages"] if stage["name"] == "step 0 forward model" and stage.get("order")]
    assert "the mean of the ranks' losses" in losses, cases
    assert sum("calls take other parts of the batch" in json.dumps(case.get("not_compared")) for case in cases) == 2, cases
    assert said.count("rank 1 of 2 ran no model of this number") == 4, said
    names = [{stage["name"] for stage in case["stages"]} for case in cases]
    assert "step 3 gradient 0.weight" in names[0] and "step 4 gradient 0.weight" not in names[0] and "end parameter 0.weight" in names[0]
    assert "step 0 gradient decoder.0.weight" in names[1] and "step 0 forward encoder.0" in names[1], names[1]
    assert "steps from 4 on" in json.dumps(cases[0]["not_compared"]), cases[0]


def wrong():
    code, cases, said = verify("wrong", "--steps", "2")
    assert all("verify -n 1,2 --steps 2 --" in case["reproduce"] for case in cases), cases
    told = [(case["verdict"], next((re.sub(r"\s+", " ", f"{stage['name']}: {stage['divergence']}") for stage in case["stages"] if stage["class"] == "wrong"), case.get("error")))
            for case in cases]
    assert code == 1 and [verdict for verdict, _ in told] == ["fail"] * 5, (code, told, said)
    for (_, text), expected in zip(told, (r"step 1 gradient 2.bias: .*2 times the reference", r"step 0 gradient 2.bias: .*rank",
                                          r"input", r"step 0 forward model", r"on 2 ranks no model of this number ran")):
        assert re.search(expected, text), (expected, text)


def raising():
    code, cases, said = verify("raises")
    assert code == 3 and "on 2 ranks" in cases[0]["name"] and "only one rank can do this" in cases[0]["error"], (code, cases, said)


def finding():
    code, cases, said = verify("inner")
    found = cases[0]["findings"][0]
    assert code == 1 and found["id"] == "replica.diverged" and re.search(r"worlds.py:\d+$", found["where"]), (code, cases, said)


def captured():
    with tempfile.TemporaryDirectory() as folder:
        one, many = f"{folder}/one", f"{folder}/many"
        for kept, ranks in ((one, "1"), (many, "2")):
            done = lockstep("exec", "-n", ranks, "--start", "fork", "--capture", kept, "--", sys.executable, PROGRAM, "right")
            assert done.returncode in (0, 5), (done.stdout, done.stderr)
            assert sorted(os.listdir(kept)) == ["000_model", *(f"{at:03}_model_{at}" for at in range(1, 11))]
        done = lockstep("diff", f"{one}/001_model_1", f"{many}/001_model_1")
        assert done.returncode == 0 and "gradient decoder.0.weight" in done.stdout, (done.stdout, done.stderr)
        done = lockstep("exec", "-n", "2", "--capture", one, "--", sys.executable, PROGRAM, "right")
        assert done.returncode == 2 and "name a new folder" in done.stderr, done.stderr


right()
wrong()
raising()
finding()
captured()
