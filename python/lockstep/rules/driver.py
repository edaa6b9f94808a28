"""`lockstep prove --rules`: computes the table, confirms wrong results on gloo, groups them into defects, and compares with the last table.

The results are lines of JSON: a header, and a line for each combination. `summary.json` beside them has the data of the report.
"""

import base64
import collections
import dataclasses
import fnmatch
import json
import os
import pickle
import random
import re
import time

from lockstep.rules import judge, shrink, work
from lockstep.rules.tables import ORDER, BadTable, Writer, key_of

BAD = ("wrong", "hung")
HUNG_WORLDS = 8  # that run at the same time; they sleep
MESHES = {"quick": [(2,)], "all": [(2,), (3,), (4,), (2, 2)]}
# Combinations of a call on a mesh: all up to this number, else a random draw of it. All calls run on the first mesh, one call of each
# operator on the others.
MOST = {(2,): (49, 10), (3,): (6, 4), (4,): (6, 4), (2, 2): (6, 6)}


def calls_of(chosen):
    """(calls, notes) whose name matches a pattern. A child process lists them: this process forks and computes nothing."""
    def child(put):
        from lockstep.rules import opinfo, patterns

        def give(calls):
            put({"calls": base64.b64encode(pickle.dumps([call for call in calls if _matches(call.name, chosen)])).decode()})

        listed = list(patterns.calls())
        give(listed)
        if set(chosen) <= {call.name for call in listed}:
            return
        try:
            database = opinfo.database()
        except ImportError as error:
            put({"why": f"the OpInfo database is left out: {error}"})
            return
        for op in database:
            if _matches(op.name, chosen):
                calls, why = opinfo.of(op)
                give(calls)
                if why:
                    put({"operator": op.name, "why": why})

    found, notes, reasons = [], [], collections.defaultdict(list)
    for line in work.lines(child, work.SILENT_SECONDS):
        if line is None:
            notes.append("the OpInfo database ended early")
        elif "calls" in line:
            found += pickle.loads(base64.b64decode(line["calls"]))
        elif "operator" in line:
            reasons[line["why"]].append(line["operator"])
        else:
            notes.append(line["why"])
    return found, notes + [f"operators of OpInfo that are left out: {', '.join(names)}: {why}" for why, names in reasons.items()]


def _one_each(calls, seed, shape):
    """A call of each name, drawn."""
    groups = collections.defaultdict(list)
    for call in calls:
        groups[call.name].append(call)
    return [random.Random(f"{seed} {shape} {name}").choice(group) for name, group in groups.items()]


def _matches(name, chosen):
    return any(name == pattern or fnmatch.fnmatchcase(name, pattern) for pattern in chosen)


# ---- Confirmation ----
def _item(row, calls, seed):
    return (calls[row["call"]], seed, [tuple(p) for p in row["placements"]], tuple(row["mesh"]), row["pass"] == "backward")


def confirm(rows, calls, seed, write=lambda row: None):
    """Runs the rows on gloo and records its results. Returns the number that agree."""
    agree = 0
    for mine, worlds in (([row for row in rows if row["verdict"] != "hung"], _workers()),
                         ([row for row in rows if row["verdict"] == "hung"], HUNG_WORLDS)):
        for at, verdict in work.confirmed([_item(row, calls, seed) for row in mine], worlds):
            row = mine[at]
            row["gloo"] = verdict[0]
            if verdict[0] == row["verdict"] and verdict[2] == row.get("text", "") or verdict[0] == row["verdict"] == "hung":
                agree += 1
            elif verdict[0] != row["verdict"]:
                row["verdict"] = verdict[0] if verdict[0] != "right" else "unconfirmed"
                row["text"] = verdict[2]
            write(row)
    return agree


def _workers():
    return len(os.sched_getaffinity(0))


# ---- Defects ----
def _fold(threads, row, calls, seed):
    """The defect of a wrong row."""
    call, seed, *how = _item(row, calls, seed)
    return shrink.locate(threads, judge.Reference(call, seed), *how)


def _example(threads, row, calls, seed, operator):
    """The smallest example of a row's defect; its first wrong operator stays the same."""
    call, _, placements, shape, backward = _item(row, calls, seed)

    def same(verdict, reference, candidate):
        if verdict[0] != row["verdict"] or verdict[1] != row.get("kind", ""):
            return False
        found = shrink.locate(threads, reference, *candidate[1:], backward)
        return (found["operator"] if found else None) == operator

    call, placements, shape, reference = shrink.least(threads, call, placements, shape, backward, seed, same)
    verdict = threads.judge(reference, placements, shape, backward)
    return _shown(reference, placements, shape, row, verdict)


def _shown(reference, placements, shape, row, verdict):
    call = reference.call
    specs = [[name, spec] for name, spec in call.inputs if isinstance(spec, str)]  # of OpInfo's calls: none
    return {"call": call.source, "inputs": call.key().split(" | ")[-1], "specs": specs, "placements": [list(p) for p in placements], "mesh": list(shape),
            "pass": row["pass"], "text": verdict[2], "kind": verdict[1], "outputs": verdict[3],
            "program": shrink.program(reference, placements, shape, row["pass"] == "backward", "program.py")}


def _unshrunk(row, calls, seed):
    call, _, placements, shape, _ = _item(row, calls, seed)
    return _shown(judge.Reference(call, seed), placements, shape, row, ("", row.get("kind", ""), row["text"], ""))


def defects(rows, calls, seed):
    """One entry for each distinct defect, with its smallest example, which runs on gloo too. A row gets the operator of its defect."""
    def fold(threads, at):
        yield _fold(threads, rows[at], calls, seed)

    def example(threads, at):
        yield _example(threads, rows[at], calls, seed, folded[at] and folded[at]["operator"])

    alive = [at for at, row in enumerate(rows) if row.get("kind") != "crash"]  # others would end these processes, too
    folded, found = dict(work.across(alive, fold, _workers())), {}
    for at, row in enumerate(rows):
        given = folded.get(at) or {"operator": f"no operator alone, in {row['name']}", "result": "",
                                   "given": " ".join(".".join(p) for p in row["placements"])}
        row["defect"] = given["operator"]
        found.setdefault((given["operator"], row.get("kind", "")), []).append((at, given))
    firsts = [same[0][0] for same in found.values() if same[0][0] in folded]
    examples = {at: one for at, one in work.across(firsts, example, _workers()) if one is not None}
    entries, items = [], []
    for (_, kind), same in found.items():
        at, given = same[0]
        call = calls[rows[at]["call"]]
        shown = examples.get(at) or _unshrunk(rows[at], calls, seed)
        entries.append({**given, **shown, "kind": kind, "verdict": rows[at]["verdict"], "shown_by": len(same)})
        call = dataclasses.replace(call, inputs=tuple(map(tuple, shown["specs"])) or call.inputs)
        items.append((call, seed, [tuple(p) for p in shown["placements"]], tuple(shown["mesh"]), shown["pass"] == "backward"))
    for at, verdict in work.confirmed(items, HUNG_WORLDS):
        entry, row = entries[at], rows[list(found.values())[at][0][0]]
        entry["gloo"] = verdict[0]
        if verdict[0] != entry["verdict"]:  # only among threads; gloo has run the row
            entry.update(_unshrunk(row, calls, seed), gloo=row["gloo"])
    return entries


# ---- The report ----
def compared(rows, last):
    """The differences from the last table: new, fixed and changed keys."""
    found = {"new": [], "mended": [], "changed": []}
    for key, row in rows.items():
        before = last.get(key)
        if before is None or before["verdict"] == row["verdict"]:
            continue
        kind = "new" if row["verdict"] in BAD else "mended" if before["verdict"] in BAD else "changed"
        found[kind].append(f"{key}: {before['verdict']}, now {row['verdict']}")
    text = "".join(line + "\n" for kind in found for line in found[kind][:20])
    return {**{kind: len(lines) for kind, lines in found.items()}, "text": text, "both": len(set(rows) & set(last))}


def cases(rows):
    """For the report: a case for each operator."""
    groups = {}
    for row in rows:
        groups.setdefault(row["name"], []).append(row)
    for name, group in groups.items():
        counts = collections.Counter(row["verdict"] for row in group)
        bad = [row for row in group if row["verdict"] in BAD]
        refused = next((row for row in group if row["verdict"] == "refused"), None)
        rounded = sum(row["verdict"] == "right" and row.get("kind") == "rounded" for row in group)
        yield {"name": name, **{kind: counts[kind] for kind in ORDER}, "rounded": rounded,
               "text": _told(bad[0]) if bad else "", "refusal": _told(refused) if refused else ""}


def _told(row):
    mesh = "x".join(map(str, row["mesh"]))
    where = f"{row['call']}, {' '.join('.'.join(p) for p in row['placements'])}, mesh {mesh}, {row['pass']}"
    return f"{where}: {row.get('text', '')}"


def _torchrec(options, header):
    """TorchRec's cases run on gloo processes from the start. Returns (rows, defects)."""
    from lockstep.rules import torchrec_table

    cases = [(name, case) for name, case in torchrec_table.cases() if _matches(name, options["only"]) or
             _matches(torchrec_table.key(case), options["only"])]
    _some(cases, options)
    done = options["done"]
    writer, keys = Writer(options["results"], header, done.values()), {}
    for count in (2,) if options["quick"] else (2, 3, 4):
        named = [({"name": name, "call": torchrec_table.key(case), "mesh": [count], "placements": [], "pass": "step"}, case)
                 for name, case in cases]
        keys.update((key_of(row), (case, count)) for row, case in named)
        wanted = [(row, case) for row, case in named if key_of(row) not in done]
        for at, verdict in work.gloo(torchrec_table.judge_case, count, [case for _, case in wanted]):
            row = {**wanted[at][0], "verdict": verdict[0], "kind": verdict[1], "text": verdict[2], "gloo": verdict[0]}
            done[key_of(row)] = row
            writer.add(row)
    found = {}
    for row, (case, count) in ((done[key], how) for key, how in keys.items()):
        if row["verdict"] in BAD:
            update = f" {row['kind']} {case['optimizer']}" if row["kind"] == "update" else f" {row['kind']}"
            row["defect"] = f"{row['name']} {case['pooling']}{update}"
            entry = found.setdefault(row["defect"], {
                "operator": row["defect"], "pass": "step", "call": row["call"], "text": row["text"], "mesh": [count],
                "verdict": row["verdict"], "gloo": row["gloo"], "program": torchrec_table.program(case, count), "shown_by": 0})
            entry["shown_by"] += 1
    writer.end(done.values())
    return [done[key] for key in keys], list(found.values())


def _finish(options, rows, found, notes, checked, begun):
    """Writes the summary and the programs."""
    for verdict, (agree, drawn) in checked.items():
        notes += [f"{agree} of {drawn} {verdict} results that were drawn are the same on gloo"] if drawn else []
    totals = collections.Counter(row["verdict"] for row in rows)
    notes.append(", ".join(f"{totals[kind]} {kind}" for kind in ORDER if totals[kind]) +
                 f" of {len(rows)} combinations; {len(found)} distinct defects")
    strides = sum(row["verdict"] == "right" and bool(row.get("text")) for row in rows)
    notes += [f"{strides} of the right results have other strides than the unsharded ones"] if strides else []
    doubtful = [entry["operator"] for entry in found if entry["gloo"] != entry["verdict"]]
    notes += [f"the examples of these defects are not confirmed on gloo: {', '.join(doubtful)}"] if doubtful else []
    against, last = None, options["last"]
    if options["against"]:
        against = compared({key_of(row): row for row in rows}, last.rows)
        notes.append(f"the earlier table has torch {last.header['torch']} and seed {last.header['seed']}")
    summary = {"cases": list(cases(rows)), "defects": found, "notes": notes, "sample": checked, "totals": totals,
               "against": against, "minutes": round((time.monotonic() - begun) / 60, 1)}
    with open(options["summary"] or options["results"] + ".summary.json", "w", encoding="utf-8") as file:
        json.dump(summary, file)
    if options["programs"]:
        _write_programs(options["programs"], found)
    return 0


def _header(subject, seed):
    import torch

    versions = torch.__version__
    if subject == "torchrec":
        import torchrec

        versions += f", torchrec {torchrec.__version__}"
    return {"subject": subject, "torch": versions, "seed": seed}


def _some(found, options):
    if not found:
        raise BadTable(f"no operator or expression has the name {';'.join(options['only'])}")


def run(options, tables):
    """Computes the table. options: subject, only, seed, results, summary, against, programs, resume, quick, sample, progress. tables: those
    that tables.opened() gives.
    """
    options = {**options, "only": [pattern.strip() for pattern in (options["only"] or "*").split(";")]}
    begun, seed, path, header = time.monotonic(), options["seed"], options["results"], _header(options["subject"], options["seed"])
    options["last"], earlier = tables
    earlier.continues(header, path)
    done = options["done"] = earlier.rows
    if options["subject"] == "torchrec":
        rows, found = _torchrec(options, header)
        return _finish(options, rows, found, [], {}, begun)
    calls, notes = calls_of(options["only"])
    _some(calls, options)
    meshes = MESHES["quick" if options["quick"] else "all"]
    units = [(call, shape) for shape in meshes for call in (calls if shape == meshes[0] else _one_each(calls, seed, shape))]
    order, skipped = {(call.key(), shape): at for at, (call, shape) in enumerate(units)}, {}
    writer, ended = Writer(path, header, done.values()), 0
    for row in work.table(units, {"seed": seed, "most": MOST}, done, _workers()):
        if row["verdict"] == "skipped":
            skipped[row["call"]] = row
        else:
            writer.add(row)
        ended += 1
        if options["progress"] and ended % 2000 == 0:
            print(f"{ended} combinations", flush=True)
    rows = [row for row in done.values() if (row["call"], tuple(row["mesh"])) in order]
    rows.sort(key=lambda row: order[row["call"], tuple(row["mesh"])])
    by_key = {call.key(): call for call in calls}
    confirm([row for row in rows if row["verdict"] in BAD and "gloo" not in row], by_key, seed, writer.add)
    found = defects([row for row in rows if row["verdict"] in BAD], by_key, seed)
    checked = _sampled(rows, by_key, seed, options["sample"])
    kept = {key_of(row) for row in rows}
    writer.end([*rows, *(row for key, row in done.items() if key not in kept)])
    reasons = collections.Counter(row["text"].split(":")[0] for row in skipped.values())
    notes += [f"{count} calls are left out: {why}" for why, count in reasons.items()]
    return _finish(options, rows, found, notes, checked, begun)


def _write_programs(folder, found):
    """A program for each defect, by its operator."""
    os.makedirs(folder, exist_ok=True)
    for entry in found:
        kind = "" if entry.get("kind", "value") == "value" else entry["kind"]
        file = re.sub(r"[^a-z0-9_]+", "_", f"{entry['operator'].removeprefix('aten.')} {entry['pass']} {kind}".lower()).strip("_") + ".py"
        entry["file"] = file
        with open(os.path.join(folder, file), "w", encoding="utf-8") as opened:
            opened.write(entry["program"].replace("program.py", file))


def _sampled(rows, calls, seed, count):
    """Draws right and wrong rows, runs them on gloo, and returns how many agree."""
    draw, found = random.Random(seed), {}
    for verdict, number in (("right", count), ("wrong", count // 3)):
        chosen = [row for row in rows if row["verdict"] == verdict]
        chosen = draw.sample(chosen, min(number, len(chosen)))
        copies = [dict(row) for row in chosen]
        found[verdict] = [confirm(copies, calls, seed) if copies else 0, len(copies)]
    return found
