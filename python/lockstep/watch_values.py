"""Values of tensors, for watch_steps.py: their hash, and the first NaN of a backward: the autograd node that saved it, and the modules
around the node.
"""

import ctypes
import gc
import hashlib

import torch

RESULTS = ("result", "output", "out")  # names of autograd nodes' saved tensors


def is_plain(tensor):
    return type(tensor) in (torch.Tensor, torch.nn.Parameter) and tensor.layout is torch.strided and not tensor.is_meta


def digest(tensors):
    """A hash of all bytes of some tensors."""
    hashed = hashlib.blake2b(digest_size=8)
    for tensor in tensors:
        whole = tensor.detach().contiguous().cpu()
        hashed.update(f"{whole.dtype} {list(whole.shape)}".encode())
        if whole.nbytes:
            hashed.update((ctypes.c_char * whole.nbytes).from_address(whole.data_ptr()))
    return hashed.hexdigest()


def has_nan(tensor):
    tensor = tensor.to_local() if hasattr(tensor, "to_local") else tensor
    return is_plain(tensor) and tensor.is_floating_point() and not bool(torch.isfinite(tensor.detach().sum())) and \
        bool(torch.isnan(tensor).any())


def scales():
    """A gradient scaler skips steps whose gradients are not finite."""
    return any(issubclass(type(one), torch.amp.GradScaler) and one.is_enabled() for one in gc.get_objects())


def _saved(node):
    """Saved tensors of an autograd node, except those that a hook would recompute."""
    for name in dir(node):
        if name.startswith("_raw_saved_"):
            raw = getattr(node, name)
            for at, one in enumerate(raw) if isinstance(raw, (tuple, list)) else [(None, raw)]:
                try:
                    one.register_hooks(lambda value: value, lambda value: value)
                    value = getattr(node, name.removeprefix("_raw"))
                except (RuntimeError, AttributeError):
                    continue
                value = value if at is None else value[at]
                if isinstance(value, torch.Tensor):
                    yield name.removeprefix("_raw_saved_"), value


def first_nan(loss, names):
    """Describes the node nearest to the inputs that saved a NaN."""
    order, seen, stack = [], set(), [(loss.grad_fn, False)]
    while stack:
        node, done = stack.pop()
        if node is None or (node in seen and not done):
            continue
        if done:
            order.append(node)
            continue
        seen.add(node)
        stack.append((node, True))
        stack.extend((after, False) for after, _ in node.next_functions)
    for node in order:
        kept = next((name for name, value in _saved(node) if has_nan(value)), None)
        if kept is not None:
            side = "the result" if kept in RESULTS else "an input"
            return f"; the first NaN is in {side} of {type(node).__name__.removesuffix('0').removesuffix('Backward')}{_beside(node, names)}"
    return ""


def _beside(node, names):
    """The modules of the parameters that an autograd node takes, or else of the nearest node after it."""
    of, word = [node], "of"
    while of:
        near = {names[id(after.variable)].rpartition(".")[0] for one in of for after, _ in one.next_functions
                if hasattr(after, "variable") and id(after.variable) in names}
        if near:
            return f" {word} {', '.join(sorted(near))}"
        of, word = [after for one in of for after, _ in one.next_functions if after is not None], "behind"
    return ""
