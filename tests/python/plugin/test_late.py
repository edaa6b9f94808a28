"""Tests that import torch themselves: the session has not."""
import pytest


@pytest.mark.ranks(2)
def test_late():
    import torch
    import torch.distributed as dist

    dist.init_process_group("gloo")
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model(torch.ones(2, 4)).sum().backward()
    optimizer.step()
    dist.destroy_process_group()


@pytest.mark.ranks(2)
def test_late_count():
    import torch
    import torch.distributed as dist

    dist.init_process_group("gloo")
    dist.all_reduce(torch.ones(4 + dist.get_rank()))
    dist.destroy_process_group()
