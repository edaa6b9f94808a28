"""python -m lockstep [options of lockstep exec] PROGRAM.py ARGUMENTS: `lockstep exec` on a Python program."""

import os
import shutil
import sys


def found(name="lockstep"):
    own = os.path.join(os.path.dirname(os.path.abspath(__file__)), "bin", name)  # in a wheel
    path = own if os.path.exists(own) else shutil.which(name)
    if path is None:
        sys.exit(f"lockstep: {name} is neither in the wheel nor in PATH; install lockstep's .deb, or build it from source")
    return path


def program():
    """Runs the program in the wheel (lockstep, lockstep-cc, ...) with the script's name."""
    name = os.path.basename(sys.argv[0])
    os.execv(found(name), [name, *sys.argv[1:]])


def main():
    words = sys.argv[1:]
    first = next((i for i, word in enumerate(words) if word.endswith(".py") or word == "-m"), len(words))
    path = found()
    os.execv(path, [path, "exec", *words[:first], "--", sys.executable, *words[first:]])


if __name__ == "__main__":
    main()
