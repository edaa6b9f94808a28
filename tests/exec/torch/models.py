"""Five steps of a small model, trained in parallel: models.py NAME [BACKEND]. Rank 0 prints its losses.

NAME: ddp, fsdp2, tensor_parallel, moe, embedding. BACKEND: nccl (default) or gloo."""
import os
import sys

import torch
import torch.distributed as dist
from torch import nn

RANK, RANKS = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
LOCAL = int(os.environ.get("LOCAL_RANK", RANK)) % torch.cuda.device_count()
DEVICE = torch.device("cuda", LOCAL)


def batch(step, *shape):
    """The same numbers for any number of devices."""
    generator = torch.Generator().manual_seed(1000 * step + RANK)
    return torch.randn(*shape, generator=generator).to(DEVICE)


def train(net, forward):
    losses = []
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05)
    for step in range(5):
        optimizer.zero_grad()
        loss = forward(step)
        loss.backward()
        optimizer.step()
        total = loss.detach().clone()
        total = total.full_tensor() if hasattr(total, "full_tensor") else total
        dist.all_reduce(total)
        losses.append(float(total) / RANKS)
    return losses


def ddp():
    from torch.nn.parallel import DistributedDataParallel
    net = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Conv2d(8, 8, 3),
                        nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 4)).to(DEVICE)
    net = DistributedDataParallel(net, device_ids=[LOCAL])
    return train(net, lambda step: net(batch(step, 4, 3, 16, 16)).square().mean())


def fsdp2():
    from torch.distributed.fsdp import fully_shard
    net = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(),
                        nn.Linear(64, 8)).to(DEVICE)
    for layer in (net[0], net[2], net[4]):
        fully_shard(layer)
    fully_shard(net)
    return train(net, lambda step: net(batch(step, 8, 32)).square().mean())


def tensor_parallel():
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor.parallel import (ColwiseParallel, RowwiseParallel,
                                                   parallelize_module)
    mesh = init_device_mesh("cuda", (RANKS,))
    net = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 32)).to(DEVICE)
    parallelize_module(net, mesh, {"0": ColwiseParallel(), "2": RowwiseParallel()})
    inputs = [torch.randn(8, 32, generator=torch.Generator().manual_seed(step)).to(DEVICE)
              for step in range(5)]
    return train(net, lambda step: net(inputs[step]).square().mean())


class Exchange(torch.autograd.Function):
    """Rows to the ranks by these counts, and their gradients back."""

    @staticmethod
    def forward(context, rows, sends, receives):
        context.counts = sends, receives
        out = rows.new_empty(sum(receives), rows.shape[1])
        dist.all_to_all_single(out, rows.contiguous(), receives, sends)
        return out

    @staticmethod
    def backward(context, gradient):
        sends, receives = context.counts
        out = gradient.new_empty(sum(sends), gradient.shape[1])
        dist.all_to_all_single(out, gradient.contiguous(), sends, receives)
        return out, None, None


def counts_of(owner):
    """How many rows go to each rank, and come from each."""
    sends = torch.bincount(owner, minlength=RANKS)
    receives = torch.empty_like(sends)
    dist.all_to_all_single(receives, sends)
    return sends.tolist(), receives.tolist()


def moe():
    router = nn.Linear(16, RANKS).to(DEVICE)
    expert = nn.Linear(16, 16).to(DEVICE)
    net = nn.ModuleList([router, expert])

    def forward(step):
        tokens = batch(step, 24, 16)
        gates = router(tokens).softmax(-1)
        owner = gates.argmax(-1)
        order = owner.argsort(stable=True)
        sends, receives = counts_of(owner)
        there = Exchange.apply(tokens[order], sends, receives)
        back = Exchange.apply(expert(there), receives, sends)
        return (back * gates.max(-1).values[order, None]).square().mean()
    return train(net, forward)


def embedding():
    rows, dim = 64, 8
    share = (rows + RANKS - 1) // RANKS
    weight = nn.Parameter(torch.randn(rows, dim)[RANK * share:(RANK + 1) * share].to(DEVICE))
    top = nn.Linear(dim, 1).to(DEVICE)
    net = nn.ParameterList([weight, top.weight, top.bias])

    def forward(step):
        generator = torch.Generator().manual_seed(77 * step + RANK)
        ids = torch.randint(0, rows, (32,), generator=generator).to(DEVICE)
        owner = ids // share
        order = owner.argsort(stable=True)
        sends, receives = counts_of(owner)
        asked = torch.empty(sum(receives), dtype=torch.int64, device=DEVICE)
        dist.all_to_all_single(asked, ids[order], receives, sends)
        found = Exchange.apply(weight[asked - RANK * share], receives, sends)
        return top(found).square().mean()
    return train(net, forward)


def main():
    torch.cuda.set_device(LOCAL)
    backend = sys.argv[2] if len(sys.argv) > 2 else "nccl"
    dist.init_process_group(backend)
    torch.manual_seed(0)
    torch.use_deterministic_algorithms(True, warn_only=True)
    losses = {"ddp": ddp, "fsdp2": fsdp2, "tensor_parallel": tensor_parallel, "moe": moe,
              "embedding": embedding}[sys.argv[1]]()
    if RANK == 0:
        print("losses", sys.argv[1], backend, RANKS, " ".join(f"{loss:.9g}" for loss in losses),
              flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
