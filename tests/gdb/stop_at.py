"""lockstep stops at an error: at a divergence that is injected into a recording or into a run's results, at a disagreement with an oracle
or a reference, and in a process that waits for a debugger: stop_at.py BUILD SOURCE. Exit code 77: no gdb, or it may not trace.
"""
import json
import os
import re
import shutil
import struct
import subprocess
import sys
import tempfile

WRAPPER = """#!/usr/bin/env bash
before=()
while [ $# -gt 0 ] && [ "$1" != --args ]; do before+=("$1"); shift; done
exec {gdb} -nx -batch "${{before[@]}}" -ex 'print $divergence_rank' -ex 'print $divergence_element' -ex rank "$@"
"""


def need(condition, text):
    if not condition:
        raise SystemExit(text)


def flip(path, key, element):
    """Flips a bit of one element of four bytes in a safetensors file."""
    with open(path, "rb") as stream:
        data = bytearray(stream.read())
    length = struct.unpack("<Q", data[:8])[0]
    offsets = json.loads(data[8:8 + length])[key]["data_offsets"]
    data[8 + length + offsets[0] + 4 * element + 2] ^= 0x40
    with open(path, "wb") as stream:
        stream.write(data)


def divergence(lockstep, source, folder):
    scenario = os.path.join(source, "scenarios/dtensor_example/every_collective.yaml")
    kept = os.path.join(folder, "kept")
    made = subprocess.run([lockstep, "record", "--quiet", "--backend", "mpi", "--out", kept, scenario],
                          capture_output=True, text=True)
    if made.returncode == 3:
        print("no MPI here: the divergence is not tested")
        return
    need(made.returncode == 0, made.stdout + made.stderr)
    part = next(os.path.join(at, name) for at, _, names in os.walk(kept) for name in names
                if name == "rank_00002.safetensors")
    flip(part, "0_all_reduce/-/-/recv", 5)
    out = stopped(lockstep, folder, "compare", "--stop-at-divergence", "--real", kept, scenario)
    need("stage 0_all_reduce is wrong: 0_all_reduce/-/-/recv, rank 2, element 5" in out, out)
    need("$1 = 2\n$2 = 5\nrank 2\n" in out, out)


def stopped(lockstep, folder, *words):
    """gdb's output when lockstep starts it with these words."""
    wrapper = os.path.join(folder, "gdb")
    with open(wrapper, "w", encoding="utf-8") as stream:
        stream.write(WRAPPER.format(gdb=shutil.which("gdb")))
    os.chmod(wrapper, 0o755)
    done = subprocess.run([lockstep, *words], env=dict(os.environ, LOCKSTEP_GDB=wrapper),
                          stdin=subprocess.DEVNULL, capture_output=True, text=True)
    need("Traceback" not in done.stdout + done.stderr, done.stderr)
    return done.stdout


def judged(lockstep, source, folder):
    """--break-on-finding stops at a disagreement with a reference, an oracle, and a check of the scenario."""
    bug = os.path.join(source, "scenarios/bugs/mean_pooling_divided_twice.yaml")
    out = stopped(lockstep, folder, "run", "--quiet", "--break-on-finding", bug)
    need("stage reference:mean of the lookup is wrong" in out and "  ours: 0.5\n  theirs: 1\n" in out, out)
    need("$1 = 0\n$2 = 0\nrank 0\n" in out, out)
    # Sums of these weights are not exact, and the scenario lets only exact ones pass.
    plain = os.path.join(source, "scenarios/sharded_embedding/row_wise.yaml")
    with open(plain, encoding="utf-8") as stream:
        text = stream.read()
    need("weights: exact" in text, "the scenario has other weights now")
    strict = os.path.join(folder, "strict.yaml")
    with open(strict, "w", encoding="utf-8") as stream:
        stream.write(re.sub("^checks:.*$", "checks: {oracle: bit_exact}", text, flags=re.M)
                     .replace("weights: exact", "weights: {normal: {std: 0.1}}")
                     .replace("pooling: none", "pooling: sum"))
    out = stopped(lockstep, folder, "run", "--quiet", "--break-on-finding", strict)
    place = re.search(r"stage (\S+) is within_bound: \S+, rank (\d+), element (\d+)\n", out)
    need(place and f"$1 = {place[2]}\n$2 = {place[3]}\nrank {place[2]}\n" in out, out)
    # Without an error there is no stop.
    out = stopped(lockstep, folder, "run", "--quiet", "--break-on-finding", plain)
    need("exited normally" in out and "$1 = void" in out, out)


def injected(lockstep, source):
    """The oracle finds gdb's own change of the run's outputs, and reports its place."""
    done = subprocess.run([lockstep, "gdb", os.path.join(source, "scenarios/sharded_embedding/row_wise.yaml"),
                           "--", "-nx", "-batch", "-ex", "catch divergence",
                           "-ex", "break ls_compare_expected", "-ex", "run",
                           "-ex", "set $at = (float *)run->entries[run->count - 1]->ranks[2].data",
                           "-ex", "set var $at[7] = $at[7] + 1", "-ex", "set $was = $at[7]",
                           "-ex", "continue", "-ex", "print $divergence_rank", "-ex", "print $divergence_element",
                           "-ex", "print $divergence_ours[7] == $was",
                           "-ex", "print $divergence_theirs[7] == $was - 1", "-ex", "rank"],
                          stdin=subprocess.DEVNULL, capture_output=True, text=True)
    need("stage output_dist is wrong" in done.stdout, done.stdout + done.stderr)
    need("$1 = 2\n$2 = 7\n$3 = 1\n$4 = 1\nrank 2\n" in done.stdout, done.stdout + done.stderr)


def attach(build, lockstep, scenario, command, *option):
    """gdb's output for a process that waits for it; None if it may not attach."""
    waiting = subprocess.Popen([lockstep, "run", "--quiet", "--wait-for-debugger", *option, scenario],
                               stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    try:
        pid = re.search(r"process (\d+) waits", waiting.stderr.readline()).group(1)
        need(int(pid) == waiting.pid, f"the process is {waiting.pid}, it says {pid}")
        done = subprocess.run(["gdb", "-nx", "-batch", "-iex",
                               f"source {os.path.join(build, 'lockstep-gdb.py')}", "-p", pid,
                               "-ex", "catch finding", "-ex", "catch divergence",
                               "-ex", "continue", "-ex", command],
                              stdin=subprocess.DEVNULL, capture_output=True, text=True)
        if "ptrace: Operation not permitted" in done.stdout + done.stderr:
            return None
        need("Traceback" not in done.stderr, done.stderr)
        return done.stdout
    finally:
        waiting.kill()
        waiting.wait()


def attached(build, lockstep, source):
    """Whether gdb may attach; a process waits at its start, at its finding, and at its divergence."""
    ring = os.path.join(source, "scenarios/bugs/ring_of_sends.yaml")
    mean = os.path.join(source, "scenarios/bugs/mean_pooling_divided_twice.yaml")
    out = attach(build, lockstep, ring, "waitgraph", "--break-on-finding")
    if out is None:
        return False
    need("circle: 0 -> 1 -> 2 -> 3 -> 0" in out, out)
    out = attach(build, lockstep, ring, "waitgraph")
    need("circle: 0 -> 1 -> 2 -> 3 -> 0" in out, out)
    out = attach(build, lockstep, mean, "print $divergence_rank", "--break-on-finding")
    need("stage reference:mean of the lookup is wrong" in out and "$1 = 0\n" in out, out)
    return True


def small(build, lockstep, folder):
    """A core file of a small program has at most 20 MB."""
    core = os.path.join(folder, "core")
    done = subprocess.run([lockstep, "gdb", "-nx", "-batch", "-ex", "catch finding", "-ex", "run", "-ex", f"generate-core-file {core}",
                           "--", os.path.join(build, "examples/pipeline"), "--bug"], stdin=subprocess.DEVNULL, capture_output=True,
                          text=True, check=False)
    need("finding deadlock.cycle" in done.stdout and os.path.exists(core), done.stdout + done.stderr)
    need(os.path.getsize(core) < 20_000_000, f"the core file has {os.path.getsize(core)} bytes")


def main():
    build, source = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
    lockstep = os.path.join(build, "lockstep")
    if shutil.which("gdb") is None or not attached(build, lockstep, source):
        print("skipped: gdb is missing or may not attach to processes")
        sys.exit(77)
    with tempfile.TemporaryDirectory() as folder:
        judged(lockstep, source, folder)
        injected(lockstep, source)
        divergence(lockstep, source, folder)
        small(build, lockstep, folder)
    print("lockstep stops where it goes wrong")


main()
