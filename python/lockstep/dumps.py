"""The calls of each rank from what a job has left: `python3 -m lockstep.dumps OUT PATH...` writes what `lockstep diagnose` reads.

PATH is a file, or a folder of files whose names end in a rank's number. Read are

- dumps of PyTorch's flight recorder, and those of `lockstep exec --flight-recorder`: pickles, or the JSON of
  `_dump_nccl_trace_json`. A pickle is read without importing anything that it names.
- the JSON of NCCL's RAS (`ncclras -f json`): how often each rank has called each collective.

Python's standard library is all that it needs.
"""

import ast
import functools
import gc
import io
import json
import os
import pickle
import re
import sys

KINDS = {
    "all_reduce": "all_reduce", "allreduce_coalesced": "all_reduce", "all_reduce_barrier": "barrier", "barrier": "barrier",
    "broadcast": "broadcast", "_broadcast_oop": "broadcast", "reduce": "reduce", "_reduce_oop": "reduce",
    "all_gather": "all_gather", "_all_gather_base": "all_gather", "all_gather_into_tensor_coalesced": "all_gather",
    "ALLGATHER_coalesced": "all_gather", "reduce_scatter": "reduce_scatter", "_reduce_scatter_base": "reduce_scatter",
    "reduce_scatter_tensor_coalesced": "reduce_scatter", "REDUCE_SCATTER_coalesced": "reduce_scatter", "gather": "gather",
    "scatter": "scatter", "all_to_all": "all_to_all", "send": "send", "recv": "recv",
}
# NCCL's names of functions, in RAS.
FUNCTIONS = {"AllReduce": "all_reduce", "Broadcast": "broadcast", "Reduce": "reduce", "AllGather": "all_gather",
             "ReduceScatter": "reduce_scatter", "AlltoAll": "all_to_all", "Gather": "gather", "Scatter": "scatter"}
# Element types without a lockstep type are moved as bytes of the same width.
WIDTHS = {"Bool": "Byte", "ComplexFloat": "Double", "ComplexHalf": "Float", "Short": "Half", "UInt16": "Half"}
# A rank completes none of these before all members have made it.
TOGETHER = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "barrier")
BYTES_MAX = 1 << 30
EXTRA_CALLS_MAX = 4  # of RAS: more of them add no information


class Unusable(Exception):
    pass


class Plain(pickle.Unpickler):
    """Reads numbers, texts, lists, tuples and mappings only."""

    def find_class(self, module, name):
        raise pickle.UnpicklingError(f"it names {module}.{name}, but dumps contain only plain values")


# ---- Files -----------------------------------------------------------------------------------------------------------
def files_of(paths):
    found = []
    for path in paths:
        if os.path.isdir(path):
            inside = sorted(name for name in os.listdir(path) if re.search(r"\d(\.json)?$", name))
            if not inside:
                raise Unusable(f"'{path}': none of its files' names ends in a rank's number")
            found += [os.path.join(path, name) for name in inside]
        else:
            found.append(path)
    return found


def load(path):
    try:
        with open(path, "rb") as file:
            data = file.read(BYTES_MAX + 1)
    except OSError as error:
        raise Unusable(f"'{path}': {error.strerror}") from error
    if len(data) > BYTES_MAX:
        raise Unusable(f"'{path}': larger than {BYTES_MAX} bytes")
    try:
        return json.loads(data) if data.lstrip()[:1] in (b"{", b"[") else Plain(io.BytesIO(data)).load()
    except (pickle.UnpicklingError, ValueError, EOFError, IndexError, KeyError, TypeError, AttributeError, MemoryError,
            OverflowError, RecursionError, UnicodeError) as error:
        raise Unusable(f"'{path}': neither a dump of PyTorch's flight recorder nor RAS's JSON: {error or type(error).__name__}") from error


def rank_of(path, dump):
    if isinstance(dump.get("rank"), int) and not isinstance(dump["rank"], bool):
        return dump["rank"]
    number = re.search(r"(\d+)(\.json)?$", os.path.basename(path))
    if number is None:
        raise Unusable(f"'{path}': its name must end in the number of its rank")
    return int(number.group(1))


# ---- Flight recorder -------------------------------------------------------------------------------------------------
def elements(sizes):
    """The total size of all tensors of a side."""
    total = 0
    for shape in sizes or []:
        count = 1
        for size in shape:
            count *= size
        total += count
    return total


def place_of(frames):
    """(file, line): the frame nearest to the call outside of installed packages, else the outermost."""
    named = [frame for frame in frames or [] if frame.get("filename")]
    own = [frame for frame in named if not re.search(r"/(site|dist)-packages/|/lib/python3[^/]*/|^<", frame["filename"])]
    frame = own[0] if own else named[-1] if named else {}
    return frame.get("filename", ""), frame.get("line", 0)


def count_of(kind, sent, received):
    """Elements in NCCL's count. A dump has no splits of all_to_all, and its totals differ between ranks. For a scatter torch lists a rank's
    received data as its input, and the root's sent data as the output.
    """
    if kind in ("reduce_scatter", "recv"):
        return received
    return 0 if kind in ("barrier", "all_to_all") else sent


def call_of(entry, kind, ranks):
    """One call, or the reason why it is not one."""
    size = len(ranks)
    sent, received = elements(entry.get("input_sizes")), elements(entry.get("output_sizes"))
    dtypes = entry.get("output_dtypes" if kind == "recv" else "input_dtypes") or ["Float"]
    file, line = place_of(entry.get("frames"))
    call = {"kind": kind, "count": count_of(kind, sent, received), "dtype": WIDTHS.get(dtypes[0], dtypes[0]),
            "state": entry.get("state") or "scheduled", "file": file, "line": line, "batch": entry.get("batch", 0),
            "thread": str(entry.get("thread_id") or "")}
    ends = re.search(r"(\d+)(?:->|<-)(\d+)", entry["profiling_name"]) if kind in ("send", "recv") else None
    if ends is not None:
        call["root"] = int(ends.group(2))
    for key in ("op", "root", "count", "send_counts", "recv_counts"):  # those of lockstep exec
        if key in entry:
            call[key] = entry[key]
    if not 0 <= call.get("root", -1 if kind in ("send", "recv") else 0) < size:
        raise Unusable(f"a call with an unknown peer or root: {entry['profiling_name']}")
    # Calls of one queue begin one after another. torch has a stream for each process group, and one for each pair of
    # ranks whose messages are not batched.
    pair = sorted((int(ends.group(1)), int(ends.group(2)))) if ends is not None and not call["batch"] else ""
    call["queue"] = str(entry["queue"] if "queue" in entry else f"{entry.get('process_group')}{pair}")
    return call


class Group:
    def __init__(self, name, ranks):
        self.name, self.ranks = name, ranks
        self.calls = {}     # rank: [(number or None, call)]
        self.last = {}      # rank: the number of its last collective, if the dump has it
        self.agreed = 0     # calls that are not listed because all members have made them


@functools.lru_cache(maxsize=None)
def ranks_in(name, text):
    """The ranks of a process group; a dump has "[0, 1]"."""
    try:
        ranks = tuple(ast.literal_eval(text))
    except (ValueError, SyntaxError, TypeError) as error:
        raise Unusable(f"the ranks of process group '{name}' are not listed") from error
    if not ranks or len(set(ranks)) != len(ranks) or not all(isinstance(rank, int) and 0 <= rank < 65536 for rank in ranks):
        raise Unusable(f"process group '{name}' has the ranks {list(ranks)}")
    return ranks


def group_of(groups, dump, entry):
    name, description = (list(entry.get("process_group") or []) + ["", ""])[:2]
    config = dump.get("pg_config") or {}
    own = config.get(name) or config.get(str(entry.get("pg_id"))) or {}
    if "comm_ranks" in entry:  # lockstep exec's, whose messages have separate groups
        name, description, own = entry["comm"], entry["comm"], {"ranks": entry["comm_ranks"]}
    ranks = ranks_in(name, str(own.get("ranks")))
    told = {"default_pg": "world", "undefined": ""}.get(description, description) or f"group {name}"
    return groups.setdefault((name, ranks), Group(told, ranks))


def settle(entries, at):
    """The entry of a coalesced call has the state of its members, which precede it and form one batch."""
    number = "p2p_seq_id" if entries[at].get("is_p2p") else "collective_seq_id"
    for entry in reversed(entries[:at]):
        if entry.get("process_group") != entries[at].get("process_group") or entry.get(number) != entries[at].get(number):
            break
        entry["state"], entry["batch"] = entries[at].get("state"), at + 1


def read_flight(groups, ranks, path, dump):
    rank = rank_of(path, dump)
    if rank in ranks:
        raise Unusable(f"'{path}': a second dump of rank {rank}")
    entries = dump["entries"]
    for at, entry in enumerate(entries):
        if str(entry.get("profiling_name", "")).partition(":")[2].startswith("coalesced"):
            settle(entries, at)
    order, skipped = [], set()
    for entry in entries:
        name = str(entry.get("profiling_name", "")).partition(":")[2].split(" ")[0]
        if name.startswith("coalesced"):
            continue
        if name not in KINDS:
            skipped.add(name)
            continue
        group = group_of(groups, dump, entry)
        if rank not in group.ranks:
            raise Unusable(f"'{path}': rank {rank} calls on process group '{group.name}', which it is not in")
        call = call_of(entry, KINDS[name], group.ranks)
        group.calls.setdefault(rank, []).append((None if call["kind"] in ("send", "recv") else entry.get("collective_seq_id"), call))
        order.append((group, call))
    for name, status in (dump.get("pg_status") or {}).items():
        for (at, _), group in groups.items():
            if at == str(name) and rank in group.ranks and isinstance(status.get("last_enqueued_collective"), int):
                group.last[rank] = status["last_enqueued_collective"]
    first = entries[0].get("record_id", 0) if entries else 0
    ranks[rank] = {"rank": rank, "calls": order, "wrapped": first > 0, "ended": dump.get("ended")}
    return skipped


def align(groups, ranks):
    """Drops calls that are missing from a member's dump because the dump is too short."""
    for group in groups.values():
        first = 0
        for rank in group.ranks:
            numbers = [number for number, _ in group.calls.get(rank, []) if number is not None]
            if rank in ranks and ranks[rank]["wrapped"]:
                first = max(first, min(numbers) if numbers else group.last.get(rank, -1) + 1)
        for calls in group.calls.values():
            for number, call in calls:
                if number is not None and number < first:
                    call["dropped"] = True
        numbers = [number for calls in group.calls.values() for number, call in calls
                   if number is not None and "dropped" not in call]
        group.first = min(numbers, default=0)


def drop_stale(groups, ranks):
    """Drops ranks whose dumps are older than the others': they lack calls that others have completed and that all must make."""
    stale = {}
    for group in groups.values():
        last = {rank: max((number for number, _ in calls if number is not None), default=-1) for rank, calls in group.calls.items()}
        done = max((number for calls in group.calls.values() for number, call in calls
                    if number is not None and call["state"] == "completed" and call["kind"] in TOGETHER), default=-1)
        for rank in group.ranks:
            if rank in ranks and max(last.get(rank, -1), group.last.get(rank, -1)) < done and not ranks[rank]["ended"]:
                stale[rank] = group.name
    for rank in stale:
        del ranks[rank]
        for group in groups.values():
            group.calls.pop(rank, None)
    return [f"the dump of rank {rank} is not used: it is older than those of other ranks, which have completed a call on {name} "
            "that it lacks" for rank, name in sorted(stale.items())]


def write_flight(groups, ranks):
    present, calls = list(groups.values()), {}
    numbers = {id(group): number for number, group in enumerate(present)}
    for rank, kept in sorted(ranks.items()):
        calls[rank] = {"calls": [dict(call, group=numbers[id(group)]) for group, call in kept["calls"] if "dropped" not in call]}
        if kept["ended"]:
            calls[rank]["ended"] = str(kept["ended"])
    return present, calls


# ---- RAS -------------------------------------------------------------------------------------------------------------
def read_ras(dump):
    """Communicators whose ranks have called each function this often: only the calls that not all ranks have made."""
    people, groups, calls = {}, [], {}
    told = sorted(dump["communicators"], key=lambda comm: -comm["size"])

    def number(at):
        return people.setdefault((at["host"], at["pid"], at["cuda_dev"]), len(people))

    for comm in told:
        everyone = sorted(comm["ranks"] + comm.get("missing_ranks", []), key=lambda at: at["rank"])
        group = Group(f"communicator {comm['hash']}", tuple(number(at) for at in everyone))
        group.first = 0
        functions = sorted({name for at in comm["ranks"] for name in at["collective_counts"]} & set(FUNCTIONS))
        least = {name: min((at["collective_counts"].get(name, 0) for at in comm["ranks"]), default=0) for name in functions}
        group.first = group.agreed = sum(least.values())
        groups.append(group)
        for at in comm["ranks"]:
            own = calls.setdefault(number(at), {"calls": []})["calls"]
            for name in functions:
                for _ in range(min(at["collective_counts"].get(name, 0) - least[name], EXTRA_CALLS_MAX)):
                    own.append({"group": len(groups) - 1, "kind": FUNCTIONS[name], "count": 0, "dtype": "Byte", "state": "started",
                                "file": f"process {at['pid']} on {at['host']}", "line": 0, "thread": "", "queue": "", "batch": 0})
        for at in comm.get("missing_ranks", []):
            dead = at.get("status", {}).get("considered_dead")
            calls.setdefault(number(at), {"calls": []})["ended"] = (
                f"process {at['pid']} on {at['host']} {'is dead' if dead else 'does not answer'}, according to NCCL's RAS")
    return groups, calls


# ---- All of it -------------------------------------------------------------------------------------------------------
def read(paths):
    flight, ranks, skipped, ras = {}, {}, set(), None
    names = files_of(paths)
    for path in names:
        dump = load(path)
        try:
            if isinstance(dump, dict) and isinstance(dump.get("communicators"), list):
                if len(names) > 1:
                    raise Unusable("RAS's JSON covers all ranks: pass only this file")
                ras = read_ras(dump)
            elif isinstance(dump, dict) and isinstance(dump.get("entries"), list):
                skipped |= read_flight(flight, ranks, path, dump)
            else:
                raise Unusable("neither a dump of PyTorch's flight recorder nor RAS's JSON")
        except Unusable as error:
            raise Unusable(str(error) if str(error).startswith("'") else f"'{path}': {error}") from error
        except (KeyError, TypeError, ValueError, AttributeError, IndexError, OverflowError) as error:
            raise Unusable(f"'{path}': malformed: {type(error).__name__} {error}") from error
    notes = drop_stale(flight, ranks)
    align(flight, ranks)
    groups, calls = ras or write_flight(flight, ranks)
    notes += [f"calls of the kind {name} are not compared" for name in sorted(skipped)]
    if any("op" not in call for kept in ranks.values() for _, call in kept["calls"]):
        notes.append("dumps of PyTorch have no operations, roots or splits: these are not compared")
    if ras:
        notes.append("RAS reports how often each rank has called each collective, but not the order, the arguments or the lines")
    return {"groups": [{"name": group.name, "ranks": group.ranks, "first": group.first, "agreed": group.agreed} for group in groups],
            "ranks": [dict(kept, rank=rank) for rank, kept in sorted(calls.items())], "notes": notes}


def main():
    out, paths = sys.argv[1], sys.argv[2:]
    gc.disable()  # nothing here has cycles, and there are millions of values
    try:
        history = read(paths)
    except Unusable as error:
        print(f"lockstep: {error}", file=sys.stderr)
        return 2
    with open(out, "w", encoding="utf-8") as file:
        json.dump(history, file)
    return 0


if __name__ == "__main__":
    sys.exit(main())
