"""Data of a backend call: the shared memory with what it sends, and the tensors for what it receives."""

import ctypes

import torch

from lockstep import torch_client as client


class Staged:
    """Blocks of tensors, one after another, in shared memory."""

    def __init__(self, tensors):
        self.tensors = tensors
        self.region = client.get().take(sum(tensor.nbytes for tensor in tensors))

    def fill(self):
        at = self.region.at
        for tensor in self.tensors:
            if tensor.nbytes:
                whole = tensor.contiguous()
                ctypes.memmove(at, whole.data_ptr(), whole.nbytes)
                at += tensor.nbytes

    def give(self):
        client.get().give(self.region)


class Named:
    """Tensors whose data nobody keeps."""

    def __init__(self, tensors):
        self.tensors, self.region = tensors, client.Region(memory=client.NONE)

    def fill(self):
        pass

    give = fill


class Collected:
    """Tensors that receive data, one after another, from any source."""

    def __init__(self, tensors, members):
        self.tensors = tensors
        self.region = client.get().take(members * client.PIECE_BYTES if any(tensor.nbytes for tensor in tensors) else 0)

    def read(self, slot):
        if self.region.memory == client.NONE:
            return
        whole = [tensor if tensor.is_contiguous() else torch.empty_like(tensor, memory_format=torch.contiguous_format)
                 for tensor in self.tensors]
        client.get().collect(slot, self.region, whole)
        with torch.no_grad():
            for tensor, read in zip(self.tensors, whole):
                if read is not tensor:
                    tensor.copy_(read)

    def give(self):
        client.get().give(self.region)


class Issued:
    """A call that was issued: the slot that answers it, and its sent and received tensors."""

    def __init__(self, slot, sent, got, title):
        self.slot, self.sent, self.got, self.title = slot, sent, got, title
        self.beside = self.then = None  # an accompanying call; an action at its end

    def slots(self):
        return [self.slot] if self.beside is None else [self.slot, *self.beside.slots()]

    def end(self, done):
        if done and self.got is not None:
            self.got.read(self.slot)
        self.give()
        if self.beside is not None:
            self.beside.end(done)
        if self.then is not None:
            self.then(done)

    def give(self):
        for buffer in (self.sent, self.got):
            if buffer is not None:
                buffer.give()
