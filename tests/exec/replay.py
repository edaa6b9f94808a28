"""Records a program's collectives and replays them: replay.py LOCKSTEP PROGRAM STAND_IN_FOLDER

All calls with data pass in the requested order. One changed bit in a rank's received data fails only that call. Hashes behave the same for
moved data and for sums that must agree. A call with missing or extra parts is unusable.
"""
import glob
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

CHANGE = os.path.join(os.path.dirname(__file__), "..", "cli", "change_tensor.py")


def flip(path):
    """Changes the last byte of a file: of the last member's received data."""
    with open(path, "r+b") as file:
        file.seek(-1, os.SEEK_END)
        last = file.read(1)
        file.seek(-1, os.SEEK_END)
        file.write(bytes([last[0] ^ 1]))


def check_unusable(lockstep, kept, what):
    """Damaged recordings that are not reported as unusable: one call's data or hashes, changed in one way after the other."""
    with open(f"{kept}/exec.json", encoding="utf-8") as file:
        calls = [call for call in json.load(file)["calls"] if "file" in call]
    wrong = []

    def expect(kind, text, change=None, **keys):
        call = dict(next(call for call in calls if call["call"] == kind))
        for key, value in keys.items():
            call[key] = value
            if value is None:
                del call[key]
        with tempfile.TemporaryDirectory() as folder:
            path = shutil.copy(f"{kept}/{call['file']}", folder)
            if change:
                subprocess.run([sys.executable, CHANGE, path, *change], check=True)
            with open(f"{folder}/exec.json", "w", encoding="utf-8") as file:
                json.dump({"made_by": "lockstep exec", "calls": [call]}, file)
            done = subprocess.run([lockstep, "replay", folder], capture_output=True, text=True)
        told = " ".join(done.stdout.split())
        if done.returncode != 2 or f"entry 0{text}" not in told:
            wrong.append(f"{what}, {kind}, {change} {keys}: {done.returncode}, {done.stdout}")

    for kind in "all_reduce", "all_to_all", "all_gather":
        file = next(call["file"] for call in calls if call["call"] == kind)
        expect(kind, f", {file}: tensor recv/3 is missing", ["recv/3", "0", "drop"])
        expect(kind, f", {file}: tensor recv/1 is missing", ["recv/1", "0", "rename", "recv/1x"])
        expect(kind, f", {file}: tensor send is missing", ["send", "0", "drop"])
    file = next(call["file"] for call in calls if call["call"] == "broadcast")
    expect("broadcast", f", {file}: tensor recv/4 does not belong to this call",
           ["recv/3", "0", "copy", "recv/4"])
    root = next(call for call in calls if call["call"] == "reduce")
    other = (root["root"] + 1) % 4
    expect("reduce", f", {root['file']}: tensor recv/{other} is present, but the call gives that "
           "member no elements", [f"recv/{root['root']}", "0", "copy", f"recv/{other}"])
    expect("all_reduce", ": it reduces, but has no op", op=None)
    expect("all_reduce", ": its ranks are not distinct", ranks=[0, 1, 2, 1])
    expect("all_reduce", ": its ranks are not all in the world", ranks=[0, 1, 2, 4])
    expect("all_reduce", ": its ranks are not all in the world", ranks=[0, 1, 2, -1], world=None)
    expect("all_gather", ": hashed is neither true nor false", hashed="no")
    return wrong


def check_hashes(lockstep, program, stand_in):
    """Errors in the replay of hashes."""
    with tempfile.TemporaryDirectory() as folder:
        environment = dict(os.environ, MEET=f"{folder}/id", LD_LIBRARY_PATH=stand_in)
        subprocess.run([lockstep, "exec", "-n", "4", "--quiet", "--record", f"{folder}/kept",
                        "--hash", "--", program], env=environment, check=True)
        with open(f"{folder}/kept/exec.json", encoding="utf-8") as file:
            calls = [call for call in json.load(file)["calls"] if "file" in call]
        kinds = [call["call"] for call in calls if call["call"] not in ("reduce", "reduce_scatter")]
        done = subprocess.run([lockstep, "replay", f"{folder}/kept"], capture_output=True,
                              text=True)
        last = done.stdout.strip().split("\n")[-1]
        wrong = [] if last.startswith(f"replay: {len(kinds)} passed, 0 failed, ") else [
            f"hashes: {last}, of {len(kinds)}\n{done.stdout[-2000:]}"]
        wrong += [f"no {kind} among {set(kinds)}" for kind in
                  ("all_reduce", "all_gather", "all_to_all", "broadcast") if kind not in kinds]
        wrong += check_unusable(lockstep, f"{folder}/kept", "hashes")
        changed = [next(call["file"] for call in calls if call["call"] == kind)
                   for kind in ("all_reduce", "all_to_all")]
        for name in changed:
            flip(f"{folder}/kept/{name}")
        done = subprocess.run([lockstep, "replay", f"{folder}/kept"], capture_output=True,
                              text=True)
        failed = re.findall(r"^FAIL\s+(\S+)", done.stdout, re.M)
        if done.returncode != 1 or sorted(failed) != sorted(changed):
            wrong.append(f"hashes after changes of {changed}: code {done.returncode}, {failed}")
        return wrong


def main():
    lockstep, program, stand_in = sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder:
        environment = dict(os.environ, MEET=f"{folder}/id", LD_LIBRARY_PATH=stand_in)
        subprocess.run([lockstep, "exec", "-n", "4", "--quiet", "--order",
                        "ring:proto=simple,nccl=2.28.9", "--record", f"{folder}/kept", "--payload",
                        "--", program], env=environment, check=True)
        kept = sorted(glob.glob(f"{folder}/kept/call_*.safetensors"))
        with open(f"{folder}/kept/exec.json", encoding="utf-8") as file:
            calls = json.load(file)["calls"]
        with_data = [call for call in calls if "file" in call]
        named = [call["file"] for call in with_data]
        numbers = [f"call_{i:06}.safetensors" for i, call in enumerate(calls) if "file" in call]
        done = subprocess.run([lockstep, "replay", f"{folder}/kept"], capture_output=True,
                              text=True)
        last = done.stdout.strip().split("\n")[-1]
        expected = f"replay: {len(with_data)} passed, 0 failed, "
        wrong = [] if last.startswith(expected) and len(kept) == len(with_data) > 90 else [
            f"{last}, not {expected}, of {len(kept)} files\n{done.stdout[-2000:]}"]
        wrong += [f"files {named}, not {numbers}"] if named != numbers else []
        wrong += check_unusable(lockstep, f"{folder}/kept", "data")
        changed = next(f"{folder}/kept/{call['file']}" for call in with_data
                       if call["call"] == "all_gather")
        flip(changed)
        done = subprocess.run([lockstep, "replay", f"{folder}/kept"], capture_output=True,
                              text=True)
        failed = re.findall(r"^FAIL\s+(\S+)", done.stdout, re.M)
        if done.returncode != 1 or failed != [os.path.basename(changed)]:
            wrong.append(f"after a change of {os.path.basename(changed)}: code {done.returncode}, "
                         f"failed {failed}")
        wrong += check_hashes(lockstep, program, stand_in)
        print("\n".join(wrong))
        return len(wrong)


if __name__ == "__main__":
    sys.exit(main())
