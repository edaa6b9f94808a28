// Whether all ranks hold the same values, bit for bit; and if not, where and on which ranks.
#include "local_tensor/internal.h"

#include <inttypes.h>
#include <string.h>

// An element is NaN when its bits without the sign are above `infinity`.
static const struct {
    uint64_t magnitude;
    uint64_t infinity;
} nan_rule[LS_DTYPE_COUNT] = {
    [LS_F16] = {0x7FFF, 0x7C00},
    [LS_F32] = {0x7FFFFFFFu, 0x7F800000u},
    [LS_F64] = {INT64_MAX, 0x7FF0000000000000u},
    [LS_BF16] = {0x7FFF, 0x7F80},
    [LS_F8E4M3] = {0x7F, 0x7E},
    [LS_F8E5M2] = {0x7F, 0x7C},
};

static bool is_nan(uint64_t bits, ls_dtype dtype) {
    return ls_dtype_is_float(dtype) &&
           (bits & nan_rule[dtype].magnitude) > nan_rule[dtype].infinity;
}

// Counts the elements that differ and finds the first.
static size_t count_differing(size_t *first, const ls_shard *a, const ls_shard *b, ls_dtype dtype) {
    size_t bytes = ls_dtype_bytes(dtype);
    size_t differing = 0;
    if (a->count == 0 || memcmp(a->data, b->data, a->count * bytes) == 0) {
        return 0;
    }
    for (size_t i = 0; i < a->count; i++) {
        uint64_t x = ls_element__bits((const char *)a->data + i * bytes, dtype);
        uint64_t y = ls_element__bits((const char *)b->data + i * bytes, dtype);
        if (x == y || (is_nan(x, dtype) && is_nan(y, dtype))) {
            continue;
        }
        *first = differing == 0 ? i : *first;
        differing += 1;
    }
    return differing;
}

// The sentence for rank `rank`, the first that differs; all_ranks: every rank that does.
static int differ_error(const ls_local_tensor *tensor, int index, size_t element, size_t differing,
                        const int *all_ranks, int all_count) {
    const ls_shard *a = &tensor->shards[0];
    const ls_shard *b = &tensor->shards[index];
    size_t bytes = ls_dtype_bytes(tensor->dtype);
    const char *x = (const char *)a->data + element * bytes;
    const char *y = (const char *)b->data + element * bytes;
    char at[LS_SHAPE_TEXT_MAX];
    char x_text[LS_ELEMENT_TEXT_MAX];
    char y_text[LS_ELEMENT_TEXT_MAX];
    char others[256];
    ls_shape__format_index(at, sizeof at, &a->block.size, element);
    ls_element__format(x_text, sizeof x_text, x, tensor->dtype);
    ls_element__format(y_text, sizeof y_text, y, tensor->dtype);
    ls_ranks_format(others, sizeof others, all_ranks, all_count);
    return LS_FAIL_RANK(LS_ERR_MISMATCH, tensor->ranks[index],
                        "rank %d has %s (bits %0*" PRIx64 ") at element %s, rank %d has %s (bits "
                        "%0*" PRIx64 "); %zu of %zu elements differ; different from rank %d: %s",
                        tensor->ranks[0], x_text, (int)bytes * 2,
                        ls_element__bits(x, tensor->dtype), at, tensor->ranks[index], y_text,
                        (int)bytes * 2, ls_element__bits(y, tensor->dtype), differing, a->count,
                        tensor->ranks[0], others);
}

static int check_same_shapes(const ls_local_tensor *tensor) {
    const ls_shape *first = &tensor->shards[0].block.size;
    for (int i = 1; i < tensor->rank_count; i++) {
        const ls_shape *other = &tensor->shards[i].block.size;
        if (!ls_shape_equal(first, other)) {
            char a[LS_SHAPE_TEXT_MAX];
            char b[LS_SHAPE_TEXT_MAX];
            ls_shape_format(a, sizeof a, first);
            ls_shape_format(b, sizeof b, other);
            return LS_FAIL_RANK(LS_ERR_MISMATCH, tensor->ranks[i],
                                "rank %d has the shape %s, rank %d %s", tensor->ranks[0], a,
                                tensor->ranks[i], b);
        }
    }
    return LS_OK;
}

static int check_same_values(const ls_local_tensor *tensor, int *scratch) {
    int first_index = -1;
    size_t first_element = 0;
    size_t first_differing = 0;
    int count = 0;
    for (int i = 1; i < tensor->rank_count; i++) {
        size_t element = 0;
        size_t differing =
            count_differing(&element, &tensor->shards[0], &tensor->shards[i], tensor->dtype);
        if (differing == 0) {
            continue;
        }
        if (count == 0) {
            first_index = i;
            first_element = element;
            first_differing = differing;
        }
        scratch[count++] = tensor->ranks[i];
    }
    if (count == 0) {
        return LS_OK;
    }
    return differ_error(tensor, first_index, first_element, first_differing, scratch, count);
}

int ls_local_tensor_reconcile(void *out, const ls_local_tensor *tensor) {
    if (tensor->rank_count == 0) {
        return LS_FAIL(LS_ERR_INVALID, "no rank here holds a shard to reconcile");
    }
    LS_TRY(ls_local_tensor__check_single(tensor));
    LS_TRY(check_same_shapes(tensor));
    void *scratch = NULL;
    size_t rank_count = (size_t)tensor->rank_count;
    LS_TRY(ls_alloc(&scratch, tensor->world->allocator, rank_count, sizeof(int)));
    int status = check_same_values(tensor, scratch);
    ls_free(tensor->world->allocator, scratch, rank_count, sizeof(int));
    const ls_shard *first = &tensor->shards[0];
    if (status == LS_OK && out != NULL && first->count != 0) {
        memcpy(out, first->data, first->count * ls_dtype_bytes(tensor->dtype));
    }
    return status;
}
