"""The kernels of kernels/field.h by ctypes, from the library that `lockstep exec` preloads."""

import ctypes
from ctypes import POINTER, c_int, c_size_t, c_ssize_t, c_uint64, c_void_p


class Product(ctypes.Structure):
    _fields_ = [*((name, c_void_p) for name in ("out", "a", "b")), *((name, c_size_t) for name in ("batch", "m", "k", "n")),
                *((name, c_ssize_t) for name in ("a_batch", "a_row", "a_column", "b_batch", "b_row", "b_column"))]


class Pairs(ctypes.Structure):
    _fields_ = [*((name, c_void_p) for name in ("out", "a", "b")), *((name, c_size_t) for name in ("rows", "columns")),
                *((name, c_ssize_t) for name in ("a_row", "a_column", "b_row", "b_column"))]


_FUNCTIONS = {"matmul": [POINTER(Product)], "pairwise": [POINTER(Pairs), c_int],
              "inverse": [c_void_p, c_void_p, c_size_t], "hash": [c_void_p, c_void_p, c_size_t, c_uint64],
              "sum": [c_void_p, c_void_p, c_size_t, c_size_t, c_size_t]}


def load(library=None):
    """{name: function}; None where the library has none."""
    opened, made = ctypes.CDLL(library), {}
    for name, arguments in _FUNCTIONS.items():
        function = getattr(opened, f"ls_client_field_{name}", None)
        if function is None:
            return None
        function.argtypes, function.restype = arguments, None
        made[name] = function
    return made
