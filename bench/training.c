// One fused training step of an embedding table on two threads: pooled lookup, gradients per row,
// rowwise_adagrad. It stands beside a memcpy of the bytes that have to move; fbgemm_step.py times
// FBGEMM's step of the same sizes.
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "bench/bench.h"
#include "kernels/training.h"

enum {
    ROWS = 1000000,
    DIM = 128,
    BAGS = 4096,
    BAG_LENGTH = 20,
    IDS = BAGS * BAG_LENGTH,
    THREADS = 2,
    BLOCK = 64,  // bags, or rows, that a thread takes at a time
};

typedef struct step {
    float *table;      // [ROWS, DIM]
    float *state;      // [ROWS]
    float *out;        // [BAGS, DIM]
    float *gradients;  // [BAGS, DIM]
    int64_t *ids, *bag_of, *rows, *order, *scratch;
    int64_t *starts, *offsets;
    size_t unique;
    ls_optimizer optimizer;
    int64_t count;  // steps done
    bool done;      // no more of them
    _Atomic size_t next_bag, next_row, grouped;
    pthread_barrier_t barrier;
} step;

// Blocks of work for any free thread: the result is the same.
static void look_up(step *s) {
    for (;;) {
        size_t first = atomic_fetch_add(&s->next_bag, (size_t)BLOCK);
        if (first >= BAGS) {
            return;
        }
        ls_kernel_pooled_lookup(s->out + first * DIM, DIM, s->table,
                                &(const ls_table_shape){LS_F32, ROWS, DIM},
                                &(const ls_bags){s->ids + s->offsets[first], s->offsets + first,
                                                 NULL, -1, LS_POOL_SUM, BLOCK});
    }
}

static void update(step *s) {
    float sums[BLOCK * DIM];
    for (;;) {
        size_t first = atomic_fetch_add(&s->next_row, (size_t)BLOCK);
        if (first >= s->unique) {
            return;
        }
        size_t count = s->unique - first < BLOCK ? s->unique - first : BLOCK;
        ls_kernel_row_gradients(sums, DIM,
                                &(const ls_gradients){s->gradients, DIM, LS_F32, s->bag_of, NULL},
                                s->starts + first, s->order, count);
        const ls_row_update rows = {.weights = s->table,
                                    .dtype = LS_F32,
                                    .rows = ROWS,
                                    .dim = DIM,
                                    .states = {s->state},
                                    .row_ids = s->rows + first,
                                    .gradients = sums,
                                    .count = count,
                                    .factor = 1,
                                    .step = s->count};
        ls_kernel_update_rows(&s->optimizer, &rows);
    }
}

static void work(step *s) {
    if (atomic_fetch_add(&s->grouped, (size_t)1) == 0) {
        for (size_t k = 0; k < IDS; k++) {
            s->bag_of[k] = (int64_t)(k / BAG_LENGTH);
        }
        ls_kernel_group_ids(&(const ls_row_groups){s->rows, s->starts, s->order}, &s->unique,
                            s->scratch, s->ids, IDS, ROWS, -1);
    }
    look_up(s);
    (void)pthread_barrier_wait(&s->barrier);  // no row is written before all are read
    update(s);
}

// The second thread: a step between two barriers, until there are no more.
static void *work_on(void *arg) {
    step *s = arg;
    for (;;) {
        (void)pthread_barrier_wait(&s->barrier);
        if (s->done) {
            return NULL;
        }
        work(s);
        (void)pthread_barrier_wait(&s->barrier);
    }
}

static int run_step(void *arg) {
    step *s = arg;
    s->count++;
    atomic_store(&s->next_bag, (size_t)0);
    atomic_store(&s->next_row, (size_t)0);
    atomic_store(&s->grouped, (size_t)0);
    (void)pthread_barrier_wait(&s->barrier);
    work(s);
    (void)pthread_barrier_wait(&s->barrier);
    return LS_OK;
}

// Each row that is looked up is read for the outputs, read and written by the update, its state
// too; outputs are written, gradients and ids read. A memcpy of half of that moves as much.
static uint64_t bytes_to_move(const step *s) {
    uint64_t row = DIM * sizeof(float);
    return (s->unique * (3 * row + 2 * sizeof(float)) + 2 * BAGS * row + IDS * sizeof(int64_t)) / 2;
}

static int measure(ls_bench_row *row, step *s) {
    pthread_t other;
    if (pthread_create(&other, NULL, work_on, s) != 0) {
        return LS_FAIL(LS_ERR_RESOURCE, "no thread for the benchmark");
    }
    int status = run_step(s);  // tells how many rows there are
    row->elements = (uint64_t)ROWS * DIM;
    row->bytes_moved = bytes_to_move(s);
    status = status == LS_OK ? ls_bench__measure(row, run_step, s) : status;
    s->done = true;
    (void)pthread_barrier_wait(&s->barrier);
    (void)pthread_join(other, NULL);
    return status;
}

typedef struct part {
    void **at;
    size_t count, bytes;
} part;

#define PARTS(s)                                                                                   \
    {                                                                                              \
        {(void **)&(s)->table, (size_t)ROWS * DIM, sizeof(float)},                                 \
            {(void **)&(s)->state, ROWS, sizeof(float)},                                           \
            {(void **)&(s)->out, (size_t)BAGS * DIM, sizeof(float)},                               \
            {(void **)&(s)->gradients, (size_t)BAGS * DIM, sizeof(float)},                         \
            {(void **)&(s)->ids, IDS, sizeof(int64_t)},                                            \
            {(void **)&(s)->bag_of, IDS, sizeof(int64_t)},                                         \
            {(void **)&(s)->rows, IDS, sizeof(int64_t)},                                           \
            {(void **)&(s)->order, IDS, sizeof(int64_t)},                                          \
            {(void **)&(s)->scratch, (size_t)IDS * LS_GROUP_SCRATCH, sizeof(int64_t)},             \
            {(void **)&(s)->starts, IDS + 1, sizeof(int64_t)},                                     \
            {(void **)&(s)->offsets, BAGS + 1, sizeof(int64_t)},                                   \
    }

static int prepare(step *s) {
    for (size_t i = 0; i < (size_t)ROWS * DIM; i++) {
        s->table[i] = (float)(i % 1021) / 1021.0f - 0.5f;
    }
    for (size_t i = 0; i < (size_t)BAGS * DIM; i++) {
        s->gradients[i] = (float)(i % 509) / 509.0f - 0.5f;
    }
    for (size_t b = 0; b <= BAGS; b++) {
        s->offsets[b] = (int64_t)(b * BAG_LENGTH);
    }
    s->optimizer = ls_optimizer_default(LS_OPTIMIZER_ROWWISE_ADAGRAD, LS_OPTIMIZER_FUSED);
    return ls_bench__draw_zipf(s->ids, IDS, ROWS);
}

int ls_bench_suite_training(ls_bench *bench) {
    ls_bench_row *row = ls_bench__row(bench, "training", "step_rowwise_adagrad");
    if (row == NULL) {
        return LS_OK;
    }
    step s = {.count = 0};
    const part parts[] = PARTS(&s);
    size_t made = 0;
    int status = LS_OK;
    for (; made < sizeof parts / sizeof *parts && status == LS_OK; made++) {
        status = ls_alloc(parts[made].at, parts[made].count, parts[made].bytes);
    }
    if (status == LS_OK && pthread_barrier_init(&s.barrier, NULL, THREADS) != 0) {
        status = LS_FAIL(LS_ERR_RESOURCE, "no barrier for the benchmark");
    }
    if (status == LS_OK) {
        status = prepare(&s);
        status = status == LS_OK ? measure(row, &s) : status;
        (void)pthread_barrier_destroy(&s.barrier);
    }
    for (size_t i = 0; i < made; i++) {
        ls_free(*parts[i].at, parts[i].count, parts[i].bytes);
    }
    return status;
}
