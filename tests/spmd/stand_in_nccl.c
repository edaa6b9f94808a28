// A stand-in for NCCL between threads and processes of one machine: collectives and messages
// through shared memory, folded in the order of the ranks. See stand_in_cuda.c.
#define _GNU_SOURCE
#include <fcntl.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "kernels/kernels.h"
#include "stand_in.h"

#define GPUS         STAND_IN_GPUS
#define SLOT         ((size_t)64 << 10)  // of the largest message
#define WAIT_SECONDS 20.0

// ---- Communicators ------------------------------------------------------------------------------
typedef struct shared {
    atomic_int members;
    struct {
        atomic_ulong posted, done;
        char data[SLOT];
    } rank[GPUS];
    struct {
        atomic_ulong sent, taken;
        size_t bytes;
        char data[SLOT];
    } box[GPUS][GPUS];  // from, to
} shared;

struct ncclComm {
    shared *shared;
    int rank, size;
    unsigned long calls;                    // collectives so far
    unsigned long sent[GPUS], taken[GPUS];  // messages so far
    bool aborted;
    char name[128];
};

static double now(void) {
    struct timespec time;
    (void)clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

static ncclResult_t open_comm(ncclComm_t *out, const char *name, int rank, int size) {
    ncclComm_t made = calloc(1, sizeof *made);
    int file = shm_open(name, O_RDWR | O_CREAT, 0600);
    if (file < 0 || ftruncate(file, sizeof(shared)) != 0) {
        free(made);
        return ncclSystemError;
    }
    made->shared = mmap(NULL, sizeof(shared), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    (void)close(file);
    made->rank = rank;
    made->size = size;
    (void)snprintf(made->name, sizeof made->name, "%s", name);
    (void)atomic_fetch_add(&made->shared->members, 1);
    double start = now();
    while (atomic_load(&made->shared->members) < size) {
        if (now() - start > WAIT_SECONDS) {
            return ncclInternalError;
        }
        (void)sched_yield();
    }
    (void)shm_unlink(name);  // all have it
    *out = made;
    return ncclSuccess;
}

static ncclResult_t get_version(int *version) {
    const char *given = getenv("STAND_IN_NCCL");
    *version = given != NULL ? (int)strtol(given, NULL, 10) : NCCL_VERSION_CODE;
    return ncclSuccess;
}

static const char *get_error(ncclResult_t result) {
    return result == ncclSuccess ? "no error" : "an error of the stand-in";
}

static const char *get_last_error(ncclComm_t comm) {
    (void)comm;
    return "";
}

static ncclResult_t get_id(ncclUniqueId *id) {
    static atomic_int next;
    memset(id, 0, sizeof *id);
    (void)snprintf(id->internal, sizeof id->internal, "/lockstep-%d-%d", (int)getpid(),
                   atomic_fetch_add(&next, 1));
    return ncclSuccess;
}

static ncclResult_t init_rank(ncclComm_t *out, int size, ncclUniqueId id, int rank,
                              ncclConfig_t *config) {
    (void)config;
    return open_comm(out, id.internal, rank, size);
}

static ncclResult_t close_comm(ncclComm_t comm) {
    (void)munmap(comm->shared, sizeof(shared));
    free(comm);
    return ncclSuccess;
}

static ncclResult_t finalize(ncclComm_t comm) {
    (void)comm;
    return ncclSuccess;
}

static ncclResult_t abort_comm(ncclComm_t comm) {
    comm->aborted = true;  // its calls may still be in a stream
    return ncclSuccess;
}

static ncclResult_t async_error(ncclComm_t comm, ncclResult_t *out) {
    (void)comm;
    *out = ncclSuccess;
    return ncclSuccess;
}

// ---- Operations ---------------------------------------------------------------------------------
typedef enum operation_kind {
    ALL_REDUCE,
    REDUCE,
    SCATTERED,
    BROADCAST,
    GATHERED,
    PAIRS,
    SEND,
    RECV
} operation_kind;

static double factors[64];  // of pre-multiplied sums
static atomic_int factor_count;

static void fold(char *out, const operation *o, size_t offset, size_t count) {
    ls_dtype dtype = (ls_dtype)o->type;
    size_t bytes = ls_dtype_bytes(dtype);
    ls_op op = o->op == ncclAvg || o->op >= ncclNumOps ? LS_SUM : (ls_op)o->op;
    for (int r = 0; r < o->comm->size; r++) {
        char in[SLOT];
        memcpy(in, o->comm->shared->rank[r].data + offset, count * bytes);
        if (r == 0) {
            memcpy(out, in, count * bytes);
        } else {
            ls_kernel_accumulate(out, in, dtype, op, count);
        }
    }
    for (size_t i = 0; i < count && o->op == ncclAvg; i++) {
        double sum = ls_element_to_f64(out + i * bytes, dtype);
        ls_element_from_f64(out + i * bytes, dtype, sum / o->comm->size);
    }
}

// A member's part of the posted results.
static void take(const operation *o) {
    const shared *s = o->comm->shared;
    int own = o->comm->rank;
    char *recv = stand_in_real(o->recv);
    switch (o->what) {
    case ALL_REDUCE:
        fold(recv, o, 0, o->count);
        break;
    case REDUCE:
        if (own == o->peer) {
            fold(recv, o, 0, o->count);
        }
        break;
    case SCATTERED:
        fold(recv, o, (size_t)own * o->count * ls_dtype_bytes((ls_dtype)o->type), o->count);
        break;
    case BROADCAST:
        memcpy(recv, s->rank[o->peer].data, o->bytes);
        break;
    case GATHERED:
        for (int r = 0; r < o->comm->size; r++) {
            memcpy(recv + (size_t)r * o->bytes, s->rank[r].data, o->bytes);
        }
        break;
    case PAIRS:
        for (int r = 0; r < o->comm->size; r++) {
            size_t part = o->bytes / (size_t)o->comm->size;
            memcpy(recv + (size_t)r * part, s->rank[r].data + (size_t)own * part, part);
        }
        break;
    default:
        break;
    }
}

static bool all_reached(const operation *o, bool posted, unsigned long number) {
    for (int r = 0; r < o->comm->size; r++) {
        const shared *s = o->comm->shared;
        if (atomic_load(posted ? &s->rank[r].posted : &s->rank[r].done) < number) {
            return false;
        }
    }
    return true;
}

static void advance_collective(operation *o) {
    shared *s = o->comm->shared;
    int own = o->comm->rank;
    if (!o->begun && all_reached(o, false, o->number - 1)) {
        memcpy(s->rank[own].data, stand_in_real(o->send), o->bytes);
        for (size_t i = 0; i < o->count && o->op >= ncclNumOps; i++) {
            char *at = s->rank[own].data + i * ls_dtype_bytes((ls_dtype)o->type);
            double value = ls_element_to_f64(at, (ls_dtype)o->type);
            ls_element_from_f64(at, (ls_dtype)o->type, value * factors[o->op - ncclNumOps]);
        }
        atomic_store(&s->rank[own].posted, o->number);
        o->begun = true;
    }
    if (o->begun && all_reached(o, true, o->number)) {
        take(o);
        atomic_store(&s->rank[own].done, o->number);
        o->done = true;
    }
}

static void advance_message(operation *o) {
    shared *s = o->comm->shared;
    int own = o->comm->rank;
    int from = o->what == SEND ? own : o->peer, to = o->what == SEND ? o->peer : own;
    if (o->what == RECV) {
        if (atomic_load(&s->box[from][to].sent) == o->number &&
            atomic_load(&s->box[from][to].taken) == o->number - 1) {
            memcpy(stand_in_real(o->recv), s->box[from][to].data, o->bytes);
            atomic_store(&s->box[from][to].taken, o->number);
            o->done = true;
        }
        return;
    }
    if (!o->begun && atomic_load(&s->box[from][to].taken) == o->number - 1) {
        memcpy(s->box[from][to].data, stand_in_real(o->send), o->bytes);
        atomic_store(&s->box[from][to].sent, o->number);
        o->begun = true;
    }
    // NCCL may wait for the receiver, so it does here.
    o->done = o->begun && atomic_load(&s->box[from][to].taken) >= o->number;
}

static bool advance(operation *o) {
    if (o->comm->aborted) {
        return true;
    }
    if (o->what == SEND || o->what == RECV) {
        advance_message(o);
    } else {
        advance_collective(o);
    }
    return o->done;
}

static _Thread_local int group_depth;
static _Thread_local operation *group_first, **group_end;
static _Thread_local cudaStream_t group_stream;

static ncclResult_t issue(operation o, cudaStream_t stream) {
    if (o.bytes > SLOT || o.comm->aborted) {
        return ncclInvalidArgument;
    }
    operation *made = malloc(sizeof *made);
    o.number = o.what == SEND   ? ++o.comm->sent[o.peer]
               : o.what == RECV ? ++o.comm->taken[o.peer]
                                : ++o.comm->calls;
    *made = o;
    if (group_depth == 0) {
        stand_in_push(stream, made);
        return ncclSuccess;
    }
    *group_end = made;
    group_end = &made->next;
    group_stream = stream;
    return ncclSuccess;
}

static ncclResult_t group_start(void) {
    if (group_depth++ == 0) {
        group_first = NULL;
        group_end = &group_first;
    }
    return ncclSuccess;
}

static ncclResult_t group_finish(void) {
    if (--group_depth == 0 && group_first != NULL) {
        stand_in_push(group_stream, group_first);
    }
    return ncclSuccess;
}

// ---- NCCL's calls -------------------------------------------------------------------------------
#define OPERATION(kind, sent)                                                                      \
    (operation) {                                                                                  \
        .advance = advance, .what = (kind), .send = send, .recv = recv, .count = count,            \
        .bytes = (sent)*ls_dtype_bytes((ls_dtype)type), .type = type, .comm = comm                 \
    }

static ncclResult_t all_reduce(const void *send, void *recv, size_t count, ncclDataType_t type,
                               ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
    operation o = OPERATION(ALL_REDUCE, count);
    o.op = (int)op;
    return issue(o, stream);
}

static ncclResult_t reduce(const void *send, void *recv, size_t count, ncclDataType_t type,
                           ncclRedOp_t op, int root, ncclComm_t comm, cudaStream_t stream) {
    operation o = OPERATION(REDUCE, count);
    o.op = (int)op;
    o.peer = root;
    return issue(o, stream);
}

static ncclResult_t reduce_scatter(const void *send, void *recv, size_t count, ncclDataType_t type,
                                   ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
    operation o = OPERATION(SCATTERED, count * (size_t)comm->size);
    o.op = (int)op;
    return issue(o, stream);
}

static ncclResult_t broadcast(const void *send, void *recv, size_t count, ncclDataType_t type,
                              int root, ncclComm_t comm, cudaStream_t stream) {
    operation o = OPERATION(BROADCAST, count);
    o.peer = root;
    return issue(o, stream);
}

static ncclResult_t all_gather(const void *send, void *recv, size_t count, ncclDataType_t type,
                               ncclComm_t comm, cudaStream_t stream) {
    return issue(OPERATION(GATHERED, count), stream);
}

static ncclResult_t all_to_all(const void *send, void *recv, size_t count, ncclDataType_t type,
                               ncclComm_t comm, cudaStream_t stream) {
    return issue(OPERATION(PAIRS, count * (size_t)comm->size), stream);
}

static ncclResult_t send_to(const void *send, size_t count, ncclDataType_t type, int peer,
                            ncclComm_t comm, cudaStream_t stream) {
    char *recv = NULL;
    operation o = OPERATION(SEND, count);
    o.peer = peer;
    return issue(o, stream);
}

static ncclResult_t recv_from(void *recv, size_t count, ncclDataType_t type, int peer,
                              ncclComm_t comm, cudaStream_t stream) {
    const char *send = NULL;
    operation o = OPERATION(RECV, count);
    o.peer = peer;
    return issue(o, stream);
}

static ncclResult_t make_factor(ncclRedOp_t *op, void *scalar, ncclDataType_t type,
                                ncclScalarResidence_t where, ncclComm_t comm) {
    (void)where, (void)comm;
    int at = atomic_fetch_add(&factor_count, 1) % 64;
    factors[at] = ls_element_to_f64(scalar, (ls_dtype)type);
    *op = (ncclRedOp_t)(ncclNumOps + at);
    return ncclSuccess;
}

static ncclResult_t drop_factor(ncclRedOp_t op, ncclComm_t comm) {
    (void)op, (void)comm;
    return ncclSuccess;
}

// Splits at once: all members exchange color and key, as in an all_gather.
static ncclResult_t split(ncclComm_t parent, int color, int key, ncclComm_t *out,
                          ncclConfig_t *config) {
    (void)config;
    int own[2] = {color, key}, all[GPUS][2], rank = 0, size = 0;
    cudaStream_t stream = NULL;
    (void)cudaStreamCreateWithFlags(&stream, 0);
    ncclResult_t result = all_gather(own, all, 2, ncclInt32, parent, stream);
    double start = now();
    while (result == ncclSuccess && cudaStreamQuery(stream) == cudaErrorNotReady) {
        if (now() - start > WAIT_SECONDS) {
            return ncclInternalError;
        }
        (void)sched_yield();
    }
    (void)cudaStreamDestroy(stream);
    *out = NULL;
    if (result != ncclSuccess || color == NCCL_SPLIT_NOCOLOR) {
        return result;
    }
    for (int r = 0; r < parent->size; r++) {
        bool before = all[r][1] < key || (all[r][1] == key && r < parent->rank);
        size += all[r][0] == color ? 1 : 0;
        rank += all[r][0] == color && before ? 1 : 0;
    }
    char name[128];
    (void)snprintf(name, sizeof name, "%.80s-%lu-%d", parent->name, parent->calls, color);
    return open_comm(out, name, rank, size);
}

static ncclResult_t mem_alloc(void **out, size_t bytes) {
    return cudaMalloc(out, bytes) == cudaSuccess ? ncclSuccess : ncclSystemError;
}

static ncclResult_t mem_free(void *pointer) {
    (void)cudaFree(pointer);
    return ncclSuccess;
}

static ls_nccl_library library = {
    .ncclGetVersion = get_version,
    .ncclGetErrorString = get_error,
    .ncclGetLastError = get_last_error,
    .ncclGetUniqueId = get_id,
    .ncclCommInitRankConfig = init_rank,
    .ncclCommSplit = split,
    .ncclCommFinalize = finalize,
    .ncclCommDestroy = close_comm,
    .ncclCommAbort = abort_comm,
    .ncclCommGetAsyncError = async_error,
    .ncclRedOpCreatePreMulSum = make_factor,
    .ncclRedOpDestroy = drop_factor,
    .ncclAllReduce = all_reduce,
    .ncclBroadcast = broadcast,
    .ncclReduce = reduce,
    .ncclReduceScatter = reduce_scatter,
    .ncclAllGather = all_gather,
    .ncclSend = send_to,
    .ncclRecv = recv_from,
    .ncclGroupStart = group_start,
    .ncclGroupEnd = group_finish,
    .ncclMemAlloc = mem_alloc,
    .ncclMemFree = mem_free,
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 28, 0)
    .ncclAlltoAll = all_to_all,
#endif
    .version = NCCL_VERSION_CODE,
    .text = "stand-in",
};

int ls_nccl__load(const ls_nccl_library **out) {
    *out = &library;
    (void)get_version(&library.version);
    return LS_OK;
}

int ls_nccl__status(const ls_nccl_library *nccl, ncclResult_t result, const char *what) {
    (void)nccl;
    return result == ncclSuccess || result == ncclInProgress
               ? LS_OK
               : LS_FAIL(LS_ERR_BACKEND, "%s failed: %s", what, get_error(result));
}
