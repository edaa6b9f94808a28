"""Runs the command of each row of the tables of docs/torch.md: torch.py PROGRAM_FOLDER SOURCE

Every row must have a command, which must hold (code 0; a scenario of a known bug is found). A row of a test program must name existing
tests.
"""
import os
import re
import shlex
import subprocess
import sys

FOLDER, SOURCE = (os.path.abspath(path) for path in sys.argv[1:])


def rows():
    with open(os.path.join(SOURCE, "docs/torch.md"), encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            if line.startswith("| ") and not line.startswith("| theirs"):
                yield number, line.strip().strip("|").split(" | ")


def main():
    failures, count, done = [], 0, {}
    for number, cells in rows():
        commands = re.findall(r"`(build/[^`]*)`", cells[-1])
        count += 1
        if len(cells) != 3 or len(commands) != 1:
            failures.append(f"line {number}: no command shows {cells[0]}")
            continue
        program, *arguments = shlex.split(commands[0])
        program = os.path.join(FOLDER, os.path.relpath(program, "build"))
        key = (program, *arguments)
        if not os.path.exists(program):
            failures.append(f"line {number}: {program} is not built")
        elif key not in done:
            done[key] = subprocess.run(key, cwd=SOURCE, capture_output=True, text=True, check=False)
        if key in done:
            ran = done[key]
            some = "lockstep" in os.path.basename(program) or re.search(r"Tested: .{0,9}[1-9]", ran.stderr + ran.stdout)
            if ran.returncode != 0 or not some:
                failures.append(f"line {number}: {commands[0]}: code {ran.returncode}\n{ran.stdout[-600:]}{ran.stderr[-600:]}")
    print("\n".join(failures) or f"{count} rows, {len(done)} commands: each shows what it says")
    return 1 if failures or count < 40 else 0


if __name__ == "__main__":
    sys.exit(main())
