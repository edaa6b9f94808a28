"""Likely reasons that `compare` and `run` name for wrong values: check_reasons.py LOCKSTEP.

A recording, or the reference of a scenario, is changed in a way that has a reason, and in one that has none.
"""
import json
import os
import random
import struct
import subprocess
import sys
import tempfile

SCENARIO = """lockstep: 1
name: model
mesh: {shape: [4]}
tables:
  - {name: a, rows: 12, dim: 4, sharding: {type: table_wise, ranks: 1}}
  - {name: b, rows: 12, dim: 4, sharding: {type: row_wise}}
inputs: {batch: 3, features: {a: {lengths: {constant: 2}}, b: {lengths: {constant: 2}}}}
"""
REFERENCE = SCENARIO + "checks: {reference: {file: there.npy}}\n"
TENSORS = ("output_dist/a/a/values", "output_dist/b/b/values")


def run(program, *arguments):
    done = subprocess.run([program, *arguments, "--json", "-"], capture_output=True, text=True, check=False)
    case, = json.loads(done.stdout)["cases"]
    wrong = [stage["divergence"] for stage in case["stages"] if stage["class"] == "wrong"]
    return done.returncode, wrong[0] if wrong else ""


class Recorded:
    """The values of one rank's file by tensor."""

    def __init__(self, path):
        with open(path, "rb") as file:
            data = file.read()
        length, = struct.unpack("<Q", data[:8])
        self.path, self.head, self.data = path, data[:8 + length], bytearray(data[8 + length:])
        self.header = json.loads(data[8:8 + length])

    def read(self, tensor):
        begin, end = self.header[tensor]["data_offsets"]
        return list(struct.unpack(f"<{(end - begin) // 4}f", self.data[begin:end]))

    def write(self, tensor, values):
        begin, end = self.header[tensor]["data_offsets"]
        self.data[begin:end] = struct.pack(f"<{len(values)}f", *values)

    def save(self):
        with open(self.path, "wb") as file:
            file.write(self.head + self.data)


def write_npy(path, rows):
    head = f"{{'descr': '<f4', 'fortran_order': False, 'shape': ({len(rows)}, {len(rows[0])}), }}"
    head += " " * ((-len(head) - 11) % 64) + "\n"
    with open(path, "wb") as file:
        file.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head.encode())
        file.write(struct.pack(f"<{len(rows) * len(rows[0])}f", *(x for row in rows for x in row)))


def rows_of(values):
    return [values[at:at + 4] for at in range(0, len(values), 4)]


def scaled(by):
    return lambda a, b: ([x * by for x in a], b)


def noise(a, b):
    draw = random.Random(5)
    return [draw.uniform(-1, 1) for _ in a], b


def one_element(a, b):
    return [a[0] + 1, *a[1:]], b


RECORDED = {
    "1/world": (scaled(1 / 4), "it is 0.25 times the simulated one (1/world"),
    "world": (scaled(4), "it is 4 times the simulated one (world"),
    "group": (scaled(1 / 2), "it is 0.5 times the simulated one (1/a group of the mesh"),
    "sign": (scaled(-1), "it is -1 times the simulated one (wrong sign)"),
    "exchanged": (lambda a, b: (b, a), "it has the data of table b, feature b, rank 2"),
    "rolled": (lambda a, b: (a[4:] + a[:4], b), "its row 0 of 3 is the simulated one's row 1"),
    "noise": (noise, None),
    "one element": (one_element, None),
}
REFERENCES = {
    "world": (lambda rows: [[x * 4 for x in row] for row in rows], "it is 0.25 times the reference (1/world"),
    "exchanged": (lambda rows: [row[4:] + row[:4] for row in rows], "its column 0 of 8 is the reference's column 4"),
    "rolled": (lambda rows: rows[1:] + rows[:1], "its row 0 of 12 is the reference's row 11"),
    "one element": (lambda rows: [[rows[0][0] + 1, *rows[0][1:]], *rows[1:]], None),
}


def judge(name, code, text, expected):
    assert code == 1 and text, (name, code, text)
    assert ("likely" in text) == (expected is not None), (name, text)
    assert (expected or "") in text, (name, text)


def main():
    program = os.path.abspath(sys.argv[1])
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        for name, text in (("model.yaml", SCENARIO), ("reference.yaml", REFERENCE)):
            with open(name, "w", encoding="utf-8") as file:
                file.write(text)
        subprocess.run([program, "record", "model.yaml", "--backend", "sim", "--out", "kept", "--quiet"], check=True)
        right = [Recorded(f"kept/model/rank_{rank:05}.safetensors") for rank in range(4)]
        for name, (change, expected) in RECORDED.items():
            changed = Recorded(right[2].path)
            for tensor, values in zip(TENSORS, change(*map(right[2].read, TENSORS))):
                changed.write(tensor, values)
            changed.save()
            judge(name, *run(program, "compare", "model.yaml", "--real", "kept"), expected)
            right[2].save()
        assert run(program, "compare", "model.yaml", "--real", "kept") == (0, "")
        rows = [a + b for rank in right for a, b in zip(*(rows_of(rank.read(tensor)) for tensor in TENSORS))]
        write_npy("there.npy", rows)
        assert run(program, "run", "reference.yaml") == (0, "")
        for name, (change, expected) in REFERENCES.items():
            write_npy("there.npy", change(rows))
            judge(name, *run(program, "run", "reference.yaml"), expected)
    print("reasons are named")


main()
