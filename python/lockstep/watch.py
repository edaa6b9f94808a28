"""Compares the state that ranks of a PyTorch program must share: parameters and optimizer states of replicas, settings of optimizers,
models that DDP wraps, and the order of manually reduced gradients.

Each rank records its values before an optimizer step, in program order; the coordinator compares them (exec/notes.c). No rank waits, and no
call is made. Only wrappers declare replicas: DistributedDataParallel, DeepSpeed's engine, and DTensors with a Replicate placement, as those
of FSDP2 and tensor parallelism. A plain module declares none.

Invariant: whether a step is recorded depends only on its number.
"""

import atexit
import ctypes
import gc
import os
import sys
import weakref

import torch
import torch.distributed as dist
from torch import nn

from lockstep import torch_client as client
from lockstep import watch_alike, watch_device
from lockstep import watch_buffers as buffers
from lockstep import watch_reductions as reductions
from lockstep import watch_scaling as scaling
from lockstep import watch_steps as steps

EXCUSED, STALE = 1, 2  # flags of a note (exec/wire.h)
AT_END = (1 << 64) - 1
DIVERGED, DIFFERS, SETTINGS = "replica.diverged", "model.differs", "optimizer.differs"
# DDP hooks that sum over all ranks. Others may not: local SGD has one.
SUMMING = ("torch.distributed.algorithms.ddp_comm_hooks.default_hooks", "torch.distributed.algorithms.ddp_comm_hooks.powerSGD_hook",
           "torch.distributed.algorithms.ddp_comm_hooks.quantization_hooks", "torch.distributed.algorithms.ddp_comm_hooks.mixed_precision_hooks")
_models = []  # of DDP and DeepSpeed, in the order of their wrapping
_steppers = weakref.WeakKeyDictionary()  # the _Stepper of an optimizer
_latest = []  # the last ones that stepped, and those whose last step summed no gradients: alive until they are recorded at the end
_state = {"installed": False}
within = []  # optimizers in a step, which step others that are not watched


def mode():
    return os.environ.get("LOCKSTEP_EXEC_WATCH", "off")


def quiet(function):
    """A program of an unusual kind runs as without this check."""
    def call(*arguments, **options):
        try:
            return function(*arguments, **options)
        except Exception:
            if "LOCKSTEP_WATCH_RAISES" in os.environ:
                raise
            return None
    return call


def is_noted(step):
    """Every step of the first ten, every tenth of the first hundred, and so on."""
    return mode() == "all" or step % (10 ** max(0, len(str(step)) - 1)) == 0


# ---- Values -------------------------------------------------------------------------------------
def _plain(name):
    return name.replace("_orig_mod.", "").replace("_fsdp_wrapped_module.", "").replace("_checkpoint_wrapped_module.", "")


def _local(tensor):
    return tensor.to_local() if hasattr(tensor, "to_local") else tensor


def _value(items, kept, name, tensor):
    from lockstep.torch_backend import types

    tensor = _local(tensor.detach())
    if tensor.layout is not torch.strided or tensor.is_meta or type(tensor) not in (torch.Tensor, nn.Parameter):
        return
    number, times = types().get(tensor.dtype, (None, 1))
    if number is None:
        return
    digested = watch_device.takes(tensor)
    whole = tensor if digested else tensor.contiguous().cpu()
    kept.append(whole)
    items.append(client.Item(name=name.encode(), shown=str(list(whole.shape)).encode(), count=whole.numel() * times, dtype=number,
                             digested=digested, data=None if digested else ctypes.c_void_p(whole.data_ptr() or None)))


def _text(name, shown):
    return client.Item(name=name.encode(), shown=shown.encode())


def _setting(value):
    if isinstance(value, torch.Tensor):
        return value.tolist() if value.numel() == 1 else None
    return value if isinstance(value, (int, float, bool, str, tuple, list, type(None))) else None


# ---- Replicas ------------------------------------------------------------------------------------
class _Wrapped:
    """A model of DDP or DeepSpeed: how its gradients were computed since the last step. replicated: its parameters are replicas."""

    def __init__(self, model, kind, group, ignored, replicated=True):
        self.model, self.replicated = weakref.ref(model), replicated
        self.members = tuple(sorted(dist.get_process_group_ranks(group)))
        self._names = {id(parameter): (_plain(name), weakref.ref(parameter))
                       for name, parameter in model.module.named_parameters() if name not in ignored}
        number = _state["models", self.members] = _state.get(("models", self.members), 0) + 1
        self._key, self.joins = kind + (f" {number}" if number > 1 else ""), 0
        self.summed = self.local = 0  # forwards since the last step
        self.loaded, self._promised = "", True
        self.work = steps.Work(model, self.members, kind)
        _models[:] = [*[one for one in _models if one.model() is not None], self]

    @property
    def key(self):
        """A new epoch after a join(), whose ranks may have stepped more or less often."""
        return f"{self._key}#{self.joins}" if self.joins else self._key

    def name(self, parameter):
        name, of = self._names.get(id(parameter), (None, None))
        return name if of is not None and of() is parameter else None

    def promises(self):
        model = self.model()
        if model is not None:
            self._promised = all(getattr(hook, "__module__", "") in SUMMING for hook, _ in getattr(model, "_comm_hooks", []))
        return self._promised


def _members_of(tensor):
    """The ranks that hold the same part of a DTensor; None: only this rank."""
    mesh, placements = tensor.device_mesh, tensor.placements
    at = mesh.get_coordinate()
    if at is None or any(placement.is_partial() for placement in placements):
        return None
    index = tuple(slice(None) if placement.is_replicate() else place for placement, place in zip(placements, at))
    members = mesh.mesh[index].flatten().tolist()
    return tuple(sorted(members)) if len(members) > 1 else None


def _names_of(parameters):
    """For parameters: their names in the outermost modules that contain them."""
    wanted, found = {id(parameter) for parameter in parameters}, {}
    modules = [one for one in gc.get_objects() if issubclass(type(one), nn.Module) and "_modules" in one.__dict__]
    inner = {id(child) for module in modules for child in module._modules.values()}
    for module in modules:
        if id(module) not in inner:
            for name, parameter in module.named_parameters():
                if id(parameter) in wanted:
                    found.setdefault(id(parameter), _plain(name))
    return found


class _Replicas:
    """Parameters of one optimizer that the same ranks share."""

    def __init__(self, key, members, wrapped, began):
        self.key, self.members, self.wrapped, self.parameters = key, members, wrapped, []
        self.began = began  # the number of steps that the optimizer had taken
        # excused: no step since the last record had a sum of gradients. history: the reason of a difference.
        self.versions, self.history, self.excused = None, "", False


class _Stepper:
    """An optimizer: the replicas among its parameters, its steps, and its manually reduced gradients."""

    def __init__(self, optimizer):
        self.optimizer = weakref.ref(optimizer)
        self.steps, self.known, self.sets, self.plain, self.number = 0, None, [], [], None
        self.closure, self.works, self._begun, self.gradients, self.sharded = False, [], {}, steps.Gradients(), []
        self._scalings, self._alike = {}, watch_alike.Alike(optimizer)  # scalings by name and ranks

    def learn(self):
        """Finds the replicas among the parameters; again after models or parameters change."""
        parameters = [parameter for group in self.optimizer().param_groups for parameter in group["params"]]
        known = ([one.key for one in _models], len(steps._works), [id(parameter) for parameter in parameters])
        if known == self.known:
            return
        self.works = steps.works_of(parameters)
        before, made = {(one.key, one.members): one for one in self.sets}, {}
        self.known, self.plain = known, []
        sharded = {}
        of_ddp = {id(parameter): one for one in _models for parameter in parameters if one.name(parameter)}
        names = _names_of([parameter for parameter in parameters if id(parameter) not in of_ddp])
        for parameter in parameters:
            wrapped = of_ddp.get(id(parameter))
            name = wrapped.name(parameter) if wrapped is not None else names.get(id(parameter))
            is_dtensor = hasattr(parameter, "device_mesh")
            if wrapped is None and not is_dtensor:
                self.plain.append((name, parameter))
                continue
            members = wrapped.members if wrapped is not None else _members_of(parameter)
            if wrapped is not None and not wrapped.replicated:
                sharded.setdefault(members, _Replicas(wrapped.key, members, None, self.steps)).parameters.append((name, parameter))
                continue
            if name is not None and members is None:
                ranks = tuple(sorted(parameter.device_mesh.mesh.flatten().tolist()))
                sharded.setdefault(ranks, _Replicas("sharded DTensors", ranks, None, self.steps)).parameters.append((name, parameter))
            if name is None or members is None or len(members) < 2:
                continue
            key = wrapped.key if wrapped is not None else "replicas of DTensors"
            if (key, members) not in made:
                one = made[key, members] = _Replicas(key, members, wrapped, self.steps)
                old = before.get((key, members))
                if old is not None:
                    one.history, one.excused = old.history, old.excused
            made[key, members].parameters.append((name, parameter))
        self.sets, self.sharded = list(made.values()), list(sharded.values())
        self._learn_shards(parameters)
        of_models = [one for one in self.sets if one.wrapped is not None]
        self._alike.watch([*self.plain, *[entry for one in of_models for entry in one.parameters]], sum((one.members for one in of_models), ()))
        if self.sets and self.number is None:  # index among the optimizers of the same replicas, in the order of their first steps
            key = (self.sets[0].key, self.sets[0].members)
            self.number = _state[key] = _state.get(key, -1) + 1

    def _learn_shards(self, parameters):
        shards = {(scaling.FSDP1, work.members): work.parts(parameters) for work in self.works if work.kind == scaling.FSDP1}
        for parameter in parameters:
            if hasattr(parameter, "device_mesh") and any(placement.is_shard() for placement in parameter.placements):
                ranks = tuple(sorted(parameter.device_mesh.mesh.flatten().tolist()))
                shards.setdefault((scaling.DTENSORS, ranks), []).append(parameter)
        self._scalings = {which: self._scalings.get(which) or scaling.Scaling(*which) for which in shards}
        for which, one in self._scalings.items():
            one.watch(shards[which])

    # ---- Notes ----
    def _note_settings(self, one, key):
        optimizer, items = self.optimizer(), []
        names = {id(parameter): name for name, parameter in one.parameters}
        for group in optimizer.param_groups:
            first = next((names[id(parameter)] for parameter in group["params"] if id(parameter) in names), None)
            if first is not None:
                shown = ", ".join(f"{name} {value}" for name, value in (
                    (name, _setting(value)) for name, value in sorted(group.items())
                    if name not in ("params", "param_names", "initial_lr")) if value is not None)
                items.append(_text(f"settings of {type(optimizer).__name__} for {first}", shown))
        if hasattr(optimizer, "_partition_parameters") and self.steps == one.began:  # ZeRO's: ranks own them by their order
            items += [_text(f"parameter {at} of {type(optimizer).__name__}", name) for at, (name, _) in enumerate(one.parameters, 1)]
        client.get().note(SETTINGS, key, self._about(one), one.members, step=self.steps - one.began, items=items)

    def note_values(self, one, step, flags=0, states=True):
        items, kept, state = [], [], self.optimizer().state if states else {}
        for name, parameter in one.parameters:
            _value(items, kept, name, parameter)
        for name, parameter in one.parameters:
            for what, value in sorted(state.get(parameter, {}).items()):
                if isinstance(value, torch.Tensor) and value.numel() > 1:
                    _value(items, kept, f"{what} of {name}", value)
        kept += watch_device.fill(items, kept)
        client.get().note(DIVERGED, self._key(one), self._about(one), one.members, step=step, items=items,
                          flags=flags | (EXCUSED if one.excused else 0))

    @staticmethod
    def _about(one):
        loaded = f"loaded a state at {one.wrapped.loaded}" if one.wrapped is not None and one.wrapped.loaded else ""
        return "; ".join(text for text in (one.history, loaded) if text)

    def _key(self, one):
        number = f", optimizer {self.number + 1}" if self.number else ""
        name, *joins = one.key.split("#")
        return "#".join([name + number, *joins])

    def before(self, closure):
        self.learn()
        self.closure = closure
        if isinstance(self.optimizer(), torch.optim.Optimizer):
            self._alike.before(self.optimizer(), self.steps, is_noted(self.steps) and not closure, _value)
        reductions.note(self.optimizer(), self.plain, self.steps, is_noted(self.steps))
        for one in self.sharded:
            if len(one.members) > 1 and is_noted(self.steps - one.began):
                self._note_settings(one, self._key(one))
        for one in self.sets:
            if one.wrapped is not None and not one.wrapped.promises():
                continue
            if is_noted(self.steps - one.began):
                self._note_settings(one, self._key(one))
                at = self.steps - one.began  # states are most of the data, and parameters show a difference one step later
                self.note_values(one, at, states=mode() == "all" or at == 10 ** (len(str(at)) - 1))
                one.excused = True
            self._account(one)
        if not closure:
            self._note_steps()

    def _key_of(self, work):
        """The model's name and the optimizer's number: each optimizer of a model is compared separately."""
        model = next((one for one in _models if one.work is work), None)
        name, *joins = (model.key if model is not None else f"{work.kind} model {work.number}").split("#")
        return "#".join([name + (f", optimizer {self.number + 1}" if self.number else ""), *joins])

    def _note_steps(self):
        """The work of the ranks since the last step."""
        optimizer = self.optimizer()
        parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
        if isinstance(optimizer, torch.optim.Optimizer):  # DeepSpeed's engine has freed the gradients, or holds them flat
            self.gradients.before(optimizer, parameters, self.steps)
        if self.steps == 0:
            steps.note_initial(parameters)
        for work in self.works:
            key = self._key_of(work)
            began = self._begun.setdefault(key, self.steps)
            if is_noted(self.steps - began):
                work.note(key, self.steps - began)
        if is_noted(self.steps):
            steps.looks_at_values(optimizer, self._named(), self.steps)
            for one in self._scalings.values():
                one.note(self.steps + 1)

    def _named(self):
        return [*self.plain, *[entry for one in [*self.sets, *self.sharded] for entry in one.parameters]]

    def _account(self, one):
        """How this step's gradients were computed: the reason if the values differ after it."""
        wrapped = one.wrapped
        graded = any(parameter.grad is not None for _, parameter in one.parameters)
        if wrapped is None or wrapped.summed or not graded:
            one.excused = False
            return
        why = "its forward ran in no_sync()" if wrapped.local else \
            "no forward of the DistributedDataParallel model ran; was its .module called?"
        one.history = one.history or f"no gradient was reduced in step {self.steps - one.began + 1}: {why}"

    def after(self):
        if self.closure:  # the forward and backward ran in the step
            self._note_steps()
        self.steps += 1
        self._alike.after(is_noted(self.steps))
        steps.step_ends()
        for work in self.works:
            work.stepped()
        for one in self.sets:
            one.versions = [parameter._version for _, parameter in one.parameters]
            if one.wrapped is not None:
                one.wrapped.summed = one.wrapped.local = 0
        kept = [entry for entry in _latest if entry[0] is not self and any(one.excused for one in entry[0].sets)]
        _latest[:] = [*kept, (self, self.optimizer())]

    def at_end(self):
        steps.looks_at_values(self.optimizer(), self._named(), self.steps)
        for work in self.works:
            key = self._key_of(work)
            if key in self._begun:
                steps.note_end(key, work.members, self.steps - self._begun[key])
        for one in self.sets:
            if one.versions is None or (one.wrapped is not None and not one.wrapped.promises()):
                continue
            stale = one.versions != [parameter._version for _, parameter in one.parameters]
            self.note_values(one, self.steps - one.began if not stale else AT_END, STALE if stale else 0)


# ---- Hooks --------------------------------------------------------------------------------------
@quiet
def reduced(group, tensors, work):
    """A sum or mean over a group was issued, with these tensors as results."""
    if mode() != "off":
        for tensor in tensors:
            steps.reduces(tensor)
        reductions.made(group, tensors, work)
        watch_alike.summed(group, tensors)


@quiet
def issued(group, calls):
    return buffers.issued(group, calls) if mode() != "off" else None


@quiet
def broadcast(group, tensor, work):
    if mode() != "off":
        reductions.made(group, [tensor], work)


@quiet
def before_step(optimizer, arguments=(), options=None):
    if within or steps.is_nested(optimizer) or not dist.is_initialized() or dist.get_world_size() < 2 or torch.compiler.is_compiling():
        return
    stepper = _steppers.get(optimizer)
    if stepper is None:
        stepper = _steppers[optimizer] = _Stepper(optimizer)
    stepper.before(closure=(arguments[1:] or ((options or {}).get("closure"),))[0] is not None)


@quiet
def after_step(optimizer, *_):
    stepper = _steppers.get(optimizer) if not within and not steps.is_nested(optimizer) else None
    if stepper is not None:
        stepper.after()


@quiet
def _at_end(*_):
    for optimizer, stepper in list(_steppers.items()):
        stepper.gradients.at_end(optimizer, list(_steppers), stepper.steps)
    for stepper, _ in _latest:
        stepper.at_end()
    _latest.clear()


@quiet
def note_wrapping(module, kind, group):
    members = sorted(dist.get_process_group_ranks(group))
    ignored = getattr(module, "_ddp_params_and_buffers_to_ignore", ())  # tables of TorchRec, which are sharded
    parameters = [(_plain(name), one) for name, one in module.named_parameters() if name not in ignored]
    items = [_text("the order of parameters", ", ".join(name for name, _ in parameters) or "none")]
    items += [_text(name, f"{str(one.dtype).removeprefix('torch.')} {list(getattr(one, 'ds_shape', one.shape))}, "
                          f"{'trainable' if one.requires_grad else 'frozen (requires_grad is False)'}")
              for name, one in parameters]
    number = _state["wraps", tuple(members)] = _state.get(("wraps", tuple(members)), -1) + 1
    if len(members) > 1:
        client.get().note(DIFFERS, f"model {number + 1} of {kind}", "", members, items=items[1:] + items[:1])


def _of(model):
    return next((one for one in _models if one.model() is model), None)


@quiet
def wrapped(*arguments):
    _Wrapped(*arguments)


@quiet
def runs(model, inputs):
    one = _of(model)
    if one is not None and torch.is_grad_enabled():
        one.work.runs(inputs, is_noted, mode() == "all")
        one.work.inside = True
        if getattr(model, "require_backward_grad_sync", True):
            one.summed += 1
        else:
            one.local += 1


@quiet
def returned(model):
    one = _of(model)
    if one is not None:
        one.work.inside = False


@quiet
def _loaded(module, frame):
    for one in _models:
        model = one.model()
        if model is not None and any(part is module for part in (model, *model.module.modules())):
            one.loaded = f"{os.path.relpath(frame.f_code.co_filename)}:{frame.f_lineno}"


def install():
    """Watches optimizers and DDP, from the first process group on. Returns whether it does."""
    if _state["installed"] or mode() == "off" or "LOCKSTEP_PROVE" in os.environ:
        return _state["installed"]
    _state["installed"] = True
    from torch.distributed import distributed_c10d as c10d
    from torch.distributed.algorithms.join import Join
    from torch.nn.parallel import DistributedDataParallel as Model
    from torch.optim import optimizer

    optimizer.register_optimizer_step_pre_hook(before_step)
    optimizer.register_optimizer_step_post_hook(after_step)
    make, forward, destroy = Model.__init__, Model.forward, c10d.destroy_process_group
    load, leave, kind = nn.Module.load_state_dict, Join.__exit__, "DistributedDataParallel"

    def make_and_note(self, module, *arguments, **options):
        group = options.get("process_group") or (arguments[4] if len(arguments) > 4 else None)
        note_wrapping(module, kind, group or dist.group.WORLD)
        make(self, module, *arguments, **options)
        wrapped(self, kind, self.process_group, getattr(self, "parameters_to_ignore", ()))

    def forward_and_note(self, *inputs, **options):
        runs(self, (inputs, options))
        try:
            return forward(self, *inputs, **options)
        finally:
            returned(self)

    def load_and_note(self, *arguments, **options):
        result = load(self, *arguments, **options)
        _loaded(self, sys._getframe(1))
        return result

    def leave_and_count(self, *of_error):
        result = leave(self, *of_error)
        for one in map(_of, self._joinables):
            if one is not None:
                one.joins += 1
        return result

    def end_and_destroy(group=None):
        if group is None or group is dist.group.WORLD:
            _at_end()
        return destroy(group)

    make_and_note.__wrapped__, forward_and_note._lockstep = make, getattr(forward, "_lockstep", False)
    Model.__init__, Model.forward = make_and_note, forward_and_note
    nn.Module.load_state_dict, Join.__exit__ = load_and_note, leave_and_count
    c10d.destroy_process_group = dist.destroy_process_group = end_and_destroy
    atexit.register(_at_end)
    steps.install(quiet, is_noted, mode() == "all")
    return True
