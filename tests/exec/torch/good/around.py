"""Features used beside collectives: checkpoints, threads, processes, compiled code, remote calls."""
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import warnings

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as checkpoints
from torch import nn
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

from common import batch_of, check, main, net, program, say, say_sum, train


def shared_folder():
    """A folder of all ranks."""
    name = [tempfile.mkdtemp() if dist.get_rank() == 0 else None]
    dist.broadcast_object_list(name, 0)
    return name[0]


def remove(folder):
    dist.barrier()
    if dist.get_rank() == 0:
        shutil.rmtree(folder)


def sharded():
    model = fully_shard(net(), mesh=init_device_mesh("cpu", (dist.get_world_size(),)))
    return model, torch.optim.AdamW(model.parameters(), 0.01)


def whole_sum(model):
    return sum(float(parameter.full_tensor().detach().sum()) for parameter in model.parameters())


@program
def checkpoint():
    folder = shared_folder()
    model, optimizer = sharded()
    train(model, optimizer, batch_of(8), 2)
    model_state, optimizer_state = get_state_dict(model, optimizer)
    checkpoints.save({"model": model_state, "optimizer": optimizer_state}, checkpoint_id=folder)
    other, other_optimizer = sharded()
    model_state, optimizer_state = get_state_dict(other, other_optimizer)
    checkpoints.load({"model": model_state, "optimizer": optimizer_state}, checkpoint_id=folder)
    set_state_dict(other, other_optimizer, model_state_dict=model_state, optim_state_dict=optimizer_state)
    check(whole_sum(other), whole_sum(model))
    say(train(model, optimizer, batch_of(8), 1), train(other, other_optimizer, batch_of(8), 1))
    remove(folder)


@program
def checkpoint_behind():
    """A checkpoint that is written during the next steps, with a separate group."""
    folder, group = shared_folder(), dist.new_group(backend="gloo")
    model, optimizer = sharded()
    for step in range(2):
        train(model, optimizer, batch_of(8), 1)
        saved = checkpoints.async_save({"model": model.state_dict()}, checkpoint_id=f"{folder}/{step}", process_group=group)
        say(train(model, optimizer, batch_of(8), 1))
        saved.result()
    remove(folder)


@program
def saved_by_one():
    folder = shared_folder()
    model = DistributedDataParallel(net())
    train(model, torch.optim.SGD(model.parameters(), 0.1), batch_of(8), 1)
    if dist.get_rank() == 0:
        torch.save(model.state_dict(), f"{folder}/model.pt")
    dist.barrier()
    other = DistributedDataParallel(net(seed=5))
    other.load_state_dict(torch.load(f"{folder}/model.pt"))
    say_sum(other)
    remove(folder)


@program
def thread_with_group():
    """A second thread's collectives have a separate group."""
    own, results = dist.new_group(), []

    def background():
        for turn in range(5):
            tensor = torch.full((3,), float(dist.get_rank() + turn))
            dist.all_reduce(tensor, group=own)
            results.append(float(tensor[0]))

    thread = threading.Thread(target=background)
    thread.start()
    for turn in range(5):
        dist.all_reduce(torch.ones(4 + turn))
    thread.join()
    say(results)


@program
def threads_with_groups():
    """Two threads in turn issue the calls that the first waits for."""
    groups, works = [dist.new_group() for _ in range(2)], {}

    def issue(at):
        tensor = torch.ones(2) * at
        works[at] = (tensor, dist.all_reduce(tensor, group=groups[at], async_op=True))

    for at in range(2):
        thread = threading.Thread(target=issue, args=(at,))
        thread.start()
        thread.join()
    for at in range(2):
        works[at][1].wait()
    say(float(works[1][0][0]))


@program
def children():
    """A process of another program, and one with data for a loader."""
    told = subprocess.run([sys.executable, "-c", "print(6 * 7)"], capture_output=True, text=True, check=True).stdout.strip()
    loader = torch.utils.data.DataLoader(torch.arange(8.0), batch_size=2, num_workers=1)
    total = sum(batch.sum() for batch in loader)
    dist.all_reduce(total)
    say(told, float(total))


@program
def compiled():
    import torch.distributed._functional_collectives as functional

    @torch.compile(backend="aot_eager")
    def scaled(tensor):
        total = functional.all_reduce(tensor * 2, "sum", dist.group.WORLD)
        return functional.all_gather_tensor(total.relu(), 0, dist.group.WORLD).sum()

    with warnings.catch_warnings():
        warnings.simplefilter("error")  # nothing of the backend is traced
        say(float(scaled(torch.arange(4.0) + dist.get_rank())))
    model = DistributedDataParallel(net())
    fast = torch.compile(model, backend="aot_eager")
    say(train(fast, torch.optim.SGD(model.parameters(), 0.1), batch_of(8), 2))


@program
def groups_again():
    """The whole job's group made twice."""
    tensor = torch.ones(2)
    dist.all_reduce(tensor)
    again = dist.new_group()
    dist.all_reduce(tensor, group=again)
    dist.destroy_process_group(again)
    another = dist.new_group()
    dist.all_reduce(tensor, group=another)
    say(float(tensor[0]))


@program
def one_rank_more_work():
    """Ranks that are slow, and collectives by subsets in turn."""
    pair = dist.new_group([0, 1])
    tensor = torch.ones(1000)
    for step in range(10):
        if step % 2 == dist.get_rank():
            torch.randn(200, 200).matmul(torch.randn(200, 200)).sum()
        dist.all_reduce(tensor, group=pair if step % 3 else None)
        tensor /= dist.get_world_size()
    say(float(tensor[0]))


@program
def remote_calls():
    """torch.distributed.rpc beside the group."""
    import torch.distributed.rpc as rpc

    rank, store = dist.get_rank(), dist.distributed_c10d._get_default_store()
    folder = shared_folder()
    options = rpc.TensorPipeRpcBackendOptions(num_worker_threads=2, init_method=f"file://{folder}/rendezvous",
                                              _transports=["uv"])
    rpc.init_rpc(f"worker{rank}", rank=rank, world_size=dist.get_world_size(), rpc_backend_options=options)
    if rank == 0:
        total = rpc.rpc_sync("worker1", torch.add, args=(torch.ones(2), 3))
        check(total, [4.0, 4.0])
    tensor = torch.ones(1)
    dist.all_reduce(tensor)
    rpc.shutdown()
    say(float(tensor), int(store is not None))
    remove(folder)


@program
def logging_of_statistics():
    """Statistics that only rank 0 prints, computed by all."""
    model = net()
    norms = [parameter.detach().norm() for parameter in model.parameters()]
    stacked = torch.stack(norms)
    dist.reduce(stacked, 0, op=dist.ReduceOp.MAX)
    if dist.get_rank() == 0:
        say(float(stacked.sum()))


class Synchronised(nn.Module):
    """A batch norm whose statistics all ranks sum, by functions with gradients."""

    def forward(self, inputs):
        import torch.distributed.nn.functional as summed

        count = inputs.shape[0] * dist.get_world_size()
        mean = summed.all_reduce(inputs.sum(0)) / count
        variance = summed.all_reduce((inputs - mean).square().sum(0)) / count
        return (inputs - mean) / (variance + 1e-5).sqrt()


@program
def synchronised_norm():
    torch.manual_seed(0)
    model = DistributedDataParallel(nn.Sequential(nn.Linear(8, 8), Synchronised(), nn.Linear(8, 8)))
    say(train(model, torch.optim.SGD(model.parameters(), 0.1), batch_of(8), 2))
    say_sum(model)


if __name__ == "__main__":
    main()
