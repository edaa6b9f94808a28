// Looks for an operation that turns one run's tensor into the other's.
#include "runner/diff/explain.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "runner/compare/reason.h"
#include "runner/diff/field.h"

#define WEIGHTS_MAX 16  // limit on the ranks' parts in a combination

typedef struct vectors {
    double *ref;
    double *run[WEIGHTS_MAX];  // [runs], a copy each
    int runs;
    double *part[WEIGHTS_MAX];  // [parts]
    int part_ranks[WEIGHTS_MAX];
    int parts;
    size_t count;
    double near;  // tolerance for equality up to rounding, relative to the largest value
    int ranks;
} vectors;

// ---- Of one copy --------------------------------------------------------------------------------
// The whole tensor, or each rank's shard, is a multiple.
static bool explain_factors(ls_text *out, ls_arena *arena, const vectors *v,
                            const ls_reason_values *values, const ls_assembled *run) {
    double factor = 0;
    if (ls_reason_factor(out, values)) {
        return true;
    }
    ls_text text = {0};
    bool zero = false, all = run->piece_count > 1 && run->copies == 1 && run->terms == 1;
    bool any = false;
    for (int i = 0; i < run->piece_count && all; i++) {
        const ls_assembled_piece *piece = &run->pieces[i];
        const void *a = NULL, *b = NULL;
        size_t count = 0;
        if (ls_shape_count(&count, &piece->local) != LS_OK || count == 0 ||
            ls_assembled_cut(&a, arena, run, piece, v->ref, sizeof(double)) != LS_OK ||
            ls_assembled_cut(&b, arena, run, piece, v->run[0], sizeof(double)) != LS_OK) {
            continue;
        }
        if (ls_reason_largest(b, count) == 0 && ls_reason_largest(a, count) > 0) {
            ls_text_printf(&text, "%s rank %d's shard is all zero", any ? "," : "", piece->rank);
            any = zero = true;
        } else if (ls_reason_is_multiple(&factor, a, b, count, v->near)) {
            ls_text_printf(&text, "%s rank %d has %.6g times the reference", any ? "," : "",
                           piece->rank, factor);
            any = any || !ls_reason_is_near(factor, 1);
        } else {
            all = false;
        }
    }
    if (all && any) {
        ls_text_printf(out, "\n  likely a %s:%s", zero ? "shard left out" : "mean of means",
                       ls_text_string(&text));
    }
    ls_text_free(&text);
    return all && any;
}

// A rank's shard is the reference's shard of another rank.
static bool explain_swapped(ls_text *out, ls_arena *arena, const vectors *v,
                            const ls_assembled *run) {
    for (int i = 0; i < run->piece_count; i++) {
        const ls_assembled_piece *own = &run->pieces[i];
        const void *has = NULL, *due = NULL, *other = NULL;
        size_t count = 0;
        if (own->copy != 0 || own->term != 0 || ls_shape_count(&count, &own->local) != LS_OK ||
            count < 2 ||
            ls_assembled_cut(&has, arena, run, own, v->run[0], sizeof(double)) != LS_OK ||
            ls_assembled_cut(&due, arena, run, own, v->ref, sizeof(double)) != LS_OK ||
            memcmp(has, due, count * sizeof(double)) == 0) {
            continue;
        }
        for (int k = 0; k < run->piece_count; k++) {
            const ls_assembled_piece *place = &run->pieces[k];
            if (k == i || !ls_shape_equal(&place->local, &own->local) ||
                ls_assembled_cut(&other, arena, run, place, v->ref, sizeof(double)) != LS_OK) {
                continue;
            }
            double factor = 0;
            if (ls_reason_is_multiple(&factor, other, has, count, v->near) &&
                ls_reason_is_near(factor, 1)) {
                ls_text_printf(out, "\n  likely: rank %d has the data of rank %d", own->rank,
                               place->rank);
                return true;
            }
        }
    }
    return false;
}

// ---- Of several ---------------------------------------------------------------------------------
// Solves the normal equations of vectors^T w = target; false if they are singular.
static bool weigh(double *weights, double *const *at, int n, const double *target, size_t count,
                  double near) {
    double m[WEIGHTS_MAX][WEIGHTS_MAX + 1] = {{0}}, sizes[WEIGHTS_MAX];
    for (int i = 0; i < n; i++) {
        for (size_t e = 0; e < count; e++) {
            for (int j = 0; j < n; j++) {
                m[i][j] += at[i][e] * at[j][e];
            }
            m[i][n] += at[i][e] * target[e];
        }
        sizes[i] = m[i][i];
    }
    for (int i = 0; i < n; i++) {
        int pivot = i;
        for (int r = i + 1; r < n; r++) {
            pivot = fabs(m[r][i]) > fabs(m[pivot][i]) ? r : pivot;
        }
        if (!(fabs(m[pivot][i]) > 1e-6 * sizes[i]) || !isfinite(m[pivot][i])) {
            return false;
        }
        double row[WEIGHTS_MAX + 1];
        memcpy(row, m[i], sizeof row);
        memcpy(m[i], m[pivot], sizeof row);
        memcpy(m[pivot], row, sizeof row);
        for (int r = 0; r < n; r++) {
            double f = r == i ? 0 : m[r][i] / m[i][i];
            for (int c = i; c <= n && r != i; c++) {
                m[r][c] -= f * m[i][c];
            }
        }
    }
    double most = ls_reason_largest(target, count), residual = 0;
    for (int i = 0; i < n; i++) {
        weights[i] = m[i][n] / m[i][i];
    }
    for (size_t e = 0; e < count; e++) {
        double sum = 0;
        for (int i = 0; i < n; i++) {
            sum += weights[i] * at[i][e];
        }
        residual = fabs(sum - target[e]) > residual ? fabs(sum - target[e]) : residual;
    }
    return residual <= near * most;
}

static bool all_near(const double *weights, int n, double value) {
    bool all = true;
    for (int i = 0; i < n; i++) {
        all = all && fabs(weights[i] - value) <= 1e-3 * fabs(value);
    }
    return all;
}

// Whether the reference is a multiple of the sum of the ranks' values.
static bool is_sum(const vectors *v, double *const *at, int n, double times) {
    double most = ls_reason_largest(v->ref, v->count);
    for (size_t e = 0; e < v->count; e++) {
        double sum = 0;
        for (int i = 0; i < n; i++) {
            sum += at[i][e];
        }
        if (!(fabs(times * sum - v->ref[e]) <= v->near * most)) {
            return false;
        }
    }
    return most > 0;
}

static void put_weights(ls_text *out, const double *weights, const int *ranks, int n) {
    for (int i = 0; i < n; i++) {
        double shown = fabs(weights[i]) < 1e-3 ? 0 : weights[i];
        ls_text_printf(out, "%s%.4g of rank %d", i > 0 ? ", " : "", shown, ranks[i]);
    }
}

// Some ranks have the reference, others do not.
static bool explain_some(ls_text *out, const vectors *v, const int *ranks) {
    ls_text text = {0};
    int found = 0;
    for (int c = 0; c < v->runs; c++) {
        if (is_sum(v, &v->run[c], 1, 1)) {
            ls_text_printf(&text, "%s %d", found > 0 ? "," : "", ranks[c]);
            found++;
        }
    }
    if (found > 0) {
        ls_text_printf(out, "\n  likely: of the %d ranks only%s %s what the reference has", v->runs,
                       ls_text_string(&text), found == 1 ? "has" : "have");
    }
    ls_text_free(&text);
    return found > 0;
}

// The ranks' values should have been summed.
static bool explain_unreduced(ls_text *out, const vectors *v, const int *ranks) {
    double due[WEIGHTS_MAX];
    if (explain_some(out, v, ranks)) {
        return true;
    }
    if (is_sum(v, v->run, v->runs, 1)) {
        ls_text_puts(out,
                     "\n  likely: not summed, the sum of what the ranks have is the reference");
    } else if (is_sum(v, v->run, v->runs, 1.0 / v->runs)) {
        ls_text_puts(out, "\n  likely: not averaged, the mean of what the ranks have is the "
                          "reference");
    } else if ((size_t)v->runs < v->count &&
               weigh(due, v->run, v->runs, v->ref, v->count, v->near)) {
        ls_text_puts(out, "\n  likely: not reduced, the reference is ");
        put_weights(out, due, ranks, v->runs);
    } else {
        return false;
    }
    return true;
}

// A sum has wrong terms. differ: the copies do; rank: of the first.
static bool explain_sum(ls_text *out, const vectors *v, bool differ, int rank) {
    double due[WEIGHTS_MAX], given[WEIGHTS_MAX];
    int n = v->parts, left_out = -1, used = 0, own = 0;
    if ((size_t)n >= v->count || !weigh(due, v->part, n, v->ref, v->count, v->near) ||
        !weigh(given, v->part, n, v->run[0], v->count, v->near)) {
        return false;
    }
    ls_text_puts(out, "\n  likely: it adds up ");
    put_weights(out, given, v->part_ranks, n);
    ls_text_puts(out, " where the reference is ");
    put_weights(out, due, v->part_ranks, n);
    for (int i = 0; i < n; i++) {
        left_out = fabs(given[i]) < 1e-3 && fabs(due[i]) > 1e-3 ? v->part_ranks[i] : left_out;
        used += fabs(given[i]) >= 1e-3 ? 1 : 0;
        own += fabs(given[i]) >= 1e-3 && v->part_ranks[i] == rank ? 1 : 0;
    }
    if (differ && used == 1 && own == 1) {
        ls_text_printf(out, ": nothing was reduced, rank %d has its own part alone", rank);
    } else if (left_out >= 0) {
        ls_text_printf(out, ": rank %d is left out", left_out);
    } else if (all_near(given, n, 1.0 / n) && !all_near(due, n, 1.0 / n)) {
        ls_text_puts(out, all_near(due, n, 1) ? ": 1/world too much"
                                              : ": a mean of means over unequal shares");
    }
    return true;
}

// ---- Of other tensors ---------------------------------------------------------------------------
// *out [count]: the reference's values of a tensor, or the run's first copy; NULL: none.
static int load(double **out, const ls_diff_sides *sides, const ls_capture *of, const char *name,
                const ls_assembled *like) {
    const ls_captured *tensor = ls_capture_find(of, name);
    const void *value = NULL;
    ls_assembled whole;
    *out = NULL;
    int status = LS_ERR_MISMATCH;
    if (tensor != NULL) {
        status = ls_assemble(&whole, sides->arena, tensor, like != NULL ? &like->shape : NULL);
    }
    if (status == LS_ERR_MISMATCH ||
        (like != NULL && status == LS_OK && whole.count != like->count)) {
        ls_error_clear();
        return LS_OK;
    }
    LS_TRY(status);
    LS_TRY(ls_assembled_value(&value, sides->arena, &whole, 0));
    *out = ls_reason_widened(sides->arena, value, whole.dtype, whole.count);
    return *out != NULL ? LS_OK : LS_ERR_MEMORY;
}

// Whether all rows of the run are off by the same vector, stored in offset [width].
static bool is_offset(double *offset, const vectors *v, size_t width) {
    double most = ls_reason_largest(v->ref, v->count);
    for (size_t i = 0; i < width; i++) {
        offset[i] = v->run[0][i] - v->ref[i];
    }
    bool same = ls_reason_largest(offset, width) > v->near * most;
    for (size_t i = width; same && i < v->count; i++) {
        same = fabs(v->run[0][i] - v->ref[i] - offset[i % width]) <= v->near * most;
    }
    return same;
}

// A bias that was added too often, or not at all.
static bool explain_bias(ls_text *out, const vectors *v, const ls_diff_sides *sides,
                         const ls_assembled *run) {
    size_t width = run->shape.ndim > 1 ? (size_t)run->shape.dim[run->shape.ndim - 1] : 0;
    double *offset = width > 1 ? ls_arena_alloc(sides->arena, width, sizeof *offset) : NULL;
    if (offset == NULL || v->count / width < 2 || !is_offset(offset, v, width)) {
        return false;
    }
    for (size_t i = 0; i < sides->ref->count; i++) {
        const ls_captured *tensor = &sides->ref->tensors[i];
        double *bias = NULL, times = 0;
        if (!tensor->moves || tensor->pieces[0].at->count != width ||
            load(&bias, sides, sides->ref, tensor->name, NULL) != LS_OK || bias == NULL) {
            continue;
        }
        if (ls_reason_is_multiple(&times, bias, offset, width, 1e-2) &&
            ls_reason_is_near(times, round(times))) {
            ls_text_printf(out, "\n  likely: %s is added %.0f times %s", tensor->name, fabs(times),
                           times > 0 ? "too often" : "too rarely");
            return true;
        }
    }
    return false;
}

// An update that is a multiple of the reference's.
static bool explain_update(ls_text *out, const vectors *v, const ls_diff_sides *sides,
                           const ls_diff_pair *pair) {
    static const char *const word = " parameter ";
    const char *name = pair->ref_of->name, *of = strstr(name, word);
    double *was = NULL, *had = NULL, factor = 0;
    int step = 0;
    if (of == NULL || sscanf(name, "step %d", &step) != 1) {
        return false;
    }
    of += strlen(word);
    const char *before = step == 0
                             ? ls_arena_printf(sides->arena, "parameter %s", of)
                             : ls_arena_printf(sides->arena, "step %d parameter %s", step - 1, of);
    if (before == NULL || load(&was, sides, sides->ref, before, &pair->ref) != LS_OK ||
        load(&had, sides, sides->run, before, &pair->run) != LS_OK || was == NULL || had == NULL) {
        return false;
    }
    for (size_t i = 0; i < v->count; i++) {
        was[i] = v->ref[i] - was[i];
        had[i] = v->run[0][i] - had[i];
    }
    if (!ls_reason_is_multiple(&factor, was, had, v->count, 1e-2) || fabs(factor - 1) < 1e-2) {
        return false;
    }
    ls_text_printf(out, "\n  likely: the update is %.4g times the reference's (the learning rate)",
                   factor);
    return true;
}

// ---- All ----------------------------------------------------------------------------------------
static bool fill(vectors *v, ls_arena *arena, const void *ref, const ls_assembled *run,
                 const ls_assembled *parts) {
    v->ref = ls_reason_widened(arena, ref, run->dtype, run->count);
    bool made = v->ref != NULL;
    for (int c = 0; c < run->copies && c < WEIGHTS_MAX && made; c++) {
        const void *value = NULL;
        made = ls_assembled_value(&value, arena, run, c) == LS_OK;
        v->run[c] = made ? ls_reason_widened(arena, value, run->dtype, run->count) : NULL;
        made = v->run[c] != NULL;
        v->runs = c + 1;
    }
    for (int p = 0; parts != NULL && p < parts->copies && p < WEIGHTS_MAX && made &&
                    parts->count == run->count && parts->copies <= WEIGHTS_MAX;
         p++) {
        v->part[p] =
            ls_reason_widened(arena, parts->whole[p * parts->terms], parts->dtype, parts->count);
        v->part_ranks[p] = parts->pieces[p].rank;
        made = v->part[p] != NULL;
        v->parts = p + 1;
    }
    return made;
}

// Fills ranks_of [WEIGHTS_MAX] with one rank of each copy; the wrong copy comes first.
static void put_first(vectors *v, int ranks_of[WEIGHTS_MAX], const ls_assembled *run, int copy) {
    for (int i = 0; i < run->piece_count; i++) {
        if (run->pieces[i].copy < WEIGHTS_MAX) {
            ranks_of[run->pieces[i].copy] = run->pieces[i].rank;
        }
    }
    if (copy < v->runs) {
        double *wrong = v->run[copy];
        int rank = ranks_of[copy];
        v->run[copy] = v->run[0];
        ranks_of[copy] = ranks_of[0];
        v->run[0] = wrong;
        ranks_of[0] = rank;
    }
}

bool ls_diff_explain(ls_text *out, const ls_diff_sides *sides, const ls_diff_pair *pair, int copy) {
    const ls_assembled *run = &pair->run;
    vectors v = {.count = run->count, .ranks = sides->run->ranks};
    int ranks_of[WEIGHTS_MAX] = {0}, other = 0;
    if (run->of->modulus > 0) {
        return ls_diff__field_explain(out, sides, pair, copy);
    }
    if (!ls_dtype_is_float(run->dtype) ||
        !fill(&v, sides->arena, pair->wanted[copy], run, pair->has_parts ? &pair->parts : NULL)) {
        return false;
    }
    v.near = ls_reason_nearness(run->dtype);
    put_first(&v, ranks_of, run, copy);
    for (int c = v.runs - 1; c > 0; c--) {
        other = memcmp(v.run[c], v.run[0], v.count * sizeof(double)) != 0 ? c : other;
    }
    if (v.parts > 1 && explain_sum(out, &v, other > 0, ranks_of[0])) {
        return true;
    }
    if (other > 0 && run->copies <= WEIGHTS_MAX && explain_unreduced(out, &v, ranks_of)) {
        return true;
    }
    const ls_reason_values values = {.due = v.ref,
                                     .got = v.run[0],
                                     .count = v.count,
                                     .width = ls_reason_width(&run->shape),
                                     .near = v.near,
                                     .ranks = v.ranks,
                                     .of = "the reference"};
    if (explain_factors(out, sides->arena, &v, &values, run) ||
        explain_swapped(out, sides->arena, &v, run) || ls_reason_moved(out, &values) ||
        explain_update(out, &v, sides, pair) || explain_bias(out, &v, sides, run)) {
        return true;
    }
    if (other > 0) {
        ls_text_printf(out, "\n  the ranks' copies differ: ranks %d and %d have different values",
                       ranks_of[0], ranks_of[other]);
    }
    return other > 0;
}
