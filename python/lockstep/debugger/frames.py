"""Frames of a rank: which belong to the program, and their text."""

import os
import sys

_LIBRARY = os.path.dirname(os.__file__) + os.sep
_OWN = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_known = {}
NOBODY, FRAMEWORK, PROGRAM = 0, 1, 2


def owner(file):
    """The owner of the code, as for the place of a call (exec/site_python.c)."""
    found = _known.get(file)
    if found is None:
        found = PROGRAM
        if file.startswith("<") and file not in ("<string>", "<stdin>"):
            found = NOBODY
        elif file.startswith(_OWN) or os.path.realpath(file).startswith(os.path.realpath(_OWN)):
            found = NOBODY
        elif "/site-packages/" in file or "/dist-packages/" in file:
            found = FRAMEWORK
        elif file.startswith(_LIBRARY):
            found = NOBODY
        _known[file] = found
    return found


def is_program(frame):
    return frame is not None and owner(frame.f_code.co_filename) == PROGRAM


def of_program(stack):
    """The program's part of a stack of (frame, line), the innermost first; without one, the whole stack."""
    own = [pair for pair in stack if owner(pair[0].f_code.co_filename) == PROGRAM]
    return own or [pair for pair in stack if owner(pair[0].f_code.co_filename) == FRAMEWORK] or stack


def stack_of(frame):
    found = []
    while frame is not None:
        found.append((frame, frame.f_lineno))
        frame = frame.f_back
    return found


def stack_of_trace(trace):
    found = []
    while trace is not None:
        found.append((trace.tb_frame, trace.tb_lineno))
        trace = trace.tb_next
    return found[::-1]


def program_caller(frame):
    frame = frame.f_back
    while frame is not None and not is_program(frame):
        frame = frame.f_back
    return frame


def told(stack, most=64):
    return [{"file": frame.f_code.co_filename, "line": line or 0,
             "function": getattr(frame.f_code, "co_qualname", frame.f_code.co_name).replace(".<locals>", "")}
            for frame, line in stack[:most]]


def library_of(stack):
    """The function that the program's innermost frame has called: the outermost framework frame above it."""
    found = ""
    for frame, _ in stack:
        kind = owner(frame.f_code.co_filename)
        if kind == PROGRAM:
            break
        if kind == FRAMEWORK:
            found = frame.f_code.co_name
    return found


def innermost_waits(stack):
    """Whether the stack is in torch.distributed, where ranks also wait outside of calls."""
    return bool(stack) and "/torch/distributed/" in stack[0][0].f_code.co_filename


def current(thread):
    return sys._current_frames().get(thread)
