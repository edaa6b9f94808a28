// A receive buffer is read after its wait; with WRONG before it.
#include <mpi.h>
#include <stdio.h>

int main(int argc, char **argv) {
    int rank, value = 5, seen = 0;
    MPI_Request request;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (rank == 0) {
        MPI_Irecv(&value, 1, MPI_INT, 1, 0, MPI_COMM_WORLD, &request);
#ifdef WRONG
        seen = value;
        MPI_Wait(&request, MPI_STATUS_IGNORE);
#else
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        seen = value;
#endif
        printf("seen %d\n", seen);
    } else if (rank == 1) {
        MPI_Isend(&value, 1, MPI_INT, 0, 0, MPI_COMM_WORLD, &request);
        seen = value;  // a send buffer may be read
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
    MPI_Finalize();
    return 0;
}
