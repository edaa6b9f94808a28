"""Sessions that a file of commands cannot express: control.py LOCKSTEP.

The interrupt key stops ranks that loop; deadlines do not expire while a run is stopped; a killed debugger or killed ranks leave no process.
"""
import os
import pty
import re
import signal
import subprocess
import sys
import tempfile
import time

LOOP = """
import os, time
rank = int(os.environ["RANK"])
count = 0
while True:
    count += 1
    time.sleep(0.01)
"""
CHILD = """
import os, threading
rank = int(os.environ["RANK"])
child = os.fork()
if child == 0:
    breakpoint()
    os._exit(0)
os.waitpid(child, 0)
def inner():
    local = rank
    breakpoint()
    return local
thread = threading.Thread(target=inner)
thread.start()
thread.join()
after = 1
"""


class Terminal:
    """A session on a separate terminal."""

    def __init__(self, command, folder):
        self.pid, self.file = pty.fork()
        if self.pid == 0:
            os.chdir(folder)
            os.environ.update(TERM="dumb")
            os.execvp(command[0], command)
        self.text = ""

    def until(self, wanted, seconds=120):
        """The text up to a match."""
        end = time.monotonic() + seconds
        while not (found := re.search(wanted, self.text)):
            if time.monotonic() > end:
                raise AssertionError(f"no {wanted!r} in {self.text!r}")
            try:
                self.text += os.read(self.file, 1 << 16).decode(errors="replace").replace("\r", "")
            except OSError:
                raise AssertionError(f"no {wanted!r} before the end: {self.text!r}") from None
        before, self.text = self.text[:found.end()], self.text[found.end():]
        return before

    def type(self, text):
        self.until(r"\(lockstep\) $|\(lockstep\) (?=\Z)")
        os.write(self.file, text.encode() + b"\n")

    def end(self):
        while True:
            try:
                got = os.read(self.file, 1 << 16)
            except OSError:
                got = b""
            if not got:
                break
            self.text += got.decode(errors="replace")
        os.close(self.file)
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


def alive(pattern):
    """Processes whose environment has the mark of this test."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/environ", "rb") as file:
                if pattern.encode() in file.read() and int(pid) != os.getpid():
                    with open(f"/proc/{pid}/stat", encoding="utf-8") as stat:
                        found += [int(pid)] if stat.read().split(") ")[1][0] != "Z" else []
        except OSError:
            pass
    return found


def gone(mark):
    end = time.monotonic() + 60
    while alive(mark) and time.monotonic() < end:
        time.sleep(0.05)
    assert not alive(mark), f"processes are left: {alive(mark)}"


def interrupted(lockstep, folder, script):
    """Ctrl-C, twice; then the deadline passes while the ranks are stopped."""
    session = Terminal([lockstep, "exec", "--debug", "--deadline", "3", "-n", "3", "--", "python3", script], folder)
    for _ in range(2):
        session.type("cont")
        time.sleep(1)
        os.write(session.file, b"\x03")
        shown = session.until(r"\[rank 0\] .*\n")
        assert re.search(r"loop.py:[567]", shown), shown
    time.sleep(4)  # longer than the deadline
    session.type("ranks")
    table = session.until(r"   2     stopped .*\n")
    assert table.count("stopped") == 3, table
    session.type("each count > 0")
    assert session.until(r"   2     True\n").count("True") == 3
    session.type("quit")
    assert session.end() == 5, session.text


def killed(lockstep, folder, script, mark):
    """The debugger is killed at its prompt, and while ranks run."""
    for at_prompt in (True, False):
        session = Terminal([lockstep, "exec", "--debug", "-n", "2", "--", "python3", script], folder)
        session.type("cont")
        time.sleep(0.5)
        if at_prompt:
            os.write(session.file, b"\x03")
            session.until(r"\[rank 0\] .*\n")
        os.kill(session.pid, signal.SIGKILL)
        session.end()
        gone(mark)


def threads(lockstep, folder, script):
    done = subprocess.run([lockstep, "exec", "--debug", "-n", "2", "--", "python3", script], cwd=folder, text=True, timeout=120,
                          input="cont\neach local\nnext\nnext\nranks\ncont\n", stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
    assert "a breakpoint in a child process of a rank is ignored" in done.stderr, done.stderr
    for part in ("inner () at child.py:11", "*  0     0\n   1     1\n", "stopped        child.py:1"):
        assert part in done.stdout, (part, done.stdout)
    assert done.returncode == 5, done.stdout  # no calls


def damaged(lockstep, folder):
    """Files of a post-mortem may be hostile: exit code 2 and a message, whatever they contain."""
    kept = os.path.join(folder, "kept")
    os.mkdir(kept)
    good = '{"format": 1, "ranks": 1, "finding": null, "raised": {}}'
    frame = '{"file": "a.py", "line": 3, "function": "f", "locals": {"x": %s}, "source": []}'
    for core, rank, code, wanted in (
            ("[", "{}", 2, "not a post-mortem"), ('{"ranks": "a"}', "{}", 2, "not a post-mortem"), (good, "[1]", 2, "not a post-mortem"),
            (good, "[" * 100000, 2, "not a post-mortem"), (good, '{"frames": 3}', 2, "not a post-mortem"),
            (good, '{"frames": [%s], "call": "c"}' % (frame % '{"shown": "s", "shape": [2], "elements": 7}'), 0, "f () at a.py:3")):
        for name, text in (("core.json", core), ("rank0.json", rank)):
            with open(os.path.join(kept, name), "w", encoding="utf-8") as file:
                file.write(text)
        done = subprocess.run([lockstep, "gdb", "--core", kept], text=True, input="where\np x\np x[0]\neach x\ndiff x\nlist\n",
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=60, check=False)
        assert done.returncode == code and wanted in done.stdout and "Traceback" not in done.stdout, (rank[:80], done.returncode, done.stdout[-3000:])


def main():
    lockstep = os.path.abspath(sys.argv[1])
    mark = os.environ["LOCKSTEP_TEST_MARK"] = f"debugger-{os.getpid()}-{time.time_ns()}"
    with tempfile.TemporaryDirectory() as folder:
        scripts = {"loop.py": LOOP, "child.py": CHILD}
        for name, text in scripts.items():
            with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
                file.write(text)
        interrupted(lockstep, folder, "loop.py")
        killed(lockstep, folder, "loop.py", mark)
        threads(lockstep, folder, "child.py")
        damaged(lockstep, folder)
        gone(mark)
    print("interrupts, deadlines, killed debuggers, threads, children and damaged files: as expected")
    return 0


sys.exit(main())
