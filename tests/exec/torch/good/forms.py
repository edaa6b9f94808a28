"""Every form of a collective, with its expected result."""
import datetime

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional
import torch.distributed.nn.functional as differentiable

from common import check, main, program, say

TYPES = (torch.int8, torch.uint8, torch.int32, torch.int64, torch.float16, torch.bfloat16, torch.float32, torch.float64)


def me():
    return dist.get_rank(), dist.get_world_size()


@program
def all_reduce():
    rank, world = me()
    for op, expected in ((dist.ReduceOp.SUM, world * (world + 1) // 2), (dist.ReduceOp.MAX, world), (dist.ReduceOp.MIN, 1),
                         (dist.ReduceOp.PRODUCT, 6 if world == 3 else 2)):
        for dtype in TYPES:
            tensor = torch.full((5,), rank + 1, dtype=dtype)
            dist.all_reduce(tensor, op=op)
            check(tensor.double(), [float(expected)] * 5)
    bits = torch.tensor([1 << rank])
    dist.all_reduce(bits, op=dist.ReduceOp.BOR)
    check(bits, [(1 << world) - 1])
    number = torch.tensor([1 + 2j]) * (rank + 1)
    dist.all_reduce(number)
    say(number.tolist())


@program
def before_the_wait():
    """Uses of a tensor that are allowed before the wait, and waits of each kind."""
    rank, world = me()
    whole = torch.full((2, world), float(rank))
    total, sent, got = torch.ones(4), torch.full((3,), float(rank)), torch.zeros(3)
    works = [dist.all_reduce(part, async_op=True) for part in whole.unbind()]
    work = dist.all_reduce(total, async_op=True)
    rows, empty, count = total.view(2, 2), torch.empty_like(total), total.numel()
    messages = [dist.isend(sent, (rank + 1) % world), dist.irecv(got, (rank - 1) % world)]
    say(sent.sum().item(), count, empty.shape)
    for one in (*works, work, *messages):
        one.wait()
    check(rows, torch.full((2, 2), float(world)))
    check(whole, torch.full((2, world), sum(range(world)) * 1.0))
    check(got, [float((rank - 1) % world)] * 3)
    sent.zero_()
    work = dist.broadcast(sent, 0, async_op=True)
    say(sent.tolist() if rank == 0 else None)  # the root's data stay as they are
    dist.barrier()  # waits for all calls of the group
    check(sent, [0.0] * 3)
    work = dist.all_reduce(total, async_op=True)
    while not work.is_completed():
        pass
    check(total, [float(world * world)] * 4)
    check(dist.all_reduce(total, async_op=True).get_future().wait()[0], [float(world ** 3)] * 4)
    assert type(total) is torch.Tensor


@program
def reduce():
    rank, world = me()
    for root in range(world):
        tensor = torch.arange(4.0) * (rank + 1)
        dist.reduce(tensor, root)
        if rank == root:
            check(tensor, torch.arange(4.0) * 6)


@program
def broadcast():
    rank, world = me()
    for root in range(world):
        for dtype in (*TYPES, torch.bool, torch.complex64):
            tensor = torch.ones(3, dtype=dtype) if rank == root else torch.zeros(3, dtype=dtype)
            dist.broadcast(tensor, root)
            assert bool((tensor == 1).all())


@program
def gathers():
    rank, world = me()
    blocks = [torch.zeros(2, 3) for _ in range(world)]
    dist.all_gather(blocks, torch.full((2, 3), float(rank)))
    check(torch.stack(blocks)[:, 0, 0], [0.0, 1.0, 2.0])
    whole = torch.zeros(2 * world)
    dist.all_gather_into_tensor(whole, torch.full((2,), float(rank)))
    check(whole, [0.0, 0, 1, 1, 2, 2])
    blocks = [torch.zeros(2) for _ in range(world)] if rank == 1 else None
    dist.gather(torch.full((2,), float(rank)), blocks, dst=1)
    if rank == 1:
        check(torch.stack(blocks)[:, 1], [0.0, 1.0, 2.0])


@program
def uneven_gather():
    rank, world = me()
    blocks = [torch.zeros(member + 1) for member in range(world)]
    mine = torch.full((rank + 1,), float(rank))
    size = max(block.numel() for block in blocks)  # gloo's all_gather takes equal blocks: padded, as users do it
    padded = [torch.zeros(size) for _ in range(world)]
    dist.all_gather(padded, torch.nn.functional.pad(mine, (0, size - mine.numel())))
    check(torch.cat([block[:member + 1] for member, block in enumerate(padded)]), [0.0, 1, 1, 2, 2, 2])


@program
def scatter_lists():
    rank, world = me()
    for root in range(world):
        apart = [torch.full((4,), float(member)) for member in range(world)]
        rows = list(torch.arange(4.0 * world).view(world, 4))  # parts of one tensor
        for blocks in (apart, rows, list(reversed(rows)), [apart[0]] * world):
            out = torch.zeros(4)
            dist.scatter(out, blocks if rank == root else None, src=root)
            check(out, blocks[rank])


@program
def reduce_scatters():
    rank, world = me()
    out = torch.zeros(2)
    dist.reduce_scatter(out, [torch.full((2,), float(member * (rank + 1))) for member in range(world)])
    check(out, [6.0 * rank] * 2)
    dist.reduce_scatter_tensor(out, torch.arange(2.0 * world) * (rank + 1))
    check(out, [6.0 * 2 * rank, 6.0 * (2 * rank + 1)])


@program
def all_to_alls():
    rank, world = me()
    out = torch.zeros(world)
    dist.all_to_all_single(out, torch.arange(float(world)) + 10 * rank)
    check(out, [rank + 10.0 * member for member in range(world)])
    sends = [rank + member for member in range(world)]  # of some none
    receives = [member + rank for member in range(world)]
    out = torch.zeros(sum(receives), 2)
    dist.all_to_all_single(out, torch.full((sum(sends), 2), float(rank)), receives, sends)
    check(out[:, 0], [float(member) for member in range(world) for _ in range(receives[member])])


@program
def no_elements():
    rank, world = me()
    dist.all_reduce(torch.zeros(0))
    dist.broadcast(torch.zeros(0, 4), 0)
    dist.all_to_all_single(torch.zeros(0), torch.zeros(0), [0] * world, [0] * world)
    splits = [0] * world
    splits[0] = 3
    out = torch.zeros(3 * world if rank == 0 else 0)
    dist.all_to_all_single(out, torch.ones(3), [3] * world if rank == 0 else [0] * world, splits)
    say(float(out.sum()))


@program
def not_contiguous():
    rank, world = me()
    tensor = (torch.arange(6.0).view(2, 3) * (rank + 1)).t()
    dist.all_reduce(tensor.contiguous())
    wide = torch.zeros(4, 6)
    view = wide[1:3, 2:5]
    copy = view.contiguous()
    dist.broadcast(copy.add_(rank), 2)
    view.copy_(copy)
    blocks = [torch.zeros(4, 2).t() for _ in range(world)]
    dist.all_gather(blocks, torch.arange(8.0).view(2, 4) + rank)
    check(blocks[2][0, 0], 2.0)
    say(float(wide.sum()))


@program
def in_place():
    rank, world = me()
    whole = torch.zeros(2 * world)
    mine = whole[2 * rank:2 * rank + 2]
    mine.fill_(rank + 1)
    dist.all_gather_into_tensor(whole, mine)
    check(whole, [1.0, 1, 2, 2, 3, 3])
    rows = torch.zeros(world, 3)
    rows[rank] = rank
    dist.all_gather(list(rows.unbind()), rows[rank].clone())
    check(rows[:, 0], [0.0, 1.0, 2.0])


@program
def asynchronous():
    rank, world = me()
    tensors = [torch.full((size,), rank + 1.0) for size in (1, 1000, 30000)]
    works = [dist.all_reduce(tensor, async_op=True) for tensor in tensors]
    for work in reversed(works):
        work.wait()
    assert all(bool((tensor == 6).all()) for tensor in tensors)
    doubled = dist.all_reduce(torch.ones(3), async_op=True).get_future().then(lambda future: future.value()[0] * 2)
    check(doubled.wait(), [6.0] * 3)
    whole = torch.zeros(world)
    work = dist.all_gather_into_tensor(whole, torch.tensor([float(rank)]), async_op=True)
    while not work.is_completed():
        pass
    work.wait()
    check(whole, [0.0, 1.0, 2.0])


@program
def coalesced():
    rank, world = me()
    tensors = [torch.full((3,), rank + 1.0), torch.full((5,), rank + 2.0)]
    with dist._coalescing_manager(async_ops=False):
        for tensor in tensors:
            dist.all_reduce(tensor)
    check(tensors[0], [6.0] * 3)
    summed = functional.all_reduce_coalesced([torch.ones(2), torch.ones(3) * rank], "sum", dist.group.WORLD)
    check(torch.cat(summed), [3.0] * 5)


@program
def objects():
    rank, world = me()
    everything = [None] * world
    dist.all_gather_object(everything, {"rank": rank, "name": "x" * (10 * rank)})
    assert [each["rank"] for each in everything] == [0, 1, 2]
    given = [{"rate": 0.1}, (1, 2)] if rank == 2 else [None, None]
    dist.broadcast_object_list(given, src=2)
    assert given[1] == (1, 2)
    out = [None]
    dist.scatter_object_list(out, ["a", "bb", "ccc"] if rank == 1 else None, src=1)
    gathered = [None] * world if rank == 0 else None
    dist.gather_object(out[0], gathered, dst=0)
    if rank == 0:
        say(gathered)
    if rank == 0:
        dist.send_object_list([{"to": 1}], dst=1)
    elif rank == 1:
        dist.recv_object_list(out, src=0)
        assert out[0]["to"] == 1


@program
def messages():
    rank, world = me()
    after, before = (rank + 1) % world, (rank - 1) % world
    inbox = torch.zeros(4)
    for work in dist.batch_isend_irecv([dist.P2POp(dist.isend, torch.full((4,), float(rank)), after),
                                        dist.P2POp(dist.irecv, inbox, before)]):
        work.wait()
    check(inbox, [float(before)] * 4)
    if rank == 0:
        for tag in (7, 8):
            dist.send(torch.tensor([float(tag)]), 1, tag=tag)
    elif rank == 1:
        for tag in (7, 8):
            tensor = torch.zeros(1)
            dist.recv(tensor, 0, tag=tag)
            check(tensor, [float(tag)])
    if rank == 2:
        values = []
        for _ in range(2):
            tensor = torch.zeros(1)
            sender = dist.recv(tensor)
            assert int(tensor) == sender
            values.append(sender)
        assert sorted(values) == [0, 1]
    else:
        dist.send(torch.tensor([float(rank)]), 2)


@program
def ring_of_sums():
    """A user's ring all_reduce of messages."""
    rank, world = me()
    chunks = list((torch.arange(6.0) * (rank + 1)).chunk(world))
    for phase in range(2):
        for turn in range(world - 1):
            out, into = (rank - turn + phase) % world, (rank - turn - 1 + phase) % world
            inbox = torch.zeros(2)
            sent = dist.isend(chunks[out].clone(), (rank + 1) % world)
            dist.recv(inbox, (rank - 1) % world)
            sent.wait()
            chunks[into] = chunks[into] + inbox if phase == 0 else inbox
    check(torch.cat(chunks), torch.arange(6.0) * 6)


@program
def groups():
    rank, world = me()
    pairs = [dist.new_group([member, (member + 1) % world]) for member in range(world)]
    tensor = torch.tensor([float(rank)])
    for member, pair in enumerate(pairs):
        if rank in (member, (member + 1) % world):
            dist.all_reduce(tensor, group=pair)
    say(float(tensor))
    some = dist.new_group([0, 2])
    if rank != 1:
        other = torch.full((3,), float(rank))
        dist.broadcast(other, src=2, group=some)
        check(other, [2.0] * 3)
        dist.broadcast(other, group_src=0, group=some)
        dist.barrier(group=some)
    own, _ = dist.new_subgroups(1)
    dist.all_reduce(tensor, group=own)


@program
def split_group():
    """Groups split from an existing one, by the same lists on all ranks."""
    rank, world = me()
    own, every = dist.new_subgroups_by_enumeration([[0, 1], [2]])
    tensor = torch.ones(2)
    dist.all_reduce(tensor, group=own)
    check(tensor, [float(len(dist.get_process_group_ranks(own)))] * 2)
    dist.barrier()
    for group in every:
        if dist.get_rank(group) >= 0:
            dist.destroy_process_group(group)


@program
def groups_renewed():
    """Numbers of groups restart with each init_process_group, and the groups of equal numbers have other ranks."""
    for first in (1, 0):
        pairs = [dist.new_group([member, member + 1]) for member in (first, 1 - first)]
        for pair in pairs:
            if dist.get_rank(pair) >= 0:
                tensor = torch.ones(1)
                dist.all_reduce(tensor, group=pair)
                check(tensor, [2.0])
        store = dist.PrefixStore(f"renewed {first}", dist.distributed_c10d._get_default_store())
        rank, world = me()
        dist.barrier()
        dist.destroy_process_group()
        dist.init_process_group("gloo", store=store, rank=rank, world_size=world)


@program
def barriers():
    rank, world = me()
    for _ in range(3):
        dist.barrier()
    work = dist.barrier(async_op=True)
    work.wait()
    dist.monitored_barrier(timeout=datetime.timedelta(seconds=600))
    dist.monitored_barrier(timeout=datetime.timedelta(seconds=600), wait_all_ranks=True)


@program
def functional_forms():
    rank, world = me()
    group = dist.group.WORLD
    tensor = torch.arange(6.0) * (rank + 1)
    check(functional.all_reduce(tensor, "sum", group), torch.arange(6.0) * 6)
    check(functional.reduce_scatter_tensor(tensor, "sum", 0, group), torch.arange(6.0)[2 * rank:2 * rank + 2] * 6)
    whole = functional.all_gather_tensor(tensor.view(2, 3), 1, group)
    assert whole.shape == (2, 9)
    check(functional.broadcast(tensor, 1, group), torch.arange(6.0) * 2)
    moved = functional.all_to_all_single(tensor, None, None, group)
    check(moved[:2], torch.arange(6.0)[2 * rank:2 * rank + 2])
    say(float(whole.sum()), rank + 0.0)


@program
def differentiable_forms():
    rank, world = me()
    tensor = torch.full((3,), rank + 1.0, requires_grad=True)
    total = differentiable.all_reduce(tensor * 2)
    total.sum().backward()
    check(tensor.grad, [2.0 * world] * 3)
    tensor.grad = None
    torch.stack(differentiable.all_gather(tensor)).square().sum().backward()
    check(tensor.grad, [2.0 * (rank + 1) * world] * 3)
    say(float(total.detach().sum()))


@program
def sparse():
    rank, world = me()
    tensor = torch.sparse_coo_tensor([[rank, 4]], [1.0, 2.0], (6,), check_invariants=True)
    dist.all_reduce(tensor)
    check(tensor.to_dense(), [1.0, 1, 1, 0, 6, 0])


@program
def store():
    """Keys that ranks exchange beside collectives."""
    rank, world = me()
    shared = dist.distributed_c10d._get_default_store()
    shared.set(f"key{rank}", str(rank))
    shared.wait([f"key{member}" for member in range(world)])
    assert [int(shared.get(f"key{member}")) for member in range(world)] == [0, 1, 2]
    shared.add("count", 1)
    dist.barrier()
    say(shared.add("count", 0))


main()
