// A run whose calls go to a backend that holds one rank.
#include <stdio.h>

#include "ranks/internal.h"

static int open_direct(ls_spmd *run, ls_backend *backend, int id) {
    LS_TRY(ls_arena_create(&run->arena));
    run->core = &ls_core__run;
    LS_TRY(ls_checks__select(run, run->options.checks));
    run->abi = LS_RANKS_ABI;
    run->direct = true;
    run->rank_count = 1;
    run->history = run->options.history > 0 ? run->options.history : 16;
    run->world = backend->world;
    run->backend = backend;
    LS_TRY(ls_spmd__make_result(run, ls_world_size(backend->world)));
    run->ranks = ls_arena_alloc(run->arena, 1, sizeof *run->ranks);
    ls_history_entry *entries = ls_arena_alloc(run->arena, (size_t)run->history, sizeof *entries);
    LS_TRY_MEMORY(run->ranks != NULL && entries != NULL);
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
    LS_TRY(ls_turns__open(rank));
    (void)snprintf(rank->name, sizeof rank->name, "rank %d", id);
    return ls_rank_comm__make(&rank->world, run->world_comm, rank, true);
}

static int run_program(ls_spmd *run, ls_spmd_program program, void *arg) {
    ls_rank *rank = &run->ranks[0];
    const ls_backend *backend = run->backend;
    if (backend->ops->enter_rank != NULL) {
        LS_TRY(backend->ops->enter_rank(run->backend, rank->id));
    }
    ls_schedule__set_current(rank);
    rank->exit_status = program(rank, arg);
    if (run->status == LS_OK && rank->exit_status == 0 && rank->open != NULL) {
        (void)ls_direct__finish(rank);
    }
    ls_place__tell(rank, LS_PLACE_RETURNED, NULL);
    ls_schedule__set_current(NULL);
    rank->state = rank->state == LS_RANK_DIED ? LS_RANK_DIED : LS_RANK_RETURNED;
    run->result->exit_status[rank->id] = rank->exit_status;
    run->result->calls = run->calls;
    if (run->status == LS_OK) {
        return ls_checks__ended(run);
    }
    return LS_OK;
}

static void close_direct(ls_spmd *run) {
    if (run->ranks != NULL) {
        ls_request__close(&run->ranks[0]);
        ls_memory__close(&run->ranks[0]);
    }
    ls_hooks__run_close(run);
    ls_checks__closed(run);
    ls_comm__close(run);
    ls_arena_free(run->arena);
    ls_free(run, 1, sizeof *run);
}

int ls_spmd_run_backend(ls_spmd_result **out, ls_spmd_program program, void *arg,
                        ls_backend *backend, const ls_spmd_options *options) {
    LS_ASSERT(out != NULL && program != NULL && backend != NULL);
    *out = NULL;
    if (ls_world_held_count(backend->world) != 1) {
        return LS_FAIL(LS_ERR_INVALID, "this process holds %d ranks; it must hold one",
                       ls_world_held_count(backend->world));
    }
    ls_spmd_options own = {0};
    LS_TRY(options != NULL ? ls_options_take(&own, sizeof own, options) : LS_OK);
    void *memory = NULL;
    LS_TRY(ls_alloc(&memory, 1, sizeof(ls_spmd)));
    ls_spmd *run = memory;
    run->options = own;
    int status = open_direct(run, backend, ls_world_held(backend->world)[0]);
    ls_hooks__run_open(run);
    status = status == LS_OK ? run_program(run, program, arg) : status;
    if (status == LS_OK) {
        *out = run->result;
        status = ls_spmd__verdict(run);
    } else {
        ls_spmd_result_free(run->result);
    }
    ls_error error = *ls_error_last();
    close_direct(run);
    return status == LS_OK
               ? LS_OK
               : ls_error__set(error.file, error.line, error.code, error.rank, "%s", error.text);
}
