"""TorchRec's planner and DistributedModelParallel under each sharding type: two large tables and two small ones.

    lockstep exec -n 2 -- python3 examples/python/sharding_plans.py table_wise
"""

import sys

import torch
import torch.distributed as dist
import torchrec
from torchrec.distributed.embeddingbag import EmbeddingBagCollectionSharder
from torchrec.distributed.model_parallel import DistributedModelParallel
from torchrec.distributed.planner import EmbeddingShardingPlanner, Topology
from torchrec.distributed.planner.types import ParameterConstraints
from torchrec.distributed.types import ShardingEnv

TABLES = [torchrec.EmbeddingBagConfig(name=f"{size}_table_{i}", embedding_dim=64, num_embeddings=rows,
                                      feature_names=[f"{size}_table_feature_{i}"], pooling=torchrec.PoolingType.SUM)
          for size, rows in (("large", 4096), ("small", 1024)) for i in range(2)]


class Sharder(EmbeddingBagCollectionSharder):
    """With all types: by default TorchRec shards tables by rows only on GPUs."""

    def sharding_types(self, compute_device_type):
        return ["data_parallel", "table_wise", "column_wise", "row_wise"]


def shard(sharding):
    world = dist.get_world_size()
    module = torchrec.EmbeddingBagCollection(device=torch.device("meta"), tables=TABLES)
    # Columns of 64 stay whole unless the planner may make shards this narrow.
    narrow = 64 // world if sharding == "column_wise" else None
    planner = EmbeddingShardingPlanner(
        topology=Topology(world_size=world, compute_device="cpu"),
        constraints={table.name: ParameterConstraints(sharding_types=[sharding], min_partition=narrow)
                     for table in TABLES})
    sharders = [Sharder()]
    group = dist.group.WORLD
    plan = planner.collective_plan(module, sharders, group)
    model = DistributedModelParallel(module, env=ShardingEnv.from_process_group(group), plan=plan, sharders=sharders,
                                     device=torch.device("cpu"))
    return plan, model


def forward(model):
    """One batch of two samples: each rank looks up its own rows."""
    lengths = torch.ones(2 * len(TABLES), dtype=torch.int64)
    ids = torch.arange(2 * len(TABLES)) + dist.get_rank()
    features = torchrec.KeyedJaggedTensor([table.feature_names[0] for table in TABLES], ids, lengths=lengths)
    return model(features).to_dict()


def main():
    dist.init_process_group("gloo")
    plan, model = shard(sys.argv[1])
    print(f"rank:{dist.get_rank()},sharding plan: {plan}", flush=True)
    for feature, pooled in forward(model).items():
        if dist.get_rank() == 0:
            print(feature, tuple(pooled.shape))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
