// More ranks than 256: one sends twice before another sends, and the receive takes the first to
// arrive; with WRONG the program is correct only if that is the first of them.
#include <mpi.h>
#include <stdlib.h>

int main(int argc, char **argv) {
    int rank, first = 0, from, sends = 0;
    MPI_Request sent[2];
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (int i = rank; i < 259 && rank > 256; i++) {  // 257 twice, 258 once
        MPI_Isend(&rank, 1, MPI_INT, 0, 0, MPI_COMM_WORLD, &sent[sends++]);
    }
    for (int i = 0; rank == 0 && i < 3; i++) {
        MPI_Recv(&from, 1, MPI_INT, MPI_ANY_SOURCE, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        first = i == 0 ? from : first;
    }
    MPI_Waitall(sends, sent, MPI_STATUSES_IGNORE);
#ifdef WRONG
    if (first == 258) {
        abort();
    }
#endif
    MPI_Finalize();
    return 0;
}
