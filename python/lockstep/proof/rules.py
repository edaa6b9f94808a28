"""Field rules of aten operators: a table by operator name.

A rule takes the operator's arguments and returns the results' values, before the operator runs. A `late` rule runs after it and takes its
result first, for operators where floats decide: the largest element, a mask. In-place operators use the rules of the others. Operators that
only move elements run on the values themselves.
"""

import torch

from lockstep.proof import field
from lockstep.proof.shadows import Value, full, get, is_float

aten = torch.ops.aten
RULES, LATE = {}, {}
MOVES = {  # run on the values and their ratios in place of the tensors
    "clone", "gather", "index_select", "index", "cat", "stack", "constant_pad_nd", "flip", "roll", "repeat", "take",
    "repeat_interleave", "tril", "triu", "scatter", "index_put", "_unsafe_index", "slice_scatter", "select_scatter", "expand_copy",
    "permute_copy", "view_copy", "masked_select", "diag_embed", "_index_put_impl", "_unsafe_index_put", "index_copy",
    "index_fill", "masked_scatter", "unfold_copy", "split_with_sizes_copy", "slice_copy", "select_copy", "rot90", "_reshape_copy",
    "where", "masked_fill", "_chunk_cat", "as_strided_copy", "unbind_copy", "squeeze_copy", "unsqueeze_copy", "transpose_copy", "t_copy"}
SOURCES = {"randn", "rand", "randn_like", "rand_like", "normal", "uniform", "bernoulli", "random", "exponential", "randint_like", "cauchy",
           "log_normal", "geometric"}
PLAIN = {"empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided", "zeros", "ones", "arange", "eye", "linspace",
         "scalar_tensor", "tensor", "lift_fresh", "lift", "set", "resize", "resize_", "set_", "logspace", "range", "hann_window",
         "tril_indices", "empty_permuted", "full", "new_full", "detach", "record_stream", "_local_scalar_dense", "item"}


def rule(*names):
    def add(function):
        RULES.update(dict.fromkeys(names, function))
        return function
    return add


def late(*names):
    def add(function):
        LATE.update(dict.fromkeys(names, function))
        return function
    return add


# ---- Sums whose exponential is known ----
def exp_of(x):
    """The exponential of a Value."""
    if x.ratio is None:
        return field.exp(x.value)
    return field.mul(field.exp(field.sub(x.value, field.log(x.ratio))), x.ratio)


def _parts(x):
    """x = a + log(ratio)."""
    if x.peak and x.ratio is None:
        return torch.zeros_like(x.value), field.exp(x.value)
    if x.ratio is None:
        return x.value, 1
    return field.sub(x.value, field.log(x.ratio)), x.ratio


def logged(ratio, rest=0):
    """rest + log(ratio)."""
    return Value(field.add(field.log(ratio), rest), ratio)


def _sum(a, b, times):
    """a + times b."""
    a, b = full(a), full(b)
    times = field.rational(times)
    plain = (a.ratio is None and not a.peak and b.ratio is None and not b.peak) or times not in (1, field.P - 1)
    if plain or not isinstance(a.value, torch.Tensor) or not isinstance(b.value, torch.Tensor):
        scaled = b.value if times == 1 else field.mul(b.value, times)
        return field.add(a.value, scaled)
    if a.ratio is None and b.ratio is None and (not b.peak or times == 1):  # adding a maximum: a + m
        return field.add(a.value, field.mul(b.value, times))
    (rest, ratio), (rest_b, ratio_b) = _parts(a), _parts(b)
    if times == 1:
        return logged(field.mul(ratio, ratio_b), field.add(rest, rest_b))
    return logged(field.mul(ratio, field.inv(ratio_b)), field.sub(rest, rest_b))


rule("add")(lambda a, b, alpha=1: _sum(a, b, alpha))
rule("sub")(lambda a, b, alpha=1: _sum(a, b, -alpha))
rule("rsub")(lambda a, b, alpha=1: _sum(b, a, -alpha))


@rule("neg")
def _(a):
    of = full(a)
    return field.neg(of.value) if of.ratio is None else Value(field.neg(of.value), field.inv(of.ratio))


# ---- Products ----
def square_of(value):
    """The square; of a known root, its argument."""
    from lockstep.proof import shadows

    if value.numel() <= 4096 and shadows._roots:
        known = [shadows._roots.get(x) for x in value.flatten().tolist()]
        if None not in known:
            return torch.tensor(known, dtype=field.TYPE).view(value.shape)
    return field.mul(value, value)


def root_of(value):
    from lockstep.proof import shadows

    made = field.function("sqrt", value)
    made = torch.where(value == 0, 0, made).to(field.TYPE)
    if value.numel() <= 4096:
        shadows._roots.update(zip(made.flatten().tolist(), value.flatten().tolist()))
        if len(shadows._roots) > 1 << 16:
            shadows._roots.clear()
    return made


@rule("mul")
def _(a, b):
    if a is b:
        return square_of(get(a))
    return field.mul(get(a), get(b))


rule("reciprocal")(lambda a: field.inv(get(a)))
rule("addcmul")(lambda a, b, c, value=1: field.add(get(a), field.mul(field.mul(get(b), get(c)), field.rational(value))))
rule("addcdiv")(lambda a, b, c, value=1: field.add(get(a), field.mul(field.div(get(b), get(c)), field.rational(value))))
rule("lerp")(lambda a, b, weight: field.add(get(a), field.mul(get(weight), field.sub(get(b), get(a)))))


@rule("mm", "bmm", "mv", "dot", "vdot")
def _(a, b):
    if a.dim() == 1 and b.dim() == 1:
        return field.total(field.mul(get(a), get(b)))
    if b.dim() == 1:
        return field.matmul(get(a), get(b).unsqueeze(1)).squeeze(-1)
    return field.matmul(get(a), get(b))


@rule("addmm", "baddbmm", "addmv")
def _(c, a, b, beta=1, alpha=1):
    made = RULES["mm"](a, b)
    made = made if alpha == 1 else field.mul(made, field.rational(alpha))
    return made if beta == 0 else field.add(made, get(c) if beta == 1 else field.mul(get(c), field.rational(beta)))


@rule("addr")
def _(c, a, b, beta=1, alpha=1):
    made = field.mul(field.mul(get(a).unsqueeze(1), get(b)), field.rational(alpha))
    return field.add(made, field.mul(get(c), field.rational(beta)))


@rule("pow")
def _(a, n):
    if not isinstance(n, (int, float)) or not isinstance(a, torch.Tensor):
        return field.function("pow", get(a), get(n))
    if n == 2:
        return square_of(get(a))
    if float(n).is_integer() and abs(n) < 64:
        made = field.power(get(a), int(abs(n)))
        return made if n >= 0 else field.inv(made)
    if n in (0.5, -0.5):
        return root_of(get(a)) if n > 0 else field.inv(root_of(get(a)))
    return field.function(f"pow {n}", get(a))


def _products(value, dim):
    """The product of each element and those before it along a dimension."""
    step, size = 1, value.shape[dim]
    while step < size:
        rest = size - step
        value = torch.cat([value.narrow(dim, 0, step), field.mul(value.narrow(dim, step, rest), value.narrow(dim, 0, rest))], dim)
        step *= 2
    return value


rule("cumprod")(lambda a, dim, dtype=None: _products(get(a), dim) if a.dim() else get(a))


@rule("prod")
def _(a, dim=None, keepdim=False, dtype=None):
    value = get(a).flatten() if dim is None or a.dim() == 0 else get(a)
    dim = 0 if value.dim() == 1 else dim
    made = _products(value, dim).narrow(dim, -1, 1) if value.shape[dim] else value.sum(dim, True) + 1
    return made if keepdim else made.squeeze(dim)


rule("sqrt")(lambda a: root_of(get(a)))
rule("hypot")(lambda a, b: root_of(field.add(square_of(get(a)), square_of(get(b)))))
rule("rsqrt")(lambda a: field.inv(root_of(get(a))))


# ---- Sums over dimensions ----
def _dims(a, dim):
    if dim is None or (isinstance(dim, (list, tuple)) and len(dim) == 0):
        return None
    return dim


rule("sum", "nansum")(lambda a, dim=None, keepdim=False, dtype=None: field.total(get(a), _dims(a, dim), keepdim))
rule("mean")(lambda a, dim=None, keepdim=False, dtype=None: mean_of(get(a), _dims(a, dim), keepdim))


def mean_of(value, dims=None, keep=False):
    made = field.total(value, dims, keep)
    return field.mul(made, field.inv(value.numel() // max(1, made.numel())))


rule("cumsum")(lambda a, dim, dtype=None: field.narrow(get(a).long().cumsum(dim)))


def norm_of(value, order, dims=None, keep=False):
    if order == 2:
        return root_of(field.total(square_of(value), dims, keep))
    return None


@late("linalg_vector_norm")
def _(out, a, ord=2, dim=None, keepdim=False, dtype=None):
    ord = 2 if ord is None else ord
    if ord == 2:
        return norm_of(get(a), 2, _dims(a, dim), keepdim)
    if ord == 1:
        return field.total(_absolute(a), _dims(a, dim), keepdim)
    if ord == float("inf"):
        return _extreme(out, a.abs(), _absolute(a), dim, keepdim)
    return NotImplemented


late("trace")(lambda out, a: field.total(get(a).diagonal()))


# ---- Functions of one argument ----
def _uninterpreted(name, of=field.function):
    def function(a, *rest, **options):
        words = " ".join([name, *map(str, rest), *(f"{k}={v}" for k, v in sorted(options.items()) if v is not None)])
        return of(words, get(a))
    return function


for _name in ("sin", "tan", "erf", "tanh"):
    RULES[_name] = _uninterpreted(_name, field.odd)
RULES["cos"] = _uninterpreted("cos", field.even)
RULES["gelu"] = _uninterpreted("gelu")


late("exp")(lambda out, a: torch.where(out == 0, 0, exp_of(full(a))))
late("exp2")(lambda out, a: torch.where(out == 0, 0, field.exp(field.mul(get(a), field.key("log 2") % field.P))))
rule("expm1")(lambda a: field.sub(exp_of(full(a)), 1))
rule("log")(lambda a: logged(get(a)))
rule("log1p")(lambda a: logged(field.add(get(a), 1)))


def _half(a, sign):
    """(exp(a) + sign exp(-a)) / 2."""
    e = exp_of(full(a))
    return field.mul(field.add(e, field.mul(field.inv(e), sign % field.P)), field.inv(2))


rule("cosh")(lambda a: _half(a, 1))
rule("sinh")(lambda a: _half(a, -1))


@late("logsumexp")
def _(out, a, dim, keepdim=False):
    e = torch.where(a == -float("inf"), 0, exp_of(full(a)))
    return logged(field.total(e, dim, keepdim))


rule("logaddexp")(lambda a, b: logged(field.add(exp_of(full(a)), exp_of(full(b)))))


def sigmoid_of(x):
    e = exp_of(x)
    return field.div(e, field.add(e, 1))


rule("sigmoid")(lambda a: sigmoid_of(full(a)))
rule("log_sigmoid_forward")(lambda a: (logged(sigmoid_of(full(a))), 0))
rule("log_sigmoid_backward")(lambda g, a, buffer: field.mul(get(g), field.sub(1, sigmoid_of(full(a)))))


@rule("softplus")
def _(a, beta=1, threshold=20):
    if beta != 1:
        return field.function(f"softplus {beta}", get(a))
    return logged(field.add(exp_of(full(a)), 1))


rule("softplus_backward")(
    lambda g, a, beta, threshold: field.mul(get(g), sigmoid_of(full(a)) if beta == 1 else field.function(f"softplus' {beta}", get(a))))
rule("silu")(lambda a: field.mul(get(a), sigmoid_of(full(a))))


@rule("silu_backward")
def _(g, a):
    s = sigmoid_of(full(a))
    return field.mul(get(g), field.mul(s, field.add(1, field.mul(get(a), field.sub(1, s)))))


rule("tanh_backward")(lambda g, y: field.mul(get(g), field.sub(1, field.mul(get(y), get(y)))))
rule("sigmoid_backward")(lambda g, y: field.mul(get(g), field.mul(get(y), field.sub(1, get(y)))))
rule("gelu_backward")(lambda g, a, approximate="none": field.mul(get(g), field.function(f"gelu' {approximate}", get(a))))


# ---- Where the floats decide ----
def _absolute(a):
    return torch.where(a < 0, field.neg(get(a)), get(a))


rule("abs")(lambda a: _absolute(a))
late("sign", "sgn", "floor", "ceil", "round", "trunc", "heaviside", "floor_divide")(
    lambda out, *_, **__: field.narrow(torch.nan_to_num(out.double()).long()))  # whole numbers
rule("relu")(lambda a: torch.where(a > 0, get(a), 0))
rule("leaky_relu")(lambda a, slope=0.01: torch.where(a > 0, get(a), field.mul(get(a), field.rational(slope))))
rule("leaky_relu_backward")(lambda g, a, slope, is_result: torch.where(a > 0, get(g), field.mul(get(g), field.rational(slope))))
rule("threshold_backward")(lambda g, a, threshold: torch.where(a > threshold, get(g), 0))
rule("threshold")(lambda a, threshold, value: torch.where(a > threshold, get(a), field.rational(value)))


def _clamped(a, low, high):
    made = get(a)
    if low is not None:
        made = torch.where(a < low, get(low), made)
    return made if high is None else torch.where(a > high, get(high), made)


rule("clamp", "hardtanh")(lambda a, min=None, max=None: _clamped(a, min, max))
rule("clamp_min")(lambda a, min: _clamped(a, min, None))
rule("clamp_max")(lambda a, max: _clamped(a, None, max))
rule("hardtanh_backward")(lambda g, a, low, high: torch.where((a > low) & (a < high), get(g), 0))
rule("maximum", "fmax")(lambda a, b: Value(torch.where(a >= b, get(a), get(b)), peak=True))
rule("minimum", "fmin")(lambda a, b: torch.where(a <= b, get(a), get(b)))


def _of_indices(out, a, dim=None, keepdim=False):
    value, indices = get(a), out[1]
    if value.dim() == 0:
        return value
    at = indices if keepdim or indices.dim() == value.dim() else indices.unsqueeze(dim)
    made = value.gather(dim, at)
    return made if keepdim else made.squeeze(dim)


def _extreme(out, floats, value, dim=None, keepdim=False):
    """The value of the first element that has the extreme float, along dimensions."""
    dims = list(range(floats.dim())) if dim is None or dim == [] else [dim] if isinstance(dim, int) else list(dim)
    if floats.dim() == 0:
        return value
    dims = [d % floats.dim() for d in dims]
    kept = [d for d in range(floats.dim()) if d not in dims]
    shape = [floats.shape[d] for d in kept]
    flat = floats.permute(*kept, *dims).reshape(*shape, -1)
    values = value.permute(*kept, *dims).reshape(*shape, -1)
    extreme = out.reshape(*shape, 1)
    at = ((flat == extreme) | (flat.isnan() & extreme.isnan())).int().argmax(-1, keepdim=True)
    return values.gather(-1, at).reshape(out.shape)


@late("amax", "max")
def _(out, a, dim=None, keepdim=False):
    if isinstance(out, tuple):
        return Value(_of_indices(out, a, dim, keepdim), peak=True), None
    if isinstance(dim, torch.Tensor):
        return RULES["maximum"](a, dim)
    return Value(_extreme(out, a, get(a), dim, keepdim), peak=True)


@late("amin", "min")
def _(out, a, dim=None, keepdim=False):
    if isinstance(out, tuple):
        return _of_indices(out, a, dim, keepdim), None
    if isinstance(dim, torch.Tensor):
        return RULES["minimum"](a, dim)
    return _extreme(out, a, get(a), dim, keepdim)


@late("sort", "median", "mode")
def _(out, a, *rest, dim=-1, descending=False, keepdim=False, stable=None):
    if not isinstance(out, tuple):
        return _extreme(out, a, get(a))
    dim = next((x for x in rest if isinstance(x, int) and not isinstance(x, bool)), dim)
    return _of_indices(out, a, dim, out[1].dim() == a.dim()), None


late("kthvalue")(lambda out, a, k, dim=-1, keepdim=False: (_of_indices(out, a, dim, keepdim), None))
late("topk")(lambda out, a, k, dim=-1, largest=True, sorted=True: (get(a).gather(dim, out[1]) if a.dim() else get(a), None))
late("cummax", "cummin")(lambda out, a, dim: (Value(get(a).gather(dim, out[1]), peak=True), None))


@late("fmod", "remainder")
def _(out, a, b):
    quotient = torch.round((a.double() - out.double()) / b).long()
    return field.sub(get(a), field.mul(field.narrow(quotient), get(b)))


late("frac")(lambda out, a: field.sub(get(a), field.narrow(torch.round(a.double() - out.double()).long())))


@late("div")
def _(out, a, b, rounding_mode=None):
    if rounding_mode is not None:
        return LATE["floor"](out)
    return field.div(get(a), get(b))


# ---- Softmax ----
def _exponentials(out, a):
    """Unless masked: a weight of exactly 0 is masked."""
    return torch.where(out == 0, 0, exp_of(full(a)))


@late("_softmax", "_safe_softmax")
def _(out, a, dim, half=False, dtype=None):
    e = _exponentials(out, a)
    return field.div(e, field.total(e, dim, True))


@rule("_softmax_backward_data")
def _(g, y, dim, dtype):
    weighted = field.mul(get(g), get(y))
    return field.sub(weighted, field.mul(get(y), field.total(weighted, dim, True)))


@late("_log_softmax")
def _(out, a, dim, half):
    e = torch.where(out == -float("inf"), 0, exp_of(full(a)))
    rest, ratio = _parts(full(a)) if full(a).ratio is not None else (get(a), 1)
    ratio = field.mul(torch.broadcast_to(field.inv(field.total(e, dim, True)), a.shape), ratio)
    return logged(ratio, rest)


@late("_log_softmax_backward_data")
def _(out, g, y, dim, dtype):
    weight = torch.where(y == -float("inf"), 0, exp_of(full(y)))
    return field.sub(get(g), field.mul(weight, field.total(get(g), dim, True)))


# ---- Losses ----
def _reduced(value, reduction):
    return value if reduction == 0 else mean_of(value) if reduction == 1 else field.total(value)


def _of_reduction(g, count, reduction):
    return field.mul(get(g), field.inv(count)) if reduction == 1 else get(g)


@rule("mse_loss")
def _(a, b, reduction=1):
    d = field.sub(get(a), get(b))
    return _reduced(field.mul(d, d), reduction)


rule("mse_loss_backward")(
    lambda g, a, b, reduction: field.mul(field.mul(_of_reduction(g, a.numel(), reduction), 2), field.sub(get(a), get(b))))


def _class_weights(target, weight, ignored):
    keep = target != ignored
    at = torch.where(keep, target, 0)
    value = torch.ones(target.shape, dtype=field.TYPE) if weight is None else get(weight)[at]
    return at, torch.where(keep, value, 0).to(field.TYPE)


@rule("nll_loss_forward", "nll_loss2d_forward")
def _(x, target, weight, reduction, ignored):
    at, weights = _class_weights(target, weight, ignored)
    dim = 1 if x.dim() > 1 else 0
    loss = field.mul(field.neg(get(x).gather(dim, at.unsqueeze(dim)).squeeze(dim)), weights)
    count = field.total(weights)
    if reduction == 0:
        return loss, 0
    made = field.total(loss)
    return field.div(made, count) if reduction == 1 else made, count


@rule("nll_loss_backward", "nll_loss2d_backward")
def _(g, x, target, weight, reduction, ignored, total_weight):
    at, weights = _class_weights(target, weight, ignored)
    dim = 1 if x.dim() > 1 else 0
    each = field.mul(field.neg(get(g)), weights)
    each = field.div(each, field.total(weights)) if reduction == 1 else each
    return torch.zeros(x.shape, dtype=field.TYPE).scatter_(dim, at.unsqueeze(dim), each.unsqueeze(dim))


# ---- Normalisations ----
@rule("native_layer_norm")
def _(a, shape, w, b, eps):
    dims = list(range(a.dim() - len(shape), a.dim()))
    mean = mean_of(get(a), dims, True)
    centred = field.sub(get(a), mean)
    scale = field.inv(root_of(field.add(mean_of(field.mul(centred, centred), dims, True), field.rational(eps))))
    made = field.mul(centred, scale)
    made = made if w is None else field.mul(made, get(w))
    return made if b is None else field.add(made, get(b)), mean, scale


@rule("native_layer_norm_backward")
def _(g, a, shape, mean, scale, w, b, mask):
    dims, others = list(range(a.dim() - len(shape), a.dim())), list(range(a.dim() - len(shape)))
    hat = field.mul(field.sub(get(a), get(mean)), get(scale))
    inner = get(g) if w is None else field.mul(get(g), get(w))
    along = field.mul(hat, mean_of(field.mul(inner, hat), dims, True))
    given = field.mul(field.sub(field.sub(inner, mean_of(inner, dims, True)), along), get(scale))
    outer = (field.total(field.mul(get(g), hat), others), field.total(get(g), others)) if others else (field.mul(get(g), hat), get(g))
    return given, *outer


# ---- Embeddings, scatters ----
rule("embedding")(lambda w, ids, *_, **__: get(w)[ids])


@rule("embedding_dense_backward")
def _(g, ids, rows, padding=-1, by_frequency=False):
    if by_frequency:
        return NotImplemented
    flat = ids.flatten()
    grads = get(g).reshape(-1, g.shape[-1]).long()
    grads = torch.where((flat == padding).unsqueeze(1), 0, grads) if padding >= 0 else grads
    return field.narrow(torch.zeros(rows, g.shape[-1], dtype=torch.long).index_add_(0, flat, grads))


rule("scatter_add")(lambda a, dim, index, source: field.narrow(get(a).long().scatter_add(dim, index, get(source).long())))


@rule("index_add")
def _(a, dim, index, source, alpha=1):
    return field.narrow(get(a).long().index_add(dim, index, field.mul(get(source), field.rational(alpha)).long()))


rule("index_put")(
    lambda a, indices, values, accumulate=False: field.narrow(aten.index_put(get(a).long(), indices, get(values).long(), accumulate)))


RULES["_index_put_impl"] = lambda a, i, v, accumulate=False, unsafe=False: RULES["index_put"](a, i, v, accumulate)


def _placed(function):
    def made(g, sizes, *rest):
        whole = torch.zeros(sizes, dtype=field.TYPE)
        function(whole, *rest).copy_(get(g))
        return whole
    return made


RULES["slice_backward"] = _placed(aten.slice)
RULES["select_backward"] = _placed(lambda whole, dim, index: whole.select(dim, index))


@rule("diagonal_backward")
def _(g, sizes, offset, dim1, dim2):
    whole = torch.zeros(sizes, dtype=field.TYPE)
    whole.diagonal(offset, dim1, dim2).copy_(get(g))
    return whole


@rule("unfold_backward")
def _(g, sizes, dim, size, step):
    at = torch.arange(torch.Size(sizes).numel()).view(sizes).unfold(dim, size, step).reshape(-1)
    return field.narrow(torch.zeros(torch.Size(sizes).numel(), dtype=torch.long).index_add_(0, at, get(g).reshape(-1).long()).view(sizes))


late("max_pool2d_with_indices")(lambda out, a, *_, **__: (get(a).flatten(-2).gather(-1, out[1].flatten(-2)).view(out[0].shape), None))


@rule("max_pool2d_with_indices_backward")
def _(g, a, kernel, stride, padding, dilation, ceil, indices):
    whole = torch.zeros(a.shape, dtype=torch.long).flatten(-2)
    return field.narrow(whole.scatter_add_(-1, indices.flatten(-2), get(g).long().flatten(-2))).view(a.shape)


# ---- Copies, constants ----
rule("copy")(lambda a, b, *_: full(b))
rule("_to_copy", "_unsafe_view")(lambda a, *_, **__: full(a))
rule("fill", "full_like")(lambda a, value, **_: get(value))
rule("zeros_like", "zero", "new_zeros")(lambda a, *_, **__: 0)
rule("ones_like", "new_ones")(lambda a, *_, **__: 1)


@late("native_dropout")
def _(out, a, p, train):
    return (get(a) if not train or p == 0 else field.mul(torch.where(out[1], get(a), 0), field.inv(field.rational(1 - p)))), None


rule("native_dropout_backward")(lambda g, mask, scale: field.mul(torch.where(mask, get(g), 0), field.rational(scale)))


def moved(func, args, kwargs, part):
    """An operator that moves elements, applied to the values of its arguments or to their ratios."""
    def of(x):
        if is_float(x):
            held = full(x)
            if part == "value":
                return held.value
            return held.ratio if held.ratio is not None else torch.ones(x.shape, dtype=field.TYPE)
        if isinstance(x, (list, tuple)) and any(isinstance(y, torch.Tensor) for y in x):
            return [of(y) for y in x]
        if isinstance(x, float):
            return field.rational(x) if part == "value" else 1
        return x
    return func(*[of(x) for x in args], **{k: of(v) for k, v in kwargs.items()})
