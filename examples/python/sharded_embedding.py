"""A lookup in a table that is cut by rows or by columns, written with DTensor, beside the one in the whole table.

    lockstep exec -n 4 -- python3 examples/python/sharded_embedding.py
"""

import torch
import torch.distributed as dist
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor, init_device_mesh

IDS = torch.tensor([[6, 5, 2, 9, 6, 3], [3, 1, 2, 4, 7, 6], [4, 0, 4, 9, 8, 9], [8, 6, 6, 4, 6, 1]])


def lookup(mesh, rows, columns, cut):
    weight = torch.arange(rows * columns, dtype=torch.float32).reshape(rows, columns) / 8
    table = distribute_tensor(weight, mesh, [Shard(cut)]).requires_grad_()
    # Each rank brings its own ids: as many, with its number added.
    ids = DTensor.from_local((IDS + dist.get_rank()) % 10, mesh, [Shard(0)])
    out = torch.nn.functional.embedding(ids.redistribute(placements=[Replicate()]), table)
    out = out.redistribute(placements=[Shard(0)])
    out.pow(2).sum().backward()

    whole = weight.clone().requires_grad_()
    expected = torch.nn.functional.embedding(ids.full_tensor(), whole)
    expected.pow(2).sum().backward()
    assert torch.equal(out.full_tensor(), expected)
    torch.testing.assert_close(table.grad.full_tensor(), whole.grad)
    return table.to_local().shape, out.to_local().shape


def main():
    dist.init_process_group("gloo")
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    for name, rows, columns, cut in (("row", 10, 17, 0), ("column", 16, 17, 1)):
        shapes = [None] * dist.get_world_size()
        dist.all_gather_object(shapes, tuple(map(tuple, lookup(mesh, rows, columns, cut))))
        if dist.get_rank() == 0:
            print(f"{name}-wise {rows} x {columns}: shards", ", ".join(f"{a} x {b}" for (a, b), _ in shapes),
                  "output of each rank", " x ".join(map(str, shapes[0][1])))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
