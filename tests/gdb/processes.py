"""`lockstep exec --gdb` at a terminal and in scripts: processes.py BUILD

Ctrl-C stops all ranks. Ranks may fork or crash. Exit codes are those of `lockstep exec`, and excluded options are refused. A session that ends,
or whose gdb is killed, leaves no process and no file. Exit code 77: there is no gdb, or it is version 13.
"""
import os
import pty
import shutil
import signal
import subprocess
import sys
import tempfile
import time

PROMPT = b"(gdb) "


def need(ok, what):
    if not ok:
        print(what)
        sys.exit(1)


class Test:
    def __init__(self, build, folder):
        self.lockstep, self.descent = os.path.join(build, "lockstep"), os.path.join(build, "tests/exec/descent")
        self.folder, self.made = folder, 0
        self.environment = {**os.environ, "LC_ALL": "C.UTF-8", "HOME": folder, "TMPDIR": os.path.join(folder, "tmp"),
                            "LD_LIBRARY_PATH": os.path.join(build, "tests/exec")}
        self.environment.pop("XDG_CONFIG_HOME", None)
        os.mkdir(self.environment["TMPDIR"])

    def command(self, *words):
        """A new session: its file of the unique id tells its processes from others."""
        self.made += 1
        self.environment["MEET"] = os.path.join(self.folder, f"meet{self.made}")
        return [self.lockstep, "exec", "--gdb", *words[:-1], "-n", "4", "--", self.descent, words[-1]]

    def processes(self):
        mark, found = ("MEET=" + self.environment["MEET"] + "\0").encode(), []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{pid}/environ", "rb") as file:
                    found += [int(pid)] if mark in file.read() else []
            except OSError:
                pass
        return found

    def nothing_left(self):
        while self.processes() or os.listdir(self.environment["TMPDIR"]):
            time.sleep(0.01)

    def script(self, commands, *words, code):
        text = "".join(line + "\n" for line in ["set pagination off", "set width 0", *commands])
        done = subprocess.run(self.command(*words), env=self.environment, input=text, text=True, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, check=False)
        need(done.returncode == code, f"exit code {done.returncode}, not {code}:\n{done.stdout}")
        need("Traceback" not in done.stdout and "Python Exception" not in done.stdout, done.stdout)
        self.nothing_left()
        return done.stdout


class Terminal:
    def __init__(self, test, *words):
        self.pid, self.file = pty.fork()
        if self.pid == 0:
            command = test.command(*words)
            os.execvpe(command[0], command, test.environment)
        test.made += 1  # as in the child
        test.environment["MEET"] = os.path.join(test.folder, f"meet{test.made}")

    def until(self, what):
        text = b""
        while what not in text:
            try:
                more = os.read(self.file, 1 << 16)
            except OSError:
                more = b""
            need(more, f"no {what} in {text.decode(errors='replace')}")
            text += more
        return text.decode(errors="replace")

    def give(self, line):
        os.write(self.file, line.encode() + b"\n")
        return self.until(PROMPT)

    def end(self):
        """Its exit code and what it printed."""
        text = b""
        try:
            while more := os.read(self.file, 1 << 16):
                text += more
        except OSError:
            pass
        status = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        os.close(self.file)
        return status, text.decode(errors="replace")


def state_of(process):
    try:
        with open(f"/proc/{process}/stat", encoding="utf-8", errors="replace") as file:
            return file.read().rpartition(")")[2].split()[0]
    except OSError:
        return ""


def terminal(test):
    at = Terminal(test, "absent")
    at.until(PROMPT)
    for line in ("set pagination off", "set width 0", "set confirm off"):
        at.give(line)
    need("4 ranks" not in at.give("ranks"), "no rank has joined")
    os.write(at.file, b"break from_device\ncontinue\n")
    at.until(b"Continuing.")
    while not os.path.exists(test.environment["MEET"]):
        time.sleep(0.01)
    os.write(at.file, b"\x03")
    shown = at.until(PROMPT)
    need("received signal SIGINT" in shown, shown)
    shown = at.give("rank 3")
    need("[rank 3]" in shown, shown)
    shown = at.give("print own_rank")
    need("$1 = 3" in shown, shown)
    shown = at.give("inferior 1")
    shown = at.give("print ls_gdb_stopped_ns != 0")
    need("$2 = 1" in shown, "the coordinator's clock goes on: " + shown)
    os.write(at.file, b"continue\n")
    at.until(b"Continuing.")
    while any(state_of(process) == "t" for process in test.processes()):  # gdb 13 loops where Ctrl-C comes before it has resumed all
        time.sleep(0.01)
    os.write(at.file, b"\x03")
    shown = at.until(PROMPT)
    os.write(at.file, b"quit\n")
    code, rest = at.end()
    need(code == 5, f"a session that was ended before a finding: exit code {code}\n{shown}{rest}")
    test.nothing_left()


def killed(test):
    at = Terminal(test, "absent")
    at.until(PROMPT)
    os.write(at.file, b"continue\n")
    at.until(b"Continuing.")
    while not os.path.exists(test.environment["MEET"]):
        time.sleep(0.01)
    os.kill(at.pid, signal.SIGKILL)
    at.end()
    test.nothing_left()


def scripts(test):
    shown = test.script(["continue"], "", code=0)
    need("exec: 1 passed" in shown, shown)
    shown = test.script(["continue"], "fork", code=0)
    need("exec: 1 passed" in shown, shown)
    shown = test.script(["continue", "print $rank()", "continue"], "crash", code=3)
    need("received signal SIGSEGV" in shown and "$1 = 2" in shown and "rank.died, rank 2" in shown, shown)
    shown = test.script(["catch finding", "continue"], "late", code=1)
    need("finding collective.kind_mismatch of rank 1" in shown and "FAIL" not in shown, shown)
    shown = test.script(["catch finding", "continue", "continue"], "late", code=1)
    need("FAIL" in shown, shown)
    shown = test.script(["break descent.c:67 if $rank() == 1 && step == 1", "continue", "next", "next", "info locals", "kill inferiors 1"],
                        "--deadline", "100", "", code=5)
    need("step = 1" in shown and "update();" in shown, shown)


def usage(test):
    for words, text in (((["--debug"]), "--gdb excludes --debug"), (["--core", "x"], "--gdb excludes"), (["--observe"], "--gdb excludes"),
                        (["--start", "fork"], "--gdb excludes")):
        done = subprocess.run(test.command(*words, ""), env=test.environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
        need(done.returncode == 2 and text in done.stderr, f"{words}: {done.returncode}: {done.stderr}")
    done = subprocess.run([test.lockstep, "exec", "--gdb", "--", test.descent], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    need(done.returncode == 2 and "--gdb requires -n" in done.stderr, done.stderr)


def main():
    if shutil.which("gdb") is None:
        print("skipped: gdb is not installed")
        sys.exit(77)
    with tempfile.TemporaryDirectory() as folder:
        test = Test(os.path.abspath(sys.argv[1]), folder)
        usage(test)
        scripts(test)
        terminal(test)
        killed(test)
    print("sessions of all ranks leave nothing")


main()
