"""Rank 1 fails while the others compute, until its post-mortem is there."""
import os
import time

rank = int(os.environ["RANK"])
settings = {"rate": 0.5 * rank, "sizes": [rank, 2 * rank]}


class Counter:
    def __init__(self):
        self.count = 0


def compute(counter):
    while not os.path.exists("kept"):
        counter.count = 3
        time.sleep(0.01)


if rank == 1:
    raise ValueError("no result of rank 1")
compute(Counter())
