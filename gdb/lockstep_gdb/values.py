"""Elements of every dtype: decoding, printing, distance in ulps."""
import struct

import gdb

from . import memory

_PACKED = {("i", 1): "b", ("u", 1): "B", ("i", 2): "h", ("u", 2): "H", ("i", 4): "i", ("u", 4): "I",
           ("i", 8): "q", ("u", 8): "Q", ("f", 4): "f", ("f", 8): "d"}
_TYPES = {("f", 4): "float", ("f", 8): "double", ("i", 1): "signed char", ("i", 2): "short", ("i", 4): "int",
          ("i", 8): "long", ("u", 1): "unsigned char", ("u", 2): "unsigned short", ("u", 4): "unsigned int",
          ("u", 8): "unsigned long"}


class Row:
    """An element type, from base/dtype.c."""

    def __init__(self, row):
        self.bytes, self.kind = int(row["bytes"]), chr(int(row["class_"]))
        self.is_float = self.kind in "fq"
        self.precision, self.top = int(row["format"]["precision"]), int(row["format"]["top_bits"])
        self.infinite = bool(row["format"]["infinite"])
        half = self.bytes == 2 and self.precision == 11
        self.packed = "e" if half else _PACKED.get((self.kind, self.bytes))

    def number(self, bits):
        """For a float type that Python lacks."""
        fraction = self.precision - 1
        magnitude = bits & (1 << 8 * self.bytes - 1) - 1
        sign = -1.0 if magnitude != bits else 1.0
        if magnitude > self.top:
            return float("nan")
        if magnitude == self.top and self.infinite:
            return sign * float("inf")
        exponent, rest = magnitude >> fraction, magnitude & (1 << fraction) - 1
        bias = (1 << 8 * self.bytes - fraction - 2) - 1
        return sign * (rest + (exponent > 0) * (1 << fraction)) * 2.0 ** (max(exponent, 1) - bias - fraction)


_ROWS = {}


def rows():
    """The element types by name. They are constants, so a program need not run."""
    table = memory.variable("dtype_rows") if not _ROWS else None
    if table is not None:
        first, last = table.type.range()
        _ROWS.update({table[i]["name"].string(): Row(table[i]) for i in range(first, last + 1)})
    return _ROWS


def dtype_name(number):
    return memory.enum_name("ls_dtype", "LS_", number)


def dtype_bytes(dtype):
    return rows()[dtype].bytes


def decode(dtype, data):
    """The numbers in `data`."""
    row = rows()[dtype]
    count = len(data) // row.bytes
    data = data[:count * row.bytes]
    if row.packed is not None:
        return struct.unpack(f"<{count}{row.packed}", data)
    return tuple(row.number(int.from_bytes(data[i:i + row.bytes], "little")) for i in range(0, len(data), row.bytes))


def show(dtype, number):
    """The shortest text that is read back as the same element, if Python gives one."""
    if not rows()[dtype].is_float:
        return str(number)
    if dtype == "f32" and number == number and abs(number) != float("inf"):
        for digits in range(6, 10):
            out = f"{number:.{digits}g}"
            if struct.pack("<f", float(out)) == struct.pack("<f", number):
                return out
    return f"{number:.9g}" if dtype != "f64" else repr(number)


def head(dtype, data, most):
    """"1, 2, 3, ..." of at most `most` elements."""
    count = len(data) // rows()[dtype].bytes
    shown = decode(dtype, data[:most * rows()[dtype].bytes])
    out = ", ".join(show(dtype, n) for n in shown)
    return out + (", ..." if count > most else "")


def _ordered(dtype, bits):
    """Bits as an integer that grows with the number and by one per representable value."""
    width = rows()[dtype].bytes * 8
    if rows()[dtype].is_float:
        top = 1 << (width - 1)
        return bits if bits < top else top - bits
    if rows()[dtype].kind == "i" and bits >= 1 << (width - 1):
        return bits - (1 << width)
    return bits


def _nan(dtype, number):
    return rows()[dtype].is_float and number != number


def differences(dtype, a, b):
    """(index, ulps or None) of every element that differs between two byte strings; None: NaN
    against a number. Two NaNs are equal, +0 and -0 are not."""
    size = rows()[dtype].bytes
    if a == b:
        return
    for i in range(min(len(a), len(b)) // size):
        left, right = a[i * size:(i + 1) * size], b[i * size:(i + 1) * size]
        if left == right:
            continue
        x, y = decode(dtype, left)[0], decode(dtype, right)[0]
        if _nan(dtype, x) or _nan(dtype, y):
            if not (_nan(dtype, x) and _nan(dtype, y)):
                yield i, None
            continue
        yield i, abs(_ordered(dtype, int.from_bytes(left, "little")) -
                     _ordered(dtype, int.from_bytes(right, "little")))


def dtype_of_type(type_):
    """The dtype of a C element type; None where there is none."""
    type_ = type_.strip_typedefs()
    if type_.code == gdb.TYPE_CODE_FLT:
        return {4: "f32", 8: "f64"}.get(type_.sizeof)
    if type_.code in (gdb.TYPE_CODE_INT, gdb.TYPE_CODE_CHAR, gdb.TYPE_CODE_BOOL, gdb.TYPE_CODE_ENUM):
        sign = "i" if getattr(type_, "is_signed", False) else "u"
        return f"{sign}{type_.sizeof * 8}" if type_.sizeof != 2 else None
    return None


def typed(pointer, number):
    """A void pointer as one to the elements of a dtype; gdb has no types for the small floats."""
    row = rows()[dtype_name(number)]
    name = _TYPES.get((row.kind, row.bytes)) or _TYPES["u", row.bytes]
    return pointer.cast(gdb.lookup_type(name).pointer())


def at(pointer, number, index):
    """Element `index` of an array of a dtype, as text."""
    dtype = dtype_name(number)
    size = rows()[dtype].bytes
    return show(dtype, decode(dtype, memory.read(int(pointer) + index * size, size))[0])


def elements_max():
    """How many elements the user wants to see of an array."""
    limit = gdb.parameter("print elements")
    return 1 << 20 if limit in (None, 0) else int(limit)
