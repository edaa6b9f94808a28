// Assembles captured tensors.
#include "runner/diff/assemble.h"

#include <string.h>

#include "kernels/kernels.h"
#include "orders/order.h"
#include "runner/diff/diff_internal.h"
#include "runner/diff/field.h"

static size_t elements(const ls_shape *shape) {
    size_t count = 1;
    for (int d = 0; d < shape->ndim; d++) {
        count *= (size_t)shape->dim[d];
    }
    return count;
}

static const ls_capture_piece *piece_of_rank(const ls_captured *tensor, int rank) {
    for (int i = 0; i < tensor->piece_count; i++) {
        if (tensor->pieces[i].rank == rank) {
            return &tensor->pieces[i];
        }
    }
    return NULL;
}

// Ranks that record offsets may overlap, and must agree there. covered [elements of the whole] is
// set where a rank has data; block, in the whole, is at `at`.
static int cover(size_t *covered_count, unsigned char *covered, ls_assembled *out,
                 ls_arena *scratch, const ls_assembled_piece *piece, const char *block) {
    const ls_block all = {{.ndim = out->shape.ndim}, out->shape}, *at = &piece->blocks[0];
    size_t count = elements(&at->size), bytes = ls_dtype_bytes(out->dtype);
    unsigned char *seen = ls_arena_alloc(scratch, count + 1, 1);
    char *before = ls_arena_alloc(scratch, count + 1, bytes);
    LS_TRY_MEMORY(seen != NULL && before != NULL);
    (void)ls_block_copy(seen, at, covered, &all, 1);
    (void)ls_block_copy(before, at, out->whole[0], &all, bytes);
    for (size_t i = 0; i < count; i++) {
        if (seen[i] != 0 && memcmp(before + i * bytes, block + i * bytes, bytes) != 0) {
            return LS_FAIL(LS_ERR_MISMATCH,
                           "the part of rank %d overlaps another rank's, which has other values",
                           piece->rank);
        }
        *covered_count += seen[i] == 0 ? 1 : 0;
        seen[i] = 1;
    }
    (void)ls_block_copy(covered, &all, seen, at, 1);
    return LS_OK;
}

// Multiplies written values by their factor, in the tensor's type.
static void scale(char *values, size_t count, const ls_captured *of) {
    size_t bytes = ls_dtype_bytes(of->dtype);
    for (size_t i = 0; of->scale != 1 && i < count; i++) {
        char *at = values + i * bytes;
        ls_element_from_f64(at, of->dtype, ls_element_to_f64(at, of->dtype) * of->scale);
    }
}

// Copies a piece into its whole; *covered: elements. map: see cover(); NULL: pieces do not overlap.
static int read_piece(size_t *covered, unsigned char *map, ls_assembled *out, ls_arena *scratch,
                      const ls_assembled_piece *at) {
    const ls_capture_piece *piece = piece_of_rank(out->of, at->rank);
    size_t bytes = ls_dtype_bytes(out->dtype);
    const ls_block all = {{.ndim = out->shape.ndim}, out->shape};
    size_t wanted = 0;
    for (size_t b = 0; b < at->block_count; b++) {
        wanted += elements(&at->blocks[b].size);
        for (int d = 0; d < out->shape.ndim; d++) {
            if (at->blocks[b].offset.dim[d] > out->shape.dim[d] - at->blocks[b].size.dim[d]) {
                return LS_FAIL(LS_ERR_MISMATCH, "the part of rank %d lies outside of the whole",
                               at->rank);
            }
        }
    }
    if (piece->at->count == 0 && wanted == 0) {
        return LS_OK;
    }
    if (piece->at->count != wanted || piece->size.ndim != out->shape.ndim) {
        char local[LS_SHAPE_TEXT_MAX];
        ls_shape_format(local, sizeof local, &piece->size);
        return LS_FAIL(LS_ERR_MISMATCH, "rank %d has %s where its placements give it %zu elements",
                       at->rank, local, wanted);
    }
    char *local = ls_arena_alloc_raw(scratch, piece->at->count + 1, bytes);
    char *block = ls_arena_alloc_raw(scratch, piece->at->count + 1, bytes);
    LS_TRY_MEMORY(local != NULL && block != NULL);
    LS_TRY(ls_capture_read(local, piece));
    scale(local, piece->at->count, out->of);
    const ls_block own = {{.ndim = out->shape.ndim}, piece->size};
    for (size_t b = 0; b < at->block_count; b++) {
        (void)ls_block_copy(block, &at->within[b], local, &own, bytes);
        LS_TRY(map != NULL ? cover(covered, map, out, scratch, at, block) : LS_OK);
        size_t copied = ls_block_copy(out->whole[at->copy * out->terms + at->term], &all, block,
                                      &at->blocks[b], bytes);
        *covered += map == NULL ? copied : 0;
    }
    return LS_OK;
}

static int read_values(ls_assembled *out, ls_arena *arena) {
    size_t wholes = (size_t)out->copies * (size_t)out->terms, covered = 0, bytes = 0;
    ls_arena *scratch = NULL;
    LS_TRY(ls_shape_count(&out->count, &out->shape));
    LS_TRY(ls_size_mul(&bytes, out->count, ls_dtype_bytes(out->dtype)));
    for (int i = 0; i < out->piece_count; i++) {
        if (piece_of_rank(out->of, out->pieces[i].rank) == NULL) {
            return LS_FAIL(LS_ERR_MISMATCH, "rank %d has no part of it", out->pieces[i].rank);
        }
    }
    // Limits memory to the size that the existing parts justify.
    size_t held = 0, wanted = 0;
    for (int i = 0; i < out->of->piece_count; i++) {
        held += out->of->pieces[i].at->count;
    }
    LS_TRY(ls_size_mul(&wanted, out->count, wholes));
    if (wanted > held) {
        return LS_FAIL(LS_ERR_MISMATCH, "the ranks have %zu elements of its %zu", held, wanted);
    }
    out->whole = ls_arena_alloc(arena, wholes, sizeof *out->whole);
    for (size_t i = 0; out->whole != NULL && i < wholes; i++) {
        out->whole[i] = ls_arena_alloc(arena, bytes + 1, 1);
        LS_TRY_MEMORY(out->whole[i] != NULL);
    }
    bool may_overlap = !out->of->has_placements && out->of->pieces[0].placed;
    unsigned char *map = may_overlap ? ls_arena_alloc(arena, out->count + 1, 1) : NULL;
    int status = out->whole == NULL || (may_overlap && map == NULL) ? LS_ERR_MEMORY : LS_OK;
    for (int i = 0; status == LS_OK && i < out->piece_count; i++) {
        out->pieces[i].local = piece_of_rank(out->of, out->pieces[i].rank)->size;
        LS_TRY(ls_arena_create(&scratch));
        status = read_piece(&covered, map, out, scratch, &out->pieces[i]);
        ls_arena_free(scratch);
    }
    if (status == LS_OK && covered != wanted) {
        return LS_FAIL(LS_ERR_MISMATCH, "the ranks' parts cover %zu of its %zu elements", covered,
                       wanted);
    }
    return status;
}

int ls_assemble(ls_assembled *out, ls_arena *arena, const ls_captured *tensor,
                const ls_shape *like) {
    LS_ASSERT(tensor->piece_count > 0);
    *out =
        (ls_assembled){.of = tensor, .dtype = tensor->dtype, .copies = 1, .terms = 1, .op = LS_SUM};
    if (tensor->otherwise != NULL) {
        return LS_FAIL(LS_ERR_MISMATCH, "%s", tensor->otherwise);
    }
    LS_TRY(ls_diff__place(out, arena, like));
    if (tensor->modulus > 0 && out->terms > 1 && out->op != LS_SUM && out->op != LS_AVG) {
        return LS_FAIL(LS_ERR_MISMATCH, "it is a %s of parts, which a field does not have",
                       ls_op_name(out->op));
    }
    return read_values(out, arena);
}

int ls_assembled_value(const void **value, ls_arena *arena, const ls_assembled *tensor, int copy) {
    LS_ASSERT(copy >= 0 && copy < tensor->copies);
    const void *const *terms = (const void *const *)&tensor->whole[copy * tensor->terms];
    *value = terms[0];
    if (tensor->terms == 1) {
        return LS_OK;
    }
    void *sum = ls_arena_alloc(arena, tensor->count + 1, ls_dtype_bytes(tensor->dtype));
    LS_TRY_MEMORY(sum != NULL);
    const ls_reduction reduction = {.in = terms,
                                    .in_count = tensor->terms,
                                    .dtype = tensor->dtype,
                                    .op = tensor->op,
                                    .count = tensor->count};
    *value = sum;
    if (tensor->of->modulus > 0) {
        ls_diff__field_sum(sum, terms, tensor);
        return LS_OK;
    }
    return ls_order_reduce(NULL, LS_ORDER_ALL_REDUCE, sum, &reduction, 0, 0, tensor->count);
}

int ls_assembled_cut(const void **out, ls_arena *arena, const ls_assembled *tensor,
                     const ls_assembled_piece *piece, const void *whole, size_t element_bytes) {
    size_t count = elements(&piece->local);
    if (piece->block_count == 1 && count == tensor->count) {
        *out = whole;  // the piece is the whole
        return LS_OK;
    }
    const ls_block all = {{.ndim = tensor->shape.ndim}, tensor->shape};
    const ls_block own = {{.ndim = tensor->shape.ndim}, piece->local};
    char *local = ls_arena_alloc(arena, count + 1, element_bytes);
    char *block = ls_arena_alloc(arena, count + 1, element_bytes);
    LS_TRY_MEMORY(local != NULL && block != NULL);
    for (size_t b = 0; b < piece->block_count; b++) {
        (void)ls_block_copy(block, &piece->blocks[b], whole, &all, element_bytes);
        (void)ls_block_copy(local, &own, block, &piece->within[b], element_bytes);
    }
    *out = local;
    return LS_OK;
}

size_t ls_assembled_position(const ls_assembled *tensor, const ls_assembled_piece *piece,
                             size_t element) {
    size_t index[LS_DIMS_MAX] = {0}, position = 0;
    for (int d = piece->local.ndim - 1; d >= 0; d--) {
        index[d] = element % (size_t)piece->local.dim[d];
        element /= (size_t)piece->local.dim[d];
    }
    for (size_t b = 0; b < piece->block_count; b++) {
        const ls_block *within = &piece->within[b];
        bool inside = true;
        for (int d = 0; d < piece->local.ndim; d++) {
            size_t start = (size_t)within->offset.dim[d];
            inside = inside && index[d] >= start && index[d] < start + (size_t)within->size.dim[d];
        }
        if (!inside) {
            continue;
        }
        for (int d = 0; d < tensor->shape.ndim; d++) {
            position = position * (size_t)tensor->shape.dim[d] +
                       (size_t)piece->blocks[b].offset.dim[d] + index[d] -
                       (size_t)within->offset.dim[d];
        }
        return position;
    }
    LS_ASSERT(false);
    return 0;
}
