"""Mutants of a small Python package: one that a test kills, and one that survives."""
import os
import sys
import tempfile

import python_mutants

SOURCE = """\
def least(x, y):
    return x if x < y else y


def rest(x):
    while x > 3:
        x -= 3
    return x
"""
TEST = """\
import sys
sys.path.insert(0, sys.argv[1])
from lockstep import small
assert small.least(1, 2) == 1 and small.least(3, 2) == 2 and small.rest(7) == 1
"""
ENDS = {"x < y -> x <= y": "survived", "x if x < y else y -> y if x < y else x": "killed", "x -= 3 -> (left out)": "in time",
        "return x if x < y else y -> return": "killed", "x > 3 -> not x > 3": "killed"}


def main():
    with tempfile.TemporaryDirectory() as root:
        file = os.path.join("python", "lockstep", "small.py")
        os.makedirs(os.path.dirname(os.path.join(root, file)))
        for name, text in ((file, SOURCE), ("test.py", TEST)):
            with open(os.path.join(root, name), "w", encoding="utf-8") as out:
                out.write(text)
        chosen = [one for one in python_mutants.choose(root, [file], 0, 1) if one.what in ENDS]
        assert {one.what for one in chosen} == set(ENDS), [one.what for one in chosen]
        assert [one.key for one in chosen] == [one.key for one in python_mutants.choose(root, [file], 0, 1) if one.what in ENDS]

        def tests_of(_, package):
            limit = "import resource, runpy; resource.setrlimit(resource.RLIMIT_CPU, (2, 2)); runpy.run_path('test.py')"
            return [("small", [sys.executable, "-c", limit, package], {}, root)]
        results = python_mutants.Tests(root, os.path.join(root, "work"), tests_of).try_all(chosen, 1)
    ends = {one.what: results[one.key]["end"] for one in chosen}
    # The limit on processor time ends the endless loop, as a failure.
    assert ends == {**ENDS, "x -= 3 -> (left out)": "killed"}, ends


if __name__ == "__main__":
    main()
