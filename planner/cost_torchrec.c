// TorchRec's cost model (torchrec/distributed/planner/shard_estimators.py at 376cac6a), restated:
// what its planner believes a shard costs. It has no latency, no overlap and no skew; all-reduce
// always counts as crossing hosts. Kept exactly so, because its numbers are the baseline.
#include "planner/cost.h"

#include <math.h>

#define BACKWARD_MULTIPLIER 2.0
#define WEIGHTED_MULTIPLIER 1.1
#define COPY_FACTOR         2.455
#define ELEMENTWISE_FACTOR  9.22

static double device_bandwidth(const ls_cost_context *context, ls_planner_kernel kernel) {
    const ls_topology *topology = context->topology;
    switch (kernel) {
    case LS_PLANNER_DENSE:
        return 0.5 * topology->hbm_bandwidth;
    case LS_PLANNER_FUSED_UVM:
        return topology->link_bandwidth / 10.0;
    case LS_PLANNER_FUSED_UVM_CACHING:
        return (context->clf * topology->hbm_bandwidth +
                (1.0 - context->clf) * topology->link_bandwidth) /
               10.0;
    case LS_PLANNER_FUSED:
    case LS_PLANNER_KERNEL_COUNT:
        break;
    }
    return topology->hbm_bandwidth;
}

static double block_penalty(int64_t columns) {
    if (columns >= 128) {
        return 1.0;
    }
    return columns >= 64 ? 1.15 : 1.75;
}

void ls_cost__torchrec(ls_planner_cost *out, const ls_cost_context *context, ls_sharding sharding,
                       ls_planner_kernel kernel, int64_t rows, int64_t columns) {
    const ls_topology *topology = context->topology;
    double world = topology->ranks;
    double group = topology->ranks_per_host;
    double d = (double)columns;
    double e = ls_cost__row_bytes(context->table, columns) / d;
    // Element size in collectives: there as in the table, but of quantised ones what comes out.
    double c = context->table->row_format ? context->output_bytes : e;
    double device = device_bandwidth(context, kernel);
    double id_bytes = LS_PLANNER_ID_BYTES * (context->table->weighted ? 2.0 : 1.0);
    // Of any collective but all-reduce.
    double across = topology->ranks <= topology->ranks_per_host ? topology->intra_bandwidth
                                                                : topology->inter_bandwidth;
    double penalty = 1.0;
    double input;
    double lookup;
    double output;
    *out = (ls_planner_cost){0};

    switch (sharding) {
    case LS_DATA_PARALLEL: {
        input = ceil(context->ids * id_bytes);
        lookup = context->ids * d * e;
        output = context->outputs * d * e;
        double bytes = (double)rows * d * e;
        double hosts = world / group;
        double n = hosts < 2.0 ? hosts : 2.0;
        double all_reduce = bytes * (2.0 * n - 1.0) / n / (topology->inter_bandwidth * group);
        if (world > 2.0 * group) {
            all_reduce *= 2.0;
        }
        out->backward_comms_ms = all_reduce + bytes * ELEMENTWISE_FACTOR / device;
        break;
    }
    case LS_ROW_WISE: {
        input = ceil(context->ids * id_bytes);
        lookup = context->ids * d * e;
        output = context->table->sequence ? context->ids * d * c : context->outputs * world * d * c;
        out->forward_comms_ms = output / across;
        out->backward_comms_ms = output / across + output * COPY_FACTOR / device;
        break;
    }
    case LS_TABLE_ROW_WISE:
    case LS_GRID: {
        double hosts = world / group > 1.0 ? world / group : 1.0;
        input = ceil(context->ids / group * world * id_bytes);
        lookup = context->ids / group * world * d * e;
        output = context->outputs * world * d * c;
        double inside = output / topology->intra_bandwidth;
        double between = 0.0;
        if (hosts > 1.0) {
            between = context->outputs * hosts * d * c / topology->inter_bandwidth;
        }
        out->forward_comms_ms = inside + between;
        out->backward_comms_ms = between + inside + output * COPY_FACTOR / device;
        break;
    }
    default: {  // table wise, column wise, table column wise
        input = ceil(context->ids * world * id_bytes);
        lookup = context->ids * world * (d > 32.0 ? d : 32.0) * e;
        output = context->outputs * world * d * c;
        penalty = block_penalty(columns);
        out->forward_comms_ms = output / across;
        out->backward_comms_ms = output / across;
        break;
    }
    }
    out->forward_compute_ms = (input + lookup + output) * penalty / device;
    out->backward_compute_ms = BACKWARD_MULTIPLIER * out->forward_compute_ms;
    if (context->table->weighted) {
        out->backward_compute_ms += WEIGHTED_MULTIPLIER * out->forward_compute_ms;
    }
    if (context->table->row_format) {  // inference
        out->backward_compute_ms = out->backward_comms_ms = 0.0;
    }
}
