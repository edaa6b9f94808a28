"""The work of a call of the backend: its wait, its future, and its event in a profile."""

import atexit
import contextlib
import threading

import torch
import torch.distributed as dist

from lockstep import torch_client as client


class Profiled:
    """The event of a call in a torch profile, from its start until its results are complete."""

    def __init__(self, title):
        self._ended = None
        if torch.autograd._profiler_enabled():
            event = torch.autograd.profiler.record_function(title)
            event.__enter__()
            self._ended = torch.futures.Future()
            event._call_end_callbacks_on_future(self._ended)

    def end(self):
        if self._ended is None:
            return
        thread = threading.Thread(target=self._ended.set_result, args=(None,))
        try:  # an event that ends on another thread than it began on is asynchronous
            thread.start()
        except RuntimeError:  # the interpreter ends and starts no thread
            self._ended.set_result(None)
        else:
            thread.join()


class Waiter(threading.Thread):
    """Settles the future of a work when the calls of its slots are complete.

    Invariant: none of these threads runs when the interpreter finalises. torch aborts a process in which a thread of C++ code needs a
    finalised interpreter.
    """

    within = contextlib.nullcontext  # callbacks of the future run in this context, which is a thread's own
    _running, _settling, _ending = set(), 0, False
    _counting = threading.Lock()

    def __init__(self, slots, settle):
        super().__init__(name="lockstep future", daemon=True)
        self._slots, self._settle = slots, settle

    @classmethod
    def started(cls, slots, settle):
        """False: the interpreter ends and starts no thread."""
        waiter = cls(slots, settle)
        with cls._counting:
            if cls._ending:
                return False
            cls._running.add(waiter)
        try:
            waiter.start()
        except RuntimeError:
            cls._running.discard(waiter)
            return False
        return True

    def run(self):
        try:
            if self._await():
                with self.within():
                    self._settle()
        finally:
            with self._counting:
                Waiter._settling -= 1
                self._running.discard(self)

    def _await(self):
        for slot in self._slots:
            while not client.get().done(slot):
                with self._counting:
                    if self._ending and self._settling == 0:
                        Waiter._settling += 1
                        return False
                client.get().rest(slot)
        with self._counting:
            Waiter._settling += 1  # a callback of this future may wait for another future
        return True

    def _end(self):
        while self.is_alive():
            for slot in self._slots:
                client.get().wake(slot)
            self.join(0.01)

    @classmethod
    def end_all(cls):
        """Ends all threads before the interpreter finalises; futures of incomplete calls are never settled."""
        with cls._counting:
            cls._ending = True
            running = list(cls._running)
        for waiter in running:
            waiter._end()
        client.interpreter_ends()


atexit.register(Waiter.end_all)


class Work(dist._Work):
    """Calls in progress; `finish` copies their results."""

    def __init__(self, slots, finish, tensors, profiled, owner=None):
        super().__init__()
        self._owner = owner  # of its tensors (watch_buffers.py)
        self._slots, self._finish, self._tensors, self._profiled = slots, finish, tensors, profiled
        self._lock, self._waiting = threading.Lock(), 0
        self.asked = []  # not empty: the program has waited, or asked whether it is complete
        self._complete, self._error, self._future, self._sender = False, None, None, None

    def _ask(self, how):
        self.asked.append(how)
        if self._owner is not None:
            self._owner.waited()

    def _end(self, told):
        """Waits for the calls. The first thread copies their results, the last one frees their slots."""
        with self._lock:
            if self._complete:
                return
            self._waiting += 1
        self._wait_counted(told)

    def _wait_counted(self, told):
        error = None
        for slot in self._slots:
            try:
                client.get().wait(slot, told)
            except client.Error as reason:
                error = reason
        with self._lock:
            first = not self._complete
            if first:
                self._finish(error is None)
                self._profiled.end()
                self._complete, self._error = True, error
                self._sender = client.get().sender(self._slots[0]) if self._slots else None
            self._waiting -= 1
            if self._waiting == 0:
                for slot in self._slots:
                    client.get().give_slot(slot)
            future = self._future if first else None
        if future is not None:
            self._settle(future)

    def _settle(self, future):
        if self._error is None:
            future.set_result(self._tensors)
        else:
            future.set_exception(self._error)

    def finish(self):
        if not self._complete:
            self._end(told=False)

    def wait(self, timeout=None):
        self._ask("wait")
        if not self._complete:
            self._end(told=True)
        if self._error is not None:
            raise dist.DistBackendError(str(self._error))
        return True

    def synchronize(self):
        self.wait()

    def is_completed(self):
        self._ask("is_completed")
        return self.over()

    def over(self):
        if not self._complete and all(client.get().done(slot) for slot in self._slots):
            self._end(told=False)
        return self._complete

    def is_success(self):
        return self.is_completed() and self._error is None

    def exception(self):
        return self._error

    def _source_rank(self):
        return self._sender

    def result(self):
        return self._tensors

    def get_future(self):
        self._ask("get_future")
        with self._lock:
            if self._future is not None:
                return self._future
            self._future = torch.futures.Future()
            complete = self._complete
            self._waiting += 0 if complete else 1
        if complete:
            self._settle(self._future)
        elif not Waiter.started(self._slots, lambda: self._wait_counted(told=False)):
            self._wait_counted(told=True)
        return self._future
