#!/usr/bin/env python3
"""The cost of exact arithmetic in a training step: prove.py [LOCKSTEP] [--steps 5]

Trains an MLP of 512-2048-512 and a GPT block in host memory on one thread, in floats alone and with a number of the field beside each float.
Prints the processor time of a step and the peak of memory from the model's creation on, as ratios. A capture, which writes files, is not in
them. Torch is the Python's own that runs this.
"""
import argparse
import os
import re
import resource
import statistics
import subprocess
import sys
import time

HERE = os.path.abspath(__file__)
MODELS, KINDS = ("mlp", "gpt block"), ("floats", "field")


def made(model):
    import torch
    from torch import nn

    torch.manual_seed(0)
    if model == "mlp":
        return nn.Sequential(nn.Linear(512, 2048), nn.Tanh(), nn.Linear(2048, 512), nn.LayerNorm(512)), torch.randn(128, 512)
    block = nn.TransformerEncoderLayer(512, 8, 2048, dropout=0.0, activation="gelu", batch_first=True, norm_first=True)
    return block, torch.randn(2, 128, 512)


def used():
    with open("/proc/self/status", encoding="ascii") as file:
        return int(re.search(r"VmRSS:\s*(\d+)", file.read())[1])


def train(name, kind, steps):
    import torch
    from lockstep import proof

    torch.set_num_threads(1)
    if kind == "field":
        proof.begin()
    before, (model, inputs) = used(), made(name)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    for at in range(steps + 1):  # the first one makes the optimizer's state
        began = time.process_time()
        model(inputs).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        if at > 0:
            print(f"TIME {time.process_time() - began:.6f}", flush=True)
    print(f"PEAK {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before}", flush=True)


def measure(given, name, kind):
    done = subprocess.run([given.lockstep, "exec", "-n", "1", "--watch", "off", "--", sys.executable, HERE, "--train", name, kind,
                           "--steps", str(given.steps)], capture_output=True, text=True, check=False)
    times, peaks = (re.findall(rf"{what} (\S+)", done.stdout) for what in ("TIME", "PEAK"))
    if len(times) != given.steps or len(peaks) != 1:
        sys.exit(done.stdout + done.stderr)
    return statistics.median(map(float, times)), int(peaks[0])


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("lockstep", nargs="?", default="build/lockstep")
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--train", nargs=2, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.train:
        return train(*given.train, given.steps)
    for name in MODELS:
        (plain, small), (exact, large) = (measure(given, name, kind) for kind in KINDS)
        print(f"{name}: a step of floats {plain * 1e3:.0f} ms, with the field {exact * 1e3:.0f} ms: {exact / plain:.1f} x; "
              f"memory {small >> 10} and {large >> 10} MiB: {large / small:.1f} x")
    return 0


if __name__ == "__main__":
    sys.exit(main())
