"""The logic of python/lockstep that needs no ranks, in one process: units.py PYTHON_FOLDER."""
import json
import os
import sys
import tempfile
import types

sys.path.insert(0, sys.argv[1])
import torch  # noqa: E402
from torch import nn  # noqa: E402

import lockstep  # noqa: E402
from lockstep import capturing, names, tensor_files, torch_backend  # noqa: E402


def refused(call, *arguments):
    try:
        call(*arguments)
    except RuntimeError as error:
        return str(error)
    raise AssertionError(f"{call.__name__}{arguments} was not refused")


def backends():
    """Without a GPU gloo and nccl are replaced; other libraries are not."""
    if torch.cuda.is_available():
        return
    for asked, made in (("gloo", "lockstep"), ("NCCL", "lockstep"), ("undefined", "lockstep"), ("mpi", None), ("cuda:nccl", None),
                        ("cpu:gloo,cuda:nccl", "lockstep"), ("cpu:mpi,cuda:nccl", None)):
        assert lockstep._replaced(asked) == made, asked


def files():
    """A file holds what was written, and its data begins at a multiple of eight bytes."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "x.safetensors")
        for name in ("a", "ab", "abcdefgh"):
            tensors = {name: ("F32", [2], bytes(range(8))), "none": ("U8", [0], b""), "last": ("U8", [3], b"xyz")}
            tensor_files.write_raw(path, tensors)
            assert tensor_files.read_raw(path) == tensors
            with open(path, "rb") as file:
                assert int.from_bytes(file.read(8), "little") % 8 == 0


def raw_types():
    for dtype, name in ((torch.float32, "F32"), (torch.bfloat16, "BF16"), (torch.int64, "I64"), (torch.uint8, "U8"),
                        (torch.bool, "BOOL"), (torch.float8_e5m2, "F8_E5M2"), (torch.float8_e4m3fn, "F8_E4M3"),
                        (torch.complex64, None)):
        assert capturing._type(dtype) == name, dtype
    assert capturing.raw(torch.tensor([1, 2], dtype=torch.int16))[:2] == ("I32", [2])
    assert capturing.raw(torch.tensor([1 + 2j]))[:2] == ("F32", [1, 2])
    assert capturing.raw(torch.zeros(0, 3)) == ("F32", [0, 3], b"")
    assert capturing._plain("a._orig_mod.b._fsdp_wrapped_module.c") == "a.b.c"


def placements():
    from torch.distributed.tensor import Partial, Replicate, Shard

    assert [capturing._placement(at) for at in (Shard(1), Replicate(), Partial("avg"))] == ["S(1)", "R", "P(avg)"]


def frames():
    """FSDP's calls, by the frames that make them."""
    of = {"fsdp_params": [types.SimpleNamespace(_param_fqn=name) for name in ("w", "b")]}
    for function, purpose in (("foreach_reduce", "gradients of w, b"), ("foreach_all_gather", "parameters w, b")):
        assert names._of_fsdp([types.SimpleNamespace(f_locals=of, f_code=types.SimpleNamespace(co_name=function))]) == purpose
    assert names._of_fsdp([types.SimpleNamespace(f_locals={}, f_code=types.SimpleNamespace(co_name="forward"))]) is None


def splits():
    """The splits of an all_to_all are one for each rank, none negative, and all of the rows."""
    group, rows = types.SimpleNamespace(_size=2), torch.zeros(4, 3)
    blocks = torch_backend.ProcessGroup._blocks
    assert blocks(group, rows, [1, 3], "input") == [3, 9] and blocks(group, rows, [], "input") == [6, 6]
    assert blocks(group, torch.zeros(0, 3), [0, 0], "output") == [0, 0]
    for wrong in ([4], [1, 1, 2], [-1, 5], [1, 2]):
        assert f"input splits {wrong} of 4 rows on 2 ranks" in refused(blocks, group, rows, wrong, "input")


def lists():
    """A list of names is as long as its limit allows."""
    assert names.listed(["a", None, "b", "a"]) == "a, b"
    assert names.listed(["x" * 40, "y" * 54]) == "x" * 40 + ", " + "y" * 54
    assert names.listed(["x" * 40, "y" * 55, "z"]) == "x" * 40 + " and 2 more"
    assert names.listed(["x" * 100]) == "x" * 96
    assert names._named("gradients of", []) is None and names._named("gradients of", ["w"]) == "gradients of w"


def lists_of_blocks():
    """Blocks that share memory are found; neighbours, and a block that its rank keeps in place, are not."""
    memory = torch.zeros(16)
    four = list(memory.chunk(4))
    sharing = torch_backend.sharing
    assert sharing("all_gather", 0, [], four[::-1]) is None
    assert sharing("all_gather", 0, [], [memory[0:4], memory[8:12], memory[3:7]]) == (False, 0, 2)
    assert sharing("all_gather", 0, [four[1]], four) is None
    assert sharing("all_to_all", 0, four[:2], four[1:3]) == (True, 1, 0)
    assert sharing("all_to_all", 0, four[:2], four[2:]) is None
    assert sharing("gather", 1, [four[1]], four) is None and sharing("gather", 0, [four[1]], four) == (True, 0, 1)
    assert sharing("scatter", 1, four, [four[1]]) is None and sharing("scatter", 1, four, [four[2]]) == (True, 2, 0)
    assert sharing("gather", 1, [memory[5:8]], four) == (True, 0, 1)
    assert torch_backend.spans([memory.view(4, 4)[:, 0], torch.zeros(0)]) == []
    assert torch_backend.address([torch.zeros(0), memory]) == memory.data_ptr() and torch_backend.address([]) == 0


def refusals():
    one, other = torch.zeros(3), torch.zeros(3, dtype=torch.int32)
    assert torch_backend.only([one], "reduce") is one and torch_backend.only(one, "reduce") is one
    assert "single-element tensor list, not one of 2" in refused(torch_backend.only, [one, one], "reduce")
    assert "non-empty" in refused(torch_backend.only, [], "all_reduce")
    assert "invalid tensor type" in refused(torch_backend.reducible, [one, other])
    assert "different shapes" in refused(torch_backend.reducible, [one, torch.zeros(4)])
    blocks = [torch.zeros(3), torch.zeros(3)]
    assert torch_backend.blocks_of([blocks], one, 2, "gather", "output") is blocks
    assert torch_backend.blocks_of(blocks, one, 2, "gather", "output") is blocks
    assert "not one of 2" in refused(torch_backend.blocks_of, [blocks, blocks], one, 2, "gather", "output")
    assert "Incorrect output list size 2" in refused(torch_backend.blocks_of, [blocks], one, 3, "gather", "output")
    assert "invalid tensor size" in refused(torch_backend.blocks_of, [blocks], torch.zeros(4), 2, "gather", "output")
    reduce_op = torch.distributed.ReduceOp
    for op, dtype, number in ((reduce_op.SUM, torch.float32, 0), (reduce_op.AVG, torch.complex64, 4), (reduce_op.SUM, torch.bool, 2),
                              (reduce_op.PRODUCT, torch.bool, 3), (reduce_op.MAX, torch.bool, 2), (reduce_op.BXOR, torch.int32, 8)):
        assert torch_backend.operation(op, torch.zeros(1, dtype=dtype)) == number, (op, dtype)
    assert "MAX of complex numbers" in refused(torch_backend.operation, reduce_op.MAX, torch.zeros(1, dtype=torch.complex64))


def captures():
    """Two steps of a model: the names of its tensors, and from which an output and a gradient are computed."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Embedding(5, 3), nn.Linear(3, 2), nn.Linear(2, 1, bias=False))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with tempfile.TemporaryDirectory() as folder:
        with lockstep.capture(model, folder) as kept:
            for _ in range(2):
                optimizer.zero_grad()
                model(torch.tensor([1, 4])).sum().backward()
                kept.note("loss", torch.ones(1))
                optimizer.step()
            kept.note("text", "no tensor")
        with open(os.path.join(folder, "rank_00000.json"), encoding="utf-8") as file:
            index = json.load(file)
        values = tensor_files.read_raw(os.path.join(folder, "rank_00000.safetensors"))
    entries = {entry["name"]: entry for entry in index["tensors"]}
    assert (index["rank"], index["ranks"], index["format"]) == (0, 1, 1)
    assert index["not_kept"] == [{"name": "text", "why": "str is no tensor"}]
    of = ["0.weight", "1.weight", "1.bias", "2.weight"]
    assert list(entries)[:4] == [f"parameter {name}" for name in of]
    assert all(f"step {step} {what} {name}" in entries for step in (0, 1) for what in ("gradient", "parameter") for name in of)
    assert "loss" in entries and "loss (call 1)" in entries and "step 2 input 0" not in entries
    assert entries["step 0 forward 1"]["made"] == {"by": "linear", "input": "step 0 input 1", "weight": "parameter 1.weight",
                                                   "bias": "parameter 1.bias"}
    assert entries["step 1 forward 2"]["made"] == {"by": "linear", "input": "step 1 input 2",
                                                   "weight": "step 0 parameter 2.weight", "bias": None}
    assert entries["step 0 forward 0"]["made"]["by"] == "embedding"
    assert entries["step 0 gradient 1.bias"]["made"] == {"by": "linear bias", "gradient": "step 0 backward 1"}
    assert entries["step 0 gradient 0.weight"]["made"] == {"by": "embedding weight", "gradient": "step 0 backward 0",
                                                           "input": "step 0 input 0"}
    assert all(entries[f"end parameter {name}"]["as"] == f"step 1 parameter {name}" for name in of)
    assert "end parameter 1.bias" not in values and values["step 0 backward 1"][1] == [2, 2]
    assert "made" not in entries["step 0 forward model"] and entries["step 0 forward model"]["optional"] is True


def main():
    for test in (backends, files, raw_types, placements, frames, splits, lists, lists_of_blocks, refusals, captures):
        test()
    return 0


sys.exit(main())
