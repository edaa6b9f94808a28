"""Pipelines: every schedule, on two ranks, with the loss and the gradients of the whole model."""
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.pipelining import (PipelineStage, Schedule1F1B, ScheduleGPipe, ScheduleInterleaved1F1B,
                                          ScheduleInterleavedZeroBubble, ScheduleLoopedBFS)

from common import check, main, program, say

WIDTH = 8


def layers(count):
    torch.manual_seed(0)
    return [nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh()) for _ in range(count)]


def pipelined(kind, own, count):
    """own: this rank's layers of `count`. Two steps, each beside the whole model on one rank."""
    parts, whole = layers(count), nn.Sequential(*layers(count))
    stages = [PipelineStage(parts[at], at, count, torch.device("cpu")) for at in own]
    schedule = kind(stages[0] if kind in (ScheduleGPipe, Schedule1F1B) else stages, 4, loss_fn=nn.functional.mse_loss)
    for step in range(2):
        generator = torch.Generator().manual_seed(step)
        inputs, target = torch.randn(8, WIDTH, generator=generator), torch.randn(8, WIDTH, generator=generator)
        losses = []
        last = count - 1 in own
        schedule.step(*([inputs] if 0 in own else []), **({"target": target, "losses": losses} if last else {}))
        whole.zero_grad()
        expected = nn.functional.mse_loss(whole(inputs), target)
        expected.backward()
        for at in own:
            for mine, right in zip(parts[at].parameters(), whole[at].parameters()):
                check(mine.grad, right.grad)
                mine.grad = None
        loss = torch.stack(losses).detach().mean() if last else torch.zeros(())
        dist.all_reduce(loss)
        check(loss, expected.detach())
        say(float(loss))


def one_each(kind):
    pipelined(kind, [dist.get_rank()], dist.get_world_size())


def two_each(kind):
    pipelined(kind, [dist.get_rank(), dist.get_rank() + dist.get_world_size()], 2 * dist.get_world_size())


@program
def gpipe():
    one_each(ScheduleGPipe)


@program
def one_forward_one_backward():
    one_each(Schedule1F1B)


@program
def interleaved():
    two_each(ScheduleInterleaved1F1B)


@program
def looped():
    two_each(ScheduleLoopedBFS)


@program
def zero_bubble():
    two_each(ScheduleInterleavedZeroBubble)


@program
def by_hand():
    """Activations and their gradients, sent by a user's own autograd function."""
    rank = dist.get_rank()
    part, inputs = layers(2)[rank], torch.randn(4, WIDTH, generator=torch.Generator().manual_seed(0))
    if rank == 0:
        output = part(inputs)
        dist.send(output.detach(), 1)
        gradient = torch.empty_like(output)
        dist.recv(gradient, 1)
        output.backward(gradient)
    else:
        received = torch.empty(4, WIDTH)
        dist.recv(received, 0)
        received.requires_grad_()
        part(received).square().mean().backward()
        dist.send(received.grad, 0)
    total = part[0].weight.grad.sum()
    dist.all_reduce(total)
    say(float(total))


main()
