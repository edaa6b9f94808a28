"""`lockstep prove --rules dtensor`: sharding_rules.py LOCKSTEP PACKAGE PART.

found: wrong rules of torch are found and all confirmed on gloo, correct ones pass. tables: a wrong rule that this test registers is new in
the table; an incomplete table is resumed. files: tables that a run cannot continue or compare are refused. program: a defect's program shows
it without lockstep; a random call is recognised; a mesh of two dimensions; a process that crashes.
"""
import contextlib
import json
import os
import re
import socket
import stat
import subprocess
import sys
import tempfile

LOCKSTEP, PACKAGE, PART = sys.argv[1:]
# Wrong rules of torch 2.11, with the operators of the defects. If a version fixes one, remove it here.
WRONG = {"x.norm(dim=0).sum()": {"aten.sum.default"},
         "x.fill_(3)": {"aten.fill_.Scalar"}, "x.bool()": {"aten._to_copy.default"}, "x.clone().copy_(y)": {"aten.copy_.default"},
         "torch._foreach_add_([x], 1.0)": {"aten._foreach_add_.Scalar"}, "x[0].fill_(3)": {"aten.select.int is a copy", "aten.fill_.Scalar"},
         "x.amax()": {"aten.sum.dim_IntList"}, "x.squeeze(0)": {"aten.squeeze.dim"}}
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


def started(folder, only, *options, python=sys.executable, env=None):
    return subprocess.run([LOCKSTEP, "prove", "--rules", "dtensor", "--quick", "--only", ";".join(only), "--python", python,
                           "--json", os.path.join(folder, "report.json"), "--quiet", *options], capture_output=True, text=True, env=env)


def prove(folder, only, *options, python=sys.executable):
    """(exit code, cases by name)"""
    run = started(folder, only, *options, python=python)
    assert run.returncode in (0, 1), (run.returncode, run.stdout, run.stderr)
    with open(os.path.join(folder, "report.json"), encoding="utf-8") as file:
        return run.returncode, {case["name"]: case for case in json.load(file)["cases"]}


def rows(path):
    """The table's rows, without its header."""
    with open(path, encoding="utf-8") as file:
        return [json.loads(line) for line in file][1:]


def write(path, found, end="", like=None):
    """A table with the header of another, which it may replace."""
    with open(like or path, encoding="utf-8") as file:
        header = file.readline()
    with open(path, "w", encoding="utf-8") as file:
        file.write(header)
        file.writelines(json.dumps(row) + "\n" for row in found)
        file.write(end)


def check_found(folder):
    table = os.path.join(folder, "table.jsonl")
    programs = os.path.join(folder, "programs")
    code, cases = prove(folder, [*WRONG, *RIGHT], "--results", table, "--sample", "3", "--programs", programs)
    assert code == 1
    for name in WRONG:
        assert cases[name]["class"] == "wrong" and sum(stage["differing"] for stage in cases[name]["stages"]) > 0, cases[name]
    for name in RIGHT:
        assert cases[name]["verdict"] == "pass" and cases[name]["stages"][0]["elements"] > 5, cases[name]
    found = rows(table)
    for row in found:
        if row["verdict"] in ("wrong", "hung"):
            assert row["gloo"] == row["verdict"] and row["defect"] in WRONG[row["name"]], row
    assert all({row["defect"] for row in found if row["name"] == name and "defect" in row} == some for name, some in WRONG.items()), found
    assert not [row for row in found if row["verdict"] == "unconfirmed"]
    with open(os.path.join(programs, "squeeze_dim_forward_hung.py"), encoding="utf-8") as file:
        assert re.search(r"x = torch.tensor\(\[\[-?\d+, -?\d+\]", file.read())  # threads refuse 3x1 too, which gloo does not


def check_tables(folder):
    names = ["x.cos()", "x.fill_(3)"]
    table, before, python = (os.path.join(folder, name) for name in ("table.jsonl", "before.jsonl", "python"))
    code, cases = prove(folder, names, "--results", table)
    assert code == 1 and cases["x.cos()"]["verdict"] == "pass", cases
    found = rows(table)
    write(table, [row for row in found if row["name"] != "x.cos()"][:-3], '{"name": "x.')  # like a stopped run
    altered = next(row for row in found if row["name"] == "x.fill_(3)" and row["verdict"] == "right")
    altered["verdict"] = "wrong"
    write(before, found, like=table)
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


def check_files(folder):
    table, other = os.path.join(folder, "table.jsonl"), os.path.join(folder, "other.jsonl")
    prove(folder, ["x.cos()", "x.erf()"], "--results", table)
    found = rows(table)
    os.mkdir(os.path.join(folder, "none"))
    with open(os.path.join(folder, "none", "torch.py"), "w", encoding="utf-8") as file:
        file.write("raise SystemExit('torch is imported')\n")
    without = {**os.environ, "PYTHONPATH": os.path.join(folder, "none")}  # files are read before torch is imported

    def refused(says, *options, only=("x.cos()",), env=without):
        run = started(folder, only, *options, env=env)
        assert run.returncode == 2 and says in run.stderr, (says, run.returncode, run.stdout, run.stderr)

    resumed = ("--results", other, "--resume")
    refused("no operator or expression has the name nothing;x.co", only=("nothing", "x.co"), env=None)
    write(other, found[:2], '{"name": "x.cos()"}\n', like=table)
    refused("line 4 is not a row of a table", *resumed)
    refused("line 4 is not a row of a table", "--against", other)
    write(other, [{**found[0], "verdict": "fine"}], like=table)
    refused("line 2 is not a row of a table", *resumed)
    with open(other, "w", encoding="utf-8") as file:
        file.write(json.dumps(found[0]) + "\n")
    refused("line 1 is not a header of a table", *resumed)
    with open(other, "wb") as file:
        file.write(b"\xff\xfe\n")
    refused("cannot be read", *resumed)
    refused("cannot be read", "--against", os.path.join(folder, "none.jsonl"))
    with open(other, "w", encoding="utf-8") as file:
        file.write(json.dumps({"subject": "dtensor", "torch": "1.0", "seed": 1}) + "\n")
    refused("belongs to another run (subject dtensor, torch 1.0, seed 1)", *resumed, env=None)
    refused("cannot continue it", "--results", table, "--resume", "--seed", "2", env=None)
    with open(table, encoding="utf-8") as file:
        assert len(file.readlines()) == len(found) + 1
    # Another selection continues the file: the rows of the first stay. An incomplete line is dropped, and a second one as well.
    for _ in range(2):
        with open(table, "a", encoding="utf-8") as file:
            file.write('{"name": "x.')
        prove(folder, ["x.erf()", "x.atan()"], "--results", table, "--resume")
    assert [row["name"] for row in rows(table)].count("x.cos()") == len(found) / 2
    assert {row["name"] for row in rows(table)} == {"x.cos()", "x.erf()"} | {"x.atan()"}
    with open(other, "w", encoding="utf-8") as file:  # a run that was stopped before its first row
        file.write('{"subject": "dten')
    prove(folder, ["x.cos()"], *resumed)
    assert len(rows(other)) == len(found) / 2


def check_program(_):
    """Ranks of plain gloo run the program's text."""
    sys.path.insert(0, PACKAGE)
    import torch

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

        return run

    said, ranks = {0: "", 1: ""}, work.Children(300)
    for number in said:
        ranks.start(number, rank(number))
    for number, line in ranks.lines():
        said[number] += line or ""

    def draws(put):
        """Draws of all three elements are often equal; a dropout that drops nothing draws numbers and its result is certain."""
        for seed in range(20):
            drawn = judge.Reference(Call("multinomial", "torch.multinomial(x.abs(), 3)", (("x", "3"),)), seed).why
            certain = judge.Reference(Call("dropout", "torch.native_dropout(x, 0.0, True)", (("x", "3"),)), seed).why
            put("random" in (drawn or "") and certain is None)

    assert list(work.lines(draws, 300)) == [True] * 20

    def mesh(put):
        """Two dimensions, whose groups the threads create together."""
        for placements in ([("S(0)", "S(1)")], [("P(sum)", "R")]):
            put(work.Threads().judge(judge.Reference(Call("cos", "x.cos()", (("x", "5x3"),)), 1), placements, (2, 2), False)[0])

    assert list(work.lines(mesh, 300)) == ["right", "right"]

    def scattered(put):
        """DTensor reduces each partial to shards, with gloo and among threads."""
        threads, reference = work.Threads(), judge.Reference(Call("add", "x + y", (("x", "5x3"), ("y", "5x3"))), 1)
        for kind in ("P(sum)", "P(avg)", "P(max)", "P(min)"):
            put(threads.judge(reference, [(kind,), ("S(0)",)], (2,), False)[0])

    assert list(work.lines(scattered, 300)) == ["right"] * 4

    def loss(put):
        """The operators whose rules are wrong, forward and backward; a table of all its 404 combinations takes a minute."""
        threads = work.Threads()
        for size, second, backward in (("5x3", "S(0)", False), ("4x6", "S(0)", True), ("4x6", "R", True)):
            reference = judge.Reference(Call("mse_loss", "F.mse_loss(x, y)", (("x", size), ("y", size))), 1)
            how = ([("R",), (second,)], (2,), backward)
            verdict = threads.judge(reference, *how)[0]
            put([verdict, verdict == "wrong" and shrink.locate(threads, reference, *how)["operator"]])

    assert list(work.lines(loss, 300)) == [["wrong", "aten.mse_loss.default"], ["wrong", "aten.mse_loss_backward.default"], ["right", False]]

    def traces(put):
        """The decomposition of an operator without a rule is traced once for all ranks: replicated, and sharded on each dimension."""
        from torch.distributed.tensor import _decompositions

        class Counted(_decompositions.PlacementTrackingMode):
            count = 0

            def __init__(self, *given):
                super().__init__(*given)
                Counted.count += 1

        _decompositions.PlacementTrackingMode = Counted
        threads, reference = work.Threads(), judge.Reference(Call("celu", "F.celu(x)", (("x", "4x6"),)), 1)
        for _ in range(2):
            threads.each((2,), lambda mesh: judge.forget())
            put([threads.judge(reference, [("S(0)",)], (2,), False)[0], Counted.count])

    assert list(work.lines(traces, 300)) == [["right", 3], ["right", 3]]
    # A combination that ends its process hangs, and the others of the call are judged.
    deadly = Call("deadly", "__import__('os').abort()", (("x", "4x6"),))
    partly = Call("partly", "__import__('os').abort() if 'Shard(dim=0)' in str(getattr(x, 'placements', '')) else x.cos()", (("x", "4x6"),))
    settings = {"seed": 1, "most": {(2,): (9, 8)}}
    found = list(work.table([(deadly, (2,)), (partly, (2,))], settings, {}, 1))
    assert [row["verdict"] for row in found if row["name"] == "deadly"] == ["skipped"], found
    judged = [(row["verdict"], *row["placements"]) for row in found if row["name"] == "partly" and row["pass"] == "forward"]
    assert [one for one in judged if one[0] == "hung"] == [("hung", ["S(0)"])] and len(judged) == 8, judged
    # A remainder of terms that cancel is rounding; a small difference of ordinary values is none.
    small, one = torch.tensor([0.0, 3e-16], dtype=torch.float64), torch.tensor([1.0, 2.0], dtype=torch.float64)
    assert judge.rounding.begin() is None and judge._difference(torch.zeros_like(small), small) is None
    assert judge._difference(one + 1e-8, one) is not None and judge._difference(torch.zeros_like(one), one * 1e-6) is not None
    values = said[0].replace("\n", "").replace(" ", "")
    assert values.startswith("unshardedtensor([[3.,3.],[3.,3.]]") and "DTensortensor([[6.,6.],[6.,6.]]" in values, said
    assert said[1] == "", said


with tempfile.TemporaryDirectory() as place:
    globals()[f"check_{PART}"](place)
print("ok")
