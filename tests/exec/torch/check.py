"""Runs the injected bugs under `lockstep exec` on a machine with torch and a GPU, and reports each finding: check.py LOCKSTEP OUT_FOLDER
[BUG...]. Prints a line for each; exits with the number of wrong or missing findings.
"""
import concurrent.futures
import json
import os
import re
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
# bug: findings of which one must be first, ranks at fault (None: any)
BUGS = {
    "none": None,
    "op": (["collective.op_mismatch"], [2]),
    "dtype": (["collective.dtype_mismatch"], [1]),
    "count": (["collective.count_mismatch"], [3]),
    "root": (["collective.root_mismatch"], [3]),
    "branch": (["collective.kind_mismatch"], [2]),
    "skipped": (["collective.kind_mismatch", "collective.missing_rank"], [1]),
    "extra": (["collective.count_mismatch", "collective.extra_call",
               "collective.kind_mismatch"], [0]),
    "nan": (["value.nan_first"], [1]),
    "bucket": (["collective.count_mismatch", "collective.order_mismatch"], [2]),
    "split": (["p2p.count_mismatch", "collective.split_mismatch"], None),
    "gather": (["collective.count_mismatch"], [2]),
    "scatter_op": (["collective.op_mismatch"], [0]),
    "no_send": (["p2p.unmatched_recv", "deadlock.cycle", "deadlock.cross_communicator",
                 "collective.missing_rank"], None),
    "wrong_peer": (["p2p.unmatched_recv", "deadlock.cycle", "deadlock.cross_communicator",
                    "collective.missing_rank", "p2p.unmatched_send"], None),
    "short_send": (["p2p.count_mismatch"], None),
    "two_groups": (["deadlock.cross_communicator"], None),
    "half": (["deadlock.cross_communicator", "collective.missing_rank", "deadlock.cycle"], None),
    "some_group": (["collective.missing_rank"], None),
    "early": (["rank.exited_early"], [3]),
    "killed": (["rank.died"], [1]),
    "raises": (["rank.exited_early", "rank.died"], [2]),
    "stall": (["collective.missing_rank"], [0]),
}


def mark_lines(bug):
    with open(f"{HERE}/bugs.py", encoding="utf-8") as file:
        return [number for number, line in enumerate(file, 1)
                if (found := re.search(r"# MARK (.*)$", line)) and bug in found.group(1).split()]


def run(lockstep, out, bug):
    report, began = f"{out}/{bug}.json", f"{out}/{bug}.time"
    environment = dict(os.environ, FAULT_TIME=began, TORCH_NCCL_ASYNC_ERROR_HANDLING="1")
    options = ["--deadline", "4"] if bug == "stall" else ["--deadline", "20"]
    with open(f"{out}/{bug}.log", "w", encoding="utf-8") as log:
        code = subprocess.run([lockstep, "exec", "-n", "4", "--json", report, *options, "--",
                               sys.executable, f"{HERE}/bugs.py", bug], env=environment,
                              stdout=log, stderr=subprocess.STDOUT).returncode
    seconds = 0.0
    if os.path.exists(began):
        with open(began, encoding="utf-8") as file:
            seconds = time.time() - float(file.read())
    with open(report, encoding="utf-8") as file:
        return code, json.load(file)["cases"][0], seconds


def judge(bug, code, case):
    found = case["findings"][0] if case["findings"] else {"id": "-", "ranks": [], "where": ""}
    expected, wrong = BUGS[bug], []
    if expected is None:
        return found, ["not clean"] if code != 0 or case["findings"] else []
    ids, ranks = expected
    wrong += [] if found["id"] in ids else [f"finding, not {ids[0]}"]
    wrong += [] if ranks in (None, found["ranks"]) else [f"ranks, not {ranks}"]
    lines = [] if bug == "killed" else mark_lines(bug)  # only its last call is known
    if lines and not re.search(f"bugs\\.py:({'|'.join(map(str, lines))})\\b",
                               found["where"] + "\n" + found.get("text", "")):
        wrong.append(f"place, not {lines}")
    return found, wrong


def check(lockstep, out, bug):
    """The line of one bug, and whether its finding was the expected one."""
    try:
        code, case, seconds = run(lockstep, out, bug)
        found, wrong = judge(bug, code, case)
    except (OSError, ValueError) as error:
        code, seconds, wrong = "-", 0, [str(error)[:80]]
        found = {"id": "-", "ranks": [], "where": ""}
    line = (f"{bug:11} code {code} {seconds:5.1f} s {found['id']:28} ranks {found['ranks']} "
            f"{os.path.basename(found['where']):14} {'WRONG ' + '; '.join(wrong) if wrong else 'ok'}")
    return line, not wrong


def main():
    lockstep, out, *names = sys.argv[1:]
    os.makedirs(out, exist_ok=True)
    failed = 0
    # Four processes each, which all start CUDA: more at once ran out of memory.
    with concurrent.futures.ThreadPoolExecutor(3) as pool:
        for line, ok in pool.map(lambda bug: check(lockstep, out, bug), names or BUGS):
            failed += 0 if ok else 1
            print(line, flush=True)
    return failed


if __name__ == "__main__":
    sys.exit(main())
