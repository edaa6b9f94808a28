"""Compares programs with MPICH: each rank's output and results are equal, or (told.c) the first differing line is reported. A first line
"of N ranks" gives the number of ranks; default five. compare.py BUILD SOURCES MPICC [NAME]
"""
import glob
import os
import re
import subprocess
import sys
import tempfile

# deviation of MPICH's program, the exit code, the report
TOLD = (
    ("", 0, ["4 ranks print the same 17 lines as under MPICH"]),
    ("sum", 1, ['rank 2 prints here line 2: "rank 2 of 4, round 1 with it: 6", under MPICH line 2: '
                '"rank 2 of 4, round 1 with it: 7"']),
    ("line", 1, ['rank 3 prints here nothing more, under MPICH line 5: "one more"']),
    ("code", 1, ["rank 3 exits with 0, under MPICH with 7"]),
)


def compare(build, ranks, program, *options, argument="it"):
    done = subprocess.run([os.path.join(build, "lockstep"), "mpi", "-n", ranks, "--compare", "mpich",
                           *options, program, "--", argument], capture_output=True, text=True,
                          cwd=os.path.dirname(program))
    return done.returncode, " ".join((done.stdout + done.stderr).split())


def compile_mpich(mpicc, source, program, *options):
    idle = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../backends/mpi/idle.c")
    subprocess.run([mpicc, *options, source, idle, "-o", program + ".mpich", "-ldl"], check=True)


def told(build, mpicc, source, folder):
    program = os.path.join(folder, "told")
    subprocess.run([os.path.join(build, "lockstep-cc"), source, "-o", program], check=True)
    code, text = compare(build, "4", program)
    assert code == 2 and "told.mpich" in text, (code, text)  # missing
    for otherwise, expected, says in TOLD:
        compile_mpich(mpicc, source, program, f'-DOTHERWISE="{otherwise}"')
        code, text = compare(build, "4", program, "--ignore", "[0-9]+ ticks")
        assert code == expected, (otherwise, code, text)
        for words in says:
            assert words in text, (otherwise, words, text)
    code, text = compare(build, "4", program)
    assert code == 1 and "took" in text, text  # times differ
    compile_mpich(mpicc, source, program)
    code, text = compare(build, "4", program, "--ignore", ".*")
    assert code == 0 and "unjudged" in text and "no output was compared" in text, text
    code, text = compare(build, "4", program, "--ignore", "[0-9")
    assert code == 2 and "--ignore '[0-9' is not a regular expression" in text, (code, text)
    assert not [f for f in os.listdir(folder) if not f.startswith("told")]


# deviation of MPICH's program, its argument, options, the exit code, the report
BYTES = (
    ("", "it", ["--files", "out.*"], 0,
     "print the same 6 lines as under MPICH, write the same 3 files"),
    ("", "silent", [], 0, "unjudged"),
    ("", "silent", ["--files", "out.*"], 0, "bit_exact"),
    ("zero", "it", [], 1, r'rank 0 prints here line 1: "a\x00b", under MPICH line 1: "a\x00c"'),
    ("end", "it", [], 1, 'under MPICH line 2: "end" (without an end of line)'),
    ("content", "it", [], 0, "bit_exact"),
    ("content", "it", ["--files", "out.*"], 1,
     "file out.1 differs from byte 1 on (2 bytes here, 7 under MPICH)"),
    ("missing", "it", ["--files", "out.*"], 1, "file out.2 is there here only"),
    ("", "it", ["--files", "nothing.*"], 2, "'nothing.*' names no file"),
    ("late", "it", ["--deadline", "3"], 3, "under MPICH it has not ended in 3 s"),
)


def of_bytes(build, mpicc, source, folder):
    program = os.path.join(folder, "bytes")
    subprocess.run([os.path.join(build, "lockstep-cc"), source, "-o", program], check=True)
    for otherwise, argument, options, expected, says in BYTES:
        compile_mpich(mpicc, source, program, f'-DOTHERWISE="{otherwise}"')
        for name in ("out.0", "out.1", "out.2"):
            if os.path.exists(os.path.join(folder, name)):
                os.remove(os.path.join(folder, name))
        code, text = compare(build, "3", program, *options, argument=argument)
        assert code == expected and says in text, (otherwise, argument, options, code, text)
    # Both start in the same folder contents.
    compile_mpich(mpicc, source, program)
    with open(os.path.join(folder, "out.0"), "w", encoding="utf-8") as file:
        file.write("old\n")
    code, text = compare(build, "3", program, "--files", "out.*")
    with open(os.path.join(folder, "out.0"), encoding="utf-8") as file:
        assert code == 0 and file.read() == "old\n0\n", (code, text)
    broken = os.path.join(folder, "broken")
    with open(broken, "w", encoding="utf-8") as file:
        file.write("#!/nonexistent\n")
    os.chmod(broken, 0o700)
    code, text = compare(build, "3", program, "--real", broken)
    assert code == 3 and "broken cannot be run under mpiexec" in text, (code, text)


def main():
    build, sources, mpicc = os.path.abspath(sys.argv[1]), *sys.argv[2:4]
    only = sys.argv[4:]
    for source in sorted(glob.glob(os.path.join(sources, "*.c"))):
        name = os.path.basename(source)[:-2]
        if only and name not in only:
            continue
        with tempfile.TemporaryDirectory() as folder:
            if name in ("told", "bytes"):
                (told if name == "told" else of_bytes)(build, mpicc, source, folder)
                continue
            program = os.path.join(folder, name)
            subprocess.run([os.path.join(build, "lockstep-cc"), source, "-o", program], check=True)
            compile_mpich(mpicc, source, program)
            with open(source, encoding="utf-8") as file:
                ranks = re.search(r"of (\d+) ranks", file.readline())
            code, text = compare(build, ranks[1] if ranks else "5", program)
            assert code == 0 and "under MPICH" in text, f"{name}: {code}\n{text}"
    print("every program prints and returns what it does under MPICH")


main()
