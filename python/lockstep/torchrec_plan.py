"""Plans of TorchRec's as files, which `lockstep plan --from-torchrec FILE` reads and `lockstep plan --torchrec FILE` writes.

    from lockstep import torchrec_plan

    plan = EmbeddingShardingPlanner(...).collective_plan(model, sharders, dist.GroupMember.WORLD)
    torchrec_plan.save(plan, "theirs.json")
    model = DistributedModelParallel(model, plan=torchrec_plan.load("ours.json", "cpu"))
"""

import json

from torch.distributed._shard.sharding_spec import EnumerableShardingSpec, ShardMetadata
from torchrec.distributed.types import EmbeddingModuleShardingPlan, ParameterSharding, ShardingPlan


def _table(sharding):
    spec = sharding.sharding_spec
    return {"sharding_type": sharding.sharding_type, "compute_kernel": sharding.compute_kernel, "ranks": sharding.ranks,
            "sharding_spec": spec and {"shards": [
                {"shard_offsets": list(shard.shard_offsets), "shard_sizes": list(shard.shard_sizes),
                 "placement": str(shard.placement)} for shard in spec.shards]}}


def to_dict(plan):
    """A ShardingPlan as modules with their tables."""
    return {module: {name: _table(sharding) for name, sharding in tables.items()} for module, tables in plan.plan.items()}


def from_dict(modules, device=None):
    """The ShardingPlan. device: "cpu" if the tables are there, whatever the file has."""
    def placed(text):
        return text if device is None else f"{text.split('/')[0]}/{device}"

    plan = {}
    for module, tables in modules.items():
        plan[module] = EmbeddingModuleShardingPlan()
        for name, table in tables.items():
            spec = table["sharding_spec"] and EnumerableShardingSpec(shards=[
                ShardMetadata(shard["shard_offsets"], shard["shard_sizes"], placed(shard["placement"]))
                for shard in table["sharding_spec"]["shards"]])
            plan[module][name] = ParameterSharding(sharding_type=table["sharding_type"], ranks=table["ranks"],
                                                   compute_kernel=table["compute_kernel"], sharding_spec=spec)
    return ShardingPlan(plan=plan)


def save(plan, path):
    with open(path, "w", encoding="utf-8") as file:
        json.dump(to_dict(plan), file, indent=1)


def load(path, device=None):
    with open(path, encoding="utf-8") as file:
        return from_dict(json.load(file), device)
