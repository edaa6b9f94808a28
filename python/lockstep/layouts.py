"""How the wrappers of torch and TorchRec spread a model over ranks: the names of its tensors, their placements, blocks and shares."""

import torch
import torch.distributed as dist
from torch import nn

WRAPPED = ("_orig_mod.", "_checkpoint_wrapped_module.", "_fsdp_wrapped_module.")


def has_values(tensor):
    """Those of torch.func's transforms, of torch.export, of fake modes and of traces have none."""
    return not (tensor.is_meta or torch.jit.is_tracing() or torch._C._functorch.is_functorch_wrapped_tensor(tensor)
                or torch._guards.detect_fake_mode([tensor]) is not None)


def plain(name):
    """A name without the parts that wrappers of modules add."""
    for wrapped in WRAPPED:
        name = name.replace(wrapped, "")
    return name


def placement(of):
    """The text of a DTensor's placement in one dimension of the mesh: R, S(0), P(sum)."""
    kind = type(of).__name__
    if kind == "_StridedShard":
        return f"_S({of.dim}, {of.split_factor})"
    if of.is_shard():
        return f"S({of.dim})"
    return f"P({of.reduce_op})" if of.is_partial() else "R"


def unwrapped(model):
    """The model without the wrappers of torch.compile, TorchRec and DeepSpeed."""
    while True:
        inner = getattr(model, "_orig_mod", None) or getattr(model, "_dmp_wrapped_module", None)
        if inner is None and type(model).__name__ == "DeepSpeedEngine":
            inner = model.module
        if inner is None:
            return model
        model = inner


def data_parallel(model):
    """The share of the whole's gradient that a rank's gradient has (the divisor of DDP and FSDP2), and the ranks of the shares."""
    if isinstance(model, nn.parallel.DistributedDataParallel):
        return 1 / model.process_group.size(), dist.get_process_group_ranks(model.process_group)
    state = getattr(model, "_get_fsdp_state", None)
    if state is not None:
        for module in model.modules():
            group = getattr(module._get_fsdp_state(), "_fsdp_param_group", None) if hasattr(
                module, "_get_fsdp_state") else None
            if group is not None:
                return 1 / group.mesh_info.mesh.size(), group.mesh_info.mesh.mesh.flatten().tolist()
    if not dist.is_initialized() or dist.get_world_size() == 1:
        return 1, []
    if any(hasattr(parameter, "placements") for parameter in model.parameters()):
        return 1, []  # tensor parallel only: the ranks share one loss
    return None, []


def shares_loss(tensor, ranks):
    """Whether a DTensor spans data-parallel ranks, which then have one loss."""
    mesh = getattr(tensor, "device_mesh", None)
    return mesh is not None and len(set(mesh.mesh.flatten().tolist()) & set(ranks)) > 1


def is_fused(parameter):
    """Whether the backward pass updates a parameter, which then has no gradient: TorchRec's fused tables."""
    return type(parameter).__name__ == "TableBatchedEmbeddingSlice" or hasattr(parameter, "_in_backward_optimizers")


def flat_names(root):
    """The parameters that FSDP stores as parts of flat parameters, which are no blocks of a placement."""
    names = []
    for at, module in root.named_modules():
        handle = getattr(module, "_handle", None)
        flat = getattr(handle, "flat_param", None)
        if flat is not None and handle.uses_sharded_strategy:
            names += [plain(f"{at}.{name}" if at else name) for name in flat._fqns]
    return names


def flat_parts(root):
    """This rank's parts of these parameters: (name, a part of the flat parameter)."""
    for at, module in root.named_modules():
        flat = getattr(getattr(module, "_handle", None), "flat_param", None)
        if flat is not None and flat.requires_grad and module._handle.uses_sharded_strategy:
            mine = getattr(flat, "_local_shard", flat).detach()  # which the first forward sets
            for name, info in zip(flat._fqns, flat._shard_param_infos):
                if info.in_shard:
                    yield plain(f"{at}.{name}" if at else name), mine.narrow(0, info.offset_in_shard, info.numel_in_shard)


def _block(shards, columns):
    """Where a rank's shards of a table are: (offset, their number, rows and columns of each); None: they are not one block.

    TorchRec stacks shards of columns by rows.
    """
    if not shards:
        return [0, 0], 1, [0, columns]
    (row, column), size = shards[0].shard_offsets, list(shards[0].shard_sizes)
    joined = all(list(shard.shard_sizes) == size and list(shard.shard_offsets) == [row, column + at * size[1]]
                 for at, shard in enumerate(shards))
    return ([row, column], len(shards), size) if joined else None


def table_blocks(root, rank):
    """{parameter: the block of this rank} of the tables that TorchRec has split. All ranks have None if one rank has no single block."""
    blocks = {}
    for at, module in root.named_modules():
        tables = getattr(module, "module_sharding_plan", {})
        for name, _ in module.named_parameters():
            sharding = tables.get(name.split(".")[-2]) if name.count(".") and tables else None
            shards = getattr(getattr(sharding, "sharding_spec", None), "shards", ())
            if len(shards) > 1:
                columns = max(shard.shard_offsets[1] + shard.shard_sizes[1] for shard in shards)
                of = {one: [shard for shard in shards if shard.placement.rank() == one]
                      for one in {rank, *(shard.placement.rank() for shard in shards)}}
                known = all(_block(mine, columns) for mine in of.values())
                blocks[plain(f"{at}.{name}" if at else name)] = _block(of[rank], columns) if known else None
    return blocks
