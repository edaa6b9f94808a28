"""Mutants of a small program: found in the expected places, in one build, each with its number; and the whole command on a small tree, with
the expected end of each mutant, once.

test_units.py CC
"""
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import mutants
import units

SOURCE = """\
#define _GNU_SOURCE  // struct dl_phdr_info
#include <link.h>
#include <stdbool.h>
#include <stdio.h>
_Static_assert(sizeof(struct dl_phdr_info) > 0, "without what it asks for there is none");
// if (a < b) in a comment, and "a < b" in a text, are no conditions.
struct pair {
    int low, high;
};
static const int table[] = {1, 2};
static int clamp(int value, struct pair of) {
    if (value < of.low) {
        return of.low;
    }
    if (value > of.high && of.high >= of.low) {
        return of.high;
    }
    return value;
}
static int total(const int *values, int count) {
    int sum = 0;
    for (int i = 0; i < count; i++) {
        if (values[i] == 0) {
            continue;
        }
        sum += values[i];
    }
    return sum;
}
int main(void) {
    const int values[] = {table[0], 0,
                          table[1]};
    bool right = clamp(-3, (struct pair){-1, 4}) == -1 && clamp(9, (struct pair){-1, 4}) == 4 &&
                 clamp(2, (struct pair){-1, 4}) == 2 && clamp(0, (struct pair){1, -1}) == 1;
    right = right && clamp(4, (struct pair){1, -1}) == 4;
    right = right && total(values, 3) == 3;  // the third element counts
    puts(right ? "a < b" : "wrong");
    return right ? 0 : 1;
}
"""
# These change nothing observable: a bound itself, or adding 0.
UNNOTICED = {
    "value < of.low -> value <= of.low", "value > of.high && of.high >= of.low -> "
    "value >= of.high && of.high >= of.low", "value > of.high && of.high >= of.low -> "
    "value > of.high && of.high > of.low", "values[i] == 0 -> 0", "continue -> (left out)"}
MUST_BE = UNNOTICED | {
    "value < of.low -> value >= of.low", "value > of.high && of.high >= of.low -> "
    "value > of.high || of.high >= of.low", "i < count -> i <= count", "0 -> 1",
    "sum += values[i] -> sum = values[i]", "sum += values[i] -> (left out)", "continue -> break",
    "values[i] == 0 -> values[i] != 0", "i < count -> 0",
    "value -> 0", "of.low -> 0"}
MUST_NOT_BE = ("a comment", "puts(right ? \"a <= b\"", "table[] = {2")


# A tree of one file and one test, with its six mutants and the end of each.
TREE = {
    "base/count.c": """\
#include "count.h"
int count_up(int from, int to) {
    int steps = 0;
    while (from < to) {
        from += 1;
        steps += 1;
    }
    return steps;
}
int count_less(int left, struct count right) {
    return left - right.steps;
}
int count_of(int left, struct count right) {
    return count_less(left, right);
}
""",
    "base/count.h": """\
struct count {
    int steps;
};
int count_up(int from, int to);
int count_of(int left, struct count right);
""",
    "test.c": """\
#include "base/count.h"
int main(void) {
    return count_up(2, 5) == 3 && count_of(0, (struct count){0}) == 0 ? 0 : 1;
}
""",
    "CMakeLists.txt": """\
cmake_minimum_required(VERSION 3.25)
project(tree LANGUAGES C)
enable_testing()
add_executable(counts test.c base/count.c)
add_test(NAME tree/counts COMMAND counts)
""",
    "CMakePresets.json": """\
{"version": 6, "configurePresets": [{"name": "dev", "generator": "Ninja",
 "binaryDir": "${sourceDir}/build", "cacheVariables": {"CMAKE_BUILD_TYPE": "Release"}}]}
""",
    "tests/mutants/rooms.py": """\
ALWAYS, TARGETS = (), {}
def room_of(file):
    return "base" if file.startswith("base/") else None
def tests_of(file):
    return [("tree/counts",)]
""",
    "tests/mutants/equivalent.txt": "base/count.c: from < to -> from != to\n    None counts down.\n",
    "list.py": """\
MUTANTS = [("base/count.c", "steps += 1", "steps += 2"), ("base/count.c", "from += 1", ""),
           ("base/count.c", "from < to", "from != to"), ("base/count.c", "from < to", "to > from"),
           ("base/count.c", "left - right.steps", "left + right.steps"),
           ("base/count.c", "(left, right)", "(right, left)")]
""",
}
ENDS = """\
room             made     killed    in time   survived equivalent  same code  not built   share
base                6          1          1          1          1          1          1    66 %
all                 6          1          1          1          1          1          1    66 %
"""


def main():
    try_units()
    with tempfile.TemporaryDirectory() as folder:
        try_tree(os.path.join(folder, "tree"))


def try_tree(tree):
    shutil.copytree(mutants.HERE, os.path.join(tree, "tests", "mutants"))
    for name, text in TREE.items():
        os.makedirs(os.path.dirname(os.path.join(tree, name)), exist_ok=True)
        with open(os.path.join(tree, name), "w", encoding="utf-8") as file:
            file.write(text)
    subprocess.run(["git", "init", "-q"], cwd=tree, check=True)
    subprocess.run(["git", "add", "."], cwd=tree, check=True)
    command = [sys.executable, "tests/mutants/mutants.py", "--list", "list.py", "--work", "work",
               "--jobs", "2", "--grace", "1", f"--cmake=-DCMAKE_C_COMPILER={sys.argv[1]}"]
    outputs = []
    for left in (6, 0):
        done = subprocess.run(command, cwd=tree, capture_output=True, text=True, check=False)
        outputs.append(done.stdout)
        assert done.returncode == 1, done.stdout + done.stderr  # one survives
        assert f"6 mutants, {left} of them to be tried" in done.stdout, done.stdout
        assert ENDS in done.stdout, done.stdout + done.stderr
        assert "SURVIVED: base/count.c:11\n  - left - right.steps\n  + left + right.steps" in done.stdout
        assert len(re.findall("SURVIVED", done.stdout)) == 1, done.stdout
    # The second run has all results, and runs nothing.
    assert "killed    base/count.c:6" in outputs[0] and "killed    base" not in outputs[1], outputs
    try_ended(tree, command)


def try_ended(tree, command):
    """Ending the command ends its test: here the loop, whose first try is forgotten."""
    path = os.path.join(tree, "work", "results.jsonl")
    with open(path, encoding="utf-8") as file:
        kept = [line for line in file if "in time" not in line]
    with open(path, "w", encoding="utf-8") as file:
        file.writelines(kept)
    runs = subprocess.Popen([*command, "--grace", "100"], cwd=tree, stdout=subprocess.DEVNULL)
    while not looping(tree):
        assert runs.poll() is None, "ended by itself"
        time.sleep(0.05)
    runs.terminate()
    assert runs.wait() == 128 + signal.SIGTERM and not looping(tree)


def looping(tree):
    """Whether a test of the tree runs the loop, its second mutant."""
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/environ", "rb") as file:
                given = file.read().split(b"\0")
            if b"LOCKSTEP_MUTANT=2" in given and os.readlink(f"/proc/{pid}/exe").startswith(
                    os.path.realpath(tree)):
                return True
        except OSError:
            pass  # it has ended, or belongs to another user
    return False


def try_units():
    found = list(units.mutants("sample.c", SOURCE))
    whats = {mutant.what for mutant in found}
    assert MUST_BE <= whats, MUST_BE - whats
    assert not [what for what in whats for part in MUST_NOT_BE if part in what]
    # Of the tested file, not of its test.
    found = [mutant for mutant in found if mutant.line < SOURCE[:SOURCE.index("int main")].count(
        "\n") + 1]
    numbered = list(enumerate(found, 1))
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "sample.c")
        text = units.rewritten("sample.c", SOURCE, numbered, os.path.join(mutants.HERE, "mutant.h"))
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        program = os.path.join(folder, "sample")
        subprocess.run([sys.argv[1], "-std=gnu17", "-o", program, path], check=True)
        alive = set()
        for number, mutant in [(0, None), *numbered]:
            done = subprocess.run([program], env=dict(os.environ, LOCKSTEP_MUTANT=str(number)),
                                  capture_output=True, timeout=10, check=False)
            if done.returncode == 0:
                alive.add(mutant.what if mutant else None)
    tested = {mutant.what for mutant in found}
    maybe = {"i < count -> i <= count"}  # reads memory after the array
    assert None in alive and alive - {None} - maybe == UNNOTICED, alive
    # A list names the same mutants by the changed text.
    listed = units.of_list("sample.c", SOURCE, "if (value < of.low) {", "if (value <= of.low) {")
    assert listed.key == "sample.c: value < of.low -> value <= of.low", listed
    gone = units.of_list("sample.c", SOURCE, "sum += values[i];", "")
    assert gone.key == "sample.c: sum += values[i] -> (left out)", gone
    for old in ("return of.low;\n    }\n", "is not in it"):
        try:
            assert not units.of_list("sample.c", SOURCE, old, "}\n")
        except LookupError as error:
            assert repr(old) in str(error), error
    print(f"{len(tested)} mutants, {len(tested - alive)} noticed")


if __name__ == "__main__":
    main()
