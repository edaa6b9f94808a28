#!/usr/bin/env python3
"""The cost of the watches of `lockstep exec` in a step: watch.py [LOCKSTEP] [--ranks 4] [--steps 3] [--small]
trains a GPT of 50 million parameters with DDP and AdamW in host memory, and prints the processor time of a
step

- with the watches off;
- in a step that compares nothing, as most do after the tenth one;
- in a step that compares values, as each of the first ten and ever fewer later ones do;

and the cost over the first 100 and 1,000 steps. Processor time of all threads of a rank: other programs disturb it little.
Torch is the Python's own that runs this. --observe: on a GPU for each rank, over the real NCCL; wall time of a step.
"""
import argparse
import os
import re
import statistics
import subprocess
import sys
import time

HERE = os.path.abspath(__file__)
KINDS = ("off", "none", "compared")


def gpt(small, device):
    import torch
    from torch import nn

    width, layers, words = (64, 2, 512) if small else (512, 8, 24000)

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
            self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

        def forward(self, value):
            parts = self.qkv(self.first(value)).unflatten(-1, (3, 8, -1)).permute(2, 0, 3, 1, 4)
            heads = nn.functional.scaled_dot_product_attention(*parts, is_causal=True)
            value = value + self.out(heads.transpose(1, 2).flatten(2))
            return value + self.down(nn.functional.gelu(self.up(self.second(value))))

    class Gpt(nn.Module):
        def __init__(self):
            super().__init__()
            self.tokens, self.places = nn.Embedding(words, width), nn.Embedding(128, width)
            self.blocks, self.norm = nn.Sequential(*[Block() for _ in range(layers)]), nn.LayerNorm(width)
            self.head = nn.Linear(width, words, bias=False)

        def forward(self, ids):
            return self.head(self.norm(self.blocks(self.tokens(ids) + self.places(torch.arange(ids.shape[1], device=device)))))

    torch.manual_seed(0)
    return Gpt().to(device), words


def train(kind, steps, small, observe):
    import torch
    import torch.distributed as dist
    from lockstep import watch

    if kind == "none":
        watch.is_noted = lambda step: False
    elif kind == "compared":
        watch.is_noted = lambda step: True
    torch.set_num_threads(1)
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if observe else torch.device("cpu")
    if observe:
        torch.cuda.set_device(device)
    dist.init_process_group("nccl" if observe else "gloo")
    model, words = gpt(small, device)
    wrapped = torch.nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.AdamW(wrapped.parameters(), lr=1e-4)
    torch.manual_seed(dist.get_rank())
    clock = time.perf_counter if observe else time.process_time
    for at in range(steps + 1):  # the first one makes the optimizer's state
        ids = torch.randint(0, words, (4, 128)).to(device)
        began = clock()
        torch.nn.functional.cross_entropy(wrapped(ids).flatten(0, 1), ids.flatten()).backward()
        optimizer.step()
        optimizer.zero_grad()
        if observe:
            torch.cuda.synchronize()
        if at > 0:
            print(f"TIME {clock() - began:.6f} {sum(one.numel() for one in model.parameters())}", flush=True)


def measure(given, kind):
    start = ["--observe"] if given.observe else ["--start", "fork"]
    words = [given.lockstep, "exec", "-n", str(given.ranks), *start, "--watch", "off" if kind == "off" else "default", "--",
             sys.executable, HERE, "--train", kind, "--steps", str(given.steps), *(["--small"] if given.small else []),
             *(["--observe"] if given.observe else [])]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    found = re.findall(r"TIME (\S+) (\d+)", done.stdout)
    if done.returncode != 0 or len(found) != given.ranks * given.steps:
        sys.exit(done.stdout + done.stderr)
    return [float(seconds) for seconds, _ in found], int(found[0][1])


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("lockstep", nargs="?", default="build/lockstep")
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--observe", action="store_true")
    parser.add_argument("--train", choices=KINDS, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.train:
        return train(given.train, given.steps, given.small, given.observe)
    times, size = {kind: [] for kind in KINDS}, 0
    for _ in range(given.rounds):
        for kind in KINDS:
            seconds, size = measure(given, kind)
            times[kind] += seconds
    off, none, every = (statistics.median(times[kind]) for kind in KINDS)
    print(f"{size:,} parameters, {given.ranks} ranks, {'wall' if given.observe else 'processor'} seconds of a step: watches off {off:.3f}, "
          f"nothing compared {none:.3f} ({none / off - 1:+.1%}), compared {every:.3f} ({every / off - 1:+.1%})")
    for steps, compared in ((100, 19), (1000, 28)):
        print(f"over {steps:,} steps, {compared} compared: {((steps - compared) * none + compared * every) / steps / off - 1:+.1%}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
