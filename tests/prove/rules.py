"""Each rule of the field against float64 on whole numbers, or against the operators that it consists of; and each rule with an error, which
a case must find: rules.py PYTHON_FOLDER CLIENT_LIBRARY.
"""
import ctypes
import fractions
import os
import sys
import types

FOLDER, LIBRARY = sys.argv[1:3]
os.environ["LOCKSTEP_PROVE"] = os.devnull
package = sys.modules["lockstep"] = types.ModuleType("lockstep")
package.__path__ = [os.path.join(FOLDER, "lockstep")]
ctypes.CDLL(LIBRARY, ctypes.RTLD_GLOBAL)

import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402

from lockstep.proof import field, layers, mode, powers, rules, shadows, ties  # noqa: E402

aten = torch.ops.aten
P = field.P
assert field._kernels is not None
whole = torch.Generator().manual_seed(7)


def ints(*shape, least=-6, most=6, dtype=torch.float64):
    return torch.randint(least, most + 1, shape, generator=whole).to(dtype)


def drawn(*shape):
    """Floats whose values are drawn, not small."""
    return torch.randn(*shape, generator=whole, dtype=torch.float64)


def value_of(number):
    near = fractions.Fraction(number).limit_denominator(5000)
    assert abs(float(near) - number) < 1e-9, number
    return near.numerator % P * pow(near.denominator, -1, P) % P


def tensors(made):
    return [made] if isinstance(made, torch.Tensor) else [one for one in made if isinstance(one, torch.Tensor)]


def numeric(function, *inputs):
    """The values of the results equal the float64 results."""
    def run():
        for tensor in tensors(function(*[one.clone() if isinstance(one, torch.Tensor) else one for one in inputs])):
            if not tensor.is_floating_point():
                continue
            want = torch.tensor([value_of(number) for number in tensor.flatten().tolist()], dtype=torch.long)
            if not torch.equal(shadows.get(tensor).flatten().long(), want):
                return False
        return True
    return run


def same(one, other, *inputs):
    """Two ways to compute give equal values."""
    def run():
        pairs = list(zip(tensors(one(*inputs)), tensors(other(*inputs)), strict=True))
        return all(torch.equal(shadows.get(a), shadows.get(b)) for a, b in pairs if a.is_floating_point())
    return run


def changed(function):
    """For an in-place operator: the tensor that it changes."""
    return lambda a, *rest: (function(a, *rest), a)[1]


def hashed(function, name, of, x):
    """The keyed hash of its name."""
    return lambda: torch.equal(shadows.get(function(x)), of(name, shadows.get(x)))


def by_name(name):
    def given(x):
        made = x.clone()
        shadows.put(made, field.function(name, shadows.get(x)))
        return made
    return given


def by_exp2(x):
    made = x.clone()
    shadows.put(made, field.exp(field.mul(shadows.get(x), field.key("log 2") % P)))
    return made


def grad(function):
    """The gradients of a function's weighted sum, by autograd."""
    def run(*inputs):
        leaves = [one.detach().clone().requires_grad_() if isinstance(one, torch.Tensor) and one.is_floating_point() else one
                  for one in inputs]
        for leaf, given in zip(leaves, inputs):
            if isinstance(given, torch.Tensor) and given.is_floating_point():
                shadows.put(leaf.detach(), shadows.full(given))
        out = function(*leaves)
        (out * (torch.arange(out.numel(), dtype=torch.float64).view(out.shape) + 2)).sum().backward()
        return [leaf.grad for leaf in leaves if isinstance(leaf, torch.Tensor) and leaf.grad is not None]
    return run


A, B, C = ints(3, 4), ints(3, 4), ints(3, 4)
NOT0 = torch.tensor([[1., 2, 4, -2], [5, -1, 8, 3], [2, 10, -4, 1]], dtype=torch.float64)
M, N = ints(3, 4), ints(4, 5)
X, Y = drawn(3, 4), drawn(3, 4)
IDS = torch.tensor([3, 0, 2, 2, 1])
T = torch.tensor([1, 3, 0])
SQUARES = torch.tensor([1., 4, 9, 25], dtype=torch.float64)


def softmax_by_parts(x):
    m = x.amax(-1, keepdim=True)
    e = (x - m).exp()
    return e / e.sum(-1, keepdim=True)


def blocks(x):
    """Softmax in two blocks, each with its own maximum."""
    a, b = x[:, :2], x[:, 2:]
    ma, mb = a.amax(1, keepdim=True), b.amax(1, keepdim=True)
    m = torch.maximum(ma, mb)
    ea, eb = (a - ma).exp() * (ma - m).exp(), (b - mb).exp() * (mb - m).exp()
    return torch.cat([ea, eb], 1) / (ea.sum(1, keepdim=True) + eb.sum(1, keepdim=True))


def layer_norm(x, w, b):
    m = x.mean(-1, keepdim=True)
    v = (x - m).square().mean(-1, keepdim=True)
    return (x - m) * (v + 1e-5).rsqrt() * w + b


def weight_norm(v, g):
    return v * (g / v.square().sum((1,), True).sqrt())


def rms_norm(x, w):
    return x * (x.square().mean(-1, keepdim=True) + 1e-5).rsqrt() * w


def attention(q, k, v):
    s = q @ k.transpose(-1, -2) * 0.5
    s = s.masked_fill(~torch.ones(s.shape[-2:], dtype=torch.bool).tril(), -float("inf"))
    return s.softmax(-1) @ v


def correlate(x, w, b):
    """A convolution of stride 1 by shifts."""
    size = x.shape[-1] - w.shape[-1] + 1
    made = sum(torch.einsum("bcij,oc->boij", x[:, :, i:i + size, j:j + size], w[:, :, i, j])
               for i in range(w.shape[2]) for j in range(w.shape[3]))
    return made + b.view(1, -1, 1, 1)


def adamw(p, g, m, s, t):
    p = p * (1 - 0.1 * 0.5)
    m, s = m.lerp(g, 1 - 0.5), s * 0.75 + g * g * (1 - 0.75)
    return p - (m / ((s.sqrt() / (1 - 0.75) ** 0.5) + 0.5)) * (0.1 / (1 - 0.5)), m, s


def fused_adamw(p, g, m, s, t):
    made = [one.clone() for one in (p, g, m, s, t)]
    torch._fused_adamw_([made[0]], [made[1]], [made[2]], [made[3]], [], [made[4]], lr=0.1, beta1=0.5, beta2=0.75, weight_decay=0.5,
                        eps=0.5, amsgrad=False, maximize=False)
    return made[0], made[2], made[3]


def adam(p, g, m, s, t):
    g = g + p * 0.5
    m, s = m.lerp(g, 1 - 0.5), s * 0.75 + g * g * (1 - 0.75)
    return p - (m / ((s.sqrt() / (1 - 0.75) ** 0.5) + 0.5)) * (0.1 / (1 - 0.5)), m, s


def fused_adam(p, g, m, s, t):
    made = [one.clone() for one in (p, g, m, s, t)]
    torch._fused_adam_([made[0]], [made[1]], [made[2]], [made[3]], [], [made[4]], lr=0.1, beta1=0.5, beta2=0.75, weight_decay=0.5,
                       eps=0.5, amsgrad=False, maximize=False)
    return made[0], made[2], made[3]


def sgd(p, g, m):
    g = p * 0.5 - g
    m = m * 0.75 + g * (1 - 0.25)
    return p - (g + m * 0.75) * 0.1, m


def fused_sgd(p, g, m):
    made = [one.clone() for one in (p, g, m)]
    torch._fused_sgd_([made[0]], [made[1]], [made[2]], weight_decay=0.5, momentum=0.75, lr=0.1, dampening=0.25, nesterov=True, maximize=True,
                      is_first_step=False)
    return made[0], made[2]


def bag(w, ids, offsets):
    return F.embedding_bag(ids, w, offsets, mode="mean")


def bag_by_rows(w, ids, offsets):
    return torch.stack([w[ids[:2]].sum(0) / 2, w[ids[2:]].sum(0) / 3])


def grouped(q, k, v):
    return attention(q, *(one.repeat_interleave(2, 1) for one in (k, v)))


def masked_attention(q, k, v):
    return (q @ k.transpose(-1, -2) * 0.5 + MASK).softmax(-1) @ v


def weighted_bag(w):
    return F.embedding_bag(IDS, w, torch.tensor([0, 2]), mode="sum", per_sample_weights=WEIGHTS)


def weighted_bag_by_rows(w):
    rows = w[IDS] * WEIGHTS.unsqueeze(1)
    return torch.stack([rows[:2].sum(0), rows[2:].sum(0)])


def shifted(x):
    return x - x.amax(1, keepdim=True)


def largest(x):
    return x.amax(1, keepdim=True)


MASK = torch.tensor([[0., -float("inf"), -float("inf")], [0.25, 0, -float("inf")], [0, 0, 0.5]], dtype=torch.float64)
WEIGHTS = torch.tensor([1., 3, -2, 2, 5], dtype=torch.float64)
FEW, OTHER = drawn(2, 1, 3, 4), drawn(2, 1, 3, 4)
Q, K, V = drawn(2, 2, 3, 4), drawn(2, 2, 3, 4), drawn(2, 2, 3, 4)
IMAGE, KERNEL, BIAS = ints(2, 2, 5, 5), ints(3, 2, 3, 3), ints(3)

CASES = [
    numeric(torch.add, A, B), numeric(lambda a, b: torch.add(a, b, alpha=3), A, B), numeric(changed(torch.Tensor.add_), A, B),
    numeric(torch.sub, A, B), numeric(torch.rsub, A, B), numeric(torch.neg, A), numeric(torch.mul, A, B), numeric(lambda a: a * a, A),
    numeric(torch.div, A, NOT0), numeric(lambda a: a / 3, A), numeric(torch.reciprocal, NOT0), numeric(torch.square, A),
    numeric(lambda a, b, c: torch.addcmul(a, b, c, value=2), A, B, C), numeric(lambda a, b, c: torch.addcdiv(a, b, c, value=2), A, B, NOT0),
    numeric(lambda a, b: torch.lerp(a, b, 0.25), A, B), numeric(torch.mm, M, N), numeric(torch.mv, M, N[:, 0]), numeric(torch.dot, M[0], N[:, 0]),
    numeric(torch.vdot, M[0], N[:, 0]),
    numeric(torch.bmm, ints(2, 3, 4), ints(2, 4, 5)), numeric(lambda c, a, b: torch.addmm(c, a, b, beta=2, alpha=3), ints(3, 5), M, N),
    numeric(torch.baddbmm, ints(2, 3, 5), ints(2, 3, 4), ints(2, 4, 5)), numeric(torch.addmv, ints(3), M, N[:, 0]),
    numeric(torch.addr, ints(3, 4), ints(3), ints(4)), numeric(lambda a: a ** 3, A), numeric(lambda a: a ** 2, A), numeric(lambda a: a ** -2, NOT0),
    same(lambda a: a ** 0.5, torch.sqrt, X.abs()), same(lambda a: a ** -0.5, torch.rsqrt, X.abs()),
    same(lambda a: torch.rsqrt(a), lambda a: 1 / a.sqrt(), SQUARES), numeric(lambda a: a.sqrt().square(), SQUARES),
    same(lambda x: torch.linalg.vector_norm(x).square(), lambda x: x.square().sum(), X), numeric(torch.sum, A),
    numeric(lambda a: a.sum(1), A), numeric(lambda a: a.mean((0, 1)), A), numeric(lambda a: a.mean(0, keepdim=True), A), numeric(lambda a: a.cumsum(1), A),
    numeric(lambda a: torch.linalg.vector_norm(a, 1, dim=1), A), numeric(lambda a: torch.linalg.vector_norm(a, float("inf"), dim=1), A),
    numeric(torch.trace, M), numeric(torch.nansum, A), numeric(torch.prod, A), numeric(lambda a: a.prod(1), A), numeric(lambda a: a.prod(0, keepdim=True), A),
    numeric(lambda a: a.cumprod(1), A), numeric(lambda a: a.cumprod(0), A), numeric(lambda a: a[:, :0].prod(1), A), numeric(grad(torch.prod), NOT0),
    numeric(grad(lambda a: a.cumprod(1)), NOT0), same(torch.hypot, lambda x, y: (x.square() + y.square()).sqrt(), X, Y),
    # Operators where the floats decide.
    numeric(torch.abs, A), numeric(torch.sign, A), numeric(torch.floor, A / 4), numeric(torch.ceil, A / 4), numeric(torch.trunc, A / 4),
    numeric(torch.round, A / 4), numeric(lambda a, b: torch.div(a, b, rounding_mode="floor"), A, NOT0), numeric(torch.relu, A), numeric(changed(F.relu_), A),
    numeric(lambda a: F.leaky_relu(a, 0.25), A), numeric(grad(lambda a: F.leaky_relu(a, 0.25)), A), numeric(grad(torch.relu), A),
    numeric(lambda a: F.threshold(a, 1, -3), A), numeric(lambda a: a.clamp(-2, 3), A), numeric(lambda a: a.clamp_min(1), A),
    numeric(lambda a: a.clamp_max(1), A), numeric(lambda a: F.hardtanh(a, -2, 2), A), numeric(grad(lambda a: F.hardtanh(a, -2, 2)), A),
    numeric(torch.maximum, A, B), numeric(torch.minimum, A, B), numeric(lambda a: a.amax(1), A), numeric(lambda a: a.amin(1), A), numeric(torch.max, A),
    numeric(lambda a: a.max(1), A), numeric(lambda a: a.min(0, keepdim=True), A), numeric(torch.min, A), numeric(lambda a: a.sort(1), A),
    numeric(lambda a: a.sort(dim=0, descending=True), A), numeric(lambda a: a.topk(2), A), numeric(lambda a: a.kthvalue(2, 1), A),
    numeric(lambda a: a.median(1), A), numeric(torch.median, A), numeric(lambda a: a.mode(1), A), numeric(lambda a: a.cummax(1), A), numeric(lambda a: a.cummin(1), A),
    numeric(lambda a: torch.fmod(a, 4), A), numeric(lambda a: torch.remainder(a, 4), A), numeric(torch.fmax, A, B), numeric(torch.fmin, A, B),
    numeric(torch.sgn, A), numeric(lambda a: (a / 4).frac(), A), numeric(lambda a: torch.floor_divide(a, 4), A), numeric(torch.heaviside, A, B),
    # Moves.
    numeric(lambda a: a.clone(), A), numeric(lambda a: a.t().contiguous(), A), numeric(lambda a, b: torch.cat([a, b], 1), A, B),
    numeric(lambda a, b: torch.stack([a, b]), A, B), numeric(lambda a: F.pad(a, (1, 2), value=3.0), A), numeric(lambda a: a.flip(0).roll(1, 1).repeat(2, 1), A),
    numeric(lambda a: a.gather(1, T.view(3, 1)), A), numeric(lambda a: a.index_select(1, IDS[:2]), A), numeric(lambda a: a[T[:2] % 3], A),
    numeric(lambda a: a.tril() + a.triu(), A), numeric(lambda a, b: torch.where(a > b, a, b), A, B), numeric(lambda a: a.masked_fill(a > 0, 5.0), A),
    numeric(lambda a, b: a.scatter(1, T.view(3, 1), b), A, B), numeric(lambda a, b: a.scatter_add(1, T.view(3, 1), b), A, B),
    numeric(lambda a, b: a.index_add(0, torch.tensor([1, 1, 0]), b, alpha=2), A, B),
    numeric(lambda a, b: a.index_put((torch.tensor([0, 0]), torch.tensor([1, 1])), b[0, :2], accumulate=True), A, B),
    numeric(lambda a, b: a.index_put((torch.tensor([0, 1]), torch.tensor([1, 2])), b[0, :2]), A, B),
    numeric(changed(lambda a, b: a[:, 1:3].copy_(b[:, :2])), A, B), numeric(changed(lambda a: a[0].fill_(7.0)), A), numeric(changed(lambda a: a[0].zero_()), A),
    numeric(lambda a: torch.full_like(a, 0.5), A), numeric(torch.zeros_like, A), numeric(torch.ones_like, A), numeric(lambda a: a.new_zeros(2) + a.new_ones(2), A),
    numeric(lambda a: torch.full((2,), 0.25, dtype=torch.float64) + a.new_full((2,), 3.0), A), numeric(lambda a: a.float().to(torch.float64), A),
    numeric(lambda a: a.view(2, 6).unsqueeze(0).expand(3, 2, 6).reshape(-1), A), numeric(grad(lambda a: a[:, 1:3]), A), numeric(grad(lambda a: a[1]), A),
    numeric(grad(lambda a: a.diagonal()), A), numeric(grad(lambda a: a.unfold(1, 2, 1)), A), numeric(lambda w: F.embedding(IDS, w), ints(5, 3)),
    numeric(grad(lambda w: F.embedding(IDS, w, padding_idx=0)), ints(5, 3)), numeric(lambda a: F.dropout(a, 0.5), A), numeric(grad(lambda a: F.dropout(a, 0.5)), A),
    numeric(lambda a: torch.native_dropout(a, 0.5, True)[0], A), numeric(lambda a: aten.native_dropout_backward(a, a > 0, 2.0), A),
    numeric(lambda a, w, b: aten.linear(a, w, b), M, ints(5, 4), ints(5)),
    numeric(lambda a: torch._foreach_add([a, a], 2)[1], A), numeric(lambda a, b: torch._foreach_mul([a, a], [b, a])[0], A, B),
    numeric(lambda a: (lambda x: (torch._foreach_mul_([x], 3), x)[1])(a.clone()), A),
    # Functions: their decompositions, or their laws.
    same(lambda x: x.exp() * (-x).exp(), torch.ones_like, X), same(lambda x: x.exp().log().exp(), torch.exp, X), same(torch.expm1, lambda x: x.exp() - 1, X),
    same(lambda x: x.log().exp(), lambda x: x.clone(), X.abs()), same(lambda x: x.log1p().exp(), lambda x: 1 + x, X.abs()),
    same(torch.cosh, lambda x: (x.exp() + (-x).exp()) / 2, X), same(torch.sinh, lambda x: (x.exp() - (-x).exp()) / 2, X),
    same(grad(torch.cosh), grad(lambda x: (x.exp() + 1 / x.exp()) / 2), X),
    same(torch.sigmoid, lambda x: 1 - torch.sigmoid(-x), X),
    same(torch.sigmoid, lambda x: x.exp() / (1 + x.exp()), X), same(F.silu, lambda x: x * torch.sigmoid(x), X), same(grad(F.silu), grad(lambda x: x * torch.sigmoid(x)), X),
    same(lambda x: F.logsigmoid(x).exp(), torch.sigmoid, X), same(lambda x: F.softplus(x).exp(), lambda x: 1 + x.exp(), X),
    same(grad(F.softplus), grad(lambda x: (1 + x.exp()).log()), X), same(grad(F.logsigmoid), grad(lambda x: torch.sigmoid(x).log()), X),
    same(torch.tanh, lambda x: -torch.tanh(-x), X), same(grad(torch.tanh), lambda x: [(1 - x.tanh() * x.tanh()) * (torch.arange(12.).view(3, 4) + 2)], X),
    same(grad(torch.sigmoid), grad(lambda x: x.exp() / (1 + x.exp())), X), same(torch.erf, lambda x: -torch.erf(-x), X), same(torch.sin, lambda x: -torch.sin(-x), X),
    same(torch.cos, lambda x: torch.cos(-x), X), same(lambda x: x.logsumexp(1).exp(), lambda x: x.exp().sum(1), X),
    same(lambda x, y: torch.logaddexp(x, y).exp(), lambda x, y: x.exp() + y.exp(), X, Y),
    same(lambda x: x.softmax(1), softmax_by_parts, X), same(lambda x: x.softmax(1), blocks, X), same(lambda x: x.log_softmax(1).exp(), lambda x: x.softmax(1), X),
    same(grad(lambda x: x.softmax(1)), grad(lambda x: x.exp() / x.exp().sum(1, keepdim=True)), X),
    same(grad(lambda x: x.log_softmax(1)), grad(lambda x: x - x.exp().sum(1, keepdim=True).log()), X),
    hashed(F.gelu, "gelu", field.function, X), hashed(torch.cos, "cos", field.even, X), hashed(torch.tan, "tan", field.odd, X),
    same(grad(F.gelu), lambda x: [aten.gelu_backward(torch.arange(12.).view(3, 4) + 2, x)], X),
    same(lambda x: aten.gelu_backward(x * 3, x), lambda x: aten.gelu_backward(x, x) * 3, X),
    same(lambda x: aten.gelu_backward(torch.ones_like(x), x), by_name("gelu' none"), X), same(torch.exp2, by_exp2, X),
    same(lambda x: aten._safe_softmax(x, 1), lambda x: x.softmax(1), X),
    numeric(lambda a, b: torch._index_put_impl_(a, (torch.tensor([0, 0]), torch.tensor([1, 1])), b[0, :2], True, False), A, B),
    # Losses, normalisations, attention, layers.
    numeric(lambda a, b: F.mse_loss(a, b), A, B), numeric(lambda a, b: F.mse_loss(a, b, reduction="sum"), A, B), numeric(grad(F.mse_loss), A, B),
    numeric(lambda a: F.nll_loss(a, T), A), numeric(lambda a: F.nll_loss(a, T, torch.tensor([1., 2, 3, 4], dtype=torch.float64), ignore_index=3), A),
    numeric(grad(lambda a: F.nll_loss(a, T)), A), numeric(lambda a: F.nll_loss(a, T, reduction="none"), A),
    numeric(lambda a: F.nll_loss(a.view(1, 3, 2, 2), torch.tensor([[[0, 2], [1, 1]]])), A), numeric(grad(lambda a: F.nll_loss(a.view(1, 3, 2, 2), torch.tensor([[[0, 2], [1, 1]]]))), A),
    same(lambda x, w, b: F.layer_norm(x, (4,), w, b), layer_norm, X, drawn(4), drawn(4)),
    same(grad(lambda x, w, b: F.layer_norm(x, (4,), w, b)), grad(layer_norm), X, drawn(4), drawn(4)),
    same(lambda v, g: torch._weight_norm(v, g, 0), weight_norm, X, drawn(X.shape[0], 1)), same(grad(lambda v, g: torch._weight_norm(v, g, 0)), grad(weight_norm), X, drawn(X.shape[0], 1)),
    same(lambda x, w: F.rms_norm(x, (4,), w, 1e-5), rms_norm, X, drawn(4)), numeric(lambda a: a.var(1), A), numeric(lambda a: torch.var_mean(a, 1, correction=0), A),
    same(lambda x: x.std(1), lambda x: x.var(1).sqrt(), X), same(lambda x: torch.std_mean(x, 1)[0], lambda x: x.var(1).sqrt(), X),
    same(lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True), attention, Q, K, V),
    same(grad(lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True)), grad(attention), Q, K, V),
    numeric(lambda x, w, b: F.conv2d(x, w, b), IMAGE, KERNEL, BIAS), numeric(lambda x, w, b: F.conv2d(x, w, b, stride=2, padding=1, dilation=2), IMAGE, KERNEL, BIAS),
    same(grad(lambda x, w, b: F.conv2d(x, w, b)), grad(correlate), IMAGE, KERNEL, BIAS), numeric(lambda x: F.conv2d(x, ints(4, 1, 3, 3), groups=2), IMAGE),
    numeric(lambda x: F.max_pool2d(x, 2), IMAGE), numeric(grad(lambda x: F.max_pool2d(x, 2)), IMAGE), numeric(lambda x: F.avg_pool2d(x, 2), IMAGE),
    same(lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True), grouped, Q, FEW, OTHER),
    same(grad(lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)), grad(grouped), Q, FEW, OTHER),
    same(lambda q, k, v: F.scaled_dot_product_attention(q, k, v, MASK), masked_attention, Q, K, V),
    same(grad(lambda q, k, v: F.scaled_dot_product_attention(q, k, v, MASK)), grad(masked_attention), Q, K, V),
    same(weighted_bag, weighted_bag_by_rows, ints(5, 3)), same(grad(weighted_bag), grad(weighted_bag_by_rows), ints(5, 3)),
    same(lambda x: (shifted(x) + shifted(x)).exp(), lambda x: (x + x).exp() * (-largest(x)).exp() * (-largest(x)).exp(), X),
    same(lambda x: (-shifted(x)).exp(), lambda x: 1 / shifted(x).exp(), X), same(lambda x: (shifted(x) - shifted(x)).exp(), torch.ones_like, X),
    same(bag, bag_by_rows, ints(5, 3), IDS, torch.tensor([0, 2])), same(grad(bag), grad(bag_by_rows), ints(5, 3), IDS, torch.tensor([0, 2])),
    same(lambda w, *of: bag(w.detach().requires_grad_(), *of).detach(), bag_by_rows, ints(5, 3), IDS, torch.tensor([0, 2])),
    same(fused_adamw, adamw, A, B, C, C * C, torch.tensor(1.0)), same(fused_adam, adam, A, B, C, C * C, torch.tensor(1.0)), same(fused_sgd, sgd, A, B, C),
]

# FBGEMM's tables: one of 5 x 4 with two features, one of 4 x 8; bags of two samples.
TABLE_IDS, TABLE_LENGTHS = torch.tensor([3, 0, 2, 2, 1, 4, 0, 3, 3]), torch.tensor([1, 2, 0, 3, 2, 1])
TABLE_OFFSETS = torch.cat([torch.zeros(1, dtype=torch.long), TABLE_LENGTHS.cumsum(0)])
FACTORS = torch.tensor([1., 2, -1, 3, 2, 4, -2, 1, 5])


def by_table(optimizer, pooling, weighted, dense=False):
    """The outputs, the changed tables, and the factors' gradients, by FBGEMM."""
    def run(small, large):
        module = tables.DenseTableBatchedEmbeddingBagsCodegen if dense else tables.SplitTableBatchedEmbeddingBagsCodegen
        if dense:
            made = module([(5, 4), (4, 8)], feature_table_map=[0, 0, 1], pooling_mode=pooling, use_cpu=True)
        else:
            where = (tables.EmbeddingLocation.HOST, tables.ComputeDevice.CPU)
            made = module([(5, 4, *where), (4, 8, *where)], feature_table_map=[0, 0, 1], optimizer=optimizer, learning_rate=0.5, eps=0.25,
                          pooling_mode=pooling, stochastic_rounding=False)
        parts = made.split_embedding_weights()
        for part, given in zip(parts, (small, large)):
            part.data.copy_(given)
        factors = FACTORS.clone().requires_grad_() if weighted else None
        out = made(TABLE_IDS, TABLE_OFFSETS, factors)
        (out * (torch.arange(out.numel()).view(out.shape) + 2.)).sum().backward()
        changed = [made.weights.grad] if dense else [part.detach().clone() for part in parts]
        return [out.detach(), *(one.reshape(-1) for one in changed), *([factors.grad] if weighted else [])]
    return run


def by_rows(optimizer, pooling, weighted, dense=False):
    def run(small, large):
        leaves = [small.clone().requires_grad_(), large.clone().requires_grad_()]
        factors = FACTORS.clone().requires_grad_() if weighted else None
        bags = []
        for feature, table in enumerate((0, 0, 1)):
            for sample in range(2):
                at = slice(int(TABLE_OFFSETS[2 * feature + sample]), int(TABLE_OFFSETS[2 * feature + sample + 1]))
                rows = leaves[table][TABLE_IDS[at]]
                rows = rows * factors[at].unsqueeze(1) if weighted else rows
                made = rows.sum(0)
                bags.append(made / len(rows) if pooling == tables.PoolingMode.MEAN and len(rows) else made)
        out = torch.stack([torch.cat(bags[sample::2]) for sample in range(2)])
        (out * (torch.arange(out.numel()).view(out.shape) + 2.)).sum().backward()
        changed = []
        for leaf in leaves:
            g, kind = leaf.grad, tables.OptimType
            below = {kind.EXACT_SGD: lambda: 1, kind.EXACT_ADAGRAD: lambda: (g * g).sqrt() + 0.25,
                     kind.EXACT_ROWWISE_ADAGRAD: lambda: (g * g).mean(1, keepdim=True).sqrt() + 0.25}[optimizer]()
            changed.append((leaf.detach() - g / below * 0.5).reshape(-1))
        changed = [torch.cat([leaf.grad.reshape(-1) for leaf in leaves])] if dense else changed
        return [out.detach(), *changed, *([factors.grad] if weighted else [])]
    return run


try:
    import fbgemm_gpu  # noqa: F401
    import fbgemm_gpu.split_table_batched_embeddings_ops_training as tables

    KINDS, POOLED = tables.OptimType, tables.PoolingMode
    SMALL, LARGE = ints(5, 4, dtype=torch.float32), ints(4, 8, dtype=torch.float32)
    CASES += [same(by_table(*how), by_rows(*how), SMALL, LARGE) for how in (
        (KINDS.EXACT_SGD, POOLED.SUM, False), (KINDS.EXACT_SGD, POOLED.MEAN, False), (KINDS.EXACT_SGD, POOLED.SUM, True),
        (KINDS.EXACT_ADAGRAD, POOLED.SUM, False), (KINDS.EXACT_ADAGRAD, POOLED.SUM, True), (KINDS.EXACT_ROWWISE_ADAGRAD, POOLED.SUM, False),
        (KINDS.EXACT_ROWWISE_ADAGRAD, POOLED.MEAN, False), (KINDS.EXACT_ROWWISE_ADAGRAD, POOLED.SUM, True),
        (KINDS.EXACT_SGD, POOLED.SUM, False, True), (KINDS.EXACT_SGD, POOLED.MEAN, False, True))]
    CASES.append(numeric(lambda a: torch.ops.fbgemm.permute_pooled_embs_split(
        a, torch.tensor([0, 1, 4]), torch.tensor([1, 0]), torch.tensor([0, 3, 4]), torch.tensor([1, 0])), A.float()))
except ImportError:  # its rules are unused without it
    for table in (rules.RULES, layers.FUSED):
        for name in [name for name in table if "embedding_codegen" in name or name.startswith("split_embedding") or name == "permute_pooled_embs_split"]:
            del table[name]

_used = set()


def recorded(table):
    """Records the rules of a table that run."""
    for name, function in list(table.items()):
        def noted(*arguments, of=function, called=name, **options):
            _used.add(called)
            return of(*arguments, **options)
        table[name] = noted


def wrong(made):
    """A rule's result with an error in its first value."""
    if isinstance(made, shadows.Value):
        return shadows.Value(field.add(made.value, 1), made.ratio, made.peak)
    if isinstance(made, (tuple, list)):
        first = next((i for i, one in enumerate(made) if one is not None), 0)
        if isinstance(made[first], list):
            return [[field.add(one, 1) for one in made[first]], *made[first + 1:]] if first == 0 else made
        return [wrong(one) if i == first else one for i, one in enumerate(made)]
    return made if made is NotImplemented or made is None else field.add(made, 1)


# A wrong ratio appears in exponentials; a value that is off by one appears only in the value.
RATIO = {"logsumexp", "logaddexp", "log_sigmoid_forward", "softplus", "log", "log1p"}


def survivors(uses):
    """Rules whose error no case finds. uses: of each rule, the cases that run it."""
    left = []
    for name, cases in sorted(uses.items()):
        table = next(table for table in (rules.RULES, rules.LATE, layers.FUSED) if name in table)
        right = table[name]
        if table is layers.FUSED:
            def broken(func, args, options):
                made = right(func, args, options)
                changed = made[0] if isinstance(made[0], torch.Tensor) and "dense" in name else args[1] if "split" in name else args[0][0]
                shadows.put(changed, field.add(shadows.get(changed), 1))
                return made
        elif name in RATIO:
            def broken(*arguments, **options):
                made = right(*arguments, **options)
                first = made[0] if isinstance(made, tuple) else made
                bad = shadows.Value(first.value, field.add(first.ratio, 1))
                return (bad, *made[1:]) if isinstance(made, tuple) else bad
        else:
            def broken(*arguments, **options):
                return wrong(right(*arguments, **options))
        table[name] = broken
        if all(held(case) for case in cases):
            left.append(name)
        table[name] = right
    return left


def held(case):
    torch.manual_seed(0)
    with mode.Field():
        return case()


def kernels_are_plain():
    """The kernels equal torch."""
    a, b = torch.randint(0, P, (3, 4, 5), generator=whole).int(), torch.randint(0, P, (5, 4), generator=whole).int()
    ways = [lambda: field.matmul(a, b), lambda: field.matmul(a, a.transpose(1, 2)), lambda: field.inv(a), lambda: field.exp(a), lambda: field.log(a),
            lambda: field.total(a, 1), lambda: field.total(a, [0, 2], True), lambda: field.total(a), lambda: field.function("x", a.transpose(0, 2)),
            *(lambda f=f, c=c: f(a, c) for f in (field.add, field.sub, field.mul)
              for c in (a, a[0], a[:, :1], a[:, :, :1], a[0, 0], a[:1], 7, a[0, 0, 0], b.t().expand(3, 4, 5)))]
    for way in ways:
        fast = way()
        kept, field._kernels = field._kernels, None
        slow = way()
        field._kernels = kept
        assert torch.equal(fast.long(), slow.long()) and fast.shape == slow.shape


def content_is_by_element():
    """A float's value does not depend on its position."""
    mixed = torch.cat([drawn(40000), torch.arange(10, dtype=torch.float64), torch.tensor([float("inf"), float("nan"), -3, 2.0**60])])
    values = shadows.of_content(mixed)
    for at in (0, 32767, 32768, 39999, 40003, 40010, 40011, 40012, 40013):
        assert torch.equal(shadows.of_content(mixed[at].repeat(2)), values[at].repeat(2)), at
    assert values[40003] == 3 and values[40012] == P - 3


def near_ties():
    """Comparisons that rounding decides are counted; others are not."""
    a = torch.tensor([[0.1, 0.2, 0.3], [0.5, 0.25, 0.75]], dtype=torch.float64)
    x = torch.stack([(a[0, 0] + a[0, 1]), a[0, 2], a[1, 0]])  # 0.1 + 0.2 and 0.3
    for run, count in ((lambda: torch.relu(a[0, 0] + a[0, 1] - a[0, 2] + torch.tensor([0., 1.])), {"relu": 1}), (lambda: x.topk(2), {"topk": 1}),
                       (lambda: x.topk(1), {}), (lambda: x.sort(), {"sort": 1}), (lambda: x[:2].max(0), {"max": 1}), (lambda: x.max(0), {}),
                       (lambda: x.min(0), {"min": 1}), (lambda: x.argmin(), {"argmin": 1}), (lambda: x.argmin(0), {"argmin": 1}), (lambda: x[0] > x[1], {"gt": 1}),
                       (lambda: x > 0.4, {}), (lambda: x[:1].clone().clamp_(max=a[0, 2]), {"clamp": 1}), (lambda: torch.maximum(x[0], x[1]), {"maximum": 1}),
                       (lambda: torch.relu(a - a), {})):
        with mode.Field():
            for tensor in (a, x):
                shadows.get(tensor)
            ties.COUNT.clear()
            run()
        assert ties.COUNT == count, (dict(ties.COUNT), count)


def products_of_exponentials():
    """exp(a) exp(b) has no rule where a factor comes from another rank, and only there."""
    def crossed(tensor):
        got = tensor.clone()
        shadows.put(got, shadows.get(tensor), power=powers.received([tensor]))
        return got

    a, b = drawn(3), drawn(3)
    with mode.Field():
        e, f = torch.exp(a), torch.exp(b)
        h = f + 1
        for number, (made, unknown) in enumerate((
                (e * f, False), (e * h, False), (a * crossed(h), False), (e * crossed(a), False), (torch.exp(a - a.max()) * crossed(h), False),
                (e * crossed(h), True), (crossed(f) * torch.exp(-a), True), (torch.cat([e, f]) / crossed(torch.cat([h, h])), True),
                (torch.stack([e]) @ crossed(h), True))):
            assert (shadows.opaque(made) is not None) is unknown, number
        with torch.no_grad():
            parameter = drawn(3)
            assert shadows.power(parameter.add_(crossed(h))) == 0
    mode.OPAQUE.clear()


def main():
    torch.set_num_threads(1)
    near_ties()
    products_of_exponentials()
    content_is_by_element()
    kernels_are_plain()
    recorded(rules.RULES)
    recorded(rules.LATE)
    recorded(layers.FUSED)
    uses = {}
    for number, case in enumerate(CASES):
        _used.clear()
        assert held(case), (number, sorted(_used), mode.FAILED)
        for name in _used:
            uses.setdefault(name, []).append(case)
    assert not mode.FAILED and not mode.OPAQUE, (mode.FAILED, mode.OPAQUE)
    never = sorted({*rules.RULES, *rules.LATE, *layers.FUSED} - {*uses})
    left = survivors(uses)
    assert not never, ("rules without a case", never)
    assert not left, ("rules whose error no case notices", left)
    print(len(uses), "rules,", len(CASES), "cases")


main()
