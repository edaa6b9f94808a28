"""A correct job on four hosts (namespaces.py) whose observation is disturbed: disturb.py LOCKSTEP STEADY STAND_IN_FOLDER CASE...
[--runs N] [--ranks N] [--load N] [--calls N] [--seed N]

The job must end as without lockstep, and the report has no finding. agent, coordinator: it is killed. cut: a host's cable to the
coordinator is out until the loss is noticed; blink: for 12 to 15 s. late: packets take 0.1 to 0.3 s, change their order, and 3 % are lost.
narrow: 20 kB/s. launcher: that of one host is
killed, and the report names one of its ranks.
strangers: connections without the key. On gloo, torch: undisturbed; slow: as late, in the job's network, too, from the start; both: the
job's own cable is out, too, and the job fails; job: only this one. The hosts and moments are drawn from the seed. Figures: rate, of steady.c; gloo; plain: gloo without lockstep.
"""
import argparse
import glob
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time

from cluster import HOSTS, PORT, SKIP, Job, environment_of
from ends import wait_for
from namespaces import Hosts, can_make

HERE = os.path.dirname(os.path.abspath(__file__))
GLOO_CASES, FIGURES = ["torch", "slow", "both", "job", "gloo", "plain"], ["rate", "gloo", "plain"]
BLINK_S = 28  # the next packet that is sent again comes before the end of 60 s
# Starts the ranks of its host, and keeps its exit code. With a module the ranks are forks of a process that has imported it.
LAUNCHER = """
import importlib, os, runpy, subprocess, sys
folder, first, here, count, module, *command = sys.argv[1:]
first, here, ranks = int(first), int(here), []
if module:
    importlib.import_module(module)
open(f"{folder}/started{first}", "w").close()
for rank in range(first, first + here):
    settings = {"RANK": str(rank), "WORLD_SIZE": count}
    if not module:
        ranks.append(subprocess.Popen(command, env={**os.environ, **settings}))
        continue
    ranks.append(os.fork())
    if ranks[-1] == 0:
        os.environ.update(settings)
        sys.argv = command
        runpy.run_path(command[0], run_name="__main__")
        sys.exit()
codes = [os.waitstatus_to_exitcode(os.waitpid(rank, 0)[1]) if module else rank.wait() for rank in ranks]
with open(f"{folder}/code{first}", "w") as file:
    file.write(str(codes))
sys.exit(max(map(abs, codes)))
"""
# A program on gloo: as steady.c, and its sums must be right. A call fails some time after a cable is out: with both, after the loss.
GLOO = """
import datetime, os, sys, time, torch, torch.distributed as dist
rank, folder = int(os.environ["RANK"]), os.environ["FOLDER"]
dist.init_process_group("gloo", timeout=datetime.timedelta(seconds={"both": 150, "job": 15}.get(sys.argv[1], 300)))
figures, steps = sys.argv[1] in ("gloo", "plain"), int(sys.argv[2])
for half in range(2):
    began, own = time.monotonic(), time.process_time()
    for step in range(steps):
        group = dist.new_group() if step % 100 == 0 else group
        x = torch.full((64,), float(step + rank))
        dist.all_reduce(x, group=group)
        assert x[0] == sum(range(step, step + dist.get_world_size())), x
        time.sleep(0 if figures else 0.01)
    print(f"rank {rank} made {steps} calls in {time.monotonic() - began:.6f} s, {time.process_time() - own:.6f} s of a processor", flush=True)
    open(f"{folder}/id.half{rank}", "w").close()
    while half == 0 and not os.path.exists(f"{folder}/id.on"):
        time.sleep(0.01)
dist.destroy_process_group()
"""
STRANGERS = f"""
import os, socket, ssl, sys, time
open_ones = []
def connect():
    made = socket.create_connection(("m0", {PORT}))
    made.settimeout(1)
    open_ones.append(made)
    return made
for _ in range(80):
    connect()
for text in (b"GET / HTTP/1.0\\r\\n\\r\\n", b"\\xff" * 4096, os.urandom(70000), bytes([22, 3, 1, 255, 255]) + bytes(300), bytes([20, 3, 3, 0, 1, 1])):
    for _ in range(20):
        made = connect()
        try:
            made.sendall(text)
            made.recv(64)
        except OSError:
            pass
context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
for _ in range(20):
    try:
        context.wrap_socket(connect())
        sys.exit("a stranger was let in")
    except OSError:
        pass
for _ in range(300):
    connect().close()
"""


def calls_of(job):
    """How many ranks made each half."""
    return sum(job.text(f"h{number}.out").count(" made") for number in range(HOSTS))


def figures_of(job):
    """Each host's calls in both halves, and the time of one; what its `lockstep` took in the first half."""
    for number in range(HOSTS):
        made = [list(map(float, row)) for row in re.findall(r"made (\d+) calls in ([\d.]+) s, ([\d.]+) s of", job.text(f"h{number}.out"))]
        print(f"  host {number}: {sum(calls / seconds for calls, seconds, _ in made) / 2:.0f} calls/s, a call "
              f"{sum(1e6 * seconds / calls for calls, seconds, _ in made) / len(made):.1f} us, its rank's processor "
              f"{sum(1e6 * own / calls for calls, _, own in made) / len(made):.1f} us, lockstep's "
              f"{1e6 * job.taken[number][0] / (made[0][0] * job.here):.1f} us, {job.taken[number][1]:.1f} MiB", flush=True)


class Disturbed(Job):
    def __init__(self, hosts, lockstep, case, ranks, program, calls):
        super().__init__(hosts, lockstep, ["--deadline", "300"])
        self.name, self.here, self.victim, self.out_s = case, ranks // HOSTS, None, 0
        module = "torch.distributed" if program is None else ""
        if program is None:
            with open(f"{self.folder}/gloo.py", "w", encoding="utf-8") as file:
                file.write(GLOO)
            program = [f"{self.folder}/gloo.py", case, str(calls)]
        environment = dict(environment_of(self), FOLDER=self.folder)
        if case == "slow":
            for network in ("job", "side"):
                hosts.degrade(network, 0.3, 0.2, 0.03)
        for number in range(HOSTS):
            first = str(number * self.here)
            command = [sys.executable, "-c", LAUNCHER, self.folder, first, str(self.here), str(ranks), module, *program]
            if case == "plain":
                self.start(number, command, environment)
            elif number == 0:
                self.coordinate(HOSTS - 1, command, environment)
            else:
                self.start(number, [*self.join, *command], environment)
        for number in range(HOSTS):
            wait_for(f"host {number}", lambda number=number: os.path.exists(f"{self.folder}/started{number * self.here}"))

    def disturb(self):
        """At any moment; until it is noticed."""
        number = self.victim = random.randrange(1, HOSTS)
        if self.name in FIGURES:
            for rank in range(HOSTS * self.here):
                wait_for(f"rank {rank}", lambda rank=rank: os.path.exists(f"{self.folder}/id.half{rank}"))
            self.taken = [self.look(number) for number in range(HOSTS)]
            self.go_on()
            return
        time.sleep(random.uniform(0, 4))
        if self.name == "agent":
            self.processes[number].kill(signal.SIGKILL)
            wait_for("the loss", lambda: os.path.exists(f"{self.folder}/report.json") or "is lost" in self.text("h0.err"))
        elif self.name == "launcher":
            pid = self.processes[number].pid
            self.hosts.start(number, ["sh", "-c", f"read child others < /proc/{pid}/task/{pid}/children; kill -9 $child"]).wait()
        elif self.name == "coordinator":
            self.processes[0].kill(signal.SIGKILL)
            for other in range(1, HOSTS):
                wait_for("the loss", lambda other=other: "is lost" in self.text(f"h{other}.err"))
        elif self.name in ("cut", "both"):
            number = self.victim = random.randrange(HOSTS) if self.name == "cut" else number
            for network in ["side"] if self.name == "cut" else ["side", "job"]:
                self.hosts.cut(network, number)
            wait_for("the loss", lambda: "is lost" in self.text("h0.err"))
            wait_for("the loss", lambda: "is lost" in self.text(f"h{number or 1}.err"))
            self.hosts.cut("side", number, up=True)
        elif self.name == "job":
            self.hosts.cut("job", number)
        elif self.name == "blink":
            began = time.monotonic()
            self.hosts.cut("side", number)
            time.sleep(random.uniform(12, 15))
            self.hosts.cut("side", number, up=True)
            self.out_s = time.monotonic() - began
        elif self.name == "late":
            self.hosts.degrade("side", 0.2, 0.1, 0.03)
        elif self.name == "narrow":
            self.hosts.degrade("side", 0, 0, 0, 2e4)
        elif self.name == "strangers":
            assert self.hosts.start(3, [sys.executable, "-c", STRANGERS]).wait() == 0, "strangers"
        self.go_on()
        if self.name in ("both", "job"):  # the host's own ranks wait for it until then
            wait_for("the job's error", lambda: glob.glob(f"{self.folder}/code*"))
            self.hosts.cut("job", number, up=True)

    def go_on(self):
        with open(f"{self.folder}/id.on", "w", encoding="utf-8"):
            pass

    def look(self, number):
        """The processor's seconds and the largest memory, MiB, of `lockstep` on that host."""
        at = f"/proc/{self.processes[number].pid}"
        with tempfile.TemporaryFile("w+") as out:
            self.hosts.start(number, ["cat", f"{at}/stat", f"{at}/status"], None, (0, out.fileno(), 2)).wait()
            out.seek(0)
            text = out.read()
        ticks = text.rpartition(") ")[2].split()[11:13]
        return sum(map(int, ticks)) / os.sysconf("SC_CLK_TCK"), int(re.search(r"VmHWM:\s+(\d+)", text)[1]) / 1024

    def judge(self):
        """Errors of the job, and of the report."""
        ranks, codes = HOSTS * self.here, self.end()
        if self.out_s > BLINK_S and codes[0] != 0:
            self.name = "cut"  # on a busy machine
        if self.name == "launcher":
            found = [(one["id"], [rank // self.here for rank in one["ranks"]]) for one in self.case()["findings"]]
            return [] if (codes[0], found) == (3, [("rank.died", [self.victim])]) else [f"{codes}, {found}, {self.case().get('error')}"]
        done = self.text("h0.err") + "".join(self.text(f"h{number}.err") for number in range(1, HOSTS))
        wait_for("the ranks' end", lambda: all(os.path.exists(f"{self.folder}/code{number * self.here}") for number in range(HOSTS)))
        fails = self.name in ("both", "job")
        made = calls_of(self)
        wrong = [] if made == 2 * ranks or fails else [f"{made} of {2 * ranks} halves were made"]
        for number in range(HOSTS):
            own = self.text(f"code{number * self.here}")
            wrong += [] if (own == str([0] * self.here)) != fails else [f"host {number}: the ranks' exit codes {own}"]
        expected = {"agent": {self.victim: -signal.SIGKILL, 0: 3}, "coordinator": {0: -signal.SIGKILL}, "cut": {0: 3}}.get(self.name, {})
        for number, code in enumerate(codes):
            wrong += [] if fails or code == expected.get(number, 0) else [f"exit code {code} of host {number}"]
        if self.name in FIGURES:
            figures_of(self)
        if self.name not in ("coordinator", "plain"):
            case = self.case()
            found = [(one["id"], one["ranks"], one["text"].split("\n")[1]) for one in case["findings"]]
            wrong += [f"findings {found}"] if found and self.name != "job" else []
            error = case.get("error") or ""
            lost = f"the agent on h{self.victim or ''}" if self.name in ("agent", "cut", "both") else ""
            wrong += [] if lost in error else [f"the error is {error}"]
            print(f"  {codes} {error} {found or ''}", flush=True)
        return wrong + ([done] if wrong else [])


def run(given, case):
    calls = {"narrow": 800, "slow": 2}.get(case, given.calls)
    program = None if case in GLOO_CASES else [given.steady, str(calls), "0" if case == "rate" else "2000"]
    with tempfile.TemporaryDirectory() as folder, Hosts(folder, HOSTS) as hosts:
        os.environ["LD_LIBRARY_PATH"] = given.stand_in
        job = Disturbed(hosts, given.lockstep, case, given.ranks, program, calls)
        job.disturb()
        return job.judge()


def main():
    parser = argparse.ArgumentParser()
    for name in ("lockstep", "steady", "stand_in"):
        parser.add_argument(name)
    parser.add_argument("cases", nargs="+")
    for name, value in (("runs", 1), ("ranks", 16), ("load", 0), ("calls", 1500), ("seed", 1)):
        parser.add_argument(f"--{name}", type=int, default=value)
    given = parser.parse_args()
    if (why := can_make()) is not None:
        print(f"skipped: {why}")
        return SKIP
    busy = [subprocess.Popen(["nice", "sh", "-c", "while :; do :; done"]) for _ in range(given.load)]
    failed = 0
    try:
        for number in range(given.runs):
            for case in given.cases:
                random.seed(f"{given.seed} {case} {number}")
                wrong = run(given, case)
                failed += 1 if wrong else 0
                print(f"{case} {number}: {'ok' if not wrong else 'WRONG'}", *wrong, sep="\n" if wrong else " ", flush=True)
    finally:
        for process in busy:
            process.kill()
    return failed


if __name__ == "__main__":
    sys.exit(main())
