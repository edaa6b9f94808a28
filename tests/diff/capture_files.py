"""Files and checkpoints that `lockstep diff` reads. A part of captures.py."""
import json
import math
import os
import subprocess

from made import LOCKSTEP, diff, f32, rows, tensor_files, waves, write


def files(check):
    """Plain files, files that a checkpoint splits, and unusable files."""
    t = waves(8)
    one, cut = check.path() + ".safetensors", check.path()
    tensor_files.write_raw(one, {"t": ("F32", [4, 2], f32(t))})
    assert diff(one, one)[0] == 0
    other = check.path() + ".safetensors"  # a name that no stage can have
    for path, values in ((one, t), (other, waves(8, 2))):
        tensor_files.write_raw(path, {"t": ("F32", [4, 2], f32(t)), "a/b": ("F32", [8], f32(values))})
    assert diff(one, other)[1]["a|b"]["class"] == "wrong", diff(one, other)
    tensor_files.write_raw(one, {"t": ("F32", [4, 2], f32(t))})
    os.makedirs(cut)

    def shard(rank, sharding):
        path = os.path.join(cut, f"shard-{rank}.safetensors")
        tensor_files.write_raw(path, {"t": ("F32", [2, 2], f32(rows(t, 2, 2 - 2 * rank, 4 - 2 * rank))),
                                      f"own {rank}": ("F32", [1], f32([rank]))})
        with open(path, "rb") as file:
            data = file.read()
        size = int.from_bytes(data[:8], "little")
        header = json.loads(data[8:8 + size])
        header["__metadata__"] = {"DCP_SHARDING_INFO": json.dumps(sharding)}
        text = json.dumps(header).encode()
        text += b" " * (-len(text) % 8)
        with open(path, "wb") as file:
            file.write(len(text).to_bytes(8, "little") + text + data[8 + size:])

    for rank in range(2):
        shard(rank, {"t": {"saved_offsets": [2 - 2 * rank, 0]}, f"own {rank}": {"saved_offsets": [0]}})
    tensor_files.write_raw(one, {"t": ("F32", [4, 2], f32(t)), "own 0": ("F32", [1], f32([0])), "own 1": ("F32", [1], f32([1]))})
    assert diff(one, cut)[0] == 0 and diff(cut, one)[0] == 0, diff(one, cut)
    # A file contains the offsets of its parts, in all dimensions.
    for wrong in ({"own 0": {"saved_offsets": [0]}}, {"no such": {"saved_offsets": [0]}}, {"t": {"saved_offsets": [0]}}, {"t": {}}):
        shard(1, {"t": {"saved_offsets": [0, 0]}, **wrong})
        assert diff(one, cut)[0] == 2 and "saved_offsets" in diff(one, cut)[2], (wrong, diff(one, cut))
    pickled = check.path()
    os.makedirs(pickled)
    with open(os.path.join(pickled, ".metadata"), "wb"):
        pass
    code, _, said = diff(one, pickled)
    assert code == 2 and "python3 -m lockstep.checkpoint" in said, said
    broken = [{"format": 2}, {"format": 2, "rank": 0, "ranks": 1, "tensors": [{"name": "t"}]}, {"format": 1, "rank": 0, "ranks": 1, "tensors": {}},
              {"format": 1, "rank": 1, "ranks": 1, "tensors": [{"name": "t"}]}, {"format": 1, "rank": 0, "ranks": 1, "tensors": [{"name": "other"}]},
              {"format": 1, "rank": 0, "ranks": 1, "tensors": [{"name": "t", "placements": "S(9)", "mesh": [1]}]},
              {"format": 1, "rank": 0, "ranks": 1, "tensors": [{"name": "t", "placements": "S(0)", "mesh": [99]}]},
              {"format": 1, "rank": 0, "ranks": 1, "tensors": [{"name": "t", "offset": [-1]}]},
              {"format": 1, "rank": 0, "ranks": 1, "tensors": [{"name": "t"}, {"name": "t"}]},
              {"format": 1, "rank": 0, "ranks": 10**9, "tensors": []},
              {"format": 1, "rank": 0, "ranks": 1, "tensors": [{"name": "t", "offset": [0, 0], "shape": [2**40, 2**40]}]}]
    for index in broken:
        bad = check.path()
        write(bad, [{"t": ([4, 2], t, {})}])
        with open(os.path.join(bad, "rank_00000.json"), "w", encoding="utf-8") as file:
            json.dump(index, file)
        code, _, said = diff(one, bad)
        last = index is broken[-1]
        assert code == 2 and (last or bad in said), (code, index, said)


SCENARIO = """lockstep: 1
name: tables
seed: 7
mesh: {shape: [3]}
tables:
  - {name: user, rows: 11, dim: 4, features: user, sharding: {type: row_wise}}
  - {name: item, rows: 5, dim: 6, features: item, sharding: {type: column_wise, columns: 2, ranks: [0, 1, 2]}}
inputs:
  batch: 4
  features:
    user: {lengths: {uniform: [0, 5]}}
    item: {lengths: {uniform: [0, 4]}}
steps: [forward, backward, update]
optimizer: {type: rowwise_adagrad, lr: 0.02, eps: 0.000001}
train: {steps: 2}
"""
PLAN = """lockstep_plan: 1
ranks: 2
ranks_per_host: 2
tables:
  - name: "user"
    rows: 11
    columns: 4
    sharding: table_wise
    kernel: fused
    shards:
      - {rank: 1, offset: [0, 0], size: [11, 4]}
  - name: "item"
    rows: 5
    columns: 6
    sharding: column_wise
    kernel: fused
    shards:
      - {rank: 0, offset: [0, 0], size: [5, 2]}
      - {rank: 1, offset: [0, 2], size: [5, 2]}
      - {rank: 0, offset: [0, 4], size: [5, 2]}
"""


def checkpoints(check):
    """lockstep's own, before and after a reshard, whole and damaged."""
    folder = check.path()
    os.makedirs(folder)
    before, after, plan = (os.path.join(folder, name) for name in ("before", "after", "plan"))
    for path, text in ((folder + "/scenario.yaml", SCENARIO), (plan, PLAN)):
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
    for words in (["run", folder + "/scenario.yaml", "--checkpoint", before], ["reshard", before, after, "--plan", plan]):
        done = subprocess.run([LOCKSTEP, *words], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
    code, stages, _ = diff(before, after, "--exact")
    assert code == 0 and {s["class"] for s in stages.values()} == {"bit_exact"}, stages
    assert list(stages) == ["step", "user.weights", "user.momentum1", "item.weights", "item.momentum1"], stages
    file = os.path.join(after, "rank_00001.safetensors")
    tensors = tensor_files.read_raw(file)
    for name, tensor in tensors.items():
        for data in (f32([math.nan]) + tensor[2][4:], bytes(len(tensor[2])), tensor[2][:-4] + f32([1 + 2**-20])):
            tensor_files.write_raw(file, {**tensors, name: (*tensor[:2], data)})
            code, stages, said = diff(before, after)
            assert code == 1, (name, stages, said)
    near = {name: (*t[:2], bytes([t[2][0] ^ 1]) + t[2][1:]) for name, t in tensors.items()}
    tensor_files.write_raw(file, near)
    assert diff(before, after)[0] == 0 and diff(before, after, "--exact")[0] == 1
    tensor_files.write_raw(file, dict(list(tensors.items())[1:]))
    assert diff(before, after)[0] == 2
