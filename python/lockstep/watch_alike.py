"""Weights that no wrapper has: ranks that take a step from the same weights and gradients must have the same weights afterwards.

A plain module promises no replicas. But the backward gives the norms of tensor parallel layers the same gradient on all ranks, and a reduction
by hand gives the sum. If the weights then differ, one rank has changed its gradients: by a clip with its own norm, for example. The name of
an item has a hash of the weight and gradient before the step, so that only those that ranks have alike are compared.
"""

import gc
import hashlib
import weakref

import torch
import torch.distributed as dist

from lockstep import torch_client as client
from lockstep import watch_device, watch_values

HINT = 4  # a flag of a note (exec/wire.h)
LARGEST, MOST, GROUPS = 1 << 16, 256, 4  # elements of a weight, weights of an optimizer, groups of a rank
WHY = "the same weights and gradients before the step: did a rank clip or change its gradients alone?"
_all, _waiting = weakref.WeakSet(), weakref.WeakSet()  # _waiting: optimizers without a step yet
_gradients = {}  # hashes at the end of the last backward, by the identity of the parameter
_sums = {}  # of the memory of a tensor: the all_reduce since the last backward began that it is the result of
_state = {"made": 0, "looked": False}


def _memory(tensor):
    return tensor.untyped_storage()._cdata, tensor.data_ptr()


def _hashes(named):
    """By name; the host waits for each device once."""
    made, there = {}, {}
    for name, tensor in named:
        if watch_device.takes(tensor):
            there.setdefault(tensor.device, []).append((name, tensor))
        else:
            made[name] = watch_values.digest([tensor])
    for of in there.values():
        made.update(zip([name for name, _ in of], [bytes(one).hex() for one in watch_device.digests([tensor for _, tensor in of])]))
    return made


def _groups(compared):
    """The ranks of groups of this rank; the world if there is no smaller one. compared: ranks that the wrapper's watch compares."""
    found = {tuple(sorted(ranks)) for ranks in dist.distributed_c10d._world.pg_group_ranks.values()}
    world, rank = max(found, key=len, default=()), dist.get_rank() if found else 0
    parts = sorted(members for members in found - {world} if len(members) > 1 and rank in members)
    return [members for members in parts or [world] if not set(members) <= set(compared)][:GROUPS]


def _is_small(tensor):
    return watch_values.is_plain(tensor) and tensor.numel() <= LARGEST


class Alike:
    """Those of one optimizer, in the order of the optimizers' first steps."""

    def __init__(self, optimizer):
        self._number, self._parameters, self._compared = _state["made"], [], ()
        self._before = self._after = None  # hashes by name
        self.is_noted = True  # the next step
        _state["made"] += 1
        _all.add(self)
        _waiting.discard(optimizer)

    def watch(self, named, compared):
        self._compared = compared
        small = [(name, one) for name, one in named if name is not None and _is_small(one)] if _groups(compared) else []
        self._parameters = [(name, weakref.ref(one)) for name, one in small[:MOST]]

    def parameters(self):
        return [one() for _, one in self._parameters if one() is not None]

    def _named(self):
        return [(name, one().detach()) for name, one in self._parameters if one() is not None]

    def before(self, optimizer, step, is_noted, item):
        """item: adds a tensor to items."""
        values = _hashes(self._named()) if self._parameters and (is_noted or self._after) else {}
        if self._after:
            self._note(type(optimizer).__name__, step, values, item)
        self._after, self._before = None, self._known(optimizer, values) if is_noted else None

    def _known(self, optimizer, values):
        settings = {id(one): str(sorted((name, value) for name, value in group.items() if isinstance(value, (int, float, bool, tuple))))
                    for group in optimizer.param_groups for one in group["params"]}
        known = {}
        for name, one in self._parameters:
            gradient, identity = getattr(one(), "grad", None), id(one())
            summed = _sums.get(_memory(gradient)) if gradient is not None and gradient.layout is torch.strided else None
            # Ranks without a sum may have other settings, as in a search for the best ones.
            alike = summed or (_gradients[identity] + settings.get(identity, "") if identity in _gradients else None)
            if gradient is not None and alike is not None and name in values:
                known[name] = hashlib.sha256(f"{values[name]} {alike}".encode()).hexdigest()[:16]
        return known

    def after(self, is_noted):
        """is_noted: of the step that comes."""
        self.is_noted = is_noted
        self._after = _hashes(self._named()) if self._before else None
        for one in self.parameters():
            _gradients.pop(id(one), None)

    def _note(self, kind, step, values, item):
        items, kept = [], []
        for name, tensor in self._named():  # a program may change weights again, as one whose ranks each update a part of them
            if name in self._before and values.get(name) == self._after.get(name):
                item(items, kept, f"{name}#{self._before[name]}", tensor)
        kept += watch_device.fill(items, kept)
        for members in _groups(self._compared) if items else ():
            client.get().note("replica.diverged", f"weights of {kind}#{self._number}", WHY, members, flags=HINT, step=step, items=items)


def backward_begins():
    _sums.clear()
    _gradients.clear()


def backward_ends():
    if not _state["looked"]:
        _state["looked"] = True
        _waiting.update(one for one in gc.get_objects() if issubclass(type(one), torch.optim.Optimizer))
    first = [parameter for one in _waiting for group in one.param_groups for parameter in group["params"] if _is_small(parameter)]
    parameters = [*first[:MOST], *(parameter for one in _all if one.is_noted for parameter in one.parameters())]
    _gradients.update(_hashes([(id(one), one.grad.detach()) for one in parameters if one.grad is not None and watch_values.is_plain(one.grad)]))


def of_making(original):
    def make(self, *arguments, **options):
        original(self, *arguments, **options)
        _waiting.add(self)
    return make


def summed(group, tensors):
    """An all_reduce was issued, with these tensors as results."""
    for tensor in tensors:
        group.summed = getattr(group, "summed", 0) + 1
        _sums[_memory(tensor)] = f"{group.title} {group.summed}"
