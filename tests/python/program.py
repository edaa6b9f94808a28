"""The program of check.py under `lockstep exec`, on any number of ranks: program.py [BUG]. Its mistakes are marked."""
import os
import sys
import time

import torch
import torch.distributed as dist
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import Replicate, Shard, distribute_tensor, init_device_mesh
from torch.nn.parallel import DistributedDataParallel

BUG = sys.argv[1] if len(sys.argv) > 1 else ""


def same(value, expected):
    assert torch.equal(value, torch.as_tensor(expected, dtype=value.dtype)), (value, expected)


def refuses(group, rank, ranks):
    """Invalid calls, with gloo's own words in the message; nothing is sent for them."""
    one, double, two = torch.ones(1), torch.ones(1, dtype=torch.float64), torch.ones(2)
    at = torch.distributed.GatherOptions()
    at.rootRank = rank
    nowhere = torch.distributed.ReduceOptions()
    nowhere.rootRank = ranks
    for words, call in {
            # gloo would sum it; no other backend does
            "requires a single-element tensor list": lambda: group.allreduce([one, one]),
            "requires non-empty tensor list": lambda: group.allreduce([]),
            "invalid root rank": lambda: group.reduce([one], nowhere),
            "requires a single-element input tensor list": lambda: group.gather([[one] * ranks], [], at),
            "requires a single-element output list": lambda: group.gather([], [one], at),
            "Incorrect output list size": lambda: group.gather([[one] * (ranks + 1)], [one], at),
            "invalid tensor type": lambda: group.gather([[double] * ranks], [one], at),
            "invalid tensor size": lambda: group.gather([[two] * ranks], [one], at),
            "requires non-empty input tensor list": lambda: group.allgather([], []),
            "to have the same length": lambda: group.allgather([[one] * ranks], [one, one]),
            "invalid output tensor list": lambda: group.allgather([[one] * (ranks + 1)], [one])}.items():
        try:
            call()
            raise AssertionError(words)
        except ValueError as error:
            assert words in str(error), (words, error)


def collectives(rank, ranks):
    everyone = torch.arange(ranks)
    for dtype in (torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int32, torch.int64, torch.int8,
                  torch.uint8, torch.complex64):
        value = torch.full((7,), rank + 1, dtype=dtype)
        dist.all_reduce(value)
        same(value, torch.full((7,), ranks * (ranks + 1) // 2))
    value = torch.tensor([rank == 0, False])
    dist.all_reduce(value)
    same(value, [True, False])
    for op, expected in ((dist.ReduceOp.MAX, ranks - 1), (dist.ReduceOp.MIN, 0), (dist.ReduceOp.BOR, 1)):
        value = torch.tensor([rank if op is not dist.ReduceOp.BOR else 1])
        dist.all_reduce(value, op)
        same(value, [expected])
    strided = torch.arange(12.0).reshape(3, 4).t() * (rank + 1)
    dist.all_reduce(strided)
    same(strided, torch.arange(12.0).reshape(3, 4).t() * (ranks * (ranks + 1) // 2))
    blocks = [torch.zeros(i + 1, dtype=torch.int16) for i in range(ranks)]  # uneven, of a type that is not reduced
    dist.all_gather(blocks, torch.full((rank + 1,), rank, dtype=torch.int16))
    for i, block in enumerate(blocks):
        same(block, torch.full((i + 1,), i))
    out = torch.zeros(ranks, 2)
    dist.all_gather_into_tensor(out, torch.full((2,), float(rank)))
    same(out, torch.stack([everyone, everyone], 1))
    part = torch.zeros(2)
    dist.reduce_scatter_tensor(part, torch.arange(2.0 * ranks) * (rank + 1))
    same(part, torch.tensor([2.0 * rank, 2.0 * rank + 1]) * (ranks * (ranks + 1) // 2))
    got = torch.zeros(ranks * (rank + 1), 3)
    given = torch.cat([torch.full((i + 1, 3), 10.0 * rank + i) for i in range(ranks)])
    dist.all_to_all_single(got, given, [rank + 1] * ranks, [i + 1 for i in range(ranks)])
    same(got, torch.cat([torch.full((rank + 1, 3), 10.0 * i + rank) for i in range(ranks)]))
    lists = [torch.zeros(i) for i in range(ranks)]
    dist.all_to_all(lists, [torch.full((rank,), float(rank)) for _ in range(ranks)])
    for i, block in enumerate(lists):
        same(block, torch.full((i,), float(i)))
    root = ranks - 1
    value = torch.full((3,), float(rank))
    dist.broadcast(value, root)
    same(value, torch.full((3,), float(root)))
    value = torch.full((3,), 1.0)
    dist.reduce(value, root)
    same(value, torch.full((3,), float(ranks if rank == root else 1)))
    blocks = [torch.zeros(2) for _ in range(ranks)] if rank == root else None
    dist.gather(torch.full((2,), float(rank)), blocks, root)
    if rank == root:
        same(torch.stack(blocks)[:, 0], everyone)
    part = torch.zeros(2)
    dist.scatter(part, [torch.full((2,), float(i)) for i in range(ranks)] if rank == root else None, root)
    same(part, [rank, rank])
    objects = [None] * ranks
    dist.all_gather_object(objects, {"rank": rank})
    assert objects == [{"rank": i} for i in range(ranks)], objects
    empty = torch.zeros(0)
    dist.all_reduce(empty)
    entries = torch.sparse_coo_tensor([[0, rank]], [1.0, 10.0 + rank], (ranks + 1,))
    dist.all_reduce(entries)
    same(entries.to_dense(), torch.tensor([ranks + 10.0, *(10.0 + i for i in range(1, ranks)), 0]))
    group = dist.distributed_c10d._get_default_group()
    refuses(group, rank, ranks)
    left = torch.ones(3)
    dist.all_reduce(left, async_op=True)  # a barrier is ordered after all earlier calls
    group.barrier().get_future().wait()
    same(left, [ranks] * 3)
    with torch.autograd.profiler.profile() as profile:
        dist.all_reduce(left)
    assert [event.is_async for event in profile.function_events if event.name == "gloo:all_reduce"] == [True]
    dist.barrier()


def messages(rank, ranks):
    after, before = (rank + 1) % ranks, (rank - 1) % ranks
    got = torch.zeros(5)
    works = [dist.irecv(got, before), dist.isend(torch.full((5,), float(rank)), after)]
    for work in works:
        work.wait()
    same(got, torch.full((5,), float(before)))
    # By tag, in any order; the second message of a tag goes to the second receive.
    sent = {tag: [torch.full((3,), 100.0 * tag + 10 * k + rank) for k in range(2)] for tag in (7, 3)}
    works = [dist.isend(value, after, tag=tag) for tag in (7, 3) for value in sent[tag]]
    for tag in (3, 7):
        for k in range(2):
            got = torch.zeros(3)
            dist.recv(got, before, tag=tag)
            same(got, torch.full((3,), 100.0 * tag + 10 * k + before))
    for work in works:
        work.wait()
    # From any source: all arrive, each once.
    if rank == 0:
        senders = set()
        for _ in range(ranks - 1):
            got = torch.zeros(2)
            sender = dist.recv(got, tag=5)
            same(got, torch.full((2,), float(sender)))
            senders.add(sender)
        assert senders == set(range(1, ranks)), senders
    else:
        dist.send(torch.full((2,), float(rank)), 0, tag=5)


def groups(rank, ranks):
    """Two halves in one run, each in its own order with the whole; a group made twice."""
    for _ in range(2):
        members = list(range(0, ranks, 2))
        half = dist.new_group(members)
        value = torch.ones(3)
        if rank in members:
            work = dist.all_reduce(value, group=half, async_op=True)
        whole = torch.ones(1)
        dist.all_reduce(whole)
        if rank in members:
            work.wait()
            same(value, torch.full((3,), float(len(members))))
            dist.destroy_process_group(half)


def training(rank, ranks):
    torch.manual_seed(1)
    net = DistributedDataParallel(torch.nn.Linear(5, 3))
    (net(torch.ones(2, 5) * (rank + 1)).sum() / 2).backward()
    same(net.module.weight.grad, torch.full((3, 5), (ranks + 1) / 2))
    table = DistributedDataParallel(torch.nn.Embedding(4, 2, sparse=True))
    table(torch.tensor([0, rank + 1])).sum().backward()
    same(table.module.weight.grad.to_dense()[:, 0], [1, *(1 / ranks if i < ranks else 0 for i in range(3))])
    mesh = init_device_mesh("cpu", (ranks,))
    layers = torch.nn.Sequential(torch.nn.Linear(6, 6), torch.nn.Linear(6, 1))
    fully_shard(layers[0], mesh=mesh)
    fully_shard(layers, mesh=mesh)
    layers(torch.ones(2, 6)).sum().backward()
    rows = distribute_tensor(torch.arange(12.0).reshape(6, 2), mesh, [Shard(0)])
    same(rows.redistribute(mesh, [Replicate()]).to_local(), torch.arange(12.0).reshape(6, 2))
    same(rows.redistribute(mesh, [Shard(1)]).full_tensor(), torch.arange(12.0).reshape(6, 2))
    product = rows.t() @ rows
    same(product.full_tensor(), torch.arange(12.0).reshape(6, 2).t() @ torch.arange(12.0).reshape(6, 2))


def mistakes(rank):
    value = torch.ones(4)
    if BUG == "op":
        dist.all_reduce(value, dist.ReduceOp.MAX if rank == 1 else dist.ReduceOp.SUM)  # MARK op
    elif BUG == "count":
        dist.all_reduce(torch.ones(5 if rank == 1 else 4))  # MARK count
    elif BUG == "cycle":
        dist.recv(value, (rank + 1) % dist.get_world_size())  # MARK cycle
    elif BUG == "tag":
        if rank == 0:
            dist.send(value, 1, tag=1)  # MARK tag
        else:
            dist.recv(value, 0, tag=2)
    elif BUG == "branch" and rank == 1:
        dist.broadcast(value, 0)  # MARK branch
    elif BUG == "bucket":
        net = DistributedDataParallel(torch.nn.Linear(5, 3 + (rank == 1)))  # MARK bucket
        net(torch.ones(2, 5)).sum().backward()
    elif BUG == "early" and rank == 1:
        dist.destroy_process_group()
        sys.exit(0)
    elif BUG == "killed" and rank == 1:
        os.kill(os.getpid(), 9)
    elif BUG == "raises" and rank == 1:
        raise ValueError("a defect of rank 1")
    dist.all_reduce(value)
    time.sleep(0)


def main():
    dist.init_process_group("gloo")
    rank, ranks = dist.get_rank(), dist.get_world_size()
    assert dist.get_backend() == "gloo" and dist.distributed_c10d._get_default_group().getBackendName() == "lockstep"
    if BUG:
        mistakes(rank)
    else:
        for part in (collectives, messages, groups):
            part(rank, ranks)
        training(rank, ranks)
    dist.destroy_process_group()


main()
