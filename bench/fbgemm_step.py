#!/usr/bin/env python3
"""FBGEMM's CPU training step beside lockstep's: fbgemm_step.py [LOCKSTEP]

Needs torch and fbgemm-gpu-cpu (pip); lockstep itself needs neither. Both take two threads and the
sizes of `lockstep bench --only training`: 1,000,000 rows of 128 f32, 4,096 bags of 20 ids by Zipf's
law (1.05), sum, exact row-wise adagrad. They run by turns, so that both see the same machine.
"""
import json
import subprocess
import sys
import time

import numpy as np
import torch
from fbgemm_gpu.split_table_batched_embeddings_ops_common import EmbeddingLocation, PoolingMode
from fbgemm_gpu.split_table_batched_embeddings_ops_training import (
    ComputeDevice, OptimType, SplitTableBatchedEmbeddingBagsCodegen)

ROWS, DIM, BAGS, LENGTH, TURNS, STEPS = 1_000_000, 128, 4096, 20, 5, 10


def lockstep_ms(program):
    done = subprocess.run([program, "bench", "--only", "training", "--repetitions", str(STEPS),
                           "--json", "-"], capture_output=True, text=True, check=False)
    rows = [r for r in json.loads(done.stdout)["rows"] if r["suite"] == "training"]
    return rows[0]


def fbgemm_step():
    torch.set_num_threads(2)
    table = SplitTableBatchedEmbeddingBagsCodegen(
        [(ROWS, DIM, EmbeddingLocation.HOST, ComputeDevice.CPU)],
        optimizer=OptimType.EXACT_ROWWISE_ADAGRAD, learning_rate=0.01, eps=1e-8,
        stochastic_rounding=False, pooling_mode=PoolingMode.SUM)
    table.init_embedding_weights_uniform(-0.5, 0.5)
    share = np.cumsum(np.arange(1, ROWS + 1, dtype=np.float64) ** -1.05)
    drawn = np.searchsorted(share, np.random.default_rng(1).random(BAGS * LENGTH) * share[-1])
    ids = torch.from_numpy(drawn.astype(np.int64) * 7919 % ROWS)
    offsets = torch.arange(BAGS + 1, dtype=torch.int64) * LENGTH
    gradient = torch.rand(BAGS, DIM) - 0.5

    def step():
        table(ids, offsets).backward(gradient)

    return step, len(np.unique(drawn))


def main():
    program = sys.argv[1] if len(sys.argv) > 1 else "build/lockstep"
    step, rows = fbgemm_step()
    step()
    theirs, ours, row = [], [], {}
    for _ in range(TURNS):
        for _ in range(STEPS):
            start = time.perf_counter()
            step()
            theirs.append((time.perf_counter() - start) * 1e3)
        row = lockstep_ms(program)
        ours.append(row["time_ms_min"])
    print(f"{rows} distinct rows of {BAGS * LENGTH} ids, two threads, ms a step")
    print(f"fbgemm    least {min(theirs):8.2f}  median {np.median(theirs):8.2f}")
    print(f"lockstep  least {min(ours):8.2f}  last run {row['time_ms']:8.2f}, "
          f"{row['ratio']:.2f} times a memcpy of what has to move")
    print(f"lockstep takes {min(ours) / min(theirs):.2f} of fbgemm's time")


main()
