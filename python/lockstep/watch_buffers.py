"""Tensors of a call with async_op=True that the program reads or writes before it waits: buffer.use_before_wait.

Until the wait, the class of such a tensor is `Owned`, so that torch passes each function of it to `Owned.__torch_function__`. Other tensors
cost nothing. A view that was taken before the call is not seen.
"""

import sys
import weakref

import torch

from lockstep import torch_client as client
from lockstep.debugger import frames

FINDING = "buffer.use_before_wait"
_ISSUERS = ("torch.distributed.distributed_c10d", "torch.distributed.c10d_logger")
_READS = {"item", "tolist", "equal", "allclose", "is_nonzero", "__bool__", "__int__", "__float__", "__complex__", "__index__", "__contains__",
          "__repr__", "__str__", "__format__", "__reduce_ex__", "__deepcopy__", "__array__"}
_OF_NO_VALUES = {"__get__", "__set__", "__delete__", "requires_grad_", "detach_", "share_memory_", "set_", "as_subclass",
                 "squeeze_", "unsqueeze_", "transpose_", "t_", "swapaxes_", "swapdims_", "as_strided_"}


class Call:
    """An asynchronous call of a group. Its tensors and its work refer to it."""

    def __init__(self, group, title):
        self._group, self.title, self._waited = weakref.ref(group), title, False
        group.owning += 1
        self._number, self._tensors = group.owning, []

    def own(self, tensors, is_result):
        for tensor in tensors:
            if type(tensor) is torch.Tensor and tensor.device.type == "cpu" and tensor.numel():
                tensor.__class__ = Owned
                tensor._lockstep_owner = (self, is_result)
                self._tensors.append(tensor)

    def waited(self):
        """The program has waited for it, or asked for it. A group of NCCL completes its calls in order."""
        group, self._waited = self._group(), True
        if group is not None and "nccl" in group.asked:
            group.owned_to = max(group.owned_to, self._number)
        for tensor in self._tensors:
            _release(tensor)
        self._tensors = []

    def is_over(self):
        group = self._group()
        return self._waited or group is None or self._number <= group.owned_to


def _tensors(value):
    """Those in lists, tuples and dictionaries."""
    if isinstance(value, torch.Tensor):
        return [value]
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, (list, tuple)) else ()
    return [tensor for part in parts for tensor in _tensors(part)]


def _release(tensor):
    owner = tensor.__dict__.pop("_lockstep_owner", None)
    if type(tensor) is Owned:
        tensor.__class__ = torch.Tensor
    return owner


def is_owned(tensor):
    """Whether a call owns the tensor. From here on none does."""
    owner = _release(tensor)
    return owner is not None and not owner[0].is_over()


class Owned(torch.Tensor):
    """A tensor of a Call that the program has not waited for."""

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        given = [(one, _release(one)) for one in _tensors([args, kwargs]) if type(one) is Owned]
        result = None
        try:
            result = func(*args, **kwargs)
        finally:
            _judge(func, args, kwargs, given, result)
        return result


def _judge(func, args, kwargs, given, result):
    name = getattr(func, "__name__", "")
    written = _written(name, args, kwargs)
    for tensor, owner in given:
        if owner is None or owner[0].is_over():
            continue
        writes = any(tensor is one for one in written)
        if writes or (owner[1] and _reads(name, tensor, result)):
            what = f"{name} writes to a tensor of" if writes else f"{name} reads the result of"
            client.get().note(FINDING, f"{what} {owner[0].title} before the program has waited for it; first call wait() on the work that "
                                       "the call returns\n")
        else:
            tensor.__class__ = Owned
            tensor._lockstep_owner = owner


def _written(name, args, kwargs):
    if name in _OF_NO_VALUES:
        return []
    out = _tensors(kwargs.get("out"))
    in_place = name in ("__setitem__", "fill_diagonal_") or (name.endswith("_") and not name.endswith("__"))
    in_place = in_place or (name.startswith("__i") and name.endswith("__") and name not in ("__int__", "__index__", "__iter__", "__invert__"))
    return [*out, *(_tensors(args[:1]) if in_place else [])]


def _reads(name, tensor, result):
    if name in _READS or name == "__setitem__":
        return True
    if name in _OF_NO_VALUES or name.endswith("_like") or name.startswith("new_"):
        return False
    memory = tensor.untyped_storage().data_ptr()
    return any(one.layout is not torch.strided or one.untyped_storage().data_ptr() != memory for one in _tensors(result))


def _site():
    """The program's frame, if it made the current call with async_op=True; else None."""
    frame, is_async = sys._getframe(1), False
    while frame is not None:
        module = frame.f_globals.get("__name__", "")
        if module in _ISSUERS:
            is_async = is_async or frame.f_code.co_name in ("isend", "irecv") or frame.f_locals.get("async_op") is True
        elif not module.startswith("lockstep."):
            return frame if is_async and frames.is_program(frame) else None
        frame = frame.f_back
    return None


def issued(group, calls):
    """Calls of a group were issued as one. The Call, if the program made it with async_op=True; else None."""
    frame = _site() if not torch.compiler.is_compiling() else None
    if frame is None:
        return None
    made = Call(group, f"{calls[0].title} at {frame.f_code.co_filename}:{frame.f_lineno}")
    for call in calls:
        is_root = call.title == "broadcast" and call.sent is not None  # its data stays as it is
        made.own(call.got.tensors if call.got is not None and not is_root else [], True)
        made.own(call.sent.tensors if call.sent is not None else [], False)
    return made
