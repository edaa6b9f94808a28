// A parallel region, and no other use of OpenMP's library.
#include <mpi.h>
#include <stdio.h>

int main(int argc, char **argv) {
    int all = 0, mine = 0;
    MPI_Init(&argc, &argv);
#pragma omp parallel num_threads(2)
    __atomic_fetch_add(&mine, 1, __ATOMIC_SEQ_CST);
    MPI_Allreduce(&mine, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    printf("%d threads\n", all);
    MPI_Finalize();
    return 0;
}
