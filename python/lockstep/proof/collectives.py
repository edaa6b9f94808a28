"""Collectives of values: after each call of a float collective, another call carries the values."""

import contextlib

import torch

from lockstep.proof import field, powers, shadows
from lockstep.proof.mode import OPAQUE, Field, quiet
from lockstep.proof.shadows import is_float

SUM, PRODUCT, MAX, MIN, AVG = range(5)
_given = []  # sent data of a functional collective, which makes copies


def install():
    """Makes lockstep's process groups carry values, and callbacks of their futures compute them."""
    from lockstep import torch_backend, torch_work

    torch_backend.ProcessGroup.beside = staticmethod(_beside)
    torch_work.Waiter.within = Field


def _send_values(send):
    if _given:
        values = _given[-1]
        if sum(value.numel() for value in values) == sum(tensor.numel() for tensor in send):
            flat = torch.cat([value.reshape(-1) for value in values])
            return [part.view(tensor.shape) for part, tensor in zip(flat.split([t.numel() for t in send]), send)]
    return [shadows.get(tensor) for tensor in send]


def _opaque(send):
    """The operator without a rule that a result depends on; on a rank that only receives, one that this process ran."""
    if send is None:
        return next(iter(OPAQUE), None)
    return next((why for why in map(shadows.opaque, send) if why is not None), None)


def _beside(group, call, send, recv, reduces, options):
    """The call for the values after a call; `call` makes one. None: none is needed. Their results are stored when it ends."""
    like = next((tensor for tensor in [*(send or []), *(recv or [])]), None)
    if like is None or not is_float(like):
        return None
    with quiet():
        op, why, power = options["op"], _opaque(send), 0 if reduces else powers.received(send)
        values = None if send is None else [value.long().contiguous() for value in _send_values(send)]
        if reduces and op in (MAX, MIN, PRODUCT):
            return _chosen(group, call, op, values, send, recv, why)
        got = None if recv is None else [torch.zeros(tensor.shape, dtype=torch.long) for tensor in recv]
        issued = call(like=(values or got)[0], send=values, recv=got, op=SUM if reduces else op)

        def end(done):
            with quiet():
                for tensor, value in zip(recv or [], got or []) if done else ():
                    value = field.narrow(value)
                    if reduces and op == AVG:
                        value = field.mul(value, field.inv(group.size()))
                    shadows.put(tensor, value, why, power)

        issued.then = end
        return issued


def _chosen(group, call, op, values, send, recv, why):
    """A maximum's value is that of the rank with the maximum; a product's is the product."""
    if recv is None or len(recv) != 1 or len(send) != 1 or send[0].shape != recv[0].shape:
        return None
    floats = send[0].detach().double().contiguous()
    mine = torch.stack([values[0], floats.view(torch.int64)]).contiguous()
    got = [torch.zeros_like(mine) for _ in range(group.size())]
    issued = call(like=mine, send=[mine], recv=got, op=SUM, kind="all_gather", count=mine.numel())

    def end(done):
        with quiet():
            if not done:
                return
            all_values = torch.stack([block[0] for block in got])
            all_floats = torch.stack([block[1].view(torch.float64) for block in got])
            if op == PRODUCT:
                made = all_values[0].to(field.TYPE)
                for value in all_values[1:]:
                    made = field.mul(made, value)
                shadows.put(recv[0], made, why)
                return
            at = all_floats.argmax(0, keepdim=True) if op == MAX else all_floats.argmin(0, keepdim=True)
            shadows.put(recv[0], shadows.Value(all_values.gather(0, at)[0].to(field.TYPE), peak=op == MAX), why)

    issued.then = end
    return issued


@contextlib.contextmanager
def _sending(values):
    _given.append(values)
    try:
        yield
    finally:
        _given.pop()


def functional(func, args, kwargs):
    """A functional collective sends copies of its arguments: the values are those of the arguments."""
    first = args[0] if args else None
    tensors = list(first) if isinstance(first, (list, tuple)) else [first]
    if not tensors or not is_float(tensors[0]) or "wait_tensor" in func._schema.name:
        return func(*args, **kwargs)
    values = [shadows.get(tensor).contiguous() for tensor in tensors]
    if len(tensors) > 1:  # one call for each
        out = func(*args, **kwargs)
        return out
    with _sending(values):
        return func(*args, **kwargs)
