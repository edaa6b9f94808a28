"""Ranks that are processes: those of `lockstep exec` in one gdb, each an inferior.

The first inferior is the coordinator, which has the calls of all ranks. While it starts them, between two calls of ls_gdb_hook_processes
(exec/gdb.c), gdb follows every fork; children of ranks are not its own. gdb stops all inferiors where one exits: such a stop is passed.
"""
import os
import shutil
import struct
import time

import gdb

from . import catches, inferiors, memory

SETTINGS = ("set detach-on-fork off", "set schedule-multiple on", "set print inferior-events off", "set print thread-events off",
            "handle SIGTERM nostop noprint pass")


class State:
    hook = leaves = None
    leaving = []  # numbers of inferiors
    begun = ending = found = False
    entry = False  # stops once all ranks have started
    stepping = False  # a step that the exit of another rank ends is not continued
    exited = stopped = False  # the last stop was that; it was another one
    code = None  # the coordinator's exit code
    clock = None  # (process, address) of ls_gdb_stopped_ns


class Started(memory.Stop):
    """Before and after the coordinator starts ranks."""

    def __init__(self):
        super().__init__("ls_gdb_hook_processes", internal=True)
        self.silent = True

    @staticmethod
    def hit():
        frame = gdb.newest_frame()
        at, count = int(frame.read_var("pids")), int(frame.read_var("count"))
        if at == 0:
            begin(memory.text(int(frame.read_var("program"))))
            return False
        numbers = {one.pid: one.num for one in gdb.inferiors() if one.pid}
        pids = memory.integers(at, count, 4)
        inferiors.apart.clear()
        inferiors.apart.update((rank, (numbers[pid], "")) for rank, pid in enumerate(pids) if pid in numbers)
        gdb.execute("set detach-on-fork on")  # children of ranks
        return State.entry


class Leaves(memory.Stop):
    """A rank is about to exit."""

    def __init__(self):
        super().__init__("ls_gdb_hook_leaves", internal=True)
        self.silent = True

    @staticmethod
    def hit():
        return True


def begin(program):
    """In the coordinator, before it starts processes."""
    inferiors.Coordinator.number, State.exited, State.code = gdb.selected_inferior().num, False, None
    for setting in SETTINGS:
        gdb.execute(setting, to_string=True)
    gdb.execute("set var ls_gdb_debugs_processes = 1")
    State.clock = (gdb.selected_inferior().pid, int(gdb.parse_and_eval("(long)&ls_gdb_stopped_ns")))
    python = os.path.realpath(shutil.which(program) or program) + "-gdb.py"
    if os.path.exists(python):  # beside an interpreter, with its commands
        gdb.execute(f"add-auto-load-safe-path {python}")


# ---- Stops ----
def stop_clock():
    """The coordinator does not count the time of a stop."""
    process, address = State.clock
    with open(f"/proc/{process}/mem", "r+b", buffering=0) as memory_:
        memory_.seek(address)
        if struct.unpack("<q", memory_.read(8))[0] == 0:
            memory_.seek(address)
            memory_.write(struct.pack("<q", time.clock_gettime_ns(time.CLOCK_MONOTONIC)))


def stopped(event):
    leaves = isinstance(event, gdb.BreakpointEvent) and State.leaves in event.breakpoints and len(event.breakpoints) == 1
    if leaves:
        State.leaving.append(gdb.selected_inferior().num)
    State.exited, State.stopped = leaves, True
    State.found = State.found or bool(catches.FindingCatch.shown)
    if inferiors.find(inferiors.Coordinator.number) is not None:
        stop_clock()


def exited(event):
    if event.inferior.num == inferiors.Coordinator.number:
        State.code = getattr(event, "exit_code", None)
        inferiors.Coordinator.number, State.exited = None, False
        inferiors.apart.clear()
        gdb.execute("set schedule-multiple off")
    elif inferiors.Coordinator.number is not None:
        State.exited = True


def detach():
    """From ranks that exit: gdb 13 fails an assertion where several of its processes exit at once."""
    for number in State.leaving:
        if inferiors.find(number) is not None:
            gdb.execute(f"detach inferiors {number}", to_string=True)
    State.leaving.clear()


def pass_exits():
    """Continues where the last stop was only the exit of a rank."""
    lost = 0  # stops without a reason: gdb 13 may miss exits, and then finds nothing to wait for
    while State.exited and not State.stepping and inferiors.find(inferiors.Coordinator.number) is not None and lost < 10:
        State.exited, State.stopped = False, False
        detach()
        inferiors.select(inferiors.Coordinator.number)
        gdb.execute("continue")
        lost = 0 if State.exited else lost + 1
        State.exited = State.exited or not State.stopped
    if State.exited and inferiors.find(inferiors.Coordinator.number) is not None:
        State.exited = False
        detach()
        inferiors.select(inferiors.Coordinator.number)
        print("a rank has exited, and the step is not complete")
    State.stepping = False


class PassExits(memory.Command, name="lockstep-pass-exits", kind=gdb.COMMAND_OBSCURE):
    """lockstep-pass-exits: behind commands that continue, which return at a stop in a script, and at once at a prompt."""

    def run(self, argument, from_tty):
        if inferiors.Coordinator.number is not None and not any(thread.is_running() for one in gdb.inferiors() for thread in one.threads()):
            pass_exits()


class Continues(memory.Command, name="lockstep-continues", kind=gdb.COMMAND_OBSCURE):
    """lockstep-continues: before `continue`. gdb fails where the selected thread is about to die of its signal."""

    def run(self, argument, from_tty):
        if inferiors.find(inferiors.Coordinator.number) is not None:
            inferiors.select(inferiors.Coordinator.number)


class Steps(memory.Command, name="lockstep-steps", kind=gdb.COMMAND_OBSCURE):
    """lockstep-steps: before commands that step."""

    def run(self, argument, from_tty):
        State.stepping = True


class StartRanks(memory.Command, name="start-ranks", kind=gdb.COMMAND_RUNNING):
    """start-ranks: runs `lockstep exec` until its ranks have started and none has run anything of its program."""

    def run(self, argument, from_tty):
        if State.hook is None:
            State.hook, State.leaves = Started(), Leaves()
        State.entry = State.begun = True
        try:
            gdb.execute("maintenance set target-non-stop off", to_string=True)  # gdb 13 hangs where ranks fork at once
            gdb.execute("run", to_string=True)
        finally:
            State.entry = False
        if inferiors.apart:
            print(f"ranks {memory.rank_list(sorted(inferiors.apart))} have started; continue runs them")
            print(inferiors.go_to_text(min(inferiors.apart)))
            if inferiors.is_python() and inferiors.python_frames() is None:
                print("this Python has no py-bt (Debian, Ubuntu: python3-dbg): ranks shows the line of each rank's last call")


def ending(event):
    """gdb's exit code is that of `lockstep exec`; 5: it was ended before, and nothing was found."""
    if State.begun and not State.ending:
        State.ending = True
        code = State.code if State.code is not None else 1 if State.found else 5
        try:
            gdb.execute(f"quit {code}")
        except gdb.error:  # of a process that has just died
            os._exit(code)


def register():
    for command in (PassExits, Continues, Steps, StartRanks):
        command()
    gdb.events.stop.connect(lambda event: memory.told(stopped, event))
    gdb.events.exited.connect(lambda event: memory.told(exited, event))
    gdb.events.before_prompt.connect(lambda: memory.told(pass_exits))
    if hasattr(gdb.events, "gdb_exiting"):
        gdb.events.gdb_exiting.connect(ending)
    for name in ("run", "continue"):
        gdb.execute(f"define hookpost-{name}\nlockstep-pass-exits\nend")
    gdb.execute("define hook-continue\nlockstep-continues\nend")
    for name in ("finish", "until", "advance"):
        gdb.execute(f"define hook-{name}\nlockstep-steps\nend")
