"""Whether `lockstep fuzz` finds defects of lockstep's own sources, and how far it minimises them.

injected.py [--build DIR] [--only PATTERN] [--count N] [--seed N] [--cases N] [--jobs N] [--work DIR]

Each of `INJECTED` is one defect of one room that scenarios reach. With --count, N mutants of each of these rooms (or of files that match
--only) instead, some of which no scenario can show. All are linked with a build (mutants.py), and `lockstep fuzz` searches for each
separately: a number of cases, then the first failures again, minimised, until one has at most RANKS ranks and LINES lines or a minute of
processor time is used. Lines count without the name, seed and mesh. Exit code 1: a defect of `INJECTED` was not found or not minimised.
"""
import argparse
import collections
import concurrent.futures
import json
import os
import re
import resource
import subprocess
import sys

import mutants
import units

RANKS, LINES, CPU_SECONDS = 2, 5, 60
INJECTED = (
    ("kernels/cpu/bags.c", "of->padding_id == -1 || of->ids[i] != of->padding_id", "1"),
    ("kernels/cpu/reduce.c", "fold_sum(out, in, in_count, 0, count)", "fold_sum(out, in, in_count, 1, count)"),
    ("kernels/cpu/bucketize.c", "out->lengths[owner * bags + bag]++", "out->lengths[bag]++"),
    ("local_tensor/ops_shape.c", "start < 0 || length < 0", "start < 1 || length < 0"),
    ("local_tensor/placement.c", "block.offset.dim[at->dim] += offset", "block.offset.dim[at->dim] = offset"),
    ("orders/fold_run.c", "LS_TRY(fold_block(&b, fold))", ""),
    ("collectives/reduce_scatter.c", "start += calls[i]->count", "start -= calls[i]->count"),
    ("collectives/scatter.c", "start += calls[i]->count", "start -= calls[i]->count"),
    ("backends/match.c", "row[1] = &w->calls[recv]", "row[1] = &w->calls[send]"),
    ("backends/sim/sim.c", "status == LS_OK ? ls_backend__compute(backend, &match) : status", "status"),
    ("ranks/p2p.c", "ls_request__done(pair[0], status)", ""),
    ("ranks/meet.c", "meet->calls[m] = &meet->requests[m]->call", ""),
    ("planner/enumerate.c", "cuts[blocks + row]", "cuts[row]"),
    ("embedding/pack.c", "sends += (size_t)side->inputs", "sends = (size_t)side->inputs"),
    ("embedding/update.c", "state < ls_optimizer_state_count(&table->optimizer)", "0"),
    ("embedding/checkpoint_read.c", "checkpoint->file_rank == rank", "1"),
    ("runner/steps/scale.c", "ls_local_tensor_scale(*out, step->factor)", "LS_OK"),
    ("runner/steps/narrow.c", "program->world, step->narrow.start", "program->world, step->narrow.length"),
    ("runner/program/call.c", "call->recv_counts = sends ? NULL : sizes", ""),
    ("runner/program/execute.c", "status = status == LS_OK ? ls_embedding_lookup(now.pass, sink) : status", ""),
)
ROOMS = sorted({entry[0].rsplit("/", 1)[0] for entry in INJECTED})


def chosen(options):
    texts, found = {}, []
    if options.count:
        options.list, options.only = None, options.only or "|".join(ROOMS)
        return mutants.choose(options)
    for name, *change in INJECTED:
        if re.match(options.only, name):
            with open(os.path.join(mutants.ROOT, name), encoding="utf-8") as file:
                texts[name] = file.read()
            found.append(units.of_list(name, texts[name], *change))
    return texts, found


def body(scenario):
    return [line for line in scenario.splitlines() if line.split(":")[0] not in (
        "lockstep", "name", "seed", "mesh") and not re.fullmatch(r"\s*\w+:", line)]


def ranks(scenario):
    product = 1
    for size in re.search(r"^mesh:.*shape: \[?([\d, ]*)", scenario, re.M)[1].split(","):
        product *= int(size)
    return product


class Search:
    def __init__(self, program, options):
        self.program, self.options = program, options

    def fuzz(self, number, *arguments):
        """(failed cases, seconds of processor time)"""
        words = ["fuzz", "--seed", str(self.options.seed), "--quiet", "--json", "-", *map(str, arguments)]
        process = subprocess.Popen([self.program, *words], stdout=subprocess.PIPE,
                                   stderr=subprocess.DEVNULL,
                                   env=dict(os.environ, LOCKSTEP_MUTANT=str(number)),
                                   preexec_fn=lambda: resource.setrlimit(
                                       resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS)))
        told = process.stdout.read()
        _, _, used = os.wait4(process.pid, 0)
        process.returncode = 0
        try:
            cases = json.loads(told)["cases"]
        except ValueError:
            cases = []
        return [case for case in cases if case.get("scenario")], used.ru_utime + used.ru_stime

    def find(self, number):
        failed, seconds = self.fuzz(number, "--count", self.options.cases, "--runs", 0)
        best, count = None, len(failed)
        for case in sorted(failed, key=lambda one: len(one["scenario"])):
            if seconds > CPU_SECONDS or (best and is_small(best)):
                break
            again, more = self.fuzz(number, "--count", 1, "--first", case["name"].split()[1])
            seconds += more
            for one in again:
                if best is None or size(one) < size(best):
                    best = one
        return best, count, seconds


def size(case):
    return max(ranks(case["scenario"]) - RANKS, 0), len(body(case["scenario"])), len(case["scenario"])


def is_small(case):
    return size(case)[0] == 0 and size(case)[1] <= LINES


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", dest="beside", default=os.path.join(mutants.ROOT, "build"))
    parser.add_argument("--only", default="")
    parser.add_argument("--count", type=int, default=0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--cases", type=int, default=1000)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--work", default=os.path.join(mutants.ROOT, "build", "injected"))
    options = parser.parse_args()
    os.makedirs(options.work, exist_ok=True)
    options.work = os.path.abspath(options.work)
    texts, found = chosen(options)
    numbered, of = list(enumerate(found, 1)), collections.defaultdict(list)
    for number, mutant in numbered:
        of[mutant.file].append((number, mutant))
    beside = mutants.Beside(options, texts)
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        compiled = list(pool.map(beside.compile, of, of.values()))
        objects, numbered = [made for made, _ in compiled], sorted(
            one for _, kept in compiled for one in kept)
        search = Search(beside.link("lockstep", objects), options)
        if search.find(0)[0] is not None:
            sys.exit("lockstep fuzz finds something without any defect")
        ends = list(pool.map(search.find, [number for number, _ in numbered]))
    code = 0
    print(f"{'of the cases':>12}{'ranks':>7}{'lines':>7}{'CPU s':>7}")
    for (_, mutant), (best, count, seconds) in zip(numbered, ends):
        small = best is not None and is_small(best)
        code = code if small or options.count else 1
        least = f"{ranks(best['scenario']):>7}{len(body(best['scenario'])):>7}" if best else f"{'-':>7}{'-':>7}"
        print(f"{count:>12}{least}{seconds:>7.1f}  {mutant.file}:{mutant.line}: {mutant.what[:110]}"
              + ("" if small else "  NOT SMALL" if best else "  NOT FOUND"))
        if best is not None and not small:
            print("\n".join("    " + line for line in best["scenario"].splitlines()))
    sys.exit(code)


if __name__ == "__main__":
    main()
