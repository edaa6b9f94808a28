// Outputs of tables, corrupted in one place, against the oracle and against a real run's.
#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#include "runner/compare/expect.h"
#include "runner/program/execute.h"

// Sums, a mean as TorchRec divides it, rows as they are, and a zero.
static const char text[] =
    "lockstep: 1\nname: outputs\nseed: 5\nmesh: {shape: [2]}\ntables:\n"
    "  - {name: sums, rows: 9, dim: 3, features: [x, y], sharding: {type: row_wise}}\n"
    "  - {name: means, rows: 9, dim: 2, pooling: mean, mean_divisor: torchrec, sharding: {type: "
    "row_wise}}\n"
    "  - {name: rows, rows: 4, dim: 2, pooling: none, weights: {constant: 0}, sharding: {type: "
    "table_wise, ranks: 1}}\n"
    "  - {name: quarters, rows: 3, dim: 1, weights: {constant: 0.25}, sharding: {type: row_wise}}\n"
    "inputs:\n  batch: [2, 3]\n  features:\n"
    "    x: {lengths: {constant: 4}}\n    y: {lengths: {constant: 3}}\n"
    "    means: {lengths: {constant: 3}}\n    rows: {lengths: {constant: 2}}\n"
    "    quarters: {lengths: {constant: 4}}\n";

typedef struct fixture {
    ls_diagnostics *diagnostics;
    ls_scenario *scenario;
    ls_arena *arena;
    ls_scenario_oracle *oracle;
    ls_stages *run;
    ls_comparison comparison;
} fixture;

static void open_fixture(fixture *f) {
    *f = (fixture){0};
    cr_assert(ls_diagnostics_create(&f->diagnostics, "t.yaml") == LS_OK);
    int status =
        ls_scenario_parse(&f->scenario, f->diagnostics, "t.yaml", text, strlen(text), NULL);
    ls_text said = {0};
    ls_diagnostics_format(&said, f->diagnostics);
    cr_assert(status == LS_OK, "%s", ls_text_string(&said));
    ls_text_free(&said);
    cr_assert(ls_arena_create(&f->arena) == LS_OK);
    cr_assert(ls_execute_oracle(&f->oracle, f->scenario, f->arena) == LS_OK);
    cr_assert(ls_stages_create(&f->run, 2) == LS_OK);
    const ls_world_options options = {.mesh = f->scenario->mesh, .seed = f->scenario->seed};
    ls_world *world = NULL;
    ls_backend *backend = NULL;
    cr_assert(ls_world_create(&world, &options) == LS_OK);
    cr_assert(ls_backend_sim_create(&backend, world) == LS_OK);
    const ls_stage_sink sink = ls_stages_sink(f->run);
    const ls_execution execution = {.scenario = f->scenario, .backend = backend, .sink = &sink};
    ls_finding finding;
    bool found = false;
    cr_assert(ls_execute(&execution, f->arena, &finding, &found) == LS_OK && !found, "%s",
              ls_error_last()->text);
    ls_backend_free(backend);
    ls_world_free(world);
}

static void close_fixture(fixture *f) {
    ls_stages_free(f->run);
    ls_execute_oracle_free(f->oracle);
    ls_arena_free(f->arena);
    ls_scenario_free(f->scenario);
    ls_diagnostics_free(f->diagnostics);
}

typedef enum spoil_kind { DROPPED, SHORTENED, OTHER_TYPE, DOUBLED, ELEMENTS } spoil_kind;

// The corruption of one output; ranks -1: on every rank.
typedef struct spoil {
    spoil_kind kind;
    const char *key;
    int rank;
    // ELEMENTS: f32 number `at` becomes the next larger one, and so does `far` by 1; SIZE_MAX:
    // none.
    size_t at, far;
    int down;       // of number 0, by so many half steps of f32 at 1
    int roundings;  // that the output is said to have beside its sum
} spoil;
#define NONE SIZE_MAX

static const ls_stage_array *array_of(const ls_stages *stages, const char *key, int rank) {
    const ls_stage_entry *entry = ls_stages_find(stages, key);
    cr_assert(entry != NULL && entry->ranks[rank].present, "%s of rank %d", key, rank);
    return &entry->ranks[rank];
}

// The run again with one corrupted output.
static ls_stages *spoilt(const ls_stages *run, const spoil *how) {
    ls_stages *made = NULL;
    cr_assert(ls_stages_create(&made, ls_stages_ranks(run)) == LS_OK);
    const ls_stage_sink sink = ls_stages_sink(made);
    for (int i = 0; i < ls_stages_count(run); i++) {
        const ls_stage_entry *entry = ls_stages_at(run, i);
        for (int rank = 0; rank < ls_stages_ranks(run); rank++) {
            const ls_stage_array *array = &entry->ranks[rank];
            float numbers[64];
            ls_stage_output output = {.stage = entry->stage,
                                      .table = entry->table,
                                      .feature = entry->feature,
                                      .field = entry->field,
                                      .rank = rank,
                                      .dtype = entry->dtype,
                                      .shape = array->shape,
                                      .data = array->data};
            bool here = strcmp(entry->key, how->key) == 0 && (how->rank < 0 || how->rank == rank);
            if (!array->present || (here && how->kind == DROPPED)) {
                continue;
            }
            if (here && how->kind == SHORTENED) {
                output.shape.dim[0] -= 1;
            } else if (here && how->kind == OTHER_TYPE) {
                output.dtype = LS_I32;
            } else if (here) {
                cr_assert(entry->dtype == LS_F32 && array->count <= 64);
                memcpy(numbers, array->data, array->count * sizeof(float));
                for (size_t k = 0; how->kind == DOUBLED && k < array->count; k++) {
                    numbers[k] *= 2;
                }
                if (how->at != NONE) {
                    numbers[how->at] = nextafterf(numbers[how->at], INFINITY);
                }
                if (how->far != NONE) {
                    numbers[how->far] += 1;
                }
                numbers[0] -= (float)how->down * 0x1p-24F;
                output.roundings = how->roundings;
                output.data = numbers;
            }
            cr_assert(sink.emit(sink.arg, &output) == LS_OK);
        }
    }
    return made;
}

static const ls_stage_result *stage_of(const fixture *f, const char *stage,
                                       const ls_divergence_place **place) {
    for (int i = 0; i < f->comparison.stage_count; i++) {
        if (strcmp(f->comparison.stages[i].stage, stage) == 0) {
            *place = &f->comparison.places[i];
            return &f->comparison.stages[i];
        }
    }
    cr_assert_fail("no stage %s", stage);
    return NULL;
}

// Judges the corruption by the oracle, or (real) as a real run's against the run.
static const ls_stage_result *judge(fixture *f, const spoil *how, bool real, const char *stage,
                                    const ls_divergence_place **place) {
    const ls_expectation expectation = {.oracle = f->oracle};
    ls_stages *other = spoilt(f->run, how);
    f->comparison =
        (ls_comparison){.arena = f->arena, .main = real ? LS_JUDGE_REAL : LS_JUDGE_ORACLE};
    int status =
        real ? ls_compare_runs(&f->comparison, f->run, other, &expectation, "simulated", "real")
             : ls_compare_expected(&f->comparison, other, &expectation, "simulated");
    cr_assert(status == LS_OK, "%s", ls_error_last()->text);
    const ls_stage_result *result = stage_of(f, stage, place);
    // The place's pointers are into stages that are freed.
    static ls_divergence_place kept;
    kept = **place;
    kept.table = kept.table ? ls_arena_strdup(f->arena, kept.table) : NULL;
    kept.feature = kept.feature ? ls_arena_strdup(f->arena, kept.feature) : NULL;
    kept.key = kept.key ? ls_arena_strdup(f->arena, kept.key) : NULL;
    *place = &kept;
    ls_stages_free(other);
    return result;
}

// An output of the oracle that the run lacks, on one rank or on all, is wrong at its place.
Test(outputs, what_is_missing_is_told) {
    fixture f;
    open_fixture(&f);
    for (int rank = -1; rank < 2; rank++) {
        const spoil gone = {DROPPED, "output_dist/sums/y/values", rank, NONE, NONE, 0, 0};
        const ls_divergence_place *place = NULL;
        const ls_stage_result *stage = judge(&f, &gone, false, "output_dist", &place);
        cr_expect(stage->class_ == LS_CLASS_WRONG, "rank %d: %s", rank,
                  ls_class_name(stage->class_));
        cr_expect(strstr(stage->divergence, " has no output output_dist/sums/y/values") != NULL,
                  "%s", stage->divergence);
        cr_expect_str_eq(place->table, "sums");
        cr_expect_str_eq(place->feature, "y");
        cr_expect(place->rank == (rank < 0 ? 0 : rank));
        cr_expect(judge(&f, &gone, true, "output_dist", &place)->class_ == LS_CLASS_WRONG);
    }
    close_fixture(&f);
}

// A factor is named, against the oracle and against another run; an element that is off has none.
Test(outputs, what_is_likely_is_told) {
    fixture f;
    open_fixture(&f);
    for (int real = 0; real < 2; real++) {
        const spoil twice = {DOUBLED, "output_dist/sums/x/values", 1, NONE, NONE, 0, 0};
        const spoil off = {ELEMENTS, "output_dist/sums/x/values", 1, NONE, 1, 0, 0};
        const ls_divergence_place *place = NULL;
        const char *said = judge(&f, &twice, real == 1, "output_dist", &place)->divergence;
        cr_expect(said != NULL && strstr(said, real ? "it is 2 times the simulated one (world"
                                                    : "it is 2 times the expected one (world"),
                  "%s", said);
        said = judge(&f, &off, real == 1, "output_dist", &place)->divergence;
        cr_expect(said != NULL && strstr(said, "likely") == NULL, "%s", said);
    }
    close_fixture(&f);
}

// So is one that the oracle lacks.
Test(outputs, what_is_unknown_is_told) {
    fixture f;
    open_fixture(&f);
    const float numbers[] = {1, 2};
    const ls_stage_output extra = {.stage = "output_dist",
                                   .table = "sums",
                                   .feature = "z",
                                   .field = "values",
                                   .rank = 1,
                                   .dtype = LS_F32,
                                   .shape = LS_SHAPE(1, 2),
                                   .data = numbers};
    const ls_stage_sink sink = ls_stages_sink(f.run);
    cr_assert(sink.emit(sink.arg, &extra) == LS_OK);
    const spoil nothing = {DROPPED, "", 0, NONE, NONE, 0, 0};
    const ls_divergence_place *place = NULL;
    const ls_stage_result *stage = judge(&f, &nothing, false, "output_dist", &place);
    cr_expect(stage->class_ == LS_CLASS_WRONG && stage->divergence != NULL);
    cr_expect_str_eq(place->feature, "z");
    cr_expect(place->rank == 1);
    close_fixture(&f);
}

// One wrong element is reported, not those before it that differ by rounding or by design.
Test(outputs, the_wrong_element_is_told) {
    fixture f;
    open_fixture(&f);
    const spoil wrong = {ELEMENTS, "output_dist/means/means/values", 1, NONE, 5, 0, 0};
    const ls_divergence_place *place = NULL;
    const ls_stage_result *stage =
        judge(&f, &(spoil){DROPPED, "", 0, NONE, NONE, 0, 0}, false, "output_dist", &place);
    cr_assert(stage->class_ == LS_CLASS_BY_DESIGN, "%s", ls_class_name(stage->class_));
    stage = judge(&f, &wrong, false, "output_dist", &place);
    cr_expect(stage->class_ == LS_CLASS_WRONG && place->class_ == LS_CLASS_WRONG);
    cr_expect(strstr(stage->divergence, "values of rank 1, element 5: sample 2 of rank 1") != NULL,
              "%s", stage->divergence);
    cr_expect(place->rank == 1 && place->element == 5);
    cr_expect_str_eq(place->table, "means");
    close_fixture(&f);
}

// The sample that an expectation names is that of the wrong element.
Test(outputs, the_sample_is_known) {
    fixture f;
    open_fixture(&f);
    const spoil wrong = {ELEMENTS, "output_dist/sums/x/values", 1, NONE, 5, 0, 0};
    const ls_divergence_place *place = NULL;
    const ls_stage_result *stage = judge(&f, &wrong, false, "output_dist", &place);
    bool fails[8] = {false};
    cr_assert(f.comparison.stage_count <= 8 && stage->class_ == LS_CLASS_WRONG);
    fails[stage - f.comparison.stages] = true;
    // The judged array is gone, but its place is kept: rank 1, three columns a sample.
    ls_stages *other = spoilt(f.run, &wrong);
    f.comparison.places[stage - f.comparison.stages].entry =
        ls_stages_find(other, "output_dist/sums/x/values");
    for (int sample = 0; sample < 3; sample++) {
        const char *why = NULL;
        const ls_scenario_expect expect = {
            .has_class = true, .class_ = LS_CLASS_WRONG, .sample = sample};
        cr_expect(ls_expect_divergence(&why, &f.comparison, fails, &expect, f.oracle, f.arena) ==
                      (sample == 1),
                  "sample %d", sample);
    }
    ls_stages_free(other);
    close_fixture(&f);
}

// In a real sum the element beyond its bound is reported, not an earlier one within it.
Test(outputs, real_sums_are_held_to_their_own_bound) {
    fixture f;
    open_fixture(&f);
    const spoil near = {ELEMENTS, "output_dist/sums/x/values", 1, 2, NONE, 0, 0};
    const spoil far = {ELEMENTS, "output_dist/sums/x/values", 1, 2, 7, 0, 0};
    const ls_divergence_place *place = NULL;
    const ls_stage_result *stage = judge(&f, &near, true, "output_dist", &place);
    cr_expect(stage->class_ == LS_CLASS_WITHIN_BOUND && stage->differing == 1);
    cr_expect(place->rank == 1 && place->element == 2);
    stage = judge(&f, &far, true, "output_dist", &place);
    cr_expect(stage->class_ == LS_CLASS_WRONG && stage->differing == 2);
    cr_expect(strstr(stage->divergence, "rank 1, element 7 [2, 1]") != NULL, "%s",
              stage->divergence);
    cr_expect(place->rank == 1 && place->element == 7);
    close_fixture(&f);
}

// Another system's output with one more rounding may be half a step further from the sum: a step of
// the numbers that the sum can reach, from 1 on, not below.
Test(outputs, another_rounding_is_allowed) {
    fixture f;
    open_fixture(&f);
    spoil how = {ELEMENTS, "output_dist/quarters/quarters/values", 0, NONE, NONE, 0, 0};
    const ls_divergence_place *place = NULL;
    const ls_stage_entry *entry = ls_stages_find(f.run, how.key);
    cr_assert(entry != NULL && *(const float *)entry->ranks[0].data == 1.0F);
    int most[2] = {0, 0};
    for (how.roundings = 0; how.roundings < 2; how.roundings++) {
        how.down = 1;
        while (judge(&f, &how, true, "output_dist", &place)->class_ == LS_CLASS_WITHIN_BOUND) {
            cr_assert(++how.down < 100);
        }
        most[how.roundings] = how.down - 1;
    }
    cr_expect(most[0] > 0 && most[1] == most[0] + 1, "%d, then %d", most[0], most[1]);
    close_fixture(&f);
}

// A documented meaning applies to a real run as it does to the oracle.
Test(outputs, real_means_are_held_to_what_is_documented) {
    fixture f;
    open_fixture(&f);
    const spoil near = {ELEMENTS, "output_dist/means/means/values", 0, 1, NONE, 0, 0};
    const ls_divergence_place *place = NULL;
    const ls_stage_result *stage = judge(&f, &near, true, "output_dist", &place);
    cr_expect(stage->class_ == LS_CLASS_WITHIN_BOUND, "%s: %g", ls_class_name(stage->class_),
              stage->bound_ratio);
    close_fixture(&f);
}

// Moved rows keep their bits, including the sign of a zero.
Test(outputs, moved_rows_keep_their_bits) {
    fixture f;
    open_fixture(&f);
    const ls_stage_array *rows = array_of(f.run, "output_dist/rows/rows/values", 1);
    cr_assert(rows->count > 0 && ((float *)rows->data)[1] == 0);
    ls_stages *real = spoilt(f.run, &(spoil){DROPPED, "", 0, NONE, NONE, 0, 0});
    ((float *)array_of(real, "output_dist/rows/rows/values", 1)->data)[1] = -0.0f;
    const ls_expectation expectation = {.oracle = f.oracle};
    f.comparison = (ls_comparison){.arena = f.arena, .main = LS_JUDGE_REAL};
    cr_assert(ls_compare_runs(&f.comparison, f.run, real, &expectation, "a", "b") == LS_OK);
    const ls_divergence_place *place = NULL;
    cr_expect(stage_of(&f, "output_dist", &place)->class_ == LS_CLASS_WRONG);
    ls_stages_free(real);
    close_fixture(&f);
}

// The same bits as another type are wrong. If both runs have another shape than the oracle, their
// sums are unknown, and every bit counts.
Test(outputs, another_type_and_another_shape) {
    fixture f;
    open_fixture(&f);
    const ls_divergence_place *place = NULL;
    const spoil typed = {OTHER_TYPE, "output_dist/sums/x/values", -1, NONE, NONE, 0, 0};
    cr_expect(judge(&f, &typed, true, "output_dist", &place)->class_ == LS_CLASS_WRONG);
    const spoil shorter = {SHORTENED, "output_dist/sums/x/values", 1, NONE, NONE, 0, 0};
    const ls_stage_result *stage = judge(&f, &shorter, true, "output_dist", &place);
    cr_expect(stage->class_ == LS_CLASS_WRONG);
    // Our run has none of the extra outputs: all of them differ.
    cr_expect(stage->differing == array_of(f.run, "output_dist/sums/x/values", 1)->count, "%llu",
              (unsigned long long)stage->differing);
    ls_stages *cut = spoilt(f.run, &shorter);
    ls_stages_free(f.run);
    f.run = cut;
    const spoil near = {ELEMENTS, "output_dist/sums/x/values", 1, 2, NONE, 0, 0};
    cr_expect(judge(&f, &near, true, "output_dist", &place)->class_ == LS_CLASS_WRONG);
    close_fixture(&f);
}

// Runs with different numbers of ranks are not compared.
Test(outputs, as_many_ranks) {
    fixture f;
    open_fixture(&f);
    for (int ranks = 1; ranks <= 3; ranks += 2) {
        ls_stages *other = NULL;
        cr_assert(ls_stages_create(&other, ranks) == LS_OK);
        f.comparison = (ls_comparison){.arena = f.arena, .main = LS_JUDGE_REAL};
        cr_expect(ls_compare_runs(&f.comparison, f.run, other, &(ls_expectation){0}, "a", "b") ==
                  LS_ERR_INVALID);
        ls_stages_free(other);
    }
    close_fixture(&f);
}
