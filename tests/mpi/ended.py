"""Ends whatever a test has started when the test ends, even by SIGKILL, or COMMAND's, with its exit
code: ended.py COMMAND...

MPI's ranks have sessions of their own, and where their proxy is killed they spin on without a
parent. So all that a test starts carries a mark in its environment, and a process without it waits
for the test's end, which is the end of a pipe, and kills what has the mark."""
import os
import signal
import subprocess
import sys
import time
import uuid

MARK = "LOCKSTEP_TEST_PROCESSES"
QUIET_SECONDS = 0.5  # nothing new comes from processes that are being killed


def marked(value):
    """The processes that carry the mark."""
    wanted, found = f"{MARK}={value}".encode(), []
    for name in os.listdir("/proc"):
        try:
            with open(f"/proc/{name}/environ", "rb") as file:
                if name.isdigit() and wanted in file.read().split(b"\0"):
                    found.append(int(name))
        except OSError:
            pass
    return found


def watch(value):
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(number, signal.SIG_IGN)
    sys.stdin.buffer.read()
    quiet_until = time.monotonic() + QUIET_SECONDS
    while time.monotonic() < quiet_until:
        for pid in marked(value):
            try:
                os.kill(pid, signal.SIGKILL)
                quiet_until = time.monotonic() + QUIET_SECONDS
            except OSError:
                pass
        time.sleep(0.02)


def begin():
    """Marks what this process starts from now on; the mark's value."""
    value = str(uuid.uuid4())
    # The pipe's other end is this process's alone, so that it closes with it.
    reading, _ = os.pipe()
    subprocess.Popen([sys.executable, os.path.abspath(__file__), "--watch", value], stdin=reading,
                     stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
    os.close(reading)
    os.environ[MARK] = value
    return value


if __name__ == "__main__":
    if sys.argv[1:2] == ["--watch"]:
        watch(sys.argv[2])
    else:
        begin()
        code = subprocess.run(sys.argv[1:], check=False).returncode
        sys.exit(code if code >= 0 else 128 - code)
