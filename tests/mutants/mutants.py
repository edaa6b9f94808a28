"""Mutants of lockstep's own sources that the tests do not kill.

mutants.py [--only PATTERN] [--count N] [--seed N] [--jobs N] [--work DIR] [--list FILE] [--again] [--beside BUILD]

Takes N mutants of each room (0: all), the same ones for a seed; with --only, of a room or of files that match PATTERN. All are built into
one copy of the tree under DIR. Each runs against the tests that rooms.py names, nearest first, up to the first failure. DIR/results.jsonl
keeps the results, so a stopped run continues; --again tries survivors once more. --list takes mutants from a Python file instead: MUTANTS =
[(file, old text, new text[, which of several])].

The table counts by room. killed: a test failed; in time: it exceeded its limit; same code: the compiler's output is equal; equivalent:
equivalent.txt gives the reason why no test can kill it. The share leaves out equal code, equivalent mutants and those that do not compile.
Exit code 1: a mutant survived.

--beside BUILD copies no tree: it compiles the changed files and links them, under DIR, to the unit tests among a file's (--tiers 0: only
the nearest), with the objects of BUILD. It is for files of liblockstep, stores nothing, and exits 0 if every mutant is killed.
"""
import argparse
import collections
import concurrent.futures
import hashlib
import json
import os
import re
import shlex
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
RUN = '"$@"; code=$?; times; exit $code'  # field of `times`: the duration of the test's processes
KILLED = ("killed", "in time")  # the end of a killed mutant


def shell(command, folder, **more):
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, **more)


def write_if_new(path, data):
    """Keeps the time of an unchanged file, so that nothing is rebuilt for it."""
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
             if rooms.room_of(name) and (re.match(options.only, name) or
                                         re.fullmatch(options.only, rooms.room_of(name)))]
    texts, chosen = {}, []

    def text_of(name):
        if name not in texts:
            with open(os.path.join(ROOT, name), encoding="utf-8") as file:
                texts[name] = file.read()
        return texts[name]
    if options.list:
        scope = {}
        with open(options.list, encoding="utf-8") as file:
            exec(file.read(), scope)  # the user's list
        for number, (name, *change) in enumerate(scope["MUTANTS"]):
            try:
                chosen.append(units.of_list(name, text_of(name), *change))
            except (LookupError, OSError) as error:
                sys.exit(f"{options.list}: mutant {number}: {error}")
    if options.count != 0 or not options.list:
        of = collections.defaultdict(list)
        for name in files:
            of[rooms.room_of(name)] += units.mutants(name, text_of(name))
        for found in of.values():
            found.sort(key=lambda mutant: number_of(options.seed, mutant))
            chosen += found[:options.count] if options.count else found
        # A run that is stopped early has tried some of each room.
        chosen.sort(key=lambda mutant: number_of(options.seed, mutant))
    return {mutant.file: texts[mutant.file] for mutant in chosen}, chosen


class Built:
    """The files and tests of a build."""

    def __init__(self, options, texts, source, build=None):
        self.options, self.texts, self.source, self.commands = options, texts, source, None
        self.build = build or os.path.join(source, "build")

    def compiled(self):
        """{file: its compile command}, for all files of this build."""
        if self.commands is None:
            listed = json.loads(shell(["ninja", "-t", "compdb"], self.build).stdout)
            self.commands = {os.path.relpath(os.path.join(entry["directory"], entry["file"]),
                                             self.source): entry["command"] for entry in listed}
        return self.commands

    def is_same_code(self, mutant):
        """Whether the compiler's output for the mutant equals that for the file."""
        words = shlex.split(self.compiled()[mutant.file])
        words = words[1:] if os.path.basename(words[0]) == "ccache" else words
        kept = [word for before, word in zip([""] + words, words) if word not in (
            "-MD", "-MT", "-MF", "-o", "-c", "-g") and before not in ("-MT", "-MF", "-o", "-c")]
        text, unit = self.texts[mutant.file], mutant.unit
        made = []
        for one in (text, text[:unit.start] + mutant.text + text[unit.end:]):
            command = [*kept, "-w", "-S", "-x", "c", "-", "-o", "-", "-iquote",
                       os.path.dirname(os.path.join(self.source, mutant.file))]
            done = shell(command, self.build, input=f'#line 1 "{mutant.file}"\n{one}')
            made.append(done.stdout if done.returncode == 0 else None)
        return made[0] is not None and made[0] == made[1]


class Copy(Built):
    """A copy of the tree with all mutants built into it."""

    def __init__(self, options, texts):
        super().__init__(options, texts, os.path.join(options.work, "source"))
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
                text = units.rewritten(os.path.join(self.source, name), text, of[name],
                                       os.path.join(HERE, "mutant.h"))
            write_if_new(os.path.join(self.source, name), text.encode())

    def configure(self):
        self.environment = dict(os.environ, CCACHE_BASEDIR=self.source, CCACHE_NOHASHDIR="1")
        done = shell(["cmake", "--preset", "dev", "-DLOCKSTEP_CUDA=OFF", "-DLOCKSTEP_NCCL=OFF",
                      "-DLOCKSTEP_WERROR=OFF", *self.options.cmake], self.source,
                     env=self.environment)
        if done.returncode != 0:
            sys.exit(done.stdout + done.stderr)

    def make(self, numbered, names):
        """Builds the needed tests and drops mutants that do not compile. Returns the others."""
        self.write(numbered)
        self.configure()
        targets = self.targets(names)
        for _ in range(BUILD_ROUNDS):
            done = shell(["ninja", "-k", "0", "-C", self.build, f"-j{self.options.jobs}", *targets],
                         self.source, env=self.environment)
            if done.returncode == 0:
                return [(number, mutant) for number, mutant in numbered
                        if mutant.file in self.compiled()]
            numbered = without_bad(numbered, done.stdout)
            self.write(numbered)
        sys.exit("the mutants cannot be built")

    def targets(self, names):
        """The test programs: those in the tests' commands, and those that rooms.py names. CTest has no command for a program that does not
        exist yet.
        """
        wanted, named = {name.split(":")[0] for name in names}, set()
        for folder, _, files in os.walk(self.build):
            for line in read_lines(os.path.join(folder, "CTestTestfile.cmake")) if (
                    "CTestTestfile.cmake" in files) else []:
                test = re.match(r"add_test\((?:\[=*\[)?([^\s\]]+)\S* ", line)
                if test and test[1] in wanted:
                    named.update(re.findall(f'"{re.escape(self.build)}/([^"]+)"', line))
        lines = shell(["ninja", "-t", "targets", "all"], self.build).stdout.split("\n")
        more = {target for name in names for target in rooms.TARGETS.get(name.split("/")[0], ())}
        return sorted(named & {line.split(":")[0] for line in lines} | more) + list(rooms.ALWAYS)

    def tiers_of(self, file):
        return rooms.tests_of(file)[:self.options.tiers]

    def tests(self):
        """{name: test}, from CTest."""
        return listed_tests(self.build)


class Beside(Built):
    """The changed files, linked with a build to the nearest unit test of each mutant."""

    def __init__(self, options, texts):
        super().__init__(options, texts, ROOT, os.path.abspath(options.beside))
        self.programs = {}

    def tiers_of(self, file):
        tiers = [[name for name in tier if name.startswith("unit/")] for tier in rooms.tests_of(file)]
        return tiers[:self.options.tiers] or [tiers[0][:1]]

    def command(self, words, **more):
        done = shell(words, self.build, **more)
        if done.returncode != 0:
            sys.exit(done.stdout + done.stderr)
        return done.stdout

    def compile(self, name, numbered):
        """The object of a file with its mutants, and these: without those that do not compile."""
        path = os.path.join(self.options.work, name)
        write_if_new(path, units.rewritten(os.path.join(ROOT, name), self.texts[name], numbered,
                                           os.path.join(HERE, "mutant.h")).encode())
        words = shlex.split(self.compiled()[name])
        words[words.index("-o") + 1], words[words.index("-c") + 1] = path + ".o", path
        words[words.index("-MF") + 1] = path + ".d"
        done = shell([*words, "-Wno-error", "-iquote", os.path.dirname(os.path.join(ROOT, name))],
                     self.build)
        if done.returncode != 0:
            return self.compile(name, without_bad(numbered, done.stderr))
        return path + ".o", numbered

    def make(self, numbered, names):
        of, listed = collections.defaultdict(list), listed_tests(self.build, self.options.work)
        for number, mutant in numbered:
            of[mutant.file].append((number, mutant))
        with concurrent.futures.ThreadPoolExecutor(self.options.jobs) as pool:
            compiled = dict(zip(of, pool.map(self.compile, of, of.values())))
        missing = {name.split(":")[0] for name in names} - set(listed)
        if missing:
            sys.exit(f"not in {self.build}: {', '.join(sorted(missing))}")
        wanted = collections.defaultdict(list)
        for name, (made, _) in compiled.items():
            for test in {test.split(":")[0] for tier in self.tiers_of(name) for test in tier}:
                wanted[test].append(made)

        def link(name):
            program = listed[name]["command"][0]
            made = self.link(os.path.relpath(program, self.build), wanted[name])
            self.programs[name] = dict(listed[name], command=[made, *listed[name]["command"][1:]])
        with concurrent.futures.ThreadPoolExecutor(self.options.jobs) as pool:
            list(pool.map(link, wanted))
        return [one for _, kept in compiled.values() for one in kept]

    def link(self, target, objects):
        """A program of the build with these objects. They come first, so that their symbols replace those of libraries."""
        made = os.path.join(self.options.work, os.path.basename(target))
        commands = self.command(["ninja", "-t", "commands", target]).splitlines()
        first = " ".join(["", "-Wl,--allow-multiple-definition", *map(shlex.quote, objects), ""])
        self.command(re.sub(r" (?=\S+\.o )", lambda _: first, commands[-1], count=1).replace(
            f" -o {target} ", f" -o {shlex.quote(made)} "), shell=True)
        return made

    def tests(self):
        return self.programs


def without_bad(numbered, output):
    """The mutants without those that the compiler rejects."""
    # Errors in a macro are reported there, followed by the mutant that uses it.
    bad = set(re.findall(r"\bmutant/(\d+):\d+:\d+: error", output)) or set(
        re.findall(r"\bmutant/(\d+):", output))
    if not bad:
        sys.exit(output[-6000:])
    return [(number, mutant) for number, mutant in numbered if str(number) not in bad]


def listed_tests(build, folder=None):
    """{name: test} of a build, from CTest. Records in `folder` that it was queried."""
    if folder is not None:
        write_if_new(os.path.join(folder, "CTestTestfile.cmake"), f"subdirs([[{build}]])\n".encode())
    told = shell(["ctest", "--test-dir", folder or build, "--show-only=json-v1"], build).stdout
    return {test["name"]: test for test in json.loads(told)["tests"]}


class Tests:
    """The tests of a build, run without CTest."""

    def __init__(self, copy, names):
        self.known, self.took, self.copy = copy.tests(), {}, copy
        self.unfit, self.proving = set(), collections.defaultdict(threading.Lock)
        self.starting, self.running, self.stopped = threading.Lock(), set(), False
        missing = [name for name in names if name.split(":")[0] not in self.known]
        if missing:
            sys.exit(f"not built here: {', '.join(missing)}")

    def run(self, name, number):
        """(end, error), or None."""
        about, _, cases = name.partition(":")
        test = self.known[about]
        properties = {p["name"]: p["value"] for p in test.get("properties", ())}
        command = list(test["command"])
        if about.startswith("unit/"):
            command = [word for word in command if word != "-j2"] + ["-j1", "--fail-fast"]
            command += ["--filter", f"@({cases.strip()})/*"] if cases else []
        environment = dict(os.environ, LOCKSTEP_MUTANT=str(number))
        environment.update(pair.split("=", 1) for pair in properties.get("ENVIRONMENT", ()))
        # Processor time limits an endless loop, independently of the load; the clock limits a hang.
        grace = self.copy.options.grace
        took, spent = self.took.get(name, (600, 150))
        busy, start = int(grace + 4 * spent), time.monotonic()
        with self.starting:
            if self.stopped:
                raise InterruptedError
            process = subprocess.Popen(["sh", "-c", f"ulimit -t {busy}; {RUN}", "sh", *command],
                                       cwd=properties["WORKING_DIRECTORY"], env=environment,
                                       stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                       start_new_session=True)
            self.running.add(process)
        try:
            output = process.communicate(timeout=10 * (busy + took))[0].decode(errors="replace")
        except subprocess.TimeoutExpired:
            end(process)
            process.communicate()
            return "in time", "no end by the clock"
        finally:
            with self.starting:
                self.running.discard(process)
        spent = sum(60 * int(minutes) + float(seconds) for minutes, seconds in re.findall(
            r"(\d+)m([\d.]+)s", output.rstrip().rpartition("\n")[2]))
        if number == 0:
            self.took[name] = (time.monotonic() - start, spent)
        if process.returncode != 0:
            if spent >= busy / 2:  # the limit is finer than the reported time
                return "in time", "no end in the time of its processor"
            told = re.search(r"^.*(?:FAIL|CRASH|Assertion|differs|rror:).*$", output, re.M)
            return "killed", told[0].strip()[:120] if told else f"exit code {process.returncode}"
        if about.startswith("unit/") and "Tested: 0" in output:
            return "killed", "nothing was tested"
        return None

    def stop(self):
        """Ends running tests; none is started any more."""
        with self.starting:
            self.stopped = True
            for process in self.running:
                end(process)

    def prove(self, name):
        """Runs a test without a mutant, before its first one: whether it passes."""
        with self.proving[name]:
            if name not in self.took and name not in self.unfit:
                found = self.run(name, 0)
                if found is not None:
                    self.unfit.add(name)
                    print(f"{name} fails without any mutant, and is left out: {found[1]}", flush=True)
                # A unit test may not contain the rewritten files.
                elif not name.startswith("unit/") and self.run(name, -1) is None:
                    sys.exit(f"{name} does not hand LOCKSTEP_MUTANT on to what it runs")
            return name not in self.unfit

    def try_mutant(self, number, mutant):
        tried = set()
        for tier in self.copy.tiers_of(mutant.file):
            # Tests that have not run yet come last, in order.
            for name in sorted((name for name in tier if name not in tried),
                               key=lambda name: self.took.get(name, (1e9,))):
                found = self.run(name, number) if self.prove(name) else None
                if found is not None:
                    return {"end": found[0], "by": name, "why": found[1]}
            if not tried and self.copy.is_same_code(mutant):
                return {"end": "same code"}
            tried.update(tier)
        return {"end": "survived"}


def end(process):
    """Ends a test with all its processes."""
    for number in (signal.SIGTERM, signal.SIGKILL):  # this one first, so that mpiexec ends its ranks
        try:
            os.killpg(process.pid, number)
            process.wait(5)
        except (ProcessLookupError, subprocess.TimeoutExpired):
            pass


def read_lines(path):
    if not os.path.exists(path):
        return []
    with open(path, encoding="utf-8") as file:
        return file.read().splitlines()


def equivalents():
    """{key: reason}: an indented line is the reason for the lines above it."""
    known, waiting = {}, []
    for line in read_lines(os.path.join(HERE, "equivalent.txt")):
        if line.startswith(" "):
            known.update((key, line.strip()) for key in waiting)
            waiting = []
        elif line and not line.startswith("#"):
            waiting.append(line)
    return known


def told(entry, key):
    """A mutant as a difference."""
    file, _, change = key.partition(": ")
    old, _, new = re.sub(r" #\d+$", "", change).rpartition(" -> ")
    return f"{file}:{entry['line']}\n  - {old}\n  + {new}"


def report(results, known):
    table, open_ = collections.defaultdict(collections.Counter), []
    for key, end in results.items():
        room = rooms.room_of(key.split(":")[0])
        what = "equivalent" if end["end"] == "survived" and key in known else end["end"]
        for row in (room, "all"):
            table[row][what] += 1
        if what == "survived":
            open_.append(key)
    columns = (*KILLED, "survived", "equivalent", "same code", "not built")
    print(f"{'room':<13}{'made':>8}" + "".join(f"{name:>11}" for name in columns) + f"{'share':>8}")
    for room, counts in sorted(table.items(), key=lambda row: (row[0] == "all", row[0])):
        killed = sum(counts[name] for name in KILLED)
        share = f"{100 * killed // (killed + counts['survived'])} %" if killed else "-"
        print(f"{room:<13}{sum(counts.values()):>8}" + "".join(
            f"{counts[name]:>11}" for name in columns) + f"{share:>8}")
    for key in sorted(key for key in results if results[key]["end"] == "survived" and key in known):
        print(f"equivalent: {told(results[key], key)}\n    {known[key]}")
    for key in sorted(open_):
        print(f"SURVIVED: {told(results[key], key)}")
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
    parser.add_argument("--tiers", type=int, default=3)
    parser.add_argument("--grace", type=int, default=10, help="seconds that a test may take longer")
    parser.add_argument("--again", action="store_true")
    parser.add_argument("--beside")
    parser.add_argument("--cmake", action="append", default=[])
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    if options.count is None:
        options.count = 0 if options.list else 25
    options.work = os.path.abspath(options.work)
    os.makedirs(options.work, exist_ok=True)
    texts, chosen = choose(options)
    path, known = os.path.join(options.work, "results.jsonl"), {}
    for line in read_lines(path) if not options.beside else []:
        entry = json.loads(line)
        known[entry["key"]] = entry
    keys = {mutant.key for mutant in chosen}
    results = {key: entry for key, entry in known.items() if key in keys and not (
        options.again and entry["end"] == "survived")}
    everything = list(enumerate(chosen, 1))
    numbered = [(number, mutant) for number, mutant in everything if mutant.key not in results]
    print(f"{len(chosen)} mutants, {len(numbered)} of them to be tried", flush=True)
    if numbered:
        copy = (Beside if options.beside else Copy)(options, texts)
        names = sorted({name for _, mutant in numbered for tier in copy.tiers_of(mutant.file)
                        for name in tier})
        built = set(copy.make(everything, names))
        with open(path, "a", encoding="utf-8") as log:
            def note(mutant, how):
                entry = dict(how, key=mutant.key, line=mutant.line)
                results[mutant.key] = entry
                log.write(json.dumps(entry) + "\n")
                log.flush()
                print(f"{entry['end']:<9} {mutant.file}:{mutant.line}: {mutant.what[:150]}"
                      f"  {entry.get('by', '')}", flush=True)
            for number, mutant in set(numbered) - built:
                note(mutant, {"end": "not built"})
            try_all(Tests(copy, names), [one for one in numbered if one in built], options.jobs, note)
    code = report(results, equivalents())
    if options.beside and any(entry["end"] not in KILLED for entry in results.values()):
        code = 1
    sys.exit(code)


def try_all(tests, numbered, jobs, note):
    pool = concurrent.futures.ThreadPoolExecutor(jobs)
    try:
        futures = {pool.submit(tests.try_mutant, *one): one[1] for one in numbered}
        for future in concurrent.futures.as_completed(futures):
            note(futures[future], future.result())
    finally:
        tests.stop()
        pool.shutdown(cancel_futures=True)


if __name__ == "__main__":
    main()
