"""Shared by the correct programs: a registry, and a process group for each program in one process."""
import os
import sys
import traceback

import torch
import torch.distributed as dist

PROGRAMS = {}


def program(function):
    """Registers a program, which runs in a separate process group of gloo."""
    PROGRAMS[function.__name__] = function
    return function


def say(*numbers):
    """Prints numbers of rank 0 that are equal wherever the program runs."""
    if dist.get_rank() == 0:
        print("  =", *(f"{number:.5g}" if isinstance(number, float) else number for number in numbers), flush=True)


def numbers(tensor):
    return [round(value, 5) for value in tensor.detach().double().flatten().tolist()]


def check(tensor, expected):
    expected = torch.as_tensor(expected)
    assert torch.allclose(torch.as_tensor(tensor).to(expected.dtype), expected, rtol=1e-4, atol=1e-5), (tensor, expected)


def say_sum(module):
    """Prints the sum of all parameters, which is the same on every rank."""
    mine = torch.stack([parameter.detach().double().sum() for parameter in module.parameters()])
    total = mine.clone()
    dist.all_reduce(total, op=dist.ReduceOp.MAX)
    check(mine, total)
    say(float(total.sum()))


def train(model, optimizer, batch, steps=3, after=None):
    """Steps on a batch that depends on the step; returns the last loss's sum over the ranks."""
    for step in range(steps):
        optimizer.zero_grad()
        inputs = batch(step)
        loss = (model(inputs) - inputs).square().mean()
        loss.backward()
        optimizer.step()
        if after is not None:
            after(step)
    total = loss.detach().double()
    dist.all_reduce(total)
    return float(total)


def batch_of(width, rows=6, dtype=torch.float32):
    """A batch for each step and rank."""
    def batch(step, rank=None):
        seed = 100 * step + (dist.get_rank() if rank is None else rank)
        return torch.randn(rows, width, generator=torch.Generator().manual_seed(seed), dtype=dtype)
    return batch


def net(width=8, hidden=16, seed=0):
    torch.manual_seed(seed)
    return torch.nn.Sequential(torch.nn.Linear(width, hidden), torch.nn.GELU(), torch.nn.Linear(hidden, width))


def main():
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    torch.set_num_threads(1)
    store = dist.TCPStore(os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]), world, rank == 0,
                          use_libuv=True) if "TORCHELASTIC_RUN_ID" not in os.environ else None
    for name in sys.argv[1:] or PROGRAMS:
        if rank == 0:
            print(name, flush=True)
        if store is None:
            dist.init_process_group("gloo")
        else:
            dist.init_process_group("gloo", store=dist.PrefixStore(name, store), rank=rank, world_size=world)
        try:
            PROGRAMS[name]()
        except BaseException:
            traceback.print_exc()
            sys.stderr.flush()
            os._exit(1)
        dist.barrier()
        dist.destroy_process_group()
