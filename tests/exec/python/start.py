"""Ranks that meet in a store before their first call, and some that never get there: start.py CASE"""
import ctypes
import os
import signal
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from torch.distributed import store  # noqa: E402 (a stand-in beside this file)

CASE, RANK = sys.argv[1], int(os.environ.get("RANK", -1))


def begin():
    """Connects, as a program does that will make calls."""
    version = ctypes.c_int()
    ctypes.CDLL(None).ncclGetVersion(ctypes.byref(version))


def main():
    """Rank 1 does what the case says; the others wait for it where they would for its key."""
    if CASE == "stderr":
        for i in range(20000):
            print(f"rank {RANK} line {i}", file=sys.stderr)
    if CASE in ("sleeps", "launched"):
        time.sleep(1000)
    if CASE == "fails" and RANK == 1:
        raise ImportError("a module is missing")
    if CASE == "leaves" and RANK == 1:
        return
    if CASE == "killed" and RANK == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    if CASE == "alone" and RANK == 1:
        sys.exit("the others do not need it")
    begin()
    if CASE == "slow":
        store.wait_for_file(os.environ["MEET"]) if RANK != 1 else time.sleep(4)
        with open(os.environ["MEET"], "w", encoding="utf-8"):
            pass
    if CASE in ("fails", "leaves", "killed"):
        store.wait()  # MARK wait


main()
