// Prints its rank, in pieces that other ranks' pieces must not interrupt. OTHERWISE is a
// deviation.
#include <mpi.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#ifndef OTHERWISE
#define OTHERWISE ""
#endif

int main(int argc, char **argv) {
    int rank, size, sum = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    for (int i = 0; i < 3; i++) {
        printf("rank %d of %d, ", rank, size);
        MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
        printf("round %d with %s: ", i, argc > 1 ? argv[1] : "nothing");
        MPI_Barrier(MPI_COMM_WORLD);
        printf("%d\n", rank == 2 && i == 1 && strcmp(OTHERWISE, "sum") == 0 ? sum + 1 : sum);
    }
    fflush(stdout);
    if (rank == 1 && write(1, "written\n", 8) != 8) {
        return 9;
    }
    printf("took %d ticks\n", (int)(1000 * MPI_Wtime()) % 100000);
    if (rank == 3 && strcmp(OTHERWISE, "line") == 0) {
        printf("one more\n");
    }
    MPI_Finalize();
    return rank == 3 && strcmp(OTHERWISE, "code") == 0 ? 7 : 0;
}
