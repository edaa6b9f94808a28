// A fused training step of an embedding table on one GPU: pooled lookup, gradients per row,
// rowwise_adagrad, beside a device copy of the bytes that have to move. Both are graphs of several
// steps (copies) without a pause between them, replayed by turns. Each step of a graph has ids,
// gradients and outputs of its own, each copy its own memory: what a graph touches is several times
// the cache, so that steps and copies find it cold alike. The first step's outputs, weights and
// states are compared with the CPU's, bit by bit, before anything is timed.
#include "bench/gpu_training.h"

#include <stdlib.h>
#include <string.h>

#include "bench/gpu_time.h"
#include "kernels/cuda/kernels_cuda.h"

#define ROWS   ((size_t)1000000)
#define DIM    ((size_t)128)
#define BAGS   ((size_t)4096)
#define LENGTH ((size_t)20)
#define IDS    (BAGS * LENGTH)
#define STEPS  16  // of a graph
#define REPLAY 2   // graphs of a sample
#define TURNS  20  // samples
#define WARMUP 3

typedef struct step {
    // On the GPU.
    float *table, *state;                  // [ROWS, DIM], [ROWS]
    float *out[STEPS], *gradients[STEPS];  // [BAGS, DIM]
    int64_t *ids[STEPS], *offsets, *bag_of;
    void *lists;
    char *from[STEPS], *to[STEPS];  // of the copies
    cudaStream_t main, side, third;
    cudaEvent_t begun, looked_up, bags_known;
    cudaGraphExec_t graphs[2];  // of steps, of copies
    // On the host.
    float *host_table, *host_state, *host_gradients;  // as before the first step
    int64_t *host_ids, *host_offsets;                 // [STEPS, IDS], [BAGS + 1]
    size_t bytes;                                     // a copy has
    ls_optimizer optimizer;
} step;

// ---- The step -----------------------------------------------------------------------------------
// The lists of rows take few of the GPU's processors: the lookup has the others meanwhile. Only the
// update asks which bag an id is in: that waits for neither.
static int launch_step(step *s, int turn) {
    const int64_t *ids = s->ids[turn];
    const ls_row_update update = {.weights = s->table,
                                  .dtype = LS_F32,
                                  .rows = (int64_t)ROWS,
                                  .dim = DIM,
                                  .states = {s->state},
                                  .factor = 1,
                                  .step = 1};
    LS_TRY(ls_gpu__cuda(cudaEventRecord(s->begun, s->main), "cudaEventRecord"));
    LS_TRY(ls_gpu__cuda(cudaStreamWaitEvent(s->side, s->begun, 0), "cudaStreamWaitEvent"));
    LS_TRY(ls_kernel_list_rows_cuda(s->lists, IDS, ids, IDS, (int64_t)ROWS, -1, s->main));
    LS_TRY(ls_gpu__cuda(cudaStreamWaitEvent(s->third, s->begun, 0), "cudaStreamWaitEvent"));
    LS_TRY(ls_kernel_bag_of_cuda(s->bag_of, s->offsets, BAGS, s->third));
    LS_TRY(ls_gpu__cuda(cudaEventRecord(s->bags_known, s->third), "cudaEventRecord"));
    LS_TRY(ls_kernel_pooled_lookup_cuda(
        s->out[turn], DIM, s->table, &(const ls_table_shape){LS_F32, (int64_t)ROWS, DIM},
        &(const ls_bags){ids, s->offsets, NULL, -1, LS_POOL_SUM, BAGS}, s->side));
    LS_TRY(ls_gpu__cuda(cudaEventRecord(s->looked_up, s->side), "cudaEventRecord"));
    LS_TRY(ls_gpu__cuda(cudaStreamWaitEvent(s->main, s->looked_up, 0), "cudaStreamWaitEvent"));
    LS_TRY(ls_gpu__cuda(cudaStreamWaitEvent(s->main, s->bags_known, 0), "cudaStreamWaitEvent"));
    return ls_kernel_update_listed_cuda(
        &s->optimizer, &update, s->lists, IDS, IDS,
        &(const ls_gradients){s->gradients[turn], DIM, LS_F32, s->bag_of, NULL}, s->main);
}

static int launch_copy(step *s, int turn) {
    return ls_kernel_copy_cuda(s->to[turn], s->from[turn], s->bytes, s->main);
}

static int capture(cudaGraphExec_t *out, step *s, int (*launch)(step *s, int turn)) {
    cudaGraph_t graph = NULL;
    int status =
        ls_gpu__cuda(cudaStreamBeginCapture(s->main, cudaStreamCaptureModeThreadLocal), "capture");
    for (int i = 0; i < STEPS && status == LS_OK; i++) {
        status = launch(s, i);
    }
    cudaError_t ended = cudaStreamEndCapture(s->main, &graph);
    status = status == LS_OK ? ls_gpu__cuda(ended, "capture") : status;
    status = status == LS_OK ? ls_gpu__cuda(cudaGraphInstantiate(out, graph, 0), "graph") : status;
    if (graph != NULL) {
        (void)cudaGraphDestroy(graph);
    }
    return status;
}

// ---- Checking -----------------------------------------------------------------------------------
static int same(const char *what, const void *expected, const void *device, size_t bytes) {
    void *got = NULL;
    LS_TRY(ls_alloc(&got, bytes, 1));
    int status = ls_gpu__cuda(cudaMemcpy(got, device, bytes, cudaMemcpyDeviceToHost), "cudaMemcpy");
    if (status == LS_OK && memcmp(expected, got, bytes) != 0) {
        status =
            LS_FAIL(LS_ERR_FINDING, "bench: the step's %s have other bits than the CPU's", what);
    }
    ls_free(got, bytes, 1);
    return status;
}

// The CPU's step, by the kernels that are not fused.
typedef struct by_cpu {
    float *out, *sums;  // [BAGS, DIM], [IDS, DIM]
    int64_t *bag_of, *rows, *starts, *order, *scratch;
} by_cpu;

static int check_first(step *s, const by_cpu *c) {
    size_t unique = 0;
    ls_kernel_pooled_lookup(
        c->out, DIM, s->host_table, &(const ls_table_shape){LS_F32, (int64_t)ROWS, DIM},
        &(const ls_bags){s->host_ids, s->host_offsets, NULL, -1, LS_POOL_SUM, BAGS});
    for (size_t k = 0; k < IDS; k++) {
        c->bag_of[k] = (int64_t)(k / LENGTH);
    }
    ls_kernel_group_ids(&(const ls_row_groups){c->rows, c->starts, c->order}, &unique, c->scratch,
                        s->host_ids, IDS, (int64_t)ROWS, -1);
    ls_kernel_row_gradients(c->sums, DIM,
                            &(const ls_gradients){s->host_gradients, DIM, LS_F32, c->bag_of, NULL},
                            c->starts, c->order, unique);
    const ls_row_update rows = {.weights = s->host_table,
                                .dtype = LS_F32,
                                .rows = (int64_t)ROWS,
                                .dim = DIM,
                                .states = {s->host_state},
                                .row_ids = c->rows,
                                .gradients = c->sums,
                                .count = unique,
                                .factor = 1,
                                .step = 1};
    ls_kernel_update_rows(&s->optimizer, &rows);
    LS_TRY(launch_step(s, 0));
    LS_TRY(ls_gpu__cuda(cudaStreamSynchronize(s->main), "the step"));
    LS_TRY(same("outputs", c->out, s->out[0], BAGS * DIM * sizeof(float)));
    LS_TRY(same("states", s->host_state, s->state, ROWS * sizeof(float)));
    return same("weights", s->host_table, s->table, ROWS * DIM * sizeof(float));
}

static int check(step *s) {
    by_cpu c = {NULL};
    const struct {
        void **at;
        size_t count, bytes;
    } parts[] = {
        {(void **)&c.out, BAGS * DIM, sizeof(float)},
        {(void **)&c.sums, IDS * DIM, sizeof(float)},
        {(void **)&c.bag_of, IDS, sizeof(int64_t)},
        {(void **)&c.rows, IDS, sizeof(int64_t)},
        {(void **)&c.starts, IDS + 1, sizeof(int64_t)},
        {(void **)&c.order, IDS, sizeof(int64_t)},
        {(void **)&c.scratch, LS_GROUP_SCRATCH * IDS, sizeof(int64_t)},
    };
    size_t count = sizeof parts / sizeof *parts;
    int status = LS_OK;
    for (size_t i = 0; i < count && status == LS_OK; i++) {
        status = ls_alloc(parts[i].at, parts[i].count, parts[i].bytes);
    }
    status = status == LS_OK ? check_first(s, &c) : status;
    for (size_t i = 0; i < count; i++) {
        ls_free(*parts[i].at, parts[i].count, parts[i].bytes);
    }
    return status;
}

// ---- Preparing ----------------------------------------------------------------------------------
static int ascending(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

// Each row that is looked up is read for the outputs, read and written by the update, its state
// too; outputs are written, gradients and ids read. The mean over the graph's steps; sorts the ids.
static size_t bytes_to_move(int64_t *ids) {
    size_t row = DIM * sizeof(float), unique = 0;
    for (int t = 0; t < STEPS; t++) {
        int64_t *own = ids + (size_t)t * IDS;
        qsort(own, IDS, sizeof *own, ascending);
        for (size_t k = 0; k < IDS; k++) {
            unique += k == 0 || own[k] != own[k - 1] ? 1 : 0;
        }
    }
    return unique / STEPS * (3 * row + 2 * sizeof(float)) + 2 * BAGS * row + IDS * sizeof(int64_t);
}

static int fill_host(step *s) {
    LS_TRY(ls_alloc((void **)&s->host_table, ROWS * DIM, sizeof(float)));
    LS_TRY(ls_alloc((void **)&s->host_state, ROWS, sizeof(float)));
    LS_TRY(ls_alloc((void **)&s->host_gradients, BAGS * DIM, sizeof(float)));
    LS_TRY(ls_alloc((void **)&s->host_ids, STEPS * IDS, sizeof(int64_t)));
    LS_TRY(ls_alloc((void **)&s->host_offsets, BAGS + 1, sizeof(int64_t)));
    for (size_t i = 0; i < ROWS * DIM; i++) {
        s->host_table[i] = (float)(i % 1021) / 1021.0f - 0.5f;
    }
    for (size_t i = 0; i < BAGS * DIM; i++) {
        s->host_gradients[i] = (float)(i % 509) / 509.0f - 0.5f;
    }
    for (size_t b = 0; b <= BAGS; b++) {
        s->host_offsets[b] = (int64_t)(b * LENGTH);
    }
    s->optimizer = ls_optimizer_default(LS_OPTIMIZER_ROWWISE_ADAGRAD, LS_OPTIMIZER_FUSED);
    return ls_bench__draw_zipf(s->host_ids, STEPS * IDS, ROWS);
}

static int open_step(step *s) {
    size_t lists = 0;
    LS_TRY(fill_host(s));
    LS_TRY(ls_gpu__upload((void **)&s->table, s->host_table, ROWS * DIM * sizeof(float)));
    LS_TRY(ls_gpu__upload((void **)&s->state, NULL, ROWS * sizeof(float)));
    LS_TRY(ls_gpu__upload((void **)&s->offsets, s->host_offsets, (BAGS + 1) * sizeof(int64_t)));
    LS_TRY(ls_gpu__upload((void **)&s->bag_of, NULL, IDS * sizeof(int64_t)));
    LS_TRY(ls_kernel_row_lists_bytes(&lists, IDS, (int64_t)ROWS, DIM));
    LS_TRY(ls_gpu__upload(&s->lists, NULL, lists));
    for (int t = 0; t < STEPS; t++) {
        LS_TRY(ls_gpu__upload((void **)&s->ids[t], s->host_ids + (size_t)t * IDS,
                              IDS * sizeof(int64_t)));
        LS_TRY(ls_gpu__upload((void **)&s->out[t], NULL, BAGS * DIM * sizeof(float)));
        LS_TRY(ls_gpu__upload((void **)&s->gradients[t], s->host_gradients,
                              BAGS * DIM * sizeof(float)));
    }
    int least = 0, greatest = 0;
    LS_TRY(ls_gpu__cuda(cudaDeviceGetStreamPriorityRange(&least, &greatest), "priorities"));
    LS_TRY(ls_gpu__cuda(cudaStreamCreateWithPriority(&s->main, cudaStreamNonBlocking, greatest),
                        "stream"));
    LS_TRY(ls_gpu__cuda(cudaStreamCreateWithPriority(&s->side, cudaStreamNonBlocking, least),
                        "stream"));
    LS_TRY(ls_gpu__cuda(cudaStreamCreateWithPriority(&s->third, cudaStreamNonBlocking, least),
                        "stream"));
    LS_TRY(ls_gpu__cuda(cudaEventCreateWithFlags(&s->begun, cudaEventDisableTiming), "event"));
    LS_TRY(ls_gpu__cuda(cudaEventCreateWithFlags(&s->bags_known, cudaEventDisableTiming), "event"));
    return ls_gpu__cuda(cudaEventCreateWithFlags(&s->looked_up, cudaEventDisableTiming), "event");
}

static int open_copies(step *s) {
    s->bytes = bytes_to_move(s->host_ids) / 2;
    for (int t = 0; t < STEPS; t++) {
        LS_TRY(ls_gpu__upload((void **)&s->from[t], NULL, s->bytes));
        LS_TRY(ls_gpu__upload((void **)&s->to[t], NULL, s->bytes));
        LS_TRY(ls_gpu__cuda(cudaMemset(s->from[t], t + 1, s->bytes), "cudaMemset"));
    }
    return LS_OK;
}

static void close_step(step *s) {
    void *device[] = {s->table, s->state, s->offsets, s->bag_of, s->lists};
    for (size_t i = 0; i < sizeof device / sizeof *device; i++) {
        (void)cudaFree(device[i]);
    }
    for (int t = 0; t < STEPS; t++) {
        (void)cudaFree(s->ids[t]);
        (void)cudaFree(s->out[t]);
        (void)cudaFree(s->gradients[t]);
        (void)cudaFree(s->from[t]);
        (void)cudaFree(s->to[t]);
    }
    for (int i = 0; i < 2; i++) {
        if (s->graphs[i] != NULL) {
            (void)cudaGraphExecDestroy(s->graphs[i]);
        }
    }
    (void)(s->begun != NULL && cudaEventDestroy(s->begun));
    (void)(s->looked_up != NULL && cudaEventDestroy(s->looked_up));
    (void)(s->bags_known != NULL && cudaEventDestroy(s->bags_known));
    (void)(s->main != NULL && cudaStreamDestroy(s->main));
    (void)(s->side != NULL && cudaStreamDestroy(s->side));
    (void)(s->third != NULL && cudaStreamDestroy(s->third));
    ls_free(s->host_table, ROWS * DIM, sizeof(float));
    ls_free(s->host_state, ROWS, sizeof(float));
    ls_free(s->host_gradients, BAGS * DIM, sizeof(float));
    ls_free(s->host_ids, STEPS * IDS, sizeof(int64_t));
    ls_free(s->host_offsets, BAGS + 1, sizeof(int64_t));
}

// ---- Timing -------------------------------------------------------------------------------------
typedef struct replay {
    const step *step;
    cudaGraphExec_t graph;
} replay;

static int launch_graphs(void *arg) {
    const replay *r = arg;
    for (int i = 0; i < REPLAY; i++) {
        LS_TRY(ls_gpu__cuda(cudaGraphLaunch(r->graph, r->step->main), "cudaGraphLaunch"));
    }
    return LS_OK;
}

static int measure(ls_bench_row *row, step *s) {
    double times[2][TURNS];
    LS_TRY(open_step(s));
    LS_TRY(ls_gpu__cuda(cudaDeviceSynchronize(), "preparing"));  // the streams do not wait for that
    LS_TRY(check(s));
    LS_TRY(open_copies(s));
    LS_TRY(ls_gpu__cuda(cudaDeviceSynchronize(), "preparing"));
    LS_TRY(capture(&s->graphs[0], s, launch_step));
    LS_TRY(capture(&s->graphs[1], s, launch_copy));
    for (int i = -WARMUP; i < TURNS; i++) {
        for (int g = 0; g < 2; g++) {
            const ls_gpu_timing timing = {
                .count = 1, .stream = s->main, .samples = &times[g][i < 0 ? 0 : i], .stride = 1};
            LS_TRY(ls_gpu__time(&timing, launch_graphs, &(replay){s, s->graphs[g]}));
            *timing.samples /= REPLAY * STEPS;  // of one step (copy)
        }
    }
    row->bytes_moved = s->bytes;
    row->time_ms = ls_bench__median(times[0], TURNS);
    row->time_ms_min = times[0][0];
    row->yardstick = "device copy";
    row->yardstick_ms = ls_bench__median(times[1], TURNS);
    row->ratio = row->time_ms_min / times[1][0];
    row->ratio_limit = 1.4;
    row->gb_per_s = 2 * (double)s->bytes / row->time_ms * 1e-6;
    return LS_OK;
}

int ls_bench__gpu_step_row(ls_bench *bench) {
    ls_bench_row *row = ls_bench__row(bench, "nccl", "training step");
    if (row == NULL) {
        return LS_OK;
    }
    row->ranks = 1;
    row->elements = ROWS * DIM;
    row->repetitions = TURNS;
    step s = {.bytes = 0};
    LS_TRY(ls_gpu__cuda(cudaSetDevice(0), "cudaSetDevice"));
    int status = measure(row, &s);
    close_step(&s);
    return status == LS_OK ? LS_OK : ls_error_wrap("bench: training step");
}
