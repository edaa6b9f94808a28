"""Dumps of `lockstep exec --flight-recorder`: exec.py LOCKSTEP PROGRAM STAND_IN CC INCLUDE LIBRARY. diagnose, the extracted scenario and
the extracted C program have the same finding as exec.
"""
import json
import os
import pickle
import re
import subprocess
import sys
import tempfile

from dumps import dump, entry, run_scenario

BUGS = ("op", "dtype", "count", "kind", "root", "p2p", "cycle", "groups", "early", "unbegun", "killed", "stall")
IN_C = ("op", "p2p", "groups", "stall")


def findings(path):
    with open(path, encoding="utf-8") as file:
        return [found["id"] for case in json.load(file)["cases"] for found in case.get("findings", [])]


def run(words, **more):
    return subprocess.run(words, capture_output=True, text=True, check=False, **more)


def in_c(lockstep, folder, cc, include, library):
    source, binary, report = f"{folder}/x.c", f"{folder}/x.so", f"{folder}/c.json"
    run([lockstep, "extract", "--c", "-o", source, f"{folder}/kept"])
    built = run([cc, "-g", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", source, "-o", binary, f"-I{include}", library])
    if built.returncode != 0:
        return built.stderr
    with open(source, encoding="utf-8") as file:
        options = re.search(r"// lockstep spmd (.*) \./extracted\.so", file.read()).group(1).split()
    run([lockstep, "spmd", *options, "--json", report, binary],
        env=dict(os.environ, LD_LIBRARY_PATH=os.path.dirname(library)))
    return findings(report)


def dump_of(folder, rank):
    with open(f"{folder}/kept/rank_{rank}", "rb") as file:
        return pickle.load(file)


def alone(lockstep, folder):
    """The scenario of dumps in which no rank has come to the call where the killed rank is missing."""
    for rank in range(4):
        dump = dump_of(folder, rank)
        dump["entries"] = dump["entries"][:2]
        with open(f"{folder}/kept/rank_{rank}", "wb") as file:
            pickle.dump(dump, file, protocol=2)
    return run_scenario(lockstep, run([lockstep, "extract", f"{folder}/kept"]).stdout)


def check(bug, lockstep, program, stand_in, *build):
    with tempfile.TemporaryDirectory() as folder:
        os.mkdir(f"{folder}/kept")
        run([lockstep, "exec", "-n", "4", "--deadline", "2", "--flight-recorder", f"{folder}/kept/rank_", "--json",
             f"{folder}/exec.json", "--", program, bug], env=dict(os.environ, MEET=f"{folder}/id", LD_LIBRARY_PATH=stand_in))
        expected = findings(f"{folder}/exec.json")
        run([lockstep, "diagnose", "--json", f"{folder}/diagnose.json", f"{folder}/kept"])
        said = findings(f"{folder}/diagnose.json")
        taken = run([lockstep, "extract", f"{folder}/kept"])
        wrong = [] if said == expected and len(said) == 1 else [f"diagnose has {said}, exec {expected}"]
        if taken.returncode != 0 or len(taken.stdout.splitlines()) > 12:
            return wrong + [f"extract: {taken.returncode} {taken.stderr}{taken.stdout}"]
        again = run_scenario(lockstep, taken.stdout)
        wrong += [] if again == expected else [f"the scenario has {again}, exec {expected}:\n{taken.stdout}"]
        if bug == "unbegun" and (states := [dump_of(folder, rank)["entries"][0]["state"] for rank in range(4)]) != [*["started"] * 3, "scheduled"]:
            wrong += [f"the first call is {states}"]
        if bug == "killed" and (died := alone(lockstep, folder)) != expected:
            wrong += [f"the scenario without a waiting rank has {died}"]
        in_program = in_c(lockstep, folder, *build) if bug in IN_C else expected
        return wrong + ([] if in_program == expected else [f"the C program has {in_program}, exec {expected}"])


ALL = [0, 1, 2, 3]
GROUPS = [("0", "group 1", ALL), ("4", "world", ALL), ("6", "world 0->1", [0, 1])]


def pending(name, group, comm, **more):
    return entry(name, 8, group=group, state="scheduled", comm=comm, comm_ranks=str(ALL), op="sum", root=0, queue="", batch=0, thread_id="1",
                 **{"count": 8, **more})


def split(rank):
    """A member sends other counts."""
    return pending("all_to_all", GROUPS[1], "world", count=0, send_counts=[1, 3, 2, 2] if rank == 1 else [2] * 4, recv_counts=[2] * 4)


def no_send(rank):
    """A rank waits for a message, and the others on a second group of all, which has the first number."""
    return pending("recv 1<-0", GROUPS[2], "world") if rank == 1 else pending("all_reduce", GROUPS[0], "group 1")


def check_made(make, expected, lockstep, *build):
    with tempfile.TemporaryDirectory() as folder:
        os.mkdir(f"{folder}/kept")
        for rank in range(4):
            with open(f"{folder}/kept/rank_{rank}", "wb") as file:
                pickle.dump(dump([make(rank)], GROUPS), file, protocol=2)
        again = run_scenario(lockstep, run([lockstep, "extract", f"{folder}/kept"]).stdout)
        in_program = in_c(lockstep, folder, *build)
        return [] if again == in_program == [expected] else [f"the scenario has {again}, the C program {in_program}, not {expected}"]


def main():
    wrong = [f"{bug}: {what}" for bug in BUGS for what in check(bug, *sys.argv[1:])]
    for make, finding in (split, "collective.split_mismatch"), (no_send, "deadlock.cross_communicator"):
        wrong += [f"{make.__name__}: {what}" for what in check_made(make, finding, sys.argv[1], *sys.argv[4:])]
    print("\n".join(wrong))
    return 1 if wrong else 0


sys.exit(main())
