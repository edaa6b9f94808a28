// Ids, offsets and row gathering.
#include <string.h>

#include "kernels/kernels.h"

static void clamp_ids(int64_t *ids, size_t count, int64_t rows) {
    for (size_t i = 0; i < count; i++) {
        int64_t id = ids[i] < 0 ? 0 : ids[i];
        ids[i] = id >= rows ? rows - 1 : id;
    }
}

static void wrap_ids(int64_t *ids, size_t count, int64_t rows) {
    for (size_t i = 0; i < count; i++) {
        // A negative remainder is above -rows, so the sum fits.
        int64_t rest = ids[i] % rows;
        ids[i] = rest < 0 ? rest + rows : rest;
    }
}

int ls_kernel_resolve_ids(int64_t *ids, size_t count, int64_t rows, ls_id_policy policy,
                          size_t *bad_index) {
    LS_ASSERT(count == 0 || ids != NULL);
    LS_ASSERT(rows >= 0);
    LS_ASSERT(policy == LS_ID_ERROR || policy == LS_ID_CLAMP || policy == LS_ID_WRAP);
    for (size_t i = 0; i < count; i++) {
        bool good = rows > 0 && (policy != LS_ID_ERROR || (ids[i] >= 0 && ids[i] < rows));
        if (!good) {
            if (bad_index != NULL) {
                *bad_index = i;
            }
            return LS_FAIL(LS_ERR_INVALID, "id %lld at position %zu is outside [0, %lld)",
                           (long long)ids[i], i, (long long)rows);
        }
        if (policy != LS_ID_ERROR) {
            break;
        }
    }
    if (policy == LS_ID_CLAMP) {
        clamp_ids(ids, count, rows);
    } else if (policy == LS_ID_WRAP) {
        wrap_ids(ids, count, rows);
    }
    return LS_OK;
}

void ls_kernel_gather_rows(void *out, const void *table, size_t row_bytes, int64_t rows,
                           const int64_t *ids, size_t count) {
    LS_ASSERT(count == 0 || ids != NULL);
    LS_ASSERT(count == 0 || row_bytes == 0 || (out != NULL && table != NULL));
    for (size_t i = 0; i < count; i++) {
        LS_ASSERT(ids[i] >= 0 && ids[i] < rows);
        if (row_bytes > 0) {
            memcpy((char *)out + i * row_bytes, (const char *)table + (size_t)ids[i] * row_bytes,
                   row_bytes);
        }
    }
}

void ls_kernel_scatter_rows(void *out, size_t out_stride_bytes, const void *in, size_t row_bytes,
                            const int64_t *positions, size_t count) {
    LS_ASSERT(count == 0 || positions != NULL);
    LS_ASSERT(count == 0 || row_bytes == 0 || (out != NULL && in != NULL));
    for (size_t i = 0; i < count && row_bytes > 0; i++) {
        LS_ASSERT(positions[i] >= 0);
        memcpy((char *)out + (size_t)positions[i] * out_stride_bytes,
               (const char *)in + i * row_bytes, row_bytes);
    }
}

int ls_kernel_offsets(int64_t *offsets, const int64_t *lengths, size_t count, size_t *bad_index) {
    LS_ASSERT(offsets != NULL && (count == 0 || lengths != NULL));
    int64_t total = 0;
    for (size_t i = 0; i < count; i++) {
        if (lengths[i] < 0 || total > INT64_MAX - lengths[i]) {
            if (bad_index != NULL) {
                *bad_index = i;
            }
            if (lengths[i] < 0) {
                return LS_FAIL(LS_ERR_INVALID, "length %lld at position %zu is negative",
                               (long long)lengths[i], i);
            }
            return LS_FAIL(LS_ERR_OVERFLOW, "the sum of lengths up to position %zu overflows", i);
        }
        offsets[i] = total;
        total += lengths[i];
    }
    offsets[count] = total;
    return LS_OK;
}
