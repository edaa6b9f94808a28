"""Programs beside themselves under MPICH: what each rank prints and returns is the same, or (told.c)
the first line that is not is told. A program whose first line says "of N ranks" has so many, others
five. compare.py BUILD SOURCES MPICC [NAME]"""
import glob
import os
import re
import subprocess
import sys
import tempfile

# what MPICH's program does otherwise, the exit code, what the report says
TOLD = (
    ("", 0, ["4 ranks print the same 17 lines as under MPICH"]),
    ("sum", 1, ['rank 2 prints here line 2: "rank 2 of 4, round 1 with it: 6", under MPICH line 2: '
                '"rank 2 of 4, round 1 with it: 7"']),
    ("line", 1, ['rank 3 prints here nothing more, under MPICH line 5: "one more"']),
    ("code", 1, ["rank 3 exits with 0, under MPICH with 7"]),
)


def compare(build, ranks, program, *options):
    done = subprocess.run([os.path.join(build, "lockstep"), "mpi", "-n", ranks, "--compare", "mpich",
                           *options, program, "--", "it"], capture_output=True, text=True)
    return done.returncode, " ".join((done.stdout + done.stderr).split())


def compile_mpich(mpicc, source, program, *options):
    idle = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../backends/mpi/idle.c")
    subprocess.run([mpicc, *options, source, idle, "-o", program + ".mpich", "-ldl"], check=True)


def told(build, mpicc, source, folder):
    program = os.path.join(folder, "told")
    subprocess.run([os.path.join(build, "lockstep-cc"), source, "-o", program], check=True)
    code, text = compare(build, "4", program)
    assert code == 2 and "told.mpich" in text, (code, text)  # it is not there
    for otherwise, expected, says in TOLD:
        compile_mpich(mpicc, source, program, f'-DOTHERWISE="{otherwise}"')
        code, text = compare(build, "4", program, "--ignore", "[0-9]+ ticks")
        assert code == expected, (otherwise, code, text)
        for words in says:
            assert words in text, (otherwise, words, text)
    code, text = compare(build, "4", program)
    assert code == 1 and "took" in text, text  # times differ
    code, text = compare(build, "4", program, "--ignore", "[0-9")
    assert code == 2 and "--ignore '[0-9' is no regular expression" in text, (code, text)
    assert not [f for f in os.listdir(folder) if not f.startswith("told")]


def main():
    build, sources, mpicc = sys.argv[1:4]
    only = sys.argv[4:]
    for source in sorted(glob.glob(os.path.join(sources, "*.c"))):
        name = os.path.basename(source)[:-2]
        if only and name not in only:
            continue
        with tempfile.TemporaryDirectory() as folder:
            if name == "told":
                told(build, mpicc, source, folder)
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
