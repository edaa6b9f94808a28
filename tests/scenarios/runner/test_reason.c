// Tests of runner/compare/reason.c: the reasons that it names, and coincidences that it does not.
#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#include "runner/compare/reason.h"

// One value is a multiple of every other, and zeros are multiples of nothing.
Test(reason, multiples) {
    const struct {
        double a[3], b[3];
        size_t count;
        double factor;  // 0: none
    } cases[] = {
        {{1, 2, 4}, {2, 4, 8}, 3, 2},         {{1, 2, 4}, {-0.5, -1, -2}, 3, -0.5},
        {{1, 2, 4}, {2, 4, 8 + 1e-3}, 3, 0},  {{1, 2, 4}, {2, 4, 8 + 1e-5}, 3, 2},
        {{1, 2, 4}, {2, 5, 9}, 2, 0},         {{1, 2, 4}, {3, 4, 8}, 3, 0},
        {{0.1, 0.2, 9}, {0.2, 0.4, 8}, 2, 2}, {{0.1, 0.2, 9}, {0.2, 0.4, 8}, 3, 0},
        {{3, 2, 4}, {6, 0, 0}, 1, 0},         {{0, 0, 0}, {1, 2, 4}, 3, 0},
        {{1, 2, 4}, {0, 0, 0}, 3, 0},         {{1, 2, INFINITY}, {2, 4, 8}, 3, 0},
        {{1, 2, NAN}, {2, 4, 8}, 3, 0},       {{1, 2, 4}, {2, 4, NAN}, 3, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        double factor = 0;
        bool is = ls_reason_is_multiple(&factor, cases[i].a, cases[i].b, cases[i].count, 1e-5);
        cr_expect(is == (cases[i].factor != 0), "case %zu", i);
        cr_expect(!is || fabs(factor - cases[i].factor) < 1e-5, "case %zu: %g", i, factor);
    }
}

Test(reason, sizes) {
    const double values[3] = {-5, 2, 4};
    cr_expect(ls_reason_largest(values, 3) == 5 && ls_reason_largest(values + 1, 1) == 2);
    cr_expect(ls_reason_is_near(100.09, 100) && !ls_reason_is_near(100.2, 100));
    cr_expect(ls_reason_is_near(0.010009, 0.01) && !ls_reason_is_near(0.01002, 0.01));
    const ls_shape shapes[] = {LS_SHAPE(5), LS_SHAPE(2, 3), LS_SHAPE(2, 3, 4)};
    const size_t widths[] = {0, 3, 4};
    for (size_t i = 0; i < sizeof widths / sizeof *widths; i++) {
        cr_expect(ls_reason_width(&shapes[i]) == widths[i]);
    }
}

// The half of a type's digits, but no less than two of its roundings and no more than a thousandth.
Test(reason, nearness) {
    cr_expect(ls_reason_nearness(LS_I32) == 0);
    cr_expect(ls_reason_nearness(LS_F64) == sqrt(0x1p-53));
    cr_expect(ls_reason_nearness(LS_F32) == 0x1p-12);
    cr_expect(ls_reason_nearness(LS_F16) == 1e-3);
    cr_expect(ls_reason_nearness(LS_BF16) == 0x1p-7);
}

static bool factor_says(const double *due, const double *got, size_t count, int ranks,
                        const char *told) {
    const ls_reason_values v = {.due = due,
                                .got = got,
                                .count = count,
                                .near = 1e-6,
                                .ranks = ranks,
                                .of = "the reference"};
    ls_text text = {0};
    bool says = ls_reason_factor(&text, &v);
    says = says && strstr(ls_text_string(&text), told) != NULL;
    ls_text_free(&text);
    return says;
}

Test(reason, factors_are_named) {
    const double due[4] = {1, 2, 0, 3};
    const struct {
        double factor;
        int ranks;
        const char *told;  // NULL: no reason
    } cases[] = {
        {-1, 4, "it is -1 times the reference (wrong sign)"},
        {4, 4, "(world: summed where"},
        {2, 4, "(a group of the mesh: summed where"},
        {0.25, 4, "(1/world: divided"},
        {0.5, 4, "(1/a group of the mesh: divided"},
        {3, 4, "(a mean over another number of elements)"},
        {3, 3, "(world: summed where"},
        {2, 1, "(a mean over another number of elements)"},
        {1, 4, NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        double got[4];
        for (int k = 0; k < 4; k++) {
            got[k] = due[k] * cases[i].factor;
        }
        const char *told = cases[i].told;
        cr_expect(factor_says(due, got, 4, cases[i].ranks, told != NULL ? told : "") ==
                      (told != NULL),
                  "case %zu", i);
    }
    // With one value beside zeros all others are multiples.
    const double one[4] = {0, 2, 0, 0}, half[4] = {0, 1, 0, 0};
    cr_expect(!factor_says(one, half, 4, 2, ""));
    const double two[4] = {2, 1, 0, 0}, halves[4] = {1, 0.5, 0, 0};
    cr_expect(factor_says(two, halves, 4, 2, "(1/world"));
}

static bool moved_says(const double *due, const double *got, size_t count, size_t width,
                       const char *told) {
    const ls_reason_values v = {.due = due,
                                .got = got,
                                .count = count,
                                .width = width,
                                .near = 1e-6,
                                .of = "the reference"};
    ls_text text = {0};
    bool says = ls_reason_moved(&text, &v);
    says = says && strstr(ls_text_string(&text), told) != NULL;
    ls_text_free(&text);
    return says;
}

// Rows and columns in other places. A row of zeros equals any other one.
Test(reason, moved_lines_are_found) {
    const double due[12] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 0, 0, 0};
    const double rows[12] = {1, 2, 3, 7, 8, 9, 4, 5, 6, 0, 0, 0};
    const double columns[12] = {1, 3, 2, 4, 6, 5, 7, 9, 8, 0, 0, 0};
    const double zeros[12] = {1, 2, 3, 0, 0, 0, 7, 8, 9, 0, 0, 0};
    const double nans[12] = {1, 2, 3, 7, NAN, 9, 4, 5, 6, 0, 0, 0};
    const double other[12] = {1, 2, 3, 4, 5, 6, 8, 8, 9, 0, 0, 0};
    const double one[3] = {1, 2, 3}, turned[3] = {2, 1, 3};
    const double pairs[6] = {0.1, 0.2, 0.3, 0.4, 0.5, 0.6},
                 rolled[6] = {0.3, 0.4, 0.5, 0.6, 0.1, 0.2};
    const double near[6] = {0.3, 0.4 + 1e-3, 0.5, 0.6, 0.1, 0.2};
    cr_expect(moved_says(pairs, rolled, 6, 2, "its row 0 of 3 is the reference's row 1"));
    cr_expect(moved_says(rolled, pairs, 6, 2, "its row 0 of 3 is the reference's row 2"));
    cr_expect(!moved_says(pairs, near, 6, 2, ""));
    cr_expect(moved_says(due, rows, 12, 3, "its row 1 of 4 is the reference's row 2"));
    cr_expect(moved_says(due, columns, 12, 3, "its column 1 of 3 is the reference's column 2"));
    cr_expect(!moved_says(due, zeros, 12, 3, ""));
    cr_expect(!moved_says(due, nans, 12, 3, ""));
    cr_expect(!moved_says(due, other, 12, 3, ""));
    cr_expect(!moved_says(due, due, 12, 3, ""));
    cr_expect(!moved_says(due, rows, 12, 0, ""));
    cr_expect(!moved_says(one, turned, 3, 1, ""), "lines of one element are no lines");
}

// ---- Outputs of a stage -------------------------------------------------------------------------
typedef struct output {
    const char *stage, *table, *feature, *field;
    int rank;
    ls_dtype dtype;
    float values[4];
    int64_t rows, columns;
} output;

// Each output has its expected values, except the first.
static int due(double **out, ls_arena *arena, const void *arg, const ls_stage_entry *entry,
               int rank) {
    const ls_stage_array *array = &entry->ranks[rank];
    const double *first = arg;
    *out = ls_reason_widened(arena, array->data, entry->dtype, array->count);
    for (size_t i = 0; rank == 0 && strcmp(entry->key, "s/a/f/v") == 0 && i < 4; i++) {
        (*out)[i] = first[i];
    }
    return LS_OK;
}

static void try_exchange(const float got[4], const output *other, const char *told) {
    static const double wanted[4] = {8, 6, 4, 3};
    output own = {"s", "a", "f", "v", 0, LS_F32, {0}, 2, 2};
    memcpy(own.values, got, sizeof own.values);
    const output *all[] = {&own, other};
    ls_stages *stages = NULL;
    cr_assert(ls_stages_create(&stages, 2) == LS_OK);
    for (int i = 0; i < 2; i++) {
        const ls_stage_output at = {.stage = all[i]->stage,
                                    .table = all[i]->table,
                                    .feature = all[i]->feature,
                                    .field = all[i]->field,
                                    .rank = all[i]->rank,
                                    .dtype = all[i]->dtype,
                                    .shape = LS_SHAPE(all[i]->rows, all[i]->columns),
                                    .data = all[i]->values};
        ls_stage_sink sink = ls_stages_sink(stages);
        cr_assert(sink.emit(sink.arg, &at) == LS_OK);
    }
    const ls_stage_entry *entry = ls_stages_at(stages, 0);
    const ls_reason_output of = {.stages = stages,
                                 .entry = entry,
                                 .rank = 0,
                                 .due = due,
                                 .arg = wanted,
                                 .got = own.values,
                                 .of = "expected"};
    ls_text text = {0};
    bool says = ls_reason_tell(&text, &of);
    cr_expect(says == (told != NULL), "%s: %s", other->stage, ls_text_string(&text));
    cr_expect(told == NULL || strstr(ls_text_string(&text), told) != NULL, "%s",
              ls_text_string(&text));
    ls_text_free(&text);
    ls_stages_free(stages);
}

// The expected values of another output of the stage, of the same field, type and form.
Test(reason, exchanged_outputs_are_found) {
    const float own[4] = {1, 2, 3, 5}, zeros[4] = {0};
    const float tiny[4] = {0.1F, 0.2F, 0.3F, 0.5F};
    const struct {
        output other;
        const char *told;
    } cases[] = {
        {{"s", "a", "f", "v", 1, LS_F32, {0}, 2, 2}, "the data of table a, feature f, rank 1"},
        {{"s", "b", "g", "v", 0, LS_F32, {0}, 2, 2}, "the data of table b, feature g, rank 0"},
        {{"s", NULL, NULL, "v", 1, LS_F32, {0}, 2, 2}, "the data of rank 1"},
        {{"t", "a", "f", "v", 1, LS_F32, {0}, 2, 2}, NULL},
        {{"s", "a", "f", "w", 1, LS_F32, {0}, 2, 2}, NULL},
        {{"s", "a", "f", NULL, 1, LS_F32, {0}, 2, 2}, NULL},
        {{"s", "b", "f", "v", 1, LS_I32, {0}, 2, 2}, NULL},
        {{"s", "a", "f", "v", 1, LS_F32, {0}, 4, 1}, NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        output other = cases[i].other;
        memcpy(other.values, own, sizeof own);
        try_exchange(own, &other, cases[i].told);
        memcpy(other.values, tiny, sizeof tiny);
        try_exchange(tiny, &other, cases[i].told);
        other.values[3] += 0.1F;
        try_exchange(tiny, &other, NULL);
        memcpy(other.values, own, sizeof own);
        other.values[0] += 1;
        try_exchange(own, &other, NULL);
        memcpy(other.values, zeros, sizeof zeros);
        try_exchange(zeros, &other, NULL);
    }
}
