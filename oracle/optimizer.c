// One step of an optimizer on one row, formula by formula, on ranges. Shares nothing with the
// kernels that it judges but the description of an optimizer.
#include <math.h>

#include "oracle/range.h"
#include "orders/bound.h"

// The step's numbers. T: what is computed in.
typedef struct stepper {
    const oracle_row_step *s;
    ls_dtype t;
    oracle_range lr, eps, beta1, beta2, rest1, rest2, momentum, decay, one;
    oracle_range correction1, correction2;  // 1 - beta^step
    bool l2, decoupled, dense;
    double slack;  // largest factor by the roundings of all steps
    double reach;  // how far |m / correction1| can be beyond sqrt(v / correction2)
} stepper;

static oracle_range add(const stepper *p, oracle_range a, oracle_range b) {
    return ls_range__add(a, b, p->t);
}
static oracle_range sub(const stepper *p, oracle_range a, oracle_range b) {
    return ls_range__sub(a, b, p->t);
}
static oracle_range mul(const stepper *p, oracle_range a, oracle_range b) {
    return ls_range__mul(a, b, p->t);
}
static oracle_range over(const stepper *p, oracle_range a, oracle_range b) {
    return ls_range__div(a, b, p->t);
}

// A value of at most `most`, but where `divisor` may be 0: then it may be 0/0.
static oracle_range limited(oracle_range a, double most, oracle_range divisor) {
    return divisor.lo > 0 || divisor.hi < 0 ? ls_range__limit(a, most) : a;
}

static oracle_range gradient(const stepper *p, size_t c) {
    return p->s->factor ? mul(p, p->s->gradients[c], *p->s->factor) : p->s->gradients[c];
}

static void store(const stepper *p, size_t c, oracle_range value) {
    bool narrow = p->s->dtype == LS_F16 || p->s->dtype == LS_BF16;
    p->s->weights[c] =
        ls_range__stored(value, p->s->dtype, narrow && p->s->optimizer->stochastic_rounding);
}

// Fused formulas add the decay of a weight where it is 0, too: of an infinite weight that is NaN.
static oracle_range decayed(const stepper *p, oracle_range value, oracle_range weight) {
    bool adds = p->l2 || p->decoupled || !isfinite(weight.lo);
    return adds ? add(p, value, mul(p, p->decay, weight)) : value;
}

// torch's own square root is within an ulp, not half of one, where it is built with MKL.
static oracle_range divisor(const stepper *p, oracle_range state) {
    oracle_range root = ls_range__sqrt(state, p->t);
    return add(p, p->dense ? mul(p, root, p->one) : root, p->eps);
}

// ---- SGD, Adagrad -------------------------------------------------------------------------------

static void step_sgd(const stepper *p, bool dense) {
    for (size_t c = 0; c < p->s->columns; c++) {
        oracle_range g = gradient(p, c), w = p->s->weights[c];
        if (p->l2) {
            g = add(p, mul(p, p->decay, w), g);
        }
        if (dense && p->s->states[0]) {
            g = add(p, mul(p, p->momentum, p->s->states[0][c]), g);
            p->s->states[0][c] = g;
        }
        store(p, c, sub(p, w, mul(p, p->lr, g)));
    }
}

// g / (sqrt(m + g^2) + eps) rises with g and, where g is positive, falls with m: exactly at two
// corners of what is known, there with no more than ten roundings. Of numbers whose squares leave
// the type's range nothing more is known than what the operations say.
static oracle_range between_corners(const stepper *p, oracle_range g, oracle_range m,
                                    oracle_range divisor) {
    oracle_range whole = over(p, g, divisor);
    double size = fmin(fabs(g.lo), fabs(g.hi)), more = 1 + 10 * ls_bound_roundoff(p->t);
    if (!(size > 1e-15) || !isfinite(whole.lo)) {
        return limited(whole, p->slack, divisor);
    }
    double lo = g.lo / (sqrt(fmax(g.lo > 0 ? m.hi : m.lo, 0) + g.lo * g.lo) + p->eps.hi);
    double hi = g.hi / (sqrt(fmax(g.hi > 0 ? m.lo : m.hi, 0) + g.hi * g.hi) + p->eps.lo);
    lo = lo > 0 ? lo / more : lo * more;
    hi = hi > 0 ? hi * more : hi / more;
    return (oracle_range){whole.mid, fmax(whole.lo, fmin(lo, whole.mid)),
                          fmin(whole.hi, fmax(hi, whole.mid)), whole.size};
}

static void step_adagrad(const stepper *p) {
    for (size_t c = 0; c < p->s->columns; c++) {
        oracle_range g = gradient(p, c), w = p->s->weights[c], before = p->s->states[0][c];
        if (p->l2) {
            g = add(p, mul(p, p->decay, w), g);
        }
        oracle_range m = add(p, before, ls_range__square(g, p->t));
        p->s->states[0][c] = m;
        oracle_range moved = between_corners(p, g, before, divisor(p, m));
        store(p, c, sub(p, w, mul(p, p->lr, moved)));
    }
}

static oracle_range mean_square(const stepper *p, bool decayed) {
    oracle_squares sum = {.field = p->t == LS_FIELD};
    for (size_t c = 0; c < p->s->columns; c++) {
        oracle_range g = gradient(p, c);
        ls_squares__add(&sum, decayed ? add(p, mul(p, p->decay, p->s->weights[c]), g) : g);
    }
    return over(p, ls_squares__sum(&sum, p->t), ls_range__point((double)p->s->columns));
}

static void step_rowwise_adagrad(const stepper *p) {
    oracle_range m = add(p, p->s->states[0][0], mean_square(p, p->l2));
    p->s->states[0][0] = m;
    double reach = sqrt((double)p->s->columns) * p->slack;
    oracle_range root = divisor(p, m), k = over(p, p->lr, root), kept = p->one;
    if (p->l2) {
        kept = sub(p, p->one, mul(p, k, p->decay));
    } else if (p->decoupled) {
        kept = sub(p, p->one, mul(p, p->lr, p->decay));
    }
    for (size_t c = 0; c < p->s->columns; c++) {
        oracle_range g = gradient(p, c), w = p->s->weights[c];
        // With decay the gradient itself need not be below the root.
        oracle_range moved = over(p, g, root);
        moved = p->l2 ? moved : limited(moved, reach, root);
        moved = mul(p, p->lr, moved);
        store(p, c, sub(p, p->l2 || p->decoupled ? mul(p, kept, w) : w, moved));
    }
}

// ---- Adam and LAMB ------------------------------------------------------------------------------

static void step_moments(const stepper *p, bool per_row, bool lerps) {
    if (per_row) {
        p->s->states[1][0] =
            add(p, mul(p, p->beta2, p->s->states[1][0]), mul(p, p->rest2, mean_square(p, false)));
    }
    for (size_t c = 0; c < p->s->columns; c++) {
        oracle_range g = gradient(p, c);
        if (p->l2) {
            g = add(p, mul(p, p->decay, p->s->weights[c]), g);
        }
        oracle_range m = p->s->states[0][c];
        double size = fmax(fabs(g.lo), fabs(g.hi)) + fmax(fabs(m.lo), fabs(m.hi));
        m = add(p, mul(p, p->beta1, m), mul(p, p->rest1, g));
        if (lerps) {
            // As m + (1 - beta1) (g - m), or from g, whose differences are rounded.
            double error = 2 * ls_bound_step(p->t, size);
            m = (oracle_range){m.mid, m.lo - error, m.hi + error, m.size};
        }
        p->s->states[0][c] = m;
        if (!per_row) {
            p->s->states[1][c] = add(p, mul(p, p->beta2, p->s->states[1][c]),
                                     mul(p, p->rest2, ls_range__square(g, p->t)));
        }
    }
}

// m / correction1 over sqrt(v / correction2) + eps.
static oracle_range direction(const stepper *p, size_t c, bool per_row) {
    oracle_range v = over(p, p->s->states[1][per_row ? 0 : c], p->correction2);
    oracle_range m = over(p, p->s->states[0][c], p->correction1);
    double columns = per_row ? sqrt((double)p->s->columns) : 1;
    oracle_range root = divisor(p, v);
    return limited(over(p, m, root), p->reach * columns * p->slack, root);
}

static void step_adam(const stepper *p, bool per_row, bool dense) {
    step_moments(p, per_row, dense);
    for (size_t c = 0; c < p->s->columns; c++) {
        oracle_range w = p->s->weights[c], moved = direction(p, c, per_row);
        if (dense && p->decoupled) {
            w = mul(p, w, sub(p, p->one, mul(p, p->lr, p->decay)));
        } else if (!dense) {
            moved = decayed(p, moved, w);
        }
        store(p, c, sub(p, w, mul(p, p->lr, moved)));
    }
}

static oracle_range lamb_direction(const stepper *p, size_t c, bool per_row) {
    return decayed(p, direction(p, c, per_row), p->s->weights[c]);
}

static oracle_range norm(const stepper *p, const oracle_squares *sum) {
    return ls_range__sqrt(ls_squares__sum(sum, p->t), p->t);
}

static void step_lamb(const stepper *p, bool per_row) {
    step_moments(p, per_row, false);
    oracle_squares weights = {.field = p->t == LS_FIELD}, moves = weights;
    for (size_t c = 0; c < p->s->columns; c++) {
        ls_squares__add(&weights, p->s->weights[c]);
        ls_squares__add(&moves, lamb_direction(p, c, per_row));
    }
    oracle_range length = norm(p, &weights), whole = norm(p, &moves);
    oracle_range rate = mul(p, p->lr, over(p, length, whole));
    for (size_t c = 0; c < p->s->columns; c++) {
        oracle_range r = lamb_direction(p, c, per_row);
        // One column of a direction is no longer than all of it, however short that may be.
        oracle_range moved = limited(mul(p, rate, r), p->lr.hi * length.hi * p->slack, whole);
        store(p, c, sub(p, p->s->weights[c], moved));
    }
}

// ---- LARS ---------------------------------------------------------------------------------------

static void step_lars(const stepper *p) {
    oracle_squares of_weights = {.field = p->t == LS_FIELD}, of_gradients = of_weights;
    for (size_t c = 0; c < p->s->columns; c++) {
        ls_squares__add(&of_weights, p->s->weights[c]);
        ls_squares__add(&of_gradients, gradient(p, c));
    }
    oracle_range weights = norm(p, &of_weights), gradients = norm(p, &of_gradients);
    oracle_range eta = ls_range__constant(p->s->optimizer->eta, p->t);
    oracle_range longest = mul(p, mul(p, p->lr, eta), weights);
    oracle_range whole = decayed(p, gradients, weights);
    oracle_range rate = over(p, longest, whole);
    for (size_t c = 0; c < p->s->columns; c++) {
        oracle_range w = p->s->weights[c], g = decayed(p, gradient(p, c), w);
        oracle_range moved = limited(mul(p, rate, g), longest.hi * p->slack, whole);
        oracle_range m = add(p, mul(p, p->momentum, p->s->states[0][c]), moved);
        p->s->states[0][c] = m;
        store(p, c, sub(p, w, m));
    }
}

// ---- Any ----------------------------------------------------------------------------------------

// beta and what goes with it. Fused formulas take all from the rounded beta, torch.optim's what is
// 1 - something from the given one: near 1 the two are far apart.
typedef struct decay_rate {
    oracle_range beta, rest, correction;  // 1 - beta, 1 - beta^step
} decay_rate;

static decay_rate rate_in_field(double beta, int64_t step) {
    oracle_range one = ls_range__point(1), power = one;
    oracle_range of = ls_range__constant(beta, LS_FIELD);
    for (int64_t i = 0; i < step; i++) {
        power = ls_range__mul(power, of, LS_FIELD);
    }
    return (decay_rate){.beta = of,
                        .rest = ls_range__sub(one, of, LS_FIELD),
                        .correction = ls_range__sub(one, power, LS_FIELD)};
}

static decay_rate rate_of(double beta, ls_dtype t, int64_t step, bool given) {
    if (t == LS_FIELD) {
        return rate_in_field(beta, step);
    }
    oracle_range stored = ls_range__constant(beta, t);
    double exact = given ? beta : stored.mid;
    oracle_range power = ls_range__point(pow(exact, (double)step));
    oracle_range rest = ls_range__sub(ls_range__point(1), ls_range__point(exact), t);
    rest.size = fabs(rest.mid);
    if (!given) {
        power = ls_range__point(ls_range__constant(power.mid, t).mid);
    }
    // Given, it is sometimes 1 minus the rounded rest.
    double error = given ? ls_bound_step(t, beta) + ls_bound_step(t, 1 - beta) : 0;
    return (decay_rate){.beta = ls_range__about(given ? beta : stored.mid, error, 0),
                        .rest = rest,
                        .correction = ls_range__sub(ls_range__point(1), power, LS_F64)};
}

// By Cauchy and Schwarz: m = sum a_k g_k, v = sum b_k g_k^2 give |m| <= sqrt(sum a_k^2 / b_k)
// sqrt(v). A row that had fewer gradients than there were steps has fewer terms.
static double reach_of(const decay_rate *first, const decay_rate *second, int64_t step) {
    double sum = 0, a = first->rest.mid, b = second->rest.mid;
    for (int64_t k = 0; k < step && a > 0; k++) {
        sum += a * a / b;
        a *= first->beta.mid;
        b *= second->beta.mid;
    }
    return sqrt(sum) * sqrt(second->correction.mid) / first->correction.mid;
}

void ls_oracle__update_row(const oracle_row_step *step) {
    const ls_optimizer *o = step->optimizer;
    ls_dtype t = ls_optimizer_state_dtype(step->dtype);
    bool dense = o->form == LS_OPTIMIZER_DENSE && ls_optimizer_about(o->kind)->dense_differs;
    decay_rate first = rate_of(o->beta1, t, step->step, dense);
    decay_rate second = rate_of(o->beta2, t, step->step, dense);
    ls_weight_decay decay = ls_optimizer_decay(o);
    const stepper p = {.s = step,
                       .t = t,
                       .lr = ls_range__constant(o->lr, t),
                       .eps = ls_range__constant(o->eps, t),
                       .beta1 = first.beta,
                       .beta2 = second.beta,
                       .rest1 = first.rest,
                       .rest2 = second.rest,
                       .correction1 = first.correction,
                       .correction2 = second.correction,
                       .momentum = ls_range__constant(o->momentum, t),
                       .decay = ls_range__constant(decay == LS_DECAY_NONE ? 0 : o->weight_decay, t),
                       .one = ls_range__point(1),
                       .dense = dense,
                       .l2 = decay == LS_DECAY_L2,
                       .decoupled = decay == LS_DECAY_DECOUPLED,
                       .slack = 1 + (16 + 8 * (double)step->step) * ls_bound_roundoff(t),
                       .reach = reach_of(&first, &second, step->step)};
    switch (o->kind) {
    case LS_OPTIMIZER_SGD:
        step_sgd(&p, dense);
        break;
    case LS_OPTIMIZER_ADAGRAD:
        step_adagrad(&p);
        break;
    case LS_OPTIMIZER_ROWWISE_ADAGRAD:
        step_rowwise_adagrad(&p);
        break;
    case LS_OPTIMIZER_ADAM:
    case LS_OPTIMIZER_ADAMW:
        step_adam(&p, false, dense);
        break;
    case LS_OPTIMIZER_PARTIAL_ROWWISE_ADAM:
        step_adam(&p, true, false);
        break;
    case LS_OPTIMIZER_LAMB:
    case LS_OPTIMIZER_PARTIAL_ROWWISE_LAMB:
        step_lamb(&p, o->kind == LS_OPTIMIZER_PARTIAL_ROWWISE_LAMB);
        break;
    case LS_OPTIMIZER_LARS_SGD:
        step_lars(&p);
        break;
    case LS_OPTIMIZER_KIND_COUNT:
        LS_ASSERT(false);
    }
}
