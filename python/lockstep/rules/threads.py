"""Runs all ranks of a world as threads of this process, one at a time.

A rank runs until it waits in a collective or ends; then the next rank runs. So results do not depend on time, and a hang is certain: every
rank waits. The collectives are those of torch's threaded process group, with the waits of this file.
"""

import threading
import time

import torch
import torch.distributed as dist
from torch.testing._internal.distributed import multi_threaded_pg as threaded


class Hang(BaseException):
    """Raised in ranks that wait for a call that no rank makes. No `except Exception` of the tested code catches it."""


class Mismatch(Exception):
    """The ranks of a group make different calls."""


class _ReduceScatter(threaded.ReduceScatter):
    """Also of maxima, minima and products, as gloo has them."""

    def __init__(self, op):
        self.op = op.op

    def work(self, data):
        if self.op in (dist.ReduceOp.SUM, dist.ReduceOp.AVG):
            super().work(data)
            return
        for rank, (outputs, _) in enumerate(data):
            outputs[0].detach().copy_(threaded._reduce_ops[self.op]([inputs[0][rank] for _, inputs in data]))


def _trace_once():
    """Keeps the traces of decompositions for all ranks and combinations.

    DTensor finds the placements of an operator without a rule by a trace of its decomposition for each combination of placements, and those
    of the operators inside likewise. Attention takes 16,000 traces and 20 seconds a rank in torch 2.15. A trace depends on shapes, types and
    its own placements, not on those of the call or on the rank.
    """
    try:
        from torch.distributed.tensor._decompositions import DecompShardingStrategy as strategy
        from torch.distributed.tensor._dtensor_spec import DTensorSpec
    except ImportError:  # an older torch
        return
    of_class = isinstance(vars(strategy)["_propagate_through_decomp"], staticmethod)  # torch 2.11
    trace, traces = strategy._propagate_through_decomp, {}

    def traced(*given):
        schema, placement = given[:2] if of_class else given[1:3]
        arguments = torch.utils._pytree.tree_map_only(DTensorSpec, lambda spec: spec.tensor_meta, (schema.args_schema, schema.kwargs_schema))
        key = repr((schema.op, arguments, placement, torch.is_grad_enabled()))
        if key not in traces:
            try:
                traces[key] = trace(*given), None
            except Exception as error:
                traces[key] = None, error
        result, error = traces[key]
        if error is not None:
            raise error.with_traceback(None)
        return result

    strategy._propagate_through_decomp = staticmethod(traced) if of_class else traced


class _Token:
    """Lets one of the ranks run."""

    def __init__(self, count):
        self.turns = [threading.Semaphore(0) for _ in range(count)]
        self.until = [None] * count  # the wait of a rank
        self.done = [False] * count
        self.ended = threading.Semaphore(0)
        self.hung = []

    def _pass_on(self, rank):
        """Switches to the next rank that can run; if none can, the waiting ranks hang."""
        count = len(self.turns)
        for step in range(1, count + 1):
            other = (rank + step) % count
            if not self.done[other] and (self.until[other] is None or self.until[other]()):
                self.turns[other].release()
                return
        waiting = [r for r in range(count) if not self.done[r]]
        if not waiting:
            self.ended.release()
            return
        self.hung += [r for r in waiting if r not in self.hung]
        self.until[waiting[0]] = None
        self.turns[waiting[0]].release()

    def wait(self, rank, until):
        if rank in self.hung:
            raise Hang
        self.until[rank] = until
        self._pass_on(rank)
        self.turns[rank].acquire()
        self.until[rank] = None
        if rank in self.hung and not until():
            raise Hang

    def end(self, rank):
        self.done[rank] = True
        self._pass_on(rank)


def _forms(data):
    return [(tuple(leaf.shape), leaf.dtype) for leaf in torch.utils._pytree.tree_leaves(data) if isinstance(leaf, torch.Tensor)]


class _Call:
    """A collective that the ranks of a group join; the last of them computes it."""

    token = None  # of the running world; None: its ranks run at the same time
    rank = threading.local()

    def __init__(self, size, collective, _group):
        self.size, self.collective = size, collective
        self.same = isinstance(collective, (threaded.AllReduce, threaded.AllGather, threaded.ReduceScatter))
        self.data, self.count, self.done, self.error = [None] * size, 0, False, None

    def join(self, rank, data):
        self.data[rank] = data
        self.count += 1
        if self.count == self.size:
            forms = [_forms(one) for one in self.data]
            other = next((rank for rank in range(self.size) if forms[rank] != forms[0]), None)
            try:
                if other is not None and self.same:
                    raise Mismatch(f"{type(self.collective).__name__}: member 0 gives {forms[0]}, member {other} {forms[other]}")
                with torch.no_grad():
                    self.collective.work(self.data)
            except Exception as error:
                self.error = error
            self.done = True
        elif _Call.token is None:
            while not self.done:
                time.sleep(0.001)
        else:
            _Call.token.wait(_Call.rank.number, lambda: self.done)
        if self.error is not None:
            raise self.error
        return threaded.ret_work(data)


def _joined(kind, collective, group):
    """The current call of the group, which must be of the same kind."""
    under_way = kind._cur_coll_on_pgs.get(group.pg_name)
    if under_way is None or under_way.done:
        under_way = kind._cur_coll_on_pgs[group.pg_name] = _Call(group.size(), collective, kind)
    ours, other = type(collective).__name__, type(under_way.collective).__name__
    if ours != other:
        raise Mismatch(f"one rank calls {ours}, another calls {other}")
    return under_way


class World:
    """Threads of `count` ranks with a process group."""

    def __init__(self, count):
        self.count = count
        self.ended = threading.Semaphore(0)
        self.jobs = [threading.Semaphore(0) for _ in range(count)]
        self.job, self.outcomes = None, [None] * count
        ready = threading.Barrier(count + 1)
        if not isinstance(dist.distributed_c10d._world, threaded.ThreadLocalWorld):
            threaded._install_threaded_pg()
            torch._C._distributed_c10d._set_thread_isolation_mode(True)
            threaded.ProcessLocalGroup._start_coll = classmethod(_joined)
            threaded.ProcessLocalGroup._end_coll = classmethod(lambda kind, call, group: None)
            threaded.ReduceScatter = _ReduceScatter
            _trace_once()
        store = dist.HashStore()
        for rank in range(count):
            threading.Thread(target=self._rank, args=(rank, store, ready), daemon=True).start()
        ready.wait()

    def _rank(self, rank, store, ready):
        _Call.rank.number = rank
        torch.set_num_threads(1)
        dist.init_process_group("threaded", rank=rank, world_size=self.count, store=store)
        ready.wait()
        while True:
            self.jobs[rank].acquire()
            token = self.token
            if token is not None:
                token.turns[rank].acquire()
            try:
                self.outcomes[rank] = ("value", self.job(rank))
            except Hang:
                self.outcomes[rank] = ("hung", "")
            except Exception as error:
                kind = "hung" if isinstance(error, Mismatch) else "error"
                self.outcomes[rank] = (kind, f"{type(error).__name__}: {error}")
            if token is not None:
                token.end(rank)
            else:
                self.ended.release()

    def freely(self, job):
        """As run, with all ranks at the same time: for creating groups, which wait for each other outside of collectives."""
        self.job, self.token, _Call.token = job, None, None
        for semaphore in self.jobs:
            semaphore.release()
        for _ in range(self.count):
            self.ended.acquire()
        return list(self.outcomes)

    def run(self, job):
        """Of each rank: ("value", job(rank)), ("error", sentence) or ("hung", sentence)."""
        self.job, self.token = job, _Token(self.count)
        _Call.token = self.token
        threaded.ProcessLocalGroup._cur_coll_on_pgs = {}
        for semaphore in self.jobs:
            semaphore.release()
        self.token.turns[0].release()
        self.token.ended.acquire()
        return list(self.outcomes)
