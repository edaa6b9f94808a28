// Zipf-distributed integers in constant time and memory, for any exponent and up to 2^53 outcomes.
#pragma once

#include <stdint.h>

#include "base/base.h"

typedef struct ls_zipf {
    double exponent;
    int64_t count;
    double integral_first, integral_last, shortcut;  // constants of the method
} ls_zipf;

// P(k) proportional to 1 / (k + 1)^exponent for k in [0, count); count >= 1, exponent >= 0.
void ls_zipf_init(ls_zipf *out, double exponent, int64_t count);
// The outcome for element `index` of stream `stream` of `rank`. By rejection-inversion (Hörmann
// and Derflinger, ACM TOMACS 6(3), 1996); each trial has a random number of its own.
int64_t ls_zipf_draw(const ls_zipf *zipf, uint64_t seed, uint32_t stream, uint32_t rank,
                     uint64_t index);
