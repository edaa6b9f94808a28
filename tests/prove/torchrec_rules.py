"""`lockstep prove --rules torchrec`: cases that are correct in TorchRec pass, one that is wrong is found. torchrec_rules.py LOCKSTEP"""
import json
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../python"))
from lockstep.rules import work

RIGHT = ["bags: table_wise, sum, unweighted, rows 7,5, a rank without ids, sgd, FP32",
         "bags: row_wise, mean, unweighted, rows 1,2, ids on all ranks, sgd, FP32",
         "bags: column_wise, sum, weighted, rows 8,12, ids on all ranks, adagrad, FP32",
         # One gradient is nearly 0: a rule that divides by its root would magnify its rounding.
         "bags: table_wise, mean, unweighted, rows 8,12, ids on all ranks, adagrad, FP32",
         "bags: data_parallel, sum, unweighted, rows 8,12, ids on all ranks, sgd, FP32"]
# TorchRec does not divide the partial sums of a grid by the lengths of bags.
WRONG = "bags: grid, mean, unweighted, rows 7,5, a rank without ids, sgd, FP32"

run = subprocess.run([sys.argv[1], "prove", "--rules", "torchrec", "--quick", "--only", ";".join([*RIGHT, WRONG]), "--python",
                      sys.executable, "--json", "-"], capture_output=True, text=True)
assert run.returncode == 1, (run.returncode, run.stdout, run.stderr)
cases = {case["name"]: case for case in json.loads(run.stdout)["cases"]}
assert len(cases) == 5, cases  # two are of table_wise
for name, case in cases.items():
    wrong = name.endswith(" grid")
    assert case["class"] == ("wrong" if wrong else case["class"]) and (case["verdict"] == "fail") == wrong, case
    assert case["stages"][0]["elements"] == 1 + name.endswith(" table_wise"), case

# Processes that fail to connect, as on a busy machine, are restarted, and no item counts as hung.
right = ("value", ("right", "", "", ""))
starts = [[], [], [(0, [right, right])]]
work._gloo_start = lambda job, items: iter(starts.pop(0) if starts else [])
assert list(work.gloo(None, 2, ["an item"])) == [(0, right[1])] and not starts
try:
    list(work.gloo(None, 2, ["an item"]))
    raise SystemExit("processes that never meet give a verdict")
except RuntimeError as error:
    assert "did not connect 2 processes" in str(error), error
print("ok")
