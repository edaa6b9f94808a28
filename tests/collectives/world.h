// A simulated world of ranks, for testing the collectives of one communicator.
#pragma once

#include <criterion/criterion.h>

#include "collectives/collectives.h"

typedef struct fixture {
    ls_world *world;
    ls_backend *backend;
    ls_comm *comm;  // all ranks
} fixture;

static inline fixture open_world(int ranks) {
    fixture f = {0};
    ls_world_options options = {.mesh = LS_MESH(ranks), .seed = 7};
    cr_assert(ls_world_create(&f.world, &options) == LS_OK);
    cr_assert(ls_backend_sim_create(&f.backend, f.world) == LS_OK);
    cr_assert(ls_comm_create(&f.comm, f.backend, NULL, 0, "world") == LS_OK);
    return f;
}

static inline void close_world(fixture *f) {
    ls_comm_free(f->comm);
    ls_backend_free(f->backend);
    ls_world_free(f->world);
}
