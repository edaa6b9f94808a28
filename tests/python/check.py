"""Runs program.py under `lockstep exec`, clean and with each mistake: check.py LOCKSTEP."""
import json
import os
import re
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "../forks"))
from forks import Forks  # noqa: E402

PROGRAM = os.path.join(HERE, "program.py")
BUGS = {  # finding, ranks, mark, exit code
    "op": ("collective.op_mismatch", [1], "op", 1),
    "count": ("collective.count_mismatch", [1], "count", 1),
    "cycle": ("deadlock.cycle", [0, 1], "cycle", 1),
    "tag": ("deadlock.cycle", [0, 1], "tag", 1),
    "branch": ("collective.kind_mismatch", [1], "branch", 1),
    "bucket": ("model.differs", [1], "bucket", 1),
    "early": ("rank.exited_early", [1], None, 1),
    "killed": ("rank.died", [1], None, 3),
}
PURPOSES = {  # of DDP's and FSDP's calls, in program.py's training
    ("all_reduce", "gradients of weight, bias"), ("all_gather", "parameters 0.weight, 0.bias"),
    ("all_gather", "parameters 1.weight, 1.bias"), ("reduce_scatter", "gradients of 0.weight, 0.bias"),
    ("reduce_scatter", "gradients of 1.weight, 1.bias"), ("send", "the tag 7"),
}


def marked(mark):
    with open(PROGRAM, encoding="utf-8") as file:
        return next(number for number, line in enumerate(file, 1) if re.search(rf"# MARK {mark}$", line))


def run(forks, lockstep, ranks, *words):
    with tempfile.TemporaryDirectory() as folder:
        report = os.path.join(folder, "report.json")
        done = forks.run([lockstep, "exec", "-n", str(ranks), "--json", report], words)
        with open(report, encoding="utf-8") as file:
            return done, json.load(file)["cases"][0]


def main():
    lockstep, wrong = os.path.abspath(sys.argv[1]), []
    forks = Forks(PROGRAM)
    for ranks in (1, 2, 3):
        done, case = run(forks, lockstep, ranks)
        if done.returncode != 0 or case["findings"]:
            wrong.append(f"{ranks} ranks: {done.stdout}{done.stderr}")
        purposes = {(call["call"], call["purpose"]) for call in case["calls"]}
        if ranks > 1 and not PURPOSES <= purposes:
            wrong.append(f"{ranks} ranks: {PURPOSES - purposes} not in {purposes}")
    for bug, (name, ranks, mark, code) in BUGS.items():
        done, case = run(forks, lockstep, 2, bug)
        found = case["findings"][0] if case["findings"] else {"id": None, "ranks": [], "where": ""}
        where = f"program.py:{marked(mark)}" if mark else ""
        if (found["id"], done.returncode) != (name, code) or not set(ranks) >= set(found["ranks"]) or \
                where not in found["where"]:
            wrong.append(f"{bug}: {found}, exit code {done.returncode}\n{done.stdout}{done.stderr}")
    done, case = run(forks, lockstep, 2, "raises")
    if done.returncode == 0 or "a defect of rank 1" not in done.stderr:
        wrong.append(f"raises: exit code {done.returncode}")
    print("\n".join(wrong))
    print(f"{3 + len(BUGS) + 1} runs, {len(wrong)} not as they should be")
    return min(len(wrong), 1)


sys.exit(main())
