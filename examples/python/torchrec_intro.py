"""From a table to a sharded, trained and quantised collection of tables: torch's embeddings, TorchRec's jagged
inputs, a plan, a sharded module whose optimizer runs in the backward, and its quantised copy.

    lockstep exec -n 2 -- python3 examples/python/torchrec_intro.py
"""

import torch
import torch.distributed as dist
import torchrec
from fbgemm_gpu.split_embedding_configs import EmbOptimType
from torch import quantization as quant
from torchrec import JaggedTensor, KeyedJaggedTensor
from torchrec.distributed.embeddingbag import EmbeddingBagCollectionSharder
from torchrec.distributed.planner import EmbeddingShardingPlanner, Topology
from torchrec.distributed.types import ShardingEnv
from torchrec.modules.embedding_configs import QuantConfig
from torchrec.optim.optimizers import in_backward_optimizer_filter
from torchrec.quant.embedding_modules import EmbeddingBagCollection as QuantEmbeddingBagCollection


def say(*words):
    if dist.get_rank() == 0:
        print(*words, flush=True)


def tables_of_torch():
    weights = torch.rand(10, 4)
    rows = torch.nn.Embedding(10, 4, _weight=weights)
    bags = torch.nn.EmbeddingBag(10, 4, _weight=weights)
    ids = torch.tensor([[1, 3]])
    say("Shape: ", rows(ids).shape)
    say("Shape: ", bags(ids).shape)
    assert torch.allclose(bags(ids), torch.mean(rows(ids), dim=1))


def inputs():
    """Two samples: three products and one, two users and two."""
    product = JaggedTensor(values=torch.tensor([1, 2, 1, 5]), lengths=torch.tensor([3, 1]))
    user = JaggedTensor(values=torch.tensor([2, 3, 4, 1]), lengths=torch.tensor([2, 2]))
    features = KeyedJaggedTensor.from_jt_dict({"product": product, "user": user})
    say("Keys: ", features.keys())
    say("Lengths: ", features.lengths())
    say("Values: ", features.values())
    say("Offsets: ", features.offsets())
    return features


def collection():
    return torchrec.EmbeddingBagCollection(device="cpu", tables=[
        torchrec.EmbeddingBagConfig(name=f"{name}_table", embedding_dim=64, num_embeddings=4096,
                                    feature_names=[name], pooling=torchrec.PoolingType.SUM)
        for name in ("product", "user")])


def shard(module):
    group = dist.group.WORLD
    sharder = EmbeddingBagCollectionSharder(fused_params={
        "optimizer": EmbOptimType.EXACT_ROWWISE_ADAGRAD, "learning_rate": 0.02, "eps": 0.002})
    planner = EmbeddingShardingPlanner(topology=Topology(world_size=dist.get_world_size(), compute_device="cpu"))
    plan = planner.collective_plan(module, [sharder], group)
    say(f"Sharding Plan generated: {plan}")
    sharded = sharder.shard(module, plan.plan[""], ShardingEnv.from_process_group(group), torch.device("cpu"))
    weights = module.state_dict()
    for name, table in sharded.state_dict().items():  # which begins with numbers of its own
        for part in table.local_shards():
            (row, column), (rows, columns) = part.metadata.shard_offsets, part.metadata.shard_sizes
            part.tensor.copy_(weights[name][row:row + rows, column:column + columns])
    return sharded


def train(sharded, features, whole):
    output = sharded(features).wait()
    say(output.keys())
    say(output.values().shape)
    torch.testing.assert_close(output.values(), whole.values())  # sharded or not
    losses = []
    for _ in range(2):
        values = sharded(features).wait().values()
        loss = torch.sum(torch.ones_like(values) - values)
        losses.append(loss.item())
        loss.backward()  # the tables are updated here
    say(f"First Iteration Loss: {losses[0]}")
    say(f"Second Iteration Loss: {losses[1]}")
    assert losses[1] < losses[0]
    say("Non Fused Model Parameters:", dict(in_backward_optimizer_filter(sharded.named_parameters())).keys())


def quantised(module, features):
    module.qconfig = QuantConfig(activation=quant.PlaceholderObserver.with_args(dtype=torch.float),
                                 weight=quant.PlaceholderObserver.with_args(dtype=torch.int8))
    small = QuantEmbeddingBagCollection.from_float(module)
    for name, buffer in small.named_buffers():
        say(name, buffer.shape, buffer.dtype)
    difference = (small(features).values() - module(features).values()).abs().max()
    assert difference < 4 * 2 / 4096 ** 0.5 / 255  # a bag of four, half a step of each row's scale, twice


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    tables_of_torch()
    features = inputs()
    module = collection()
    for parameter in module.parameters():
        dist.broadcast(parameter.data, 0)
    say(module)
    whole = module(features)
    train(shard(module), features, whole)
    quantised(module, features)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
