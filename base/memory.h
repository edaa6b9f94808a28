// Memory: allocation that is zeroed and aligned; an arena for everything that lives as long as one
// run; and size arithmetic that reports overflow instead of wrapping.
#ifndef LS_BASE_MEMORY_H
#define LS_BASE_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

// Allocates count * size zeroed bytes (at least one), aligned to 64, into *out; fails with
// LS_ERR_OVERFLOW or LS_ERR_MEMORY. The caller owns *out and frees it with the same count and size.
LS_API_BACKENDS int ls_alloc(void **out, size_t count, size_t size);
LS_API_BACKENDS void ls_free(void *pointer, size_t count, size_t size);
// Refuses from now on what is larger than this in one piece, as if there were no such memory: what
// a damaged size asks for. To be called before threads allocate.
void ls_alloc_limit(uint64_t bytes);

// *out = a * b or a + b; LS_ERR_OVERFLOW when it does not fit.
LS_API_BACKENDS int ls_size_mul(size_t *out, size_t a, size_t b);
LS_API_BACKENDS int ls_size_add(size_t *out, size_t a, size_t b);

// *out: `bytes` bytes of addresses where no memory of a program ever is, so that code that
// touches them is seen; *next (0 at first) counts on. No two of these are next to each other.
// LS_ERR_MEMORY.
int ls_addresses_take(void **out, uintptr_t *next, size_t bytes);

// An arena: allocations live until the arena is destroyed or reset. Not thread-safe.
typedef struct ls_arena ls_arena;
LS_API int ls_arena_create(ls_arena **out);
// A zeroed object of `bytes` bytes in a new arena: *arena. NULL: no memory.
void *ls_arena_create_with(ls_arena **arena, size_t bytes);
LS_API void ls_arena_free(ls_arena *arena);  // NULL is allowed
// `arena` takes the memory of `from` and reuses it: its contents are lost, and `from` is empty.
void ls_arena_adopt(ls_arena *arena, ls_arena *from);
// Declares that nearly all memory from now on will be written: large pages are used. Otherwise
// unwritten memory, such as the zeroes of thousands of ranks, takes none.
void ls_arena_will_be_full(ls_arena *arena);

// Zeroed, 64-byte aligned memory for count elements of size bytes, or NULL with the error set.
LS_API_BACKENDS void *ls_arena_alloc(ls_arena *arena, size_t count, size_t size);
// The same, not zeroed: for what is written whole before it is read.
void *ls_arena_alloc_raw(ls_arena *arena, size_t count, size_t size);
// A copy of `bytes` bytes (strings: with the terminating 0 that ls_arena_strndup adds).
void *ls_arena_copy(ls_arena *arena, const void *source, size_t bytes);
LS_API_BACKENDS char *ls_arena_strdup(ls_arena *arena, const char *text);
char *ls_arena_strndup(ls_arena *arena, const char *text, size_t length);
// Of an array that grows by one element at a time: `array` while it has room for one more than
// `count`, else a copy with twice the *room. NULL: no memory; array and *room are as they were.
LS_API_BACKENDS void *ls_arena_grow(ls_arena *arena, void *array, int count, int *room,
                                    size_t size);
char *ls_arena_printf(ls_arena *arena, const char *format, ...) LS_PRINTF(2, 3);
size_t ls_arena_bytes(const ls_arena *arena);  // bytes held, for reports
// Whether an allocation in it failed since it was created: strings and arrays in it may then be
// incomplete. ls_arena_fail records the same for memory outside of it.
bool ls_arena_failed(const ls_arena *arena);
void ls_arena_fail(ls_arena *arena);

#ifdef __cplusplus
}
#endif
#endif
