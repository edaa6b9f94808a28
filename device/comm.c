// NCCL's host side: communicators, windows, device communicators. Calls of all members match, and
// must be equal.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device/internal.h"

enum { NCCL_SUCCESS = 0, NCCL_INVALID_ARGUMENT = 4, NCCL_INVALID_USAGE = 5 };

typedef struct pending {
    device_call *call;
    device_thread *thread;
    struct pending *next;
} pending;

static pending *grouped;
static int ids;

int ls_nccl_unique_id(ls_cuda_unique_id *out) {
    memset(out, 0, sizeof *out);
    (void)snprintf(out->internal, sizeof out->internal, "lockstep %d", ++ids);
    return NCCL_SUCCESS;
}

// ---- Calls that all members make ----------------------------------------------------------------
static void describe_meet(ls_text *text, const device_thread *thread) {
    const device_call *shared = thread->on;
    ls_text_puts(text, "waits in");
    const char *kind = "a call";
    for (int r = 0; r < shared->size; r++) {
        kind = shared->kinds[r] != NULL ? shared->kinds[r] : kind;
    }
    ls_text_printf(text, " %s for", kind);
    for (int r = 0; r < shared->size; r++) {
        if (shared->kinds[r] == NULL) {
            ls_text_printf(text, " rank %d", r);
        }
    }
}

bool ls_device__waits_in_call(const device_thread *thread) {
    return thread->why == describe_meet;
}

// Members differ: with the first of them.
static void find_difference(const device_call *shared, int other, bool kind) {
    ls_text text = {0};
    if (kind) {
        ls_text_printf(&text, "rank %d calls %s (%s:%d), rank 0 calls %s (%s:%d)", other,
                       shared->kinds[other], shared->sites[other].file, shared->sites[other].line,
                       shared->kinds[0], shared->sites[0].file, shared->sites[0].line);
    } else {
        ls_text_printf(&text, "%s: rank %d gives %llu (%s:%d), rank 0 gives %llu (%s:%d)",
                       shared->kinds[0], other, (unsigned long long)shared->values[other],
                       shared->sites[other].file, shared->sites[other].line,
                       (unsigned long long)shared->values[0], shared->sites[0].file,
                       shared->sites[0].line);
    }
    ls_device__find(kind ? LS_FINDING_KIND_MISMATCH : LS_FINDING_COUNT_MISMATCH, &other, 1,
                    shared->sites[other], &text);
    ls_device__fail(LS_ERR_FINDING, "calls of a communicator's ranks differ");
}

static void compare(const device_call *shared) {
    for (int r = 1; r < shared->size; r++) {
        bool kind = strcmp(shared->kinds[r], shared->kinds[0]) != 0;
        if (kind || shared->values[r] != shared->values[0]) {
            find_difference(shared, r, kind);
            return;
        }
    }
}

static void await_meet(device_call *call, ls_cuda_site at) {
    while (call->arrived < call->size) {
        ls_device__wait(&call->waiting, describe_meet, call, 0, at);
    }
    device_unit *unit = ls_device__state.running->unit;
    ls_device__clock_join(&unit->known, &call->known);
    ls_device__unit_step(unit);
}

// The next call of the member.
static device_call *next_call(device_comm *comm) {
    device_call **link = &comm->shared->calls;
    for (int i = 0; i < comm->calls; i++) {
        link = &(*link)->next;
    }
    comm->calls += 1;
    if (*link == NULL) {
        *link = ls_device__alloc(sizeof **link);
        (*link)->size = comm->shared->size;
    }
    return *link;
}

static device_call *arrive(device_comm *comm, const char *kind, uint64_t value, ls_cuda_site at) {
    device_thread *self = ls_device__state.running;
    ls_device__state.calls += 1;
    ls_device__yield();
    device_call *call = next_call(comm);
    call->kinds[comm->rank] = kind;
    call->values[comm->rank] = value;
    call->sites[comm->rank] = at;
    call->arrived += 1;
    ls_device__clock_join(&call->known, &self->unit->known);
    ls_device__unit_step(self->unit);
    if (call->arrived == call->size) {
        compare(call);
        ls_device__wake(&call->waiting);
    }
    return call;
}

static void meet(device_comm *comm, const char *kind, uint64_t value, ls_cuda_site at) {
    device_thread *self = ls_device__state.running;
    device_call *call = arrive(comm, kind, value, at);
    if (self->grouped > 0) {
        pending *made = ls_device__alloc(sizeof *made);
        *made = (pending){call, self, grouped};
        grouped = made;
        return;
    }
    await_meet(call, at);
}

int ls_nccl_group(int change, ls_cuda_site at) {
    device_thread *self = ls_device__state.running;
    self->grouped += change;
    if (self->grouped < 0) {
        self->grouped = 0;
        ls_device__invalid(self->rank, at, "ncclGroupEnd without ncclGroupStart");
        return NCCL_INVALID_USAGE;
    }
    if (self->grouped == 0) {
        ls_device__calls_launch();
    }
    for (pending **link = &grouped; self->grouped == 0 && *link != NULL;) {
        pending *one = *link;
        if (one->thread != self) {
            link = &one->next;
            continue;
        }
        *link = one->next;
        await_meet(one->call, at);
        free(one);
        link = &grouped;
    }
    return NCCL_SUCCESS;
}

// ---- Communicators ------------------------------------------------------------------------------
static device_shared *shared_of(const ls_cuda_unique_id *id, int size) {
    device_shared *at = ls_device__state.shared;
    for (; at != NULL && memcmp(at->id, id->internal, sizeof at->id) != 0; at = at->next) {
    }
    if (at == NULL) {
        at = ls_device__alloc(sizeof *at);
        memcpy(at->id, id->internal, sizeof at->id);
        at->size = size;
        at->next = ls_device__state.shared;
        ls_device__state.shared = at;
    }
    return at;
}

static device_comm *make_comm(device_shared *shared, int rank, int device) {
    device_comm *made = ls_device__alloc(sizeof *made);
    *made = (device_comm){.shared = shared, .rank = rank, .device = device};
    shared->members[rank] = made;
    return made;
}

int ls_nccl_init(void **comm, int size, const ls_cuda_unique_id *id, int rank, ls_cuda_site at) {
    device_thread *self = ls_device__state.running;
    if (size < 1 || size > ls_device__state.rank_count || rank < 0 || rank >= size) {
        ls_device__invalid(self->rank, at,
                           "ncclCommInitRank: rank %d of %d; the run has %d devices (-n)", rank,
                           size, ls_device__state.rank_count);
        return NCCL_INVALID_ARGUMENT;
    }
    device_shared *shared = shared_of(id, size);
    if (shared->size != size || shared->members[rank] != NULL) {
        ls_device__invalid(self->rank, at, "ncclCommInitRank: rank %d of %d, %s", rank, size,
                           shared->size != size ? "where others gave another size"
                                                : "which another call has made");
        return NCCL_INVALID_USAGE;
    }
    device_comm *made = make_comm(shared, rank, self->rank);
    *comm = made;
    meet(made, "ncclCommInitRank", (uint64_t)size, at);
    return NCCL_SUCCESS;
}

int ls_nccl_init_all(void **comms, int count, const int *devices, ls_cuda_site at) {
    if (count < 1 || count > ls_device__state.rank_count) {
        ls_device__invalid(0, at, "ncclCommInitAll of %d ranks; the run has %d devices (-n)", count,
                           ls_device__state.rank_count);
        return NCCL_INVALID_ARGUMENT;
    }
    ls_cuda_unique_id id;
    (void)ls_nccl_unique_id(&id);
    device_shared *shared = shared_of(&id, count);
    for (int r = 0; r < count; r++) {
        comms[r] = make_comm(shared, r, devices != NULL ? devices[r] : r);
    }
    return NCCL_SUCCESS;
}

void ls_device__meet(void *comm, const char *call, ls_cuda_site at) {
    meet(comm, call, 0, at);
}

// It does not wait: a thread of several ranks ends one communicator after the other.
int ls_nccl_destroy(void *comm, const char *call, ls_cuda_site at) {
    (void)arrive(comm, call, 0, at);
    return NCCL_SUCCESS;
}

int ls_nccl_rank(void *comm) {
    return ((device_comm *)comm)->rank;
}

int ls_nccl_size(void *comm) {
    return ((device_comm *)comm)->shared->size;
}

// Ranks of a host reach each other's memory: those of the first axis of --mesh are hosts.
int ls_nccl_lsa_size(void *comm) {
    int size = ((device_comm *)comm)->shared->size;
    const ls_mesh *mesh = &ls_device__state.run->options.mesh;
    if (mesh->ndim < 2 || size != ls_device__state.rank_count) {
        return size;
    }
    return size / mesh->dim[0];
}

// ---- Windows ------------------------------------------------------------------------------------
int ls_nccl_window(void *comm, void *memory, size_t bytes, void **out, int flags, ls_cuda_site at) {
    device_comm *own = comm;
    const device_allocation *in = ls_device__allocation(memory);
    size_t offset = in != NULL ? (size_t)((char *)memory - in->start) : 0;
    if (in == NULL || in->freed || offset > in->bytes || bytes > in->bytes - offset) {
        ls_text text = {0};
        ls_text_printf(&text,
                       "ncclCommWindowRegister of %zu bytes of memory of rank %d that has "
                       "%zu",
                       bytes, own->rank, in != NULL && !in->freed ? in->bytes - offset : 0);
        ls_device__find(LS_FINDING_BUFFER_TOO_SMALL, &own->rank, 1, at, &text);
        return NCCL_INVALID_ARGUMENT;
    }
    device_window *made = ls_device__alloc(sizeof *made);
    *made = (device_window){.comm = own,
                            .shared = own->shared,
                            .rank = own->rank,
                            .number = own->windows++,
                            .base = memory,
                            .bytes = bytes,
                            .flags = flags,
                            .next = ls_device__state.windows};
    ls_device__state.windows = made;
    *out = made;
    meet(own, "ncclCommWindowRegister", bytes, at);
    return NCCL_SUCCESS;
}

device_window *ls_device__member(void *window, int peer) {
    device_window *own = window;
    if (peer < 0 || peer >= own->shared->size) {
        return NULL;
    }
    for (device_window *at = ls_device__state.windows; own->members[peer] == NULL && at != NULL;
         at = at->next) {
        if (at->shared == own->shared && at->number == own->number && at->rank == peer) {
            own->members[peer] = at;
        }
    }
    return own->members[peer];
}

int ls_nccl_window_rank(void *window) {
    return ((device_window *)window)->rank;
}

int ls_nccl_window_lsa(void *window) {
    return ls_nccl_lsa_size(((device_window *)window)->comm);
}

int ls_nccl_window_close(void *comm, void *window, ls_cuda_site at) {
    ((device_window *)window)->closed = true;
    meet(comm, "ncclCommWindowDeregister", (uint64_t)((device_window *)window)->number, at);
    return NCCL_SUCCESS;
}

void *ls_cuda_window_pointer(void *window, size_t offset, int peer) {
    const device_window *at = ls_device__member(window, peer);
    return at != NULL ? (char *)at->base + offset : NULL;
}

int ls_nccl_free(void *memory, ls_cuda_site at) {
    for (const device_window *w = ls_device__state.windows; w != NULL; w = w->next) {
        if (w->base == memory && !w->closed) {
            ls_device__invalid(w->rank, at, "ncclMemFree of window %d, which is registered",
                               w->number);
        }
    }
    return ls_cuda_free(memory, at);
}

// ---- Device communicators -----------------------------------------------------------------------
static device_resources *resources_for(device_comm *own, const ls_cuda_requirements *wanted) {
    int size = own->shared->size;
    for (device_resources *at = ls_device__state.resources; at != NULL; at = at->next) {
        if (at->shared == own->shared && at->number == own->dev_comms) {
            return at;
        }
    }
    device_resources *made = ls_device__alloc(sizeof *made);
    made->shared = own->shared;
    made->number = own->dev_comms;
    made->signals = wanted->signals;
    made->counters = wanted->counters;
    const int counts[BARRIER_KINDS] = {wanted->lsa_barriers,   wanted->rail_barriers,
                                       wanted->world_barriers, wanted->both_barriers,
                                       wanted->both_barriers,  wanted->both_barriers};
    for (int i = 0; i < BARRIER_KINDS; i++) {
        made->barriers[i] = counts[i];
        made->meetings[i] = ls_device__alloc((size_t)counts[i] * sizeof(device_meeting));
    }
    for (int r = 0; r < size; r++) {
        made->cells[0][r] = ls_device__alloc((size_t)wanted->signals * sizeof(device_cell));
        made->cells[1][r] = ls_device__alloc((size_t)wanted->counters * sizeof(device_cell));
        made->shadows[r] = ls_device__alloc((size_t)wanted->signals * sizeof(uint64_t));
    }
    made->channels = ls_device__alloc((size_t)(size * size * CONTEXTS) * sizeof(device_clock));
    made->next = ls_device__state.resources;
    ls_device__state.resources = made;
    return made;
}

device_clock *ls_device__channel(const device_resources *comm, int rank, int peer, int context) {
    int size = comm->shared->size;
    return &comm->channels[(rank * size + peer) * CONTEXTS + context % CONTEXTS];
}

int ls_nccl_dev_comm(void *comm, const ls_cuda_requirements *wanted, ls_cuda_devcomm *out,
                     ls_cuda_site at) {
    device_comm *own = comm;
    bool network = wanted->signals > 0 || wanted->counters > 0 || wanted->rail_barriers > 0 ||
                   wanted->world_barriers > 0;
    if (network && !wanted->connected) {
        ls_device__invalid(own->rank, at,
                           "ncclDevCommCreate: signals, counters or barriers of GIN "
                           "without a ginConnectionType");
        return NCCL_INVALID_ARGUMENT;
    }
    int lsa = ls_nccl_lsa_size(comm);
    *out = (ls_cuda_devcomm){.rank = own->rank,
                             .nranks = own->shared->size,
                             .lsa_rank = own->rank % lsa,
                             .lsa_size = lsa,
                             .contexts = CONTEXTS,
                             .resources = resources_for(own, wanted)};
    own->dev_comms += 1;
    uint64_t sum = 0;
    const int *words = (const int *)(const void *)wanted;
    for (int i = 0; i < 6; i++) {
        sum = sum * 1000 + (uint64_t)words[i];
    }
    meet(own, "ncclDevCommCreate", sum, at);
    return NCCL_SUCCESS;
}

int ls_nccl_dev_comm_close(void *comm, ls_cuda_site at) {
    meet(comm, "ncclDevCommDestroy", 0, at);
    return NCCL_SUCCESS;
}

// ---- The end ------------------------------------------------------------------------------------
static void free_resources(device_resources *all) {
    int size = all->shared->size;
    for (int r = 0; r < size; r++) {
        for (int kind = 0; kind < 2; kind++) {
            int count = kind == 0 ? all->signals : all->counters;
            for (int i = 0; i < count; i++) {
                device_cell *cell = &all->cells[kind][r][i];
                ls_device__cell_forget(cell);
                ls_device__clock_free(&cell->known);
                ls_device__clock_free(&cell->order);
            }
            free(all->cells[kind][r]);
        }
        free(all->shadows[r]);
    }
    for (int i = 0; i < BARRIER_KINDS; i++) {
        for (int n = 0; n < all->barriers[i]; n++) {
            for (int r = 0; r < size; r++) {
                ls_device__clock_free(&all->meetings[i][n].known[r]);
                ls_device__clock_free(&all->meetings[i][n].order[r]);
            }
        }
        free(all->meetings[i]);
    }
    for (int i = 0; i < size * size * CONTEXTS; i++) {
        ls_device__clock_free(&all->channels[i]);
    }
    free(all->channels);
    free(all);
}

void ls_device__comms_close(void) {
    device_state *s = &ls_device__state;
    while (s->resources != NULL) {
        device_resources *gone = s->resources;
        s->resources = gone->next;
        free_resources(gone);
    }
    while (s->windows != NULL) {
        device_window *gone = s->windows;
        s->windows = gone->next;
        while (gone->cells != NULL) {
            device_cell *cell = gone->cells;
            gone->cells = cell->next;
            ls_device__cell_forget(cell);
            ls_device__clock_free(&cell->known);
            ls_device__clock_free(&cell->order);
            free(cell);
        }
        free(gone);
    }
    while (s->shared != NULL) {
        device_shared *gone = s->shared;
        s->shared = gone->next;
        for (int r = 0; r < gone->size; r++) {
            free(gone->members[r]);
        }
        ls_comm_free(gone->comm);
        while (gone->calls != NULL) {
            device_call *call = gone->calls;
            gone->calls = call->next;
            ls_device__clock_free(&call->known);
            free(call);
        }
        free(gone);
    }
    while (grouped != NULL) {
        pending *gone = grouped;
        grouped = gone->next;
        free(gone);
    }
    ids = 0;
}
