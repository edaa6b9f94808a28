"""Two steps of a small model, captured: program.py WAY FOLDER [CHECKPOINT]. On one rank `whole`; on several a correct way or one with a
mistake.
"""
import contextlib
import os
import sys

import torch
import torch.distributed as dist
from torch import nn

import lockstep

WAY, FOLDER = sys.argv[1:3]
RANKS, RANK = int(os.environ.get("WORLD_SIZE", 1)), int(os.environ.get("RANK", 0))
torch.set_num_threads(1)
if RANKS > 1:
    dist.init_process_group("gloo")


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.table, self.wide = nn.Embedding(20, 12), nn.Linear(36, 32)
        self.norm, self.narrow = nn.LayerNorm(36), nn.Linear(32, 5)

    def forward(self, ids):
        return self.narrow(torch.relu(self.wide(self.norm(self.table(ids).flatten(1)))))


def parallel(model):
    if WAY.startswith("ddp"):
        return nn.parallel.DistributedDataParallel(model)
    if WAY == "fsdp":
        from torch.distributed.fsdp import fully_shard

        for part in model.children():
            fully_shard(part)
        return fully_shard(model)
    if WAY.startswith("tp"):
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

        return parallelize_module(model, init_device_mesh("cpu", (RANKS,)),
                                  {"wide": ColwiseParallel(), "narrow": RowwiseParallel()})
    return model


def main():
    torch.manual_seed(0)
    model = parallel(Model())
    made = torch.Generator().manual_seed(1)
    ids, targets = torch.randint(0, 20, (12, 3), generator=made), torch.randint(0, 5, (12,), generator=made)
    cut = [0, 12] if WAY in ("whole",) or WAY.startswith("tp") else [12 * r // RANKS for r in range(RANKS + 1)]
    if WAY == "ddp_uneven":
        cut[1] -= 1
    at = min(RANK, len(cut) - 2)
    ids, targets = ids[cut[at]:cut[at + 1]], targets[cut[at]:cut[at + 1]]
    dividing = RANKS if WAY == "tp_scaled" else 1  # as if ranks that share a loss each divided it
    with lockstep.capture(model, FOLDER):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(2):
            with model.no_sync() if WAY == "ddp_unsynced" else contextlib.nullcontext():
                (nn.functional.cross_entropy(model(ids), targets) / dividing).backward()
            optimizer.step()
            optimizer.zero_grad()
    if len(sys.argv) > 3:
        from torch.distributed import checkpoint

        checkpoint.save(model.state_dict(), checkpoint_id=sys.argv[3])


main()
if RANKS > 1:
    dist.destroy_process_group()
