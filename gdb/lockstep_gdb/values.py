"""Elements of every dtype: decoding, printing, distance in ulps."""
import struct

import gdb

from . import memory

_FORMATS = {"i8": "b", "u8": "B", "i32": "i", "u32": "I", "i64": "q", "u64": "Q",
            "f16": "e", "f32": "f", "f64": "d"}
_BYTES = {"i8": 1, "u8": 1, "i32": 4, "u32": 4, "i64": 8, "u64": 8, "f16": 2, "f32": 4, "f64": 8,
          "bf16": 2, "f8e4m3": 1, "f8e5m2": 1}
DTYPES = tuple(_BYTES)


def dtype_name(number):
    return memory.enum_name("ls_dtype", "LS_", number)


def dtype_bytes(dtype):
    return _BYTES[dtype]


def _f8e4m3(bits):
    sign = -1.0 if bits & 0x80 else 1.0
    exponent, mantissa = bits >> 3 & 15, bits & 7
    if exponent == 15 and mantissa == 7:
        return float("nan")
    if exponent == 0:
        return sign * mantissa * 2.0 ** -9
    return sign * (1 + mantissa / 8) * 2.0 ** (exponent - 7)


def decode(dtype, data):
    """The numbers in `data`."""
    count = len(data) // _BYTES[dtype]
    if dtype in _FORMATS:
        return struct.unpack(f"<{count}{_FORMATS[dtype]}", data[:count * _BYTES[dtype]])
    if dtype == "bf16":
        words = struct.unpack(f"<{count}H", data[:count * 2])
        return struct.unpack(f"<{count}f", struct.pack(f"<{count}I", *(w << 16 for w in words)))
    if dtype == "f8e5m2":
        return struct.unpack(f"<{count}e", b"".join(bytes((0, b)) for b in data[:count]))
    return tuple(_f8e4m3(b) for b in data[:count])


def show(dtype, number):
    """The shortest text that reads back to the same element, where Python gives one."""
    if dtype[0] in "iu":
        return str(number)
    if dtype == "f32" and number == number and abs(number) != float("inf"):
        for digits in range(6, 10):
            out = f"{number:.{digits}g}"
            if struct.pack("<f", float(out)) == struct.pack("<f", number):
                return out
    return f"{number:.9g}" if dtype != "f64" else repr(number)


def head(dtype, data, most):
    """"1, 2, 3, ..." of at most `most` elements."""
    count = len(data) // _BYTES[dtype]
    shown = decode(dtype, data[:most * _BYTES[dtype]])
    out = ", ".join(show(dtype, n) for n in shown)
    return out + (", ..." if count > most else "")


def _ordered(dtype, bits):
    """Bits as an integer that grows with the number and by one per representable value."""
    width = _BYTES[dtype] * 8
    if dtype[0] == "f" or dtype == "bf16":
        top = 1 << (width - 1)
        return bits if bits < top else top - bits
    if dtype[0] == "i" and bits >= 1 << (width - 1):
        return bits - (1 << width)
    return bits


def _nan(dtype, number):
    return dtype[0] not in "iu" and number != number


def differences(dtype, a, b):
    """(index, ulps or None) of every element that differs between two byte strings; None: NaN
    against a number. Two NaNs are equal, +0 and -0 are not."""
    size = _BYTES[dtype]
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


_TYPES = {"f32": "float", "f64": "double", "i8": "signed char", "u8": "unsigned char", "i32": "int",
          "u32": "unsigned int", "i64": "long", "u64": "unsigned long", "f16": "unsigned short",
          "bf16": "unsigned short", "f8e4m3": "unsigned char", "f8e5m2": "unsigned char"}


def typed(pointer, number):
    """A void pointer as one to the elements of a dtype; gdb has no types for the small floats."""
    return pointer.cast(gdb.lookup_type(_TYPES[dtype_name(number)]).pointer())


def at(pointer, number, index):
    """Element `index` of an array of a dtype, as text."""
    dtype = dtype_name(number)
    size = _BYTES[dtype]
    return show(dtype, decode(dtype, memory.read(int(pointer) + index * size, size))[0])


def elements_max():
    """How many elements the user wants to see of an array."""
    limit = gdb.parameter("print elements")
    return 1 << 20 if limit in (None, 0) else int(limit)
