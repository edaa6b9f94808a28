"""How TorchRec's embedding tables are held as DTensors: one table cut evenly by rows, one unevenly, and a table on
each rank. Each rank wraps what it holds; the DTensor knows the whole.

    lockstep exec -n 4 -- python3 examples/python/dtensor_tables.py row-wise-even
"""

import sys

import torch
import torch.distributed as dist
from torch.distributed.checkpoint.metadata import ChunkStorageMetadata
from torch.distributed.tensor import DeviceMesh, DTensor, Replicate, Shard, init_device_mesh
from torch.distributed.tensor.debug import visualize_sharding

ROWS, COLUMNS = 8, 16


class LocalShards(torch.Tensor):
    """The shards of one table that this rank holds, side by side, as one tensor."""

    @staticmethod
    def __new__(cls, shards, offsets):
        whole = torch.Size([shards[0].shape[0], sum(shard.shape[1] for shard in shards)])
        made = torch.Tensor._make_wrapper_subclass(cls, whole)
        made.shards = shards
        made.chunks = [ChunkStorageMetadata(offset, shard.shape) for shard, offset in zip(shards, offsets)]
        return made

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        if func not in (torch.ops.aten.view.default, torch.ops.aten._to_copy.default):
            raise NotImplementedError(f"{func} of local shards")
        own = args[0]
        return cls([func(shard, *args[1:], **(kwargs or {})) for shard in own.shards],
                   [chunk.offsets for chunk in own.chunks])


def check(dtensor, local, offset):
    """The table is whole on every rank, and what this rank put in comes out."""
    assert dtensor.shape == torch.Size([ROWS, COLUMNS]) and dtensor.stride() == (COLUMNS, 1)
    held = dtensor.to_local()
    if local.numel() == 0:
        assert held.numel() == 0
        return
    assert isinstance(held, LocalShards) and torch.equal(held.shards[0], local)
    assert held.chunks[0].sizes == local.shape and held.chunks[0].offsets == offset


def row_wise(rank, mesh, rows, first):
    local = torch.randn(rows, COLUMNS)
    offset = torch.Size([first, 0])
    # Sizes of uneven shards do not follow from the whole: shape and stride are said.
    dtensor = DTensor.from_local(LocalShards([local], [offset]), mesh, [Shard(0)], run_check=False,
                                 shape=torch.Size([ROWS, COLUMNS]), stride=(COLUMNS, 1))
    visualize_sharding(dtensor)
    check(dtensor, local, offset)
    sizes = [None] * dist.get_world_size()
    dist.all_gather_object(sizes, rows)
    if rank == 0:
        print("rows of each rank:", sizes)
    assert sum(sizes) == ROWS


def row_wise_even(rank, world):
    rows = ROWS // world
    row_wise(rank, init_device_mesh("cpu", (world,)), rows, rank * rows)


def row_wise_uneven(rank, world):
    pair = ROWS // (world // 2)  # of two ranks: one row, and the others
    row_wise(rank, init_device_mesh("cpu", (world,)), pair - 1 if rank % 2 else 1, rank // 2 * pair + rank % 2)


def table_wise(rank, world):
    init_device_mesh("cpu", (world,))
    for table in range(world):
        mine = table == rank
        local = torch.randn(ROWS, COLUMNS) if mine else torch.empty(0)
        held = LocalShards([local], [torch.Size([0, 0])]) if mine else local
        dtensor = DTensor.from_local(held, DeviceMesh("cpu", torch.tensor([table])), [Replicate()], run_check=False,
                                     shape=torch.Size([ROWS, COLUMNS]), stride=(COLUMNS, 1))
        if mine:
            print(f"table {table}")
        visualize_sharding(dtensor)
        check(dtensor, local, torch.Size([0, 0]))
        dist.barrier()


if __name__ == "__main__":
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    {"row-wise-even": row_wise_even, "row-wise-uneven": row_wise_uneven,
     "table-wise": table_wise}[sys.argv[1]](dist.get_rank(), dist.get_world_size())
    dist.destroy_process_group()
