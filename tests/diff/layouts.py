"""How `lockstep diff` places the ranks' parts of a tensor: layouts.py LOCKSTEP PYTHON_FOLDER."""
import random

from made import Check, column_block, diff, lies_as, omitted, rows, waves


def empty_whole(check):
    """Parts with elements of a whole that has none."""
    check.one({"t": ([0, 2], [], {})}, [{"t": ([1, 2], [1, 2], {})}] * 2, 1, "wrong", "neither is the other run's")


def placements(check):
    empty_whole(check)
    t = waves(40)  # 8 x 5
    whole = {"t": ([8, 5], t, {})}
    # Rows, uneven as in torch.chunk; columns; copies; strided rows; by sizes only; by offsets.
    for bad in (False, True):
        wrong = list(t)
        wrong[6 * 5 + 2] += 1 if bad else 0
        verdict = (1, "wrong") if bad else (0, "bit_exact")
        row = ["row 6 of the whole [8, 5]"] if bad else []
        about = lies_as("S(0)", [3], [8, 5])
        cut = [(0, 3), (3, 6), (6, 8)]
        check.one(whole, [{"t": ([b - a, 5], rows(wrong, 5, a, b), about)} for a, b in cut], *verdict, *row,
                  *(["rank 2, element 2 [0, 2]"] if bad else []))
        check.one(whole, [{"t": ([b - a, 5], rows(wrong, 5, a, b), {})} for a, b in cut], *verdict, *row)
        check.one(whole, [{"t": ([b - a, 5], rows(wrong, 5, a, b), {"offset": [a, 0]})} for a, b in cut], *verdict, *row)
        about = lies_as("S(1)", [2], [8, 5])
        check.one(whole, [{"t": ([8, b - a], column_block(wrong, 5, a, b), about)} for a, b in ((0, 3), (3, 5))],
                  *verdict, *row)
        about = lies_as("R, S(0)", [2, 2], [8, 5], mesh_ranks=[3, 1, 2, 0])
        check.one(whole, [{"t": ([4, 5], rows(wrong, 5, a, a + 4), about)} for a in (4, 4, 0, 0)], *verdict, *row)
        about = lies_as("_S(0, 2)", [2], [8, 5])
        parts = [rows(wrong, 5, a, a + 2) + rows(wrong, 5, a + 4, a + 6) for a in (0, 2)]
        check.one(whole, [{"t": ([4, 5], part, about)} for part in parts], *verdict, *row)
        # Each mesh without this rank has the whole tensor; a rank outside of every mesh has nothing.
        groups = [(0, [0, 1]), (4, [0, 1]), (0, [2, 3]), (4, [2, 3])]
        check.one(whole, [{"t": ([4, 5], rows(t if ranks == [0, 1] else wrong, 5, a, a + 4),
                                 lies_as("S(0)", [2], [8, 5], mesh_ranks=ranks))} for a, ranks in groups], *verdict, *row)
        about = lies_as("R", [1], [8, 5])
        check.one(whole, [{"t": ([8, 5], wrong, about)}, {"t": ([0], [], about)}], *verdict, *row)
    # A copy in no mesh, and ranks that contradict each other.
    check.one(whole, [{"t": ([8, 5], t, lies_as("R", [1], [8, 5]))}, {"t": ([8, 5], [99.0] * 40, lies_as("R", [1], [8, 5]))}],
              1, "wrong", "rank 1 has it, but is not in its mesh")
    check.one(whole, [{"t": ([8, 5], t, lies_as("R", [1], [8, 5]))}, {"t": ([8, 5], t, {})}],
              1, "wrong", "rank 1 has it, but is not in its mesh")
    for other in (lies_as("P(sum)", [2], [8, 5]), lies_as("R", [1], [8, 5]), lies_as("R", [2], [40]),
                  lies_as("R", [2], [8, 5], mesh_ranks=[1, 0]), {"shape": [8, 5]}):
        check.one(whole, [{"t": ([8, 5], t, lies_as("R", [2], [8, 5]))}, {"t": ([8, 5], t, other)}], 1, "wrong",
                  "ranks 1 and 0 give it different layouts")
    # Parts that cannot be assembled give the reason: sizes and dimensions that contradict the placements, parts outside of the whole, too
    # few elements.
    about = lies_as("S(0)", [2], [8, 5])
    for shape, values in (([5, 5], t[:25]), ([20], t[:20])):
        check.one(whole, [{"t": (shape, values, about)}, {"t": ([4, 5], t[20:], about)}], 1, "wrong", "rank 0 has",
                  "where its placements give it 20 elements")
    for shape, offset in (([2, 5], [7, 0]), ([8, 2], [0, 4])):
        check.one(whole, [{"t": ([8, 5], t, {"offset": [0, 0], "shape": [8, 5]})},
                          {"t": (shape, t[:shape[0] * shape[1]], {"offset": offset})}], 1, "wrong", "rank 1 lies outside of the whole")
    check.one(whole, [{"t": ([8, 5], t, {"offset": [0, 0], "shape": [2**36, 5]})}], 1, "wrong", "the ranks have 40 elements of its")
    check.one(whole, [{"t": ([3, 5], t[:15], {})}, {"t": ([3, 5], t[:15], {})}], 1, "wrong", "name its placements")
    check.one(whole, [{"t": ([4, 5], t[:20], lies_as("S(0)", [2], [8, 5]))}, {}], 1, "wrong", "rank 1 has no part")
    check.one(whole, [{"t": ([40], t, {})}], 1, "wrong", "the reference has f32 [8, 5]")
    # Placements without a shape: each side assembles its own parts.
    def even(ranks):
        size = 8 // ranks
        return [{"t": ([size, 5], rows(t, 5, size * r, size * r + size), {"placements": "S(0)", "mesh": [ranks]})} for r in range(ranks)]

    for ref, run in ((1, 2), (2, 4), (4, 2)):
        names = check.written(even(ref) if ref > 1 else [whole]), check.written(even(run))
        code, stages, said = diff(*names)
        assert code == 0 and stages["t"]["class"] == "bit_exact", (ref, run, stages, said)


def blocks(check):
    """Tensors without metadata, in parts that several ranks have: ranks with equal values have one part."""
    t = waves(40)
    one, other = rows(t, 5, 0, 4), rows(t, 5, 4, 8)
    whole = {"t": ([8, 5], t, {})}

    def parts(*values, **about):
        return [{"t": ([len(v) // 5, 5], v, about)} for v in values]

    far = [v + 1 for v in other]
    for order in ((0, 0, 1, 1), (0, 1, 0, 1)):  # tensor parallel ranks beside each other, and apart
        check.one(whole, parts(*[(one, other)[b] for b in order]), 0, "bit_exact")
        check.one(whole, parts(*[(one, far)[b] for b in order]), 1, "wrong", "row 4 of the whole [8, 5]")
        check.one(whole, parts(*[(other, one)[b] for b in order]), 1, "wrong")
    same = one + one
    check.one({"t": ([8, 5], same, {})}, parts(one, one, one, one), 0, "bit_exact")
    eight = [rows(t, 5, 2 * b, 2 * b + 2) for b in range(4)]
    check.one(whole, parts(*[eight[b] for b in (0, 0, 1, 1, 2, 2, 3, 3)]), 0, "bit_exact")
    check.one(whole, parts(*[eight[b % 4] for b in range(8)]), 0, "bit_exact")
    check.one({"t": ([8, 5], same, {})}, parts(*[eight[b] for b in (0, 1, 0, 1, 0, 1, 0, 1)]), 0, "bit_exact")
    # Two layouts fit: neither is chosen.
    a, b = eight[:2]
    for order in ((a, a, b, b), (a, b, a, b)):
        ref = check.written([{"t": ([8, 5], [v for part in order for v in part], {})}])
        run = check.written(parts(a, a, b, b, a, a, b, b))
        assert omitted(ref, run) == (5, {"t": "its placements are not known"})
    # Ranks with one part must agree about a parameter. An activation is a term of a sum, or in an unnamed order.
    for parts_ in ((one, other, one, far), (one, one, other, far)):
        check.one(whole, parts(*parts_), 1, "wrong", "the ranks of one part have different values")
        ref, run = check.written([{"t": ([8, 5], t, {"optional": True})}]), check.written(parts(*parts_, optional=True))
        assert omitted(ref, run) == (5, {"t": "its placements are not known"})
    square = [column_block(rows(t, 5, 4 * a, 4 * a + 4), 5, b, b + 1) for a in range(2) for b in range(5)]
    ref, run = check.written([whole]), check.written([{"t": ([4, 1], v, {})} for v in square])
    assert omitted(ref, run) == (5, {"t": "its placements are not known"})
    # Parts that are no whole number of blocks, of other sizes, or of other dimensions are wrong.
    for odd in (parts(one, other, one), parts(one, other, one, one[:5]), parts(rows(t, 5, 0, 3), *[rows(t, 5, 3, 6)] * 2)):
        check.one(whole, odd, 1, "wrong", "name its placements")
    # A DTensor on a mesh of some ranks; each mesh has a part of the batch.
    for a, b, verdict in ((one, other, (0, "bit_exact")), (other, one, (1, "wrong")), (one, far, (1, "wrong"))):
        ranks = [{"t": ([2, 5], v[10 * half:10 * half + 10], lies_as("S(0)", [2], [4, 5], mesh_ranks=group))}
                 for v, group in ((a, [0, 1]), (b, [2, 3])) for half in range(2)]
        check.one(whole, ranks, *verdict)


def dealt(check):
    """A batch that is not distributed in blocks, as by torch's DistributedSampler."""
    x, y = waves(12 * 3), waves(12 * 2 * 2, 0.5)  # 12 samples; of y two rows each
    act = {"optional": True}
    ref = {"step 0 input l": ([12, 3], x, act), "step 0 forward l": ([24, 2], y, act), "step 1 input l": ([12, 3], x, act)}

    def ranks(orders, second=None, also=True):
        return [{"step 0 input l": ([len(o), 3], [v for i in o for v in rows(x, 3, i, i + 1)], act),
                 "step 0 forward l": ([2 * len(o), 2], [v for i in p for v in rows(y, 4, i, i + 1)], act),
                 **({"step 1 input l": ([len(o), 3], [v for i in p for v in rows(x, 3, i, i + 1)], act)} if also else {})}
                for o, p in zip(orders, second or orders)]

    turns = [list(range(r, 12, 3)) for r in range(3)]
    mixed = [[7, 1, 0, 11], [3, 2], [4, 5, 6, 8, 9, 10]]
    shared = [order for order in turns for _ in range(2)]  # two tensor-parallel ranks have each part
    for orders, said in ((turns, "rows dealt round-robin"), (mixed, "rows in another order"), (shared, "rows dealt round-robin"),
                         (turns + turns, "rows dealt round-robin")):
        a, b = check.written([ref]), check.written(ranks(orders))
        code, stages, text = diff(a, b)
        assert code == 0 and {s["class"] for s in stages.values()} == {"bit_exact"}, (stages, text)
        assert [s["order"] for s in stages.values()] == [said, None, said], stages
        # Later tensors are distributed alike, or wrong; with duplicate rows there is no order.
        other = [list(reversed(o)) for o in orders]
        check.one(ref, ranks(orders, other, also=False), 1, "wrong", name="step 0 forward l")
        twice = [[o[1], *o[1:]] if o == orders[0] else o for o in orders]
        check.one(ref, ranks(twice), 1, "wrong", name="step 0 input l")
    blocks = [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11]]
    check.one(ref, ranks(blocks, turns, also=False), 1, "wrong", name="step 0 forward l")


def batches(check):
    """Calls of one step take batches in orders of their own, or ranks join their rows of several batches."""
    act = {"optional": True}
    a, b = waves(8 * 3), waves(8 * 3, 0.7)
    y = waves(8 * 2, 0.3)
    two = waves(16 * 2, 0.9)  # two rows of a sample
    ref = {"step 0 input l": ([8, 3], a, act), "step 0 input l (call 1)": ([8, 3], b, act), "step 0 forward m": ([8, 2], y, act),
           "step 0 forward l (call 1)": ([16, 2], two, act), "step 0 input head": ([16, 3], a + b, act), "step 0 backward m": ([8, 2], y, act)}
    orders = [[6, 1, 0, 3], [2, 7, 5, 4]], [[3, 2, 1, 7], [0, 6, 4, 5]]
    blocks = [[0, 1, 2, 3], [4, 5, 6, 7]]
    near = [v * (1 + 1e-6) for v in y]  # computed: rounded in another way

    def taken(values, order):
        return [v for i in order for v in rows(values, len(values) // 8, i, i + 1)]

    def ranks(first, second, forward, head, backward):
        return [{"step 0 input l": ([4, 3], taken(a, first[r]), act), "step 0 input l (call 1)": ([4, 3], taken(b, second[r]), act),
                 "step 0 forward m": ([4, 2], taken(near, forward[r]), act),
                 "step 0 forward l (call 1)": ([8, 2], [v for i in second[r] for v in rows(two, 4, i, i + 1)], act), "step 0 input head": ([8, 3], head(r), act),
                 "step 0 backward m": ([4, 2], taken(near, backward[r]), act)} for r in range(2)]

    for p, q in (orders, (orders[0], blocks), (blocks, orders[1]), (blocks, blocks), (orders[0], orders[0])):
        def joined(r, p=p, q=q):
            return taken(a, p[r]) + taken(b, q[r])

        for forward in (p, q):
            code, stages, text = diff(check.written([ref]), check.written(ranks(p, q, forward, joined, p)))
            assert code == 0 and set(stages) == set(ref) and not any(s["class"] == "wrong" for s in stages.values()), (p, q, stages, text)
            said = stages["step 0 input head"]
            assert said["class"] == "bit_exact" and said["order"] == "rows of joined batches", said
        # Rows in an order that no batch has, the batches swapped, and the rows of one rank on the other are wrong.
        turned = [list(reversed(o)) for o in p]
        check.one(ref, ranks(p, q, turned, joined, p), 1, "wrong", name="step 0 forward m")
        check.one(ref, ranks(p, q, p, joined, turned), 1, "wrong", name="step 0 backward m")
        check.one(ref, ranks(p, q, p, lambda r, p=p, q=q: taken(b, q[r]) + taken(a, p[r]), p), 1, "wrong", name="step 0 input head")
        check.one(ref, ranks(p, q, p, lambda r, p=p, q=q: taken(a, p[1 - r]) + taken(b, q[r]), p), 1, "wrong", name="step 0 input head")
        swapped = ranks(p, q, p, joined, p)  # the two rows of a sample
        swapped[1]["step 0 forward l (call 1)"][1][:4] = two[4 * q[1][0] + 2:4 * q[1][0] + 4] + two[4 * q[1][0]:4 * q[1][0] + 2]
        check.one(ref, swapped, 1, "wrong", name="step 0 forward l (call 1)")
        # Not the reference's rows.
        twice = [[o[0], o[0], *o[2:]] for o in q]
        check.one(ref, ranks(p, twice, p, joined, p), 1, "wrong", name="step 0 input l (call 1)")


def taken_rows(check):
    """Rows that a module takes out of a batch that is in another order, on one rank perhaps."""
    act = {"optional": True}
    x = waves(8 * 3)
    chosen = [7, 0, 3, 5]  # of the batch, in the reference's order: 0, 3, 5, 7
    half = waves(4 * 5, 0.4)  # another input, of half as many rows, so that rows that are taken may fit whole samples
    ref = {"step 0 input l": ([8, 3], x, act), "step 0 input l [1]": ([4, 5], half, act),
           "step 0 input e": ([4, 3], [v for i in sorted(chosen) for v in rows(x, 3, i, i + 1)], act), "step 0 forward e": ([4, 2], waves(8), act)}
    order = [[6, 0, 3, 1], [2, 7, 5, 4]], [[7, 3, 0, 5], [2, 6, 1, 4]]  # in the second, rank 1 has no row that is taken

    def ranks(orders, change=lambda values: values, out=lambda values: values):
        made = []
        for own in orders:
            took = [i for i in own if i in chosen]
            forward = [v * (1 + 1e-6) for i in took for v in rows(waves(8), 2, sorted(chosen).index(i), sorted(chosen).index(i) + 1)]
            made.append({"step 0 input l": ([4, 3], [v for i in own for v in rows(x, 3, i, i + 1)], act),
                         "step 0 input l [1]": ([2, 5], half[10 * len(made):10 * len(made) + 10], act),
                         "step 0 input e": ([len(took), 3], change([v for i in took for v in rows(x, 3, i, i + 1)]), act),
                         "step 0 forward e": ([len(took), 2], out(forward), act)})
        return made

    for orders in order:
        code, stages, text = diff(check.written([ref]), check.written(ranks(orders)))
        assert code == 0 and stages["step 0 input e"]["class"] == "bit_exact" and stages["step 0 forward e"]["class"] != "wrong", text
        # Other values are wrong, and so are the rows of a computed tensor in an order that its input does not have.
        check.one(ref, ranks(orders, lambda values: [2 * v for v in values]), 1, "wrong", name="step 0 input e")
        check.one(ref, ranks(orders, out=lambda values: values[2:] + values[:2]), 1, "wrong", name="step 0 forward e")
    # Rows that the reference takes in an order of its own, and rows that it does not take, or takes once.
    ref["step 0 input e"] = ([4, 3], [v for i in (7, 0, 3, 5) for v in rows(x, 3, i, i + 1)], act)
    del ref["step 0 forward e"], ref["step 0 input l [1]"]
    for took, verdict in (([[0, 3], [7, 5]], (0, "bit_exact")), ([[3, 0], [5, 7]], (0, "bit_exact")), ([[1, 3], [7, 5]], (1, "wrong")),
                          ([[0, 3], [7, 7]], (1, "wrong"))):
        run = [{"step 0 input l": ([4, 3], [v for i in own for v in rows(x, 3, i, i + 1)], act),
                "step 0 input e": ([2, 3], [v for i in took[r] for v in rows(x, 3, i, i + 1)], act)} for r, own in enumerate(order[0])]
        check.one(ref, run, *verdict, name="step 0 input e")
    # Many experts, whose tensors lie between the batch and the last expert's.
    made = random.Random(1)
    x, order = waves(24 * 3), made.sample(range(24), 24)
    many, run = {}, [{}, {}]
    for k in range(13):
        name, chosen = (f"step 0 input e{k}", made.sample(range(24), 9)) if k else ("step 0 input l", range(24))
        many[name] = ([len(chosen), 3], [v for i in sorted(chosen) for v in rows(x, 3, i, i + 1)], act)
        for rank, own in enumerate((order[:12], order[12:])):
            took = [i for i in own if i in chosen]
            run[rank][name] = ([len(took), 3], [v for i in took for v in rows(x, 3, i, i + 1)], act)
    code, stages, text = diff(check.written([many]), check.written(run))
    assert code == 0 and len(stages) == 13 and all(s["class"] == "bit_exact" for s in stages.values()), (stages, text)


def own_rows(check):
    """Offsets that count from a rank's first id, nodes that count from its first one, and rows that each rank pads."""
    act, ids, y = {"optional": True, "type": "I64"}, [5, 1, 2, 7, 3, 3, 9, 4], waves(8)

    def whole(second, shape=None):
        return {"step 0 input l [0]": ([8], ids, act), "step 0 input l [1]": (shape or [4], second, act),
                "step 0 forward l": ([4, 2], y, {"optional": True})}

    def ranks(first, second, shape=None, half=lambda values: values):
        return [{"step 0 input l [0]": ([5], ids[:5], act), "step 0 input l [1]": (shape or [2], first, act),
                 "step 0 forward l": ([2, 2], y[:4], {"optional": True})},
                {"step 0 input l [0]": ([3], ids[5:], act), "step 0 input l [1]": (shape or [2], second, act),
                 "step 0 forward l": ([2, 2], half(y[4:]), {"optional": True})}]

    name = "step 0 input l [1]"
    counted = check.one(whole([0, 2, 5, 6]), ranks([0, 2], [0, 1]), 0, "bit_exact", name=name)
    assert counted["order"] == "counted from each rank's rows", counted
    check.one(whole([0, 2, 5, 6, 1, 3, 6, 7], [2, 4]), ranks([0, 2, 1, 3], [0, 1, 1, 2], [2, 2]), 0, "bit_exact", name=name)  # edges of graphs
    check.one(whole([0, 0, 1, 1]), ranks([0, 0], [0, 0]), 0, "bit_exact", name=name)  # the graph of each node
    for first, second in (([0, 2], [0, 2]), ([0, 2], [1, 2]), ([0, 1], [0, 1])):
        check.one(whole([0, 2, 5, 6]), ranks(first, second), 1, "wrong", name=name)
    act = {"optional": True}  # values that no integer counts
    check.one(whole([0, 2, 5, 6]), ranks([0, 2], [0, 1]), 1, "wrong", name=name)
    # Ranks pad: tensors of other sizes are not compared, the others are.
    pad = {"step 0 input l": ([4, 3], ids + [0] * 4, act), "step 0 forward l": ([4, 2], y, {"optional": True})}
    short = [{"step 0 input l": ([2, 2], ids[:4], act), "step 0 forward l": ([2, 2], y[:4], {"optional": True})},
             {"step 0 input l": ([2, 3], ids[4:] + [0, 0], act), "step 0 forward l": ([2, 2], y[4:], {"optional": True})}]
    long = [{**short[0], "step 0 input l": ([2, 4], ids, act)}, short[1]]
    assert omitted(check.written([pad]), check.written(short)) == (0, {"step 0 input l": "ranks pad rows of the batch to other lengths"})
    check.one(pad, long, 1, "wrong", name="step 0 input l")
    check.one(pad, [short[0], {**short[1], "step 0 forward l": ([2, 2], [2 * v for v in y[4:]], {"optional": True})}], 1, "wrong",
              name="step 0 forward l")
    # Equal rows leave an order open: another tensor's rows may have any of these orders.
    lengths = {"step 0 input l": ([4], [3, 3, 1, 2], act), "step 0 forward l": ([4, 2], y, {"optional": True})}
    for order in ([2, 1, 3, 0], [2, 0, 3, 1]):
        run = [{"step 0 input l": ([2], [lengths["step 0 input l"][1][i] for i in half], act),
                "step 0 forward l": ([2, 2], [v for i in half for v in rows(y, 2, i, i + 1)], {"optional": True})} for half in (order[:2], order[2:])]
        code, stages, text = diff(check.written([lengths]), check.written(run))
        assert code == 0 and all(s["class"] == "bit_exact" for s in stages.values()), (stages, text)


def main():
    for part in (placements, blocks, dealt, batches, taken_rows, own_rows):
        part(Check())
        print(part.__name__, "as it should be")


main()
