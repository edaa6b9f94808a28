"""Safetensors files, for the scripts that run other systems beside lockstep."""
import json

import numpy as np

TYPES = {"F64": np.float64, "F32": np.float32, "F16": np.float16, "I64": np.int64}


def write_raw(path, tensors):
    """{name: (type as the format names it, shape, bytes)}"""
    header, at = {}, 0
    for name, (dtype, shape, data) in tensors.items():
        header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [at, at + len(data)]}
        at += len(data)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        file.writelines(data for _, _, data in tensors.values())


def read_raw(path):
    with open(path, "rb") as file:
        data = file.read()
    begin = 8 + int.from_bytes(data[:8], "little")
    header = json.loads(data[8:begin])
    header.pop("__metadata__", None)
    return {name: (about["dtype"], about["shape"],
                   data[begin + about["data_offsets"][0]:begin + about["data_offsets"][1]])
            for name, about in header.items()}


def write(path, arrays):
    """{name: numpy array}"""
    names = {np.dtype(of): name for name, of in TYPES.items()}
    write_raw(path, {name: (names[array.dtype], array.shape, np.ascontiguousarray(array).tobytes())
                     for name, array in arrays.items()})


def read(path):
    """The arrays of the types that numpy has."""
    return {name: np.frombuffer(data, TYPES[dtype]).reshape(shape)
            for name, (dtype, shape, data) in read_raw(path).items() if dtype in TYPES}
