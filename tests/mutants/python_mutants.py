"""Mutants of python/lockstep that the tests do not kill.

python_mutants.py [--only PATTERN] [--count N] [--seed N] [--jobs N] [--tiers N] [--work DIR] [--build BUILD]

Each mutant is a copy of the package under DIR with one change. It runs against the tests that rooms.py names for its file, in order, up to
the first failure. A test must take the package's folder or the program as an argument. The choice by seed, the table and equivalent.txt are
those of mutants.py. Exit code 1: a mutant survived.
"""
import argparse
import ast
import collections
import concurrent.futures
import os
import re
import shutil
import subprocess
import sys
import time

import mutants
import rooms
import units

Mutant = collections.namedtuple("Mutant", "file line key what start end text")
COMPARED = {ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
            ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In}
COMPUTED = {ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.FloorDiv, ast.Div: ast.Mult, ast.FloorDiv: ast.Mult,
            ast.Mod: ast.FloorDiv, ast.BitXor: ast.BitOr}
PACKAGE, PROGRAM = "python", "lockstep"
BROKEN = "raise SystemExit('the broken package')\n"


def copied(node, **fields):
    return type(node)(**{**{name: getattr(node, name) for name in node._fields}, **fields})


def changes(node):
    """The replacement of a node; None: the statement is removed."""
    if isinstance(node, ast.Compare):
        for at, op in enumerate(node.ops):
            yield copied(node, ops=[*node.ops[:at], COMPARED[type(op)](), *node.ops[at + 1:]])
    elif isinstance(node, ast.BoolOp):
        yield copied(node, op=ast.Or() if isinstance(node.op, ast.And) else ast.And())
        yield from (copied(node, values=node.values[:at] + node.values[at + 1:]) for at in range(len(node.values)))
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        yield node.operand
    elif isinstance(node, ast.BinOp) and type(node.op) in COMPUTED:
        yield copied(node, op=COMPUTED[type(node.op)]())
    elif isinstance(node, ast.Constant) and isinstance(node.value, bool):
        yield ast.Constant(not node.value)
    elif isinstance(node, ast.Constant) and isinstance(node.value, int):
        yield ast.Constant(node.value + 1)
    elif isinstance(node, ast.IfExp):
        yield copied(node, body=node.orelse, orelse=node.body)
    elif isinstance(node, ast.Return) and node.value is not None:
        yield ast.Return(None)
    elif isinstance(node, (ast.AugAssign, ast.Continue, ast.Break)) or (
            isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)) or (
            isinstance(node, ast.Assign) and not isinstance(node.targets[0], (ast.Name, ast.Tuple))):
        yield None


def nodes(tree):
    """All nodes, in order, except those in f-strings, whose positions Python does not provide."""
    for child in ast.iter_child_nodes(tree):
        if not isinstance(child, ast.JoinedStr):
            yield child
            yield from nodes(child)


def all_of(file, text):
    """Every mutant of a file, in order."""
    lines, seen = text.encode().splitlines(keepends=True), collections.Counter()
    begins = [0]
    for line in lines:
        begins.append(begins[-1] + len(line))
    tree = ast.parse(text)
    conditions = {id(node.test) for node in ast.walk(tree) if isinstance(node, (ast.If, ast.While))}
    for node in nodes(tree):
        made = list(changes(node))
        if id(node) in conditions:  # the branches are swapped
            made.append(ast.UnaryOp(ast.Not(), node))
        for new in made:
            start, end = begins[node.lineno - 1] + node.col_offset, begins[node.end_lineno - 1] + node.end_col_offset
            own = text.encode()[start:end].decode()
            changed = "pass" if new is None else ast.unparse(ast.fix_missing_locations(new))
            what = f"{units.flat(own)} -> {'(left out)' if new is None else changed}"
            seen[what] += 1
            key = f"{file}: {what}" + (f" #{seen[what]}" if seen[what] > 1 else "")
            yield Mutant(file, node.lineno, key, what, start, end,
                         changed if isinstance(node, ast.stmt) else f"({changed})")


def choose(folder, files, count, seed):
    """The same mutants for a seed, of all files together."""
    found = []
    for name in files:
        with open(os.path.join(folder, name), encoding="utf-8") as file:
            found += all_of(name, file.read())
    found.sort(key=lambda mutant: mutants.number_of(seed, mutant))
    return found[:count] if count else found


class Tests:
    """tests_of(file, package): the (name, command, environment, folder) of the tests of a file, cheapest first."""

    def __init__(self, root, work, tests_of):
        self.root, self.work, self.tests_of, self.took = root, work, tests_of, {}

    def package(self, name, file=None, data=b""):
        """A copy of the package in which one file has other contents."""
        to = os.path.join(self.work, name)
        shutil.rmtree(to, ignore_errors=True)
        shutil.copytree(os.path.join(self.root, PACKAGE), os.path.join(to, PACKAGE),
                        ignore=shutil.ignore_patterns("__pycache__"))
        if file is not None:
            with open(os.path.join(to, file), "wb") as out:
                out.write(data)
        return os.path.join(to, PACKAGE)

    def run(self, test, package):
        """The failure of a test, or None."""
        name, command, environment, folder = test
        environment = {**os.environ, **environment, "PYTHONDONTWRITEBYTECODE": "1"}
        start = time.monotonic()
        process = subprocess.Popen(command, cwd=folder, env=environment, stdout=subprocess.PIPE,
                                   stderr=subprocess.STDOUT, start_new_session=True)
        try:
            process.communicate(timeout=60 + 10 * self.took.get(name, 60))
        except subprocess.TimeoutExpired:
            mutants.end(process)
            process.communicate()
            return "in time"
        self.took.setdefault(name, time.monotonic() - start)
        return "killed" if process.returncode != 0 else None

    def prove(self, file):
        """Each test passes with the package unchanged, and fails if the file cannot be imported."""
        whole, broken = self.package("whole"), self.package("broken", file, BROKEN.encode())
        for test, other in zip(self.tests_of(file, whole), self.tests_of(file, broken)):
            if self.run(test, whole) is not None:
                sys.exit(f"{test[0]} fails without any mutant")
            if self.run(other, broken) is None:
                sys.exit(f"{test[0]} does not import {file} from the folder that it is given")

    def try_mutant(self, number, mutant):
        with open(os.path.join(self.root, mutant.file), "rb") as file:
            data = file.read()
        package = self.package(f"mutant_{number}", mutant.file,
                               data[:mutant.start] + mutant.text.encode() + data[mutant.end:])
        found = {"end": "survived"}
        for test in self.tests_of(mutant.file, package):
            end = self.run(test, package)
            if end is not None:
                found = {"end": end, "by": test[0]}
                break
        shutil.rmtree(os.path.dirname(package))
        return {**found, "line": mutant.line}

    def try_all(self, chosen, jobs):
        for file in sorted({mutant.file for mutant in chosen}):
            self.prove(file)
        results = {}
        with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
            futures = {pool.submit(self.try_mutant, *one): one[1] for one in enumerate(chosen)}
            for future in concurrent.futures.as_completed(futures):
                mutant, entry = futures[future], future.result()
                results[mutant.key] = entry
                print(f"{entry['end']:<9} {mutant.file}:{mutant.line}: {mutant.what[:150]}  {entry.get('by', '')}", flush=True)
        return results


def program_with(package, build):
    """The path of a copy of the build's program. A program loads the package beside itself, which is `package`."""
    folder = os.path.join(os.path.dirname(package), "build")
    if not os.path.isdir(folder):
        os.mkdir(folder)
        for name in set(os.listdir(build)) - {PROGRAM, PACKAGE}:
            os.symlink(os.path.join(build, name), os.path.join(folder, name))
        os.symlink(package, os.path.join(folder, PACKAGE))
        shutil.copy2(os.path.join(build, PROGRAM), folder)
    return os.path.join(folder, PROGRAM)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="")
    parser.add_argument("--count", type=int, default=40)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--tiers", type=int, default=1)
    parser.add_argument("--build", default=os.path.join(mutants.ROOT, "build"))
    parser.add_argument("--work", default=os.path.join(mutants.ROOT, "build", "python_mutants"))
    options = parser.parse_args()
    build = os.path.abspath(options.build)
    listed = mutants.listed_tests(build)

    def tests_of(file, package):
        made, given = [], {os.path.join(mutants.ROOT, PACKAGE): package, os.path.join(build, PROGRAM): program_with(package, build)}
        for name in (name for tier in rooms.tests_of(file)[:-1][:options.tiers] for name in tier):
            about = {one["name"]: one["value"] for one in listed[name].get("properties", ())}
            command = [given.get(word, word) for word in listed[name]["command"]]
            made.append((name, command, dict(pair.split("=", 1) for pair in about.get("ENVIRONMENT", ())),
                         about["WORKING_DIRECTORY"]))
        return made
    names = mutants.shell(["git", "ls-files", PACKAGE], mutants.ROOT).stdout.split()
    files = [name for name in names if name.endswith(".py") and rooms.room_of(name) and re.match(options.only, name)]
    chosen = choose(mutants.ROOT, files, options.count, options.seed)
    results = Tests(mutants.ROOT, os.path.abspath(options.work), tests_of).try_all(chosen, options.jobs)
    sys.exit(mutants.report(results, mutants.equivalents()))


if __name__ == "__main__":
    main()
