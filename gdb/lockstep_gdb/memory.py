"""Reads the program's memory in large pieces: a struct's fields by offset, an array by one read.

Nothing here calls a function of the program, so all of it works on a core file.
"""
import struct

import gdb

_INTEGERS = {(1, True): "b", (1, False): "B", (2, True): "h", (2, False): "H",
             (4, True): "i", (4, False): "I", (8, True): "q", (8, False): "Q"}


class Failure(gdb.GdbError):
    """The message of a command that replaces a traceback."""


def guarded(call, *arguments):
    """Calls a function; any error becomes one line. Corrupt memory can cause any error."""
    try:
        return call(*arguments)
    except (gdb.GdbError, KeyboardInterrupt):
        raise
    except gdb.error as error:
        raise Failure(" ".join(str(error).split())) from None
    except Exception as error:
        raise Failure(f"the memory of the program is not as expected ({type(error).__name__}: {error})") from None


def told(call, *arguments):
    """Calls a function in a gdb event; any error becomes one line."""
    try:
        guarded(call, *arguments)
    except gdb.GdbError as error:
        print(error)


class Command(gdb.Command):
    """A command whose run() may raise anything, which becomes one line. Its class gives its name and its kind."""

    def __init_subclass__(cls, name=None, kind=None, prefix=False):
        cls.called = {"name": name, "command_class": kind, "prefix": prefix}

    def __init__(self):
        super().__init__(**self.called)

    def invoke(self, argument, from_tty):
        guarded(self.run, argument.strip(), from_tty)

    def complete(self, text, word):
        try:
            return [word + name[len(self.typed(text)):] for name in self.choices(text)
                    if name.startswith(self.typed(text))]
        except (gdb.error, gdb.GdbError, LookupError, ValueError):
            return []

    @staticmethod
    def typed(text):
        """The part of `text` that choices() complete."""
        return text.split(" ")[-1]

    def choices(self, text):
        """Completions at the cursor."""
        return []


class Stop(gdb.Breakpoint):
    """A breakpoint whose hit() may raise anything: then it prints the reason, and stops."""

    def stop(self):
        try:
            return guarded(self.hit)
        except gdb.GdbError as error:
            print(error)
            return True


READ_MAX = 1 << 32  # bytes


def read(address, count):
    """`count` bytes at `address`."""
    if count == 0:
        return b""
    if not 0 < count <= READ_MAX:
        raise Failure(f"{count} bytes at {address:#x} are out of range: memory is corrupt")
    try:
        return bytes(gdb.selected_inferior().read_memory(address, count))
    except gdb.MemoryError:
        raise Failure(f"cannot read {count} bytes at {address:#x}") from None


_strings = {}


def text(address, most=4096):
    """The string at `address`; "" for NULL or unreadable memory."""
    if address == 0:
        return ""
    known = _strings.get(address)
    if known is not None:
        return known
    pieces, step = [], 64
    while most > 0:
        # Reads up to the end of a page, which stays within mapped memory; a core file may end at a section's end.
        step = min(most, step, 4096 - address % 4096)
        try:
            piece = bytes(gdb.selected_inferior().read_memory(address, step))
        except gdb.MemoryError:
            step //= 2
            if step == 0:
                break
            continue
        end = piece.find(b"\0")
        pieces.append(piece if end < 0 else piece[:end])
        if end >= 0:
            break
        address += step
        most -= step
    return b"".join(pieces).decode(errors="replace")


def static_text(address):
    """text() of a string that never changes, such as a file's name: read once."""
    if address not in _strings:
        _strings[address] = text(address)
    return _strings[address]


def forget(*_):
    """A new program was loaded."""
    _strings.clear()
    _layouts.clear()
    _enums.clear()


_layouts = {}


def no_information(name):
    """The reason why a type or variable of the library is unknown."""
    if not gdb.objfiles():
        return "there is no program: open one with 'file', or a core file with 'core-file'"
    return (f"the program has no debug information about {name}: it is not linked with lockstep, or "
            "stripped, or the library is not loaded yet")


class Layout:
    """Offsets and formats of a struct's scalar fields, nested ones as "call.kind"."""

    def __init__(self, type_):
        self.type = type_
        self.size = type_.sizeof
        self.fields = {}
        self._add("", type_, 0)

    def _add(self, prefix, type_, base):
        for field in type_.fields():
            if field.bitsize or field.name is None:
                continue
            offset = base + field.bitpos // 8
            inner = field.type.strip_typedefs()
            name = prefix + field.name
            self.fields[name] = (offset, inner.sizeof, _format(inner))
            if inner.code == gdb.TYPE_CODE_STRUCT:
                self._add(name + ".", inner, offset)


def _format(type_):
    if type_.code in (gdb.TYPE_CODE_PTR,):
        return "<Q"
    if type_.code == gdb.TYPE_CODE_FLT:
        return {4: "<f", 8: "<d"}.get(type_.sizeof)
    if type_.code in (gdb.TYPE_CODE_INT, gdb.TYPE_CODE_ENUM, gdb.TYPE_CODE_BOOL, gdb.TYPE_CODE_CHAR):
        signed = type_.code == gdb.TYPE_CODE_INT and type_.is_signed
        return "<" + _INTEGERS[(type_.sizeof, signed)]
    return None


def layout(name):
    """The Layout of `struct NAME`."""
    if name not in _layouts:
        try:
            type_ = gdb.lookup_type("struct " + name).strip_typedefs()
        except gdb.error:
            try:
                type_ = gdb.lookup_type(name).strip_typedefs()
            except gdb.error as error:
                raise Failure(no_information(name)) from error
        _layouts[name] = Layout(type_)
    return _layouts[name]


class Record:
    """One struct in bytes that have been read: record["call.kind"]."""
    __slots__ = ("layout", "data", "base", "address")

    def __init__(self, layout_, data, base, address):
        self.layout, self.data, self.base, self.address = layout_, data, base, address

    def __getitem__(self, name):
        try:
            offset, _, format_ = self.layout.fields[name]
        except KeyError:
            raise Failure(f"{self.layout.type} has no {name}: use the extension that came with the library") from None
        return struct.unpack_from(format_, self.data, self.base + offset)[0]

    def at(self, name):
        """The address of a field."""
        return self.address + self.layout.fields[name][0]

    def write(self, fields):
        """Writes fields to the program, in this order: numbers, or bytes."""
        for name, value in fields:
            offset, _, format_ = self.layout.fields[name]
            data = value if isinstance(value, bytes) else struct.pack(format_, value)
            gdb.selected_inferior().write_memory(self.address + offset, data)

    def bytes(self, name):
        """The bytes of a field that is no scalar."""
        offset, size, _ = self.layout.fields[name]
        return self.data[self.base + offset:self.base + offset + size]

    def string(self, name):
        """A char array field."""
        return self.bytes(name).split(b"\0", 1)[0].decode(errors="replace")

    def integers(self, name, width, signed=True):
        """An array field of integers."""
        data = self.bytes(name)
        return struct.unpack(f"<{len(data) // width}{_INTEGERS[(width, signed)]}", data)


def record(name, address):
    """The struct NAME at `address`."""
    found = layout(name)
    return Record(found, read(address, found.size), 0, address)


def records(name, address, count):
    """An array of `count` structs, by one read."""
    found = layout(name)
    data = read(address, found.size * count)
    return [Record(found, data, i * found.size, address + i * found.size) for i in range(count)]


def integers(address, count, width, signed=True):
    """An array of `count` integers, by one read."""
    return struct.unpack(f"<{count}{_INTEGERS[(width, signed)]}", read(address, count * width))


def pointers(address, count):
    """An array of `count` pointers, by one read."""
    return integers(address, count, 8, False)


_enums = {}


def enum(name, prefix):
    """Number -> name of an enum's values, lower case, without `prefix`."""
    if name not in _enums:
        try:
            fields = gdb.lookup_type("enum " + name).fields()
        except gdb.error as error:
            raise Failure(no_information(name)) from error
        _enums[name] = {f.enumval: f.name[len(prefix):].lower() if f.name.startswith(prefix)
                        else f.name for f in fields}
    return _enums[name]


def enum_name(name, prefix, value):
    return enum(name, prefix).get(value, f"{name} {value}")


def variable(name):
    """The value of a global variable, or None where the program has none of the name."""
    try:
        return gdb.parse_and_eval(name)
    except gdb.error:
        return None


def rank_list(ranks):
    """"0-3, 7" for ascending ranks."""
    out, start, last = [], None, None
    for rank in list(ranks) + [None]:
        if start is not None and rank is not None and rank == last + 1:
            last = rank
            continue
        if start is not None:
            out.append(str(start) if start == last else f"{start}-{last}" if last > start + 1
                       else f"{start}, {last}")
        start = last = rank
    return ", ".join(out)
