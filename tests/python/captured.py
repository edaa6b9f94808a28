"""The contents of a capture, in one process: names, values, computations and omissions. A part of units.py."""
import json
import os
import tempfile

import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode

import lockstep
from lockstep import capturing, layouts, tensor_files


def captures():
    """Two steps of a model: the names of its tensors, and the inputs of an output and a gradient."""
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
    assert index["not_kept"] == [{"name": "text", "why": "str is not a tensor"}]
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


def read(folder):
    """The entries of a capture of one rank, its values, and its omissions."""
    with open(os.path.join(folder, "rank_00000.json"), encoding="utf-8") as file:
        index = json.load(file)
    values = tensor_files.read_raw(os.path.join(folder, "rank_00000.safetensors"))
    return {entry["name"]: entry for entry in index["tensors"]}, values, {one["name"]: one["why"] for one in index["not_kept"]}


def floats(value):
    return torch.frombuffer(bytearray(value[2]), dtype=torch.float32).tolist()


def capture_ends():
    """A capture's contents at its end: gradients that no optimizer used, buffers, and changed weights."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
    with tempfile.TemporaryDirectory() as folder:
        kept = lockstep.capture(model, folder, gradient_scale=0.5)
        model[0](torch.ones(2, 2))  # a part of the model that runs alone
        out = model(torch.tensor([[1.0, 2.0], [3.0, 5.0]]))
        out.backward(torch.tensor([[1.0, 0.0], [0.0, 2.0]]))
        with torch.no_grad():
            model[0].bias.add_(1)
        kept.close()
        kept.close()
        entries, values, _ = read(folder)
        assert {"step 0 input 0", "step 0 input 0 (call 1)", "step 0 forward 0 (call 1)", "step 0 input model"} <= set(entries), entries.keys()
        assert floats(values["step 0 backward model"]) == [1, 0, 0, 2] and entries["step 0 backward model"]["scale"] == 0.5
        assert "made" not in entries["step 0 gradient 0.weight"] and "step 0 gradient 0.bias" not in values, entries.keys()  # changed by hand
        assert floats(values["end buffer 1.running_mean"]) == model[1].running_mean.tolist() and "end buffer 1.running_var" in values
        assert entries["buffer 1.running_mean"]["moves"] is True and "end parameter 0.bias" in values
        assert entries["end parameter 0.weight"]["as"] == "parameter 0.weight" and "end parameter 0.weight" not in values
        # A second capture in the folder replaces the first.
        lockstep.capture(nn.Linear(1, 1), folder).close()
        assert "end buffer 1.running_mean" not in read(folder)[0]


def capture_outputs():
    """Several outputs of a module are captured by position or name; values that are no tensors are left out."""
    class Gives(nn.Module):
        def __init__(self, given):
            super().__init__()
            self.given = given

        def forward(self, x):
            return self.given(x)

    for given, expected in ((lambda x: x, [""]), (lambda x: (x, x), [" [0]", " [1]"]), (lambda x: [x], [""]), (lambda x: (None, x, 3), [" [1]"]),
                            (lambda x: {"a": x, "b": x, "c": "no"}, [" [a]", " [b]"]), (lambda x: {"a": x}, [" [a]"]), (lambda x: None, [])):
        with tempfile.TemporaryDirectory() as folder:
            model = Gives(given)
            with lockstep.capture(model, folder):
                model(torch.ones(2))
            entries, _, not_kept = read(folder)
            assert [name for name in entries if " forward " in name] == [f"step 0 forward model{which}" for which in expected], entries.keys()
            assert not not_kept


def capture_limit():
    """Of the steps after the limit only the weights at the end are kept."""
    with tempfile.TemporaryDirectory() as folder:
        model = nn.Linear(1, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        with lockstep.capture(model, folder, steps=1):
            for _ in range(3):
                model(torch.ones(1)).sum().backward()
                optimizer.step()
        entries, values, not_kept = read(folder)
        assert "step 0 gradient weight" in entries and "step 0 parameter weight" in entries and not [name for name in entries if name.startswith(("step 1", "step 2"))]
        assert floats(values["end parameter weight"]) == model.weight.flatten().tolist()
        assert not_kept == {"steps from 1 on": "the first 1 steps are kept, and the weights at the end"}


def user_placements():
    """A user's placements: for a tensor by its name or its last word, or for its module."""
    kept = object.__new__(capturing.Capture)
    kept._hooks, kept._mesh, kept._ranks = None, [2, 2], 4
    kept._placements = {"head": "P(sum), S(1)", "*backward tail": "P, R", "tail": "S(0), P", "w*": "R, R"}
    for name, of, placements in (("step 0 forward head", "head", "P(sum), S(1)"), ("step 0 backward head", "head", "R, S(1)"), ("step 1 gradient w1", None, "R, R"),
                                 ("step 0 forward tail", "tail", "S(0), P"), ("step 0 backward tail", "tail", "P, R"), ("step 0 forward other", "other", None),
                                 ("step 0 forward x", "head", "P(sum), S(1)")):
        entry = {}
        kept._placed(entry, name, of)
        assert entry == ({} if placements is None else {"placements": placements, "mesh": [2, 2]}), (name, entry)
    kept._mesh, entry = None, {}
    kept._placed(entry, "step 0 forward head", "head")
    assert entry["mesh"] == [4]


of_gloo = []  # models that live to the end: torch hangs if it frees a group while the group's thread frees a tensor


def capture_ddp():
    """DDP's gradients have their parts, unless they come from several backwards or a hook rounds them."""
    from torch.distributed.algorithms.ddp_comm_hooks import default_hooks

    dist = torch.distributed
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    try:
        for backwards, hook, parts, made in ((1, None, True, "linear weight"), (2, None, False, None), (1, default_hooks.bf16_compress_hook, False, "rounded")):
            with tempfile.TemporaryDirectory() as folder:
                inner = nn.Sequential(nn.Linear(2, 1))
                model = nn.parallel.DistributedDataParallel(inner)
                of_gloo.append(model)
                if hook is not None:
                    model.register_comm_hook(None, hook)
                with lockstep.capture(model, folder):
                    for _ in range(backwards):
                        model(torch.ones(1, 2)).sum().backward()
                entries, values, _ = read(folder)
                gradient = entries["step 0 gradient 0.weight"]
                assert gradient.get("parts") == ({"name": "step 0 part 0.weight", "op": "avg"} if parts else None), gradient
                assert (gradient.get("made") or {}).get("by") == made, gradient
                assert made != "rounded" or gradient["made"]["in"] == "bf16"
                assert ("step 0 part 0.weight" in entries) == (hook is None) and "step 0 forward model" in entries
                assert hook is not None or entries["step 0 part 0.weight"]["part"] is True
    finally:
        dist.destroy_process_group()


def pipeline(name, function):
    """Runs a function called from one of torch's pipelines."""
    scope = {}
    exec(compile(f"def {name}(run):\n    return run()\n", os.path.join("x", capturing.PIPELINE), "exec"), scope)
    return scope[name](function)


def capture_stages():
    """A pipeline stage has no inputs and outputs of the whole; the run that infers shapes is not captured."""
    assert capturing._in_pipeline() is None
    assert pipeline("forward_one_chunk", capturing._in_pipeline) == "stage" and pipeline("_shape_inference", capturing._in_pipeline) == "shapes"
    assert pipeline("_shape_inference", lambda: pipeline("run", capturing._in_pipeline)) == "shapes"
    assert pipeline("run", lambda: pipeline("_shape_inference", capturing._in_pipeline)) == "shapes"
    with tempfile.TemporaryDirectory() as folder:
        model = nn.Sequential(nn.Linear(2, 1))
        with lockstep.capture(model, folder):
            pipeline("_shape_inference", lambda: model(torch.zeros(1, 2)))
            pipeline("forward_one_chunk", lambda: model(torch.ones(1, 2)))
        entries, values, not_kept = read(folder)
        assert "step 0 forward 0" in entries and "step 0 forward 0 (call 1)" not in entries and floats(values["step 0 input 0"]) == [1, 1]
        assert not [name for name in entries if name.endswith(" model")]
        assert not_kept["step 0 forward model"] == "a rank's model is a stage of a pipeline"


def kept_of(model, run, **options):
    """The entries, values and omissions of a capture of one run of a model."""
    with tempfile.TemporaryDirectory() as folder:
        with lockstep.capture(model, folder, **options):
            run(model)
        return read(folder)


def capture_computations():
    """The computation of a gradient is known of plain layers alone, and of an output if its weights are a parameter."""
    ids = torch.tensor([1, 4])
    for layer, given, name, by in (
            (nn.Embedding(5, 3), ids, "weight", "embedding weight"), (nn.Embedding(5, 3, padding_idx=0), ids, "weight", None),
            (nn.Embedding(5, 3, sparse=True), ids, "weight", None), (nn.Embedding(5, 3, scale_grad_by_freq=True), ids, "weight", None),
            (nn.Conv1d(2, 1, 2), torch.ones(3, 2, 4), "bias", "channel bias"), (nn.Conv1d(2, 1, 2), torch.ones(2, 4), "bias", None)):
        entries, _, _ = kept_of(nn.Sequential(layer), lambda model, given=given: model(given).sum().backward())
        made = entries[f"step 0 gradient 0.{name}"].get("made")
        assert (made or {}).get("by") == by, (layer, made)

    # The rows of a layer norm of 16 bits, of all its calls.
    for dtype, calls, made in ((torch.bfloat16, 1, {"by": "rows", "in": "bf16", "rows": 6}), (torch.float16, 2, {"by": "rows", "in": "f16", "rows": 12}),
                               (torch.float32, 1, None)):
        given = torch.randn(2, 3, 4).to(dtype)
        model = nn.Sequential(nn.LayerNorm(4)).to(dtype)
        entries, _, _ = kept_of(model, lambda model, given=given, calls=calls: sum(model(given).sum() for _ in range(calls)).backward())
        assert all(entries[f"step 0 gradient 0.{name}"].get("made") == made for name in ("weight", "bias")), entries

    table = nn.Embedding(5, 3)
    del table.weight
    table.weight = torch.ones(5, 3)
    for layer, by in ((nn.Embedding(5, 3), "embedding"), (table, None)):
        entries, _, _ = kept_of(nn.Sequential(layer), lambda model: model(ids))
        assert (entries["step 0 forward 0"].get("made") or {}).get("by") == by, entries


def capture_penalty():
    """The gradient of an activation is that of the loss, also if the loss has a gradient in it."""
    def run(model):
        x = torch.ones(4, 3, requires_grad=True)
        y = model(x)
        inner, = torch.autograd.grad(y.sum(), x, create_graph=True)
        (y.mean() + inner.square().mean()).backward()

    _, values, not_kept = kept_of(nn.Sequential(nn.Linear(3, 1)), run)
    assert floats(values["step 0 backward model"]) == [0.25] * 4 and not not_kept, (values, not_kept)


def capture_without_values():
    """Calls in transforms, exports and traces have no values; those after them have."""
    x = torch.ones(4, 3)

    def transformed(model):
        torch.func.jvp(model, (x,), (x,))
        torch.func.vmap(torch.func.grad(lambda given: model(given).sum()))(x)

    def faked(model):
        with FakeTensorMode(allow_non_fake_inputs=True):
            model(torch.ones(4, 3))

    for symbolic in (transformed, faked, lambda model: torch.export.export(model, (x,)), lambda model: torch.jit.trace(model, x, check_trace=False)):
        def run(model, symbolic=symbolic):
            symbolic(model)
            model(x).sum().backward()

        entries, values, not_kept = kept_of(nn.Sequential(nn.Linear(3, 2)), run)
        assert not_kept["step 0 forward model"] == "it has no values" and "step 0 forward model" not in entries, not_kept
        assert any(name.startswith("step 0 forward model (call ") and len(floats(values[name])) == 8 for name in entries), entries
        assert floats(values["step 0 gradient 0.bias"]) == [4, 4]


def capture_whole_model():
    """Without process groups a gradient of an activation is the whole's; buffers are kept after each step."""
    model = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def run(model):
        model(torch.tensor([[1.0, 2.0], [3.0, 5.0]])).backward(torch.tensor([[1.0, 0.0], [0.0, 2.0]]))
        optimizer.step()

    entries, values, _ = kept_of(model, run)
    assert layouts.data_parallel(model) == (1, [])
    assert floats(values["step 0 backward model"]) == [1, 0, 0, 2] and entries["step 0 backward model"]["optional"] is True
    assert "step 0 buffer 1.running_mean" in entries


def capture_fused():
    """A table that the backward updates has no gradient, which the capture says; one with a gradient is kept."""
    class TableBatchedEmbeddingSlice(nn.Parameter):
        pass

    model = nn.Linear(2, 1)
    model.table = TableBatchedEmbeddingSlice(torch.ones(2))
    _, _, not_kept = kept_of(model, lambda model: model(torch.ones(1, 2)).sum().backward())
    assert not_kept == {"step 0 gradient table": "the backward itself updates it"}, not_kept

    def graded(model):
        model.table.grad = torch.ones(2)
        model(torch.ones(1, 2)).sum().backward()

    entries, _, not_kept = kept_of(model, graded)
    assert "step 0 gradient table" in entries and not not_kept, not_kept


def table_blocks():
    """Blocks of TorchRec's plans: neighbours are joined by columns, other shards of one rank are not one block."""
    class Placement:
        def __init__(self, rank):
            self.rank = lambda: rank

    class Values:
        def __init__(self, **values):
            self.__dict__.update(values)

    def model(*shards):
        made, table = nn.Module(), nn.Module()
        table.embedding_bags = nn.ModuleDict({"t": nn.Linear(1, 1, bias=False)})
        table.module_sharding_plan = {"t": Values(sharding_spec=Values(shards=[
            Values(shard_offsets=[row, column], shard_sizes=[rows, columns], placement=Placement(rank))
            for rank, row, column, rows, columns in shards]))}
        made.tables = table
        table.scale = nn.Parameter(torch.ones(1))  # of no table
        return made

    name = "tables.embedding_bags.t.weight"
    columns = model((1, 0, 0, 5, 4), (0, 0, 4, 5, 4), (1, 0, 8, 5, 4))
    assert layouts.table_blocks(columns, 0) == layouts.table_blocks(columns, 2) == {name: None}
    columns = model((1, 0, 0, 5, 4), (1, 0, 4, 5, 4), (0, 0, 8, 5, 2))
    assert [layouts.table_blocks(columns, rank)[name] for rank in range(3)] == [
        ([0, 8], 1, [5, 2]), ([0, 0], 2, [5, 4]), ([0, 0], 1, [0, 10])]
    for apart in (((0, 0, 0, 5, 4), (0, 0, 4, 5, 2)), ((0, 0, 0, 3, 4), (0, 3, 0, 3, 4)), ((0, 0, 4, 5, 4), (0, 0, 0, 5, 4))):
        assert layouts.table_blocks(model(*apart), 0) == {name: None}, apart
    assert layouts.table_blocks(model((0, 0, 0, 5, 4)), 0) == {} and layouts.table_blocks(nn.Linear(1, 1), 0) == {}
    # The part is in the file as the block, with its offset.
    whole = torch.arange(10.0).view(5, 2)
    kept = object.__new__(capturing.Capture)
    kept._hooks, kept._blocks = None, {"t": ([0, 4], 2, [5, 1]), "none": ([0, 0], 1, [0, 2])}
    for of in ("t", "gradient t"):
        assert kept._raw(torch.cat([whole[:, :1], whole[:, 1:]]), {}, of) == capturing.raw(whole)
    assert kept._raw(torch.zeros(0), {}, "none") == capturing.raw(torch.zeros(0, 2)) and kept._raw(whole, {}, "other") == capturing.raw(whole)


def flat_parameters():
    """FSDP's flat parameters are parts only if a strategy shards them."""
    for is_sharded in (True, False):
        model = nn.Module()
        model.inner = nn.Module()
        model.inner._handle = type("Handle", (), {"flat_param": type("Flat", (), {"_fqns": ["w"]}), "uses_sharded_strategy": is_sharded})
        assert layouts.flat_names(model) == (["inner.w"] if is_sharded else [])


def streamed():
    """Tensors are on disk as they come. A child process writes nothing."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "x.safetensors")
        writer = tensor_files.Writer(path)
        writer.add("a", "U8", [3], b"abc")
        child = os.fork()
        if child == 0:
            writer.add("b", "U8", [1], b"x")
            writer.close()
            writer._values.close()
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0 and not os.path.exists(path)
        writer.add("c", "F32", [0], b"")
        writer.add("d", "U8", [1], b"d")
        writer.close()
        assert tensor_files.read_raw(path) == {"a": ("U8", [3], b"abc"), "c": ("F32", [0], b""), "d": ("U8", [1], b"d")}
        assert os.listdir(folder) == ["x.safetensors"]


def main():
    for test in (flat_parameters, streamed, captures, capture_ends, capture_outputs, capture_limit, user_placements, capture_ddp, capture_stages, capture_computations,
                 capture_penalty, capture_without_values, capture_whole_model, capture_fused, table_blocks):
        test()
