"""python -m lockstep.checkpoint DIR OUT: converts a checkpoint of torch.distributed.checkpoint for `lockstep diff`.

Each part of a tensor stays with the rank that wrote it, at its offset in the whole. Other entries become tensors, too: numbers as such,
texts as their bytes. An entry that cannot be read safely is listed as not compared.
"""

import io
import json
import os
import re
import sys

import torch
from torch.distributed import checkpoint
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.metadata import TensorStorageMetadata
from torch.distributed.checkpoint.state_dict_loader import _load_state_dict

from lockstep import capturing, tensor_files

TEXTS = (str, bytes, bytearray, type(None), int, complex, torch.dtype, torch.device, torch.Size)  # the text has the whole value


class _Planner(checkpoint.DefaultLoadPlanner):
    """Returns the bytes of an entry that is not a tensor. The default planner unpickles them, which can run code."""

    def load_bytes(self, read_item, value):
        self.state_dict[read_item.dest_index.fqn] = value.getvalue()


def _read(reader, metadata):
    """Each entry by its name: a whole tensor, or the bytes of another value."""
    state = {name: torch.empty(about.size, dtype=about.properties.dtype) if isinstance(about, TensorStorageMetadata) else io.BytesIO()
             for name, about in metadata.state_dict_metadata.items()}
    _load_state_dict(state, storage_reader=reader, planner=_Planner(flatten_state_dict=False, flatten_sharded_tensors=False), no_dist=True)
    return state


def _writer(metadata, name, offsets):
    """The rank that wrote a part, from its file's name; rank 0 if the name has none."""
    for index, info in metadata.storage_data.items():
        if index.fqn == name and tuple(index.offset or [0] * len(offsets)) == tuple(offsets):
            written = re.match(r"__(\d+)_", info.relative_path)
            return int(written.group(1)) if written else 0
    raise ValueError(f"{name}: no file contains its part at {list(offsets)}")


def _parts(metadata, name, whole):
    """(rank, offsets, part) of a tensor. If a rank wrote several parts, one rank gets the whole."""
    chunks = metadata.state_dict_metadata[name].chunks
    places = [tuple(slice(o, o + s) for o, s in zip(chunk.offsets, chunk.sizes)) for chunk in chunks]
    ranks = [_writer(metadata, name, chunk.offsets) for chunk in chunks]
    if len(set(ranks)) == len(ranks):
        return [(rank, list(chunk.offsets), whole[place]) for rank, chunk, place in zip(ranks, chunks, places)]
    covered = torch.zeros(whole.shape, dtype=torch.bool)
    for place in places:
        covered[place] = True
    if not covered.all():
        raise ValueError(f"{name}: its parts cover {int(covered.sum())} of its {whole.numel()} elements")
    return [(min(ranks), [0] * whole.dim(), whole)]


def _leaves(name, value):
    """(name, type, shape and bytes) of the tensors that represent a value; each item of a list or a dictionary has its own."""
    items = value if isinstance(value, (list, tuple)) and not isinstance(value, torch.Size) else [value]
    kinds = {type(item) for item in items}
    if isinstance(value, torch.Tensor):
        yield name, capturing.raw(value)
    elif kinds in ({bool}, {float}) or kinds == {int} and all(-2**63 <= item < 2**63 for item in items):
        types = {bool: torch.bool, float: torch.float64, int: torch.int64}
        yield name, capturing.raw(torch.tensor(value, dtype=types[kinds.pop()]))
    elif type(value) in TEXTS:
        data = repr(value).encode()
        yield name, ("U8", [len(data)], data)
    elif isinstance(value, (list, tuple, dict)):
        yield f"{name} length", capturing.raw(torch.tensor(len(value)))
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _leaves(f"{name}.{key}", item)
    else:
        raise TypeError(f"lockstep compares no values of type {type(value).__name__}")


def _value(name, data):
    """The tensors that represent an entry that is not a tensor, and the reason why it is not compared, or None."""
    try:
        value = torch.load(io.BytesIO(data), weights_only=True, map_location="cpu")
    except Exception:  # pylint: disable=broad-exception-caught
        return [], "torch.load(weights_only=True) refuses its pickled objects"
    try:
        return list(_leaves(name, value)), None
    except Exception as why:  # pylint: disable=broad-exception-caught
        return [], str(why)


def _entries(reader):
    """(rank, name, shape of the whole, offsets, raw part) of each entry, or (None, name, the reason why it is not compared)."""
    metadata = reader.read_metadata()
    for name, value in _read(reader, metadata).items():
        if isinstance(value, torch.Tensor):
            for rank, offsets, part in _parts(metadata, name, value):
                raw = capturing.raw(part)
                yield rank, name, [*value.shape, *raw[1][value.dim():]], [*offsets, *[0] * (len(raw[1]) - value.dim())], raw
            continue
        leaves, why = _value(name, value)
        for leaf, raw in leaves:
            yield _writer(metadata, name, []), leaf, raw[1], [0] * len(raw[1]), raw
        if why is not None:
            yield None, name, why


def convert(folder, out):
    tensors, indices, not_kept, types = {}, {}, [], "safetensors has no type for it"
    for rank, name, *about in _entries(checkpoint.FileSystemReader(folder)):
        several = rank is not None and name in tensors.get(rank, {})
        if rank is None or several or about[-1][0] is None:
            why = about[0] if rank is None else "several have this name" if several else types
            not_kept.append({"name": name, "why": why})
            continue
        shape, offset, raw = about
        tensors.setdefault(rank, {})[name] = raw
        indices.setdefault(rank, []).append({"name": name, "shape": shape, "offset": offset})
    os.makedirs(out)
    ranks = max(tensors, default=0) + 1
    for rank in range(ranks):
        path = os.path.join(out, f"rank_{rank:05}.")
        tensor_files.write_raw(path + "safetensors", tensors.get(rank, {}))
        with open(path + "json", "w", encoding="utf-8") as file:
            json.dump({"format": 1, "rank": rank, "ranks": ranks, "tensors": indices.get(rank, []),
                       "not_kept": not_kept if rank == 0 else []}, file, indent=1)


def main(words):
    if len(words) != 3:
        sys.exit("usage: python -m lockstep.checkpoint DIR OUT")
    try:
        convert(*words[1:])
    except CheckpointException as failed:
        sys.exit(f"'{words[1]}' cannot be read: {'; '.join(str(why) for why, _ in failed.failures.values())}")
    except (OSError, ValueError) as why:
        sys.exit(f"'{words[1]}' cannot be written to '{words[2]}': {why}")


if __name__ == "__main__":
    main(sys.argv)
