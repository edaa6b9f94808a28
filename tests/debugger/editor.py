"""An editor's side of the Debug Adapter Protocol, on four ranks: editor.py LOCKSTEP LAUNCH [torch].

Breakpoints in two ranks, variables of each, a step, an exception and the end; with torch a step over a collective, and the
stop at a finding.
"""
import json
import os
import re
import socket
import subprocess
import sys
import tempfile
import time

PLAIN = """
import os
rank = int(os.environ["RANK"])
class Model:
    def __init__(self):
        self.weights = [rank, rank + 1]
def work(model):
    total = sum(model.weights)
    return total
result = work(Model())
if rank == 3:
    raise KeyError("rank three")
"""
TORCH = """
import torch
import torch.distributed as dist
dist.init_process_group("gloo")
rank = dist.get_rank()
x = torch.full((4,), float(rank))
y = x + 1
dist.all_reduce(y)
z = y * 2
dist.all_reduce(z, op=dist.ReduceOp.MAX if rank == 2 else dist.ReduceOp.SUM)
"""


class Editor:
    def __init__(self, send, receive):
        self._send, self._receive, self._number, self._rest = send, receive, 0, b""
        self.events, self.output = [], ""

    def _read(self):
        while True:
            head = re.match(rb"Content-Length: (\d+)\r\n\r\n", self._rest)
            if head and len(self._rest) >= head.end() + int(head[1]):
                body = self._rest[head.end():head.end() + int(head[1])]
                self._rest = self._rest[head.end() + int(head[1]):]
                return json.loads(body)
            data = self._receive()
            assert data, f"the adapter has ended: {self.output}"
            self._rest += data

    def ask(self, command, fails=False, **arguments):
        self._number += 1
        body = json.dumps({"seq": self._number, "type": "request", "command": command, "arguments": arguments}).encode()
        self._send(b"Content-Length: %d\r\n\r\n" % len(body) + body)
        while True:
            message = self._read()
            if message["type"] == "response" and message["request_seq"] == self._number:
                assert message["success"] != fails, message
                return message.get("body", {})
            # An editor that has not heard that its ranks move takes their stop for an older one.
            assert message["event"] != "stopped" or command not in ("next", "stepIn", "stepOut", "continue"), (command, message)
            self._keep(message)

    def _keep(self, message):
        assert message["event"] != "continued" or all(one["event"] != "stopped" for one in self.events), (message, self.events)
        if message["event"] == "output":
            self.output += message["body"]["output"]
        self.events.append(message)

    def until(self, name, count=1):
        """The bodies of the next `count` events of the name."""
        while True:
            found = [one for one in self.events if one["event"] == name]
            if len(found) >= count:
                self.events = [one for one in self.events if one not in found[:count]]
                return [one["body"] for one in found[:count]]
            self._keep(self._read())

    def stops(self, count):
        """The reasons of the next stops, by rank."""
        return {body["threadId"] - 1: body["description"] for body in self.until("stopped", count)}

    def top(self, rank):
        return self.ask("stackTrace", threadId=rank + 1)["stackFrames"][0]

    def local(self, rank, name):
        scope = self.ask("scopes", frameId=self.top(rank)["id"])["scopes"][0]
        return next(one for one in self.ask("variables", variablesReference=scope["variablesReference"])["variables"] if one["name"] == name)


def begin(editor, script, breakpoints, ranks=4, **options):
    assert editor.ask("initialize", adapterID="lockstep")["supportsConfigurationDoneRequest"]
    editor.until("initialized")
    with open(sys.argv[2], encoding="utf-8") as file:
        settings = json.load(file)["configurations"][0]
    assert settings["ranks"] == 4 and settings["program"] == "${file}"
    settings.update(program=script, ranks=ranks, python=sys.executable, cwd=os.path.dirname(script), **options)
    editor.ask("launch", **settings)
    set_to = editor.ask("setBreakpoints", source={"path": script}, breakpoints=breakpoints)["breakpoints"]
    assert len(set_to) == len(breakpoints) and all(one["verified"] for one in set_to)
    editor.ask("configurationDone")


def plain(editor, script):
    begin(editor, script, [{"line": 8, "condition": "rank in (1, 2)"}, {"line": 10, "condition": "rank in (0, 3)"}])
    stops = editor.stops(4)
    assert all("breakpoint" in reason for reason in stops.values()), stops
    assert [thread["name"] for thread in editor.ask("threads")["threads"]] == [f"rank {number}" for number in range(4)]
    for rank in range(4):
        assert editor.top(rank)["line"] == (8 if rank in (1, 2) else 10), rank
    model = editor.local(2, "model")
    weights = editor.ask("variables", variablesReference=model["variablesReference"])["variables"][0]
    assert (weights["name"], weights["value"]) == ("weights", "[2, 3]"), weights
    frame = editor.top(1)["id"]
    assert editor.ask("evaluate", expression="model.weights[1] * 10", frameId=frame, context="watch")["result"] == "20"
    assert "NameError" in editor.ask("evaluate", fails=True, expression="nothing", frameId=frame, context="watch").get("error", "NameError")
    table = editor.ask("evaluate", expression="each rank", frameId=frame, context="repl")["result"]
    assert re.search(r"0 +0\n.* 1 +1\n.* 2 +2\n.* 3 +3", table), table
    editor.ask("next", threadId=2, singleThread=True)
    assert editor.stops(1) == {1: "step"} and editor.top(1)["line"] == 9 and editor.top(2)["line"] == 8
    assert editor.local(1, "total")["value"] == "3"
    editor.ask("continue", threadId=1)
    (rank, reason), = editor.stops(1).items()
    assert rank == 3 and "rank three" in reason, (rank, reason)
    assert "rank three" in editor.ask("exceptionInfo", threadId=4)["description"]
    editor.ask("continue", threadId=4)
    assert editor.until("exited")[0]["exitCode"] == 3
    editor.until("terminated")
    assert "KeyError: 'rank three'" in editor.output, editor.output
    editor.ask("disconnect")


def torch(editor, script):
    begin(editor, script, [{"line": 8}], lockstepArgs=["--start", "fork"])
    editor.stops(4)
    assert editor.local(3, "x")["value"].startswith("float32 [4]: 3"), editor.local(3, "x")
    editor.ask("next", threadId=1)  # over the all_reduce, on all ranks
    assert editor.stops(4) == dict.fromkeys(range(4), "step")
    assert [editor.top(rank)["line"] for rank in range(4)] == [9] * 4
    assert editor.local(1, "y")["value"].startswith("float32 [4]: 10"), editor.local(1, "y")
    editor.ask("continue", threadId=1)
    stops = editor.stops(4)
    assert stops[2] == "collective.op_mismatch" and all("waits in all_reduce" in stops[rank] for rank in (0, 1, 3)), stops
    assert [editor.top(rank)["line"] for rank in range(4)] == [10] * 4
    assert "rank 2 says max" in editor.ask("exceptionInfo", threadId=3)["description"]
    editor.ask("disconnect")


def over_pipes(lockstep, session, script):
    process = subprocess.Popen([lockstep, "dap"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def send(data):
        process.stdin.write(data)
        process.stdin.flush()

    session(Editor(send, lambda: os.read(process.stdout.fileno(), 1 << 16)), script)
    assert process.wait(timeout=60) == 0
    process.stdin.close()
    process.stdout.close()


def over_port(lockstep, script):
    """A port, the stop at the first line, a pause, and an editor that disconnects: no process remains."""
    process = subprocess.Popen([lockstep, "dap", "--port", "0"], stderr=subprocess.PIPE, text=True)
    port = int(re.search(r"port (\d+)", process.stderr.readline())[1])
    with socket.create_connection(("127.0.0.1", port)) as connection:
        editor = Editor(connection.sendall, lambda: connection.recv(1 << 16))
        begin(editor, script, [], ranks=2, stopOnEntry=True)
        editor.stops(2)
        editor.ask("nothing", fails=True)
        editor.ask("continue", threadId=1)
        time.sleep(0.5)
        editor.ask("pause", threadId=1)
        editor.stops(2)
        assert editor.top(1)["name"] == "<module>"
    assert process.wait(timeout=60) == 0
    process.stderr.close()


def main():
    lockstep = os.path.abspath(sys.argv[1])
    with tempfile.TemporaryDirectory() as folder:
        paths = {}
        for name, text in {"plain": PLAIN, "torch": TORCH, "loop": "import time\nwhile True:\n    time.sleep(0.01)\n"}.items():
            paths[name] = os.path.join(folder, name + "_ranks.py")
            with open(paths[name], "w", encoding="utf-8") as file:
                file.write(text)
        if "torch" in sys.argv:
            over_pipes(lockstep, torch, paths["torch"])
        else:
            over_pipes(lockstep, plain, paths["plain"])
            over_port(lockstep, paths["loop"])
    print("an editor drives the ranks")
    return 0


if __name__ == "__main__":
    sys.exit(main())
