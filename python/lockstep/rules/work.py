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
from lockstep.rules.tables import key_of

SILENT_SECONDS = 120  # a part without output for this long is stopped: it loops in torch
CRASHES_MAX = 3  # of one item
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
    logging.disable(logging.CRITICAL)
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


def unit(threads, call, shape, settings, done):
    """Rows of a call on a mesh, and before each the same row with the verdict "begins". done: rows that are known, by key."""
    reference = judge.Reference(call, settings["seed"])
    if reference.why is not None:
        yield {"name": call.name, "call": call.key(), "verdict": "skipped", "text": reference.why[:300]}
        return
    threads.each(shape, lambda mesh: judge.forget())
    for placements in inputs.combinations(call, reference.wholes, shape, settings["most"][shape], settings["seed"]):
        for backward in (False, True):
            if backward and reference.gradients is None:
                continue
            begins = record(call, shape, placements, backward, ("begins",))
            row = done.get(key_of(begins))
            if row is None:
                yield begins
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


class Children:
    """Processes whose lines are read as they come. One without a line for `seconds` is stopped."""

    def __init__(self, seconds):
        self.seconds, self.running = seconds, {}

    def start(self, name, work):
        child, reader = forked(work)
        self.running[reader] = [name, child, b"", time.monotonic()]

    def lines(self):
        """(name, line) of each; (name, None) where a child fails. The caller may start others meanwhile."""
        while self.running:
            oldest = min(last for _, _, _, last in self.running.values())
            ready, _, _ = select.select(list(self.running), [], [], max(0.0, oldest + self.seconds - time.monotonic()))
            now = time.monotonic()
            for reader, one in list(self.running.items()):
                if reader in ready:
                    yield from self._read(reader, one, now)
                elif now - one[3] >= self.seconds:
                    os.kill(one[1], signal.SIGKILL)
                    one[3] = now

    def _read(self, reader, one, now):
        block = os.read(reader, 1 << 16)
        *whole, one[2] = (one[2] + block).split(b"\n")
        one[3] = now
        for line in whole:
            yield one[0], json.loads(line)
        if not block:
            del self.running[reader]
            os.close(reader)
            if os.waitpid(one[1], 0)[1] != 0:
                yield one[0], None


def lines(work, seconds):
    """The lines of one child; None after them if it fails."""
    children = Children(seconds)
    children.start(0, work)
    return (line for _, line in children.lines())


class _Share:
    """The items of one worker."""

    def __init__(self, items, job):
        self.items, self.job, self.at, self.yielded, self.crashes = items, job, 0, False, 0

    def run(self, put):
        threads = Threads()
        for at in range(self.at, len(self.items)):
            put({"at": at})
            for value in self.job(threads, self.items[at]):
                put({"value": value})


def across(items, job, workers):
    """(item, value) of the values of job(threads, item), computed by worker processes. (item, None): a worker crashed. The item is then
    repeated if it had a value, but not often.
    """
    children = Children(SILENT_SECONDS)
    for first in range(min(workers, len(items))):
        share = _Share(items[first::workers], job)
        children.start(share, share.run)
    for share, line in children.lines():
        if line is None:
            yield share.items[share.at], None
            share.crashes += 1
            if not share.yielded or share.crashes == CRASHES_MAX:
                share.at, share.crashes = share.at + 1, 0
            share.yielded = False
            children.start(share, share.run)
        elif "at" in line:
            share.crashes = share.crashes if line["at"] == share.at else 0
            share.at, share.yielded = line["at"], False
        else:
            share.yielded = True
            yield share.items[share.at], line["value"]


def table(units, settings, done, workers):
    """Yields the rows of all parts and adds them to `done`. units: (call, mesh shape)."""
    begun = {}  # by unit
    for (call, shape), row in across(units, lambda threads, one: unit(threads, *one, settings, done), workers):
        asked = begun.pop((call.key(), shape), None)
        if row is None:
            row = {"name": call.name, "call": call.key(), "verdict": "skipped", "text": "the unsharded call fails: the process crashes"}
            if asked is not None:
                row = {**asked, "verdict": "hung", "kind": "crash", "text": "the process ends by a signal, or does not end"}
        elif row["verdict"] == "begins":
            begun[call.key(), shape] = row
            continue
        if row["verdict"] != "skipped":
            done[key_of(row)] = row
        yield row


# ---- Gloo ----
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
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # gloo reports there the mismatches that end its process
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
    """(item, outcome of each rank) of one start of the processes, up to the first item that fails on a rank. Nothing if they do not
    connect.
    """
    count = job[1]
    path = f"/tmp/lockstep_rules_{os.getpid()}_{time.monotonic_ns()}"
    ranks, outcomes, met = Children(2 * GLOO_SECONDS), {at: {} for at, _ in items}, 0
    for rank in range(count):
        ranks.start(rank, lambda put, rank=rank: _gloo_rank(rank, job, path, items, put))
    for rank, row in ranks.lines():
        if row is not None and "met" in row:
            met += 1
        elif row is not None:
            mine = outcomes[row["at"]]
            mine[rank] = (row["kind"], row["value"])
            if len(mine) == count and all(kind == "value" for kind, _ in mine.values()):
                del outcomes[row["at"]]
                yield row["at"], [mine[one] for one in range(count)]
    if os.path.exists(path):
        os.unlink(path)
    if met == count and outcomes:
        at, mine = next(iter(outcomes.items()))
        yield at, [mine.get(rank, ("hung", "a rank ended or hangs")) for rank in range(count)]


def gloo(run, count, items):
    """(index of the item, verdict of run(item)) on `count` plain gloo processes, which are started again after an item that fails."""
    left, starts = list(enumerate(items)), 0
    while left:
        ended = set()
        for at, outcomes in _gloo_start((run, count), left):
            ended.add(at)
            yield at, tuple(judge.together(outcomes))
        starts = 0 if ended else starts + 1
        if starts == GLOO_STARTS:
            raise RuntimeError(f"gloo did not connect {count} processes of this machine in {GLOO_STARTS} starts")
        left = [item for item in left if item[0] not in ended]


def confirmed(items, workers):
    """(index of the item, verdict) on plain gloo processes. items: (call, seed, placements, mesh shape, backward). workers: how many worlds
    run at the same time.
    """
    counts = [torch.Size(item[3]).numel() for item in items]
    for count in sorted(set(counts)):
        mine = [at for at, own in enumerate(counts) if own == count]
        children = Children(GLOO_STARTS * 2 * GLOO_SECONDS)
        for share in (mine[first::workers] for first in range(min(workers, len(mine)))):
            def run(put, share=share):
                for at, verdict in gloo(_judge_call, count, [items[one] for one in share]):
                    put([share[at], verdict])

            children.start(count, run)
        for _, line in children.lines():
            if line is None:
                raise RuntimeError(f"the processes that start {count} ranks of gloo failed")
            yield line[0], tuple(line[1])
