#!/usr/bin/env python3
"""Checkpoints between TorchRec and lockstep, both ways.

    torchrec_state.py to-dcp CHECKPOINT DCP      what `lockstep run --checkpoint` left, for torch.distributed.checkpoint
    torchrec_state.py from-dcp DCP CHECKPOINT    back, on one rank: `lockstep reshard` cuts it for any plan
    torchrec_state.py [LOCKSTEP]                 proves it: a TorchRec collection's state dict there and back

Needs torch and torchrec (pip); lockstep itself needs neither. Weights are called as TorchRec's state dict
calls them, embedding_bags.TABLE.weight; optimizer states optim.TABLE.momentum1 and momentum2. A state
dict goes into a scenario as it is, saved as safetensors: `weights: {file: F, tensor: embedding_bags.T.weight}`.
"""
import filecmp
import json
import os
import subprocess
import sys
import tempfile

try:
    import numpy as np
    import torch
    import torch.distributed.checkpoint as dcp
    import torchrec  # noqa: F401

    import tensor_files
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

TYPES = {"f32": np.float32, "f64": np.float64, "f16": np.float16}


def key_of(table, array):
    return f"embedding_bags.{table}.weight" if array == "weights" else f"optim.{table}.{array}"


def read_checkpoint(folder):
    """Whole tensors by their torch names, assembled from the ranks' shards."""
    with open(os.path.join(folder, "index.json"), encoding="utf-8") as file:
        index = json.load(file)
    blocks = {}
    for name in sorted(set(index["weight_map"].values())):
        for key, array in tensor_files.read(os.path.join(folder, name)).items():
            table, kind, place = key.rsplit("/", 2)
            blocks.setdefault((table, kind), []).append(
                (tuple(int(n) for n in place.split("_")), array))
    whole = {}
    for (table, kind), parts in blocks.items():
        if parts[0][1].ndim == 1 and any(column > 0 for (_, column), _ in parts):
            sys.exit(f"table {table}: {kind} has a number for each row and column block, and "
                     "torch's state dict one for each row: reshard to whole rows first")
        shape = [max(row + a.shape[0] for (row, _), a in parts)]
        if parts[0][1].ndim == 2:
            shape.append(max(column + a.shape[1] for (_, column), a in parts))
        out = np.zeros(shape, parts[0][1].dtype)
        for (row, column), a in parts:
            at = (slice(row, row + a.shape[0]), slice(column, column + a.shape[-1]))
            out[at[:a.ndim]] = a
        whole[key_of(table, kind)] = torch.from_numpy(out)
    return index, whole


def to_dcp(checkpoint, folder):
    index, whole = read_checkpoint(checkpoint)
    about = {t["name"]: [a["name"] for a in t["arrays"]] for t in index["tables"]}
    dcp.save({**whole, "lockstep": json.dumps({"step": index["step"], "tables": about})},
             checkpoint_id=folder, no_dist=True)


def from_dcp(folder, checkpoint):
    found = dcp.FileSystemReader(folder).read_metadata().state_dict_metadata
    state = {k: torch.empty(m.size, dtype=m.properties.dtype)
             for k, m in found.items() if hasattr(m, "size")}
    state["lockstep"] = "" if "lockstep" in found else None
    state = {k: v for k, v in state.items() if v is not None}
    dcp.load(state, checkpoint_id=folder, no_dist=True)
    step = json.loads(state["lockstep"])["step"] if "lockstep" in state else 0
    tables = [k.split(".")[1] for k in state if k.startswith("embedding_bags.")]
    os.makedirs(checkpoint)
    tensors, index, plan = {}, [], "lockstep_plan: 1\nranks: 1\nranks_per_host: 1\ntables:\n"
    for table in tables:
        arrays = []
        for kind in ("weights", "momentum1", "momentum2"):
            if key_of(table, kind) in state:
                array = state[key_of(table, kind)].numpy()
                tensors[f"{table}/{kind}/0_0"] = array
                name = next(n for n, t in TYPES.items() if t == array.dtype)
                arrays.append({"name": kind, "dtype": name, "per_row": array.ndim == 1})
        index.append({"name": table, "arrays": arrays})
        rows, columns = tensors[f"{table}/weights/0_0"].shape
        plan += (f'  - name: "{table}"\n    rows: {rows}\n    columns: {columns}\n    sharding: table_wise\n'
                 f"    kernel: fused\n    shards:\n      - {{rank: 0, offset: [0, 0], size: [{rows}, {columns}]}}\n")
    tensor_files.write(os.path.join(checkpoint, "rank_00000.safetensors"), tensors)
    with open(os.path.join(checkpoint, "plan.yaml"), "w", encoding="utf-8") as file:
        file.write(plan)
    with open(os.path.join(checkpoint, "index.json"), "w", encoding="utf-8") as file:
        json.dump({"format": "lockstep checkpoint", "version": 1, "step": step, "tables": index,
                   "weight_map": {k: "rank_00000.safetensors" for k in tensors}}, file)


SCENARIO = """lockstep: 1
name: state
seed: 4
mesh: {{shape: [4]}}
tables:
  - {{name: t, rows: 53, dim: 12, features: f, weights: {{file: {file}, tensor: embedding_bags.t.weight}}, sharding: {{type: row_wise}}}}
inputs: {{batch: 3, features: {{f: {{lengths: {{constant: 2}}, ids: {{values: {ids}}}}}}}}}
{rest}
"""


def prove(program):
    from torchrec.modules.embedding_configs import EmbeddingBagConfig
    from torchrec.modules.embedding_modules import EmbeddingBagCollection
    from torchrec.sparse.jagged_tensor import KeyedJaggedTensor

    def collection():
        return EmbeddingBagCollection(tables=[EmbeddingBagConfig(
            name="t", num_embeddings=53, embedding_dim=12, feature_names=["f"])])

    def lockstep(*words):
        subprocess.run([program, *words, "--quiet"], check=True)

    ids = np.random.default_rng(1).integers(0, 53, 24)
    with tempfile.TemporaryDirectory() as folder:
        def path(name):
            return os.path.join(folder, name)

        def scenario(name, file, rest):
            with open(path(name), "w", encoding="utf-8") as out:
                out.write(SCENARIO.format(file=file, ids=ids.tolist(), rest=rest))
            return path(name)

        first = collection().state_dict()
        tensor_files.write(path("first.safetensors"), {k: v.numpy() for k, v in first.items()})
        lockstep("run", scenario("train.yaml", "first.safetensors",
                                 "steps: [forward, backward, update]\ntrain: {steps: 3}\n"
                                 "optimizer: {type: rowwise_adagrad, lr: 0.1}"),
                 "--checkpoint", path("trained"))
        to_dcp(path("trained"), path("dcp"))
        model = collection()
        state = model.state_dict()
        dcp.load(state, checkpoint_id=path("dcp"), no_dist=True)
        model.load_state_dict(state)
        moved = not torch.equal(state["embedding_bags.t.weight"], first["embedding_bags.t.weight"])
        with torch.no_grad():
            wanted = model(KeyedJaggedTensor(keys=["f"], values=torch.from_numpy(ids),
                                             lengths=torch.full((12,), 2)))["f"].numpy()
        tensor_files.write(path("second.safetensors"),
                          {**{k: v.numpy() for k, v in state.items()}, "wanted": wanted})
        lockstep("run", scenario("look.yaml", "second.safetensors",
                                 "checks: {reference: {file: second.safetensors, tensor: wanted}}"))
        from_dcp(path("dcp"), path("back"))
        lockstep("reshard", path("back"), path("again"), "--plan", path("trained/plan.yaml"))
        files = [f"rank_{r:05}.safetensors" for r in range(4)]
        same = filecmp.cmpfiles(path("trained"), path("again"), files, shallow=False)[0] == files
        print(f"trained weights reached TorchRec: {moved}; its outputs held: True; "
              f"there and back, {len(files)} ranks' files the same: {same}")
        return 0 if moved and same else 1


if __name__ == "__main__":
    if sys.argv[1:2] == ["to-dcp"] and len(sys.argv) == 4:
        to_dcp(*sys.argv[2:])
    elif sys.argv[1:2] == ["from-dcp"] and len(sys.argv) == 4:
        from_dcp(*sys.argv[2:])
    elif len(sys.argv) <= 2:
        sys.exit(prove(os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else "build/lockstep")))
    else:
        sys.exit(__doc__)
