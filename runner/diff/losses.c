// Losses of parts of the batch: a rank's output of one number, as a mean loss.
#include <math.h>
#include <string.h>

#include "kernels/kernels.h"
#include "runner/diff/diff_internal.h"

// Whether each rank has a number of its own part of the batch, as a mean loss, where the reference
// has that of all of it.
static bool is_loss_of_parts(const ls_diff_sides *d, const ls_diff_pair *p,
                             const ls_captured *run) {
    const ls_captured *batch = ls_diff__first_input(d->ref, run->name);
    const ls_captured *dealt = batch != NULL ? ls_capture_find(d->run, batch->name) : NULL;
    size_t number = 0, step = ls_diff__step(&number, run->name);
    return run->optional && strncmp(run->name + step, "forward ", 8) == 0 && p->run.count == 1 &&
           p->run.copies > 1 && p->same && !p->alike &&
           (ls_dtype_is_float(p->run.dtype) || run->modulus > 0) && dealt != NULL &&
           dealt->piece_count > 1 && batch->pieces[0].size.ndim > 0 &&
           dealt->pieces[0].size.ndim > 0 &&
           dealt->pieces[0].size.dim[0] < batch->pieces[0].size.dim[0];
}

int ls_diff__join_losses(ls_diff_pair *p, const ls_diff_sides *d, const ls_captured *run) {
    const ls_op ops[] = {LS_AVG, LS_SUM};
    const char *const texts[] = {"the mean of the ranks' losses", "the sum of the ranks' losses"};
    if (!is_loss_of_parts(d, p, run)) {
        return LS_OK;
    }
    for (int i = 0; i < 2; i++) {
        ls_diff_pair joined;
        const char *why = NULL;
        const void *value = NULL;
        ls_captured *placed = ls_arena_alloc(d->arena, 1, sizeof *placed);
        int *ranks = ls_arena_alloc(d->arena, (size_t)run->piece_count, sizeof *ranks);
        LS_TRY(placed != NULL && ranks != NULL ? LS_OK : LS_ERR_MEMORY);
        ls_diff__place_terms(placed, ranks, p->ref_of, run, ops[i]);
        LS_TRY(ls_diff__pair(&joined, &why, d, p->ref_of, placed));
        if (why != NULL) {
            return LS_OK;
        }
        LS_TRY(ls_assembled_value(&value, d->arena, &joined.run, 0));
        ls_dtype dtype = joined.run.dtype;
        double off =
            fabs(ls_element_to_f64(value, dtype) - ls_element_to_f64(joined.wanted[0], dtype));
        if (memcmp(value, joined.wanted[0], ls_dtype_bytes(dtype)) == 0 ||
            (run->modulus == 0 &&
             off <= ls_diff__half_of_digits(d, &joined.run, joined.wanted[0]))) {
            *p = joined;
            p->losses = texts[i];
            return LS_OK;
        }
    }
    return LS_OK;
}
