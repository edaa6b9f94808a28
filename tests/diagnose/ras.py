"""The JSON of NCCL's RAS: ras.py LOCKSTEP."""
import json
import sys

from dumps import Said

NAMES = ("Broadcast", "Reduce", "AllGather", "ReduceScatter", "AllReduce")


def rank_of(rank, counts):
    return {"rank": rank, "host": "10.0.0.1", "pid": 100 + rank, "cuda_dev": rank, "nvml_dev": rank,
            "status": {"init_state": 0, "async_error": 0, "finalize_called": False, "destroy_flag": False, "abort_flag": False},
            "collective_counts": {name: counts.get(name, 0) for name in NAMES}}


def job(counts, missing=(), dead=False):
    lost = [{"rank": rank, "host": "10.0.0.2", "pid": 100 + rank, "cuda_dev": rank, "nvml_dev": rank,
             "status": {"unresponsive": True, "considered_dead": dead}} for rank in missing]
    there = [rank_of(rank, own) for rank, own in counts.items()]
    return json.dumps({"nccl_version": "2.28.9", "cuda_runtime_version": 13000, "cuda_driver_version": 13000,
                       "timestamp": "2026-01-01 00:00:00", "communicators_count": 1, "communicators": [
                           {"hash": "0x1", "secondary_hash": "0x2:0x3", "size": len(there) + len(lost), "ranks_count": len(there),
                            "missing_ranks_count": len(lost), "ranks": there, "missing_ranks": lost}],
                       "ras": {"collection_time_sec": 0.001, "timeouts_count": 0}}).encode()


def main():
    lockstep, wrong = sys.argv[1], []
    same = {rank: {"AllReduce": 120, "Broadcast": 3} for rank in range(4)}
    behind = {**same, 2: {"AllReduce": 119, "Broadcast": 3}}
    other = {**same, 1: {"AllReduce": 119, "Broadcast": 4}}
    for name, made, finding, word in (
            ("same", job(same), [], "checked"),
            ("behind", job(behind), [("collective.missing_rank", [2])], "process 101 on 10.0.0.1"),
            ("other", job(other), [("collective.kind_mismatch", [1])], "broadcast"),
            ("dead", job({rank: same[rank] for rank in (0, 1, 2)}, [3], True), [("rank.died", [3])], "process 103 on 10.0.0.2 is dead")):
        said = Said(lockstep, {"ras_0.json": made})
        if said.ids() != finding or word not in said.out or "but not the order" not in said.err:
            wrong.append(f"{name}: {said.ids()}, not {finding}, or no {word!r}: {said.out}{said.err}")
    print("\n".join(wrong))
    return 1 if wrong else 0


sys.exit(main())
