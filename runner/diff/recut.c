// Micro-batches: the module's calls in a step take other parts of the batch than the reference's.
#include <string.h>

#include "runner/diff/rows.h"

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
    ls_diff_row *a = NULL, *b = NULL;
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
    LS_TRY(ls_diff__sort_rows(&a, sides->arena, due, rows, bytes));
    LS_TRY(ls_diff__sort_rows(&b, sides->arena, got, rows, bytes));
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
