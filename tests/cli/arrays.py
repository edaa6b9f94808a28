"""Writes the .npy files that the transcripts need into the current folder, good ones and bad ones."""
import struct


def npy(name, descr, shape, data):
    head = str({"descr": descr, "fortran_order": False, "shape": shape}) + "\n"
    with open(name, "wb") as stream:
        stream.write(b"\x93NUMPY\x01\0" + struct.pack("<H", len(head)) + head.encode() + data)


npy("good.npy", "<f4", (2, 4), bytes(32))
npy("short.npy", "<f4", (2, 3), bytes(24))
npy("flat.npy", "<f4", (8,), bytes(32))
npy("cut.npy", "<f4", (2, 4), bytes(31))
npy("text.npy", "<U4", (2, 4), bytes(128))
npy("real.npy", "<f4", (4,), bytes(16))
npy("ones.npy", "<i8", (4,), struct.pack("<4q", 1, 1, 1, 1))
npy("fewer.npy", "<i8", (3,), struct.pack("<3q", 1, 1, 1))
npy("minus.npy", "<i8", (4,), struct.pack("<4q", 1, 1, -1, 1))
for name, text in ("empty.npy", ""), ("words.npy", "no array"), ("words.txt", "1 2 3"):
    with open(name, "w") as stream:
        stream.write(text)
