// Memory: allocation, by an allocator of the caller's where a world has one (so that what tensors
// and modules take on behalf of a rank is that rank's, faults and all); an arena for everything
// that lives as long as one run; and size arithmetic that reports overflow instead of wrapping.
#ifndef LS_BASE_MEMORY_H
#define LS_BASE_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

// An allocator. alloc returns zeroed memory aligned to at least 64 bytes, or NULL; size >= 1.
typedef struct ls_allocator {
    void *data;
    void *(*alloc)(void *data, size_t size);
    void (*free)(void *data, void *pointer, size_t size);
} ls_allocator;

// The process-wide default: aligned calloc and free. Borrowed, immutable.
const ls_allocator *ls_allocator_default(void);

// Allocates count * size zeroed bytes (at least one) into *out; fails with LS_ERR_OVERFLOW or
// LS_ERR_MEMORY. NULL allocator: the default one. The caller owns *out and frees it with the same
// allocator and sizes.
LS_API_BACKENDS int ls_alloc(void **out, const ls_allocator *allocator, size_t count, size_t size);
LS_API_BACKENDS void ls_free(const ls_allocator *allocator, void *pointer, size_t count,
                             size_t size);

// *out = a * b or a + b; LS_ERR_OVERFLOW when it does not fit.
LS_API_BACKENDS int ls_size_mul(size_t *out, size_t a, size_t b);
LS_API_BACKENDS int ls_size_add(size_t *out, size_t a, size_t b);

// An arena: allocations live until the arena is destroyed or reset. Not thread-safe.
typedef struct ls_arena ls_arena;
LS_API int ls_arena_create(ls_arena **out, const ls_allocator *allocator);
LS_API void ls_arena_free(ls_arena *arena);  // NULL is allowed

// Zeroed, 64-byte aligned memory for count elements of size bytes, or NULL with the error set.
LS_API void *ls_arena_alloc(ls_arena *arena, size_t count, size_t size);
// A copy of `bytes` bytes (strings: with the terminating 0 that ls_arena_strndup adds).
void *ls_arena_copy(ls_arena *arena, const void *source, size_t bytes);
LS_API_BACKENDS char *ls_arena_strdup(ls_arena *arena, const char *text);
char *ls_arena_strndup(ls_arena *arena, const char *text, size_t length);
char *ls_arena_printf(ls_arena *arena, const char *format, ...) LS_PRINTF(2, 3);
size_t ls_arena_bytes(const ls_arena *arena);  // bytes held, for reports
// Whether an allocation in it failed since it was made: what was put together of strings and arrays
// in it then lacks some. ls_arena_fail says so of memory elsewhere that was to go into it.
bool ls_arena_failed(const ls_arena *arena);
void ls_arena_fail(ls_arena *arena);

#ifdef __cplusplus
}
#endif
#endif
