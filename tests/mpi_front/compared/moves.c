// Collectives that move data: the result of each rank, in every form, on every kind of
// communicator, with types that have gaps, uneven counts and MPI_IN_PLACE.
#include "compared.h"

static MPI_Datatype gapped;  // an int in the place of two
static int in[ROOM], out[ROOM];

// One side's description of its data.
typedef struct side {
    MPI_Datatype type;
    int step;  // ints from one element to the next
} side;

static const side *send, *recv;
static const place *p;
static form how;

static void start(void) {
    fill(in, 100 * (p->rank + 1) + 1000 * p->group);
    fill(out, -1);
}

static void rooted(int group) {
    int root = root_of(p, group, (int)how + 1), top = is_root(p, root);
    const side *own = top ? send : recv;
    fill(out, top ? 10 : -1);
    if (how == BLOCKING || !p->inter) {  // else MPICH 4.0.2 fails
        CALL(how, Bcast, bcast, out, 3, own->type, root, p->comm);
        show("bcast", out, ROOM);
    }
    start();
    CALL(how, Gather, gather, in, 2, send->type, out, 2, recv->type, root, p->comm);
    show("gather", out, ROOM);
    start();
    CALL(how, Scatter, scatter, in, 2, send->type, out, 2, recv->type, root, p->comm);
    show("scatter", out, ROOM);

    int counts[ROOM], displs[ROOM];
    for (int b = 0; b < p->peers; b++) {
        counts[b] = (b + 1) % 3;
        displs[b] = (p->peers - 1 - b) * 3;
    }
    int own_count = (p->rank + 1) % 3;
    start();
    CALL(how, Gatherv, gatherv, in, own_count, send->type, out, counts, displs, recv->type, root,
         p->comm);
    show("gatherv", out, ROOM);
    start();
    CALL(how, Scatterv, scatterv, in, counts, displs, send->type, out, own_count, recv->type, root,
         p->comm);
    show("scatterv", out, ROOM);
    if (p->inter) {
        return;
    }
    start();
    CALL(how, Gather, gather, top ? MPI_IN_PLACE : out, 2, recv->type, top ? in : NULL, 2,
         recv->type, root, p->comm);
    show("gather in place", in, ROOM);
    start();
    CALL(how, Scatter, scatter, top ? in : NULL, 2, send->type, top ? MPI_IN_PLACE : out, 2,
         recv->type, root, p->comm);
    show("scatter in place", out, ROOM);
    start();
    CALL(how, Gatherv, gatherv, top ? MPI_IN_PLACE : out, own_count, recv->type, top ? in : NULL,
         counts, displs, recv->type, root, p->comm);
    show("gatherv in place", in, ROOM);
    start();
    CALL(how, Scatterv, scatterv, top ? in : NULL, counts, displs, send->type,
         top ? MPI_IN_PLACE : out, own_count, recv->type, root, p->comm);
    show("scatterv in place", out, ROOM);
}

static void gathered(void) {
    start();
    CALL(how, Allgather, allgather, in, 2, send->type, out, 2, recv->type, p->comm);
    show("allgather", out, ROOM);
    int counts[ROOM], displs[ROOM];
    for (int b = 0; b < p->peers; b++) {
        counts[b] = (b + 2) % 3;
        displs[b] = (p->peers - 1 - b) * 3;
    }
    start();
    CALL(how, Allgatherv, allgatherv, in, (p->rank + 2) % 3, send->type, out, counts, displs,
         recv->type, p->comm);
    show("allgatherv", out, ROOM);
    if (!p->inter) {
        start();
        CALL(how, Allgather, allgather, MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, in, 2, recv->type,
             p->comm);
        show("allgather in place", in, ROOM);
        start();
        CALL(how, Allgatherv, allgatherv, MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, in, counts, displs,
             recv->type, p->comm);
        show("allgatherv in place", in, ROOM);
    }
    CALL(how, Barrier, barrier, p->comm);
}

static void exchanged(void) {
    start();
    CALL(how, Alltoall, alltoall, in, 2, send->type, out, 2, recv->type, p->comm);
    show("alltoall", out, ROOM);

    start();  // send blocks are between or after the receive blocks
    CALL(how, Alltoall, alltoall, in + 1, 1, gapped, in, 1, gapped, p->comm);
    show("alltoall between", in, 20);
    start();
    CALL(how, Alltoall, alltoall, in + 2 * p->peers, 1, MPI_INT, in, 1, gapped, p->comm);
    show("alltoall behind", in, 20);

    int to[ROOM], to_at[ROOM], from[ROOM], from_at[ROOM], to_byte[ROOM], from_byte[ROOM];
    MPI_Datatype to_type[ROOM], from_type[ROOM];
    for (int b = 0; b < p->peers; b++) {
        const side *one = b % 2 == 0 ? send : recv, *other = b % 2 == 0 ? recv : send;
        to[b] = (p->rank + 2 * b) % 3;
        to_at[b] = b * 3;
        from[b] = (b + 2 * p->rank) % 3;
        from_at[b] = (p->peers - 1 - b) * 3;
        to_type[b] = one->type;
        from_type[b] = other->type;
        to_byte[b] = to_at[b] * one->step * (int)sizeof(int);
        from_byte[b] = b * 6 * (int)sizeof(int);
    }
    start();
    CALL(how, Alltoallv, alltoallv, in, to, to_at, send->type, out, from, from_at, recv->type,
         p->comm);
    show("alltoallv", out, ROOM);
    start();
    CALL(how, Alltoallw, alltoallw, in, to, to_byte, to_type, out, from, from_byte, from_type,
         p->comm);
    show("alltoallw", out, ROOM);
    if (p->inter) {
        return;
    }
    start();
    CALL(how, Alltoall, alltoall, MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, in, 2, recv->type, p->comm);
    show("alltoall in place", in, ROOM);
    for (int b = 0; b < p->peers; b++) {
        from[b] = (p->rank + b) % 3;
    }
    start();
    CALL(how, Alltoallv, alltoallv, MPI_IN_PLACE, NULL, NULL, MPI_DATATYPE_NULL, in, from, from_at,
         recv->type, p->comm);
    show("alltoallv in place", in, ROOM);
    start();
    CALL(how, Alltoallw, alltoallw, MPI_IN_PLACE, NULL, NULL, NULL, in, from, from_byte, from_type,
         p->comm);
    show("alltoallw in place", in, ROOM);
}

int main(int argc, char **argv) {
    place places[PLACE_COUNT];
    MPI_Init(&argc, &argv);
    make_places(places);
    MPI_Type_create_resized(MPI_INT, 0, 2 * sizeof(int), &gapped);
    MPI_Type_commit(&gapped);
    const side sides[2] = {{MPI_INT, 1}, {gapped, 2}};
    for (int i = 0; i < PLACE_COUNT * FORM_COUNT; i++) {
        p = &places[i / FORM_COUNT];
        how = (form)(i % FORM_COUNT);
        send = &sides[how == PERSISTENT ? 1 : 0];
        recv = &sides[how == NONBLOCKING ? 0 : 1];
        printf("%s, form %d\n", p->name, (int)how);
        for (int group = 0; group < (p->inter ? 2 : 1); group++) {
            rooted(group);
        }
        gathered();
        exchanged();
    }
    MPI_Type_free(&gapped);
    free_places(places);
    MPI_Finalize();
    return 0;
}
