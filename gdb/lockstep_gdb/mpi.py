"""State of a program for MPI: the objects of its handles, and the threads of each rank."""
import gdb

from . import memory, model, printers

INDEX_BITS, GENERATION_BITS, KIND_SHIFT = 19, 8, 27  # of a handle (mpi/handle.c)
FIRST_OWN = 64  # numbers below are MPI's constants


class Handle:
    """A handle of the selected rank, and its slot in the table."""

    def __init__(self, number, rank):
        self.kind, self.index = number >> KIND_SHIFT & 31, number & (1 << INDEX_BITS) - 1
        self.generation = number >> INDEX_BITS & (1 << GENERATION_BITS) - 1
        state = memory.record("mpi_state", int(gdb.parse_and_eval("(long)&ls_mpi__state")))
        layout = memory.layout("mpi_rank")
        if state["ranks"] == 0 or not 0 <= rank < state["rank_count"]:
            raise memory.Failure("no rank of an MPI program is selected")
        tables = state["ranks"] + rank * layout.size + layout.fields["tables"][0]
        table = memory.record("mpi_table", tables + self.kind * memory.layout("mpi_table").size)
        self.slot = None
        if 0 <= self.index < table["count"]:
            self.slot = memory.record("mpi_slot", table["slots"] + self.index * memory.layout("mpi_slot").size)

    def object(self):
        """The address; 0: there is no object, and why() gives the reason."""
        if self.slot is None or (self.index >= FIRST_OWN and self.slot["generation"] != self.generation):
            return 0
        return self.slot["object"]

    def why(self):
        if self.slot is None:
            return "is not valid"
        place = memory.static_text(self.slot["file"])
        same = self.slot["generation"] == self.generation
        return "was freed" + (f" at {model.short_file(place)}:{self.slot['line']}" if same and place else "")


def count_of(number, noun):
    return f"{number} {noun}{'' if number == 1 else 's'}"


def comm_text(address):
    found = memory.record("mpi_comm", address)
    name, inner = found.string("name"), memory.record("ls_rank_comm", found["inner"])
    shared = memory.record("ls_shared_comm", inner["shared"])
    comm = model.Comm(shared["comm"])
    between = f", intercommunicator to {count_of(found['remote_size'], 'rank')}" if found["inter"] else ""
    return f"{name or comm.name}: {count_of(comm.size, 'rank')}, {memory.rank_list(sorted(comm.ranks))}; rank {found['rank']} of it{between}"


def group_text(address):
    found = memory.record("mpi_group", address)
    ranks = memory.integers(address + found.layout.size, min(found["size"], 4096), 4)
    return f"group of {count_of(found['size'], 'rank')}: {memory.rank_list(sorted(ranks))}"


def type_text(address):
    found = memory.record("mpi_type", address)
    if found["constant"]:
        return memory.static_text(found["constant"])
    name = memory.text(found["name"])
    unit = memory.static_text(memory.record("mpi_type", found["unit"])["constant"]) if found["unit"] else "several types"
    state = "" if found["committed"] else ", not committed"
    return f"{name + ': ' if name else ''}{count_of(found['elements'], 'element')} of {unit}, {count_of(found['size'], 'byte')}, extent {found['extent']}{state}"


def op_text(address):
    found = memory.record("mpi_op", address)
    if found["constant"]:
        return memory.static_text(found["constant"])
    block = gdb.block_for_pc(found["function"])
    name = block.function.name if block is not None and block.function is not None else hex(found["function"])
    return f"{name} (), {'commutes' if found['commutes'] else 'does not commute'}"


def request_text(address):
    found = memory.record("mpi_request", address)
    place = f" at {model.short_file(memory.static_text(found['file']))}:{found['line']}" if found["file"] else ""
    kind = memory.enum_name("mpi_request_kind", "MPI_REQUEST_", found["kind"])
    function = memory.static_text(found["record.function"]) or kind
    if found["persistent"] and not found["active"]:
        return f"{function}, persistent, not started{place}"
    if found["inner"] == 0:
        return f"{function}, complete{place}"
    inner = memory.record("ls_request", found["inner"])
    state = memory.enum_name("ls_request_state", "LS_REQUEST_", inner["state"])
    calls = model.Calls()
    what = calls.describe(inner, "call.")
    state = {"posted": "waits for other ranks", "done": "complete"}.get(state, state)
    return f"{what}, {state}{place}"


def win_text(address):
    found = memory.record("mpi_win", address)
    comm = memory.record("mpi_comm", found["comm"])
    size = comm["size"]
    locks = memory.integers(found["locks_held"], min(size, 4096), 4) if found["locks_held"] else ()
    held = [target for target, kind in enumerate(locks) if kind != 0]
    epochs = ["a fence epoch" if found["fence_open"] else "", "lock_all" if found["all_locked"] else "",
              f"a lock of {memory.rank_list(held)}" if held else "", "a started epoch" if found["started"] else "",
              "an exposure epoch" if found["posted"] else ""]
    opened = memory.static_text(found["epoch_file"]) if found["epoch_file"] else ""
    place = f" since {model.short_file(opened)}:{found['epoch_line']}" if opened and any(epochs) else ""
    epoch = ", ".join(one for one in epochs if one) or "no epoch"
    name = found.string("name")
    return f"{name + ': ' if name else ''}window of {count_of(size, 'rank')}, {count_of(found['size'], 'byte')} here at {found['base']:#x}, {epoch}{place}"


TYPES = {"MPI_Comm": (1, comm_text), "MPI_Group": (2, group_text), "MPI_Datatype": (3, type_text), "MPI_Op": (4, op_text),
         "MPI_Request": (5, request_text), "MPI_Win": (6, win_text)}
NULLS = {name: name.upper() + "_NULL" for name in TYPES}
NULLS["MPI_Datatype"] = "MPI_DATATYPE_NULL"


class Printer(printers.Printer):
    """A handle: its object, or the reason why there is none."""

    def text(self):
        name = self.value.type.unqualified().name
        kind, of = TYPES[name]
        number = int(self.value) & 0xffffffff
        if number == kind << KIND_SHIFT:
            return NULLS[name]
        if number >> KIND_SHIFT != kind:
            return f"{number:#x}, no {name}"
        rank = model.selected_rank(model.find_run())
        if rank is None:
            raise memory.Failure(f"{number:#x}: no rank is selected")
        handle = Handle(number, rank.id)
        address = handle.object()
        return of(address) if address != 0 else f"{name} that {handle.why()}"


def lookup(value):
    """The printer of an MPI handle; None: it is none, or the program uses another MPI."""
    type_ = value.type
    if type_.code != gdb.TYPE_CODE_TYPEDEF or type_.unqualified().name not in TYPES or type_.strip_typedefs().code != gdb.TYPE_CODE_INT:
        return None
    return Printer(value) if memory.variable("ls_mpi__state") is not None else None


class RankThreads(memory.Command, name="rank threads", kind=gdb.COMMAND_STACK):
    """rank threads [N]: the threads of each rank, or of rank N: its own, and those that it has started (OpenMP, pthreads)."""

    def run(self, argument, from_tty):
        run = model.need_run()
        wanted = int(argument) if argument.isdigit() else None
        if argument and (wanted is None or wanted not in run.ranks):
            raise memory.Failure(f"'{argument}' is not a rank of the run")
        of = {}
        for thread in sorted(gdb.selected_inferior().threads(), key=lambda thread: thread.num):
            name = thread.name or ""  # a thread begins with the name of the one that starts it
            if name.startswith("rank ") and name[5:].isdigit():
                of.setdefault(int(name[5:]), []).append(thread)
        before, frame, lines = gdb.selected_thread(), gdb.selected_frame(), []
        try:
            for number in sorted(run.ranks):
                if wanted in (None, number):
                    lines.append(f"rank {number}: {count_of(len(of.get(number, [])), 'thread')}")
                    lines += [f"  {'own' if thread.ptid[1] == run.ranks[number].tid else '   '} thread {thread.num}  {_place(thread)}"
                              for thread in of.get(number, [])[:64]]
        finally:
            before.switch()
            frame.select()
        print("\n".join(lines))


def _place(thread):
    """The nearest frame of the program, or the thread's innermost function."""
    thread.switch()
    frame = first = gdb.newest_frame()
    for _ in range(64):
        if frame is None:
            break
        sal, file = frame.find_sal(), ""
        if sal.symtab is not None:
            file = sal.symtab.filename
        library = not file or any(room in file for room in ("/mpi/", "/ranks/", "/cli/")) or "/libgomp" in file or "nptl" in file or "sysdeps" in file
        if not library and frame.name():
            return f"{frame.name()} () at {model.short_file(file)}:{sal.line}"
        frame = frame.older()
    return f"{first.name() or '?'} ()"


def register():
    RankThreads()
    gdb.execute("handle SIG61 nostop noprint pass", to_string=True)  # LS_SIGNAL_ESCAPE (ranks/internal.h)
    gdb.pretty_printers.append(lookup)
