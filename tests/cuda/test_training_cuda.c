// The kernels of training on a GPU against the CPU's, bit for bit.
#include <math.h>

#include "tests/cuda/test.h"

enum { ROWS = 53, DIM = 45, IDS = 3000 };

static const ls_dtype dtypes[] = {LS_F32, LS_F16, LS_BF16, LS_F64};

static int64_t *random_ids(size_t count, int64_t rows) {
    int64_t *ids = host((count + 1) * sizeof *ids);
    for (size_t i = 0; i < count; i++) {
        ids[i] = below(3) == 0 ? 7 : (int64_t)below((size_t)rows);
    }
    return ids;
}

typedef struct {
    int64_t *rows, *starts, *order;
    size_t unique;
} grouped;

// Rows, starts and positions are the CPU's: none, one, many ids; padding; rows of 40 bits.
static grouped group_case(const int64_t *ids, size_t count, int64_t table_rows, int64_t padding) {
    size_t bytes = (count + 1) * sizeof(int64_t), unique = 99;
    grouped g = {host(bytes), host(bytes), host(bytes), 0};
    int64_t *room = host(2 * bytes);
    ls_kernel_group_ids(&(const ls_row_groups){g.rows, g.starts, g.order}, &g.unique, room, ids,
                        count, table_rows, padding);
    void *from = device(ids, bytes), *rows = device(NULL, bytes), *starts = device(NULL, bytes);
    void *order = device(NULL, bytes), *more = device(NULL, 2 * bytes);
    need_ok(ls_kernel_group_ids_cuda(&(const ls_row_groups){rows, starts, order}, &unique, more,
                                     from, count, table_rows, padding, NULL),
            "group_ids");
    expect(unique == g.unique, "group_ids: number of rows");
    expect_same("group_ids: rows", g.rows, rows, LS_I64, g.unique);
    expect_same("group_ids: starts", g.starts, starts, LS_I64, g.unique + 1);
    expect_same("group_ids: order", g.order, order, LS_I64, (size_t)g.starts[g.unique]);
    cudaFree(from);
    cudaFree(rows);
    cudaFree(starts);
    cudaFree(order);
    cudaFree(more);
    free(room);
    return g;
}

static void free_groups(grouped *g) {
    free(g->rows);
    free(g->starts);
    free(g->order);
}

static void row_gradients_case(ls_dtype dtype, const int64_t *ids, size_t count, bool sequence,
                               bool scaled) {
    ls_dtype wide = dtype == LS_F64 ? LS_F64 : LS_F32;
    size_t bytes = count * (DIM + 3) * ls_dtype_bytes(dtype);
    int64_t *row_of = random_ids(count, (int64_t)count);
    float *scales = host(count * sizeof *scales);
    void *gradients = host(bytes), *expected = host((size_t)ROWS * DIM * 8);
    random_numbers(gradients, dtype, count * (DIM + 3));
    random_numbers(scales, LS_F32, count);
    grouped g = group_case(ids, count, ROWS, 5);
    ls_kernel_row_gradients(expected, DIM,
                            &(const ls_gradients){gradients, DIM + 3, dtype,
                                                  sequence ? NULL : row_of, scaled ? scales : NULL},
                            g.starts, g.order, g.unique);
    void *out = device(NULL, (size_t)ROWS * DIM * 8), *in = device(gradients, bytes);
    void *of = device(row_of, count * sizeof(int64_t)), *by = device(scales, count * sizeof(float));
    void *starts = device(g.starts, (g.unique + 1) * sizeof(int64_t));
    void *order = device(g.order, count * sizeof(int64_t));
    need_ok(ls_kernel_row_gradients_cuda(
                out, DIM,
                &(const ls_gradients){in, DIM + 3, dtype, sequence ? NULL : of, scaled ? by : NULL},
                starts, order, g.unique, NULL),
            "row_gradients");
    expect_same("row_gradients", expected, out, wide, g.unique * DIM);
    void *all[] = {out, in, of, by, starts, order};
    for (size_t i = 0; i < 6; i++) {
        cudaFree(all[i]);
    }
    free_groups(&g);
    free(row_of);
    free(scales);
    free(gradients);
    free(expected);
}

// A table's update in one pass has the bits of the CPU's three. Each case runs twice: the second
// call must work with the lists that the first leaves.
typedef struct {
    size_t dim, count, touched;  // touched: rows of the table, at most
    ls_optimizer optimizer;
    bool sequence, scaled, padded;
    double factor;
} listed_case;

static void update_listed_case(const listed_case *c) {
    enum { TABLE = 5000 };
    size_t bags = c->sequence ? c->count : c->count / 20 + 1, stride = c->dim + 4;
    size_t bytes = TABLE * c->dim * sizeof(float), id_bytes = (c->count + 1) * 8;
    size_t gradient_bytes = bags * stride * sizeof(float), lists_bytes = 0;
    size_t room = c->count < LS_ROW_LISTS_MAX ? c->count + 40 : c->count;
    float *weights = host(bytes), *state = host(TABLE * sizeof(float));
    float *gradients = host(gradient_bytes), *scales = host(c->count * sizeof(float));
    float *sums = host((TABLE < c->count ? TABLE : c->count) * c->dim * sizeof(float));
    int64_t *ids = random_ids(c->count, (int64_t)c->touched), *row_of = random_ids(c->count, 1);
    for (size_t k = 0; k < c->count; k++) {
        row_of[k] = (int64_t)below(bags);
    }
    random_numbers(weights, LS_F32, TABLE * c->dim);
    random_numbers(gradients, LS_F32, bags * stride);
    random_numbers(scales, LS_F32, c->count);
    int64_t padding = c->padded ? ids[0] : -1;
    void *to = device(weights, bytes), *state_to = device(state, TABLE * sizeof(float));
    void *in = device(gradients, gradient_bytes), *by = device(scales, c->count * sizeof(float));
    void *from = device(ids, id_bytes), *of = device(row_of, id_bytes);
    need_ok(ls_kernel_row_lists_bytes(&lists_bytes, room, TABLE, c->dim), "row_lists");
    void *zeros = host(lists_bytes), *lists = device(zeros, lists_bytes);
    grouped g = group_case(ids, c->count, TABLE, padding);
    ls_kernel_row_gradients(sums, c->dim,
                            &(const ls_gradients){gradients, stride, LS_F32,
                                                  c->sequence ? NULL : row_of,
                                                  c->scaled ? scales : NULL},
                            g.starts, g.order, g.unique);
    for (int step = 1; step <= 2; step++) {
        ls_row_update u = {.weights = weights,
                           .dtype = LS_F32,
                           .rows = TABLE,
                           .dim = c->dim,
                           .states = {state},
                           .row_ids = g.rows,
                           .gradients = sums,
                           .count = g.unique,
                           .factor = c->factor,
                           .step = step};
        ls_kernel_update_rows(&c->optimizer, &u);
        u.weights = to;
        u.states[0] = state_to;
        need_ok(ls_kernel_list_rows_cuda(lists, room, from, c->count, TABLE, padding, NULL),
                "list_rows");
        need_ok(ls_kernel_update_listed_cuda(&c->optimizer, &u, lists, room, c->count,
                                             &(const ls_gradients){in, stride, LS_F32,
                                                                   c->sequence ? NULL : of,
                                                                   c->scaled ? by : NULL},
                                             NULL),
                "update_listed");
        char what[96];
        snprintf(what, sizeof what, "update_listed: %s, %zu ids, %zu columns, step %d",
                 ls_optimizer_about(c->optimizer.kind)->name, c->count, c->dim, step);
        expect_same(what, weights, to, LS_F32, TABLE * c->dim);
        expect_same(what, state, state_to, LS_F32, TABLE);
    }
    void *all[] = {to, state_to, in, by, from, of, lists};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        cudaFree(all[i]);
    }
    void *own[] = {weights, state, gradients, scales, sums, ids, row_of, zeros};
    for (size_t i = 0; i < sizeof own / sizeof *own; i++) {
        free(own[i]);
    }
    free_groups(&g);
}

// One column more than a lane's, a warp's; counts around a warp's rows, a run, a block's ids, and
// the maximum. A third of the ids is one row; rows have one to 16 occurrences, or several runs, or
// nearly a whole run, which with few columns fills most of a warp's memory.
static void test_update_listed(void) {
    static const size_t dims[] = {4, 128, 132, 256, 512};
    static const size_t counts[] = {1, 8, 65, 200, 3000, 81920, 131072};
    static const size_t narrow[] = {4, 8, 60, 64, 68};
    for (size_t d = 0; d < sizeof narrow / sizeof *narrow; d++) {
        listed_case own = {
            .dim = narrow[d],
            .count = 81920,
            .touched = 1000,
            .optimizer = ls_optimizer_default(LS_OPTIMIZER_ROWWISE_ADAGRAD, LS_OPTIMIZER_FUSED),
            .factor = 1};
        update_listed_case(&own);
    }
    for (int c = 0; c < 5 * 7 * 4; c += brief ? 6 : 1) {  // 6: not always as many columns
        int kind = c / 35;
        listed_case own = {
            .dim = dims[c % 5],
            .count = counts[c / 5 % 7],
            .touched = kind == 3 ? 700 : 5000,
            .optimizer = ls_optimizer_default(
                kind == 3 ? LS_OPTIMIZER_SGD : LS_OPTIMIZER_ROWWISE_ADAGRAD, LS_OPTIMIZER_FUSED),
            .sequence = kind == 1,
            .scaled = kind == 2,
            .padded = kind > 1,
            .factor = kind == 2 ? 0.7 : 1};
        own.optimizer.weight_decay = kind == 1 || kind == 2 ? 0.05 : 0;
        own.optimizer.decay = kind == 1   ? LS_DECAY_L2
                              : kind == 2 ? LS_DECAY_DECOUPLED
                                          : LS_DECAY_DEFAULT;
        update_listed_case(&own);
    }
    size_t bytes = 0;
    expect(ls_kernel_row_lists_bytes(&bytes, LS_ROW_LISTS_MAX + 1, 9, 4) == LS_ERR_UNSUPPORTED,
           "row_lists_bytes of too many ids");
    expect(ls_kernel_list_rows_cuda(&bytes, 0, NULL, 0, 9, -1, NULL) == LS_OK, "list_rows of none");
}

// bag_of counts from the first offset, and empty bags have no ids.
static void test_bag_of(void) {
    static const int64_t offsets[] = {3, 3, 5, 45, 45, 46};
    int64_t expected[43];
    void *from = device(offsets, sizeof offsets), *out = device(NULL, sizeof expected);
    for (int64_t k = 0; k < 43; k++) {
        expected[k] = k < 2 ? 1 : k < 42 ? 2 : 4;
    }
    need_ok(ls_kernel_bag_of_cuda(out, from, 5, NULL), "bag_of");
    expect_same("bag_of", expected, out, LS_I64, 43);
    cudaFree(from);
    cudaFree(out);
}

static void weight_gradients_case(ls_dtype dtype, const int64_t *ids, size_t dim) {
    ls_dtype wide = dtype == LS_F64 ? LS_F64 : LS_F32;
    size_t table_bytes = (size_t)ROWS * DIM * ls_dtype_bytes(dtype);
    size_t bytes = (size_t)IDS * DIM * ls_dtype_bytes(wide);
    void *table = host(table_bytes), *gradients = host(bytes), *expected = host(IDS * 8);
    random_numbers(table, dtype, (size_t)ROWS * DIM);
    random_numbers(gradients, wide, (size_t)IDS * DIM);
    ls_kernel_weight_gradients(
        expected, table, &(const ls_table_shape){dtype, ROWS, dim},
        &(const ls_gradients){.values = gradients, .stride = DIM, .row_of = NULL}, ids, 5, IDS);
    void *out = device(NULL, IDS * 8), *from = device(table, table_bytes);
    void *in = device(gradients, bytes), *of = device(ids, IDS * sizeof(int64_t));
    need_ok(ls_kernel_weight_gradients_cuda(
                out, from, &(const ls_table_shape){dtype, ROWS, dim},
                &(const ls_gradients){.values = in, .stride = DIM, .row_of = NULL}, of, 5, IDS,
                NULL),
            "weight_gradients");
    expect_same("weight_gradients", expected, out, wide, IDS);
    cudaFree(out);
    cudaFree(from);
    cudaFree(in);
    cudaFree(of);
    free(table);
    free(gradients);
    free(expected);
}

static void norms_case(ls_dtype dtype, double norm_type) {
    static const int64_t some[] = {0, 9, ROWS - 1};
    size_t bytes = (size_t)ROWS * DIM * ls_dtype_bytes(dtype);
    void *rows = host(bytes);
    double sums[3];
    random_numbers(rows, dtype, (size_t)ROWS * DIM);
    void *to = device(rows, bytes), *ids = device(some, sizeof some);
    void *sums_device = device(NULL, sizeof sums);
    ls_kernel_norm_sums(sums, rows, &(const ls_table_shape){dtype, ROWS, DIM}, some, 3, norm_type);
    need_ok(ls_kernel_norm_sums_cuda(sums_device, to, &(const ls_table_shape){dtype, ROWS, DIM},
                                     ids, 3, norm_type, NULL),
            "norm_sums");
    expect_same("norm_sums", sums, sums_device, LS_F64, 3);
    ls_kernel_renormalise_rows(rows, &(const ls_table_shape){dtype, ROWS, DIM}, some, NULL, 3,
                               &(const ls_norm_limit){0.5, norm_type, 1e-7});
    need_ok(ls_kernel_renormalise_rows_cuda(to, &(const ls_table_shape){dtype, ROWS, DIM}, ids,
                                            NULL, 3, &(const ls_norm_limit){0.5, norm_type, 1e-7},
                                            NULL),
            "renormalise_rows");
    expect_same("renormalise_rows", rows, to, dtype, (size_t)ROWS * DIM);
    cudaFree(to);
    cudaFree(ids);
    cudaFree(sums_device);
    free(rows);
}

static void update_case(const ls_optimizer *o, ls_dtype dtype, bool by_ids) {
    static const int64_t some[] = {0, 2, 17, ROWS - 1};
    ls_dtype wide = ls_optimizer_state_dtype(dtype);
    size_t count = (size_t)ROWS * DIM, bytes = count * ls_dtype_bytes(dtype);
    size_t wide_bytes = count * ls_dtype_bytes(wide);
    void *weights = host(bytes), *states[2], *states_device[2], *gradients = host(wide_bytes);
    random_numbers(weights, dtype, count);
    void *to = device(weights, bytes), *ids = device(some, sizeof some);
    for (int i = 0; i < 2; i++) {
        states[i] = host(wide_bytes);
        states_device[i] = device(states[i], wide_bytes);
    }
    for (int step = 1; step <= 3; step++) {
        random_numbers(gradients, wide, count);
        void *in = device(gradients, wide_bytes);
        ls_row_update u = {weights,
                           dtype,
                           ROWS,
                           DIM,
                           {states[0], states[1]},
                           by_ids ? some : NULL,
                           gradients,
                           by_ids ? 4 : ROWS,
                           by_ids ? 0.3 : 1,
                           step,
                           100,
                           3,
                           77};
        ls_kernel_update_rows(o, &u);
        u.weights = to;
        u.states[0] = states_device[0];
        u.states[1] = states_device[1];
        u.row_ids = by_ids ? ids : NULL;
        u.gradients = in;
        need_ok(ls_kernel_update_rows_cuda(o, &u, NULL), "update_rows");
        char what[96];
        snprintf(what, sizeof what, "update_rows: %s, form %d, %s",
                 ls_optimizer_about(o->kind)->name, (int)o->form, ls_dtype_name(dtype));
        expect_same(what, weights, to, dtype, count);
        expect_same(what, states[0], states_device[0], wide, count);
        expect_same(what, states[1], states_device[1], wide, count);
        cudaFree(in);
    }
    cudaFree(to);
    cudaFree(ids);
    for (int i = 0; i < 2; i++) {
        cudaFree(states_device[i]);
        free(states[i]);
    }
    free(weights);
    free(gradients);
}

// Every kind, form and decay, of every type of weight.
static void test_updates(void) {
    int cases = LS_OPTIMIZER_KIND_COUNT * 2 * LS_WEIGHT_DECAY_COUNT * 4;
    for (int c = 0; c < cases; c += brief ? 7 : 1) {
        int rest = c / LS_OPTIMIZER_KIND_COUNT;
        ls_optimizer o =
            ls_optimizer_default((ls_optimizer_kind)(c % LS_OPTIMIZER_KIND_COUNT), rest % 2);
        o.decay = (ls_weight_decay)(rest / 2 % LS_WEIGHT_DECAY_COUNT);
        o.weight_decay = 0.03;
        o.momentum = o.form == LS_OPTIMIZER_DENSE && c % 3 ? 0.9 : 0;
        o.stochastic_rounding = c % 2;
        o.seed = 5;
        rest /= 2 * LS_WEIGHT_DECAY_COUNT;
        if (ls_optimizer_check(&o) == LS_OK) {
            update_case(&o, dtypes[rest], c % 3 == 0);
        }
    }
}

void test_training(void) {
    static const size_t counts[] = {0, 1, 31, IDS};
    static const double norms[] = {1, 2, (double)INFINITY};
    // Row 7 has more runs than a block of threads takes at once.
    enum { MANY = 4 * 32 * LS_GRADIENT_RUN };
    int64_t *ids = random_ids(IDS, ROWS), *many = random_ids(MANY, ROWS);
    for (size_t c = 0; c < 4; c++) {
        for (int kind = 0; kind < 3; kind++) {
            int64_t rows = kind == 2 ? INT64_C(1) << 40 : ROWS;
            grouped g = group_case(ids, counts[c], rows, kind == 1 ? ids[0] : -1);
            free_groups(&g);
        }
    }
    for (int d = 0; d < 4; d++) {
        for (int kind = 0; kind < 4; kind++) {
            row_gradients_case(dtypes[d], ids, IDS, kind & 1, kind & 2);
            row_gradients_case(dtypes[d], many, MANY, kind & 1, kind & 2);
        }
        weight_gradients_case(dtypes[d], ids, DIM);
        weight_gradients_case(dtypes[d], ids, 32);
        for (int n = 0; n < 3; n++) {
            norms_case(dtypes[d], norms[n]);
        }
    }
    test_updates();
    test_update_listed();
    test_bag_of();
    free(many);
    free(ids);
}
