"""Tests with a defect each; plugin.py has the text that must be reported."""
import ctypes
import os

import pytest
import torch
import torch.distributed as dist

pytestmark = pytest.mark.ranks(3)
ONE, TWO = 1, 2


def test_op(world):
    op = dist.ReduceOp.MAX if dist.get_rank() == TWO else dist.ReduceOp.SUM
    dist.all_reduce(torch.ones(4), op=op)


def test_hang(world):
    if dist.get_rank() == ONE:
        dist.recv(torch.ones(1), 0)
    dist.barrier()


def test_raises(world):
    print("rank", dist.get_rank(), "prints")
    if dist.get_rank() == ONE:
        raise ValueError("no such table")
    dist.barrier()


def test_asserts(world):
    assert dist.get_rank() < 1


def test_exits(world):
    if dist.get_rank() == ONE:
        os._exit(3)
    dist.barrier()


def test_exits_alone():
    if os.environ["RANK"] == "1":
        os._exit(3)


def test_exits_quietly():
    if os.environ["RANK"] == "1":
        os._exit(0)


def test_crashes(world):
    if dist.get_rank() == ONE:
        ctypes.string_at(0)
    dist.barrier()


def test_skips(world):
    if dist.get_rank() == ONE:
        pytest.skip("not here")


@pytest.fixture
def broken(world):
    if dist.get_rank() == ONE:
        raise OSError("no file")
    dist.barrier()


def test_fixture(broken):
    pass
