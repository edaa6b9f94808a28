"""Runs, ranks, calls and communicators, read from memory.

lockstep has two interfaces. Programs with a thread for each rank have a run (ranks/state.h). A controller that makes all ranks' calls
itself has none; its group of calls is in ls_gdb_now.
"""
import gdb

from . import memory
from .memory import Failure

ABI_RANKS = 12
ABI_HOOKS = 2


def check_abi():
    for name, known in (("ls_gdb_hook_abi", ABI_RANKS), ("ls_gdb_abi", ABI_HOOKS)):
        value = memory.variable(name)
        if value is None:
            raise Failure(memory.no_information(name))
        if int(value) != known:
            raise Failure(f"the program's {name} is {int(value)}, this extension reads {known}: use the extension that came with the library")


def short_file(path):
    return path.rsplit("/", 1)[-1]


RANKS_MAX = 1 << 16
SPLITS_SHOWN = 8  # as in findings; no more past calls are kept
LIST_MAX = 1 << 20  # of a list in memory, which may be corrupt


class Comm:
    def __init__(self, address):
        found = memory.record("ls_comm", address)
        self.record = found
        self.address = address
        self.name = found.string("name")
        self.size = found["size"]
        self.id = found["id"]
        if not 0 < self.size <= RANKS_MAX:
            raise Failure(f"the communicator at {address:#x} has {self.size} members: its memory is corrupt")
        self.ranks = memory.integers(found["ranks"], self.size, 4)

    def next_calls(self):
        """The number of each member's next call on it."""
        return memory.integers(self.record["seq"], self.size, 8, False)


def comms():
    """All communicators of the process, newest first, as records; [] when it has none."""
    head = memory.variable("ls_gdb_comms")
    out, at = [], int(head) if head is not None and has_memory() else 0
    while at != 0 and len(out) < LIST_MAX:
        out.append(memory.record("ls_comm", at))
        at = out[-1]["older"]
    return out


def has_memory():
    """Whether there is a process or a core file."""
    return gdb.selected_inferior().pid != 0 or gdb.selected_thread() is not None


def can_run():
    """Whether there is a process, and no core file."""
    inferior = gdb.selected_inferior()
    return inferior.pid != 0 and (inferior.connection is None or inferior.connection.type != "core")


def need_program():
    """Fails unless there is a process or a core file of a program with the library."""
    if not has_memory():
        raise Failure("the program is not running; start it with 'run', or open a core file")
    if memory.variable("ls_gdb_met") is None:
        raise Failure(memory.no_information("ls_gdb_met"))
    check_abi()


MPI_PEERS = {-1: "MPI_PROC_NULL", -2: "MPI_ANY_SOURCE", -3: "MPI_ROOT"}


def _constant(table, handle, field=None):
    """The name of one of MPI's constants by its handle; None if it is none."""
    table, number = memory.variable(table), handle & 0x7ffff
    if table is None or not 0 < number <= table.type.range()[1]:
        return None
    name = table[number] if field is None else table[number][field]
    return name.string() if int(name) != 0 else None


class Calls:
    """Reads calls; caches communicators during one command."""

    def __init__(self):
        self._comms = {}
        self._meets = {}
        self._collectives = {}

    def comm(self, address):
        if address == 0:
            return None
        if address not in self._comms:
            self._comms[address] = Comm(address)
        return self._comms[address]

    def comm_name(self, address, say=0):
        """say: as of a call. MPI's world has MPI's name."""
        comm = self.comm(address)
        if comm is None:
            return "no communicator"
        return "MPI_COMM_WORLD" if say != 0 and comm.name == "world" else comm.name

    def verb(self, found, prefix=""):
        return memory.enum_name("ls_kind", "LS_", found[prefix + "kind"])

    def collective(self, verb):
        """The descriptor of a kind; None for a call without data."""
        if verb not in self._collectives:
            self._collectives[verb] = memory.variable(f"ls_collective__{verb}")
        return self._collectives[verb]

    def describe(self, found, prefix=""):
        """"all_reduce sum of 1024 f32" from a record that holds an ls_call under `prefix`."""
        if found[prefix + "say"] != 0:
            return self._of_front(found, prefix)
        verb = self.verb(found, prefix)
        dtype = memory.enum_name("ls_dtype", "LS_", found[prefix + "dtype"])
        count = found[prefix + "count"]
        if verb in ("comm_split", "comm_subset", "barrier"):
            return verb
        if verb == "send" or verb == "recv":
            comm = self.comm(found[prefix + "comm"])
            member = found[prefix + "root"]
            known = comm is not None and 0 <= member < comm.size
            peer = comm.ranks[member] if known else member
            return f"{verb} of {count} {dtype} {'to' if verb == 'send' else 'from'} rank {peer}"
        of = self.collective(verb)
        op = ""
        if of is not None and of["reduces"]:
            op = " " + memory.enum_name("ls_op", "LS_", found[prefix + "op"])
        root = ""
        if of is not None and of["root_word"] != 0:
            root = f", root {found[prefix + 'root']}"
        purpose = memory.static_text(found[prefix + "purpose"])
        root += f" for {purpose}" if purpose else ""
        uneven = found[prefix + "send_counts"] != 0 or found[prefix + "recv_counts"] != 0
        splits = self._splits(found, prefix) if uneven else ""
        if verb == "all_to_all" and uneven:
            return f"{verb} of {dtype}{splits}{root}"
        return f"{verb}{op} of {count} {dtype}{splits}{root}"

    @staticmethod
    def _of_front(found, prefix):
        """"MPI_Allreduce, count 4, MPI_DOUBLE, MPI_SUM", as in mpi/request.c."""
        count, type_, peer, tag, op, form = found.integers(prefix + "words", 4)[:6]
        out = [memory.static_text(found[prefix + "purpose"])]
        if form & 1:
            out += [f"count {count}", _constant("'type.c'::constants", type_, "constant") or "a derived datatype"]
        if form & 16:
            out.append(_constant("'op.c'::names", op) or "a user-defined operation")
        if form & (2 | 4 | 8):
            word = "root" if form & 2 else "dest" if form & 4 else "source"
            out.append(f"{word} {MPI_PEERS.get(peer, peer)}")
        if form & (4 | 8) and not form & 2:
            out.append("MPI_ANY_TAG" if tag == -1 else f"tag {tag}")
        return ", ".join(out)

    def _splits(self, found, prefix):
        """", sends {1, 2}, receives {3, 4}": an uneven call's counts for each member."""
        out, comm = "", self.comm(found[prefix + "comm"])
        size = comm.size if comm is not None else 0
        for verb, field in (("sends", "send_counts"), ("receives", "recv_counts")):
            address = found[prefix + field]
            if address != 0 and size:
                counts = memory.integers(address, min(size, SPLITS_SHOWN), 8, False)
                more = ", ..." if size > SPLITS_SHOWN else ""
                out += f", {verb} {{{', '.join(map(str, counts))}{more}}}"
        return out

    def where(self, found, prefix=""):
        return f"{short_file(memory.static_text(found[prefix + 'file']))}:{found[prefix + 'line']}"

    def missing(self, meet):
        """World ranks that a meet still waits for."""
        if meet not in self._meets:
            found = memory.record("ls_meet", meet)
            shared = memory.record("ls_shared_comm", found["shared"])
            comm = self.comm(shared["comm"])
            here = memory.pointers(found["requests"], comm.size)
            self._meets[meet] = tuple(sorted(comm.ranks[m] for m in range(comm.size)
                                             if here[m] == 0))
        return self._meets[meet]


class Rank:
    def __init__(self, run, found):
        self.run = run
        self.record = found
        self.id = found["id"]
        self.state = memory.enum_name("ls_rank_state", "LS_RANK_", found["state"])
        self.tid = found["tid"]
        self.call_count = found["call_count"]

    def where(self):
        name = memory.static_text(self.record["file"])
        return f"{short_file(name)}:{self.record['line']}" if name else ""

    def waits_in(self):
        """The requests that a blocked rank waits for, and a rank's current call; [] when none."""
        out = []
        for current, waiting in self.threads():
            found = memory.record("ls_request", current) if current != 0 else None
            if found is not None and \
                    memory.enum_name("ls_request_state", "LS_REQUEST_", found["state"]) != "freed":
                if waiting <= 1 or found["awaited"]:
                    out.append(found)
        if out and self.record["main.next"] == 0:
            return out
        at, seen = self.record["open"], {found.address for found in out}
        while at != 0 and len(out) < 64:
            found = memory.record("ls_request", at)
            if found["awaited"] and at not in seen:
                out.append(found)
            at = found["next"]
        return out

    def in_wait(self, waits):
        """The place where it waits for an asynchronous call, or the end of a group; "" in the call itself."""
        if not waits or self.state not in ("blocked", "ready"):
            return ""
        if waits[0]["group"] and not waits[0]["asynchronous"]:
            return self.where()
        return self.where() if waits[0]["asynchronous"] and self.record["main.current"] else ""

    def threads(self):
        """(current call, number of awaited requests) of each of its threads."""
        out, at = [(self.record["main.current"], self.record["main.waiting"])], self.record["main.next"]
        while at != 0 and len(out) < LIST_MAX:
            found = memory.record("ls_thread", at)
            out.append((found["current"], found["waiting"]))
            at = found["next"]
        return out

    def pending(self):
        """{number of a call: its pending part} of calls in an open group, or not waited for."""
        out, at = {}, self.record["open"]
        while at != 0 and len(out) < LIST_MAX:
            found = memory.record("ls_request", at)
            grouped = memory.enum_name("ls_request_state", "LS_REQUEST_", found["state"]) == "grouped"
            out[found["number"]] = "its group is open" if grouped else \
                "not waited for" if found["asynchronous"] else ""
            at = found["next"]
        return out

    def open_group(self):
        """"in a group of 2 calls opened at x.c:3" that was not ended; ""."""
        if self.record["group_depth"] <= 0:
            return ""
        count = sum(text == "its group is open" for text in self.pending().values())
        name = short_file(memory.static_text(self.record["group_file"]))
        return f"in a group of {count} call{'' if count == 1 else 's'} opened at " \
               f"{name}:{self.record['group_line']}"

    def step(self):
        """The number of its calls that are complete or not waited for: its position."""
        return self.call_count - sum(
            memory.enum_name("ls_request_state", "LS_REQUEST_", w["state"]) != "done"
            for w in self.waits_in()
            if w["awaited"] or (w.address == self.record["main.current"] and not w["asynchronous"]))

    def thread(self):
        """Its gdb thread; None when it has none."""
        for thread in gdb.selected_inferior().threads():
            if thread.ptid[1] == self.tid:
                return thread
        return None


class Run:
    def __init__(self, address):
        self.record = memory.record("ls_spmd", address)
        self.address = address
        self.rank_count = self.record["rank_count"]
        if not 0 < self.rank_count <= RANKS_MAX:
            raise Failure(f"the run at {address:#x} has {self.rank_count} ranks: its memory is corrupt")
        ranks = memory.records("ls_rank", self.record["ranks"], self.rank_count)
        self.ranks = {found["id"]: Rank(self, found) for found in ranks}
        running = self.record["running"]
        self.running = next((r.id for r in self.ranks.values() if r.record.address == running), None)

    def rank(self, number):
        if number not in self.ranks:
            ids = sorted(self.ranks)
            raise Failure(f"there is no rank {number}; the run has ranks {memory.rank_list(ids)}")
        return self.ranks[number]


def selected_tid():
    thread = gdb.selected_thread()
    return thread.ptid[1] if thread is not None and thread.is_valid() else None


def find_run():
    """The run that the selected thread is in, else the newest; None when there is none."""
    need_program()
    address, first, tid, count = int(memory.variable("ls_gdb_runs")), None, selected_tid(), 0
    while address != 0 and count < LIST_MAX:
        run = Run(address)
        first = first or run
        if any(rank.tid == tid for rank in run.ranks.values()):
            return run
        address = run.record["next_run"]
        count += 1
    return first


def need_run():
    run = find_run()
    if run is None:
        raise Failure("no SPMD run is active (between ls_spmd_run's begin and end)")
    return run


def selected_rank(run):
    """The Rank whose thread is selected; None when it is another thread."""
    tid = selected_tid()
    if run is not None:
        for rank in run.ranks.values():
            if rank.tid == tid and tid:
                return rank
    return None


def group():
    """The current calls of a controller, as records of ls_call; [] if it makes none."""
    now = memory.variable("ls_gdb_now")
    if now is None or int(now["calls"]) == 0:
        return []
    return memory.records("ls_call", int(now["calls"]), int(now["count"]))


def met():
    """The number of sets of calls that have matched so far."""
    value = memory.variable("ls_gdb_met")
    return int(value) if value is not None else 0


def newest_of_world():
    """The number of the newest call of world that all its ranks have made; -1: none."""
    run = find_run() if has_memory() else None
    worlds = [c for c in comms() if c.string("name") == "world"
              and (run is None or c["backend"] == run.record["backend"])]
    return min(Comm(worlds[0].address).next_calls()) - 1 if worlds else -1


def met_text():
    count = met()
    return f"{count} set{'' if count == 1 else 's'} of calls matched"


RANK_BEGINS = "run_program"  # of a rank's thread, in ranks/threads.c: calls the user's function
BEGINS = (RANK_BEGINS, "ls_mpi_image_main")  # and what calls the main of an MPI program


def program_frame():
    """The newest user frame of the selected thread: the one that called into the library, or the newest of all. For a rank that has not
    begun: rank_main, wherever it is in that.
    """
    frame = gdb.newest_frame()
    inside, depth = None, 0
    while frame is not None and frame.is_valid() and depth < 256:
        name = frame.name()
        if name == "rank_main":
            return frame
        if name in BEGINS:
            break
        if name is not None and name.startswith(("ls_", "cli_core_")):
            inside = frame
        elif inside is not None and is_of_program(frame):
            return frame
        frame = frame.older()
        depth += 1
    if inside is not None and inside.older() is not None:
        # The interpreter of a scenario's steps is in the place of a user's program.
        return inside if inside.older().name() == RANK_BEGINS else inside.older()
    return gdb.newest_frame()


_OWN_FOLDERS = ("/ranks/", "/collectives/", "/runner/", "/backends/", "/orders/", "/formats/", "/kernels/", "/base/",
                "/local_tensor/", "/embedding/", "/mpi/image/")


def is_of_program(frame):
    """Whether a frame outside of the library's is certainly the user's, not a static function of lockstep or another library's. If this is
    wrong the whole stack is read, with the same result.
    """
    symtab = frame.find_sal().symtab
    file = (symtab.objfile.filename or "") if symtab is not None else ""
    if symtab is None or short_file(file).startswith(("liblockstep", "lockstep")) or file.startswith(("/lib", "/usr/lib")):
        return False
    return not any(folder in "/" + symtab.filename for folder in _OWN_FOLDERS)


def frame_text(frame):
    sal = frame.find_sal()
    name = frame.name() or "??"
    if sal.symtab is None:
        return f"{name} ()"
    return f"{name} () at {short_file(sal.symtab.filename)}:{sal.line}"
