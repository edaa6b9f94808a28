"""Two defects of TorchRec 1.6. `mean`: beside a row_wise table with mean pooling, a table of sums is divided by its bags' lengths. `empty`:
the last of four ranks holds none of a row_wise table's five rows; its lookup fails, and the others hang in the reduce_scatter that it never
reaches.

    lockstep exec -n 4 -- python3 examples/python/row_wise_defects.py mean
"""

import sys

import torch
import torch.distributed as dist
import torchrec
from torchrec.distributed.embeddingbag import EmbeddingBagCollectionSharder
from torchrec.distributed.model_parallel import DistributedModelParallel
from torchrec.distributed.sharding_plan import construct_module_sharding_plan, row_wise, table_wise
from torchrec.distributed.types import ShardingEnv, ShardingPlan


class Sharder(EmbeddingBagCollectionSharder):
    """With all types: by default TorchRec shards tables by rows only on GPUs."""

    def sharding_types(self, compute_device_type):
        return ["table_wise", "row_wise"]


def table(name, rows, pooling):
    return torchrec.EmbeddingBagConfig(name=name, embedding_dim=4, num_embeddings=rows, feature_names=[name],
                                       pooling=pooling)


def model(tables, shardings):
    module = torchrec.EmbeddingBagCollection(device=torch.device("cpu"), tables=tables)
    sharder = Sharder()
    plan = construct_module_sharding_plan(module, shardings, sharder, dist.get_world_size(),
                                          dist.get_world_size(), "cpu")
    return DistributedModelParallel(module, env=ShardingEnv.from_process_group(dist.group.WORLD),
                                    plan=ShardingPlan({"": plan}), sharders=[sharder], device=torch.device("cpu"))


def fill(sharded):
    """Every row of every table is ones: a sum counts the ids of a bag, a mean is one."""
    for table in sharded.state_dict().values():
        for part in table.local_shards():
            part.tensor.fill_(1)


def main():
    dist.init_process_group("gloo")
    if sys.argv[1] == "mean":
        sharded = model([table("rows", 8, torchrec.PoolingType.MEAN), table("whole", 8, torchrec.PoolingType.SUM)],
                        {"rows": row_wise(), "whole": table_wise(0)})
    else:
        sharded = model([table("rows", 5, torchrec.PoolingType.SUM)], {"rows": row_wise(compute_kernel="fused")})
    fill(sharded)
    keys = ["rows", "whole"] if sys.argv[1] == "mean" else ["rows"]
    lengths = torch.tensor([2, 4] * len(keys))
    ids = torch.arange(int(lengths.sum())) % 5
    out = sharded(torchrec.KeyedJaggedTensor(keys, ids, lengths=lengths)).to_dict()
    for key in keys:
        right = [1.0, 1.0] if key == "rows" and sys.argv[1] == "mean" else [2.0, 4.0]
        if dist.get_rank() == 0:
            print(key, [round(value, 3) for value in out[key][:, 0].tolist()], "unsharded", right, flush=True)
    sum(pooled.sum() for pooled in out.values()).backward()
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
