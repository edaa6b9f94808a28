#!/usr/bin/env python3
"""TorchRec's batch size per feature beside lockstep's: torchrec_vbe.py [LOCKSTEP]

Needs torch, torchrec and fbgemm-gpu-cpu (pip); lockstep itself needs none of them. A collection whose
KeyedJaggedTensor has stride_per_key_per_rank and inverse_indices is trained for a step by TorchRec:
unsharded by torch, and sharded over two processes where gloo has the collectives (its row_wise types need
a reduce_scatter of uneven parts, which NCCL alone has: said, and not counted). lockstep runs the same
under every sharding type and must give the outputs and the weights after the step: outputs bit by bit
where nothing is summed over ranks, else within the bound of the sum. Ends with 1 where one fails.
"""
import json
import os
import subprocess
import sys
import tempfile

try:
    import numpy as np
    import torch
    import torch.distributed as dist
    import torch.multiprocessing as mp
    from torchrec.distributed.embeddingbag import EmbeddingBagCollectionSharder
    from torchrec.distributed.sharding_plan import (column_wise, construct_module_sharding_plan,
                                                    data_parallel, row_wise, table_wise)
    from torchrec.distributed.model_parallel import DistributedModelParallel
    from torchrec.distributed.types import ShardingEnv, ShardingPlan
    from torchrec.modules.embedding_configs import EmbeddingBagConfig, PoolingType
    from torchrec.modules.embedding_modules import EmbeddingBagCollection
    from torchrec.optim.apply_optimizer_in_backward import apply_optimizer_in_backward
    from torchrec.sparse.jagged_tensor import KeyedJaggedTensor
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

RANKS, BATCH, LR = 2, 6, 0.25
TABLES = {"a": (23, 8, "sum", ["f"]), "b": (17, 8, "mean", ["g"]), "c": (31, 16, "sum", ["f", "h"])}
STRIDES = {"f": [3, 2], "g": [6, 1], "h": [2, 5]}
THEIRS = {
    "table_wise": lambda: {"a": table_wise(rank=0), "b": table_wise(rank=1), "c": table_wise(rank=0)},
    "column_wise": lambda: {t: column_wise(ranks=[1, 0]) for t in TABLES},
    "data_parallel": lambda: {t: data_parallel() for t in TABLES},
    "row_wise": lambda: {t: row_wise() for t in TABLES},
}
OURS = ["table_wise, ranks: 1", "column_wise, columns: 4", "row_wise", "data_parallel",
        "table_row_wise, host: 0", "grid, columns: 4", "table_column_wise, columns: 4"]


def collection(weighted, weights=None, device="cpu"):
    model = EmbeddingBagCollection(device=torch.device(device), is_weighted=weighted, tables=[
        EmbeddingBagConfig(name=n, num_embeddings=r, embedding_dim=d, feature_names=f,
                           pooling=PoolingType.MEAN if p == "mean" else PoolingType.SUM)
        for n, (r, d, p, f) in TABLES.items() if not (weighted and p == "mean")])
    for name, bag in model.embedding_bags.items():
        if weights is not None:
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
    """What both ranks' samples give and do to one copy of the tables, by torch itself."""
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


def sharded_all(rank, inputs, weights, gradients, folder):
    os.environ.update(RANK=str(rank), WORLD_SIZE=str(RANKS), LOCAL_RANK=str(rank),
                      LOCAL_WORLD_SIZE=str(RANKS), MASTER_ADDR="127.0.0.1", MASTER_PORT="29517")
    torch.set_num_threads(1)
    dist.init_process_group("gloo", rank=rank, world_size=RANKS)
    for weighted in (False, True):
        for kind in THEIRS:
            to = os.path.join(folder, f"{kind}{weighted}")
            os.makedirs(to, exist_ok=True)
            try:
                sharded(rank, kind, inputs, weights, gradients[weighted], weighted, to)
            except Exception as error:  # gloo has not every collective
                with open(os.path.join(to, "why"), "w", encoding="utf-8") as file:
                    file.write(str(error).strip().splitlines()[-1])
            dist.barrier()
    dist.destroy_process_group()


def sharded(rank, kind, inputs, weights, gradients, weighted, folder):
    model = collection(weighted, device="meta")
    apply_optimizer_in_backward(torch.optim.SGD, model.parameters(), {"lr": LR})
    tables = {t: s for t, s in THEIRS[kind]().items() if t in model.embedding_bags}
    plan = construct_module_sharding_plan(model, tables, EmbeddingBagCollectionSharder(),
                                          local_size=RANKS, world_size=RANKS, device_type="cpu")
    model = DistributedModelParallel(
        model, env=ShardingEnv.from_process_group(dist.group.WORLD), device=torch.device("cpu"),
        plan=ShardingPlan(plan={"": plan}), sharders=[EmbeddingBagCollectionSharder()])
    for key, value in model.state_dict().items():
        whole = torch.from_numpy(weights[key.split(".")[-2]])
        for shard in value.local_shards() if hasattr(value, "local_shards") else []:
            (row, column), (rows, columns) = shard.metadata.shard_offsets, shard.tensor.shape
            shard.tensor.copy_(whole[row:row + rows, column:column + columns])
        if not hasattr(value, "local_shards"):
            value.copy_(whole)
    out = model(features_of(rank, inputs, weighted))
    out = out.wait() if hasattr(out, "wait") else out
    sum((out[key] * torch.from_numpy(gradients[t, f][rank])).sum()
        for t, f, key in outputs_of(weighted)).backward()
    np.savez(os.path.join(folder, f"out.{rank}.npz"),
             **{f"{t}.{f}": out[key].detach().numpy() for t, f, key in outputs_of(weighted)})
    shards = {}
    for key, value in model.state_dict().items():
        for shard in value.local_shards() if hasattr(value, "local_shards") else []:
            shards[f"{key.split('.')[-2]}.{'.'.join(map(str, shard.metadata.shard_offsets))}"] = \
                shard.tensor.detach().numpy()
    np.savez(os.path.join(folder, f"weights.{rank}.npz"), **shards)


def read_sharded(folder, weights, weighted):
    found, after = [], {n: w.copy() for n, w in weights.items()}
    for rank in range(RANKS):
        with np.load(os.path.join(folder, f"out.{rank}.npz")) as file:
            found.append({(t, f): file[f"{t}.{f}"] for t, f, _ in outputs_of(weighted)})
        with np.load(os.path.join(folder, f"weights.{rank}.npz")) as file:
            for key in file.files:
                name, row, column = key.split(".")
                (rows, columns), at = file[key].shape, (int(row), int(column))
                after[name][at[0]:at[0] + rows, at[1]:at[1] + columns] = file[key]
    return found, after


def write(path, tensors):
    header, data = {}, b""
    for name, array in tensors.items():
        raw = np.ascontiguousarray(array, dtype=np.float32).tobytes()
        header[name] = {"dtype": "F32", "shape": list(array.shape),
                        "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text + data)


def read(path):
    with open(path, "rb") as file:
        raw = file.read()
    size = int.from_bytes(raw[:8], "little")
    return {name: np.frombuffer(raw[8 + size:][slice(*about["data_offsets"])], np.float32)
            .reshape(about["shape"])
            for name, about in json.loads(raw[8:8 + size]).items()
            if name != "__metadata__" and about["dtype"] == "F32"}


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
    write(os.path.join(folder, "in.safetensors"),
          {**weights, "gradients": fed,
           **{f"wanted.{t}": np.concatenate([np.concatenate([w[u, f] for u, f, _ in order if u == t], axis=1)
                                             for w in wanted[0]]) for t in {t for t, _, _ in order}}})
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
        for name, array in (read(path) if os.path.exists(path) else {}).items():
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
    theirs = {w: {"unsharded": unsharded(inputs, weights, gradients[w], w)} for w in gradients}
    with tempfile.TemporaryDirectory() as folder:
        mp.spawn(sharded_all, args=(inputs, weights, gradients, folder), nprocs=RANKS)
        for weighted in gradients:
            for kind in THEIRS:
                at = os.path.join(folder, f"{kind}{weighted}")
                if os.path.exists(os.path.join(at, "why")):
                    with open(os.path.join(at, "why"), encoding="utf-8") as file:
                        print(f"----  TorchRec {kind} on gloo: not run: {file.read()}")
                else:
                    theirs[weighted][kind] = read_sharded(at, weights, weighted)
    for weighted in gradients:
        for name, wanted in theirs[weighted].items():
            for sharding in OURS:
                if name != "unsharded" and not sharding.startswith(name):
                    continue
                if name == "data_parallel":  # dense parameters, which no optimizer in backward updates
                    wanted = (wanted[0], theirs[weighted]["unsharded"][1])
                with tempfile.TemporaryDirectory() as folder:
                    ok, text = run(program, folder, sharding, inputs, weights, gradients[weighted],
                                   weighted, wanted)
                tried, failed = tried + 1, failed + (not ok)
                print(f"{'pass' if ok else 'FAIL'}  {'weighted' if weighted else 'plain':8} "
                      f"TorchRec {name:13} lockstep {sharding:32} {text}")
    print(f"{tried} compared, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
