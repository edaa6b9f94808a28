// Keyed tensors: columns of several keys side by side, and their regrouping.
#include <string.h>

#include "embedding/jagged.h"

// One allocation per array.
typedef struct keyed_tensor_owner {
    ls_keyed_tensor tensor;  // first, so that a pointer to it is a pointer to the owner
    char **keys;
    int64_t *dims, *starts;
    float *values;
    size_t value_count;
} keyed_tensor_owner;

static int check_keys(const char *const *keys, const int64_t *dims, int key_count, int64_t batch) {
    if (key_count < 0 || key_count > LS_JAGGED_KEYS_MAX || batch < 0) {
        return LS_FAIL(LS_ERR_INVALID,
                       "keyed tensor: %d keys, batch %lld: out of limits (at most %d keys)",
                       key_count, (long long)batch, LS_JAGGED_KEYS_MAX);
    }
    for (int i = 0; i < key_count; i++) {
        if (!keys[i] || !keys[i][0]) {
            return LS_FAIL(LS_ERR_INVALID, "keyed tensor: key %d has no name", i);
        }
        if (dims[i] < 0) {
            return LS_FAIL(LS_ERR_INVALID, "keyed tensor: key %s has %lld columns", keys[i],
                           (long long)dims[i]);
        }
        for (int j = 0; j < i; j++) {
            if (strcmp(keys[i], keys[j]) == 0) {
                return LS_FAIL(LS_ERR_INVALID, "keyed tensor: key %s is given twice", keys[i]);
            }
        }
    }
    return LS_OK;
}

void ls_keyed_tensor_free(ls_keyed_tensor *tensor) {
    if (!tensor) {
        return;
    }
    keyed_tensor_owner *owner = (keyed_tensor_owner *)tensor;
    size_t key_count = (size_t)tensor->key_count;
    for (size_t i = 0; owner->keys && i < key_count; i++) {
        if (owner->keys[i]) {
            ls_free(owner->keys[i], strlen(owner->keys[i]) + 1, 1);
        }
    }
    ls_free(owner->keys, key_count, sizeof(*owner->keys));
    ls_free(owner->dims, key_count, sizeof(*owner->dims));
    ls_free(owner->starts, key_count + 1, sizeof(*owner->starts));
    ls_free(owner->values, owner->value_count, sizeof(*owner->values));
    ls_free(owner, 1, sizeof(*owner));
}

// All but the values, for which there is room.
static int fill(keyed_tensor_owner *owner, const char *const *keys, const int64_t *dims) {
    size_t key_count = (size_t)owner->tensor.key_count, width = 0;
    LS_TRY(ls_alloc((void **)&owner->keys, key_count, sizeof(*owner->keys)));
    LS_TRY(ls_alloc((void **)&owner->dims, key_count, sizeof(*owner->dims)));
    LS_TRY(ls_alloc((void **)&owner->starts, key_count + 1, sizeof(*owner->starts)));
    for (size_t i = 0; i < key_count; i++) {
        size_t bytes = strlen(keys[i]) + 1;
        LS_TRY(ls_alloc((void **)&owner->keys[i], bytes, 1));
        memcpy(owner->keys[i], keys[i], bytes);
        owner->dims[i] = dims[i];
        owner->starts[i] = (int64_t)width;
        LS_TRY(ls_size_add(&width, width, (size_t)dims[i]));
        if (width > (size_t)LS_JAGGED_VALUES_MAX) {
            return LS_FAIL(LS_ERR_OVERFLOW, "keyed tensor: more than %lld columns",
                           (long long)LS_JAGGED_VALUES_MAX);
        }
    }
    owner->starts[key_count] = (int64_t)width;
    LS_TRY(ls_size_mul(&owner->value_count, (size_t)owner->tensor.batch, width));
    return ls_alloc((void **)&owner->values, owner->value_count, sizeof(*owner->values));
}

// Leaves the values to be filled.
static int owner_create(keyed_tensor_owner **out, const char *const *keys, const int64_t *dims,
                        int key_count, int64_t batch) {
    LS_TRY(check_keys(keys, dims, key_count, batch));
    keyed_tensor_owner *owner = NULL;
    LS_TRY(ls_alloc((void **)&owner, 1, sizeof(*owner)));
    owner->tensor = (ls_keyed_tensor){.key_count = key_count, .batch = batch};
    int status = fill(owner, keys, dims);
    if (status) {
        ls_keyed_tensor_free(&owner->tensor);
        return status;
    }
    owner->tensor.keys = (const char *const *)owner->keys;
    owner->tensor.dims = owner->dims;
    owner->tensor.starts = owner->starts;
    owner->tensor.values = owner->values;
    *out = owner;
    return LS_OK;
}

int ls_keyed_tensor_create(ls_keyed_tensor **out, const char *const *keys, const int64_t *dims,
                           int key_count, int64_t batch, const float *values) {
    LS_ASSERT(out);
    LS_ASSERT((keys && dims) || key_count <= 0);
    *out = NULL;
    keyed_tensor_owner *owner = NULL;
    LS_TRY(owner_create(&owner, keys, dims, key_count, batch));
    if (owner->value_count > 0) {
        memcpy(owner->values, values, owner->value_count * sizeof(*values));
    }
    *out = &owner->tensor;
    return LS_OK;
}

// ---- Regrouping ---------------------------------------------------------------------------------
// Columns of one tensor.
typedef struct columns {
    const ls_keyed_tensor *of;
    int key;
} columns;

static int find_columns(columns *out, const ls_keyed_tensor *const *tensors, int tensor_count,
                        const char *key) {
    out->of = NULL;
    for (int t = 0; t < tensor_count; t++) {
        for (int k = 0; k < tensors[t]->key_count; k++) {
            if (strcmp(tensors[t]->keys[k], key) != 0) {
                continue;
            }
            if (out->of) {
                return LS_FAIL(LS_ERR_INVALID, "two keyed tensors have key %s", key);
            }
            *out = (columns){tensors[t], k};
        }
    }
    return out->of ? LS_OK
                   : LS_FAIL(LS_ERR_NOT_FOUND, "%d keyed tensors: no tensor has key %s",
                             tensor_count, key);
}

static void copy_columns(keyed_tensor_owner *owner, const columns *from) {
    const ls_keyed_tensor *to = &owner->tensor;
    for (int k = 0; k < to->key_count; k++) {
        const ls_keyed_tensor *of = from[k].of;
        for (int64_t b = 0; b < to->batch && to->dims[k] > 0; b++) {
            memcpy(owner->values + b * to->starts[to->key_count] + to->starts[k],
                   of->values + b * of->starts[of->key_count] + of->starts[from[k].key],
                   (size_t)to->dims[k] * sizeof(float));
        }
    }
}

static int make_group(ls_keyed_tensor **out, const ls_keyed_tensor *const *tensors,
                      int tensor_count, const ls_key_group *group, int64_t batch) {
    if (group->count < 0 || group->count > LS_JAGGED_KEYS_MAX) {
        return LS_FAIL(LS_ERR_INVALID, "a group of %d keys: out of limits (at most %d)",
                       group->count, LS_JAGGED_KEYS_MAX);
    }
    size_t count = (size_t)group->count;
    columns *from = NULL;
    int64_t *dims = NULL;
    keyed_tensor_owner *owner = NULL;
    int status = ls_alloc((void **)&from, count, sizeof(*from));
    status = status == LS_OK ? ls_alloc((void **)&dims, count, sizeof(*dims)) : status;
    for (size_t k = 0; k < count && !status; k++) {
        status = find_columns(&from[k], tensors, tensor_count, group->keys[k]);
        dims[k] = status ? 0 : from[k].of->dims[from[k].key];
    }
    if (!status) {
        status = owner_create(&owner, group->keys, dims, group->count, batch);
    }
    if (!status) {
        copy_columns(owner, from);
        *out = &owner->tensor;
    }
    ls_free(from, count, sizeof(*from));
    ls_free(dims, count, sizeof(*dims));
    return status;
}

int ls_keyed_tensor_regroup(ls_keyed_tensor **outs, const ls_keyed_tensor *const *tensors,
                            int tensor_count, const ls_key_group *groups, int group_count) {
    LS_ASSERT(outs || group_count <= 0);
    LS_ASSERT(tensors || tensor_count <= 0);
    int status = LS_OK;
    for (int g = 0; g < group_count; g++) {
        outs[g] = NULL;
    }
    for (int t = 1; t < tensor_count && !status; t++) {
        if (tensors[t]->batch != tensors[0]->batch) {
            status =
                LS_FAIL(LS_ERR_INVALID, "keyed tensors of batch %lld and %lld cannot be regrouped",
                        (long long)tensors[0]->batch, (long long)tensors[t]->batch);
        }
    }
    for (int g = 0; g < group_count && !status; g++) {
        status = make_group(&outs[g], tensors, tensor_count, &groups[g],
                            tensor_count > 0 ? tensors[0]->batch : 0);
        if (status) {
            status = ls_error_wrap("group %d", g);
        }
    }
    for (int g = 0; g < group_count && status; g++) {
        ls_keyed_tensor_free(outs[g]);
        outs[g] = NULL;
    }
    return status;
}
