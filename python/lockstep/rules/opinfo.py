"""The operators of torch's OpInfo database, as calls with its sample inputs."""

import importlib.util
import inspect
import sys
import types
import unittest

import torch

from lockstep.rules import judge
from lockstep.rules.inputs import Call

SAMPLES, ELEMENTS_MAX, ARGUMENTS_MAX = 2, 1200, 5
UNINITIALISED = ("empty", "new_empty", "resize_")
_PLAIN = (bool, int, str, type(None), torch.dtype, torch.device, torch.memory_format, torch.layout, slice, type(...))


def database():
    """Raises ImportError if a module that torch's test utilities need is missing. The database uses nothing of expecttest's."""
    if importlib.util.find_spec("expecttest") is None:
        sys.modules["expecttest"] = types.ModuleType("expecttest")
        sys.modules["expecttest"].TestCase = unittest.TestCase
    from torch.testing._internal.common_methods_invocations import op_db

    return op_db


class _Unwritable(Exception):
    pass


class _Writer:
    """Source text of a sample's arguments; its tensors become inputs."""

    def __init__(self):
        self.inputs = []

    def text(self, value):
        if isinstance(value, torch.Tensor):
            if value.layout is not torch.strided or value.numel() > ELEMENTS_MAX or type(value) is not torch.Tensor:
                raise _Unwritable
            self.inputs.append((f"x{len(self.inputs)}", _rounded(value.detach())))
            return self.inputs[-1][0]
        if isinstance(value, (list, tuple)):
            inside = ", ".join(map(self.text, value))
            return f"[{inside}]" if isinstance(value, list) else f"({inside}{',' if len(value) == 1 else ''})"
        if isinstance(value, float):
            return repr(value) if value == value and abs(value) != float("inf") else f"float('{value}')"
        if isinstance(value, complex):
            return repr(value)
        if isinstance(value, torch.device):
            return f"torch.device('{value}')"
        if isinstance(value, _PLAIN):
            return "..." if value is ... else repr(value)
        raise _Unwritable


def _rounded(tensor):
    """Sums of multiples of 2^-20 are exact."""
    if tensor.dtype not in (torch.float64, torch.complex128):
        return tensor.clone()
    real = torch.view_as_real(tensor.resolve_conj()) if tensor.is_complex() else tensor
    real = (real * 2**20).round() / 2**20
    return (torch.view_as_complex(real) if tensor.is_complex() else real).contiguous()


def _named(op):
    """The expression by which a program calls the operator."""
    candidates = [f"torch.{op.name}", f"torch.special.{op.name.split('.')[-1]}", f"torch.Tensor.{op.name}"]
    for text in candidates:
        try:
            found = judge.evaluate(text, {})
        except AttributeError:
            continue
        if callable(found) and not inspect.ismodule(found):
            yield text


def _call(op, sample, names, label):
    writer = _Writer()
    words = [writer.text(sample.input), *map(writer.text, sample.args)]
    words += [f"{key}={writer.text(value)}" for key, value in sample.kwargs.items()]
    if not 0 < len(writer.inputs) <= ARGUMENTS_MAX:
        raise _Unwritable
    for name in names:
        yield Call(label, f"{name}({', '.join(words)})", tuple(writer.inputs))


def _works(call, want):
    try:
        out = judge._leaves(judge.evaluate(call.source, call.tensors(0)))
    except Exception:
        return False
    return len(out) == len(want) and not any(isinstance(w, torch.Tensor) and judge._difference(g, w) and
                                             judge._difference(g, w)[0] != "value" for g, w in zip(out, want))


def _samples(op):
    """First the samples whose tensors differ in number or in dimensions, then others."""
    dtype = next((kind for kind in (torch.float64, torch.float32, torch.int64, torch.complex128)
                  if kind in op.supported_dtypes("cpu")), None)
    if dtype is None:
        return []
    torch.manual_seed(0)
    kept = {}
    for number, sample in enumerate(op.sample_inputs("cpu", dtype)):
        if number == 24:
            break
        shape = tuple(len(leaf.shape) for leaf in judge._leaves((sample.input, sample.args, sample.kwargs))
                      if isinstance(leaf, torch.Tensor))
        empty = any(isinstance(leaf, torch.Tensor) and leaf.numel() < 2 for leaf in judge._leaves((sample.input,)))
        kept.setdefault((empty, shape, number if number < 2 else 0), sample)
    return [kept[key] for key in sorted(kept, key=lambda key: key[0])][:SAMPLES]


def of(op):
    """(calls, why not): of a database operator, with its in-place form."""
    label = op.name + (f" {op.variant_test_name}" if op.variant_test_name else "")
    if any(word in op.name for word in UNINITIALISED):
        return [], "the result is uninitialised memory"
    found, names = [], list(_named(op))
    try:
        for sample in _samples(op):
            try:
                want = judge._leaves(op.op(sample.input, *sample.args, **sample.kwargs))
                call = next((one for one in _call(op, sample, names, label) if _works(one, want)), None)
                if call is not None:
                    found.append(call)
                    if hasattr(op.inplace_variant, "__name__"):
                        name = f"torch.Tensor.{op.inplace_variant.__name__}"
                        found += [one for one in _call(op, sample, [name], label + " in place") if _works(one, want)]
            except _Unwritable:
                continue
    except Exception as error:
        return [], f"the database has no samples: {type(error).__name__}: {error}"[:200]
    return found, None if found else "no sample can be written as a call on dense tensors"
