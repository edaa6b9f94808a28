"""Rules of FBGEMM's CPU operators, which TorchRec's sharded tables use.

Several tables form one vector of weights. Feature t has columns D_offsets[t] to D_offsets[t + 1] of the output, and its table begins at
weights_offsets[t]. The backward pass of a fused lookup is its optimizer step.
"""

import torch

from lockstep.proof import field
from lockstep.proof.layers import FUSED
from lockstep.proof.rules import get, root_of, rule
from lockstep.proof.shadows import opaque, put

SUM, MEAN, NONE = range(3)
_BEFORE_WEIGHTS = 1  # the gradient is the backward's first argument


class _Lookup:
    """The elements of the weights for each id, and the position of their sum in the output."""

    def __init__(self, starts, columns, ids, offsets, pooling, weights):
        self.starts, self.columns = starts.tolist(), columns.tolist()
        self.bags = (len(offsets) - 1) // len(self.starts)
        self.ids, self.offsets, self.pooling = ids.long(), offsets.long(), pooling
        self.weights = weights if weights is not None and weights.numel() else None

    def features(self):
        """For each feature: its position among the ids, its columns, the elements of its ids, their bags, their factors."""
        for t, start in enumerate(self.starts):
            first, last = int(self.offsets[t * self.bags]), int(self.offsets[(t + 1) * self.bags])
            lengths = self.offsets[t * self.bags:(t + 1) * self.bags + 1].diff()
            width = self.columns[t + 1] - self.columns[t]
            at = start + self.ids[first:last].unsqueeze(1) * width + torch.arange(width)
            bag = torch.repeat_interleave(torch.arange(self.bags), lengths)
            factor = torch.ones(last - first, 1, dtype=field.TYPE)
            if self.weights is not None:
                factor = field.mul(factor, get(self.weights)[first:last].unsqueeze(1))
            if self.pooling == MEAN:
                factor = field.mul(factor, field.inv(lengths.to(field.TYPE))[bag].unsqueeze(1))
            yield slice(first, last), slice(self.columns[t], self.columns[t + 1]), at, bag, factor

    def forward(self, value):
        if self.pooling == NONE:
            return torch.cat([field.mul(value[at], factor) for _, _, at, _, factor in self.features()])
        out = torch.zeros(self.bags, self.columns[-1], dtype=torch.long)
        for _, columns, at, bag, factor in self.features():
            out[:, columns].index_add_(0, bag, field.mul(value[at], factor).long())
        return field.narrow(out)

    def _of_ids(self, gradient, place, columns, bag):
        return gradient[place] if self.pooling == NONE else gradient[:, columns][bag]

    def of_weights(self, gradient, count):
        """The gradient of all weights; and the rows with a gradient, by their elements: {width: [rows, width]}."""
        out, rows = torch.zeros(count, dtype=torch.long), {}
        for place, columns, at, bag, factor in self.features():
            each = field.mul(self._of_ids(gradient, place, columns, bag), factor)
            out.index_add_(0, at.flatten(), each.flatten().long())
            rows.setdefault(at.shape[1], []).append(at)
        return field.narrow(out), {width: torch.unique(torch.cat(made), dim=0) for width, made in rows.items()}

    def of_factors(self, gradient, value):
        return torch.cat([field.total(field.mul(self._of_ids(gradient, place, columns, bag), value[at]), 1)
                          for place, columns, at, bag, _ in self.features()])


def _forward(weights, dev, uvm, cache, placements, starts, columns, total, widest, sizes, ids, offsets, pooling, factors, *_):
    return _Lookup(starts, columns, ids, offsets, pooling, factors).forward(get(weights))


for _kind in ("weighted", "unweighted"):
    rule(f"split_embedding_codegen_forward_{_kind}_pt2_wrapper")(_forward)


@rule("split_embedding_codegen_grad_indice_weights_pt2_wrapper")
def _(g, weights, dev, uvm, cache, placements, starts, columns, widest, ids, offsets, *_):
    return _Lookup(starts, columns, ids, offsets, SUM, None).of_factors(get(g), get(weights))


@rule("permute_pooled_embs_split")
def _(pooled, offsets, order, *_):
    first = offsets.tolist()
    return torch.cat([get(pooled)[:, first[i]:first[i + 1]] for i in order.tolist()], 1)


# ---- The backward of a fused lookup: a step of its optimizer ----
def _sgd(state, gradient, rows, rate):
    return field.mul(gradient, rate)


def _adagrad(state, gradient, rows, rate, eps=0.0):
    momentum = state[0]
    held = get(momentum).clone()
    held[:gradient.numel()] = field.add(held[:gradient.numel()], field.mul(gradient, gradient))
    put(momentum, held)
    return field.mul(field.div(gradient, field.add(root_of(held[:gradient.numel()]), field.rational(eps))), rate)


def _rowwise(state, gradient, rows, rate, eps=0.0, weight_decay=0.0, mode=0, largest=0.0):
    """momentum[row] += the mean of the row's squares."""
    momentum, _, _, _, firsts, starts = state
    if weight_decay or largest:
        return NotImplemented
    held, step = get(momentum).clone(), torch.zeros_like(gradient)
    for t, (start, first) in enumerate(zip(starts, firsts.tolist())):
        if (start, first) in list(zip(starts, firsts.tolist()))[:t]:
            continue  # another feature of the table
        after = min((other for other in starts if other > start), default=gradient.numel())
        for width, elements in rows.items():
            mine = elements[(elements[:, 0] >= start) & (elements[:, 0] < after)]
            if not len(mine):
                continue
            of, at = gradient[mine], first + (mine[:, 0] - start) // width
            held[at] = field.add(held[at], field.mul(field.total(field.mul(of, of), 1), field.inv(width)))
            step[mine] = field.mul(field.div(of, field.add(root_of(held[at]), field.rational(eps)).unsqueeze(1)), rate)
    put(momentum, held)
    return step


def _step(optimizer, states):
    """states: the number of optimizer arguments before the learning rate."""
    def step(func, args, kwargs):
        g, weights = args[0], args[_BEFORE_WEIGHTS]
        starts, columns, ids, offsets, pooling, factors = args[6], args[7], args[12], args[13], args[14], args[15]
        rest = args[24:]
        gradient, rows = _Lookup(starts, columns, ids, offsets, pooling, factors).of_weights(get(g), weights.numel())
        rate, options = get(rest[states]), [*rest[states + 1:]]
        given = [option for option in options if isinstance(option, float) or isinstance(option, int)]
        change = optimizer([*rest[:states], starts.tolist()], gradient, rows, rate, *given[:_OPTIONS[optimizer]])
        if change is NotImplemented:
            return NotImplemented
        value, why = field.sub(get(weights), change), opaque(g) or opaque(weights)
        out = func(*args, **kwargs)
        put(weights, value, why)
        return (out,)
    return step


_OPTIONS = {_sgd: 0, _adagrad: 1, _rowwise: 4}

for _kind in ("weighted", "unweighted"):
    for _name, _how, _states in (("sgd", _sgd, 0), ("adagrad", _adagrad, 5), ("rowwise_adagrad", _rowwise, 5)):
        FUSED[f"split_embedding_backward_codegen_{_name}_{_kind}_pt2_wrapper"] = _step(_how, _states)


def _dense(func, args, kwargs):
    """A lookup whose backward pass is not an operator: its gradient gets its value after the backward pass."""
    names = [argument.name for argument in func._schema.arguments]
    given = {**dict(zip(names, args)), **kwargs}
    weights, factors = given["dev_weights"], given["indice_weights"]
    lookup = _Lookup(given["weights_offsets"], given["D_offsets"], given["indices"], given["offsets"], given["pooling_mode"], factors)
    value, why = lookup.forward(get(weights)), opaque(weights)
    out = func(*args, **kwargs)
    put(out, value, why)
    if out.grad_fn is not None:
        def after(gradients, of):
            from lockstep.proof.mode import quiet

            with quiet():
                put(gradients[0], lookup.of_weights(get(of[0]), weights.numel())[0], opaque(of[0]))

        out.grad_fn.register_hook(after)
    return (out,)


FUSED["dense_embedding_codegen_lookup_function"] = _dense
