"""Tests on several ranks, each in a process of its own: pip install lockstep, then pytest test_ranks.py"""
import pytest

torch = pytest.importorskip("torch")
import torch.distributed as dist  # noqa: E402


@pytest.fixture(autouse=True)
def world():
    dist.init_process_group("gloo")
    yield
    dist.destroy_process_group()


@pytest.mark.ranks(4)
def test_gradients_are_averaged():
    gradients = torch.full((8,), float(dist.get_rank()))
    dist.all_reduce(gradients)
    assert gradients.sum() == 8 * 6


@pytest.mark.ranks(2, 3)
def test_rows_are_gathered(ranks):
    rows = [torch.zeros(2) for _ in range(ranks)]
    dist.all_gather(rows, torch.full((2,), float(dist.get_rank())))
    assert [int(row[0]) for row in rows] == list(range(ranks))
