"""Captures the models of an unchanged program, for `lockstep verify`, `prove` and `exec --capture`.

A model is the outermost module that contains a module which the program calls. Its capture begins with that call.
"""

import gc
import os

from torch import nn
from torch.nn.modules import module as hooks
from torch.optim import optimizer

from lockstep.capturing import Capture

_captures, _depth, _stepped = [], [0], []


def install():
    os.environ["TORCHDYNAMO_DISABLE"] = "1"  # a compiled model calls no modules
    hooks.register_module_forward_pre_hook(_before)
    hooks.register_module_forward_hook(_after, always_call=True)
    optimizer.register_optimizer_step_post_hook(lambda *_: _stepped or _stepped.append(True))


def folder(name):
    """A folder for the next capture: its number distinguishes models of one name and sorts them."""
    made = os.path.join(os.environ["LOCKSTEP_CAPTURE"], f"{len(_captures):03}_{name}")
    _captures.append(None)
    return made


def is_trained():
    """Whether weights of a model that is called now for the first time may be computed, as an average of another model's weights."""
    return bool(_stepped)


def steps():
    """The number of optimizer steps to capture."""
    return int(os.environ.get("LOCKSTEP_CAPTURE_STEPS", 1 << 62))


def add(capture):
    _captures[-1] = capture


def _known(module):
    """Whether a capture observes the module, one of its submodules or a module that contains it."""
    mine = {id(part) for part in module.modules()}
    return any(capture is not None and any(id(part) in mine for part in capture.root.modules()) for capture in _captures)


def _outermost(module):
    """The outermost module that contains it; the module itself if there are several."""
    modules = [one for one in gc.get_objects() if issubclass(type(one), nn.Module) and "_modules" in one.__dict__]
    held = {id(child) for one in modules for child in one._modules.values()}
    around = [one for one in modules if id(one) not in held and any(part is module for part in one.modules())]
    return around[0] if len(around) == 1 else module


def _before(module, inputs):
    _depth[0] += 1
    if _depth[0] > 1 or next(module.parameters(), None) is None or isinstance(module, nn.modules.lazy.LazyModuleMixin):
        return
    if _known(module):
        return
    number = len(_captures)
    capture = Capture(_outermost(module), f"model_{number}" if number else "model")
    name = next((name for name, part in capture.root.named_modules() if part is module), None)
    if name is not None:  # its own hooks take effect from the next call on
        capture.enter(name, module, inputs)


def _after(module, inputs, output):
    _depth[0] = max(0, _depth[0] - 1)
