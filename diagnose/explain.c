// The calls of a history go to the matcher in each rank's order; a call of a queue goes when the
// one before it has matched, as on a GPU. A call without a match in the end hangs.
#include "diagnose/history.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "ranks/remote.h"

#define LOOKAHEAD 64

// Calls of a rank that begin one after another.
typedef struct queue {
    uint64_t name;
    int unmet;  // posted calls without a match
} queue;

typedef struct posted {
    ls_history_call *call;
    queue *in;  // NULL: of no queue
} posted;

typedef struct rank_state {
    ls_rank *rank;
    ls_rank_comm **handles;  // [group_count]; NULL: it is not in the group
    posted *calls;           // [call_count]
    queue *queues;           // [queue_count] at most as many as calls
    int queue_count;
    int next;  // that is to be posted
} rank_state;

typedef struct matching {
    ls_history *history;
    ls_spmd *run;
    ls_arena *arena;
    rank_state *ranks;
    void *buffer;      // of every call
    ls_request **met;  // [met_count] that are to be completed
    int met_count, met_room;
} matching;

static void note_met(void *arg, ls_request *const *requests, int size) {
    matching *m = arg;
    for (int i = 0; i < size && m->met_count < m->met_room; i++) {
        m->met[m->met_count++] = requests[i];
    }
}

// Completes a match.
static void complete(matching *m) {
    const int count = m->met_count;
    ls_remote_skip(m->met, count);
    for (int i = 0; i < count; i++) {
        posted *of = ls_remote_owner(m->met[i]);
        of->call->met = true;
        if (of->in != NULL) {
            of->in->unmet -= 1;
        }
        ls_remote_release(m->met[i]);
    }
    m->met_count = 0;
}

// ---- Communicators ------------------------------------------------------------------------------
// Of the members that left a dump, by the group's number.
static int make_group(matching *m, int index) {
    const ls_history_group *group = &m->history->groups[index];
    const size_t size = (size_t)group->size;
    int *ranks = ls_arena_alloc(m->arena, size, sizeof *ranks);
    int *lines = ls_arena_alloc(m->arena, size, sizeof *lines);
    const char **files = ls_arena_alloc(m->arena, size, sizeof *files);
    ls_rank_comm **handles = ls_arena_alloc(m->arena, size, sizeof *handles);
    LS_TRY_MEMORY(ranks != NULL && lines != NULL && files != NULL && handles != NULL);
    int count = 0;
    for (int i = 0; i < group->size; i++) {
        files[i] = "?";
        if (m->history->ranks[group->ranks[i]].known) {
            ranks[count++] = group->ranks[i];
        }
    }
    if (count == 0) {
        return LS_OK;
    }
    LS_TRY(ls_remote_comm(handles, m->run, ranks, count, group->name, files, lines));
    for (int i = 0; i < count; i++) {
        m->ranks[ranks[i]].handles[index] = handles[i];
    }
    ls_remote_begin_at(handles[0], group->first);
    return LS_OK;
}

// The member that a root or a peer is among those that left a dump; -1: it did not.
static int member_among(const ls_history *history, const ls_history_group *group, int root) {
    int member = 0;
    for (int i = 0; i < root; i++) {
        member += history->ranks[group->ranks[i]].known ? 1 : 0;
    }
    return history->ranks[group->ranks[root]].known ? member : -1;
}

static queue *find_queue(rank_state *rank, uint64_t name) {
    for (int i = 0; i < rank->queue_count && name != 0; i++) {
        if (rank->queues[i].name == name) {
            return &rank->queues[i];
        }
    }
    if (name == 0) {
        return NULL;
    }
    rank->queues[rank->queue_count] = (queue){.name = name};
    return &rank->queues[rank->queue_count++];
}

static int open_run(matching *m, const ls_spmd_options *options, const ls_remote *remote) {
    ls_history *history = m->history;
    size_t calls = 0;
    LS_TRY(ls_remote_open(&m->run, options, remote));
    m->ranks = ls_arena_alloc(m->arena, (size_t)history->rank_count, sizeof *m->ranks);
    for (int r = 0; m->ranks != NULL && r < history->rank_count; r++) {
        rank_state *rank = &m->ranks[r];
        rank->rank = ls_remote_rank(m->run, r);
        rank->handles =
            ls_arena_alloc(m->arena, (size_t)history->group_count + 1, sizeof *rank->handles);
        rank->calls =
            ls_arena_alloc(m->arena, (size_t)history->ranks[r].call_count + 1, sizeof *rank->calls);
        rank->queues = ls_arena_alloc(m->arena, (size_t)history->ranks[r].call_count + 1,
                                      sizeof *rank->queues);
        calls += (size_t)history->ranks[r].call_count;
        const bool room = rank->calls != NULL && rank->queues != NULL;
        for (int i = 0; room && i < history->ranks[r].call_count; i++) {
            ls_history_call *call = &history->ranks[r].calls[i];
            rank->calls[i] = (posted){.call = call, .in = find_queue(rank, call->queue)};
        }
    }
    m->met = ls_arena_alloc(m->arena, calls + 1, sizeof *m->met);
    m->met_room = (int)calls;
    LS_TRY(ls_arena_failed(m->arena) ? LS_ERR_MEMORY : LS_OK);
    for (int g = 0; g < history->group_count; g++) {
        LS_TRY(make_group(m, g));
    }
    return LS_OK;
}

// ---- Calls --------------------------------------------------------------------------------------
static int post_one(matching *m, rank_state *rank, posted *of) {
    const ls_history_group *group = &m->history->groups[of->call->group];
    ls_rank_comm *handle = rank->handles[of->call->group];
    ls_remote_call made = {
        .call = of->call->call, .owner = of, .issuer = {.thread = of->call->thread}};
    made.call.send = made.call.recv = m->buffer;  // not read or written
    made.call.root = member_among(m->history, group, made.call.root);
    if (ls_comm_size(handle) < group->size) {  // counts are by member
        made.call.send_counts = made.call.recv_counts = NULL;
        made.call.count = 0;
    }
    if (made.call.root < 0) {
        of->call->met = true;  // with a rank that nothing is known of
        return LS_OK;
    }
    ls_request *request = NULL;
    // A finding is the run's status, not an error of ours.
    const int status = ls_remote_post(&request, handle, &made);
    if (status == LS_OK && request != NULL && of->in != NULL) {
        of->in->unmet += 1;
    }
    return status == LS_ERR_MEMORY ? status : LS_OK;
}

// Posts what the rank may begin; *any: something was.
static int post_rank(bool *any, matching *m, int number) {
    rank_state *rank = &m->ranks[number];
    const int count = m->history->ranks[number].call_count;
    while (rank->next < count && ls_remote_status(m->run, NULL) == LS_OK) {
        const ls_history_call *first = rank->calls[rank->next].call;
        const queue *in = rank->calls[rank->next].in;
        if (in != NULL && in->unmet > 0 && !ls_remote_undecided(m->run)) {
            return LS_OK;
        }
        const bool batch = first->batch != 0;
        if (batch) {
            LS_TRY(ls_remote_group(rank->rank, true, first->call.file, first->call.line));
        }
        do {
            LS_TRY(post_one(m, rank, &rank->calls[rank->next++]));
        } while (batch && rank->next < count &&
                 rank->calls[rank->next].call->batch == first->batch);
        if (batch) {
            (void)ls_remote_group(rank->rank, false, first->call.file, first->call.line);
        }
        complete(m);
        *any = true;
    }
    return LS_OK;
}

static int match_all(matching *m) {
    bool any = true;
    while (any && ls_remote_status(m->run, NULL) == LS_OK) {
        any = false;
        for (int r = 0; r < m->history->rank_count; r++) {
            LS_TRY(post_rank(&any, m, r));
        }
    }
    return LS_OK;
}

// ---- The end ------------------------------------------------------------------------------------
// Ranks whose processes are known to have ended.
static void end_ranks(const matching *m) {
    for (int r = 0; r < m->history->rank_count; r++) {
        const char *ended = m->history->ranks[r].ended;
        if (ls_history_returned(ended)) {
            ls_remote_return(m->ranks[r].rank, (int)strtol(ended + strlen("returned "), NULL, 10));
        } else if (ended != NULL) {
            ls_remote_died(m->ranks[r].rank, ended);
        }
    }
}

// The first member that left no dump of a group on which a call is not completed; -1: none.
static int find_silent(const ls_history *history, const ls_history_call **waits) {
    for (int r = 0; r < history->rank_count; r++) {
        for (int i = 0; i < history->ranks[r].call_count; i++) {
            const ls_history_call *call = &history->ranks[r].calls[i];
            const ls_history_group *group = &history->groups[call->group];
            for (int k = 0; k < group->size && !call->completed; k++) {
                if (!history->ranks[group->ranks[k]].known) {
                    *waits = call;
                    return group->ranks[k];
                }
            }
        }
    }
    return -1;
}

static void tell_silent(const matching *m) {
    const ls_history_call *waits = NULL;
    const int rank = find_silent(m->history, &waits);
    if (rank < 0 || ls_remote_status(m->run, NULL) != LS_OK) {
        return;
    }
    char text[512];
    (void)snprintf(text, sizeof text,
                   "rank %d left no dump, and others wait in %s on %s: its process ended before it "
                   "could write one, or its file is missing here",
                   rank, ls_kind_name(waits->call.kind), m->history->groups[waits->group].name);
    ls_remote_finding(m->run, LS_FINDING_RANK_DIED, &rank, 1, waits->call.file, waits->call.line,
                      text);
}

// A run that ended has a finding, or its calls were none of a program's.
static int check_explained(const matching *m) {
    const char *why = "";
    if (ls_remote_status(m->run, &why) != LS_OK && ls_remote_found(m->run) == NULL) {
        return LS_FAIL(LS_ERR_FORMAT, "the calls of the dumps cannot be matched: %s", why);
    }
    return LS_OK;
}

// Drops the calls of each ended rank from the first matched one that its GPU had not begun: the
// others wait for that call. Returns whether any were dropped.
static bool drop_unbegun(ls_history *history) {
    bool any = false;
    for (int r = 0; r < history->rank_count; r++) {
        ls_history_rank *rank = &history->ranks[r];
        for (int i = 0; i < rank->call_count && rank->ended != NULL; i++) {
            if (rank->calls[i].met && !rank->calls[i].started) {
                rank->call_count = i;
                any = true;
            }
        }
    }
    return any;
}

// Matches all calls in a new run, and frees the one before.
static int match(ls_spmd_result **out, matching *m, const ls_spmd_options *options,
                 const ls_remote *remote) {
    if (m->run != NULL) {
        (void)ls_remote_close(out, m->run);
        ls_spmd_result_free(*out);
        *out = NULL;
    }
    m->run = NULL;
    m->met_count = 0;
    for (int r = 0; r < m->history->rank_count; r++) {
        for (int i = 0; i < m->history->ranks[r].call_count; i++) {
            m->history->ranks[r].calls[i].met = false;
        }
    }
    LS_TRY(open_run(m, options, remote));
    return match_all(m);
}

int ls_history_explain(ls_spmd_result **out, ls_history *history, const char *checks) {
    char byte = 0;
    matching m = {.history = history, .buffer = &byte};
    const ls_remote remote = {.arg = &m, .met = note_met};
    ls_text list = {0};
    *out = NULL;
    if (history->rank_count == 0) {
        return LS_FAIL(LS_ERR_INVALID, "the dumps contain no calls");
    }
    // The data of buffers is not known.
    ls_text_printf(&list, "-buffer.*,-value.*,-handle.*%s%s", checks != NULL ? "," : "",
                   checks != NULL ? checks : "");
    const ls_spmd_options options = {.ranks = history->rank_count,
                                     .checks = ls_text_string(&list),
                                     .lookahead = LOOKAHEAD,
                                     .shape_only = true,
                                     .fixed = true};
    int status = ls_arena_create(&m.arena);
    status = status == LS_OK ? match(out, &m, &options, &remote) : status;
    if (status == LS_OK && ls_remote_status(m.run, NULL) == LS_OK && drop_unbegun(history)) {
        status = match(out, &m, &options, &remote);
    }
    if (status == LS_OK) {
        end_ranks(&m);
        (void)ls_remote_explain(m.run);
        tell_silent(&m);
        status = check_explained(&m);
    }
    if (m.run != NULL) {
        (void)ls_remote_close(out, m.run);
    }
    ls_text_free(&list);
    ls_arena_free(m.arena);
    return status == LS_OK && *out == NULL ? LS_ERR_MEMORY : status;
}

// ---- Calls that are not completed ---------------------------------------------------------------
typedef struct unfinished {
    const ls_history_call *first;
    int started, waiting;            // ranks
    int started_rank, waiting_rank;  // the first of each
} unfinished;

const char *ls_history_unfinished(const ls_history *history) {
    unfinished found = {.started_rank = -1, .waiting_rank = -1};
    for (int r = 0; r < history->rank_count; r++) {
        for (int i = 0; i < history->ranks[r].call_count; i++) {
            const ls_history_call *call = &history->ranks[r].calls[i];
            if (call->completed || !call->met) {
                continue;
            }
            found.first = found.first == NULL ? call : found.first;
            if (call->started) {
                found.started_rank = found.started++ == 0 ? r : found.started_rank;
            } else {
                found.waiting_rank = found.waiting++ == 0 ? r : found.waiting_rank;
            }
            break;  // the rank's first
        }
    }
    if (found.first == NULL) {
        return NULL;
    }
    const ls_history_call *call = found.first;
    const char *behind =
        found.waiting == 0
            ? ""
            : ls_arena_printf(history->arena,
                              "; %d of them, rank %d first, have not begun it: their GPU is behind "
                              "earlier work",
                              found.waiting, found.waiting_rank);
    return ls_arena_printf(
        history->arena,
        "every member has made the calls that are not completed, the first is %s "
        "on %s (%s:%d) on %d ranks%s; no mismatch explains it: look at the "
        "network, the GPUs and the kernels before it",
        ls_kind_name(call->call.kind), history->groups[call->group].name, call->call.file,
        call->call.line, found.started + found.waiting, behind);
}
