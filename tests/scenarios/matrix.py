#!/usr/bin/env python3
"""Every sharding type with every pooling, element type and kind of input: matrix.py LOCKSTEP [--mpi] [--table]

Each cell is a scenario, trained for two steps, simulated and judged by the oracle; what is refused must be refused with
the sentence that REFUSED has for it, and is then run as far as it goes (forward alone). --mpi also compares a cell of
each sharding type, another kind each, with MPI processes. --table prints the cells.
"""
import json
import os
import subprocess
import sys
import tempfile

SHARDINGS = {"table_wise": "{type: table_wise, ranks: 2}", "column_wise": "{type: column_wise, columns: 4}",
             "row_wise": "{type: row_wise}", "table_row_wise": "{type: table_row_wise, host: 1}",
             "table_column_wise": "{type: table_column_wise, ranks: [2, 3]}", "grid": "{type: grid, columns: 4}",
             "data_parallel": "{type: data_parallel}"}
POOLINGS = ("sum", "mean", "max", "none")
DTYPES = ("f32", "f16", "bf16", "f64")
# kind: (batch, keys of the feature, weighted, features of a second table, keys of the scenario)
KINDS = {
    "plain": ("4", "lengths: {uniform: [0, 4]}", False, "b", ""),
    "weighted": ("4", "lengths: {uniform: [0, 4]}", True, "b", ""),
    "shared": ("4", "lengths: {uniform: [0, 4]}", False, "a", ""),
    "vbe": ("[6, 4, 1, 5]", "stride_per_rank: [2, 4, 1, 3], lengths: {uniform: [0, 4]}", False, "a", ""),
    "empty": ("[4, 0, 3, 4]", "lengths: {uniform: [0, 4]}", False, "b", ""),
    "uneven": ("[1, 7, 3, 2]", "lengths: {uniform: [0, 4]}", False, "b", ""),
    "duplicates": ("4", "lengths: {constant: 5}, ids: {uniform: [3, 4]}", False, "b", ""),
    "pipeline": ("4", "lengths: {uniform: [0, 4]}", False, "b", "pipeline: true\n"),
    "reuse": ("4", "lengths: {uniform: [0, 9]}, ids: reuse", False, "b", ""),
    "output_dtype": ("4", "lengths: {uniform: [0, 4]}", False, "b", ""),
}
ROWS_CUT = ("row_wise", "table_row_wise", "grid")
# Refused cells: (whether a cell is, the message, whether it runs forward only).
REFUSED = [
    (lambda s, p, k: k == "weighted" and p in ("max", "none"), "pooled by neither sum nor mean", False),
    (lambda s, p, k: k == "output_dtype", "output_dtype: is for inference, and has no backward pass", True),
    (lambda s, p, k: p == "max" and s in ROWS_CUT, "max has no backward pass under ", True),
]


def scenario(cell, forward):
    sharding, pooling, dtype, kind = cell
    batch, feature, weighted, other, more = KINDS[kind]
    output = ", output_dtype: bf16" if kind == "output_dtype" else ""
    words = "weighted: true, " if weighted else ""
    features = f"    a: {{{feature}}}\n" + ("    b: {lengths: {uniform: [0, 2]}}\n" if other == "b" else "")
    text = (f"lockstep: 1\nname: {'-'.join(cell)}\nmesh: {{shape: [2, 2], names: [host, gpu]}}\ntables:\n"
            f"  - {{name: one, rows: 21, dim: 8, dtype: {dtype}, pooling: {pooling}, features: a, {words}"
            f"sharding: {SHARDINGS[sharding]}{output}}}\n"
            f"  - {{name: two, rows: 17, dim: 8, features: {other}, sharding: {{type: row_wise}}}}\n"
            f"inputs:\n  batch: {batch}\n  features:\n{features}")
    if forward:
        return text + "steps: [forward]\n"
    return text + f"steps: [forward, backward, update]\noptimizer: {{type: adagrad, lr: 0.05}}\ntrain: {{steps: 2}}\n{more}"


def run(program, folder, cells, *arguments):
    """{cell: (passed, text)}; files that cannot be read are reported on stderr and end the call: one by one."""
    paths = {}
    for cell, forward in cells:
        path = os.path.join(folder, f"{'-'.join(cell)}.yaml")
        with open(path, "w", encoding="utf-8") as file:
            file.write(scenario(cell, forward))
        paths[cell] = path
    if not paths:
        return {}
    done = subprocess.run([program, *arguments, *paths.values(), "--json", "-"], capture_output=True, text=True,
                          check=False)
    cases = json.loads(done.stdout)["cases"] if done.stdout else []
    said = {c["name"]: (c["verdict"] == "pass" and c.get("judged", 0) > 0,
                        c.get("error") or c["class"]) for c in cases}
    return {cell: said.get("-".join(cell), (False, done.stderr)) for cell in paths}


def refusal(cell):
    """The messages that refuse a cell, and whether it runs forward only; None: it runs."""
    why = [(words, forward) for test, words, forward in REFUSED if test(cell[0], cell[1], cell[3])]
    return ([words for words, _ in why], all(forward for _, forward in why)) if why else None


def check(program, folder, cells):
    """{cell: '.', 'f' (refused, forward only), '-' (refused) or the error}"""
    found, failures = {}, []
    plain = [c for c in cells if not refusal(c)]
    for cell, (passed, said) in run(program, folder, [(c, False) for c in plain], "run").items():
        found[cell] = "." if passed else "X"
        failures += [] if passed else [f"{' '.join(cell)}: {said}"]
    refused = [c for c in cells if refusal(c)]
    for cell in refused:
        wanted, forward = refusal(cell)
        passed, said = run(program, folder, [(cell, False)], "run")[cell]
        found[cell] = "f" if forward else "-"
        if passed or said.count(": error: ") != len(wanted) or not all(words in said for words in wanted):
            failures.append(f"{' '.join(cell)}: not refused with {wanted}: {said}")
    forward = [(c, True) for c in refused if refusal(c)[1]]
    for cell, (passed, said) in run(program, folder, forward, "run").items():
        failures += [] if passed else [f"{' '.join(cell)}, forward: {said}"]
    return found, failures


def main():
    program = os.path.abspath(sys.argv[1])
    cells = [(s, p, d, k) for s in SHARDINGS for p in POOLINGS for d in DTYPES for k in KINDS]
    with tempfile.TemporaryDirectory() as folder:
        found, failures = check(program, folder, cells)
        if "--mpi" in sys.argv:
            sample = [(s, POOLINGS[i % 2], DTYPES[i % 4], list(KINDS)[i + 1]) for i, s in enumerate(SHARDINGS)]
            for cell, (passed, said) in run(program, folder, [(c, False) for c in sample], "compare", "--real",
                                            "mpi").items():
                failures += [] if passed else [f"{' '.join(cell)}, MPI: {said}"]
            print(f"{len(sample)} cells compared with MPI")
    if "--table" in sys.argv:
        print(f"{'':18}{'':6}" + " ".join(f"{k:>12}" for k in KINDS) + f"   (each: {' '.join(DTYPES)})")
        for s in SHARDINGS:
            for p in POOLINGS:
                print(f"{s:18}{p:6}" + " ".join(f"{''.join(found[s, p, d, k] for d in DTYPES):>12}" for k in KINDS))
    print("\n".join(failures) or f"{len(cells)} cells: {sum(v == '.' for v in found.values())} trained, "
          f"{sum(v == 'f' for v in found.values())} looked up alone, their backward refused with its sentence, "
          f"{sum(v == '-' for v in found.values())} refused with it")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
