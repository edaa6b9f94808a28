"""DeepSpeed's engines: engines.py LOCKSTEP [real] [CASE...]. Each case is a program on two ranks. Without `real` a small engine takes the place
of DeepSpeed's; it has the same module, methods and groups of parameters.
"""
import json
import os
import re
import sys
import tempfile
import types

if sys.argv[1] == "--program":
    import torch
    import torch.distributed as dist
    from torch import nn

HERE = os.path.abspath(__file__)
STAGES, STEPS = range(4), 5
FINDINGS = {  # finding, text
    "rate": ("optimizer.differs", r"^DeepSpeed: settings of Adam for 0.weight differs on rank 1 after step 3\n.*rank 1: .*lr 0.2.*\n.*rank 0: .*lr 0.1"),
    "weight": ("replica.diverged", r"^DeepSpeed: 0.weight differs on rank 1 after step 2"),
    "mode": ("work.differs", r"^DeepSpeed, work of a step: the set of modules in evaluation mode differs on rank 1 after step 2"),
    "cast": ("work.differs", r"^DeepSpeed, work of a step: autocast differs on rank 1 after step 2\n.*rank 1: bfloat16"),
    "nan": ("value.nan_first", r"^the loss of rank 1 is NaN in the backward for step 3"),
    "frozen": ("model.differs", r"^model 1 of DeepSpeed: 0.bias differs on rank 1 .*\n.*rank 1: float32 \[8\], frozen"),
    "strict": ("data.repeated", r"^DeepSpeed: the inputs: ranks 0, 1 have the same in each of 5 steps"),
}
STAGES_OF = {"weight": (0, 2), "frozen": (0,), "cast": (0, 3)}  # 3 gathers the parts of any rank on all; in 2 the order of gradients differs first


class Flat:
    """The optimizer of stages 1 to 3: it steps each rank's part of all parameters, and gathers the parts."""

    def __init__(self, optimizer, stage):
        self.optimizer, (group,) = optimizer, optimizer.param_groups
        held, rank, ranks = group["params"], dist.get_rank(), dist.get_world_size()
        whole = torch.cat([one.detach().flatten() for one in held])
        setattr(self, "fp16_groups" if stage == 3 else "bit16_groups", [held])
        self._parameters = [(one, one.shape) for one in held]
        self._part = nn.Parameter(whole.chunk(ranks)[rank].clone())
        group["params"] = [self._part]
        for one in held if stage == 3 else ():
            one.ds_tensor, one.ds_shape = True, one.shape

    @property
    def param_groups(self):
        return self.optimizer.param_groups

    def step(self):
        graded = [one for one, _ in self._parameters]
        gradients = torch.cat([torch.zeros(shape).flatten() if one.grad is None else one.grad.flatten() for one, shape in self._parameters])
        dist.all_reduce(gradients)
        self._part.grad = gradients.chunk(dist.get_world_size())[dist.get_rank()] / dist.get_world_size()
        for one in graded:
            one.grad = None
        self.optimizer.step()
        whole = torch.empty(gradients.numel())
        dist.all_gather_into_tensor(whole, self._part.detach())
        at = 0
        with torch.no_grad():
            for one, shape in self._parameters:
                one.copy_(whole[at:at + one.numel()].view(shape))
                at += one.numel()


def _small():
    """Stands for DeepSpeed in a program that has not installed it."""
    class DeepSpeedEngine(nn.Module):
        def __init__(self, module, optimizer, stage):
            super().__init__()
            self.module, self.optimizer = module, Flat(optimizer, stage) if stage else optimizer
            self.seq_data_parallel_group = dist.new_group()

        def forward(self, *inputs):
            return self.module(*inputs)

        def backward(self, loss):
            loss.backward()

        def _take_model_step(self, lr_kwargs):
            if not isinstance(self.optimizer, Flat):
                for one in self.module.parameters():
                    dist.all_reduce(one.grad if one.grad is not None else torch.zeros_like(one))
            self.optimizer.step()
            self.zero_grad()

        def step(self):
            self._take_model_step(None)

    module = sys.modules["deepspeed.runtime.engine"] = types.ModuleType("deepspeed.runtime.engine")
    module.DeepSpeedEngine = DeepSpeedEngine


def _real():
    import deepspeed

    deepspeed.init_distributed(dist_backend="gloo")


def made(model, stage, rate=0.1):
    parameters = [one for one in model.parameters() if one.requires_grad]
    if not hasattr(sys.modules["deepspeed.runtime.engine"], "__file__"):
        return sys.modules["deepspeed.runtime.engine"].DeepSpeedEngine(model, torch.optim.Adam(parameters, rate), stage)
    import deepspeed

    engine, *_ = deepspeed.initialize(model=model, model_parameters=parameters, config={
        "train_micro_batch_size_per_gpu": 2, "zero_optimization": {"stage": stage}, "zero_allow_untested_optimizer": True,
        "optimizer": {"type": "Adam", "params": {"lr": rate, "torch_adam": True, "adam_w_mode": False}}})
    return engine


def model_of(odd_bias=False):
    torch.manual_seed(3)
    model = nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.0), nn.Linear(8, 4))
    model[0].bias.requires_grad_(not odd_bias)
    return model


def train(engine, case="good"):
    odd = dist.get_rank() == 1
    random = torch.Generator().manual_seed(0 if case == "strict" else dist.get_rank())
    for step in range(STEPS):
        inputs = torch.randn(2, 4, generator=random)
        if odd and step == 3 and case == "rate":
            engine.optimizer.param_groups[0]["lr"] = 0.2
        if odd and step == 2 and case == "weight":
            with torch.no_grad():
                engine.module[0].weight.add_(1.0)
        if odd and step == 1 and case == "mode":
            engine.module[1].eval()
        with torch.autocast("cpu", torch.bfloat16, enabled=odd and step == 1 and case == "cast"):
            loss = engine(inputs).float().square().sum()
        engine.backward(loss * float("nan") if odd and step == 2 and case == "nan" else loss)
        engine.step()


def of_good(stage):
    """Ranks of several engines differ where they may."""
    rank = dist.get_rank()
    engines = [made(model_of(), stage) for _ in range(2)]
    expert = model_of()
    expert[2].weight.allreduce = expert[2].bias.allreduce = False  # as an expert's: each rank has its own
    engines += [made(expert, 0)] if not hasattr(sys.modules["deepspeed.runtime.engine"], "__file__") and stage == 0 else []
    for number, engine in enumerate(engines):
        train(engine)
        engine.eval()
        with torch.no_grad():  # stage 3 gathers in each forward
            for _ in range(1 + (rank if stage < 3 else 0)):
                engine(torch.ones(2, 4))
        engine.train()
        if number == 2:
            with torch.no_grad():
                expert[2].weight.add_(float(rank))
        train(engine)
    if rank == 1 and stage < 3:  # after the last step
        with torch.no_grad():
            engines[0].module[0].weight.zero_()


def program(kind, case, stage):
    if kind == "real":
        _real()
    else:
        _small()
        dist.init_process_group("gloo")
    odd = dist.get_rank() == 1
    of_good(stage) if case == "good" else train(made(model_of(odd and case == "frozen"), stage), case)
    dist.destroy_process_group()


def run(forks, lockstep, kind, case, stage):
    with tempfile.TemporaryDirectory() as folder:
        report = os.path.join(folder, "report.json")
        strict = ["--strict"] if case == "strict" else []
        done = forks.run([lockstep, "exec", "-n", "2", *strict, "--json", report], ["--program", kind, case, str(stage)],
                         env={**os.environ, "LOCKSTEP_WATCH_RAISES": "1"})
        with open(report, encoding="utf-8") as file:
            row = json.load(file)["cases"][0]
    found, notes = row["findings"], row.get("note", "")
    if case == "good":
        right = done.returncode == 0 and not found and not notes
    else:
        name, text = FINDINGS[case]
        right = done.returncode == 1 and len(found) == 1 and found[0]["id"] == name and re.search(text, found[0]["text"])
    if not right:
        print(kind, case, f"stage {stage}", done.stdout, done.stderr, json.dumps(found, indent=1).replace("\\n", "\n"), notes, sep="\n")
    return right


def main(lockstep, *words):
    sys.path.insert(0, os.path.join(os.path.dirname(HERE), "../forks"))
    from forks import Forks

    kind = "real" if "real" in words else "small"
    cases = [word for word in words if word != "real"] or ["good", *FINDINGS]
    if kind == "real":  # which compiles with the ninja in that folder
        os.environ["PATH"] = f"{os.path.dirname(sys.executable)}:{os.environ['PATH']}"
    served = Forks(HERE)
    return 0 if all([run(served, os.path.abspath(lockstep), kind, case, stage) for case in cases
                     for stage in (STAGES_OF.get(case, STAGES) if kind == "real" or case == "good" else STAGES_OF.get(case, (0, 3)))]) else 1


if __name__ == "__main__":
    if sys.argv[1] == "--program":
        program(sys.argv[2], sys.argv[3], int(sys.argv[4]))
    else:
        sys.exit(main(*sys.argv[1:]))
