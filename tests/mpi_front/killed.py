"""lockstep mpi killed with SIGKILL at a random moment leaves nothing: no process, no file, no shared memory. If its child is killed, or
if SIGTERM ends it, it says so and ends with code 3; Ctrl-C ends it by SIGINT. killed.py BUILD SOURCES MPICC KILLS [SEED]; MPICC "" leaves out runs beside MPICH; try it with 100 kills.
"""
import os
import random
import signal
import subprocess
import sys
import tempfile
import time

PATIENCE_S = 60  # time for the clean-up
WAYS = ([], ["--explore", "100"], ["--compare", "mpich"])

# the signal, whether a child gets it, the exit code, the words on stderr
ENDS = (
    (signal.SIGKILL, True, 3, "was killed by signal 9"),
    (signal.SIGTERM, True, 3, "was killed by signal 15"),
    (signal.SIGTERM, False, 3, "signal 15 (Terminated) ended the command"),
    (signal.SIGHUP, False, 3, "signal 1 (Hangup) ended the command"),
    (signal.SIGINT, False, -signal.SIGINT, "signal 2 (Interrupt) ended the command"),
)


def processes_of(folder):
    """Processes with the folder in their environment, or working in it."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/environ", "rb") as file:
                carries = f"TMPDIR={folder}".encode() in file.read()
            if carries or os.readlink(f"/proc/{pid}/cwd").startswith(folder):
                found.append(pid)
        except OSError:
            pass
    return found


def shared_memory():
    return {name for name in os.listdir("/dev/shm") if not name.startswith("sem.")}


def left(folder, tmp, shared):
    """Leftovers; the reaper of a run may take its time."""
    end = time.monotonic() + PATIENCE_S
    while True:
        found = processes_of(folder), os.listdir(tmp), shared_memory() - shared
        if not any(found) or time.monotonic() > end:
            return found
        time.sleep(0.05)


def default_signals():
    """A shell's background jobs ignore SIGINT."""
    for number, *_ in ENDS:
        if number != signal.SIGKILL:
            signal.signal(number, signal.SIG_DFL)


def ignored(build, program, folder, tmp, shared):
    """A command that was started with SIGHUP ignored, as by nohup, runs on."""
    run = subprocess.Popen([os.path.join(build, "lockstep"), "mpi", "-n", "2", program], cwd=folder,
                           env={**os.environ, "TMPDIR": tmp}, stdout=subprocess.DEVNULL,
                           stderr=subprocess.DEVNULL,
                           preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
    time.sleep(0.5)
    os.kill(run.pid, signal.SIGHUP)
    time.sleep(0.5)
    assert run.poll() is None, run.returncode
    run.kill()
    run.wait()
    assert not any(left(folder, tmp, shared))


def kill_one(build, program, folder, tmp, number, child):
    """The exit code and the messages of a command that is killed, or whose child is."""
    run = subprocess.Popen([os.path.join(build, "lockstep"), "mpi", "-n", "2", program], cwd=folder,
                           env={**os.environ, "TMPDIR": tmp}, stdout=subprocess.DEVNULL,
                           stderr=subprocess.PIPE, text=True, preexec_fn=default_signals)
    children = ""
    while not children:
        with open(f"/proc/{run.pid}/task/{run.pid}/children", encoding="utf-8") as file:
            children = file.read()
    time.sleep(0.2)
    os.kill(int(children.split()[0]) if child else run.pid, number)
    text = run.communicate()[1]
    return run.returncode, text


def main():
    build, sources, mpicc, kills = os.path.abspath(sys.argv[1]), *sys.argv[2:5]
    draw = random.Random(int(sys.argv[5]) if len(sys.argv) > 5 else 1)
    ways = [way for way in WAYS if mpicc or "--compare" not in way]
    source = os.path.join(sources, "killed.c")
    with tempfile.TemporaryDirectory() as folder:
        folder = os.path.realpath(folder)
        program, tmp = os.path.join(folder, "killed"), os.path.join(folder, "tmp")
        subprocess.run([os.path.join(build, "lockstep-cc"), source, "-o", program], check=True)
        if mpicc:
            subprocess.run([mpicc, source, "-o", program + ".mpich"], check=True)
        os.mkdir(tmp)
        shared = shared_memory()
        for kill in range(int(kills)):
            way = ways[kill % len(ways)]
            # A separate session: only the command itself is killed.
            run = subprocess.Popen([os.path.join(build, "lockstep"), "mpi", "-n", "4", *way, program],
                                   cwd=folder, env={**os.environ, "TMPDIR": tmp},
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                   start_new_session=True)
            time.sleep(draw.random() ** 2 * 1.5)
            early = run.poll()
            run.kill()
            run.wait()
            found = left(folder, tmp, shared)
            assert early is None, f"kill {kill}: it ended with {early} before"
            assert not any(found), f"kill {kill} of {way}: left {found}"
        for number, child, expected, words in ENDS:
            code, text = kill_one(build, program, folder, tmp, number, child)
            found = left(folder, tmp, shared)
            assert (code, any(found)) == (expected, False), (number, child, code, text, found)
            assert words in text, text
        ignored(build, program, folder, tmp, shared)
    print(f"{kills} kills, and nothing is left")


main()
