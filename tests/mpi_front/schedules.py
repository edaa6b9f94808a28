"""Every correct program of these tests is silent under random schedules, and with each of its ranks
delayed, also where sends never wait. schedules.py BUILD SOURCES SEEDS [NAME]; try it with 1000 seeds, niced."""
import glob
import os
import re
import subprocess
import sys
import tempfile

from cases import cases_of
from run import CASES


def programs(sources):
    """(name, source, ranks, arguments) of each."""
    for name, ranks, *_ in CASES:
        if ranks < 10:  # delaying each of a few hundred ranks adds nothing
            yield name, os.path.join(sources, "programs", name + ".c"), ranks, []
    for source in sorted(glob.glob(os.path.join(sources, "cases", "*.c"))):
        for name, *_ in cases_of(source):
            yield name, source, 3, [name]
    for source in sorted(glob.glob(os.path.join(sources, "compared", "*.c"))):
        with open(source, encoding="utf-8") as file:
            ranks = re.search(r"of (\d+) ranks", file.readline())
        yield os.path.basename(source)[:-2], source, int(ranks[1]) if ranks else 5, ["it"]
    for source in sorted(glob.glob(os.path.join(sources, "scheduled", "*.c"))):
        yield os.path.basename(source)[:-2], source, 3, []


def failure(lockstep, ranks, schedule, program, arguments):
    try:
        done = subprocess.run([lockstep, "mpi", "-n", str(ranks), *schedule, program, "--",
                               *arguments], capture_output=True, text=True, timeout=int(os.environ.get("PATIENCE", 600)))
    except subprocess.TimeoutExpired:
        return "it has not ended in ten minutes"
    return None if done.returncode == 0 else \
        f"exit code {done.returncode}\n{done.stdout}{done.stderr}"


def main():
    build, sources, seeds = sys.argv[1], sys.argv[2], int(sys.argv[3])
    only, bad, count = sys.argv[4:], [], 0
    lockstep, built = os.path.join(build, "lockstep"), {}
    with tempfile.TemporaryDirectory() as folder:
        for name, source, ranks, arguments in programs(sources):
            if only and name not in only:
                continue
            if source not in built:
                built[source] = os.path.join(folder, f"program{len(built)}")
                subprocess.run([os.path.join(build, "lockstep-cc"), source, "-o", built[source]],
                               check=True)
            schedules = [["--schedule", "random", "--seed", str(s)] for s in range(1, seeds + 1)]
            schedules += [["--delayed-rank", str(r)] for r in range(ranks)]
            schedules += [["--buffering", "all", "--delayed-rank", str(ranks - 1)]]
            for schedule in schedules:
                count += 1
                said = failure(lockstep, ranks, schedule, built[source], arguments)
                if said is not None:
                    bad.append(f"{name} {' '.join(schedule)}: {said}")
                    break
    print("\n".join(bad))
    print(f"{count} runs, {len(bad)} programs with a false alarm")
    assert count > 0 and not bad


main()
