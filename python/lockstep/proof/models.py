"""Captures the models of a program that is proved, without a line of the program: the outermost modules that it calls."""

import os

from lockstep import proof
from lockstep.proof import field, shadows

_captures, _depth = [], [0]


def install():
    from torch.nn.modules import module

    module.register_module_forward_pre_hook(_before)
    module.register_module_forward_hook(_after, always_call=True)


def folder(name):
    """A folder of the proof for the next capture."""
    made = os.path.join(os.environ[proof.FOLDER], f"{len(_captures):03} {name}".rstrip())
    _captures.append(None)
    return made


def _known(module):
    """Whether a capture watches the module, or one that is in it or around it."""
    mine = {id(part) for part in module.modules()}
    return any(capture is not None and any(id(part) in mine for part in capture._root.modules()) for capture in _captures)


def _before(module, inputs):
    _depth[0] += 1
    if _depth[0] > 1 or next(module.parameters(), None) is None or _known(module):
        return
    import torch
    from lockstep.capturing import Capture

    if isinstance(module, torch.nn.modules.lazy.LazyModuleMixin):
        return
    number = len(_captures)
    capture = Capture(module, f"model {number}" if number else "model")
    if capture._root is module:  # its own hooks take effect from the next call on
        capture._enter("", module, inputs, {})


def _after(module, inputs, output):
    _depth[0] = max(0, _depth[0] - 1)


def add(capture):
    _captures[-1] = capture


def draw(name, tensor):
    """Gives a parameter whose elements are all one constant a random value: zeros and ones hide defects."""
    local = tensor.to_local() if hasattr(tensor, "to_local") else tensor
    if not shadows.is_float(local) or local.numel() == 0 or not tensor.requires_grad:
        return
    value = shadows.get(local)
    first = value.flatten()[0]
    if bool((value == first).all()) and int(first) in (0, 1):
        shadows.put(local.detach(), field.add(field.function(f"parameter {name}", first), 0).expand(value.shape))
