"""Ranks that connect through a store before their first call, and some that never do: start.py CASE"""
import ctypes
import os
import signal
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from torch.distributed import store  # noqa: E402 (a stand-in beside this file)

CASE, RANK = sys.argv[1], int(os.environ.get("RANK", -1))


def begin():
    """Connects like a program that will make calls."""
    version = ctypes.c_int()
    ctypes.CDLL(None).ncclGetVersion(ctypes.byref(version))


class Id(ctypes.Structure):
    _fields_ = [("internal", ctypes.c_char * 128)]


def join():
    """Makes a communicator of all ranks."""
    comm = ctypes.c_void_p()
    nccl = ctypes.CDLL(None)
    assert nccl.ncclCommInitRank(ctypes.byref(comm), 3, Id(b"world"), RANK) == 0
    assert nccl.ncclCommDestroy(comm) == 0


def main():
    """Rank 1 does the case's action; the others wait for it as for its key."""
    if CASE == "stderr":
        for i in range(20000):
            print(f"rank {RANK} line {i}", file=sys.stderr)  # two writes
        print(f"rank {RANK} says", file=sys.stderr, end=" ", flush=True)
        time.sleep(1)  # the others write their lines meanwhile
        print("two words", file=sys.stderr, flush=True)
    if CASE in ("sleeps", "launched"):
        time.sleep(1000)
    if CASE == "fails" and RANK > 0:
        raise ImportError("a module is missing")
    if CASE == "leaves" and RANK == 1:
        return
    if CASE == "killed" and RANK == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    if CASE == "alone" and RANK == 1:
        sys.exit("the others do not need it")
    begin()
    if CASE == "slow":  # the others wait for it in the store, and then for it to join
        if RANK == 1:
            time.sleep(2)
            with open(os.environ["MEET"], "w", encoding="utf-8"):
                pass
            time.sleep(2.5)
        else:
            store.wait_for_file(os.environ["MEET"])
        join()
    if CASE in ("fails", "leaves", "killed"):
        store.wait()  # MARK wait


main()
