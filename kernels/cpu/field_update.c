// The optimizers over the field, as the formulas of optimizer.c; a square root is an uninterpreted
// function of its argument.
#include "kernels/field.h"
#include "kernels/cpu/field_rows.h"
#include "kernels/cpu/bits.h"

// The step's numbers, and the row that it is about.
typedef struct field_step {
    const ls_optimizer *o;
    uint32_t lr, eps, beta1, beta2, correction1, correction2, momentum, decay, eta;
    bool l2, decoupled, dense;
    size_t dim;
    any_u32 *weights, *states[2];
    const any_u32 *gradients;
    uint32_t factor;
} field_step;

static uint32_t plus(uint32_t a, uint32_t b) {
    return ls_field_plus(a, b);
}

static uint32_t times(uint32_t a, uint32_t b) {
    return ls_field_times(a, b);
}

static uint32_t root(uint32_t a) {
    return ls_field_root(a, 0);
}

static uint32_t gradient_at(const field_step *s, size_t c) {
    return times(s->gradients[c], s->factor);
}

static uint32_t decayed(const field_step *s, size_t c) {
    uint32_t g = gradient_at(s, c);
    return s->l2 ? plus(g, times(s->decay, s->weights[c])) : g;
}

static void lose(const field_step *s, size_t c, uint32_t lost) {
    s->weights[c] = ls_field_minus(s->weights[c], lost);
}

static void sgd(const field_step *s) {
    for (size_t c = 0; c < s->dim; c++) {
        uint32_t g = decayed(s, c);
        if (s->states[0] != NULL) {
            g = s->states[0][c] = plus(times(s->momentum, s->states[0][c]), g);
        }
        lose(s, c, times(s->lr, g));
    }
}

static void adagrad(const field_step *s) {
    for (size_t c = 0; c < s->dim; c++) {
        uint32_t g = decayed(s, c);
        s->states[0][c] = plus(s->states[0][c], times(g, g));
        lose(s, c, times(s->lr, ls_field_over(g, plus(root(s->states[0][c]), s->eps))));
    }
}

static uint32_t mean_square(const field_step *s, bool with_decay) {
    uint32_t sum = 0;
    for (size_t c = 0; c < s->dim; c++) {
        uint32_t g = with_decay ? decayed(s, c) : gradient_at(s, c);
        sum = plus(sum, times(g, g));
    }
    return ls_field_over(sum, ls_field_of((double)s->dim));
}

static void rowwise_adagrad(const field_step *s) {
    s->states[0][0] = plus(s->states[0][0], mean_square(s, true));
    uint32_t rate = ls_field_over(s->lr, plus(root(s->states[0][0]), s->eps)), lost = 0;
    if (s->l2 || s->decoupled) {
        lost = times(s->l2 ? rate : s->lr, s->decay);
    }
    for (size_t c = 0; c < s->dim; c++) {
        lose(s, c, plus(times(lost, s->weights[c]), times(rate, gradient_at(s, c))));
    }
}

static void moments(const field_step *s, bool per_row) {
    uint32_t rest1 = ls_field_minus(1, s->beta1), rest2 = ls_field_minus(1, s->beta2);
    if (per_row) {
        s->states[1][0] =
            plus(times(s->beta2, s->states[1][0]), times(rest2, mean_square(s, false)));
    }
    for (size_t c = 0; c < s->dim; c++) {
        uint32_t g = s->dense ? decayed(s, c) : gradient_at(s, c);
        s->states[0][c] = plus(times(s->beta1, s->states[0][c]), times(rest1, g));
        if (!per_row) {
            s->states[1][c] = plus(times(s->beta2, s->states[1][c]), times(rest2, times(g, g)));
        }
    }
}

static uint32_t direction(const field_step *s, size_t c, bool per_row) {
    uint32_t v = ls_field_over(s->states[1][per_row ? 0 : c], s->correction2);
    uint32_t m = ls_field_over(s->states[0][c], s->correction1);
    return ls_field_over(m, plus(root(v), s->eps));
}

static void adam(const field_step *s, bool per_row) {
    moments(s, per_row);
    for (size_t c = 0; c < s->dim; c++) {
        uint32_t moved = direction(s, c, per_row);
        // In both forms a decoupled decay takes lr decay w off.
        moved = s->decoupled ? plus(moved, times(s->decay, s->weights[c])) : moved;
        lose(s, c, times(s->lr, moved));
    }
}

static void lamb(const field_step *s, bool per_row) {
    uint32_t weights = 0, moves = 0;
    moments(s, per_row);
    for (size_t c = 0; c < s->dim; c++) {
        uint32_t w = s->weights[c], r = plus(direction(s, c, per_row), times(s->decay, w));
        weights = plus(weights, times(w, w));
        moves = plus(moves, times(r, r));
    }
    uint32_t rate = times(s->lr, ls_field_over(root(weights), root(moves)));
    for (size_t c = 0; c < s->dim; c++) {
        uint32_t r = plus(direction(s, c, per_row), times(s->decay, s->weights[c]));
        lose(s, c, times(rate, r));
    }
}

static void lars(const field_step *s) {
    uint32_t weights = 0, gradients = 0;
    for (size_t c = 0; c < s->dim; c++) {
        uint32_t w = s->weights[c], g = gradient_at(s, c);
        weights = plus(weights, times(w, w));
        gradients = plus(gradients, times(g, g));
    }
    uint32_t whole = plus(root(gradients), times(s->decay, root(weights)));
    uint32_t rate = ls_field_over(times(times(s->lr, s->eta), root(weights)), whole);
    for (size_t c = 0; c < s->dim; c++) {
        uint32_t g = plus(gradient_at(s, c), times(s->decay, s->weights[c]));
        s->states[0][c] = plus(times(s->momentum, s->states[0][c]), times(rate, g));
        lose(s, c, s->states[0][c]);
    }
}

static void update_row(const field_step *s) {
    switch (s->o->kind) {
    case LS_OPTIMIZER_SGD:
        sgd(s);
        break;
    case LS_OPTIMIZER_ADAGRAD:
        adagrad(s);
        break;
    case LS_OPTIMIZER_ROWWISE_ADAGRAD:
        rowwise_adagrad(s);
        break;
    case LS_OPTIMIZER_ADAM:
    case LS_OPTIMIZER_ADAMW:
    case LS_OPTIMIZER_PARTIAL_ROWWISE_ADAM:
        adam(s, s->o->kind == LS_OPTIMIZER_PARTIAL_ROWWISE_ADAM);
        break;
    case LS_OPTIMIZER_LAMB:
    case LS_OPTIMIZER_PARTIAL_ROWWISE_LAMB:
        lamb(s, s->o->kind == LS_OPTIMIZER_PARTIAL_ROWWISE_LAMB);
        break;
    case LS_OPTIMIZER_LARS_SGD:
        lars(s);
        break;
    case LS_OPTIMIZER_KIND_COUNT:
        LS_ASSERT(false);
    }
}

static field_step make_step(const ls_optimizer *o, const ls_row_update *u) {
    ls_weight_decay decay = ls_optimizer_decay(o);
    uint32_t beta1 = ls_field_of(o->beta1), beta2 = ls_field_of(o->beta2);
    return (field_step){.o = o,
                        .lr = ls_field_of(o->lr),
                        .eps = ls_field_of(o->eps),
                        .beta1 = beta1,
                        .beta2 = beta2,
                        .correction1 = ls_field_minus(1, ls_field_power(beta1, (uint64_t)u->step)),
                        .correction2 = ls_field_minus(1, ls_field_power(beta2, (uint64_t)u->step)),
                        .momentum = ls_field_of(o->momentum),
                        .decay = decay == LS_DECAY_NONE ? 0 : ls_field_of(o->weight_decay),
                        .eta = ls_field_of(o->eta),
                        .l2 = decay == LS_DECAY_L2,
                        .decoupled = decay == LS_DECAY_DECOUPLED,
                        .dense = o->form == LS_OPTIMIZER_DENSE &&
                                 ls_optimizer_about(o->kind)->dense_differs,
                        .dim = u->dim,
                        .factor = ls_field_of(u->factor)};
}

void ls_field__update_rows(const ls_optimizer *o, const ls_row_update *u) {
    LS_ASSERT(o != NULL && u != NULL && ls_optimizer_check(o) == LS_OK && u->step >= 1);
    const ls_optimizer_traits *about = ls_optimizer_about(o->kind);
    field_step s = make_step(o, u);
    for (size_t i = 0; i < u->count && u->dim > 0; i++) {
        size_t row = u->row_ids != NULL ? (size_t)u->row_ids[i] : i;
        s.weights = (any_u32 *)u->weights + row * u->dim;
        s.gradients = (const any_u32 *)u->gradients + i * u->dim;
        for (int state = 0; state < ls_optimizer_state_count(o); state++) {
            size_t first = about->states[state].per_row ? row : row * u->dim;
            s.states[state] = (any_u32 *)u->states[state] + first;
        }
        update_row(&s);
    }
}
