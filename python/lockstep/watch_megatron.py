"""Watches the tensor parallel layers of Megatron Core. Each rank of the group has a part of the weight, and the input is the same on all.

It differs where ranks read other batches, or where dropout drops other elements: outside of these layers the ranks need one seed.
"""

import sys

import torch
import torch.distributed as dist

from lockstep import watch, watch_steps, watch_values

LAYERS = ("VocabParallelEmbedding", "ColumnParallelLinear")


@watch.quiet
def _note(layer, value):
    # A linear layer that does not sum the gradient of its input over the group may have a part of the input on each rank.
    summed = getattr(layer, "allreduce_dgrad", True) and not getattr(layer, "explicit_expert_comm", False)
    if summed and torch.is_grad_enabled() and watch.is_noted(watch_steps.step()) and watch_values.is_plain(value):
        watch_steps.replicated(f"the input of {type(layer).__name__}", value, dist.get_process_group_ranks(layer.tp_group))


def _watch(kind):
    forward = kind.forward

    def forward_and_note(self, input_, *arguments, **options):
        if not torch.compiler.is_compiling():
            _note(self, input_)
        return forward(self, input_, *arguments, **options)

    kind.forward, kind._lockstep = forward_and_note, True


def install():
    """Watches Megatron Core once the program has imported it."""
    module = sys.modules.get("megatron.core.tensor_parallel.layers")
    for kind in (getattr(module, name, None) for name in LAYERS):
        if kind is not None and not hasattr(kind, "_lockstep"):
            _watch(kind)
