"""redistributions.py LOCKSTEP: every redistribution between R, S(0), S(1) and partial sums on a mesh of 2 x 3.

Each path is bit exact and takes the calls that lockstep plan prints for it. The cheapest one never costs more.
"""
import itertools
import json
import os
import subprocess
import sys
import tempfile

LOCKSTEP = sys.argv[1]
AXES = ["rows", "columns"]
LAYOUTS = [", ".join(two) for two in itertools.product(["R", "S(0)", "S(1)", "P(sum)"], repeat=2)]


def refused(of, to):
    """Whether DTensor refuses it: partial values of a shard."""
    return any(a.startswith("S") and b.startswith("P") for a, b in zip(of.split(", "), to.split(", ")))


def program(path):
    lines = ["lockstep: 1", "name: paths", f"mesh: {{shape: [2, 3], names: [{', '.join(AXES)}]}}", "program:", "  tensors:"]
    lines += [f'    - {{name: t{i}, shape: [7, 5], placements: "{at}"}}' for i, at in enumerate(LAYOUTS)]
    lines.append("  steps:")
    for (i, of), (j, to) in itertools.product(enumerate(LAYOUTS), repeat=2):
        if path != "dtensor" or not refused(of, to):
            lines.append(f'    - redistribute: {{tensor: t{i}, into: from{i}to{j}, to: "{to}", path: {path}}}')
    return "\n".join(lines) + "\n"


def lockstep(*arguments):
    done = subprocess.run([LOCKSTEP, *arguments], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert done.returncode == 0, done.stdout
    return done.stdout


def calls_of_rank_0(trace):
    with open(trace) as file:
        events = json.load(file)
    events = events["traceEvents"] if isinstance(events, dict) else events
    mine = [event for event in events if event.get("ph") == "X" and event["tid"] == 0]
    mine.sort(key=lambda event: event["args"]["set"])
    return [(event["name"], event["args"]["communicator"].split("[")[0]) for event in mine]


def check(path):
    with open("program.yaml", "w") as file:
        file.write(program(path))
    lockstep("run", "program.yaml", "--json", "run.json", "--trace", "trace.json", "--quiet")
    lockstep("plan", "program.yaml", "--json", "plan.json", "--quiet")
    with open("run.json") as file:
        case, = json.load(file)["cases"]
    with open("plan.json") as file:
        planned = json.load(file)["redistributions"]
    assert case["class"] == "bit_exact" and case["verdict"] == "pass", case
    assert len(planned) > 128 and all(one["path"] == path for one in planned)
    wanted = [(step["call"], AXES[step["mesh_dim"]]) for one in planned for step in one[path]["steps"]
              if step["call"] != "local"]
    assert calls_of_rank_0("trace.json") == wanted
    for other in {"in_order", "dtensor"}:
        asked = [one for one in planned if other in one]
        assert len(asked) == len(planned) - (other == "dtensor") * sum(refused(one["from"], one["to"]) for one in planned)
        assert all(one["cheapest"]["us"] <= one[other]["us"] * (1 + 1e-12) for one in asked)
        assert sum(one["cheapest"]["us"] < one[other]["us"] for one in asked) > 20
    return len(planned)


def refuse():
    """A path that DTensor refuses ends the run with the step's line."""
    with open("refused.yaml", "w") as file:
        file.write("lockstep: 1\nname: refused\nmesh: {shape: [2]}\nprogram:\n  tensors:\n"
                   "    - {name: t, shape: [4], placements: S(0)}\n  steps:\n"
                   "    - redistribute: {tensor: t, to: P(sum), path: dtensor}\n")
    done = subprocess.run([LOCKSTEP, "run", "refused.yaml"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert done.returncode != 0 and "refused.yaml:8" in done.stdout, done.stdout
    assert "DTensor cannot make a shard partial" in done.stdout, done.stdout


with tempfile.TemporaryDirectory() as folder:
    os.chdir(folder)
    checked = sum(check(name) for name in ("in_order", "dtensor", "cheapest"))
    refuse()
    print(f"{checked} redistributions take the calls that the plan prints")
