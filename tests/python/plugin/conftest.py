import pytest
import torch.distributed as dist


@pytest.fixture
def world():
    dist.init_process_group("gloo")
    yield dist.group.WORLD
    dist.destroy_process_group()
