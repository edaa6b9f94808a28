// Training by hand-computed numbers, and calls out of order.
#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#include "train.h"

#define TYPE_COUNT LS_SHARDING_COUNT

static void expect_right(const train_case *t, train_outcome *out, const char *what) {
    cr_assert(train_run(t, out) == LS_OK, "%s: %s", what, out->text);
    cr_assert(out->wrong == 0, "%s: %s", what, out->text);
    cr_assert(out->elements > 0, "%s: nothing was judged", what);
}

// Out of order, twice, another optimizer: refused with a sentence; another learning rate: not.
static int start_pass(embedding_case *c, ls_backend *backend, ls_embedding **module,
                      ls_embedding_pass **pass) {
    const ls_embedding_options options = {.tables = c->tables,
                                          .table_count = c->table_count,
                                          .plan = &c->plan,
                                          .fill = case_fill,
                                          .fill_arg = c};
    LS_TRY(ls_embedding_create(module, backend, &options));
    return ls_embedding_forward(pass, *module, (const ls_keyed_jagged *const *)c->inputs, NULL);
}

Test(training, steps_come_in_order) {
    train_table how = train_table_small(LS_OPTIMIZER_ADAGRAD);
    how.sharding = LS_ROW_WISE;
    how.ranks = how.per_host = 1;
    embedding_case c;
    train_case t;
    cr_assert(train_table_set_up(&how, &c, &t));
    cr_assert(case_inputs(&c, NULL, 2) == LS_OK);
    case_make_plan(&c);
    ls_world *world;
    ls_backend *backend;
    ls_embedding *module;
    ls_embedding_pass *pass;
    cr_assert(ls_world_create(&world, &(ls_world_options){.mesh = LS_MESH(1)}) == LS_OK);
    cr_assert(ls_backend_sim_create(&backend, world) == LS_OK);
    cr_assert(start_pass(&c, backend, &module, &pass) == LS_OK);
    float gradient[15] = {1};
    const void *pairs[] = {gradient, gradient};
    const void *const *ranks[] = {pairs};
    ls_training training = {.optimizers = t.optimizers};
    cr_assert(ls_embedding_update(pass, NULL) == LS_ERR_INVALID);
    cr_assert(ls_embedding_backward(pass, ranks, &training, NULL) == LS_OK);
    cr_assert(ls_embedding_backward(pass, ranks, &training, NULL) == LS_ERR_INVALID);
    cr_assert(ls_embedding_step(module) == 0);
    cr_assert(ls_embedding_update(pass, NULL) == LS_OK && ls_embedding_step(module) == 1);
    cr_assert(ls_embedding_update(pass, NULL) == LS_ERR_INVALID);
    t.optimizers[0].lr = 0.5;
    cr_assert(ls_embedding_prepare_training(module, &training) == LS_OK);
    t.optimizers[0] = ls_optimizer_default(LS_OPTIMIZER_ADAM, LS_OPTIMIZER_FUSED);
    cr_assert(ls_embedding_prepare_training(module, &training) == LS_ERR_INVALID);
    cr_assert(strstr(ls_error_last()->text, "table is trained by adagrad"), "%s",
              ls_error_last()->text);
    t.optimizers[0] = ls_optimizer_default(LS_OPTIMIZER_ADAGRAD, LS_OPTIMIZER_FUSED);
    training.clip_norm = -1;
    cr_assert(ls_embedding_prepare_training(module, &training) == LS_ERR_INVALID);
    ls_embedding_pass_free(pass);
    ls_embedding_free(module);
    ls_backend_free(backend);
    ls_world_free(world);
    case_free(&c);
}

static double whole_weight(const embedding_case *c, int table, int64_t row, int64_t column) {
    (void)c;
    (void)table;
    return (double)((row * 5 + column * 3) % 11 - 5);
}

// ---- By hand ------------------------------------------------------------------------------------

static double one_gradient(const train_case *t, int step, int rank, int pair, uint64_t index) {
    (void)t, (void)step, (void)pair, (void)index;
    return rank == 0 ? 1 : 3;
}

// Rank 0 asks for rows 1, 1 in one bag and rank 1 for 1 and 2, with gradients of 1 and 3: row 1
// gets 1 + 1 + 3 and row 2 gets 3, halved for two ranks; sgd of rate 1 takes them off; a mean
// halves once more. The padding id 2 has no gradient.
Test(training, two_rows_by_hand) {
    static const char *const keys[] = {"a"};
    static const int64_t lengths[] = {2}, ids[2][2] = {{1, 1}, {1, 2}};
    for (size_t i = 0; i < TYPE_COUNT * 3; i++) {
        embedding_case c;
        train_case t;
        ls_optimizer optimizer = ls_optimizer_default(LS_OPTIMIZER_SGD, LS_OPTIMIZER_FUSED);
        optimizer.lr = 1;
        case_init(&c, 2, 2, 0);
        c.weight = whole_weight;
        case_table(&c, "table", 3, 2, i / TYPE_COUNT == 1 ? LS_POOL_MEAN : LS_POOL_SUM, false, "a");
        c.tables[0].has_padding_id = i / TYPE_COUNT == 2;
        c.tables[0].padding_id = 2;
        cr_assert(case_place(&c, 0, train_types[i % TYPE_COUNT], 2));
        for (int r = 0; r < 2; r++) {
            cr_assert(ls_keyed_jagged_create(&c.inputs[r], r, keys, 1, 1, lengths, ids[r], 2,
                                             NULL) == LS_OK);
        }
        train_init(&t, &c, &optimizer);
        t.division = LS_GRADIENTS_DIVIDED;
        t.gradient = one_gradient;
        t.steps = 1;
        t.given_inputs = true;
        train_outcome out;
        expect_right(&t, &out, ls_sharding_name(train_types[i % TYPE_COUNT]));
        const float *got = out.tables[0][0];
        float by = i / TYPE_COUNT == 1 ? 2 : 1, second = i / TYPE_COUNT == 2 ? 0 : 1.5f / by;
        const float moved[] = {0, 0, 2.5f / by, 2.5f / by, second, second};
        for (int k = 0; k < 6; k++) {
            float before = (float)whole_weight(&c, 0, k / 2, k % 2);
            cr_assert(got[k] == before - moved[k], "%s %d: %g",
                      ls_sharding_name(train_types[i % TYPE_COUNT]), k, got[k]);
        }
        train_outcome_free(&out);
        case_free(&c);
    }
}

// The gradient of a weight is the product of the row with the gradient of its bag, complete on its
// source rank, for every sharding and division of row gradients.
static int check_weights(void *arg, const ls_stage_output *output) {
    int *seen = arg;
    if (strcmp(output->stage, "input_dist_backward") == 0) {
        static const double rows[2][2] = {{1, 1}, {1, 2}};
        const float *got = output->data;
        cr_assert(strcmp(output->field, "weights") == 0 && output->shape.dim[0] == 2);
        for (int i = 0; i < 2; i++) {
            int64_t row = (int64_t)rows[output->rank][i];
            double sum = whole_weight(NULL, 0, row, 0) + whole_weight(NULL, 0, row, 1) +
                         whole_weight(NULL, 0, row, 2);
            cr_assert(got[i] == (float)(sum * (output->rank == 0 ? 1 : 3)), "rank %d: %g",
                      output->rank, got[i]);
        }
        ++*seen;
    }
    return LS_OK;
}

Test(training, gradients_of_weights_by_hand) {
    static const char *const keys[] = {"a"};
    static const int64_t lengths[] = {2}, ids[2][2] = {{1, 1}, {1, 2}};
    static const float weights[] = {0.5f, -2};
    for (size_t i = 0; i < TYPE_COUNT * 2; i++) {
        embedding_case c;
        train_case t;
        train_outcome out;
        int seen = 0;
        ls_optimizer optimizer = ls_optimizer_default(LS_OPTIMIZER_SGD, LS_OPTIMIZER_FUSED);
        case_init(&c, 2, 2, 0);
        c.weight = whole_weight;
        case_table(&c, "table", 3, 3, LS_POOL_SUM, true, "a");
        cr_assert(case_place(&c, 0, train_types[i % TYPE_COUNT], 2));
        for (int r = 0; r < 2; r++) {
            cr_assert(ls_keyed_jagged_create(&c.inputs[r], r, keys, 1, 1, lengths, ids[r], 2,
                                             weights) == LS_OK);
        }
        train_init(&t, &c, &optimizer);
        t.division = i < TYPE_COUNT ? LS_GRADIENTS_DIVIDED : LS_GRADIENTS_SUMMED;
        t.gradient = one_gradient;
        t.steps = 1;
        t.given_inputs = true;
        t.sink = (ls_stage_sink){.arg = &seen, .emit = check_weights};
        expect_right(&t, &out, ls_sharding_name(train_types[i % TYPE_COUNT]));
        cr_assert(seen == 2);
        train_outcome_free(&out);
        case_free(&c);
    }
}

// ---- max_norm -----------------------------------------------------------------------------------

static double three_four(const embedding_case *c, int table, int64_t row, int64_t column) {
    (void)c;
    (void)table;
    return row == 1 ? (column == 0 ? 3 : 4) : 0.125;
}

// A row of norm 5 is looked up as one of norm 1: by hand.
Test(training, max_norm_by_hand) {
    static const char *const keys[] = {"a"};
    static const int64_t lengths[] = {1}, ids[] = {1};
    for (size_t i = 0; i < TYPE_COUNT; i++) {
        embedding_case c;
        case_outcome out;
        case_init(&c, 2, 2, 0);
        c.weight = three_four;
        case_table(&c, "table", 3, 2, LS_POOL_SUM, false, "a");
        c.tables[0].max_norm = 1;
        cr_assert(case_place(&c, 0, train_types[i], 2));
        for (int r = 0; r < 2; r++) {
            cr_assert(ls_keyed_jagged_create(&c.inputs[r], r, keys, 1, 1, lengths, ids, 1, NULL) ==
                      LS_OK);
        }
        cr_assert(case_run(&c, &out) == LS_OK, "%s", out.text);
        cr_assert(out.wrong == 0, "%s", out.text);
        const float *values = out.outputs[1][0][0];
        cr_assert(fabsf(values[0] - 0.6f) < 1e-6f && fabsf(values[1] - 0.8f) < 1e-6f, "%s: %g %g",
                  ls_sharding_name(train_types[i]), values[0], values[1]);
        case_outcome_free(&out);
        case_free(&c);
    }
}
