// Random numbers as a pure function: Philox4x32-10 (Salmon et al., SC 2011), and the one rule by
// which everything random in lockstep is drawn: from (seed, stream, rank, index), never from state.
#pragma once

#include <stdint.h>

#include "base/status.h"

// out [4] = Philox4x32-10 of counter [4] under key [2].
void ls_philox4x32(uint32_t out[4], const uint32_t counter[4], const uint32_t key[2]);

// 64 random bits for element `index` of stream `stream` (a call, an operation, a tensor) of `rank`.
uint64_t ls_random_bits(uint64_t seed, uint32_t stream, uint32_t rank, uint64_t index);
// Uniform in [0, 1), 53 bits.
double ls_random_uniform(uint64_t seed, uint32_t stream, uint32_t rank, uint64_t index);
// Standard normal (Box-Muller on one Philox block).
double ls_random_normal(uint64_t seed, uint32_t stream, uint32_t rank, uint64_t index);
// Uniform integer in [0, bound), bound >= 1, without modulo bias beyond 2^-64.
LS_API_BACKENDS uint64_t ls_random_below(uint64_t bound, uint64_t seed, uint32_t stream,
                                         uint32_t rank, uint64_t index);
// A stream number from a name ("weights/user"), so that streams need no registry.
uint32_t ls_random_stream(const char *name);
