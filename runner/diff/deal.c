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

static int sort_rows(row **out, ls_arena *arena, const ls_assembled *of, size_t bytes) {
    size_t count = (size_t)of->shape.dim[0];
    *out = ls_arena_alloc(arena, count + 1, sizeof **out);
    if (*out == NULL) {
        return LS_ERR_MEMORY;
    }
    for (size_t i = 0; i < count; i++) {
        (*out)[i] = (row){(const char *)of->whole[0] + i * bytes, bytes, i};
    }
    qsort(*out, count, sizeof **out, by_bytes);
    return LS_OK;
}

size_t ls_diff__step(size_t *step, const char *name) {
    size_t digits = strncmp(name, "step ", 5) == 0 ? strspn(name + 5, "0123456789") : 0;
    *step = digits > 0 ? strtoull(name + 5, NULL, 10) : 0;
    return digits > 0 && name[5 + digits] == ' ' ? 6 + digits : 0;
}

static bool is_first_input(const ls_capture *of, const ls_captured *tensor, size_t step) {
    for (size_t i = 0; step > 0 && i < of->count; i++) {
        const char *name = of->tensors[i].name;
        if (strncmp(name, tensor->name, step) == 0 && strncmp(name + step, "input ", 6) == 0) {
            return &of->tensors[i] == tensor;
        }
    }
    return false;
}

int ls_diff__deal(bool *found, ls_arena *keep, ls_arena *arena, ls_capture *run,
                  const ls_capture *ref, const ls_diff_pair *pair) {
    const ls_assembled *of = &pair->run, *wanted = &pair->ref;
    size_t number = 0, step = ls_diff__step(&number, pair->ref_of->name), count = of->count;
    *found = false;
    if (!is_first_input(ref, pair->ref_of, step) || of->of->has_placements ||
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
        LS_TRY(sort_rows(&a, arena, of, bytes));
        LS_TRY(sort_rows(&b, arena, wanted, bytes));
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
