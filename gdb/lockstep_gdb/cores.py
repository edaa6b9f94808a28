"""open-cores DIR: what `--core DIR` has kept. `lockstep gdb --core DIR` gives this command."""
import json
import os

import gdb

from . import catches, inferiors, memory, model, ranks

INDEX_BYTES = 16 << 20


def _read(folder):
    path = os.path.join(folder, "core.json")
    try:
        if os.path.getsize(path) > INDEX_BYTES:
            raise ValueError("it is too large")
        with open(path, encoding="utf-8") as file:
            index = json.load(file)
        kept = [(str(one["file"]), str(one["program"]), int(one.get("rank", -1)), str(one.get("call", ""))) for one in index["cores"]]
        # They become words of gdb's commands.
        if not kept or any("/" in file or not (file + program).isprintable() for file, program, _, _ in kept):
            raise ValueError("it names no core file")
        found = index.get("finding") or {}
        shown = f"finding {found['id']} of ranks {memory.rank_list(found['ranks'])} at {found['where']}\n{found['text']}" if found else ""
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise memory.Failure(f"{path} is not the list of core files that lockstep writes: {error}") from None
    return kept, shown.rstrip()


def _load(folder, file, program):
    if os.path.exists(program):
        gdb.execute(f"file {program}", to_string=True)
    else:
        print(f"{program}, which the ranks ran, is missing: there are no frames")
    gdb.execute(f"core-file {os.path.join(folder, file)}", to_string=True)


class OpenCores(memory.Command, name="open-cores", kind=gdb.COMMAND_FILES):
    """open-cores DIR: opens the core files that `--core DIR` of lockstep has kept."""

    def run(self, argument, from_tty):
        folder = os.path.abspath(argument)
        kept, shown = _read(folder)
        gdb.execute(f"set solib-search-path {folder}")  # MPI programs: an image for each rank
        if shown:
            print(shown)
        for at, (file, program, rank, call) in enumerate(kept):
            if at > 0:
                gdb.execute("add-inferior -no-connection", to_string=True)
                with ranks.quiet_cli():
                    gdb.execute(f"inferior {max(one.num for one in gdb.inferiors())}", to_string=True)
            _load(folder, file, program)
            if rank >= 0:
                inferiors.apart[rank] = (gdb.selected_inferior().num, call)
        if inferiors.apart:
            print(inferiors.go_to_text(min(inferiors.apart)))
            return
        run = model.find_run()
        at = model.selected_rank(run) if run is not None else None
        if at is not None:
            print(ranks.go_to(run, at.id))
            return
        frame = gdb.newest_frame()
        while frame is not None and frame.name() != "ls_comparison_stop":
            frame = frame.older()
        if frame is not None:  # the ranks of a scenario have ended, and a stage is judged
            frame.select()
            catches.tell_divergence(frame.read_var("divergence"))


def register():
    OpenCores()
