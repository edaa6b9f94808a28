// A rank that ends by a signal is that rank's finding.
#include <mpi.h>
#include <stdlib.h>

static int counter;  // every rank's own

int main(int argc, char **argv) {
    int rank, *nothing = NULL;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    counter += 1;
#ifdef WRONG
    if (rank == 1) {
        *nothing = 1;
    }
#endif
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Finalize();
    exit(counter == 1 && nothing == NULL ? 0 : 9);
}
