"""`lockstep prove --rules`: computes the table, confirms wrong results on gloo, groups them into defects, and compares with the last table.

The results are lines of JSON, one for each combination. `summary.json` beside them has the data of the report.
"""

import base64
import collections
import fnmatch
import json
import os
import pickle
import random
import re
import sys
import time

from lockstep.rules import judge, shrink, work

USAGE = 2  # an exit code
ORDER = ("right", "refused", "wrong", "hung", "unconfirmed")
CONFIRMED_EACH = 3  # wrong results of one operator, kind and direction to confirm before their defects are known
MESHES = {"quick": [(2,)], "all": [(2,), (3,), (4,), (2, 2)]}
# Combinations of a call on a mesh: all up to this number, else a random draw of it. All calls run on the first mesh, one call of each
# operator on the others.
MOST = {(2,): (9, 8), (3,): (3, 3), (4,): (3, 3), (2, 2): (4, 4)}
MOST_IN_PLACE = (49, 8)  # these are cheap, and wrong more often


class Table:
    """The rows of a results file, by key."""

    def __init__(self, path):
        self.rows = {}
        if path is not None and os.path.exists(path):
            with open(path, encoding="utf-8") as file:
                for line in file:
                    if line.endswith("\n"):  # a stopped run leaves an incomplete line
                        row = json.loads(line)
                        if "placements" in row:
                            self.rows[work.key_of(row)] = row


def calls_of(only):
    """(calls, notes) whose name matches a pattern. A child process lists them: this process forks and computes nothing."""
    chosen = [pattern.strip() for pattern in (only or "*").split(";")]

    def child(put):
        from lockstep.rules import opinfo, patterns

        def give(calls):
            put({"calls": base64.b64encode(pickle.dumps([call for call in calls if _matches(call.name, chosen)])).decode()})

        give(list(patterns.calls()))
        try:
            database = opinfo.database()
        except ImportError as error:
            put({"why": f"the OpInfo database is left out: {error}; pip install expecttest"})
            return
        for op in database:
            if _matches(op.name, chosen):
                calls, why = opinfo.of(op)
                give(calls)
                if why:
                    put({"operator": op.name, "why": why})

    found, notes, reasons = [], [], collections.defaultdict(list)
    for line in work.lines(*work.forked(child), work.SILENT_SECONDS):
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


def confirm(rows, calls, seed):
    """Runs the rows on gloo and records its results. Returns the number that agree."""
    items = [_item(row, calls, seed) for row in rows]
    agree = 0
    for row, verdict in zip(rows, work.confirmed(items)):
        row["gloo"] = verdict[0]
        if verdict[0] == row["verdict"] and verdict[2] == row.get("text", "") or verdict[0] == row["verdict"] == "hung":
            agree += 1
        elif verdict[0] != row["verdict"]:
            row["verdict"] = verdict[0] if verdict[0] != "right" else "unconfirmed"
            row["text"] = verdict[2]
    return agree


def suspects(rows):
    """The wrong rows to confirm: a few of each operator, kind and direction, and of each defect."""
    groups = collections.defaultdict(list)
    for row in rows:
        if row["verdict"] in ("wrong", "hung"):
            groups[row["name"], row.get("kind"), row["pass"], row["verdict"]].append(row)
    return groups


# ---- Defects ----
def _kinds(text):
    """Placements without their dimensions, each once."""
    return "+".join(sorted({part.strip()[0] if part.strip()[:1] in "RS" else part.strip() for part in text.split(",") if part.strip()}))


def _fold(threads, row, calls, seed):
    """The defect of a wrong row."""
    call, seed, *how = _item(row, calls, seed)
    found = shrink.locate(threads, judge.Reference(call, seed), *how)
    if found is None:
        return {"operator": f"no operator alone, in {row['name']}", "given": " ".join(".".join(p) for p in row["placements"]),
                "result": ""}
    return found


def defects(rows, calls, seed, write):
    """One entry for each distinct defect, with its smallest example; found in a child process, which may use threads."""
    def child(put):
        threads, seen = work.Threads(), {}
        for at, row in enumerate(rows):
            found = _fold(threads, row, calls, seed)
            key = (found["operator"], row.get("kind", ""))
            if key not in seen:
                seen[key] = at
                best = _shrunk(threads, row, calls, seed, found["operator"])
                put({"at": at, "key": list(key), **found, **best})
            else:
                put({"at": at, "key": list(key)})

    found, counts = {}, collections.Counter()
    for entry in work.lines(*work.forked(child), work.SILENT_SECONDS):
        if entry is None:
            continue
        key = tuple(entry["key"])
        counts[key] += 1
        rows[entry["at"]]["defect"] = key[0]
        found.setdefault(key, entry)
    for key, entry in found.items():
        entry["shown_by"] = counts[key]
        write(entry)
    return list(found.values())


def _shrunk(threads, row, calls, seed, operator):
    call, _, placements, shape, backward = _item(row, calls, seed)

    def same(verdict):
        return verdict[0] == row["verdict"] and verdict[1] == row.get("kind", "")

    call, placements, shape, reference = shrink.least(threads, call, placements, shape, backward, seed, same)
    verdict = threads.judge(reference, placements, shape, backward)
    return {"call": call.source, "inputs": call.key().split(" | ")[-1], "placements": [list(p) for p in placements],
            "mesh": list(shape), "pass": row["pass"], "text": verdict[2], "kind": verdict[1], "outputs": verdict[3],
            "program": shrink.program(reference, placements, shape, backward, "program.py")}


# ---- The report ----
def compared(rows, last):
    """The differences from the last table: new, fixed and changed keys."""
    found = {"new": [], "mended": [], "changed": []}
    bad = ("wrong", "hung")
    for key, row in rows.items():
        before = last.get(key)
        if before is None or before["verdict"] == row["verdict"]:
            continue
        kind = "new" if row["verdict"] in bad else "mended" if before["verdict"] in bad else "changed"
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
        bad = [row for row in group if row["verdict"] in ("wrong", "hung")]
        refused = next((row for row in group if row["verdict"] == "refused"), None)
        rounded = sum(row["verdict"] == "right" and row.get("kind") == "rounded" for row in group)
        yield {"name": name, **{kind: counts[kind] for kind in ORDER}, "rounded": rounded,
               "text": _told(bad[0]) if bad else "", "refusal": _told(refused) if refused else ""}


def _told(row):
    mesh = "x".join(map(str, row["mesh"]))
    where = f"{row['call']}, {' '.join('.'.join(p) for p in row['placements'])}, mesh {mesh}, {row['pass']}"
    return f"{where}: {row.get('text', '')}"


def _torchrec(options):
    """TorchRec's cases run on gloo processes from the start. Returns (rows, defects)."""
    from lockstep.rules import torchrec_table

    chosen = [pattern.strip() for pattern in (options["only"] or "*").split(";")]
    cases = [(name, case) for name, case in torchrec_table.cases() if _matches(name, chosen) or _matches(torchrec_table.key(case), chosen)]
    done, rows, found = Table(options["results"]).rows if options["resume"] else {}, [], {}
    for count in (2,) if options["quick"] else (2, 4):
        wanted = []
        for name, case in cases:
            row = {"name": name, "call": torchrec_table.key(case), "mesh": [count], "placements": [], "pass": "step"}
            kept = done.get(work.key_of(row))
            rows.append(kept or row)
            if kept is None:
                wanted.append((row, case))
        for (row, case), verdict in zip(wanted, work.gloo(torchrec_table.judge_case, count, [case for _, case in wanted])):
            row.update(verdict=verdict[0], kind=verdict[1], text=verdict[2], gloo=verdict[0])
            if verdict[0] == "wrong":
                row["defect"] = f"{row['name']} {case['pooling']} {verdict[1]} {case['optimizer'] if verdict[1] == 'update' else ''}".strip()
                entry = found.setdefault(row["defect"], {"operator": row["defect"], "pass": "step", "call": row["call"],
                                                         "text": verdict[2], "program": torchrec_table.program(case, count), "shown_by": 0})
                entry["shown_by"] += 1
    return rows, list(found.values())


def _finish(options, rows, found, notes, checked, begun):
    """Writes the table, the summary and the programs."""
    with open(options["results"], "w", encoding="utf-8") as file:
        for row in rows:
            file.write(json.dumps(row) + "\n")
    last = options["last"]
    for verdict, (agree, drawn) in checked.items():
        notes += [f"{agree} of {drawn} {verdict} results that were drawn are the same on gloo"] if drawn else []
    totals = collections.Counter(row["verdict"] for row in rows)
    notes.append(", ".join(f"{totals[kind]} {kind}" for kind in ORDER if totals[kind]) +
                 f" of {len(rows)} combinations; {len(found)} distinct defects")
    summary = {"cases": list(cases(rows)), "defects": found, "notes": notes, "sample": checked, "totals": totals,
               "against": compared({work.key_of(row): row for row in rows}, last) if options["against"] else None,
               "minutes": round((time.monotonic() - begun) / 60, 1)}
    with open(options["summary"] or options["results"] + ".summary.json", "w", encoding="utf-8") as file:
        json.dump(summary, file)
    if options["programs"]:
        _write_programs(options["programs"], found)
    return 0


def run(options):
    """Computes the table. options: subject, only, seed, results, summary, against, programs, resume, quick, sample, progress."""
    begun, seed, path = time.monotonic(), options["seed"], options["results"]
    options["last"] = Table(options["against"]).rows
    if options["subject"] == "torchrec":
        rows, found = _torchrec(options)
        return _finish(options, rows, found, [], {}, begun)
    calls, notes = calls_of(options["only"])
    if not calls:
        print(f"lockstep prove: no operator or expression has the name {options['only']}", file=sys.stderr)
        return USAGE
    done = Table(path).rows if options["resume"] else {}
    meshes = MESHES["quick" if options["quick"] else "all"]
    units = [(call, shape) for shape in meshes for call in (calls if shape == meshes[0] else _one_each(calls, seed, shape))]
    kept, skipped = dict(done), {}
    with open(path, "a" if options["resume"] else "w", encoding="utf-8") as file:
        def write(row):
            if "unit" in row:
                if options["progress"] and row["unit"] % 50 == 0:
                    print(f"{row['unit']} of {len(units)}", flush=True)
            elif row["verdict"] == "skipped":
                skipped[row["call"]] = row
            else:
                kept[work.key_of(row)] = row
                file.write(json.dumps(row) + "\n")
                file.flush()

        work.table(units, {"seed": seed, "most": MOST, "in_place": MOST_IN_PLACE}, done, write)
    by_key = {call.key(): call for call in calls}
    rows = [row for row in kept.values() if row["call"] in by_key]
    found = _settle(rows, by_key, seed)
    checked = _sampled(rows, by_key, seed, options["sample"])
    reasons = collections.Counter(row["text"].split(":")[0] for row in skipped.values())
    notes += [f"{count} calls are left out: {why}" for why, count in reasons.items()]
    return _finish(options, rows, found, notes, checked, begun)


def _write_programs(folder, found):
    """A program for each defect, by its operator."""
    os.makedirs(folder, exist_ok=True)
    for entry in found:
        file = re.sub(r"[^a-z0-9]+", "_", f"{entry['operator'].removeprefix('aten.')} {entry['pass']}".lower()).strip("_") + ".py"
        entry["file"] = file
        with open(os.path.join(folder, file), "w", encoding="utf-8") as opened:
            opened.write(entry["program"].replace("program.py", file))


def _settle(rows, calls, seed):
    """Confirms wrong rows and groups them into defects."""
    groups = suspects(rows)
    chosen = [row for group in groups.values() for row in group[:CONFIRMED_EACH if group[0]["verdict"] == "wrong" else 1]]
    confirm(chosen, calls, seed)
    for (_, _, _, verdict), group in groups.items():
        if group[0]["verdict"] != verdict:  # gloo disagrees with the first, so with the group
            for row in group:
                row["verdict"], row["text"] = group[0]["verdict"], group[0]["text"]
    wrong = [row for row in chosen if row["verdict"] in ("wrong", "hung") and row.get("kind") != "crash"]
    return defects(wrong, calls, seed, lambda entry: None) if wrong else []


def _sampled(rows, calls, seed, count):
    """Draws right and wrong rows, runs them on gloo, and returns how many agree."""
    draw, found = random.Random(seed), {}
    for verdict, number in (("right", count), ("wrong", count // 3)):
        chosen = [row for row in rows if row["verdict"] == verdict]
        chosen = draw.sample(chosen, min(number, len(chosen)))
        copies = [dict(row) for row in chosen]
        found[verdict] = [confirm(copies, calls, seed) if copies else 0, len(copies)]
    return found
