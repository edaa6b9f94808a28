"""Rank 0 validates the model of DDP, which broadcasts the buffers of its batch norm; the other ranks wait in a barrier."""
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


def validate(model, x):
    model.eval()
    return model(x).mean().item()


dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(0)
model = DistributedDataParallel(nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4)))
for step in range(2):
    x = torch.randn(8, 4)
    model(x).sum().backward()
    if rank == 0:
        score = validate(model, x)
    dist.barrier()
