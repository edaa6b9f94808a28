// Zipf-distributed integers by rejection-inversion. See zipf.h.
//
// Let h(x) = x^-s with integral H. A point under the hat is drawn by inverting H on the interval
// [H(3/2) - h(1), H(n + 1/2)], rounded to the nearest integer k, and kept if it is under k's bar: u
// >= H(k + 1/2) - h(k). At least about 3 of 4 are kept, for every s and n.
#include "runner/scenario/zipf.h"

#include <math.h>

#define TRIALS_MAX 256  // of which each is kept with probability above 1/2

// (e^y - 1) / y, also near 0.
static double exp_ratio(double y) {
    return fabs(y) > 1e-8 ? expm1(y) / y : 1 + y / 2 * (1 + y / 3);
}

// ln(1 + y) / y, also near 0.
static double log_ratio(double y) {
    return fabs(y) > 1e-8 ? log1p(y) / y : 1 - y / 2 + y * y / 3;
}

// H(x): (x^(1-s) - 1) / (1 - s), ln(x) for s = 1.
static double integral(double x, double s) {
    double log_x = log(x);
    return exp_ratio((1 - s) * log_x) * log_x;
}

static double inverse(double u, double s) {
    double t = u * (1 - s);
    t = t < -1 ? -1 : t;  // rounding
    return exp(log_ratio(t) * u);
}

static double density(double x, double s) {
    return exp(-s * log(x));
}

void ls_zipf_init(ls_zipf *out, double exponent, int64_t count) {
    LS_ASSERT(count >= 1 && exponent >= 0);
    out->exponent = exponent;
    out->count = count;
    out->integral_first = integral(1.5, exponent) - 1;
    out->integral_last = integral((double)count + 0.5, exponent);
    out->shortcut = 2 - inverse(integral(2.5, exponent) - density(2, exponent), exponent);
}

int64_t ls_zipf_draw(const ls_zipf *zipf, uint64_t seed, uint32_t stream, uint32_t rank,
                     uint64_t index) {
    double width = zipf->integral_first - zipf->integral_last;
    for (uint64_t trial = 0; trial < TRIALS_MAX; trial++) {
        double uniform = ls_random_uniform(seed, stream, rank, index * TRIALS_MAX + trial);
        double u = zipf->integral_last + uniform * width;
        double x = inverse(u, zipf->exponent);
        double nearest = floor(x + 0.5);
        nearest = nearest < 1 ? 1 : nearest;
        nearest = nearest > (double)zipf->count ? (double)zipf->count : nearest;
        if (nearest - x <= zipf->shortcut ||
            u >= integral(nearest + 0.5, zipf->exponent) - density(nearest, zipf->exponent)) {
            return (int64_t)nearest - 1;
        }
    }
    return 0;  // after 256 rejections, which is practically impossible
}
