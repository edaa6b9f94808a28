// Partitioned messages: the sender marks each part of its buffer as ready, and the message is sent
// when all are. They match each other only, in the order of their initialisation on both ranks,
// whichever is started first. Each pair has a private tag, below those of programs.
#include <stdlib.h>

#include "mpi/internal.h"

struct mpi_parts {
    bool send;
    int count, ready, tag;
    mpi_owned **owned;  // [count] of a receive, from its start until the part arrives
    bool *is_ready;     // [count] of a send
};

typedef struct partitioned {
    bool send;
    const void *buf;
    int partitions;
    MPI_Count count;
    MPI_Datatype type;
    int peer, tag;
    MPI_Comm comm;
} partitioned;

#define LS_MPI_PAIR_HEADS 4096

// A request whose peer is not initialised yet.
typedef struct half {
    int number;
    struct half *next;
} half;

// The waiting requests of one communicator, source, destination and tag: all sends or all receives.
typedef struct mpi_pairs {
    const ls_shared_comm *comm;
    int source, dest, tag;  // ranks of the world
    bool send;
    half *first, *last;  // oldest first
    struct mpi_pairs *next;
} mpi_pairs;

static size_t home(const mpi_pairs *of) {
    const uint64_t key[4] = {(uint64_t)(uintptr_t)of->comm, (uint64_t)of->source,
                             (uint64_t)of->dest, (uint64_t)of->tag};
    uint64_t mixed = 0;
    for (int i = 0; i < 4; i++) {
        mixed = (mixed ^ key[i]) * UINT64_C(0x9e3779b97f4a7c15);
        mixed ^= mixed >> 32;
    }
    return (size_t)(mixed % LS_MPI_PAIR_HEADS);
}

// The pairs that match `wanted`; created if there are none.
static mpi_pairs *pairs_like(const mpi_pairs *wanted) {
    mpi_state *state = &ls_mpi__state;
    if (state->pairs == NULL) {
        state->pairs = ls_mpi__alloc(LS_MPI_PAIR_HEADS * sizeof *state->pairs);
    }
    mpi_pairs **at = &state->pairs[home(wanted)];
    for (; *at != NULL; at = &(*at)->next) {
        const mpi_pairs *is = *at;
        if (is->comm == wanted->comm && is->source == wanted->source && is->dest == wanted->dest &&
            is->tag == wanted->tag) {
            return *at;
        }
    }
    *at = ls_mpi__alloc(sizeof **at);
    **at = *wanted;
    return *at;
}

// The number of the oldest pair that lacks this side.
static int join_pair(const mpi_comm *comm, const partitioned *p) {
    int peer = ls_mpi__comm_world_rank(comm, (comm->inter ? comm->remote_first : 0) + p->peer);
    int me = comm->owner->id;
    const mpi_pairs wanted = {.comm = comm->inner->shared,
                              .source = p->send ? me : peer,
                              .dest = p->send ? peer : me,
                              .tag = p->tag};
    ls_schedule__enter(comm->owner->rank);
    mpi_pairs *like = pairs_like(&wanted);
    half *of = like->first;
    int number = of != NULL ? of->number : 0;
    if (of != NULL && like->send != p->send) {
        like->first = of->next;
        free(of);
    } else {
        number = ls_mpi__state.pair_count++;
        half *made = ls_mpi__alloc(sizeof *made);
        made->number = number;
        *(of != NULL ? &like->last->next : &like->first) = made;
        like->last = made;
        like->send = p->send;
    }
    ls_schedule__leave(comm->owner->rank);
    return number;
}

void ls_mpi__parts_end(void) {
    for (size_t i = 0; ls_mpi__state.pairs != NULL && i < LS_MPI_PAIR_HEADS; i++) {
        while (ls_mpi__state.pairs[i] != NULL) {
            mpi_pairs *gone = ls_mpi__state.pairs[i];
            while (gone->first != NULL) {
                half *next = gone->first->next;
                free(gone->first);
                gone->first = next;
            }
            ls_mpi__state.pairs[i] = gone->next;
            free(gone);
        }
    }
    free(ls_mpi__state.pairs);
    ls_mpi__state.pairs = NULL;
}

bool ls_mpi__parts_open(const mpi_request *request) {
    const mpi_parts *parts = request->parts;
    return parts != NULL && parts->send && parts->ready < parts->count;
}

static const void *part_at(const mpi_request *request, int n) {
    const mpi_side *side = request->parts->send ? &request->record.send : &request->record.recv;
    return (const char *)side->buf +
           (ptrdiff_t)(side->count / request->parts->count) * side->type->extent * n;
}

static mpi_owned *own_part(mpi_rank *me, const mpi_request *request, int n) {
    const mpi_side *side = request->parts->send ? &request->record.send : &request->record.recv;
    return ls_mpi__own(me, part_at(request, n), (size_t)(side->count / request->parts->count),
                       side->type, !request->parts->send, request->record.function);
}

static void disown_part(mpi_rank *me, mpi_parts *parts, int n) {
    ls_mpi__disown(me, parts->owned[n]);
    parts->owned[n] = NULL;
}

// Returns the buffer to the program.
void ls_mpi__parts_done(mpi_rank *me, mpi_request *request) {
    for (int n = 0; request->parts != NULL && n < request->parts->count; n++) {
        disown_part(me, request->parts, n);
    }
}

int ls_mpi__parts_tag(const mpi_request *request) {
    return request->parts->tag;
}

void ls_mpi__parts_free(mpi_rank *me, mpi_request *request) {
    if (request->parts != NULL) {
        ls_mpi__parts_done(me, request);
        free(request->parts->owned);
        free(request->parts->is_ready);
        free(request->parts);
        request->parts = NULL;
    }
}

int ls_mpi__parts_start(mpi_rank *me, mpi_request *request) {
    mpi_parts *parts = request->parts;
    parts->ready = 0;
    for (int n = 0; n < parts->count; n++) {
        parts->is_ready[n] = false;
        parts->owned[n] = parts->send ? NULL : own_part(me, request, n);
    }
    return parts->send
               ? MPI_SUCCESS
               : ls_mpi__message_post(me, &request->proto, &request->record, &request->inner);
}

static int make(mpi_where at, const partitioned *p, MPI_Request *out) {
    mpi_record record;
    if (out == NULL || p->partitions <= 0 || p->count < 0 || p->count > INT32_MAX / p->partitions) {
        return ls_mpi__error(at.me, NULL, p->count < 0 ? MPI_ERR_COUNT : MPI_ERR_ARG, at.function,
                             out == NULL ? "the request argument is NULL"
                                         : "%d partitions of %lld elements",
                             p->partitions, (long long)p->count);
    }
    const mpi_message message = {.send = p->send,
                                 .buf = p->buf,
                                 .count = (int)p->count * p->partitions,
                                 .type = p->type,
                                 .peer = p->peer,
                                 .tag = p->tag,
                                 .comm = p->comm};
    if (!p->send && (p->peer == MPI_ANY_SOURCE || p->tag == MPI_ANY_TAG)) {
        return ls_mpi__error(at.me, NULL, p->tag == MPI_ANY_TAG ? MPI_ERR_TAG : MPI_ERR_RANK,
                             at.function,
                             "partitioned receives need a source and a tag, not MPI_ANY_SOURCE "
                             "or MPI_ANY_TAG");
    }
    MPI_TRY(ls_mpi__message_read(&record, at, &message));
    mpi_request *made = ls_mpi__message_request(at, &message, &record, true);
    made->proto.tag = LS_TAG_ANY - 1 - (p->peer != MPI_PROC_NULL ? join_pair(record.comm, p) : 0);
    made->parts = ls_mpi__alloc(sizeof *made->parts);
    *made->parts = (mpi_parts){.send = p->send, .count = p->partitions, .tag = p->tag};
    made->parts->owned = ls_mpi__alloc((size_t)p->partitions * sizeof(mpi_owned *));
    made->parts->is_ready = ls_mpi__alloc((size_t)p->partitions * sizeof(bool));
    *out = made->handle;
    return MPI_SUCCESS;
}

int MPI_Psend_init(const void *buf, int partitions, MPI_Count count, MPI_Datatype type, int dest,
                   int tag, MPI_Comm comm, MPI_Info info, MPI_Request *request) {
    MPI_ENTER_AT(at);
    (void)info;
    return make(at, &(partitioned){true, buf, partitions, count, type, dest, tag, comm}, request);
}

int MPI_Precv_init(void *buf, int partitions, MPI_Count count, MPI_Datatype type, int source,
                   int tag, MPI_Comm comm, MPI_Info info, MPI_Request *request) {
    MPI_ENTER_AT(at);
    (void)info;
    return make(at, &(partitioned){false, buf, partitions, count, type, source, tag, comm},
                request);
}

// The request of a partitioned send (receive).
static int parts_arg(mpi_request **out, mpi_where at, MPI_Request handle, bool send, int n) {
    const char *why;
    *out = ls_mpi__request_of(at.me, handle, &why);
    if (*out == NULL || (*out)->parts == NULL || (*out)->parts->send != send) {
        if (*out != NULL) {
            why = send ? "not from MPI_Psend_init" : "not from MPI_Precv_init";
        }
        return ls_mpi__error(at.me, NULL, MPI_ERR_REQUEST, at.function, "the request is %s", why);
    }
    return n >= 0 && n < (*out)->parts->count
               ? MPI_SUCCESS
               : ls_mpi__error(at.me, (*out)->comm, MPI_ERR_ARG, at.function,
                               "partition %d is not in [0, %d)", n, (*out)->parts->count);
}

static int ready(mpi_where at, int n, MPI_Request handle) {
    mpi_request *request;
    MPI_TRY(parts_arg(&request, at, handle, true, n));
    mpi_parts *parts = request->parts;
    if (!request->active || parts->is_ready[n]) {
        return ls_mpi__error(at.me, request->comm, MPI_ERR_REQUEST, at.function,
                             request->active ? "partition %d is ready already"
                                             : "partition %d of a request that is not started",
                             n);
    }
    parts->is_ready[n] = true;
    parts->ready += 1;
    ls_mpi__threads_meet(at.me);  // the last thread sends the parts that others marked
    parts->owned[n] = own_part(at.me, request, n);
    if (parts->ready < parts->count || ls_mpi__request_to_nobody(request)) {
        return MPI_SUCCESS;
    }
    return ls_mpi__message_post(at.me, &request->proto, &request->record, &request->inner);
}

int MPI_Pready(int partition, MPI_Request request) {
    MPI_ENTER_AT(at);
    return ready(at, partition, request);
}

int MPI_Pready_range(int low, int high, MPI_Request request) {
    MPI_ENTER_AT(at);
    for (int n = low; n <= high; n++) {
        MPI_TRY(ready(at, n, request));
    }
    return MPI_SUCCESS;
}

int MPI_Pready_list(int length, const int partitions[], MPI_Request request) {
    MPI_ENTER_AT(at);
    for (int i = 0; i < length; i++) {
        MPI_TRY(ready(at, partitions[i], request));
    }
    return MPI_SUCCESS;
}

int MPI_Parrived(MPI_Request handle, int partition, int *flag) {
    MPI_ENTER_AT(at);
    mpi_request *request;
    MPI_TRY(parts_arg(&request, at, handle, false, partition));
    ls_mpi__observe();
    if (request->active && !ls_mpi__request_done(request)) {
        ls_mpi__poll(at.me, __func__);
    }
    *flag = !request->active || ls_mpi__request_done(request) ? 1 : 0;
    if (*flag != 0) {
        disown_part(at.me, request->parts, partition);
    }
    return MPI_SUCCESS;
}
