// Philox4x32-10 and the draws built on it.
#include "base/random.h"

#include <math.h>

void ls_philox4x32(uint32_t out[4], const uint32_t counter[4], const uint32_t key[2]) {
    uint32_t c[4] = {counter[0], counter[1], counter[2], counter[3]};
    uint32_t k0 = key[0];
    uint32_t k1 = key[1];
    for (int round = 0; round < 10; round++) {
        uint64_t p0 = (uint64_t)0xD2511F53u * c[0];
        uint64_t p1 = (uint64_t)0xCD9E8D57u * c[2];
        uint32_t n0 = (uint32_t)(p1 >> 32) ^ c[1] ^ k0;
        uint32_t n2 = (uint32_t)(p0 >> 32) ^ c[3] ^ k1;
        c[1] = (uint32_t)p1;
        c[3] = (uint32_t)p0;
        c[0] = n0;
        c[2] = n2;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    for (int i = 0; i < 4; i++) {
        out[i] = c[i];
    }
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
