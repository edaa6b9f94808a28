// Option structs that outlive a version: each begins with its size, so that a program that was
// compiled with an older header runs with a newer library, which adds members at the end.
#ifndef LS_BASE_OPTIONS_H
#define LS_BASE_OPTIONS_H

#include <stddef.h>

#include "base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

// Options of `type` with their size and the members that follow, all others zero:
// ls_spmd_options options = LS_OPTIONS(ls_spmd_options, .ranks = 4);
#define LS_OPTIONS(type, ...)                                                                      \
    { .size = sizeof(type), __VA_ARGS__ }

// Copies the option struct `given` into own [own_size bytes]. Members that are beyond the size of
// `given` become zero; a size of 0 stands for own_size. LS_ERR_UNSUPPORTED: `given` sets a member
// that this library does not have.
LS_API_BACKENDS int ls_options_take(void *own, size_t own_size, const void *given);

#ifdef __cplusplus
}
#endif
#endif
