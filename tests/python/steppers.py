"""Optimizers that learn of replicas late, steps with a closure, and calls with others beside them. A part of recorded.py."""
import os

import torch
import torch.distributed as dist
from torch import nn

from lockstep import torch_client, torch_work, watch


def late(client, fresh, wrapper):
    """Steps of a model that is wrapped after the optimizer's first steps are counted from there."""
    module = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 1))
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1)

    def step(closure=None):
        fresh()
        for parameter in module.parameters():
            parameter.grad = torch.ones_like(parameter)
        for one in watch._models:
            one.work._backwards = 1
        watch.before_step(optimizer, (optimizer, closure), {})
        before = [note.finding for note in client.notes]
        watch.after_step(optimizer)
        return {note.finding: note for note in client.notes}, before

    step()
    step()
    model = wrapper(module)
    watch.wrapped(model, "DistributedDataParallel", model.process_group, getattr(model, "parameters_to_ignore", ()))
    watch.runs(model, ())
    notes, before = step()
    assert (notes["optimizer.differs"].step, notes["replica.diverged"].step, notes["optimizer.differs"].about) == (0, 0, ""), notes
    assert "work.differs" in before
    fresh()
    watch._steppers[optimizer].at_end()
    assert {note.finding: note for note in client.notes}["replica.diverged"].step == 1, client.notes
    # The forward and backward of a closure run in the step: its work is noted after it.
    notes, before = step(closure=lambda: None)
    assert "work.differs" in notes and "work.differs" not in before, (notes, before)
    assert watch._Stepper._about(watch._Replicas("replicas of DTensors", (0, 1), None, 0)) == ""
    watch._latest.clear()
    del watch._models[:]


def beside(group):
    """A call of tensors may have another beside it; a barrier has none."""
    asked, made = [], group(0, 2, "beside")
    made.beside = lambda *arguments: asked.append(arguments[3:4]) or None
    made.allreduce([torch.ones(2)])
    assert len(asked) == 1, asked
    made.barrier()
    assert len(asked) == 1, asked


def endings():
    """The client's own thread leaves the interpreter once all threads have ended."""
    told, kept = [], torch_client.interpreter_ends
    torch_client.interpreter_ends = lambda: told.append(True)
    try:
        torch_work.Waiter.end_all()
        assert told == [True]
    finally:
        torch_client.interpreter_ends, torch_work.Waiter._ending = kept, False


def main(client, fresh, group, wrapper):
    os.environ["LOCKSTEP_EXEC_WATCH"] = "default"
    ranks, dist.get_process_group_ranks = dist.get_process_group_ranks, lambda of: [1, 0]
    initialized, dist.is_initialized = dist.is_initialized, lambda: True
    size, dist.get_world_size = dist.get_world_size, lambda: 2
    try:
        late(client, fresh, wrapper)
        beside(group)
        endings()
    finally:
        dist.get_process_group_ranks, dist.is_initialized, dist.get_world_size = ranks, initialized, size
