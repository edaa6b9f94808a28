"""Which tensors are exponentials, or computed of some: exp(a) exp(b) and exp(a + b) are equal, and have different values here.

A program on one rank may compute one of them where ranks compute the other, as in a scan whose sequence is split over
ranks. There a factor comes from another rank: such a product is a result without a rule. exp(a - m) for a maximum m has
its rule (Value.ratio) and does not count.
"""

import torch

from lockstep.proof import rules, shadows

DIRECT, HOLDS, CROSSED = 1, 2, 4  # an exponential; computed of some; received from another rank
NAME = "exp(a) exp(b)"
_PRODUCTS = {"mul", "div", "mm", "bmm", "mv", "dot", "addmm", "baddbmm", "addcmul", "addcdiv"}
_MOVES = rules.MOVES | {"_to_copy", "copy"}
seen = False  # an exponential, by this process


def of_result(name, inputs, in_place):
    """The flags of an operator's result, and whether it is a product that has no rule."""
    global seen
    if name in ("exp", "exp2"):
        given = shadows.full(inputs[0])
        seen = seen or (given.ratio is None and not given.peak)
        return (DIRECT | HOLDS if given.ratio is None and not given.peak else 0), False
    flags = [shadows.power(tensor) for tensor in inputs]
    if not any(flags):
        return 0, False
    if in_place and name not in _MOVES and not torch.is_grad_enabled():
        return flags[0], False  # an optimizer's step: parameters are data again
    whole = flags[0]
    for other in flags[1:]:
        whole |= other
    is_product = name in _PRODUCTS and len(inputs) > 1
    unknown = is_product and any(
        a & DIRECT and b & CROSSED and inputs[i] is not inputs[k]
        for i, a in enumerate(flags) for k, b in enumerate(flags) if i != k)
    is_direct = name in _MOVES or (is_product and all(flag & DIRECT for flag in flags))
    return whole if is_direct else whole & ~DIRECT, unknown


def received(send):
    """The flags of what a collective that moves data gives; send None: this rank only receives."""
    flags = HOLDS if send is None and seen else 0
    for tensor in send or []:
        flags |= shadows.power(tensor)
    return flags | CROSSED if flags else 0
