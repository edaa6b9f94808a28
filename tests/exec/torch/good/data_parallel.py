"""DistributedDataParallel and features used with it."""
import contextlib

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, post_localSGD_hook, powerSGD_hook
from torch.distributed.algorithms.join import Join
from torch.distributed.algorithms.model_averaging.averagers import PeriodicModelAverager
from torch.distributed.optim import PostLocalSGDOptimizer, ZeroRedundancyOptimizer
from torch.nn.parallel import DistributedDataParallel
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

from common import batch_of, check, main, net, program, say, say_sum, train


def trained(model, optimizer=None, steps=3, **options):
    optimizer = optimizer or torch.optim.SGD(model.parameters(), 0.1)
    say(train(model, optimizer, batch_of(8), steps, **options))
    say_sum(model)


@program
def ddp():
    model = DistributedDataParallel(net())
    optimizer = torch.optim.AdamW(model.parameters(), 0.01)
    whole, reference = net(), None
    reference = torch.optim.AdamW(whole.parameters(), 0.01)
    for step in range(3):
        batch = batch_of(8)
        optimizer.zero_grad()
        (model(batch(step)) - batch(step)).square().mean().backward()
        optimizer.step()
        reference.zero_grad()
        both = torch.cat([batch(step, rank) for rank in range(dist.get_world_size())])
        (whole(both) - both).square().mean().backward()
        reference.step()
    for mine, expected in zip(model.parameters(), whole.parameters()):
        check(mine, expected)
    say_sum(model)


@program
def ddp_buckets():
    trained(DistributedDataParallel(net(), bucket_cap_mb=0.0001, gradient_as_bucket_view=True))


@program
def ddp_static_graph():
    trained(DistributedDataParallel(net(), static_graph=True))


@program
def ddp_half_hook():
    model = DistributedDataParallel(net(), bucket_cap_mb=0.001)
    model.register_comm_hook(None, default_hooks.fp16_compress_hook)
    trained(model)


@program
def ddp_bf16_hook():
    model = DistributedDataParallel(net())
    model.register_comm_hook(None, default_hooks.bf16_compress_wrapper(default_hooks.allreduce_hook))
    trained(model)


@program
def ddp_power_hook():
    model = DistributedDataParallel(net(hidden=32))
    state = powerSGD_hook.PowerSGDState(None, matrix_approximation_rank=1, start_powerSGD_iter=2, min_compression_rate=0.5)
    model.register_comm_hook(state, powerSGD_hook.powerSGD_hook)
    trained(model, steps=5)


@program
def ddp_own_hook():
    """A user's hook: a sum with a future, scaled when it completes."""
    def hook(state, bucket):
        future = dist.all_reduce(bucket.buffer(), async_op=True).get_future()
        return future.then(lambda done: done.value()[0] / dist.get_world_size())

    model = DistributedDataParallel(net(), bucket_cap_mb=0.001)
    model.register_comm_hook(None, hook)
    trained(model)


@program
def ddp_local_sgd():
    model = DistributedDataParallel(net())
    own, _ = dist.new_subgroups(1)
    model.register_comm_hook(post_localSGD_hook.PostLocalSGDState(None, own, start_localSGD_iter=2),
                             post_localSGD_hook.post_localSGD_hook)
    optimizer = PostLocalSGDOptimizer(torch.optim.SGD(model.parameters(), 0.1), PeriodicModelAverager(period=2, warmup_steps=2))
    train(model, optimizer, batch_of(8), 5)
    averaged = torch.stack([parameter.detach().sum() for parameter in model.parameters()])
    dist.all_reduce(averaged)
    say(float(averaged.sum()))


class Branches(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.branches, self.step = nn.ModuleList(nn.Linear(8, 8) for _ in range(3)), 0

    def forward(self, inputs):
        self.step += 1
        return self.branches[(self.step + dist.get_rank()) % 3](inputs)


@program
def ddp_unused():
    trained(DistributedDataParallel(Branches(), find_unused_parameters=True), steps=4)


@program
def ddp_no_sync():
    model = DistributedDataParallel(net())
    optimizer, batch = torch.optim.SGD(model.parameters(), 0.1), batch_of(8)
    for step in range(2):
        optimizer.zero_grad()
        for micro in range(3):
            with model.no_sync() if micro < 2 else contextlib.nullcontext():
                inputs = batch(3 * step + micro)
                ((model(inputs) - inputs).square().mean() / 3).backward()
        norm = nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        optimizer.step()
    say(float(norm))
    say_sum(model)


@program
def ddp_join():
    model = DistributedDataParallel(net())
    optimizer, batch = torch.optim.SGD(model.parameters(), 0.1), batch_of(8)
    with model.join():
        for step in range(2 + 2 * dist.get_rank()):
            optimizer.zero_grad()
            (model(batch(step)) - batch(step)).square().mean().backward()
            optimizer.step()
    say_sum(model)


@program
def ddp_join_zero():
    model = DistributedDataParallel(net())
    optimizer = ZeroRedundancyOptimizer(model.parameters(), torch.optim.SGD, lr=0.1)
    batch = batch_of(8)
    with Join([model, optimizer]):
        for step in range(2 + dist.get_rank()):
            optimizer.zero_grad()
            (model(batch(step)) - batch(step)).square().mean().backward()
            optimizer.step()
    say_sum(model)


@program
def ddp_buffers():
    model = nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8), nn.Linear(8, 8))
    torch.manual_seed(0)
    for parameter in model.parameters():
        nn.init.normal_(parameter)
    model = DistributedDataParallel(model, broadcast_buffers=True)
    trained(model)
    model.eval()
    with torch.no_grad():
        total = model.module(batch_of(8)(9, 0)).sum()
    dist.broadcast(total, 0)


@program
def ddp_mixed():
    model = DistributedDataParallel(net())
    optimizer, batch = torch.optim.SGD(model.parameters(), 0.1), batch_of(8)
    for step in range(2):
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = (model(batch(step)).float() - batch(step)).square().mean()
        loss.backward()
        optimizer.step()
    say_sum(model)


class Checkpointed(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = net(), net(seed=1)

    def forward(self, inputs):
        return checkpoint(self.second, checkpoint(self.first, inputs, use_reentrant=False), use_reentrant=False)


@program
def ddp_checkpointing():
    trained(DistributedDataParallel(Checkpointed(), static_graph=True))


@program
def ddp_two_groups():
    """Experts on half of the ranks beside a model on all."""
    rank = dist.get_rank()
    own, _ = dist.new_subgroups(1)
    shared = DistributedDataParallel(net())
    expert = DistributedDataParallel(net(seed=rank + 1), process_group=own)
    optimizer = torch.optim.SGD([*shared.parameters(), *expert.parameters()], 0.1)
    batch = batch_of(8)
    for step in range(2):
        optimizer.zero_grad()
        (expert(shared(batch(step))) - batch(step)).square().mean().backward()
        optimizer.step()
    say_sum(shared)


@program
def sync_by_hand():
    """Gradients that a user averages in one buffer."""
    model, batch = net(), batch_of(8)
    for parameter in model.parameters():
        dist.broadcast(parameter.data, 0)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for step in range(3):
        optimizer.zero_grad()
        (model(batch(step)) - batch(step)).square().mean().backward()
        flat = torch.cat([parameter.grad.flatten() for parameter in model.parameters()])
        dist.all_reduce(flat)
        at = 0
        for parameter in model.parameters():
            parameter.grad.copy_((flat[at:at + parameter.numel()] / dist.get_world_size()).view_as(parameter))
            at += parameter.numel()
        optimizer.step()
    say_sum(model)


@program
def zero_optimizer():
    model = DistributedDataParallel(net())
    optimizer = ZeroRedundancyOptimizer(model.parameters(), torch.optim.Adam, lr=0.01, parameters_as_bucket_view=True)
    trained(model, optimizer)
    optimizer.consolidate_state_dict(0)
    if dist.get_rank() == 0:
        say(len(optimizer.state_dict()["state"]))


@program
def sampler():
    data = TensorDataset(torch.arange(21.0))
    sampled = DistributedSampler(data, shuffle=True, seed=3)
    loader = DataLoader(data, batch_size=4, sampler=sampled)
    for epoch in range(2):
        sampled.set_epoch(epoch)
        seen = torch.cat([batch for batch, in loader])
        everything = [torch.zeros_like(seen) for _ in range(dist.get_world_size())]
        dist.all_gather(everything, seen)
        assert set(torch.cat(everything).tolist()) == set(data.tensors[0].tolist())
        say(float(seen.sum()))


@program
def metrics():
    """Sums at the end of an epoch: counts, a maximum, and a loss as a number."""
    rank = dist.get_rank()
    counts = torch.tensor([10 + rank, 5], dtype=torch.int64)
    dist.all_reduce(counts)
    worst = torch.tensor(float(rank))
    dist.all_reduce(worst, op=dist.ReduceOp.MAX)
    losses = [None] * dist.get_world_size()
    dist.all_gather_object(losses, 0.5 * rank)
    stop = torch.tensor(int(rank == 0))
    dist.broadcast(stop, 0)
    say(counts.tolist(), float(worst), losses, int(stop))


main()
