// Assigns runs to waiting processes, and starts processes.
#define _XOPEN_SOURCE 700
#include "runner/launch/process_pool.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "runner/scenario/scenario.h"

// The command that starts them: mpiexec with a process for each rank, or for NCCL one process with
// a thread for each rank.
typedef struct command {
    char program[PATH_MAX];
    char processes[16];
    const char *argv[12];
} command;

static int make_command(command *out, const ls_real_request *request, int processes,
                        const char *home) {
    const ls_run_options *options = request->options;
    const ls_backend_kind *backend = request->source.backend, *starts = backend;
    bool threads = ls_real_one_process(request);
    if (ls_real_spread(request) > 0) {  // a simulation that is spread over MPI processes
        starts = &ls_backend_kind_mpi;
    }
    if (!threads && (options->mpiexec == NULL || options->mpiexec[0] == 0)) {
        return LS_FAIL(LS_ERR_BACKEND,
                       "the %s backend is not in this build (lockstep doctor explains why)",
                       starts->name);
    }
    (void)snprintf(out->program, sizeof out->program, "%s/%s", options->program_dir,
                   threads ? starts->threads_program : starts->program);
    (void)snprintf(out->processes, sizeof out->processes, "%d", processes);
    if (access(out->program, X_OK) != 0) {
        return LS_FAIL(LS_ERR_BACKEND, "\"%s\" is missing: the %s backend was not built",
                       out->program, starts->name);
    }
    const char *const words[] = {
        options->mpiexec, "-n",          out->processes, out->program, "rank",
        "--backend",      backend->name, "--runs",       home,         NULL};
    const size_t launcher = 3, count = sizeof words / sizeof *words;
    size_t skipped = threads ? launcher : 0;
    memcpy(out->argv, words + skipped, (count - skipped) * sizeof *words);
    return LS_OK;
}

static int start(struct ls_kept_set *kept, const ls_real_request *request, int processes) {
    command started;
    LS_TRY(ls_reaper_make(&kept->reaper, NULL));
    int status = make_command(&started, request, processes, kept->reaper.dir);
    if (status == LS_OK) {
        // The first process of a spread simulation passes its runs on to the others.
        int hear = ls_real_spread(request) > 0 ? 1 : processes;
        status = ls_process_set_start(&kept->set, started.argv, hear, kept->reaper.dir);
    }
    if (status != LS_OK) {
        ls_reaper_remove(&kept->reaper);
        kept->set = NULL;
    }
    return status;
}

static int end(struct ls_kept_set *kept) {
    if (kept->set == NULL) {
        return LS_OK;
    }
    int status = ls_process_set_end(kept->set, kept->deadline_seconds);
    kept->set = NULL;
    ls_reaper_remove(&kept->reaper);
    return status;
}

int ls_process_pool_take(ls_process_set **out, ls_process_pool *pool,
                         const ls_real_request *request) {
    int spread = ls_real_spread(request);
    int processes = spread;
    if (spread <= 0) {
        processes = ls_real_one_process(request) ? 1 : request->scenario->ranks;
    }
    struct ls_kept_set *kept = &pool->at[0];
    for (int i = 0; i < LS_PROCESS_POOL_MAX; i++) {
        struct ls_kept_set *at = &pool->at[i];
        if (at->set != NULL && at->backend == request->source.backend &&
            at->processes == processes) {
            at->used = ++pool->uses;
            *out = at->set;
            return LS_OK;
        }
        if (kept->set != NULL && (at->set == NULL || at->used < kept->used)) {
            kept = at;
        }
    }
    LS_TRY(end(kept));
    kept->backend = request->source.backend;
    kept->processes = processes;
    kept->used = ++pool->uses;
    kept->deadline_seconds = request->options->deadline_seconds;
    LS_TRY(start(kept, request, processes));
    *out = kept->set;
    return LS_OK;
}

int ls_process_pool_give_back(ls_process_pool *pool, ls_process_set *set, bool reuse) {
    int at = 0;
    while (pool->at[at].set != set) {
        at += 1;
        LS_ASSERT(at < LS_PROCESS_POOL_MAX);
    }
    return reuse && ls_process_set_ready(set) ? LS_OK : end(&pool->at[at]);
}

int ls_process_pool_end(ls_process_pool *pool) {
    int status = LS_OK;
    for (int i = 0; i < LS_PROCESS_POOL_MAX; i++) {
        int ended = end(&pool->at[i]);
        status = status == LS_OK ? ended : status;
    }
    return status;
}
