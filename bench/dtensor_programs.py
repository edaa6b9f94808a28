"""Random programs for dtensor.py: lists of [kind, keys], which both sides read."""
import random

MESHES = [[1], [2], [3], [4], [2, 2], [1, 3], [2, 1]]
OPS = {"sum": "sum", "avg": "avg", "max": "max", "min": "min"}
FOLDS = ("sum", "mean", "prod", "amax", "amin")


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
        names = [n for n, t in self.tensors.items() if not n.endswith("_parts") and t.shape and fits(t)]
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
        # DTensor's result for two partial values, or for a partial and a whole one, depends on the operation.
        if x.partial() and (y.partial() or kind != "mul" or x.partial()[0] in ("P(max)", "P(min)")):
            a = self.whole(a) if not (self.rng.random() < 0.5 and self.shards_meet(x, y)) else a
        if y.partial() and not (a == b and not x.partial()):
            b = self.whole(b)
        x, y = self.tensors[a], self.tensors[b]
        self.add(kind, {"tensor": a, "other": b}, Tensor(x.dtype, x.shape, ["?"] * len(self.mesh)))
        self.settle(x.shape)

    def shards_meet(self, x, y):
        """Partial values of x become shards (reduce_scatter) if y is sharded."""
        return x.shape == y.shape and not y.partial() and all(
            q.startswith("S") if p.startswith("P") else True for p, q in zip(x.places, y.places))

    def settle(self, shape):
        """If each side could choose the result's placement, it is redistributed to a common one."""
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
        keys = {"tensor": name, "other": targets, "ignored": self.rng.choice([-100, 0, classes - 1]),
                "reduction": self.rng.choice(["none", "sum", "mean"]), "smoothing": 0}
        if "S(1)" not in places:  # DTensor's loss parallel fails in torch's own masked_fill_
            keys["smoothing"] = self.rng.choice([0, 0.25, 1])
        if self.rng.random() < 0.5:
            keys["weights"] = f"weights{len(self.steps)}"
            self.input(keys["weights"], "f32", [classes], ["R"] * len(self.mesh))
        self.add("cross_entropy", keys, Tensor("f32", [of.shape[0]] if keys["reduction"] == "none" else [],
                                               ["R"] * len(self.mesh)))

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
