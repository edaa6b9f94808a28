"""A training program with one injected bug, by name (none: it has no bug): bugs.py NAME.

Four ranks, or a multiple: then the ranks are 0, a quarter, a half and three quarters of them. The marks are the places of the findings.
Without a GPU gloo moves the data.
"""
import os
import sys
import time

import torch
import torch.distributed as dist


def launched(*names):
    """A number that torchrun, mpiexec or srun gives."""
    return int(next(os.environ[name] for name in names if name in os.environ))


RANK = launched("RANK", "PMI_RANK", "OMPI_COMM_WORLD_RANK", "SLURM_PROCID")
RANKS = launched("WORLD_SIZE", "PMI_SIZE", "OMPI_COMM_WORLD_SIZE", "SLURM_NTASKS")
QUARTER, HALF = RANKS // 4, RANKS // 2
LOCAL = int(os.environ.get("LOCAL_RANK", RANK))
CUDA = torch.cuda.is_available()
DEVICE = torch.device("cuda", LOCAL) if CUDA else torch.device("cpu")
BUG = sys.argv[1]


def has(name, quarter):
    """Whether this rank has that bug, which begins now."""
    mine = BUG == name and RANK == quarter * QUARTER
    if mine and "FAULT_TIME" in os.environ:
        with open(os.environ["FAULT_TIME"], "w", encoding="utf-8") as file:
            file.write(str(time.time()))
    return mine


def finish():
    if CUDA:
        torch.cuda.synchronize()


def sums(x):
    op = dist.ReduceOp.MAX if has("op", 2) else dist.ReduceOp.SUM
    y = x.half() if has("dtype", 1) else x
    y = y[:-1].contiguous() if has("count", 3) else y
    if has("nan", 1):
        y[3] = float("nan")
    if has("inf", 2):
        y[0] = 3e38
        y[1:2] = 1
    if has("branch", 2):
        dist.broadcast(y, 0)  # MARK branch
    elif not has("skipped", 1):
        dist.all_reduce(y, op=op)  # MARK op dtype count nan skipped
    dist.broadcast(x, 1 if has("root", 3) else 0)  # MARK root
    if has("extra", 0):
        dist.all_reduce(x)  # MARK extra
    return y


def splits(x):
    sends = [2] * RANKS
    if has("split", 1):
        sends[:2] = [1, 3]
    out = torch.empty(2 * RANKS, device=DEVICE)
    dist.all_to_all_single(out, x[:2 * RANKS].contiguous(), [2] * RANKS, sends)  # MARK split
    gathered = [torch.empty(5 if not has("gather", 2) else 4, device=DEVICE) for _ in range(RANKS)]
    dist.all_gather(gathered, x[:len(gathered[0])].contiguous())  # MARK gather
    scattered = torch.empty(2, device=DEVICE)
    other = dist.ReduceOp.AVG if CUDA else dist.ReduceOp.MAX
    op = other if has("scatter_op", 0) else dist.ReduceOp.SUM
    dist.reduce_scatter_tensor(scattered, x[:2 * RANKS].contiguous(), op=op)  # MARK scatter_op


def messages(x):
    if RANK == 0 and not has("no_send", 0):
        dist.send(x, QUARTER)
    if RANK == QUARTER:
        dist.recv(x, HALF if has("wrong_peer", 1) else 0)  # MARK no_send wrong_peer
    if RANK == HALF and not has("short_send", 2):
        dist.send(x, 3 * QUARTER)
    elif RANK == HALF:
        dist.send(x[:4], 3 * QUARTER)  # MARK short_send
    if RANK == 3 * QUARTER:
        dist.recv(x, HALF)


def groups(x, a, b):
    first, second = (b, a) if has("two_groups", 1) else (a, b)
    dist.all_reduce(x, group=first)  # MARK two_groups
    x.sum().item()
    dist.all_reduce(x, group=second)
    if not has("half", 3):
        dist.all_reduce(x, group=HALVES[RANK // HALF])  # MARK half
    x.sum().item()


def buckets(x):
    gradients = [x[:16].contiguous(), x[16:48].contiguous()]
    if has("bucket", 2):
        gradients.reverse()
    for gradient in gradients:
        dist.all_reduce(gradient)  # MARK bucket


def ends():
    if BUG == "some_group" and not has("some_group", 2):
        dist.all_reduce(torch.ones(4, device=DEVICE), group=dist.new_group(list(range(RANKS))))  # MARK some_group
    if has("early", 3):
        sys.exit(0)
    if has("killed", 1):
        os.kill(os.getpid(), 9)
    if has("raises", 2):
        raise ValueError("the batch of rank 2 is empty")
    while has("stall", 0):
        time.sleep(600)


def main():
    if CUDA:
        torch.cuda.set_device(LOCAL)
    dist.init_process_group("nccl" if CUDA else "gloo", rank=RANK, world_size=RANKS)
    a, b = dist.new_group(list(range(RANKS))), dist.new_group(list(range(RANKS)))
    HALVES.extend([dist.new_group(list(range(HALF))), dist.new_group(list(range(HALF, RANKS)))])
    x = torch.arange(64.0, device=DEVICE) + RANK
    for step in range(3):
        y = x.clone()
        if step == 0:
            for group in (a, b, HALVES[RANK // HALF]):
                dist.all_reduce(y, group=group)
            finish()
        if step == 1:
            sums(y)
            buckets(y)
            splits(y)
            messages(y)
            groups(y, a, b)
            ends()
        dist.all_reduce(y)  # MARK early killed raises stall
        y.sum().item()
    dist.barrier()
    finish()
    dist.destroy_process_group()
    print("done", RANK, flush=True)


HALVES = []
if __name__ == "__main__":
    main()
