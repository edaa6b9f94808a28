// A backend of one rank, inside its program: code that works on the ranks a process holds (tensors,
// embedding modules) runs on the rank's thread, and its calls are the rank's calls. So what checks,
// schedules, faults and explanations do for programs they do for it.
#include <string.h>

#include "ranks/internal.h"

typedef struct own_backend {
    ls_backend backend;
    ls_backend_ops ops;
    ls_rank *self;
    const char *file;  // where its calls are made
    int line;
} own_backend;

static own_backend *own_of(ls_backend *backend) {
    return (own_backend *)backend;
}

// ---- Memory -------------------------------------------------------------------------------------
// What tensors and modules take on behalf of the rank is the rank's, with its faults.
static int rank_memory(void *data, size_t bytes) {
    ls_rank *self = data;
    self->allocations_made += 1;
    if (ls_fault__reached(self, LS_FAULT_ALLOCATION, (int64_t)self->allocations_made)) {
        return LS_FAIL(LS_ERR_MEMORY, "cannot allocate %zu bytes", bytes);
    }
    return LS_OK;
}

// Where data moves elsewhere, so does the memory of the calls.
static ls_backend *under(ls_backend *backend) {
    return own_of(backend)->self->run->backend;
}

static int alloc_under(ls_backend *backend, void **out, size_t bytes) {
    return under(backend)->ops->alloc(under(backend), out, bytes);
}

static void free_under(ls_backend *backend, void *pointer, size_t bytes) {
    under(backend)->ops->free(under(backend), pointer, bytes);
}

static int copy_in_under(ls_backend *backend, void *device, const void *host, size_t bytes) {
    return under(backend)->ops->copy_in(under(backend), device, host, bytes);
}

static int copy_out_under(ls_backend *backend, void *host, const void *device, size_t bytes) {
    return under(backend)->ops->copy_out(under(backend), host, device, bytes);
}

static bool is_device_under(ls_backend *backend, const void *pointer) {
    return under(backend)->ops->is_device(under(backend), pointer);
}

static int read_device_under(ls_backend *backend, void *host, const void *device, size_t bytes) {
    return under(backend)->ops->read_device(under(backend), host, device, bytes);
}

// ---- Communicators ------------------------------------------------------------------------------
// The mesh axis of which these ranks [size] are a fiber, or -1.
static int axis_of(const ls_mesh *mesh, const int *ranks, int size, int *fiber) {
    for (int axis = 0; axis < mesh->ndim; axis++) {
        if (mesh->dim[axis] != size) {
            continue;
        }
        ls_mesh_fiber(fiber, mesh, axis, ranks[0]);
        if (memcmp(fiber, ranks, (size_t)size * sizeof *fiber) == 0) {
            return axis;
        }
    }
    return -1;
}

static bool is_world(const ls_comm *comm, const ls_rank *self) {
    bool all = comm->size == ls_rank_count(self);
    for (int m = 0; m < comm->size && all; m++) {
        all = comm->ranks[m] == m;
    }
    return all;
}

// The run's own communicators where there is one; else a new one, which every rank makes.
static int comm_open(ls_backend *backend, ls_comm *comm) {
    own_backend *own = own_of(backend);
    ls_rank_comm *made = NULL;
    if (is_world(comm, own->self)) {
        comm->impl = ls_rank_world(own->self);
        return LS_OK;
    }
    void *fiber = NULL;
    LS_TRY(ls_alloc(&fiber, (size_t)comm->size, sizeof(int)));
    int axis = axis_of(ls_world_mesh(backend->world), comm->ranks, comm->size, fiber);
    ls_free(fiber, (size_t)comm->size, sizeof(int));
    if (axis >= 0) {
        LS_TRY(ls_rank_axis(&made, own->self, axis));
        comm->impl = ls_comm_member(comm, own->self->id) >= 0 ? made : NULL;
        return LS_OK;
    }
    LS_TRY(ls_comm_subset_at(own->file, own->line, &made, ls_rank_world(own->self), comm->ranks,
                             comm->size));
    comm->impl = made;
    return LS_OK;
}

static void comm_close(ls_backend *backend, ls_comm *comm) {
    own_backend *own = own_of(backend);
    ls_rank_comm *made = comm->impl;
    if (made != NULL && !made->of_run && own->self->run->status == LS_OK) {
        (void)ls_comm_destroy_at(own->file, own->line, made);
    }
}

// ---- Calls --------------------------------------------------------------------------------------
static int run(ls_backend *backend, ls_call *calls, int call_count) {
    own_backend *own = own_of(backend);
    bool grouped = call_count > 1;
    int status = grouped ? ls_group_start_at(own->file, own->line, own->self) : LS_OK;
    for (int i = 0; i < call_count && status == LS_OK; i++) {
        status = ls_post_at(own->file, own->line, &calls[i], calls[i].comm->impl, NULL);
    }
    if (grouped) {
        int ended = ls_group_end_at(own->file, own->line, own->self);
        status = status == LS_OK ? ended : status;
    }
    return status;
}

static void destroy(ls_backend *backend) {
    own_backend *own = own_of(backend);
    ls_world_free(backend->world);
    ls_free(own, 1, sizeof *own);
}

static void take_memory(ls_backend_ops *ops, const ls_backend_ops *from) {
    ops->alloc = from->alloc != NULL ? alloc_under : NULL;
    ops->free = from->free != NULL ? free_under : NULL;
    ops->copy_in = from->copy_in != NULL ? copy_in_under : NULL;
    ops->copy_out = from->copy_out != NULL ? copy_out_under : NULL;
    ops->is_device = from->is_device != NULL ? is_device_under : NULL;
    ops->read_device = from->read_device != NULL ? read_device_under : NULL;
}

int ls_rank_backend_create(ls_backend **out, ls_rank *self, const char *file, int line) {
    LS_ASSERT(out != NULL && self != NULL && file != NULL);
    *out = NULL;
    void *memory = NULL;
    LS_TRY(ls_alloc(&memory, 1, sizeof(own_backend)));
    own_backend *own = memory;
    const ls_backend *below = self->run->backend;
    own->self = self;
    own->file = file;
    own->line = line;
    own->ops = (ls_backend_ops){.name = below->ops->name,
                                .forwards = true,
                                .comm_open = comm_open,
                                .comm_close = comm_close,
                                .run = run,
                                .destroy = destroy};
    take_memory(&own->ops, below->ops);
    own->backend.ops = &own->ops;
    const ls_world_options options = {.mesh = *ls_world_mesh(self->run->world),
                                      .seed = ls_world_seed(self->run->world),
                                      .held = &self->id,
                                      .held_count = 1};
    int status = ls_world_create(&own->backend.world, &options);
    if (status != LS_OK) {
        ls_free(own, 1, sizeof *own);
        return status;
    }
    ls_world_set_gate(own->backend.world, rank_memory, self);
    *out = &own->backend;
    return LS_OK;
}

void ls_rank_backend_at(ls_backend *backend, const char *file, int line) {
    LS_ASSERT(backend->ops->run == run && file != NULL);
    own_of(backend)->file = file;
    own_of(backend)->line = line;
}
