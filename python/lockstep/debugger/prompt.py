"""The frontend on a terminal: one prompt for all ranks (docs/debugging.md)."""

import os
import signal
import sys

from lockstep.debugger import tables
from lockstep.debugger.hub import ENDED, STOPPED, WAITS

HELP = """\
ranks                  state, call and place of every rank
rank N                 selects a rank; up, down: a frame of it
where                  the program's frames of the selected rank
list [LINE]            source lines
p EXPR                 the value on the selected rank; an assignment changes a variable
each EXPR              the value on every rank
diff EXPR              the first element of a tensor that differs between ranks
next, step [RANKS]     to the next line; step goes into functions. Without RANKS (1, 0-2, all) all ranks move
until [LINE] [RANKS]   to a line below, or at least at LINE
finish [RANKS]         to the caller's next line
cont [RANKS]           to the next breakpoint, exception, finding or end
to-collective [KIND] [N]   to the next call of torch.distributed, of a kind, or call N of world
break [FILE:]LINE|FUNCTION [if COND], delete [N], breaks
finding                the finding that stopped the run, with its text
quit                   ends the run
Ctrl-C stops ranks that run. Each command has its first letter, too, where that is one command's: r w l e d n s u f c b q h."""
ALIASES = {"n": "next", "s": "step", "c": "cont", "continue": "cont", "w": "where", "bt": "where", "l": "list", "b": "break",
           "q": "quit", "exit": "quit", "h": "help", "e": "each", "d": "down", "u": "up", "r": "ranks", "f": "finish", "unt": "until",
           "print": "p", "pp": "p", "tc": "to-collective"}


class Prompt:
    def __init__(self, hub):
        """hub: of a run, or a post-mortem."""
        self.hub, self.selected, self.last, self.listed, self.done = hub, 0, "", None, None
        self._runs, self._prompting = hasattr(hub, "gather"), False
        self._tty = sys.stdin.isatty()
        if self._tty:
            try:
                import readline  # noqa: F401
            except ImportError:
                pass

    # ---- Lines ----
    def say(self, *lines):
        for line in lines:
            print(line, flush=True)

    def read(self):
        """The next command; None: end of input."""
        if self._tty:
            try:
                return input("(lockstep) ")
            except EOFError:
                return None
        line = sys.stdin.readline()
        if not line:
            return None
        self.say("(lockstep) " + line.rstrip("\n"))
        return line.rstrip("\n")

    def interrupt(self, _number, _frame):
        if self._prompting:
            raise KeyboardInterrupt
        self.hub.interrupted = True

    # ---- The session ----
    def run(self):
        signal.signal(signal.SIGINT, self.interrupt)
        if self._runs:
            self.settle()
        else:
            self.show_stored()
        while self.done is None:
            self._prompting = True
            try:
                line = self.read()
            except KeyboardInterrupt:
                self.say("")
                continue
            finally:
                self._prompting = False
            self.hub.poll(0)
            if line is None:
                self.do_quit("")
                break
            self.command(line.strip())
        return self.done

    def settle(self, quiet=False):
        """Continues the run until it stops, and shows the place."""
        found = self.hub.found
        if not self.hub.gather(self.late):
            self.done = self.hub.finish()
            return
        new = self.hub.found is not None and found is None
        if new:
            self.show_finding()
        self.select(new)
        self.listed = None
        fresh = self.rank() is not None and self.rank().fresh
        rank = self.rank()
        if fresh and not new and rank.reason not in ("step", "paused"):
            self.say(f"{self.alike(rank)}: {rank.reason}")
        if not quiet:
            self.show_place()

    def alike(self, rank):
        """The ranks that have stopped for the same reason."""
        same = [one.number for one in self.hub.living() if one.state == STOPPED and one.reason == rank.reason]
        return f"rank{'s' if len(same) > 1 else ''} {tables.listed(same)}"

    def select(self, new):
        """The rank that the finding names, or one that has stopped for another reason."""
        living = {rank.number for rank in self.hub.living()}
        named = [number for number in (self.hub.found["ranks"] if new else []) if number in living]
        if new and living:
            self.selected = named[0] if named else min(living)
            return
        stopped = [rank for rank in self.hub.living() if rank.state == STOPPED]
        own = [rank for rank in stopped if rank.fresh and rank.reason not in ("paused", "step")]
        asked = [rank for rank in own if rank.reason == f"dist.breakpoint(rank={rank.number})"]
        chosen = asked or own or stopped
        if chosen and self.rank() not in chosen:
            self.selected = chosen[0].number

    def late(self, active):
        self.say(f"rank{'s' if len(active) > 1 else ''} {tables.listed(rank.number for rank in active)} still "
                 f"run{'s' if len(active) == 1 else ''} (Ctrl-C stops)")

    def rank(self):
        return self.hub.ranks.get(self.selected)

    def show_finding(self):
        found = self.hub.found
        ranks = f" of rank{'s' if len(found['ranks']) > 1 else ''} {tables.listed(found['ranks'])}" if found["ranks"] else ""
        file, _, line = found["where"].rpartition(":")
        self.say(f"finding {found['id']}{ranks}" + (f" at {tables.short(file)}:{line}" if file else ""))
        text = found["text"].split("last calls of ")[0].rstrip("\n").split("\n")
        self.say(*(line.replace(os.getcwd() + "/", "")[:400] for line in text[:40]))

    def show_place(self):
        rank = self.rank()
        if rank is None or not rank.frames:
            self.say("no rank has a known Python frame" if rank is None or rank.state != ENDED else
                     f"rank {rank.number} has ended")
            return
        frame, inside = rank.place(), ""
        if rank.state != STOPPED:
            inside = f", {rank.state}" + (f" in {tables.cut(rank.call, tables.CALL)}" if rank.call else f" in {rank.inside}" if rank.inside else "")
        self.say(f"[rank {rank.number}{inside}] {tables.function(frame)} at {tables.short(frame['file'])}:{frame['line']}",
                 *tables.source(frame, kept=self.stored_source()))

    # ---- Commands ----
    def command(self, line):
        if not line and self.last.split(" ")[0] in ("next", "step", "n", "s"):
            line = self.last
        if not line or line.startswith("#"):
            return
        self.last = line
        word, _, rest = line.partition(" ")
        word = ALIASES.get(word, word)
        do = getattr(self, "do_" + word.replace("-", "_"), None)
        if line.startswith("!"):
            do, rest = self.do_p, line[1:]
        if do is None:
            self.say(f"no such command: {word}; help lists all. p EXPR prints a value")
            return
        do(rest.strip())

    def do_help(self, _rest):
        self.say(HELP)

    def do_ranks(self, _rest):
        self.hub.look()
        rows = []
        for number in range(max(self.hub.expected, len(self.hub.ranks))):
            rank = self.hub.ranks.get(number)
            if rank is None:
                rows.append((number, False, ["starts", "", ""]))
                continue
            call = rank.call or (rank.inside if rank.state != STOPPED else "")
            place = tables.place(rank.frames[0]) if rank.frames and rank.state != ENDED else ""
            rows.append((number, number == self.selected, [rank.state, "" if rank.state == ENDED else tables.cut(call, tables.CALL), place]))
        self.say(*tables.table(["rank", "state", "call", "where"], rows))

    def do_rank(self, rest):
        number = int(rest) if rest.isdigit() else -1
        if rest and number not in self.hub.ranks:
            self.say(f"no rank {rest}: there are {tables.listed(self.hub.ranks)}")
            return
        self.selected = number if rest else self.selected
        self.listed = None
        self.hub.look()
        self.show_place()

    def do_where(self, _rest):
        self.hub.look()
        rank = self.rank()
        if rank is None or not rank.frames:
            self.show_place()
            return
        for at, frame in enumerate(rank.frames[:20]):
            self.say(f"{'*' if at == rank.frame else ' '} #{at:<2} {tables.function(frame)} at {tables.short(frame['file'])}:{frame['line']}")
        if len(rank.frames) > 20:
            self.say(f"  ... and {len(rank.frames) - 20} more frames")

    def _move(self, by):
        rank = self.rank()
        if rank is None or not 0 <= rank.frame + by < len(rank.frames):
            self.say("no frame further " + ("up" if by > 0 else "down"))
            return
        rank.frame += by
        self.listed = None
        self.show_place()

    def do_up(self, _rest):
        self._move(1)

    def do_down(self, _rest):
        self._move(-1)

    def stored_source(self):
        return None if self._runs else self.hub.source(self.rank())

    def do_list(self, rest):
        frame = self.rank() and self.rank().place()
        if not frame:
            self.say("no frame is selected")
            return
        first = max(1, int(rest) - 5) if rest.isdigit() else self.listed
        first = max(1, frame["line"] - 5) if first is None else first
        lines = tables.source(frame, 5, first, self.stored_source())
        self.listed = first + 11
        self.say(*(lines or ["no source lines"]))

    def do_p(self, rest):
        if self.rank() is None or self.rank().state == ENDED:
            self.show_place()
            return
        answer = self.hub.ask([self.rank()], "eval", expression=rest, longest=2000)[self.selected]
        text = answer.get("error", answer.get("value", ""))
        if text:
            self.say(text)

    def do_each(self, rest):
        answers = self.hub.ask(self.hub.living(), "eval", frames=self._same_frames(), expression=rest, longest=tables.WIDTH)
        rows = [(number, number == self.selected, [answer.get("value", answer.get("error", "")[:tables.WIDTH])])
                for number, answer in sorted(answers.items())]
        self.say(*tables.table(["rank", rest], rows))

    def _same_frames(self):
        """For each rank the frame in the function of the selected one."""
        self.hub.look()
        chosen, found = self.rank().place(), {}
        for rank in self.hub.living():
            fits = [at for at, frame in enumerate(rank.frames)
                    if chosen and (frame["file"], frame["function"]) == (chosen["file"], chosen["function"])]
            found[rank.number] = rank.frame if rank.number == self.selected else fits[0] if fits else 0
        return found

    def do_diff(self, rest):
        from lockstep.debugger import differ

        self.say(*differ.compare(self.hub, self._same_frames(), rest))

    # ---- Going on ----
    def _go(self, how, rest, **options):
        if not self._runs:
            self.say("the run is over: a post-mortem has only variables")
            return
        words = rest.split()
        ranks = tables.parse(words[-1], self.hub.expected) if words else None
        if words and ranks is None:
            self.say(f"{words[-1]} is not a list of ranks such as 1, 0-2 or all")
            return
        chosen = None
        if ranks is not None and words[-1] != "all":
            chosen = [self.hub.ranks[number] for number in ranks if number in self.hub.ranks and self.hub.ranks[number].state != ENDED]
            if not chosen:
                self.say(f"no rank of {words[-1]} exists")
                return
            self.selected = chosen[0].number if self.selected not in ranks else self.selected
        if how != "cont" and not any(rank.state in (STOPPED, WAITS) for rank in self.hub.living()):
            self.say("no rank is stopped")
            return
        self.hub.resume(how, chosen, **options)
        self.settle()

    def do_next(self, rest):
        self._go("next", rest)

    def do_step(self, rest):
        self._go("step", rest)

    def do_finish(self, rest):
        self._go("finish", rest)

    def do_cont(self, rest):
        self._go("cont", rest)

    def do_until(self, rest):
        words = rest.split()
        line = int(words.pop(0)) if words and words[0].isdigit() else 0
        self._go("until", " ".join(words), line=line)

    def do_to_collective(self, rest):
        words = rest.split()
        wanted = {}
        for word in words:
            wanted.update({"number": int(word)} if word.isdigit() else {"kind": word.lower()})
        self._go("cont", "", collective=wanted)

    # ---- Breakpoints ----
    def do_break(self, rest):
        if not self._runs:
            self.say("the run is over: a post-mortem has only variables")
            return
        place, _, condition = rest.partition(" if ")
        file, colon, line = place.strip().rpartition(":")
        frame = self.rank().place() if self.rank() else None
        number = max([one["number"] for one in self.hub.breakpoints], default=0) + 1
        made = {"number": number, "condition": condition.strip()}
        if line.isdigit() and (colon or frame):
            made.update(file=file or frame["file"], line=int(line))
        elif place.strip():
            made.update(function=place.strip())
        else:
            self.do_breaks("")
            return
        self.hub.set_breakpoints([*self.hub.breakpoints, made])
        self.say(f"breakpoint {number} at {self._shown(made)}")

    @staticmethod
    def _shown(one):
        at = one.get("function") or f"{tables.short(one['file'])}:{one['line']}"
        return at + (f" if {one['condition']}" if one["condition"] else "")

    def do_breaks(self, _rest):
        self.say(*([f"{one['number']}  {self._shown(one)}" for one in self.hub.breakpoints] or ["no breakpoints"]))

    def do_delete(self, rest):
        self.hub.set_breakpoints([one for one in self.hub.breakpoints if rest and str(one["number"]) != rest])

    def do_finding(self, _rest):
        if self.hub.found is None:
            self.say("there is no finding")
        else:
            self.show_finding()

    def do_quit(self, _rest):
        self.done = self.hub.end() if self._runs else 0

    def show_stored(self):
        """A post-mortem begins with its reason."""
        if self.hub.found is not None:
            self.show_finding()
        self.say(*(f"rank {number}: {reason}" for number, reason in self.hub.raised.items()))
        self.select(self.hub.found is not None)
        named = [int(number) for number in self.hub.raised if int(number) in self.hub.ranks]
        self.selected = named[0] if named else self.selected
        self.show_place()
