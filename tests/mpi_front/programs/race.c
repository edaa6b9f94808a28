// Two ranks put into the memory of a third, each at its own place; with WRONG both at one.
#include <mpi.h>

int main(int argc, char **argv) {
    int rank, memory[4] = {0}, place;
    MPI_Win window;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    place = rank;
#ifdef WRONG
    place = 3;
#endif
    MPI_Win_create(memory, sizeof memory, sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &window);
    MPI_Win_fence(0, window);
    if (rank > 0) {
        MPI_Put(&rank, 1, MPI_INT, 0, place, 1, MPI_INT, window);
    }
    MPI_Win_fence(0, window);
    int sum = memory[1] + memory[2];
    MPI_Win_free(&window);
    MPI_Finalize();
    return rank > 0 || sum == 3 ? 0 : 9;
}
