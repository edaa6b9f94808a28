// Tensors whose ranks hold several blocks of the logical tensor each, and the checks that blocks do
// not overlap and leave nothing out.
#include "local_tensor/internal.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

typedef struct block_list {
    const ls_block *block;  // [count]
    const int *rank;        // [count]
    int count;
} block_list;

static void format_block(char *out, size_t out_bytes, const ls_block *block) {
    char offset[LS_SHAPE_TEXT_MAX];
    char size[LS_SHAPE_TEXT_MAX];
    ls_shape_format(offset, sizeof offset, &block->offset);
    ls_shape_format(size, sizeof size, &block->size);
    (void)snprintf(out, out_bytes, "%s + %s", offset, size);
}

static int check_inside(const block_list *list, const ls_shape *shape, int world_size) {
    for (int b = 0; b < list->count; b++) {
        const ls_block *block = &list->block[b];
        int rank = list->rank[b];
        if (rank < 0 || rank >= world_size) {
            return LS_FAIL_RANK(LS_ERR_INVALID, rank,
                                "block %d is for rank %d, but the world has %d ranks", b, rank,
                                world_size);
        }
        if (block->offset.ndim != shape->ndim || block->size.ndim != shape->ndim) {
            return LS_FAIL_RANK(LS_ERR_INVALID, rank,
                                "block %d of rank %d has %d offsets and %d sizes, but the tensor "
                                "has %d dimensions",
                                b, rank, block->offset.ndim, block->size.ndim, shape->ndim);
        }
        for (int d = 0; d < shape->ndim; d++) {
            int64_t offset = block->offset.dim[d];
            int64_t size = block->size.dim[d];
            if (offset < 0 || size < 0 || offset > shape->dim[d] || size > shape->dim[d] - offset) {
                return LS_FAIL_RANK(LS_ERR_INVALID, rank,
                                    "block %d of rank %d reaches outside dimension %d: offset "
                                    "%" PRId64 ", size %" PRId64 ", but the tensor has %" PRId64,
                                    b, rank, d, offset, size, shape->dim[d]);
            }
        }
    }
    return LS_OK;
}

// A position along the dimension in question at which a block starts or ends.
typedef struct edge {
    int64_t at;
    int block;
    bool is_start;
} edge;

static int compare_edges(const void *a, const void *b) {
    const edge *x = a;
    const edge *y = b;
    if (x->at != y->at) {
        return x->at < y->at ? -1 : 1;
    }
    // Where one block ends and another starts, the end comes first: they do not overlap.
    if (x->is_start != y->is_start) {
        return x->is_start ? 1 : -1;
    }
    return x->block < y->block ? -1 : x->block > y->block;
}

// Fills edges [2 * subset_count] of the subset's blocks along `dim`, sorted.
static void fill_edges(edge *out, const block_list *list, const int *subset, int subset_count,
                       int dim) {
    for (int i = 0; i < subset_count; i++) {
        const ls_block *block = &list->block[subset[i]];
        int64_t start = block->offset.dim[dim];
        out[2 * i] = (edge){start, subset[i], true};
        out[2 * i + 1] = (edge){start + block->size.dim[dim], subset[i], false};
    }
    qsort(out, 2 * (size_t)subset_count, sizeof *out, compare_edges);
}

static int overlap_error(const block_list *list, int a, int b) {
    char a_text[2 * LS_SHAPE_TEXT_MAX + 4];
    char b_text[2 * LS_SHAPE_TEXT_MAX + 4];
    int low = a < b ? a : b;
    int high = a < b ? b : a;
    format_block(a_text, sizeof a_text, &list->block[low]);
    format_block(b_text, sizeof b_text, &list->block[high]);
    return LS_FAIL_RANK(LS_ERR_INVALID, list->rank[high],
                        "block %d of rank %d (%s) and block %d of rank %d (%s) overlap", low,
                        list->rank[low], a_text, high, list->rank[high], b_text);
}

// Most blocks that are open at once along `dim`: what a sweep along it compares each block with.
static int widest(edge *edges, const block_list *list, const int *subset, int subset_count,
                  int dim) {
    fill_edges(edges, list, subset, subset_count, dim);
    int open = 0;
    int most = 0;
    for (int i = 0; i < 2 * subset_count; i++) {
        open += edges[i].is_start ? 1 : -1;
        most = open > most ? open : most;
    }
    return most;
}

// Sweeps along the dimension in which the fewest blocks are open at once, and compares each block
// with those that are open where it starts. `open` has room for subset_count.
static int check_overlap(const block_list *list, const int *subset, int subset_count, int ndim,
                         edge *edges, int *open) {
    int best = 0;
    int best_width = INT32_MAX;
    for (int d = 0; d < ndim && best_width > 1; d++) {
        int width = widest(edges, list, subset, subset_count, d);
        if (width < best_width) {
            best_width = width;
            best = d;
        }
    }
    if (ndim == 0) {
        return subset_count > 1 ? overlap_error(list, subset[0], subset[1]) : LS_OK;
    }
    if (best_width <= 1) {
        return LS_OK;
    }
    fill_edges(edges, list, subset, subset_count, best);
    int open_count = 0;
    for (int i = 0; i < 2 * subset_count; i++) {
        const edge *at = &edges[i];
        if (at->is_start) {
            for (int k = 0; k < open_count; k++) {
                ls_block common;
                if (ls_block_intersect(&common, &list->block[at->block], &list->block[open[k]]) >
                    0) {
                    return overlap_error(list, at->block, open[k]);
                }
            }
            open[open_count++] = at->block;
            continue;
        }
        int k = 0;
        while (open[k] != at->block) {
            k += 1;
            LS_ASSERT(k < open_count);
        }
        open[k] = open[--open_count];
    }
    LS_ASSERT(open_count == 0);
    return LS_OK;
}

// Finds an index that no block holds. The blocks do not overlap, so at a position along dimension d
// they cover everything behind it exactly if the sizes of their cross-sections sum to the whole:
// take the first position where they do not, keep the blocks that it cuts, and continue with d + 1.
// `subset` is consumed. Returns false if everything is covered.
static bool find_uncovered(ls_shape *index, const block_list *list, int *subset, int subset_count,
                           const ls_shape *shape, edge *edges) {
    *index = (ls_shape){.ndim = shape->ndim};
    bool any_gap = shape->ndim == 0 && subset_count == 0;
    for (int d = 0; d < shape->ndim; d++) {
        uint64_t whole = 1;
        for (int e = d + 1; e < shape->ndim; e++) {
            whole *= (uint64_t)shape->dim[e];
        }
        fill_edges(edges, list, subset, subset_count, d);
        uint64_t covered = 0;
        int64_t gap = subset_count == 0 ? 0 : -1;
        int64_t position = 0;
        for (int i = 0; i < 2 * subset_count && gap < 0; i++) {
            if (edges[i].at > position && covered < whole) {
                gap = position;
                break;
            }
            position = edges[i].at;
            uint64_t section = 1;
            for (int e = d + 1; e < shape->ndim; e++) {
                section *= (uint64_t)list->block[edges[i].block].size.dim[e];
            }
            covered += edges[i].is_start ? section : (uint64_t)0 - section;
        }
        if (gap < 0 && position < shape->dim[d]) {
            gap = position;
        }
        if (gap < 0) {
            LS_ASSERT(d == 0);
            return false;
        }
        any_gap = true;
        index->dim[d] = gap;
        int kept = 0;
        for (int i = 0; i < subset_count; i++) {
            const ls_block *block = &list->block[subset[i]];
            if (block->offset.dim[d] <= gap && gap < block->offset.dim[d] + block->size.dim[d]) {
                subset[kept++] = subset[i];
            }
        }
        subset_count = kept;
    }
    return any_gap;
}

static int check_blocks(const block_list *list, const ls_shape *shape, bool cover) {
    size_t count = (size_t)list->count;
    size_t elements = 0;
    LS_TRY(ls_shape_count(&elements, shape));
    void *memory = NULL;
    size_t unit = 2 * sizeof(edge) + 2 * sizeof(int);
    LS_TRY(ls_alloc(&memory, count, unit));
    edge *edges = memory;
    int *subset = (int *)(edges + 2 * count);
    int *open = subset + count;
    int subset_count = 0;
    for (int b = 0; b < list->count; b++) {
        size_t block_elements = 0;
        int status = ls_shape_count(&block_elements, &list->block[b].size);
        LS_ASSERT(status == LS_OK);  // it is inside of a shape that has a count
        if (block_elements != 0) {
            subset[subset_count++] = b;
        }
    }
    int status = check_overlap(list, subset, subset_count, shape->ndim, edges, open);
    ls_shape index;
    if (status == LS_OK && cover && elements != 0 &&
        find_uncovered(&index, list, subset, subset_count, shape, edges)) {
        char text[LS_SHAPE_TEXT_MAX];
        ls_shape_format(text, sizeof text, &index);
        status = LS_FAIL(LS_ERR_INVALID, "no block holds the element at %s", text);
    }
    ls_free(memory, count, unit);
    return status;
}

// Makes the tensor with the held ranks' blocks; counts (zeroed) and
// ranks are scratch, [held_count] each.
static int fill_blocks(ls_local_tensor **out, ls_world *world, ls_dtype dtype,
                       const block_list *list, int *counts, int *ranks) {
    int rank_count = 0;
    for (int b = 0; b < list->count; b++) {
        int held = ls_world_held_index(world, list->rank[b]);
        if (held >= 0) {
            counts[held] += 1;
        }
    }
    for (int held = 0; held < world->held_count; held++) {
        if (counts[held] > 0) {
            counts[rank_count] = counts[held];
            ranks[rank_count++] = world->held[held];
        }
    }
    LS_TRY(ls_local_tensor__new(out, world, dtype, ranks, rank_count, counts));
    ls_local_tensor *tensor = *out;
    memset(counts, 0, (size_t)world->held_count * sizeof *counts);
    for (int b = 0; b < list->count; b++) {
        int i = ls_local_tensor__rank_index(tensor, list->rank[b]);
        if (i >= 0) {
            tensor->shards[tensor->first[i] + (size_t)counts[i]].block = list->block[b];
            counts[i] += 1;
        }
    }
    return ls_local_tensor__allocate(tensor);
}

int ls_local_tensor_from_blocks(ls_local_tensor **out, ls_world *world, ls_dtype dtype,
                                const ls_shape *shape, const int *block_ranks,
                                const ls_block *blocks, int block_count, bool cover) {
    LS_ASSERT(out != NULL && world != NULL && shape != NULL);
    LS_ASSERT(block_count >= 0);
    *out = NULL;
    size_t count = 0;
    size_t bytes = 0;
    LS_TRY(ls_shape_count(&count, shape));
    if (!ls_dtype_valid((int)dtype)) {
        return LS_FAIL(LS_ERR_INVALID, "%d is not an element type", (int)dtype);
    }
    LS_TRY(ls_size_mul(&bytes, count, ls_dtype_bytes(dtype)));
    const block_list list = {blocks, block_ranks, block_count};
    LS_TRY(check_inside(&list, shape, world->size));
    LS_TRY(check_blocks(&list, shape, cover));
    void *memory = NULL;
    size_t held_count = (size_t)world->held_count;
    LS_TRY(ls_alloc(&memory, held_count, 2 * sizeof(int)));
    int *counts = memory;
    ls_local_tensor *tensor = NULL;
    int status = fill_blocks(&tensor, world, dtype, &list, counts, counts + held_count);
    ls_free(memory, held_count, 2 * sizeof(int));
    if (status == LS_OK) {
        status = ls_layout__of_list(&tensor->listed, world, block_ranks, blocks, block_count);
    }
    if (status != LS_OK) {
        ls_local_tensor_free(tensor);
        return status;
    }
    tensor->shape = *shape;
    tensor->has_shape = true;
    *out = tensor;
    return LS_OK;
}
