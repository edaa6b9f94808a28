"""every_call.c makes every call of calls.h and ranks.h: calls.py SOURCE_DIR.

That program runs under thread sanitizers, valgrind and address sanitizers: they never see a call that it omits. Calls outside of programs
must be in the other tests.
"""
import glob
import re
import sys

SOURCE = sys.argv[1]


def read(path):
    with open(f"{SOURCE}/{path}", encoding="utf-8") as file:
        return re.sub(r"//[^\n]*", "", file.read())


header = read("collectives/calls.h") + read("ranks/ranks.h")
macros = set(re.findall(r"#define (ls_\w+)\(", header))
functions = set(re.findall(r"^LS_API [^;(]*?(ls_\w+)\(", header, re.M))
reached = {call for body in re.findall(r"#define ls_\w+\(.*?\)[ \\\n]+(ls_\w+_at)\(", header)
           for call in [body]}
program = read("tests/ranks/every_call.c")
tests = "".join(read(path[len(SOURCE) + 1:]) for path in
                glob.glob(f"{SOURCE}/tests/ranks/*.c") + glob.glob(f"{SOURCE}/tests/mpi/*.c"))
missing = []
for name in sorted((macros | functions) - reached):
    where = tests if name.startswith("ls_spmd_") else program
    if not re.search(rf"\b{name}\(", where):
        missing.append(name)
if len(macros) < 40 or len(functions) < 30:
    sys.exit(f"only {len(macros)} macros and {len(functions)} functions were found")
if missing:
    sys.exit(f"no test makes the calls {', '.join(missing)}")
print(f"{len(macros - reached)} macros, {len(functions - reached)} functions beside them")
