"""Random programs on tensors: chains of every step over every placement. What a step makes of shapes
and placements is followed here, so that only programs that can run come out."""
import meshes

OPS = ("sum", "sum", "avg", "prod", "max", "min")
BITWISE = ("band", "bor", "bxor")


class Tensor:
    """shape and places: None where the result has no placement; shards: the shape on each rank."""

    def __init__(self, dtype, shape, places, shards):
        self.dtype, self.shape, self.places, self.shards = dtype, shape, places, shards

    def partial(self):
        return [p[1] for p in self.places or () if p[0] == "P"]

    def shards_dim(self, dim):
        return any(p[0] == "S" and p[1] == dim for p in self.places)


def block(mesh, shape, places, rank):
    size = list(shape)
    for axis, place in enumerate(places):
        if place[0] == "S":
            at = meshes.coordinates(mesh, rank)[axis]
            size[place[1]] = place[2][at] if place[2] is not None else \
                meshes.chunk(size[place[1]], mesh[axis], at)[1]
    return size


def placed(mesh, dtype, shape, places):
    return Tensor(dtype, list(shape), places,
                  [block(mesh, shape, places, rank) for rank in range(meshes.product(mesh))])


def text(places):
    return ", ".join("R" if p[0] == "R" else "%s(%s)" % (p[0], p[1]) for p in places)


def random_places(rng, mesh, dtype, ndim, partial=0.3):
    ops = OPS + (BITWISE if dtype in meshes.INTEGERS else ())
    op = rng.choice(ops)
    places = []
    for _ in mesh:
        kind = rng.random()
        if kind < partial:
            linear = op in ("sum", "avg")
            places.append(("P", rng.choice(("sum", "avg")) if linear else op))
        elif kind < 0.75 and ndim > 0:
            places.append(("S", rng.randrange(ndim), None))
        else:
            places.append(("R",))
    return places


class Program:
    def __init__(self, rng, folder):
        self.rng, self.folder = rng, folder
        self.mesh = rng.choice(meshes.MESHES)
        self.ranks = meshes.product(self.mesh)
        self.tensors, self.declared, self.steps = {}, [], []

    # ---- Tensors ----
    def declare(self, name, dtype):
        rng = self.rng
        shape = [rng.choice([1, 2, 3, 5, 8]) if rng.random() < 0.93 else rng.choice([0, 11])
                 for _ in range(rng.choice([1, 2, 2, 2, 3]))]
        keys = {"name": name, "shape": shape, "dtype": dtype}
        count = meshes.product(shape)
        if dtype in ("f16", "f32", "f64") and count > 0 and rng.random() < 0.12:
            meshes.write_npy(self.folder, name + ".npy", dtype, shape,
                             meshes.special_numbers(rng, dtype, count))
            keys["values"] = {"file": name + ".npy"}
        else:
            keys["values"] = meshes.values(rng, dtype, count)
        if rng.random() < 0.12:
            self.declare_blocks(keys)
            return
        places = random_places(rng, self.mesh, dtype, len(shape))
        cut = [axis for axis, p in enumerate(places) if p[0] == "S"]
        if len(cut) == 1 and rng.random() < 0.4:
            axis = cut[0]
            sizes = meshes.composition(rng, shape[places[axis][1]], self.mesh[axis])
            keys["sizes"] = sizes
            places[axis] = ("S", places[axis][1], sizes)
        if rng.random() < 0.2:
            keys["source"] = rng.randrange(self.ranks)
        keys["placements"] = text(places)
        self.declared.append(keys)
        self.tensors[name] = placed(self.mesh, dtype, shape, places)

    def declare_blocks(self, keys):
        """Blocks along the first dimension, each somewhere: a rank has one, several or none."""
        rng, shape = self.rng, keys["shape"]
        parts = rng.randint(1, 4)
        start, blocks, held = 0, [], {}
        for size in meshes.composition(rng, shape[0], parts):
            rank = rng.randrange(self.ranks)
            held.setdefault(rank, []).append([size] + shape[1:])
            blocks.append({"rank": rank, "offset": [start] + [0] * (len(shape) - 1),
                           "size": [size] + shape[1:]})
            start += size
        keys["blocks"] = blocks
        self.declared.append(keys)
        single = all(len(of_rank) == 1 for of_rank in held.values())
        shards = [held[rank][0] if rank in held else None for rank in range(self.ranks)]
        self.tensors[keys["name"]] = Tensor(keys["dtype"], None, None, shards if single else None)
        self.steps.append({"full": {"tensor": keys["name"]}})

    def pick(self, fits):
        names = [name for name, tensor in self.tensors.items() if fits(tensor)]
        return self.rng.choice(names) if names else None

    def into(self, keys, made):
        if self.rng.random() < 0.75:
            keys["into"] = "x%d" % len(self.steps)
        self.tensors[keys.get("into", keys.get("tensor"))] = made
        return keys

    # ---- Steps: each gives its keys, or None where nothing fits ----
    def redistribute(self):
        name = self.pick(lambda t: t.places is not None)
        if name is None:
            return None
        tensor = self.tensors[name]
        places = random_places(self.rng, self.mesh, tensor.dtype, len(tensor.shape), 0.2)
        made = placed(self.mesh, tensor.dtype, tensor.shape, places)
        return self.into({"tensor": name, "to": text(places)}, made)

    def full(self):
        name = self.pick(lambda t: t.places is not None)
        return None if name is None else {"tensor": name}

    def elementwise(self, op):
        name = self.pick(lambda t: t.shards is not None)
        if name is None:
            return None
        a = self.tensors[name]
        other = self.pick(lambda t: t.dtype == a.dtype and t.shards == a.shards and
                          (t.shape is None or a.shape is None or
                           self.offsets(t) == self.offsets(a)))
        b = self.tensors[other]
        negates = op == "sub" and any(p not in ("sum", "avg") for p in b.partial())
        if negates or (op == "sub" and a.dtype[0] == "u"):
            return None
        keeps = a.places is not None and a.places == b.places and a.shape == b.shape and all(
            p == ("prod" if op == "mul" else "sum") or (p == "avg" and op != "mul")
            for p in a.partial())
        made = placed(self.mesh, a.dtype, a.shape, a.places) if keeps else \
            Tensor(a.dtype, None, None, a.shards)
        return self.into({"tensor": name, "other": other}, made)

    def offsets(self, tensor):
        result = []
        for rank in range(self.ranks):
            at, size = [0] * len(tensor.shape), list(tensor.shape)
            for axis, place in enumerate(tensor.places):
                if place[0] == "S":
                    here, d = meshes.coordinates(self.mesh, rank)[axis], place[1]
                    start, length = meshes.chunk(size[d], self.mesh[axis], here)
                    if place[2] is not None:
                        start, length = sum(place[2][:here]), place[2][here]
                    at[d], size[d] = at[d] + start, length
            result.append(at)
        return result

    def add(self):
        return self.elementwise("add")

    def sub(self):
        return self.elementwise("sub")

    def mul(self):
        return self.elementwise("mul")

    def matmul(self):
        name = self.pick(lambda t: t.shards is not None and t.dtype in ("f32", "f64") and
                         all(s is None or len(s) == 2 for s in t.shards))
        if name is None:
            return None
        a = self.tensors[name]
        other = self.pick(lambda t: t.dtype == a.dtype and t.shards is not None and all(
            (x is None) == (y is None) and (x is None or (len(y) == 2 and x[1] == y[0]))
            for x, y in zip(a.shards, t.shards)))
        if other is None:
            return None
        b = self.tensors[other]
        shards = [None if x is None else [x[0], y[1]] for x, y in zip(a.shards, b.shards)]
        places = self.product_places(a, b)
        if places is None:
            made = Tensor(a.dtype, None, None, shards)
        else:
            made = Tensor(a.dtype, [a.shape[0], b.shape[1]], places, shards)
        return self.into({"tensor": name, "other": other}, made)

    def product_places(self, a, b):
        if a.places is None or b.places is None or a.shape[1] != b.shape[0]:
            return None
        places = []
        for x, y in zip(a.places, b.places):
            linear_x = x[0] == "R" or (x[0] == "P" and x[1] in ("sum", "avg"))
            linear_y = y[0] == "R" or (y[0] == "P" and y[1] in ("sum", "avg"))
            if (x[:2] == ("S", 0) or linear_x) and y[0] == "R":
                places.append(x)
            elif x[0] == "R" and (y[:2] == ("S", 1) or linear_y):
                places.append(y)
            elif x[:2] == ("S", 1) and y[:2] == ("S", 0):
                places.append(("P", "sum"))
            else:
                return None
        inner = [x[1] == y[0] for x, y in zip(self.offsets(a), self.offsets(b))]
        return places if all(inner) else None

    def scale(self):
        name = self.pick(lambda t: all(p in ("sum", "avg", "max", "min") for p in t.partial()))
        if name is None:
            return None
        tensor = self.tensors[name]
        factors = [0, 1, 2, 3] if tensor.dtype in meshes.INTEGERS else [0.5, 0.1, 3, 0, -1.5, 1000]
        if any(p in ("max", "min") for p in tensor.partial()):
            factors = [f for f in factors if f >= 0]
        made = Tensor(tensor.dtype, tensor.shape, tensor.places, tensor.shards)
        return self.into({"tensor": name, "factor": self.rng.choice(factors)}, made)

    def transpose(self):
        name = self.pick(lambda t: t.shards is not None and
                         all(s is None or len(s) >= 2 for s in t.shards))
        if name is None:
            return None
        tensor = self.tensors[name]
        swap = {0: 1, 1: 0}

        def swapped(shape):
            return None if shape is None else [shape[1], shape[0]] + shape[2:]
        places = tensor.places and [(p[0], swap.get(p[1], p[1])) + p[2:] if p[0] == "S" else p
                                    for p in tensor.places]
        made = Tensor(tensor.dtype, swapped(tensor.shape), places,
                      [swapped(s) for s in tensor.shards])
        return self.into({"tensor": name}, made)

    def narrow(self):
        name = self.pick(lambda t: t.shards is not None and all(s is None or s for s in t.shards))
        if name is None:
            return None
        tensor = self.tensors[name]
        held = [s for s in tensor.shards if s is not None]
        dim = self.rng.randrange(len(held[0]))
        least = min(s[dim] for s in held)
        start = self.rng.randint(0, least)
        length = self.rng.randint(0, least - start)

        def cut(shape):
            return None if shape is None else shape[:dim] + [length] + shape[dim + 1:]
        stays = tensor.places is not None and not tensor.shards_dim(dim)
        made = Tensor(tensor.dtype, cut(tensor.shape) if stays else None,
                      tensor.places if stays else None, [cut(s) for s in tensor.shards])
        given = dim if self.rng.random() < 0.7 else dim - len(held[0])
        return self.into({"tensor": name, "dim": given, "start": start, "length": length}, made)

    def cat(self):
        name = self.pick(lambda t: t.shards is not None and all(s is None or s for s in t.shards))
        if name is None:
            return None
        first = self.tensors[name]
        dim = self.rng.randrange(len([s for s in first.shards if s is not None][0]))

        def joins(t):
            return t.dtype == first.dtype and t.shards is not None and all(
                (x is None) == (y is None) and
                (x is None or (len(x) == len(y) and
                               all(x[d] == y[d] for d in range(len(x)) if d != dim)))
                for x, y in zip(first.shards, t.shards))
        names = [name] + [self.pick(joins) for _ in range(self.rng.randint(0, 2))]
        parts = [self.tensors[n] for n in names]
        if all(p.places is not None for p in parts) and (
                first.shards_dim(dim) or any(p.places != first.places for p in parts)):
            return None  # they are brought together first
        shards = [None if s is None else s[:dim] + [sum(p.shards[r][dim] for p in parts)] +
                  s[dim + 1:] for r, s in enumerate(first.shards)]
        stays = first.places is not None and not first.shards_dim(dim) and all(
            p.places == first.places and
            all(p.shape[d] == first.shape[d] for d in range(len(first.shape)) if d != dim)
            for p in parts)
        shape = first.shape[:dim] + [sum(p.shape[dim] for p in parts)] + first.shape[dim + 1:] \
            if stays else None
        keys = {"tensors": names, "into": "x%d" % len(self.steps), "dim": dim}
        self.tensors[keys["into"]] = Tensor(first.dtype, shape, first.places if stays else None,
                                            shards)
        return keys

    def sum(self):
        name = self.pick(lambda t: t.shards is not None and all(s is None or s for s in t.shards))
        if name is None:
            return None
        tensor = self.tensors[name]
        dim = self.rng.randrange(len([s for s in tensor.shards if s is not None][0]))

        def gone(shape):
            return None if shape is None else shape[:dim] + shape[dim + 1:]
        places = None
        if tensor.places is not None and all(p in ("sum", "avg") for p in tensor.partial()):
            places = [("P", "sum") if p[:2] == ("S", dim) else
                      (p[0], p[1] - (p[1] > dim)) + p[2:] if p[0] == "S" else p
                      for p in tensor.places]
        made = Tensor(tensor.dtype, gone(tensor.shape) if places else None, places,
                      [gone(s) for s in tensor.shards])
        return self.into({"tensor": name, "dim": dim}, made)

    # ---- Collectives on the shards ----
    def collective(self, kind):
        rng = self.rng
        axis = rng.randrange(len(self.mesh))
        lines = meshes.fibers(self.mesh, axis)

        def alike(tensor, free):
            return all(len(tensor.shards[r]) == len(tensor.shards[line[0]]) and
                       all(tensor.shards[r][d] == tensor.shards[line[0]][d]
                           for d in range(len(tensor.shards[r])) if d != free)
                       for line in lines for r in line)
        dim, cat = rng.randrange(2), rng.randrange(2)
        free = {"all_gather": dim, "all_to_all": cat}.get(kind, -1)
        name = self.pick(lambda t: t.shards is not None and None not in t.shards and
                         all(len(s) > (1 if kind == "all_to_all" else dim) for s in t.shards) and
                         alike(t, free))
        if name is None:
            return None
        tensor = self.tensors[name]
        keys = {"tensor": name}
        if len(self.mesh) > 1 or rng.random() < 0.5:
            keys["axis"] = str(axis)
        shards, places, shape = [list(s) for s in tensor.shards], None, None
        if kind in ("all_reduce", "reduce_scatter"):
            bitwise = BITWISE if tensor.dtype in meshes.INTEGERS else ()
            keys["op"] = rng.choice(OPS + bitwise)
        if kind == "all_reduce" and tensor.places is not None:
            if rng.random() < 0.5 and tensor.places[axis][0] == "P":
                keys["op"] = tensor.places[axis][1]
            if tensor.places[axis] == ("P", keys["op"]):
                places = tensor.places[:axis] + [("R",)] + tensor.places[axis + 1:]
                shape = tensor.shape
        elif kind == "broadcast":
            keys["root"] = rng.randrange(self.mesh[axis])
            places, shape = tensor.places, tensor.shape
        for line in lines:
            for at, rank in enumerate(line):
                if kind == "all_gather":
                    shards[rank][dim] = sum(tensor.shards[r][dim] for r in line)
                elif kind == "reduce_scatter":
                    shards[rank][dim] = meshes.chunk(shards[rank][dim], len(line), at)[1]
                elif kind == "all_to_all":
                    pieces = []
                    for r in line:
                        piece = list(tensor.shards[r])
                        piece[dim] = meshes.chunk(piece[dim], len(line), at)[1]
                        pieces.append(piece)
                    shards[rank] = list(pieces[-1])
                    shards[rank][cat] = sum(piece[cat] for piece in pieces)
        if kind in ("all_gather", "reduce_scatter"):
            keys["dim"] = dim
        elif kind == "all_to_all":
            keys["split_dim"], keys["cat_dim"] = dim, cat
        return self.into(keys, Tensor(tensor.dtype, shape, places, shards))

    def change(self):
        """All ranks that hold the element write it: no defect."""
        name = self.pick(lambda t: t.places is not None and
                         all(p[0] == "R" for p in t.places) and meshes.product(t.shape) > 0)
        if name is None:
            return None
        count = meshes.product(self.tensors[name].shape)
        return {"tensor": name, "ranks": list(range(self.ranks)),
                "element": self.rng.randrange(count), "value": self.rng.choice([3, 7])}


STEPS = ("redistribute", "redistribute", "redistribute", "full", "full", "matmul", "add", "sub",
         "mul", "scale", "transpose", "narrow", "cat", "sum", "change", "all_reduce", "all_gather",
         "reduce_scatter", "all_to_all", "broadcast")
COLLECTIVES = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast")


def scenario(rng, folder):
    program = Program(rng, folder)
    dtypes = [rng.choice(meshes.FLOATS + ("f32", "f64") + meshes.INTEGERS)
              for _ in range(rng.randint(1, 2))]
    for number in range(rng.randint(1, 3)):
        program.declare("t%d" % number, rng.choice(dtypes))
    for _ in range(rng.randint(1, 8)):
        kind = rng.choice(STEPS)
        keys = program.collective(kind) if kind in COLLECTIVES else getattr(program, kind)()
        if keys is not None:
            program.steps.append({kind: keys})
    if not program.steps:
        program.steps.append({"barrier": {}})
    result = {"lockstep": 1, "name": "tensors", "seed": rng.randrange(1000),
              "mesh": {"shape": program.mesh},
              "program": {"tensors": program.declared, "steps": program.steps}}
    if rng.random() < 0.3:
        result["order"] = rng.choice(meshes.ORDERS)
    return result
