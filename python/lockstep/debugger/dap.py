"""The frontend for editors: the Debug Adapter Protocol on stdin and stdout, or on a port. A rank is a thread."""

import json
import os
import socket
import sys

from lockstep.debugger.gdb_hub import PROGRAM, GdbHub, command_of
from lockstep.debugger.hub import ENDED, STOPPED, Hub
from lockstep.debugger.prompt import Prompt

MESSAGE_BYTES = 16 << 20
COMMANDS = ("each", "diff", "ranks", "where", "list", "finding")  # commands of the prompt in an editor's console
CAPABILITIES = {"supportsConfigurationDoneRequest": True, "supportsFunctionBreakpoints": True, "supportsConditionalBreakpoints": True,
                "supportsEvaluateForHovers": True, "supportsExceptionInfoRequest": True, "supportsTerminateRequest": True,
                "supportsSingleThreadExecutionRequests": True, "supportsSetVariable": False}
MOVES = {"next": "next", "stepIn": "step", "stepOut": "finish"}


class Console(Prompt):
    """The prompt's commands; their output is the answer."""

    def __init__(self, hub, selected):
        super().__init__(hub)
        self.selected, self.lines = selected, []

    def say(self, *lines):
        self.lines += lines


class Refused(Exception):
    """A request that fails, with its message."""


class Adapter:
    def __init__(self, lockstep, reader, writer):
        self.lockstep, self._reader, self._writer = lockstep, reader, writer
        self.hub, self.launch, self.ended, self.unsettled = None, None, False, False
        self._sequence, self._queue, self._rest = 0, [], b""
        self._later = None  # a move: it begins when the editor has the answer, before any stop
        self._lines, self._functions, self._references, self._shown = {}, [], [], set()

    # ---- Messages ----
    def _send(self, message):
        self._sequence += 1
        body = json.dumps({"seq": self._sequence, **message}).encode()
        try:
            data = b"Content-Length: %d\r\n\r\n" % len(body) + body
            while data:
                data = data[os.write(self._writer, data):]
        except OSError:
            self.ended = True

    def event(self, name, **body):
        self._send({"type": "event", "event": name, "body": body})

    def _read(self, _file=None):
        data = os.read(self._reader, 1 << 16)
        if not data:
            self._queue.append({"command": "disconnect", "seq": 0})
            return
        self._rest += data
        while b"\r\n\r\n" in self._rest:
            head, rest = self._rest.split(b"\r\n\r\n", 1)
            lengths = [line.split(b":")[1] for line in head.split(b"\r\n") if line.lower().startswith(b"content-length")]
            length = int(lengths[0]) if lengths and lengths[0].strip().isdigit() else -1
            if not 0 <= length <= MESSAGE_BYTES:
                self._queue.append({"command": "disconnect", "seq": 0})
                return
            if len(rest) < length:
                return
            try:
                message = json.loads(rest[:length])
            except ValueError:
                message = {}
            self._rest = rest[length:]
            if message.get("type") == "request":
                self._queue.append(message)

    def run(self):
        while not self.ended:
            if self._queue:
                self._answer(self._queue.pop(0))
            elif self.hub is None:
                self._read()
            elif self.hub.over:
                self._finish()
            elif self.unsettled:
                self.hub.gather()
                self.unsettled = not self.hub.gathered and not self.hub.over
                if self.hub.gathered:
                    self._show_stops()
            else:
                self.hub.poll(0.5)
        return 0

    def _answer(self, request):
        answer = {"type": "response", "request_seq": request.get("seq", 0), "command": request.get("command", "")}
        do = getattr(self, "do_" + answer["command"], None)
        try:
            if do is None:
                raise Refused(f"lockstep has no {answer['command']}")
            body = do(request.get("arguments") or {})
            self._send({**answer, "success": True, "body": body or {}})
        except (Refused, KeyError, ValueError, TypeError, OSError) as error:
            self._send({**answer, "success": False, "message": str(error)})
        if answer["command"] == "initialize":
            self.event("initialized")
        later, self._later = self._later, None
        if later is not None:
            later()

    # ---- Start and end ----
    def do_initialize(self, _arguments):
        return CAPABILITIES

    def do_launch(self, arguments):
        program, module = arguments.get("program"), arguments.get("module")
        if not program and not module:
            raise Refused("launch needs program, the path of a Python script, of a C program or of a scenario, or module")
        own = command_of(self.lockstep, arguments)
        if own is not None:
            self.launch = arguments, own, GdbHub
            return
        python = arguments.get("python") or arguments.get("pythonPath") or "python3"
        words = [*(python if isinstance(python, list) else [python]), *(["-m", module] if module else [program])]
        given = arguments.get("args") or []
        words += given.split() if isinstance(given, str) else [str(word) for word in given]
        self.launch = arguments, [self.lockstep, "exec", "-n", str(int(arguments.get("ranks", 2))),
                                  *map(str, arguments.get("lockstepArgs") or []), "--", *words], Hub

    def do_attach(self, _arguments):
        raise Refused("lockstep starts the ranks: use launch")

    def do_configurationDone(self, _arguments):
        if self.launch is None:
            raise Refused("launch must come first")
        arguments, command, kind = self.launch
        environment = {name: str(value) for name, value in (arguments.get("env") or {}).items()}
        options = {"entry": bool(arguments.get("stopOnEntry")), "output": self._output, "cwd": arguments.get("cwd") or None,
                   "environment": environment}
        self.hub = Hub(command, **options) if kind is Hub else GdbHub(self.lockstep, command, **options)
        self.hub.breakpoints = self._breakpoints()
        self.hub.on_event = self._on_event
        self.hub.wanted = lambda: bool(self._queue)
        self.hub.watch(self._reader, self._read)
        self.unsettled = True

    def _output(self, text):
        self.event("output", category="stdout", output=text)

    def _finish(self):
        code = self.hub.finish()
        self.event("exited", exitCode=code)
        self.event("terminated")
        self.hub = None
        while not self.ended:  # the editor sends when to continue
            if self._queue:
                self._answer(self._queue.pop(0))
            else:
                self._read()

    def do_disconnect(self, _arguments):
        if self.hub is not None:
            self.hub.wanted = lambda: False
            self.hub.end()
        self.ended = True

    def do_terminate(self, _arguments):
        if self.hub is not None:
            self.hub.tell("quit")

    # ---- Breakpoints ----
    def _breakpoints(self):
        every = [one for of in self._lines.values() for one in of] + self._functions
        return [{**one, "number": at + 1} for at, one in enumerate(every)]

    def _set(self, made):
        if self.hub is not None:
            self.hub.set_breakpoints(self._breakpoints())
        return {"breakpoints": [{"verified": True, **({"line": one["line"]} if "line" in one else {})} for one in made]}

    def do_setBreakpoints(self, arguments):
        path = arguments["source"].get("path") or arguments["source"].get("name")
        made = self._lines[path] = [{"file": path, "line": int(one["line"]), "condition": one.get("condition", "")}
                                    for one in arguments.get("breakpoints") or []]
        return self._set(made)

    def do_setFunctionBreakpoints(self, arguments):
        self._functions = [{"function": one["name"], "condition": one.get("condition", "")} for one in arguments["breakpoints"]]
        return self._set(self._functions)

    def do_setExceptionBreakpoints(self, _arguments):
        return {}

    # ---- Stops ----
    def _on_event(self, rank, message):
        if rank is None:
            self.unsettled = True
            found = message["found"]
            self.event("output", category="important", output=f"finding {found['id']}\n{found['text']}\n")
        elif "joined" in message:
            self.event("thread", reason="started", threadId=rank.number + 1)
        elif "ended" in message:
            self.event("thread", reason="exited", threadId=rank.number + 1)
        elif "stopped" in message:
            self.unsettled = True
            self.hub.tell("hold")
            self._show(rank, rank.reason)

    def _show(self, rank, reason):
        self._shown.add(rank.number)
        kind = "step" if reason == "step" else "breakpoint" if "breakpoint" in reason else "pause" if reason == "paused" or reason.startswith("waits in") else \
            "goto" if reason.startswith("call ") else "exception"
        self.event("stopped", reason=kind, description=reason, text=reason, threadId=rank.number + 1, allThreadsStopped=False)

    def _show_stops(self):
        """Ranks that wait in a call count as stopped, too."""
        found = self.hub.found
        for rank in self.hub.living():
            if found is not None and not self.hub.released and rank.number in found["ranks"]:
                self._show(rank, found["id"])
            elif rank.number not in self._shown:
                self._show(rank, f"waits in {rank.call}" if rank.call else "paused")

    def do_exceptionInfo(self, arguments):
        rank, found = self._rank(arguments), self.hub.found
        name = found["id"] if found is not None else rank.reason.split(":")[0]
        return {"exceptionId": name, "description": found["text"] if found is not None else rank.reason, "breakMode": "unhandled"}

    # ---- Ranks ----
    def _rank(self, arguments):
        rank = self.hub.ranks.get(int(arguments["threadId"]) - 1) if self.hub is not None else None
        if rank is None or rank.state == ENDED:
            raise Refused("the rank has ended")
        return rank

    def do_threads(self, _arguments):
        living = self.hub.living() if self.hub is not None else []
        return {"threads": [{"id": rank.number + 1, "name": f"rank {rank.number}" if rank.number != PROGRAM else "program"} for rank in living]}

    def do_stackTrace(self, arguments):
        rank = self._rank(arguments)
        if rank.state != STOPPED:
            self.hub.look()
        low = int(arguments.get("startFrame") or 0)
        high = low + int(arguments.get("levels") or 64)
        return {"totalFrames": len(rank.frames), "stackFrames": [
            {"id": self._refer(rank.number, at, None, ()), "name": frame["function"], "line": frame["line"], "column": 1,
             "source": {"name": os.path.basename(frame["file"]), "path": frame["file"]}}
            for at, frame in enumerate(rank.frames)][low:high]}

    def _refer(self, *of):
        self._references.append(of)
        return len(self._references)

    def _of(self, reference):
        if not 0 < reference <= len(self._references):
            raise Refused("the frame no longer exists: its rank has moved")
        return self._references[reference - 1]

    def do_scopes(self, arguments):
        number, frame, _, _ = self._of(int(arguments["frameId"]))
        return {"scopes": [{"name": name, "variablesReference": self._refer(number, frame, whole, ()), "expensive": whole}
                           for name, whole in (("Locals", False), ("Globals", True))]}

    def _ask(self, number, frame, do, **options):
        rank = self._rank({"threadId": number + 1})
        answer = self.hub.ask([rank], do, frames={number: frame}, **options)[number]
        if "error" in answer:
            raise Refused(answer["error"])
        return answer

    def do_variables(self, arguments):
        number, frame, whole, path = self._of(int(arguments["variablesReference"]))
        found = self._ask(number, frame, "variables", path=list(path), globals=bool(whole))["variables"]
        return {"variables": [
            {"name": one["name"], "value": one["value"], "type": one["type"],
             "variablesReference": self._refer(number, frame, whole, (*path, at)) if one["children"] else 0}
            for at, one in enumerate(found)]}

    def do_evaluate(self, arguments):
        number, frame, _, _ = self._of(int(arguments["frameId"])) if arguments.get("frameId") else (0, 0, None, ())
        text = arguments["expression"].strip()
        if arguments.get("context") == "repl" and self.hub.threads:
            return {"result": self.hub.console(number, frame, text), "variablesReference": 0}
        if arguments.get("context") == "repl" and text.split(" ")[0] in COMMANDS:
            self.hub.ranks[number].frame = frame
            console = Console(self.hub, number)
            console.command(text)
            return {"result": "\n".join(console.lines), "variablesReference": 0}
        return {"result": self._ask(number, frame, "eval", expression=text, longest=2000)["value"], "variablesReference": 0}

    # ---- Going on ----
    def _resume(self, how, arguments):
        rank = self._rank(arguments)
        alone = bool(arguments.get("singleThread"))
        chosen = [rank] if alone else self.hub.living()
        self._references = []
        self._shown -= {one.number for one in chosen}
        self.unsettled = True

        def move():
            if not alone:
                self.event("continued", threadId=rank.number + 1, allThreadsContinued=True)
            self.hub.resume(how, [rank] if alone or self.hub.threads else None)

        self._later = move

    def do_continue(self, arguments):
        self._resume("cont", arguments)
        return {"allThreadsContinued": not arguments.get("singleThread")}

    def do_next(self, arguments):
        self._resume(MOVES["next"], arguments)

    def do_stepIn(self, arguments):
        self._resume(MOVES["stepIn"], arguments)

    def do_stepOut(self, arguments):
        self._resume(MOVES["stepOut"], arguments)

    def do_pause(self, _arguments):
        self.unsettled = True
        self.hub.interrupted = True


def serve(lockstep, port):
    """One session on stdin and stdout, or on a port of this machine; 0: a free one, which stderr names."""
    if port is None:
        return Adapter(lockstep, sys.stdin.fileno(), sys.stdout.fileno()).run()
    with socket.create_server(("127.0.0.1", port)) as listening:
        print(f"lockstep dap: listens on port {listening.getsockname()[1]}", file=sys.stderr, flush=True)
        connection, _ = listening.accept()
    with connection:
        return Adapter(lockstep, connection.fileno(), connection.fileno()).run()
