"""Correct ways to train a model on several ranks, beside one rank: ways.py LOCKSTEP PYTHON_FOLDER. None is wrong.

The program itself is ways.py run FOLDER: it captures each way in a folder of its own."""
import json
import os
import subprocess
import sys
import tempfile

RANKS = 2
WAYS = {}


def way(function):
    WAYS[function.__name__] = function
    return function


@way
def turned_conv(lib):
    """DistributedSampler's permutation, visible only in the model's own input."""
    lib.train(lib.ddp(lib.model(conv=True)), conv=True, deal=True)


@way
def twice(lib):
    lib.train(lib.ddp(lib.model(twice=True)))


@way
def sparse(lib):
    model = lib.ddp(lib.model(sparse=True))
    lib.train(model, lib.torch.optim.SGD(model.parameters(), 0.1))


@way
def clipped_in_place(lib):
    def clip(model):
        norm = lib.torch.stack([p.grad.square().sum() for p in model.parameters()]).sum().sqrt()
        for parameter in model.parameters():
            parameter.grad /= norm
    lib.train(lib.ddp(lib.model()), after=clip)


@way
def narrow_adam(lib):
    """Gradients that are only rounding become whole steps."""
    model = lib.ddp(lib.model().to(lib.torch.bfloat16))
    lib.train(model, lib.torch.optim.AdamW(model.parameters(), 0.01))


@way
def rounded_hook(lib):
    from torch.distributed.algorithms.ddp_comm_hooks import default_hooks

    model = lib.ddp(lib.model())
    if lib.ranks > 1:
        model.register_comm_hook(None, default_hooks.bf16_compress_hook)
    lib.train(model)


@way
def wrapped(lib):
    """The wrapper of torch.compile around DDP's, without the compiler."""
    class Wrapper(lib.torch.nn.Module):
        def __init__(self, inner):
            super().__init__()
            self._orig_mod = inner

        def forward(self, inputs):
            return self._orig_mod(inputs)

    lib.train(Wrapper(lib.ddp(lib.model())))


def flat(lib, **options):
    """Parameters stored as parts of flat ones are not compared, and listed."""
    from torch.distributed.fsdp import FullyShardedDataParallel
    from torch.distributed.fsdp.wrap import ModuleWrapPolicy

    model = lib.model()
    if lib.ranks > 1:
        linear = ModuleWrapPolicy({lib.torch.nn.Linear})
        model = FullyShardedDataParallel(model, auto_wrap_policy=linear, device_id=lib.torch.device("cpu"), **options)
    lib.train(model)


@way
def flat_parameters(lib):
    flat(lib)


@way
def parts_of_flat_parameters(lib):
    flat(lib, use_orig_params=True)


@way
def pipeline(lib):
    from torch.distributed.pipelining import PipelineStage, ScheduleGPipe

    torch, lockstep = lib.torch, lib.lockstep
    torch.manual_seed(0)
    parts = torch.nn.ModuleDict({str(at): torch.nn.Sequential(torch.nn.Linear(12, 12), torch.nn.Tanh()) for at in range(RANKS)})

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = parts

        def forward(self, inputs):
            for layer in self.layers.values():
                inputs = layer(inputs)
            return inputs

    model, loss = Model(), torch.nn.functional.mse_loss
    if lib.ranks > 1:
        del parts[str(1 - lib.rank)]
        schedule = ScheduleGPipe(PipelineStage(model, lib.rank, lib.ranks, torch.device("cpu")), 4, loss_fn=loss)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    inputs, target = torch.randn(8, 12), torch.randn(8, 12)
    with lockstep.capture(model, lib.path):
        if lib.ranks == 1:
            loss(model(inputs), target).backward()
        else:
            schedule.step(*([inputs] if lib.rank == 0 else []), **({"target": target} if lib.rank == 1 else {}))
        optimizer.step()


@way
def gathered(lib):
    """Context parallelism: each rank has the keys of all rows, so it has a term of their gradient."""
    torch, dist = lib.torch, lib.torch.distributed

    class Gather(torch.autograd.Function):
        @staticmethod
        def forward(_, rows):
            every = rows.new_empty(lib.ranks * len(rows), rows.shape[1])
            dist.all_gather_into_tensor(every, rows.contiguous())
            return every

        @staticmethod
        def backward(_, gradient):
            own = gradient.new_empty(len(gradient) // lib.ranks, gradient.shape[1])
            dist.reduce_scatter_tensor(own, gradient.contiguous())
            return own

    class Attention(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.keys, self.last = torch.nn.Embedding(40, 16), torch.nn.Linear(16, 16), torch.nn.Linear(16, 8)

        def forward(self, inputs):
            queries = self.first(inputs).mean(1)
            keys = self.keys(Gather.apply(queries) if lib.ranks > 1 else queries)
            return self.last(torch.softmax(queries @ keys.t(), 1) @ keys)

    torch.manual_seed(0)
    lib.train(lib.ddp(Attention()))


def two_batches(lib, model, losses, conv=False):
    """Steps that take two batches, each shuffled in its own order. losses(model, batch, batch): each has a backward pass."""
    torch = lib.torch
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    with lib.lockstep.capture(model, lib.path):
        for step in range(2):
            made, batches = torch.Generator().manual_seed(step), []
            for _ in range(2):
                inputs = torch.randn(16, 3, 4, 4, generator=made) if conv else torch.randint(0, 40, (16, 4), generator=made)
                targets, rows = torch.randint(0, 8, (16,), generator=made), torch.randperm(16, generator=made)
                rows = (rows if lib.ranks > 1 else torch.arange(16)).chunk(lib.ranks)[lib.rank]
                batches.append((inputs[rows], targets[rows]))
            optimizer.zero_grad()
            for loss in losses(model, *batches):
                loss.backward()
            optimizer.step()


@way
def calls_with_orders(lib):
    """A model that two batches go through, with modules that each of them calls twice."""
    loss = lib.torch.nn.functional.cross_entropy
    two_batches(lib, lib.ddp(lib.model(twice=True)), lambda model, a, b: [loss(model(a[0]), a[1]) + loss(model(b[0]), b[1])])


@way
def micro_batches_with_orders(lib):
    loss = lib.torch.nn.functional.cross_entropy
    two_batches(lib, lib.ddp(lib.model(conv=True)), lambda model, a, b: (loss(model(x), y) for x, y in (a, b)), conv=True)


def joined_towers(lib, of_one):
    """Two inputs, each in an order of its own, through two modules or one, joined for the last one."""
    torch = lib.torch

    class Towers(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = lib.model(), None if of_one else lib.model()
            self.head = torch.nn.Linear(8, 8)

        def forward(self, x, y):
            return self.head(torch.cat([self.first(x), (self.second or self.first)(y)]))

    torch.manual_seed(0)
    two_batches(lib, lib.ddp(Towers()),
                lambda model, a, b: [torch.nn.functional.cross_entropy(model(a[0], b[0]), torch.cat([a[1], b[1]]))])


@way
def towers(lib):
    joined_towers(lib, False)


@way
def towers_of_one(lib):
    joined_towers(lib, True)


@way
def views(lib):
    """Two views of a batch that is distributed in blocks, joined."""
    torch = lib.torch

    class Views(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.body, self.head = lib.model(), torch.nn.Linear(16, 8)

        def forward(self, inputs):
            both = self.body(torch.cat([inputs, 39 - inputs])).chunk(2)
            return self.head(torch.cat(both, 1)) + self.head(torch.cat([both[1], both[0]], 1))

    torch.manual_seed(0)
    lib.train(lib.ddp(Views()))


@way
def sequence_first(lib):
    """The batch is the second dimension, and rows of a sequence are flattened before it."""
    torch = lib.torch

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.rnn, self.last = torch.nn.Embedding(40, 16), torch.nn.LSTM(16, 16), torch.nn.Linear(16, 8)

        def forward(self, inputs):
            hidden, _ = self.rnn(self.first(inputs.t()))
            return self.last(hidden.reshape(-1, 16)).reshape(*hidden.shape[:2], 8).mean(0)

    torch.manual_seed(0)
    lib.train(lib.ddp(Model()), deal=True)


def ragged(lib, model, arguments, deal):
    """Rows of different lengths. arguments(rows): those of the model."""
    torch = lib.torch
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    with lib.lockstep.capture(model, lib.path):
        for step in range(2):
            made = torch.Generator().manual_seed(step)
            rows = [torch.randint(1, 40, (int(length),), generator=made) for length in torch.randint(2, 9, (16,), generator=made)]
            targets, order = torch.randint(0, 8, (16,), generator=made), torch.randperm(16, generator=made)
            order = (order if deal and lib.ranks > 1 else torch.arange(16)).chunk(lib.ranks)[lib.rank]
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(*arguments([rows[at] for at in order])), targets[order]).backward()
            optimizer.step()


def bags(lib, deal):
    """Ids without padding, and the offsets of each bag, which count from the rank's first id."""
    torch = lib.torch

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.bag, self.last = torch.nn.EmbeddingBag(40, 16, mode="mean"), torch.nn.Linear(16, 8)

        def forward(self, ids, offsets):
            return self.last(self.bag(ids, offsets))

    torch.manual_seed(0)
    ragged(lib, lib.ddp(Model()), lambda rows: (torch.cat(rows), torch.tensor([0] + [len(row) for row in rows[:-1]]).cumsum(0)), deal)


@way
def offsets(lib):
    bags(lib, False)


@way
def offsets_in_another_order(lib):
    bags(lib, True)


def padded(lib, deal):
    """Each rank pads its rows to its longest one."""
    torch = lib.torch
    from torch.nn.utils.rnn import pack_padded_sequence, pad_sequence

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.rnn = torch.nn.Embedding(40, 16), torch.nn.LSTM(16, 16, batch_first=True)
            self.last = torch.nn.Linear(16, 8)

        def forward(self, inputs):
            packed = pack_padded_sequence(self.first(inputs), (inputs > 0).sum(1), batch_first=True, enforce_sorted=False)
            return self.last(self.rnn(packed)[1][0][-1])

    torch.manual_seed(0)
    ragged(lib, lib.ddp(Model()), lambda rows: (pad_sequence(rows, batch_first=True),), deal)


@way
def padded_rows(lib):
    padded(lib, False)


@way
def padded_rows_in_another_order(lib):
    padded(lib, True)


@way
def routed_rows(lib):
    """Experts take rows of a batch that is in another order; one may have rows on one rank only."""
    torch = lib.torch

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.gate, self.last = torch.nn.Embedding(40, 16), torch.nn.Linear(16, 3), torch.nn.Linear(16, 8)
            self.experts = torch.nn.ModuleList(torch.nn.Linear(16, 16) for _ in range(3))

        def forward(self, inputs):
            hidden = self.first(inputs).mean(1)
            gate = self.gate(hidden).softmax(1)
            out = torch.zeros_like(hidden)
            for at, expert in enumerate(self.experts):
                rows = (gate.argmax(1) == at).nonzero()[:, 0]
                out = out.index_add(0, rows, expert(hidden[rows]) * gate[rows, at:at + 1])
            return self.last(out)

    torch.manual_seed(0)
    lib.train(lib.ddp(Model()), deal=True)


class Library:
    """Setup that the ways share."""

    def __init__(self, folder):
        import torch
        import torch.distributed as dist

        import lockstep

        self.torch, self.lockstep, self.folder, self.path = torch, lockstep, folder, None
        self.ranks, self.rank = int(os.environ.get("WORLD_SIZE", 1)), int(os.environ.get("RANK", 0))
        torch.set_num_threads(1)
        if self.ranks > 1:
            dist.init_process_group("gloo")

    def ddp(self, model):
        return self.torch.nn.parallel.DistributedDataParallel(model) if self.ranks > 1 else model

    def model(self, conv=False, twice=False, sparse=False):
        torch = self.torch
        nn = torch.nn

        class Model(nn.Module):
            def __init__(self):
                super().__init__()
                self.first = nn.Conv2d(3, 4, 3) if conv else nn.Embedding(40, 16, sparse=sparse)
                self.wide, self.last = nn.Linear(16, 64), nn.Linear(64, 8)
                self.mid = nn.Linear(64, 64)

            def forward(self, inputs):
                hidden = self.first(inputs)
                hidden = torch.tanh(self.wide(hidden.flatten(1) if conv else hidden.mean(1)))
                hidden = self.mid(hidden)
                return self.last(self.mid(torch.tanh(hidden)) if twice else hidden)

        torch.manual_seed(0)
        return Model()

    def train(self, model, optimizer=None, conv=False, deal=False, after=None):
        torch = self.torch
        optimizer = optimizer or torch.optim.SGD(model.parameters(), 0.1)
        with self.lockstep.capture(model, self.path):
            for step in range(2):
                made = torch.Generator().manual_seed(step)
                inputs = torch.randn(16, 3, 4, 4, generator=made) if conv else torch.randint(0, 40, (16, 4), generator=made)
                targets = torch.randint(0, 8, (16,), generator=made)
                rows = torch.randperm(16, generator=made) if deal and self.ranks > 1 else torch.arange(16)
                rows = rows.chunk(self.ranks)[self.rank]
                optimizer.zero_grad()
                torch.nn.functional.cross_entropy(model(inputs[rows]).float(), targets[rows]).backward()
                if after:
                    after(model)
                optimizer.step()


def run(folder):
    lib = Library(folder)
    for name, function in WAYS.items():
        lib.path = os.path.join(folder, name)
        function(lib)
    if lib.ranks > 1:
        lib.torch.distributed.destroy_process_group()


def listed(folder):
    """The tensors of a capture with values of their own."""
    names = set()
    for file in os.listdir(folder):
        if file.endswith(".json"):
            with open(os.path.join(folder, file), encoding="utf-8") as index:
                names |= {one["name"] for one in json.load(index)["tensors"] if not one.get("part") and "as" not in one}
    return names


def main():
    lockstep, python = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
    program = [sys.executable, os.path.abspath(__file__), "run"]
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        for words in ([*program, "one"], [lockstep, "exec", "-n", str(RANKS), "--start", "fork", "--watch", "off", "--quiet", "--", *program, "many"]):
            done = subprocess.run(words, capture_output=True, text=True, check=False, cwd=folder, env={**os.environ, "PYTHONPATH": python})
            assert done.returncode == 0, f"{words}: {done.stdout}\n{done.stderr[-3000:]}"
        for name in WAYS:
            done = subprocess.run([lockstep, "diff", f"one/{name}", f"many/{name}", "--all", "--json", "-"], capture_output=True,
                                  text=True, check=False, cwd=folder)
            case = json.loads(done.stdout)["cases"][0]
            wrong = [stage for stage in case["stages"] if stage["class"] == "wrong"]
            known = {stage["name"] for stage in case["stages"]} | {one["name"] for one in case.get("not_compared", [])}
            missing = (listed(os.path.join(folder, "one", name)) | listed(os.path.join(folder, "many", name))) - known
            right = done.returncode == 0 and not wrong and not missing
            print(name, "is as one rank" if right else f"is not: {wrong[:2]} {sorted(missing)[:5]}")
            failed += not right
    return 1 if failed else 0


sys.exit(run(sys.argv[2]) if sys.argv[1] == "run" else main())
