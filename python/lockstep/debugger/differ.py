"""Finds the first element of a tensor that differs between ranks, by hashes of its parts: no tensor is transferred."""

from lockstep.debugger import tables


def _groups(answers, of):
    same = {}
    for number, answer in sorted(answers.items()):
        same.setdefault(of(answer), []).append(number)
    return same


def _element(shape, at):
    """The indices of element `at`, as [1, 2]."""
    found = []
    for size in reversed(shape):
        found.insert(0, at % size)
        at //= size
    return "[" + ", ".join(map(str, found)) + "]"


def compare(hub, frames, expression):
    """Describes in lines how the ranks' values of the expression differ. frames: of each rank."""
    asked, ranks = {"expression": expression, "frames": frames}, hub.living()
    answers = hub.ask(ranks, "part", **asked)
    lines = []
    failed = _groups({number: one for number, one in answers.items() if "error" in one}, lambda one: one["error"])
    lines += [f"rank{'s' if len(of) > 1 else ''} {tables.listed(of)}: {text[:200]}" for text, of in failed.items()]
    good = {number: one for number, one in answers.items() if "error" not in one}
    if len(good) < 2:
        return lines or [f"only one rank has {expression}"]
    kinds = _groups(good, lambda one: one.get("text") or f"{one['dtype']} {one['shape']}")
    if len(kinds) > 1 or any("text" in one for one in good.values()):
        if len(kinds) == 1:
            return [*lines, f"all ranks have {next(iter(kinds))[:200]}"]
        return [*lines, *(f"rank{'s' if len(of) > 1 else ''} {tables.listed(of)}: {kind[:200]}" for kind, of in kinds.items())]
    first = next(iter(good.values()))
    low, high, step, shape = 0, first["count"], first["step"], first["shape"]
    chosen = [rank for rank in ranks if rank.number in good]
    while True:
        hashes = [good[rank.number]["hashes"] for rank in chosen]
        differing = [at for at, parts in enumerate(zip(*hashes)) if len(set(parts)) > 1]
        if not differing:
            return [*lines, f"ranks {tables.listed(good)} have the same {first['count']} {first['dtype']}"]
        low, high = low + differing[0] * step, min(low + (differing[0] + 1) * step, first["count"])
        if step == 1:
            break
        good = hub.ask(chosen, "part", low=low, high=high, **asked)
        if any("error" in one for one in good.values()):
            return [*lines, "the values change while they are compared"]
        step = good[chosen[0].number]["step"]
    values = hub.ask(chosen, "part", low=low, high=low + 1, step=1, **asked)
    lines.append(f"{first['dtype']} {shape}: first difference at {_element(shape, low)}")
    if len(differing) > 1 and first["count"] <= 1024:
        lines[-1] += f", {len(differing)} of {first['count']} elements differ"
    rows = _groups(values, lambda one: one["values"][0] if one.get("values") else one.get("error", "?"))
    return [*lines, *(f"  rank{'s' if len(of) > 1 else ''} {tables.listed(of)}: {value}" for value, of in rows.items())]
