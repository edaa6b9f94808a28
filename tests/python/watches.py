"""What ranks must share and what they need not: watches.py LOCKSTEP good | CASE... Each case is a program on two ranks."""
import contextlib
import json
import os
import re
import subprocess
import sys
import tempfile

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

HERE = os.path.abspath(__file__)
FINDINGS = {  # finding, ranks, what its text has
    "load": ("replica.diverged", [1], r"DistributedDataParallel: 0.weight differs on rank 1 before the first step\n"
             r".*element \[0, 0\]: \S+ on rank 1, \S+ on rank 0\n(.*\n)*.*rank 1: loaded a state at .*watches.py:\d+"),
    "rate": ("optimizer.differs", [1], r"settings of Adam for 0.weight differs on rank 1 before the first step\n"
             r".*rank 1: .*lr 0.2.*\n.*rank 0: .*lr 0.1"),
    "betas": ("optimizer.differs", [1], r"betas \(0.9, 0.99\)"),
    "scheduler": ("optimizer.differs", [1], r"settings of Adam for 0.weight differs on rank 1 after step 2"),
    "inner": ("replica.diverged", [1], r"after step 3\n(.*\n)*.*rank 1: no gradient was reduced in step 3: no forward of"),
    "inner_all": ("replica.diverged", [1], r"after step 1\n(.*\n)*.*ranks 0, 1: no gradient was reduced in step 1: no forward of"),
    "no_sync": ("replica.diverged", [1], r"after step 1\n(.*\n)*.*ranks 0, 1: no gradient was reduced in step 1: its forward ran in no_sync"),
    "last": ("replica.diverged", [1], r"0.weight differs on rank 1 after step 4"),
    "moment": ("replica.diverged", [1], r"exp_avg of 0.weight differs on rank 1 after step 4"),
    "replicate": ("replica.diverged", [1], r"replicas of DTensors: weight differs on rank 1 after step 1"),
    "order": ("collective.order_mismatch", [1], r"order of reductions on world: the gradient of 0.weight differs on rank 1 .*\n.*rank 1: is reduced as number 2 of 2"),
    "unwaited": ("request.never_waited", [], r"gradient of 0.weight is used by SGD in step 1"),
    "frozen": ("model.differs", [1], r"0.weight differs on rank 1 .*\n.*rank 1: float32 \[4, 4\], frozen"),
}


def net():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Linear(4, 4))


def step(model, optimizer, seed=None):
    torch.manual_seed(dist.get_rank() if seed is None else seed)
    optimizer.zero_grad()
    model(torch.randn(8, 4)).square().sum().backward()
    optimizer.step()


def adam(model, **options):
    return torch.optim.Adam(model.parameters(), **{"lr": 0.1, **options})


# ---- Defects ----
def of_ddp(case):
    odd, plain = dist.get_rank() == 1, net()
    if case == "frozen" and odd:
        plain[0].requires_grad_(False)
    model = DistributedDataParallel(plain)
    if case == "load" and odd:
        model.module.load_state_dict({name: value + 1 for name, value in plain.state_dict().items()})
    optimizer = adam(model, lr=0.2 if case == "rate" and odd else 0.1, betas=(0.9, 0.99 if case == "betas" and odd else 0.999))
    for at in range(4):
        inner = case == "inner_all" or (case == "inner" and odd and at == 2)
        with model.no_sync() if case == "no_sync" else contextlib.nullcontext():
            step(model.module if inner else model, optimizer)
        if inner and case == "inner":  # the other rank's reduction
            model(torch.ones(8, 4)).sum().backward()
        if case == "scheduler" and odd and at == 1:
            optimizer.param_groups[0]["lr"] /= 2
    if case == "moment" and odd:
        optimizer.state[plain[0].weight]["exp_avg"].data.add_(1)
    if case == "last" and odd:
        plain[0].weight.data.add_(1)  # without a version: as a kernel does


def of_replicate():
    from torch.distributed.tensor import Replicate, distribute_tensor, init_device_mesh

    weight = nn.Module()
    weight.weight = nn.Parameter(distribute_tensor(torch.ones(4), init_device_mesh("cpu", (2,)), [Replicate()]))
    optimizer = adam(weight)
    for _ in range(2):
        weight.weight.grad = torch.ones_like(weight.weight)
        if dist.get_rank() == 1:
            weight.weight.grad.to_local().neg_()
        optimizer.step()


def of_hand(case):
    model = nn.Sequential(nn.Linear(4, 4))
    if case == "order":
        model = nn.Sequential(nn.Linear(4, 4, bias=False), nn.Linear(4, 4, bias=False))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(2):
        model(torch.ones(1, 4)).sum().backward()
        named = [(name, value) for name, value in model.named_parameters()]
        if case == "order" and dist.get_rank() == 1:
            named.reverse()
        for name, value in named:
            work = dist.all_reduce(value.grad, async_op=case == "unwaited")
            if case == "unwaited" and name != "0.weight":
                work.wait()
        optimizer.step()


# ---- Correct programs ----
def good():
    for number, (options, accumulate) in enumerate(((dict(), 1), (dict(broadcast_buffers=False), 2),
                                                    (dict(static_graph=True), 1), (dict(find_unused_parameters=True), 1))):
        plain = net()
        plain[2].bias.requires_grad_(number % 2 == 0)
        model = DistributedDataParallel(plain, **options)
        optimizer = torch.optim.Adam([parameter for parameter in plain.parameters() if parameter.requires_grad])
        for _ in range(12):
            for part in range(accumulate):
                with model.no_sync() if part + 1 < accumulate else contextlib.nullcontext():
                    torch.manual_seed(dist.get_rank())
                    model(torch.randn(8, 4)).square().sum().backward()
            nn.utils.clip_grad_norm_(plain.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
            if dist.get_rank() == 0:  # averaged weights of one rank
                kept = {name: value.clone() for name, value in plain.state_dict().items()}
                plain.load_state_dict({name: value + 1 for name, value in kept.items()})
                plain.load_state_dict(kept)
    model = DistributedDataParallel(net())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)  # without a state, which would differ
    for _ in range(3):  # ranks step more or less often, and get the values of one that steps most
        with model.join():
            for _ in range(3 + dist.get_rank()):
                step(model, optimizer)
    again = DistributedDataParallel(model.module)
    for _ in range(3):
        step(again, optimizer)
    with_own = nn.Sequential(nn.Linear(4, 4))
    with_own[0].own = nn.Parameter(torch.ones(2 + dist.get_rank()))  # of this rank, as a sharded table is
    DistributedDataParallel._set_params_and_buffers_to_ignore_for_model(with_own, ["0.own"])
    model = DistributedDataParallel(with_own)
    step(model, adam(model))
    local = net()  # promises nothing
    optimizer = adam(local, lr=0.1 * (1 + dist.get_rank()))
    for _ in range(3):
        step(local, optimizer)
    of_local_sgd()
    of_adversaries()
    of_zero()
    of_fsdp()
    if dist.get_rank() == 0:  # after training: its own
        local[0].weight.data.zero_()


def of_local_sgd():
    model = DistributedDataParallel(net(), broadcast_buffers=False)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for at in range(6):
        with model.no_sync():
            step(model, optimizer)
        if at % 3 == 2:
            for parameter in model.parameters():
                dist.all_reduce(parameter.data, op=dist.ReduceOp.AVG)


def of_adversaries():
    first, second = DistributedDataParallel(nn.Linear(4, 4)), DistributedDataParallel(nn.Linear(4, 1))
    one, other = adam(first), adam(second)
    for at in range(5):
        one.zero_grad()
        other.zero_grad()
        second(first(torch.randn(2, 4))).sum().backward()
        other.step()
        if at % 2:
            one.step()


def of_zero():
    from torch.distributed.optim import ZeroRedundancyOptimizer

    model = DistributedDataParallel(net())
    optimizer = ZeroRedundancyOptimizer(model.parameters(), torch.optim.Adam, lr=0.1)
    for _ in range(3):
        step(model, optimizer)


def of_fsdp():
    from torch.distributed.fsdp import fully_shard
    from torch.distributed.tensor import init_device_mesh

    for mesh in (init_device_mesh("cpu", (2,)), init_device_mesh("cpu", (2, 1), mesh_dim_names=("replicate", "shard"))):
        torch.manual_seed(0)  # nothing is broadcast between replicas
        model = fully_shard(nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4)), mesh=mesh)
        optimizer = adam(model)
        for _ in range(3):
            step(model, optimizer)


def program(case):
    dist.init_process_group("gloo")
    if case == "good":
        good()
    elif case == "replicate":
        of_replicate()
    elif case in ("order", "unwaited"):
        of_hand(case)
    else:
        of_ddp(case)
    dist.destroy_process_group()


def run(lockstep, case):
    with tempfile.TemporaryDirectory() as folder:
        report = os.path.join(folder, "report.json")
        done = subprocess.run([lockstep, "exec", "-n", "2", "--start", "fork", "--json", report, "--", sys.executable, HERE, "--program", case],
                              capture_output=True, text=True, check=False, env={**os.environ, "LOCKSTEP_WATCH_RAISES": "1"})
        with open(report, encoding="utf-8") as file:
            found = json.load(file)["cases"][0]["findings"]
    if case == "good":
        right = done.returncode == 0 and not found
    else:
        name, ranks, text = FINDINGS[case]
        right = done.returncode == 1 and len(found) == 1 and (found[0]["id"], found[0]["ranks"]) == (name, ranks) and \
            re.search(text, found[0]["text"])
    if not right:
        print(case, done.stdout, done.stderr, json.dumps(found, indent=1).replace("\\n", "\n"), sep="\n")
    return right


if __name__ == "__main__":
    if sys.argv[1] == "--program":
        program(sys.argv[2])
    else:
        cases = sys.argv[2:] or ["good", *FINDINGS]
        sys.exit(0 if all([run(os.path.abspath(sys.argv[1]), case) for case in cases]) else 1)
