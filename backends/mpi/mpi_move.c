// Moving: each call becomes a nonblocking MPI operation; the group completes when all have.
#include <limits.h>
#include <string.h>

#include "backends/mpi/mpi_internal.h"
#include "kernels/kernels.h"

// The work that remains for a call's result after MPI's part.
typedef struct ls_mpi_end {
    void *from;    // copied to the call's recv where it is another buffer; NULL: nothing to copy
    int divisor;   // of the result; 0: none
    bool neutral;  // no member's input goes into it
} finish;

typedef struct move {
    const ls_call *call;
    ls_mpi_group *group;
    bool uneven;
    bool in_place;
    int count;  // elements, as MPI counts
    int size, member;
    bool is_root;
    MPI_Datatype type;
    MPI_Comm comm;
    MPI_Request *request;
    finish *finish;
} move;

static int fail_large(const ls_call *call) {
    char text[256];
    ls_call_format(text, sizeof text, call);
    return LS_FAIL_RANK(LS_ERR_LIMIT, call->rank,
                        "%s: MPI counts elements in an int; a message of more than %d is not "
                        "supported",
                        text, INT_MAX);
}

// counts and displacements as ints, alive until the group is complete.
static int int_counts(int **counts, int **displacements, const move *m, const size_t *from) {
    size_t size = (size_t)m->size, at = 0;
    *counts = ls_arena_alloc(m->group->arena, size, sizeof(int));
    *displacements = ls_arena_alloc(m->group->arena, size, sizeof(int));
    LS_TRY_MEMORY(*counts != NULL && *displacements != NULL);
    for (size_t i = 0; i < size; i++) {
        size_t count = from != NULL ? from[i] : m->call->count;
        if (count > INT_MAX || at > INT_MAX) {
            return fail_large(m->call);
        }
        (*counts)[i] = (int)count;
        (*displacements)[i] = (int)at;
        at += count;
    }
    return LS_OK;
}

static int new_buffer(void **out, const move *m, size_t elements) {
    *out = ls_arena_alloc(m->group->arena, elements, ls_dtype_bytes(m->call->dtype));
    return *out != NULL ? LS_OK : LS_ERR_MEMORY;
}

// The input of a reduction: premul_sum multiplies it first, into a separate buffer.
static int reduction_input(const void **out, const move *m, size_t elements) {
    *out = m->call->send;
    if (m->call->op == LS_PREMUL_SUM && elements != 0) {
        void *scaled = NULL;
        LS_TRY(new_buffer(&scaled, m, elements));
        ls_kernel_reduce(scaled, &m->call->send, 1, m->call->dtype, LS_PREMUL_SUM, &m->call->premul,
                         elements);
        *out = scaled;
    }
    return LS_OK;
}

// ---- One function per kind ----------------------------------------------------------------------
// A reduction whose result every member gets.
static int start_reduction(move *m,
                           int (*start)(const void *, void *, int, MPI_Datatype, MPI_Op, MPI_Comm,
                                        MPI_Request *),
                           const char *name) {
    const void *in = NULL;
    LS_TRY(reduction_input(&in, m, m->call->count));
    return ls_mpi__status(start(in == m->call->recv ? MPI_IN_PLACE : in, m->call->recv, m->count,
                                m->type, ls_mpi__op(m->call->op, m->call->dtype), m->comm,
                                m->request),
                          name);
}

static int start_all_reduce(move *m) {
    return start_reduction(m, MPI_Iallreduce, "MPI_Iallreduce");
}

static int start_scan(move *m) {
    return start_reduction(m, MPI_Iscan, "MPI_Iscan");
}

static int start_exscan(move *m) {
    return start_reduction(m, MPI_Iexscan, "MPI_Iexscan");
}

static int start_reduce(move *m) {
    const void *in = NULL;
    LS_TRY(reduction_input(&in, m, m->call->count));
    bool in_place = m->is_root && in == m->call->recv;
    return ls_mpi__status(MPI_Ireduce(in_place ? MPI_IN_PLACE : in,
                                      m->is_root ? m->call->recv : NULL, m->count, m->type,
                                      ls_mpi__op(m->call->op, m->call->dtype), m->call->root,
                                      m->comm, m->request),
                          "MPI_Ireduce");
}

static int start_broadcast(move *m) {
    if (m->is_root) {
        ls_block__copy(m->call->recv, m->call->send,
                       m->call->count * ls_dtype_bytes(m->call->dtype));
    }
    return ls_mpi__status(
        MPI_Ibcast(m->call->recv, m->count, m->type, m->call->root, m->comm, m->request),
        "MPI_Ibcast");
}

static int start_all_gather(move *m) {
    const void *in = m->in_place ? MPI_IN_PLACE : m->call->send;
    if (!m->uneven) {
        return ls_mpi__status(MPI_Iallgather(in, m->count, m->type, m->call->recv, m->count,
                                             m->type, m->comm, m->request),
                              "MPI_Iallgather");
    }
    int *counts = NULL, *displacements = NULL;
    LS_TRY(int_counts(&counts, &displacements, m, m->call->recv_counts));
    return ls_mpi__status(MPI_Iallgatherv(in, m->count, m->type, m->call->recv, counts,
                                          displacements, m->type, m->comm, m->request),
                          "MPI_Iallgatherv");
}

static int start_reduce_scatter(move *m) {
    size_t elements = 0;
    const void *in = NULL;
    void *out = m->call->recv;
    int *counts = NULL, *displacements = NULL;
    LS_TRY(ls_call_send_elements(&elements, m->call));
    LS_TRY(int_counts(&counts, &displacements, m, m->call->send_counts));
    LS_TRY(reduction_input(&in, m, elements));
    if (m->in_place) {
        // MPI's in-place form puts the result elsewhere than ours.
        LS_TRY(new_buffer(&out, m, m->call->count));
        m->finish->from = out;
    }
    MPI_Op op = ls_mpi__op(m->call->op, m->call->dtype);
    if (!m->uneven) {
        return ls_mpi__status(
            MPI_Ireduce_scatter_block(in, out, m->count, m->type, op, m->comm, m->request),
            "MPI_Ireduce_scatter_block");
    }
    return ls_mpi__status(MPI_Ireduce_scatter(in, out, counts, m->type, op, m->comm, m->request),
                          "MPI_Ireduce_scatter");
}

static int start_all_to_all(move *m) {
    int *send_counts = NULL, *send_at = NULL, *recv_counts = NULL, *recv_at = NULL;
    LS_TRY(int_counts(&send_counts, &send_at, m, m->call->send_counts));
    LS_TRY(int_counts(&recv_counts, &recv_at, m, m->call->recv_counts));
    if (!m->uneven) {
        return ls_mpi__status(MPI_Ialltoall(m->call->send, m->count, m->type, m->call->recv,
                                            m->count, m->type, m->comm, m->request),
                              "MPI_Ialltoall");
    }
    return ls_mpi__status(MPI_Ialltoallv(m->call->send, send_counts, send_at, m->type,
                                         m->call->recv, recv_counts, recv_at, m->type, m->comm,
                                         m->request),
                          "MPI_Ialltoallv");
}

static int start_gather(move *m) {
    const void *in = m->is_root && m->in_place ? MPI_IN_PLACE : m->call->send;
    if (!m->uneven) {
        return ls_mpi__status(MPI_Igather(in, m->count, m->type, m->call->recv, m->count, m->type,
                                          m->call->root, m->comm, m->request),
                              "MPI_Igather");
    }
    int *counts = NULL, *displacements = NULL;
    if (m->is_root) {
        LS_TRY(int_counts(&counts, &displacements, m, m->call->recv_counts));
    }
    return ls_mpi__status(MPI_Igatherv(in, m->count, m->type, m->call->recv, counts, displacements,
                                       m->type, m->call->root, m->comm, m->request),
                          "MPI_Igatherv");
}

static int start_scatter(move *m) {
    void *out = m->is_root && m->in_place ? MPI_IN_PLACE : m->call->recv;
    if (!m->uneven) {
        return ls_mpi__status(MPI_Iscatter(m->call->send, m->count, m->type, out, m->count, m->type,
                                           m->call->root, m->comm, m->request),
                              "MPI_Iscatter");
    }
    int *counts = NULL, *displacements = NULL;
    if (m->is_root) {
        LS_TRY(int_counts(&counts, &displacements, m, m->call->send_counts));
    }
    return ls_mpi__status(MPI_Iscatterv(m->call->send, counts, displacements, m->type, out,
                                        m->count, m->type, m->call->root, m->comm, m->request),
                          "MPI_Iscatterv");
}

#define DATA_TAG 2

static int start_send(move *m) {
    return ls_mpi__status(
        MPI_Isend(m->call->send, m->count, m->type, m->call->root, DATA_TAG, m->comm, m->request),
        "MPI_Isend");
}

static int start_recv(move *m) {
    return ls_mpi__status(
        MPI_Irecv(m->call->recv, m->count, m->type, m->call->root, DATA_TAG, m->comm, m->request),
        "MPI_Irecv");
}

static int start_barrier(move *m) {
    return ls_mpi__status(MPI_Ibarrier(m->comm, m->request), "MPI_Ibarrier");
}

// Each collective's start_NAME.
static int (*const starters[LS_KIND_COUNT])(move *m) = {
#define STARTER(name, text) [LS_##name] = start_##text,
    LS_KIND_MAP(STARTER)
#undef STARTER
};

static int start_call(ls_mpi_group *group, int index, finish *end) {
    const ls_call *call = &group->calls[index];
    ls_call_extent extent;
    LS_TRY(ls_call_check(&extent, call));
    move m = {.call = call, .group = group, .uneven = group->any_counts[index], .finish = end};
    m.in_place = extent.in_place;
    m.comm = ls_mpi__comm(call->comm);
    m.size = call->comm->size;
    m.member = ls_comm_member(call->comm, call->rank);
    m.is_root = m.member == call->root;
    if (call->kind != LS_BARRIER) {
        // With counts per member, a count beside them does not travel.
        bool unused = call->kind == LS_ALL_TO_ALL && m.uneven;
        if (call->count > INT_MAX && !unused) {
            return fail_large(call);
        }
        m.count = unused ? 0 : (int)call->count;
        m.type = ls_mpi__type(call->dtype);
    }
    const ls_collective *collective = ls_collective_of(call->kind);
    if (collective->reduces && (!collective->recv.root_only || m.is_root)) {
        int terms = ls_collective_term_count(collective, m.member, m.size);
        end->divisor = call->op == LS_AVG ? terms : 0;
        end->neutral = terms == 0 && call->count > 0;
    }
    LS_TRY(ls_mpi__request(&m.request, group));
    return starters[call->kind](&m);
}

int ls_mpi__move_begin(ls_mpi_group *group) {
    group->ends = ls_arena_alloc(group->arena, (size_t)group->call_count, sizeof *group->ends);
    LS_TRY_MEMORY(group->ends != NULL);
    for (int i = 0; i < group->call_count; i++) {
        if (start_call(group, i, &group->ends[i]) != LS_OK) {
            char text[256];
            ls_call_format(text, sizeof text, &group->calls[i]);
            return ls_error_wrap("%s", text);
        }
    }
    return LS_OK;
}

int ls_mpi__move_end(ls_mpi_group *group) {
    for (int i = 0; i < group->call_count; i++) {
        const ls_call *call = &group->calls[i];
        const finish *end = &group->ends[i];
        if (end->from != NULL) {
            ls_block__copy(call->recv, end->from, call->count * ls_dtype_bytes(call->dtype));
        }
        if (end->neutral) {
            uint64_t element = 0;
            ls_op_neutral(&element, call->op, call->dtype);
            ls_kernel_fill(call->recv, call->dtype, &element, call->count);
        }
        if (end->divisor != 0) {
            ls_mpi__divide(call->recv, call->dtype, end->divisor, call->count);
        }
    }
    return LS_OK;
}
