"""`lockstep prove --rules dtensor`: sharding_rules.py LOCKSTEP PACKAGE PART.

found: wrong rules of torch are found and confirmed on gloo, correct ones pass. tables: a wrong rule that this test registers is new in the
table; an incomplete table is resumed. program: a defect's program shows it without lockstep; a mesh of two dimensions.
"""
import contextlib
import json
import os
import socket
import stat
import subprocess
import sys
import tempfile

LOCKSTEP, PACKAGE, PART = sys.argv[1:]
# Wrong rules of torch 2.11. If a version fixes one, remove it here.
WRONG = ["F.mse_loss(x, y)", "x.norm(dim=0).sum()", "x.fill_(3)", "x.bool()", "x.clone().copy_(y)"]
RIGHT = ["x.cos()", "x.sum(0)", "x.sort(1)", "x.view(4, 12)"]
BROKEN = """#!{python}
import runpy
import sys

import torch
from torch.distributed.tensor import Partial, Replicate
from torch.distributed.tensor.experimental import register_sharding


@register_sharding(torch.ops.aten.cos.default)
def cos(x):  # as if it were linear
    return [([Replicate()], [Replicate()]), ([Partial()], [Partial()])]


sys.argv = sys.argv[2:]
runpy.run_module("lockstep.rules", run_name="__main__", alter_sys=True)
"""


def prove(folder, only, *options, python=sys.executable):
    """(exit code, cases by name)"""
    report = os.path.join(folder, "report.json")
    run = subprocess.run([LOCKSTEP, "prove", "--rules", "dtensor", "--quick", "--only", ";".join(only), "--python", python,
                          "--json", report, "--quiet", *options], capture_output=True, text=True)
    assert run.returncode in (0, 1), (run.returncode, run.stdout, run.stderr)
    with open(report, encoding="utf-8") as file:
        return run.returncode, {case["name"]: case for case in json.load(file)["cases"]}


def rows(path):
    with open(path, encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def write(path, found, end=""):
    with open(path, "w", encoding="utf-8") as file:
        file.writelines(json.dumps(row) + "\n" for row in found)
        file.write(end)


def check_found(folder):
    table = os.path.join(folder, "table.jsonl")
    code, cases = prove(folder, WRONG + RIGHT, "--results", table, "--sample", "3")
    assert code == 1
    for name in WRONG:
        assert cases[name]["class"] == "wrong" and cases[name]["stages"][0]["differing"] > 0, cases[name]
    for name in RIGHT:
        assert cases[name]["verdict"] == "pass" and cases[name]["stages"][0]["elements"] > 5, cases[name]
    found = rows(table)
    assert {row["name"] for row in found if row.get("gloo") == "wrong"} == set(WRONG)
    assert not [row for row in found if row["verdict"] == "unconfirmed"]


def check_tables(folder):
    names = ["x.cos()", "x.fill_(3)"]
    table, before, python = (os.path.join(folder, name) for name in ("table.jsonl", "before.jsonl", "python"))
    code, cases = prove(folder, names, "--results", table)
    assert code == 1 and cases["x.cos()"]["verdict"] == "pass", cases
    found = rows(table)
    write(table, [row for row in found if row["name"] != "x.cos()"][:-3], '{"name": "x.')  # like a stopped run
    altered = next(row for row in found if row["name"] == "x.fill_(3)" and row["verdict"] == "right")
    altered["verdict"] = "wrong"
    write(before, found)
    with open(python, "w", encoding="utf-8") as file:
        file.write(BROKEN.format(python=sys.executable))
    os.chmod(python, os.stat(python).st_mode | stat.S_IXUSR)
    code, cases = prove(folder, names, "--results", table, "--resume", "--against", before, python=python)
    assert code == 1 and cases["x.cos()"]["class"] == "wrong", cases
    assert "P(sum)" in cases["x.cos()"]["stages"][0]["divergence"], cases
    fresh = cases["newly wrong results"]
    assert fresh["verdict"] == "fail" and "x.cos() | " in fresh["stages"][0]["divergence"], fresh
    assert fresh["note"].startswith("1 results are mended"), fresh
    assert fresh["stages"][0]["differing"] == cases["x.cos()"]["stages"][0]["differing"], cases
    kinds = [row["name"] for row in rows(table)]
    assert kinds.count("x.fill_(3)") == [row["name"] for row in found].count("x.fill_(3)")


def check_program(_):
    """Ranks of plain gloo run the program's text."""
    sys.path.insert(0, PACKAGE)
    from lockstep.rules import judge, shrink, work
    from lockstep.rules.inputs import Call

    reference = judge.Reference(Call("fill_", "x.fill_(3)", (("x", "2x2"),)), 1)
    text = shrink.program(reference, [("P(sum)",)], (2,), False, "fill.py")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        os.environ.update(WORLD_SIZE="2", MASTER_ADDR="127.0.0.1", MASTER_PORT=str(free.getsockname()[1]))

    def rank(number):
        def run(put):
            import io

            os.environ["RANK"] = str(number)
            said = io.StringIO()
            with contextlib.redirect_stdout(said):
                exec(compile(text, "fill.py", "exec"), {"__name__": "__main__"})
            put(said.getvalue())

        return work.forked(run)

    said = ["".join(line or "" for line in work.lines(*child, 300)) for child in [rank(0), rank(1)]]
    def mesh(put):
        """Two dimensions, whose groups the threads create together."""
        for placements in ([("S(0)", "S(1)")], [("P(sum)", "R")]):
            put(work.Threads().judge(judge.Reference(Call("cos", "x.cos()", (("x", "5x3"),)), 1), placements, (2, 2), False)[0])

    assert list(work.lines(*work.forked(mesh), 300)) == ["right", "right"]
    values = said[0].replace("\n", "").replace(" ", "")
    assert values.startswith("unshardedtensor([[3.,3.],[3.,3.]]") and "DTensortensor([[6.,6.],[6.,6.]]" in values, said
    assert said[1] == "", said


with tempfile.TemporaryDirectory() as place:
    globals()[f"check_{PART}"](place)
print("ok")
