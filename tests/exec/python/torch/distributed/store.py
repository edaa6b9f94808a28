"""Has the name of torch.distributed's own waits, by its folder."""
import os
import time


def wait():
    """Waits as for a key that is never set: asleep, as torch's store is."""
    while True:
        time.sleep(600)


def all_reduce(library, *arguments):
    """A layer between the program and NCCL, like torch."""
    return library.ncclAllReduce(*arguments)


def wait_for_file(path):
    """Waits as for a key that another rank sets later."""
    while not os.path.exists(path):
        time.sleep(0.05)
