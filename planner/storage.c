// Memory of a shard: weights, optimizer state, buffers of ids and outputs. The torchrec model
// counts as TorchRec's planner does; ours counts the state that each optimizer really keeps (f32,
// per row of the shard where it is row wise), the dense gradient of a replicated table, and the
// gradient of the outputs.
#include "planner/cost.h"

#include <math.h>
#include <string.h>

#include "kernels/optimizer.h"

int ls_planner_optimizer_find(ls_planner_optimizer *out, const char *name) {
    LS_ASSERT(out && name);
    const char *names[LS_OPTIMIZER_KIND_COUNT + 2] = {"none", "momentum_sgd"};
    *out = (ls_planner_optimizer){.name = name};
    if (strcmp(name, "none") == 0) {
        return LS_OK;
    }
    ls_optimizer rule = ls_optimizer_default(LS_OPTIMIZER_SGD, LS_OPTIMIZER_FUSED);
    bool momentum = strcmp(name, "momentum_sgd") == 0;
    bool found = momentum;
    for (int i = 0; i < LS_OPTIMIZER_KIND_COUNT && !found; i++) {
        rule = ls_optimizer_default((ls_optimizer_kind)i, LS_OPTIMIZER_FUSED);
        names[i + 2] = ls_optimizer_about(rule.kind)->name;
        found = strcmp(name, names[i + 2]) == 0;
    }
    if (!found) {
        const char *near = ls_nearest(name, names, LS_OPTIMIZER_KIND_COUNT + 2);
        return LS_FAIL(LS_ERR_NOT_FOUND, "no optimizer is called \"%s\"%s%s%s", name,
                       near ? "; did you mean \"" : "", near ? near : "", near ? "\"?" : "");
    }
    const ls_optimizer_traits *about = ls_optimizer_about(rule.kind);
    for (int s = 0; s < (momentum ? 1 : ls_optimizer_state_count(&rule)); s++) {
        *(about->states[s].per_row ? &out->f32_per_row : &out->f32_per_weight) += 1;
    }
    out->torchrec_multiplier = momentum ? 1.0 : ls_optimizer_torchrec_states(rule.kind);
    return LS_OK;
}

double ls_cost__row_bytes(const ls_planner_table *table, int64_t columns) {
    size_t bytes;
    if (!table->row_format) {
        return (double)columns * table->element_bytes;
    }
    // Checked when the problem was made.
    LS_ASSERT(ls_row_format_bytes(&bytes, table->row_format, (size_t)columns) == LS_OK);
    return (double)bytes;
}

void ls_cost__context(ls_cost_context *out, const ls_topology *topology,
                      const ls_planner_options *options, const ls_planner_table *table) {
    *out = (ls_cost_context){.topology = topology, .options = options, .table = table};
    for (int i = 0; i < table->feature_count; i++) {
        const ls_planner_feature *feature = &table->features[i];
        double bags = feature->poolings * feature->batch;
        out->ids += feature->pooling * bags;
        out->bags += bags;
        double rows = feature->pooling > 1.0 && !table->sequence ? 1.0 : feature->pooling;
        out->outputs += rows * bags;
    }
    out->clf =
        table->cache_load_factor > 0.0 ? table->cache_load_factor : LS_PLANNER_CACHE_LOAD_FACTOR;
    out->output_bytes = table->output_bytes ? table->output_bytes : table->element_bytes;
    // Checked when the problem was made; unknown names never get here.
    const char *optimizer = table->optimizer ? table->optimizer : "none";
    LS_ASSERT(ls_planner_optimizer_find(&out->optimizer, optimizer) == LS_OK);
}

static int64_t to_bytes(double value) {
    const int64_t most = 2 * LS_TOPOLOGY_BYTES_MAX;
    return value >= (double)most ? most : (int64_t)value;
}

// Weights and state of a shard, before its memory is known.
static double tensor_bytes(const ls_cost_context *context, ls_sharding sharding, int64_t rows,
                           int64_t columns) {
    const ls_planner_table *table = context->table;
    const ls_planner_optimizer *optimizer = &context->optimizer;
    double weights = (double)rows * ls_cost__row_bytes(table, columns);
    if (table->row_format) {
        return weights;
    }
    if (context->options->model == LS_PLANNER_TORCHREC) {
        double multiplier = optimizer->torchrec_multiplier;
        multiplier = multiplier < 0.0 ? 1.0 / (double)table->columns : multiplier;
        return weights + ceil(weights * multiplier);
    }
    double bytes = weights + 4.0 * (double)rows *
                                 ((double)optimizer->f32_per_weight * (double)columns +
                                  optimizer->f32_per_row);
    return sharding == LS_DATA_PARALLEL ? bytes + weights : bytes;
}

static void buffer_bytes(double *input, double *output, const ls_cost_context *context,
                         ls_sharding sharding, int64_t first_row, int64_t rows, int64_t columns) {
    const ls_planner_table *table = context->table;
    bool torchrec = context->options->model == LS_PLANNER_TORCHREC;
    double world = context->topology->ranks;
    double group = context->topology->ranks_per_host;
    double o = context->output_bytes;
    double d = (double)columns;
    *input = ceil(context->ids * world * LS_PLANNER_ID_BYTES);
    *output = context->outputs * world * d * o;
    ls_over over = ls_sharding_traits_of(sharding).rows;
    if (sharding == LS_DATA_PARALLEL) {
        *input = ceil(context->ids * LS_PLANNER_ID_BYTES);
        *output = context->outputs * d * o;
    } else if (sharding == LS_TABLE_WISE) {
        *output = context->outputs * world * (double)table->columns * o;
    } else if (over == LS_OVER_WORLD) {
        *input = ceil(context->ids * LS_PLANNER_ID_BYTES);
        *output = table->sequence ? context->ids * d * o : *output;
    } else if (over == LS_OVER_HOST) {
        *input = rows ? ceil(context->ids / group * world * LS_PLANNER_ID_BYTES) : 0.0;
    }
    if (!torchrec) {
        // Ids as they really fall; weights of ids; lengths of all bags; the outputs' gradient.
        double ids = context->ids;
        if (sharding != LS_DATA_PARALLEL) {
            ids *= world * ls_cost__share(table, first_row, rows);
        }
        double bags = context->bags * (sharding == LS_DATA_PARALLEL ? 1.0 : world);
        *input = ceil(ids * (LS_PLANNER_ID_BYTES + (table->weighted ? 4.0 : 0.0)) + bags * 4.0);
        double copies = table->row_format ? 1.0 : 2.0;
        *output = ceil(copies * (table->sequence ? ids : bags) * d * o);
        int depth = context->options->pipeline_depth;
        *input *= depth > 1 ? depth : 1;
    }
}

void ls_cost__storage(ls_planner_shard *out, const ls_cost_context *context, ls_sharding sharding,
                      ls_planner_kernel kernel) {
    int64_t rows = out->block.rows;
    double tensor = tensor_bytes(context, sharding, rows, out->block.columns);
    double input;
    double output;
    buffer_bytes(&input, &output, context, sharding, out->block.row_offset, rows,
                 out->block.columns);
    double hbm = tensor;
    double ddr = 0.0;
    if (kernel == LS_PLANNER_FUSED_UVM) {
        hbm = 0.0;
        ddr = tensor;
    } else if (kernel == LS_PLANNER_FUSED_UVM_CACHING) {
        ddr = tensor;
        hbm = round(tensor * context->clf) + ceil((double)rows * (4.0 + 16.0 * context->clf));
    }
    out->input_bytes = to_bytes(input);
    out->output_bytes = to_bytes(ceil(output));
    out->hbm_bytes = to_bytes(hbm + input + ceil(output));
    out->ddr_bytes = to_bytes(ddr);
}

double ls_cost__share(const ls_planner_table *table, int64_t first, int64_t count) {
    LS_ASSERT(first >= 0 && count >= 0 && count <= table->rows && first <= table->rows - count);
    if (count == 0) {
        return 0.0;
    }
    double low = (double)first / (double)table->rows;
    double high = (double)(first + count) / (double)table->rows;
    if (!table->profile) {
        return high - low;
    }
    double share = 0.0;
    int first_bin = (int)(low * LS_PLANNER_PROFILE_BINS);
    for (int i = first_bin; i < LS_PLANNER_PROFILE_BINS; i++) {
        double bin_low = (double)i / LS_PLANNER_PROFILE_BINS;
        double bin_high = (double)(i + 1) / LS_PLANNER_PROFILE_BINS;
        double from = low > bin_low ? low : bin_low;
        double to = high < bin_high ? high : bin_high;
        if (to <= from) {
            break;
        }
        share += table->profile->ids[i] * (to - from) * LS_PLANNER_PROFILE_BINS;
    }
    return share;
}
