// Whether all ranks hold the same values, bit for bit; and if not, where and on which ranks.
#include "local_tensor/internal.h"

#include <inttypes.h>
#include <string.h>

static bool is_nan(uint64_t bits, ls_dtype dtype) {
    uint64_t sign = UINT64_C(1) << (8 * ls_dtype_bytes(dtype) - 1);
    return ls_dtype_is_float(dtype) && (bits & (sign - 1)) > ls_dtype_format(dtype).top_bits;
}

// Counts the elements that differ and finds the first.
static size_t count_differing(size_t *first, const ls_shard *a, const ls_shard *b, ls_dtype dtype) {
    size_t bytes = ls_dtype_bytes(dtype);
    size_t differing = 0;
    if (a->count == 0 || memcmp(a->data, b->data, a->count * bytes) == 0) {
        return 0;
    }
    for (size_t i = 0; i < a->count; i++) {
        uint64_t x = ls_element_bits((const char *)a->data + i * bytes, dtype);
        uint64_t y = ls_element_bits((const char *)b->data + i * bytes, dtype);
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
    ls_element_format(x_text, sizeof x_text, x, tensor->dtype);
    ls_element_format(y_text, sizeof y_text, y, tensor->dtype);
    ls_ranks_format(others, sizeof others, all_ranks, all_count);
    return LS_FAIL_RANK(LS_ERR_MISMATCH, tensor->ranks[index],
                        "rank %d has %s (bits %0*" PRIx64 ") at element %s, rank %d has %s (bits "
                        "%0*" PRIx64 "); %zu of %zu elements differ; different from rank %d: %s",
                        tensor->ranks[0], x_text, (int)bytes * 2, ls_element_bits(x, tensor->dtype),
                        at, tensor->ranks[index], y_text, (int)bytes * 2,
                        ls_element_bits(y, tensor->dtype), differing, a->count, tensor->ranks[0],
                        others);
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
    LS_TRY(ls_alloc(&scratch, rank_count, sizeof(int)));
    int status = check_same_values(tensor, scratch);
    ls_free(scratch, rank_count, sizeof(int));
    const ls_shard *first = &tensor->shards[0];
    if (status == LS_OK && out != NULL && first->count != 0) {
        memcpy(out, first->data, first->count * ls_dtype_bytes(tensor->dtype));
    }
    return status;
}

// ---- Replicas -----------------------------------------------------------------------------------
// A number that is equal on ranks which differ only in replicated mesh dimensions.
static int group_of(const ls_local_tensor *tensor, int rank) {
    const ls_mesh *mesh = &tensor->world->mesh;
    int coordinates[LS_MESH_DIMS_MAX];
    ls_mesh_coordinates(coordinates, mesh, rank);
    for (int axis = 0; axis < mesh->ndim; axis++) {
        if (tensor->placements.at[axis].kind == LS_PLACE_REPLICATE) {
            coordinates[axis] = 0;
        }
    }
    return ls_mesh_rank(mesh, coordinates);
}

// The first shard in which two ranks (indices) differ; -1: none.
static int first_differing(const ls_local_tensor *tensor, int a, int b) {
    size_t shards = tensor->first[a + 1] - tensor->first[a];
    LS_ASSERT(tensor->first[b + 1] - tensor->first[b] == shards);  // their placements are the same
    for (size_t k = 0; k < shards; k++) {
        size_t element = 0;
        const ls_shard *x = &tensor->shards[tensor->first[a] + k];
        const ls_shard *y = &tensor->shards[tensor->first[b] + k];
        if (x->count != y->count || count_differing(&element, x, y, tensor->dtype) != 0) {
            return (int)k;
        }
    }
    return -1;
}

static bool same_bits(const ls_local_tensor *tensor, int a, int b) {
    return first_differing(tensor, a, b) < 0;
}

static int diverged_error(const ls_local_tensor *tensor, int wrong, int right, int wrong_count,
                          int size) {
    int shard = first_differing(tensor, wrong, right);
    const ls_shard *a = ls_local_tensor_shard(tensor, tensor->ranks[wrong], shard);
    const ls_shard *b = ls_local_tensor_shard(tensor, tensor->ranks[right], shard);
    size_t element = 0;
    size_t bytes = ls_dtype_bytes(tensor->dtype);
    if (a->count != b->count) {
        return LS_FAIL_RANK(LS_ERR_MISMATCH, tensor->ranks[wrong],
                            "replicas differ: rank %d holds %zu elements, rank %d %zu",
                            tensor->ranks[wrong], a->count, tensor->ranks[right], b->count);
    }
    size_t differing = count_differing(&element, a, b, tensor->dtype);
    const char *x = (const char *)a->data + element * bytes;
    const char *y = (const char *)b->data + element * bytes;
    char at[LS_SHAPE_TEXT_MAX];
    char x_text[LS_ELEMENT_TEXT_MAX];
    char y_text[LS_ELEMENT_TEXT_MAX];
    ls_shape__format_index(at, sizeof at, &a->block.size, element);
    ls_element_format(x_text, sizeof x_text, x, tensor->dtype);
    ls_element_format(y_text, sizeof y_text, y, tensor->dtype);
    return LS_FAIL_RANK(
        LS_ERR_MISMATCH, tensor->ranks[wrong],
        "replicas differ: element %s is %s (bits %0*" PRIx64 ") on rank %d, %s "
        "(bits %0*" PRIx64 ") on rank %d%s; %zu of %zu elements differ, on %d of "
        "%d ranks",
        at, x_text, (int)bytes * 2, ls_element_bits(x, tensor->dtype), tensor->ranks[wrong], y_text,
        (int)bytes * 2, ls_element_bits(y, tensor->dtype), tensor->ranks[right],
        2 * wrong_count < size ? ", as on most" : "", differing, a->count, wrong_count, size);
}

// The members [size] of one group, indices of held ranks.
static int check_group(int *wrong, int *wrong_count, const ls_local_tensor *tensor,
                       const int *members, int size) {
    int right = members[0], votes = 0, count = 0, first = -1;
    bool same = true;
    for (int i = 1; i < size && same; i++) {
        same = same_bits(tensor, members[i], members[0]);
    }
    if (same) {
        return LS_OK;
    }
    for (int i = 0; i < size; i++) {
        right = votes == 0 ? members[i] : right;
        votes += same_bits(tensor, members[i], right) ? 1 : -1;
    }
    for (int i = 0; i < size; i++) {
        count += same_bits(tensor, members[i], right) ? 1 : 0;
    }
    right = 2 * count > size ? right : members[0];
    for (int i = 0; i < size; i++) {
        if (!same_bits(tensor, members[i], right)) {
            first = first < 0 ? members[i] : first;
            wrong[(*wrong_count)++] = tensor->ranks[members[i]];
        }
    }
    return diverged_error(tensor, first, right, *wrong_count, size);
}

int ls_local_tensor_check_replicas(int *wrong, int *wrong_count, const ls_local_tensor *tensor) {
    *wrong_count = 0;
    if (!tensor->has_placements || tensor->rank_count == 0) {
        return LS_OK;
    }
    size_t held = (size_t)tensor->rank_count;
    void *memory = NULL;
    LS_TRY(ls_alloc(&memory, 2 * held, sizeof(int)));
    int *group = memory, *members = group + held, status = LS_OK;
    for (int i = 0; i < tensor->rank_count; i++) {
        group[i] = group_of(tensor, tensor->ranks[i]);
    }
    for (int i = 0; i < tensor->rank_count && status == LS_OK; i++) {
        int size = 0;
        for (int k = i; group[i] >= 0 && k < tensor->rank_count; k++) {
            if (group[k] == group[i]) {
                members[size++] = k;
            }
        }
        if (size > 1) {
            status = check_group(wrong, wrong_count, tensor, members, size);
        }
        for (int k = 0; k < size; k++) {
            group[members[k]] = -1;
        }
    }
    ls_free(memory, 2 * held, sizeof(int));
    return status;
}
