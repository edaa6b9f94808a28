// One step of an optimizer, the plain reference: every element computed in double and rounded to T
// after each operation, which is the same as computing in T (double has more than twice float's
// bits); an operation that is not rounded is one that the formula takes in double.
#include <math.h>

#include "base/random.h"
#include "kernels/cpu/reference.h"
#include "kernels/training.h"

// A row and the optimizer, everything of T.
typedef struct {
    const ls_optimizer *o;
    const ls_row_update *u;
    bool wide;  // T is f64
    bool l2;
    bool decoupled;
    double lr;
    double eps;
    double beta1;
    double beta2;
    double momentum;
    double weight_decay;
    double correction1;  // 1 - beta1^step
    double correction2;
} stepper;

static double r(const stepper *s, double x) {
    return s->wide ? x : (double)(float)x;
}

static double fused(const stepper *s, double a, double b, double c) {
    return s->wide ? fma(a, b, c) : (double)fmaf((float)a, (float)b, (float)c);
}

static double load(const stepper *s, const void *in, size_t index) {
    return s->wide ? ((const double *)in)[index] : (double)((const float *)in)[index];
}

static void store(const stepper *s, void *out, size_t index, double value) {
    if (s->wide) {
        ((double *)out)[index] = value;
    } else {
        ((float *)out)[index] = (float)value;
    }
}

// The gradient of row i of the update, column c.
static double gradient(const stepper *s, size_t i, size_t c) {
    double g = load(s, s->u->gradients, i * s->u->dim + c);
    return s->u->factor == 1 ? g : r(s, g * r(s, s->u->factor));
}

// ---- Rounding -----------------------------------------------------------------------------------
// The 32 random bits of element (row, column) of the whole table.
static uint32_t random_bits(const stepper *s, int64_t row, int64_t column) {
    uint64_t step = (uint64_t)s->u->step;
    uint32_t key[2] = {(uint32_t)s->o->seed, (uint32_t)(s->o->seed >> 32)};
    uint32_t counter[4] = {(uint32_t)s->u->key, (uint32_t)(s->u->key >> 32), (uint32_t)step,
                           (uint32_t)(step >> 32)};
    uint32_t out[4];
    ls_philox4x32(out, counter, key);
    uint32_t second_key[2] = {out[0], out[1]};
    uint64_t block = (uint64_t)column / 4;
    uint32_t second[4] = {(uint32_t)row, (uint32_t)((uint64_t)row >> 32), (uint32_t)block,
                          (uint32_t)(block >> 32)};
    ls_philox4x32(out, second, second_key);
    return out[column % 4];
}

// |value| over the format's step there is a whole number and a fraction, the chance of going up.
// Only the bits that the fraction has are compared, at most 32 of them.
static double round_stochastically(const stepper *s, double value, uint32_t random) {
    ls_float_format format = ls_dtype_format(s->u->dtype);
    double magnitude = fabs(value);
    if (!isfinite(value) || magnitude >= format.max || magnitude == 0) {
        return value;  // the store rounds it
    }
    int exponent = 0;
    frexp(magnitude, &exponent);
    int float_step = exponent - 24 > -149 ? exponent - 24 : -149;
    int step = exponent - format.precision;
    step = step > format.subnormal_exponent ? step : format.subnormal_exponent;
    double whole = floor(ldexp(magnitude, -step));
    double rest = magnitude - ldexp(whole, step);
    int bits = step - float_step;  // of the rest
    if (bits <= 32 && bits > 0) {
        double drawn = bits == 32 ? (double)random : (double)(random & ((1u << bits) - 1u));
        whole += drawn + ldexp(rest, -float_step) >= ldexp(1, bits) ? 1 : 0;
    }
    return copysign(ldexp(whole, step), value);
}

static double weight(const stepper *s, size_t row, size_t c) {
    return (double)ls_kernel__reference_load(s->u->weights, s->u->dtype, row * s->u->dim + c);
}

static void set_weight(const stepper *s, size_t row, size_t c, double value) {
    if (s->o->stochastic_rounding && (s->u->dtype == LS_F16 || s->u->dtype == LS_BF16)) {
        value = round_stochastically(
            s, value,
            random_bits(s, s->u->first_row + (int64_t)row, s->u->first_column + (int64_t)c));
    }
    ls_kernel__reference_store(s->u->weights, s->u->dtype, row * s->u->dim + c, (long double)value);
}

// ---- Sums over a row ----------------------------------------------------------------------------
typedef enum { OF_GRADIENT, OF_DECAYED_GRADIENT, OF_WEIGHT, OF_RATIO } row_value;

static double ratio(const stepper *s, size_t i, size_t row, size_t c);

static double sum_of_squares(const stepper *s, size_t i, size_t row, row_value what) {
    double part[8] = {0};
    for (size_t c = 0; c < s->u->dim; c++) {
        double x;
        if (what == OF_WEIGHT) {
            x = weight(s, row, c);
        } else {
            x = what == OF_RATIO ? ratio(s, i, row, c) : gradient(s, i, c);
        }
        if (what == OF_DECAYED_GRADIENT) {
            x = r(s, x + r(s, s->weight_decay * weight(s, row, c)));
        }
        part[c % 8] = r(s, part[c % 8] + r(s, x * x));
    }
    double a = r(s, r(s, part[0] + part[1]) + r(s, part[2] + part[3]));
    double b = r(s, r(s, part[4] + part[5]) + r(s, part[6] + part[7]));
    return r(s, a + b);
}

static double mean_square(const stepper *s, size_t i, size_t row, row_value what) {
    return r(s, sum_of_squares(s, i, row, what) / r(s, (double)s->u->dim));
}

// ---- The fused formulas -------------------------------------------------------------------------
static void step_sgd(const stepper *s, size_t i, size_t row, size_t c) {
    set_weight(s, row, c, r(s, weight(s, row, c) - r(s, s->lr * gradient(s, i, c))));
}

static void step_adagrad(const stepper *s, size_t i, size_t row, size_t c) {
    size_t at = row * s->u->dim + c;
    double g = gradient(s, i, c);
    double m = r(s, load(s, s->u->states[0], at) + r(s, g * g));
    store(s, s->u->states[0], at, m);
    double move = r(s, s->lr * g) / (sqrt(m) + s->eps);
    set_weight(s, row, c, r(s, weight(s, row, c) - move));
}

static void step_rowwise_adagrad(const stepper *s, size_t i, size_t row) {
    double mean = mean_square(s, i, row, s->l2 ? OF_DECAYED_GRADIENT : OF_GRADIENT);
    double m = r(s, load(s, s->u->states[0], row) + mean);
    store(s, s->u->states[0], row, m);
    double k = r(s, s->lr / r(s, r(s, sqrt(m)) + s->eps));
    double correction;
    if (s->l2) {
        correction = r(s, 1 - r(s, k * s->weight_decay));
    } else {
        correction = s->decoupled ? r(s, 1 - r(s, s->lr * s->weight_decay)) : 1;
    }
    for (size_t c = 0; c < s->u->dim; c++) {
        double w = r(s, correction * weight(s, row, c));
        set_weight(s, row, c, r(s, w - r(s, k * gradient(s, i, c))));
    }
}

// The first moment and, per element, the second: of adam, and of partial_rowwise_adam.
static void step_moments(const stepper *s, size_t i, size_t row, size_t c, bool second) {
    size_t at = row * s->u->dim + c;
    double g = gradient(s, i, c);
    double m = r(s, load(s, s->u->states[0], at) * s->beta1);
    store(s, s->u->states[0], at, fused(s, g, r(s, 1 - s->beta1), m));
    if (second) {
        double v = r(s, load(s, s->u->states[1], at) * s->beta2);
        store(s, s->u->states[1], at, fused(s, r(s, g * g), r(s, 1 - s->beta2), v));
    }
}

static void adam_weight(const stepper *s, size_t row, size_t c, double v_hat) {
    double w = weight(s, row, c);
    double m_hat = load(s, s->u->states[0], row * s->u->dim + c) / s->correction1;
    double direction = m_hat / r(s, r(s, sqrt(v_hat)) + s->eps) + r(s, s->weight_decay * w);
    set_weight(s, row, c, r(s, w - s->lr * direction));
}

static void step_adam(const stepper *s, size_t i, size_t row, size_t c) {
    step_moments(s, i, row, c, true);
    double v = load(s, s->u->states[1], row * s->u->dim + c);
    adam_weight(s, row, c, r(s, v / s->correction2));
}

static void step_partial_rowwise_adam(const stepper *s, size_t i, size_t row) {
    double v = mean_square(s, i, row, OF_GRADIENT) * (1 - s->beta2) +
               r(s, load(s, s->u->states[1], row) * s->beta2);
    store(s, s->u->states[1], row, v);
    for (size_t c = 0; c < s->u->dim; c++) {
        step_moments(s, i, row, c, false);
        adam_weight(s, row, c, r(s, v / s->correction2));
    }
}

// The direction of lamb, its states being new.
static double ratio(const stepper *s, size_t i, size_t row, size_t c) {
    (void)i;
    size_t at = row * s->u->dim + c;
    bool per_row = s->o->kind == LS_OPTIMIZER_PARTIAL_ROWWISE_LAMB;
    double m_hat = load(s, s->u->states[0], at) / s->correction1;
    double v_hat = r(s, load(s, s->u->states[1], per_row ? row : at) / s->correction2);
    double divisor = r(s, r(s, sqrt(v_hat)) + s->eps);
    double moved = per_row ? m_hat * r(s, 1 / divisor) : m_hat / divisor;
    return r(s, moved + r(s, s->weight_decay * weight(s, row, c)));
}

static void step_lamb(const stepper *s, size_t i, size_t row) {
    bool per_row = s->o->kind == LS_OPTIMIZER_PARTIAL_ROWWISE_LAMB;
    if (per_row) {
        double v = r(s, s->beta2 * load(s, s->u->states[1], row)) +
                   (1 - s->beta2) * mean_square(s, i, row, OF_GRADIENT);
        store(s, s->u->states[1], row, v);
    }
    for (size_t c = 0; c < s->u->dim; c++) {
        size_t at = row * s->u->dim + c;
        double g = gradient(s, i, c);
        double m = r(s, s->beta1 * load(s, s->u->states[0], at)) + (1 - s->beta1) * g;
        store(s, s->u->states[0], at, m);
        if (!per_row) {
            double v = r(s, s->beta2 * load(s, s->u->states[1], at)) + (1 - s->beta2) * g * g;
            store(s, s->u->states[1], at, v);
        }
    }
    double weight_norm = r(s, sqrt(sum_of_squares(s, i, row, OF_WEIGHT)));
    double ratio_norm = r(s, sqrt(sum_of_squares(s, i, row, OF_RATIO)));
    double rate = r(s, -s->lr * r(s, weight_norm / ratio_norm));
    for (size_t c = 0; c < s->u->dim; c++) {
        set_weight(s, row, c, fused(s, ratio(s, i, row, c), rate, weight(s, row, c)));
    }
}

static void step_lars_sgd(const stepper *s, size_t i, size_t row) {
    double weight_norm = r(s, sqrt(sum_of_squares(s, i, row, OF_WEIGHT)));
    double gradient_norm = r(s, sqrt(sum_of_squares(s, i, row, OF_GRADIENT)));
    double above = r(s, r(s, s->lr * r(s, s->o->eta)) * weight_norm);
    double rate = r(s, above / r(s, gradient_norm + r(s, s->weight_decay * weight_norm)));
    for (size_t c = 0; c < s->u->dim; c++) {
        size_t at = row * s->u->dim + c;
        double w = weight(s, row, c);
        double g = r(s, gradient(s, i, c) + r(s, s->weight_decay * w));
        double m = r(s, r(s, s->momentum * load(s, s->u->states[0], at)) + r(s, rate * g));
        store(s, s->u->states[0], at, m);
        set_weight(s, row, c, r(s, w - m));
    }
}

// ---- torch.optim's formulas ---------------------------------------------------------------------
static void step_dense(const stepper *s, size_t i, size_t row, size_t c) {
    size_t at = row * s->u->dim + c;
    double w = weight(s, row, c);
    double g = gradient(s, i, c);
    if (s->l2) {
        g = fused(s, s->weight_decay, w, g);
    } else if (s->decoupled) {
        w = r(s, w * r(s, 1 - s->o->lr * s->o->weight_decay));
    }
    if (s->o->kind == LS_OPTIMIZER_SGD) {
        if (s->u->states[0] != NULL && s->o->momentum > 0) {
            g = r(s, r(s, s->momentum * load(s, s->u->states[0], at)) + g);
            store(s, s->u->states[0], at, g);
        }
        set_weight(s, row, c, fused(s, -s->lr, g, w));
    } else if (s->o->kind == LS_OPTIMIZER_ADAGRAD) {
        double m = fused(s, g, g, load(s, s->u->states[0], at));
        store(s, s->u->states[0], at, m);
        double divisor = r(s, r(s, sqrt(m)) + s->eps);
        set_weight(s, row, c, r(s, w + r(s, r(s, -s->lr * g) / divisor)));
    } else {
        double m = load(s, s->u->states[0], at);
        double rest = r(s, 1 - s->o->beta1);
        m = rest < 0.5 ? fused(s, rest, r(s, g - m), m) : fused(s, r(s, rest - 1), r(s, g - m), g);
        store(s, s->u->states[0], at, m);
        double v = r(s, load(s, s->u->states[1], at) * s->beta2);
        v = fused(s, r(s, r(s, 1 - s->o->beta2) * g), g, v);
        store(s, s->u->states[1], at, v);
        double divisor = r(s, r(s, r(s, sqrt(v)) / r(s, sqrt(s->correction2))) + s->eps);
        double rate = r(s, -(s->o->lr / s->correction1));
        set_weight(s, row, c, r(s, w + r(s, r(s, rate * m) / divisor)));
    }
}

typedef void (*step_row_fn)(const stepper *s, size_t i, size_t row);
typedef void (*step_element_fn)(const stepper *s, size_t i, size_t row, size_t c);

static const struct {
    step_row_fn row;
    step_element_fn element;
} steps[] = {
    [LS_OPTIMIZER_SGD] = {.element = step_sgd},
    [LS_OPTIMIZER_ADAGRAD] = {.element = step_adagrad},
    [LS_OPTIMIZER_ROWWISE_ADAGRAD] = {.row = step_rowwise_adagrad},
    [LS_OPTIMIZER_ADAM] = {.element = step_adam},
    [LS_OPTIMIZER_ADAMW] = {.element = step_adam},
    [LS_OPTIMIZER_PARTIAL_ROWWISE_ADAM] = {.row = step_partial_rowwise_adam},
    [LS_OPTIMIZER_LAMB] = {.row = step_lamb},
    [LS_OPTIMIZER_PARTIAL_ROWWISE_LAMB] = {.row = step_lamb},
    [LS_OPTIMIZER_LARS_SGD] = {.row = step_lars_sgd},
};
_Static_assert(sizeof steps / sizeof *steps == LS_OPTIMIZER_KIND_COUNT, "a kind has no formula");

void ls_kernel_update_rows_reference(const ls_optimizer *o, const ls_row_update *u) {
    stepper s = {.o = o, .u = u, .wide = u->dtype == LS_F64};
    s.l2 = ls_optimizer_decay(o) == LS_DECAY_L2;
    s.decoupled = ls_optimizer_decay(o) == LS_DECAY_DECOUPLED;
    s.lr = r(&s, o->lr);
    s.eps = r(&s, o->eps);
    s.beta1 = r(&s, o->beta1);
    s.beta2 = r(&s, o->beta2);
    s.momentum = r(&s, o->momentum);
    s.weight_decay = s.l2 || s.decoupled ? r(&s, o->weight_decay) : 0;
    bool dense = o->form == LS_OPTIMIZER_DENSE && ls_optimizer_about(o->kind)->dense_differs;
    double t = (double)u->step;
    s.correction1 = 1 - (dense ? pow(o->beta1, t) : r(&s, pow(s.beta1, t)));
    s.correction2 = 1 - (dense ? pow(o->beta2, t) : r(&s, pow(s.beta2, t)));
    for (size_t i = 0; u->dim > 0 && i < u->count; i++) {
        size_t row = u->row_ids != NULL ? (size_t)u->row_ids[i] : i;
        for (size_t c = 0; (dense || steps[o->kind].element != NULL) && c < u->dim; c++) {
            (dense ? step_dense : steps[o->kind].element)(&s, i, row, c);
        }
        if (!dense && steps[o->kind].row != NULL) {
            steps[o->kind].row(&s, i, row);
        }
    }
}
