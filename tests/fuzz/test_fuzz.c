// Random scenarios: they cover all keys of scenario files, are equal for a seed, and are read as
// written; shrinking reaches the smallest case that still fails.
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/base.h"
#include "base/file.h"
#include "base/random.h"
#include "collectives/collectives.h"
#include "fuzz/campaign.h"
#include "fuzz/scenario_text.h"
#include "fuzz/shrink.h"
#include "fuzz/trial.h"
#include "fuzz/vary.h"
#include "planner/plan.h"
#include "ranks/fault.h"
#include "runner/scenario/scenario.h"
#include "tests/figures.h"

#define CASES 2500

static json_t *tree_of(const char *text) {
    char path[] = "/tmp/lockstep-fuzz-test-XXXXXX";
    int fd = mkstemp(path);
    json_t *tree = NULL;
    cr_assert(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text));
    cr_assert_eq(ls_fuzz_read(&tree, path), LS_OK, "%s", ls_error_last()->text);
    (void)close(fd);
    (void)unlink(path);
    return tree;
}

// Some of the cases have each of these.
Test(fuzz, says_everything) {
    static const char *const words[] = {
#define STEP_WORD(name, text) #text ": {",
        LS_COLLECTIVE_MAP(STEP_WORD) LS_STEP_MAP(STEP_WORD)
#undef STEP_WORD
#define FAULT_WORD(name, text) "{type: " text,
            LS_FAULT_MAP(FAULT_WORD)
#undef FAULT_WORD
                "type: data_parallel",
        "type: table_wise",
        "type: column_wise",
        "type: row_wise",
        "type: table_row_wise",
        "type: table_column_wise",
        "type: grid",
        "type: sgd",
        "type: adagrad",
        "type: adam,",
        "type: adamw",
        "type: rowwise_adagrad",
        "type: partial_rowwise_adam",
        "type: lamb",
        "type: partial_rowwise_lamb",
        "type: lars_sgd",
        "form: dense",
        "pooling: sum",
        "pooling: mean",
        "pooling: max",
        "pooling: none",
        "dtype: f16",
        "dtype: bf16",
        "dtype: f32",
        "dtype: f64",
        "dtype: i8",
        "dtype: u64",
        "quantise: {to: int4",
        "stride_per_rank: [",
        "weighted: true",
        "ids_out_of_range: wrap",
        "pipeline: true",
        "clip_norm: ",
        "max_norm: ",
        "stochastic_rounding: true",
        "ids: reuse",
        "batch: [0, ",
        "shape: [0",
        "placements: \"P(",
        "P(band)",
        "P(bor)",
        "P(bxor)",
        "sizes: [0, ",
        "source: ",
        "blocks: [",
        "op: premul_sum",
        "async: true",
        "in_place: true",
        "axis: \"",
        "except: [{ranks: ",
        "op: bxor",
        "dtype: f8e5m2",
        "weighted: false",
        "norm_type: ",
        "to: f8e4m3",
        "scale: f32",
        "scale_bias_last: true",
        "row_alignment: ",
        "output_dtype: bf16",
        "type: [table_wise, ",
        "only_ranks: [",
        "not_ranks: [",
        "columns_min: ",
        "together: a",
        "apart: b",
        "kernel: [",
        "ids: {values: [",
        "inverse_indices: uniform",
        "gradients: {",
        "weight_decay_mode: decoupled",
        "eps: ",
        "beta1: ",
        "beta2: ",
        "eta: ",
        "initial_accumulator: ",
        "form: dense",
        "parts: each"};
    ls_text all = {0};
    for (uint32_t number = 0; number < CASES; number++) {
        cr_assert_eq(ls_fuzz_case_text(&all, 1, number), LS_OK);
    }
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        bool other = strcmp(words[i], "{type: slow") == 0 ||      // no defect
                     strcmp(words[i], "{type: allocation") == 0;  // tests of failing memory
        bool there = strstr(ls_text_string(&all), words[i]) != NULL;
        cr_expect(there || other, "no case says '%s'", words[i]);
    }
    ls_text_free(&all);
}

// The same for a seed and a number, another for others.
Test(fuzz, follows_from_its_seed) {
    const struct {
        uint64_t seed;
        uint32_t number;
    } at[] = {{7, 3}, {7, 3}, {8, 3}, {7, 7}};
    ls_text text[4] = {{0}};
    for (int i = 0; i < 4; i++) {
        cr_assert_eq(ls_fuzz_case_text(&text[i], at[i].seed, at[i].number), LS_OK);
    }
    cr_expect_str_eq(ls_text_string(&text[0]), ls_text_string(&text[1]));
    cr_expect_str_neq(ls_text_string(&text[0]), ls_text_string(&text[2]));
    cr_expect_str_neq(ls_text_string(&text[0]), ls_text_string(&text[3]));
    for (int i = 0; i < 4; i++) {
        ls_text_free(&text[i]);
    }
}

// The other forms of a case.
static void vary(ls_text out[3], const char *text) {
    static const char *const types[] = {"grid", "", ""};
    json_t *tree = tree_of(text);
    ls_scenario *scenario = NULL;
    cr_assert_eq(ls_fuzz_parse(&scenario, tree, "drawn.yaml", false, NULL), LS_OK);
    for (int v = LS_FUZZ_SHARDED; v <= LS_FUZZ_FEWER; v++) {
        json_t *form = NULL;
        cr_assert_eq(ls_fuzz_vary(&form, tree, scenario, (ls_fuzz_variation)v, types[v]), LS_OK);
        if (form != NULL) {
            ls_fuzz_write(&out[v], form);
            json_decref(form);
        }
    }
    ls_scenario_free(scenario);
    json_decref(tree);
}

// The first changes that shrinking tries.
static void shrink(ls_text *out, const char *text) {
    json_t *tree = tree_of(text);
    bool changed = true;
    for (int pass = 0; pass < LS_FUZZ_PASSES; pass++, changed = true) {
        for (long number = 0; changed; number++) {
            json_t *smaller = json_deep_copy(tree);
            changed = ls_fuzz_shrink__change(smaller, pass, number);
            ls_fuzz_write(out, smaller);
            json_decref(smaller);
        }
    }
    json_decref(tree);
}

// A report's seed gives the same draw, trial and shrinking later and elsewhere.
Test(fuzz, draws_what_it_drew) {
    enum { TABLES, TENSORS, BUFFERS, FORMS, SHRUNK = FORMS + 3, WAYS, FIGURES };
    static const int families[] = {TABLES, TENSORS, BUFFERS, TENSORS};
    static const char *const names[] = {"tables",   "tensors",        "buffers", "sharded",
                                        "reversed", "on fewer ranks", "shrunk",  "ways"};
    ls_text drawn[FIGURES] = {{0}};
    for (uint32_t number = 0; number < 4 * CASES; number++) {
        ls_text text = {0};
        cr_assert_eq(ls_fuzz_case_text(&text, 1, number), LS_OK);
        ls_text_puts(&drawn[families[number % 4]], ls_text_string(&text));
        if (number < 400) {
            vary(&drawn[FORMS], ls_text_string(&text));
        }
        if (number < 100) {
            shrink(&drawn[SHRUNK], ls_text_string(&text));
        }
        for (int way = 0; way < ls_fuzz_way_count() && number < 100; way++) {
            ls_text_puts(&drawn[WAYS], ls_fuzz_way_turn(way, number) ? ls_fuzz_way_name(way) : "-");
        }
        ls_text_free(&text);
    }
    figures_expect("tests/fuzz/draws.txt", "unit/fuzz",
                   "A seed draws other scenarios than it did: those that reports name by it are "
                   "lost.",
                   names, drawn, FIGURES);
}

// A user's file is read with its numbers, words and texts, and written with the same meaning.
Test(fuzz, reads_what_people_write) {
    static const char written[] = "lockstep: 1\n"
                                  "name: 'on: [1]'  # a text\n"
                                  "mesh:\n  shape: [2]\n"
                                  "program:\n"
                                  "  steps:\n"
                                  "  - all_reduce: {count: 4, axis: \"0\", in_place: true}\n"
                                  "  - scale: {tensor: 'on', factor: 0.1}\n"
                                  "  - barrier\n";
    json_t *tree = tree_of(written);
    ls_text text = {0};
    ls_fuzz_write(&text, tree);
    cr_expect_str_eq(ls_text_string(&text),
                     "lockstep: 1\n"
                     "name: \"on: [1]\"\n"
                     "mesh: {shape: [2]}\n"
                     "program:\n"
                     "  steps:\n"
                     "    - {all_reduce: {count: 4, axis: \"0\", in_place: true}}\n"
                     "    - {scale: {tensor: \"on\", factor: 0.1}}\n"
                     "    - barrier\n");
    json_decref(tree);
    cr_expect_eq(ls_fuzz_read(&tree, "/tmp/lockstep-fuzz-test-nowhere.yaml"), LS_ERR_IO);
    cr_expect_null(tree);
    ls_text_free(&text);
}

// ---- Shrinking ----------------------------------------------------------------------------------
typedef struct asked {
    int count;
} asked;

// Fails like a defect of uneven batches on two ranks and more, in a table of three columns and
// more.
static int fails_like_a_defect(void *arg, const json_t *tree, bool *fails) {
    asked *asked_so_far = arg;
    ls_scenario *scenario = NULL;
    if (ls_fuzz_parse(&scenario, tree, "tried.yaml", false, NULL) != LS_OK) {
        return LS_OK;
    }
    asked_so_far->count += 1;
    bool wide = false;
    for (int t = 0; t < scenario->table_count; t++) {
        wide = wide || scenario->tables[t].dim >= 3;
    }
    *fails = wide && scenario->ranks >= 2;
    ls_scenario_free(scenario);
    return LS_OK;
}

static const char *shrunk(ls_text *text, int asked_max, int *count) {
    json_t *tree = NULL;
    bool fails = false;
    asked before = {0}, after = {0};
    for (uint32_t number = 0; number < 400 && !fails; number += 4) {  // tables
        ls_text written = {0};
        json_decref(tree);
        cr_assert_eq(ls_fuzz_case_text(&written, 5, number), LS_OK);
        tree = tree_of(ls_text_string(&written));
        ls_text_free(&written);
        cr_assert_eq(fails_like_a_defect(&before, tree, &fails), LS_OK);
        fails = fails && json_array_size(json_object_get(tree, "tables")) == 3;
    }
    cr_assert(fails);
    cr_assert_eq(ls_fuzz_shrink(&tree, fails_like_a_defect, &after, &after.count, asked_max),
                 LS_OK);
    ls_fuzz_write(text, tree);
    json_decref(tree);
    *count = after.count;
    return ls_text_string(text);
}

// Two ranks, one table of three columns and one row, one bag: nothing else remains.
Test(fuzz, shrinks_to_the_least) {
    ls_text text = {0};
    int count = 0;
    const char *least = shrunk(&text, 1000, &count);
    cr_expect(strstr(least, "shape: [2]") != NULL, "%s", least);
    cr_expect(strstr(least, "rows: 1, dim: 3}") != NULL, "%s", least);
    cr_expect(strstr(least, "batch: 0") != NULL, "%s", least);
    cr_expect(strstr(least, "sharding") == NULL && strstr(least, "optimizer") == NULL, "%s", least);
    int lines = 0;
    for (const char *c = least; *c != 0; c++) {
        lines += *c == '\n';
    }
    cr_expect_leq(lines, 6, "%s", least);
    ls_text_free(&text);
}

// With fewer ranks the others are unchanged: lists for each rank lose entries, numbers of ranks
// wrap around, and other lists stay.
Test(fuzz, leaves_ranks_what_they_had) {
    json_t *tree = tree_of("lockstep: 1\n"
                           "mesh: {shape: [2, 2]}\n"
                           "batch: [5, 6, 7, 8]\n"
                           "a: {values: [1, 2, 3, 4, 5], placements: \"S(0), P(sum)\"}\n"
                           "b: {values: [[1, 2, 3], [4], [5], [6]], root: 3, host: 1}\n"
                           "c: {ranks: [0, 1, 2, 3], splits: [[1, 2, 3, 4], [5, 6, 7, 8], []]}\n"
                           "d: {ranks: [0, 3, 1], sizes: [4, 5, 6], pairs: [[0, 3], [2, 1]]}\n");
    ls_text text = {0};
    cr_assert(ls_fuzz_shrink__fewer_ranks(tree, 0));
    ls_fuzz_write(&text, tree);
    cr_expect_str_eq(ls_text_string(&text), "lockstep: 1\n"
                                            "mesh: {shape: [2]}\n"
                                            "batch: [5, 6]\n"
                                            "a: {values: [1, 2, 3, 4, 5], placements: S(0)}\n"
                                            "b: {values: [[1, 2, 3], [4]], root: 1, host: 1}\n"
                                            "c: {ranks: [0, 1], splits: [[1, 2], [5, 6]]}\n"
                                            "d: {ranks: [0, 1, 1], sizes: [4, 5, 6], pairs: [[0, "
                                            "1], [0, 1]]}\n");
    ls_text_free(&text);
    json_decref(tree);
}

// The budget holds.
Test(fuzz, asks_no_more_than_it_may) {
    ls_text text = {0};
    int count = 0;
    (void)shrunk(&text, 5, &count);
    cr_expect_eq(count, 5);
    ls_text_free(&text);
}

// ---- Trials -------------------------------------------------------------------------------------
static ls_fuzz_end end_of(const char *scenario, int way) {
    ls_fuzz_outcome outcome;
    char tables[64];  // of this process: other runs of this test may be in progress
    (void)snprintf(tables, sizeof tables, "/tmp/lockstep-fuzz-test-%ld", (long)getpid());
    const ls_run_options options = {
        .deadline_seconds = 60, .reproduce = "lockstep run", .checkpoint = tables};
    json_t *tree = tree_of(scenario);
    cr_assert_eq(ls_fuzz_try(&outcome, tree, "tried.yaml", way, &options), LS_OK, "%s",
                 ls_error_last()->text);
    json_decref(tree);
    return outcome.end;
}

// The end of a scenario reports its injected defect and the effect.
Test(fuzz, tells_how_it_ended) {
    char text[400];
    const struct {
        const char *call, *more;
        ls_fuzz_end end;
    } cases[] = {
        {"", "", LS_FUZZ_PASSED},
        {", except: [{ranks: [1], op: max}]", "", LS_FUZZ_FOUND},
        {"", "faults: [{type: bit_flip, rank: 0, index: 30}]\n", LS_FUZZ_FOUND},
        {"", "faults: [{type: die, rank: 0, call: 5}]\n", LS_FUZZ_MISSED},
        {", op: max", "faults: [{type: bit_flip, rank: 5}]\n", LS_FUZZ_UNFIT},  // no such rank
        {", counts: 4", "", LS_FUZZ_UNFIT},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        (void)snprintf(text, sizeof text,
                       "lockstep: 1\nname: x\nmesh: {shape: [2]}\n"
                       "program: {steps: [{all_reduce: {count: 4%s}}]}\n%s",
                       cases[i].call, cases[i].more);
        cr_expect_eq(end_of(text, 0), cases[i].end, "%s", text);
    }
}

// A plain program whose ranks disagree about a replica fails, under every order.
Test(fuzz, fails_where_ranks_drift_apart) {
    const char *drifts =
        "lockstep: 1\nname: x\nmesh: {shape: [2]}\nprogram:\n"
        "  tensors: [{name: a, shape: [2], placements: R}]\n"
        "  steps: [{change: {tensor: a, ranks: [1], value: 7}}, {full: {tensor: a}}]\n";
    cr_expect_eq(end_of(drifts, 0), LS_FUZZ_FAILED);
    cr_expect_eq(end_of(drifts, 1), LS_FUZZ_FAILED);
    cr_expect_eq(end_of(drifts, 11), LS_FUZZ_UNFIT);  // it has no tables to reverse
}

// Values that must stay on fewer ranks, and through a checkpoint of another plan, are tried where
// they exist.
Test(fuzz, holds_scenarios_beside_themselves) {
    const char *tables = "lockstep: 1\nname: x\nseed: 3\nmesh: {shape: [3]}\n"
                         "tables: [{name: a, rows: 9, dim: 4, sharding: {type: row_wise}}]\n"
                         "inputs: {batch: [2, 0, 3]}\nsteps: [forward, backward, update]\n"
                         "optimizer: {type: rowwise_adagrad}\ntrain: {steps: 2}\n";
    const char *tensors = "lockstep: 1\nname: x\nmesh: {shape: [3]}\nprogram:\n"
                          "  tensors: [{name: a, shape: [5], values: normal, placements: S(0)}]\n"
                          "  steps: [{full: {tensor: a}}]\n";
    const char *buffers = "lockstep: 1\nname: x\nmesh: {shape: [3]}\n"
                          "program: {steps: [{all_reduce: {count: 4}}]}\n";
    const char *two = "lockstep: 1\nname: x\nmesh: {shape: [1]}\n"
                      "tables: [{name: a, rows: 9, dim: 4}, {name: b, rows: 3, dim: 2}]\n"
                      "inputs: {batch: 2}\n";
    int reversed = 11, fewer = 12, resharded = 13;
    cr_assert_str_eq(ls_fuzz_way_name(reversed), "tables reversed");
    cr_assert_str_eq(ls_fuzz_way_name(fewer), "on fewer ranks");
    cr_assert_str_eq(ls_fuzz_way_name(resharded), "resharded and back");
    cr_expect_eq(end_of(tables, reversed), LS_FUZZ_UNFIT);
    cr_expect_eq(end_of(two, reversed), LS_FUZZ_PASSED);
    cr_expect_eq(end_of(two, fewer), LS_FUZZ_UNFIT);
    cr_expect_eq(end_of(tables, fewer), LS_FUZZ_PASSED);
    cr_expect_eq(end_of(tables, resharded), LS_FUZZ_PASSED);
    cr_expect_eq(end_of(tensors, fewer), LS_FUZZ_PASSED);
    cr_expect_eq(end_of(tensors, resharded), LS_FUZZ_UNFIT);
    cr_expect_eq(end_of(buffers, fewer), LS_FUZZ_UNFIT);
}

// Whether the other form `written` passes against the results of `text`.
static bool passes_beside(const char *text, const char *written, ls_fuzz_variation variation) {
    const ls_run_options options = {.deadline_seconds = 60, .reproduce = "lockstep fuzz"};
    json_t *tree = tree_of(text), *other = tree_of(written);
    ls_scenario *scenario = NULL;
    ls_results *results = NULL;
    bool fits = false;
    cr_assert_eq(ls_fuzz_parse(&scenario, tree, "beside.yaml", false, NULL), LS_OK);
    cr_assert_eq(ls_results_create(&results, "fuzz"), LS_OK);
    cr_assert_eq(
        ls_fuzz_run_varied(results, &fits, other, scenario, variation, "row_wise", &options),
        LS_OK);
    cr_assert(fits && results->case_count == 1);
    bool passes = results->cases[0].pass;
    ls_results_free(results);
    ls_scenario_free(scenario);
    json_decref(other);
    json_decref(tree);
    return passes;
}

// Another form is compared with the scenario's own results: numbers of another seed do not pass.
Test(fuzz, compares_other_forms) {
    static const struct {
        ls_fuzz_variation variation;
        const char *more;
    } cases[] = {
        {LS_FUZZ_SHARDED, "tables: [{name: a, rows: 9, dim: 4}]\ninputs: {batch: [2, 0, 0]}\n"},
        {LS_FUZZ_FEWER, "tables: [{name: a, rows: 9, dim: 4}]\ninputs: {batch: 2}\n"},
        {LS_FUZZ_REVERSED, "tables: [{name: a, rows: 9, dim: 4}, {name: b, rows: 3, dim: 2}]\n"
                           "inputs: {batch: 2}\n"},
        {LS_FUZZ_FEWER,
         "program:\n  tensors: [{name: a, shape: [5], values: normal, placements: S(0)}]\n"
         "  steps: [{full: {tensor: a}}]\n"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        for (int seed = 3; seed <= 4; seed++) {
            const char *head = "lockstep: 1\nname: x\nmesh: {shape: [3]}\nseed:";
            ls_text text = {0}, other = {0};
            ls_text_printf(&text, "%s 3\n%s", head, cases[i].more);
            ls_text_printf(&other, "%s %d\n%s", head, seed, cases[i].more);
            cr_expect_eq(
                passes_beside(ls_text_string(&text), ls_text_string(&other), cases[i].variation),
                seed == 3, "case %zu, seed %d", i, seed);
            ls_text_free(&text);
            ls_text_free(&other);
        }
    }
}
