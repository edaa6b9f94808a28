"""Reads and writes safetensors files as bytes, without torch or NumPy."""

import json


def write_raw(path, tensors):
    """{name: (type in the format's notation, shape, bytes)}"""
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
