// Reduce, the plain reference: element by element, number by number. Integers are folded in 64 bits
// and cut to the type at the end; narrow floats in double, rounded after every step.
#include <math.h>
#include <string.h>

#include "kernels/cpu/reference.h"
#include "kernels/field.h"
#include "kernels/kernels.h"

// The element as a 64-bit integer, sign-extended where the type has a sign.
static uint64_t load_integer(const void *in, ls_dtype dtype, size_t index) {
    size_t bytes = ls_dtype_bytes(dtype);
    uint64_t value = 0;
    for (size_t i = 0; i < bytes; i++) {
        value |= (uint64_t)((const unsigned char *)in)[index * bytes + i] << (8 * i);
    }
    uint64_t top = (uint64_t)1 << (8 * bytes - 1);
    if (ls_dtype_is_signed(dtype) && (value & top) != 0) {
        value |= ~(top | (top - 1));
    }
    return value;
}

static void store_integer(void *out, ls_dtype dtype, size_t index, uint64_t value) {
    size_t bytes = ls_dtype_bytes(dtype);
    for (size_t i = 0; i < bytes; i++) {
        ((unsigned char *)out)[index * bytes + i] = (unsigned char)(value >> (8 * i));
    }
}

static uint64_t step_integer(uint64_t a, uint64_t b, ls_op op, bool is_signed) {
    bool less = is_signed ? (int64_t)a < (int64_t)b : a < b;
    switch (op) {
    case LS_PROD:
        return a * b;
    case LS_MAX:
        return less ? b : a;
    case LS_MIN:
        return less ? a : b;
    case LS_BAND:
        return a & b;
    case LS_BOR:
        return a | b;
    case LS_BXOR:
        return a ^ b;
    default:
        return a + b;
    }
}

static void reduce_integer(void *out, const void *const *in, size_t in_count, ls_dtype dtype,
                           ls_op op, const double *premul, size_t index) {
    bool is_signed = ls_dtype_is_signed(dtype);
    uint64_t sum = 0;
    for (size_t k = 0; k < in_count; k++) {
        uint64_t value = load_integer(in[k], dtype, index);
        if (premul != NULL) {
            uint64_t factor = 0;
            ls_kernel__reference_store(&factor, dtype, 0, (long double)premul[k]);
            value *= load_integer(&factor, dtype, 0);
        }
        sum = k == 0 ? value : step_integer(sum, value, op, is_signed);
    }
    if (op == LS_AVG) {
        store_integer(out, dtype, index, sum);  // wraps to the type before the division
        sum = load_integer(out, dtype, index);
        sum = is_signed ? (uint64_t)((int64_t)sum / (int64_t)in_count) : sum / in_count;
    }
    store_integer(out, dtype, index, sum);
}

static bool loses(double a, double b, ls_op op) {
    if (isnan(a) || isnan(b)) {
        return isnan(a) && !isnan(b);
    }
    if (a == b) {
        return op == LS_MAX ? signbit(a) && !signbit(b) : !signbit(a) && signbit(b);
    }
    return op == LS_MAX ? a < b : a > b;
}

// value rounded to dtype, f8 by way of f16.
static double rounded(double value, ls_dtype dtype) {
    uint64_t bits = 0;
    if (ls_dtype_bytes(dtype) == 1) {
        ls_kernel__reference_store(&bits, LS_F16, 0, (long double)value);
        value = (double)ls_kernel__reference_load(&bits, LS_F16, 0);
    }
    ls_kernel__reference_store(&bits, dtype, 0, (long double)value);
    return (double)ls_kernel__reference_load(&bits, dtype, 0);
}

static double step_float(double a, double b, ls_dtype dtype, ls_op op) {
    if (op == LS_MAX || op == LS_MIN) {
        return rounded(loses(a, b, op) ? b : a, dtype);
    }
    if (dtype == LS_F32) {
        float left = (float)a;
        float right = (float)b;
        return (double)(op == LS_PROD ? left * right : left + right);
    }
    return rounded(op == LS_PROD ? a * b : a + b, dtype);
}

static void reduce_float(void *out, const void *const *in, size_t in_count, ls_dtype dtype,
                         ls_op op, const double *premul, size_t index) {
    if (in_count == 1 && op != LS_AVG && op != LS_PREMUL_SUM) {
        size_t bytes = ls_dtype_bytes(dtype);  // no step, no rounding: the bits stay
        memcpy((char *)out + index * bytes, (const char *)in[0] + index * bytes, bytes);
        return;
    }
    double sum = 0;
    for (size_t k = 0; k < in_count; k++) {
        double value = (double)ls_kernel__reference_load(in[k], dtype, index);
        if (premul != NULL) {
            uint64_t factor = 0;
            ls_kernel__reference_store(&factor, dtype, 0, (long double)premul[k]);
            double number = (double)ls_kernel__reference_load(&factor, dtype, 0);
            value = step_float(value, number, dtype, LS_PROD);
        }
        sum = k == 0 ? value : step_float(sum, value, dtype, op);
    }
    if (op == LS_AVG) {
        sum /= (double)in_count;  // f32 and narrower: rounded again below, as good as once
    }
    ls_kernel__reference_store(out, dtype, index, (long double)sum);
}

static void reduce_field(uint32_t *out, const void *const *in, size_t in_count, ls_op op,
                         const double *premul, size_t i) {
    uint64_t value = op == LS_PROD ? 1 : 0;
    for (size_t k = 0; k < in_count; k++) {
        uint64_t term = ((const uint32_t *)in[k])[i];
        term = premul != NULL ? term * ls_field_of(premul[k]) % LS_FIELD_PRIME : term;
        value = (op == LS_PROD ? value * term : value + term) % LS_FIELD_PRIME;
    }
    out[i] = op == LS_AVG ? ls_field_over((uint32_t)value, (uint32_t)in_count) : (uint32_t)value;
}

void ls_kernel_reduce_reference(void *out, const void *const *in, size_t in_count, ls_dtype dtype,
                                ls_op op, const double *premul, size_t count) {
    LS_ASSERT(in_count >= 1 && ls_op_supports(op, dtype));
    LS_ASSERT((premul != NULL) == (op == LS_PREMUL_SUM));
    for (size_t i = 0; i < count; i++) {
        if (dtype == LS_FIELD) {
            reduce_field(out, in, in_count, op, premul, i);
        } else if (ls_dtype_is_float(dtype)) {
            reduce_float(out, in, in_count, dtype, op, premul, i);
        } else {
            reduce_integer(out, in, in_count, dtype, op, premul, i);
        }
    }
}
