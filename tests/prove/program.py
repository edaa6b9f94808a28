"""Small models that train for two steps, on one rank and on many: correct ones, and ones with a defect on many ranks."""
import os

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FullyShardedDataParallel, MixedPrecisionPolicy, fully_shard
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.distributed.tensor import Replicate, Shard
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, SequenceParallel, parallelize_module
from torch.utils.checkpoint import checkpoint

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


def right_flat():
    """FSDP1, whose flat parameters hold a norm's ones."""
    model = mlp()
    train("right flat", FullyShardedDataParallel(model, device_id=torch.device("cpu"), use_orig_params=True) if RANKS > 1 else model)


def right_hook():
    """A gradient that a callback changes in another thread: the last rank calls once the first one waits."""
    def sum_later(_, bucket):
        if 0 < RANK == RANKS - 1:
            dist.recv(torch.empty(1, dtype=torch.int64), 0)
        future = dist.all_reduce(bucket.buffer().div_(2 * RANKS), async_op=True).get_future().then(lambda done: done.value()[0] * 2)
        if RANK == 0:
            dist.send(torch.ones(1, dtype=torch.int64), RANKS - 1)
        return future

    model = ddp(mlp())
    if RANKS > 1:
        model.register_comm_hook(None, sum_later)
    train("right hook", model)


def right_tensor_parallel():
    torch.manual_seed(4)
    model = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 4))
    if RANKS > 1:
        parallelize_module(model, init_device_mesh("cpu", (RANKS,)), {"0": ColwiseParallel(), "2": RowwiseParallel()})
    train("right tensor parallel", model, batch=lambda tensor: tensor)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.LayerNorm(16), nn.LayerNorm(16)
        self.q, self.k, self.v, self.o = (nn.Linear(16, 16) for _ in range(4))
        self.up, self.down = nn.Linear(16, 32), nn.Linear(32, 16)

    def forward(self, x):
        y = self.first(x)
        q, k, v = (part.unflatten(-1, (-1, 4)).transpose(1, 2) for part in (self.q(y), self.k(y), self.v(y)))
        x = x + self.o(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2))
        return x + self.down(F.gelu(self.up(self.second(x))))


class Language(nn.Module):
    def __init__(self, recomputed=False):
        super().__init__()
        torch.manual_seed(5)
        self.words, self.places, self.block = nn.Embedding(20, 16), nn.Embedding(4, 16), Block()
        self.norm, self.out, self.recomputed = nn.LayerNorm(16), nn.Linear(16, 20), recomputed

    def forward(self, ids):
        x = self.words(ids) + self.places(torch.arange(ids.shape[1]))
        x = checkpoint(self.block, x, use_reentrant=False) if self.recomputed else self.block(x)
        return self.out(self.norm(x))


IDS = torch.randint(20, (12, 5), generator=torch.Generator().manual_seed(6))


def train_language(name, model, batch=own, finish=None, optimizer=torch.optim.AdamW):
    with lockstep.capture(model, name):
        stepper = optimizer(model.parameters(), lr=0.01)
        for _ in range(2):
            stepper.zero_grad()
            ids = batch(IDS)
            F.cross_entropy(model(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten()).backward()
            if finish is not None:
                finish(model)
            stepper.step()


def right_mixed_precision():
    """FSDP2 that recomputes activations and computes in bf16: casts are the identity."""
    model = Language(recomputed=True)
    if RANKS > 1:
        policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
        for part in (model.block, model):
            fully_shard(part, mesh=init_device_mesh("cpu", (RANKS,)), mp_policy=policy)
    train_language("right mixed precision", model, finish=clip)


def right_sequence_parallel():
    model = Language()
    if RANKS > 1:
        mesh, rows = init_device_mesh("cpu", (RANKS,)), Shard(1)
        column, row = ColwiseParallel(input_layouts=rows), RowwiseParallel(output_layouts=rows)
        parallelize_module(model.block, mesh, {"first": SequenceParallel(), "second": SequenceParallel(), "q": column, "k": column, "v": column,
                                               "o": row, "up": column, "down": row})
        parallelize_module(model, mesh, {
            "words": RowwiseParallel(input_layouts=Replicate(), output_layouts=rows), "norm": SequenceParallel(),
            "places": RowwiseParallel(input_layouts=Replicate(), output_layouts=Shard(0)),
            "out": ColwiseParallel(input_layouts=rows, output_layouts=Replicate())})
    train_language("right sequence parallel", model, batch=lambda ids: ids)


def right_zero():
    model = ddp(Language())
    train_language("right zero", model, optimizer=lambda parameters, lr: ZeroRedundancyOptimizer(
        parameters, torch.optim.AdamW, lr=lr) if RANKS > 1 else torch.optim.AdamW(parameters, lr=lr))


class Ring(nn.Module):
    """Attention whose keys and values travel around the ranks, merged by maxima and sums."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(7)
        self.q, self.k, self.v = (nn.Linear(8, 8) for _ in range(3))

    def forward(self, x):
        q, k, v = self.q(x), self.k(x), self.v(x)
        if RANKS == 1:
            return (q @ k.t() / 8**0.5).softmax(-1) @ v
        most, total, out = torch.full((len(x), 1), -float("inf")), torch.zeros(len(x), 1), torch.zeros(len(x), 8)
        for step in range(RANKS):
            scores = q @ k.t() / 8**0.5
            larger = torch.maximum(most, scores.amax(1, keepdim=True))
            weights, shrunk = (scores - larger).exp(), (most - larger).exp()
            total, out, most = total * shrunk + weights.sum(1, keepdim=True), out * shrunk + weights @ v, larger
            if step < RANKS - 1:
                k, v = (self.passed(part) for part in (k, v))
        return out / total

    @staticmethod
    def passed(part):
        got = torch.empty_like(part)
        for work in dist.batch_isend_irecv([dist.P2POp(dist.isend, part.detach().contiguous(), (RANK + 1) % RANKS),
                                            dist.P2POp(dist.irecv, got, (RANK - 1) % RANKS)]):
            work.wait()
        return got


def right_ring():
    with lockstep.capture(Ring(), "right ring") as capture, torch.no_grad():
        capture.root(own(INPUT))


def right_layers():
    """A convolution, an LSTM, and a loss over sharded words."""
    torch.manual_seed(8)
    images = torch.randn(12, 2, 6, 6)
    model = nn.Sequential(nn.Conv2d(2, 4, 3, stride=2), nn.GroupNorm(2, 4), nn.SiLU(), nn.Flatten(2), nn.LSTM(4, 4, batch_first=True), Last())
    train("right layers", ddp(model), batch=lambda tensor: own(images) if tensor is INPUT else own(TARGET), loss=F.mse_loss)


class Last(nn.Module):
    def forward(self, given):
        return given[0][:, -1]


class Stage(nn.Module):
    """Layers of one rank under their names in the whole; the first takes words, the others the output of the layer before."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(10)
        every = nn.ModuleDict({"words": nn.Embedding(20, 8), "first": nn.Linear(8, 8), "second": nn.Linear(8, 8), "out": nn.Linear(8, 20)})
        own_names = list(every)[:2] if RANK == 0 else list(every)[2:]
        self.layers = nn.ModuleDict({name: every[name] for name in (own_names if RANKS > 1 else every)})

    def forward(self, x):
        for name, layer in self.layers.items():
            x = layer(x) if name == "words" else torch.tanh(checkpoint(layer, x, use_reentrant=False))
        return x


def right_stages():
    """A manual pipeline with micro-batches and recomputed activations: one rank runs the backward after each micro-batch."""
    model, ids = Stage(), IDS[:, 0]

    def forward(part):
        x = ids.chunk(2)[part]
        if RANK == 1:
            x = torch.empty(6, 8)
            dist.recv(x, 0)
            x.requires_grad_()
        out = model(x)
        if RANKS > 1 and RANK == 0:
            dist.send(out.detach(), 1)
        return x, out

    def backward(part, x, out):
        if RANKS > 1 and RANK == 0:
            gradient = torch.empty_like(out)
            dist.recv(gradient, 1)
            out.backward(gradient)
        else:
            (F.cross_entropy(out, IDS[:, 1].chunk(2)[part]) / 2).backward()
        if RANK == 1:
            dist.send(x.grad, 0)

    with lockstep.capture(model, "right stages", gradient_scale=1):
        stepper = torch.optim.SGD(model.parameters(), lr=0.1)
        if RANKS > 1:
            for part, made in enumerate([forward(0), forward(1)]):
                backward(part, *made)
        else:
            for part in range(2):
                backward(part, *forward(part))
        stepper.step()


class Summed(torch.autograd.Function):
    @staticmethod
    def forward(_, x):
        x = x.clone()
        if RANKS > 1:
            dist.all_reduce(x)
        return x

    @staticmethod
    def backward(_, gradient):
        return gradient


def right_table():
    """A table whose rows the ranks share: a rank's bags are partial sums."""
    torch.manual_seed(11)
    rows = 20 // RANKS
    table, out = nn.EmbeddingBag(rows, 8, mode="sum", _weight=torch.randn(20, 8).chunk(RANKS)[RANK].clone()), nn.Linear(8, 4)

    class Bags(nn.Module):
        def __init__(self):
            super().__init__()
            self.table, self.out = table, out

        def forward(self, ids):
            at = ids - RANK * rows
            mine = (at >= 0) & (at < rows)
            return self.out(Summed.apply(self.table(at.clamp(0, rows - 1), per_sample_weights=mine.float())))

    model = Bags()
    with lockstep.capture(model, "right table", gradient_scale=1):
        stepper = torch.optim.SGD(model.parameters(), lr=0.1)
        (model(IDS) - TARGET).square().mean().backward()
        stepper.step()


def right_by_no_optimizer():
    """The ranks reduce gradients outside of the model, and change the parameters themselves."""
    model = mlp()
    with lockstep.capture(model, "right by no optimizer"):
        (model(own(INPUT)) - own(TARGET)).square().mean().backward()
        for parameter in model.parameters():
            gradient = Summed.apply(parameter.grad) / RANKS
            parameter.data.sub_(gradient, alpha=0.1)
            with torch.no_grad():
                parameter.mul_(0.5)


def right_two_optimizers():
    """Each step of an optimizer notes the buffers, which keep their values."""
    model = mlp()
    model.register_buffer("order", torch.tensor([1, 0]))
    with lockstep.capture(ddp(model), "right two optimizers") as capture:
        steppers = [torch.optim.SGD(part.parameters(), lr=0.1) for part in (model[0], model[3])]
        for _ in range(2):
            capture.root.zero_grad()
            (capture.root(own(INPUT)) - own(TARGET)).square().mean().backward()
            reduce_gradients(model)
            for stepper in steppers:
                stepper.step()


def wrong_table():
    """A module whose output is a partial sum that is never summed."""
    torch.manual_seed(12)
    table, out = nn.EmbeddingBag(20 // RANKS, 8, mode="sum", _weight=torch.randn(20, 8).chunk(RANKS)[RANK].clone()), nn.Linear(8, 4)

    class Bags(nn.Module):
        def __init__(self):
            super().__init__()
            self.table, self.out = table, out

        def forward(self, ids):
            at = ids - RANK * (20 // RANKS)
            mine = (at >= 0) & (at < 20 // RANKS)
            return self.out(self.table(at.clamp(0, 20 // RANKS - 1), per_sample_weights=mine.float()))

    with lockstep.capture(Bags(), "wrong table") as capture, torch.no_grad():
        capture.root(IDS)


def wrong_eps():
    model = mlp()
    model[2].eps = 1.1e-5 if RANKS > 1 else 1e-5
    train("wrong eps", ddp(model))


def wrong_bias():
    """A bias that each rank adds to its partial sum."""
    torch.manual_seed(9)
    layer = nn.Linear(8, 4)

    class Part(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = layer

        def forward(self, x):
            out = F.linear(x.chunk(RANKS, 1)[RANK], self.layer.weight.chunk(RANKS, 1)[RANK], self.layer.bias)
            if RANKS > 1:
                dist.all_reduce(out)
            return out

    with lockstep.capture(Part(), "wrong bias") as capture, torch.no_grad():
        capture.root(INPUT)


def wrong_scale():
    """An error of the loss that is below f32's precision."""
    train("wrong scale", ddp(mlp()), loss=lambda out, target: (out - target).square().mean() * (1 + 1e-8 * (RANKS > 1)))


def wrong_decay():
    """A weight decay that one rank's norm omits."""
    train("wrong decay", mlp(), finish=lambda model: (reduce_gradients(model), model[2].weight.data.mul_(1 - 1e-9 * RANK)))


def wrong_not_reduced():
    train("wrong not reduced", mlp(), finish=lambda model: reduce_gradients(model[:3]))


def main():
    torch.set_num_threads(1)
    if RANKS > 1:
        dist.init_process_group("gloo")
    for case in [made for name, made in globals().items() if name.startswith(("right_", "wrong_"))]:
        case()
    if RANKS > 1:
        dist.destroy_process_group()


main()
