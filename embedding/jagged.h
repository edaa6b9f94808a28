// Jagged inputs: bags of ids of varying length, for one feature (ls_jagged, a view) and for several
// (ls_keyed_jagged, owning), as one rank's batch holds them.
#ifndef LS_EMBEDDING_JAGGED_H
#define LS_EMBEDDING_JAGGED_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/base.h"

#ifdef __cplusplus
extern "C" {
#endif

#define LS_JAGGED_KEYS_MAX   16384               // features of one input
#define LS_JAGGED_VALUES_MAX (INT64_C(1) << 40)  // ids of one input

// One feature's bags. Everything is borrowed.
typedef struct ls_jagged {
    int64_t batch;           // bags
    const int64_t *lengths;  // [batch]
    const int64_t *offsets;  // [batch + 1]; bag b is [offsets[b], offsets[b + 1]) of the *input*,
                             // that is, offsets[b] - offsets[0] of ids and weights
    const int64_t *ids;      // [offsets[batch] - offsets[0]]
    const float *weights;    // likewise, or NULL
    const int64_t
        *inverse_indices;  // [samples] the bag of each sample, or NULL: sample b has bag b
    int64_t samples;       // batch where inverse_indices is NULL
} ls_jagged;

// The ids of all samples: of a bag that two of them take, twice.
int64_t ls_jagged_sample_ids(const ls_jagged *jagged);

// Several features' bags of one rank, feature-major: all bags of the first feature, then all of the
// second. Plain inputs have a bag for each sample and feature. Those with a batch size per feature
// (TorchRec's variable_stride_per_key) have as many as the feature has different ones, and
// inverse_indices say which of them each sample takes. Read-only to its users.
typedef struct ls_keyed_jagged {
    int rank;                        // owner of the batch, for messages
    int key_count;                   // features
    const char *const *keys;         // [key_count], distinct
    int64_t batch;                   // samples, the same for every feature; ranks may differ
    const int64_t *starts;           // [key_count + 1] bags before each feature; plain: k * batch
    const int64_t *lengths;          // [starts[key_count]]
    const int64_t *offsets;          // [starts[key_count] + 1]
    const int64_t *values;           // [value_count] ids
    const float *weights;            // [value_count] or NULL
    int64_t value_count;             // = offsets[starts[key_count]]
    const int64_t *inverse_indices;  // [key_count, batch] bags of the feature; NULL: plain
} ls_keyed_jagged;

// A copy of the given arrays, checked: keys distinct and not empty; lengths [key_count, batch]
// not negative, their sum equal to value_count. weights may be NULL. LS_ERR_INVALID names rank,
// feature and sample. The caller frees it.
LS_API int ls_keyed_jagged_create(ls_keyed_jagged **out, int rank, const char *const *keys,
                                  int key_count, int64_t batch, const int64_t *lengths,
                                  const int64_t *values, int64_t value_count, const float *weights);
// The same with a batch size per feature: feature k has strides[k] bags (not negative), so that
// lengths has sum of strides, and sample b takes bag inverse_indices[k, b] of it (in range).
LS_API int ls_keyed_jagged_create_variable(ls_keyed_jagged **out, int rank, const char *const *keys,
                                           int key_count, const int64_t *strides, int64_t batch,
                                           const int64_t *inverse_indices, const int64_t *lengths,
                                           const int64_t *values, int64_t value_count,
                                           const float *weights);
// The first again from torch's form: offsets [key_count * batch + 1] (`include_last`) or
// [key_count * batch] (the last bag then ends at value_count). Ascending from 0.
LS_API int ls_keyed_jagged_from_offsets(ls_keyed_jagged **out, int rank, const char *const *keys,
                                        int key_count, int64_t batch, const int64_t *offsets,
                                        bool include_last, const int64_t *values,
                                        int64_t value_count, const float *weights);
LS_API void ls_keyed_jagged_free(ls_keyed_jagged *jagged);  // NULL is allowed

// Index of a feature; LS_ERR_NOT_FOUND names rank, feature and the nearest key.
int ls_keyed_jagged_find(int *out, const ls_keyed_jagged *jagged, const char *key);
// A view of feature `key_index` (asserted to exist).
LS_API ls_jagged ls_keyed_jagged_feature(const ls_keyed_jagged *jagged, int key_index);

// Prints each feature's bags in brackets, an id's weight after an @, and the samples' bags where
// the batch has a size per feature; at most `ids_max` ids of a feature. LS_ERR_IO.
int ls_keyed_jagged_print(FILE *stream, const ls_keyed_jagged *jagged, int64_t ids_max);

// ---- Made of others -----------------------------------------------------------------------------
// Each function below makes a new input, which the caller frees, and does not change its sources.
// Errors name rank, feature and sample if there is one.

// One bag, borrowed.
typedef struct ls_jagged_bag {
    const int64_t *ids;    // [count]
    const float *weights;  // [count], or NULL where the input has none
    int64_t count;
} ls_jagged_bag;

// From a list for each bag: bags [key_count, batch]. weighted: each bag with ids has weights.
LS_API int ls_keyed_jagged_from_lists(ls_keyed_jagged **out, int rank, const char *const *keys,
                                      int key_count, int64_t batch, const ls_jagged_bag *bags,
                                      bool weighted);
// From bags padded to the same length: of ids [key_count, batch, width] and weights (likewise, or
// NULL) the first lengths [key_count, batch] of each bag count; none is above width.
LS_API int ls_keyed_jagged_from_padded(ls_keyed_jagged **out, int rank, const char *const *keys,
                                       int key_count, int64_t batch, int64_t width,
                                       const int64_t *lengths, const int64_t *ids,
                                       const float *weights);
// out [batch, width]: each bag's first ids, or weights, then `padding`. LS_ERR_INVALID: width is
// negative, or there are no weights.
LS_API int ls_jagged_ids_to_padded(int64_t *out, const ls_jagged *jagged, int64_t width,
                                   int64_t padding);
LS_API int ls_jagged_weights_to_padded(float *out, const ls_jagged *jagged, int64_t width,
                                       float padding);

// Features order[0], order[1], ... of `jagged`: all of them or some, none twice.
LS_API int ls_keyed_jagged_permute(ls_keyed_jagged **out, const ls_keyed_jagged *jagged,
                                   const int *order, int order_count);
// outs [count]: the first sizes[0] features, the next sizes[1], ...; sizes add up to key_count.
// On an error all of outs are NULL.
LS_API int ls_keyed_jagged_split(ls_keyed_jagged **outs, const ls_keyed_jagged *jagged,
                                 const int *sizes, int count);
// All features of parts [count >= 1], one after the other: of one rank and one batch, with
// weights all or none, with a batch size per feature all or none, no feature twice.
LS_API int ls_keyed_jagged_concat(ls_keyed_jagged **out, const ls_keyed_jagged *const *parts,
                                  int count);

// ---- Keyed tensors ------------------------------------------------------------------------------
// What a lookup gives: columns of several keys side by side. Read-only to its users.
typedef struct ls_keyed_tensor {
    int key_count;
    const char *const *keys;  // [key_count], distinct
    const int64_t *dims;      // [key_count] columns of each
    const int64_t *starts;    // [key_count + 1]: where they begin; the last is the width
    int64_t batch;            // samples
    const float *values;      // [batch, starts[key_count]]
} ls_keyed_tensor;

// A copy of the given arrays, checked: keys distinct and not empty, dims not negative. values
// [batch, sum of dims]. The caller frees it.
LS_API int ls_keyed_tensor_create(ls_keyed_tensor **out, const char *const *keys,
                                  const int64_t *dims, int key_count, int64_t batch,
                                  const float *values);
LS_API void ls_keyed_tensor_free(ls_keyed_tensor *tensor);  // NULL is allowed

// One group of keys, borrowed.
typedef struct ls_key_group {
    const char *const *keys;  // [count], distinct
    int count;
} ls_key_group;

// outs [group_count]: outs[g] has the columns of the keys of groups[g], in that order, from
// whichever of tensors [tensor_count] (all of one batch) has the key. A key may be in several
// groups, and need be in none. LS_ERR_NOT_FOUND: no tensor has it; LS_ERR_INVALID: two have. On an
// error all of outs are NULL.
LS_API int ls_keyed_tensor_regroup(ls_keyed_tensor **outs, const ls_keyed_tensor *const *tensors,
                                   int tensor_count, const ls_key_group *groups, int group_count);

#ifdef __cplusplus
}
#endif
#endif
