"""TorchRec's training, repeated in the simulator: check_torchrec.py LOCKSTEP SOURCE_DIR.

With its sharding and with others; then with one changed number, which must be reported, and with malformed files.
"""
import json
import math
import os
import struct
import subprocess
import sys
import tempfile

CLASSES = {"replica": "within_bound", "weighted": "within_bound", "keys": "within_bound",
           "mean_by_rows": "by_design", "by_rows": "within_bound", "by_columns": "by_design",
           "adagrad": "bit_exact"}


def load(path):
    """Tensors by name: [type, shape, bytes]."""
    with open(path, "rb") as file:
        data = file.read()
    length, = struct.unpack("<Q", data[:8])
    header = json.loads(data[8:8 + length])
    return {name: [t["dtype"], t["shape"],
                   bytearray(data[8 + length + t["data_offsets"][0]:8 + length + t["data_offsets"][1]])]
            for name, t in header.items() if name != "__metadata__"}


def store(path, tensors):
    header, at = {}, 0
    for name, (dtype, shape, data) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + len(data)]}
        at += len(data)
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + b"".join(bytes(t[2]) for t in tensors.values()))


class Folder:
    """One of the results in a separate folder, to be changed."""

    def __init__(self, source, name, folder):
        with open(os.path.join(source, "manifest.json"), encoding="utf-8") as file:
            self.manifest = json.load(file)
        self.entry = next(c for c in self.manifest["cases"] if c["name"] == name)
        self.manifest["cases"] = [self.entry]
        self.folder = folder
        self.tensors = load(os.path.join(source, self.entry["file"]))

    def change(self, name, element, factor):
        data = self.tensors[name][2]
        value, = struct.unpack_from("<f", data, 4 * element)
        struct.pack_into("<f", data, 4 * element, value * factor if value else factor)

    def replay(self, program):
        store(os.path.join(self.folder, self.entry["file"]), self.tensors)
        with open(os.path.join(self.folder, "manifest.json"), "w", encoding="utf-8") as file:
            json.dump(self.manifest, file)
        return replay(program, self.folder)


def replay(program, folder, *options):
    done = subprocess.run([program, "replay", folder, "--json", "-", *options], capture_output=True, text=True,
                          check=False)
    assert done.returncode in (0, 1, 2, 5), (done.returncode, done.stderr)
    report = json.loads(done.stdout)
    assert (done.returncode in (0, 5)) == (report["failed"] == 0), done.stdout
    return report


def check_all(program, source):
    report = replay(program, source)
    assert report["passed"] == len(CLASSES) and report["skipped"] == 0, report
    for case in report["cases"]:
        name = case["name"].split(".")[0]
        assert case["class"] == CLASSES[name], (name, case["class"])
        real = [s for s in case["stages"] if s["against"] == "real"]
        for step in range(3):
            stages = {s["name"] for s in real}
            assert {f"step{step}.output_dist", f"step{step}.update"} <= stages, (name, stages)
        if name in ("replica", "adagrad", "by_columns"):
            assert "step2.all_reduce" in {s["name"] for s in real}
        assert all(s["elements"] > 0 and s["bound_ratio"] <= 1 for s in real)
    quirk = next(c for c in report["cases"] if c["name"].startswith("mean_by_rows"))
    said = " ".join(s.get("divergence", "") for s in quirk["stages"])
    assert "torchrec_quirks: row_wise_mean_divides_others" in said, said


def check_resharded(program, source):
    report = replay(program, source, "--resharded")
    assert report["passed"] == len(CLASSES), report
    others = {}
    for case in report["cases"]:
        ways = {s["name"].split(", step")[0] for s in case["stages"]
                if s["against"] == "real" and " on " in s["name"]}
        others[case["name"].split(".")[0]] = ways
        assert len(ways) >= 2, (case["name"], ways)
    assert "column_wise on 1 rank" in others["weighted"] and "row_wise on 2 ranks" in others["weighted"]
    assert any(way.endswith("on 5 ranks") for way in others["by_rows"]), others["by_rows"]


def wrong_stages(report):
    assert report["failed"] == 1 and report["cases"][0]["class"] == "wrong", report
    return {s["name"]: s["divergence"] for s in report["cases"][0]["stages"] if s["class"] == "wrong"}


def check_changed(program, source):
    """A number that is off by a thousandth is reported at its place."""
    for name, tensor, element, stage, place in (
            ("by_rows", "step1.rank2.shard.t0.6_0", 5, "step1.update", "rank 2, element 5"),
            ("by_rows", "step2.rank1.state.t0.momentum1.3", 0, "step2.update", "momentum1, rank 1, element 0"),
            ("by_columns", "step0.rank0.state.t0.momentum1.5", 3, "step0.update", "momentum1, rank 0, element 3"),
            ("keys", "step0.rank1.output", 0, "step0.output_dist", "feature f1_0, values, rank 1, element 0"),
            ("by_columns", "step1.rank1.dense_grad.t1", None, "step1.all_reduce", "gradients, rank 1"),
            ("weighted", "step0.rank0.grad_output", 0, "step0.update", "weights, rank 0")):
        with tempfile.TemporaryDirectory() as folder:
            case = Folder(source, name, folder)
            if element is None:  # the first that is not 0
                data = case.tensors[tensor][2]
                element = next(i for i in range(len(data) // 4) if any(data[4 * i:4 * i + 4]))
            case.change(tensor, element, 1.001)
            wrong = wrong_stages(case.replay(program))
            assert stage in wrong and place in wrong[stage], (name, tensor, wrong)
            steps = {s.split(".")[0] for s in wrong}
            if "grad_output" in tensor or name == "weighted":
                assert min(steps) == "step0"
            else:  # TorchRec's result is compared; no later step starts from it
                assert steps == {stage.split(".")[0]}, (name, wrong)
    for key, value in (("lr", 0.11), ("eps", 0.5), ("optimizer", "adagrad")):
        with tempfile.TemporaryDirectory() as folder:
            case = Folder(source, "by_rows", folder)
            assert case.entry[key] != value
            case.entry[key] = value
            report = case.replay(program)
            assert report["failed"] == 1, (key, report)


def check_malformed(program, source):
    def lengths(case):
        struct.pack_into("<q", case.tensors["step1.rank0.lengths"][2], 0, -1)

    def missing(case):
        del case.tensors["step2.rank3.grad_output"]

    def outside(case):
        case.tensors["step0.rank0.shard.t0.9_0"] = case.tensors.pop("step0.rank0.shard.t0.0_0")

    def shape(case):
        case.tensors["step1.rank0.output"][1][1] -= 1
        del case.tensors["step1.rank0.output"][2][-4 * case.tensors["step1.rank0.output"][1][0]:]

    def turned(case):
        case.tensors["step1.rank0.output"][1].reverse()

    def mistyped(key, value):
        return lambda case: case.entry.update({key: value})

    def keys(case):
        case.entry["keys"] = ["f0_0", "f0_0"]

    def nan(case):
        struct.pack_into("<f", case.tensors["step0.rank0.grad_output"][2], 0, math.nan)

    for spoil, told in ((lengths, "do not add up"), (missing, "step2.rank3.grad_output is missing"),
                        (outside, "not a shard of its table"), (shape, "wrong type or shape"),
                        (turned, "wrong type or shape"), (mistyped("eps", "x"), "eps is missing or invalid"),
                        (mistyped("lr", None), "lr is missing or invalid"),
                        (mistyped("weighted", 1), "weighted is missing or invalid"),
                        (keys, "keys is missing or invalid"), (nan, "not a number")):
        with tempfile.TemporaryDirectory() as folder:
            case = Folder(source, "by_rows", folder)
            spoil(case)
            report = case.replay(program)
            assert report["failed"] == 1 and report["cases"][0]["class"] == "error", report
            assert told in report["cases"][0]["error"], report["cases"][0]["error"]
    with tempfile.TemporaryDirectory() as folder:
        case = Folder(source, "by_rows", folder)
        case.tensors["step0.rank0.gradient_of_nothing"] = ["F32", [1], bytearray(4)]
        case.entry["optimizer"] = "rowwise_adagrad"
        report = case.replay(program)
        assert report["passed"] == 1 and "gradient_of_nothing" in report["skips"][0]["reason"], report
        case.entry["optimizer"] = "shampoo"
        report = case.replay(program)
        assert report["failed"] == 0 and "does not know" in report["skips"][0]["reason"], report


def main():
    program, source = sys.argv[1], os.path.join(sys.argv[2], "tests/scenarios/runner/torchrec")
    check_all(program, source)
    check_resharded(program, source)
    check_changed(program, source)
    check_malformed(program, source)
    print(f"{len(CLASSES)} results of TorchRec")


main()
