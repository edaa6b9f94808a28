"""Failing starts: starts.py LOCKSTEP STAND_IN_FOLDER CASE, see python/start.py."""
import json
import os
import subprocess
import sys
import tempfile

from check import left_running, mark_line

HERE = os.path.dirname(os.path.abspath(__file__))
PROGRAM = f"{HERE}/python/start.py"
WAITS = "rank 0 waits in store.wait() at "
# case: finding, exit code, and other text of the report
CASES = {
    "fails": ("rank.exited_early", 1, ["rank 1 ended with exit code 1 before it made a call", WAITS,
                                       "wrote to stderr: ImportError: a module is missing",
                                       "rank 2 ended with exit code 1, too"]),
    "leaves": ("rank.exited_early", 1, ["rank 1 ended with exit code 0 before it made a call",
                                        WAITS]),
    "killed": ("rank.died", 3, ["rank 1 was killed by signal 9", WAITS]),
    "alone": (None, 3, ["rank 1 ended with exit code 1: the others do not need it"]),
    "sleeps": (None, 3, ["nothing moved for 2 s (--deadline): rank 0 has not made a call"]),
    "launched": (None, 3, ["nothing moved for 2 s (--deadline)"]),
    "slow": (None, 5, []),
    "stderr": (None, 5, []),
}


def run(command, environment):
    """The exit code, stdout and stderr, a nonblocking pipe that is often full."""
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    with tempfile.TemporaryFile("w+") as out:
        process = subprocess.Popen(command, stdout=out, stderr=writer, env=environment)
        os.close(writer)
        with open(reader, encoding="utf-8") as file:
            err = file.read()
        code = process.wait()
        out.seek(0)
        return code, out.read(), err


def is_port_safe(lockstep):
    """Whether the rendezvous port is below the kernel's range for connections."""
    out = subprocess.run([lockstep, "exec", "-n", "1", "--", "sh", "-c", "echo port $MASTER_PORT"], stdout=subprocess.PIPE,
                         text=True, check=False).stdout
    with open("/proc/sys/net/ipv4/ip_local_port_range", encoding="ascii") as file:
        least = int(file.read().split()[0])
    return 1024 <= int(out.split("port ")[1].split()[0]) < least


def main():
    lockstep, stand_in, case = sys.argv[1:]
    name, code, words = CASES[case]
    options = [] if case == "launched" else ["-n", "3"]
    options += ["--deadline", "2"] if case in ("sleeps", "launched") else []
    with tempfile.TemporaryDirectory() as folder:
        report = f"{folder}/report.json"
        ended, out, err = run([lockstep, "exec", "--json", report, *options, "--", sys.executable, PROGRAM, case],
                              dict(os.environ, MEET=f"{folder}/id", LD_LIBRARY_PATH=stand_in))
        with open(report, encoding="utf-8") as file:
            cases = json.load(file)["cases"]
        wrong = [f"left running: {left}"] if (left := left_running(folder)) else []
    found = cases[0]["findings"][0] if cases and cases[0]["findings"] else {"id": None}
    said = found.get("text", "") + (cases[0].get("error", "") if cases else "")
    wrong += [] if (found["id"], ended) == (name, code) else [
        f"{found['id']}, exit code {ended}"]
    wrong += [f"it does not say: {text}" for text in words if text not in said]
    if WAITS in words and not found["where"].endswith(f"start.py:{mark_line(PROGRAM, 'wait')}"):
        wrong.append(f"where: {found['where']}")
    if case == "slow" and not is_port_safe(lockstep):
        wrong.append("MASTER_PORT may be taken before rank 0 listens")
    if case == "stderr":
        for rank in range(3):
            lines = [line for line in err.splitlines() if line.startswith(f"rank {rank} ")]
            if lines != [f"rank {rank} line {i}" for i in range(20000)] + [f"rank {rank} says two words"]:
                wrong.append(f"{len(lines)} lines of rank {rank}, or in another order")
    print(out, said, *wrong, sep="\n")
    return len(wrong)


if __name__ == "__main__":
    sys.exit(main())
