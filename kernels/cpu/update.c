// One step of an optimizer over rows: the loops of update_loops.inc, for f32 and for f64. Weights
// of f16 and bf16 are widened piece by piece, and rounded again.
#include <math.h>

#include "kernels/cpu/field_rows.h"
#include "kernels/cpu/bits.h"
#include "kernels/stochastic.h"
#include "kernels/training.h"

enum {
    PIECE = 512,   // columns of a narrow row at a time; a multiple of 8
    STRIP = 64,    // columns squared at a time; a multiple of 8
    PREFETCH = 8,  // rows are scattered in the table: prefetches one this many ahead
};

typedef struct {
    const ls_optimizer *o;
    const ls_row_update *u;
    const ls_optimizer_state_traits *states[2];  // NULL: none
    size_t element_bytes;
    bool narrow;
    ls_stochastic stochastic;
} update;

static void store_narrow(const update *up, void *out, const float *in, size_t row, size_t column,
                         size_t n) {
    float rounded[PIECE];
    if (up->o->stochastic_rounding) {
        for (size_t c = 0; c < n; c++) {
            uint32_t random = ls_stochastic__draw(&up->stochastic, (uint64_t)up->u->first_row + row,
                                                  (uint64_t)up->u->first_column + column + c);
            rounded[c] = ls_stochastic__round(&up->stochastic, in[c], random);
        }
        in = rounded;
    }
    ls_kernel_convert(out, up->u->dtype, in, LS_F32, n);
}

static void prefetch_row(const update *up, size_t row) {
    size_t row_bytes = up->u->dim * up->element_bytes;
    const char *weights = (const char *)up->u->weights + row * row_bytes;
    for (size_t byte = 0; byte < row_bytes && byte < 512; byte += 64) {
        __builtin_prefetch(weights + byte, 1);
    }
    if (up->states[0] != NULL && up->states[0]->per_row) {
        __builtin_prefetch((const float *)up->u->states[0] + row, 1);
    }
}

#define LS_T        float
#define LS_A        any_f32
#define LS_TS(name) name##_f32
#include "kernels/update_formulas.inc"
//
#include "kernels/cpu/update_loops.inc"
#undef LS_T
#undef LS_A
#undef LS_TS

#define LS_T        double
#define LS_A        any_f64
#define LS_TS(name) name##_f64
#include "kernels/update_formulas.inc"
//
#include "kernels/cpu/update_loops.inc"

void ls_kernel_update_rows(const ls_optimizer *o, const ls_row_update *u) {
    if (u->dtype == LS_FIELD) {
        ls_field__update_rows(o, u);
        return;
    }
    LS_ASSERT(o != NULL && u != NULL && ls_optimizer_check(o) == LS_OK);
    LS_ASSERT(u->dtype == LS_F32 || u->dtype == LS_F64 || u->dtype == LS_F16 ||
              u->dtype == LS_BF16);
    LS_ASSERT(u->rows >= 0 && u->step >= 1 && u->first_row >= 0 && u->first_column >= 0);
    LS_ASSERT(u->count == 0 || u->dim == 0 || (u->weights != NULL && u->gradients != NULL));
    update up = {.o = o,
                 .u = u,
                 .element_bytes = ls_dtype_bytes(u->dtype),
                 .narrow = u->dtype == LS_F16 || u->dtype == LS_BF16};
    for (int i = 0; i < ls_optimizer_state_count(o); i++) {
        LS_ASSERT(u->states[i] != NULL || u->count == 0 || u->dim == 0);
        up.states[i] = &ls_optimizer_about(o->kind)->states[i];
    }
    if (u->dim == 0) {
        return;
    }
    if (up.narrow) {
        up.stochastic = ls_stochastic__make(o, u);
    }
    (u->dtype == LS_F64 ? update_rows_f64 : update_rows_f32)(&up);
}
