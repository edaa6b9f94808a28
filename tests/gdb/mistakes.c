// Ten mistakes of MPI programs, chosen by the argument. "handles" has one of each handle, and
// "threads" an OpenMP region.
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int rank, size;
static int x[8], y[8];

static void meet_here(void) {
    MPI_Barrier(MPI_COMM_WORLD);
}

static void sum(void *in, void *out, int *count, MPI_Datatype *type) {
    (void)type;
    for (int i = 0; i < *count; i++) {
        ((int *)out)[i] += ((int *)in)[i];
    }
}

static void handles(void) {
    MPI_Comm half, none = MPI_COMM_NULL;
    MPI_Datatype vector;
    MPI_Request receive, ready;
    MPI_Win window;
    MPI_Op own;
    MPI_Group group;
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, 0, &half);
    MPI_Comm_set_name(half, "half");
    MPI_Type_vector(3, 1, 2, MPI_INT, &vector);
    MPI_Op_create(sum, 1, &own);
    MPI_Comm_group(half, &group);
    MPI_Win_create(x, sizeof x, sizeof x[0], MPI_INFO_NULL, MPI_COMM_WORLD, &window);
    MPI_Win_fence(0, window);
    MPI_Irecv(y, 4, MPI_INT, (rank + 1) % size, 5, MPI_COMM_WORLD, &receive);
    MPI_Isend(x, 4, MPI_INT, (rank + size - 1) % size, 6, MPI_COMM_WORLD, &ready);
    MPI_Comm freed = half;
    meet_here();
    MPI_Comm_free(&half);
    meet_here();
    (void)freed;
    (void)none;
    MPI_Abort(MPI_COMM_WORLD, 0);
}

static void threads(void) {
#pragma omp parallel num_threads(3)
    {
#pragma omp barrier
#pragma omp single
        meet_here();
    }
}

int main(int argc, char **argv) {
    int provided;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_SERIALIZED, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    const char *what = argv[1];
    int next = (rank + 1) % size, before = (rank + size - 1) % size;
    if (strcmp(what, "ring") == 0) {
        MPI_Recv(x, 1, MPI_INT, before, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Send(x, 1, MPI_INT, next, 0, MPI_COMM_WORLD);
    } else if (strcmp(what, "op") == 0) {
        MPI_Allreduce(x, y, 4, MPI_INT, rank == 1 ? MPI_MAX : MPI_SUM, MPI_COMM_WORLD);
    } else if (strcmp(what, "count") == 0) {
        MPI_Allreduce(x, y, rank == 2 ? 3 : 4, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    } else if (strcmp(what, "kind") == 0) {
        if (rank == 0) {
            MPI_Bcast(x, 4, MPI_INT, 0, MPI_COMM_WORLD);
        } else {
            MPI_Barrier(MPI_COMM_WORLD);
        }
    } else if (strcmp(what, "root") == 0) {
        MPI_Bcast(x, 4, MPI_INT, rank == 3 ? 1 : 0, MPI_COMM_WORLD);
    } else if (strcmp(what, "missing") == 0) {
        if (rank != 1) {
            MPI_Barrier(MPI_COMM_WORLD);
        }
    } else if (strcmp(what, "truncate") == 0) {
        if (rank == 0) {
            MPI_Send(x, 8, MPI_INT, 1, 0, MPI_COMM_WORLD);
        } else if (rank == 1) {
            MPI_Recv(x, 4, MPI_INT, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        }
    } else if (strcmp(what, "tag") == 0) {
        if (rank == 0) {
            MPI_Ssend(x, 1, MPI_INT, 1, 7, MPI_COMM_WORLD);
        } else if (rank == 1) {
            MPI_Recv(x, 1, MPI_INT, 0, 8, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        }
    } else if (strcmp(what, "flight") == 0) {
        MPI_Request request;
        MPI_Irecv(x, 4, MPI_INT, before, 0, MPI_COMM_WORLD, &request);
        MPI_Send(x, 4, MPI_INT, next, 0, MPI_COMM_WORLD);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    } else if (strcmp(what, "alias") == 0) {
        MPI_Allreduce(x, x, 4, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    } else if (strcmp(what, "handles") == 0) {
        handles();
    } else {
        threads();
    }
    MPI_Finalize();
    return 0;
}
