// Training in a scenario: resolved optimizers, and the inputs of each step.
#include <criterion/criterion.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "runner/scenario/inputs.h"
#include "runner/scenario/stage_names.h"

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

// Missing values of an optimizer are the defaults of its kind and form; a table's own values
// precede the scenario's.
Test(training, optimizers) {
    ls_scenario *s =
        parse("lockstep: 1\nname: x\nseed: 9\nmesh: {shape: [2]}\ntables:\n"
              "  - {name: a, rows: 9, dim: 4}\n"
              "  - {name: b, rows: 9, dim: 4, dtype: f16, optimizer: {type: adagrad, form: dense,\n"
              "     lr: 0.5, stochastic_rounding: true}}\n"
              "  - {name: c, rows: 9, dim: 4, optimizer: {type: sgd, weight_decay: 0.1,\n"
              "     weight_decay_mode: none}, max_norm: 2}\n"
              "inputs: {batch: 1}\nsteps: [forward, backward, update]\n"
              "optimizer: {type: adamw, eps: 0.25, beta2: 0.5}\n");
    const ls_optimizer *a = ls_scenario_optimizer_of(s, 0), *b = ls_scenario_optimizer_of(s, 1);
    const ls_optimizer *c = ls_scenario_optimizer_of(s, 2);
    const ls_optimizer standard = ls_optimizer_default(LS_OPTIMIZER_ADAMW, LS_OPTIMIZER_FUSED);
    cr_assert(a->kind == LS_OPTIMIZER_ADAMW && a->form == LS_OPTIMIZER_FUSED && a->seed == 9);
    cr_assert(a->eps == 0.25 && a->beta2 == 0.5);
    cr_assert(a->lr == standard.lr && a->beta1 == standard.beta1);
    cr_assert(a->decay == ls_optimizer_about(LS_OPTIMIZER_ADAMW)->decay[LS_OPTIMIZER_FUSED]);
    cr_assert(!a->stochastic_rounding);
    cr_assert(b->kind == LS_OPTIMIZER_ADAGRAD && b->form == LS_OPTIMIZER_DENSE && b->lr == 0.5);
    cr_assert(b->stochastic_rounding &&
              b->eps == ls_optimizer_about(LS_OPTIMIZER_ADAGRAD)->eps[LS_OPTIMIZER_DENSE]);
    cr_assert(c->decay == LS_DECAY_NONE && c->weight_decay == 0.1);
    cr_assert(s->tables[2].max_norm == 2 && s->tables[2].norm_type == 2);
    cr_assert(s->tables[0].max_norm == 0 && s->train.steps == 1 && s->train.clip_norm == 0);
    cr_assert(s->train.gradient_division == LS_GRADIENTS_DIVIDED);
    cr_assert(ls_scenario_runs(s, LS_TABLES_BACKWARD) && ls_scenario_runs(s, LS_TABLES_UPDATE));
    ls_scenario_free(s);
}

static ls_keyed_jagged *batch(const ls_scenario *s, int step, int rank) {
    ls_keyed_jagged *out = NULL;
    cr_assert(ls_inputs_jagged(&out, s, step, rank) == LS_OK, "%s", ls_error_last()->text);
    return out;
}

#define DRAWN                                                                                      \
    "lockstep: 1\nname: x\nseed: 5\nmesh: {shape: [2]}\n"                                          \
    "tables: [{name: a, rows: 1000, dim: 4}]\ninputs:\n  batch: 40\n  weighted: true\n"            \
    "  features: {a: {lengths: {uniform: [0, 9]}}}\n"

// Every step draws different lengths, ids and weights; the first has those of a scenario with one
// step, and a step's do not depend on the number of steps.
Test(training, steps_draw_inputs_anew) {
    ls_scenario *one = parse(DRAWN), *three = parse(DRAWN "train: {steps: 3}\n");
    ls_scenario *two = parse(DRAWN "train: {steps: 2}\n");
    ls_keyed_jagged *a = batch(one, 0, 1), *b = batch(three, 0, 1), *c = batch(three, 1, 1);
    ls_keyed_jagged *d = batch(two, 1, 1), *e = batch(three, 2, 1);
    size_t bags = 40 * sizeof *a->lengths, some = 20 * sizeof *a->values;
    cr_assert(memcmp(a->lengths, b->lengths, bags) == 0 && a->value_count == b->value_count);
    cr_assert(memcmp(a->values, b->values, some) == 0);
    cr_assert(memcmp(b->lengths, c->lengths, bags) != 0 && memcmp(b->values, c->values, some) != 0);
    cr_assert(memcmp(b->weights, c->weights, some / 2) != 0);
    cr_assert(memcmp(c->lengths, d->lengths, bags) == 0 && memcmp(c->values, d->values, some) == 0);
    cr_assert(memcmp(c->weights, d->weights, some / 2) == 0);
    cr_assert(memcmp(c->lengths, e->lengths, bags) != 0 && memcmp(c->values, e->values, some) != 0);
    ls_keyed_jagged *all[] = {a, b, c, d, e};
    for (int i = 0; i < 5; i++) {
        ls_keyed_jagged_free(all[i]);
    }
    ls_scenario_free(one);
    ls_scenario_free(two);
    ls_scenario_free(three);
}

// Lists have the numbers of one step, which is reused, or of all steps, by step and rank; also if
// the lengths differ between steps.
Test(training, lists_of_one_step_or_of_all) {
    ls_scenario *s =
        parse("lockstep: 1\nname: x\nmesh: {shape: [2]}\ntables:\n"
              "  - {name: a, rows: 100, dim: 4, features: [f, g]}\ninputs:\n  batch: [2, 1]\n"
              "  weighted: true\n  features:\n"
              "    f: {lengths: {values: [[2, 1], [1], [0, 1], [3]]},\n"
              "        ids: {values: [[1, 2, 3], [4], [5], [6, 7, 8]]},\n"
              "        weights: {values: [1, 2, 3, 4, 5, 6, 7, 8]}}\n"
              "    g: {lengths: {values: [1, 0, 2]}, ids: {values: [[9], [10, 11]]},\n"
              "        weights: {values: [0.5, 0.25, 0.125]}}\n"
              "train: {steps: 2}\n");
    const int64_t lengths[2][2][4] = {{{2, 1, 1, 0}, {1, 2}}, {{0, 1, 1, 0}, {3, 2}}};
    const int64_t ids[2][2][5] = {{{1, 2, 3, 9}, {4, 10, 11}}, {{5, 9}, {6, 7, 8, 10, 11}}};
    const float weights[2][2][5] = {{{1, 2, 3, 0.5F}, {4, 0.25F, 0.125F}},
                                    {{5, 0.5F}, {6, 7, 8, 0.25F, 0.125F}}};
    const int64_t counts[2][2] = {{4, 3}, {2, 5}};
    for (int step = 0; step < 2; step++) {
        for (int rank = 0; rank < 2; rank++) {
            ls_keyed_jagged *of = batch(s, step, rank);
            cr_assert(of->value_count == counts[step][rank], "step %d, rank %d", step, rank);
            size_t count = (size_t)of->value_count;
            cr_assert(memcmp(of->lengths, lengths[step][rank],
                             (size_t)(2 * of->batch) * sizeof(int64_t)) == 0);
            cr_assert(memcmp(of->values, ids[step][rank], count * sizeof(int64_t)) == 0);
            cr_assert(memcmp(of->weights, weights[step][rank], count * sizeof(float)) == 0);
            ls_keyed_jagged_free(of);
        }
    }
    ls_scenario_free(s);
}

// Gradients of outputs: by step, rank and feature in the order given, a sequence's by its ids.
Test(training, gradients_given) {
    ls_scenario *s =
        parse("lockstep: 1\nname: x\nmesh: {shape: [2]}\ntables:\n"
              "  - {name: a, rows: 9, dim: 2}\n  - {name: b, rows: 9, dim: 1, pooling: none}\n"
              "inputs:\n  batch: [1, 2]\n  features: {b: {lengths: {values: [3, 0, 1]}}}\n"
              "steps: [forward, backward]\n"
              "train: {steps: 2, gradients: {values: [1, 2, 3, 4, 5, 11, 12, 13, 14, 15,\n"
              "  21, 22, 23, 24, 25, 31, 32, 33, 34, 35]}}\n");
    const int counts[2][2] = {{2, 3}, {4, 1}};  // [rank][feature]
    float next[] = {1, 2, 3, 4, 5, 11, 12, 13, 14, 15, 21, 22, 23, 24, 25, 31, 32, 33, 34, 35};
    int at = 0;
    for (int step = 0; step < 2; step++) {
        for (int rank = 0; rank < 2; rank++) {
            for (int f = 0; f < 2; f++) {
                float got[4];
                size_t count = (size_t)counts[rank][f];
                cr_assert(ls_inputs_gradient(got, s, step, rank, f, LS_F32, count) == LS_OK);
                cr_assert(memcmp(got, next + at, count * sizeof(float)) == 0, "%d %d %d", step,
                          rank, f);
                at += counts[rank][f];
            }
        }
    }
    ls_scenario_free(s);
}

// Default gradients are normally distributed, and different for every step, rank and feature.
Test(training, gradients_drawn) {
    ls_scenario *s = parse("lockstep: 1\nname: x\nseed: 4\nmesh: {shape: [2]}\ntables:\n"
                           "  - {name: a, rows: 9, dim: 100, features: [f, g]}\n"
                           "inputs: {batch: 50}\nsteps: [forward, backward]\ntrain: {steps: 2}\n");
    static double of[2][2][2][5000];
    for (int i = 0; i < 8; i++) {
        double *got = of[i / 4][i / 2 % 2][i % 2];
        cr_assert(ls_inputs_gradient(got, s, i / 4, i / 2 % 2, i % 2, LS_F64, 5000) == LS_OK);
        double sum = 0, squares = 0;
        for (int k = 0; k < 5000; k++) {
            sum += got[k];
            squares += got[k] * got[k];
        }
        cr_assert(fabs(sum / 5000) < 0.06 && fabs(squares / 5000 - 1) < 0.08, "%g %g", sum,
                  squares);
        for (int j = 0; j < i; j++) {
            cr_assert(memcmp(got, of[j / 4][j / 2 % 2][j % 2], 100 * sizeof(double)) != 0);
        }
    }
    float rounded[3];
    cr_assert(ls_inputs_gradient(rounded, s, 1, 0, 1, LS_F32, 3) == LS_OK);
    cr_assert(rounded[2] == (float)of[1][0][1][2]);
    ls_scenario_free(s);
}

// ---- Names of stages ----------------------------------------------------------------------------
static ls_stage_output seen;

static int see(void *arg, const ls_stage_output *output) {
    (void)arg;
    seen = *output;
    return LS_OK;
}

// An output of a recording has the stage, field and step of its name, and only if the scenario's
// tables have such a stage: a program's steps have names of the user.
Test(stage_names, tell_stage_field_and_step) {
    static const struct {
        const char *stage, *field;
        int of[3];  // stage, field, step
    } cases[] = {
        {"step2.lookup", "values[1]", {LS_STAGE_LOOKUP, LS_STAGE_FIELD_VALUES, 2}},
        {"step0.update", "weights", {LS_STAGE_UPDATE, LS_STAGE_FIELD_WEIGHTS, 0}},
        {"step1.update", "weightsx", {LS_STAGE_UPDATE, LS_STAGE_FIELD_NONE, 1}},
        {"step3.lookup", "values", {0}},
        {"step01.lookup", "values", {0}},
        {"lookup", "values", {0}},
    };
    ls_scenario *tables = parse("lockstep: 1\nname: x\nmesh: {shape: [2]}\ntables:\n"
                                "  - {name: a, rows: 9, dim: 4}\ninputs: {batch: 1}\n"
                                "steps: [forward, backward, update]\noptimizer: {type: sgd}\n"
                                "train: {steps: 3}\n");
    ls_scenario *program = parse("lockstep: 1\nname: x\nmesh: {shape: [2]}\nprogram:\n  steps:\n"
                                 "    - all_reduce: {name: lookup, count: 4, op: sum}\n");
    ls_scenario_stages of_tables = {tables, {.emit = see}}, of_program = {program, {.emit = see}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const ls_stage_output output = {.stage = cases[i].stage, .field = cases[i].field};
        const ls_stage_sink sink = ls_scenario_stages_sink(&of_tables);
        cr_assert(sink.emit(sink.arg, &output) == LS_OK);
        cr_expect(seen.stage_of_tables == cases[i].of[0] &&
                      seen.field_of_tables == cases[i].of[1] &&
                      seen.step_of_tables == cases[i].of[2],
                  "%s %s: %d %d %d", output.stage, output.field, seen.stage_of_tables,
                  seen.field_of_tables, seen.step_of_tables);
    }
    const ls_stage_output output = {.stage = "lookup", .field = "values"};
    const ls_stage_sink sink = ls_scenario_stages_sink(&of_program);
    cr_assert(sink.emit(sink.arg, &output) == LS_OK);
    cr_expect(seen.stage_of_tables == LS_STAGE_NONE && seen.field_of_tables == 0);
    ls_scenario_free(tables);
    ls_scenario_free(program);
}
