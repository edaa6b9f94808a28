// A run whose calls go to a backend that holds one rank.
#include <stdio.h>

#include "ranks/internal.h"

static int open_direct(ls_run *run, ls_backend *backend, int id) {
    LS_TRY(ls_arena_create(&run->arena, NULL));
    LS_TRY(ls_checks__select(run, NULL));
    run->abi = LS_RANKS_ABI;
    run->direct = true;
    run->rank_count = 1;
    run->history = 16;
    run->world = backend->world;
    run->backend = backend;
    run->result = ls_arena_alloc(run->arena, 1, sizeof *run->result);
    run->ranks = ls_arena_alloc(run->arena, 1, sizeof *run->ranks);
    ls_history_entry *entries = ls_arena_alloc(run->arena, (size_t)run->history, sizeof *entries);
    if (run->result == NULL || run->ranks == NULL || entries == NULL) {
        return LS_ERR_MEMORY;
    }
    run->result->arena = run->arena;
    ls_comm *world = NULL;
    LS_TRY(ls_comm_create(&world, backend, NULL, 0, "world"));
    int status = ls_shared_comm__make(&run->world_comm, run, world, false);
    if (status != LS_OK) {
        ls_comm_free(world);
        return status;
    }
    ls_rank *rank = &run->ranks[0];
    rank->abi = LS_RANKS_ABI;
    rank->id = id;
    rank->run = run;
    rank->file = "";
    rank->history = entries;
    rank->state = LS_RANK_RUNNING;
    (void)snprintf(rank->name, sizeof rank->name, "rank %d", id);
    return ls_rank_comm__make(&rank->world, run->world_comm, rank, true);
}

static int verdict(const ls_run *run) {
    if (run->status != LS_OK) {
        const ls_spmd_result *result = run->result;
        return LS_FAIL_RANK(run->status, run->ranks[0].id, "%s: %s", run->why,
                            result->finding_count > 0 ? result->findings[0].text : "");
    }
    return LS_OK;
}

int ls_spmd_run_backend(int *exit_status, ls_spmd_program program, void *arg, ls_backend *backend) {
    LS_ASSERT(exit_status != NULL && program != NULL && backend != NULL);
    *exit_status = 0;
    if (ls_world_held_count(backend->world) != 1) {
        return LS_FAIL(LS_ERR_INVALID, "this process holds %d ranks; it must hold one",
                       ls_world_held_count(backend->world));
    }
    void *memory = NULL;
    LS_TRY(ls_alloc(&memory, NULL, 1, sizeof(ls_run)));
    ls_run *run = memory;
    int status = open_direct(run, backend, ls_world_held(backend->world)[0]);
    ls_hooks__run_open(run);
    if (status == LS_OK) {
        ls_schedule__set_current(&run->ranks[0]);
        *exit_status = program(&run->ranks[0], arg);
        ls_schedule__set_current(NULL);
        status = verdict(run);
    }
    if (run->ranks != NULL) {
        ls_request__close(&run->ranks[0]);
        ls_memory__close(&run->ranks[0]);
    }
    ls_hooks__run_close(run);
    ls_comm__close(run);
    ls_arena_free(run->arena);
    ls_free(NULL, run, 1, sizeof *run);
    return status;
}
