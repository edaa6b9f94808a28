// Calls that access the memory of other ranks.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mpi/rma.h"

#define OP_CAS (-1)

typedef struct rma_call {
    const void *origin;
    int count;
    MPI_Datatype type;
    void *result;  // of get_accumulate
    int result_count;
    MPI_Datatype result_type;
    int target;
    MPI_Aint disp;
    int target_count;
    MPI_Datatype target_type;
    MPI_Op op;
    MPI_Win win;
    const void *compare;
    bool one;  // element, of a constant type
    enum { PUT, GET, ACCUMULATE, GET_ACCUMULATE, COMPARE_AND_SWAP } how;
} rma_call;

typedef struct rma_read {
    mpi_win *win;
    mpi_type *type, *result_type, *target_type;
    mpi_op *op;
    char *at;  // where the target's data is
} rma_read;

static bool in_epoch(const mpi_win *win, int target) {
    if (win->fence_open || win->all_locked || win->locks_held[target] != 0) {
        return true;
    }
    return win->started != NULL && ls_mpi__group_rank(win->started, target) >= 0;
}

static int check_range(mpi_where at, const rma_call *c, const rma_read *r, mpi_win *target) {
    ptrdiff_t low;
    size_t bytes;
    ls_mpi__span(&low, &bytes, (size_t)c->target_count, r->target_type);
    if (bytes == 0) {
        return MPI_SUCCESS;
    }
    const char *from = r->at + low, *to = from + bytes;
    if (target->flavor == MPI_WIN_FLAVOR_DYNAMIC) {
        // One call may reach adjacent attached regions.
        const mpi_interval *part = NULL;
        while ((part = ls_mpi__interval_search(&target->attached, from, from + 1, NULL)) != NULL) {
            from = part->high;
            if (from >= to) {
                return MPI_SUCCESS;
            }
        }
    } else if (from >= target->base && to <= target->base + target->size) {
        return MPI_SUCCESS;
    }
    return ls_mpi__win_error(at.me, r->win, MPI_ERR_RMA_RANGE, at.function,
                             "%zu bytes at displacement %ld are not in the window of rank %d, "
                             "which has %ld bytes",
                             bytes, (long)c->disp, c->target, (long)target->size);
}

static int read_types(rma_read *out, mpi_where at, const rma_call *c) {
    mpi_comm *comm = out->win->comm;
    bool sends = c->how != GET && c->op != MPI_NO_OP;
    MPI_TRY(ls_mpi__count_arg(at, comm, "the target's count", c->target_count));
    MPI_TRY(ls_mpi__type_arg(&out->target_type, at, comm, c->target_type, true));
    MPI_TRY(ls_mpi__reach_arg(at, comm, NULL, (size_t)c->target_count, out->target_type));
    MPI_TRY(ls_mpi__count_arg(at, comm, "the count", c->count));
    if (sends || c->how == GET) {
        MPI_TRY(ls_mpi__type_arg(&out->type, at, comm, c->type, true));
        MPI_TRY(ls_mpi__buffer_arg(at, comm, c->origin, c->count, out->type));
    }
    if (c->result_type != 0) {
        MPI_TRY(ls_mpi__count_arg(at, comm, "the result's count", c->result_count));
        MPI_TRY(ls_mpi__type_arg(&out->result_type, at, comm, c->result_type, true));
        MPI_TRY(ls_mpi__buffer_arg(at, comm, c->result, c->result_count, out->result_type));
    }
    const mpi_type *own = out->type != NULL ? out->type : out->result_type;
    int own_count = out->type != NULL ? c->count : c->result_count;
    const char *a, *b;
    size_t here = own->size * (size_t)own_count;
    size_t there = out->target_type->size * (size_t)c->target_count;
    if (!ls_mpi__signature_fits((size_t)own_count, own, (size_t)c->target_count, out->target_type,
                                &a, &b)) {
        return ls_mpi__win_error(at.me, out->win, MPI_ERR_TYPE, at.function,
                                 "the origin has type %s, the target has type %s", a, b);
    }
    if (here != there) {
        return ls_mpi__win_error(at.me, out->win, MPI_ERR_COUNT, at.function,
                                 "the origin has %zu bytes, the target %zu", here, there);
    }
    const mpi_place written[] = {
        {NULL, (size_t)c->count, c->how == GET ? out->type : NULL},
        {NULL, (size_t)c->result_count, out->result_type},
        {NULL, (size_t)c->target_count, sends ? out->target_type : NULL},
    };
    for (size_t i = 0; i < sizeof written / sizeof written[0]; i++) {
        if (written[i].type != NULL && ls_mpi__places_overlap(&written[i], 1)) {
            return ls_mpi__win_error(at.me, out->win, MPI_ERR_TYPE, at.function,
                                     "entries of the datatype overlap, so it cannot be a target");
        }
    }
    return MPI_SUCCESS;
}

// The basic type of all elements of an accumulate.
static const mpi_type *unit_of(const mpi_type *type) {
    return type->unit != NULL || type->segment_count == 0 ? type->unit
                                                          : ls_mpi__basic(type->segments[0].basic);
}

// Integers, logicals and bytes (MPI 3.1, 11.3.4), and characters, as other implementations allow.
static bool is_swapped(const mpi_type *type) {
    switch (type->unit != NULL ? type->unit->handle : MPI_DATATYPE_NULL) {
    case MPI_FLOAT:
    case MPI_DOUBLE:
    case MPI_LONG_DOUBLE:
    case MPI_C_FLOAT_COMPLEX:
    case MPI_C_DOUBLE_COMPLEX:
    case MPI_C_LONG_DOUBLE_COMPLEX:
        return false;
    default:
        return type->segment_count == 1;  // not a pair type
    }
}

static int read_call(rma_read *out, mpi_where at, const rma_call *c) {
    MPI_TRY(ls_mpi__win_arg(&out->win, at, c->win));
    mpi_win *win = out->win;
    if (c->target != MPI_PROC_NULL && (c->target < 0 || c->target >= win->comm->size)) {
        return ls_mpi__win_error(at.me, win, MPI_ERR_RANK, at.function, "rank %d is not in [0, %d)",
                                 c->target, win->comm->size);
    }
    if (c->how == ACCUMULATE && c->op == MPI_NO_OP) {
        return ls_mpi__win_error(at.me, win, MPI_ERR_OP, at.function,
                                 "only accumulates that fetch accept MPI_NO_OP");
    }
    MPI_TRY(read_types(out, at, c));
    bool swapped = c->how != COMPARE_AND_SWAP || is_swapped(out->target_type);
    if (c->one && (out->target_type->constant == NULL || !swapped)) {
        return ls_mpi__win_error(at.me, win, MPI_ERR_TYPE, at.function, "the datatype is %s",
                                 ls_mpi__type_name(out->target_type));
    }
    if (c->how == ACCUMULATE || c->how == GET_ACCUMULATE) {
        MPI_TRY(ls_mpi__op_arg(&out->op, at, win->comm, c->op, unit_of(out->target_type)));
        if (out->op->constant == NULL) {
            return ls_mpi__win_error(at.me, win, MPI_ERR_OP, at.function,
                                     "user-defined operations are not allowed here");
        }
    }
    if (c->target == MPI_PROC_NULL) {
        return MPI_SUCCESS;
    }
    mpi_win *target = win->shared->members[c->target];
    bool dynamic = win->flavor == MPI_WIN_FLAVOR_DYNAMIC;
    ptrdiff_t offset;
    if ((c->disp < 0 && !dynamic) ||
        !ls_mpi__fits(&offset, 0, c->disp, dynamic ? 1 : target->disp_unit)) {
        return ls_mpi__win_error(at.me, win, MPI_ERR_DISP, at.function, "displacement %ld",
                                 (long)c->disp);
    }
    if (!in_epoch(win, c->target)) {
        return ls_mpi__win_error(at.me, win, MPI_ERR_RMA_SYNC, at.function,
                                 "no epoch is open in which rank %d can be reached", c->target);
    }
    out->at = (char *)((dynamic ? 0 : (intptr_t)target->base) + offset);
    return check_range(at, c, out, target);
}

// ---- Data ---------------------------------------------------------------------------------------
// target = origin op target, element by element.
static void accumulate(const rma_call *c, const rma_read *r) {
    size_t bytes = (size_t)c->target_count * r->target_type->size;
    if (c->op == MPI_NO_OP || bytes == 0) {
        return;
    }
    const mpi_type *of = unit_of(r->target_type);
    size_t n = bytes / of->size, room = n * (size_t)of->extent;
    char *in = ls_mpi__alloc(room), *out = ls_mpi__alloc(room);
    ls_mpi__copy(in, n, of, c->origin, (size_t)c->count, r->type);
    ls_mpi__copy(out, n, of, r->at, (size_t)c->target_count, r->target_type);
    ls_mpi__reduce(r->op, of, in, out, n);
    ls_mpi__copy(r->at, (size_t)c->target_count, r->target_type, out, n, of);
    free(in);
    free(out);
}

static void move(const rma_call *c, const rma_read *r) {
    size_t count = (size_t)c->count, there = (size_t)c->target_count;
    switch (c->how) {
    case PUT:
        ls_mpi__copy(r->at, there, r->target_type, c->origin, count, r->type);
        break;
    case GET:
        ls_mpi__copy((void *)(uintptr_t)c->origin, count, r->type, r->at, there, r->target_type);
        break;
    case GET_ACCUMULATE:
        ls_mpi__copy(c->result, (size_t)c->result_count, r->result_type, r->at, there,
                     r->target_type);
        accumulate(c, r);
        break;
    case ACCUMULATE:
        accumulate(c, r);
        break;
    case COMPARE_AND_SWAP:
        memcpy(c->result, r->at, r->target_type->size);
        if (memcmp(r->at, c->compare, r->target_type->size) == 0) {
            memcpy(r->at, c->origin, r->target_type->size);
        }
        break;
    }
}

// The call owns the origin's buffers until its epoch ends or its request completes.
static void own(mpi_where at, const rma_call *c, const rma_read *r, bool requested,
                mpi_owned *out[2]) {
    bool writes = c->how == GET;
    const mpi_place origin = {c->origin, (size_t)c->count, r->type};
    if (r->type != NULL &&
        (writes || requested || !ls_mpi__owned_in_epoch(at.me, r->win, c->target, &origin))) {
        out[0] = ls_mpi__own(at.me, c->origin, (size_t)c->count, r->type, writes, at.function);
    }
    if (r->result_type != NULL) {
        out[1] = ls_mpi__own(at.me, c->result, (size_t)c->result_count, r->result_type, true,
                             at.function);
    }
}

static int make_call(mpi_where at, const rma_call *c, MPI_Request *handle) {
    rma_read r = {0};
    mpi_owned *owned[2] = {NULL, NULL};
    mpi_access *access = NULL;
    MPI_TRY(read_call(&r, at, c));
    if (handle != NULL && r.win->lock_count == 0 && !r.win->all_locked &&
        c->target != MPI_PROC_NULL) {
        return ls_mpi__win_error(at.me, r.win, MPI_ERR_RMA_SYNC, at.function,
                                 "requests are allowed only in epochs of locks");
    }
    if (c->target != MPI_PROC_NULL) {
        own(at, c, &r, handle != NULL, owned);
        r.win->ops_in_fence = r.win->ops_in_fence || r.win->fence_open;
        if (r.win->fence_before_lock && handle == NULL) {  // requests are never of a fence epoch
            r.win->ops_in_lock = ls_mpi__clock_others(at.me);
        }
        int op = c->how == COMPARE_AND_SWAP ? OP_CAS : c->op;
        if (c->how == PUT || c->how == GET) {
            op = MPI_OP_NULL;
        }
        const mpi_access how = {.writes = c->how != GET && c->op != MPI_NO_OP,
                                .atomic = op != MPI_OP_NULL,
                                .op = op,
                                .fetches = c->how != PUT && c->how != ACCUMULATE,
                                .function = at.function};
        if (how.atomic) {
            ls_mpi__observe();
        }
        access = ls_mpi__race_remote(
            r.win, c->target, &(mpi_place){r.at, (size_t)c->target_count, r.target_type}, &how);
        ls_schedule__enter(at.me->rank);
        move(c, &r);
        ls_mpi__state.run->completed += 1;
        ls_schedule__leave(at.me->rank);
    }
    for (int i = 0; i < 2; i++) {
        ls_mpi__own_in_epoch(owned[i], r.win, c->target);
    }
    if (handle != NULL) {
        mpi_request *made = ls_mpi__request_make(at.me, MPI_REQUEST_RMA, at.function);
        made->record.function = at.function;
        made->comm = r.win->comm;
        made->active = true;
        for (int i = 0; i < 2; i++) {
            made->owned[i] = owned[i];
            if (owned[i] != NULL) {
                owned[i]->holder = &made->owned[i];
            }
        }
        ls_mpi__race_requested(access, made);
        *handle = made->handle;
    }
    return ls_mpi__leave(at.me, LS_OK);
}

// ---- The functions ------------------------------------------------------------------------------
#define SIDES                                                                                      \
    .origin = origin, .count = count, .type = type, .target = target, .disp = disp,                \
    .target_count = target_count, .target_type = target_type, .win = win
#define P_SIDES(C)                                                                                 \
    C void *origin, int count, MPI_Datatype type, int target, MPI_Aint disp, int target_count,     \
        MPI_Datatype target_type
#define BOTH(name, rname, parameters, rparameters, ...)                                            \
    int name parameters {                                                                          \
        MPI_ENTER_AT(at);                                                                          \
        const rma_call call = {__VA_ARGS__};                                                       \
        return make_call(at, &call, NULL);                                                         \
    }                                                                                              \
    int rname rparameters {                                                                        \
        MPI_ENTER_AT(at);                                                                          \
        const rma_call call = {__VA_ARGS__};                                                       \
        return make_call(at, &call, request);                                                      \
    }
#define LIST(...) (__VA_ARGS__)

BOTH(MPI_Put, MPI_Rput, LIST(P_SIDES(const), MPI_Win win),
     LIST(P_SIDES(const), MPI_Win win, MPI_Request *request), SIDES, .how = PUT)
BOTH(MPI_Get, MPI_Rget, LIST(P_SIDES(), MPI_Win win),
     LIST(P_SIDES(), MPI_Win win, MPI_Request *request), SIDES, .how = GET)
BOTH(MPI_Accumulate, MPI_Raccumulate, LIST(P_SIDES(const), MPI_Op op, MPI_Win win),
     LIST(P_SIDES(const), MPI_Op op, MPI_Win win, MPI_Request *request), SIDES, .op = op,
     .how = ACCUMULATE)
#define P_GET_ACCUMULATE                                                                           \
    const void *origin, int count, MPI_Datatype type, void *result, int result_count,              \
        MPI_Datatype result_type, int target, MPI_Aint disp, int target_count,                     \
        MPI_Datatype target_type, MPI_Op op, MPI_Win win
#define A_RESULT .result = result, .result_count = result_count, .result_type = result_type
BOTH(MPI_Get_accumulate, MPI_Rget_accumulate, LIST(P_GET_ACCUMULATE),
     LIST(P_GET_ACCUMULATE, MPI_Request *request), SIDES, A_RESULT, .op = op, .how = GET_ACCUMULATE)

#define ONE_EACH                                                                                   \
    .origin = origin, .count = 1, .type = type, .result = result, .result_count = 1,               \
    .result_type = type, .target = target, .disp = disp, .target_count = 1, .target_type = type,   \
    .win = win, .one = true

int MPI_Fetch_and_op(const void *origin, void *result, MPI_Datatype type, int target, MPI_Aint disp,
                     MPI_Op op, MPI_Win win) {
    MPI_ENTER_AT(at);
    const rma_call call = {ONE_EACH, .op = op, .how = GET_ACCUMULATE};
    return make_call(at, &call, NULL);
}

int MPI_Compare_and_swap(const void *origin, const void *compare, void *result, MPI_Datatype type,
                         int target, MPI_Aint disp, MPI_Win win) {
    MPI_ENTER_AT(at);
    const rma_call call = {ONE_EACH, .op = MPI_REPLACE, .compare = compare,
                           .how = COMPARE_AND_SWAP};
    return make_call(at, &call, NULL);
}

// ---- Queries of windows -------------------------------------------------------------------------
#define ASK(name, parameters, statement)                                                           \
    int name parameters {                                                                          \
        MPI_ENTER_AT(at);                                                                          \
        mpi_win *of;                                                                               \
        MPI_TRY(ls_mpi__win_arg(&of, at, win));                                                    \
        statement;                                                                                 \
        return MPI_SUCCESS;                                                                        \
    }

ASK(MPI_Win_get_group, (MPI_Win win, MPI_Group *group),
    *group = ls_mpi__group_handle(at.me, ls_mpi__group_of(of->comm, false));
    ls_mpi__handle_slot(at.me, *group)->function = __func__)
ASK(MPI_Win_set_name, (MPI_Win win, const char *name),
    (void)snprintf(of->name, sizeof of->name, "%s", name))
ASK(MPI_Win_get_name, (MPI_Win win, char *name, int *length),
    *length = snprintf(name, MPI_MAX_OBJECT_NAME, "%s", of->name))
ASK(MPI_Win_set_info, (MPI_Win win, MPI_Info info), (void)info)
ASK(MPI_Win_get_info, (MPI_Win win, MPI_Info *info), MPI_TRY(MPI_Info_create(info)))
ASK(MPI_Win_call_errhandler, (MPI_Win win, int code),
    (void)ls_mpi__win_error(at.me, of, code, __func__, "the program calls it"))
ASK(MPI_Win_delete_attr, (MPI_Win win, int keyval),
    MPI_TRY(ls_mpi__attribute_remove(at, MPI_KIND_WIN, win, &of->attributes, keyval)))
ASK(MPI_Win_set_attr, (MPI_Win win, int keyval, void *value),
    MPI_TRY(ls_mpi__attribute_set(at, MPI_KIND_WIN, win, &of->attributes, keyval, value)))

int MPI_Win_get_attr(MPI_Win win, int keyval, void *value, int *flag) {
    MPI_ENTER_AT(at);
    mpi_win *of;
    static int model = MPI_WIN_UNIFIED;
    MPI_TRY(ls_mpi__win_arg(&of, at, win));
    void *own = NULL;
    switch (keyval) {
    case MPI_WIN_BASE:
        own = of->base;
        break;
    case MPI_WIN_SIZE:
        own = &of->size;
        break;
    case MPI_WIN_DISP_UNIT:
        own = &of->disp_unit;
        break;
    case MPI_WIN_CREATE_FLAVOR:
        own = &of->flavor;
        break;
    case MPI_WIN_MODEL:
        own = &model;
        break;
    default:
        return ls_mpi__attribute_get(at, MPI_KIND_WIN, &of->attributes, keyval, value, flag);
    }
    memcpy(value, &own, sizeof own);
    *flag = 1;
    return MPI_SUCCESS;
}
