"""The processes of one run take the next: reuse.py PROGRAM.

Scenarios of two numbers of ranks take two sets of processes, in whatever order they come. One whose rank is killed fails alone; an injected
defect appears as in a separate run, and leaves nothing behind.
"""
import glob
import json
import os
import signal
import subprocess
import sys
import tempfile
import time

PROGRAM = sys.argv[1]
HEAD = "lockstep: 1\nname: run %d\nmesh: {shape: [%d]}\nprogram:\n  steps:\n"
CALL = "    - all_reduce: {count: 1000, dtype: f32}\n"
LATER = "    - barrier: {}\n"
DEFECT = """    - send_recv: {count: 4, pairs: [[0, 1]]}
    - all_reduce: {count: 8, except: [{ranks: [1], op: max}]}
expect: {finding: collective.op_mismatch, ranks: [1]}
"""


def write(folder, texts):
    paths = []
    for at, (ranks, text) in enumerate(texts):
        paths.append(os.path.join(folder, "run%d.yaml" % at))
        with open(paths[-1], "w", encoding="utf-8") as file:
            file.write(HEAD % (at, ranks) + text)
    return paths


def compare(folder, texts, watch):
    """Compares; calls watch(the marks' folders) now and then. The exit code and the cases."""
    tmp = os.path.join(folder, "tmp")
    os.makedirs(tmp, exist_ok=True)
    report = os.path.join(folder, "report.json")
    child = subprocess.Popen([PROGRAM, "compare", *write(folder, texts), "--real", "mpi", "--quiet",
                              "--json", report], env=dict(os.environ, TMPDIR=tmp),
                             stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    while child.poll() is None:
        watch(tmp)
        time.sleep(0.005)
    errors = child.communicate()[1]
    assert not os.listdir(tmp), os.listdir(tmp)
    with open(report, encoding="utf-8") as file:
        return child.returncode, json.load(file)["cases"], errors


def main():
    homes = set()
    with tempfile.TemporaryDirectory() as folder:
        texts = [(2, CALL), (3, CALL), (2, DEFECT), (3, CALL * 9), (2, CALL), (3, LATER + CALL)]
        code, cases, errors = compare(folder, texts, lambda tmp: homes.update(
            os.path.dirname(said) for said in glob.glob(os.path.join(tmp, "*", "said"))))
        assert code == 0 and [case["verdict"] for case in cases] == ["pass"] * 6, (cases, errors)
        # Two numbers of ranks; a defect's leftovers end with its processes.
        assert len(homes) <= 3, homes

    # More numbers of ranks than sets may wait: one set ends for the next, without leftovers.
    with tempfile.TemporaryDirectory() as folder:
        texts = [(ranks, CALL) for ranks in (1, 2, 3, 4, 5, 1)]
        code, cases, errors = compare(folder, texts, lambda tmp: None)
        assert code == 0 and [case["verdict"] for case in cases] == ["pass"] * 6, (cases, errors)

    killed = []

    def kill_in_the_second(tmp):
        marks = {os.path.dirname(path) for path in glob.glob(tmp + "/*/marks/rank_1.pid")}
        runs_long = [one for one in marks if one not in seen]
        seen.update(runs_long)
        if len(seen) == 2 and not killed and runs_long:
            with open(os.path.join(runs_long[0], "rank_1.pid"), encoding="utf-8") as file:
                killed.append(int(file.read().split()[0]))
            os.kill(killed[0], signal.SIGKILL)

    seen = set()
    with tempfile.TemporaryDirectory() as folder:
        # The first is long enough to be observed: each run has a separate folder.
        code, cases, errors = compare(folder, [(2, CALL * 200), (2, CALL * 800), (2, CALL)],
                                      kill_in_the_second)
        assert killed, "the second run was not seen"
        verdicts = [case["verdict"] for case in cases]
        assert code == 3 and verdicts == ["pass", "fail", "pass"], (code, verdicts, errors)
        finding = cases[1]["findings"][0]
        assert finding["id"] == "rank.died" and finding["ranks"] == [1], finding
    print("%d sets of processes for 6 runs; a death ends one run" % len(homes))


main()
