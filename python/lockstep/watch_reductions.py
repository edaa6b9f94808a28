"""Gradients that a program reduces by hand, and parameters that it broadcasts by hand: in one order on all ranks, and waited for."""

import hashlib
import weakref

import torch

from lockstep import torch_client as client
from lockstep import watch_buffers as buffers

ORDER, NEVER_WAITED = "collective.order_mismatch", "request.never_waited"
_latest = {}  # of the memory of a tensor: its last collective
_state = {"most": 1000}  # entries, before those of tensors that are gone are dropped


class _Entry:
    def __init__(self, tensor, group, number, work):
        from torch.multiprocessing.reductions import StorageWeakRef

        self.storage, self.number = StorageWeakRef(tensor.untyped_storage()), number
        self.group = weakref.ref(group)
        self._asked = work.asked

    def waited(self):
        return bool(self._asked)


def hash_of(text):
    return hashlib.sha256(text).hexdigest()[:8]


def made(group, tensors, work):
    """A collective was issued, whose results are these tensors."""
    for tensor in tensors:
        group.watched = getattr(group, "watched", 0) + 1
        _latest[(tensor.untyped_storage()._cdata, tensor.data_ptr())] = _Entry(tensor, group, group.watched, work)
    if len(_latest) > _state["most"]:
        for key in [key for key, entry in _latest.items() if entry.storage.expired()]:
            del _latest[key]
        _state["most"] = max(1000, 2 * len(_latest))


def _text(name, shown):
    return client.Item(name=name.encode(), shown=shown.encode())


def note(optimizer, named, step, is_noted):
    """Before a step of the optimizer, of its parameters that no wrapper has: (name, parameter)."""
    items = {}
    for name, parameter in named:
        for what, tensor in (("reduction", parameter.grad), ("broadcast", parameter.detach())):
            if tensor is None or tensor.layout is not torch.strided:
                continue
            entry = _latest.pop((tensor.untyped_storage()._cdata, tensor.data_ptr()), None)
            if entry is None or entry.storage.expired():
                continue
            is_owned = buffers.is_owned(tensor)
            if not entry.waited() and what == "reduction":
                client.get().note(NEVER_WAITED, f"the gradient of {name or 'a parameter'} is used by {type(optimizer).__name__} "
                                                f"in step {step + 1} before its all_reduce is waited for; call wait() on the work "
                                                "that async_op=True returns\n")
            if name is not None and entry.group() is not None:
                items.setdefault((entry.group(), what), []).append((name, entry.number))
    for (group, what), of in items.items() if is_noted else ():
        numbers = {number: at for at, number in enumerate(sorted(number for _, number in of))}
        shown, about = ("is reduced", "the gradient of") if what == "reduction" else ("is broadcast", "the parameter")
        texts = [_text(f"{about} {name}", f"{shown} as number {numbers[number] + 1} of {len(of)} on {group.title}")
                 for name, number in sorted(of)]
        whole = ", ".join(name for name, _ in sorted(of))
        client.get().note(ORDER, f"order of {what}s on {group.title}#{hash_of(whole.encode())}", "",
                          sorted(group._members or range(group.size())), step=step, items=texts)
