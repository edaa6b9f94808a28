"""Models of one program on one rank and on two, captured without a change of the program: correct ones, then ones with a defect."""
import contextlib
import copy
import os
import sys

import torch
import torch.distributed as dist
from torch import nn

RANKS, RANK = int(os.environ.get("WORLD_SIZE", 1)), int(os.environ.get("RANK", 0))
INPUT = torch.randn(8, 4, generator=torch.Generator().manual_seed(1))


def mlp():
    torch.manual_seed(3)
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 4))


def ddp(model):
    return nn.parallel.DistributedDataParallel(model) if RANKS > 1 else model


def train(model, steps=2, change=None, batch=INPUT):
    stepper = torch.optim.SGD(model.parameters(), lr=0.01)
    for at in range(steps):
        stepper.zero_grad()
        model(batch.chunk(RANKS)[RANK]).square().mean().backward()
        if change is not None and RANKS > 1:
            change(model, at)
        stepper.step()


class Parts(nn.Module):
    """On one rank its forward is not called: like a trainer's, whose training step calls the parts."""

    def __init__(self):
        super().__init__()
        self.encoder, self.decoder = mlp(), mlp()

    def training_step(self, batch):
        return self.decoder(self.encoder(batch))

    forward = training_step


def trainer():
    model = Parts()
    whole = ddp(model)
    train_with = whole if RANKS > 1 else model.training_step
    stepper = torch.optim.SGD(model.parameters(), lr=0.01)
    train_with(INPUT.chunk(RANKS)[RANK]).square().mean().backward()
    stepper.step()


def two_models():
    """Neither contains the other; an evaluation between them has no gradients."""
    first, second = ddp(mlp()), ddp(nn.Linear(4, 4))
    with torch.no_grad():
        first(INPUT)
    train(first)
    train(second)


class Loss(nn.Module):
    """Its output is the mean loss of what it is given."""

    def __init__(self, factor=1):
        super().__init__()
        self.inner, self.factor = mlp(), factor

    def forward(self, batch):
        return self.inner(batch).square().mean() * self.factor


def with_loss(factor=1):
    torch.manual_seed(3)
    model = ddp(Loss(factor))
    stepper = torch.optim.SGD(model.parameters(), lr=0.01)
    model(INPUT.chunk(RANKS)[RANK]).backward()
    stepper.step()


def accumulated():
    """Each rank cuts its own rows into micro-batches, so that a call has other rows than on one rank."""
    model = ddp(mlp())
    stepper = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(2):
        stepper.zero_grad()
        for micro in INPUT.chunk(RANKS)[RANK].chunk(2):
            (model(micro).square().mean() / 2).backward()
        stepper.step()


@contextlib.contextmanager
def evaluating(model):
    model.eval()
    with torch.no_grad():
        yield
    model.train()


def averaged():
    """The average of the weights runs first after a step. Rank 0 alone evaluates the model."""
    plain = mlp()
    model, mean = ddp(plain), copy.deepcopy(plain)
    for at in range(3):
        train(model, steps=1, batch=INPUT * (at + 1))
        with torch.no_grad():
            for kept, trained in zip(mean.parameters(), plain.parameters()):
                kept.lerp_(trained, 0.3)
        with evaluating(mean):
            mean(INPUT.chunk(RANKS)[RANK])
        if RANK == 0:
            with evaluating(plain):
                plain(INPUT + 1)


def in_16_bits():
    """Without a linear layer."""
    torch.manual_seed(3)
    model = ddp(nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 3, 3, padding=1)))
    stepper = torch.optim.SGD(model.parameters(), lr=0.01)
    images = torch.randn(8, 3, 8, 8, generator=torch.Generator().manual_seed(1)).chunk(RANKS)[RANK]
    with torch.autocast("cpu", torch.bfloat16):
        out = model(images)
    (out.float() - images).square().mean().backward()
    stepper.step()


def right():
    train(ddp(mlp()), steps=6)
    trainer()
    two_models()
    with_loss()
    accumulated()
    averaged()
    in_16_bits()
    if RANK == 0:  # models of one rank
        model = mlp()
        train(model)
        copy.deepcopy(model)(INPUT)


def doubled(model, at):
    if at == 1:
        for parameter in model.parameters():
            parameter.grad *= RANKS


def wrong():
    train(ddp(mlp()), change=doubled)  # the second step
    train(mlp())  # not reduced
    train(ddp(mlp()), batch=INPUT + (RANKS > 1))  # other inputs
    with_loss(factor=1 + RANK)  # the loss of rank 1 is twice what it should be
    if RANKS == 1:
        train(mlp())  # no model on two ranks


def main():
    if RANKS > 1:
        dist.init_process_group("gloo")
    if sys.argv[1] == "raises":
        train(ddp(mlp()))
        assert RANKS == 1, "only one rank can do this"
    if sys.argv[1] == "inner":  # the module of a DDP model is called: its gradients are not reduced
        model = ddp(mlp())
        train(model.module if RANKS > 1 else model)
    else:
        (right if sys.argv[1] == "right" else wrong)()
    if RANKS > 1:
        dist.destroy_process_group()


main()
