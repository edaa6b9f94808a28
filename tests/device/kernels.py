"""Kernels in gdb: blocks by rank with the places where their threads wait, and a thread's frames: kernels.py BUILD SOURCE. Exit code 77: no
gdb that can run a program.
"""
import os
import shutil
import subprocess
import sys
import tempfile

WANTED = ["rank 0: circle, 1 block of 32 threads", "   block 0, thread 0: waiting for a signal or counter at hang.cu:8",
          "   block 0, threads 1-31: waiting for its block at hang.cu:8", "rank 1: circle, 1 block of 32 threads",
          "   block 0, thread 0: waiting for other ranks at hang.cu:10", "   block 0, threads 1-31: waiting for its block at hang.cu:10",
          "#0  circle at hang.cu:8", "rank 0 runs no kernel with block 0 and thread 40"]


def main():
    build, source = sys.argv[1:3]
    if shutil.which("gdb") is None:
        print("skipped: gdb is missing")
        return 77
    with tempfile.TemporaryDirectory() as folder:
        program = f"{folder}/hang"
        made = subprocess.run([f"{build}/lockstep-cuda-cc", f"{source}/cases/hang.cu", "-o", program],
                              capture_output=True, text=True)
        assert made.returncode == 0, made.stderr
        words = [f"{build}/lockstep", "gdb", "-nx", "-batch", "-ex", "set width 0", "-ex", "catch finding", "-ex", "run"]
        for command in ("kernels", "kernel-frames 0 0 0", "kernel-frames 0 0 40"):
            words += ["-ex", command]
        done = subprocess.run(words + ["--", f"{build}/lockstep", "spmd", "-n", "3", program],
                              stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if "finding deadlock.cycle" not in done.stdout and "ptrace" in done.stdout + done.stderr:
        print("skipped: gdb may not run programs")
        return 77
    lines = (done.stdout + done.stderr).split("\n")
    missing = [line for line in WANTED if line not in lines]
    print("\n".join(missing), done.stdout[-2000:] if missing else "")
    return 1 if missing else 0


sys.exit(main())
