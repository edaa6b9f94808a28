#!/usr/bin/env python3
"""Models as users of TorchRec write them, and mistakes in them: models.py LOCKSTEP [--mpi] [--keep DIR] [--show]

Ten models (DLRM, two towers, a sequence model, weighted bags, every sharding type, shared features, quantised
serving, a batch size per feature, batches in flight, several steps with several optimizers): none may fail, nor, with
--mpi, differ from real processes. Then mistakes in them: an impossible request is refused at its line, a wrong result is
found in its stage or as a finding, and the report names the cause.
"""
import copy
import json
import os
import re
import subprocess
import sys
import tempfile

HOSTS = {"shape": [2, 2], "names": ["host", "gpu"]}
TRAIN = ["forward", "backward", "update"]


def table(name, rows, dim, **more):
    return {"name": name, "rows": rows, "dim": dim, **more}


def dlrm():
    """Categorical features of very different sizes, placed by the planner."""
    sizes = {"site": 300, "device": 7, "campaign": 120, "banner": 40, "hour": 24, "place": 90}
    return {"mesh": HOSTS, "tables": [table(name, rows, 8, features=[name]) for name, rows in sizes.items()],
            "inputs": {"batch": 16, "features": {
                name: {"lengths": {"constant": 1}, "ids": {"zipf": 1.05}} for name in sizes}},
            "steps": TRAIN, "optimizer": {"type": "rowwise_adagrad", "lr": 0.02}}


def two_tower():
    return {"mesh": {"shape": [4]}, "tables": [
        table("user", 101, 16, features=["user"], sharding={"type": "row_wise"}),
        table("history", 203, 16, pooling="mean", features=["history"], sharding={"type": "row_wise"}),
        table("item", 203, 16, features=["item"], sharding={"type": "column_wise", "ranks": [0, 1, 2, 3], "columns": 4}),
        table("category", 9, 16, features=["category"], sharding={"type": "data_parallel"})],
            "inputs": {"batch": 6, "features": {
                "user": {"lengths": {"constant": 1}}, "item": {"lengths": {"constant": 1}},
                "category": {"lengths": {"constant": 1}},
                "history": {"lengths": {"uniform": [0, 6]}, "ids": {"zipf": 1.05}}}},
            "steps": TRAIN, "optimizer": {"type": "adagrad", "lr": 0.1}}


def sequence():
    return {"mesh": {"shape": [3]}, "tables": [
        table("watched", 50, 12, pooling="none", padding_id=0, features=["watched"], sharding={"type": "row_wise"}),
        table("query", 31, 12, pooling="none", features=["query"], sharding={"type": "table_wise", "ranks": 1})],
            "inputs": {"batch": [4, 3, 5], "features": {"watched": {"lengths": {"uniform": [0, 7]}},
                                                        "query": {"lengths": {"uniform": [1, 3]}}}},
            "steps": TRAIN, "optimizer": {"type": "adam", "lr": 0.01}}


def weighted():
    """Scores beside the ids, in one of two tables."""
    return {"mesh": {"shape": [2]}, "tables": [
        table("page", 10, 4, weighted=True, features=["page"], sharding={"type": "row_wise"}),
        table("ad", 20, 8, pooling="mean", weighted=True, features=["ad"], sharding={"type": "table_wise", "ranks": 1}),
        table("plain", 12, 4, features=["plain"], sharding={"type": "table_wise", "ranks": 0})],
            "inputs": {"batch": 2, "features": {
                "page": {"lengths": {"values": [[1, 2], [0, 3]]}, "ids": {"values": [[5, 7, 1], [2, 2, 9]]},
                         "weights": {"values": [[0.5, 1, 2], [1, 0.25, 3]]}},
                "ad": {"lengths": {"uniform": [0, 4]}}}},
            "steps": TRAIN, "optimizer": {"type": "sgd", "lr": 0.5}}


def every_type():
    types = {"table_wise": {"ranks": 3}, "column_wise": {"ranks": [0, 2], "sizes": [3, 5]},
             "row_wise": {"sizes": [9, 0, 8, 4], "ranks": [0, 1, 2, 3]}, "table_row_wise": {"host": 1},
             "table_column_wise": {"ranks": [2, 3], "columns": 4}, "grid": {"columns": 4}, "data_parallel": {}}
    return {"mesh": HOSTS, "tables": [
        table(kind, 21, 8, pooling=("sum", "mean")[k % 2], features=[f"f{k}"], sharding={"type": kind, **more})
        for k, (kind, more) in enumerate(types.items())],
            "inputs": {"batch": 5, "features": {f"f{k}": {"lengths": {"uniform": [0, 4]}} for k in range(len(types))}},
            "steps": TRAIN, "optimizer": {"type": "sgd", "lr": 0.1}}


def shared():
    return {"mesh": {"shape": [4]}, "tables": [
        table("deep", 60, 12, features=["user", "friend"], sharding={"type": "row_wise"}),
        table("wide", 50, 4, pooling="mean", features=["user"], sharding={"type": "table_wise", "ranks": 2}),
        table("cross", 40, 8, features=["user", "friend"], sharding={"type": "column_wise", "columns": 4, "ranks": [1, 3]})],
            "inputs": {"batch": 4, "features": {"user": {"lengths": {"uniform": [0, 5]}},
                                                "friend": {"lengths": {"uniform": [0, 2]}}}},
            "steps": TRAIN, "optimizer": {"type": "adagrad", "lr": 0.05}}


def serving():
    return {"mesh": {"shape": [2]}, "tables": [
        table("user", 64, 16, quantise={"to": "int8"}, output_dtype="f16", sharding={"type": "row_wise"}),
        table("item", 80, 16, pooling="mean", quantise={"to": "int4"},
              sharding={"type": "column_wise", "ranks": [0, 1], "columns": 8}),
        table("place", 30, 8, quantise={"to": "f16"}, sharding={"type": "table_wise", "ranks": 0})],
            "inputs": {"batch": 4, "features": {"item": {"lengths": {"uniform": [0, 5]}}}}, "steps": ["forward"]}


def bags():
    return {"mesh": {"shape": [2]}, "tables": [
        table("user", 40, 8, features=["user"], sharding={"type": "row_wise"}),
        table("item", 25, 12, features=["item"], sharding={"type": "table_wise", "ranks": 1})],
            "inputs": {"batch": 4, "features": {
                "user": {"stride_per_rank": 2, "lengths": {"constant": 3},
                         "inverse_indices": {"values": [[0, 0, 1, 1], [1, 0, 1, 0]]}},
                "item": {"lengths": {"uniform": [0, 3]}}}},
            "steps": TRAIN, "optimizer": {"type": "adagrad", "lr": 0.05}, "train": {"steps": 2}}


def in_flight():
    return {"mesh": {"shape": [4]}, "tables": [
        table("a", 33, 8, features=["a"], sharding={"type": "row_wise"}),
        table("b", 17, 8, features=["b"], sharding={"type": "table_wise", "ranks": 3})],
            "inputs": {"batch": [3, 0, 5, 1], "features": {"a": {"lengths": {"uniform": [0, 4]}},
                                                           "b": {"lengths": {"uniform": [0, 2]}}}},
            "pipeline": True, "steps": TRAIN, "optimizer": {"type": "sgd", "lr": 0.1}, "train": {"steps": 4}}


def steps():
    return {"mesh": HOSTS, "tables": [
        table("user", 30, 8, sharding={"type": "row_wise"}),
        table("friend", 30, 8, features=["user"], sharding={"type": "row_wise"}),
        table("item", 20, 8, sharding={"type": "table_row_wise", "host": 0}, max_norm=0.2,
              optimizer={"type": "rowwise_adagrad", "lr": 0.1}),
        table("small", 6, 8, sharding={"type": "data_parallel"}, optimizer={"type": "adamw", "form": "dense", "lr": 0.01})],
            "inputs": {"batch": 6, "features": {name: {"lengths": {"uniform": [1, 4]}, "ids": {"uniform": [0, 5]}}
                                                for name in ("user", "item", "small")}},
            "steps": TRAIN, "optimizer": {"type": "adam", "lr": 0.01}, "train": {"steps": 3, "clip_norm": 5}}


MODELS = (dlrm, two_tower, sequence, weighted, every_type, shared, serving, bags, in_flight, steps)


# ---- Mistakes -------------------------------------------------------------------------------------
def put(*path, to):
    """A change: the value at the path becomes `to`; None removes it."""
    def change(model):
        for key in path[:-1]:
            model = model[key]
        if to is None:
            del model[path[-1]]
        else:
            model[path[-1]] = to
    return change


def fault(kind, rank, **more):
    return put("faults", to=[{"type": kind, "rank": rank, **more}])


def renamed(model):
    model["inputs"]["features"]["campain"] = model["inputs"]["features"].pop("campaign")


FEATURES = ("inputs", "features")
# Model, mistake, expected report: for an invalid file on stderr; else id or stage, and text.
MISTAKES = {
    "a feature's name misspelt": (dlrm, renamed, r"no feature campain.*did you mean .campaign"),
    "raw hashes for ids": (dlrm, put(*FEATURES, "device", "ids", to={"uniform": [0, 4000]}),
                           r"input.id_out_of_range: .*feature device.* is not among the table's 7 rows"),
    "a batch for two ranks": (dlrm, put("inputs", "batch", to=[8, 8]), r"batch: .*4"),
    "gradients divided in the loss and here": (
        two_tower, fault("gradient_divided_twice", 2, index=0), r"lookup_backward: .*divided by the number of ranks once more"),
    "an exchange left out on one rank": (two_tower, fault("skip_call", 1, call=1), r"(collective|rank)\.\w+: .*rank 1"),
    "an output that changed on its way": (two_tower, fault("bit_flip", 0, call=7, index=30), r"output_dist: .*table item.* owned by rank 0"),
    "a column cut that the table has not": (two_tower, put("tables", 2, "sharding", "columns", to=20), r"columns: .*16"),
    "a padding id beyond the rows": (sequence, put("tables", 0, "padding_id", to=50), r"padding_id: .*50"),
    "a rank that is not there": (sequence, put("tables", 1, "sharding", "ranks", to=3), r"rank 3 is not in the world of 3 ranks"),
    "ids for other lengths": (weighted, put(*FEATURES, "page", "ids", "values", to=[[5, 7], [2, 2, 9]]),
                              r"feature page|ids: .*(6|5|3|2)"),
    "scores for other ids": (weighted, put(*FEATURES, "page", "weights", "values", to=[[0.5], [1, 0.25, 3]]),
                             r"weights: .*"),
    "a weighted maximum": (weighted, put("tables", 1, "pooling", to="max"), r"pooled by neither sum nor mean"),
    "rows that do not add up": (every_type, put("tables", 2, "sharding", "sizes", to=[9, 0, 8, 3]), r"sizes: .*2[01]"),
    "columns that do not add up": (every_type, put("tables", 1, "sharding", "sizes", to=[3, 4]), r"sizes: .*[78]"),
    "a host that is not there": (every_type, put("tables", 3, "sharding", "host", to=2), r"host: .*2"),
    "a type of another name": (every_type, put("tables", 3, "sharding", "type", to="table_rowwise"),
                               r"did you mean .table_row_wise"),
    "ids of the larger table": (shared, put(*FEATURES, "user", "ids", to={"uniform": [0, 59]}),
                                r"input.id_out_of_range: table (wide|cross), feature user"),
    "a table twice": (shared, put("tables", 1, "name", to="deep"), r"deep.*(twice|already)"),
    "training what is quantised": (serving, put("steps", to=TRAIN), r"quantise|output_dtype: "),
    "a type of rows that is none": (serving, put("tables", 1, "quantise", "to", to="int6"), r"int6.*did you mean .int"),
    "a bag that is not there": (bags, put(*FEATURES, "user", "inverse_indices", "values", to=[[0, 0, 1, 2], [1, 0, 1, 0]]),
                                r"2 for sample 3 of rank 0"),
    "indices for other samples": (bags, put(*FEATURES, "user", "inverse_indices", "values", to=[[0, 0, 1], [1, 0, 1, 0]]),
                                  r"inverse_indices: "),
    "samples without a bag": (bags, put(*FEATURES, "user", "stride_per_rank", to=[2, 0]), r"no bag for the 4 samples of rank 1"),
    "a bag that is lost": (bags, fault("bit_flip", 0, call=1, index=1), r"collective.split_mismatch: .*rank 0"),
    "an id that changed on its way": (bags, fault("bit_flip", 0, call=3, index=1), r"step0.input_dist: .*bag 0 of rank 0"),
    "a rank that dies with a batch in flight": (in_flight, fault("die", 2, call=6), r"rank\.died: .*rank 2"),
    "a rank that runs out of batches": (in_flight, fault("skip_call", 3, call=9), r"(collective|rank)\.\w+: .*rank 3"),
    "an update before its exchange": (steps, fault("early_update", 1, index=1), r"step1\.output_dist_backward: .*rank 1, element 0"),
    "the states of another shard": (steps, fault("state_of_another_shard", 0, index=1), r"step1\.update: .*"),
    "a duplicate counted once": (steps, fault("duplicate_counted_once", 1, index=0), r"step0\.lookup_backward: .*row \d"),
    "rows as they were before max_norm": (steps, fault("stale_rows", 0, index=0), r"step0\.lookup: .*table item"),
    "a learning rate of torch's name": (steps, put("optimizer", to={"type": "adam", "learning_rate": 0.01}),
                                        r"learning_rate"),
    "an optimizer that is none": (steps, put("optimizer", "type", to="adamm"), r"did you mean .adam"),
}


def write(folder, name, model):
    path = os.path.join(folder, re.sub(r"\W+", "_", name) + ".yaml")
    with open(path, "w", encoding="utf-8") as file:
        json.dump({"lockstep": 1, "name": name, **model}, file, indent=1)
    return path


def run(program, paths, *command):
    done = subprocess.run([program, *(command or ("run",)), "--json", "-", *paths], capture_output=True, text=True,
                          check=False)
    cases = json.loads(done.stdout)["cases"] if done.stdout.startswith("{") else []
    return {case["file"]: case for case in cases}, done


def told(case, done):
    """The errors, a line each: of a file from stderr, of a run by finding or stage."""
    texts = [f"{f['id']}: {f['text']}" for f in case.get("findings", ())]
    texts += [f"{s['name']}: {s.get('divergence') or ''}" for s in case.get("stages", ()) if s["class"] == "wrong"]
    return texts or [case.get("error") or ""] if case else [done.stderr]


def check_mistakes(program, folder, show):
    failures = []
    for what, (make, change, wanted) in MISTAKES.items():
        model = copy.deepcopy(make())
        change(model)
        path = write(folder, what, model)
        cases, done = run(program, [path])
        said = told(cases.get(path, {}), done)
        named = any(re.search(wanted, text, re.DOTALL) for text in said)
        if done.returncode not in (1, 2) or not named:
            failures.append(f"{what}: code {done.returncode}, not {wanted}: " + " | ".join(said)[:600])
        if show:
            print(f"{what}: " + " | ".join(said)[:300])
    return failures


def main():
    program, failures = os.path.abspath(sys.argv[1]), []
    with tempfile.TemporaryDirectory() as temporary:
        folder = sys.argv[sys.argv.index("--keep") + 1] if "--keep" in sys.argv else temporary
        right = [write(folder, make.__name__.replace("_", " "), make()) for make in MODELS]
        for command in [("run",)] + ([("compare", "--real", "mpi")] if "--mpi" in sys.argv else []):
            cases, done = run(program, right, *command)
            for path in right:
                case = cases.get(path, {})
                if case.get("verdict") != "pass":
                    failures.append(f"{path}: {command}: {told(case, done)}")
        failures += check_mistakes(program, folder, "--show" in sys.argv)
    print("\n".join(failures) or f"{len(MODELS)} models right, {len(MISTAKES)} mistakes named")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
