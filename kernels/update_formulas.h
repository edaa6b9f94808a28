// One element of a row under each optimizer, for the CPU's kernels and the GPU's: the same text, so
// the same bits. Included once for each type: LS_T is float or double, LS_TS(name) the name with
// that type's suffix. Sums over a row are the caller's (optimizer.h states their order). Nothing is
// contracted; fma is written where a formula has it. Where FBGEMM's C++ computes in double, so does
// this; the casts say where it rounds.

// An optimizer's numbers, made by the host.
typedef struct LS_TS(ls_step) {
    LS_T factor;
    LS_T lr;
    LS_T eps;
    LS_T beta1;
    LS_T beta2;
    LS_T momentum;
    LS_T weight_decay;
    LS_T eta;
    LS_T rest1;          // 1 - beta1, rounded
    LS_T rest2;          // 1 - beta2, rounded
    LS_T kept;           // dense: 1 - lr weight_decay
    LS_T dense_rate;     // dense: -lr / (1 - beta1^t)
    LS_T dense_root;     // dense: sqrt(1 - beta2^t)
    double wide_rest1;   // 1 - beta1
    double wide_rest2;   //
    double correction1;  // 1 - beta1^t
    double correction2;  //
    LS_T columns;        // of the row
    int l2;
    int decoupled;
} LS_TS(ls_step);

// A row's numbers, made from its sums.
typedef struct LS_TS(ls_row) {
    LS_T rate;
    LS_T kept;
    LS_T v;
} LS_TS(ls_row);

LS_BOTH static inline LS_T LS_TS(ls_root)(LS_T x) {
    return sizeof(LS_T) == sizeof(double) ? (LS_T)sqrt((double)x) : (LS_T)sqrtf((float)x);
}

LS_BOTH static inline LS_T LS_TS(ls_fma)(LS_T a, LS_T b, LS_T c) {
    return sizeof(LS_T) == sizeof(double) ? (LS_T)fma((double)a, (double)b, (double)c)
                                          : (LS_T)fmaf((float)a, (float)b, (float)c);
}

// The eight partial sums of a row.
LS_BOTH static inline LS_T LS_TS(ls_add_eight)(const LS_T x[8]) {
    return ((x[0] + x[1]) + (x[2] + x[3])) + ((x[4] + x[5]) + (x[6] + x[7]));
}

// ---- Fused --------------------------------------------------------------------------------------
LS_BOTH static inline LS_T LS_TS(ls_sgd)(const LS_TS(ls_step) * s, LS_T g, LS_T w) {
    return w - s->lr * g;
}

LS_BOTH static inline LS_T LS_TS(ls_adagrad)(const LS_TS(ls_step) * s, LS_T g, LS_T w, LS_T *m) {
    *m = *m + g * g;
    LS_T step = s->lr * g;
    return (LS_T)((double)w - (double)step / (sqrt((double)*m) + (double)s->eps));
}

// What rowwise_adagrad squares.
LS_BOTH static inline LS_T LS_TS(ls_decayed)(const LS_TS(ls_step) * s, LS_T g, LS_T w) {
    return s->l2 ? g + s->weight_decay * w : g;
}

LS_BOTH static inline void
LS_TS(ls_rowwise_adagrad_row)(LS_TS(ls_row) * row, const LS_TS(ls_step) * s, LS_T sum, LS_T *m) {
    *m = *m + sum / s->columns;
    row->rate = s->lr / (LS_TS(ls_root)(*m) + s->eps);
    LS_T lost = s->l2 ? row->rate * s->weight_decay : s->decoupled ? s->lr * s->weight_decay : 0;
    row->kept = (LS_T)(1.0 - (double)lost);
}

LS_BOTH static inline LS_T LS_TS(ls_rowwise_adagrad)(const LS_TS(ls_row) * row, LS_T g, LS_T w) {
    return row->kept * w - row->rate * g;
}

LS_BOTH static inline LS_T LS_TS(ls_adam_weight)(const LS_TS(ls_step) * s, LS_T w, LS_T m,
                                                 LS_T v_hat) {
    double m_hat = (double)m / s->correction1;
    double direction = m_hat / (double)(LS_TS(ls_root)(v_hat) + s->eps);
    LS_T decay = s->weight_decay * w;
    return (LS_T)((double)w - (double)s->lr * (direction + (double)decay));
}

LS_BOTH static inline LS_T LS_TS(ls_adam)(const LS_TS(ls_step) * s, LS_T g, LS_T w, LS_T *m,
                                          LS_T *v) {
    *m = LS_TS(ls_fma)(g, s->rest1, *m * s->beta1);
    *v = LS_TS(ls_fma)(g * g, s->rest2, *v * s->beta2);
    return LS_TS(ls_adam_weight)(s, w, *m, (LS_T)((double)*v / s->correction2));
}

// Both partial_rowwise kinds: the second moment of the row.
LS_BOTH static inline void LS_TS(ls_partial_adam_row)(LS_TS(ls_row) * row, const LS_TS(ls_step) * s,
                                                      LS_T sum, LS_T *v) {
    LS_T mean = sum / s->columns;
    LS_T old = *v * s->beta2;
    double wide = (double)mean * s->wide_rest2 + (double)old;
    *v = (LS_T)wide;
    row->v = (LS_T)(wide / s->correction2);
}

LS_BOTH static inline LS_T LS_TS(ls_partial_adam)(const LS_TS(ls_step) * s,
                                                  const LS_TS(ls_row) * row, LS_T g, LS_T w,
                                                  LS_T *m) {
    *m = LS_TS(ls_fma)(g, s->rest1, *m * s->beta1);
    return LS_TS(ls_adam_weight)(s, w, *m, row->v);
}

LS_BOTH static inline void LS_TS(ls_partial_lamb_row)(LS_TS(ls_row) * row, const LS_TS(ls_step) * s,
                                                      LS_T sum, LS_T *v) {
    LS_T mean = sum / s->columns;
    LS_T old = s->beta2 * *v;
    *v = (LS_T)((double)old + s->wide_rest2 * (double)mean);
    LS_T v_hat = (LS_T)((double)*v / s->correction2);
    row->v = (LS_T)(1.0 / (double)(LS_TS(ls_root)(v_hat) + s->eps));
}

LS_BOTH static inline void LS_TS(ls_lamb_moment)(const LS_TS(ls_step) * s, LS_T g, LS_T *m) {
    LS_T old = s->beta1 * *m;
    *m = (LS_T)((double)old + s->wide_rest1 * (double)g);
}

LS_BOTH static inline void LS_TS(ls_lamb_square)(const LS_TS(ls_step) * s, LS_T g, LS_T *v) {
    LS_T old = s->beta2 * *v;
    *v = (LS_T)((double)old + s->wide_rest2 * (double)g * (double)g);
}

LS_BOTH static inline LS_T LS_TS(ls_lamb_direction)(const LS_TS(ls_step) * s, LS_T w, LS_T m,
                                                    LS_T v) {
    LS_T v_hat = (LS_T)((double)v / s->correction2);
    LS_T decay = s->weight_decay * w;
    double moved = (double)m / s->correction1 / (double)(LS_TS(ls_root)(v_hat) + s->eps);
    return (LS_T)(moved + (double)decay);
}

LS_BOTH static inline LS_T LS_TS(ls_partial_lamb_direction)(const LS_TS(ls_step) * s,
                                                            const LS_TS(ls_row) * row, LS_T w,
                                                            LS_T m) {
    LS_T decay = s->weight_decay * w;
    return (LS_T)((double)m / s->correction1 * (double)row->v + (double)decay);
}

LS_BOTH static inline void LS_TS(ls_lamb_row)(LS_TS(ls_row) * row, const LS_TS(ls_step) * s,
                                              LS_T weight_sum, LS_T direction_sum) {
    LS_T ratio = LS_TS(ls_root)(weight_sum) / LS_TS(ls_root)(direction_sum);
    row->rate = -s->lr * ratio;
}

LS_BOTH static inline void LS_TS(ls_lars_row)(LS_TS(ls_row) * row, const LS_TS(ls_step) * s,
                                              LS_T weight_sum, LS_T gradient_sum) {
    LS_T weight_norm = LS_TS(ls_root)(weight_sum);
    LS_T gradient_norm = LS_TS(ls_root)(gradient_sum);
    row->rate = s->lr * s->eta * weight_norm / (gradient_norm + s->weight_decay * weight_norm);
}

LS_BOTH static inline LS_T LS_TS(ls_lars)(const LS_TS(ls_step) * s, const LS_TS(ls_row) * row,
                                          LS_T g, LS_T w, LS_T *m) {
    LS_T decayed = g + s->weight_decay * w;
    *m = s->momentum * *m + row->rate * decayed;
    return w - *m;
}

// ---- torch.optim's ------------------------------------------------------------------------------
LS_BOTH static inline LS_T LS_TS(ls_dense_gradient)(const LS_TS(ls_step) * s, LS_T g, LS_T w) {
    return s->l2 ? LS_TS(ls_fma)(s->weight_decay, w, g) : g;
}

LS_BOTH static inline LS_T LS_TS(ls_dense_sgd)(const LS_TS(ls_step) * s, LS_T g, LS_T w) {
    return LS_TS(ls_fma)(-s->lr, LS_TS(ls_dense_gradient)(s, g, w), w);
}

LS_BOTH static inline LS_T LS_TS(ls_dense_momentum)(const LS_TS(ls_step) * s, LS_T g, LS_T w,
                                                    LS_T *m) {
    *m = s->momentum * *m + LS_TS(ls_dense_gradient)(s, g, w);
    return LS_TS(ls_fma)(-s->lr, *m, w);
}

LS_BOTH static inline LS_T LS_TS(ls_dense_adagrad)(const LS_TS(ls_step) * s, LS_T g, LS_T w,
                                                   LS_T *m) {
    g = LS_TS(ls_dense_gradient)(s, g, w);
    *m = LS_TS(ls_fma)(g, g, *m);
    return w + -s->lr * g / (LS_TS(ls_root)(*m) + s->eps);
}

LS_BOTH static inline LS_T LS_TS(ls_dense_adam)(const LS_TS(ls_step) * s, LS_T g, LS_T w, LS_T *m,
                                                LS_T *v) {
    g = LS_TS(ls_dense_gradient)(s, g, w);
    w = s->decoupled ? w * s->kept : w;
    // torch's lerp
    *m = s->rest1 < (LS_T)0.5 ? LS_TS(ls_fma)(s->rest1, g - *m, *m)
                              : LS_TS(ls_fma)(s->rest1 - 1, g - *m, g);
    *v = LS_TS(ls_fma)(s->rest2 * g, g, *v * s->beta2);
    return w + s->dense_rate * *m / (LS_TS(ls_root)(*v) / s->dense_root + s->eps);
}

// ---- The numbers --------------------------------------------------------------------------------
// Host only. In the dense form 1 - beta and the like are rounded once from the numbers as given; in
// the fused form, as in FBGEMM, those are rounded first.
static inline LS_TS(ls_step) LS_TS(ls_step_make)(const ls_optimizer *o, const ls_row_update *u) {
    bool dense = o->form == LS_OPTIMIZER_DENSE && ls_optimizer_about(o->kind)->dense_differs;
    ls_weight_decay decay = ls_optimizer_decay(o);
    // volatile: of two neighbours, gcc 12 takes (double)(float)x for x (its SLP vectoriser does).
    volatile LS_TS(ls_step) made;
    LS_TS(ls_step) s;
    memset(&s, 0, sizeof s);
    s.factor = (LS_T)u->factor;
    s.lr = (LS_T)o->lr;
    s.eps = (LS_T)o->eps;
    s.beta1 = (LS_T)o->beta1;
    s.beta2 = (LS_T)o->beta2;
    s.momentum = (LS_T)o->momentum;
    s.weight_decay = decay == LS_DECAY_NONE ? (LS_T)0 : (LS_T)o->weight_decay;
    s.eta = (LS_T)o->eta;
    made.beta1 = s.beta1;
    made.beta2 = s.beta2;
    s.wide_rest1 = 1.0 - (double)made.beta1;
    s.wide_rest2 = 1.0 - (double)made.beta2;
    s.rest1 = (LS_T)(dense ? 1.0 - o->beta1 : s.wide_rest1);
    s.rest2 = (LS_T)(dense ? 1.0 - o->beta2 : s.wide_rest2);
    double t = (double)u->step;
    made.rest1 = (LS_T)pow((double)made.beta1, t);
    made.rest2 = (LS_T)pow((double)made.beta2, t);
    s.correction1 = 1.0 - (dense ? pow(o->beta1, t) : (double)made.rest1);
    s.correction2 = 1.0 - (dense ? pow(o->beta2, t) : (double)made.rest2);
    s.kept = (LS_T)(1.0 - o->lr * o->weight_decay);
    s.dense_rate = (LS_T) - (o->lr / s.correction1);
    s.dense_root = (LS_T)sqrt(s.correction2);
    s.columns = (LS_T)u->dim;
    s.l2 = decay == LS_DECAY_L2;
    s.decoupled = decay == LS_DECAY_DECOUPLED;
    return s;
}
