"""However a rank ends, the run reports it with its rank and line, writes all requested files and leaves no process or file behind. ends.py
BUILD SOURCES ROOT [NAME]
"""
import json
import os
import subprocess
import sys
import tempfile
import xml.etree.ElementTree

DIED, EARLY, INVALID = "rank.died", "rank.exited_early", "call.invalid"
# program, way, finding (None: correct), the words of its line after "line: "
CASES = tuple(
    ("mpi", way, DIED, "last") for way in (
        "fault", "abort", "abort_ignored", "fault_blocked", "fault_of_thread", "fault_in_library",
        "deep", "killed", "thread_exit", "pthread_exit")
) + tuple(
    ("mpi", way, DIED, way) for way in ("bad_send", "bad_recv", "bad_const", "bad_out")
) + tuple(
    ("mpi", way, EARLY, "last") for way in (
        "exit_group", "exec", "daemon", "exit", "quick_exit", "err", "errx", "error", "_Exit")
) + tuple(
    ("mpi", way, INVALID, way) for way in ("fork_calls", "atexit_calls")
) + tuple(
    ("mpi", way, None, None) for way in (
        "nothing", "fork_exits", "fork_exec", "fork_stays", "own_world", "atexit_finalises",
        "after_quick_exit", "after_errx", "after__exit", "after_exit", "closes_stream", "closes_file",
        "closes_all", "redirects")
) + (
    ("spmd", "fault", DIED, "last"),
    ("spmd", "abort", DIED, "last"),
    ("spmd", "exit_group", EARLY, "last"),
    ("spmd", "err", EARLY, "last"),
    ("spmd", "bad_send", DIED, "bad_send"),
    ("spmd", "bad_recv", DIED, "bad_recv"),
    ("spmd", "nothing", None, None),
    ("spmd", "chdir", None, None),
)


def line_of(source, words):
    for number, line in enumerate(open(source, encoding="utf-8"), 1):
        if line.rstrip().endswith("// line: " + words):
            number += line.strip().startswith("//")
            return f"{os.path.basename(source)}:{number}"
    raise AssertionError((source, words))


def build_all(build, sources, root, folder):
    subprocess.run([os.path.join(build, "lockstep-cc"), os.path.join(sources, "mpi.c"), "-o",
                    os.path.join(folder, "mpi")], check=True)
    subprocess.run(["cc", "-shared", "-fPIC", "-I", root, "-I", os.path.join(build, "made"),
                    os.path.join(sources, "spmd.c"), "-L", build, "-llockstep",
                    "-Wl,-rpath," + build, "-o",
                    os.path.join(folder, "spmd")], check=True)


def processes_of(folder):
    """Processes whose working folder is in this one."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            if os.readlink(f"/proc/{pid}/cwd").startswith(folder):
                found.append(pid)
        except OSError:
            pass
    return found


def wrong(build, sources, programs, case):
    """The deviation; None: none."""
    kind, way, finding, words = case
    with tempfile.TemporaryDirectory() as folder:
        folder = os.path.realpath(folder)
        tmp = os.path.join(folder, "tmp")
        os.mkdir(tmp)
        done = subprocess.run(
            [os.path.join(build, "lockstep"), kind, "--ranks" if kind == "spmd" else "-n", "3",
             "--json", "out.json", "--junit", "out.xml", os.path.join(programs, kind), "--", way],
            capture_output=True, text=True, cwd=folder, env={**os.environ, "TMPDIR": tmp})
        said = done.stdout + done.stderr
        if done.returncode != (0 if finding is None else 1):
            return f"exit code {done.returncode}\n{said}"
        with open(os.path.join(folder, "out.json"), encoding="utf-8") as file:
            found = json.load(file)["cases"][0]["findings"]
        xml.etree.ElementTree.parse(os.path.join(folder, "out.xml"))
        if os.listdir(tmp) or processes_of(folder):
            return f"left behind: {os.listdir(tmp)} {processes_of(folder)}"
        if way == "redirects" or way.startswith("closes_"):
            lines = ["rank 0 before", "rank 0 after", "rank 1 before", "rank 2 after"]
            if any(said.count(line) != 1 for line in lines) or " checked " not in said:
                return f"it does not print what it should: {said}"
        if way == "redirects":
            with open(os.path.join(folder, "redirected"), encoding="utf-8") as file:
                if file.read() != "rank 1 redirected\n":
                    return "not redirected"
        if way == "fork_stays" and "has left 1 process behind" not in said:
            return "it does not say that a process was left"
        if finding is None:
            return f"found {found}" if found else None
        place = line_of(os.path.join(sources, kind + ".c"), words)
        # The first rank that reaches a handler of its end is at fault.
        ranks = [0, 1, 2] if way == "atexit_calls" else [1]
        if not any(f["id"] == finding and set(f["ranks"]) <= set(ranks) and
                   f["where"].endswith(place) for f in found):
            return f"not {finding} of rank 1 at {place}: {found}"
    return None


def no_temporary_folder(build, programs):
    done = subprocess.run([os.path.join(build, "lockstep"), "mpi", "-n", "2",
                           os.path.join(programs, "mpi"), "--", "nothing"], capture_output=True,
                          text=True, env={**os.environ, "TMPDIR": "/nonexistent"})
    assert done.returncode == 3 and "/nonexistent" in done.stderr, done


def code_of_few_calls(build, programs):
    for way, code in (("no_call", 5), ("no_other_call", 0)):
        done = subprocess.run([os.path.join(build, "lockstep"), "mpi", "-n", "2",
                               os.path.join(programs, "mpi"), "--", way], capture_output=True,
                              text=True)
        assert done.returncode == code, (way, done)


def exhausted(build, sources, programs):
    for way, words in (("no_memory", "no memory for"), ("no_handles", "more than 524287 handles of one kind are in use")):
        done = subprocess.run([os.path.join(build, "lockstep"), "mpi", "-n", "2",
                               os.path.join(programs, "mpi"), "--", way], capture_output=True, text=True)
        place = line_of(os.path.join(sources, "mpi.c"), way)
        said = " ".join(done.stdout.split())
        assert done.returncode == 1 and f"{place}: rank 1: {words}" in said, (way, done)


def time_of_others(build, programs):
    """A rank with a share of a processor does not exceed its deadline before others do."""
    processor = min(os.sched_getaffinity(0))
    others = [subprocess.Popen([sys.executable, "-c", f"import os; os.sched_setaffinity(0, [{processor}])\n"
                                "while True: pass"]) for _ in range(3)]
    try:
        done = subprocess.run([os.path.join(build, "lockstep"), "mpi", "-n", "2", "--deadline", "1",
                               os.path.join(programs, "mpi"), "--", "computes"], capture_output=True,
                              text=True, preexec_fn=lambda: os.sched_setaffinity(0, [processor]))
    finally:
        for other in others:
            other.kill()
            other.wait()
    assert done.returncode == 0, done


def main():
    build, sources, root = (os.path.abspath(word) for word in sys.argv[1:4])
    only, bad = sys.argv[4:], []
    with tempfile.TemporaryDirectory() as programs:
        build_all(build, sources, root, programs)
        no_temporary_folder(build, programs)
        code_of_few_calls(build, programs)
        exhausted(build, sources, programs)
        time_of_others(build, programs)
        for case in CASES:
            if not only or case[1] in only:
                what = wrong(build, sources, programs, case)
                bad += [f"{case[0]} {case[1]}: {what}"] if what is not None else []
    print("\n".join(bad))
    print(f"{len(CASES)} ends, {len(bad)} not as they should be")
    assert not bad


main()
