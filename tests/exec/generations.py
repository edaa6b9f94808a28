"""A session of tests that starts new ranks for each test: generations.py LOCKSTEP HOST_PROGRAM CASE, or as the session itself."""
import json
import os
import subprocess
import sys
import tempfile

from check import left_running

# of each test the number of ranks, and what they do: nothing wrong, or `restart_op`, where the operation of rank 1 differs
CASES = {"good": [(2, ""), (4, ""), (2, "")], "bad": [(2, ""), (2, "restart_op"), (4, ""), (4, "restart_op"), (2, "")]}


def session(program, case):
    for count, word in CASES[case]:
        ranks = [subprocess.Popen([program, word], env={**os.environ, "RANK": str(rank), "WORLD_SIZE": str(count),
                                                        "TORCHELASTIC_RESTART_COUNT": "0"}) for rank in range(count)]
        print("codes", *(rank.wait() for rank in ranks), flush=True)


def main():
    lockstep, program, case = sys.argv[1:]
    if lockstep == "session":
        return session(program, case)
    with tempfile.TemporaryDirectory() as folder:
        report = f"{folder}/report.json"
        done = subprocess.run([lockstep, "exec", "--json", report, "--", sys.executable, __file__, "session", program, case],
                              env={**os.environ, "MEET": f"{folder}/id", "PYTEST_VERSION": "8.2"}, stdout=subprocess.PIPE, text=True,
                              check=False)
        with open(report, encoding="utf-8") as file:
            result = json.load(file)["cases"][0]
        left = left_running(folder)
    codes = [line.split()[1:] for line in done.stdout.splitlines() if line.startswith("codes")]
    assert codes == [["3" if word else "0"] * count for count, word in CASES[case]], done.stdout
    found = [(finding["id"], finding["ranks"], finding["text"].splitlines()[-1]) for finding in result["findings"]]
    assert found == [("collective.op_mismatch", [1], f"it ended run {run} of the job")
                     for run, (_, word) in enumerate(CASES[case], 1) if word], found
    assert done.returncode == (1 if found else 0) and not left, (done.returncode, left)
    return 0


if __name__ == "__main__":
    sys.exit(main())
