"""`lockstep exec --compare gloo`: compare.py LOCKSTEP. This file is the program, too: compare.py program [BUG]."""
import json
import os
import subprocess
import sys
import tempfile

RANKS = 3


def program(bug):
    import torch
    import torch.distributed as dist

    if bug:  # gloo's sums of seven elements are one too large on rank 1
        right = dist.ProcessGroupGloo.allreduce

        def wrong(self, tensors, *options):
            work = right(self, tensors, *options)
            work.wait()
            if tensors[0].numel() == 7 and dist.get_rank() == 1:
                tensors[0][2] += 1
            return work

        dist.ProcessGroupGloo.allreduce = wrong
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(rank)
    for size in (1000, 7, 7):
        dist.all_reduce(torch.randn(size))
    dist.all_reduce(torch.arange(5))
    gathered = [torch.zeros(4, 2).t() for _ in range(RANKS)]  # not contiguous
    dist.all_gather(gathered, torch.randn(2, 4))
    swapped = torch.zeros(RANKS * 3)
    work = dist.all_to_all_single(swapped, torch.randn(RANKS * 3), async_op=True)
    work.wait()
    dist.broadcast(swapped, 1)
    dist.reduce(torch.randn(9), 2)
    if rank == 0:
        dist.send(swapped, 1)
    elif rank == 1:
        dist.recv(swapped, 0)
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(20, 7))
    model(torch.randn(5, 20)).sum().backward()  # futures
    dist.all_reduce(torch.randn(11), async_op=True)  # without a wait
    dist.barrier()
    dist.destroy_process_group()


def run(lockstep, *words):
    with tempfile.TemporaryDirectory() as folder:
        report = os.path.join(folder, "report.json")
        done = subprocess.run([lockstep, "exec", "--compare", "gloo", "--start", "fork", "-n", str(RANKS), "--record",
                               os.path.join(folder, "kept"), "--json", report, "--", sys.executable,
                               os.path.abspath(__file__), "program", *words], capture_output=True, text=True, check=False)
        with open(report, encoding="utf-8") as file:
            cases = json.load(file)["cases"]
        with open(os.path.join(folder, "kept", "exec.json"), encoding="utf-8") as file:
            kept = json.load(file)
        return done, cases, kept


def main():
    lockstep = sys.argv[1]
    done, cases, kept = run(lockstep)
    print(done.stdout, done.stderr[-4000:])
    assert done.returncode == 0 and kept["backend"] == "gloo", (done.returncode, kept["backend"])
    compared = [case for case in cases if case["name"].startswith("call_")]
    classes = {case["stages"][0]["name"]: case["class"] for case in compared}
    assert all(case["verdict"] == "pass" for case in compared), classes
    sums, exact = ("within_bound", "reordered", "bit_exact"), ("bit_exact",)
    for start, allowed in (("all_reduce sum of 1000 f32", sums[:2]), ("all_reduce sum of 5 i64", exact),
                           ("all_gather of 8 f32", exact), ("all_to_all of 3 f32", exact), ("broadcast of 9 f32", exact),
                           ("reduce sum of 9 f32", sums), ("all_reduce sum of 147 f32", sums),
                           ("all_reduce sum of 11 f32", sums)):
        found = [classes[name] for name in classes if name.startswith(start)]
        assert found and found[0] in allowed, (start, found, classes)
    done, cases, _ = run(lockstep, "bug")
    failed = [case for case in cases if case["verdict"] == "fail"]
    print(done.stdout)
    assert done.returncode == 1 and [case["class"] for case in failed] == ["wrong", "wrong"], failed
    assert "the first call that is not within its bound: call_000001.safetensors, all_reduce sum of 7 f32 at compare.py:" \
        in done.stdout
    return 0


if sys.argv[1] == "program":
    program(sys.argv[2:])
else:
    sys.exit(main())
