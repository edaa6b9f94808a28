// The receive takes the first message; with WRONG the program is correct only if rank 1 sends it.
#include <mpi.h>
#include <stdlib.h>

int main(int argc, char **argv) {
    int rank, size, first = 0, from;
    MPI_Status status;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (rank > 0) {
        MPI_Send(&rank, 1, MPI_INT, 0, 0, MPI_COMM_WORLD);
    }
    for (int i = 1; rank == 0 && i < size; i++) {
        MPI_Recv(&from, 1, MPI_INT, MPI_ANY_SOURCE, 0, MPI_COMM_WORLD, &status);
        first = i == 1 ? from : first;
        if (from != status.MPI_SOURCE) {
            abort();
        }
    }
#ifdef WRONG
    if (rank == 0 && first == 2) {
        abort();
    }
#endif
    MPI_Finalize();
    return 0;
}
