"""How jobs end that cannot end themselves, and jobs that run beside others: nothing remains, and one line gives the reason. ends.py
LOCKSTEP PROGRAM STAND_IN_FOLDER CASE

rank, coordinator, launcher: that process is killed while all ranks wait for one; recordings up to then are kept if a process is left that
can. mpi: MPI's launcher starts the ranks. shm: /dev/shm is full. two: two jobs at once. many: 64 ranks. left: a rank leaves a process
behind, which is ended with the run.
"""
import glob
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from check import left_running

SKIP = 77
PATIENCE_S = 600
# As torchrun starts them: with RANK and WORLD_SIZE; torchrun ends by itself.
LAUNCHER = """
import os, subprocess, sys
ranks = [subprocess.Popen(sys.argv[1:], env=dict(os.environ, RANK=str(rank), WORLD_SIZE="4"))
         for rank in range(4)]
sys.exit(max(rank.wait() for rank in ranks))
"""


def environment_of(folder, stand_in):
    return dict(os.environ, MEET=f"{folder}/id", LD_LIBRARY_PATH=stand_in, STAND_IN_GPUS="1")


def wait_for(what, found):
    """The result of `found` once it is true."""
    for _ in range(PATIENCE_S * 100):
        if (value := found()):
            return value
        time.sleep(0.01)
    raise SystemExit(f"{what}: waited in vain")


def process_of(folder, program, rank):
    """The rank's process, once it is the program."""
    for pid in left_running(folder):
        try:
            with open(f"/proc/{pid}/environ", "rb") as file:
                mine = f"\0RANK={rank}\0".encode() in b"\0" + file.read()
            if mine and os.path.samefile(os.readlink(f"/proc/{pid}/exe"), program):
                return int(pid)
        except OSError:
            pass
    return None


def start(lockstep, stand_in, folder, options, command):
    return subprocess.Popen([lockstep, "exec", "--json", f"{folder}/report.json", *options, "--",
                             *command], env=environment_of(folder, stand_in),
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def case_of(folder):
    with open(f"{folder}/report.json", encoding="utf-8") as file:
        return json.load(file)["cases"][0]


def first_of(folder):
    findings = case_of(folder)["findings"]
    return (findings[0]["id"], findings[0]["ranks"]) if findings else None


def kill(whom, lockstep, program, stand_in, folder):
    launched = [sys.executable, "-c", LAUNCHER] if whom == "launcher" else []
    job = start(lockstep, stand_in, folder,
                [*([] if launched else ["-n", "4"]), "--record", f"{folder}/recording"],
                [*launched, program, "stall"])
    ranks = [wait_for(f"rank {rank}", lambda rank=rank: process_of(folder, program, rank))
             for rank in range(4)]
    wait_for("the ranks' meeting", lambda: os.path.exists(f"{folder}/id"))
    victim = {"rank": ranks[2], "coordinator": job.pid}.get(whom)
    if victim is None:
        with open(f"/proc/{ranks[0]}/status", encoding="utf-8") as file:
            victim = int(re.search(r"^PPid:\s+(\d+)", file.read(), re.M).group(1))
    os.kill(victim, signal.SIGKILL)
    _, said = job.communicate(timeout=PATIENCE_S)
    wait_for(f"the end of what {whom} leaves", lambda: not left_running(folder))
    if whom == "coordinator":
        wait_for("the end of its recording", lambda: not glob.glob(f"{folder}/recording*"))
        return [] if job.returncode == -signal.SIGKILL else [f"code {job.returncode}"]
    wrong = [] if job.returncode == 3 else [f"code {job.returncode}, not 3"]
    if glob.glob(f"{folder}/recording*") != [f"{folder}/recording"]:
        return [*wrong, f"the recording: {os.listdir(folder)}"]
    os.mkdir(f"{folder}/beside")  # may be read by the same people
    if os.stat(f"{folder}/recording").st_mode != os.stat(f"{folder}/beside").st_mode:
        wrong.append("the recording may not be read by others")
    case = case_of(folder)
    if whom == "rank" and first_of(folder) != ("rank.died", [2]):
        wrong.append(f"{case['findings']}\n{said}")
    if whom == "launcher" and not ("killed" in (case.get("error") or "") or case["findings"]):
        wrong.append(f"the launcher's end is not told: {case}")
    return wrong


def run(lockstep, stand_in, folder, options, command, expected):
    """The difference from the expected finding and its ranks, or None."""
    job = start(lockstep, stand_in, folder, options, command)
    out, said = job.communicate(timeout=2 * PATIENCE_S)
    found = first_of(folder)
    good = found == expected and job.returncode == (0 if expected is None else 1)
    return [] if good else [f"{command}: code {job.returncode}, {found}\n{out}\n{said}"]


def full(lockstep, program, stand_in, folder):
    """With its own /dev/shm, which is full."""
    mount = "mount -t tmpfs -o size=4k none /dev/shm && cp /bin/sh /dev/shm/full 2>/dev/null; exec "
    inside = ["unshare", "-m", "sh", "-c"]
    if subprocess.run([*inside, mount.replace("exec", "test -e /dev/shm/full")], check=False,
                      stderr=subprocess.DEVNULL).returncode != 0:
        print("no file system can be mounted here")
        return None
    words = f"{lockstep} exec -n 4 --json {folder}/report.json -- {program}"
    done = subprocess.run([*inside, mount + words], env=environment_of(folder, stand_in),
                          capture_output=True, text=True, check=False, timeout=2 * PATIENCE_S)
    return [] if done.returncode == 0 else [f"code {done.returncode}\n{done.stdout}{done.stderr}"]


def mpi(lockstep, program, stand_in, folder):
    launcher = shutil.which("mpiexec.mpich")
    if launcher is None:
        print("there is no mpiexec.mpich")
        return None
    rank = f"RANK=$PMI_RANK WORLD_SIZE=$PMI_SIZE exec {program} op"
    return run(lockstep, stand_in, folder, [], [launcher, "-n", "4", "sh", "-c", rank],
               ("collective.op_mismatch", [2]))


def two(lockstep, program, stand_in, folder):
    """One with a defect and one without, which do not affect each other."""
    os.mkdir(f"{folder}/other")
    other = start(lockstep, stand_in, f"{folder}/other", ["-n", "4"], [program, "dtype"])
    wrong = run(lockstep, stand_in, folder, ["-n", "4"], [program], None)
    other.communicate(timeout=2 * PATIENCE_S)
    found = first_of(f"{folder}/other")
    return wrong if found == ("collective.dtype_mismatch", [2]) else [*wrong, f"other: {found}"]


def main():
    lockstep, program, stand_in, case = sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder:
        if case in ("rank", "coordinator", "launcher"):
            wrong = kill(case, lockstep, program, stand_in, folder)
        elif case == "left":
            behind = f"setsid sleep 3000 > /dev/null 2>&1 & exec {program}"
            wrong = run(lockstep, stand_in, folder, ["-n", "4"], ["sh", "-c", behind], None)
        elif case == "many":
            wrong = run(lockstep, stand_in, folder, ["-n", "64"], [program], None)
        else:
            wrong = {"shm": full, "two": two, "mpi": mpi}[case](lockstep, program, stand_in, folder)
        if wrong is None:
            return SKIP
        left = left_running(folder)
        wrong += [f"left running: {left}"] if left else []
    print("\n".join(wrong))
    return len(wrong)


if __name__ == "__main__":
    sys.exit(main())
