"""Builds of programs for `lockstep mpi`: with a tool that replaces MPI's functions, by CMake's FindMPI, in C++ (with its own operator new),
with names of the C library, and with calls that lockstep does not implement. linking.py BUILD SOURCES
"""
import os
import shutil
import subprocess
import sys
import tempfile


def run(build, program, *arguments):
    """The exit code and the text with single spaces: line breaks of a report depend on the length of paths."""
    done = subprocess.run([os.path.join(build, "lockstep"), "mpi", "-n", "2", program, "--",
                           *arguments], capture_output=True, text=True)
    return done.returncode, " ".join((done.stdout + done.stderr).split())


def line_of(source, words):
    for number, line in enumerate(open(source, encoding="utf-8"), 1):
        if words in line:
            return f"main.c:{number}"
    raise AssertionError(words)


def main():
    build, sources = sys.argv[1:]
    build = os.path.abspath(build)
    source = os.path.join(sources, "main.c")
    sent, asked = line_of(source, "MPI_Send(&rank"), line_of(source, "MPI_File_open(")
    spawned, pieces = line_of(source, "MPI_Comm_spawn("), line_of(source, "MPI_Type_vector(")
    # C++ takes the lowest bit of a pointer to a member function, as std::thread's join, for the mark of a virtual one.
    symbols = subprocess.run(["nm", os.path.join(build, "lockstep-mpi-start.o")], check=True, capture_output=True, text=True).stdout
    wrappers = [line.split() for line in symbols.splitlines() if " __wrap_" in line]
    assert len(wrappers) > 50 and all(int(address, 16) % 16 == 0 for address, kind, _ in wrappers if kind == "T"), wrappers
    with tempfile.TemporaryDirectory() as folder:
        tool = os.path.join(folder, "tool")
        subprocess.run([os.path.join(build, "lockstep-cc"), source,
                        os.path.join(sources, "profile.c"), "-o", tool], check=True)
        code, text = run(build, tool)
        assert code == 0 and "1 sends" in text and "0 sends" in text, text
        assert "rank 0 saw 0" in text and "rank 1 saw 1" in text, text
        alone = subprocess.run([tool], capture_output=True, text=True)  # a run of one rank
        assert alone.returncode == 1 and "dest 1 is not in [0, 1)" in alone.stdout, alone
        code, text = run(build, tool, "tag")
        assert code == 1 and "deadlock.cycle" in text and sent in text, text
        code, text = run(build, tool, "file")
        assert code == 0 and f"{asked}: MPI_File_open: lockstep does not support MPI-IO" in text, text
        code, text = run(build, tool, "spawn")
        assert code == 1 and f"{spawned}: MPI_Comm_spawn: lockstep has no processes" in text, text
        code, text = run(build, tool, "pieces")
        assert code == 1 and f"{pieces}: MPI_Type_vector: lockstep has no datatypes of" in text, text

        for wrapper, variable in (("lockstep-cc", "LOCKSTEP_CC"), ("lockstep-c++", "LOCKSTEP_CXX")):
            done = subprocess.run([os.path.join(build, wrapper), source, "-o", tool], capture_output=True, text=True,
                                  env={**os.environ, variable: "no-compiler"})
            assert done.returncode == 2 and "there is no no-compiler; install it" in done.stderr, done

        cxx = os.path.join(folder, "main.cpp")
        shutil.copy(source, cxx)
        subprocess.run([os.path.join(build, "lockstep-c++"), "-Wall", "-Werror", cxx, "-o", tool],
                       check=True)
        code, text = run(build, tool)
        assert code == 0 and "rank 1 saw 1" in text, text

        pool = os.path.join(folder, "pool.cpp")
        shutil.copy(os.path.join(sources, "pool.h"), pool)
        subprocess.run([os.path.join(build, "lockstep-c++"), "-O2", pool, "-o", tool], check=True)
        code, text = run(build, tool)
        assert code == 0 and "sum" in text, text

        subprocess.run([os.path.join(build, "lockstep-cc"), "-fopenmp",
                        os.path.join(sources, "regions.c"), "-o", tool], check=True)
        code, text = run(build, tool)
        assert code == 0 and "4 threads" in text, text

        names = os.path.join(sources, "names.c")
        here = os.path.join(folder, "here.o")
        subprocess.run([os.path.join(build, "lockstep-cc"), "-fno-builtin", "-w", "-DHERE", "-c",
                        names, "-o", here], check=True)
        subprocess.run([os.path.join(build, "lockstep-cc"), "-fno-builtin", "-w", names, here,
                        "-o", tool], check=True)
        code, text = run(build, tool)
        assert code == 0 and "10 22 2 -1 3 0.5 4;" in text and "11 22 2 -1 4 0.5 4;" in text, text

        project = os.path.join(folder, "project")
        subprocess.run(["cmake", "-G", "Ninja", "-S", sources, "-B", project,
                        "-DMPI_C_COMPILER=" + os.path.join(build, "lockstep-cc")], check=True,
                       stdout=subprocess.DEVNULL)
        subprocess.run(["cmake", "--build", project], check=True, stdout=subprocess.DEVNULL)
        user = os.path.join(project, "user")
        code, text = run(build, user)
        assert code == 0 and "rank 0 saw 0" in text and "rank 1 saw 1" in text, text
        code, text = run(build, user, "tag")
        assert code == 1 and "deadlock.cycle" in text and sent in text, text


main()
