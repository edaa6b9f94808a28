"""Mutants of a small program: found where they should be, in one build, each with its number.

test_units.py CC"""
import os
import subprocess
import sys
import tempfile

import mutants
import units

SOURCE = """\
#include <stdbool.h>
#include <stdio.h>
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
# What these change shows nowhere: a bound itself, or nothing is added where nothing is.
UNNOTICED = {
    "value < of.low -> value <= of.low", "value > of.high && of.high >= of.low -> "
    "value >= of.high && of.high >= of.low", "value > of.high && of.high >= of.low -> "
    "value > of.high && of.high > of.low", "values[i] == 0 -> 0", "continue -> (left out)"}
MUST_BE = UNNOTICED | {
    "value < of.low -> value >= of.low", "value > of.high && of.high >= of.low -> "
    "value > of.high || of.high >= of.low", "i < count -> i <= count", "0 -> 1",
    "sum += values[i] -> sum = values[i]", "sum += values[i] -> (left out)", "continue -> break",
    "values[i] == 0 -> values[i] != 0", "i < count -> 0"}
MUST_NOT_BE = ("a comment", "puts(right ? \"a <= b\"", "table[] = {2")


def main():
    found = list(units.mutants("sample.c", SOURCE))
    whats = {mutant.what for mutant in found}
    assert MUST_BE <= whats, MUST_BE - whats
    assert not [what for what in whats for part in MUST_NOT_BE if part in what]
    numbered = list(enumerate(found, 1))
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "sample.c")
        text = units.rewritten(SOURCE, numbered, os.path.join(mutants.HERE, "mutant.h"))
        assert text.count("\n") == SOURCE.count("\n") + 2  # lines keep their numbers
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
    # Of what is tested, not of what tests it.
    tested = {mutant.what for mutant in found if mutant.line < SOURCE[:SOURCE.index(
        "int main")].count("\n") + 1}
    maybe = {"i < count -> i <= count"}  # reads what follows the array
    assert None in alive and (alive & tested) - maybe == UNNOTICED, alive & tested
    # A list names the same mutants by the text that it changes.
    listed = units.of_list("sample.c", SOURCE, "if (value < of.low) {", "if (value <= of.low) {")
    assert listed.key == "sample.c: value < of.low -> value <= of.low", listed
    gone = units.of_list("sample.c", SOURCE, "sum += values[i];", "")
    assert gone.key == "sample.c: sum += values[i] -> (left out)", gone
    assert units.of_list("sample.c", SOURCE, "return of.low;\n    }\n", "}\n") is None
    print(f"{len(tested)} mutants, {len(tested - alive)} noticed")


if __name__ == "__main__":
    main()
