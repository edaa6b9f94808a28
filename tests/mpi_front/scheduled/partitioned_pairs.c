// Partitioned messages match in the order of their initialisation on both ranks, for each tag
// separately, whichever side is initialised or started first.
#include <mpi.h>
#include <stdio.h>

#define TAGS  5
#define TIMES 4
#define ALL   (TAGS * TIMES)

static int rank, size;

// Request number n of a rank: all of a tag in order; tags forwards on even ranks, else backwards.
static int tag_of(int n) {
    return rank % 2 == 0 ? n % TAGS : TAGS - 1 - n % TAGS;
}

int main(int argc, char **argv) {
    MPI_Request requests[2 * ALL];
    int out[ALL], in[ALL];
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    int left = (rank + size - 1) % size, right = (rank + 1) % size;
    for (int round = 0; round < 2; round++) {
        int sends_first = (rank + round) % 2;
        for (int i = 0; i < 2 * ALL; i++) {
            int n = i % ALL, tag = tag_of(n);
            if ((i < ALL) == sends_first) {
                MPI_Psend_init(&out[n], 1, 1, MPI_INT, right, tag, MPI_COMM_WORLD, MPI_INFO_NULL,
                               &requests[n]);
            } else {
                MPI_Precv_init(&in[n], 1, 1, MPI_INT, left, tag, MPI_COMM_WORLD, MPI_INFO_NULL,
                               &requests[ALL + n]);
            }
        }
        for (int n = 0; n < ALL; n++) {
            out[n] = 1000 * rank + 10 * tag_of(n) + n / TAGS;
            in[n] = -1;
        }
        for (int n = 2 * ALL - 1; n >= 0; n--) {
            MPI_Start(&requests[n]);
        }
        for (int n = ALL - 1; n >= 0; n--) {
            MPI_Pready(0, requests[n]);
        }
        MPI_Waitall(2 * ALL, requests, MPI_STATUSES_IGNORE);
        for (int n = 0; n < ALL; n++) {
            int wanted = 1000 * left + 10 * tag_of(n) + n / TAGS;
            if (in[n] != wanted) {
                fprintf(stderr, "rank %d: receive %d has %d, not %d\n", rank, n, in[n], wanted);
                return 9;
            }
        }
        for (int n = 0; n < 2 * ALL; n++) {
            MPI_Request_free(&requests[n]);
        }
    }
    MPI_Finalize();
    return 0;
}
