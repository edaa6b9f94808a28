"""Going on to a collective, the next or a numbered one, and going back.

Collectives are numbered in the order in which they met, through the whole process. A run with a
schedule of its own repeats these numbers exactly, so going back is running again up to one.
"""
import gdb

from . import catches, memory, model
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


class Wish:
    """What to go on to: the set of a number, or the first with such a call."""

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
            return f"set {self.number}"
        what = f"call {self.seq}" if self.seq != NONE else \
            "another " + ("call" if self.kind is None else catches.kinds()[self.kind])
        return what + (f" on {self.comm.text}" if self.comm is not None else "")


def alive():
    return gdb.selected_inferior().pid != 0 and gdb.selected_thread() is not None


def need_own_process():
    """A process that has the library, and may go on."""
    need_process()
    model.need_program()


def need_process():
    if not alive():
        raise Failure("the program is not running; start it with 'run' or 'start'")
    if not model.can_run():
        raise Failure("a core file cannot go on")


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
    # The communicator's own count, where it is another one and the same for all.
    own = {call["seq"] for call in found}
    count = f", its call {own.pop()}" if len(own) == 1 and number not in own else ""
    print(f"#{number}: {what} on {name}{count}, {places}")
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


def go_on(wish):
    """Continues up to a wish. Returns whether it was reached; if not, tells why it stopped."""
    Reached.arm(wish)
    try:
        out = gdb.execute("continue", to_string=True)
    finally:
        Reached.disarm()
    if Reached.seen and alive():
        return True
    lines = [line for line in out.split("\n")
             if line and not line.startswith(("[New Thread", "[Switching", "[Thread", "Continuing"))]
    if lines:
        print("\n".join(lines))
    if alive():
        print("the program stopped elsewhere")
        return False
    print(f"the program ended before {wish} met")
    if wish.seq != NONE:
        print("calls that make communicators or check replicas have numbers, too, but are no sets")
    return False


class NextCollective(memory.Command):
    """next-collective [KIND] [on COMM]: goes on until the next collective or message has met on all
its ranks: of a kind, or on a communicator, if you name one (#NUMBER where several share a name).

Stops before its data moves, with the rank selected whose call completed it."""

    def __init__(self):
        super().__init__("next-collective", gdb.COMMAND_RUNNING)

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


class UntilCollective(memory.Command):
    """until-collective SEQ: goes on until the set of calls number SEQ has met, which $seq() then is.
until-collective SEQ on COMM: until call SEQ of a communicator has met, as `ranks` counts them.

COMM is the communicator's name, or #NUMBER where several share it."""

    def __init__(self):
        super().__init__("until-collective", gdb.COMMAND_RUNNING)

    def run(self, argument, from_tty):
        need_own_process()
        wish = wish_of(argument)
        if wish.comm is None and wish.number < model.met():
            raise Failure(f"{model.met()} sets have met already; 'goto-collective {wish.number}' "
                          "goes back")
        if wish.comm is not None:
            comm = wish.comm.found()
            if comm is not None and min(comm.next_calls()) > wish.seq:
                raise Failure(f"{wish} was made by all its ranks already; 'goto-collective {argument}'"
                              " goes back")
        if go_on(wish):
            describe_met()

    typed = staticmethod(catches.call_typed)

    def choices(self, text):
        return catches.call_choices(text, ())


class GotoCollective(memory.Command):
    """goto-collective SEQ: goes to where set SEQ met, forward or back.
goto-collective SEQ on COMM: to where call SEQ of a communicator met (#NUMBER where several share a name).

Back means that the program is run again in this gdb: its schedule repeats itself. Breakpoints are
kept, and passed over on the way."""

    def __init__(self):
        super().__init__("goto-collective", gdb.COMMAND_RUNNING)

    def run(self, argument, from_tty):
        if alive():
            need_own_process()
        wish = wish_of(argument)
        kept = [b for b in gdb.breakpoints() or () if b.enabled and b.is_valid() and b.number > 0]
        for breakpoint_ in kept:
            breakpoint_.enabled = False
        try:
            if not alive() or self._is_behind(wish):
                self._start()
            reached = go_on(wish)
        finally:
            for breakpoint_ in kept:
                if breakpoint_.is_valid():
                    breakpoint_.enabled = True
        if reached:
            describe_met()

    @staticmethod
    def _is_behind(wish):
        if wish.comm is None:
            return wish.number < model.met()
        comm = wish.comm.found()
        return comm is not None and max(comm.next_calls()) > wish.seq

    @staticmethod
    def _start():
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

    typed = staticmethod(catches.call_typed)

    def choices(self, text):
        return catches.call_choices(text, ())


def wish_of(argument):
    """"SEQ" or "SEQ on COMM"."""
    text, on, comm = (argument + " ").partition(" on ")
    try:
        number = int(gdb.parse_and_eval(text.strip()))
    except (gdb.error, ValueError):
        raise Failure(f"'{text.strip()}' is no number of a set of calls") from None
    if not 0 <= number < NONE:
        raise Failure(f"{number} is no number of a set of calls")
    if on and not comm.strip():
        raise Failure("'on' needs the name of a communicator")
    return Wish(seq=number, comm=catches.CommName(comm.strip())) if on else Wish(number=number)


class OutOfLibrary(memory.Command):
    """lockstep-out-of-library: lets the call end that the selected rank is in, if its program's frame
is selected. `next` and `step` begin with it: gdb would step the innermost frame."""

    def __init__(self):
        super().__init__("lockstep-out-of-library", gdb.COMMAND_RUNNING)

    def run(self, argument, from_tty):
        try:
            if not alive() or not model.can_run():
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
        gdb.execute(f"define hook-{name}\nlockstep-out-of-library\nend")


def register():
    for command in (NextCollective, UntilCollective, GotoCollective, OutOfLibrary):
        command()
    hook_steps()
