"""Every step kind and every stage has a judge, and docs/judges.md names it: judges.py PROGRAM SOURCE.

Each step kind of the schema has a small program here whose stage must be judged, element by element. A kind without an output has a program
in which its absence or defect is found. A kind without either fails, and so does one without a row in the page.
"""
import json
import os
import re
import subprocess
import sys
import tempfile

PROGRAM, SOURCE = (os.path.abspath(path) for path in sys.argv[1:])
TENSORS = "tensors: [{name: a, shape: [4, 4], values: normal, placements: S(0)}, " \
          "{name: b, shape: [4, 4], values: normal, placements: R}, " \
          "{name: p, shape: [4, 4], placements: P(sum)}, " \
          "{name: targets, shape: [4], dtype: i64, values: {values: [3, 0, 1, 3]}, placements: R}, " \
          "{name: ids, shape: [2, 2], dtype: i64, values: {values: [3, 0, 1, 3]}, placements: S(0)}], "
# Step kind: steps on two ranks; the stage of the last one is judged.
JUDGED = {
    "all_reduce": ["{all_reduce: {count: 4, values: normal}}", "{all_reduce: {tensor: p, into: c}}"],
    "reduce": ["{reduce: {count: 4, values: normal, root: 1}}"],
    "broadcast": ["{broadcast: {count: 4, root: 1}}", "{broadcast: {tensor: b, root: 1, into: c}}"],
    "all_gather": ["{all_gather: {counts: [3, 1]}}", "{all_gather: {tensor: a, dim: 0, into: c}}"],
    "reduce_scatter": ["{reduce_scatter: {counts: [3, 1], values: normal}}",
                       "{reduce_scatter: {tensor: p, dim: 0, into: c}}"],
    "all_to_all": ["{all_to_all: {splits: [[1, 2], [3, 0]]}}",
                   "{all_to_all: {tensor: a, split_dim: 1, cat_dim: 0, into: c}}"],
    "gather": ["{gather: {count: 3, root: 1}}"],
    "scatter": ["{scatter: {count: 3, root: 1}}"],
    "scan": ["{scan: {count: 4, values: normal}}"],
    "exscan": ["{exscan: {count: 4, values: normal}}"],
    "send_recv": ["{send_recv: {count: 3, pairs: [[0, 1], [1, 0]]}}"],
    "redistribute": ["{redistribute: {tensor: a, to: S(1), into: c}}"],
    "full": ["{full: {tensor: a}}"],
    "matmul": ["{matmul: {tensor: a, other: b, into: c}}"],
    "add": ["{add: {tensor: b, other: b, into: c}}"],
    "sub": ["{sub: {tensor: b, other: b, into: c}}"],
    "mul": ["{mul: {tensor: b, other: b, into: c}}"],
    "scale": ["{scale: {tensor: a, factor: 3, into: c}}"],
    "transpose": ["{transpose: {tensor: a, into: c}}"],
    "narrow": ["{narrow: {tensor: b, dim: 0, start: 1, length: 2, into: c}}"],
    "cat": ["{cat: {tensors: [b, b], dim: 0, into: c}}"],
    "slice": ["{slice: {tensor: a, dim: 0, start: 1, length: 2, into: c}}"],
    "view": ["{view: {tensor: a, shape: [16], into: c}}", "{view: {tensor: p, shape: [2, 8], into: c}}"],
    "cast": ["{cast: {tensor: a, dtype: bf16, into: c}}", "{cast: {tensor: p, dtype: f64, into: c}}"],
    "dropout": ["{dropout: {tensor: a, p: 0.5, into: c}}", "{dropout: {tensor: a, p: 0.5, per_rank: true, into: c}}"],
    "softmax": ["{softmax: {tensor: a, dim: 0, into: c}}"],
    "log_softmax": ["{log_softmax: {tensor: p, dim: 1, into: c}}"],
    "cross_entropy": ["{cross_entropy: {tensor: a, other: targets, into: c}}",
                      "{cross_entropy: {tensor: a, other: targets, smoothing: 0.1, reduction: mean, into: c}}"],
    "norm": ["{norm: {tensor: a, dim: 0, into: c}}", "{norm: {tensor: b, dim: 1, p: 1, into: c}}"],
    "place": ["{place: {tensor: b, shape: [8, 4], to: S(0), into: c}}"],
    "check_equal": ["{scale: {tensor: a, factor: 1, into: c}}, {check_equal: {tensor: c, other: a}}"],
    "sum": ["{sum: {tensor: b, dim: 0, into: c}}"],
    "mean": ["{mean: {tensor: a, dim: 0, into: c}}", "{mean: {tensor: b, dim: 1, into: c}}"],
    "prod": ["{prod: {tensor: a, dim: 0, into: c}}"],
    "amax": ["{amax: {tensor: a, dim: 0, into: c}}"],
    "amin": ["{amin: {tensor: a, dim: 1, into: c}}"],
    "embedding": ["{embedding: {tensor: ids, other: a, into: c}}",
                  "{embedding: {tensor: ids, other: a, way: exchanged, pooling: mean, into: c}}"],
    "change": ["{change: {tensor: a, ranks: [1], value: 0.5}}"],
    "wait": ["{all_reduce: {name: last, count: 4, async: true}}, {wait: {step: last}}"],
}
# Step kind without an output: steps in which its absence or its defect is found, and the finding.
FOUND = {
    "barrier": ("{barrier: {except: [{ranks: [1], skip: true}]}}, {all_reduce: {count: 4}}", "collective.missing_rank"),
    "touch": ("{all_reduce: {name: x, count: 4, async: true}}, {touch: {step: x, write: true}}, {wait: {step: x}}",
              "buffer.use_before_wait"),
    "check_replica": ("{scatter: {name: x, count: 4, values: normal}}, {check_replica: {step: x}}", "replica.diverged"),
}
failures = []


def run(folder, program):
    with open(os.path.join(folder, "s.yaml"), "w", encoding="utf-8") as file:
        file.write("lockstep: 1\nname: s\nmesh: {shape: [2]}\n" + program)
    done = subprocess.run([PROGRAM, "run", "--json", "-", "s.yaml"], capture_output=True, text=True, cwd=folder,
                          check=False)
    if not done.stdout:
        failures.append(f"{program}\n  {done.stderr}")
        return None
    report = json.loads(done.stdout)
    return report["cases"][0] if report["cases"] else {"verdict": "skipped", "stages": [], "findings": [], "class": ""}


def check_judged(folder, kind, steps):
    tensors = "tensor" in steps or kind == "cat"
    case = run(folder, "program: {%ssteps: [%s]}\n" % (TENSORS if tensors else "", steps))
    if case is None:
        return
    stage = case["stages"][-1] if case["stages"] else {"class": "none", "elements": 0, "unjudged": 0, "against": ""}
    if case["verdict"] != "pass" or stage["class"] in ("none", "unjudged") or stage["elements"] == 0 \
            or stage["unjudged"] != 0 or stage["against"] != "oracle":
        failures.append(f"{kind}: nothing judges {steps}: {case}")


def check_found(folder, kind, steps, what):
    tensors = "tensor" in steps
    case = run(folder, "program: {%ssteps: [%s]}\n" % (TENSORS if tensors else "", steps))
    if case is not None:
        found = [case["class"], *(finding["id"] for finding in case["findings"])]
        if case["verdict"] != "fail" or what not in found:
            failures.append(f"{kind}: {what} is not found in {steps}: {case}")


def step_kinds():
    schema = subprocess.run([PROGRAM, "run", "--json-schema"], capture_output=True, text=True, check=True).stdout
    return [kind for form in json.loads(schema)["$defs"]["step"]["anyOf"] for kind in form.get("properties", ())]


def main():
    with open(os.path.join(SOURCE, "docs/judges.md"), encoding="utf-8") as file:
        rows = {name for line in file if line.startswith("| ") for name in re.findall(r"`([a-z_]+)`", line.split("|")[1])}
    every = step_kinds()
    assert len(every) > 20, every
    with tempfile.TemporaryDirectory() as folder:
        for kind in every:
            if kind not in rows:
                failures.append(f"docs/judges.md has no row for {kind}")
            if (kind in JUDGED) == (kind in FOUND):
                failures.append(f"{kind}: nothing here says what judges it")
            for steps in JUDGED.get(kind, ()):
                check_judged(folder, kind, steps)
            if kind in FOUND:
                check_found(folder, kind, *FOUND[kind])
        case = run(folder, "tables: [{name: t, rows: 8, dim: 4, sharding: {type: row_wise}}]\ninputs: {batch: 3}\n")
        for stage in case["stages"] if case else ():
            if stage["name"] not in rows or stage["class"] == "unjudged" or stage["elements"] == 0:
                failures.append(f"stage {stage['name']}: in the page {stage['name'] in rows}, {stage}")
        case = run(folder, "program: {tensors: [{name: a, shape: [4], placements: S(0)}], steps: []}\n")
        if case is None or [s["name"] for s in case["stages"]] != ["tensors"] or "tensors" not in rows:
            failures.append(f"the stage of a program's tensors: {case}")
    print("\n".join(failures) or f"{len(every)} step kinds and the stages of tables are judged")
    return 1 if failures else 0


sys.exit(main())
