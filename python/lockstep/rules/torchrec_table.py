"""TorchRec's table: sharding types x pooling x weights x rows x ranks without ids x optimizers x types."""

import itertools
import os

import torch

SHARDING = ("data_parallel", "table_wise", "column_wise", "row_wise", "table_row_wise", "grid",
            "row_wise+table_wise", "row_wise+column_wise", "table_row_wise+data_parallel")
ROWS = {"even": (8, 12), "uneven": (7, 5), "few": (1, 2)}
TOLERANCE = {"FP32": 1e-5, "FP16": 2e-3}  # of means and of roots, which round


def cases():
    """(name, case) of the whole table."""
    for sharding, pooling, weighted, rows, empty, optimizer, kind in itertools.product(
            SHARDING, ("sum", "mean"), (False, True), ROWS, (False, True), ("sgd", "adagrad", "rowwise_adagrad", "adam"),
            ("FP32", "FP16")):
        if weighted and (pooling == "mean" or kind == "FP16"):  # the unsharded collection refuses it
            continue
        yield f"EmbeddingBagCollection {sharding}", {
            "module": "bags", "sharding": sharding, "pooling": pooling, "weighted": weighted, "rows": ROWS[rows],
            "empty": empty, "optimizer": optimizer, "type": kind}
    for sharding, rows, empty, optimizer, kind in itertools.product(
            ("data_parallel", "table_wise", "column_wise", "row_wise"), ROWS, (False, True), ("sgd", "adagrad", "rowwise_adagrad"),
            ("FP32", "FP16")):
        yield f"EmbeddingCollection {sharding}", {
            "module": "sequence", "sharding": sharding, "pooling": "none", "weighted": False, "rows": ROWS[rows],
            "empty": empty, "optimizer": optimizer, "type": kind}


def key(case):
    words = [case["sharding"], case["pooling"], "weighted" if case["weighted"] else "unweighted",
             "rows " + ",".join(map(str, case["rows"])), "a rank without ids" if case["empty"] else "ids on all ranks",
             case["optimizer"], case["type"]]
    return f"{case['module']}: {', '.join(words)}"


def judge_case(case):
    """On one rank: (verdict, kind, sentence, placements), as judge.judge_rank."""
    from lockstep.rules import torchrec_case

    rounded, first = False, None
    for what, got, want in torchrec_case.run(case):
        kind = "value" if what.startswith("output") else "update"
        if got is None or got.shape != want.shape:
            return "wrong", "shape", f"{what}: shape {None if got is None else list(got.shape)}, not {list(want.shape)}", ""
        if torch.equal(got, want):
            continue
        wide = TOLERANCE[case["type"]]
        differ = ~torch.isclose(got.float(), want.float(), rtol=wide, atol=wide)
        if differ.any() and first is None:
            at = differ.nonzero()[0].tolist()
            first = ("wrong", kind, f"{what}: {got[tuple(at)].item()!r}, not {want[tuple(at)].item()!r}, at {at}; "
                     f"{int(differ.sum())} of {differ.numel()} elements differ", "")
        rounded = True
    return first or ("right", "rounded" if rounded else "", "", "")


PROGRAM = '''

CASE = {case}
dist.init_process_group("gloo")
for what, got, want in run(CASE):
    if got is None or got.shape != want.shape or not torch.allclose(got, want, rtol=2e-3, atol=2e-3):
        print("rank", dist.get_rank(), what, "sharded", got, "unsharded", want, sep="\\n")
dist.barrier()
dist.destroy_process_group()
'''


def program(case, ranks):
    """The text of a program that shows the case."""
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "torchrec_case.py")
    with open(path, encoding="utf-8") as file:
        text = file.read()
    return f"# torchrun --nproc-per-node {ranks} program.py\n" + text + PROGRAM.format(case=case)
