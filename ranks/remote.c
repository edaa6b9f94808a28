// See remote.h. A run without threads or a run token: it counts as parallel, so that a rank that
// has not reported a wait counts as running.
#include "ranks/remote.h"

#include <stdio.h>
#include <string.h>

#include "ranks/internal.h"

static const char *const off_checks = "-handle.leak";

// Calls have matched; the front moves their data.
static int wait_for_data(ls_spmd *run, ls_request *const *requests, int size) {
    for (int m = 0; m < size; m++) {
        ls_request *request = requests[m];
        ls_rank *rank = request->rank;
        if (request->awaited) {
            request->awaited = NULL;
            rank->main.waiting -= 1;
            if (rank->state == LS_RANK_BLOCKED && rank->main.waiting == 0) {
                ls_schedule__make_ready(rank);
            }
        }
    }
    run->remote->met(run->remote->arg, requests, size);
    return LS_OK;
}

int ls_remote_open(ls_spmd **out, const ls_spmd_options *options, const ls_remote *remote) {
    LS_ASSERT(out != NULL && options != NULL && remote != NULL && remote->met != NULL);
    char checks[512];
    ls_spmd_options own = *options;
    int length =
        snprintf(checks, sizeof checks, "%s%s%s", off_checks, options->checks != NULL ? "," : "",
                 options->checks != NULL ? options->checks : "");
    if (length < 0 || (size_t)length >= sizeof checks) {
        return LS_FAIL(LS_ERR_INVALID, "the list of checks is longer than %zu characters",
                       sizeof checks);
    }
    own.schedule = LS_SCHEDULE_PARALLEL;
    own.deadline_seconds = -1;
    own.checks = checks;
    ls_spmd *run = NULL;
    *out = NULL;
    LS_TRY(ls_spmd__open(&run, NULL, NULL, &own, remote));
    run->options.checks = options->checks;
    run->remote_met = wait_for_data;
    run->checks[LS_FINDING_BUFFER_USE_BEFORE_WAIT] = false;
    run->checks[LS_FINDING_BUFFER_MODIFIED_IN_FLIGHT] = false;
    for (int r = 0; r < run->rank_count; r++) {
        run->ranks[r].state = LS_RANK_RUNNING;
    }
    run->running_count = run->rank_count;
    ls_gdb_hook_run(run, 0);
    *out = run;
    return LS_OK;
}

int ls_remote_close(ls_spmd_result **out, ls_spmd *run) {
    return ls_spmd__close(out, run, LS_OK);
}

int ls_remote_status(const ls_spmd *run, const char **why) {
    if (why != NULL) {
        *why = run->why;
    }
    return run->status;
}

const ls_finding *ls_remote_found(const ls_spmd *run) {
    return run->result->finding_count > 0 ? &run->result->findings[0] : NULL;
}

bool ls_remote_undecided(const ls_spmd *run) {
    return run->status == LS_OK && (run->lookahead != NULL || run->suspects[0] != NULL);
}

ls_rank *ls_remote_rank(ls_spmd *run, int rank) {
    LS_ASSERT(rank >= 0 && rank < run->rank_count);
    return &run->ranks[rank];
}

int ls_remote_comm(ls_rank_comm **handles, ls_spmd *run, const int *ranks, int size,
                   const char *name, const char *const *files, const int *lines) {
    ls_comm *comm = NULL;
    LS_TRY(ls_comm_create(&comm, run->backend, ranks, size, name));
    comm->family = ls_comm_family((uint64_t)size, files[0], lines[0]);
    ls_shared_comm *shared = NULL;
    int status = ls_shared_comm__make(&shared, run, comm, false);
    if (status != LS_OK) {
        ls_comm_free(comm);
        return status;
    }
    for (int m = 0; m < size; m++) {
        LS_TRY(ls_rank_comm__make(&handles[m], shared, &run->ranks[ranks[m]], false));
        handles[m]->file = files[m];
        handles[m]->line = lines[m];
    }
    return LS_OK;
}

void ls_remote_begin_at(ls_rank_comm *comm, uint64_t call) {
    ls_shared_comm *shared = comm->shared;
    LS_ASSERT(shared->count == 0);
    shared->base = call;
    for (int m = 0; m < shared->comm->size; m++) {
        shared->rounds[m] = call;
        shared->comm->seq[m] = call;
    }
}

// ---- Calls of a rank ----------------------------------------------------------------------------
// The calling thread makes calls of this rank until `release`.
static void hold(ls_rank *rank) {
    LS_ASSERT(rank->run->remote != NULL);
    ls_schedule__set_current(rank);
}

static void release(void) {
    ls_schedule__set_current(NULL);
}

// The call for the checks. Unless overlaps are checked, buffers are declared separate: the data is
// staged, so it moves as if they were.
static ls_call checked(const ls_rank_comm *comm, const ls_call *call) {
    ls_call made = *call;
    if (!comm->rank->run->checks[LS_FINDING_BUFFER_OVERLAP] && made.recv != NULL) {
        made.recv = (void *)((uintptr_t)made.recv ^ (uintptr_t)1 << 62);
    }
    return made;
}

int ls_remote_post(ls_request **out, ls_rank_comm *comm, const ls_remote_call *call) {
    ls_request own = {.call = checked(comm, &call->call),
                      .staged = true,
                      .staged_send = call->send,
                      .staged_recv = call->recv,
                      .owner = call->owner,
                      .issuer = call->issuer,
                      .overlap = call->overlap,
                      .tag = call->tag,
                      .any_source = call->any_source,
                      .color = call->color,
                      .key = call->key,
                      .made_out = call->made};
    hold(comm->rank);
    int status = ls_call__post(call->call.file, call->call.line, comm, &own, out);
    release();
    return status;
}

int ls_remote_group(ls_rank *rank, bool start, const char *file, int line) {
    hold(rank);
    int status = start ? ls_group_start_at(file, line, rank) : ls_group_end_at(file, line, rank);
    release();
    return status;
}

void *ls_remote_owner(const ls_request *request) {
    return request->owner;
}

const ls_call *ls_remote_call_of(const ls_request *request) {
    return &request->call;
}

bool ls_remote_posted(const ls_request *request) {
    return request->state == LS_REQUEST_POSTED;
}

bool ls_remote_done(const ls_request *request) {
    return request->state == LS_REQUEST_DONE;
}

static void flip(const ls_request *request) {
    uint64_t bits = (uint64_t)request->send_bytes * 8;
    if (request->flip == 0 || request->staged_send == NULL || bits == 0) {
        return;
    }
    uint64_t bit = (request->flip - 1) % bits;
    unsigned char *memory = (unsigned char *)(uintptr_t)request->staged_send;
    memory[bit / 8] = (unsigned char)(memory[bit / 8] ^ (1u << (bit % 8)));
}

void ls_remote_receive(ls_request *request, void *recv) {
    request->staged_recv = recv;
}

int ls_remote_move(ls_spmd *run, ls_request *const *requests, int size, bool collected) {
    ls_rank *first = requests[0]->rank;
    for (int m = 0; m < size; m++) {
        requests[m]->collected = collected;
        LS_ASSERT(requests[m]->state == LS_REQUEST_MATCHED);
        flip(requests[m]);
    }
    if (ls_kind_is_message(requests[0]->call.kind)) {
        ls_schedule__enter(first);
        int status = ls_p2p__move(run, requests);
        ls_schedule__leave(first);
        return status;
    }
    void *memory = NULL;
    LS_TRY(ls_alloc(&memory, (size_t)size, sizeof(ls_call *)));
    ls_meet meet = {.shared = requests[0]->comm->shared,
                    .requests = (ls_request **)(uintptr_t)requests,
                    .calls = memory};
    ls_schedule__enter(first);
    int status = ls_meet__move(run, &meet);
    for (int m = 0; m < size; m++) {
        ls_request__done(requests[m], status);
    }
    if (status != LS_OK) {
        ls_spmd__fail(run, status, ls_error_last()->text);
    }
    ls_schedule__leave(first);
    ls_free(memory, (size_t)size, sizeof(ls_call *));
    return status;
}

void ls_remote_skip(ls_request *const *requests, int size) {
    for (int m = 0; m < size; m++) {
        ls_request__done(requests[m], LS_OK);
    }
}

void ls_remote_release(ls_request *request) {
    LS_ASSERT(request->state == LS_REQUEST_DONE);
    ls_request__free(request->rank, request);
}

int ls_remote_destroy(ls_rank_comm *comm, const char *file, int line) {
    hold(comm->rank);
    int status = ls_comm_destroy_at(file, line, comm);
    release();
    return status;
}

void ls_remote_abandon(ls_rank_comm *comm, const char *file, int line) {
    comm->abandoned = true;
    comm->file = file;
    comm->line = line;
}

void ls_remote_name(ls_rank_comm *comm, const char *name) {
    ls_comm *named = comm->shared->comm;
    (void)snprintf(named->name, sizeof named->name, "%s", name);
}

// ---- Actions of ranks ---------------------------------------------------------------------------
bool ls_remote_stuck(const ls_spmd *run) {
    return run->running_count == 0 && run->status == LS_OK;
}

void ls_remote_wait(ls_rank *rank, ls_request *const *requests, int count) {
    ls_remote_resume(rank);
    if (rank->state != LS_RANK_RUNNING || rank->run->status != LS_OK) {
        return;
    }
    for (int i = 0; i < count; i++) {
        if (requests[i]->state == LS_REQUEST_POSTED) {
            requests[i]->awaited = &rank->main;
            rank->main.waiting += 1;
        }
    }
    if (rank->main.waiting > 0) {
        ls_remote__block(rank);
    }
}

void ls_remote_resume(ls_rank *rank) {
    for (ls_request *at = rank->open; at != NULL; at = at->next) {
        at->awaited = NULL;
    }
    rank->main.waiting = 0;
    if (rank->state == LS_RANK_BLOCKED) {
        ls_schedule__make_ready(rank);
    }
}

void ls_remote_return(ls_rank *rank, int exit_status) {
    ls_spmd *run = rank->run;
    ls_remote_resume(rank);
    rank->exit_status = exit_status;
    rank->main.current = NULL;
    run->result->exit_status[rank->id] = exit_status;
    run->running_count -= rank->state == LS_RANK_STALLED ? 0 : 1;
    rank->state = rank->state == LS_RANK_DIED ? LS_RANK_DIED : LS_RANK_RETURNED;
}

void ls_remote_failed(ls_rank *rank, const char *file, int line, const char *why) {
    if (file != NULL) {
        rank->file = file;
        rank->line = line;
    }
    rank->why = why[0] != 0 ? ls_arena_strdup(rank->run->arena, why) : NULL;
}

void ls_remote_died(ls_rank *rank, const char *how) {
    ls_remote_resume(rank);
    if (rank->state != LS_RANK_DIED) {
        ls_threads__lost(rank, LS_FINDING_RANK_DIED, "%s", how);
    }
    ls_remote_return(rank, LS_ERR_RANK_DIED);
}

bool ls_remote_gone(const ls_rank *rank) {
    return rank->state == LS_RANK_RETURNED || rank->state == LS_RANK_DIED;
}

bool ls_remote_dead(const ls_rank *rank) {
    return rank->state == LS_RANK_DIED;
}

bool ls_remote_stalled(const ls_rank *rank) {
    return rank->state == LS_RANK_STALLED;
}

// Whether all that the request waits for are gone.
static bool is_doomed(const ls_spmd *run, const ls_request *request) {
    const ls_comm *comm = request->call.comm;
    if (request->meet == NULL && request->call.root >= 0) {
        return ls_remote_gone(&run->ranks[comm->ranks[request->call.root]]);
    }
    for (int m = 0; m < comm->size; m++) {
        bool awaited =
            request->meet != NULL ? request->meet->requests[m] == NULL : m != request->comm->member;
        if (awaited && !ls_remote_gone(&run->ranks[comm->ranks[m]])) {
            return false;
        }
    }
    return true;
}

bool ls_remote_doomed(ls_spmd *run) {
    for (int r = 0; r < run->rank_count && run->status == LS_OK; r++) {
        for (const ls_request *at = run->ranks[r].open; at != NULL; at = at->next) {
            if (at->state == LS_REQUEST_POSTED && is_doomed(run, at)) {
                return ls_remote_explain(run);
            }
        }
    }
    return false;
}

void ls_remote_elsewhere(ls_rank *rank, const char *file, int line) {
    LS_ASSERT(rank->state == LS_RANK_RUNNING);
    rank->file = file;
    rank->line = line;
    for (const ls_request *at = rank->open; at != NULL; at = at->next) {
        if (at->state == LS_REQUEST_POSTED) {
            return;  // it waits in a call that is known
        }
    }
    ls_remote__block(rank);
    rank->state = LS_RANK_STALLED;
}

bool ls_remote_runs(const ls_rank *rank) {
    return rank->state == LS_RANK_RUNNING;
}

bool ls_remote_waited_for(const ls_spmd *run) {
    for (int r = 0; r < run->rank_count; r++) {
        for (const ls_request *at = run->ranks[r].open; at != NULL; at = at->next) {
            if (at->state == LS_REQUEST_POSTED) {
                return true;
            }
        }
    }
    return false;
}

bool ls_remote_explain(ls_spmd *run) {
    bool waits = ls_remote_undecided(run);
    for (int r = 0; r < run->rank_count && run->status == LS_OK; r++) {
        ls_rank *rank = &run->ranks[r];
        if (rank->state != LS_RANK_RUNNING) {
            waits = waits || rank->state == LS_RANK_BLOCKED;
            continue;
        }
        for (ls_request *at = rank->open; at != NULL; at = at->next) {
            if (at->state == LS_REQUEST_POSTED) {
                at->awaited = &rank->main;
                rank->main.waiting += 1;
            }
        }
        if (rank->main.waiting > 0) {
            ls_remote__block(rank);
            waits = true;
        }
    }
    if (!waits || run->status != LS_OK) {
        return false;
    }
    for (int r = 0; r < run->rank_count; r++) {
        if (run->ranks[r].state == LS_RANK_RUNNING) {
            ls_remote__block(&run->ranks[r]);
            run->ranks[r].state = LS_RANK_STALLED;
        }
    }
    ls_stuck__explain(run);
    return true;
}

void ls_remote_waiting(const ls_spmd *run, ls_text *text) {
    for (int r = 0; r < run->rank_count; r++) {
        for (const ls_request *at = run->ranks[r].open; at != NULL; at = at->next) {
            char what[256], where[LS_CALL_WHERE_MAX];
            if (at->state != LS_REQUEST_POSTED) {
                continue;
            }
            ls_call_describe(what, sizeof what, &at->call);
            ls_text_printf(text, "rank %d waits in %s at %s\n", r, what,
                           ls_call__where(where, &at->call));
            break;
        }
    }
}

void ls_remote_finding(ls_spmd *run, ls_finding_id id, const int *ranks, int count,
                       const char *file, int line, const char *text) {
    ls_text kept = {0};
    ls_text_puts(&kept, text);
    // Off in the engine, which does not see memory of ranks; the launcher has its own check.
    run->checks[id] = run->checks[id] || id == LS_FINDING_BUFFER_USE_BEFORE_WAIT;
    bool on = ls_findings__add(run, id, ranks, count, file, line, ls_findings__string(run, &kept));
    ls_text_free(&kept);
    ls_spmd__fail(run, on ? LS_ERR_FINDING : LS_ERR_MISMATCH, ls_finding_name(id));
}
