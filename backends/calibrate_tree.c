// From the sizes of smallest common subtrees to the tree, its entry in a machine file, and how its
// steps round.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/random.h"
#include "backends/calibrate_internal.h"
#include "kernels/kernels.h"
#include "formats/json.h"

// ---- Trees --------------------------------------------------------------------------------------
typedef struct tree_text {
    char *out;
    size_t bytes, used;
    const int *sizes;
    int size;
} tree_text;

static void put(tree_text *t, const char *text) {
    size_t length = strlen(text);
    if (t->used + length < t->bytes) {
        memcpy(t->out + t->used, text, length + 1);
    }
    t->used += length;
}

// Splits members into the two sides of their last addition. A side is the set that joins its first
// member before all are joined.
static int split(int *left, int *left_count, int *right, int *right_count, const tree_text *t,
                 const int *members, int count) {
    *left_count = *right_count = 0;
    for (int i = 0; i < count; i++) {
        int met = t->sizes[members[0] * t->size + members[i]];
        if (i > 0 && met == count) {
            right[(*right_count)++] = members[i];
        } else if (met < count) {
            left[(*left_count)++] = members[i];
        } else {
            return LS_FAIL(LS_ERR_FINDING, "the probe results match no tree of %d ranks", t->size);
        }
    }
    if (*right_count == 0) {
        return LS_FAIL(LS_ERR_FINDING, "the probe results match no tree of %d ranks", t->size);
    }
    return LS_OK;
}

// "A(B)": a rank's own term is added to a sum. If both sides are sums, the second is another child
// of the first side's head.
static int write_tree(tree_text *t, const int *members, int count, bool open) {
    char number[16];
    if (count == 1) {
        (void)snprintf(number, sizeof number, "%d", members[0]);
        put(t, number);
        return LS_OK;
    }
    int left[LS_CALIBRATE_RANKS_MAX], right[LS_CALIBRATE_RANKS_MAX], lefts = 0, rights = 0;
    LS_TRY(split(left, &lefts, right, &rights, t, members, count));
    const int *own = rights == 1 ? right : left;
    if (lefts == 1) {
        own = left;
    }
    int owns = own == left ? lefts : rights;
    const int *rest = own == left ? right : left;
    int rests = own == left ? rights : lefts;
    if (owns == 1) {
        LS_TRY(write_tree(t, own, 1, false));
        put(t, "(");
    } else {
        LS_TRY(write_tree(t, own, owns, true));
        put(t, "+");
    }
    LS_TRY(write_tree(t, rest, rests, false));
    put(t, open ? "" : ")");
    return LS_OK;
}

int ls_calibrate__tree(char *out, size_t out_bytes, const int *sizes, int size) {
    int members[LS_CALIBRATE_RANKS_MAX];
    for (int i = 0; i < size; i++) {
        members[i] = i;
    }
    tree_text t = {out, out_bytes, 0, sizes, size};
    LS_TRY(write_tree(&t, members, size, false));
    return t.used < out_bytes ? LS_OK : LS_FAIL(LS_ERR_LIMIT, "a tree of %d ranks", size);
}

// ---- Entries ------------------------------------------------------------------------------------
void ls_calibrate__write(ls_json *json, const ls_calibrate_call *call, bool counted) {
    ls_json_object_open(json);
    ls_json_member_string(json, "collective", ls_kind_name(call->kind));
    ls_json_member_string(json, "dtype", ls_dtype_name(call->dtype));
    if (counted) {
        ls_json_member_uint(json, "count", call->count);
    }
    ls_json_member_given(json, "fma", call->fma);
    ls_json_member_given(json, "accumulator", call->accumulator);
    ls_json_member_array(json, "classes");
    for (int i = 0; i < call->class_count; i++) {
        const ls_calibrate_class *class_ = &call->classes[i];
        ls_json_object_open(json);
        ls_json_member_string(json, "tree", class_->tree);
        if (class_->target >= 0) {
            ls_json_member_int(json, "target", class_->target);
        }
        if (counted) {
            ls_json_member_array(json, "ranges");
            ls_json_array_open(json);
            ls_json_uint(json, class_->first);
            ls_json_uint(json, class_->end);
            ls_json_array_close(json);
            ls_json_array_close(json);
        }
        ls_json_object_close(json);
    }
    ls_json_array_close(json);
    ls_json_object_close(json);
}

// ---- Rounding -----------------------------------------------------------------------------------
static int write_candidate(const char *path, const ls_calibrate_call *call, int size) {
    ls_text text = {0};
    ls_json json;
    ls_json_begin(&json, &text, 1);
    ls_json_object_open(&json);
    ls_json_member_int(&json, "lockstep_order", 1);
    ls_json_member_int(&json, "ranks", size);
    ls_json_member_array(&json, "orders");
    ls_calibrate__write(&json, call, true);
    ls_json_array_close(&json);
    ls_json_object_close(&json);
    int status = text.failed ? LS_FAIL(LS_ERR_MEMORY, "calibration: a candidate's text") : LS_OK;
    FILE *file = status == LS_OK ? fopen(path, "w") : NULL;
    if (status == LS_OK && (file == NULL || fputs(ls_text_string(&text), file) < 0)) {
        status = LS_FAIL(LS_ERR_IO, "calibration: cannot write \"%s\"", path);
    }
    if (file != NULL && fclose(file) != 0 && status == LS_OK) {
        status = LS_FAIL(LS_ERR_IO, "calibration: cannot write \"%s\"", path);
    }
    ls_text_free(&text);
    return status;
}

// Results of numbers whose sums round: the backend's, and a candidate's.
typedef struct trial {
    ls_calibrate_call *call;
    ls_comm *comm;
    ls_op op;
    double *premul;  // [size] for premul_sum
    char *in;        // [size, input elements]
    char *actual;    // [targets, count]
    char *folded;    // [2, targets, count] of the trees as they are, and with pairs turned round
    size_t cells;
    const char *path;
} trial;

static int fold_candidate(char *out, const trial *t) {
    char text[1200];
    (void)snprintf(text, sizeof text, "measured:%s", t->path);
    LS_TRY(write_candidate(t->path, t->call, t->comm->size));
    ls_order *order = NULL;
    LS_TRY(ls_order_parse(&order, text));
    const ls_calibrate_call *call = t->call;
    int status = LS_OK, size = t->comm->size;
    size_t bytes = ls_dtype_bytes(call->dtype), sent = ls_calibrate__inputs(call, size);
    for (size_t target = 0; target < ls_calibrate__targets(call, size) && status == LS_OK;
         target++) {
        const void *at[LS_CALIBRATE_RANKS_MAX];
        size_t skip = sent > call->count ? target * call->count : 0;  // a block for each target
        for (int m = 0; m < size; m++) {
            at[m] = t->in + ((size_t)m * sent + skip) * bytes;
        }
        const ls_reduction reduction = {.in = at,
                                        .in_count = size,
                                        .dtype = call->dtype,
                                        .op = t->op,
                                        .premul = t->op == LS_PREMUL_SUM ? t->premul : NULL,
                                        .count = call->count};
        char *to = out + target * call->count * bytes;
        status = ls_order_reduce(order, ls_collective_of(call->kind)->order, to, &reduction,
                                 (int)target, 0, call->count);
    }
    ls_order_free(order);
    return status;
}

// Sums do not show which of the first two terms was the accumulator: "a(b)" or "b(a)".
static void turn_pair(char *tree) {
    char *open = strrchr(tree, '('), *start = open, *end = open;
    if (open == NULL) {
        return;
    }
    while (start > tree && start[-1] >= '0' && start[-1] <= '9') {
        start--;
    }
    for (end = open + 1; *end >= '0' && *end <= '9'; end++) {
    }
    if (*end != ')') {
        return;  // the head has more children: not a pair
    }
    char pair[64];
    (void)snprintf(pair, sizeof pair, "%.*s(%.*s", (int)(end - open - 1), open + 1,
                   (int)(open - start), start);
    memcpy(start, pair, (size_t)(end - start));
}

static void turn_all(ls_calibrate_call *call) {
    for (int i = 0; i < call->class_count; i++) {
        turn_pair(call->classes[i].tree);
    }
}

static bool class_fits(const trial *t, int index, int turned) {
    const ls_calibrate_class *class_ = &t->call->classes[index];
    size_t bytes = ls_dtype_bytes(t->call->dtype);
    size_t target = class_->target < 0 ? 0 : (size_t)class_->target;
    size_t first = (target * t->call->count + class_->first) * bytes;
    size_t length = (class_->end - class_->first) * bytes;
    const char *folded = t->folded + (size_t)turned * t->cells * bytes;
    return memcmp(folded + first, t->actual + first, length) == 0;
}

// Whether the call's trees, pairs turned round where that helps, give what the backend gave. Turns
// those pairs.
static int candidate_fits(bool *fits, trial *t) {
    size_t bytes = ls_dtype_bytes(t->call->dtype);
    LS_TRY(fold_candidate(t->folded, t));
    turn_all(t->call);
    int status = fold_candidate(t->folded + t->cells * bytes, t);
    turn_all(t->call);
    LS_TRY(status);
    *fits = true;
    for (int i = 0; i < t->call->class_count && *fits; i++) {
        *fits = class_fits(t, i, 0) || class_fits(t, i, 1);
    }
    for (int i = 0; i < t->call->class_count && *fits; i++) {
        if (!class_fits(t, i, 0)) {
            turn_pair(t->call->classes[i].tree);
        }
    }
    return LS_OK;
}

static int open_trial(trial *t) {
    size_t n = (size_t)t->comm->size, bytes = ls_dtype_bytes(t->call->dtype);
    size_t sent = ls_calibrate__inputs(t->call, t->comm->size);
    void *memory = NULL;
    t->cells = ls_calibrate__targets(t->call, t->comm->size) * t->call->count;
    LS_TRY(ls_alloc(&memory, n * sent, bytes));
    t->in = memory;
    LS_TRY(ls_alloc(&memory, t->cells, bytes));
    t->actual = memory;
    LS_TRY(ls_alloc(&memory, 2 * t->cells, bytes));
    t->folded = memory;
    for (size_t i = 0; i < n * sent; i++) {
        double number = (double)((i * 2654435761u + 12345u) % 200003u) / 200003.0 - 0.5;
        ls_element_from_f64(t->in + i * bytes, t->call->dtype, number * (double)(1 + i % 7));
    }
    return ls_calibrate__run(t->actual, t->comm, t->call, t->op, t->in);
}

static void close_trial(trial *t) {
    size_t n = (size_t)t->comm->size, bytes = ls_dtype_bytes(t->call->dtype);
    ls_free(t->in, n * ls_calibrate__inputs(t->call, t->comm->size), bytes);
    ls_free(t->actual, t->cells, bytes);
    ls_free(t->folded, 2 * t->cells, bytes);
}

// Sets *field to the first of forms that gives the backend's bits. *found: its index, or -1.
static int try_forms(int *found, const char **field, const char *const *forms, int form_count,
                     ls_calibrate_call *call, ls_comm *comm, ls_op op, const char *path) {
    double premul[LS_CALIBRATE_RANKS_MAX];
    for (int m = 0; m < comm->size; m++) {
        premul[m] = ls_calibrate__factor(m);
    }
    trial t = {.call = call, .comm = comm, .op = op, .premul = premul, .path = path};
    int status = open_trial(&t);
    *found = -1;
    for (int f = 0; f < form_count && status == LS_OK && *found < 0; f++) {
        bool fits = false;
        *field = forms[f];
        status = candidate_fits(&fits, &t);
        *found = fits ? f : -1;
    }
    close_trial(&t);
    return status;
}

double ls_calibrate__factor(int member) {
    return 0.3 + 0.17 * member;
}

int ls_calibrate__probe_rounding(ls_calibrate_call *call, ls_comm *comm,
                                 const char *temporary_dir) {
    static const char *const accumulators[] = {"element", "f32"};
    static const char *const fmas[] = {"always", "never", "ll128"};
    char path[1100];
    int found = -1;
    (void)snprintf(path, sizeof path, "%.1000s/candidate.json", temporary_dir);
    int status = try_forms(&found, &call->accumulator, accumulators, 2, call, comm, LS_SUM, path);
    if (status == LS_OK && found < 0) {
        status = LS_FAIL(LS_ERR_FINDING, "the measured trees do not reproduce the backend's sums");
    }
    if (status == LS_OK) {
        status = try_forms(&found, &call->fma, fmas, 3, call, comm, LS_PREMUL_SUM, path);
        if (status == LS_ERR_UNSUPPORTED || status == LS_ERR_INVALID) {
            status = LS_OK;  // a kernel that only sums
            found = -1;
        }
    }
    if (status == LS_OK && found < 0) {
        call->fma = NULL;  // products are rounded in another way
    }
    (void)unlink(path);
    return status;
}
