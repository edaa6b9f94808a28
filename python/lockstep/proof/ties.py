"""Comparisons that rounding decides: two floats are nearly equal, and their values in the field differ.

Another summation order may reverse the comparison, so that a correct program takes another path.
"""

import collections

import torch

from lockstep.proof import field
from lockstep.proof.shadows import get, is_float

NEAR = 8  # roundings of the largest magnitude
COUNT, WHERE = collections.Counter(), {}  # by operator: comparisons, and the first place


def _pairs(a, b, value, other, scale):
    """The number of elements of a and b that are nearly equal and have different values."""
    near = (a - b).abs() <= NEAR * torch.finfo(a.dtype).eps * scale
    return int((near & (value != other)).sum()) if bool(near.any()) else 0


def _scale(a):
    """The largest finite magnitude."""
    return torch.where(a.isfinite(), a.abs(), 0).max() if a.numel() else 0


def _with(bounds):
    """For an operator that compares its first argument with others."""
    def check(out, a, *rest, **options):
        total = 0
        for b in bounds(*rest, **options):
            if is_float(b) or isinstance(b, (int, float)):
                total += _pairs(a, b, get(a), get(b), max(_scale(a), _scale(b) if isinstance(b, torch.Tensor) else abs(b)))
        return total
    return check


def _dim(rest, dim):
    return next((x for x in rest if isinstance(x, int) and not isinstance(x, bool)), dim)


def _steps(a, dim, first, count):
    """Neighbours in descending order, from index `first` on."""
    floats, at = a.sort(dim, descending=True)
    values = get(a).gather(dim, at)
    return _pairs(floats.narrow(dim, first, count), floats.narrow(dim, first + 1, count), values.narrow(dim, first, count),
                  values.narrow(dim, first + 1, count), _scale(a))


def _sorted(out, a, *rest, dim=-1, **_):
    dim = _dim(rest, dim)
    return _steps(a, dim, 0, a.shape[dim] - 1) if a.dim() and a.shape[dim] > 1 else 0


def _chosen(out, a, k, dim=-1, largest=True, *_):
    """The last element that topk takes and the first that it leaves."""
    count = a.shape[dim] if a.dim() else k
    return _steps(a, dim, k - 1 if largest else count - k - 1, 1) if 0 < k < count else 0


def _one(is_largest):
    """For operators that return an index: the two largest."""
    def check(out, a, *rest, dim=-1, **_):
        dim = _dim(rest, dim)
        is_place = isinstance(out, tuple) or out.dtype is torch.long
        if not is_place or a.dim() == 0 or a.shape[dim] < 2 or (not isinstance(out, tuple) and out.dim() < a.dim() - 1):
            return 0
        return _steps(a, dim, 0 if is_largest else a.shape[dim] - 2, 1)
    return check


_two = _with(lambda b, *_, **__: [b])
_zero = _with(lambda *_, **__: [0.0])
_bounds = _with(lambda low=None, high=None, *_, min=None, max=None, **__: [low, high, min, max])
CHECKS = {**dict.fromkeys(("relu", "leaky_relu"), _zero), **dict.fromkeys(("clamp", "hardtanh", "clamp_min", "clamp_max"), _bounds),
          **dict.fromkeys(("threshold", "gt", "lt", "ge", "le", "maximum", "minimum", "fmax", "fmin"), _two),
          **dict.fromkeys(("sort", "argsort"), _sorted), **dict.fromkeys(("max", "argmax"), _one(True)),
          **dict.fromkeys(("min", "argmin"), _one(False)), "topk": _chosen}


def look(name, place, out, args, options):
    """Counts the result's comparisons that rounding decides."""
    try:
        count = CHECKS[name](out, *args, **options)
    except (RuntimeError, TypeError, IndexError):  # forms without two floats to compare
        return
    if count:
        COUNT[name] += count
        WHERE.setdefault(name, place())


def listed():
    return ", ".join(f"{name} {count} times (first at {WHERE[name]})" for name, count in COUNT.most_common())
