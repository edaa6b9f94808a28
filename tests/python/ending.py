"""Ways for a program of torch.distributed to end: ending.py WAY. tests/python/check_ending.py has the expected findings."""
import os
import socket
import sys
import threading
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn


def train():
    torch.manual_seed(1)
    model = nn.parallel.DistributedDataParallel(nn.Linear(4, 4))
    for _ in range(3):
        model(torch.ones(2, 4)).sum().backward()


def callback():
    """Ends while a callback of a future runs."""
    runs = threading.Event()

    def slow(future):
        runs.set()
        time.sleep(1)
        return future.value()

    dist.all_reduce(torch.ones(4), async_op=True).get_future().then(slow)
    runs.wait()


def chain():
    """Ends while a callback of a future waits for another future, whose call the other rank makes late."""
    runs, late = threading.Event(), dist.new_group()
    if dist.get_rank() == 1:
        dist.all_reduce(torch.ones(4))
        time.sleep(1)
        dist.all_reduce(torch.ones(4), group=late)
        return
    first = dist.all_reduce(torch.ones(4), async_op=True).get_future()
    second = dist.all_reduce(torch.ones(4), async_op=True, group=late).get_future()

    def wait(future):
        runs.set()
        second.wait()
        return future.value()

    first.then(wait)
    runs.wait()


def never():
    """Ends with a future whose call the other rank never makes."""
    if dist.get_rank() == 0:
        dist.all_reduce(torch.ones(4), async_op=True).get_future()


def profiled():
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]):
        work = dist.all_reduce(torch.ones(4), async_op=True)
        work.get_future()


def subgroup():
    """A separate group is destroyed, then the world; a second world; its group is destroyed with it."""
    for _ in range(2):
        group = dist.new_group()
        dist.all_reduce(torch.ones(4), group=group)
        dist.destroy_process_group(group)
        kept = dist.new_group()
        dist.all_reduce(torch.ones(4), group=kept)
        dist.destroy_process_group()
        # Another store: the last one's may still be closing when the other rank looks for it.
        os.environ["MASTER_PORT"] = str(int(os.environ["MASTER_PORT"]) + 1)
        dist.init_process_group("gloo")
    dist.destroy_process_group()


def pending():
    """Destroys the group while a call is in progress that the other rank makes later."""
    if dist.get_rank() == 1:
        time.sleep(1)
    value = torch.ones(4)
    work = dist.all_reduce(value, async_op=True)
    dist.destroy_process_group()
    work.wait()
    assert value.eq(2).all(), value


def abort():
    dist.all_reduce(torch.ones(4))
    dist.distributed_c10d._abort_process_group()


def connects():
    """Connects to a store that the other rank opens late, while that rank waits for a group."""
    rank, kept = dist.get_rank(), []
    url = f"tcp://localhost:{sys.argv[2]}?rank={rank}&world_size=2"

    def meet():
        time.sleep(0 if rank == 1 else 6)
        kept.append(next(dist.rendezvous(url)))

    opener = threading.Thread(target=meet)
    if rank == 0:
        opener.start()
    else:
        meet()
    dist.all_reduce(torch.ones(4), group=dist.new_group())
    if rank == 0:
        opener.join()
    dist.destroy_process_group()


def raises():
    try:
        dist.all_reduce(torch.ones(4))
        raise ValueError("a defect of both ranks")
    finally:
        dist.destroy_process_group()


def child(index):
    dist.init_process_group("gloo", init_method=f"tcp://localhost:{sys.argv[2]}", rank=index, world_size=2)
    train()
    callback()


def await_store():
    """Returns once rank 0 has opened the store of init_process_group."""
    while True:
        try:
            socket.create_connection((os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))).close()
            return
        except OSError:
            time.sleep(0.05)


def main():
    way = sys.argv[1]
    if way == "spawn":
        mp.spawn(child, nprocs=2)
        return
    if way == "unstarted" and os.environ["RANK"] == "1":
        await_store()
        raise ImportError("a module is missing")
    dist.init_process_group("gloo")
    if way == "destroyed":
        train()
        dist.destroy_process_group()
        sys.exit(0)
    elif way == "kept":
        train()
    else:
        globals()[way]()


if __name__ == "__main__":
    main()
