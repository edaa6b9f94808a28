"""An editor on C programs and scenarios: editor_c.py BUILD SOURCE LAUNCH

Four ranks of an MPI program: breakpoints in two ranks, variables of each, a step over a collective, the stop at a finding. A C program whose
ranks are threads, a scenario, a pause, and an editor that goes. Exit code 77: there is no gdb.
"""
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time

from editor import Editor

LOOP = """
#include <mpi.h>
int steps;
int main(int argc, char **argv) {
    int rank;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (;;) {
        steps += 1;
        MPI_Barrier(MPI_COMM_WORLD);
    }
}
"""


class Server:
    """`lockstep dap` with an editor that has launched a program with the settings of this name."""

    def __init__(self, build, launch, name, **settings):
        self.process = subprocess.Popen([os.path.join(build, "lockstep"), "dap"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.editor = Editor(self._send, lambda: os.read(self.process.stdout.fileno(), 1 << 16))
        with open(launch, encoding="utf-8") as file:
            known = next(one for one in json.load(file)["configurations"] if one["name"] == name)
        self.editor.ask("initialize", adapterID="lockstep")
        self.editor.until("initialized")
        self.editor.ask("launch", **{**known, **settings})

    def _send(self, data):
        self.process.stdin.write(data)
        self.process.stdin.flush()

    def breakpoints(self, path, *lines):
        made = self.editor.ask("setBreakpoints", source={"path": path}, breakpoints=[{"line": line, "condition": condition} for line, condition in lines])
        assert len(made["breakpoints"]) == len(lines)

    def stop(self):
        """The next stop: reasons by rank. Ranks that have not begun are not in it."""
        stops = self.editor.stops(1)
        while not any(reason in ("breakpoint", "step", "paused") or "." in reason.split()[0] for reason in stops.values()):
            stops.update(self.editor.stops(1))
        self.editor.ask("threads")  # the events of this stop have arrived with the answer
        stops.update({body["threadId"] - 1: body["description"] for body in
                      (one["body"] for one in self.editor.events if one["event"] == "stopped")})
        self.editor.events = [one for one in self.editor.events if one["event"] != "stopped"]
        return stops

    def end(self):
        self.editor.ask("disconnect")
        assert self.process.wait(timeout=60) == 0
        self.process.stdin.close()
        self.process.stdout.close()


def mpi(build, launch, ring, source):
    server = Server(build, launch, "MPI program", program=ring, args=["wrong"], cwd=os.path.dirname(ring))
    editor = server.editor
    server.breakpoints(source, (21, "rank == 1 || rank == 2"))
    editor.ask("configurationDone")
    for rank in (1, 2):
        stops = server.stop()
        assert stops[rank] == "breakpoint" and "waits in MPI_Allreduce" in stops[0], stops
        assert editor.top(rank)["line"] == 21 and editor.top(rank)["source"]["path"] == source, editor.top(rank)
        if rank == 1:
            editor.ask("continue", threadId=2)
    assert [editor.local(rank, "x")["value"] for rank in (0, 1, 2)] == ["{0, 1, 2, 3}", "{10, 2, 3, 4}", "{20, 3, 4, 5}"]
    x = editor.ask("variables", variablesReference=editor.local(2, "x")["variablesReference"])["variables"]
    assert [one["value"] for one in x] == ["20", "3", "4", "5"], x
    scope = editor.ask("scopes", frameId=editor.top(2)["id"])["scopes"][1]
    known = editor.ask("variables", variablesReference=scope["variablesReference"])["variables"]
    assert [one["value"] for one in known if one["name"] == "counter"] == ["2"], known
    frame = editor.top(1)["id"]
    assert editor.ask("evaluate", expression="x[0] * counter", frameId=frame, context="watch")["result"] == "10"
    assert "blocked  MPI_Allreduce" in editor.ask("evaluate", expression="ranks", frameId=frame, context="repl")["result"]
    assert "1 of 1 i32 differ" in editor.ask("evaluate", expression="diff-ranks counter 0 2", frameId=frame, context="repl")["result"]
    assert editor.ask("evaluate", expression="nothing", frameId=frame, context="watch", fails=True) == {}
    server.breakpoints(source)
    for line in (22, 23):  # the second is over the collective
        editor.ask("next", threadId=3)
        stops = server.stop()
        assert stops[2] == "step" and editor.top(2)["line"] == line, (stops, editor.top(2))
    assert editor.local(2, "sum")["value"].startswith("{60, "), editor.local(2, "sum")
    editor.ask("continue", threadId=3)
    stops = server.stop()
    assert stops[2] == "collective.count_mismatch" and all("waits in MPI_Allreduce" in stops[rank] for rank in (0, 1, 3)), stops
    assert [editor.top(rank)["line"] for rank in range(4)] == [22] * 4
    assert "member 2 reduces 3 elements" in editor.ask("exceptionInfo", threadId=3)["description"]
    editor.ask("continue", threadId=3)
    assert editor.until("exited")[0]["exitCode"] == 1
    editor.until("terminated")
    assert "step 0 sum 60" in editor.output and "mpi: 0 passed, 1 failed" in editor.output, editor.output
    server.end()


def threads(build, launch, source):
    server = Server(build, launch, "C program: ranks as threads", program=os.path.join(build, "examples/data_parallel"), cwd=build)
    server.breakpoints(os.path.join(source, "examples/data_parallel.c"), (28, "$rank() == 3"))
    server.editor.ask("configurationDone")
    stops = server.stop()
    assert stops[3] == "breakpoint" and server.editor.top(3)["name"] == "train", stops
    assert server.editor.local(3, "step")["value"] == "0"
    server.breakpoints(os.path.join(source, "examples/data_parallel.c"))
    server.editor.ask("continue", threadId=4)
    stops = server.stop()
    assert stops[1] == "replica.diverged" and server.editor.top(1)["line"] == 35, stops
    server.end()


def scenario(build, launch, source):
    path = os.path.join(source, "tests/gdb/gradients.yaml")
    server = Server(build, launch, "Scenario", program=path, cwd=source)
    server.editor.ask("configurationDone")
    stops = server.stop()
    assert stops[2] == "collective.op_mismatch", stops
    for rank in range(4):
        top = server.editor.top(rank)
        assert (top["name"], top["line"], top["source"]["path"]) == ("step gradients", 6, path), top
    assert "rank 2 .send: 1024 f32 = {0.5, " in server.editor.local(2, "gradients")["value"], server.editor.local(2, "gradients")
    server.end()


def paused(build, launch, program):
    server = Server(build, launch, "MPI program", program=program, args=[], cwd=os.path.dirname(program))
    server.editor.ask("configurationDone")
    time.sleep(0.5)
    server.breakpoints(program + ".c", (9, "rank == 3"))  # while the program runs
    assert server.stop()[3] == "breakpoint"
    server.breakpoints(program + ".c")
    server.editor.ask("continue", threadId=4)
    server.editor.ask("pause", threadId=1)
    assert "paused" in server.stop().values()
    before = int(server.editor.ask("evaluate", expression="steps", frameId=server.editor.top(0)["id"], context="watch")["result"])
    assert before > 0
    server.editor.ask("continue", threadId=1)
    server.end()


def left(mark):
    """Processes with the mark in their environment, but this one."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/environ", "rb") as file:
                found += [pid] if mark.encode() in file.read() and int(pid) != os.getpid() else []
        except OSError:
            continue
    return found


def main():
    build, source, launch = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2]), os.path.abspath(sys.argv[3])
    if shutil.which("gdb") is None:
        print("skipped: gdb is not installed")
        sys.exit(77)
    mark = f"editor-{os.getpid()}-{time.time_ns()}"
    os.environ["LOCKSTEP_TEST_MARK"] = mark
    with tempfile.TemporaryDirectory() as folder:
        os.environ["HOME"] = folder  # no .gdbinit
        programs = {}
        for name, path in (("ring", os.path.join(source, "tests/gdb/ring.c")), ("loop", os.path.join(folder, "loop.c"))):
            programs[name] = os.path.join(folder, name)
            if name == "loop":
                with open(path, "w", encoding="utf-8") as file:
                    file.write(LOOP)
            subprocess.run([os.path.join(build, "lockstep-cc"), "-g", "-O0", path, "-o", programs[name]], check=True)
        mpi(build, launch, programs["ring"], os.path.join(source, "tests/gdb/ring.c"))
        threads(build, launch, source)
        scenario(build, launch, source)
        paused(build, launch, programs["loop"])
    while left(mark):  # a process that has been killed takes a moment
        time.sleep(0.05)
    print("an editor drives the ranks of C programs and scenarios")


main()
