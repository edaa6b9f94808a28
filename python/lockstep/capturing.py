"""A model's tensors in program order, for `lockstep diff` to compare with another run of the model.

Each rank writes rank_00000.safetensors and rank_00000.json. The JSON has each tensor's placement (a DTensor's mesh and placements) and, if
known, the operation and the tensors that it was computed from.
"""

import atexit
import ctypes
import fnmatch
import json
import math
import os
import re
import sys
import weakref

import torch
import torch.distributed as dist
from torch import nn

from lockstep import layouts, proof, tensor_files

PIPELINE = os.path.join("torch", "distributed", "pipelining", "stage.py")
SHORT = {torch.bfloat16: "bf16", torch.float16: "f16"}
ROUNDED = {"bf16": "bf16", "fp16": "f16"}  # types to which torch's communication hooks round gradients
KERNELS = (nn.Linear.forward, nn.Embedding.forward, nn.LayerNorm.forward)
CONVOLUTIONS = (nn.Conv1d, nn.Conv2d, nn.Conv3d, nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d)


def _type(dtype):
    """The safetensors name of a type: F16 for float16, BF16 for bfloat16, F8_E5M2 for float8_e5m2; None: it has none."""
    if dtype is torch.bool:
        return "BOOL"
    of = re.fullmatch(r"torch\.(b?)(f|u|i)(?:loat|int|nt)(8|16|32|64)(_e\d+m\d+)?(?:fn)?", str(dtype))
    return (of[1] + of[2] + of[3] + (of[4] or "")).upper() if of is not None else None


def raw(tensor):
    """Type, shape and bytes of a tensor, in the form of the file."""
    tensor = tensor.detach()
    if tensor.is_complex():
        tensor = torch.view_as_real(tensor.resolve_conj())
    tensor = tensor.cpu().contiguous()
    if tensor.dtype in (torch.int16, torch.uint16):  # lockstep has no type of this width
        tensor = tensor.to(torch.int32)
    size = tensor.numel() * tensor.element_size()
    return _type(tensor.dtype), list(tensor.shape), ctypes.string_at(tensor.data_ptr(), size) if size else b""


def _digest(content):
    """The identity of a tensor's content in this process: type, shape, and 64 bits of its data."""
    dtype, shape, data = content
    return dtype, tuple(shape), hash(data)


def _tensors(given):
    """The tensors in plain containers."""
    if isinstance(given, dict):
        given = tuple(given.values())
    if isinstance(given, (tuple, list)):
        return [tensor for one in given for tensor in _tensors(one)]
    return [given] if isinstance(given, torch.Tensor) else []


def _in_pipeline():
    """Whether a stage of torch's pipelines calls the model: "stage"; "shapes": only to infer shapes."""
    frame, found = sys._getframe(1), None
    while frame is not None:
        if frame.f_code.co_filename.endswith(PIPELINE):
            found = "shapes" if "shape_inference" in frame.f_code.co_name else found or "stage"
        frame = frame.f_back
    return found


class Capture:
    """Also a context manager. close() writes the captured tensors, at the latest when the process ends.

    placements: for tensors that are no DTensors, {name pattern: "S(0), R"} over the dimensions of `mesh`. gradient_scale: the factor from a
    rank's gradient of an activation to its share of the whole's; derived for DDP, FSDP2 and DTensor. steps: the number of optimizer steps
    to capture; the final weights are always captured. exact: capture values of exact arithmetic, as `lockstep prove` does; it stays on
    until the process ends.
    """

    def __init__(self, model, folder, *, placements=None, mesh=None, gradient_scale=None, steps=None, exact=False):
        if exact:
            proof.begin()
        is_trained = False
        if "LOCKSTEP_CAPTURE" in os.environ:
            from lockstep import models

            is_trained = models.is_trained()
            folder = models.folder(os.path.basename(os.path.normpath(folder)))
            steps = models.steps() if steps is None else steps
            models.add(self)
        self._limit = steps
        self._rank = dist.get_rank() if dist.is_initialized() else 0
        self._ranks = dist.get_world_size() if dist.is_initialized() else 1
        self._folder, self._placements, self._mesh = folder, placements if self._ranks > 1 and placements else {}, mesh
        self._index, self._hooks, self._not_kept, self._notes = [], [], {}, {}
        self._step, self._stepped, self._calls, self._graded, self._made = 0, False, {}, {}, {}
        self._kept = {}  # the type, shape and digest of each tensor, including other names of the same values
        self._written = {}  # those in the file
        self._latest = {}  # for each parameter: the name of its values, and their version
        self._state = {}  # for each parameter and buffer: the name of its last values
        self._shapes_only = False
        model = layouts.unwrapped(model)
        scale, self._data_ranks = layouts.data_parallel(model)
        self._scale = gradient_scale if gradient_scale is not None else scale
        self._sharded = hasattr(model, "_get_fsdp_state")
        in_ddp = isinstance(model, nn.parallel.DistributedDataParallel)
        self._sent = [hook.__name__ for hook, _ in model._comm_hooks] if in_ddp else []  # changes gradients before they are summed
        self._terms = in_ddp and not self._sent
        self.root = model.module if in_ddp else model
        self._flat, self._named = layouts.flat_names(self.root), {}
        self._blocks = layouts.table_blocks(self.root, self._rank)
        self._leave_flat("parameter")
        os.makedirs(folder, exist_ok=True)
        for ending in ("json", "safetensors", "safetensors.values"):  # of an earlier run
            if os.path.exists(self._path(ending)):
                os.remove(self._path(ending))
        self._writer = tensor_files.Writer(self._path("safetensors"))
        if proof.on():
            from lockstep.proof import shadows

            trained = [(name, parameter) for name, parameter in self._parameters() if parameter.requires_grad]
            for name, parameter in [*trained, *layouts.flat_parts(self.root)]:
                shadows.draw(name, parameter)
        for name, parameter in self._parameters():
            self._note_parameter(f"parameter {name}", name, parameter, moves=not is_trained or None)
            if parameter.requires_grad and self._terms and not layouts.is_fused(parameter):
                self._hooks.append(parameter.register_hook(self._local_gradient(name)))
        self._note_buffers("buffer", moves=not is_trained or None)
        for name, module in self.root.named_modules():
            self._watch(layouts.plain(name), module)
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
        """The model's parameters, and former ones that an optimizer may still have: DDP over tensor parallelism removes them from the
        model.
        """
        for name, parameter in self.root.named_parameters():
            self._named[layouts.plain(name)] = parameter
        return [(name, of) for name, of in self._named.items()
                if name not in self._flat and not (self._flat and name.endswith("_flat_param"))]

    def _leave_flat(self, label):
        for name in self._flat:
            self._not_kept.setdefault(f"{label} {name}", "FSDP keeps parts of flat parameters; fully_shard keeps parts that are compared")

    # ---- Notes ----
    def note(self, name, tensor, **about):
        """Records a tensor under a name; repeated names are numbered: "loss", "loss (call 1)". about: placements, mesh, optional (one of
        two runs may lack it).
        """
        name = name.replace("/", "|")
        calls = self._notes[name] = self._notes.get(name, -1) + 1
        self._keep(f"{name} (call {calls})" if calls else name, tensor, **about)

    def _placed(self, entry, name, of):
        """Adds the user's placements for a tensor, or for its module or parameter."""
        for pattern, placements in self._placements.items():
            if any(fnmatch.fnmatchcase(part, pattern) for part in (name, name.split(" ")[-1], of or name)):
                whole = any(fnmatch.fnmatchcase(part, pattern) for part in (name, f"backward {of}"))
                if " backward " in name and not whole:
                    placements = re.sub(r"P\(\w*\)|P(?![\w(])", "R", placements)  # each term of a sum gets the sum's gradient
                entry["placements"], entry["mesh"] = placements, list(self._mesh or [self._ranks])
                return

    def _keep(self, name, tensor, of=None, **about):
        name = name.replace("/", "|")
        if self._limit is not None and self._step >= self._limit and not name.startswith("end "):
            self._not_kept.setdefault(f"steps from {self._limit} on", f"the first {self._limit} steps are kept, and the weights at the end")
            return
        if name in self._kept:
            if not isinstance(tensor, torch.Tensor) or hasattr(tensor, "placements") or not layouts.has_values(tensor) or _digest(self._raw(tensor, {}, of)) != self._kept[name]:
                self._not_kept.setdefault(name, "several have this name; the first is compared")
            return
        if not isinstance(tensor, torch.Tensor):
            self._not_kept.setdefault(name, f"{type(tensor).__name__} is not a tensor")
            return
        if not layouts.has_values(tensor):
            self._not_kept.setdefault(name, "it has no values")
            return
        entry = {"name": name, **{key: value for key, value in about.items() if value is not None}}
        if hasattr(tensor, "placements") and hasattr(tensor, "device_mesh"):
            entry["placements"] = ", ".join(map(layouts.placement, tensor.placements))
            entry["shape"] = list(tensor.shape)
            entry["mesh"] = list(tensor.device_mesh.mesh.shape)
            entry["mesh_ranks"] = tensor.device_mesh.mesh.flatten().tolist()
            tensor = tensor.to_local()
        elif "placements" not in entry:
            self._placed(entry, name, of)
        if hasattr(tensor, "trigger_wait"):  # an asynchronous functional collective
            tensor = tensor.trigger_wait()
        if tensor.layout is not torch.strided:
            tensor = tensor.detach().to_dense()
        if _type(tensor.dtype) is None and not tensor.is_complex():
            self._not_kept.setdefault(name, f"safetensors has no type {tensor.dtype}")
            return
        block = self._block_of(of)
        if block is None:
            self._not_kept.setdefault(name, "a rank has shards of the table that are not one block")
            return
        if block:
            entry["offset"] = block[0]
        content, before = self._raw(tensor, entry, of), self._state.get(of)
        kept = self._kept[name] = _digest(content)
        if before is not None and self._written.get(before) == kept:
            entry["as"] = before  # values with an earlier name are written once
        else:
            self._written[name] = kept
            self._writer.add(name, *content)
        self._index.append(entry)

    def _block_of(self, of):
        """The block of a parameter or its gradient; (): it is whole or a DTensor."""
        return self._blocks.get(of[len("gradient "):] if of and of.startswith("gradient ") else of, ())

    def _raw(self, tensor, entry, of=None):
        """The recorded content of a tensor; of a proved one, its value in the field."""
        def joined(values):
            block = self._block_of(of)
            if not block:
                return values
            _, count, (rows, columns) = block
            return values.detach().reshape(count, rows, columns).transpose(0, 1).reshape(rows, count * columns)

        if not proof.on() or not tensor.is_floating_point():
            return raw(joined(tensor))
        from lockstep.proof import field, mode, shadows

        with mode.quiet():
            entry["modulus"], entry["opaque"] = field.P, shadows.opaque(tensor)
            return raw(joined(shadows.get(tensor).long()))

    def _note_state(self, name, of, tensor, **about):
        """Records a parameter or a buffer."""
        self._keep(name, tensor, of, **about)
        if name.replace("/", "|") in self._written:
            self._state[of] = name.replace("/", "|")

    def _note_parameter(self, name, of, parameter, **about):
        self._note_state(name, of, parameter, **about)
        self._latest[of] = (name, parameter._version, parameter.dtype)

    def _note_buffers(self, label, **about):
        for name, buffer in self.root.named_buffers():
            self._note_state(f"{label} {layouts.plain(name)}", layouts.plain(name), buffer, **about)

    # ---- Forward and the gradients of what it gives ----
    def _watch(self, name, module):
        of = id(module)  # copy.deepcopy() copies hooks, too
        self._hooks.append(module.register_forward_pre_hook(
            lambda module, inputs, named: self.enter(name, module, inputs, named) if id(module) == of else None, with_kwargs=True))
        self._hooks.append(module.register_forward_hook(
            lambda module, inputs, output: self._leave(name, module, inputs, output) if id(module) == of else None))

    def _evaluates(self):
        """Whether a call validates the model, as one rank may alone."""
        return not (self.root.training or torch.is_grad_enabled())

    def _kind(self):
        return " (evaluation)" if self._evaluates() else ""

    def _call_name(self, name):
        call = self._calls.get(name + self._kind(), 1) - 1
        return f"{name or 'model'}{self._kind()}{f' (call {call})' if call else ''}"

    def enter(self, name, module, inputs, named=None):
        """A module is called, possibly within another captured call."""
        if name == "":
            self._pipeline = _in_pipeline()
            self._shapes_only = self._pipeline == "shapes"
        if self._shapes_only:
            return
        if self._stepped and not self._evaluates():
            self._step, self._stepped, self._calls, self._made, self._graded = self._step + 1, False, {}, {}, {}
        self._calls[name + self._kind()] = self._calls.get(name + self._kind(), 0) + 1
        label = f"step {self._step} input {self._call_name(name)}"
        if isinstance(module, (nn.Linear, nn.Embedding)) and len(inputs) == 1:
            self._keep(label, inputs[0], name, optional=True)
        elif name == "" and self._pipeline is None:
            given = _tensors((inputs, named or {}))
            for at, one in enumerate(given):
                self._keep(f"{label}{f' [{at}]' if len(given) > 1 else ''}", one, name, optional=True)

    def _weight(self, name, module, part, output):
        """The recorded name of the weights that a module computes with; None: they are not recorded."""
        of = f"{name}.{part}" if name else part
        known, own = self._latest.get(of), getattr(module, part, None)
        if known is None or own is None:
            return None
        if known[1] != own._version and not self._sharded:  # changed outside of an optimizer
            self._note_parameter(f"step {self._step} changed {of} {own._version}", of, own, optional=True)
        return self._latest[of][0]

    def _arithmetic(self, output):
        """PyTorch's CPU kernels of linear layers and convolutions sum in float32 and round once."""
        return {"in": "f32"} if output.device.type == "cpu" and output.dtype in SHORT else {}

    def _computed(self, name, module, inputs, output):
        """The operation and inputs of an output."""
        if len(inputs) != 1 or not isinstance(output, torch.Tensor):
            return None
        source = f"step {self._step} input {self._call_name(name)}".replace("/", "|")
        weight = self._weight(name, module, "weight", output)
        if type(module).forward is nn.Linear.forward and weight is not None:
            bias = self._weight(name, module, "bias", output) if module.bias is not None else None
            if (module.bias is None) == (bias is None):
                return {"by": "linear", "input": source, "weight": weight, "bias": bias, **self._arithmetic(output)}
        if type(module).forward is nn.Embedding.forward and module.max_norm is None and weight is not None:
            return {"by": "embedding", "input": source, "weight": weight}
        return None

    def _leave(self, name, module, inputs, output):
        if self._shapes_only:
            self._shapes_only = name != ""
            return
        call = self._call_name(name)
        if name == "" and self._pipeline is not None:
            self._not_kept.setdefault(f"step {self._step} forward {call}", "a rank's model is a stage of a pipeline")
            return
        outputs = output if isinstance(output, (tuple, list)) else [output]
        outputs = list(output.items()) if isinstance(output, dict) else list(enumerate(outputs))
        several = isinstance(output, dict) or len(outputs) > 1
        for at, one in outputs:
            if not isinstance(one, torch.Tensor):
                continue
            label = f"{call}{f' [{at}]' if several else ''}"
            self._keep(f"step {self._step} forward {label}", one, name, optional=True,
                       made=self._computed(name, module, inputs, output))
            if one.requires_grad and self._scale is not None:
                one.register_hook(self._activation_gradient(f"step {self._step} backward {label}", name))
        if (type(module).forward in KERNELS or type(module) in CONVOLUTIONS) and \
                self._scale is not None and isinstance(output, torch.Tensor) and not self._evaluates():
            self._gradients_of(name, module, output, f"step {self._step} backward {call}")

    def _activation_gradient(self, label, of):
        def hook(gradient):
            if torch.is_grad_enabled():  # a term of the loss, by torch.autograd.grad(create_graph=True), and no gradient of it
                return
            shared = self._scale == 1 or layouts.shares_loss(gradient, self._data_ranks)
            # If every rank has a separate loss and the whole tensor, its gradient is a term of the whole's.
            own = not shared and len(self._data_ranks) == self._ranks and not hasattr(gradient, "placements")
            exact = shared or proof.on()  # a float may lose digits by its scale: the file has the factor
            self._keep(label, gradient * self._scale if exact and not shared else gradient, of, optional=True, own_losses=own or None,
                       scale=None if exact else self._scale)
        return hook

    def _gradients_of(self, name, module, output, gradient):
        source = f"step {self._step} input {self._call_name(name)}"
        prefix = f"{name}." if name else ""
        if isinstance(module, nn.LayerNorm):
            self._rows_of(prefix, module, output)
            return
        if type(module) in CONVOLUTIONS:
            if module.bias is not None and output.dim() == module.weight.dim():  # of a batch
                self._made[prefix + "bias"] = None if self._calls.get(name, 1) > 1 else {
                    "by": "channel bias", "gradient": gradient, **self._arithmetic(output)}
            return
        kind = "linear" if isinstance(module, nn.Linear) else "embedding"
        if kind == "embedding" and (module.scale_grad_by_freq or module.sparse or module.padding_idx is not None):
            return
        how = self._arithmetic(output) if kind == "linear" else {}
        made = {"weight": {"by": f"{kind} weight", "gradient": gradient, "input": source, **how}}
        if getattr(module, "bias", None) is not None:
            made["bias"] = {"by": "linear bias", "gradient": gradient, **how}
        for part, of in made.items():
            self._made[prefix + part] = None if self._calls.get(name, 1) > 1 else of

    def _rows_of(self, prefix, module, output):
        """PyTorch's CPU kernel of a layer norm in 16 bits adds the gradients of all rows in that type."""
        if output.device.type == "cpu" and output.dtype in SHORT:
            rows = output.numel() // math.prod(module.normalized_shape)
            for name in (prefix + "weight", prefix + "bias"):
                before = self._made.get(name, {"rows": 0})["rows"]
                self._made[name] = {"by": "rows", "in": SHORT[output.dtype], "rows": before + rows}

    def _local_gradient(self, name):
        def hook(gradient):
            self._graded[name] = self._graded.get(name, 0) + 1
            if self._graded[name] == 1:
                self._keep(f"step {self._step} part {name}", gradient, part=True)
        return hook

    # ---- The optimizer ----
    def _note_gradient(self, name, parameter):
        parts = f"step {self._step} part {name}"
        about = {"parts": {"name": parts, "op": "avg"}} if self._terms and self._graded.get(name) == 1 else {}
        made = self._made.get(name)
        for hook in self._sent:
            made = {"by": "rounded", "in": next((kind for key, kind in ROUNDED.items() if key in hook), "f32")}
        self._keep(f"step {self._step} gradient {name}", parameter.grad, f"gradient {name}", made=made, **about)

    def _is_updated(self, name, parameter):
        """Whether the program changed a parameter outside of an optimizer since it was recorded."""
        known = self._latest.get(name)
        return known is not None and known[1] != parameter._version and not self._sharded

    def _before(self, optimizer=None, taken=True):
        mine = None if optimizer is None else {id(p) for group in optimizer.param_groups for p in group["params"]}
        for name, parameter in reversed(self._parameters()):
            if layouts.is_fused(parameter) and parameter.grad is None:
                self._not_kept.setdefault(f"step {self._step} gradient {name}", "the backward itself updates it")
            elif not taken and self._is_updated(name, parameter):  # the program may keep the reduced gradient elsewhere
                self._not_kept.setdefault(f"step {self._step} gradient {name}", "the program changed the parameter without an optimizer")
            elif (mine is None or id(parameter) in mine) and parameter.grad is not None:
                self._note_gradient(name, parameter)

    def _after(self, optimizer):
        mine = {id(p) for group in optimizer.param_groups for p in group["params"]}
        for name, parameter in self._parameters():
            if id(parameter) in mine:
                made = {"by": "update", "weight": self._latest[name][0], "gradient": f"step {self._step} gradient {name}"}
                self._note_parameter(f"step {self._step} parameter {name}", name, parameter, optional=True, made=made)
                self._stepped = True
        if self._flat:
            self._leave_flat(f"step {self._step} gradient")
            self._leave_flat(f"step {self._step} parameter")
            self._stepped = True
        self._note_buffers(f"step {self._step} buffer")

    # ---- The files ----
    def close(self):
        """Writes the recorded tensors. Records gradients first that no optimizer has used."""
        if self._hooks is None:
            return
        if not self._stepped:
            self._before(taken=False)
        for name, parameter in self._parameters():
            self._note_state(f"end parameter {name}", name, parameter, fused=layouts.is_fused(parameter) or None)
        self._leave_flat("end parameter")
        self._note_buffers("end buffer")
        for hook in self._hooks:
            hook.remove()
        self._hooks = None
        atexit.unregister(self.close)
        self._writer.close()
        with open(self._path("json"), "w", encoding="utf-8") as file:
            json.dump({"format": 1, "rank": self._rank, "ranks": self._ranks, "tensors": self._index, "not_kept": [
                {"name": name, "why": why} for name, why in self._not_kept.items()]}, file, indent=1)
