// Finds the order in which the ranks have the rows of a batch.
#include <math.h>
#include <string.h>

#include "kernels/kernels.h"
#include "runner/diff/rows.h"

#define FAR        0x1p-4  // of the reference's size: rows in a wrong order are farther apart
#define SUMS_APART 0x1p-8

// ---- The order of an input ----------------------------------------------------------------------
static bool is_order(const size_t *row, const ls_diff_rows *of) {
    bool same = true;
    for (size_t i = 0; same && i < of->count; i++) {
        same = memcmp(of->at[i], of->ref[row[i]], of->bytes) == 0;
    }
    return same;
}

// Row i of part p is row i * parts + p of the batch.
static bool deal_in_turns(size_t *row, const ls_diff_rows *of) {
    size_t at = 0;
    for (size_t p = 0; p < of->parts; p++) {
        if (of->of_part[p] != of->of_part[0]) {
            return false;
        }
        for (size_t i = 0; i < of->of_part[p]; i++) {
            row[at++] = i * of->parts + p;
        }
    }
    return true;
}

// *row [count]: blocks, for as long as the tensor is compared.
static int new_rows(size_t **row, ls_arena *arena, size_t count) {
    *row = ls_arena_alloc(arena, count + 1, sizeof **row);
    for (size_t i = 0; *row != NULL && i < count; i++) {
        (*row)[i] = i;
    }
    return *row != NULL ? LS_OK : LS_ERR_MEMORY;
}

// A copy of an order that lasts.
static int keep(const ls_deal **out, const ls_diff_sides *sides, const ls_deal *deal) {
    ls_deal *kept = ls_arena_copy(sides->run->arena, deal, sizeof *deal);
    *out = kept;
    if (kept != NULL) {
        kept->row = ls_arena_copy(sides->run->arena, deal->row, deal->count * sizeof *deal->row);
    }
    return kept != NULL && kept->row != NULL ? LS_OK : LS_ERR_MEMORY;
}

// *out NULL: the rows are not the reference's.
static int find_order(const ls_deal **out, const ls_diff_sides *sides, const ls_diff_rows *of) {
    size_t *row_at = NULL;
    LS_TRY(new_rows(&row_at, sides->arena, of->count));
    ls_deal deal = {.row = row_at, .count = of->count};
    deal.in_turns = deal_in_turns(row_at, of) && is_order(row_at, of);
    if (!deal.in_turns) {
        ls_diff_row *a = NULL, *b = NULL;
        LS_TRY(ls_diff__sort_rows(&a, sides->arena, of->at, of->count, of->bytes));
        LS_TRY(ls_diff__sort_rows(&b, sides->arena, of->ref, of->count, of->bytes));
        for (size_t i = 0; i < of->count; i++) {
            row_at[a[i].index] = b[i].index;
            deal.vague = deal.vague || (i > 0 && memcmp(b[i - 1].at, b[i].at, of->bytes) == 0);
        }
    }
    *out = NULL;
    return deal.in_turns || is_order(row_at, of) ? keep(out, sides, &deal) : LS_OK;
}

static bool is_blocks(const ls_deal *deal) {
    bool blocks = true;
    for (size_t i = 0; i < deal->count; i++) {
        blocks = blocks && deal->row[i] == i;
    }
    return blocks;
}

// ---- The orders of a step -----------------------------------------------------------------------
static int add_batch(const ls_diff_sides *sides, const ls_diff_rows *of, const ls_deal *deal) {
    ls_diff_batches *batches = sides->batches;
    for (size_t k = 0; k < batches->count; k++) {
        const ls_diff_batch *known = &batches->known[k];
        if (known->deal->count == deal->count && known->parts == of->parts &&
            memcmp(known->of_part, of->of_part, of->parts * sizeof *of->of_part) == 0 &&
            memcmp(known->deal->row, deal->row, deal->count * sizeof *deal->row) == 0) {
            return LS_OK;
        }
    }
    const size_t *of_part =
        ls_arena_copy(sides->run->arena, of->of_part, of->parts * sizeof *of_part);
    LS_TRY_MEMORY(of_part != NULL);
    batches->dealt = batches->dealt || !is_blocks(deal);
    batches->vague = batches->vague || deal->vague;
    if (!deal->vague && batches->count < LS_DIFF_BATCHES_MAX) {
        batches->known[batches->count++] = (ls_diff_batch){deal, of_part, of->parts};
    }
    return LS_OK;
}

// The sum of the distances of the run's rows from [count] (NULL: all) to the reference's rows
// to [count]; infinity if it is more than `most`.
static double distance(const ls_diff_rows *of, const size_t *from, const size_t *to, size_t count,
                       double most) {
    ls_dtype dtype = of->dtype;
    size_t bytes = ls_dtype_bytes(dtype);
    double sum = 0;
    for (size_t i = 0; i < count; i++) {
        const char *run = of->at[from != NULL ? from[i] : i], *ref = of->ref[to[i]];
        for (size_t at = 0; memcmp(run, ref, of->bytes) != 0 && at < of->bytes; at += bytes) {
            double apart =
                fabs(ls_element_to_f64(run + at, dtype) - ls_element_to_f64(ref + at, dtype));
            sum += memcmp(run + at, ref + at, bytes) == 0 ? 0 : apart;
        }
        if (!(sum <= most)) {
            return INFINITY;
        }
    }
    return sum;
}

// Each sample of a batch is `unit` rows, one after the other. False: they do not fit.
static bool by_samples(size_t *to, const ls_diff_rows *of, const ls_diff_batch *batch) {
    size_t unit = of->count / batch->deal->count, at = 0, sample = 0;
    bool fits = of->count % batch->deal->count == 0 && batch->parts == of->parts;
    for (size_t p = 0; fits && p < of->parts; p++) {
        fits = of->of_part[p] == unit * batch->of_part[p];
        for (size_t i = 0; fits && i < of->of_part[p]; i++, at++) {
            to[at] = batch->deal->row[sample + i / unit] * unit + i % unit;
        }
        sample += batch->of_part[p];
    }
    return fits;
}

// The rows of a batch after `done` rows of the whole, of which part p has used[p]. False: they do
// not fit. from, to: [rows of the batch]
static bool next_rows(size_t *from, size_t *to, const ls_diff_rows *of, const ls_diff_batch *batch,
                      const size_t *used, size_t done) {
    size_t first = 0, at = 0;
    bool fits = batch->parts == of->parts && batch->deal->count <= of->count - done;
    for (size_t p = 0; fits && p < of->parts; p++) {
        fits = batch->of_part[p] <= of->of_part[p] - used[p];
        for (size_t i = 0; fits && i < batch->of_part[p]; i++, at++) {
            from[at] = first + used[p] + i;
            to[at] = done + batch->deal->row[at];
        }
        first += of->of_part[p];
    }
    return fits;
}

// The ranks' rows are those of several batches, joined: each rank has its part of one after the
// other. *found false: no batches fit. to: [count]
static int by_joining(bool *found, size_t *to, ls_arena *arena, const ls_diff_rows *of,
                      const ls_diff_batches *batches) {
    size_t *used = ls_arena_alloc(arena, of->parts, sizeof *used), done = 0;
    size_t *from = ls_arena_alloc(arena, of->count + 1, sizeof *from);
    size_t *at = ls_arena_alloc(arena, of->count + 1, sizeof *at);
    LS_TRY_MEMORY(used != NULL && from != NULL && at != NULL);
    *found = true;
    while (*found && done < of->count) {
        const ls_diff_batch *best = NULL;
        double least = INFINITY;
        for (size_t k = 0; k < batches->count; k++) {
            const ls_diff_batch *batch = &batches->known[k];
            double rows_here = (double)batch->deal->count;
            double apart = next_rows(from, at, of, batch, used, done)
                               ? distance(of, from, at, batch->deal->count, least * rows_here)
                               : INFINITY;
            if (apart / rows_here < least) {
                least = apart / rows_here;
                best = batch;
            }
        }
        *found = best != NULL && next_rows(from, at, of, best, used, done);
        for (size_t i = 0; *found && i < best->deal->count; i++) {
            to[from[i]] = at[i];
        }
        for (size_t p = 0; *found && p < of->parts; p++) {
            used[p] += best->of_part[p];
        }
        done += *found ? best->deal->count : 0;
    }
    return LS_OK;
}

// The order, of those that the step's batches have, that makes the ranks' rows at least twice as
// near to the reference's. *out NULL: none does.
static int best_order(const ls_deal **out, double *least, const ls_diff_sides *sides,
                      const ls_diff_rows *of) {
    const ls_diff_batches *batches = sides->batches;
    size_t *to = ls_arena_alloc(sides->arena, of->count + 1, sizeof *to);
    size_t *best = NULL;
    LS_TRY(to != NULL ? LS_OK : LS_ERR_MEMORY);
    LS_TRY(new_rows(&best, sides->arena, of->count));
    ls_deal deal = {.row = best, .count = of->count};
    bool found = false;
    *out = NULL;
    *least = distance(of, NULL, of->place, of->count, INFINITY);
    double most = *least / 2;
    for (size_t k = 0; k <= batches->count; k++) {
        bool last = k == batches->count, fits = false;
        if (last) {
            LS_TRY(by_joining(&fits, to, sides->arena, of, batches));
        } else {
            fits = by_samples(to, of, &batches->known[k]);
        }
        double apart = fits ? distance(of, NULL, to, of->count, most) : INFINITY;
        if (apart < *least && apart <= most) {
            memcpy(best, to, of->count * sizeof *best);
            found = true;
            deal.joined = last;
            deal.taken = !last && batches->known[k].deal->taken;
            *least = most = apart;
        }
    }
    return found ? keep(out, sides, &deal) : LS_OK;
}

// Whether the rows are whole samples of a batch.
static bool is_samples(const ls_diff_sides *sides, const ls_diff_rows *of, size_t *scratch) {
    bool found = false;
    for (size_t k = 0; k < sides->batches->count && !found; k++) {
        found = by_samples(scratch, of, &sides->batches->known[k]);
    }
    return found;
}

// Whether the sums of columns are the reference's but for rounding, as those of the same rows in
// another order are.
static bool has_sums(const ls_diff_rows *of, ls_arena *arena) {
    size_t bytes = ls_dtype_bytes(of->dtype), columns = of->bytes / bytes;
    double *sums = ls_arena_alloc(arena, columns * 2, sizeof *sums);
    bool same = sums != NULL;
    for (size_t i = 0; same && i < of->count; i++) {
        for (size_t c = 0; c < columns; c++) {
            double ref = ls_element_to_f64(of->ref[i] + c * bytes, of->dtype);
            sums[2 * c] += ls_element_to_f64(of->at[i] + c * bytes, of->dtype) - ref;
            sums[2 * c + 1] += fabs(ref);
        }
    }
    for (size_t c = 0; same && c < columns; c++) {
        same = fabs(sums[2 * c]) <= SUMS_APART * sums[2 * c + 1];
    }
    return same;
}

// Whether the ranks' rows, as they are assembled, are far from the reference's.
static bool is_far(const ls_diff_rows *of, double apart) {
    size_t bytes = ls_dtype_bytes(of->dtype);
    double size = 0;
    for (size_t i = 0; i < of->count; i++) {
        for (size_t at = 0; at < of->bytes; at += bytes) {
            size += fabs(ls_element_to_f64(of->ref[i] + at, of->dtype));
        }
    }
    return !(apart <= size * FAR);
}

// Rows of an integer input that grow from 0 on each rank: offsets into rows of another input.
static bool has_offsets(const ls_diff_rows *of) {
    bool grow = of->bytes == ls_dtype_bytes(of->dtype) && !ls_dtype_is_float(of->dtype);
    for (size_t p = 0, row = 0; p < of->parts && grow; p++) {
        double last = 0;
        for (size_t i = 0; i < of->of_part[p] && grow; i++, row++) {
            double value = ls_element_to_f64(of->at[row], of->dtype);
            grow = i == 0 ? value == 0 : value >= last;
            last = value;
        }
    }
    return grow;
}

// Sets the order of a tensor, of those with the same values and, if step > 0, of those whose names
// begin with the same `step` characters.
static void set_deal(const ls_diff_sides *sides, const ls_captured *of, const ls_deal *deal,
                     size_t step) {
    bool blocks = is_blocks(deal);
    for (size_t i = 0; i < sides->run->count; i++) {
        ls_captured *tensor = &sides->run->tensors[i];
        if (tensor == of || (tensor->as != NULL && strcmp(tensor->as, of->name) == 0) ||
            (step > 0 && strncmp(tensor->name, of->name, step) == 0)) {
            tensor->deal = blocks ? NULL : deal;
        }
    }
}

// The order of an input of the step's first module, and *deal, if it has another one.
static int deal_input(const ls_deal **deal, bool *unknown, const ls_diff_sides *sides,
                      const ls_diff_rows *of, bool same) {
    const ls_deal *blocks = NULL, *own = NULL;
    size_t *row_at = NULL;
    double least = INFINITY;
    LS_TRY(new_rows(&row_at, sides->arena, of->count));
    LS_TRY(keep(&blocks, sides, &(ls_deal){.row = row_at, .count = of->count}));
    LS_TRY(add_batch(sides, of, blocks));
    if (same) {
        return LS_OK;
    }
    LS_TRY(best_order(deal, &least, sides, of));
    if (least == 0) {
        return LS_OK;
    }
    LS_TRY(find_order(&own, sides, of));
    if (own != NULL) {
        *deal = own;
        return add_batch(sides, of, own);
    }
    *unknown = sides->batches->dealt && has_offsets(of);
    sides->batches->vague = sides->batches->vague || *unknown;
    return LS_OK;
}

static int deal_other(const ls_deal **deal, bool *unknown, const ls_diff_sides *sides,
                      const ls_diff_pair *pair, const ls_diff_rows *of) {
    const ls_diff_batches *batches = sides->batches;
    size_t *row_at = NULL;
    double least = INFINITY;
    bool found = false, ascending = false;
    LS_TRY(best_order(deal, &least, sides, of));
    if (*deal != NULL || !pair->ref_of->optional || !is_far(of, least)) {
        return LS_OK;
    }
    LS_TRY(new_rows(&row_at, sides->arena, of->count));
    bool samples = is_samples(sides, of, row_at);
    LS_TRY(ls_diff__source(&found, &ascending, row_at, sides, pair, of));
    // A whole batch in another order than an earlier tensor's is a defect.
    if (found && (ascending || !samples) &&
        distance(of, NULL, row_at, of->count, least / 2) <= least / 2) {
        LS_TRY(keep(deal, sides, &(ls_deal){.row = row_at, .count = of->count, .taken = true}));
        return add_batch(sides, of, *deal);
    }
    *unknown = (batches->vague || batches->padded || (batches->dealt && !samples)) &&
               has_sums(of, sides->arena);
    return LS_OK;
}

int ls_diff__deal(ls_diff_order *out, const ls_diff_sides *sides, ls_diff_pair *pair, bool same) {
    const char *name = pair->ref_of->name;
    const ls_captured *first = ls_diff__first_input(sides->ref, name);
    size_t number = 0, step = ls_diff__step(&number, name);
    const ls_deal *deal = NULL;
    bool input = first != NULL && ls_diff__is_of(first->name, name), unknown = false;
    int dim = first != NULL ? ls_diff__cut_dim(pair) : -1;
    ls_diff_rows of;
    *out = LS_DIFF_ORDER_KEPT;
    if (dim < 0 || (same && !input)) {
        return LS_OK;
    }
    if (sides->batches->step != number || sides->batches->count == 0) {
        *sides->batches =
            (ls_diff_batches){.step = number, .padded = ls_diff__is_padded(sides, first)};
    }
    LS_TRY(ls_diff__rows(&of, sides->arena, pair, dim));
    LS_TRY(input ? deal_input(&deal, &unknown, sides, &of, same)
                 : deal_other(&deal, &unknown, sides, pair, &of));
    if (deal != NULL) {
        const char *why = NULL;
        set_deal(sides, pair->run.of, deal, pair->ref_of == first ? step : 0);
        LS_TRY(ls_diff__pair(pair, &why, sides, pair->ref_of, pair->run.of));
        LS_ASSERT(why == NULL);
        *out = LS_DIFF_ORDER_FOUND;
    }
    *out = unknown ? LS_DIFF_ORDER_UNKNOWN : *out;
    return LS_OK;
}
