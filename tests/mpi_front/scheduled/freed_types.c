// Datatypes are freed while requests, messages and other types use them. They keep their contents
// for as long, and no longer.
#include <mpi.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#define N     8  // elements of a message, at every third place
#define LARGE (1 << 17)
#define MANY  80
#define WORLD MPI_COMM_WORLD

static int rank, size, to, from;

static void check(int holds) {
    if (!holds) {
        MPI_Abort(WORLD, 1);
    }
}

static MPI_Datatype strided(int n, int stride) {
    MPI_Datatype part, type, copy;
    MPI_Type_contiguous(1, MPI_INT, &part);
    MPI_Type_vector(n, 1, stride, part, &type);
    MPI_Type_free(&part);
    MPI_Type_dup(type, &copy);
    MPI_Type_free(&type);
    MPI_Type_commit(&copy);
    return copy;
}

static void fill(int *places, int base) {
    for (int i = 0; i < 3 * N; i++) {
        places[i] = i % 3 == 0 ? base + i : -1;
    }
}

// Others may now be where the freed ones were.
static void make_others(void) {
    for (int stride = 1; stride < 9; stride++) {
        MPI_Datatype type = strided(N, stride);
        MPI_Type_free(&type);
    }
}

static void expect(const int *places, int base, int gap) {
    for (int i = 0; i < 3 * N; i++) {
        check(places[i] == (i % 3 == 0 ? base + i : gap));
    }
}

static void requests(void) {
    int out[3 * N], in[3 * N] = {0};
    MPI_Request both[2];
    MPI_Datatype a = strided(N, 3), b = strided(N, 3);
    fill(out, 100 * rank);
    MPI_Irecv(in, 1, a, from, 0, WORLD, &both[0]);
    MPI_Type_free(&a);
    MPI_Isend(out, 1, b, to, 0, WORLD, &both[1]);
    MPI_Type_free(&b);
    make_others();
    MPI_Waitall(2, both, MPI_STATUSES_IGNORE);
    expect(in, 100 * from, 0);
}

static void persistent(void) {
    int out[3 * N], in[3 * N] = {0};
    MPI_Request both[2];
    MPI_Datatype type = strided(N, 3);
    MPI_Recv_init(in, 1, type, from, 0, WORLD, &both[0]);
    MPI_Send_init(out, 1, type, to, 0, WORLD, &both[1]);
    MPI_Type_free(&type);
    for (int round = 0; round < 3; round++) {
        fill(out, 100 * rank + round);
        make_others();
        MPI_Startall(2, both);
        MPI_Waitall(2, both, MPI_STATUSES_IGNORE);
        expect(in, 100 * from + round, 0);
    }
    MPI_Request_free(&both[0]);
    MPI_Request_free(&both[1]);
}

static void buffered(void) {
    int out[3 * N], in[3 * N] = {0}, room = N * (int)sizeof(int) + MPI_BSEND_OVERHEAD;
    char *buffer = malloc((size_t)room);
    MPI_Datatype type = strided(N, 3);
    MPI_Message message;
    MPI_Buffer_attach(buffer, room);
    fill(out, 100 * rank);
    MPI_Bsend(out, 1, type, to, 0, WORLD);
    MPI_Type_free(&type);
    make_others();
    MPI_Mprobe(from, 0, WORLD, &message, MPI_STATUS_IGNORE);
    MPI_Barrier(WORLD);
    make_others();
    type = strided(N, 3);
    MPI_Mrecv(in, 1, type, &message, MPI_STATUS_IGNORE);
    MPI_Type_free(&type);
    MPI_Buffer_detach(&buffer, &room);
    free(buffer);
    expect(in, 100 * from, 0);
}

static void all_to_all(void) {
    int *out = malloc((size_t)size * sizeof(int[3 * N])),
        *in = calloc((size_t)size, sizeof(int[3 * N]));
    int *counts = malloc((size_t)size * sizeof(int)), *displs = malloc((size_t)size * sizeof(int));
    MPI_Datatype *types = malloc((size_t)size * sizeof(MPI_Datatype));
    MPI_Request request;
    for (int i = 0; i < size; i++) {
        fill(out + 3 * N * i, 1000 * rank + 100 * i);
        counts[i] = 1;
        displs[i] = i * (int)sizeof(int[3 * N]);
        types[i] = strided(N, 3);
    }
    MPI_Ialltoallw(out, counts, displs, types, in, counts, displs, types, WORLD, &request);
    for (int i = 0; i < size; i++) {
        MPI_Datatype type = types[i];
        MPI_Type_free(&type);
    }
    make_others();
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    for (int i = 0; i < size; i++) {
        expect(in + 3 * N * i, 1000 * i + 100 * rank, 0);
    }
    free(types);
    free(displs);
    free(counts);
    free(in);
    free(out);
}

// The message may stay when the call has returned.
static void replaced(void) {
    int places[2][3 * N];
    for (int i = 0; i < 2; i++) {
        MPI_Datatype type = strided(i == 0 ? N : 1, 3);
        fill(places[i], 100 * rank);
        if (rank == 0) {
            MPI_Send(places[i], 1, type, to, i, WORLD);
        } else if (rank < size - 1) {
            MPI_Sendrecv_replace(places[i], 1, type, to, i, from, i, WORLD, MPI_STATUS_IGNORE);
        }
        MPI_Type_free(&type);
        make_others();
    }
    for (int i = 0; i < 2 && rank == size - 1; i++) {
        MPI_Datatype type = strided(i == 0 ? N : 1, 3);
        MPI_Recv(places[i], 1, type, from, i, WORLD, MPI_STATUS_IGNORE);
        MPI_Type_free(&type);
    }
    if (rank > 0) {
        expect(places[0], 100 * from, -1);
        check(places[1][0] == 100 * from && places[1][3] == 100 * rank + 3);
    }
}

static void contents(void) {
    int count;
    MPI_Datatype type = strided(N, 3), vector, part, last;
    MPI_Type_get_contents(type, 0, 0, 1, NULL, NULL, &vector);
    MPI_Type_free(&type);
    int integers[3];
    MPI_Type_get_contents(vector, 3, 0, 1, integers, NULL, &part);
    MPI_Type_free(&vector);
    make_others();
    check(integers[0] == N && integers[1] == 1 && integers[2] == 3);
    MPI_Type_get_contents(part, 1, 0, 1, &count, NULL, &last);
    check(count == 1 && last == MPI_INT);
    MPI_Type_free(&part);
}

static void many(void) {
    struct rusage used;
    MPI_Datatype type = strided(N, 3), next;
    for (int i = 0; i < 2000; i++) {  // each is made of the one before it
        MPI_Type_dup(type, &next);
        MPI_Type_free(&type);
        type = next;
    }
    MPI_Type_free(&type);
    for (int i = 0; i < MANY; i++) {
        type = strided(LARGE, 3);
        MPI_Type_free(&type);
    }
    getrusage(RUSAGE_SELF, &used);
    check(used.ru_maxrss < 150 << 10);  // KiB: all of them would have 250 MiB
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(WORLD, &rank);
    MPI_Comm_size(WORLD, &size);
    to = (rank + 1) % size;
    from = (rank + size - 1) % size;
    requests();
    persistent();
    buffered();
    all_to_all();
    replaced();
    contents();
    if (rank == 0) {
        many();
    }
    MPI_Finalize();
    return 0;
}
