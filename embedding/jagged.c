// Jagged inputs: copying and checking what a caller hands in. Ids are not judged here: which ids
// are in range depends on the table that a feature feeds (input_dist.c).
#include "embedding/jagged.h"

#include <string.h>

// What ls_keyed_jagged points into: one allocation per array.
typedef struct keyed_jagged_owner {
    ls_keyed_jagged jagged;  // first, so that a pointer to it is a pointer to the owner
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
    size_t key_count = (size_t)jagged->key_count;
    for (size_t i = 0; owner->keys && i < key_count; i++) {
        if (owner->keys[i]) {
            ls_free(owner->keys[i], strlen(owner->keys[i]) + 1, 1);
        }
    }
    size_t value_count = (size_t)jagged->value_count;
    ls_free(owner->keys, key_count, sizeof(*owner->keys));
    ls_free(owner->lengths, owner->bag_count, sizeof(int64_t));
    ls_free(owner->offsets, owner->bag_count + 1, sizeof(int64_t));
    ls_free(owner->values, value_count, sizeof(int64_t));
    ls_free(owner->weights, value_count, sizeof(float));
    ls_free(owner, 1, sizeof(*owner));
}

static int copy_keys(keyed_jagged_owner *owner, const char *const *keys, size_t key_count) {
    LS_TRY(ls_alloc((void **)&owner->keys, key_count, sizeof(*owner->keys)));
    for (size_t i = 0; i < key_count; i++) {
        size_t bytes = strlen(keys[i]) + 1;
        LS_TRY(ls_alloc((void **)&owner->keys[i], bytes, 1));
        memcpy(owner->keys[i], keys[i], bytes);
    }
    owner->jagged.keys = (const char *const *)owner->keys;
    return LS_OK;
}

// Allocates everything but leaves lengths, offsets, values and weights to be filled.
static int owner_create(keyed_jagged_owner **out, int rank, const char *const *keys, int key_count,
                        int64_t batch, int64_t value_count, bool weighted) {
    size_t bag_count;
    LS_TRY(check_sizes(rank, keys, key_count, batch, value_count, &bag_count));
    keyed_jagged_owner *owner = NULL;
    LS_TRY(ls_alloc((void **)&owner, 1, sizeof(*owner)));
    owner->bag_count = bag_count;
    owner->jagged = (ls_keyed_jagged){
        .rank = rank, .key_count = key_count, .batch = batch, .value_count = value_count};
    int status = copy_keys(owner, keys, (size_t)key_count);
    if (!status) {
        status = ls_alloc((void **)&owner->lengths, bag_count, sizeof(int64_t));
    }
    if (!status) {
        status = ls_alloc((void **)&owner->offsets, bag_count + 1, sizeof(int64_t));
    }
    if (!status) {
        status = ls_alloc((void **)&owner->values, (size_t)value_count, sizeof(int64_t));
    }
    if (!status && weighted) {
        status = ls_alloc((void **)&owner->weights, (size_t)value_count, sizeof(float));
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

int ls_keyed_jagged_create(ls_keyed_jagged **out, int rank, const char *const *keys, int key_count,
                           int64_t batch, const int64_t *lengths, const int64_t *values,
                           int64_t value_count, const float *weights) {
    LS_ASSERT(out);
    LS_ASSERT(keys || key_count <= 0);
    *out = NULL;
    keyed_jagged_owner *owner = NULL;
    LS_TRY(owner_create(&owner, rank, keys, key_count, batch, value_count, weights != NULL));
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

int ls_keyed_jagged_from_offsets(ls_keyed_jagged **out, int rank, const char *const *keys,
                                 int key_count, int64_t batch, const int64_t *offsets,
                                 bool include_last, const int64_t *values, int64_t value_count,
                                 const float *weights) {
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
    size_t first_bag = (size_t)key_index * (size_t)jagged->batch;
    int64_t first_id = jagged->offsets[first_bag];
    return (ls_jagged){.batch = jagged->batch,
                       .lengths = jagged->lengths + first_bag,
                       .offsets = jagged->offsets + first_bag,
                       .ids = jagged->values + first_id,
                       .weights = jagged->weights ? jagged->weights + first_id : NULL};
}

// ---- Made of others -----------------------------------------------------------------------------
int ls_keyed_jagged_from_lists(ls_keyed_jagged **out, int rank, const char *const *keys,
                               int key_count, int64_t batch, const ls_jagged_bag *bags,
                               bool weighted) {
    LS_ASSERT(out);
    LS_ASSERT(keys || key_count <= 0);
    *out = NULL;
    size_t bag_count;
    LS_TRY(check_sizes(rank, keys, key_count, batch, 0, &bag_count));
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
    LS_TRY(owner_create(&owner, rank, keys, key_count, batch, total, weighted));
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
    LS_TRY(check_sizes(rank, keys, key_count, batch, 0, &bag_count));
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

static int64_t padded_count(const ls_jagged *jagged, int64_t bag, int64_t width) {
    return jagged->lengths[bag] < width ? jagged->lengths[bag] : width;
}

int ls_jagged_ids_to_padded(int64_t *out, const ls_jagged *jagged, int64_t width, int64_t padding) {
    LS_ASSERT(jagged);
    if (width < 0) {
        return LS_FAIL(LS_ERR_INVALID, "bags cannot be padded to %lld ids", (long long)width);
    }
    for (int64_t b = 0; b < jagged->batch; b++) {
        int64_t first = jagged->offsets[b] - jagged->offsets[0];
        int64_t count = padded_count(jagged, b, width);
        for (int64_t i = 0; i < width; i++) {
            out[b * width + i] = i < count ? jagged->ids[first + i] : padding;
        }
    }
    return LS_OK;
}

int ls_jagged_weights_to_padded(float *out, const ls_jagged *jagged, int64_t width, float padding) {
    LS_ASSERT(jagged);
    if (width < 0 || !jagged->weights) {
        return LS_FAIL(LS_ERR_INVALID, "%s",
                       width < 0 ? "bags cannot be padded to fewer than 0 weights"
                                 : "the input has no weights to pad");
    }
    for (int64_t b = 0; b < jagged->batch; b++) {
        int64_t first = jagged->offsets[b] - jagged->offsets[0];
        int64_t count = padded_count(jagged, b, width);
        for (int64_t i = 0; i < width; i++) {
            out[b * width + i] = i < count ? jagged->weights[first + i] : padding;
        }
    }
    return LS_OK;
}

// A feature of some input.
typedef struct piece {
    const ls_keyed_jagged *of;
    int key;
} piece;

static void copy_pieces(keyed_jagged_owner *owner, const piece *pieces, int count) {
    int64_t at = 0;
    size_t bag = 0;
    for (int p = 0; p < count; p++) {
        ls_jagged from = ls_keyed_jagged_feature(pieces[p].of, pieces[p].key);
        int64_t ids = from.offsets[from.batch] - from.offsets[0];
        if (ids > 0) {
            memcpy(owner->values + at, from.ids, (size_t)ids * sizeof(int64_t));
        }
        if (ids > 0 && owner->weights) {
            memcpy(owner->weights + at, from.weights, (size_t)ids * sizeof(float));
        }
        for (int64_t b = 0; b < from.batch; b++, bag++) {
            owner->lengths[bag] = from.lengths[b];
            owner->offsets[bag] = at + from.offsets[b] - from.offsets[0];
        }
        at += ids;
    }
    owner->offsets[owner->bag_count] = at;
}

// An input of the given features, which have the batch, rank and weights of `like`.
static int assemble(ls_keyed_jagged **out, const ls_keyed_jagged *like, const piece *pieces,
                    int count) {
    const char **keys;
    int64_t total = 0;
    LS_TRY(ls_alloc((void **)&keys, (size_t)count, sizeof(*keys)));
    for (int p = 0; p < count; p++) {
        const ls_keyed_jagged *of = pieces[p].of;
        size_t first = (size_t)pieces[p].key * (size_t)of->batch;
        keys[p] = of->keys[pieces[p].key];
        total += of->offsets[first + (size_t)of->batch] - of->offsets[first];
    }
    keyed_jagged_owner *owner = NULL;
    int status =
        owner_create(&owner, like->rank, keys, count, like->batch, total, like->weights != NULL);
    if (!status) {
        copy_pieces(owner, pieces, count);
        *out = &owner->jagged;
    }
    ls_free(keys, (size_t)count, sizeof(*keys));
    return status;
}

int ls_keyed_jagged_permute(ls_keyed_jagged **out, const ls_keyed_jagged *jagged, const int *order,
                            int order_count) {
    LS_ASSERT(out && jagged);
    *out = NULL;
    if (order_count < 0 || order_count > jagged->key_count) {
        return LS_FAIL_RANK(LS_ERR_INVALID, jagged->rank,
                            "input of rank %d: %d features of %d are wanted", jagged->rank,
                            order_count, jagged->key_count);
    }
    piece *pieces;
    LS_TRY(ls_alloc((void **)&pieces, (size_t)order_count, sizeof(*pieces)));
    int status = LS_OK;
    for (int i = 0; i < order_count && !status; i++) {
        if (order[i] < 0 || order[i] >= jagged->key_count) {
            status = LS_FAIL_RANK(LS_ERR_INVALID, jagged->rank,
                                  "input of rank %d: feature number %d is wanted of %d",
                                  jagged->rank, order[i], jagged->key_count);
        } else {
            pieces[i] = (piece){jagged, order[i]};
        }
    }
    if (!status) {
        status = assemble(out, jagged, pieces, order_count);
    }
    ls_free(pieces, (size_t)order_count, sizeof(*pieces));
    return status;
}

int ls_keyed_jagged_split(ls_keyed_jagged **outs, const ls_keyed_jagged *jagged, const int *sizes,
                          int count) {
    LS_ASSERT(jagged && (outs || count <= 0));
    int left = jagged->key_count;
    for (int i = 0; i < count; i++) {
        outs[i] = NULL;
        bool fits = sizes[i] >= 0 && left >= 0 && sizes[i] <= left;
        left = fits ? left - sizes[i] : -1;
    }
    if (left != 0) {
        return LS_FAIL_RANK(LS_ERR_INVALID, jagged->rank,
                            "input of rank %d: the sizes of %d parts do not add up to its %d "
                            "features",
                            jagged->rank, count, jagged->key_count);
    }
    int *order;
    LS_TRY(ls_alloc((void **)&order, (size_t)jagged->key_count, sizeof(*order)));
    for (int k = 0; k < jagged->key_count; k++) {
        order[k] = k;
    }
    int first = 0, status = LS_OK;
    for (int i = 0; i < count && !status; i++) {
        status = ls_keyed_jagged_permute(&outs[i], jagged, order + first, sizes[i]);
        first += sizes[i];
    }
    for (int i = 0; i < count && status; i++) {
        ls_keyed_jagged_free(outs[i]);
        outs[i] = NULL;
    }
    ls_free(order, (size_t)jagged->key_count, sizeof(*order));
    return status;
}

int ls_keyed_jagged_concat(ls_keyed_jagged **out, const ls_keyed_jagged *const *parts, int count) {
    LS_ASSERT(out);
    *out = NULL;
    if (count < 1) {
        return LS_FAIL(LS_ERR_INVALID, "no inputs to join");
    }
    size_t keys = 0;
    for (int i = 0; i < count; i++) {
        const ls_keyed_jagged *first = parts[0], *part = parts[i];
        if (part->rank != first->rank || part->batch != first->batch ||
            (part->weights == NULL) != (first->weights == NULL)) {
            return LS_FAIL_RANK(LS_ERR_INVALID, first->rank,
                                "inputs cannot be joined: the first is of rank %d, batch %lld, %s "
                                "weights, number %d of rank %d, batch %lld, %s weights",
                                first->rank, (long long)first->batch,
                                first->weights ? "with" : "without", i, part->rank,
                                (long long)part->batch, part->weights ? "with" : "without");
        }
        keys += (size_t)part->key_count;
    }
    if (keys > LS_JAGGED_KEYS_MAX) {
        return LS_FAIL_RANK(LS_ERR_INVALID, parts[0]->rank,
                            "input of rank %d: %zu features: out of limits (at most %d)",
                            parts[0]->rank, keys, LS_JAGGED_KEYS_MAX);
    }
    piece *pieces;
    LS_TRY(ls_alloc((void **)&pieces, keys, sizeof(*pieces)));
    int at = 0;
    for (int i = 0; i < count; i++) {
        for (int k = 0; k < parts[i]->key_count; k++) {
            pieces[at++] = (piece){parts[i], k};
        }
    }
    int status = assemble(out, parts[0], pieces, at);
    ls_free(pieces, keys, sizeof(*pieces));
    return status;
}
