// Explains differences of exact tensors. Equality is exact here, so a factor or an addend is not a
// guess.
#include <string.h>

#include "runner/diff/field.h"

#define SIDES_MAX  16                   // limit on copies or parts in a combination
#define FACTOR_MAX 256                  // limit on numerator and denominator of a named factor
#define KNOWN_MAX  (UINT64_C(1) << 24)  // elements of tensors in which an addend is sought

typedef struct numbers {
    const int64_t *due, *got;
    const int64_t *side[SIDES_MAX];  // [sides] copies or parts
    int ranks[SIDES_MAX];
    int sides;
    size_t count;
    uint64_t p;
    int world;
} numbers;

static uint64_t times(uint64_t a, uint64_t b, uint64_t p) {
    return a * b % p;  // p is below 2^32
}

static uint64_t inverse(uint64_t a, uint64_t p) {
    uint64_t result = 1;
    for (uint64_t left = p - 2; left > 0; left /= 2, a = times(a, a, p)) {
        result = left % 2 == 1 ? times(result, a, p) : result;
    }
    return result;
}

// *factor: b is a multiple of a, which is not all 0.
static bool is_multiple(uint64_t *factor, const int64_t *a, const int64_t *b, size_t count,
                        uint64_t p) {
    size_t first = 0;
    while (first < count && a[first] == 0) {
        first++;
    }
    if (first == count) {
        return false;
    }
    *factor = times((uint64_t)b[first], inverse((uint64_t)a[first], p), p);
    for (size_t i = 0; i < count; i++) {
        if (times((uint64_t)a[i], *factor, p) != (uint64_t)b[i]) {
            return false;
        }
    }
    return true;
}

// A factor as a small fraction; false: it is not one.
static bool as_fraction(int64_t *above, int64_t *below, uint64_t factor, uint64_t p) {
    for (int64_t b = 1; b <= FACTOR_MAX; b++) {
        uint64_t a = times(factor, (uint64_t)b, p);
        if (a <= FACTOR_MAX || p - a <= FACTOR_MAX) {
            *above = a <= FACTOR_MAX ? (int64_t)a : -(int64_t)(p - a);
            *below = b;
            return true;
        }
    }
    return false;
}

static void put_factor(ls_text *out, uint64_t factor, uint64_t p) {
    int64_t above = 0, below = 1;
    if (!as_fraction(&above, &below, factor, p)) {
        ls_text_puts(out, "another number");
    } else if (below == 1) {
        ls_text_printf(out, "%lld", (long long)above);
    } else {
        ls_text_printf(out, "%lld/%lld", (long long)above, (long long)below);
    }
}

// ---- Of one copy --------------------------------------------------------------------------------
static bool explain_factor(ls_text *out, const numbers *v) {
    uint64_t factor = 0;
    int64_t above = 0, below = 1;
    if (!is_multiple(&factor, v->due, v->got, v->count, v->p) || factor == 1 ||
        (!as_fraction(&above, &below, factor, v->p) && v->count < 2)) {
        return false;
    }
    if (factor == 0) {
        ls_text_puts(out, "\n  likely: it is all zero");
        return true;
    }
    ls_text_puts(out, "\n  likely a factor: it is ");
    put_factor(out, factor, v->p);
    const char *what = below == 1 && above == -1 ? " (its sign)" : "";
    if (below == 1 && above == v->world) {
        what = " (world: summed where a mean is due)";
    } else if (above == 1 && below == v->world) {
        what = " (1/world: divided once too often)";
    }
    ls_text_printf(out, " times the reference%s", what);
    return true;
}

static bool cut(const int64_t **out, ls_arena *arena, const ls_assembled *run,
                const ls_assembled_piece *piece, const int64_t *whole, size_t *count) {
    const void *made = NULL;
    if (ls_shape_count(count, &piece->local) != LS_OK || *count == 0 ||
        ls_assembled_cut(&made, arena, run, piece, whole, sizeof *whole) != LS_OK) {
        return false;
    }
    *out = made;
    return true;
}

// Each rank's shard is a multiple, or the reference's shard of another rank.
static bool explain_shards(ls_text *out, ls_arena *arena, const numbers *v,
                           const ls_assembled *run) {
    ls_text text = {0};
    bool all = run->piece_count > 1 && run->copies == 1 && run->terms == 1, any = false;
    for (int i = 0; i < run->piece_count && all; i++) {
        const ls_assembled_piece *piece = &run->pieces[i];
        const int64_t *due = NULL, *got = NULL, *other = NULL;
        uint64_t factor = 0;
        size_t count = 0, others = 0;
        if (!cut(&due, arena, run, piece, v->due, &count) ||
            !cut(&got, arena, run, piece, v->got, &count)) {
            continue;
        }
        if (is_multiple(&factor, due, got, count, v->p)) {
            ls_text_printf(&text, "%s rank %d has ", any ? "," : "", piece->rank);
            put_factor(&text, factor, v->p);
            ls_text_puts(&text, " times the reference");
            any = true;
            continue;
        }
        all = false;
        for (int k = 0; k < run->piece_count; k++) {
            const ls_assembled_piece *place = &run->pieces[k];
            if (k != i && ls_shape_equal(&place->local, &piece->local) &&
                cut(&other, arena, run, place, v->due, &others) && others == count &&
                memcmp(other, got, count * sizeof *got) == 0) {
                ls_text_free(&text);
                ls_text_printf(out, "\n  rank %d has the data of rank %d", piece->rank,
                               place->rank);
                return true;
            }
        }
    }
    if (all && any) {
        ls_text_printf(out, "\n  likely a factor of each rank:%s", ls_text_string(&text));
    }
    ls_text_free(&text);
    return all && any;
}

// ---- Of several ---------------------------------------------------------------------------------
// Solves for the combination of the sides that gives `target`; false: there is none, or several.
static bool weigh(uint64_t *weights, const numbers *v, const int64_t *target) {
    uint64_t m[SIDES_MAX][SIDES_MAX + 1];
    int rank = 0;
    for (size_t i = 0; i < v->count && rank < v->sides; i++) {
        uint64_t row[SIDES_MAX + 1];
        for (int s = 0; s <= v->sides; s++) {
            row[s] = (uint64_t)(s < v->sides ? v->side[s][i] : target[i]);
        }
        for (int r = 0; r < rank; r++) {
            uint64_t f = row[r];
            for (int s = 0; s <= v->sides; s++) {
                row[s] = (row[s] + v->p - times(f, m[r][s], v->p)) % v->p;
            }
        }
        if (row[rank] == 0) {
            continue;  // another element decides
        }
        uint64_t f = inverse(row[rank], v->p);
        for (int s = 0; s <= v->sides; s++) {
            m[rank][s] = times(row[s], f, v->p);
        }
        for (int r = 0; r < rank; r++) {
            uint64_t g = m[r][rank];
            for (int s = 0; s <= v->sides; s++) {
                m[r][s] = (m[r][s] + v->p - times(g, m[rank][s], v->p)) % v->p;
            }
        }
        rank++;
    }
    for (int s = 0; s < rank; s++) {
        weights[s] = m[s][v->sides];
    }
    for (size_t i = 0; rank == v->sides && i < v->count; i++) {
        uint64_t sum = 0;
        for (int s = 0; s < v->sides; s++) {
            sum = (sum + times(weights[s], (uint64_t)v->side[s][i], v->p)) % v->p;
        }
        rank = sum == (uint64_t)target[i] ? rank : -1;
    }
    return rank == v->sides && v->count > (size_t)v->sides;
}

static bool put_weights(ls_text *out, const numbers *v, const uint64_t *weights) {
    int64_t above = 0, below = 1;
    for (int s = 0; s < v->sides; s++) {
        if (!as_fraction(&above, &below, weights[s], v->p)) {
            return false;
        }
        ls_text_puts(out, s > 0 ? ", " : "");
        put_factor(out, weights[s], v->p);
        ls_text_printf(out, " of rank %d", v->ranks[s]);
    }
    return true;
}

// Reports the parts of the sum with their weights and the expected weights.
static bool explain_sum(ls_text *out, const numbers *v) {
    uint64_t due[SIDES_MAX] = {0}, given[SIDES_MAX] = {0};
    ls_text text = {0};
    bool found = v->sides > 1 && weigh(due, v, v->due) && weigh(given, v, v->got);
    if (found) {
        ls_text_puts(&text, "\n  likely: it adds up ");
        found = put_weights(&text, v, given);
        ls_text_puts(&text, " where the reference is ");
        found = found && put_weights(&text, v, due);
    }
    for (int s = 0; found && s < v->sides; s++) {
        if (given[s] == 0 && due[s] != 0) {
            ls_text_printf(&text, ": rank %d is left out", v->ranks[s]);
            break;
        }
    }
    ls_text_puts(out, found ? ls_text_string(&text) : "");
    ls_text_free(&text);
    return found;
}

// Whether the reference is a multiple of the sum of the sides.
static bool sums_to_due(const numbers *v, uint64_t factor) {
    bool same = true;
    for (size_t i = 0; same && i < v->count; i++) {
        uint64_t sum = 0;
        for (int s = 0; s < v->sides; s++) {
            sum += (uint64_t)v->side[s][i];
        }
        same = times(sum % v->p, factor, v->p) == (uint64_t)v->due[i];
    }
    return same;
}

// Copies that should have been reduced, or some of which equal the reference.
static bool explain_copies(ls_text *out, const numbers *v) {
    uint64_t due[SIDES_MAX] = {0};
    int right = 0, differ = 0;
    ls_text text = {0};
    for (int s = 0; s < v->sides; s++) {
        bool same = memcmp(v->side[s], v->due, v->count * sizeof *v->due) == 0;
        differ += memcmp(v->side[s], v->side[0], v->count * sizeof *v->due) != 0 ? 1 : 0;
        if (same) {
            ls_text_printf(&text, "%s %d", right++ > 0 ? "," : "", v->ranks[s]);
        }
    }
    bool found = v->sides > 1 && differ > 0;
    uint64_t mean = inverse((uint64_t)v->sides, v->p);
    bool is_sum = found && right == 0 && sums_to_due(v, 1);
    if (is_sum || (found && right == 0 && sums_to_due(v, mean))) {
        ls_text_printf(out, "\n  likely: not %s, the %s of what the ranks have is the reference",
                       is_sum ? "summed" : "averaged", is_sum ? "sum" : "mean");
        ls_text_free(&text);
        return true;
    }
    if (found && right > 0) {
        ls_text_printf(out, "\n  of the %d ranks only%s %s what the reference has", v->sides,
                       ls_text_string(&text), right == 1 ? "has" : "have");
    } else if (found && weigh(due, v, v->due)) {
        ls_text_free(&text);
        found = put_weights(&text, v, due);
        ls_text_printf(out, "%s%s", found ? "\n  likely: not reduced, the reference is " : "",
                       found ? ls_text_string(&text) : "");
    } else {
        found = false;
    }
    ls_text_free(&text);
    return found;
}

// ---- Of other tensors ---------------------------------------------------------------------------
// Whether the difference is a multiple of `known`, which may be one row for all rows.
static bool is_addend(uint64_t *factor, const numbers *v, const int64_t *off, const int64_t *known,
                      size_t width) {
    if (!is_multiple(factor, known, off, width, v->p)) {
        return false;
    }
    for (size_t i = width; i < v->count; i++) {
        if (off[i] != off[i % width]) {
            return false;
        }
    }
    return *factor != 0;
}

// A tensor that was added too often or not at all.
static bool explain_addend(ls_text *out, const ls_diff_sides *sides, const numbers *v,
                           const ls_assembled *run) {
    int64_t *off = ls_arena_alloc(sides->arena, v->count + 1, sizeof *off);
    const ls_shape *shape = &run->shape;
    size_t row = shape->ndim > 0 ? (size_t)shape->dim[shape->ndim - 1] : v->count;
    uint64_t sought = 0;
    for (size_t i = 0; off != NULL && i < v->count; i++) {
        off[i] = (int64_t)(((uint64_t)v->got[i] + v->p - (uint64_t)v->due[i]) % v->p);
    }
    for (size_t i = 0; off != NULL && i < sides->ref->count; i++) {
        const ls_captured *tensor = &sides->ref->tensors[i];
        const void *value = NULL;
        ls_assembled whole;
        size_t count = tensor->pieces[0].at->count;
        int64_t above = 0, below = 1;
        uint64_t factor = 0;
        if (tensor->modulus != v->p || (count != v->count && count != row) || count < 2 ||
            tensor->as != NULL || (sought += count) > KNOWN_MAX) {
            continue;
        }
        if (ls_assemble(&whole, sides->arena, tensor, NULL) != LS_OK ||
            ls_assembled_value(&value, sides->arena, &whole, 0) != LS_OK) {
            ls_error_clear();
            continue;
        }
        if (is_addend(&factor, v, off, value, count) && as_fraction(&above, &below, factor, v->p)) {
            bool more = above > 0;
            ls_text_printf(out, "\n  likely: %s is added ", tensor->name);
            put_factor(out, more ? factor : v->p - factor, v->p);
            ls_text_printf(out, " times too %s", more ? "often" : "rarely");
            return true;
        }
    }
    return false;
}

// A row that the reference has elsewhere; dims: the leading dimensions that count rows.
static bool explain_rows(ls_text *out, const numbers *v, const ls_assembled *run, int dims) {
    size_t rows = run->shape.ndim > dims ? 1 : 0;
    for (int d = 0; d < dims && rows > 0; d++) {
        rows *= (size_t)run->shape.dim[d];
    }
    size_t width = rows > 0 ? v->count / rows : 0, bytes = width * sizeof *v->due;
    for (size_t i = 0; i < rows && width > 1; i++) {
        if (memcmp(v->got + i * width, v->due + i * width, bytes) == 0) {
            continue;
        }
        for (size_t k = 0; k < rows; k++) {
            if (memcmp(v->got + i * width, v->due + k * width, bytes) == 0) {
                ls_text_printf(out, "\n  row %zu of %zu equals row %zu of the reference", i, rows,
                               k);
                return true;
            }
        }
        return false;
    }
    return false;
}

static bool fill_sides(numbers *v, ls_arena *arena, const ls_assembled *of) {
    const void *value = NULL;
    v->sides = 0;
    for (int c = 0; c < of->copies && of->copies <= SIDES_MAX; c++) {
        if (ls_assembled_value(&value, arena, of, c) != LS_OK) {
            return false;
        }
        v->side[c] = value;
        v->sides = c + 1;
    }
    for (int i = 0; i < of->piece_count && v->sides > 0; i++) {
        v->ranks[of->pieces[i].copy] = of->pieces[i].rank;
    }
    return true;
}

bool ls_diff__field_is_parts(const ls_diff_sides *sides, const ls_diff_pair *pair) {
    const ls_assembled *run = &pair->run;
    numbers v = {.due = pair->wanted[0], .count = run->count, .p = run->of->modulus};
    bool may_be = strstr(run->of->name, " backward ") != NULL ||
                  (strstr(run->of->name, " forward ") != NULL && !ls_diff__is_root(run->of));
    return v.p > 0 && run->of->optional && run->copies > 1 && pair->same && may_be &&
           fill_sides(&v, sides->arena, run) && v.sides > 1 && sums_to_due(&v, 1);
}

bool ls_diff__field_explain(ls_text *out, const ls_diff_sides *sides, const ls_diff_pair *pair,
                            int copy) {
    const ls_assembled *run = &pair->run;
    const char *name = run->of->name;
    const void *got = NULL;
    numbers v = {.due = pair->wanted[copy],
                 .count = run->count,
                 .p = run->of->modulus,
                 .world = sides->run->ranks};
    if (v.count == 0 || ls_assembled_value(&got, sides->arena, run, copy) != LS_OK) {
        return false;
    }
    v.got = got;
    if (strstr(name, " input model") != NULL) {
        ls_text_puts(out, "\n  the inputs differ: the ranks' batches must be the rows of the "
                          "reference's batch; what follows from them cannot be proved");
        return true;
    }
    if (pair->has_parts && pair->parts.count == v.count &&
        fill_sides(&v, sides->arena, &pair->parts) && explain_sum(out, &v)) {
        return true;
    }
    return (fill_sides(&v, sides->arena, run) && explain_copies(out, &v)) ||
           explain_factor(out, &v) || explain_shards(out, sides->arena, &v, run) ||
           explain_rows(out, &v, run, 1) || explain_rows(out, &v, run, run->shape.ndim - 1) ||
           explain_addend(out, sides, &v, run);
}
