"""The backend and the watches with a client that records its input, in one process: recorded.py PYTHON_FOLDER CLIENT_LIBRARY."""
import ctypes
import gc
import os
import sys
import types

sys.path.insert(0, sys.argv[1])
os.environ["LOCKSTEP_WATCH_RAISES"] = "1"
import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402

import buffers  # noqa: E402
import noted  # noqa: E402
import reductions  # noqa: E402
import steppers  # noqa: E402
from lockstep import torch_backend, torch_client, torch_work  # noqa: E402

DTYPES = ["char", "byte", "int", "long", "half", "bfloat16", "float", "double"]
LONG, FLOAT, DOUBLE = 3, 6, 7
KINDS = ["all_reduce", "reduce", "broadcast", "all_gather", "reduce_scatter", "all_to_all", "gather", "scatter", "barrier", "send", "recv"]
NONE = torch_client.NONE
RANK, SIZE = 1, 3


class Recorder:
    """The client's functions, without a coordinator: a call is complete on request."""

    def __init__(self):
        self.calls, self.notes, self.given, self.slots, self.left, self.joined = [], [], 0, [], [], []
        self.waited, self.woken, self.fails, self.memory = [], [], False, []
        self.finished, self.asked = True, 0

    def dtypes(self):
        return DTYPES

    def kind(self, name):
        return KINDS.index(name)

    def take(self, size):
        buffer = ctypes.create_string_buffer(size or 1)
        self.memory.append(buffer)
        return torch_client.Region(at=ctypes.addressof(buffer), memory=0 if size else NONE, bytes=size)

    def give(self, region):
        self.given += 1

    def join(self, identity, ranks, rank, name):
        self.joined.append((identity, ranks, rank, name))
        return len(self.joined)

    def leave(self, comm, in_flight):
        self.left.append((comm, in_flight))

    def issue(self, call):
        sides = [None if region.memory == NONE and not address else region.bytes
                 for region, address in ((call.send, call.send_address), (call.recv, call.recv_address))]
        sent = bytes(ctypes.string_at(call.send.at, call.send.bytes)) if call.send.bytes else b""
        counts = [list(given[:call.members]) if given else None for given in (call.send_counts, call.recv_counts)]
        self.calls.append(types.SimpleNamespace(
            kind=call.kind, dtype=call.dtype, op=call.op, root=call.root, tag=call.tag, count=call.count, counts=counts, sides=sides,
            sent=sent, collects=call.collects, observed=call.observed, shares=(call.shares, call.shares_sent, *call.shared),
            comm=call.comm, members=call.members, purpose=call.purpose, stream=call.stream))
        return len(self.calls)

    def arrived(self, slot):
        pass

    def collect(self, slot, region, whole):
        for at, tensor in enumerate(whole):
            tensor.fill_(10 * slot + at)

    def done(self, slot):
        self.asked += 1
        return self.finished

    def wait(self, slot, told=True):
        self.waited.append((slot, told))
        if self.fails:
            raise torch_client.Error("lockstep: the run is over")

    def rest(self, slot):
        pass

    def wake(self, slot):
        self.woken.append(slot)

    def sender(self, slot):
        return 2

    def give_slot(self, slot):
        self.slots.append(slot)

    def note(self, finding, key, about="", members=(), flags=0, step=0, items=()):
        made = [(item.name.decode(), item.shown.decode(), item.count, item.dtype if item.data or item.count else None) for item in items]
        self.notes.append(types.SimpleNamespace(finding=finding, key=key, about=about, members=list(members), flags=flags, step=step, items=made))


CLIENT = Recorder()
torch_client.get = lambda: CLIENT


def fresh():
    CLIENT.__init__()
    return CLIENT


def group(rank=RANK, size=SIZE, name="part"):
    return torch_backend.ProcessGroup(rank, size, name, list(range(size)))


def refused(word, call):
    try:
        call()
    except RuntimeError as error:
        assert word in str(error), (word, str(error))
        return
    raise AssertionError(f"{word}: it was not refused")


def raw(*tensors):
    return b"".join(bytes(tensor.contiguous().view(torch.uint8).flatten().tolist()) for tensor in tensors)


def calls():
    """Each method: its kind, counts, root, operation and sides, on a rank that is neither first nor last."""
    t, u, six = torch.arange(4.0), torch.arange(4.0) + 10, torch.arange(6, dtype=torch.int64)
    reduce_op, made = dist.ReduceOp, group()
    blocks = [torch.zeros(4) for _ in range(SIZE)]
    uneven = [torch.zeros(2), torch.zeros(4), torch.zeros(1)]
    columns = torch.arange(12.0).view(4, 3)
    root0, root1 = types.SimpleNamespace(rootRank=0, rootTensor=0), types.SimpleNamespace(rootRank=1, rootTensor=0)
    both = (16, 72)  # bytes sent, and of the list of what is received
    table = [
        (lambda: made.allreduce([t]), [("all_reduce", 4, 0, 0, FLOAT, both, (None, None))]),
        (lambda: made.allreduce(t, reduce_op.MAX), [("all_reduce", 4, 0, 2, FLOAT, both, (None, None))]),
        (lambda: made.allreduce([torch.zeros(2, dtype=torch.complex64)], reduce_op.AVG), [("all_reduce", 4, 0, 4, FLOAT, both, (None, None))]),
        (lambda: made.allreduce([torch.zeros(2, dtype=torch.complex128)]), [("all_reduce", 4, 0, 0, DOUBLE, (32, 72), (None, None))]),
        (lambda: made.allreduce([torch.zeros(3, dtype=torch.bool)]), [("all_reduce", 3, 0, 2, 1, (3, 72), (None, None))]),
        (lambda: made.allreduce_coalesced([t, u]), [("all_reduce", 4, 0, 0, FLOAT, both, (None, None))] * 2),
        (lambda: made.reduce([t], root0, reduce_op.MIN), [("reduce", 4, 0, 3, FLOAT, (16, None), (None, None))]),
        (lambda: made.reduce([t], root1, reduce_op.SUM), [("reduce", 4, 1, 0, FLOAT, both, (None, None))]),
        (lambda: made.broadcast([t], root0), [("broadcast", 4, 0, 0, FLOAT, (None, 72), (None, None))]),
        (lambda: made.broadcast([t], root1), [("broadcast", 4, 1, 0, FLOAT, both, (None, None))]),
        (lambda: made.broadcast([t], root=2), [("broadcast", 4, 2, 0, FLOAT, (None, 72), (None, None))]),
        (lambda: made.allgather([blocks], [t]), [("all_gather", 4, 0, 0, FLOAT, both, (None, None))]),
        (lambda: made.allgather([uneven], [t]), [("all_gather", 4, 0, 0, FLOAT, both, (None, [2, 4, 1]))]),
        (lambda: made.allgather(blocks, t), [("all_gather", 4, 0, 0, FLOAT, both, (None, None))]),
        (lambda: made.allgather([blocks, blocks], [t, u]), [("all_gather", 4, 0, 0, FLOAT, both, (None, None))] * 2),
        (lambda: made._allgather_base(torch.zeros(12), t), [("all_gather", 4, 0, 0, FLOAT, both, (None, None))]),
        (lambda: made.allgather_into_tensor_coalesced([torch.zeros(12)], [t]), [("all_gather", 4, 0, 0, FLOAT, both, (None, None))]),
        (lambda: made.allgather_coalesced([[one] for one in blocks], [t]), [("all_gather", 4, 0, 0, FLOAT, both, (None, None))]),
        (lambda: made.gather([], [t], root0), [("gather", 4, 0, 0, FLOAT, (16, None), (None, None))]),
        (lambda: made.gather([blocks], [t], root1), [("gather", 4, 1, 0, FLOAT, both, (None, None))]),
        (lambda: made.scatter([t], [], root0), [("scatter", 4, 0, 0, FLOAT, (None, 72), (None, None))]),
        (lambda: made.scatter([t], [blocks], root1), [("scatter", 4, 1, 0, FLOAT, (48, 72), (None, None))]),
        (lambda: made.reduce_scatter([t], [blocks]), [("reduce_scatter", 4, 0, 0, FLOAT, (48, 72), (None, None))]),
        (lambda: made.reduce_scatter([t], [uneven], reduce_op.PRODUCT), [("reduce_scatter", 4, 0, 1, FLOAT, (28, 72), ([2, 4, 1], None))]),
        (lambda: made._reduce_scatter_base(t, torch.zeros(12), reduce_op.AVG), [("reduce_scatter", 4, 0, 4, FLOAT, (48, 72), (None, None))]),
        (lambda: made.reduce_scatter_tensor_coalesced([t], [torch.zeros(12)]), [("reduce_scatter", 4, 0, 0, FLOAT, (48, 72), (None, None))]),
        (lambda: made.alltoall_base(torch.zeros(6, dtype=torch.int64), six, [], []), [("all_to_all", 2, 0, 0, LONG, (48, 72), (None, None))]),
        (lambda: made.alltoall_base(torch.zeros(4, 3), columns, [1, 0, 3], [2, 2, 0]), [("all_to_all", 0, 0, 0, FLOAT, (48, 72), ([6, 6, 0], [3, 0, 9]))]),
        (lambda: made.alltoall_base(torch.zeros(3, 3), torch.zeros(4, 3), [], [2, 2, 0]), [("all_to_all", 0, 0, 0, FLOAT, (48, 72), ([6, 6, 0], [3, 3, 3]))]),
        (lambda: made.alltoall(uneven, blocks), [("all_to_all", 0, 0, 0, FLOAT, (48, 72), ([4, 4, 4], [2, 4, 1]))]),
        (lambda: made.barrier(), [("barrier", 0, 0, 0, 1, (None, None), (None, None))]),
        (lambda: made.send([t], 2, 5), [("send", 4, 2, 0, FLOAT, (16, None), (None, None))]),
        (lambda: made.recv([t], 0), [("recv", 4, 0, 0, FLOAT, (None, 72), (None, None))]),
        (lambda: made.recv_anysource([t]), [("recv", 4, -1, 0, FLOAT, (None, 72), (None, None))]),
        (lambda: made.broadcast([torch.zeros(2, dtype=torch.float8_e5m2)], root0), [("broadcast", 2, 0, 0, 1, (None, 72), (None, None))]),
        (lambda: made.broadcast([torch.zeros(2, dtype=torch.int16)], root0), [("broadcast", 4, 0, 0, 1, (None, 72), (None, None))]),
        (lambda: made.broadcast([torch.zeros(0)], root1), [("broadcast", 0, 1, 0, FLOAT, (None, None), (None, None))]),
        (lambda: made.allreduce([columns[:, 1]]), [("all_reduce", 4, 0, 0, FLOAT, both, (None, None))]),
    ]
    for number, (call, expected) in enumerate(table):
        CLIENT.calls.clear()
        work = call()
        got = [(one.kind, one.count, one.root, one.op, one.dtype, tuple(one.sides), tuple(one.counts)) for one in CLIENT.calls]
        assert got == [(CLIENT.kind(kind), *rest) for kind, *rest in expected], (number, got, expected)
        assert all(one.members == SIZE and not one.observed and one.stream == torch_client.NO_STREAM for one in CLIENT.calls)
        assert all(one.collects == (one.sides[1] is not None) or one.count == 0 for one in CLIENT.calls), number
        work.wait()
    assert [one.tag for one in CLIENT.calls] == [0]
    fresh()
    made.send([columns[:, 1]], 2, 5)
    made.alltoall([torch.zeros(1)] * 3, [torch.ones(1), torch.zeros(0), torch.ones(2)])
    assert (CLIENT.calls[0].tag, CLIENT.calls[0].purpose, CLIENT.calls[0].sent) == (5, b"the tag 5", raw(columns[:, 1])), CLIENT.calls[0]
    assert CLIENT.calls[1].sent == raw(torch.ones(3)) and CLIENT.calls[1].purpose is None and CLIENT.calls[1].shares == (True, False, 0, 1)
    assert made._get_sequence_number_for_group() == len(table) + 2
    # Received data goes into each tensor, whatever its strides.
    made = group()
    fresh()
    whole = torch.zeros(4, 3)
    made.allgather([[whole[:, 0], whole[:, 1], whole[:, 2]]], [t]).wait()
    assert whole[0].tolist() == [10, 11, 12] and bool((whole == whole[0]).all()), whole
    assert CLIENT.given == 2 and CLIENT.slots == [1], (CLIENT.given, CLIENT.slots)


def refusals():
    """Invalid calls, each beside a valid one."""
    t, made, opts = torch.zeros(4), group(), types.SimpleNamespace
    blocks = [torch.zeros(4) for _ in range(SIZE)]
    root = opts(rootRank=1, rootTensor=0)
    ints = torch.zeros(4, dtype=torch.int32)
    fresh()
    for word, call in (
            ("non-empty tensor list", lambda: made.allreduce([])), ("non-empty tensor list", lambda: made.allreduce_coalesced([])),
            ("cannot reduce", lambda: made.allreduce([torch.zeros(2, dtype=torch.int16)])),
            ("supports only the sum of COO tensors", lambda: made.allreduce([t.to_sparse()], dist.ReduceOp.MAX)),
            ("invalid root rank: 3", lambda: made.reduce([t], opts(rootRank=3, rootTensor=0))),
            ("invalid root rank: -1", lambda: made.broadcast([t], opts(rootRank=-1, rootTensor=0))),
            ("invalid root rank: 3", lambda: made.gather([], [t], opts(rootRank=3))), ("invalid root rank: 3", lambda: made.scatter([t], [], opts(rootRank=3))),
            ("invalid root tensor: 1", lambda: made.reduce([t], opts(rootRank=0, rootTensor=1))),
            ("invalid root tensor: 1", lambda: made.broadcast([t], opts(rootRank=0, rootTensor=1))),
            ("non-empty input tensor list", lambda: made.allgather([], [])), ("same length, not 1 and 2", lambda: made.allgather([blocks, blocks], [t])),
            ("2 blocks on 3 ranks", lambda: made.allgather([blocks[:2]], [t])), ("4 blocks on 3 ranks", lambda: made.allgather([blocks + [t]], [t])),
            ("5 elements into blocks of [4, 4, 4]", lambda: made.allgather([blocks], [torch.zeros(5)])),
            ("torch.float32, torch.int32", lambda: made.allgather([blocks], [ints])),
            ("all_gather of 4 elements on 3 ranks into 11", lambda: made._allgather_base(torch.zeros(11), t)),
            ("torch.float32, torch.int32", lambda: made._allgather_base(torch.zeros(12), ints)),
            ("empty output on non-root", lambda: made.gather([blocks], [t], opts(rootRank=0))),
            ("empty input on non-root", lambda: made.scatter([t], [blocks], opts(rootRank=0))),
            ("output list size 2", lambda: made.gather([blocks[:2]], [t], root)), ("input list size 4", lambda: made.scatter([t], [blocks + [t]], root)),
            ("reduce_scatter of blocks of [4, 4] on 3 ranks into 4", lambda: made.reduce_scatter([t], [blocks[:2]])),
            ("reduce_scatter of blocks of [4, 4, 4] on 3 ranks into 5", lambda: made.reduce_scatter([torch.zeros(5)], [blocks])),
            ("torch.float32, torch.int32", lambda: made.reduce_scatter([ints], [blocks])),
            ("reduce_scatter of 11 elements on 3 ranks into 4", lambda: made._reduce_scatter_base(t, torch.zeros(11))),
            ("torch.float32, torch.int32", lambda: made._reduce_scatter_base(ints, torch.zeros(12))),
            ("all_to_all of [4] into [4] on 3 ranks", lambda: made.alltoall_base(torch.zeros(4), t, [], [])),
            ("all_to_all of [6] into [3] on 3 ranks", lambda: made.alltoall_base(torch.zeros(3), torch.zeros(6), [], [])),
            ("torch.float32, torch.int32", lambda: made.alltoall_base(ints, t, [], [])),
            ("all_to_all of 2 into 3 tensors", lambda: made.alltoall(blocks, blocks[:2])), ("all_to_all of 3 into 2 tensors", lambda: made.alltoall(blocks[:2], blocks)),
            ("torch.float32, torch.int32", lambda: made.alltoall(blocks, [ints] * 3)),
            ("single-element", lambda: made.send([t, t], 0)), ("single-element", lambda: made.reduce([t, t], root)), ("single-element", lambda: made.broadcast([t, t], root))):
        refused(word, call)
    assert not CLIENT.calls and made._get_sequence_number_for_group() == 0


def groups():
    """Members join under one identity for each group of a name, and leave once."""
    fresh()
    torch_backend.MADE.clear()
    torch_backend.DESCRIPTIONS["7"] = "tensor parallel"
    made = [group(0, 2, name) for name in ("", "0", "default_pg", "7", "8", "8")]
    assert [one.title for one in made] == ["world"] * 3 + ["group 7 (tensor parallel)", "group 8", "group 8"]
    identities = [joined[0] for joined in CLIENT.joined]
    assert len(set(identities)) == 6 and all(len(one) == torch_client.ID_BYTES for one in identities)
    assert CLIENT.joined[3][1:] == (2, 0, "group 7 (tensor parallel)")
    joined, store = CLIENT.joined, torch.distributed.HashStore()
    for at in (dist.PrefixStore("1", store), dist.PrefixStore("1", store), dist.PrefixStore("2", store)):
        torch_backend.MADE.clear()  # as another process
        torch_backend.ProcessGroup(0, 2, "8", [0, 1], at)
    torch_backend.ProcessGroup(0, 2, "8", [0, 1], at)  # once more
    of_store = [one[0] for one in joined[6:]]
    assert of_store[0] == of_store[1] and len(set(of_store)) == 3 and not set(of_store) & set(identities), of_store
    torch_backend.ProcessGroup(0, 2, "9", [0, 1], torch.distributed.Store())  # which lacks compare_set
    one = made[4]
    assert (one.size(), one.rank(), one.name(), one.getBackendName(), one.group_name, one.pg_name) == (2, 0, "lockstep", "lockstep", "8", "8")
    assert one._get_backend(None) is one and one._device_types == [torch.device("cpu")]
    one.barrier().wait()
    one.shutdown()
    one.shutdown()
    CLIENT.finished = False
    made[5].barrier()
    made[5].abort()
    assert CLIENT.left == [(5, False), (6, True)], CLIENT.left
    made[3]._sequence = 9
    made[3]._set_sequence_number_for_group()
    assert made[3]._get_sequence_number_for_group() == 0


def works():
    """A call's end: its waits, the copy of its result, and the results and errors of its future."""
    made, t = group(), torch.zeros(2)
    fresh()
    CLIENT.finished = False
    work = made.allreduce([t])
    assert not work.asked and not work.is_completed() and work.asked == ["is_completed"] and t.tolist() == [0, 0]
    assert not work.is_success() and not CLIENT.waited
    CLIENT.finished = True
    assert work.is_completed() and work.is_success() and t.tolist() == [10, 10] and CLIENT.waited == [(1, False)]
    t.zero_()
    assert work.wait() and t.tolist() == [0, 0] and CLIENT.slots == [1] and work.exception() is None
    assert work._source_rank() == 2 and work.result() == [t]
    work = made.allreduce([t])
    assert work.wait() and CLIENT.waited[-1] == (2, True) and work.asked == ["wait"] and t.tolist() == [20, 20]
    assert work.get_future().value() == [t] and work.get_future() is work.get_future()
    work = made.allreduce([t])
    assert work.get_future().wait()[0] is t and work.asked == ["get_future"] and CLIENT.waited[-1] == (3, False) and CLIENT.slots == [1, 2, 3]
    assert work.wait() and CLIENT.slots == [1, 2, 3]
    # A barrier completes earlier calls; so does the next call for those that are done.
    CLIENT.finished = False
    first, second = made.allreduce([t]), made.barrier()
    assert list(made._pending) == [first, second]
    second.wait()
    assert CLIENT.waited[-2:] == [(5, True), (4, False)] and first._complete and t.tolist() == [40, 40]
    made.barrier()
    assert len(made._pending) == 1
    # Another call asks for the oldest alone: many that are not complete cost no time.
    asked = CLIENT.asked
    made.barrier()
    made.barrier()
    assert CLIENT.asked == asked + 2 and len(made._pending) == 3
    # A run that is over: the error is the client's, at each wait, and no result is copied.
    CLIENT.finished, CLIENT.fails = False, True
    t.zero_()
    work = made.allreduce([t])
    for _ in range(2):
        refused("the run is over", work.wait)
    assert t.tolist() == [0, 0] and not work.is_success() and "the run is over" in str(work.exception())
    future = work.get_future()
    refused("the run is over", future.wait)
    # If no thread may start any more, the future itself waits, like the program.
    fresh()
    CLIENT.finished, torch_work.Waiter._ending = False, True
    work = made.allreduce([t])
    assert work.get_future().done() and CLIENT.waited == [(1, True)] and CLIENT.slots == [1]
    torch_work.Waiter._ending = False


def asked_again():
    """A complete call is not asked for again, and its future does not wait. The profile has each call."""
    made, t = group(), torch.zeros(2)
    fresh()
    work = made.allreduce([t])
    work.wait()
    asked = CLIENT.asked
    assert work.is_completed() and CLIENT.asked == asked
    work._waiting = 1  # another thread is still in its wait
    work.get_future()
    assert work._waiting == 1
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        made.allreduce([t]).wait()
        made.recv_anysource([t]).wait()
        made.recv([t], 0).wait()
    titles = [event.name.partition(":")[2] for event in profile.events() if ":" in event.name]
    assert {"all_reduce", "recvAnySource", "recv"} <= set(titles) and titles.count("recv") == 1, titles


def sparse():
    made = group(0, 1, "alone")
    fresh()
    parts = made.gather_entries
    made.gather_entries = lambda tensor: ([torch.tensor([[0], [2]]), torch.tensor([[2]])], [torch.tensor([1.0, 2.0]), torch.tensor([3.0])])
    tensor = torch.zeros(4).to_sparse()
    made.allreduce([tensor])
    assert tensor.to_dense().tolist() == [1, 0, 5, 0], tensor
    assert callable(parts)


def clients():
    """The connection through ctypes: without a coordinator each failing step gives the reason."""
    refused("was not started by lockstep exec", torch_client.Client)
    library = ctypes.CDLL(sys.argv[2], ctypes.RTLD_GLOBAL)
    torch_client.check_layout(library)
    refused("lockstep: ", torch_client.Client)
    refused("of different versions", lambda: torch_client.check_layout(types.SimpleNamespace()))
    bare = object.__new__(torch_client.Client)
    bare._functions, bare._self = {"said": lambda: b"lockstep: it is over", "dtype": lambda number: [b"int8", b"float", None][number]}, 1
    assert bare.dtypes() == ["int8", "float"]
    for status, said in ((-1, "lockstep: it is over"), (3, "lockstep: it is over")):
        refused(said, lambda status=status: bare._check(status))
    bare._functions["said"] = lambda: None
    refused("lockstep: ", lambda: bare._check(1))
    bare._check(0)
    assert list(torch_client.counts([3, 0])) == [3, 0]


def registered():
    """The backend is in the set of those to whose groups torch 2.15 attaches no flight recorder."""
    core, kept = dist.distributed_c10d, dist.Backend.register_backend
    core._FR_SELF_RECORDING_BACKENDS, dist.Backend.register_backend = set(), lambda *given, **options: None
    dist.Backend._plugins.pop("LOCKSTEP", None)
    torch_backend.register()
    dist.Backend.register_backend = kept
    assert core._FR_SELF_RECORDING_BACKENDS == {"lockstep"}


def main():
    for test in (clients, calls, refusals, groups, works, asked_again, sparse, registered):
        test()
    reductions.by_hand(CLIENT, fresh, group)
    buffers.owned(CLIENT, fresh, group)
    noted.main(CLIENT, fresh, FLOAT)
    steppers.main(CLIENT, fresh, group, noted.Wrapper)
    noted.installed()  # last: torch's own classes are changed from here on
    gc.collect()
    return 0


sys.exit(main())
