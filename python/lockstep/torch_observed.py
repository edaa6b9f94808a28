"""Groups of gloo under `lockstep exec --observe` and `--compare gloo`: gloo moves the data, and calls and waits are reported. Where
data is recorded, the coordinator also gets what each member sent and received.
"""

import atexit
import contextlib
import os
import threading

import torch
import torch.distributed as dist

from lockstep import torch_backend
from lockstep import torch_client as client
from lockstep.torch_data import Named
from lockstep.torch_work import Waiter

METHODS = ("allreduce", "allreduce_coalesced", "reduce", "broadcast", "allgather", "_allgather_base", "all_gather_single",
           "allgather_into_tensor_coalesced", "allgather_coalesced", "gather", "scatter", "reduce_scatter",
           "_reduce_scatter_base", "reduce_scatter_single", "reduce_scatter_tensor_coalesced", "alltoall_base",
           "alltoall", "barrier", "send", "recv", "recv_anysource")


class Work(dist._Work):
    """gloo's call, and its report when its results are complete."""

    def __init__(self, real, calls):
        super().__init__()
        self._real, self._calls, self._future = real, calls, None
        self._lock, self._wait, self._is_told = threading.Lock(), threading.Lock(), False

    def _tell(self):
        with self._lock:
            if self._is_told:
                return
            for call in self._calls:
                if call.got is not None:
                    call.got.fill()
                client.get().arrived(call.slot)
            self._is_told = True

    def _waiting(self):
        calls = self._calls
        return client.get().waiting(calls[-1].slot) if calls and not self._real.is_completed() else contextlib.nullcontext()

    def over(self):
        """Whether the coordinator has read all of it; then the memory is reused."""
        if not self.is_completed() or not all(client.get().done(call.slot) for call in self._calls):
            return False
        for call in self._calls:
            client.get().give_slot(call.slot)
            call.give()
        self._calls = []
        return True

    def wait(self, timeout=None):
        with self._wait:  # gloo's messages are waited for once: a second wait hangs
            if not self._is_told:
                with self._waiting():
                    self._real.wait() if timeout is None else self._real.wait(timeout)
        self._tell()
        return True

    def synchronize(self):
        self.wait()

    def is_completed(self):
        if not self._real.is_completed():
            return False
        self._tell()
        return True

    def is_success(self):
        return self._real.is_success()

    def exception(self):
        return self._real.exception()

    def _source_rank(self):
        return self._real._source_rank()

    def result(self):
        return self._real.result()

    def _settle(self):
        try:
            value = self._real.get_future().wait()
            self._tell()
        except RuntimeError as error:
            self._future.set_exception(error)
        else:
            self._future.set_result(value)

    def get_future(self):
        with self._lock:
            if self._future is not None:
                return self._future
            self._future = torch.futures.Future()
        if not Waiter.started([], self._settle):  # a callback of gloo's own future may outlive the interpreter
            self._settle()
        return self._future


def _both(name):
    ours = getattr(torch_backend.ProcessGroup, name)

    def method(self, *arguments, **options):
        real = getattr(self.gloo, name, None) or getattr(self.in_group(), name)
        if self._comm is None:  # nobody observes it; or it was destroyed, which gloo says
            return real(*arguments, **options)
        if self.is_sparse(arguments[:1]):
            calls = []
            self.gather_entries(arguments[0][0])
        else:
            calls = ours(self, *arguments, **options)
        work = Work(real(*arguments, **options), calls)
        self._keep(work)
        return work

    return method


class ProcessGroup(torch_backend.ProcessGroup):
    observed = True
    gloo = _group = None

    def __init__(self, *arguments):
        if os.environ.get("LOCKSTEP_EXEC_PAYLOAD") != "1":
            self.staged = Named
        try:
            super().__init__(*arguments)
        except client.Error:
            if not client.get().unobserved():
                raise
            self._comm = None
        atexit.register(self.shutdown)

    def _work(self, calls, tensors, after=()):
        self._sequence += 1
        return calls

    def in_group(self):
        """gloo as the backend of PyTorch's own group, which has methods that the backend's class lacks."""
        if self._group is None:
            kind = dist.ProcessGroup.BackendType.GLOO
            self._group = dist.ProcessGroup(self.gloo.rank(), self.gloo.size())
            self._group._set_default_backend(kind)
            self._group._register_backend(torch.device("cpu"), kind, self.gloo)
        return self._group

    @staticmethod
    def is_sparse(arguments):
        return any(isinstance(tensor, torch.Tensor) and tensor.layout is not torch.strided
                   for tensors in arguments for tensor in (tensors if isinstance(tensors, list) else [tensors]))

    def monitored_barrier(self, timeout=None, wait_all_ranks=False):
        self.barrier().wait()

    def shutdown(self):
        for work in self._pending:  # of works without a wait
            work.wait()
        self._leave(in_flight=not all([work.over() for work in self._pending]))

    abort = shutdown


for _name in METHODS:
    setattr(ProcessGroup, _name, _both(_name))


def over(gloo):
    """The observed groups over a gloo group."""
    return type("ProcessGroup", (ProcessGroup,), {"gloo": gloo})
