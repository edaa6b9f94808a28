"""The defect behind wrong results: its operator, its smallest example, and the example as a plain torch program."""

import dataclasses

import torch
import torch.distributed as dist
from torch.distributed.tensor import DTensor
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes

from lockstep.rules import inputs, judge
from lockstep.rules import threads as threads_of

TRIES_MAX = 60


# ---- The operator ----
def _whole(one):
    """From the parts of all ranks, without DTensor's own redistribution, which may be what is wrong."""
    if not all(type(placement) in inputs.KINDS for placement in one.placements):
        return one.full_tensor().clone()  # kinds of partial that only DTensor makes
    parts = [None] * one.device_mesh.size()
    dist.all_gather_object(parts, one._local_tensor.detach().contiguous())
    return inputs.joined(parts, list(map(inputs.name_of, one.placements)), tuple(one.device_mesh.shape))


def _distributed(values):
    return [leaf for leaf in pytree.tree_leaves(values) if isinstance(leaf, DTensor)]


def _writes(func):
    return any(argument.alias_info is not None and argument.alias_info.is_write for argument in func._schema.arguments)


def _views(func):
    return not _writes(func) and any(result.alias_info is not None for result in func._schema.returns)


def _storage(one):
    return one._local_tensor.untyped_storage().data_ptr()


class _Locate(TorchDispatchMode):
    """Compares each operator on distributed tensors with the same operator on their wholes; records the first that differs, in its results
    or in what it writes.
    """

    def __init__(self):
        super().__init__()
        self.found, self.last, self.copied = None, {"operator": "", "given": "", "result": ""}, None

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        given = _distributed((args, kwargs))
        if self.found is not None or not given or "empty" in str(func):  # uninitialised memory equals nothing
            return func(*args, **kwargs)
        with torch.no_grad(), _disable_current_modes():
            self.last = {"operator": str(func), "result": "ranks differ",
                         "given": ", ".join("".join(map(inputs.name_of, one.placements)) for one in given)}
            wholes = pytree.tree_map_only(DTensor, _whole, (args, kwargs))
            pairs = list(zip(pytree.tree_leaves((args, kwargs)), pytree.tree_leaves(wholes)))
            from_storages = {_storage(one) for one in given}
        out = func(*args, **kwargs)
        with torch.no_grad(), _disable_current_modes():
            want = func(*wholes[0], **wholes[1])
            results = list(zip(judge._leaves(out), judge._leaves(want)))
            for got, whole in results + (pairs if _writes(func) else []):
                if self._differ(got, whole):
                    self.found = {**self.last, "result": judge._placements([got])}
                    break
            if _views(func) and any(_storage(one) not in from_storages for one in _distributed(out)):
                self.copied = {**self.last, "operator": f"{func} is a copy", "result": judge._placements(_distributed(out))}
        return out

    @staticmethod
    def _differ(got, whole):
        if not isinstance(got, DTensor) or not isinstance(whole, torch.Tensor):
            return isinstance(got, (int, float, bool)) and judge._difference(got, whole)
        try:
            return got.shape != whole.shape or judge._difference(_whole(got), whole)
        except RuntimeError:  # the ranks' parts do not fit together
            return True


def locate(threads, reference, placements, shape, backward):
    """The first operator with a wrong result; else the view that was a copy, whose writes are lost. None: neither."""
    def job(mesh):
        judge.forget()
        mode = _Locate()
        try:
            with mode:
                judge.judge_rank(reference, placements, mesh, backward)
        except (threads_of.Hang, threads_of.Mismatch):
            return mode.found or mode.last
        return mode.found or (mode.copied if judge.changes(reference.call.source) else None)

    outcomes = threads.each(shape, job)
    return next((value for kind, value in outcomes if kind == "value" and value), None)


# ---- The least example ----
def _smaller(call):
    """The call with one size reduced, everywhere that it occurs."""
    specs = [(name, spec) for name, spec in call.inputs]
    if not all(isinstance(spec, str) for _, spec in specs):
        return
    sizes = sorted({size for _, spec in specs for size in spec.split()[0].split("x") if size.isdigit()}, key=int)
    for size in reversed(sizes):
        for less in range(1, int(size)):
            def changed(spec):
                words = spec.split()
                words[0] = "x".join(str(less) if one == size else one for one in words[0].split("x"))
                return " ".join(words)

            yield dataclasses.replace(call, inputs=tuple((name, changed(spec)) for name, spec in specs))


def least(threads, call, placements, shape, backward, seed, same):
    """(call, placements, shape, reference) of the smallest example that `same` accepts."""
    best = [call, placements, shape, judge.Reference(call, seed)]
    tries = 0

    def accept(candidate):
        nonlocal tries
        tries += 1
        reference = judge.Reference(candidate[0], seed)
        if tries > TRIES_MAX or reference.why or (backward and reference.gradients is None):
            return False
        if not same(threads.judge(reference, candidate[1], candidate[2], backward), reference, candidate):
            return False
        best[:] = [*candidate, reference]
        return True

    if len(shape) == 2:
        for keep in (0, 1):
            if accept((best[0], tuple((places[keep],) for places in placements), (shape[keep],))):
                break
    if len(best[2]) == 1 and best[2][0] > 2:
        accept((best[0], best[1], (2,)))
    for at in range(len(placements)):
        replicated = tuple(tuple("R" for _ in best[2]) if i == at else places for i, places in enumerate(best[1]))
        if best[1][at] != replicated[at]:
            accept((best[0], replicated, best[2]))
    shrinks = not any(name.startswith("_S") for places in best[1] for name in places)  # defined for even blocks
    while shrinks and tries < TRIES_MAX:
        shrinks = any(accept((smaller, best[1], best[2])) for smaller in _smaller(best[0]))
    return best


# ---- The program ----
def _literal(tensor):
    if tensor.dtype is torch.float64 and bool((tensor == tensor.round()).all()):
        return f"torch.tensor({tensor.long().tolist()}, dtype=torch.float64)" if tensor.numel() else _empty(tensor)
    return f"torch.tensor({tensor.tolist()}, dtype={tensor.dtype})" if tensor.numel() else _empty(tensor)


def _empty(tensor):
    return f"torch.empty({list(tensor.shape)}, dtype={tensor.dtype})"


def _placement(name):
    inside = name[name.find("(") + 1:-1]
    kinds = {"R": "Replicate()", "S": f"Shard({inside})", "P": f"Partial('{inside}')"}
    return f"_StridedShard({inside.replace(',', ', split_factor=')})" if name[0] == "_" else kinds[name[0]]


PROGRAM = '''# torchrun --nproc-per-node {count} {file}
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard
from torch.distributed.tensor.placement_types import _StridedShard

dist.init_process_group("gloo")
mesh, rank = init_device_mesh("cpu", {shape}), dist.get_rank()
{wholes}


def parted(parts, placements, whole):
    """A DTensor of the ranks' parts."""
    return DTensor.from_local(parts[rank], mesh, placements, run_check=False, shape=whole.shape, stride=whole.stride())


{parts}


def run({names}):
{body}


def full(value):
    return value.full_tensor() if isinstance(value, DTensor) else value


want, got = run({given}), run({distributed})
for unsharded, sharded in zip(want, got):
    shape = "of shape " + str(list(sharded.shape)) if isinstance(sharded, DTensor) else ""
    sharded = full(sharded)
    if rank == 0:
        print("unsharded", unsharded)
        print("DTensor  ", sharded, shape)
dist.destroy_process_group()
'''


def _coordinates(shape, rank):
    found = []
    for size in reversed(shape):
        found.insert(0, rank % size)
        rank //= size
    return found


def _body(reference, backward):
    source, names = reference.call.source, list(reference.wholes)
    lines = [f"out = {source}"]
    if backward:
        roots = reference.differentiable()
        lines = [f"{', '.join(roots)}{',' if len(roots) == 1 else ''} = [one.requires_grad_() for one in ({', '.join(roots)},)]",
                 f"out = {source}",
                 "out = [one for one in (out if isinstance(out, (tuple, list)) else [out]) if one.is_floating_point()]",
                 f"weights = [{', '.join(map(_literal, reference.weights))}]",
                 "if isinstance(out[0], DTensor):",
                 "    kinds = [[Replicate() if p.is_partial() else p for p in one.placements] for one in out]",
                 "    weights = [distribute_tensor(w, mesh, k) for w, k in zip(weights, kinds)]",
                 f"return torch.autograd.grad(out, [{', '.join(roots)}], weights, allow_unused=True)"]
    elif judge.changes(source):
        lines.append(f"return [out, {', '.join(names)}]" if len(judge._leaves(reference.outputs)) == 1 else f"return [{', '.join(names)}]")
    else:
        lines.append("return list(out) if isinstance(out, (tuple, list)) else [out]")
    return "\n".join("    " + line for line in lines)


def program(reference, placements, shape, backward, file):
    """The text of a program that shows the result beside the unsharded one."""
    call, count = reference.call, torch.Size(shape).numel()
    names = list(reference.wholes)
    chosen = dict(zip([name for name in names if name not in call.kept], placements))
    parts = []
    for name, places in chosen.items():
        whole = reference.wholes[name]
        mine = [inputs.local_part(whole, places, shape, _coordinates(shape, rank), f"{reference.seed} {name}")
                for rank in range(count)]
        listed = ",\n    ".join(map(_literal, mine))
        kinds = ", ".join(map(_placement, places))
        parts.append(f"d_{name} = parted([\n    {listed}], [{kinds}], {name})")
    text = PROGRAM.format(
        count=count, file=file, shape=tuple(shape), names=", ".join(names), body=_body(reference, backward),
        wholes="\n".join(f"{name} = {_literal(whole)}" for name, whole in reference.wholes.items()),
        parts="\n".join(parts), given=", ".join(f"{name}.clone()" for name in names),
        distributed=", ".join(f"d_{name}" if name in chosen else name for name in names))
    if backward:
        text = text.replace("Replicate, Shard\n", "Replicate, Shard, distribute_tensor\n", 1)
    if "_StridedShard(" not in text:
        text = text.replace("from torch.distributed.tensor.placement_types import _StridedShard\n", "")
    return text if "F." in call.source else text.replace("import torch.nn.functional as F\n", "")
