"""Runs the programs of examples/python under `lockstep exec`: examples.py LOCKSTEP torch|torchrec. Compares their output, and the purposes
of their calls in the report, with the expected ones. examples.py LOCKSTEP PROGRAM: one of examples/frameworks, beside gloo.
"""
import json
import os
import subprocess
import sys
import tempfile

EXAMPLES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "examples")
FOLDER = os.path.join(EXAMPLES, "python")
LARGE, SMALL = ["large_table_0", "large_table_1"], ["small_table_0", "small_table_1"]


def run(lockstep, ranks, name, *words):
    """Its output without the spaces of its tables, and the purposes of its calls."""
    with tempfile.TemporaryDirectory() as folder:
        report = os.path.join(folder, "report.json")
        done = subprocess.run([lockstep, "exec", "-n", str(ranks), "--start", "fork", "--json", report, "--", sys.executable,
                               os.path.join(FOLDER, name + ".py"), *words], capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{name} {words} on {ranks}: {done.returncode}\n{done.stdout}\n{done.stderr[-4000:]}"
        with open(report, encoding="utf-8") as file:
            case = json.load(file)["cases"][0]
    assert not case["findings"], case["findings"]
    moved = {}
    for call in case.get("calls", []):
        if call["purpose"] is not None:
            moved.setdefault((call["call"], call["purpose"].split(" of ")[0]), set()).update(
                call["purpose"].split(" of ")[-1].split(", "))
    return [" ".join(line.replace("|", " ").split()) for line in done.stdout.splitlines()], moved


def holds(lines, wanted, what):
    missing = [line for line in wanted if line not in lines]
    assert not missing, f"{what}: {missing} in\n" + "\n".join(lines)


def dtensor(lockstep):
    lines, _ = run(lockstep, 4, "dtensor_tables", "row-wise-even")
    holds(lines, ["Col 0-15", *[f"Row {2 * rank}-{2 * rank + 1} cpu:{rank}" for rank in range(4)],
                  f"rows of each rank: {[2] * 4}"], "row-wise-even")
    lines, _ = run(lockstep, 4, "dtensor_tables", "row-wise-uneven")
    holds(lines, [f"rows of each rank: {[1, 3, 1, 3]}"], "row-wise-uneven")
    lines, _ = run(lockstep, 2, "dtensor_tables", "table-wise")
    holds(lines, [f"Row 0-7 cpu:{rank}" for rank in range(2)], "table-wise")
    lines, _ = run(lockstep, 4, "sharded_embedding")
    holds(lines, ["row-wise 10 x 17: shards 3 x 17, 3 x 17, 3 x 17, 1 x 17 output of each rank 4 x 6 x 17",
                  "column-wise 16 x 17: shards 16 x 5, 16 x 5, 16 x 5, 16 x 2 output of each rank 4 x 6 x 17"],
          "sharded_embedding")


def shards_of(sharding, ranks):
    """The lines of a plan: each table's shards, by their first row and column, rows and columns, and rank."""
    lines = []
    for tables, rows in ((LARGE, 4096), (SMALL, 1024)):
        for table in tables:
            for rank in range(ranks):
                if sharding == "row_wise":
                    lines.append(f"{table} [{rank * rows // ranks}, 0] [{rows // ranks}, 64] rank:{rank}/cpu")
                elif sharding == "column_wise":
                    lines.append(f"{table} [0, {rank * 64 // ranks}] [{rows}, {64 // ranks}] rank:{rank}/cpu")
    if sharding == "table_wise" and ranks == 2:  # a large table and a small one on each
        for rank in range(2):
            lines += [f"{LARGE[rank]} [0, 0] [4096, 64] rank:{rank}/cpu", f"{SMALL[rank]} [0, 0] [1024, 64] rank:{rank}/cpu"]
    return lines


def plans(lockstep):
    every = set(LARGE + SMALL)
    for sharding, ranks in (("table_wise", 2), ("row_wise", 4), ("column_wise", 4), ("data_parallel", 2)):
        lines, moved = run(lockstep, ranks, "sharding_plans", sharding)
        holds(lines, shards_of(sharding, ranks), sharding)
        holds(lines, [f"{size}_table_feature_{i} (2, 64)" for size in ("large", "small") for i in range(2)], sharding)
        back = "reduce_scatter" if sharding == "row_wise" else "all_to_all"
        wanted = {} if sharding == "data_parallel" else {
            ("all_to_all", "input_dist splits"): every, ("all_to_all", "input_dist lengths"): every,
            ("all_to_all", "input_dist values"): every, (back, "output_dist"): every}
        dist = {key: tables for key, tables in moved.items() if "dist" in key[1]}
        assert dist == wanted, f"{sharding} on {ranks}: {dist}"
    lines, moved = run(lockstep, 2, "torchrec_intro")
    holds(lines, ["Keys: ['product', 'user']", "Lengths: tensor([3, 1, 2, 2])",
                  "Values: tensor([1, 2, 1, 5, 2, 3, 4, 1])", "Offsets: tensor([0, 3, 4, 6, 8])",
                  "['product', 'user']", "torch.Size([2, 128])", "Non Fused Model Parameters: dict_keys([])",
                  "embedding_bags.product_table.weight torch.Size([4096, 80]) torch.uint8"], "torchrec_intro")
    both = {"product_table", "user_table"}
    assert moved[("all_to_all", "input_dist values")] == both, moved
    assert moved[("all_to_all", "gradients")] == both, moved


def defects(lockstep):
    """Those of TorchRec 1.6; a later version that fixes them shows here."""
    lines, _ = run(lockstep, 2, "row_wise_defects", "mean")
    holds(lines, ["rows [1.0, 1.0] unsharded [1.0, 1.0]", "whole [1.0, 1.0] unsharded [2.0, 4.0]"], "mean")
    done = subprocess.run([lockstep, "exec", "-n", "4", "--start", "fork", "--", sys.executable,
                           os.path.join(FOLDER, "row_wise_defects.py"), "empty"], capture_output=True, text=True, check=False)
    wanted = ["rank.exited_early, rank 3", "ranks 0-2: reduce_scatter sum of 8 f32 for output_dist of rows on world"]
    assert done.returncode == 1 and all(text in done.stdout for text in wanted), done.stdout


def framework(lockstep, program):
    path = f"{os.path.dirname(sys.executable)}:{os.environ['PATH']}"  # DeepSpeed compiles with the ninja in that folder
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run([lockstep, "exec", "--compare", "gloo", "-n", "2", "--", sys.executable,
                               os.path.join(EXAMPLES, "frameworks", program)], cwd=folder, env={**os.environ, "PATH": path},
                              capture_output=True, text=True, check=False)
    assert done.returncode == 0 and "bit_exact" in done.stdout, f"{done.returncode}\n{done.stdout}\n{done.stderr[-4000:]}"


def main():
    lockstep, part = sys.argv[1:3]
    if part.endswith(".py"):
        return framework(lockstep, part)
    for check in {"torch": [dtensor], "torchrec": [plans, defects]}[part]:
        check(lockstep)
    return 0


sys.exit(main())
