"""Watches the engines of DeepSpeed. Their optimizers hold flat parts, so each is watched as an optimizer of the model's parameters.

In stages 0 to 2 the ranks of a data parallel group have replicas of the parameters. In stage 3 they have parts, and only settings and work
are compared.
"""

import sys
import weakref

import torch

from lockstep import watch

KIND = "DeepSpeed"
FLAT = ("bit16_groups", "bf16_groups", "fp16_groups")  # where the kinds of optimizers keep the model's parameters, by group
LOCAL_STEPS = ("ZeroOneAdam",)  # the replicas differ between its sums
_optimizers = weakref.WeakKeyDictionary()  # of an engine


class Optimizer:
    """Groups with the model's parameters. A subclass has the name of the engine's optimizer. It keeps no engine alive."""

    state = {}

    def __init__(self, optimizer):
        self._inner = getattr(optimizer, "optimizer", optimizer)
        self._held = next((getattr(optimizer, name) for name in FLAT if hasattr(optimizer, name)), None)

    @property
    def param_groups(self):
        groups = self._inner.param_groups
        return [{**group, "params": list(held)} for group, held in zip(groups, self._held or [group["params"] for group in groups])]


@watch.quiet
def _observe(engine):
    group, module = engine.seq_data_parallel_group, engine.module
    parameters = dict(module.named_parameters())
    experts = [name for name, one in parameters.items() if not getattr(one, "allreduce", True)]
    kind = type(getattr(engine.optimizer, "optimizer", engine.optimizer)).__name__
    replicated = kind not in LOCAL_STEPS and not any(hasattr(one, "ds_tensor") for one in parameters.values())
    watch.note_wrapping(module, KIND, group)
    watch.wrapped(engine, KIND, group, experts, replicated)
    _optimizers[engine] = type(kind, (Optimizer,), {})(engine.optimizer)


def install():
    """Watches DeepSpeed once the program has imported it."""
    module = sys.modules.get("deepspeed.runtime.engine")
    engine = getattr(module, "DeepSpeedEngine", None)
    if engine is None or hasattr(engine, "_lockstep"):
        return
    engine._lockstep = True
    forward, take_step = engine.forward, engine._take_model_step

    def forward_and_note(self, *inputs, **options):
        if torch.is_grad_enabled() and self not in _optimizers:
            _observe(self)
        watch.runs(self, (inputs, options))
        try:
            return forward(self, *inputs, **options)
        finally:
            watch.returned(self)

    def step_and_note(self, *arguments, **options):
        optimizer = _optimizers.get(self)
        if optimizer is None:
            return take_step(self, *arguments, **options)
        watch.before_step(optimizer)
        watch.within.append(optimizer)
        try:
            result = take_step(self, *arguments, **options)
        finally:
            watch.within.pop()
        watch.after_step(optimizer)
        return result

    engine.forward, engine._take_model_step = forward_and_note, step_and_note
