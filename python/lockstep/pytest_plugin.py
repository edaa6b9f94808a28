"""pytest plugin: a test with `@pytest.mark.ranks(4)` or the fixture `ranks` runs once on each rank under `lockstep exec`.

After collection the session forks a process that runs no test itself. For each test it forks the ranks, and their parent becomes `lockstep
exec`. A rank sets up its own fixtures. Its reports are merged into one, with the findings. If the session may not fork, or with
--lockstep='--start exec', `lockstep exec` starts pytest on each rank for the test.
"""

import glob
import importlib
import json
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import tempfile

import pytest

REPORTS = "LOCKSTEP_PYTEST_REPORTS"  # the folder in which a started rank leaves its reports
MESSAGE_BYTES = 1 << 16
FORKS_MANY = 40
OF_PYTEST = re.compile(r"\s+\S*/(_pytest|pluggy|pytest|xdist|execnet)/\S+:\d+ |\s+<string>:\d+ <module>")
PHASES = ("setup", "call", "teardown")
_state = {"server": None, "reports": []}


def pytest_addoption(parser):
    group = parser.getgroup("lockstep", "tests on several ranks")
    group.addoption("--lockstep", metavar="OPTIONS", default="", help="options of lockstep exec, as in --lockstep='--deadline 60'")
    group.addoption("--lockstep-report", metavar="DIR", help="keep the JSON report of each test on ranks in DIR")


def pytest_configure(config):
    config.addinivalue_line("markers", "ranks(N, ...): run the test on N ranks under lockstep; with several N, once for each")


def _ranks(request):
    """The number of ranks that run this test."""
    return ranks_of(request.node)


ranks = pytest.fixture(name="ranks")(_ranks)


def _sizes(mark):
    sizes = [size for given in mark.args for size in (given if isinstance(given, (list, tuple)) else [given])]
    if not sizes or any(not isinstance(size, int) or size < 1 for size in sizes):
        raise pytest.UsageError(f"pytest.mark.ranks takes numbers of ranks, as in ranks(4), not {mark.args}")
    return sizes


def pytest_generate_tests(metafunc):
    mark = metafunc.definition.get_closest_marker("ranks")
    sizes = _sizes(mark) if mark else []
    if len(sizes) > 1:
        if "ranks" not in metafunc.fixturenames:
            metafunc.fixturenames.append("ranks")
        metafunc.parametrize("ranks", sizes, indirect=True, ids=[f"{size}ranks" for size in sizes])


def ranks_of(item):
    """The number of ranks of a test; None: a test without ranks."""
    mark = item.get_closest_marker("ranks")
    fixtures = getattr(getattr(item, "_fixtureinfo", None), "name2fixturedefs", {}).get("ranks")
    own = bool(fixtures) and getattr(fixtures[-1].func, "__module__", None) == __name__
    if mark is None and not own:
        return None
    given = getattr(getattr(item, "callspec", None), "params", {}).get("ranks")
    return given if given is not None else _sizes(mark)[0] if mark else 2


def under_exec():
    return "LOCKSTEP_EXEC" in os.environ


# ---- A rank -------------------------------------------------------------------------------------
def _write(config, folder, rank, reports):
    data = [config.hook.pytest_report_to_serializable(config=config, report=report) for report in reports]
    with open(f"{folder}/rank{rank}.part", "w", encoding="utf-8") as file:
        json.dump(data, file, default=str)
    os.rename(file.name, f"{folder}/rank{rank}.json")


def _redirect(config, folder, rank):
    """Separate output of this rank: pytest's capture shares its files with the parent process."""
    capture = config.pluginmanager.getplugin("capturemanager")
    if config.option.capture != "no":
        from _pytest.capture import MultiCapture

        capture._global_capturing = MultiCapture(in_=None, out=None, err=None)
        for number, name in (1, "stdout"), (2, "stderr"):
            file = os.open(f"{folder}/rank{rank}.{name}", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
            os.dup2(file, number)
            os.close(file)
    import faulthandler

    for number, name in (1, "stdout"), (2, "stderr"):
        setattr(sys, name, open(number, "w", buffering=1, closefd=False, encoding="utf-8", errors="backslashreplace"))
    if faulthandler.is_enabled():
        faulthandler.enable(sys.stderr)


def _be_rank(item, folder, rank, message, errors):
    from _pytest.runner import runtestprotocol

    import lockstep
    from lockstep import starting

    signal.signal(signal.SIGINT, signal.default_int_handler)
    library = starting.become(message, errors, "LD_PRELOAD")
    lockstep.hook_capture()
    code = 1
    try:
        _redirect(item.config, folder, rank)
        reports = runtestprotocol(item, log=False, nextitem=None)
        _write(item.config, folder, rank, reports)
        code = int(any(report.failed for report in reports))
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        library._exit(code)  # reports the end to the coordinator, which os._exit does not


# ---- The process that forks ---------------------------------------------------------------------
def _run(item, request):
    """Forks the ranks, and becomes lockstep exec."""
    from lockstep import starting

    folder, called = request["folder"], starting.fork_ranks(request["ranks"])
    if called is not None:
        _be_rank(item, folder, *called)
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    with open(f"{folder}/output", "wb", buffering=0) as file, open(os.devnull, "rb") as nothing:
        os.dup2(nothing.fileno(), 0)
        if request["quiet"]:
            os.dup2(file.fileno(), 1)
            os.dup2(file.fileno(), 2)
    os.execv(request["command"][0], request["command"])


def _serve(items, connection, parent):
    import gc

    import lockstep
    from lockstep import starting

    starting.end_with(parent)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the session ends this process
    lockstep.hook()  # a test may import torch itself
    if "torch.distributed" in sys.modules:
        importlib.import_module(starting.WATCHED)
    gc.freeze()
    if sum(ranks_of(item) or 0 for item in items) >= FORKS_MANY:
        starting.join_pages()
    while True:
        message = connection.recv(MESSAGE_BYTES)
        if not message:
            return
        request = json.loads(message)
        child = os.fork()
        if child == 0:
            connection.close()
            parent = os.getppid()
            starting.end_with(parent)
            _run(items[request["item"]], request)
        _, status = os.waitpid(child, 0)
        connection.send(str(os.WEXITSTATUS(status) if os.WIFEXITED(status) else -os.WTERMSIG(status)).encode())


class _Server:
    def __init__(self, items):
        self._numbers = {item: number for number, item in enumerate(items)}
        self._connection, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        sys.stdout.flush()
        sys.stderr.flush()
        parent = os.getpid()
        self._process = os.fork()
        if self._process == 0:
            try:
                self._connection.close()
                _serve(items, theirs, parent)
            finally:
                os._exit(0)
        theirs.close()

    def run(self, item, size, folder, command):
        """The exit code of lockstep exec."""
        request = {"item": self._numbers[item], "ranks": size, "folder": folder, "command": command,
                   "quiet": item.config.option.capture != "no"}
        self._connection.send(json.dumps(request).encode())
        return int(self._connection.recv(64) or 3)

    def end(self):
        self._connection.close()
        os.waitpid(self._process, 0)


def _may_fork():
    """Safe to fork: no native thread runs, which a fork would lose, and there is no GPU with NCCL loaded."""
    from lockstep import starting

    return starting.threads() <= len(sys._current_frames()) and not glob.glob("/dev/nvidia[0-9]*")


def pytest_collection_finish(session):
    wanted = [item for item in session.items if ranks_of(item)]
    if not wanted or under_exec() or session.config.option.collectonly:
        return
    if hasattr(session.config, "_tmp_path_factory"):
        session.config._tmp_path_factory.getbasetemp()  # created once: each rank would remove the others'
    started = "--start exec" in session.config.option.lockstep
    if not started and _may_fork():
        _state["server"] = _Server(session.items)


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session):
    if _state["server"] is not None:
        _state["server"].end()
        _state["server"] = None
    if REPORTS in os.environ and under_exec():
        _write(session.config, os.environ[REPORTS], int(os.environ["RANK"]), _state["reports"])


# ---- One report of all ranks --------------------------------------------------------------------
def _read_text(path):
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""


def _read_reports(config, folder, rank):
    """Reports by phase; empty: the rank ended before its test."""
    text = _read_text(f"{folder}/rank{rank}.json")
    reports = {}
    for data in json.loads(text) if text else []:
        report = config.hook.pytest_report_from_serializable(config=config, data=data)
        report.longrepr = tuple(report.longrepr) if isinstance(report.longrepr, list) else report.longrepr
        report.user_properties = [tuple(pair) for pair in report.user_properties]
        reports[report.when] = report
    return reports


def _named(ranks):
    return ("rank " if len(ranks) == 1 else "ranks ") + ", ".join(map(str, ranks))


def _problem(folder, code):
    """lockstep's findings as text, and whether there are others than the failure of a rank's test."""
    text = _read_text(f"{folder}/report.json")
    if not text:
        return _read_text(f"{folder}/output").strip() or f"lockstep exec ended with exit code {code}", True
    case = json.loads(text)["cases"][0]
    lines = []
    for finding in case.get("findings", []):
        lines.append(", ".join([finding["id"], *([_named(finding["ranks"])] if finding["ranks"] else []),
                                *(["at " + finding["where"]] if finding.get("where") else [])]))
        lines += ["  " + line for line in finding["text"].splitlines() if not OF_PYTEST.match(line)]
        lines.append("  explain: " + finding["explain"])
    if lines or code == 0:
        return "\n".join(lines), bool(lines)
    return case.get("error") or f"lockstep exec ended with exit code {code}", False


def _follows(report):
    """The failure is the error that lockstep's calls raise after a finding."""
    return report.failed and "lockstep: " in getattr(getattr(report.longrepr, "reprcrash", None), "message", "")


def _causes(reports):
    """The failures that are no consequence of a finding, each with its ranks."""
    by_text = {}
    for rank, report in reports.items():
        if report.failed and not _follows(report):
            by_text.setdefault(str(report.longrepr), []).append(rank)
    return [f"{_named(ranks)}: {_message(reports[ranks[0]])}\n{text}" for text, ranks in by_text.items()]


def _message(report):
    return getattr(getattr(report.longrepr, "reprcrash", None), "message", "").partition("\n")[0]


def _uneven(reports, size):
    skipped = [rank for rank, report in reports.items() if report.skipped and not hasattr(report, "wasxfail")]
    if not 0 < len(skipped) < size:
        return []
    return [f"{_named(skipped)} skipped the test, and the other ranks did not"]


def _merge(item, size, folder, code):
    """The reports of the test: that of its first failed phase has the findings."""
    by_rank = [_read_reports(item.config, folder, rank) for rank in range(size)]
    problem, stands = _problem(folder, code) if code not in (0, 5) else ("", False)
    missing = [rank for rank, reports in enumerate(by_rank) if not reports]
    phases = {phase: {rank: of[phase] for rank, of in enumerate(by_rank) if phase in of} for phase in PHASES}
    first = next((phase for phase, reports in phases.items()
                  if _uneven(reports, size) or any(report.failed for report in reports.values())), None)
    expected = any(hasattr(report, "wasxfail") for report in phases["call"].values())
    if first is None and (missing or (problem and not expected)):
        first = "call"
    merged = []
    for phase, reports in phases.items():
        failed = [report for report in reports.values() if report.failed]
        base = (failed or list(reports.values()) or [None])[0]
        texts = _causes(reports) + _uneven(reports, size)
        sections = [(f"{name} of rank {rank}", text) for rank, report in reports.items() if not _follows(report)
                    for name, text in report.sections]
        if phase == first:
            texts += [problem] * bool(problem and (stands or not texts))
            texts += [f"{_named(missing)} ended before the test did"] * bool(missing and not stands)
            base = base or pytest.TestReport(item.nodeid, item.location, dict.fromkeys(item.keywords, 1), "failed", None, phase)
        if base is None:
            continue
        if texts or base.failed:  # a failure without a text follows from the first phase's
            base.outcome, base.longrepr = ("failed", "\n\n".join(texts)) if texts else ("passed", None)
        base.sections = sections
        base.duration = max([report.duration for report in reports.values()], default=0)
        merged.append(base)
    outputs = [(f"Captured {name} of rank {rank}", text) for rank in range(size) for name in ("stdout", "stderr")
               for text in [_read_text(f"{folder}/rank{rank}.{name}")] if text]
    for report in [report for report in merged if report.when == (first or "call")]:
        report.sections = outputs + report.sections
    return merged


def _command(item, size, folder):
    from lockstep.__main__ import found

    config = item.config
    words = ["--rootdir", str(config.rootpath), *(["-c", str(config.inipath)] if config.inipath else [])]
    return [found(), "exec", "-n", str(size), "--start", "exec", "--json", f"{folder}/report.json",
            *shlex.split(config.option.lockstep), "--", sys.executable, "-m", "pytest", *words, item.nodeid]


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item, nextitem):
    size = ranks_of(item)
    if size is None or under_exec():
        return None
    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    with tempfile.TemporaryDirectory(prefix="lockstep-pytest-") as folder:
        command = _command(item, size, folder)
        if _state["server"] is not None:
            code = _state["server"].run(item, size, folder, command)
        else:
            with open(f"{folder}/output", "wb") as output:
                code = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, check=False,
                                      cwd=item.config.rootpath, env={**os.environ, REPORTS: folder}).returncode
        reports = _merge(item, size, folder, code)
        keep = item.config.option.lockstep_report
        if keep and os.path.exists(f"{folder}/report.json"):
            os.makedirs(keep, exist_ok=True)
            name = re.sub(r"[^\w.\[\]-]+", "_", item.nodeid)
            with open(os.path.join(keep, name + ".json"), "w", encoding="utf-8") as file:
                file.write(_read_text(f"{folder}/report.json"))
    for report in reports:
        item.ihook.pytest_runtest_logreport(report=report)
    item.session._setupstate.teardown_exact(nextitem)
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    return True


def pytest_runtest_setup(item):
    size = ranks_of(item) if under_exec() else None
    if size not in (None, int(os.environ.get("WORLD_SIZE") or 0)):
        pytest.skip(f"the test needs {size} ranks")


def pytest_runtest_logreport(report):
    if REPORTS in os.environ and under_exec():
        _state["reports"].append(report)
