"""Runs ending.py under `lockstep exec` in each way: check_ending.py LOCKSTEP."""
import json
import os
import socket
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
PROGRAM = os.path.join(HERE, "ending.py")
sys.path.insert(0, os.path.join(HERE, "../forks"))
from forks import Forks  # noqa: E402

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
    "unstarted": ([], ["rank.exited_early"], 1),
    "spawn": ([], [], 0),
}


def run(forks, lockstep, way, options):
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = str(free.getsockname()[1])
    with tempfile.TemporaryDirectory() as folder:
        report = os.path.join(folder, "report.json")
        command = [lockstep, "exec", "--json", report, *options]
        if way == "spawn":
            done = subprocess.run([*command, "--", sys.executable, PROGRAM, way, port], capture_output=True, text=True, check=False)
        else:
            done = forks.run([*command, "-n", "2"], [way, port])
        with open(report, encoding="utf-8") as file:
            return done, json.load(file)["cases"][0]


def main():
    lockstep, *ways = os.path.abspath(sys.argv[1]), *sys.argv[2:]
    forks, wrong = Forks(PROGRAM, whole=True), 0
    for way in ways or WAYS:
        options, names, code = WAYS[way]
        done, case = run(forks, lockstep, way, options)
        found = [finding["id"] for finding in case["findings"]]
        if done.returncode != code or bool(found) != bool(names) or not set(found) <= set(names):
            print(f"{way}: {found}, exit code {done.returncode}\n{done.stdout}{done.stderr}")
            wrong += 1
        elif way == "unstarted" and 'rank 0 waits in dist.init_process_group("gloo") at ' not in case["findings"][0]["text"]:
            print(f"{way}: no place of the rank that waits: {case['findings'][0]['text']}")
            wrong += 1
    print(f"{len(ways or WAYS)} runs, {wrong} not as they should be")
    return min(wrong, 1)


sys.exit(main())
