"""The edges of `lockstep diff`: one case on each side of a condition. edges.py LOCKSTEP PYTHON_FOLDER."""
import json
import os
import subprocess

from made import LOCKSTEP, Check, diff, rounded, waves, write

P = 2**31 - 1  # a prime field


def field(check):
    """Tensors of a field: the text for each kind of difference, and none if nothing fits."""
    t = [(7 * i * i + 3 * i + 1) % P for i in range(12)]
    a = [(i * i * i + 11 * i + 5) % P for i in range(12)]
    b = [(x - y) % P for x, y in zip(t, a)]
    noise = [(i**5 + 7) % P for i in range(12)]
    of = {"type": "I64", "modulus": P}

    def tensor(values, sizes=(4, 3), **about):
        return list(sizes), list(values), {**of, **about}

    def times(factor, values):
        return [factor * v % P for v in values]

    def rows(*order):
        return [v for i in order for v in t[3 * i:3 * i + 3]]

    def columns(*order):
        return [t[3 * i + c] for i in range(4) for c in order]

    whole = {"t": tensor(t)}
    half = pow(2, P - 2, P)

    def one(told, *ranks, ref=None, kind="wrong"):
        stage = check.one(ref or whole, [{"t": rank} if isinstance(rank, tuple) else rank for rank in ranks],
                          int(kind == "wrong"), kind)
        text = stage.get("divergence") or ""
        assert (told in text + "\n") if told else "\n" not in text.rstrip("\n") or "likely" not in text, (told, text)
        return text

    one("", tensor(t), kind="proved")
    # One copy: a factor.
    for factor, words in ((2, "it is 2 times the reference\n"), (P - 1, "it is -1 times the reference (its sign)\n"),
                          (half, "it is 1/2 times the reference\n"), (times(3, [half])[0], "it is 3/2 times the reference\n"),
                          (256, "it is 256 times the reference\n"), (257, "it is 257 times"), (10**6 + 3, "it is another number times the reference\n")):
        if factor != 257:
            one(words, tensor(times(factor, t)))
    one("likely: it is all zero\n", tensor([0] * 12))
    one("it is 3 times the reference (world: summed where a mean is due)\n", *[tensor(times(3, t))] * 3)
    one("it is 1/3 times the reference (1/world: divided once too often)\n", *[tensor(times(pow(3, P - 2, P), t))] * 3)
    # Rows and columns in another place; the first ones are correct.
    one("row 2 of 4 equals row 3 of the reference\n", tensor(rows(0, 1, 3, 2)))
    one("row 0 of 4 equals row 1 of the reference\n", tensor(rows(1, 0, 2, 3)))
    text = one("", tensor(noise))
    assert text.endswith("judged by: exact arithmetic in a field"), text
    # Copies: a missing sum or mean, only some of the ranks, weights.
    one("likely: not summed, the sum of what the ranks have is the reference\n", tensor(a), tensor(b))
    one("likely: not averaged, the mean of what the ranks have is the reference\n", tensor(times(2, a)), tensor(times(2, b)))
    one("of the 3 ranks only 1 has what the reference has\n", tensor(a), tensor(t), tensor(b))
    one("of the 3 ranks only 0, 2 have what the reference has\n", tensor(t), tensor(a), tensor(t))
    late = [*t[:11], (t[11] + 5) % P]  # only the last element differs
    one("of the 2 ranks only 0 has what the reference has\n", tensor(t), tensor(late))
    weighted = [(3 * x + 5 * y) % P for x, y in zip(a, noise)]
    one("likely: not reduced, the reference is 3 of rank 0, 5 of rank 1\n", tensor(a), tensor(noise), ref={"t": tensor(weighted)})
    for ranks in ((a, noise), (times(2, a), noise)):
        text = one("", *[tensor(values) for values in ranks])
        assert "summed" not in text and "averaged" not in text and "reduced" not in text, text
    # Shards: a factor of each, or another rank's.
    def shards(*values):
        return [tensor(part, (2, 3), placements="S(0)", mesh=[2], shape=[4, 3]) for part in values]

    one("likely a factor of each rank: rank 0 has 1 times the reference, rank 1 has 2 times the reference\n", *shards(t[:6], times(2, t[6:])))
    one("rank 0 has the data of rank 1\n", *shards(t[6:], t[:6]))
    assert "factor" not in one("", *shards(times(2, t[:6]), noise[6:]))
    # Whether its numbers are in a field differs between ranks.
    check.one(whole, [{"t": tensor(t)}, {"t": ([4, 3], t, {"type": "I64"})}], 1, "wrong", "it has other numbers on rank 1 than on rank 0 (modulus)")
    # Parts of a sum: added in the field, by an operation of the field.
    def parts(op, *values):
        return [tensor(part, placements=f"P({op})", mesh=[len(values)], shape=[4, 3]) for part in values]

    one("", *parts("sum", a, b), kind="proved")
    one("", *parts("avg", times(2, a), times(2, b)), kind="proved")
    one("it is a max of parts, which a field does not have", *parts("max", a, b))
    # An update is compared from the step before it.
    first, second = [v + 0.5 for v in waves(12)], waves(12, 0.2)
    start = {"parameter w": ([12], waves(12, 0.7), {"moves": True}), "step 0 parameter w": ([12], first, {})}
    check.one({**start, "step 1 parameter w": ([12], [v - 0.01 * g for v, g in zip(first, second)], {})},
              [{**start, "step 1 parameter w": ([12], [v - 0.02 * g for v, g in zip(first, second)], {})}], 1, "wrong",
              "the update is 2 times the reference's", name="step 1 parameter w")
    # The ranks' parts are known: each has its factor.
    def reduced(value, *values):
        return [{"step 0 part t": tensor(part), "t": tensor(value, parts={"name": "step 0 part t", "op": "sum"})} for part in values]

    one("likely: it adds up 2 of rank 0, 1 of rank 1 where the reference is 1 of rank 0, 1 of rank 1\n",
        *reduced([(2 * x + y) % P for x, y in zip(a, b)], a, b))
    one("where the reference is 1 of rank 0, 1 of rank 1: rank 0 is left out\n", *reduced(b, a, b))
    one("where the reference is 1 of rank 0, 1 of rank 1: rank 1 is left out\n", *reduced(a, a, b))
    # Another tensor of the capture was added: whole, or to each row.
    bias = {"parameter b": tensor(noise[:3], (3,))}
    for n, words in ((2, "parameter b is added 2 times too often\n"), (-1, "parameter b is added 1 times too rarely\n")):
        off = [(v + n * noise[i % 3]) % P for i, v in enumerate(t)]
        one(words, {**bias, "t": tensor(off)}, ref={**bias, **whole})
    # A tensor without a rule in the field is not judged, whichever side names it, unless it is equal.
    x = {"x": tensor(t)}
    for ref, run in (({}, {"opaque": "erfinv"}), ({"opaque": "erfinv"}, {})):
        stage = check.one({**x, "t": tensor(t, **ref)}, [{**x, "t": tensor(a, **run)}], 0, "unjudged")
        assert stage["order"] == "erfinv has no rule in the field" and (stage["unjudged"], stage["elements"], stage["differing"]) == (12, 0, 0), stage
    check.one({**x, **whole}, [{**x, "t": tensor(a)}, {**x, "t": tensor(a, opaque="erfinv")}], 0, "unjudged")
    one("", tensor(t, opaque="erfinv"), kind="proved")


def indices(check):
    """Errors of a capture's index, each beside a valid one."""
    t = waves(8)

    def read(**about):
        path = check.path()
        write(path, [{"t": ([4, 2], t, {}), "i": ([2], [1, 2], {"type": "I64"})}] * 2)
        for rank in range(2):
            with open(os.path.join(path, f"rank_{rank:05}.json"), "w", encoding="utf-8") as file:
                json.dump({"format": 1, "rank": rank, "ranks": 2, "tensors": [{"name": "i", **about.get("i", {})}, {"name": "t", **about.get("t", {})}],
                           "not_kept": about.get("not_kept", [])}, file)
        code, _, said = diff(path, path)
        return code, said

    whole = {"placements": "R", "mesh": [2], "shape": [4, 2]}
    cases = [
        ({"t": {"offset": [0, 0]}}, None),
        *[({"t": {"offset": offset}}, "offset") for offset in ([0], [0, 0, 0], [0, -1], [0, 0.5], ["0", 0], [0, None], [0] * 9, {}, 0)],
        ({"t": whole}, None), ({"t": {**whole, "mesh_ranks": [1, 0]}}, None),
        *[({"t": {**whole, "mesh_ranks": ranks}}, "placements") for ranks in ([0], [0, 2], [0, -1], [0, 1, 1], [0, "1"])],
        *[({"t": {**whole, "mesh": mesh}}, "placements") for mesh in ([], [2, 1], ["2"], [-2], 2, [99])],
        *[({"t": {**whole, "shape": shape}}, "placements") for shape in ([4, -2], [4, 2.5], ["4", 2], [1] * 9)],
        *[({"t": {**whole, "placements": placements}}, "placements") for placements in ("X", "R,R", "S(9)")],
        ({"i": {"modulus": P}}, None),
        *[({"i": {"modulus": modulus}}, "modulus") for modulus in (-1, 2**32)], ({"t": {"modulus": 7}}, "modulus"),
        ({"t": {"scale": 0.5}}, None), ({"t": {"scale": -1}}, None), ({"i": {"scale": 2}}, "scale"),
        *[({"t": {"scale": scale}}, "scale") for scale in (0, "1", None, [])],
        ({"not_kept": [{"name": "x", "why": "y"}]}, None),
        *[({"not_kept": [one]}, "not_kept") for one in ({"name": "x"}, {"why": "y"}, {"name": 1, "why": "y"})],
    ]
    for about, word in cases:
        code, said = read(**about)
        assert (code == 0 and not said) if word is None else (code == 2 and word in said and "rank_00000" in said), (about, code, said)


def places(check):
    """Each rank gives its offset, with as many dimensions as the others' parts have."""
    t = waves(8)
    ref = {"t": ([8], t, {})}
    at = {"offset": [4], "shape": [8]}
    check.one(ref, [{"t": ([4], t[:4], {"offset": [0], "shape": [8]})}, {"t": ([4], t[4:], at)}], 0, "bit_exact")
    check.one(ref, [{"t": ([4], t[:4], {"offset": [0], "shape": [8]})}, {"t": ([4], t[4:], {"shape": [8]})}], 1, "wrong",
              "rank 1 does not give the offset of its part")
    check.one(ref, [{"t": ([4], t[:4], {"offset": [0]})}, {"t": ([2, 2], t[4:], {"offset": [4, 0]})}], 1, "wrong",
              "rank 1 does not give the offset of its part")
    # The first input of a step with interleaved ranks orders the others, even if a rank has no element of it.
    x, y = ([4, 0], [], {}), ([4, 2], t, {})
    halves = [{"step 0 input a": ([2, 0], [], {}), "step 0 input b": ([2, 2], t[4 * r:4 * r + 4], {})} for r in range(2)]
    check.one({"step 0 input a": x, "step 0 input b": y}, halves, 0, "bit_exact", name="step 0 input b")


def calls(check):
    """Rows of a step's batch in other calls than the reference's, and losses of parts of it."""
    t, name = waves(8, 0.9), "step 0 input model"
    o = {"optional": True}

    def step(rows, loss=None):
        made = {f"{name}{call}": ([len(of), 2], [v for row in of for v in t[2 * row:2 * row + 2]], o) for call, of in zip(("", " (call 1)"), rows)}
        return {**made, **({"step 0 forward model": ([], [loss], o)} if loss is not None else {}), "w": ([2], [1.0, 2.0], {})}

    check.one(step(([0, 1], [2, 3])), [step(([0], [1])), step(([2], [3]))], 0, "bit_exact", name="w")
    check.one(step(([0, 1], [2, 3])), [step(([0], [1])), step(([2], [2]))], 1, "wrong", name=name)
    check.one({name: ([], [1.0], o)}, [{name: ([], [2.0], o)}], 1, "wrong", name=name)  # one number has no rows
    for losses, kind in (((1.0, 3.0), "bit_exact"), ((0.5, 1.5), "bit_exact"), ((1.0, 2.0), "wrong")):
        check.one(step(([0, 1],), 2.0), [step(([at],), loss) for at, loss in enumerate(losses)], int(kind == "wrong"), kind, name="step 0 forward model")
    # Ranks that have the whole batch must have the whole's loss.
    check.one(step(([0, 1],), 2.0), [step(([0, 1],), loss) for loss in (1.0, 3.0)], 1, "wrong", name="step 0 forward model")


def counts(check):
    """The number of elements that a stage compares, and tensors that are listed once."""
    t, other = waves(8), waves(8, 2)
    ref = {"t": ([8], t, {}), "u": ([8], t, {})}
    # All copies count, equal or not.
    assert check.one(ref, [ref], 0, "bit_exact")["elements"] == 8
    assert check.one(ref, [ref] * 3, 0, "bit_exact")["elements"] == 24
    stage = check.one(ref, [{**ref, "t": ([8], other, {})}] * 3, 1, "wrong")
    assert (stage["elements"], stage["differing"]) == (24, 24), stage
    stage = check.one(ref, [ref, {**ref, "t": ([8], other, {})}], 1, "wrong")
    assert (stage["elements"], stage["differing"]) == (16, 8), stage
    stage = check.one(ref, [{"t": ref["t"]}], 1, "wrong", "no rank of the run has it", name="u")
    assert (stage["elements"], stage["differing"]) == (1, 1), stage
    # A tensor that neither capture kept is listed once, with the reference's reason.
    lists = [check.written([{**ref, "k": ([8], t, {"as": "t", "hidden": True, "why": why})}]) for why in ("of one", "of the other")]
    report = json.loads(subprocess.run([LOCKSTEP, "diff", *lists, "--json", "-"], capture_output=True, text=True, check=False).stdout)
    kept = [one for case in report["cases"] + report["skips"] for one in case.get("not_compared", [])]
    assert kept == [{"name": "k", "why": "of one"}], kept


def noise(check):
    """Only gradients up to a parameter's own step excuse steps of an optimizer."""
    weight = [0.5, -0.25, 0.125, 1.0]

    def capture(first, second, signs, then):
        tensors, before = {"parameter w": ([4], weight, {"moves": True})}, weight
        for step, gradient, sign in ((0, first, signs), (1, second, then)):
            of = "parameter w" if step == 0 else "step 0 parameter w"
            before = [rounded(w - 0.01 * s) for w, s in zip(before, sign)]
            if gradient is not None:
                tensors[f"step {step} gradient w"] = ([4], gradient, {})
            tensors[f"step {step} parameter w"] = ([4], before, {"made": {"by": "update", "weight": of, "gradient": f"step {step} gradient w"}})
        return tensors

    big, up, down = [1.0, 0.75, 0.5, 1.0], [1.0, 1e-9, 0.5, 1.0], [1.0, -1e-9, 0.5, 1.0]
    plus, turned = [1, 1, 1, 1], [1, -1, 1, 1]
    ref = capture(big, up, plus, plus)
    check.one(ref, [capture(big, down, plus, turned)] * 2, 0, "unjudged", name="step 1 parameter w")
    check.one(ref, [capture(big, down, turned, plus)] * 2, 1, "wrong", name="step 0 parameter w")
    ref = capture(up, big, plus, plus)
    check.one(ref, [capture(down, big, turned, plus)] * 2, 0, "unjudged", name="step 0 parameter w")
    # A step whose gradient was not kept adds nothing to the noise of the others.
    ref = capture(None, up, plus, plus)
    check.one(ref, [capture(None, down, plus, turned)] * 2, 0, "unjudged", name="step 1 parameter w")


def drift(check):
    """Values computed from a matrix of 16 bits differ in proportion to what noisy steps moved in it, whatever size other parameters have."""
    weight, large = [0.5, -0.25, 0.125, 0.25], [4.0] * 4

    def capture(kind, gradient, step, then):
        def update(name, values):
            return [2, 2], values, {"made": {"by": "update", "weight": f"parameter {name}", "gradient": f"step 0 gradient {name}"}, "type": kind}

        given, moves = {"type": kind}, {"type": kind, "moves": True}
        return {"parameter w": ([2, 2], weight, moves), "parameter b": ([2, 2], large, moves), "step 0 gradient b": ([2, 2], [1.0] * 4, given),
                "step 0 gradient w": ([2, 2], [1.0, gradient, 1.0, 1.0], given), "step 0 parameter b": update("b", [3.9375 + (1 - step) * (2**-7 if kind == "BF16" else 2**-15)] * 4),
                "step 0 parameter w": update("w", [w - 0.0625 * s for w, s in zip(weight, (1, step, 1, 1))]), "step 1 forward x": ([2], then, given)}

    for kind, then, code, verdict in (("BF16", [1.0, 0.75], 0, "unjudged"), ("F32", [1.0, 0.75], 1, "wrong"), ("BF16", [0.0, 0.0], 1, "wrong")):
        check.one(capture(kind, 2.0**-20, 1, [1.0, 0.5]), [capture(kind, -2.0**-20, -1, then)] * 2, code, verdict, name="step 1 forward x")


def bias(check):
    """An offset that is a bias is named; other tensors than parameters, or of other sizes, are not."""
    t = waves(24)
    b, longer = [0.5, -1.5, 2.5, 3.0], [0.5, -1.5, 2.5, 3.0, 7.0]
    off = [rounded(v + b[i % 4]) for i, v in enumerate(t)]
    told = "parameter b is added 1 times too often"
    for before, found in ({"a": ([4], b, {})}, False), ({"parameter c": ([5], longer, {"moves": True})}, False), (
            {"parameter b": ([4], b, {"moves": True})}, True), (
            {"a": ([4], b, {}), "parameter c": ([5], longer, {"moves": True}), "parameter b": ([4], b, {"moves": True})}, True):
        stage = check.one({**before, "t": ([6, 4], t, {})}, [{**before, "t": ([6, 4], off, {})}], 1, "wrong")
        text = stage.get("divergence") or ""
        assert (told in text) == found and ("is added" in text) == found, (before, text)


def channels(check):
    """The gradient of a convolution's bias, also of shapes that no convolution has."""
    made = {"made": {"by": "channel bias", "gradient": "g"}}
    for shape in ([0, 3, 2, 2], [0, 3], [3], [0], []):
        count = 3 if shape == [3] else 0 if shape else 1
        g = (shape, [1.0] * count, {})
        check.one({"g": g, "t": ([3], [1.0] * 3, {})}, [{"g": g, "t": ([3], [1 + 2**-20] * 3, made)}] * 2, 0, "unjudged")


def means(check):
    """A mean over a number of ranks that is no power of two scales the gradients first: one more rounding in the bound."""
    # In units of 2^-24: a rounding for each row, two of each rank's part, two of their sum, and this one.
    for ranks, units in ((2, 2 * 2 + 4 * 2), (3, 3 * 3 + 5 * 2 + 3), (4, 4 * 4 + 6 * 4)):
        ref = {"g": ([ranks, 1], [1.0] * ranks, {}), "b": ([1], [float(ranks)], {})}
        of = {"made": {"by": "linear bias", "gradient": "g"}}
        run = [{"g": ([1, 1], [1.0], {}), "b": ([1], [ranks + 2**-21], of)} for _ in range(ranks)]
        stage = check.one(ref, run, 0, "within_bound", name="b")
        assert abs(8 / stage["bound_ratio"] - units) < 1e-4, (ranks, stage)


def scales(check):
    """The factor of written values. A product takes them as they are written, since small numbers lose digits by the factor."""
    least = 2.0**-24  # of f16
    kind, made = {"type": "F16"}, {"type": "F16", "made": {"by": "linear weight", "gradient": "g", "input": "x", "in": "f32"}}
    ref = {"x": ([8, 1], [1.0] * 8, kind), "g": ([8, 1], [2 * least] * 8, kind), "w": ([1, 1], [16 * least], made)}

    def run(weight, **scale):
        return [{"x": ([4, 1], [1.0] * 4, kind), "g": ([4, 1], [3 * least] * 4, {**kind, **scale}), "w": ([1, 1], [weight * least], made)}] * 2

    check.one(ref, run(12, scale=0.5), 0, "within_bound", name="w")  # 8 times 1.5
    check.one(ref, run(24, scale=0.5), 1, "wrong", name="w")
    # Compared values have the factor, rounded to their type: 3 / 2 is 2.
    check.one(ref, run(12, scale=0.5), 0, "bit_exact", name="g")
    check.one({"t": ([2], [1.5, -3.0], {})}, [{"t": ([2], [0.5, -1.0], {"scale": 3})}], 0, "bit_exact")
    check.one({"t": ([1], [1.5], {})}, [{"t": ([1], [1.5 / scale], {"scale": scale})} for scale in (1.5, 3.0)], 1, "wrong",
              "ranks 0 and 1 give it different factors (scale)")
    # Numbers below the normal range have few digits: half of those of 2, 8 and 64 steps are 1, 2 and 5 steps.
    for value, apart in ((2, 1), (8, 2), (64, 5)):
        for more, code in ((apart, 5), (apart + 1, 1)):  # not judged, wrong
            paths = [check.written([{"t": ([1], [steps * least], kind)}] * ranks) for steps, ranks in ((value, 1), (value + more, 2))]
            assert diff(*paths)[0] == code, (value, more)
    # The factor itself rounds nothing, also on three ranks (compare means).
    ref = {"g": ([3, 1], [1.0] * 3, {}), "b": ([1], [3.0], {})}
    of = {"made": {"by": "linear bias", "gradient": "g"}}
    stage = check.one(ref, [{"g": ([1, 1], [2.0], {"scale": 0.5}), "b": ([1], [3 + 2**-21], of)}] * 3, 0, "within_bound", name="b")
    assert abs(8 / stage["bound_ratio"] - (3 * 3 + 5 * 2)) < 1e-4, stage


def main():
    for part in (field, indices, places, calls, counts, noise, drift, bias, channels, means, scales):
        part(Check())
        print(part.__name__, "as it should be")


main()
