#!/usr/bin/env python3
"""TorchRec's batch size per feature beside lockstep's: torchrec_vbe.py [LOCKSTEP]

Needs torch, torchrec and fbgemm-gpu-cpu (pip); lockstep itself needs none of them. A collection whose
KeyedJaggedTensor has stride_per_key_per_rank and inverse_indices is looked up by TorchRec, unsharded, for the
batches of two ranks, and goes backward by torch. lockstep shards the same over two ranks in every way and must
give the outputs, bit by bit or within the bound of the sum, and the weights after a step of sgd. TorchRec's own
sharded collection is not run: its row_wise types need collectives that gloo lacks. Ends with 1 where one fails.
"""
import json
import os
import subprocess
import sys
import tempfile

try:
    import numpy as np
    import torch
    from torchrec.modules.embedding_configs import EmbeddingBagConfig, PoolingType
    from torchrec.modules.embedding_modules import EmbeddingBagCollection
    from torchrec.sparse.jagged_tensor import KeyedJaggedTensor

    import tensor_files
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

RANKS, BATCH, LR = 2, 6, 0.25
TABLES = {"a": (23, 8, "sum", ["f"]), "b": (17, 8, "mean", ["g"]), "c": (31, 16, "sum", ["f", "h"])}
STRIDES = {"f": [3, 2], "g": [6, 1], "h": [2, 5]}
OURS = ["table_wise, ranks: 1", "column_wise, columns: 4", "row_wise", "data_parallel",
        "table_row_wise, host: 0", "grid, columns: 4", "table_column_wise, columns: 4"]


def collection(weighted, weights):
    model = EmbeddingBagCollection(device=torch.device("cpu"), is_weighted=weighted, tables=[
        EmbeddingBagConfig(name=n, num_embeddings=r, embedding_dim=d, feature_names=f,
                           pooling=PoolingType.MEAN if p == "mean" else PoolingType.SUM)
        for n, (r, d, p, f) in TABLES.items() if not (weighted and p == "mean")])
    for name, bag in model.embedding_bags.items():
        bag.weight.data.copy_(torch.from_numpy(weights[name]))
    return model


def features_of(rank, inputs, weighted):
    def join(what, dtype):
        return torch.cat([torch.tensor(inputs[what][f][rank], dtype=dtype) for f in STRIDES])
    return KeyedJaggedTensor(
        keys=list(STRIDES), values=join("ids", torch.int64), lengths=join("lengths", torch.int64),
        weights=join("weights", torch.float32) if weighted else None,
        stride_per_key_per_rank=[[STRIDES[f][rank]] for f in STRIDES],
        inverse_indices=(list(STRIDES),
                         torch.tensor([inputs["inverse"][f][rank] for f in STRIDES])))


def outputs_of(weighted):
    """(table, feature, key of the KeyedTensor) in lockstep's order."""
    counts = [f for _, (_, _, p, fs) in TABLES.items() if not (weighted and p == "mean") for f in fs]
    return [(t, f, f"{f}@{t}" if counts.count(f) > 1 else f)
            for t, (_, _, p, fs) in TABLES.items() if not (weighted and p == "mean") for f in fs]


def unsharded(inputs, weights, gradients, weighted):
    """The outputs of both ranks' samples and their effect on one copy of the tables, by torch itself."""
    model = collection(weighted, weights)
    found, loss = [], 0
    for rank in range(RANKS):
        out = model(features_of(rank, inputs, weighted))
        found.append({(t, f): out[key].detach().numpy() for t, f, key in outputs_of(weighted)})
        loss = loss + sum((out[key] * torch.from_numpy(gradients[t, f][rank])).sum()
                          for t, f, key in outputs_of(weighted)) / RANKS
    loss.backward()
    after = {n: (b.weight - LR * b.weight.grad).detach().numpy()
             for n, b in model.embedding_bags.items()}
    return found, after


def scenario(sharding, inputs, weighted):
    kept = {t: about for t, about in TABLES.items() if not (weighted and about[2] == "mean")}
    tables = "".join(
        f"  - {{name: {t}, rows: {r}, dim: {d}, pooling: {p}, features: [{', '.join(f)}], "
        f"weighted: {str(weighted).lower()}, weights: {{file: in.safetensors, tensor: {t}}}, "
        f"sharding: {{type: {sharding}}}}}\n" for t, (r, d, p, f) in kept.items())
    used = [f for f in STRIDES if any(f in fs for _, _, _, fs in kept.values())]
    features = "".join(
        f"    {f}: {{stride_per_rank: {STRIDES[f]}, inverse_indices: {{values: {inputs['inverse'][f]}}}, "
        f"lengths: {{values: {inputs['lengths'][f]}}}, ids: {{values: {inputs['ids'][f]}}}"
        + (f", weights: {{values: {sum(inputs['weights'][f], [])}}}" if weighted else "") + "}\n"
        for f in used)
    checks = "".join(f"    - {{file: in.safetensors, tensor: wanted.{t}, stage: output_dist, table: {t}}}\n"
                     for t in kept)
    return (f"lockstep: 1\nname: vbe\nmesh: {{shape: [1, {RANKS}], names: [host, gpu]}}\ntables:\n{tables}"
            f"inputs:\n  batch: {BATCH}\n  features:\n{features}steps: [forward, backward, update]\n"
            f"optimizer: {{type: sgd, lr: {LR}}}\ntrain:\n  gradient_division: world_size\n"
            f"  gradients: {{file: in.safetensors, tensor: gradients}}\nchecks:\n  reference:\n{checks}")


def run(program, folder, sharding, inputs, weights, gradients, weighted, wanted):
    order = outputs_of(weighted)
    fed = np.concatenate([gradients[t, f][r].ravel() for r in range(RANKS) for t, f, _ in order])
    given = {**weights, "gradients": fed,
             **{f"wanted.{t}": np.concatenate([np.concatenate([w[u, f] for u, f, _ in order if u == t], axis=1)
                                               for w in wanted[0]]) for t in {t for t, _, _ in order}}}
    tensor_files.write(os.path.join(folder, "in.safetensors"),
                       {name: np.asarray(array, np.float32) for name, array in given.items()})
    path = os.path.join(folder, "s.yaml")
    with open(path, "w", encoding="utf-8") as file:
        file.write(scenario(sharding, inputs, weighted))
    after = os.path.join(folder, "after-" + sharding.split(",")[0] + str(weighted))
    done = subprocess.run([program, "run", path, "--json", "-", "--checkpoint", after],
                          capture_output=True, text=True, check=False)
    if done.returncode != 0:
        return False, done.stderr or done.stdout
    case = json.loads(done.stdout)["cases"][0]
    held = [s for s in case["stages"] if s.get("against") == "reference"]
    got = {n: w.copy() for n, w in weights.items()}
    for rank in range(RANKS):
        path = os.path.join(after, f"rank_{rank:05}.safetensors")
        for name, array in (tensor_files.read(path) if os.path.exists(path) else {}).items():
            table, what, at = name.split("/")
            if what == "weights":
                row, column = map(int, at.split("_"))
                got[table][row:row + array.shape[0], column:column + array.shape[1]] = array
    off = max(float(np.abs(got[t] - wanted[1][t]).max()) for t, _, _ in order)
    ok = len(held) == len({t for t, _, _ in order}) and off <= 4e-6
    return ok, f"outputs {'/'.join(sorted({s['class'] for s in held}))}, weights off by {off:.1e} at most"


def main():
    program = os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else "build/lockstep")
    random, tried, failed = np.random.default_rng(11), 0, 0
    weights = {n: random.normal(0, 1, (r, d)).astype(np.float32) for n, (r, d, _, _) in TABLES.items()}
    rows = {f: min(r for r, _, _, fs in TABLES.values() if f in fs) for f in STRIDES}
    inputs = {"lengths": {f: [random.integers(0, 5, s).tolist() for s in STRIDES[f]] for f in STRIDES},
              "inverse": {f: [random.integers(0, s, BATCH).tolist() for s in STRIDES[f]] for f in STRIDES}}
    inputs["ids"] = {f: [random.integers(0, rows[f], sum(l)).tolist() for l in inputs["lengths"][f]]
                     for f in STRIDES}
    inputs["weights"] = {f: [random.integers(1, 5, len(l)).tolist() for l in inputs["ids"][f]]
                         for f in STRIDES}
    gradients = {w: {(t, f): [random.normal(0, 1, (BATCH, TABLES[t][1])).astype(np.float32)
                              for _ in range(RANKS)] for t, f, _ in outputs_of(w)}
                 for w in (False, True)}
    for weighted in gradients:
        wanted = unsharded(inputs, weights, gradients[weighted], weighted)
        for sharding in OURS:
            with tempfile.TemporaryDirectory() as folder:
                ok, text = run(program, folder, sharding, inputs, weights, gradients[weighted], weighted, wanted)
            tried, failed = tried + 1, failed + (not ok)
            print(f"{'pass' if ok else 'FAIL'}  {'weighted' if weighted else 'plain':8} {sharding:32} {text}")
    print(f"{tried} shardings, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
