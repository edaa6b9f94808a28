"""What a call moves, in the words of the module that makes it: the parameters of DDP and FSDP, the tables of TorchRec.

Nothing of theirs is changed: who makes a call is looked up in the Python frames above it. Of DDP, whose reducer
is not Python, the buckets are asked for after each forward, and told apart by their order and size.
"""

import sys
import weakref

import torch
from torch import nn

LONGEST = 96  # letters of a list of names
_features = {}  # a feature's tables, of the TorchRec modules that were seen
_tables = weakref.WeakKeyDictionary()  # of a module that distributes: the tables
_seen = weakref.WeakSet()
_reducing = []  # DDP models, weakly, in the order of their last forward


def listed(names):
    """The names, as many as are readable."""
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
    """The tables behind each feature, and behind each part of a sharded module that moves outputs."""
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
    """The features whose ids a step of the input's distribution moves."""
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
            for inner in frames:  # what its gradients will be known by
                request = inner.f_locals.get("myreq")
                if request is not None:
                    request._lockstep_purpose = made
            return made
    return None


# ---- FSDP ----
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
            return _named(verb, getattr(flat, "_fqns", []))
    return None


# ---- DDP ----
def _buckets(model):
    names = {parameter: name for name, parameter in model.module.named_parameters()}
    try:
        buckets = model.reducer._get_zeros_like_grad_buckets()
    except RuntimeError:  # gradients that are sparse have none
        return []
    return [(bucket.buffer().numel(), [names.get(parameter) for parameter in bucket.parameters()])
            for bucket in buckets]


def _after_forward(model):
    reducer = getattr(model, "reducer", None)
    if reducer is None or not torch.is_grad_enabled():
        return
    forwards = model.__dict__.setdefault("_lockstep_forwards", 0)
    if forwards < 2:  # the buckets are made again in the second forward, and stay
        model.__dict__["_lockstep_buckets"] = _buckets(model)
        model.__dict__["_lockstep_forwards"] = forwards + 1
    model.__dict__["_lockstep_next"] = 0
    _reducing[:] = [other for other in _reducing if other() is not None and other() is not model]
    _reducing.append(weakref.ref(model))


def watch_ddp():
    """Lets the reducers' buckets be known by name."""
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


# ---- All ----
def purpose(elements):
    """What the call moves that is being made, one of so many elements; None: nobody knows."""
    torchrec, fsdp = [], []
    frame, nearest = sys._getframe(1), None
    while frame is not None:
        module = frame.f_globals.get("__name__", "")
        if not module.startswith("lockstep."):
            nearest = nearest or (module, frame.f_code.co_name)
            if module.startswith("torchrec.distributed."):
                torchrec.append(frame)
            elif module.startswith("torch.distributed.fsdp."):
                fsdp.append(frame)
        frame = frame.f_back
    if _reducing and (nearest is None or nearest[1] == "_engine_run_backward"):
        return _of_ddp(elements)
    return (_of_torchrec(torchrec) if torchrec else None) or (_of_fsdp(fsdp) if fsdp else None)
