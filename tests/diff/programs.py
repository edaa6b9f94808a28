"""program.py on one rank and on several, and the report of `lockstep diff`: programs.py LOCKSTEP PYTHON_FOLDER."""
import json
import os
import pickle
import random
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
PROGRAM = os.path.join(HERE, "program.py")
sys.path.insert(0, os.path.join(HERE, "../forks"))
from forks import Forks  # noqa: E402

RIGHT = ["ddp", "fsdp", "tp"]
WRONG = {  # the first wrong tensor, and the text about it
    "ddp_uneven": ("step 0 backward narrow", "mean of means: rank 0 has 1.2 times the reference"),
    "ddp_unsynced": ("step 0 gradient narrow.bias", "nothing was reduced, rank 0 has its own part alone"),
    "tp_scaled": ("step 0 backward narrow", "it is 0.5 times the reference (1/world"),
}
# Correct ways: the source of the bound if bits differ.
DERIVED = {"step 0 forward wide", "step 0 forward narrow", "step 0 gradient wide.weight", "step 0 gradient narrow.weight",
           "step 0 gradient narrow.bias", "step 0 gradient table.weight", "step 1 forward table", "step 1 forward wide"}


def run(forks, lockstep, folder, *words):
    done = forks.run([lockstep, "exec", "-n", "2", "--watch", "off", "--quiet"], words, cwd=folder)
    assert done.returncode == 0, f"{words}: {done.stdout}\n{done.stderr[-3000:]}"


def diff(lockstep, folder, ref, other):
    done = subprocess.run([lockstep, "diff", ref, other, "--json", "-"], capture_output=True, text=True, check=False,
                          cwd=folder)
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout)["cases"][0]["stages"]


def checkpoints(lockstep, folder, python):
    """Checkpoints of one rank and of two, by torch.distributed.checkpoint, written anew."""
    from lockstep.checkpoint import convert

    done = subprocess.run([sys.executable, "-m", "lockstep.checkpoint", "whole.dcp", "whole.saved"], capture_output=True, text=True,
                          check=False, cwd=folder, env={**os.environ, "PYTHONPATH": python})
    assert done.returncode == 0, done.stderr
    convert(f"{folder}/fsdp.dcp", f"{folder}/fsdp.saved")
    code, stages = diff(lockstep, folder, "whole.saved", "fsdp.saved")
    assert code == 0 and len(stages) == 7, stages
    assert {stage["class"] for stage in stages} <= {"bit_exact", "unjudged"}, stages
    names = sorted(name for name in os.listdir(os.path.join(folder, "fsdp.saved")) if name.endswith(".json"))
    assert names == ["rank_00000.json", "rank_00001.json"], names


class Pickled:
    """An object that torch.load(weights_only=True) refuses."""


def saved(folder, name, state):
    """A checkpoint of `state`, in the form that `lockstep diff` reads."""
    from torch.distributed import checkpoint
    from lockstep.checkpoint import convert

    path = os.path.join(folder, name)
    checkpoint.save(state, storage_writer=checkpoint.FileSystemWriter(path), no_dist=True)
    convert(path, path + ".saved")
    return path


def entries(lockstep, folder):
    """Each entry of a checkpoint is compared, or listed as not compared."""
    import torch

    def state(**changed):
        of = {"w": torch.arange(4.), "step": 5, "lr": 0.1, "betas": (0.9, 0.99), "names": ["a", 1, None, b"x", True], "none": None,
              "nested": {"big": 2**70, "text": ""}, "random": random.Random(1).getstate(), "object": Pickled(), "set": {1},
              "empty": torch.zeros(3, 0), "short": torch.ones(2, dtype=torch.int16), "pair": torch.ones(2, dtype=torch.complex64)}
        return {name: value for name, value in {**of, **changed}.items() if value is not Pickled}

    saved(folder, "plain", state())
    changes = [{"step": 999}, {"step": 5.0}, {"lr": 0.2}, {"betas": (0.9, 0.98)}, {"names": ["a", 1, None, b"y", True]}, {"names": ["a", 1, None, b"x"]},
               {"none": "None"}, {"nested": {"big": 2**70 + 1, "text": ""}}, {"nested": {"big": 2**70, "text": "x"}},
               {"random": random.Random(2).getstate()}, {"empty": torch.zeros(2, 0)}, {"short": torch.tensor([1, 2], dtype=torch.int16)},
               {"pair": torch.tensor([1, 1j])}, {"step": Pickled}, {"empty": Pickled}]
    for at, changed in enumerate([{}, *changes]):
        saved(folder, f"changed{at}", state(**changed))
        done = subprocess.run([lockstep, "diff", "plain.saved", f"changed{at}.saved", "--all", "--json", "-"], capture_output=True,
                              text=True, check=False, cwd=folder)
        case = json.loads(done.stdout)["cases"][0]
        wrong = {stage["name"].split(".")[0].split(" ")[0] for stage in case["stages"] if stage["class"] == "wrong"}
        assert (done.returncode, wrong) == (bool(changed), set(changed)), (changed, wrong, done.stderr)
        assert {one["name"] for one in case["not_compared"]} == {"object", "set"}, case["not_compared"]
        assert changed or {stage["class"] for stage in case["stages"]} == {"bit_exact"} and len(case["stages"]) == 20, case["stages"]


def parts(lockstep, folder):
    """A rank that wrote several parts of a tensor, and files that are missing."""
    import torch
    from torch.distributed.checkpoint.metadata import ChunkStorageMetadata, MetadataIndex
    from lockstep import checkpoint

    whole = torch.arange(8.)
    saved(folder, "whole8", {"w": whole})
    path = saved(folder, "parts8", {"w": whole[:5].clone(), "v": whole[5:].clone()})
    with open(os.path.join(path, ".metadata"), "rb") as file:
        about = pickle.load(file)
    first, second = (next(i for index, i in about.storage_data.items() if index.fqn == name) for name in "wv")
    for end, name in ((8, "joined"), (9, "gap")):
        place = torch.Size([end - 3])
        about.state_dict_metadata = {"w": about.state_dict_metadata["w"]}
        about.state_dict_metadata["w"].size = torch.Size([end])
        about.state_dict_metadata["w"].chunks = [ChunkStorageMetadata(torch.Size([0]), torch.Size([5])), ChunkStorageMetadata(place, torch.Size([3]))]
        about.storage_data = {MetadataIndex("w", torch.Size([0])): first, MetadataIndex("w", place): second}
        with open(os.path.join(path, ".metadata"), "wb") as file:
            pickle.dump(about, file)
        if name == "joined":
            checkpoint.convert(path, os.path.join(folder, name))
            assert diff(lockstep, folder, "whole8.saved", "joined")[0] == 0
    broken = {"gap": ("parts8", "its parts cover 8 of its 9 elements"), "file": ("whole8", "No such file"), "none": ("nothing", "No such file")}
    os.remove(os.path.join(folder, "whole8", "__0_0.distcp"))
    for name, (source, text) in broken.items():
        source, to = os.path.join(folder, source), os.path.join(folder, name)
        try:
            checkpoint.main(["checkpoint", source, to])
        except SystemExit as said:
            assert text in said.code and source in said.code and "\n" not in said.code, said.code
        else:
            raise AssertionError(f"{name} was written")
        assert not os.path.exists(to), name


def main():
    lockstep, python = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
    sys.path.insert(0, python)
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run([sys.executable, PROGRAM, "whole", "whole", "whole.dcp"], capture_output=True, text=True, check=False, cwd=folder,
                              env={**os.environ, "PYTHONPATH": python})
        assert done.returncode == 0, done.stderr
        forks = Forks(PROGRAM)
        for way in RIGHT:
            run(forks, lockstep, folder, way, way, *(["fsdp.dcp"] if way == "fsdp" else []))
            code, stages = diff(lockstep, folder, "whole", way)
            judged = {stage["name"]: stage["class"] for stage in stages}
            assert code == 0 and len(stages) > 40, (way, judged)
            unknown = {name for name in DERIVED & judged.keys() if judged[name] == "unjudged"}
            assert not unknown and len(DERIVED & judged.keys()) >= 7, (way, unknown, judged)
            assert "within_bound" in judged.values(), (way, judged)
            print(way, "is as one rank")
        for way, (name, text) in WRONG.items():
            run(forks, lockstep, folder, way, way)
            code, stages = diff(lockstep, folder, "whole", way)
            last = stages[-1]
            assert code == 1 and last["class"] == "wrong" and last["name"] == name, (way, last)
            assert text in last["divergence"], (way, last)
            print(way, "is found:", name)
        checkpoints(lockstep, folder, python)
        entries(lockstep, folder)
        parts(lockstep, folder)
    return 0


sys.exit(main())
