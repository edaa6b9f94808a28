// Generates weights, tensors, buffers and gradients from a scenario. See inputs.h; batch.c has the
// batches.
#include "runner/scenario/inputs.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "runner/scenario/numbers.h"

int ls_inputs_weights(void *out, const ls_scenario *scenario, int table, int64_t row, int64_t rows,
                      int64_t column, int64_t columns) {
    LS_ASSERT(table >= 0 && table < scenario->table_count);
    const ls_scenario_table *of = &scenario->tables[table];
    LS_ASSERT(row >= 0 && rows >= 0 && row + rows <= of->rows);
    LS_ASSERT(column >= 0 && columns >= 0 && column + columns <= of->dim);
    ls_numbers numbers;
    ls_numbers__init(&numbers, scenario, &of->weights, LS_GENERATOR_UNIFORM, of->dtype);
    if (!of->weights.has_range) {
        numbers.high = 1 / sqrt((double)of->rows);
        numbers.low = -numbers.high;
    }
    numbers.stream = ls_numbers__stream("weights", of->name);
    if (ls_numbers__open(&numbers, scenario, (size_t)(of->rows * of->dim)) != LS_OK) {
        (void)ls_numbers__place(scenario, &of->weights, "weights");
        return ls_error_wrap("table %s", of->name);
    }
    size_t bytes = ls_dtype_bytes(of->dtype);
    for (int64_t i = 0; i < rows; i++) {
        ls_numbers__fill((char *)out + (size_t)(i * columns) * bytes, of->dtype, &numbers,
                         (uint64_t)((row + i) * of->dim + column), (size_t)columns);
    }
    return LS_OK;
}

int ls_inputs_tensor_values(void *out, const ls_scenario *scenario,
                            const ls_scenario_tensor *tensor, int part) {
    size_t count = 0;
    LS_TRY(ls_shape_count(&count, &tensor->shape));
    ls_numbers numbers;
    ls_numbers__init(&numbers, scenario, &tensor->values, LS_GENERATOR_ARANGE, tensor->dtype);
    numbers.stream = ls_numbers__stream("tensor", tensor->name);
    numbers.by_value = true;
    numbers.rank += (uint32_t)part;
    if (ls_numbers__open(&numbers, scenario, count) != LS_OK) {
        (void)ls_numbers__place(scenario, &tensor->values, "values");
        return ls_error_wrap("tensor %s", tensor->name);
    }
    ls_numbers__fill(out, tensor->dtype, &numbers, 0, count);
    return LS_OK;
}

int ls_inputs_member(const ls_scenario *scenario, const ls_scenario_step *step, int rank,
                     int *size) {
    if (step->call.axis >= 0) {
        int coordinates[LS_MESH_DIMS_MAX];
        ls_mesh_coordinates(coordinates, &scenario->mesh, rank);
        *size = scenario->mesh.dim[step->call.axis];
        return coordinates[step->call.axis];
    }
    const ls_int_list *ranks = &step->call.ranks;
    *size = ranks->count > 0 ? ranks->count : scenario->ranks;
    int member = ls_int_list_find(ranks, rank);
    return member >= 0 ? member : rank;
}

// Values for each member: a list of lists, or a file whose first dimension is the members.
static int member_values(ls_numbers *numbers, const ls_scenario *scenario,
                         const ls_scenario_step *step, int rank, size_t count, uint64_t *first) {
    const ls_generator *values = &step->call.values;
    int size = 0;
    int member = ls_inputs_member(scenario, step, rank, &size);
    uint64_t length = (uint64_t)values->value_count;  // of the member's list
    *first = 0;
    if (numbers->kind == LS_GENERATOR_FILE) {
        LS_TRY(ls_input_file_get(&numbers->array, scenario, values->file, values->tensor));
        const ls_input_array *array = numbers->array;
        if (array->ndim < 1 || array->dim[0] != size) {
            return LS_FAIL(LS_ERR_FORMAT, "%s: its first dimension must be the %d members",
                           values->file, size);
        }
        length = array->count / (size_t)size;
        *first = length * (uint64_t)member;
    } else if (numbers->kind == LS_GENERATOR_VALUES && values->row_counts.count > 0) {
        for (int i = 0; i < member; i++) {
            *first += (uint64_t)values->row_counts.at[i];
        }
        length = member < values->row_counts.count ? (uint64_t)values->row_counts.at[member] : 0;
    } else if (numbers->kind != LS_GENERATOR_VALUES) {
        return LS_OK;
    }
    if (length < count) {
        return LS_FAIL_RANK(LS_ERR_FORMAT, rank,
                            "%" PRIu64 " values for the %zu elements that rank %d sends", length,
                            count, rank);
    }
    return LS_OK;
}

int ls_inputs_step_values(void *out, const ls_scenario *scenario, const ls_scenario_step *step,
                          int rank, ls_dtype dtype, size_t count) {
    LS_ASSERT(rank >= 0 && rank < scenario->ranks);
    ls_numbers numbers;
    ls_numbers__init(&numbers, scenario, &step->call.values, LS_GENERATOR_EXACT, dtype);
    numbers.stream = ls_numbers__stream("step", step->name);
    numbers.rank = (uint32_t)rank;
    uint64_t first = 0;
    if (member_values(&numbers, scenario, step, rank, count, &first) != LS_OK) {
        (void)ls_numbers__place(scenario, &step->call.values, "values");
        return ls_error_wrap("step %s", step->name);
    }
    ls_numbers__fill(out, dtype, &numbers, first, count);
    return LS_OK;
}

// ---- Gradients of outputs -----------------------------------------------------------------------
// Elements of the output of a table and feature.
static int output_elements(int64_t *out, const ls_scenario *scenario, int step, int rank,
                           int pair) {
    const ls_scenario_pair *of = &scenario->inputs.pairs[pair];
    const ls_scenario_table *table = &scenario->tables[of->table];
    *out = scenario->inputs.batch.at[rank] * table->dim;
    if (table->pooling != LS_POOL_NONE) {
        return LS_OK;
    }
    int64_t ids = 0;
    if (!scenario->inputs.variable) {
        LS_TRY(ls_inputs_ids(&ids, scenario, step, rank, of->feature));
    } else {
        ls_keyed_jagged *input = NULL;
        LS_TRY(ls_inputs_jagged(&input, scenario, step, rank));
        ls_jagged bags = ls_keyed_jagged_feature(input, of->feature);
        ids = ls_jagged_sample_ids(&bags);
        ls_keyed_jagged_free(input);
    }
    *out = ids * table->dim;
    return LS_OK;
}

// Elements of all outputs of a step, and those before `pair` on `rank`.
static int step_elements(int64_t *all, int64_t *before, const ls_scenario *scenario, int step,
                         int rank, int pair) {
    *all = *before = 0;
    for (int r = 0; r < scenario->ranks; r++) {
        for (int p = 0; p < scenario->inputs.pair_count; p++) {
            int64_t count = 0;
            LS_TRY(output_elements(&count, scenario, step, r, p));
            *before += r < rank || (r == rank && p < pair) ? count : 0;
            *all += count;
        }
    }
    return LS_OK;
}

// Opens the gradients of a step: lists and files have those of all steps, or of one step that is
// reused. *first: the index of the feature's gradients on the rank.
static int open_gradients(ls_numbers *numbers, uint64_t *first, const ls_scenario *scenario,
                          int step, int rank, int pair) {
    const ls_generator *generator = &scenario->train.gradients;
    int64_t all = 0, before = 0, total = 0, earlier = 0, given = generator->value_count;
    ls_numbers__init(numbers, scenario, generator, LS_GENERATOR_NORMAL, LS_F64);
    *first = 0;
    if (numbers->kind == LS_GENERATOR_FILE) {
        LS_TRY(ls_input_file_get(&numbers->array, scenario, generator->file, generator->tensor));
        given = (int64_t)numbers->array->count;
    } else if (numbers->kind != LS_GENERATOR_VALUES) {
        return LS_OK;
    }
    for (int s = 0; s < scenario->train.steps; s++) {
        int64_t count = 0, unused = 0;
        LS_TRY(step_elements(&count, s == step ? &before : &unused, scenario, s, rank, pair));
        earlier += s < step ? count : 0;
        all = s == step ? count : all;
        total += count;
    }
    bool stepped = given == total && given != all;
    *first = (uint64_t)(before + (stepped ? earlier : 0));
    return ls_numbers__open(numbers, scenario, (size_t)(stepped ? total : all));
}

int ls_inputs_check_gradients(const ls_scenario *scenario) {
    ls_numbers numbers;
    uint64_t first = 0;
    return open_gradients(&numbers, &first, scenario, 0, 0, 0);
}

int ls_inputs_gradient(void *out, const ls_scenario *scenario, int step, int rank, int pair,
                       ls_dtype dtype, size_t count) {
    LS_ASSERT(step >= 0 && step < scenario->train.steps && rank >= 0 && rank < scenario->ranks);
    static const ls_generator standard = {.kind = LS_GENERATOR_NORMAL, .b = 1};
    const ls_generator *generator = &scenario->train.gradients;
    ls_numbers numbers;
    uint64_t first = 0;
    if (open_gradients(&numbers, &first, scenario, step, rank, pair) != LS_OK) {
        return ls_numbers__place(scenario, generator, "gradients");
    }
    if (generator->kind == LS_GENERATOR_DEFAULT) {
        numbers.generator = &standard;
    }
    // A feature's second and later tables get other gradients than the first.
    const ls_scenario_pair *of = &scenario->inputs.pairs[pair];
    const ls_scenario_feature *from = &scenario->inputs.features[of->feature];
    char name[512];
    (void)snprintf(name, sizeof name, "%.255s%s%.255s", from->name,
                   of->table == from->table ? "" : "@",
                   of->table == from->table ? "" : scenario->tables[of->table].name);
    numbers.stream = ls_numbers__stream_of_step(scenario, "gradients", name, step);
    numbers.rank = (uint32_t)rank;
    ls_numbers__fill(out, dtype, &numbers, first, count);
    return LS_OK;
}
