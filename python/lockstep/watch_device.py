"""Digests of tensors in GPU memory: the GPU computes them, and only a few bytes of each are copied to the host."""

import ctypes
import math
import os

import torch

SAMPLES = 8  # LS_WIRE_SAMPLES (exec/wire.h)
PIECE = 1 << 22  # elements in one read: limits the memory of a digest
NORMED = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
_WORDS = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
_FACTOR, _MIX = -7046029254386353131, 6364136223846793005  # odd
_factors, _places = {}, {}  # of a device; of a number of elements on a device


def takes(tensor):
    """Whether the tensor is compared by its digest."""
    return tensor.is_cuda or "LOCKSTEP_WATCH_DIGESTS" in os.environ


def _factors_of(device):
    if device not in _factors:
        _factors[device] = torch.arange(1, PIECE + 1, device=device).mul_(_FACTOR).bitwise_or_(1)
    return _factors[device]


def _places_of(count, device):
    """The elements that a record contains."""
    if (count, device) not in _places:
        places = torch.arange(SAMPLES, device=device)
        _places[count, device] = places * (count - 1) // (SAMPLES - 1) if count > SAMPLES else places % count
    return _places[count, device]


def _sum(words):
    """The sum of the elements modulo 2^64, each times an odd factor of its index: changing a single element always changes it."""
    factors = _factors_of(words.device)
    sums = [(piece.to(torch.int64) * factors[:piece.numel()]).sum() for piece in words.split(PIECE)] if words.numel() > PIECE else \
        [(words.to(torch.int64) * factors[:words.numel()]).sum()]
    total = sums[0]
    for one in sums[1:]:
        total = total * _MIX + one
    return total


def digests(tensors):
    """Digests of tensors on one device: for each the bytes that an item with `digested` takes, in memory that the caller owns. The host
    waits for the GPU once for each element size.
    """
    made, by_size = [None] * len(tensors), {}
    for at, tensor in enumerate(tensors):
        words = torch.view_as_real(tensor) if tensor.is_complex() else tensor
        words = words.contiguous().reshape(-1).view(_WORDS[words.element_size()])
        if words.numel():
            by_size.setdefault(words.element_size(), []).append((at, words))
        else:
            made[at] = ctypes.create_string_buffer(8 + 16 * SAMPLES)
    for size, of in by_size.items():
        samples = torch.stack([words[_places_of(words.numel(), words.device)] for _, words in of]).to(torch.int64)
        rows = torch.cat([torch.stack([_sum(words) for _, words in of]).unsqueeze(1), samples], dim=1).tolist()
        mask = (1 << 8 * size) - 1
        for (at, _), row in zip(of, rows):
            made[at] = ctypes.create_string_buffer(row[0].to_bytes(8, "little", signed=True) + b"".join(
                (word & mask).to_bytes(size, "little") for word in row[1:]))
    return made


def fill(items, tensors):
    """Fills in the digests of the items with `digested`. Returns memory that must outlive the items."""
    places, kept = {}, []
    for item, tensor in zip(items, tensors):
        if item.digested:
            places.setdefault(tensor.device, []).append((item, tensor))
    for of in places.values():
        for (item, _), data in zip(of, digests([tensor for _, tensor in of])):
            kept.append(data)
            item.data = ctypes.cast(data, ctypes.c_void_p).value
    return kept


def not_finite(tensors):
    """The first of these tensors that may have a NaN or an infinity, by its norm; None: none has. Waits for each device once."""
    alike = {}
    for at, tensor in enumerate(tensors):
        alike.setdefault((tensor.device, tensor.dtype), []).append((at, tensor.detach()))
    norms = {}
    for (device, _), of in alike.items():
        found = torch._foreach_norm([tensor for _, tensor in of]) if of[0][1].dtype in NORMED else [tensor.sum() for _, tensor in of]
        norms.setdefault(device, []).extend((at, norm.float()) for (at, _), norm in zip(of, found))
    bad = [at for of in norms.values() for (at, _), norm in zip(of, torch.stack([norm for _, norm in of]).tolist())
           if not math.isfinite(norm)]
    return min(bad, default=None)
