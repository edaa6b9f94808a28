// Groups of calls in progress in the MPI backend. A group waits for older ones that it must not
// overtake: collectives of one communicator, and messages one way between two ranks, are ordered.
// All others proceed concurrently.
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "backends/mpi/mpi_internal.h"

static bool is_p2p(const ls_call *call) {
    return ls_kind_is_message(call->kind);
}

// ---- Sends and receives agree pair by pair ------------------------------------------------------
#define ASK_TAG    0  // the sender's message to the receiver
#define ANSWER_TAG 1  // the receiver's message to the sender

typedef struct message {
    int64_t dtype, count, seq, rank, line, status;
    char file[80];
} message;

// The messages of the two ends of a send or receive.
typedef struct ls_mpi_pair {
    message own, other;
} ends_of_message;

static void fill_message(message *out, const ls_call *call, int status) {
    memset(out, 0, sizeof *out);
    out->dtype = (int64_t)call->dtype;
    out->count = (int64_t)call->count;
    out->seq = (int64_t)call->seq;
    out->rank = call->rank;
    out->line = call->line;
    out->status = status;
    if (call->file != NULL) {
        (void)snprintf(out->file, sizeof out->file, "%s", call->file);
    }
}

static int exchange_message(ls_mpi_group *group, const ls_call *call, const message *own,
                            message *other) {
    MPI_Request *request = NULL;
    MPI_Comm comm = ls_mpi__comm(call->comm);
    int bytes = (int)sizeof *own;
    int out_tag = call->kind == LS_SEND ? ASK_TAG : ANSWER_TAG;
    int in_tag = call->kind == LS_SEND ? ANSWER_TAG : ASK_TAG;
    LS_TRY(ls_mpi__request(&request, group));
    LS_MPI_TRY(MPI_Isend(own, bytes, MPI_BYTE, call->root, out_tag, comm, request), "MPI_Isend");
    LS_TRY(ls_mpi__request(&request, group));
    LS_MPI_TRY(MPI_Irecv(other, bytes, MPI_BYTE, call->root, in_tag, comm, request), "MPI_Irecv");
    return LS_OK;
}

static int check_pair(const ls_call *call, const message *other) {
    ls_call there = *call;
    there.kind = call->kind == LS_SEND ? LS_RECV : LS_SEND;
    there.rank = (int)other->rank;
    there.root = ls_comm_member(call->comm, call->rank);
    there.dtype = (ls_dtype)other->dtype;
    there.count = (size_t)other->count;
    there.seq = (uint64_t)other->seq;
    there.file = other->file;
    there.line = (int)other->line;
    there.send = call->kind == LS_SEND ? NULL : (const void *)(uintptr_t)64;
    there.recv = call->kind == LS_SEND ? (void *)(uintptr_t)64 : NULL;
    const ls_call *pair[2] = {call->kind == LS_SEND ? call : &there,
                              call->kind == LS_SEND ? &there : call};
    int status = ls_calls_check(pair, 2);
    if (status != LS_OK) {
        ls_check__forget_file();  // it may be the message's
    }
    return status;
}

static int begin_pairs(ls_mpi_group *group) {
    ends_of_message *pairs = ls_arena_alloc(group->arena, (size_t)group->call_count, sizeof *pairs);
    LS_TRY_MEMORY(pairs != NULL);
    group->pairs = pairs;
    for (int i = 0; i < group->call_count; i++) {
        const ls_call *call = &group->calls[i];
        if (is_p2p(call)) {
            fill_message(&pairs[i].own, call, group->own_status);
            LS_TRY(exchange_message(group, call, &pairs[i].own, &pairs[i].other));
        }
    }
    return LS_OK;
}

static int check_pairs(const ls_mpi_group *group) {
    for (int i = 0; i < group->call_count; i++) {
        const ls_call *call = &group->calls[i];
        if (!is_p2p(call)) {
            continue;
        }
        const message *other = &group->pairs[i].other;
        if (other->status != LS_OK) {
            return LS_FAIL_RANK((int)other->status, (int)other->rank,
                                "%s: rank %d's own checks of its calls failed", call->comm->name,
                                (int)other->rank);
        }
        LS_TRY(check_pair(call, other));
    }
    return LS_OK;
}

// ---- Phases -------------------------------------------------------------------------------------
static bool peers_valid(const ls_call *calls, int call_count) {
    for (int i = 0; i < call_count; i++) {
        bool p2p = ls_kind_is_message(calls[i].kind);
        if (p2p && (calls[i].root < 0 || calls[i].root >= calls[i].comm->size)) {
            return false;
        }
    }
    return true;
}

static int check_own(const ls_call *calls, int call_count) {
    for (int i = 0; i < call_count; i++) {
        LS_TRY(ls_call_check(NULL, &calls[i]));
    }
    return ls_backend__check_overlap(calls, call_count);
}

#define PHASES 6

static int begin_trusting(ls_mpi_group *group) {
    LS_TRY(group->own_status);
    for (int i = 0; i < group->call_count; i++) {
        const ls_call *call = &group->calls[i];
        group->any_counts[i] = call->send_counts != NULL || call->recv_counts != NULL;
    }
    group->phase = PHASES - 1;
    return ls_mpi__move_begin(group);
}

static int begin(ls_mpi_group *group) {
    group->own_status = check_own(group->calls, group->call_count);
    group->own_error = *ls_error_last();
    group->own_failure = *ls_check_last();
    if (group->trusts) {
        return begin_trusting(group);
    }
    if (group->own_status != LS_OK && !peers_valid(group->calls, group->call_count)) {
        return group->own_status;  // no peer to inform
    }
    return ls_mpi__agree_begin(group);
}

static int agreed(ls_mpi_group *group) {
    LS_TRY(ls_mpi__agree_check(group));
    return begin_pairs(group);
}

static int paired(ls_mpi_group *group) {
    if (group->own_status != LS_OK) {
        return group->own_status;
    }
    LS_TRY(check_pairs(group));
    return ls_mpi__move_begin(group);
}

static int (*const phases[])(ls_mpi_group *group) = {
    begin, ls_mpi__agree_fingerprints, ls_mpi__agree_counts, agreed, paired, ls_mpi__move_end,
};
static_assert(sizeof phases / sizeof *phases == PHASES, "all phases");

static void end(ls_mpi_group *group, int status) {
    group->done = true;
    group->status = status;
    group->error = *ls_error_last();
    group->failure = *ls_check_last();
    if (status != LS_OK && group->own_status != LS_OK) {
        // Informing the others may have changed the error; this rank's own is the relevant one.
        group->status = group->own_status;
        group->error = group->own_error;
        group->failure = group->own_failure;
    }
}

// Whether all that the last phase has started is complete.
static int poll(ls_mpi_group *group, int *complete) {
    int result = MPI_Testall(group->request_count, group->requests, complete, group->statuses);
    for (int i = 0; i < group->request_count && result == MPI_ERR_IN_STATUS; i++) {
        int of_request = group->statuses[i].MPI_ERROR;
        if (of_request != MPI_SUCCESS && of_request != MPI_ERR_PENDING) {
            result = of_request;
        }
    }
    return ls_mpi__status(result, "MPI_Testall");
}

static void advance(ls_mpi_group *group) {
    int complete = 1;
    while (!group->done) {
        int status = poll(group, &complete);
        if (status == LS_OK && !complete) {
            return;
        }
        if (status == LS_OK) {
            group->request_count = 0;
            ls_check_clear();
            group->phase += 1;
            status = phases[group->phase - 1](group);
        }
        if (status != LS_OK || group->phase == PHASES) {
            end(group, status);
        }
    }
}

// ---- The list -----------------------------------------------------------------------------------
static bool ordered(const ls_call *a, const ls_call *b) {
    if (a->comm != b->comm || is_p2p(a) != is_p2p(b)) {
        return false;
    }
    return !is_p2p(a) || (a->kind == b->kind && a->root == b->root);
}

static bool must_wait(const ls_mpi_group *group, const ls_mpi_group *list) {
    for (const ls_mpi_group *older = list; older != group; older = older->next) {
        for (int i = 0; i < older->call_count && !older->done; i++) {
            for (int k = 0; k < group->call_count; k++) {
                if (ordered(&older->calls[i], &group->calls[k])) {
                    return true;
                }
            }
        }
    }
    return false;
}

void ls_mpi__advance(ls_mpi_group *list) {
    for (ls_mpi_group *at = list; at != NULL; at = at->next) {
        if (!at->done && (at->phase > 0 || !must_wait(at, list))) {
            advance(at);
        }
    }
}

int ls_mpi__group_open(ls_mpi_group **out, ls_mpi_group **list, ls_call *calls, int call_count,
                       bool trusts) {
    void *memory = NULL;
    *out = NULL;
    LS_TRY(ls_alloc(&memory, 1, sizeof(ls_mpi_group)));
    ls_mpi_group *made = memory;
    made->calls = calls;
    made->call_count = call_count;
    made->trusts = trusts;
    // At most two requests a call are under way at once.
    made->request_room = 2 * call_count + 2;
    int status = ls_arena_create(&made->arena);
    if (status == LS_OK) {
        made->requests =
            ls_arena_alloc(made->arena, (size_t)made->request_room, sizeof(MPI_Request));
        made->statuses =
            ls_arena_alloc(made->arena, (size_t)made->request_room, sizeof(MPI_Status));
        made->any_counts = ls_arena_alloc(made->arena, (size_t)call_count, sizeof(bool));
        bool ready = made->requests != NULL && made->statuses != NULL && made->any_counts != NULL;
        status = ready ? LS_OK : LS_ERR_MEMORY;
    }
    if (status != LS_OK) {
        ls_arena_free(made->arena);
        ls_free(made, 1, sizeof *made);
        return status;
    }
    while (*list != NULL) {
        list = &(*list)->next;
    }
    *list = made;
    *out = made;
    return LS_OK;
}

int ls_mpi__group_close(ls_mpi_group *group, ls_mpi_group **list) {
    LS_ASSERT(group->done);
    while (*list != group) {
        list = &(*list)->next;
    }
    *list = group->next;
    int status = group->status;
    ls_error error = group->error;
    ls_check_failure failure = group->failure;
    if (group->request_count == 0) {
        ls_arena_free(group->arena);
    }
    // Else MPI may still use the arena's memory: it stays for the rest of the process, which has
    // lost its communicator anyway.
    ls_free(group, 1, sizeof *group);
    if (status == LS_OK) {
        return LS_OK;
    }
    ls_check__restore(&failure);
    return ls_error__set(error.file, error.line, error.code, error.rank, "%s", error.text);
}
