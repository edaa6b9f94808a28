// Outputs against another system's numbers in a file: every element has its place in the matrix.
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "formats/npy.h"
#include "formats/safetensors.h"
#include "orders/bound.h"
#include "runner/compare/compare.h"
#include "tests/npy_writer.h"

enum { ROWS = 3, COLUMNS = 4 };

// The outputs of stage s, table t: feature a has two columns, b and c have one each; rank 0 has two
// samples, rank 1 has one and rank 2 none. Side by side:
static const float matrix[ROWS][COLUMNS] = {{1, 2, 10, 100}, {3, 4, 20, 200}, {5, 6, 30, 300}};

typedef struct fixture {
    char dir[32], file[64];
    ls_arena *arena;
    ls_stages *run, *expected;
    ls_comparison comparison;
    ls_scenario_reference reference;
} fixture;

static void put(ls_stages *stages, const char *stage, const char *table, const char *feature,
                int rank, ls_dtype dtype, ls_shape shape, const void *data) {
    const ls_stage_output output = {.stage = stage,
                                    .table = table,
                                    .feature = feature,
                                    .field = "values",
                                    .rank = rank,
                                    .dtype = dtype,
                                    .shape = shape,
                                    .data = data};
    ls_stage_sink sink = ls_stages_sink(stages);
    cr_assert(sink.emit(sink.arg, &output) == LS_OK);
}

static void put_feature(ls_stages *stages, const char *feature, int first, int columns) {
    float packed[ROWS * 2];
    for (int r = 0; r < ROWS; r++) {
        memcpy(&packed[r * columns], &matrix[r][first], (size_t)columns * sizeof(float));
    }
    put(stages, "s", "t", feature, 0, LS_F32, LS_SHAPE(2, columns), packed);
    put(stages, "s", "t", feature, 1, LS_F32, LS_SHAPE(1, columns), &packed[2 * columns]);
}

static void open_fixture(fixture *f) {
    *f = (fixture){.dir = "/tmp/lockstep-ref-XXXXXX"};
    cr_assert(mkdtemp(f->dir) != NULL);
    (void)snprintf(f->file, sizeof f->file, "%s/r.npy", f->dir);
    cr_assert(ls_arena_create(&f->arena) == LS_OK);
    cr_assert(ls_stages_create(&f->run, 3) == LS_OK && ls_stages_create(&f->expected, 3) == LS_OK);
    f->reference = (ls_scenario_reference){
        .stage = "s", .table = "t", .file = f->file, .allow = LS_CLASS_WRONG};
    const float early = 7, other = 8;
    put(f->run, "early", "t", "a", 0, LS_F32, LS_SHAPE(1, 1), &early);
    put_feature(f->run, "a", 0, 2);
    put_feature(f->run, "b", 2, 1);
    put_feature(f->run, "c", 3, 1);
    put(f->run, "s", "u", "d", 0, LS_F32, LS_SHAPE(1, 1), &other);
    put(f->run, "late", "t", "a", 0, LS_F32, LS_SHAPE(1, 1), &other);
}

static void close_fixture(fixture *f) {
    (void)unlink(f->file);
    (void)rmdir(f->dir);
    ls_stages_free(f->run);
    ls_stages_free(f->expected);
    ls_arena_free(f->arena);
}

static int compare(fixture *f) {
    const ls_scenario scenario = {.arena = f->arena,
                                  .file = "t.yaml",
                                  .checks = {.references = &f->reference, .reference_count = 1}};
    f->comparison = (ls_comparison){.arena = f->arena, .main = LS_JUDGE_ORACLE};
    const ls_expectation expectation = {.expected = f->expected};
    return ls_compare_references(&f->comparison, f->run, &scenario, &expectation);
}

static const ls_stage_result *compare_with(fixture *f, ls_dtype dtype, int64_t rows,
                                           int64_t columns, const void *data) {
    const int64_t dim[] = {rows, columns};
    cr_assert(write_npy(f->file, dtype, 2, dim, data));
    cr_assert(compare(f) == LS_OK, "%s", ls_error_last()->text);
    cr_assert(f->comparison.stage_count == 1);
    return f->comparison.stages;
}

// Each element in turn: only it is wrong, and is reported with its row, column, output and rank.
Test(references, every_element_has_its_place) {
    static const char *const keys[COLUMNS] = {"s/t/a/values", "s/t/a/values", "s/t/b/values",
                                              "s/t/c/values"};
    fixture f;
    open_fixture(&f);
    cr_expect(compare_with(&f, LS_F32, ROWS, COLUMNS, matrix)->class_ == LS_CLASS_BIT_EXACT);
    for (int i = 0; i < ROWS * COLUMNS; i++) {
        int row = i / COLUMNS, column = i % COLUMNS;
        float spoilt[ROWS][COLUMNS];
        char where[64];
        memcpy(spoilt, matrix, sizeof spoilt);
        spoilt[row][column] += 0.5f;
        (void)snprintf(where, sizeof where, "row %d, column %d: the run gives %g, ", row, column,
                       (double)matrix[row][column]);
        const ls_stage_result *stage = compare_with(&f, LS_F32, ROWS, COLUMNS, spoilt);
        const ls_divergence_place *place = f.comparison.places;
        cr_expect(stage->class_ == LS_CLASS_WRONG && stage->differing == 1 &&
                  stage->elements == 12);
        cr_expect(strstr(stage->divergence, where) != NULL, "%s", stage->divergence);
        cr_expect_str_eq(place->key, keys[column], "element %d", i);
        cr_expect(place->rank == row / 2, "element %d: rank %d", i, place->rank);
        cr_expect(place->element == (size_t)i && place->class_ == LS_CLASS_WRONG);
    }
    close_fixture(&f);
}

// Without a table the whole stage, without a stage the last one; the report names it.
Test(references, stages_and_tables) {
    fixture f;
    open_fixture(&f);
    const float other = 8, early = 7;
    f.reference.stage = NULL;
    cr_expect(compare_with(&f, LS_F32, 1, 1, &other)->class_ == LS_CLASS_BIT_EXACT);
    cr_expect_str_eq(f.comparison.stages->name, "reference:late/t");
    f.reference.stage = "early";
    f.reference.table = NULL;
    cr_expect(compare_with(&f, LS_F32, 1, 1, &early)->class_ == LS_CLASS_BIT_EXACT);
    cr_expect_str_eq(f.comparison.stages->name, "reference:early");
    f.reference.stage = "s";
    f.reference.table = "u";
    cr_expect(compare_with(&f, LS_F32, 1, 1, &other)->class_ == LS_CLASS_BIT_EXACT);
    f.reference.table = NULL;  // u has another number of rows
    cr_expect(compare(&f) == LS_ERR_INVALID);
    cr_expect(strstr(ls_error_last()->text, "unequal rows") != NULL, "%s", ls_error_last()->text);
    f.reference.table = "nobody";
    cr_expect(compare(&f) == LS_ERR_NOT_FOUND);
    f.reference.table = "t";
    const int64_t whole[ROWS] = {1, 2, 3};
    put(f.run, "s", "t", "z", 0, LS_I64, LS_SHAPE(3), whole);
    cr_expect(compare(&f) == LS_ERR_INVALID);
    cr_expect(strstr(ls_error_last()->text, "several types") != NULL, "%s", ls_error_last()->text);
    close_fixture(&f);
}

// Another shape, even of as many elements, and another type are wrong as a whole.
Test(references, shape_and_type) {
    fixture f;
    open_fixture(&f);
    double wide[ROWS][COLUMNS];
    for (int i = 0; i < ROWS * COLUMNS; i++) {
        wide[i / COLUMNS][i % COLUMNS] = (double)matrix[i / COLUMNS][i % COLUMNS];
    }
    const struct {
        ls_dtype dtype;
        int64_t rows, columns;
        const void *data;
    } others[] = {{LS_F64, ROWS, COLUMNS, wide},
                  {LS_F32, COLUMNS, ROWS, matrix},
                  {LS_F32, ROWS - 1, COLUMNS, matrix},
                  {LS_I32, ROWS, COLUMNS, matrix}};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        const ls_stage_result *stage =
            compare_with(&f, others[i].dtype, others[i].rows, others[i].columns, others[i].data);
        cr_expect(stage->class_ == LS_CLASS_WRONG && stage->differing == 12, "%zu", i);
        cr_expect(strstr(stage->divergence, "the run gives f32 [3, 4]") != NULL);
    }
    close_fixture(&f);
}

// The allowed values of feature a: each element within its own bound, the last also infinite.
static void expect_sums(fixture *f, int64_t rows) {
    const double bounds[] = {0.25, 0.5, 0.125, 1}, exact[] = {1, 2, 3, 4};
    const unsigned char overflow[] = {0, 0, 0, LS_OVERFLOW_UP};
    const ls_stage_output output = {.stage = "s",
                                    .table = "t",
                                    .feature = "a",
                                    .field = "values",
                                    .dtype = LS_F32,
                                    .shape = LS_SHAPE(rows, 2),
                                    .data = matrix,
                                    .exact = exact,
                                    .bounds = bounds,
                                    .overflow = overflow};
    ls_stage_sink sink = ls_stages_sink(f->expected);
    cr_assert(sink.emit(sink.arg, &output) == LS_OK);
}

// A sum may differ from its exact value by its own bound, whatever else is in the matrix; moved
// data must have its bits.
Test(references, sums_within_their_bounds) {
    const struct {
        int row, column;
        float value;
        ls_class class_;
    } cases[] = {{0, 0, 1.25f, LS_CLASS_WITHIN_BOUND},  {0, 0, 1.26f, LS_CLASS_WRONG},
                 {0, 1, 1.5f, LS_CLASS_WITHIN_BOUND},   {0, 1, 2.6f, LS_CLASS_WRONG},
                 {1, 0, 3.125f, LS_CLASS_WITHIN_BOUND}, {1, 0, 3.2f, LS_CLASS_WRONG},
                 {1, 1, 3, LS_CLASS_WITHIN_BOUND},      {1, 1, INFINITY, LS_CLASS_WITHIN_BOUND},
                 {1, 1, -INFINITY, LS_CLASS_WRONG},     {1, 0, INFINITY, LS_CLASS_WRONG},
                 {0, 2, 10.000001f, LS_CLASS_WRONG},    {2, 0, 5.0000005f, LS_CLASS_WRONG},
                 {0, 2, INFINITY, LS_CLASS_WRONG},      {2, 0, -INFINITY, LS_CLASS_WRONG}};
    fixture f;
    open_fixture(&f);
    expect_sums(&f, 2);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        float theirs[ROWS][COLUMNS];
        memcpy(theirs, matrix, sizeof theirs);
        theirs[cases[i].row][cases[i].column] = cases[i].value;
        const ls_stage_result *stage = compare_with(&f, LS_F32, ROWS, COLUMNS, theirs);
        cr_expect(stage->class_ == cases[i].class_, "%zu: %s", i, ls_class_name(stage->class_));
        cr_expect((stage->bound_ratio > 1) == (cases[i].class_ == LS_CLASS_WRONG), "%zu", i);
    }
    // The wrong element is reported, not the first that differs.
    float theirs[ROWS][COLUMNS];
    memcpy(theirs, matrix, sizeof theirs);
    theirs[0][0] = 1.125f;
    theirs[1][3] = 201;
    const ls_stage_result *stage = compare_with(&f, LS_F32, ROWS, COLUMNS, theirs);
    cr_expect(stage->class_ == LS_CLASS_WRONG && stage->differing == 2);
    cr_expect(strstr(stage->divergence, "row 1, column 3") != NULL, "%s", stage->divergence);
    cr_expect(f.comparison.places->element == 7);
    close_fixture(&f);
}

// An output with another number of elements has no expected values: every bit counts.
Test(references, sums_of_another_size) {
    fixture f;
    open_fixture(&f);
    expect_sums(&f, 1);
    float theirs[ROWS][COLUMNS];
    memcpy(theirs, matrix, sizeof theirs);
    theirs[0][0] = 1.25f;
    const ls_stage_result *stage = compare_with(&f, LS_F32, ROWS, COLUMNS, theirs);
    cr_expect(stage->class_ == LS_CLASS_WRONG, "%s", ls_class_name(stage->class_));
    close_fixture(&f);
}

// If nothing may differ, a zero's sign counts.
Test(references, moved_zeros_keep_their_sign) {
    fixture f;
    open_fixture(&f);
    const float zero = 0, negative = -0.0f;
    f.reference.stage = "zero";
    put(f.run, "zero", "t", "a", 1, LS_F32, LS_SHAPE(1, 1), &zero);
    cr_expect(compare_with(&f, LS_F32, 1, 1, &zero)->class_ == LS_CLASS_BIT_EXACT);
    cr_expect(compare_with(&f, LS_F32, 1, 1, &negative)->class_ == LS_CLASS_WRONG);
    close_fixture(&f);
}

// A matrix without elements proves nothing, and one with too few columns is wrong.
Test(references, no_elements) {
    fixture f;
    open_fixture(&f);
    f.reference.stage = "none";
    put(f.run, "none", "t", "a", 0, LS_F32, LS_SHAPE(0, 2), NULL);
    cr_expect(compare_with(&f, LS_F32, 0, 2, matrix)->class_ == LS_CLASS_UNJUDGED);
    cr_expect(compare_with(&f, LS_F32, 0, 3, matrix)->class_ == LS_CLASS_WRONG);
    close_fixture(&f);
}

// Of several tensors one must be named.
Test(references, tensors_are_named) {
    fixture f;
    open_fixture(&f);
    char path[64];
    float wrong[ROWS][COLUMNS] = {{0}};
    ls_safetensor_source sources[2] = {
        {.name = "right", .dtype = LS_F32, .ndim = 2, .dim = {ROWS, COLUMNS}, .data = matrix},
        {.name = "wrong", .dtype = LS_F32, .ndim = 2, .dim = {ROWS, COLUMNS}, .data = wrong}};
    (void)snprintf(path, sizeof path, "%s/r.safetensors", f.dir);
    f.reference.file = path;
    cr_assert(ls_safetensors_write(path, sources, 1, NULL, 0) == LS_OK);
    cr_expect(compare(&f) == LS_OK && f.comparison.stages->class_ == LS_CLASS_BIT_EXACT);
    cr_assert(ls_safetensors_write(path, sources, 2, NULL, 0) == LS_OK);
    cr_expect(compare(&f) == LS_ERR_FORMAT);
    f.reference.tensor = "wrong";
    cr_expect(compare(&f) == LS_OK && f.comparison.stages->class_ == LS_CLASS_WRONG);
    f.reference.tensor = "right";
    cr_expect(compare(&f) == LS_OK && f.comparison.stages->class_ == LS_CLASS_BIT_EXACT);
    (void)unlink(path);
    close_fixture(&f);
}
