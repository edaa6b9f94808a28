"""Rules of layers: convolutions, pooling, bags of embeddings, attention, fused optimizers."""

import math

import torch

from lockstep.proof import field
from lockstep.proof.rules import RULES, get, logged, mean_of, root_of, rule, square_of
from lockstep.proof.shadows import opaque, put


# ---- Variances ----
def _variance(a, dims, correction, keep):
    value = get(a)
    dims = list(range(a.dim())) if dims is None or dims == [] else [dims] if isinstance(dims, int) else list(dims)
    mean = mean_of(value, dims, True)
    centred = field.sub(value, mean)
    count = math.prod(a.shape[d] for d in dims)
    correction = 1 if correction is None else correction
    made = field.mul(field.total(field.mul(centred, centred), dims, keep), field.inv(field.rational(count - correction)))
    return made, mean if keep else mean.reshape(made.shape)


def _spread(root, with_mean):
    def function(a, dim=None, unbiased=None, keepdim=False, *, correction=None):
        if isinstance(dim, bool):
            dim, unbiased = None, dim
        correction = correction if unbiased is None else int(unbiased)
        variance, mean = _variance(a, dim, correction, keepdim)
        made = root_of(variance) if root else variance
        return (made, mean) if with_mean else made
    return function


RULES.update({"var": _spread(False, False), "std": _spread(True, False), "var_mean": _spread(False, True), "std_mean": _spread(True, True)})


@rule("_weight_norm_interface")
def _(v, g, dim=0):
    norm = root_of(field.total(square_of(get(v)), _others(v, dim), True))
    return field.mul(get(v), field.div(get(g), norm)), norm


@rule("_weight_norm_interface_backward")
def _(gradient, v, g, norms, dim):
    inverse = field.inv(get(norms))
    along = field.mul(field.total(field.mul(get(gradient), get(v)), _others(v, dim), True), inverse)
    of_v = field.sub(get(gradient), field.mul(get(v), field.mul(along, inverse)))
    return field.mul(of_v, field.mul(get(g), inverse)), along


def _others(tensor, dim):
    """All dimensions but one."""
    return [d for d in range(tensor.dim()) if d != dim % tensor.dim()]


# ---- Convolutions ----
def _windows(value, kernel, stride, padding, dilation):
    """[B, C, out..., kernel...] of [B, C, in...]."""
    dims = len(kernel)
    spread = [p for pad in reversed(list(padding) * (dims // len(padding))) for p in (pad, pad)]
    value = torch.constant_pad_nd(value, spread, 0)
    for d in range(dims):
        value = value.unfold(2 + d, (kernel[d] - 1) * dilation[d] + 1, stride[d])
        value = value[..., ::dilation[d]]
    return value


def _each(given, dims):
    given = list(given)
    return given * dims if len(given) == 1 else given


def _patches(a_value, w, stride, padding, dilation, groups):
    """[groups, B * out, C / groups * kernel], and the sizes of the output."""
    dims = w.dim() - 2
    kernel = list(w.shape[2:])
    made = _windows(a_value, kernel, _each(stride, dims), _each(padding, dims), _each(dilation, dims))
    out = made.shape[2:2 + dims]
    made = made.permute(1, 0, *range(2, made.dim()))  # [C, B, out..., kernel...]
    made = made.reshape(groups, made.shape[0] // groups, -1, math.prod(kernel))
    return made.transpose(1, 2).reshape(groups, made.shape[2], -1), out


def _grouped(w_value, groups):
    return w_value.reshape(groups, w_value.shape[0] // groups, -1)


def _by_channel(value, groups, batch, out):
    """[B, O, out...] of [groups, B * out, O / groups], and back."""
    return value.transpose(1, 2).reshape(-1, batch, *out).transpose(0, 1)


@rule("convolution")
def _(a, w, b, stride, padding, dilation, transposed, output_padding, groups, *_):
    if transposed:
        return NotImplemented
    rows, out = _patches(get(a), w, stride, padding, dilation, groups)
    made = _by_channel(field.matmul(rows, _grouped(get(w), groups).transpose(1, 2)), groups, a.shape[0], out)
    return made if b is None else field.add(made.contiguous(), get(b).view(-1, *[1] * len(out)))


@rule("convolution_backward")
def _(g, a, w, bias_sizes, stride, padding, dilation, transposed, output_padding, groups, mask):
    if transposed:
        return NotImplemented
    rows, out = _patches(get(a), w, stride, padding, dilation, groups)
    given = get(g).transpose(0, 1).reshape(groups, w.shape[0] // groups, -1)  # [groups, O / groups, B * out]
    of_weight = field.matmul(given, rows).reshape(w.shape)
    of_rows = field.matmul(given.transpose(1, 2), _grouped(get(w), groups))
    places = torch.arange(1, a.numel() + 1).view(a.shape)  # 0: of the padding
    at, _ = _patches(places, w, stride, padding, dilation, groups)
    of_input = torch.zeros(a.numel() + 1, dtype=torch.long).index_add_(0, at.reshape(-1), of_rows.reshape(-1).long())
    others = [0, *range(2, g.dim())]
    return field.narrow(of_input[1:].view(a.shape)), of_weight, field.total(get(g), others)


@rule("avg_pool2d")
def _(a, kernel, stride=(), padding=(0,), ceil=False, count_pads=True, divisor=None):
    if ceil or any(padding):
        return NotImplemented
    kernel = _each(kernel, 2)
    made = _windows(get(a).reshape(1, -1, *a.shape[-2:]), kernel, _each(stride, 2) if stride else kernel, [0], [1, 1])
    summed = field.total(made.contiguous(), [4, 5])
    return field.mul(summed.reshape(*a.shape[:-2], *summed.shape[2:]), field.inv(divisor or math.prod(kernel)))


# ---- Attention ----
def _attention_weights(q, k, causal, mask, scale):
    """The weights [..., queries, keys], and the sums of their exponentials; keys may have fewer heads."""
    scores = field.mul(field.matmul(get(q), _heads(k, q).transpose(-1, -2)), _scale(q, scale))
    visible = torch.ones(scores.shape[-2:], dtype=torch.bool)
    visible = visible.tril() if causal else visible
    if mask is not None and mask.is_floating_point():
        shown = mask > torch.finfo(mask.dtype).min / 2
        scores, visible = field.add(scores, torch.where(shown, get(mask), 0)), visible & shown
    elif mask is not None:
        visible = visible & mask
    e = torch.where(visible, field.exp(scores), 0)
    sums = field.total(e, -1, True)
    return field.div(e, sums), sums


def _scale(q, scale):
    return field.rational(q.shape[-1] ** -0.5 if scale is None else scale)


def _heads(of, q):
    """The values of keys, repeated for the heads of the queries."""
    return get(of).repeat_interleave(q.shape[1] // of.shape[1], 1) if of.shape[1] != q.shape[1] else get(of)


def _per_head(value, of):
    """The sum over the query heads that share one head of `of`."""
    if value.shape[1] == of.shape[1]:
        return value
    return field.total(value.unflatten(1, (of.shape[1], -1)), 2)


@rule("_scaled_dot_product_flash_attention_for_cpu")
def _(q, k, v, dropout=0.0, causal=False, attn_mask=None, scale=None):
    if dropout:
        return NotImplemented
    weights, sums = _attention_weights(q, k, causal, attn_mask, scale)
    return field.matmul(weights, _heads(v, q)), logged(sums.squeeze(-1))


@rule("_scaled_dot_product_flash_attention_for_cpu_backward")
def _(g, q, k, v, out, logsumexp, dropout, causal, attn_mask=None, scale=None):
    if dropout:
        return NotImplemented
    weights, _ = _attention_weights(q, k, causal, attn_mask, scale)
    of_weights = field.matmul(get(g), _heads(v, q).transpose(-1, -2))
    inner = field.sub(of_weights, field.total(field.mul(get(g), get(out)), -1, True))
    of_scores = field.mul(field.mul(weights, inner), _scale(q, scale))
    return (field.matmul(of_scores, _heads(k, q)), _per_head(field.matmul(of_scores.transpose(-1, -2), get(q)), k),
            _per_head(field.matmul(weights.transpose(-1, -2), get(g)), v))


# ---- Bags of embeddings ----
def _bags(ids, offsets, include_last):
    """The bag of each id, and the number of bags."""
    begins = offsets[:-1] if include_last else offsets
    bag = torch.bucketize(torch.arange(len(ids)), begins, right=True) - 1
    return bag, len(begins)


@rule("_embedding_bag", "_embedding_bag_forward_only")
def _(w, ids, offsets, by_frequency=False, mode=0, sparse=False, per_sample=None, include_last=False, padding=-1):
    if mode == 2 or by_frequency:
        return NotImplemented
    bag, count = _bags(ids, offsets, include_last)
    rows = get(w)[ids]
    rows = rows if per_sample is None else field.mul(rows, get(per_sample).unsqueeze(1))
    keep = (ids != padding).unsqueeze(1)
    summed = torch.zeros(count, w.shape[1], dtype=torch.long).index_add_(0, bag, torch.where(keep, rows, 0).long())
    made = field.narrow(summed)
    if mode == 1:
        sizes = torch.zeros(count, dtype=torch.long).index_add_(0, bag, (ids != padding).long())
        made = field.mul(made, field.inv(sizes.to(field.TYPE)).unsqueeze(1))
    return made, None, None, None


@rule("_embedding_bag_backward")
def _(g, ids, offsets, offset2bag, bag_size, maxima, rows, by_frequency, mode, sparse, per_sample=None, padding=-1):
    if sparse:
        return NotImplemented
    if offset2bag.numel() != ids.numel():
        offset2bag, _ = _bags(ids, offsets, False)
    return RULES["_embedding_bag_dense_backward"](g, ids, offset2bag, bag_size, maxima, rows, by_frequency, mode, per_sample, padding)


@rule("_embedding_bag_dense_backward")
def _(g, ids, offset2bag, bag_size, maxima, rows, by_frequency, mode, per_sample=None, padding=-1):
    if mode == 2 or by_frequency or offset2bag.numel() != ids.numel():
        return NotImplemented
    each = get(g)[offset2bag]
    if mode == 1:
        each = field.mul(each, field.inv(bag_size.to(field.TYPE))[offset2bag].unsqueeze(1))
    each = each if per_sample is None else field.mul(each, get(per_sample).unsqueeze(1))
    each = torch.where((ids != padding).unsqueeze(1), each, 0)
    return field.narrow(torch.zeros(rows, g.shape[1], dtype=torch.long).index_add_(0, ids, each.long()))


# ---- Fused optimizers: lists of tensors that are changed in place ----
def _adam(decoupled):
    def step(params, grads, means, squares, largest, steps, *, lr, beta1, beta2, weight_decay, eps, amsgrad, maximize,
             grad_scale=None, found_inf=None):
        if amsgrad or grad_scale is not None:
            return NotImplemented
        rate, b1, b2 = (get(x) if isinstance(x, torch.Tensor) else field.rational(x) for x in (lr, beta1, beta2))
        made = []
        for p, g, m, s, t in zip(params, grads, means, squares, steps):
            g, value, count = get(g), get(p), int(t.item()) + (0 if t.item() >= 1 else 1)
            g = field.neg(g) if maximize else g
            if weight_decay and decoupled:
                value = field.mul(value, field.sub(1, field.mul(rate, field.rational(weight_decay))))
            elif weight_decay:
                g = field.add(g, field.mul(value, field.rational(weight_decay)))
            mean = field.add(field.mul(get(m), b1), field.mul(g, field.sub(1, b1)))
            square = field.add(field.mul(get(s), b2), field.mul(field.mul(g, g), field.sub(1, b2)))
            c1, c2 = field.sub(1, field.power(b1, count)), field.rational(float((1 - beta2**count) ** 0.5))
            below = field.add(field.mul(root_of(square), field.inv(c2)), field.rational(eps))
            value = field.sub(value, field.mul(field.div(mean, below), field.mul(rate, field.inv(c1))))
            made.append((value, mean, square))
        return [[one[i] for one in made] for i in range(3)]
    return step


def _momentum(params, grads, buffers, *, weight_decay, momentum, lr, dampening, nesterov, maximize, is_first_step,
              grad_scale=None, found_inf=None):
    if grad_scale is not None:
        return NotImplemented
    rate = get(lr) if isinstance(lr, torch.Tensor) else field.rational(lr)
    values, kept = [], []
    for i, (p, g) in enumerate(zip(params, grads)):
        value, g = get(p), get(g)
        g = field.neg(g) if maximize else g
        g = field.add(g, field.mul(value, field.rational(weight_decay))) if weight_decay else g
        if momentum:
            before = g if is_first_step else field.add(
                field.mul(get(buffers[i]), field.rational(momentum)), field.mul(g, field.rational(1 - dampening)))
            kept.append(before)
            g = field.add(g, field.mul(before, field.rational(momentum))) if nesterov else before
        values.append(field.sub(value, field.mul(g, rate)))
    return [values, None, kept] if momentum else [values]


def _lists(step, lists):
    """A step of a fused optimizer, which changes some of its lists of tensors."""
    def fused(func, args, kwargs):
        made = step(*args, **kwargs)
        if made is NotImplemented:
            return made
        out = func(*args, **kwargs)
        for at, values in zip(lists, made):
            for i, (tensor, value) in enumerate(zip(args[at] if at is not None else (), values or ())):
                put(tensor, value, next((w for w in map(opaque, (tensor, *(one[i] for one in args[1:2]))) if w), None))
        return (out,)
    return fused


# Operators that change their arguments: (operator, arguments, options) returns (its result,), or NotImplemented without a rule.
FUSED = {"_fused_adam_": _lists(_adam(False), (0, 2, 3)), "_fused_adamw_": _lists(_adam(True), (0, 2, 3)),
         "_fused_sgd_": _lists(_momentum, (0, None, 2))}
