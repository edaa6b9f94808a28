"""Collectives on lists of tensors, with blocks anywhere in memory: blocks.py LOCKSTEP runs itself under `lockstep exec`, with correct lists
and with lists whose blocks share memory.
"""
import json
import os
import sys
import tempfile

RANKS = 3


def right(dist, torch, rank):
    """Lists whose blocks are in any order, around the tensor, in one storage, or are the rank's own tensor."""
    memory = torch.arange(12.0 * RANKS)
    mine, ends = memory[12:16], [memory[0:4], memory[4:8], memory[8:12]]
    dist.all_gather(ends[::-1], mine)
    dist.all_gather([memory[0:4], mine, memory[4:8]] if rank == 1 else ends, mine)  # the second is its own on rank 1
    dist.reduce_scatter(mine, ends)
    dist.reduce_scatter(ends[rank], ends)
    dist.all_to_all(ends, list(memory[16:28].chunk(RANKS)))
    columns, rows = torch.ones(4, 2 * RANKS), torch.zeros(RANKS, 4)
    dist.all_to_all(list(rows), [columns[:, at].contiguous() for at in range(RANKS)])
    dist.all_gather(list(columns[:, :RANKS].t()), rows[rank])
    dist.all_gather(list(rows), columns[:, 1])
    dist.broadcast(columns.t(), 0)
    for root in range(RANKS):
        dist.gather(mine, [*ends[:root], mine, *ends[root + 1:]] if rank == root else None, dst=root)
        dist.scatter(mine, [*ends[:root], mine, *ends[root + 1:]] if rank == root else None, src=root)
        dist.scatter(ends[0], list(memory[16:28].chunk(RANKS)) if rank == root else None, src=root)
    uneven = [torch.zeros(at) for at in range(RANKS)]
    dist.all_gather(uneven, torch.ones(rank))
    dist.all_gather([torch.zeros(0)] * RANKS, torch.zeros(0))
    objects = [None] * RANKS
    dist.all_gather_object(objects, {"rank": rank})
    assert [one["rank"] for one in objects] == list(range(RANKS))


def twice(dist, torch, rank):
    dist.all_gather([torch.zeros(4)] * RANKS if rank == 1 else list(torch.zeros(RANKS, 4)), torch.ones(4))  # MARK twice
    rows = torch.ones(3, 4)  # from here on where the call before is not checked
    dist.all_reduce(rows[:, 1] if rank == 2 else rows[0, :3])  # MARK gaps


def twice_turned(dist, torch, rank):
    block = torch.zeros(2, 4).t()
    dist.all_gather([block] * RANKS if rank == 1 else list(torch.zeros(RANKS, 4, 2)), torch.ones(4, 2))  # MARK twice_turned


def partly(dist, torch, rank):
    memory = torch.zeros(3 * RANKS + 1)
    step = 3 if rank == 1 else 2
    blocks = [memory[step * at:step * at + 3] for at in range(RANKS)] if rank != 1 else list(torch.zeros(RANKS, 3))
    dist.all_gather(blocks, torch.ones(3))  # MARK partly


def crossed(dist, torch, rank):
    blocks = list(torch.zeros(RANKS, 4))
    dist.all_to_all(blocks, blocks[::-1])  # MARK crossed


def scattered(dist, torch, rank):
    blocks = list(torch.zeros(RANKS, 4))
    dist.scatter(blocks[1] if rank == 0 else torch.zeros(4), blocks if rank == 0 else None, src=0)  # MARK scattered


WRONG = {  # the ranks at fault, and the text
    "twice": ([1], "block 0 of what it receives shares memory with block 1 of what it receives"),
    "twice_turned": ([1], "block 0 of what it receives shares memory with block 1 of what it receives"),
    "partly": ([0, 2], "block 0 of what it receives shares memory with block 1 of what it receives"),
    "crossed": ([0, 1, 2], "of what it sends shares memory with block"),
    "scattered": ([0], "block 1 of what it sends shares memory with block 0 of what it receives"),
}


def program(name):
    import torch
    import torch.distributed as dist

    dist.init_process_group("gloo")
    globals()[name](dist, torch, dist.get_rank())
    dist.barrier()


def run(forks, lockstep, name, *options):
    with tempfile.TemporaryDirectory() as folder:
        report = os.path.join(folder, "report.json")
        done = forks.run([lockstep, "exec", "-n", str(RANKS), "--json", report, *options], ["--program", name])
        with open(report, encoding="utf-8") as file:
            return done, json.load(file)["cases"][0]["findings"]


def line_of(lines, name):
    return next(at for at, text in enumerate(lines, 1) if text.endswith(f"# MARK {name}"))


def main(lockstep):
    sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../forks"))
    from forks import Forks

    forks, failed = Forks(__file__), []
    for options in ((), ("--checks", "all,-handle.leak")):
        done, findings = run(forks, lockstep, "right", *options)
        if done.returncode != 0 or findings:
            failed.append(f"right {options}: {done.stdout}{done.stderr}")
    with open(__file__, encoding="utf-8") as file:
        lines = file.read().splitlines()
    for name, (ranks, said) in WRONG.items():
        line = line_of(lines, name)
        done, findings = run(forks, lockstep, name)
        found = findings[0] if findings else {"id": None, "ranks": [], "text": "", "where": ""}
        if found["id"] != "buffer.overlap" or found["ranks"][0] not in ranks or said not in found["text"] or \
                found["where"] != f"{os.path.abspath(__file__)}:{line}":
            failed.append(f"{name}: {found}\n{done.stdout}{done.stderr}")
    done, findings = run(forks, lockstep, "twice", "--checks", "-buffer.overlap")
    if [(one["id"], one["where"]) for one in findings] != [("call.invalid", f"{os.path.abspath(__file__)}:{line_of(lines, 'gaps')}")] or \
            "of sizes [3] and strides [4], which has gaps" not in findings[0]["text"]:
        failed.append(f"twice, not checked: {done.stdout}{done.stderr}")
    print("\n".join(failed))
    return min(len(failed), 1)


if __name__ == "__main__":
    sys.exit(program(sys.argv[2]) if sys.argv[1] == "--program" else main(os.path.abspath(sys.argv[1])))
