"""Runs correct programs of torch.distributed on gloo, then under `lockstep exec`, which must report no finding and give the same numbers:
run.py LOCKSTEP [--quick] [FILE | FILE:PROGRAM]... Prints a line for each program. --quick: only under all checks, not also under the
default ones.
"""
import argparse
import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
RANKS = {"forms.py": 3, "data_parallel.py": 2, "sharded.py": 4, "stages.py": 2, "around.py": 2, "recommender.py": 2}
SECONDS = 2400  # on a busy machine
IMPORTS = {"recommender.py": "torchrec"}
FORK = """
import importlib, os, runpy, sys
ranks, module, *words = sys.argv[1:]
importlib.import_module(module)
importlib.import_module("torch._dynamo")
children = []
for rank in range(int(ranks)):
    children.append(os.fork())
    if children[-1] == 0:
        os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank))
        if rank > 0:
            nothing = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nothing, 1)
            os.dup2(nothing, 2)
        sys.argv = words
        sys.path[0] = os.path.dirname(words[0])
        runpy.run_path(words[0], run_name="__main__")
        sys.exit()
sys.exit(max(abs(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])) for child in children))
"""


def programs_of(file):
    with open(os.path.join(HERE, file), encoding="utf-8") as source:
        return re.findall(r"^@program\ndef (\w+)", source.read(), re.MULTILINE)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def numbers_of(output, names):
    """Each program's output."""
    printed, name = {}, None
    for line in output.splitlines():
        if line in names:
            name = line
            printed[name] = []
        elif name is not None and line.startswith("  = "):
            printed[name] += line.split()
    return printed


class Outcome:
    def __init__(self, code, output, names, findings=()):
        self.code, self.output, self.findings = code, output, list(findings)
        self.printed = numbers_of(output, names)


def on_gloo(file, names):
    """The ranks are forks of a process that imports torch once."""
    ranks = str(RANKS[file])
    environment = dict(os.environ, WORLD_SIZE=ranks, MASTER_ADDR="127.0.0.1", MASTER_PORT=str(free_port()), OMP_NUM_THREADS="1")
    process = subprocess.Popen([sys.executable, "-c", FORK, ranks, IMPORTS.get(file, "torch.distributed.fsdp"), os.path.join(HERE, file), *names],
                               env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True)
    try:
        output = process.communicate(timeout=SECONDS)[0]
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        raise
    return Outcome(process.returncode, output, names)


def under(lockstep, checks, file, names):
    with tempfile.TemporaryDirectory() as folder:
        report = os.path.join(folder, "report.json")
        options = ["--checks", checks] if checks else []
        done = subprocess.run([lockstep, "exec", "-n", str(RANKS[file]), "--start", "fork", "--json", report, *options, "--", sys.executable,
                               os.path.join(HERE, file), *names], capture_output=True, text=True, timeout=SECONDS, check=False,
                              env=dict(os.environ, OMP_NUM_THREADS="1"))
        findings = []
        if os.path.exists(report):
            with open(report, encoding="utf-8") as given:
                findings = [found for case in json.load(given)["cases"] for found in case.get("findings", [])]
    return Outcome(done.returncode, done.stdout + done.stderr, names, findings)


def is_same(one, other):
    if len(one) != len(other):
        return False
    for left, right in zip(one, other):
        try:
            if abs(float(left) - float(right)) > 1e-3 * max(1.0, abs(float(left))):
                return False
        except ValueError:
            if left != right:
                return False
    return True


def judge(expected, outcome, name):
    """None, or the error of the program's run."""
    if outcome.findings:
        first = outcome.findings[0]
        return f"{first['id']} at {first.get('where', '')}: {first['text'].splitlines()[0]}"
    if outcome.code != 0:
        return f"exit code {outcome.code}: {' '.join(outcome.output.splitlines()[-3:])}"
    if not is_same(expected.printed.get(name, []), outcome.printed.get(name, [])):
        return f"prints {outcome.printed.get(name)}, and {expected.printed.get(name)} on gloo"
    return None


def try_file(lockstep, file, names, ways):
    """All in one session; a failing program and those after it again in separate ones. Returns {name: error}."""
    wrong = {}
    plain = on_gloo(file, names)
    runs = {way: under(lockstep, way, file, names) for way in ways} if plain.code == 0 else {}
    for name in names:
        expected = plain if plain.code == 0 else on_gloo(file, [name])
        if expected.code != 0:
            wrong[name] = f"fails on gloo: {' '.join(expected.output.splitlines()[-3:])}"
            continue
        for way in ways:
            outcome = runs.get(way)
            if outcome is None or judge(expected, outcome, name) is not None:
                outcome = under(lockstep, way, file, [name])
            reason = judge(expected, outcome, name)
            if reason is not None:
                wrong.setdefault(name, f"{'all checks' if way else 'default checks'}: {reason}")
    return wrong


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("lockstep")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("chosen", nargs="*")
    given = parser.parse_intermixed_args()
    chosen = {}
    for word in given.chosen or RANKS:
        file, _, name = word.partition(":")
        chosen.setdefault(file, []).extend([name] if name else programs_of(file))
    passed = failed = 0
    for file, names in chosen.items():
        wrong = try_file(given.lockstep, file, names, ["all"] if given.quick else ["", "all"])
        for name in names:
            print(f"{'FAIL' if name in wrong else 'pass'}  {file}:{name}  {wrong.get(name, '')}".rstrip(), flush=True)
        passed, failed = passed + len(names) - len(wrong), failed + len(wrong)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
