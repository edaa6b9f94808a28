// An all_reduce in a loop; with an argument rank 2 gives another count in the second step. Each
// rank has its own counter.
#include <mpi.h>
#include <stdio.h>

int counter;

static double work(int rank, int step) {
    return rank * 10.0 + step;
}

int main(int argc, char **argv) {
    int rank, size;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    double x[4] = {rank, rank + 1, rank + 2, rank + 3}, sum[4] = {0};
    for (int step = 0; step < 3; step++) {
        counter += rank;
        x[0] = work(rank, step);
        int count = rank == 2 && step == 1 && argc > 1 ? 3 : 4;
        MPI_Allreduce(x, sum, count, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
        if (rank == 0) {
            printf("step %d sum %g\n", step, sum[0]);
        }
    }
    MPI_Finalize();
    return 0;
}
