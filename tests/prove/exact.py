"""capture(exact=True) on one rank by Python alone and on two by `lockstep exec`, compared by diff: exact.py LOCKSTEP PYTHON_FOLDER.

exact.py program CASE FOLDER is the program."""
import json
import os
import subprocess
import sys
import tempfile


def program(case, folder):
    import torch
    import torch.distributed as dist
    from torch import nn

    import lockstep

    ranks, rank = int(os.environ.get("WORLD_SIZE", 1)), int(os.environ.get("RANK", 0))
    torch.manual_seed(1)
    batch = torch.randn(8, 4)
    model = nn.Sequential(nn.Linear(4, 8), nn.LayerNorm(8, eps=1.001e-5 if case == "wrong" and ranks > 1 else 1e-5), nn.Tanh(), nn.Linear(8, 2))
    if ranks > 1:
        dist.init_process_group("gloo")
        model = nn.parallel.DistributedDataParallel(model)
    with lockstep.capture(model, folder, exact=True):
        stepper = torch.optim.AdamW(model.parameters())
        for _ in range(2):
            stepper.zero_grad()
            model(batch.chunk(ranks)[rank]).square().mean().backward()
            stepper.step()
    if ranks > 1:
        dist.destroy_process_group()


def compare(folder, case):
    words = [sys.executable, os.path.abspath(__file__), "program", case, f"{folder}/{case}"]
    subprocess.run([sys.argv[1], "exec", "-n", "2", "--start", "fork", "--", *words], check=True, stdout=subprocess.DEVNULL)
    done = subprocess.run([sys.argv[1], "diff", f"{folder}/one", f"{folder}/{case}", "--json", "-"], capture_output=True, text=True, check=False)
    return done.returncode, [(stage["name"], stage["class"]) for stage in json.loads(done.stdout)["cases"][0]["stages"]]


def main():
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.executable, os.path.abspath(__file__), "program", "one", f"{folder}/one"],
                       env={**os.environ, "PYTHONPATH": sys.argv[2]}, check=True)
        code, stages = compare(folder, "right")
        assert code == 0 and len(stages) > 20 and {of for _, of in stages} == {"proved"}, (code, stages)
        code, stages = compare(folder, "wrong")
    assert code == 1 and next(name for name, of in stages if of == "wrong") == "step 0 forward 1", (code, stages)


if sys.argv[1] == "program":
    program(*sys.argv[2:])
else:
    main()
