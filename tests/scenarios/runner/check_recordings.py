"""Replays the recordings of real machines: check_recordings.py PROGRAM RECORDINGS.

Every case must pass, and every stage that is compared with the machine (not with the oracle or a reference) must be bit exact. One flipped
bit in a copy must be found. The calls in a folder MACHINE-ALGORITHM-PROTOCOL must have the algorithm and protocol that the environment
forced. MACHINE.symmetric has only NCCL's results, MACHINE.torch the collectives of PyTorch programs.
"""
import json
import os
import shutil
import subprocess
import sys
import tempfile


MACHINE = "h200-nccl-2.28.9"
SHARED = "h200-shared-nccl-2.32.3"


def replay(program, folder):
    done = subprocess.run([program, "replay", folder, "--json", "-"], capture_output=True, text=True)
    return done.returncode, json.loads(done.stdout)


def check_machine(program, machine, least):
    """All recordings of a folder; returns how many, and their stages."""
    names = [name for name in os.listdir(machine) if os.path.isdir(os.path.join(machine, name))]
    code, report = replay(program, machine)
    assert code == 0 and report["verdict"] == "pass", (machine, code)
    assert report["skipped"] == 0, report["skips"]
    assert report["passed"] == len(names) >= least, report["passed"]
    stages = 0
    for case in report["cases"]:
        for stage in case["stages"]:
            if ":" not in stage["name"]:
                assert stage["class"] == "bit_exact", (case["name"], stage)
                stages += 1
    return len(names), stages


def check_forced(machine, algorithm, protocol):
    """The all_reduces have the forced algorithm and protocol in NCCL's report."""
    reductions = 0
    for name in os.listdir(machine):
        with open(os.path.join(machine, name, "rank_00000.calls.json")) as file:
            for call in json.load(file):
                if call["kind"] == "all_reduce" and call["comm_size"] > 2:
                    said = (call["algorithm"], call["protocol"])
                    assert said == (algorithm, protocol), (machine, call)
                    reductions += 1
    assert reductions > 0, machine


def main():
    program, folder = sys.argv[1:]
    names = stages = 0
    for machine, least in ((MACHINE, 20), (SHARED, 8)):
        more, more_stages = check_machine(program, os.path.join(folder, machine), least)
        assert more_stages > 100, more_stages
        names, stages, kinds = names + more, stages + more_stages, 0
        for forced in sorted(os.listdir(folder)):
            path = os.path.join(folder, forced)
            if forced.startswith(machine + "-") and os.path.isdir(path):
                check_forced(path, *forced[len(machine) + 1:].split("-"))
                more, more_stages = check_machine(program, path, 1)
                names, stages, kinds = names + more, stages + more_stages, kinds + 1
        assert kinds >= 5, kinds
    for kind, least in (("symmetric", 8), ("torch", 50)):
        code, report = replay(program, os.path.join(folder, SHARED + "." + kind))
        assert code == 0 and report["passed"] >= least, (kind, code, report["passed"])
        classes = {stage["class"] for case in report["cases"] for stage in case["stages"]}
        assert kind == "torch" or classes == {"bit_exact"}, classes
    with tempfile.TemporaryDirectory() as scratch:
        copy = os.path.join(scratch, "copy")
        shutil.copytree(os.path.join(folder, MACHINE, "every-collective"), copy)
        path = os.path.join(copy, "rank_00002.safetensors")
        with open(path, "r+b") as file:
            file.seek(-1, os.SEEK_END)
            last = file.read(1)[0]
            file.seek(-1, os.SEEK_END)
            file.write(bytes([last ^ 1]))
        code, report = replay(program, copy)
        assert code == 1 and report["verdict"] == "fail", code
    print("%d recordings, %d stages bit exact" % (names, stages))


main()
