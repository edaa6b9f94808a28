"""This process's connection to the coordinator of `lockstep exec`: exec/client.h through ctypes."""

import contextlib
import ctypes
import functools
import sys
from ctypes import POINTER, c_char_p, c_int, c_int32, c_size_t, c_uint32, c_uint64, c_void_p

NONE = 0xFFFFFFFF  # no memory, no slot
NO_STREAM = 0xFFFFFFFFFFFFFFFF  # calls do not wait for older ones
ID_BYTES = 128
PIECE_BYTES = 24  # of a list of collected ranges
SENDER = 4  # of a slot's numbers: the member that sent


class Region(ctypes.Structure):
    _fields_ = [("at", c_void_p), ("memory", c_uint32), ("offset", c_uint64), ("bytes", c_size_t)]


class Call(ctypes.Structure):
    _fields_ = [("comm", c_uint32), ("kind", c_uint32), ("dtype", c_uint32), ("op", c_uint32), ("root", c_int32),
                ("members", c_int32), ("tag", c_int32), ("count", c_uint64), ("send_counts", POINTER(c_uint64)),
                ("recv_counts", POINTER(c_uint64)), ("send", Region), ("recv", Region), ("observed", ctypes.c_bool),
                ("collects", ctypes.c_bool),
                ("send_address", c_uint64), ("recv_address", c_uint64), ("stream", c_uint64), ("purpose", c_char_p),
                ("shares", ctypes.c_bool), ("shares_sent", ctypes.c_bool), ("shared", ctypes.c_uint16 * 2)]


class Item(ctypes.Structure):
    _fields_ = [("name", c_char_p), ("shown", c_char_p), ("data", c_void_p), ("count", c_uint64), ("dtype", c_uint32),
                ("digested", c_uint32)]


class Note(ctypes.Structure):
    _fields_ = [("finding", c_char_p), ("key", c_char_p), ("about", c_char_p), ("members", POINTER(c_int32)),
                ("count", c_int32), ("flags", c_uint32), ("step", c_uint64)]


def layout():
    """Constants of exec/client.h, repeated here under the names of ls_client_layout."""
    lines = [" ".join([name, *(str(getattr(of, field[0]).offset) for field in of._fields_), str(ctypes.sizeof(of))])
             for name, of in (("region", Region), ("call", Call), ("item", Item), ("note", Note))]
    return "\n".join([*lines, f"constants {NONE} {NO_STREAM} {ID_BYTES} {PIECE_BYTES} {SENDER}"])


def check_layout(library):
    """Calls with other records than the library's would corrupt memory."""
    told = getattr(library, "ls_client_layout", None)
    if told is not None:
        told.restype = c_char_p
    theirs = told().decode() if told is not None else "none"
    if theirs != layout():
        raise Error(f"lockstep's Python package and the lockstep that runs the program are of different versions:\n"
                    f"the package has\n{layout()}\nthe program has\n{theirs}\nInstall both from one build.")


FUNCTIONS = {  # name: (result, arguments after the client)
    "region_take": (c_int, [POINTER(Region), c_void_p, c_size_t]),
    "region_give": (None, [c_void_p, POINTER(Region)]),
    "collect": (None, [c_void_p, c_uint32, POINTER(Region), POINTER(c_void_p), POINTER(c_uint64), c_int]),
    "slot_give": (None, [c_void_p, c_uint32]),
    "slot": (POINTER(c_int32), [c_void_p, c_uint32]),
    "done": (ctypes.c_bool, [c_void_p, c_uint32]),
    "wait": (c_int, [c_void_p, c_uint32]),
    "await": (c_int, [c_void_p, c_uint32]),
    "rest": (None, [c_void_p, c_uint32]),
    "wake": (None, [c_void_p, c_uint32]),
    "waits": (None, [c_void_p, c_uint32]),
    "resumes": (None, [c_void_p]),
    "unobserved": (ctypes.c_bool, [c_void_p]),
    "join": (c_int, [POINTER(c_uint32), c_void_p, c_char_p, c_int, c_int, c_char_p]),
    "leave": (c_int, [c_void_p, c_uint32, ctypes.c_bool]),
    "issue": (c_int, [POINTER(c_uint32), c_void_p, POINTER(Call)]),
    "arrived": (None, [c_void_p, c_uint32]),
    "note_values": (c_int, [c_void_p, POINTER(Note), POINTER(Item), c_int]),
    "kind": (c_int, [c_char_p]),
    "said": (c_char_p, []),
    "dtype": (c_char_p, [c_uint32]),
}


class Error(RuntimeError):
    """The run is over, or a call cannot be made; the message gives the reason."""


class Client:
    def __init__(self):
        library = ctypes.CDLL(None)  # lockstep exec preloads it; calls release the GIL
        try:
            get = library.ls_client_get
        except AttributeError:
            raise Error("this process was not started by lockstep exec") from None
        check_layout(library)
        get.restype = c_void_p
        self._functions = {}
        for name, (result, arguments) in FUNCTIONS.items():
            function = getattr(library, "ls_client_" + name)
            function.restype, function.argtypes = result, arguments
            self._functions[name] = function
        self._self = get()
        if self._self is None:
            self._check(-1)

    def _check(self, status):
        if status != 0:
            said = (self._functions["said"]() or b"").decode(errors="replace")
            raise Error("lockstep: " + said.removeprefix("lockstep: "))

    def take(self, size):
        region = Region()
        self._check(self._functions["region_take"](region, self._self, size))
        return region

    def give(self, region):
        self._functions["region_give"](self._self, region)

    def collect(self, slot, region, tensors):
        """Copies the received data of `slot`'s call into contiguous tensors."""
        blocks = (c_void_p * len(tensors))(*(tensor.data_ptr() for tensor in tensors))
        sizes = counts([tensor.nbytes for tensor in tensors])
        self._functions["collect"](self._self, slot, region, blocks, sizes, len(tensors))

    def join(self, identity, ranks, rank, name):
        comm = c_uint32()
        self._check(self._functions["join"](comm, self._self, identity, ranks, rank, name.encode()))
        return comm.value

    def leave(self, comm, in_flight):
        self._check(self._functions["leave"](self._self, comm, in_flight))

    @functools.cache
    def kind(self, name):
        return self._functions["kind"](name.encode())

    def issue(self, call):
        slot = c_uint32()
        self._check(self._functions["issue"](slot, self._self, call))
        return slot.value

    def arrived(self, slot):
        self._functions["arrived"](self._self, slot)

    def done(self, slot):
        return self._functions["done"](self._self, slot)

    def unobserved(self):
        """Whether calls are not to be reported any more."""
        return self._functions["unobserved"](self._self)

    @contextlib.contextmanager
    def waiting(self, slot):
        """The program waits for the call of `slot` in another library."""
        self._functions["waits"](self._self, slot)
        try:
            yield
        finally:
            self._functions["resumes"](self._self)

    def wait(self, slot, told=True):
        """Waits until the call of `slot` is complete. `told`: the program itself waits, so a deadlock is reported."""
        self._check(self._functions["wait" if told else "await"](self._self, slot))

    def rest(self, slot):
        """Waits until the call of `slot` is complete, it is woken, or the time has passed."""
        self._functions["rest"](self._self, slot)

    def wake(self, slot):
        self._functions["wake"](self._self, slot)

    def sender(self, slot):
        """For a complete receive: the member that sent."""
        return self._functions["slot"](self._self, slot)[SENDER]

    def give_slot(self, slot):
        self._functions["slot_give"](self._self, slot)

    def note(self, finding, key, about="", members=(), flags=0, step=0, items=()):
        """Reports values that must be equal on all members; without members: a finding of this rank with the text `key`."""
        note = Note(finding=finding.encode(), key=key.encode(), about=about.encode(), count=len(members), flags=flags,
                    members=(c_int32 * len(members))(*members), step=step)
        self._functions["note_values"](self._self, note, (Item * len(items))(*items), len(items))

    def dtypes(self):
        """torch's names of lockstep's element types, by number."""
        numbers = iter(range(1 << 16))
        return [name.decode() for name in iter(lambda: self._functions["dtype"](next(numbers)), None)]


@functools.cache
def get():
    return Client()


def interpreter_ends():
    """From here on no thread of the client enters the interpreter."""
    ends = getattr(ctypes.CDLL(None), "ls_client_interpreter_ends", None)
    if ends is not None:
        ends(*raised())


def raised():
    """The exception that nobody caught, in one line, and the program's line where it was raised; None: there is none."""
    trace = getattr(sys, "last_traceback", None)
    if trace is None:
        return None, None, 0
    from lockstep.debugger import frames

    frame, line = frames.of_program(frames.stack_of_trace(trace))[0]
    text = f"{sys.last_type.__name__}: {sys.last_value}".splitlines()[0]
    return text.encode(), frame.f_code.co_filename.encode(), line or 0


def counts(values):
    return (c_uint64 * len(values))(*values)
