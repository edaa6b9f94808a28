"""Dumps of jobs that hung on two H200 with NCCL 2.28.9 under torch 2.11, and RAS output about them: recorded.py LOCKSTEP.

Each job all-reduced on three groups and sent a message. Then the ranks diverged as the folder's name says.
"""
import json
import os
import subprocess
import sys
import tempfile

from dumps import run_scenario

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "data", "hung")
# folder: (finding of the flight recorder, its ranks, finding of RAS)
JOBS = {
    "size": ("collective.count_mismatch", [1], None), "dtype": ("collective.dtype_mismatch", [1], None),
    "kind": ("collective.kind_mismatch", [1], "collective.kind_mismatch"),
    "missing": ("collective.missing_rank", [1], "collective.missing_rank"),
    "crossed": ("deadlock.cross_communicator", [0, 1], "deadlock.cross_communicator"),
    "no_receive": ("collective.missing_rank", [1], "collective.missing_rank"),
    "short": ("p2p.count_mismatch", [0, 1], None), "both_send": ("deadlock.cycle", [0, 1], None),
    "batch": (None, [], None), "coalesced": (None, [], None),
}


def said_of(lockstep, *paths):
    with tempfile.TemporaryDirectory() as folder:
        report = os.path.join(folder, "report.json")
        done = subprocess.run([lockstep, "diagnose", "--json", report, *paths], capture_output=True, text=True, check=False)
        if done.returncode not in (0, 1):
            return [done.stderr], [], ""
        with open(report, encoding="utf-8") as file:
            findings = [found for case in json.load(file)["cases"] for found in case.get("findings", [])]
        return [found["id"] for found in findings], findings[0]["ranks"] if findings else [], done.stdout


def main():
    lockstep, wrong = sys.argv[1], []
    for name, (finding, ranks, of_ras) in JOBS.items():
        dumps = [os.path.join(HERE, name, f"rank_{rank}") for rank in (0, 1)]
        ids, named, text = said_of(lockstep, *dumps)
        if ids != ([finding] if finding else []) or named != ranks or (finding and "hangs.py" not in text):
            wrong.append(f"{name}: {ids} {named}, not {finding} {ranks}: {text}")
        ids, _, text = said_of(lockstep, os.path.join(HERE, name, "ras.json"))
        if ids != ([of_ras] if of_ras else []):
            wrong.append(f"{name}: RAS gives {ids}, not {of_ras}: {text}")
        taken = subprocess.run([lockstep, "extract", *dumps], capture_output=True, text=True, check=False)
        again = run_scenario(lockstep, taken.stdout) if finding and taken.returncode == 0 else []
        if again != ([finding] if finding else []) or len(taken.stdout.splitlines()) > 12:
            wrong.append(f"{name}: extracted {again}, not {finding}: {taken.returncode} {taken.stderr}{taken.stdout}")
    print("\n".join(wrong))
    return 1 if wrong else 0


sys.exit(main())
