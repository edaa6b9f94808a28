// A put inside of an epoch; with WRONG outside of any.
#include <mpi.h>

int main(int argc, char **argv) {
    int rank, one = 1, memory = 0;
    MPI_Win window;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Win_create(&memory, sizeof memory, sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &window);
    if (rank == 0) {
#ifndef WRONG
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 1, 0, window);
#endif
        MPI_Put(&one, 1, MPI_INT, 1, 0, 1, MPI_INT, window);
#ifndef WRONG
        MPI_Win_unlock(1, window);
#endif
    }
    MPI_Win_free(&window);
    MPI_Finalize();
    return 0;
}
