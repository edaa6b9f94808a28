"""pytest with lockstep's plugin: plugin.py LOCKSTEP CASE. The tests are in plugin/."""
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ET

HERE = os.path.dirname(os.path.abspath(__file__))
PASSED = {"passed": 15, "skipped": 1, "xfailed": 1}
WRONG = {  # test: texts of its failure, in this order
    "test_op": ["collective.op_mismatch, rank 2, at ", "rank 2 says max", "explain: lockstep explain collective.op_mismatch"],
    "test_hang": ["deadlock.", "rank 1", "test_bad.py:"],
    "test_raises": ["rank 1: ValueError: no such table", "raise ValueError", "rank.exited_early, rank 1"],
    "test_asserts": ["rank 1: assert 1 < 1", "rank 2: assert 2 < 1"],
    "test_exits": ["rank.exited_early, rank 1", "status 3"],
    "test_exits_alone": ["rank 1"],
    "test_exits_quietly": ["rank 1 ended before the test did"],
    "test_crashes": ["rank.died, rank 1", "signal 11"],
    "test_skips": ["rank 1 skipped the test, and the other ranks did not"],
    "test_fixture": ["rank 1: OSError: no file", "rank.exited_early, rank 1"],
}


def run(lockstep, words, code):
    """The output, the numbers of its last line, and the failures of the tests by their names."""
    build = os.path.dirname(os.path.abspath(lockstep))
    path = [os.path.join(build, "python"), *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
    environment = {**os.environ, "PATH": build + os.pathsep + os.environ["PATH"], "PYTHONPATH": os.pathsep.join(filter(None, path))}
    environment.pop("PYTEST_ADDOPTS", None)
    done = subprocess.run([sys.executable, "-m", "pytest", "-p", "lockstep.pytest_plugin", "-p", "no:cacheprovider", "-rA",
                           "--junitxml=junit.xml", *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          env=environment, check=False)
    if done.returncode != code:
        sys.exit(f"{words}: exit code {done.returncode}, not {code}\n{done.stdout}")
    counts = {name: int(number) for number, name in re.findall(r"(\d+) (passed|failed|errors?|skipped|xfailed)", done.stdout.splitlines()[-1])}
    failures = {}
    for case in ET.parse("junit.xml").iter("testcase"):
        for at in list(case.iter("failure")) + list(case.iter("error")):
            failures.setdefault(case.get("name"), []).append(at.text)
    return done.stdout, counts, failures


def holds(text, parts, name):
    at = 0
    for part in parts:
        at = text.find(part, at)
        assert at >= 0, f"{name} has no {part!r} behind what comes before it:\n{text}"


def holds_all(failures, *names):
    for name in names:
        holds(failures[name][0], WRONG[name], name)


def good(lockstep, words=()):
    output, counts, failures = run(lockstep, ["test_good.py", *words], 0)
    assert counts == PASSED and not failures, output
    assert all(f"rank {rank} prints" in output for rank in range(4)), output


def bad(lockstep):
    output, counts, failures = run(lockstep, ["test_bad.py"], 1)
    assert sorted(failures) == sorted(WRONG) and counts == {"failed": len(WRONG) - 1, "error": 1}, output
    for name, parts in WRONG.items():
        assert len(failures[name]) == 1, (name, failures[name])
        holds(failures[name][0], parts, name)
        for framework in "/pluggy/", "/_pytest/", "/torch/":
            assert framework not in failures[name][0], failures[name][0]
    holds(output, ["test_raises", "Captured stdout of rank 1", "rank 1 prints"], "the output")
    assert "ended with exit code 1" not in failures["test_asserts"][0], failures["test_asserts"]


def options(lockstep):
    """-x, -k, selections without tests on ranks, lockstep's own options, and the reports."""
    _, counts, _ = run(lockstep, ["-x", "test_bad.py"], 1)
    assert counts == {"failed": 1}, counts
    _, counts, _ = run(lockstep, ["-k", "test_before or test_after", "."], 0)
    assert counts == {"passed": 2}, counts
    _, counts, failures = run(lockstep, ["--lockstep-report", "reports", "--lockstep=--checks all", "-k", "op or no_calls", "."], 1)
    assert counts == {"failed": 1, "passed": 1}, counts
    kept = {}
    for name in os.listdir("reports"):
        with open(f"reports/{name}", encoding="utf-8") as file:
            kept[name] = json.load(file)["cases"]
    assert sorted(kept) == ["test_bad.py_test_op.json", "test_good.py_test_no_calls.json"], kept
    case, = kept["test_bad.py_test_op.json"]
    assert case["findings"][0]["id"] == "collective.op_mismatch" and case["start"] == "3 of 3 ranks were forked", case
    _, counts, _ = run(lockstep, [f"{HERE}/../../examples/pytest/test_ranks.py"], 0)
    assert counts == {"passed": 3}, counts
    _, _, failures = run(lockstep, ["--noconftest", "test_late.py"], 1)  # the conftest imports torch
    assert list(failures) == ["test_late_count"], failures
    holds(failures["test_late_count"][0], ["collective.count_mismatch, rank 1, at ", "rank 1 says 5"], "test_late_count")
    for folder, words in ("late", ["--noconftest"]), ("early", []):
        run(lockstep, [f"--lockstep=--capture {folder}", *words, "test_late.py::test_late"], 0)
        assert os.listdir(folder) == ["000_model"], folder
    output, _, _ = run(lockstep, ["--lockstep=--no-such-option", "-k", "test_no_calls", "."], 1)
    assert "no-such-option" in output, output


def started(lockstep):
    """The same if each rank of a test is started."""
    words = ["--lockstep=--start exec", "--lockstep-report", "reports", "-k"]
    output, counts, _ = run(lockstep, [*words, "default or skipped", "test_good.py"], 0)
    assert counts == {"passed": 1, "skipped": 1}, output
    _, _, failures = run(lockstep, [*words, "op or raises", "test_bad.py"], 1)
    holds_all(failures, "test_op", "test_raises")
    with open("reports/test_bad.py_test_op.json", encoding="utf-8") as file:
        assert "start" not in json.load(file)["cases"][0]


def xdist(lockstep):
    """Two workers run tests on ranks at the same time."""
    good(lockstep, ["-n2"])
    _, _, failures = run(lockstep, ["-n2", "-k", "op or raises", "test_bad.py"], 1)
    holds_all(failures, "test_op", "test_raises")


def main():
    lockstep, case = os.path.abspath(sys.argv[1]), sys.argv[2]
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(f"{HERE}/plugin", folder, dirs_exist_ok=True)
        os.chdir(folder)
        globals()[case](lockstep)
    return 0


if __name__ == "__main__":
    sys.exit(main())
