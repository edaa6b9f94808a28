"""Every collective, type and operation on numbers whose sums depend on their order. Each rank prints a hash of all its results: equal for
--device host and --device cuda, on one GPU and on several.
"""
import hashlib
import os

import torch
import torch.distributed as dist

RANK, RANKS = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
LOCAL = int(os.environ.get("LOCAL_RANK", RANK)) % torch.cuda.device_count()
FLOATS = (torch.float32, torch.bfloat16, torch.float16, torch.float64)
INTEGERS = (torch.int64, torch.int32, torch.uint8, torch.int8)
OPERATIONS = (dist.ReduceOp.SUM, dist.ReduceOp.PRODUCT, dist.ReduceOp.MAX, dist.ReduceOp.MIN,
              dist.ReduceOp.AVG)


def results(mine):
    """This rank's results of the calls."""
    for operation in OPERATIONS if mine.dtype.is_floating_point else OPERATIONS[:4]:
        out = mine.clone()
        dist.all_reduce(out, operation)
        yield out
        out = mine[:mine.numel() // RANKS].clone()
        dist.reduce_scatter_tensor(out, mine, operation)
        yield out
        out = mine.clone()
        dist.reduce(out, 1, operation)
        yield out if RANK == 1 else mine
    out = mine.repeat(RANKS)
    dist.all_gather_into_tensor(out, mine)
    yield out
    out = mine.clone()
    dist.all_to_all_single(out, mine)
    yield out
    out = mine.clone()
    dist.broadcast(out, RANKS - 1)
    yield out
    if RANK == 0:
        dist.send(mine, 1)
    if RANK == 1:
        dist.recv(out, 0)
    yield out


def main():
    torch.cuda.set_device(LOCAL)
    dist.init_process_group("nccl")
    generator = torch.Generator(device="cuda").manual_seed(100 + RANK)
    found = hashlib.sha256()
    for count in (1000, 262152, 3000000):
        for dtype in FLOATS + INTEGERS:
            mine = torch.randn(count, generator=generator, device="cuda", dtype=torch.float64)
            mine = (mine if dtype.is_floating_point else mine * 20).to(dtype)
            for out in results(mine):
                found.update(out.contiguous().view(torch.uint8).cpu().numpy().tobytes())
    print(f"bits of rank {RANK}: {found.hexdigest()[:16]}\n", end="", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
