// Looks for an operation that turns wrong values into the expected ones.
#include "runner/compare/reason.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "kernels/field.h"
#include "kernels/kernels.h"
#include "orders/bound.h"

#define VALUES_MAX ((size_t)1 << 24)  // elements of the wrong output that are examined
#define OTHERS_MAX ((size_t)1 << 26)  // elements of all outputs that it is compared with

double *ls_reason_widened(ls_arena *arena, const void *values, ls_dtype dtype, size_t count) {
    double *out = ls_arena_alloc(arena, count + 1, sizeof *out);
    for (size_t i = 0; out != NULL && i < count; i++) {
        out[i] = ls_element_to_f64((const char *)values + i * ls_dtype_bytes(dtype), dtype);
    }
    return out;
}

double ls_reason_nearness(ls_dtype dtype) {
    double u = ls_dtype_is_float(dtype) && dtype != LS_FIELD ? ls_bound_roundoff(dtype) : 0;
    double half = sqrt(u) < 1e-3 ? sqrt(u) : 1e-3;
    return half > 2 * u ? half : 2 * u;
}

double ls_reason_largest(const double *values, size_t count) {
    double most = 0;
    for (size_t i = 0; i < count; i++) {
        most = fabs(values[i]) > most ? fabs(values[i]) : most;
    }
    return most;
}

bool ls_reason_is_near(double a, double b) {
    return fabs(a - b) <= 1e-3 * fabs(b);
}

bool ls_reason_is_multiple(double *factor, const double *a, const double *b, size_t count,
                           double near) {
    double ab = 0, aa = 0, most = ls_reason_largest(b, count), residual = 0;
    for (size_t i = 0; i < count; i++) {
        ab += a[i] * b[i];
        aa += a[i] * a[i];
    }
    if (!(aa > 0) || !isfinite(ab) || count < 2) {
        return false;
    }
    *factor = ab / aa;
    for (size_t i = 0; i < count; i++) {
        double off = fabs(b[i] - *factor * a[i]);
        residual = off > residual ? off : residual;
    }
    return *factor != 0 && residual <= near * most;
}

static void name_factor(ls_text *out, double factor, int ranks) {
    if (ls_reason_is_near(factor, -1)) {
        ls_text_puts(out, " (wrong sign)");
        return;
    }
    for (int n = 2; n <= ranks; n++) {
        if (ranks % n != 0) {
            continue;
        }
        const char *of = n == ranks ? "world" : "a group of the mesh";
        if (ls_reason_is_near(factor, n)) {
            ls_text_printf(out, " (%s: summed where a mean is due, or counted on every rank)", of);
            return;
        }
        if (ls_reason_is_near(factor, 1.0 / n)) {
            ls_text_printf(out, " (1/%s: divided once too often, or not summed)", of);
            return;
        }
    }
    ls_text_puts(out, " (a mean over another number of elements)");
}

bool ls_reason_factor(ls_text *out, const ls_reason_values *v) {
    double factor = 0;
    size_t some = 0;
    for (size_t i = 0; i < v->count && some < 2; i++) {
        some += v->due[i] != 0 ? 1 : 0;  // all others are multiples of one value
    }
    if (some < 2 || !ls_reason_is_multiple(&factor, v->due, v->got, v->count, v->near) ||
        ls_reason_is_near(factor, 1)) {
        return false;
    }
    ls_text_printf(out, "\n  likely: it is %.6g times %s", factor, v->of);
    name_factor(out, factor, v->ranks);
    return true;
}

size_t ls_reason_width(const ls_shape *shape) {
    return shape->ndim > 1 ? (size_t)shape->dim[shape->ndim - 1] : 0;
}

static bool same_values(const double *a, const double *b, size_t count, double near) {
    double most = ls_reason_largest(a, count);
    bool same = true;
    for (size_t i = 0; i < count && same; i++) {
        same = fabs(a[i] - b[i]) <= near * most;
    }
    return same;
}

// Rows or columns: `count` of `length` elements at distance `step`; their starts are `apart`.
typedef struct lines {
    const char *word;
    size_t count, length, step, apart;
} lines;

static bool same_line(const ls_reason_values *v, const lines *of, size_t got, size_t due) {
    double most = 0, off = 0;
    for (size_t i = 0; i < of->length; i++) {
        double a = v->due[due * of->apart + i * of->step];
        double b = v->got[got * of->apart + i * of->step];
        most = fabs(a) > most ? fabs(a) : most;
        off = fabs(a - b) <= off ? off : fabs(a - b);
        if (isnan(off)) {
            return false;
        }
    }
    return off <= v->near * most && (most > 0 || got == due);
}

static bool tell_moved(ls_text *out, const ls_reason_values *v, const lines *of) {
    size_t bad = 0;
    while (bad < of->count && same_line(v, of, bad, bad)) {
        bad++;
    }
    for (size_t r = 0; bad < of->count && of->length > 1 && r < of->count; r++) {
        if (same_line(v, of, bad, r)) {
            ls_text_printf(
                out,
                "\n  likely: split or assembled in another order, its %s %zu of %zu is %s's %s %zu",
                of->word, bad, of->count, v->of, of->word, r);
            return true;
        }
    }
    return false;
}

bool ls_reason_moved(ls_text *out, const ls_reason_values *v) {
    if (v->width == 0) {
        return false;
    }
    size_t rows = v->count / v->width;
    const lines by_row = {"row", rows, v->width, 1, v->width};
    const lines by_column = {"column", v->width, rows, v->width, 1};
    return tell_moved(out, v, &by_row) || tell_moved(out, v, &by_column);
}

// ---- Outputs of a stage -------------------------------------------------------------------------
static bool same_name(const char *a, const char *b) {
    return a == NULL || b == NULL ? a == b : strcmp(a, b) == 0;
}

static void name_output(ls_text *out, const ls_stage_entry *entry, int rank) {
    if (entry->table != NULL) {
        ls_text_printf(out, "table %s, ", entry->table);
    }
    if (entry->feature != NULL) {
        ls_text_printf(out, "feature %s, ", entry->feature);
    }
    ls_text_printf(out, "rank %d", rank);
}

// Whether the output has the expected values of another one.
static bool is_other(const ls_reason_output *of, const ls_reason_values *v,
                     const ls_stage_entry *entry, int rank) {
    double *other = NULL;
    ls_arena *arena = NULL;
    bool is = ls_arena_create(&arena) == LS_OK &&
              of->due(&other, arena, of->arg, entry, rank) == LS_OK && other != NULL &&
              ls_reason_largest(other, v->count) > 0 &&
              same_values(other, v->got, v->count, v->near);
    ls_arena_free(arena);
    return is;
}

static bool tell_exchanged(ls_text *out, const ls_reason_output *of, const ls_reason_values *v) {
    const ls_stage_entry *own = of->entry;
    size_t looked_at = 0;
    for (int i = 0; i < ls_stages_count(of->stages); i++) {
        const ls_stage_entry *entry = ls_stages_at(of->stages, i);
        if (strcmp(entry->stage, own->stage) != 0 || !same_name(entry->field, own->field)) {
            continue;
        }
        for (int rank = 0; rank < v->ranks && looked_at < OTHERS_MAX; rank++) {
            // Invariant: `own` differs from its expected values, and an absent array has no
            // dimension.
            if (!ls_shape_equal(&entry->ranks[rank].shape, &own->ranks[of->rank].shape)) {
                continue;
            }
            looked_at += v->count;
            if (is_other(of, v, entry, rank)) {
                ls_text_puts(out, "\n  likely: it has the data of ");
                name_output(out, entry, rank);
                return true;
            }
        }
    }
    return false;
}

// Whether one small fraction is the ratio of all wrong elements to the expected ones.
static bool factor_in_field(ls_text *out, const ls_reason_values *v) {
    enum { TERM_MAX = 64 };
    uint32_t factor = 1;
    size_t wrong = 0;
    for (size_t i = 0; i < v->count; i++) {
        uint32_t due = ls_field_of(v->due[i]), got = ls_field_of(v->got[i]);
        if (got == due) {
            continue;
        }
        factor = wrong++ == 0 ? ls_field_over(got, due) : factor;
        if (ls_field_times(factor, due) != got) {
            return false;
        }
    }
    if (wrong < 2) {
        return false;  // a single number is a multiple of any other
    }
    for (uint32_t below = 1; below <= TERM_MAX; below++) {
        int64_t above = ls_field_times(factor, below);
        above = above > LS_FIELD_PRIME / 2 ? above - LS_FIELD_PRIME : above;
        if (above >= -TERM_MAX && above <= TERM_MAX) {
            ls_text_printf(out, "\n  likely: every wrong element is %lld", (long long)above);
            if (below > 1) {
                ls_text_printf(out, "/%u", below);
            }
            ls_text_printf(out, " times %s", v->of);
            return true;
        }
    }
    return false;
}

static bool tell(ls_text *out, ls_arena *arena, const ls_reason_output *of) {
    const ls_stage_array *array = &of->entry->ranks[of->rank];
    const ls_dtype dtype = of->entry->dtype;
    double *due = NULL;
    char name[64];
    (void)snprintf(name, sizeof name, "the %s one", of->of);
    if (array->count < 2 || array->count > VALUES_MAX ||
        of->due(&due, arena, of->arg, of->entry, of->rank) != LS_OK || due == NULL) {
        return false;
    }
    const double *got = ls_reason_widened(arena, of->got, dtype, array->count);
    const ls_reason_values v = {.due = due,
                                .got = got,
                                .count = array->count,
                                .width = ls_reason_width(&array->shape),
                                .near = ls_reason_nearness(dtype),
                                .ranks = ls_stages_ranks(of->stages),
                                .of = name};
    return got != NULL && !same_values(due, got, v.count, v.near) &&
           (tell_exchanged(out, of, &v) || (dtype == LS_FIELD && factor_in_field(out, &v)) ||
            (ls_dtype_is_float(dtype) && dtype != LS_FIELD && ls_reason_factor(out, &v)) ||
            ls_reason_moved(out, &v));
}

bool ls_reason_tell(ls_text *out, const ls_reason_output *output) {
    ls_arena *arena = NULL;
    bool told = ls_arena_create(&arena) == LS_OK && tell(out, arena, output);
    ls_arena_free(arena);
    ls_error_clear();
    return told;
}
