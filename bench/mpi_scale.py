#!/usr/bin/env python3
"""The cost of many ranks of MPI programs: a ring and a loop of MPI_Allreduce, time and memory, beside
SimGrid's SMPI in the same run where its smpicc is there.

    bench/mpi_scale.py [--build build] [--ranks 1024] [--rounds 10]

Both programs check their results. Time is of the whole command, starting included; memory is the
most that its largest process had at a time.
"""
import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time

# A number goes once around the ring in each round, and every rank adds one.
RING = """
#include <mpi.h>
#include <stdlib.h>
int main(int argc, char **argv) {
    int rank, size, token = 0, rounds = atoi(argv[1]);
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    for (int i = 0; i < rounds; i++) {
        if (rank > 0) {
            MPI_Recv(&token, 1, MPI_INT, rank - 1, i, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        }
        token += 1;
        MPI_Send(&token, 1, MPI_INT, (rank + 1) % size, i, MPI_COMM_WORLD);
        if (rank == 0) {
            MPI_Recv(&token, 1, MPI_INT, size - 1, i, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        }
    }
    if (rank == 0 && token != rounds * size) {
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    MPI_Finalize();
    return 0;
}
"""
ALLREDUCE = """
#include <mpi.h>
#include <stdlib.h>
int main(int argc, char **argv) {
    int rank, size, rounds = atoi(argv[1]);
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    for (int i = 0; i < rounds; i++) {
        double mine[16], sum[16];
        for (int k = 0; k < 16; k++) {
            mine[k] = rank + i + k;
        }
        MPI_Allreduce(mine, sum, 16, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
        for (int k = 0; k < 16; k++) {
            if (sum[k] != size * ((size - 1) / 2.0 + i + k)) {
                MPI_Abort(MPI_COMM_WORLD, 1);
            }
        }
    }
    MPI_Finalize();
    return 0;
}
"""


def measure(command):
    """(seconds, MiB, whether it went well)."""
    started = time.time()
    child = os.posix_spawnp(command[0], command, os.environ, file_actions=[
        (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0),
        (os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0)])
    _, status, used = os.wait4(child, 0)
    return time.time() - started, used.ru_maxrss / 1024, status == 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--build", default="build")
    parser.add_argument("--ranks", type=int, default=1024)
    parser.add_argument("--rounds", type=int, default=10)
    options = parser.parse_args()
    build, failed = os.path.abspath(options.build), 0
    with tempfile.TemporaryDirectory(prefix="lockstep-scale-") as folder:
        platform = os.path.join(folder, "cluster.xml")
        with open(platform, "w", encoding="utf-8") as out:
            out.write("<?xml version='1.0'?><!DOCTYPE platform SYSTEM "
                      '"https://simgrid.org/simgrid.dtd"><platform version="4.1"><cluster id="c" '
                      f'prefix="n-" radical="0-{options.ranks - 1}" suffix="" speed="1Gf" '
                      'bw="125MBps" lat="50us"/></platform>')
        tools = [("lockstep", [os.path.join(build, "lockstep-cc")],
                  [os.path.join(build, "lockstep"), "mpi", "--deadline", "0", "-n"], ["--"])]
        if shutil.which("smpicc"):
            tools.append(("SMPI", ["smpicc"], ["smpirun", "-platform", platform, "-np"], []))
        print(f"{options.ranks} ranks, {options.rounds} rounds\n"
              f"{'program':10} {'tool':10} {'seconds':>8} {'MiB':>8}")
        for name, source in (("ring", RING), ("allreduce", ALLREDUCE)):
            path = os.path.join(folder, name + ".c")
            with open(path, "w", encoding="utf-8") as out:
                out.write(source)
            for tool, compiler, start, before in tools:
                program = os.path.join(folder, f"{name}-{tool}")
                subprocess.run([*compiler, "-O1", path, "-o", program], check=True)
                seconds, size, well = measure([*start, str(options.ranks), program, *before,
                                               str(options.rounds)])
                failed += not well
                print(f"{name:10} {tool:10} {seconds:8.2f} {size:8.0f}"
                      f"{'' if well else '  failed'}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
