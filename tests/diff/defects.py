"""Models of bf16, f16 and f32 on one rank and on several, correct and with defects: none with a defect passes.

defects.py LOCKSTEP PYTHON_FOLDER [CASES [LARGEST [SEED]]]; the program itself is defects.py run FOLDER CASES LARGEST SEED.
"""
import json
import os
import random
import subprocess
import sys
import tempfile

RANKS = 4
DEFECTS = {  # of a gradient after its sum; of the sum; of the ranks' initial values; of a buffer
    "zeroed": lambda g: g.zero_(), "negated": lambda g: g.neg_(), "doubled": lambda g: g.mul_(2),
    "shifted": lambda g: g.copy_(g.roll(1, 0)), "summed_twice": None, "not_summed": None, "left_out": None,
    "rounded_weight": None, "stale_buffer": None}


def cases(count, largest, seed):
    """The sizes and the type of each case; the damaged parameter is one of the model's, by its index."""
    chosen = random.Random(seed)
    sizes = [size for size in (64, 96, 256, 1000, 1024, 4096, 8192) if size <= largest]
    for _ in range(count):
        batch, inner = chosen.choice([64, 128, 512]), chosen.choice(sizes)
        width, out = (chosen.choice([8, 32, 64]) for _ in range(2))
        kind = chosen.choice(["bfloat16", "float16", "float32", "autocast"])
        if chosen.random() < 0.5:
            width, inner = inner, width
        yield {"batch": batch, "width": width, "inner": inner, "out": out, "kind": kind, "table": chosen.random() < 0.4,
               "rows": chosen.choice([10, 1000]), "damaged": chosen.randrange(16), "seed": chosen.randrange(2**31)}


def run(folder, count, largest, seed):
    import torch
    import torch.distributed as dist
    from torch import nn

    import lockstep

    ranks, rank = int(os.environ.get("WORLD_SIZE", 1)), int(os.environ.get("RANK", 0))
    torch.set_num_threads(1)
    if ranks > 1:
        dist.init_process_group("gloo")

    class Model(nn.Module):
        def __init__(self, case):
            super().__init__()
            self.table = nn.Embedding(case["rows"], case["width"]) if case["table"] else None
            self.first, self.last = nn.Linear(case["width"], case["inner"]), nn.Linear(case["inner"], case["out"])
            self.register_buffer("mean", torch.zeros(case["out"]))

        def forward(self, x):
            x = x if self.table is None else self.table(x)
            return self.last(torch.relu(self.first(x)))

    def train(case, defect, path):
        torch.manual_seed(case["seed"])
        cast = case["kind"] == "autocast"
        dtype = torch.float32 if cast else getattr(torch, case["kind"])
        model = Model(case).to(dtype)
        x = torch.randint(0, case["rows"], (case["batch"],)) if case["table"] else torch.randn(case["batch"], case["width"]).to(dtype)
        target = torch.randn(case["batch"], case["out"]).chunk(ranks)[rank]
        x = x.chunk(ranks)[rank]
        if defect == "rounded_weight" and rank == 1:
            with torch.no_grad():
                weight = model.first.weight
                weight.copy_((weight * 2).to(torch.float8_e4m3fn).to(dtype) / 2)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        with lockstep.capture(model, path, gradient_scale=1):
            with torch.autocast("cpu", torch.bfloat16, enabled=cast):
                y = model(x)
            (8 * (y.float() - target).square().sum() / case["batch"]).backward()
            mean = y.detach().float().sum(0) / case["batch"]
            parameters = list(model.parameters())
            for at, parameter in enumerate(parameters):
                bad = at == case["damaged"] % len(parameters)
                if ranks > 1 and not (bad and defect == "not_summed"):
                    if bad and defect == "left_out" and rank == 1:
                        parameter.grad.zero_()
                    dist.all_reduce(parameter.grad)
                    if bad and defect == "summed_twice":
                        dist.all_reduce(parameter.grad)
                if bad and DEFECTS.get(defect) is not None:
                    DEFECTS[defect](parameter.grad)
            if ranks > 1:
                dist.all_reduce(mean)
            if not (defect == "stale_buffer" and rank == 2):
                model.mean.copy_(mean)
            optimizer.step()

    for at, case in enumerate(cases(count, largest, seed)):
        for defect in ["right", *DEFECTS] if ranks > 1 else ["right"]:
            train(case, defect, os.path.join(folder, f"{at}_{defect}"))
    if ranks > 1:
        dist.destroy_process_group()


def judge(lockstep, folder, at, defect):
    done = subprocess.run([lockstep, "diff", f"one/{at}_right", f"many/{at}_{defect}", "--all", "--json", "-"],
                          capture_output=True, text=True, check=False, cwd=folder)
    assert done.stdout, done.stderr
    return done.returncode, {stage["name"]: stage for stage in json.loads(done.stdout)["cases"][0]["stages"]}


def damaged(case, defect):
    """The first tensor that a defect changes."""
    names = [*(["table.weight"] if case["table"] else []), "first.weight", "first.bias", "last.weight", "last.bias"]
    return {"rounded_weight": "parameter first.weight", "stale_buffer": "step 0 buffer mean"}.get(
        defect, f"step 0 gradient {names[case['damaged'] % len(names)]}")


def main():
    lockstep, python = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
    given = [int(word) for word in sys.argv[3:6]]
    count, largest, seed = given + [5, 1024, 1][len(given):]
    table, failures = {}, []
    with tempfile.TemporaryDirectory() as folder:
        program = [sys.executable, os.path.abspath(__file__), "run"]
        words = [str(word) for word in (count, largest, seed)]
        for words_ in ([*program, "one", *words],
                       [lockstep, "exec", "-n", str(RANKS), "--start", "fork", "--watch", "off", "--quiet", "--", *program, "many", *words]):
            done = subprocess.run(words_, capture_output=True, text=True, check=False, cwd=folder,
                                  env={**os.environ, "PYTHONPATH": python})
            assert done.returncode == 0, f"{words_}: {done.stdout}\n{done.stderr[-3000:]}"
        for at, case in enumerate(cases(count, largest, seed)):
            for defect in ("right", *DEFECTS):
                code, stages = judge(lockstep, folder, at, defect)
                wrong = [name for name, stage in stages.items() if stage["class"] == "wrong"]
                free = stages.get(damaged(case, defect), {}).get("class") == "unjudged"
                verdict = "found" if code == 1 and wrong else "unjudged" if code == 0 and free else "passed"
                if defect == "right" and (code != 0 or wrong):
                    failures.append((at, case, defect, [stages[name] for name in wrong]))
                elif defect != "right":
                    of = table.setdefault((defect, case["kind"]), {"found": 0, "unjudged": 0, "passed": 0})
                    of[verdict] += 1
                    if verdict == "passed":
                        failures.append((at, case, defect, "passes"))
    for (defect, kind), of in sorted(table.items()):
        print(f"{defect:16} {kind:10} {', '.join(f'{number} {verdict}' for verdict, number in of.items())}")
    for failure in failures:
        print(failure)
    return 1 if failures else 0


sys.exit(run(sys.argv[2], *map(int, sys.argv[3:6])) if sys.argv[1] == "run" else main())
