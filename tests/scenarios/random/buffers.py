"""Random programs on buffers: every collective, type, operation and group, and messages."""
import meshes

KINDS = ("all_reduce", "reduce", "broadcast", "all_gather", "reduce_scatter", "all_to_all", "gather",
         "scatter", "send_recv", "barrier")
REDUCES = ("all_reduce", "reduce", "reduce_scatter")
IN_PLACE = ("all_reduce", "reduce", "broadcast", "all_gather", "reduce_scatter")
UNEVEN = ("all_gather", "reduce_scatter", "gather", "scatter")


def group(rng, mesh, keys):
    """The members of the group: the world, a list of ranks, or the lines along an axis."""
    ranks = meshes.product(mesh)
    kind = rng.choice(["world", "ranks", "axis"])
    if kind == "ranks":
        keys["ranks"] = rng.sample(range(ranks), rng.randint(1, ranks))
        return len(keys["ranks"])
    if kind == "axis":
        axis = rng.randrange(len(mesh))
        keys["axis"] = str(axis)
        return mesh[axis]
    return ranks


def operation(rng, dtype, members, keys):
    ops = ["sum", "sum", "prod", "max", "min", "avg", "premul_sum"]
    keys["op"] = rng.choice(ops + (["band", "bor", "bxor"] if dtype in meshes.INTEGERS else []))
    if keys["op"] == "premul_sum":
        choices = [0, 1, 2] if dtype in meshes.INTEGERS else [0.5, 0.1, -1.25, 3]
        keys["factors"] = [rng.choice(choices) for _ in range(members)]


def step(rng, mesh, number):
    ranks = meshes.product(mesh)
    kind = rng.choice(KINDS)
    name = "%s %d" % (kind, number)
    keys = {"name": name}
    if kind == "send_recv":
        pairs = [[rng.randrange(ranks), rng.randrange(ranks)] for _ in range(rng.randint(1, 6))]
        keys["pairs"] = [pair for pair in pairs if pair[0] != pair[1]]
        if not keys["pairs"]:
            kind, keys = "barrier", {"name": name}
    members = ranks
    if kind != "send_recv":
        members = group(rng, mesh, keys)
    if kind == "barrier":
        return kind, keys
    keys["dtype"] = rng.choice(meshes.FLOATS + meshes.INTEGERS)
    count = rng.choice([0, 1, 3, 17, 64])
    uneven = rng.random() < 0.5
    if kind in UNEVEN and uneven:
        keys["counts"] = [rng.choice([0, 1, 2, 9]) for _ in range(members)]
    elif kind == "all_to_all" and uneven:
        keys["splits"] = [[rng.choice([0, 1, 4]) for _ in range(members)] for _ in range(members)]
    else:
        keys["count"] = count
    if kind in REDUCES:
        operation(rng, keys["dtype"], members, keys)
    if kind in IN_PLACE and rng.random() < 0.3:
        keys["in_place"] = True
    if kind in ("reduce", "broadcast", "gather", "scatter"):
        keys["root"] = rng.randrange(members)
    # What overflows or brings NaN is a finding: ranks watch their own calls for it.
    keys["values"] = rng.choice(["exact", {"constant": 1}]) if keys.get("op") == "prod" else \
        meshes.values(rng, keys["dtype"], finite=True)
    return kind, keys


def scenario(rng, folder):
    del folder
    mesh = rng.choice(meshes.MESHES)
    steps, waiting = [], []
    for number in range(rng.randint(1, 6)):
        kind, keys = step(rng, mesh, number)
        if kind != "barrier" and rng.random() < 0.3:
            keys["async"] = True
            waiting.append(keys["name"])
        elif kind in ("all_reduce", "broadcast", "all_gather") and rng.random() < 0.3:
            keys["replica"] = True
        steps.append({kind: keys})
        while waiting and rng.random() < 0.5:
            steps.append({"wait": {"step": waiting.pop(rng.randrange(len(waiting)))}})
    for name in waiting:
        steps.append({"wait": {"step": name}})
    result = {"lockstep": 1, "name": "buffers", "seed": rng.randrange(1000),
              "mesh": {"shape": mesh}, "program": {"steps": steps}}
    if rng.random() < 0.3:
        result["order"] = rng.choice(meshes.ORDERS)
    return result
