"""The backend `lockstep` of torch.distributed, for tensors in host memory.

Every collective of a process group goes to the coordinator of `lockstep exec`, which matches the calls of all ranks, checks them and moves
the data. A call copies the data that it sends to shared memory and returns. Its result is copied to the output tensors during the wait for
it, or when its future completes.
"""

import collections
import functools
import hashlib
import os
import secrets
import threading

import torch
import torch.distributed as dist

from lockstep import names, watch
from lockstep import torch_client as client
from lockstep.torch_arguments import Refused, as_list, blocks_of, gaps, only, same_type, sharing
from lockstep.torch_data import Collected, Issued, Staged
from lockstep.torch_work import Profiled, Work

# The names of kinds, and the numbers of operations (base/dtype.h).
ALL_REDUCE, REDUCE, BROADCAST, ALL_GATHER = "all_reduce", "reduce", "broadcast", "all_gather"
REDUCE_SCATTER, ALL_TO_ALL, GATHER, SCATTER = "reduce_scatter", "all_to_all", "gather", "scatter"
BARRIER, SEND, RECV = "barrier", "send", "recv"
OPS = {"SUM": 0, "PRODUCT": 1, "MAX": 2, "MIN": 3, "AVG": 4, "BAND": 6, "BOR": 7, "BXOR": 8}
U8 = 1
DESCRIPTIONS = {}  # of groups, by name, as new_group and DeviceMesh pass them
MADE = {}  # how often this process has created a group of a name in a store


@functools.lru_cache(maxsize=None)
def types():
    """torch's types: lockstep's number, and how many lockstep elements one has. These can be reduced."""
    known = {}
    for number, name in enumerate(client.get().dtypes()):
        name = name.lower()
        known[getattr(torch, {"char": "int8", "byte": "uint8"}.get(name, name), None)] = (number, 1)
    known[torch.complex64], known[torch.complex128] = (known[torch.float32][0], 2), (known[torch.float64][0], 2)
    return known


def element(tensor, reduces):
    """The number of the tensor's type and how many of its elements one tensor element has."""
    known = types().get(tensor.dtype)
    if known is not None:
        return known
    if reduces and tensor.dtype is not torch.bool:
        raise client.Error(f"lockstep cannot reduce {tensor.dtype}")
    return U8, tensor.element_size()


def operation(op, tensor):
    op = getattr(op, "reduceOp", op)
    name = getattr(op, "op", op).name
    if name not in OPS:
        raise client.Error(f"lockstep does not support the reduce operation {name} on host memory")
    if tensor.dtype.is_complex and name not in ("SUM", "AVG"):
        raise client.Error(f"lockstep: {name} of complex numbers")
    if tensor.dtype is torch.bool:  # True stays 1
        name = {"SUM": "MAX", "PRODUCT": "MIN"}.get(name, name)
    return OPS[name]


APART = 1 << 61  # base of an address: the coordinator cannot compare blocks that are checked here as byte ranges


def address(tensors):
    return next((tensor.data_ptr() for tensor in tensors if tensor.numel()), 0)


def _paired(outputs, inputs):
    if len(outputs) != len(inputs):
        raise ValueError(f"lockstep: {len(inputs)} inputs and {len(outputs)} outputs")
    return zip(outputs, inputs)


def identity_of(name, store):
    """A mark that the members of a group share, and no other group has. init_process_group restarts the numbers of groups, so ranks may
    have created different numbers of groups with one name: the first member writes a mark into the group's store.
    """
    try:
        mark = store.compare_set("lockstep", "", secrets.token_hex(16)) if store is not None else ""
    except RuntimeError:  # the store has ended or lacks the operation
        mark = ""
    key = (name, mark)
    MADE[key] = MADE.get(key, 0) + 1
    return hashlib.sha512(f"{name} {mark} {MADE[key]}".encode()).digest().ljust(client.ID_BYTES, b"\0")


class ProcessGroup(dist.ProcessGroup):
    observed = False  # another library moves the data
    staged = Staged
    beside = None  # makes a call that accompanies each call (proof/collectives.py)

    def __init__(self, rank, size, name="", members=(), store=None):
        super().__init__(rank, size)
        self._rank, self._size, self._name, self._members = rank, size, name, list(members)
        self._sequence, self._pending, self._keeping = 0, collections.deque(), threading.Lock()
        self.owning = self.owned_to = 0  # asynchronous calls of the program; the last one that a barrier waits for
        self.asked = "lockstep"  # the backend that this one replaces
        whole = size == dist.get_world_size() if dist.is_initialized() else True
        described = f" ({DESCRIPTIONS[name]})" if DESCRIPTIONS.get(name) else ""
        self.title = "world" if whole and name in ("", "0", "default_pg") else f"group {name}{described}"
        self._comm = client.get().join(identity_of(name, store), size, rank, self.title)

    def _get_backend(self, device):
        return self

    def size(self):
        return self._size

    def rank(self):
        return self._rank

    @property
    def _device_types(self):
        return [torch.device("cpu")]

    def getBackendName(self):
        return "lockstep"

    def name(self):
        return "lockstep"

    @property
    def group_name(self):
        return self._name

    @property
    def pg_name(self):
        return self._name

    # ---- Calls ----
    def _issue(self, kind, like, send=None, recv=None, count=0, op=0, root=0, send_counts=None, recv_counts=None,
               reduces=False, tag=0):
        """One call and its accompanying call; counts are in elements of `like`."""
        options = {"count": count, "op": op, "root": root, "send_counts": send_counts, "recv_counts": recv_counts, "tag": tag}
        found = gaps(kind, send, recv) if not self.observed else None
        if found is not None:
            client.get().note("call.invalid", found)
        issued = self._issue_one(kind, like, send, recv, reduces=reduces, **options)
        if self.beside is not None and like is not None:
            issued.beside = self.beside(
                self, lambda kind=kind, **changed: self._issue_one(kind, reduces=reduces, **{**options, **changed}),
                send, recv, reduces, options)
        return issued

    def _issue_one(self, kind, like, send=None, recv=None, count=0, op=0, root=0, send_counts=None, recv_counts=None,
                   reduces=False, tag=0):
        if self._comm is None:
            raise client.Error(f"lockstep: {kind} on a process group that was destroyed")
        dtype, times = element(like, reduces) if like is not None else (U8, 1)
        sent = self.staged(send) if send is not None else None
        if sent is not None:
            sent.fill()
        got = None
        if recv is not None:
            got = self.staged(recv) if self.observed else Collected(recv, self._size)
        purpose = names.purpose(like.numel() if like is not None else 0)
        if tag:
            purpose = f"the tag {tag}" + (f", {purpose}" if purpose else "")
        call = client.Call(comm=self._comm, kind=client.get().kind(kind), dtype=dtype, op=op, root=root, members=self._size,
                           tag=tag, count=count * times, stream=client.NO_STREAM, observed=self.observed,
                           collects=got is not None and not self.observed, purpose=purpose.encode() if purpose else None)
        for side, buffer in (("send", sent), ("recv", got)):
            given = send_counts if side == "send" else recv_counts
            if given is not None:
                setattr(call, side + "_counts", client.counts([value * times for value in given]))
            setattr(call, side, buffer.region if buffer is not None else client.Region(memory=client.NONE))
            setattr(call, side + "_address", address(buffer.tensors) if buffer is not None else 0)
        if got is not None and call.recv_address:
            self._compare_blocks(call, kind, sent.tensors if sent is not None else [], got.tensors)
        title = "recvAnySource" if kind == RECV and root == -1 else kind
        return Issued(client.get().issue(call), sent, got, title)

    def _compare_blocks(self, call, kind, send, recv):
        """The coordinator compares two ranges of bytes; others are compared here."""
        if all(len(side) <= 1 and all(tensor.is_contiguous() for tensor in side) for side in (send, recv)):
            return
        found = sharing(kind, self._rank, send, recv)
        if found is not None:
            call.shares, call.shares_sent, call.shared[0], call.shared[1] = True, *found
        if call.send_address:
            call.recv_address = call.send_address ^ APART

    def _work(self, calls, tensors, after=()):
        self._sequence += 1

        def finish(done):
            for call in calls:
                call.end(done)
            for work in after:
                work.finish()

        profiled = Profiled(f"{self.asked}:{calls[0].title if calls else ''}")
        owner = watch.issued(self, calls) if calls and not self.observed else None
        work = Work([slot for call in calls for slot in call.slots()], finish, tensors, profiled, owner)
        self._keep(work)
        return work

    def _keep(self, work):
        """Until it is complete: a result is copied even if the program drops the work."""
        first = self._oldest()
        while first is not None and first.over():
            with self._keeping:
                if self._pending and self._pending[0] is first:  # no other thread took it
                    self._pending.popleft()
            first = self._oldest()
        self._pending.append(work)

    def _oldest(self):
        with self._keeping:
            return self._pending[0] if self._pending else None

    # ---- Collectives ----
    def allreduce(self, tensors, opts=None, timeout=None):
        tensors = as_list(tensors)
        op = opts if opts is not None else dist.ReduceOp.SUM
        if only(tensors, "all_reduce").layout is not torch.strided:
            return self._sparse_sum(tensors[0], op)
        return self._reduced(tensors, op)

    def allreduce_coalesced(self, tensors, opts=None, timeout=None):
        if not tensors:
            raise Refused("all_reduce requires non-empty tensor list")
        return self._reduced(as_list(tensors), opts if opts is not None else dist.ReduceOp.SUM)

    def _reduced(self, tensors, op):
        work = self._work([self._issue(ALL_REDUCE, tensor, [tensor], [tensor], tensor.numel(), operation(op, tensor),
                                       reduces=True) for tensor in tensors], tensors)
        if not self.observed:
            watch.reduced(self, tensors, work)
        return work

    def _sparse_sum(self, tensor, op):
        """Each member's entries, gathered and summed in rank order; blocking."""
        if operation(op, tensor) != OPS["SUM"] or not tensor.is_sparse:
            raise client.Error("lockstep: an all_reduce of sparse tensors supports only the sum of COO tensors")
        parts = self.gather_entries(tensor)
        whole = torch.sparse_coo_tensor(torch.cat(parts[0]).t(), torch.cat(parts[1]), tensor.shape).coalesce()
        tensor.copy_(whole)
        return self._work([], [tensor])

    def gather_entries(self, tensor):
        """The indices and the values of all members, one block for each."""
        mine = tensor.coalesce()
        entries = [torch.zeros(1, dtype=torch.int64) for _ in range(self._size)]
        self.allgather([entries], [torch.tensor([mine._nnz()])]).wait()
        parts = []
        for part in (mine.indices().t().contiguous(), mine.values()):
            blocks = [part.new_empty(int(count), *part.shape[1:]) for count in entries]
            self.allgather([blocks], [part]).wait()
            parts.append(blocks)
        return parts

    def reduce(self, tensors, opts=None, op=None, timeout=None):
        root = self._root(opts.rootRank if hasattr(opts, "rootRank") else opts, "reduce")
        self._root_tensor(opts, "reduce")
        tensor = only(tensors, "reduce")
        recv = [tensor] if root == self._rank else None
        return self._work([self._issue(REDUCE, tensor, [tensor], recv, tensor.numel(),
                                       operation(op if op is not None else opts, tensor), root, reduces=True)], [tensor])

    def broadcast(self, tensors, opts=None, timeout=None, root=0):
        root = self._root(opts.rootRank if hasattr(opts, "rootRank") else root if opts is None else opts, "broadcast")
        self._root_tensor(opts, "broadcast")
        tensor = only(tensors, "broadcast")
        send = [tensor] if root == self._rank else None
        work = self._work([self._issue(BROADCAST, tensor, send, [tensor], tensor.numel(), root=root)], [tensor])
        watch.broadcast(self, tensor, work)
        return work

    def allgather(self, outputs, inputs, opts=None, timeout=None):
        if isinstance(inputs, torch.Tensor):
            outputs, inputs = [outputs], [inputs]
        if not inputs:
            raise Refused("all_gather requires non-empty input tensor list")
        if len(outputs) != len(inputs):
            raise Refused("all_gather requires input/output tensor lists to have the same length, not "
                             f"{len(inputs)} and {len(outputs)}")
        return self._work([self._gathered(blocks, tensor) for blocks, tensor in _paired(outputs, inputs)],
                          outputs[0] if len(outputs) == 1 else outputs)

    def _gathered(self, blocks, tensor):
        same_type([tensor, *blocks], "all_gather")
        if len(blocks) != self._size:
            raise Refused(f"all_gather: invalid output tensor list of {len(blocks)} blocks on {self._size} ranks")
        sizes = [block.numel() for block in blocks]
        if sizes[self._rank] != tensor.numel():
            raise Refused(f"all_gather: invalid tensor size: {tensor.numel()} elements into blocks of {sizes}")
        uneven = sizes if len(set(sizes)) > 1 else None
        return self._issue(ALL_GATHER, tensor, [tensor], blocks, tensor.numel(), recv_counts=uneven)

    def _root(self, root, what):
        if not 0 <= root < self._size:
            raise Refused(f"{what}: invalid root rank: {root}")
        return root

    @staticmethod
    def _root_tensor(opts, what):
        if getattr(opts, "rootTensor", 0) != 0:
            raise Refused(f"{what}: invalid root tensor: {opts.rootTensor}")

    def _whole_gathered(self, output, tensor):
        same_type([tensor, output], "all_gather")
        if output.numel() != tensor.numel() * self._size:
            raise Refused(f"all_gather of {tensor.numel()} elements on {self._size} ranks into {output.numel()}")
        return self._issue(ALL_GATHER, tensor, [tensor], [output], tensor.numel())

    def _allgather_base(self, output, tensor, opts=None, timeout=None):
        return self._work([self._whole_gathered(output, tensor)], [output])

    all_gather_single = _allgather_base

    def allgather_into_tensor_coalesced(self, outputs, inputs, opts=None):
        return self._work([self._whole_gathered(output, tensor)
                           for output, tensor in _paired(outputs, inputs)], list(outputs))

    def allgather_coalesced(self, outputs, inputs, opts=None):
        return self._work([self._gathered([blocks[i] for blocks in outputs], tensor)
                           for i, tensor in enumerate(inputs)], outputs)

    def gather(self, outputs, inputs, opts=None, timeout=None):
        root = self._root(opts.rootRank if hasattr(opts, "rootRank") else opts, "gather")
        tensor = only(inputs, "gather", "input tensor list")
        if root != self._rank and outputs:
            raise Refused("gather requires empty output on non-root")
        blocks = blocks_of(outputs, tensor, self._size, "gather", "output") if root == self._rank else None
        return self._work([self._issue(GATHER, tensor, [tensor], blocks, tensor.numel(), root=root)], blocks or [])

    def scatter(self, outputs, inputs, opts=None, timeout=None):
        root = self._root(opts.rootRank if hasattr(opts, "rootRank") else opts, "scatter")
        tensor = only(outputs, "scatter", "output tensor list")
        if root != self._rank and inputs:
            raise Refused("scatter requires empty input on non-root")
        blocks = blocks_of(inputs, tensor, self._size, "scatter", "input") if root == self._rank else None
        return self._work([self._issue(SCATTER, tensor, blocks, [tensor], tensor.numel(), root=root)], [tensor])

    def reduce_scatter(self, outputs, inputs, opts=None, timeout=None):
        if isinstance(outputs, torch.Tensor):
            outputs, inputs = [outputs], [inputs]
        op = opts if opts is not None else dist.ReduceOp.SUM
        calls = []
        for output, blocks in _paired(outputs, inputs):
            same_type([output, *blocks], "reduce_scatter")
            sizes = [block.numel() for block in blocks]
            if len(sizes) != self._size or sizes[self._rank] != output.numel():
                raise Refused(f"reduce_scatter of blocks of {sizes} on {self._size} ranks into {output.numel()}")
            calls.append(self._issue(REDUCE_SCATTER, output, blocks, [output], output.numel(), operation(op, output),
                                     send_counts=sizes if len(set(sizes)) > 1 else None, reduces=True))
        return self._work(calls, list(outputs))

    def _whole_scattered(self, output, tensor, op):
        same_type([tensor, output], "reduce_scatter")
        if tensor.numel() != output.numel() * self._size:
            raise Refused(f"reduce_scatter of {tensor.numel()} elements on {self._size} ranks into {output.numel()}")
        return self._issue(REDUCE_SCATTER, output, [tensor], [output], output.numel(), operation(op, output),
                           reduces=True)

    def _reduce_scatter_base(self, output, tensor, opts=None, timeout=None):
        op = opts if opts is not None else dist.ReduceOp.SUM
        return self._work([self._whole_scattered(output, tensor, op)], [output])

    reduce_scatter_single = _reduce_scatter_base

    def reduce_scatter_tensor_coalesced(self, outputs, inputs, opts=None):
        op = opts if opts is not None else dist.ReduceOp.SUM
        return self._work([self._whole_scattered(output, tensor, op)
                           for output, tensor in _paired(outputs, inputs)], list(outputs))

    def alltoall_base(self, output, tensor, output_splits, input_splits, opts=None, timeout=None):
        same_type([tensor, output], "all_to_all")
        if not output_splits and not input_splits:
            if tensor.numel() != output.numel() or tensor.size(0) % self._size:
                raise Refused(f"all_to_all of {list(tensor.shape)} into {list(output.shape)} on {self._size} ranks")
            return self._work([self._issue(ALL_TO_ALL, tensor, [tensor], [output], tensor.numel() // self._size)],
                              [output])
        return self._work([self._issue(ALL_TO_ALL, tensor, [tensor], [output],
                                       send_counts=self._blocks(tensor, input_splits, "input"),
                                       recv_counts=self._blocks(output, output_splits, "output"))], [output])

    def _blocks(self, tensor, splits, side):
        rows = tensor.size(0) if tensor.dim() else tensor.numel()
        splits = list(splits) if splits else [rows // self._size] * self._size
        if len(splits) != self._size or sum(splits) != rows or min(splits) < 0:
            raise Refused(f"all_to_all: {side} splits {splits} of {rows} rows on {self._size} ranks")
        width = tensor.numel() // rows if rows else 0
        return [split * width for split in splits]

    def alltoall(self, outputs, inputs, opts=None, timeout=None):
        same_type([*outputs, *inputs], "all_to_all")
        if len(outputs) != self._size or len(inputs) != self._size:
            raise Refused(f"all_to_all of {len(inputs)} into {len(outputs)} tensors on {self._size} ranks")
        return self._work([self._issue(ALL_TO_ALL, inputs[0], list(inputs), list(outputs),
                                       send_counts=[tensor.numel() for tensor in inputs],
                                       recv_counts=[tensor.numel() for tensor in outputs])], list(outputs))

    def barrier(self, opts=None, timeout=None):
        """Complete when all earlier calls of this rank are complete."""
        self.owned_to = self.owning
        return self._work([self._issue(BARRIER, None)], [], after=list(self._pending))

    def monitored_barrier(self, timeout=None, wait_all_ranks=False):
        self.barrier().wait()

    # ---- Messages ----
    def _message(self, kind, tensors, peer, tag):
        tensor = only(tensors, "a message")
        sends = [tensor] if kind == SEND else None
        return self._work([self._issue(kind, tensor, sends, [tensor] if kind == RECV else None, tensor.numel(),
                                       root=peer, tag=tag)], [tensor])

    def send(self, tensors, peer, tag=0):
        return self._message(SEND, tensors, peer, tag)

    def recv(self, tensors, peer, tag=0):
        return self._message(RECV, tensors, peer, tag)

    def recv_anysource(self, tensors, tag=0):
        return self._message(RECV, tensors, -1, tag)

    # ---- torch's queries of a group ----
    def _set_sequence_number_for_group(self):
        self._sequence = 0

    def _get_sequence_number_for_group(self):
        return self._sequence

    def _leave(self, in_flight):
        comm, self._comm, self.owned_to = self._comm, None, self.owning
        self._pending.clear()
        if comm is None:
            return
        try:
            client.get().leave(comm, in_flight)
        except client.Error:  # the run is over and has reported why
            pass

    def shutdown(self):
        self._leave(in_flight=not all([work.over() for work in self._pending]))

    abort = shutdown


def create(options, _backend_options=None):
    names.watch_ddp()
    made = ProcessGroup
    if os.environ.get("LOCKSTEP_EXEC_REAL") == "gloo":
        from lockstep import torch_observed

        made = torch_observed.over(dist.ProcessGroupGloo(options.store, options.group_rank, options.group_size, options.timeout))
    return made(options.group_rank, options.group_size, options.group_id, options.global_ranks_in_group, options.store)


def register():
    if "LOCKSTEP" not in dist.Backend._plugins:
        dist.Backend.register_backend("lockstep", create, extended_api=True, devices=["cpu"])
        # Since torch 2.15 it attaches its flight recorder to the groups of other backends.
        getattr(dist.distributed_c10d, "_FR_SELF_RECORDING_BACKENDS", set()).add("lockstep")
