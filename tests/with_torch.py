"""Runs a test that needs packages: with_torch.py PACKAGES SCRIPT ARGUMENTS. Exit code 77: this Python lacks one."""
import importlib.util
import os
import runpy
import sys


def main():
    packages, script = sys.argv[1].split(","), sys.argv[2]
    missing = [package for package in packages if importlib.util.find_spec(package) is None]
    if missing:
        reason = os.environ.get("LOCKSTEP_TORCH_MISSING")
        print(f"skipped: {reason + '; ' if reason else ''}{sys.executable} has no {' and no '.join(missing)}; one that "
              "has: LOCKSTEP_TORCH_PYTHON=PYTHON ./bootstrap test, or cmake -DLOCKSTEP_TORCH_PYTHON=PYTHON build")
        return 77
    sys.argv = sys.argv[2:]
    sys.path[0] = os.path.dirname(script)
    runpy.run_path(script, run_name="__main__")
    return 0


sys.exit(main())
