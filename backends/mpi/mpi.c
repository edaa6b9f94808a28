// The MPI backend: this process is one rank. Calls are agreed on first, then moved by MPI itself,
// so that its results owe nothing to the simulator's math.
#include "backends/mpi/mpi.h"

#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>

#include "backends/mpi/mpi_internal.h"

int ls_mpi__status(int result, const char *what) {
    if (result == MPI_SUCCESS) {
        return LS_OK;
    }
    char text[MPI_MAX_ERROR_STRING] = "";
    int length = 0;
    (void)MPI_Error_string(result, text, &length);
    return LS_FAIL(LS_ERR_BACKEND, "%s failed: %.500s", what, text);
}

// ---- The process --------------------------------------------------------------------------------
// MPICH's mpiexec kills what it starts ranks through, not them, where the second of its clock
// changes while it takes an abort: they would spin on, and it would wait for them.
static void end_with_launcher(void) {
    if (getenv("PMI_RANK") != NULL) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    }
}

int ls_mpi_init(int *rank, int *size) {
    LS_ASSERT(rank != NULL && size != NULL);
    int provided = 0;
    end_with_launcher();
    LS_MPI_TRY(MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &provided), "MPI_Init_thread");
    LS_MPI_TRY(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN),
               "MPI_Comm_set_errhandler");
    LS_MPI_TRY(MPI_Comm_rank(MPI_COMM_WORLD, rank), "MPI_Comm_rank");
    LS_MPI_TRY(MPI_Comm_size(MPI_COMM_WORLD, size), "MPI_Comm_size");
    return ls_mpi__types_open();
}

void ls_mpi_finalize(void) {
    ls_mpi__types_close();
    (void)MPI_Finalize();
}

void ls_mpi_abort(int code) {
    // mpiexec ends the processes at once and may drop their output; this flushes it.
    const struct timespec a_moment = {.tv_nsec = 250 * 1000 * 1000};
    (void)fflush(NULL);
    (void)nanosleep(&a_moment, NULL);
    (void)MPI_Abort(MPI_COMM_WORLD, code);
    abort();
}

const char *ls_mpi_version(void) {
    static char version[64];
    char text[MPI_MAX_LIBRARY_VERSION_STRING] = "";
    int length = 0;
    if (version[0] == '\0') {
        // "MPICH Version:\t4.0.2\n...": the name, then the first word that starts with a digit.
        (void)MPI_Get_library_version(text, &length);
        size_t name = strcspn(text, " \t\n,"), number = strcspn(text, "0123456789");
        size_t digits = strspn(text + number, "0123456789.abcdefghijklmnopqrstuvwxyz");
        (void)snprintf(version, sizeof version, "%.*s %.*s", (int)(name < 24 ? name : 24), text,
                       (int)(digits < 24 ? digits : 24), text + number);
    }
    return version;
}

// ---- The backend --------------------------------------------------------------------------------
typedef struct mpi_backend {
    ls_backend backend;
    ls_mpi_group *groups;  // under way, oldest first
    bool trusts;           // calls are not checked against the other ranks'
} mpi_backend;

static int open_mpi(ls_mpi_comm *out, const ls_comm *comm) {
    MPI_Group world = MPI_GROUP_NULL, members = MPI_GROUP_NULL;
    LS_MPI_TRY(MPI_Comm_group(MPI_COMM_WORLD, &world), "MPI_Comm_group");
    int status =
        ls_mpi__status(MPI_Group_incl(world, comm->size, comm->ranks, &members), "MPI_Group_incl");
    if (status == LS_OK) {
        status =
            ls_mpi__status(MPI_Comm_create(MPI_COMM_WORLD, members, &out->comm), "MPI_Comm_create");
        (void)MPI_Group_free(&members);
    }
    (void)MPI_Group_free(&world);
    if (status == LS_OK && out->comm != MPI_COMM_NULL) {
        status = ls_mpi__status(MPI_Comm_set_errhandler(out->comm, MPI_ERRORS_RETURN),
                                "MPI_Comm_set_errhandler");
    }
    return status;
}

static int mpi_comm_open(ls_backend *backend, ls_comm *comm) {
    (void)backend;
    void *memory = NULL;
    LS_TRY(ls_alloc(&memory, 1, sizeof(ls_mpi_comm)));
    ls_mpi_comm *made = memory;
    made->comm = MPI_COMM_NULL;
    int status = open_mpi(made, comm);
    if (status != LS_OK) {
        ls_free(memory, 1, sizeof(ls_mpi_comm));
        return ls_error_wrap("communicator %s", comm->name);
    }
    comm->impl = made;
    return LS_OK;
}

// MPI_Comm_split, with the members in the communicator's own order.
static int mpi_comm_split(ls_backend *backend, ls_comm *comm, const ls_comm *parent, int color) {
    MPI_Comm made = MPI_COMM_NULL;
    void *memory = NULL;
    int member = comm != NULL ? ls_comm_member(comm, ls_world_held(backend->world)[0]) : 0;
    LS_ASSERT(member >= 0);
    if (comm != NULL) {
        LS_TRY(ls_alloc(&memory, 1, sizeof(ls_mpi_comm)));
    }
    int status = ls_mpi__status(
        MPI_Comm_split(ls_mpi__comm(parent), comm != NULL ? color : MPI_UNDEFINED, member, &made),
        "MPI_Comm_split");
    if (status == LS_OK && comm != NULL) {
        status = ls_mpi__status(MPI_Comm_set_errhandler(made, MPI_ERRORS_RETURN),
                                "MPI_Comm_set_errhandler");
    }
    if (comm != NULL && status != LS_OK) {
        ls_free(memory, 1, sizeof(ls_mpi_comm));
    } else if (comm != NULL) {
        comm->impl = memory;
        ((ls_mpi_comm *)memory)->comm = made;
    }
    return status;
}

static void mpi_comm_close(ls_backend *backend, ls_comm *comm) {
    (void)backend;
    ls_mpi_comm *made = comm->impl;
    if (made->comm != MPI_COMM_NULL) {
        (void)MPI_Comm_free(&made->comm);
    }
    ls_free(made, 1, sizeof *made);
}

// ---- Running ------------------------------------------------------------------------------------
// Processes outnumber cores on a debugging machine: one that spins would keep the core from the one
// it waits for.
static int mpi_run(ls_backend *backend, ls_call *calls, int call_count) {
    mpi_backend *owner = backend->impl;
    ls_mpi_group *group = NULL;
    LS_TRY(ls_mpi__group_open(&group, &owner->groups, calls, call_count, owner->trusts));
    while (!group->done) {
        ls_mpi__advance(owner->groups);
        if (!group->done) {
            (void)sched_yield();
        }
    }
    return ls_mpi__group_close(group, &owner->groups);
}

static int mpi_start(ls_backend *backend, ls_call *call, void **pending) {
    mpi_backend *owner = backend->impl;
    ls_mpi_group *group = NULL;
    LS_TRY(ls_mpi__group_open(&group, &owner->groups, call, 1, owner->trusts));
    ls_mpi__advance(owner->groups);
    *pending = group;
    return LS_OK;
}

static int mpi_test(ls_backend *backend, void *pending, bool *done) {
    mpi_backend *owner = backend->impl;
    ls_mpi_group *group = pending;
    ls_mpi__advance(owner->groups);
    *done = group->done;
    if (!group->done) {
        (void)sched_yield();
        return LS_OK;
    }
    return ls_mpi__group_close(group, &owner->groups);
}

static void mpi_destroy(ls_backend *backend) {
    ls_free(backend->impl, 1, sizeof(mpi_backend));
}

static const ls_backend_ops mpi_ops = {
    .name = "mpi",
    .comm_open = mpi_comm_open,
    .comm_close = mpi_comm_close,
    .comm_split = mpi_comm_split,
    .run = mpi_run,
    .start = mpi_start,
    .test = mpi_test,
    .destroy = mpi_destroy,
};

void ls_backend_mpi_trust(ls_backend *backend) {
    LS_ASSERT(backend->ops == &mpi_ops);
    ((mpi_backend *)backend->impl)->trusts = true;
}

int ls_backend_mpi_create(ls_backend **out, ls_world *world) {
    LS_ASSERT(out != NULL && world != NULL);
    *out = NULL;
    int running = 0, rank = 0, size = 0;
    LS_MPI_TRY(MPI_Initialized(&running), "MPI_Initialized");
    if (!running) {
        return LS_FAIL(LS_ERR_BACKEND, "MPI is not running: call ls_mpi_init first");
    }
    LS_MPI_TRY(MPI_Comm_rank(MPI_COMM_WORLD, &rank), "MPI_Comm_rank");
    LS_MPI_TRY(MPI_Comm_size(MPI_COMM_WORLD, &size), "MPI_Comm_size");
    if (ls_world_size(world) != size || ls_world_held_count(world) != 1 ||
        ls_world_held(world)[0] != rank) {
        return LS_FAIL_RANK(LS_ERR_INVALID, rank,
                            "under MPI each process holds one rank: the world has %d ranks, this "
                            "process holds %d of them, MPI has %d processes",
                            ls_world_size(world), ls_world_held_count(world), size);
    }
    void *memory = NULL;
    LS_TRY(ls_alloc(&memory, 1, sizeof(mpi_backend)));
    mpi_backend *made = memory;
    made->backend = (ls_backend){.ops = &mpi_ops, .world = world, .impl = made};
    *out = &made->backend;
    return LS_OK;
}
