"""A mutant or two of each judge and core room, for every test run: the nearest unit test must kill each (`mutants/sample`). If a change
removes the text of one, replace it by another.
"""
MUTANTS = [
    ("runner/compare/difference.c", "ulps > out->max_ulps", "ulps <= out->max_ulps"),
    ("runner/compare/expect.c", "i < comparison->stage_count", "0"),
    ("runner/compare/verdict.c", "fails[i] && stage->divergence == NULL", "1 && stage->divergence == NULL"),
    ("runner/program/known.c", "split || placements->at[d].split > 1",
     "split || placements->at[d].split <= 1"),
    ("oracle/optimizer.c", "store(p, c, sub(p, w, m))", "store(p, c, sub(p, m, w))"),
    ("orders/bound.c", "rounding += step", "rounding = step"),
    ("orders/fold.c", "at < length && text[at] == '('", "at < length || text[at] == '('"),
    ("collectives/check.c", "votes += same ? 1 : -1", "votes += same ? 2 : -1"),
    ("collectives/reduce.c", "calls[0]->root", "calls[1]->root"),
    ("ranks/meet.c", "shared->base += 1", "shared->base += 2"),
    ("formats/json.c", "json->has_member[level] = true", "json->has_member[level] = false"),
    ("kernels/cpu/bags.c", "divisor += added", "divisor = added"),
    ("local_tensor/blocks.c", "counts[i] += 1", "counts[i] += 2"),
    ("base/random.c", "* bound) >> 64", "* bound) >> 63"),
]
