"""Injects faults everywhere: sweep.py LOCKSTEP SOURCE_DIR [--all] [--real mpi] [options].

Every kind of fault, at every call of every rank, in scenarios of every family. Each fault must be found, or the verdict must state its
effect: no bit of any output changed, or a number of elements within rounding, or why it was not injected: no rank reaches it, or the call
has nothing that it could change. Anything else fails: a crash, a time-out, a pass, a skip, an error that is no finding.

Without --all (or LOCKSTEP_SWEEP=all) a sample is injected, always the same one. With --real, the simulation's outcome of the sample becomes
the scenario's expectation, and the real run must agree or be skipped with a reason.
"""
import argparse
import collections
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

# The first ones of each family are in the sample: small ones.
FAMILIES = {
    "sharded_embedding": ["row_wise", "column_wise", "functional_max_norm"],
    "sharding_tutorial": ["three_ranks", "mixed"],
    "torchrec": ["weighted_mean", "grid_mean", "mean_divides_others"],
    "dtensor_example": ["every_collective_three", "loss_parallel", "operands_brought_together",
                        "from_local", "dropout", "uneven_shards",
                        "row_wise_uneven", "redistribute_2d",
                        "table_wise", "row_wise_even", "every_collective"],
    "intro_tutorial": ["row_wise_weighted", "two_ranks", "one_rank"],
    "nccl_sweep": ["movement_three", "forced_four"],
    "planned": ["mixed_four"],
    "training": ["column_wise_adagrad", "row_wise_rowwise_adagrad", "clip_norm", "max_norm",
                 "data_parallel_adamw", "sequence_sgd", "hosts_partial_rowwise_adam"],
    "torch_results": ["sum_padding_row_wise", "sequence_row_wise", "weighted_column_wise",
                      "mean_table_wise", "max_data_parallel"],
    "tensors": ["steps"],
}
OF_TESTS = {"tensors": "tests/scenarios/sweep"}
SAMPLED_FILES = 1
BITS = (0, 7, 23, 30, 31, 40, 52, 62, 63, 64 + 33, 3 * 64 + 62, 1000003)
AMOUNTS = (1, -1, 7, 1 << 40, -(1 << 40))
KINDS = {"die": (None,), "stall": (None,), "slow": (None,), "skip_call": (None,),
         "double_call": (None,), "bit_flip": BITS, "wrong_count": AMOUNTS, "wrong_split": AMOUNTS}
CALLS_MAX = 2000
ALLOCATIONS_MAX = 4096
BATCH = 64
ENDS = ("found", "harmless", "rounding", "not injected")

Fault = collections.namedtuple("Fault", "family name kind rank call index")


def text_of(fault):
    told = "" if fault.call is None else f", call: {fault.call}"
    told += "" if fault.index is None else f", index: {fault.index}"
    return f"{{type: {fault.kind}, rank: {fault.rank}{told}}}"


def number_of(fault):
    """A number of the fault, for sampling."""
    return int(hashlib.sha256(repr(tuple(fault)).encode()).hexdigest()[:12], 16)


class Runner:
    """Writes scenarios with faults, runs many of them in one process, and reads the verdicts."""

    def __init__(self, options, folder):
        self.options, self.folder, self.texts, self.dead = options, folder, {}, {}
        for family, names in FAMILIES.items():
            source = os.path.join(options.source, OF_TESTS.get(family, f"scenarios/{family}"))
            os.makedirs(os.path.join(folder, family))
            for entry in os.listdir(source):
                if not entry.endswith(".yaml") and os.path.isfile(os.path.join(source, entry)):
                    shutil.copy(os.path.join(source, entry), os.path.join(folder, family, entry))
            for name in names:
                with open(os.path.join(source, name + ".yaml"), encoding="utf-8") as file:
                    self.texts[family, name] = file.read()

    def ranks(self, key):
        shape = re.search(r"^mesh: {shape: \[([0-9, ]+)\]", self.texts[key], re.M)[1]
        count = 1
        for size in shape.split(","):
            count *= int(size)
        return count

    def write(self, key, label, faults, expect=None):
        lines = "".join(f"  - {fault}\n" for fault in faults)
        path = os.path.join(self.folder, key[0], f"{key[1]}-{label}.yaml")
        with open(path, "w", encoding="utf-8") as file:
            file.write(f"{self.texts[key].rstrip()}\nfaults:\n{lines}")
            file.write(f"expect: {expect}\n" if expect else "")
        return path

    def process(self, paths, seconds):
        """{path: case}; None if the process failed, with its end."""
        command = [self.options.lockstep]
        command += ["compare", "--real", self.options.real] if self.real else ["run"]
        try:
            done = subprocess.run([*command, "--json", "-", *paths], capture_output=True,
                                  text=True, timeout=seconds, check=False)
        except subprocess.TimeoutExpired:
            return None, f"no end after {seconds} s"
        try:
            report = json.loads(done.stdout)
        except ValueError:
            lines = (done.stderr.strip() or done.stdout.strip() or "nothing said").splitlines()
            return None, f"exit code {done.returncode}: {' / '.join(lines)[-700:]}"
        cases = {case["file"]: case for case in report["cases"]}
        cases.update({case["file"]: dict(case, verdict="skip") for case in report["skips"]})
        return cases, f"exit code {done.returncode}"

    def run(self, paths, real=False):
        """Yields (path, case or None, how the process ended)."""
        self.real = real
        for first in range(0, len(paths), BATCH):
            some = paths[first:first + BATCH]
            cases, end = self.process(some, 600)
            for path in some:
                if cases is not None and path in cases and end in ("exit code 0", "exit code 1",
                                                                   "exit code 5"):
                    yield path, cases[path], end
                    continue
                alone, end_alone = self.process([path], 120)
                yield path, (alone or {}).get(path), end_alone
            for path in some:
                os.remove(path)


def classify(case, end):
    if case is None:
        return "DEAD: " + end
    text = (case.get("error") or "") + (case.get("reason") or "")
    if end not in ("exit code 0", "exit code 1"):
        return f"CODE: {end}: {text}"
    if case["verdict"] != "fail":
        return f"{case['verdict'].upper()}: {text or case['class']}"
    if case["class"] == "error":
        return "ERROR: " + text
    if any(not finding["text"] for finding in case["findings"]):
        return "SILENT: a finding without a sentence"
    if case["findings"] or any(stage["class"] == "wrong" for stage in case["stages"]):
        return "found"
    for part, what in (("changes no bit of any output", "harmless"),
                       ("the fault is not injected", "not injected")):
        if part in text:
            return what
    if re.search(r"changes \d+ elements of the outputs, all within rounding", text):
        return "rounding"
    return f"UNNAMED: {text}"


def count_calls(runner, keys):
    """{(file, rank): calls}: a slow rank has no effect, and the first that is not reached is reported."""
    asked = {}
    for key in keys:
        first = len(runner.texts[key].rstrip().splitlines()) + 2  # line of the first fault
        for rank in range(runner.ranks(key)):
            faults = [f"{{type: slow, rank: {rank}, call: {call}}}" for call in range(CALLS_MAX)]
            asked[runner.write(key, f"calls{rank}", faults)] = key, rank, first
    calls = {}
    for path, case, end in runner.run(list(asked)):
        key, rank, first = asked[path]
        told = re.search(r":(\d+): the fault is not injected", (case or {}).get("error") or "")
        if told is None:
            sys.exit(f"{key}, rank {rank}: {classify(case, end)}")
        calls[key, rank] = int(told[1]) - first
    return calls


def count_allocations(runner, keys):
    """{(file, rank): allocations}, by bisection: later ones are not reached."""
    bounds = {(key, rank): [0, ALLOCATIONS_MAX] for key in keys
              for rank in range(runner.ranks(key))}
    while True:
        asked = {}
        for (key, rank), (low, high) in bounds.items():
            if high - low > 1:
                middle = (low + high) // 2
                fault = Fault(*key, "allocation", rank, None, middle)
                asked[runner.write(key, f"memory{rank}", [text_of(fault)])] = (key, rank), middle
        if not asked:
            return {which: low for which, (low, _) in bounds.items()}
        for path, case, end in runner.run(list(asked)):
            which, middle = asked[path]
            bounds[which][classify(case, end) == "not injected"] = middle


def faults_of(options, runner):
    keys = [(family, name) for family, names in FAMILIES.items()
            for name in (names if options.all else names[:SAMPLED_FILES])
            if re.search(options.only, f"{family}/{name}")]
    faults = collections.defaultdict(list)
    for (key, rank), count in count_calls(runner, keys).items():
        for kind, indices in KINDS.items():
            faults[key, kind] += [Fault(*key, kind, rank, call, index)
                                  for index in indices
                                  for call in range(count + (index == indices[0]))]
    for (key, rank), count in count_allocations(runner, keys).items():
        faults[key, "allocation"] += [Fault(*key, "allocation", rank, None, index)
                                      for index in range(1, count + 2)]
    chosen = []
    for some in faults.values():
        some.sort(key=number_of)
        chosen += some[:options.most] if options.most > 0 else some
    return chosen


def write_all(runner, faults, expects=None):
    paths = {}
    for i, fault in enumerate(faults):
        expect = expects[i] if expects else None
        paths[runner.write((fault.family, fault.name), i, [text_of(fault)], expect)] = i
    return paths


def expectation_of(case, what):
    """The expectation for a real run."""
    if what != "found":
        return "{unnoticed: true}"
    if case["findings"]:
        first, ids = case["findings"][0], {finding["id"] for finding in case["findings"]}
        also = sorted(ids - {first["id"]})
        ranks = sorted({rank for finding in case["findings"] for rank in finding["ranks"]})
        one = len(case["findings"]) == 1 and ranks
        return (f"{{finding: {first['id']}" + (f", also: [{', '.join(also)}]" if also else "") +
                (f", ranks: {ranks}" if one else "") + "}")
    wrong = sorted({stage["name"] for stage in case["stages"] if stage["class"] == "wrong"})
    return f"{{class: wrong, stages: [{', '.join(json.dumps(name) for name in wrong)}]}}"


def compare_real(runner, faults, cases, table, failures):
    """The sample again, compared with a real run."""
    kept = [(fault, cases[fault]) for fault in faults
            if fault in cases and cases[fault][1] in ENDS and cases[fault][1] != "not injected"]
    expects = [expectation_of(*told) for _, told in kept]
    paths = write_all(runner, [fault for fault, _ in kept], expects)
    for path, case, end in runner.run(list(paths), real=True):
        fault = kept[paths[path]][0]
        verdict = case["verdict"] if case else None
        what = {"pass": "as simulated", "skip": "skipped"}.get(verdict)
        if what is None or (verdict == "skip" and not case.get("reason")):
            failures.append((fault, f"REAL: {classify(case, end)}; expected "
                                    f"{expects[paths[path]]}"))
            what = "OTHER"
        table[fault.family, fault.kind]["real: " + what] += 1


def report(table, failures, options):
    columns = list(ENDS) + [f"real: {what}" for what in ("as simulated", "skipped", "OTHER")
                            if options.real] + ["OTHER"]
    print(f"{'family':<18} {'fault':<12}" + "".join(f"{name:>14}" for name in columns))
    total = collections.Counter()
    for (family, kind), counts in sorted(table.items()):
        total.update(counts)
        print(f"{family:<18} {kind:<12}" + "".join(f"{counts[name]:>14}" for name in columns))
    print(f"{'all':<31}" + "".join(f"{total[name]:>14}" for name in columns))
    for fault, what in failures[:options.show]:
        print(f"{fault.family}/{fault.name}: {text_of(fault)}: {what}")
    injected = sum(total[name] for name in (*ENDS, "OTHER"))
    print(f"{injected} injected, {len(failures)} neither found nor explained")
    if total["found"] == 0:
        sys.exit("none was found")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("lockstep")
    parser.add_argument("source")
    parser.add_argument("--all", action="store_true",
                        default=os.environ.get("LOCKSTEP_SWEEP") == "all")
    parser.add_argument("--most", type=int, default=None, help="per file and kind; 0: all")
    parser.add_argument("--only", default="", help="a pattern of family/name")
    parser.add_argument("--real", default=None)
    parser.add_argument("--show", type=int, default=40)
    options = parser.parse_args()
    if options.most is None:
        options.most = 0 if options.all else 3
    table, failures, cases = collections.defaultdict(collections.Counter), [], {}
    with tempfile.TemporaryDirectory() as folder:
        runner = Runner(options, folder)
        faults = faults_of(options, runner)
        paths = write_all(runner, faults)
        for path, case, end in runner.run(list(paths)):
            fault = faults[paths[path]]
            what = classify(case, end)
            cases[fault] = case, what
            if what not in ENDS:
                failures.append((fault, what))
            table[fault.family, fault.kind][what if what in ENDS else "OTHER"] += 1
        if options.real:
            compare_real(runner, faults, cases, table, failures)
    report(table, failures, options)
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
