"""Programs for watches.py whose ranks take steps from the same weights and gradients, without a wrapper that promises replicas."""
import torch
import torch.distributed as dist
from torch import nn


class Whole(torch.autograd.Function):
    """The input of tensor parallel layers: each rank gives a term of its gradient."""

    @staticmethod
    def forward(ctx, value):
        return value.clone()

    @staticmethod
    def backward(ctx, gradient):
        gradient = gradient.clone()
        dist.all_reduce(gradient)
        return gradient


def tensor_parallel(own):
    """own: each rank clips by the norm of the parameters that it has, which is wrong for those that all ranks have."""
    torch.manual_seed(0)
    norm, part = nn.LayerNorm(4), nn.Linear(4, 4)
    with torch.no_grad():
        part.weight.mul_(1 + dist.get_rank())
    model = nn.Sequential(norm, part)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(3):
        optimizer.zero_grad()
        part(Whole.apply(norm(torch.randn(8, 4)))).square().sum().backward()
        squares = [sum(parameter.grad.square().sum() for parameter in of.parameters()) for of in (norm, part)]
        if not own:
            dist.all_reduce(squares[1])
        for parameter in model.parameters():
            parameter.grad.mul_(0.1 / (squares[0] + squares[1]).sqrt())
        optimizer.step()


def by_hand(change):
    """Gradients are reduced by hand; change(model, step) after it."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for at in range(3):
        optimizer.zero_grad()
        torch.manual_seed(at * dist.get_world_size() + dist.get_rank())
        model(torch.randn(8, 4)).square().mean().backward()
        for parameter in model.parameters():
            dist.all_reduce(parameter.grad, op=dist.ReduceOp.AVG)
        change(model, at)
        optimizer.step()
        if change is of_parts:
            for number, parameter in enumerate(model.parameters()):
                dist.broadcast(parameter.data, number % dist.get_world_size())


def by_norm(model, _):
    nn.utils.clip_grad_norm_(model.parameters(), 0.1)


def of_parts(model, _):
    """Each rank updates some parameters, and then gets the others."""
    for number, parameter in enumerate(model.parameters()):
        if number % dist.get_world_size() != dist.get_rank():
            parameter.grad.zero_()


def lost(model, step):
    """Wrong: a rank loses the result of a reduction."""
    if step == 1 and dist.get_rank() == 1:
        model[1].weight.grad.zero_()


def search():
    """Each rank trains a model with a rate of its own, on the same data."""
    torch.manual_seed(0)
    model = nn.Linear(4, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1 * (1 + dist.get_rank()))
    for at in range(3):
        torch.manual_seed(at)
        optimizer.zero_grad()
        model(torch.randn(8, 4)).square().mean().backward()
        optimizer.step()


def separate():
    """From the same weights, on other data; then the average, as in local SGD."""
    torch.manual_seed(0)
    model = nn.Linear(4, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for at in range(6):
        torch.manual_seed(at * dist.get_world_size() + (dist.get_rank() if at % 3 else 0))  # sometimes on the same
        optimizer.zero_grad()
        model(torch.randn(8, 4)).square().mean().backward()
        optimizer.step()
        for parameter in model.parameters() if at % 3 == 2 else ():
            dist.all_reduce(parameter.data, op=dist.ReduceOp.AVG)


def good():
    tensor_parallel(own=False)
    by_hand(by_norm)
    by_hand(of_parts)
    search()
    separate()


def wrong():
    tensor_parallel(own=True)
    by_hand(lost)
