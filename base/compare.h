// Comparisons of numbers, for functions that sort by several of them.
#pragma once

#include <stdint.h>

// -1, 0 or 1: a is less than b, equal or greater.
static inline int ls_compare(int64_t a, int64_t b) {
    return (a > b) - (a < b);
}
