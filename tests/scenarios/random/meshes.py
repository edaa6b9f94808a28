"""What random scenarios have in common: meshes, values, files of numbers, and how a tensor is cut."""
import struct

FLOATS = ("f16", "bf16", "f32", "f64")
INTEGERS = ("i8", "u8", "i32", "u32", "i64", "u64")
MESHES = ([1], [2], [3], [4], [5], [6], [7], [2, 2], [2, 3], [3, 2], [1, 3], [2, 1], [2, 1, 2])
ORDERS = ("rank", "ring", "tree", "ring:proto=ll", "tree:proto=simple")
LARGEST = {"f16": 65504.0, "bf16": 3.3e38, "f32": 3.4e38, "f64": 1.7e308}


def product(sizes):
    result = 1
    for size in sizes:
        result *= size
    return result


def coordinates(mesh, rank):
    result = []
    for size in reversed(mesh):
        result.append(rank % size)
        rank //= size
    return result[::-1]


def fibers(mesh, axis):
    """The ranks of each line along a mesh dimension, in order."""
    lines = {}
    for rank in range(product(mesh)):
        at = coordinates(mesh, rank)
        lines.setdefault(tuple(at[:axis] + at[axis + 1:]), []).append(rank)
    return list(lines.values())


def chunk(size, count, index):
    """Where part `index` of `count` starts and how long it is, as torch.chunk cuts."""
    each = -(-size // count)
    start = min(size, each * index)
    return start, min(each, size - start)


def composition(rng, total, parts):
    """`parts` numbers of sum `total`, some of them 0."""
    cuts = sorted(rng.randint(0, total) for _ in range(parts - 1))
    return [b - a for a, b in zip([0] + cuts, cuts + [total])]


def write_npy(folder, name, dtype, shape, numbers):
    """A file of f16, f32 or f64; numbers may be NaN and infinite."""
    letter, kind = {"f16": ("<f2", "e"), "f32": ("<f4", "f"), "f64": ("<f8", "d")}[dtype]
    header = str({"descr": letter, "fortran_order": False, "shape": tuple(shape)}).encode()
    header += b" " * (-(len(header) + 11) % 64) + b"\n"
    data = struct.pack("<%d%s" % (len(numbers), kind), *numbers)
    with open("%s/%s" % (folder, name), "wb") as out:
        out.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + data)


def special_numbers(rng, dtype, count):
    """Mostly ordinary numbers, and NaN, infinities, zeros of both signs, huge and tiny ones."""
    odd = [float("nan"), float("inf"), float("-inf"), 0.0, -0.0, 6e-8, -6e-8]
    odd += [60000.0, -60000.0] if dtype == "f16" else [3e38, -3e38, 1e-40]
    return [rng.choice(odd) if rng.random() < 0.15 else rng.gauss(0, 3) for _ in range(count)]


def values(rng, dtype, count=None, finite=False):
    """A generator of numbers; count: that many may be listed one by one."""
    kinds = ["exact", "normal", "wide", "uniform", "arange", "constant", "listed"]
    if not finite:
        kinds.append("large")
    kind = rng.choice(kinds)
    whole = dtype in INTEGERS
    low = 0 if dtype[0] == "u" else -9
    if kind == "normal":
        return "normal"
    if kind == "wide":
        return {"normal": {"std": rng.choice([0.001, 30, 1000]), "mean": rng.choice([0, 1, -7])}}
    if kind == "uniform":
        return {"uniform": [low, 9]} if whole else {"uniform": [-0.5, rng.choice([0.25, 100])]}
    if kind == "arange":
        return {"arange": {"start": rng.randint(low, 5), "step": rng.choice([0, 1, 3])}}
    if kind == "constant":
        return {"constant": rng.choice([0, 1, 3, 7] if whole else [0, 1, 0.1, -1.7, 1e-5])}
    if kind == "large":
        top = {"f16": 60000, "i8": 127, "u8": 255}.get(dtype, 1 << 31)
        return rng.choice([{"constant": top}, {"uniform": [0 if low == 0 else -top, top]}])
    if kind == "listed" and count is not None and 0 < count <= 24:
        return {"values": [rng.randint(low, 9) if whole else round(rng.gauss(0, 4), 3)
                           for _ in range(count)]}
    return "exact"
