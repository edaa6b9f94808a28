"""Small models that train for two steps, on one rank and on many: right ones, and ones with a defect on many ranks."""
import os

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

import lockstep

RANKS, RANK = int(os.environ.get("WORLD_SIZE", 1)), int(os.environ.get("RANK", 0))
INPUT, TARGET = torch.randn(12, 8, generator=torch.Generator().manual_seed(1)), torch.randn(12, 4, generator=torch.Generator().manual_seed(2))


def mlp():
    torch.manual_seed(3)
    return nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.LayerNorm(16), nn.Linear(16, 4))


def own(tensor):
    return tensor.chunk(RANKS)[RANK]


def train(name, model, batch=own, loss=lambda out, target: (out - target).square().mean(), optimizer=torch.optim.AdamW, finish=None):
    with lockstep.capture(model, name):
        stepper = optimizer(model.parameters(), lr=0.01, weight_decay=0.1)
        for _ in range(2):
            stepper.zero_grad()
            loss(model(batch(INPUT)), batch(TARGET)).backward()
            if finish is not None:
                finish(model)
            stepper.step()


def ddp(model):
    return nn.parallel.DistributedDataParallel(model) if RANKS > 1 else model


def reduce_gradients(model, divided=RANKS):
    for parameter in model.parameters():
        if RANKS > 1:
            dist.all_reduce(parameter.grad)
        parameter.grad /= divided


def clip(model):
    nn.utils.clip_grad_norm_(model.parameters(), 0.1)


def right_ddp():
    train("right ddp", ddp(mlp()), finish=clip)


def right_by_hand():
    train("right by hand", mlp(), finish=reduce_gradients)


def right_fsdp():
    model = mlp()
    if RANKS > 1:
        mesh = init_device_mesh("cpu", (RANKS,))
        fully_shard(model[0], mesh=mesh)
        fully_shard(model, mesh=mesh)
    train("right fsdp", model, finish=clip)


def right_tensor_parallel():
    torch.manual_seed(4)
    model = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 4))
    if RANKS > 1:
        parallelize_module(model, init_device_mesh("cpu", (RANKS,)), {"0": ColwiseParallel(), "2": RowwiseParallel()})
    train("right tensor parallel", model, batch=lambda tensor: tensor)


def wrong_scale():
    """A loss that is off by less than f32 can show."""
    train("wrong scale", ddp(mlp()), loss=lambda out, target: (out - target).square().mean() * (1 + 1e-8 * (RANKS > 1)))


def wrong_decay():
    """A weight decay that one rank's norm lacks."""
    train("wrong decay", mlp(), finish=lambda model: (reduce_gradients(model), model[2].weight.data.mul_(1 - 1e-9 * RANK)))


def wrong_not_reduced():
    train("wrong not reduced", mlp(), finish=lambda model: reduce_gradients(model[:3]))


def main():
    torch.set_num_threads(1)
    if RANKS > 1:
        dist.init_process_group("gloo")
    for case in (right_ddp, right_by_hand, right_fsdp, right_tensor_parallel, wrong_scale, wrong_decay, wrong_not_reduced):
        case()
    if RANKS > 1:
        dist.destroy_process_group()


main()
