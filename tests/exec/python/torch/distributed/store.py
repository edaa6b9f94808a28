"""Stands where torch.distributed's own waits are: the folder's name says so."""
import os
import time


def wait():
    """As for a key that nobody sets."""
    while True:
        time.sleep(0.05)


def all_reduce(library, *arguments):
    """A layer between the program and NCCL, as torch is one."""
    return library.ncclAllReduce(*arguments)


def wait_for_file(path):
    """As for a key that another rank sets later."""
    while not os.path.exists(path):
        time.sleep(0.05)
