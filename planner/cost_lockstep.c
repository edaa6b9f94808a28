// Our cost model: the bytes that the stages of a sharded embedding really move, at the bandwidth of
// the link each takes, with a start-up time per collective; ids as skewed and as repeated as the
// table's profile says.
//
// Differences from cost_torchrec.c that matter: a rank sends itself nothing; a ring collective that
// spans hosts runs at the hosts' joint network bandwidth; rows read again come from cache; a row
// block costs what its own rows draw; the update touches distinct rows, with their state.
#include "planner/cost.h"

#include <math.h>

#define SECTOR_BYTES      32.0  // least that a memory read brings in
#define LENGTH_BYTES      8.0   // of a bag, as the module sends it
#define SORT_BYTES_PER_ID 48.0  // two passes over (key, position), read and written

// Ring collectives over all ranks: every rank of a host drives its own port.
static double ring_bandwidth(const ls_topology *topology) {
    if (topology->ranks <= topology->ranks_per_host) {
        return topology->intra_bandwidth;
    }
    double ports = topology->inter_bandwidth * topology->ranks_per_host;
    return ports < topology->intra_bandwidth ? ports : topology->intra_bandwidth;
}

// An all-to-all in which this rank exchanges `bytes`, an equal part with each rank, itself
// included. Traffic inside the host and between hosts flows at the same time.
static double exchange_ms(const ls_topology *topology, double bytes) {
    double each = bytes / topology->ranks;
    double inside = each * (topology->ranks_per_host - 1) / topology->intra_bandwidth;
    double between =
        each * (topology->ranks - topology->ranks_per_host) / topology->inter_bandwidth;
    return inside > between ? inside : between;
}

// Reading `bytes` of rows where the kernel keeps them.
static double rows_ms(const ls_cost_context *context, ls_planner_kernel kernel, double bytes) {
    const ls_topology *topology = context->topology;
    double device = bytes / topology->hbm_bandwidth;
    double host = bytes / topology->link_bandwidth;
    switch (kernel) {
    case LS_PLANNER_FUSED_UVM:
        return host;
    case LS_PLANNER_FUSED_UVM_CACHING:
        return context->clf * device + (1.0 - context->clf) * host;
    default:
        return device;
    }
}

static double distinct_ids(const ls_cost_context *context, double ids, int64_t rows) {
    double share = context->table->profile ? context->table->profile->distinct : 1.0;
    double distinct = ids * share;
    return distinct < (double)rows ? distinct : (double)rows;
}

static double state_bytes_per_row(const ls_cost_context *context, int64_t columns) {
    const ls_planner_optimizer *optimizer = &context->optimizer;
    return 4.0 * (optimizer->f32_per_weight * (double)columns + optimizer->f32_per_row);
}

// Lookup and update on the rank that holds the block. ids, outputs: of the whole step on this rank.
static void compute(ls_planner_cost *out, const ls_cost_context *context, ls_planner_kernel kernel,
                    int64_t rows, int64_t columns, double ids, double output_bytes) {
    double hbm = context->topology->hbm_bandwidth;
    double id_bytes = LS_PLANNER_ID_BYTES + (context->table->weighted ? 4.0 : 0.0);
    double row = ceil(ls_cost__row_bytes(context->table, columns) / SECTOR_BYTES) * SECTOR_BYTES;
    double distinct = distinct_ids(context, ids, rows);
    double again = ids - distinct;
    double kernels_ms = context->table->feature_count * context->topology->kernel_us / 1000.0;
    out->forward_compute_ms = (ids * id_bytes + output_bytes) / hbm +
                              rows_ms(context, kernel, distinct * row) +
                              again * row / context->topology->cache_speedup / hbm + kernels_ms;
    if (context->table->row_format) {
        return;
    }
    double touched = distinct * (row + state_bytes_per_row(context, columns));
    if (kernel == LS_PLANNER_DENSE) {  // the dense gradient is written, and every row updated
        double table = (double)rows * row;
        touched = (double)rows * (row + state_bytes_per_row(context, columns)) + table;
    }
    double update_us = context->topology->update_us;
    out->backward_compute_ms = (output_bytes + ids * SORT_BYTES_PER_ID) / hbm +
                               rows_ms(context, kernel, 2.0 * touched) +
                               (update_us > 0.0 ? update_us / 1000.0 : kernels_ms);
}

void ls_cost__lockstep(ls_planner_cost *out, const ls_cost_context *context, ls_sharding sharding,
                       ls_planner_kernel kernel, int64_t first_row, int64_t rows, int64_t columns) {
    const ls_topology *topology = context->topology;
    const ls_planner_table *table = context->table;
    double world = topology->ranks;
    double group = topology->ranks_per_host;
    double hosts = world / group;
    double element = context->output_bytes;
    double share = ls_cost__share(table, first_row, rows);
    double ids = context->ids * share * (sharding == LS_DATA_PARALLEL ? 1.0 : world);
    double width = (double)columns * element;
    double outputs = table->sequence ? ids * width : context->bags * world * width;
    double exposed = 1.0 - context->options->overlap;
    double id_bytes = LS_PLANNER_ID_BYTES + (table->weighted ? 4.0 : 0.0);
    *out = (ls_planner_cost){0};
    if (sharding == LS_DATA_PARALLEL) {
        compute(out, context, kernel, rows, columns, ids, context->outputs * width);
        double bytes = (double)rows * ls_cost__row_bytes(table, columns);
        bytes = table->row_format ? 0.0 : bytes;
        out->backward_comms_ms =
            exposed * 2.0 * (world - 1.0) / world * bytes / ring_bandwidth(topology);
        return;
    }
    compute(out, context, kernel, rows, columns, ids, outputs);
    double lengths = context->bags * world * LENGTH_BYTES;
    double in = exchange_ms(topology, ids * id_bytes + lengths);
    double back;
    ls_over over = ls_sharding_traits_of(sharding).rows;
    if (table->sequence || over == LS_OVER_ONE) {
        back = exchange_ms(topology, outputs);
    } else if (over == LS_OVER_WORLD) {
        back = (world - 1.0) / world * outputs / ring_bandwidth(topology);
    } else {  // reduce-scatter inside the host, then an exchange with equal ranks of other hosts
        back = (group - 1.0) / group * outputs / topology->intra_bandwidth +
               outputs / group * (hosts - 1.0) / hosts / topology->inter_bandwidth;
    }
    out->input_comms_ms = exposed * in;
    out->forward_comms_ms = exposed * (in + back);
    out->backward_comms_ms = table->row_format ? 0.0 : exposed * back;
}

void ls_cost__lockstep_startup(ls_cost_startup *out, const ls_cost_context *context,
                               ls_sharding sharding) {
    const ls_topology *topology = context->topology;
    int world = topology->ranks;
    int group = topology->ranks_per_host;
    *out = (ls_cost_startup){0};
    if (world == 1) {
        return;
    }
    bool spans = world > group;
    double hop = (spans ? topology->inter_latency_us : topology->intra_latency_us) / 1000.0;
    double launch = topology->launch_us / 1000.0;
    // A group of sends and receives, and beside it a copy of the rank's own block.
    double exchange = topology->exchange_us > 0.0 ? topology->exchange_us
                                                  : topology->launch_us + topology->kernel_us;
    exchange = exchange / 1000.0 + hop;
    double ring = launch + (world - 1) * hop;
    double inside = launch + (group - 1) * topology->intra_latency_us / 1000.0;
    bool trained = !context->table->row_format;
    if (sharding == LS_DATA_PARALLEL) {
        out->gradient = !trained ? 0.0 : launch + 2.0 * (world - 1) * hop;
        return;
    }
    // Sizes, lengths, ids, and weights where there are any.
    out->input = exchange * (context->table->weighted ? 4.0 : 3.0);
    switch (ls_sharding_traits_of(sharding).rows) {
    case LS_OVER_WORLD:
        out->output = context->table->sequence ? exchange : ring;
        break;
    case LS_OVER_HOST:
        out->output = inside + (spans ? exchange : 0.0);
        break;
    case LS_OVER_ONE:
        out->output = exchange;
        break;
    }
    out->gradient = trained ? out->output : 0.0;
}
