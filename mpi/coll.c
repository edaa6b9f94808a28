// Collectives: checks of their arguments, and the functions that programs call.
#include <stdlib.h>
#include <string.h>

#include "mpi/coll.h"

// ---- Arguments ----------------------------------------------------------------------------------
typedef struct side_args {
    const void *buf;
    int count;
    const int *counts, *displs;
    const MPI_Aint *byte_displs;
    MPI_Datatype type;
    const MPI_Datatype *types;
    bool in_place;  // MPI_IN_PLACE is allowed
} side_args;

typedef struct collective_args {
    const mpi_collective *kind;
    side_args send, recv;
    MPI_Op op;
    int root;
    MPI_Comm comm;
} collective_args;

static int read_side(mpi_side *out, mpi_where at, mpi_comm *comm, const collective_args *all,
                     bool send) {
    const mpi_collective *kind = all->kind;
    const side_args *args = send ? &all->send : &all->recv;
    int blocks = ls_mpi__blocks_of(comm, kind, send);
    size_t listed = (size_t)blocks;
    bool may_be_in_place =
        args->in_place && !comm->inter && (!kind->rooted || all->root == comm->rank);
    mpi_type *type = NULL;
    *out = (mpi_side){.buf = args->buf,
                      .count = args->count,
                      .counts = args->counts,
                      .displs = args->displs,
                      .byte_displs = args->byte_displs,
                      .types = args->types};
    if (args->buf == MPI_IN_PLACE && may_be_in_place) {
        return MPI_SUCCESS;
    }
    if (args->types == NULL) {
        MPI_TRY(ls_mpi__type_arg(&type, at, comm, args->type, true));
        out->type = type;
    }
    if (args->counts == NULL && args->types == NULL) {
        MPI_TRY(ls_mpi__count_arg(at, comm, "the count", args->count));
        long count = blocks > 0 ? args->count : 0;
        MPI_TRY(ls_mpi__buffer_arg(at, comm, args->buf, count, type));
        return ls_mpi__reach_arg(at, comm, NULL, (size_t)args->count * listed, type);
    }
    bool placed = kind->reduces || args->displs != NULL || args->byte_displs != NULL;
    if (blocks > 0 && (args->counts == NULL || !placed)) {
        return ls_mpi__error(at.me, comm, MPI_ERR_ARG, at.function, "the list of %s is NULL",
                             args->counts == NULL ? "counts" : "displacements");
    }
    ls_mpi__bytes_check(at.me, args->counts, listed * sizeof *args->counts, at.function);
    ls_mpi__bytes_check(at.me, args->displs, listed * sizeof *args->displs, at.function);
    ls_mpi__bytes_check(at.me, args->byte_displs, listed * sizeof *args->byte_displs, at.function);
    ls_mpi__bytes_check(at.me, args->types, listed * sizeof *args->types, at.function);
    for (int b = 0; b < blocks; b++) {
        MPI_TRY(ls_mpi__count_arg(at, comm, "a count of the list", args->counts[b]));
        if (args->types != NULL) {
            MPI_TRY(ls_mpi__type_arg(&type, at, comm, args->types[b], true));
        }
        if (args->types == NULL && (send || !kind->reduces || b == comm->rank)) {
            MPI_TRY(ls_mpi__buffer_arg(at, comm, args->buf, args->counts[b], type));
        }
        MPI_TRY(ls_mpi__block_reach_arg(at, comm, out, b, type));
    }
    return MPI_SUCCESS;
}

// ---- Posting ------------------------------------------------------------------------------------
// What a side exchanges, block by block where it has places for them, else at once.
static int block_count(const mpi_side *side, int blocks) {
    return side->types != NULL || side->displs != NULL || side->byte_displs != NULL ? blocks : 1;
}

static mpi_place block_at(mpi_rank *me, const mpi_side *side, int b, int blocks) {
    if (side->displs == NULL && side->byte_displs == NULL) {  // the blocks are adjacent
        size_t count = (size_t)side->count * (size_t)blocks;
        for (int i = 0; side->counts != NULL && i < blocks; i++) {
            count += (size_t)side->counts[i];
        }
        return (mpi_place){side->buf, count, side->type};
    }
    const mpi_type *type = ls_mpi__block_type(me, side, b);
    ptrdiff_t unit = side->types != NULL ? 1 : type->extent;
    ptrdiff_t at = side->byte_displs != NULL ? side->byte_displs[b] : side->displs[b] * unit;
    return (mpi_place){(const char *)side->buf + at, (size_t)side->counts[b], type};
}

static bool has_data(const mpi_side *side) {
    return (side->type != NULL || side->types != NULL) && side->buf != NULL &&
           side->buf != MPI_IN_PLACE;
}

static mpi_place *places_of(size_t *n, mpi_rank *me, const mpi_side *side, int blocks) {
    *n = (size_t)block_count(side, blocks);
    mpi_place *places = ls_mpi__alloc(*n * sizeof *places);
    for (size_t b = 0; b < *n; b++) {
        places[b] = block_at(me, side, (int)b, blocks);
    }
    return places;
}

static void own_side(mpi_rank *me, mpi_owned **out, const mpi_side *side, int blocks, bool writes,
                     const char *function, bool keep) {
    if (!has_data(side)) {
        return;
    }
    size_t n;
    mpi_place *places = places_of(&n, me, side, blocks);
    if (keep) {
        *out = ls_mpi__own_places(me, places, n, writes, function);
    } else {
        ls_mpi__touch_places(me, places, n, writes, function);
    }
    free(places);
}

// The range that covers all that a side exchanges.
static void bounds_of(const char **low, const char **high, mpi_rank *me, const mpi_side *side,
                      int blocks) {
    *low = *high = side->buf;
    for (int b = 0; b < block_count(side, blocks); b++) {
        const mpi_place own = block_at(me, side, b, blocks);
        ptrdiff_t first;
        size_t bytes;
        ls_mpi__span(&first, &bytes, own.count, own.type);
        const char *from = own.base + first;
        *low = from < *low ? from : *low;
        *high = from + bytes > *high ? from + bytes : *high;
    }
}

// Whether the send and the receive buffer of a call have a byte in common.
static bool sides_meet(mpi_rank *me, const mpi_side *send, int send_blocks, const mpi_side *recv,
                       int recv_blocks) {
    if (!has_data(send) || !has_data(recv)) {
        return false;
    }
    const char *send_low, *send_high, *recv_low, *recv_high;
    bounds_of(&send_low, &send_high, me, send, send_blocks);
    bounds_of(&recv_low, &recv_high, me, recv, recv_blocks);
    if (send_low >= recv_high || recv_low >= send_high) {
        return false;
    }
    for (int i = 0; i < block_count(send, send_blocks); i++) {
        const mpi_place from = block_at(me, send, i, send_blocks);
        for (int k = 0; k < block_count(recv, recv_blocks); k++) {
            const mpi_place to = block_at(me, recv, k, recv_blocks);
            if (ls_mpi__types_meet(from.base, from.count, from.type, to.base, to.count, to.type)) {
                return true;
            }
        }
    }
    return false;
}

// The receive buffer of a member: for reduce_scatter its own block.
static mpi_side recv_side(const mpi_record *record) {
    mpi_side side = record->recv;
    if (record->collective->reduces && side.counts != NULL) {
        side.count = side.counts[record->comm->rank];
        side.counts = NULL;
    }
    return side;
}

// The buffers that a member's call reads and writes, by its role in the record.
typedef struct sides {
    mpi_side send, recv;
    int out, in;  // blocks
    bool sends, receives;
} sides;

static sides sides_of(const mpi_record *record) {
    const mpi_comm *comm = record->comm;
    bool root = !record->collective->rooted || record->root == MPI_ROOT ||
                (!comm->inter && record->root == comm->rank);
    const mpi_collective *kind = record->collective;
    bool from_root = kind->rooted && kind->sync == MPI_SYNC_FROM_ROOT, bcast = !kind->two_sided;
    return (sides){.send = record->send,
                   .recv = bcast ? record->send : recv_side(record),
                   .out = kind->out_blocks ? ls_mpi__blocks_of(comm, kind, true) : 1,
                   .in = kind->in_blocks ? ls_mpi__blocks_of(comm, kind, false) : 1,
                   .sends = !from_root || root,
                   .receives = from_root ? !bcast || !root : root};
}

static void own_sides(mpi_rank *me, mpi_owned *owned[2], const mpi_record *record, bool keep) {
    const sides of = sides_of(record);
    if (of.sends) {
        own_side(me, &owned[0], &of.send, of.out, false, record->function, keep);
    }
    if (of.receives) {
        own_side(me, &owned[1], &of.recv, of.in, true, record->function, keep);
    }
}

// From the first element to the last: a side of one type is in one variable.
static mpi_place hull_of(mpi_rank *me, const mpi_side *side, int blocks) {
    const char *low = NULL, *high = NULL;
    for (int b = 0; b < blocks; b++) {
        const mpi_place place = block_at(me, side, b, blocks);
        const char *end = place.base + (ptrdiff_t)place.count * side->type->extent;
        if (place.count > 0) {  // an empty side has no address
            low = low == NULL || place.base < low ? place.base : low;
            high = high == NULL || end > high ? end : high;
        }
    }
    ptrdiff_t extent = side->type->extent;
    return (mpi_place){low, extent > 0 ? (size_t)((high - low) / extent) : 0, side->type};
}

// Checks for buffers that end behind their memory, before their end is taken for another buffer.
static void check_side(mpi_rank *me, const mpi_side *side, int blocks, const char *function) {
    int n = has_data(side) ? block_count(side, blocks) : 0;
    if (n > 1 && side->type != NULL) {
        const mpi_place all = hull_of(me, side, blocks);
        ls_mpi__buffer_check(me, &all, function);
        return;
    }
    for (int b = 0; b < n; b++) {
        const mpi_place own = block_at(me, side, b, blocks);
        if (own.type != NULL) {
            ls_mpi__buffer_check(me, &own, function);
        }
    }
}

// Whether two blocks of the receive buffer, or two elements of one block, have a byte in common.
static bool received_twice(mpi_rank *me, const sides *of) {
    if (!of->receives || !has_data(&of->recv)) {
        return false;
    }
    size_t n;
    mpi_place *places = places_of(&n, me, &of->recv, of->in);
    bool twice = ls_mpi__places_overlap(places, n);
    free(places);
    return twice;
}

static void own_collective(mpi_rank *me, mpi_request *request) {
    own_sides(me, request->owned, &request->record, true);
    ls_mpi__lists_own(me, request);
}

static mpi_request *make_request(mpi_rank *me, const mpi_record *record) {
    mpi_request *made = ls_mpi__request_make(me, MPI_REQUEST_COLLECTIVE, record->function);
    made->record = *record;
    made->comm = record->comm;
    made->own = own_collective;
    ls_mpi__status_empty(&made->record.status);
    ls_mpi__collective_proto(&made->proto, &made->record);
    ls_mpi__lists_copy(made);
    return made;
}

int ls_mpi__collective(mpi_rank *me, const mpi_record *record, MPI_Request *handle) {
    if (handle == NULL) {
        mpi_request own = {.record = *record};
        own.record.thread = ls_mpi__thread(me);
        mpi_owned *none[2];
        own_sides(me, none, record, false);
        ls_mpi__lists_copy(&own);  // another thread may free the types before the ranks meet
        ls_mpi__collective_proto(&own.proto, &own.record);
        ls_rank_comm *comm = record->channel != NULL ? record->channel : record->comm->inner;
        int status = ls_call__post(ls_mpi__file, ls_mpi__line, comm, &own.proto, NULL);
        ls_mpi__types_drop(&own.record);
        free(own.lists);
        return ls_mpi__leave(me, status);
    }
    mpi_request *request = make_request(me, record);
    *handle = request->handle;
    return ls_mpi__request_start(me, request);
}

// Members whose arguments of a side are ignored.
static bool side_counts(const mpi_comm *comm, const collective_args *args, bool send) {
    if (!args->kind->rooted) {
        return true;
    }
    bool root = comm->inter ? args->root == MPI_ROOT : args->root == comm->rank;
    bool from_root = args->kind->sync == MPI_SYNC_FROM_ROOT;
    if (comm->inter && args->root == MPI_PROC_NULL) {
        return false;
    }
    if (send) {
        return from_root ? root || !args->kind->two_sided : !comm->inter || !root;
    }
    return from_root ? !comm->inter || !root : root;
}

// Checks the arguments and fills in the record.
static int read_collective(mpi_record *out, mpi_where at, const collective_args *args) {
    mpi_comm *comm;
    MPI_TRY(ls_mpi__comm_arg(&comm, at, args->comm));
    mpi_record record = {
        .collective = args->kind, .comm = comm, .function = at.function, .root = args->root};
    if (args->kind->sync == MPI_SYNC_PREFIX && comm->inter) {
        return ls_mpi__error(at.me, comm, MPI_ERR_COMM, at.function,
                             "the communicator is an intercommunicator");
    }
    if (args->kind->neighbors && comm->topology == NULL) {
        return ls_mpi__error(at.me, comm, MPI_ERR_TOPOLOGY, at.function,
                             "the communicator has no topology");
    }
    if (args->kind->rooted) {
        MPI_TRY(ls_mpi__root_arg(at, comm, args->root));
    }
    if (args->kind->move != NULL) {
        if (side_counts(comm, args, true)) {
            MPI_TRY(read_side(&record.send, at, comm, args, true));
        }
        if (args->kind->two_sided && side_counts(comm, args, false)) {
            MPI_TRY(read_side(&record.recv, at, comm, args, false));
        }
    }
    if (args->kind->reduces) {
        mpi_op *op;
        const mpi_type *type = record.send.type != NULL ? record.send.type : record.recv.type;
        MPI_TRY(ls_mpi__op_arg(&op, at, comm, args->op, type));
        MPI_TRY(ls_mpi__reduce_op_arg(at, comm, op));
        record.op = op;
    }
    const sides of = sides_of(&record);
    if (of.sends) {
        check_side(at.me, &of.send, of.out, at.function);
    }
    if (of.receives) {
        check_side(at.me, &of.recv, of.in, at.function);
    }
    if (args->kind->two_sided && sides_meet(at.me, &of.send, of.out, &of.recv, of.in)) {
        return ls_mpi__error(at.me, comm, MPI_ERR_BUFFER, at.function,
                             "the send and the receive buffer overlap (use MPI_IN_PLACE)");
    }
    if (received_twice(at.me, &of)) {
        return ls_mpi__error(at.me, comm, MPI_ERR_BUFFER, at.function,
                             "the blocks that it receives overlap");
    }
    *out = record;
    return MPI_SUCCESS;
}

static int collective(mpi_where at, const collective_args *args, MPI_Request *request) {
    mpi_record record;
    MPI_TRY(read_collective(&record, at, args));
    return ls_mpi__collective(at.me, &record, request);
}

// A request for the collective, started or (persistent) inactive.
static int request_of(mpi_where at, const collective_args *args, bool persistent,
                      MPI_Request *out) {
    if (out == NULL) {
        return ls_mpi__error(at.me, NULL, MPI_ERR_ARG, at.function, "the request argument is NULL");
    }
    if (!persistent) {
        return collective(at, args, out);
    }
    mpi_record record;
    MPI_TRY(read_collective(&record, at, args));
    mpi_request *made = make_request(at.me, &record);
    made->persistent = true;
    *out = made->handle;
    return ls_mpi__comm_channel(&made->channel, record.comm, "a persistent collective");
}

// ---- The functions ------------------------------------------------------------------------------
// Each with its nonblocking and its persistent twin; parameters in brackets.
#define OPEN(...) __VA_ARGS__
#define FORMS(name, iname, parameters, ...)                                                        \
    int name(OPEN parameters) {                                                                    \
        MPI_ENTER_AT(at);                                                                          \
        const collective_args args = {__VA_ARGS__};                                                \
        return collective(at, &args, NULL);                                                        \
    }                                                                                              \
    int iname(OPEN parameters, MPI_Request *request) {                                             \
        MPI_ENTER_AT(at);                                                                          \
        const collective_args args = {__VA_ARGS__};                                                \
        return request_of(at, &args, false, request);                                              \
    }                                                                                              \
    int name##_init(OPEN parameters, MPI_Info info, MPI_Request *request) {                        \
        MPI_ENTER_AT(at);                                                                          \
        const collective_args args = {__VA_ARGS__};                                                \
        (void)info;                                                                                \
        return request_of(at, &args, true, request);                                               \
    }

FORMS(MPI_Barrier, MPI_Ibarrier, (MPI_Comm comm), .kind = &ls_mpi__barrier, .comm = comm)

#define P_BCAST void *buf, int count, MPI_Datatype type, int root, MPI_Comm comm
FORMS(MPI_Bcast, MPI_Ibcast, (P_BCAST), .kind = &ls_mpi__bcast,
      .send = {.buf = buf, .count = count, .type = type}, .root = root, .comm = comm)

#define P_EVEN                                                                                     \
    const void *sendbuf, int sendcount, MPI_Datatype sendtype, void *recvbuf, int recvcount,       \
        MPI_Datatype recvtype
#define A_SEND      .send = {.buf = sendbuf, .count = sendcount, .type = sendtype, .in_place = true}
#define A_SEND_ONLY .send = {.buf = sendbuf, .count = sendcount, .type = sendtype}
#define A_RECV      .recv = {.buf = recvbuf, .count = recvcount, .type = recvtype}
FORMS(MPI_Gather, MPI_Igather, (P_EVEN, int root, MPI_Comm comm), .kind = &ls_mpi__gather, A_SEND,
      A_RECV, .root = root, .comm = comm)
FORMS(MPI_Scatter, MPI_Iscatter, (P_EVEN, int root, MPI_Comm comm), .kind = &ls_mpi__scatter,
      A_SEND_ONLY, .recv = {.buf = recvbuf, .count = recvcount, .type = recvtype, .in_place = true},
      .root = root, .comm = comm)
FORMS(MPI_Allgather, MPI_Iallgather, (P_EVEN, MPI_Comm comm), .kind = &ls_mpi__allgather, A_SEND,
      A_RECV, .comm = comm)
FORMS(MPI_Alltoall, MPI_Ialltoall, (P_EVEN, MPI_Comm comm), .kind = &ls_mpi__alltoall, A_SEND,
      A_RECV, .comm = comm)
FORMS(MPI_Neighbor_allgather, MPI_Ineighbor_allgather, (P_EVEN, MPI_Comm comm),
      .kind = &ls_mpi__neighbor_allgather, A_SEND_ONLY, A_RECV, .comm = comm)
FORMS(MPI_Neighbor_alltoall, MPI_Ineighbor_alltoall, (P_EVEN, MPI_Comm comm),
      .kind = &ls_mpi__neighbor_alltoall, A_SEND_ONLY, A_RECV, .comm = comm)

#define P_GATHERV                                                                                  \
    const void *sendbuf, int sendcount, MPI_Datatype sendtype, void *recvbuf,                      \
        const int recvcounts[], const int displs[], MPI_Datatype recvtype
#define A_RECVV .recv = {.buf = recvbuf, .counts = recvcounts, .displs = displs, .type = recvtype}
FORMS(MPI_Gatherv, MPI_Igatherv, (P_GATHERV, int root, MPI_Comm comm), .kind = &ls_mpi__gatherv,
      A_SEND, A_RECVV, .root = root, .comm = comm)
FORMS(MPI_Allgatherv, MPI_Iallgatherv, (P_GATHERV, MPI_Comm comm), .kind = &ls_mpi__allgatherv,
      A_SEND, A_RECVV, .comm = comm)
FORMS(MPI_Neighbor_allgatherv, MPI_Ineighbor_allgatherv, (P_GATHERV, MPI_Comm comm),
      .kind = &ls_mpi__neighbor_allgatherv, A_SEND_ONLY, A_RECVV, .comm = comm)

#define P_SCATTERV                                                                                 \
    const void *sendbuf, const int sendcounts[], const int displs[], MPI_Datatype sendtype,        \
        void *recvbuf, int recvcount, MPI_Datatype recvtype, int root, MPI_Comm comm
FORMS(MPI_Scatterv, MPI_Iscatterv, (P_SCATTERV), .kind = &ls_mpi__scatterv,
      .send = {.buf = sendbuf, .counts = sendcounts, .displs = displs, .type = sendtype},
      .recv = {.buf = recvbuf, .count = recvcount, .type = recvtype, .in_place = true},
      .root = root, .comm = comm)

#define P_ALLTOALLV                                                                                \
    const void *sendbuf, const int sendcounts[], const int sdispls[], MPI_Datatype sendtype,       \
        void *recvbuf, const int recvcounts[], const int rdispls[], MPI_Datatype recvtype,         \
        MPI_Comm comm
#define A_ALLTOALLV(place)                                                                         \
    .send = {.buf = sendbuf,                                                                       \
             .counts = sendcounts,                                                                 \
             .displs = sdispls,                                                                    \
             .type = sendtype,                                                                     \
             .in_place = place},                                                                   \
    .recv = {.buf = recvbuf, .counts = recvcounts, .displs = rdispls, .type = recvtype},           \
    .comm = comm
FORMS(MPI_Alltoallv, MPI_Ialltoallv, (P_ALLTOALLV), .kind = &ls_mpi__alltoallv, A_ALLTOALLV(true))
FORMS(MPI_Neighbor_alltoallv, MPI_Ineighbor_alltoallv, (P_ALLTOALLV),
      .kind = &ls_mpi__neighbor_alltoallv, A_ALLTOALLV(false))

#define P_ALLTOALLW                                                                                \
    const void *sendbuf, const int sendcounts[], const int sdispls[],                              \
        const MPI_Datatype sendtypes[], void *recvbuf, const int recvcounts[],                     \
        const int rdispls[], const MPI_Datatype recvtypes[], MPI_Comm comm
FORMS(MPI_Alltoallw, MPI_Ialltoallw, (P_ALLTOALLW), .kind = &ls_mpi__alltoallw,
      .send = {.buf = sendbuf,
               .counts = sendcounts,
               .displs = sdispls,
               .types = sendtypes,
               .in_place = true},
      .recv = {.buf = recvbuf, .counts = recvcounts, .displs = rdispls, .types = recvtypes},
      .comm = comm)
#define P_NEIGHBORW                                                                                \
    const void *sendbuf, const int sendcounts[], const MPI_Aint sdispls[],                         \
        const MPI_Datatype sendtypes[], void *recvbuf, const int recvcounts[],                     \
        const MPI_Aint rdispls[], const MPI_Datatype recvtypes[], MPI_Comm comm
FORMS(MPI_Neighbor_alltoallw, MPI_Ineighbor_alltoallw, (P_NEIGHBORW),
      .kind = &ls_mpi__neighbor_alltoallw,
      .send = {.buf = sendbuf, .counts = sendcounts, .byte_displs = sdispls, .types = sendtypes},
      .recv = {.buf = recvbuf, .counts = recvcounts, .byte_displs = rdispls, .types = recvtypes},
      .comm = comm)

#define P_REDUCE const void *sendbuf, void *recvbuf, int count, MPI_Datatype type, MPI_Op op
#define A_REDUCE                                                                                   \
    .send = {.buf = sendbuf, .count = count, .type = type, .in_place = true},                      \
    .recv = {.buf = recvbuf, .count = count, .type = type}, .op = op, .comm = comm
FORMS(MPI_Reduce, MPI_Ireduce, (P_REDUCE, int root, MPI_Comm comm),
      .kind = &ls_mpi__collective_reduce, A_REDUCE, .root = root)
FORMS(MPI_Allreduce, MPI_Iallreduce, (P_REDUCE, MPI_Comm comm), .kind = &ls_mpi__allreduce,
      A_REDUCE)
FORMS(MPI_Scan, MPI_Iscan, (P_REDUCE, MPI_Comm comm), .kind = &ls_mpi__scan, A_REDUCE)
FORMS(MPI_Exscan, MPI_Iexscan, (P_REDUCE, MPI_Comm comm), .kind = &ls_mpi__exscan, A_REDUCE)

#define P_BLOCK                                                                                    \
    const void *sendbuf, void *recvbuf, int recvcount, MPI_Datatype type, MPI_Op op, MPI_Comm comm
FORMS(MPI_Reduce_scatter_block, MPI_Ireduce_scatter_block, (P_BLOCK),
      .kind = &ls_mpi__reduce_scatter_block,
      .send = {.buf = sendbuf, .count = recvcount, .type = type, .in_place = true},
      .recv = {.buf = recvbuf, .count = recvcount, .type = type}, .op = op, .comm = comm)
#define P_RS                                                                                       \
    const void *sendbuf, void *recvbuf, const int recvcounts[], MPI_Datatype type, MPI_Op op,      \
        MPI_Comm comm
FORMS(MPI_Reduce_scatter, MPI_Ireduce_scatter, (P_RS), .kind = &ls_mpi__reduce_scatter,
      .send = {.buf = sendbuf, .counts = recvcounts, .type = type, .in_place = true},
      .recv = {.buf = recvbuf, .counts = recvcounts, .type = type}, .op = op, .comm = comm)
