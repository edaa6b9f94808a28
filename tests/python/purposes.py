"""The data of calls, by the names of the modules that make them: purposes.py LOCKSTEP runs itself on two ranks."""
import concurrent.futures
import json
import os
import subprocess
import sys
import tempfile
from collections import OrderedDict

PURPOSES = {
    ("broadcast", "parameters and buffers 0.weight, 0.bias, 1.weight, 1.bias, 1.running_mean, 1.running_var, "
                  "1.num_batches_tracked"),
    ("broadcast", "buffers 1.running_mean, 1.running_var, 1.num_batches_tracked"),
    ("all_gather", "shapes of parameters"),
    ("broadcast", "objects of broadcast_object_list"),
    ("all_gather", "objects of all_gather_object"),
    ("gather", "objects of gather_object"),
    ("scatter", "objects of scatter_object_list"),
    ("all_gather", "redistribute S(0) to R"),
    ("broadcast", "updated parameters"),
    ("gather", "checkpoint: plan"),
    ("gather", "checkpoint: write"),
    ("reduce_scatter", "gradients of 0.weight, 0.bias"),
    ("all_gather", "parameters 0.weight, 0.bias"),
    ("all_reduce", None),  # the program's own, in the forward of a module of FSDP's
    ("all_gather", "parameters first.0.weight, first.0.bias"),  # of FSDP's first version
    ("reduce_scatter", "gradients of first.0.weight, first.0.bias"),
    ("all_gather", "parameters second.0.weight, second.0.bias"),  # with the original parameters
    ("reduce_scatter", "gradients of second.0.weight, second.0.bias"),
    ("all_reduce", "norm of gradients"),
    ("all_reduce", "gradients of 0.weight, 0.bias"),  # by a communication hook of DDP's
    ("send", "first messages of stages"),
    ("send", "shapes of stage 0"),
    ("send", "activations of stage 0"),
    ("send", "gradients of stage 1"),
    ("send", "activations of stage 2"),  # of the schedule with several stages for a rank
    ("send", "gradients of stage 3"),
}


def pipelines():
    import torch
    import torch.distributed as dist
    from torch import nn
    from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleGPipe, ScheduleInterleaved1F1B

    rank, group = dist.get_rank(), dist.new_group(group_desc="pipeline")
    for schedule, numbers in ((ScheduleGPipe, [rank]), (Schedule1F1B, [rank]), (ScheduleInterleaved1F1B, [rank, rank + 2])):
        stages = [PipelineStage(nn.Linear(3, 3), at, 2 * len(numbers), torch.device("cpu"), group=group) for at in numbers]
        loss = {"loss_fn": lambda out, target: (out - target).square().mean()}
        made = schedule(stages if len(stages) > 1 else stages[0], 4, **loss)
        given = (torch.ones(8, 3),) if rank == 0 else ()
        made.step(*given, **({"target": torch.ones(8, 3), "losses": []} if rank == 1 else {}))


def program(folder):
    import torch
    import torch.distributed as dist
    import torch.distributed.checkpoint as dcp
    from torch import nn
    from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook
    from torch.distributed.fsdp import FullyShardedDataParallel, fully_shard
    from torch.distributed.optim import ZeroRedundancyOptimizer
    from torch.distributed.tensor import Replicate, Shard, distribute_tensor, init_device_mesh

    class Summed(nn.Module):
        def forward(self, value):
            dist.all_reduce(value.detach().clone())
            return value

    dist.init_process_group("gloo")
    on_cpu = {"device_id": torch.device("cpu")}
    model = nn.parallel.DistributedDataParallel(nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3)))
    optimizer = ZeroRedundancyOptimizer(model.parameters(), torch.optim.SGD, lr=0.1)
    for _ in range(2):
        model(torch.ones(4, 3)).sum().backward()
        optimizer.step()
    mine = [dist.get_rank()]
    dist.broadcast_object_list(mine)
    dist.all_gather_object([None, None], mine)
    dist.gather_object(mine, [None, None] if dist.get_rank() == 0 else None)
    dist.scatter_object_list([None], ["a", "b"])
    mesh = init_device_mesh("cpu", (2,))
    sharded = distribute_tensor(torch.ones(4), mesh, [Shard(0)])
    assert sharded.redistribute(placements=[Replicate()]).to_local().eq(1).all()
    dcp.save({"sharded": sharded}, checkpoint_id=folder)
    fsdp = fully_shard(nn.Sequential(nn.Linear(3, 4), Summed()), mesh=mesh)
    fsdp(torch.ones(4, 3)).sum().backward()
    for name, original in (("first", False), ("second", True)):
        part = FullyShardedDataParallel(nn.Sequential(nn.Linear(3, 3), Summed()), use_orig_params=original, **on_cpu)
        whole = FullyShardedDataParallel(nn.Sequential(OrderedDict([(name, part)])), use_orig_params=original, **on_cpu)
        whole(torch.ones(4, 3)).sum().backward()
        whole.clip_grad_norm_(1.0)
    hooked = nn.parallel.DistributedDataParallel(nn.Sequential(nn.Linear(3, 3)))
    hooked.register_comm_hook(None, allreduce_hook)
    hooked(torch.ones(4, 3)).sum().backward()
    pipelines()
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        pool.submit(dist.barrier).result()  # MARK thread
    dist.destroy_process_group()


def main(lockstep):
    with tempfile.TemporaryDirectory() as folder:
        report = os.path.join(folder, "report.json")
        done = subprocess.run([lockstep, "exec", "-n", "2", "--checks", "all", "--json", report, "--", sys.executable,
                               __file__, "--program", os.path.join(folder, "kept")], capture_output=True, text=True,
                              check=False)
        with open(report, encoding="utf-8") as file:
            case = json.load(file)["cases"][0]
    calls = {(call["call"], call.get("purpose")) for call in case["calls"]}
    with open(__file__, encoding="utf-8") as file:
        line = next(at for at, text in enumerate(file, 1) if text.endswith("# MARK thread\n"))
    where = [call["where"] for call in case["calls"] if call["call"] == "barrier"]
    groups = {call["communicator"] for call in case["calls"] if call["call"] == "send"}
    right = done.returncode == 0 and not case["findings"] and PURPOSES <= calls and groups == {"group 1 (pipeline)"}
    if right and where == [f"{os.path.abspath(__file__)}:{line}"]:
        return 0
    print(done.stdout, done.stderr, f"missing: {PURPOSES - calls}", f"calls: {calls}", f"the thread: {where}", sep="\n")
    return 1


if __name__ == "__main__":
    sys.exit(program(sys.argv[2]) if sys.argv[1] == "--program" else main(os.path.abspath(sys.argv[1])))
