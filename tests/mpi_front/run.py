"""Programs written for MPI: each kind of mistake is found at its place, and its corrected version is silent. run.py BUILD SOURCES"""
import os
import subprocess
import sys
import tempfile

# program, ranks, the finding, its text, the text of the source line that it names
CASES = (
    ("leak", 2, "handle.leak", "MPI_Type_contiguous", "MPI_Type_contiguous(2"),
    ("deadlock", 2, "deadlock.cycle", "MPI_Send", "MPI_Send(&mine"),
    ("operation", 3, "collective.op_mismatch", "MPI_MAX", "MPI_Allreduce(&one"),
    ("datatype", 2, "p2p.dtype_mismatch", "MPI_FLOAT", "MPI_Recv(&it"),
    ("in_flight", 2, "buffer.use_before_wait", "MPI_Irecv", "seen = value;"),
    ("race", 3, "rma.race", "MPI_Put", "MPI_Put(&rank"),
    ("local_race", 2, "rma.race", "MPI_Put", None),
    ("epoch", 2, "call.invalid", "MPI_ERR_RMA_SYNC", "MPI_Put(&one"),
    ("any_source", 3, "rank.died", "--choices 1", None),
    ("any_of_many", 259, "rank.died", "--choices 1", None),
    ("arguments", 2, "call.invalid", "MPI_ERR_RANK", "MPI_Send(&value, 1, MPI_INT, size"),
    ("returned", 2, "call.invalid", "MPI_ERR_ARG", "MPI_Comm_size(MPI_COMM_WORLD, NULL)"),
    ("too_small", 2, "buffer.too_small", "32 bytes", "MPI_Bcast(values"),
    ("crash", 2, "rank.died", "rank 1", None),
)


def line_of(source, words):
    for number, line in enumerate(open(source, encoding="utf-8"), 1):
        if words in line:
            return f"{os.path.basename(source)}:{number}"
    raise AssertionError((source, words))


def run(build, source, ranks, folder, flags):
    program = os.path.join(folder, "program")
    subprocess.run([os.path.join(build, "lockstep-cc"), *flags, source, "-o", program], check=True)
    done = subprocess.run([os.path.join(build, "lockstep"), "mpi", "-n", str(ranks), "--explore",
                           "100", program], capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


def main():
    build, sources = sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder:
        for name, ranks, finding, says, words in CASES:
            source = os.path.join(sources, name + ".c")
            code, text = run(build, source, ranks, folder, [])
            assert code == 0, (name, code, text)
            code, text = run(build, source, ranks, folder, ["-DWRONG"])
            assert code == 1, (name, code, text)
            assert finding in text and says in text, (name, text)
            if words is not None:
                assert f"{finding}," in text and line_of(source, words) in text, (name, text)
    print(f"{len(CASES)} mistakes and their twins")


if __name__ == "__main__":
    main()
