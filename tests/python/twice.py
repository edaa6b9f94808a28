"""`lockstep exec --compare gloo` of programs whose two runs are equal or differ: twice.py LOCKSTEP. This file is the program, too: twice.py
program NAME.
"""
import json
import os
import sys
import tempfile
import time

RANKS = {"right": 3}  # of the others: 2


def program(name):
    import torch
    import torch.distributed as dist

    rank, ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    again = os.environ.get("LOCKSTEP_EXEC_REAL") == "gloo"  # the second run; programs of users have marker files
    dist.init_process_group("gloo")
    pair = dist.new_group([0, 1])
    x = torch.arange(4.0) + rank
    if name == "calls":
        for _ in range(1 if again else 3):
            dist.all_reduce(x, op=dist.ReduceOp.MAX if again else dist.ReduceOp.SUM)
    elif name == "none" and not again:
        dist.broadcast(x, 0)
    elif name == "group":
        dist.all_reduce(x)
        dist.all_reduce(x, group=pair)
        if again:
            dist.broadcast(x, 0, group=pair)
    elif name == "inputs":
        dist.broadcast(x, 0)
        dist.all_reduce(x * (5 if again and rank == 1 else 1))
    elif name == "message":
        if rank == 0:
            dist.send(x + (1 if again else 0), 1)
        else:
            dist.recv(x, 0)
    elif name == "uneven":
        splits = [1, 3]
        dist.all_to_all_single(torch.zeros(splits[rank] * ranks), x * (2 if again else 1), [splits[rank]] * ranks, splits)
    elif name == "time":
        torch.manual_seed(time.time_ns())
        for _ in range(2):
            dist.all_reduce(torch.randn(50))
    elif name == "barriers":
        dist.barrier()
    elif name == "right":  # sums in another order, and all results that follow
        torch.manual_seed(1)
        model = torch.nn.parallel.DistributedDataParallel(torch.nn.Sequential(torch.nn.Linear(33, 17), torch.nn.Linear(17, 5)))
        sgd = torch.optim.SGD(model.parameters(), 0.1)
        torch.manual_seed(rank)
        for _ in range(5):
            sgd.zero_grad()
            model(torch.randn(7, 33)).square().sum().backward()
            sgd.step()
        dist.all_gather_object([None] * ranks, {"rank": rank})
        splits = [1, 2, 1]
        dist.all_to_all_single(torch.zeros(splits[rank] * ranks), x, [splits[rank]] * ranks, splits)
        dist.all_reduce(torch.sparse_coo_tensor([[rank]], [1.0], (5,), check_invariants=True))
        requests = [dist.P2POp(dist.isend, x, (rank + 1) % ranks), dist.P2POp(dist.irecv, torch.zeros(4), (rank - 1) % ranks)]
        for request in dist.batch_isend_irecv(requests):
            request.wait()
        if rank == 0:
            for _ in range(2):
                dist.recv(x)  # from any source
        else:
            time.sleep(0.2 * (rank if again else 3 - rank))
            dist.send(x * rank, 0)
    dist.destroy_process_group()


def run(forks, lockstep, name):
    with tempfile.TemporaryDirectory() as folder:
        report = os.path.join(folder, "report.json")
        done = forks.run([lockstep, "exec", "--compare", "gloo", "--start", "fork", "-n", str(RANKS.get(name, 2)), "--json", report], ["program", name])
        print(f"---- {name}: exit code {done.returncode}\n{done.stdout}{done.stderr[-3000:]}", flush=True)
        with open(report, encoding="utf-8") as file:
            cases = json.load(file)["cases"]
        return done, cases, [found for case in cases for found in case.get("findings", [])]


def lines_of(text):
    with open(os.path.abspath(__file__), encoding="utf-8") as file:
        return [number for number, line in enumerate(file, 1) if text in line and "lines_of" not in line]


def main():
    sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../forks"))
    from forks import Forks

    lockstep, forks = os.path.abspath(sys.argv[1]), Forks(os.path.abspath(__file__))
    sums = lines_of("dist.all_reduce(x, op=")
    for name, first, second in (("calls", "all_reduce sum of 4 f32 on world", "all_reduce max of 4 f32 on world"),
                                ("none", "broadcast of 4 f32, root 0 on world", "no such call"),
                                ("group", "no such call", "broadcast of 4 f32, root 0 on group")):
        done, _, found = run(forks, lockstep, name)
        assert done.returncode == 1 and [each["id"] for each in found] == ["runs.calls_differ"], (name, found)
        text = found[0]["text"]
        assert f"the first run: {first}" in text and f"on gloo: {second}" in text, text
        assert name != "calls" or text.count(f"twice.py:{sums[0]}") == 2, text
    for name, ranks, call in (("inputs", [1], 1), ("message", [0], 0), ("uneven", [0], 0), ("time", [0], 0)):
        done, cases, found = run(forks, lockstep, name)
        assert done.returncode == 1 and [each["id"] for each in found] == ["runs.inputs_differ"], (name, found)
        assert found[0]["ranks"] == ranks and f"in its call {call}," in found[0]["text"], found
        assert all(case["class"] != "wrong" for case in cases), (name, cases)
    done, cases, found = run(forks, lockstep, "barriers")
    assert done.returncode == 5 and all(case["verdict"] != "fail" for case in cases) and not found, cases
    done, cases, found = run(forks, lockstep, "right")
    assert done.returncode == 0 and not found, found
    both = next(case for case in cases if case["name"].endswith("both runs"))
    assert {stage["name"] for stage in both["stages"]} == {"what ranks sent", "what messages and uneven calls gave"}, both
    assert "not compared: 2 receives from any rank" in done.stdout and "follow from a sum in another order" in done.stdout
    return 0


if sys.argv[1] == "program":
    program(sys.argv[2])
else:
    sys.exit(main())
