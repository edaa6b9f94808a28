"""Writes dumps in the format of PyTorch's flight recorder, and returns lockstep's report on a folder of them."""
import json
import os
import pickle
import subprocess
import tempfile

WORLD = ("0", "default_pg", [0, 1, 2, 3])


def entry(name, sent, received=None, group=WORLD, state="completed", line=10, dtype="Float", number=None, **more):
    received = sent if received is None else received
    message = name.startswith(("send", "recv"))
    return dict({
        "pg_id": int(group[0]), "process_group": (group[0], group[1]), "collective_seq_id": number, "p2p_seq_id": number or 0,
        "op_id": number, "profiling_name": f"nccl:{name}", "time_created_ns": 1, "input_sizes": [[sent]],
        "output_sizes": [[received]], "input_dtypes": [dtype], "output_dtypes": [dtype], "state": state,
        "time_discovered_started_ns": None, "time_discovered_completed_ns": None, "retired": state == "completed",
        "timeout_ms": 600000, "is_p2p": message,
        "frames": [{"name": "all_reduce", "filename": "/x/lib/python3.11/site-packages/torch/distributed/distributed_c10d.py",
                    "line": 2800}, {"name": "step", "filename": "/src/train.py", "line": line}]}, **more)


def numbered(entries):
    """Numbers the calls as torch does: for each group, collectives and messages separately."""
    counts = {}
    for at, one in enumerate(entries):
        key = (one["process_group"], one["is_p2p"])
        counts[key] = counts.get(key, 0) + 1
        one["record_id"] = at
        if one["collective_seq_id"] is None:
            one["p2p_seq_id" if one["is_p2p"] else "collective_seq_id"] = counts[key]
            one["p2p_seq_id" if not one["is_p2p"] else "collective_seq_id"] = 0
    return entries


def dump(entries, groups=(WORLD,), first=0, **more):
    entries = numbered(entries)
    return dict({"version": "2.10", "entries": entries[first:],
                 "pg_config": {name: {"name": name, "desc": description, "ranks": str(ranks)}
                               for name, description, ranks in groups}, "pg_status": {}}, **more)


class Said:
    """The output of a command on dumps: [{rank: dump}], or the bytes of files by name."""

    def __init__(self, lockstep, dumps, command="diagnose", options=()):
        with tempfile.TemporaryDirectory() as folder:
            kept = os.path.join(folder, "kept")
            os.mkdir(kept)
            for name, one in dumps.items():
                data = one if isinstance(one, bytes) else pickle.dumps(one, protocol=2)
                with open(os.path.join(kept, f"trace_{name}" if isinstance(name, int) else name), "wb") as file:
                    file.write(data)
            report = os.path.join(folder, "report.json")
            reports = ["--json", report] if command == "diagnose" else []
            done = subprocess.run([lockstep, command, *options, *reports, kept], capture_output=True, text=True, check=False)
            self.code, self.out, self.err = done.returncode, done.stdout, done.stderr
            self.findings, self.cases = [], []
            if os.path.exists(report):
                with open(report, encoding="utf-8") as file:
                    self.cases = json.load(file)["cases"]
                self.findings = [found for case in self.cases for found in case.get("findings", [])]

    def ids(self):
        return [(found["id"], found["ranks"]) for found in self.findings]


def run_scenario(lockstep, text):
    """The findings of a scenario's text."""
    with tempfile.TemporaryDirectory() as folder:
        path, report = os.path.join(folder, "x.yaml"), os.path.join(folder, "x.json")
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        subprocess.run([lockstep, "run", path, "--json", report], capture_output=True, check=False)
        with open(report, encoding="utf-8") as file:
            return [found["id"] for case in json.load(file)["cases"] for found in case.get("findings", [])]
