// A sum of all ranks; with WRONG one of them uses the maximum.
#include <mpi.h>

int main(int argc, char **argv) {
    int rank, size, one = 1, sum = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Op op = MPI_SUM;
#ifdef WRONG
    op = rank == 1 ? MPI_MAX : MPI_SUM;
#endif
    MPI_Allreduce(&one, &sum, 1, MPI_INT, op, MPI_COMM_WORLD);
    MPI_Finalize();
    return sum == size ? 0 : 9;
}
