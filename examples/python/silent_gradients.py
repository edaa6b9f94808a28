"""Defects that no collective shows, as they were reported of Megatron Core and its users: every call is right by itself,
the loss falls, and a gradient, a norm or a name is wrong. silent_gradients.py right|wrong FOLDER, alone or on 4 ranks; then

    lockstep diff FOLDER_OF_ONE/out_norm FOLDER_OF_FOUR/out_norm
"""
import os
import sys

import torch
import torch.distributed as dist
from torch import nn

import lockstep

WAY, FOLDER = sys.argv[1:3]
RANKS, RANK = int(os.environ.get("WORLD_SIZE", 1)), int(os.environ.get("RANK", 0))
RIGHT = WAY == "right" or RANKS == 1


class Sum(torch.autograd.Function):
    """The sum of the ranks' values, with the whole gradient on each rank."""

    @staticmethod
    def forward(_, x):
        x = x.clone()
        if RANKS > 1:
            dist.all_reduce(x)
        return x

    @staticmethod
    def backward(_, gradient):
        return gradient


class Copy(torch.autograd.Function):
    """A tensor that all ranks have and use differently, so that their gradients add up."""

    @staticmethod
    def forward(_, x):
        return x.view_as(x)

    @staticmethod
    def backward(_, gradient):
        return Sum.forward(None, gradient)


def own(tensor, dim=0):
    return tensor.chunk(RANKS, dim)[RANK].clone()


def randn(*shape, seed):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def linear(rows, columns, seed, cut=None):
    """A layer without bias whose weight is cut along a dimension."""
    weight = randn(rows, columns, seed=seed) / columns**0.5
    weight = weight if cut is None else own(weight, cut)
    layer = nn.Linear(weight.shape[1], weight.shape[0], bias=False)
    layer.weight.data.copy_(weight)
    return layer


def reduce_gradients(parameters, divided=1):
    for parameter in parameters:
        if RANKS > 1:
            dist.all_reduce(parameter.grad)
        parameter.grad /= divided


def train(name, model, loss, finish=lambda: None, **options):
    """One step."""
    with lockstep.capture(model, os.path.join(FOLDER, name), **options) as capture:
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        loss(model).backward()
        told = finish()
        if told is not None:
            capture.note("gradient norm", told)
        optimizer.step()


# ---- Data parallel ----
def uneven_tokens():
    """A loss for each token, divided by a rank's own number of tokens where ranks have different ones."""
    model, tokens = nn.Sequential(linear(6, 8, 1), nn.Tanh(), linear(1, 6, 2)), randn(16, 8, seed=3)
    valid = (torch.arange(16) % 4 < 1 + torch.arange(16) // 4).float().view(16, 1)

    def loss(model):
        mine = own(valid)
        return (model(own(tokens)).square() * mine).sum() / (valid.sum() / RANKS if RIGHT else mine.sum())

    train("uneven_tokens", nn.parallel.DistributedDataParallel(model) if RANKS > 1 else model, loss)


def router_count():
    """An auxiliary loss for each token times the number of tokens: of a rank's own, which an in-place reduction has changed to the number
    of all.
    """
    model, tokens = linear(4, 8, 4), randn(16, 8, seed=5)

    def loss(model):
        mine = own(tokens)
        count = torch.tensor(float(len(mine)))
        everyone = count.clone() if RIGHT else count  # the reduction is in place
        if RANKS > 1:
            dist.all_reduce(everyone)
        return model(mine).softmax(-1).square().sum() / everyone * count * RANKS / 4

    train("router_count", model, loss,
          lambda: reduce_gradients(model.parameters()))


def expert_scale():
    """The gradient of an expert on one rank comes from all tokens at once: it must not be divided, or multiplied, by the number of ranks.
    """
    expert, tokens = linear(8, 8, 6, cut=0), randn(16, 8, seed=7)

    def scale():
        expert.weight.grad *= 1 if RIGHT else RANKS

    train("expert_scale", expert, lambda model: model(tokens).square().sum(), scale)


# ---- Tensor parallel ----
class Heads(nn.Module):
    """Heads cut over the ranks, a norm for each head with one weight for all, and the way back."""

    def __init__(self):
        super().__init__()
        self.first, self.wide = linear(8, 8, 8), linear(16, 8, 9, cut=0)
        self.scale, self.sink = nn.Parameter(1 + 0.1 * randn(4, seed=10)), nn.Parameter(own(randn(4, seed=11)))
        self.narrow = linear(8, 16, 12, cut=1)

    def forward(self, x, copy=Copy.apply):
        x = self.wide(copy(torch.tanh(self.first(x))))
        heads = x.view(len(x), -1, 4)
        heads = heads / (heads.square().mean(-1, keepdim=True) + 0.1).sqrt() * self.scale + self.sink.view(1, -1, 1)
        return Sum.apply(self.narrow(heads.flatten(1)))


INPUT = randn(6, 8, seed=13)


def out_norm():
    """The weight of a norm that all ranks have, each for other heads."""
    model = Heads()
    train("out_norm", model, lambda model: model(INPUT).square().sum(),
          lambda: reduce_gradients([model.scale] if RIGHT else []))


def lost_sum():
    """The gradient of a sharded layer's input is a sum over the ranks; without it all earlier layers learn from a part."""
    model = Heads()
    copy = Copy.apply if RIGHT else lambda x: x
    train("lost_sum", model, lambda model: model(INPUT, copy).square().sum(), lambda: reduce_gradients([model.scale]))


def sink_norm():
    """Gradients are clipped by the norm of all of them; what is cut over the ranks counts on each, not on the first alone."""
    model = Heads()

    def clip():
        reduce_gradients([model.scale])
        cut = [model.wide.weight, model.narrow.weight] + ([model.sink] if RIGHT or RANK == 0 else [])
        squares = sum(parameter.grad.square().sum() for parameter in cut)
        if RANKS > 1:
            dist.all_reduce(squares)
        norm = (squares + model.scale.grad.square().sum() + model.first.weight.grad.square().sum()).sqrt()
        for parameter in model.parameters():
            parameter.grad /= norm
        return norm

    train("sink_norm", model, lambda model: model(INPUT).square().sum(), clip)


def auxiliary_scale():
    """The loss of a further head is divided by the number of ranks that share a sequence, once too often."""
    model, tokens = nn.ModuleDict({"main": linear(8, 8, 14), "further": linear(4, 8, 15)}), randn(16, 8, seed=16)

    def loss(model):
        hidden = model["main"](own(tokens))
        further = model["further"](hidden.detach()).square().sum() / 16
        return hidden.square().sum() / 16 + further / (1 if RIGHT else RANKS)

    train("auxiliary_scale", model, loss, lambda: reduce_gradients(model.parameters()))


class Scatter(nn.Module):
    """Cuts a sequence over a group, and puts it together over a group."""

    def __init__(self, coordinate, group):
        super().__init__()
        self.coordinate, self.group = coordinate, group

    def forward(self, x):
        if RANKS == 1:
            return x
        part = x.chunk(2, 1)[self.coordinate].contiguous()
        parts = [torch.empty_like(part) for _ in range(2)]
        dist.all_gather(parts, part, group=self.group)
        return torch.cat(parts, 1)


def scatter_group():
    """Two samples on two pairs of ranks: each pair scatters its sequence by the coordinates of other pairs."""
    pairs = [dist.new_group([first, first + 2]) for first in range(2)] if RANKS > 1 else [None]
    coordinate = RANK // 2 if RIGHT else RANK % 2
    model, samples = Scatter(coordinate, pairs[RANK % len(pairs)]), randn(2, 4, 3, seed=17)
    with lockstep.capture(model, os.path.join(FOLDER, "scatter_group"), mesh=(2, 2), placements={"*": "R, S(0)"}):
        model(samples[RANK % 2:RANK % 2 + 1] if RANKS > 1 else samples)


def stage_names():
    """Stages of a pipeline that name their layers from 0 on in a checkpoint, each for itself."""
    layers = [randn(3, 3, seed=20 + i) for i in range(4)]
    first = RANK * len(layers) // RANKS
    mine = layers[first:first + len(layers) // RANKS]
    stage = nn.ModuleDict({str(i + (first if RIGHT else 0)): linear(3, 3, 0) for i in range(len(mine))})
    for layer, values in zip(stage.values(), mine):
        layer.weight.data.copy_(values)
    lockstep.capture(stage, os.path.join(FOLDER, "stage_names")).close()


# ---- A vocabulary that is cut ----
class Gather(torch.autograd.Function):
    """Gathers blocks of columns; of the gradient each rank takes its own columns."""

    @staticmethod
    def forward(_, x):
        blocks = [torch.empty_like(x) for _ in range(RANKS)]
        dist.all_gather(blocks, x.contiguous())
        return torch.cat(blocks, 1)

    @staticmethod
    def backward(_, gradient):
        return own(gradient, 1)


WORDS = 16
TARGETS = torch.arange(6) * 5 % WORDS


def cross_entropy(logits, smoothing=0.0):
    """The loss of logits that are a rank's block of the words."""
    size = logits.shape[1]
    whole = size * RANKS
    first = RANK * size
    mine = (TARGETS >= first) & (TARGETS < first + size)
    at = torch.where(mine, TARGETS - first, 0).view(-1, 1)
    total = Sum.apply(logits.exp().sum(1)).log()
    target = Sum.apply(torch.where(mine, logits.gather(1, at).view(-1), 0))
    mean = Sum.apply(logits.sum(1)) / whole if RIGHT else logits.mean(1)  # the wrong one is of a rank's own words
    return (total - (1 - smoothing) * target - smoothing * mean).mean()


def label_smoothing():
    """Labels are smoothed over all words, not over those of a rank."""
    train("label_smoothing", linear(WORDS, 8, 30, cut=0), lambda model: cross_entropy(model(INPUT), 0.2), gradient_scale=1)


def gathered_logits():
    """A loss that adds up over the ranks receives gathered logits: its exponentials count RANKS times."""
    train("gathered_logits", linear(WORDS, 8, 31, cut=0),
          lambda model: cross_entropy(model(INPUT) if RIGHT else Gather.apply(model(INPUT))), gradient_scale=1)


# ---- Recomputation ----
class Recomputed(torch.autograd.Function):
    """x @ weight.T; of x each rank keeps a part, and the backward puts the parts together over a group."""

    @staticmethod
    def forward(context, x, weight, coordinate, group):
        context.save_for_backward(x.chunk(min(RANKS, 2), 1)[coordinate].contiguous(), weight)
        context.group = group
        return x @ weight.t()

    @staticmethod
    def backward(context, gradient):
        part, weight = context.saved_tensors
        parts = [part]
        if RANKS > 1:
            parts = [torch.empty_like(part) for _ in range(2)]
            dist.all_gather(parts, part, group=context.group)
        return gradient @ weight, gradient.t() @ torch.cat(parts, 1), None, None


def recompute_group():
    """Two replicas of two ranks, with distributed saved tensors: the backward gathers them from the ranks of a replica,
    not from the same rank of each replica."""
    groups = [None]
    if RANKS > 1:
        groups = [dist.new_group(pair) for pair in ([[0, 1], [2, 3]] if RIGHT else [[0, 2], [1, 3]])]
    model, tokens = linear(8, 8, 32), randn(4, 8, seed=33)
    mine = tokens.chunk(min(RANKS, 2))[RANK // 2]
    group = groups[(RANK // 2 if RIGHT else RANK % 2) % len(groups)]
    train("recompute_group", model, lambda model: Recomputed.apply(mine, model.weight, RANK % 2, group).square().sum(),
          lambda: reduce_gradients([model.weight], min(RANKS, 2)))


torch.set_num_threads(1)
if RANKS > 1:
    dist.init_process_group("gloo")
for case in (uneven_tokens, router_count, expert_scale, out_norm, lost_sum, sink_norm, auxiliary_scale, scatter_group,
             stage_names, label_smoothing, gathered_logits, recompute_group):
    case()
if RANKS > 1:
    dist.destroy_process_group()
