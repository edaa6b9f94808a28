"""`lockstep prove` of a program with a table of TorchRec's: shards of columns on ranks in any order, several on a rank, and shards with the
columns of another rank. torchrec_tables.py LOCKSTEP
"""
import json
import os
import subprocess
import sys
import tempfile

COLUMNS = {1: [], 2: [1, 0], 3: [2, 2, 0, 1]}  # the rank of each shard, by the number of ranks; of two each has the other's columns
ROWS, WIDTH, BAGS = 10, 16, 6


def train():
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
    sharding = plans.table_wise(rank=0) if world == 1 else plans.column_wise(ranks=COLUMNS[world])
    sharder = EmbeddingBagCollectionSharder()
    plan = plans.construct_module_sharding_plan(model.tables, {"item": sharding}, sharder=sharder, device_type="cpu", local_size=world,
                                                world_size=world)
    model = DistributedModelParallel(model, device=torch.device("cpu"), plan=ShardingPlan(plan={"tables": plan}), sharders=[sharder])
    whole = torch.randn(ROWS, WIDTH, generator=torch.Generator().manual_seed(1))
    if world == 2:
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


def main():
    with tempfile.TemporaryDirectory() as folder:
        report = os.path.join(folder, "report.json")
        done = subprocess.run([sys.argv[1], "prove", "-n", "1,3,2", "--all", "--json", report, "--", sys.executable, __file__, "program"],
                              capture_output=True, text=True, check=False)
        assert done.returncode == 1, done.stdout
        with open(report, encoding="utf-8") as file:
            right, wrong = json.load(file)["cases"]
    assert "3 ranks" in right["name"] and "2 ranks" in wrong["name"], (right["name"], wrong["name"])
    assert {stage["class"] for stage in right["stages"]} == {"proved"} and any("item" in stage["name"] for stage in right["stages"]), right
    stages = {stage["name"]: stage["class"] for stage in wrong["stages"]}
    assert stages["parameter tables.embedding_bags.item.weight"] == "wrong", stages
    print("2 cases")


if sys.argv[1] == "program":
    train()
else:
    main()
