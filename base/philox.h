// Philox4x32-10 (Salmon et al., SC 2011), inline: the one copy of it, for random.c and for a GPU.
#pragma once

#include <stdint.h>

#ifdef __CUDACC__
#define LS_BOTH __host__ __device__
#else
#define LS_BOTH
#endif

// counter [4] becomes the four random words of it under the key (k0, k1).
LS_BOTH static inline void ls_philox__rounds(uint32_t counter[4], uint32_t k0, uint32_t k1) {
    for (int round = 0; round < 10; round++) {
        uint64_t p0 = (uint64_t)0xD2511F53u * counter[0];
        uint64_t p1 = (uint64_t)0xCD9E8D57u * counter[2];
        uint32_t n0 = (uint32_t)(p1 >> 32) ^ counter[1] ^ k0;
        uint32_t n2 = (uint32_t)(p0 >> 32) ^ counter[3] ^ k1;
        counter[1] = (uint32_t)p1;
        counter[3] = (uint32_t)p0;
        counter[0] = n0;
        counter[2] = n2;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
}
