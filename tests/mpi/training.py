"""Trains under every sharding type for real and in the simulator: training.py PROGRAM [--table] [OPTION...].

A scenario for each sharding type and kind of input has a table for each optimizer. Every stage of every step must agree: with the real
processes up to another order of its sums, and with the unsharded oracle. --table prints the table of docs/training.md. The OPTIONs are
those of `compare`, for another real run than MPI's: --real nccl --processes --keep DIR, --real DIR.
"""
import argparse
import json
import os
import re
import subprocess
import tempfile

OPTIMIZERS = {
    "sgd": "{type: sgd, lr: 0.1}",
    "adagrad": "{type: adagrad, lr: 0.1, eps: 0.001}",
    "rowwise_adagrad": "{type: rowwise_adagrad, lr: 0.1, eps: 0.001}",
    "adam": "{type: adam, lr: 0.01}",
    "adamw": "{type: adamw, lr: 0.01, weight_decay: 0.1}",
    "partial_rowwise_adam": "{type: partial_rowwise_adam, lr: 0.01}",
    "lamb": "{type: lamb, lr: 0.01}",
    "partial_rowwise_lamb": "{type: partial_rowwise_lamb, lr: 0.01}",
    "lars_sgd": "{type: lars_sgd, lr: 0.1}",
    "sgd_f16": "{type: sgd, lr: 0.1, stochastic_rounding: true}",
    "rowwise_adagrad_bf16": "{type: rowwise_adagrad, lr: 0.1, eps: 0.001, stochastic_rounding: true}",
    "adam_dense": "{type: adam, form: dense, lr: 0.01}",
}
# Four ranks on two hosts.
SHARDINGS = {
    "table_wise": lambda k: f"{{type: table_wise, ranks: {k % 4}}}",
    "column_wise": lambda k: "{type: column_wise, sizes: [3, 3, 2], ranks: [3, 0, 1]}",
    "row_wise": lambda k: "{type: row_wise}",
    "table_row_wise": lambda k: f"{{type: table_row_wise, host: {k % 2}}}",
    "table_column_wise": lambda k: "{type: table_column_wise, sizes: [4, 4], ranks: [2, 3]}",
    "grid": lambda k: "{type: grid, columns: 4}",
    "data_parallel": lambda k: "{type: data_parallel}",
}
# rows, batch, lengths, ids, whether weighted
INPUTS = {
    "even": (12, "4", "{constant: 2}", "uniform", False),
    "uneven": (10, "4", "{uniform: [0, 3]}", "uniform", False),
    "empty rank": (5, "4", "{uniform: [0, 3]}", "uniform", False),
    "uneven batch": (12, "[5, 0, 2, 3]", "{uniform: [0, 3]}", "uniform", False),
    "duplicates": (12, "6", "{uniform: [2, 5]}", "{uniform: [0, 2]}", False),
    "weighted": (10, "4", "{uniform: [1, 3]}", "uniform", True),
}
STEPS = 2


def scenario(sharding, inputs):
    rows, batch, lengths, ids, weighted = INPUTS[inputs]
    text = f"lockstep: 1\nname: {sharding}, {inputs}\nseed: {rows}\n"
    text += "mesh: {shape: [2, 2], names: [host, gpu]}\ntables:\n"
    for k, (name, optimizer) in enumerate(OPTIMIZERS.items()):
        pooling = ("sum", "mean")[k % 2]
        dtype = name.rsplit("_", 1)[-1]
        dtype = dtype if dtype in ("f16", "bf16") else "f32"
        text += (f"  - {{name: {name}, rows: {rows}, dim: 8, dtype: {dtype}, pooling: {pooling}, weights: {{normal: {{std: 0.5}}}}, "
                 f"sharding: {SHARDINGS[sharding](k)}, optimizer: {optimizer}}}\n")
    text += f"inputs:\n  batch: {batch}\n  weighted: {str(weighted).lower()}\n  features:\n"
    for name in OPTIMIZERS:
        text += f"    {name}: {{lengths: {lengths}, ids: {ids}}}\n"
    return text + f"steps: [forward, backward, update]\ntrain: {{steps: {STEPS}}}\n"


def check(case, sharding):
    assert case["verdict"] == "pass", (case["name"], case)
    real = {s["name"]: s for s in case["stages"] if s["against"] == "real"}
    oracle = {s["name"] for s in case["stages"] if s["against"] == "oracle"}
    for step in range(STEPS):
        last = "all_reduce" if sharding == "data_parallel" else "output_dist_backward"
        for stage in ("input_dist", "lookup", "output_dist", "output_grad", last, "lookup_backward", "update"):
            name = f"step{step}.{stage}"
            assert real[name]["elements"] > 0 and f"oracle:{name}" in oracle, (case["name"], name)
            if stage in ("input_dist", "output_grad"):
                assert real[name]["class"] == "bit_exact", (case["name"], name)
    assert len(case["steps"]) == STEPS and all(s["gradient_norm"] > 0 for s in case["steps"])
    return max(s["bound_ratio"] for s in case["stages"]), case["class"]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("--table", action="store_true")
    given, options = parser.parse_known_args()
    with tempfile.TemporaryDirectory() as folder:
        files = []
        for sharding in SHARDINGS:
            for inputs in INPUTS:
                path = os.path.join(folder, re.sub(r"\W+", "_", f"{sharding}_{inputs}") + ".yaml")
                with open(path, "w", encoding="utf-8") as file:
                    file.write(scenario(sharding, inputs))
                files.append(path)
        done = subprocess.run([given.program, "compare", *files, *(options or ["--real", "mpi"]), "--json", "-"],
                              capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise SystemExit(f"exit code {done.returncode}\n{done.stdout[-6000:]}{done.stderr[-2000:]}")
    cases = {case["name"]: case for case in json.loads(done.stdout)["cases"]}
    assert len(cases) == len(SHARDINGS) * len(INPUTS)
    if given.table:
        print("| | " + " | ".join(INPUTS) + " |\n|---|" + "---|" * len(INPUTS))
    for sharding in SHARDINGS:
        cells = [check(cases[f"{sharding}, {inputs}"], sharding) for inputs in INPUTS]
        if given.table:
            print(f"| {sharding} | " + " | ".join(f"{c[1]} {c[0]:.2f}" for c in cells) + " |")
    if not given.table:
        print(f"{len(cases)} scenarios of {len(OPTIMIZERS)} tables, {STEPS} steps each")


main()
