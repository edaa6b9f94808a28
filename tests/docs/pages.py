"""Runs what a page of documentation tells a newcomer to type: pages.py PROGRAM_FOLDER SOURCE PAGE.md

In the page's indented blocks, a line `$ build/lockstep ...` is followed by what it prints, compared
as it stands but for times; a line `...` stands for any lines. A line `build/lockstep ...` without
the `$` shows no output: its exit code must be 0 (it holds) or 1 (a finding, as in a page about bugs).
A block that begins `lockstep: 1` is written as the file that its `name:` says. Commands that need a
person, a GPU or a backend that is not built are counted as such.
"""
import os
import re
import subprocess
import sys
import tempfile

NOT_RUN = ("lockstep gdb", "--break-on-finding", "nccl", "FILE")


def blocks(text):
    """The page's indented blocks as lists of (line number, line without its indent)."""
    block = []
    for number, line in enumerate(text.split("\n") + ["end"], 1):
        if line.startswith("    ") or (line == "" and block):
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
        if line.startswith("$ build/lockstep "):
            found.append((number, line[2:], []))
        elif line.startswith("build/lockstep "):
            found.append((number, line, None))
        elif found and found[-1][2] is not None:
            found[-1][2].append(line)
    return found


def without_times(text):
    return re.sub(r"\d+\.\d\d s", "0.00 s", text)


def same(expected, printed):
    pattern = "".join(r"(?:[^\n]*\n)*" if line.strip() == "..." else
                      re.escape(without_times(line)) + "\n" for line in expected)
    return re.fullmatch(pattern, without_times(printed).rstrip("\n") + "\n") is not None


def complaint(number, command, expected, run):
    if expected:
        if same(expected, run.stdout):
            return None
        return "\n    ".join([f"line {number}: {command}", "  the page shows:", *expected,
                              "  it prints:", *run.stdout.splitlines(), run.stderr])
    if run.returncode in (0, 1):
        return None
    return "\n".join([f"line {number}: {command}", f"  exit code {run.returncode}; it prints:",
                      *run.stdout.splitlines(), run.stderr])


def main():
    programs, source, page = sys.argv[1:]
    not_run = NOT_RUN
    if not os.path.exists(os.path.join(programs, "lockstep-mpi")):
        not_run += ("--real mpi",)
    ran = left = 0
    bad = []
    with open(page, encoding="utf-8") as stream:
        text = stream.read()
    with tempfile.TemporaryDirectory() as scratch:
        os.symlink(programs, os.path.join(scratch, "build"))
        os.symlink(os.path.join(source, "scenarios"), os.path.join(scratch, "scenarios"))
        for block in blocks(text):
            if block[0][1] == "lockstep: 1":
                content = "\n".join(line for _, line in block) + "\n"
                name = re.search(r"^name: (\w+)$", content, re.M).group(1)
                with open(os.path.join(scratch, name + ".yaml"), "w", encoding="utf-8") as file:
                    file.write(content)
            for number, command, expected in commands(block):
                if any(word in command for word in not_run):
                    left += 1
                    continue
                run = subprocess.run(["bash", "-c", command], cwd=scratch, text=True,
                                     capture_output=True, stdin=subprocess.DEVNULL, check=False)
                ran += 1
                bad.append(complaint(number, command, expected, run))
    bad = [text for text in bad if text]
    print(*bad, sep="\n")
    print(f"{page}: {ran} commands run, {left} left out, {len(bad)} not as written")
    sys.exit(1 if bad or ran == 0 else 0)


main()
