// The sources for members that copy their results themselves: moved data is in the others' sent
// memory; for reduced or recorded data, one result is made for all members that get the same.
#include <stdlib.h>

#include "exec/internal.h"

static ls_exec_op *op_of(const ls_exec_job *job, int member) {
    return ls_remote_owner(job->requests[member]);
}

static size_t received_by(const ls_exec_job *job, int member) {
    const ls_call *call = ls_remote_call_of(job->requests[member]);
    size_t count = 0;
    (void)ls_call_recv_elements(&count, call);  // 0 where it fails, which the checks have reported
    return count * ls_dtype_bytes(call->dtype);
}

static void add_piece(const ls_exec *exec, ls_exec_op *to, const void *at, uint64_t bytes,
                      uint64_t stretch) {
    const uint64_t offset = (uint64_t)((const char *)at - exec->memory.base);
    to->pieces[to->piece_count++] = (ls_wire_piece){offset, bytes, stretch};
    (void)__atomic_fetch_add(ls_exec_memory__readers(exec->memory.base, stretch), 1,
                             __ATOMIC_ACQ_REL);
}

// ---- In what was sent ---------------------------------------------------------------------------
static bool is_collected(const ls_exec *exec, const ls_exec_job *job) {
    const ls_call *call = ls_remote_call_of(job->requests[0]);
    bool message = ls_kind_is_message(call->kind);
    if (!message && (ls_collective_of(call->kind)->reduces ||
                     !ls_collective_has_data(ls_collective_of(call->kind)))) {
        return false;
    }
    for (int m = 0; m < job->size; m++) {
        const ls_exec_op *op = op_of(job, m);
        bool receives = op->call.call.kind != LS_SEND && received_by(job, m) > 0;
        if ((receives && op->pieces == NULL) || op->on_device) {
            return false;
        }
    }
    return !ls_exec__records(exec, job);
}

// Bytes that `from` sends to `to`.
static uint64_t sent(const ls_call *const *calls, int from, int to) {
    if (ls_kind_is_message(calls[0]->kind)) {
        return from == 0 && to == 1 ? calls[0]->count * ls_dtype_bytes(calls[0]->dtype) : 0;
    }
    return ls_collective_bytes(calls, from, to);
}

static void find_pieces(const ls_exec *exec, const ls_exec_job *job, const ls_call *const *calls) {
    bool blocks = !ls_kind_is_message(calls[0]->kind) &&
                  ls_collective_of(calls[0]->kind)->send.form == LS_SIDE_BLOCKS;
    for (int from = 0; from < job->size; from++) {
        const char *at = op_of(job, from)->call.send;
        const uint64_t stretch = (uint64_t)(at - exec->memory.base);
        for (int to = 0; to < job->size && at != NULL; to++) {
            uint64_t bytes = sent(calls, from, to);
            if (bytes > 0) {
                add_piece(exec, op_of(job, to), at, bytes, stretch);
                at += blocks ? bytes : 0;
            }
        }
    }
}

// ---- Made for all -------------------------------------------------------------------------------
static int make_results(ls_exec *exec, const ls_exec_job *job) {
    const ls_call *call = ls_remote_call_of(job->requests[0]);
    bool same = !ls_kind_is_message(call->kind) && ls_collective_of(call->kind)->replicates;
    uint64_t result = 0;
    for (int m = 0; m < job->size; m++) {
        ls_exec_op *op = op_of(job, m);
        size_t bytes = op->pieces != NULL ? received_by(job, m) : 0;
        if (bytes == 0) {
            continue;
        }
        if (result == 0 || !same) {
            LS_TRY(ls_exec_memory__take(&result, &exec->memory, bytes));
            op->result = result;
        }
        void *at = exec->memory.base + result;
        add_piece(exec, op, at, bytes, result);
        op->call.recv = at;
        ls_remote_receive(job->requests[m], at);
    }
    return LS_OK;
}

int ls_exec__place_results(ls_exec *exec, const ls_exec_job *job, bool *collected) {
    *collected = is_collected(exec, job);
    if (!*collected) {
        return make_results(exec, job);
    }
    const ls_call **calls = calloc((size_t)job->size, sizeof *calls);
    LS_TRY(calls != NULL ? LS_OK : LS_FAIL(LS_ERR_MEMORY, "no memory"));
    for (int m = 0; m < job->size; m++) {
        calls[m] = ls_remote_call_of(job->requests[m]);
    }
    find_pieces(exec, job, calls);
    free((void *)calls);
    return LS_OK;
}

void ls_exec__lend_results(ls_exec *exec, const ls_exec_job *job) {
    for (int m = 0; m < job->size; m++) {
        const ls_exec_op *op = op_of(job, m);
        if (op->result != 0) {
            ls_exec_memory__give(&exec->memory, op->result, received_by(job, m));
        }
    }
}
