// Finds the order in which the ranks have the rows of a batch.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/kernels.h"
#include "runner/diff/diff_internal.h"

typedef struct sortable {
    const char *at;
    size_t bytes, index;
} sortable;

static int by_bytes(const void *a, const void *b) {
    const sortable *x = a, *y = b;
    int order = memcmp(x->at, y->at, x->bytes);
    return order != 0 ? order : (x->index > y->index) - (x->index < y->index);
}

// *out [count]: at [count], rows of `bytes` each, by their bytes.
static int sort_rows(sortable **out, ls_arena *arena, const char *const *at, size_t count,
                     size_t bytes) {
    *out = ls_arena_alloc(arena, count + 1, sizeof **out);
    if (*out == NULL) {
        return LS_ERR_MEMORY;
    }
    for (size_t i = 0; i < count; i++) {
        (*out)[i] = (sortable){at[i], bytes, i};
    }
    qsort(*out, count, sizeof **out, by_bytes);
    return LS_OK;
}

// ---- Rows of the ranks --------------------------------------------------------------------------
// A tensor that is cut along one dimension; ranks with the same part count once. A row is what one
// index of that dimension has.
typedef struct rank_rows {
    ls_dtype dtype;
    size_t count, parts, bytes;  // bytes of a row
    const char **at, **ref;      // [count] of the run, in the order of the ranks; of the reference
    size_t *place;               // [count] the rows of the whole that the run's are assembled as
    size_t *of_part;             // [parts] rows
} rank_rows;

// The only dimension that the ranks' parts cut; -1: the ranks' parts are no rows.
static int cut_dim(const ls_diff_pair *pair) {
    const ls_assembled *of = &pair->run;
    if (of->of->has_placements || of->of->pieces[0].placed || of->piece_count < 2 ||
        of->terms > 1 || pair->ref.copies > 1 || of->count == 0) {
        return -1;
    }
    for (int d = 0; d < of->shape.ndim; d++) {
        if (of->pieces[0].local.dim[d] != of->shape.dim[d]) {
            return d;
        }
    }
    return -1;
}

// *out [rows]: the rows of a tensor; each `outer` blocks of `inner` bytes, copied together.
static int collect_rows(const char ***out, ls_arena *arena, const char *whole, size_t outer,
                        size_t rows, size_t inner) {
    char *copy = outer > 1 ? ls_arena_alloc_raw(arena, outer * rows, inner) : NULL;
    *out = ls_arena_alloc(arena, rows + 1, sizeof **out);
    if (*out == NULL || (outer > 1 && copy == NULL)) {
        return LS_ERR_MEMORY;
    }
    for (size_t i = 0; i < rows; i++) {
        (*out)[i] = outer > 1 ? copy + i * outer * inner : whole + i * inner;
        for (size_t o = 0; outer > 1 && o < outer; o++) {
            memcpy(copy + (i * outer + o) * inner, whole + (o * rows + i) * inner, inner);
        }
    }
    return LS_OK;
}

static int rows_of_ranks(rank_rows *out, ls_arena *arena, const ls_diff_pair *pair, int dim) {
    const ls_assembled *of = &pair->run;
    size_t outer = 1, first = 0;
    for (int d = 0; d < dim; d++) {
        outer *= (size_t)of->shape.dim[d];
    }
    *out = (rank_rows){.dtype = of->dtype, .count = (size_t)of->shape.dim[dim]};
    out->bytes = of->count / out->count * ls_dtype_bytes(of->dtype);
    const char **whole = NULL;
    LS_TRY(collect_rows(&whole, arena, of->whole[0], outer, out->count, out->bytes / outer));
    LS_TRY(
        collect_rows(&out->ref, arena, pair->ref.whole[0], outer, out->count, out->bytes / outer));
    out->at = ls_arena_alloc(arena, out->count + 1, sizeof *out->at);
    out->place = ls_arena_alloc(arena, out->count + 1, sizeof *out->place);
    out->of_part = ls_arena_alloc(arena, (size_t)of->piece_count, sizeof *out->of_part);
    if (out->at == NULL || out->place == NULL || out->of_part == NULL) {
        return LS_ERR_MEMORY;
    }
    for (int p = 0; p < of->piece_count; p++) {
        const ls_assembled_piece *piece = &of->pieces[p];
        for (size_t b = 0; piece->copy == 0 && b < piece->block_count; b++) {
            size_t local = first + (size_t)piece->within[b].offset.dim[dim];
            size_t place = (size_t)piece->blocks[b].offset.dim[dim];
            for (size_t i = 0; i < (size_t)piece->blocks[b].size.dim[dim]; i++) {
                out->at[local + i] = whole[place + i];
                out->place[local + i] = place + i;
            }
        }
        if (piece->copy == 0) {
            out->of_part[out->parts++] = (size_t)piece->local.dim[dim];
            first += (size_t)piece->local.dim[dim];
        }
    }
    LS_ASSERT(first == out->count);
    return LS_OK;
}

// ---- The order of an input ----------------------------------------------------------------------
static bool is_order(const size_t *row, const rank_rows *of) {
    bool same = true;
    for (size_t i = 0; same && i < of->count; i++) {
        same = memcmp(of->at[i], of->ref[row[i]], of->bytes) == 0;
    }
    return same;
}

// Row i of part p is row i * parts + p of the batch.
static bool deal_in_turns(size_t *row, const rank_rows *of) {
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

static int new_deal(ls_deal **out, size_t **row, ls_arena *keep, size_t count) {
    *out = ls_arena_alloc(keep, 1, sizeof **out);
    *row = ls_arena_alloc(keep, count + 1, sizeof **row);
    if (*out == NULL || *row == NULL) {
        return LS_ERR_MEMORY;
    }
    **out = (ls_deal){.row = *row, .count = count};
    for (size_t i = 0; i < count; i++) {
        (*row)[i] = i;
    }
    return LS_OK;
}

// *out NULL: the rows are not the reference's.
static int find_order(const ls_deal **out, const ls_diff_sides *sides, const rank_rows *of) {
    ls_deal *deal = NULL;
    size_t *row_at = NULL;
    LS_TRY(new_deal(&deal, &row_at, sides->run->arena, of->count));
    deal->in_turns = deal_in_turns(row_at, of) && is_order(row_at, of);
    if (!deal->in_turns) {
        sortable *a = NULL, *b = NULL;
        LS_TRY(sort_rows(&a, sides->arena, of->at, of->count, of->bytes));
        LS_TRY(sort_rows(&b, sides->arena, of->ref, of->count, of->bytes));
        for (size_t i = 0; i < of->count; i++) {
            row_at[a[i].index] = b[i].index;
        }
    }
    *out = deal->in_turns || is_order(row_at, of) ? deal : NULL;
    return LS_OK;
}

// ---- The orders of a step -----------------------------------------------------------------------
static int add_batch(const ls_diff_sides *sides, const rank_rows *of, const ls_deal *deal) {
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
    if (of_part == NULL) {
        return LS_ERR_MEMORY;
    }
    if (batches->count < LS_DIFF_BATCHES_MAX) {
        batches->known[batches->count++] = (ls_diff_batch){deal, of_part, of->parts};
    }
    return LS_OK;
}

// The sum of the distances of the run's rows from [count] to the reference's rows to [count];
// infinity if it is more than `most`.
static double distance(const rank_rows *of, const size_t *from, const size_t *to, size_t count,
                       double most) {
    ls_dtype dtype = of->dtype;
    size_t bytes = ls_dtype_bytes(dtype);
    double sum = 0;
    for (size_t i = 0; i < count; i++) {
        const char *run = of->at[from[i]], *ref = of->ref[to[i]];
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
static bool by_samples(size_t *to, const rank_rows *of, const ls_diff_batch *batch) {
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
static bool next_rows(size_t *from, size_t *to, const rank_rows *of, const ls_diff_batch *batch,
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
static int by_joining(bool *found, size_t *to, ls_arena *arena, const rank_rows *of,
                      const ls_diff_batches *batches) {
    size_t *used = ls_arena_alloc(arena, of->parts, sizeof *used), done = 0;
    size_t *from = ls_arena_alloc(arena, of->count + 1, sizeof *from);
    size_t *at = ls_arena_alloc(arena, of->count + 1, sizeof *at);
    if (used == NULL || from == NULL || at == NULL) {
        return LS_ERR_MEMORY;
    }
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
                      const rank_rows *of) {
    const ls_diff_batches *batches = sides->batches;
    size_t *from = ls_arena_alloc(sides->arena, of->count + 1, sizeof *from);
    size_t *to = ls_arena_alloc(sides->arena, of->count + 1, sizeof *to);
    ls_deal *deal = NULL;
    size_t *best = NULL;
    bool joined = false;
    LS_TRY(from != NULL && to != NULL ? LS_OK : LS_ERR_MEMORY);
    LS_TRY(new_deal(&deal, &best, sides->run->arena, of->count));
    for (size_t i = 0; i < of->count; i++) {
        from[i] = i;
    }
    *out = NULL;
    *least = distance(of, from, of->place, of->count, INFINITY);
    double most = *least / 2;
    for (size_t k = 0; k <= batches->count; k++) {
        bool last = k == batches->count, fits = false;
        if (last) {
            LS_TRY(by_joining(&fits, to, sides->arena, of, batches));
        } else {
            fits = by_samples(to, of, &batches->known[k]);
        }
        double apart = fits ? distance(of, from, to, of->count, most) : INFINITY;
        if (apart < *least && apart <= most) {
            memcpy(best, to, of->count * sizeof *best);
            *out = deal;
            joined = last;
            *least = most = apart;
        }
    }
    deal->joined = joined;
    return LS_OK;
}

// Whether a tensor is an input of the step's first module, in any call.
static bool is_batch(const ls_captured *first, const char *name) {
    size_t length = ls_diff__name_length(first->name);
    return ls_diff__name_length(name) == length && strncmp(first->name, name, length) == 0;
}

// Sets the order of a tensor, of those with the same values and, if step > 0, of those whose names
// begin with the same `step` characters.
static void set_deal(const ls_diff_sides *sides, const ls_captured *of, const ls_deal *deal,
                     size_t step) {
    bool blocks = true;
    for (size_t i = 0; i < deal->count; i++) {
        blocks = blocks && deal->row[i] == i;
    }
    for (size_t i = 0; i < sides->run->count; i++) {
        ls_captured *tensor = &sides->run->tensors[i];
        if (tensor == of || (tensor->as != NULL && strcmp(tensor->as, of->name) == 0) ||
            (step > 0 && strncmp(tensor->name, of->name, step) == 0)) {
            tensor->deal = blocks ? NULL : deal;
        }
    }
}

int ls_diff__deal(bool *found, const ls_diff_sides *sides, const ls_diff_pair *pair, bool same) {
    const char *name = pair->ref_of->name;
    const ls_captured *first = ls_diff__first_input(sides->ref, name);
    size_t number = 0, step = ls_diff__step(&number, name);
    const ls_deal *deal = NULL;
    double least = INFINITY;
    rank_rows of;
    *found = false;
    int dim = first != NULL ? cut_dim(pair) : -1;
    if (dim < 0) {
        return LS_OK;
    }
    if (sides->batches->step != number) {
        *sides->batches = (ls_diff_batches){.step = number};
    }
    bool batch = is_batch(first, name);
    if (same && !batch) {
        return LS_OK;
    }
    LS_TRY(rows_of_ranks(&of, sides->arena, pair, dim));
    if (batch) {
        ls_deal *blocks = NULL;
        size_t *row_at = NULL;
        LS_TRY(new_deal(&blocks, &row_at, sides->run->arena, of.count));
        LS_TRY(add_batch(sides, &of, blocks));
    }
    LS_TRY(same ? LS_OK : best_order(&deal, &least, sides, &of));
    if (!same && batch && least > 0) {
        const ls_deal *own = NULL;
        LS_TRY(find_order(&own, sides, &of));
        LS_TRY(own != NULL ? add_batch(sides, &of, own) : LS_OK);
        deal = own != NULL ? own : deal;
    }
    *found = deal != NULL;
    if (*found) {
        set_deal(sides, pair->run.of, deal, pair->ref_of == first ? step : 0);
    }
    return LS_OK;
}

// ---- Micro-batches ------------------------------------------------------------------------------
#define CALLS_MAX 256  // of a module in a step, whose rows are looked for in each other

// Pairs of the same input of all calls of a module in a step. *calls 0: they are not comparable.
static int pair_calls(ls_diff_pair *pairs, size_t *calls, const ls_diff_sides *sides,
                      const char *name) {
    size_t most = *calls, base = ls_diff__name_length(name);
    *calls = 0;
    for (size_t c = 0; c < most; c++) {
        const char *call = c == 0 ? name
                                  : ls_arena_printf(sides->arena, "%.*s (call %zu)%s", (int)base,
                                                    name, c, name + base);
        LS_TRY(call != NULL ? LS_OK : LS_ERR_MEMORY);
        const ls_captured *ref = ls_capture_find(sides->ref, call);
        const ls_captured *run = ls_capture_find(sides->run, call);
        const char *why = NULL;
        if (ref == NULL && run == NULL) {
            *calls = c;
            return LS_OK;
        }
        if (ref == NULL || run == NULL) {
            return LS_OK;
        }
        LS_TRY(ls_diff__pair(&pairs[c], &why, sides, ref, run));
        if (why != NULL || pairs[c].run.terms > 1 || pairs[c].run.shape.ndim == 0) {
            return LS_OK;
        }
    }
    return LS_OK;
}

int ls_diff__recut(bool *found, const ls_diff_sides *sides, const ls_diff_pair *pair) {
    size_t number = 0, calls = CALLS_MAX, rows = 0, bytes = 0;
    size_t step = ls_diff__step(&number, pair->ref_of->name);
    sortable *a = NULL, *b = NULL;
    *found = false;
    if (ls_diff__first_input(sides->ref, pair->ref_of->name) != pair->ref_of ||
        pair->run.count == 0 || pair->run.shape.ndim == 0) {
        return LS_OK;
    }
    ls_diff_pair *pairs = ls_arena_alloc(sides->arena, CALLS_MAX, sizeof *pairs);
    LS_TRY(pairs != NULL ? LS_OK : LS_ERR_MEMORY);
    LS_TRY(pair_calls(pairs, &calls, sides, pair->ref_of->name));
    bytes = pair->run.count / (size_t)pair->run.shape.dim[0] * ls_dtype_bytes(pair->run.dtype);
    for (size_t c = 0; c < calls; c++) {
        const ls_assembled *run = &pairs[c].run;
        size_t of_call = (size_t)run->shape.dim[0];
        if (of_call == 0 || run->count / of_call * ls_dtype_bytes(run->dtype) != bytes) {
            return LS_OK;
        }
        rows += of_call;
    }
    if (calls < 2) {
        return LS_OK;
    }
    const char **due = ls_arena_alloc(sides->arena, rows, sizeof *due);
    const char **got = ls_arena_alloc(sides->arena, rows, sizeof *got);
    LS_TRY(due != NULL && got != NULL ? LS_OK : LS_ERR_MEMORY);
    for (size_t c = 0, at = 0; c < calls; c++) {
        for (size_t i = 0; i < (size_t)pairs[c].run.shape.dim[0]; i++, at++) {
            due[at] = (const char *)pairs[c].ref.whole[0] + i * bytes;
            got[at] = (const char *)pairs[c].run.whole[0] + i * bytes;
        }
    }
    LS_TRY(sort_rows(&a, sides->arena, due, rows, bytes));
    LS_TRY(sort_rows(&b, sides->arena, got, rows, bytes));
    *found = true;
    for (size_t i = 0; i < rows; i++) {
        *found = *found && memcmp(a[i].at, b[i].at, bytes) == 0;
    }
    for (size_t i = 0; *found && i < sides->run->count; i++) {
        ls_captured *tensor = &sides->run->tensors[i];
        tensor->recut = tensor->recut ||
                        (tensor->optional && strncmp(tensor->name, pair->ref_of->name, step) == 0);
    }
    return LS_OK;
}
