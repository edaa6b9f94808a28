"""Kills and stops each process of a real run: processes.py PROGRAM.

In every case no process waits past the deadline. Afterwards no process of the run exists, TMPDIR is empty, and no shared memory of MPI
remains. A death or a stop by the environment is exit code 3, and never a pass of a run that is expected to hang.
"""
import json
import os
import signal
import subprocess
import sys
import tempfile
import time

PROGRAM = sys.argv[1]
LONG = 900  # seconds; only the end is asserted, no time
HEAD = "lockstep: 1\nname: processes\nmesh: {shape: [3]}\nprogram:\n  steps:\n"
BUSY = HEAD + "    - all_reduce: {count: 1000, dtype: f32}\n" * 2000
HANGS = HEAD + """    - all_reduce: {count: 8}
    - barrier: {except: [{ranks: [1, 2], skip: true}]}
expect: {finding: collective.extra_call, ranks: [0]}
"""
failures = []


def processes(folder):
    """Process id: (parent, command words) of those whose command names a file of the folder."""
    found = {}
    for name in os.listdir("/proc"):
        try:
            with open(f"/proc/{name}/cmdline", encoding="utf-8") as file:
                words = file.read().split("\0") if name.isdigit() else [""]
            if any(word.startswith(folder) for word in words) or "pmi_proxy" in words[0]:
                with open(f"/proc/{name}/stat", encoding="utf-8") as file:
                    found[int(name)] = (int(file.read().rsplit(")", 1)[1].split()[1]), words)
        except OSError:
            pass
    return found


class Run:
    """One run, with the roles of its processes."""

    def __init__(self, folder, command, scenario):
        self.folder = folder
        self.tmp = os.path.join(folder, "tmp")
        self.path = os.path.join(folder, "s.yaml")
        self.out = os.path.join(folder, "out")
        os.mkdir(self.tmp)
        with open(self.path, "w", encoding="utf-8") as file:
            file.write(scenario)
        self.shared = set(os.listdir("/dev/shm"))
        words = [PROGRAM, command[0], self.path, *command[1:], "--json", "-"]
        words += ["--out", self.out] if command[0] == "record" else []
        self.child = subprocess.Popen(words, env=dict(os.environ, TMPDIR=self.tmp), text=True,
                                      start_new_session=True, stdout=subprocess.PIPE,
                                      stderr=subprocess.PIPE)

    def who(self, role):
        """The process of that role, or None if it does not exist yet: each starts the next."""
        if role == "lockstep":
            return self.child.pid
        all_, parents = processes(self.folder), {self.child.pid}
        wanted = (("mpiexec", lambda words: words[0].rpartition("/")[2].startswith("mpiexec")),
                  ("proxy", lambda words: "pmi_proxy" in words[0]),
                  ("rank_reaper", lambda words: words[1:2] == ["rank"]),
                  ("rank", lambda words: words[1:2] == ["rank"]))
        if role == "reaper":  # started first, and it stays `lockstep`
            wanted = (("reaper", lambda words: words[0] == PROGRAM),)
        for kind, fits in wanted:
            parents = {pid for pid, (above, words) in all_.items()
                       if above in parents and fits(words)}
            if kind == role and parents:
                return min(parents)
        return None

    def announced(self):
        # Recordings are made beside their final path, in the folder above.
        return sum(name.endswith(".pid") for _, _, names in os.walk(os.path.dirname(self.tmp))
                   for name in names) >= 3


def strike(run, role, how):
    """Whether a process of that role got the signal. If one has just ended, the next gets it."""
    target = run.who(role)
    try:
        return target is not None and os.kill(target, how) is None
    except ProcessLookupError:
        return False


def until(what, seconds=LONG):
    end = time.monotonic() + seconds
    while not (got := what()):
        if time.monotonic() > end:
            return None
        time.sleep(0.002)
    return got


def trial(role, how, when, command=("record", "--backend", "mpi"), scenario=BUSY, codes=(3,),
          deadline=6):
    name = f"{how.name} of {role} {when}"
    with tempfile.TemporaryDirectory() as folder:
        run = Run(folder, (*command, "--deadline", str(deadline)), scenario)
        ended = lambda: run.child.poll() is not None
        if when == "in the middle":
            until(lambda: run.announced() or ended())
        if until(lambda: ended() or strike(run, role, how) and "struck") != "struck":
            told = run.child.communicate()
            if "had not ended after" in told[0] and 8 * deadline < LONG:
                # Its ranks took longer to start than the deadline here, on a busy machine.
                trial(role, how, when, command, scenario, codes, 8 * deadline)
            else:
                failures.append(f"{name}: the run ended before: {told}")
            return
        output, errors = run.child.communicate(timeout=LONG)
        code = run.child.returncode
        if code not in codes:
            failures.append(f"{name}: exit code {code}, not {codes}\n{output}{errors}")
        for what, left in (
                ("processes", lambda: [words for _, words in processes(folder).values()
                                       if "pmi_proxy" not in words[0]]),
                ("files", lambda: [n for n in os.listdir(run.tmp) + os.listdir(folder)
                                   if n not in ("tmp", "s.yaml", "out")]),
                ("shared memory", lambda: [n for n in set(os.listdir("/dev/shm")) - run.shared
                                           if n.startswith("mpich_shar_")])):
            if until(lambda: not left()) is None:
                failures.append(f"{name}: {what} left: {left()}")
        if role in ("proxy", "mpiexec") and how == signal.SIGKILL:
            case = json.loads(output)["cases"][0]
            if case["findings"] or "launcher" not in case["error"]:
                failures.append(f"{name}: {case}")


KILL, STOP = signal.SIGKILL, signal.SIGSTOP
ENDS = (KILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT)
for one in ENDS[1:]:
    signal.signal(one, signal.SIG_DFL)  # background jobs of a shell ignore some
for moment in ("at the start", "in the middle"):
    for victim in ("mpiexec", "proxy", "rank_reaper", "rank"):
        trial(victim, KILL, moment)
    for victim in ("mpiexec", "proxy", "rank"):
        # A watching process may be missing: ranks that can continue do.
        trial(victim, STOP, moment, codes=(3,) if victim == "rank" or "start" in moment else (0, 3))
    for victim in (KILL, STOP):
        trial("reaper", victim, moment, codes=(0, 3))
    for one in ENDS:
        trial("lockstep", one, moment, codes=(-one,))
for victim in ("mpiexec", "proxy", "rank_reaper", "rank"):
    trial(victim, STOP, "at the start", ("compare", "--real", "mpi"), HANGS)
print("\n".join(failures) or "nothing is left, whoever was killed or stopped")
sys.exit(1 if failures else 0)
