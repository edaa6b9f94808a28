"""Weights from which FSDP2 takes its shards: all ranks must have the same, or load one state afterwards."""

from lockstep import torch_client as client
from lockstep import watch_values


def shards(param, whole):
    """A parameter of FSDP2 was made from the whole weight that this rank has."""
    if whole.is_meta or not watch_values.is_plain(whole.detach()):
        return
    local = param.sharded_param.to_local().detach()
    # A loaded state may have the same: no elements, the ones of a norm, the zeros of a bias.
    is_uniform = not local.numel() or bool((local == local.flatten()[0]).all())
    param._lockstep = None if is_uniform else (watch_values.digest([whole]), watch_values.digest([local]))


def note(optimizer_parameters, works):
    """For FSDP2's parameters that still have their initial values: the whole. works: observed models, with modules and named
    parameters. Each rank sends a note for each model, if empty: the next model's has the same key.
    """
    ids, items = {id(one) for one in optimizer_parameters}, {}
    for one, modules, named in works:
        names = {id(parameter): name for name, parameter in named}
        for part in modules:
            group = part._get_fsdp_state()._fsdp_param_group if hasattr(part, "_get_fsdp_state") else None
            for param in group.fsdp_params if group is not None else ():
                if not hasattr(param, "_lockstep") or id(param.sharded_param) not in ids:
                    continue
                of, initial = items.setdefault(one, []), param._lockstep
                param._lockstep = None
                if initial is not None:
                    same = watch_values.digest([param.sharded_param.to_local()]) == initial[1]
                    of.append(client.Item(name=f"the initial {names.get(id(param.sharded_param), 'parameter')}".encode(), shown=(
                        f"a shard of weights with the hash {initial[0]}" if same else "loaded").encode()))
    for number, (one, of) in enumerate(items.items()):
        client.get().note("model.differs", f"model {number + 1} of fully_shard", "each rank shards its own weights: use one seed, or load one "
                          "state on all ranks", one.members, items=of)
