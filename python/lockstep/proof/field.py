"""Arithmetic modulo the prime 2^31 - 1, on tensors of int32 with elements in [0, P).

An operand may be an int. `function(name, x)` is an uninterpreted function: a keyed hash, so equal arguments give equal values and no other
relation holds.
"""

import fractions
import functools
import hashlib
import math
import os

import torch

from lockstep.proof import kernels

P = (1 << 31) - 1
TYPE = torch.int32
_HALF = 16
_MIX = (-49064778989728563, -4265267296055464877)  # splitmix64's multipliers


_kernels = kernels.load()  # None: the process was not started by lockstep


def plainly(yes=True):
    """Makes torch compute instead of the kernels: the reference of tests."""
    global _kernels
    _kernels = None if yes else kernels.load()


def wide(a):
    return a.long() if isinstance(a, torch.Tensor) else a


def narrow(a):
    """Any int64 tensor, or an int, modulo P."""
    return torch.remainder(a, P).to(TYPE) if isinstance(a, torch.Tensor) else a % P


def _dense(a):
    """As contiguous int32."""
    return a.to(TYPE).contiguous()


_one_of = {}


def _scalar(number):
    made = _one_of.get(number)
    if made is None:
        if len(_one_of) > 4096:
            _one_of.clear()
        made = _one_of[number] = torch.tensor(number % P, dtype=TYPE)
    return made


def _full(one, shape):
    """Its sizes extended to this many dimensions, and the range [first, last) of dimensions without broadcasting."""
    full = (1,) * (len(shape) - one.dim()) + tuple(one.shape)
    wide_dims = [d for d in range(len(shape)) if full[d] != 1]
    return full, wide_dims[0], wide_dims[-1] + 1


def _split(a, b, shape):
    """Rows and columns of the result, so that an operand is broadcast along rows or along columns only."""
    for one in (a, b):
        if one.numel() == 1 or one.shape == shape:
            continue
        full, first, last = _full(one, shape)
        if full[first:] == tuple(shape[first:]):
            return math.prod(shape[:first]), math.prod(shape[first:])
        if full[:last] == tuple(shape[:last]):
            return math.prod(shape[:last]), math.prod(shape[last:])
    return 1, math.prod(shape)


def _steps(one, shape, rows, columns):
    """The strides of an operand's rows and columns; None: its layout is not of that form."""
    if one.numel() == 1:
        return 0, 0
    if not one.is_contiguous():
        return None
    if one.shape == shape:
        return columns, 1
    full, first, last = _full(one, shape)
    if full[first:] == tuple(shape[first:]) and math.prod(shape[first:]) == columns:
        return 0, 1
    return (1, 0) if full[:last] == tuple(shape[:last]) and math.prod(shape[:last]) == rows else None


def _pairwise(op, a, b):
    """op: the number of an operation of kernels/field.h."""
    a = a if isinstance(a, torch.Tensor) else _scalar(a)
    b = b if isinstance(b, torch.Tensor) else _scalar(b)
    a, b = a if a.dtype is TYPE else a.to(TYPE), b if b.dtype is TYPE else b.to(TYPE)
    shape = torch.broadcast_shapes(a.shape, b.shape)
    out = torch.empty(shape, dtype=TYPE)
    if out.numel() == 0:
        return out
    rows, columns = _split(a, b, shape)
    steps = []
    for i, one in enumerate((a, b)):
        step = _steps(one, shape, rows, columns)
        if step is None:
            one = one.expand(shape).contiguous()
            step = (columns, 1)
        a, b = (one, b) if i == 0 else (a, one)
        steps += step
    _kernels["pairwise"](kernels.Pairs(out.data_ptr(), a.data_ptr(), b.data_ptr(), rows, columns, *steps), op)
    return out


def add(a, b):
    if _kernels is None or not (isinstance(a, torch.Tensor) or isinstance(b, torch.Tensor)):
        return narrow(wide(a) + wide(b))
    return _pairwise(0, a, b)


def sub(a, b):
    if _kernels is None or not (isinstance(a, torch.Tensor) or isinstance(b, torch.Tensor)):
        return narrow(wide(a) - wide(b))
    return _pairwise(1, a, b)


def mul(a, b):
    if _kernels is None or not (isinstance(a, torch.Tensor) or isinstance(b, torch.Tensor)):
        return narrow(wide(a) * wide(b))
    return _pairwise(2, a, b)


def neg(a):
    return sub(0, a)


def power(a, exponent):
    if isinstance(a, int):
        return pow(a, exponent, P)
    base, result = a, None
    while exponent:
        if exponent & 1:
            result = base if result is None else mul(result, base)
        exponent >>= 1
        base = mul(base, base) if exponent else base
    return torch.ones_like(a) if result is None else result


def inv(a):
    """1 / a; 0 for 0."""
    if _kernels is None or isinstance(a, int):
        return power(a, P - 2)
    a = _dense(a)
    out = torch.empty_like(a)
    _kernels["inverse"](out.data_ptr(), a.data_ptr(), a.numel())
    return out


def div(a, b):
    return mul(a, inv(b))


def total(a, dims=None, keep=False):
    """The sum over dimensions, or over all."""
    dims = list(range(a.dim())) if dims is None else [dims] if isinstance(dims, int) else list(dims)
    dims = sorted(d % a.dim() for d in dims) if a.dim() else []
    if _kernels is None or not dims or dims != list(range(dims[0], dims[-1] + 1)):
        return narrow(a.long().sum(dims, keep) if dims else a.long())
    a = _dense(a)
    outer, middle, inner = (math.prod(a.shape[d] for d in part) for part in (
        range(dims[0]), dims, range(dims[-1] + 1, a.dim())))
    shape = [1 if d in dims else size for d, size in enumerate(a.shape) if keep or d not in dims]
    out = torch.empty(shape, dtype=TYPE)
    if out.numel():
        _kernels["sum"](out.data_ptr(), a.data_ptr(), outer, middle, inner)
    return out


def _plain_matmul(a, b):
    """Halves of 16 bits, whose products are exact in float64."""
    most = 1 << 18  # products of 34 bits in a sum of 53
    if a.shape[-1] > most:
        return add(_plain_matmul(a[..., :most], b[..., :most, :]), _plain_matmul(a[..., most:], b[..., most:, :]))
    low, high = (a & 0xFFFF).double(), (a >> _HALF).double()
    low_b, high_b = (b & 0xFFFF).double(), (b >> _HALF).double()
    cross = ((low + high) @ (low_b + high_b)).long()
    ll, hh = (low @ low_b).long(), (high @ high_b).long()
    return narrow(ll + ((cross - ll - hh) % P << _HALF) + hh % P * 2)  # 2^32 is 2


def matmul(a, b):
    """As torch.matmul, of matrices or stacks of them."""
    a, b = a.to(TYPE), b.to(TYPE)
    if _kernels is None:
        return _plain_matmul(a, b)
    stack = torch.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    m, k, n = a.shape[-2], a.shape[-1], b.shape[-1]
    out = torch.empty(*stack, m, n, dtype=TYPE)
    if len(stack) > 1:  # the stack as one dimension
        a, b = a.expand(*stack, m, k).reshape(-1, m, k), b.expand(*stack, k, n).reshape(-1, k, n)
    elif stack:
        a, b = a.expand(*stack, m, k), b.expand(*stack, k, n)
    batch = math.prod(stack)
    if out.numel():
        _kernels["matmul"](kernels.Product(
            out.data_ptr(), a.data_ptr(), b.data_ptr(), batch, m, k, n, *(a.stride() if stack else (0, *a.stride())),
            *(b.stride() if stack else (0, *b.stride()))))
    return out


# ---- Numbers ----
@functools.lru_cache(maxsize=65536)
def rational(x):
    """A Python number: an int, a small fraction if the number is that fraction rounded, else its exact dyadic value."""
    if isinstance(x, (bool, int)):
        return int(x) % P
    if not math.isfinite(x):
        return 0x1234567
    near = fractions.Fraction(x).limit_denominator(10**6)
    if (near == 0 and x != 0) or abs(float(near) - x) > 4e-16 * abs(x):
        near = _short_decimal(x) or fractions.Fraction(x)
    return near.numerator % P * pow(near.denominator, -1, P) % P


def _short_decimal(x):
    """The decimal notation of x, such as 1e-8, if that is short."""
    text = repr(x)
    return fractions.Fraction(text) if len(text) <= 10 else None


@functools.lru_cache(maxsize=65536)
def rational32(x):
    """The value of a single f32 element: a small fraction if the element is that fraction rounded."""
    near = fractions.Fraction(x).limit_denominator(1000)
    if torch.tensor(float(near), dtype=torch.float32).item() == x:
        return near.numerator % P * pow(near.denominator, -1, P) % P
    return None


# ---- Uninterpreted functions ----
@functools.lru_cache(maxsize=4096)
def key(name):
    digest = hashlib.sha256(f"{os.environ.get('LOCKSTEP_PROVE_SEED', '0')} {name}".encode()).digest()
    return int.from_bytes(digest[:8], "little", signed=True)


def mix(z):
    """splitmix64's finaliser, of int64."""
    z = (z ^ ((z >> 30) & 0x3FFFFFFFF)) * _MIX[0]
    z = (z ^ ((z >> 27) & 0x1FFFFFFFFF)) * _MIX[1]
    return z ^ ((z >> 31) & 0x1FFFFFFFF)


def function(name, *arguments):
    """Of tensors and ints that broadcast."""
    if len(arguments) == 1 and _kernels is not None and isinstance(arguments[0], torch.Tensor) and arguments[0].dtype is TYPE:
        given = _dense(arguments[0])
        out = torch.empty_like(given)
        _kernels["hash"](out.data_ptr(), given.data_ptr(), given.numel(), key(name) & (1 << 64) - 1)
        return out
    h = key(name)
    for argument in arguments:
        argument = argument if isinstance(argument, torch.Tensor) else torch.tensor(argument)
        h = mix(argument.long() + h)
    return narrow((h >> 2) & 0x3FFFFFFFFFFFFFFF)


def odd(name, x):
    return sub(function(name, x), function(name, neg(x)))


def even(name, x):
    return add(function(name, x), function(name, neg(x)))


def exp(x):
    """A function that is never 0, and 1 / exp(x) of -x."""
    return div(add(function("exp", x), 1), add(function("exp", neg(x)), 1))


def log(y):
    """-log(y) of 1 / y."""
    return sub(function("log", y), function("log", inv(y)))


def drawn(bits):
    """A value for each pattern of bits (int64)."""
    return function("drawn", bits)
