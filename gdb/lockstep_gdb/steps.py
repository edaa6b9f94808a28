"""step-all and next-all: advance every rank by one line.

One rank has the run token; the others wait for it in the library. gdb gives it (ls_gdb_give_token) to each rank in turn, lets only that
thread run until its program is at another line, and takes it away again. A rank whose call waits for others stays in it until those have
arrived: their lines are executed first.
"""
import gdb

from . import memory, model, ranks, stops
from .memory import Failure

LINE, BLOCKED, OVER, ELSEWHERE = range(4)


class Parked(memory.Stop):
    """Where a rank is about to wait in the library."""
    instance, hit_now = None, False

    def __init__(self):
        super().__init__("ls_gdb_hook_parked", internal=True)
        self.silent = True

    @staticmethod
    def hit():
        Parked.hit_now = True
        return True

    @classmethod
    def arm(cls):
        if cls.instance is None or not cls.instance.is_valid():
            cls.instance = cls()
        cls.instance.enabled = True


class Stopped:
    """The program's last stop other than the end of a step."""
    why = None

    @staticmethod
    def event(event):
        Stopped.why = None
        if isinstance(event, gdb.SignalEvent):
            Stopped.why = f"signal {event.stop_signal}"
        elif isinstance(event, gdb.BreakpointEvent):
            numbers = [b.number for b in event.breakpoints if b.number > 0]
            Stopped.why = f"breakpoint {numbers[0]}" if numbers else None


def give_token(rank):
    try:
        gdb.execute(f"call (void)ls_gdb_give_token((ls_rank *){rank.record.address})", to_string=True)
    except gdb.error as error:
        if "extended state" in str(error):  # registers that this gdb does not know, such as AMX tiles
            raise Failure("this gdb cannot call functions on this processor, which step-all and next-all need: "
                          f"{str(error).rstrip('.')}; a newer gdb can") from None
        raise


def run_on(command):
    """Runs only the selected thread; returns whether it is about to wait."""
    Parked.hit_now, Stopped.why = False, None
    gdb.execute(command, to_string=True)
    return Parked.hit_now


def run_out(frame):
    """Runs until that frame returns, without a value in gdb's history; returns whether it is about to wait."""
    at = gdb.FinishBreakpoint(frame, internal=True)
    at.silent = True
    try:
        return run_on("continue")
    finally:
        if at.is_valid():
            at.delete()


def place(frame):
    sal = frame.find_sal()
    return (frame.name(), sal.symtab.filename if sal.symtab is not None else "", sal.line)


def in_program():
    """Whether the selected thread is in the user's function, or in what it called."""
    frame = model.program_frame()
    return frame.name() not in (model.RANK_BEGINS, "rank_main") and model.is_of_program(frame)


def begin(run):
    """The selected rank has not begun: up to the first line of its program."""
    symbol = gdb.block_for_pc(run.record["program"]).function
    at = gdb.Breakpoint(symbol.name if symbol is not None else f"*{run.record['program']:#x}",
                        internal=True)
    at.silent = True
    try:
        while True:  # gdb may stop for another thread's sake
            if run_on("continue"):
                return BLOCKED
            if Stopped.why:
                return ELSEWHERE
            if in_program():
                return LINE
    finally:
        if at.is_valid():
            at.delete()


def one_line(run, number, command):
    """One line of rank `number`, which has the run token."""
    ranks.switch(run, number)
    if not in_program():
        begun = any(f == model.RANK_BEGINS for f in names())
        if not begun:
            return begin(run)
        return OVER if run_on("continue") else ELSEWHERE
    before, depth = place(model.program_frame()), model.program_frame()
    while True:
        if model.program_frame() != gdb.newest_frame():  # in the library: out of it first
            if run_out(model.program_frame().newer()):
                return BLOCKED
            if Stopped.why:
                return ELSEWHERE
        elif place(model.program_frame()) != before or model.program_frame() != depth:
            return LINE
        if model.program_frame() == gdb.newest_frame():
            if run_on(command):
                return BLOCKED
            if Stopped.why:
                return ELSEWHERE
        if not in_program():  # it returned to the library
            return OVER if run_on("continue") else ELSEWHERE


def names():
    frame, depth = gdb.newest_frame(), 0
    while frame is not None and depth < 64:
        yield frame.name()
        frame, depth = frame.older(), depth + 1


class All(memory.Command):
    """Shared by step-all and next-all."""

    def run(self, argument, from_tty):
        stops.need_order()
        stops.need_own_process()
        run = model.need_run()
        if run.record["parallel"]:
            raise Failure("the ranks of a parallel run have no run token that could be passed on")
        selected = model.selected_rank(run)
        alive = [r for r in sorted(run.ranks) if run.ranks[r].state in ("ready", "running", "blocked")]
        if not alive:
            raise Failure("the program of every rank has ended")
        locking = gdb.parameter("scheduler-locking")
        gdb.execute("set scheduler-locking on")
        Parked.arm()
        try:
            with ranks.quiet_cli():
                elsewhere = self._round(run.address, alive)
        finally:
            Parked.instance.enabled = False
            if stops.alive():
                gdb.execute(f"set scheduler-locking {locking}")
        if not stops.alive():
            return
        run = model.Run(run.address)
        if elsewhere is None and selected is not None:
            print(ranks.go_to(run, selected.id))
        elif elsewhere is not None:
            print(f"{Stopped.why or 'the program'} stopped rank {elsewhere}")
            print(ranks.go_to(run, elsewhere))
        self._show(run, alive)

    def _round(self, address, alive):
        """Each of the ranks advances by a line as soon as it can; returns the rank that stopped elsewhere."""
        pending = list(alive)
        while pending:
            run = model.Run(address)
            able = [r for r in pending if run.ranks[r].state in ("running", "ready")]
            if not able:
                return None
            number = able[0]
            if run.running != number:
                give_token(run.ranks[number])
                run = model.Run(address)
            done = one_line(run, number, self.step)
            if done == ELSEWHERE:
                return number
            if done in (LINE, OVER):
                pending.remove(number)
        return None

    @staticmethod
    def _show(run, alive):
        for number in alive:
            rank = run.ranks[number]
            if rank.state in ("returned", "died"):
                print(f"rank {number}: {rank.state}")
            elif rank.state == "blocked":
                waits = rank.waits_in()
                what = model.Calls().describe(waits[0], "call.") if waits else "a call"
                print(f"rank {number}: waits in {what} at {rank.where()}")
            else:
                frame = ranks.frame_of(rank, model.selected_rank(run))
                print(f"rank {number}: {model.frame_text(frame)}")


class NextAll(All, name="next-all", kind=gdb.COMMAND_RUNNING):
    """next-all: every rank makes one line of its program, calls of functions included.

A rank whose call waits for others stays in it until they have come there. Works where every rank runs
the user's own C function, under every schedule but the parallel one."""
    step = "next"


class StepAll(All, name="step-all", kind=gdb.COMMAND_RUNNING):
    """step-all: every rank makes one line of its program, into functions of the program.

A rank whose call waits for others stays in it until they have come there. See next-all."""
    step = "step"


def register():
    gdb.events.stop.connect(Stopped.event)
    NextAll()
    StepAll()
