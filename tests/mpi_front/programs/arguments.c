// Sends to an existing rank; with WRONG to one that does not exist.
#include <mpi.h>

int main(int argc, char **argv) {
    int rank, size, value = 1;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
#ifdef WRONG
    if (rank == 0) {
        MPI_Send(&value, 1, MPI_INT, size, 0, MPI_COMM_WORLD);
    }
#else
    // A program that handles an error has no finding.
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    if (MPI_Send(&value, 1, MPI_INT, size, 0, MPI_COMM_WORLD) != MPI_ERR_RANK) {
        return 9;
    }
#endif
    MPI_Finalize();
    return 0;
}
