"""Kills one rank of a real run with SIGKILL: killed_rank.py PROGRAM.

The run must end within its deadline with the finding rank.died, which names the rank and the signal, and exit code 3, since the environment
caused it. No process may remain.
"""
import glob
import json
import os
import signal
import subprocess
import sys
import tempfile
import time

SCENARIO = """lockstep: 1
name: a rank is killed
mesh: {shape: [3]}
program:
  steps:
"""
STEP = "    - all_reduce: {count: 1000, dtype: f32}\n"


def rank_pids(folder):
    """Process ids of the announced ranks, by rank: from files below the folder."""
    pids = {}
    for path in glob.glob(os.path.join(folder, "*", "marks", "rank_*.pid")):
        try:
            with open(path, encoding="utf-8") as file:
                pids[int(path[:-4].rpartition("_")[2])] = int(file.read().split()[0])
        except (OSError, IndexError):
            pass
    return pids


def is_left(pid):
    try:
        with open("/proc/%d/cmdline" % pid, encoding="utf-8") as file:
            return "--runs" in file.read().split("\0")
    except OSError:
        return False


def main():
    program = sys.argv[1]
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "kill.yaml")
        with open(path, "w") as file:
            file.write(SCENARIO + STEP * 2000)
        begin = time.time()
        compare = subprocess.Popen(
            [program, "compare", path, "--real", "mpi", "--deadline", "600", "--json", "-"],
            env=dict(os.environ, TMPDIR=folder), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            text=True)
        pids = {}
        while len(pids) < 3 and time.time() - begin < 600 and compare.poll() is None:
            time.sleep(0.005)
            pids = rank_pids(folder)
        assert len(pids) == 3, "the three ranks were not seen: %s" % pids
        time.sleep(0.1)
        os.kill(pids[1], signal.SIGKILL)
        output, errors = compare.communicate()
        assert compare.returncode == 3, (compare.returncode, output, errors)
        case = json.loads(output)["cases"][0]
        finding = case["findings"][0]
        assert finding["id"] == "rank.died" and finding["ranks"] == [1], finding
        assert "signal 9" in finding["text"], finding
        time.sleep(0.2)
        assert not any(map(is_left, pids.values())), "processes are left behind"
    print("rank 1 was named")


main()
