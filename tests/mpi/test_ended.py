"""No process of a test outlives it, whichever of its processes is killed: test_ended.py MPIEXEC MPI_RANKS. The ranks hang in a collective,
and without their proxy indefinitely.
"""
import os
import signal
import subprocess
import sys
import time

import ended

LONG = 900


def names(pids):
    found = {}
    for pid in pids:
        try:
            with open(f"/proc/{pid}/cmdline", encoding="utf-8") as file:
                found[pid] = file.read().split("\0")
        except OSError:
            pass
    return found


def mark_of(pid):
    """The mark under which the child starts others."""
    for name in os.listdir("/proc"):
        try:
            with open(f"/proc/{name}/stat", encoding="utf-8") as file:
                parent = int(file.read().rsplit(")", 1)[1].split()[1])
            if parent == pid:
                with open(f"/proc/{name}/environ", encoding="utf-8") as file:
                    for entry in file.read().split("\0"):
                        if entry.startswith(ended.MARK + "="):
                            return entry.split("=", 1)[1]
        except (OSError, IndexError, ValueError):
            pass
    return None


def until(what):
    end = time.monotonic() + LONG
    while not (got := what()) and time.monotonic() < end:
        time.sleep(0.02)
    return got


def trial(victim):
    test = subprocess.Popen([sys.executable, ended.__file__, sys.argv[1], "-n", "3", sys.argv[2],
                             "left_out"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    mark = until(lambda: mark_of(test.pid))
    of = lambda role: [pid for pid, words in names(ended.marked(mark)).items()
                       if role in os.path.basename(words[0])]
    ranks = until(lambda: len(of("mpi_ranks")) >= 3 and of("mpi_ranks"))
    if not mark or not ranks:
        test.kill()
        return f"{victim}: the ranks did not start"
    for pid in of(victim):
        os.kill(pid, signal.SIGKILL)
    test.kill()
    test.wait()
    if not until(lambda: not ended.marked(mark)):
        return f"{victim}: left: {names(ended.marked(mark))}"
    return None


failures = [told for told in map(trial, ("pmi_proxy", "mpiexec", "nobody")) if told]
print("\n".join(failures) or "nothing is left")
sys.exit(1 if failures else 0)
