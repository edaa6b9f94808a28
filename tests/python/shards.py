"""Programs for watches.py whose ranks hold shards: they scale the gradients by one factor on all ranks, or by one of each rank, or have other
defects.
"""
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import FullyShardedDataParallel, fully_shard
from torch.distributed.tensor import init_device_mesh
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from torch.nn.parallel import DistributedDataParallel


def net():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 4))


def local(parameter):
    return parameter.grad.to_local() if hasattr(parameter.grad, "to_local") else parameter.grad


def by_norm(model):
    nn.utils.clip_grad_norm_(model.parameters(), 0.05)


def by_value(model):
    nn.utils.clip_grad_value_(model.parameters(), 0.01)


def by_rows(model):
    """Adaptive clipping: each row by its norm."""
    for parameter in model.parameters():
        gradient = local(parameter)
        if gradient.ndim == 2 and gradient.numel():
            gradient.mul_((0.01 / gradient.norm(dim=1, keepdim=True)).clamp(max=1))


def by_parameter(model):
    for at, parameter in enumerate(model.parameters()):
        parameter.grad.mul_(1 / (at + 1))


def by_own_norm(model):
    """Wrong: of the shards of this rank alone."""
    norm = torch.stack([local(parameter).norm() for parameter in model.parameters() if parameter.grad is not None]).norm()
    for parameter in model.parameters():
        if parameter.grad is not None:
            local(parameter).mul_(0.05 / norm)


def by_own_count(model):
    """Wrong: by the number of samples of this rank."""
    for parameter in model.parameters():
        local(parameter).div_(3 + dist.get_rank())


def train(model, scale, dtype=torch.float32, steps=3):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for at in range(steps):
        optimizer.zero_grad()
        torch.manual_seed(at * dist.get_world_size() + dist.get_rank())
        model(torch.randn(8, 4, dtype=dtype)).square().mean().backward()
        scale(model)
        optimizer.step()


def tensor_parallel():
    plan = {"0": ColwiseParallel(), "2": RowwiseParallel()}
    return parallelize_module(net(), init_device_mesh("cpu", (dist.get_world_size(),)), plan)


def of_fsdp1(original):
    return FullyShardedDataParallel(net(), device_id=torch.device("cpu"), use_orig_params=original)


def loaded():
    """A state replaces each rank's own weights. A rank has no row of the last layer, or ones before and after."""
    torch.manual_seed(dist.get_rank())
    model = fully_shard(nn.Sequential(nn.LayerNorm(4), nn.Linear(4, 1)))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.to_local().fill_(1 if dist.get_rank() else 2)
    train(model, by_norm)


def freezing():
    """Wrong: a rank freezes a parameter after the wrapping."""
    model = DistributedDataParallel(net(), find_unused_parameters=True)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for at in range(3):
        optimizer.zero_grad()
        model.module[0].bias.requires_grad_(at < 1 or dist.get_rank() == 0)
        torch.manual_seed(at * dist.get_world_size() + dist.get_rank())
        model(torch.randn(8, 4)).square().mean().backward()
        optimizer.step()


class Twice(torch.optim.SGD):
    """torch calls the hooks of a step for this one and for SGD's."""

    def step(self, closure=None):
        return super().step(closure)


def nested():
    """Wrong: a rank changes a weight after its second step."""
    model = DistributedDataParallel(net())
    torch.optim.SGD(model.parameters(), lr=0.1)
    optimizer = Twice(model.parameters(), lr=0.1)
    for at in range(4):
        optimizer.zero_grad()
        torch.manual_seed(at * dist.get_world_size() + dist.get_rank())
        model(torch.randn(8, 4)).square().mean().backward()
        optimizer.step()
        if at == 1 and dist.get_rank() == 1:
            model.module[0].bias.data.add_(1)


def good():
    loaded()
    for scale in by_norm, by_value, by_rows, by_parameter:
        train(fully_shard(net()), scale)
    train(fully_shard(net().bfloat16()), by_norm, torch.bfloat16, steps=9)
    for original in False, True:
        train(of_fsdp1(original), lambda model: model.clip_grad_norm_(0.05))
    first, second = fully_shard(net()), fully_shard(net())  # optimizers of their own
    optimizers = [torch.optim.SGD(model.parameters(), lr=0.1) for model in (first, second)]
    for at in range(3):
        torch.manual_seed(at * dist.get_world_size() + dist.get_rank())
        for model, optimizer in zip((first, second), optimizers):
            model(torch.randn(8, 4)).square().mean().backward()
            nn.utils.clip_grad_norm_(model.parameters(), 0.01 * (at + 1) * (1 + (model is first)))
            optimizer.step()
    torch.manual_seed(0)
    one = fully_shard(nn.Linear(4, 2, bias=False))  # each rank has a row
    train(one, by_rows)


def train_wrong(case):
    torch.manual_seed(dist.get_rank() if case == "shards" else 0)
    model = fully_shard(nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4)))
    if case == "unreduced":
        model.set_requires_gradient_sync(False)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.2 if case == "sharded_rate" and dist.get_rank() == 1 else 0.1)
    for at in range(3):
        optimizer.zero_grad()
        model(torch.randn(8, 4)).square().sum().backward()
        if case == "weight" and at == 2 and dist.get_rank() == 1:
            model[1].bias.to_local().data.fill_(float("nan"))
        if case != "steps" or dist.get_rank() == 0 or at < 2:
            optimizer.step()


WRONG = {"scaled": lambda: train(fully_shard(net()), by_own_norm), "scaled_count": lambda: train(fully_shard(net()), by_own_count),
         "scaled_bf16": lambda: train(fully_shard(net().bfloat16()), by_own_count, torch.bfloat16),
         "scaled1": lambda: train(of_fsdp1(False), by_norm), "scaled1_original": lambda: train(of_fsdp1(True), by_norm),
         "freezing": freezing, "nested": nested}
