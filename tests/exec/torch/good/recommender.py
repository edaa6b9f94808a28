"""TorchRec's ways to shard tables of bags, on processes of CPUs."""
import torch
import torch.distributed as dist
import torchrec
from torch import nn
from torchrec.distributed import DistributedModelParallel
from torchrec.distributed.embeddingbag import EmbeddingBagCollectionSharder
from torchrec.distributed.sharding_plan import (column_wise, construct_module_sharding_plan, data_parallel, row_wise,
                                                table_row_wise, table_wise)
from torchrec.distributed.types import ShardingPlan

from common import main, program, say

ROWS, WIDTH = 20, 8


class Bags(nn.Module):
    def __init__(self):
        super().__init__()
        self.tables = torchrec.EmbeddingBagCollection(tables=[
            torchrec.EmbeddingBagConfig(name=f"table{at}", embedding_dim=WIDTH, num_embeddings=ROWS + at,
                                        feature_names=[f"feature{at}"]) for at in range(2)])
        torch.manual_seed(0)
        self.over = nn.Linear(2 * WIDTH, 1)

    def forward(self, features):
        return self.over(self.tables(features).values()).square().mean()


def features():
    generator = torch.Generator().manual_seed(dist.get_rank())
    lengths = torch.randint(1, 3, (8,), generator=generator)
    return torchrec.KeyedJaggedTensor.from_lengths_sync(
        keys=["feature0", "feature1"], values=torch.randint(0, ROWS, (int(lengths.sum()),), generator=generator),
        lengths=lengths)


def sharded(model, way, sharder):
    ways = {f"table{at}": way(at) for at in range(2)}
    module_plan = construct_module_sharding_plan(model.tables, ways, sharder=sharder, device_type="cpu",
                                                 local_size=dist.get_world_size(), world_size=dist.get_world_size())
    plan = ShardingPlan(plan={"tables": module_plan})
    sharded_model = DistributedModelParallel(model, device=torch.device("cpu"), plan=plan, sharders=[sharder])
    with torch.no_grad():  # the same numbers whichever rank has which row
        for parameter in sharded_model.parameters():
            parameter.fill_(0.01)
    optimizer = torch.optim.SGD(sharded_model.parameters(), 0.1)
    for _ in range(2):
        optimizer.zero_grad()
        loss = sharded_model(features())
        loss.backward()
        optimizer.step()
    total = loss.detach()
    dist.all_reduce(total)
    say(float(total))


@program
def bags_table_wise():
    sharded(Bags(), lambda at: table_wise(rank=at), EmbeddingBagCollectionSharder())


@program
def bags_row_wise():
    sharded(Bags(), lambda at: row_wise(), EmbeddingBagCollectionSharder())


@program
def bags_column_wise():
    sharded(Bags(), lambda at: column_wise(ranks=[0, 1]), EmbeddingBagCollectionSharder())


@program
def bags_data_parallel():
    sharded(Bags(), lambda at: data_parallel(), EmbeddingBagCollectionSharder())


@program
def bags_table_row_wise():
    sharded(Bags(), lambda at: table_row_wise(host_index=0), EmbeddingBagCollectionSharder())


main()
