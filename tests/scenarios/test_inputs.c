// Generators: the numbers are a pure function of the seed, and have the requested distribution.
#include <criterion/criterion.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runner/scenario/inputs.h"
#include "runner/scenario/reuse.h"
#include "runner/scenario/zipf.h"

static ls_scenario *parse(const char *text) {
    ls_diagnostics *diagnostics = NULL;
    ls_scenario *scenario = NULL;
    cr_assert(ls_diagnostics_create(&diagnostics, "t.yaml") == LS_OK);
    int status = ls_scenario_parse(&scenario, diagnostics, "t.yaml", text, strlen(text), NULL);
    ls_text said = {0};
    ls_diagnostics_format(&said, diagnostics);
    cr_assert(status == LS_OK, "%s", ls_text_string(&said));
    ls_text_free(&said);
    ls_diagnostics_free(diagnostics);
    return scenario;
}

static double harmonic(double s, int64_t from, int64_t to) {
    double sum = 0;
    for (int64_t k = from; k <= to; k++) {
        sum += pow((double)k, -s);
    }
    return sum;
}

// The sum of k^-s over 1 ... n: the head term by term, the tail by Euler and Maclaurin.
static double zeta(double s, int64_t n) {
    int64_t head = n < 100000 ? n : 100000;
    double sum = harmonic(s, 1, head);
    if (n > head) {
        double a = (double)head;
        double b = (double)n;
        double area = fabs(s - 1) < 1e-12 ? log(b / a) : (pow(b, 1 - s) - pow(a, 1 - s)) / (1 - s);
        sum += area + (pow(b, -s) - pow(a, -s)) / 2;
    }
    return sum;
}

// Draws of every exponent and size fit the exact probabilities: chi-square over the first ids and
// the rest in decades, below the 99.99 % point.
Test(inputs, zipf_is_zipf) {
    const double exponents[] = {0, 0.5, 1, 1.05, 1.5, 3};
    const int64_t counts[] = {1, 2, 10, 1000, 1000000000};
    enum { DRAWS = 40000, CELLS = 8 };
    for (int e = 0; e < 6; e++) {
        for (int c = 0; c < 5; c++) {
            ls_zipf zipf;
            ls_zipf_init(&zipf, exponents[e], counts[c]);
            // cells: id 0, 1, 2, 3, then below 10^1, 10^3, 10^6 and the rest
            const int64_t ends[CELLS] = {1, 2, 3, 4, 10, 1000, 1000000, INT64_MAX};
            int seen[CELLS] = {0};
            for (int i = 0; i < DRAWS; i++) {
                int64_t id = ls_zipf_draw(&zipf, 42, 7, 0, (uint64_t)i);
                cr_assert(id >= 0 && id < counts[c]);
                int cell = 0;
                while (id >= ends[cell]) {
                    cell++;
                }
                seen[cell]++;
            }
            double all = zeta(exponents[e], counts[c]);
            double before = 0;
            double chi = 0;
            for (int cell = 0; cell < CELLS; cell++) {
                int64_t end = ends[cell] < counts[c] ? ends[cell] : counts[c];
                double upto = zeta(exponents[e], end) / all;
                double expected = (upto - before) * DRAWS;
                before = upto;
                if (expected >= 5) {
                    chi += (seen[cell] - expected) * (seen[cell] - expected) / expected;
                }
            }
            cr_assert(chi < 30, "s = %g, n = %lld: chi-square %g", exponents[e],
                      (long long)counts[c], chi);
        }
    }
}

#define BATCHES                                                                                    \
    "lockstep: 1\nname: x\nseed: %d\nmesh: {shape: [3]}\n"                                         \
    "tables:\n  - {name: a, rows: 1000, dim: 4, features: [f, g]}\n"                               \
    "inputs:\n  batch: [2000, 3, 0]\n  weighted: true\n"                                           \
    "  features: {f: {lengths: {uniform: [2, 5]}, ids: {uniform: [990, 1009]}}}\n"

static ls_keyed_jagged *batch_of(int seed, int rank) {
    char text[1024];
    (void)snprintf(text, sizeof text, BATCHES, seed);
    ls_scenario *scenario = parse(text);
    ls_keyed_jagged *jagged = NULL;
    cr_assert(ls_inputs_jagged(&jagged, scenario, 0, rank) == LS_OK, "%s", ls_error_last()->text);
    ls_scenario_free(scenario);
    return jagged;
}

// Lengths and ids reach both ends of their ranges and do not exceed them; weights are in [0, 1).
Test(inputs, uniform_batches) {
    ls_keyed_jagged *jagged = batch_of(5, 0);
    cr_assert(jagged->key_count == 2 && jagged->batch == 2000);
    int lengths[8] = {0};
    for (int i = 0; i < 2000; i++) {
        cr_assert(jagged->lengths[i] >= 2 && jagged->lengths[i] <= 5);
        lengths[jagged->lengths[i]]++;
        cr_assert(jagged->lengths[2000 + i] == 1);
    }
    for (int length = 2; length <= 5; length++) {
        cr_assert(abs(lengths[length] - 500) < 100, "%d of length %d", lengths[length], length);
    }
    int64_t f = jagged->value_count - 2000;
    bool low = false;
    bool high = false;
    double sum = 0;
    for (int64_t i = 0; i < jagged->value_count; i++) {
        if (i < f) {
            cr_assert(jagged->values[i] >= 990 && jagged->values[i] <= 1009);
            low = low || jagged->values[i] == 990;
            high = high || jagged->values[i] == 1009;
        } else {
            cr_assert(jagged->values[i] >= 0 && jagged->values[i] < 1000);
        }
        cr_assert(jagged->weights[i] >= 0 && jagged->weights[i] < 1);
        sum += (double)jagged->weights[i];
    }
    cr_assert(low && high);
    cr_assert(fabs(sum / (double)jagged->value_count - 0.5) < 0.02);
    ls_keyed_jagged_free(jagged);
}

// The same seed and rank give the same batch again; another seed or rank gives another.
Test(inputs, batches_follow_seed_and_rank) {
    ls_keyed_jagged *once = batch_of(5, 1);
    ls_keyed_jagged *again = batch_of(5, 1);
    ls_keyed_jagged *other_seed = batch_of(6, 1);
    ls_keyed_jagged *other_rank = batch_of(5, 0);
    ls_keyed_jagged *empty = batch_of(5, 2);
    cr_assert(once->batch == 3 && empty->batch == 0 && empty->value_count == 0);
    cr_assert(once->value_count == again->value_count);
    size_t bytes = (size_t)once->value_count * sizeof *once->values;
    cr_assert(memcmp(once->values, again->values, bytes) == 0);
    cr_assert(memcmp(once->weights, again->weights, bytes / 2) == 0);
    cr_assert(memcmp(once->values, other_seed->values, 6 * sizeof *once->values) != 0);
    cr_assert(memcmp(once->values, other_rank->values, 6 * sizeof *once->values) != 0);
    ls_keyed_jagged_free(once);
    ls_keyed_jagged_free(again);
    ls_keyed_jagged_free(other_seed);
    ls_keyed_jagged_free(other_rank);
    ls_keyed_jagged_free(empty);
}

// A cell of a table has the same weight in any block, also at high indices of a huge table.
Test(inputs, weights_do_not_depend_on_the_block) {
    ls_scenario *scenario =
        parse("lockstep: 1\nname: x\nseed: 3\nmesh: {shape: [2]}\ntables:\n"
              "  - {name: a, rows: 1000000000, dim: 12, weights: {normal: {std: 0.1}}}\n"
              "inputs: {batch: 1}\n");
    float block[5 * 12];
    float part[2 * 5];
    int64_t row = 999999990;
    cr_assert(ls_inputs_weights(block, scenario, 0, row, 5, 0, 12) == LS_OK);
    cr_assert(ls_inputs_weights(part, scenario, 0, row + 2, 2, 7, 5) == LS_OK);
    for (int r = 0; r < 2; r++) {
        for (int c = 0; c < 5; c++) {
            cr_assert(part[r * 5 + c] == block[(r + 2) * 12 + 7 + c]);
        }
    }
    cr_assert(block[0] != block[1] && block[0] != block[12]);
    ls_scenario_free(scenario);
}

// Means and deviations of the generators of weights equal those of the file.
Test(inputs, weight_statistics) {
    const char *generators[] = {"{normal: {std: 0.5, mean: 2}}", "{uniform: [-1, 3]}", "uniform",
                                "exact", "{constant: 7}"};
    const double means[] = {2, 1, 0, 0, 7};
    const double deviations[] = {0.5, 4 / sqrt(12), 0.02 / sqrt(12), sqrt(24) / 8, 0};
    float *weights = malloc(10000 * 4 * sizeof *weights);
    for (int g = 0; g < 5; g++) {
        char text[256];
        (void)snprintf(text, sizeof text,
                       "lockstep: 1\nname: x\nmesh: {shape: [1]}\ntables:\n"
                       "  - {name: a, rows: 10000, dim: 4, weights: %s}\ninputs: {batch: 1}\n",
                       generators[g]);
        ls_scenario *scenario = parse(text);
        cr_assert(ls_inputs_weights(weights, scenario, 0, 0, 10000, 0, 4) == LS_OK);
        double sum = 0;
        double squares = 0;
        for (int i = 0; i < 40000; i++) {
            sum += (double)weights[i];
            squares += ((double)weights[i] - means[g]) * ((double)weights[i] - means[g]);
        }
        double scale = deviations[g] / 200;  // of the mean of 40000
        cr_assert(fabs(sum / 40000 - means[g]) <= 5 * scale, "%s: mean %g", generators[g],
                  sum / 40000);
        cr_assert(fabs(sqrt(squares / 40000) - deviations[g]) <= 0.02 * deviations[g],
                  "%s: deviation %g", generators[g], sqrt(squares / 40000));
        ls_scenario_free(scenario);
    }
    free(weights);
}

// Sums of exact weights do not depend on their order, in f32 up to 2^20 terms.
Test(inputs, exact_sums_are_exact) {
    ls_scenario *scenario = parse("lockstep: 1\nname: x\nmesh: {shape: [1]}\ntables:\n"
                                  "  - {name: a, rows: 1048576, dim: 1, weights: exact}\n"
                                  "inputs: {batch: 1}\n");
    float *weights = malloc((1 << 20) * sizeof *weights);
    cr_assert(ls_inputs_weights(weights, scenario, 0, 0, 1 << 20, 0, 1) == LS_OK);
    float up = 0;
    float down = 0;
    float absolute = 0;
    double wide = 0;
    for (int i = 0; i < 1 << 20; i++) {
        up += weights[i];
        down += weights[(1 << 20) - 1 - i];
        absolute += fabsf(weights[i]);
        wide += fabs((double)weights[i]);
    }
    cr_assert(up == down && (double)absolute == wide && absolute > 1000);
    free(weights);
    ls_scenario_free(scenario);
}

// Buffers of a program: lists for each member, and one list for all; a list that is too short is an
// error that names the step and the rank.
Test(inputs, step_values) {
    ls_scenario *s =
        parse("lockstep: 1\nname: x\nmesh: {shape: [3]}\nprogram:\n  steps:\n"
              "    - all_reduce: {count: 2, values: {values: [[1, 2], [3, 4], [5, 6]]}}\n"
              "    - all_reduce: {count: 2, ranks: [2, 0], values: {values: [[1, 2], [3, 4]]}}\n"
              "    - all_reduce: {count: 2, values: {values: [1, 2]}, name: short}\n"
              "    - all_reduce: {count: 3, dtype: u8}\n");
    float out[3];
    cr_assert(ls_inputs_step_values(out, s, &s->steps[0], 2, LS_F32, 2) == LS_OK);
    cr_assert(out[0] == 5 && out[1] == 6);
    cr_assert(ls_inputs_step_values(out, s, &s->steps[1], 0, LS_F32, 2) == LS_OK);
    cr_assert(out[0] == 3 && out[1] == 4);
    cr_assert(ls_inputs_step_values(out, s, &s->steps[2], 1, LS_F32, 3) == LS_ERR_FORMAT);
    cr_assert(strstr(ls_error_last()->text, "short") != NULL);
    cr_assert(ls_error_last()->rank == 1);
    unsigned char bytes[3];
    cr_assert(ls_inputs_step_values(bytes, s, &s->steps[3], 1, LS_U8, 3) == LS_OK);
    cr_assert(bytes[0] <= 16 && bytes[1] <= 16 && bytes[2] <= 16);
    ls_scenario_free(s);
}

// ---- Reuse --------------------------------------------------------------------------------------

static int compare_ids(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

// A large batch has the published histogram: the shares of rows and of ids whose row is used once,
// twice, up to 4, 8, ... times, as far as a batch of this size allows.
Test(inputs, reuse_has_the_published_histogram) {
    enum { IDS = 4000000, ROWS = 1000000, BINS = 13 };
    static const double rows_share[BINS] = {.342, .144, .149, .138, .112, .068, .029,
                                            .010, .004, .002, .001, .001, 0};
    static const double ids_share[BINS] = {.027, .023, .040, .068, .105, .120, .099,
                                           .070, .059, .054, .040, .072, .064};
    int64_t *ids = calloc(IDS, sizeof *ids);
    double rows_in[64] = {0}, ids_in[64] = {0}, distinct = 0;
    ls_reuse reuse;
    cr_assert(ls_reuse_init(&reuse, IDS, ROWS, 9, 4) == LS_OK);
    for (int64_t i = 0; i < IDS; i++) {
        ids[i] = ls_reuse_draw(&reuse, i);
        cr_assert(ids[i] >= 0 && ids[i] < ROWS);
    }
    // Neighbours in the batch are neither neighbours in the table nor the same row.
    int64_t near = 0;
    for (int64_t i = 1; i < 10000; i++) {
        near += llabs(ids[i] - ids[i - 1]) <= 1 ? 1 : 0;
    }
    cr_expect(near < 400, "%lld", (long long)near);
    qsort(ids, IDS, sizeof *ids, compare_ids);
    for (int64_t i = 0, end = 0; i < IDS; i = end) {
        while (end < IDS && ids[end] == ids[i]) {
            end++;
        }
        int bin = 0;
        while ((INT64_C(1) << bin) < end - i) {
            bin++;
        }
        rows_in[bin]++;
        ids_in[bin] += (double)(end - i);
        distinct++;
    }
    for (int b = 0; b < BINS; b++) {
        cr_expect(fabs(rows_in[b] / distinct - rows_share[b]) < .004, "%d: %g of the rows", b,
                  rows_in[b] / distinct);
        cr_expect(fabs(ids_in[b] / IDS - ids_share[b]) < .002, "%d: %g of the ids", b,
                  ids_in[b] / IDS);
    }
    cr_expect(fabs(IDS / distinct - 12.74) < .3, "%g uses of a row", IDS / distinct);
    free(ids);
}

// Few ids, one id, none; a table that is too small for that many, with its error; another seed.
Test(inputs, reuse_of_few_ids_and_small_tables) {
    ls_reuse reuse, other;
    for (int64_t ids = 0; ids < 300; ids++) {
        cr_assert(ls_reuse_init(&reuse, ids, 200, 1, 2) == LS_OK);
        for (int64_t i = 0; i < ids; i++) {
            int64_t row = ls_reuse_draw(&reuse, i);
            cr_assert(row >= 0 && row < 200 && row == ls_reuse_draw(&reuse, i));
        }
    }
    cr_assert(ls_reuse_init(&reuse, 100000, 500, 1, 2) == LS_ERR_INVALID);
    cr_expect(strstr(ls_error_last()->text, "and there are 500"), "%s", ls_error_last()->text);
    cr_assert(ls_reuse_init(&reuse, 1000, 5000, 1, 2) == LS_OK);
    cr_assert(ls_reuse_init(&other, 1000, 5000, 2, 2) == LS_OK);
    int same = 0;
    for (int64_t i = 0; i < 1000; i++) {
        same += ls_reuse_draw(&reuse, i) == ls_reuse_draw(&other, i) ? 1 : 0;
    }
    cr_expect(same < 50, "%d", same);
}

// ---- Features of several tables -----------------------------------------------------------------

// A shared feature is drawn once, inside of its smallest table, and is in the input once; its
// outputs in different tables have different gradients; weights follow the table.
Test(inputs, features_are_shared_by_tables) {
    ls_scenario *s = parse("lockstep: 1\nname: x\nmesh: {shape: [2]}\ntables:\n"
                           "  - {name: a, rows: 100, dim: 2, features: [f, g]}\n"
                           "  - {name: b, rows: 3, dim: 2, features: [h, f], weighted: true}\n"
                           "inputs: {batch: 50}\nsteps: [forward, backward]\n");
    static const int pairs[4][2] = {{0, 0}, {0, 1}, {1, 2}, {1, 0}};
    cr_assert(s->inputs.feature_count == 3 && s->inputs.pair_count == 4);
    for (int p = 0; p < 4; p++) {
        cr_expect(s->inputs.pairs[p].table == pairs[p][0]);
        cr_expect(s->inputs.pairs[p].feature == pairs[p][1]);
    }
    cr_expect(!s->tables[0].weighted && s->tables[1].weighted && s->inputs.weighted);
    cr_expect(s->inputs.features[0].weighted && !s->inputs.features[1].weighted);
    ls_keyed_jagged *jagged = NULL;
    cr_assert(ls_inputs_jagged(&jagged, s, 0, 1) == LS_OK);
    cr_assert(jagged->key_count == 3 && jagged->weights != NULL);
    ls_jagged f = ls_keyed_jagged_feature(jagged, 0), g = ls_keyed_jagged_feature(jagged, 1);
    int64_t most = 0;
    for (int i = 0; i < 50; i++) {
        cr_assert(f.ids[i] >= 0 && f.ids[i] < 3);
        most = g.ids[i] > most ? g.ids[i] : most;
    }
    cr_expect(most >= 3 && most < 100);
    float first[100], second[100];
    cr_assert(ls_inputs_gradient(first, s, 0, 1, 0, LS_F32, 100) == LS_OK);
    cr_assert(ls_inputs_gradient(second, s, 0, 1, 3, LS_F32, 100) == LS_OK);
    cr_expect(memcmp(first, second, sizeof first) != 0);
    ls_keyed_jagged_free(jagged);
    ls_scenario_free(s);
}
