"""A job on two hosts of two ranks each: hosts.py LOCKSTEP BUGS STEADY SOURCE STAND_IN_FOLDER CASE

The hosts are two addresses of this machine. The case is a defect of bugs.c, or what happens to a program without one:
none; agent, coordinator: it is killed half way; paused: the coordinator reads nothing until 12 s after the ranks' end; strangers: connections without the key; key: the agent has another
key; recorded: --record and --flight-recorder."""
import glob
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time

from check import CASES, left_running, mark_line
from ends import PATIENCE_S, wait_for

LAUNCHER = """
import os, subprocess, sys
first = int(sys.argv[1])
ranks = [subprocess.Popen(sys.argv[2:], env=dict(os.environ, RANK=str(rank), WORLD_SIZE="4"))
         for rank in (first, first + 1)]
sys.exit(max(rank.wait() for rank in ranks))
"""


class Job:
    """The coordinator with ranks 0 and 1, and an agent with ranks 2 and 3."""

    def __init__(self, lockstep, stand_in, folder, command):
        self.lockstep, self.folder, self.command = lockstep, folder, command
        self.environment = dict(os.environ, MEET=f"{folder}/id", LD_LIBRARY_PATH=stand_in, STAND_IN_GPUS="1")
        self.port, self.agent = None, None
        for name in ("key", "other"):
            with open(os.open(f"{folder}/{name}", os.O_CREAT | os.O_WRONLY, 0o600), "w", encoding="utf-8") as file:
                file.write(os.urandom(32).hex())

    def _start(self, first, options):
        return subprocess.Popen([self.lockstep, "exec", "--observe", *options, "--", sys.executable, "-c", LAUNCHER,
                                 str(first), *self.command], env=self.environment, text=True,
                                stdout=subprocess.PIPE, stderr=open(f"{self.folder}/stderr{first}", "w", encoding="utf-8"))

    def coordinate(self, *options):
        self.coordinator = self._start(0, ["--listen", "127.0.0.2:0", "--agents", "1", "--key", f"{self.folder}/key",
                                           "--json", f"{self.folder}/report.json", *options])
        self.port = wait_for("the port", lambda: self._told("waits at port ").split(" ")[0])

    def join(self, key="key"):
        self.agent = self._start(2, ["--join", f"127.0.0.2:{self.port}", "--key", f"{self.folder}/{key}"])

    def stderr(self, first):
        with open(f"{self.folder}/stderr{first}", encoding="utf-8") as file:
            return file.read()

    def _told(self, words):
        return self.stderr(0).partition(words)[2]

    def half(self):
        for rank in range(4):
            wait_for(f"rank {rank}", lambda rank=rank: os.path.exists(f"{self.folder}/id.half{rank}"))

    def go_on(self):
        with open(f"{self.folder}/id.on", "w", encoding="utf-8"):
            pass

    def end(self):
        """The output of both, and their exit codes."""
        told = [process.communicate(timeout=PATIENCE_S)[0] for process in (self.coordinator, self.agent) if process]
        return "".join(told), [process.returncode for process in (self.coordinator, self.agent) if process]

    def case(self):
        with open(f"{self.folder}/report.json", encoding="utf-8") as file:
            read = json.load(file)
            return (read["cases"] or read["skips"])[0]


def differences(job, codes, expected_codes, error=None, findings=()):
    case = job.case()
    found = [(finding["id"], finding["ranks"]) for finding in case["findings"]]
    wrong = [] if found == list(findings) else [f"findings {found}, not {list(findings)}"]
    wrong += [] if codes == expected_codes else [f"exit codes {codes}, not {expected_codes}"]
    wrong += [] if (error or "") in (case.get("error") or "") else [f"the error is {case.get('error')}, not {error}"]
    return wrong


def defect(job, source, bug):
    name, ranks, mark, code, options = CASES[bug]
    job.coordinate(*options)
    job.join()
    _, codes = job.end()
    if bug == "stall":  # no rank is known to wait, as on one host
        return differences(job, codes[:1], [3], "nothing moved for 2 s")
    wrong = differences(job, codes[:1], [code], None, [(name, ranks)])
    where = job.case()["findings"][0]["where"] if job.case()["findings"] else ""
    if mark and not where.endswith(f"{os.path.basename(source)}:{mark_line(source, mark)}"):
        wrong.append(f"where: {where}")
    return wrong


def halves(job):
    with open(f"{job.folder}/out", encoding="utf-8") as file:
        return file.read().count("made")


def steady(job, case):
    options = {"recorded": ["--record", f"{job.folder}/kept", "--flight-recorder", f"{job.folder}/flight"],
               "key": ["--deadline", "2"]}
    job.coordinate(*options.get(case, []))
    error, codes = None, [0, 0]
    if case == "strangers":
        for text in (b"", b"GET / HTTP/1.0\r\n\r\n", b"\xff" * 4096):
            stranger = socket.create_connection(("127.0.0.2", int(job.port)))
            stranger.sendall(text)
            if text:
                stranger.settimeout(PATIENCE_S)
                try:
                    answer = stranger.recv(64)
                except ConnectionResetError:
                    answer = b""
                assert not answer or answer[0] == 21, answer  # TLS: an alert
    if case == "key":
        job.join("other")
        error, codes = "0 of 1 agents joined in 2 s", [3, 0]
    else:
        job.join()
    job.half()
    if case == "agent":
        job.agent.send_signal(signal.SIGKILL)
        error, codes = "is lost", [3, -signal.SIGKILL]
    elif case == "coordinator":
        job.coordinator.send_signal(signal.SIGKILL)
        codes = [-signal.SIGKILL, 0]
    elif case == "paused":
        job.coordinator.send_signal(signal.SIGSTOP)
    job.go_on()
    if case == "paused":
        wait_for("the ranks' end", lambda: halves(job) == 8)
        time.sleep(12)
        job.coordinator.send_signal(signal.SIGCONT)
    printed, ended = job.end()
    wait_for("the ranks' end", lambda: not left_running(job.folder))
    wrong = [] if halves(job) == 8 else [f"{halves(job)} of 8 halves were made"]
    if case == "coordinator":
        wrong += [] if "is lost" in job.stderr(2) else ["the agent says nothing"]
        return wrong + ([] if ended == codes else [f"exit codes {ended}, not {codes}"])
    wrong += differences(job, ended, codes, error)
    if case == "paused":
        wrong += ["the agent loses the coordinator"] if "is lost" in job.stderr(2) else []
    if case == "recorded":
        kept = [os.path.basename(path) for path in glob.glob(f"{job.folder}/flight*")]
        wrong += [] if len(kept) == 4 else [f"flight records: {kept}"]
        with open(f"{job.folder}/kept/exec.json", encoding="utf-8") as file:
            wrong += [] if len(json.load(file)["calls"]) == 200 else ["not all calls are kept"]
    if error is None:
        wrong += [] if "4 ranks agree" in printed else ["it does not say that the ranks agree"]
    return wrong


def main():
    lockstep, bugs, steady_program, source, stand_in, case = sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder:
        program = [bugs, case] if case in CASES and case != "none" else \
            ["/bin/sh", "-c", f'exec "$0" 100 >> {folder}/out', steady_program]
        job = Job(lockstep, stand_in, folder, program)
        wrong = defect(job, source, case) if case in CASES and case != "none" else steady(job, case)
        for first in (0, 2):
            if os.path.exists(f"{folder}/stderr{first}"):
                print(job.stderr(first))
        left = left_running(folder)
        wrong += [f"left running: {left}"] if left else []
        if wrong:
            print(*wrong, sep="\n")
    return len(wrong)


if __name__ == "__main__":
    sys.exit(main())
