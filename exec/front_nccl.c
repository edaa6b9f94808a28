// The front that replaces NCCL's library: communicators, from their making to their end, and
// what is asked of them. Calls are in front_calls.c.
#define _GNU_SOURCE  // getrandom
#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "exec/front.h"

static _Thread_local char last_error[LS_WIRE_WHY_BYTES + 64];
static char process_error[sizeof last_error];  // the newest of any thread

ncclResult_t ls_front__fail(ncclResult_t result, const char *format, ...) {
    va_list args;
    va_start(args, format);
    (void)vsnprintf(last_error, sizeof last_error, format, args);
    va_end(args);
    memcpy(process_error, last_error, sizeof process_error);
    return result;
}

ncclResult_t ls_front__fail_last(void) {
    return ls_front__fail(ncclSystemError, "%s", ls_error_last()->text);
}

// The result code of the run's end for a program.
static ncclResult_t over(const char *why) {
    return ls_front__fail(ncclInvalidUsage, "%s", why);
}

// ---- Whether a communicator can be used ---------------------------------------------------------
ncclResult_t ls_front__settle(ncclComm_t comm, bool wait) {
    ls_client *client = ls_client_get();
    if (comm->state != LS_FRONT_JOINING) {
        return comm->state == LS_FRONT_READY ? ncclSuccess
                                             : over("the communicator was never created");
    }
    if (!wait && !ls_client_done(client, comm->slot)) {
        return ncclInProgress;
    }
    int status = ls_client_wait(client, comm->slot);
    const ls_wire_slot *slot = ls_client_slot(client, comm->slot);
    if (status != LS_OK) {
        comm->state = LS_FRONT_FAILED;
        return over(ls_error_last()->text);
    }
    comm->rank = slot->value[0];
    comm->size = slot->value[1];
    comm->state = LS_FRONT_READY;
    ls_client_slot_give(client, comm->slot);
    return ncclSuccess;
}

ncclResult_t ls_front__check_handle(ncclComm_t comm, const char *what) {
    if (comm != NULL && comm->magic == LS_FRONT_MAGIC) {
        return ncclSuccess;
    }
    return ls_front__fail(ncclInvalidArgument, "%s: the communicator is %s", what,
                          comm == NULL ? "NULL" : "none, or was destroyed");
}

ncclResult_t ls_front__check(ncclComm_t comm, const char *what) {
    ncclResult_t result = ls_front__check_handle(comm, what);
    if (result != ncclSuccess) {
        return result;
    }
    const char *why = "";
    if (ls_client_failed(ls_client_get(), &why)) {
        return over(why);
    }
    if (comm->revoked) {
        return ls_front__fail(ncclInvalidUsage, "%s: the communicator was revoked", what);
    }
    result = ls_front__settle(comm, comm->blocking);
    return result == ncclInProgress
               ? ls_front__fail(ncclInvalidArgument,
                                "%s: attempt to use the communicator before the previous operation "
                                "returned ncclSuccess",
                                what)
               : result;
}

// ---- Making -------------------------------------------------------------------------------------
static void release_all(void *arg) {
    (void)arg;
    static const char text[] = "lockstep exec: the coordinator is gone; its ranks end\n";
    int rank = -1, ranks = -1;
    ls_client_launched(&rank, &ranks);
    if (rank <= 0) {
        (void)!write(2, text, sizeof text - 1);
    }
    _exit(3);
}

// The connection, with CUDA's driver reported its memory.
static ncclResult_t connect_client(ls_client **out) {
    static pthread_mutex_t once = PTHREAD_MUTEX_INITIALIZER;
    static ls_client *prepared;
    int device = 0;
    ncclResult_t result = ls_cuda__device(&device);
    if (result != ncclSuccess) {
        return result;
    }
    (void)pthread_mutex_lock(&once);
    ls_client *client = ls_client_get();
    if (client == NULL) {
        result = ls_front__fail_last();
    } else if (client != prepared) {
        ls_client_on_memory(client, ls_cuda__register, NULL);
        ls_client_on_end(client, release_all, NULL);
        result = ls_cuda__register(NULL, ls_client_slot(client, 0),
                                   LS_WIRE_SLOTS * sizeof(ls_wire_slot)) == LS_OK
                     ? ncclSuccess
                     : ls_front__fail_last();
        prepared = result == ncclSuccess ? client : NULL;
    }
    (void)pthread_mutex_unlock(&once);
    *out = client;
    return result;
}

static bool has(const ls_nccl_config *config, size_t offset, size_t bytes) {
    return config != NULL && config->size >= offset + bytes;
}
#define HAS(config, member) has(config, offsetof(ls_nccl_config, member), sizeof((config)->member))

static ncclResult_t read_config(bool *blocking, char *name, const ls_nccl_config *config) {
    *blocking = true;
    name[0] = 0;
    if (config == NULL) {
        return ncclSuccess;
    }
    if (config->magic != LS_NCCL_CONFIG_MAGIC) {
        return ls_front__fail(ncclInvalidArgument, "ncclConfig_t argument not initialized");
    }
    *blocking = !HAS(config, blocking) || config->blocking != 0;
    if (config->version >= 22700 && HAS(config, comm_name) && config->comm_name != NULL) {
        (void)snprintf(name, LS_WIRE_NAME_BYTES, "%s", config->comm_name);
    }
    return ncclSuccess;
}

static ncclResult_t make_comm(ncclComm_t *out, ls_client *client, bool blocking) {
    ncclComm_t comm = calloc(1, sizeof *comm);
    if (comm == NULL || ls_client_slot_take(&comm->slot, client) != LS_OK) {
        free(comm);
        return comm == NULL ? ls_front__fail(ncclSystemError, "no memory") : ls_front__fail_last();
    }
    comm->magic = LS_FRONT_MAGIC;
    comm->number = ls_client_comm_number(client);
    comm->blocking = blocking;
    *out = comm;
    return ncclSuccess;
}

// The message is sent: the communicator is created now, at the group's end, or later.
static ncclResult_t finish_making(ncclComm_t comm) {
    if (ls_front__grouped()) {
        return ls_front__group_comm(comm);
    }
    return comm->blocking ? ls_front__settle(comm, true) : ncclInProgress;
}

static ncclResult_t init(ncclComm_t *out, int ranks, const ncclUniqueId *id, int rank,
                         const ls_nccl_config *config) {
    ls_client *client = NULL;
    ls_wire_comm_init message = {.head = {LS_WIRE_COMM_INIT, sizeof message}};
    bool blocking = true;
    if (out == NULL || ranks < 1 || rank < 0 || rank >= ranks) {
        return ls_front__fail(ncclInvalidArgument, "ncclCommInitRank: rank %d of %d", rank, ranks);
    }
    *out = NULL;
    ncclResult_t result = read_config(&blocking, message.name, config);
    result = result == ncclSuccess ? connect_client(&client) : result;
    ncclComm_t comm = NULL;
    result = result == ncclSuccess ? make_comm(&comm, client, blocking) : result;
    result = result == ncclSuccess ? ls_front__get_device(&comm->device) : result;
    if (result != ncclSuccess) {
        return result;
    }
    message.comm = comm->number;
    message.ranks = comm->size = ranks;
    message.rank = comm->rank = rank;
    message.device = comm->device;
    message.slot = comm->slot;
    message.site = ls_client_here(client, NULL);
    message.later = ls_client_failed(client, NULL) ? 1 : 0;
    memcpy(message.id, id->internal, sizeof message.id);
    if (ls_client_send(client, &message, -1) != LS_OK) {
        return ls_front__fail_last();
    }
    *out = comm;
    return finish_making(comm);
}

LS_NCCL_EXPORT ncclResult_t ncclGetVersion(int *version) {
    if (version == NULL) {
        return ls_front__fail(ncclInvalidArgument, "ncclGetVersion: version is NULL");
    }
    *version = LS_NCCL_VERSION;
    // A program that will use it: from now on it can be asked where it is.
    (void)(getenv(LS_WIRE_SOCKET) != NULL ? ls_client_get() : NULL);
    return ncclSuccess;
}

LS_NCCL_EXPORT ncclResult_t ncclGetUniqueId(ncclUniqueId *id) {
    if (id == NULL || getrandom(id->internal, sizeof id->internal, 0) != sizeof id->internal) {
        return ls_front__fail(id == NULL ? ncclInvalidArgument : ncclSystemError,
                              "ncclGetUniqueId: %s", id == NULL ? "id is NULL" : strerror(errno));
    }
    return ncclSuccess;
}

LS_NCCL_EXPORT ncclResult_t ncclCommInitRank(ncclComm_t *comm, int ranks, ncclUniqueId id,
                                             int rank) {
    return init(comm, ranks, &id, rank, NULL);
}

LS_NCCL_EXPORT ncclResult_t ncclCommInitRankConfig(ncclComm_t *comm, int ranks, ncclUniqueId id,
                                                   int rank, ls_nccl_config *config) {
    return init(comm, ranks, &id, rank, config);
}

// The ids are one communicator's, all alike on all ranks: the first names it.
LS_NCCL_EXPORT ncclResult_t ncclCommInitRankScalable(ncclComm_t *comm, int ranks, int rank,
                                                     int id_count, const ncclUniqueId *ids,
                                                     ls_nccl_config *config) {
    if (id_count < 1 || ids == NULL) {
        return ls_front__fail(ncclInvalidArgument, "ncclCommInitRankScalable: no id");
    }
    return init(comm, ranks, ids, rank, config);
}

LS_NCCL_EXPORT ncclResult_t ncclCommInitAll(ncclComm_t *comms, int count, const int *devices) {
    ncclUniqueId id;
    ncclResult_t result =
        comms != NULL && count > 0
            ? ncclGetUniqueId(&id)
            : ls_front__fail(ncclInvalidArgument, "ncclCommInitAll: %d devices", count);
    int before = 0;
    if (result == ncclSuccess) {
        result = ls_front__get_device(&before);
    }
    if (result == ncclSuccess) {
        result = ncclGroupStart();
    }
    if (result != ncclSuccess) {
        return result;
    }
    for (int i = 0; i < count && result == ncclSuccess; i++) {
        result = ls_front__set_device(devices != NULL ? devices[i] : i);
        result = result == ncclSuccess ? init(&comms[i], count, &id, i, NULL) : result;
    }
    ncclResult_t ended = ncclGroupEnd();
    (void)ls_front__set_device(before);
    return result != ncclSuccess ? result : ended;
}

LS_NCCL_EXPORT ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t *out,
                                          ls_nccl_config *config) {
    ls_wire_comm_split message = {.head = {LS_WIRE_COMM_SPLIT, sizeof message}};
    ncclResult_t result = out != NULL ? ls_front__check(comm, "ncclCommSplit")
                                      : ls_front__fail(ncclInvalidArgument, "ncclCommSplit: NULL");
    bool blocking = true;
    result = result == ncclSuccess ? read_config(&blocking, message.name, config) : result;
    ls_client *client = ls_client_get();
    ncclComm_t made = NULL;
    blocking = config == NULL ? comm != NULL && comm->blocking : blocking;
    result = result == ncclSuccess ? make_comm(&made, client, blocking) : result;
    if (result != ncclSuccess) {
        return result;
    }
    made->device = comm->device;
    message.parent = comm->number;
    message.comm = made->number;
    message.color = color;
    message.key = key;
    message.slot = made->slot;
    message.site = ls_client_here(client, NULL);
    if (ls_client_send(client, &message, -1) != LS_OK) {
        return ls_front__fail_last();
    }
    if (color >= 0) {
        *out = made;
        return finish_making(made);
    }
    // In no part; the split is a call of all members all the same.
    *out = NULL;
    made->blocking = true;
    return ls_front__grouped() ? ls_front__group_comm(made) : ls_front__settle(made, true);
}

LS_NCCL_EXPORT ncclResult_t ncclCommShrink(ncclComm_t comm, int *excluded, int count,
                                           ncclComm_t *out, ls_nccl_config *config, int flags) {
    struct {
        ls_wire_comm_subset subset;
        int32_t members[4096];
    } message = {.subset = {.head = {.type = LS_WIRE_COMM_SUBSET}}};
    (void)flags;
    ncclResult_t result = ls_front__check(comm, "ncclCommShrink");
    bool blocking = true;
    result = result == ncclSuccess ? read_config(&blocking, message.subset.name, config) : result;
    if (result == ncclSuccess && (out == NULL || comm->size > 4096 || count < 0)) {
        result = ls_front__fail(ncclInvalidArgument, "ncclCommShrink: %d of %d ranks", count,
                                comm->size);
    }
    ls_client *client = ls_client_get();
    ncclComm_t made = NULL;
    result = result == ncclSuccess ? make_comm(&made, client, blocking) : result;
    if (result != ncclSuccess) {
        return result;
    }
    uint32_t kept = 0;
    for (int m = 0; m < comm->size; m++) {
        bool out_of_it = false;
        for (int i = 0; i < count; i++) {
            out_of_it = out_of_it || excluded[i] == m;
        }
        if (!out_of_it) {
            message.members[kept++] = m;
        }
    }
    made->device = comm->device;
    message.subset.parent = comm->number;
    message.subset.comm = made->number;
    message.subset.slot = made->slot;
    message.subset.site = ls_client_here(client, NULL);
    message.subset.count = kept;
    message.subset.head.bytes = (uint32_t)(sizeof message.subset + kept * sizeof(int32_t));
    if (ls_client_send(client, &message, -1) != LS_OK) {
        return ls_front__fail_last();
    }
    *out = made;
    return finish_making(made);
}

// ---- Questions ----------------------------------------------------------------------------------
LS_NCCL_EXPORT ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *error) {
    ncclResult_t result = ls_front__check_handle(comm, "ncclCommGetAsyncError");
    if (result != ncclSuccess || error == NULL) {
        return result != ncclSuccess ? result : ncclInvalidArgument;
    }
    const char *why = "";
    if (ls_client_failed(ls_client_get(), &why)) {
        *error = over(why);
        return ncclSuccess;
    }
    *error = comm->state == LS_FRONT_JOINING ? ls_front__settle(comm, false) : ncclSuccess;
    return ncclSuccess;
}

static ncclResult_t ask(ncclComm_t comm, int *out, int which, const char *what) {
    ncclResult_t result = ls_front__check_handle(comm, what);
    if (result == ncclSuccess && out == NULL) {
        result = ls_front__fail(ncclInvalidArgument, "%s: NULL", what);
    }
    result = result == ncclSuccess ? ls_front__settle(comm, comm->blocking) : result;
    if (result == ncclSuccess) {
        *out = which == 1 ? comm->rank : comm->device;
        if (which == 0) {
            *out = comm->size;
        }
    }
    return result;
}

LS_NCCL_EXPORT ncclResult_t ncclCommCount(ncclComm_t comm, int *count) {
    return ask(comm, count, 0, "ncclCommCount");
}

LS_NCCL_EXPORT ncclResult_t ncclCommUserRank(ncclComm_t comm, int *rank) {
    return ask(comm, rank, 1, "ncclCommUserRank");
}

LS_NCCL_EXPORT ncclResult_t ncclCommCuDevice(ncclComm_t comm, int *device) {
    return ask(comm, device, 2, "ncclCommCuDevice");
}

LS_NCCL_EXPORT const char *ncclGetErrorString(ncclResult_t result) {
    switch (result) {
    case ncclSuccess:
        return "no error";
    case ncclUnhandledCudaError:
        return "unhandled cuda error";
    case ncclSystemError:
        return "unhandled system error";
    case ncclInternalError:
        return "internal error";
    case ncclInvalidArgument:
        return "invalid argument";
    case ncclInvalidUsage:
        return "invalid usage";
    case ncclRemoteError:
        return "remote process exited or there was a network error";
    case ncclInProgress:
        return "NCCL operation in progress";
    default:
        return "unknown result code";
    }
}

// This thread's, else the newest of the process; of the run's end where it is over.
LS_NCCL_EXPORT const char *ncclGetLastError(ncclComm_t comm) {
    (void)comm;
    const char *why = "";
    ls_client *client = ls_client_peek();
    if (client != NULL && ls_client_failed(client, &why)) {
        return why;
    }
    return last_error[0] != 0 ? last_error : process_error;
}

LS_NCCL_EXPORT void ncclResetDebugInit(void) {
}
