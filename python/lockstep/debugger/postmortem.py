"""Replaces a run by a post-mortem: the same prompt on stored variables. Nothing in the file is executed."""

import ast
import json
import operator
import os

from lockstep.debugger.hub import ENDED, STOPPED, WAITS, Rank

FILE_BYTES = 64 << 20  # of a rank
OPERATORS = {ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
             ast.Eq: operator.eq, ast.NotEq: operator.ne, ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt,
             ast.GtE: operator.ge}


class Unknown(ValueError):
    """The file does not have the value."""


def _read(path):
    if os.path.getsize(path) > FILE_BYTES:
        raise ValueError(f"{path} is larger than {FILE_BYTES} bytes")
    with open(path, encoding="utf-8") as file:
        found = json.load(file)
    if not isinstance(found, dict):
        raise ValueError(f"{path} is not a post-mortem")
    return found


class _Entry:
    """A stored variable, and its elements from an offset on."""

    def __init__(self, kept):
        self.kept = kept

    def part(self, name):
        parts = self.kept.get("parts", {})
        if name not in parts:
            raise Unknown(f"{name} was not saved; there are {', '.join(list(parts)[:20]) or 'no parts'}")
        return _plain(parts[name])

    def element(self, indices):
        shape, elements = self.kept.get("shape"), self.kept.get("elements")
        if len(indices) != len(shape):
            raise Unknown("a saved tensor needs an index for each dimension")
        at = 0
        for index, size in zip(indices, shape):
            if not -size <= index < size:
                raise Unknown(f"index {index} of {size}")
            at = at * size + index % size
        if at >= len(elements):
            raise Unknown(f"element {at} was not saved: only the first {len(elements)} were")
        return elements[at]


def _plain(kept):
    return kept["value"] if "value" in kept else _Entry(kept)


def _evaluate(node, names):
    if isinstance(node, ast.Constant) and isinstance(node.value, (int, float, str, bool, type(None))):
        return node.value
    if isinstance(node, ast.Name):
        if node.id not in names:
            raise Unknown(f"{node.id} was not saved in this frame")
        return _plain(names[node.id])
    if isinstance(node, ast.Attribute):
        of = _evaluate(node.value, names)
        if isinstance(of, _Entry):
            return of.part(node.attr)
    if isinstance(node, ast.Subscript):
        of, index = _evaluate(node.value, names), node.slice
        index = getattr(index, "value", index) if type(index).__name__ == "Index" else index
        indices = [_evaluate(one, names) for one in (index.elts if isinstance(index, ast.Tuple) else [index])]
        if isinstance(of, _Entry) and "shape" in of.kept and all(isinstance(one, int) for one in indices):
            return of.element(indices)
        if isinstance(of, _Entry) and len(indices) == 1:
            return of.part(str(indices[0]))
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -_number(_evaluate(node.operand, names))
    if isinstance(node, ast.BinOp) and type(node.op) in OPERATORS:
        return OPERATORS[type(node.op)](_number(_evaluate(node.left, names)), _number(_evaluate(node.right, names)))
    if isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in OPERATORS:
        return OPERATORS[type(node.ops[0])](_evaluate(node.left, names), _evaluate(node.comparators[0], names))
    raise Unknown("a post-mortem has variables, their parts and elements: x, self.bias, x[0, 3], and + - * / of numbers")


def _number(value):
    if isinstance(value, (int, float)):
        return value
    raise Unknown("its value was not saved")


class PostMortem:
    """The interface of a hub."""

    over, interrupted, released, entry, breakpoints = False, False, True, False, []

    def __init__(self, folder):
        about = _read(os.path.join(folder, "core.json"))
        self.found, self.expected, self.raised = about.get("finding"), int(about.get("ranks", 0)), about.get("raised", {})
        self.folder, self.ranks, self._dumps = about.get("folder", ""), {}, {}
        for number in range(min(self.expected, 4096)):
            path = os.path.join(folder, f"rank{number}.json")
            rank = self.ranks[number] = Rank(number, None, 0)
            rank.state = ENDED
            if os.path.exists(path):
                dump = self._dumps[number] = _read(path)
                rank.take(dump)
                rank.state = STOPPED if dump.get("state") == "stopped" else WAITS if rank.call else dump.get("state", "runs")

    def living(self):
        return [rank for rank in self.ranks.values() if rank.state != ENDED]

    def look(self):
        """Post-mortems do not run."""

    def poll(self, _seconds):
        """Post-mortems receive no messages."""

    def source(self, rank):
        return self._dumps[rank.number]["frames"][min(rank.frame, len(rank.frames) - 1)].get("source")

    def ask(self, ranks, do, seconds=0, frames=None, expression="", **options):
        answers = {}
        for rank in ranks:
            try:
                frame = self._dumps[rank.number]["frames"][(frames or {}).get(rank.number, rank.frame)]
                value = _evaluate(ast.parse(expression, mode="eval").body, frame.get("locals", {}))
                answers[rank.number] = getattr(self, "_" + do)(value, options)
            except (Unknown, SyntaxError, ZeroDivisionError, OverflowError, TypeError, KeyError, IndexError,
                    RecursionError) as error:
                answers[rank.number] = {"error": str(error) or type(error).__name__}
        return answers

    @staticmethod
    def _eval(value, options):
        text = str(value.kept.get("shown")) if isinstance(value, _Entry) else repr(value)
        return {"value": text[:options.get("longest", 300)]}

    @staticmethod
    def _part(value, options):
        """The stored elements in the form of values.part; a tensor without all its elements has one hash."""
        if not isinstance(value, _Entry) or value.kept.get("elements") is None:
            return {"text": PostMortem._eval(value, options)["value"]}
        elements = value.kept["elements"]
        low, high = options.get("low", 0), options.get("high", -1)
        high = len(elements) if high < 0 else min(high, len(elements))
        return {"dtype": value.kept["dtype"], "shape": value.kept["shape"], "count": len(elements), "step": 1,
                "hashes": [repr(one) for one in elements[low:high]], "values": [repr(one) for one in elements[low:high]]}
