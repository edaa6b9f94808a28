"""Changes what a recording holds: change_tensor.py FILE TENSOR INDEX TYPE VALUE, where TYPE is struct's letter of an
element, or `rename` and VALUE the new name, or `copy` and VALUE the name of the copy, or `reshape` and VALUE the new shape, "2,4", or
`drop`."""
import json
import struct
import sys

path, name, index, kind = sys.argv[1:5]
with open(path, "rb") as file:
    data = file.read()
length, = struct.unpack("<Q", data[:8])
header, blob = json.loads(data[8:8 + length]), bytearray(data[8 + length:])
if kind == "drop":
    del header[name]
    parts = [(key, blob[slice(*value["data_offsets"])]) for key, value in header.items() if key != "__metadata__"]
    blob = bytearray()
    for key, part in parts:
        header[key]["data_offsets"] = [len(blob), len(blob) + len(part)]
        blob += part
elif kind == "copy":
    begin, end = header[name]["data_offsets"]
    header[sys.argv[5]] = dict(header[name], data_offsets=[len(blob), len(blob) + end - begin])
    blob += blob[begin:end]
elif kind == "reshape":
    header[name]["shape"] = [int(size) for size in sys.argv[5].split(",")]
elif kind == "rename":
    header[sys.argv[5]] = header.pop(name)
else:
    at = header[name]["data_offsets"][0] + int(index) * struct.calcsize(kind)
    value = sys.argv[5]
    struct.pack_into("<" + kind, blob, at, float(value) if kind in "efd" else int(value, 0))
text = json.dumps(header).encode()
text += b" " * (-len(text) % 8)
with open(path, "wb") as file:
    file.write(struct.pack("<Q", len(text)) + text + blob)
