// Each rank puts to many places of its own window right after MPI_Init, before others may have
// started: the clean-up of recorded accesses uses the clocks of all ranks.
#include <mpi.h>

#define PUTS 400

int main(int argc, char **argv) {
    int rank, *base;
    MPI_Win win;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Win_allocate(PUTS * sizeof(int), sizeof(int), MPI_INFO_NULL, MPI_COMM_SELF, &base, &win);
    MPI_Win_fence(0, win);
    for (int i = 0; i < PUTS; i++) {
        MPI_Put(&rank, 1, MPI_INT, 0, i, 1, MPI_INT, win);
        MPI_Win_fence(0, win);
    }
    MPI_Win_free(&win);
    MPI_Finalize();
    return 0;
}
