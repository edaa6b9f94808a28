// The field's rules for the kernels of scenarios equal those of f64: on numbers with exact results
// both have the same fraction.
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "kernels/element.h"
#include "kernels/field.h"
#include "kernels/training.h"

enum { MOST = 64 };

static void to_field(uint32_t *out, const double *in, size_t count) {
    for (size_t i = 0; i < count; i++) {
        out[i] = ls_field_of(in[i]);
    }
}

static void same(const uint32_t *got, const double *want, size_t count, const char *what) {
    for (size_t i = 0; i < count; i++) {
        cr_assert_eq(got[i], ls_field_of(want[i]), "%s: element %zu is %u, f64 has %.17g (%u)",
                     what, i, got[i], want[i], ls_field_of(want[i]));
    }
}

// Whole numbers map to themselves modulo p, constants to the fraction that f32 and f64 share.
Test(field_rules, constants) {
    cr_assert_eq(ls_field_of(-1), LS_FIELD_PRIME - 1);
    cr_assert_eq(ls_field_of(0x1p31), 1);
    cr_assert_eq(ls_field_of(0.1), ls_field_over(1, 10));
    cr_assert_eq(ls_field_of((double)0.1F), ls_field_over(1, 10));
    cr_assert_eq(ls_field_of(-1.0 / 3), ls_field_over(LS_FIELD_PRIME - 1, 3));
    cr_assert_eq(ls_field_of((double)(float)(1.0 / 3)), ls_field_over(1, 3));
    cr_assert_eq(ls_field_of(1e-8), ls_field_over(1, 100000000));
    cr_assert_eq(ls_field_of(2000000000.0), 2000000000U);
    cr_assert_eq(ls_field_plus(LS_FIELD_PRIME - 1, 2), 1);
    cr_assert_eq(ls_field_minus(1, 2), LS_FIELD_PRIME - 1);
    cr_assert_eq(ls_field_over(6, 3), 2);
    cr_assert_eq(ls_field_over(6, 0), 0);
    cr_assert_eq(ls_field_root(49, 0), 7);
    cr_assert_eq(ls_field_root(1000003, 0), ls_field_root(1000003, 0));
    cr_assert_neq(ls_field_root(1000003, 0), ls_field_root(1000004, 0));
}

// Every operation that a field has, on three ranks' numbers; the plain reference too.
Test(field_rules, reductions) {
    const double rank[3][4] = {{1, -2, 3, 0}, {4, 5, -6, 7}, {1, 6, 9, -1}};
    const double premul[3] = {2, -3, 0.5};
    uint32_t drawn[3][4], out[4], plain[4];
    const void *wide[3], *field[3];
    double want[4];
    for (int r = 0; r < 3; r++) {
        to_field(drawn[r], rank[r], 4);
        wide[r] = rank[r];
        field[r] = drawn[r];
    }
    const ls_op ops[] = {LS_SUM, LS_PROD, LS_AVG, LS_PREMUL_SUM};
    for (size_t i = 0; i < sizeof ops / sizeof ops[0]; i++) {
        const double *factors = ops[i] == LS_PREMUL_SUM ? premul : NULL;
        ls_kernel_reduce(want, wide, 3, LS_F64, ops[i], factors, 4);
        ls_kernel_reduce(out, field, 3, LS_FIELD, ops[i], factors, 4);
        ls_kernel_reduce_reference(plain, field, 3, LS_FIELD, ops[i], factors, 4);
        same(out, want, 4, ls_op_name(ops[i]));
        same(plain, want, 4, "reference");
    }
    cr_assert_not(ls_op_supports(LS_MAX, LS_FIELD));
    cr_assert_not(ls_op_supports(LS_MIN, LS_FIELD));
    double factor = -3;
    uint32_t factor_of = ls_field_of(factor);
    memcpy(want, rank[1], sizeof want);
    memcpy(out, drawn[1], sizeof out);
    ls_kernel_accumulate_fma(want, rank[0], &factor, LS_F64, 4);
    ls_kernel_accumulate_fma(out, drawn[0], &factor_of, LS_FIELD, 4);
    same(out, want, 4, "fma");
    cr_assert_not(ls_kernel_any_special(out, 4, LS_FIELD));
}

Test(field_rules, products) {
    const double a[6] = {1, -2, 3, 4, 5, -6}, b[6] = {7, 8, -9, 1, 2, 3};
    uint32_t x[6], y[6], out[4];
    double want[4];
    to_field(x, a, 6);
    to_field(y, b, 6);
    ls_kernel_matmul(want, a, b, LS_F64, 2, 3, 2);
    ls_kernel_matmul(out, x, y, LS_FIELD, 2, 3, 2);
    same(out, want, 4, "matmul");
    const int64_t whole[3] = {-3, 0, 5};
    const double numbers[3] = {-3, 0, 5};
    ls_kernel_convert(out, LS_FIELD, whole, LS_I64, 3);
    same(out, numbers, 3, "convert");
}

// Sums and means of bags, one of them empty, with a padding id and with weights.
Test(field_rules, bags) {
    const double table[12] = {2, -4, 6, 8, 10, 12, -14, 16, 18, 20, 22, 24};
    const int64_t ids[6] = {0, 3, 1, 1, 5, 2}, offsets[5] = {0, 2, 2, 5, 6};
    const float weights[6] = {1, 3, 2, 2, -1, 4};
    uint32_t cells[12], out[8], drawn[6];
    double wide[12], want[8];
    memcpy(wide, table, sizeof wide);
    to_field(cells, table, 12);
    for (size_t i = 0; i < 6; i++) {
        drawn[i] = ls_field_of((double)weights[i]);
    }
    float as_floats[6];
    memcpy(as_floats, drawn, sizeof as_floats);
    const ls_pooling poolings[] = {LS_POOL_SUM, LS_POOL_MEAN};
    for (int p = 0; p < 4; p++) {
        bool weighted = p >= 2;
        ls_kernel_pooled_lookup(
            want, 2, wide, &(const ls_table_shape){LS_F64, 6, 2},
            &(const ls_bags){ids, offsets, weighted ? weights : NULL, 1, poolings[p % 2], 4});
        ls_kernel_pooled_lookup(
            out, 2, cells, &(const ls_table_shape){LS_FIELD, 6, 2},
            &(const ls_bags){ids, offsets, weighted ? as_floats : NULL, 1, poolings[p % 2], 4});
        same(out, want, 8, weighted ? "weighted lookup" : "lookup");
        ls_kernel_divide_bags(want, 2, LS_F64, 2, 2,
                              &(const ls_bags){.ids = ids,
                                               .offsets = offsets,
                                               .weights = weighted ? weights : NULL,
                                               .padding_id = 1,
                                               .count = 4});
        ls_kernel_divide_bags(out, 2, LS_FIELD, 2, 2,
                              &(const ls_bags){.ids = ids,
                                               .offsets = offsets,
                                               .weights = weighted ? as_floats : NULL,
                                               .padding_id = 1,
                                               .count = 4});
        same(out, want, 8, "division");
    }
    const int64_t row_of[3] = {1, 0, 1}, starts[3] = {0, 2, 3}, order[3] = {0, 2, 1};
    ls_kernel_row_gradients(want, 2, &(const ls_gradients){wide, 2, LS_F64, row_of, weights},
                            starts, order, 2);
    ls_kernel_row_gradients(out, 2, &(const ls_gradients){cells, 2, LS_FIELD, row_of, as_floats},
                            starts, order, 2);
    same(out, want, 4, "row gradients");
    ls_kernel_weight_gradients(want, wide, &(const ls_table_shape){LS_F64, 6, 2},
                               &(const ls_gradients){.values = wide, .stride = 2, .row_of = row_of},
                               ids, 3, 3);
    ls_kernel_weight_gradients(
        out, cells, &(const ls_table_shape){LS_FIELD, 6, 2},
        &(const ls_gradients){.values = cells, .stride = 2, .row_of = row_of}, ids, 3, 3);
    same(out, want, 3, "weight gradients");
}

// ---- Optimizers ---------------------------------------------------------------------------------
// Inputs in which every root is of a square.
typedef struct example {
    ls_optimizer_kind kind;
    double weights[4], gradients[4], first, second;  // states
    double eps;
} example;

static const example examples[] = {
    {LS_OPTIMIZER_SGD, {2, 4, 5, 6}, {1, -1, 3, 2}, 2, 0, 0},
    {LS_OPTIMIZER_ADAGRAD, {2, 4, 5, 6}, {3, -3, 3, 3}, 16, 0, 1},
    {LS_OPTIMIZER_ROWWISE_ADAGRAD, {2, 4, 5, 6}, {3, -3, 3, 3}, 16, 0, 1},
    {LS_OPTIMIZER_ADAM, {2, 4, 5, 6}, {3, -3, 3, 3}, 2, 16, 1},
    {LS_OPTIMIZER_ADAMW, {2, 4, 5, 6}, {3, -3, 3, 3}, 2, 16, 1},
    {LS_OPTIMIZER_PARTIAL_ROWWISE_ADAM, {2, 4, 5, 6}, {3, -3, 3, 3}, 2, 16, 1},
    {LS_OPTIMIZER_LAMB, {2, 4, 5, 6}, {3, -3, 3, 3}, 0, 0, 0},
    {LS_OPTIMIZER_PARTIAL_ROWWISE_LAMB, {2, 4, 5, 6}, {3, -3, 3, 3}, 0, 0, 0},
    {LS_OPTIMIZER_LARS_SGD, {2, 4, 5, 6}, {1, -1, 1, 1}, 2, 0, 0},
};

static void compare_step(const example *e, ls_optimizer_form form, ls_weight_decay decay,
                         double momentum) {
    const ls_optimizer_traits *about = ls_optimizer_about(e->kind);
    bool lamb = e->kind == LS_OPTIMIZER_LAMB || e->kind == LS_OPTIMIZER_PARTIAL_ROWWISE_LAMB;
    size_t dim = lamb && decay != LS_DECAY_NONE ? 1 : 4;  // a norm of one number is its size
    ls_optimizer o = ls_optimizer_default(e->kind, form);
    o.lr = 0.5;
    o.eps = e->eps;
    o.beta1 = o.beta2 = 0.5;
    o.momentum = momentum;
    o.eta = 2;
    o.weight_decay = decay == LS_DECAY_NONE ? 0 : 0.25;
    o.decay = decay;
    cr_assert_eq(ls_optimizer_check(&o), LS_OK, "%s", about->name);
    // With the decay, the gradients are 3 or -3 again.
    const double decayed_weights[4] = {4, 8, -4, 12}, decayed_gradients[4] = {2, -5, 4, 0};
    bool decays = decay == LS_DECAY_L2 && e->kind != LS_OPTIMIZER_LARS_SGD;
    const double *gradients = decays ? decayed_gradients : e->gradients;
    double weights[4], states[2][4];
    uint32_t field_weights[4], field_gradients[4], field_states[2][4];
    memcpy(weights, decays || dim == 1 ? decayed_weights : e->weights, sizeof weights);
    for (size_t i = 0; i < 4; i++) {
        states[0][i] = e->first;
        states[1][i] = e->second;
    }
    to_field(field_weights, weights, 4);
    to_field(field_gradients, gradients, 4);
    to_field(field_states[0], states[0], 4);
    to_field(field_states[1], states[1], 4);
    int count = ls_optimizer_state_count(&o);
    const int64_t row = 0;
    ls_row_update update = {.weights = weights,
                            .dtype = LS_F64,
                            .rows = 1,
                            .dim = dim,
                            .states = {count > 0 ? states[0] : NULL, count > 1 ? states[1] : NULL},
                            .row_ids = &row,
                            .gradients = gradients,
                            .count = 1,
                            .factor = 1,
                            .step = 1};
    ls_kernel_update_rows(&o, &update);
    update.weights = field_weights;
    update.dtype = LS_FIELD;
    update.states[0] = count > 0 ? field_states[0] : NULL;
    update.states[1] = count > 1 ? field_states[1] : NULL;
    update.gradients = field_gradients;
    ls_kernel_update_rows(&o, &update);
    char what[96];
    (void)snprintf(what, sizeof what, "%s, form %d, decay %s", about->name, (int)form,
                   ls_weight_decay_name(decay));
    same(field_weights, weights, 4, what);
    same(field_states[0], states[0], 4, what);
    same(field_states[1], states[1], 4, what);
}

// Each kind, in both forms and with each decay that it has.
Test(field_rules, optimizers) {
    cr_assert_eq(sizeof examples / sizeof examples[0], (size_t)LS_OPTIMIZER_KIND_COUNT);
    for (size_t i = 0; i < sizeof examples / sizeof examples[0]; i++) {
        const example *e = &examples[i];
        for (int form = 0; form < LS_OPTIMIZER_FORM_COUNT; form++) {
            for (int decay = LS_DECAY_NONE; decay < LS_WEIGHT_DECAY_COUNT; decay++) {
                if ((ls_optimizer_about(e->kind)->decays[form] & (1u << decay)) == 0) {
                    continue;
                }
                bool lars = e->kind == LS_OPTIMIZER_LARS_SGD;
                bool sgd = e->kind == LS_OPTIMIZER_SGD && form == LS_OPTIMIZER_DENSE;
                compare_step(e, (ls_optimizer_form)form, (ls_weight_decay)decay, lars ? 0.5 : 0);
                if (sgd) {
                    compare_step(e, (ls_optimizer_form)form, (ls_weight_decay)decay, 0.5);
                }
            }
        }
    }
}
