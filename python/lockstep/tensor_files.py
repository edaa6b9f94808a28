"""Reads and writes safetensors files as bytes, without torch or NumPy."""

import json
import os
import shutil


def _begin(file, header):
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    file.write(len(text).to_bytes(8, "little") + text)


class Writer:
    """A safetensors file whose tensors come one by one. The values are on disk at once; close() writes the file, whose header is first."""

    def __init__(self, path):
        self._path, self._header, self._at, self._process = path, {}, 0, os.getpid()
        # Without a buffer, which a child process would write once more.
        self._values = open(path + ".values", "w+b", buffering=0)  # pylint: disable=consider-using-with

    def add(self, name, dtype, shape, data):
        if os.getpid() != self._process:  # a child shares the place in the file
            return
        self._header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [self._at, self._at + len(data)]}
        self._at += len(data)
        left = memoryview(data)
        while left:
            left = left[self._values.write(left):]

    def close(self):
        if os.getpid() != self._process:
            return
        self._values.seek(0)
        with open(self._path, "wb") as file:
            _begin(file, self._header)
            shutil.copyfileobj(self._values, file, 1 << 20)
        self._values.close()
        os.remove(self._path + ".values")


def write_raw(path, tensors):
    """{name: (type in the format's notation, shape, bytes)}"""
    writer = Writer(path)
    for name, content in tensors.items():
        writer.add(name, *content)
    writer.close()


def read_raw(path):
    with open(path, "rb") as file:
        data = file.read()
    begin = 8 + int.from_bytes(data[:8], "little")
    header = json.loads(data[8:begin])
    header.pop("__metadata__", None)
    return {name: (about["dtype"], about["shape"],
                   data[begin + about["data_offsets"][0]:begin + about["data_offsets"][1]])
            for name, about in header.items()}
