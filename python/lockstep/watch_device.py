"""Tensors in a GPU's memory, as their digests: the GPU reads them, and a few bytes of each come to the host at once."""

import ctypes
import os

import torch

SAMPLES = 8  # LS_WIRE_SAMPLES (exec/wire.h)
PIECE = 1 << 22  # elements that are read at once: the memory that a digest needs
_WORDS = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
_FACTOR, _MIX = -7046029254386353131, 6364136223846793005  # odd
_factors = {}  # of a device


def takes(tensor):
    """Whether the tensor is compared by its digest."""
    return tensor.is_cuda or "LOCKSTEP_WATCH_DIGESTS" in os.environ


def _factors_of(device):
    if device not in _factors:
        _factors[device] = torch.arange(1, PIECE + 1, device=device).mul_(_FACTOR).bitwise_or_(1)
    return _factors[device]


def _row(tensor):
    """The digest of all elements, then those of them that a note has. Modulo 2^64: a sum of the elements, each times an odd
    number of its place, so that no other value in one place gives the same."""
    words = torch.view_as_real(tensor) if tensor.is_complex() else tensor
    words = words.contiguous().reshape(-1).view(_WORDS[words.element_size()])
    digest = torch.zeros((), dtype=torch.int64, device=words.device)
    for piece in words.split(PIECE):
        digest = digest * _MIX + (piece.to(torch.int64) * _factors_of(words.device)[:piece.numel()]).sum()
    if not words.numel():
        return digest.expand(SAMPLES + 1)
    places, last = torch.arange(SAMPLES, device=words.device), words.numel() - 1
    places = places * last // (SAMPLES - 1) if words.numel() > SAMPLES else places % words.numel()
    return torch.cat([digest.view(1), words[places].to(torch.int64)])


def digests(tensors):
    """Of tensors on one device: for each the bytes that an item with `digested` takes, in memory that the caller keeps."""
    made = []
    for tensor, row in zip(tensors, torch.stack([_row(tensor) for tensor in tensors]).tolist() if tensors else []):
        size = tensor.element_size() // (2 if tensor.is_complex() else 1)
        mask = (1 << 8 * size) - 1
        made.append(ctypes.create_string_buffer(row[0].to_bytes(8, "little", signed=True) + b"".join(
            (word & mask).to_bytes(size, "little") for word in row[1:])))
    return made


def not_finite(tensors):
    """The first of these tensors whose sum is NaN or infinite; None: none. Reads each device once."""
    finite = {}
    for at, tensor in enumerate(tensors):
        finite.setdefault(tensor.device, []).append((at, torch.isfinite(tensor.detach().sum())))
    bad = [at for of in finite.values()
           for (at, _), is_finite in zip(of, torch.stack([one for _, one in of]).tolist()) if not is_finite]
    return min(bad, default=None)
