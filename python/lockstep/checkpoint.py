"""python -m lockstep.checkpoint DIR OUT: a checkpoint of torch.distributed.checkpoint as `lockstep diff` reads it.

Each part of a tensor stays with the rank that wrote it, at its place in the whole.
"""

import json
import os
import re
import sys

import torch
from torch.distributed import checkpoint
from torch.distributed.checkpoint.metadata import TensorStorageMetadata
from torch.distributed.checkpoint.state_dict_loader import _load_state_dict

from lockstep import capturing, tensor_files


def _whole(reader, metadata):
    state = {name: torch.empty(about.size, dtype=about.properties.dtype)
             for name, about in metadata.state_dict_metadata.items() if isinstance(about, TensorStorageMetadata)}
    _load_state_dict(state, storage_reader=reader, planner=checkpoint.DefaultLoadPlanner(), no_dist=True)
    return state


def _writer(metadata, name, chunk):
    """The rank that wrote a part, by its file's name."""
    for index, info in metadata.storage_data.items():
        offset = index.offset if index.offset is not None else torch.Size([0] * len(chunk.sizes))
        if index.fqn == name and tuple(offset) == tuple(chunk.offsets):
            return int(re.match(r"__(\d+)_", info.relative_path).group(1))
    raise ValueError(f"{name}: no file has its part at {list(chunk.offsets)}")


def convert(folder, out):
    reader = checkpoint.FileSystemReader(folder)
    metadata = reader.read_metadata()
    tensors, indices = {}, {}
    for name, whole in _whole(reader, metadata).items():
        about = metadata.state_dict_metadata[name]
        for chunk in about.chunks:
            rank = _writer(metadata, name, chunk)
            part = whole[tuple(slice(o, o + s) for o, s in zip(chunk.offsets, chunk.sizes))]
            if name in tensors.setdefault(rank, {}):
                raise ValueError(f"{name}: rank {rank} wrote several parts")
            tensors[rank][name] = capturing.raw(part)
            indices.setdefault(rank, []).append({"name": name, "shape": list(about.size), "offset": list(chunk.offsets)})
    ranks = max(tensors, default=0) + 1
    os.makedirs(out)
    for rank in range(ranks):
        path = os.path.join(out, f"rank_{rank:05}.")
        tensor_files.write_raw(path + "safetensors", tensors.get(rank, {}))
        with open(path + "json", "w", encoding="utf-8") as file:
            json.dump({"format": 1, "rank": rank, "ranks": ranks, "tensors": indices.get(rank, [])}, file, indent=1)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("usage: python -m lockstep.checkpoint DIR OUT")
    convert(*sys.argv[1:])
