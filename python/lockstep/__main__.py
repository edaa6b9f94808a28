"""python -m lockstep [options of lockstep exec] PROGRAM.py ARGUMENTS: `lockstep exec` on a Python program."""

import os
import shutil
import sys


def _found():
    own = os.path.join(os.path.dirname(os.path.abspath(__file__)), "bin", "lockstep")  # of a wheel
    found = own if os.path.exists(own) else shutil.which("lockstep")
    if found is None:
        sys.exit("lockstep: the program lockstep is not on the path")
    return found


def program():
    """The program `lockstep` that came with this package, as it is."""
    os.execv(_found(), ["lockstep", *sys.argv[1:]])


def main():
    words = sys.argv[1:]
    first = next((i for i, word in enumerate(words) if word.endswith(".py") or word == "-m"), len(words))
    found = _found()
    os.execv(found, [found, "exec", *words[:first], "--", sys.executable, *words[first:]])


if __name__ == "__main__":
    main()
