// Objects are freed before MPI_Finalize; with WRONG one is not.
#include <mpi.h>

int main(int argc, char **argv) {
    MPI_Comm half;
    MPI_Datatype pair;
    int rank;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, 0, &half);
    MPI_Type_contiguous(2, MPI_INT, &pair);
    MPI_Type_commit(&pair);
    MPI_Comm_free(&half);
#ifndef WRONG
    MPI_Type_free(&pair);
#endif
    MPI_Finalize();
    return 0;
}
