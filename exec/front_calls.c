// Calls: collectives, messages and groups. A call is put on its stream as work of four kinds: what
// it sends goes to shared memory, a word says that it has arrived, the stream waits until another
// word says that the result is there, and the result goes to where the program wants it. The caller
// never waits. All calls of a group arrive before any of them is waited for.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/time.h"
#include "exec/front.h"

// A program with more calls in flight than there are slots waits for the oldest.
#define SLOT_TRIES    100000
#define SLOT_PAUSE_NS 100000

typedef struct pending {
    struct pending *next;
    ls_front_issue what;
    uint32_t site;
    size_t send_bytes, recv_bytes;
    ls_front_flight *flight;
    double premul;
    int op;
} pending;

static _Thread_local int depth;
static _Thread_local bool issued;
static _Thread_local pending *group_first, *group_last;
static _Thread_local pending *watched;  // observed calls whose results are to be copied
static _Thread_local ncclResult_t group_error;
static _Thread_local ncclComm_t group_comms[64];
static _Thread_local int group_comm_count;

bool ls_front__grouped(void) {
    return depth > 0;
}

bool ls_front__issued(void) {
    return issued;
}

ncclResult_t ls_front__group_comm(ncclComm_t comm) {
    if (group_comm_count == sizeof group_comms / sizeof *group_comms) {
        return ls_front__settle(comm, true);
    }
    group_comms[group_comm_count++] = comm;
    return ncclSuccess;
}

// ---- Moved data ---------------------------------------------------------------------------------
// Elements sent and received by this member.
static void elements(size_t *send, size_t *recv, const ls_front_issue *what) {
    size_t n = what->count, all = n * (size_t)what->comm->size;
    bool root = what->comm->rank == what->root;
    *send = *recv = n;
    switch (what->kind) {
    case LS_REDUCE:
        *recv = root ? n : 0;
        break;
    case LS_BROADCAST:
        *send = root ? n : 0;
        break;
    case LS_ALL_GATHER:
        *recv = all;
        break;
    case LS_REDUCE_SCATTER:
        *send = all;
        break;
    case LS_ALL_TO_ALL:
        *send = *recv = all;
        break;
    case LS_GATHER:
        *recv = root ? all : 0;
        break;
    case LS_SCATTER:
        *send = root ? all : 0;
        break;
    case LS_SEND:
        *recv = 0;
        break;
    case LS_RECV:
        *send = 0;
        break;
    default:
        break;
    }
}

// ---- Calls that NCCL refuses --------------------------------------------------------------------
static ncclResult_t check_op(pending *call) {
    const ls_front_issue *what = &call->what;
    call->op = what->op;
    call->premul = 1.0;
    if (what->op < 0) {
        return ls_front__fail(ncclInvalidArgument, "%d is not a reduction", what->op);
    }
    if (what->op <= LS_AVG) {
        return ncclSuccess;
    }
    int made = what->op - LS_PREMUL_SUM;
    if (made >= LS_FRONT_OPS_MAX || !what->comm->op_used[made]) {
        return ls_front__fail(ncclInvalidArgument,
                              "the reduction %d was not created for this communicator", what->op);
    }
    if (what->comm->op_type[made] != what->type) {
        return ls_front__fail(ncclInvalidArgument, "the reduction %d was created for another type",
                              what->op);
    }
    call->op = LS_PREMUL_SUM;
    call->premul = what->comm->op_scalar[made];
    return ncclSuccess;
}

static ncclResult_t check(pending *call) {
    const ls_front_issue *what = &call->what;
    const char *name = ls_kind_name(what->kind);
    ncclResult_t result = ls_front__check(what->comm, name);
    if (result != ncclSuccess) {
        return result;
    }
    if (what->type < 0 || what->type >= LS_DTYPE_COUNT) {
        return ls_front__fail(ncclInvalidArgument, "%s: %d is not a data type", name, what->type);
    }
    if (what->root < 0 || what->root >= what->comm->size) {
        return ls_front__fail(ncclInvalidArgument, "%s: %s %d of %d ranks", name,
                              ls_kind_is_message(what->kind) ? "peer" : "root", what->root,
                              what->comm->size);
    }
    bool capturing = false;
    result = check_op(call);
    result = result == ncclSuccess && !what->comm->observed && what->purpose == NULL
                 ? ls_cuda__capturing(&capturing, what->stream)
                 : result;
    if (result == ncclSuccess && capturing) {
        result = ls_front__fail(ncclInvalidUsage,
                                "%s: its stream is being captured into a CUDA graph, which "
                                "lockstep exec --simulate does not support",
                                name);
    }
    if (result == ncclSuccess && what->count > (SIZE_MAX / 16) / (size_t)what->comm->size) {
        result = ls_front__fail(ncclInvalidArgument, "%s: %zu elements", name, what->count);
    }
    return result;
}

// ---- Issuing ------------------------------------------------------------------------------------
static void take_back(pending *call, ls_client *client) {
    if (call->flight != NULL) {
        ls_client_region_give(client, &call->flight->send);
        ls_client_region_give(client, &call->flight->recv);
        ls_client_slot_give(client, call->flight->slot);
        free(call->flight);
        call->flight = NULL;
    }
}

static ncclResult_t measure(pending *call) {
    size_t send = 0, recv = 0, element = ls_dtype_bytes((ls_dtype)call->what.type);
    elements(&send, &recv, &call->what);
    call->send_bytes = send * element;
    call->recv_bytes = recv * element;
    return ncclSuccess;
}

// Calls of at least this many bytes are staged in the GPU's memory.
static size_t device_bytes(void) {
    static size_t known;
    if (known == 0) {
        const char *text = getenv(LS_WIRE_DEVICE);
        long long said = text != NULL ? strtoll(text, NULL, 10) : 0;
        known = said > 0 ? (size_t)said : SIZE_MAX;
    }
    return known;
}

// Arguments that are identical on all members: a call is in one memory on all of them.
static size_t whole_bytes(const ls_front_issue *what) {
    bool blocks = ls_collective_has_counts(ls_collective_of(what->kind));
    return what->count * ls_dtype_bytes((ls_dtype)what->type) *
           (blocks ? (size_t)what->comm->size : 1);
}

// False: it is not to be had, and ordinary memory does.
static bool take_on_device(const pending *call, ls_client *client) {
    ls_front_flight *flight = call->flight;
    int device = 0;
    if (call->what.comm->observed || whole_bytes(&call->what) < device_bytes() ||
        ls_cuda__device(&device) != ncclSuccess ||
        ls_client_staging_take(&flight->send, client, device, call->send_bytes, ls_cuda__stage) !=
            LS_OK) {
        return false;
    }
    if (ls_client_staging_take(&flight->recv, client, device, call->recv_bytes, ls_cuda__stage) !=
        LS_OK) {
        ls_client_region_give(client, &flight->send);
        flight->send.memory = LS_WIRE_NONE;
        return false;
    }
    return true;
}

static ncclResult_t take_memory(pending *call, ls_client *client) {
    (void)measure(call);
    ls_front__reclaim(call->what.comm);
    ls_front_flight *flight = calloc(1, sizeof *flight);
    if (flight == NULL) {
        return ls_front__fail(ncclSystemError, "no memory");
    }
    flight->send.memory = flight->recv.memory = LS_WIRE_NONE;
    for (int i = 0; ls_client_slot_take(&flight->slot, client) != LS_OK; i++) {
        if (i == SLOT_TRIES || ls_client_failed(client, NULL)) {
            free(flight);
            return ls_front__fail_last();
        }
        ls_time_sleep(1e-9 * SLOT_PAUSE_NS);
        ls_front__reclaim(call->what.comm);
    }
    call->flight = flight;
    if (take_on_device(call, client)) {
        return ncclSuccess;
    }
    if (ls_client_region_take(&flight->send, client, call->send_bytes) != LS_OK ||
        ls_client_region_take(&flight->recv, client, call->recv_bytes) != LS_OK) {
        return ls_front__fail_last();
    }
    return ncclSuccess;
}

static ncclResult_t tell(const pending *call, ls_client *client, uint32_t flags) {
    const ls_front_issue *what = &call->what;
    static const ls_front_flight nowhere = {
        .slot = LS_WIRE_NONE, .send.memory = LS_WIRE_NONE, .recv.memory = LS_WIRE_NONE};
    const ls_front_flight *flight = call->flight != NULL ? call->flight : &nowhere;
    const ls_wire_call message = {
        .head = {LS_WIRE_CALL, sizeof message},
        .comm = what->comm->number,
        .kind = (uint32_t)what->kind,
        .dtype = (uint32_t)what->type,
        .op = (uint32_t)call->op,
        .root = what->root,
        .flags = flags,
        .slot = flight->slot,
        .site = call->site,
        .premul = call->premul,
        .thread = ls_client_thread(),
        .count = what->count,
        .stream = (uint64_t)(uintptr_t)what->stream,
        .send_address = call->send_bytes > 0 ? (uint64_t)(uintptr_t)what->send : 0,
        .recv_address = call->recv_bytes > 0 ? (uint64_t)(uintptr_t)what->recv : 0,
        .send_memory = flight->send.memory,
        .recv_memory = flight->recv.memory,
        .send_offset = flight->send.offset,
        .recv_offset = flight->recv.offset,
    };
    return ls_client_send(client, &message, -1) == LS_OK ? ncclSuccess : ls_front__fail_last();
}

static ncclResult_t depart(const pending *call, ls_client *client) {
    if (call->what.purpose != NULL) {
        __atomic_store_n(&ls_client_slot(client, call->flight->slot)->arrived, 1u,
                         __ATOMIC_RELEASE);
        return ncclSuccess;
    }
    ncclResult_t result =
        ls_cuda__copy(call->flight->send.at, call->what.send, call->send_bytes, call->what.stream);
    return result == ncclSuccess
               ? ls_cuda__write(&ls_client_slot(client, call->flight->slot)->arrived, 1,
                                call->what.stream)
               : result;
}

static ncclResult_t land(const pending *call, ls_client *client) {
    ls_wire_slot *slot = ls_client_slot(client, call->flight->slot);
    if (call->what.purpose != NULL) {
        int status = ls_client_wait(client, call->flight->slot);
        __atomic_store_n(&slot->released, 1u, __ATOMIC_RELEASE);
        return status == LS_OK ? ncclSuccess : ls_front__fail_last();
    }
    ncclResult_t result = ls_cuda__wait(&slot->done, 1, call->what.stream);
    if (result == ncclSuccess) {
        result = ls_cuda__copy(call->what.recv, call->flight->recv.at, call->recv_bytes,
                               call->what.stream);
    }
    return result == ncclSuccess ? ls_cuda__write(&slot->released, 1, call->what.stream) : result;
}

static void keep_flight(pending *call) {
    ncclComm_t comm = call->what.comm;
    if (comm->flights_last != NULL) {
        comm->flights_last->next = call->flight;
    } else {
        comm->flights = call->flight;
    }
    comm->flights_last = call->flight;
    call->flight = NULL;
}

// Whether the sent and received data of observed calls is kept.
static bool keeps_payload(void) {
    const char *mode = getenv(LS_WIRE_PAYLOAD);
    return mode != NULL && mode[0] == '1';
}

// The input of observed calls is copied before the real library has them.
static ncclResult_t watch(pending *first, ls_client *client) {
    ncclResult_t result = ncclSuccess;
    (void)client;
    for (pending *at = first; at != NULL && result == ncclSuccess; at = at->next) {
        pending *kept = malloc(sizeof *kept);
        if (kept == NULL) {
            return ls_front__fail(ncclSystemError, "no memory");
        }
        result = ls_cuda__copy(at->flight->send.at, at->what.send, at->send_bytes, at->what.stream);
        *kept = *at;
        kept->next = watched;
        watched = kept;
        at->flight = NULL;
    }
    return result;
}

void ls_front__watched(void) {
    ls_client *client = watched != NULL ? ls_client_get() : NULL;
    while (watched != NULL && depth == 0) {
        pending *at = watched;
        watched = at->next;
        uint32_t *arrived = &ls_client_slot(client, at->flight->slot)->arrived;
        if (ls_cuda__copy(at->flight->recv.at, at->what.recv, at->recv_bytes, at->what.stream) ==
            ncclSuccess) {
            (void)ls_cuda__write(arrived, 1, at->what.stream);
        }
        keep_flight(at);
        free(at);
    }
}

// The coordinator wants a group rank by rank, each with its last call marked.
static bool ends_its_rank(const pending *call) {
    for (const pending *at = call->next; at != NULL; at = at->next) {
        if (at->what.comm->device == call->what.comm->device) {
            return false;
        }
    }
    return true;
}

static ncclResult_t issue_all(pending *first) {
    ls_client *client = ls_client_get();
    ncclResult_t result = client != NULL ? ncclSuccess : ls_front__fail_last();
    bool grouped = first != NULL && first->next != NULL, observed = first->what.comm->observed;
    for (pending *at = first; at != NULL && result == ncclSuccess; at = at->next) {
        result = observed && !keeps_payload() ? measure(at) : take_memory(at, client);
    }
    bool told = result == ncclSuccess;
    if (told) {
        ls_client_hold(client);
        for (pending *at = first; at != NULL && result == ncclSuccess; at = at->next) {
            uint32_t ends = ends_its_rank(at) ? LS_WIRE_GROUP_ENDS : 0;
            result = tell(at, client, grouped ? LS_WIRE_GROUPED | ends : 0);
        }
        ls_client_let_go(client);
    }
    if (observed) {  // the real library moves the data
        return result == ncclSuccess && keeps_payload() ? watch(first, client) : result;
    }
    for (pending *at = first; at != NULL && result == ncclSuccess; at = at->next) {
        result = depart(at, client);
    }
    for (pending *at = first; at != NULL && result == ncclSuccess; at = at->next) {
        result = land(at, client);
    }
    // The coordinator may read the calls that it was sent, whatever CUDA returns.
    for (pending *at = first; at != NULL && client != NULL; at = at->next) {
        if (told) {
            keep_flight(at);
        } else {
            take_back(at, client);
        }
    }
    return result;
}

ncclResult_t ls_front__make(const ls_front_issue *what) {
    pending call = {.what = *what};
    if (what->kind == LS_SEND && depth == 0 && what->comm != NULL &&
        what->comm->magic == LS_FRONT_MAGIC && what->root == what->comm->rank) {
        return ls_front__fail(ncclInvalidUsage, "Trying to send to self without a matching recv");
    }
    ncclResult_t result = check(&call);
    if (result != ncclSuccess) {
        group_error = depth > 0 ? result : ncclSuccess;
        return result;
    }
    if (what->count == 0 && !ls_kind_is_message(what->kind) && what->purpose == NULL) {
        return ncclSuccess;  // as NCCL drops it
    }
    issued = true;
    call.site = ls_client_here(ls_client_get(), what->purpose);
    if (depth == 0) {
        return issue_all(&call);
    }
    pending *kept = malloc(sizeof *kept);
    if (kept == NULL) {
        return group_error = ls_front__fail(ncclSystemError, "no memory");
    }
    *kept = call;
    if (group_last != NULL) {
        group_last->next = kept;
    } else {
        group_first = kept;
    }
    group_last = kept;
    return ncclSuccess;
}

// ---- Groups -------------------------------------------------------------------------------------
void ls_front__group_start(void) {
    depth += 1;
}

// Sends to oneself need their receive in the group.
static ncclResult_t check_self(void) {
    for (const pending *at = group_first; at != NULL; at = at->next) {
        int sends = 0;
        if (at->what.kind != LS_SEND || at->what.root != at->what.comm->rank) {
            continue;
        }
        for (const pending *other = group_first; other != NULL; other = other->next) {
            bool own = other->what.comm == at->what.comm && other->what.root == at->what.root;
            sends += own && other->what.kind == LS_SEND ? 1 : 0;
            sends -= own && other->what.kind == LS_RECV ? 1 : 0;
        }
        if (sends != 0) {
            return ls_front__fail(ncclInvalidUsage,
                                  "Trying to send to self without a matching recv");
        }
    }
    return ncclSuccess;
}

static ncclResult_t settle_comms(void) {
    ncclResult_t result = ncclSuccess;
    for (int i = 0; i < group_comm_count; i++) {
        ncclResult_t one =
            group_comms[i]->blocking ? ls_front__settle(group_comms[i], true) : ncclInProgress;
        result = result == ncclSuccess || result == ncclInProgress ? one : result;
    }
    group_comm_count = 0;
    return result;
}

void ls_front__group_drop(void) {
    while (group_first != NULL) {
        pending *next = group_first->next;
        free(group_first);
        group_first = next;
    }
    group_last = NULL;
}

ncclResult_t ls_front__group_end(void) {
    if (depth == 0) {
        return ls_front__fail(ncclInvalidUsage, "ncclGroupEnd: not in a group call");
    }
    depth -= 1;
    if (depth > 0) {
        return ncclSuccess;
    }
    ncclResult_t result = group_error;
    group_error = ncclSuccess;
    result = result == ncclSuccess ? check_self() : result;
    if (result == ncclSuccess && group_first != NULL) {
        result = issue_all(group_first);
    }
    ls_front__group_drop();
    ncclResult_t made = settle_comms();
    return result != ncclSuccess ? result : made;
}
