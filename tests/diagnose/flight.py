"""Dumps of PyTorch's flight recorder: flight.py LOCKSTEP. Each hang has its finding, with rank and line; so does an extracted scenario of
at most 12 lines. Correct calls have none.
"""
import sys

from dumps import Said, dump, entry, run_scenario

FIRST, SECOND = ("1", "tensor", [0, 1, 2, 3]), ("2", "data", [0, 1, 2, 3])
PAIR = ("3", "pipeline", [2, 3])
ALL = (("0", "default_pg", [0, 1, 2, 3]), FIRST, SECOND, PAIR)


def steps(rank, count=3, line=10):
    del rank
    return [entry("all_reduce", 64, line=line + i) for i in range(count)]


def waits(name, sent, line, **more):
    return entry(name, sent, state="started", line=line, **more)


def size(rank):
    return dump(steps(rank) + [waits("all_reduce", 63 if rank == 2 else 64, 20)])


def kind(rank):
    return dump(steps(rank) + [waits("broadcast" if rank == 1 else "all_reduce", 64, 21 if rank == 1 else 20)])


def dtype(rank):
    return dump(steps(rank) + [waits("all_reduce", 64, 20, dtype="Half" if rank == 3 else "Float")])


def missing(rank):
    return dump(steps(rank) + ([] if rank == 1 else [waits("_all_gather_base", 16, 30, received=64)]))


def buckets(rank):
    sizes = (48, 16) if rank == 2 else (16, 48)
    return dump(steps(rank) + [waits("all_reduce", sizes[0], 20), entry("all_reduce", sizes[1], state="scheduled", line=20)] +
                [entry("all_reduce", 8, state="scheduled", line=25)])


def crossed(rank):
    groups = (SECOND, FIRST) if rank == 1 else (FIRST, SECOND)
    return dump(steps(rank) + [waits("all_reduce", 8, 40, group=groups[0]),
                               entry("all_reduce", 8, group=groups[1], state="scheduled", line=41)], ALL)


def no_receive(rank):
    sends = [waits("send 0->1", 8, 50, group=PAIR)] if rank == 2 else []
    return dump(steps(rank) + sends, ALL)


def short_message(rank):
    message = {2: [waits("send 0->1", 8, 50, group=PAIR)], 3: [waits("recv 1<-0", 4, 51, group=PAIR)]}.get(rank, [])
    return dump(steps(rank) + message, ALL)


def both_send(rank):
    """One stream for two ranks: neither send ends before the other's receive begins."""
    own, peer = (0, 1) if rank == 2 else (1, 0)
    message = [waits(f"send {own}->{peer}", 8, 50, group=PAIR),
               entry(f"recv {own}<-{peer}", 8, group=PAIR, state="scheduled", line=51)] if rank >= 2 else []
    return dump(steps(rank) + message, ALL)


def wrapped(rank):
    """Rank 0's buffer has lost the oldest calls; the next one of rank 3 is missing."""
    calls = steps(rank, 9) + ([] if rank == 3 else [waits("all_reduce", 64, 20)])
    return dump(calls, first=6 if rank == 0 else 0)


def ended(rank, state, sent=64):
    """Rank 3 has returned while its GPU's calls were in this state, and rank 0 is slow."""
    calls = [waits("all_reduce", 64, 20)] + ([] if rank == 0 else [entry("_all_gather_base", 16, 64, state="scheduled", line=21)])
    if rank == 3:
        calls = [entry("all_reduce", sent, state=state, line=20), entry("_all_gather_base", 16, 64, state="scheduled", line=21)]
    return dump(steps(rank) + calls, **({"ended": "returned 0"} if rank == 3 else {}))


def ended_before(rank):
    return ended(rank, "scheduled")


def ended_within(rank):
    return ended(rank, "started")


def ended_after_size(rank):
    return ended(rank, "scheduled", sent=63)


# name: (dump of a rank, finding, ranks, place, a word of its text)
HANGS = {
    "size": (size, "collective.count_mismatch", [2], "train.py:20", "call 4"),
    "kind": (kind, "collective.kind_mismatch", [1], "train.py:21", "broadcast"),
    "dtype": (dtype, "collective.dtype_mismatch", [3], "train.py:20", "f16"),
    "missing": (missing, "collective.missing_rank", [1], "train.py:12", "all_gather"),
    "buckets": (buckets, "collective.order_mismatch", [2], "train.py:20", ""),
    "crossed": (crossed, "deadlock.cross_communicator", None, "train.py:40", "tensor"),
    "no_receive": (no_receive, "collective.missing_rank", [3], "train.py:50", "send of 8"),
    "short_message": (short_message, "p2p.count_mismatch", [2, 3], "train.py:5", "8"),
    "both_send": (both_send, "deadlock.cycle", [2, 3], "train.py:50", ""),
    "ended_before": (ended_before, "rank.exited_early", [3], "train.py:20", "all_reduce"),
    "ended_within": (ended_within, "collective.missing_rank", [0], "train.py:20", "ranks 1, 2"),
    "ended_after_size": (ended_after_size, "collective.count_mismatch", [3], "train.py:20", "63"),
    "wrapped": (wrapped, "collective.missing_rank", [3], "train.py:18", "ranks 0-2"),
}


# ---- Correct calls ---------------------------------------------------------------------------------------------------
def healthy(rank):
    pipeline = [entry("send 0->1" if rank == 2 else "recv 1<-0", 8, group=PAIR)] if rank >= 2 else []
    return dump(steps(rank) + [entry("_all_gather_base", 16, 64), entry("_reduce_scatter_base", 64, 16), entry("broadcast", 8),
                               entry("all_to_all", 10 + rank, 13 - rank), entry("all_to_all", 8, 8 + 4 * (rank > 1)), entry("gather", 4, 16 if rank == 0 else 0),
                               entry("all_reduce_barrier", 1), entry("all_reduce", 4, group=FIRST),
                               entry("all_reduce", 4, group=SECOND)] + pipeline, ALL)


def exchange(rank):
    """Messages of one batch begin together: sends first on both ranks are no cycle."""
    if rank < 2:
        return dump(steps(rank), ALL)
    own, peer = rank - 2, 3 - rank
    return dump(steps(rank) + [entry(f"send {own}->{peer}", 8, group=PAIR, state="scheduled", number=1),
                               entry(f"recv {own}<-{peer}", 8, group=PAIR, state="scheduled", number=1),
                               entry("coalesced", 0, group=PAIR, number=1, is_p2p=True)], ALL)


def interleaved(rank):
    """Calls of two groups in opposite orders, which are complete: no hang."""
    groups = (SECOND, FIRST) if rank == 1 else (FIRST, SECOND)
    return dump([entry("all_reduce", 8, group=group, thread_id=str(at)) for at, group in enumerate(groups)], ALL)


def slow_network(rank):
    state = "scheduled" if rank == 3 else "started"
    return dump(steps(rank) + [entry("all_reduce", 64, state=state, line=20)])


def short_buffers(rank):
    """Each rank has recorded another part of the same calls."""
    return dump(steps(rank, 12), first=2 * rank)


CORRECT = {"healthy": healthy, "exchange": exchange, "interleaved": interleaved, "slow_network": slow_network,
           "short_buffers": short_buffers}


def judge_hang(lockstep, name):
    make, finding, ranks, place, word = HANGS[name]
    dumps = {rank: make(rank) for rank in range(4)}
    said = Said(lockstep, dumps)
    if said.code != 1 or len(said.findings) != 1 or said.findings[0]["id"] != finding:
        return [f"code {said.code}, {said.ids()}, not {finding}: {said.err}"]
    found = said.findings[0]
    wrong = [] if ranks is None or found["ranks"] == ranks else [f"ranks {found['ranks']}, not {ranks}"]
    wrong += [] if place in found["where"] + found["text"] and word in found["text"] else [f"no {place}, {word!r}: {found}"]
    taken = Said(lockstep, dumps, "extract")
    if taken.code != 0 or len(taken.out.splitlines()) > 12:
        return wrong + [f"extract: code {taken.code}, {taken.err}{taken.out}"]
    again = run_scenario(lockstep, taken.out)
    return wrong + ([] if again == [finding] else [f"the extracted scenario has {again}:\n{taken.out}"])


def main():
    lockstep = sys.argv[1]
    wrong = [f"{name}: {what}" for name in HANGS for what in judge_hang(lockstep, name)]
    for name, make in CORRECT.items():
        said = Said(lockstep, {rank: make(rank) for rank in range(4)})
        if said.code != 0 or said.findings or said.cases[0]["class"] != "checked" or "splits: these are not compared" not in said.err:
            wrong.append(f"{name}: code {said.code}, {said.ids()} {said.err}{said.out}")
        if name == "slow_network" and ("train.py:20" not in said.out or "rank 3" not in said.out):
            wrong.append(f"slow_network: not told that all ranks are there: {said.out}")
        taken = Said(lockstep, {rank: make(rank) for rank in range(4)}, "extract")
        if taken.code != 5 or taken.out:
            wrong.append(f"{name}: extract has code {taken.code}: {taken.out}")
    # A rank without a dump, and one whose dump is older than the others'.
    said = Said(lockstep, {rank: size(rank) for rank in (0, 1, 3)})
    if said.ids() != [("rank.died", [2])] or "left no dump" not in said.out:
        wrong.append(f"no dump of rank 2: {said.ids()} {said.out}{said.err}")
    stale = {rank: dump(steps(rank, 5 if rank else 2)) for rank in range(4)}
    said = Said(lockstep, stale)
    if said.code != 0 or "the dump of rank 0 is not used" not in said.err:
        wrong.append(f"stale: {said.code} {said.ids()} {said.err}")
    print("\n".join(wrong))
    return 1 if wrong else 0


sys.exit(main())
