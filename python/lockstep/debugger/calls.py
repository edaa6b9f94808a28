"""The debugger's hooks in torch.distributed: breakpoints on calls, and no time-outs."""

import datetime
import functools

NO_LIMIT = datetime.timedelta(days=365)
KINDS = ("all_reduce", "reduce", "broadcast", "all_gather", "reduce_scatter", "all_to_all", "gather", "scatter", "barrier",
         "send", "recv")


def unlimit(c10d):
    """A stopped rank is not late; called after torch.distributed is imported."""
    barrier = c10d._store_based_barrier

    def unlimited(rank, store, group_name, rendezvous_count, _timeout, *arguments, **options):
        store.set_timeout(NO_LIMIT)
        return barrier(rank, store, group_name, rendezvous_count, NO_LIMIT, *arguments, **options)

    c10d._store_based_barrier = unlimited


def install(agent, client, distributed):
    """Replaces functions of the client and of torch; called after torch.distributed is imported."""
    issue, wait, join = client.Client.issue, client.Client.wait, client.Client.join
    titles, numbers, calls = {}, {}, {}

    @functools.lru_cache(maxsize=None)
    def kind_of(number):
        return next((name for name in KINDS if client.get().kind(name) == number), "call")

    def joined(self, identity, ranks, rank, name):
        comm = join(self, identity, ranks, rank, name)
        titles[comm] = name
        return comm

    def issued(self, call):
        kind, title = kind_of(call.kind), titles.get(call.comm, "?")
        number = numbers.get(call.comm, 0)
        purpose = f" {call.purpose.decode()}" if call.purpose else ""
        what = f"{kind}{purpose} on {title}"
        agent.before_call(what, kind, number, title)
        numbers[call.comm] = number + 1
        slot = issue(self, call)
        calls[slot] = f"{what}, call {number}"
        return slot

    def waited(self, slot, told=True):
        import threading

        thread = threading.get_ident()
        agent.waits[thread] = calls.get(slot, "a call")
        try:
            return wait(self, slot, told)
        finally:
            agent.waits.pop(thread, None)

    client.Client.issue, client.Client.wait, client.Client.join = issued, waited, joined
    skipped = {}

    def stop(rank=0, skip=0, timeout_s=None):
        """All ranks make this call, and each stops in it."""
        import sys

        frame = sys._getframe(1)
        place = (frame.f_code, frame.f_lineno)
        skipped[place] = skipped.get(place, 0) + 1
        if skipped[place] > skip:
            agent.stop_here(f"dist.breakpoint(rank={rank})", frame)

    if agent.stops_by_itself:
        distributed.breakpoint = stop
