"""Checks trace files against the trace event format, and traffic against what collectives move; it
knows nothing of the code that wrote them: check_trace.py LOCKSTEP SOURCE

The format: https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU (JSON object
format; M metadata, X complete, s and f flow events).
"""
import json
import os
import subprocess
import sys
import tempfile

KINDS = {"all_reduce", "reduce", "broadcast", "all_gather", "reduce_scatter", "all_to_all", "gather",
         "scatter", "send", "recv", "barrier"}


def fail(text):
    raise SystemExit("trace: " + text)


def need(condition, text):
    if not condition:
        fail(text)


def number(value):
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def check(trace, ranks):
    """The events of a trace, checked; returns its slices by (pid, tid)."""
    need(isinstance(trace.get("traceEvents"), list), "traceEvents is no list")
    tracks, names, flows = {}, {}, {}
    for event in trace["traceEvents"]:
        phase = event.get("ph")
        need(phase in ("M", "X", "s", "f"), f"unknown phase {phase!r}")
        need(isinstance(event.get("name"), str) and event["name"], "an event without a name")
        need(isinstance(event.get("pid"), int) and isinstance(event.get("tid"), int), "pid, tid")
        track = (event["pid"], event["tid"])
        if phase == "M":
            need(event["name"] in ("process_name", "thread_name", "thread_sort_index"), event["name"])
            if event["name"] == "thread_name":
                names[track] = event["args"]["name"]
            continue
        need(number(event.get("ts")) and event["ts"] >= 0, "ts must be a number, in microseconds")
        if phase == "X":
            need(number(event.get("dur")) and event["dur"] >= 0, "dur must be a number >= 0")
            need(event["name"] in KINDS, f"a slice named {event['name']}")
            args = event.get("args", {})
            for key in ("communicator", "seq", "dtype", "count", "where", "send_bytes"):
                need(key in args, f"a slice without {key}")
            tracks.setdefault(track, []).append(event)
        else:
            flows.setdefault((event["cat"], event["id"]), []).append(event)
    need({name for name in names.values()} == {f"rank {r}" for r in range(ranks)},
         f"tracks are named {sorted(names.values())}")
    for track, events in tracks.items():
        need(track in names, f"slices on a track without a name: {track}")
        end = 0
        for event in events:  # in the order of the file: each rank's calls follow one another
            need(event["ts"] >= end - 1e-9, f"slices of {names[track]} overlap at {event['ts']}")
            end = event["ts"] + event["dur"]
    for key, ends in flows.items():
        need([e["ph"] for e in ends] == ["s", "f"], f"flow {key} does not begin and end once")
        need(ends[1].get("bp") == "e", "a flow's end must bind to the slice that encloses it")
        for event in ends:
            around = [s for s in tracks.get((event["pid"], event["tid"]), ())
                      if s["ts"] - 1e-9 <= event["ts"] <= s["ts"] + s["dur"] + 1e-9]
            need(around, f"flow {key} lies outside of every slice")
        need(ends[0]["ts"] <= ends[1]["ts"], "a flow that goes back in time")
    sends = sum(e["name"] == "send" for events in tracks.values() for e in events)
    need(sends == len(flows), f"{sends} sends, {len(flows)} flows")
    return tracks




def main():
    lockstep, source = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])

    def run(*words, code=0):
        done = subprocess.run([lockstep, *words], capture_output=True, text=True, timeout=100)
        need(done.returncode == code, f"{words}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
        return done.stdout

    collectives = os.path.join(source, "scenarios/dtensor_example/every_collective.yaml")
    with tempfile.TemporaryDirectory() as folder:
        out = os.path.join(folder, "t.json")
        run("run", "--quiet", "--trace", out, collectives)
        with open(out, encoding="utf-8") as stream:
            logical = json.load(stream)
        tracks = check(logical, 4)
        need(len(tracks) == 4, "a track per rank")
        kinds = {e["name"] for events in tracks.values() for e in events}
        need({"all_reduce", "all_gather", "send", "recv", "broadcast"} <= kinds, f"only {kinds}")
        need(all(e["dur"] >= 1 for events in tracks.values() for e in events), "a set takes 1 us")
        # With a machine, more bytes take longer.
        run("run", "--quiet", "--trace", out, "--machine", "h100", collectives)
        with open(out, encoding="utf-8") as stream:
            timed = json.load(stream)
        need(timed["otherData"]["clock"] == "h100", "the clock's name")
        ends = [max(e["ts"] + e["dur"] for e in events) for events in check(timed, 4).values()]
        need(max(ends) != max(e["ts"] + e["dur"] for events in tracks.values() for e in events),
             "a machine's clock is not the logical one")
        plain = os.path.join(folder, "t.txt")
        run("run", "--quiet", "--trace", plain, collectives)
        with open(plain, encoding="utf-8") as stream:
            lines = stream.read().splitlines()
        need(lines[1].split()[3:] == [w for r in range(4) for w in ("rank", str(r))], lines[1])
        need(len(lines) == 2 + len({e["args"]["set"] for v in tracks.values() for e in v}),
             "a line per set")
        # A run that ends with a finding has a trace of what ran before it.
        bug = os.path.join(source, "scenarios/bugs/early_return_on_nan.yaml")
        if os.path.exists(bug):
            run("run", "--quiet", "--trace", out, bug)
            with open(out, encoding="utf-8") as stream:
                need(json.load(stream)["traceEvents"], "an empty trace")
        # Every rank's all_reduce of n depends on the n elements of every other.
        matrix = json.loads(run("traffic", "--json", "-", collectives))
        need(matrix["ranks"] == 4 and all(matrix["bytes"][r][r] == 0 for r in range(4)), "diagonal")
        # The sum over a row is what the slices say a rank sends, at least for point to point.
        sent = {}
        for (_, rank), events in tracks.items():
            for e in events:
                if e["name"] == "send":
                    key = (rank, e["args"]["peer"])
                    sent[key] = sent.get(key, 0) + e["args"]["send_bytes"]
        for (a, b), count in sent.items():
            need(matrix["bytes"][a][b] >= count > 0, f"{a} sends {count} to {b}")
        expected = 0
        for events in tracks.values():
            for e in events:
                args, n = e["args"], 4
                # Bytes that each member's result takes from others, by the definition of the kind.
                expected += {"all_reduce": args["send_bytes"] * (n - 1),
                             "reduce": args["send_bytes"] if args.get("root") != e["tid"] else 0,
                             "send": args["send_bytes"]}.get(e["name"], 0)
        total = sum(map(sum, matrix["bytes"]))
        need(total >= expected > 0, f"{total} bytes in all, reductions and messages alone {expected}")
        svg = run("traffic", "--svg", "-", collectives)
        import xml.etree.ElementTree as tree
        cells = tree.fromstring(svg).findall(".//{http://www.w3.org/2000/svg}rect")
        need(len(cells) == 1 + 16, f"{len(cells)} rectangles")
        run("traffic", "--trace", "x", collectives, code=2)
        run("run", "--machine", "h100", collectives, code=2)
    print("traces and traffic hold")


main()
