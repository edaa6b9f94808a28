// The observing frontend: preloaded before NCCL's own library, it reports each call to the
// coordinator when it is issued and passes it on unchanged. Other functions go to the real library
// directly.
#define _GNU_SOURCE  // RTLD_NEXT
#include <dlfcn.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "exec/front_functions.h"
#include "kernels/element.h"

static _Thread_local char last_error[LS_WIRE_WHY_BYTES + 64];

ncclResult_t ls_front__fail(ncclResult_t result, const char *format, ...) {
    va_list args;
    va_start(args, format);
    (void)vsnprintf(last_error, sizeof last_error, format, args);
    va_end(args);
    return result;
}

ncclResult_t ls_front__fail_last(void) {
    return ls_front__fail(ncclSystemError, "%s", ls_error_last()->text);
}

// ---- The real library ---------------------------------------------------------------------------
// Behind this one in the search of names, or loaded where that search does not look (by torch).
static void *real(const char *name) {
    static void *library;
    void *symbol = dlsym(RTLD_NEXT, name);
    if (symbol == NULL && library == NULL) {
        library = dlopen("libnccl.so.2", RTLD_NOW | RTLD_NOLOAD);
        library = library == NULL ? dlopen("libnccl.so.2", RTLD_NOW) : library;
    }
    return symbol == NULL && library != NULL ? dlsym(library, name) : symbol;
}

// Declares `behind`, the real function of this name.
#define REAL(name, parameters)                                                                     \
    static ncclResult_t(*behind) parameters;                                                       \
    if (behind == NULL) {                                                                          \
        void *symbol = real(name);                                                                 \
        memcpy(&behind, &symbol, sizeof symbol);                                                   \
    }                                                                                              \
    if (behind == NULL) {                                                                          \
        return ls_front__fail(ncclSystemError, name " of the real NCCL is not found");             \
    }

// ---- Communicators ------------------------------------------------------------------------------
typedef struct known {
    struct known *next;
    ncclComm_t real;
    struct ls_nccl_comm own;
} known;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static known *all;

// The record of a real communicator; NULL: nothing is.
static ncclComm_t own_of(ncclComm_t comm) {
    (void)pthread_mutex_lock(&lock);
    known *at = all;
    while (at != NULL && at->real != comm) {
        at = at->next;
    }
    (void)pthread_mutex_unlock(&lock);
    return at != NULL ? &at->own : NULL;
}

static void forget(ncclComm_t comm) {
    (void)pthread_mutex_lock(&lock);
    for (known *at = all; at != NULL; at = at->next) {
        at->real = at->real == comm ? NULL : at->real;
    }
    (void)pthread_mutex_unlock(&lock);
}

static void coordinator_gone(void *arg) {
    (void)arg;  // the program continues as without lockstep
}

// Copies need memory that the GPU knows.
static void prepare(ls_client *client) {
    static bool prepared;
    const char *payload = getenv(LS_WIRE_PAYLOAD);
    int device = 0;
    if (!prepared && payload != NULL && payload[0] == '1' &&
        ls_cuda__device(&device) == ncclSuccess) {
        ls_client_on_memory(client, ls_cuda__register, NULL);
        (void)ls_cuda__register(NULL, ls_client_slot(client, 0),
                                LS_WIRE_SLOTS * sizeof(ls_wire_slot));
        prepared = true;
    }
}

static known *make(int rank, int size) {
    ls_client *client = ls_client_get();
    known *made = client != NULL ? calloc(1, sizeof *made) : NULL;
    if (made == NULL || ls_client_slot_take(&made->own.slot, client) != LS_OK) {
        free(made);
        return NULL;
    }
    ls_client_on_end(client, coordinator_gone, NULL);
    prepare(client);
    made->own.magic = LS_FRONT_MAGIC;
    made->own.number = ls_client_comm_number(client);
    made->own.observed = true;
    made->own.rank = rank;
    made->own.size = size;
    return made;
}

// From now on the real communicator's calls are reported.
static void keep(known *made, ncclComm_t comm) {
    made->real = comm;
    (void)pthread_mutex_lock(&lock);
    made->next = all;
    all = made;
    (void)pthread_mutex_unlock(&lock);
}

ncclResult_t ls_front__settle(ncclComm_t comm, bool wait) {
    ls_client *client = ls_client_get();
    if (comm->state == LS_FRONT_JOINING && (wait || ls_client_done(client, comm->slot))) {
        int status = ls_client_wait(client, comm->slot);
        const ls_wire_slot *slot = ls_client_slot(client, comm->slot);
        comm->state = status == LS_OK ? LS_FRONT_READY : LS_FRONT_FAILED;
        comm->rank = status == LS_OK ? slot->value[0] : comm->rank;
        comm->size = status == LS_OK ? slot->value[1] : comm->size;
    }
    return comm->state == LS_FRONT_READY ? ncclSuccess : ncclInProgress;
}

ncclResult_t ls_front__check(ncclComm_t comm, const char *what) {
    const char *why = "";
    if (ls_client_failed(ls_client_get(), &why)) {
        return ls_front__fail(ncclInvalidUsage, "%s", why);
    }
    return ls_front__settle(comm, true) == ncclSuccess
               ? ncclSuccess
               : ls_front__fail(ncclInvalidUsage, "%s: the communicator was never created", what);
}

// The coordinator has read what was copied once it answers.
void ls_front__reclaim(ncclComm_t comm) {
    ls_client *client = ls_client_get();
    while (comm->flights != NULL && ls_client_done(client, comm->flights->slot)) {
        ls_front_flight *flight = comm->flights;
        comm->flights = flight->next;
        comm->flights_last = comm->flights == NULL ? NULL : comm->flights_last;
        ls_client_region_give(client, &flight->send);
        ls_client_region_give(client, &flight->recv);
        ls_client_slot_give(client, flight->slot);
        free(flight);
    }
}

static void name_from(char *name, const ls_nccl_config *config) {
    if (config != NULL && config->version >= 22700 &&
        config->size >= offsetof(ls_nccl_config, comm_name) + sizeof config->comm_name &&
        config->comm_name != NULL) {
        (void)snprintf(name, LS_WIRE_NAME_BYTES, "%s", config->comm_name);
    }
}

// Reports that this member joins; waits for the answer at its first use.
static known *tell_join(int ranks, const ncclUniqueId *id, int rank, const ls_nccl_config *config) {
    known *made = make(rank, ranks);
    if (made == NULL) {
        return NULL;
    }
    ls_wire_comm_init message = {.head = {LS_WIRE_COMM_INIT, sizeof message},
                                 .comm = made->own.number,
                                 .ranks = ranks,
                                 .rank = rank,
                                 .slot = made->own.slot,
                                 .site = ls_client_here(ls_client_get(), NULL),
                                 .later = ls_client_failed(ls_client_get(), NULL) ? 1 : 0};
    (void)ls_front__get_device(&message.device);
    memcpy(message.id, id->internal, sizeof message.id);
    name_from(message.name, config);
    (void)ls_client_send(ls_client_get(), &message, -1);
    return made;
}

static ncclResult_t made_real(known *made, const ncclComm_t *comm, ncclResult_t result) {
    if (made != NULL && (result == ncclSuccess || result == ncclInProgress)) {
        keep(made, *comm);
    }
    return result;
}

LS_NCCL_EXPORT ncclResult_t ncclCommInitRank(ncclComm_t *comm, int ranks, ncclUniqueId id,
                                             int rank) {
    REAL("ncclCommInitRank", (ncclComm_t *, int, ncclUniqueId, int))
    known *made = tell_join(ranks, &id, rank, NULL);
    return made_real(made, comm, behind(comm, ranks, id, rank));
}

LS_NCCL_EXPORT ncclResult_t ncclCommInitRankConfig(ncclComm_t *comm, int ranks, ncclUniqueId id,
                                                   int rank, ls_nccl_config *config) {
    REAL("ncclCommInitRankConfig", (ncclComm_t *, int, ncclUniqueId, int, ls_nccl_config *))
    known *made = tell_join(ranks, &id, rank, config);
    return made_real(made, comm, behind(comm, ranks, id, rank, config));
}

LS_NCCL_EXPORT ncclResult_t ncclCommInitRankScalable(ncclComm_t *comm, int ranks, int rank,
                                                     int count, ncclUniqueId *ids,
                                                     ls_nccl_config *config) {
    REAL("ncclCommInitRankScalable",
         (ncclComm_t *, int, int, int, ncclUniqueId *, ls_nccl_config *))
    known *made = tell_join(ranks, ids, rank, config);
    return made_real(made, comm, behind(comm, ranks, rank, count, ids, config));
}

LS_NCCL_EXPORT ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t *out,
                                          ls_nccl_config *config) {
    REAL("ncclCommSplit", (ncclComm_t, int, int, ncclComm_t *, ls_nccl_config *))
    ncclComm_t parent = own_of(comm);
    known *made = parent != NULL && ls_front__check(parent, "ncclCommSplit") == ncclSuccess
                      ? make(-1, 0)
                      : NULL;
    if (made != NULL) {
        ls_wire_comm_split message = {.head = {LS_WIRE_COMM_SPLIT, sizeof message},
                                      .parent = parent->number,
                                      .comm = made->own.number,
                                      .color = color,
                                      .key = key,
                                      .slot = made->own.slot,
                                      .site = ls_client_here(ls_client_get(), NULL)};
        name_from(message.name, config);
        (void)ls_client_send(ls_client_get(), &message, -1);
    }
    ncclResult_t result = behind(comm, color, key, out, config);
    return color >= 0 ? made_real(made, out, result) : result;
}

LS_NCCL_EXPORT ncclResult_t ncclCommDestroy(ncclComm_t comm) {
    REAL("ncclCommDestroy", (ncclComm_t))
    ncclResult_t result = behind(comm);
    forget(comm);
    return result;
}

LS_NCCL_EXPORT ncclResult_t ncclCommAbort(ncclComm_t comm) {
    REAL("ncclCommAbort", (ncclComm_t))
    ncclResult_t result = behind(comm);
    forget(comm);
    return result;
}

LS_NCCL_EXPORT ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *error) {
    REAL("ncclCommGetAsyncError", (ncclComm_t, ncclResult_t *))
    ls_client *client = ls_client_peek();
    const char *why = "";
    if (client != NULL && error != NULL && ls_client_failed(client, &why)) {
        *error = ls_front__fail(ncclInvalidUsage, "%s", why);
        return ncclSuccess;
    }
    return behind(comm, error);
}

LS_NCCL_EXPORT const char *ncclGetLastError(ncclComm_t comm) {
    static const char *(*behind)(ncclComm_t);
    const char *why = "";
    ls_client *client = ls_client_peek();
    if (client != NULL && ls_client_failed(client, &why)) {
        return why;
    }
    void *symbol = real("ncclGetLastError");
    memcpy(&behind, &symbol, sizeof symbol);
    return last_error[0] != 0 || behind == NULL ? last_error : behind(comm);
}

// ---- Premultiplied sums -------------------------------------------------------------------------
LS_NCCL_EXPORT ncclResult_t ncclRedOpCreatePreMulSum(ncclRedOp_t *op, void *scalar,
                                                     ncclDataType_t type, int residence,
                                                     ncclComm_t comm) {
    REAL("ncclRedOpCreatePreMulSum", (ncclRedOp_t *, void *, ncclDataType_t, int, ncclComm_t))
    unsigned char value[8] = {0};
    ncclResult_t result = behind(op, scalar, type, residence, comm);
    ncclComm_t own = own_of(comm);
    int made = result == ncclSuccess ? *op - LS_PREMUL_SUM : -1;
    if (own != NULL && made >= 0 && made < LS_FRONT_OPS_MAX && residence == 1) {
        memcpy(value, scalar, ls_dtype_bytes((ls_dtype)type));
        own->op_used[made] = true;
        own->op_type[made] = type;
        own->op_scalar[made] = ls_element_to_f64(value, (ls_dtype)type);
    }
    return result;
}

// The real library's functions call each other by their public names, as ncclBcast does
// ncclBroadcast: what it calls itself is no call of the program.
static _Thread_local bool inside;

// The real library has received the call: its data may be read.
static ncclResult_t after(ncclResult_t result) {
    inside = false;
    ls_front__watched();
    return result;
}

// ---- Calls --------------------------------------------------------------------------------------
LS_NCCL_EXPORT ncclResult_t ncclGroupStart(void) {
    REAL("ncclGroupStart", (void))
    if (inside) {
        return behind();
    }
    ls_front__group_start();
    return behind();
}

LS_NCCL_EXPORT ncclResult_t ncclGroupEnd(void) {
    REAL("ncclGroupEnd", (void))
    if (inside) {
        return behind();
    }
    ncclResult_t told = ls_front__group_end();
    inside = true;
    ncclResult_t result = after(behind());
    ls_client *client = ls_client_peek();
    bool over = client != NULL && ls_client_failed(client, NULL);
    return told == ncclInvalidUsage && over ? told : result;
}

// The real library judges calls that the frontend refuses; the end of the run is reported.
static ncclResult_t tell(ls_front_issue what) {
    ncclComm_t own = own_of(what.comm);
    if (own == NULL) {
        return ncclSuccess;
    }
    if (ls_client_unobserved(ls_client_get())) {
        return ncclSuccess;
    }
    what.comm = own;
    ncclResult_t result = ls_front__make(&what);
    return ls_client_failed(ls_client_get(), NULL) ? result : ncclSuccess;
}

#define CALL(name, parameters, arguments, ...)                                                     \
    LS_NCCL_EXPORT ncclResult_t name parameters {                                                  \
        REAL(#name, parameters)                                                                    \
        if (inside) {                                                                              \
            return behind arguments;                                                               \
        }                                                                                          \
        ncclResult_t told = tell((ls_front_issue){__VA_ARGS__, comm, stream, NULL});               \
        if (told != ncclSuccess) {                                                                 \
            return told;                                                                           \
        }                                                                                          \
        inside = true;                                                                             \
        return after(behind arguments);                                                            \
    }
LS_FRONT_FUNCTIONS(CALL)
