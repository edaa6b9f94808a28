// Stochastic rounding of new weights to f16 and bf16, for the CPU's kernels and the GPU's: up with
// the chance that the part cut off has, by random bits that the element's place in its table, the
// step and the seed give. f32 values too small to reach 2^-8 of the type's smallest become 0.
#pragma once

#include <string.h>

#include "base/philox.h"
#include "kernels/training.h"

typedef struct ls_stochastic {
    uint32_t key[2];  // of the seed, the table and the step
    int precision;    // of the type
    int exponent;     // of its smallest subnormal
    float max;        // its largest finite number: from there on, to nearest
} ls_stochastic;

static inline ls_stochastic ls_stochastic__make(const ls_optimizer *o, const ls_row_update *u) {
    ls_float_format format = ls_dtype_format(u->dtype);
    uint64_t step = (uint64_t)u->step;
    uint32_t word[4] = {(uint32_t)u->key, (uint32_t)(u->key >> 32), (uint32_t)step,
                        (uint32_t)(step >> 32)};
    ls_philox__rounds(word, (uint32_t)o->seed, (uint32_t)(o->seed >> 32));
    ls_stochastic out;
    out.key[0] = word[0];
    out.key[1] = word[1];
    out.precision = format.precision;
    out.exponent = format.subnormal_exponent;
    out.max = (float)format.max;
    return out;
}

LS_BOTH static inline uint32_t ls_stochastic__bits(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

LS_BOTH static inline float ls_stochastic__value(uint32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

// The random bits of (row, column) of the whole table.
LS_BOTH static inline uint32_t ls_stochastic__draw(const ls_stochastic *s, uint64_t row,
                                                   uint64_t column) {
    uint64_t block = column / 4;
    uint32_t word[4] = {(uint32_t)row, (uint32_t)(row >> 32), (uint32_t)block,
                        (uint32_t)(block >> 32)};
    ls_philox__rounds(word, s->key[0], s->key[1]);
    return word[column % 4];
}

// A number that the type has; the store then rounds nothing, but numbers from max on.
LS_BOTH static inline float ls_stochastic__round(const ls_stochastic *s, float value,
                                                 uint32_t random) {
    uint32_t bits = ls_stochastic__bits(value);
    uint32_t a = bits & 0x7FFFFFFFu;
    if (a >= ls_stochastic__bits(s->max)) {
        return value;
    }
    int biased = (a >> 23) != 0 ? (int)(a >> 23) : 1;
    uint64_t significand = (a & 0x007FFFFFu) | ((a >> 23) != 0 ? 0x00800000u : 0u);
    int step = biased - 127 - (s->precision - 1);
    step = step > s->exponent ? step : s->exponent;
    int cut = step - (biased - 150);  // bits below the type's step
    uint64_t whole = cut > 32 ? 0 : (significand + (random & (((uint64_t)1 << cut) - 1))) >> cut;
    uint32_t unit = step >= -126 ? (uint32_t)(step + 127) << 23 : (uint32_t)1 << (step + 149);
    float magnitude = (float)whole * ls_stochastic__value(unit);
    return ls_stochastic__value(ls_stochastic__bits(magnitude) | (bits & 0x80000000u));
}
