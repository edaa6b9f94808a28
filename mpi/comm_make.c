// How communicators come to be: what the members of a split, a dup or a creation ask for becomes a
// new meeting place, and an object of each of its ranks.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mpi/internal.h"

// The rank's object for a place whose first `first_size` members are one group and, where there are
// more, the others the other one.
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
                      const char *function) {
    char name[64];
    ls_comm *comm = NULL;
    (void)snprintf(name, sizeof name, "%s #%d", function, ++ls_mpi__state.made_comms);
    LS_TRY(ls_comm_create(&comm, run->backend, ranks, count, name));
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
    if (open_place(&place, run, &me->id, 1, "MPI_COMM_SELF") != LS_OK) {
        abort();
    }
    me->self = ls_mpi__comm_object(me, place, 1, NULL);
    ls_mpi__handle_free(me, me->self->handle);
    me->self->handle = MPI_COMM_SELF;
    (void)snprintf(me->self->name, sizeof me->self->name, "MPI_COMM_SELF");
    ls_mpi__handle_constant(me, MPI_KIND_COMM, 2, me->self);
}

// ---- Where members have met ---------------------------------------------------------------------
typedef struct member {
    int color, key, index;
} member;

static int by_color(const void *a, const void *b) {
    const member *x = a, *y = b;
    if (x->color != y->color) {
        return x->color < y->color ? -1 : 1;
    }
    if (x->key != y->key) {
        return x->key < y->key ? -1 : 1;
    }
    return (x->index > y->index) - (x->index < y->index);
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
}

// The members of each color, in the order of their keys. On an intercommunicator those of both
// groups, one after the other.
int ls_mpi__make_comms(ls_spmd *run, ls_request *const *requests, int size) {
    member *list = ls_mpi__alloc((size_t)size * sizeof *list);
    int *ranks = ls_mpi__alloc((size_t)size * sizeof *ranks);
    const mpi_record *model = requests[0]->record;
    bool inter = model->comm->inter && !model->merges;
    int border = model->comm->inter
                     ? (model->comm->first == 0 ? model->comm->size : model->comm->remote_size)
                     : size;
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
        status = wanted ? open_place(&place, run, ranks, count, model->function) : LS_OK;
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

// ---- Without a place to meet --------------------------------------------------------------------
// Communicators that only the ranks of a group make: the first that comes opens it, the others
// join.
typedef struct pending {
    ls_shared_comm *place;
    const ls_shared_comm *parent;
    int tag, count, joined;
    bool *here;  // [count]
    struct pending *next;
} pending;

int ls_mpi__comm_pending(mpi_rank *me, const mpi_comm *parent, const int *ranks, int count,
                         int first_size, int tag, const char *function, int *out) {
    int own = 0;
    while (ranks[own] != me->id) {
        own += 1;
    }
    pending *at = ls_mpi__state.pending;
    for (; at != NULL; at = at->next) {
        if (at->parent == (parent != NULL ? parent->inner->shared : NULL) && at->tag == tag &&
            at->count == count && !at->here[own] &&
            memcmp(at->place->comm->ranks, ranks, (size_t)count * sizeof(int)) == 0) {
            break;
        }
    }
    ls_schedule__enter(me->rank);
    int status = LS_OK;
    if (at == NULL) {
        at = ls_mpi__alloc(sizeof *at);
        at->parent = parent != NULL ? parent->inner->shared : NULL;
        at->tag = tag;
        at->count = count;
        at->here = ls_mpi__alloc((size_t)count);
        at->next = ls_mpi__state.pending;
        status = open_place(&at->place, ls_mpi__state.run, ranks, count, function);
        ls_mpi__state.pending = at;
    }
    at->here[own] = true;
    mpi_comm *made = ls_mpi__comm_object(me, at->place, first_size, out);
    ls_mpi__handle_slot(me, made->handle)->function = function;
    made->errhandler = parent != NULL ? parent->errhandler : made->errhandler;
    ls_schedule__leave(me->rank);
    (void)ls_mpi__leave(me, status);
    mpi_record record = {.collective = &ls_mpi__barrier, .comm = made, .function = function};
    return ls_mpi__collective(me, &record, NULL);
}
