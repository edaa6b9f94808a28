"""The arguments of calls: which are refused, which share memory or have gaps. A part of units.py."""
import sys
import types

import torch

from lockstep import torch_arguments, torch_backend, torch_client


def refused(call, *arguments):
    try:
        call(*arguments)
    except RuntimeError as error:
        return str(error)
    raise AssertionError(f"{call.__name__}{arguments} was not refused")


def splits():
    """The splits of an all_to_all are one for each rank, none negative, and all of the rows."""
    group, rows = types.SimpleNamespace(_size=2), torch.zeros(4, 3)
    blocks = torch_backend.ProcessGroup._blocks
    assert blocks(group, rows, [1, 3], "input") == [3, 9] and blocks(group, rows, [], "input") == [6, 6]
    assert blocks(group, torch.zeros(0, 3), [0, 0], "output") == [0, 0]
    for wrong in ([4], [1, 1, 2], [-1, 5], [1, 2]):
        assert f"input splits {wrong} of 4 rows on 2 ranks" in refused(blocks, group, rows, wrong, "input")


def lists_of_blocks():
    """Blocks that share memory are found; neighbours, and a block that its rank keeps in place, are not."""
    memory = torch.zeros(16)
    four = list(memory.chunk(4))
    sharing = torch_arguments.sharing
    assert sharing("all_gather", 0, [], four[::-1]) is None
    assert sharing("all_gather", 0, [], [memory[0:4], memory[8:12], memory[3:7]]) == (False, 0, 2)
    assert sharing("all_gather", 0, [four[1]], four) is None
    assert sharing("all_to_all", 0, four[:2], four[1:3]) == (True, 1, 0)
    assert sharing("all_to_all", 0, four[:2], four[2:]) is None
    assert sharing("gather", 1, [four[1]], four) is None and sharing("gather", 0, [four[1]], four) == (True, 0, 1)
    assert sharing("scatter", 1, four, [four[1]]) is None and sharing("scatter", 1, four, [four[2]]) == (True, 2, 0)
    assert sharing("gather", 1, [memory[5:8]], four) == (True, 0, 1)
    assert torch_arguments.spans([memory.view(4, 4)[:, 0], torch.zeros(0)]) == []
    gaps, rows = torch_arguments.gaps, memory.view(4, 4)
    for dense in (rows, rows.t(), rows[1:3], rows[:, :1][:1], memory[0], memory[:0].view(0, 4)):
        assert gaps("all_reduce", [dense], [dense]) is None
    assert gaps("all_gather", [rows[:, 1]], None) is None and gaps("scatter", [rows[0], rows[:, 1]], [rows[1]]) is None
    assert "sizes [4, 2] and strides [4, 2]" in gaps("all_reduce", [rows[:, ::2]], [rows])
    assert "8 consecutive elements" in gaps("reduce", [rows[:, ::2]], None)
    assert "gloo and NCCL refuse" in gaps("send", [rows[:, 1]], None) and "has gaps" in gaps("broadcast", None, [rows[0, 0].expand(3)])
    assert torch_backend.address([torch.zeros(0), memory]) == memory.data_ptr() and torch_backend.address([]) == 0


def refusals():
    one, other = torch.zeros(3), torch.zeros(3, dtype=torch.int32)
    assert torch_arguments.only([one], "reduce") is one and torch_arguments.only(one, "reduce") is one
    assert "single-element tensor list, not one of 2" in refused(torch_arguments.only, [one, one], "reduce")
    assert "non-empty" in refused(torch_arguments.only, [], "all_reduce")
    assert "invalid tensor type" in refused(torch_arguments.reducible, [one, other])
    assert "different shapes" in refused(torch_arguments.reducible, [one, torch.zeros(4)])
    blocks = [torch.zeros(3), torch.zeros(3)]
    assert torch_arguments.blocks_of([blocks], one, 2, "gather", "output") is blocks
    assert torch_arguments.blocks_of(blocks, one, 2, "gather", "output") is blocks
    assert "not one of 2" in refused(torch_arguments.blocks_of, [blocks, blocks], one, 2, "gather", "output")
    assert "Incorrect output list size 2" in refused(torch_arguments.blocks_of, [blocks], one, 3, "gather", "output")
    assert "invalid tensor size" in refused(torch_arguments.blocks_of, [blocks], torch.zeros(4), 2, "gather", "output")
    reduce_op = torch.distributed.ReduceOp
    for op, dtype, number in ((reduce_op.SUM, torch.float32, 0), (reduce_op.AVG, torch.complex64, 4), (reduce_op.SUM, torch.bool, 2),
                              (reduce_op.PRODUCT, torch.bool, 3), (reduce_op.MAX, torch.bool, 2), (reduce_op.BXOR, torch.int32, 8)):
        assert torch_backend.operation(op, torch.zeros(1, dtype=dtype)) == number, (op, dtype)
    assert "MAX of complex numbers" in refused(torch_backend.operation, reduce_op.MAX, torch.zeros(1, dtype=torch.complex64))


def exceptions():
    """An exception that nobody caught is named in one line, with the innermost line of the program."""
    assert torch_client.raised() == (None, None, 0)
    try:
        torch.ones(2).view(torch.Size([3]))
    except RuntimeError as error:
        sys.last_type, sys.last_value, sys.last_traceback = type(error), RuntimeError("an odd shape\nand more"), error.__traceback__
    try:
        text, file, line = torch_client.raised()
        assert (text, file) == (b"RuntimeError: an odd shape", __file__.encode()) and line == sys.last_traceback.tb_lineno
    finally:
        del sys.last_type, sys.last_value, sys.last_traceback


def main():
    for test in (splits, lists_of_blocks, refusals, exceptions):
        test()
