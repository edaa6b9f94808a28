"""Calls of OpenMP's workers and of pthreads belong to their rank, under the level that MPI_Init_thread granted; a deadlock in a parallel
region ends with its finding. threads.py BUILD SOURCES
"""
import os
import subprocess
import sys
import tempfile

# the threads' action, exit code, finding, its lines, marked by "wrong: "
CASES = (
    ("nothing", 0, None, ()),
    ("multiple", 0, None, ()),
    ("serialized", 0, None, ()),
    ("funneled", 0, None, ()),
    ("helper_multiple", 0, None, ()),
    ("deadlock", 1, "deadlock.cycle", ("deadlock",)),
    ("fault", 1, "rank.died", ()),
    ("helper", 1, "call.invalid", ("helper", "init")),
    ("two_at_once", 1, "call.invalid", ("two_at_once", "waits", "init")),
    ("both_wait", 0, None, ()),
    ("freed_types", 0, None, ()),
    ("matched_probes", 0, None, ()),
    ("probes", 1, "p2p.count_mismatch", ("probes",)),
)


def line_of(source, words):
    for number, line in enumerate(open(source, encoding="utf-8"), 1):
        if line.rstrip().endswith("// wrong: " + words):
            return f"threads.c:{number}"
    raise AssertionError(words)


def main():
    build, sources = sys.argv[1:]
    source = os.path.join(sources, "threads.c")
    with tempfile.TemporaryDirectory() as folder:
        program = os.path.join(folder, "threads")
        subprocess.run([os.path.join(build, "lockstep-cc"), "-fopenmp", source, "-o", program],
                       check=True)
        for name, code, finding, lines in CASES:
            for schedule in ([], ["--schedule", "random", "--seed", "3"], ["--delayed-rank", "0"]):
                done = subprocess.run([os.path.join(build, "lockstep"), "mpi", "-n", "2", *schedule,
                                       program, "--", name], capture_output=True, text=True)
                text = done.stdout + done.stderr
                assert done.returncode == code, (name, schedule, done.returncode, text)
                assert finding is None or f"{finding}," in text, (name, schedule, text)
                for words in lines:
                    assert line_of(source, words) in text, (name, schedule, words, text)
    print(f"{len(CASES)} hybrid programs")


main()
