"""Breakpoints on calls of ranks and on errors: catch collective, finding, divergence."""
import fnmatch
import re
import sys

import gdb

from . import inferiors, memory, model, ranks, scenario, values
from .memory import Failure


def kinds():
    known = memory.enum("ls_kind", "LS_")
    count = next(number for number, name in known.items() if name == "kind_count")
    return {number: name for number, name in known.items() if number < count}


def check_kind(name):
    """The number of a kind by its name; None for ""."""
    if name == "":
        return None
    for number, known in kinds().items():
        if known == name:
            return number
    known = ", ".join(kind_names())
    raise Failure(f"'{name}' is not a kind of call; there are {known}")


def kind_names():
    return list(kinds().values())


class Where:
    """[KIND] [on COMM]: the arguments of `next-collective` and `catch collective`."""

    def __init__(self, words):
        kind, _, comm = (" " + words + " ").partition(" on ")
        self.kind = check_kind(kind.strip())
        self.comm = CommName(comm.strip()) if comm.strip() else None
        if words.split()[-1:] == ["on"]:
            raise Failure("'on' needs the name of a communicator")


class CommName:
    """A communicator in the user's notation: its name, or #NUMBER if several have one name."""

    def __init__(self, text):
        self.text, self.number, self.name = text, -1, text
        if text.startswith("#") and text[1:].isdigit() and int(text[1:]) < 1 << 31:
            self.number, self.name = int(text[1:]), ""
        if len(self.name.encode()) > 47:
            raise Failure(f"'{text}' is too long for the name of a communicator")

    def found(self):
        """The communicator if it exists; None if it does not exist yet, with a message. Fails if several have the name."""
        known = model.comms()
        fits = [c for c in known if c["number"] == self.number] if self.number >= 0 else \
            [c for c in known if c.string("name") == self.name]
        if len(fits) > 1:
            # The one of the selected run, if it has one.
            run = model.find_run()
            own = [c for c in fits if run is not None and c["backend"] == run.record["backend"]]
            if run is not None and run.record["remote"] != 0:  # its processes make their world themselves
                unused = memory.record("ls_shared_comm", run.record["world_comm"])["comm"]
                own = [c for c in own if c.address != unused]
            fits = own if len(own) == 1 else fits
            self.number = fits[0]["number"] if len(fits) == 1 else -1
        if len(fits) > 1:
            which = ", ".join(
                f"#{c['number']} (ranks {memory.rank_list(sorted(model.Comm(c.address).ranks))})"
                for c in reversed(fits[:8]))
            raise Failure(f"{len(fits)} communicators are named {self.text}: write {which}"
                          + (", ..." if len(fits) > 8 else ""))
        if not fits:
            names = list(dict.fromkeys(c.string("name") for c in reversed(known)))
            known = ", ".join(names[:8]) + (", ..." if len(names) > 8 else "")
            print(f"no communicator {self.text} exists yet; there is {known or 'none'}")
            return None
        return model.Comm(fits[0].address)


def comm_names(text):
    """Choices after " on ": the names, or #NUMBER of those that share one."""
    names = [(c.string("name"), c["number"]) for c in reversed(model.comms())]
    count = {}
    for name, _ in names:
        count[name] = count.get(name, 0) + 1
    return [name if count[name] == 1 else f"#{number}" for name, number in names]


def call_choices(text, first):
    """Choices of "FIRST [on COMM]"."""
    if " on " in " " + text:
        return comm_names(text)
    return list(first) + ["on"] if text == text.lstrip() and " " not in text else ["on"]


def call_typed(text):
    """The part of "FIRST [on COMM]" that is being typed."""
    before, on, comm = (" " + text).rpartition(" on ")
    return comm if on else text.split(" ")[-1]


NO_SEQ = (1 << 64) - 1


def wish_fields(kind, comm, rank=None, seq=NO_SEQ):
    """The values of an ls_gdb_wish."""
    name = comm.name.encode() if comm is not None else b""
    return (("comm", name + b"\0"), ("kind", -1 if kind is None else kind),
            ("rank", -1 if rank is None else rank),
            ("comm_number", -1 if comm is None else comm.number), ("seq", seq), ("on", 1))


class Slots:
    """ls_gdb_catches: the calls that the library reports. Written whenever the program is loaded."""
    COUNT = 32
    taken = {}  # slot -> (fields, its breakpoints)
    loaded = None

    @classmethod
    def take(cls, fields):
        free = [n for n in range(cls.COUNT) if n not in cls.taken]
        if not free:
            raise Failure(f"{cls.COUNT} catches are set; delete some")
        cls.taken[free[0]] = (fields, [])
        return free[0]

    @classmethod
    def write(cls):
        if not model.can_run() or memory.variable("ls_gdb_catching") is None:
            return
        size = memory.layout("ls_gdb_wish").size
        start = int(gdb.parse_and_eval("&ls_gdb_catches[0]"))
        for slot in range(cls.COUNT):
            fields = cls.taken[slot][0] if slot in cls.taken else (("on", 0),)
            memory.record("ls_gdb_wish", start + slot * size).write(fields)
        at = int(gdb.parse_and_eval("(unsigned long)&ls_gdb_catching"))
        gdb.selected_inferior().write_memory(at, (1 if cls.taken else 0).to_bytes(4, "little"))

    @classmethod
    def forget(cls, breakpoint_):
        """A breakpoint was deleted: if it was the last of its slot, the slot is freed."""
        for slot, (_, mine) in list(cls.taken.items()):
            if breakpoint_ in mine:
                mine.remove(breakpoint_)
                if not mine:
                    del cls.taken[slot]
                    memory.guarded(cls.write)


class Loaded(memory.Stop):
    """In a loaded library, before it runs."""

    def __init__(self):
        super().__init__("ls_gdb_hook_loaded", internal=True)
        self.silent = True

    @staticmethod
    def hit():
        Slots.write()
        return False


class CallCatch(memory.Stop):
    """A breakpoint on calls of a slot. gdb would disable its own condition if the library is loaded later, so this one is evaluated here:
    only few calls get this far.
    """

    def __init__(self, hook, slot, rank, condition):
        super().__init__(hook)
        self.bit, self.rank, self.wanted = 1 << slot, rank, condition
        Slots.taken[slot][1].append(self)
        if condition and not self.pending:
            self.condition = condition  # fails if it is invalid
            self.condition = None

    def hit(self):
        if not int(gdb.newest_frame().read_var("caught")) & self.bit:
            return False
        if self.wanted and not bool(gdb.parse_and_eval(self.wanted)):
            return False
        if self.rank is not None:
            ranks.State.chosen = self.rank
        return True


class CatchCollective(inferiors.RunCommand, name="catch collective", kind=gdb.COMMAND_BREAKPOINTS):
    """catch collective [KIND] [on COMM] [if CONDITION]: stops when a rank makes a call, before it is
matched, or when a controller makes its ranks' calls.

COMM is a communicator's name, or #NUMBER where several share it. CONDITION may use $rank(), and of a
rank's call request->call.count, .dtype, .seq, ...; of a controller's calls[0].count, ..."""

    def run(self, argument, from_tty):
        words, _, condition = (" " + argument + " ").partition(" if ")
        where, condition = Where(words.strip()), condition.strip()
        if where.comm is not None and model.has_memory():
            where.comm.found()
        # The library knows the rank, too: gdb does not stop at the others.
        only = re.fullmatch(r"\$rank\(\) *== *(\d+)(?: *&& *(.*))?", condition)
        rank = None
        if only is not None and "||" not in condition and int(only[1]) < model.RANKS_MAX:
            rank, condition = int(only[1]), only[2] or ""
        if Slots.loaded is None or not Slots.loaded.is_valid():
            Slots.loaded = Loaded()
        slot = Slots.take(wish_fields(where.kind, where.comm, rank))
        try:
            self._make(slot, rank, condition)
        except gdb.error as error:
            for made in list(Slots.taken[slot][1]):
                made.delete()
            Slots.taken.pop(slot, None)
            raise Failure(f"cannot set a breakpoint: {error}") from None
        Slots.write()

    @staticmethod
    def _make(slot, rank, condition):
        for hook, others in (("ls_gdb_hook_caught", ("calls", "count", "backend")),
                             ("ls_gdb_hook_group_caught", ("request", "run", "rank"))):
            # A condition on the arguments of one hook does not apply to the other.
            if not re.search(rf"(?<![\w.$>])({'|'.join(others)})\b(?! *\()", condition):
                CallCatch(hook, slot, rank, condition)

    typed = staticmethod(call_typed)

    def choices(self, text):
        return call_choices(text, kind_names())


_DOTTED = ("buffer", "call", "deadlock", "handle", "input", "model", "optimizer", "p2p", "rank", "replica", "request", "rma", "runs", "value")


def finding_name(number):
    """The stable name, "collective.op_mismatch", from the enumerator."""
    name = memory.enum_name("ls_finding_id", "LS_FINDING_", number)
    head, _, rest = name.partition("_")
    return f"{head}.{rest}" if head in _DOTTED else f"collective.{name}"


FINDING_HOOKS = ("ls_gdb_hook_mismatch", "ls_gdb_hook_finding", "ls_gdb_hook_refused")


class FindingCatch(memory.Stop):
    """A check has reported a finding: one of FINDING_HOOKS."""

    def __init__(self, glob, hook, internal=False):
        super().__init__(hook, internal=internal)
        self.glob, self.hook, self.silent = glob, hook, internal

    def hit(self):
        frame = gdb.newest_frame()
        if self.hook == "ls_gdb_hook_refused":
            found = frame.read_var("failure")
            if not found["found"]:
                return False
            ranks_ = [int(found["ranks"][i]) for i in range(int(found["rank_count"]))]
            where = f"{memory.text(int(found['file']))}:{int(found['line'])}"
            body = last_error()
        else:
            found = frame.read_var("finding")
            ranks_ = memory.integers(int(found["ranks"]), int(found["rank_count"]), 4)
            where = memory.text(int(found["where"]))
            body = memory.text(int(found["text"]))
        name = finding_name(int(found["id"]))
        number, run = ranks_[0] if ranks_ else None, address_of(frame)
        if run is not None and FindingCatch.stopped_at == run and self.hook == "ls_gdb_hook_finding":
            return self.name_better(run, name, body)
        refused = ("ls_gdb_hook_refused", name, where)
        if run is None and self.hook != refused[0] and FindingCatch.shown[:3] == refused:
            return False  # the program has stopped for it
        if FindingCatch.shown == (self.hook, name, where, body):
            return True  # by another catch
        if not fnmatch.fnmatchcase(name, self.glob):
            return False
        FindingCatch.shown = (self.hook, name, where, body)
        who = f" of rank{'s' if len(ranks_) > 1 else ''} {memory.rank_list(ranks_)}" if ranks_ else ""
        print(f"finding {name}{who} at {model.short_file(where)}\n{body.rstrip()}")
        gdb.set_convenience_variable("finding_name", name)
        gdb.set_convenience_variable("finding_rank", -1 if number is None else number)
        ranks.State.chosen = FindingCatch.guilty = number
        scenario.Judged.found(where if run is None else "")
        if self.hook == "ls_gdb_hook_mismatch":
            FindingCatch.stopped_at, FindingCatch.named = run, name
        return True

    guilty = None
    stopped_at = None  # the run whose mismatch the program stopped at; its finding comes later
    named = None
    shown = ()  # hook, name, place, text

    @classmethod
    def name_better(cls, run, name, body):
        """The calls after a mismatch may name it better. The program has already stopped for it."""
        if name != cls.named:
            print(f"after the calls that followed, the finding is {name}\n{body.rstrip()}")
            gdb.set_convenience_variable("finding_name", name)
        cls.stopped_at = None
        return False

    @classmethod
    def forget(cls, *_):
        cls.stopped_at, cls.shown = None, ()

    @staticmethod
    def stopped(event):
        """Called after gdb has printed the place. At a terminal the prompt comes next; the TUI's windows cannot be changed earlier."""
        if not isinstance(event, gdb.BreakpointEvent):
            FindingCatch.guilty = None
        elif not sys.stdin.isatty():
            FindingCatch.select()

    @staticmethod
    def select():
        """The rank at fault is selected, at its program's line."""
        number, FindingCatch.guilty = FindingCatch.guilty, None
        if number is None:
            return
        with inferiors.in_coordinator(stays=True):
            run = model.find_run()
        if run is not None and number in run.ranks:
            print(ranks.go_to(run, number))


def address_of(frame):
    """The run of a hook; None for a controller's hook."""
    try:
        return int(frame.read_var("run")) or None
    except ValueError:
        return None


def last_error():
    value = memory.variable("last_error")
    return value["text"].string() if value is not None else ""


class CatchFinding(memory.Command, name="catch finding", kind=gdb.COMMAND_BREAKPOINTS):
    """catch finding [GLOB]: stops when a check finds a defect whose name matches, like deadlock.*

$finding_name and $finding_rank say what was found, and the first rank at fault."""

    def run(self, argument, from_tty):
        for hook in FINDING_HOOKS:
            FindingCatch(argument.strip() or "*", hook)

    def choices(self, text):
        return [finding_name(number) for number, name in
                memory.enum("ls_finding_id", "LS_FINDING_").items() if name != "count"]


def tell_divergence(at):
    """Prints an ls_gdb_divergence, and makes it the subject of `shard` and `rank`."""
    rank, element, count = int(at["rank"]), int(at["element"]), int(at["count"])
    known = element < count
    where = f"element {element}" if known else "no element"
    print(f"stage {memory.text(int(at['stage']))} is {memory.text(int(at['class_name']))}: "
          f"{memory.text(int(at['key']))}, rank {rank}, {where}")
    explanation = memory.text(int(at["text"])).rstrip()
    if explanation:
        print(explanation)
    gdb.set_convenience_variable("divergence_rank", rank)
    gdb.set_convenience_variable("divergence_element", element if known else -1)
    for name, dtype in (("ours", "dtype"), ("theirs", "their_dtype")):
        pointer = values.typed(at[name], int(at[dtype]))
        gdb.set_convenience_variable(f"divergence_{name}", pointer)
        if known and int(pointer) != 0:
            print(f"  {name}: {values.at(pointer, int(at[dtype]), element)}")
    ranks.State.chosen = rank
    scenario.Judged.stage = memory.text(int(at["stage"]))
    scenario.Judged.key = memory.text(int(at["key"]))


class DivergenceCatch(memory.Stop):
    """A stage of a run is wrong, or of a class that its scenario does not allow."""

    def __init__(self):
        super().__init__("ls_gdb_hook_divergence")

    def hit(self):
        tell_divergence(gdb.newest_frame().read_var("divergence"))
        return True


class CatchDivergence(memory.Command, name="catch divergence", kind=gdb.COMMAND_BREAKPOINTS):
    """catch divergence: stops where a run differs from its oracle, or from another run.

$divergence_rank, $divergence_element: where; $divergence_ours, $divergence_theirs: both arrays."""

    def run(self, argument, from_tty):
        DivergenceCatch()


def register():
    gdb.events.breakpoint_deleted.connect(Slots.forget)
    gdb.events.stop.connect(lambda event: memory.told(FindingCatch.stopped, event))
    gdb.events.exited.connect(FindingCatch.forget)
    gdb.events.before_prompt.connect(lambda: memory.told(FindingCatch.select))
    for command in (CatchCollective, CatchFinding, CatchDivergence):
        command()
