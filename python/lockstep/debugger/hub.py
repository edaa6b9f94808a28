"""Controls the ranks of a debugged run for a frontend: stopped and waiting ranks, and requests to all of them.

Starts `lockstep exec` with a socket's name in its environment; the coordinator and each rank connect to it. While a rank is stopped, the
coordinator pauses the run.
"""

import json
import os
import selectors
import socket
import subprocess
import time

ANSWER_SECONDS = 10  # for an evaluation in a rank
GATHER_SECONDS = 30  # until all other ranks have stopped or wait
FOUND_SECONDS = 10  # the same after a finding
PAUSE_SECONDS = 3  # until an interrupted rank stops
RUNNING, STOPPED, WAITS, ENDED = "runs", "stopped", "waits", "ended"


class Lines:
    """A connection that carries JSON objects, one a line."""

    def __init__(self, connection):
        self.socket, self._rest = connection, b""

    def read(self):
        """The objects that have arrived; None: the peer has closed the connection."""
        try:
            data = self.socket.recv(1 << 20)
        except BlockingIOError:
            return []
        except OSError:
            data = b""
        if not data:
            return None
        *whole, self._rest = (self._rest + data).split(b"\n")
        return [json.loads(line) for line in whole if line]

    def write(self, data):
        try:
            self.socket.setblocking(True)
            self.socket.sendall(data)
            self.socket.setblocking(False)
        except OSError:
            pass


class Rank:
    def __init__(self, number, lines, pid):
        self.number, self.lines, self.pid = number, lines, pid
        self.state, self.reason, self.frames, self.call, self.inside, self.in_torch = RUNNING, "", [], "", "", False
        self.frame, self.same, self.depth, self.fresh = 0, 0, 0, False

    def take(self, told):
        """The rank's report of its place."""
        place = [(one["file"], one["line"]) for one in told.get("frames", [])]
        before = [(one["file"], one["line"]) for one in self.frames]
        self.same = self.same + 1 if place == before and told.get("in_torch") else 0
        for name in ("frames", "reason", "call", "inside", "in_torch", "depth"):
            setattr(self, name, told.get(name, type(getattr(self, name))()))

    def place(self):
        return self.frames[min(self.frame, len(self.frames) - 1)] if self.frames else None


class Hub:
    threads = False  # ranks are processes, which move one by one

    def __init__(self, command, entry=False, own_group=True, limit=GATHER_SECONDS, stops=True, output=None, cwd=None,
                 environment=()):
        """entry: ranks stop at their first line. stops: they also stop at breakpoints in the program's source. output: receives the ranks'
        output instead of the terminal.
        """
        self._settings, self._limit = {"entry": entry, "stops": stops}, limit
        self.ranks, self.expected, self.coordinator, self.found, self.breakpoints = {}, 0, None, None, []
        self.released, self.over, self.interrupted = False, False, False
        self.on_event = lambda rank, message: None
        self.wanted, self.gathered, self._began, self._paused = (lambda: False), False, None, None
        self._answers, self._next, self._told, self._kept = {}, 0, None, None
        self._poll = selectors.DefaultSelector()
        self._listening = socket.socket(socket.AF_UNIX)
        name = f"lockstep-debugger-{os.getpid()}-{time.time_ns():x}"
        self._listening.bind("\0" + name)
        self._listening.listen(4096)
        self._listening.setblocking(False)
        self._poll.register(self._listening, selectors.EVENT_READ, self._accept)
        # the debugger keeps the terminal's signals and input
        pipe = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT} if output is not None else {}
        self.child = subprocess.Popen(command, env={**os.environ, **dict(environment), "LOCKSTEP_DEBUGGER": name}, cwd=cwd,
                                      stdin=subprocess.DEVNULL if own_group else None, start_new_session=own_group, **pipe)
        self._output = output
        if output is not None:
            self.watch(self.child.stdout, self._hear_output)

    # ---- Connections ----
    def watch(self, file, taken):
        self._poll.register(file, selectors.EVENT_READ, taken)

    def _accept(self, _file):
        made, _ = self._listening.accept()
        _, uid, _ = _peer(made)
        if uid != os.geteuid():
            made.close()
            return
        made.setblocking(False)
        lines = Lines(made)
        self._poll.register(made, selectors.EVENT_READ, lambda _: self._greet(lines))

    def _drop(self, lines):
        self._poll.unregister(lines.socket)
        lines.socket.close()

    def _greet(self, lines):
        messages = lines.read()
        if messages is None:
            self._drop(lines)
            return
        for message in messages:
            if "coordinator" in message:
                self.coordinator, self.expected = lines, max(self.expected, message["coordinator"])
                self._poll.modify(lines.socket, selectors.EVENT_READ, lambda _: self._hear_coordinator())
            elif "rank" in message:
                self._join(lines, message)

    def _join(self, lines, message):
        number = message["rank"]
        rank = self.ranks[number] = Rank(number, lines, message["pid"])
        self.expected = max(self.expected, message.get("ranks", 0))
        self._poll.modify(lines.socket, selectors.EVENT_READ, lambda _: self._hear(rank))
        lines.write(json.dumps({**self._settings, "breakpoints": self.breakpoints}).encode() + b"\n")
        self.on_event(rank, {"joined": True})

    def _hear(self, rank):
        messages = rank.lines.read()
        if messages is None:
            self._drop(rank.lines)
            if self.ranks.get(rank.number) is rank:
                rank.state, rank.frames, rank.call = ENDED, [], ""
                self.on_event(rank, {"ended": True})
            return
        for message in messages:
            if "stopped" in message:
                rank.take(message)
                rank.state, rank.frame, rank.fresh = STOPPED, 0, True
                self.on_event(rank, message)
            else:
                self._answers[message.get("id")] = message

    def _hear_coordinator(self):
        messages = self.coordinator.read()
        if messages is None:
            self._drop(self.coordinator)
            self.coordinator = None
            return
        for message in messages:
            if "found" in message:
                self.found = message["found"]
                self.on_event(None, message)
            elif "ranks" in message:
                self._told = {one["rank"]: one for one in message["ranks"]}
            else:
                self._kept = message

    def _hear_output(self, file):
        data = os.read(file.fileno(), 1 << 16)
        if data:
            self._output(data.decode(errors="replace"))
        else:
            self._poll.unregister(file)
            file.close()
            self._output = None

    def poll(self, seconds):
        for key, _ in self._poll.select(seconds):
            key.data(key.fileobj)
        self.over = self.coordinator is None and self.child.poll() is not None

    # ---- Questions ----
    def living(self):
        return [rank for _, rank in sorted(self.ranks.items()) if rank.state != ENDED]

    def tell(self, word):
        if self.coordinator is not None:
            self.coordinator.write(word.encode() + b"\n")

    def ask(self, ranks, do, seconds=ANSWER_SECONDS, frames=None, **options):
        """The ranks' answers by rank; an error for a rank that does not answer. frames: replaces the selected ones."""
        asked, answers = {}, {}
        for rank in ranks:
            self._next += 1
            asked[self._next] = rank
            chosen = {"frame": (frames or {}).get(rank.number, rank.frame), **options}
            rank.lines.write(json.dumps({"id": self._next, "do": do, **chosen}).encode() + b"\n")
        end = time.monotonic() + seconds
        while len(answers) < len(asked) and time.monotonic() < end and not self.over:
            for number, rank in asked.items():
                if rank.number not in answers and number in self._answers:
                    answers[rank.number] = self._answers.pop(number)
                elif rank.number not in answers and rank.state == ENDED:
                    answers[rank.number] = {"error": "the rank has ended"}
            if len(answers) < len(asked):
                self.poll(0.1)
        for number, rank in asked.items():
            answers.setdefault(rank.number, {"error": f"no answer in {seconds} s: does it wait for other ranks?"})
            self._answers.pop(number, None)
        return answers

    def _waiting(self):
        """Ranks that wait for others, according to the coordinator."""
        self._told = None
        self.tell("ranks")
        end = time.monotonic() + 5
        while self._told is None and self.coordinator is not None and time.monotonic() < end:
            self.poll(0.1)
        return self._told or {}

    def ask_coordinator(self, word, seconds):
        self._kept = None
        self.tell(word)
        end = time.monotonic() + seconds
        while self._kept is None and self.coordinator is not None and time.monotonic() < end:
            self.poll(0.1)
        return self._kept or {"error": "the run has ended"}

    def look(self):
        """Updates the places of ranks that have not stopped. Returns what the coordinator knows of each rank."""
        active = [rank for rank in self.living() if rank.state != STOPPED]
        told = self._waiting()
        for number, answer in self.ask(active, "where", 5).items():
            rank = self.ranks[number]
            if rank.state in (STOPPED, ENDED) or "error" in answer or answer.get("state") == STOPPED:
                continue  # its own message gives the reason
            rank.take(answer)
            waits = told.get(number, {}).get("waits") or rank.same >= 10
            rank.state = WAITS if waits else RUNNING
            if told.get(number, {}).get("call"):
                rank.call = f"{told[number]['call']}, call {told[number]['seq']}"
        return told

    # ---- Going on ----
    def set_breakpoints(self, breakpoints):
        self.breakpoints = breakpoints
        self.ask(self.living(), "breakpoints", breakpoints=breakpoints)

    def resume(self, how, ranks=None, **options):
        """Continues ranks; None: all. When all continue, the program gets the finding's error."""
        chosen = self.living() if ranks is None else ranks
        everybody = ranks is None or len(chosen) == len(self.living())
        if everybody and (self.found is None or how == "cont"):
            if self.found is not None and not self.released:
                self.ask(chosen, "over")
                self.released = True
            self.tell("go")
        for rank in chosen:
            rank.state, rank.same, rank.fresh = RUNNING, 0, False
        self.gathered, self._began, self._paused = False, None, None
        self.ask(chosen, "resume", how=how, **options)
        for rank in chosen:
            rank.frame = 0

    def pause(self):
        self.ask([rank for rank in self.living() if rank.state != STOPPED], "resume", how="pause")

    def gather(self, told_late=lambda active: None):
        """Waits until one rank has stopped or a finding appeared, and every other rank has stopped, waits or has ended; or until the run is
        over; or until the frontend has other input (`gathered` is false then). False: the run is over.
        """
        late = False
        while not self.over and not self.wanted():
            self.poll(0.05)
            if self.interrupted and self._began is None:
                self._began = self._paused = time.monotonic()
                self.interrupted = False
                self.tell("hold")
                self.pause()
            stopped = any(rank.state == STOPPED for rank in self.living())
            if self.released or not (stopped or self.found or self._began):
                continue
            now = time.monotonic()
            if self._began is None:
                self.tell("hold")
                self._began = now
            told = self.look()
            active = [rank for rank in self.living() if rank.state == RUNNING]
            missing = [number for number in range(self.expected) if number not in self.ranks and not told.get(number, {}).get("waits")]
            if not active and not missing:
                break
            limit = FOUND_SECONDS if self.found else self._limit
            if self._paused is not None and (now - self._paused > PAUSE_SECONDS):
                break
            if self._paused is None and (now - self._began > limit or self.interrupted):
                self._paused, self.interrupted = now, False
                self.pause()
            elif self._paused is None and not late and now - self._began > 2 and not self.found:
                late = True
                told_late(active)
        self.gathered = not self.over and not self.wanted()
        if self.gathered and not self.released:
            self.pause()  # a waiting rank stops when its call is complete
        return not self.over

    def end(self):
        """Ends the run; returns the exit code of `lockstep exec`."""
        self.tell("quit")
        return self.finish()

    def finish(self):
        while self.coordinator is not None or self._output is not None:
            self.poll(0.1)
        code = self.child.wait()
        return code if code >= 0 else 128 - code


def _peer(connection):
    import struct

    return struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))


