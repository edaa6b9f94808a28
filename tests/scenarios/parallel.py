"""DTensor programs in common styles, on 1 to 8 ranks, and mistakes in them: parallel.py LOCKSTEP

Eleven programs (tensor, sequence and data parallel layers, vocabulary-parallel losses, FSDP over tensor parallelism, attention on a mesh of
two dimensions, ...), each on every number of ranks, with sizes that do not divide and fewer rows than ranks: each must equal the unsharded
program (check_equal), and none may fail. Then mistakes, each of which must have its finding.
"""
import json
import os
import re
import subprocess
import sys
import tempfile

MESHES = [[1], [2], [3], [4], [5], [6], [7], [8]]
SQUARES = [[1, 1], [1, 2], [2, 1], [3, 1], [2, 2], [2, 3], [3, 2], [2, 4], [4, 2]]
SIZES = [(6, 8, 12), (7, 5, 9), (3, 2, 5), (1, 3, 2)]


def tensor(name, shape, places, **more):
    return {"name": name, "shape": shape, "values": "normal", "placements": places, **more}


def whole(name, mesh):
    return {"redistribute": {"name": "whole " + name, "tensor": name, "to": replicated(mesh),
                             "into": name + "_whole"}}


def replicated(mesh):
    return ", ".join("R" for _ in mesh)


def equal(name, other):
    return {"check_equal": {"name": f"{name} as {other}", "tensor": name, "other": other}}


def mlp(mesh, sizes):
    rows, inner, width = sizes
    return [tensor("x", [rows, inner], "R"), tensor("w1", [inner, width], "S(1)"),
            tensor("w2", [width, inner], "S(0)")], [
        {"matmul": {"tensor": "x", "other": "w1", "into": "h"}},
        {"mul": {"tensor": "h", "other": "h", "into": "a"}},
        {"matmul": {"tensor": "a", "other": "w2", "into": "y"}},
        {"redistribute": {"name": "reduce", "tensor": "y", "to": "R", "into": "out"}},
        whole("w1", mesh), whole("w2", mesh),
        {"matmul": {"tensor": "x", "other": "w1_whole", "into": "h0"}},
        {"mul": {"tensor": "h0", "other": "h0", "into": "a0"}},
        {"matmul": {"tensor": "a0", "other": "w2_whole", "into": "y0"}}, equal("out", "y0")]


def sequence(mesh, sizes):
    rows, inner, width = sizes
    return [tensor("x", [rows, inner], "S(0)"), tensor("w1", [inner, width], "S(1)"),
            tensor("w2", [width, inner], "S(0)"), tensor("bias", [inner], "R")], [
        {"redistribute": {"name": "gather", "tensor": "x", "to": "R", "into": "all"}},
        {"matmul": {"tensor": "all", "other": "w1", "into": "h"}},
        {"matmul": {"tensor": "h", "other": "w2", "into": "y"}},
        {"redistribute": {"name": "scatter", "tensor": "y", "to": "S(0)", "into": "own"}},
        {"add": {"tensor": "own", "other": "bias", "into": "biased"}},
        {"add": {"name": "residual", "tensor": "biased", "other": "x", "into": "out"}},
        {"norm": {"tensor": "out", "dim": 1, "into": "norms"}},
        whole("w1", mesh), whole("w2", mesh),
        {"matmul": {"tensor": "all", "other": "w1_whole", "into": "h0"}},
        {"matmul": {"tensor": "h0", "other": "w2_whole", "into": "y0"}},
        {"add": {"tensor": "y0", "other": "bias", "into": "b0"}},
        {"add": {"tensor": "b0", "other": "all", "into": "o0"}},
        {"norm": {"tensor": "o0", "dim": 1, "into": "n0"}}, equal("out", "o0"), equal("norms", "n0")]


def vocabulary(mesh, sizes):
    rows, inner, width = sizes
    targets = [(5 * r + 1) % width for r in range(rows)]
    return [tensor("x", [rows, inner], "R"), tensor("head", [inner, width], "S(1)"),
            tensor("targets", [rows], "R", dtype="i64", values={"values": targets})], [
        {"matmul": {"name": "logits", "tensor": "x", "other": "head", "into": "logits"}},
        {"cross_entropy": {"name": "loss", "tensor": "logits", "other": "targets", "into": "losses"}},
        {"mean": {"name": "mean", "tensor": "losses", "dim": 0, "into": "loss"}},
        whole("logits", mesh),
        {"cross_entropy": {"tensor": "logits_whole", "other": "targets", "into": "l0"}},
        {"mean": {"tensor": "l0", "dim": 0, "into": "m0"}}, equal("loss", "m0")]


def classes_weighed(mesh, sizes):
    """Class weights and smoothed labels, over sharded classes and over sharded samples."""
    rows, inner, width = sizes
    targets = [-100 if r == 1 else (3 * r + 1) % width for r in range(rows)]
    says = {"other": "targets", "weights": "of_classes", "smoothing": 0.125, "reduction": "mean"}
    return [tensor("x", [rows, inner], "R"), tensor("head", [inner, width], "S(1)"),
            tensor("of_classes", [width], "R", values={"uniform": [0.5, 2]}),
            tensor("targets", [rows], "R", dtype="i64", values={"values": targets})], [
        {"matmul": {"tensor": "x", "other": "head", "into": "logits"}},
        {"cross_entropy": {"name": "loss", "tensor": "logits", "into": "mean", **says}},
        {"redistribute": {"tensor": "logits", "to": "S(0)", "into": "by_samples"}},
        {"cross_entropy": {"name": "by samples", "tensor": "by_samples", "into": "same", **says}},
        equal("same", "mean")]


def fsdp(mesh, sizes):
    rows, inner, width = sizes
    return [tensor("x", [rows, inner], "S(0)"), tensor("w", [inner, width], "S(0)"),
            tensor("g", [rows, width], "S(0)")], [
        {"redistribute": {"name": "gather", "tensor": "w", "to": "R", "into": "full"}},
        {"matmul": {"tensor": "x", "other": "full", "into": "y"}},
        {"transpose": {"tensor": "x", "into": "xt"}},
        {"matmul": {"tensor": "xt", "other": "g", "into": "dw"}},
        {"redistribute": {"name": "scatter", "tensor": "dw", "to": "S(0)", "into": "own"}},
        {"scale": {"name": "rate", "tensor": "own", "factor": 0.125, "into": "step"}},
        {"sub": {"name": "update", "tensor": "w", "other": "step", "into": "new"}},
        whole("x", mesh), whole("g", mesh),
        {"transpose": {"tensor": "x_whole", "into": "xt0"}},
        {"matmul": {"tensor": "xt0", "other": "g_whole", "into": "dw0"}},
        {"scale": {"tensor": "dw0", "factor": 0.125, "into": "s0"}},
        {"sub": {"tensor": "full", "other": "s0", "into": "n0"}}, equal("new", "n0"),
        {"full": {"tensor": "y"}}]


def strided(mesh, sizes):
    rows, inner, width = sizes
    return [tensor("x", [rows, inner], "S(0), R"),
            tensor("w", [width, inner], f"_S(0, {mesh[1]}), S(0)")], [
        {"redistribute": {"name": "gather", "tensor": "w", "to": "R, S(0)", "into": "part"}},
        {"transpose": {"tensor": "part", "into": "columns"}},
        {"matmul": {"tensor": "x", "other": "columns", "into": "y"}},
        {"redistribute": {"name": "settle", "tensor": "y", "to": "S(0), R", "into": "out"}},
        whole("x", mesh), whole("w", mesh), {"transpose": {"tensor": "w_whole", "into": "wt"}},
        {"matmul": {"tensor": "x_whole", "other": "wt", "into": "y0"}}, equal("out", "y0")]


def attention(mesh, sizes):
    rows, inner, _ = sizes
    names = ["q", "k", "v"]
    return [tensor(n, [rows, inner], "S(0), R") for n in names] + [
        tensor("wo", [inner, inner], "R, S(1)")], [
        {"redistribute": {"name": "keys", "tensor": "k", "to": "R, R", "into": "keys"}},
        {"redistribute": {"name": "values", "tensor": "v", "to": "R, S(1)", "into": "values"}},
        {"transpose": {"tensor": "keys", "into": "kt"}},
        {"matmul": {"tensor": "q", "other": "kt", "into": "scores"}},
        {"scale": {"tensor": "scores", "factor": 0.5, "into": "scaled"}},
        {"softmax": {"name": "weights", "tensor": "scaled", "dim": -1, "into": "p"}},
        {"matmul": {"tensor": "p", "other": "values", "into": "heads"}},
        {"redistribute": {"name": "join", "tensor": "heads", "to": "S(0), R", "into": "joined"}},
        {"matmul": {"tensor": "joined", "other": "wo", "into": "out"}},
        whole("q", mesh), whole("v", mesh), whole("wo", mesh),
        {"matmul": {"tensor": "q_whole", "other": "kt", "into": "s0"}},
        {"scale": {"tensor": "s0", "factor": 0.5, "into": "c0"}},
        {"softmax": {"tensor": "c0", "dim": -1, "into": "p0"}},
        {"matmul": {"tensor": "p0", "other": "v_whole", "into": "h0"}},
        {"matmul": {"tensor": "h0", "other": "wo_whole", "into": "o0"}}, equal("out", "o0")]


def redistributions(mesh, sizes):
    rows, inner, _ = sizes
    ways = ["S(1), S(0)", "S(0), S(0)", "R, S(1)", "S(0)[1], S(0)", f"_S(1, {mesh[1]}), R", "S(1), S(1)",
            "P(sum), S(0)", "R, R"]
    steps, now = [], "t"
    for i, to in enumerate(ways):
        steps.append({"redistribute": {"name": f"way {i}", "tensor": now, "to": to, "into": f"t{i}"}})
        now = f"t{i}"
    return [tensor("t", [rows, inner], "S(0), S(1)"), tensor("same", [rows, inner], "S(0), S(1)")], \
        steps + [equal(now, "t"), {"full": {"tensor": "t4"}}]


def tied(mesh, sizes):
    """A vocabulary-parallel embedding, with its weight reused as the head."""
    _, inner, width = sizes
    ids = [(3 * i + 2) % width for i in range(2 * mesh[0])]
    return [tensor("table", [width, inner], "S(0)"),
            tensor("ids", [2 * mesh[0]], "S(0)", dtype="i64", values={"values": ids})], [
        {"embedding": {"name": "lookup", "tensor": "ids", "other": "table", "into": "rows"}},
        {"redistribute": {"name": "gather", "tensor": "rows", "to": "R", "into": "all"}},
        {"transpose": {"tensor": "table", "into": "head"}},
        {"matmul": {"tensor": "all", "other": "head", "into": "logits"}},
        {"cross_entropy": {"name": "loss", "tensor": "logits", "other": "ids", "into": "losses"}},
        whole("logits", mesh),
        {"cross_entropy": {"tensor": "logits_whole", "other": "ids", "into": "l0"}},
        equal("losses", "l0")]


def data_parallel(mesh, sizes):
    rows, inner, width = sizes
    return [tensor("g", [inner, width], "P(avg)", parts="each"), tensor("w", [inner, width], "R"),
            tensor("sums", [rows, inner], "P(sum)", parts="each")], [
        {"redistribute": {"name": "average", "tensor": "g", "to": "R", "into": "mean"}},
        {"norm": {"tensor": "mean", "dim": 1, "into": "of_rows"}},
        {"norm": {"name": "norm", "tensor": "of_rows", "dim": 0, "into": "norm"}},
        {"sub": {"name": "update", "tensor": "w", "other": "mean", "into": "new"}},
        {"redistribute": {"tensor": "g", "to": "S(0)", "into": "cut"}},
        {"norm": {"tensor": "cut", "dim": 1, "into": "of_cut"}},
        {"norm": {"tensor": "of_cut", "dim": 0, "into": "same"}}, equal("norm", "same"),
        {"cast": {"tensor": "sums", "dtype": "f64", "into": "wide"}},
        {"redistribute": {"tensor": "wide", "to": "S(1)"}}]


def regularised(mesh, sizes):
    rows, inner, width = sizes
    return [tensor("x", [rows, width], "S(0)"), tensor("y", [rows, inner], "R")], [
        {"dropout": {"name": "drop", "tensor": "x", "p": 0.3, "stream": "a", "into": "d"}},
        whole("x", mesh),
        {"dropout": {"tensor": "x_whole", "p": 0.3, "stream": "a", "into": "d0"}}, equal("d", "d0"),
        {"mean": {"name": "mean", "tensor": "d", "dim": 0, "into": "m"}},
        {"mean": {"tensor": "d0", "dim": 0, "into": "m0"}}, equal("m", "m0"),
        {"redistribute": {"tensor": "y", "to": "S(0)", "into": "ys"}},
        {"cat": {"name": "join", "tensors": ["d", "ys"], "dim": 1, "into": "c"}},
        {"cat": {"tensors": ["d0", "y"], "dim": 1, "into": "c0"}}, equal("c", "c0"),
        {"log_softmax": {"tensor": "c", "dim": 0, "into": "l"}},
        {"log_softmax": {"tensor": "c0", "dim": 0, "into": "l0"}}, equal("l", "l0")]


PROGRAMS = {mlp: MESHES, sequence: MESHES, vocabulary: MESHES, fsdp: MESHES, strided: SQUARES,
            attention: SQUARES, redistributions: SQUARES, tied: MESHES, data_parallel: MESHES,
            regularised: MESHES, classes_weighed: MESHES}


def scenario(folder, label, mesh, tensors, steps, **more):
    path = os.path.join(folder, label + ".yaml")
    with open(path, "w", encoding="utf-8") as file:
        json.dump({"lockstep": 1, "name": label, "mesh": {"shape": mesh},
                   "program": {"tensors": tensors, "steps": steps}, **more}, file, indent=1)
    return path


# ---- Mistakes -------------------------------------------------------------------------------------
def named(steps, name):
    for step in steps:
        for keys in step.values():
            if keys.get("name") == name:
                return step
    raise KeyError(name)


def excepted(name, ranks, **what):
    def change(_, steps):
        for keys in named(steps, name).values():
            keys["except"] = [{"ranks": ranks, **what}]
    return change


def said(name, **what):
    def change(_, steps):
        for keys in named(steps, name).values():
            keys.update(what)
    return change


def instead(name, *others):
    def change(_, steps):
        at = steps.index(named(steps, name))
        steps[at:at + 1] = others
    return change


def given(name, **what):
    def change(tensors, _):
        next(t for t in tensors if t["name"] == name).update(what)
    return change


def nothing(*_):
    pass


FLIP = {"faults": [{"type": "bit_flip", "rank": 1, "call": 0, "index": 30}]}
# Program, mesh, mistake, more keys, expected report: a finding, or the wrong stage.
MISTAKES = {
    "a rank leaves the reduction out": (mlp, [4], excepted("reduce", [2], skip=True), {}, "collective."),
    "partial sums taken for whole ones": (
        mlp, [4], instead("reduce", {"place": {"tensor": "y", "shape": [7, 5], "to": "R", "into": "out"}}),
        {}, "replica.diverged"),
    "reduced twice": (
        mlp, [4], instead("reduce", {"redistribute": {"tensor": "y", "to": "R", "into": "o"}},
                          {"all_reduce": {"tensor": "o", "into": "p"}},
                          {"place": {"tensor": "p", "shape": [7, 5], "to": "R", "into": "out"}}), {},
        "out as y0"),
    "averaged where it is to be added": (
        mlp, [3], instead("reduce", {"place": {"tensor": "y", "shape": [7, 5], "to": "P(avg)", "into": "p"}},
                          {"redistribute": {"tensor": "p", "to": "R", "into": "out"}}), {}, "out as y0"),
    "a bit flips in the reduction": (mlp, [4], nothing, FLIP, "reduce"),
    "the gather of a rank without rows is left out": (
        sequence, [8], excepted("gather", [7], skip=True), {}, "rank.exited"),
    "the residual is added twice": (
        sequence, [4], instead("residual", {"add": {"tensor": "biased", "other": "x", "into": "twice"}},
                               {"add": {"tensor": "twice", "other": "x", "into": "out"}}), {}, "out as o0"),
    "a bias added before the reduction": (
        sequence, [3], instead("scatter", {"place": {"tensor": "y", "shape": [7, 5], "to": "P(sum)",
                                                     "into": "y1"}},
                               {"place": {"tensor": "bias", "shape": [5], "to": "P(sum)", "into": "b1"}},
                               {"add": {"tensor": "y1", "other": "b1", "into": "y2"}},
                               {"redistribute": {"tensor": "y2", "to": "S(0)", "into": "own"}},
                               {"sub": {"tensor": "own", "other": "bias", "into": "own"}}), {},
        "out as o0"),
    "a rank's loss is skipped": (
        vocabulary, [4], excepted("loss", [1], skip=True), {}, "rank.exited|collective."),
    "a mean by own rows": (
        regularised, [3], excepted("mean", [0], count=9), {}, "mean"),
    "a mean over all samples where some are ignored": (
        classes_weighed, [4], instead("by samples", {"cross_entropy": {
            "tensor": "by_samples", "other": "targets", "weights": "of_classes", "smoothing": 0.125, "into": "l"}},
                                      {"mean": {"tensor": "l", "dim": 0, "into": "p"}},
                                      {"redistribute": {"tensor": "p", "to": "R", "into": "same"}}), {},
        "same as mean"),
    "labels smoothed on one side alone": (classes_weighed, [3], said("by samples", smoothing=0), {},
                                          "same as mean"),
    "an ignored target taken for a class": (classes_weighed, [4], said("loss", ignored=0), {}, "call.invalid"),
    "a weight for fewer classes": (classes_weighed, [4], given("of_classes", shape=[5]), {}, "call.invalid"),
    "a rank ends before the losses": (vocabulary, [4], excepted("loss", [3], exit=True), {}, "rank.exited"),
    "a gradient scattered by max on one rank": (
        fsdp, [4], instead("scatter", {"reduce_scatter": {"tensor": "dw", "op": "sum", "dim": 0,
                                                          "into": "own", "except": [
                                                              {"ranks": [1], "op": "max"}]}}), {},
        "collective.op_mismatch"),
    "the learning rate applied twice": (fsdp, [4], excepted("rate", [0], repeat=True), {}, None),
    "an update that one rank leaves out": (
        fsdp, [4], instead("update", {"sub": {"name": "update", "tensor": "w", "other": "step", "into": "w",
                                              "except": [{"ranks": [2], "skip": True}]}},
                           {"scale": {"tensor": "w", "factor": 1, "into": "new"}}), {}, "update"),
    "strided shards taken for plain ones": (
        strided, [2, 2], instead("gather", {"place": {"tensor": "plain", "shape": [9, 5], "to": "S(0), S(0)",
                                                      "into": "p"}},
                                 {"redistribute": {"tensor": "p", "to": "R, S(0)", "into": "part"}}),
        {"also": tensor("plain", [9, 5], "S(0)[1], S(0)")}, "call.invalid|out as y0"),
    "a view of heads across ranks": (
        attention, [2, 2], instead("join", {"view": {"tensor": "heads", "shape": [5, 7], "into": "v5"}},
                                   {"redistribute": {"tensor": "heads", "to": "S(0), R",
                                                     "into": "joined"}}), {}, "call.invalid"),
    "a softmax that one rank leaves out": (
        attention, [2, 2], instead("weights", {"softmax": {"name": "weights", "tensor": "scaled", "dim": -1,
                                                           "into": "scaled", "except": [
                                                               {"ranks": [3], "skip": True}]}},
                                   {"scale": {"tensor": "scaled", "factor": 1, "into": "p"}}), {},
        "weights|replica.diverged"),
    "a replica changes on the way": (
        data_parallel, [4], instead("update", {"change": {"tensor": "w", "ranks": [2], "value": 9}},
                                    {"sub": {"tensor": "w", "other": "mean", "into": "new"}}), {},
        "replica.diverged"),
    "replicas drop for themselves": (
        regularised, [4], instead("drop", {"redistribute": {"tensor": "x", "to": "R", "into": "xr"}},
                                  {"dropout": {"tensor": "xr", "p": 0.3, "per_rank": True, "into": "d"}}),
        {}, "replica.diverged"),
    "a lookup that one rank leaves out": (tied, [4], excepted("lookup", [2], skip=True), {},
                                          "rank.exited"),
    "an id of the row beyond": (
        tied, [4], given("ids", values={"values": [0, 1, 2, 3, 4, 5, 6, 9]}), {}, "call.invalid"),
    "two gathers in another order on one rank": (
        mlp, [4], excepted("whole w1", [1], swap=True), {}, "collective.|whole w1"),
}


def told(case):
    texts = [finding["id"] for finding in case["findings"]]
    texts += [stage["name"] for stage in case["stages"] if stage["class"] == "wrong"]
    return texts + (["error: " + case["error"]] if case.get("error") and not texts else [])


def run(program, paths):
    cases = {}
    for first in range(0, len(paths), 60):
        done = subprocess.run([program, "run", "--json", "-", *paths[first:first + 60]], capture_output=True,
                              text=True, check=False)
        if not done.stdout.startswith("{"):
            sys.exit(done.stdout + done.stderr)
        report = json.loads(done.stdout)
        cases.update({case["file"]: case for case in report["cases"]})
        cases.update({case["file"]: dict(case, verdict="skip") for case in report["skips"]})
    return cases


def main():
    program, failures = os.path.abspath(sys.argv[1]), []
    with tempfile.TemporaryDirectory() as folder:
        right = [scenario(folder, f"{make.__name__} on {mesh} of {sizes}", mesh, *make(mesh, sizes))
                 for make, meshes in PROGRAMS.items() for mesh in meshes for sizes in SIZES]
        for path, case in run(program, right).items():
            if case["verdict"] != "pass":
                failures.append(f"{os.path.basename(path)}: {case['verdict']}: {told(case)}")
        wrong = {}
        for what, (make, mesh, change, more, expected) in MISTAKES.items():
            tensors, steps = make(mesh, SIZES[1])
            more = dict(more)
            tensors += [more.pop("also")] if "also" in more else []
            change(tensors, steps)
            wrong[scenario(folder, what, mesh, tensors, steps, **more)] = expected
        for path, case in run(program, list(wrong)).items():
            expected, what = wrong[path], os.path.basename(path)[:-5]
            if expected is None:  # a step into another tensor may be repeated
                if "no bit of any output" not in (case.get("error") or ""):
                    failures.append(f"{what}: {told(case)}")
            elif case["verdict"] == "pass" or not any(re.search(expected, text) for text in told(case)):
                failures.append(f"{what}: {case['verdict']}: {told(case)}, not {expected}")
            if "--show" in sys.argv:
                print(f"{what}: {told(case)}")
    print("\n".join(failures) or f"{len(right)} programs right, {len(MISTAKES)} mistakes named")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
