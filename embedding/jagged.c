// Jagged inputs: copying and checking what a caller hands in. Ids are not judged here: which ids
// are in range depends on the table that a feature feeds (input_dist.c).
#include "embedding/jagged_internal.h"

#include <string.h>

// *bag_count: those of all features.
static int check_sizes(int rank, const char *const *keys, int key_count, int64_t batch,
                       int64_t value_count, const int64_t *strides, size_t *bag_count) {
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
    LS_TRY(ls_size_mul(&bytes, *bag_count, sizeof(int64_t)));
    *bag_count = strides ? 0 : *bag_count;
    for (int i = 0; strides && i < key_count; i++) {
        if (strides[i] < 0) {
            return LS_FAIL_RANK(LS_ERR_INVALID, rank, "input of rank %d: feature %s has %lld bags",
                                rank, keys[i], (long long)strides[i]);
        }
        LS_TRY(ls_size_add(bag_count, *bag_count, (size_t)strides[i]));
    }
    LS_TRY(ls_size_add(&bytes, *bag_count, 1));
    LS_TRY(ls_size_mul(&bytes, bytes, sizeof(int64_t)));
    return LS_OK;
}

void ls_keyed_jagged_free(ls_keyed_jagged *jagged) {
    if (!jagged) {
        return;
    }
    keyed_jagged_owner *owner = (keyed_jagged_owner *)jagged;
    size_t key_count = (size_t)jagged->key_count;
    for (size_t i = 0; owner->keys && i < key_count; i++) {
        if (owner->keys[i]) {
            ls_free(owner->keys[i], strlen(owner->keys[i]) + 1, 1);
        }
    }
    size_t value_count = (size_t)jagged->value_count;
    ls_free(owner->keys, key_count, sizeof(*owner->keys));
    ls_free(owner->starts, key_count + 1, sizeof(int64_t));
    ls_free(owner->inverse_indices, owner->inverse_room, sizeof(int64_t));
    ls_free(owner->lengths, owner->bag_count, sizeof(int64_t));
    ls_free(owner->offsets, owner->bag_count + 1, sizeof(int64_t));
    ls_free(owner->values, value_count, sizeof(int64_t));
    ls_free(owner->weights, value_count, sizeof(float));
    ls_free(owner, 1, sizeof(*owner));
}

// Its arrays, of which only the keys are filled.
static int allocate(keyed_jagged_owner *owner, const char *const *keys, bool weighted,
                    bool variable) {
    size_t key_count = (size_t)owner->jagged.key_count,
           value_count = (size_t)owner->jagged.value_count;
    LS_TRY(ls_alloc((void **)&owner->keys, key_count, sizeof(*owner->keys)));
    for (size_t i = 0; i < key_count; i++) {
        size_t bytes = strlen(keys[i]) + 1;
        LS_TRY(ls_alloc((void **)&owner->keys[i], bytes, 1));
        memcpy(owner->keys[i], keys[i], bytes);
    }
    LS_TRY(ls_alloc((void **)&owner->starts, key_count + 1, sizeof(int64_t)));
    LS_TRY(variable
               ? ls_alloc((void **)&owner->inverse_indices, owner->inverse_room, sizeof(int64_t))
               : LS_OK);
    LS_TRY(ls_alloc((void **)&owner->lengths, owner->bag_count, sizeof(int64_t)));
    LS_TRY(ls_alloc((void **)&owner->offsets, owner->bag_count + 1, sizeof(int64_t)));
    LS_TRY(ls_alloc((void **)&owner->values, value_count, sizeof(int64_t)));
    return weighted ? ls_alloc((void **)&owner->weights, value_count, sizeof(float)) : LS_OK;
}

int ls_keyed_jagged__owner_create(keyed_jagged_owner **out, int rank, const char *const *keys,
                                  int key_count, int64_t batch, int64_t value_count, bool weighted,
                                  const int64_t *strides) {
    size_t bag_count;
    LS_TRY(check_sizes(rank, keys, key_count, batch, value_count, strides, &bag_count));
    keyed_jagged_owner *owner = NULL;
    LS_TRY(ls_alloc((void **)&owner, 1, sizeof(*owner)));
    owner->bag_count = bag_count;
    owner->jagged = (ls_keyed_jagged){
        .rank = rank, .key_count = key_count, .batch = batch, .value_count = value_count};
    owner->inverse_room = strides ? (size_t)key_count * (size_t)batch + 1 : 0;
    if (allocate(owner, keys, weighted, strides != NULL) != LS_OK) {
        ls_keyed_jagged_free(&owner->jagged);
        return ls_error_wrap("input of rank %d", rank);
    }
    for (int i = 0; i < key_count; i++) {
        owner->starts[i + 1] = owner->starts[i] + (strides ? strides[i] : batch);
    }
    owner->jagged.keys = (const char *const *)owner->keys;
    owner->jagged.starts = owner->starts;
    owner->jagged.inverse_indices = owner->inverse_indices;
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
            int key = 0;
            while (jagged->starts[key + 1] <= (int64_t)bag) {
                key++;
            }
            return LS_FAIL_RANK(LS_ERR_INVALID, jagged->rank,
                                "input of rank %d: feature %s, %s %lld: length %lld %s",
                                jagged->rank, jagged->keys[key],
                                jagged->inverse_indices ? "bag" : "sample",
                                (long long)bag - (long long)jagged->starts[key], (long long)length,
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

static int fill_inverse(keyed_jagged_owner *owner, const int64_t *inverse_indices) {
    const ls_keyed_jagged *jagged = &owner->jagged;
    for (int64_t key = 0; key < jagged->key_count; key++) {
        int64_t bags = jagged->starts[key + 1] - jagged->starts[key];
        for (int64_t b = 0; b < jagged->batch; b++) {
            int64_t bag = inverse_indices[key * jagged->batch + b];
            if (bag < 0 || bag >= bags) {
                return LS_FAIL_RANK(LS_ERR_INVALID, jagged->rank,
                                    "input of rank %d: feature %s, sample %lld: its inverse index "
                                    "is %lld, and the feature has %lld bags",
                                    jagged->rank, jagged->keys[key], (long long)b, (long long)bag,
                                    (long long)bags);
            }
            owner->inverse_indices[key * jagged->batch + b] = bag;
        }
    }
    return LS_OK;
}

// strides: NULL where every feature has a bag for each sample.
static int create(ls_keyed_jagged **out, const ls_keyed_jagged *from, const int64_t *strides) {
    LS_ASSERT(out);
    LS_ASSERT(from->keys || from->key_count <= 0);
    *out = NULL;
    keyed_jagged_owner *owner = NULL;
    LS_TRY(ls_keyed_jagged__owner_create(&owner, from->rank, from->keys, from->key_count,
                                         from->batch, from->value_count, from->weights != NULL,
                                         strides));
    int status = fill_lengths(owner, from->lengths);
    if (!status && strides) {
        status = fill_inverse(owner, from->inverse_indices);
    }
    if (status) {
        ls_keyed_jagged_free(&owner->jagged);
        return status;
    }
    if (from->value_count > 0) {
        memcpy(owner->values, from->values, (size_t)from->value_count * sizeof(int64_t));
        if (from->weights) {
            memcpy(owner->weights, from->weights, (size_t)from->value_count * sizeof(float));
        }
    }
    *out = &owner->jagged;
    return LS_OK;
}

int ls_keyed_jagged_create(ls_keyed_jagged **out, int rank, const char *const *keys, int key_count,
                           int64_t batch, const int64_t *lengths, const int64_t *values,
                           int64_t value_count, const float *weights) {
    const ls_keyed_jagged from = {.rank = rank,
                                  .key_count = key_count,
                                  .keys = keys,
                                  .batch = batch,
                                  .lengths = lengths,
                                  .values = values,
                                  .weights = weights,
                                  .value_count = value_count};
    return create(out, &from, NULL);
}

int ls_keyed_jagged_create_variable(ls_keyed_jagged **out, int rank, const char *const *keys,
                                    int key_count, const int64_t *strides, int64_t batch,
                                    const int64_t *inverse_indices, const int64_t *lengths,
                                    const int64_t *values, int64_t value_count,
                                    const float *weights) {
    LS_ASSERT(strides || key_count <= 0);
    static const int64_t none[1];
    const ls_keyed_jagged from = {.rank = rank,
                                  .key_count = key_count,
                                  .keys = keys,
                                  .batch = batch,
                                  .lengths = lengths,
                                  .values = values,
                                  .weights = weights,
                                  .value_count = value_count,
                                  .inverse_indices = inverse_indices};
    return create(out, &from, strides ? strides : none);
}

int ls_keyed_jagged_from_offsets(ls_keyed_jagged **out, int rank, const char *const *keys,
                                 int key_count, int64_t batch, const int64_t *offsets,
                                 bool include_last, const int64_t *values, int64_t value_count,
                                 const float *weights) {
    LS_ASSERT(out);
    *out = NULL;
    size_t bag_count;
    LS_TRY(check_sizes(rank, keys, key_count, batch, value_count, NULL, &bag_count));
    size_t offset_count = bag_count + (include_last ? 1 : 0);
    if (offset_count > 0 && offsets[0] != 0) {
        return LS_FAIL_RANK(LS_ERR_INVALID, rank,
                            "input of rank %d: offsets begin at %lld, not at 0", rank,
                            (long long)offsets[0]);
    }
    int64_t *lengths;
    LS_TRY(ls_alloc((void **)&lengths, bag_count, sizeof(*lengths)));
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
        status = ls_keyed_jagged_create(out, rank, keys, key_count, batch, lengths, values,
                                        value_count, weights);
    }
    ls_free(lengths, bag_count, sizeof(*lengths));
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
    int64_t first_bag = jagged->starts[key_index];
    int64_t first_id = jagged->offsets[first_bag];
    const int64_t *inverse = jagged->inverse_indices;
    return (ls_jagged){.batch = jagged->starts[key_index + 1] - first_bag,
                       .inverse_indices = inverse ? inverse + key_index * jagged->batch : NULL,
                       .samples = jagged->batch,
                       .lengths = jagged->lengths + first_bag,
                       .offsets = jagged->offsets + first_bag,
                       .ids = jagged->values + first_id,
                       .weights = jagged->weights ? jagged->weights + first_id : NULL};
}

int64_t ls_jagged_sample_ids(const ls_jagged *jagged) {
    LS_ASSERT(jagged);
    int64_t ids = 0;
    for (int64_t b = 0; b < jagged->samples && jagged->inverse_indices; b++) {
        ids += jagged->lengths[jagged->inverse_indices[b]];
    }
    return jagged->inverse_indices ? ids : jagged->offsets[jagged->batch] - jagged->offsets[0];
}

// ---- Made of others -----------------------------------------------------------------------------
int ls_keyed_jagged_from_lists(ls_keyed_jagged **out, int rank, const char *const *keys,
                               int key_count, int64_t batch, const ls_jagged_bag *bags,
                               bool weighted) {
    LS_ASSERT(out);
    LS_ASSERT(keys || key_count <= 0);
    *out = NULL;
    size_t bag_count;
    LS_TRY(check_sizes(rank, keys, key_count, batch, 0, NULL, &bag_count));
    int64_t total = 0;
    for (size_t b = 0; b < bag_count; b++) {
        int64_t count = bags[b].count;
        const char *wrong = NULL;
        if (count < 0) {
            wrong = "cannot be";
        } else if (count > LS_JAGGED_VALUES_MAX - total) {
            wrong = "is beyond the limit of an input";
        } else if (count > 0 && weighted != (bags[b].weights != NULL)) {
            wrong = weighted ? "has no weights" : "has weights, and the input has none";
        }
        if (wrong) {
            return LS_FAIL_RANK(LS_ERR_INVALID, rank,
                                "input of rank %d: feature %s, sample %zu: a bag of %lld ids %s",
                                rank, keys[b / (size_t)batch], b % (size_t)batch, (long long)count,
                                wrong);
        }
        total += count;
    }
    keyed_jagged_owner *owner = NULL;
    LS_TRY(
        ls_keyed_jagged__owner_create(&owner, rank, keys, key_count, batch, total, weighted, NULL));
    int64_t at = 0;
    for (size_t b = 0; b < bag_count; b++) {
        owner->lengths[b] = bags[b].count;
        owner->offsets[b] = at;
        if (bags[b].count > 0) {
            memcpy(owner->values + at, bags[b].ids, (size_t)bags[b].count * sizeof(int64_t));
        }
        if (bags[b].count > 0 && weighted) {
            memcpy(owner->weights + at, bags[b].weights, (size_t)bags[b].count * sizeof(float));
        }
        at += bags[b].count;
    }
    owner->offsets[bag_count] = at;
    *out = &owner->jagged;
    return LS_OK;
}

int ls_keyed_jagged_from_padded(ls_keyed_jagged **out, int rank, const char *const *keys,
                                int key_count, int64_t batch, int64_t width, const int64_t *lengths,
                                const int64_t *ids, const float *weights) {
    LS_ASSERT(out);
    *out = NULL;
    size_t bag_count;
    LS_TRY(check_sizes(rank, keys, key_count, batch, 0, NULL, &bag_count));
    ls_jagged_bag *bags;
    LS_TRY(ls_alloc((void **)&bags, bag_count, sizeof(*bags)));
    int status = LS_OK;
    for (size_t b = 0; b < bag_count && !status; b++) {
        if (lengths[b] < 0 || lengths[b] > width) {
            status = LS_FAIL_RANK(LS_ERR_INVALID, rank,
                                  "input of rank %d: feature %s, sample %zu: length %lld of bags "
                                  "that are padded to %lld",
                                  rank, keys[b / (size_t)batch], b % (size_t)batch,
                                  (long long)lengths[b], (long long)width);
        } else if (lengths[b] > 0) {
            bags[b] = (ls_jagged_bag){ids + b * (size_t)width,
                                      weights ? weights + b * (size_t)width : NULL, lengths[b]};
        }
    }
    if (!status) {
        status =
            ls_keyed_jagged_from_lists(out, rank, keys, key_count, batch, bags, weights != NULL);
    }
    ls_free(bags, bag_count, sizeof(*bags));
    return status;
}
