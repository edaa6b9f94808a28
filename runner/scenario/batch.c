// Generates batches from a scenario: the lengths, ids and weights of every feature of a rank in a
// step. See inputs.h.
#include "runner/scenario/inputs.h"

#include <inttypes.h>
#include <stdlib.h>

#include "kernels/element.h"
#include "runner/scenario/numbers.h"
#include "runner/scenario/reuse.h"
#include "runner/scenario/zipf.h"

#define IDS_MAX        (INT64_C(1) << 28)  // ids of one feature on one rank
#define CHECK_BAGS_MAX (INT64_C(1) << 22)  // limit on the bags that a check before the run counts

// ---- Integers: lengths and ids ------------------------------------------------------------------
typedef struct ls_integers {
    const ls_generator *generator;
    ls_generator_kind kind;
    int64_t low, high;  // uniform, both included; constant: low
    ls_zipf zipf;
    ls_reuse reuse;
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
    case LS_GENERATOR_REUSE:
        return ls_reuse_draw(&integers->reuse, (int64_t)global);
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

// The total of the generator's numbers; -1: unlimited.
static int64_t available(const ls_integers *integers) {
    if (integers->kind == LS_GENERATOR_VALUES) {
        return integers->generator->value_count;
    }
    return integers->kind == LS_GENERATOR_FILE ? (int64_t)integers->array->count : -1;
}

// ---- Batches ------------------------------------------------------------------------------------
// One feature of one rank under construction.
typedef struct ls_feature_plan {
    const ls_scenario *scenario;
    const ls_scenario_feature *feature;
    ls_integers lengths, ids, inverse;
    int step, rank;
    int64_t bags_before;                    // of lower ranks
    int64_t bags_all;                       // of all ranks
    int64_t samples_before, samples_all;    // likewise
    bool lengths_stepped;                   // the list covers all steps
    int64_t ids_before, ids_here, ids_all;  // in the step
    int64_t ids_earlier;                    // in the steps before it
    int64_t ids_total;                      // in all steps
    const ls_generator *wrong;              // the field at fault in the last error; NULL: none
} ls_feature_plan;

// The length of a bag in the step of the plan's lengths.
static int length_at(int64_t *out, const ls_feature_plan *plan, int step, int rank, int64_t bag,
                     int64_t global) {
    int64_t earlier = plan->lengths_stepped ? step * plan->bags_all : 0;
    *out = integer_at(&plan->lengths, rank, (uint64_t)bag, (uint64_t)(earlier + global));
    if (*out < 0 || *out > LS_SCENARIO_LENGTH_MAX) {
        return LS_FAIL_RANK(LS_ERR_FORMAT, rank, "%" PRId64 " for sample %" PRId64 " of rank %d",
                            *out, bag, rank);
    }
    return LS_OK;
}

// The ids of all ranks and steps are counted only if one list covers them all.
static bool counts_all(const ls_scenario_feature *feature) {
    return feature->lengths.kind == LS_GENERATOR_FILE || feature->ids.kind == LS_GENERATOR_VALUES ||
           feature->ids.kind == LS_GENERATOR_FILE || feature->ids.kind == LS_GENERATOR_REUSE ||
           feature->weights.kind == LS_GENERATOR_VALUES ||
           feature->weights.kind == LS_GENERATOR_FILE;
}

static void enter_step(ls_feature_plan *plan, int step) {
    const char *name = plan->feature->name;
    plan->lengths.stream = ls_numbers__stream_of_step(plan->scenario, "lengths", name, step);
}

static int count_step(ls_feature_plan *plan, int step, bool all) {
    const ls_int_list *batch = &plan->feature->strides;
    bool now = step == plan->step;
    int64_t global = 0, step_sum = 0;
    enter_step(plan, step);
    for (int r = 0; r < batch->count; r++) {
        int64_t sum = 0;
        for (int64_t bag = 0; bag < batch->at[r] && (all || r == plan->rank); bag++) {
            int64_t length = 0;
            LS_TRY(length_at(&length, plan, step, r, bag, global + bag));
            sum += length;
        }
        global += batch->at[r];
        step_sum += sum;
        plan->ids_before += now && r < plan->rank ? sum : 0;
        plan->ids_here += now && r == plan->rank ? sum : 0;
    }
    plan->ids_all += now ? step_sum : 0;
    plan->ids_earlier += step < plan->step ? step_sum : 0;
    plan->ids_total += step_sum;
    return LS_OK;
}

static int count_ids(ls_feature_plan *plan) {
    bool all = counts_all(plan->feature);
    for (int step = 0; step < plan->scenario->train.steps; step++) {
        if (all || step == plan->step) {
            LS_TRY(count_step(plan, step, all));
        }
    }
    enter_step(plan, plan->step);
    if (plan->ids_here > IDS_MAX) {
        return LS_FAIL_RANK(LS_ERR_LIMIT, plan->rank, "%" PRId64 " ids on rank %d, more than 2^28",
                            plan->ids_here, plan->rank);
    }
    return LS_OK;
}

// Whether a list of this length has the numbers of all steps; else it has one step's and is reused.
static bool is_stepped(const ls_feature_plan *plan, int64_t given) {
    return given == plan->ids_total && given != plan->ids_all;
}

static int open_generators(ls_feature_plan *plan) {
    const ls_scenario *scenario = plan->scenario;
    const ls_scenario_feature *feature = plan->feature;
    int64_t rows = feature->rows;
    plan->wrong = &feature->lengths;
    LS_TRY(integers_init(&plan->lengths, scenario, &feature->lengths));
    plan->wrong = &feature->inverse_indices;
    LS_TRY(integers_init(&plan->inverse, scenario, &feature->inverse_indices));
    plan->wrong = &feature->ids;
    LS_TRY(integers_init(&plan->ids, scenario, &feature->ids));
    plan->wrong = NULL;
    plan->ids.stream = ls_numbers__stream_of_step(plan->scenario, "ids", feature->name, plan->step);
    plan->inverse.stream =
        ls_numbers__stream_of_step(plan->scenario, "inverse_indices", feature->name, plan->step);
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
    for (int r = 0; r < feature->strides.count; r++) {
        plan->bags_before += r < plan->rank ? feature->strides.at[r] : 0;
        plan->bags_all += feature->strides.at[r];
        plan->samples_before += r < plan->rank ? scenario->inputs.batch.at[r] : 0;
        plan->samples_all += scenario->inputs.batch.at[r];
    }
    return LS_OK;
}

static int prepare(ls_feature_plan *plan) {
    int steps = plan->scenario->train.steps;
    LS_TRY(open_generators(plan));
    plan->wrong = &plan->feature->lengths;
    int64_t given = available(&plan->lengths);
    plan->lengths_stepped = given >= 0 && steps > 1 && given == steps * plan->bags_all;
    if (given >= 0 && given != plan->bags_all && !plan->lengths_stepped) {
        return LS_FAIL(LS_ERR_FORMAT, "%" PRId64 " lengths for %" PRId64 " samples in all", given,
                       plan->bags_all);
    }
    LS_TRY(count_ids(plan));
    plan->wrong = &plan->feature->ids;
    given = available(&plan->ids);
    if (given >= 0 && given != plan->ids_all && !is_stepped(plan, given)) {
        return LS_FAIL(LS_ERR_FORMAT, "%" PRId64 " ids where the lengths add up to %" PRId64, given,
                       plan->ids_all);
    }
    plan->wrong = &plan->feature->inverse_indices;
    given = available(&plan->inverse);
    if (given >= 0 && given != plan->samples_all && given != steps * plan->samples_all) {
        return LS_FAIL(LS_ERR_FORMAT, "%" PRId64 " inverse indices for %" PRId64 " samples in all",
                       given, plan->samples_all);
    }
    plan->wrong = &plan->feature->ids;
    if (plan->ids.kind == LS_GENERATOR_REUSE) {
        LS_TRY(ls_reuse_init(&plan->ids.reuse, plan->ids_all, plan->feature->rows,
                             plan->scenario->seed, plan->ids.stream));
    }
    plan->wrong = NULL;
    return LS_OK;
}

// The total number of weights.
static int open_weights(ls_numbers *numbers, bool *stepped, const ls_feature_plan *plan) {
    const ls_scenario *scenario = plan->scenario;
    const ls_generator *weights = &plan->feature->weights;
    ls_numbers__init(numbers, scenario, weights, LS_GENERATOR_UNIFORM, LS_F32);
    int64_t given = weights->value_count;
    if (numbers->kind == LS_GENERATOR_FILE) {
        const ls_input_array *array = NULL;
        LS_TRY(ls_input_file_get(&array, scenario, weights->file, weights->tensor));
        given = (int64_t)array->count;
    }
    *stepped = is_stepped(plan, given);
    return ls_numbers__open(numbers, scenario,
                            (size_t)(*stepped ? plan->ids_total : plan->ids_all));
}

// ---- Which bag a sample takes -------------------------------------------------------------------
static bool inverse_is_given(const ls_feature_plan *plan) {
    return plan->inverse.kind == LS_GENERATOR_VALUES || plan->inverse.kind == LS_GENERATOR_FILE;
}

static int inverse_at(int64_t *out, const ls_feature_plan *plan, int64_t sample, int step) {
    int64_t bags = plan->feature->strides.at[plan->rank];
    ls_integers inverse = plan->inverse;
    bool own = ls_node_has(&plan->feature->node, "stride_per_rank");
    if (inverse.kind == LS_GENERATOR_DEFAULT && !own) {
        *out = sample;
        return LS_OK;
    }
    bool stepped = available(&inverse) != plan->samples_all;
    inverse.kind = inverse_is_given(plan) ? inverse.kind : LS_GENERATOR_UNIFORM;
    inverse.low = 0;
    inverse.high = bags - 1;
    *out = integer_at(
        &inverse, plan->rank, (uint64_t)sample,
        (uint64_t)(plan->samples_before + sample + (stepped ? step * plan->samples_all : 0)));
    if (*out < 0 || *out >= bags) {
        return LS_FAIL_RANK(LS_ERR_FORMAT, plan->rank,
                            "%" PRId64 " for sample %" PRId64 " of rank %d, which has %" PRId64
                            " bags",
                            *out, sample, plan->rank, bags);
    }
    return LS_OK;
}

// The number of given ids over all steps.
static int check_inverse(const ls_feature_plan *plan) {
    int64_t batch = plan->scenario->inputs.batch.at[plan->rank], unused = 0;
    bool stepped = available(&plan->inverse) != plan->samples_all;
    for (int step = 0; step < (stepped ? plan->scenario->train.steps : 1); step++) {
        for (int64_t b = 0; b < batch; b++) {
            LS_TRY(inverse_at(&unused, plan, b, step));
        }
    }
    return LS_OK;
}

int ls_inputs_check(const ls_generator **wrong, const ls_scenario *scenario, int feature) {
    ls_feature_plan plan = {.scenario = scenario, .feature = &scenario->inputs.features[feature]};
    int64_t bags = 0;
    for (int r = 0; r < plan.feature->strides.count; r++) {
        bags += plan.feature->strides.at[r];
    }
    if (bags > CHECK_BAGS_MAX) {
        return LS_OK;
    }
    int status = prepare(&plan);
    ls_numbers numbers;
    bool stepped = false;
    if (status == LS_OK && scenario->inputs.weighted) {
        plan.wrong = &plan.feature->weights;
        status = open_weights(&numbers, &stepped, &plan);
    }
    *wrong = plan.wrong;
    for (int r = 0; r < scenario->ranks && status == LS_OK && inverse_is_given(&plan); r++) {
        plan.rank = r;
        plan.samples_before += r > 0 ? scenario->inputs.batch.at[r - 1] : 0;
        *wrong = &plan.feature->inverse_indices;
        status = check_inverse(&plan);
    }
    return status;
}

// weights [ids_here]: exact ones are 0.5, 1, 1.5 or 2, so that products with exact rows stay exact.
static int fill_weights(float *out, const ls_feature_plan *plan) {
    ls_numbers numbers;
    bool stepped = false;
    LS_TRY(open_weights(&numbers, &stepped, plan));
    numbers.stream = ls_numbers__stream_of_step(plan->scenario, "sample_weights",
                                                plan->feature->name, plan->step);
    numbers.rank = (uint32_t)plan->rank;
    if (numbers.kind == LS_GENERATOR_EXACT && numbers.draw == 0) {
        for (int64_t i = 0; i < plan->ids_here; i++) {
            out[i] = 0.5F * (float)(1 + ls_random_below(4, numbers.seed, numbers.stream,
                                                        numbers.rank, (uint64_t)i));
        }
        return LS_OK;
    }
    bool given = numbers.kind == LS_GENERATOR_VALUES || numbers.kind == LS_GENERATOR_FILE;
    int64_t first = plan->ids_before + (stepped ? plan->ids_earlier : 0);
    ls_numbers__fill(out, numbers.draw > 0 ? LS_FIELD : LS_F32, &numbers,
                     given ? (uint64_t)first : 0, (size_t)plan->ids_here);
    return LS_OK;
}

static void fill_ids(int64_t *ids, const ls_feature_plan *plan, int64_t count) {
    int64_t given = available(&plan->ids);
    int64_t first = plan->ids_before + (is_stepped(plan, given) ? plan->ids_earlier : 0);
    for (int64_t i = 0; i < count; i++) {
        ids[i] = integer_at(&plan->ids, plan->rank, (uint64_t)i, (uint64_t)(first + i));
    }
}

static int fill_feature(const ls_feature_plan *plan, int64_t *lengths, int64_t *ids,
                        float *weights) {
    int64_t bags = plan->feature->strides.at[plan->rank];
    for (int64_t bag = 0; bag < bags; bag++) {
        LS_TRY(
            length_at(&lengths[bag], plan, plan->step, plan->rank, bag, plan->bags_before + bag));
    }
    fill_ids(ids, plan, plan->ids_here);
    return weights == NULL ? LS_OK : fill_weights(weights, plan);
}

// The arrays of all features, before they are assigned to the batch.
typedef struct ls_batch {
    ls_feature_plan *plans;
    const char **keys;
    int64_t *strides, *inverse, *lengths, *ids;
    float *weights;
} ls_batch;

// The bags of the rank's samples: batch->strides [features] and inverse [features, samples].
static int fill_inverse(ls_batch *batch, const ls_scenario *scenario, int step, int rank) {
    size_t features = (size_t)scenario->inputs.feature_count;
    int64_t samples = scenario->inputs.batch.at[rank];
    batch->strides = calloc(features + 1, sizeof *batch->strides);
    batch->inverse = calloc(features * (size_t)samples + 1, sizeof *batch->inverse);
    if (batch->strides == NULL || batch->inverse == NULL) {
        return LS_FAIL(LS_ERR_MEMORY, "no memory for the samples of rank %d", rank);
    }
    for (size_t f = 0; f < features; f++) {
        batch->strides[f] = scenario->inputs.features[f].strides.at[rank];
        for (int64_t b = 0; b < samples; b++) {
            if (inverse_at(&batch->inverse[(int64_t)f * samples + b], &batch->plans[f], b, step)) {
                (void)ls_numbers__place(scenario, &batch->plans[f].feature->inverse_indices,
                                        "inverse_indices");
                return ls_error_wrap("feature %s", batch->keys[f]);
            }
        }
    }
    return LS_OK;
}

static int make_batch(ls_keyed_jagged **out, ls_batch *batch, const ls_scenario *scenario, int step,
                      int rank) {
    size_t features = (size_t)scenario->inputs.feature_count;
    size_t bags = 0, id_count = 0;
    batch->plans = calloc(features + 1, sizeof *batch->plans);
    batch->keys = calloc(features + 1, sizeof *batch->keys);
    if (batch->plans == NULL || batch->keys == NULL) {
        return LS_FAIL(LS_ERR_MEMORY, "no memory for %zu features", features);
    }
    for (size_t f = 0; f < features; f++) {
        batch->plans[f] = (ls_feature_plan){.scenario = scenario,
                                            .feature = &scenario->inputs.features[f],
                                            .step = step,
                                            .rank = rank};
        batch->keys[f] = scenario->inputs.features[f].name;
        if (prepare(&batch->plans[f]) != LS_OK) {
            if (batch->plans[f].wrong != NULL) {
                (void)ls_numbers__place(scenario, batch->plans[f].wrong, "input");
            }
            return ls_error_wrap("feature %s", batch->keys[f]);
        }
        id_count += (size_t)batch->plans[f].ids_here;
        bags += (size_t)scenario->inputs.features[f].strides.at[rank];
    }
    batch->lengths = calloc(bags + 1, sizeof *batch->lengths);
    batch->ids = calloc(id_count + 1, sizeof *batch->ids);
    batch->weights =
        scenario->inputs.weighted ? calloc(id_count + 1, sizeof *batch->weights) : NULL;
    if (batch->lengths == NULL || batch->ids == NULL ||
        (scenario->inputs.weighted && batch->weights == NULL)) {
        return LS_FAIL(LS_ERR_MEMORY, "no memory for %zu ids on rank %d", id_count, rank);
    }
    size_t at = 0;
    bags = 0;
    for (size_t f = 0; f < features; f++) {
        float *weights = batch->weights == NULL ? NULL : batch->weights + at;
        if (fill_feature(&batch->plans[f], batch->lengths + bags, batch->ids + at, weights) !=
            LS_OK) {
            return ls_error_wrap("feature %s", batch->keys[f]);
        }
        at += (size_t)batch->plans[f].ids_here;
        bags += (size_t)scenario->inputs.features[f].strides.at[rank];
    }
    int64_t samples = scenario->inputs.batch.at[rank];
    if (!scenario->inputs.variable) {
        return ls_keyed_jagged_create(out, rank, batch->keys, (int)features, samples,
                                      batch->lengths, batch->ids, (int64_t)id_count,
                                      batch->weights);
    }
    LS_TRY(fill_inverse(batch, scenario, step, rank));
    return ls_keyed_jagged_create_variable(out, rank, batch->keys, (int)features, batch->strides,
                                           samples, batch->inverse, batch->lengths, batch->ids,
                                           (int64_t)id_count, batch->weights);
}

int ls_inputs_jagged(ls_keyed_jagged **out, const ls_scenario *scenario, int step, int rank) {
    LS_ASSERT(out != NULL && rank >= 0 && rank < scenario->ranks);
    LS_ASSERT(step >= 0 && step < scenario->train.steps);
    ls_batch batch = {0};
    int status = make_batch(out, &batch, scenario, step, rank);
    free(batch.plans);
    free(batch.keys);
    free(batch.strides);
    free(batch.inverse);
    free(batch.lengths);
    free(batch.ids);
    free(batch.weights);
    return status;
}

int ls_inputs_list_ids(ls_id_list *list, const ls_scenario *scenario, int step, int rank,
                       int feature, int64_t most) {
    LS_ASSERT(list != NULL && rank >= 0 && rank < scenario->ranks && most >= 0);
    ls_feature_plan plan = {.scenario = scenario,
                            .feature = &scenario->inputs.features[feature],
                            .step = step,
                            .rank = rank};
    if (prepare(&plan) != LS_OK) {
        if (plan.wrong != NULL) {
            (void)ls_numbers__place(scenario, plan.wrong, "input");
        }
        return ls_error_wrap("feature %s", plan.feature->name);
    }
    list->all = plan.ids_here;
    list->count = (size_t)(plan.ids_here < most ? plan.ids_here : most);
    if (list->count > list->capacity) {
        ls_free(list->at, list->capacity, sizeof(*list->at));
        list->capacity = 0;
        LS_TRY(ls_alloc((void **)&list->at, list->count, sizeof(*list->at)));
        list->capacity = list->count;
    }
    fill_ids(list->at, &plan, (int64_t)list->count);
    return LS_OK;
}

int ls_inputs_ids(int64_t *out, const ls_scenario *scenario, int step, int rank, int feature) {
    ls_id_list none = {0};
    LS_TRY(ls_inputs_list_ids(&none, scenario, step, rank, feature, 0));
    *out = none.all;
    return LS_OK;
}
