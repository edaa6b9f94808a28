"""Continues to a collective, the next or a numbered one, and goes back.

Users name a collective by its number among the calls of its communicator. The library also counts all matched sets of calls. A run with a
schedule repeats both numbers exactly, so going back runs the program again up to one. A finding and the end of a run stop the program on
the way.
"""
import gdb

from . import catches, inferiors, memory, model
from .memory import Failure

NONE = (1 << 64) - 1


class Reached(memory.Stop):
    """At the hook that the library calls for the set that a Wish names."""
    instance = None
    seen = False

    def __init__(self):
        super().__init__("ls_gdb_hook_reached", internal=True)
        self.silent = True

    @staticmethod
    def hit():
        Reached.seen = True
        return True

    @classmethod
    def arm(cls, wish):
        if memory.variable("ls_gdb_stop_at") is None:
            raise Failure(memory.no_information("ls_gdb_stop_at"))
        if cls.instance is None or not cls.instance.is_valid():
            cls.instance = cls()
        cls.instance.enabled = True
        cls.seen = False
        wish.write()

    @classmethod
    def disarm(cls):
        if cls.instance is not None and cls.instance.is_valid():
            cls.instance.enabled = False
        if alive():
            gdb.execute(f"set var ls_gdb_stop_at = {NONE}")
            gdb.execute("set var ls_gdb_stop_for.on = 0")


class Ended(memory.Stop):
    """At the end of a run whose ranks still exist, if no other run is active."""
    seen = False

    def __init__(self):
        super().__init__("ls_gdb_hook_run", internal=True)
        self.silent = True

    @staticmethod
    def hit():
        frame = gdb.newest_frame()
        run = int(frame.read_var("run"))
        Ended.seen = bool(frame.read_var("ended")) and run == int(memory.variable("ls_gdb_runs")) \
            and memory.record("ls_spmd", run)["next_run"] == 0
        return Ended.seen


class Wish:
    """The target of a continue: the set of a number, or the first with such a call."""

    def __init__(self, number=NONE, kind=None, comm=None, seq=NONE):
        self.number, self.kind, self.comm, self.seq = number, kind, comm, seq

    def write(self):
        if self.number != NONE:
            gdb.execute(f"set var ls_gdb_stop_at = {self.number}")
        else:
            memory.record("ls_gdb_wish", int(gdb.parse_and_eval("&ls_gdb_stop_for"))).write(
                catches.wish_fields(self.kind, self.comm, seq=self.seq))

    def __str__(self):
        if self.number != NONE:
            return f"set {self.number} of all"
        what = f"call {self.seq}" if self.seq != NONE else \
            "another " + ("call" if self.kind is None else catches.kinds()[self.kind])
        return what + (f" on {self.comm.text}" if self.comm is not None else "")


def alive():
    return gdb.selected_inferior().pid != 0 and gdb.selected_thread() is not None


def need_own_process():
    """Fails without a process that has the library and can continue."""
    need_process()
    model.need_program()


def need_process():
    if not alive():
        raise Failure("the program is not running; start it with 'run' or 'start'")
    if not model.can_run():
        raise Failure("a core file cannot continue")


def group_of_frame():
    """(calls as records, number) from the arguments of the hook that the selected frame is in."""
    frame = gdb.newest_frame()
    size = int(frame.read_var("size"))
    addresses = memory.pointers(int(frame.read_var("calls")), size)
    return [memory.record("ls_call", a) for a in addresses], int(frame.read_var("number"))


def describe_met():
    found, _ = group_of_frame()
    calls = model.Calls()
    groups = {}
    for call in found:
        groups.setdefault(calls.where(call), []).append(call["rank"])
    name = calls.comm_name(found[0]["comm"], found[0]["say"])
    if calls.verb(found[0]) == "send" and found[0]["say"] == 0:
        what = (f"message of {found[0]['count']} "
                f"{memory.enum_name('ls_dtype', 'LS_', found[0]['dtype'])} "
                f"from rank {found[0]['rank']} to rank {found[1]['rank']}")
    else:
        what = calls.describe(found[0])
    places = "; ".join(f"ranks {memory.rank_list(sorted(ids))} at {where}"
                       for where, ids in sorted(groups.items(), key=lambda item: item[1]))
    print(f"#{min(call['seq'] for call in found)}: {what} on {name}, {places}")
    if inferiors.apart:
        print(inferiors.go_to_text(min(call["rank"] for call in found)))
        return
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
    place = model.frame_text(frame) if rank is None or model.is_of_program(frame) else f"at {rank.where()}"
    print((f"[rank {rank.id}] " if rank is not None else "") + place)


def go_on(wish):
    """Continues up to a wish. Returns whether it was reached; if not, prints why it stopped."""
    Reached.arm(wish)
    Ended.seen, catches.FindingCatch.shown = False, ()
    others = [Ended()] + [catches.FindingCatch("*", hook, internal=True) for hook in catches.FINDING_HOOKS]
    try:
        out = gdb.execute("continue", to_string=True)
    finally:
        Reached.disarm()
        for other in others:
            if other.is_valid():
                other.delete()
    if Reached.seen and alive():
        return True
    lines = [line for line in out.split("\n")
             if line and not line.startswith(("[New Thread", "[Switching", "[Thread", "Continuing"))]
    if lines:
        print("\n".join(lines))
    if not alive():
        print(f"the program ended before {wish} matched")
    elif catches.FindingCatch.shown:
        print(f"the program stopped at the finding, before {wish} matched")
    elif Ended.seen:
        print(f"the run ended before {wish} matched; its ranks are still here")
    else:
        print("the program stopped elsewhere")
    return False


class NextCollective(inferiors.RunCommand, name="next-collective", kind=gdb.COMMAND_RUNNING):
    """next-collective [KIND] [on COMM]: goes on until the next collective or message has met on all
its ranks: of a kind, or on a communicator, if you name one (#NUMBER where several share a name).

Stops before its data moves, with the rank selected whose call completed it."""

    stays = True

    def run(self, argument, from_tty):
        need_own_process()
        where = catches.Where(argument)
        if where.comm is not None:
            where.comm.found()
        if go_on(Wish(kind=where.kind, comm=where.comm)):
            describe_met()

    typed = staticmethod(catches.call_typed)

    def choices(self, text):
        return catches.call_choices(text, catches.kind_names())


class UntilCollective(inferiors.RunCommand, name="until-collective", kind=gdb.COMMAND_RUNNING):
    """until-collective SEQ [on COMM]: goes on until call SEQ of a communicator has met, as findings and
`ranks` count them. Without COMM: of world. A finding on the way stops it.

COMM is the communicator's name, or #NUMBER where several share it."""

    stays = True

    def run(self, argument, from_tty):
        need_own_process()
        wish = wish_of(argument)
        comm = wish.comm.found()
        if comm is not None and min(comm.next_calls()) > wish.seq:
            raise Failure(f"{wish} was made by all its ranks already; 'goto-collective {argument}' goes back")
        if go_on(wish):
            describe_met()

    typed = staticmethod(catches.call_typed)

    def choices(self, text):
        return catches.call_choices(text, ())


class breakpoints_off:
    """The user's breakpoints are skipped."""

    def __enter__(self):
        self.kept = [b for b in gdb.breakpoints() or () if b.enabled and b.is_valid() and b.number > 0]
        for breakpoint_ in self.kept:
            breakpoint_.enabled = False

    def __exit__(self, *_):
        for breakpoint_ in self.kept:
            if breakpoint_.is_valid():
                breakpoint_.enabled = True


def need_order():
    """Fails where the order of ranks does not repeat itself."""
    if inferiors.Coordinator.number is not None:
        raise Failure("ranks that are processes do not repeat their order: only forward, to a call that is not matched yet")


def start_again():
    need_order()
    if alive() and gdb.selected_inferior().was_attached:
        raise Failure("gdb was attached to this process, so it cannot start it again")
    if gdb.lookup_global_symbol("main") is None:
        raise Failure(memory.no_information("main"))
    confirm = gdb.parameter("confirm")
    gdb.execute("set confirm off")
    main = gdb.Breakpoint("main", internal=True, temporary=True)
    main.silent = True
    try:
        gdb.execute("run", to_string=True)
    finally:
        gdb.execute(f"set confirm {'on' if confirm else 'off'}")
        if main.is_valid():
            main.delete()
    if not alive():
        raise Failure("the program did not start again")
    model.need_program()


class GotoCollective(inferiors.RunCommand, name="goto-collective", kind=gdb.COMMAND_RUNNING):
    """goto-collective SEQ [on COMM]: goes to where call SEQ of a communicator met, forward or back, or to
the finding before it. Without COMM: of world (#NUMBER where several share a name).

Back means that the program is run again in this gdb: its schedule repeats itself. Breakpoints are
kept, and passed over on the way."""

    stays = True

    def run(self, argument, from_tty):
        if alive():
            need_own_process()
        wish = wish_of(argument)
        comm = wish.comm.found() if alive() else None
        behind = comm is not None and max(comm.next_calls()) > wish.seq
        with breakpoints_off():
            if not alive() or behind:
                start_again()
            reached = go_on(wish)
        if reached:
            describe_met()

    typed = staticmethod(catches.call_typed)

    def choices(self, text):
        return catches.call_choices(text, ())


class ReverseNextCollective(inferiors.RunCommand, name="reverse-next-collective", kind=gdb.COMMAND_RUNNING):
    """reverse-next-collective [KIND] [on COMM]: goes back to the set before, of a kind or on a communicator.

The program is run again in this gdb up to there, as `goto-collective` does it."""

    stays = True

    def run(self, argument, from_tty):
        need_own_process()
        where, here = catches.Where(argument), model.met() - 1
        with breakpoints_off():
            target = here - 1 if where.kind is None and where.comm is None else self._last(where, here)
            if target < 0:
                raise Failure("no such set has matched before this one")
            start_again()
            if go_on(Wish(number=target)):
                describe_met()

    @staticmethod
    def _last(where, here):
        """The number of the newest such set before set `here`; -1: none, and the program is at `here`."""
        last = -1
        start_again()
        while go_on(Wish(kind=where.kind, comm=where.comm)) and model.met() - 1 < here:
            last = model.met() - 1
        return last

    typed = staticmethod(catches.call_typed)

    def choices(self, text):
        return catches.call_choices(text, catches.kind_names())


def wish_of(argument):
    """"SEQ" or "SEQ on COMM"."""
    text, on, comm = (argument + " ").partition(" on ")
    try:
        number = int(gdb.parse_and_eval(text.strip()))
    except (gdb.error, ValueError):
        raise Failure(f"'{text.strip()}' is not the number of a call") from None
    if not 0 <= number < NONE:
        raise Failure(f"{number} is not the number of a call")
    if on and not comm.strip():
        raise Failure("'on' needs the name of a communicator")
    return Wish(seq=number, comm=catches.CommName(comm.strip() or "world"))


class OutOfLibrary(memory.Command, name="lockstep-out-of-library", kind=gdb.COMMAND_RUNNING):
    """lockstep-out-of-library: lets the call end that the selected rank is in, if its program's frame
is selected. `next` and `step` begin with it: gdb would step the innermost frame."""

    def run(self, argument, from_tty):
        gdb.execute("lockstep-steps")
        try:
            if not alive() or not model.can_run():
                return
            selected = gdb.selected_frame()
            program = model.program_frame if inferiors.selected() is None else inferiors.program_frame
            if selected.newer() is None or selected != program():
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
        gdb.execute(f"define hook-{name}\nlockstep-out-of-library\nend")


def register():
    for command in (NextCollective, UntilCollective, GotoCollective, ReverseNextCollective, OutOfLibrary):
        command()
    hook_steps()
