"""Logic of python/lockstep that needs no ranks, in one process: units.py PYTHON_FOLDER."""
import functools
import json
import os
import sys
import tempfile
import types

sys.path.insert(0, sys.argv[1])
import torch  # noqa: E402
from torch import nn  # noqa: E402

import arguments  # noqa: E402
import lockstep  # noqa: E402
from lockstep import capturing, layouts, names, tensor_files, watch_device  # noqa: E402


def backends():
    """Without a GPU gloo and nccl are replaced; other libraries are not."""
    if torch.cuda.is_available():
        return
    for asked, made in (("gloo", "lockstep"), ("NCCL", "lockstep"), ("undefined", "lockstep"), ("mpi", None), ("cuda:nccl", None),
                        ("cpu:gloo,cuda:nccl", "lockstep"), ("cpu:mpi,cuda:nccl", None)):
        assert lockstep._replaced(asked) == made, asked


def digests():
    """The digest of a tensor on a GPU: equal only for equal values, with the elements that a note samples."""
    torch.manual_seed(3)
    for dtype in (torch.float32, torch.bfloat16, torch.float64, torch.int8, torch.bool, torch.complex64):
        for shape in ((0,), (3,), (8,), (70, 5)):
            one = torch.randn(shape).mul(50).to(dtype)
            data = [bytes(kept.raw[:-1]) for kept in watch_device.digests([one, one.clone(), one.t() if one.dim() == 2 else one])]
            assert data[0] == data[1], (dtype, shape)
            assert shape != (70, 5) or data[0] != data[2] or dtype == torch.bool, (dtype, shape)
            words = torch.view_as_real(one).reshape(-1) if dtype.is_complex else one.reshape(-1)
            size, count = words.element_size(), words.numel()
            places = [at * (count - 1) // 7 if count > 8 else at % count for at in range(8)] if count else []
            expected = b"".join(bytes(words[at:at + 1].view(torch.uint8).tolist()) for at in places)
            assert data[0][8:8 + 8 * size] == (expected or bytes(8 * size)), (dtype, shape)
            for at in range(min(count, 20)):
                changed = words.clone()
                changed[at] = 1 - changed[at] if dtype != torch.bool else ~changed[at]
                other = watch_device.digests([changed])[0].raw[:8]
                assert other != watch_device.digests([words])[0].raw[:8] or changed.equal(words), (dtype, shape, at)
    values = [torch.ones(3), torch.tensor([1.0, float("inf")]), torch.tensor([float("nan")])]
    assert [watch_device.not_finite(values[:1]), watch_device.not_finite(values), watch_device.not_finite([])] == [None, 1, None]


def files():
    """A file contains the written data, which begins at a multiple of eight bytes."""
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
    assert layouts.plain("a._orig_mod.b._fsdp_wrapped_module.c") == "a.b.c"


def placements():
    from torch.distributed.tensor import Partial, Replicate, Shard

    assert [layouts.placement(at) for at in (Shard(1), Replicate(), Partial("avg"))] == ["S(1)", "R", "P(avg)"]


def frame(function, module="", **variables):
    return types.SimpleNamespace(f_locals=variables, f_code=types.SimpleNamespace(co_name=function), f_globals={"__name__": module}, f_back=None)


def frames():
    """FSDP's calls, by the frames that make them."""
    of = {"fsdp_params": [types.SimpleNamespace(_param_fqn=name) for name in ("w", "b")]}
    for function, purpose in (("foreach_reduce", "gradients of w, b"), ("foreach_all_gather", "parameters w, b")):
        assert names._of_fsdp([frame(function, **of)]) == purpose
    assert names._of_fsdp([frame("forward")]) is None
    # The first version's flat parameters: their names in the root, where one is known.
    flat = nn.Parameter(torch.zeros(2))
    parts = [nn.Parameter(torch.zeros(1)), nn.Parameter(torch.zeros(1))]
    flat._fqns, flat._params = ["w", "b"], parts
    order = types.SimpleNamespace(param_to_fqn={parts[0]: ["first.w"], parts[1]: ["first.b"]})
    handle, state = types.SimpleNamespace(flat_param=flat), types.SimpleNamespace(_exec_order_data=order)
    for function, verb in (("_reduce_grad", "gradients of"), ("_reduce_grad_no_shard", "gradients of"), ("unshard", "parameters")):
        assert names._of_fsdp([frame("other"), frame(function, handle=handle)]) == f"{verb} w, b"
        assert names._of_fsdp([frame(function, self=handle), frame("forward", state=state)]) == f"{verb} first.w, first.b"
    flat._params = None
    assert names._of_fsdp([frame("unshard", handle=handle), frame("forward", state=state)]) == "parameters w, b"
    order.param_to_fqn = {flat: ["whole.w", "whole.b"]}
    assert names._of_fsdp([frame("unshard", handle=handle), frame("forward", state=state)]) == "parameters whole.w, whole.b"


def torchrec_frames():
    """TorchRec's calls: the tables of the features whose ids move, and those of a sharded module."""
    class KJTAllToAllTensorsAwaitable:
        pass

    class KJTAllToAllSplitsAwaitable:
        def __init__(self, *keys):
            self._input = types.SimpleNamespace(keys=lambda: keys)

    class FusedKJTListSplitsAwaitable:
        def __init__(self, *parts):
            self._awaitables = [*parts, object()]

    configs = [types.SimpleNamespace(name=name, feature_names=features) for name, features in (("users", ["u", "x@0"]), ("items", ["i", "x"]))]
    module = nn.Module()
    moves = [nn.Module(), nn.Module()]
    module._output_dists = moves
    module._embedding_shardings = [types.SimpleNamespace(_grouped_embedding_configs=[types.SimpleNamespace(embedding_tables=[config])]) for config in configs]
    known = frame("forward", self=module)
    keys = types.SimpleNamespace(keys=lambda: ["u", "x@1", "none"])
    tensors = KJTAllToAllTensorsAwaitable()
    assert names._of_torchrec([known, frame("__init__", self=tensors, input=keys, label="lengths")]) == "input_dist lengths of users, items, none"
    assert names._of_torchrec([frame("__init__", self=tensors, input=keys)]) == "input_dist data of users, items, none"
    splits = [KJTAllToAllSplitsAwaitable("u"), KJTAllToAllSplitsAwaitable("i")]
    assert names._of_torchrec([frame("__init__", self=splits[1])]) == "input_dist splits of items"
    assert names._of_torchrec([frame("__init__", self=FusedKJTListSplitsAwaitable(*splits))]) == "input_dist splits of users, items"
    request = types.SimpleNamespace()
    assert names._of_torchrec([frame("forward", myreq=request), frame("forward", self=moves[1])]) == "output_dist of items"
    assert names._of_torchrec([frame("backward", ctx=types.SimpleNamespace(myreq=request))]) == "gradients of output_dist of items"
    assert names._of_torchrec([frame("backward", ctx=types.SimpleNamespace(myreq=types.SimpleNamespace()))]) is None
    assert names._of_torchrec([frame("backward", ctx=types.SimpleNamespace()), frame("forward", self=moves[0])]) == "output_dist of users"
    assert names._of_torchrec([frame("forward", ctx=types.SimpleNamespace(myreq=request))]) is None
    assert names._of_torchrec([frame("forward", self=nn.Linear(1, 1))]) is None
    # Of another kind of sharded module, and of groups for each rank.
    other, move = nn.Module(), nn.Module()
    other._output_dists = [move]
    groups = [[types.SimpleNamespace(embedding_tables=configs[:1])], [types.SimpleNamespace(embedding_tables=configs)]]
    other._sharding_type_to_sharding = {"row_wise": types.SimpleNamespace(_grouped_embedding_configs_per_rank=groups)}
    assert names._of_torchrec([frame("forward", self=other), frame("forward", self=move)]) == "output_dist of users, items"


def owner_frames():
    """Calls of other frameworks, by the tables of their functions."""
    value = types.SimpleNamespace
    model = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
    ddp = {"module": model, "broadcast_buffers": True, "params_and_buffers_to_ignore": ["1.running_var"]}
    buffers = "parameters and buffers 0.weight, 0.bias, 1.weight, 1.bias"
    assert names._of_ddp_state(ddp) == f"{buffers}, 1.running_mean, 1.num_batches_tracked"
    assert names._of_ddp_state({**ddp, "broadcast_buffers": False}) == buffers
    # DeepSpeed's parameters have names in the running optimizer or module, else numbers.
    parameters = [nn.Parameter(torch.zeros(1)) for _ in range(2)]
    parameters[0].ds_id, parameters[1].ds_id = 3, 5
    assert names._deepspeed_names(parameters) == ["3", "5"]
    runs = value(param_names={parameters[0]: "first.weight"})
    for module, own, expected in (("deepspeed.zero", runs, ["first.weight", "5"]), ("deepspeed2.zero", runs, ["3", "5"]),
                                  ("deepspeed.engine", value(module=nn.ParameterList(parameters)), ["0", "1"])):
        scope = {"__name__": module, "names": names}
        exec("def step(self, parameters):\n    return names._deepspeed_names(parameters)\n", scope)
        assert scope["step"](own, parameters) == expected, module
    for parameter in model.parameters():
        parameter.grad = torch.ones_like(parameter)
    of = list(model.parameters())
    engine = {"self": value(module=model), "bucket": [of[1].grad, of[0].grad]}
    assert names._of_engine(engine) == "gradients of 0.bias, 0.weight"
    assert names._of_engine({**engine, "bucket": [of[1].grad, torch.ones(1)]}) == "gradients"
    ipg = {"self": value(param_names={of[0]: "a", of[1]: "b"}, bit16_groups=[of[:1], of[:2]]), "bucket": value(params=[(1, 1, 9), (0, 0, 9)])}
    assert names._of_ipg(ipg) == "gradients of b, a"
    assert names._of_ipg({**ipg, "bucket": value(params=[])}) == "gradients"
    # Megatron's layers have paths in the outermost module, without wrappers' names.
    outer = nn.Module()
    outer.module = model
    inner = frame("forward", self=model[0])
    inner.f_back = frame("forward", self=model)
    inner.f_back.f_back = frame("forward", self=outer)
    assert names._path(model[0], inner.f_back) == "0" and names._path(model[0], None) == ""
    assert names._of_layer([frame("copy"), inner]) == "activations of 0"
    assert names._of_layer([frame("forward", self=nn.Linear(1, 1))]) == "activations of Linear"
    assert names._of_layer([frame("backward"), inner]) == "gradients of activations" and names._of_layer([frame("copy", self=1)]) is None
    # Placements, and the nearest frame of a table.
    at = value
    shard, partial, replicate = (at(is_shard=lambda s=s: s, is_partial=lambda p=p: p, dim=1) for s, p in ((True, False), (False, True), (False, False)))
    assert names._placements(at(placements=[shard])) == "S(1)" and names._placements(at(placements=[partial, replicate])) == "(P, R)"
    data, object_ = frame("broadcast_data", "megatron.core.tensor_parallel.data"), frame("all_gather_object", "torch.distributed.distributed_c10d")
    assert names._of_owner([frame("other", "megatron.core.tensor_parallel.data"), data], names._OWNERS) == "the batch"
    assert names._of_owner([object_], names._LAST) == "objects of all_gather_object"
    tensors = {name: torch.zeros(1) for name in ("tensor_send_prev", "tensor_recv_prev", "tensor_send_next", "tensor_recv_next")}

    def isend(tensor):
        return names._of_owner([frame("_p2p_ops", "megatron.core.pipeline_parallel.p2p_communication", group=None, **tensors)], names._OWNERS)

    assert [isend(tensor) for tensor in (*tensors.values(), torch.zeros(1))] == [
        "gradients of activations", "activations", "activations", "gradients of activations", "messages of stages"]
    plan = frame("reduce_scatter", "torch.distributed.checkpoint.utils", step="plan")
    assert names._of_owner([plan, data], names._OWNERS) == "checkpoint: plan"
    plan.f_locals.clear()
    assert names._of_owner([plan, data], names._OWNERS) == "checkpoint"


def pipeline_frames():
    """Messages of a pipeline's schedule."""
    schedules, value = "torch.distributed.pipelining.schedules", types.SimpleNamespace

    def isend():
        pass

    def irecv():
        pass

    stage = value(_stage=value(stage_index=2))
    for op, desc, purpose in ((isend, "fwd_send", "activations of stage 2"), (irecv, "bwd_recv", "gradients of stage 2"),
                              (irecv, "fwd_send_bwd_recv", "gradients of stage 2"), (isend, "fwd_send_bwd_recv", "activations of stage 2")):
        made = [frame("_batch_p2p", "other", p2p_op=value(op=op)), frame("_step", schedules, desc=desc, self=stage)]
        assert names._of_pipeline(made) == purpose, desc
    for kind, purpose in (("F", "activations of stage 3"), ("B", "gradients of stage 3")):
        made = [frame("run", schedules, comp_type=value(value=f"SEND_{kind}"), stage_idx=3)]
        assert names._of_pipeline(made) == purpose
    # The nearer of two frames has the value.
    made = [frame("inner", schedules, stage_idx=1), frame("run", schedules, comp_type=value(value="SEND_F"), stage_idx=3)]
    assert names._of_pipeline(made) == "activations of stage 1"
    assert names._of_pipeline([frame("run", schedules, time_step=1)]) == "messages of stages"
    assert names._of_pipeline([frame("run", schedules, x=1)]) == "first messages of stages" and names._of_pipeline([frame("run", "other")]) is None


def buckets():
    """DDP's buckets, in the order of the last forward, each once."""
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 1))
    of = [list(layer.parameters()) for layer in model]
    made = [types.SimpleNamespace(buffer=lambda n=n: torch.zeros(n), parameters=lambda p=p: p) for n, p in ((3, of[1]), (6, of[0]))]

    class Model:
        module, reducer = model, types.SimpleNamespace(_get_zeros_like_grad_buckets=lambda: made)

    ddp = Model()
    names._after_forward(ddp)
    assert names._of_ddp(6) is None and names._of_ddp(3) == "gradients of 1.weight, 1.bias"
    assert names._of_ddp(3) is None and names._of_ddp(6) == "gradients of 0.weight, 0.bias" and names._of_ddp(6) is None
    made.pop()
    names._after_forward(ddp)  # they are made again in the second forward
    assert names._of_ddp(3) == "gradients of 1.weight, 1.bias" and names._of_ddp(6) is None
    made.clear()
    names._after_forward(ddp)  # and stay
    assert names._of_ddp(3) == "gradients of 1.weight, 1.bias"
    names._after_forward(ddp)
    with torch.no_grad():
        assert names._of_ddp(3) is not None
        names._after_forward(ddp)
        assert names._of_ddp(3) is None
    assert names._of_hook(types.SimpleNamespace(parameters=lambda: [*of[1], nn.Parameter(torch.zeros(1))])) == "gradients of 1.weight, 1.bias"
    names._after_forward(types.SimpleNamespace())
    assert len(names._reducing) == 1
    sparse = types.SimpleNamespace(module=model, reducer=types.SimpleNamespace(_get_zeros_like_grad_buckets=lambda: refuse()))
    assert names._buckets(sparse) == []
    names._reducing.clear()


def refuse():
    raise RuntimeError("sparse")


def purposes():
    """The owner of a call by its frames: the program's in between end those of FSDP."""
    for module, kind in (("torchrec.distributed.a", "torchrec"), ("torch.distributed.fsdp.a", "fsdp"), ("torch.nn", "torch"), ("lockstep.names", "lockstep"),
                         ("megatron.core.tensor_parallel.layers", "layers"), ("megatron.core.tensor_parallel.data", "owned"),
                         ("torch.distributed.pipelining.schedules", "last"), ("program", "other"), ("torchrec.modules", "other")):
        assert names._kind(module) == kind, module
    fsdp = ("torch.distributed.fsdp.x", "foreach_reduce", {"fsdp_params": [types.SimpleNamespace(_param_fqn="w")]})
    of_torch, own = ("torch.x", "forward", {}), ("program", "forward", {})
    data, objects = ("megatron.core.tensor_parallel.data", "broadcast_data", {}), ("torch.distributed.distributed_c10d", "all_gather_object", {})
    for frames_, purpose in (((), None), ((of_torch,), None), ((own,), None), ((fsdp, of_torch), "gradients of w"), ((fsdp, own), None), ((fsdp, own, of_torch), None),
                             ((data, own), "the batch"), ((objects, of_torch), "objects of all_gather_object"),
                             # In the order of the tables, not by distance: an owner before FSDP, FSDP before the last.
                             ((data, fsdp), "the batch"), ((fsdp, data), "the batch"), ((objects, fsdp), "gradients of w"), ((fsdp, objects), "gradients of w")):
        assert chain(*frames_) == purpose, (frames_, purpose)
    # A bucket of DDP's reducer, which no Python calls, and another call of the program in a hook.
    model = nn.Linear(2, 1)
    buckets_ = [types.SimpleNamespace(buffer=lambda: torch.zeros(4), parameters=lambda: list(model.parameters()))]
    ddp = type("Model", (), {"module": model, "reducer": types.SimpleNamespace(_get_zeros_like_grad_buckets=lambda: buckets_)})()
    engine = ("torch.autograd.graph", "_engine_run_backward", {})
    names._after_forward(ddp)
    assert chain(engine, own) is None and chain(of_torch) is None and chain(engine) == "gradients of weight, bias" and chain(engine) is None
    names._reducing.clear()
    assert chain(engine) is None
    # Another version of a framework has other variables: no purpose is known.
    kept, names._purpose = names._purpose, lambda elements: {}["x"]
    assert names.purpose(1) is None
    names._purpose = kept


def chain(*frames_):
    """The purpose of a call of lockstep's below these frames, the outermost first."""
    scope = {"__name__": "lockstep.torch_backend", "names": names}
    exec("def ask():\n    return names.purpose(4)\n", scope)
    call = scope["ask"]
    for module, function, values in reversed(frames_):
        scope = {"__name__": module}
        exec(f"def {function}({', '.join(['call', *values])}):\n    return call()\n", scope)
        call = functools.partial(scope[function], call, **values)
    return call()


def lists():
    """A list of names is as long as its limit allows."""
    assert names.listed(["a", None, "b", "a"]) == "a, b"
    assert names.listed(["x" * 40, "y" * 54]) == "x" * 40 + ", " + "y" * 54
    assert names.listed(["x" * 40, "y" * 55, "z"]) == "x" * 40 + " and 2 more"
    assert names.listed(["x" * 100]) == "x" * 96
    assert names._named("gradients of", []) is None and names._named("gradients of", ["w"]) == "gradients of w"


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
        assert floats(values["step 0 backward model"]) == [0.5, 0, 0, 1]
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


def main():
    for test in (backends, digests, files, raw_types, placements, frames, torchrec_frames, owner_frames, pipeline_frames, buckets, purposes, lists, captures,
                 capture_ends, capture_outputs, capture_limit, user_placements, capture_ddp, capture_stages):
        test()
    arguments.main()
    return 0


sys.exit(main())
