// The rows of captured tensors.
#include "runner/diff/rows.h"

#include <stdlib.h>
#include <string.h>

static int by_bytes(const void *a, const void *b) {
    const ls_diff_row *x = a, *y = b;
    int order = memcmp(x->at, y->at, x->bytes);
    return order != 0 ? order : (x->index > y->index) - (x->index < y->index);
}

int ls_diff__sort_rows(ls_diff_row **out, ls_arena *arena, const char *const *at, size_t count,
                       size_t bytes) {
    *out = ls_arena_alloc(arena, count + 1, sizeof **out);
    LS_TRY_MEMORY(*out != NULL);
    for (size_t i = 0; i < count; i++) {
        (*out)[i] = (ls_diff_row){at[i], bytes, i};
    }
    qsort(*out, count, sizeof **out, by_bytes);
    return LS_OK;
}

int ls_diff__cut_dim(const ls_diff_pair *pair) {
    const ls_assembled *of = &pair->run;
    if (of->of->has_placements || of->of->pieces[0].placed || of->of->said_count < 2 ||
        of->terms > 1 || pair->ref.copies > 1 || of->count == 0) {
        return -1;
    }
    for (int p = 0; p < of->piece_count; p++) {
        for (int d = 0; d < of->shape.ndim; d++) {
            if (of->pieces[p].local.dim[d] != of->shape.dim[d]) {
                return d;
            }
        }
    }
    return of->piece_count == 1 && of->shape.ndim > 0 ? 0 : -1;
}

// *out [rows]: the rows of a tensor; each `outer` blocks of `inner` bytes, copied together.
static int collect_rows(const char ***out, ls_arena *arena, const char *whole, size_t outer,
                        size_t rows, size_t inner) {
    char *copy = outer > 1 ? ls_arena_alloc_raw(arena, outer * rows, inner) : NULL;
    *out = ls_arena_alloc(arena, rows + 1, sizeof **out);
    LS_TRY_MEMORY(*out != NULL && (outer <= 1 || copy != NULL));
    for (size_t i = 0; i < rows; i++) {
        (*out)[i] = outer > 1 ? copy + i * outer * inner : whole + i * inner;
        for (size_t o = 0; outer > 1 && o < outer; o++) {
            memcpy(copy + (i * outer + o) * inner, whole + (o * rows + i) * inner, inner);
        }
    }
    return LS_OK;
}

int ls_diff__rows(ls_diff_rows *out, ls_arena *arena, const ls_diff_pair *pair, int dim) {
    const ls_assembled *of = &pair->run;
    size_t outer = 1, first = 0;
    for (int d = 0; d < dim; d++) {
        outer *= (size_t)of->shape.dim[d];
    }
    *out = (ls_diff_rows){.dtype = of->dtype, .count = (size_t)of->shape.dim[dim]};
    out->bytes = of->count / out->count * ls_dtype_bytes(of->dtype);
    const char **whole = NULL;
    LS_TRY(collect_rows(&whole, arena, of->whole[0], outer, out->count, out->bytes / outer));
    LS_TRY(
        collect_rows(&out->ref, arena, pair->ref.whole[0], outer, out->count, out->bytes / outer));
    out->at = ls_arena_alloc(arena, out->count + 1, sizeof *out->at);
    out->place = ls_arena_alloc(arena, out->count + 1, sizeof *out->place);
    out->of_part = ls_arena_alloc(arena, (size_t)of->piece_count, sizeof *out->of_part);
    out->ranks = ls_arena_alloc(arena, (size_t)of->piece_count, sizeof *out->ranks);
    LS_TRY_MEMORY(out->at != NULL && out->place != NULL && out->of_part != NULL &&
                  out->ranks != NULL);
    for (int p = 0; p < of->piece_count; p++) {
        const ls_assembled_piece *piece = &of->pieces[p];
        for (size_t b = 0; piece->copy == 0 && b < piece->block_count; b++) {
            size_t local = first + (size_t)piece->within[b].offset.dim[dim];
            size_t place = (size_t)piece->blocks[b].offset.dim[dim];
            for (size_t i = 0; i < (size_t)piece->blocks[b].size.dim[dim]; i++) {
                out->at[local + i] = whole[place + i];
                out->place[local + i] = place + i;
            }
        }
        if (piece->copy == 0) {
            out->ranks[out->parts] = piece->rank;
            out->of_part[out->parts++] = (size_t)piece->local.dim[dim];
            first += (size_t)piece->local.dim[dim];
        }
    }
    LS_ASSERT(first == out->count);
    return LS_OK;
}
