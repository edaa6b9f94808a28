// Jagged inputs: bags of ids of varying length, for one feature (ls_jagged, a view) and for several
// (ls_keyed_jagged, owning), as one rank's batch holds them.
#ifndef LS_EMBEDDING_JAGGED_H
#define LS_EMBEDDING_JAGGED_H

#include <stdbool.h>
#include <stdint.h>

#include "base/base.h"

#ifdef __cplusplus
extern "C" {
#endif

#define LS_JAGGED_KEYS_MAX   16384               // features of one input
#define LS_JAGGED_VALUES_MAX (INT64_C(1) << 40)  // ids of one input

// One feature's bags. Everything is borrowed.
typedef struct ls_jagged {
    int64_t batch;           // samples
    const int64_t *lengths;  // [batch]
    const int64_t *offsets;  // [batch + 1]; bag b is [offsets[b], offsets[b + 1]) of the *input*,
                             // that is, offsets[b] - offsets[0] of ids and weights
    const int64_t *ids;      // [offsets[batch] - offsets[0]]
    const float *weights;    // likewise, or NULL
} ls_jagged;

// Several features' bags of one rank, feature-major: all samples of the first feature, then all of
// the second. Read-only to its users.
typedef struct ls_keyed_jagged {
    int rank;                 // whose batch it is, for messages
    int key_count;            // features
    const char *const *keys;  // [key_count], distinct
    int64_t batch;            // samples, the same for every feature; ranks may differ
    const int64_t *lengths;   // [key_count, batch]
    const int64_t *offsets;   // [key_count * batch + 1]
    const int64_t *values;    // [value_count] ids
    const float *weights;     // [value_count] or NULL
    int64_t value_count;      // = offsets[key_count * batch]
} ls_keyed_jagged;

// A copy of the given arrays, checked: keys distinct and not empty; lengths [key_count, batch]
// not negative, their sum equal to value_count. weights may be NULL. LS_ERR_INVALID names rank,
// feature and sample. The caller frees it. NULL allocator: the default one.
LS_API int ls_keyed_jagged_create(ls_keyed_jagged **out, const ls_allocator *allocator, int rank,
                                  const char *const *keys, int key_count, int64_t batch,
                                  const int64_t *lengths, const int64_t *values,
                                  int64_t value_count, const float *weights);
// The same from torch's form: offsets [key_count * batch + 1] (`include_last`) or
// [key_count * batch] (the last bag then ends at value_count). Ascending from 0.
LS_API int ls_keyed_jagged_from_offsets(ls_keyed_jagged **out, const ls_allocator *allocator,
                                        int rank, const char *const *keys, int key_count,
                                        int64_t batch, const int64_t *offsets, bool include_last,
                                        const int64_t *values, int64_t value_count,
                                        const float *weights);
LS_API void ls_keyed_jagged_free(ls_keyed_jagged *jagged);  // NULL is allowed

// Index of a feature; LS_ERR_NOT_FOUND names rank, feature and the nearest key.
LS_API int ls_keyed_jagged_find(int *out, const ls_keyed_jagged *jagged, const char *key);
// A view of feature `key_index` (asserted to exist).
LS_API ls_jagged ls_keyed_jagged_feature(const ls_keyed_jagged *jagged, int key_index);

#ifdef __cplusplus
}
#endif
#endif
