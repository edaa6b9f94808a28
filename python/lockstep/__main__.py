"""python -m lockstep [options of lockstep exec] PROGRAM.py ARGUMENTS: `lockstep exec` on a Python program."""

import os
import shutil
import sys


def main():
    own = os.path.join(os.path.dirname(__file__), "bin", "lockstep")
    program = own if os.path.exists(own) else shutil.which("lockstep")
    if program is None:
        sys.exit("lockstep: the program lockstep is not on the path")
    words = sys.argv[1:]
    first = next((i for i, word in enumerate(words) if word.endswith(".py") or word == "-m"), len(words))
    os.execv(program, [program, "exec", *words[:first], "--", sys.executable, *words[first:]])


main()
