"""Logic of python/lockstep that needs no ranks, in one process: units.py PYTHON_FOLDER."""
import functools
import os
import sys
import tempfile
import types

sys.path.insert(0, sys.argv[1])
import torch  # noqa: E402
from torch import nn  # noqa: E402

import arguments  # noqa: E402
import captured  # noqa: E402
import lockstep  # noqa: E402
from lockstep import capturing, layouts, names, starting, tensor_files, watch_device  # noqa: E402


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
                                  ("deepspeed.engine", value(module=nn.ParameterList(parameters)), ["0", "1"]),
                                  ("deepspeed.engine", value(module=nn.ParameterList(parameters), param_names=runs.param_names), ["first.weight", "5"])):
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


def preparations():
    """A program that sets what torch reads at its import starts each rank; other variables do not matter."""
    before, after = "import os\n{}\nimport torch\n", "import os\nimport torch\n{}\n"
    for text in ('os.environ["OMP_NUM_THREADS"] = "1"', 'os.environ.setdefault("MKL_NUM_THREADS", "1")',
                 'os.environ.update({"A": "1",\n"TORCH_LOGS": "x"})', 'os.putenv("CUDA_VISIBLE_DEVICES", rank)', "os.environ[name] = value",
                 "os.environ.update(settings)", "os.sched_setaffinity(0, {1})"):
        assert starting._prepares({"a.py": before.format(text)}), text
        assert not starting._prepares({"a.py": after.format(text)}), text
        assert starting._prepares({"a.py": "import torch, own\n", "own.py": text}), text
    for text in ('os.environ["MASTER_ADDR"] = "localhost"', 'os.environ.update(MASTER_PORT="1")', 'print(os.environ["OMP_NUM_THREADS"] == "1")',
                 'os.environ.get("CUDA_HOME", "")'):
        assert not starting._prepares({"a.py": before.format(text)}), text


def absences():
    """A program may try a module that is awaited and not installed."""
    lockstep._when_loaded("lockstep_absent", backends)
    try:
        import lockstep_absent  # noqa: F401
    except ModuleNotFoundError:
        return
    raise AssertionError("imported")


def main():
    for test in (backends, absences, digests, files, raw_types, placements, frames, torchrec_frames, owner_frames, pipeline_frames, buckets, purposes, lists,
                 preparations):
        test()
    arguments.main()
    captured.main()
    return 0


sys.exit(main())
