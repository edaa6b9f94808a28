"""Runs a test program under `lockstep exec` and compares its report with the expected one.

check.py LOCKSTEP PROGRAM SOURCE STAND_IN_FOLDER CASE
"""
import json
import os
import re
import subprocess
import sys
import tempfile

# bug: finding, ranks at fault, mark in the source (None: no place), exit code, further options
CASES = {
    "correct": None,
    "none": None,
    "host": None,
    "one_process": None,
    "alone": ("collective.extra_call", [1], "alone", 1, []),
    "apart": ("rank.exited_early", [3], "apart", 1, []),
    "threads": (None, [], None, 0, []),
    "working": (None, [], None, 0, []),
    "session": ("collective.op_mismatch", [1], "session", 1, []),
    "opposite": ("deadlock.cross_communicator", [0, 1], "opposite", 1, []),
    "shared": ("collective.order_mismatch", [1], "shared", 1, []),
    "joins": ("deadlock.cross_communicator", [0, 1], "joins", 1, []),
    "op": ("collective.op_mismatch", [2], "op", 1, []),
    "dtype": ("collective.dtype_mismatch", [2], "dtype", 1, []),
    "count": ("collective.count_mismatch", [2], "count", 1, []),
    "kind": ("collective.kind_mismatch", [1], "kind", 1, []),
    "root": ("collective.root_mismatch", [3], "root", 1, []),
    "window": ("collective.purpose_mismatch", [2], "window", 1, []),
    "absent": ("collective.kind_mismatch", [1], "early", 1, []),
    "nan": ("value.nan_first", [1], "nan", 1, []),
    "large": ("value.nan_first", [1], "large", 1, []),
    "p2p": ("p2p.count_mismatch", [0, 1], "p2p", 1, []),
    "bcast": (None, [], None, 0, []),
    "pairs": (None, [], None, 0, []),
    "outside": ("rank.died", [3], None, 3, []),
    "overlap": ("buffer.overlap", [2], "overlap", 1, []),
    "overlap_off": (None, [], None, 0, ["--checks=-buffer.overlap"]),
    "cycle": ("deadlock.cycle", [0, 1], "cycle", 1, []),
    "groups": ("deadlock.cross_communicator", [0, 1], "groups", 1, []),
    "early": ("rank.exited_early", [3], None, 1, []),
    "broken": ("rank.exited_early", [2], "early", 1, []),
    "killed": ("rank.died", [1], None, 3, []),
    "python_none": None,
    "python_worlds": None,
    "python_op": ("collective.op_mismatch", [1], "op", 1, []),
    "python_left": ("rank.exited_early", [1], "left", 1, []),
    "python_raises": ("rank.exited_early", [1], "raises", 1, []),
    "python_exits": ("rank.exited_early", [1], "op", 1, []),
    "python_idle": ("collective.missing_rank", [0], "idle", 1, ["--deadline", "2"]),
    "python_store": ("collective.missing_rank", [0], "store", 1, []),
    "stall": ("collective.missing_rank", [0], None, 1, ["--deadline", "2"]),
    "asleep": ("collective.missing_rank", [0], None, 1, ["--deadline", "2"]),
    "another": ("collective.missing_rank", [0], "another", 1, []),
    "fails": ("rank.exited_early", [2], "fails", 1, []),
    "queues": ("collective.missing_rank", [1], "queues", 1, ["--deadline", "2"]),
    "join": ("collective.missing_rank", [3], "join", 1, ["--deadline", "2"]),
    # injected, in the program without a defect
    "fault_die": ("rank.died", [2], None, 1, ["--faults", "die@2:1"]),
    "fault_skip": ("collective.kind_mismatch", [1], None, 1, ["--faults", "skip_call@1:0"]),
    "fault_count": ("collective.count_mismatch", [1], "count", 1,
                    ["--faults", "wrong_count@1:0:1"]),
    "fault_stall": ("collective.missing_rank", [3], None, 1, ["--faults", "stall@3:0"]),
}

# Other expected texts of a finding.
WORDS = {"queues": "40 streams of its process wait at once", "asleep": "3 of 4 ranks wait",
         "another": "rank 0 waits in all_reduce sum of 64 f32 on world at ",
         "python_raises": "rank 1: ValueError: an odd batch\n", "python_exits": "rank 1: its last line on stderr: no batch is left\n",
         "large": "all_reduce sum of 1500007 f32 on #2 of all"}


def mark_line(source, mark):
    with open(source, encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            found = re.search(r"(?://|#) MARK (.*)$", line)
            if found and mark in found.group(1).split():
                return number
    raise SystemExit(f"no mark {mark} in {source}")


def left_running(folder):
    """Processes that have the run's own folder in their environment."""
    left = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/environ", "rb") as file:
                if f"MEET={folder}".encode() in file.read():
                    left.append(pid)
        except OSError:
            pass
    return left


def run(lockstep, command, stand_in, options, words):
    with tempfile.TemporaryDirectory() as folder:
        environment = dict(os.environ, MEET=f"{folder}/id", LD_LIBRARY_PATH=stand_in)
        report = f"{folder}/report.json"
        ranks = "1" if command[0].endswith("one_process") else "4"
        if "session" in words:
            environment["PYTEST_VERSION"] = "8.2"
        environment["STAND_IN_GPUS"] = "4" if ranks == "1" else "1"
        done = subprocess.run([lockstep, "exec", "-n", ranks, "--json", report, *options, "--",
                               *command, *words], env=environment, capture_output=True, text=True)
        with open(report, encoding="utf-8") as file:
            read = json.load(file)
            return done, (read["cases"] or read["skips"])[0], left_running(folder)


def main():
    lockstep, program, source, stand_in, case = sys.argv[1:]
    observe = ["--observe"] if case.startswith("observe_") else []
    case = case.removeprefix("observe_")
    bug = case.removeprefix("python_").removesuffix("_off")
    command = [sys.executable, program] if program.endswith(".py") else [program]
    expected = CASES[case]
    options = expected[4] if expected else []
    words = ["worlds"] if case == "python_worlds" else [] if expected is None or case.startswith("fault_") else [bug]
    done, result, left = run(lockstep, command, stand_in, observe + options, words)
    print(done.stdout, done.stderr, sep="\n")
    wrong = [f"left running: {left}"] if left else []
    if case == "python_worlds":
        own = done.returncode == 5 and "a world of its own" in result.get("reason", "")
        return 0 if own and not wrong else 1
    if expected is None:
        clean = done.returncode == 0 and not result["findings"] and result["class"] == "checked"
        wrong += [] if clean and "ranks agree" in done.stdout + result["checked"] else [
            "it is no clean run"]
        print("\n".join(wrong))
        return len(wrong)
    ran = (os.path.basename(result["name"]), result["backend"])
    if ran != (os.path.basename(command[-1]), "nccl" if observe else "sim"):
        wrong.append(f"what ran, and where: {ran}")
    name, ranks, mark, code, _ = expected
    found = result["findings"][0] if result["findings"] else {"id": None, "ranks": [], "where": ""}
    where = f"{os.path.basename(source)}:{mark_line(source, mark)}" if mark else ""
    if (case == "shared") != ("several threads of rank" in found.get("text", "")):
        wrong.append("whether threads share the communicator")
    wrong += [f"{what}: {is_!r}, not {should!r}" for what, is_, should in (
        ("finding", found["id"], name), ("ranks", found["ranks"], ranks),
        ("exit code", done.returncode, code)) if is_ != should]
    if case == "session" and done.stderr.count("continues") != 4:
        wrong.append("the session does not continue")
    ended = [f"it ended run {run} of the job" in found["text"] for run, found in enumerate(result["findings"], 1)]
    if case == "session" and ended != [True, True]:
        wrong.append(f"the findings of the session's runs: {ended}")
    if case == "python_op" and any(
            len(re.findall(rf"^rank {rank} reached .*:{mark_line(source, mark)} through:", found["text"],
                           re.MULTILINE)) != 1 for rank in ranks):
        wrong.append("not one stack of the rank at fault")
    if WORDS.get(case, "") not in found.get("text", ""):
        wrong.append(f"it does not say: {WORDS[case]}")
    told = sum(row["calls"] for row in result.get("calls", []) if row["call"] == "broadcast")
    if case == "bcast" and told != 1:  # observed: NCCL's own call of another function does not count
        wrong.append(f"{told} broadcasts")
    if not found["where"].endswith(where):
        wrong.append(f"where: {found['where']}, not {where}")
    print("\n".join(wrong))
    return len(wrong)


if __name__ == "__main__":
    sys.exit(main())
