// Moving one rank's buffers to its GPU, and the NCCL calls that make a collective.
#include <string.h>

#include "backends/nccl/nccl_internal.h"
#include "kernels/kernels.h"

#define ALIGNMENT ((size_t)512)

int ls_nccl__supports(const ls_call *call) {
    if (!ls_collective_of(call->kind)->reduces || call->op <= LS_PREMUL_SUM) {
        return LS_OK;
    }
    char text[256];
    ls_call_format(text, sizeof text, call);
    return LS_FAIL_RANK(LS_ERR_UNSUPPORTED, call->rank, "%s: NCCL has no operation %s", text,
                        ls_op_name(call->op));
}

// ---- Staging ------------------------------------------------------------------------------------
static size_t place(size_t *total, size_t bytes) {
    size_t offset = *total;
    *total += (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    return offset;
}

// Fills worker->staged[index] but for the staging memory's address: offsets stand for pointers.
static int plan_call(nccl_worker *worker, int index, size_t *total) {
    const ls_call *call = worker->calls[index];
    nccl_staged *staged = &worker->staged[index];
    ls_call_extent extent;
    LS_TRY(ls_call_check(&extent, call));
    *staged = (nccl_staged){.send = call->send,
                            .recv = call->recv,
                            .send_bytes = extent.send_bytes,
                            .recv_bytes = extent.recv_bytes};
    if (call->kind == LS_BARRIER) {
        staged->recv = (void *)(uintptr_t)place(total, ALIGNMENT);
        return LS_OK;
    }
    bool send = extent.send_bytes != 0 && !ls_nccl__is_device(NULL, call->send);
    bool recv = extent.recv_bytes != 0 && !ls_nccl__is_device(NULL, call->recv);
    staged->host_send = send ? call->send : NULL;
    staged->host_recv = recv ? call->recv : NULL;
    if (extent.in_place && send && recv) {
        const char *a = call->send, *b = call->recv;
        const char *start = a < b ? a : b;
        const char *a_end = a + extent.send_bytes, *b_end = b + extent.recv_bytes;
        size_t offset = place(total, (size_t)((a_end > b_end ? a_end : b_end) - start));
        staged->send = (const void *)(uintptr_t)(offset + (size_t)(a - start));
        staged->recv = (void *)(uintptr_t)(offset + (size_t)(b - start));
        return LS_OK;
    }
    if (send) {
        staged->send = (const void *)(uintptr_t)place(total, extent.send_bytes);
    }
    if (recv) {
        staged->recv = (void *)(uintptr_t)place(total, extent.recv_bytes);
    }
    return LS_OK;
}

static int grow_staging(nccl_worker *worker, size_t bytes) {
    if (bytes <= worker->staging_bytes) {
        return LS_OK;
    }
    if (worker->staging != NULL) {
        (void)cudaFree(worker->staging);
        worker->staging = NULL;
        worker->staging_bytes = 0;
    }
    void *memory = NULL;
    cudaError_t error = cudaMalloc(&memory, bytes);
    if (error != cudaSuccess) {
        (void)cudaGetLastError();
        return LS_FAIL_RANK(error == cudaErrorMemoryAllocation ? LS_ERR_MEMORY : LS_ERR_BACKEND,
                            worker->rank, "rank %d: GPU %d has no %zu bytes for its buffers: %s",
                            worker->rank, worker->device, bytes, cudaGetErrorString(error));
    }
    worker->staging = memory;
    worker->staging_bytes = bytes;
    return LS_OK;
}

int ls_nccl__stage(nccl_worker *worker) {
    size_t total = 0;
    for (int i = 0; i < worker->call_count; i++) {
        LS_TRY(plan_call(worker, i, &total));
    }
    LS_TRY(grow_staging(worker, total));
    for (int i = 0; i < worker->call_count; i++) {
        nccl_staged *staged = &worker->staged[i];
        if (staged->host_send != NULL) {
            staged->send = worker->staging + (uintptr_t)staged->send;
            LS_CUDA_TRY(cudaMemcpyAsync((void *)(uintptr_t)staged->send, staged->host_send,
                                        staged->send_bytes, cudaMemcpyHostToDevice, worker->stream),
                        "copying to the GPU");
        }
        if (staged->host_recv != NULL || worker->calls[i]->kind == LS_BARRIER) {
            staged->recv = worker->staging + (uintptr_t)staged->recv;
        }
    }
    LS_CUDA_TRY(cudaStreamSynchronize(worker->stream), "copying to the GPU");
    return LS_OK;
}

int ls_nccl__unstage(nccl_worker *worker) {
    for (int i = 0; i < worker->call_count; i++) {
        const nccl_staged *staged = &worker->staged[i];
        if (staged->host_recv != NULL) {
            LS_CUDA_TRY(cudaMemcpyAsync(staged->host_recv, staged->recv, staged->recv_bytes,
                                        cudaMemcpyDeviceToHost, worker->stream),
                        "copying from the GPU");
        }
    }
    LS_CUDA_TRY(cudaStreamSynchronize(worker->stream), "copying from the GPU");
    return LS_OK;
}

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
    bool same_send;                           // one block goes to everybody
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
    // What this member sends has one size, whoever receives it.
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
    // Whether the blocks have one size is known on the root alone: pairs, whatever they are.
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

static int issue_collective(const issue *i) {
    const ls_call *call = i->call;
    switch (call->kind) {
    case LS_ALL_REDUCE:
    case LS_REDUCE:
    case LS_REDUCE_SCATTER:
        return issue_reduction(i);
    case LS_BROADCAST:
        NCCL_TRY(i, ncclBroadcast, i->member == call->root ? i->send : i->recv, i->recv,
                 call->count, i->type, call->root, i->comm, i->stream);
        return settle(i);
    case LS_ALL_GATHER:
        return issue_all_gather(i);
    case LS_ALL_TO_ALL:
        return issue_all_to_all(i);
    case LS_GATHER:
        return issue_gather(i);
    case LS_SCATTER:
        return issue_scatter(i);
    case LS_BARRIER:  // NCCL has none: a sum of one number cannot end before all have come
        NCCL_TRY(i, ncclAllReduce, i->recv, i->recv, 1, ncclInt32, ncclSum, i->comm, i->stream);
        return settle(i);
    default:
        LS_ASSERT(!"sends and receives are issued together");
        return LS_ERR_INVALID;
    }
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
                   .size = call->comm->size};
}

static bool is_p2p(const ls_call *call) {
    return ls_kind_is_message(call->kind);
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
        if (is_p2p(i.call)) {
            int end = k + 1;
            while (end < worker->call_count && is_p2p(worker->calls[end]) &&
                   worker->calls[end]->comm == i.call->comm) {
                end++;
            }
            LS_TRY(issue_messages(worker, k, end));
            k = end - 1;
        } else {
            LS_TRY(issue_collective(&i));
        }
        if (!worker->owner->options.blocking) {
            LS_TRY(ls_nccl__wait_stream(worker, i.comm));
        }
    }
    worker->waiting = NULL;
    return LS_OK;
}
