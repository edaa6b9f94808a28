"""A Python program that calls NCCL through ctypes, with the named defect, if any."""
import ctypes
import os
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from torch.distributed import store  # noqa: E402 (a stand-in beside this file)

RANK, RANKS = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
BUG = sys.argv[1] if len(sys.argv) > 1 else ""
CUDA = ctypes.CDLL("libcuda.so.1")
NCCL = ctypes.CDLL(None)


class UniqueId(ctypes.Structure):
    """128 bytes, by value."""
    _fields_ = [("internal", ctypes.c_char * 128)]


def check(result):
    """Ends the program with NCCL's sentence."""
    if result != 0:
        NCCL.ncclGetLastError.restype = ctypes.c_char_p
        sys.exit(f"rank {RANK}: {result}: {NCCL.ncclGetLastError(None).decode()}")


def meet(root):
    """The id of that rank, through a file."""
    made, path = UniqueId(), f"{os.environ['MEET']}{root}"
    if RANK == root:
        check(NCCL.ncclGetUniqueId(ctypes.byref(made)))
        with open(path + ".new", "wb") as file:
            file.write(bytes(made))
        os.rename(path + ".new", path)
    while not os.path.exists(path):
        time.sleep(0.01)
    with open(path, "rb") as file:
        return UniqueId.from_buffer_copy(file.read())


def step(comm, memory, stream, op):
    """One sum."""
    count = ctypes.c_size_t(16)
    check(store.all_reduce(NCCL, memory, memory, count, 7, op, comm, stream))  # MARK op
    check(NCCL.cudaStreamSynchronize(stream))  # by the name that all link


def main():
    """Two sums with the defect between them."""
    version = ctypes.c_int()
    check(NCCL.ncclGetVersion(ctypes.byref(version)))
    comm, memory, stream = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
    check(CUDA.cudaStreamCreate(ctypes.byref(stream)))
    check(CUDA.cudaMalloc(ctypes.byref(memory), ctypes.c_size_t(64)))
    own = BUG == "worlds"  # each makes one of its own
    check(NCCL.ncclCommInitRank(ctypes.byref(comm), 1 if own else RANKS, meet(RANK if own else 0), 0 if own else RANK))
    step(comm, memory, stream, 0)
    if BUG == "left" and RANK == 1:
        sys.exit("rank 1 cannot go on")
    if BUG == "raises" and RANK == 1:  # as the Python package reports an exception that nobody caught
        NCCL.ls_client_interpreter_ends(b"ValueError: an odd batch", __file__.encode(), 62)  # MARK raises
        time.sleep(3)  # its end takes long: it is asked for its place
        sys.exit(1)
    if BUG == "exits" and RANK == 1:
        sys.exit("no batch is left")
    while BUG == "idle" and RANK == 0:
        time.sleep(100)  # MARK idle
    if BUG == "left" or (BUG == "store" and RANK != 2):
        store.wait()  # MARK store left
    step(comm, memory, stream, 2 if BUG == "op" and RANK == 1 else 0)
    check(NCCL.ncclCommDestroy(comm))


main()
