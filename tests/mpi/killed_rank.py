"""Kills one rank of a real run with SIGKILL: killed_rank.py PROGRAM.

The run must end within its deadline with the finding rank.died, naming the rank and the signal, and
exit code 3, since the environment did it; and leave no process behind.
"""
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


def rank_pids(scenario):
    """Process ids of the ranks started for the scenario file that say they live, by rank."""
    pids = {}
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            with open("/proc/%s/cmdline" % entry, "rb") as file:
                words = file.read().decode().split("\0")
            with open("/proc/%s/environ" % entry, "rb") as file:
                environment = file.read().decode(errors="replace").split("\0")
        except OSError:
            continue
        if not words or not words[0].endswith("lockstep-mpi") or scenario not in words:
            continue
        marks = words[words.index("--marks") + 1]
        for line in environment:
            if line.startswith("PMI_RANK="):
                rank = int(line[len("PMI_RANK="):])
                if os.path.exists(os.path.join(marks, "rank_%d.pid" % rank)):
                    pids[rank] = int(entry)
    return pids


def main():
    program = sys.argv[1]
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "kill.yaml")
        with open(path, "w") as file:
            file.write(SCENARIO + STEP * 2000)
        begin = time.time()
        compare = subprocess.Popen(
            [program, "compare", path, "--real", "mpi", "--deadline", "60", "--json", "-"],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        pids = {}
        while len(pids) < 3 and time.time() - begin < 150 and compare.poll() is None:
            time.sleep(0.005)
            pids = rank_pids(path)
        assert len(pids) == 3, "the three ranks were not seen: %s" % pids
        time.sleep(0.1)
        os.kill(pids[1], signal.SIGKILL)
        output, errors = compare.communicate(timeout=120)
        assert compare.returncode == 3, (compare.returncode, output, errors)
        case = json.loads(output)["cases"][0]
        finding = case["findings"][0]
        assert finding["id"] == "rank.died" and finding["ranks"] == [1], finding
        assert "signal 9" in finding["text"], finding
        time.sleep(0.2)
        assert not rank_pids(path), "processes are left behind"
    print("rank 1 was named")


main()
