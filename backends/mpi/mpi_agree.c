// Agreement before any data moves: every member sends every other its arguments, and all run the
// descriptors' checks on the calls of all. Ranks that disagree get the same error.
#include <string.h>

#include "backends/mpi/mpi_internal.h"

#define FILE_BYTES 80

// A call without its buffers, as it travels. All processes run one program, so bytes will do.
typedef struct fingerprint {
    int64_t kind, dtype, op, root, count, seq, rank, line;
    int64_t status;  // of the rank's own checks
    int64_t has_send_counts, has_recv_counts;
    double premul;
    char file[FILE_BYTES];
} fingerprint;

// The collectives of this group on one communicator.
typedef struct ls_mpi_batch {
    const ls_comm *comm;
    int call_count;        // this rank's
    int64_t own_count;     // the same, as it travels
    int64_t *counts;       // [size] every member's
    int *calls;            // [call_count] indices into the group's calls
    fingerprint *own;      // [call_count]
    fingerprint *all;      // [size * call_count], by member
    int64_t **all_counts;  // [call_count] NULL, or [size * 2 * size] send and recv counts by member
} comm_batch;

static bool is_collective(const ls_call *call) {
    return !ls_kind_is_message(call->kind);
}

static void *need(ls_mpi_group *group, size_t count, size_t size) {
    return ls_arena_alloc(group->arena, count, size);
}

// The end of a long path, 0-terminated.
static void copy_file(char out[FILE_BYTES], const char *file) {
    memset(out, 0, FILE_BYTES);
    if (file == NULL) {
        return;
    }
    size_t length = strlen(file), room = FILE_BYTES - 1;
    const char *from = length > room ? file + (length - room) : file;
    memcpy(out, from, strlen(from));
}

static void take_fingerprint(fingerprint *out, const ls_call *call, int status) {
    memset(out, 0, sizeof *out);
    out->kind = (int64_t)call->kind;
    out->dtype = (int64_t)call->dtype;
    out->op = (int64_t)call->op;
    out->root = call->root;
    out->count = (int64_t)call->count;
    out->seq = (int64_t)call->seq;
    out->rank = call->rank;
    out->line = call->line;
    out->status = status;
    out->has_send_counts = call->send_counts != NULL;
    out->has_recv_counts = call->recv_counts != NULL;
    out->premul = call->premul;
    copy_file(out->file, call->file);
}

static int collect(ls_mpi_group *group, comm_batch *batches) {
    size_t n = (size_t)group->call_count;
    for (int i = 0; i < group->call_count; i++) {
        const ls_call *call = &group->calls[i];
        if (!is_collective(call)) {
            continue;
        }
        int b = 0;
        while (b < group->batch_count && batches[b].comm != call->comm) {
            b += 1;
        }
        comm_batch *batch = &batches[b];
        if (b == group->batch_count) {
            group->batch_count += 1;
            batch->comm = call->comm;
            batch->calls = need(group, n, sizeof(int));
            batch->own = need(group, n, sizeof *batch->own);
            batch->counts = need(group, (size_t)call->comm->size, sizeof *batch->counts);
            LS_TRY_MEMORY(batch->calls != NULL && batch->own != NULL && batch->counts != NULL);
        }
        take_fingerprint(&batch->own[batch->call_count], call, group->own_status);
        batch->calls[batch->call_count++] = i;
    }
    return LS_OK;
}

int ls_mpi__agree_begin(ls_mpi_group *group) {
    comm_batch *batches = need(group, (size_t)group->call_count, sizeof *batches);
    MPI_Request *request = NULL;
    LS_TRY_MEMORY(batches != NULL);
    group->batches = batches;
    LS_TRY(collect(group, batches));
    for (int b = 0; b < group->batch_count; b++) {
        batches[b].own_count = batches[b].call_count;
        LS_TRY(ls_mpi__request(&request, group));
        LS_MPI_TRY(MPI_Iallgather(&batches[b].own_count, 1, MPI_INT64_T, batches[b].counts, 1,
                                  MPI_INT64_T, ls_mpi__comm(batches[b].comm), request),
                   "MPI_Iallgather");
    }
    return LS_OK;
}

// How many collectives each member made; a member that made fewer would leave the others waiting.
static int check_numbers(const ls_mpi_group *group, const comm_batch *batch) {
    for (int m = 0; m < batch->comm->size; m++) {
        if (batch->counts[m] != batch->counts[0]) {
            const ls_call *call = &group->calls[batch->calls[0]];
            ls_check__note(LS_FINDING_MISSING_RANK, call);
            return LS_FAIL_RANK(LS_ERR_MISMATCH, batch->comm->ranks[m],
                                "%s: in one group rank %d makes %lld collectives and rank %d %lld",
                                batch->comm->name, batch->comm->ranks[0],
                                (long long)batch->counts[0], batch->comm->ranks[m],
                                (long long)batch->counts[m]);
        }
    }
    return LS_OK;
}

int ls_mpi__agree_fingerprints(ls_mpi_group *group) {
    MPI_Request *request = NULL;
    for (int b = 0; b < group->batch_count; b++) {
        comm_batch *batch = &group->batches[b];
        size_t calls = (size_t)batch->call_count;
        if (check_numbers(group, batch) != LS_OK) {
            if (group->own_status == LS_OK) {
                return LS_ERR_MISMATCH;
            }
            group->batch_count = b;  // it remains to notify the other ends of messages
            return LS_OK;
        }
        batch->all = need(group, (size_t)batch->comm->size * calls, sizeof *batch->all);
        batch->all_counts = need(group, calls, sizeof *batch->all_counts);
        LS_TRY_MEMORY(batch->all != NULL && batch->all_counts != NULL);
        int bytes = batch->call_count * (int)sizeof *batch->own;
        LS_TRY(ls_mpi__request(&request, group));
        LS_MPI_TRY(MPI_Iallgather(batch->own, bytes, MPI_BYTE, batch->all, bytes, MPI_BYTE,
                                  ls_mpi__comm(batch->comm), request),
                   "MPI_Iallgather");
    }
    return LS_OK;
}

// Counts per member travel only where some member gives them: [2 * size] a member, send then recv.
static int exchange_counts(ls_mpi_group *group, comm_batch *batch) {
    MPI_Request *request = NULL;
    size_t size = (size_t)batch->comm->size;
    for (int k = 0; k < batch->call_count; k++) {
        bool any = false;
        for (size_t m = 0; m < size; m++) {
            const fingerprint *f = &batch->all[m * (size_t)batch->call_count + (size_t)k];
            any = any || f->has_send_counts != 0 || f->has_recv_counts != 0;
        }
        if (!any) {
            continue;
        }
        const ls_call *call = &group->calls[batch->calls[k]];
        group->any_counts[batch->calls[k]] = true;
        int64_t *own = need(group, 2 * size, sizeof *own);
        batch->all_counts[k] = need(group, size * 2 * size, sizeof **batch->all_counts);
        LS_TRY_MEMORY(own != NULL && batch->all_counts[k] != NULL);
        for (size_t m = 0; m < size; m++) {
            own[m] = call->send_counts != NULL ? (int64_t)call->send_counts[m] : 0;
            own[size + m] = call->recv_counts != NULL ? (int64_t)call->recv_counts[m] : 0;
        }
        LS_TRY(ls_mpi__request(&request, group));
        LS_MPI_TRY(MPI_Iallgather(own, (int)(2 * size), MPI_INT64_T, batch->all_counts[k],
                                  (int)(2 * size), MPI_INT64_T, ls_mpi__comm(batch->comm), request),
                   "MPI_Iallgather");
    }
    return LS_OK;
}

// Member m's call k as it was made there, with buffers that are far from each other: only the rank
// itself can check its own.
static int rebuild(ls_call *out, ls_mpi_group *group, const comm_batch *batch, int k, int m) {
    size_t size = (size_t)batch->comm->size;
    const fingerprint *f = &batch->all[(size_t)m * (size_t)batch->call_count + (size_t)k];
    *out = (ls_call){
        .kind = (ls_kind)f->kind,
        .comm = batch->comm,
        .rank = (int)f->rank,
        .seq = (uint64_t)f->seq,
        .dtype = (ls_dtype)f->dtype,
        .op = (ls_op)f->op,
        .premul = f->premul,
        .root = (int)f->root,
        .count = (size_t)f->count,
        .send = (const void *)(uintptr_t)64,
        .recv = (void *)(UINTPTR_MAX / 2 + 1),
        .file = f->file[0] != '\0' ? f->file : NULL,
        .line = (int)f->line,
    };
    if (batch->all_counts[k] != NULL) {
        size_t *counts = need(group, 2 * size, sizeof *counts);
        LS_TRY_MEMORY(counts != NULL);
        for (size_t i = 0; i < 2 * size; i++) {
            counts[i] = (size_t)batch->all_counts[k][(size_t)m * 2 * size + i];
        }
        out->send_counts = f->has_send_counts != 0 ? counts : NULL;
        out->recv_counts = f->has_recv_counts != 0 ? counts + size : NULL;
    }
    return LS_OK;
}

static int check_call(ls_mpi_group *group, const comm_batch *batch, int k) {
    int size = batch->comm->size;
    ls_call *calls = need(group, (size_t)size, sizeof *calls);
    const ls_call **members = need(group, (size_t)size, sizeof *members);
    LS_TRY_MEMORY(calls != NULL && members != NULL);
    for (int m = 0; m < size; m++) {
        LS_TRY(rebuild(&calls[m], group, batch, k, m));
        members[m] = &calls[m];
    }
    int status = ls_calls_check(members, size);
    if (status != LS_OK) {
        ls_check__forget_file();  // it is the fingerprint's
    }
    return status;
}

// A member whose own checks failed reports it; the others name it.
static int check_statuses(const comm_batch *batch) {
    for (int m = 0; m < batch->comm->size; m++) {
        const fingerprint *f = &batch->all[(size_t)m * (size_t)batch->call_count];
        if (f->status != LS_OK) {
            return LS_FAIL_RANK((int)f->status, (int)f->rank,
                                "%s: rank %d's own checks of its calls failed (%s:%lld)",
                                batch->comm->name, (int)f->rank, f->file, (long long)f->line);
        }
    }
    return LS_OK;
}

int ls_mpi__agree_counts(ls_mpi_group *group) {
    for (int b = 0; b < group->batch_count && group->own_status == LS_OK; b++) {
        LS_TRY(check_statuses(&group->batches[b]));
    }
    for (int b = 0; b < group->batch_count && group->own_status == LS_OK; b++) {
        LS_TRY(exchange_counts(group, &group->batches[b]));
    }
    return LS_OK;  // where this rank's own checks failed, the others stop at the same place
}

int ls_mpi__agree_check(ls_mpi_group *group) {
    for (int b = 0; b < group->batch_count && group->own_status == LS_OK; b++) {
        for (int k = 0; k < group->batches[b].call_count; k++) {
            LS_TRY(check_call(group, &group->batches[b], k));
        }
    }
    return LS_OK;
}
