"""Safetensors files, for the scripts that run other systems beside lockstep."""
import os
import sys

import numpy as np

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "python"))
from lockstep.tensor_files import read_raw, write_raw  # noqa: E402

TYPES = {"F64": np.float64, "F32": np.float32, "F16": np.float16, "I64": np.int64}


def write(path, arrays):
    """{name: numpy array}"""
    names = {np.dtype(of): name for name, of in TYPES.items()}
    write_raw(path, {name: (names[array.dtype], array.shape, np.ascontiguousarray(array).tobytes())
                     for name, array in arrays.items()})


def read(path):
    """The arrays of the types that numpy has."""
    return {name: np.frombuffer(data, TYPES[dtype]).reshape(shape)
            for name, (dtype, shape, data) in read_raw(path).items() if dtype in TYPES}
