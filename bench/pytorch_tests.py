#!/usr/bin/env python3
"""Runs test files of PyTorch's or TorchRec's own, as they are, over the backend `lockstep` and over gloo, and says
where the two differ.

    bench/pytorch_tests.py FILE... [--build build] [--on lockstep gloo] [--only TEXT] [--seconds 90] [--out FILE.json]

FILE is a test file that is to be had beside torch, or the name of an installed module with a backend's tests
(torch.testing._internal.distributed.distributed_test). Nothing of it is kept. Each test runs in a process of its own,
forked from one that has loaded torch and the file; its ranks are forked from that, and `lockstep exec` wraps each test.
"""
import argparse
import collections
import importlib
import importlib.util
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import traceback
import unittest
import unittest.mock

BACKEND_TESTS = "torch.testing._internal.distributed.distributed_test"


def direct_groups():
    """Tests that make a gloo group by its class get lockstep's."""
    import torch.distributed as dist
    from lockstep import torch_backend

    gloo = dist.ProcessGroupGloo

    class Made:
        _Options, Options = gloo._Options, getattr(gloo, "Options", None)
        create_device, create_default_device = gloo.create_device, gloo.create_default_device

        def __new__(cls, store, rank, size, *_, **__):
            return torch_backend.ProcessGroup(rank, size)

    torch_backend.ProcessGroup.create_device = gloo.create_device  # tests ask a group for it, and drop what it gives
    dist.ProcessGroupGloo = dist.distributed_c10d.ProcessGroupGloo = Made


def fork_ranks():
    """Ranks are forked, not spawned: they have loaded all that they need."""
    import torch
    from torch.testing._internal import common_distributed as common

    def start(self):
        self._start_processes(torch.multiprocessing.get_context("fork").Process)

    common.MultiProcessTestCase._spawn_processes = start
    spawn, get_context = torch.multiprocessing.spawn, torch.multiprocessing.get_context
    import multiprocessing

    for module in (torch.multiprocessing, multiprocessing):
        module.get_context = lambda method=None: get_context("fork" if method in ("spawn", "forkserver") else method)
    torch.multiprocessing.spawn = lambda fn, args=(), nprocs=1, join=True, daemon=False, start_method="fork": \
        torch.multiprocessing.start_processes(fn, args, nprocs, join, daemon, start_method="fork") if spawn else None


def one_example():
    """Of a property one example, the same on both backends: each has its own ranks, of which a job has one set."""
    try:
        import hypothesis
    except ImportError:
        return
    settings = hypothesis.settings

    class Settings(settings):
        def __init__(self, *arguments, **options):
            super().__init__(*arguments, **{**options, "max_examples": 1, "derandomize": True, "deadline": None})

    hypothesis.settings = Settings


def load(path, shapes, absent):
    for name in absent:  # of another version of torch, and imported for tests that are not these
        old, _, new = name.partition("=")
        sys.modules[old] = importlib.import_module(new) if new else unittest.mock.MagicMock()
    if path.endswith(".py"):
        folder = os.path.dirname(os.path.abspath(path))
        sys.path[:0] = [folder, os.path.dirname(folder)]
        if folder.endswith("/torchrec/distributed/tests"):  # its neighbours, which are not installed
            importlib.import_module("torchrec.distributed").__path__.append(os.path.dirname(folder))
        name = os.path.basename(path)[:-3]
        spec = importlib.util.spec_from_file_location(name, path)
        module = sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module
    module = importlib.import_module(path)
    if path == BACKEND_TESTS:  # a base of tests, which a class of its user's runs

        class TestBackend(module.TestDistBackend, module.DistributedTest._DistTestBase):
            def setUp(self):
                super().setUp()
                self._spawn_processes()

        module.TestBackend, module.DistributedTest = TestBackend, None
        if not shapes:
            module.PROFILING_SUPPORTED_BACKENDS.remove("gloo")
        TestBackend.__module__ = path
        TestBackend.__qualname__ = "TestBackend"
    return module


def cases(suite):
    for test in suite:
        if isinstance(test, unittest.TestSuite):
            yield from cases(test)
        elif not type(test).__name__.startswith("_"):
            yield test


class Exec:
    """A `lockstep exec` around a program that waits until the test is over; the test's ranks connect to it."""

    def __init__(self, build, folder):
        self.report = os.path.join(folder, "report.json")
        down, up = os.path.join(folder, "down"), os.path.join(folder, "up")
        os.mkfifo(down)
        os.mkfifo(up)
        environment = {key: value for key, value in os.environ.items() if key not in ("LD_PRELOAD", "RANK")}
        self._child = subprocess.Popen(
            [os.path.join(build, "lockstep"), "exec", "--json", self.report, "--", "/bin/sh", "-c",
             f'echo "$LOCKSTEP_EXEC" > {up}; read -r _ < {down}'], env=environment, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL)
        with open(up, encoding="utf-8") as file:
            self.socket = file.read().strip()
        self._down = down

    def end(self):
        if self._child.poll() is None:
            try:
                pipe = os.open(self._down, os.O_WRONLY | os.O_NONBLOCK)
                os.write(pipe, b"\n")
                os.close(pipe)
            except OSError:  # a finding has ended it
                pass
        try:
            self._child.wait(20)
        except subprocess.TimeoutExpired:
            self._child.kill()
            self._child.wait()
        try:
            with open(self.report, encoding="utf-8") as file:
                case = json.load(file)["cases"][0]
        except (OSError, ValueError, LookupError):
            return [], 0
        return [f'{found["id"]}: {found["text"]}' for found in case.get("findings", [])], sum(row["calls"] for row in case.get("calls", []))


def environment_of(folder, backend, wrap):
    os.environ.update(BACKEND="gloo", WORLD_SIZE="3", TEMP_DIR=folder, OMP_NUM_THREADS="1",
                      INIT_METHOD=f"file://{folder}/init", MASTER_ADDR="127.0.0.1", MASTER_PORT="0")
    for name in ("barrier", "test_dir", "init_dir"):
        os.makedirs(os.path.join(folder, name), exist_ok=True)
    if backend == "lockstep":
        os.environ["LOCKSTEP_EXEC"], os.environ["LOCKSTEP_EXEC_SIMULATED"] = wrap.socket, "1"


def run_test(test, pipe, folder, backend, wrap):
    """In a process of its own; what came of it goes to the pipe."""
    os.setsid()
    log = os.open(os.path.join(folder, "log"), os.O_WRONLY | os.O_CREAT)
    os.dup2(log, 1)
    os.dup2(log, 2)
    environment_of(folder, backend, wrap)
    outcome, text = "fail", ""
    try:
        result = unittest.TestResult()
        unittest.TestSuite([test]).run(result)
        bad = result.failures + result.errors
        if bad or result.unexpectedSuccesses:
            text = bad[0][1] if bad else "an unexpected success"
        elif result.skipped:
            outcome, text = "skip", result.skipped[0][1]
        else:
            outcome = "pass"
    except BaseException:
        text = traceback.format_exc()
    os.write(pipe, json.dumps([outcome, text[-3000:]]).encode())
    os._exit(0)


def one(test, backend, arguments):
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        wrap = Exec(arguments.build, folder) if backend == "lockstep" else None
        mine, its = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(mine)
            run_test(test, its, folder, backend, wrap)
        os.close(its)
        ready, _, _ = select.select([mine], [], [], arguments.seconds)
        said = os.read(mine, 1 << 16) if ready else b""
        os.close(mine)
        try:
            os.killpg(child, signal.SIGKILL)
        except ProcessLookupError:
            pass
        os.waitpid(child, 0)
        findings, calls = wrap.end() if wrap is not None else ([], None)
        outcome, text = json.loads(said) if said else ("hang" if not ready else "fail", "it ended without a word")
        with open(os.path.join(folder, "log"), encoding="utf-8", errors="replace") as file:
            log = file.read()
        return {"outcome": outcome, "text": text if outcome == "skip" else (text + "\n" + log)[-6000:], "findings": findings, "calls": calls}


def serve(path, backend, arguments):
    """Of each test a line of JSON."""
    os.environ.update(BACKEND="gloo", WORLD_SIZE="3", TEMP_DIR=tempfile.gettempdir(), OMP_NUM_THREADS="1")
    os.environ.setdefault("INIT_METHOD", "file:///nowhere")
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    import torch

    torch.set_num_threads(1)
    if backend == "lockstep":
        os.environ["LOCKSTEP_EXEC"] = "none"
        import lockstep

        importlib.import_module("torch.distributed")
        lockstep.install()
        direct_groups()
    one_example()
    module = load(path, arguments.shapes or backend != "lockstep", arguments.absent)
    fork_ranks()
    for test in cases(unittest.defaultTestLoader.loadTestsFromModule(module)):
        name = ".".join(test.id().split(".")[-2:])
        if arguments.only is None or any(text in name for text in arguments.only):
            print(json.dumps({"test": name, **one(test, backend, arguments)}), file=out, flush=True)
    os._exit(0)


def tried(path, backend, arguments):
    environment = dict(os.environ, PYTHONPATH=os.pathsep.join(
        [os.path.join(arguments.build, "python"), os.environ.get("PYTHONPATH", "")]))
    if backend == "lockstep":
        environment["LD_PRELOAD"] = os.path.join(arguments.build, "liblockstep-nccl-front.so")
    command = [sys.executable, __file__, path, "--serve", backend, "--build", arguments.build, "--seconds",
               str(arguments.seconds), *(["--shapes"] if arguments.shapes else []),
               "--absent", *arguments.absent] + [word for text in arguments.only or [] for word in ("--only", text)]
    found = {}
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as child:
        for line in child.stdout:
            row = json.loads(line)
            found[row.pop("test")] = row
            ids = " ".join(text.split(":")[0] for text in row["findings"])
            print(f"{backend:8} {row['outcome']:4} {list(found)[-1]} {ids}", file=sys.stderr, flush=True)
    return found


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("files", nargs="+")
    parser.add_argument("--build", default="build", type=os.path.abspath)
    parser.add_argument("--on", nargs="+", default=["lockstep", "gloo"])
    parser.add_argument("--only", action="append")
    parser.add_argument("--seconds", type=float, default=90)
    parser.add_argument("--out")
    parser.add_argument("--absent", nargs="*", default=[], metavar="MODULE[=NEW]",
                        help="modules that FILE imports and this torch has not, or has under another name")
    parser.add_argument("--shapes", action="store_true", help="lockstep's events in profiles are to have shapes, too")
    parser.add_argument("--serve")
    arguments = parser.parse_args()
    if arguments.serve:
        return serve(arguments.files[0], arguments.serve, arguments)
    whole = {}
    for path in arguments.files:
        both = {backend: tried(path, backend, arguments) for backend in arguments.on}
        whole[path] = both
        for backend, found in both.items():
            counts = collections.Counter(row["outcome"] for row in found.values())
            reached = sum(1 for row in found.values() if row["calls"])
            print(f"{os.path.basename(path)} on {backend}: " + ", ".join(f"{counts[o]} {o}" for o in ("pass", "fail", "hang", "skip")) +
                  (f"; {reached} made calls" if backend == "lockstep" else ""))
        if len(both) == 2:
            ours, theirs = both.values()
            for name, row in theirs.items():
                if row["outcome"] == "pass" and ours.get(name, {}).get("outcome") != "pass":
                    print(f"  passes on {arguments.on[1]} alone: {name}")
    if arguments.out:
        with open(arguments.out, "w", encoding="utf-8") as file:
            json.dump(whole, file, indent=1)
    return 0


if __name__ == "__main__":
    sys.exit(main())
