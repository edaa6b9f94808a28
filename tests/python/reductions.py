"""Gradients and parameters that a program reduces and broadcasts itself: their order. A part of recorded.py."""
import os
import types

import torch
import torch.distributed as dist
from torch import nn

from lockstep import watch
from lockstep import watch_reductions as reductions


def by_hand(client, fresh, group):
    """Gradients that a program reduces itself: their order, and those that nobody waits for."""
    os.environ["LOCKSTEP_EXEC_WATCH"] = "default"
    initialized, dist.is_initialized = dist.is_initialized, lambda: True
    size, dist.get_world_size = dist.get_world_size, lambda: 2
    try:
        module, made = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 1)), group(0, 2, "hand")
        optimizer = torch.optim.SGD(module.parameters(), lr=0.1)

        def step(order, waits=True, broadcast=()):
            for parameter in module.parameters():
                parameter.grad = torch.ones_like(parameter)
            fresh()
            for at in order:
                work = made.allreduce([list(module.parameters())[at].grad])
                work = work.wait() if waits else None
            for at in broadcast:
                made.broadcast([list(module.parameters())[at].data])
            watch.before_step(optimizer, (optimizer,), {})
            watch.after_step(optimizer)
            return client.notes

        note, = step([3, 2, 0, 1])
        title = "group hand"
        assert note.finding == "collective.order_mismatch" and note.members == [0, 1] and note.step == 0, note
        assert [item[:2] for item in note.items] == [
            (f"the gradient of {name}", f"is reduced as number {number} of 4 on {title}")
            for name, number in (("0.bias", 4), ("0.weight", 3), ("1.bias", 1), ("1.weight", 2))], note.items
        assert note.key == f"order of reductions on {title}#{reductions.hash_of(b'0.bias, 0.weight, 1.bias, 1.weight')}"
        assert [item[1] for item in step([1])[0].items] == [f"is reduced as number 1 of 1 on {title}"]
        notes = step([0], waits=False)
        assert [note.finding for note in notes] == ["request.never_waited", "collective.order_mismatch"]
        assert notes[0].key.startswith("the gradient of 0.weight is used by SGD in step 3 before its all_reduce is waited for"), notes[0].key
        assert not step([])
        note, = step([], broadcast=[2, 0])
        assert [item[:2] for item in note.items] == [("the parameter 0.weight", f"is broadcast as number 2 of 2 on {title}"),
                                                     ("the parameter 1.weight", f"is broadcast as number 1 of 2 on {title}")], note.items
        assert note.key == f"order of broadcasts on {title}#{reductions.hash_of(b'0.weight, 1.weight')}"
        # Entries of tensors that are gone are dropped once there are many.
        tensors, work = [torch.zeros(1) for _ in range(3)], types.SimpleNamespace(asked=[])
        reductions._latest.clear()
        reductions._state["most"] = 3
        reductions.made(made, tensors, work)
        del tensors[1:]
        assert len(reductions._latest) == 3
        reductions.made(made, [torch.zeros(2)], work)
        assert len(reductions._latest) == 2 and reductions._state["most"] == 1000, reductions._latest
        os.environ["LOCKSTEP_EXEC_WATCH"] = "off"
        reductions._latest.clear()
        made.allreduce([module[0].weight.grad])
        made.broadcast([module[0].weight.data])
        assert not reductions._latest
    finally:
        os.environ["LOCKSTEP_EXEC_WATCH"] = "default"
        dist.is_initialized, dist.get_world_size = initialized, size
    assert reductions.hash_of(b"a") == "ca978112"
