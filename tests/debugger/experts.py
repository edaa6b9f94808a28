"""A mixture of experts that FSDP2 shards: an expert without tokens is skipped, and its parameters are not gathered."""
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard


class Mixture(nn.Module):
    def __init__(self, width, experts):
        super().__init__()
        self.gate = nn.Linear(width, experts, bias=False)
        self.experts = nn.ModuleList(nn.Linear(width, width) for _ in range(experts))

    def forward(self, x):
        weights, chosen = torch.softmax(self.gate(x), -1).max(-1)
        out = torch.zeros_like(x)
        for i, expert in enumerate(self.experts):
            where = (chosen == i).nonzero().squeeze(-1)
            if where.numel() == 0:
                continue
            out = out.index_add(0, where, expert(x[where]) * weights[where, None])
        return out


dist.init_process_group("gloo")
mesh = init_device_mesh("cpu", (dist.get_world_size(),))
torch.manual_seed(0)
model = Mixture(16, 8)
for part in model.experts:
    fully_shard(part, mesh=mesh)
fully_shard(model, mesh=mesh)
torch.manual_seed(100 + dist.get_rank())
model(torch.randn(12, 16)).sum().backward()
