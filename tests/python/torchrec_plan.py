"""Plans for models of several collections, for DistributedModelParallel: torchrec_plan.py LOCKSTEP plans a model and runs it sharded on two
ranks, beside the same model unsharded.
"""
import json
import os
import subprocess
import sys
import tempfile

SCENARIO = """lockstep: 1
name: collections
mesh: {shape: [2]}
tables:
  - {name: item, module: sparse.items, rows: 57, dim: 8, sharding: {type: row_wise}}
  - {name: word, module: words, rows: 40, dim: 8, pooling: none, sharding: {type: table_wise, ranks: [1]}}
  - {name: city, module: sparse.items, rows: 30, dim: 8, sharding: {type: column_wise, columns: 4, ranks: [0, 1]}}
  - {name: user, module: users, rows: 21, dim: 16}
inputs: {batch: 4}
"""


def program(path):
    import torch
    import torch.distributed as dist
    from lockstep import torchrec_plan
    from torchrec import (EmbeddingBagCollection, EmbeddingBagConfig, EmbeddingCollection, EmbeddingConfig,
                          KeyedJaggedTensor)
    from torchrec.distributed import DistributedModelParallel
    from torchrec.distributed.embedding import EmbeddingCollectionSharder
    from torchrec.distributed.embeddingbag import EmbeddingBagCollectionSharder
    from torchrec.distributed.types import ShardingEnv

    def bags(*tables):
        return EmbeddingBagCollection(device=torch.device("cpu"), tables=[
            EmbeddingBagConfig(name=name, num_embeddings=rows, embedding_dim=dim, feature_names=[name])
            for name, rows, dim in tables])

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            torch.manual_seed(0)
            self.sparse = torch.nn.Module()
            self.sparse.items = bags(("item", 57, 8), ("city", 30, 8))
            self.users = bags(("user", 21, 16))
            self.words = EmbeddingCollection(device=torch.device("cpu"), tables=[
                EmbeddingConfig(name="word", num_embeddings=40, embedding_dim=8, feature_names=["word"])])

        def forward(self, given):
            items, users, words = self.sparse.items(given["items"]), self.users(given["users"]), self.words(given["words"])
            return torch.cat([items.values().sum(1), users.values().sum(1), words["word"].values().sum(1)])

    def jagged(keys, rows, rank):
        lengths = torch.tensor([1, 0, 2, 1] * len(keys))
        count = int(lengths.sum())
        return KeyedJaggedTensor(keys, (torch.arange(count) * 7 + rank) % rows, lengths=lengths)

    dist.init_process_group("gloo")
    rank = dist.get_rank()
    given = {"items": jagged(["item", "city"], 30, rank), "users": jagged(["user"], 21, rank),
             "words": jagged(["word"], 40, rank)}
    plain = Model()
    expected = plain(given)
    model = DistributedModelParallel(Model(), env=ShardingEnv.from_process_group(dist.group.WORLD),
                                     device=torch.device("cpu"), plan=torchrec_plan.load(path, "cpu"),
                                     sharders=[EmbeddingBagCollectionSharder(), EmbeddingCollectionSharder()],
                                     init_data_parallel=False)
    sharded = [name for name, module in model.named_modules() if type(module).__name__.startswith("Sharded")]
    assert len(sharded) == 3, sharded
    model.load_state_dict(model.state_dict())
    state = model.state_dict()
    whole = plain.state_dict()
    for name, parts in state.items():
        for shard in parts.local_shards():
            at = tuple(slice(begin, begin + size) for begin, size in
                       zip(shard.metadata.shard_offsets, shard.metadata.shard_sizes))
            shard.tensor.copy_(whole[name][at])
    torch.testing.assert_close(model(given), expected)
    dist.destroy_process_group()


def main(lockstep):
    with tempfile.TemporaryDirectory() as folder:
        scenario, plan = os.path.join(folder, "model.yaml"), os.path.join(folder, "plan.json")
        with open(scenario, "w", encoding="utf-8") as file:
            file.write(SCENARIO)
        subprocess.run([lockstep, "plan", scenario, "--torchrec", plan], check=True, stdout=subprocess.DEVNULL)
        with open(plan, encoding="utf-8") as file:
            modules = {module: list(tables) for module, tables in json.load(file).items()}
        assert modules == {"sparse.items": ["item", "city"], "words": ["word"], "users": ["user"]}, modules
        return subprocess.run([lockstep, "exec", "-n", "2", "--checks", "all", "--", sys.executable, __file__, "--program",
                               plan], check=False).returncode


if __name__ == "__main__":
    sys.exit(program(sys.argv[2]) if sys.argv[1] == "--program" else main(os.path.abspath(sys.argv[1])))
