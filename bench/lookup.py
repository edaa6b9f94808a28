#!/usr/bin/env python3
"""Pooled lookups of torch and FBGEMM on the CPU beside lockstep's: lookup.py [LOCKSTEP]

Needs torch and fbgemm-gpu-cpu (pip); lockstep itself needs neither. All take the sizes of
`lockstep bench --lookup`: 1,000,000 rows of 128, 4,096 bags of 20 uniform ids, four sets of ids by
turns. They run by turns, so that all see the same machine. Processor time of all threads together:
the mean of a turn's calls, since the kernel adds a thread's time late, and the least of the turns.
The bare read is lockstep's: a word of each cache line of such rows, and no sum.
"""
import json
import subprocess
import sys
import time

import torch
from fbgemm_gpu.split_embedding_configs import SparseType
from fbgemm_gpu.split_table_batched_embeddings_ops_common import EmbeddingLocation, PoolingMode
from fbgemm_gpu.split_table_batched_embeddings_ops_inference import (
    IntNBitTableBatchedEmbeddingBagsCodegen)
from fbgemm_gpu.split_table_batched_embeddings_ops_training import (
    ComputeDevice, OptimType, SplitTableBatchedEmbeddingBagsCodegen)

ROWS, DIM, BAGS, LENGTH, TURNS, STEPS, SETS = 1_000_000, 128, 4096, 20, 5, 100, 4


def lockstep_ms(program, dtype, threads):
    done = subprocess.run(
        [program, "bench", "--lookup", "--dtype", dtype, "--threads", str(threads),
         "--repetitions", str(STEPS), "--json", "-"], capture_output=True, text=True, check=True)
    row = json.loads(done.stdout)["rows"][0]
    return row["time_ms_min"], row["time_ms_min"] / row["ratio"]


def peers():
    weights = torch.rand(ROWS, DIM) - 0.5
    bag = torch.nn.EmbeddingBag(ROWS, DIM, mode="sum", _weight=weights)
    fused = SplitTableBatchedEmbeddingBagsCodegen(
        [(ROWS, DIM, EmbeddingLocation.HOST, ComputeDevice.CPU)],
        optimizer=OptimType.EXACT_ROWWISE_ADAGRAD, pooling_mode=PoolingMode.SUM)
    narrow = IntNBitTableBatchedEmbeddingBagsCodegen(
        [("t", ROWS, DIM, SparseType.INT8, EmbeddingLocation.HOST)], device="cpu",
        pooling_mode=PoolingMode.SUM, output_dtype=SparseType.FP32)
    narrow.fill_random_weights()
    starts = torch.arange(BAGS, dtype=torch.int64) * LENGTH
    offsets = torch.arange(BAGS + 1, dtype=torch.int64) * LENGTH
    narrow_offsets = offsets.to(torch.int32)
    return {
        "f32": {"torch": lambda ids: bag(ids, starts), "fbgemm": lambda ids: fused(ids, offsets)},
        "int8": {"fbgemm": lambda ids: narrow(ids.to(torch.int32), narrow_offsets)},
    }


def main():
    program = sys.argv[1] if len(sys.argv) > 1 else "build/lockstep"
    by_type = peers()
    sets = [torch.randint(ROWS, (BAGS * LENGTH,)) for _ in range(SETS)]
    for dtype, calls in by_type.items():
        for threads in (1, 2):
            torch.set_num_threads(threads)
            times = {name: [] for name in (*calls, "lockstep", "bare read")}
            for _ in range(TURNS):
                for name, call in calls.items():
                    with torch.no_grad():
                        call(sets[0])
                        start = time.process_time()
                        for step in range(STEPS):
                            call(sets[step % SETS])
                        times[name].append((time.process_time() - start) * 1e3 / STEPS)
                for name, ms in zip(("lockstep", "bare read"),
                                    lockstep_ms(program, dtype, threads)):
                    times[name].append(ms)
            best = min(min(times[name]) for name in calls)
            text = ", ".join(f"{name} {min(of):.2f}" for name, of in times.items())
            print(f"{dtype}, {threads} threads, least ms of processor time: {text}; "
                  f"lockstep is {best / min(times['lockstep']):.2f} times as fast as the better")


main()
