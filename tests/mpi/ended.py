"""Ends all processes of a test when the test ends, even by SIGKILL, or those of COMMAND, with its exit code: ended.py COMMAND...

MPI's ranks have their own sessions, and without their proxy they spin without a parent. So every process of a test has a mark in its
environment. A process without the mark waits for the test's end, which closes a pipe, and kills the marked processes.
"""
import os
import signal
import subprocess
import sys
import time
import uuid

MARK = "LOCKSTEP_TEST_PROCESSES"
QUIET_SECONDS = 0.5  # processes that are being killed start no others


def marked(value):
    """The processes with the mark."""
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
    """Marks the processes that this one starts from now on; returns the mark's value."""
    value = str(uuid.uuid4())
    # Only this process has the pipe's other end, so it closes with the process.
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
