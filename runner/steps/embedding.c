// embedding: looks up rows or bags of rows of a sharded weight by ids.
#include "embedding/functional.h"
#include "runner/steps/fields.h"

static const ls_schema_name way_names[] = {{"masked", 0}, {"exchanged", 1}};
static const ls_schema_names ways = {way_names, 2};
static const ls_schema_name pooling_names[] = {
    {"none", LS_POOL_NONE}, {"sum", LS_POOL_SUM}, {"mean", LS_POOL_MEAN}, {"max", LS_POOL_MAX}};
static const ls_schema_names poolings = {pooling_names, 4};

// clang-format off
static const ls_schema_field fields[] = {
    LS_STEP_NAME_FIELD,
    LS_STEP_EXCEPT_FIELD,
    {"into", LS_FIELD_STRING, .flags = LS_FIELD_REQUIRED, LS_MEMBER(into),
     .doc = "The name of the result.", .example = "into: rows"},
    {"tensor", LS_FIELD_STRING, .flags = LS_FIELD_REQUIRED, LS_MEMBER(tensor),
     .doc = "The ids, i64: each rank's own (sharded along dimension 0) or replicated.",
     .example = "tensor: ids"},
    {"other", LS_FIELD_STRING, .flags = LS_FIELD_REQUIRED, LS_MEMBER(embedding.other),
     .doc = "The weight, sharded by rows or by columns.", .example = "other: weight"},
    {"way", LS_FIELD_ENUM, LS_MEMBER(embedding.exchanged), .names = &ways, .fallback = "masked",
     .doc = "Of a weight sharded by rows: gathered ids, masked rows and a reduce_scatter, or ids "
            "and rows by all_to_all.",
     .example = "way: exchanged"},
    {"pooling", LS_FIELD_ENUM, LS_MEMBER(embedding.pooling), .names = &poolings, .fallback = "none",
     .doc = "How the ids of each row, a bag, become one.", .example = "pooling: mean"},
    {"padding_id", LS_FIELD_INT, LS_MEMBER(embedding.padding_id), .min = 0,
     .max = LS_SCENARIO_COUNT_MAX, .otherwise = "none",
     .doc = "An id that does not count in a bag.", .example = "padding_id: 0"},
    {"max_norm", LS_FIELD_REAL, .flags = LS_FIELD_POSITIVE, LS_MEMBER(embedding.max_norm), .min = 0,
     .max = 1000000, .otherwise = "none",
     .doc = "A looked-up row of larger norm is scaled to this norm first, in the weight itself.",
     .example = "max_norm: 1"},
    {"norm_type", LS_FIELD_REAL, .flags = LS_FIELD_POSITIVE, LS_MEMBER(embedding.norm_type),
     .min = 0, .max = 1000, .fallback = "2", .doc = "The p of that norm.",
     .example = "norm_type: 1"},
};
// clang-format on

static bool operand(ls_step_operand *out, const ls_scenario_step *step, int index) {
    const char *key = index == 0 ? "tensor" : "other";
    *out = (ls_step_operand){index == 0 ? step->tensor : step->embedding.other,
                             ls_node_mark(&step->node, key)};
    return index < 2;
}

// An upper bound: every rank's result for the ids of all.
static void size(ls_tensor_size *made, const ls_scenario *scenario, const ls_scenario_step *step,
                 const ls_tensor_size *first, const ls_tensor_size *last) {
    (void)step;
    made->shape = first->shape;
    made->element = last->element;
    if (made->shape.ndim < LS_DIMS_MAX && last->shape.ndim == 2) {
        made->shape.dim[made->shape.ndim++] = last->shape.dim[1];
    }
    made->copies = 1 + scenario->ranks;
}

static int make(ls_local_tensor **out, ls_program *program, const ls_scenario_step *step,
                const ls_local_tensor *const *in, int count) {
    (void)count;
    ls_program_tensor *weight = NULL;
    ls_axis *axis = NULL;
    LS_TRY(ls_program__tensor(&weight, program, step->embedding.other));
    const ls_placements *placements = ls_local_tensor_placements(weight->tensor);
    int along = 0;
    for (int d = 0; placements != NULL && d < placements->count; d++) {
        along = placements->at[d].kind == LS_PLACE_SHARD ? d : along;
    }
    LS_TRY(ls_program__axis(&axis, program, along));
    const ls_functional_options options = {.way = step->embedding.exchanged != 0 ? LS_ROWS_EXCHANGED
                                                                                 : LS_ROWS_MASKED,
                                           .mode = (ls_pooling)step->embedding.pooling,
                                           .has_padding_id = ls_step_has(step, "padding_id"),
                                           .padding_id = step->embedding.padding_id,
                                           .has_max_norm = step->embedding.max_norm > 0,
                                           .max_norm = step->embedding.max_norm,
                                           .norm_type = step->embedding.norm_type};
    return options.mode == LS_POOL_NONE
               ? ls_tensor_embedding(out, in[0], weight->tensor, &options, axis)
               : ls_tensor_embedding_bag(out, in[0], weight->tensor, &options, axis);
}

static int64_t id_at(const ls_cells *ids, size_t index) {
    return ((const int64_t *)ids->bits)[index];
}

// Bag `to`: that row of the result.
static int fold_bag(ls_cells *out, ls_cell *terms, size_t to, const ls_scenario_step *step,
                    const ls_cells *ids, const ls_cells *weight, ls_dtype dtype) {
    size_t each = (size_t)ids->shape.dim[1], first = to * each;
    size_t columns = (size_t)weight->shape.dim[1];
    int pooling = step->embedding.pooling;
    ls_op op = pooling == LS_POOL_MAX ? LS_MAX : LS_SUM;
    if (pooling == LS_POOL_MEAN) {
        op = LS_AVG;
    }
    for (size_t c = 0; c < columns; c++) {
        int count = 0;
        for (size_t k = 0; k < each; k++) {
            int64_t id = id_at(ids, first + k);
            if (!ls_step_has(step, "padding_id") || id != step->embedding.padding_id) {
                terms[count++] = (ls_cell){weight, (size_t)id * columns + c};
            }
        }
        if (count == 0) {
            ls_cells__set(out, to * columns + c, dtype, 0);
        } else {
            LS_TRY(ls_cells__fold(out, to * columns + c, terms, count, dtype, op));
        }
    }
    return LS_OK;
}

// Plain: the row of each id in the whole weight, or the fold of the bag's rows.
static int look_up(ls_cells *out, ls_arena *arena, const ls_scenario_step *step,
                   const ls_cells *ids, const ls_cells *weight, ls_dtype dtype) {
    bool bags = step->embedding.pooling != LS_POOL_NONE;
    size_t columns = (size_t)weight->shape.dim[1];
    size_t each = bags ? (size_t)ids->shape.dim[1] : 1;
    size_t count = bags ? (size_t)ids->shape.dim[0] : ids->count;
    ls_shape shape = bags ? LS_SHAPE(ids->shape.dim[0]) : ids->shape;
    shape.dim[shape.ndim++] = (int64_t)columns;
    LS_TRY(ls_cells__new(out, arena, &shape, dtype));
    ls_cell *terms = ls_arena_alloc(arena, each, sizeof *terms);
    LS_TRY_MEMORY(terms != NULL);
    for (size_t i = 0; i < count; i++) {
        if (bags) {
            LS_TRY(fold_bag(out, terms, i, step, ids, weight, dtype));
            continue;
        }
        for (size_t c = 0; c < columns; c++) {
            ls_cells__copy(out, i * columns + c, weight, (size_t)id_at(ids, i) * columns + c,
                           dtype);
        }
    }
    return LS_OK;
}

static int know(ls_known *out, ls_arena *arena, const ls_scenario_step *step,
                const ls_known_tensor *in, int count, const ls_local_tensor *made) {
    (void)count;
    if (in[0].known.whole == NULL || in[1].known.whole == NULL ||
        ls_local_tensor_placements(made) == NULL) {
        return LS_OK;
    }
    out->whole = ls_arena_alloc(arena, 1, sizeof *out->whole);
    return out->whole != NULL ? look_up(out->whole, arena, step, in[0].known.whole,
                                        in[1].known.whole, ls_local_tensor_dtype(made))
                              : LS_ERR_MEMORY;
}

static bool changes_operand(const ls_scenario_step *step) {
    return step->embedding.max_norm > 0;
}

// The rows that any id names, including padding, in the whole weight. With column shards there is
// no epsilon, as in torch.
static int changes(ls_known *out, ls_arena *arena, const ls_scenario_step *step,
                   const ls_known_tensor *in) {
    const ls_placements *placements = ls_local_tensor_placements(in[1].tensor);
    bool by_columns = false;
    for (int d = 0; d < placements->count; d++) {
        const ls_placement *at = &placements->at[d];
        by_columns = by_columns || (at->kind == LS_PLACE_SHARD && at->dim == 1);
    }
    if (in[0].known.whole == NULL || in[1].known.whole == NULL) {
        return LS_OK;
    }
    out->whole = ls_arena_alloc(arena, 1, sizeof *out->whole);
    if (out->whole != NULL) {
        return ls_cells__renormalise(out->whole, arena, in[1].known.whole, in[0].known.whole,
                                     step->embedding.max_norm, step->embedding.norm_type,
                                     by_columns ? 0 : 1e-7, ls_local_tensor_dtype(in[1].tensor));
    }
    return LS_ERR_MEMORY;
}

static bool sums(const ls_scenario_step *step, const ls_local_tensor *in) {
    (void)in;
    return step->embedding.pooling != LS_POOL_NONE && step->embedding.pooling != LS_POOL_MAX;
}

static const char *to_field(ls_scenario_step *step) {
    bool compares = step->embedding.max_norm > 0 || step->embedding.pooling == LS_POOL_MAX;
    return compares ? ls_step__compares(step) : NULL;
}

const ls_step_type ls_step__embedding = {
    LS_STEP_RECORD("embedding", fields, "Rows of a sharded weight by ids, or bags of them."),
    .form = LS_STEP_OF_TENSORS,
    .to_field = to_field,
    .operand = operand,
    .size = size,
    .run = ls_program__tensor_step,
    .make = make,
    .sums = sums,
    .refuses = true,
    .changes_operand = changes_operand,
    .changes = changes,
    .know = know,
};
