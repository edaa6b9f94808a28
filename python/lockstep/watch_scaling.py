"""The factor by which a program multiplies the gradients of shards between the backward and the step: a clip, an unscaling, a division.

All ranks that hold parts of the same parameters must use one factor. A rank that computes it from its own part (the norm of its shard, the
number of its tokens) has another one.
"""

import weakref

import torch

from lockstep import torch_client as client
from lockstep import watch_values

NEAR = 16  # a flag of a note (exec/wire.h)
PARAMETERS, ELEMENTS = 8, 8  # looked at
DTENSORS, FSDP1 = "sharded DTensors", "FullyShardedDataParallel"  # kinds of shards
LEAST, SMALLEST = 4, 1e-30  # elements that say something, and the smallest of them
EXACT, ROUNDED = 1e-5, 2e-2  # by how much a product may differ: of 32 or 64 bits, and of 16
_all = []  # in the order of their optimizers' first steps


class Scaling:
    """Of parameters of one optimizer that the same ranks shard."""

    def __init__(self, kind, members):
        self._kind, self._members = kind, members
        self._number = sum((one._kind, one._members) == (kind, members) for one in _all)
        self._parameters, self._before = [], None
        _all.append(self)

    def watch(self, parameters):
        self._parameters = [weakref.ref(parameter) for parameter in parameters]

    def backward_ends(self):
        self._before = _look(self._parameters)

    def _factor(self):
        """With by how much of it another rank's may differ; None: the elements have none in common."""
        before, self._before = self._before, None
        after = _look(self._parameters) if before is not None else None
        if after is None or [one.numel() for one in before[0]] != [one.numel() for one in after[0]]:
            return None
        usable = [old.abs() > SMALLEST for old in before[0]]
        ratios = torch.cat([new[at] / old[at] for old, new, at in zip(before[0], after[0], usable)])
        near = max(before[1], after[1])
        # Of one parameter each rank may have rows with a factor of their own; FSDP1's have many parameters.
        least = 2 if self._kind == DTENSORS else 1
        if ratios.numel() < LEAST or sum(bool(at.any()) for at in usable) < least or not ratios.max() - ratios.min() <= near * ratios.abs().max():
            return None
        return torch.tensor([ratios.mean(), near], dtype=torch.float32)

    def note(self, step):
        from lockstep.torch_backend import types

        factor = self._factor()
        if factor is not None:
            item = client.Item(name=b"the factor that scales the gradients after the backward", shown=b"[]", count=2,
                               dtype=types()[torch.float32][0], data=factor.data_ptr())
            client.get().note("work.differs", f"{self._kind}#scaling {self._number}",
                              "a norm or a count of one rank's own part? It must be that of all ranks", self._members, flags=NEAR, step=step, items=[item])


def _look(parameters):
    """Some elements of the first gradients, in f64, and by how much their products may differ."""
    taken, near = [], EXACT
    for parameter in parameters:
        gradient = getattr(parameter(), "grad", None)
        gradient = gradient.to_local() if hasattr(gradient, "to_local") else gradient
        if gradient is None or not watch_values.is_plain(gradient) or not gradient.is_floating_point() or not gradient.is_contiguous():
            continue
        flat = gradient.detach().view(-1)
        if len(taken) < PARAMETERS and flat.numel():
            near = ROUNDED if flat.element_size() < 4 else near
            taken.append(flat[torch.linspace(0, flat.numel() - 1, min(flat.numel(), ELEMENTS)).long().to(flat.device)].double())
    if not taken:
        return None
    sizes = [one.numel() for one in taken]
    return torch.cat(taken).cpu().split(sizes), near


def backward_ends():
    for one in _all:
        one.backward_ends()
