// See classes.h.
#include "backends/classes.h"

#include <string.h>

#include "collectives/hooks.h"

// A communicator that is open, in the order in which they were made.
typedef struct opened {
    const ls_comm *comm;
    struct opened *before, *after;
} opened;

// The calls of a class in this group.
typedef struct class_call {
    const ls_call *call;  // of the rank that is held; NULL: none
    ls_call_extent extent;
} class_call;

typedef struct classes {
    ls_backend backend;
    const int *class_of;
    class_call *now;  // [held]
    ls_call *calls;   // [world size] those of one set
    const ls_call **met;
    opened *first, *last;
    uintptr_t addresses;
} classes;

// ---- Communicators and memory -------------------------------------------------------------------
static int comm_open(ls_backend *backend, ls_comm *comm) {
    classes *all = backend->impl;
    void *memory = NULL;
    LS_TRY(ls_alloc(&memory, 1, sizeof(opened)));
    opened *made = memory;
    *made = (opened){.comm = comm, .before = all->last};
    *(all->last != NULL ? &all->last->after : &all->first) = made;
    all->last = made;
    comm->impl = made;
    return LS_OK;
}

static void comm_close(ls_backend *backend, ls_comm *comm) {
    classes *all = backend->impl;
    opened *gone = comm->impl;
    *(gone->before != NULL ? &gone->before->after : &all->first) = gone->after;
    *(gone->after != NULL ? &gone->after->before : &all->last) = gone->before;
    ls_free(gone, 1, sizeof *gone);
}

static int alloc(ls_backend *backend, void **out, size_t bytes) {
    return ls_addresses_take(out, &((classes *)backend->impl)->addresses, bytes);
}

static void release(ls_backend *backend, void *pointer, size_t bytes) {
    (void)backend, (void)pointer, (void)bytes;
}

// ---- Calls --------------------------------------------------------------------------------------
// The call of another member of the class. In place, the smaller side is the member's own block.
static void stand_for(ls_call *out, const class_call *of, const ls_comm *comm, int member) {
    const ls_call *call = of->call;
    *out = *call;
    out->comm = comm;
    out->rank = comm->ranks[member];
    if (!of->extent.in_place || of->extent.send_bytes == of->extent.recv_bytes) {
        return;
    }
    bool sends_block = of->extent.send_bytes < of->extent.recv_bytes;
    uintptr_t base = (uintptr_t)(sends_block ? call->recv : call->send);
    void *own = (void *)(base + ls_call_own_offset(out, member) * ls_dtype_bytes(call->dtype));
    out->send = sends_block ? own : call->send;
    out->recv = sends_block ? call->recv : own;
}

static int meet(classes *all, const ls_comm *comm) {
    for (int m = 0; m < comm->size; m++) {
        const class_call *of = &all->now[all->class_of[comm->ranks[m]]];
        if (of->call == NULL) {
            return LS_FAIL_RANK(LS_ERR_MISMATCH, comm->ranks[m],
                                "communicator %s: rank %d makes no such call", comm->name,
                                comm->ranks[m]);
        }
        stand_for(&all->calls[m], of, comm, m);
        all->met[m] = &all->calls[m];
    }
    LS_TRY(ls_calls_check(all->met, comm->size));
    ls_hooks__met(&all->backend, all->met, comm->size);
    return LS_OK;
}

static int run(ls_backend *backend, ls_call *calls, int call_count) {
    classes *all = backend->impl;
    int held = ls_world_held_count(backend->world);
    memset(all->now, 0, (size_t)held * sizeof *all->now);
    for (int i = 0; i < call_count; i++) {
        class_call *now = &all->now[ls_world_held_index(backend->world, calls[i].rank)];
        LS_TRY(ls_call_check(&now->extent, &calls[i]));
        if (ls_kind_is_message(calls[i].kind) || now->call != NULL ||
            calls[i].comm->family != calls[0].comm->family) {
            return LS_FAIL_RANK(LS_ERR_UNSUPPORTED, calls[i].rank,
                                "rank classes support one collective per group");
        }
        now->call = &calls[i];
    }
    for (const opened *at = call_count > 0 ? all->first : NULL; at != NULL; at = at->after) {
        LS_TRY(at->comm->family == calls[0].comm->family ? meet(all, at->comm) : LS_OK);
    }
    return LS_OK;
}

// ---- The backend --------------------------------------------------------------------------------
static void destroy(ls_backend *backend) {
    classes *all = backend->impl;
    size_t size = (size_t)ls_world_size(backend->world);
    ls_free(all->now, (size_t)ls_world_held_count(backend->world), sizeof *all->now);
    ls_free(all->calls, size, sizeof *all->calls);
    ls_free((void *)all->met, size, sizeof *all->met);
    ls_free(all, 1, sizeof *all);
}

static const ls_backend_ops ops = {
    .name = "classes",
    .alloc = alloc,
    .free = release,
    .comm_open = comm_open,
    .comm_close = comm_close,
    .run = run,
    .destroy = destroy,
};

int ls_backend_classes_create(ls_backend **out, ls_world *world, const int *class_of) {
    LS_ASSERT(out != NULL && world != NULL && class_of != NULL);
    *out = NULL;
    void *memory = NULL;
    size_t size = (size_t)ls_world_size(world);
    LS_TRY(ls_alloc(&memory, 1, sizeof(classes)));
    classes *all = memory;
    *all = (classes){.backend = {.ops = &ops, .world = world, .impl = all}, .class_of = class_of};
    int status = ls_alloc(&memory, (size_t)ls_world_held_count(world), sizeof *all->now);
    all->now = status == LS_OK ? memory : NULL;
    if (status == LS_OK) {
        status = ls_alloc(&memory, size, sizeof *all->calls);
        all->calls = status == LS_OK ? memory : NULL;
    }
    if (status == LS_OK) {
        status = ls_alloc(&memory, size, sizeof *all->met);
        all->met = status == LS_OK ? memory : NULL;
    }
    if (status != LS_OK) {
        destroy(&all->backend);
        return status;
    }
    *out = &all->backend;
    return LS_OK;
}
