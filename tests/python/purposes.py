"""What calls move, by the names of the modules that make them: purposes.py LOCKSTEP runs itself on two ranks."""
import concurrent.futures
import json
import os
import subprocess
import sys
import tempfile

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
}


def program(folder):
    import torch
    import torch.distributed as dist
    import torch.distributed.checkpoint as dcp
    from torch import nn
    from torch.distributed.fsdp import FullyShardedDataParallel, fully_shard
    from torch.distributed.optim import ZeroRedundancyOptimizer
    from torch.distributed.tensor import Replicate, Shard, distribute_tensor, init_device_mesh

    class Summed(nn.Module):
        def forward(self, value):
            dist.all_reduce(value.detach().clone())
            return value

    dist.init_process_group("gloo")
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
    FullyShardedDataParallel(nn.Sequential(nn.Linear(3, 4), Summed()), device_id=torch.device("cpu"))(torch.ones(4, 3))
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
    right = done.returncode == 0 and not case["findings"] and PURPOSES <= calls
    if right and where == [f"{os.path.abspath(__file__)}:{line}"]:
        return 0
    print(done.stdout, done.stderr, f"missing: {PURPOSES - calls}", f"calls: {calls}", f"the thread: {where}", sep="\n")
    return 1


if __name__ == "__main__":
    sys.exit(program(sys.argv[2]) if sys.argv[1] == "--program" else main(os.path.abspath(sys.argv[1])))
