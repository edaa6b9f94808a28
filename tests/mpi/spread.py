"""A simulation spread over MPI processes equals the simulation: spread.py PROGRAM SOURCE.

For any number of processes, the report except its times and the recordings byte by byte equal those of one process. A defect that several
processes find is reported as by one process, a killed process is named, and each holds only its block's shards.
"""
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time

PROGRAM, SOURCE = sys.argv[1:3]
SAME = """
    bugs/all_reduce_max_on_one_rank bugs/embedding_length_flipped bugs/id_out_of_range
    bugs/nan_in_an_embedding bugs/strided_shard_of_another_cut_clean bugs/tail_rows_held
    bugs/training_replicas_diverge dtensor_example/* inputs/*
    intro_tutorial/* nccl_sweep/all_reduce_three nccl_sweep/movement_four nccl_sweep/reduce_four
    nccl_sweep/scan_four nccl_sweep/exscan_four planned/* sharded_embedding/* sharding_tutorial/*
    torch_results/mean_table_wise training/max_column_wise training/table_wise_adam
    training/clip_norm training/data_parallel* training/hosts* training/max_norm training/pipeline
""".split()
HEAD = """lockstep: 1
name: tables of several ranks
mesh: {shape: [4]}
tables:
  - {name: user, rows: %d, dim: 16, sharding: {type: %s}%s}
inputs: {batch: 4, features: {user: {lengths: {constant: 2}, ids: {%s}}}}
"""
# On ranks 1 and 3: data that is not exchanged reveals nothing.
BAD = "values: [%s]" % ", ".join(
    str(ids) for ids in ([1] * 8, [1] * 5 + [12] + [1] * 2, [2] * 8, [11] * 8))
failures = []


def without_times(value):
    if isinstance(value, dict):
        return {key: without_times(of) for key, of in value.items() if key != "seconds"}
    return [without_times(of) for of in value] if isinstance(value, list) else value


def run(files, processes, folder, keep):
    """Exit code, report, and the recordings' bytes by name."""
    out = os.path.join(folder, "out-%s" % processes)
    words = [PROGRAM, "run", *files, "--json", "-"] + (["--keep", out] if keep else [])
    # A rank that waits for a missing call; the deadline does not end it.
    words += ["--on", "mpi", "--processes", str(processes), "--deadline", "9999"] if processes else []
    done = subprocess.run(words, text=True, capture_output=True, cwd=SOURCE, check=False)
    kept = {}
    for base, _, names in os.walk(out):
        for name in names:
            path = os.path.join(base, name)
            with open(path, "rb") as file:
                kept[os.path.relpath(path, out)] = file.read()
    shutil.rmtree(out, ignore_errors=True)
    report = without_times(json.loads(done.stdout)) if done.stdout else done.stderr
    return done.returncode, report, kept


def same(files, counts, folder, keep=True):
    alone = run(files, 0, folder, keep)
    if alone[0] not in (0, 1) or (keep and not alone[2]):
        failures.append(f"{files}: {alone[:2]}")
    for processes in counts:
        spread = run(files, processes, folder, keep)
        if spread[0] != alone[0] or isinstance(spread[1], str):
            failures.append(f"{processes} processes: {spread[0]}, not {alone[0]}: {spread[1]}")
            continue
        for one, other in zip(alone[1]["cases"], spread[1]["cases"]):
            if one != other:
                failures.append(f"{processes} processes: {json.dumps(other)[:2000]}\n"
                                f"and not {json.dumps(one)[:2000]}")
        for name in sorted(set(alone[2]) | set(spread[2])):
            if alone[2].get(name) != spread[2].get(name):
                failures.append(f"{processes} processes: {name} differs")


def write(folder, name, text):
    path = os.path.join(folder, name)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    return path


def processes_of(folder):
    """Process id: (parent, number among the processes) of those with a block."""
    found = {}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline", encoding="utf-8") as file:
                words = file.read().split("\0")
            with open(f"/proc/{pid}/environ", encoding="utf-8") as file:
                number = [word[9:] for word in file.read().split("\0")
                          if word.startswith("PMI_RANK=")]
            with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
                parent = int(file.read().rsplit(")", 1)[1].split()[1])
            if words[1:2] == ["rank"] and any(word.startswith(folder) for word in words) and number:
                found[int(pid)] = (parent, int(number[0]))
        except OSError:
            pass
    return found


def start(folder, path, *more):
    return subprocess.Popen([PROGRAM, "run", path, "--on", "mpi", "--json", "-", *more],
                            env=dict(os.environ, TMPDIR=folder), stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, text=True)


def kill_one(folder):
    steps = HEAD % (1000, "row_wise", ", optimizer: {type: sgd, lr: 0.1}", "uniform: [0, 999]")
    steps += "train: {steps: 2000}\n"
    steps += "steps: [forward, backward, update]\n"
    child = start(folder, write(folder, "long.yaml", steps), "--processes", "3")
    victim = None
    while victim is None and child.poll() is None:
        of = processes_of(folder)  # a process, and the one that waits for it
        victim = next((pid for pid, (parent, number) in of.items()
                       if number == 1 and parent in of), None)
        time.sleep(0.002)
    if victim is None:
        failures.append(f"it ended before one could be killed: {child.communicate()}")
        return
    os.kill(victim, signal.SIGKILL)
    output, errors = child.communicate(timeout=300)
    error = json.loads(output)["cases"][0].get("error", output) if output else errors
    if child.returncode != 3 or "process 1 of the 3 of the spread run was ended by signal 9" not in error:
        failures.append(f"one is killed: {child.returncode}, {error}")
    end = time.monotonic() + 60
    while processes_of(folder) and time.monotonic() < end:
        time.sleep(0.01)
    if processes_of(folder) or [name for name in os.listdir(folder) if name.startswith("lockstep")]:
        failures.append(f"left behind: {processes_of(folder)}, {os.listdir(folder)}")


def memory(folder):
    """The table has 128 MiB, of which each of four processes holds a quarter."""
    table = HEAD % (1 << 21, "row_wise", "", "uniform: [0, 2000000]") + "steps: [forward]\n"
    child = start(folder, write(folder, "large.yaml", table), "--processes", "4")
    most = {}
    while child.poll() is None:
        for pid in processes_of(folder):
            try:
                with open(f"/proc/{pid}/status", encoding="utf-8") as file:
                    peak = [int(line.split()[1]) for line in file if line.startswith("VmHWM")]
                most[pid] = max([most.get(pid, 0), *peak])
            except OSError:
                pass
        time.sleep(0.005)
    output, _ = child.communicate()
    if child.returncode != 0 or not most or max(most.values()) > 96 << 10:
        failures.append(f"memory in KiB: {most}; {child.returncode} {output}")


def main():
    with tempfile.TemporaryDirectory() as folder:
        files = []
        for pattern in SAME:
            of = subprocess.run(["sh", "-c", f"ls scenarios/{pattern}.yaml"], cwd=SOURCE, text=True,
                                capture_output=True, check=False).stdout.split()
            assert of, pattern
            files += of
        same(files, (3,), folder)
        few = [name for name in files if "sharded_embedding/" in name or "movement" in name]
        same(few, (1, 2, 100), folder)
        reduces = [name for name in files if "nccl_sweep/reduce_four" in name]
        same(["--order", "ring:rings=0-2-1-3", *reduces], (3,), folder)
        for kind in ("data_parallel", "row_wise"):
            trained = HEAD % (10, kind, ", optimizer: {type: sgd, lr: 0.1}", BAD)
            trained += "steps: [forward, backward, update]\n"  # the others wait for their gradients
            same([write(folder, kind + ".yaml", trained)], (2, 4), folder, keep=False)
        large = HEAD % (100000, "row_wise", ", optimizer: {type: sgd, lr: 0.1}", "uniform: [0, 99]")
        large += "steps: [forward, backward, update]\n"  # its outputs do not stay in memory
        same([write(folder, "updated.yaml", large)], (3,), folder)
        kill_one(folder)
        memory(folder)
        lonely = shutil.copy(PROGRAM, folder)  # as if MPI was missing at build time
        done = subprocess.run([lonely, "run", os.path.join(SOURCE, few[0]), "--on", "mpi"],
                              text=True, capture_output=True, check=False)
        if done.returncode != 3 or "lockstep-mpi\" is missing" not in done.stdout + done.stderr:
            failures.append(f"without lockstep-mpi: {done}")
    print("\n".join(failures) or f"{len(files)} scenarios are the same when they are spread")
    sys.exit(1 if failures else 0)


main()
