#!/usr/bin/env python3
"""Builds and runs MPICH's own test suite (https://github.com/pmodels/mpich, test/mpi, in C) under
lockstep and counts what builds, what passes, and what lockstep finds in it.

    bench/mpich.py DIR [--build build] [--jobs 2] [--only TEXT] [--failures] [--keep FILE]

DIR is the suite's folder test/mpi; nothing of it is kept. A test passes when it prints its "No Errors", exits
with 0 and lockstep finds nothing. Where it prints that and lockstep finds a mistake, or where it asks for
functions of MPI 4 that lockstep has not, that is counted by itself. Entries of its list that differ only in
MPICH's own variables are one test; those that the list marks as failing under MPICH or as not strictly MPI
are left out, and counted. Each test has the time that the list gives it, as processor time of a process:
other load does not count. One that waits has ten times as long. --keep has each result written to FILE, where
a run that was ended goes on.
"""
import argparse
import collections
import concurrent.futures
import json
import os
import re
import subprocess
import sys
import tempfile

FOLDERS = ("attr", "basic", "coll", "comm", "datatype", "errhan", "group", "info", "init", "pt2pt",
           "rma", "topo", "part", "errors/attr", "errors/coll", "errors/comm", "errors/datatype",
           "errors/group", "errors/pt2pt", "errors/rma", "errors/topo", "threads/pt2pt",
           "threads/comm", "threads/coll", "threads/init", "threads/rma", "threads/part")
CONFIGURATION = """
#define HAVE_STDARG_H 1
#define HAVE_STRING_H 1
#define HAVE_UNISTD_H 1
#define HAVE_SYS_TIME_H 1
#define HAVE_SYS_RESOURCE_H 1
#define HAVE_GETRUSAGE 1
#define HAVE_STRDUP 1
#define HAVE_USLEEP 1
#define HAVE_MPI_WIN_CREATE 1
#define HAVE_LONG_DOUBLE 1
#define HAVE_LONG_LONG 1
#define USE_STRICT_MPI 1
#define POINTERINT_t long
#define THREAD_PACKAGE_NAME THREAD_PACKAGE_POSIX
"""
LIBRARY = ("util/mtest.c", "util/mtest_common.c", "util/dtypes.c")
THREADS = ("util/mtest_single.c", "util/mtest_thread.c")  # one of them, by the test
MPI_4 = re.compile(r"P?MPI_(\w+_c|Session\w*|Isendrecv\w*|Buffer_iflush|Info_create_env)$")
OUTCOMES = ("passed", "right, with a finding", "failed", "not built", "of MPI 4, not built")
SECONDS = 180  # where the list says nothing else
WAITS = 10  # times the seconds that a test has of processor time
EXPECTED = "not expected to pass under MPICH", "beyond the standard"


def run(command, seconds, folder=None):
    limited = ("sh", "-c", 'ulimit -t "$0" && exec "$@"', str(seconds), *command)
    try:
        done = subprocess.run(limited, cwd=folder, capture_output=True, text=True, errors="replace",
                              timeout=seconds * WAITS + 60)
        return done.returncode, done.stdout + done.stderr
    except subprocess.TimeoutExpired:
        return None, "timeout"


def tests_of(suite, folder):
    """(program, ranks, arguments, result, left out, seconds) of each line of the folder's list."""
    found = {}
    for name in ("testlist", "testlist.in"):
        path = os.path.join(suite, folder, name)
        if not os.path.exists(path):
            continue
        for line in open(path, encoding="utf-8"):
            words = line.split()
            if not words or words[0].startswith(("#", "@")) or len(words) < 2:
                continue
            options = [w.split("=", 1) for w in words[2:] if "=" in w]
            arguments = tuple(value for key, value in options if key == "arg")
            rest = dict(options)
            out = EXPECTED[0] if "xfail" in rest else \
                EXPECTED[1] if rest.get("strict", "").lower() == "false" else None
            found.setdefault((words[0], words[1], arguments),
                             (rest.get("resultTest", ""), out,
                              int(rest.get("timeLimit", SECONDS))))
    return [(*key, *value) for key, value in found.items()]


def sources_of(suite, folder, program):
    """(sources, flags), as the folder's Makefile.am says."""
    text = open(os.path.join(suite, folder, "Makefile.am"), encoding="utf-8").read()
    sources = re.search(rf"^{re.escape(program)}_SOURCES *= *(.*)$", text, re.M)
    flags = re.search(rf"^{re.escape(program)}_CPPFLAGS *= *(.*)$", text, re.M)
    files = [f for f in sources.group(1).split() if not f.endswith(".h")] if sources else \
        [program + ".c"]
    return ([os.path.join(suite, folder, f) for f in files],
            [w for w in flags.group(1).split() if w.startswith("-")] if flags else [])


def outcome_unbuilt(text):
    names = re.findall(r"undefined reference to `(\w+)'|[‘'](MPI_\w+)[’'] undeclared|"
                       r"unknown type name [‘'](\w+)[’']", text)
    names = [name for found in names for name in found if name.startswith(("MPI_", "PMPI_"))]
    return OUTCOMES[4] if names and all(MPI_4.match(n) for n in names) else OUTCOMES[3]


class Suite:
    def __init__(self, suite, build, folder, failures):
        self.failures = failures
        self.suite, self.folder = os.path.abspath(suite), folder
        self.cc = os.path.abspath(os.path.join(build, "lockstep-cc"))
        self.lockstep = os.path.abspath(os.path.join(build, "lockstep"))
        os.mkdir(os.path.join(folder, "include"))  # one header is asked for one folder above
        for name, text in (("mpitestconf.h", CONFIGURATION), ("dtpoolsconf.h", CONFIGURATION),
                           ("mtest_mpix.h", "")):
            with open(os.path.join(folder, name), "w", encoding="utf-8") as out:
                out.write(text)
        self.flags = ["-w", "-O2", "-I" + folder, "-I" + os.path.join(folder, "include"),
                      "-I" + os.path.join(self.suite, "include"),
                      "-I" + os.path.join(self.suite, "dtpools", "include"),
                      "-DHAVE_MPITESTCONF_H=1"]
        pools = os.path.join(self.suite, "dtpools", "src")
        files = [os.path.join(self.suite, f) for f in LIBRARY]
        files += [os.path.join(pools, f) for f in sorted(os.listdir(pools)) if f.endswith(".c")]
        files += [os.path.join(self.suite, f) for f in THREADS]
        self.library = []
        for source in files:
            made = os.path.join(folder, os.path.basename(source)[:-2] + ".o")
            code, text = run([self.cc, *self.flags, "-c", source, "-o", made], 120)
            if code != 0:
                sys.exit(f"{source}: {text}")
            self.library.append(made)
        self.threads = self.library[-len(THREADS):]
        self.library = self.library[:-len(THREADS)]
        # Programs without a main get this one.
        made, archive = (os.path.join(folder, "main" + end) for end in (".o", ".a"))
        run([self.cc, *self.flags, "-c", os.path.join(self.suite, "util", "run_mpitests.c"), "-o",
             made], 120)
        run(["ar", "rcs", archive, made], 120)
        self.library.append(archive)

    def judge(self, folder, program, tests):
        made = os.path.join(self.folder, folder.replace("/", "-") + "-" + program)
        sources, flags = sources_of(self.suite, folder, program)
        rows, built = [], None
        for _, ranks, arguments, result, left_out, seconds in tests:
            name = " ".join((f"{folder}/{program}", ranks, *arguments))
            if left_out is not None:
                rows.append((name, left_out, ""))
                continue
            if built is None:
                objects = *self.library, self.threads[folder.startswith("threads/")]
                built = run([self.cc, *self.flags, *flags, *sources, *objects, "-pthread", "-lm",
                             "-o", made], 120) if all(os.path.exists(s) for s in sources) else \
                    (1, "generated sources")
            if built[0] != 0:
                rows.append((name, outcome_unbuilt(built[1]), built[1]))
                if self.failures:
                    print(f"not built: {name}\n{built[1]}", flush=True)
                continue
            code, text = run([self.lockstep, "mpi", "-n", ranks, "--deadline",
                              str(seconds * WAITS), "--buffering", "all", made, "--", *arguments],
                             seconds, os.path.join(self.suite, folder))
            fails = result in ("TestErrFatal", "TestStatus")
            says = "no errors" in text.lower()
            right = (code == 1) if fails else (code == 0 and says)
            outcome = OUTCOMES[0] if right else OUTCOMES[1] if code == 1 and says else OUTCOMES[2]
            rows.append((name, outcome, text))
            if not right and self.failures:
                print(f"{outcome}: {name}\n{text}", flush=True)
        if os.path.exists(made):
            os.unlink(made)
        return rows


def read_kept(path):
    """The rows of each program that an earlier run has judged."""
    if path is None or not os.path.exists(path):
        return {}
    with open(path, encoding="utf-8") as lines:
        return dict(json.loads(line) for line in lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder")
    parser.add_argument("--build", default="build")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--only", default="")
    parser.add_argument("--keep")
    parser.add_argument("--failures", action="store_true", help="print what failed tests said")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="lockstep-mpich-") as folder:
        suite = Suite(options.folder, options.build, folder, options.failures)
        work = []
        for part in FOLDERS:
            programs = collections.defaultdict(list)
            for test in tests_of(suite.suite, part):
                if options.only in f"{part}/{test[0]}":
                    programs[test[0]].append(test)
            work += [(part, program, tests) for program, tests in programs.items()]
        kept = read_kept(options.keep)
        out = open(options.keep or os.devnull, "a", encoding="utf-8")

        def judge(part, program, tests):
            name = f"{part}/{program}"
            if name not in kept:
                kept[name] = suite.judge(part, program, tests)
                out.write(json.dumps([name, kept[name]]) + "\n")
                out.flush()
            return kept[name]
        with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
            rows = [row for rows in pool.map(lambda w: judge(*w), work) for row in rows]
    outcomes = (*OUTCOMES, *EXPECTED)
    for part in (*FOLDERS, "all"):
        count = [sum(row[1] == o and (part == "all" or row[0].split("/")[:-1] == part.split("/"))
                     for row in rows) for o in outcomes]
        if sum(count):
            print(f"{part:16} " + ", ".join(f"{n} {o}" for n, o in zip(count, outcomes) if n))
    for name, outcome, _ in rows:
        if outcome in OUTCOMES[1:]:
            print(f"{outcome}: {name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
