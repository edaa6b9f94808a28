// Puts captured tensors together.
#include "runner/diff/assemble.h"

#include <string.h>

#include "orders/order.h"

static size_t elements(const ls_shape *shape) {
    size_t count = 1;
    for (int d = 0; d < shape->ndim; d++) {
        count *= (size_t)shape->dim[d];
    }
    return count;
}

// ---- Where each rank's part lies ----------------------------------------------------------------
static int set_blocks(ls_assembled_piece *piece, ls_arena *arena, const ls_block *blocks,
                      size_t count) {
    ls_block *kept = ls_arena_copy(arena, blocks, count * sizeof *blocks);
    ls_block *within = ls_arena_alloc(arena, count, sizeof *within);
    if (kept == NULL || within == NULL) {
        return LS_ERR_MEMORY;
    }
    // Blocks come in the order of the whole; in what the rank has they follow one another along
    // each dimension.
    for (size_t b = 0; b < count; b++) {
        within[b].size = blocks[b].size;
        within[b].offset.ndim = blocks[b].offset.ndim;
        for (int d = 0; d < blocks[b].offset.ndim; d++) {
            for (size_t k = 0; k < count; k++) {
                int64_t start = blocks[k].offset.dim[d];
                bool is_new = true;
                for (size_t j = 0; j < k; j++) {
                    is_new = is_new && blocks[j].offset.dim[d] != start;
                }
                if (is_new && start < blocks[b].offset.dim[d]) {
                    within[b].offset.dim[d] += blocks[k].size.dim[d];
                }
            }
        }
    }
    piece->blocks = kept;
    piece->within = within;
    piece->block_count = count;
    return LS_OK;
}

static int set_block(ls_assembled_piece *piece, ls_arena *arena, const ls_shape *offset,
                     const ls_shape *size) {
    return set_blocks(piece, arena, &(ls_block){*offset, *size}, 1);
}

// Rows [start, start + size) of the ranks' rows, each where the batch has it.
static int set_dealt(ls_assembled_piece *piece, ls_arena *arena, const ls_deal *deal,
                     const ls_shape *whole, int64_t start, const ls_shape *size) {
    int64_t unit = whole->dim[0] / (int64_t)deal->count;
    size_t count = (size_t)(size->dim[0] / unit);
    ls_block *blocks = ls_arena_alloc(arena, count + 1, sizeof *blocks);
    ls_block *within = ls_arena_alloc(arena, count + 1, sizeof *within);
    if (blocks == NULL || within == NULL) {
        return LS_ERR_MEMORY;
    }
    for (size_t i = 0; i < count; i++) {
        ls_shape part = *size, offset = {.ndim = size->ndim};
        part.dim[0] = unit;
        offset.dim[0] = (int64_t)i * unit;
        within[i] = (ls_block){offset, part};
        offset.dim[0] = (int64_t)deal->row[(size_t)(start / unit) + i] * unit;
        blocks[i] = (ls_block){offset, part};
    }
    piece->blocks = blocks;
    piece->within = within;
    piece->block_count = count;
    return LS_OK;
}

// Whether the rows of each rank are whole samples of the batch that was dealt.
static bool is_dealt(const ls_captured *tensor, const ls_shape *whole, int dim) {
    bool fits = tensor->deal != NULL && dim == 0 && whole->dim[0] > 0 &&
                whole->dim[0] % (int64_t)tensor->deal->count == 0;
    int64_t unit = fits ? whole->dim[0] / (int64_t)tensor->deal->count : 1;
    for (int i = 0; i < tensor->piece_count; i++) {
        fits = fits && tensor->pieces[i].size.dim[0] % unit == 0;
    }
    return fits;
}

static const ls_capture_piece *piece_of_rank(const ls_captured *tensor, int rank) {
    for (int i = 0; i < tensor->piece_count; i++) {
        if (tensor->pieces[i].rank == rank) {
            return &tensor->pieces[i];
        }
    }
    return NULL;
}

// The numbers of a rank's copy and term: its coordinates in the mesh dimensions that replicate, and
// in those that are partial.
static void number_piece(ls_assembled_piece *piece, const ls_captured *tensor, int index) {
    int at[LS_MESH_DIMS_MAX];
    ls_mesh_coordinates(at, &tensor->mesh, index);
    for (int d = 0; d < tensor->mesh.ndim; d++) {
        ls_placement_kind kind = tensor->placements.at[d].kind;
        if (kind == LS_PLACE_REPLICATE) {
            piece->copy = piece->copy * tensor->mesh.dim[d] + at[d];
        } else if (kind == LS_PLACE_PARTIAL) {
            piece->term = piece->term * tensor->mesh.dim[d] + at[d];
        }
    }
}

// The whole's sizes where nothing says them, of even shards.
static int whole_of(ls_shape *out, const ls_captured *tensor) {
    *out = tensor->pieces[0].size;
    for (int d = 0; d < tensor->mesh.ndim; d++) {
        const ls_placement *at = &tensor->placements.at[d];
        int dim = at->dim < 0 ? at->dim + out->ndim : at->dim;
        if (at->kind != LS_PLACE_SHARD) {
            continue;
        }
        if (dim < 0 || dim >= out->ndim) {
            return LS_FAIL(LS_ERR_MISMATCH, "its placements shard dimension %d of %d", at->dim,
                           out->ndim);
        }
        if (__builtin_mul_overflow(out->dim[dim], (int64_t)tensor->mesh.dim[d], &out->dim[dim])) {
            return LS_FAIL(LS_ERR_MISMATCH, "its sizes overflow");
        }
    }
    return LS_OK;
}

// A rank that is in no mesh of a tensor has nothing of it.
static int check_meshes(const ls_captured *tensor, int size) {
    for (int p = 0; p < tensor->piece_count; p++) {
        const ls_capture_piece *piece = &tensor->pieces[p];
        bool inside = piece->at->count == 0;
        for (int i = 0; i < tensor->mesh_count * size && !inside; i++) {
            inside = tensor->mesh_ranks[i] == piece->rank;
        }
        if (!inside) {
            return LS_FAIL(LS_ERR_MISMATCH, "rank %d has it, and is not in its mesh", piece->rank);
        }
    }
    return LS_OK;
}

static int place_by_placements(ls_assembled *out, ls_arena *arena) {
    const ls_captured *tensor = out->of;
    int size = 0;
    ls_layout layout;
    LS_TRY(ls_mesh_size(&size, &tensor->mesh));
    LS_TRY(check_meshes(tensor, size));
    int status = ls_layout_of_placements(&layout, &tensor->mesh, &out->shape, &tensor->placements);
    if (status != LS_OK) {
        return status == LS_ERR_INVALID ? LS_FAIL(LS_ERR_MISMATCH, "%s", ls_error_last()->text)
                                        : status;
    }
    for (int d = 0; d < tensor->mesh.ndim; d++) {
        const ls_placement *at = &tensor->placements.at[d];
        out->copies *= at->kind == LS_PLACE_REPLICATE ? tensor->mesh.dim[d] : 1;
        out->terms *= at->kind == LS_PLACE_PARTIAL ? tensor->mesh.dim[d] : 1;
        out->op = at->kind == LS_PLACE_PARTIAL ? at->op : out->op;
    }
    int copies = out->copies, count = tensor->mesh_count * size;
    out->copies *= tensor->mesh_count;
    out->pieces = ls_arena_alloc(arena, (size_t)count, sizeof *out->pieces);
    status = out->pieces == NULL ? LS_ERR_MEMORY : LS_OK;
    for (int i = 0; status == LS_OK && i < count; i++) {
        ls_assembled_piece *piece = &out->pieces[out->piece_count++];
        int at = i % size;
        piece->rank = tensor->mesh_ranks[i];
        number_piece(piece, tensor, at);
        piece->copy += i / size * copies;
        status = set_blocks(piece, arena, layout.blocks + layout.first[at],
                            layout.first[at + 1] - layout.first[at]);
    }
    ls_layout_free(&layout);
    return status;
}

static int place_by_offsets(ls_assembled *out, ls_arena *arena) {
    const ls_captured *tensor = out->of;
    const ls_capture_piece *first = &tensor->pieces[0];
    out->pieces = ls_arena_alloc(arena, (size_t)tensor->piece_count, sizeof *out->pieces);
    if (out->pieces == NULL) {
        return LS_ERR_MEMORY;
    }
    if (!tensor->has_shape) {
        out->shape = first->size;
        for (int i = 0; i < tensor->piece_count; i++) {
            const ls_capture_piece *piece = &tensor->pieces[i];
            for (int d = 0; d < first->size.ndim && piece->size.ndim == first->size.ndim; d++) {
                int64_t end = 0;
                if (__builtin_add_overflow(piece->offset.dim[d], piece->size.dim[d], &end)) {
                    return LS_FAIL(LS_ERR_MISMATCH, "its parts begin beyond all sizes");
                }
                out->shape.dim[d] = end > out->shape.dim[d] ? end : out->shape.dim[d];
            }
        }
    }
    for (int i = 0; i < tensor->piece_count; i++) {
        const ls_capture_piece *piece = &tensor->pieces[i];
        if (!piece->placed || piece->size.ndim != out->shape.ndim) {
            return LS_FAIL(LS_ERR_MISMATCH, "rank %d does not say where its part begins",
                           piece->rank);
        }
        out->pieces[out->piece_count++] = (ls_assembled_piece){.rank = piece->rank};
        LS_TRY(set_block(&out->pieces[i], arena, &piece->offset, &piece->size));
    }
    return LS_OK;
}

// The one dimension in which ranks' sizes add up to the whole's; -1: all have the whole's sizes.
// LS_ERR_MISMATCH: neither.
static int sharded_dim(int *out, const ls_captured *tensor, const ls_shape *whole) {
    int64_t total = 0;
    bool same = true;
    *out = -1;
    for (int i = 0; i < tensor->piece_count; i++) {
        const ls_shape *size = &tensor->pieces[i].size;
        same = same && ls_shape_equal(size, whole);
        for (int d = 0; d < whole->ndim && size->ndim == whole->ndim; d++) {
            if (size->dim[d] != whole->dim[d] && *out != d) {
                *out = *out == -1 ? d : -2;
            }
        }
        *out = size->ndim != whole->ndim ? -2 : *out;
        if (*out == -2) {
            break;
        }
    }
    for (int i = 0; *out >= 0 && i < tensor->piece_count; i++) {
        total += tensor->pieces[i].size.dim[*out];
    }
    if (same || (*out >= 0 && total == whole->dim[*out])) {
        return LS_OK;
    }
    char local[LS_SHAPE_TEXT_MAX], all[LS_SHAPE_TEXT_MAX];
    ls_shape_format(local, sizeof local, &tensor->pieces[0].size);
    ls_shape_format(all, sizeof all, whole);
    return LS_FAIL(LS_ERR_MISMATCH,
                   "%d ranks have it, rank %d of shape %s, which neither is the other run's %s nor "
                   "adds up to it along one dimension: say how it lies (placements)",
                   tensor->piece_count, tensor->pieces[0].rank, local, all);
}

static int place_by_sizes(ls_assembled *out, ls_arena *arena, const ls_shape *like) {
    const ls_captured *tensor = out->of;
    int dim = -1;
    int64_t start = 0;
    out->shape = like != NULL && tensor->piece_count > 1 ? *like : tensor->pieces[0].size;
    LS_TRY(sharded_dim(&dim, tensor, &out->shape));
    out->copies = dim < 0 ? tensor->piece_count : 1;
    out->pieces = ls_arena_alloc(arena, (size_t)tensor->piece_count, sizeof *out->pieces);
    if (out->pieces == NULL) {
        return LS_ERR_MEMORY;
    }
    bool dealt = is_dealt(tensor, &out->shape, dim);
    for (int i = 0; i < tensor->piece_count; i++) {
        const ls_capture_piece *piece = &tensor->pieces[i];
        ls_shape offset = {.ndim = out->shape.ndim};
        if (dim >= 0) {
            offset.dim[dim] = start;
        }
        out->pieces[out->piece_count++] =
            (ls_assembled_piece){.rank = piece->rank, .copy = dim < 0 ? i : 0};
        LS_TRY(dealt ? set_dealt(&out->pieces[i], arena, tensor->deal, &out->shape, start,
                                 &piece->size)
                     : set_block(&out->pieces[i], arena, &offset, &piece->size));
        start += dim >= 0 ? piece->size.dim[dim] : 0;
    }
    return LS_OK;
}

// ---- Values -------------------------------------------------------------------------------------
// Ranks that say where their parts begin may overlap, and must agree there. covered [elements of
// the whole] is set where a rank has it; block, in the whole at `at`.
static int cover(size_t *covered_count, unsigned char *covered, ls_assembled *out,
                 ls_arena *scratch, const ls_assembled_piece *piece, const char *block) {
    const ls_block all = {{.ndim = out->shape.ndim}, out->shape}, *at = &piece->blocks[0];
    size_t count = elements(&at->size), bytes = ls_dtype_bytes(out->dtype);
    unsigned char *seen = ls_arena_alloc(scratch, count + 1, 1);
    char *before = ls_arena_alloc(scratch, count + 1, bytes);
    if (seen == NULL || before == NULL) {
        return LS_ERR_MEMORY;
    }
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

// Fills what a piece has of its whole; *covered: elements. map: see cover(); NULL: parts are apart.
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
    if (local == NULL || block == NULL) {
        return LS_ERR_MEMORY;
    }
    LS_TRY(ls_capture_read(local, piece));
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
    // No more memory than the parts that are there justify.
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
        if (out->whole[i] == NULL) {
            return LS_ERR_MEMORY;
        }
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
    if (tensor->has_shape) {
        out->shape = tensor->shape;
    } else if (tensor->has_placements && like != NULL) {
        out->shape = *like;
    } else if (tensor->has_placements) {
        LS_TRY(whole_of(&out->shape, tensor));
    }
    if (tensor->has_placements) {
        LS_TRY(place_by_placements(out, arena));
    } else if (tensor->pieces[0].placed) {
        LS_TRY(place_by_offsets(out, arena));
    } else {
        LS_TRY(place_by_sizes(out, arena, like));
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
    if (sum == NULL) {
        return LS_ERR_MEMORY;
    }
    const ls_reduction reduction = {.in = terms,
                                    .in_count = tensor->terms,
                                    .dtype = tensor->dtype,
                                    .op = tensor->op,
                                    .count = tensor->count};
    *value = sum;
    return ls_order_reduce(NULL, LS_ORDER_ALL_REDUCE, sum, &reduction, 0, 0, tensor->count);
}

int ls_assembled_cut(const void **out, ls_arena *arena, const ls_assembled *tensor,
                     const ls_assembled_piece *piece, const void *whole, size_t element_bytes) {
    size_t count = elements(&piece->local);
    if (piece->block_count == 1 && count == tensor->count) {
        *out = whole;  // it has all of it
        return LS_OK;
    }
    const ls_block all = {{.ndim = tensor->shape.ndim}, tensor->shape};
    const ls_block own = {{.ndim = tensor->shape.ndim}, piece->local};
    char *local = ls_arena_alloc(arena, count + 1, element_bytes);
    char *block = ls_arena_alloc(arena, count + 1, element_bytes);
    if (local == NULL || block == NULL) {
        return LS_ERR_MEMORY;
    }
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
