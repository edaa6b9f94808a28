// Loops over a row (or a piece of one) for each optimizer. Included once for each type, after
// update_formulas.h; LS_A is the type of a caller's memory. g: gradients, w: weights; m, v: states
// by element, or NULL.

#define ELEMENTS(name, statement)                                                                  \
    LS_FMA_CLONES static void LS_TS(name)(const LS_TS(ls_step) * step, const LS_TS(ls_row) * row_, \
                                          const LS_A *restrict gradients, LS_A *restrict weights,  \
                                          LS_A *restrict first, LS_A *restrict second, size_t n) { \
        const LS_TS(ls_step) *s = step;                                                            \
        const LS_TS(ls_row) *row = row_;                                                           \
        (void)row, (void)first, (void)second;                                                      \
        for (size_t i = 0; i < n; i++) {                                                           \
            LS_T g = gradients[i] * s->factor;                                                     \
            LS_T w = weights[i];                                                                   \
            statement;                                                                             \
            weights[i] = w;                                                                        \
        }                                                                                          \
    }
#define WITH_M(expression)                                                                         \
    LS_T m = first[i];                                                                             \
    w = expression;                                                                                \
    first[i] = m
#define WITH_M_V(expression)                                                                       \
    LS_T m = first[i];                                                                             \
    LS_T v = second[i];                                                                            \
    w = expression;                                                                                \
    first[i] = m;                                                                                  \
    second[i] = v

ELEMENTS(sgd, w = LS_TS(ls_sgd)(s, g, w))
ELEMENTS(adagrad, WITH_M(LS_TS(ls_adagrad)(s, g, w, &m)))
ELEMENTS(rowwise_adagrad, w = LS_TS(ls_rowwise_adagrad)(row, g, w))
ELEMENTS(adam, WITH_M_V(LS_TS(ls_adam)(s, g, w, &m, &v)))
ELEMENTS(partial_adam, WITH_M(LS_TS(ls_partial_adam)(s, row, g, w, &m)))
ELEMENTS(lamb, (void)g;
         w = LS_TS(ls_fma)(LS_TS(ls_lamb_direction)(s, w, first[i], second[i]), row->rate, w))
ELEMENTS(partial_lamb, (void)g;
         w = LS_TS(ls_fma)(LS_TS(ls_partial_lamb_direction)(s, row, w, first[i]), row->rate, w))
ELEMENTS(lars_sgd, WITH_M(LS_TS(ls_lars)(s, row, g, w, &m)))
ELEMENTS(dense_sgd, w = LS_TS(ls_dense_sgd)(s, g, w))
ELEMENTS(dense_momentum, WITH_M(LS_TS(ls_dense_momentum)(s, g, w, &m)))
ELEMENTS(dense_adagrad, WITH_M(LS_TS(ls_dense_adagrad)(s, g, w, &m)))
ELEMENTS(dense_adam, WITH_M_V(LS_TS(ls_dense_adam)(s, g, w, &m, &v)))

// Squares of a and, where it has one, of b, set by the statement, go into the eight partial sums of
// each; STRIP columns are squared at a time, then added. What the last strip lacks is +0, which
// changes no sum. The piece begins at a column that is a multiple of eight.
typedef LS_T LS_TS(eight) __attribute__((vector_size(8 * sizeof(LS_T))));

#define SUMS(name, has_b, statement)                                                               \
    LS_FMA_CLONES static void LS_TS(name)(                                                         \
        LS_T(*sums)[8], const LS_TS(ls_step) * step, const LS_TS(ls_row) * row_,                   \
        const LS_A *restrict gradients, const LS_A *restrict weights, LS_A *restrict first,        \
        LS_A *restrict second, size_t n) {                                                         \
        const LS_TS(ls_step) *s = step;                                                            \
        const LS_TS(ls_row) *row = row_;                                                           \
        (void)row, (void)first, (void)second, (void)weights;                                       \
        LS_TS(eight) part[2];                                                                      \
        LS_TS(eight) squares[2][STRIP / 8];                                                        \
        memcpy(part, sums, sizeof part);                                                           \
        for (size_t start = 0; start < n; start += STRIP) {                                        \
            size_t end = n - start < STRIP ? n - start : STRIP;                                    \
            LS_T *square_a = (LS_T *)&squares[0];                                                  \
            LS_T *square_b = (LS_T *)&squares[1];                                                  \
            for (size_t k = 0; k < end; k++) {                                                     \
                size_t i = start + k;                                                              \
                LS_T g = gradients[i] * s->factor;                                                 \
                LS_T a, b = 0;                                                                     \
                statement;                                                                         \
                square_a[k] = a * a;                                                               \
                if (has_b) {                                                                       \
                    square_b[k] = b * b;                                                           \
                }                                                                                  \
            }                                                                                      \
            for (size_t k = end; k % 8 != 0; k++) {                                                \
                square_a[k] = square_b[k] = 0;                                                     \
            }                                                                                      \
            for (size_t block = 0; block * 8 < end; block++) {                                     \
                part[0] += squares[0][block];                                                      \
                if (has_b) {                                                                       \
                    part[1] += squares[1][block];                                                  \
                }                                                                                  \
            }                                                                                      \
        }                                                                                          \
        memcpy(sums, part, sizeof part);                                                           \
    }

SUMS(sum_gradients, false, a = g)
SUMS(sum_decayed, false, a = LS_TS(ls_decayed)(s, g, weights[i]))
SUMS(sum_lars, true, a = weights[i]; b = g)
SUMS(sum_lamb, true, LS_T m = first[i]; LS_T v = second[i]; LS_TS(ls_lamb_moment)(s, g, &m);
     LS_TS(ls_lamb_square)(s, g, &v); first[i] = m; second[i] = v; a = weights[i];
     b = LS_TS(ls_lamb_direction)(s, a, m, v))
SUMS(sum_partial_lamb, true, LS_T m = first[i]; LS_TS(ls_lamb_moment)(s, g, &m); first[i] = m;
     a = weights[i]; b = LS_TS(ls_partial_lamb_direction)(s, row, a, m))

// What the sums make of the row and of its state m or v.
static void LS_TS(row_adagrad)(LS_TS(ls_row) * row, const LS_TS(ls_step) * s, LS_T a, LS_T b,
                               LS_A *m, LS_A *v) {
    (void)b, (void)v;
    LS_T state = *m;
    LS_TS(ls_rowwise_adagrad_row)(row, s, a, &state);
    *m = state;
}

static void LS_TS(row_partial_adam)(LS_TS(ls_row) * row, const LS_TS(ls_step) * s, LS_T a, LS_T b,
                                    LS_A *m, LS_A *v) {
    (void)b, (void)m;
    LS_T state = *v;
    LS_TS(ls_partial_adam_row)(row, s, a, &state);
    *v = state;
}

static void LS_TS(row_partial_lamb)(LS_TS(ls_row) * row, const LS_TS(ls_step) * s, LS_T a, LS_T b,
                                    LS_A *m, LS_A *v) {
    (void)b, (void)m;
    LS_T state = *v;
    LS_TS(ls_partial_lamb_row)(row, s, a, &state);
    *v = state;
}

static void LS_TS(row_lamb)(LS_TS(ls_row) * row, const LS_TS(ls_step) * s, LS_T a, LS_T b, LS_A *m,
                            LS_A *v) {
    (void)m, (void)v;
    LS_TS(ls_lamb_row)(row, s, a, b);
}

static void LS_TS(row_lars)(LS_TS(ls_row) * row, const LS_TS(ls_step) * s, LS_T a, LS_T b, LS_A *m,
                            LS_A *v) {
    (void)m, (void)v;
    LS_TS(ls_lars_row)(row, s, a, b);
}

// How a kind goes over a row: twice at most to sum, then once to write.
typedef struct {
    void (*sums[2])(LS_T (*)[8], const LS_TS(ls_step) *, const LS_TS(ls_row) *, const LS_A *,
                    const LS_A *, LS_A *, LS_A *, size_t);
    void (*rows[2])(LS_TS(ls_row) *, const LS_TS(ls_step) *, LS_T, LS_T, LS_A *, LS_A *);
    void (*elements)(const LS_TS(ls_step) *, const LS_TS(ls_row) *, const LS_A *, LS_A *, LS_A *,
                     LS_A *, size_t);
} LS_TS(passes);

static const LS_TS(passes) LS_TS(fused)[LS_OPTIMIZER_KIND_COUNT] = {
    [LS_OPTIMIZER_SGD] = {.elements = LS_TS(sgd)},
    [LS_OPTIMIZER_ADAGRAD] = {.elements = LS_TS(adagrad)},
    [LS_OPTIMIZER_ROWWISE_ADAGRAD] = {.sums = {LS_TS(sum_decayed)},
                                      .rows = {LS_TS(row_adagrad)},
                                      .elements = LS_TS(rowwise_adagrad)},
    [LS_OPTIMIZER_ADAM] = {.elements = LS_TS(adam)},
    [LS_OPTIMIZER_ADAMW] = {.elements = LS_TS(adam)},
    [LS_OPTIMIZER_PARTIAL_ROWWISE_ADAM] = {.sums = {LS_TS(sum_gradients)},
                                           .rows = {LS_TS(row_partial_adam)},
                                           .elements = LS_TS(partial_adam)},
    [LS_OPTIMIZER_LAMB] = {.sums = {LS_TS(sum_lamb)},
                           .rows = {LS_TS(row_lamb)},
                           .elements = LS_TS(lamb)},
    [LS_OPTIMIZER_PARTIAL_ROWWISE_LAMB] = {.sums = {LS_TS(sum_gradients), LS_TS(sum_partial_lamb)},
                                           .rows = {LS_TS(row_partial_lamb), LS_TS(row_lamb)},
                                           .elements = LS_TS(partial_lamb)},
    [LS_OPTIMIZER_LARS_SGD] = {.sums = {LS_TS(sum_lars)},
                               .rows = {LS_TS(row_lars)},
                               .elements = LS_TS(lars_sgd)},
};

static LS_TS(passes) LS_TS(passes_of)(const ls_optimizer *o) {
    if (o->form == LS_OPTIMIZER_FUSED || !ls_optimizer_about(o->kind)->dense_differs) {
        return LS_TS(fused)[o->kind];
    }
    return (LS_TS(passes)){
        .elements =
            o->kind == LS_OPTIMIZER_SGD
                ? (ls_optimizer_state_count(o) > 0 ? LS_TS(dense_momentum) : LS_TS(dense_sgd))
            : o->kind == LS_OPTIMIZER_ADAGRAD ? LS_TS(dense_adagrad)
                                              : LS_TS(dense_adam)};
}

static void LS_TS(update_row)(const LS_TS(passes) * passes, const LS_TS(ls_step) * s,
                              const update *up, size_t i, size_t at) {
    const ls_row_update *u = up->u;
    LS_TS(ls_row) row;
    memset(&row, 0, sizeof row);
    LS_A *states[2];
    size_t stride[2];
    for (int k = 0; k < 2; k++) {
        stride[k] = up->states[k] == NULL || up->states[k]->per_row ? 0 : 1;
        states[k] =
            u->states[k] == NULL ? NULL : (LS_A *)u->states[k] + at * (stride[k] ? u->dim : 1);
    }
    LS_T buffer[PIECE];
    for (int pass = 0; pass <= 2; pass++) {
        bool last = pass == 2;
        if (!last && passes->sums[pass] == NULL) {
            continue;
        }
        LS_T sums[2][8] = {{0}};
        size_t piece = up->narrow ? PIECE : u->dim;
        for (size_t c = 0; c < u->dim; c += piece) {
            size_t n = u->dim - c < piece ? u->dim - c : piece;
            const LS_A *g = (const LS_A *)u->gradients + i * u->dim + c;
            void *memory = (char *)u->weights + (at * u->dim + c) * up->element_bytes;
            LS_A *w = up->narrow ? (LS_A *)buffer : memory;
            LS_A *m = states[0] != NULL ? states[0] + c * stride[0] : NULL;
            LS_A *v = states[1] != NULL ? states[1] + c * stride[1] : NULL;
            if (up->narrow) {
                ls_kernel_convert(buffer, LS_F32, memory, u->dtype, n);
            }
            if (!last) {
                passes->sums[pass](sums, s, &row, g, w, m, v, n);
                continue;
            }
            passes->elements(s, &row, g, w, m, v, n);
            if (up->narrow) {
                store_narrow(up, memory, (const float *)(const void *)buffer, at, c, n);
            }
        }
        if (!last) {
            passes->rows[pass](&row, s, LS_TS(ls_add_eight)(sums[0]), LS_TS(ls_add_eight)(sums[1]),
                               states[0], states[1]);
        }
    }
}

static void LS_TS(update_rows)(const update *up) {
    const ls_row_update *u = up->u;
    LS_TS(passes) passes = LS_TS(passes_of)(up->o);
    const LS_TS(ls_step) s = LS_TS(ls_step_make)(up->o, u);
    if (passes.sums[0] == LS_TS(sum_decayed) && !s.l2) {
        passes.sums[0] = LS_TS(sum_gradients);  // which waits for no weights
    }
    for (size_t i = 0; u->row_ids != NULL && i < u->count && i < PREFETCH; i++) {
        prefetch_row(up, (size_t)u->row_ids[i]);
    }
    for (size_t i = 0; i < u->count; i++) {
        if (u->row_ids != NULL && i + PREFETCH < u->count) {
            prefetch_row(up, (size_t)u->row_ids[i + PREFETCH]);
        }
        int64_t at = u->row_ids != NULL ? u->row_ids[i] : (int64_t)i;
        LS_ASSERT(at >= 0 && at < u->rows);
        LS_TS(update_row)(&passes, &s, up, i, (size_t)at);
    }
}

#undef ELEMENTS
#undef WITH_M
#undef WITH_M_V
#undef SUMS
