"""Runs the commands of pages of documentation: pages.py PROGRAMS SOURCE [--python PYTHON] PAGE.md...

In a page's indented blocks, a line `$ COMMAND` is followed by its output, compared literally except
for times; a line `...` stands for any lines. A line that starts with `lockstep` shows no output: its
exit code must be 0 (it holds) or 1 (a finding, as in a page about bugs). A block that begins with
`lockstep: 1`, `# NAME` or `// NAME` is written to its file. All pages share one folder; the same
command on the same files runs once. A session of gdb must be a part of docs/debugging.md, which has
a test of its own. Counted but not run are templates (a word in capitals) and commands that need a
person, a GPU, PyTorch that is not there, or a backend that is not built.
"""
import argparse
import os
import re
import subprocess
import sys
import tempfile
import time

COMMAND = re.compile(r"(?:build/)?lockstep(?:-cc)? |python3 |lockstep-c\+\+ ")
TEMPLATE = re.compile(r"(?<![\w/.$-])[A-Z]{2,}(?:\.\w+)?(?![\w=])")
NOT_RUN = ("--device cuda", "lockstep gdb", "--break-on-finding", "nccl", "--observe", "torchrun", "mpiexec",
           "--minutes", " recordings", "--rules")


def blocks(text):
    """The page's indented blocks as lists of (line number, line without its indent)."""
    block, fenced = [], False
    for number, line in enumerate(text.split("\n") + ["end"], 1):
        fenced ^= line.startswith("```")
        if not fenced and (line.startswith("    ") or (line == "" and block)):
            block.append((number, line[4:]))
        elif block:
            while block and block[-1][1] == "":
                block.pop()
            yield block
            block = []


def commands(block):
    """(line number, command, expected lines or None) of each command in a block."""
    found = []
    for number, line in block:
        if line.startswith("$ "):
            found.append((number, line[2:], []))
        elif found and found[-1][2] is not None:
            found[-1][2].append(line)
        elif COMMAND.match(line):
            found.append((number, line, None))
    return found


def file_of(block):
    """The name of the file that a block contains, or None."""
    first = block[0][1]
    if first == "lockstep: 1":
        return re.search(r"^name: (\w+)$", "\n".join(line for _, line in block), re.M)[1] + ".yaml"
    named = re.fullmatch(r"(?:#|//) ([\w-]+\.\w+)", first)
    return named and named[1]


def without_times(text):
    return re.sub(r"\d+\.\d\d s", "0.00 s", text)


def same(expected, printed):
    pattern = "".join(r"(?:[^\n]*\n)*" if line.strip() == "..." else
                      re.escape(without_times(line)) + "\n" for line in expected)
    return re.fullmatch(pattern, without_times(printed).rstrip("\n") + "\n") is not None


def complaint(where, command, expected, run):
    if expected:
        if same(expected, run.stdout):
            return None
        return "\n    ".join([f"{where}: {command}", "  the page shows:", *expected,
                              "  it prints:", *run.stdout.splitlines()[:60], run.stderr[-600:]])
    if run.returncode in (0, 1):
        return None
    return "\n".join([f"{where}: {command}", f"  exit code {run.returncode}; it prints:",
                      *run.stdout.splitlines()[:60], run.stderr[-600:]])


class Pages:
    def __init__(self, programs, source, python, scratch):
        self.source, self.scratch = source, scratch
        self.not_run = NOT_RUN
        if not os.path.exists(os.path.join(programs, "lockstep-mpi")):
            self.not_run += ("--real mpi", "--on mpi")
        if not python:
            self.not_run += ("python3",)
        os.mkdir(os.path.join(scratch, "bin"))
        if python:
            with open(os.path.join(scratch, "bin/python3"), "w", encoding="utf-8") as file:
                file.write(f"#!/bin/sh\nexec {python} \"$@\"\n")
            os.chmod(os.path.join(scratch, "bin/python3"), 0o755)
        os.symlink(programs, os.path.join(scratch, "build"))
        for folder in ("scenarios", "examples"):
            os.symlink(os.path.join(source, folder), os.path.join(scratch, folder))
        self.environment = dict(os.environ, PATH=os.pathsep.join(
            [os.path.join(scratch, "bin"), programs, os.environ["PATH"]]))
        self.files, self.done, self.slowest = {}, {}, []
        self.ran = self.left = 0

    def write(self, name, text):
        self.files[name] = text
        with open(os.path.join(self.scratch, name), "w", encoding="utf-8") as file:
            file.write(text)

    def run(self, command):
        key = (command, *(text for name, text in self.files.items() if name in command))
        if key not in self.done:
            begin = time.monotonic()
            self.done[key] = subprocess.run(
                ["bash", "-c", command], cwd=self.scratch, env=self.environment, text=True,
                capture_output=True, stdin=subprocess.DEVNULL, check=False)
            self.ran += 1
            self.slowest.append((time.monotonic() - begin, command))
        run = self.done[key]
        run.stdout = run.stdout.replace(self.scratch + "/", ".../")
        return run

    def page(self, name):
        with open(os.path.join(self.source, name), encoding="utf-8") as stream:
            text = stream.read()
        for block in blocks(text):
            file = file_of(block)
            if file:
                lines = [line for _, line in block]
                end = next((i for i, line in enumerate(lines) if line.startswith("$ ")), None)
                self.write(file, "\n".join(lines[:end]).rstrip("\n") + "\n")
                block = block[end:] if end is not None else []
            for number, command, expected in commands(block):
                plain = re.sub(r"  +#.*", "", command)
                if TEMPLATE.search(plain) or any(word in plain for word in self.not_run):
                    self.left += 1
                else:
                    yield complaint(f"{name}:{number}", plain, expected, self.run(plain))
        yield from self.sessions(name, text)

    def sessions(self, name, text):
        with open(os.path.join(self.source, "docs/debugging.md"), encoding="utf-8") as stream:
            known = stream.read()
        for session in re.findall(r"^```\n(.*?)^```", text, re.M | re.S):
            if "(gdb)" in session and session not in known:
                yield f"{name}: not in docs/debugging.md:\n{session}"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("programs")
    parser.add_argument("source")
    parser.add_argument("--python", default="")
    parser.add_argument("pages", nargs="+")
    options = parser.parse_args()
    bad = []
    with tempfile.TemporaryDirectory() as scratch:
        pages = Pages(options.programs, options.source, options.python, scratch)
        for name in options.pages:
            bad += [text for text in pages.page(name) if text]
    print(*bad, sep="\n")
    for seconds, command in sorted(pages.slowest, reverse=True)[:5]:
        print(f"{seconds:6.2f} s  {command[:80]}")
    print(f"{len(options.pages)} pages: {pages.ran} commands run, {pages.left} left out, "
          f"{len(bad)} not as written")
    sys.exit(1 if bad or pages.ran == 0 else 0)


main()
