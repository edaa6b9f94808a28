"""Backtraces without the library's own frames: the frame filter `lockstep`, which gdb's `bt`, its TUI
and IDEs go through. `bt -no-filters` shows all, `disable frame-filter global lockstep` ends it."""
import gdb

from . import model


class Filter:
    def __init__(self):
        self.name, self.priority, self.enabled = "lockstep", 100, True
        gdb.frame_filters[self.name] = self

    def filter(self, frames):
        """From the program's frame that called into the library to the one that its thread began with;
        all of them where no program of the user's runs."""
        program = model.program_frame()
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
