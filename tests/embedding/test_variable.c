// Tests of a batch size for each feature: bags that several samples take, under every sharding
// type, forward and backward.
#include <criterion/criterion.h>
#include <string.h>

#include "train.h"

static double small(const embedding_case *c, int table, int64_t row, int64_t column) {
    (void)c;
    return (double)(1 + table * 100 + row * 10 + column);
}

// ---- Inputs -------------------------------------------------------------------------------------

static const char *const two_keys[] = {"a", "b"};
static const int64_t two_strides[] = {2, 1}, two_inverse[] = {1, 0, 1, 0, 0, 0},
                     two_lengths[] = {1, 2, 0}, two_ids[] = {4, 5, 6};

Test(variable, inputs) {
    ls_keyed_jagged *input, *swapped, *whole, *parts[2];
    cr_assert(ls_keyed_jagged_create_variable(&input, 0, two_keys, 2, two_strides, 3, two_inverse,
                                              two_lengths, two_ids, 3, NULL) == LS_OK);
    ls_jagged a = ls_keyed_jagged_feature(input, 0), b = ls_keyed_jagged_feature(input, 1);
    cr_assert(a.batch == 2 && a.samples == 3 && b.batch == 1 && b.samples == 3);
    cr_assert(ls_jagged_sample_ids(&a) == 2 + 1 + 2 && ls_jagged_sample_ids(&b) == 0);
    cr_assert(ls_keyed_jagged_permute(&swapped, input, (int[]){1, 0}, 2) == LS_OK);
    a = ls_keyed_jagged_feature(swapped, 1);
    cr_assert(a.batch == 2 && a.lengths[1] == 2 && a.inverse_indices[0] == 1 && a.ids[2] == 6);
    cr_assert(ls_keyed_jagged_split(parts, input, (int[]){1, 1}, 2) == LS_OK);
    cr_assert(parts[1]->starts[1] == 1 && parts[1]->inverse_indices[2] == 0);
    cr_assert(ls_keyed_jagged_concat(&whole, (const ls_keyed_jagged *const *)parts, 2) == LS_OK);
    cr_assert(memcmp(whole->inverse_indices, two_inverse, sizeof(two_inverse)) == 0);
    cr_assert(memcmp(whole->starts, (int64_t[]){0, 2, 3}, 3 * sizeof(int64_t)) == 0);
    ls_keyed_jagged_free(whole);
    ls_keyed_jagged_free(parts[0]);
    // An input with one batch for all features does not combine with one that has a size for each.
    cr_assert(ls_keyed_jagged_create(&parts[0], 0, (const char *[]){"c"}, 1, 3,
                                     (int64_t[]){0, 0, 0}, NULL, 0, NULL) == LS_OK);
    cr_assert(ls_keyed_jagged_concat(&whole, (const ls_keyed_jagged *const *)parts, 2) ==
              LS_ERR_INVALID);
    cr_assert(strstr(ls_error_last()->text, "a batch size per feature"), "%s",
              ls_error_last()->text);
    for (int i = 0; i < 2; i++) {
        ls_keyed_jagged_free(parts[i]);
    }
    ls_keyed_jagged_free(swapped);
    ls_keyed_jagged_free(input);
}

static const char *refused(const int64_t *strides, const int64_t *inverse, const int64_t *lengths) {
    ls_keyed_jagged *input;
    cr_assert(ls_keyed_jagged_create_variable(&input, 3, two_keys, 2, strides, 3, inverse, lengths,
                                              two_ids, 3, NULL) == LS_ERR_INVALID);
    cr_assert(input == NULL);
    return ls_error_last()->text;
}

Test(variable, inputs_that_do_not_fit) {
    static const int64_t far[] = {1, 0, 1, 0, 1, 0}, below[] = {1, -1, 1, 0, 0, 0};
    static const int64_t none[] = {2, -1}, late[] = {1, 1, -1};
    const char *text = refused(two_strides, far, two_lengths);
    cr_assert(strstr(text, "rank 3: feature b, sample 1: its inverse index is 1"), "%s", text);
    text = refused(two_strides, below, two_lengths);
    cr_assert(strstr(text, "feature a, sample 1: its inverse index is -1"), "%s", text);
    text = refused(none, two_inverse, two_lengths);
    cr_assert(strstr(text, "feature b has -1 bags"), "%s", text);
    text = refused(two_strides, two_inverse, late);
    cr_assert(strstr(text, "feature b, bag 0: length -1 is negative"), "%s", text);
}

// ---- By hand ------------------------------------------------------------------------------------

static double numbered_gradient(const train_case *t, int step, int rank, int pair, uint64_t index) {
    (void)t, (void)step, (void)pair;
    return rank == 0 ? (double)(1 << (index / 2)) : 0;
}

typedef struct seen {
    int outputs, gradients;
} seen;

// Samples 0 and 2 of rank 0 take bag 1 = rows 1 and 2, sample 1 takes bag 0 = row 0; gradients of
// 1, 2, 4 by sample.
static int check_by_hand(void *arg, const ls_stage_output *output) {
    seen *s = arg;
    const float *got = output->data;
    if (output->rank == 0 && strcmp(output->stage, "output_dist") == 0) {
        static const float want[] = {11 + 21, 12 + 22, 1, 2, 11 + 21, 12 + 22};
        cr_assert(output->shape.dim[0] == 3 && memcmp(got, want, sizeof(want)) == 0);
        s->outputs++;
    } else if (output->rank == 0 && strcmp(output->stage, "output_grad") == 0) {
        static const float want[] = {2, 2, 5, 5};
        cr_assert(output->shape.dim[0] == 2 && memcmp(got, want, sizeof(want)) == 0);
        s->gradients++;
    }
    return LS_OK;
}

Test(variable, three_samples_by_hand) {
    for (size_t i = 0; i < LS_SHARDING_COUNT; i++) {
        embedding_case c;
        train_case t;
        seen s = {0};
        ls_optimizer optimizer = ls_optimizer_default(LS_OPTIMIZER_SGD, LS_OPTIMIZER_FUSED);
        optimizer.lr = 1;
        case_init(&c, 2, 2, 0);
        c.weight = small;
        case_table(&c, "table", 3, 2, LS_POOL_SUM, false, "a");
        cr_assert(case_place(&c, 0, train_types[i], 2));
        static const char *const keys[] = {"a"};
        cr_assert(ls_keyed_jagged_create_variable(&c.inputs[0], 0, keys, 1, (int64_t[]){2}, 3,
                                                  (int64_t[]){1, 0, 1}, (int64_t[]){1, 2},
                                                  (int64_t[]){0, 1, 2}, 3, NULL) == LS_OK);
        cr_assert(ls_keyed_jagged_create_variable(&c.inputs[1], 1, keys, 1, (int64_t[]){0}, 0, NULL,
                                                  NULL, NULL, 0, NULL) == LS_OK);
        train_init(&t, &c, &optimizer);
        t.division = LS_GRADIENTS_SUMMED;
        t.gradient = numbered_gradient;
        t.steps = 1;
        t.given_inputs = true;
        t.sink = (ls_stage_sink){.emit = check_by_hand, .arg = &s};
        train_outcome out;
        cr_assert(train_run(&t, &out) == LS_OK && out.wrong == 0, "%s", out.text);
        cr_assert(s.outputs == 1 && s.gradients == 1);
        const float *got = out.tables[0][0],
                    want[] = {1 - 2, 2 - 2, 11 - 5, 12 - 5, 21 - 5, 22 - 5};
        cr_assert(memcmp(got, want, sizeof(want)) == 0, "%s", ls_sharding_name(train_types[i]));
        train_outcome_free(&out);
        case_free(&c);
    }
}

// ---- Exchanged data -----------------------------------------------------------------------------

typedef struct splits {
    size_t sent[2][2], received[2][2], batches;
    int calls;
} splits;

static void see_splits(void *arg, const ls_call *call) {
    splits *s = arg;
    if (call->purpose && strcmp(call->purpose, "output_dist outputs") == 0) {
        for (int i = 0; i < 2; i++) {
            s->sent[call->rank][i] = call->send_counts[i];
            s->received[call->rank][i] = call->recv_counts[i];
        }
        s->calls++;
    } else if (call->purpose && strcmp(call->purpose, "input_dist batches") == 0) {
        s->batches += call->send_counts[0] + call->send_counts[1];
    }
}

// TorchRec's own example of its all_to_all of pooled results: rank 0 holds a table of 2 columns,
// rank 1 two of 3; the sources have 2 and 1 bags for the first, 1 and 2 for the second, 3 and 2 for
// the third.
Test(variable, splits_are_torchrecs) {
    static const char *const keys[] = {"a", "b", "c"};
    static const int64_t strides[2][3] = {{2, 1, 3}, {1, 2, 2}}, lengths[6] = {0}, inverse[3] = {0};
    embedding_case c;
    splits s = {0};
    case_init(&c, 2, 2, 0);
    case_table(&c, "first", 4, 2, LS_POOL_SUM, false, "a");
    case_table(&c, "second", 4, 3, LS_POOL_SUM, false, "b");
    case_table(&c, "third", 4, 3, LS_POOL_SUM, false, "c");
    for (int t = 0; t < 3; t++) {
        cr_assert(case_place(&c, t, LS_TABLE_WISE, 0));
        c.plans[t].shards[0].rank = t > 0;
    }
    for (int r = 0; r < 2; r++) {
        cr_assert(ls_keyed_jagged_create_variable(&c.inputs[r], r, keys, 3, strides[r], 1, inverse,
                                                  lengths, NULL, 0, NULL) == LS_OK);
    }
    c.observer = see_splits;
    c.observer_arg = &s;
    case_outcome out;
    cr_assert(case_run(&c, &out) == LS_OK && out.wrong == 0, "%s", out.text);
    static const size_t sent[2][2] = {{4, 2}, {12, 12}}, received[2][2] = {{4, 12}, {2, 12}};
    cr_assert(s.calls == 2 && memcmp(s.sent, sent, sizeof(sent)) == 0);
    cr_assert(memcmp(s.received, received, sizeof(received)) == 0);
    cr_assert(s.batches == 2 * 3);  // each source sends a number of bags for each table
    case_outcome_free(&out);
    case_free(&c);
}

// ---- Under every sharding type ------------------------------------------------------------------

static const int64_t uneven[] = {5, 0, 3, 1};

// The input with each sample's bag written out, without sizes for each feature.
static ls_keyed_jagged *write_out(const ls_keyed_jagged *input) {
    ls_jagged_bag *bags = calloc((size_t)(input->key_count * input->batch) + 1, sizeof(*bags));
    for (int k = 0; k < input->key_count; k++) {
        for (int64_t b = 0; b < input->batch; b++) {
            int64_t bag = input->starts[k] + input->inverse_indices[k * input->batch + b];
            bags[k * input->batch + b] =
                (ls_jagged_bag){input->values + input->offsets[bag],
                                input->weights + input->offsets[bag], input->lengths[bag]};
            if (input->lengths[bag] == 0) {
                bags[k * input->batch + b].weights = NULL;
            }
        }
    }
    ls_keyed_jagged *out;
    cr_assert(ls_keyed_jagged_from_lists(&out, input->rank, input->keys, input->key_count,
                                         input->batch, bags, true) == LS_OK);
    free(bags);
    return out;
}

static const struct {
    ls_pooling pooling;
    bool weighted;
} kinds[] = {{LS_POOL_NONE, false}, {LS_POOL_SUM, false}, {LS_POOL_SUM, true},
             {LS_POOL_MEAN, false}, {LS_POOL_MEAN, true}, {LS_POOL_MAX, false}};
enum { KINDS = sizeof(kinds) / sizeof(kinds[0]) };

// The outputs have the bits of a batch in which each sample has its own copy of its bag.
Test(variable, outputs_are_those_of_the_written_out_batch) {
    for (int i = 0; i < KINDS * LS_SHARDING_COUNT; i++) {
        embedding_case c;
        case_outcome out, plain;
        case_init(&c, 4, 2, (uint64_t)i);
        c.variable = true;
        for (int t = 0; t < 3; t++) {
            static const char *const names[] = {"one", "two", "three"};
            static const char *const features[] = {"a,b", "b", "c,a"};
            case_table(&c, names[t], 9, 4 + t, kinds[i % KINDS].pooling, kinds[i % KINDS].weighted,
                       features[t]);
            cr_assert(case_place(&c, t, (ls_sharding)(i / KINDS), 2));
        }
        cr_assert(case_inputs(&c, uneven, 3) == LS_OK);
        cr_assert(case_run(&c, &out) == LS_OK && out.wrong == 0, "%s", out.text);
        for (int r = 0; r < 4; r++) {
            ls_keyed_jagged *written = write_out(c.inputs[r]);
            ls_keyed_jagged_free(c.inputs[r]);
            c.inputs[r] = written;
        }
        cr_assert(case_run(&c, &plain) == LS_OK && plain.wrong == 0, "%s", plain.text);
        cr_assert(case_difference(&c, &out, &plain)[0] == 0, "%s: %s",
                  ls_sharding_name((ls_sharding)(i / KINDS)), case_difference(&c, &out, &plain));
        case_outcome_free(&plain);
        case_outcome_free(&out);
        case_free(&c);
    }
}

// Trained for three steps, in f32, f16 and f64, also if an output has the table's type.
Test(variable, trains_under_every_type) {
    static const ls_dtype dtypes[] = {LS_F32, LS_F16, LS_F64};
    for (int i = 0; i < 3 * KINDS * LS_SHARDING_COUNT; i++) {
        train_table how = train_table_small(LS_OPTIMIZER_ADAGRAD);
        how.sharding = train_types[i / 3 / KINDS];
        how.pooling = kinds[i / 3 % KINDS].pooling;
        how.weighted = kinds[i / 3 % KINDS].weighted;
        how.dtype = dtypes[i % 3];
        embedding_case c;
        train_case t;
        train_outcome out;
        cr_assert(train_table_set_up(&how, &c, &t));
        c.variable = true;
        t.batches = uneven;
        cr_assert(train_run(&t, &out) == LS_OK && out.wrong == 0 && out.by_design == 0, "%s: %s",
                  train_table_name(&how), out.text);
        cr_assert(out.elements > 0);
        train_outcome_free(&out);
        case_free(&c);
    }
}

// A gradient that is not added to its bag's is found and named.
static bool lose_a_sample(const train_case *t, int step, const ls_stage_output *output, void *data,
                          size_t count) {
    (void)t;
    if (step != 0 || count == 0 || strcmp(output->stage, "output_grad") != 0 || output->rank != 0) {
        return false;
    }
    *(float *)data += 0.25F;
    return true;
}

Test(variable, a_lost_sample_is_found) {
    train_table how = train_table_small(LS_OPTIMIZER_SGD);
    embedding_case c;
    train_case t;
    train_outcome out;
    cr_assert(train_table_set_up(&how, &c, &t));
    c.variable = true;
    t.spoil = lose_a_sample;
    (void)train_run(&t, &out);
    cr_assert(out.spoilt > 0 && out.wrong >= out.spoilt, "%s", out.text);
    cr_assert(strcmp(out.stage, "output_grad") == 0);
    train_outcome_free(&out);
    case_free(&c);
}

// One rank has sizes for each feature, the other a batch: reported at once.
Test(variable, ranks_must_agree) {
    embedding_case c;
    case_outcome out;
    case_init(&c, 2, 2, 0);
    case_table(&c, "table", 4, 2, LS_POOL_SUM, false, "a");
    cr_assert(case_place(&c, 0, LS_ROW_WISE, 0));
    cr_assert(case_inputs(&c, NULL, 2) == LS_OK);
    ls_keyed_jagged *plain = c.inputs[0];
    c.inputs[0] = NULL;
    c.variable = true;
    cr_assert(case_inputs(&c, NULL, 2) == LS_OK);
    ls_keyed_jagged_free(c.inputs[0]);
    c.inputs[0] = plain;
    (void)case_run(&c, &out);
    cr_assert(out.status == LS_ERR_MISMATCH, "%s", out.text);
    cr_assert(
        strstr(out.text, "rank 1 has a batch size per feature, that of rank 0 one batch size"),
        "%s", out.text);
    case_outcome_free(&out);
    case_free(&c);
}
