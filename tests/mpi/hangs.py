"""What hangs as real MPI processes is explained by the simulator in less than a second:
hangs.py MPI_RANKS MPIEXEC."""
import subprocess
import sys
import time

program, mpiexec = sys.argv[1:]
BUGS = {"ring": ("4", "deadlock.cycle"), "unmatched_recv": ("2", "p2p.unmatched_recv"),
        "extra": ("4", "collective.extra_call"), "out_of_batches": ("4", "rank.exited_early"),
        "left_out_alike": ("4", "collective.missing_rank")}
DEADLINE_SECONDS = 4

for name, (ranks, finding) in BUGS.items():
    # timeout(1) ends mpiexec, which ends its processes.
    hung = subprocess.run(["timeout", "-k", "2", str(DEADLINE_SECONDS), mpiexec, "-n", ranks,
                           program, name], capture_output=True, text=True, check=False)
    if hung.returncode not in (124, 137):
        sys.exit(f"{name} does not hang under MPI: exit code {hung.returncode}\n{hung.stderr}")
    start = time.monotonic()
    told = subprocess.run([program, "explain", name], capture_output=True, text=True, check=False)
    seconds = time.monotonic() - start
    if told.returncode != 0 or finding not in told.stdout or "bugs.c:" not in told.stdout:
        sys.exit(f"{name}: {told.stdout}{told.stderr}")
    if seconds >= 1:
        sys.exit(f"{name}: explained in {seconds:.2f} s")
    print(f"{name}: hangs under MPI, explained in {seconds:.2f} s")
