"""Observes the work and the data of ranks in a step of a PyTorch program, and the first NaN. watch.py observes their state, and calls this.

A difference of work is a finding. A difference that may be intended is a hint: two ranks with one batch, for example (exec/notes.c).
"""

import sys
import weakref

import torch
import torch.distributed as dist

from lockstep import torch_client as client
from lockstep import watch_alike, watch_device, watch_initial, watch_scaling, watch_values

HINT, APART = 4, 8  # flags of a note (exec/wire.h)
WORK, UNREDUCED, REPEATED, DATA, NAN, INF = ("work.differs", "gradient.unreduced", "data.repeated", "data.differs",
                                             "value.nan_first", "value.inf_first")
KEPT = "gradient.kept"
MODULES_LISTED, CALLS_NOTED = 3, 32
_works = []  # of models whose forwards are observed: DDP and the roots of FSDP
_samplers = weakref.WeakKeyDictionary()  # of DistributedSampler's
_gradients = weakref.WeakSet()  # of optimizers
_clipped = set()  # memory of gradients that clip_grad_norm_ has read since the last step
_state = {"backwards": 0, "steps": 0, "replicated": 0, "sampler": None, "hinted": set(), "nan": False}


def tell(finding, text, flags=0):
    """Reports a finding or hint of this rank, once."""
    if (finding, text) not in _state["hinted"]:
        _state["hinted"].add((finding, text))
        client.get().note(finding, text, flags=flags)


def text_item(name, shown):
    return client.Item(name=name.encode(), shown=shown.encode())


def _tensors(value):
    if isinstance(value, torch.Tensor):
        return [value] if watch_values.is_plain(value) and value.numel() else []
    if isinstance(value, dict):
        value = list(value.values())
    return [tensor for part in value for tensor in _tensors(part)] if isinstance(value, (list, tuple)) else []


def _held():
    """The models that are not gone, which this list keeps."""
    return [(one, model) for one, model in [(one, one.model()) for one in _works] if model is not None]


def _alive():
    return [one for one, _ in _held()]


# ---- Work ---------------------------------------------------------------------------------------
class Work:
    """The work of a wrapped model since the last step of its optimizer."""

    def __init__(self, model, members, kind="DistributedDataParallel"):
        self.model, self.members, self.steps, self.kind = weakref.ref(model), members, 0, kind
        self._pending, self._inner, self.inside = None, {}, False  # inside: the forward, where its end is known
        self._clear()
        self.number = _state["made", members] = _state.get(("made", members), 0) + 1
        _works[:] = [*_alive(), self]

    def _clear(self):
        self._backwards, self._types, self._resting, self._frozen, self._kept, self._inputs, self._random = 0, {}, (), (), False, [], ""

    def runs(self, inputs, is_noted, everything):
        """A forward begins, whose backward may follow. is_noted: of a number of steps: ranks agree on this model's."""
        model, noted = self.model(), is_noted(self.steps)
        device = next((parameter.device.type for parameter in model.parameters()), "cpu")
        is_cast = torch.is_autocast_enabled(device)
        cast = str(torch.get_autocast_dtype(device)).removeprefix("torch.") if is_cast else "off"
        resting = tuple(name or "the model" for name, part in model.named_modules() if not part.training) if noted else ()
        own = getattr(model, "parameters_to_ignore", ())  # tables of TorchRec, of which each rank has others
        frozen = tuple(name for name, one in _named(model) if not one.requires_grad and name not in own) if noted else ()
        self._pending, self._inner = (cast, resting, frozen, noted), {}
        if noted:
            self._inputs += _tensors_digest(inputs)
            if everything and any(isinstance(part, torch.nn.modules.dropout._DropoutNd) and part.p > 0 and part.training
                                  for part in model.modules()):
                self._random = watch_values.digest([torch.get_rng_state()])

    def casts(self, cast):
        """An autocast in the forward, as frameworks have that wrap the inner model's."""
        if self.inside:
            self._inner[cast] = True

    def goes_back(self):
        if self._pending is None:
            return
        cast, self._resting, self._frozen, noted = self._pending
        self._types.update(self._inner)
        self._types[cast] = True
        if self._backwards == 0 and noted:
            smallest = min((one for one in self.model().parameters() if one.requires_grad), key=torch.Tensor.numel, default=None)
            gradient = smallest.grad if smallest is not None else None
            gradient = gradient.to_local() if hasattr(gradient, "to_local") else gradient
            self._kept = gradient is not None and bool(gradient.any())
        self._backwards += 1
        self._pending = None

    def note(self, key, step):
        if self._backwards == 0:  # the replicas' difference has a reason
            return
        client.get().note(WORK, f"{key}, work of a step", "", self.members, step=step + 1, items=[
            text_item("the number of backwards", str(self._backwards)),
            text_item("autocast", ", ".join(sorted(self._types)) or "off"),
            text_item("the set of modules in evaluation mode", _listed(self._resting)),
            text_item("the set of frozen parameters", _listed(self._frozen)),
            text_item("the gradient before the first backward", "kept from an earlier step" if self._kept else "none")])
        why = "ranks that train on the same data compute the same gradients; add a DistributedSampler or a seed per rank"
        for what, value in (("the inputs", " ".join(self._inputs)), ("the state of the random generator", self._random)):
            if value:
                client.get().note(REPEATED, f"{key}#{what}", why if what == "the inputs" else
                                  "dropout drops the same elements on these ranks", self.members,
                                  flags=HINT | APART, step=step, items=[text_item(what, value)])

    def stepped(self):
        self.steps += 1
        self._clear()

    def parts(self, parameters):
        """Those of the model."""
        model = self.model()
        ids = {id(parameter) for parameter in model.parameters()} if model is not None else ()
        return [parameter for parameter in parameters if id(parameter) in ids]


def _listed(names):
    return ", ".join([*names[:MODULES_LISTED], *(["..."] if len(names) > MODULES_LISTED else [])]) or "none"


def _named(model):
    return [(name.removeprefix("module."), parameter) for name, parameter in model.named_parameters()]


def _tensors_digest(inputs):
    tensors = _tensors(inputs)
    return [watch_values.digest(tensors)] if tensors else []


def works_of(parameters):
    """The models that contain some of these parameters."""
    return [one for one in _alive() if one.parts(parameters)]


def _root_of_fsdp2(module, inputs, is_noted, everything):
    one = next((one for one in _alive() if one.model() is module), None)
    if one is None:
        groups = [part._get_fsdp_state()._fsdp_param_group for part in module.modules() if hasattr(part, "_get_fsdp_state")]
        mesh = next((group.mesh_info.mesh for group in groups if group is not None), None)
        if mesh is None or mesh.size() < 2:
            return
        one = Work(module, tuple(sorted(mesh.mesh.flatten().tolist())), "FSDP2")
    one.runs(inputs, is_noted, everything)


def _root_of_fsdp1(module, inputs, is_noted, everything):
    one = next((one for one in _alive() if one.model() is module), None)
    if one is None:
        members = tuple(sorted(dist.get_process_group_ranks(module.process_group)))
        if len(members) < 2:
            return
        one = Work(module, members, "FullyShardedDataParallel")
    one.runs(inputs, is_noted, everything)


def note_end(key, members, steps):
    client.get().note(WORK, f"{key}, the whole run", "", members, step=(1 << 64) - 1,
                      items=[text_item("the number of steps", str(steps))])


# ---- Gradients ----------------------------------------------------------------------------------
class Gradients:
    """Whether an optimizer has any, and those of this step alone."""

    def __init__(self):
        self._backwards, self._empty, self._kept = 0, 0, 0
        self._smallest = self._zeroed = None  # zeroed: whether its gradient was, as a backward began; None: not known
        self._outside = None  # parameters in no wrapped model that had no gradient so far
        self._alike, self._replaced = {}, 0  # the wrapped models' of the same shapes, by identity; how many are outside
        _gradients.add(self)

    def backward_begins(self, noted):
        if self._smallest is not None and not self._zeroed:
            gradient = self._smallest.grad
            gradient = gradient.to_local() if hasattr(gradient, "to_local") else gradient
            self._zeroed = gradient is None or not bool(gradient.any()) if noted else None

    def before(self, optimizer, parameters, step):
        self._look_outside(parameters)
        self._count_kept(optimizer, parameters, step)
        began, self._backwards = self._backwards, _state["backwards"]
        if not _works or any(parameter.grad is not None for parameter in parameters):
            self._empty = 0
            return
        self._empty += 1 if self._backwards > began else 0
        if self._empty == 2:  # a step without gradients may initialise a state
            tell(UNREDUCED, f"{type(optimizer).__name__} steps without a gradient: in step {step + 1}, as before, none of its "
                            f"{len(parameters)} parameters has one although a backward ran; {_why_empty(parameters)}\n")


    def _count_kept(self, optimizer, parameters, step):
        self._kept = self._kept + 1 if self._zeroed is False and _state["backwards"] > self._backwards else 0
        if self._kept == 2:  # a program may begin with gradients that it has made
            tell(KEPT, f"{type(optimizer).__name__} adds up the gradients of all steps: they were zeroed before no backward "
                       f"of steps {step} and {step + 1}; call zero_grad() in each step\n", HINT)
        trained = (one for one in parameters if one.grad is not None)
        self._smallest, self._zeroed = min(trained, key=torch.Tensor.numel, default=None), None

    def _look_outside(self, parameters):
        if self._outside is None:
            inside = _inside()
            self._outside = [parameter for parameter in parameters if parameter.requires_grad and id(parameter) not in inside]
        self._outside = [parameter for parameter in self._outside if parameter.grad is None]
        if self._outside:  # at the end the models may be gone
            inside, shapes = _inside(), {parameter.shape for parameter in self._outside}
            self._alike = {identity: name for identity, (name, parameter) in inside.items() if parameter.requires_grad and parameter.shape in shapes}
            self._replaced = len([one for one in self._outside if id(one) not in inside])

    def at_end(self, optimizer, optimizers, step):
        """Parameters of the optimizer that took the place of a model's."""
        held = {id(parameter) for one in optimizers for group in one.param_groups for parameter in group["params"]}
        left = [name for identity, name in self._alike.items() if identity not in held]
        if self._outside and self._replaced and left and step > 1:
            names = ", ".join(left[:MODULES_LISTED]) + (", ..." if len(left) > MODULES_LISTED else "")
            tell(UNREDUCED, f"{type(optimizer).__name__} has {self._replaced} parameters that are in no wrapped model and had no gradient in "
                            f"{step} steps, and no optimizer has {names} of these shapes: create the optimizer after the model's last "
                            "change\n")


def _inside():
    """The parameters of wrapped models, with their names, by identity."""
    return {id(parameter): (name, parameter) for _, model in _held() for name, parameter in _named(model)}


def _why_empty(parameters):
    if not works_of(parameters):
        return "they are in no wrapped model: create the optimizer from the parameters of the wrapped model"
    for _, model in _held():
        for part in model.modules():
            group = part._get_fsdp_state()._fsdp_param_group if hasattr(part, "_get_fsdp_state") else None
            if group is not None and not group.reduce_grads:
                return "set_requires_gradient_sync(False) is set, so no gradient is reduced"
    return "no backward reached them"


def memory(tensor):
    return tensor.untyped_storage()._cdata, tensor.data_ptr()


def _clips(gradients):
    _clipped.update(memory(gradient) for gradient in gradients if watch_values.is_plain(gradient))


def reduces(tensor):
    if _clipped and memory(tensor) in _clipped:
        tell(UNREDUCED, "gradients are clipped before they are reduced: clip_grad_norm_ uses the norm of this rank's gradients, which differs between ranks; clip after the reduction\n", HINT)


# ---- NaN ----------------------------------------------------------------------------------------
def _names():
    return {identity: name for identity, (name, _) in _inside().items()}


def _looks(tensors, noted):
    if _state["nan"]:
        return
    for loss in tensors:
        if not isinstance(loss, torch.Tensor) or not (noted or (loss.device.type == "cpu" and loss.numel() < 1 << 16)):
            continue
        if watch_values.has_nan(loss) and not watch_values.scales():
            _state["nan"] = True
            first = watch_values.first_nan(loss, _names()) if loss.grad_fn is not None else ""
            tell(NAN, f"the loss of rank {dist.get_rank()} is NaN in the backward for step {_state['steps'] + 1}{first}\n")
            return


def looks_at_values(optimizer, named, step):
    """The gradients and weights that an optimizer has."""
    if _state["nan"] or getattr(optimizer, "found_inf", None) is not None:
        return
    looked = []
    for name, parameter in named:
        for what, tensor in (("gradient", parameter.grad), ("weight", parameter.detach())):
            local = tensor.to_local() if hasattr(tensor, "to_local") else tensor
            if local is not None and watch_values.is_plain(local) and local.is_floating_point():
                looked.append((what, name, local))
    while (at := watch_device.not_finite([local for _, _, local in looked])) is not None:
        (what, name, local), looked = looked[at], looked[at + 1:]
        is_nan = bool(torch.isnan(local).any())
        if what == "gradient" and is_nan and not watch_values.scales():
            tell(NAN, f"the gradient of {name} is NaN on rank {dist.get_rank()} in step {step + 1}, and the loss is not\n")
        elif what == "weight" and not bool(torch.isfinite(local).all()):
            tell(NAN if is_nan else INF,
                 f"{name} has {'NaN' if is_nan else 'an infinity'} on rank {dist.get_rank()} after step {step}\n")
        else:
            continue
        _state["nan"] = True
        return


# ---- Data ---------------------------------------------------------------------------------------
def _iterates(sampler):
    epoch, known = sampler.epoch, _samplers.get(sampler)
    if known is None:
        known = _samplers[sampler] = {"number": len(_samplers), "times": 0, "epoch": None, "trains": False}
    if known["epoch"] == epoch and known["trains"] and sampler.shuffle:
        tell(REPEATED, f"DistributedSampler uses the order of epoch {epoch} in each epoch: call set_epoch() before each epoch\n", HINT)
    known["epoch"], known["times"] = epoch, known["times"] + 1
    if sampler.num_replicas == dist.get_world_size():
        shown = f"epoch {epoch}, seed {sampler.seed}, shuffle {sampler.shuffle}, drop_last {sampler.drop_last}"
        client.get().note(DATA, f"DistributedSampler of {len(sampler.dataset)} samples#{known['number']}", "",
                          tuple(range(dist.get_world_size())), flags=HINT, step=known["times"], items=[text_item("the order", shown)])


def _replicates(tensor, mesh, placements, shape, noted):
    if mesh is None or placements is None or not isinstance(tensor, torch.Tensor):
        return
    at = mesh.get_coordinate()
    if at is None or len(placements) != mesh.ndim:
        return
    for dimension, placement in enumerate(placements):
        if shape is None or not placement.is_shard() or type(placement).__name__ != "Shard" or \
                sum(one.is_shard() for one in placements) > 1:
            continue
        pieces, rank = mesh.size(dimension), at[dimension]
        piece = -(-shape[placement.dim] // pieces)
        due = max(0, min(piece, shape[placement.dim] - rank * piece))
        if tensor.shape[placement.dim] != due:
            tell(DATA, f"DTensor.from_local on rank {dist.get_rank()}: {tensor.shape[placement.dim]} rows of dimension "
                       f"{placement.dim}, where {placement} of {shape[placement.dim]} over {pieces} ranks has {due}; full_tensor() and "
                       "redistribute() misplace rows\n", HINT)
    if not noted or not watch_values.is_plain(tensor) or any(one.is_partial() for one in placements):
        return
    index = tuple(slice(None) if one.is_replicate() else place for one, place in zip(placements, at))
    replicated("DTensor.from_local with Replicate", tensor, mesh.mesh[index].flatten().tolist())


def replicated(what, tensor, members):
    """`what` of the step promises the same tensor on all members, which are ranks: it is compared."""
    members = tuple(sorted(members))
    _state["replicated"] += 1
    if len(members) > 1 and _state["replicated"] <= CALLS_NOTED:
        client.get().note(DATA, f"{what}, call {_state['replicated']} of a step", "", members, flags=HINT,
                          step=_state["steps"], items=[text_item("the tensor", "has the hash " + watch_values.digest([tensor]))])


def step():
    """The number of optimizer steps so far."""
    return _state["steps"]


# ---- Hooks --------------------------------------------------------------------------------------
def backward_begins(tensors, noted):
    _state["backwards"] += 1
    watch_alike.backward_begins()
    for one in _gradients:
        one.backward_begins(noted)
    for one, _ in _held():
        one.goes_back()
    sampler = _state["sampler"] and _state["sampler"]()
    if sampler is not None:
        _samplers[sampler]["trains"] = True
    _looks([tensors] if isinstance(tensors, torch.Tensor) else tensors, noted)


def _backward_ends():
    watch_scaling.backward_ends()
    watch_alike.backward_ends()


def _casts(autocast):
    if autocast._enabled:
        for one in _alive():
            one.casts(str(autocast.fast_dtype).removeprefix("torch."))


def note_initial(optimizer_parameters):
    watch_initial.note(optimizer_parameters, [(one, list(model.modules()), _named(model)) for one, model in _held()])


def is_nested(optimizer):
    """Whether a hook of an optimizer's step runs within that step: of a subclass whose step calls the base's, torch calls the hooks twice."""
    step, frame, found = torch.optim.Optimizer.profile_hook_step(is_nested).__code__, sys._getframe(1), 0
    while frame is not None and found < 2:
        found += frame.f_code is step and frame.f_locals.get("self") is optimizer
        frame = frame.f_back
    return found == 2


def step_ends():
    _state["steps"] += 1
    _state["replicated"] = 0
    _clipped.clear()


def install(quiet, is_noted, everything):
    """quiet: makes a function that raises nothing; is_noted: whether the values of a step are compared."""
    from torch.distributed.tensor import DTensor
    from torch.nn.utils import clip_grad
    from torch.utils.data.distributed import DistributedSampler

    def noted():
        return is_noted(_state["steps"])

    def around(of, name, make):
        """Replaces of.name by make(the original)."""
        original = getattr(of, name)
        made = make(original)
        made.__wrapped__, made.__name__, made.__doc__ = original, name, original.__doc__
        setattr(of, name, made)

    begins, clips, iterates, ends = quiet(backward_begins), quiet(_clips), quiet(_iterates), quiet(_backward_ends)
    casts = quiet(_casts)
    replicates, shards, root2, root1 = quiet(_replicates), quiet(watch_initial.shards), quiet(_root_of_fsdp2), quiet(_root_of_fsdp1)

    def of_backward(original):
        def backward(tensors, *arguments, **options):
            begins(tensors, noted())
            result = original(tensors, *arguments, **options)
            if noted():
                ends()
            return result
        return backward

    def of_norm(original):
        def get_total_norm(tensors, *arguments, **options):
            tensors = list(tensors)
            clips(tensors)
            return original(tensors, *arguments, **options)
        return get_total_norm

    def of_iteration(original):
        def iterate(self):
            iterates(self)
            indices, mine = original(self), weakref.ref(self)

            def used(index):
                _state["sampler"] = mine
                return index
            return map(used, indices)
        return iterate

    def of_cast(original):
        def enter(self):
            result = original(self)
            casts(self)
            return result
        return enter

    around(torch.autograd, "backward", of_backward)
    around(torch.optim.Optimizer, "__init__", watch_alike.of_making)
    around(torch.amp.autocast_mode.autocast, "__enter__", of_cast)
    around(clip_grad, "_get_total_norm", of_norm)
    around(DistributedSampler, "__iter__", of_iteration)
    make = DTensor.from_local

    def from_local(local_tensor, device_mesh=None, placements=None, *arguments, **options):
        if not torch.compiler.is_compiling():
            replicates(local_tensor, device_mesh, placements, options.get("shape"), noted())
        return make(local_tensor, device_mesh, placements, *arguments, **options)

    DTensor.from_local = staticmethod(from_local)
    from torch.distributed.fsdp import fully_sharded_data_parallel
    from torch.distributed.fsdp._fully_shard._fsdp_param import FSDPParam
    from torch.distributed.fsdp._fully_shard._fsdp_state import FSDPState

    def of_sharding(original):
        def shard(self, param, *arguments):
            whole = param.detach()
            result = original(self, param, *arguments)
            shards(self, whole)
            return result
        return shard

    def of_root2(original):
        def pre_forward(self, module, args, kwargs):
            inner = self._state_ctx.iter_forward_root is not None
            result = original(self, module, args, kwargs)
            if not inner and torch.is_grad_enabled():
                root2(module, (args, kwargs), is_noted, everything)
            return result
        return pre_forward

    def of_root1(original):
        def pre_forward(state, module, args, kwargs):
            result = original(state, module, args, kwargs)
            if state._is_root and torch.is_grad_enabled():
                root1(module, (args, kwargs), is_noted, everything)
            return result
        return pre_forward

    around(FSDPParam, "_init_sharded_param", of_sharding)
    around(FSDPState, "_root_pre_forward", of_root2)
    around(fully_sharded_data_parallel, "_root_pre_forward", of_root1)
