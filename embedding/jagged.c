// Jagged inputs: copying and checking what a caller hands in. Ids are not judged here: which ids
// are in range depends on the table that a feature feeds (input_dist.c).
#include "embedding/jagged.h"

#include <string.h>

// What ls_keyed_jagged points into: one allocation per array, and the allocator to give them back.
typedef struct keyed_jagged_owner {
    ls_keyed_jagged jagged;  // first, so that a pointer to it is a pointer to the owner
    const ls_allocator *allocator;
    char **keys;
    int64_t *lengths, *offsets, *values;
    float *weights;
    size_t bag_count;
} keyed_jagged_owner;

static int check_sizes(int rank, const char *const *keys, int key_count, int64_t batch,
                       int64_t value_count, size_t *bag_count) {
    if (key_count < 0 || key_count > LS_JAGGED_KEYS_MAX || batch < 0 || value_count < 0 ||
        value_count > LS_JAGGED_VALUES_MAX) {
        return LS_FAIL_RANK(
            LS_ERR_INVALID, rank,
            "input of rank %d: %d features, batch %lld, %lld ids: out of limits (at "
            "most %d features and %lld ids)",
            rank, key_count, (long long)batch, (long long)value_count, LS_JAGGED_KEYS_MAX,
            (long long)LS_JAGGED_VALUES_MAX);
    }
    for (int i = 0; i < key_count; i++) {
        if (!keys[i] || !keys[i][0]) {
            return LS_FAIL_RANK(LS_ERR_INVALID, rank, "input of rank %d: feature %d has no name",
                                rank, i);
        }
        for (int j = 0; j < i; j++) {
            if (strcmp(keys[i], keys[j]) == 0) {
                return LS_FAIL_RANK(LS_ERR_INVALID, rank,
                                    "input of rank %d: feature %s is given twice", rank, keys[i]);
            }
        }
    }
    size_t bytes;
    LS_TRY(ls_size_mul(bag_count, (size_t)key_count, (size_t)batch));
    LS_TRY(ls_size_add(&bytes, *bag_count, 1));
    LS_TRY(ls_size_mul(&bytes, bytes, sizeof(int64_t)));
    return LS_OK;
}

void ls_keyed_jagged_free(ls_keyed_jagged *jagged) {
    if (!jagged) {
        return;
    }
    keyed_jagged_owner *owner = (keyed_jagged_owner *)jagged;
    const ls_allocator *allocator = owner->allocator;
    size_t key_count = (size_t)jagged->key_count;
    for (size_t i = 0; owner->keys && i < key_count; i++) {
        if (owner->keys[i]) {
            ls_free(allocator, owner->keys[i], strlen(owner->keys[i]) + 1, 1);
        }
    }
    size_t value_count = (size_t)jagged->value_count;
    ls_free(allocator, owner->keys, key_count, sizeof(*owner->keys));
    ls_free(allocator, owner->lengths, owner->bag_count, sizeof(int64_t));
    ls_free(allocator, owner->offsets, owner->bag_count + 1, sizeof(int64_t));
    ls_free(allocator, owner->values, value_count, sizeof(int64_t));
    ls_free(allocator, owner->weights, value_count, sizeof(float));
    ls_free(allocator, owner, 1, sizeof(*owner));
}

static int copy_keys(keyed_jagged_owner *owner, const char *const *keys, size_t key_count) {
    LS_TRY(ls_alloc((void **)&owner->keys, owner->allocator, key_count, sizeof(*owner->keys)));
    for (size_t i = 0; i < key_count; i++) {
        size_t bytes = strlen(keys[i]) + 1;
        LS_TRY(ls_alloc((void **)&owner->keys[i], owner->allocator, bytes, 1));
        memcpy(owner->keys[i], keys[i], bytes);
    }
    owner->jagged.keys = (const char *const *)owner->keys;
    return LS_OK;
}

// Allocates everything but leaves lengths, offsets, values and weights to be filled.
static int owner_create(keyed_jagged_owner **out, const ls_allocator *allocator, int rank,
                        const char *const *keys, int key_count, int64_t batch, int64_t value_count,
                        bool weighted) {
    size_t bag_count;
    LS_TRY(check_sizes(rank, keys, key_count, batch, value_count, &bag_count));
    keyed_jagged_owner *owner = NULL;
    LS_TRY(ls_alloc((void **)&owner, allocator, 1, sizeof(*owner)));
    owner->allocator = allocator;
    owner->bag_count = bag_count;
    owner->jagged = (ls_keyed_jagged){
        .rank = rank, .key_count = key_count, .batch = batch, .value_count = value_count};
    int status = copy_keys(owner, keys, (size_t)key_count);
    if (!status) {
        status = ls_alloc((void **)&owner->lengths, allocator, bag_count, sizeof(int64_t));
    }
    if (!status) {
        status = ls_alloc((void **)&owner->offsets, allocator, bag_count + 1, sizeof(int64_t));
    }
    if (!status) {
        status = ls_alloc((void **)&owner->values, allocator, (size_t)value_count, sizeof(int64_t));
    }
    if (!status && weighted) {
        status = ls_alloc((void **)&owner->weights, allocator, (size_t)value_count, sizeof(float));
    }
    if (status) {
        ls_keyed_jagged_free(&owner->jagged);
        return ls_error_wrap("input of rank %d", rank);
    }
    owner->jagged.lengths = owner->lengths;
    owner->jagged.offsets = owner->offsets;
    owner->jagged.values = owner->values;
    owner->jagged.weights = owner->weights;
    *out = owner;
    return LS_OK;
}

static int fill_lengths(keyed_jagged_owner *owner, const int64_t *lengths) {
    const ls_keyed_jagged *jagged = &owner->jagged;
    int64_t total = 0;
    for (size_t bag = 0; bag < owner->bag_count; bag++) {
        int64_t length = lengths[bag];
        if (length < 0 || length > jagged->value_count - total) {
            size_t key = bag / (size_t)jagged->batch, sample = bag % (size_t)jagged->batch;
            return LS_FAIL_RANK(LS_ERR_INVALID, jagged->rank,
                                "input of rank %d: feature %s, sample %zu: length %lld %s",
                                jagged->rank, jagged->keys[key], sample, (long long)length,
                                length < 0 ? "is negative" : "reaches past the last id");
        }
        owner->lengths[bag] = length;
        owner->offsets[bag] = total;
        total += length;
    }
    owner->offsets[owner->bag_count] = total;
    if (total != jagged->value_count) {
        return LS_FAIL_RANK(LS_ERR_INVALID, jagged->rank,
                            "input of rank %d: lengths add up to %lld, and there are %lld ids",
                            jagged->rank, (long long)total, (long long)jagged->value_count);
    }
    return LS_OK;
}

int ls_keyed_jagged_create(ls_keyed_jagged **out, const ls_allocator *allocator, int rank,
                           const char *const *keys, int key_count, int64_t batch,
                           const int64_t *lengths, const int64_t *values, int64_t value_count,
                           const float *weights) {
    LS_ASSERT(out);
    LS_ASSERT(keys || key_count <= 0);
    *out = NULL;
    keyed_jagged_owner *owner = NULL;
    LS_TRY(owner_create(&owner, allocator, rank, keys, key_count, batch, value_count,
                        weights != NULL));
    int status = fill_lengths(owner, lengths);
    if (status) {
        ls_keyed_jagged_free(&owner->jagged);
        return status;
    }
    if (value_count > 0) {
        memcpy(owner->values, values, (size_t)value_count * sizeof(int64_t));
        if (weights) {
            memcpy(owner->weights, weights, (size_t)value_count * sizeof(float));
        }
    }
    *out = &owner->jagged;
    return LS_OK;
}

int ls_keyed_jagged_from_offsets(ls_keyed_jagged **out, const ls_allocator *allocator, int rank,
                                 const char *const *keys, int key_count, int64_t batch,
                                 const int64_t *offsets, bool include_last, const int64_t *values,
                                 int64_t value_count, const float *weights) {
    LS_ASSERT(out);
    *out = NULL;
    size_t bag_count;
    LS_TRY(check_sizes(rank, keys, key_count, batch, value_count, &bag_count));
    size_t offset_count = bag_count + (include_last ? 1 : 0);
    if (offset_count > 0 && offsets[0] != 0) {
        return LS_FAIL_RANK(LS_ERR_INVALID, rank,
                            "input of rank %d: offsets begin at %lld, not at 0", rank,
                            (long long)offsets[0]);
    }
    int64_t *lengths;
    LS_TRY(ls_alloc((void **)&lengths, allocator, bag_count, sizeof(*lengths)));
    int status = LS_OK;
    for (size_t bag = 0; bag < bag_count && !status; bag++) {
        int64_t end = bag + 1 < offset_count ? offsets[bag + 1] : value_count;
        if (end < offsets[bag] || offsets[bag] < 0) {
            status = LS_FAIL_RANK(LS_ERR_INVALID, rank,
                                  "input of rank %d: feature %s, sample %zu: offsets go from %lld "
                                  "to %lld",
                                  rank, keys[bag / (size_t)batch], bag % (size_t)batch,
                                  (long long)offsets[bag], (long long)end);
        } else {
            lengths[bag] = end - offsets[bag];
        }
    }
    if (!status) {
        status = ls_keyed_jagged_create(out, allocator, rank, keys, key_count, batch, lengths,
                                        values, value_count, weights);
    }
    ls_free(allocator, lengths, bag_count, sizeof(*lengths));
    return status;
}

int ls_keyed_jagged_find(int *out, const ls_keyed_jagged *jagged, const char *key) {
    LS_ASSERT(out && jagged && key);
    for (int i = 0; i < jagged->key_count; i++) {
        if (strcmp(jagged->keys[i], key) == 0) {
            *out = i;
            return LS_OK;
        }
    }
    const char *near = ls_nearest(key, jagged->keys, (size_t)jagged->key_count);
    return LS_FAIL_RANK(LS_ERR_NOT_FOUND, jagged->rank, "input of rank %d has no feature %s%s%s%s",
                        jagged->rank, key, near ? " (did you mean " : "", near ? near : "",
                        near ? "?)" : "");
}

ls_jagged ls_keyed_jagged_feature(const ls_keyed_jagged *jagged, int key_index) {
    LS_ASSERT(jagged);
    LS_ASSERT(key_index >= 0 && key_index < jagged->key_count);
    size_t first_bag = (size_t)key_index * (size_t)jagged->batch;
    int64_t first_id = jagged->offsets[first_bag];
    return (ls_jagged){.batch = jagged->batch,
                       .lengths = jagged->lengths + first_bag,
                       .offsets = jagged->offsets + first_bag,
                       .ids = jagged->values + first_id,
                       .weights = jagged->weights ? jagged->weights + first_id : NULL};
}
