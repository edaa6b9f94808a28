"""The files of `lockstep exec --flight-recorder`: flight.py LOCKSTEP PROGRAM STAND_IN_FOLDER [analyzer]

The files list each rank's calls and their states. With `analyzer`, PyTorch's own tool names the defect.
"""
import logging
import os
import pickle
import re
import subprocess
import sys
import tempfile

# bug: each rank's calls by name, state and elements sent; the analyzer's expected text
NAMES = ["nccl:all_reduce", "nccl:reduce", "nccl:all_reduce"]
WHOLE = [(name, "completed", [[64]]) for name in NAMES]
LAST = ("nccl:all_reduce", "scheduled", [[64]])
CASES = {
    "none": ([WHOLE] * 4, ""),
    "stall": (None, "missing ranks: {0}"),
    "p2p": ([WHOLE[:2] + [("nccl:send 0->1", "scheduled", [[64]]), LAST],
             WHOLE[:2] + [("nccl:recv 1<-0", "scheduled", [[32]]), LAST],
             WHOLE[:2] + [LAST], WHOLE[:2] + [LAST]],
            "Culprit rank 1; Error type: SIZE_OR_SYNTAX_MISMATCH"),
    "dtype": (None, "Culprit rank 2; Error type: COLLECTIVE_DTYPE_MISMATCH"),
    "kind": (None, "Culprit rank 1; Error type: COLLECTIVE_TYPE_MISMATCH"),
}


def read(path):
    with open(path, "rb") as file:
        return pickle.load(file)


def judge_files(ranks, expected):
    wrong = []
    for rank, kept in enumerate(ranks):
        told = [(at["profiling_name"], at["state"], at["input_sizes"]) for at in kept["entries"]]
        if expected is not None and told != expected[rank]:
            wrong.append(f"rank {rank}: {told}, not {expected[rank]}")
        for number, messages in (("collective_seq_id", False), ("p2p_seq_id", True)):
            numbers = [at[number] for at in kept["entries"] if at["is_p2p"] == messages]
            if numbers != list(range(len(numbers))):
                wrong.append(f"rank {rank}: {number} is {numbers}")
        if kept["pg_config"]["0"] != {"name": "0", "desc": "world", "ranks": "[0, 1, 2, 3]"}:
            wrong.append(f"rank {rank}: groups {kept['pg_config']}")
        wrong += [f"rank {rank}: no place in {at['frames']}" for at in kept["entries"]
                  if not at["frames"][0]["filename"].endswith("bugs.c")]
    return wrong


def judge_timeline(path, bug):
    """The rows of the HTML report's timeline: the call, and the ranks with a place for it."""
    with open(path, encoding="utf-8") as file:
        text = file.read().split("<summary>timeline</summary>")[1].split("</table>")[0]
    rows = []
    for row in re.findall(r"<tr><td.*?</tr>", text):
        cells = re.findall(r"<td[^>]*>(.*?)</td>", row)
        rows.append((cells[0], [bool(re.fullmatch(r"bugs\.c:\d+", cell)) for cell in cells[1:]]))
    every, none = [True] * 4, [False] * 4
    met = [(f"{name[5:]} on world", every) for name in NAMES]
    expected = {"none": met,
                "p2p": met[:2] + [("send on world, not complete", [True, False, False, False]),
                                  ("all_reduce on world, not complete", [True, False, False, False])]}.get(bug, rows)
    wrong = [] if rows[:len(expected)] == expected else [f"timeline: {rows}, not {expected}"]
    return wrong + [f"timeline: nobody's row {row}" for row in rows if row[1] == none]


def check(bug, lockstep, program, stand_in, analyzer):
    with tempfile.TemporaryDirectory() as folder:
        environment = dict(os.environ, MEET=f"{folder}/id", LD_LIBRARY_PATH=stand_in)
        os.mkdir(f"{folder}/kept")
        subprocess.run([lockstep, "exec", "-n", "4", "--deadline", "2", "--flight-recorder",
                        f"{folder}/kept/rank_", "--report", f"{folder}/report.html", "--", program, bug], env=environment,
                       stdout=subprocess.DEVNULL, check=False)
        if analyzer is None:
            return judge_files([read(f"{folder}/kept/rank_{rank}") for rank in range(4)],
                               CASES[bug][0]) + judge_timeline(f"{folder}/report.html", bug)
        said, should = analyzer(f"{folder}/kept"), CASES[bug][1]
        good = should in said if should else "Culprit" not in said and "missing" not in said
        return [] if good else [f"not {should!r}:\n{said}"]


def load_analyzer():
    """PyTorch's analyzer, as a function from a folder to its output."""
    from torch.distributed.flight_recorder import fr_trace  # slow
    said = []
    logging.Logger.handle = lambda logger, record: said.append(record.getMessage())

    def analyze(folder):
        said.clear()
        fr_trace.main(["-p", "rank_", folder])
        return "\n".join(said)
    return analyze


def main():
    lockstep, program, stand_in, *analyzer = sys.argv[1:]
    analyze = load_analyzer() if analyzer else None
    wrong = [f"{bug}: {what}" for bug in CASES
             for what in check(bug, lockstep, program, stand_in, analyze)]
    # An unwritable path is refused before the program begins, and nothing remains.
    with tempfile.TemporaryDirectory() as folder:
        for options in (["--record", "nowhere/kept"],
                        ["--record", "kept", "--flight-recorder", "nowhere/rank_"]):
            done = subprocess.run([lockstep, "exec", *options, "--", "touch", "begun"], cwd=folder,
                                  capture_output=True, text=True, check=False)
            if done.returncode != 2 or options[-1] not in done.stderr or os.listdir(folder):
                wrong.append(f"{options}: code {done.returncode}, {os.listdir(folder)}, "
                             f"{done.stderr}")
    print("\n".join(wrong))
    return len(wrong)


if __name__ == "__main__":
    sys.exit(main())
