// The NCCL calls that make a collective.
#include <string.h>

#include "backends/nccl/nccl_internal.h"

// ---- Issuing ------------------------------------------------------------------------------------
// One call being issued.
typedef struct issue {
    nccl_worker *worker;
    const ls_nccl_library *nccl;
    const ls_call *call;
    const char *send;
    char *recv;
    ncclComm_t comm;
    cudaStream_t stream;
    ncclDataType_t type;  // the numbers are NCCL's
    size_t element_bytes;
    int member, size;
    const nccl_staged *staged;
} issue;

#define NCCL_TRY(i, function, ...)                                                                 \
    LS_TRY(ls_nccl__status((i)->nccl, (i)->nccl->function(__VA_ARGS__), #function))

static int settle(const issue *i) {
    if (i->worker->owner->options.blocking) {
        return LS_OK;
    }
    return ls_nccl__wait_comm(i->worker, i->comm, ls_kind_name(i->call->kind));
}

static int premul_op(ncclRedOp_t *out, const issue *i) {
    uint64_t factor = 0;
    ls_element_from_f64(&factor, i->call->dtype, i->call->premul);
    NCCL_TRY(i, ncclRedOpCreatePreMulSum, out, &factor, i->type, ncclScalarHostImmediate, i->comm);
    return LS_OK;
}

// A reduction on blocks: all_reduce, reduce, reduce_scatter.
static int reduce_with(const issue *i, ncclRedOp_t op) {
    const ls_call *call = i->call;
    if (call->kind == LS_ALL_REDUCE) {
        NCCL_TRY(i, ncclAllReduce, i->send, i->recv, call->count, i->type, op, i->comm, i->stream);
        return settle(i);
    }
    if (call->kind == LS_REDUCE) {
        NCCL_TRY(i, ncclReduce, i->send, i->recv, call->count, i->type, op, call->root, i->comm,
                 i->stream);
        return settle(i);
    }
    bool even = true;
    for (int m = 0; call->send_counts != NULL && m < i->size; m++) {
        even = even && call->send_counts[m] == call->send_counts[0];
    }
    if (even) {
        NCCL_TRY(i, ncclReduceScatter, i->send, i->recv, call->count, i->type, op, i->comm,
                 i->stream);
        return settle(i);
    }
    // Blocks of different sizes: a reduce to each member, which folds as reduce_scatter does. Not
    // as one group: NCCL would pack them together and split them in another way.
    const char *block = i->send;
    for (int m = 0; m < i->size; m++) {
        if (call->send_counts[m] != 0) {
            NCCL_TRY(i, ncclReduce, block, m == i->member ? i->recv : NULL, call->send_counts[m],
                     i->type, op, m, i->comm, i->stream);
            LS_TRY(settle(i));
        }
        block += call->send_counts[m] * i->element_bytes;
    }
    return LS_OK;
}

static int issue_reduction(const issue *i) {
    ncclRedOp_t op = (ncclRedOp_t)i->call->op;
    if (i->call->op != LS_PREMUL_SUM) {
        return reduce_with(i, op);
    }
    LS_TRY(premul_op(&op, i));
    int status = reduce_with(i, op);
    (void)i->nccl->ncclRedOpDestroy(op, i->comm);
    return status;
}

// Blocks between all pairs as one group of sends and receives; a member's own block is a copy.
typedef struct pairs {
    const char *send;  // blocks one after another; NULL: nothing is sent
    char *recv;
    const size_t *send_counts, *recv_counts;  // NULL: `count` each
    bool same_send;                           // one block goes to all members
    size_t count;
    int only_from, only_to;  // -1: any
} pairs;

static int issue_pair(const issue *i, const pairs *p, int peer, const char *send, size_t send_count,
                      char *recv, size_t recv_count) {
    bool sends = p->send != NULL && send_count != 0 && (p->only_to < 0 || p->only_to == peer);
    bool receives =
        p->recv != NULL && recv_count != 0 && (p->only_from < 0 || p->only_from == peer);
    if (peer == i->member) {
        if (sends && receives && send != recv) {
            LS_CUDA_TRY(cudaMemcpyAsync(recv, send, send_count * i->element_bytes,
                                        cudaMemcpyDeviceToDevice, i->stream),
                        "copying a rank's own block");
        }
        return LS_OK;
    }
    if (sends) {
        NCCL_TRY(i, ncclSend, send, send_count, i->type, peer, i->comm, i->stream);
    }
    if (receives) {
        NCCL_TRY(i, ncclRecv, recv, recv_count, i->type, peer, i->comm, i->stream);
    }
    return LS_OK;
}

static int issue_pairs(const issue *i, const pairs *p) {
    const char *send = p->send;
    char *recv = p->recv;
    NCCL_TRY(i, ncclGroupStart, );
    int status = LS_OK;
    for (int peer = 0; peer < i->size && status == LS_OK; peer++) {
        size_t send_count = p->send_counts != NULL ? p->send_counts[peer] : p->count;
        size_t recv_count = p->recv_counts != NULL ? p->recv_counts[peer] : p->count;
        status = issue_pair(i, p, peer, send, send_count, recv, recv_count);
        send += send != NULL && !p->same_send ? send_count * i->element_bytes : 0;
        recv += recv != NULL ? recv_count * i->element_bytes : 0;
    }
    int end = ls_nccl__status(i->nccl, i->nccl->ncclGroupEnd(), "ncclGroupEnd");
    LS_TRY(status);
    LS_TRY(end);
    return settle(i);
}

static int issue_all_gather(const issue *i) {
    const ls_call *call = i->call;
    bool even = true;
    for (int m = 0; call->recv_counts != NULL && m < i->size; m++) {
        even = even && call->recv_counts[m] == call->recv_counts[0];
    }
    if (even) {
        NCCL_TRY(i, ncclAllGather, i->send, i->recv, call->count, i->type, i->comm, i->stream);
        return settle(i);
    }
    // This member's data has one size, the one that receives it.
    pairs p = {i->send, i->recv, NULL, call->recv_counts, true, call->count, -1, -1};
    return issue_pairs(i, &p);
}

static int issue_all_to_all(const issue *i) {
    const ls_call *call = i->call;
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 28, 0)
    if (call->send_counts == NULL && call->recv_counts == NULL && i->nccl->ncclAlltoAll != NULL) {
        NCCL_TRY(i, ncclAlltoAll, i->send, i->recv, call->count, i->type, i->comm, i->stream);
        return settle(i);
    }
#endif
    pairs p = {i->send, i->recv, call->send_counts, call->recv_counts, false, call->count, -1, -1};
    return issue_pairs(i, &p);
}

static int issue_gather(const issue *i) {
    const ls_call *call = i->call;
    // Only the root knows whether the blocks have one size: pairs in any case.
    bool root = i->member == call->root;
    pairs p = {i->send, root ? i->recv : NULL, NULL, call->recv_counts,
               true,    call->count,           -1,   call->root};
    return issue_pairs(i, &p);
}

static int issue_scatter(const issue *i) {
    const ls_call *call = i->call;
    bool root = i->member == call->root;
    // A member receives one block, into the start of its buffer.
    pairs p = {
        root ? i->send : NULL, NULL, call->send_counts, NULL, false, call->count, call->root, -1};
    if (!root) {
        NCCL_TRY(i, ncclGroupStart, );
        int status = call->count != 0
                         ? ls_nccl__status(i->nccl,
                                           i->nccl->ncclRecv(i->recv, call->count, i->type,
                                                             call->root, i->comm, i->stream),
                                           "ncclRecv")
                         : LS_OK;
        int end = ls_nccl__status(i->nccl, i->nccl->ncclGroupEnd(), "ncclGroupEnd");
        LS_TRY(status);
        LS_TRY(end);
        return settle(i);
    }
    size_t offset = 0;
    for (int m = 0; m < i->member; m++) {
        offset += call->send_counts != NULL ? call->send_counts[m] : call->count;
    }
    const char *own = i->send + offset * i->element_bytes;
    if (own != i->recv && call->count != 0) {
        LS_CUDA_TRY(cudaMemcpyAsync(i->recv, own, call->count * i->element_bytes,
                                    cudaMemcpyDeviceToDevice, i->stream),
                    "copying a rank's own block");
    }
    return issue_pairs(i, &p);
}

static int issue_broadcast(const issue *i) {
    const ls_call *call = i->call;
    NCCL_TRY(i, ncclBroadcast, i->member == call->root ? i->send : i->recv, i->recv, call->count,
             i->type, call->root, i->comm, i->stream);
    return settle(i);
}

// NCCL has none: a sum of one number cannot end before all have come.
static int issue_barrier(const issue *i) {
    NCCL_TRY(i, ncclAllReduce, i->recv, i->recv, 1, ncclInt32, ncclSum, i->comm, i->stream);
    return settle(i);
}

// NULL: NCCL does not have it; all inputs are gathered, see nccl_stage.c.
static int (*const issuers[LS_KIND_COUNT])(const issue *i) = {
    [LS_ALL_REDUCE] = issue_reduction,
    [LS_REDUCE] = issue_reduction,
    [LS_BROADCAST] = issue_broadcast,
    [LS_ALL_GATHER] = issue_all_gather,
    [LS_REDUCE_SCATTER] = issue_reduction,
    [LS_ALL_TO_ALL] = issue_all_to_all,
    [LS_GATHER] = issue_gather,
    [LS_SCATTER] = issue_scatter,
    [LS_BARRIER] = issue_barrier,
};

bool ls_nccl__is_gathered(const ls_call *call) {
    return issuers[call->kind] == NULL && !ls_kind_is_message(call->kind);
}

int ls_nccl__supports(const ls_call *call) {
    if (ls_nccl__is_gathered(call) || !ls_collective_of(call->kind)->reduces ||
        call->op <= LS_PREMUL_SUM) {
        return LS_OK;
    }
    char text[256];
    ls_call_format(text, sizeof text, call);
    return LS_FAIL_RANK(LS_ERR_UNSUPPORTED, call->rank, "%s: NCCL has no operation %s", text,
                        ls_op_name(call->op));
}

static int issue_gathered(const issue *i) {
    char *gathered = i->staged->gathered;
    size_t piece = ls_nccl__piece_bytes(i->staged);
    NCCL_TRY(i, ncclAllGather, gathered + (size_t)i->member * piece, gathered, piece, ncclInt8,
             i->comm, i->stream);
    return settle(i);
}

static void fill_issue(issue *out, nccl_worker *worker, int index) {
    const ls_call *call = worker->calls[index];
    const nccl_comm *comm = ls_nccl__comm(worker->owner, call->comm);
    *out = (issue){.worker = worker,
                   .nccl = worker->owner->library,
                   .call = call,
                   .send = worker->staged[index].send,
                   .recv = worker->staged[index].recv,
                   .comm = comm->handles[worker->index],
                   .stream = worker->stream,
                   .type = (ncclDataType_t)call->dtype,
                   .element_bytes = call->kind == LS_BARRIER ? 4 : ls_dtype_bytes(call->dtype),
                   .member = ls_comm_member(call->comm, call->rank),
                   .size = call->comm->size,
                   .staged = &worker->staged[index]};
}

static int issue_messages(nccl_worker *worker, int first, int end) {
    issue i;
    fill_issue(&i, worker, first);
    NCCL_TRY(&i, ncclGroupStart, );
    int status = LS_OK;
    for (int k = first; k < end && status == LS_OK; k++) {
        issue m;
        fill_issue(&m, worker, k);
        ncclResult_t result =
            m.call->kind == LS_SEND
                ? m.nccl->ncclSend(m.send, m.call->count, m.type, m.call->root, m.comm, m.stream)
                : m.nccl->ncclRecv(m.recv, m.call->count, m.type, m.call->root, m.comm, m.stream);
        status = ls_nccl__status(m.nccl, result, ls_kind_name(m.call->kind));
    }
    int ended = ls_nccl__status(i.nccl, i.nccl->ncclGroupEnd(), "ncclGroupEnd");
    LS_TRY(status);
    LS_TRY(ended);
    return settle(&i);
}

int ls_nccl__issue(nccl_worker *worker) {
    for (int k = 0; k < worker->call_count; k++) {
        worker->waiting = worker->calls[k];
        issue i;
        fill_issue(&i, worker, k);
        if (ls_kind_is_message(i.call->kind)) {
            int end = k + 1;
            while (end < worker->call_count && ls_kind_is_message(worker->calls[end]->kind) &&
                   worker->calls[end]->comm == i.call->comm) {
                end++;
            }
            LS_TRY(issue_messages(worker, k, end));
            k = end - 1;
        } else {
            LS_TRY(ls_nccl__is_gathered(i.call) ? issue_gathered(&i) : issuers[i.call->kind](&i));
        }
        if (!worker->owner->options.blocking) {
            LS_TRY(ls_nccl__wait_stream(worker, i.comm));
        }
    }
    worker->waiting = NULL;
    return LS_OK;
}
