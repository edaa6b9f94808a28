"""Programs on gloo under `lockstep exec --observe`, where gloo moves the data: observed.py LOCKSTEP

A program without a defect, which also makes the coalesced calls that gloo lacks, one whose ranks differ in a reduction, and one that
hangs in gloo."""
import json
import os
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../forks"))
from forks import Forks  # noqa: E402

PROGRAM = """
import sys, torch, torch.distributed as dist
dist.init_process_group("gloo")
rank, case, x = dist.get_rank(), sys.argv[1], torch.ones(4)
groups = [dist.new_group([0, 1]), dist.new_group([0, 1])]
dist.all_reduce(x, op=dist.ReduceOp.MAX if case == "op" and rank == 1 else dist.ReduceOp.SUM)
assert case == "op" or x[0] == 2
for group in reversed(groups) if case == "hang" and rank == 1 else groups:
    dist.all_reduce(x, group=group)
if case == "none":
    import torch.distributed._functional_collectives as functional
    for whole in functional.all_gather_into_tensor_coalesced([torch.full((2,), float(rank))], dist.group.WORLD):
        assert whole.tolist() == [0, 0, 1, 1]
    for part in functional.reduce_scatter_tensor_coalesced([torch.arange(4.0)], "sum", [0], dist.group.WORLD):
        assert part.tolist() == [4.0 * rank, 4.0 * rank + 2]
dist.barrier()
dist.destroy_process_group()
"""
CASES = {"none": (0, []), "op": (1, ["collective.op_mismatch"]), "hang": (1, ["deadlock.cross_communicator"])}


def main():
    wrong = []
    with tempfile.TemporaryDirectory() as folder:
        with open(f"{folder}/program.py", "w", encoding="utf-8") as file:
            file.write(PROGRAM)
        forks = Forks(f"{folder}/program.py")
        for case, expected in CASES.items():
            done = forks.run([os.path.abspath(sys.argv[1]), "exec", "--observe", "-n", "2", "--json", f"{folder}/report.json"], [case])
            with open(f"{folder}/report.json", encoding="utf-8") as file:
                read = json.load(file)
            found = [finding["id"] for row in read["cases"] for finding in row["findings"]]
            if (done.returncode, found) != expected:
                wrong.append(f"{case}: {done.returncode}, {found}, not {expected}\n{done.stdout}{done.stderr}")
    print(*wrong, sep="\n")
    return len(wrong)


if __name__ == "__main__":
    sys.exit(main())
