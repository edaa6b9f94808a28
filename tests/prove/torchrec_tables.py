"""`lockstep prove` of a program with a table of TorchRec's: shards of columns on ranks in any order, several on a rank, and shards with the
columns of another rank. torchrec_tables.py LOCKSTEP
"""
import json
import os
import subprocess
import sys
import tempfile

RIGHT = (3, "columns", "2,2,0,1")
WRONG = (2, "swapped", "1,0")
ROWS, WIDTH, BAGS = 10, 16, 6


def train(way, ranks):
    import torch
    import torch.distributed as dist
    import torchrec
    from torch import nn
    from torchrec.distributed import DistributedModelParallel, sharding_plan as plans
    from torchrec.distributed.embeddingbag import EmbeddingBagCollectionSharder
    from torchrec.distributed.types import ShardingPlan

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.tables = torchrec.EmbeddingBagCollection(tables=[torchrec.EmbeddingBagConfig(
                name="item", embedding_dim=WIDTH, num_embeddings=ROWS, feature_names=["item"])])
            self.over = nn.Linear(WIDTH, 1)

        def forward(self, ids):
            return self.over(self.tables(ids).values()).square().mean()

    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    model = Model()
    sharding = plans.table_wise(rank=0) if world == 1 else plans.column_wise(ranks=ranks)
    sharder = EmbeddingBagCollectionSharder()
    plan = plans.construct_module_sharding_plan(model.tables, {"item": sharding}, sharder=sharder, device_type="cpu", local_size=world,
                                                world_size=world)
    model = DistributedModelParallel(model, device=torch.device("cpu"), plan=ShardingPlan(plan={"tables": plan}), sharders=[sharder])
    whole = torch.randn(ROWS, WIDTH, generator=torch.Generator().manual_seed(1))
    if way == "swapped" and world > 1:
        whole = whole.roll(WIDTH // 2, 1)
    for shard in model.state_dict()["tables.embedding_bags.item.weight"].local_shards():
        (row, column), (rows, columns) = shard.metadata.shard_offsets, shard.metadata.shard_sizes
        shard.tensor.detach().copy_(whole[row:row + rows, column:column + columns])
    optimizer = torch.optim.SGD(model.module.over.parameters(), 0.1)
    for step in range(2):
        ids = torch.arange(2 * BAGS).view(BAGS, 2)[BAGS // world * rank:BAGS // world * (rank + 1)].flatten() + step
        optimizer.zero_grad()
        model(torchrec.KeyedJaggedTensor(["item"], ids % ROWS, lengths=torch.full((len(ids) // 2,), 2))).backward()
        optimizer.step()
    dist.destroy_process_group()


def verdict(lockstep, ranks, way, order):
    """The classes of the tensors of a proof, and of those of the table."""
    with tempfile.TemporaryDirectory() as folder:
        report = os.path.join(folder, "report.json")
        done = subprocess.run([lockstep, "prove", "-n", f"1,{ranks}", "--all", "--json", report, "--", sys.executable, __file__, "program", way,
                               order], capture_output=True, text=True, check=False)
        assert done.returncode in (0, 1), done.stdout
        with open(report, encoding="utf-8") as file:
            text = json.load(file)
            assert text["cases"][0]["stages"], text
            stages = {stage["name"]: stage["class"] for stage in text["cases"][0]["stages"]}
    return set(stages.values()), {name: kind for name, kind in stages.items() if "item" in name}


def main():
    kinds, table = verdict(sys.argv[1], *RIGHT)
    assert kinds == {"proved"} and table, (kinds, table)
    kinds, table = verdict(sys.argv[1], *WRONG)
    assert table["parameter tables.embedding_bags.item.weight"] == "wrong", table
    print("2 cases")


if sys.argv[1] == "program":
    train(sys.argv[2], [int(rank) for rank in sys.argv[3].split(",") if rank])
else:
    main()
