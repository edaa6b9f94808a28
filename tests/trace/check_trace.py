"""Checks trace files against the trace event format, and traffic against the bytes that collectives move, independently of their writer:
check_trace.py LOCKSTEP SOURCE

The format: https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU (JSON object format; M metadata, X complete, s
and f flow events).
"""
import json
import os
import resource
import shutil
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


def whole_ns(event, key):
    """Readers keep nanoseconds; they round or truncate values that are no binary multiple."""
    ns = event[key] * 1000
    need(ns == int(ns), f"{key} {event[key]} of {event} is no whole number of nanoseconds")


def check(trace, ranks):
    """The events of a trace of cases with these numbers of ranks, checked; its slices by (pid, tid)."""
    need(isinstance(trace.get("traceEvents"), list), "traceEvents is not a list")
    tracks, names, flows, processes = {}, {}, {}, {}
    for event in trace["traceEvents"]:
        phase = event.get("ph")
        need(phase in ("M", "X", "s", "f"), f"unknown phase {phase!r}")
        need(isinstance(event.get("name"), str) and event["name"], "an event without a name")
        need(isinstance(event.get("pid"), int) and isinstance(event.get("tid"), int), "pid, tid")
        track = (event["pid"], event["tid"])
        if phase == "M":
            need(event["name"] in ("process_name", "process_sort_index", "thread_name",
                                   "thread_sort_index"), event["name"])
            if event["name"] == "process_name":
                processes[event["pid"]] = event["args"]["name"]
            if event["name"] == "thread_name":
                names[track] = event["args"]["name"]
            continue
        need(number(event.get("ts")) and event["ts"] >= 0, "ts must be a number, in microseconds")
        whole_ns(event, "ts")
        if phase == "X":
            need(number(event.get("dur")) and event["dur"] > 0, "dur must be a number > 0")
            whole_ns(event, "dur")
            need(event["name"] in KINDS, f"a slice named {event['name']}")
            args = event.get("args", {})
            for key in ("communicator", "seq", "dtype", "count", "where", "send_bytes"):
                need(key in args, f"a slice without {key}")
            tracks.setdefault(track, []).append(event)
        else:
            flows.setdefault((event["cat"], event["id"]), []).append(event)
    need(processes and len(set(processes.values())) == len(processes), f"cases {processes}")
    for pid in processes:
        # Viewers give process 0, and a thread that is numbered as its process, a meaning of their own.
        need(pid > 0 and (pid, pid) not in names, f"process {pid}")
        own = {name for (at, _), name in names.items() if at == pid}
        need(own == {f"rank {r}" for r in range(len(own))} and len(own) in ranks,
             f"tracks are named {sorted(own)}")
    for track, events in tracks.items():
        need(track in names, f"slices on a track without a name: {track}")
        end = 0
        for event in events:  # in the order of the file: each rank's calls follow one another
            need(event["ts"] >= end, f"slices of {names[track]} overlap at {event['ts']}")
            end = event["ts"] + event["dur"]
    for key, ends in flows.items():
        need([e["ph"] for e in ends] == ["s", "f"], f"flow {key} does not begin and end once")
        need(ends[1].get("bp") == "e", "a flow's end must bind to the slice that encloses it")
        for event in ends:
            # At a slice's edge readers differ about whose arrow it is.
            around = [s["name"] for s in tracks.get((event["pid"], event["tid"]), ())
                      if s["ts"] <= event["ts"] <= s["ts"] + s["dur"]]
            need(around == ["send" if event["ph"] == "s" else "recv"],
                 f"the end {event['ph']} of flow {key} lies in {around}")
        need(ends[0]["ts"] <= ends[1]["ts"], "a flow that goes back in time")
    sends = sum(e["name"] == "send" for events in tracks.values() for e in events)
    need(sends == len(flows), f"{sends} sends, {len(flows)} flows")
    return tracks




def damage(recording, folder, rank, change):
    """A copy of a recording in which `change` has changed a rank's list of calls."""
    copy = os.path.join(folder, "damaged")
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(recording, copy)
    path = os.path.join(copy, f"rank_{rank:05}.calls.json")
    with open(path, encoding="utf-8") as stream:
        calls = json.load(stream)
    change(calls)
    with open(path, "w", encoding="utf-8") as stream:
        json.dump(calls, stream)
    return copy


def check_replay(run, source, folder):
    """The trace of recordings: the calls that the ranks' files list, each rank's in its order."""
    recordings = os.path.join(source, "recordings/h200-nccl-2.28.9")
    out = os.path.join(folder, "replay.json")
    run("replay", "--quiet", "--trace", out, recordings)
    with open(out, encoding="utf-8") as stream:
        trace = json.load(stream)
    tracks = check(trace, {1, 2, 3, 4})
    names = {e["pid"]: e["args"]["name"] for e in trace["traceEvents"] if e["name"] == "process_name"}
    need(len(names) == len(os.listdir(recordings)), f"{len(names)} cases")
    for recording in (os.path.join(recordings, name) for name in os.listdir(recordings)):
        with open(os.path.join(recording, "manifest.json"), encoding="utf-8") as stream:
            manifest = json.load(stream)
        title = f"{manifest['name']} (recorded with nccl)"
        pid = [p for p, name in names.items() if name == title]
        need(len(pid) == 1, f"{title} is {len(pid)} times among {sorted(names.values())}")
        for rank in range(manifest["ranks"]):
            with open(os.path.join(recording, f"rank_{rank:05}.calls.json"), encoding="utf-8") as stream:
                calls = json.load(stream)
            keys = [(c["kind"], c["comm"], c["seq"], c["line"]) for c in calls]
            own = tracks.get((pid[0], rank), ())
            slices = [(e["name"], e["args"]["communicator"], e["args"]["seq"],
                       int(e["args"]["where"].rsplit(":", 1)[1])) for e in own]
            # Calls of one line (a group, a ring of messages) have no order among themselves.
            need(sorted(keys, key=str) == sorted(slices, key=str), f"{title}, rank {rank}")
            need([k[3] for k in keys] == [s[3] for s in slices], f"the order of {title}, rank {rank}")
            # A recorded algorithm is shown for its rank, and for the other members.
            how = {(c["comm"], c["seq"]): c["algorithm"] for c in calls if "algorithm" in c}
            shown = {(e["args"]["communicator"], e["args"]["seq"]): e["args"]["algorithm"]
                     for e in own if "algorithm" in e["args"]}
            need(how.items() <= shown.items(), f"the algorithms of {title}, rank {rank}")
    every = os.path.join(recordings, "every-collective")
    for rank, change in ((1, lambda calls: calls.pop(3)), (2, lambda calls: calls.pop(12)),
                         (0, lambda calls: calls[0].update(kind="barrier")),
                         (3, lambda calls: calls[2].update(comm="another", comm_id=7))):
        copy = damage(every, folder, rank, change)
        os.remove(out) if os.path.exists(out) else None
        run("replay", "--quiet", "--trace", out, copy, code=2)
        need(not os.path.exists(out), "a trace of calls that do not match")
    run("replay", "--quiet", "--trace", out, os.path.join(source, "tests/data/nccl_truth"))
    with open(out, encoding="utf-8") as stream:
        check(json.load(stream), {3, 4})


def main():
    lockstep, source = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])

    def run(*words, code=0):
        done = subprocess.run([lockstep, *words], capture_output=True, text=True)
        need(done.returncode == code, f"{words}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
        return done.stdout

    collectives = os.path.join(source, "scenarios/dtensor_example/every_collective.yaml")
    with tempfile.TemporaryDirectory() as folder:
        out = os.path.join(folder, "t.json")
        run("run", "--quiet", "--trace", out, collectives)
        with open(out, encoding="utf-8") as stream:
            logical = json.load(stream)
        tracks = check(logical, {4})
        need(len(tracks) == 4, "a track per rank")
        kinds = {e["name"] for events in tracks.values() for e in events}
        need({"all_reduce", "all_gather", "send", "recv", "broadcast"} <= kinds, f"only {kinds}")
        need(all(e["dur"] >= 1 for events in tracks.values() for e in events), "a set takes 1 us")
        # With a machine, more bytes take longer.
        run("run", "--quiet", "--trace", out, "--machine", "h100", collectives)
        with open(out, encoding="utf-8") as stream:
            timed = json.load(stream)
        need(timed["otherData"]["clock"] == "h100", "the clock's name")
        ends = [max(e["ts"] + e["dur"] for e in events) for events in check(timed, {4}).values()]
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
        # The sum over a row equals the bytes that the slices give for a rank's sends, at least for point to point.
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
        # A run that is refused has no trace: a rank's buffer has 4 GB, and all may take one.
        large = os.path.join(folder, "large.yaml")
        with open(large, "w", encoding="utf-8") as file:
            file.write("lockstep: 1\nname: large\nmesh: {shape: [2]}\n"
                       "program: {steps: [{all_reduce: {count: 1000000000}}]}\n")
        limits = resource.getrlimit(resource.RLIMIT_AS)
        resource.setrlimit(resource.RLIMIT_AS, (1 << 30, limits[1]))
        need(not run("traffic", large, code=3), "a matrix of what has not run")
        resource.setrlimit(resource.RLIMIT_AS, limits)
        check_replay(run, source, folder)
        run("traffic", "--trace", "x", collectives, code=2)
        run("run", "--machine", "h100", collectives, code=2)
    print("traces and traffic hold")


main()
