// FPRev's probes on a backend, and the trees that follow from the answers.
#include "backends/calibrate.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backends/calibrate_internal.h"
#include "kernels/kernels.h"
#include "formats/json.h"

static bool is_measured(int kind) {
    return ls_collective_of((ls_kind)kind)->order != LS_ORDER_NONE;
}
static bool to_all(ls_kind kind) {
    return ls_collective_of(kind)->replicates;
}
static bool to_root(ls_kind kind) {
    return ls_collective_of(kind)->recv.root_only;
}

size_t ls_calibrate__targets(const ls_calibrate_call *call, int size) {
    return to_all(call->kind) ? 1 : (size_t)size;
}

size_t ls_calibrate__inputs(const ls_calibrate_call *call, int size) {
    bool blocks = ls_collective_of(call->kind)->send.form == LS_SIDE_BLOCKS;
    return blocks ? call->count * (size_t)size : call->count;
}

// ---- Running one reduction ----------------------------------------------------------------------
static int run_once(char *out, ls_comm *comm, const ls_calibrate_call *call, ls_op op,
                    const char *in, int root, ls_call *calls, char *received) {
    size_t bytes = ls_dtype_bytes(call->dtype), sent = ls_calibrate__inputs(call, comm->size);
    for (int m = 0; m < comm->size; m++) {
        bool receives = !to_root(call->kind) || m == root;
        calls[m] = (ls_call){.kind = call->kind,
                             .comm = comm,
                             .rank = comm->ranks[m],
                             .dtype = call->dtype,
                             .op = op,
                             .premul = ls_calibrate__factor(m),
                             .root = root,
                             .count = call->count,
                             .send = in + (size_t)m * sent * bytes,
                             .recv = receives ? received + (size_t)m * call->count * bytes : NULL,
                             LS_HERE};
    }
    LS_TRY(ls_backend_run(comm->backend, calls, comm->size));
    size_t block = call->count * bytes;
    size_t first = to_root(call->kind) ? (size_t)root : 0;
    size_t results = to_all(call->kind) || to_root(call->kind) ? 1 : (size_t)comm->size;
    memcpy(out + first * block, received + first * block, results * block);
    return LS_OK;
}

int ls_calibrate__run(void *out, ls_comm *comm, const ls_calibrate_call *call, ls_op op,
                      const void *in) {
    size_t n = (size_t)comm->size, bytes = ls_dtype_bytes(call->dtype);
    void *calls = NULL, *received = NULL;
    LS_TRY(ls_alloc(&calls, n, sizeof(ls_call)));
    int status = ls_alloc(&received, n * call->count, bytes);
    int roots = to_root(call->kind) ? comm->size : 1;
    for (int root = 0; root < roots && status == LS_OK; root++) {
        status = run_once(out, comm, call, op, in, root, calls, received);
    }
    ls_free(received, n * call->count, bytes);
    ls_free(calls, n, sizeof(ls_call));
    return status;
}

// ---- Probes -------------------------------------------------------------------------------------
// So large that adding up to LS_CALIBRATE_RANKS_MAX units does not change it: in the type, nor in
// f32 where a kernel adds in that.
static double large_number(ls_dtype dtype) {
    switch (dtype) {
    case LS_F16:
        return 0x1p15;
    case LS_F64:
        return 0x1p80;
    default:
        return 0x1p60;
    }
}

static double unit_of(ls_dtype dtype) {
    return dtype == LS_F16 ? 0x1p-14 : 1.0;
}

// The probes of one call: sizes [pairs, targets, count] of the smallest subtree of each pair.
typedef struct probes {
    unsigned char *sizes;
    size_t pairs, cells;  // cells = targets * count
} probes;

static void fill(char *out, ls_dtype dtype, double value, size_t count) {
    uint64_t element = 0;
    ls_element_from_f64(&element, dtype, value);
    ls_kernel_fill(out, dtype, &element, count);
}

static int probe_pair(probes *p, size_t pair, ls_comm *comm, const ls_calibrate_call *call, int i,
                      int j, char *in, char *out) {
    size_t sent = ls_calibrate__inputs(call, comm->size), bytes = ls_dtype_bytes(call->dtype);
    for (int m = 0; m < comm->size; m++) {
        double value = m == i ? large_number(call->dtype) : unit_of(call->dtype);
        value = m == j ? -large_number(call->dtype) : value;
        fill(in + (size_t)m * sent * bytes, call->dtype, value, sent);
    }
    LS_TRY(ls_calibrate__run(out, comm, call, LS_SUM, in));
    for (size_t c = 0; c < p->cells; c++) {
        // The units that were added to M or -M before both cancelled are lost; the others remain.
        double left = ls_element_to_f64(out + c * bytes, call->dtype) / unit_of(call->dtype);
        if (!(left >= 0 && left <= comm->size - 2) || left != (double)(int)left) {
            return LS_FAIL(LS_ERR_FINDING,
                           "%s %s of %zu: M and -M of ranks %d and %d left %g: the backend has no "
                           "fixed order of summation",
                           ls_kind_name(call->kind), ls_dtype_name(call->dtype), call->count, i, j,
                           left);
        }
        p->sizes[pair * p->cells + c] = (unsigned char)(comm->size - (int)left);
    }
    return LS_OK;
}

static int probe_all(probes *p, ls_comm *comm, const ls_calibrate_call *call) {
    size_t n = (size_t)comm->size, bytes = ls_dtype_bytes(call->dtype);
    size_t sent = ls_calibrate__inputs(call, comm->size);
    void *in = NULL, *out = NULL;
    LS_TRY(ls_alloc(&in, n * sent, bytes));
    int status = ls_alloc(&out, p->cells, bytes);
    size_t pair = 0;
    for (int i = 0; i < comm->size; i++) {
        for (int j = i + 1; j < comm->size && status == LS_OK; j++) {
            status = probe_pair(p, pair++, comm, call, i, j, in, out);
        }
    }
    ls_free(out, p->cells, bytes);
    ls_free(in, n * sent, bytes);
    return status;
}

static void sizes_of(int *sizes, const probes *p, size_t cell, int size) {
    size_t pair = 0;
    for (int i = 0; i < size; i++) {
        sizes[i * size + i] = 1;
        for (int j = i + 1; j < size; j++, pair++) {
            sizes[i * size + j] = sizes[j * size + i] = p->sizes[pair * p->cells + cell];
        }
    }
}

static bool same_cell(const probes *p, size_t a, size_t b) {
    for (size_t pair = 0; pair < p->pairs; pair++) {
        if (p->sizes[pair * p->cells + a] != p->sizes[pair * p->cells + b]) {
            return false;
        }
    }
    return true;
}

static int add_class(ls_calibrate_call *call, const ls_calibrate_class *class_) {
    if (call->class_count == call->class_room) {
        int room = call->class_room != 0 ? 2 * call->class_room : 16;
        void *memory = NULL;
        LS_TRY(ls_alloc(&memory, (size_t)room, sizeof *call->classes));
        if (call->class_count != 0) {
            memcpy(memory, call->classes, (size_t)call->class_count * sizeof *call->classes);
        }
        ls_free(call->classes, (size_t)call->class_room, sizeof *call->classes);
        call->classes = memory;
        call->class_room = room;
    }
    call->classes[call->class_count++] = *class_;
    return LS_OK;
}

static int classes_of(ls_calibrate_call *call, const probes *p, int size) {
    int sizes[LS_CALIBRATE_RANKS_MAX * LS_CALIBRATE_RANKS_MAX];
    for (size_t target = 0; target < ls_calibrate__targets(call, size); target++) {
        size_t start = target * call->count;
        for (size_t first = 0; first < call->count;) {
            size_t end = first + 1;
            while (end < call->count && same_cell(p, start + first, start + end)) {
                end++;
            }
            ls_calibrate_class class_ = {
                .target = to_all(call->kind) ? -1 : (int)target, .first = first, .end = end};
            sizes_of(sizes, p, start + first, size);
            LS_TRY(ls_calibrate__tree(class_.tree, sizeof class_.tree, sizes, size));
            LS_TRY(add_class(call, &class_));
            first = end;
        }
    }
    return LS_OK;
}

static int measure(ls_calibrate_call *call, ls_comm *comm, const char *temporary_dir) {
    size_t n = (size_t)comm->size;
    probes p = {.pairs = n * (n - 1) / 2, .cells = ls_calibrate__targets(call, comm->size)};
    LS_TRY(ls_size_mul(&p.cells, p.cells, call->count));
    void *memory = NULL;
    size_t total = 0;
    LS_TRY(ls_size_mul(&total, p.pairs, p.cells));
    LS_TRY(ls_alloc(&memory, total, 1));
    p.sizes = memory;
    int status = probe_all(&p, comm, call);
    status = status == LS_OK ? classes_of(call, &p, comm->size) : status;
    ls_free(memory, total, 1);
    return status == LS_OK ? ls_calibrate__probe_rounding(call, comm, temporary_dir) : status;
}

// ---- All calls ----------------------------------------------------------------------------------
static int measure_and_write(bool *alike, ls_json *json, ls_comm *comm, ls_kind kind,
                             ls_dtype dtype, size_t count, const char *temporary_dir) {
    ls_calibrate_call call = {.kind = kind, .dtype = dtype, .count = count};
    int status = measure(&call, comm, temporary_dir);
    if (status == LS_OK) {
        // The blocks of reduce and reduce_scatter are folded alike whatever their size, unless the
        // channels' rings differ: then each count stands for itself.
        *alike = !to_all(kind) && call.class_count == comm->size;
        ls_calibrate__write(json, &call, !*alike);
    }
    ls_free(call.classes, (size_t)call.class_room, sizeof *call.classes);
    return status == LS_OK
               ? LS_OK
               : ls_error_wrap("%s of %zu %s", ls_kind_name(kind), count, ls_dtype_name(dtype));
}

// Integer sums are the same in any order: rank order, for every count.
static int write_integers(ls_json *json, int size) {
    for (int kind = 0; kind < LS_COLLECTIVE_COUNT; kind++) {
        for (int dtype = 0; dtype < LS_DTYPE_COUNT; dtype++) {
            if (!is_measured(kind) || ls_dtype_is_float((ls_dtype)dtype)) {
                continue;
            }
            ls_calibrate_class class_ = {.target = -1, .first = 0, .end = 0};
            size_t used = 0;
            for (int r = size - 1; r >= 0; r--) {
                used += (size_t)snprintf(class_.tree + used, sizeof class_.tree - used, "%s%d",
                                         r == size - 1 ? "" : "(", r);
            }
            for (int r = 1; r < size; r++) {
                used += (size_t)snprintf(class_.tree + used, sizeof class_.tree - used, ")");
            }
            ls_calibrate_call call = {.kind = (ls_kind)kind,
                                      .dtype = (ls_dtype)dtype,
                                      .classes = &class_,
                                      .class_count = 1};
            ls_calibrate__write(json, &call, false);
        }
    }
    return LS_OK;
}

int ls_calibrate_orders(ls_json *json, ls_comm *comm, const ls_calibrate_options *options,
                        const char *temporary_dir) {
    ls_kind kinds[LS_COLLECTIVE_COUNT];
    int kind_count = 0;
    for (int kind = 0; kind < LS_COLLECTIVE_COUNT; kind++) {
        if (is_measured(kind) && (kind == LS_ALL_REDUCE || !options->all_reduce_only)) {
            kinds[kind_count++] = (ls_kind)kind;
        }
    }
    if (comm->size < 2 || comm->size > LS_CALIBRATE_RANKS_MAX ||
        ls_world_held_count(comm->backend->world) != ls_world_size(comm->backend->world)) {
        return LS_FAIL(LS_ERR_UNSUPPORTED, "calibration needs 2 to %d ranks in one process",
                       LS_CALIBRATE_RANKS_MAX);
    }
    ls_json_member_array(json, "orders");
    int total = kind_count * options->dtype_count, done = 0;
    for (int k = 0; k < kind_count; k++) {
        for (int d = 0; d < options->dtype_count; d++, done++) {
            if (options->progress != NULL) {
                options->progress(ls_kind_name(kinds[k]), done, total);
            }
            bool alike = false;
            for (int c = options->count_count - 1; c >= 0 && !alike; c--) {
                LS_TRY(measure_and_write(&alike, json, comm, kinds[k], options->dtypes[d],
                                         options->counts[c], temporary_dir));
            }
        }
    }
    LS_TRY(write_integers(json, comm->size));
    ls_json_array_close(json);
    return LS_OK;
}
