"""Generated captures without torch, and the verdict of `lockstep diff` on them. The programs that import this take LOCKSTEP PYTHON_FOLDER.
"""
import json
import math
import os
import struct
import subprocess
import sys
import tempfile

LOCKSTEP, FOLDER = sys.argv[1:3]
sys.path.insert(0, FOLDER)
from lockstep import tensor_files  # noqa: E402


def f32(values):
    return struct.pack(f"<{len(values)}f", *values)


def rounded(value):
    return struct.unpack("<f", struct.pack("<f", value))[0]


def bf16(values):
    """The upper halves of floats, rounded to nearest even."""
    bits_ = struct.unpack(f"<{len(values)}I", f32(values))
    return struct.pack(f"<{len(values)}H", *[(b + 0x7fff + (b >> 16 & 1)) >> 16 for b in bits_])


def of_bf16(value):
    return struct.unpack("<f", b"\0\0" + bf16([value]))[0]


def bits(kind, shape, values):
    pack = {"F32": f32, "BF16": bf16, "F16": lambda v: struct.pack(f"<{len(v)}e", *v), "I64": lambda v: struct.pack(f"<{len(v)}q", *v),
            "I16": lambda v: struct.pack(f"<{len(v)}h", *v)}
    return kind, shape, pack[kind](values)


def write(folder, ranks):
    """ranks: for each rank {name: (shape, values, about)}"""
    os.makedirs(folder, exist_ok=True)
    for rank, tensors in enumerate(ranks):
        path = os.path.join(folder, f"rank_{rank:05}.")
        tensor_files.write_raw(path + "safetensors", {n: bits(about.get("type", "F32"), s, v) for n, (s, v, about)
                                                      in tensors.items() if "as" not in about})
        with open(path + "json", "w", encoding="utf-8") as file:
            json.dump({"format": 1, "rank": rank, "ranks": len(ranks),
                       "tensors": [{"name": n, **about} for n, (_, _, about) in tensors.items() if not about.get("hidden")],
                       "not_kept": [{"name": n, "why": about["why"]} for n, (_, _, about) in tensors.items() if "why" in about]}, file)


def diff(ref, run, *words):
    done = subprocess.run([LOCKSTEP, "diff", ref, run, "--json", "-", *words], capture_output=True, text=True, check=False)
    cases = json.loads(done.stdout)["cases"] if done.stdout else []
    stages = {stage["name"]: stage for case in cases for stage in case["stages"]}
    return done.returncode, stages, done.stderr


def omitted(ref, run, *words):
    """The tensors that are not compared, with the reason."""
    done = subprocess.run([LOCKSTEP, "diff", ref, run, "--json", "-", *words], capture_output=True, text=True, check=False)
    report = json.loads(done.stdout)
    return done.returncode, {one["name"]: one["why"] for case in report["cases"] + report["skips"]
                             for one in case.get("not_compared", [])}


class Check:
    def __init__(self):
        self.folder = tempfile.TemporaryDirectory()
        self.made = 0

    def path(self):
        self.made += 1
        return os.path.join(self.folder.name, str(self.made))

    def written(self, ranks):
        path = self.path()
        write(path, ranks)
        return path

    def one(self, ref, ranks, code, kind, *texts, words=(), name="t"):
        """ref: the tensors of one rank; ranks: of each rank of the run."""
        a, b = self.written([ref]), self.written(ranks)
        got, stages, said = diff(a, b, *words)
        assert name in stages, (stages, said)
        told = stages[name].get("divergence") or ""
        assert got == code and stages[name]["class"] == kind, (got, code, stages, said)
        for text in texts:
            assert text in told, (text, told)
        return stages[name]


def waves(count, scale=1.0):
    return [rounded(scale * math.sin(1 + 1.7 * i)) for i in range(count)]


def rows(values, width, first, last):
    return values[first * width:last * width]


def column_block(values, width, first, last):
    return [v for i, v in enumerate(values) if first <= i % width < last]


def lies_as(placements, mesh, shape, **more):
    return {"placements": placements, "mesh": mesh, "shape": shape, **more}
