// The rows of the table of backends. The program that a row names links the backend itself.
#include "backends/kinds.h"

#include <string.h>

#define SIM  "sim"
#define MPI  "mpi"
#define NCCL "nccl"

static int open_sim(ls_backend **out, ls_world *world, struct ls_device *device) {
    return device != NULL ? ls_backend_sim_create_on(out, world, device)
                          : ls_backend_sim_create(out, world);
}

const ls_backend_kind ls_backend_kind_sim = {
    .name = SIM,
    .about = "every rank in this process",
    .open = open_sim,
    .timed = true,
};

// Its ranks look all the time for what they wait for.
const ls_backend_kind ls_backend_kind_mpi = {
    .name = MPI,
    .about = "install libmpich-dev and mpich, then configure with -DLOCKSTEP_MPI=ON",
    .program = "lockstep-mpi",
    .quiet_seconds = 1.0,
    .cpu_seconds = 0.1,
};

// Its ranks look now and then.
const ls_backend_kind ls_backend_kind_nccl = {
    .name = NCCL,
    .about = "it needs nvcc and nccl.h; without it, lockstep can still compare with recordings of "
             "NCCL runs",
    .program = "lockstep-mpi",
    .threads_program = "lockstep-cuda",
    .timed = true,
    .quiet_seconds = 4.0,
};

const ls_backend_kind *const ls_backend_kinds[] = {&ls_backend_kind_sim, &ls_backend_kind_mpi,
                                                   &ls_backend_kind_nccl, NULL};
const char *const ls_backend_names[] = {SIM, MPI, NCCL, NULL};
const char *const ls_backend_names_timed[] = {SIM, NCCL, NULL};

const ls_backend_kind *ls_backend_kind_named(const char *name) {
    for (int i = 0; ls_backend_kinds[i] != NULL; i++) {
        if (strcmp(ls_backend_kinds[i]->name, name) == 0) {
            return ls_backend_kinds[i];
        }
    }
    return NULL;
}
