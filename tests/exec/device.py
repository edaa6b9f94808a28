"""Calls whose data stays in GPU memory and calls through host memory give the same bits and findings: device.py PROGRAM_WITH_DEVICE
STAND_IN_FOLDER CASE PROGRAM

bits: of every call, in rank order and in NCCL's; small: the GPU has no room on some or all ranks; redundant, nan: bytes that a check must
read.
"""
import json
import os
import subprocess
import sys
import tempfile

NCCL = ["--order", "ring:proto=simple,nccl=2.28.9"]
FINITE = ["--checks=-value.inf_first"]  # products grow


def run(lockstep, stand_in, program, words, options, **more):
    """The ranks' output, the findings, and how often the device was used."""
    with tempfile.TemporaryDirectory() as folder:
        environment = dict(os.environ, MEET=f"{folder}/id", LD_LIBRARY_PATH=stand_in,
                           STAND_IN_GPUS="1", LOCKSTEP_EXEC_DEVICE="1",
                           DEVICE_USED=f"{folder}/used", **more)
        done = subprocess.run([lockstep, "exec", "-n", "4", "--json", f"{folder}/report.json",
                               *options, "--", program, *words], env=environment,
                              capture_output=True, text=True)
        with open(f"{folder}/used", encoding="utf-8") as file:
            used, live = map(int, file.read().split())
        with open(f"{folder}/report.json", encoding="utf-8") as file:
            case = json.load(file)["cases"][0]
        print(*options, *words, "exit", done.returncode, "used", used, done.stderr[-2000:])
        if live != 0:
            raise SystemExit(f"{live} arrays of the device were left")
        ranks = sorted(line for line in done.stdout.split("\n") if line.startswith("rank "))
        told = [(found["id"], found["ranks"], found["where"]) for found in case["findings"]]
        told += [line for line in done.stderr.split("\n") if "warning: " in line]
        return (done.returncode, ranks, told), used


def main():
    lockstep, stand_in, case, program = sys.argv[1:]
    wrong = []
    if case == "bits":
        for order in (FINITE, FINITE + NCCL):
            plain, none = run(lockstep, stand_in, program, [], ["--device", "host", *order])
            there, used = run(lockstep, stand_in, program, [], order)
            wrong += [] if none == 0 and used > 500 else [f"device used {none}, {used} times"]
            wrong += [] if len(plain[1]) == 4 and plain[0] == 0 else [f"no clean run: {plain}"]
            wrong += [] if plain == there else [f"{plain}, but on the device {there}"]
    elif case == "small":
        plain, _ = run(lockstep, stand_in, program, [], [*FINITE, "--device", "host"])
        none, unused = run(lockstep, stand_in, program, [], FINITE,
                           STAND_IN_GPU_BYTES=str(64 << 20))
        some, used = run(lockstep, stand_in, program, [], FINITE, STAND_IN_FULL_RANK="2")
        wrong += [] if unused == 0 else [f"device used {unused} times without room"]
        wrong += [] if 0 < used < 100 else [f"{used} uses, where all but messages are of all ranks"]
        wrong += [] if plain == none == some else [f"{plain}, {none}, {some}"]
    else:
        plain, _ = run(lockstep, stand_in, program, [case], ["--device", "host"])
        there, used = run(lockstep, stand_in, program, [case], [])
        wrong += [] if used > 0 and plain[2] else [f"{used} uses, findings {plain[2]}"]
        wrong += [] if plain == there else [f"{plain}, but on the device {there}"]
    print("\n".join(wrong))
    return len(wrong)


if __name__ == "__main__":
    sys.exit(main())
