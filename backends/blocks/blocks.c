// The spread simulator's backend, and how its processes keep together.
#include "backends/blocks/blocks.h"

#include <limits.h>
#include <sched.h>
#include <time.h>

#include "backends/backend.h"
#include "backends/blocks/blocks_internal.h"
#include "backends/match.h"
#include "backends/mpi/mpi.h"

#define IDLE_NS 500000L  // between two looks of a process that has nothing to do

// ---- The backend --------------------------------------------------------------------------------
static int blocks_comm_open(ls_backend *backend, ls_comm *comm) {
    (void)backend;
    return ls_match__open(comm);
}

static void blocks_comm_close(ls_backend *backend, ls_comm *comm) {
    (void)backend;
    ls_match__close(comm);
}

static int blocks_run(ls_backend *backend, ls_call *calls, int call_count) {
    ls_arena *arena = NULL;
    ls_call *all = NULL;
    int count = 0;
    for (int i = 0; i < call_count; i++) {
        LS_TRY(ls_call_check(NULL, &calls[i]));
    }
    LS_TRY(ls_backend__check_overlap(calls, call_count));
    LS_TRY(ls_arena_create(&arena));
    ls_match match = {0};
    int status = ls_blocks__exchange(&all, &count, backend->world, calls, call_count, arena);
    status = status == LS_OK ? ls_match__calls(&match, all, count) : status;
    status = status == LS_OK ? ls_backend__compute(backend, &match) : status;
    ls_match__free(&match);
    ls_arena_free(arena);
    return status;
}

static void blocks_destroy(ls_backend *backend) {
    ls_free(backend, 1, sizeof *backend);
}

// By its results it is the simulator, and its recordings say so.
static const ls_backend_ops blocks_ops = {
    .name = "sim",
    .simulates = true,
    .comm_open = blocks_comm_open,
    .comm_close = blocks_comm_close,
    .run = blocks_run,
    .destroy = blocks_destroy,
};

int ls_backend_blocks_create(ls_backend **out, ls_world *world) {
    LS_ASSERT(out != NULL && world != NULL);
    *out = NULL;
    int process = 0, processes = 0, first = 0, count = 0;
    LS_MPI_TRY(MPI_Comm_rank(MPI_COMM_WORLD, &process), "MPI_Comm_rank");
    LS_MPI_TRY(MPI_Comm_size(MPI_COMM_WORLD, &processes), "MPI_Comm_size");
    if (processes <= ls_world_size(world)) {
        ls_blocks_of(&first, &count, ls_world_size(world), process, processes);
    }
    if (count == 0 || ls_world_held_count(world) != count || ls_world_held(world)[0] != first) {
        return LS_FAIL(LS_ERR_INVALID,
                       "process %d of %d does not hold its block of the world's %d ranks", process,
                       processes, ls_world_size(world));
    }
    void *memory = NULL;
    LS_TRY(ls_alloc(&memory, 1, sizeof(ls_backend)));
    *out = memory;
    **out = (ls_backend){.ops = &blocks_ops, .world = world};
    return LS_OK;
}

// ---- Keeping together ---------------------------------------------------------------------------
int ls_blocks_share(void *data, size_t bytes) {
    LS_ASSERT(bytes <= INT_MAX);
    MPI_Request request;
    int done = 0;
    LS_MPI_TRY(MPI_Ibcast(data, (int)bytes, MPI_BYTE, 0, MPI_COMM_WORLD, &request), "MPI_Ibcast");
    for (;;) {
        LS_MPI_TRY(MPI_Test(&request, &done, MPI_STATUS_IGNORE), "MPI_Test");
        if (done) {
            return LS_OK;
        }
        (void)nanosleep(&(struct timespec){.tv_nsec = IDLE_NS}, NULL);
    }
}

static int tell_failed(void) {
    int process = 0, processes = 0;
    LS_MPI_TRY(MPI_Comm_rank(MPI_COMM_WORLD, &process), "MPI_Comm_rank");
    LS_MPI_TRY(MPI_Comm_size(MPI_COMM_WORLD, &processes), "MPI_Comm_size");
    for (int p = 0; p < processes; p++) {
        // Without data it is on its way at once.
        LS_MPI_TRY(p == process
                       ? MPI_SUCCESS
                       : MPI_Send(NULL, 0, MPI_BYTE, p, LS_BLOCKS_TAG_FAILED, MPI_COMM_WORLD),
                   "MPI_Send");
    }
    return LS_OK;
}

// Receives a message and drops it: its sender waits until it is gone.
static int take_in(void) {
    MPI_Status status;
    int there = 0, bytes = 0;
    void *memory = NULL;
    LS_MPI_TRY(MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &there, &status),
               "MPI_Iprobe");
    if (!there) {
        return LS_OK;
    }
    LS_MPI_TRY(MPI_Get_count(&status, MPI_BYTE, &bytes), "MPI_Get_count");
    LS_TRY(ls_alloc(&memory, (size_t)bytes + 1, 1));
    int result = MPI_Recv(memory, bytes, MPI_BYTE, status.MPI_SOURCE, status.MPI_TAG,
                          MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    ls_free(memory, (size_t)bytes + 1, 1);
    return ls_mpi__status(result, "MPI_Recv");
}

int ls_blocks_meet(bool *all_well, bool well) {
    MPI_Request request;
    int mine = well, all = 0, done = 0;
    LS_TRY(well ? LS_OK : tell_failed());
    LS_MPI_TRY(MPI_Iallreduce(&mine, &all, 1, MPI_INT, MPI_LAND, MPI_COMM_WORLD, &request),
               "MPI_Iallreduce");
    while (!done) {
        LS_TRY(well ? LS_OK : take_in());
        LS_MPI_TRY(MPI_Test(&request, &done, MPI_STATUS_IGNORE), "MPI_Test");
        (void)sched_yield();
    }
    *all_well = all != 0;
    return LS_OK;
}
