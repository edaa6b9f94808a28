// Creates communicators: the groups that a split, dup or create asks for become a new shared
// communicator, with one object on each rank.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/compare.h"
#include "mpi/coll.h"

#define OWN_FAMILY UINT64_MAX  // shared communicators of MPI_COMM_SELF

// The rank's object for a shared communicator. Its first `first_size` members are one group; any
// others are the remote group.
mpi_comm *ls_mpi__comm_object(mpi_rank *me, ls_shared_comm *shared, int first_size, int *out) {
    mpi_comm *made = ls_mpi__alloc(sizeof *made);
    ls_rank_comm *inner = NULL;
    if (ls_rank_comm__make(&inner, shared, me->rank, true) != LS_OK) {
        abort();
    }
    int all = shared->comm->size;
    made->inner = inner;
    made->inter = first_size < all;
    bool second = inner->member >= first_size;
    made->first = second ? first_size : 0;
    made->size = second ? all - first_size : first_size;
    made->remote_first = second || !made->inter ? 0 : first_size;
    made->remote_size = made->inter ? all - made->size : 0;
    made->rank = inner->member - made->first;
    made->errhandler = MPI_ERRORS_ARE_FATAL;
    made->owner = me;
    made->handle = ls_mpi__handle_add(me, MPI_KIND_COMM, made);
    if (out != NULL) {
        *out = made->handle;
    }
    return made;
}

static int open_place(ls_shared_comm **out, ls_spmd *run, const int *ranks, int count,
                      uint64_t family, const char *function, const char *name) {
    char own[64];
    ls_comm *comm = NULL;
    if (name == NULL) {
        (void)snprintf(own, sizeof own, "%s #%d", function, ++ls_mpi__state.made_comms);
        name = own;
    }
    LS_TRY(ls_comm_create(&comm, run->backend, ranks, count, name));
    comm->family = family;
    int status = ls_shared_comm__make(out, run, comm, false);
    if (status != LS_OK) {
        ls_comm_free(comm);
    }
    return status;
}

void ls_mpi__comms_open(mpi_rank *me) {
    ls_spmd *run = ls_mpi__state.run;
    mpi_comm *world = ls_mpi__alloc(sizeof *world);
    *world = (mpi_comm){.handle = MPI_COMM_WORLD,
                        .inner = me->rank->world,
                        .size = run->rank_count,
                        .rank = me->id,
                        .errhandler = MPI_ERRORS_ARE_FATAL,
                        .owner = me};
    (void)snprintf(world->name, sizeof world->name, "MPI_COMM_WORLD");
    me->world = world;
    ls_mpi__handle_constant(me, MPI_KIND_COMM, 1, world);
    ls_shared_comm *place = NULL;
    if (open_place(&place, run, &me->id, 1, OWN_FAMILY, "MPI_COMM_SELF", NULL) != LS_OK) {
        abort();
    }
    me->self = ls_mpi__comm_object(me, place, 1, NULL);
    ls_mpi__handle_free(me, me->self->handle);
    me->self->handle = MPI_COMM_SELF;
    (void)snprintf(me->self->name, sizeof me->self->name, "MPI_COMM_SELF");
    ls_mpi__handle_constant(me, MPI_KIND_COMM, 2, me->self);
}

// ---- By a matched collective --------------------------------------------------------------------
typedef struct member {
    int color, key, index;
} member;

static int by_color(const void *a, const void *b) {
    const member *x = a, *y = b;
    int order = ls_compare(x->color, y->color);
    order = order != 0 ? order : ls_compare(x->key, y->key);
    return order != 0 ? order : ls_compare(x->index, y->index);
}

static void give(ls_request *request, ls_shared_comm *place, int first_size) {
    mpi_record *record = request->record;
    mpi_rank *me = record->comm->owner;
    mpi_comm *made = ls_mpi__comm_object(me, place, first_size, record->out);
    mpi_slot *slot = ls_mpi__handle_slot(me, made->handle);
    slot->function = record->function;
    slot->file = request->call.file;
    slot->line = request->call.line;
    slot->internal = record->out == NULL;
    made->errhandler = record->comm->errhandler;
    made->topology = record->topology;
    made->attributes = record->attributes;
}

// The members of each color, ordered by key. On an intercommunicator both groups, one after the
// other.
int ls_mpi__make_comms(ls_spmd *run, ls_request *const *requests, int size) {
    member *list = ls_mpi__alloc((size_t)size * sizeof *list);
    int *ranks = ls_mpi__alloc((size_t)size * sizeof *ranks);
    const mpi_record *model = requests[0]->record;
    bool inter = model->comm->inter && !model->merges;
    int border = size;
    if (model->comm->inter) {
        border = (model->comm->first == 0 ? model->comm->size : model->comm->remote_size);
    }
    for (int m = 0; m < size; m++) {
        const mpi_record *record = requests[m]->record;
        list[m] = (member){record->color, record->key, m};
        if (record->out != NULL) {
            *record->out = MPI_COMM_NULL;
        }
    }
    int firsts[3] = {0, border, size};
    if (inter) {
        qsort(list, (size_t)border, sizeof *list, by_color);
        qsort(list + border, (size_t)(size - border), sizeof *list, by_color);
    } else {
        qsort(list, (size_t)size, sizeof *list, by_color);
        firsts[1] = size;
    }
    int status = LS_OK;
    for (int i = 0; i < firsts[1] && status == LS_OK;) {
        int color = list[i].color, count = 0, first_size = 0, end = i;
        for (; end < firsts[1] && list[end].color == color; end++) {
            ranks[count++] = requests[list[end].index]->call.rank;
        }
        first_size = count;
        for (int k = firsts[1]; inter && k < size; k++) {
            if (list[k].color == color) {
                ranks[count++] = requests[list[k].index]->call.rank;
            }
        }
        ls_shared_comm *place = NULL;
        bool wanted = color != MPI_UNDEFINED && !(inter && count == first_size);
        const ls_call *call = &requests[list[i].index]->call;
        uint64_t family =
            ls_comm_family(model->comm->inner->shared->comm->family, call->file, call->line);
        status =
            wanted ? open_place(&place, run, ranks, count, family, model->function, NULL) : LS_OK;
        for (int k = 0; k < size && place != NULL; k++) {
            if (list[k].color == color) {
                give(requests[list[k].index], place, first_size);
            }
        }
        i = end;
    }
    free(list);
    free(ranks);
    return status;
}

// ---- Without a collective -----------------------------------------------------------------------
// Places that no collective of their ranks makes: the first that comes opens one, the others join.
typedef struct pending {
    ls_shared_comm *place;
    const ls_shared_comm *parent;
    uint64_t family;  // of the communicator
    const char *function;
    int tag, count, joined;
    bool *here;  // [count]
    struct pending *next;
} pending;

static pending **pending_like(const pending *wanted, const int *ranks, int own) {
    pending **at = (pending **)&ls_mpi__state.pending;
    for (; *at != NULL; at = &(*at)->next) {
        const pending *is = *at;
        if (is->parent == wanted->parent && is->tag == wanted->tag && is->count == wanted->count &&
            strcmp(is->function, wanted->function) == 0 && !is->here[own] &&
            memcmp(is->place->comm->ranks, ranks, (size_t)is->count * sizeof(int)) == 0) {
            break;
        }
    }
    return at;
}

// The shared communicator of `wanted` with this rank in it; name NULL: a separate one.
static int join(ls_shared_comm **out, mpi_rank *me, const pending *wanted, const int *ranks,
                const char *name) {
    int own = 0;
    while (ranks[own] != me->id) {
        own += 1;
    }
    pending **link = pending_like(wanted, ranks, own), *at = *link;
    if (at == NULL) {
        ls_shared_comm *place = NULL;
        LS_TRY(open_place(&place, ls_mpi__state.run, ranks, wanted->count, wanted->family,
                          wanted->function, name));
        at = ls_mpi__alloc(sizeof *at);
        *at = *wanted;
        at->place = place;
        at->here = ls_mpi__alloc((size_t)at->count);
        *link = at;
    }
    *out = at->place;
    at->here[own] = true;
    at->joined += 1;
    if (at->joined == at->count) {
        *link = at->next;
        free(at->here);
        free(at);
    }
    return LS_OK;
}

int ls_mpi__comm_pending(mpi_rank *me, const mpi_comm *parent, const int *ranks, int count,
                         int first_size, int tag, const char *function, int *out) {
    const ls_shared_comm *of = parent != NULL ? parent->inner->shared : NULL;
    uint64_t family = of != NULL ? of->comm->family : OWN_FAMILY;
    const pending wanted = {.parent = of,
                            .family = ls_comm_family(family, ls_mpi__file, ls_mpi__line),
                            .function = function,
                            .tag = tag,
                            .count = count};
    ls_schedule__enter(me->rank);
    ls_shared_comm *place = NULL;
    int status = join(&place, me, &wanted, ranks, NULL);
    mpi_comm *made = status == LS_OK ? ls_mpi__comm_object(me, place, first_size, out) : NULL;
    if (made != NULL) {
        ls_mpi__handle_slot(me, made->handle)->function = function;
        made->errhandler = parent != NULL ? parent->errhandler : made->errhandler;
    }
    ls_schedule__leave(me->rank);
    (void)ls_mpi__leave(me, status);
    mpi_record record = {.collective = &ls_mpi__barrier, .comm = made, .function = function};
    return ls_mpi__collective(me, &record, NULL);
}

// Members match persistent collectives in the order of their initialisation, and may start them in
// any order. So each has a separate shared communicator. The collectives of each window have one as
// well.
int ls_mpi__comm_channel(ls_rank_comm **out, mpi_comm *comm, const char *of) {
    mpi_rank *me = comm->owner;
    const ls_comm *inner = comm->inner->shared->comm;
    const pending wanted = {.parent = comm->inner->shared,
                            .family = inner->family,
                            .function = of,
                            .tag = comm->channels++,
                            .count = inner->size};
    ls_schedule__enter(me->rank);
    ls_shared_comm *place = NULL;
    const char *name = comm == me->world ? "MPI_COMM_WORLD" : inner->name;
    int status = join(&place, me, &wanted, inner->ranks, name);
    status = status == LS_OK ? ls_rank_comm__make(out, place, me->rank, true) : status;
    ls_schedule__leave(me->rank);
    return ls_mpi__leave(me, status);
}
