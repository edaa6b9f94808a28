"""What a model has, tensor by tensor in program order, for `lockstep diff` to hold against another run of it.

Each rank writes rank_00000.safetensors and beside it rank_00000.json, which says of each tensor how it lies on the
ranks (of a DTensor its own mesh and placements) and, where that is known, of what it was computed.
"""

import atexit
import ctypes
import fnmatch
import json
import os
import re
import weakref

import torch
import torch.distributed as dist
from torch import nn

from lockstep import tensor_files

WRAPPED = ("_orig_mod.", "_checkpoint_wrapped_module.", "_fsdp_wrapped_module.", "module.")


def _type(dtype):
    """What safetensors calls a type: F16 of float16, BF16 of bfloat16, F8_E5M2 of float8_e5m2. None: not compared."""
    if dtype is torch.bool:
        return "BOOL"
    of = re.fullmatch(r"torch\.(b?)(f|u|i)(?:loat|int|nt)(8|16|32|64)(_e\d+m\d+)?(?:fn)?", str(dtype))
    if of is None or (of[2] != "f" and of[3] == "16"):
        return None
    return (of[1] + of[2] + of[3] + (of[4] or "")).upper()


def _plain(name):
    """A name without what wraps modules."""
    for wrapped in WRAPPED[:3]:
        name = name.replace(wrapped, "")
    return name


def _placement(placement):
    kind = type(placement).__name__
    if kind == "_StridedShard":
        return f"_S({placement.dim}, {placement.split_factor})"
    if placement.is_shard():
        return f"S({placement.dim})"
    return f"P({placement.reduce_op})" if placement.is_partial() else "R"


def raw(tensor):
    """Type, shape and bytes of a tensor, as a file has them."""
    tensor = tensor.detach()
    if tensor.is_complex():
        tensor = torch.view_as_real(tensor.resolve_conj())
    tensor = tensor.cpu().contiguous()
    size = tensor.numel() * tensor.element_size()
    return _type(tensor.dtype), list(tensor.shape), ctypes.string_at(tensor.data_ptr(), size) if size else b""


def _data_parallel(model):
    """The part of a gradient of the whole that a rank's own is: what DDP and FSDP2 divide by."""
    if isinstance(model, nn.parallel.DistributedDataParallel):
        return 1 / model.process_group.size()
    state = getattr(model, "_get_fsdp_state", None)
    if state is not None:
        for module in model.modules():
            group = getattr(module._get_fsdp_state(), "_fsdp_param_group", None) if hasattr(
                module, "_get_fsdp_state") else None
            if group is not None:
                return 1 / group.mesh_info.mesh.size()
    if not dist.is_initialized() or dist.get_world_size() == 1:
        return 1
    if any(hasattr(parameter, "placements") for parameter in model.parameters()):
        return 1  # tensor parallel alone: the ranks share one loss
    return None


class Capture:
    """A context, too; what is noted is written by close(), at the latest when the process ends.

    placements: for tensors that are no DTensors, {pattern of a name: "S(0), R"} over the dimensions of `mesh`.
    gradient_scale: what makes a rank's gradient of an activation its part of the whole's; known of DDP, FSDP2 and DTensor.
    """

    def __init__(self, model, folder, *, placements=None, mesh=None, gradient_scale=None):
        self._rank = dist.get_rank() if dist.is_initialized() else 0
        self._ranks = dist.get_world_size() if dist.is_initialized() else 1
        self._folder, self._placements, self._mesh = folder, placements if self._ranks > 1 and placements else {}, mesh
        self._tensors, self._index, self._hooks = {}, [], []
        self._step, self._stepped, self._calls, self._graded, self._made = 0, False, {}, {}, {}
        self._latest = {}  # of each parameter: the name that its values have, and their version
        self._scale = gradient_scale if gradient_scale is not None else _data_parallel(model)
        self._root = model.module if isinstance(model, nn.parallel.DistributedDataParallel) else model
        self._sharded = hasattr(model, "_get_fsdp_state")
        self._terms = isinstance(model, nn.parallel.DistributedDataParallel)
        os.makedirs(folder, exist_ok=True)
        for ending in ("json", "safetensors"):  # of an earlier run
            if os.path.exists(self._path(ending)):
                os.remove(self._path(ending))
        for name, parameter in self._parameters():
            self._note_parameter(f"parameter {name}", name, parameter)
            if parameter.requires_grad and self._terms:
                self._hooks.append(parameter.register_hook(self._local_gradient(name)))
        for name, buffer in self._root.named_buffers():
            self.note(f"buffer {_plain(name)}", buffer)
        for name, module in self._root.named_modules():
            self._watch(_plain(name), module)
        owner = weakref.ref(self)
        from torch.optim import optimizer

        self._hooks += [optimizer.register_optimizer_step_pre_hook(lambda o, *_: owner() and owner()._before(o)),
                        optimizer.register_optimizer_step_post_hook(lambda o, *_: owner() and owner()._after(o))]
        atexit.register(self.close)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def _path(self, ending):
        return os.path.join(self._folder, f"rank_{self._rank:05}.{ending}")

    def _parameters(self):
        return [(_plain(name), parameter) for name, parameter in self._root.named_parameters()]

    # ---- Notes ----
    def note(self, name, tensor, **about):
        """Keeps a tensor under a name; the first of a name stays. about: placements, mesh,
        optional (one of two runs may lack it)."""
        name = name.replace("/", "|")
        if name in self._tensors or not isinstance(tensor, torch.Tensor):
            return
        entry = {"name": name, **{key: value for key, value in about.items() if value is not None}}
        if hasattr(tensor, "placements") and hasattr(tensor, "device_mesh"):
            entry["placements"] = ", ".join(map(_placement, tensor.placements))
            entry["shape"] = list(tensor.shape)
            entry["mesh"] = list(tensor.device_mesh.mesh.shape)
            entry["mesh_ranks"] = tensor.device_mesh.mesh.flatten().tolist()
            tensor = tensor.to_local()
        elif "placements" not in entry:
            for pattern, placements in self._placements.items():
                if any(fnmatch.fnmatchcase(part, pattern) for part in (name, name.split(" ")[-1])):
                    entry["placements"], entry["mesh"] = placements, list(self._mesh or [self._ranks])
                    break
        if hasattr(tensor, "trigger_wait"):  # of a functional collective that is under way
            tensor = tensor.trigger_wait()
        if _type(tensor.dtype) is None and not tensor.is_complex():
            return
        self._tensors[name] = raw(tensor)
        self._index.append(entry)

    def _note_parameter(self, name, of, parameter, **about):
        self.note(name, parameter, **about)
        self._latest[of] = (name, parameter._version, parameter.dtype)

    # ---- Forward and the gradients of what it gives ----
    def _watch(self, name, module):
        self._hooks.append(module.register_forward_pre_hook(
            lambda module, inputs: self._enter(name, module, inputs), prepend=False))
        self._hooks.append(module.register_forward_hook(
            lambda module, inputs, output: self._leave(name, module, inputs, output)))

    def _call_name(self, name):
        call = self._calls[name] - 1
        return f"{name or 'model'}{f' (call {call})' if call else ''}"

    def _enter(self, name, module, inputs):
        if name == "" and self._stepped:
            self._step, self._stepped, self._calls, self._made, self._graded = self._step + 1, False, {}, {}, {}
        self._calls[name] = self._calls.get(name, 0) + 1
        if isinstance(module, (nn.Linear, nn.Embedding)) and len(inputs) == 1:
            self.note(f"step {self._step} input {self._call_name(name)}", inputs[0], optional=True)

    def _weight(self, name, module, part, output):
        """The name under which the weights that a module computes with stand; None: they do not."""
        of = f"{name}.{part}" if name else part
        known, own = self._latest.get(of), getattr(module, part, None)
        if known is None or own is None or known[2] != output.dtype or own.dtype != output.dtype:
            return None
        if known[1] != own._version and not self._sharded:  # changed by other than an optimizer
            self._note_parameter(f"step {self._step} changed {of} {own._version}", of, own, optional=True)
        return self._latest[of][0]

    def _computed(self, name, module, inputs, output):
        """Of what an output is computed, and how."""
        if len(inputs) != 1 or not isinstance(output, torch.Tensor):
            return None
        source = f"step {self._step} input {self._call_name(name)}".replace("/", "|")
        weight = self._weight(name, module, "weight", output)
        if type(module).forward is nn.Linear.forward and inputs[0].dtype == output.dtype and weight is not None:
            bias = self._weight(name, module, "bias", output) if module.bias is not None else None
            if (module.bias is None) == (bias is None):
                return {"by": "linear", "input": source, "weight": weight, "bias": bias}
        if type(module).forward is nn.Embedding.forward and module.max_norm is None and weight is not None:
            return {"by": "embedding", "input": source, "weight": weight}
        return None

    def _leave(self, name, module, inputs, output):
        call = self._call_name(name)
        outputs = output if isinstance(output, (tuple, list)) else [output]
        several = len(outputs) > 1
        for at, one in enumerate(outputs):
            if not isinstance(one, torch.Tensor):
                continue
            label = f"{call}{f' [{at}]' if several else ''}"
            self.note(f"step {self._step} forward {label}", one, optional=True,
                      made=self._computed(name, module, inputs, output))
            if one.requires_grad and self._scale is not None:
                one.register_hook(self._activation_gradient(f"step {self._step} backward {label}"))
        if type(module).forward in (nn.Linear.forward, nn.Embedding.forward) and self._scale is not None:
            self._gradients_of(name, module, inputs, f"step {self._step} backward {call}")

    def _activation_gradient(self, label):
        def hook(gradient):
            scaled = gradient if hasattr(gradient, "placements") or self._scale == 1 else gradient * self._scale
            self.note(label, scaled, optional=True)
        return hook

    def _gradients_of(self, name, module, inputs, gradient):
        source = f"step {self._step} input {self._call_name(name)}"
        kind = "linear" if isinstance(module, nn.Linear) else "embedding"
        if kind == "embedding" and (module.scale_grad_by_freq or module.sparse or module.padding_idx is not None):
            return
        prefix = f"{name}." if name else ""
        made = {"weight": {"by": f"{kind} weight", "gradient": gradient, "input": source}}
        if getattr(module, "bias", None) is not None:
            made["bias"] = {"by": "linear bias", "gradient": gradient}
        for part, of in made.items():
            self._made[prefix + part] = None if self._calls[name] > 1 else of

    def _local_gradient(self, name):
        def hook(gradient):
            self._graded[name] = self._graded.get(name, 0) + 1
            if self._graded[name] == 1:
                self.note(f"step {self._step} part {name}", gradient, part=True)
        return hook

    # ---- The optimizer ----
    def _note_gradient(self, name, parameter):
        parts = f"step {self._step} part {name}"
        about = {"parts": {"name": parts, "op": "avg"}} if self._terms and self._graded.get(name) == 1 else {}
        # Where something changed it after the backward (clipping), it is not what the backward gave.
        about["made"] = self._made.get(name) if parameter.grad._version <= 1 and \
            parameter.grad.dtype == parameter.dtype else None
        self.note(f"step {self._step} gradient {name}", parameter.grad, **about)

    def _before(self, optimizer=None):
        mine = None if optimizer is None else {id(p) for group in optimizer.param_groups for p in group["params"]}
        for name, parameter in reversed(self._parameters()):
            if (mine is None or id(parameter) in mine) and parameter.grad is not None:
                self._note_gradient(name, parameter)

    def _after(self, optimizer):
        mine = {id(p) for group in optimizer.param_groups for p in group["params"]}
        for name, parameter in self._parameters():
            if id(parameter) in mine:
                self._note_parameter(f"step {self._step} parameter {name}", name, parameter, optional=True)
                self._stepped = True

    # ---- The files ----
    def close(self):
        """Writes what was noted. Gradients that no optimizer took are noted first."""
        if self._hooks is None:
            return
        if not self._stepped:
            self._before()
        for hook in self._hooks:
            hook.remove()
        self._hooks = None
        atexit.unregister(self.close)
        tensor_files.write_raw(self._path("safetensors"), self._tensors)
        with open(self._path("json"), "w", encoding="utf-8") as file:
            json.dump({"format": 1, "rank": self._rank, "ranks": self._ranks, "tensors": self._index}, file, indent=1)
