"""The interpreter of lockstep-mpi-python, with a small module in place of mpi4py: each rank has its own interpreter, and a finding names
the line in Python. python.py BUILD SOURCES
"""
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
from importlib.machinery import SourceFileLoader

SKIP = 77


def load(path):
    sys.dont_write_bytecode = True
    loader = SourceFileLoader("lockstep_mpi_python", path)
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(loader.name, loader))
    loader.exec_module(module)
    return module


def main():
    build, sources = map(os.path.abspath, sys.argv[1:])
    script = load(os.path.join(build, "lockstep-mpi-python"))
    try:
        python = script.ask("/usr/bin/python3")
    except SystemExit as missing:
        print(f"skipped: {missing}")
        sys.exit(SKIP)
    with tempfile.TemporaryDirectory() as folder:
        os.mkdir(os.path.join(folder, "mpi4py"))
        open(os.path.join(folder, "mpi4py", "__init__.py"), "w", encoding="utf-8").close()
        program = os.path.join(sources, "program.py")
        made = script.link(folder, folder, python, [os.path.join(sources, "module.c"),
                                                    "-Dls_mpi_at=lockstep_python_at"])

        def run(*words):
            done = subprocess.run([os.path.join(build, "lockstep"), "mpi", "-n", "2", made, "--",
                                   program, *words], capture_output=True, text=True)
            return done.returncode, done.stdout, done.stderr
        code, text, errors = run()
        assert code == 0, (text, errors)
        told = sorted((json.loads(line) for line in text.splitlines() if line.startswith("{")),
                      key=lambda each: each["rank"])
        assert told == [{"rank": rank, "own": rank, "sum": 3, "floor": 2, "api": 1,
                         "executable": python.executable, "loader": False} for rank in (0, 1)], text
        code, text, errors = run("wrong")
        with open(program, encoding="utf-8") as lines:
            line = next(n for n, text_of in enumerate(lines, 1) if "# wrong" in text_of)
        assert code == 1 and "deadlock.cycle" in text, (text, errors)
        assert f"program.py:{line}" in text, text


main()
