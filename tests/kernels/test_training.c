// The kernels of training against their plain references, bit for bit, and against recorded results
// of FBGEMM's and torch's own kernels.
#include <criterion/criterion.h>
#include <signal.h>
#include <stdlib.h>

#include "kernels/training.h"
#include "oracle.h"

enum { ROWS = 41, DIM_MAX = 37, IDS_MAX = 20000, DUPLICATED = 5000 };

static uint64_t state = 1;

static double draw(void) {
    static const double special[] = {0.0, -0.0, (double)NAN, (double)INFINITY, 1e-40};
    uint64_t random = next_random(&state);
    return random % 64 == 0 ? special[(random >> 8) % 5]
                            : (double)(int64_t)next_random(&state) / 0x1p62;
}

static void draw_array(void *out, ls_dtype dtype, size_t count, bool positive) {
    for (size_t i = 0; i < count; i++) {
        double value = draw();
        ls_element_from_f64((char *)out + i * ls_dtype_bytes(dtype), dtype,
                            positive ? fabs(value) : value);
    }
}

// The index of the first element that differs (NaN equals NaN), or count.
static size_t first_difference(const void *a, const void *b, ls_dtype dtype, size_t count) {
    size_t bytes = ls_dtype_bytes(dtype);
    for (size_t i = 0; i < count; i++) {
        const char *x = (const char *)a + i * bytes;
        const char *y = (const char *)b + i * bytes;
        bool nan = isnan(ls_element_to_f64(x, dtype)) && isnan(ls_element_to_f64(y, dtype));
        if (!nan && memcmp(x, y, bytes) != 0) {
            return i;
        }
    }
    return count;
}

// ---- Grouping and sums over duplicates ----------------------------------------------------------
typedef struct {
    int64_t rows[IDS_MAX];
    int64_t starts[IDS_MAX + 1];
    int64_t order[IDS_MAX];
    int64_t scratch[LS_GROUP_SCRATCH * IDS_MAX];
    size_t unique;
} groups;

static groups fast;
static groups plain;
static int64_t ids[IDS_MAX];

static void group_both(size_t count, int64_t table_rows, int64_t padding_id) {
    ls_kernel_group_ids(&(const ls_row_groups){fast.rows, fast.starts, fast.order}, &fast.unique,
                        fast.scratch, ids, count, table_rows, padding_id);
    ls_kernel_group_ids_reference(&(const ls_row_groups){plain.rows, plain.starts, plain.order},
                                  &plain.unique, NULL, ids, count, table_rows, padding_id);
}

// No ids, one, all the same, many rows, ids of 45 bits, padding: order is by row, then position.
Test(training, grouping_matches_the_reference) {
    static const int64_t spans[] = {1, 2, 41, 2048, 2049, INT64_C(1) << 22, INT64_C(1) << 45};
    static const size_t counts[] = {0, 1, 2, 63, 1000};
    for (size_t c = 0; c < 7 * 5 * 2; c++) {
        int64_t span = spans[c % 7];
        size_t count = counts[c / 7 % 5];
        for (size_t i = 0; i < count; i++) {
            uint64_t random = next_random(&state);
            int64_t within = span < 50 || random % 4 == 0 ? span : span / 16 + 1;
            ids[i] = (int64_t)((random >> 8) % (uint64_t)within);
        }
        if (count > 2) {
            ids[1] = span - 1;  // the last row there is
        }
        group_both(count, span, c >= 35 ? ids[0] : -1);
        cr_assert_eq(fast.unique, plain.unique);
        cr_assert(memcmp(fast.rows, plain.rows, fast.unique * 8) == 0);
        cr_assert(memcmp(fast.starts, plain.starts, (fast.unique + 1) * 8) == 0);
        cr_assert(memcmp(fast.order, plain.order, (size_t)fast.starts[fast.unique] * 8) == 0);
    }
}

Test(training, grouping_refuses_an_id_out_of_range, .signal = SIGABRT) {
    ids[0] = 5;
    ls_kernel_group_ids(&(const ls_row_groups){fast.rows, fast.starts, fast.order}, &fast.unique,
                        fast.scratch, ids, 1, 5, -1);
}

Test(training, weight_gradients_refuse_a_huge_id, .signal = SIGABRT) {
    const float x[4] = {0};
    float out = 0;
    ids[0] = INT64_MAX;
    ls_kernel_weight_gradients(&out, x, &(const ls_table_shape){LS_F32, 1, 4},
                               &(const ls_gradients){.values = x, .stride = 4, .row_of = NULL}, ids,
                               -1, 1);
}

static _Alignas(8) unsigned char gradients[(IDS_MAX / 4) * (DIM_MAX + 1) * 8];
static _Alignas(8) unsigned char out_fast[ROWS * DIM_MAX * 8];
static _Alignas(8) unsigned char out_plain[ROWS * DIM_MAX * 8];

static void check_row_gradients(ls_dtype dtype, size_t dim, size_t count, bool sequence,
                                bool scaled) {
    static int64_t row_of[IDS_MAX];
    static float scales[IDS_MAX];
    size_t bags = sequence ? count : count / 3 + 1;
    draw_array(gradients, dtype, bags * (dim + 1), false);
    draw_array(scales, LS_F32, count, false);
    for (size_t i = 0; i < count; i++) {
        ids[i] = (int64_t)(next_random(&state) % 3 == 0 ? 7 : next_random(&state) % ROWS);
        row_of[i] = (int64_t)(i * bags / (count + 1));
    }
    group_both(count, ROWS, 5);
    const int64_t *of = sequence ? NULL : row_of;
    ls_kernel_row_gradients(
        out_fast, dim, &(const ls_gradients){gradients, dim + 1, dtype, of, scaled ? scales : NULL},
        fast.starts, fast.order, fast.unique);
    ls_kernel_row_gradients_reference(
        out_plain, dim,
        &(const ls_gradients){gradients, dim + 1, dtype, of, scaled ? scales : NULL}, fast.starts,
        fast.order, fast.unique);
    size_t elements = fast.unique * dim;
    cr_assert_eq(first_difference(out_fast, out_plain, dtype == LS_F64 ? LS_F64 : LS_F32, elements),
                 elements, "%s dim %zu count %zu", ls_dtype_name(dtype), dim, count);
}

// A row with thousands of occurrences among them; sequences and bags, with and without weights.
Test(training, row_gradients_match_the_reference) {
    static const ls_dtype dtypes[] = {LS_F32, LS_F16, LS_BF16, LS_F64};
    static const size_t dims[] = {0, 1, 8, DIM_MAX};
    static const size_t counts[] = {0, 1, 77, DUPLICATED};
    for (size_t c = 0; c < 4 * 4 * 4; c++) {
        for (int kind = 0; kind < 4; kind++) {
            check_row_gradients(dtypes[c % 4], dims[c / 4 % 4], counts[c / 16], kind & 1, kind & 2);
        }
    }
}

// The fold begins with +0 and follows the order of the occurrences.
Test(training, row_gradients_fold_in_order) {
    const float g[4] = {1e8f, 1.0f, -1e8f, -0.0f};
    const int64_t starts[3] = {0, 3, 4};
    const int64_t forward[4] = {0, 1, 2, 3};
    const int64_t other[4] = {0, 2, 1, 3};
    float out[2];
    ls_kernel_row_gradients(out, 1, &(const ls_gradients){g, 1, LS_F32, NULL, NULL}, starts,
                            forward, 2);
    cr_expect(out[0] == 0.0f && out[1] == 0.0f && !signbit(out[1]));
    ls_kernel_row_gradients(out, 1, &(const ls_gradients){g, 1, LS_F32, NULL, NULL}, starts, other,
                            2);
    cr_expect(out[0] == 1.0f);
}

// More than LS_GRADIENT_RUN occurrences: five ones, which 1e8 would absorb one by one, count
// together.
Test(training, row_gradients_fold_run_by_run) {
    enum { COUNT = LS_GRADIENT_RUN + 5 };
    float g[COUNT] = {1e8f};
    int64_t order[COUNT];
    const int64_t starts[2] = {0, COUNT};
    float out = 0;
    for (int i = 0; i < COUNT; i++) {
        order[i] = i;
        g[i] = i < LS_GRADIENT_RUN ? g[i] : 1;
    }
    ls_kernel_row_gradients(&out, 1, &(const ls_gradients){g, 1, LS_F32, NULL, NULL}, starts, order,
                            1);
    cr_expect(out == 100000008.0f);
    order[LS_GRADIENT_RUN - 1] = LS_GRADIENT_RUN;  // one of them is in the first run, and lost
    order[LS_GRADIENT_RUN] = LS_GRADIENT_RUN - 1;
    ls_kernel_row_gradients(&out, 1, &(const ls_gradients){g, 1, LS_F32, NULL, NULL}, starts, order,
                            1);
    cr_expect(out == 100000000.0f);
}

// More columns than are summed at once.
Test(training, row_gradients_of_wide_rows) {
    enum { WIDE = 1030, COUNT = 2 * LS_GRADIENT_RUN + 3 };
    static float g[7 * WIDE];
    static float wide_fast[WIDE];
    static float wide_plain[WIDE];
    const int64_t starts[2] = {0, COUNT};
    int64_t order[COUNT];
    int64_t row_of[COUNT];
    draw_array(g, LS_F32, sizeof g / sizeof *g, false);
    for (int i = 0; i < COUNT; i++) {
        order[i] = i;
        row_of[i] = i * 5 % 7;
    }
    ls_kernel_row_gradients(wide_fast, WIDE, &(const ls_gradients){g, WIDE, LS_F32, row_of, NULL},
                            starts, order, 1);
    ls_kernel_row_gradients_reference(
        wide_plain, WIDE, &(const ls_gradients){g, WIDE, LS_F32, row_of, NULL}, starts, order, 1);
    cr_expect_eq(first_difference(wide_fast, wide_plain, LS_F32, WIDE), (size_t)WIDE);
}

// Every table type, sizes around a group of eight, padding: a fold over columns in order.
Test(training, weight_gradients_match_the_reference) {
    static const ls_dtype dtypes[] = {LS_F32, LS_F16, LS_BF16, LS_F64};
    static const size_t dims[] = {0, 1, 16, DIM_MAX};
    static const size_t counts[] = {0, 1, 8, 9, 100};
    static _Alignas(8) unsigned char table[ROWS * DIM_MAX * 8];
    static double a[100];
    static double b[100];
    for (size_t c = 0; c < 4 * 4 * 5; c++) {
        ls_dtype dtype = dtypes[c % 4];
        ls_dtype wide = dtype == LS_F64 ? LS_F64 : LS_F32;
        size_t dim = dims[c / 4 % 4];
        size_t count = counts[c / 16];
        int64_t row_of[100];
        draw_array(table, dtype, ROWS * dim, false);
        draw_array(gradients, wide, 100 * (dim + 1), false);
        for (size_t k = 0; k < count; k++) {
            ids[k] = (int64_t)(next_random(&state) % ROWS);
            row_of[k] = (int64_t)(next_random(&state) % 100);
        }
        int64_t padding = c % 2 && count > 3 ? ids[3] : -1;
        ls_kernel_weight_gradients(
            a, table, &(const ls_table_shape){dtype, ROWS, dim},
            &(const ls_gradients){.values = gradients, .stride = dim + 1, .row_of = row_of}, ids,
            padding, count);
        ls_kernel_weight_gradients_reference(
            b, table, &(const ls_table_shape){dtype, ROWS, dim},
            &(const ls_gradients){.values = gradients, .stride = dim + 1, .row_of = row_of}, ids,
            padding, count);
        cr_assert_eq(first_difference(a, b, wide, count), count, "%s", ls_dtype_name(dtype));
    }
}

// ---- Norms --------------------------------------------------------------------------------------
Test(training, renormalised_rows_match_the_reference) {
    static const ls_dtype dtypes[] = {LS_F32, LS_F16, LS_BF16, LS_F64};
    static const double types[] = {2, 1, (double)INFINITY, 3.5};
    const int64_t some[4] = {0, 3, 7, ROWS - 1};
    for (size_t c = 0; c < 4 * 4 * 3; c++) {
        ls_dtype dtype = dtypes[c % 4];
        size_t dim = c / 16 == 0 ? 1 : c / 16 == 1 ? 16 : DIM_MAX;
        double type = types[c / 4 % 4];
        double sums[2][4];
        draw_array(out_fast, dtype, ROWS * dim, false);
        memcpy(out_plain, out_fast, sizeof out_fast);
        ls_kernel_norm_sums(sums[0], out_fast, &(const ls_table_shape){dtype, ROWS, dim}, some, 4,
                            type);
        ls_kernel_norm_sums_reference(sums[1], out_fast, &(const ls_table_shape){dtype, ROWS, dim},
                                      some, 4, type);
        cr_assert_eq(first_difference(sums[0], sums[1], LS_F64, 4), 4, "type %g", type);
        ls_kernel_renormalise_rows(out_fast, &(const ls_table_shape){dtype, ROWS, dim}, some, NULL,
                                   4, &(const ls_norm_limit){0.75, type, 1e-7});
        ls_kernel_renormalise_rows_reference(out_plain, &(const ls_table_shape){dtype, ROWS, dim},
                                             some, sums[1], 4,
                                             &(const ls_norm_limit){0.75, type, 1e-7});
        cr_assert_eq(first_difference(out_fast, out_plain, dtype, ROWS * dim), ROWS * dim,
                     "%s dim %zu type %g", ls_dtype_name(dtype), dim, type);
    }
}

// 3-4-5: a row at its norm stays, one above it shrinks, and eps makes it shorter still.
Test(training, renormalise_by_hand) {
    float rows[4] = {3, 4, 6, 8};
    const int64_t both[2] = {0, 1};
    ls_kernel_renormalise_rows(rows, &(const ls_table_shape){LS_F32, 2, 2}, both, NULL, 2,
                               &(const ls_norm_limit){5, 2, 0});
    cr_expect(rows[0] == 3 && rows[1] == 4 && rows[2] == 3 && rows[3] == 4);
    ls_kernel_renormalise_rows(rows, &(const ls_table_shape){LS_F32, 2, 2}, both + 1, NULL, 1,
                               &(const ls_norm_limit){3.5, 1, 7});
    cr_expect(rows[2] == 0.75f && rows[3] == 1.0f);
}

// ---- Optimizers ---------------------------------------------------------------------------------
typedef struct {
    _Alignas(8) unsigned char weights[ROWS * DIM_MAX * 8];
    _Alignas(8) unsigned char states[2][ROWS * DIM_MAX * 8];
} shard;

static void check_update(const ls_optimizer *o, ls_dtype dtype, size_t dim, bool by_ids) {
    static shard a;
    static shard b;
    static const int64_t some[5] = {0, 2, 3, 30, ROWS - 1};
    ls_dtype wide = ls_optimizer_state_dtype(dtype);
    draw_array(a.weights, dtype, ROWS * dim, false);
    draw_array(a.states, wide, sizeof a.states / 8, true);
    b = a;
    ls_row_update update = {.dtype = dtype,
                            .rows = ROWS,
                            .dim = dim,
                            .row_ids = by_ids ? some : NULL,
                            .gradients = gradients,
                            .count = by_ids ? 5 : ROWS,
                            .factor = by_ids ? 0.3 : 1,
                            .first_row = 100,
                            .first_column = 3,
                            .key = 77};
    for (update.step = 1; update.step <= 3; update.step++) {
        draw_array(gradients, wide, ROWS * dim, false);
        for (int which = 0; which < 2; which++) {
            shard *s = which ? &b : &a;
            update.weights = s->weights;
            for (int i = 0; i < ls_optimizer_state_count(o); i++) {
                update.states[i] = s->states[i];
            }
            (which ? ls_kernel_update_rows_reference : ls_kernel_update_rows)(o, &update);
        }
        size_t elements = ROWS * dim;
        size_t all = sizeof a.states / ls_dtype_bytes(wide);
        cr_assert(first_difference(a.weights, b.weights, dtype, elements) == elements &&
                      first_difference(a.states, b.states, wide, all) == all,
                  "%s form %d %s dim %zu decay %d step %d", ls_optimizer_about(o->kind)->name,
                  (int)o->form, ls_dtype_name(dtype), dim, (int)o->decay, (int)update.step);
    }
}

// Every kind, form, decay and type: weights and states, also of rows without a gradient.
Test(training, updates_match_the_reference) {
    static const ls_dtype dtypes[] = {LS_F32, LS_F16, LS_BF16, LS_F64};
    static const size_t dims[] = {0, 1, 8, DIM_MAX};
    for (int c = 0; c < LS_OPTIMIZER_KIND_COUNT * 2 * LS_WEIGHT_DECAY_COUNT * 16; c++) {
        ls_optimizer_kind kind = (ls_optimizer_kind)(c % LS_OPTIMIZER_KIND_COUNT);
        int rest = c / LS_OPTIMIZER_KIND_COUNT;
        ls_optimizer o = ls_optimizer_default(kind, (ls_optimizer_form)(rest % 2));
        o.decay = (ls_weight_decay)(rest / 2 % LS_WEIGHT_DECAY_COUNT);
        o.weight_decay = 0.03;
        o.eps = rest % 3 ? 1e-8 : 0.1;
        o.beta1 = rest % 5 ? 0.9 : 0.25;  // torch's lerp changes its formula at a half
        o.momentum = o.form == LS_OPTIMIZER_DENSE && rest % 3 ? 0.9 : 0;
        o.stochastic_rounding = rest % 7 < 3;
        o.seed = 5;
        rest /= 2 * LS_WEIGHT_DECAY_COUNT;
        if (ls_optimizer_check(&o) == LS_OK) {
            check_update(&o, dtypes[rest % 4], dims[rest / 4], rest % 2);
        }
    }
}

// A row longer than a piece of a widened row: sums continue across the pieces.
Test(training, updates_of_long_rows_match_the_reference) {
    enum { DIM = 1043 };
    static uint16_t a[DIM];
    static uint16_t b[DIM];
    static float g[DIM];
    static float m[2][DIM];
    static float v[2];
    draw_array(a, LS_BF16, DIM, false);
    for (size_t c = 0; c < DIM; c++) {
        a[c] = (a[c] & 0x7F80) == 0x7F80 ? 0x3F80 : a[c];  // finite numbers only
        b[c] = a[c];
        g[c] = (float)((int)(c * 37 % 101) - 50) / 64;
    }
    ls_optimizer o = ls_optimizer_default(LS_OPTIMIZER_PARTIAL_ROWWISE_LAMB, LS_OPTIMIZER_FUSED);
    ls_row_update u = {.dtype = LS_BF16,
                       .rows = 1,
                       .dim = DIM,
                       .gradients = g,
                       .count = 1,
                       .factor = 1,
                       .step = 1,
                       .weights = a,
                       .states = {m[0], &v[0]}};
    ls_kernel_update_rows(&o, &u);
    u.weights = b;
    u.states[0] = m[1];
    u.states[1] = &v[1];
    ls_kernel_update_rows_reference(&o, &u);
    cr_expect(v[0] == v[1]);
    cr_expect_eq(first_difference(m[0], m[1], LS_F32, DIM), DIM);
    cr_expect_eq(first_difference(a, b, LS_BF16, DIM), DIM);
}

// Two shards of a table, separate in rows and columns, round like the whole table; both neighbours
// occur at about the expected rates.
Test(training, stochastic_rounding_does_not_depend_on_the_sharding) {
    enum { N = 64 };
    static uint16_t whole[N * N];
    static uint16_t part[N / 2 * (N - 5)];
    static float zero[N * N];
    ls_optimizer o = ls_optimizer_default(LS_OPTIMIZER_SGD, LS_OPTIMIZER_FUSED);
    o.stochastic_rounding = true;
    o.lr = 1;
    for (size_t i = 0; i < (size_t)N * N; i++) {
        whole[i] = 0x3F80;   // 1
        zero[i] = -0x1p-9f;  // a quarter of the step from 1 upwards: 2^-7
    }
    memcpy(part, whole, sizeof part);
    ls_row_update u = {.weights = whole,
                       .dtype = LS_BF16,
                       .rows = N,
                       .dim = N,
                       .gradients = zero,
                       .count = N,
                       .factor = 1,
                       .step = 4,
                       .key = 9};
    ls_kernel_update_rows(&o, &u);
    u.weights = part;
    u.rows = N / 2;
    u.count = N / 2;
    u.dim = N - 5;
    u.first_row = N / 2;
    u.first_column = 5;
    ls_kernel_update_rows(&o, &u);
    size_t up = 0;
    for (size_t row = 0; row < N / 2; row++) {
        cr_assert(memcmp(&part[row * (N - 5)], &whole[(row + N / 2) * N + 5], 2 * (N - 5)) == 0);
    }
    for (size_t i = 0; i < (size_t)N * N; i++) {
        cr_assert(whole[i] == 0x3F80 || whole[i] == 0x3F81);
        up += whole[i] & 1;
    }
    cr_expect(up > N * N / 5 && up < N * N * 3 / 10, "%zu of %d up", up, N * N);
}
