// A hash of bytes, to tell contents apart: changed buffers, other files, other schedules. Not
// against an adversary, and kept in no file.
#ifndef LS_BASE_HASH_H
#define LS_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

#define LS_HASH_START UINT64_C(14695981039346656037)

// Goes on from `hash` (LS_HASH_START at first) with `bytes` of data. FNV-1a over words of 8 bytes,
// with a shift so that high bits reach low ones. Pieces of other sizes than multiples of 8 give
// other hashes than the whole.
uint64_t ls_hash(uint64_t hash, const void *data, size_t bytes);

#endif
