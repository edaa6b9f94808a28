"""Arithmetic modulo the prime 2^31 - 1, on tensors of int32 whose elements are in [0, P).

An operand may be an int. `function(name, x)` is an uninterpreted function: a keyed hash, so that equal arguments give
equal values and nothing else is known of it.
"""

import fractions
import functools
import hashlib
import math
import os

import torch

P = (1 << 31) - 1
TYPE = torch.int32
_HALF = 16
_MIX = (-49064778989728563, -4265267296055464877)  # splitmix64's multipliers


def wide(a):
    return a.long() if isinstance(a, torch.Tensor) else a


def narrow(a):
    """Any int64 tensor, or an int, modulo P."""
    return torch.remainder(a, P).to(TYPE) if isinstance(a, torch.Tensor) else a % P


def add(a, b):
    return narrow(wide(a) + wide(b))


def sub(a, b):
    return narrow(wide(a) - wide(b))


def mul(a, b):
    return narrow(wide(a) * wide(b))


def neg(a):
    return narrow(-wide(a))


def power(a, exponent):
    if isinstance(a, int):
        return pow(a, exponent, P)
    base, result = wide(a), None
    while exponent:
        if exponent & 1:
            result = base if result is None else result * base % P
        base, exponent = base * base % P, exponent >> 1
    return torch.ones_like(a) if result is None else narrow(result)


def inv(a):
    """1 / a; of 0 it is 0."""
    return power(a, P - 2)


def div(a, b):
    return mul(a, inv(b))


def total(a, dims=None, keep=False):
    """The sum over dimensions, or over all."""
    wide_sum = a.long().sum() if dims is None else a.long().sum(dims, keep)
    return narrow(wide_sum)


def matmul(a, b):
    """As torch.matmul, of matrices or stacks of them: halves of 16 bits, whose products are exact in float64."""
    most = 1 << 18  # products of 34 bits in a sum of 53
    if a.shape[-1] > most:
        return add(matmul(a[..., :most], b[..., :most, :]), matmul(a[..., most:], b[..., most:, :]))
    low, high = (a & 0xFFFF).double(), (a >> _HALF).double()
    low_b, high_b = (b & 0xFFFF).double(), (b >> _HALF).double()
    cross = ((low + high) @ (low_b + high_b)).long()
    ll, hh = (low @ low_b).long(), (high @ high_b).long()
    return narrow(ll + ((cross - ll - hh) % P << _HALF) + hh % P * 2)  # 2^32 is 2


# ---- Numbers ----
@functools.lru_cache(maxsize=65536)
def rational(x):
    """A Python number: an int, a small fraction if it rounds to one, else the dyadic number that it is."""
    if isinstance(x, (bool, int)):
        return int(x) % P
    if not math.isfinite(x):
        return 0x1234567
    near = fractions.Fraction(x).limit_denominator(10**6)
    if (near == 0 and x != 0) or abs(float(near) - x) > 4e-16 * abs(x):
        near = _short_decimal(x) or fractions.Fraction(x)
    return near.numerator % P * pow(near.denominator, -1, P) % P


def _short_decimal(x):
    """The decimal number that x is written as, as 1e-8, if that is short."""
    text = repr(x)
    return fractions.Fraction(text) if len(text) <= 10 else None


@functools.lru_cache(maxsize=65536)
def rational32(x):
    """The value of a lone f32 element: a small fraction if one rounds to it."""
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
