"""symbols.py SOURCE PREFIX LIBDIR CC CXX BACKEND...: the installed libraries export exactly the declarations of the installed headers; all
of it links, from C and from C++; and the consumer's every_header.c calls a function of each header.
"""
import os
import re
import subprocess
import sys
import tempfile

source, prefix, libdir, cc, cxx = sys.argv[1:6]
backends = sys.argv[6:]
include = os.path.join(prefix, "include/lockstep")
library_folder = os.path.join(prefix, libdir)
bad = 0
# From the C library, for calls of a rank's program (ranks/threads.c).
REPLACED = ["exit", "_exit", "_Exit"]


def complain(text):
    global bad
    bad += 1
    print(text)


def read(*parts):
    with open(os.path.join(*parts), encoding="utf-8") as file:
        return file.read()


def run(*command, **more):
    return subprocess.run(command, check=True, capture_output=True, text=True, **more).stdout


def declared(what, headers):
    """The names of the "functions" or "variables" that headers declare."""
    return run(sys.executable, os.path.join(source, "cmake/headers.py"), what, *headers,
               cwd=include).split() if headers else []


def owner(header):
    """The library that exports a header's declarations."""
    if header.endswith("nccl_mpi.h"):
        return "lockstep-mpi"
    found = re.match(r"backends/(\w+)/", header)
    return "lockstep-" + found.group(1) if found else "lockstep"


def for_backends():
    """Names with LS_API_BACKENDS, in headers that must not be installed."""
    names = set()
    for folder, folders, files in os.walk(source):
        folders[:] = [f for f in folders if not f.startswith(("build", ".", "tests"))]
        for file in files:
            if not file.endswith(".h"):
                continue
            found = re.findall(r"^LS_API_BACKENDS [^(;]*?\b(ls_\w+)\(", read(folder, file), re.M)
            found += re.findall(r"^extern LS_API_BACKENDS [^(;]*?\b(ls_\w+);", read(folder, file), re.M)
            installed = os.path.join(include, os.path.relpath(folder, source), file)
            if os.path.exists(installed) and re.search("^LS_API_BACKENDS ", read(installed), re.M):
                complain(f"{file} is installed and says LS_API_BACKENDS")
            names.update(found)
    return names


headers = sorted(os.path.relpath(os.path.join(folder, file), include)
                 for folder, _, files in os.walk(include) for file in files)
private = for_backends()
total = 0
for library in ["lockstep"] + ["lockstep-" + name for name in backends]:
    own = [h for h in headers if owner(h) == library]
    names = declared("functions", own) + declared("variables", own)
    total += len(names)
    names += REPLACED if library == "lockstep" else []
    if not names or len(set(names)) != len(names):
        complain(f"{library}: {len(names)} declarations, {len(set(names))} names")
    listing = run("nm", "-D", "--defined-only",
                  os.path.join(library_folder, f"lib{library}.so"))
    exported = {line.split()[2] for line in listing.splitlines()}
    for name in sorted(set(names) - exported):
        complain(f"lib{library}.so does not export {name}")
    for name in sorted(exported - set(names) - private):
        complain(f"lib{library}.so exports {name}, which no public header declares")
    if library == "lockstep":
        for name in sorted(private - exported):
            complain(f"lib{library}.so does not export {name} for the backends")

# Takes every address, with the headers' own declarations: C++ needs their extern "C".
names = declared("functions", headers)
lines = [f"#include <lockstep/{header}>" for header in headers]
lines += ["typedef void (*function)(void);", "extern function all[];", "function all[] = {"]
lines += [f"    (function){name}," for name in names]
lines += ["};", "extern const void *data[];", "const void *data[] = {"]
lines += [f"    &{name}," for name in declared("variables", headers)]
lines += ["    all};", f"int main(void) {{ return all[{len(names) - 1}] == 0 || data[0] == 0; }}"]
flags = run("pkg-config", "--cflags", "--libs", "lockstep",
            *["lockstep-" + name for name in backends],
            env={**os.environ, "PKG_CONFIG_PATH": os.path.join(library_folder, "pkgconfig")}).split()
with tempfile.TemporaryDirectory() as scratch:
    for compiler, ending in ((cc, "c"), (cxx, "cc")):
        unit = os.path.join(scratch, "all." + ending)
        program = os.path.join(scratch, "all_" + ending)
        with open(unit, "w", encoding="utf-8") as file:
            file.write("\n".join(lines) + "\n")
        linked = subprocess.run([compiler, unit, "-o", program, *flags], capture_output=True,
                                text=True)
        if linked.returncode != 0:
            complain(f"{compiler}: {linked.stderr[:4000]}")
            continue
        ran = subprocess.run([program], env={**os.environ, "LD_LIBRARY_PATH": library_folder})
        if ran.returncode != 0:
            complain(f"{compiler}: the program with every address returned {ran.returncode}")

called = set(re.findall(r"\bls_\w+(?=\()", read(source, "tests/install/consumer/every_header.c")))
for header in headers:
    functions = declared("functions", [header])
    if functions and owner(header) == "lockstep" and not called.intersection(functions):
        complain(f"every_header.c calls nothing of {header}")

print(f"{len(headers)} headers, {total} functions and variables, {len(private)} more for the backends")
sys.exit(bad > 0)
