"""Jobs on four hosts (namespaces.py) under a launcher: cluster.py LOCKSTEP MISTAKE... [--launchers torchrun,mpich,...] [--ranks N]
[--program FILE] [--checks CHECKS]

Each mistake of torch/bugs.py, or of another program, must have the finding of the same job on one host: id, ranks, line and exit code. Those
of SILENT have none: lockstep does not read the data under --observe. Without mistakes: all. A launcher that is not installed is left out.
cluster.py srun FOLDER TASKS COMMAND... replaces Slurm's.
"""
import argparse
import json
import os
import runpy
import shutil
import sys
import tempfile

from namespaces import Command, Hosts, can_make

HERE = os.path.dirname(os.path.abspath(__file__))
BUGS = runpy.run_path(f"{HERE}/torch/check.py")["BUGS"]
SKIP, HOSTS, PORT = 77, 4, "7000"
SILENT = ["none", "nan"]
MPIEXEC = {"mpich": "mpiexec.mpich", "openmpi": "mpiexec.openmpi"}
DEADLINE_S = {"stall": "100"}  # from the start, and a busy machine is slow to import torch
SECONDS = 900


class Job:
    """The coordinator and its agents. on: (host, options, command) for each `lockstep exec` that is started here."""

    def __init__(self, hosts, lockstep, options=()):
        self.hosts, self.folder = hosts, tempfile.mkdtemp(dir=hosts.folder)
        self.lockstep, self.options, self.processes = os.path.abspath(lockstep), list(options), []
        with open(os.open(f"{self.folder}/key", os.O_CREAT | os.O_WRONLY, 0o600), "w", encoding="utf-8") as file:
            file.write(os.urandom(32).hex())
        self.key = ["--key", f"{self.folder}/key"]
        self.join = [self.lockstep, "exec", "--observe", "--join", f"m0:{PORT}", *self.key, "--"]

    def start(self, number, command, environment=None, name=None):
        name = name or f"h{number}"
        out, err = (os.open(f"{self.folder}/{name}.{stream}", os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600) for stream in ("out", "err"))
        with open(os.devnull, encoding="utf-8") as nothing:
            self.processes.append(self.hosts.start(number, command, environment, (nothing.fileno(), out, err)))
        os.close(out)
        os.close(err)
        return self.processes[-1]

    def coordinate(self, agents, command, environment=None):
        return self.start(0, [self.lockstep, "exec", "--observe", "--listen", PORT, "--agents", str(agents), *self.key,
                              "--json", f"{self.folder}/report.json", *self.options, "--", *command], environment)

    def end(self):
        return [process.wait(SECONDS) for process in self.processes]

    def text(self, name):
        with open(f"{self.folder}/{name}", encoding="utf-8", errors="replace") as file:
            return file.read()

    def case(self):
        return case_of(f"{self.folder}/report.json")


def case_of(report):
    with open(report, encoding="utf-8") as file:
        read = json.load(file)
    return (read["cases"] or read["skips"])[0]


# ---- Launchers ----------------------------------------------------------------------------------
def environment_of(job):
    return dict(os.environ, MEET=f"{job.folder}/id", STAND_IN_GPUS="1", GLOO_SOCKET_IFNAME="job", MASTER_ADDR="h0", MASTER_PORT="29500", OMP_NUM_THREADS="1")


def torchrun(ranks, number):
    return [sys.executable, "-m", "torch.distributed.run", "--nnodes", str(HOSTS), "--node-rank", str(number),
            "--nproc-per-node", str(ranks // HOSTS), "--master-addr", "h0", "--master-port", "29500"]


def by_torchrun(job, ranks, program):
    job.coordinate(HOSTS - 1, [*torchrun(ranks, 0), *program], environment_of(job))
    for number in range(1, HOSTS):
        job.start(number, [*job.join, *torchrun(ranks, number), *program], environment_of(job))


def python(program):
    return [sys.executable, *program] if program[0].endswith(".py") else program


def by_mpich(job, ranks, program):
    names = ",".join(f"h{number}" for number in range(HOSTS))
    job.coordinate(ranks, [MPIEXEC["mpich"], "-launcher", "ssh", "-launcher-exec", job.hosts.ssh, "-hosts", names, "-ppn",
                           str(ranks // HOSTS), "-n", str(ranks), *job.join, *python(program)], environment_of(job))


def by_open_mpi(job, ranks, program):
    names = ",".join(f"h{number}:{ranks // HOSTS}" for number in range(HOSTS))
    job.coordinate(ranks, [MPIEXEC["openmpi"], "--allow-run-as-root", "--mca", "plm_rsh_agent", job.hosts.ssh, "--mca", "oob_tcp_if_include",
                           "job", "--host", names, "-n", str(ranks), *job.join, *python(program)], environment_of(job))


def by_srun(job, ranks, program):
    job.coordinate(ranks, [*srun(job.hosts.folder, ranks), *job.join, *python(program)], environment_of(job))


def by_srun_torchrun(job, ranks, program):
    """As users do: srun starts torchrun once on each host."""
    node = torchrun(ranks, "$SLURM_NODEID")
    job.coordinate(HOSTS, [*srun(job.hosts.folder, HOSTS), "sh", "-c", " ".join(f'"{word}"' for word in [*job.join, *node, *program])],
                   environment_of(job))


LAUNCHERS = {"torchrun": by_torchrun, "mpich": by_mpich, "openmpi": by_open_mpi, "srun": by_srun, "srun+torchrun": by_srun_torchrun}


def srun(folder, ranks):
    return [sys.executable, os.path.abspath(__file__), "srun", folder, str(ranks)]


def be_srun(folder, count, *command):
    """Starts the tasks as Slurm's does, in blocks, and ends with their largest exit code."""
    count, tasks = int(count), []
    here = count // HOSTS
    for task in range(count):
        number = task // here
        tasks.append(Command(folder, f"h{number}", command, {
            **os.environ, "SLURM_PROCID": str(task), "SLURM_LOCALID": str(task % here), "SLURM_NODEID": str(number), "SLURM_NTASKS": str(count),
            "SLURM_NPROCS": str(count), "SLURM_STEP_NUM_TASKS": str(count), "SLURM_NNODES": str(HOSTS), "SLURM_JOB_NUM_NODES": str(HOSTS),
            "SLURM_STEP_NUM_NODES": str(HOSTS), "SLURM_TASKS_PER_NODE": f"{here}(x{HOSTS})", "SLURM_JOB_ID": "7", "SLURM_STEP_ID": "0",
            "SLURM_NODELIST": f"h[0-{HOSTS - 1}]", "SLURM_JOB_NODELIST": f"h[0-{HOSTS - 1}]", "SLURMD_NODENAME": f"h{number}",
            "SLURM_GTIDS": ",".join(str(number * here + i) for i in range(here)), "SLURM_SUBMIT_HOST": "h0", "SLURM_LAUNCH_NODE_IPADDR": "10.77.0.1"}))
    return max(abs(task.wait()) for task in tasks)


# ---- Mistakes -----------------------------------------------------------------------------------
def found_in(code, case):
    first = (case.get("findings") or [{"id": "-", "ranks": [], "where": case.get("reason", "")}])[0]
    return code, first["id"], first["ranks"], os.path.basename(first["where"])


def on_one_host(hosts, lockstep, ranks, program, options):
    job = Job(hosts, lockstep, options)
    start = ["--start", "fork"] if program[0].endswith(".py") else []  # torch is imported once
    job.start(0, [job.lockstep, "exec", "--observe", "-n", str(ranks), *start, "--json", f"{job.folder}/report.json", *job.options, "--",
                  *python(program)], environment_of(job))
    return found_in(job.end()[0], job.case()), job


def on_many(hosts, lockstep, launcher, ranks, program, options):
    job = Job(hosts, lockstep, options)
    LAUNCHERS[launcher](job, ranks, program)
    return found_in(job.end()[0], job.case()), job


def main():
    if sys.argv[1:2] == ["srun"]:
        return be_srun(*sys.argv[2:])
    parser = argparse.ArgumentParser()
    parser.add_argument("lockstep")
    parser.add_argument("mistakes", nargs="*", default=list(BUGS))
    parser.add_argument("--launchers", default="torchrun,mpich,srun")
    parser.add_argument("--ranks", type=int, default=16)
    parser.add_argument("--program", default=f"{HERE}/torch/bugs.py")
    parser.add_argument("--checks")
    given = parser.parse_args()
    if (why := can_make()) is not None:
        print(f"skipped: {why}")
        return SKIP
    launchers = [name for name in given.launchers.split(",") if name not in MPIEXEC or shutil.which(MPIEXEC[name])]
    if not launchers:
        print("skipped: no launcher is installed")
        return SKIP
    wrong = 0
    for mistake in given.mistakes:
        options = ["--deadline", DEADLINE_S.get(mistake, "300"), *(["--checks", given.checks] if given.checks else [])]
        program = [given.program, mistake]
        with tempfile.TemporaryDirectory() as folder, Hosts(folder, HOSTS) as hosts:
            expected, job = on_one_host(hosts, given.lockstep, given.ranks, program, options)
            print(f"{mistake:11} {'one host':14} {expected}", flush=True)
            if (expected[1] == "-") != (mistake in SILENT):
                wrong += 1
                print(f"WRONG\n{job.text('h0.out')}\n{job.text('h0.err')}", flush=True)
            for launcher in launchers:
                found, job = on_many(hosts, given.lockstep, launcher, given.ranks, program, options)
                print(f"{'':11} {launcher:14} {found} {'same' if found == expected else 'WRONG'}", flush=True)
                if found != expected:
                    wrong += 1
                    for name in sorted(os.listdir(job.folder)):
                        if name.endswith((".out", ".err")):
                            print(f"--- {name}\n{job.text(name)[-3000:]}", flush=True)
    return wrong


if __name__ == "__main__":
    sys.exit(main())
