// Simulated collectives against memcpy. `elements` is what each rank has in the larger of its two
// buffers, as in nccl-tests; the yardstick is a memcpy with as much traffic: it reads and writes N
// bytes where the collective reads R and must write W, N = (R + W) / 2.
#include <stdio.h>
#include <string.h>

#include "bench/bench.h"
#include "collectives/collectives.h"
#include "kernels/element.h"

typedef struct plan {
    ls_kind kind;
    int ranks;
    size_t elements;
    double ratio_limit;
    double time_ms_limit;
    double memory_ratio_limit;
    ls_dtype dtype;  // f32 where nothing is said
    bool cold;       // results go to pages that nobody has touched, the memcpy's too
} plan;

// 16 ranks, 65,536 elements: PyTorch 2.9's LocalTensor needs 36 ms and 1,500 ms for these on a
// 16-core machine; the limit is a hundredth of that.
static const plan plans[] = {
    {LS_ALL_REDUCE, 8, 1 << 20, 2.0, 0, 1.1, LS_F32, false},
    {LS_ALL_GATHER, 8, 1 << 20, 2.0, 0, 1.1, LS_F32, false},
    {LS_REDUCE_SCATTER, 8, 1 << 20, 2.0, 0, 1.1, LS_F32, false},
    {LS_ALL_TO_ALL, 8, 1 << 20, 2.0, 0, 1.1, LS_F32, false},
    {LS_SCAN, 8, 1 << 20, 3.0, 0, 1.1, LS_F32, false},
    {LS_SCAN, 1024, 1024, 0, 50, 0, LS_F32, false},
    {LS_ALL_REDUCE, 1024, 1024, 0, 50, 0, LS_F32, false},
    {LS_ALL_GATHER, 1024, 1024, 0, 50, 0, LS_F32, false},
    {LS_REDUCE_SCATTER, 1024, 1024, 0, 50, 0, LS_F32, false},
    {LS_ALL_TO_ALL, 1024, 1024, 0, 50, 0, LS_F32, false},
    {LS_ALL_REDUCE, 16, 65536, 0, 0.36, 0, LS_F32, false},
    {LS_ALL_TO_ALL, 16, 65536, 0, 15, 0, LS_F32, false},
    {LS_ALL_GATHER, 16, 1 << 20, 1.15, 0, 0, LS_F32, false},
    {LS_ALL_GATHER, 16, 1 << 20, 1.15, 0, 0, LS_F32, true},
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
    ls_dtype dtype;
    size_t bytes;       // of an element
    char *send, *recv;  // [ranks, send_elements], [ranks, recv_elements]
    ls_call *calls;
} setup;

static void close_setup(setup *s) {
    ls_free(s->calls, (size_t)s->ranks, sizeof *s->calls);
    ls_free(s->recv, (size_t)s->ranks * s->recv_elements, s->bytes);
    ls_free(s->send, (size_t)s->ranks * s->send_elements, s->bytes);
    ls_comm_free(s->comm);
    ls_backend_free(s->backend);
    ls_world_free(s->world);
}

static int open_setup(setup *s, const plan *p) {
    size_t ranks = (size_t)p->ranks;
    *s = (setup){
        .kind = p->kind, .ranks = p->ranks, .dtype = p->dtype, .bytes = ls_dtype_bytes(p->dtype)};
    const ls_collective *collective = ls_collective_of(p->kind);
    s->count = ls_collective_has_counts(collective) ? p->elements / ranks : p->elements;
    s->send_elements = collective->send.form == LS_SIDE_COUNT ? s->count : p->elements;
    s->recv_elements = collective->recv.form == LS_SIDE_COUNT ? s->count : p->elements;
    ls_world_options options = {.mesh = {.ndim = 1, .dim = {p->ranks}}};
    LS_TRY(ls_world_create(&s->world, &options));
    LS_TRY(ls_backend_sim_create(&s->backend, s->world));
    LS_TRY(ls_comm_create(&s->comm, s->backend, NULL, p->ranks, "world"));
    LS_TRY(ls_alloc((void **)&s->send, ranks * s->send_elements, s->bytes));
    LS_TRY(ls_alloc((void **)&s->recv, ranks * s->recv_elements, s->bytes));
    LS_TRY(ls_alloc((void **)&s->calls, ranks, sizeof *s->calls));
    // Sums of whole numbers are exact in any order; narrow floats hold few of them.
    bool narrow = s->bytes < sizeof(float);
    for (size_t i = 0; i < ranks * s->send_elements; i++) {
        double value;
        if (!narrow) {
            value = (double)(i % 251);
        } else {
            value = i < s->send_elements ? (double)(i % 7) : 0;
        }
        ls_element_from_f64(s->send + i * s->bytes, s->dtype, value);
    }
    memset(s->recv, 1, ranks * s->recv_elements * s->bytes);
    return LS_OK;
}

static int run_once(void *arg) {
    setup *s = arg;
    for (int r = 0; r < s->ranks; r++) {
        s->calls[r] = (ls_call){.kind = s->kind,
                                .comm = s->comm,
                                .rank = r,
                                .dtype = s->dtype,
                                .op = LS_SUM,
                                .count = s->count,
                                .send = s->send + (size_t)r * s->send_elements * s->bytes,
                                .recv = s->recv + (size_t)r * s->recv_elements * s->bytes,
                                LS_HERE};
    }
    return ls_backend_run(s->backend, s->calls, s->ranks);
}

// A figure for speed is worth nothing for a wrong result: element 0 of the last rank by hand.
static double sent(const setup *s, size_t element) {
    return ls_element_to_f64(s->send + element * s->bytes, s->dtype);
}

static int verify(const setup *s) {
    ls_kind kind = s->kind;
    size_t last = (size_t)s->ranks - 1;
    double expected = 0;
    switch (kind) {
    case LS_ALL_GATHER:
        expected = sent(s, 0);
        break;
    case LS_ALL_TO_ALL:
        expected = sent(s, last * s->count);
        break;
    default:  // sums of small whole numbers are exact in any order
        for (size_t r = 0; r <= last; r++) {
            expected +=
                sent(s, r * s->send_elements + (kind == LS_REDUCE_SCATTER ? last * s->count : 0));
        }
    }
    double got = ls_element_to_f64(s->recv + last * s->recv_elements * s->bytes, s->dtype);
    return got == expected ? LS_OK
                           : LS_FAIL(LS_ERR_FINDING, "bench: %s gave %g, not %g",
                                     ls_kind_name(kind), got, expected);
}

static int measure(ls_bench_row *row, const plan *p) {
    uint64_t memory_before = ls_bench__memory_now();
    setup s;
    int status = open_setup(&s, p);
    ls_bench__memory_reset();
    status = status == LS_OK ? run_once(&s) : status;
    uint64_t peak = ls_bench__memory_peak();
    uint64_t buffers = (uint64_t)s.ranks * (s.send_elements + s.recv_elements) * s.bytes;
    // Cold, pages that are written for the first time are what takes time: all of the result's.
    row->bytes_moved = p->cold ? (uint64_t)s.ranks * s.recv_elements * s.bytes : buffers / 2;
    if (p->memory_ratio_limit != 0 && memory_before != 0 && peak > memory_before) {
        row->memory_ratio = (double)(peak - memory_before) / (double)buffers;
    }
    if (status == LS_OK) {
        const ls_bench_way way = {.fresh = p->cold ? s.recv : NULL,
                                  .fresh_bytes = (size_t)s.ranks * s.recv_elements * s.bytes,
                                  .processor_time = true};
        status = ls_bench__measure_way(row, run_once, &s, &way);
    }
    status = status == LS_OK ? verify(&s) : status;
    close_setup(&s);
    return status;
}

static int measure_plan(ls_bench *bench, const plan *p) {
    char name[LS_BENCH_TEXT_MAX];
    (void)snprintf(name, sizeof name, "%s%s%s%s", ls_kind_name(p->kind),
                   p->dtype == LS_F32 ? "" : ", ",
                   p->dtype == LS_F32 ? "" : ls_dtype_name(p->dtype), p->cold ? ", cold" : "");
    ls_bench_row *row = ls_bench__row_of(bench, "collectives", ls_kind_name(p->kind), name);
    if (row == NULL) {
        return LS_OK;
    }
    row->ranks = p->ranks;
    row->elements = p->elements;
    row->ratio_limit = p->ratio_limit;
    row->time_ms_limit = p->time_ms_limit;
    row->memory_ratio_limit = p->memory_ratio_limit;
    return measure(row, p) == LS_OK ? LS_OK
                                    : ls_error_wrap("bench: %s on %d ranks", row->name, p->ranks);
}

// The kinds that have limits above, of the sizes that were asked for.
static int measure_asked(ls_bench *bench) {
    static const ls_kind kinds[] = {LS_ALL_REDUCE, LS_ALL_GATHER, LS_REDUCE_SCATTER, LS_ALL_TO_ALL,
                                    LS_SCAN};
    const ls_bench_sizes *s = &bench->sizes;
    plan p = {.ranks = s->ranks != 0 ? s->ranks : 8,
              .elements = s->count != 0 ? (size_t)s->count : (size_t)1 << 20,
              .dtype = LS_F32};
    if (s->dtype != NULL) {
        LS_TRY(ls_dtype_parse(&p.dtype, s->dtype));
    }
    if (p.elements % (size_t)p.ranks != 0) {
        return LS_FAIL(LS_ERR_INVALID, "bench: %zu elements are no multiple of %d ranks",
                       p.elements, p.ranks);
    }
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        p.kind = kinds[i];
        LS_TRY(measure_plan(bench, &p));
    }
    return LS_OK;
}

int ls_bench_suite_collectives(ls_bench *bench) {
    const ls_bench_sizes *s = &bench->sizes;
    if (s->ranks != 0 || s->count != 0 || s->dtype != NULL) {
        return measure_asked(bench);
    }
    for (int i = 0; i < PLAN_COUNT; i++) {
        if (bench->progress != NULL) {
            bench->progress(ls_kind_name(plans[i].kind), i, PLAN_COUNT);
        }
        LS_TRY(measure_plan(bench, &plans[i]));
    }
    return LS_OK;
}
