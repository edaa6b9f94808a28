"""The estimated memory of a run is at least its real use, and at most ten times that: check_need.py PROGRAM.

A refused run reports its estimate; the same run without a limit shows its largest resident size. Not under sanitizers, which use memory
themselves.
"""
import os
import re
import subprocess
import sys
import tempfile

PROGRAM = sys.argv[1]
UNITS = {"MiB": 1 << 20, "GiB": 1 << 30}
CASES = {  # ranks, keys of a table, samples, lengths, steps
    "sums that are mostly empty": (512, "dim: 64, pooling: sum", "row_wise", 2, 4, "forward"),
    "sums that are rounded": (256, "dim: 256, pooling: sum, output_dtype: f16", "row_wise", 4, 1, "forward"),
    "maxima": (256, "dim: 128, pooling: max", "row_wise", 4, 1, "forward"),
    "full means": (64, "dim: 64, pooling: mean", "row_wise", 32, 64, "forward"),
    "sequences": (512, "dim: 16, pooling: none", "row_wise", 2, 16, "forward"),
    "many ranks, one shard": (1024, "dim: 8", "table_wise", 2, 4, "forward"),
    "columns": (256, "dim: 1024", "column_wise", 1, 2, "forward"),
    "training": (256, "dim: 16", "row_wise", 2, 4, "forward, backward, update"),
    "replicas in training": (64, "dim: 64", "data_parallel", 2, 4, "forward, backward, update"),
}


def check(name, folder):
    ranks, table, sharding, batch, length, steps = CASES[name]
    path = os.path.join(folder, "s.yaml")
    with open(path, "w", encoding="utf-8") as file:
        file.write(f"""lockstep: 1
name: need
mesh: {{shape: [{ranks}]}}
tables: [{{name: t, rows: 4096, {table}, features: [f], sharding: {{type: {sharding}}}}}]
inputs: {{batch: {batch}, features: {{f: {{lengths: {{constant: {length}}}}}}}}}
steps: [{steps}]
{"optimizer: {type: adagrad, lr: 0.1}" if "update" in steps else ""}
""")
    refused = subprocess.run([PROGRAM, "run", "--memory", "1M", path], capture_output=True, text=True, check=False)
    said = re.search(r"would need about ([0-9.]+) (MiB|GiB)", refused.stderr)
    assert refused.returncode == 2 and said, (name, refused)
    child = os.posix_spawn(PROGRAM, [PROGRAM, "run", "--quiet", path], os.environ,
                           file_actions=[(os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)])
    _, status, usage = os.wait4(child, 0)
    need, took = float(said.group(1)) * UNITS[said.group(2)], usage.ru_maxrss * 1024
    assert os.waitstatus_to_exitcode(status) == 0, (name, status)
    print(f"{name}: said {need / 1e6:.0f} MB, took {took / 1e6:.0f} MB, {need / took:.2f}")
    return took <= need <= 10 * took


with tempfile.TemporaryDirectory() as scratch:
    wrong = [name for name in CASES if not check(name, scratch)]
sys.exit(f"not between what it takes and ten times that: {', '.join(wrong)}" if wrong else 0)
