"""Compiled programs under `lockstep exec`: Dynamo compiles the program's code, and neither traces lockstep's nor warns about it.

compiled.py LOCKSTEP runs itself on two ranks.
"""
import os
import subprocess
import sys

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional
from torch import nn
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel


def traced():
    """The files whose code Dynamo has compiled."""
    from torch._dynamo import utils

    return [str(metrics.co_filename) for metrics in utils.get_compilation_metrics()]


def train(model, width):
    fast = torch.compile(model, backend="aot_eager")
    for _ in range(2):
        fast(torch.ones(2, width)).sum().backward()


def program():
    import lockstep

    dist.init_process_group("gloo")

    @torch.compile(backend="aot_eager")
    def reduced(value):
        value = functional.all_reduce(value * 2, "sum", dist.group.WORLD)
        dist.all_reduce(value)  # breaks the graph: called between two compiled parts
        return functional.all_gather_tensor(value + 1, 0, dist.group.WORLD)

    assert reduced(torch.ones(3)).eq(9).all()
    train(DistributedDataParallel(nn.Linear(8, 8)), 8)
    train(fully_shard(nn.Linear(4, 4)), 4)
    files, own = traced(), os.path.dirname(lockstep.__file__)
    assert __file__ in files, files
    assert not any(file.startswith(own) for file in files), files
    dist.destroy_process_group()


def main():
    if len(sys.argv) == 1:
        program()
        return 0
    done = subprocess.run([sys.argv[1], "exec", "-n", "2", "--", sys.executable, __file__], capture_output=True,
                          text=True, check=False)
    own = [line for line in done.stderr.splitlines() if "/lockstep/torch_" in line or "/lockstep/names" in line]
    if done.returncode == 0 and not own:
        return 0
    print(done.stdout, done.stderr)
    return 1


sys.exit(main())
