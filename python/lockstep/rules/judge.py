"""The verdict of one call under one combination of placements: right, refused, wrong or hung."""

import re
import threading

import torch
import torch.nn.functional as F
from torch.distributed.tensor import DTensor
from torch.utils import _pytree as pytree

from lockstep.rules import inputs

TOLERANCE = 1e-9  # relative; of functions that round, in float64
SMALLEST = 1e-3  # the least scale of a comparison: terms that cancel leave rounding, which is not a difference
ADDRESS = re.compile(r"\b0x[0-9a-f]+")  # of an object that an error names; another in each run
IN_PLACE = re.compile(r"[a-z0-9]_\(|\[.*\] *=[^=]")


def evaluate(source, variables):
    scope = {"torch": torch, "F": F, **variables}
    return eval(source, scope)  # noqa: S307: of our own tables and torch's OpInfo


def changes(source):
    return IN_PLACE.search(source) is not None


def _floats(tensor):
    return isinstance(tensor, torch.Tensor) and (tensor.is_floating_point() or tensor.is_complex())


def _leaves(out):
    return [leaf for leaf in pytree.tree_leaves(out) if leaf is not None]


class Reference:
    """The call's result on whole tensors. `why`: the reason why it has no reference."""

    def __init__(self, call, seed):
        self.call, self.seed, self.why = call, seed, None
        self.wholes = call.tensors(seed)
        self.outputs, self.after, self.gradients, self.weights = [], {}, None, []
        drawn = torch.get_rng_state()
        try:
            self.outputs, self.after = self._run()
            # Random results of few elements can be equal by chance.
            runs = 1 if torch.equal(drawn, torch.get_rng_state()) else 16
            again = [self._run()[0] for _ in range(runs)]
        except Exception as error:
            self.why = f"the unsharded call fails: {type(error).__name__}: {error}"
            return
        if not self.outputs:
            self.why = "the call has no result"
        elif any(isinstance(one, torch.Tensor) and one.layout is not torch.strided for one in self.outputs):
            self.why = "the result is sparse"
        elif any(_difference(a, b) for other in again for a, b in zip(self.outputs, other)):
            self.why = "the call is random or leaves memory uninitialised"
        elif not changes(call.source):
            self._backward()

    def _run(self, grad=False):
        variables = {name: whole.clone() for name, whole in self.wholes.items()}
        if grad:
            for name in self.differentiable():
                variables[name].requires_grad_(True)
        with torch.set_grad_enabled(grad):
            out = _leaves(evaluate(self.call.source, variables))
        return ([one.detach() if isinstance(one, torch.Tensor) else one for one in out] if not grad else out), variables

    def differentiable(self):
        return [name for name, whole in self.wholes.items() if _floats(whole)]

    def _backward(self):
        """`gradients` stays None if there is no gradient."""
        try:
            out, variables = self._run(grad=True)
            roots = [one for one in out if _floats(one) and one.requires_grad]
            if not roots:
                return
            weights = [inputs.made("x".join(map(str, one.shape)) + " gradient" if one.dim() else "scalar gradient",
                                   f"{self.seed} weight {i}").to(one.dtype) for i, one in enumerate(roots)]
            grads = torch.autograd.grad(roots, [variables[n] for n in self.differentiable()], weights, allow_unused=True)
        except Exception:
            return
        if any(grad is not None and grad.isnan().any() for grad in grads):
            return
        self.gradients, self.weights = dict(zip(self.differentiable(), grads)), weights


def _show(value):
    if isinstance(value, torch.Tensor):
        value = value.detach().flatten()[:1]
        return repr(value.item()) if value.numel() else "nothing"
    return repr(value)


def _first(tensor, mask):
    at = mask.nonzero()[0].tolist()
    return tensor[tuple(at)].item(), at


class _Rounding:
    """Whether a comparison of this rank has needed the tolerance since `begin`."""

    def __init__(self):
        self.local = threading.local()

    def begin(self):
        self.local.used = False

    def note(self):
        self.local.used = True

    def used(self):
        return self.local.used


rounding = _Rounding()


def _difference(got, want):
    """None: equal, or within the tolerance. Else a kind and a sentence."""
    if not isinstance(want, torch.Tensor):
        if isinstance(got, torch.Tensor) or type(got) is not type(want) or (got != want and got == got):
            return "value", f"{_show(got)}, not {_show(want)}"
        return None
    if not isinstance(got, torch.Tensor):
        return "kind", f"{_show(got)} is not a tensor"
    if got.dtype != want.dtype:
        return "dtype", f"{got.dtype}, not {want.dtype}"
    if got.shape != want.shape:
        return "shape", f"shape {list(got.shape)}, not {list(want.shape)}"
    got, want = got.detach().resolve_conj().resolve_neg(), want.detach()
    if got.numel() == 0 or torch.equal(got, want):
        return None
    if not _floats(want):
        differ = got != want
    else:
        finite = want[want.isfinite()].abs()
        scale = max(finite.max().item() if finite.numel() else 0.0, SMALLEST)
        wide = TOLERANCE if want.dtype in (torch.float64, torch.complex128) else 1e-5
        differ = ~torch.isclose(got, want, rtol=wide, atol=wide * scale, equal_nan=True)
    if not differ.any():
        rounding.note()
        return None
    (have, at), (need, _) = _first(got, differ), _first(want, differ)
    return "value", f"{have!r}, not {need!r}, at {at}; {int(differ.sum())} of {differ.numel()} elements differ"


def _judge_tensor(got, want, what):
    """A distributed result: its placements, its local part, and its whole."""
    if isinstance(got, DTensor) and isinstance(want, torch.Tensor):
        if got.shape != want.shape:
            return "shape", f"{what}: shape {list(got.shape)}, not {list(want.shape)}"
        got = got.full_tensor()
    wrong = _difference(got, want)
    return (wrong[0], f"{what}: {wrong[1]}") if wrong else None


def _strides(out, wants):
    """A sentence on the first result whose strides are not the unsharded ones."""
    for got, want in zip(out, wants):
        if isinstance(got, DTensor) and isinstance(want, torch.Tensor):
            have, need = ([step for step, size in zip(one.stride(), one.shape) if size > 1] for one in (got, want))
            if have != need and want.numel() > 0:
                return f"strides {list(got.stride())}, not {list(want.stride())}"
    return ""


def _placements(out):
    return ", ".join("".join(map(inputs.name_of, one.placements)) if isinstance(one, DTensor) else "plain" for one in out)


def forget():
    """Drops DTensor's caches of earlier calls in this thread, so that a result does not depend on them."""
    try:
        from torch.distributed.tensor.debug import _clear_sharding_prop_cache
    except ImportError:  # an older torch
        from torch.distributed.tensor import DTensor

        DTensor._op_dispatcher.sharding_propagator.propagate_op_sharding.cache.cache_clear()
    else:
        _clear_sharding_prop_cache()


def judge_rank(reference, placements, mesh, backward):
    """On one rank, for all ranks together: (verdict or None, kind, sentence, placements of the results)."""
    call = reference.call
    rounding.begin()
    chosen = dict(zip([name for name, _ in call.inputs if name not in call.kept], placements))
    variables = {name: inputs.distributed(whole, chosen[name], mesh, f"{reference.seed} {name}")
                 if name in chosen else whole.clone() for name, whole in reference.wholes.items()}
    if backward:
        return _judge_backward(reference, variables, mesh)
    with torch.no_grad():
        out = _leaves(evaluate(call.source, variables))
        if len(out) != len(reference.outputs):
            return "wrong", "count", f"{len(out)} results, not {len(reference.outputs)}", ""
        wrongs = [_judge_tensor(got, want, f"result {i}" if len(out) > 1 else "result")
                  for i, (got, want) in enumerate(zip(out, reference.outputs))]
        if changes(call.source):
            wrongs += [_judge_tensor(variables[name], want, f"{name} afterwards") for name, want in reference.after.items()]
    wrong = next((one for one in wrongs if one), None)
    if wrong:
        return "wrong", *wrong, _placements(out)
    return "right", "rounded" if rounding.used() else "", _strides(out, reference.outputs), _placements(out)


def _judge_backward(reference, variables, mesh):
    for name in reference.differentiable():
        variables[name].requires_grad_(True)
    out = [one for one in _leaves(evaluate(reference.call.source, variables)) if _floats(one)]
    roots = [one for one in out if one.requires_grad]
    if len(roots) != len(reference.weights):
        return "wrong", "gradient", f"{len(roots)} results need a gradient, not {len(reference.weights)}", ""
    weights = []
    for one, weight in zip(roots, reference.weights):
        if isinstance(one, DTensor):
            kinds = ["R" if name[0] == "P" else name for name in map(inputs.name_of, one.placements)]
            weight = inputs.distributed(weight, kinds, mesh, "weight")
        weights.append(weight)
    names = reference.differentiable()
    grads = torch.autograd.grad(roots, [variables[name] for name in names], weights, allow_unused=True)
    wrongs = []
    with torch.no_grad():
        for name, got in zip(names, grads):
            want = reference.gradients[name]
            if (got is None) != (want is None):
                if want is not None and want.count_nonzero():
                    wrongs.append(("gradient", f"gradient of {name}: none"))
                continue
            if got is not None:
                wrongs.append(_judge_tensor(got, want, f"gradient of {name}"))
    wrong = next((one for one in wrongs if one), None)
    return ("wrong", *wrong, _placements(grads)) if wrong else ("right", "rounded" if rounding.used() else "", "", _placements(grads))


def together(outcomes):
    """The verdict of all ranks' outcomes: (verdict, kind, sentence, placements)."""
    errors = [(rank, ADDRESS.sub("0x...", text)) for rank, (kind, text) in enumerate(outcomes) if kind == "error"]
    if errors:
        some = "" if len(errors) == len(outcomes) else f"only on rank {errors[0][0]}: "
        return "refused", "", some + errors[0][1].split("\n")[0][:300], ""
    hung = [(rank, text) for rank, (kind, text) in enumerate(outcomes) if kind == "hung"]
    if hung:
        said = next((text for _, text in hung if text), "no rank makes the call that this rank waits for")
        return "hung", "hung", f"rank {hung[0][0]}: {said}"[:300], ""
    wrong = [(rank, value) for rank, (_, value) in enumerate(outcomes) if value[0] == "wrong"]
    if wrong:
        rank, (_, kind, text, places) = wrong[0]
        return "wrong", kind, f"{text}; on {len(wrong)} of {len(outcomes)} ranks", places
    return outcomes[0][1]
