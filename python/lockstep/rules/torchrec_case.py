"""One case of TorchRec's table in plain torch and torchrec: a sharded collection of tables beside the unsharded one.

Every rank has the batches of all ranks, so it computes the expected outputs and shards. torchrec_table.py writes this text into programs.
"""
import torch
import torch.distributed as dist
import torchrec
from fbgemm_gpu.split_embedding_configs import EmbOptimType
from torch import nn
from torchrec.distributed import DistributedModelParallel
from torchrec.distributed.embedding import EmbeddingCollectionSharder
from torchrec.distributed.embeddingbag import EmbeddingBagCollectionSharder
from torchrec.distributed.sharding_plan import (column_wise, construct_module_sharding_plan, data_parallel, grid_shard,
                                                row_wise, table_row_wise, table_wise)
from torchrec.distributed.types import ShardingPlan

BATCH, WIDTH, RATE = 4, 8, 0.5
EPS = 1.0  # as large as gradients: dividing by the root of a gradient near 0 would magnify its rounding


def ways(kind, table, world):
    """The sharding of a table."""
    made = {"data_parallel": data_parallel, "row_wise": row_wise, "table_wise": lambda: table_wise(rank=table % world),
            "column_wise": lambda: column_wise(ranks=list(range(2))), "table_row_wise": lambda: table_row_wise(host_index=0),
            "grid": lambda: grid_shard(host_indexes=[0])}
    kinds = kind.split("+")
    return made[kinds[table % len(kinds)]]()


class Model(nn.Module):
    def __init__(self, tables):
        super().__init__()
        self.tables = tables

    def forward(self, features):
        return self.tables(features)


def collection(case):
    """The unsharded collection; its weights are small integers."""
    bags, kind = case["module"] == "bags", getattr(torchrec.DataType, case["type"], None) or torchrec.modules.embedding_configs.DataType[case["type"]]
    configs = []
    for at, rows in enumerate(case["rows"]):
        shared = {"name": f"t{at}", "embedding_dim": WIDTH, "num_embeddings": rows, "feature_names": [f"f{at}"], "data_type": kind}
        if bags:
            shared["pooling"] = getattr(torchrec.PoolingType, case["pooling"].upper())
        configs.append((torchrec.EmbeddingBagConfig if bags else torchrec.EmbeddingConfig)(**shared))
    device = torch.device("cpu")
    made = (torchrec.EmbeddingBagCollection(configs, is_weighted=case["weighted"], device=device) if bags else
            torchrec.EmbeddingCollection(configs, device=device))
    with torch.no_grad():
        for at, parameter in enumerate(made.parameters()):
            parameter.copy_(whole(at, parameter.shape))
    return made


def whole(table, shape):
    draw = torch.Generator().manual_seed(table + 1)
    return torch.randint(-8, 9, shape, generator=draw).float()


def batch(case, rank):
    """The features of a rank, possibly without ids, and the gradient of its outputs."""
    draw, count = torch.Generator().manual_seed(100 + rank), len(case["rows"])
    lengths = torch.randint(0, 4, (count, BATCH), generator=draw)
    if case["empty"] and rank == 1:
        lengths.zero_()
    values = torch.cat([torch.randint(0, rows, (int(lengths[at].sum()),), generator=draw) for at, rows in enumerate(case["rows"])])
    weights = torch.randint(1, 4, values.shape, generator=draw).float() if case["weighted"] else None
    features = torchrec.KeyedJaggedTensor([f"f{at}" for at in range(count)], values, weights, lengths.flatten())
    return features, torch.randint(-2, 3, (4 * BATCH * count, WIDTH), generator=draw).float()


def outputs(module, features):
    """By feature."""
    out = module(features)
    out = out.wait() if hasattr(out, "wait") else out
    found = out.to_dict() if hasattr(out, "to_dict") else out
    return {name: one.values() if hasattr(one, "lengths") else one for name, one in sorted(found.items())}


def loss(found, gradient):
    at, total = 0, 0.0
    for one in found.values():
        total = total + (one * gradient[at:at + one.shape[0]]).sum()
        at += one.shape[0]
    return total


def updated(case, weight, gradient, touched):
    """The optimizer's rule, on the rows that were looked up."""
    kind, new = case["optimizer"], weight.clone()
    if kind == "sgd":
        new -= RATE * gradient
    elif kind == "adagrad":
        new -= RATE * gradient / (gradient.square().sqrt() + EPS)
    elif kind == "rowwise_adagrad":
        new -= RATE * gradient / (gradient.square().mean(1, keepdim=True).sqrt() + EPS)
    elif kind == "adam":  # the first step: the corrected moments are the gradient and its square
        new -= RATE * gradient / (gradient.abs() + EPS)
    return torch.where(touched[:, None], new, weight)


def expected(case, world):
    """Weights after a step on all ranks' batches; TorchRec averages gradients over ranks."""
    module = collection(case)
    parameters = [parameter.detach().float().clone() for parameter in module.parameters()]
    touched = [torch.zeros(rows, dtype=torch.bool) for rows in case["rows"]]
    for rank in range(world):
        features, gradient = batch(case, rank)
        (loss(outputs(module, features), gradient) / world).backward()
        for at in range(len(touched)):
            touched[at][features[f"f{at}"].values()] = True
    return [updated(case, weight, parameter.grad.float(), rows)
            for weight, parameter, rows in zip(parameters, module.parameters(), touched)]


OPTIMIZERS = {"sgd": EmbOptimType.EXACT_SGD, "adagrad": EmbOptimType.EXACT_ADAGRAD, "adam": EmbOptimType.ADAM,
              "rowwise_adagrad": EmbOptimType.EXACT_ROWWISE_ADAGRAD}


def sharded(case, world):
    fused = {"optimizer": OPTIMIZERS[case["optimizer"]], "learning_rate": RATE, "eps": EPS}
    sharder = (EmbeddingBagCollectionSharder if case["module"] == "bags" else EmbeddingCollectionSharder)(fused_params=fused)
    module = collection(case)
    chosen = {f"t{at}": ways(case["sharding"], at, world) for at in range(len(case["rows"]))}
    plan = construct_module_sharding_plan(module, chosen, sharder=sharder, device_type="cpu", local_size=world, world_size=world)
    for sharding in plan.values():  # on CPUs the helper chooses dense kernels, whose step is up to the program
        if sharding.sharding_type != "data_parallel":
            sharding.compute_kernel = "fused"
    return DistributedModelParallel(Model(module), device=torch.device("cpu"), plan=ShardingPlan(plan={"tables": plan}),
                                    sharders=[sharder])


def shards(model):
    """(table, offsets, tensor) of each block of this rank."""
    for name, value in model.state_dict().items():
        table = int(name.split(".t")[-1].split(".")[0])
        if hasattr(value, "local_shards"):
            for shard in value.local_shards():
                yield table, shard.metadata.shard_offsets, shard.tensor
        elif hasattr(value, "to_local"):
            raise TypeError("a table is a DTensor")
        else:
            yield table, [0, 0], value


def block(tensor, offsets, shape):
    return tensor[offsets[0]:offsets[0] + shape[0], offsets[1]:offsets[1] + shape[1]]


def run(case):
    """(name, sharded, unsharded) of this rank's outputs and of its shards after a step."""
    rank, world = dist.get_rank(), dist.get_world_size()
    model = sharded(case, world)
    with torch.no_grad():
        for table, offsets, tensor in shards(model):
            tensor.copy_(block(whole(table, (case["rows"][table], WIDTH)), offsets, tensor.shape))
    features, gradient = batch(case, rank)
    out, want = outputs(model, features), outputs(collection(case), features)
    found = [(f"output {name}", out[name].detach().clone() if name in out else None, want[name].detach()) for name in want]
    loss(out, gradient).backward()
    dense = [parameter for parameter in model.parameters() if parameter.grad is not None]
    if dense and case["optimizer"] == "sgd":  # of data-parallel tables, which the program's optimizer updates
        torch.optim.SGD(dense, RATE).step()
    after = expected(case, world)
    for table, offsets, tensor in shards(model):
        if dense and case["optimizer"] != "sgd" and case["sharding"].split("+")[table % (1 + case["sharding"].count("+"))] == "data_parallel":
            continue
        found.append((f"weights t{table} at {list(offsets)}", tensor.detach().float(), block(after[table], offsets, tensor.shape)))
    return found
