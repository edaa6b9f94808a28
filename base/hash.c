// A hash of bytes. See hash.h.
#include "base/hash.h"

#include <string.h>

#define PRIME UINT64_C(1099511628211)

uint64_t ls_hash(uint64_t hash, const void *data, size_t bytes) {
    const unsigned char *at = data;
    for (; bytes >= 8; bytes -= 8, at += 8) {
        uint64_t word;
        memcpy(&word, at, sizeof word);
        hash = (hash ^ word) * PRIME;
        hash ^= hash >> 29;
    }
    for (; bytes > 0; bytes--, at++) {
        hash = (hash ^ *at) * PRIME;
    }
    return hash;
}
