"""Runs ending.py under `lockstep exec` in each way: check_ending.py LOCKSTEP."""
import json
import os
import socket
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
ALL = ["--checks", "all"]
WAYS = {  # options, findings, exit code
    "destroyed": (ALL, [], 0),
    "subgroup": (ALL, [], 0),
    "pending": (ALL, [], 0),
    "abort": (ALL, [], 0),
    "kept": (ALL, ["handle.leak"], 1),
    "callback": ([], [], 0),
    "chain": ([], [], 0),
    "never": ([], ["collective.missing_rank", "rank.exited_early"], 1),
    "profiled": ([], [], 0),
    "connects": ([], [], 0),
    "raises": ([], [], 3),
    "spawn": ([], [], 0),
}


def run(lockstep, way, options):
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = str(free.getsockname()[1])
    ranks = [] if way == "spawn" else ["-n", "2"]
    with tempfile.TemporaryDirectory() as folder:
        report = os.path.join(folder, "report.json")
        done = subprocess.run([lockstep, "exec", *ranks, "--json", report, *options, "--", sys.executable,
                               os.path.join(HERE, "ending.py"), way, port], capture_output=True, text=True, check=False)
        with open(report, encoding="utf-8") as file:
            return done, json.load(file)["cases"][0]


def main():
    lockstep, *ways = sys.argv[1:]
    wrong = 0
    for way in ways or WAYS:
        options, names, code = WAYS[way]
        done, case = run(lockstep, way, options)
        found = [finding["id"] for finding in case["findings"]]
        if done.returncode != code or bool(found) != bool(names) or not set(found) <= set(names):
            print(f"{way}: {found}, exit code {done.returncode}\n{done.stdout}{done.stderr}")
            wrong += 1
    print(f"{len(ways or WAYS)} runs, {wrong} not as they should be")
    return min(wrong, 1)


sys.exit(main())
