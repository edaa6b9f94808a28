"""Functions of a tensor that an asynchronous call owns: which read, which write, which are allowed. A part of recorded.py."""
import copy
import io

import torch
from torch.nn import functional

from lockstep import watch_buffers as buffers

OTHER = torch.ones(2, 2)


def _iadd(tensor):
    tensor += 1


READS = {"sum": torch.sum, "truth": lambda t: bool(t.any()), "print": repr, "format": "{}".format, "list": torch.Tensor.tolist,
         "clone": torch.clone, "cat": lambda t: torch.cat([OTHER, t]), "stack": lambda t: torch.stack((t,)), "equal": lambda t: torch.equal(t, OTHER),
         "linear": lambda t: functional.linear(OTHER, t), "double": torch.Tensor.double, "copy": copy.deepcopy, "save": lambda t: torch.save(t, io.BytesIO()),
         "out": lambda t: torch.add(t, 1, out=torch.zeros(2, 2)), "compare": lambda t: t > 1, "into": lambda t: OTHER.clone().copy_(t),
         "element": lambda t: OTHER.clone().__setitem__(slice(None), t), "add": lambda t: 1 + t}
WRITES = {"zero": torch.Tensor.zero_, "iadd": _iadd, "setitem": lambda t: t.__setitem__((0, 0), 1.0), "out": lambda t: torch.add(OTHER, 1, out=t),
          "copy": lambda t: t.copy_(OTHER), "fill": lambda t: t.fill_diagonal_(2.0)}
ALLOWED = {"shape": lambda t: (t.shape, t.size(0), t.numel(), t.dtype, t.device, t.dim(), len(t), t.stride(), t.is_contiguous()), "view": lambda t: t.view(4),
           "parts": lambda t: (t[0], t.split(1), t.chunk(2), t.T, t.detach(), t.unbind(), list(t)),
           "axes": lambda t: (t.unsqueeze_(0), t.squeeze_(0), t.transpose_(0, 1), t.t_()), "like": lambda t: (torch.zeros_like(t), t.new_empty(3)),
           "hash": lambda t: {t: 1}, "same": lambda t: (t.contiguous(), t.to(torch.float32), t.cpu()), "memory": lambda t: (t.data_ptr(), t.untyped_storage()),
           "gradient": lambda t: (t.grad, t.requires_grad, t.is_leaf), "instance": lambda t: isinstance(t, torch.Tensor)}


def owned(client, fresh, group):
    """Each function on a result, on a sent tensor, and after the wait."""
    made = group(0, 2, "owned")

    def judged(function, is_result=True, wait=lambda call: None):
        fresh()
        tensor, call = torch.ones(2, 2), buffers.Call(made, "all_reduce at train.py:7")
        call.own([tensor], is_result)
        wait(call)
        function(tensor)
        assert type(tensor) is torch.Tensor or not client.notes
        assert [note.finding for note in client.notes] in ([], [buffers.FINDING]), client.notes
        return client.notes[0].key if client.notes else ""

    for name, function in READS.items():
        assert " reads the result of all_reduce at train.py:7 before" in judged(function), name
        assert judged(function, is_result=False) == "", name
    for name, function in WRITES.items():
        for is_result in (True, False):
            assert " writes to a tensor of all_reduce at train.py:7 before" in judged(function, is_result), name
    for name, function in ALLOWED.items():
        assert judged(function) == "", name

    def barrier(call):
        made.owned_to = made.owning

    def later(call):
        buffers.Call(made, "another").waited()

    for function in (*READS.values(), *WRITES.values()):
        assert judged(function, wait=buffers.Call.waited) == "" and judged(function, wait=barrier) == ""
    assert judged(torch.sum, wait=later)
    made.asked = "cpu:gloo,cuda:nccl"
    assert judged(torch.sum, wait=later) == ""
    made.asked = "gloo"
    for kept in (torch.nn.Parameter(torch.ones(2)), torch.ones(2, device="meta"), torch.ones(0, 2)):  # another type or device, no elements
        before = type(kept)
        buffers.Call(made, "").own([kept], True)
        assert type(kept) is before
