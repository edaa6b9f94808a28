"""State that ranks must share, and state that they need not: watches.py LOCKSTEP [CASE...]. Each case is a program on two ranks."""
import contextlib
import json
import os
import re
import sys
import tempfile

if sys.argv[1] == "--program":
    import alike
    import shards
    import torch
    import torch.distributed as dist
    from torch import nn
    from torch.nn.parallel import DistributedDataParallel

HERE = os.path.abspath(__file__)
FINDINGS = {  # finding, ranks, words of its text
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
    "read": ("buffer.use_before_wait", [], r"^mul reads the result of all_reduce at .*watches.py:\d+ before"),
    "written": ("buffer.use_before_wait", [], r"^zero_ writes to a tensor of send at .*watches.py:\d+ before"),
    "work": ("work.differs", [1], r"work of a step: the number of backwards differs on rank 1 after step 2\n.*rank 1: 2\n.*rank 0: 1\n"
             r".*4 of 5 values differ: autocast, the set of modules in evaluation mode, the gradient before the first backward"),
    "cast": ("work.differs", [1], r"work of a step: autocast differs on rank 1 after step 1\n.*rank 1: bfloat16, off\n.*rank 0: off\n"),
    "steps": ("work.differs", [1], r"FSDP2 model 1, the whole run: the number of steps differs on rank 1 at the end\n.*rank 1: 2\n.*rank 0: 3"),
    "loss": ("value.nan_first", [], r"the loss of rank 1 is NaN in the backward for step 3; the first NaN is in an input of Addmm of 4$"),
    "weight": ("value.nan_first", [], r"1.bias has NaN on rank 1 after step 2$"),
    "early": ("gradient.unreduced", [], r"SGD steps without a gradient: in step 2, .* none of its 4 parameters .* they are in no wrapped model"),
    "early1": ("gradient.unreduced", [], r"Adam steps without a gradient: in step 2, .* none of its 4 parameters .* they are in no wrapped model"),
    "replaced": ("gradient.unreduced", [], r"SGD has 2 parameters that are in no wrapped model and had no gradient in 3 steps, and no optimizer "
                 r"has 1.weight, 1.bias of these shapes"),
    "work1": ("work.differs", [1], r"^FullyShardedDataParallel model 1, work of a step: the set of modules in evaluation mode differs on rank 1"),
    "unreduced": ("gradient.unreduced", [], r"Adam steps without a gradient: in step 2, .* set_requires_gradient_sync\(False\) is set"),
    "shards": ("model.differs", [1], r"model 1 of fully_shard: the initial 0.weight differs on rank 1 before the first step\n(.*\n)*.*each rank shards its own"),
    "sharded_rate": ("optimizer.differs", [1], r"sharded DTensors: settings of Adam for 0.weight differs on rank 1 before the first step"),
    **{case: ("work.differs", [1], r"^sharded DTensors: the factor that scales the gradients after the backward differs on rank 1 after step 2\n"
              r" *\S+ on rank 1, \S+ on rank 0\n(.*\n)*.*a norm or a count of one rank's own part") for case in ("scaled", "scaled_count", "scaled_bf16")},
    **{case: ("work.differs", [1], r"^FullyShardedDataParallel: the factor that scales the gradients after the backward differs")
       for case in ("scaled1", "scaled1_original")},
    "freezing": ("work.differs", [1], r"work of a step: the set of frozen parameters differs on rank 1 after step 2\n.*rank 1: 0.bias\n.*rank 0: none\n"),
    "nested": ("replica.diverged", [1], r"0.bias differs on rank 1 after step 2\n"),
    "strict": ("data.repeated", [0, 1], r"^DistributedDataParallel: the inputs: ranks 0, 1 have the same in each of 4 steps"),
    "frozen": ("model.differs", [1], r"0.weight differs on rank 1 .*\n.*rank 1: float32 \[4, 4\], frozen"),
}


NOTES = [  # of the case "notes", which passes
    r"^data.differs: DTensor.from_local on rank 0: 2 rows of dimension 0, where S\(0\) of 5 over 2 ranks has 3",
    r"^data.differs: DTensor.from_local on rank 1: 3 rows of dimension 0, where S\(0\) of 5 over 2 ranks has 2",
    r"^data.differs: DTensor.from_local with Replicate, call \d+ of a step: the tensor differs on rank 1",
    r"^data.differs: DistributedSampler of 8 samples: the order differs on rank 1 .*rank 1: epoch 1",
    r"^data.repeated: DistributedDataParallel: the inputs: ranks 0, 1 have the same in each of 4 steps",
    r"^data.repeated: DistributedSampler uses the order of epoch 0",
    r"^gradient.kept: Adam adds up the gradients of all steps: they were zeroed before no backward of steps 2 and 3;",
    r"^replica.diverged: weights of SGD: 0.weight differs on rank 1 after step 1; .* the same weights and gradients before .*alike.py:\d+",
    r"^replica.diverged: weights of SGD: 1.weight differs on rank 1 after step 2; ",
    r"^gradient.unreduced: gradients are clipped before they are reduced",
]


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
        plain[0].weight.data.add_(1)  # without a version: like a kernel


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


def of_work():
    odd = dist.get_rank() == 1
    plain = net()
    model = DistributedDataParallel(plain)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    step(model, optimizer)
    for part in range(2 if odd else 1):
        if odd:
            plain[1].eval()
        else:
            optimizer.zero_grad()
        with model.no_sync() if odd and part == 0 else contextlib.nullcontext(), torch.autocast("cpu", enabled=odd):
            model(torch.randn(8, 4)).square().sum().backward()
    optimizer.step()


def of_cast(wrong):
    """An autocast in the model, as accelerate and Lightning have it; on one rank, if wrong."""
    class Cast(nn.Linear):
        def forward(self, value):
            with torch.autocast("cpu", torch.bfloat16, enabled=not wrong or dist.get_rank() == 1):
                return super().forward(value).float()

    model = DistributedDataParallel(nn.Sequential(nn.Linear(4, 4), Cast(4, 4)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for at in range(2):
        torch.manual_seed(2 * at + dist.get_rank())
        optimizer.zero_grad()
        value = model(torch.randn(8, 4))
        if dist.get_rank() == 0 and not wrong:  # an evaluation of one rank, before the backward
            with torch.autocast("cpu", torch.float16):
                model.module(torch.ones(2, 4))
        value.square().sum().backward()
        optimizer.step()


def of_loss():
    class Odd(nn.Module):
        def forward(self, value):
            return value * float("nan") if dist.get_rank() == 1 and len(seen) == 2 else value

    seen = []
    model = DistributedDataParallel(nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4), Odd(), nn.Linear(4, 1)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for at in range(3):
        step(model, optimizer)
        seen.append(at)


def of_early(case):
    import copy

    plain = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 2))
    optimizer = torch.optim.SGD(plain.parameters(), lr=0.1)
    if case == "replaced":
        plain[1] = nn.Linear(4, 2)
    model = DistributedDataParallel(plain if case == "replaced" else copy.deepcopy(plain))
    for _ in range(3):
        step(model, optimizer)


def of_fsdp1(case):
    from torch.distributed.fsdp import FullyShardedDataParallel

    plain = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5), nn.Linear(4, 4))
    early = adam(plain)
    plain[2] = FullyShardedDataParallel(plain[2], device_id=torch.device("cpu"))
    model = FullyShardedDataParallel(plain, device_id=torch.device("cpu"))
    if case == "work1" and dist.get_rank() == 1:
        plain[1].eval()
    optimizer = early if case == "early1" else adam(model)
    for _ in range(3):
        step(model, optimizer)


def of_notes(case):
    from torch.distributed.tensor import DTensor, Replicate, Shard, init_device_mesh
    from torch.utils.data import DistributedSampler

    rank, mesh = dist.get_rank(), init_device_mesh("cpu", (2,))
    model = DistributedDataParallel(nn.Linear(4, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    sampler, other = DistributedSampler(range(4)), DistributedSampler(range(8))

    def closure():
        optimizer.zero_grad()
        loss = model(torch.randn(8, 4)).square().sum()
        loss.backward()
        return loss

    for at in range(4):
        list(sampler if case == "notes" else ())
        torch.manual_seed(at)
        optimizer.step(closure)
    other.set_epoch(rank)
    list(other)
    adding = adam(model)
    for _ in range(4 if case == "notes" else 0):
        model(torch.randn(8, 4) + rank).square().sum().backward()
        adding.step()
    DTensor.from_local(torch.full((4,), float(rank)), mesh, [Replicate()])
    DTensor.from_local(torch.ones(2 + rank, 2), mesh, [Shard(0)], shape=torch.Size((5, 2)), stride=(2, 1))
    if case == "notes":
        alike.wrong()
    plain = nn.Linear(4, 4)
    plain(torch.ones(2, 4)).sum().backward()
    nn.utils.clip_grad_norm_(plain.parameters(), 1.0)
    for parameter in plain.parameters():
        dist.all_reduce(parameter.grad)


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
    local = net()  # declares no replicas
    optimizer = adam(local, lr=0.1 * (1 + dist.get_rank()))
    for _ in range(3):
        step(local, optimizer)
    of_local_sgd()
    of_adversaries()
    of_zero()
    of_fsdp()
    of_fsdp1("good")
    shards.good()
    alike.good()
    of_cast(wrong=False)
    of_head()
    of_data()
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
    for at in range(5):  # the backward of one adds to gradients of the other, which are zeroed later
        other.zero_grad()
        second(torch.randn(2, 4)).sum().backward()
        other.step()
        one.zero_grad()
        second(first(torch.randn(2, 4))).sum().backward()
        one.step()


def of_head():
    """The optimizer has some of the model's parameters, and one of a module that runs seldom."""
    plain, seldom = net(), nn.Linear(4, 4)
    model = DistributedDataParallel(plain)
    optimizer = torch.optim.SGD([*plain[2].parameters(), *nn.Linear(4, 3).parameters()], lr=0.1)
    late = torch.optim.SGD([*plain[:2].parameters(), *seldom.parameters()], lr=0.1)
    for at in range(4):
        step(model, optimizer)
        if at == 3:
            late.step()


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


def of_data():
    from torch.distributed.tensor import DTensor, Replicate, Shard, init_device_mesh
    from torch.utils.data import DistributedSampler

    rank, mesh = dist.get_rank(), init_device_mesh("cpu", (2,))
    model = DistributedDataParallel(nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5), nn.Linear(4, 1)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    scaler = torch.amp.GradScaler("cpu")
    sampler, of_validation = DistributedSampler(range(16)), DistributedSampler(range(6))
    for epoch in range(3):
        sampler.set_epoch(epoch)
        for sample in sampler:
            optimizer.zero_grad(set_to_none=False)
            with torch.autocast("cpu", torch.bfloat16):
                loss = model(torch.full((2, 4), float(sample))).square().mean()
            scaler.scale(loss).backward()
            scaler.unscale_(optimizer)
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            scaler.step(optimizer)
            scaler.update()
        model.eval()
        with torch.no_grad():
            for sample in of_validation:
                model.module(torch.full((1, 4), float(sample)))
        model.train()
        if rank == 0:  # rank 0 evaluates alone, with gradients, in the wrapped model
            model(torch.ones(1, 4))
    DTensor.from_local(torch.ones(4), mesh, [Replicate()])
    DTensor.from_local(torch.ones(3 - rank, 2), mesh, [Shard(0)], shape=torch.Size((5, 2)), stride=(2, 1)).full_tensor()
    DTensor.from_local(torch.full((4,), float(rank)), mesh, [Shard(0)])
    of_fsdp_loaded(mesh)


def of_fsdp_loaded(mesh):
    from torch.distributed.fsdp import fully_shard

    torch.manual_seed(dist.get_rank())  # other weights, which a loaded state replaces
    model = fully_shard(nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4)), mesh=mesh)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.ones_like(parameter))
    optimizer = adam(model)
    optimizer.step()  # without a gradient
    for _ in range(3):
        for part in range(2):
            model.set_requires_gradient_sync(part == 1)
            model(torch.randn(2, 4)).square().sum().backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0).full_tensor()
        optimizer.step()
        optimizer.zero_grad()


def of_asynchronous(case):
    total, odd = torch.ones(4), dist.get_rank() == 1
    if case == "read":
        work = dist.all_reduce(total, async_op=True)
        total * 2
    elif odd:
        dist.recv(total, 0)
    else:
        work = dist.isend(total, 1)
        total.zero_()
    if case == "read" or not odd:
        work.wait()


def program(case):
    dist.init_process_group("gloo")
    if case == "good":
        good()
    elif case == "replicate":
        of_replicate()
    elif case in ("order", "unwaited"):
        of_hand(case)
    elif case in ("read", "written"):
        of_asynchronous(case)
    elif case in ("steps", "weight", "unreduced", "shards", "sharded_rate"):
        shards.train_wrong(case)
    elif case in shards.WRONG:
        shards.WRONG[case]()
    elif case == "cast":
        of_cast(wrong=True)
    elif case in ("work", "loss"):
        {"work": of_work, "loss": of_loss}[case]()
    elif case in ("early", "replaced"):
        of_early(case)
    elif case in ("early1", "work1"):
        of_fsdp1(case)
    elif case in ("notes", "strict"):
        of_notes(case)
    else:
        of_ddp(case)
    dist.destroy_process_group()


DIGESTED = ("inner", "moment")  # as on GPUs, where digests of tensors are compared


def run(forks, lockstep, case):
    with tempfile.TemporaryDirectory() as folder:
        report = os.path.join(folder, "report.json")
        strict = ["--strict", "--checks=-data.differs,-gradient.*"] if case == "strict" else []
        done = forks.run([lockstep, "exec", "-n", "2", *strict, "--json", report], ["--program", case], env={
            **os.environ, "LOCKSTEP_WATCH_RAISES": "1", **({"LOCKSTEP_WATCH_DIGESTS": "1"} if case in DIGESTED else {})})
        with open(report, encoding="utf-8") as file:
            row = json.load(file)["cases"][0]
        found, notes = row["findings"], row.get("note", "").splitlines()
    if case in ("good", "notes"):
        wanted = NOTES if case == "notes" else []
        right = done.returncode == 0 and not found and all(any(re.search(text, note) for note in notes) for text in wanted) and \
            len(notes) == len(wanted)
        found = found or notes
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
        sys.path.insert(0, os.path.join(os.path.dirname(HERE), "../forks"))
        from forks import Forks

        served = Forks(HERE)
        cases = sys.argv[2:] or ["good", "notes", *FINDINGS]
        sys.exit(0 if all([run(served, os.path.abspath(sys.argv[1]), case) for case in cases]) else 1)
