"""Random scenarios with embedding tables: each sharding type, pooling, type of input and optimizer."""
import meshes

TYPES = ("data_parallel", "table_wise", "column_wise", "row_wise", "table_row_wise",
         "table_column_wise", "grid", None)


def columns(rng, dim, ranks, keys):
    """Column blocks, and the rank of each."""
    if rng.random() < 0.5:
        width = rng.randint(1, dim)
        blocks = -(-dim // width)
        keys["columns"] = width
    else:
        blocks = rng.randint(1, min(dim, 4))
        sizes = [size + 1 for size in meshes.composition(rng, dim - blocks, blocks)]
        keys["sizes"] = sizes
    keys["ranks"] = [rng.choice(ranks) for _ in range(blocks)]


def sharding(rng, table, hosts, per_host):
    ranks = list(range(hosts * per_host))
    kind = rng.choice(TYPES)
    if kind is None:
        return {}
    keys = {"type": kind}
    if kind == "table_wise" and rng.random() < 0.8:
        keys["ranks"] = rng.choice(ranks)
    elif kind == "column_wise" and rng.random() < 0.8:
        columns(rng, table["dim"], ranks, keys)
    elif kind == "row_wise" and rng.random() < 0.6:
        members = sorted(rng.sample(ranks, rng.randint(1, len(ranks))))
        keys["sizes"] = meshes.composition(rng, table["rows"], len(members))
        keys["ranks"] = members
    elif kind == "table_row_wise":
        keys["host"] = rng.randrange(hosts)
    elif kind == "table_column_wise":
        host = rng.randrange(hosts)
        columns(rng, table["dim"], ranks[host * per_host:(host + 1) * per_host], keys)
    elif kind == "grid":
        keys["columns"] = rng.randint(1, table["dim"])
    return {"sharding": keys}


def make_bags(rng, batch, keys):
    """A batch size of the feature's own: how many bags each rank has, and which one a sample takes."""
    strides = [0 if b == 0 and rng.random() < 0.5 else rng.randint(1, 4) for b in batch]
    keys["stride_per_rank"] = strides
    if len(set(strides)) == 1 and rng.random() < 0.5:
        keys["stride_per_rank"] = strides[0]
    if sum(batch) > 0 and rng.random() < 0.5:
        keys["inverse_indices"] = {"values": [[rng.randrange(stride) for _ in range(b)]
                                              for b, stride in zip(batch, strides)]}
    return strides


def make_feature(rng, rows, batch, policy, weighted, variable):
    keys = {}
    if variable and rng.random() < 0.7:
        batch = make_bags(rng, batch, keys)
    lengths = rng.choice(["uniform", "none", "empty", "listed", "default"])
    if lengths == "uniform":
        keys["lengths"] = {"uniform": [0, rng.randint(1, 9)]}
    elif lengths == "none":
        keys["lengths"] = {"constant": rng.randint(0, 3)}
    elif lengths == "empty":
        keys["lengths"] = {"uniform": [0, 1]}
    elif lengths == "listed" and 0 < sum(batch) < 60:
        keys["lengths"] = {"values": [[rng.randint(0, 4) for _ in range(b)] for b in batch]}
    ids = rng.choice(["uniform", "zipf", "constant", "default"])
    if policy is not None and rng.random() < 0.7:
        keys["ids"] = {"uniform": [-3 if policy == "clamp" else 0, 2 * rows + 2]}
    elif ids == "uniform":
        keys["ids"] = {"uniform": [0, rows - 1]}
    elif ids == "zipf":
        keys["ids"] = {"zipf": rng.choice([0.5, 1.05, 2])}
    elif ids == "constant":
        keys["ids"] = {"constant": rng.randrange(rows)}
    if weighted and rng.random() < 0.8:
        keys["weights"] = rng.choice(["exact", "normal", {"uniform": [0, 1]}, {"constant": 0.5}])
    return keys


# One gradient for each row of a shard, or states of both kinds.
OPTIMIZERS = ("sgd", "adagrad", "rowwise_adagrad", "adam", "adamw", "partial_rowwise_adam", "lamb",
              "partial_rowwise_lamb", "lars_sgd")
DENSE = ("sgd", "adagrad", "adam", "adamw")
NO_OWNER_OF_A_BAG = ("row_wise", "table_row_wise", "grid", None)


def optimizer(rng, tables):
    kind = rng.choice(OPTIMIZERS)
    keys = {"type": kind, "lr": rng.choice([0.02, 0.5])}
    if kind in DENSE and rng.random() < 0.4:
        keys["form"] = "dense"
    if (kind == "lars_sgd" or (kind == "sgd" and "form" in keys)) and rng.random() < 0.5:
        keys["momentum"] = 0.9
    if rng.random() < 0.3:
        keys["weight_decay"] = 0.1
    if "form" not in keys and all(t["dtype"] in ("f16", "bf16") for t in tables) and rng.random() < 0.5:
        keys["stochastic_rounding"] = True
    return keys


def train(rng, result):
    """Makes a scenario train."""
    result["steps"] = ["forward", "backward"]
    for table in result["tables"]:
        if table["pooling"] == "max" and table.get("sharding", {}).get("type") in NO_OWNER_OF_A_BAG:
            table["pooling"] = "sum"  # no rank knows whose the largest is
        if rng.random() < 0.2:
            table["max_norm"] = rng.choice([0.5, 2])
    if rng.random() < 0.2:
        return
    result["steps"].append("update")
    result["optimizer"] = optimizer(rng, result["tables"])
    result["train"] = {"steps": rng.randint(1, 3)}
    for table in result["tables"]:
        if rng.random() < 0.3:
            table["optimizer"] = optimizer(rng, [table])
    if rng.random() < 0.2:
        result["train"]["clip_norm"] = rng.choice([0.1, 10])


def scenario(rng, folder):
    del folder
    mesh = rng.choice([m for m in meshes.MESHES if len(m) < 3])
    hosts, per_host = (mesh[0], mesh[1]) if len(mesh) == 2 else (1, mesh[0])
    ranks = hosts * per_host
    batch = [rng.choice([0, 1, 2, 5]) for _ in range(ranks)] if rng.random() < 0.6 else \
        [rng.randint(1, 6)] * ranks
    policy = rng.choice([None, None, "clamp", "wrap"])
    weighted = rng.random() < 0.4
    variable = rng.random() < 0.25
    tables, features = [], {}
    by_name = False
    for number in range(rng.randint(1, 3)):
        table = {"name": "t%d" % number, "rows": rng.choice([1, 2, 7, 20, 40]),
                 "dim": rng.choice([1, 3, 4, 8]), "pooling": rng.choice(["sum", "mean", "max", "none"]),
                 "dtype": rng.choice(meshes.FLOATS)}
        if table["pooling"] == "mean" and rng.random() < 0.5:
            table["mean_divisor"] = rng.choice(["weights", "ids", "torchrec"])
            by_name = by_name or table["mean_divisor"] == "torchrec"
        if rng.random() < 0.3:
            table["padding_id"] = rng.randrange(table["rows"])
        if rng.random() < 0.7:
            table["weights"] = rng.choice(["exact", "normal", {"normal": {"std": 0.1}}, "arange"])
        table["features"] = ["f%d_%d" % (number, k) for k in range(rng.randint(1, 2))]
        table.update(sharding(rng, table, hosts, per_host))
        for name in table["features"]:
            features[name] = make_feature(rng, table["rows"], batch, policy, weighted, variable)
        tables.append(table)
    result = {"lockstep": 1, "name": "tables", "seed": rng.randrange(1000),
              "mesh": {"shape": mesh}, "tables": tables,
              "inputs": {"batch": batch, "features": features}, "steps": ["forward"]}
    if len(mesh) == 2:
        result["mesh"]["names"] = ["host", "gpu"]
    if weighted:
        result["inputs"]["weighted"] = True
    if policy is not None:
        result["inputs"]["ids_out_of_range"] = policy
    if rng.random() < 0.2:
        result["torchrec_quirks"] = {rng.choice(["grid_mean_not_divided",
                                                 "row_wise_mean_divides_others"]): True}
        by_name = True
    if rng.random() < 0.5:
        train(rng, result)
    elif not by_name and rng.random() < 0.5:
        result["checks"] = {"oracle": "within_bound"}
    return result
