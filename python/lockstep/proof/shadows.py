"""Stores the field value of each float by storage, so that views share values as they share floats."""

import ctypes

import torch
from torch.multiprocessing.reductions import StorageWeakRef

from lockstep.proof import field

_SWEEP_BYTES = 32 << 20
_PART = 1 << 15  # block size in floats, so that intermediate results stay in the cache


class Value:
    """A rule's result for a tensor.

    value: in the field. With `ratio`, value = x + log(ratio) and its exponential is exp(x) ratio. So exp(a - m) exp(m) is exp(a) for a
    maximum m, and exp(log(y)) is y. peak: elements are maxima, which are subtracted before an exponential and must not appear in a result.
    """

    def __init__(self, value, ratio=None, peak=False):
        self.value, self.ratio, self.peak = value, ratio, peak

    def of(self, tensor):
        return self.value


class Held:
    """The values of a storage: one element for each of its floats."""

    __slots__ = ("alive", "value", "ratio", "peak", "opaque", "power")

    def __init__(self, storage, value):
        self.alive, self.value = StorageWeakRef(storage), value
        self.ratio, self.peak, self.opaque, self.power = None, False, None, 0


_held, _swept, _added = {}, 0, 0
_trim = getattr(ctypes.CDLL(None), "malloc_trim", lambda kept: None)  # glibc keeps the memory of freed values in pieces
_roots = {}  # of a small tensor's square roots: their squares


def is_float(tensor):
    return isinstance(tensor, torch.Tensor) and tensor.is_floating_point()


def _sweep(bytes_):
    """Drops values of freed storages."""
    global _swept, _added
    _added += bytes_
    if _added <= max(_SWEEP_BYTES, _swept // 4):
        return
    for at in [at for at, held in _held.items() if held.alive.expired()]:
        del _held[at]
    _swept = sum(held.value.nbytes for held in _held.values())
    _added = 0
    _trim(0)


def of_content(tensor):
    """The values of floats that no observed operation computed: integers are themselves, other numbers are drawn by their bits."""
    floats = tensor.detach()
    if floats.numel() == 1:
        known = floats.item()
        small = field.rational32(known) if known == known and abs(known) != float("inf") else None
        if small is not None:
            return torch.full(floats.shape, small, dtype=field.TYPE)
    out = torch.empty(floats.shape, dtype=field.TYPE)
    for part, given in zip(out.view(-1).split(_PART), floats.reshape(-1).split(_PART)):
        doubles = given.double()
        whole = torch.where(doubles.abs() < 2**53, doubles, 0.5)
        is_whole = whole == whole.trunc()
        if not bool(is_whole.all()):
            part.copy_(field.drawn(doubles.view(torch.int64)))
        if bool(is_whole.any()):
            part[is_whole] = field.narrow(whole[is_whole].long())
    return out


def _find(tensor):
    storage = tensor.untyped_storage()
    held = _held.get(storage._cdata)
    if held is None or held.alive.expired() or held.value.numel() != storage.nbytes() // tensor.element_size():
        return storage, None
    return storage, held


def _whole(tensor, storage):
    """All floats of the storage, in one dimension."""
    return torch.as_strided(tensor.detach(), (storage.nbytes() // tensor.element_size(),), (1,), 0)


def _hold(tensor):
    """The stored values of a tensor's storage; without any, from its floats."""
    storage, held = _find(tensor)
    if held is None:
        held = _held[storage._cdata] = Held(storage, of_content(_whole(tensor, storage)))
        _sweep(held.value.nbytes)
    return held


def _view(of, tensor):
    return torch.as_strided(of, tensor.shape, tensor.stride(), tensor.storage_offset())


def get(tensor):
    """The value of a tensor, of floats or of integers, or of a number."""
    if not isinstance(tensor, torch.Tensor):
        return getattr(tensor, "value", None) or field.rational(tensor)
    if not tensor.is_floating_point():
        return field.narrow(tensor.detach().long())
    if tensor.numel() == 0:
        return torch.zeros(tensor.shape, dtype=field.TYPE)
    return _view(_hold(tensor).value, tensor)


def full(tensor):
    """A Value, with its ratio."""
    if not is_float(tensor) or tensor.numel() == 0:
        return Value(get(tensor))
    held = _hold(tensor)
    ratio = None if held.ratio is None else _view(held.ratio, tensor)
    return Value(_view(held.value, tensor), ratio, held.peak)


def known(tensor):
    """Whether a value is stored for the tensor."""
    return is_float(tensor) and _find(tensor)[1] is not None


def opaque(tensor):
    """The operation without a rule that the tensor depends on; None: none."""
    if not is_float(tensor) or tensor.numel() == 0:
        return None
    held = _find(tensor)[1]
    return None if held is None else held.opaque


def power(tensor):
    """Whether a tensor is or holds exponentials: flags of powers.py."""
    held = _find(tensor)[1] if is_float(tensor) and tensor.numel() else None
    return 0 if held is None else held.power


def put(tensor, given, why_opaque=None, power=0):
    """Stores a tensor's value: a Value, a tensor of the field that broadcasts to it, or an int. power: flags of
    powers.py."""
    if not is_float(tensor) or tensor.numel() == 0:
        return
    given = given if isinstance(given, Value) else Value(given)
    storage, held = _find(tensor)
    count = storage.nbytes() // tensor.element_size()
    whole = count == tensor.numel()
    if held is None:
        fresh = torch.empty(count, dtype=field.TYPE) if whole else of_content(_whole(tensor, storage))
        held = _held[storage._cdata] = Held(storage, fresh)
        _sweep(fresh.nbytes)
    value = torch.as_tensor(given.of(tensor), dtype=field.TYPE)
    value = value.reshape(tensor.shape) if value.numel() == tensor.numel() else value.expand(tensor.shape)
    _view(held.value, tensor).copy_(value)
    if given.ratio is not None and held.ratio is None:
        held.ratio = torch.ones(count, dtype=field.TYPE)
    if held.ratio is not None:
        if given.ratio is None and whole:
            held.ratio = None
        else:
            ratio = torch.as_tensor(1 if given.ratio is None else given.ratio, dtype=field.TYPE)
            ratio = ratio.reshape(tensor.shape) if ratio.numel() == tensor.numel() else ratio.expand(tensor.shape)
            _view(held.ratio, tensor).copy_(ratio)
    held.peak = given.peak if whole else held.peak or given.peak
    held.opaque = why_opaque if whole or why_opaque is not None else held.opaque
    held.power = power if whole else held.power | power


def draw(name, tensor):
    """Gives a trained parameter whose elements all equal one constant a random value: zeros and ones hide defects."""
    local = tensor.to_local() if hasattr(tensor, "to_local") else tensor
    if not is_float(local) or local.numel() == 0:
        return
    value = get(local)
    first = value.flatten()[0]
    if bool((value == first).all()) and int(first) in (0, 1):
        put(local.detach(), field.add(field.function(f"parameter {name}", first), 0).expand(value.shape))
