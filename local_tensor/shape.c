// Shapes and blocks: counting, comparing, printing, and the strided copy under everything that cuts
// or joins tensors.
#include "local_tensor/internal.h"

#include <inttypes.h>
#include <string.h>

int ls_shape_count(size_t *out, const ls_shape *shape) {
    if (shape->ndim < 0 || shape->ndim > LS_DIMS_MAX) {
        return LS_FAIL(LS_ERR_INVALID, "a shape has %d dimensions; 0 to %d are possible",
                       shape->ndim, LS_DIMS_MAX);
    }
    bool empty = false;
    for (int d = 0; d < shape->ndim; d++) {
        if (shape->dim[d] < 0) {
            return LS_FAIL(LS_ERR_INVALID, "dimension %d has the negative size %" PRId64, d,
                           shape->dim[d]);
        }
        empty = empty || shape->dim[d] == 0;
    }
    int64_t count = empty ? 0 : 1;
    for (int d = 0; d < shape->ndim && !empty; d++) {
        if (__builtin_mul_overflow(count, shape->dim[d], &count)) {
            char text[LS_SHAPE_TEXT_MAX];
            ls_shape_format(text, sizeof text, shape);
            return LS_FAIL(LS_ERR_OVERFLOW, "the shape %s has more than 2^63 - 1 elements", text);
        }
    }
    *out = (size_t)count;
    return LS_OK;
}

bool ls_shape_equal(const ls_shape *a, const ls_shape *b) {
    if (a->ndim != b->ndim) {
        return false;
    }
    for (int d = 0; d < a->ndim; d++) {
        if (a->dim[d] != b->dim[d]) {
            return false;
        }
    }
    return true;
}

void ls_shape_format(char *out, size_t out_bytes, const ls_shape *shape) {
    LS_ASSERT(out_bytes >= 1);
    LS_ASSERT(shape->ndim >= 0 && shape->ndim <= LS_DIMS_MAX);
    char text[LS_SHAPE_TEXT_MAX] = "[";
    size_t length = 1;
    for (int d = 0; d < shape->ndim; d++) {
        int n = snprintf(text + length, sizeof text - length, "%s%" PRId64, d > 0 ? ", " : "",
                         shape->dim[d]);
        LS_ASSERT(n > 0);
        length += (size_t)n;
    }
    LS_ASSERT(length + 1 < sizeof text);
    text[length] = ']';
    (void)snprintf(out, out_bytes, "%s", text);
}

void ls_shape__format_index(char *out, size_t out_bytes, const ls_shape *shape, size_t index) {
    ls_shape at = {.ndim = shape->ndim};
    for (int d = shape->ndim - 1; d >= 0; d--) {
        at.dim[d] = (int64_t)(index % (size_t)shape->dim[d]);
        index /= (size_t)shape->dim[d];
    }
    LS_ASSERT(index == 0);
    ls_shape_format(out, out_bytes, &at);
}

int ls_shape__dim(int *out, int ndim, int dim) {
    if (dim < -ndim || dim >= ndim) {
        return LS_FAIL(LS_ERR_INVALID, "dimension %d does not exist in a tensor of %d dimension%s",
                       dim, ndim, ndim == 1 ? "" : "s");
    }
    *out = dim < 0 ? dim + ndim : dim;
    return LS_OK;
}

void ls_shape__strides(int64_t *out, const ls_shape *shape) {
    int64_t stride = 1;
    for (int d = shape->ndim - 1; d >= 0; d--) {
        out[d] = stride;
        // An empty array's strides are never used, so they need not be meaningful past a 0.
        stride *= shape->dim[d] != 0 ? shape->dim[d] : 1;
    }
}

// Copies `count` elements between strided vectors.
static void copy_vector(char *to, int64_t to_step, const char *from, int64_t from_step,
                        int64_t count, size_t bytes) {
    for (int64_t i = 0; i < count; i++) {
        memcpy(to, from, bytes);
        to += to_step;
        from += from_step;
    }
}

void ls_shape__copy(void *to, const int64_t *to_stride, const void *from,
                    const int64_t *from_stride, const ls_shape *size, size_t element_bytes) {
    int ndim = size->ndim;
    for (int d = 0; d < ndim; d++) {
        if (size->dim[d] == 0) {
            return;
        }
    }
    // Trailing dimensions that are contiguous on both sides become one run of bytes.
    size_t run = 1;
    while (ndim > 0 && to_stride[ndim - 1] == (int64_t)run &&
           from_stride[ndim - 1] == (int64_t)run) {
        run *= (size_t)size->dim[ndim - 1];
        ndim -= 1;
    }
    size_t run_bytes = run * element_bytes;
    if (ndim == 0) {
        memcpy(to, from, run_bytes);
        return;
    }
    // The innermost remaining dimension is a plain loop; an odometer turns the outer ones.
    int64_t inner = size->dim[ndim - 1];
    int64_t to_step = to_stride[ndim - 1] * (int64_t)element_bytes;
    int64_t from_step = from_stride[ndim - 1] * (int64_t)element_bytes;
    char *out = to;
    const char *in = from;
    int64_t at[LS_DIMS_MAX] = {0};
    for (;;) {
        copy_vector(out, to_step, in, from_step, inner, run_bytes);
        int d = ndim - 2;
        for (; d >= 0; d--) {
            out += to_stride[d] * (int64_t)element_bytes;
            in += from_stride[d] * (int64_t)element_bytes;
            if (++at[d] < size->dim[d]) {
                break;
            }
            out -= at[d] * to_stride[d] * (int64_t)element_bytes;
            in -= at[d] * from_stride[d] * (int64_t)element_bytes;
            at[d] = 0;
        }
        if (d < 0) {
            return;
        }
    }
}

size_t ls_block_intersect(ls_block *out, const ls_block *a, const ls_block *b) {
    int ndim = a->size.ndim;
    LS_ASSERT(ndim == b->size.ndim && ndim == a->offset.ndim && ndim == b->offset.ndim);
    ls_block common = {.offset.ndim = ndim, .size.ndim = ndim};
    size_t count = 1;
    for (int d = 0; d < ndim; d++) {
        int64_t a_start = a->offset.dim[d];
        int64_t b_start = b->offset.dim[d];
        int64_t start = a_start > b_start ? a_start : b_start;
        int64_t a_end = a_start + a->size.dim[d];
        int64_t b_end = b_start + b->size.dim[d];
        int64_t end = a_end < b_end ? a_end : b_end;
        common.offset.dim[d] = start;
        common.size.dim[d] = end > start ? end - start : 0;
        count *= (size_t)common.size.dim[d];
    }
    if (count == 0) {
        memset(common.size.dim, 0, sizeof common.size.dim);
    }
    *out = common;
    return count;
}

size_t ls_block_copy(void *to, const ls_block *to_block, const void *from,
                     const ls_block *from_block, size_t element_bytes) {
    ls_block common;
    size_t count = ls_block_intersect(&common, to_block, from_block);
    if (count == 0) {
        return 0;
    }
    int64_t to_stride[LS_DIMS_MAX];
    int64_t from_stride[LS_DIMS_MAX];
    ls_shape__strides(to_stride, &to_block->size);
    ls_shape__strides(from_stride, &from_block->size);
    int64_t to_start = 0;
    int64_t from_start = 0;
    for (int d = 0; d < common.size.ndim; d++) {
        to_start += (common.offset.dim[d] - to_block->offset.dim[d]) * to_stride[d];
        from_start += (common.offset.dim[d] - from_block->offset.dim[d]) * from_stride[d];
    }
    ls_shape__copy((char *)to + (size_t)to_start * element_bytes, to_stride,
                   (const char *)from + (size_t)from_start * element_bytes, from_stride,
                   &common.size, element_bytes);
    return count;
}

uint64_t ls_shape__position(const ls_shape *shape, const ls_block *block, size_t index) {
    uint64_t at = 0, stride = 1;
    for (int d = shape->ndim; d-- > 0;) {
        size_t size = (size_t)block->size.dim[d];
        at += (index % size + (size_t)block->offset.dim[d]) * stride;
        index /= size;
        stride *= (uint64_t)shape->dim[d];
    }
    return at;
}
