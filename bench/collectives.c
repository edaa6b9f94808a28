// Simulated collectives against memcpy. `elements` is what each rank has in the larger of its two
// buffers, as in nccl-tests; the yardstick is a memcpy with as much traffic: it reads and writes N
// bytes where the collective reads R and must write W, N = (R + W) / 2.
#include <stdio.h>
#include <string.h>

#include "bench/bench.h"
#include "collectives/collectives.h"

typedef struct plan {
    ls_kind kind;
    int ranks;
    size_t elements;
    double ratio_limit;
    double time_ms_limit;
    double memory_ratio_limit;
} plan;

// The last two lines: PyTorch 2.9's LocalTensor needs 36 ms and 1,500 ms for these on a 16-core
// machine; the limit is a hundredth of that.
static const plan plans[] = {
    {LS_ALL_REDUCE, 8, 1 << 20, 2.0, 0, 1.1},     {LS_ALL_GATHER, 8, 1 << 20, 2.0, 0, 1.1},
    {LS_REDUCE_SCATTER, 8, 1 << 20, 2.0, 0, 1.1}, {LS_ALL_TO_ALL, 8, 1 << 20, 2.0, 0, 1.1},
    {LS_SCAN, 8, 1 << 20, 3.0, 0, 1.1},           {LS_SCAN, 1024, 1024, 0, 50, 0},
    {LS_ALL_REDUCE, 1024, 1024, 0, 50, 0},        {LS_ALL_GATHER, 1024, 1024, 0, 50, 0},
    {LS_REDUCE_SCATTER, 1024, 1024, 0, 50, 0},    {LS_ALL_TO_ALL, 1024, 1024, 0, 50, 0},
    {LS_ALL_REDUCE, 16, 65536, 0, 0.36, 0},       {LS_ALL_TO_ALL, 16, 65536, 0, 15, 0},
};

#define PLAN_COUNT ((int)(sizeof plans / sizeof plans[0]))

// One world with every rank's buffers and calls.
typedef struct setup {
    ls_kind kind;
    ls_world *world;
    ls_backend *backend;
    ls_comm *comm;
    int ranks;
    size_t count, send_elements, recv_elements;  // count: of a call; elements: of a rank's buffers
    float *send, *recv;                          // [ranks, send_elements], [ranks, recv_elements]
    ls_call *calls;
} setup;

static void close_setup(setup *s) {
    ls_free(s->calls, (size_t)s->ranks, sizeof *s->calls);
    ls_free(s->recv, (size_t)s->ranks * s->recv_elements, sizeof(float));
    ls_free(s->send, (size_t)s->ranks * s->send_elements, sizeof(float));
    ls_comm_free(s->comm);
    ls_backend_free(s->backend);
    ls_world_free(s->world);
}

static int open_setup(setup *s, const plan *p) {
    size_t ranks = (size_t)p->ranks;
    *s = (setup){.kind = p->kind, .ranks = p->ranks};
    const ls_collective *collective = ls_collective_of(p->kind);
    s->count = ls_collective_has_counts(collective) ? p->elements / ranks : p->elements;
    s->send_elements = collective->send.form == LS_SIDE_COUNT ? s->count : p->elements;
    s->recv_elements = collective->recv.form == LS_SIDE_COUNT ? s->count : p->elements;
    ls_world_options options = {.mesh = {.ndim = 1, .dim = {p->ranks}}};
    LS_TRY(ls_world_create(&s->world, &options));
    LS_TRY(ls_backend_sim_create(&s->backend, s->world));
    LS_TRY(ls_comm_create(&s->comm, s->backend, NULL, p->ranks, "world"));
    LS_TRY(ls_alloc((void **)&s->send, ranks * s->send_elements, sizeof(float)));
    LS_TRY(ls_alloc((void **)&s->recv, ranks * s->recv_elements, sizeof(float)));
    LS_TRY(ls_alloc((void **)&s->calls, ranks, sizeof *s->calls));
    for (size_t i = 0; i < ranks * s->send_elements; i++) {
        s->send[i] = (float)(i % 251);
    }
    memset(s->recv, 1, ranks * s->recv_elements * sizeof(float));
    return LS_OK;
}

static int run_once(void *arg) {
    setup *s = arg;
    for (int r = 0; r < s->ranks; r++) {
        s->calls[r] = (ls_call){.kind = s->kind,
                                .comm = s->comm,
                                .rank = r,
                                .dtype = LS_F32,
                                .op = LS_SUM,
                                .count = s->count,
                                .send = s->send + (size_t)r * s->send_elements,
                                .recv = s->recv + (size_t)r * s->recv_elements,
                                LS_HERE};
    }
    return ls_backend_run(s->backend, s->calls, s->ranks);
}

// A figure for speed is worth nothing for a wrong result: element 0 of the last rank by hand.
static int verify(const setup *s) {
    ls_kind kind = s->kind;
    size_t last = (size_t)s->ranks - 1;
    double expected = 0;
    switch (kind) {
    case LS_ALL_GATHER:
        expected = s->send[0];
        break;
    case LS_ALL_TO_ALL:
        expected = s->send[last * s->count];
        break;
    default:  // sums of small whole numbers are exact in any order
        for (size_t r = 0; r <= last; r++) {
            expected +=
                s->send[r * s->send_elements + (kind == LS_REDUCE_SCATTER ? last * s->count : 0)];
        }
    }
    double got = s->recv[last * s->recv_elements];
    return got == expected ? LS_OK
                           : LS_FAIL(LS_ERR_FINDING, "bench: %s gave %g, not %g",
                                     ls_kind_name(kind), got, expected);
}

static int measure(ls_bench_row *row, const plan *p) {
    uint64_t memory_before = ls_bench__memory_now();
    setup s;
    int status = open_setup(&s, p);
    ls_bench__memory_reset();
    if (status == LS_OK) {
        status = run_once(&s);
    }
    uint64_t peak = ls_bench__memory_peak();
    uint64_t buffers = (uint64_t)s.ranks * (s.send_elements + s.recv_elements) * sizeof(float);
    row->bytes_moved = buffers / 2;
    if (p->memory_ratio_limit != 0 && memory_before != 0 && peak > memory_before) {
        row->memory_ratio = (double)(peak - memory_before) / (double)buffers;
    }
    if (status == LS_OK) {
        status = ls_bench__measure(row, run_once, &s);
    }
    if (status == LS_OK) {
        status = verify(&s);
    }
    close_setup(&s);
    return status;
}

int ls_bench_suite_collectives(ls_bench *bench) {
    for (int i = 0; i < PLAN_COUNT; i++) {
        const plan *p = &plans[i];
        if (bench->progress != NULL) {
            bench->progress(ls_kind_name(p->kind), i, PLAN_COUNT);
        }
        ls_bench_row *row = ls_bench__row(bench, "collectives", ls_kind_name(p->kind));
        if (row == NULL) {
            continue;
        }
        row->ranks = p->ranks;
        row->elements = p->elements;
        row->ratio_limit = p->ratio_limit;
        row->time_ms_limit = p->time_ms_limit;
        row->memory_ratio_limit = p->memory_ratio_limit;
        if (measure(row, p) != LS_OK) {
            return ls_error_wrap("bench: %s on %d ranks", row->name, p->ranks);
        }
    }
    return LS_OK;
}
