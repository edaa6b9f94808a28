#!/usr/bin/env python3
"""Milliseconds of collectives on host memory beside gloo, turn by turn in one run:

    lockstep exec -n 4 -- python3 bench/gloo.py [most MiB]

Each row is the median of what the slowest rank took, with the wait for the result.
"""
import statistics
import sys
import time

import torch
import torch.distributed as dist

MOST = int(sys.argv[1]) if len(sys.argv) > 1 else 64


def calls(elements, ranks):
    """By name, what is called on a group with about so many elements on each rank."""
    each = elements // ranks
    whole, part = torch.ones(each * ranks), torch.ones(each)
    given, got = torch.ones(each * ranks), torch.empty(each * ranks)
    blocks = list(got.chunk(ranks))
    return {"all_reduce": lambda group: group.allreduce([whole]),
            "all_gather": lambda group: group.allgather([blocks], [part]),
            "all_to_all": lambda group: group.alltoall_base(got, given, [], [])}


def timed(call, group, gloo):
    gloo.barrier().wait()
    began = time.perf_counter()
    call(group).wait()
    took = torch.tensor(time.perf_counter() - began)
    gloo.allreduce([took], dist.ReduceOp.MAX).wait()
    return took.item()


def main():
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank, ranks = dist.get_rank(), dist.get_world_size()
    ours = dist.distributed_c10d._get_default_group()
    store = dist.PrefixStore("bench", dist.distributed_c10d._get_default_store())
    gloo = dist.ProcessGroupGloo(store, rank, ranks)
    size = 4 << 10
    while size <= MOST << 20:
        for name, call in calls(size // 4, ranks).items():
            times = {"lockstep": [], "gloo": []}
            for _ in range(5 if size > 4 << 20 else 15):
                for backend, group in (("lockstep", ours), ("gloo", gloo)):
                    times[backend].append(timed(call, group, gloo))
            mine, theirs = (statistics.median(times[backend][1:]) * 1e3 for backend in ("lockstep", "gloo"))
            if rank == 0:
                print(f"{name} {size >> 10:6} KiB  lockstep {mine:9.3f}  gloo {theirs:9.3f}  {theirs / mine:5.2f} x", flush=True)
        size *= 4
    dist.destroy_process_group()


main()
