"""Runs the correct programs on hosts (namespaces.py) with one rank each, under `lockstep exec --observe`, which must report no finding and
give the numbers of the same job without lockstep: hosts.py LOCKSTEP [FILE]... Prints a line for each program. A job has all programs of a
file.
"""
import os
import runpy
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(os.path.dirname(HERE)))

from cluster import SKIP, Job, environment_of
from namespaces import Hosts, can_make

RUN = runpy.run_path(f"{HERE}/run.py")
RANKS, programs_of, numbers_of, is_same = (RUN[name] for name in ("RANKS", "programs_of", "numbers_of", "is_same"))


def run(hosts, lockstep, file, names, observed):
    """The numbers of each program, and why it is wrong."""
    job, ranks = Job(hosts, lockstep), hosts.count
    program = [sys.executable, f"{HERE}/{file}", *names]
    for rank in range(ranks):
        environment = dict(environment_of(job), RANK=str(rank), LOCAL_RANK="0", WORLD_SIZE=str(ranks))
        if not observed:
            job.start(rank, program, environment)
        elif rank == 0:
            job.coordinate(ranks - 1, program, environment)
        else:
            job.start(rank, [*job.join, *program], environment)
    codes, wrong = job.end(), []
    if any(codes):
        wrong.append(f"exit codes {codes}: {' '.join((job.text('h0.out') + job.text('h0.err')).splitlines()[-3:])}")
    if observed:
        case = job.case()
        wrong += [f"{one['id']} at {one.get('where', '')}: {one['text'].splitlines()[0]}" for one in case.get("findings", [])]
        wrong += [case["error"]] if case.get("error") else []
        wrong += [] if case.get("calls") else ["no call was observed"]
    return numbers_of(job.text("h0.out"), names), wrong


def main():
    lockstep, *files = sys.argv[1:]
    if (why := can_make()) is not None:
        print(f"skipped: {why}")
        return SKIP
    failed = 0
    for file in files or RANKS:
        file, _, only = file.partition(":")
        names = only.split(",") if only else programs_of(file)
        with tempfile.TemporaryDirectory() as folder, Hosts(folder, RANKS[file]) as hosts:
            expected, broken = run(hosts, lockstep, file, names, False)
            found, wrong = run(hosts, lockstep, file, names, True)
        for name in names:
            same = is_same(expected.get(name, []), found.get(name, [])) and name in found
            failed += 0 if same and not wrong and not broken else 1
            print(f"{'pass' if same and not wrong and not broken else 'FAIL'}  {file}:{name}", flush=True)
        print(*(f"  without lockstep: {line}" for line in broken), *(f"  {line}" for line in wrong), sep="\n", flush=True)
    return failed


if __name__ == "__main__":
    sys.exit(main())
