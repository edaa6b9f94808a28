#!/usr/bin/env python3
"""Plans between TorchRec and lockstep, both ways: torchrec_plan.py [LOCKSTEP]

Needs torch, torchrec and fbgemm-gpu-cpu (pip); lockstep itself needs none of them. A plan that
TorchRec's planner made places a scenario's tables (`sharding: {plan: theirs.json}`), and a plan that
lockstep wrote (`plan --torchrec`) goes into DistributedModelParallel. With each of them TorchRec looks
the tables up on four gloo processes, and lockstep is held to what they gave, within the bound of the
sums. Ends with 1 where one fails.
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
    from torchrec.distributed.model_parallel import DistributedModelParallel
    from torchrec.distributed.planner import EmbeddingShardingPlanner, Topology
    from torchrec.distributed.planner.types import ParameterConstraints
    from torchrec.distributed.types import ShardingEnv
    from torchrec.modules.embedding_configs import EmbeddingBagConfig
    from torchrec.modules.embedding_modules import EmbeddingBagCollection
    from torchrec.sparse.jagged_tensor import KeyedJaggedTensor

    import tensor_files

    sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "python"))
    from lockstep import torchrec_plan
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

RANKS, BATCH = 4, 3
TABLES = {"a": (40, 16), "b": (30, 8), "c": (50, 32), "d": (20, 4)}


def collection(device):
    return EmbeddingBagCollection(device=device, tables=[
        EmbeddingBagConfig(name=name, num_embeddings=rows, embedding_dim=dim, feature_names=[name])
        for name, (rows, dim) in TABLES.items()])


def look_up(rank, plans, inputs, weights, folder):
    os.environ.update(RANK=str(rank), WORLD_SIZE=str(RANKS), LOCAL_RANK=str(rank),
                      LOCAL_WORLD_SIZE=str(RANKS), MASTER_ADDR="127.0.0.1", MASTER_PORT="29511")
    torch.set_num_threads(1)
    dist.init_process_group("gloo", rank=rank, world_size=RANKS)
    lengths, ids = inputs
    mine = KeyedJaggedTensor(
        keys=list(TABLES),
        values=torch.cat([torch.tensor(ids[name][rank], dtype=torch.int64) for name in TABLES]),
        lengths=torch.cat([torch.tensor(lengths[name][rank]) for name in TABLES]))
    for number, plan in enumerate(plans):
        model = DistributedModelParallel(
            collection(torch.device("meta")), env=ShardingEnv.from_process_group(dist.group.WORLD),
            device=torch.device("cpu"), plan=torchrec_plan.from_dict(plan, "cpu"),
            sharders=[EmbeddingBagCollectionSharder()], init_data_parallel=True)
        for key, value in model.state_dict().items():
            whole = torch.from_numpy(weights[key.split(".")[-2]])
            if hasattr(value, "local_shards"):
                for shard in value.local_shards():
                    (row, column), (rows, columns) = shard.metadata.shard_offsets, shard.tensor.shape
                    shard.tensor.copy_(whole[row:row + rows, column:column + columns])
            else:
                value.copy_(whole)
        found = model(mine)
        found = found.wait() if hasattr(found, "wait") else found
        np.savez(os.path.join(folder, f"{number}.{rank}.npz"),
                 **{name: found[name].detach().numpy() for name in TABLES})
        dist.barrier()
    dist.destroy_process_group()


def scenario(sharding, inputs, checks):
    tables = "\n".join(f"  - {{name: {n}, rows: {r}, dim: {d}, weights: {{file: in.safetensors, tensor: {n}}}, "
                       f"sharding: {sharding[n]}}}" for n, (r, d) in TABLES.items())
    lengths, ids = inputs
    features = "\n".join(f"    {n}: {{lengths: {{values: {lengths[n]}}}, ids: {{values: {ids[n]}}}}}"
                         for n in TABLES)
    return (f"lockstep: 1\nname: plan\nmesh: {{shape: [{RANKS}]}}\ntables:\n{tables}\n"
            f"inputs:\n  batch: {BATCH}\n  features:\n{features}\n{checks}")


def judge(program, folder, number, name, plan, inputs, weights):
    gave = [np.load(os.path.join(folder, f"{number}.{rank}.npz")) for rank in range(RANKS)]
    wanted = {f"wanted.{t}": np.concatenate([g[t] for g in gave]) for t in TABLES}
    tensor_files.write(os.path.join(folder, "in.safetensors"), {**weights, **wanted})
    with open(os.path.join(folder, "plan.json"), "w", encoding="utf-8") as file:
        json.dump(plan, file)
    checks = "checks:\n  reference:\n" + "".join(
        f"    - {{file: in.safetensors, tensor: wanted.{t}, stage: output_dist, table: {t}}}\n"
        for t in TABLES)
    path = os.path.join(folder, "s.yaml")
    with open(path, "w", encoding="utf-8") as file:
        file.write(scenario({t: "{plan: plan.json}" for t in TABLES}, inputs, checks))
    done = subprocess.run([program, "run", path, "--json", "-"], capture_output=True, text=True,
                          check=False)
    case = json.loads(done.stdout)["cases"][0] if done.stdout else {"stages": []}
    held = [s for s in case["stages"] if s.get("against") == "reference"]
    ok = done.returncode == 0 and len(held) == len(TABLES)
    print(f"{'pass' if ok else 'FAIL'}  {name:11} " + ", ".join(
        f"{t} {plan[''][t]['sharding_type']}" for t in TABLES) + ": " +
        (", ".join(s["class"] for s in held) or done.stderr or str(case)))
    return ok


def their_plan():
    """Of TorchRec's planner, which on CPUs knows these types; columns cut at 8."""
    types = {"a": "table_wise", "b": "data_parallel", "c": "column_wise", "d": "table_wise"}
    constraints = {t: ParameterConstraints(sharding_types=[s], min_partition=8)
                   for t, s in types.items()}
    planner = EmbeddingShardingPlanner(
        topology=Topology(world_size=RANKS, compute_device="cpu"), constraints=constraints)
    return torchrec_plan.to_dict(planner.plan(collection(torch.device("meta")), [EmbeddingBagCollectionSharder()]))


def costed(program, folder, plan, inputs):
    """Read by `plan --from-torchrec`, which gives it a cost, and back as it was; one of other tables is refused."""
    theirs, again = os.path.join(folder, "theirs.json"), os.path.join(folder, "again.json")
    with open(theirs, "w", encoding="utf-8") as file:
        json.dump(plan, file)
    path = os.path.join(folder, "c.yaml")
    with open(path, "w", encoding="utf-8") as file:
        file.write(scenario({t: "{type: table_wise}" for t in TABLES}, inputs, ""))
    done = subprocess.run([program, "plan", path, "--from-torchrec", theirs, "--torchrec", again, "--json", "-"],
                          capture_output=True, text=True, check=False)
    ok = done.returncode == 0 and json.loads(done.stdout)["cost_ms"] > 0
    with open(again, encoding="utf-8") as file:
        back = json.load(file)[""]
    ok = ok and all(back[t]["sharding_type"] == p["sharding_type"] and back[t]["ranks"] == p["ranks"] and
                    [s["shard_sizes"] for s in (back[t]["sharding_spec"] or {"shards": []})["shards"]] ==
                    [s["shard_sizes"] for s in (p["sharding_spec"] or {"shards": []})["shards"]]
                    for t, p in plan[""].items())
    print(f"{'pass' if ok else 'FAIL'}  costed: {done.stderr}")
    return ok


def our_plan(program, folder, types, inputs):
    path, plan = os.path.join(folder, "p.yaml"), os.path.join(folder, "p.json")
    with open(path, "w", encoding="utf-8") as file:
        file.write(scenario({t: f"{{type: {s}}}" for t, s in zip(TABLES, types)}, inputs, ""))
    subprocess.run([program, "plan", path, "--torchrec", plan, "--quiet"], check=True)
    with open(plan, encoding="utf-8") as file:
        return json.load(file)


def main():
    program = os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else "build/lockstep")
    random = np.random.default_rng(3)
    weights = {n: random.normal(0, 1, shape).astype(np.float32) for n, shape in TABLES.items()}
    lengths = {n: random.integers(0, 5, (RANKS, BATCH)).tolist() for n in TABLES}
    ids = {n: [random.integers(0, TABLES[n][0], sum(l)).tolist() for l in lengths[n]] for n in TABLES}
    inputs = (lengths, ids)
    with tempfile.TemporaryDirectory() as folder:
        tensor_files.write(os.path.join(folder, "in.safetensors"), weights)
        plans = [("TorchRec's", their_plan())]
        for types in [("table_wise", "data_parallel", "column_wise, columns: 8", "table_wise"),
                      ("row_wise", "row_wise", "table_wise", "data_parallel")]:
            plans.append(("lockstep's", our_plan(program, folder, types, inputs)))
        mp.spawn(look_up, args=([p for _, p in plans], inputs, weights, folder), nprocs=RANKS)
        good = [judge(program, folder, i, name, plan, inputs, weights)
                for i, (name, plan) in enumerate(plans)]
        good += [costed(program, folder, plan, inputs) for _, plan in plans]
    print(f"{len(good)} plans, {len(good) - sum(good)} failed")
    return 0 if all(good) else 1


if __name__ == "__main__":
    sys.exit(main())
