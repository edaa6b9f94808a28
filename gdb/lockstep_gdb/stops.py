"""Where to stop: the next collective, a numbered one, a kind of call, a finding; and going back.

Collectives are numbered in the order in which they met, through the whole process. A run with a
schedule of its own repeats these numbers exactly, so going back is running again up to one.
"""
import fnmatch

import gdb

from . import memory, model, ranks
from .memory import Failure

NONE = (1 << 64) - 1


class Reached(gdb.Breakpoint):
    """At the hook that the library calls for the set that ls_gdb_stop_at names."""
    instance = None
    hit = False

    def __init__(self):
        super().__init__("ls_gdb_hook_reached", internal=True)
        self.silent = True

    def stop(self):
        Reached.hit = True
        return True

    @classmethod
    def arm(cls, number):
        if memory.variable("ls_gdb_stop_at") is None:
            raise Failure("the program is not linked with lockstep, or has no debug information")
        if cls.instance is None or not cls.instance.is_valid():
            cls.instance = cls()
        cls.instance.enabled = True
        cls.hit = False
        gdb.execute(f"set var ls_gdb_stop_at = {number}")

    @classmethod
    def disarm(cls):
        if cls.instance is not None and cls.instance.is_valid():
            cls.instance.enabled = False
        if alive():
            gdb.execute(f"set var ls_gdb_stop_at = {NONE}")


def alive():
    return gdb.selected_inferior().pid != 0 and gdb.selected_thread() is not None


def need_process():
    if not alive():
        raise Failure("the program is not running; start it with 'run' or 'start'")
    if not can_run():
        raise Failure("a core file cannot go on")


def can_run():
    target = gdb.selected_inferior().connection
    return target is None or target.type != "core"


def group_of_frame():
    """(calls as records, number) from the arguments of the hook that the selected frame is in."""
    frame = gdb.newest_frame()
    size = int(frame.read_var("size"))
    addresses = memory.pointers(int(frame.read_var("calls")), size)
    return [memory.record("ls_call", a) for a in addresses], int(frame.read_var("number"))


def describe_met():
    found, number = group_of_frame()
    calls = model.Calls()
    groups = {}
    for call in found:
        groups.setdefault(calls.where(call), []).append(call["rank"])
    name = calls.comm_name(found[0]["comm"])
    if calls.verb(found[0]) == "send":
        what = (f"message of {found[0]['count']} "
                f"{memory.enum_name('ls_dtype', 'LS_', found[0]['dtype'])} "
                f"from rank {found[0]['rank']} to rank {found[1]['rank']}")
    else:
        what = calls.describe(found[0])
    places = "; ".join(f"ranks {memory.rank_list(sorted(ids))} at {where}"
                       for where, ids in sorted(groups.items(), key=lambda item: item[1]))
    print(f"#{number}: {what} on {name}, {places}")
    show_program({where.rsplit(':', 1)[0] for where in groups})


def show_program(files=()):
    """Selects the program's own frame in the selected thread, and prints it. A scenario's program is
    no C code (files: where its calls were made): then the frame stays."""
    frame = model.program_frame()
    rank = model.selected_rank(model.find_run())
    sal = frame.find_sal()
    if rank is None and (sal.symtab is None or model.short_file(sal.symtab.filename) not in files):
        return
    frame.select()
    who = f"[rank {rank.id}] " if rank is not None else ""
    print(f"{who}{model.frame_text(frame)}")


def go_on(number):
    """Continues up to set `number`. Returns whether it was reached; if not, tells why it stopped."""
    Reached.arm(number)
    try:
        out = gdb.execute("continue", to_string=True)
    finally:
        Reached.disarm()
    if Reached.hit and alive():
        return True
    lines = [line for line in out.split("\n")
             if line and not line.startswith(("[New Thread", "[Switching", "[Thread", "Continuing"))]
    print("\n".join(lines) if lines else "the program stopped elsewhere")
    if not alive():
        print(f"the program ended before set {number} met")
    return False


class NextCollective(gdb.Command):
    """next-collective [KIND]: goes on until the next collective (or message) has met on all its ranks.

Stops before its data moves, with the rank selected whose call completed it."""

    def __init__(self):
        super().__init__("next-collective", gdb.COMMAND_RUNNING)

    def invoke(self, argument, from_tty):
        need_process()
        kind = check_kind(argument.strip())
        while go_on(model.met()):
            found, _ = group_of_frame()
            if kind is None or found[0]["kind"] == kind:
                describe_met()
                return

    def complete(self, text, word):
        return [name for name in kinds().values() if name.startswith(word)]


class UntilCollective(gdb.Command):
    """until-collective SEQ: goes on until the set of calls number SEQ has met, which $seq() then is."""

    def __init__(self):
        super().__init__("until-collective", gdb.COMMAND_RUNNING)

    def invoke(self, argument, from_tty):
        need_process()
        number = number_of(argument)
        if number < model.met():
            raise Failure(f"{model.met()} sets have met already; 'goto-collective {number}' goes back")
        if go_on(number):
            describe_met()


class GotoCollective(gdb.Command):
    """goto-collective SEQ: goes to where set SEQ met, forward or back.

Back means that the program is run again in this gdb: its schedule repeats itself. Breakpoints are
kept, and passed over on the way."""

    def __init__(self):
        super().__init__("goto-collective", gdb.COMMAND_RUNNING)

    def invoke(self, argument, from_tty):
        number = number_of(argument)
        if alive():
            need_process()
        kept = [b for b in gdb.breakpoints() or () if b.enabled and b.is_valid()]
        for breakpoint_ in kept:
            breakpoint_.enabled = False
        try:
            if not alive() or number < model.met():
                self._start()
            reached = go_on(number)
        finally:
            for breakpoint_ in kept:
                if breakpoint_.is_valid():
                    breakpoint_.enabled = True
        if reached:
            describe_met()

    @staticmethod
    def _start():
        if alive() and gdb.selected_inferior().was_attached:
            raise Failure("gdb was attached to this process, so it cannot start it again")
        confirm = gdb.parameter("confirm")
        gdb.execute("set confirm off")
        try:
            gdb.Breakpoint("main", internal=True, temporary=True).silent = True
            gdb.execute("run", to_string=True)
        finally:
            gdb.execute(f"set confirm {'on' if confirm else 'off'}")
        if not alive():
            raise Failure("the program did not start again")


def number_of(argument):
    try:
        number = int(gdb.parse_and_eval(argument.strip()))
    except (gdb.error, ValueError) as error:
        raise Failure(f"'{argument}' is no number of a set of calls") from error
    if not 0 <= number < NONE:
        raise Failure(f"{number} is no number of a set of calls")
    return number


def kinds():
    return memory.enum("ls_kind", "LS_")


def check_kind(name):
    """The number of a kind by its name; None for ""."""
    if name == "":
        return None
    for number, known in kinds().items():
        if known == name:
            return number
    known = ", ".join(k for k in kinds().values() if k != "kind_count")
    raise Failure(f"'{name}' is no kind of call; there are {known}")


class CallCatch(gdb.Breakpoint):
    """A breakpoint where ranks call; its condition is gdb's own, so it costs no Python."""

    def __init__(self, kind, condition, name):
        # Those of both doors: a rank's own call, and a controller's group.
        super().__init__("ls_gdb_hook_enter" if name is None else name)
        field = "request->call.kind" if name is None else "calls[0].kind"
        parts = ["request->verb == 0"] if name is None and kind is not None else []
        if kind is not None:
            parts.append(f"{field} == {kind}")
        if condition:
            parts.append(f"({condition})")
        if parts:
            self.condition = " && ".join(parts)


class CatchCollective(gdb.Command):
    """catch collective [KIND] [if CONDITION]: stops when a rank makes a call, before it is matched.

CONDITION may use $rank(), and of the call request->call.count, .dtype, .seq, ..."""

    def __init__(self):
        super().__init__("catch collective", gdb.COMMAND_BREAKPOINTS)

    def invoke(self, argument, from_tty):
        words, _, condition = (" " + argument + " ").partition(" if ")
        kind = check_kind(words.strip())
        CallCatch(kind, condition.strip(), None)

    def complete(self, text, word):
        return [name for name in kinds().values() if name.startswith(word)]


_DOTTED = ("p2p", "deadlock", "buffer", "handle", "replica", "value", "rank", "input")


def finding_name(number):
    """The stable name, "collective.op_mismatch", from the enumerator."""
    name = memory.enum_name("ls_finding_id", "LS_FINDING_", number)
    head, _, rest = name.partition("_")
    return f"{head}.{rest}" if head in _DOTTED else f"collective.{name}"


class FindingCatch(gdb.Breakpoint):
    """Where a check has found something: ls_gdb_hook_finding, or a controller's refused group."""

    def __init__(self, glob, hook):
        super().__init__(hook)
        self.glob = glob
        self.hook = hook

    def stop(self):
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
        if not fnmatch.fnmatchcase(name, self.glob):
            return False
        who = f" of rank{'s' if len(ranks_) > 1 else ''} {memory.rank_list(ranks_)}" if ranks_ else ""
        print(f"finding {name}{who} at {model.short_file(where)}\n{body.rstrip()}")
        gdb.set_convenience_variable("finding_name", name)
        gdb.set_convenience_variable("finding_rank", ranks_[0] if ranks_ else -1)
        ranks.State.chosen = ranks_[0] if ranks_ else None
        return True


def last_error():
    value = memory.variable("last_error")
    return value["text"].string() if value is not None else ""


class CatchFinding(gdb.Command):
    """catch finding [GLOB]: stops when a check finds a defect whose name matches, like deadlock.*

$finding_name and $finding_rank say what was found, and the first rank at fault."""

    def __init__(self):
        super().__init__("catch finding", gdb.COMMAND_BREAKPOINTS)

    def invoke(self, argument, from_tty):
        glob = argument.strip() or "*"
        FindingCatch(glob, "ls_gdb_hook_finding")
        FindingCatch(glob, "ls_gdb_hook_refused")


class DivergenceCatch(gdb.Breakpoint):
    """Where a comparison finds its first element that is wrong."""

    def __init__(self):
        super().__init__("ls_gdb_hook_divergence")

    def stop(self):
        at = gdb.newest_frame().read_var("divergence")
        for name in ("rank", "element"):
            gdb.set_convenience_variable(f"divergence_{name}", int(at[name]))
        print(f"stage {memory.text(int(at['stage']))} is wrong: {memory.text(int(at['key']))}, "
              f"rank {int(at['rank'])}, element {int(at['element'])}")
        gdb.set_convenience_variable("divergence_ours", at["ours"])
        gdb.set_convenience_variable("divergence_theirs", at["theirs"])
        ranks.State.chosen = int(at["rank"])
        return True


class CatchDivergence(gdb.Command):
    """catch divergence: stops where lockstep compare finds the first wrong stage.

$divergence_rank, $divergence_element: where; $divergence_ours, $divergence_theirs: both arrays."""

    def __init__(self):
        super().__init__("catch divergence", gdb.COMMAND_BREAKPOINTS)

    def invoke(self, argument, from_tty):
        DivergenceCatch()


def out_of_library():
    """Before next and step: where the program's frame of a rank is selected and the rank is inside of
    a call, gdb would step through the library, from its innermost frame. First lets the call end."""
    try:
        if not alive() or not can_run():
            return
        selected = gdb.selected_frame()
        if selected.newer() is None or selected != model.program_frame():
            return
        thread = gdb.selected_thread()
        selected.newer().select()
    except gdb.error:
        return
    gdb.execute("finish", to_string=True)
    here = gdb.selected_thread()
    if here is None or here.num != thread.num or gdb.newest_frame() != gdb.selected_frame():
        raise Failure("the program stopped elsewhere, before the call ended")


def hook_steps():
    for name in ("next", "step"):
        gdb.execute(f"define hook-{name}\npython lockstep_gdb.stops.out_of_library()\nend")


def register():
    gdb.execute("python import lockstep_gdb")
    hook_steps()
    for command in (NextCollective, UntilCollective, GotoCollective, CatchCollective, CatchFinding,
                    CatchDivergence):
        command()
