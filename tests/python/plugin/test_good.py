"""Tests that pass on each of their ranks, between tests without ranks."""
import os
import sys
import unittest

import pytest
import torch
import torch.distributed as dist


@pytest.fixture(scope="module")
def module_process():
    yield os.getpid()


def test_before(module_process):
    assert "RANK" not in os.environ and module_process == os.getpid()
    torch.ones(300, 300) @ torch.ones(300, 300)  # its threads are none of a forked rank's


@pytest.mark.ranks(4)
def test_four(world, module_process, tmp_path):
    assert module_process == os.getpid() and os.environ["LOCAL_RANK"] == os.environ["RANK"]
    print("rank", dist.get_rank(), "prints")
    (tmp_path / "own").touch()
    assert len(list(tmp_path.iterdir())) == 1
    values = torch.ones(300, 300) @ torch.ones(300, 300)
    dist.all_reduce(values)
    assert values.eq(1200).all()


def test_default(ranks, world):
    assert ranks == dist.get_world_size() == 2


@pytest.mark.ranks(2, 3)
def test_sizes(ranks, world):
    assert ranks == dist.get_world_size()


@pytest.mark.ranks(1, 3)
@pytest.mark.parametrize("root", [0, -1])
def test_roots(world, root):
    value = torch.tensor([dist.get_rank()])
    root %= dist.get_world_size()
    dist.broadcast(value, root)
    assert value.item() == root


@pytest.mark.ranks(2)
def test_seeds(world):
    draws = [None, None]
    dist.all_gather_object(draws, torch.rand(1).item())
    assert draws[0] != draws[1]


@pytest.mark.ranks(2)
def test_output(capsys, world):
    print("hidden")
    assert capsys.readouterr().out == "hidden\n"


class TestCase(unittest.TestCase):
    @pytest.mark.ranks(2)
    def test_unittest(self):
        dist.init_process_group("gloo")
        dist.barrier()
        dist.destroy_process_group()


@pytest.mark.ranks(2)
def test_skipped():
    pytest.skip("on all ranks")


@pytest.mark.ranks(2)
@pytest.mark.xfail(reason="known")
def test_xfail(world):
    assert dist.get_rank() == 2


@pytest.mark.ranks(2)
def test_no_calls():
    assert "torch.distributed.fsdp" in sys.modules  # lockstep watches it: imported once, before the forks


@pytest.fixture
def other():
    return "mine"


@pytest.mark.parametrize("ranks", [5])
def test_other_meaning(ranks, other):
    assert ranks == 5 and "RANK" not in os.environ


def test_after(module_process):
    assert module_process == os.getpid()
