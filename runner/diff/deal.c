// Finds the distribution of a batch to the ranks from the rows of a step's first input.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runner/diff/diff_internal.h"

typedef struct row {
    const char *at;
    size_t bytes, index;
} row;

static int by_bytes(const void *a, const void *b) {
    const row *x = a, *y = b;
    int order = memcmp(x->at, y->at, x->bytes);
    return order != 0 ? order : (x->index > y->index) - (x->index < y->index);
}

static bool is_turned(const size_t *rows, const ls_assembled *run, const ls_assembled *ref,
                      size_t bytes) {
    bool same = true;
    for (size_t i = 0; same && i < (size_t)run->shape.dim[0]; i++) {
        same = memcmp((const char *)run->whole[0] + i * bytes,
                      (const char *)ref->whole[0] + rows[i] * bytes, bytes) == 0;
    }
    return same;
}

// Row i of part p is row i * parts + p of the batch; ranks with the same part count once.
static bool deal_in_turns(size_t *rows, const ls_assembled *run) {
    size_t parts = (size_t)(run->piece_count / run->copies), part = 0, at = 0;
    for (int p = 0; p < run->piece_count; p++) {
        const ls_assembled_piece *piece = &run->pieces[p];
        if (piece->local.dim[0] != run->pieces[0].local.dim[0]) {
            return false;
        }
        for (size_t i = 0; piece->copy == 0 && i < (size_t)piece->local.dim[0]; i++) {
            rows[at++] = i * parts + part;
        }
        part += piece->copy == 0 ? 1 : 0;
    }
    return true;
}

static int sort_rows(row **out, ls_arena *arena, const ls_assembled *const of[], size_t calls,
                     size_t bytes) {
    size_t count = 0, at = 0;
    for (size_t c = 0; c < calls; c++) {
        count += (size_t)of[c]->shape.dim[0];
    }
    *out = ls_arena_alloc(arena, count + 1, sizeof **out);
    if (*out == NULL) {
        return LS_ERR_MEMORY;
    }
    for (size_t c = 0; c < calls; c++) {
        for (size_t i = 0; i < (size_t)of[c]->shape.dim[0]; i++, at++) {
            (*out)[at] = (row){(const char *)of[c]->whole[0] + i * bytes, bytes, at};
        }
    }
    qsort(*out, count, sizeof **out, by_bytes);
    return LS_OK;
}

int ls_diff__deal(bool *found, ls_arena *keep, ls_arena *arena, ls_capture *run,
                  const ls_capture *ref, const ls_diff_pair *pair) {
    const ls_assembled *of = &pair->run, *wanted = &pair->ref;
    size_t number = 0, step = ls_diff__step(&number, pair->ref_of->name), count = of->count;
    *found = false;
    if (ls_diff__first_input(ref, pair->ref_of->name) != pair->ref_of || of->of->has_placements ||
        of->of->deal != NULL || of->piece_count < 2 || of->terms > 1 || wanted->copies > 1 ||
        of->shape.ndim == 0 || of->pieces[0].local.dim[0] == of->shape.dim[0] || count == 0) {
        return LS_OK;
    }
    size_t rows = (size_t)of->shape.dim[0], bytes = count / rows * ls_dtype_bytes(of->dtype);
    ls_deal *deal = ls_arena_alloc(keep, 1, sizeof *deal);
    size_t *row_of = ls_arena_alloc(keep, rows + 1, sizeof *row_of);
    if (deal == NULL || row_of == NULL) {
        return LS_ERR_MEMORY;
    }
    bool in_turns = deal_in_turns(row_of, of) && is_turned(row_of, of, wanted, bytes);
    if (!in_turns) {
        row *a = NULL, *b = NULL;
        LS_TRY(sort_rows(&a, arena, &of, 1, bytes));
        LS_TRY(sort_rows(&b, arena, &wanted, 1, bytes));
        for (size_t i = 0; i < rows; i++) {
            row_of[a[i].index] = b[i].index;
        }
    }
    *found = in_turns || is_turned(row_of, of, wanted, bytes);
    *deal = (ls_deal){row_of, rows, in_turns};
    for (size_t i = 0; *found && i < run->count; i++) {
        ls_captured *tensor = &run->tensors[i];
        if (strncmp(tensor->name, pair->ref_of->name, step) == 0) {
            tensor->deal = deal;
        }
    }
    return LS_OK;
}

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
    const ls_assembled *due[CALLS_MAX], *got[CALLS_MAX];
    row *a = NULL, *b = NULL;
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
        due[c] = &pairs[c].ref;
        got[c] = run;
        rows += of_call;
    }
    if (calls < 2) {
        return LS_OK;
    }
    LS_TRY(sort_rows(&a, sides->arena, due, calls, bytes));
    LS_TRY(sort_rows(&b, sides->arena, got, calls, bytes));
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
