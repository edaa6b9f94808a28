// Injected defects of training, which the oracle must find at their place.
#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#include "train.h"

#define TYPE_COUNT LS_SHARDING_COUNT

// ---- Injected defects ---------------------------------------------------------------------------

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

static bool do_not_divide(const train_case *t, int step, const ls_stage_output *output, void *data,
                          size_t count) {
    (void)step;
    if (!is_field(output, "lookup_backward", "gradients")) {
        return false;
    }
    for (size_t i = 0; i < count; i++) {
        ((float *)data)[i] *= (float)t->c->ranks;
    }
    return count > 0;
}

// Subtracts one occurrence's gradient, which is 1 over the ranks, from the first row.
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

// A defect's change of an output is found there, and nothing was changed before.
Test(training, spoilt_outputs_are_seen) {
    static const struct {
        const char *what, *stage, *words;
        bool (*spoil)(const train_case *t, int step, const ls_stage_output *output, void *data,
                      size_t count);
    } defects[] = {{"a gradient divided twice", "lookup_backward",
                    "as if divided by the number of ranks once more", divide_again},
                   {"a gradient not divided", "lookup_backward",
                    "as if not divided by the number of ranks", do_not_divide},
                   {"a duplicate counted once", "lookup_backward", "were missing", count_once},
                   {"another row", "lookup_backward", "expected", lose_rows},
                   {"weights slightly off", "update", "row ", stale_weights}};
    for (size_t i = 0; i < 5 * TYPE_COUNT; i++) {
        train_table how = train_table_small(LS_OPTIMIZER_ROWWISE_ADAGRAD);
        how.sharding = train_types[i % TYPE_COUNT];
        if (defects[i / TYPE_COUNT].spoil == lose_rows && how.sharding == LS_DATA_PARALLEL) {
            continue;  // it has gradients of all rows
        }
        embedding_case c;
        train_case t;
        cr_assert(train_table_set_up(&how, &c, &t));
        t.spoil = defects[i / TYPE_COUNT].spoil;
        t.gradient = t.spoil == count_once ? ones : NULL;
        expect_seen(&t, defects[i / TYPE_COUNT].what, defects[i / TYPE_COUNT].stage,
                    defects[i / TYPE_COUNT].words);
        case_free(&c);
    }
}

static uint64_t bent;  // elements that are not zero

// A relative 2^-16, which no rounding of few f32 values explains.
static bool bend_gradients(const train_case *t, int step, const ls_stage_output *output, void *data,
                           size_t count) {
    (void)t, (void)step;
    bool bends = is_field(output, "lookup_backward", "gradients");
    for (size_t i = 0; bends && i < count; i++) {
        bent += ((float *)data)[i] != 0;
        ((float *)data)[i] *= 1 + 0x1p-16f;
    }
    return bends && count > 0;
}

// The sum of weights that a gradient is divided by is known to the last places of f64 or f32,
// however many weights there are: if they do not cancel, each changed element is wrong.
Test(training, means_of_weights_have_tight_bounds) {
    for (int i = 0; i < 2 * TYPE_COUNT; i++) {
        train_table how = train_table_small(LS_OPTIMIZER_ROWWISE_ADAGRAD);
        how.sharding = train_types[i / 2];
        how.pooling = LS_POOL_MEAN;
        how.weighted = true;
        embedding_case c;
        train_case t;
        cr_assert(train_table_set_up(&how, &c, &t));
        c.tables[0].mean_divisor = i % 2 ? LS_MEAN_TORCHREC : LS_MEAN_WEIGHTS;
        cr_assert(case_inputs(&c, NULL, 12) == LS_OK);
        for (int r = 0; r < how.ranks; r++) {
            float *weights = (float *)c.inputs[r]->weights;
            for (int64_t k = 0; k < c.inputs[r]->value_count; k++) {
                weights[k] = 0.5f + fabsf(weights[k]);
            }
        }
        t.given_inputs = true;
        t.steps = 1;
        t.gradient = ones;
        t.spoil = bend_gradients;
        bent = 0;
        train_outcome out;
        cr_assert(train_run(&t, &out) == LS_OK, "%s", out.text);
        cr_expect(bent > 0 && out.wrong == bent, "%s: %d of %d", train_table_name(&how),
                  (int)out.wrong, (int)bent);
        train_outcome_free(&out);
        case_free(&c);
    }
}

// Swaps the states of the shards of ranks 0 and 1 before the second update.
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

// The state of another shard, a lost state, an uncounted step.
Test(training, wrong_states_are_seen) {
    train_table how = train_table_small(LS_OPTIMIZER_ROWWISE_ADAGRAD);
    how.sharding = LS_ROW_WISE;
    how.rows = 8;
    embedding_case c;
    train_case t;
    cr_assert(train_table_set_up(&how, &c, &t));
    t.meddle = swap_states;
    expect_seen(&t, "the state of another shard", "update", "row ");
    t.meddle = forget_state;
    expect_seen(&t, "a lost state", "update", "row ");
    case_free(&c);
    how = train_table_small(LS_OPTIMIZER_ADAM);
    how.sharding = LS_ROW_WISE;
    cr_assert(train_table_set_up(&how, &c, &t));
    t.meddle = repeat_step;
    expect_seen(&t, "a step that was not counted", "update", "row ");
    case_free(&c);
}
