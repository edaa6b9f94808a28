"""Stand-ins for Megatron Core's tensor parallel layers: tensor_parallel.py LOCKSTEP. Inputs that differ on the ranks of a group have a note,
and correct ones have none.
"""
import json
import os
import sys
import tempfile
import types

if sys.argv[1] == "--program":
    import torch
    import torch.distributed as dist
    from torch import nn

HERE = os.path.abspath(__file__)
CASES = {  # the layers whose inputs differ, by name
    "good": [],
    "dropout": ["ColumnParallelLinear, call 2 of a step"],
    "batch": ["ColumnParallelLinear, call 2 of a step", "VocabParallelEmbedding, call 1 of a step"],
}


def layers():
    """The module, with the names, the group and the flags that Megatron's has."""
    class Layer(nn.Module):
        def __init__(self, group, summed=True, expert=False):
            super().__init__()
            self.tp_group, self.allreduce_dgrad, self.explicit_expert_comm = group, summed, expert

        def forward(self, input_, weight=None):
            return input_ if weight is None else input_ @ weight

    module = types.ModuleType("megatron.core.tensor_parallel.layers")
    module.VocabParallelEmbedding = type("VocabParallelEmbedding", (Layer,), {})
    module.ColumnParallelLinear = type("ColumnParallelLinear", (Layer,), {})
    sys.modules[module.__name__] = module
    return module


def program(case):
    module = layers()
    dist.init_process_group("gloo")
    rank, group, alone = dist.get_rank(), dist.new_group([0, 1]), [dist.new_group([one]) for one in range(2)][dist.get_rank()]
    weight = nn.Parameter(torch.ones(4, 4))
    optimizer = torch.optim.SGD([weight], 0.1)
    embed, linear = module.VocabParallelEmbedding(group), module.ColumnParallelLinear(group)
    others = [module.ColumnParallelLinear(group, summed=False), module.ColumnParallelLinear(group, expert=True),
              module.ColumnParallelLinear(alone)]
    for step in range(4):
        batch = embed(torch.arange(8.0).reshape(2, 4) + step + (rank if case == "batch" and step == 2 else 0))
        kept = torch.tensor([1.0, rank, 1.0, 1.0]) if case == "dropout" and step == 1 else torch.ones(4)
        linear(batch * kept, weight).sum().backward()
        for other in others:
            other(batch + rank)
        with torch.no_grad():
            linear(batch + rank)
        dist.all_reduce(weight.grad)
        optimizer.step()
        optimizer.zero_grad()
    dist.destroy_process_group()


def run(forks, lockstep, case):
    with tempfile.TemporaryDirectory() as folder:
        report = os.path.join(folder, "report.json")
        done = forks.run([lockstep, "exec", "-n", "2", "--checks", "all", "--json", report], ["--program", case],
                         env={**os.environ, "LOCKSTEP_WATCH_RAISES": "1"})
        with open(report, encoding="utf-8") as file:
            row = json.load(file)["cases"][0]
    notes, wanted = row.get("note", "").splitlines(), CASES[case]
    right = done.returncode == 0 and not row["findings"] and len(notes) == len(wanted) and all(
        note.startswith(f"data.differs: the input of {layer}: the tensor differs on rank 1") for note, layer in zip(notes, wanted))
    if not right:
        print(case, done.stdout, done.stderr, row["findings"], *notes, sep="\n")
    return right


def main(lockstep):
    sys.path.insert(0, os.path.join(os.path.dirname(HERE), "../forks"))
    from forks import Forks

    served = Forks(HERE)
    return 0 if all([run(served, os.path.abspath(lockstep), case) for case in CASES]) else 1


if __name__ == "__main__":
    if sys.argv[1] == "--program":
        program(sys.argv[2])
    else:
        sys.exit(main(*sys.argv[1:]))
