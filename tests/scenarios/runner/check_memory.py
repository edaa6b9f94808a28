"""Commands with one failed allocation, and with all from one on: check_memory.py PROGRAM SHIM SOURCE HOST [--all [COMMAND...]].

A sample of the allocations; with --all every one, of the commands that begin with a COMMAND (default: all). HOST is a program with its own
ranks, for exec.

If a required allocation fails, the exit code is 3; never that of a mismatch, a finding or an unusable file. If the run continues (an
optional buffer), its report is complete. jansson's lexer asserts or crashes without memory: those few ends are allowed, only where JSON is
read.
"""
import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile

parser = argparse.ArgumentParser()
for word in ("program", "shim", "source", "host"):
    parser.add_argument(word, type=os.path.abspath)
parser.add_argument("--all", nargs="*")
options = parser.parse_args()
PROGRAM, SHIM, SOURCE = options.program, options.shim, options.source
TRIES = 40 if options.all is None else sys.maxsize  # of each command and way
TABLE = """lockstep: 1
name: table
mesh: {shape: [2]}
tables:
  - {name: a, rows: 10, dim: 4, sharding: {type: row_wise}}
  - {name: b, rows: 10, dim: 4, pooling: mean, sharding: {type: column_wise}}
inputs: {batch: 2, features: {a: {lengths: {uniform: [0, 3]}}}}
"""
FREE = """lockstep: 1
name: free
mesh: {shape: [2]}
tables: [{name: a, rows: 10, dim: 4}]
inputs: {batch: 2}
"""
BUFFERS = """lockstep: 1
name: buffers
mesh: {shape: [3]}
program:
  steps:
    - all_reduce: {name: sum, count: 8, values: normal, async: true}
    - wait: {step: sum}
    - all_gather: {name: gather, count: 4, values: normal}
    - send_recv: {name: message, count: 2, pairs: [[0, 1]]}
"""
TENSORS = """lockstep: 1
name: tensors
mesh: {shape: [2]}
program:
  tensors: [{name: a, shape: [4, 4], placements: S(0)}]
  steps: [{redistribute: {tensor: a, to: R}}, {full: {tensor: a}}]
"""
FLIPPED = """lockstep: 1
name: flipped
mesh: {shape: [2]}
program: {steps: [{all_gather: {name: w, count: 8, values: normal}}]}
faults: [{type: bit_flip, rank: 1, call: 0, index: 30}]
"""
MAXIMUM = """lockstep: 1
name: maximum
mesh: {shape: [3]}
program: {steps: [{all_reduce: {name: a, count: 8, except: [{ranks: [2], op: max}]}}]}
"""
TRAINED = """lockstep: 1
name: trained
mesh: {shape: [2]}
tables: [{name: a, rows: 10, dim: 4, sharding: {type: row_wise}}]
inputs: {batch: 2}
steps: [forward, backward, update]
optimizer: {type: adam, lr: 0.1}
train: {steps: 2}
"""
REPLAYED = SOURCE + "/recordings/h200-nccl-2.28.9/sharded-embedding-row-wise-10-x-17"
COMMANDS = (  # name, its exit code, whether it reads JSON
    ("run --json - table.yaml", 0, False),
    ("run --json - buffers.yaml", 0, False),
    ("run --json - tensors.yaml", 0, False),
    ("run --json - flipped.yaml", 1, False),
    ("run --json - maximum.yaml", 1, False),
    ("compare --json - buffers.yaml --real kept", 0, True),
    ("show table.yaml", 0, False),
    ("plan --json - --seconds 0 free.yaml", 0, False),
    ("run --json - trained.yaml", 0, False),
    ("reshard before after --plan trained.plan", 0, True),
    ("mutate --json - --count 6 buffers.yaml", 0, False),
    ("replay --json - " + REPLAYED, 0, True),
    ("replay --json - " + SOURCE + "/tests/order/nccl_truth", 0, True),
    ("exec -n 2 --json - -- " + options.host, 0, False),
)


def run(command, fail_at, fail_on, folder):
    env = dict(os.environ, LD_PRELOAD=SHIM, FAIL_AT=str(fail_at), FAIL_COUNT="count")
    if fail_on:
        env["FAIL_ON"] = "1"
    shutil.rmtree(os.path.join(folder, "after"), ignore_errors=True)
    done = subprocess.run([PROGRAM, *command.split()], capture_output=True, text=True, cwd=folder, env=env, check=False)
    with open(os.path.join(folder, "count"), encoding="utf-8") as file:
        return done, int(file.read() or 0)


def invented(done, whole):
    """Claims of a report with code 3 beyond a failure for lack of memory."""
    if not done.stdout.startswith("{"):
        return []
    known = json.loads(whole.stdout)["cases"]
    return [case for case in json.loads(done.stdout)["cases"] if case["class"] != "error" and case not in known]


def check(command, code, reads_json, fail_on, folder):
    whole, total = run(command, 0, False, folder)
    assert whole.returncode == code and total > 100, (command, whole.returncode, total, whole.stderr)
    told = inside = tried = 0
    for at in range(1, total + 1, max(1, total // TRIES)):
        done, _ = run(command, at, fail_on, folder)
        tried += 1
        if reads_json and done.returncode in (-signal.SIGABRT, -signal.SIGSEGV):
            inside += 1
            continue
        context = (command, at, fail_on, done.returncode, done.stdout, done.stderr)
        assert done.returncode in (code, 3), context
        if done.returncode == 3:
            told += 1
            assert not invented(done, whole), context
        else:
            assert done.stdout == whole.stdout, context
    way = "all from one on" if fail_on else "one"
    print(f"{command}, {way}: {tried} tried, {told} told, {inside} ended in jansson")
    assert told > 0.6 * tried and inside < 0.05 * tried, (command, told, inside)


def main():
    with tempfile.TemporaryDirectory() as folder:
        for text in (TABLE, FREE, BUFFERS, TENSORS, FLIPPED, MAXIMUM, TRAINED):
            name = text.split("\n")[1].split(": ")[1]
            with open(os.path.join(folder, name + ".yaml"), "w", encoding="utf-8") as file:
                file.write(text)
        subprocess.run([PROGRAM, "run", "--quiet", "--keep", "kept", "buffers.yaml"], cwd=folder, check=True,
                       stdout=subprocess.DEVNULL)
        for command in ("run --quiet --checkpoint before trained.yaml", "plan --quiet --out trained.plan trained.yaml"):
            subprocess.run([PROGRAM, *command.split()], cwd=folder, check=True, stdout=subprocess.DEVNULL)
        for command, code, reads_json in COMMANDS:
            for fail_on in (False, True) if not options.all or command.startswith(tuple(options.all)) else ():
                check(command, code, reads_json, fail_on, folder)
    return 0


sys.exit(main())
