"""Milliseconds of collectives by the bytes of each rank: speed.py BACKEND [MOST_MIB]. Rank 0 prints a line for each."""
import os
import sys
import time

import torch
import torch.distributed as dist

RANK, RANKS = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
LOCAL = int(os.environ.get("LOCAL_RANK", RANK)) % torch.cuda.device_count()
SIZES = [kib << 10 for kib in (1, 64, 256, 1 << 10, 4 << 10, 16 << 10, 128 << 10, 256 << 10)]


def gather(parts, mine):
    if dist.get_backend() == "gloo":
        dist.all_gather(list(parts.chunk(RANKS)), mine)
    else:
        dist.all_gather_into_tensor(parts, mine)


CALLS = {
    "all_reduce": lambda mine, _: dist.all_reduce(mine),
    "all_gather": lambda mine, parts: gather(parts, mine),
    "reduce_scatter": lambda mine, parts: dist.reduce_scatter_tensor(parts[:mine.numel() // RANKS],
                                                                     mine),
    "all_to_all": lambda mine, parts: dist.all_to_all_single(parts[:mine.numel()], mine),
}


def main():
    backend, most = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 256
    torch.cuda.set_device(LOCAL)
    dist.init_process_group(backend)
    for name, call in CALLS.items():
        if name == "reduce_scatter" and backend == "gloo":
            continue  # it has none
        for bytes_ in (size for size in SIZES if size <= most << 20):
            times = []
            parts = torch.empty(bytes_ // 4 * RANKS, device="cuda")
            for _ in range(7):
                mine = torch.randn(bytes_ // 4, device="cuda")
                dist.barrier()
                torch.cuda.synchronize()
                began = time.perf_counter()
                call(mine, parts)
                torch.cuda.synchronize()
                times.append(time.perf_counter() - began)
            if RANK == 0:
                print(f"speed {backend:5} {name:14} {bytes_ >> 10:7} KiB "
                      f"{sorted(times)[3] * 1e3:9.3f} ms", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
