// Pictures from plans and placements, and the grid under them. Drawing is in show_text.c and
// show_svg.c.
#include "report/show.h"

#include <stdlib.h>
#include <string.h>

#include "report/show_internal.h"

int ls_picture_of_table(ls_picture *out, ls_arena *arena, const ls_plan_table *table, int ranks) {
    LS_ASSERT(out != NULL && arena != NULL && table != NULL);
    LS_ASSERT(ranks >= 1);
    *out = (ls_picture){.is_table = true,
                        .ranks = ranks,
                        .shape = LS_SHAPE(table->rows, table->columns),
                        .block_count = table->shard_count};
    out->title =
        ls_arena_printf(arena, "table %s: %lld x %lld, %s", table->name, (long long)table->rows,
                        (long long)table->columns, ls_sharding_name(table->sharding));
    out->blocks = ls_arena_alloc(arena, (size_t)table->shard_count + 1, sizeof *out->blocks);
    if (out->title == NULL || out->blocks == NULL) {
        return ls_error_wrap("show: table %s", table->name);
    }
    for (int i = 0; i < table->shard_count; i++) {
        const ls_plan_shard *shard = &table->shards[i];
        out->blocks[i] = (ls_picture_block){shard->rank,
                                            {LS_SHAPE(shard->row_offset, shard->column_offset),
                                             LS_SHAPE(shard->rows, shard->columns)}};
    }
    return LS_OK;
}

int ls_picture_of_tensor(ls_picture *out, ls_arena *arena, const char *name, const ls_shape *shape,
                         const ls_mesh *mesh, const ls_placements *placements) {
    LS_ASSERT(out != NULL && arena != NULL && name != NULL);
    LS_ASSERT(shape != NULL && mesh != NULL && placements != NULL);
    *out = (ls_picture){.shape = *shape};
    LS_TRY(ls_mesh_size(&out->ranks, mesh));
    char sizes[LS_SHAPE_TEXT_MAX];
    char how[256];
    ls_shape_format(sizes, sizeof sizes, shape);
    ls_placements_format(how, sizeof how, placements);
    out->title = ls_arena_printf(arena, "tensor %s: %s, %s", name, sizes, how);
    ls_layout layout;
    if (out->title == NULL || ls_layout_of_placements(&layout, mesh, shape, placements) != LS_OK) {
        return ls_error_wrap("show: tensor %s", name);
    }
    size_t count = layout.first[out->ranks];
    out->block_count = (int)count;
    out->blocks = ls_arena_alloc(arena, count, sizeof *out->blocks);
    for (int rank = 0; out->blocks != NULL && rank < out->ranks; rank++) {
        for (size_t i = layout.first[rank]; i < layout.first[rank + 1]; i++) {
            out->blocks[i].rank = rank;
            out->blocks[i].block = layout.blocks[i];
        }
    }
    ls_layout_free(&layout);
    return out->blocks != NULL ? LS_OK : ls_error_wrap("show: tensor %s", name);
}

static bool block_empty(const ls_block *block) {
    for (int d = 0; d < block->size.ndim; d++) {
        if (block->size.dim[d] == 0) {
            return true;
        }
    }
    return false;
}

static int ascending(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a;
    int64_t y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static int ascending_int(const void *a, const void *b) {
    int x = *(const int *)a;
    int y = *(const int *)b;
    return (x > y) - (x < y);
}

int ls_show__cuts(ls_show_cuts cuts[LS_DIMS_MAX], ls_arena *arena, const ls_picture *picture) {
    for (int d = 0; d < picture->shape.ndim; d++) {
        int64_t end = picture->shape.dim[d];
        int64_t *at = ls_arena_alloc(arena, 2 * (size_t)picture->block_count + 2, sizeof *at);
        if (at == NULL) {
            return ls_error_wrap("show");
        }
        size_t count = 0;
        at[count++] = 0;
        at[count++] = end;
        for (int b = 0; b < picture->block_count; b++) {
            const ls_block *block = &picture->blocks[b].block;
            LS_ASSERT(block->size.ndim == picture->shape.ndim);
            int64_t first = block->offset.dim[d];
            int64_t last = first + block->size.dim[d];
            // A broken plan may reach outside: only the inner part is drawn.
            if (!block_empty(block) && first >= 0 && first <= end) {
                at[count++] = first;
            }
            if (!block_empty(block) && last >= 0 && last <= end) {
                at[count++] = last;
            }
        }
        qsort(at, count, sizeof *at, ascending);
        size_t unique = 1;
        for (size_t i = 1; i < count; i++) {
            if (at[i] != at[unique - 1]) {
                at[unique++] = at[i];
            }
        }
        cuts[d] = (ls_show_cuts){at, (int)unique - 1};
    }
    return LS_OK;
}

int ls_show__holders(int *out, const ls_picture *picture, const int64_t first[LS_DIMS_MAX]) {
    int count = 0;
    for (int b = 0; b < picture->block_count; b++) {
        const ls_block *block = &picture->blocks[b].block;
        bool inside = true;
        for (int d = 0; d < picture->shape.ndim && inside; d++) {
            inside = first[d] >= block->offset.dim[d] &&
                     first[d] < block->offset.dim[d] + block->size.dim[d];
        }
        if (inside) {
            out[count++] = picture->blocks[b].rank;
        }
    }
    qsort(out, (size_t)count, sizeof *out, ascending_int);
    int unique = 0;
    for (int i = 0; i < count; i++) {
        if (unique == 0 || out[i] != out[unique - 1]) {
            out[unique++] = out[i];
        }
    }
    return unique;
}

int ls_show__idle(int *out, const ls_picture *picture) {
    for (int rank = 0; rank < picture->ranks; rank++) {
        out[rank] = 0;
    }
    for (int b = 0; b < picture->block_count; b++) {
        int rank = picture->blocks[b].rank;
        if (rank >= 0 && rank < picture->ranks && !block_empty(&picture->blocks[b].block)) {
            out[rank] = 1;
        }
    }
    int count = 0;
    for (int rank = 0; rank < picture->ranks; rank++) {
        if (out[rank] == 0) {
            out[count++] = rank;
        }
    }
    return count;
}
