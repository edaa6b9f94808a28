// The pictures of a scenario.
#include "report/show_scenario.h"

#include <string.h>

#include "runner/plan/scenario_plan.h"

static bool wanted(const char *name, const char *only) {
    return only == NULL || strcmp(name, only) == 0;
}

// The bytes of the rows of a quantised table, on all ranks together.
static int add_row_format(ls_picture *picture, ls_arena *arena, const ls_row_format *format,
                          const ls_plan_table *table) {
    size_t bytes = 0, all = 0;
    for (int s = 0; s < table->shard_count; s++) {
        LS_TRY(ls_row_format_bytes(&bytes, format, (size_t)table->shards[s].columns));
        LS_TRY(ls_size_mul(&bytes, bytes, (size_t)table->shards[s].rows));
        LS_TRY(ls_size_add(&all, all, bytes));
    }
    picture->title = ls_arena_printf(arena, "%s, %s rows of %zu bytes in all", picture->title,
                                     ls_row_element_name(format->element), all);
    return picture->title != NULL ? LS_OK : LS_ERR_MEMORY;
}

static int add_tables(ls_picture *pictures, int *count, ls_arena *arena,
                      const ls_scenario *scenario, const char *only) {
    if (scenario->table_count == 0) {
        return LS_OK;
    }
    ls_plan plan;
    LS_TRY(ls_scenario_plan(&plan, scenario, arena));
    for (int t = 0; t < plan.table_count; t++) {
        if (wanted(plan.tables[t].name, only)) {
            ls_picture *picture = &pictures[(*count)++];
            const ls_table table = ls_scenario_table_config(scenario, t);
            LS_TRY(ls_picture_of_table(picture, arena, &plan.tables[t], plan.ranks));
            if (table.row_format != NULL) {
                LS_TRY(add_row_format(picture, arena, table.row_format, &plan.tables[t]));
            }
        }
    }
    return LS_OK;
}

static void shape_of(ls_shape *out, const ls_int_list *list, int ndim) {
    out->ndim = ndim;
    for (int d = 0; d < ndim; d++) {
        out->dim[d] = list->at[d];
    }
}

// A tensor whose blocks the file lists.
static int add_blocks(ls_picture *out, ls_arena *arena, const ls_scenario *scenario,
                      const ls_scenario_tensor *tensor) {
    char shape[LS_SHAPE_TEXT_MAX];
    ls_shape_format(shape, sizeof shape, &tensor->shape);
    *out = (ls_picture){
        .shape = tensor->shape, .ranks = scenario->ranks, .block_count = tensor->block_count};
    out->title = ls_arena_printf(arena, "tensor %s: %s, listed blocks", tensor->name, shape);
    out->blocks = ls_arena_alloc(arena, (size_t)tensor->block_count + 1, sizeof *out->blocks);
    if (out->title == NULL || out->blocks == NULL) {
        return ls_error_wrap("show: tensor %s", tensor->name);
    }
    for (int b = 0; b < tensor->block_count; b++) {
        const ls_scenario_block *block = &tensor->blocks[b];
        LS_ASSERT(block->offset.count == tensor->shape.ndim);
        LS_ASSERT(block->size.count == tensor->shape.ndim);
        out->blocks[b].rank = block->rank;
        shape_of(&out->blocks[b].block.offset, &block->offset, tensor->shape.ndim);
        shape_of(&out->blocks[b].block.size, &block->size, tensor->shape.ndim);
    }
    return LS_OK;
}

int ls_pictures_of_scenario(ls_picture **out, int *count, ls_arena *arena,
                            const ls_scenario *scenario, const char *only) {
    LS_ASSERT(out != NULL && count != NULL);
    LS_ASSERT(arena != NULL && scenario != NULL);
    *count = 0;
    size_t most = (size_t)scenario->table_count + (size_t)scenario->tensor_count;
    *out = ls_arena_alloc(arena, most + 1, sizeof **out);
    if (*out == NULL) {
        return ls_error_wrap("show");
    }
    LS_TRY(add_tables(*out, count, arena, scenario, only));
    for (int t = 0; t < scenario->tensor_count; t++) {
        const ls_scenario_tensor *tensor = &scenario->tensors[t];
        if (!wanted(tensor->name, only)) {
            continue;
        }
        ls_picture *picture = &(*out)[(*count)++];
        if (tensor->has_placements) {
            LS_TRY(ls_picture_of_tensor(picture, arena, tensor->name, &tensor->shape,
                                        &scenario->mesh, &tensor->placements));
        } else {
            LS_TRY(add_blocks(picture, arena, scenario, tensor));
        }
    }
    return LS_OK;
}
