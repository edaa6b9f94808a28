"""The dispatch mode that computes a field value for each result of torch's operations."""

import atexit
import collections
import os
import sys

import torch
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes

from lockstep.proof import fbgemm, field, layers, powers, rules, shadows, ties  # noqa: F401 (fbgemm adds rules)
from lockstep.proof.shadows import Value, is_float

quiet = _disable_current_modes  # no values for torch operations inside of it
OPAQUE = collections.Counter()  # operators without a rule: the number of calls and the first place
FAILED = {}  # operators whose rule rejects the arguments, with the error
_where = {}
_OPTIONS = {"out", "memory_format", "device", "layout", "pin_memory", "non_blocking", "copy"}
_BESIDE = {"FakeTensor", "FunctionalTensor"}  # tensors without values


def _plain_name(func):
    name = func._schema.name.split("::")[1]
    return name


def _outputs(out):
    return list(out) if isinstance(out, (tuple, list)) else [out]


def _decomposition(func):
    from torch._decomp import decomposition_table

    return decomposition_table.get(func)


def _called_at():
    """The nearest line of the program."""
    frame = sys._getframe(1)
    while frame is not None:
        name = frame.f_globals.get("__name__", "")
        if not name.startswith(("torch.", "lockstep.")) and name != "torch":
            return f"{os.path.basename(frame.f_code.co_filename)}:{frame.f_lineno}"
        frame = frame.f_back
    return "the backward"


def _count_opaque(name):
    """Counts an operation without a rule; returns the reason why its result is opaque."""
    at = _called_at()
    OPAQUE[name] += 1
    _where.setdefault(name, at)
    return f"{name} ({at})"


class Field(TorchDispatchMode):
    """Invariant: floats are the same as without this mode."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        for kind in types:
            if kind.__name__ in _BESIDE:
                return func(*args, **kwargs)
            if kind is not torch.Tensor and kind is not torch.nn.Parameter and not issubclass(
                    kind, torch.nn.Parameter) and kind.__torch_dispatch__ is not torch.Tensor.__torch_dispatch__:
                return NotImplemented  # a DTensor; operations on its parts come here
        space = func.namespace
        if space == "_c10d_functional":
            from lockstep.proof import collectives

            return collectives.functional(func, args, kwargs)
        name = _plain_name(func)
        if func.is_view or name in rules.PLAIN:
            return self._plain(name, func, args, kwargs)
        leaves = pytree.tree_leaves((args, kwargs))
        tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
        if any(t.is_meta or type(t).__name__ in _BESIDE for t in tensors):
            return func(*args, **kwargs)
        if space == "fsdp":
            return _fsdp(name, func, args, kwargs)
        if name in layers.FUSED:
            done = layers.FUSED[name](func, args, kwargs)
            if done is not NotImplemented:
                return done[0]
        if name.startswith("_foreach_"):
            return self._foreach(name, func, args, kwargs)
        return self._apply(name, func, args, kwargs, [t for t in tensors if is_float(t)])

    def _plain(self, name, func, args, kwargs):
        out = func(*args, **kwargs)
        if name in ("full", "new_full") and is_float(out):
            fill = args[1] if name == "full" else args[2]
            shadows.put(out, shadows.get(fill))
        elif name == "_local_scalar_dense" and is_float(args[0]):
            numbers.keep(out, args[0])
        return out

    def _apply(self, name, func, args, kwargs, inputs):
        in_place = name.endswith("_") and not name.endswith("__")
        base = name[:-1] if in_place else name
        why = next((reason for reason in map(shadows.opaque, inputs) if reason is not None), None)
        power, unknown = powers.of_result(base, inputs, in_place) if inputs else (0, False)
        if unknown:
            why = _count_opaque(powers.NAME)
        if base in rules.SOURCES:
            out = func(*args, **kwargs)
            for tensor in _outputs(out):
                if is_float(tensor):
                    shadows.put(tensor, shadows.of_content(tensor))
            return out
        options = {key: value for key, value in kwargs.items() if key not in _OPTIONS}
        is_late = base in rules.LATE
        keeps = in_place or "out" in kwargs
        value = NotImplemented
        compares = inputs and base in ties.CHECKS
        if compares and keeps:
            ties.look(base, _called_at, None, args, options)
        if is_late and keeps:  # the result decides, and the arguments are overwritten
            aside = func.overloadpacket.__name__.rstrip("_")
            packet = getattr(torch.ops.aten, aside, None)
            if packet is not None:
                value = self._ruled(base, args, options, packet(*args, **options))
        elif not is_late:
            value = self._ruled(base, args, options, None, func if base in rules.MOVES else None, inputs)
        if value is NotImplemented and not is_late and keeps and inputs:
            value, why = self._without_rule(base, func, args, options, inputs, why)
        out = func(*args, **kwargs)
        if compares and not keeps:
            ties.look(base, _called_at, out, args, options)
        floats = [tensor for tensor in _outputs(out) if is_float(tensor)]
        if not floats:
            return out
        if is_late and not keeps:
            value = self._ruled(base, args, options, out)
        if value is NotImplemented:
            if not inputs:
                if base in ("_to_copy", "copy") or not keeps:
                    for tensor in floats:
                        shadows.put(tensor, shadows.of_content(tensor))
                return out
            value, why = self._without_rule(base, func, args, options, inputs, why)
            self._change_arguments(func, args, kwargs, value, why)
        values = list(value) if isinstance(value, (tuple, list)) else [value]
        for tensor, given in zip(_outputs(out), values):
            if is_float(tensor) and given is not None:
                shadows.put(tensor, given, why, power)
        return out

    @staticmethod
    def _change_arguments(func, args, kwargs, value, why):
        """Arguments that an operator without a rule changes have unknown values after it."""
        if isinstance(value, _Hashed):
            for at, argument in enumerate(func._schema.arguments):
                if argument.alias_info is not None and argument.alias_info.is_write:
                    given = args[at] if at < len(args) else kwargs.get(argument.name)
                    for tensor in given if isinstance(given, (list, tuple)) else [given]:
                        shadows.put(tensor, value, why)

    def _ruled(self, name, args, options, out, mover=None, inputs=()):
        """The value by the table's rule; NotImplemented: there is none for these arguments."""
        try:
            return self._by_table(name, args, options, out, mover, inputs)
        except (RuntimeError, TypeError, ValueError, IndexError, KeyError, AttributeError) as error:
            FAILED.setdefault(name, f"{type(error).__name__}: {error}".splitlines()[0])
            return NotImplemented

    def _by_table(self, name, args, options, out, mover, inputs):
        arguments = numbers.known(args) if numbers.any() else args
        if name in rules.LATE:
            return rules.LATE[name](out, *arguments, **options)
        if name in rules.RULES:
            return rules.RULES[name](*arguments, **options)
        if mover is None:
            return NotImplemented
        packet = getattr(torch.ops.aten, name)
        value = rules.moved(packet, arguments, options, "value")
        held = [shadows._find(tensor)[1] for tensor in inputs]
        peak = any(one is not None and one.peak for one in held)
        if any(one is not None and one.ratio is not None for one in held):
            ratio = rules.moved(packet, arguments, options, "ratio")
            if isinstance(value, (tuple, list)):
                return [Value(v, r, peak) for v, r in zip(value, ratio)]
            return Value(value, ratio, peak)
        return Value(value, peak=peak) if peak and isinstance(value, torch.Tensor) else value

    # ---- Operators without a rule ----
    def _without_rule(self, name, func, args, options, inputs, why):
        """The values by torch's decomposition; for an elementwise operator from the same elements; or a hash of all inputs. For a hash also
        the operator's name.
        """
        packet = getattr(torch.ops.aten, name, None) if func.namespace == "aten" else None
        overload = func
        if packet is not None and packet is not func.overloadpacket:  # the out-of-place operator
            overload = getattr(packet, func._overloadname, None) or getattr(packet, packet.overloads()[0])
        made = self._decomposed(overload, args, options)
        if made is not NotImplemented:
            return made, next((reason for reason in map(shadows.opaque, self._of_decomposed) if reason), why)
        if torch.Tag.pointwise in func.tags:
            given = [shadows.get(leaf) for leaf in pytree.tree_leaves((args, options))
                     if is_float(leaf) or isinstance(leaf, (int, float)) or isinstance(leaf, torch.Tensor)]
            return field.function(name, *given), why
        why = _count_opaque(f"{func.namespace}::{name}")
        digest = field.key(name)
        for leaf in pytree.tree_leaves((args, options)):
            if isinstance(leaf, torch.Tensor):
                value = shadows.get(leaf).long().flatten()
                mixed = field.mix(value + field.mix(torch.arange(value.numel()) + digest))
                digest = int(field.mix(mixed.sum() + digest))
            elif isinstance(leaf, (int, float)):
                digest = int(field.mix(torch.tensor(digest + field.rational(leaf) - (1 << 62) >> 1)))
        return _Hashed(digest), why

    def _decomposed(self, func, args, options):
        how = _decomposition(func)
        self._of_decomposed = []
        try:
            with self:
                made = how(*args, **options) if how is not None else func.decompose(*args, **options)
        except (NotImplementedError, RuntimeError, TypeError):
            return NotImplemented
        if made is NotImplemented:
            return NotImplemented
        self._of_decomposed = [tensor for tensor in _outputs(made) if isinstance(tensor, torch.Tensor)]
        values = [shadows.full(tensor) if is_float(tensor) else None for tensor in _outputs(made)]
        return values if isinstance(made, (tuple, list)) else values[0]

    def _foreach(self, name, func, args, kwargs):
        """An operator on lists of tensors: applies the operator to each."""
        base = name.removeprefix("_foreach_")
        plain = base.removesuffix("_")
        lists = [arg for arg in args if isinstance(arg, (list, tuple)) and arg]
        count = max(map(len, lists), default=0)
        plain = {"norm": "linalg_vector_norm"}.get(plain, plain)
        values, whys = [], []
        late = plain in rules.LATE
        results = func(*args, **kwargs) if late and not base.endswith("_") else None
        for i in range(count):
            one = [arg[i] if isinstance(arg, (list, tuple)) and len(arg) == count else arg for arg in args]
            options = {key: value[i] if isinstance(value, (list, tuple)) else value for key, value in kwargs.items()}
            if late and results is None:
                values.append(self._ruled(plain, one, options, getattr(torch.ops.aten, plain)(*one, **options)))
            else:
                values.append(self._ruled(plain, one, options, results[i] if results is not None else None))
            whys.append(next((w for w in map(shadows.opaque, one) if w), None))
        out = results if results is not None else func(*args, **kwargs)
        for i in range(count):
            target = args[0][i] if base.endswith("_") else out[i]
            if values[i] is NotImplemented:
                raise NotImplementedError(f"lockstep prove: {name} has no rule")
            shadows.put(target, values[i], whys[i])
        return out


class _Hashed(Value):
    """An element's value is a hash of its index and of all inputs."""

    def __init__(self, digest):
        super().__init__(None)
        self.digest = digest

    def of(self, tensor):
        return field.function("opaque", torch.arange(tensor.numel()).view(tensor.shape) + (self.digest >> 1))


class _Numbers:
    """The values of Python numbers from `item()`."""

    def __init__(self):
        self._of = {}

    def keep(self, number, tensor):
        if number != 0 and number == number and not float(number).is_integer():
            self._of[number] = int(shadows.get(tensor))

    def any(self):
        return bool(self._of)

    def known(self, args):
        return [_Known(arg, self._of[arg]) if type(arg) is float and arg in self._of else arg for arg in args]


class _Known(float):
    """A number with its value."""

    def __new__(cls, number, value):
        made = super().__new__(cls, number)
        made.value = value
        return made


numbers = _Numbers()


def _fsdp(name, func, args, kwargs):
    """FSDP2's copies into and out of its buffers."""
    why = next((w for leaf in pytree.tree_leaves(args) if (w := shadows.opaque(leaf))), None)
    if name == "all_gather_copy_in":
        out = func(*args, **kwargs)
        shadows.put(out[0], torch.cat([shadows.get(tensor).reshape(-1) for tensor in args[0]]).view(out[0].shape), why)
        return out
    target = kwargs.get("out")
    if name in ("split_with_sizes_copy", "chunk_cat") and target is not None:
        given = [shadows.get(a) if isinstance(a, torch.Tensor) else
                 [shadows.get(t) for t in a] if isinstance(a, (list, tuple)) and a and isinstance(a[0], torch.Tensor) else a
                 for a in args]
        options = {key: value for key, value in kwargs.items() if key != "out"}
        made = torch.split_with_sizes_copy(*given, **options) if name == "split_with_sizes_copy" else torch._chunk_cat(
            *given, **options)
        out = func(*args, **kwargs)
        for tensor, value in zip(_outputs(target), _outputs(made)):
            shadows.put(tensor, value, why)
        return out
    return func(*args, **kwargs)


_mode = Field()


def enter():
    """Applies from here on to the whole process."""
    _mode.__enter__()
    atexit.register(_report)


def _report():
    for name, error in FAILED.items():
        print(f"lockstep prove: the rule of {name} failed: {error}", file=sys.stderr)
    if ties.COUNT:
        print(f"lockstep prove: comparisons of floats that differ by rounding alone: {ties.listed()}", file=sys.stderr)
    if OPAQUE and int(os.environ.get("RANK") or 0) == 0:
        listed = ", ".join(f"{name} {count} times (first at {_where[name]})" for name, count in OPAQUE.most_common())
        print(f"lockstep prove: operators without a rule: {listed}", file=sys.stderr)
