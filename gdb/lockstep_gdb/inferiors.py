"""Ranks that are an inferior each: core files of `--core DIR`, and the processes of `lockstep exec`. Of these another inferior, the coordinator,
has the run: its calls and communicators.
"""
import os
import re

import gdb

from . import memory, model
from .memory import Failure

apart = {}  # rank -> (number of its inferior, call of its core file)


class Coordinator:
    number = None  # of its inferior; None: there is none


def find(number):
    """The inferior of a number that has a process or a core file; None."""
    return next((one for one in gdb.inferiors() if one.num == number and one.threads()), None)


def selected():
    """The rank whose inferior is selected; None."""
    here = gdb.selected_inferior().num
    return next((rank for rank, (number, _) in apart.items() if number == here), None)


class restored:
    """Restores the selected thread and frame."""

    def __enter__(self):
        self.thread, self.frame = gdb.selected_thread(), None
        try:
            self.frame = gdb.selected_frame()
        except gdb.error:
            pass

    def __exit__(self, *_):
        if self.thread is not None and self.thread.is_valid():
            self.thread.switch()
            if self.frame is not None and self.frame.is_valid():
                self.frame.select()


def select(number):
    """Selects an inferior's first thread."""
    one = find(number)
    if one is None:
        raise Failure("the program is not running")
    min(one.threads(), key=lambda thread: thread.num).switch()


class in_coordinator(restored):
    """Selects the coordinator, if there is one. stays: it remains selected."""

    def __init__(self, stays=False):
        self.stays = stays

    def __enter__(self):
        super().__enter__()
        if Coordinator.number is not None:
            select(Coordinator.number)

    def __exit__(self, *_):
        if Coordinator.number is not None and not self.stays:
            super().__exit__()


class RunCommand(memory.Command):
    """A command that reads the run's memory."""

    stays = False  # it selects a thread itself

    def invoke(self, argument, from_tty):
        self.rank = selected()
        with in_coordinator(self.stays):
            super().invoke(argument, from_tty)

    def complete(self, text, word):
        with in_coordinator():
            return super().complete(text, word)


# ---- Places ----
def is_python():
    return os.path.basename(gdb.current_progspace().filename or "").startswith("python")


def python_frames():
    """The frames of Python code, by the command that comes with Python's debug information; None: it is not there."""
    try:
        return gdb.execute("py-bt", to_string=True)
    except gdb.error:
        return None


def _of_python():
    """The program's innermost frame of Python code; None."""
    text = python_frames() or ""
    for file, line, name in re.findall(r'^ +File "([^"\n]*)", line (\d+), in (\S+)', text, re.M):
        if not re.search(r"^<frozen|/(site|dist)-packages/|/lib/python3[^/]*/|/python/lockstep/", file):
            return f"{name if name.startswith('<') else name + ' ()'} at {model.short_file(file)}:{line}"
    return None


def program_frame():
    """The newest frame of the program itself, of the selected thread; None."""
    frame = gdb.newest_frame()
    while frame is not None and frame.is_valid():
        symtab = frame.find_sal().symtab
        if symtab is not None and symtab.objfile.filename == gdb.current_progspace().filename:
            return frame
        frame = frame.older()
    return None


def go_to(number):
    """Selects the rank's inferior, quietly, and the newest frame of its program; returns its place, or ""."""
    if number not in apart:
        what = "core file of rank" if Coordinator.number is None else "rank"
        raise Failure(f"there is no {what} {number}; there are ranks {memory.rank_list(sorted(apart))}")
    if find(apart[number][0]) is None:
        raise Failure(f"rank {number} has exited")
    select(apart[number][0])
    if is_python():
        return _of_python() or ""
    frame = program_frame()
    if frame is not None:
        frame.select()
    return model.frame_text(frame) if frame is not None else ""


def go_to_text(number):
    """The same; returns the text to print."""
    place = go_to(number)
    if not place and Coordinator.number is not None:
        with in_coordinator():
            run = model.find_run()
            last = run.ranks[number].where() if run is not None and number in run.ranks else ""
        place = f"after its call at {last}" if last else "before its first call"
    return f"[rank {number}] {place or model.frame_text(gdb.newest_frame())}"


def places():
    """The place of each rank that has one."""
    found = {}
    with restored():
        for number in apart:
            try:
                found[number] = go_to(number)
            except (gdb.error, gdb.GdbError):
                pass
    return found


def process(number):
    """The columns `inferior` and `pid` of a rank."""
    one = find(apart[number][0]) if number in apart else None
    return (str(one.num), str(one.pid)) if one is not None else ("", "")
