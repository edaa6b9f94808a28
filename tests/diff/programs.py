"""program.py on one rank and on several, and what `lockstep diff` says: programs.py LOCKSTEP PYTHON_FOLDER."""
import json
import os
import subprocess
import sys
import tempfile

PROGRAM = os.path.join(os.path.dirname(os.path.abspath(__file__)), "program.py")
RIGHT = ["ddp", "fsdp", "tp"]
WRONG = {  # the first tensor that is wrong, and what is said of it
    "ddp_uneven": ("step 0 backward narrow", "mean of means: rank 0 has 1.2 times the reference"),
    "ddp_unsynced": ("step 0 gradient narrow.bias", "nothing was reduced, rank 0 has its own part alone"),
    "tp_scaled": ("step 0 backward narrow", "it is 0.5 times the reference (1/world"),
}
# Of the right ones: what a bound is derived of, where bits differ.
DERIVED = {"step 0 forward wide", "step 0 forward narrow", "step 0 gradient wide.weight", "step 0 gradient narrow.weight",
           "step 0 gradient narrow.bias", "step 0 gradient table.weight", "step 1 forward table", "step 1 forward wide"}


def run(lockstep, folder, python, ranks, *words):
    program = [sys.executable, PROGRAM, *words]
    environment = {**os.environ, "PYTHONPATH": python}
    if ranks > 1:
        program = [lockstep, "exec", "-n", str(ranks), "--quiet", "--", *program]
    done = subprocess.run(program, capture_output=True, text=True, check=False, cwd=folder, env=environment)
    assert done.returncode == 0, f"{words}: {done.stdout}\n{done.stderr[-3000:]}"


def diff(lockstep, folder, ref, other):
    done = subprocess.run([lockstep, "diff", ref, other, "--json", "-"], capture_output=True, text=True, check=False,
                          cwd=folder)
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout)["cases"][0]["stages"]


def checkpoints(lockstep, folder, python):
    """Of one rank and of two, of torch.distributed.checkpoint, written anew."""
    for way in ("whole", "fsdp"):
        done = subprocess.run([sys.executable, "-m", "lockstep.checkpoint", f"{way}.dcp", f"{way}.saved"],
                              capture_output=True, text=True, check=False, cwd=folder,
                              env={**os.environ, "PYTHONPATH": python})
        assert done.returncode == 0, done.stderr
    code, stages = diff(lockstep, folder, "whole.saved", "fsdp.saved")
    assert code == 0 and len(stages) == 7, stages
    assert {stage["class"] for stage in stages} <= {"bit_exact", "unjudged"}, stages
    names = sorted(name for name in os.listdir(os.path.join(folder, "fsdp.saved")) if name.endswith(".json"))
    assert names == ["rank_00000.json", "rank_00001.json"], names


def main():
    lockstep, python = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
    with tempfile.TemporaryDirectory() as folder:
        run(lockstep, folder, python, 1, "whole", "whole", "whole.dcp")
        for way in RIGHT:
            run(lockstep, folder, python, 2, way, way, *(["fsdp.dcp"] if way == "fsdp" else []))
            code, stages = diff(lockstep, folder, "whole", way)
            judged = {stage["name"]: stage["class"] for stage in stages}
            assert code == 0 and len(stages) > 40, (way, judged)
            unknown = {name for name in DERIVED & judged.keys() if judged[name] == "unjudged"}
            assert not unknown and len(DERIVED & judged.keys()) >= 7, (way, unknown, judged)
            assert "within_bound" in judged.values(), (way, judged)
            print(way, "is as one rank")
        for way, (name, text) in WRONG.items():
            run(lockstep, folder, python, 2, way, way)
            code, stages = diff(lockstep, folder, "whole", way)
            last = stages[-1]
            assert code == 1 and last["class"] == "wrong" and last["name"] == name, (way, last)
            assert text in last["divergence"], (way, last)
            print(way, "is found:", name)
        checkpoints(lockstep, folder, python)
    return 0


sys.exit(main())
