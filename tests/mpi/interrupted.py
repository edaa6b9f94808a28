"""Interrupts compare while real processes run: interrupted.py PROGRAM.

After Ctrl-C, SIGTERM or kill -9 no process remains, no temporary directory, no output.
"""
import os
import signal
import subprocess
import sys
import tempfile
import time

SCENARIO = """lockstep: 1
name: interrupted
mesh: {shape: [4]}
tables:
  - {name: p, rows: 100000, dim: 64, pooling: sum, features: [p], sharding: {type: row_wise}}
inputs:
  batch: 2000
  features:
    p: {lengths: {uniform: [0, 50]}, ids: {zipf: 1.05}}
"""


def processes(text):
    found = []
    for name in os.listdir("/proc"):
        try:
            line = open("/proc/%s/cmdline" % name).read() if name.isdigit() else ""
        except OSError:
            continue
        if text in line:
            found.append(name)
    return found


def wait_until(what, seconds):
    end = time.monotonic() + seconds
    while not what():
        if time.monotonic() > end:
            return False
        time.sleep(0.005)
    return True


def interrupt(program, how):
    with tempfile.TemporaryDirectory() as folder:
        scratch = os.path.join(folder, "scratch")
        os.mkdir(scratch)
        path = os.path.join(folder, "s.yaml")
        with open(path, "w") as file:
            file.write(SCENARIO)
        out = os.path.join(folder, "out.json")
        child = subprocess.Popen([program, "compare", path, "--real", "mpi", "--json", out],
                                 env=dict(os.environ, TMPDIR=scratch), start_new_session=True,
                                 stdout=subprocess.DEVNULL)
        def ranks_run():
            return any(name.endswith(".pid") for _, _, names in os.walk(scratch) for name in names)
        assert wait_until(ranks_run, 600), "the ranks never started"
        child.send_signal(how)
        assert child.wait(600) == -how, "it ended as interrupted programs do"
        assert wait_until(lambda: not processes(folder), 600), "still running: %s" % processes(folder)
        assert wait_until(lambda: not os.listdir(scratch), 600), "left: %s" % os.listdir(scratch)
        assert not os.path.exists(out)


signal.signal(signal.SIGINT, signal.SIG_DFL)  # background jobs of a shell ignore it
for one in (signal.SIGINT, signal.SIGTERM, signal.SIGKILL):
    interrupt(sys.argv[1], one)
print("nothing is left")
