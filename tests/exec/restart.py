"""Attempts of an elastic launcher under `lockstep exec`: the last one counts.

restart.py LOCKSTEP PROGRAM; restart.py launch MOST PROGRAM BUG is the launcher, which starts its ranks again at most
MOST times"""
import json
import os
import subprocess
import sys
import tempfile

# The program's argument, the number of restarts, exit code, findings, whether the restart is reported.
CASES = {("restart", 1): (0, [], True),
         ("restart_all", 1): (0, [], True),
         ("restart_op", 1): (1, ["collective.op_mismatch"], False),
         ("restart", 0): (1, ["rank.exited_early"], False)}


def launch(most, program, bug):
    for attempt in range(most + 1):
        ranks = [subprocess.Popen([program, bug], env=dict(
            os.environ, RANK=str(rank), WORLD_SIZE="3", TORCHELASTIC_RESTART_COUNT=str(attempt),
            TORCHELASTIC_MAX_RESTARTS=str(most))) for rank in range(3)]
        if not any([rank.wait() for rank in ranks]):
            return 0
    return 1


def check(lockstep, program, bug, most):
    code, findings, told = CASES[bug, most]
    with tempfile.TemporaryDirectory() as folder:
        report = f"{folder}/report.json"
        done = subprocess.run([lockstep, "exec", "--json", report, "--", sys.executable, __file__, "launch", str(most),
                               program, bug], env=dict(os.environ, MEET=folder), capture_output=True, text=True)
        with open(report, encoding="utf-8") as file:
            result = json.load(file)["cases"][0]
    seen = (done.returncode, [found["id"] for found in result["findings"]],
            "attempt 0 of the launcher ended" in done.stderr)
    if seen == (code, findings, told):
        return 0
    print(bug, most, seen, done.stdout, done.stderr, sep="\n")
    return 1


if sys.argv[1] == "launch":
    sys.exit(launch(int(sys.argv[2]), *sys.argv[3:]))
sys.exit(sum(check(sys.argv[1], sys.argv[2], bug, most) for bug, most in CASES))
