// Tests of backward and update under every sharding type, judged by the oracle, step after step.
#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#include "train.h"

static const ls_sharding all_types[] = {LS_DATA_PARALLEL, LS_TABLE_WISE,     LS_COLUMN_WISE,
                                        LS_ROW_WISE,      LS_TABLE_ROW_WISE, LS_TABLE_COLUMN_WISE,
                                        LS_GRID};
#define TYPE_COUNT (sizeof(all_types) / sizeof(all_types[0]))

typedef struct pooling_case {
    ls_pooling pooling;
    bool weighted;
} pooling_case;
static const pooling_case poolings[] = {{LS_POOL_NONE, false},
                                        {LS_POOL_SUM, false},
                                        {LS_POOL_SUM, true},
                                        {LS_POOL_MEAN, false},
                                        {LS_POOL_MEAN, true}};
#define POOLING_COUNT (sizeof(poolings) / sizeof(poolings[0]))

static void expect_right(const train_case *t, train_outcome *out, const char *what) {
    cr_assert(train_run(t, out) == LS_OK, "%s: %s", what, out->text);
    cr_assert(out->wrong == 0, "%s: %s", what, out->text);
    cr_assert(out->elements > 0, "%s: nothing was judged", what);
}

// One table under one sharding type. Returns false where the type does not apply.
typedef struct table_case {
    int ranks, per_host;
    ls_sharding sharding;
    ls_pooling pooling;
    bool weighted;
    int64_t rows, dim;
    ls_dtype dtype;
    ls_optimizer optimizer;
} table_case;

static bool set_up(const table_case *how, embedding_case *c, train_case *t) {
    case_init(c, how->ranks, how->per_host, 17);
    int index = case_table(c, "table", how->rows, how->dim, how->pooling, how->weighted, "a,b");
    c->tables[index].dtype = how->dtype;
    train_init(t, c, &how->optimizer);
    t->division = LS_GRADIENTS_DIVIDED;
    return case_place(c, index, how->sharding, 2);
}

static table_case small(ls_optimizer_kind kind) {
    return (table_case){.ranks = 4,
                        .per_host = 2,
                        .pooling = LS_POOL_SUM,
                        .rows = 7,
                        .dim = 5,
                        .dtype = LS_F32,
                        .optimizer = ls_optimizer_default(kind, LS_OPTIMIZER_FUSED)};
}

static const char *name_of(const table_case *how) {
    static char text[128];
    snprintf(text, sizeof(text), "%s (form %d), %s, pooling %d%s, %s",
             ls_optimizer_about(how->optimizer.kind)->name, how->optimizer.form,
             ls_sharding_name(how->sharding), how->pooling, how->weighted ? " weighted" : "",
             ls_dtype_name(how->dtype));
    return text;
}

// Every sharding type, optimizer, form and pooling: three steps, two features, duplicates. Only
// what takes the norm of a row may differ from the unsharded table, and only where columns are cut.
Test(training, every_type_and_optimizer) {
    uint64_t by_design = 0;
    for (int kind = 0; kind < LS_OPTIMIZER_KIND_COUNT; kind++) {
        for (size_t i = 0; i < 2 * TYPE_COUNT * POOLING_COUNT; i++) {
            table_case how = small((ls_optimizer_kind)kind);
            how.optimizer.form = (ls_optimizer_form)(i % 2);
            how.sharding = all_types[i / 2 % TYPE_COUNT];
            how.pooling = poolings[i / 2 / TYPE_COUNT].pooling;
            how.weighted = poolings[i / 2 / TYPE_COUNT].weighted;
            embedding_case c;
            train_case t;
            train_outcome out;
            cr_assert(set_up(&how, &c, &t));
            expect_right(&t, &out, name_of(&how));
            bool cut = c.plans[0].shards[0].columns < how.dim;
            bool norms = ls_optimizer_about(how.optimizer.kind)->row_norms;
            cr_assert((cut && norms) == (out.by_design > 0), "%s: %s", name_of(&how), out.text);
            by_design += out.by_design;
            train_outcome_free(&out);
            case_free(&c);
        }
    }
    cr_assert(by_design > 0);
}

// Worlds, batches and tables of all sizes: uneven, empty ranks, no samples, one rank, one row, more
// ranks than rows.
Test(training, every_world_and_batch) {
    static const int worlds[][2] = {{1, 1}, {2, 1}, {3, 3}, {4, 2}, {6, 3}};
    static const int64_t batches[][6] = {
        {3, 3, 3, 3, 3, 3}, {0, 2, 5, 1, 0, 3}, {0, 0, 0, 0, 0, 0}};
    static const int64_t shapes[][2] = {{9, 4}, {1, 1}, {2, 3}};
    for (size_t w = 0; w < 5 * TYPE_COUNT * POOLING_COUNT; w++) {
        for (size_t s = 0; s < 9; s++) {
            table_case how = small(s % 2 ? LS_OPTIMIZER_ADAGRAD : LS_OPTIMIZER_SGD);
            how.ranks = worlds[w % 5][0];
            how.per_host = worlds[w % 5][1];
            how.sharding = all_types[w / 5 % TYPE_COUNT];
            how.pooling = poolings[w / 5 / TYPE_COUNT].pooling;
            how.weighted = poolings[w / 5 / TYPE_COUNT].weighted;
            how.rows = shapes[s / 3][0];
            how.dim = shapes[s / 3][1];
            embedding_case c;
            train_case t;
            train_outcome out;
            if (set_up(&how, &c, &t)) {
                t.batches = batches[s % 3];
                t.steps = 2;
                expect_right(&t, &out, name_of(&how));
                train_outcome_free(&out);
            }
            case_free(&c);
        }
    }
}

// Narrow and wide tables; f16 and bf16 rounded to nearest and stochastically.
Test(training, every_dtype) {
    static const ls_dtype dtypes[] = {LS_F16, LS_BF16, LS_F64};
    for (size_t i = 0; i < 3 * TYPE_COUNT * POOLING_COUNT; i++) {
        for (int stochastic = 0; stochastic < 2; stochastic++) {
            table_case how = small(LS_OPTIMIZER_ROWWISE_ADAGRAD);
            how.dtype = dtypes[i % 3];
            how.sharding = all_types[i / 3 % TYPE_COUNT];
            how.pooling = poolings[i / 3 / TYPE_COUNT].pooling;
            how.weighted = poolings[i / 3 / TYPE_COUNT].weighted;
            how.optimizer.stochastic_rounding = stochastic;
            how.optimizer.lr = 0.5;
            embedding_case c;
            train_case t;
            train_outcome out;
            cr_assert(set_up(&how, &c, &t));
            expect_right(&t, &out, name_of(&how));
            train_outcome_free(&out);
            case_free(&c);
        }
    }
}

// f8 has no training, max pooling no backward, and both say so.
Test(training, what_cannot_be_trained_is_refused) {
    table_case how = small(LS_OPTIMIZER_SGD);
    embedding_case c;
    train_case t;
    train_outcome out;
    how.sharding = LS_ROW_WISE;
    how.pooling = LS_POOL_MAX;
    cr_assert(set_up(&how, &c, &t));
    cr_assert(train_run(&t, &out) == LS_ERR_UNSUPPORTED);
    cr_assert(strstr(out.text, "max") && strstr(out.text, "table"), "%s", out.text);
    case_free(&c);
    how.pooling = LS_POOL_SUM;
    how.dtype = LS_F8E4M3;
    cr_assert(set_up(&how, &c, &t));
    cr_assert(train_run(&t, &out) == LS_ERR_UNSUPPORTED);
    cr_assert(strstr(out.text, "f8e4m3"), "%s", out.text);
    case_free(&c);
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
    table_case how = small(LS_OPTIMIZER_ADAGRAD);
    how.sharding = LS_ROW_WISE;
    how.ranks = how.per_host = 1;
    embedding_case c;
    train_case t;
    cr_assert(set_up(&how, &c, &t));
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

// ---- The same bits under every sharding type ----------------------------------------------------

static double whole_weight(const embedding_case *c, int table, int64_t row, int64_t column) {
    (void)c;
    (void)table;
    return (double)((row * 5 + column * 3) % 11 - 5);
}

static double whole_gradient(const train_case *t, int step, int rank, int pair, uint64_t index) {
    (void)t;
    return (double)((index * 7 + (uint64_t)(rank * 3 + pair * 5 + step)) % 9) - 4;
}

// Whole gradients add up to the same sums in any order, so that weights and states agree bit by
// bit.
Test(training, exact_sums_make_types_agree) {
    for (int kind = 0; kind < LS_OPTIMIZER_KIND_COUNT; kind++) {
        for (size_t p = 0; p < 2; p++) {
            train_outcome first = {0}, out;
            for (size_t i = 0; i < TYPE_COUNT; i++) {
                table_case how = small((ls_optimizer_kind)kind);
                how.sharding = all_types[i];
                how.pooling = poolings[p].pooling;
                embedding_case c;
                train_case t;
                cr_assert(set_up(&how, &c, &t));
                c.weight = whole_weight;
                t.gradient = whole_gradient;
                expect_right(&t, &out, name_of(&how));
                bool cut = c.plans[0].shards[0].columns < how.dim;
                bool norms = ls_optimizer_about(how.optimizer.kind)->row_norms;
                for (int what = 0; i > 0 && !(cut && norms) && what < 3; what++) {
                    cr_assert(out.bytes[0][what] == first.bytes[0][what], "%s", name_of(&how));
                    cr_assert(out.bytes[0][what] == 0 ||
                                  memcmp(out.tables[0][what], first.tables[0][what],
                                         out.bytes[0][what]) == 0,
                              "%s: array %d differs", name_of(&how), what);
                }
                if (i == 0) {
                    first = out;
                } else {
                    train_outcome_free(&out);
                }
                case_free(&c);
            }
            train_outcome_free(&first);
        }
    }
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
        cr_assert(case_place(&c, 0, all_types[i % TYPE_COUNT], 2));
        for (int r = 0; r < 2; r++) {
            cr_assert(ls_keyed_jagged_create(&c.inputs[r], NULL, r, keys, 1, 1, lengths, ids[r], 2,
                                             NULL) == LS_OK);
        }
        train_init(&t, &c, &optimizer);
        t.division = LS_GRADIENTS_DIVIDED;
        t.gradient = one_gradient;
        t.steps = 1;
        t.given_inputs = true;
        train_outcome out;
        expect_right(&t, &out, ls_sharding_name(all_types[i % TYPE_COUNT]));
        const float *got = out.tables[0][0];
        float by = i / TYPE_COUNT == 1 ? 2 : 1, second = i / TYPE_COUNT == 2 ? 0 : 1.5f / by;
        const float moved[] = {0, 0, 2.5f / by, 2.5f / by, second, second};
        for (int k = 0; k < 6; k++) {
            float before = (float)whole_weight(&c, 0, k / 2, k % 2);
            cr_assert(got[k] == before - moved[k], "%s %d: %g", ls_sharding_name(all_types[i % 7]),
                      k, got[k]);
        }
        train_outcome_free(&out);
        case_free(&c);
    }
}

// ---- Clipping -----------------------------------------------------------------------------------

// The norm is that of all tables together, of copies once, under every mixture of sharding types.
Test(training, clipping_is_over_all_tables) {
    static const char *const names[] = {"t0", "t1", "t2"};
    for (size_t i = 0; i < TYPE_COUNT * TYPE_COUNT; i++) {
        embedding_case c;
        train_case t;
        ls_optimizer optimizer = ls_optimizer_default(LS_OPTIMIZER_SGD, LS_OPTIMIZER_FUSED);
        optimizer.lr = 1;
        case_init(&c, 4, 2, i);
        for (int k = 0; k < 3; k++) {
            case_table(&c, names[k], 6 + k, 4, k == 1 ? LS_POOL_NONE : LS_POOL_SUM, false, "a,b");
            ls_sharding sharding = all_types[k == 0   ? i % TYPE_COUNT
                                             : k == 1 ? i / TYPE_COUNT
                                                      : (i + 3) % TYPE_COUNT];
            cr_assert(case_place(&c, k, sharding, 2));
        }
        train_init(&t, &c, &optimizer);
        t.clip_norm = i % 2 ? 0.5 : 1e9;
        train_outcome out;
        expect_right(&t, &out, "clipping");
        cr_assert(out.by_design == 0);
        train_outcome_free(&out);
        case_free(&c);
    }
}

// ---- max_norm -----------------------------------------------------------------------------------

// Rows are scaled down before they are looked up: by the norm of the whole row under every sharding
// type, on all copies, padding ids included. The oracle judges what is looked up and what is left.
Test(training, max_norm_is_of_whole_rows) {
    static const double norms[] = {2, 1, 3, INFINITY, 0};
    for (size_t i = 0; i < 5 * TYPE_COUNT * POOLING_COUNT; i++) {
        table_case how = small(LS_OPTIMIZER_ADAGRAD);
        how.sharding = all_types[i / 5 % TYPE_COUNT];
        how.pooling = poolings[i / 5 / TYPE_COUNT].pooling;
        how.weighted = poolings[i / 5 / TYPE_COUNT].weighted;
        how.rows = 12;
        how.optimizer.lr = 1;
        embedding_case c;
        train_case t;
        train_outcome out;
        cr_assert(set_up(&how, &c, &t));
        c.tables[0].max_norm = 1.5;
        c.tables[0].norm_type = norms[i % 5];
        c.tables[0].has_padding_id = true;
        c.tables[0].padding_id = 3;
        expect_right(&t, &out, name_of(&how));
        cr_assert(out.by_design == 0);
        train_outcome_free(&out);
        case_free(&c);
    }
}

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
        cr_assert(case_place(&c, 0, all_types[i], 2));
        for (int r = 0; r < 2; r++) {
            cr_assert(ls_keyed_jagged_create(&c.inputs[r], NULL, r, keys, 1, 1, lengths, ids, 1,
                                             NULL) == LS_OK);
        }
        cr_assert(case_run(&c, &out) == LS_OK, "%s", out.text);
        cr_assert(out.wrong == 0, "%s", out.text);
        const float *values = out.outputs[1][0][0];
        cr_assert(fabsf(values[0] - 0.6f) < 1e-6f && fabsf(values[1] - 0.8f) < 1e-6f, "%s: %g %g",
                  ls_sharding_name(all_types[i]), values[0], values[1]);
        case_outcome_free(&out);
        case_free(&c);
    }
}

// ---- Planted defects ----------------------------------------------------------------------------

static bool is_field(const ls_stage_output *output, const char *stage, const char *field) {
    return strcmp(output->stage, stage) == 0 && strcmp(output->field, field) == 0;
}

static bool divide_again(const train_case *t, int step, const ls_stage_output *output, void *data,
                         size_t count) {
    (void)step;
    if (!is_field(output, "lookup_backward", "gradients")) {
        return false;
    }
    for (size_t i = 0; i < count; i++) {
        ((float *)data)[i] /= (float)t->c->ranks;
    }
    return count > 0;
}

// Takes one occurrence's gradient, which is 1 over the ranks, off the first row.
static bool count_once(const train_case *t, int step, const ls_stage_output *output, void *data,
                       size_t count) {
    if (!is_field(output, "lookup_backward", "gradients") || count == 0 || step != 1) {
        return false;
    }
    ((float *)data)[0] -= 1.0f / (float)t->c->ranks;
    return true;
}

static bool lose_rows(const train_case *t, int step, const ls_stage_output *output, void *data,
                      size_t count) {
    (void)t;
    (void)step;
    if (!is_field(output, "lookup_backward", "rows") || count == 0) {
        return false;
    }
    ((int64_t *)data)[0] += 1;
    return true;
}

static bool stale_weights(const train_case *t, int step, const ls_stage_output *output, void *data,
                          size_t count) {
    (void)t;
    if (!is_field(output, "update", "weights") || count == 0 || step != 2) {
        return false;
    }
    for (size_t i = 0; i < count; i++) {
        ((float *)data)[i] += 0x1p-16f;
    }
    return true;
}

static void expect_seen(train_case *t, const char *what, const char *stage, const char *words) {
    train_outcome out;
    cr_assert(train_run(t, &out) == LS_OK, "%s: %s", what, out.text);
    cr_assert(out.wrong > 0, "%s is not seen", what);
    cr_assert(strcmp(out.stage, stage) == 0, "%s is seen in %s: %s", what, out.stage, out.text);
    cr_assert(strstr(out.text, words), "%s: %s", what, out.text);
    train_outcome_free(&out);
}

static double ones(const train_case *t, int step, int rank, int pair, uint64_t index) {
    (void)t, (void)step, (void)rank, (void)pair, (void)index;
    return 1;
}

// What a defect changes in an output is seen there, and nothing was changed before.
Test(training, spoilt_outputs_are_seen) {
    static const struct {
        const char *what, *stage, *words;
        bool (*spoil)(const train_case *t, int step, const ls_stage_output *output, void *data,
                      size_t count);
    } defects[] = {{"a gradient divided twice", "lookup_backward",
                    "divided by the number of ranks once more", divide_again},
                   {"a duplicate counted once", "lookup_backward", "were missing", count_once},
                   {"another row", "lookup_backward", "expected", lose_rows},
                   {"weights slightly off", "update", "row ", stale_weights}};
    for (size_t i = 0; i < 4 * TYPE_COUNT; i++) {
        table_case how = small(LS_OPTIMIZER_ROWWISE_ADAGRAD);
        how.sharding = all_types[i % TYPE_COUNT];
        if (i / TYPE_COUNT == 2 && how.sharding == LS_DATA_PARALLEL) {
            continue;  // it has gradients of all rows
        }
        embedding_case c;
        train_case t;
        cr_assert(set_up(&how, &c, &t));
        t.spoil = defects[i / TYPE_COUNT].spoil;
        t.gradient = t.spoil == count_once ? ones : NULL;
        expect_seen(&t, defects[i / TYPE_COUNT].what, defects[i / TYPE_COUNT].stage,
                    defects[i / TYPE_COUNT].words);
        case_free(&c);
    }
}

// Exchanges the states of the shards of ranks 0 and 1, before the second update.
static void swap_states(const train_case *t, int step, ls_embedding *module) {
    ls_shape shape;
    ls_dtype dtype;
    float *first = ls_embedding_state(module, 0, 0, 0, 0, &shape, &dtype);
    float *second = ls_embedding_state(module, 0, 1, 1, 0, &shape, &dtype);
    (void)t;
    cr_assert(first && second && dtype == LS_F32 && shape.ndim == 1);
    for (int64_t i = 0; step == 1 && i < shape.dim[0]; i++) {
        float kept = first[i];
        first[i] = second[i];
        second[i] = kept;
    }
}

static void forget_state(const train_case *t, int step, ls_embedding *module) {
    ls_shape shape;
    ls_dtype dtype;
    float *state = ls_embedding_state(module, 0, 0, 0, 0, &shape, &dtype);
    (void)t;
    cr_assert(state && shape.dim[0] > 0);
    for (int64_t i = 0; step == 1 && i < shape.dim[0]; i++) {
        state[i] = 0;
    }
}

static void repeat_step(const train_case *t, int step, ls_embedding *module) {
    (void)t;
    ls_embedding_set_step(module, step == 1 ? 0 : ls_embedding_step(module));
}

// The state of another shard, a state that was lost, a step that was not counted.
Test(training, wrong_states_are_seen) {
    table_case how = small(LS_OPTIMIZER_ROWWISE_ADAGRAD);
    how.sharding = LS_ROW_WISE;
    how.rows = 8;
    embedding_case c;
    train_case t;
    cr_assert(set_up(&how, &c, &t));
    t.meddle = swap_states;
    expect_seen(&t, "the state of another shard", "update", "row ");
    t.meddle = forget_state;
    expect_seen(&t, "a lost state", "update", "row ");
    case_free(&c);
    how = small(LS_OPTIMIZER_ADAM);
    how.sharding = LS_ROW_WISE;
    cr_assert(set_up(&how, &c, &t));
    t.meddle = repeat_step;
    expect_seen(&t, "a step that was not counted", "update", "row ");
    case_free(&c);
}
