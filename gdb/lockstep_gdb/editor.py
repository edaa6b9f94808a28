"""lockstep-editor JSON: places and values of ranks for the server of editors (python/lockstep/debugger/gdb_hub.py), as a line of JSON."""
import itertools
import json
import os

import gdb
from gdb.FrameDecorator import FrameDecorator
from gdb.FrameIterator import FrameIterator

from . import catches, frames, memory, model, ranks

FRAMES_MAX, CHILDREN_MAX, TEXT_MAX = 64, 200, 300


def _select(number):
    """The rank's thread; without ranks the selected one."""
    run = model.find_run()
    if run is not None and number in run.ranks:
        ranks.switch(run, number)


def _stack():
    """The decorated frames of the selected thread, as backtraces have them."""
    plain = map(FrameDecorator, FrameIterator(gdb.newest_frame()))
    own = gdb.frame_filters.get("lockstep")
    return list(itertools.islice(own.filter(plain) if own is not None and own.enabled else plain, FRAMES_MAX))


def _file(decorated):
    if isinstance(decorated, frames.Place):
        return os.path.abspath(decorated.file)
    symtab = decorated.inferior_frame().find_sal().symtab
    return symtab.fullname() if symtab is not None else str(decorated.filename() or "")


def _places():
    return [{"function": str(one.function()), "file": _file(one), "line": one.line() or 0} for one in _stack()]


def _rank(rank, calls, selected):
    waits = rank.waits_in() if rank.state not in ("returned", "died") else []
    call = f"{calls.describe(waits[0], 'call.')}, call {waits[0]['call.seq']}" if waits else ""
    try:
        frame = ranks.switch(rank.run, rank.id)
        places = _places() if frame.name() not in (model.RANK_BEGINS, "rank_main") else []  # it has not begun
    except (gdb.error, gdb.GdbError):
        places = []
    return {"rank": rank.id, "state": rank.state, "call": call, "frames": places, "selected": rank.id == selected}


def state(_asked):
    """The ranks; the finding that the program has stopped for."""
    run, before = model.find_run(), gdb.selected_thread()
    found = None
    if catches.FindingCatch.shown != told.shown:
        told.shown = catches.FindingCatch.shown
        if told.shown:
            _, name, where, text = told.shown
            number = gdb.convenience_variable("finding_rank")
            found = {"id": name, "where": where, "text": text.rstrip(), "ranks": [int(number)] if number is not None else []}
    if run is None:
        return {"ranks": [], "found": found, "frames": _places() if before is not None else []}
    at, calls = model.selected_rank(run), model.Calls()
    rows = [_rank(rank, calls, at.id if at is not None else -1) for _, rank in sorted(run.ranks.items())]
    if before is not None and before.is_valid():
        before.switch()
    return {"ranks": rows, "found": found}


class told:
    shown = ()


def _frame(asked):
    _select(asked["rank"])
    stack = _stack()
    chosen = stack[min(asked.get("frame", 0), len(stack) - 1)]
    chosen.inferior_frame().select()
    return chosen


def _names(frame):
    """Symbols of the frame's blocks, innermost first."""
    found, block = {}, frame.block()
    while block is not None and not block.is_static and not block.is_global:
        for symbol in block:
            if (symbol.is_variable or symbol.is_argument) and symbol.name not in found:
                found[symbol.name] = symbol
        block = block.superblock
    return found


def _globals(frame):
    found = {}
    for block in (frame.block().static_block, frame.block().global_block):
        for symbol in block:
            if symbol.is_variable and symbol.name not in found:
                found[symbol.name] = symbol
    return found


def _roots(asked):
    chosen = _frame(asked)
    if isinstance(chosen, frames.Place):
        name = chosen.what.split(" ", 1)[-1]
        return [] if asked.get("globals") else [(name, gdb.execute(f"shard {name} {asked['rank']}", to_string=True).rstrip())]
    frame = chosen.inferior_frame()
    names = _globals(frame) if asked.get("globals") else _names(frame)
    return [(name, symbol.value(frame) if symbol.needs_frame else symbol.value()) for name, symbol in names.items()]


def _children(value):
    printer = gdb.default_visualizer(value)
    if printer is not None:
        return list(itertools.islice(printer.children(), CHILDREN_MAX)) if hasattr(printer, "children") else []
    kind = value.type.strip_typedefs()
    if kind.code in (gdb.TYPE_CODE_STRUCT, gdb.TYPE_CODE_UNION):
        return [(field.name or "", value[field]) for field in kind.fields() if not hasattr(field, "enumval")]
    if kind.code == gdb.TYPE_CODE_ARRAY:
        low, high = kind.range()
        return [(f"[{at}]", value[at]) for at in range(low, min(high + 1, low + CHILDREN_MAX))]
    if kind.code == gdb.TYPE_CODE_PTR and int(value) != 0 and kind.target().strip_typedefs().code not in (
            gdb.TYPE_CODE_VOID, gdb.TYPE_CODE_FUNC):
        return [("*", value.dereference())]
    return []


def _shown(value):
    if isinstance(value, str):
        return value[:TEXT_MAX]
    try:
        return value.format_string(max_elements=16)[:TEXT_MAX]
    except gdb.error as error:
        return f"<{error}>"


def _described(name, value):
    try:
        children = not isinstance(value, str) and bool(_children(value))
    except (gdb.error, TypeError, ValueError):
        children = False
    return {"name": str(name), "value": _shown(value), "type": "" if isinstance(value, str) else str(value.type), "children": children}


def variables(asked):
    """The children of a path of indices below the frame's variables."""
    found = _roots(asked)
    for index in asked["path"]:
        found = _children(found[index][1])
    return {"variables": [_described(name, value) for name, value in found]}


def evaluate(asked):
    _frame(asked)
    return {"value": _shown(gdb.parse_and_eval(asked["expression"]))}


def command(asked):
    """A command of gdb's in the rank's frame; or the value of an expression."""
    _frame(asked)
    text = asked["expression"]
    first = text.split()[0].split("/")[0]
    try:
        gdb.execute(f"help {first}", to_string=True)
    except gdb.error:
        text = "print " + text
    return {"value": gdb.execute(text, to_string=True).rstrip()}


DO = {"state": state, "variables": variables, "eval": evaluate, "command": command}


class Editor(memory.Command, name="lockstep-editor", kind=gdb.COMMAND_OBSCURE):
    """lockstep-editor JSON: answers a question of the server of editors."""

    def run(self, argument, from_tty):
        asked = json.loads(argument)
        thread = gdb.selected_thread()
        try:
            answer = memory.guarded(DO[asked["do"]], asked)
        except (gdb.error, gdb.GdbError) as error:
            answer = {"error": str(error)}
        finally:
            if asked["do"] != "command" and thread is not None and thread.is_valid():
                thread.switch()
        print("@lockstep " + json.dumps(answer))


def register():
    Editor()
