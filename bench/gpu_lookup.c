// The pooled lookup on one GPU beside a device copy, timed by events; several sets of ids by turns,
// so that no run finds its rows in a cache.
#include "bench/gpu_lookup.h"

#include <math.h>
#include <string.h>

#include "bench/gpu_time.h"
#include "kernels/cuda/kernels_cuda.h"

#define ROWS       ((size_t)1000000)
#define DIM        ((size_t)128)
#define BAGS       ((size_t)65536)
#define POOLING    ((size_t)20)
#define SETS       4
#define COPY_BYTES ((size_t)1 << 30)
#define TURNS      20
#define WARMUP     3

typedef struct lookup {
    float *table, *out;
    int64_t *ids[SETS], *offsets;
    int turn;
} lookup;

static int launch_lookup(void *arg) {
    lookup *l = arg;
    const int64_t *ids = l->ids[l->turn++ % SETS];
    return ls_kernel_pooled_lookup_cuda(
        l->out, DIM, l->table, &(const ls_table_shape){LS_F32, (int64_t)ROWS, DIM},
        &(const ls_bags){ids, l->offsets, NULL, -1, LS_POOL_SUM, BAGS}, NULL);
}

typedef struct copy {
    void *from, *to;
} copy;

static int launch_copy(void *arg) {
    const copy *c = arg;
    return ls_kernel_copy_cuda(c->to, c->from, COPY_BYTES, NULL);
}

// Median and least milliseconds of `launch`.
static int time_launches(double *ms, double *ms_min, int (*launch)(void *arg), void *arg) {
    double times[TURNS];
    const ls_gpu_timing timing = {.warmup = WARMUP, .count = TURNS, .samples = times, .stride = 1};
    LS_TRY(ls_gpu__time(&timing, launch, arg));
    *ms = ls_bench__median(times, TURNS);
    *ms_min = times[0];
    return LS_OK;
}

int ls_bench__device_copy(double *gb_per_s, int64_t *memory_bytes) {
    copy c = {NULL, NULL};
    size_t free_bytes = 0, total_bytes = 0;
    double ms = 0, ms_min = 0;
    LS_TRY(ls_gpu__cuda(cudaSetDevice(0), "cudaSetDevice"));
    LS_TRY(ls_gpu__cuda(cudaMemGetInfo(&free_bytes, &total_bytes), "cudaMemGetInfo"));
    LS_TRY(ls_gpu__cuda(cudaMalloc(&c.from, COPY_BYTES), "cudaMalloc"));
    int status = ls_gpu__cuda(cudaMalloc(&c.to, COPY_BYTES), "cudaMalloc");
    if (status == LS_OK) {
        status = ls_gpu__cuda(cudaMemset(c.from, 1, COPY_BYTES), "cudaMemset");
    }
    status = status == LS_OK ? time_launches(&ms, &ms_min, launch_copy, &c) : status;
    (void)cudaFree(c.from);
    (void)cudaFree(c.to);
    *gb_per_s = ms > 0 ? 2.0 * (double)COPY_BYTES / ms * 1e-6 : 0;
    *memory_bytes = (int64_t)total_bytes;
    return status;
}

static uint64_t next_random(uint64_t *state) {
    *state += 0x9E3779B97F4A7C15u;
    uint64_t z = *state;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return z ^ z >> 31;
}

static int open_lookup(lookup *l, float *table, int64_t *ids) {
    uint64_t state = 1;
    for (size_t i = 0; i < ROWS * DIM; i++) {
        table[i] = (float)((double)(next_random(&state) >> 40) * 0x1p-24 - 0.5);
    }
    LS_TRY(ls_gpu__upload((void **)&l->table, table, ROWS * DIM * sizeof *table));
    for (int s = SETS - 1; s >= 0; s--) {
        for (size_t i = 0; i < BAGS * POOLING; i++) {
            ids[i] = (int64_t)(next_random(&state) % ROWS);
        }
        LS_TRY(ls_gpu__upload((void **)&l->ids[s], ids, BAGS * POOLING * sizeof *ids));
    }
    int64_t *offsets = NULL;
    LS_TRY(ls_alloc((void **)&offsets, BAGS + 1, sizeof *offsets));
    for (size_t b = 0; b <= BAGS; b++) {
        offsets[b] = (int64_t)(b * POOLING);
    }
    int status = ls_gpu__upload((void **)&l->offsets, offsets, (BAGS + 1) * sizeof *offsets);
    ls_free(offsets, BAGS + 1, sizeof *offsets);
    LS_TRY(status);
    LS_TRY(ls_gpu__cuda(cudaMalloc((void **)&l->out, BAGS * DIM * sizeof(float)), "cudaMalloc"));
    return ls_gpu__cuda(cudaMemset(l->out, 0xFF, BAGS * DIM * sizeof(float)), "cudaMemset");
}

static void close_lookup(lookup *l) {
    (void)cudaFree(l->table);
    (void)cudaFree(l->out);
    (void)cudaFree(l->offsets);
    for (int s = 0; s < SETS; s++) {
        (void)cudaFree(l->ids[s]);
    }
}

// A figure for speed is worth nothing for a wrong result: the first bags beside the CPU's. `ids` is
// set 0, which was made last.
static int verify(lookup *l, const float *table, const int64_t *ids) {
    enum { CHECKED = 64 };
    float expected[CHECKED * 128], actual[CHECKED * 128];
    int64_t offsets[CHECKED + 1];
    for (size_t b = 0; b <= CHECKED; b++) {
        offsets[b] = (int64_t)(b * POOLING);
    }
    l->turn = 0;
    LS_TRY(launch_lookup(l));
    LS_TRY(ls_gpu__cuda(cudaMemcpy(actual, l->out, sizeof actual, cudaMemcpyDeviceToHost),
                        "cudaMemcpy"));
    ls_kernel_pooled_lookup_reference(
        expected, DIM, table, &(const ls_table_shape){LS_F32, (int64_t)ROWS, DIM},
        &(const ls_bags){ids, offsets, NULL, -1, LS_POOL_SUM, CHECKED});
    return memcmp(expected, actual, sizeof actual) == 0
               ? LS_OK
               : LS_FAIL(LS_ERR_FINDING, "bench: the pooled lookup gave other bits than the CPU");
}

static int measure(ls_bench_row *row, lookup *l) {
    double copy_gb_per_s = 0;
    int64_t memory = 0;
    float *table = NULL;
    int64_t *ids = NULL;
    LS_TRY(ls_alloc((void **)&table, ROWS * DIM, sizeof *table));
    int status = ls_alloc((void **)&ids, BAGS * POOLING, sizeof *ids);
    status = status == LS_OK ? open_lookup(l, table, ids) : status;
    status = status == LS_OK ? verify(l, table, ids) : status;
    if (status == LS_OK) {
        status = time_launches(&row->time_ms, &row->time_ms_min, launch_lookup, l);
    }
    ls_free(ids, BAGS * POOLING, sizeof *ids);
    ls_free(table, ROWS * DIM, sizeof *table);
    LS_TRY(status);
    LS_TRY(ls_bench__device_copy(&copy_gb_per_s, &memory));
    // Rows and ids are read, offsets read, sums written: each once.
    double bytes = (double)(BAGS * POOLING * (DIM * sizeof(float) + sizeof(int64_t)) +
                            BAGS * (DIM * sizeof(float) + sizeof(int64_t)));
    row->bytes_moved = (uint64_t)(bytes / 2);
    row->gb_per_s = bytes / row->time_ms * 1e-6;
    row->yardstick = "device copy";
    row->yardstick_ms = bytes / copy_gb_per_s * 1e-6;
    row->ratio = row->time_ms / row->yardstick_ms;
    row->ratio_limit = 1 / 0.7;
    return LS_OK;
}

// ---- The planner's constants --------------------------------------------------------------------
#define HOT_ROWS                                                                                   \
    ((size_t)8192)  // 4 MiB of rows: they stay in the cache of any GPU that NCCL runs on
#define TINY 200    // launches of one sample

typedef struct constants {
    lookup hot;
    int64_t *one_offset;  // device [2]: a bag with one id
} constants;

static int launch_tiny(void *arg) {
    const constants *c = arg;
    for (int i = 0; i < TINY; i++) {
        LS_TRY(ls_kernel_pooled_lookup_cuda(
            c->hot.out, DIM, c->hot.table, &(const ls_table_shape){LS_F32, (int64_t)ROWS, DIM},
            &(const ls_bags){c->hot.ids[0], c->one_offset, NULL, -1, LS_POOL_SUM, 1}, NULL));
    }
    return LS_OK;
}

static int open_constants(constants *c, int64_t *ids) {
    static const int64_t one[2] = {0, 1};
    uint64_t state = 7;
    for (size_t i = 0; i < BAGS * POOLING; i++) {
        ids[i] = (int64_t)(next_random(&state) % HOT_ROWS);
    }
    for (int s = 0; s < SETS; s++) {
        LS_TRY(ls_gpu__upload((void **)&c->hot.ids[s], ids, BAGS * POOLING * sizeof *ids));
    }
    for (size_t b = 0; b <= BAGS; b++) {
        ids[b] = (int64_t)(b * POOLING);
    }
    LS_TRY(ls_gpu__upload((void **)&c->hot.offsets, ids, (BAGS + 1) * sizeof *ids));
    LS_TRY(ls_gpu__upload((void **)&c->one_offset, one, sizeof one));
    LS_TRY(
        ls_gpu__cuda(cudaMalloc((void **)&c->hot.table, ROWS * DIM * sizeof(float)), "cudaMalloc"));
    LS_TRY(ls_gpu__cuda(cudaMemset(c->hot.table, 0, ROWS * DIM * sizeof(float)), "cudaMemset"));
    return ls_gpu__cuda(cudaMalloc((void **)&c->hot.out, BAGS * DIM * sizeof(float)), "cudaMalloc");
}

int ls_bench__lookup_constants(double *kernel_us, double *cache_speedup, double hbm_gb_per_s) {
    constants c = {.hot = {.turn = 0}};
    int64_t *ids = NULL;
    double tiny_ms = 0, hot_ms = 0, least = 0;
    LS_TRY(ls_gpu__cuda(cudaSetDevice(0), "cudaSetDevice"));
    LS_TRY(ls_alloc((void **)&ids, BAGS * POOLING, sizeof *ids));
    int status = open_constants(&c, ids);
    ls_free(ids, BAGS * POOLING, sizeof *ids);
    status = status == LS_OK ? time_launches(&tiny_ms, &least, launch_tiny, &c) : status;
    status = status == LS_OK ? time_launches(&hot_ms, &least, launch_lookup, &c.hot) : status;
    (void)cudaFree(c.one_offset);
    close_lookup(&c.hot);
    LS_TRY(status);
    // The rest without ids, offsets and sums, which come from memory, are taken off.
    double rows = (double)(BAGS * POOLING * DIM * sizeof(float));
    double rest =
        (double)(BAGS * POOLING * sizeof(int64_t) + BAGS * (DIM * sizeof(float) + sizeof(int64_t)));
    double rows_ms = hot_ms - rest / hbm_gb_per_s * 1e-6;
    double speedup = rows_ms > 0 ? rows / hbm_gb_per_s * 1e-6 / rows_ms : 1;
    *kernel_us = tiny_ms * 1e3 / TINY;
    *cache_speedup = speedup > 1 ? speedup : 1;
    return LS_OK;
}

// ---- An update ----------------------------------------------------------------------------------
typedef struct tiny_update {
    float *weights, *state, *gradients, *sums;       // [DIM], [1], [DIM], [DIM]
    int64_t *ids, *rows, *starts, *order, *sorting;  // [1], but starts [2], LS_GROUP_SCRATCH
    ls_optimizer optimizer;
} tiny_update;

// The launches of a real run's update of a shard.
static int launch_updates(void *arg) {
    const tiny_update *t = arg;
    for (int i = 0; i < TINY; i++) {
        size_t unique = 0;
        LS_TRY(ls_kernel_group_ids_cuda(&(const ls_row_groups){t->rows, t->starts, t->order},
                                        &unique, t->sorting, t->ids, 1, 1, -1, NULL));
        LS_TRY(ls_kernel_row_gradients_cuda(
            t->sums, DIM, &(const ls_gradients){t->gradients, DIM, LS_F32, NULL, NULL}, t->starts,
            t->order, unique, NULL));
        const ls_row_update update = {.weights = t->weights,
                                      .dtype = LS_F32,
                                      .rows = 1,
                                      .dim = DIM,
                                      .states = {t->state},
                                      .row_ids = t->rows,
                                      .gradients = t->sums,
                                      .count = unique,
                                      .factor = 1,
                                      .step = 1};
        LS_TRY(ls_kernel_update_rows_cuda(&t->optimizer, &update, NULL));
    }
    return LS_OK;
}

int ls_bench__update_constant(double *update_us) {
    static const float zeros[DIM];
    static const int64_t none[LS_GROUP_SCRATCH];
    tiny_update t = {.optimizer =
                         ls_optimizer_default(LS_OPTIMIZER_ROWWISE_ADAGRAD, LS_OPTIMIZER_FUSED)};
    void **floats[] = {(void **)&t.weights, (void **)&t.state, (void **)&t.gradients,
                       (void **)&t.sums};
    void **numbers[] = {(void **)&t.ids, (void **)&t.rows, (void **)&t.starts, (void **)&t.order,
                        (void **)&t.sorting};
    double ms = 0, least = 0;
    int status = ls_gpu__cuda(cudaSetDevice(0), "cudaSetDevice");
    for (size_t i = 0; i < sizeof floats / sizeof *floats && status == LS_OK; i++) {
        status = ls_gpu__upload(floats[i], zeros, sizeof zeros);
    }
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers && status == LS_OK; i++) {
        status = ls_gpu__upload(numbers[i], none, sizeof none);
    }
    status = status == LS_OK ? time_launches(&ms, &least, launch_updates, &t) : status;
    for (size_t i = 0; i < sizeof floats / sizeof *floats; i++) {
        (void)cudaFree(*floats[i]);
    }
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        (void)cudaFree(*numbers[i]);
    }
    *update_us = ms * 1e3 / TINY;
    return status;
}

// ---- The row ------------------------------------------------------------------------------------
int ls_bench__lookup_row(ls_bench *bench) {
    ls_bench_row *row = ls_bench__row(bench, "nccl", "pooled lookup");
    if (row == NULL) {
        return LS_OK;
    }
    row->ranks = 1;
    row->elements = BAGS * DIM;
    row->repetitions = TURNS;
    lookup l = {.turn = 0};
    LS_TRY(ls_gpu__cuda(cudaSetDevice(0), "cudaSetDevice"));
    int status = measure(row, &l);
    close_lookup(&l);
    return status == LS_OK ? LS_OK : ls_error_wrap("bench: pooled lookup");
}
