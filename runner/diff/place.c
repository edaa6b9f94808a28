// Finds the place of each rank's part in the whole of a captured tensor.
#include <string.h>

#include "runner/diff/diff_internal.h"

static int set_blocks(ls_assembled_piece *piece, ls_arena *arena, const ls_block *blocks,
                      size_t count) {
    ls_block *kept = ls_arena_copy(arena, blocks, count * sizeof *blocks);
    ls_block *within = ls_arena_alloc(arena, count, sizeof *within);
    LS_TRY_MEMORY(kept != NULL && within != NULL);
    // Blocks are in the order of the whole; in the piece they follow one another along each
    // dimension.
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

// Rows [start, start + size) of the ranks' rows along `dim`, each at its index in the batch.
static int set_dealt(ls_assembled_piece *piece, ls_arena *arena, const ls_deal *deal,
                     const ls_shape *whole, int dim, int64_t start, const ls_shape *size) {
    int64_t unit = whole->dim[dim] / (int64_t)deal->count;
    size_t count = (size_t)(size->dim[dim] / unit), kept = 0;
    const size_t *row = deal->row + start / unit;
    ls_block *blocks = ls_arena_alloc(arena, count + 1, sizeof *blocks);
    ls_block *within = ls_arena_alloc(arena, count + 1, sizeof *within);
    LS_TRY_MEMORY(blocks != NULL && within != NULL);
    for (size_t i = 0, rows = 0; i < count; i += rows) {
        for (rows = 1; i + rows < count && row[i + rows] == row[i] + rows;) {
            rows++;
        }
        ls_shape part = *size, offset = {.ndim = size->ndim};
        part.dim[dim] = (int64_t)rows * unit;
        offset.dim[dim] = (int64_t)i * unit;
        within[kept] = (ls_block){offset, part};
        offset.dim[dim] = (int64_t)row[i] * unit;
        blocks[kept++] = (ls_block){offset, part};
    }
    piece->blocks = blocks;
    piece->within = within;
    piece->block_count = kept;
    return LS_OK;
}

// Whether the rows of each rank are whole samples of the distributed batch.
static bool is_dealt(const ls_captured *tensor, const ls_shape *whole, int dim) {
    bool fits = tensor->deal != NULL && dim >= 0 && whole->dim[dim] > 0 &&
                whole->dim[dim] % (int64_t)tensor->deal->count == 0;
    int64_t unit = fits ? whole->dim[dim] / (int64_t)tensor->deal->count : 1;
    for (int i = 0; i < tensor->piece_count; i++) {
        fits = fits && tensor->pieces[i].size.dim[dim] % unit == 0;
    }
    return fits;
}

// The numbers of a rank's copy and term: its coordinates in the replicated and in the partial mesh
// dimensions.
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

// The sizes of the whole if unknown, assuming even shards.
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

// A rank outside of all meshes of a tensor holds nothing of it.
static int check_meshes(const ls_captured *tensor, int size) {
    for (int p = 0; p < tensor->piece_count; p++) {
        const ls_capture_piece *piece = &tensor->pieces[p];
        bool inside = piece->at->count == 0;
        for (int i = 0; i < tensor->mesh_count * size && !inside; i++) {
            inside = tensor->mesh_ranks[i] == piece->rank;
        }
        if (!inside) {
            return LS_FAIL(LS_ERR_MISMATCH, "rank %d has it, but is not in its mesh", piece->rank);
        }
    }
    return LS_OK;
}

// A tensor on several meshes has a part of the batch on each if the other run's whole is larger by
// that factor in one dimension. Then the meshes act as one mesh whose first dimension shards it.
static int join_meshes(const ls_captured **out, ls_arena *arena, const ls_captured *tensor,
                       const ls_shape *whole, const ls_shape *like) {
    int dim = -1, differing = 0, ndim = tensor->mesh.ndim;
    *out = tensor;
    for (int d = 0; d < whole->ndim && whole->ndim == like->ndim; d++) {
        if (whole->dim[d] != like->dim[d]) {
            dim = d;
            differing++;
        }
    }
    if (tensor->mesh_count < 2 || ndim == LS_MESH_DIMS_MAX || differing != 1 ||
        like->dim[dim] % tensor->mesh_count != 0 ||
        like->dim[dim] / tensor->mesh_count != whole->dim[dim]) {
        return LS_OK;
    }
    ls_captured *joined = ls_arena_copy(arena, tensor, sizeof *tensor);
    LS_TRY_MEMORY(joined != NULL);
    joined->mesh = (ls_mesh){.ndim = ndim + 1, .dim = {tensor->mesh_count}};
    joined->placements = (ls_placements){.count = ndim + 1, .at = {LS_SHARD(dim)}};
    for (int d = 0; d < ndim; d++) {
        joined->mesh.dim[d + 1] = tensor->mesh.dim[d];
        joined->placements.at[d + 1] = tensor->placements.at[d];
    }
    joined->mesh_count = 1;
    joined->shape = *like;
    *out = joined;
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
    LS_TRY_MEMORY(out->pieces != NULL);
    if (!tensor->has_shape) {
        out->shape = first->size;
        for (int i = 0; i < tensor->piece_count; i++) {
            const ls_capture_piece *piece = &tensor->pieces[i];
            for (int d = 0; d < first->size.ndim && piece->size.ndim == first->size.ndim; d++) {
                int64_t end = 0;
                if (__builtin_add_overflow(piece->offset.dim[d], piece->size.dim[d], &end)) {
                    return LS_FAIL(LS_ERR_MISMATCH, "its parts begin past its end");
                }
                out->shape.dim[d] = end > out->shape.dim[d] ? end : out->shape.dim[d];
            }
        }
    }
    for (int i = 0; i < tensor->piece_count; i++) {
        const ls_capture_piece *piece = &tensor->pieces[i];
        if (!piece->placed || piece->size.ndim != out->shape.ndim) {
            return LS_FAIL(LS_ERR_MISMATCH, "rank %d does not give the offset of its part",
                           piece->rank);
        }
        out->pieces[out->piece_count++] = (ls_assembled_piece){.rank = piece->rank};
        LS_TRY(set_block(&out->pieces[i], arena, &piece->offset, &piece->size));
    }
    return LS_OK;
}

// The only dimension in which the ranks' sizes add up to the whole's; -1: all ranks have the
// whole's sizes.
static bool sharded_dim(int *out, const ls_captured *tensor, const ls_shape *whole) {
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
    return same || (*out >= 0 && total == whole->dim[*out]);
}

// For equal blocks that tile the whole, each on equally many ranks: the number of blocks, and the
// only dimension that they cut (-1: several). 0: the parts are not such blocks.
static int count_blocks(int *dim, const ls_captured *tensor, const ls_shape *whole) {
    const ls_shape *part = &tensor->pieces[0].size;
    int64_t blocks = 1;
    int cut = 0;
    *dim = -1;
    for (int i = 1; i < tensor->piece_count; i++) {
        if (!ls_shape_equal(&tensor->pieces[i].size, part)) {
            return 0;
        }
    }
    for (int d = 0; d < whole->ndim && part->ndim == whole->ndim; d++) {
        if (part->dim[d] == 0 || whole->dim[d] == 0 || whole->dim[d] % part->dim[d] != 0 ||
            whole->dim[d] / part->dim[d] > tensor->piece_count / blocks) {
            return 0;
        }
        if (part->dim[d] != whole->dim[d]) {
            *dim = cut++ == 0 ? d : -1;
        }
        blocks *= whole->dim[d] / part->dim[d];
    }
    return cut > 0 && tensor->piece_count % blocks == 0 ? (int)blocks : 0;
}

// The block of each part, if parts of one block have equal values: in a row-major mesh of ranks,
// part i is block i / stride % blocks. 0: no stride fits; -1: several do.
static int find_stride(int *out, ls_arena *arena, const ls_captured *tensor, int blocks) {
    int count = tensor->piece_count, copies = count / blocks, fits = 0;
    size_t bytes = tensor->pieces[0].at->count * ls_dtype_bytes(tensor->dtype);
    char **value = ls_arena_alloc(arena, (size_t)count, sizeof *value);
    *out = 0;
    for (int i = 0; value != NULL && i < count; i++) {
        value[i] = ls_arena_alloc_raw(arena, bytes + 1, 1);
        LS_TRY_MEMORY(value[i] != NULL);
        LS_TRY(ls_capture_read(value[i], &tensor->pieces[i]));
    }
    LS_TRY_MEMORY(value != NULL);
    for (int stride = 1; stride <= copies; stride++) {
        bool same = copies % stride == 0, new = fits == 0;
        for (int i = 0; same && i < count; i++) {
            int block = i / stride % blocks, first = block * stride;
            same = memcmp(value[i], value[first], bytes) == 0;
            new = new || (*out > 0 && memcmp(value[first], value[block * *out], bytes) != 0);
        }
        if (same && new) {
            *out = stride;
            fits++;
        }
    }
    *out = fits > 1 ? -1 : *out;
    return LS_OK;
}

// The place of each rank's part: along `dim`, or the whole. A part that `stride` consecutive ranks
// hold is one of `blocks`; stride 0: each rank has the next.
static int place_along(ls_assembled *out, ls_arena *arena, int dim, int blocks, int stride) {
    const ls_captured *tensor = out->of;
    int64_t start = 0;
    out->pieces = ls_arena_alloc(arena, (size_t)tensor->piece_count, sizeof *out->pieces);
    LS_TRY_MEMORY(out->pieces != NULL);
    out->dealt = is_dealt(tensor, &out->shape, dim);
    for (int i = 0; i < tensor->piece_count; i++) {
        const ls_capture_piece *piece = &tensor->pieces[i];
        ls_shape offset = {.ndim = out->shape.ndim};
        int copy = dim < 0 && out->copies > 1 ? i : 0;
        if (stride > 0) {
            start = i / stride % blocks * piece->size.dim[dim];
            copy = i / (stride * blocks) * stride + i % stride;
        }
        if (dim >= 0) {
            offset.dim[dim] = start;
        }
        out->pieces[out->piece_count++] =
            (ls_assembled_piece){.rank = piece->rank, .copy = copy, .term = out->terms > 1 ? i : 0};
        LS_TRY(out->dealt ? set_dealt(&out->pieces[i], arena, tensor->deal, &out->shape, dim, start,
                                      &piece->size)
                          : set_block(&out->pieces[i], arena, &offset, &piece->size));
        start += dim >= 0 ? piece->size.dim[dim] : 0;
    }
    return LS_OK;
}

static int place_by_sizes(ls_assembled *out, ls_arena *arena, const ls_shape *like) {
    const ls_captured *tensor = out->of;
    int dim = -1, stride = 0, blocks = 0;
    char local[LS_SHAPE_TEXT_MAX], all[LS_SHAPE_TEXT_MAX];
    out->shape = like != NULL && tensor->piece_count > 1 ? *like : tensor->pieces[0].size;
    if (sharded_dim(&dim, tensor, &out->shape)) {
        bool taken = tensor->piece_count == 1 && tensor->deal != NULL && tensor->deal->taken;
        dim = taken ? 0 : dim;
        out->copies = dim < 0 && !tensor->own_losses ? tensor->piece_count : 1;
        out->terms = dim < 0 && tensor->own_losses ? tensor->piece_count : 1;
        return place_along(out, arena, dim, 0, 0);
    }
    blocks = count_blocks(&dim, tensor, &out->shape);
    if (dim >= 0 && blocks > 0) {
        LS_TRY(find_stride(&stride, arena, tensor, blocks));
    }
    if (stride > 0) {
        out->copies = tensor->piece_count / blocks;
        return place_along(out, arena, dim, blocks, stride);
    }
    ls_shape_format(local, sizeof local, &tensor->pieces[0].size);
    ls_shape_format(all, sizeof all, &out->shape);
    out->unknown = blocks > 0 && (tensor->optional || blocks == tensor->piece_count || stride < 0);
    if (blocks > 0 && !out->unknown) {
        return LS_FAIL(LS_ERR_MISMATCH,
                       "%d ranks have it, rank %d of shape %s, which is one of %d parts of the "
                       "other run's %s, and the ranks of one part have different values",
                       tensor->piece_count, tensor->pieces[0].rank, local, blocks, all);
    }
    return LS_FAIL(LS_ERR_MISMATCH,
                   "%d ranks have it, rank %d of shape %s, which neither is the other run's %s nor "
                   "adds up to it along one dimension: name its placements",
                   tensor->piece_count, tensor->pieces[0].rank, local, all);
}

int ls_diff__place(ls_assembled *out, ls_arena *arena, const ls_shape *like) {
    const ls_captured *tensor = out->of;
    if (tensor->has_shape) {
        out->shape = tensor->shape;
    } else if (tensor->has_placements && like != NULL) {
        out->shape = *like;
    } else if (tensor->has_placements) {
        LS_TRY(whole_of(&out->shape, tensor));
    }
    if (tensor->has_placements && tensor->has_shape && like != NULL) {
        LS_TRY(join_meshes(&out->of, arena, tensor, &out->shape, like));
        out->shape = out->of->shape;
        out->unknown = out->of != tensor && tensor->deal != NULL;
        if (out->unknown) {
            return LS_FAIL(LS_ERR_MISMATCH, "its meshes have rows of the batch in another order");
        }
    }
    if (tensor->has_placements) {
        return place_by_placements(out, arena);
    }
    return tensor->pieces[0].placed ? place_by_offsets(out, arena)
                                    : place_by_sizes(out, arena, like);
}
