// A simulated training step of the sharding tutorial's four tables on 64 ranks, beside the plain
// step of the same batch: the unsharded tables, the kernels, and nothing between them; and beside a
// memcpy of the bytes that a sharding type moves by definition. Processor time of all.
#include <stdio.h>
#include <string.h>

#include "base/random.h"
#include "bench/bench.h"
#include "collectives/collectives.h"
#include "embedding/training.h"
#include "kernels/training.h"

enum { RANKS = 64, BATCH = 64, SAMPLES = RANKS * BATCH, DIM = 64, TABLES = 4 };

// As the tutorial has them: rows, the most ids of a sample, whether few rows are asked for often.
static const struct {
    const char *name;
    int64_t rows;
    uint64_t length_max;
    bool skewed;
} about[TABLES] = {{"large_table_0", 4096, 8, true},
                   {"large_table_1", 4096, 8, true},
                   {"small_table_0", 1024, 3, false},
                   {"small_table_1", 1024, 3, false}};

// One table of the plain step.
typedef struct plain_table {
    float *weights, *state, *out, *gradients, *sums;  // [rows, DIM], [rows], [SAMPLES, DIM] twice
    int64_t *ids, *offsets, *bag_of;                  // [count], [SAMPLES + 1], [count]
    int64_t *rows, *starts, *order, *scratch;
    size_t count, touched;  // ids, distinct rows
} plain_table;

typedef struct run {
    ls_arena *arena;
    ls_sharding shardings[TABLES];
    plain_table plain[TABLES];
    ls_table tables[TABLES];
    ls_plan_table plan_tables[TABLES];
    ls_plan plan;
    ls_optimizer optimizers[TABLES];
    ls_training training;
    ls_world *world;
    ls_backend *backend;
    ls_embedding *module;
    ls_keyed_jagged *inputs[RANKS];
    const void *gradients[RANKS][TABLES];
    const void *const *by_rank[RANKS];
    int64_t steps;
} run;

// ---- Both steps ---------------------------------------------------------------------------------
static void plain_step(run *r) {
    r->steps++;
    for (int t = 0; t < TABLES; t++) {
        plain_table *p = &r->plain[t];
        ls_kernel_pooled_lookup(
            p->out, DIM, p->weights, &(const ls_table_shape){LS_F32, about[t].rows, DIM},
            &(const ls_bags){p->ids, p->offsets, NULL, -1, LS_POOL_SUM, SAMPLES});
        for (int64_t bag = 0; bag < SAMPLES; bag++) {
            for (int64_t k = p->offsets[bag]; k < p->offsets[bag + 1]; k++) {
                p->bag_of[k] = bag;
            }
        }
        ls_kernel_group_ids(&(const ls_row_groups){p->rows, p->starts, p->order}, &p->touched,
                            p->scratch, p->ids, p->count, about[t].rows, -1);
        ls_kernel_row_gradients(p->sums, DIM,
                                &(const ls_gradients){p->gradients, DIM, LS_F32, p->bag_of, NULL},
                                p->starts, p->order, p->touched);
        const ls_row_update update = {.weights = p->weights,
                                      .dtype = LS_F32,
                                      .rows = about[t].rows,
                                      .dim = DIM,
                                      .states = {p->state},
                                      .row_ids = p->rows,
                                      .gradients = p->sums,
                                      .count = p->touched,
                                      .factor = 1,
                                      .step = r->steps};
        ls_kernel_update_rows(&r->optimizers[t], &update);
    }
}

static int sharded_step(run *r) {
    ls_embedding_pass *pass = NULL;
    LS_TRY(ls_embedding_forward(&pass, r->module, (const ls_keyed_jagged *const *)r->inputs, NULL));
    int status = ls_embedding_backward(pass, r->by_rank, &r->training, NULL);
    status = status == LS_OK ? ls_embedding_update(pass, NULL) : status;
    ls_embedding_pass_free(pass);
    return status;
}

// ---- Preparing ----------------------------------------------------------------------------------
static float initial(int table, int64_t row, int64_t column) {
    return (float)((row * 131 + column * 7 + table) % 1021) / 1021.0f - 0.5f;
}

static int fill(void *arg, int table, int rank, int64_t row, int64_t rows, int64_t column,
                int64_t columns, void *out) {
    (void)arg;
    (void)rank;
    for (int64_t i = 0; i < rows * columns; i++) {
        ((float *)out)[i] = initial(table, row + i / columns, column + i % columns);
    }
    return LS_OK;
}

static int draw_plain(run *r, int t) {
    plain_table *p = &r->plain[t];
    size_t most = SAMPLES * about[t].length_max, cells = (size_t)about[t].rows * DIM;
    p->weights = ls_arena_alloc(r->arena, cells, sizeof(float));
    p->state = ls_arena_alloc(r->arena, (size_t)about[t].rows, sizeof(float));
    p->out = ls_arena_alloc(r->arena, (size_t)SAMPLES * DIM, sizeof(float));
    p->gradients = ls_arena_alloc(r->arena, (size_t)SAMPLES * DIM, sizeof(float));
    p->sums = ls_arena_alloc(r->arena, cells, sizeof(float));
    p->offsets = ls_arena_alloc(r->arena, SAMPLES + 1, sizeof(int64_t));
    int64_t **const by_id[] = {&p->ids, &p->bag_of, &p->rows, &p->order};
    for (size_t i = 0; i < sizeof by_id / sizeof *by_id; i++) {
        *by_id[i] = ls_arena_alloc(r->arena, most, sizeof(int64_t));
    }
    p->starts = ls_arena_alloc(r->arena, most + 1, sizeof(int64_t));
    p->scratch = ls_arena_alloc(r->arena, most, LS_GROUP_SCRATCH * sizeof(int64_t));
    if (!p->weights || !p->state || !p->out || !p->gradients || !p->sums || !p->offsets ||
        !p->ids || !p->bag_of || !p->rows || !p->order || !p->starts || !p->scratch) {
        return LS_ERR_MEMORY;
    }
    LS_TRY(fill(NULL, t, 0, 0, about[t].rows, 0, DIM, p->weights));
    for (size_t i = 0; i < (size_t)SAMPLES * DIM; i++) {
        p->gradients[i] = (float)((double)(i % 509) / 509.0 - 0.5);
    }
    for (uint64_t s = 0; s < SAMPLES; s++) {
        p->count +=
            (size_t)(ls_random_uniform(3, (uint32_t)t, 0, s) * (double)(about[t].length_max + 1));
        p->offsets[s + 1] = (int64_t)p->count;
    }
    if (about[t].skewed) {
        return ls_bench__draw_zipf(p->ids, p->count, (size_t)about[t].rows);
    }
    for (uint64_t k = 0; k < p->count; k++) {
        p->ids[k] = (int64_t)(ls_random_uniform(4, (uint32_t)t, 0, k) * (double)about[t].rows);
    }
    return LS_OK;
}

// A rank's samples of each table, as one input.
static int cut_inputs(run *r) {
    const char *keys[TABLES];
    for (int t = 0; t < TABLES; t++) {
        keys[t] = about[t].name;
    }
    for (int rank = 0; rank < RANKS; rank++) {
        ls_jagged_bag bags[TABLES * BATCH];
        for (int t = 0; t < TABLES; t++) {
            const plain_table *p = &r->plain[t];
            for (int b = 0; b < BATCH; b++) {
                const int64_t *at = p->offsets + rank * BATCH + b;
                bags[t * BATCH + b] = (ls_jagged_bag){p->ids + at[0], NULL, at[1] - at[0]};
            }
            r->gradients[rank][t] = p->gradients + (size_t)rank * BATCH * DIM;
        }
        r->by_rank[rank] = r->gradients[rank];
        LS_TRY(
            ls_keyed_jagged_from_lists(&r->inputs[rank], rank, keys, TABLES, BATCH, bags, false));
    }
    return LS_OK;
}

// Rows over all ranks; columns over four; a table on a rank; a copy on every rank.
static int cut_table(run *r, int t) {
    ls_sharding sharding = r->shardings[t];
    int64_t rows = about[t].rows;
    int shards = sharding == LS_COLUMN_WISE ? 4 : RANKS;
    if (sharding == LS_TABLE_WISE) {
        shards = 1;
    }
    ls_plan_shard *own = ls_arena_alloc(r->arena, (size_t)shards, sizeof *own);
    if (own == NULL) {
        return LS_ERR_MEMORY;
    }
    for (int i = 0; i < shards; i++) {
        own[i] = (ls_plan_shard){.rank = i, .rows = rows, .columns = DIM};
        if (sharding == LS_ROW_WISE) {
            own[i].rows = rows / RANKS;
            own[i].row_offset = i * own[i].rows;
        } else if (sharding == LS_COLUMN_WISE) {
            own[i] = (ls_plan_shard){.rank = 16 * i,
                                     .rows = rows,
                                     .columns = DIM / 4,
                                     .column_offset = (int64_t)i * DIM / 4};
        } else if (sharding == LS_TABLE_WISE) {
            own[i].rank = 5 * t;
        }
    }
    r->plan_tables[t] = (ls_plan_table){.name = about[t].name,
                                        .sharding = sharding,
                                        .rows = rows,
                                        .columns = DIM,
                                        .shards = own,
                                        .shard_count = shards};
    return LS_OK;
}

static int open_run(run *r) {
    LS_TRY(ls_arena_create(&r->arena));
    for (int t = 0; t < TABLES; t++) {
        LS_TRY(draw_plain(r, t));
        LS_TRY(cut_table(r, t));
        r->tables[t] = (ls_table){.name = about[t].name,
                                  .rows = about[t].rows,
                                  .dim = DIM,
                                  .dtype = LS_F32,
                                  .pooling = LS_POOL_SUM,
                                  .features = &about[t].name,
                                  .feature_count = 1};
        r->optimizers[t] = ls_optimizer_default(LS_OPTIMIZER_ROWWISE_ADAGRAD, LS_OPTIMIZER_FUSED);
    }
    LS_TRY(cut_inputs(r));
    r->training = (ls_training){.optimizers = r->optimizers, .division = LS_GRADIENTS_SUMMED};
    r->plan = (ls_plan){
        .ranks = RANKS, .ranks_per_host = 8, .tables = r->plan_tables, .table_count = TABLES};
    const ls_world_options world = {.mesh = {.ndim = 1, .dim = {RANKS}}};
    LS_TRY(ls_world_create(&r->world, &world));
    LS_TRY(ls_backend_sim_create(&r->backend, r->world));
    const ls_embedding_options options = {
        .tables = r->tables, .table_count = TABLES, .plan = &r->plan, .fill = fill};
    return ls_embedding_create(&r->module, r->backend, &options);
}

static void close_run(run *r) {
    ls_embedding_free(r->module);
    ls_backend_free(r->backend);
    ls_world_free(r->world);
    for (int rank = 0; rank < RANKS; rank++) {
        ls_keyed_jagged_free(r->inputs[rank]);
    }
    ls_arena_free(r->arena);
}

// ---- Measuring ----------------------------------------------------------------------------------
// A figure for speed is worth nothing for a wrong result: the shards' weights after the first step,
// which differ from the plain step's by what column shards with a state of their own give.
static int verify(const run *r) {
    for (int t = 0; t < TABLES; t++) {
        for (int i = 0; i < r->plan_tables[t].shard_count; i++) {
            const ls_plan_shard *block = &r->plan_tables[t].shards[i];
            const ls_shard *held = ls_embedding_shard(r->module, t, block->rank,
                                                      r->shardings[t] == LS_DATA_PARALLEL ? 0 : i);
            for (int64_t k = 0; k < block->rows * block->columns; k++) {
                int64_t row = block->row_offset + k / block->columns;
                int64_t column = block->column_offset + k % block->columns;
                double plain = (double)r->plain[t].weights[row * DIM + column];
                double off = (double)((const float *)held->data)[k] - plain;
                double allowed = r->shardings[t] == LS_COLUMN_WISE ? 0.05 : 1e-5;
                if (!(off <= allowed && -off <= allowed)) {
                    return LS_FAIL(LS_ERR_FINDING, "bench: row %lld of %s is off by %g",
                                   (long long)row, about[t].name, off);
                }
            }
        }
    }
    return LS_OK;
}

// Half of the bytes that the tables' sharding types have read and written, whatever the program:
// row_wise, a partial sum of every sample on every rank is written and read again; data_parallel,
// so is every copy's gradient, and every copy's touched rows are updated; the others, outputs and
// gradients once to and once from their owner.
static size_t bytes_by_definition(const run *r) {
    size_t bytes = 0;
    for (int t = 0; t < TABLES; t++) {
        size_t outputs = (size_t)SAMPLES * DIM * sizeof(float);
        size_t table = (size_t)about[t].rows * DIM * sizeof(float);
        size_t touched = r->plain[t].touched * DIM * sizeof(float);
        if (r->shardings[t] == LS_ROW_WISE) {
            bytes += RANKS * outputs;
        } else {
            bytes += r->shardings[t] == LS_DATA_PARALLEL ? RANKS * (table + touched) : 2 * outputs;
        }
    }
    return bytes;
}

enum { SHARDED, PLAIN, COPY, TIMED };

// The timed runs, beside one of the other two.
static void set_times(ls_bench_row *row, double *const times[TIMED], const char *yardstick,
                      int other) {
    row->time_ms = ls_bench__median(times[SHARDED], row->repetitions);
    row->time_ms_min = times[SHARDED][0];
    row->yardstick = yardstick;
    row->yardstick_ms = ls_bench__median(times[other], row->repetitions);
    row->ratio = times[other][0] > 0 ? row->time_ms_min / times[other][0] : 0;
}

// by_bytes: the row that has a memcpy beside it.
static int measure(ls_bench_row *row, ls_bench_row *by_bytes, run *r) {
    double *times[TIMED];
    LS_TRY(open_run(r));
    for (int i = 0; i < TIMED; i++) {
        times[i] = ls_arena_alloc(r->arena, (size_t)row->repetitions, sizeof(double));
        if (times[i] == NULL) {
            return LS_ERR_MEMORY;
        }
    }
    char *from = NULL, *to = NULL;
    size_t bytes = 0;
    for (int i = -1; i < row->repetitions; i++) {  // the first turn warms up, and is checked
        double at[TIMED + 1];
        at[0] = ls_bench__cpu_ms();
        LS_TRY(sharded_step(r));
        at[1] = ls_bench__cpu_ms();
        plain_step(r);
        at[2] = ls_bench__cpu_ms();
        if (i >= 0) {
            ls_bench__copy(to, from, bytes);
            at[3] = ls_bench__cpu_ms();
            for (int k = 0; k < TIMED; k++) {
                times[k][i] = at[k + 1] - at[k];
            }
            continue;
        }
        LS_TRY(verify(r));
        bytes = bytes_by_definition(r);
        from = ls_arena_alloc(r->arena, bytes, 1);
        to = ls_arena_alloc(r->arena, bytes, 1);
        if (from == NULL || to == NULL) {
            return LS_ERR_MEMORY;
        }
        memset(from, 1, bytes);
        memset(to, 2, bytes);
    }
    set_times(row, times, "unsharded", PLAIN);
    by_bytes->bytes_moved = bytes;
    set_times(by_bytes, times, NULL, COPY);
    return LS_OK;
}

int ls_bench_suite_sharded(ls_bench *bench) {
    static const ls_sharding types[] = {LS_ROW_WISE, LS_COLUMN_WISE, LS_TABLE_WISE,
                                        LS_DATA_PARALLEL};
    for (int kind = 0; kind <= TABLES; kind++) {
        char name[LS_BENCH_TEXT_MAX];
        (void)snprintf(name, sizeof name, "step, %s",
                       kind == TABLES ? "each type once" : ls_sharding_name(types[kind]));
        ls_bench_row *row = ls_bench__row(bench, "sharded", name);
        if (row == NULL) {
            continue;
        }
        ls_bench_row *by_bytes = ls_bench__row(bench, "sharded", name);
        if (bench->progress != NULL) {
            bench->progress(name, kind, TABLES + 1);
        }
        row->ranks = by_bytes->ranks = RANKS;
        row->elements = by_bytes->elements = (uint64_t)BATCH * TABLES * DIM;
        // The other types move by definition up to 64 times as much (docs/performance.md).
        row->ratio_limit = kind < TABLES && types[kind] == LS_TABLE_WISE ? 3 : 0;
        run r = {.steps = 0};
        for (int t = 0; t < TABLES; t++) {
            r.shardings[t] = types[kind == TABLES ? t : kind];
        }
        int status = measure(row, by_bytes, &r);
        close_run(&r);
        if (status != LS_OK) {
            return ls_error_wrap("bench: %s", name);
        }
    }
    return LS_OK;
}
