// Numbers of many magnitudes from (seed, rank, index). Recorded results of collectives use them, so
// that they need not store their inputs.
#include <string.h>

#include "kernels/kernels.h"
#include "runner/scenario/numbers.h"

static uint64_t splitmix64(uint64_t z) {
    z += 0x9E3779B97F4A7C15u;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

// ((h >> 40) - 2^23) 2^-23 2^((h & 7) - 4)
static double float_input(uint64_t h) {
    double whole = (double)((int64_t)(h >> 40) - ((int64_t)1 << 23));
    return whole * (double)(1u << (h & 7)) * 0x1p-27;
}

// Any finite f8 except large ones of e4m3, so that sums rarely saturate.
static uint8_t f8_input(ls_dtype dtype, uint64_t h) {
    uint8_t bits = (uint8_t)(h >> 32);
    if (dtype == LS_F8E4M3) {
        bits = (bits & 0x7f) == 0x7f ? bits ^ 1 : bits;
        return (uint8_t)((bits & 0x80) | (bits & 0x7f) % 0x60);
    }
    return (bits & 0x7f) >= 0x7c ? bits & 0x8f : bits;
}

void ls_numbers__splitmix(void *out, ls_dtype dtype, uint64_t seed, uint32_t rank, uint64_t first,
                          size_t count) {
    uint64_t base = seed * 0x9E3779B97F4A7C15u + ((uint64_t)rank << 40) + first;
    size_t bytes = ls_dtype_bytes(dtype);
    bool is_float = ls_dtype_is_float(dtype);
    unsigned char *to = out;
    for (size_t i = 0; i < count; i++, to += bytes) {
        uint64_t h = splitmix64(base + i);
        double value = 0.0;
        if (bytes == 1 && is_float) {
            *to = f8_input(dtype, h);
            continue;
        }
        if (is_float) {
            value = float_input(h);
            value = dtype == LS_F64 ? value : (double)(float)value;
        } else {
            int32_t whole = (int32_t)(uint32_t)(h >> 32) % 1000;
            value = (double)(whole < 0 ? whole + 1000 : whole);
        }
        ls_element_from_f64(to, dtype, value);
    }
}
