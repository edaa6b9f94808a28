// Reductions: a left fold in rank order.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mpi/coll.h"

typedef struct input {
    const void *at;
    size_t count;
    const mpi_type *type;
} input;

static input input_of(const mpi_record *record) {
    bool placed = record->send.buf == MPI_IN_PLACE;
    const mpi_side *side = placed ? &record->recv : &record->send;
    size_t count = (size_t)side->count;
    if (side->counts != NULL) {
        count = 0;
        for (int m = 0; m < record->comm->size; m++) {
            count += (size_t)side->counts[m];
        }
    } else if (record->collective->out_blocks) {
        count *= (size_t)record->comm->size;
    }
    return (input){side->buf, count, side->type};
}

// Whether the members' inputs match; otherwise the state names the members at fault.
static bool alike(mpi_record *const *records, int first, int count) {
    mpi_move_state *state = &ls_mpi__move_state;
    const input model = input_of(records[first]);
    for (int m = first + 1; m < first + count; m++) {
        const input in = input_of(records[m]);
        const char *a, *b;
        if (!ls_mpi__signature_fits(in.count, in.type, model.count, model.type, &a, &b)) {
            state->id = LS_FINDING_DTYPE_MISMATCH;
            (void)snprintf(state->what, sizeof state->what, "member %d reduces %s, member %d %s", m,
                           a, first, b);
            state->keys[m] = 1;
        } else if (in.count * in.type->size != model.count * model.type->size) {
            state->id = LS_FINDING_COUNT_MISMATCH;
            (void)snprintf(state->what, sizeof state->what,
                           "member %d reduces %zu elements, member %d %zu", m, in.count, first,
                           model.count);
            state->keys[m] = 1;
        }
    }
    return state->what[0] == 0;
}

// Memory for count elements of a type, at the offsets that the type has.
typedef struct room {
    char *memory, *at;
    size_t bytes;
} room;

static room make_room(size_t count, const mpi_type *type) {
    ptrdiff_t low;
    size_t bytes;
    ls_mpi__span(&low, &bytes, count, type);
    char *memory = ls_mpi__alloc(bytes);
    return (room){memory, (char *)((intptr_t)memory - low), bytes};
}

// accumulator = accumulator op next.
static void step(const mpi_op *op, const mpi_type *type, room *accumulator, const void *next,
                 size_t count) {
    if (op->constant != NULL) {  // bit for bit commutative
        ls_mpi__reduce(op, type, next, accumulator->at, count);
        return;
    }
    room result = make_room(count, type);
    ls_mpi__copy(result.at, count, type, next, count, type);
    ls_mpi__reduce(op, type, accumulator->at, result.at, count);
    free(accumulator->memory);
    *accumulator = result;
}

static room fold(mpi_record *const *records, int first, int count) {
    const input start = input_of(records[first]);
    room accumulator = make_room(start.count, start.type);
    ls_mpi__copy(accumulator.at, start.count, start.type, start.at, start.count, start.type);
    for (int m = first + 1; m < first + count; m++) {
        const input in = input_of(records[m]);
        step(records[m]->op, start.type, &accumulator, in.at, in.count);
    }
    return accumulator;
}

static void put(const mpi_record *to, const void *from, size_t count, const mpi_type *type) {
    if (to->recv.buf != NULL) {
        ls_mpi__copy((void *)(uintptr_t)to->recv.buf, count, to->recv.type, from, count, type);
    }
}

static int move_reduce(mpi_record *const *records, int size) {
    int root = -1;
    for (int m = 0; m < size && root < 0; m++) {
        bool is = records[m]->comm->inter ? records[m]->root == MPI_ROOT : records[m]->root == m;
        root = is ? m : -1;
    }
    if (root < 0) {
        return LS_OK;
    }
    const mpi_comm *comm = records[root]->comm;
    int first = comm->inter ? comm->remote_first : 0;
    int count = comm->inter ? comm->remote_size : size;
    if (!alike(records, first, count)) {
        return LS_OK;
    }
    room result = fold(records, first, count);
    const input model = input_of(records[first]);
    put(records[root], result.at, model.count, model.type);
    free(result.memory);
    return LS_OK;
}

static int move_allreduce(mpi_record *const *records, int size) {
    if (!alike(records, 0, size)) {
        return LS_OK;
    }
    for (int m = 0; m < size;) {  // once for each group that gets a result
        const mpi_comm *comm = records[m]->comm;
        int from = comm->inter ? comm->remote_first : 0;
        int count = comm->inter ? comm->remote_size : size;
        room result = fold(records, from, count);
        const input model = input_of(records[from]);
        if (comm->inter) {  // the other group's inputs must not be overwritten before
            int end = m + comm->size;
            for (; m < end; m++) {
                put(records[m], result.at, model.count, model.type);
            }
        } else {
            for (; m < size; m++) {
                put(records[m], result.at, model.count, model.type);
            }
        }
        free(result.memory);
    }
    return LS_OK;
}

// Whether the members of a group give each of them the same part of the result.
static bool parts_alike(mpi_record *const *records, int first, int count) {
    mpi_move_state *state = &ls_mpi__move_state;
    const mpi_side *model = &records[first]->recv;
    for (int m = first; m < first + count && model->counts != NULL; m++) {
        const mpi_side *side = &records[m]->recv;
        for (int i = 0; i < count && state->keys[m] == 0; i++) {
            size_t bytes = (size_t)side->counts[i] * side->type->size;
            if (bytes != (size_t)model->counts[i] * model->type->size) {
                state->id = LS_FINDING_COUNT_MISMATCH;
                (void)snprintf(state->what, sizeof state->what,
                               "member %d gives %d elements to member %d, member %d %d", m,
                               side->counts[i], i, first, model->counts[i]);
                state->keys[m] = 1;
            }
        }
    }
    return state->what[0] == 0;
}

static int move_reduce_scatter(mpi_record *const *records, int size) {
    if (!alike(records, 0, size)) {
        return LS_OK;
    }
    bool inter = records[0]->comm->inter;
    const mpi_comm *comm = records[0]->comm;
    int sizes[2] = {inter ? comm->size : size, inter ? comm->remote_size : 0};
    int firsts[2] = {inter ? comm->first : 0, inter ? comm->remote_first : 0};
    for (int g = 0; g < (inter ? 2 : 1); g++) {
        if (!parts_alike(records, firsts[g], sizes[g])) {
            return LS_OK;
        }
        int source = inter ? 1 - g : 0;
        room result = fold(records, firsts[source], sizes[source]);
        const mpi_type *type = input_of(records[firsts[source]]).type;
        ptrdiff_t offset = 0;
        for (int m = firsts[g]; m < firsts[g] + sizes[g]; m++) {
            const mpi_side *side = &records[m]->recv;
            size_t n = (size_t)(side->counts != NULL ? side->counts[m - firsts[g]] : side->count);
            put(records[m], result.at + offset * type->extent, n, type);
            offset += (ptrdiff_t)n;
        }
        free(result.memory);
    }
    return LS_OK;
}

static int prefix(mpi_record *const *records, int size, bool own) {
    if (!alike(records, 0, size)) {
        return LS_OK;
    }
    room accumulator = fold(records, 0, 1);
    const input model = input_of(records[0]);
    if (own) {
        put(records[0], accumulator.at, model.count, model.type);
    }
    for (int m = 1; m < size; m++) {
        const input in = input_of(records[m]);
        room next = make_room(in.count, model.type);  // its own result may overwrite it
        ls_mpi__copy(next.at, in.count, model.type, in.at, in.count, in.type);
        if (!own) {
            put(records[m], accumulator.at, model.count, model.type);
        }
        step(records[m]->op, model.type, &accumulator, next.at, in.count);
        if (own) {
            put(records[m], accumulator.at, model.count, model.type);
        }
        free(next.memory);
    }
    free(accumulator.memory);
    return LS_OK;
}

static int move_scan(mpi_record *const *records, int size) {
    return prefix(records, size, true);
}

static int move_exscan(mpi_record *const *records, int size) {
    return prefix(records, size, false);
}

#define KIND(own, mpi_name, ...)                                                                   \
    const mpi_collective own = {.name = mpi_name, .reduces = true, .two_sided = true, __VA_ARGS__}
KIND(ls_mpi__collective_reduce, "MPI_Reduce", .rooted = true, .move = move_reduce,
     .sync = MPI_SYNC_TO_ROOT);
KIND(ls_mpi__allreduce, "MPI_Allreduce", .move = move_allreduce);
KIND(ls_mpi__reduce_scatter, "MPI_Reduce_scatter", .move = move_reduce_scatter);
KIND(ls_mpi__reduce_scatter_block, "MPI_Reduce_scatter_block", .move = move_reduce_scatter,
     .out_blocks = true);
KIND(ls_mpi__scan, "MPI_Scan", .move = move_scan, .sync = MPI_SYNC_PREFIX);
KIND(ls_mpi__exscan, "MPI_Exscan", .move = move_exscan, .sync = MPI_SYNC_PREFIX);
