"""`lockstep diff` on small generated captures, without torch: captures.py LOCKSTEP PYTHON_FOLDER."""
import json
import math
import subprocess

import capture_files
from made import LOCKSTEP, Check, bf16, column_block, diff, lies_as, of_bf16, omitted, rounded, rows, waves


def signs(check):
    """If rounding changes the sign of an activation, a ReLU passes the gradient in only one of the runs."""
    forward, gradient = [1.0, 1e-9, -1.0, 2.0] * 8, [0.5, 0.0, 0.0, 0.25] * 8
    ref = {"step 0 forward a": ([4, 8], forward, {"optional": True}), "step 0 backward a": ([4, 8], gradient, {"optional": True}),
           "step 0 gradient w": ([4], [1.0, 0.5, 0.25, 2.0], {}), "x": ([1], [1.0], {})}

    def run(at, value, sign, w=0.0):
        changed, passed = list(forward), list(gradient)
        changed[at], passed[at] = sign, value
        return [{"step 0 forward a": ([4, 8], changed, {"optional": True}), "step 0 backward a": ([4, 8], passed, {"optional": True}),
                 "step 0 gradient w": ([4], [1.0, 0.5, 0.25, 2.0 + w], {}), "x": ([1], [1.0], {})}]

    check.one(ref, run(1, 0.3, -1e-9), 0, "unjudged", name="step 0 backward a")
    check.one(ref, run(1, 0.3, -1e-9, 0.5), 0, "unjudged", name="step 0 gradient w")
    check.one(ref, run(1, 0.3, 2e-9), 1, "wrong", name="step 0 backward a")  # the sign is the same
    check.one(ref, run(0, 0.0, 1.0), 1, "wrong", name="step 0 backward a")
    check.one(ref, run(1, 0.7, -1e-9), 1, "wrong", name="step 0 backward a")  # more than any gradient
    for off in (-2.0, -4.0, 2.0):  # missing, negated, doubled
        check.one(ref, run(1, 0.5, -1e-9, off), 1, "wrong", name="step 0 gradient w")
    check.one(ref, run(1, 0.0, 1e-9, 0.5), 1, "wrong", name="step 0 gradient w")


def channels(check):
    """The gradient of a convolution's bias before a normalisation is only rounding."""
    g = waves(2 * 3 * 4)
    for n in range(2):
        for c in range(3):
            at = (n * 3 + c) * 4
            mean = math.fsum(g[at:at + 4]) / 4
            g[at:at + 4] = [rounded(v - mean) for v in g[at:at + 4]]
    of = {"made": {"by": "channel bias", "gradient": "g"}}
    sums = [math.fsum(g[(n * 3 + c) * 4 + i] for n in range(2) for i in range(4)) for c in range(3)]
    other = [v + 1e-7 for v in sums]
    ref = {"g": ([2, 3, 2, 2], g, {}), "t": ([3], sums, of)}

    def ranks(values):
        return [{"g": ([1, 3, 2, 2], g[12 * r:12 * r + 12], {}), "t": ([3], values, of)} for r in range(2)]

    check.one(ref, ranks(other), 0, "unjudged")
    check.one(ref, ranks([v + 1e-4 for v in sums]), 1, "wrong")
    check.one({**ref, "g": ([2, 12], g, {})}, [{**r, "g": ([1, 12], r["g"][1], {})} for r in ranks(other)], 1, "wrong")


def added_rows(check):
    """Gradients whose rows a kernel adds in a type of 16 bits may be apart as the square root of the number of rows."""
    t = waves(8)

    def tensors(factor, made, kind="BF16"):
        return {"g": ([8], [of_bf16(factor * v) for v in t], {"type": kind, "made": made}), "x": ([1], [1.0], {})}

    def rows_(count, of="bf16"):
        return {"by": "rows", "in": of, "rows": count}

    for count, factor, verdict in ((100, 1.07, "unjudged"), (100, 1.1, "wrong"), (4096, 1.3, "unjudged"), (4096, 1.6, "wrong"),
                                   (10**9, 1.6, "unjudged"), (10**9, 2, "wrong"), (10**9, 0, "wrong"), (10**9, -1, "wrong"), (0, 1.1, "wrong"), (-5, 1.1, "wrong")):
        for ref, run in ((rows_(count), rows_(count // 2)), (rows_(count // 2), rows_(count)), (None, rows_(count))):
            check.one(tensors(1, ref), [tensors(factor, run)] * 2, verdict == "wrong", verdict, name="g")
    check.one(tensors(1, rows_(100, "i8")), [tensors(1.07, rows_(100, "i8"))], 1, "wrong", name="g")
    # A sum of f32 values that bf16 rows gave.
    for count, verdict in ((4096, "unjudged"), (16, "wrong")):
        check.one(tensors(1, None, "F32"), [tensors(1.2, rows_(count), "F32")], verdict == "wrong", verdict, name="g")


def factors(check):
    t = waves(24)
    whole = {"t": ([6, 4], t, {})}

    def copies(*values):
        return [{"t": ([6, 4], list(v), {})} for v in values]

    def shards(*factors_):
        return [{"t": ([2, 4], [f * v for v in rows(t, 4, 2 * r, 2 * r + 2)], {})} for r, f in enumerate(factors_)]

    check.one(whole, copies(*[[4 * v for v in t]] * 4), 1, "wrong", "4 times", "(world: summed")
    check.one(whole, copies(*[[v / 4 for v in t]] * 4), 1, "wrong", "0.25 times", "(1/world: divided once too often")
    check.one(whole, copies([-v for v in t]), 1, "wrong", "wrong sign")
    check.one(whole, shards(1.5, 1, 0.5), 1, "wrong", "mean of means", "rank 0 has 1.5 times", "rank 2 has 0.5 times")
    check.one(whole, shards(1, 0, 1), 1, "wrong", "rank 1's shard is all zero", "shard left out")
    swapped = shards(1, 1, 1)
    swapped[0], swapped[2] = swapped[2], swapped[0]
    check.one(whole, swapped, 1, "wrong", "rank 0 has the data of rank 2")
    a = [rounded(math.cos(2.3 * i * i)) for i in range(24)]
    b = [rounded(x - y) for x, y in zip(t, a)]
    check.one(whole, copies(a, b), 1, "wrong", "not summed")
    check.one(whole, copies([2 * v for v in a], [2 * v for v in b]), 1, "wrong", "not averaged")
    check.one(whole, copies(t, a, a), 1, "wrong", "of the 3 ranks only 0 has what the reference has")
    moved = rows(t, 4, 0, 2) + rows(t, 4, 3, 6) + rows(t, 4, 2, 3)
    check.one(whole, copies(moved), 1, "wrong", "its row 2 of 6 is the reference's row 3")
    # A row of zeros has no other place: several rows are equal to it.
    empty = rows(t, 4, 0, 2) + [0.0] * 4 + rows(t, 4, 3, 6)
    zeros = {"t": ([6, 4], rows(t, 4, 0, 5) + [0.0] * 4, {})}
    assert "another order" not in check.one(zeros, copies(empty[:20] + [0.0] * 4), 1, "wrong")["divergence"]
    # A layer whose input is sharded along the contracted dimension has partial sums, with or without placements.
    x, w = waves(2 * 64), waves(3 * 64, 0.7)
    made = {"made": {"by": "linear", "input": "x", "weight": "w", "bias": None}}

    def product(a_, b_, k, n):
        return [rounded(math.fsum(a_[i * k + e] * b_[j * k + e] for e in range(k))) for i in range(n) for j in range(3)]

    ref = {"x": ([2, 64], x, {}), "w": ([3, 64], w, {}), "y": ([2, 3], product(x, w, 64, 2), {})}
    halves = []
    for r in range(2):
        mine, other = column_block(x, 64, 32 * r, 32 * r + 32), column_block(w, 64, 32 * r, 32 * r + 32)
        halves.append({"x": ([2, 32], mine, {}), "w": ([3, 32], other, {}), "y": ([2, 3], product(mine, other, 32, 2), made)})
    stage = check.one(ref, halves, 0, "within_bound", name="y")
    assert stage["elements"] == 6, stage
    # With the ranks' parts known: one of them omitted, and a mean over unequal shares.
    part = {"parts": {"name": "step 0 part t", "op": "sum"}}

    def with_parts(value, *parts):
        return [{"step 0 part t": ([6, 4], list(p), {}), "t": ([6, 4], list(value), part)} for p in parts]

    check.one(whole, with_parts(a, a, b), 1, "wrong", "rank 1 is left out")
    alone = with_parts(a, a, b)
    alone[1]["t"] = ([6, 4], b, part)
    check.one(whole, alone, 1, "wrong", "nothing was reduced, rank 0 has its own part alone")
    check.one(whole, copies(t, [v + math.cos(i * i) for i, v in enumerate(t)]), 1, "wrong", "only 0 has what the reference has")
    noise = [[v + math.cos(k + i * i) for i, v in enumerate(t)] for k in (1, 2)]
    check.one(whole, copies(*noise), 1, "wrong", "the ranks' copies differ: ranks 0 and 1 have different values")
    # A bias that each of three ranks added, and updates with another learning rate.
    bias = {"parameter l.bias": ([4], a[:4], {"moves": True})}
    thrice = [v + 2 * a[i % 4] for i, v in enumerate(t)]
    check.one({**bias, **whole}, [{**bias, "t": ([6, 4], thrice, {})}] * 3, 1, "wrong", "parameter l.bias is added 2 times too often")
    before = {"parameter w": ([6, 4], t, {"moves": True})}

    def updated(times):
        return {**before, "step 0 parameter w": ([6, 4], [v - 0.01 * times * g for v, g in zip(t, a)], {})}

    check.one(updated(1), [updated(2)], 1, "wrong", "the update is 2 times the reference's", name="step 0 parameter w")
    stage = check.one(updated(100), [updated(100.7)], 1, "wrong", name="step 0 parameter w")
    assert "the update is" not in stage["divergence"], stage
    weighted = {"t": ([6, 4], [0.25 * x + 0.75 * y for x, y in zip(a, b)], {})}
    check.one(weighted, with_parts([(x + y) / 2 for x, y in zip(a, b)], a, b), 1, "wrong", "a mean of means over unequal")
    check.one({"t": ([6, 4], [0.0] * 24, {})}, with_parts(t, a, b), 1, "wrong", "where the reference is 0 of rank 0, 0 of rank 1")


def bounds(check):
    x, w = waves(4 * 64), waves(3 * 64, 0.1)
    exact = [math.fsum(x[i * 64 + k] * w[j * 64 + k] for k in range(64)) for i in range(4) for j in range(3)]
    size = [math.fsum(abs(x[i * 64 + k] * w[j * 64 + k]) for k in range(64)) for i in range(4) for j in range(3)]
    made = {"made": {"by": "linear", "input": "x", "weight": "w", "bias": None}}

    def inputs(y, about):
        return {"x": ([4, 64], x, {}), "w": ([3, 64], w, {}), "y": ([4, 3], y, about)}

    def off(share):
        return [rounded(e + share * 64 * 2**-24 * s) for e, s in zip(exact, size)]

    ref = inputs(off(0), {})
    stage = check.one(ref, [inputs(off(0.5), made)], 0, "within_bound", name="y")
    assert 0.3 < stage["bound_ratio"] <= 1, stage
    check.one(ref, [inputs(off(3), made)], 1, "wrong", "the run's own inputs, in any order", name="y")
    # The same without a known operation: not judged; with a tolerance reported as such; beyond half of the digits wrong.
    stage = check.one(ref, [inputs(off(3), {})], 0, "unjudged", name="y")
    assert stage["order"] == "no bound", stage
    stage = check.one(ref, [inputs(off(3), {})], 0, "unjudged", name="y", words=["--tolerance", "1e-3"])
    assert stage["order"] == "by --tolerance", stage
    check.one(ref, [inputs(off(3), {})], 1, "wrong", "--tolerance", name="y", words=["--tolerance", "1e-9"])
    check.one(ref, [inputs([1.01 * v for v in off(0)], {})], 1, "wrong", "half of the digits", name="y")
    # Nothing is derived from an input that differs between ranks.
    ranks = [inputs(off(0.5), made), inputs(off(0.5), made)]
    ranks[1]["x"] = ([4, 64], [v + 2**-20 for v in x], {})
    check.one(ref, ranks, 0, "unjudged", name="y")
    # Row-parallel: each rank has a part of the sum.
    about = lies_as("P(sum)", [2], [4, 3], **made)
    halves = [[rounded(math.fsum(x[i * 64 + k] * w[j * 64 + k] for k in range(32 * r, 32 * r + 32)))
               for i in range(4) for j in range(3)] for r in range(2)]
    ranks = [{"x": ([4, 32], column_block(x, 64, 32 * r, 32 * r + 32), {}),
              "w": ([3, 32], column_block(w, 64, 32 * r, 32 * r + 32), {}), "y": ([4, 3], halves[r], about)}
             for r in range(2)]
    check.one(ref, ranks, 0, "within_bound", name="y")
    ranks[1]["y"] = ([4, 3], [0.0] * 12, about)
    check.one(ref, ranks, 1, "wrong", "the run's own inputs, in any order", name="y")
    # A sum of parts of an unknown module: judged by the order of the sum only. An exact result is in another order here.
    parts = [[rounded(v) for v in waves(6, s)] for s in (1, 1e-4, -1)]
    total = [math.fsum(p) for p in zip(*parts)]
    lies = lies_as("P(sum)", [3], [6])
    ranks = [{"t": ([6], part, lies)} for part in parts]
    stage = check.one({"t": ([6], [rounded(v) for v in total], {})}, ranks, 0, "reordered")
    assert stage["bound_ratio"] <= 1
    check.one({"t": ([6], [rounded(1.5 * v) for v in total], {})}, ranks, 1, "wrong")
    # The reference sums the same parts from the last rank on; then one element is in no order.
    parts = [[rounded(math.sin(3 + i * (r + 1.3)) * 10 ** (i % 3)) for i in range(64)] for r in range(4)]
    lies = lies_as("P(sum)", [4], [64])
    ranks = [{"t": ([64], part, lies)} for part in parts]

    def folded(order):
        sums = [0.0] * 64
        for r in order:
            sums = [rounded(a + b) for a, b in zip(sums, parts[r])]
        return sums

    last, first = folded((3, 2, 1, 0)), folded(range(4))
    assert last != first
    stage = check.one({"t": ([64], last, {})}, ranks, 0, "reordered")
    assert stage["order"], stage
    exact = [rounded(math.fsum(p)) for p in zip(*parts)]
    at = next(i for i in range(64) if exact[i] not in (last[i], first[i]))
    damaged = [exact[i] if i == at else value for i, value in enumerate(last)]
    check.one({"t": ([64], damaged, {})}, ranks, 0, "within_bound")


def narrow(check):
    """bf16: a bound as large as the values proves nothing, and the kernels' accumulation in f32 gives a small one."""
    for k in (64, 512, 4096):
        x, w = [[of_bf16(v) for v in waves(n * k, s)] for n, s in ((4, 1), (3, 0.7))]
        y = [math.fsum(x[i * k + e] * w[j * k + e] for e in range(k)) for i in range(4) for j in range(3)]
        kind = {"type": "BF16"}
        made = {"by": "linear", "input": "x", "weight": "w", "bias": None}

        def tensors(values, **how):
            return {"x": ([4, k], x, kind), "w": ([3, k], w, kind), "y": ([4, 3], values, {**kind, "made": {**made, **how}})}

        size = [math.fsum(abs(x[i * k + e] * w[j * k + e]) for e in range(k)) for i in range(4) for j in range(3)]
        ulp, near = [v * (1 + 2**-8) for v in y], [v + 0.9 * k * 2**-24 * s for v, s in zip(y, size)]
        for how in ({"in": "f32"}, {}):
            ref = tensors(y, **how)
            if how:
                check.one(ref, [tensors(near, **how)] * 2, 0, "within_bound" if bf16(near) != bf16(y) else "bit_exact", name="y")
            else:
                check.one(ref, [tensors(ulp)] * 2, 0, "unjudged" if k > 64 else "within_bound", name="y")
            for bad in ([0.0] * 12, [-v for v in y], [2 * v for v in y], y[3:] + y[:3], [1.2 * v for v in y]):
                check.one(ref, [tensors(bad, **how)] * 2, 1, "wrong", name="y")
        # The reference is judged as well; if neither equals the result for its inputs, nothing is derived.
        check.one(tensors([1e9] * 12, **{"in": "f32"}), [tensors(y, **{"in": "f32"})], 1, "wrong",
                  "the reference does not match its own inputs", name="y")
        how = {"in": "f32"}
        check.one(tensors([3 * v for v in y], **how), [tensors([3 * v for v in ulp], **how)] * 2, 0, "unjudged", name="y")
    kind = {"type": "BF16"}
    # A gradient of a bias over three ranks, whose parts are rounded and summed in bf16.
    g = [of_bf16(0.7 + v / 2) for v in waves(3 * 8 * 2)]
    parts = [[of_bf16(math.fsum(g[r * 16 + 2 * i + c] for i in range(8))) for c in range(2)] for r in range(3)]
    of = {**kind, "made": {"by": "linear bias", "gradient": "g", "in": "f32"}}
    whole = {"g": ([24, 2], g, kind), "b": ([2], [math.fsum(g[2 * i + c] for i in range(24)) for c in range(2)], of)}
    sums = [of_bf16(of_bf16(parts[0][c] + parts[1][c]) + parts[2][c]) for c in range(2)]
    assert bf16(sums) != bf16(whole["b"][1])
    ranks = [{"g": ([8, 2], g[16 * r:16 * r + 16], kind), "b": ([2], sums, of)} for r in range(3)]
    assert check.one(whole, ranks, 0, "within_bound", name="b")["bound_ratio"] < 1
    for tensors_ in ranks:
        tensors_["b"] = ([2], [s - p for s, p in zip(sums, parts[2])], of)
    check.one(whole, ranks, 1, "wrong", name="b")
    # A bias after a sum over ranks counts with its size: the sum with it is rounded again.
    x, w, bias, y = [1.0] * 8, [0.875] * 8, [7.0], [14.0]
    of = {**kind, "made": {"by": "linear", "input": "x", "weight": "w", "bias": "bias", "in": "f32"}}
    layer = {"x": ([1, 8], x, kind), "w": ([1, 8], w, kind), "bias": ([1], bias, kind), "y": ([1, 1], y, of)}
    halves = [{"x": ([1, 4], x[4 * r:4 * r + 4], kind), "w": ([1, 4], w[4 * r:4 * r + 4], kind),
               "bias": ([1], bias, kind), "y": ([1, 1], [y[0] + 2**-4], lies_as("R", [2], [1, 1], **of))} for r in range(2)]
    check.one(layer, halves, 0, "within_bound", name="y")
    # The narrowest operand counts, even if only the input is narrow.
    x, w = [of_bf16(v) for v in waves(64)], waves(64, 0.7)
    of = {"made": {"by": "linear", "input": "x", "weight": "w", "bias": None}}
    y, size = (math.fsum(f(a * b) for a, b in zip(x, w)) for f in (float, abs))
    for type_, code, verdict in (("BF16", 0, "within_bound"), ("F32", 1, "wrong")):
        near, ref = [{"x": ([1, 64], x, {"type": type_}), "w": ([1, 64], w, {}), "y": ([1, 1], [v], of)}
                     for v in (rounded(y + 2 * 64 * 2**-23 * size), rounded(y))]
        check.one(ref, [near], code, verdict, name="y")
    # Ids are row numbers in any type that the rows may have.
    table, ids = [of_bf16(v) for v in waves(600 * 2)], [599, 3, 257]
    of = {**kind, "made": {"by": "embedding", "input": "ids", "weight": "w"}}
    y = [v for i in ids for v in rows(table, 2, i, i + 1)]
    looked_up = {"ids": ([3], ids, {"type": "I64"}), "w": ([600, 2], table, kind), "y": ([3, 2], y, of)}
    check.one(looked_up, [{**looked_up, "y": ([3, 2], [y[0] * (1 + 2**-7), *y[1:]], of)}], 1, "wrong", name="y")
    # An embedding's kernel sums rows in bf16: a table with two frequent rows is not judged, one with many rows is.
    for rows_, count, verdict in ((2, 2000, "unjudged"), (500, 2500, "within_bound")):
        ids = [i % rows_ for i in range(count)]
        of = {**kind, "made": {"by": "embedding weight", "input": "ids", "gradient": "g"}}
        g = [of_bf16(0.7 + v / 2) for v in waves(count * 2)]
        sums = [[0.0] * (2 * rows_) for _ in range(2)]  # one addition after another, with and without rounding
        for i in range(count):
            for c in range(2):
                sums[0][2 * ids[i] + c] = of_bf16(sums[0][2 * ids[i] + c] + g[2 * i + c])
                sums[1][2 * ids[i] + c] += g[2 * i + c]
        one, other = [{"ids": ([count], ids, {"type": "I64"}), "g": ([count, 2], g, kind), "t": ([rows_, 2], v, of)} for v in sums]
        check.one(one, [other], 0, verdict)
        if verdict != "unjudged":
            other["t"] = ([rows_, 2], sums[0][2:] + sums[0][:2], of)
            check.one(one, [other], 1, "wrong")


def mixed(check):
    """Half of the digits means those of the narrowest type that an earlier layer computed in."""
    x, kind = [of_bf16(v) for v in waves(8)], {"type": "BF16"}
    t = waves(8)
    layer = {"x": ([1, 8], x, kind), "w": ([1, 8], x, kind),
             "y": ([1, 1], [math.fsum(v * v for v in x)], {**kind, "made": {"by": "linear", "input": "x", "weight": "w", "bias": None, "in": "f32"}})}
    for scale, before, after in ((1.01, "wrong", "unjudged"), (1.2, "wrong", "wrong")):
        off = {"t": ([8], [rounded(scale * v) for v in t], {})}
        check.one({**layer, "t": ([8], t, {})}, [{**layer, **off}], int(after == "wrong"), after)
        check.one({"t": ([8], t, {}), **layer}, [{**off, **layer}], int(before == "wrong"), before)


def everything(check):
    """All tensors of captures are compared, or listed as not compared."""
    t, other = waves(8), waves(8, 2)
    # All ranks of the reference, each against the run's rank if there are as many.
    a, b = {"t": ([8], t, {})}, {"t": ([8], other, {})}
    for ref, run, code, text in (([a, b], [a, a], 1, "rank 1"), ([a, b], [a, b], 0, ""), ([a, a], [a, a, a], 0, ""),
                                 ([a, b], [a, a, a], 1, "the reference's ranks have different values")):
        got, stages, said = diff(check.written(ref), check.written(run))
        assert got == code and text in (stages["t"].get("divergence") or ""), (got, stages, said)
    # Overlapping parts agree, and leave no gap.
    def parts(*cuts):
        return [{"t": ([last - first], (other if bad else t)[first:last], {"offset": [first], "shape": [8]})}
                for first, last, bad in cuts]

    check.one(a, parts((0, 5, False), (3, 8, False)), 0, "bit_exact")
    check.one(a, parts((0, 5, False), (3, 8, True)), 1, "wrong", "the part of rank 1 overlaps another rank's")
    check.one(a, parts((0, 5, False), (0, 3, False)), 1, "wrong", "cover 5 of its 8")
    # A rank lacks a tensor that its peers have; stages of a pipeline have different ones.
    both = {**a, "u": ([8], t, {})}
    check.one(both, [both, a, a], 1, "wrong", "rank 1 lacks it, rank 0 has it", name="u")
    check.one({**both, "v": ([8], t, {})}, [both, {**a, "v": ([8], t, {})}], 0, "bit_exact", name="v")
    # A rank may declare that it has no element of a tensor.
    none = {"u": ([0], [], {})}
    check.one(both, [{**a, **none}, both, {**a, **none}], 0, "bit_exact", name="u")
    check.one(both, [{**a, **none}, {**a, "u": ([8], other, {})}], 1, "wrong", name="u")
    check.one(both, [{**a, **none}, {**a, "u": ([4], t[:4], {})}], 1, "wrong", name="u")
    check.one(both, [{**a, **none}, {**a, **none}], 1, "wrong", name="u")
    # Only the index determines the contents of a capture.
    hidden = {**a, "u": ([8], t, {"hidden": True})}
    code, _, said = diff(check.written([a]), check.written([hidden]))
    assert code == 2 and "does not list u" in said, said
    # Partial in only one of two indices: not partial.
    check.one({**a, "u": ([8], t, {"part": True})}, [{**a, "u": ([8], other, {})}], 1, "wrong", name="u")
    # A tensor that nothing computed must be equal to the last bit.
    near = [rounded(v * (1 + 2**-20)) for v in t]
    check.one(a, [{"t": ([8], near, {})}], 0, "unjudged", words=["--tolerance", "0.1"])
    check.one({"t": ([8], t, {"moves": True})}, [{"t": ([8], near, {"moves": True})}], 1, "wrong", "every bit must match")
    check.one(a, [{"t": ([8], near, {})}], 1, "wrong", "every bit must match", words=["--exact"])
    # Values under an earlier name: compared if one of the runs has others.
    same, changed = ([8], t, {"as": "t"}), ([8], other, {})
    code, stages, _ = diff(check.written([{**a, "u": same}]), check.written([{**a, "u": same}] * 2))
    assert code == 0 and list(stages) == ["t"], stages
    for ref, run in ((same, changed), (changed, same)):
        check.one({**a, "u": ref}, [{**a, "u": run}], 1, "wrong", name="u")
    check.one({**a, "u": same}, [{**a, "u": same}, {**a, "u": changed}], 1, "wrong", name="u")
    # Listed: types that lockstep lacks, tensors that the capture omits, --ignore, tensors after the first wrong one.
    short = {**a, "i": ([2], [1, 2], {"type": "I16"})}
    names = check.written([short]), check.written([{**short, "i": ([2], [1, 3], {"type": "I16"})}])
    assert omitted(*names) == (0, {"i": "lockstep has no type I16"}), omitted(*names)
    why = {"as": "t", "hidden": True, "why": "safetensors has no type torch.bits8"}
    names = check.written([a]), check.written([{**a, "k": ([8], t, why)}])
    assert omitted(*names)[1]["k"] == why["why"], omitted(*names)
    names = check.written([{**a, "u": ([8], t, {}), "v": ([8], t, {})}]), check.written([{**a, "u": ([8], other, {}), "v": ([8], other, {})}])
    assert omitted(*names, "--ignore", "x,u*,[v]") == (0, {"u": "--ignore", "v": "--ignore"}), omitted(*names, "--ignore", "u*")
    assert omitted(*names)[0] == 1 and "--all" in omitted(*names)[1]["v"] and not omitted(*names, "--all")[1]
    # A table that TorchRec's backward updates has no gradient; its reference may take no step.
    table = {"parameter w": ([8], t, {"moves": True})}
    still, moved = ([8], t, {"as": "parameter w"}), ([8], other, {"fused": True})
    gone = {"g": ([8], t, {"as": "parameter w", "hidden": True, "why": "the backward itself updates it"})}
    names = check.written([{**table, "g": ([8], t, {}), "e": still}]), check.written([{**table, **gone, "e": moved}])
    assert omitted(*names) == (0, {"g": gone["g"][2]["why"], "e": "the run's backward updates it, and the reference takes no step"}), omitted(*names)
    check.one({**table, "e": ([8], waves(8, 3), {})}, [{**table, "e": moved}], 1, "wrong", name="e")
    # Without a compared tensor the case does not pass.
    assert omitted(*names, "--ignore", "*")[0] == 5 and diff(check.written([a]), check.written([{"u": ([8], t, {})}]))[0] != 0
    # Micro-batches, if the reference takes the batch at once.
    act = {"optional": True}
    micro = {**a, "step 0 forward l": ([2, 2], t[:4], act), "step 0 forward l (call 1)": ([2, 2], t[4:], act)}
    names = check.written([{**a, "step 0 forward l": ([4, 2], t, act)}]), check.written([micro])
    assert omitted(*names)[0] == 0 and "other parts of the batch" in omitted(*names)[1]["step 0 forward l"], omitted(*names)


def headline(check):
    """A pass reports how many tensors were not judged, in each report."""
    t = waves(8)
    near, about = [rounded(v * (1 + 2**-20)) for v in t], {}
    names = check.written([{n: ([8], t, about) for n in "abc"}]), check.written([{"a": ([8], t, about), "b": ([8], near, about), "c": ([8], near, about)}])
    kinds = {"--json": '"not_judged"', "--junit": "<system-out>2 of 3 tensors not judged", "--report": "2 of 3 tensors not judged"}
    for word, text in kinds.items():
        path = check.path()
        done = subprocess.run([LOCKSTEP, "diff", *names, word, path], capture_output=True, text=True, check=False)
        with open(path, encoding="utf-8") as file:
            written = file.read()
        assert done.returncode == 0 and text in written, (word, done.stderr, written)
        if word == "--json":
            case = json.loads(written)["cases"][0]
            assert (case["verdict"], case["class"], case["not_judged"]) == ("pass", "unjudged", "2 of 3 tensors not judged"), case
    for words in ([], ["--quiet"]):
        done = subprocess.run([LOCKSTEP, "diff", *names, *words], capture_output=True, text=True, check=False)
        said = [line for line in done.stdout.splitlines() if "2 of 3 tensors not judged" in line]
        assert done.returncode == 0 and len(said) == 2 - len(words) and "diff: 1 passed (" in said[-1], done.stdout
        assert words or "unjudged" in said[0] and "bit_exact" not in said[0], said
    done = subprocess.run([LOCKSTEP, "diff", names[0], names[0], "--json", "-"], capture_output=True, text=True, check=False)
    case = json.loads(done.stdout)["cases"][0]
    assert case["class"] == "bit_exact" and "not_judged" not in case, case
    # Without a compared element the case does not pass. Beside others an empty tensor is bit exact.
    assert check.one({"t": ([8], t, {}), "e": ([0], [], {})}, [{"t": ([8], t, {}), "e": ([0], [], {})}], 0, "bit_exact", name="e")
    assert diff(*[check.written([{"e": ([0], [], {})}])] * 2)[0] == 5


def absent(check):
    t = waves(8)
    check.one({"t": ([8], t, {}), "parameter p": ([8], t, {})}, [{"t": ([8], t, {})}], 1, "wrong", "no rank of the run has it",
              name="parameter p")
    # A missing tensor is reported, whatever its name: a user's tensor may be called "step 0 part x".
    optional, other = {"optional": True}, waves(8, 2)
    for name in ("step 0 forward x", "parameter x", "step 0 part x"):
        a = check.written([{"t": ([8], t, {}), name: ([8], t, optional)}])
        b = check.written([{"t": ([8], t, {}), "y": ([8], t, optional)}])
        code, stages, said = diff(a, b)
        assert code == 0 and list(stages) == ["t"], said
        assert omitted(a, b)[1] == {name: "only the reference has it", "y": "only the run has it"}, omitted(a, b)
        check.one({"t": ([8], t, {}), name: ([8], t, {})}, [{"t": ([8], t, {})}], 1, "wrong", "no rank of the run has it", name=name)
        check.one({name: ([8], t, {})}, [{name: ([8], other, {})}], 1, "wrong", name=name)
        code, stages, _ = diff(*[check.written([{"t": ([8], t, {}), name: ([8], v, {"part": True})}]) for v in (t, other)])
        assert code == 0 and list(stages) == ["t"], stages


def steps(check):
    """A parameter may differ by whole steps if its gradient is only rounding, and not otherwise."""
    weight, step = [0.5, -0.25, 0.125, 1.0], [0.01] * 4

    def capture(gradient, signs, then=1.0):
        after = [rounded(w - s * sign) for w, s, sign in zip(weight, step, signs)]
        made = {"by": "update", "weight": "parameter w", "gradient": "step 0 gradient w"}
        return {"parameter w": ([4], weight, {"moves": True}), "step 0 gradient w": ([4], gradient, {}),
                "step 0 parameter w": ([4], after, {"made": made}), "step 1 forward": ([2], [then, 0.5], {})}

    ref = capture([1.0, 1e-9, 0.5, 1.0], [1, 1, 1, 1])
    for signs, then, code, kind in (([1, -1, 1, 1], 1.0, 0, "unjudged"), ([1, -1, 1, 1], 1.01, 0, "unjudged"), ([1, 40, 1, 1], 1.0, 1, "wrong"),
                                    ([1, 1, -1, 1], 1.0, 1, "wrong")):
        run = capture([1.0, -1e-9, 0.5, 1.0], signs, then)
        check.one(ref, [run, run], code, kind, name="step 0 parameter w")
    for signs, then, kind in (([1, -1, 1, 1], 1.01, "unjudged"), ([1, -1, 1, 1], 1.1, "wrong"), ([1, 1, 1, 1], 1.01, "wrong")):
        run = capture([1.0, -1e-9, 0.5, 1.0], signs, then)
        check.one(ref, [run, run], kind == "wrong", kind, name="step 1 forward")
    # Rounded to bf16 before the sum: half of bf16's digits, and no more.
    for factor, code, kind in ((1.003, 0, "unjudged"), (1.2, 1, "wrong")):
        run = {"g": ([4], [factor * v for v in weight], {"made": {"by": "rounded", "in": "bf16"}}), "w": ([4], weight, {})}
        check.one({"g": ([4], weight, {}), "w": ([4], weight, {})}, [run, run], code, kind, name="g")
    # Other types: listed if a run may lack the tensor, else wrong.
    for optional in (True, False):
        ref = check.written([{"t": ([2], [1.0, 2.0], {"optional": optional}), "w": ([4], weight, {})}])
        run = check.written([{"t": ([2], [1.0, 2.0], {"optional": optional, "type": "BF16"}), "w": ([4], weight, {})}] * 2)
        code, absent = omitted(ref, run)
        assert (code, list(absent)) == ((0, ["t"]) if optional else (1, ["w"])), (code, absent)


def main():
    for part in (steps, signs, channels, added_rows, factors, bounds, narrow, mixed, everything, headline, absent, capture_files.files, capture_files.checkpoints):
        part(Check())
        print(part.__name__, "as it should be")


main()
