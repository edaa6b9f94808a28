// Tests of the store of stage outputs and of comparing two of them.
#include <criterion/criterion.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "runner/compare/compare.h"

static int put(ls_stages *stages, const char *stage, const char *field, int rank, const float *data,
               int64_t count) {
    ls_stage_sink sink = ls_stages_sink(stages);
    const ls_stage_output output = {
        .stage = stage,
        .field = field,
        .rank = rank,
        .dtype = LS_F32,
        .shape = LS_SHAPE(count),
        .data = data,
    };
    return sink.emit(sink.arg, &output);
}

// Hundreds of keys are all found again, in order of appearance.
Test(stages, keys_are_found_and_keep_their_order) {
    ls_stages *stages = NULL;
    cr_assert(ls_stages_create(&stages, 2) == LS_OK);
    for (int i = 0; i < 500; i++) {
        char name[32];
        float value = (float)i;
        (void)snprintf(name, sizeof name, "stage%d", i);
        cr_assert(put(stages, name, "values", i % 2, &value, 1) == LS_OK);
    }
    cr_assert(ls_stages_count(stages) == 500);
    for (int i = 0; i < 500; i++) {
        char key[64];
        (void)snprintf(key, sizeof key, "stage%d/-/-/values", i);
        const ls_stage_entry *entry = ls_stages_find(stages, key);
        cr_assert(entry != NULL, "%s", key);
        cr_assert(entry == ls_stages_at(stages, i));
        cr_assert(((const float *)entry->ranks[i % 2].data)[0] == (float)i);
        cr_assert(!entry->ranks[1 - i % 2].present);
    }
    cr_expect(ls_stages_find(stages, "stage500/-/-/values") == NULL);
    ls_stages_free(stages);
}

// The same output given twice, or for a rank that does not exist, is an error that names the rank.
Test(stages, outputs_given_twice_are_refused) {
    ls_stages *stages = NULL;
    float value = 1;
    cr_assert(ls_stages_create(&stages, 2) == LS_OK);
    cr_expect(put(stages, "a", "v", 1, &value, 1) == LS_OK);
    cr_expect(put(stages, "a", "v", 1, &value, 1) == LS_ERR_INVALID);
    cr_expect(ls_error_last()->rank == 1);
    cr_expect(put(stages, "a", "v", 2, &value, 1) == LS_ERR_INVALID);
    ls_stages_free(stages);
}

// A file of outputs may have any descriptor, including 0; if none can be created, the folder is
// named.
Test(stages, outputs_go_to_a_file) {
    ls_stages *stages = NULL;
    const float values[] = {1, 2, 3};
    cr_assert(ls_stages_create(&stages, 1) == LS_OK);
    (void)close(0);
    cr_assert(ls_stages_to_file(stages, "/tmp") == LS_OK, "%s", ls_error_last()->text);
    cr_expect(fcntl(0, F_GETFD) >= 0);
    cr_assert(put(stages, "a", "v", 0, values, 3) == LS_OK);
    const ls_stage_array *array = &ls_stages_at(stages, 0)->ranks[0];
    cr_expect(array->count == 3 && memcmp(array->data, values, sizeof values) == 0);
    ls_stages_free(stages);
    cr_assert(ls_stages_create(&stages, 1) == LS_OK);
    char long_path[2 * PATH_MAX];
    memset(long_path, 'x', sizeof long_path - 1);
    long_path[sizeof long_path - 1] = 0;
    cr_expect(ls_stages_to_file(stages, long_path) == LS_ERR_RESOURCE);
    cr_expect(ls_stages_to_file(stages, "/no/such/folder") == LS_ERR_RESOURCE);
    cr_expect(strstr(ls_error_last()->text, "\"/no/such/folder\"") != NULL);
    ls_stages_free(stages);
}

struct pair_fixture {
    ls_arena *arena;
    ls_stages *a, *b, *expected;
    ls_comparison comparison;
};

static void fixture_begin(struct pair_fixture *fixture) {
    cr_assert(ls_arena_create(&fixture->arena) == LS_OK);
    cr_assert(ls_stages_create(&fixture->a, 2) == LS_OK);
    cr_assert(ls_stages_create(&fixture->b, 2) == LS_OK);
    cr_assert(ls_stages_create(&fixture->expected, 2) == LS_OK);
    fixture->comparison = (ls_comparison){.arena = fixture->arena, .main = LS_JUDGE_REAL};
}

static const ls_stage_result *fixture_compare(struct pair_fixture *fixture) {
    const ls_expectation expectation = {.expected = fixture->expected};
    cr_assert(ls_compare_runs(&fixture->comparison, fixture->a, fixture->b, &expectation,
                              "simulated", "real") == LS_OK);
    return fixture->comparison.stages;
}

static void fixture_end(struct pair_fixture *fixture) {
    ls_stages_free(fixture->a);
    ls_stages_free(fixture->b);
    ls_stages_free(fixture->expected);
    ls_arena_free(fixture->arena);
}

// In moved data one differing element is wrong, and its place and values are named.
Test(compare, moved_data_must_be_bit_exact) {
    struct pair_fixture f;
    fixture_begin(&f);
    float x[3] = {1, 2, 3};
    float y[3] = {1, 2.0000002f, 3};
    cr_assert(put(f.a, "move", "values", 1, x, 3) == LS_OK);
    cr_assert(put(f.b, "move", "values", 1, y, 3) == LS_OK);
    const ls_stage_result *stage = fixture_compare(&f);
    cr_expect(stage->class_ == LS_CLASS_WRONG);
    cr_expect(stage->differing == 1);
    cr_expect(strstr(stage->divergence, "rank 1, element 1 [1]") != NULL, "%s", stage->divergence);
    cr_expect(strstr(stage->divergence, "1 ulps apart") != NULL, "%s", stage->divergence);
    fixture_end(&f);
}

// The expected values of rank 0.
static void expect(struct pair_fixture *f, const char *stage, const float *data, int64_t count,
                   const double *exact, const double *bounds) {
    static const unsigned char none[8];
    const ls_stage_output output = {
        .stage = stage,
        .field = "values",
        .dtype = LS_F32,
        .shape = LS_SHAPE(count),
        .data = data,
        .exact = exact,
        .bounds = bounds,
        .overflow = exact != NULL ? none : NULL,
    };
    ls_stage_sink sink = ls_stages_sink(f->expected);
    cr_assert(sink.emit(sink.arg, &output) == LS_OK);
}

// A real sum may differ from the exact value by one bound, on whichever side the simulated one is,
// and not by two from the simulated one.
Test(compare, real_sums_may_lie_one_bound_from_the_exact_value) {
    const float real[] = {2.00009f, 1.99991f, 2.00011f, 1.99989f};
    for (int i = 0; i < 4; i++) {
        struct pair_fixture f;
        fixture_begin(&f);
        const float simulated = 2.00009f;
        const double exact = 2, bound = 1e-4;
        cr_assert(put(f.a, "sum", "values", 0, &simulated, 1) == LS_OK);
        cr_assert(put(f.b, "sum", "values", 0, &real[i], 1) == LS_OK);
        expect(&f, "sum", &simulated, 1, &exact, &bound);
        const ls_stage_result *stage = fixture_compare(&f);
        const ls_class wanted[] = {LS_CLASS_BIT_EXACT, LS_CLASS_WITHIN_BOUND, LS_CLASS_WRONG,
                                   LS_CLASS_WRONG};
        cr_expect(stage->class_ == wanted[i], "%d: %s", i, ls_class_name(stage->class_));
        cr_expect((stage->bound_ratio > 1) == (i >= 2));
        fixture_end(&f);
    }
}

// A stage without an expectation is unjudged: it fails nothing, and alone it proves nothing.
Test(compare, outputs_that_nothing_is_expected_of_are_unjudged) {
    struct pair_fixture f;
    fixture_begin(&f);
    f.comparison.main = LS_JUDGE_ORACLE;
    const float x[2] = {1, 2};
    const ls_expectation expectation = {.expected = f.expected};
    cr_assert(put(f.a, "free", "values", 0, x, 2) == LS_OK);
    cr_assert(put(f.a, "free", "values", 1, x, 1) == LS_OK);
    cr_assert(ls_compare_expected(&f.comparison, f.a, &expectation, "simulated") == LS_OK);
    cr_assert(f.comparison.stage_count == 1);
    cr_expect(f.comparison.stages[0].class_ == LS_CLASS_UNJUDGED);
    cr_expect(f.comparison.stages[0].elements == 0 && f.comparison.stages[0].unjudged == 3);
    cr_expect(ls_comparison_class(&f.comparison) == LS_CLASS_UNJUDGED);
    // Nor do arrays without elements prove anything.
    cr_assert(put(f.a, "empty", "values", 0, x, 0) == LS_OK);
    expect(&f, "empty", x, 0, NULL, NULL);
    cr_assert(ls_compare_expected(&f.comparison, f.a, &expectation, "simulated") == LS_OK);
    cr_expect(ls_comparison_class(&f.comparison) == LS_CLASS_UNJUDGED);
    fixture_end(&f);
}

// The judge of a stage is a field: a stage may have any name.
Test(compare, a_name_says_nothing_of_the_judge) {
    struct pair_fixture f;
    fixture_begin(&f);
    const float x = 1;
    cr_assert(put(f.a, "oracle:sum", "values", 0, &x, 1) == LS_OK);
    cr_assert(put(f.b, "oracle:sum", "values", 0, &x, 1) == LS_OK);
    const ls_stage_result *stage = fixture_compare(&f);
    cr_expect(stage->judge == LS_JUDGE_REAL && strcmp(stage->stage, "oracle:sum") == 0);
    const ls_stage_result *other =
        ls_comparison__stage(&f.comparison, LS_JUDGE_ORACLE, 0, "oracle:sum");
    cr_expect(other != NULL && other != &f.comparison.stages[0]);
    fixture_end(&f);
}

// Missing outputs, extra outputs and other shapes are wrong, not overlooked.
Test(compare, missing_extra_and_misshapen_outputs_are_wrong) {
    float x[2] = {1, 2};
    for (int kind = 0; kind < 3; kind++) {
        struct pair_fixture f;
        fixture_begin(&f);
        cr_assert(put(f.a, "s", "values", 0, x, 2) == LS_OK);
        if (kind == 0) {
            cr_assert(put(f.b, "other", "values", 0, x, 2) == LS_OK);
        } else if (kind == 1) {
            cr_assert(put(f.b, "s", "values", 0, x, 2) == LS_OK);
            cr_assert(put(f.b, "s", "values", 1, x, 2) == LS_OK);
        } else {
            cr_assert(put(f.b, "s", "values", 0, x, 1) == LS_OK);
        }
        (void)fixture_compare(&f);
        cr_expect(ls_comparison_class(&f.comparison) == LS_CLASS_WRONG, "kind %d", kind);
        fixture_end(&f);
    }
}

// A debugger gets the run's own array and beside it the one that it was compared with.
Test(compare, both_sides_are_shown) {
    struct pair_fixture f;
    fixture_begin(&f);
    const float given = 1, wanted = 2;
    cr_assert(put(f.a, "move", "values", 0, &given, 1) == LS_OK);
    cr_assert(put(f.b, "move", "values", 0, &wanted, 1) == LS_OK);
    expect(&f, "move", &wanted, 1, NULL, NULL);
    (void)fixture_compare(&f);
    const ls_divergence_place *place = f.comparison.places;
    cr_expect(*(const float *)place->ours == 1 && *(const float *)place->theirs == 2);
    const ls_expectation expectation = {.expected = f.expected};
    f.comparison = (ls_comparison){.arena = f.arena, .main = LS_JUDGE_ORACLE};
    cr_assert(ls_compare_expected(&f.comparison, f.a, &expectation, "simulated") == LS_OK);
    place = f.comparison.places;
    cr_expect(*(const float *)place->ours == 1 && *(const float *)place->theirs == 2);
    fixture_end(&f);
}

// As many elements in another shape are wrong.
Test(compare, another_shape_is_wrong) {
    struct pair_fixture f;
    fixture_begin(&f);
    const float x[6] = {1, 2, 3, 4, 5, 6};
    ls_stages *const stores[2] = {f.a, f.b};
    for (int i = 0; i < 2; i++) {
        const ls_stage_output output = {.stage = "s",
                                        .field = "values",
                                        .dtype = LS_F32,
                                        .shape = LS_SHAPE(2 + i, 3 - i),
                                        .data = x};
        const ls_stage_sink sink = ls_stages_sink(stores[i]);
        cr_assert(sink.emit(sink.arg, &output) == LS_OK);
    }
    cr_expect(fixture_compare(&f)->class_ == LS_CLASS_WRONG);
    fixture_end(&f);
}

// The worst of many stages is the case's class, in any position, and its place is kept.
Test(compare, the_worst_stage_counts) {
    struct pair_fixture f;
    fixture_begin(&f);
    for (int i = 0; i < 20; i++) {
        char name[16];
        const float a = 1, b = i == 0 ? 2 : 1;
        (void)snprintf(name, sizeof name, "s%d", i);
        cr_assert(put(f.a, name, "values", 1, &a, 1) == LS_OK);
        cr_assert(put(f.b, name, "values", 1, &b, 1) == LS_OK);
    }
    (void)fixture_compare(&f);
    cr_expect(f.comparison.stage_count == 20);
    cr_expect(ls_comparison_class(&f.comparison) == LS_CLASS_WRONG);
    cr_expect_str_eq(f.comparison.places[0].key, "s0/-/-/values");
    cr_expect(f.comparison.places[0].rank == 1 && f.comparison.places[0].class_ == LS_CLASS_WRONG);
    fixture_end(&f);
}

// Whether another table or feature was as bad is recorded; the first place is kept.
Test(compare, other_tables_stay_known) {
    struct pair_fixture f;
    fixture_begin(&f);
    const char *names[] = {"a", "b", "a"};
    ls_stage_result *stage = ls_comparison__stage(&f.comparison, LS_JUDGE_ORACLE, 0, "s");
    for (int i = 0; i < 3; i++) {
        ls_comparison__place(&f.comparison, stage,
                             &(ls_divergence_place){.class_ = LS_CLASS_WRONG,
                                                    .key = "k",
                                                    .table = names[i],
                                                    .feature = names[i],
                                                    .rank = i});
    }
    const ls_divergence_place *place = f.comparison.places;
    cr_expect(place->tables && place->features && place->rank == 0);
    fixture_end(&f);
}
