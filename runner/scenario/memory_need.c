// Estimates the memory of a run. The factors count the copies of each array that exist at once
// (inputs, both sides of an exchange, stored stages, the oracle's f64), rounded up to measurements.
#include "runner/scenario/memory_need.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "runner/scenario/input_file.h"
#include "runner/steps/step.h"

#define PROCESS_BYTES    ((double)LS_MEMORY_LEAST)
#define RANK_BYTES       (48.0 * 1024)  // a thread's touched stack, its history, requests
#define SHAPE_RANK_BYTES (24.0 * 1024)  // without data: for a rank,
#define SHAPE_CALL_BYTES 1024.0         // and for each of its calls;
#define CLASS_RANK_BYTES 512.0          // for a rank if only a few are run,
#define CLASS_CALL_BYTES 512.0          // and for each call of one of these
#define BAG_BYTES        64.0           // for a bag on its own rank
#define BAG_SHARD_BYTES  40.0           // for a bag on each rank that looks it up: lengths, offsets
#define ID_BYTES         48.0
#define WEIGHT_BYTES     24.0
#define OUTPUT_BYTES     20.0    // for an element of the result: stored, exact, its bound
#define PARTIAL_BYTES    6.0     // for an element of a partial sum that is written,
#define PAGE_ELEMENTS    1024.0  // with its neighbours in the same page
#define BACKWARD         3.0     // share of a forward pass's memory that backward keeps
#define UPDATED_BYTES    28.0    // for an element of a table in a step: stored, exact, its bound
#define PAIR_BYTES       128.0   // for two ranks that exchange anything: counts, displacements
#define PAIR_SHARD       48.0    // additional for each table
#define BOUND_BYTES      48.0    // for an element of a reduction: exact value, bound, its terms
#define TENSOR_BYTES     24.0  // for an element of a shard, beside its copies: stored and expected

// ---- Tables -------------------------------------------------------------------------------------
static double mean_length(const ls_generator *lengths, double bags) {
    switch (lengths->kind) {
    case LS_GENERATOR_UNIFORM:
        return lengths->b;
    case LS_GENERATOR_CONSTANT:
        return lengths->a;
    case LS_GENERATOR_VALUES: {
        double sum = 0;
        for (int64_t i = 0; i < lengths->value_count; i++) {
            sum += (double)lengths->ints[i];
        }
        return bags > 0 ? sum / bags : 0;
    }
    case LS_GENERATOR_FILE:
        return 16;  // the file's data is in memory once read; the ids' own file counts
    default:
        return 1;
    }
}

static double file_bytes(const ls_generator *generator) {
    ls_input_array array;
    if (generator->kind != LS_GENERATOR_FILE ||
        ls_input_file_describe(&array, generator->file, generator->tensor) != LS_OK) {
        return 0;
    }
    return (double)array.count * (double)ls_dtype_bytes(array.dtype);
}

// The number of ranks with rows of a table that others need, and whether each sums a part.
static double shards_of(const ls_scenario *scenario, const ls_scenario_table *table, bool *parts) {
    const ls_scenario_sharding *sharding = &table->sharding;
    double all = scenario->ranks, host = scenario->ranks_per_host;
    bool row_cut = !sharding->has_type || ls_sharding_traits_of(sharding->type).rows != LS_OVER_ONE;
    *parts = row_cut;
    if (sharding->type == LS_DATA_PARALLEL && sharding->has_type) {
        return 0;
    }
    if (sharding->ranks.count > 0) {
        return sharding->ranks.count;
    }
    if (sharding->has_type && sharding->type == LS_TABLE_WISE) {
        return 1;
    }
    return sharding->has_type && sharding->type == LS_TABLE_ROW_WISE ? host : all;
}

// Whether a shard writes only the sums of bags with one of its rows: they are looked up, and the
// others are 0.
static bool writes_few(const ls_scenario_table *table) {
    return (table->pooling == LS_POOL_SUM || table->pooling == LS_POOL_MEAN) &&
           (table->dtype == LS_F32 || table->dtype == LS_F64) && !table->has_output_dtype &&
           table->quantise.node.mark.line == 0;
}

// samples: of all ranks.
static double need_of_pair(const ls_scenario *scenario, const ls_scenario_pair *pair,
                           double samples) {
    const ls_scenario_feature *feature = &scenario->inputs.features[pair->feature];
    double bags = samples;
    if (scenario->inputs.variable) {
        bags = 0;
        for (int r = 0; r < feature->strides.count; r++) {
            bags += (double)feature->strides.at[r];
        }
    }
    const ls_scenario_table *table = &scenario->tables[pair->table];
    bool parts = false;
    double shards = shards_of(scenario, table, &parts), dim = (double)table->dim;
    double ids = bags * mean_length(&feature->lengths, bags);
    double rows = table->pooling == LS_POOL_NONE ? ids : bags;
    double mean_bag = bags > 0 ? ids / bags : 0;
    double partials = parts && table->pooling != LS_POOL_NONE ? shards : 1;
    double scale = (double)ls_dtype_bytes(table->dtype) / 4;
    double bytes = bags * (BAG_BYTES + BAG_SHARD_BYTES * shards) + ids * ID_BYTES;
    bytes += scenario->inputs.weighted ? ids * WEIGHT_BYTES : 0;
    if (scenario->inputs.variable) {
        double taken = table->pooling == LS_POOL_NONE ? samples * mean_bag : samples;
        bytes += samples * BAG_BYTES + taken * (ID_BYTES + dim * OUTPUT_BYTES);
    }
    double sums = rows * dim * partials;
    if (writes_few(table)) {
        sums = fmin(sums, ids * (dim + PAGE_ELEMENTS));
    }
    bytes += (rows * dim * OUTPUT_BYTES + sums * PARTIAL_BYTES) * (scale > 1 ? scale : 1);
    return bytes + file_bytes(&feature->lengths) + file_bytes(&feature->ids) +
           file_bytes(&feature->weights) + file_bytes(&feature->inverse_indices);
}

// The results of every update: the weights and states of all shards, of replicas on every rank.
static double need_of_updates(const ls_scenario *scenario) {
    double bytes = 0;
    for (int i = 0; i < scenario->table_count; i++) {
        const ls_scenario_table *table = &scenario->tables[i];
        bool parts = false, updates = ls_scenario_runs(scenario, LS_TABLES_UPDATE);
        double copies = shards_of(scenario, table, &parts) == 0 ? scenario->ranks : 1;
        double arrays =
            updates ? 1 + ls_optimizer_state_count(ls_scenario_optimizer_of(scenario, i)) : 0;
        bytes += copies * arrays * UPDATED_BYTES * (double)table->rows * (double)table->dim;
    }
    return bytes;
}

static double need_of_tables(const ls_scenario *scenario) {
    double ranks = scenario->ranks, bags = 0, bytes = 0;
    bool exchanged = false;
    for (int r = 0; r < scenario->inputs.batch.count; r++) {
        bags += (double)scenario->inputs.batch.at[r];
    }
    for (int i = 0; i < scenario->table_count; i++) {
        const ls_scenario_table *table = &scenario->tables[i];
        bool parts = false;
        double shards = shards_of(scenario, table, &parts);
        double size = (double)table->rows * (double)table->dim;
        bytes += size * (double)ls_dtype_bytes(table->dtype) * (shards == 0 ? ranks : 1);
        bytes += file_bytes(&table->weights) + PAIR_SHARD * ranks * shards;
        exchanged = exchanged || shards > 0;
    }
    double steps = scenario->train.steps, passes = steps;
    passes *= ls_scenario_runs(scenario, LS_TABLES_BACKWARD) ? 1 + BACKWARD : 1;
    for (int i = 0; i < scenario->inputs.pair_count; i++) {
        bytes += passes * need_of_pair(scenario, &scenario->inputs.pairs[i], bags);
    }
    bytes += steps * need_of_updates(scenario);
    return bytes + (exchanged ? PAIR_BYTES * ranks * ranks : 0);
}

// ---- Programs: collectives on buffers -----------------------------------------------------------
static double sum_of(const ls_int_list *list) {
    double sum = 0;
    for (int i = 0; i < list->count; i++) {
        sum += (double)list->at[i];
    }
    return sum;
}

// Elements of one side of all members of a group.
static double elements_of(const ls_side *side, const ls_scenario_step *step, double members) {
    double block = step->call.counts.count > 0 ? sum_of(&step->call.counts)
                                               : (double)step->call.count * members;
    double splits = 0;
    for (int i = 0; i < step->call.splits.count; i++) {
        splits += sum_of(&step->call.splits.at[i]);
    }
    if (side->form == LS_SIDE_NONE) {
        return 0;
    }
    if (step->call.splits.count > 0) {
        return splits;
    }
    return side->form == LS_SIDE_BLOCKS && !side->root_only ? block * members : block;
}

static double need_of_buffers(const ls_scenario *scenario, const ls_scenario_step *step) {
    double ranks = scenario->ranks, members = ranks, groups = 1, sent = 0, received = 0;
    if (step->call.axis >= 0) {
        members = scenario->mesh.dim[step->call.axis];
        groups = ranks / members;
    } else if (step->call.ranks.count > 0) {
        members = step->call.ranks.count;
    }
    const ls_collective *collective = ls_collective_of(ls_step_call_kind(step->kind));
    if (!ls_step_is_collective(step->kind)) {
        sent = received = (double)step->call.count * step->call.pairs.count;
    } else {
        sent = elements_of(&collective->send, step, members);
        received = elements_of(&collective->recv, step, members);
    }
    double element = (double)ls_dtype_bytes(step->call.dtype);
    double bytes =
        sent * 4 * element + received * (5 * element + (collective->reduces ? BOUND_BYTES : 0));
    bool counts = step->call.counts.count > 0 || step->call.splits.count > 0;
    bytes += counts ? members * members * 32 : 0;
    return groups * bytes + file_bytes(&step->call.values);
}

// ---- Programs: tensors --------------------------------------------------------------------------
#define SIZES_MAX 64  // limit on tensors whose shape is tracked; others count like the largest

static double count_of(const ls_shape *shape) {
    double count = 1;
    for (int i = 0; i < shape->ndim; i++) {
        count *= (double)shape->dim[i];
    }
    return count;
}

static double bytes_of(const ls_tensor_size *size) {
    return count_of(&size->shape) * size->copies * (3 * size->element + TENSOR_BYTES);
}

static ls_tensor_size *find(ls_tensor_size *sizes, int count, const char *name) {
    ls_tensor_size *largest = &sizes[0];
    for (int i = 0; i < count; i++) {
        if (name != NULL && strcmp(sizes[i].name, name) == 0) {
            return &sizes[i];
        }
        largest = bytes_of(&sizes[i]) > bytes_of(largest) ? &sizes[i] : largest;
    }
    return largest;
}

// Aligned at the last dimensions, the larger size of each.
static void broadcast(ls_shape *out, const ls_shape *a, const ls_shape *b) {
    *out = a->ndim > b->ndim ? *a : *b;
    for (int d = 0; d < out->ndim; d++) {
        int i = d - out->ndim + a->ndim, k = d - out->ndim + b->ndim;
        int64_t x = i >= 0 ? a->dim[i] : 0, y = k >= 0 ? b->dim[k] : 0;
        out->dim[d] = x > y ? x : y;
    }
}

static ls_tensor_size result_of(const ls_scenario *scenario, const ls_scenario_step *step,
                                ls_tensor_size *sizes, int count) {
    const ls_step_type *type = step->type;
    ls_step_operand operand = {.name = NULL};
    ls_tensor_size made = {.copies = 0}, first = made, last = made;
    for (int i = 0; ls_step_operand_of(&operand, step, i); i++) {
        last = *find(sizes, count, operand.name);
        first = i == 0 ? last : first;
        double copies = last.copies > made.copies ? last.copies : made.copies;
        made = i == 0 || bytes_of(&last) > bytes_of(&made) ? last : made;
        made.copies = copies < scenario->ranks ? copies : scenario->ranks;
    }
    if (type->elementwise) {
        broadcast(&made.shape, &first.shape, &last.shape);
    }
    if (type->size != NULL) {
        type->size(&made, scenario, step, &first, &last);
    }
    made.name = step->into != NULL ? step->into : step->tensor;
    return made;
}

static double need_of_program(const ls_scenario *scenario) {
    ls_tensor_size sizes[SIZES_MAX] = {{.name = ""}};
    int count = 0;
    double bytes = 0;
    bool threads = false;
    for (int i = 0; i < scenario->tensor_count; i++) {
        const ls_scenario_tensor *tensor = &scenario->tensors[i];
        ls_tensor_size size = {
            .name = tensor->name,
            .shape = tensor->shape,
            .copies = tensor->has_placements ? ls_memory_copies(scenario, &tensor->placements)
                                             : 1 + scenario->ranks * (tensor->block_count == 0),
            .element = (double)ls_dtype_bytes(tensor->dtype),
        };
        bytes += bytes_of(&size) + count_of(&size.shape) * (2 * size.element + 8) +
                 file_bytes(&tensor->values);
        if (count < SIZES_MAX) {
            sizes[count++] = size;
        }
    }
    for (int i = 0; i < scenario->step_count; i++) {
        const ls_scenario_step *step = &scenario->steps[i];
        if (ls_step_on_buffers(step)) {
            bytes += need_of_buffers(scenario, step);
            threads = true;
        } else if (ls_step_on_tensors(step) && count > 0) {
            ls_tensor_size made = result_of(scenario, step, sizes, count);
            bool kept = made.name != NULL && step->type->make != NULL;
            bytes += bytes_of(&made);
            ls_tensor_size *known = find(sizes, count, made.name);
            if (kept && strcmp(known->name, made.name) == 0) {
                *known = made;
            } else if (kept && count < SIZES_MAX) {
                sizes[count++] = made;
            }
        }
    }
    return bytes + (threads ? RANK_BYTES * scenario->ranks : 0);
}

// ---- All ----------------------------------------------------------------------------------------
double ls_memory_need(const ls_scenario *scenario) {
    LS_ASSERT(scenario != NULL);
    return PROCESS_BYTES +
           (scenario->is_program ? need_of_program(scenario) : need_of_tables(scenario));
}

double ls_memory_need_of_shape(const ls_scenario *scenario) {
    LS_ASSERT(scenario != NULL);
    double calls = 0;
    for (int i = 0; i < scenario->step_count; i++) {
        const ls_scenario_step *step = &scenario->steps[i];
        calls += ls_step_on_buffers(step) ? 1 : 0;
        calls += step->kind == LS_STEP_SEND_RECV ? 2.0 * step->call.pairs.count : 0;
    }
    double ranks = scenario->ranks;
    if (ls_program__is_plain(scenario)) {
        return PROCESS_BYTES + ranks * CLASS_RANK_BYTES +
               fmin(ranks, LS_PROGRAM_CLASSES_MAX) * calls * CLASS_CALL_BYTES;
    }
    return PROCESS_BYTES + ranks * (SHAPE_RANK_BYTES + calls * SHAPE_CALL_BYTES);
}

// As "1.5 GiB", with three digits; `up`: rounds up.
static void format_bytes(char *out, size_t size, double bytes, bool up) {
    static const char *const units[] = {"bytes", "KiB", "MiB", "GiB"};
    int unit = 0;
    while (unit < 3 && bytes >= 1024) {
        bytes /= 1024;
        unit++;
    }
    (void)snprintf(out, size, "%.3g %s", up ? ceil(bytes * 10) / 10 : bytes, units[unit]);
}

int ls_memory_check(const ls_scenario *scenario, double need, uint64_t limit) {
    char needed[32], allowed[32];
    if (need <= (double)limit) {
        return LS_OK;
    }
    format_bytes(needed, sizeof needed, need, true);
    format_bytes(allowed, sizeof allowed, (double)limit, false);
    return LS_FAIL(LS_ERR_LIMIT, "%s: a run would need about %s, the limit is %s (--memory)",
                   scenario->file, needed, allowed);
}
