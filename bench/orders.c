// The simulator under NCCL's reduction orders against itself in rank order, by turns: what
// following a real machine's order costs.
#include <stdio.h>
#include <stdlib.h>

#include "bench/bench.h"
#include "collectives/collectives.h"

#define RANKS       8
#define ELEMENTS    ((size_t)1 << 20)
#define RATIO_LIMIT 1.5
#define SAMPLES_MAX 1000

static const char *const orders[] = {
    "ring:proto=simple", "ring:proto=ll,channels=4", "ring:proto=ll128,channels=4",
    "tree:proto=simple", "tree:proto=ll,channels=4",
};

typedef struct setup {
    ls_world *world;
    ls_backend *backend;
    ls_comm *comm;
    float *data;  // [RANKS, 2 * ELEMENTS]: sent, received
    ls_call calls[RANKS];
} setup;

static void close_setup(setup *s) {
    ls_free(s->data, RANKS * 2 * ELEMENTS, sizeof(float));
    ls_comm_free(s->comm);
    ls_backend_free(s->backend);
    ls_world_free(s->world);
}

static int open_setup(setup *s) {
    const ls_world_options options = {.mesh = {.ndim = 1, .dim = {RANKS}}};
    *s = (setup){0};
    LS_TRY(ls_world_create(&s->world, &options));
    LS_TRY(ls_backend_sim_create(&s->backend, s->world));
    LS_TRY(ls_comm_create(&s->comm, s->backend, NULL, RANKS, "world"));
    LS_TRY(ls_alloc((void **)&s->data, RANKS * 2 * ELEMENTS, sizeof(float)));
    for (size_t i = 0; i < RANKS * 2 * ELEMENTS; i++) {
        s->data[i] = (float)(i % 251);
    }
    return LS_OK;
}

static int time_once(double *milliseconds, setup *s, const ls_order *order) {
    for (int r = 0; r < RANKS; r++) {
        float *own = s->data + (size_t)r * 2 * ELEMENTS;
        s->calls[r] = (ls_call){.kind = LS_ALL_REDUCE,
                                .comm = s->comm,
                                .rank = r,
                                .dtype = LS_F32,
                                .op = LS_SUM,
                                .count = ELEMENTS,
                                .send = own,
                                .recv = own + ELEMENTS,
                                LS_HERE};
    }
    s->backend->order = order;
    double start = ls_bench__now_ms();
    int status = ls_backend_run(s->backend, s->calls, RANKS);
    *milliseconds = ls_bench__now_ms() - start;
    return status;
}

static int measure(ls_bench_row *row, setup *s, const ls_order *order) {
    double with[SAMPLES_MAX];
    double without[SAMPLES_MAX];
    int count = row->repetitions < SAMPLES_MAX ? row->repetitions : SAMPLES_MAX;
    for (int i = 0; i < count; i++) {
        LS_TRY(time_once(&with[i], s, order));
        LS_TRY(time_once(&without[i], s, NULL));
    }
    row->time_ms = ls_bench__median(with, count);
    row->time_ms_min = with[0];
    row->yardstick_ms = ls_bench__median(without, count);
    row->ratio = row->time_ms_min / without[0];
    return LS_OK;
}

int ls_bench_suite_orders(ls_bench *bench) {
    const int count = (int)(sizeof orders / sizeof *orders);
    setup s = {0};
    int status = LS_OK;
    for (int i = 0; status == LS_OK && i < count; i++) {
        ls_bench_row *row = ls_bench__row(bench, "orders", orders[i]);
        if (row == NULL) {
            continue;
        }
        if (bench->progress != NULL) {
            bench->progress("orders", i, count);
        }
        row->ranks = RANKS;
        row->elements = ELEMENTS;
        row->yardstick = "rank order";
        row->ratio_limit = RATIO_LIMIT;
        ls_order *order = NULL;
        status = ls_order_parse(&order, orders[i]);
        if (status == LS_OK && s.world == NULL) {
            status = open_setup(&s);
        }
        status = status == LS_OK ? measure(row, &s, order) : status;
        ls_order_free(order);
    }
    close_setup(&s);
    return status;
}
