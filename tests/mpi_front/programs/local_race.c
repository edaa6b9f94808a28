// A rank writes its own window memory in a separate epoch; with WRONG while another rank puts.
#include <mpi.h>

int main(int argc, char **argv) {
    int rank, one = 1, memory[2] = {0, 0};
    MPI_Win window;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Win_create(memory, sizeof memory, sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &window);
    MPI_Win_fence(0, window);
    if (rank == 1) {
        MPI_Put(&one, 1, MPI_INT, 0, 1, 1, MPI_INT, window);
    }
#ifndef WRONG
    MPI_Win_fence(0, window);
#endif
    if (rank == 0) {
        memory[1] += 1;
    }
    MPI_Win_fence(0, window);
    MPI_Win_free(&window);
    MPI_Finalize();
    return 0;
}
