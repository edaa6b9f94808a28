// The simulator: holds every rank of the world, matches their calls and does the math of each
// matched set on all buffers at once, in ordinary memory or on a device.
#include "backends/backend.h"
#include "backends/match.h"
#include "backends/sim/sim_device.h"

static int sim_comm_open(ls_backend *backend, ls_comm *comm) {
    (void)backend;
    return ls_match__open(comm);
}

static void sim_comm_close(ls_backend *backend, ls_comm *comm) {
    (void)backend;
    ls_match__close(comm);
}

static int sim_run(ls_backend *backend, ls_call *calls, int call_count) {
    ls_match match;
    LS_TRY(ls_match__calls(&match, calls, call_count));
    int status = ls_backend__check_overlap(calls, call_count);
    status = status == LS_OK ? ls_backend__compute(backend, &match) : status;
    ls_match__free(&match);
    return status;
}

static void sim_destroy(ls_backend *backend) {
    ls_free(backend, 1, sizeof *backend);
}

static const ls_backend_ops sim_ops = {
    .name = "sim",
    .simulates = true,
    .comm_open = sim_comm_open,
    .comm_close = sim_comm_close,
    .run = sim_run,
    .destroy = sim_destroy,
};

static const ls_backend_ops sim_device_ops = {
    .name = "sim",
    .simulates = true,
    .alloc = ls_sim_device__alloc,
    .free = ls_sim_device__free,
    .copy_in = ls_sim_device__copy_in,
    .copy_out = ls_sim_device__copy_out,
    .comm_open = sim_comm_open,
    .comm_close = sim_comm_close,
    .run = sim_run,
    .destroy = sim_destroy,
};

int ls_backend_sim_create(ls_backend **out, ls_world *world) {
    LS_ASSERT(out != NULL && world != NULL);
    *out = NULL;
    if (ls_world_held_count(world) != ls_world_size(world)) {
        return LS_FAIL(LS_ERR_INVALID,
                       "the simulator needs every rank of the world; %d of %d are held here",
                       ls_world_held_count(world), ls_world_size(world));
    }
    void *memory = NULL;
    LS_TRY(ls_alloc(&memory, 1, sizeof(ls_backend)));
    *out = memory;
    **out = (ls_backend){.ops = &sim_ops, .world = world};
    return LS_OK;
}

int ls_backend_sim_create_on(ls_backend **out, ls_world *world, ls_device *device) {
    LS_ASSERT(device != NULL);
    LS_TRY(ls_backend_sim_create(out, world));
    (*out)->ops = &sim_device_ops;
    (*out)->device = device;
    return LS_OK;
}
