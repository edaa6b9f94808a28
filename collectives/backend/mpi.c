// The MPI backend: this process is one rank. Calls are agreed on first, then moved by MPI itself,
// so that its results owe nothing to the simulator's math.
#include "collectives/backend/mpi.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "collectives/backend/mpi_internal.h"

int ls_mpi__status(int result, const char *what) {
    if (result == MPI_SUCCESS) {
        return LS_OK;
    }
    char text[MPI_MAX_ERROR_STRING] = "";
    int length = 0;
    (void)MPI_Error_string(result, text, &length);
    return LS_FAIL(LS_ERR_BACKEND, "%s failed: %.500s", what, text);
}

// ---- The process --------------------------------------------------------------------------------
int ls_mpi_init(int *rank, int *size) {
    LS_ASSERT(rank != NULL && size != NULL);
    int provided = 0;
    LS_MPI_TRY(MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &provided), "MPI_Init_thread");
    LS_MPI_TRY(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN),
               "MPI_Comm_set_errhandler");
    LS_MPI_TRY(MPI_Comm_rank(MPI_COMM_WORLD, rank), "MPI_Comm_rank");
    LS_MPI_TRY(MPI_Comm_size(MPI_COMM_WORLD, size), "MPI_Comm_size");
    return ls_mpi__types_open();
}

void ls_mpi_finalize(void) {
    ls_mpi__types_close();
    (void)MPI_Finalize();
}

void ls_mpi_abort(int code) {
    (void)MPI_Abort(MPI_COMM_WORLD, code);
    abort();
}

const char *ls_mpi_version(void) {
    static char version[64];
    char text[MPI_MAX_LIBRARY_VERSION_STRING] = "";
    int length = 0;
    if (version[0] == '\0') {
        // "MPICH Version:\t4.0.2\n...": the name, then the first word that starts with a digit.
        (void)MPI_Get_library_version(text, &length);
        size_t name = strcspn(text, " \t\n,"), number = strcspn(text, "0123456789");
        size_t digits = strspn(text + number, "0123456789.abcdefghijklmnopqrstuvwxyz");
        (void)snprintf(version, sizeof version, "%.*s %.*s", (int)(name < 24 ? name : 24), text,
                       (int)(digits < 24 ? digits : 24), text + number);
    }
    return version;
}

// ---- The backend --------------------------------------------------------------------------------
typedef struct mpi_backend {
    ls_backend backend;
} mpi_backend;

typedef struct mpi_comm {
    MPI_Comm comm;  // MPI_COMM_NULL where this rank is no member
} mpi_comm;

MPI_Comm ls_mpi__comm(const ls_comm *comm) {
    return ((const mpi_comm *)comm->impl)->comm;
}

static int open_mpi(mpi_comm *out, const ls_comm *comm) {
    MPI_Group world = MPI_GROUP_NULL, members = MPI_GROUP_NULL;
    LS_MPI_TRY(MPI_Comm_group(MPI_COMM_WORLD, &world), "MPI_Comm_group");
    int status =
        ls_mpi__status(MPI_Group_incl(world, comm->size, comm->ranks, &members), "MPI_Group_incl");
    if (status == LS_OK) {
        status =
            ls_mpi__status(MPI_Comm_create(MPI_COMM_WORLD, members, &out->comm), "MPI_Comm_create");
        (void)MPI_Group_free(&members);
    }
    (void)MPI_Group_free(&world);
    if (status == LS_OK && out->comm != MPI_COMM_NULL) {
        status = ls_mpi__status(MPI_Comm_set_errhandler(out->comm, MPI_ERRORS_RETURN),
                                "MPI_Comm_set_errhandler");
    }
    return status;
}

static int mpi_comm_open(ls_backend *backend, ls_comm *comm) {
    (void)backend;
    void *memory = NULL;
    LS_TRY(ls_alloc(&memory, NULL, 1, sizeof(mpi_comm)));
    mpi_comm *made = memory;
    made->comm = MPI_COMM_NULL;
    int status = open_mpi(made, comm);
    if (status != LS_OK) {
        ls_free(NULL, memory, 1, sizeof(mpi_comm));
        return ls_error_wrap("communicator %s", comm->name);
    }
    comm->impl = made;
    return LS_OK;
}

// MPI_Comm_split, with the members in the communicator's own order.
static int mpi_comm_split(ls_backend *backend, ls_comm *comm, const ls_comm *parent, int color) {
    MPI_Comm made = MPI_COMM_NULL;
    void *memory = NULL;
    int member = comm != NULL ? ls_comm_member(comm, ls_world_held(backend->world)[0]) : 0;
    LS_ASSERT(member >= 0);
    if (comm != NULL) {
        LS_TRY(ls_alloc(&memory, NULL, 1, sizeof(mpi_comm)));
    }
    int status = ls_mpi__status(
        MPI_Comm_split(ls_mpi__comm(parent), comm != NULL ? color : MPI_UNDEFINED, member, &made),
        "MPI_Comm_split");
    if (status == LS_OK && comm != NULL) {
        status = ls_mpi__status(MPI_Comm_set_errhandler(made, MPI_ERRORS_RETURN),
                                "MPI_Comm_set_errhandler");
    }
    if (comm != NULL && status != LS_OK) {
        ls_free(NULL, memory, 1, sizeof(mpi_comm));
    } else if (comm != NULL) {
        comm->impl = memory;
        ((mpi_comm *)memory)->comm = made;
    }
    return status;
}

static void mpi_comm_close(ls_backend *backend, ls_comm *comm) {
    (void)backend;
    mpi_comm *made = comm->impl;
    if (made->comm != MPI_COMM_NULL) {
        (void)MPI_Comm_free(&made->comm);
    }
    ls_free(NULL, made, 1, sizeof *made);
}

int ls_mpi__request(MPI_Request **out, ls_mpi_group *group) {
    LS_ASSERT(group->request_count < group->request_room);
    *out = &group->requests[group->request_count++];
    **out = MPI_REQUEST_NULL;
    return LS_OK;
}

int ls_mpi__wait(ls_mpi_group *group) {
    // Processes outnumber cores on a debugging machine: one that spins would keep the core from the
    // one it waits for.
    int result = MPI_SUCCESS, done = 0;
    while (result == MPI_SUCCESS && !done) {
        result = MPI_Testall(group->request_count, group->requests, &done, group->statuses);
        if (!done) {
            (void)sched_yield();
        }
    }
    for (int i = 0; i < group->request_count && result == MPI_ERR_IN_STATUS; i++) {
        int of_request = group->statuses[i].MPI_ERROR;
        if (of_request != MPI_SUCCESS && of_request != MPI_ERR_PENDING) {
            result = of_request;
        }
    }
    LS_MPI_TRY(result, "MPI_Testall");
    group->request_count = 0;
    return LS_OK;
}

// ---- Sends and receives agree pair by pair ------------------------------------------------------
#define ASK_TAG    0  // what the sender says, to the receiver
#define ANSWER_TAG 1  // what the receiver says, to the sender

typedef struct message {
    int64_t dtype, count, seq, rank, line, status;
    char file[80];
} message;

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
    int status = ls_collective_of(LS_SEND)->check(pair, 2);
    if (status != LS_OK) {
        ls_check__forget_file();  // it may be the message's
    }
    return status;
}

static int agree_pairs(ls_mpi_group *group, int own_status) {
    size_t n = (size_t)group->call_count;
    message *own = ls_arena_alloc(group->arena, n, sizeof *own);
    message *others = ls_arena_alloc(group->arena, n, sizeof *others);
    if (own == NULL || others == NULL) {
        return LS_ERR_MEMORY;
    }
    for (int i = 0; i < group->call_count; i++) {
        const ls_call *call = &group->calls[i];
        if (call->kind == LS_SEND || call->kind == LS_RECV) {
            fill_message(&own[i], call, own_status);
            LS_TRY(exchange_message(group, call, &own[i], &others[i]));
        }
    }
    LS_TRY(ls_mpi__wait(group));
    for (int i = 0; i < group->call_count && own_status == LS_OK; i++) {
        const ls_call *call = &group->calls[i];
        if (call->kind != LS_SEND && call->kind != LS_RECV) {
            continue;
        }
        if (others[i].status != LS_OK) {
            return LS_FAIL_RANK((int)others[i].status, (int)others[i].rank,
                                "%s: rank %d's own checks of its calls failed", call->comm->name,
                                (int)others[i].rank);
        }
        LS_TRY(check_pair(call, &others[i]));
    }
    return own_status;
}

// ---- Running ------------------------------------------------------------------------------------
static bool peers_valid(const ls_call *calls, int call_count) {
    for (int i = 0; i < call_count; i++) {
        bool p2p = calls[i].kind == LS_SEND || calls[i].kind == LS_RECV;
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

static int run_group(ls_mpi_group *group) {
    int own_status = check_own(group->calls, group->call_count);
    if (own_status != LS_OK && !peers_valid(group->calls, group->call_count)) {
        return own_status;  // there is no peer to tell
    }
    ls_error own_error = *ls_error_last();
    ls_check_failure own_failure = *ls_check_last();
    int status = ls_mpi__agree(group, own_status);
    if (status == LS_OK || own_status != LS_OK) {
        int pairs = agree_pairs(group, own_status);
        status = status != LS_OK ? status : pairs;
    }
    if (own_status != LS_OK) {
        // Telling the others may have changed the error; this rank's own is the one that matters.
        ls_check__restore(&own_failure);
        return ls_error__set(own_error.file, own_error.line, own_error.code, own_error.rank, "%s",
                             own_error.text);
    }
    LS_TRY(status);
    return ls_mpi__move(group);
}

static int mpi_run(ls_backend *backend, ls_call *calls, int call_count) {
    (void)backend;
    ls_mpi_group group = {.calls = calls, .call_count = call_count};
    LS_TRY(ls_arena_create(&group.arena, NULL));
    // At most two requests a call are under way at once.
    group.request_room = 2 * call_count + 2;
    group.requests = ls_arena_alloc(group.arena, (size_t)group.request_room, sizeof(MPI_Request));
    group.statuses = ls_arena_alloc(group.arena, (size_t)group.request_room, sizeof(MPI_Status));
    group.any_counts = ls_arena_alloc(group.arena, (size_t)call_count, sizeof(bool));
    bool ready = group.requests != NULL && group.statuses != NULL && group.any_counts != NULL;
    int status = ready ? run_group(&group) : LS_ERR_MEMORY;
    if (status != LS_OK && group.request_count != 0) {
        // MPI may still use the arena's memory: it stays for the rest of the process, which has
        // lost its communicator anyway.
        return status;
    }
    ls_arena_free(group.arena);
    return status;
}

static double mpi_clock(ls_backend *backend) {
    (void)backend;
    return MPI_Wtime();
}

static void mpi_destroy(ls_backend *backend) {
    ls_free(NULL, backend->impl, 1, sizeof(mpi_backend));
}

static const ls_backend_ops mpi_ops = {
    .name = "mpi",
    .comm_open = mpi_comm_open,
    .comm_close = mpi_comm_close,
    .comm_split = mpi_comm_split,
    .run = mpi_run,
    .clock = mpi_clock,
    .destroy = mpi_destroy,
};

int ls_backend_mpi_create(ls_backend **out, ls_world *world) {
    LS_ASSERT(out != NULL && world != NULL);
    *out = NULL;
    int running = 0, rank = 0, size = 0;
    LS_MPI_TRY(MPI_Initialized(&running), "MPI_Initialized");
    if (!running) {
        return LS_FAIL(LS_ERR_BACKEND, "MPI is not running: call ls_mpi_init first");
    }
    LS_MPI_TRY(MPI_Comm_rank(MPI_COMM_WORLD, &rank), "MPI_Comm_rank");
    LS_MPI_TRY(MPI_Comm_size(MPI_COMM_WORLD, &size), "MPI_Comm_size");
    if (ls_world_size(world) != size || ls_world_held_count(world) != 1 ||
        ls_world_held(world)[0] != rank) {
        return LS_FAIL_RANK(
            LS_ERR_INVALID, rank,
            "under MPI a world has one rank per process and holds its own: the world "
            "has %d ranks and holds %d, MPI has %d processes",
            ls_world_size(world), ls_world_held_count(world), size);
    }
    void *memory = NULL;
    LS_TRY(ls_alloc(&memory, NULL, 1, sizeof(mpi_backend)));
    mpi_backend *made = memory;
    made->backend = (ls_backend){.ops = &mpi_ops, .world = world, .impl = made};
    *out = &made->backend;
    return LS_OK;
}
