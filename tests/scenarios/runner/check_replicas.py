"""Replicas of data parallel tables that differ after a real run, even by one bit: check_replicas.py LOCKSTEP.

A recording of their training is changed by one unit in the last place on one rank, within every bound. The comparison must find it, nothing
before the change, and nothing in a table that is no replica.
"""
import json
import os
import struct
import subprocess
import sys
import tempfile

SCENARIO = """lockstep: 1
name: copies
mesh: {shape: [3]}
tables:
  - {name: whole, rows: 6, dim: 4, sharding: {type: table_wise, ranks: 1}}
  - {name: copies, rows: 6, dim: 4, sharding: {type: data_parallel}}
inputs: {batch: 2}
steps: [forward, backward, update]
optimizer: {type: adam, lr: 0.1}
train: {steps: 2}
"""


def run(program, *arguments):
    done = subprocess.run([program, *arguments, "--json", "-"], capture_output=True, text=True, check=False)
    return done.returncode, json.loads(done.stdout)["cases"][0]


def nudge(path, tensor, element):
    """The next float of a larger magnitude."""
    with open(path, "rb") as file:
        data = bytearray(file.read())
    length, = struct.unpack("<Q", data[:8])
    at = 8 + length + json.loads(data[8:8 + length])[tensor]["data_offsets"][0] + 4 * element
    bits, = struct.unpack_from("<I", data, at)
    struct.pack_into("<I", data, at, bits + 1)
    with open(path, "wb") as file:
        file.write(data)


def main():
    program = sys.argv[1]
    with tempfile.TemporaryDirectory() as folder:
        scenario = os.path.join(folder, "copies.yaml")
        with open(scenario, "w", encoding="utf-8") as file:
            file.write(SCENARIO)
        kept = os.path.join(folder, "kept")
        subprocess.run([program, "record", scenario, "--backend", "sim", "--out", kept, "--quiet"], check=True,
                       stdout=subprocess.DEVNULL)
        code, case = run(program, "compare", scenario, "--real", kept)
        assert code == 0 and case["class"] in ("bit_exact", "within_bound"), case
        nudge(os.path.join(kept, "copies", "rank_00001.safetensors"), "step1.update/whole/whole/weights", 3)
        code, case = run(program, "compare", scenario, "--real", kept)
        assert code == 0 and not case["findings"], case
        nudge(os.path.join(kept, "copies", "rank_00002.safetensors"), "step1.update/copies/copies/weights", 9)
        code, case = run(program, "compare", scenario, "--real", kept)
        assert code == 1 and case["class"] == "finding", case
        finding, = case["findings"]
        assert finding["id"] == "replica.diverged" and finding["ranks"] == [2], finding
        assert finding["where"].endswith("copies.yaml:6"), finding
        assert "recording: step1.update/copies" in finding["text"] and "row 2, column 1" in finding["text"], finding
        code, case = run(program, "replay", kept)
        assert code == 1 and case["findings"][0]["id"] == "replica.diverged", case
        # The majority's value is right, and the first one's if all differ.
        for wrong in ([0], [1, 2]):
            nudge(os.path.join(kept, "copies", "rank_00001.safetensors"), "step1.update/copies/copies/weights", 9)
            code, case = run(program, "compare", scenario, "--real", kept)
            assert code == 1 and case["findings"][0]["ranks"] == wrong, case
    print("replicas are compared")


main()
