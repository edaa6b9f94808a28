// Numbers of the field one by one, and the kernels of scenarios whose elements they are.
#include <math.h>
#include <string.h>

#include "kernels/field.h"

#define P            ((uint64_t)LS_FIELD_PRIME)
#define DENOMINATORS 4096        // of the fractions that constants are taken for
#define ROOTS_MAX    (1u << 16)  // below, squares have their root

uint32_t ls_field_plus(uint32_t a, uint32_t b) {
    return (uint32_t)(((uint64_t)a + b) % P);
}

uint32_t ls_field_minus(uint32_t a, uint32_t b) {
    return (uint32_t)(((uint64_t)a + P - b % P) % P);
}

uint32_t ls_field_times(uint32_t a, uint32_t b) {
    return (uint32_t)((uint64_t)a * b % P);
}

uint32_t ls_field_power(uint32_t a, uint64_t exponent) {
    uint32_t result = 1;
    for (; exponent > 0; exponent /= 2, a = ls_field_times(a, a)) {
        result = exponent % 2 == 1 ? ls_field_times(result, a) : result;
    }
    return result;
}

uint32_t ls_field_over(uint32_t a, uint32_t b) {
    return ls_field_times(a, ls_field_power(b, P - 2));
}

static uint32_t of_whole(double value) {
    double rest = fmod(value, (double)P);
    return (uint32_t)(rest < 0 ? rest + (double)P : rest) % (uint32_t)P;
}

uint32_t ls_field_of(double value) {
    if (!isfinite(value)) {
        return 0;
    }
    if (value == trunc(value)) {
        return of_whole(value);
    }
    // A constant may come rounded to f32 on one way and not on another.
    float rounded = (float)value;
    for (int d = 2; d <= DENOMINATORS; d++) {
        double n = nearbyint(value * d);
        if ((float)(n / d) == rounded && n != 0) {
            return ls_field_over(of_whole(n), (uint32_t)d);
        }
    }
    for (double d = 1e4; d <= 1e12; d *= 10) {
        double n = nearbyint(value * d);
        if ((float)(n / d) == rounded && n != 0) {
            return ls_field_over(of_whole(n), of_whole(d));
        }
    }
    int exponent;
    double whole = ldexp(frexp((double)rounded, &exponent), 24);
    uint32_t two = ls_field_power(2, (uint64_t)(exponent > 24 ? exponent - 24 : 24 - exponent));
    return exponent > 24 ? ls_field_times(of_whole(whole), two)
                         : ls_field_over(of_whole(whole), two);
}

uint32_t ls_field_root(uint32_t a, uint64_t which) {
    uint32_t root = a < ROOTS_MAX ? (uint32_t)lround(sqrt((double)a)) : 0;
    if (root * root == a) {
        return root;
    }
    int32_t out, in = (int32_t)a;
    ls_field_hash(&out, &in, 1, UINT64_C(0x9E3779B97F4A7C15) * (which + 1));
    return (uint32_t)out;
}

double ls_field_sum_f64(double a, double b) {
    return (double)ls_field_plus(ls_field_of(a), ls_field_of(b));
}

double ls_field_product_f64(double a, double b) {
    return (double)ls_field_times(ls_field_of(a), ls_field_of(b));
}

double ls_field_quotient_f64(double a, double b) {
    return (double)ls_field_over(ls_field_of(a), ls_field_of(b));
}
