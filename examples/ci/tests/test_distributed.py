"""A test of a job on several ranks: lockstep exec -n 2 -- python3 -m pytest tests"""
import pytest

torch = pytest.importorskip("torch")
import torch.distributed as dist  # noqa: E402


@pytest.fixture(scope="session", autouse=True)
def world():
    dist.init_process_group("gloo")
    yield
    dist.destroy_process_group()


def test_gradients_are_averaged():
    gradients = torch.full((8,), float(dist.get_rank()))
    dist.all_reduce(gradients)
    assert gradients.sum() == 8 * sum(range(dist.get_world_size()))
