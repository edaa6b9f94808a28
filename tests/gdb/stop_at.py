"""lockstep stops where it goes wrong: at a divergence that is planted into a recording, and in a process
that waits for a debugger: stop_at.py BUILD SOURCE. Exit code 77: no gdb, or it may not trace."""
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
                          capture_output=True, text=True, timeout=100)
    if made.returncode == 3:
        print("no MPI here: the divergence is not tested")
        return
    need(made.returncode == 0, made.stdout + made.stderr)
    part = next(os.path.join(at, name) for at, _, names in os.walk(kept) for name in names
                if name == "rank_00002.safetensors")
    flip(part, "0_all_reduce/-/-/recv", 5)
    wrapper = os.path.join(folder, "gdb")
    with open(wrapper, "w", encoding="utf-8") as stream:
        stream.write(WRAPPER.format(gdb=shutil.which("gdb")))
    os.chmod(wrapper, 0o755)
    out = subprocess.run([lockstep, "compare", "--stop-at-divergence", "--real", kept, scenario],
                         env=dict(os.environ, LOCKSTEP_GDB=wrapper), stdin=subprocess.DEVNULL,
                         capture_output=True, text=True, timeout=100).stdout
    need("stage 0_all_reduce is wrong: 0_all_reduce/-/-/recv, rank 2, element 5" in out, out)
    need("$1 = 2\n$2 = 5\nrank 2\n" in out, out)


def attach(build, lockstep, source):
    scenario = os.path.join(source, "scenarios/bugs/ring_of_sends.yaml")
    waiting = subprocess.Popen([lockstep, "run", "--quiet", "--break-on-finding",
                                "--wait-for-debugger", scenario],
                               stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    try:
        pid = re.search(r"process (\d+) waits", waiting.stderr.readline()).group(1)
        done = subprocess.run(["gdb", "-nx", "-batch", "-iex",
                               f"source {os.path.join(build, 'lockstep-gdb.py')}", "-p", pid,
                               "-ex", "catch finding", "-ex", "continue", "-ex", "waitgraph"],
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=100)
        if "ptrace: Operation not permitted" in done.stdout + done.stderr:
            return False
        need("circle: 0 -> 1 -> 2 -> 3 -> 0" in done.stdout, done.stdout + done.stderr)
        return True
    finally:
        waiting.kill()
        waiting.wait()


def main():
    build, source = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
    lockstep = os.path.join(build, "lockstep")
    if shutil.which("gdb") is None or not attach(build, lockstep, source):
        print("skipped: gdb is missing or may not attach to processes")
        sys.exit(77)
    with tempfile.TemporaryDirectory() as folder:
        divergence(lockstep, source, folder)
    print("lockstep stops where it goes wrong")


main()
