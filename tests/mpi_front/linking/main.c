// Sends by MPI's name; a tool that replaces MPI_Send may count that. "tag" has no receive, "file",
// "spawn" and "pieces" call what lockstep does not implement.
#include <mpi.h>
#include <stdio.h>
#include <string.h>

int main(int argc, char **argv) {
    static int seen;  // each rank's own
    int rank, token = 0, tag = argc > 1 && strcmp(argv[1], "tag") == 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (rank == 0) {
        MPI_Send(&rank, 1, MPI_INT, 1, tag, MPI_COMM_WORLD);
    } else {
        MPI_Recv(&token, 1, MPI_INT, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    if (argc > 1 && strcmp(argv[1], "file") == 0) {
        MPI_File file;
        MPI_File_open(MPI_COMM_WORLD, "none", MPI_MODE_RDONLY, MPI_INFO_NULL, &file);
    }
    if (argc > 1 && strcmp(argv[1], "spawn") == 0) {
        MPI_Comm made;
        MPI_Comm_spawn("none", MPI_ARGV_NULL, 1, MPI_INFO_NULL, 0, MPI_COMM_SELF, &made,
                       MPI_ERRCODES_IGNORE);
    }
    if (argc > 1 && strcmp(argv[1], "pieces") == 0) {
        MPI_Datatype made;
        MPI_Type_vector((1 << 24) + 1, 1, 2, MPI_CHAR, &made);
    }
    seen += rank;
    printf("rank %d saw %d\n", rank, seen);
    MPI_Finalize();
    return 0;
}
