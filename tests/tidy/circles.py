"""Circles of source files, from the linker's symbols: circles.py BUILD SOURCE

A file needs the files that define the symbols it uses. A circle is a set of files that need each other. Every circle must be within a line
of circles.txt, and every line must still be a circle. In FLOORS a file needs no file of an upper floor.
"""
import collections
import json
import os
import re
import shlex
import subprocess
import sys

FOREIGN = {"main", "dlopen"}  # mpi/image/ is linked into the user's program, not into ours
# In runner/: the interpreter of scenarios needs neither judges nor launchers.
FLOORS = [("runner/scenario/", "runner/program/", "runner/steps/", "runner/trace/"),
          ("runner/compare/", "runner/diff/", "runner/replay/", "runner/launch/")]


def objects(build, source):
    """The first object of each source file of the product, by the file's name without its ending."""
    found = {}
    for entry in json.load(open(os.path.join(build, "compile_commands.json"), encoding="utf-8")):
        name = os.path.relpath(os.path.realpath(entry["file"]), os.path.realpath(source))
        words = shlex.split(entry["command"])
        path = os.path.join(entry["directory"], words[words.index("-o") + 1])
        if not name.startswith(("../", "tests/", "examples/", "build")) and os.path.exists(path):
            found.setdefault(os.path.splitext(name)[0], path)
    return found


def read_arrows(files):
    """arrows[a][b]: the symbols of b that a uses."""
    defined, needs = collections.defaultdict(set), collections.defaultdict(set)
    names = {path: name for name, path in files.items()}
    listing = subprocess.run(["nm", "-A", *names], capture_output=True, text=True, check=True)
    for line in listing.stdout.splitlines():
        path, _, rest = line.partition(":")
        *_, kind, symbol = rest.split()
        if kind == "U":
            needs[names[path]].add(symbol)
        elif kind.isupper() or kind == "u":
            defined[symbol].add(names[path])
    arrows = {name: collections.defaultdict(set) for name in files}
    for name in files:
        for symbol in needs[name] - FOREIGN:
            if len(defined[symbol]) == 1:
                arrows[name][min(defined[symbol])].add(symbol)
    return arrows


def reach(arrows, start):
    found, open_names = set(), [start]
    while open_names:
        for name in arrows[open_names.pop()]:
            if name not in found:
                found.add(name)
                open_names.append(name)
    return found


def find_circles(arrows):
    reached = {name: reach(arrows, name) for name in arrows}
    circles = {frozenset(b for b in reached[a] if a in reached[b])
               for a in arrows if a in reached[a]}
    return sorted(map(sorted, circles), key=lambda c: (-len(c), c))


def floor_of(name):
    return max((f for f, folders in enumerate(FLOORS) if name.startswith(folders)), default=-1)


def complaints(arrows, known):
    circles = find_circles(arrows)
    for circle in circles:
        if not any(set(circle) <= line for line in known):
            yield "a new circle of files; move the functions that all call into a file that calls none of them:"
            for name in circle:
                for needed in sorted(set(arrows[name]) & set(circle)):
                    yield f"    {name} -> {needed}: {' '.join(sorted(arrows[name][needed]))}"
    for line in known:
        if line <= set(arrows) and sorted(line) not in circles:
            yield f"no circle any more; remove or shorten the line of circles.txt: {' '.join(sorted(line))}"
    for name in sorted(arrows):
        for needed in sorted(arrows[name]):
            if -1 < floor_of(name) < floor_of(needed):
                symbols = " ".join(sorted(arrows[name][needed]))
                yield f"{name} needs an upper floor: {needed}: {symbols}"


def main(build, source):
    arrows = read_arrows(objects(build, source))
    here = os.path.dirname(os.path.abspath(__file__))
    with open(os.path.join(here, "circles.txt"), encoding="utf-8") as stream:
        known = [set(line.split()) for line in stream if not line.startswith("#")]
    found = list(complaints(arrows, known))
    print("\n".join(found))
    circles = find_circles(arrows)
    across = sum(len({os.path.dirname(name) for name in circle}) > 1 for circle in circles)
    print(f"{len(arrows)} files; {len(circles)} circles over {sum(map(len, circles))} files, "
          f"the largest {max(map(len, circles), default=0)}, {across} across folders")
    if "--write" in sys.argv:
        with open(os.path.join(here, "circles.txt"), "w", encoding="utf-8") as stream:
            stream.write("# Circles of files that stand (circles.py), one a line. Remove lines; add none.\n")
            stream.writelines(" ".join(circle) + "\n" for circle in circles)
    return 1 if found or not any(arrows.values()) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2]))
