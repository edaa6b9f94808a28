// Ranks as threads and as fibers: how long many ranks take, and what the checks cost. The yardstick
// of the second is the same program with every check off, run by turns with it; both in processor
// time, which counts what the checks do and not what else the machine does. One rank runs at a
// time.
#include <stdio.h>

#include "bench/bench.h"
#include "collectives/collectives.h"
#include "ranks/ranks.h"

#define SAMPLES_MAX 64
#define SAMPLES_MIN 40  // of a program with and without checks: both least times must be found
#define CALLS       4   // of such a program

// ---- Many ranks ---------------------------------------------------------------------------------
typedef struct crowd {
    int ranks;
    int calls;
    bool fibers;
    double time_ms_limit;
} crowd;

static int all_reduces(ls_rank *self, void *arg) {
    const crowd *c = arg;
    float data[256];
    for (int i = 0; i < c->calls; i++) {
        for (int k = 0; k < 256; k++) {
            data[k] = (float)((ls_rank_id(self) + k) % 7);
        }
        LS_TRY(ls_all_reduce(data, data, 256, LS_F32, LS_SUM, ls_rank_world(self)));
    }
    return 0;
}

static int run_crowd(const crowd *c) {
    ls_spmd_result *result = NULL;
    const ls_spmd_options options = {.ranks = c->ranks, .fibers = c->fibers};
    int status = ls_spmd_run(&result, all_reduces, (void *)(uintptr_t)c, &options);
    ls_spmd_result_free(result);
    return status;
}

// Fibers are one thread, whose time is that of a machine where nothing else runs; threads wait for
// the kernel, which hands the run token on.
static double now_ms(const crowd *c) {
    return c->fibers ? ls_bench__cpu_ms() : ls_bench__now_ms();
}

static int measure_crowd(ls_bench *bench, const crowd *c) {
    char name[LS_BENCH_TEXT_MAX];
    (void)snprintf(name, sizeof name, "%d %s, %d all_reduce", c->ranks,
                   c->fibers ? "fibers" : "threads", c->calls);
    ls_bench_row *row = ls_bench__row(bench, "ranks", name);
    if (row == NULL) {
        return LS_OK;
    }
    row->ranks = c->ranks;
    row->elements = 256;
    row->time_ms_limit = c->time_ms_limit;
    row->repetitions = 1;
    uint64_t before = ls_bench__memory_now();
    ls_bench__memory_reset();
    double start = now_ms(c);
    LS_TRY(run_crowd(c));
    row->time_ms = row->time_ms_min = now_ms(c) - start;
    uint64_t peak = ls_bench__memory_peak();
    if (before != 0 && peak > before) {
        row->memory_ratio =
            (double)(peak - before) / ((double)c->ranks * 256 * (double)sizeof(float));
    }
    return LS_OK;
}

// ---- Messages that wait -------------------------------------------------------------------------
typedef struct waiting {
    int ranks;
    bool backward;  // the message that was sent last is received first
} waiting;

// A message of every other rank waits when rank 0 receives the first. The yardstick receives them
// in the order in which they were sent.
static int receive_all(ls_rank *self, void *arg) {
    const waiting *w = arg;
    ls_rank_comm *world = ls_rank_world(self);
    float value = 0;
    ls_call call = {.kind = LS_SEND, .dtype = LS_F32, .count = 1, .send = &value, .recv = &value};
    ls_request *sent = NULL;
    if (ls_rank_id(self) > 0) {
        LS_TRY(ls_post_at(__FILE__, __LINE__, &call, world, &sent));
    }
    LS_TRY(ls_barrier(world));
    call.kind = LS_RECV;
    for (int i = 1; ls_rank_id(self) == 0 && i < w->ranks; i++) {
        call.root = w->backward ? w->ranks - i : i;
        LS_TRY(ls_post_at(__FILE__, __LINE__, &call, world, NULL));
    }
    return sent != NULL ? ls_wait(sent) : LS_OK;
}

static int time_waiting(double *out_ms, int ranks, bool backward) {
    ls_spmd_result *result = NULL;
    const waiting w = {ranks, backward};
    const ls_spmd_options options = {.ranks = ranks, .fibers = true, .checks = "-*"};
    double start = ls_bench__cpu_ms();
    int status = ls_spmd_run(&result, receive_all, (void *)(uintptr_t)&w, &options);
    *out_ms = ls_bench__cpu_ms() - start;
    ls_spmd_result_free(result);
    return status;
}

static int measure_waiting(ls_bench *bench) {
    enum { RANKS = 16384, TIMES = 3 };
    ls_bench_row *row = ls_bench__row(bench, "ranks", "16,383 waiting messages");
    if (row == NULL) {
        return LS_OK;
    }
    double last_first[TIMES], first_first[TIMES];
    row->ranks = RANKS;
    row->elements = 1;
    row->repetitions = TIMES;
    row->ratio_limit = 2;
    for (int i = 0; i < TIMES; i++) {
        LS_TRY(time_waiting(&first_first[i], RANKS, false));
        LS_TRY(time_waiting(&last_first[i], RANKS, true));
    }
    row->time_ms = ls_bench__median(last_first, TIMES);
    row->time_ms_min = last_first[0];
    row->yardstick_ms = ls_bench__median(first_first, TIMES);
    row->yardstick = "in order";
    row->ratio = row->time_ms / row->yardstick_ms;
    return LS_OK;
}

// ---- Cost of the checks -------------------------------------------------------------------------
typedef struct checked {
    ls_kind kind;
    int ranks;
    size_t elements;     // of the larger of a rank's two buffers
    float *send, *recv;  // [ranks, elements]
} checked;

static int calls_of_one_kind(ls_rank *self, void *arg) {
    const checked *c = arg;
    size_t own = (size_t)ls_rank_id(self) * c->elements;
    const ls_collective *collective = ls_collective_of(c->kind);
    size_t count;
    if (ls_collective_has_counts(collective)) {
        count = c->elements / (size_t)c->ranks;
    } else {
        count = ls_collective_has_data(collective) ? c->elements : 0;
    }
    const ls_call call = {
        .kind = c->kind,
        .dtype = LS_F32,
        .op = LS_SUM,
        .count = count,
        .send = c->send + own,
        .recv = c->recv + own,
    };
    for (int i = 0; i < CALLS; i++) {
        LS_TRY(ls_post_at(__FILE__, __LINE__, &call, ls_rank_world(self), NULL));
    }
    return 0;
}

static int time_checked(double *out_ms, checked *c, const char *checks) {
    ls_spmd_result *result = NULL;
    const ls_spmd_options options = {.ranks = c->ranks, .checks = checks};
    double start = ls_bench__cpu_ms();
    int status = ls_spmd_run(&result, calls_of_one_kind, c, &options);
    *out_ms = ls_bench__cpu_ms() - start;
    ls_spmd_result_free(result);
    return status;
}

// Of sorted samples [count], the mean of the least quarter: one lucky sample decides nothing.
static double least(const double *samples, int count) {
    double sum = 0;
    for (int i = 0; i < count / 4; i++) {
        sum += samples[i];
    }
    return sum / (count / 4);
}

static int measure_checks(ls_bench_row *row, checked *c) {
    double on[SAMPLES_MAX], off[SAMPLES_MAX];
    int count = row->repetitions < SAMPLES_MIN ? SAMPLES_MIN : row->repetitions;
    count = count < SAMPLES_MAX ? count : SAMPLES_MAX;
    row->repetitions = count;
    LS_TRY(time_checked(&off[0], c, "-*"));  // warms the memory
    for (int i = 0; i < count; i++) {
        bool on_first = i % 2 == 0;
        LS_TRY(time_checked(on_first ? &on[i] : &off[i], c, on_first ? NULL : "-*"));
        LS_TRY(time_checked(on_first ? &off[i] : &on[i], c, on_first ? "-*" : NULL));
    }
    row->time_ms = ls_bench__median(on, count);
    row->time_ms_min = on[0];
    row->yardstick_ms = ls_bench__median(off, count);
    row->yardstick = "checks off";
    row->ratio = least(on, count) / least(off, count);  // the run that other work disturbs least
    return LS_OK;
}

static int measure_kind(ls_bench *bench, ls_kind kind) {
    checked c = {.kind = kind, .ranks = 8, .elements = (size_t)1 << 20};
    char name[LS_BENCH_TEXT_MAX];
    (void)snprintf(name, sizeof name, "checks on %s", ls_kind_name(kind));
    ls_bench_row *row = ls_bench__row(bench, "ranks", name);
    if (row == NULL) {
        return LS_OK;
    }
    row->ranks = c.ranks;
    row->elements = c.elements;
    row->ratio_limit = 1.1;
    size_t all = (size_t)c.ranks * c.elements;
    void *send = NULL, *recv = NULL;
    int status = ls_alloc(&send, all, sizeof(float));
    status = status == LS_OK ? ls_alloc(&recv, all, sizeof(float)) : status;
    if (status == LS_OK) {
        c.send = send;
        c.recv = recv;
        for (size_t i = 0; i < all; i++) {
            c.send[i] = (float)(i % 251);
        }
        status = measure_checks(row, &c);
    }
    ls_free(recv, all, sizeof(float));
    ls_free(send, all, sizeof(float));
    return status;
}

int ls_bench_suite_ranks(ls_bench *bench) {
    static const crowd crowds[] = {{1024, 100, false, 10000},
                                   {4096, 100, false, 0},
                                   {4096, 100, true, 0},
                                   {16384, 100, true, 10000}};
    for (int kind = 0; kind < (int)LS_COLLECTIVE_COUNT; kind++) {
        LS_TRY(measure_kind(bench, (ls_kind)kind));
    }
    for (size_t i = 0; i < sizeof crowds / sizeof crowds[0]; i++) {
        LS_TRY(measure_crowd(bench, &crowds[i]));
    }
    return measure_waiting(bench);
}
