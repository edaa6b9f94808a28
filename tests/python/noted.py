"""Notes of the watches: which steps are noted, and what a note holds. A part of recorded.py."""
import os
import types
import weakref

import torch
import torch.distributed as dist
from torch import nn

from lockstep import watch


def noted_steps():
    os.environ["LOCKSTEP_EXEC_WATCH"] = "default"
    assert [step for step in range(1200) if watch.is_noted(step)] == [*range(10), *range(10, 100, 10), *range(100, 1000, 100), 1000]
    os.environ["LOCKSTEP_EXEC_WATCH"] = "all"
    assert all(watch.is_noted(step) for step in range(50))
    os.environ["LOCKSTEP_EXEC_WATCH"] = "default"
    for value, shown in ((0.5, 0.5), (None, None), ((1, 2), (1, 2)), (torch.tensor(3.0), 3.0), (torch.tensor([1, 2]), None), (object(), None), ("a", "a"), (True, True)):
        assert watch._setting(value) == shown, value
    assert watch._plain("_orig_mod.a._fsdp_wrapped_module.b._checkpoint_wrapped_module.c") == "a.b.c"


def values(float_type):
    """A tensor of a note: its name, sizes, type and elements; a tensor without elements is left out."""
    items, kept = [], []
    for name, tensor in (("a", torch.ones(2, 3)), ("c", torch.zeros(2, dtype=torch.complex64)), ("s", torch.ones(2).to_sparse()),
                         ("m", torch.ones(2, device="meta")), ("i", torch.ones(2, dtype=torch.int16)), ("n", torch.ones(0)),
                         ("p", nn.Parameter(torch.ones(3)))):
        watch._value(items, kept, name, tensor)
    assert [(item.name, item.shown, item.count, item.dtype) for item in items] == [
        (b"a", b"[2, 3]", 6, float_type), (b"c", b"[2]", 4, float_type), (b"n", b"[0]", 0, float_type), (b"p", b"[3]", 3, float_type)], items
    assert len(kept) == 4


class Mesh:
    def __init__(self, at):
        self.mesh, self.at = torch.arange(8).view(2, 4), at

    def get_coordinate(self):
        return self.at


def members():
    """The ranks that hold the same part of a DTensor: along the dimensions in which it is replicated."""
    from torch.distributed.tensor import Partial, Replicate, Shard

    def of(at, *placements):
        return watch._members_of(types.SimpleNamespace(device_mesh=Mesh(at), placements=placements))

    assert of([1, 2], Replicate(), Replicate()) == tuple(range(8)) and of([1, 2], Replicate(), Shard(0)) == (2, 6)
    assert of([1, 2], Shard(0), Replicate()) == (4, 5, 6, 7) and of([1, 2], Shard(0), Shard(1)) is None
    assert of(None, Replicate(), Replicate()) is None and of([0, 0], Replicate(), Partial()) is None


class Wrapper(nn.Module):
    """The watch's data of a DDP model."""

    def __init__(self, module, hooks=()):
        super().__init__()
        self.module, self.process_group, self._comm_hooks = module, "group", [(hook, None) for hook in hooks]
        self.parameters_to_ignore, self.require_backward_grad_sync = ["2.weight"], True


def quiet():
    """An error of a watch itself is not the program's, except in tests."""
    failing = watch.quiet(lambda value: 1 // value)
    assert failing(1) == 1
    try:
        failing(0)
    except ZeroDivisionError:
        pass
    else:
        raise AssertionError("the test does not see an error of a watch")
    raises = os.environ.pop("LOCKSTEP_WATCH_RAISES")
    assert failing(0) is None
    os.environ["LOCKSTEP_WATCH_RAISES"] = raises


def steps(client, fresh):
    """A DDP model on two ranks: the notes before each step, and the reasons for differences of its replicas."""
    os.environ["LOCKSTEP_EXEC_WATCH"] = "default"
    ranks, dist.get_process_group_ranks = dist.get_process_group_ranks, lambda of: [1, 0]
    initialized, dist.is_initialized = dist.is_initialized, lambda: True
    size, dist.get_world_size = dist.get_world_size, lambda: 2
    try:
        torch.manual_seed(0)
        module = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 1, bias=False), nn.Linear(2, 2, bias=False))
        model = Wrapper(module)
        watch.wrapped(model, "DistributedDataParallel", model.process_group, model.parameters_to_ignore)
        optimizer = torch.optim.Adam([{"params": module[0].parameters(), "lr": 0.5, "betas": (0.1, 0.2)}, {"params": module[1].parameters()}], lr=0.25)
        optimizer.add_param_group({"params": [module[2].weight]})

        def step(summed, local=0, graded=True):
            fresh()
            for _ in range(summed):
                watch.runs(model, ())
            model.require_backward_grad_sync = False
            for _ in range(local):
                watch.runs(model, ())
            model.require_backward_grad_sync = True
            for parameter in module.parameters():
                parameter.grad = torch.ones_like(parameter) if graded else None
            watch.before_step(optimizer, (optimizer,), {})
            optimizer.step()
            watch.after_step(optimizer)
            return {note.finding: note for note in client.notes}

        notes = step(1)
        settings, noted = notes["optimizer.differs"], notes["replica.diverged"]
        assert (settings.key, settings.members, settings.step, settings.about) == ("DistributedDataParallel", [0, 1], 0, ""), settings
        assert [name for name, *_ in settings.items] == ["settings of Adam for 0.weight", "settings of Adam for 1.weight"]
        assert settings.items[0][1].startswith("amsgrad False, betas (0.1, 0.2), capturable False, ") and ", lr 0.5, " in settings.items[0][1]
        assert ", lr 0.25, " in settings.items[1][1] and "params" not in settings.items[1][1]
        assert [item[:3] for item in noted.items] == [("0.weight", "[2, 2]", 4), ("0.bias", "[2]", 2), ("1.weight", "[1, 2]", 2)], noted.items
        assert (noted.key, noted.members, noted.step, noted.flags, noted.about) == ("DistributedDataParallel", [0, 1], 0, 0, "")
        # The next steps have the optimizer's state; a step in no_sync is a reason, and its note is excused.
        notes = step(0, 1)
        assert [name for name, *_ in notes["replica.diverged"].items][3:] == [
            f"{what} of {name}" for name in ("0.weight", "0.bias", "1.weight") for what in ("exp_avg", "exp_avg_sq")]  # not the number of steps
        assert notes["replica.diverged"].flags == 0 and notes["replica.diverged"].about == ""
        why = "no gradient was reduced in step 2: its forward ran in no_sync()"
        notes = step(1)
        assert (notes["replica.diverged"].flags, notes["replica.diverged"].about, notes["replica.diverged"].step) == (watch.EXCUSED, why, 2)
        notes = step(0)
        assert (notes["replica.diverged"].flags, notes["replica.diverged"].about) == (0, why)
        notes = step(0, graded=False)
        assert notes["replica.diverged"].flags == watch.EXCUSED
        watch._loaded(module, types.SimpleNamespace(f_code=types.SimpleNamespace(co_filename=os.path.abspath("train.py")), f_lineno=7))
        watch._loaded(nn.Linear(1, 1), types.SimpleNamespace(f_code=types.SimpleNamespace(co_filename="other.py"), f_lineno=8))
        notes = step(1)
        assert notes["replica.diverged"].about == f"{why}; loaded a state at train.py:7", notes["replica.diverged"].about
        for number in range(6, 13):
            notes = step(1)
            assert ("replica.diverged" in notes) == (number <= 10), number
        # At the end the last values are noted, as stale if the program has changed them since.
        for change, flags, at in ((False, 0, 13), (True, watch.STALE, watch.AT_END)):
            fresh()
            if change:
                with torch.no_grad():
                    module[0].weight.add_(1)
            watch._steppers[optimizer].at_end()
            count, end = client.notes
            assert (count.finding, count.items[0][0]) == ("work.differs", "the number of steps"), count
            assert (end.finding, end.flags, end.step) == ("replica.diverged", flags, at), end
        # Before the end, of the earlier optimizers only those stay whose last step summed no gradients.
        second_ = torch.optim.SGD(module[1].parameters(), lr=0.1)
        for excused in (True, False):
            watch._steppers[optimizer].sets[0].excused = excused
            watch._latest[:] = [(watch._steppers[optimizer], optimizer)]
            watch._steppers[second_] = watch._Stepper(second_)
            watch.after_step(second_)
            watch.after_step(second_)
            assert [entry[1] for entry in watch._latest] == ([optimizer, second_] if excused else [second_]), watch._latest
        del watch._steppers[second_]
        watch._latest.clear()
        # Several optimizers of the same replicas are numbered; a hook that does not sum promises nothing.
        other = torch.optim.SGD([module[1].weight, module[0].bias], lr=0.1)
        other._partition_parameters = None  # as ZeRO's, whose ranks own parameters by their order
        fresh()
        watch.before_step(other, (other,), {})
        assert [item[:2] for note in client.notes if note.finding == "optimizer.differs" for item in note.items][1:] == [
            ("parameter 1 of SGD", "1.weight"), ("parameter 2 of SGD", "0.bias")], client.notes
        assert {note.key for note in client.notes} == {"DistributedDataParallel, optimizer 2"}, client.notes
        model._comm_hooks = [(nn.functional.relu, None)]
        fresh()
        watch.before_step(other, (other,), {})
        assert not client.notes
        assert watch._of(model).promises() is False and watch._of(object()) is None
        second = Wrapper(nn.Linear(1, 1))
        watch.wrapped(second, "DistributedDataParallel", second.process_group, second.parameters_to_ignore)
        assert watch._of(second).key == "DistributedDataParallel 2"
        fresh()
        watch.note_wrapping(module, "DistributedDataParallel", "group")
        note = client.notes[0]
        assert (note.finding, note.key, note.members) == ("model.differs", "model 1 of DistributedDataParallel", [0, 1])
        assert note.items[0][:2] == ("0.weight", "float32 [2, 2], trainable") and note.items[-1][:2] == (
            "the order of parameters", "0.weight, 0.bias, 1.weight, 2.weight"), note.items
        module[0].weight.requires_grad_(False)
        watch.note_wrapping(module, "DistributedDataParallel", "group")
        assert client.notes[1].key == "model 2 of DistributedDataParallel" and client.notes[1].items[0][1].endswith("frozen (requires_grad is False)")
        dist.get_process_group_ranks = lambda of: [0]
        watch.note_wrapping(module, "DistributedDataParallel", "group")
        assert len(client.notes) == 2
        # A model of one rank has no replicas. A parameter that is gone leaves its number to another, which has no name.
        alone = Wrapper(nn.Linear(1, 1))
        watch.wrapped(alone, "DistributedDataParallel", alone.process_group, alone.parameters_to_ignore)
        single = torch.optim.SGD(alone.module.parameters(), lr=0.1)
        fresh()
        watch.before_step(single, (single,), {})
        assert watch._steppers[single].sets == [] and not [note for note in client.notes if note.finding == "replica.diverged"], client.notes
        of, weight = watch._of(alone), alone.module.weight
        assert of.name(weight) == "weight"
        of._names[id(weight)] = ("gone", weakref.ref(alone.module.bias))
        assert of.name(weight) is None
        dist.get_world_size = lambda: 1
        fresh()
        watch.before_step(other, (other,), {})
        assert not client.notes
    finally:
        dist.get_process_group_ranks, dist.is_initialized, dist.get_world_size = ranks, initialized, size


def installed():
    """The watches of steps learn whether all of them are asked for; an optimizer's first step notes the weights that it begins with."""
    seen, firsts = [], []
    kept = watch.steps.install, watch.steps.note_initial
    watch.steps.install, watch.steps.note_initial = lambda *given: seen.append(given[2]), lambda parameters: firsts.append(stepper.steps)
    try:
        for way in ("default", "all"):
            os.environ["LOCKSTEP_EXEC_WATCH"], watch._state["installed"] = way, False
            watch.install()
        os.environ["LOCKSTEP_EXEC_WATCH"] = "default"
        optimizer = torch.optim.SGD(nn.Linear(1, 1).parameters(), lr=0.1)
        stepper = watch._Stepper(optimizer)
        for _ in range(2):
            stepper._note_steps()
            stepper.steps += 1
    finally:
        watch.steps.install, watch.steps.note_initial = kept
    assert seen == [False, True] and firsts == [0], (seen, firsts)


def main(client, fresh, float_type):
    noted_steps()
    quiet()
    values(float_type)
    members()
    steps(client, fresh)
