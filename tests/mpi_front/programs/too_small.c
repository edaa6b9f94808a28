// A message into memory that has room for it; with WRONG into half of that.
#include <mpi.h>
#include <stdlib.h>

int main(int argc, char **argv) {
    int rank, room = 8;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
#ifdef WRONG
    room = rank == 1 ? 4 : 8;
#endif
    int *values = calloc((size_t)room, sizeof(int));
    MPI_Bcast(values, 8, MPI_INT, 0, MPI_COMM_WORLD);
    free(values);
    MPI_Finalize();
    return 0;
}
