// A run from its options to its result: threads, their programs, and what is left at the end.
#include <stdio.h>

#include "base/machine.h"
#include "ranks/internal.h"
#include "ranks/settings.h"

#define HISTORY_DEFAULT    16
#define DEADLINE_DEFAULT_S 300.0

// ---- Opening and closing -----------------------------------------------------------------------
static int check_options(const ls_spmd_options *options) {
    if (options->ranks < 1 || options->ranks > LS_RANKS_MAX) {
        return LS_FAIL(LS_ERR_INVALID, "a run has %d ranks; it must have 1 to %d", options->ranks,
                       LS_RANKS_MAX);
    }
    if (options->schedule == LS_SCHEDULE_DELAY &&
        (options->delayed_rank < 0 || options->delayed_rank >= options->ranks)) {
        return LS_FAIL(LS_ERR_INVALID, "the delayed rank %d is not in [0, %d)",
                       options->delayed_rank, options->ranks);
    }
    for (int i = 0; i < options->fault_count; i++) {
        if (options->faults[i].rank < 0 || options->faults[i].rank >= options->ranks) {
            return LS_FAIL(LS_ERR_INVALID, "fault %d is of rank %d, which is not in [0, %d)", i,
                           options->faults[i].rank, options->ranks);
        }
    }
    if (options->history < 0 || options->history > 4096 || options->lookahead < 0) {
        return LS_FAIL(LS_ERR_INVALID, "history must be in [0, 4096], lookahead at least 0");
    }
    return LS_OK;
}

// Before thousands of threads are made for nothing.
static int check_machine(const ls_spmd_options *options) {
    uint64_t most = ls_machine_threads();
    if (!options->fibers && (uint64_t)options->ranks > most) {
        return LS_FAIL(LS_ERR_RESOURCE,
                       "%d ranks need a thread each, and this machine gives at most %llu",
                       options->ranks, (unsigned long long)most);
    }
    return LS_OK;
}

static int check_backend(const ls_spmd_options *options) {
    const ls_world *world = options->backend != NULL ? options->backend->world : NULL;
    if (world != NULL && (ls_world_held_count(world) != ls_world_size(world) ||
                          ls_world_size(world) != options->ranks)) {
        return LS_FAIL(LS_ERR_INVALID,
                       "a run of %d ranks on a backend that holds %d ranks of %d: it must hold "
                       "them all",
                       options->ranks, ls_world_held_count(world), ls_world_size(world));
    }
    if (world != NULL && options->order != NULL) {
        return LS_FAIL(LS_ERR_INVALID, "the reduction order is fixed by %s",
                       options->backend->ops->name);
    }
    return LS_OK;
}

// The simulator's world, unless the caller brings one.
static int make_simulator(ls_spmd *run) {
    ls_mesh mesh = run->options.mesh;
    if (mesh.ndim == 0) {
        mesh = LS_MESH(run->rank_count);
    }
    int size = 0;
    LS_TRY(ls_mesh_size(&size, &mesh));
    if (size != run->rank_count) {
        return LS_FAIL(LS_ERR_INVALID, "the mesh has %d ranks, the run %d", size, run->rank_count);
    }
    const ls_world_options options = {.mesh = mesh, .seed = run->options.seed};
    LS_TRY(ls_world_create(&run->world, &options));
    LS_TRY(ls_backend_sim_create(&run->backend, run->world));
    run->backend->order = run->options.order;
    return LS_OK;
}

static int make_world(ls_spmd *run) {
    run->backend = run->options.backend;
    if (run->backend != NULL) {
        run->borrowed = true;
        run->world = run->backend->world;
    } else {
        LS_TRY(make_simulator(run));
    }
    run->backend->met = run->options.met;
    run->backend->met_arg = run->options.met_arg;
    ls_comm *world = NULL;
    LS_TRY(ls_comm_create(&world, run->backend, NULL, run->rank_count, "world"));
    int status = ls_shared_comm__make(&run->world_comm, run, world, false);
    if (status != LS_OK) {
        ls_comm_free(world);
    }
    return status;
}

static int make_ranks(ls_spmd *run) {
    run->ranks = ls_arena_alloc(run->arena, (size_t)run->rank_count, sizeof(ls_rank));
    ls_history_entry *entries =
        ls_arena_alloc(run->arena, (size_t)run->rank_count * (size_t)run->history, sizeof *entries);
    LS_TRY_MEMORY(run->ranks != NULL && entries != NULL);
    for (int r = 0; r < run->rank_count; r++) {
        ls_rank *rank = &run->ranks[r];
        rank->abi = LS_RANKS_ABI;
        rank->id = r;
        rank->run = run;
        rank->file = "";
        rank->waits = true;
        rank->history = entries + (size_t)r * (size_t)run->history;
        (void)snprintf(rank->name, sizeof rank->name, "rank %d", r);
        LS_TRY(ls_turns__open(rank));
        LS_TRY(ls_rank_comm__make(&rank->world, run->world_comm, rank, true));
    }
    return LS_OK;
}

int ls_spmd__make_result(ls_spmd *run, int rank_count) {
    ls_arena *arena = NULL;
    LS_TRY(ls_arena_create(&arena));
    ls_spmd_result *result = ls_arena_alloc(arena, 1, sizeof *result);
    int *exit_status = ls_arena_alloc(arena, (size_t)rank_count, sizeof *exit_status);
    const char **missed = ls_arena_alloc(arena, (size_t)run->options.fault_count, sizeof *missed);
    if (result == NULL || exit_status == NULL || missed == NULL) {
        ls_arena_free(arena);
        return LS_ERR_MEMORY;
    }
    result->arena = arena;
    result->rank_count = rank_count;
    result->exit_status = exit_status;
    for (int i = 0; i < run->options.fault_count; i++) {
        missed[i] =
            ls_arena_printf(arena, "rank %d does not reach it", run->options.faults[i].rank);
        if (missed[i] == NULL) {
            ls_arena_free(arena);
            return LS_ERR_MEMORY;
        }
    }
    result->missed = missed;
    run->result = result;
    return LS_OK;
}

static int open_run(ls_spmd *run) {
    LS_TRY(ls_arena_create(&run->arena));
    LS_TRY(ls_spmd__make_result(run, run->rank_count));
    run->core = &ls_core__run;
    LS_TRY(ls_checks__select(run, run->options.checks));
    if (run->options.shape_only) {
        ls_checks__without_data(run);
    }
    LS_TRY(ls_schedule__open(run));
    LS_TRY(make_world(run));
    return make_ranks(run);
}

static void close_run(ls_spmd *run) {
    for (int r = 0; run->ranks != NULL && r < run->rank_count; r++) {
        ls_request__close(&run->ranks[r]);
        ls_memory__close(&run->ranks[r]);
        ls_turns__close(&run->ranks[r]);
    }
    ls_checks__closed(run);
    ls_comm__close(run);
    if (run->borrowed) {
        run->backend->met = NULL;
        run->backend->met_arg = NULL;
    } else {
        ls_backend_free(run->backend);
        ls_world_free(run->world);
    }
    ls_schedule__close(run);
    ls_arena_free(run->arena);
}

// ---- The whole run -----------------------------------------------------------------------------
int ls_spmd__verdict(const ls_spmd *run) {
    const ls_spmd_result *result = run->result;
    if (ls_arena_failed(result->arena)) {  // a finding, or a part of one, is missing
        return LS_FAIL(LS_ERR_MEMORY, "out of memory while findings were assembled");
    }
    if (run->status != LS_OK) {
        return LS_FAIL(run->status, "%s", run->why);
    }
    if (result->finding_count > 0) {
        const ls_finding *finding = &result->findings[0];
        return LS_FAIL(LS_ERR_FINDING, "%s at %s", ls_finding_name(finding->id), finding->where);
    }
    for (int r = 0; r < result->rank_count; r++) {
        if (result->exit_status[r] != 0) {
            return LS_FAIL_RANK(LS_ERR_RANK_DIED, r, "rank %d returned %d", r,
                                result->exit_status[r]);
        }
    }
    return LS_OK;
}

int ls_spmd__open(ls_spmd **out, ls_spmd_program program, void *arg, const ls_spmd_options *options,
                  const ls_remote *remote) {
    *out = NULL;
    LS_TRY(check_options(options));
    LS_TRY(check_backend(options));
    LS_TRY(remote == NULL ? check_machine(options) : LS_OK);
    void *memory = NULL;
    LS_TRY(ls_alloc(&memory, 1, sizeof(ls_spmd)));
    ls_spmd *run = memory;
    run->abi = LS_RANKS_ABI;
    run->rank_count = options->ranks;
    run->options = *options;
    run->program = program;
    run->arg = arg;
    run->remote = remote;
    run->parallel = options->schedule == LS_SCHEDULE_PARALLEL;
    run->history = options->history > 0 ? options->history : HISTORY_DEFAULT;
    run->deadline_seconds =
        options->deadline_seconds == 0 ? DEADLINE_DEFAULT_S : options->deadline_seconds;
    ls_trap__open();
    int status = open_run(run);
    ls_hooks__run_open(run);
    if (status != LS_OK) {
        ls_spmd_result *none = NULL;
        return ls_spmd__close(&none, run, status);
    }
    *out = run;
    return LS_OK;
}

int ls_spmd__close(ls_spmd_result **out, ls_spmd *run, int status) {
    ls_spmd_result *result = run->result;
    *out = NULL;
    if (status == LS_OK && run->remote != NULL) {  // of threads: while they are still there
        ls_spmd__judge(run);
    }
    if (status == LS_OK) {
        result->calls = run->calls;
        result->switches = run->switches;
        result->digest = run->digest;
        result->observed = run->observed;
        result->started = run->started;
        status = ls_spmd__verdict(run);
        *out = result;
        ls_gdb_hook_run(run, 1);
    } else {
        ls_spmd_result_free(result);
    }
    ls_hooks__run_close(run);
    bool left_behind = false;
    for (int r = 0; run->ranks != NULL && r < run->rank_count; r++) {
        left_behind = left_behind || run->ranks[r].left_behind || !ls_turns__left(&run->ranks[r]);
    }
    ls_trap__close();
    if (!left_behind) {  // an unjoined thread may still read it
        close_run(run);
        ls_free(run, 1, sizeof *run);
    }
    return status;
}

static int run_once(ls_spmd_result **out, ls_spmd_program program, void *arg,
                    const ls_spmd_options *options, const ls_front *front) {
    ls_spmd *run = NULL;
    *out = NULL;
    LS_TRY(ls_spmd__open(&run, program, arg, options, NULL));
    run->front = front;
    return ls_spmd__close(out, run, ls_threads__run(run));
}

int ls_spmd__run_front(ls_spmd_result **out, ls_spmd_program program, void *arg,
                       const ls_spmd_options *options, const ls_front *front) {
    LS_ASSERT(out != NULL && program != NULL && options != NULL && front != NULL);
    ls_spmd_options own;
    *out = NULL;
    LS_TRY(ls_options_take(&own, sizeof own, options));
    return run_once(out, program, arg, &own, front);
}

static int explore(ls_spmd_result **out, uint64_t *failing_seed, ls_spmd_program program, void *arg,
                   const ls_spmd_options *options, int tries, uint64_t *observed) {
    ls_spmd_options each = *options;
    each.schedule = LS_SCHEDULE_RANDOM;
    for (int i = 0; i < tries; i++) {
        each.seed = options->seed + (uint64_t)i;
        ls_spmd_result *result = NULL;
        int status = run_once(&result, program, arg, &each, NULL);
        *observed += result != NULL ? result->observed : 0;
        if (status != LS_OK || i + 1 == tries) {
            *out = result;
            *failing_seed = status != LS_OK ? each.seed : 0;
            return status;
        }
        ls_spmd_result_free(result);
    }
    return LS_OK;
}

int ls_spmd_run(ls_spmd_result **out, ls_spmd_program program, void *arg,
                const ls_spmd_options *options) {
    LS_ASSERT(out != NULL && program != NULL && options != NULL);
    ls_spmd_options own;
    ls_fault faults[LS_SPMD_FAULTS_MAX];
    uint64_t seed = 0, observed = 0;
    int tries = 0;
    *out = NULL;
    LS_TRY(ls_options_take(&own, sizeof own, options));
    LS_TRY(own.fixed ? LS_OK : ls_spmd__environment(&own, faults, &tries));
    return tries > 0 ? explore(out, &seed, program, arg, &own, tries, &observed)
                     : run_once(out, program, arg, &own, NULL);
}

int ls_spmd_explore(ls_spmd_result **out, uint64_t *failing_seed, ls_spmd_program program,
                    void *arg, const ls_spmd_options *options, uint64_t first_seed, int tries) {
    uint64_t observed;
    return ls_spmd__explore(out, failing_seed, program, arg, options, first_seed, tries, &observed);
}

int ls_spmd__explore(ls_spmd_result **out, uint64_t *failing_seed, ls_spmd_program program,
                     void *arg, const ls_spmd_options *options, uint64_t first_seed, int tries,
                     uint64_t *observed) {
    LS_ASSERT(out != NULL && failing_seed != NULL && options != NULL);
    ls_spmd_options own;
    ls_fault faults[LS_SPMD_FAULTS_MAX];
    int more = 0;
    *out = NULL;
    *failing_seed = 0;
    *observed = 0;
    LS_TRY(ls_options_take(&own, sizeof own, options));
    own.seed = first_seed;
    LS_TRY(own.fixed ? LS_OK : ls_spmd__environment(&own, faults, &more));
    int status = explore(out, failing_seed, program, arg, &own, more > 0 ? more : tries, observed);
    if (status == LS_OK) {
        ls_spmd_result_free(*out);
        *out = NULL;
    }
    return status;
}

// ---- Results -----------------------------------------------------------------------------------
void ls_spmd_result_free(ls_spmd_result *result) {
    if (result != NULL) {
        ls_arena_free(result->arena);
    }
}

int ls_spmd_finding_count(const ls_spmd_result *result) {
    return result->finding_count;
}

const ls_finding *ls_spmd_finding(const ls_spmd_result *result, int index) {
    LS_ASSERT(index >= 0);
    return index < result->finding_count ? &result->findings[index] : NULL;
}

int ls_spmd_warning_count(const ls_spmd_result *result) {
    return result->warning_count;
}

const ls_finding *ls_spmd_warning(const ls_spmd_result *result, int index) {
    LS_ASSERT(index >= 0);
    return index < result->warning_count ? &result->warnings[index] : NULL;
}

int ls_spmd_exit_status(const ls_spmd_result *result, int rank) {
    LS_ASSERT(rank >= 0 && rank < result->rank_count);
    return result->exit_status[rank];
}

const char *ls_spmd_fault_missed(const ls_spmd_result *result, int index) {
    return result->missed[index];
}

int ls_spmd_rank_count(const ls_spmd_result *result) {
    return result->rank_count;
}

uint64_t ls_spmd_call_count(const ls_spmd_result *result) {
    return result->calls;
}

bool ls_spmd_has_checked(const ls_spmd_result *result) {
    return result->calls > 0 || result->started;
}

uint64_t ls_spmd_schedule_digest(const ls_spmd_result *result) {
    return result->digest;
}

uint64_t ls_spmd_observed_count(const ls_spmd_result *result) {
    return result->observed;
}
