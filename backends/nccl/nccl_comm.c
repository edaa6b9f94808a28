// Communicators: the world's own, made when the backend is, and those split off it.
#include <string.h>

#include "backends/nccl/nccl_internal.h"

nccl_comm *ls_nccl__comm(nccl_owner *owner, const ls_comm *comm) {
    nccl_comm *at = owner->comms;
    while (at != NULL && at->comm != comm) {
        at = at->next;
    }
    LS_ASSERT(at != NULL);
    return at;
}

void ls_nccl__set_deadline(nccl_owner *owner) {
    for (int i = 0; i < owner->held; i++) {
        owner->workers[i].deadline = ls_time_now() + owner->options.deadline_seconds;
    }
}

static ncclConfig_t make_config(const nccl_owner *owner) {
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = owner->options.blocking ? 1 : 0;
    return config;
}

static int init_job(nccl_worker *worker, void *arg) {
    const ls_nccl_library *library = worker->owner->library;
    ncclUniqueId id;
    memcpy(&id, arg, sizeof id);
    ncclConfig_t config = make_config(worker->owner);
    int size = worker->owner->size;
    LS_TRY(ls_nccl__status(
        library, library->ncclCommInitRankConfig(&worker->world, size, id, worker->rank, &config),
        "ncclCommInitRankConfig"));
    return ls_nccl__wait_comm(worker, worker->world, "making the communicator");
}

typedef struct split_arguments {
    ncclComm_t parent;
    int color, key;
    ncclComm_t made;
} split_arguments;

static int split_job(nccl_worker *worker, void *arg) {
    const ls_nccl_library *library = worker->owner->library;
    split_arguments *a = arg;
    ncclConfig_t config = make_config(worker->owner);
    LS_TRY(ls_nccl__status(library,
                           library->ncclCommSplit(a->parent, a->color, a->key, &a->made, &config),
                           "ncclCommSplit"));
    if (!worker->owner->options.blocking) {
        LS_TRY(ls_nccl__wait_comm(worker, a->parent, "splitting a communicator"));
    }
    return a->made != NULL ? ls_nccl__wait_comm(worker, a->made, "splitting a communicator")
                           : LS_OK;
}

// Reads from NCCL's log what came into being.
static int read_topology(ls_nccl_topology *topology, nccl_owner *owner, const int *ranks, int size,
                         int comm_id) {
    ls_text text = {0};
    *topology = (ls_nccl_topology){.size = size};
    LS_TRY(ls_nccl__log_new(&text));
    int status = ls_nccl__topology_parse(topology, ls_text_string(&text));
    ls_text_free(&text);
    if (status == LS_OK && owner->options.bootstrap != NULL) {
        status = ls_nccl__gather_topology(topology, owner, ranks, size, comm_id);
    }
    if (status == LS_OK) {
        ls_nccl__topology_write(topology);
    }
    return status;
}

static int split(nccl_owner *owner, nccl_comm *made) {
    void *memory = NULL;
    LS_TRY(ls_alloc(&memory, (size_t)owner->held, sizeof(split_arguments)));
    split_arguments *arguments = memory;
    for (int i = 0; i < owner->held; i++) {
        int member = ls_comm_member(made->comm, owner->workers[i].rank);
        arguments[i].parent = owner->workers[i].world;
        arguments[i].color = member >= 0 ? 0 : NCCL_SPLIT_NOCOLOR;
        arguments[i].key = member >= 0 ? member : 0;
    }
    ls_nccl__set_deadline(owner);
    int status = ls_nccl__on_all(owner, split_job, arguments, sizeof *arguments);
    for (int i = 0; i < owner->held; i++) {
        made->handles[i] = arguments[i].made;
    }
    ls_free(memory, (size_t)owner->held, sizeof(split_arguments));
    if (status == LS_OK) {
        status = read_topology(&made->topology, owner, made->comm->ranks, made->comm->size,
                               made->comm->id);
    }
    return status;
}

static bool is_world(const ls_comm *comm) {
    bool same = comm->size == ls_world_size(comm->backend->world);
    for (int i = 0; i < comm->size && same; i++) {
        same = comm->ranks[i] == i;
    }
    return same;
}

static void take_out(nccl_comm **list, const nccl_comm *made) {
    nccl_comm **at = list;
    while (*at != NULL && *at != made) {
        at = &(*at)->next;
    }
    if (*at != NULL) {
        *at = made->next;
    }
}

static void free_comm(const nccl_owner *owner, nccl_comm *made) {
    ls_nccl__topology_free(&made->topology);
    ls_free(made->ranks, (size_t)made->size, sizeof(int));
    ls_free(made->handles, (size_t)owner->held, sizeof(ncclComm_t));
    ls_free(made, 1, sizeof *made);
}

static void forget_comm(nccl_owner *owner, nccl_comm *made) {
    take_out(&owner->comms, made);
    free_comm(owner, made);
}

// ---- Those kept ---------------------------------------------------------------------------------
// Puts a closed communicator aside; false: it is to be destroyed.
static bool keep_comm(nccl_owner *owner, nccl_comm *made) {
    void *memory = NULL;
    size_t size = (size_t)made->comm->size;
    if (owner->options.kept == NULL || !made->everywhere || owner->broken ||
        ls_alloc(&memory, size, sizeof(int)) != LS_OK) {
        return false;
    }
    memcpy(memory, made->comm->ranks, size * sizeof(int));
    made->ranks = memory;
    made->size = made->comm->size;
    made->comm = NULL;
    take_out(&owner->comms, made);
    made->next = owner->kept_comms;
    owner->kept_comms = made;
    return true;
}

// Gives `made` the handles of a kept communicator of the same members. Every process keeps and
// takes the same.
static bool take_kept(nccl_owner *owner, nccl_comm *made) {
    const ls_comm *comm = made->comm;
    nccl_comm *kept = owner->kept_comms;
    while (kept != NULL && (kept->size != comm->size ||
                            memcmp(kept->ranks, comm->ranks, (size_t)kept->size * sizeof(int)))) {
        kept = kept->next;
    }
    if (kept == NULL) {
        return false;
    }
    memcpy(made->handles, kept->handles, (size_t)owner->held * sizeof(ncclComm_t));
    made->topology = kept->topology;
    kept->topology = (ls_nccl_topology){0};
    take_out(&owner->kept_comms, kept);
    free_comm(owner, kept);
    return true;
}

// The record of a communicator without handles yet.
static int make_record(nccl_comm **out, nccl_owner *owner, ls_comm *comm) {
    if (owner->broken) {
        return LS_FAIL(LS_ERR_BACKEND, "communicator %s: NCCL was aborted before", comm->name);
    }
    void *memory = NULL;
    LS_TRY(ls_alloc(&memory, 1, sizeof(nccl_comm)));
    nccl_comm *made = memory;
    made->comm = comm;
    made->next = owner->comms;
    owner->comms = made;
    int status = ls_alloc(&memory, (size_t)owner->held, sizeof(ncclComm_t));
    made->handles = memory;
    status = status == LS_OK ? ls_match__open(comm) : status;
    if (status != LS_OK) {
        forget_comm(owner, made);
    }
    *out = made;
    return status;
}

int ls_nccl__comm_open(ls_backend *backend, ls_comm *comm) {
    nccl_owner *owner = backend->impl;
    nccl_comm *made = NULL;
    int status = make_record(&made, owner, comm);
    if (status == LS_OK) {
        made->borrowed = is_world(comm);
        if (made->borrowed) {
            for (int i = 0; i < owner->held; i++) {
                made->handles[i] = owner->workers[i].world;
            }
        } else if (!take_kept(owner, made)) {
            status = split(owner, made);
        }
        made->everywhere = !made->borrowed;
        if (status != LS_OK) {
            ls_nccl__abort(owner);
            ls_match__close(comm);
            forget_comm(owner, made);
        }
    }
    if (status != LS_OK) {
        return ls_error_wrap("communicator %s", comm->name);
    }
    return LS_OK;
}

// One process, one rank: ncclCommSplit of the parent itself.
int ls_nccl__comm_split(ls_backend *backend, ls_comm *comm, const ls_comm *parent, int color) {
    nccl_owner *owner = backend->impl;
    nccl_comm *made = NULL;
    LS_ASSERT(owner->held == 1 && !parent->closed);
    split_arguments arguments = {.parent = ls_nccl__comm(owner, parent)->handles[0],
                                 .color = NCCL_SPLIT_NOCOLOR};
    if (comm != NULL) {
        LS_TRY(make_record(&made, owner, comm));
        arguments.color = color;
        arguments.key = ls_comm_member(comm, owner->workers[0].rank);
    } else if (owner->broken) {
        return LS_FAIL(LS_ERR_BACKEND, "%s: NCCL was aborted before", parent->name);
    }
    ls_nccl__set_deadline(owner);
    int status = ls_nccl__on_all(owner, split_job, &arguments, 0);
    if (made != NULL) {
        made->handles[0] = arguments.made;
    }
    if (status == LS_OK && comm != NULL) {
        status = read_topology(&made->topology, owner, comm->ranks, comm->size, comm->id);
    }
    if (status != LS_OK) {
        ls_nccl__abort(owner);
    }
    if (status != LS_OK && comm != NULL) {
        ls_match__close(comm);
        forget_comm(owner, made);
    }
    return status;
}

static int destroy_job(nccl_worker *worker, void *arg) {
    const ls_nccl_library *library = worker->owner->library;
    ncclComm_t *handle = arg;
    if (*handle == NULL) {
        return LS_OK;
    }
    (void)library->ncclCommFinalize(*handle);
    int status = ls_nccl__wait_comm(worker, *handle, "closing a communicator");
    (void)(status == LS_OK ? library->ncclCommDestroy(*handle) : library->ncclCommAbort(*handle));
    *handle = NULL;
    return LS_OK;
}

static void destroy(nccl_owner *owner, ncclComm_t *handles) {
    if (!owner->broken) {
        ls_nccl__set_deadline(owner);
        (void)ls_nccl__on_all(owner, destroy_job, handles, sizeof *handles);
    }
}

void ls_nccl__comm_close(ls_backend *backend, ls_comm *comm) {
    nccl_owner *owner = backend->impl;
    nccl_comm *made = ls_nccl__comm(owner, comm);
    ls_match__close(comm);
    if (keep_comm(owner, made)) {
        return;
    }
    if (!made->borrowed) {
        destroy(owner, made->handles);
    }
    forget_comm(owner, made);
}

// ---- The world ----------------------------------------------------------------------------------
int ls_nccl__world_open(nccl_owner *owner) {
    ncclUniqueId id;
    memset(&id, 0, sizeof id);
    const ls_nccl_bootstrap *bootstrap = owner->options.bootstrap;
    if (bootstrap == NULL || owner->workers[0].rank == 0) {
        LS_TRY(ls_nccl__status(owner->library, owner->library->ncclGetUniqueId(&id),
                               "ncclGetUniqueId"));
    }
    if (bootstrap != NULL) {
        LS_TRY(bootstrap->broadcast(bootstrap->data, &id, sizeof id, 0));
    }
    ls_nccl__set_deadline(owner);
    int status = ls_nccl__on_all(owner, init_job, &id, 0);
    if (status != LS_OK) {
        ls_nccl__abort(owner);
        return status;
    }
    int size = owner->size;
    void *memory = NULL;
    LS_TRY(ls_alloc(&memory, (size_t)size, sizeof(int)));
    int *ranks = memory;
    for (int i = 0; i < size; i++) {
        ranks[i] = i;
    }
    ls_nccl__log_unlink();
    status = read_topology(&owner->world_topology, owner, ranks, size, 0);
    ls_free(memory, (size_t)size, sizeof(int));
    return status;
}

void ls_nccl__world_close(nccl_owner *owner) {
    void *memory = NULL;
    for (nccl_comm *kept = owner->kept_comms, *next = NULL; kept != NULL; kept = next) {
        next = kept->next;
        destroy(owner, kept->handles);
        free_comm(owner, kept);
    }
    owner->kept_comms = NULL;
    if (owner->broken || ls_alloc(&memory, (size_t)owner->held, sizeof(ncclComm_t)) != LS_OK) {
        return;
    }
    ncclComm_t *handles = memory;
    bool any = false;
    for (int i = 0; i < owner->held; i++) {
        handles[i] = owner->workers[i].world;
        any = any || handles[i] != NULL;
    }
    if (any) {
        destroy(owner, handles);
    }
    ls_free(memory, (size_t)owner->held, sizeof(ncclComm_t));
}
