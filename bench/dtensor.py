#!/usr/bin/env python3
"""DTensor on gloo beside lockstep: dtensor.py [LOCKSTEP] [--count 300] [--first 0] [--keep DIR]

Needs torch (pip); lockstep itself does not. Random programs over 1 to 4 ranks, on meshes of one and two
dimensions, with uneven, empty, strided and partial shards: each is run by DTensor on gloo, a process a rank,
and by lockstep, as a scenario of the same steps. Every result that DTensor gathers is compared with
lockstep's oracle: bit by bit where elements only move, else within the bound; and after a redistribution with
given placements both have shards of the same shapes and, where elements only moved, bits.

Not compared: dropout (other random numbers), shards of explicit sizes (DTensor has none), loss parallel with
a rank that has no class (DTensor hangs), and what either refuses, which is counted with its reason. A result
of DTensor that differs from torch on one rank is counted as DTensor's own; lockstep is then compared with
torch. Exit code 1: a difference is not explained.
"""
import argparse
import collections
import json
import os
import re
import subprocess
import sys
import tempfile

try:
    import torch
    import torch.distributed as dist
    import torch.nn.functional as F
    from torch.distributed.device_mesh import DeviceMesh
    from torch.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor
    from torch.distributed.tensor.parallel import loss_parallel
    from torch.distributed.tensor.placement_types import _StridedShard

    import tensor_files
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

from dtensor_programs import FOLDS, MESHES, OPS, Program  # noqa: E402

RANKS = 4
TYPES = {"f32": torch.float32, "f64": torch.float64, "bf16": torch.bfloat16, "i64": torch.int64}
NAMES = {"f32": "F32", "f64": "F64", "bf16": "BF16", "i64": "I64"}


# ---- DTensor --------------------------------------------------------------------------------------
def numbers(of):
    generator = torch.Generator().manual_seed(of["seed"])
    if of["dtype"] == "i64":
        return torch.randint(of["low"], of["high"] + 1, of["shape"], generator=generator)
    made = torch.randn(of["shape"], generator=generator, dtype=torch.float64)
    return (made.abs() + 0.1 if of["name"].startswith("weights") else made).to(TYPES[of["dtype"]])


def placement(text):
    dims = [int(n) for n in re.findall(r"\d+", text)]
    if text == "R":
        return Replicate()
    if text.startswith("P"):
        return Partial(OPS[text[2:-1]])
    return _StridedShard(dims[0], split_factor=dims[1]) if text.startswith("_") else Shard(dims[0])


def operate(kind, keys, operands, plain):
    """One step, of DTensors or (plain) of whole tensors."""
    a = operands[0]
    if kind in ("add", "sub", "mul"):
        return getattr(torch, kind)(a, operands[1])
    if kind in FOLDS:
        return getattr(torch, kind)(a, keys["dim"])
    if kind == "matmul":
        return a @ operands[1]
    if kind in ("softmax", "log_softmax"):
        return getattr(torch, kind)(a, keys["dim"])
    if kind == "cross_entropy":
        says = {"weight": operands[2] if len(operands) > 2 else None, "ignore_index": keys["ignored"],
                "label_smoothing": keys["smoothing"], "reduction": keys["reduction"]}
        if not plain and any(p.is_shard(1) for p in a.placements):
            with loss_parallel():
                return F.cross_entropy(a, operands[1], **says)
        return F.cross_entropy(a, operands[1], **says)
    if kind == "norm":
        # In f64 and rounded once, as lockstep does; torch would round each power, and each rank's norm.
        made = torch.linalg.vector_norm(a, keys["p"], keys["dim"], dtype=torch.float64)
        if not plain:
            made = made.redistribute(placements=[Replicate() if p.is_partial() else p
                                                 for p in made.placements])
        return made.to(a.dtype)
    if kind == "embedding" and "pooling" in keys:
        return F.embedding_bag(a, operands[1], mode=keys["pooling"])
    if kind == "embedding":
        return F.embedding(a, operands[1])
    if kind == "transpose":
        return a.t()
    if kind == "slice":
        return a.narrow(keys["dim"], keys["start"], keys["length"])
    if kind == "view":
        return a.contiguous().view(keys["shape"])
    if kind == "cat":
        return torch.cat(operands, keys["dim"])
    if kind == "cast":
        return a.to(TYPES[keys["dtype"]])
    return a * keys["factor"]


def plain_place(value, mesh, base, keys):
    """The sum of the ranks' parts."""
    axis = [d for d, p in enumerate(keys["to"]) if p.startswith("P")][0]
    parts = value.view([mesh[axis]] + keys["shape"]).double()
    op = keys["to"][axis][2:-1]
    return {"sum": parts.sum(0), "avg": parts.mean(0), "max": parts.amax(0),
            "min": parts.amin(0)}[op].to(value.dtype)


def names_of(keys):
    return keys["tensors"] if "tensors" in keys else [keys[k] for k in ("tensor", "other", "weights")
                                                      if k in keys]


def run_step(kind, keys, tensors, mesh):
    if kind == "place":
        stride = torch.empty(keys["shape"]).stride()
        return DTensor.from_local(tensors[keys["tensor"]].to_local(), mesh,
                                  [placement(p) for p in keys["to"]], run_check=False,
                                  shape=torch.Size(keys["shape"]), stride=stride)
    if kind == "redistribute":
        return tensors[keys["tensor"]].redistribute(mesh, [placement(p) for p in keys["to"]])
    if kind == "embedding" and "pooling" in keys:  # which DTensor has not: of the whole tensors
        whole = operate(kind, keys, [tensors[n].full_tensor() for n in names_of(keys)], True)
        return distribute_tensor(whole, mesh, [Replicate()], src_data_rank=None)
    return operate(kind, keys, [tensors[n] for n in names_of(keys)], False)


def differs(theirs, plain):
    """Grossly, or where elements only moved and so must be the same."""
    if theirs.shape != plain.shape:
        return True
    if not theirs.is_floating_point():
        return not torch.equal(theirs, plain)
    narrow = 0.05 if theirs.dtype == torch.bfloat16 else 1e-3
    return not torch.allclose(theirs.double(), plain.double(), rtol=narrow, atol=narrow,
                              equal_nan=True)


def together(group, action):
    """The action's result on every rank of the group, or the error of one of them."""
    made, said = None, ""
    try:
        made = action()
    except (RuntimeError, AssertionError, NotImplementedError, ValueError, IndexError) as error:
        said = re.sub(r"\s+", " ", str(error) or type(error).__name__)[:90]
    every = [None] * dist.get_world_size(group)
    dist.all_gather_object(every, said, group=group)
    some = [text for text in every if text]
    return made, (some[0] if len(some) == len(every) else "on some ranks: " + some[0]) if some else None


def run_program(program, meshes, groups):
    """A list of (DTensor's gathered result, torch's unsharded result, the own shard or None), or a refusal."""
    mesh, group = meshes[tuple(program.mesh)], groups[tuple(program.mesh)]
    if mesh.get_coordinate() is None:
        return None
    tensors, plain, told = {}, {}, []
    for of in program.inputs:
        plain[of["name"]] = numbers(of)
        tensors[of["name"]] = distribute_tensor(plain[of["name"]], mesh, [
            placement(p) for p in of["places"]], src_data_rank=None)
    for kind, keys in program.steps:
        if any(n not in tensors for n in names_of(keys)):
            told.append("needs what was refused")
            continue
        made, refused = together(group, lambda: run_step(kind, keys, tensors, mesh))
        if refused is None:
            whole, refused = together(group, made.full_tensor)
        if refused is not None:
            told.append(refused)
            continue
        if kind == "place":
            wanted = plain_place(plain[keys["tensor"]], program.mesh, None, keys)
        elif kind == "redistribute":
            wanted = plain[keys["tensor"]]
        else:
            wanted = operate(kind, keys, [plain[n] for n in names_of(keys)], True)
        shard = None
        if kind == "redistribute" and not any(p[0] in "P" for p in keys["to"]):
            shard = made.to_local().contiguous()
        told.append((whole.contiguous(), wanted.contiguous(), shard))
        plain[keys["into"]] = wanted
        if differs(whole, wanted):
            # DTensor's own: what follows goes on from what torch gives.
            places = [p if not p.is_partial() else Replicate() for p in made.placements]
            made = distribute_tensor(wanted, mesh, places, src_data_rank=None)
        tensors[keys["into"]] = made
    return told


def program_text(seed):
    program = Program(seed)
    return json.dumps([program.mesh, [[i["name"], i["dtype"], i["shape"], i["places"]]
                                      for i in program.inputs], program.steps])


def worker(rank, options, folder):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(options.port), RANK=str(rank),
                      WORLD_SIZE=str(RANKS))
    torch.set_num_threads(1)
    dist.init_process_group("gloo", rank=rank, world_size=RANKS)
    meshes, groups = {}, {}
    for shape in MESHES:
        count = 1
        for size in shape:
            count *= size
        meshes[tuple(shape)] = DeviceMesh("cpu", torch.arange(count).view(shape))
        groups[tuple(shape)] = dist.new_group(list(range(count)))
    for seed in range(options.first, options.first + options.count):
        told = run_program(Program(seed), meshes, groups)
        torch.save(told, os.path.join(folder, f"{seed}.{rank}.pt"))
        if options.verbose and rank == 0:
            print(seed, program_text(seed), flush=True)
    dist.barrier()
    dist.destroy_process_group()


# ---- lockstep -------------------------------------------------------------------------------------
def bytes_of(value):
    flat = value.clone(memory_format=torch.contiguous_format).reshape(-1)  # of one element, too
    return flat.view(torch.uint8).numpy().tobytes() if value.numel() else b""


def scenario_of(program, seed, told, folder):
    """The scenario's path; its steps that DTensor did, each with what DTensor gave."""
    values = {of["name"]: (of["dtype"], numbers(of)) for of in program.inputs}
    whole, steps, tensors = ", ".join("R" for _ in program.mesh), [], []
    for of in program.inputs:
        tensors.append({"name": of["name"], "shape": of["shape"], "dtype": of["dtype"],
                        "values": {"file": f"{seed}.safetensors", "tensor": of["name"]},
                        "placements": ", ".join(of["places"])})
    own = 0
    for number, ((kind, keys), theirs) in enumerate(zip(program.steps, told)):
        if isinstance(theirs, str):
            continue
        keys = dict(keys, name=f"s{number}")
        if "to" in keys:
            keys["to"] = ", ".join(keys["to"])
        steps.append({kind: keys})
        name = f"theirs{number}"
        mistaken = differs(theirs[0], theirs[1])
        own += mistaken
        values[name] = program.tensors[keys["into"]].dtype, theirs[1 if mistaken else 0]
        tensors.append({"name": name, "shape": list(theirs[0].shape), "dtype": values[name][0],
                        "values": {"file": f"{seed}.safetensors", "tensor": name},
                        "placements": whole})
        steps.append({"check_equal": {"name": f"as s{number}", "tensor": name,
                                      "other": keys["into"]}})
    tensor_files.write_raw(os.path.join(folder, f"{seed}.safetensors"),
                           {name: (NAMES[dtype], value.shape, bytes_of(value))
                            for name, (dtype, value) in values.items()})
    path = os.path.join(folder, f"{seed}.yaml")
    with open(path, "w", encoding="utf-8") as file:
        json.dump({"lockstep": 1, "name": f"p{seed}", "mesh": {"shape": program.mesh},
                   "program": {"tensors": tensors, "steps": steps}}, file, indent=1)
    return path if steps else None, own


def moved_only(program):
    """The tensors whose elements no arithmetic was done on, so that their bits must be the same."""
    moved = {of["name"] for of in program.inputs}
    for kind, keys in program.steps:
        partial = any(p.startswith("P") for p in keys.get("to", ())) or any(
            p.startswith("P") for n in names_of(keys) for p in program.tensors[n].places)
        moves = kind in ("redistribute", "place", "cat", "view", "slice", "transpose", "cast") or (
            kind == "embedding" and "pooling" not in keys)
        if moves and not partial and all(n in moved for n in names_of(keys)):
            moved.add(keys["into"])
    return moved


def shards_differ(program, seed, folder, kept):
    """Redistributions whose shards are not DTensor's: in shape, and bit by bit where only moved."""
    wrong, compared, moved = [], 0, moved_only(program)
    for rank in range(RANKS):
        told = torch.load(os.path.join(folder, f"{seed}.{rank}.pt"))
        path = os.path.join(kept, f"p{seed}", f"rank_{rank:05d}.safetensors")
        if told is None or not os.path.exists(path):
            continue
        ours = {name: about[1:] for name, about in tensor_files.read_raw(path).items()}
        for number, ((kind, keys), theirs) in enumerate(zip(program.steps, told)):
            if kind != "redistribute" or isinstance(theirs, str) or theirs[2] is None or \
                    differs(theirs[0], theirs[1]):
                continue
            stem = f"s{number}/{keys['into']}/-/shard"
            mine = [ours[n] for n in sorted(ours, key=lambda n: (len(n), n)) if n.startswith(stem)]
            want = theirs[2]
            if len(mine) == 1 and mine[0][0] != list(want.shape) and want.numel() > 0:
                wrong.append(f"s{number}, rank {rank}: {mine[0][0]}, DTensor {list(want.shape)}")
            if keys["into"] not in moved:
                continue
            dims = [int(re.search(r"\d+", p)[0]) for p in keys["to"] if p[0] == "_"]
            arrays = [torch.frombuffer(bytearray(data), dtype=want.dtype).view(shape)
                      for shape, data in mine if data]
            both = torch.cat(arrays, dims[0] if dims else 0) if arrays else want[:0]
            compared += 1
            if bytes_of(both) != bytes_of(want):
                wrong.append(f"s{number}, rank {rank}: other elements than DTensor")
    return wrong, compared


def judge(options, folder):
    """Counts, and what is not explained."""
    counts, refused, failures = collections.Counter(), collections.Counter(), []
    paths, programs = {}, {}
    for seed in range(options.first, options.first + options.count):
        programs[seed] = Program(seed)
        told = torch.load(os.path.join(folder, f"{seed}.0.pt"))
        for step, theirs in zip(programs[seed].steps, told):
            if isinstance(theirs, str) and theirs != "needs what was refused":
                refused[f"{step[0]}: {theirs}"] += 1
        path, own = scenario_of(programs[seed], seed, told, folder)
        counts["results that are not torch's (DTensor's own)"] += own
        if path is not None:
            paths[path] = seed
    kept, names = os.path.join(folder, "kept"), list(paths)
    for first in range(0, len(names), 50):
        some = names[first:first + 50]
        done = subprocess.run([options.lockstep, "run", "--json", "-", "--keep", kept, *some],
                              capture_output=True, text=True, check=False)
        if not done.stdout.startswith("{"):
            sys.exit(f"{done.stdout}{done.stderr}")
        for case in json.loads(done.stdout)["cases"]:
            judge_case(case, programs[paths[case["file"]]], counts, refused, failures)
    for path, seed in paths.items():
        wrong, compared = shards_differ(programs[seed], seed, folder, kept)
        counts["shards compared bit by bit"] += compared
        failures += [f"{path}: {what}" for what in wrong]
    return counts, refused, failures


def judge_case(case, program, counts, refused, failures):
    counts["programs"] += 1
    for stage in case["stages"]:
        if stage["name"].startswith("as s"):
            counts["results " + stage["class"]] += 1
            counts["elements"] += stage["elements"]
    if case["verdict"] == "pass":
        return
    text = case.get("error") or "; ".join(f["text"] for f in case["findings"])
    wrong = [s for s in case["stages"] if s["class"] == "wrong"]
    if wrong or case["class"] not in ("error", "finding"):
        kinds = {s["name"]: program.steps[int(re.search(r"\d+", s["name"])[0])] for s in wrong
                 if re.search(r"\d", s["name"])}
        failures.append(f"{case['file']}: {text} {kinds}")
    elif re.search(r"redistribute it first|are reduced before|no logical shape", text):
        refused["lockstep: " + re.sub(r"^.*?: step s?\d*\w*: ", "", text)[:90]] += 1
    else:
        failures.append(f"{case['file']}: {text}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("lockstep", nargs="?", default="build/lockstep")
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--port", type=int, default=29611)
    parser.add_argument("--keep", default=None)
    parser.add_argument("--verbose", action="store_true")
    options = parser.parse_args()
    options.lockstep = os.path.abspath(options.lockstep)
    with tempfile.TemporaryDirectory() as folder:
        folder = options.keep or folder
        os.makedirs(folder, exist_ok=True)
        torch.multiprocessing.spawn(worker, (options, folder), nprocs=RANKS)
        counts, refused, failures = judge(options, folder)
    for what, count in sorted(counts.items()):
        print(f"{count:8}  {what}")
    for what, count in refused.most_common():
        print(f"{count:8}  refused: {what}")
    print("\n".join(failures[:40]))
    print(f"{len(failures)} not explained")
    sys.exit(1 if failures or counts["programs"] == 0 else 0)


if __name__ == "__main__":
    main()
