"""Values, meshes and placements: the whole tensors of a call and each rank's part of them.

Values are multiples of 2^-20 in float64, so sums are exact in any order.
"""

import dataclasses
import itertools
import random

import torch
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard
from torch.distributed.tensor.placement_types import _StridedShard

REDUCTIONS = ("sum", "avg", "max", "min")
KINDS = (Replicate, Shard, Partial, _StridedShard)


@dataclasses.dataclass(frozen=True)
class Call:
    """An expression of torch over whole tensors."""

    name: str  # name of the operator or pattern for the counts
    source: str  # the expression
    inputs: tuple  # of (name, specification): see `made`; or (name, tensor)
    kept: tuple = ()  # inputs that stay plain tensors

    def tensors(self, seed):
        return {name: made(spec, f"{seed} {self.source} {name}") if isinstance(spec, str) else spec.clone()
                for name, spec in self.inputs}

    def key(self):
        shapes = [f"{n}:{s if isinstance(s, str) else 'x'.join(map(str, s.shape)) + ' ' + str(s.dtype)[6:]}"
                  for n, s in self.inputs]
        return f"{self.source} | {', '.join(shapes)}"


def made(spec, seed):
    """'6x4' distinct integers; '6x4 positive', 'small', 'bool', 'below 5' (indices), 'unit' (in (0, 1)), 'i32' to others."""
    words = spec.split()
    shape = [int(size) for size in words[0].split("x")] if words[0] != "scalar" else []
    kind = words[1] if len(words) > 1 else "distinct"
    draw = torch.Generator().manual_seed(random.Random(seed).getrandbits(62))
    count = int(torch.tensor(shape).prod()) if shape else 1
    if kind == "bool":
        return torch.rand(shape, generator=draw) < 0.5
    if kind == "below":
        return torch.randint(0, int(words[2]), shape, generator=draw)
    if kind == "order":
        return torch.stack([torch.randperm(shape[-1], generator=draw) for _ in range(count // shape[-1])]).view(shape)
    if kind == "small":
        return torch.randint(-3, 4, shape, generator=draw).double()
    if kind == "gradient":  # without zeros, which would hide an error
        return (torch.randint(1, 4, shape, generator=draw) * (2 * torch.randint(0, 2, shape, generator=draw) - 1)).double()
    if kind == "unit":
        return (torch.randperm(count, generator=draw).double() + 1).view(shape) / 64 / (1 + count // 64)
    distinct = torch.randperm(count, generator=draw).double().view(shape)
    return distinct + 1 if kind == "positive" else distinct - count // 2


# ---- Placements ----
def name_of(placement):
    if isinstance(placement, _StridedShard):
        return f"_S({placement.dim},{placement.split_factor})"
    if isinstance(placement, Shard):
        return f"S({placement.dim})"
    return f"P({placement.reduce_op})" if isinstance(placement, Partial) else "R"


def named(name):
    inside = name[name.find("(") + 1:-1]
    if name.startswith("_S"):
        dim, factor = inside.split(",")
        return _StridedShard(int(dim), split_factor=int(factor))
    if name[0] == "R":
        return Replicate()
    return Shard(int(inside)) if name[0] == "S" else Partial(inside)


def single(tensor, strided=False):
    """The placements of a tensor on one dimension of a mesh."""
    names = ["R"] + [f"S({d})" for d in range(tensor.dim())]
    if tensor.dtype.is_floating_point and tensor.dtype not in (torch.float16, torch.bfloat16):
        names += [f"P({op})" for op in REDUCTIONS]
    elif tensor.dtype.is_complex:
        names += ["P(sum)"]
    if strided and tensor.dim():
        names += [f"_S({d},2)" for d in range(min(2, tensor.dim())) if tensor.shape[d] % 4 == 0]
    return names


def pairs(tensor):
    """The placements of a tensor on two dimensions. Partial kinds that do not commute have no defined whole."""
    def sound(first, second):
        kinds = {name for name in (first, second) if name[0] == "P"}
        return len(kinds) < 2 or kinds == {"P(sum)", "P(avg)"}

    names = single(tensor)
    found = [pair for pair in itertools.product(names, names) if sound(*pair)]
    return found + [(f"_S({d},2)", f"S({d})") for d in range(min(2, tensor.dim())) if tensor.shape[d] % 4 == 0]


def combinations(call, tensors, shape, most, seed):
    """A placement for each distributed input and mesh dimension. most: takes all up to this number, else draws, half of them with one
    placement for all inputs.
    """
    all_up_to, drawn = most
    names = [name for name, _ in call.inputs if name not in call.kept]
    if len(shape) == 1:
        choices = [[(one,) for one in single(tensors[name], len(names) == 1)] for name in names]
    else:
        choices = [pairs(tensors[name]) for name in names]
    total = 1
    for choice in choices:
        total *= len(choice)
    if total <= all_up_to:
        return list(itertools.product(*choices))
    draw = random.Random(f"{seed} {call.key()} {shape}")
    same = [tuple([one] * len(choices)) for one in choices[0] if all(one in choice for choice in choices)]
    draw.shuffle(same)
    chosen = dict.fromkeys(same[:(drawn + 1) // 2])
    while len(chosen) < drawn:
        chosen[tuple(draw.choice(choice) for choice in choices)] = None
    return list(chosen)


# ---- Parts ----
def _chunk(tensor, dim, count, at):
    """As torch.chunk, with empty chunks at the end."""
    step = -(-tensor.shape[dim] // count)
    first = min(at * step, tensor.shape[dim])
    return tensor.narrow(dim, first, min(step, tensor.shape[dim] - first))


def _part(whole, op, count, at, seed):
    draw = torch.Generator().manual_seed(random.Random(seed).getrandbits(62))
    noise = torch.randint(1, 9, (count, *whole.shape), generator=draw).to(whole.dtype)
    if op == "sum":
        return noise[at] if at else whole - noise[1:].sum(0)
    if op == "avg":
        return whole + noise[at] if at else whole - noise[1:].sum(0)
    owner = torch.randint(0, count, whole.shape, generator=draw) == at
    return torch.where(owner, whole, whole - noise[at] if op == "max" else whole + noise[at])


def local_part(whole, placements, shape, coordinate, seed):
    """A rank's part of a whole tensor, by the definition of each placement, mesh dimension by mesh dimension."""
    part = whole
    for dim, (name, count, at) in enumerate(zip(placements, shape, coordinate)):
        placement = named(name)
        if isinstance(placement, _StridedShard):
            blocks = [_chunk(part, placement.dim, placement.split_factor, b) for b in range(placement.split_factor)]
            part = torch.cat([_chunk(block, placement.dim, count, at) for block in blocks], placement.dim)
        elif isinstance(placement, Shard):
            part = _chunk(part, placement.dim, count, at)
        elif isinstance(placement, Partial):
            part = _part(part, placement.reduce_op, count, at, f"{seed} {dim}")
    return part.clone(memory_format=torch.contiguous_format)


def _join(parts, placement):
    if isinstance(placement, _StridedShard):
        blocks = [part.chunk(placement.split_factor, placement.dim) for part in parts]
        return torch.cat([block[b] for b in range(placement.split_factor) for block in blocks if b < len(block)], placement.dim)
    if isinstance(placement, Shard):
        return torch.cat(parts, placement.dim)
    if not isinstance(placement, Partial):
        return parts[0]
    joined = torch.stack(parts)
    if placement.reduce_op in ("max", "min"):
        return joined.amax(0) if placement.reduce_op == "max" else joined.amin(0)
    return (joined.sum(0) / (len(parts) if placement.reduce_op == "avg" else 1)).to(parts[0].dtype)


def joined(parts, placements, shape):
    """The whole tensor of all ranks' parts: the inverse of local_part."""
    for name, count in reversed(list(zip(placements, shape))):
        parts = [_join(parts[first:first + count], named(name)) for first in range(0, len(parts), count)]
    return parts[0]


def distributed(whole, placements, mesh, seed):
    part = local_part(whole, placements, tuple(mesh.shape), mesh.get_coordinate(), seed)
    return DTensor.from_local(part, mesh, [named(name) for name in placements], run_check=False, shape=whole.shape,
                              stride=whole.contiguous().stride())
