"""Backtraces without the library's frames: the frame filter `lockstep`, which gdb's `bt`, its TUI and IDEs use. `bt -no-filters` shows all,
`disable frame-filter global lockstep` removes it.
"""
import gdb
from gdb.FrameDecorator import FrameDecorator

from . import memory, model, scenario


class Place(FrameDecorator):
    """A frame for the interpreter of a scenario: its step or stage, with its line."""

    def __init__(self, base, what, file, line):
        super().__init__(base)
        self.what, self.file, self.at = what, file, line

    def function(self):
        return self.what

    def address(self):
        return None

    def filename(self):
        return self.file

    def line(self):
        return self.at

    def frame_args(self):
        return None

    def frame_locals(self):
        return None


def place():
    """Name, file and line of the selected rank in its scenario, or of the judged stage; None."""
    if not scenario.is_here():
        return None
    rank = model.selected_rank(model.find_run())
    if rank is None:
        return scenario.Judged.place()
    file, line = scenario.line_of(rank)
    return (scenario.place_text(rank.id) or "scenario", file, line) if file else None


class Filter:
    def __init__(self):
        self.name, self.priority, self.enabled = "lockstep", 100, True
        gdb.frame_filters[self.name] = self

    def filter(self, frames):
        """From the program's frame that called into the library to the outermost one of its thread; all frames if no user program runs."""
        program = model.program_frame()
        of_scenario = memory.guarded(place)
        if of_scenario is not None:
            yield Place(next(frames), *of_scenario)
            return
        if not model.is_of_program(program):
            yield from frames
            return
        begun = False
        for decorated in frames:
            frame = decorated.inferior_frame()
            begun = begun or frame == program
            if begun and frame.name() in model.BEGINS:
                return
            if begun:
                yield decorated


def register():
    Filter()
