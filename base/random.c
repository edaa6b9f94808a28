// Philox4x32-10 and the draws built on it.
#include "base/random.h"

#include <math.h>

#include "base/philox.h"

void ls_philox4x32(uint32_t out[4], const uint32_t counter[4], const uint32_t key[2]) {
    for (int i = 0; i < 4; i++) {
        out[i] = counter[i];
    }
    ls_philox__rounds(out, key[0], key[1]);
}

static void block(uint32_t out[4], uint64_t seed, uint32_t stream, uint32_t rank, uint64_t index) {
    const uint32_t counter[4] = {(uint32_t)index, (uint32_t)(index >> 32), rank, stream};
    const uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
    ls_philox4x32(out, counter, key);
}

uint64_t ls_random_bits(uint64_t seed, uint32_t stream, uint32_t rank, uint64_t index) {
    uint32_t word[4];
    block(word, seed, stream, rank, index);
    return ((uint64_t)word[1] << 32) | word[0];
}

double ls_random_uniform(uint64_t seed, uint32_t stream, uint32_t rank, uint64_t index) {
    return (double)(ls_random_bits(seed, stream, rank, index) >> 11) * 0x1p-53;
}

double ls_random_normal(uint64_t seed, uint32_t stream, uint32_t rank, uint64_t index) {
    uint32_t word[4];
    block(word, seed, stream, rank, index);
    uint64_t a = ((uint64_t)word[1] << 32) | word[0];
    uint64_t b = ((uint64_t)word[3] << 32) | word[2];
    double u = ((double)(a >> 11) + 0.5) * 0x1p-53;  // in (0, 1)
    double v = (double)(b >> 11) * 0x1p-53;
    return sqrt(-2.0 * log(u)) * cos(6.283185307179586476925286766559 * v);
}

uint64_t ls_random_below(uint64_t bound, uint64_t seed, uint32_t stream, uint32_t rank,
                         uint64_t index) {
    LS_ASSERT(bound >= 1);
    __extension__ typedef unsigned __int128 wide;
    return (uint64_t)(((wide)ls_random_bits(seed, stream, rank, index) * bound) >> 64);
}

uint32_t ls_random_stream(const char *name) {
    uint32_t hash = 2166136261u;  // FNV-1a
    for (const char *c = name; *c != 0; c++) {
        hash = (hash ^ (uint32_t)(unsigned char)*c) * 16777619u;
    }
    return hash;
}
