"""The arguments of calls of torch.distributed: those that are refused, and those that share memory or have gaps."""

import torch

MOVED = {  # by kind of call: the behaviour of other backends for a tensor with gaps in memory
    **dict.fromkeys(("all_reduce", "reduce", "broadcast", "scatter"), "gloo reads {count} consecutive elements from the first one on, which are the wrong elements, and NCCL refuses the call"),
    **dict.fromkeys(("send", "recv", "all_to_all"), "gloo and NCCL refuse the call")}


def spans(tensors):
    """Begin, end and number of each block whose elements fill one range of memory, in any order."""
    return sorted((tensor.data_ptr(), tensor.data_ptr() + tensor.nbytes, at) for at, tensor in enumerate(tensors)
                  if tensor.nbytes and tensor.numel() == 1 + sum(
                      (size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride())))


def has_gaps(tensor):
    return tensor.layout is torch.strided and not tensor.is_contiguous() and not spans([tensor])


def gaps(kind, send, recv):
    """A sentence about a call's one tensor that has gaps, where gloo would read other elements. None: there is none."""
    for tensors in (send, recv):
        if kind in MOVED and tensors and len(tensors) == 1 and has_gaps(tensors[0]):
            tensor = tensors[0]
            return (f"{kind} of a tensor of sizes {list(tensor.shape)} and strides {list(tensor.stride())}, which has gaps in memory: "
                    f"{MOVED[kind].format(count=tensor.numel())}; pass tensor.contiguous()\n")
    return None


def sharing(kind, rank, send, recv):
    """Two blocks of a call's lists that share memory, so that its result depends on the order of writes: (whether the first is sent, its
    number, the number of the received one). None: there are none.

    A rank's block for itself may be received in place. Torch copies the sent data of all_gather and reduce_scatter before any block is
    written.
    """
    received = spans(recv)
    for (_, end, first), (begin, _, second) in zip(received, received[1:]):
        if begin < end:
            return False, first, second
    if kind not in ("all_to_all", "gather", "scatter"):
        return None
    kept = {"gather": (0, rank), "scatter": (rank, 0)}.get(kind)
    for begin, end, first in spans(send):
        for start, stop, second in received:
            if begin < stop and start < end and ((first, second) != kept or begin != start):
                return True, first, second
    return None


def as_list(tensors):
    return [tensors] if isinstance(tensors, torch.Tensor) else list(tensors)


class Refused(ValueError, RuntimeError):
    """A call that is refused. gloo's errors have either type; the message includes gloo's words, since programs search for them."""


def only(tensors, what, kind="tensor list"):
    tensors = as_list(tensors)
    if what == "all_reduce":
        reducible(tensors)
    if len(tensors) != 1:
        raise Refused(f"{what} requires a single-element {kind}, not one of {len(tensors)}")
    return tensors[0]


def reducible(tensors):
    if not tensors:
        raise Refused("all_reduce requires non-empty tensor list")
    same_type(tensors, "all_reduce")
    if len({tensor.shape for tensor in tensors}) > 1:
        raise Refused("all_reduce: invalid tensor size: tensors of different shapes")


def blocks_of(lists, tensor, size, what, side):
    """The root's blocks of a gather or scatter: one list, with a tensor like `tensor` for each member."""
    blocks = lists
    if not lists or not isinstance(lists[0], torch.Tensor):
        if len(lists) != 1:
            raise Refused(f"{what} requires a single-element {side} list, not one of {len(lists)}")
        blocks = lists[0]
    if len(blocks) != size:
        raise Refused(f"{what}: Incorrect {side} list size {len(blocks)}. {side.capitalize()} list size should be "
                         f"{size}, same as size of the process group")
    same_type([tensor, *blocks], what)
    if any(block.numel() != tensor.numel() for block in blocks):
        raise Refused(f"{what}: invalid tensor size: blocks of {[block.numel() for block in blocks]} elements "
                         f"and a tensor of {tensor.numel()}")
    return blocks


def same_type(tensors, what):
    types = {tensor.dtype for tensor in tensors}
    if len(types) > 1:
        raise Refused(f"{what}: invalid tensor type: tensors of {', '.join(sorted(map(str, types)))}")
