"""Defects that scenarios inject appear in a real run as in the simulation: injected.py LOCKSTEP SOURCE_DIR.

The real processes execute the faults and exceptions, too: the run ends within its deadline, the same ranks are named, and a defect that a
real run cannot show is skipped by name.
"""
import json
import os
import subprocess
import sys
import tempfile

LOCKSTEP, SOURCE = sys.argv[1:]
# The last line of the simulation's finding, about the real run.
SHOWN = {
    "killed_rank": "rank.died: rank 3 of the mpi run was ended by signal 9",
    "stalled_before_an_axis": "the run hangs, every rank in the call where the simulated one waits",
    "stalled_rank": "the run hangs, every rank in the call where the simulated one waits",
    "skipped_by_fault": "collective.kind_mismatch",
    "doubled_by_fault": "collective.kind_mismatch",
    "wrong_count_by_fault": "buffer.too_small",
    "wrong_split_by_fault": "collective.split_mismatch",
    "out_of_memory_on_one_rank": "rank.exited_early",
    "bit_flip_in_a_replica": "replica.diverged",
    "all_reduce_max_on_one_rank": "collective.op_mismatch",
    "changed_on_the_way": "buffer.use_before_wait",
    "wrong_sub_group": "collective.group_mismatch",
}
CLEAN = ("slow_rank_clean", "changed_on_the_way_clean")
SKIPPED = ("nan_enters_at_one_rank", "inf_enters_at_one_rank", "equal_all_reduces_swapped")
failures = []


def path(name):
    own = f"tests/mpi/{name}.yaml"
    return own if os.path.exists(os.path.join(SOURCE, own)) else f"scenarios/bugs/{name}.yaml"


names = list(SHOWN)
done = subprocess.run([LOCKSTEP, "compare", *[path(n) for n in (*names, *CLEAN, *SKIPPED)],
                       "tests/mpi/injected_sums.yaml",
                       "--real", "mpi", "--deadline", "600", "--json", "-"], capture_output=True,
                      text=True, cwd=SOURCE, check=False)
if done.returncode != 0:
    failures.append(f"exit code {done.returncode}: {done.stderr}")
report = json.loads(done.stdout)
cases = {os.path.basename(case["file"])[:-5]: case for case in report["cases"]}
for name in names:
    case = cases[name]
    lines = [line for line in case["findings"][0]["text"].split("\n")
             if line.startswith("mpi: ")] if case["findings"] else []
    if case["verdict"] != "pass" or len(lines) != 1 or SHOWN[name] not in lines[0]:
        failures.append(f"{name}: {case['verdict']} {lines} {case.get('error')}")
# Without a comparison the real run also checks the simulation's finding.
if subprocess.run([LOCKSTEP, "run", "--backend", "mpi", path("doubled_by_fault")], capture_output=True, cwd=SOURCE, check=False).returncode != 0:
    failures.append("doubled_by_fault: a run of its own does not show it")
for name in CLEAN:
    if cases[name]["verdict"] != "pass" or cases[name]["findings"]:
        failures.append(f"{name}: {cases[name]}")
# A rank that runs out of memory is named, not the one that notices its end: at some of its allocations others wait for its input, which
# reveals it.
with open(os.path.join(SOURCE, "scenarios/training/column_wise_adagrad.yaml"),
          encoding="utf-8") as file:
    TRAINED = file.read()
with tempfile.TemporaryDirectory() as folder:
    files = [os.path.join(folder, f"{index}.yaml") for index in range(1, 7)]
    for index, name in enumerate(files, 1):
        with open(name, "w", encoding="utf-8") as file:
            file.write(f"{TRAINED}\nfaults: [{{type: allocation, rank: 1, index: {index}}}]\n"
                       "expect: {finding: rank.exited_early, ranks: [1]}\n")
    ended = subprocess.run([LOCKSTEP, "compare", *files, "--real", "mpi", "--deadline", "600",
                            "--json", "-"], capture_output=True, text=True, check=False)
    told = json.loads(ended.stdout)
for case in told["cases"]:
    if case["verdict"] != "pass":
        failures.append(f"allocation {os.path.basename(case['file'])}: {case.get('error')}")
met = [finding["text"] for case in told["cases"] for finding in case["findings"]
       if "rank 1 stopped because of its input" in finding["text"]]
if ended.returncode != 0 or len(told["cases"]) != len(files) or not met:
    failures.append(f"allocations: exit code {ended.returncode}, {len(met)} met the end of rank 1")
# The same wrong sum in both runs: the real one differs only by its order.
summed = {s["name"]: s for s in cases["injected_sums"]["stages"]}
for step in (1, 2):
    if (cases["injected_sums"]["verdict"] != "pass" or
            summed[f"step{step}.output_dist"]["class"] != "within_bound" or
            summed[f"oracle:step{step}.output_dist"]["class"] != "wrong"):
        failures.append(f"injected_sums: {cases['injected_sums']}")
skips = {os.path.basename(skip["file"])[:-5]: skip["reason"] for skip in report["skips"]}
if set(skips) != set(SKIPPED) or report["skipped"] != len(SKIPPED):
    failures.append(f"skipped: {skips}")
if "value.nan_first" not in skips.get("nan_enters_at_one_rank", ""):
    failures.append(f"the reason names no finding: {skips}")
print("\n".join(failures) or f"{len(names)} injected defects shown, {len(skips)} skipped by name")
sys.exit(1 if failures else 0)
