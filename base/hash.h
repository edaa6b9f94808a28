// A hash of bytes that distinguishes contents: changed buffers, other files, other schedules. Not
// safe against an adversary, and not stored in files.
#pragma once

#include <stddef.h>
#include <stdint.h>

#define LS_HASH_START UINT64_C(14695981039346656037)

// Continues from `hash` (LS_HASH_START at first) with `bytes` of data. FNV-1a over words of 8
// bytes, with a shift so that high bits reach low ones. Pieces whose sizes are no multiples of 8
// give other hashes than the whole.
uint64_t ls_hash(uint64_t hash, const void *data, size_t bytes);
