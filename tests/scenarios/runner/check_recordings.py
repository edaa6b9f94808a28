"""Replays the recordings of real machines: check_recordings.py PROGRAM RECORDINGS.

Every case must pass, and every stage that is compared with the machine (not with the oracle or a
reference) must be bit exact. One flipped bit in a copy must be found.
"""
import json
import os
import shutil
import subprocess
import sys
import tempfile


def replay(program, folder):
    done = subprocess.run([program, "replay", folder, "--json", "-"], capture_output=True, text=True)
    return done.returncode, json.loads(done.stdout)


def main():
    program, folder = sys.argv[1:]
    machine = os.path.join(folder, "h200-nccl-2.28.9")
    names = [name for name in os.listdir(machine) if os.path.isdir(os.path.join(machine, name))]
    code, report = replay(program, machine)
    assert code == 0 and report["verdict"] == "pass", code
    assert report["passed"] == len(names) > 20 and report["skipped"] == 0, report["passed"]
    stages = 0
    for case in report["cases"]:
        for stage in case["stages"]:
            if ":" not in stage["name"]:
                assert stage["class"] == "bit_exact", (case["name"], stage)
                stages += 1
    assert stages > 100, stages
    with tempfile.TemporaryDirectory() as scratch:
        copy = os.path.join(scratch, "copy")
        shutil.copytree(os.path.join(machine, "every-collective"), copy)
        path = os.path.join(copy, "rank_00002.safetensors")
        with open(path, "r+b") as file:
            file.seek(-1, os.SEEK_END)
            last = file.read(1)[0]
            file.seek(-1, os.SEEK_END)
            file.write(bytes([last ^ 1]))
        code, report = replay(program, copy)
        assert code == 1 and report["verdict"] == "fail", code
    print("%d recordings, %d stages bit exact" % (len(names), stages))


main()
