"""The debugger's agent in a rank: stops its threads and answers requests of the hub.

A thread stops in its trace function, in breakpoint(), or at an uncaught exception, and executes requests there. A rank that waits in a call
runs no Python code: another thread reads its frames. Invariant: without breakpoints and steps no trace function is set.
"""

import ctypes
import dis
import functools
import json
import os
import queue
import socket
import sys
import threading
import traceback

from lockstep.debugger import frames, values

ANY_LINE = 0
_PENDING = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)


class Mode:
    """The way a thread continues: `cont`, `step`, `next`, `until`, `finish`, or `pause`, which stops every thread at its next line."""

    def __init__(self, how="cont", frame=None, line=ANY_LINE):
        self.how, self.frame, self.line = how, frame, line


class Stop:
    """A stopped thread: its stack and its requests."""

    def __init__(self, reason, stack, ended=False):
        self.reason, self.stack, self.ended, self.tasks = reason, stack, ended, queue.SimpleQueue()


class Agent:
    def __init__(self, name, rank):
        self.rank, self.main = rank, threading.main_thread().ident
        self.stops, self.modes, self.breakpoints, self.functions = {}, {}, {}, {}
        self.entry = self.over = False
        self._here = threading.local()  # `evaluates`: the thread executes requests
        self.collective = None  # stops at the next matching call: {"kind": ..., "number": ...}
        self.waits = {}  # of a thread: the call that it waits for
        self._files, self._sending, self._armed = {}, threading.Lock(), _PENDING(self._arm_main)
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.connect("\0" + name)
        self.lines = self.socket.makefile("r", encoding="utf-8")
        self._send({"rank": rank, "pid": os.getpid(), "ranks": int(os.environ.get("WORLD_SIZE") or 0)})
        settings = json.loads(self.lines.readline() or "{}")
        self.entry = settings.get("entry", False)
        self._set_breakpoints(settings.get("breakpoints", []))
        threading.Thread(target=self._serve, name="lockstep debugger", daemon=True).start()
        os.register_at_fork(after_in_child=self._forget)
        self._install(settings.get("stops", True))

    def _install(self, stops):
        if stops:
            sys.breakpointhook = self.on_breakpoint
        self.stops_by_itself = stops
        self._hooks = sys.excepthook, threading.excepthook
        sys.excepthook, threading.excepthook = self._on_exception, self._on_thread_exception
        self._update_tracing()

    def _forget(self):
        """A child of this process is not a rank."""
        self.over, self.stops, self.modes, self.breakpoints = True, {}, {}, {}
        self.functions, self.entry = {}, False
        sys.settrace(None)
        threading.settrace(None)
        self.socket.close()
        sys.breakpointhook = lambda *_, **__: sys.stderr.write("lockstep: a breakpoint in a child process of a rank is ignored\n")

    # ---- The hub's requests ----
    def _send(self, message):
        try:
            with self._sending:
                self.socket.sendall(json.dumps(message).encode() + b"\n")
        except (OSError, ValueError):
            self.over = True

    def _serve(self):
        for line in self.lines:
            request = json.loads(line)
            task = getattr(self, "do_" + request["do"])
            if request["do"] in ("where", "resume", "breakpoints", "over"):
                self._answer(task, request)
                continue
            stop = self._focused()
            if stop is not None:
                stop.tasks.put(functools.partial(self._answer, task, request))
            else:  # it may never return
                threading.Thread(target=self._answer, args=(task, request), daemon=True).start()
        self.over = True
        self._let_go()

    def _answer(self, task, request):
        self._here.evaluates = True
        try:
            answer = task(request) or {}
        except BaseException as error:
            answer = {"error": "".join(traceback.format_exception_only(type(error), error)).strip()[:500]}
        finally:
            self._here.evaluates = False
        self._send({"id": request.get("id"), **answer})

    def _let_go(self):
        self.breakpoints, self.functions, self.entry, self.collective = {}, {}, False, None
        for stop in list(self.stops.values()):
            stop.tasks.put(None)

    def _focused(self):
        """The stopped thread of a request: the first thread if it has stopped."""
        return self.stops.get(self.main) or next(iter(self.stops.values()), None)

    def _thread(self):
        stop = self._focused()
        for thread, one in self.stops.items():
            if one is stop:
                return thread
        return next(iter(self.waits), self.main) if self.main not in self.waits else self.main

    def _stack(self):
        stop = self._focused()
        return stop.stack if stop is not None else frames.stack_of(frames.current(self._thread()))

    def _frame(self, request):
        own = frames.of_program(self._stack())
        return own[min(request.get("frame", 0), len(own) - 1)][0]

    def do_where(self, _request):
        stack, stop = self._stack(), self._focused()
        own = frames.of_program(stack)
        answer = {"state": "stopped" if stop is not None else "running", "frames": frames.told(own), "depth": len(own),
                  "inside": frames.library_of(stack), "in_torch": frames.innermost_waits(stack)}
        if stop is not None:
            answer["reason"] = stop.reason
        call = self.waits.get(self._thread())
        return {**answer, "call": call} if call else answer

    def do_eval(self, request):
        frame = self._frame(request)
        text = request["expression"]
        try:
            compile(text, "<debugger>", "eval")
        except SyntaxError:
            names = frame.f_locals
            exec(compile(text, "<debugger>", "exec"), frame.f_globals, names)
            _write_back(frame)
            return {"value": ""}
        return {"value": values.shown(_evaluate(text, frame), request.get("longest", 300))}

    def do_part(self, request):
        frame = self._frame(request)
        value = _evaluate(request["expression"], frame)
        return values.part(value, request.get("low", 0), request.get("high", -1), request.get("step", 0))

    def do_variables(self, request):
        """The frame's variables, or the parts of the variable at `path`."""
        frame = self._frame(request)
        found = list(frame.f_globals.items()) if request.get("globals") else values.names_of(frame)
        for at in request.get("path", []):
            found = values.children(found[at][1])
        return {"variables": [{"name": str(name), "value": values.shown(value), "type": type(value).__name__,
                               "children": len(values.children(value))} for name, value in found[:200]]}

    def do_dump(self, _request):
        own = frames.of_program(self._stack())[:64]
        told = frames.told(own)
        room = values.Room()
        for entry, (frame, _) in zip(told, own):
            entry["locals"] = {name: values.kept(value, room) for name, value in values.names_of(frame)[:200]}
            entry["source"] = _source(entry["file"], entry["line"])
        where = self.do_where({})
        return {"rank": self.rank, "pid": os.getpid(), "state": where["state"], "reason": where.get("reason", ""),
                "call": where.get("call", ""), "inside": where["inside"], "frames": told}

    def do_breakpoints(self, request):
        self._set_breakpoints(request["breakpoints"])
        self._update_tracing()
        if self.breakpoints or self.functions:
            self._interrupt()

    def do_over(self, _request):
        """The run has failed, and the hub has shown the reason. Later exceptions are consequences and are not shown."""
        self.over = True

    def do_resume(self, request):
        """Continues all threads of the rank. A first thread that has not stopped stops as requested when it can."""
        how, line = request["how"], request.get("line", ANY_LINE)
        self.collective = request.get("collective")
        stopped = dict(self.stops)
        for thread, stop in stopped.items():
            index = request.get("frame", 0)
            frame, at = frames.of_program(stop.stack)[index:][0]
            self.modes[thread] = Mode(how, frame, max(line - 1, at))
            self.stops.pop(thread, None)  # from here on it counts as running, even before it wakes up
            stop.tasks.put(None)
        if self.main in stopped:
            return
        if how == "cont" or stopped:
            self.modes[self.main] = Mode()
            self._interrupt()
        else:
            own = frames.of_program(frames.stack_of(frames.current(self.main)))
            self.modes[self.main] = Mode(how, own[0][0], max(line - 1, own[0][1]))
            self._interrupt()

    # ---- Tracing ----
    def _set_breakpoints(self, wanted):
        lines, functions = {}, {}
        for one in wanted:
            if one.get("function"):
                functions[one["function"]] = one
            else:
                lines.setdefault(one["line"], []).append(one)
        self.breakpoints, self.functions, self._files = lines, functions, {}

    def _update_tracing(self):
        wanted = self._trace if self.entry or self.breakpoints or self.functions else None
        threading.settrace(wanted)
        if threading.get_ident() == self.main:
            sys.settrace(wanted)

    def _interrupt(self):
        """Makes the first thread trace from its next line on."""
        ctypes.pythonapi.Py_AddPendingCall(self._armed, None)

    def _arm_main(self, _argument):
        if not self.stops and not self.over:
            self._arm(sys._getframe(1))
        return 0

    def _arm(self, frame):
        mode = self.modes.get(threading.get_ident())
        traces = self.breakpoints or self.functions or self.entry or (mode is not None and mode.how != "cont")
        sys.settrace(self._trace if traces else None)
        while frame is not None:
            frame.f_trace = self._local if traces and frames.owner(frame.f_code.co_filename) != frames.NOBODY else None
            frame = frame.f_back

    def _has_breakpoints(self, file):
        found = self._files.get(file)
        if found is None:
            found = self._files[file] = any(_same(one["file"], file) for of in self.breakpoints.values() for one in of)
        return found

    def _trace(self, frame, event, _argument):
        if event != "call" or self.over:
            return None
        code = frame.f_code
        if self.entry and frame.f_globals.get("__name__") == "__main__" and code.co_name == "<module>" and \
                frames.owner(code.co_filename) != frames.NOBODY:
            self.entry = False
            self.modes[threading.get_ident()] = Mode("step")
            return self._local
        mode = self.modes.get(threading.get_ident())
        how = mode.how if mode is not None else "cont"
        if how == "pause":
            return self._local if frames.owner(code.co_filename) != frames.NOBODY else None
        if self.functions and self._function_of(code) is not None:
            return self._local
        if how == "cont" and not self._has_breakpoints(code.co_filename):
            return None
        program = frames.owner(code.co_filename) == frames.PROGRAM
        return self._local if program or self._has_breakpoints(code.co_filename) else None

    def _function_of(self, code):
        name = getattr(code, "co_qualname", code.co_name).replace(".<locals>", "")
        return self.functions.get(name) or (self.functions.get(code.co_name) if frames.owner(code.co_filename) else None)

    def _local(self, frame, event, _argument):
        if self.over or self._evaluates():
            return None if self.over else self._local
        thread = threading.get_ident()
        mode = self.modes.get(thread) or Mode()
        if event == "return":
            if frame is mode.frame and mode.how in ("next", "step", "until", "finish"):
                caller = frames.program_caller(frame)
                self.modes[thread] = Mode("next", caller)
                if caller is None and thread != self.main:  # the thread ends: the thread that joins it continues the step
                    self.modes[self.main] = Mode("step")
                    self._interrupt()
            return self._local
        if event != "line":
            return self._local
        reason = self._reason(frame, mode)
        if reason is not None:
            self._stop(reason, frames.stack_of(frame))
            self._arm(frame)
        return self._local

    def _reason(self, frame, mode):
        line = frame.f_lineno
        for one in self.breakpoints.get(line, ()):
            if _same(one["file"], frame.f_code.co_filename) and self._holds(one, frame):
                return f"breakpoint {one['number']}"
        if self.functions and line == _first_line(frame.f_code):
            one = self._function_of(frame.f_code)
            if one is not None and self._holds(one, frame):
                return f"breakpoint {one['number']}"
        if mode.how == "pause":
            return "paused"
        program = frames.is_program(frame)
        if mode.how == "step" and program:
            return "step"
        if mode.how == "next" and frame is mode.frame:
            return "step"
        if mode.how == "until" and frame is mode.frame and line > mode.line:
            return "step"
        return None

    def _holds(self, one, frame):
        condition = one.get("condition")
        if one.get("ranks") and self.rank not in one["ranks"]:
            return False
        if not condition:
            return True
        self._here.evaluates = True
        try:
            return bool(_evaluate(condition, frame))
        except Exception:
            return True  # as in pdb: a condition that fails stops
        finally:
            self._here.evaluates = False

    def _evaluates(self):
        return getattr(self._here, "evaluates", False)

    # ---- Stopping ----
    def _stop(self, reason, stack, ended=False):
        """Waits here until the hub continues the thread."""
        thread = threading.get_ident()
        if self.over or thread in self.stops:
            return
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            except Exception:
                pass
        stop = self.stops[thread] = Stop(reason, stack, ended)
        self.modes.pop(thread, None)
        self.collective = None
        self._send({"stopped": reason, **self.do_where({})})
        while True:
            try:
                task = stop.tasks.get(timeout=5)  # with a time-out, since no lock may wait for another thread
            except queue.Empty:
                continue
            if task is None:
                break
            task()
        self.stops.pop(thread, None)

    def stop_here(self, reason, frame):
        if not self._evaluates():
            self._stop(reason, frames.stack_of(frame))
            self._arm(frame)

    def on_breakpoint(self, *_arguments, **_options):
        if os.environ.get("PYTHONBREAKPOINT") != "0":
            self.stop_here("breakpoint()", sys._getframe(1))

    def _on_exception(self, kind, error, trace):
        self._hooks[0](kind, error, trace)
        if not issubclass(kind, KeyboardInterrupt) and trace is not None:
            self._stop("".join(traceback.format_exception_only(kind, error)).strip().split("\n")[-1][:300],
                       frames.stack_of_trace(trace), ended=True)

    def _on_thread_exception(self, given):
        self._hooks[1](given)
        if given.exc_traceback is not None and not self._evaluates():
            self._stop(f"{given.exc_type.__name__}: {given.exc_value}"[:300], frames.stack_of_trace(given.exc_traceback), ended=True)

    # ---- Calls ----
    def before_call(self, what, kind, number, comm):
        """Called before a rank makes a call of a communicator."""
        wanted = self.collective
        if wanted is None or self.over:
            return
        fits = wanted.get("kind") in (None, kind) and wanted.get("number") in (None, number) and \
            (wanted.get("number") is None or comm == wanted.get("comm", "world"))
        if fits:
            self.stop_here(f"call {number}: {what}", sys._getframe(2))


def _evaluate(text, frame):
    """Evaluates with one scope, so that a comprehension sees the frame's variables."""
    return eval(text, {**frame.f_globals, **frame.f_locals})


def _write_back(frame):
    """Writes assigned variables back to the frame if Python stores them separately."""
    if sys.version_info < (3, 13):
        ctypes.pythonapi.PyFrame_LocalsToFast(ctypes.py_object(frame), ctypes.c_int(0))


@functools.lru_cache(maxsize=None)
def _first_line(code):
    after = [line for _, line in dis.findlinestarts(code) if line and line > code.co_firstlineno]
    return min(after) if after else code.co_firstlineno


@functools.lru_cache(maxsize=None)
def _same(wanted, file):
    """A breakpoint's file: the path, or a suffix of it."""
    return os.path.realpath(file) == os.path.realpath(wanted) or \
        ("/" not in wanted and os.path.basename(file) == wanted) or file.endswith("/" + wanted)


def _source(file, line):
    import linecache

    return [[at, linecache.getline(file, at).rstrip("\n")[:200]] for at in range(max(1, line - 5), line + 6)
            if linecache.getline(file, at)]
