"""shard and diff-ranks: ranks' values of a local tensor or of a variable of their program."""
import re

import gdb

from . import inferiors, memory, model, ranks, scenario, values
from .memory import Failure


class Tensor:
    """An ls_local_tensor in memory."""

    def __init__(self, address):
        self.record = memory.record("ls_local_tensor", address)
        count, shards = self.record["rank_count"], self.record["shard_count"]
        sound = (self.record["dtype"] in memory.enum("ls_dtype", "LS_")
                 and 0 <= count <= model.RANKS_MAX and 0 <= shards <= model.LIST_MAX)
        if sound:
            self.dtype = values.dtype_name(self.record["dtype"])
            self.ranks = memory.integers(self.record["ranks"], count, 4)
            self.first = memory.integers(self.record["first"], count + 1, 8, False)
            sound = (self.dtype in values.rows() and all(0 <= r < model.RANKS_MAX for r in self.ranks)
                     and self.first[0] == 0 and self.first[-1] == shards
                     and list(self.first) == sorted(self.first))
        if not sound:
            raise Failure(f"there is no tensor at {address:#x}, or it was freed")
        self._shards = None

    def shards(self):
        """All shards, rank-major, by one read."""
        if self._shards is None:
            self._shards = memory.records("ls_shard", self.record["shards"], self.record["shard_count"])
        return self._shards

    def of_rank(self, rank):
        if rank not in self.ranks:
            raise Failure(f"rank {rank} has no shard here; ranks {memory.rank_list(self.ranks)} have")
        i = self.ranks.index(rank)
        return self.shards()[self.first[i]:self.first[i + 1]]

    def summary(self):
        shape = shape_text(self.record, "shape.") if self.record["has_shape"] else "any shapes"
        placements = placements_text(self.record.at("placements")) \
            if self.record["has_placements"] else ""
        return ", ".join(p for p in (f"{self.dtype} {shape}", placements,
                                     f"on ranks {memory.rank_list(self.ranks)}") if p)

    def data(self, shard, most=None):
        count = shard["count"] if most is None else min(most, shard["count"])
        return memory.read(shard["data"], count * values.dtype_bytes(self.dtype))

    def head(self, shard, most):
        data = self.data(shard, most)
        return values.head(self.dtype, data, most) + (", ..." if shard["count"] > most else "")


def shape_text(found, prefix):
    ndim = found[prefix + "ndim"]
    return "[" + ", ".join(map(str, found.integers(prefix + "dim", 8)[:max(0, ndim)])) + "]"


def block_text(shard, prefix="block."):
    """"[0:2, 0:6]"."""
    ndim = max(0, min(8, shard[prefix + "offset.ndim"]))
    offset = shard.integers(prefix + "offset.dim", 8)[:ndim]
    size = shard.integers(prefix + "size.dim", 8)[:ndim]
    return "[" + ", ".join(f"{o}:{o + s}" for o, s in zip(offset, size)) + "]"


def placement_text(found):
    kind = memory.enum_name("ls_placement_kind", "LS_PLACE_", found["kind"])
    if kind == "shard":
        return f"S({found['dim']}{', sizes' if found['sizes'] else ''})"
    if kind == "partial":
        return f"P({memory.enum_name('ls_op', 'LS_', found['op'])})"
    return "R"


def placements_text(address):
    found = memory.record("ls_placements", address)
    count = max(0, min(6, found["count"]))
    return ", ".join(placement_text(p)
                     for p in memory.records("ls_placement", found.at("at"), count))


def tensor_of(expression):
    """The Tensor that an expression means, or None when it means something else."""
    try:
        value = gdb.parse_and_eval(expression)
    except gdb.error:
        return None
    type_ = value.type.strip_typedefs()
    if type_.code == gdb.TYPE_CODE_PTR and type_.target().strip_typedefs().tag == "ls_local_tensor":
        return Tensor(int(value))
    if type_.code == gdb.TYPE_CODE_STRUCT and type_.tag == "ls_local_tensor":
        return Tensor(int(value.address))
    return None


def allocation_bytes(rank, address):
    """Bytes from `address` to the end of the rank's allocation that holds it; 0: none known."""
    if rank is None:
        return 0
    for found in memory.records("ls_allocation", rank.record["allocations"],
                                rank.record["allocation_count"]):
        start, bytes_ = found["start"], found["bytes"]
        if start <= address < start + bytes_:
            return start + bytes_ - address
    return 0


class Held:
    """One rank's value: dtype, bytes, and the text of its block."""

    def __init__(self, dtype, data, block=""):
        self.dtype, self.data, self.block = dtype, data, block


def of_program(run, number, expression):
    """`expression` evaluated in the frame of rank `number`'s program: its numbers, a struct's one by
    one. run None: the rank is an inferior."""
    rank = run.rank(number) if run is not None else None
    if rank is not None and rank.state in ("returned", "died"):
        raise Failure(f"rank {number} has {rank.state}: its program holds nothing any more")
    if rank is not None:
        ranks.switch(run, number)
    else:
        inferiors.go_to(number)
    try:
        value = gdb.parse_and_eval(expression)
    except gdb.error as error:
        raise Failure(f"rank {number}: {error}") from error
    if value.is_optimized_out:
        raise Failure(f"rank {number}: {expression} was optimised out here")
    if value.type.strip_typedefs().code == gdb.TYPE_CODE_STRUCT:
        parts = list(fields_of(rank, value, ""))
        if not parts:
            raise Failure(f"{expression} is a {value.type}, which holds no numbers")
        return parts
    return [numbers_of(rank, value, expression)]


def fields_of(rank, value, name, depth=0):
    """A struct's value: its numbers, arrays of them, and the memory of known size that its pointers point to."""
    for field in value.type.strip_typedefs().fields():
        if field.name is None or not hasattr(field, "bitpos"):
            continue
        inner, at = value[field.name], f"{name}.{field.name}"
        type_ = inner.type.strip_typedefs()
        if type_.code == gdb.TYPE_CODE_STRUCT and depth < 8:
            yield from fields_of(rank, inner, at, depth + 1)
            continue
        if type_.code == gdb.TYPE_CODE_PTR and (
                int(inner) == 0 or allocation_bytes(rank, int(inner)) == 0):
            continue  # an address is no value of a rank
        try:
            part = numbers_of(rank, inner, at)
        except Failure:
            continue
        part.block = at
        yield part


def numbers_of(rank, value, expression):
    """The numbers of a value, or of memory of known size that it points to."""
    type_ = value.type.strip_typedefs()
    if type_.code == gdb.TYPE_CODE_PTR:
        element = type_.target().strip_typedefs()
        dtype = values.dtype_of_type(element)
        if dtype is None:
            raise Failure(f"{expression} is a {value.type}; cast it to a pointer to its elements")
        size = allocation_bytes(rank, int(value))
        if size == 0:
            who = f"rank {rank.id}: " if rank is not None else ""
            raise Failure(f"{who}the size of what {expression} points at is not known; "
                          f"write *{expression}@COUNT")
        return Held(dtype, memory.read(int(value), size // element.sizeof * element.sizeof))
    element = type_
    while element.code == gdb.TYPE_CODE_ARRAY:
        element = element.target().strip_typedefs()
    dtype = values.dtype_of_type(element)
    if dtype is None:
        raise Failure(f"{expression} is a {value.type}, not numbers")
    if value.address is None or type_.code == gdb.TYPE_CODE_BITSTRING:
        number_bytes = value.cast(type_).bytes if hasattr(value, "bytes") else None
        if number_bytes is None:
            import struct
            fmt = {"f32": "f", "f64": "d"}.get(dtype, "q")
            raw = float(value) if dtype[0] == "f" else int(value)
            number_bytes = struct.pack("<" + fmt, raw)[:type_.sizeof]
        return Held(dtype, number_bytes)
    return Held(dtype, memory.read(int(value.address), type_.sizeof))


def held(expression, number):
    """Rank `number`'s value of a tensor or variable, in shards."""
    if inferiors.apart:
        with inferiors.restored():
            return of_program(None, number, expression)
    tensor = tensor_of(expression)
    if tensor is not None:
        return [Held(tensor.dtype, tensor.data(s), block_text(s)) for s in tensor.of_rank(number)]
    run = model.find_run()
    if scenario.is_here():
        return of_scenario(expression, number)
    if run is None:
        gdb.parse_and_eval(expression)  # its error is clearer
        raise Failure(f"{expression} is not a local tensor, and no SPMD run is active")
    with inferiors.restored():
        return of_program(run, number, expression)


def of_scenario(name, number):
    """Rank `number`'s value under a name of the scenario."""
    found, known = scenario.held(name, number, Held)
    if isinstance(found, int):
        tensor = Tensor(found)
        return [Held(tensor.dtype, tensor.data(s), block_text(s)) for s in tensor.of_rank(number)]
    if found is None:
        names = ", ".join(dict.fromkeys(k for k in known if k)) or "nothing yet"
        raise Failure(f"rank {number} holds nothing named {name}; there is {names}")
    return found


def parse(argument, count, usage):
    """The expression (which may contain spaces) and the last `count` words as ranks."""
    words = argument.split()
    if len(words) < count + 1 or not all(w.isdigit() for w in words[-count:]):
        raise Failure("usage: " + usage)
    return " ".join(words[:-count]), [int(w) for w in words[-count:]]


class Shard(memory.Command, name="shard", kind=gdb.COMMAND_DATA):
    """shard TENSOR RANK: what RANK holds of a local tensor, or of a variable of its program.

The sizes of memory from ls_rank_alloc are known; of other pointers write *POINTER@COUNT."""

    def run(self, argument, from_tty):
        expression, (number,) = parse(argument, 1, "shard TENSOR RANK")
        for part in held(expression, number):
            count = len(part.data) // values.dtype_bytes(part.dtype)
            block = f" {part.block}" if part.block else ""
            print(f"rank {number}{block}: {count} {part.dtype} = "
                  f"{{{values.head(part.dtype, part.data, values.elements_max())}}}")


LIST = re.compile(r"(\d+(-\d+)?)(,\d+(-\d+)?)*$|all$")


def parse_ranks(argument, usage):
    """The expression and the ranks of "EXPRESSION A B", "EXPRESSION 0-3,7" or "EXPRESSION all"."""
    named = scenario.split(argument)
    words = [named[0]] + named[1].split() if named is not None else argument.split()
    first = len(words)
    while first > 1 and LIST.match(words[first - 1]):
        first -= 1
    while first < len(words) and first > 0 and words[first - 1][-1] in "+-*/%&|^<>=,(":
        first += 1  # of the expression still
    found = []
    for word in words[first:]:
        found += ranks.parse_list(word, model.find_run() if word == "all" and not inferiors.apart else None)
    found = list(dict.fromkeys(found))
    if first == 0 or len(found) < 2:
        raise Failure("usage: " + usage)
    return " ".join(words[:first]), found


def steps_text(numbers):
    """Where ranks stand, when that is after different numbers of calls; None."""
    run = model.need_run()
    places = {}
    for number in numbers:
        rank = run.rank(number)
        if rank.state in ("returned", "died"):
            return None
        places.setdefault(rank.step(), []).append(number)
    if len(places) < 2:
        return None
    parts = [f"{who(ids)} after {step} call{'' if step == 1 else 's'}"
             for step, ids in sorted(places.items())]
    return "these ranks are at different steps: " + ", ".join(parts)


def who(ids):
    return f"rank{'s' if len(ids) > 1 else ''} {memory.rank_list(sorted(ids))}"


def lines_text(numbers):
    """Where ranks stand, when that is at different lines of their program; None."""
    run, places = model.need_run(), {}
    if any(run.rank(n).state in ("returned", "died") for n in numbers):
        return None
    selected = model.selected_rank(run)
    for number in numbers:
        rank = run.rank(number)
        if rank.thread() is None:
            return None
        place = scenario.where(rank) or model.frame_text(ranks.frame_of(rank, selected))
        places.setdefault(place.split(" at ")[-1], []).append(number)
    if len(places) < 2:
        return None
    return ", ".join(f"{who(ids)} at {place}" for place, ids in places.items())


class DiffRanks(memory.Command, name="diff-ranks", kind=gdb.COMMAND_DATA):
    """diff-ranks TENSOR A B [C ...]: where ranks' values differ: how many, the first, the worst.

TENSOR is a local tensor, or an expression in each rank's program: numbers, arrays, structs, pointers to
memory of ls_rank_alloc. Ranks: 0 1, or 0-3,7, or all. More than two are compared with what most of them
hold. Says when the ranks stand at different steps."""

    def run(self, argument, from_tty):
        expression, numbers = parse_ranks(argument, "diff-ranks TENSOR A B [C ...]")
        with inferiors.in_coordinator():
            process = inferiors.Coordinator.number is not None
            if (process or not inferiors.apart and tensor_of(expression) is None) and model.find_run() is not None:
                for text in (steps_text(numbers), lines_text(numbers)):
                    if text is not None:
                        print(text)
        parts = {number: part for number in numbers for part in [self._held(expression, number)] if part}
        numbers = list(parts)
        if not numbers:
            raise Failure("none of these ranks holds it")
        groups = {}
        for number in numbers:
            bits = tuple((part.dtype, part.data) for part in parts[number])
            groups.setdefault(bits, []).append(number)
        sides = sorted(groups.values(), key=lambda ids: -len(ids))  # the first of equals stays
        right = sides[0]
        if len(sides) > 1 and len(numbers) > 2:
            print(f"{who(right)} hold the same" if len(right) > 1
                  else f"no two ranks hold the same; compared with rank {right[0]}")
        if len(numbers) == 1:
            print(f"only rank {numbers[0]} holds it")
        elif len(sides) == 1:
            count = sum(len(p.data) // values.dtype_bytes(p.dtype) for p in parts[right[0]])
            dtypes = "/".join(dict.fromkeys(p.dtype for p in parts[right[0]]))
            blocks = self._blocks(parts[numbers[0]], parts[numbers[1]])
            print(f"ranks {' and '.join(map(str, numbers)) if len(numbers) == 2 else memory.rank_list(sorted(numbers))} "
                  f"hold the same {count} {dtypes}{blocks}")
        for side in sides[1:]:
            self._sides(parts[right[0]], parts[side[0]], right[0], side, len(numbers) > 2)

    @staticmethod
    def _held(expression, number):
        """In a scenario a rank may lack the name, which is a difference, too."""
        try:
            return held(expression, number)
        except Failure as error:
            if not scenario.is_here():
                raise
            print(error)
            return None

    @staticmethod
    def _blocks(ours, theirs):
        one = len(ours) == 1 and len(theirs) == 1 and ours[0].block != theirs[0].block
        return f" (block {ours[0].block} against {theirs[0].block})" if one else ""

    def _sides(self, ours, theirs, a, side, several):
        b = side[0]
        if several:
            print(f"{who(side)}:")
        if any(part.block.startswith(".") for part in ours + theirs):  # a struct's, by name
            there = {part.block: part for part in theirs}
            here = {part.block for part in ours}
            for alone, name in [(a, n) for n in here if n not in there] + \
                               [(b, n) for n in there if n not in here]:
                print(f"only rank {alone} has {name}")
            ours = [part for part in ours if part.block in there]
            theirs = [there[part.block] for part in ours]
        if len(ours) != len(theirs):
            print(f"rank {a} has {len(ours)} shards, rank {b} {len(theirs)}")
            return
        for x, y in zip(ours, theirs):
            if len(ours) == 1 or x.data != y.data or x.dtype != y.dtype:
                self._compare(x, y, a, b)

    @staticmethod
    def _compare(x, y, a, b):
        if x.dtype != y.dtype:
            print(f"rank {a} holds {x.dtype}, rank {b} {y.dtype}")
            return
        size = values.dtype_bytes(x.dtype)
        counts = len(x.data) // size, len(y.data) // size
        name = f"{x.block}: " if x.block.startswith(".") else ""
        blocks = f" (block {x.block} against {y.block})" if x.block != y.block else ""
        if counts[0] != counts[1]:
            print(f"rank {a} has {counts[0]} elements, rank {b} {counts[1]}{blocks}; "
                  f"the first {min(counts)}:")
        found = list(values.differences(x.dtype, x.data, y.data))
        total = min(counts)
        if not found:
            print(f"{name}ranks {a} and {b} hold the same {total} {x.dtype}{blocks}")
            return

        def line(word, index, ulps):
            left = values.decode(x.dtype, x.data[index * size:(index + 1) * size])[0]
            right = values.decode(y.dtype, y.data[index * size:(index + 1) * size])[0]
            far = "one is NaN" if ulps is None else f"{ulps} ulp{'' if ulps == 1 else 's'}"
            if x.dtype[0] in "iu":
                far = f"{ulps} apart"
            print(f"  {word} at [{index}]: {values.show(x.dtype, left)} on rank {a}, "
                  f"{values.show(x.dtype, right)} on rank {b} ({far})")

        print(f"{name}{len(found)} of {total} {x.dtype} differ{blocks}")
        line("first", *found[0])
        worst = max(found, key=lambda item: NAN_ULPS if item[1] is None else item[1])
        if worst is not found[0]:
            line("worst", *worst)


NAN_ULPS = 1 << 80


def register():
    Shard()
    DiffRanks()
