"""Runs parts of the table: a call on a mesh with its combinations, in threads, or combinations in gloo processes."""

import datetime
import json
import os
import select
import signal
import time
import warnings

import torch

from lockstep.rules import inputs, judge

SILENT_SECONDS = 120  # a part without output for this long is stopped: it loops in torch
GLOO_SECONDS = 120  # of one wait; processes on a busy machine are late and do not hang
CONNECT_SECONDS = 20  # of a start, which is retried
GLOO_STARTS = 10


def quiet():
    """Silences torch's warnings about tables of unusual calls. Imports here what DTensor imports at its first use, so that children inherit
    it.
    """
    import importlib
    import logging

    importlib.import_module("torch._dynamo")
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    torch.set_num_threads(1)


def _meshes(shape):
    from torch.distributed.device_mesh import init_device_mesh

    return init_device_mesh("cpu", shape)


class Threads:
    """Worlds of this process, created at their first use."""

    def __init__(self):
        self.worlds, self.meshes = {}, {}

    def judge(self, reference, placements, shape, backward):
        """(verdict, kind, sentence, placements of the results)"""
        return judge.together(self.each(shape, lambda mesh: judge.judge_rank(reference, placements, mesh, backward)))

    def each(self, shape, job):
        """Of each rank the outcome of job(mesh)."""
        from lockstep.rules import threads

        count = torch.Size(shape).numel()
        if count not in self.worlds:
            self.worlds[count] = threads.World(count)
        world = self.worlds[count]
        if shape not in self.meshes:
            made = world.freely(lambda rank: _meshes(shape))
            assert all(kind == "value" for kind, _ in made), made
            self.meshes[shape] = [mesh for _, mesh in made]
        return world.run(lambda rank: job(self.meshes[shape][rank]))


def record(call, shape, placements, backward, verdict):
    row = {"name": call.name, "call": call.key(), "mesh": list(shape), "placements": [list(p) for p in placements],
           "pass": "backward" if backward else "forward", "verdict": verdict[0]}
    for key, value in zip(("kind", "text", "result"), verdict[1:]):
        if value:
            row[key] = value
    return row


def key_of(row):
    places = [".".join(p) for p in row["placements"]]
    return f"{row['call']} | {'x'.join(map(str, row['mesh']))} | {' '.join(places)} | {row['pass']}"


def unit(threads, call, shape, settings, done):
    """Rows of a call on a mesh. done: rows of an earlier run, by key."""
    reference = judge.Reference(call, settings["seed"])
    if reference.why is not None:
        yield {"name": call.name, "call": call.key(), "verdict": "skipped", "text": reference.why[:300]}
        return
    threads.each(shape, lambda mesh: judge.forget())
    most = settings["in_place"] if len(shape) == 1 and shape[0] == 2 and judge.changes(call.source) else settings["most"][shape]
    for placements in inputs.combinations(call, reference.wholes, shape, most, settings["seed"]):
        for backward in (False, True):
            if backward and reference.gradients is None:
                continue
            row = done.get(key_of(record(call, shape, placements, backward, ("",))))
            if row is None:
                row = record(call, shape, placements, backward, threads.judge(reference, placements, shape, backward))
                yield row
            if row["verdict"] != "right":
                break


# ---- Processes ----
def forked(work):
    """A child that runs work(write) and writes lines; (its process, the end to read)."""
    reader, writer = os.pipe()
    child = os.fork()
    if child:
        os.close(writer)
        return child, reader
    try:
        os.close(reader)
        parent = os.getppid()
        from lockstep.starting import end_with

        end_with(parent)
        quiet()
        with os.fdopen(writer, "w") as stream:
            def write(value):
                stream.write(json.dumps(value) + "\n")
                stream.flush()

            work(write)
    except BaseException:
        import traceback

        traceback.print_exc()
        os._exit(1)
    os._exit(0)


def lines(child, reader, seconds):
    """The lines of a child until it ends or exceeds the silent time; then None if it failed."""
    buffered, ended = b"", False
    while not ended:
        ready, _, _ = select.select([reader], [], [], seconds)
        block = os.read(reader, 1 << 16) if ready else b""
        if not block:
            os.kill(child, signal.SIGKILL) if not ready else None
            ended = True
        buffered += block
        *whole, buffered = buffered.split(b"\n")
        yield from map(json.loads, whole)
    os.close(reader)
    if os.waitpid(child, 0)[1] != 0:
        yield None


def table(units, settings, done, write):
    """All parts, in children that are replaced after a crash. units: (call, mesh shape)."""
    first = 0
    while first < len(units):
        def work(put, first=first):
            threads = Threads()
            for at in range(first, len(units)):
                put({"unit": at})
                for row in unit(threads, *units[at], settings, done):
                    put(row)

        last = first
        for row in lines(*forked(work), SILENT_SECONDS):
            if row is None:
                call, shape = units[last]
                write({"name": call.name, "call": call.key(), "mesh": list(shape), "placements": [], "pass": "forward",
                       "verdict": "hung", "kind": "crash", "text": "the process crashed or ran without end"})
            elif "unit" in row:
                last = row["unit"]
                write(row)
            else:
                write(row)
        first = last + 1


def _judge_call(item):
    """On one rank of gloo processes, an item of `confirmed`."""
    call, seed, placements, shape, backward = item
    if shape not in _judge_call.meshes:
        _judge_call.meshes[shape] = _meshes(shape)
    reference = judge.Reference(call, seed)
    judge.forget()
    return judge.judge_rank(reference, placements, _judge_call.meshes[shape], backward)


_judge_call.meshes = {}


def _gloo_rank(rank, job, path, items, put):
    import torch.distributed as dist

    run, count = job
    dist.init_process_group("gloo", store=dist.FileStore(path, count), rank=rank, world_size=count,
                            timeout=datetime.timedelta(seconds=CONNECT_SECONDS))
    dist.distributed_c10d._set_pg_timeout(datetime.timedelta(seconds=GLOO_SECONDS))
    put({"met": True})
    for at, item in items:
        try:
            outcome = ("value", run(item))
        except Exception as error:
            text = f"{type(error).__name__}: {error}".split("\n")[0]
            outcome = ("hung" if "imed out" in text or "Connection" in text else "error", text)
        put({"at": at, "kind": outcome[0], "value": outcome[1]})
        if outcome[0] != "value":  # the ranks may no longer be at the same call
            break


def _gloo_start(job, items):
    """The outcomes {item: {rank: outcome}} of one start of the processes; None if they did not connect."""
    count = job[1]
    path = f"/tmp/lockstep_rules_{os.getpid()}_{time.monotonic_ns()}"
    ranks = [forked(lambda put, rank=rank: _gloo_rank(rank, job, path, items, put)) for rank in range(count)]
    outcomes, met = {}, 0
    for rank, (child, reader) in enumerate(ranks):
        for row in lines(child, reader, 2 * GLOO_SECONDS):
            if row is not None and "met" in row:
                met += 1
            elif row is not None:
                outcomes.setdefault(row["at"], {})[rank] = (row["kind"], row["value"])
    if os.path.exists(path):
        os.unlink(path)
    return outcomes if met == count else None


def _gloo_run(job, items, found):
    """Runs items on processes until one fails; adds their verdicts to found, and returns the rest."""
    count = job[1]
    outcomes = next((one for one in (_gloo_start(job, items) for _ in range(GLOO_STARTS)) if one is not None), None)
    if outcomes is None:
        raise RuntimeError(f"gloo did not connect {count} processes of this machine in {GLOO_STARTS} starts")
    for place, (at, _) in enumerate(items):
        mine = outcomes.get(at, {})
        if len(mine) == count and all(kind == "value" for kind, _ in mine.values()):
            found[at] = judge.together([mine[rank] for rank in range(count)])
            continue
        ended = [mine.get(rank, ("hung", "a rank ended, or waits")) for rank in range(count)]
        found[at] = judge.together(ended)
        return items[place + 1:]
    return []


def gloo(run, count, items):
    """The verdict of run(item) on `count` plain gloo processes, of each item."""
    found, left = {}, list(enumerate(items))
    while left:
        left = _gloo_run((run, count), left, found)
    return [tuple(found[at]) for at in range(len(items))]


def confirmed(items):
    """The verdicts on plain gloo processes. items: (call, seed, placements, mesh shape, backward)."""
    counts = [torch.Size(item[3]).numel() for item in items]
    verdicts = {count: iter(gloo(_judge_call, count, [item for item, own in zip(items, counts) if own == count]))
                for count in sorted(set(counts))}
    return [next(verdicts[count]) for count in counts]
