"""Seconds of an all_reduce by size: speed.py BACKEND. Rank 0 prints a line for each."""
import os
import sys
import time

import torch
import torch.distributed as dist

RANK = int(os.environ["RANK"])
LOCAL = int(os.environ.get("LOCAL_RANK", RANK)) % torch.cuda.device_count()


def main():
    backend = sys.argv[1]
    torch.cuda.set_device(LOCAL)
    dist.init_process_group(backend)
    for bytes_ in (1 << 10, 64 << 10, 1 << 20, 16 << 20, 128 << 20):
        x = torch.ones(bytes_ // 4, device="cuda")
        times = []
        for _ in range(8):
            dist.barrier()
            torch.cuda.synchronize()
            began = time.perf_counter()
            dist.all_reduce(x)
            torch.cuda.synchronize()
            times.append(time.perf_counter() - began)
        if RANK == 0:
            print(f"speed {backend:5} {bytes_ >> 10:7} KiB {sorted(times)[3] * 1e3:9.3f} ms",
                  flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
