"""Names the data of a call in the terms of the module that makes it: the parameters of DDP and FSDP, the tables of TorchRec.

Nothing in these modules is changed: the caller is found in the Python frames. DDP's reducer is not Python, so its buckets are read after
each forward and identified by order and size.

Invariant: all members of a correct collective give it the same purpose. So no purpose depends on the rank, and a function is in the tables
below only if every member of its calls runs it. Purposes of messages differ between their two sides.
"""

import sys
import weakref

import torch
import torch.distributed as dist
from torch import nn

LONGEST = 96  # characters of a list of names
_features = {}  # a feature's tables, of the TorchRec modules that were seen
_tables = weakref.WeakKeyDictionary()  # of a module that distributes: its tables
_seen = weakref.WeakSet()
_reducing = []  # weak references to DDP models, in the order of their last forward


def listed(names):
    """The names, truncated to a readable number."""
    names = list(dict.fromkeys(name for name in names if name))
    text = ""
    for at, name in enumerate(names):
        longer = f"{text}, {name}" if text else name
        if len(longer) > LONGEST:
            return f"{text} and {len(names) - at} more" if text else name[:LONGEST]
        text = longer
    return text


def _named(verb, names):
    text = listed(names)
    return f"{verb} {text}" if text else None


# ---- TorchRec ----
def _configs(sharding):
    groups = getattr(sharding, "_grouped_embedding_configs_per_rank", None)
    if groups is None:
        groups = [getattr(sharding, "_grouped_embedding_configs", [])]
    return [table for of_rank in groups for group in of_rank for table in group.embedding_tables]


def _learn(module):
    """The tables of each feature, and of each part of a sharded module that moves outputs."""
    if not isinstance(module, nn.Module) or module in _seen or not getattr(module, "_output_dists", None):
        return
    shardings = getattr(module, "_embedding_shardings", None)
    if shardings is None:
        shardings = getattr(module, "_sharding_type_to_sharding", {}).values()
    for sharding, moves in zip(shardings, module._output_dists):
        configs = _configs(sharding)
        _tables[moves] = list(dict.fromkeys(config.name for config in configs))
        for config in configs:
            for feature in config.feature_names:
                _features.setdefault(feature.split("@")[0], {})[config.name] = True
    _seen.add(module)


def _tables_of(features):
    return [table for feature in features for table in _features.get(feature.split("@")[0], {feature: True})]


def _input_keys(own):
    """The features whose ids a step of the input distribution moves."""
    parts = own._awaitables if hasattr(own, "_awaitables") else [own]  # of several modules at once
    return [key for part in parts if hasattr(part, "_input") for key in part._input.keys()]


def _of_torchrec(frames):
    for frame in frames:
        _learn(frame.f_locals.get("self"))
    for frame in frames:
        values, function = frame.f_locals, frame.f_code.co_name
        own = values.get("self")
        kind = type(own).__name__
        if kind == "KJTAllToAllTensorsAwaitable":
            return _named(f"input_dist {values.get('label', 'data')} of", _tables_of(values["input"].keys()))
        if kind in ("KJTAllToAllSplitsAwaitable", "FusedKJTListSplitsAwaitable"):
            return _named("input_dist splits of", _tables_of(_input_keys(own)))
        if function == "backward" and hasattr(values.get("ctx"), "myreq"):
            forward = getattr(values["ctx"].myreq, "_lockstep_purpose", None)
            return f"gradients of {forward}" if forward else None
        if isinstance(own, nn.Module) and own in _tables:
            made = _named("output_dist of", _tables[own])
            for inner in frames:  # the names of its gradients
                request = inner.f_locals.get("myreq")
                if request is not None:
                    request._lockstep_purpose = made
            return made
    return None


# ---- FSDP ----
def _flat_names(flat, frames):
    """The parameters of a flat parameter; their names in the root module, if a root is known."""
    orders = (getattr(frame.f_locals.get("state"), "_exec_order_data", None) for frame in frames)
    known = next((order.param_to_fqn for order in orders if order is not None), {})
    parts = [flat] if flat in known else flat._params or []
    return [name for part in parts for name in known.get(part, [])] or flat._fqns


def _of_fsdp(frames):
    for frame in frames:
        values, function = frame.f_locals, frame.f_code.co_name
        params = values.get("fsdp_params")
        if params:
            verb = "gradients of" if function == "foreach_reduce" else "parameters"
            return _named(verb, [getattr(param, "_param_fqn", None) for param in params])
        handle = values.get("handle", values.get("self"))
        flat = getattr(handle, "flat_param", None)
        if flat is not None:
            verb = "gradients of" if function.startswith("_reduce_grad") else "parameters"
            return _named(verb, _flat_names(flat, frames))
    return None


# ---- DDP ----
def _buckets(model):
    names = {parameter: name for name, parameter in model.module.named_parameters()}
    try:
        buckets = model.reducer._get_zeros_like_grad_buckets()
    except RuntimeError:  # sparse gradients have none
        return []
    return [(bucket.buffer().numel(), [names.get(parameter) for parameter in bucket.parameters()])
            for bucket in buckets]


def _after_forward(model):
    reducer = getattr(model, "reducer", None)
    if reducer is None or not torch.is_grad_enabled():
        return
    forwards = model.__dict__.setdefault("_lockstep_forwards", 0)
    if forwards < 2:  # the second forward rebuilds the buckets; they stay after that
        model.__dict__["_lockstep_buckets"] = _buckets(model)
        model.__dict__["_lockstep_forwards"] = forwards + 1
    model.__dict__["_lockstep_next"] = 0
    _reducing[:] = [other for other in _reducing if other() is not None and other() is not model]
    _reducing.append(weakref.ref(model))


def watch_ddp():
    """Records the names of the reducers' buckets."""
    from torch.nn.parallel import DistributedDataParallel as Model

    forward = Model.forward
    if getattr(forward, "_lockstep", False):
        return

    def forward_and_note(self, *inputs, **options):
        out = forward(self, *inputs, **options)
        _after_forward(self)
        return out

    forward_and_note._lockstep = True
    Model.forward = forward_and_note


def _of_ddp(elements):
    for reference in reversed(_reducing):
        model = reference()
        if model is None:
            continue
        buckets, at = model.__dict__["_lockstep_buckets"], model.__dict__["_lockstep_next"]
        if at < len(buckets) and buckets[at][0] == elements:
            model.__dict__["_lockstep_next"] = at + 1
            return _named("gradients of", buckets[at][1])
    return None


def _of_hook(bucket):
    """The call of a DDP communication hook, built in or the user's."""
    owned = {parameter: name for reference in _reducing if reference() is not None
             for name, parameter in reference().module.named_parameters()}
    return _named("gradients of", [owned.get(parameter) for parameter in bucket.parameters()])


def _of_ddp_state(values):
    """DDP's first broadcasts."""
    names = [name for name, _ in values["module"].named_parameters()]
    if values["broadcast_buffers"]:
        names += [name for name, _ in values["module"].named_buffers()]
    ignored = values["params_and_buffers_to_ignore"]
    return _named("parameters and buffers", [name for name in names if name not in ignored])


# ---- Of other modules ----
def _placements(spec):
    text = [f"S({at.dim})" if at.is_shard() else "P" if at.is_partial() else "R" for at in spec.placements]
    return text[0] if len(text) == 1 else f"({', '.join(text)})"


def _deepspeed_names(parameters):
    """By the names in the optimizer or module whose method runs, else by DeepSpeed's numbers, which are equal on all ranks."""
    frame, known = sys._getframe(), None
    while frame is not None and not known:
        own = frame.f_locals.get("self")
        if frame.f_globals.get("__name__", "").startswith("deepspeed.") and not isinstance(own, torch.Tensor):
            known, module = getattr(own, "param_names", None), getattr(own, "module", None)
            if not known and isinstance(module, nn.Module):
                known = {parameter: name for name, parameter in module.named_parameters()}
        frame = frame.f_back
    return [(known or {}).get(one, str(one.ds_id)) for one in parameters]


def _of_engine(values):
    """A bucket of DeepSpeed's engine, whose tensors are gradients of parameters."""
    owned = {parameter.grad.data_ptr(): name for name, parameter in values["self"].module.named_parameters()
             if parameter.grad is not None}
    names = [owned.get(tensor.data_ptr()) for tensor in values["bucket"]]
    return _named("gradients of", names if all(names) else []) or "gradients"


def _of_ipg(values):
    """A bucket of ZeRO 1 and 2."""
    own = values["self"]
    return _named("gradients of", [own.param_names.get(own.bit16_groups[group][at])
                                   for group, at, _ in values["bucket"].params]) or "gradients"


def _path(module, frame):
    """The module's name in the outermost module that runs it, without wrappers."""
    path = ""
    while frame is not None:
        outer = frame.f_locals.get("self")
        if isinstance(outer, nn.Module) and outer is not module:
            name = next((name for name, inner in outer.named_modules() if inner is module), None)
            path, module = (f"{name}.{path}" if path else name, outer) if name else (path, module)
        frame = frame.f_back
    while path.startswith("module."):
        path = path.removeprefix("module.")
    return path


def _of_layer(frames):
    """The activations of a tensor parallel layer of Megatron, or their gradients."""
    for frame in frames:
        if frame.f_code.co_name == "backward":
            return "gradients of activations"
        own = frame.f_locals.get("self")
        if isinstance(own, nn.Module):
            return f"activations of {_path(own, frame.f_back) or type(own).__name__}"
    return None


_MOVES = {"fwd": "activations", "bwd": "gradients", "F": "activations", "B": "gradients"}


def _of_pipeline(frames):
    """A message of a pipeline's schedule. Omits its microbatch number, since names are few."""
    values, op = {}, None
    for frame in reversed(frames):
        if frame.f_globals["__name__"] == "torch.distributed.pipelining.schedules":
            values.update(frame.f_locals)
        else:
            op = frame.f_locals.get("p2p_op", op)
    if "comp_type" in values:
        return f"{_MOVES[values['comp_type'].value[-1]]} of stage {values['stage_idx']}"
    if values.get("desc"):  # "fwd_send", or two of these in one batch
        words = values["desc"].split("_")
        way = words[words.index(op.op.__name__[1:]) - 1]
        return f"{_MOVES[way]} of stage {values['self']._stage.stage_index}"
    if not values:
        return None
    return "messages of stages" if "time_step" in values else "first messages of stages"


def _of_stages(values):
    """A message between neighbour stages of Megatron: activations go to the next stage, gradients to the previous one."""
    frame, tensor = sys._getframe(), None
    while frame is not None and tensor is None:
        if frame.f_code.co_name in ("isend", "irecv"):
            tensor = frame.f_locals.get("tensor")
        frame = frame.f_back
    way = next((name for name, value in values.items() if name.startswith("tensor_") and value is tensor), None)
    return {"tensor_send_next": "activations", "tensor_recv_prev": "activations", "tensor_send_prev": "gradients of activations",
            "tensor_recv_next": "gradients of activations"}.get(way, "messages of stages")


_NORMS = {**dict.fromkeys(("complete_grad_norm_calculation_for_cpu_offload", "get_grad_norm_direct", "clip_grad_norm_"),
                          "norm of gradients"),
          "has_overflow": "overflow of gradients"}
_OWNERS = {  # of a module and its functions: a purpose, or a function that derives it from the variables
    "torch.distributed.utils": {
        "_sync_module_states": _of_ddp_state, "_verify_param_shape_across_processes": "shapes of parameters"},
    "torch.nn.parallel.distributed": {
        "_sync_module_buffers": lambda values: _named("buffers", values["self"].named_module_buffers),
        "_pre_forward": "order of gradients"},
    "torch.distributed.optim.zero_redundancy_optimizer": {
        "_sync_params": "updated parameters", "consolidate_state_dict": "state of the optimizer"},
    "torch.distributed.fsdp.fully_sharded_data_parallel": {
        "clip_grad_norm_": "norm of gradients"},
    "torch.distributed.pipelining.stage": {
        "_shape_inference": lambda values: f"shapes of stage {values['self'].stage_index}"},
    "torch.distributed.checkpoint.utils": dict.fromkeys(
        ("reduce_scatter", "all_reduce", "all_gather", "broadcast"),
        lambda values: f"checkpoint: {values['step']}" if "step" in values else "checkpoint"),
    "deepspeed.runtime.engine": {
        "_broadcast_model": lambda values: _named("parameters", [values.get("n")]), "allreduce_bucket": _of_engine},
    "deepspeed.runtime.zero.stage_1_and_2": {"reduce_ipg_grads": _of_ipg, **_NORMS},
    "deepspeed.runtime.zero.stage3": {
        **dict.fromkeys(("__avg_scatter_grads", "__avg_scatter_contiguous_grads"), lambda values: _named(
            "gradients of", _deepspeed_names(values.get("params_to_reduce", values.get("params_in_bucket")) or []))),
        **_NORMS},
    "deepspeed.runtime.zero.partition_parameters": {
        **dict.fromkeys(("_all_gather_dtype", "_all_gather_sequential", "_all_gather_coalesced", "all_gather_coalesced"),
                        lambda values: _named("parameters", _deepspeed_names(values["params"]))),
        **dict.fromkeys(("_allgather_params_coalesced", "_allgather_params_sequential"), lambda values: _named(
            "parameters", _deepspeed_names(values["param_list"])))},
    "deepspeed.runtime.zero.utils": {
        "get_lst_from_rank0": "order of parameters"},
    "deepspeed.runtime.utils": {
        "all_gather_dp_groups": "updated parameters", **_NORMS},
    "megatron.core.tensor_parallel.data": {
        "broadcast_data": "the batch"},
    "megatron.core.tensor_parallel.cross_entropy": {
        "forward": "logits of the cross entropy"},
    "megatron.core.distributed.param_and_grad_buffer": {
        "start_param_sync": "parameters", "start_grad_sync": "gradients"},
    "megatron.core.distributed.distributed_data_parallel": {
        "broadcast_params": "parameters"},
    "megatron.core.distributed.finalize_model_grads": {
        "finalize_model_grads": "gradients"},
    "megatron.core.pipeline_parallel.p2p_communication": {
        "_batched_p2p_ops": _of_stages, "_p2p_ops": _of_stages, "_communicate_shapes": "shapes of activations"},
    "pytorch_lightning.trainer.connectors.logger_connector.result": dict.fromkeys(
        ("compute", "update"), lambda values: f"logged {values['self'].meta.name}"),
    "pytorch_lightning.loops.training_epoch_loop": {
        "_broadcast_sigterm_tensor": "whether to end"},
    "pytorch_lightning.trainer.connectors.signal_connector": {
        "_sigterm_notifier_fn": "whether to end"},
    "pytorch_lightning.strategies.parallel": {
        "reduce_boolean_decision": "a decision"},
    "transformers.trainer_pt_utils": {
        "distributed_concat": "transformers gather"},
    "accelerate.utils.operations": {
        name: f"accelerate {name}" for name in (
            "gather", "gather_object", "broadcast", "broadcast_object_list", "reduce", "pad_across_processes")},
    "torch.distributed.tensor._redistribute": {
        "redistribute_local_tensor": lambda values:
            f"redistribute {_placements(values['current_spec'])} to {_placements(values['target_spec'])}"},
}
_OBJECTS = {f"{name}_object{of}": f"objects of {name}_object{of}" for name, of in (
    ("all_gather", ""), ("gather", ""), ("broadcast", "_list"), ("scatter", "_list"), ("send", "_list"), ("recv", "_list"))}
_LAST = {  # if no other entry applies
    "torch.distributed.distributed_c10d": _OBJECTS, "torch.distributed.pipelining.schedules": {}}


def _of_owner(frames, owners):
    """The purpose by the nearest frame that is in a table."""
    for frame in frames:
        made = owners[frame.f_globals["__name__"]].get(frame.f_code.co_name)
        made = made(frame.f_locals) if callable(made) else made
        if made:
            return made
    return None


# ---- All ----
_ASKED = (  # in this order, by prefixes of module names
    ("torchrec", "torchrec.distributed.", _of_torchrec), ("owned", None, lambda frames: _of_owner(frames, _OWNERS)),
    ("fsdp", "torch.distributed.fsdp.", _of_fsdp), ("layers", "megatron.core.tensor_parallel.", _of_layer),
    ("last", None, lambda frames: _of_pipeline(frames) or _of_owner(frames, _LAST)))
_kinds = {}  # prefix of a module's name: its owner


def _kind(module):
    kind = "owned" if module in _OWNERS else "last" if module in _LAST else None
    kind = kind or next((kind for kind, begin, _ in _ASKED if begin and module.startswith(begin)), None)
    kind = kind or next((begin for begin in ("lockstep", "torch") if module.startswith(f"{begin}.")), "other")
    return _kinds.setdefault(module, kind)


def _purpose(elements):
    found, inner = {}, True
    frame, nearest, bucket = sys._getframe(2), None, None
    while frame is not None:
        module = frame.f_globals.get("__name__", "")
        kind = _kinds.get(module) or _kind(module)
        if kind != "lockstep":
            nearest = nearest or (module, frame.f_code.co_name)
            if kind == "other":
                inner = False  # the forward of an FSDP module is the program's
            elif kind != "torch" and (inner or kind != "fsdp"):
                found.setdefault(kind, []).append(frame)
        caller = frame.f_back
        if _reducing and (caller is None or caller.f_code.co_name == "_engine_run_backward"):  # of a DDP hook
            bucket = next((value for value in frame.f_locals.values() if type(value) is dist.GradBucket), bucket)
        frame = caller
    if bucket is not None:
        return _of_hook(bucket)
    if _reducing and (nearest is None or nearest[1] == "_engine_run_backward"):
        return _of_ddp(elements)
    for kind, _, ask in _ASKED:
        made = ask(found[kind]) if kind in found else None
        if made:
            return made
    return None


def purpose(elements):
    """The data of the current call of this many elements. None: unknown."""
    try:
        return _purpose(elements)
    except Exception:  # another version of a framework has other variables; the program's call continues
        return None
