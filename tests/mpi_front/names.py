"""The names of MPI 3.1 (names.txt): a program in C and one in C++ that use each of them build, link and run, and file functions return
their error. names.py BUILD NAMES
"""
import os
import subprocess
import sys
import tempfile

HEAD = """#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
typedef void any(void);
static any *volatile seen;
static volatile size_t size;
#ifdef __cplusplus
#define OF_ITS_TYPE auto
#else
#define OF_ITS_TYPE __auto_type
#endif
"""
# The arguments of a file function: zeros, except for outputs.
ARGUMENTS = "0, 0, 0, 0, 0, 0, 0, 0"


def read_names(path):
    with open(path, encoding="utf-8") as file:
        types, values = file.read().split("values\n")
    return types.split()[1:], values.split()


def is_function(name):
    return any(c.islower() for c in name.split("_", 1)[1].removeprefix("T_")[1:]) and "_" in name


def program(types, values):
    lines = [HEAD, "int main(int argc, char **argv) {", "    MPI_Init(&argc, &argv);"]
    lines += [f"    {{ {name} *it = 0; size += it == 0; }}" for name in types]
    for name in values:
        if is_function(name):
            lines.append(f"    seen = (any *){name}, seen = (any *)P{name};")
        else:
            lines.append(f"    {{ OF_ITS_TYPE it = {name}; size += sizeof it; }}")
    return "\n".join(lines + ["    MPI_Finalize();", "    return 0;", "}", ""])


def calls_of_files(values):
    names = [name for name in values if name.startswith("MPI_File_") and not name.endswith("2c")
             and not name.endswith("2f")] + ["MPI_Register_datarep"]
    lines = [HEAD, "typedef int call(long, ...);", "int main(int argc, char **argv) {",
             "    MPI_Init(&argc, &argv);", "    MPI_Request request;", "    MPI_File file;"]
    lines.append(f"    any *const all[] = {{{', '.join('(any *)' + name for name in names)}}};")
    lines.append(f"    for (int i = 0; i < 2 * {len(names)}; i++)")
    lines.append(f"        if (((call *)all[i / 2])({ARGUMENTS}) != MPI_ERR_UNSUPPORTED_OPERATION)"
                 f" abort();")
    lines += ["    request = 7, file = 7;",
              "    MPI_File_open(MPI_COMM_WORLD, \"it\", MPI_MODE_RDONLY, MPI_INFO_NULL, &file);",
              "    MPI_File_iread(file, NULL, 0, MPI_INT, &request);",
              "    if (file != MPI_FILE_NULL || request != MPI_REQUEST_NULL) abort();",
              "    MPI_Wait(&request, MPI_STATUS_IGNORE);"]
    return "\n".join(lines + ["    MPI_Finalize();", "    return 0;", "}", ""]), names


def build(folder, compiler, suffix, text):
    source = os.path.join(folder, "names" + suffix)
    with open(source, "w", encoding="utf-8") as file:
        file.write(text)
    subprocess.run([compiler, "-Wall", "-Werror", "-Wno-cast-function-type", source, "-o",
                    os.path.join(folder, "names")], check=True)


def run(folder, build_folder):
    done = subprocess.run([os.path.join(build_folder, "lockstep"), "mpi", "-n", "2",
                           os.path.join(folder, "names")], capture_output=True, text=True)
    assert done.returncode == 0, (done.returncode, done.stdout, done.stderr)
    return done.stderr


def main():
    build_folder, names = os.path.abspath(sys.argv[1]), sys.argv[2]
    types, values = read_names(names)
    functions = [name for name in values if is_function(name)]
    assert "MPI_Send" in functions and "MPI_T_init_thread" in functions, functions
    assert not {"MPI_INT", "MPI_2INT", "MPI_T_ENUM_NULL"} & set(functions), functions
    with tempfile.TemporaryDirectory() as folder:
        for compiler, suffix in (("lockstep-cc", ".c"), ("lockstep-c++", ".cpp")):
            build(folder, os.path.join(build_folder, compiler), suffix, program(types, values))
            run(folder, build_folder)
        text, files = calls_of_files(values)
        build(folder, os.path.join(build_folder, "lockstep-cc"), ".c", text)
        said = run(folder, build_folder)
        for name in files:
            assert said.count(f": {name}: lockstep does not support MPI-IO") == 1, (name, said)
    print(f"{len(types)} types, {len(functions)} functions, {len(values) - len(functions)} others")


main()
