"""Exploration reports the exact number of classes of interleavings if it was exhaustive, a lower bound otherwise, and finds defects of a
single class. explore.py BUILD SOURCES
"""
import os
import re
import subprocess
import sys
import tempfile

ALL = "all interleavings: {} class"
# program, ranks, runs allowed, exit code, expected text
CASES = (
    ("loop", 3, 9, 0, ALL.format(1)),
    ("star", 3, 9, 0, ALL.format(2)),
    ("star", 4, 9, 0, ALL.format(6)),
    ("star", 4, 6, 0, ALL.format(6)),
    ("star", 4, 5, 0, "5 classes: there are more than --explore allows"),
    ("twice", 6, 99, 0, ALL.format(4)),
    ("tags", 3, 9, 0, ALL.format(1)),
    ("relay", 4, 9, 0, ALL.format(2)),
    ("relay_wrong", 4, 9, 1, "one has a finding"),
    ("tests_nothing", 2, 9, 0, ALL.format(1)),
    ("test", 2, 9, 0, "depend on more than"),
)


def main():
    build, sources = sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder:
        program = os.path.join(folder, "classes")
        subprocess.run([os.path.join(build, "lockstep-cc"), "-Wall", "-Wextra", "-Werror",
                        os.path.join(sources, "classes.c"), "-o", program], check=True)

        def run(name, ranks, *options):
            done = subprocess.run([os.path.join(build, "lockstep"), "mpi", "-n", str(ranks),
                                   *options, program, "--", name], capture_output=True, text=True)
            return done.returncode, " ".join((done.stdout + done.stderr).split())
        for name, ranks, most, code, says in CASES:
            got, text = run(name, ranks, "--explore", str(most))
            assert (got, says in text) == (code, True), (name, ranks, most, got, text)
            assert "all interleavings" in says or "all interleavings" not in text, (name, text)
        # The finding's choices reproduce it.
        _, text = run("relay_wrong", 4, "--explore", "9")
        again = re.search(r"--choices ([0-9,]+)", text).group(1)
        assert run("relay_wrong", 4, "--choices", again)[0] == 1, again
    print(f"{len(CASES)} explorations")


main()
