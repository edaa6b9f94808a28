"""Replaces the hub for programs whose ranks are threads: the ranks of a gdb with lockstep's extension, over its machine interface (MI)."""

import ast
import json
import os
import pty
import re
import selectors
import signal
import subprocess
import time
import tty

from lockstep.debugger.hub import ANSWER_SECONDS, ENDED, RUNNING, STOPPED, WAITS, Rank

START_SECONDS = 60  # gdb reads the debug information
PROGRAM = 1 << 20  # in place of a rank, while there are none
MPI_MARK = b"\0ls_mpi_image_main\0"  # a symbol of programs that lockstep-cc has linked


def command_of(lockstep, arguments):
    """The command that runs a C program or a scenario; None: the launch is for Python."""
    program = str(arguments.get("program") or "")
    given = arguments.get("args") or []
    words = given.split() if isinstance(given, str) else [str(word) for word in given]
    options = list(map(str, arguments.get("lockstepArgs") or []))
    count = ["-n", str(int(arguments["ranks"]))] if "ranks" in arguments else []
    if program.endswith((".yaml", ".yml")):
        return [lockstep, "run", *options, program]
    if program.split(":")[0].endswith(".so"):
        return [lockstep, "spmd", *count, *options, program, "--", *words]
    try:
        with open(program, "rb") as file:
            content = file.read()
    except OSError:
        return None
    if not content.startswith(b"\x7fELF"):
        return None
    return [lockstep, "mpi", *count, *options, program, "--", *words] if MPI_MARK in content else [program, *words]


class Record(Exception):
    """An error of gdb's."""


def _text(quoted):
    """A string of MI's."""
    return ast.literal_eval("b" + quoted).decode(errors="replace")


class GdbHub:
    """The interface of a hub. One rank stops the program; the others stay where they are."""

    threads = True

    def __init__(self, lockstep, command, output, cwd=None, environment=(), entry=False):
        self.ranks, self.expected, self.found, self.released, self.over, self.interrupted = {}, 0, None, False, False, False
        self.breakpoints, self.gathered, self.frames = [], False, []
        self.on_event, self.wanted = (lambda rank, message: None), (lambda: False)
        self._output, self._next, self._rest, self._stop, self._code, self._runs, self._numbers = output, 0, b"", None, 1, False, []
        self._results, self._console = {}, []
        self._poll = selectors.DefaultSelector()
        self._terminal, slave = pty.openpty()
        tty.setraw(slave)
        self._poll.register(self._terminal, selectors.EVENT_READ, self._hear_program)
        self.child = subprocess.Popen([lockstep, "gdb", "--interpreter=mi3", "--", *command], cwd=cwd, env={"NO_COLOR": "1", **os.environ, **dict(environment)},
                                      stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True)
        self._poll.register(self.child.stdout, selectors.EVENT_READ, self._hear)
        name = os.ttyname(slave)
        for line in ("-gdb-set mi-async on", "-gdb-set confirm off", "-gdb-set pagination off", "-gdb-set print thread-events off",
                     f"-inferior-tty-set {name}", '-interpreter-exec console "catch finding"', '-interpreter-exec console "catch divergence"'):
            self._do(line, START_SECONDS)
        self._slave, self._entry, self._begun = slave, entry, False

    # ---- gdb ----
    def watch(self, file, taken):
        self._poll.register(file, selectors.EVENT_READ, taken)

    def poll(self, seconds):
        if not self._begun:
            self._begin()
        for key, _ in self._poll.select(seconds):
            key.data(key.fileobj)

    def _begin(self):
        self.set_breakpoints(self.breakpoints)
        self._begun = True
        if self._entry:
            self._do("-break-insert -t -f ls_gdb_hook_enter")
        self._go("-exec-run")

    def _hear_program(self, file):
        try:
            data = os.read(file, 1 << 16)
        except OSError:
            data = b""
        if data:
            self._output(data.decode(errors="replace"))
        else:
            self._poll.unregister(file)

    def _hear(self, file):
        data = os.read(file.fileno(), 1 << 16)
        if not data:
            self._poll.unregister(file)
            self.over = True
            return
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            self._take(line.decode(errors="replace"))

    def _take(self, line):
        result = re.match(r"(\d+)\^(\w+)(?:,(.*))?", line)
        if result:
            self._results[int(result[1])] = (result[2], result[3] or "")
        elif line.startswith("~"):
            self._console.append(_text(line[1:]))
        elif line.startswith("*stopped"):
            self._stop, self._runs = line, False
        elif line.startswith("*running"):
            self._runs = True

    def _do(self, line, seconds=ANSWER_SECONDS):
        """Sends a command; the console's lines. Raises Record for gdb's error."""
        self._next += 1
        number, self._console = self._next, []
        try:
            self.child.stdin.write(f"{number}{line}\n".encode())
            self.child.stdin.flush()
        except OSError:
            self.over = True
        end = time.monotonic() + seconds
        while number not in self._results and not self.over and time.monotonic() < end:
            for key, _ in self._poll.select(0.1):
                if key.data in (self._hear, self._hear_program):
                    key.data(key.fileobj)
        how, more = self._results.pop(number, ("error", 'msg="gdb does not answer"'))
        if how == "error":
            message = re.match(r'msg=("(?:[^"\\]|\\.)*")', more)
            raise Record(_text(message[1]) if message else more)
        return "".join(self._console), more

    def _question(self, **asked):
        if self._runs:
            return {"error": "the program runs"}
        text = json.dumps(json.dumps(asked))
        try:
            shown, _ = self._do(f"-interpreter-exec console {json.dumps('lockstep-editor ' + json.loads(text))}")
        except Record as error:
            return {"error": str(error)}
        before, mark, answer = shown.rpartition("@lockstep ")
        return json.loads(answer.split("\n")[0]) if mark else {"error": before or "gdb does not answer"}

    def _go(self, line):
        self._runs, self._stop, self.gathered = True, None, False
        try:
            self._do(line, START_SECONDS)
        except Record as error:
            self._runs = False
            self._output(f"gdb: {error}\n")
            self._stop = "*stopped"

    # ---- Questions ----
    def living(self):
        return [rank for _, rank in sorted(self.ranks.items()) if rank.state != ENDED]

    def look(self):
        """Ranks do not move while the program is stopped."""

    def tell(self, word):
        if word == "quit":
            self._kill()

    def ask(self, ranks, do, _seconds=0, frames=None, **options):
        return {rank.number: self._question(do=do, rank=rank.number, frame=(frames or {}).get(rank.number, rank.frame), **options)
                for rank in ranks}

    def console(self, number, frame, text):
        """The output of a command of gdb's in the rank's frame."""
        answer = self._question(do="command", rank=number, frame=frame, expression=text)
        return answer.get("value", answer.get("error", ""))

    def _take_state(self):
        told = self._question(do="state")
        if "error" in told:
            self._output(f"gdb: {told['error']}\n")
            return
        if not told["ranks"] and told["frames"]:
            told["ranks"] = [{"rank": PROGRAM, "state": "running", "call": "", "frames": told["frames"], "selected": True}]
        for number in set(self.ranks) - {one["rank"] for one in told["ranks"]}:
            self._end(self.ranks[number])
        for one in told["ranks"]:
            number = one["rank"]
            if number not in self.ranks:
                rank = self.ranks[number] = Rank(number, None, 0)
                self.on_event(rank, {"joined": True})
            rank = self.ranks[number]
            rank.frames, rank.call, rank.frame = one["frames"], one["call"], 0
            rank.state = WAITS if one["call"] else STOPPED
            if one["state"] in ("returned", "died"):
                self._end(rank)
            elif not one["frames"]:
                rank.state = RUNNING
        self.expected = len(told["ranks"])
        found = told.get("found")
        if found is not None:
            self.found = found
            self.on_event(None, {"found": found})
        chosen = [self.ranks[one["rank"]] for one in told["ranks"] if one.get("selected")]
        chosen = chosen or [rank for rank in self.living() if rank.state == STOPPED] or self.living()
        if chosen and self.found is None:
            chosen[0].state, chosen[0].reason = STOPPED, self._reason()
            self.on_event(chosen[0], {"stopped": True})

    def _reason(self):
        reason = re.search(r'reason="([\w-]+)"', self._stop or "")
        if reason is None:
            return "stopped"
        name = re.search(r'signal-name="(\w+)"', self._stop)
        known = {"breakpoint-hit": "breakpoint", "end-stepping-range": "step", "function-finished": "step"}
        return "paused" if name and name[1] in ("SIGINT", "0") else f"signal {name[1]}" if name else known.get(reason[1], reason[1])

    # ---- Going on ----
    def set_breakpoints(self, breakpoints):
        self.breakpoints = breakpoints
        again = self._runs and self._begun
        if again:
            self._interrupt()
        for number in self._numbers:
            self._try(f"-break-delete {number}")
        self._numbers = []
        for one in breakpoints:
            place = f"--function {one['function']}" if "function" in one else f"--source {json.dumps(one['file'])} --line {one['line']}"
            condition = f"--force-condition -c {json.dumps(one['condition'])} " if one.get("condition") else ""
            made = re.search(r'number="(\d+)"', self._try(f"-break-insert -f {condition}{place}"))
            self._numbers += [made[1]] if made else []
        if again and self._stop is not None and "signal-received" in self._stop:
            self._go("-exec-continue")

    def _try(self, line):
        try:
            return self._do(line)[1]
        except Record as error:
            self._output(f"gdb: {error}\n")
            return ""

    def _interrupt(self):
        self._try("-exec-interrupt --all")
        end = time.monotonic() + ANSWER_SECONDS
        while self._runs and not self.over and time.monotonic() < end:
            for key, _ in self._poll.select(0.1):
                if key.data in (self._hear, self._hear_program):
                    key.data(key.fileobj)

    def resume(self, how, ranks=None, **_options):
        """next, step and finish are of the first rank given, or of the one that stopped last; the program lets the others run as it needs."""
        chosen = ranks or [rank for rank in self.living() if rank.fresh] or self.living()
        self.found = None
        for rank in self.living():
            rank.state, rank.fresh, rank.reason = RUNNING, False, ""
        if how != "cont" and chosen:
            chosen[0].fresh = True
            self._question(do="command", rank=chosen[0].number, frame=0, expression=f"rank {chosen[0].number}")
        self._go("-exec-continue" if how == "cont" else f'-interpreter-exec console "{how}"')

    def gather(self, _told_late=None):
        """Waits for the next stop, the end, or other input. False: the run is over."""
        while not self.over and not self.wanted() and self._stop is None:
            self.poll(0.05)
            if self.interrupted and self._runs:
                self.interrupted = False
                self._try("-exec-interrupt --all")
        self.gathered = self._stop is not None and not self.over and not self.wanted()
        if self.gathered:
            if 'reason="exited' in self._stop:
                code = re.search(r'exit-code="(\d+)"', self._stop)
                self._code, self.over, self.gathered = int(code[1], 8) if code else 0, True, False
            else:
                self._take_state()
        return not self.over

    # ---- The end ----
    def _kill(self):
        self.over = True
        if self.child.poll() is None:
            os.killpg(self.child.pid, signal.SIGTERM)

    def end(self):
        self._kill()
        return self.finish()

    def _end(self, rank):
        if rank.state != ENDED:
            rank.state = ENDED
            self.on_event(rank, {"ended": True})

    def finish(self):
        """The program's exit code."""
        for rank in self.living():
            self._end(rank)
        if self._slave >= 0:
            os.close(self._slave)
            self._slave = -1
        self.child.stdin.close()  # gdb ends, and kills its program
        try:
            self.child.wait(ANSWER_SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(self.child.pid, signal.SIGKILL)
            self.child.wait()
        self._drain()
        return self._code

    def _drain(self):
        """Passes on the last output of the program."""
        os.set_blocking(self._terminal, False)
        while True:
            try:
                data = os.read(self._terminal, 1 << 16)
            except OSError:
                break
            if not data:
                break
            self._output(data.decode(errors="replace"))
