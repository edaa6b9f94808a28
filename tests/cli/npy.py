"""Writes the numbers 0, 1, 2, ... to a file: npy.py TYPE SHAPE FILE. TYPE is NumPy's name ("f4"), SHAPE is "4,2". FILE.safetensors holds
one tensor, any other FILE is a .npy.
"""
import json
import math
import struct
import sys

kind, shape, path = sys.argv[1], [int(size) for size in sys.argv[2].split(",")], sys.argv[3]
letter = {"i4": "i", "i8": "q", "f2": "e", "f4": "f", "f8": "d"}[kind]
count = math.prod(shape)
data = struct.pack(f"<{count}{letter}", *range(count))
if path.endswith(".safetensors"):
    header = json.dumps({"t": {"dtype": kind[0].upper() + str(8 * int(kind[1])), "shape": shape, "data_offsets": [0, len(data)]}}).encode()
    data = struct.pack("<Q", len(header)) + header + data
else:
    text = f"{{'descr': '<{kind}', 'fortran_order': False, 'shape': {tuple(shape)}, }}".ljust(117) + "\n"
    data = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text.encode() + data
with open(path, "wb") as file:
    file.write(data)
