"""Models whose parameters or activations are shards: FSDP, HSDP, tensor and sequence parallel, rings."""
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import (CPUOffloadPolicy, FullyShardedDataParallel, MixedPrecision, MixedPrecisionPolicy,
                                    ShardingStrategy, StateDictType, fully_shard)
from torch.distributed.fsdp.wrap import ModuleWrapPolicy
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_module, distribute_tensor
from torch.distributed.tensor.parallel import (ColwiseParallel, PrepareModuleInput, RowwiseParallel, SequenceParallel,
                                               loss_parallel, parallelize_module)

from common import batch_of, check, main, net, program, say, train


class Blocks(nn.Module):
    def __init__(self, width=8, count=2):
        super().__init__()
        self.blocks = nn.ModuleList(net(width, 2 * width + 1, seed) for seed in range(count))
        torch.manual_seed(9)
        self.last = nn.Linear(width, width)

    def forward(self, inputs):
        for block in self.blocks:
            inputs = inputs + block(inputs)
        return self.last(inputs)


def fsdp1(strategy=ShardingStrategy.FULL_SHARD, **options):
    return FullyShardedDataParallel(Blocks(), auto_wrap_policy=ModuleWrapPolicy({nn.Sequential}), sharding_strategy=strategy,
                                    device_id=torch.device("cpu"), **options)


def fsdp2(mesh, **options):
    model = Blocks()
    for block in model.blocks:
        fully_shard(block, mesh=mesh, **options)
    return fully_shard(model, mesh=mesh, **options)


def trained(model, steps=3):
    optimizer = torch.optim.AdamW(model.parameters(), 0.01)
    say(train(model, optimizer, batch_of(8), steps))
    return optimizer


def line(size=None):
    return init_device_mesh("cpu", (size or dist.get_world_size(),))


@program
def fsdp1_full():
    trained(fsdp1())


@program
def fsdp1_grad_op():
    trained(fsdp1(ShardingStrategy.SHARD_GRAD_OP, use_orig_params=True))


@program
def fsdp1_no_shard():
    trained(fsdp1(ShardingStrategy.NO_SHARD))


@program
def fsdp1_mixed():
    trained(fsdp1(mixed_precision=MixedPrecision(param_dtype=torch.bfloat16, reduce_dtype=torch.float32), use_orig_params=True))


@program
def fsdp1_hybrid():
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("replicate", "shard"))
    trained(fsdp1(ShardingStrategy.HYBRID_SHARD, device_mesh=mesh))


@program
def fsdp1_states():
    model = fsdp1(use_orig_params=True)
    optimizer = trained(model, 1)
    norm = model.clip_grad_norm_(0.1)
    with FullyShardedDataParallel.state_dict_type(model, StateDictType.FULL_STATE_DICT):
        whole = model.state_dict()
        state = FullyShardedDataParallel.optim_state_dict(model, optimizer)
    say(float(norm), sum(float(value.sum()) for value in whole.values()), len(state["param_groups"]))
    with FullyShardedDataParallel.state_dict_type(model, StateDictType.SHARDED_STATE_DICT):
        model.load_state_dict(model.state_dict())
    with FullyShardedDataParallel.summon_full_params(model):
        say(sum(float(parameter.detach().sum()) for parameter in model.parameters()))


@program
def fsdp1_no_sync():
    model = fsdp1(use_orig_params=True)
    optimizer, batch = torch.optim.SGD(model.parameters(), 0.1), batch_of(8)
    with model.no_sync():
        model(batch(0)).square().mean().backward()
    model(batch(1)).square().mean().backward()
    optimizer.step()
    say(train(model, optimizer, batch, 1))


@program
def fsdp2_full():
    model = fsdp2(line())
    trained(model)
    norm = nn.utils.clip_grad_norm_(model.parameters(), 0.5)
    say(float(norm.full_tensor()))


@program
def fsdp2_kept():
    trained(fsdp2(line(), reshard_after_forward=False))


@program
def fsdp2_mixed():
    trained(fsdp2(line(), mp_policy=MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)))


@program
def fsdp2_offload():
    trained(fsdp2(line(), offload_policy=CPUOffloadPolicy(pin_memory=False)))


@program
def fsdp2_accumulation():
    model = fsdp2(line())
    optimizer, batch = torch.optim.SGD(model.parameters(), 0.1), batch_of(8)
    for micro in range(3):
        model.set_requires_gradient_sync(micro == 2)
        model(batch(micro)).square().mean().backward()
    optimizer.step()
    say(train(model, optimizer, batch, 1))


@program
def fsdp2_hybrid():
    trained(fsdp2(init_device_mesh("cpu", (2, 2), mesh_dim_names=("replicate", "shard"))))


@program
def fsdp2_frozen():
    model = Blocks()
    for parameter in model.blocks[0].parameters():
        parameter.requires_grad_(False)
    for block in model.blocks:
        fully_shard(block, mesh=line())
    trained(fully_shard(model, mesh=line()))


@program
def tensor_parallel():
    mesh = line()
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 16, bias=False), nn.ReLU(), nn.Linear(16, 8))
    expected = [parameter.detach().clone() for parameter in model.parameters()]
    model = parallelize_module(model, mesh, {"0": ColwiseParallel(), "2": RowwiseParallel()})
    inputs = batch_of(8)(0, 0)
    output = model(inputs)
    check(output.detach(), torch.relu(inputs @ expected[0].t()) @ expected[1].t() + expected[2])
    output.square().mean().backward()
    say(float(model[0].weight.grad.full_tensor().sum()))


class Attention(nn.Module):
    def __init__(self, width, head):
        super().__init__()
        self.query, self.key, self.value, self.out = (nn.Linear(width, width, bias=False) for _ in range(4))
        self.head = head

    def forward(self, inputs):
        rows, length, _ = inputs.shape
        heads = [part(inputs).view(rows, length, -1, self.head).transpose(1, 2) for part in (self.query, self.key, self.value)]
        mixed = nn.functional.scaled_dot_product_attention(*heads, is_causal=True)
        return self.out(mixed.transpose(1, 2).reshape(rows, length, -1))


class Language(nn.Module):
    def __init__(self, words=16, width=16):
        super().__init__()
        torch.manual_seed(3)
        self.embedding, self.before = nn.Embedding(words, width), nn.LayerNorm(width)
        self.attention, self.norm = Attention(width, 4), nn.LayerNorm(width)
        self.output = nn.Linear(width, words, bias=False)

    def forward(self, ids):
        inputs = self.embedding(ids)
        return self.output(self.norm(inputs + self.attention(self.before(inputs))))


def sequence_parallel(model, mesh):
    whole = PrepareModuleInput(input_layouts=(Shard(1),), desired_input_layouts=(Replicate(),))
    return parallelize_module(model, mesh, {
        "embedding": RowwiseParallel(input_layouts=Replicate(), output_layouts=Shard(1)),
        "before": SequenceParallel(), "norm": SequenceParallel(), "attention": whole,
        "attention.query": ColwiseParallel(), "attention.key": ColwiseParallel(), "attention.value": ColwiseParallel(),
        "attention.out": RowwiseParallel(output_layouts=Shard(1)),
        "output": ColwiseParallel(input_layouts=Shard(1), output_layouts=Shard(-1), use_local_output=False)})


def language_steps(model, rows):
    optimizer = torch.optim.AdamW(model.parameters(), 0.01)
    for step in range(2):
        ids = torch.randint(0, 16, (4, 9), generator=torch.Generator().manual_seed(step))[rows]
        optimizer.zero_grad()
        with loss_parallel():
            loss = nn.functional.cross_entropy(model(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten())
            loss.backward()
        optimizer.step()
    whole = loss.full_tensor() if isinstance(loss, DTensor) else loss
    say(float(whole.detach()))


@program
def sequence_parallel_loss():
    language_steps(sequence_parallel(Language(), line()), slice(None))


@program
def sequence_and_shards():
    """Two kinds at once: FSDP over one dimension of the mesh, tensor parallel over the other."""
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("data", "tensor"))
    model = fully_shard(sequence_parallel(Language(), mesh["tensor"]), mesh=mesh["data"])
    half = mesh.get_local_rank("data")
    language_steps(model, slice(2 * half, 2 * half + 2))


@program
def dtensors():
    mesh = line()
    torch.manual_seed(0)
    whole = torch.randn(7, 8)  # uneven rows
    rows = distribute_tensor(whole, mesh, [Shard(0)])
    check(rows.full_tensor(), whole)
    columns = rows.redistribute(placements=[Shard(1)])
    check(columns.full_tensor(), whole)
    product = columns @ distribute_tensor(whole.t().contiguous(), mesh, [Shard(0)])  # a partial sum
    check(product.full_tensor(), whole @ whole.t())
    check(product.redistribute(placements=[Shard(0)]).redistribute(placements=[Replicate()]).to_local(), whole @ whole.t())
    linear = distribute_module(nn.Linear(8, 8), mesh)
    output = linear(distribute_tensor(whole, mesh, [Replicate()]))
    say(float(product.sum().full_tensor()), list(output.shape))


@program
def two_dimensions():
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("a", "b"))
    torch.manual_seed(0)
    whole = torch.randn(6, 10)
    tensor = distribute_tensor(whole, mesh, [Shard(0), Shard(1)])
    check(tensor.full_tensor(), whole)
    check(tensor.redistribute(placements=[Replicate(), Shard(0)]).full_tensor(), whole)
    ours = torch.tensor([float(dist.get_rank())])
    for name in ("a", "b"):
        dist.all_reduce(ours, group=mesh.get_group(name))
    say(float(ours))


@program
def ring_attention():
    """A user's ring of messages: blocks of keys and values go around."""
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    queries, keys, values = (torch.randn(2, 4 * world, 8) for _ in range(3))
    expected = nn.functional.scaled_dot_product_attention(queries, keys, values)
    query, block = queries.chunk(world, 1)[rank], torch.stack([keys.chunk(world, 1)[rank], values.chunk(world, 1)[rank]])
    outs, scales = [], []
    for turn in range(world):
        following, works = torch.empty_like(block), []
        if turn + 1 < world:
            works = dist.batch_isend_irecv([dist.P2POp(dist.isend, block, (rank + 1) % world),
                                            dist.P2POp(dist.irecv, following, (rank - 1) % world)])
        scores = query @ block[0].transpose(1, 2) / 8 ** 0.5
        scales.append(scores.logsumexp(-1, keepdim=True))
        outs.append(scores.softmax(-1) @ block[1])
        for work in works:
            work.wait()
        block = following
    weights = torch.stack(scales).softmax(0)
    check((torch.stack(outs) * weights).sum(0), expected.chunk(world, 1)[rank])


class Experts(nn.Module):
    """Tokens go to the rank of their expert and back, in numbers that the gate determines."""

    def __init__(self, width):
        super().__init__()
        torch.manual_seed(0)
        self.gate = nn.Linear(width, dist.get_world_size(), bias=False)
        torch.manual_seed(1 + dist.get_rank())
        self.expert = nn.Linear(width, width)

    def forward(self, tokens):
        import torch.distributed.nn.functional as moved

        weight, expert = self.gate(tokens).softmax(-1).max(-1)
        order = expert.argsort(stable=True)
        sends = torch.bincount(expert, minlength=dist.get_world_size())
        receives = torch.empty_like(sends)
        dist.all_to_all_single(receives, sends)
        there = moved.all_to_all_single(tokens.new_empty(int(receives.sum()), tokens.shape[1]), tokens[order],
                                        receives.tolist(), sends.tolist())
        back = moved.all_to_all_single(torch.empty_like(tokens), self.expert(there), sends.tolist(), receives.tolist())
        return torch.zeros_like(tokens).index_copy(0, order, back) * weight[:, None]


@program
def experts():
    model = Experts(8)
    optimizer, batch = torch.optim.SGD(model.parameters(), 0.05), batch_of(8, 10)
    for step in range(2):
        optimizer.zero_grad()
        (model(batch(step)) - batch(step)).square().mean().backward()
        dist.all_reduce(model.gate.weight.grad)
        optimizer.step()
    say(float(model.gate.weight.detach().sum()))


main()
