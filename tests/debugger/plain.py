"""Ranks that make no call."""
import os

rank = int(os.environ["RANK"])


def weighted(count):
    total = 0
    for i in range(count):
        total += i * rank
    return total


def work():
    a = weighted(3)
    b = weighted(4)
    if rank == 2:
        breakpoint()
    return {"sum": a + b, "parts": [a, b]}


result = work()
if rank == 1:
    raise ValueError("no result of rank 1")
