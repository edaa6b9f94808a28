"""Mutants of lockstep's own sources: which do the tests not notice?

mutants.py [--only PATTERN] [--count N] [--seed N] [--jobs N] [--work DIR] [--list FILE] [--again]

Takes N mutants of the files that fit PATTERN (0: all there are), the same ones for a seed, builds
them all into one copy of the tree under DIR, and runs each against the tests that rooms.py names,
nearest first. What is known is kept in DIR/results.jsonl, so that a run that was stopped goes on;
--again tries those that survived once more. --list takes mutants from a file of Python instead:
MUTANTS = [(file, old text, new text[, which of several])].

Survivors are printed with the reason from equivalent.txt; one without a reason is code 1."""
import argparse
import collections
import concurrent.futures
import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time

import rooms
import units

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
BUILD_ROUNDS = 6


def shell(command, folder, **more):
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, **more)


def write_if_new(path, data):
    """Leaves the time of a file that stays as it is: nothing is built again for it."""
    try:
        with open(path, "rb") as file:
            if file.read() == data:
                return
    except OSError:
        os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as file:
        file.write(data)


def number_of(seed, mutant):
    return hashlib.sha256(f"{seed} {mutant.key}".encode()).hexdigest()


def choose(options):
    """The mutants of this run, by file."""
    files = [name for name in shell(["git", "ls-files", "*.c"], ROOT).stdout.split()
             if re.match(options.only, name) and any(re.match(p, name) for p, *_ in rooms.ROOMS)]
    texts, chosen = {}, []

    def text_of(name):
        if name not in texts:
            with open(os.path.join(ROOT, name), encoding="utf-8") as file:
                texts[name] = file.read()
        return texts[name]
    if options.list:
        scope = {}
        with open(options.list, encoding="utf-8") as file:
            exec(file.read(), scope)  # a list of the user's own
        for number, (name, *change) in enumerate(scope["MUTANTS"]):
            try:
                mutant = units.of_list(name, text_of(name), *change)
            except LookupError as error:
                print(f"#{number}: {error}")
                continue
            if mutant is None:
                print(f"#{number}: {name}: {change[0]!r} is more than one statement")
            else:
                chosen.append(mutant)
    if options.count != 0 or not options.list:
        found = [mutant for name in files for mutant in units.mutants(name, text_of(name))]
        found.sort(key=lambda mutant: number_of(options.seed, mutant))
        chosen += found[:options.count] if options.count else found
    return {mutant.file: texts[mutant.file] for mutant in chosen}, chosen


def last_line(mutant, texts):
    return texts[mutant.file].count("\n", 0, mutant.unit.end) + 1


def targets_of(names):
    """What is built for tests."""
    own = {re.sub(r"^(unit|stress|oracle)/(\w+).*", r"\1_\2", name) for name in names}
    more = {target for name in names for target in rooms.TARGETS.get(name, ())}
    return sorted({name for name in own if "/" not in name} | more) + ["lockstep", "lockstep-mpi"]


class Copy:
    """A copy of the tree with all mutants built into it."""

    def __init__(self, options, texts):
        self.options, self.texts = options, texts
        self.source = os.path.join(options.work, "source")
        self.build = os.path.join(self.source, "build")
        names = shell(["git", "ls-files", "-co", "--exclude-standard"], ROOT).stdout.split("\n")
        for name in names:
            path = os.path.join(ROOT, name)
            if name and name not in texts and os.path.isfile(path):
                with open(path, "rb") as file:
                    write_if_new(os.path.join(self.source, name), file.read())
                shutil.copymode(path, os.path.join(self.source, name))
        link = os.path.join(options.work, "shared")
        shared = os.path.join(os.path.dirname(ROOT), "shared")
        if os.path.isdir(shared) and not os.path.lexists(link):
            os.symlink(shared, link)  # data of tests that are skipped without it

    def write(self, numbered):
        of = collections.defaultdict(list)
        for number, mutant in numbered:
            of[mutant.file].append((number, mutant))
        for name, text in self.texts.items():
            if name in of:
                text = units.rewritten(text, of[name], os.path.join(HERE, "mutant.h"))
            write_if_new(os.path.join(self.source, name), text.encode())

    def make(self, numbered, targets):
        """Builds; what cannot be compiled is left out. The mutants that are in."""
        environment = dict(os.environ, CCACHE_BASEDIR=self.source, CCACHE_NOHASHDIR="1")
        self.write(numbered)
        done = shell(["cmake", "--preset", "dev", "-DLOCKSTEP_CUDA=OFF", "-DLOCKSTEP_NCCL=OFF",
                      "-DLOCKSTEP_WERROR=OFF", *self.options.cmake], self.source, env=environment)
        if done.returncode != 0:
            sys.exit(done.stdout + done.stderr)
        for _ in range(BUILD_ROUNDS):
            done = shell(["ninja", "-k", "0", "-C", self.build, f"-j{self.options.jobs}", *targets],
                         self.source, env=environment)
            if done.returncode == 0:
                return numbered
            lines = re.findall(r"^(?:\.\./|/)?([^\s:]+\.c):(\d+):\d+: error: (.*)", done.stdout, re.M)
            bad = {(os.path.relpath(os.path.join(self.build, "..", name), self.source), int(line))
                   for name, line, _ in lines}
            kept = [(number, mutant) for number, mutant in numbered
                    if not any(mutant.file == name and mutant.line <= line <= last_line(
                        mutant, self.texts) for name, line in bad)]
            if len(kept) == len(numbered):
                sys.exit(done.stdout[-6000:])
            numbered = kept
            self.write(numbered)
        sys.exit("the mutants cannot be built")


class Tests:
    """The tests of a build, as CTest knows them, run without it."""

    def __init__(self, copy, names):
        listed = json.loads(shell(["ctest", "--test-dir", copy.build, "--show-only=json-v1"],
                                  copy.source).stdout)
        self.known = {test["name"]: test for test in listed["tests"]}
        self.took, self.lock, self.copy = {}, threading.Lock(), copy
        missing = [name for name in names if name.split(":")[0] not in self.known]
        if missing:
            sys.exit(f"not built here: {', '.join(missing)}")

    def run(self, name, number):
        """What went wrong, or None."""
        about, _, cases = name.partition(":")
        test = self.known[about]
        properties = {p["name"]: p["value"] for p in test.get("properties", ())}
        command = list(test["command"])
        if about.startswith("unit/"):
            command = [word for word in command if word != "-j2"] + ["-j1", "--fail-fast"]
            command += ["--filter", f"@({cases.strip()})/*"] if cases else []
        environment = dict(os.environ, LOCKSTEP_MUTANT=str(number))
        environment.update(pair.split("=", 1) for pair in properties.get("ENVIRONMENT", ()))
        limit = 20 + 8 * self.took[name] if name in self.took else 600
        start = time.monotonic()
        process = subprocess.Popen(command, cwd=properties["WORKING_DIRECTORY"], env=environment,
                                   stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                   start_new_session=True)
        try:
            output = process.communicate(timeout=limit)[0].decode(errors="replace")
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
            return "no end in time"
        if number == 0:
            self.took[name] = time.monotonic() - start
        if process.returncode != 0:
            told = re.search(r"^.*(?:FAIL|CRASH|Assertion|differs|rror:).*$", output, re.M)
            return told[0].strip()[:120] if told else f"exit code {process.returncode}"
        if about.startswith("unit/") and "Tested: 0" in output:
            return "nothing was tested"
        return None

    def try_mutant(self, number, mutant, tiers):
        for tier in rooms.tests_of(mutant.file)[:tiers]:
            for name in sorted(tier, key=lambda test: self.took[test]):
                why = self.run(name, number)
                if why is not None:
                    return {"end": "killed", "by": name, "why": why}
        return {"end": "survived"}


def read_lines(path):
    if not os.path.exists(path):
        return []
    with open(path, encoding="utf-8") as file:
        return file.read().splitlines()


def equivalents():
    """{key: why}: a line that begins with spaces gives the reason for those above it."""
    known, waiting = {}, []
    for line in read_lines(os.path.join(HERE, "equivalent.txt")):
        if line.startswith(" "):
            known.update((key, line.strip()) for key in waiting)
            waiting = []
        elif line and not line.startswith("#"):
            waiting.append(line)
    return known


def report(results, known):
    table, open_ = collections.defaultdict(collections.Counter), []
    for key, end in results.items():
        room = key.split("/")[0]
        what = "equivalent" if end["end"] == "survived" and key in known else end["end"]
        table[room][what] += 1
        if what == "survived":
            open_.append(key)
    columns = ("killed", "equivalent", "survived", "not built")
    print(f"{'room':<14}" + "".join(f"{name:>12}" for name in columns))
    for room, counts in sorted(table.items()):
        print(f"{room:<14}" + "".join(f"{counts[name]:>12}" for name in columns))
    for key in sorted(key for key in results if results[key]["end"] == "survived" and key in known):
        print(f"equivalent: {key}\n    {known[key]}")
    for key in sorted(open_):
        print(f"SURVIVED: {key}")
    return 1 if open_ else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="")
    parser.add_argument("--count", type=int)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--work", default=os.path.join(ROOT, "build", "mutants"))
    parser.add_argument("--list")
    parser.add_argument("--tiers", type=int, default=2)
    parser.add_argument("--again", action="store_true")
    parser.add_argument("--cmake", action="append", default=[])
    options = parser.parse_args()
    if options.count is None:
        options.count = 0 if options.list else 40
    os.makedirs(options.work, exist_ok=True)
    texts, chosen = choose(options)
    path, results = os.path.join(options.work, "results.jsonl"), {}
    known = {}
    for line in read_lines(path):
        entry = json.loads(line)
        known[entry["key"]] = entry
    keys = {mutant.key for mutant in chosen}
    results = {key: entry for key, entry in known.items() if key in keys and not (
        options.again and entry["end"] == "survived")}
    everything = list(enumerate(chosen, 1))
    numbered = [(number, mutant) for number, mutant in everything if mutant.key not in results]
    print(f"{len(chosen)} mutants, {len(numbered)} of them to be tried", flush=True)
    if numbered:
        names = sorted({name for _, mutant in numbered for tier in rooms.tests_of(
                            mutant.file)[:options.tiers] for name in tier})
        copy = Copy(options, texts)
        built = set(copy.make(everything, targets_of(names)))
        tests = Tests(copy, names)
        for name in names:
            why = tests.run(name, 0)
            if why is not None:
                sys.exit(f"{name} fails without any mutant: {why}")
            # A unit test need not have the rewritten files in it.
            if not name.startswith("unit/") and tests.run(name, -1) is None:
                sys.exit(f"{name} does not hand LOCKSTEP_MUTANT on to what it runs")
        with open(path, "a", encoding="utf-8") as log:
            def note(mutant, end):
                entry = dict(end, key=mutant.key, line=mutant.line)
                results[mutant.key] = entry
                log.write(json.dumps(entry) + "\n")
                log.flush()
                print(f"{entry['end']:<9} {mutant.file}:{mutant.line}: {mutant.what[:150]}"
                      f"  {entry.get('by', '')}", flush=True)
            for number, mutant in set(numbered) - built:
                note(mutant, {"end": "not built"})
            with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
                futures = {pool.submit(tests.try_mutant, number, mutant, options.tiers): mutant
                           for number, mutant in numbered if (number, mutant) in built}
                for future in concurrent.futures.as_completed(futures):
                    note(futures[future], future.result())
    sys.exit(report(results, equivalents()))


if __name__ == "__main__":
    main()
