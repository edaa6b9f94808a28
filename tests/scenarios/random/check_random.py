"""Random scenarios without a defect pass, under each order, and compared with real processes:

check_random.py PROGRAM [--count N] [--first SEED] [--kind KIND] [--mpi] [--keep DIR]

LOCKSTEP_RANDOM_COUNT and LOCKSTEP_RANDOM_MPI (figures) say how many are tried, and how many of those
with real processes."""
import argparse
import json
import os
import random
import subprocess
import sys
import tempfile

import buffers
import meshes
import tables
import tensors

KINDS = {"tables": tables, "buffers": buffers, "tensors": tensors}
TURNS = ("tables", "tensors", "buffers", "tensors")
BATCH = 25  # scenarios to a call
ORDERED = ("ring", "tree", "ring:proto=ll128", "tree:proto=simple")


def make(folder, seed, kind):
    """Writes scenario `seed` into a folder of its own; the path."""
    rng = random.Random("lockstep %d" % seed)
    kind = kind or TURNS[seed % len(TURNS)]
    own = os.path.join(folder, "%06d" % seed)
    os.makedirs(own)
    scenario = KINDS[kind].scenario(rng, own)
    scenario["name"] = "%s %d" % (scenario["name"], seed)
    path = os.path.join(own, "%06d.yaml" % seed)
    with open(path, "w") as out:
        json.dump(scenario, out, indent=1)
    return path


def call(program, arguments, paths):
    """The cases by file; a call that cannot run all is split until the one that ends it is known."""
    done = subprocess.run([program] + arguments + ["--json", "-"] + paths, capture_output=True,
                          text=True, timeout=600)
    if done.stdout.startswith("{"):
        report = json.loads(done.stdout)
        cases = {os.path.basename(case["file"]): case for case in report["cases"]}
        for skip in report.get("skips", ()):
            cases[os.path.basename(skip["file"])] = {"skipped": skip["reason"]}
        return cases
    if len(paths) > 1:
        middle = len(paths) // 2
        cases = call(program, arguments, paths[:middle])
        cases.update(call(program, arguments, paths[middle:]))
        return cases
    return {os.path.basename(paths[0]): {"verdict": "none", "class": "exit %d" % done.returncode,
                                         "error": (done.stdout + done.stderr)[-1500:]}}


def has_elements(path):
    """Whether a scenario has a tensor, a message or a batch of more than nothing."""
    scenario = json.load(open(path))
    if "inputs" in scenario:
        return False  # whether bags have ids is not followed here
    tensors_of = scenario["program"].get("tensors", ())
    steps = [keys for step in scenario["program"]["steps"] for keys in step.values()]
    return any(meshes.product(tensor["shape"]) > 0 for tensor in tensors_of) or any(
        keys.get("count", 0) > 0 or sum(keys.get("counts", ())) > 0 for keys in steps)


def complain(case, arguments, path):
    if "skipped" in case:
        fits = "nothing was judged" in case["skipped"] and not has_elements(path)
        return None if fits else "%s: skipped: %s" % (path, case["skipped"])
    unjudged = [stage["name"] for stage in case.get("stages", ()) if stage.get("unjudged", 0) > 0]
    if case["verdict"] == "pass" and not unjudged:
        return None
    if unjudged:
        return "%s: unjudged: %s" % (path, ", ".join(unjudged))
    text = ["%s %s: %s %s" % (" ".join(arguments), path, case["class"], case.get("error", ""))]
    text += [stage["name"] + ": " + (stage.get("divergence") or "") for stage in
             case.get("stages", ()) if stage["class"] in ("wrong", "error")][:2]
    text += [finding["id"] + ": " + finding["text"] for finding in case.get("findings", ())][:2]
    return "\n  ".join(text)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("--count", type=int,
                        default=int(os.environ.get("LOCKSTEP_RANDOM_COUNT", "120")))
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--kind", choices=sorted(KINDS))
    parser.add_argument("--mpi", type=int,
                        default=int(os.environ.get("LOCKSTEP_RANDOM_MPI", "0")))
    parser.add_argument("--keep")
    options = parser.parse_args()
    complaints, skipped = [], 0
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.keep or temporary
        paths = [make(folder, seed, options.kind)
                 for seed in range(options.first, options.first + options.count)]
        rounds = [(["run"], paths)]
        rounds += [(["run", "--order", order], paths[k::len(ORDERED)])
                   for k, order in enumerate(ORDERED)]
        rounds += [(["compare", "--real", "mpi"], paths[:options.mpi])]
        for arguments, chosen in rounds:
            for start in range(0, len(chosen), BATCH):
                part = chosen[start:start + BATCH]
                cases = call(options.program, arguments, part)
                for path in part:
                    case = cases.get(os.path.basename(path))
                    complaint = "%s: no case" % path if case is None else \
                        complain(case, arguments, path)
                    complaints += [complaint] if complaint else []
                    skipped += case is not None and "skipped" in case
    for complaint in complaints[:40]:
        print(complaint)
    print("%d scenarios, %d complaints, %d times nothing to judge" % (len(paths), len(complaints),
                                                                    skipped))
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
