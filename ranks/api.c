// The calls of ranks.h, one by one: what each puts into its record.
#include "ranks/internal.h"

int ls_post_at(const char *file, int line, const ls_call *call, ls_rank_comm *comm,
               ls_request **request) {
    LS_ASSERT(call != NULL);
    ls_request own = {.call = *call};
    if (ls_kind_is_ask(call->kind)) {
        return ls_findings__refuse(ls_schedule__current(), file, line,
                                   "%s is a function of its own", ls_kind_name(call->kind));
    }
    return ls_call__post(file, line, comm, &own, request);
}

int ls_call_at(const char *file, int line, ls_kind kind, const void *send, void *recv, size_t count,
               const size_t *send_counts, const size_t *recv_counts, ls_dtype dtype, ls_op op,
               int root, ls_rank_comm *comm, ls_request **request) {
    ls_request own = {.call = {.kind = kind,
                               .send = send,
                               .recv = recv,
                               .count = count,
                               .send_counts = send_counts,
                               .recv_counts = recv_counts,
                               .dtype = dtype,
                               .op = op,
                               .premul = 1.0,
                               .root = root}};
    return ls_call__post(file, line, comm, &own, request);
}

int ls_check_replica_at(const char *file, int line, const void *data, size_t count, ls_dtype dtype,
                        ls_rank_comm *comm) {
    ls_request own = {
        .call = {.kind = LS_CHECK_REPLICA, .send = data, .count = count, .dtype = dtype}};
    if (!ls_dtype_valid((int)dtype)) {
        return ls_findings__refuse(ls_schedule__current(), file, line,
                                   "check_replica: its dtype is unknown");
    }
    return ls_call__post(file, line, comm, &own, NULL);
}

// ---- Declared replicas -------------------------------------------------------------------------
int ls_check_replicas_at(const char *file, int line, ls_rank_comm *comm) {
    ls_request own = {.call = {.kind = LS_CHECK_REPLICAS}};
    return ls_call__post(file, line, comm, &own, NULL);
}

// The calling rank, where it may use the communicator.
static int own_comm(ls_rank **out, const ls_rank_comm *comm, const char *what, const char *file,
                    int line) {
    *out = ls_schedule__current();
    if (*out == NULL || comm == NULL || comm->rank != *out || comm->destroyed) {
        const char *why = "the communicator was destroyed";
        if (*out == NULL) {
            why = "a call outside of a program";
        } else if (comm == NULL) {
            why = "the rank is not a member of the communicator";
        } else if (comm->rank != *out) {
            why = "the communicator of another rank";
        }
        return ls_findings__refuse(*out, file, line, "%s: %s", what, why);
    }
    return LS_OK;
}

static int declare(ls_rank *rank, ls_rank_comm *comm, const void *data, size_t count,
                   ls_dtype dtype, const char *file, int line) {
    if (rank->run->status != LS_OK) {
        return ls_spmd__failed(rank->run, rank);
    }
    ls_request here = {.rank = rank,
                       .comm = comm,
                       .call = {.kind = LS_CHECK_REPLICA,
                                .comm = comm->shared->comm,
                                .rank = rank->id,
                                .send = data,
                                .count = count,
                                .dtype = dtype,
                                .file = file,
                                .line = line}};
    LS_TRY(ls_checks__arguments(&here));
    return ls_replica__declare(comm, &here.call);
}

int ls_replica_declare_at(const char *file, int line, const void *data, size_t count,
                          ls_dtype dtype, ls_rank_comm *comm) {
    ls_rank *rank = NULL;
    LS_TRY(own_comm(&rank, comm, "replica_declare", file, line));
    if (!ls_dtype_valid((int)dtype)) {
        return ls_findings__refuse(rank, file, line, "replica_declare: its dtype is unknown");
    }
    ls_schedule__enter(rank);
    int status = declare(rank, comm, data, count, dtype, file, line);
    ls_schedule__leave(rank);
    return status;
}

int ls_replica_forget_at(const char *file, int line, const void *data, ls_rank_comm *comm) {
    ls_rank *rank = NULL;
    LS_TRY(own_comm(&rank, comm, "replica_forget", file, line));
    ls_schedule__enter(rank);
    ls_replica__forget(comm, data);
    ls_schedule__leave(rank);
    return LS_OK;
}

// ---- Communicators -----------------------------------------------------------------------------
// Calls whose results are handles are not made in groups: NCCL does not mix them either.
static int refuse_in_group(const ls_rank_comm *comm, const char *file, int line) {
    if (comm != NULL && comm->rank->group_depth > 0) {
        return ls_findings__refuse(
            ls_schedule__current(), file, line,
            "communicators cannot be made inside of a group; this one was opened at %s:%d",
            comm->rank->group_file, comm->rank->group_line);
    }
    return LS_OK;
}

int ls_comm_split_at(const char *file, int line, ls_rank_comm **out, ls_rank_comm *comm, int color,
                     int key) {
    LS_ASSERT(out != NULL);
    *out = NULL;
    LS_TRY(refuse_in_group(comm, file, line));
    ls_request own = {.call = {.kind = LS_COMM_SPLIT}, .color = color, .key = key, .made_out = out};
    return ls_call__post(file, line, comm, &own, NULL);
}

// Every member is one of the communicator's, and none is named twice.
static int check_members(const ls_rank_comm *comm, const int *members, int size, const char *file,
                         int line) {
    int of = ls_comm_size(comm), status = LS_OK;
    void *memory = NULL;
    LS_TRY(ls_alloc(&memory, (size_t)of, sizeof(bool)));
    bool *named = memory;
    for (int i = 0; i < size && status == LS_OK; i++) {
        int member = members != NULL ? members[i] : -1;
        if (member < 0 || member >= of || named[member]) {
            bool outside = member < 0 || member >= of;
            status = ls_findings__refuse(
                ls_schedule__current(), file, line, "comm_subset: member %d is %s%s", member,
                outside ? "not in " : "named twice", outside ? comm->shared->comm->name : "");
            break;
        }
        named[member] = true;
    }
    ls_free(memory, (size_t)of, sizeof(bool));
    return status;
}

int ls_comm_subset_at(const char *file, int line, ls_rank_comm **out, ls_rank_comm *comm,
                      const int *members, int size) {
    LS_ASSERT(out != NULL);
    *out = NULL;
    LS_TRY(refuse_in_group(comm, file, line));
    LS_TRY(comm != NULL ? check_members(comm, members, size, file, line) : LS_OK);
    ls_request own = {.call = {.kind = LS_COMM_SUBSET},
                      .members = members,
                      .member_count = size < 0 ? 0 : size,
                      .made_out = out};
    return ls_call__post(file, line, comm, &own, NULL);
}

static int destroy(const char *file, int line, ls_rank *rank, ls_rank_comm *comm) {
    ls_spmd *run = rank->run;
    const ls_request here = {.rank = rank,
                             .call = {.kind = LS_COMM_DESTROY,
                                      .comm = comm->shared->comm,
                                      .rank = rank->id,
                                      .file = file,
                                      .line = line}};
    if (run->status != LS_OK) {
        return ls_spmd__failed(run, rank);
    }
    if (comm->destroyed) {
        return ls_findings__fatal_call(
            run, LS_FINDING_HANDLE_USE_AFTER_FREE, &here,
            "destroys a communicator that was already destroyed at %s:%d", comm->file, comm->line);
    }
    for (const ls_request *at = rank->open; at != NULL; at = at->next) {
        if (at->comm == comm && !at->detached) {
            char where[LS_CALL_WHERE_MAX];
            return ls_findings__fatal_call(run, LS_FINDING_HANDLE_USE_AFTER_FREE, &here,
                                           "destroys a communicator with a call in flight, made "
                                           "at %s and not waited for",
                                           ls_call__where(where, &at->call));
        }
    }
    comm->destroyed = true;
    comm->file = file;
    comm->line = line;
    if (run->direct) {
        ls_comm_close(comm->shared->comm);  // no other rank here holds it
    }
    return LS_OK;
}

int ls_comm_destroy_at(const char *file, int line, ls_rank_comm *comm) {
    ls_rank *rank = ls_schedule__current();
    if (comm == NULL) {
        return LS_OK;
    }
    if (rank == NULL || comm->rank != rank) {
        return ls_findings__refuse(rank, file, line,
                                   "comm_destroy: the communicator of another rank");
    }
    ls_schedule__enter(rank);
    const bool refused = comm->of_run && rank->run->status == LS_OK;
    int status = refused ? LS_OK : destroy(file, line, rank, comm);
    ls_schedule__leave(rank);
    return refused ? ls_findings__refuse(rank, file, line, "comm_destroy: %s belongs to the run",
                                         comm->shared->comm->name)
                   : status;
}
