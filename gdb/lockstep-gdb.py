"""Loads the lockstep commands. gdb runs this file by itself when it lies where gdb looks for the
scripts of a program or library, else: (gdb) source FILE. Loading it twice does nothing."""
import os
import sys


def find():
    at = os.path.dirname(os.path.abspath(__file__))
    while True:
        for below in ("gdb", "lockstep/gdb", "share/lockstep/gdb"):
            folder = os.path.join(at, below)
            if os.path.isfile(os.path.join(folder, "lockstep_gdb", "__init__.py")):
                return folder
        if at == os.path.dirname(at):
            return None
        at = os.path.dirname(at)


if "lockstep_gdb" not in sys.modules:
    FOLDER = find()
    if FOLDER is None:
        print("lockstep: the folder lockstep_gdb was not found near " + __file__)
    else:
        sys.dont_write_bytecode, KEPT = True, sys.dont_write_bytecode
        sys.path.insert(0, FOLDER)
        import lockstep_gdb  # noqa: F401
        sys.dont_write_bytecode = KEPT
