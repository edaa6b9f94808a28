// Turning a scenario's generators into numbers. See inputs.h.
#include "runner/scenario/inputs.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/element.h"
#include "runner/scenario/numbers.h"
#include "runner/scenario/zipf.h"

#define IDS_MAX        (INT64_C(1) << 28)  // ids of one feature on one rank
#define CHECK_BAGS_MAX (INT64_C(1) << 22)  // bags that a check before the run counts

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
                            const ls_scenario_tensor *tensor) {
    size_t count = 0;
    LS_TRY(ls_shape_count(&count, &tensor->shape));
    ls_numbers numbers;
    ls_numbers__init(&numbers, scenario, &tensor->values, LS_GENERATOR_ARANGE, tensor->dtype);
    numbers.stream = ls_numbers__stream("tensor", tensor->name);
    if (ls_numbers__open(&numbers, scenario, count) != LS_OK) {
        (void)ls_numbers__place(scenario, &tensor->values, "values");
        return ls_error_wrap("tensor %s", tensor->name);
    }
    ls_numbers__fill(out, tensor->dtype, &numbers, 0, count);
    return LS_OK;
}

int ls_inputs_member(const ls_scenario *scenario, const ls_scenario_step *step, int rank,
                     int *size) {
    if (step->axis >= 0) {
        int coordinates[LS_MESH_DIMS_MAX];
        ls_mesh_coordinates(coordinates, &scenario->mesh, rank);
        *size = scenario->mesh.dim[step->axis];
        return coordinates[step->axis];
    }
    for (int i = 0; i < step->ranks.count; i++) {
        if (step->ranks.at[i] == rank) {
            *size = step->ranks.count;
            return i;
        }
    }
    *size = scenario->ranks;
    return rank;
}

// Values given for each member: a list of lists, or a file whose first dimension is the members.
static int member_values(ls_numbers *numbers, const ls_scenario *scenario,
                         const ls_scenario_step *step, int rank, size_t count, uint64_t *first) {
    const ls_generator *values = &step->values;
    int size = 0;
    int member = ls_inputs_member(scenario, step, rank, &size);
    uint64_t length = (uint64_t)values->value_count;  // of the member's list
    *first = 0;
    if (numbers->kind == LS_GENERATOR_FILE) {
        LS_TRY(ls_input_file_get(&numbers->array, scenario, values->file, values->tensor));
        const ls_input_array *array = numbers->array;
        if (array->ndim < 1 || array->dim[0] != size) {
            return LS_FAIL(LS_ERR_FORMAT, "%s: its first dimension is not the %d members",
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
    ls_numbers__init(&numbers, scenario, &step->values, LS_GENERATOR_EXACT, dtype);
    numbers.stream = ls_numbers__stream("step", step->name);
    numbers.rank = (uint32_t)rank;
    uint64_t first = 0;
    if (member_values(&numbers, scenario, step, rank, count, &first) != LS_OK) {
        (void)ls_numbers__place(scenario, &step->values, "values");
        return ls_error_wrap("step %s", step->name);
    }
    ls_numbers__fill(out, dtype, &numbers, first, count);
    return LS_OK;
}

// ---- Integers: lengths and ids ------------------------------------------------------------------
typedef struct ls_integers {
    const ls_generator *generator;
    ls_generator_kind kind;
    int64_t low, high;  // uniform, both included; constant: low
    ls_zipf zipf;
    uint64_t seed;
    uint32_t stream;
    const ls_input_array *array;
} ls_integers;

static int64_t integer_at(const ls_integers *integers, int rank, uint64_t index, uint64_t global) {
    const ls_input_array *array = integers->array;
    switch (integers->kind) {
    case LS_GENERATOR_UNIFORM:
        return integers->low +
               (int64_t)ls_random_below((uint64_t)(integers->high - integers->low) + 1,
                                        integers->seed, integers->stream, (uint32_t)rank, index);
    case LS_GENERATOR_CONSTANT:
        return integers->low;
    case LS_GENERATOR_ZIPF:
        return ls_zipf_draw(&integers->zipf, integers->seed, integers->stream, (uint32_t)rank,
                            index);
    case LS_GENERATOR_VALUES:
        LS_ASSERT(global < (uint64_t)integers->generator->value_count);
        return integers->generator->ints[global];
    case LS_GENERATOR_FILE:
        LS_ASSERT(global < array->count);
        if (array->dtype == LS_I64) {
            return ((const int64_t *)array->data)[global];
        }
        return (int64_t)ls_element_to_f64(
            (const char *)array->data + global * ls_dtype_bytes(array->dtype), array->dtype);
    default:
        LS_ASSERT(!"a generator of integers");
        return 0;
    }
}

static int integers_init(ls_integers *out, const ls_scenario *scenario,
                         const ls_generator *generator) {
    *out = (ls_integers){.generator = generator, .kind = generator->kind, .seed = scenario->seed};
    if (generator->kind == LS_GENERATOR_FILE) {
        LS_TRY(ls_input_file_get(&out->array, scenario, generator->file, generator->tensor));
        if (ls_dtype_is_float(out->array->dtype) || out->array->dtype == LS_U64) {
            return LS_FAIL(LS_ERR_FORMAT, "%s: its elements are %s, not signed integers",
                           generator->file, ls_dtype_name(out->array->dtype));
        }
    }
    out->low = (int64_t)generator->a;
    out->high = (int64_t)generator->b;
    return LS_OK;
}

// How many numbers the generator has in all; -1: as many as one likes.
static int64_t available(const ls_integers *integers) {
    return integers->kind == LS_GENERATOR_VALUES ? integers->generator->value_count
           : integers->kind == LS_GENERATOR_FILE ? (int64_t)integers->array->count
                                                 : -1;
}

// ---- Batches ------------------------------------------------------------------------------------
// One feature of one rank, while it is made.
typedef struct ls_feature_plan {
    const ls_scenario *scenario;
    const ls_scenario_feature *feature;
    ls_integers lengths, ids;
    int rank;
    int64_t bags_before;  // of lower ranks
    int64_t bags_all;
    int64_t ids_before, ids_here, ids_all;
    const ls_generator *wrong;  // what the last error is about; NULL: none of them
} ls_feature_plan;

static int length_at(int64_t *out, const ls_feature_plan *plan, int rank, int64_t bag,
                     int64_t global) {
    *out = integer_at(&plan->lengths, rank, (uint64_t)bag, (uint64_t)global);
    if (*out < 0 || *out > LS_SCENARIO_LENGTH_MAX) {
        return LS_FAIL_RANK(LS_ERR_FORMAT, rank, "%" PRId64 " for sample %" PRId64 " of rank %d",
                            *out, bag, rank);
    }
    return LS_OK;
}

// Ids of all ranks are only counted where something is given for all ranks in one list.
static bool counts_all(const ls_scenario_feature *feature) {
    return feature->lengths.kind == LS_GENERATOR_FILE || feature->ids.kind == LS_GENERATOR_VALUES ||
           feature->ids.kind == LS_GENERATOR_FILE || feature->weights.kind == LS_GENERATOR_VALUES ||
           feature->weights.kind == LS_GENERATOR_FILE;
}

static int count_ids(ls_feature_plan *plan) {
    const ls_int_list *batch = &plan->scenario->inputs.batch;
    bool all = counts_all(plan->feature);
    int64_t global = 0;
    for (int r = 0; r < batch->count; r++) {
        int64_t sum = 0;
        for (int64_t bag = 0; bag < batch->at[r] && (all || r == plan->rank); bag++) {
            int64_t length = 0;
            LS_TRY(length_at(&length, plan, r, bag, global + bag));
            sum += length;
        }
        global += batch->at[r];
        plan->ids_all += sum;
        plan->ids_before += r < plan->rank ? sum : 0;
        plan->ids_here += r == plan->rank ? sum : 0;
    }
    if (plan->ids_here > IDS_MAX) {
        return LS_FAIL_RANK(LS_ERR_LIMIT, plan->rank, "%" PRId64 " ids on rank %d, more than 2^28",
                            plan->ids_here, plan->rank);
    }
    return LS_OK;
}

static int open_generators(ls_feature_plan *plan) {
    const ls_scenario *scenario = plan->scenario;
    const ls_scenario_feature *feature = plan->feature;
    int64_t rows = scenario->tables[feature->table].rows;
    plan->wrong = &feature->lengths;
    LS_TRY(integers_init(&plan->lengths, scenario, &feature->lengths));
    plan->wrong = &feature->ids;
    LS_TRY(integers_init(&plan->ids, scenario, &feature->ids));
    plan->wrong = NULL;
    plan->lengths.stream = ls_numbers__stream("lengths", feature->name);
    plan->ids.stream = ls_numbers__stream("ids", feature->name);
    if (plan->lengths.kind == LS_GENERATOR_DEFAULT) {
        plan->lengths.kind = LS_GENERATOR_CONSTANT;
        plan->lengths.low = 1;
    }
    if (plan->ids.kind == LS_GENERATOR_DEFAULT ||
        (plan->ids.kind == LS_GENERATOR_UNIFORM && !feature->ids.has_range)) {
        plan->ids.kind = LS_GENERATOR_UNIFORM;
        plan->ids.low = 0;
        plan->ids.high = rows - 1;
    }
    if (plan->ids.kind == LS_GENERATOR_ZIPF) {
        ls_zipf_init(&plan->ids.zipf, feature->ids.a, rows);
    }
    const ls_int_list *batch = &scenario->inputs.batch;
    for (int r = 0; r < batch->count; r++) {
        plan->bags_before += r < plan->rank ? batch->at[r] : 0;
        plan->bags_all += batch->at[r];
    }
    return LS_OK;
}

static int prepare(ls_feature_plan *plan) {
    LS_TRY(open_generators(plan));
    plan->wrong = &plan->feature->lengths;
    int64_t given = available(&plan->lengths);
    if (given >= 0 && given != plan->bags_all) {
        return LS_FAIL(LS_ERR_FORMAT, "%" PRId64 " lengths for %" PRId64 " samples in all", given,
                       plan->bags_all);
    }
    LS_TRY(count_ids(plan));
    plan->wrong = &plan->feature->ids;
    given = available(&plan->ids);
    if (given >= 0 && given != plan->ids_all) {
        return LS_FAIL(LS_ERR_FORMAT, "%" PRId64 " ids where the lengths add up to %" PRId64, given,
                       plan->ids_all);
    }
    plan->wrong = NULL;
    return LS_OK;
}

int ls_inputs_check(const ls_generator **wrong, const ls_scenario *scenario, int feature) {
    ls_feature_plan plan = {.scenario = scenario, .feature = &scenario->inputs.features[feature]};
    int64_t bags = 0;
    for (int r = 0; r < scenario->inputs.batch.count; r++) {
        bags += scenario->inputs.batch.at[r];
    }
    if (bags > CHECK_BAGS_MAX) {
        return LS_OK;
    }
    int status = prepare(&plan);
    const ls_generator *weights = &plan.feature->weights;
    ls_numbers numbers;
    if (status == LS_OK && scenario->inputs.weighted) {
        ls_numbers__init(&numbers, scenario, weights, LS_GENERATOR_UNIFORM, LS_F32);
        plan.wrong = weights;
        status = ls_numbers__open(&numbers, scenario, (size_t)plan.ids_all);
    }
    *wrong = plan.wrong;
    return status;
}

// weights [ids_here]: exact ones are 0.5, 1, 1.5 or 2, so that products with exact rows stay exact.
static int fill_weights(float *out, const ls_feature_plan *plan) {
    ls_numbers numbers;
    ls_numbers__init(&numbers, plan->scenario, &plan->feature->weights, LS_GENERATOR_UNIFORM,
                     LS_F32);
    numbers.stream = ls_numbers__stream("sample_weights", plan->feature->name);
    numbers.rank = (uint32_t)plan->rank;
    LS_TRY(ls_numbers__open(&numbers, plan->scenario, (size_t)plan->ids_all));
    if (numbers.kind == LS_GENERATOR_EXACT) {
        for (int64_t i = 0; i < plan->ids_here; i++) {
            out[i] = 0.5F * (float)(1 + ls_random_below(4, numbers.seed, numbers.stream,
                                                        numbers.rank, (uint64_t)i));
        }
        return LS_OK;
    }
    bool given = numbers.kind == LS_GENERATOR_VALUES || numbers.kind == LS_GENERATOR_FILE;
    ls_numbers__fill(out, LS_F32, &numbers, given ? (uint64_t)plan->ids_before : 0,
                     (size_t)plan->ids_here);
    return LS_OK;
}

static int fill_feature(const ls_feature_plan *plan, int64_t *lengths, int64_t *ids,
                        float *weights) {
    int64_t batch = plan->scenario->inputs.batch.at[plan->rank];
    for (int64_t bag = 0; bag < batch; bag++) {
        LS_TRY(length_at(&lengths[bag], plan, plan->rank, bag, plan->bags_before + bag));
    }
    for (int64_t i = 0; i < plan->ids_here; i++) {
        ids[i] = integer_at(&plan->ids, plan->rank, (uint64_t)i, (uint64_t)(plan->ids_before + i));
    }
    return weights == NULL ? LS_OK : fill_weights(weights, plan);
}

// The arrays of all features, before they are handed over.
typedef struct ls_batch {
    ls_feature_plan *plans;
    const char **keys;
    int64_t *lengths, *ids;
    float *weights;
} ls_batch;

static int make_batch(ls_keyed_jagged **out, ls_batch *batch, const ls_scenario *scenario,
                      int rank) {
    size_t features = (size_t)scenario->inputs.feature_count;
    size_t bags = (size_t)scenario->inputs.batch.at[rank];
    size_t id_count = 0;
    batch->plans = calloc(features + 1, sizeof *batch->plans);
    batch->keys = calloc(features + 1, sizeof *batch->keys);
    if (batch->plans == NULL || batch->keys == NULL) {
        return LS_FAIL(LS_ERR_MEMORY, "no memory for %zu features", features);
    }
    for (size_t f = 0; f < features; f++) {
        batch->plans[f] = (ls_feature_plan){
            .scenario = scenario, .feature = &scenario->inputs.features[f], .rank = rank};
        batch->keys[f] = scenario->inputs.features[f].name;
        if (prepare(&batch->plans[f]) != LS_OK) {
            if (batch->plans[f].wrong != NULL) {
                (void)ls_numbers__place(scenario, batch->plans[f].wrong, "input");
            }
            return ls_error_wrap("feature %s", batch->keys[f]);
        }
        id_count += (size_t)batch->plans[f].ids_here;
    }
    batch->lengths = calloc(features * bags + 1, sizeof *batch->lengths);
    batch->ids = calloc(id_count + 1, sizeof *batch->ids);
    batch->weights =
        scenario->inputs.weighted ? calloc(id_count + 1, sizeof *batch->weights) : NULL;
    if (batch->lengths == NULL || batch->ids == NULL ||
        (scenario->inputs.weighted && batch->weights == NULL)) {
        return LS_FAIL(LS_ERR_MEMORY, "no memory for %zu ids on rank %d", id_count, rank);
    }
    size_t at = 0;
    for (size_t f = 0; f < features; f++) {
        float *weights = batch->weights == NULL ? NULL : batch->weights + at;
        if (fill_feature(&batch->plans[f], batch->lengths + f * bags, batch->ids + at, weights) !=
            LS_OK) {
            return ls_error_wrap("feature %s", batch->keys[f]);
        }
        at += (size_t)batch->plans[f].ids_here;
    }
    return ls_keyed_jagged_create(out, NULL, rank, batch->keys, (int)features, (int64_t)bags,
                                  batch->lengths, batch->ids, (int64_t)id_count, batch->weights);
}

int ls_inputs_jagged(ls_keyed_jagged **out, const ls_scenario *scenario, int rank) {
    LS_ASSERT(out != NULL && rank >= 0 && rank < scenario->ranks);
    ls_batch batch = {0};
    int status = make_batch(out, &batch, scenario, rank);
    free(batch.plans);
    free(batch.keys);
    free(batch.lengths);
    free(batch.ids);
    free(batch.weights);
    return status;
}
