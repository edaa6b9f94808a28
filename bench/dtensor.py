#!/usr/bin/env python3
"""DTensor on gloo beside lockstep: dtensor.py [LOCKSTEP] [--count 300] [--first 0] [--keep DIR]

Needs torch (pip); lockstep itself does not. Random programs over 1 to 4 ranks, on meshes of one and two
dimensions, with uneven, empty, strided and partial shards: each is run by DTensor on gloo, a process a
rank, and by lockstep, as a scenario of the same steps. Every result that DTensor gathers is held against
what lockstep's oracle says the step must be: bit by bit where elements only move, else within the bound;
and where a redistribution says how a tensor is to lie, both have shards of the same shapes and, where
elements only moved, bits.

Not compared: dropout (other random numbers), shards of explicit sizes (DTensor has none), loss parallel
with a rank that has no class (DTensor hangs), and what either refuses, which is counted with its reason. A
result of DTensor's that is not what torch gives on one rank is counted as DTensor's own; lockstep is then
held against torch. Ends with 1 where anything is not explained.
"""
import argparse
import collections
import json
import os
import random
import re
import struct
import subprocess
import sys
import tempfile

try:
    import torch
    import torch.distributed as dist
    import torch.nn.functional as F
    from torch.distributed.device_mesh import DeviceMesh
    from torch.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor
    from torch.distributed.tensor.parallel import loss_parallel
    from torch.distributed.tensor.placement_types import _StridedShard
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

RANKS = 4
MESHES = [[1], [2], [3], [4], [2, 2], [1, 3], [2, 1]]
TYPES = {"f32": torch.float32, "f64": torch.float64, "bf16": torch.bfloat16, "i64": torch.int64}
NAMES = {"f32": "F32", "f64": "F64", "bf16": "BF16", "i64": "I64"}
OPS = {"sum": "sum", "avg": "avg", "max": "max", "min": "min"}
FOLDS = ("sum", "mean", "prod", "amax", "amin")


# ---- Programs: lists of [kind, keys], which both sides read ---------------------------------------
class Tensor:
    def __init__(self, dtype, shape, places):
        self.dtype, self.shape, self.places = dtype, list(shape), list(places)

    def partial(self):
        return [p for p in self.places if p.startswith("P")]

    def is_float(self):
        return self.dtype != "i64"


def shards(rng, mesh, ndim, strided=True):
    """Placements without partial values; FSDP over tensor parallelism among them."""
    if strided and len(mesh) == 2 and ndim > 0 and mesh[1] > 1 and rng.random() < 0.15:
        dim = rng.randrange(ndim)
        return [f"_S({dim}, {mesh[1]})", f"S({dim})"]
    return [rng.choice(["R"] + [f"S({d})" for d in range(ndim)]) for _ in mesh]


class Program:
    def __init__(self, seed):
        self.rng = random.Random(f"dtensor {seed}")
        self.mesh = self.rng.choice(MESHES)
        self.inputs, self.steps, self.tensors = [], [], {}
        for i in range(self.rng.randint(2, 3)):
            self.declare(f"t{i}")
        for _ in range(self.rng.randint(3, 8)):
            getattr(self, self.rng.choice(
                ["redistribute"] * 4 + ["elementwise"] * 3 + ["fold"] * 2 + [
                    "matmul", "softmax", "cross_entropy", "norm", "embedding", "bag", "transpose",
                    "slice", "view", "cat", "cast", "scale"]))()

    def add(self, kind, keys, made):
        keys["into"] = f"x{len(self.steps)}"
        self.steps.append([kind, keys])
        self.tensors[keys["into"]] = made
        return keys["into"]

    def input(self, name, dtype, shape, places, low=None, high=None):
        self.inputs.append({"name": name, "dtype": dtype, "shape": list(shape), "places": places,
                            "seed": self.rng.randrange(1 << 30), "low": low, "high": high})
        self.tensors[name] = Tensor(dtype, shape, places)

    def declare(self, name):
        rng = self.rng
        dtype = rng.choice(["f32"] * 4 + ["f64", "bf16", "i64"])
        shape = [rng.choice([1, 2, 3, 5, 6, 8, 9]) for _ in range(rng.choice([1, 2, 2, 2, 3]))]
        places = shards(rng, self.mesh, len(shape))
        if dtype == "i64" or rng.random() < 0.65 or any(p[0] == "_" for p in places):
            self.input(name, dtype, shape, places, -9, 9)
            return
        axis, op = rng.randrange(len(self.mesh)), rng.choice(list(OPS))
        places[axis] = f"P({op})"  # each rank's own part: rows of a larger tensor, then from_local
        stacked = [self.mesh[axis] * shape[0]] + shape[1:]
        base = [("S(0)" if d == axis else "R" if p == "S(0)" else p) for d, p in enumerate(places)]
        places = [(p if d == axis or p != "S(0)" else "R") for d, p in enumerate(places)]
        self.input(name + "_parts", dtype, stacked, base)
        self.steps.append(["place", {"tensor": name + "_parts", "shape": shape, "to": places,
                                     "into": name}])
        self.tensors[name] = Tensor(dtype, shape, places)

    def pick(self, fits=lambda t: True):
        names = [n for n, t in self.tensors.items() if not n.endswith("_parts") and fits(t)]
        return self.rng.choice(names) if names else None

    def move(self, name, places):
        of = self.tensors[name]
        if of.places == places:
            return name
        return self.add("redistribute", {"tensor": name, "to": places},
                        Tensor(of.dtype, of.shape, places))

    def whole(self, name):
        """Without partial values, which not every operation may take as they are."""
        of = self.tensors[name]
        return self.move(name, ["R" if p.startswith("P") else p for p in of.places])

    # ---- Steps ----
    def redistribute(self):
        name = self.pick()
        of = self.tensors[name]
        places = shards(self.rng, self.mesh, len(of.shape))
        if self.rng.random() < 0.2 and not any(p[0] == "_" for p in places):
            places = [was if was.startswith("P") else p for was, p in zip(of.places, places)]
        self.move(name, places)

    def elementwise(self):
        a = self.pick()
        x = self.tensors[a]
        b = self.pick(lambda t: t.dtype == x.dtype and len(t.shape) <= len(x.shape) and all(
            u == v or u == 1 for u, v in zip(t.shape[::-1], x.shape[::-1])))
        kind = self.rng.choice(["add", "sub", "mul"])
        y = self.tensors[b]
        # What DTensor makes of two partial values, or of one and a whole one, differs by operation.
        if x.partial() and (y.partial() or kind != "mul" or x.partial()[0] in ("P(max)", "P(min)")):
            a = self.whole(a) if not (self.rng.random() < 0.5 and self.shards_meet(x, y)) else a
        if y.partial() and not (a == b and not x.partial()):
            b = self.whole(b)
        x, y = self.tensors[a], self.tensors[b]
        self.add(kind, {"tensor": a, "other": b}, Tensor(x.dtype, x.shape, ["?"] * len(self.mesh)))
        self.settle(x.shape)

    def shards_meet(self, x, y):
        """Partial values of x where y is sharded, and only there: they are scattered."""
        return x.shape == y.shape and not y.partial() and all(
            q.startswith("S") if p.startswith("P") else True for p, q in zip(x.places, y.places))

    def settle(self, shape):
        """Where a result may lie as each side likes, it is sent to where both have it."""
        name = list(self.tensors)[-1]
        self.move(name, shards(self.rng, self.mesh, len(shape)))

    def fold(self):
        kind = self.rng.choice(FOLDS)
        name = self.pick(lambda t: (t.is_float() or kind != "mean") and t.dtype != "bf16")
        if name is None:
            return
        of = self.tensors[name]
        if any(p not in ("P(sum)",) for p in of.partial()) or (of.partial() and kind not in
                                                              ("sum", "mean")):
            name = self.whole(name)
        if not any(p[0] == "_" for p in self.tensors[name].places):
            of, dim = self.tensors[name], self.rng.randrange(len(of.shape))
            shape = of.shape[:dim] + of.shape[dim + 1:]
            if shape:
                self.add(kind, {"tensor": name, "dim": dim},
                         Tensor(of.dtype, shape, ["?"] * len(self.mesh)))
                self.settle(shape)

    def matmul(self):
        a = self.pick(lambda t: t.dtype in ("f32", "f64") and len(t.shape) == 2)
        b = a and self.pick(lambda t: t.dtype == self.tensors[a].dtype and len(t.shape) == 2 and
                            t.shape[0] == self.tensors[a].shape[1])
        if b is None:
            return
        ways = [self.rng.choice([("S(0)", "R"), ("R", "S(1)"), ("S(1)", "S(0)"), ("R", "R")])
                for _ in self.mesh]
        a, b = self.move(a, [w[0] for w in ways]), self.move(b, [w[1] for w in ways])
        shape = [self.tensors[a].shape[0], self.tensors[b].shape[1]]
        self.add("matmul", {"tensor": a, "other": b},
                 Tensor(self.tensors[a].dtype, shape, ["?"] * len(self.mesh)))
        self.settle(shape)

    def softmax(self):
        name = self.pick(lambda t: t.dtype in ("f32", "f64"))
        if name is not None and not any(p[0] == "_" for p in self.tensors[name].places):
            of = self.tensors[name]
            self.add(self.rng.choice(["softmax", "log_softmax"]),
                     {"tensor": name, "dim": self.rng.randrange(len(of.shape))},
                     Tensor(of.dtype, of.shape, ["?"] * len(self.mesh)))
            self.settle(of.shape)

    def cross_entropy(self):
        name = self.pick(lambda t: t.dtype == "f32" and len(t.shape) == 2)
        if name is None:
            return
        of = self.tensors[name]
        size, classes = self.mesh[0], of.shape[1]
        every = -(-classes // size) * (size - 1) < classes  # without classes a rank hangs the others
        places = [self.rng.choice(["R", "S(1)"]) if len(self.mesh) == 1 and every else "R"
                  for _ in self.mesh]
        name, targets = self.move(name, places), f"targets{len(self.steps)}"
        self.input(targets, "i64", [of.shape[0]], ["R"] * len(self.mesh), 0, of.shape[1] - 1)
        self.add("cross_entropy", {"tensor": name, "other": targets},
                 Tensor("f32", [of.shape[0]], ["R"] * len(self.mesh)))

    def norm(self):
        name = self.pick(lambda t: t.dtype in ("f32", "f64") and len(t.shape) > 1)
        if name is not None and not any(p[0] == "_" for p in self.tensors[name].places):
            of, dim = self.tensors[name], self.rng.randrange(len(self.tensors[name].shape))
            shape = of.shape[:dim] + of.shape[dim + 1:]
            self.add("norm", {"tensor": name, "dim": dim, "p": self.rng.choice([1, 2, 3])},
                     Tensor(of.dtype, shape, ["?"] * len(self.mesh)))
            self.settle(shape)

    def look_up(self, pooling):
        name = self.pick(lambda t: t.dtype in ("f32", "f64") and len(t.shape) == 2)
        if name is None or len(self.mesh) > 1:
            return
        name = self.move(name, [self.rng.choice(["S(0)", "S(1)"])])
        of, ids = self.tensors[name], f"ids{len(self.steps)}"
        rows = self.mesh[0] * self.rng.randint(1, 3)
        shape = [rows, self.rng.randint(1, 4)] if pooling or self.rng.random() < 0.5 else [rows]
        self.input(ids, "i64", shape, [self.rng.choice(["R", "S(0)"])], 0, of.shape[0] - 1)
        keys = {"tensor": ids, "other": name}
        if self.tensors[name].places == ["S(0)"]:
            keys["way"] = self.rng.choice(["masked", "exchanged"])
        if pooling:
            keys["pooling"] = pooling
        made = [rows, of.shape[1]] if pooling else shape + [of.shape[1]]
        self.add("embedding", keys, Tensor(of.dtype, made, self.tensors[ids].places))

    def embedding(self):
        self.look_up(None)

    def bag(self):
        self.look_up(self.rng.choice(["sum", "mean", "max"]))

    def transpose(self):
        name = self.pick(lambda t: len(t.shape) == 2 and not any(p[0] == "_" for p in t.places))
        if name is not None:
            of, swap = self.tensors[name], {"S(0)": "S(1)", "S(1)": "S(0)"}
            self.add("transpose", {"tensor": name},
                     Tensor(of.dtype, of.shape[::-1], [swap.get(p, p) for p in of.places]))

    def slice(self):
        name = self.pick(lambda t: not t.partial() and not any(p[0] == "_" for p in t.places))
        if name is not None:
            of, dim = self.tensors[name], self.rng.randrange(len(self.tensors[name].shape))
            start = self.rng.randrange(of.shape[dim])
            shape = list(of.shape)
            shape[dim] = self.rng.randint(1, of.shape[dim] - start)
            self.add("slice", {"tensor": name, "dim": dim, "start": start, "length": shape[dim]},
                     Tensor(of.dtype, shape, ["?"] * len(self.mesh)))
            self.settle(shape)

    def view(self):
        name = self.pick(lambda t: not any(p[0] == "_" for p in t.places))
        of, count = self.tensors[name], 1
        for size in of.shape:
            count *= size
        first = self.rng.choice([d for d in range(1, count + 1) if count % d == 0])
        shape = self.rng.choice([[count], [first, count // first]])
        self.add("view", {"tensor": name, "shape": shape},
                 Tensor(of.dtype, shape, ["?"] * len(self.mesh)))
        if not of.partial():
            self.settle(shape)
        else:
            self.tensors[f"x{len(self.steps) - 1}"].places = list(of.places)
            if any(p.startswith("S") for p in of.places):
                self.settle(shape)

    def cat(self):
        name = self.pick(lambda t: not t.partial() and not any(p[0] == "_" for p in t.places))
        if name is None:
            return
        of, dim = self.tensors[name], self.rng.randrange(len(self.tensors[name].shape))
        others = [self.pick(lambda t: t.dtype == of.dtype and len(t.shape) == len(of.shape) and
                            not t.partial() and not any(p[0] == "_" for p in t.places) and all(
                                u == v for d, (u, v) in enumerate(zip(t.shape, of.shape))
                                if d != dim)) for _ in range(self.rng.randint(1, 2))]
        shape = list(of.shape)
        shape[dim] += sum(self.tensors[n].shape[dim] for n in others)
        self.add("cat", {"tensors": [name] + others, "dim": dim},
                 Tensor(of.dtype, shape, ["?"] * len(self.mesh)))
        self.settle(shape)

    def cast(self):
        name = self.pick(lambda t: t.is_float())
        if name is not None:
            of, dtype = self.tensors[name], self.rng.choice(["f32", "f64", "bf16"])
            self.add("cast", {"tensor": name, "dtype": dtype}, Tensor(dtype, of.shape, of.places))

    def scale(self):
        name = self.pick(lambda t: t.is_float())
        if name is not None:
            of = self.tensors[name]
            self.add("scale", {"tensor": name, "factor": self.rng.choice([0.5, 3, 0.25])},
                     Tensor(of.dtype, of.shape, of.places))


# ---- DTensor --------------------------------------------------------------------------------------
def numbers(of):
    generator = torch.Generator().manual_seed(of["seed"])
    if of["dtype"] == "i64":
        return torch.randint(of["low"], of["high"] + 1, of["shape"], generator=generator)
    return torch.randn(of["shape"], generator=generator, dtype=torch.float64).to(TYPES[of["dtype"]])


def placement(text):
    dims = [int(n) for n in re.findall(r"\d+", text)]
    if text == "R":
        return Replicate()
    if text.startswith("P"):
        return Partial(OPS[text[2:-1]])
    return _StridedShard(dims[0], split_factor=dims[1]) if text.startswith("_") else Shard(dims[0])


def operate(kind, keys, operands, plain):
    """One step, of DTensors or (plain) of whole tensors."""
    a = operands[0]
    if kind in ("add", "sub", "mul"):
        return getattr(torch, kind)(a, operands[1])
    if kind in FOLDS:
        return getattr(torch, kind)(a, keys["dim"])
    if kind == "matmul":
        return a @ operands[1]
    if kind in ("softmax", "log_softmax"):
        return getattr(torch, kind)(a, keys["dim"])
    if kind == "cross_entropy":
        if not plain and any(p.is_shard(1) for p in a.placements):
            with loss_parallel():
                return F.cross_entropy(a, operands[1], reduction="none")
        return F.cross_entropy(a, operands[1], reduction="none")
    if kind == "norm":
        # In f64 and rounded once, as lockstep does; torch would round each power, and each rank's norm.
        made = torch.linalg.vector_norm(a, keys["p"], keys["dim"], dtype=torch.float64)
        if not plain:
            made = made.redistribute(placements=[Replicate() if p.is_partial() else p
                                                 for p in made.placements])
        return made.to(a.dtype)
    if kind == "embedding" and "pooling" in keys:
        return F.embedding_bag(a, operands[1], mode=keys["pooling"])
    if kind == "embedding":
        return F.embedding(a, operands[1])
    if kind == "transpose":
        return a.t()
    if kind == "slice":
        return a.narrow(keys["dim"], keys["start"], keys["length"])
    if kind == "view":
        return a.contiguous().view(keys["shape"])
    if kind == "cat":
        return torch.cat(operands, keys["dim"])
    if kind == "cast":
        return a.to(TYPES[keys["dtype"]])
    return a * keys["factor"]


def plain_place(value, mesh, base, keys):
    """What the parts that ranks have amount to."""
    axis = [d for d, p in enumerate(keys["to"]) if p.startswith("P")][0]
    parts = value.view([mesh[axis]] + keys["shape"]).double()
    op = keys["to"][axis][2:-1]
    return {"sum": parts.sum(0), "avg": parts.mean(0), "max": parts.amax(0),
            "min": parts.amin(0)}[op].to(value.dtype)


def names_of(keys):
    return keys["tensors"] if "tensors" in keys else [keys[k] for k in ("tensor", "other")
                                                      if k in keys]


def run_step(kind, keys, tensors, mesh):
    if kind == "place":
        stride = torch.empty(keys["shape"]).stride()
        return DTensor.from_local(tensors[keys["tensor"]].to_local(), mesh,
                                  [placement(p) for p in keys["to"]], run_check=False,
                                  shape=torch.Size(keys["shape"]), stride=stride)
    if kind == "redistribute":
        return tensors[keys["tensor"]].redistribute(mesh, [placement(p) for p in keys["to"]])
    if kind == "embedding" and "pooling" in keys:  # which DTensor has not: of the whole tensors
        whole = operate(kind, keys, [tensors[n].full_tensor() for n in names_of(keys)], True)
        return distribute_tensor(whole, mesh, [Replicate()], src_data_rank=None)
    return operate(kind, keys, [tensors[n] for n in names_of(keys)], False)


def differs(theirs, plain):
    """Grossly, or where elements only moved and so must be the same."""
    if theirs.shape != plain.shape:
        return True
    if not theirs.is_floating_point():
        return not torch.equal(theirs, plain)
    narrow = 0.05 if theirs.dtype == torch.bfloat16 else 1e-3
    return not torch.allclose(theirs.double(), plain.double(), rtol=narrow, atol=narrow,
                              equal_nan=True)


def together(group, action):
    """What the action gives on every rank of the group, or why one of them raised."""
    made, said = None, ""
    try:
        made = action()
    except (RuntimeError, AssertionError, NotImplementedError, ValueError, IndexError) as error:
        said = re.sub(r"\s+", " ", str(error) or type(error).__name__)[:90]
    every = [None] * dist.get_world_size(group)
    dist.all_gather_object(every, said, group=group)
    some = [text for text in every if text]
    return made, (some[0] if len(some) == len(every) else "on some ranks: " + some[0]) if some else None


def run_program(program, meshes, groups):
    """[(what DTensor gathered, what torch gives unsharded, the own shard or None) or a refusal]."""
    mesh, group = meshes[tuple(program.mesh)], groups[tuple(program.mesh)]
    if mesh.get_coordinate() is None:
        return None
    tensors, plain, told = {}, {}, []
    for of in program.inputs:
        plain[of["name"]] = numbers(of)
        tensors[of["name"]] = distribute_tensor(plain[of["name"]], mesh, [
            placement(p) for p in of["places"]], src_data_rank=None)
    for kind, keys in program.steps:
        if any(n not in tensors for n in names_of(keys)):
            told.append("needs what was refused")
            continue
        made, refused = together(group, lambda: run_step(kind, keys, tensors, mesh))
        if refused is None:
            whole, refused = together(group, made.full_tensor)
        if refused is not None:
            told.append(refused)
            continue
        if kind == "place":
            wanted = plain_place(plain[keys["tensor"]], program.mesh, None, keys)
        elif kind == "redistribute":
            wanted = plain[keys["tensor"]]
        else:
            wanted = operate(kind, keys, [plain[n] for n in names_of(keys)], True)
        shard = None
        if kind == "redistribute" and not any(p[0] in "P" for p in keys["to"]):
            shard = made.to_local().contiguous()
        told.append((whole.contiguous(), wanted.contiguous(), shard))
        plain[keys["into"]] = wanted
        if differs(whole, wanted):
            # DTensor's own: what follows goes on from what torch gives.
            places = [p if not p.is_partial() else Replicate() for p in made.placements]
            made = distribute_tensor(wanted, mesh, places, src_data_rank=None)
        tensors[keys["into"]] = made
    return told


def program_text(seed):
    program = Program(seed)
    return json.dumps([program.mesh, [[i["name"], i["dtype"], i["shape"], i["places"]]
                                      for i in program.inputs], program.steps])


def worker(rank, options, folder):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(options.port), RANK=str(rank),
                      WORLD_SIZE=str(RANKS))
    torch.set_num_threads(1)
    dist.init_process_group("gloo", rank=rank, world_size=RANKS)
    meshes, groups = {}, {}
    for shape in MESHES:
        count = 1
        for size in shape:
            count *= size
        meshes[tuple(shape)] = DeviceMesh("cpu", torch.arange(count).view(shape))
        groups[tuple(shape)] = dist.new_group(list(range(count)))
    for seed in range(options.first, options.first + options.count):
        told = run_program(Program(seed), meshes, groups)
        torch.save(told, os.path.join(folder, f"{seed}.{rank}.pt"))
        if options.verbose and rank == 0:
            print(seed, program_text(seed), flush=True)
    dist.barrier()
    dist.destroy_process_group()


# ---- lockstep -------------------------------------------------------------------------------------
def write_safetensors(path, tensors):
    header, blobs, offset = {}, [], 0
    for name, (dtype, value) in tensors.items():
        blob = value.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes() \
            if value.numel() else b""
        header[name] = {"dtype": NAMES[dtype], "shape": list(value.shape),
                        "data_offsets": [offset, offset + len(blob)]}
        blobs.append(blob)
        offset += len(blob)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + b"".join(blobs))


def read_safetensors(path):
    with open(path, "rb") as file:
        data = file.read()
    size, = struct.unpack("<Q", data[:8])
    header = json.loads(data[8:8 + size])
    return {name: (of["shape"], data[8 + size + of["data_offsets"][0]:8 + size + of["data_offsets"][1]])
            for name, of in header.items() if name != "__metadata__"}


def scenario_of(program, seed, told, folder):
    """The scenario's path; its steps that DTensor did, each with what DTensor gave."""
    values = {of["name"]: (of["dtype"], numbers(of)) for of in program.inputs}
    whole, steps, tensors = ", ".join("R" for _ in program.mesh), [], []
    for of in program.inputs:
        tensors.append({"name": of["name"], "shape": of["shape"], "dtype": of["dtype"],
                        "values": {"file": f"{seed}.safetensors", "tensor": of["name"]},
                        "placements": ", ".join(of["places"])})
    own = 0
    for number, ((kind, keys), theirs) in enumerate(zip(program.steps, told)):
        if isinstance(theirs, str):
            continue
        keys = dict(keys, name=f"s{number}")
        if "to" in keys:
            keys["to"] = ", ".join(keys["to"])
        steps.append({kind: keys})
        name = f"theirs{number}"
        mistaken = differs(theirs[0], theirs[1])
        own += mistaken
        values[name] = program.tensors[keys["into"]].dtype, theirs[1 if mistaken else 0]
        tensors.append({"name": name, "shape": list(theirs[0].shape), "dtype": values[name][0],
                        "values": {"file": f"{seed}.safetensors", "tensor": name},
                        "placements": whole})
        steps.append({"check_equal": {"name": f"as s{number}", "tensor": name,
                                      "other": keys["into"]}})
    write_safetensors(os.path.join(folder, f"{seed}.safetensors"), values)
    path = os.path.join(folder, f"{seed}.yaml")
    with open(path, "w", encoding="utf-8") as file:
        json.dump({"lockstep": 1, "name": f"p{seed}", "mesh": {"shape": program.mesh},
                   "program": {"tensors": tensors, "steps": steps}}, file, indent=1)
    return path if steps else None, own


def moved_only(program):
    """The tensors whose elements no arithmetic was done on, so that their bits must be the same."""
    moved = {of["name"] for of in program.inputs}
    for kind, keys in program.steps:
        partial = any(p.startswith("P") for p in keys.get("to", ())) or any(
            p.startswith("P") for n in names_of(keys) for p in program.tensors[n].places)
        moves = kind in ("redistribute", "place", "cat", "view", "slice", "transpose", "cast") or (
            kind == "embedding" and "pooling" not in keys)
        if moves and not partial and all(n in moved for n in names_of(keys)):
            moved.add(keys["into"])
    return moved


def shards_differ(program, seed, folder, kept):
    """Redistributions whose shards are not DTensor's: in shape, and bit by bit where only moved."""
    wrong, compared, moved = [], 0, moved_only(program)
    for rank in range(RANKS):
        told = torch.load(os.path.join(folder, f"{seed}.{rank}.pt"))
        path = os.path.join(kept, f"p{seed}", f"rank_{rank:05d}.safetensors")
        if told is None or not os.path.exists(path):
            continue
        ours = read_safetensors(path)
        for number, ((kind, keys), theirs) in enumerate(zip(program.steps, told)):
            if kind != "redistribute" or isinstance(theirs, str) or theirs[2] is None or \
                    differs(theirs[0], theirs[1]):
                continue
            stem = f"s{number}/{keys['into']}/-/shard"
            mine = [ours[n] for n in sorted(ours, key=lambda n: (len(n), n)) if n.startswith(stem)]
            want = theirs[2]
            if len(mine) == 1 and mine[0][0] != list(want.shape) and want.numel() > 0:
                wrong.append(f"s{number}, rank {rank}: {mine[0][0]}, DTensor {list(want.shape)}")
            if keys["into"] not in moved:
                continue
            dims = [int(re.search(r"\d+", p)[0]) for p in keys["to"] if p[0] == "_"]
            arrays = [torch.frombuffer(bytearray(data), dtype=want.dtype).view(shape)
                      for shape, data in mine if data]
            both = torch.cat(arrays, dims[0] if dims else 0) if arrays else want[:0]
            compared += 1
            if both.numel() != want.numel() or (want.numel() and not torch.equal(
                    both.view(want.shape).view(torch.uint8) if want.dim() else both, want.view(
                        torch.uint8) if want.dim() else want)):
                wrong.append(f"s{number}, rank {rank}: other elements than DTensor")
    return wrong, compared


def judge(options, folder):
    """Counts, and what is not explained."""
    counts, refused, failures = collections.Counter(), collections.Counter(), []
    paths, programs = {}, {}
    for seed in range(options.first, options.first + options.count):
        programs[seed] = Program(seed)
        told = torch.load(os.path.join(folder, f"{seed}.0.pt"))
        for step, theirs in zip(programs[seed].steps, told):
            if isinstance(theirs, str) and theirs != "needs what was refused":
                refused[f"{step[0]}: {theirs}"] += 1
        path, own = scenario_of(programs[seed], seed, told, folder)
        counts["results that are not torch's (DTensor's own)"] += own
        if path is not None:
            paths[path] = seed
    kept, names = os.path.join(folder, "kept"), list(paths)
    for first in range(0, len(names), 50):
        some = names[first:first + 50]
        done = subprocess.run([options.lockstep, "run", "--json", "-", "--keep", kept, *some],
                              capture_output=True, text=True, check=False)
        if not done.stdout.startswith("{"):
            sys.exit(f"{done.stdout}{done.stderr}")
        for case in json.loads(done.stdout)["cases"]:
            judge_case(case, programs[paths[case["file"]]], counts, refused, failures)
    for path, seed in paths.items():
        wrong, compared = shards_differ(programs[seed], seed, folder, kept)
        counts["shards compared bit by bit"] += compared
        failures += [f"{path}: {what}" for what in wrong]
    return counts, refused, failures


def judge_case(case, program, counts, refused, failures):
    counts["programs"] += 1
    for stage in case["stages"]:
        if stage["name"].startswith("as s"):
            counts["results " + stage["class"]] += 1
            counts["elements"] += stage["elements"]
    if case["verdict"] == "pass":
        return
    text = case.get("error") or "; ".join(f["text"] for f in case["findings"])
    wrong = [s for s in case["stages"] if s["class"] == "wrong"]
    if wrong or case["class"] not in ("error", "finding"):
        kinds = {s["name"]: program.steps[int(re.search(r"\d+", s["name"])[0])] for s in wrong
                 if re.search(r"\d", s["name"])}
        failures.append(f"{case['file']}: {text} {kinds}")
    elif re.search(r"redistribute it first|are reduced before|no logical shape", text):
        refused["lockstep: " + re.sub(r"^.*?: step s?\d*\w*: ", "", text)[:90]] += 1
    else:
        failures.append(f"{case['file']}: {text}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("lockstep", nargs="?", default="build/lockstep")
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--port", type=int, default=29611)
    parser.add_argument("--keep", default=None)
    parser.add_argument("--verbose", action="store_true")
    options = parser.parse_args()
    options.lockstep = os.path.abspath(options.lockstep)
    with tempfile.TemporaryDirectory() as folder:
        folder = options.keep or folder
        os.makedirs(folder, exist_ok=True)
        torch.multiprocessing.spawn(worker, (options, folder), nprocs=RANKS)
        counts, refused, failures = judge(options, folder)
    for what, count in sorted(counts.items()):
        print(f"{count:8}  {what}")
    for what, count in refused.most_common():
        print(f"{count:8}  refused: {what}")
    print("\n".join(failures[:40]))
    print(f"{len(failures)} not explained")
    sys.exit(1 if failures or counts["programs"] == 0 else 0)


if __name__ == "__main__":
    main()
