// Turning a scenario's generators into numbers. See inputs.h.
#include "scenarios/runner/inputs.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "scenarios/runner/input_file.h"
#include "scenarios/runner/zipf.h"

#define STREAM_NAME_MAX 320
#define IDS_MAX         (INT64_C(1) << 28)  // ids of one feature on one rank

static uint32_t stream_of(const char *what, const char *name) {
    char text[STREAM_NAME_MAX];
    (void)snprintf(text, sizeof text, "%s/%s", what, name);
    return ls_random_stream(text);
}

// ---- Numbers: weights, tensors, buffers ---------------------------------------------------------
// A generator made ready: everything but the index is fixed.
typedef struct ls_numbers {
    const ls_generator *generator;
    ls_generator_kind kind;  // the default is settled
    double low, high;        // uniform
    bool integers;
    bool is_signed;
    uint64_t seed;
    uint32_t stream, rank;
    const ls_input_array *array;  // files
} ls_numbers;

static void numbers_init(ls_numbers *out, const ls_scenario *scenario,
                         const ls_generator *generator, ls_generator_kind standard,
                         ls_dtype dtype) {
    *out =
        (ls_numbers){.generator = generator,
                     .kind = generator->kind == LS_GENERATOR_DEFAULT ? standard : generator->kind,
                     .high = 1,
                     .integers = !ls_dtype_is_float(dtype),
                     .is_signed = ls_dtype_is_signed(dtype),
                     .seed = scenario->seed};
    if (out->integers) {
        out->low = out->is_signed ? -100 : 0;
        out->high = 101;
    }
    if (generator->kind == LS_GENERATOR_UNIFORM && generator->has_range) {
        out->low = generator->a;
        out->high = generator->b;
    }
}

// Multiples of 1/8 from -1 to 1 (integers: 17 whole numbers), so that sums are exact: n terms of
// them need 3 + log2(n) bits of a significand, and the f32 has 24.
static double exact_at(const ls_numbers *numbers, uint64_t index) {
    double step = (double)ls_random_below(17, numbers->seed, numbers->stream, numbers->rank, index);
    if (numbers->integers) {
        return numbers->is_signed ? step - 8 : step;
    }
    return (step - 8) / 8;
}

static double number_at(const ls_numbers *numbers, uint64_t index) {
    const ls_generator *generator = numbers->generator;
    double value = 0;
    switch (numbers->kind) {
    case LS_GENERATOR_NORMAL:
        value = generator->a + generator->b * ls_random_normal(numbers->seed, numbers->stream,
                                                               numbers->rank, index);
        return numbers->integers ? nearbyint(value) : value;
    case LS_GENERATOR_UNIFORM:
        value = numbers->low +
                (numbers->high - numbers->low) *
                    ls_random_uniform(numbers->seed, numbers->stream, numbers->rank, index);
        return numbers->integers ? floor(value) : value;
    case LS_GENERATOR_ARANGE:
        // Not given at all: 0, 1, 2, ...
        return generator->kind == LS_GENERATOR_DEFAULT
                   ? (double)index
                   : generator->a + generator->b * (double)index;
    case LS_GENERATOR_CONSTANT:
        return generator->a;
    case LS_GENERATOR_EXACT:
        return exact_at(numbers, index);
    case LS_GENERATOR_VALUES:
        return generator->reals[index];
    default:
        LS_ASSERT(!"a generator of numbers");
        return 0;
    }
}

// out [count] of dtype = elements [first, first + count) of the generator.
static void fill(void *out, ls_dtype dtype, const ls_numbers *numbers, uint64_t first,
                 size_t count) {
    size_t bytes = ls_dtype_bytes(dtype);
    if (numbers->kind == LS_GENERATOR_FILE) {
        const ls_input_array *array = numbers->array;
        LS_ASSERT(first + count <= array->count);
        const char *from = (const char *)array->data + first * ls_dtype_bytes(array->dtype);
        if (array->dtype == dtype) {
            memcpy(out, from, count * bytes);
        } else {
            ls_kernel_convert(out, dtype, from, array->dtype, count);
        }
        return;
    }
    for (size_t i = 0; i < count; i++) {
        ls_element_from_f64((char *)out + i * bytes, dtype, number_at(numbers, first + i));
    }
}

// Opens the file of a generator that has one; its array must have `count` elements.
static int open_file(ls_numbers *numbers, const ls_scenario *scenario, size_t count) {
    const ls_generator *generator = numbers->generator;
    if (numbers->kind == LS_GENERATOR_FILE) {
        LS_TRY(ls_input_file_get(&numbers->array, scenario, generator->file, generator->tensor));
        if (numbers->array->count != count) {
            return LS_FAIL(LS_ERR_FORMAT, "%s: %zu elements where %zu belong", generator->file,
                           numbers->array->count, count);
        }
    }
    if (numbers->kind == LS_GENERATOR_VALUES && (size_t)generator->value_count != count) {
        return LS_FAIL(LS_ERR_FORMAT, "%" PRId64 " values where %zu belong", generator->value_count,
                       count);
    }
    return LS_OK;
}

int ls_inputs_weights(void *out, const ls_scenario *scenario, int table, int64_t row, int64_t rows,
                      int64_t column, int64_t columns) {
    LS_ASSERT(table >= 0 && table < scenario->table_count);
    const ls_scenario_table *of = &scenario->tables[table];
    LS_ASSERT(row >= 0 && rows >= 0 && row + rows <= of->rows);
    LS_ASSERT(column >= 0 && columns >= 0 && column + columns <= of->dim);
    ls_numbers numbers;
    numbers_init(&numbers, scenario, &of->weights, LS_GENERATOR_UNIFORM, of->dtype);
    if (!of->weights.has_range) {
        numbers.high = 1 / sqrt((double)of->rows);
        numbers.low = -numbers.high;
    }
    numbers.stream = stream_of("weights", of->name);
    if (open_file(&numbers, scenario, (size_t)(of->rows * of->dim)) != LS_OK) {
        return ls_error_wrap("table %s: weights", of->name);
    }
    size_t bytes = ls_dtype_bytes(of->dtype);
    for (int64_t i = 0; i < rows; i++) {
        fill((char *)out + (size_t)(i * columns) * bytes, of->dtype, &numbers,
             (uint64_t)((row + i) * of->dim + column), (size_t)columns);
    }
    return LS_OK;
}

int ls_inputs_tensor_values(void *out, const ls_scenario *scenario,
                            const ls_scenario_tensor *tensor) {
    size_t count = 0;
    LS_TRY(ls_shape_count(&count, &tensor->shape));
    ls_numbers numbers;
    numbers_init(&numbers, scenario, &tensor->values, LS_GENERATOR_ARANGE, tensor->dtype);
    numbers.stream = stream_of("tensor", tensor->name);
    if (open_file(&numbers, scenario, count) != LS_OK) {
        return ls_error_wrap("tensor %s: values", tensor->name);
    }
    fill(out, tensor->dtype, &numbers, 0, count);
    return LS_OK;
}

// The place of `rank` in the group that it takes part in, and the group's size.
static int member_of(const ls_scenario *scenario, const ls_scenario_step *step, int rank,
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
    int member = member_of(scenario, step, rank, &size);
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
    numbers_init(&numbers, scenario, &step->values, LS_GENERATOR_EXACT, dtype);
    numbers.stream = stream_of("step", step->name);
    numbers.rank = (uint32_t)rank;
    uint64_t first = 0;
    if (member_values(&numbers, scenario, step, rank, count, &first) != LS_OK) {
        return ls_error_wrap("step %s: values", step->name);
    }
    fill(out, dtype, &numbers, first, count);
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
} ls_feature_plan;

static int length_at(int64_t *out, const ls_feature_plan *plan, int rank, int64_t bag,
                     int64_t global) {
    *out = integer_at(&plan->lengths, rank, (uint64_t)bag, (uint64_t)global);
    if (*out < 0 || *out > LS_SCENARIO_LENGTH_MAX) {
        return LS_FAIL_RANK(LS_ERR_FORMAT, rank,
                            "lengths: %" PRId64 " for sample %" PRId64 " of rank %d", *out, bag,
                            rank);
    }
    return LS_OK;
}

// Ids of all ranks are only counted where ids or weights are given for all ranks in one list.
static bool counts_all(const ls_scenario_feature *feature) {
    return feature->ids.kind == LS_GENERATOR_VALUES || feature->ids.kind == LS_GENERATOR_FILE ||
           feature->weights.kind == LS_GENERATOR_VALUES ||
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

static int prepare(ls_feature_plan *plan) {
    const ls_scenario *scenario = plan->scenario;
    const ls_scenario_feature *feature = plan->feature;
    int64_t rows = scenario->tables[feature->table].rows;
    LS_TRY(integers_init(&plan->lengths, scenario, &feature->lengths));
    LS_TRY(integers_init(&plan->ids, scenario, &feature->ids));
    plan->lengths.stream = stream_of("lengths", feature->name);
    plan->ids.stream = stream_of("ids", feature->name);
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
    int64_t given = available(&plan->lengths);
    if (given >= 0 && given != plan->bags_all) {
        return LS_FAIL(LS_ERR_FORMAT, "%" PRId64 " lengths for %" PRId64 " samples in all", given,
                       plan->bags_all);
    }
    LS_TRY(count_ids(plan));
    given = available(&plan->ids);
    if (given >= 0 && given != plan->ids_all) {
        return LS_FAIL(LS_ERR_FORMAT, "%" PRId64 " ids where the lengths add up to %" PRId64, given,
                       plan->ids_all);
    }
    return LS_OK;
}

// weights [ids_here]: exact ones are 0.5, 1, 1.5 or 2, so that products with exact rows stay exact.
static int fill_weights(float *out, const ls_feature_plan *plan) {
    ls_numbers numbers;
    numbers_init(&numbers, plan->scenario, &plan->feature->weights, LS_GENERATOR_UNIFORM, LS_F32);
    numbers.stream = stream_of("sample_weights", plan->feature->name);
    numbers.rank = (uint32_t)plan->rank;
    LS_TRY(open_file(&numbers, plan->scenario, (size_t)plan->ids_all));
    if (numbers.kind == LS_GENERATOR_EXACT) {
        for (int64_t i = 0; i < plan->ids_here; i++) {
            out[i] = 0.5F * (float)(1 + ls_random_below(4, numbers.seed, numbers.stream,
                                                        numbers.rank, (uint64_t)i));
        }
        return LS_OK;
    }
    bool given = numbers.kind == LS_GENERATOR_VALUES || numbers.kind == LS_GENERATOR_FILE;
    fill(out, LS_F32, &numbers, given ? (uint64_t)plan->ids_before : 0, (size_t)plan->ids_here);
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
