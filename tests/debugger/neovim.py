"""Neovim with nvim-dap and the settings of examples/editor: neovim.py BUILD SOURCE

Four ranks of a Python program and of an MPI program: a breakpoint that two ranks hit, a step, variables. Exit code 77: there is no nvim, or
the environment variable LOCKSTEP_NVIM_DAP does not name a checkout of nvim-dap.
"""
import os
import shutil
import subprocess
import sys
import tempfile

PYTHON = """
import os
rank = int(os.environ["RANK"])
def work(value):
    value = value + 1
    value = value * 10
    return value
work(rank)
"""


def drive(build, source, folder, **variables):
    settings = {"NVIM_DAP": os.environ["LOCKSTEP_NVIM_DAP"], "SETTINGS": os.path.join(source, "examples/editor/nvim-dap.lua"),
                "LOCKSTEP": os.path.join(build, "lockstep"), "HOME": folder, "XDG_STATE_HOME": folder, **variables}
    done = subprocess.run(["nvim", "--headless", "-u", "NONE", "-i", "NONE", "-n", "-S", os.path.join(source, "tests/debugger/neovim.lua")],
                          env={**os.environ, **settings}, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, check=False)
    return done.stdout


def expect(shown, parts):
    at = 0
    for part in parts:
        at = shown.find(part, at)
        assert at >= 0, f"{part} is missing:\n{shown}"


def main():
    build, source = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
    if shutil.which("nvim") is None or not os.path.isdir(os.environ.get("LOCKSTEP_NVIM_DAP", "")):
        print("skipped: nvim is not installed, or LOCKSTEP_NVIM_DAP does not name nvim-dap")
        sys.exit(77)
    with tempfile.TemporaryDirectory() as folder:
        script, ring = os.path.join(folder, "work.py"), os.path.join(folder, "ring")
        with open(script, "w", encoding="utf-8") as file:
            file.write(PYTHON)
        shown = drive(build, source, folder, FILE=script, PROGRAM=script, LINE="6", CONDITION="rank in (1, 2)", LANGUAGE="python",
                      VARIABLE="value", STOPS="2")
        expect(shown, ["rank 1 work 6 value 2", "rank 2 work 6 value 3", "step", "rank 1 work 7 value 20", "rank 2 work 7 value 30", "ended nil"])
        if shutil.which("gdb") is not None:
            path = os.path.join(source, "tests/gdb/ring.c")
            subprocess.run([os.path.join(build, "lockstep-cc"), "-g", "-O0", path, "-o", ring], check=True)
            shown = drive(build, source, folder, FILE=path, PROGRAM=ring, LINE="21", CONDITION="rank >= 1", LANGUAGE="c", VARIABLE="x", STOPS="4")
            expect(shown, ["rank 0 main 22 x {0, 1, 2, 3}", "rank 1 main 21 x {10, 2, 3, 4}", "step", "rank 1 main 22 x {10, 2, 3, 4}", "ended nil"])
    print("Neovim drives four ranks")


main()
