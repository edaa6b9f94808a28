"""A program beside itself under MPICH: what each rank prints and returns is the same, or the first
line that is not is told. compare.py BUILD SOURCES MPICC"""
import os
import subprocess
import sys
import tempfile

# what MPICH's program does otherwise, the exit code, what the report says
CASES = (
    ("", 0, ["4 ranks print the same 17 lines as under MPICH"]),
    ("sum", 1, ['rank 2 prints here line 2: "rank 2 of 4, round 1 with it: 6", under MPICH line 2: '
                '"rank 2 of 4, round 1 with it: 7"']),
    ("line", 1, ['rank 3 prints here nothing more, under MPICH line 5: "one more"']),
    ("code", 1, ["rank 3 exits with 0, under MPICH with 7"]),
)


def compare(build, program, *options):
    done = subprocess.run([os.path.join(build, "lockstep"), "mpi", "-n", "4", "--compare", "mpich",
                           *options, program, "--", "it"], capture_output=True, text=True)
    return done.returncode, " ".join((done.stdout + done.stderr).split())


def main():
    build, sources, mpicc = sys.argv[1:]
    source = os.path.join(sources, "told.c")
    with tempfile.TemporaryDirectory() as folder:
        program = os.path.join(folder, "told")
        subprocess.run([os.path.join(build, "lockstep-cc"), source, "-o", program], check=True)
        code, text = compare(build, program)
        assert code == 2 and "told.mpich" in text, (code, text)  # it is not there
        for otherwise, expected, says in CASES:
            subprocess.run([mpicc, f'-DOTHERWISE="{otherwise}"', source, "-o", program + ".mpich"],
                           check=True)
            code, text = compare(build, program, "--ignore", "[0-9]+ ticks")
            assert code == expected, (otherwise, code, text)
            for words in says:
                assert words in text, (otherwise, words, text)
        code, text = compare(build, program)
        assert code == 1 and "took" in text, text  # times differ
        assert not [f for f in os.listdir(folder) if not f.startswith("told")]
    print(f"{len(CASES)} programs beside MPICH's")


main()
