// Collectives over NCCL as nccl-tests times them, the alpha-beta fits of a machine, and the suite
// of rows for GPUs.
#include "bench/gpu.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "bench/gpu_lookup.h"
#include "bench/gpu_training.h"
#include "backends/nccl/nccl.h"
#include "formats/json.h"

#define RANKS_MAX 64
#define WARMUP    5

// One collective of f32 over all ranks, `bytes` in the larger of a rank's buffers.
typedef struct timed {
    ls_comm *comm;
    ls_call calls[RANKS_MAX];
    void *send[RANKS_MAX], *recv[RANKS_MAX];
    size_t counts[RANKS_MAX];  // of a call with a count per rank
} timed;

static void timed_close(timed *t) {
    for (int r = 0; r < t->comm->size; r++) {
        ls_nccl_free(t->comm->backend, r, t->send[r]);
        ls_nccl_free(t->comm->backend, r, t->recv[r]);
    }
}

static int timed_open(timed *t, ls_comm *comm, ls_kind kind, bool counts, size_t bytes) {
    *t = (timed){.comm = comm};
    size_t elements = bytes / sizeof(float), block = elements / (size_t)comm->size;
    size_t count = kind == LS_ALL_REDUCE ? elements : block;
    size_t sent = kind == LS_ALL_GATHER ? block : elements;
    size_t received = kind == LS_REDUCE_SCATTER ? block : elements;
    for (int r = 0; r < comm->size; r++) {
        t->counts[r] = block;
        LS_TRY(ls_nccl_alloc(&t->send[r], comm->backend, r, (sent + 1) * sizeof(float)));
        LS_TRY(ls_nccl_alloc(&t->recv[r], comm->backend, r, (received + 1) * sizeof(float)));
        t->calls[r] = (ls_call){.kind = kind,
                                .comm = comm,
                                .rank = r,
                                .dtype = LS_F32,
                                .op = LS_SUM,
                                .count = counts ? 0 : count,
                                .send_counts = counts ? t->counts : NULL,
                                .recv_counts = counts ? t->counts : NULL,
                                .send = t->send[r],
                                .recv = t->recv[r],
                                LS_HERE};
    }
    return LS_OK;
}

// counts: an all_to_all that gives a count per rank, as those of the embedding stages do, though
// all are equal here.
static int time_collective(double *seconds, ls_comm *comm, ls_kind kind, bool counts, size_t bytes,
                           int repetitions) {
    timed t;
    int status = timed_open(&t, comm, kind, counts, bytes);
    if (status == LS_OK) {
        status = ls_nccl_time(seconds, comm->backend, t.calls, comm->size, WARMUP, repetitions);
    }
    timed_close(&t);
    return status;
}

static const ls_kind kinds[] = {LS_ALL_REDUCE, LS_REDUCE_SCATTER, LS_ALL_GATHER, LS_ALL_TO_ALL};
#define KIND_COUNT ((int)(sizeof kinds / sizeof kinds[0]))

// ---- Rows ---------------------------------------------------------------------------------------
static int collective_rows(ls_bench *bench, ls_comm *comm) {
    static const size_t mebibytes[] = {1, 16, 256};
    for (int k = 0; k < KIND_COUNT; k++) {
        for (int s = 0; s < 3; s++) {
            char name[LS_BENCH_TEXT_MAX];
            (void)snprintf(name, sizeof name, "%s %zu MiB", ls_kind_name(kinds[k]), mebibytes[s]);
            ls_bench_row *row = ls_bench__row(bench, "nccl", name);
            if (row == NULL) {
                continue;
            }
            if (bench->progress != NULL) {
                bench->progress(name, k * 3 + s, KIND_COUNT * 3 + 1);
            }
            size_t bytes = mebibytes[s] << 20;
            double seconds = 0;
            LS_TRY(time_collective(&seconds, comm, kinds[k], false, bytes, 20));
            row->ranks = comm->size;
            row->elements = bytes / sizeof(float);
            row->time_ms = row->time_ms_min = seconds * 1e3;
            row->repetitions = 20;
            row->gb_per_s = (double)bytes / seconds * 1e-9 *
                            ls_collective_bus_factor(ls_collective_of(kinds[k]), comm->size);
        }
    }
    return LS_OK;
}

static int with_world(int (*body)(void *arg, ls_comm *comm), void *arg) {
    int devices = ls_nccl_device_count();
    if (devices == 0) {
        return LS_ERR_BACKEND;
    }
    devices = devices > RANKS_MAX ? RANKS_MAX : devices;
    const ls_world_options options = {.mesh = {.ndim = 1, .dim = {devices}}};
    const ls_nccl_options nccl = {.blocking = true, .quiet_log = true};
    ls_world *world = NULL;
    ls_backend *backend = NULL;
    ls_comm *comm = NULL;
    LS_TRY(ls_world_create(&world, &options));
    int status = ls_backend_nccl_create(&backend, world, &nccl);
    status = status == LS_OK ? ls_comm_create(&comm, backend, NULL, devices, "world") : status;
    status = status == LS_OK ? body(arg, comm) : status;
    ls_comm_free(comm);
    ls_backend_free(backend);
    ls_world_free(world);
    return status;
}

static int collectives_of(void *bench, ls_comm *comm) {
    return collective_rows(bench, comm);
}

int ls_bench_suite_gpu(ls_bench *bench) {
    if (ls_nccl_device_count() == 0) {
        return LS_ERR_BACKEND;
    }
    LS_TRY(ls_bench__lookup_row(bench));
    LS_TRY(ls_bench__gpu_step_row(bench));
    return with_world(collectives_of, bench);
}

// ---- Latency and bandwidth ----------------------------------------------------------------------
#define SIZES 13

typedef struct fit {
    double latency_us, gb_per_s, residual;  // residual: largest relative one
} fit;

// Least squares of relative errors: small messages tell the latency, large ones the bandwidth.
static fit fit_line(const double *bytes, const double *seconds) {
    double sw = 0, sx = 0, sy = 0, sxx = 0, sxy = 0;
    for (int i = 0; i < SIZES; i++) {
        double w = 1.0 / (seconds[i] * seconds[i]);
        sw += w;
        sx += w * bytes[i];
        sy += w * seconds[i];
        sxx += w * bytes[i] * bytes[i];
        sxy += w * bytes[i] * seconds[i];
    }
    double slope = (sw * sxy - sx * sy) / (sw * sxx - sx * sx);
    double start = (sy - slope * sx) / sw;
    fit f = {.latency_us = start * 1e6, .gb_per_s = slope > 0 ? 1e-9 / slope : 0};
    for (int i = 0; i < SIZES; i++) {
        double off = fabs(start + slope * bytes[i] - seconds[i]) / seconds[i];
        f.residual = off > f.residual ? off : f.residual;
    }
    return f;
}

static int write_link(ls_json *json, ls_comm *comm, ls_kind kind, bool counts, fit *out) {
    double bytes[SIZES], seconds[SIZES];
    for (int i = 0; i < SIZES; i++) {
        size_t size = (size_t)64 << (i * 20 / (SIZES - 1));  // 64 B to 64 MiB
        size -= size % (sizeof(float) * (size_t)comm->size);
        LS_TRY(time_collective(&seconds[i], comm, kind, counts, size, size < (1u << 20) ? 50 : 10));
        bytes[i] = (double)size * ls_collective_bus_factor(ls_collective_of(kind), comm->size);
    }
    *out = fit_line(bytes, seconds);
    ls_json_object_open(json);
    ls_json_member_string(json, "collective", ls_kind_name(kind));
    ls_json_member_bool(json, "counts", counts);
    ls_json_member_double(json, "latency_us", out->latency_us);
    ls_json_member_double(json, "bus_gb_per_s", out->gb_per_s);
    ls_json_member_double(json, "largest_residual", out->residual);
    ls_json_member_array(json, "measured");
    for (int i = 0; i < SIZES; i++) {
        double predicted = out->latency_us * 1e-6 + bytes[i] / (out->gb_per_s * 1e9);
        ls_json_object_open(json);
        ls_json_member_double(json, "bus_bytes", bytes[i]);
        ls_json_member_double(json, "us", seconds[i] * 1e6);
        ls_json_member_double(json, "residual", (predicted - seconds[i]) / seconds[i]);
        ls_json_object_close(json);
    }
    ls_json_array_close(json);
    ls_json_object_close(json);
    return LS_OK;
}

int ls_bench_gpu_links(ls_json *json, ls_comm *comm, void (*progress)(const char *, int, int)) {
    fit fits[KIND_COUNT], exchange;
    ls_json_member_array(json, "links");
    for (int k = 0; k < KIND_COUNT; k++) {
        if (progress != NULL) {
            progress(ls_kind_name(kinds[k]), k, KIND_COUNT);
        }
        LS_TRY(write_link(json, comm, kinds[k], false, &fits[k]));
    }
    LS_TRY(write_link(json, comm, LS_ALL_TO_ALL, true, &exchange));
    ls_json_array_close(json);
    double copy_gb_per_s = 0;
    int64_t memory_bytes = 0;
    LS_TRY(ls_bench__device_copy(&copy_gb_per_s, &memory_bytes));
    double kernel_us = 0, cache_speedup = 0, update_us = 0;
    LS_TRY(ls_bench__lookup_constants(&kernel_us, &cache_speedup, copy_gb_per_s));
    LS_TRY(ls_bench__update_constant(&update_us));
    // The planner's model: a ring collective starts after launch_us, and each hop adds a latency:
    // size - 1 for a reduce_scatter, twice as many for an all_reduce. An exchange of any counts
    // starts after exchange_us, and has one hop.
    const fit *whole = &fits[0], *half = &fits[1];
    double hop_us = (whole->latency_us - half->latency_us) / (comm->size - 1);
    hop_us = hop_us > 0 ? hop_us : 0;
    double launch_us = half->latency_us - hop_us * (comm->size - 1);
    double exchange_us = exchange.latency_us - hop_us;
    ls_json_member_object(json, "machine");
    ls_json_member_string(json, "name", "measured");
    ls_json_member_string(json, "preset", "h200");
    ls_json_member_int(json, "hbm_bytes", memory_bytes);
    ls_json_member_double(json, "hbm_bandwidth", copy_gb_per_s);
    ls_json_member_double(json, "intra_bandwidth", exchange.gb_per_s);
    ls_json_member_double(json, "intra_latency_us", hop_us);
    ls_json_member_double(json, "launch_us", launch_us > 0 ? launch_us : 0);
    ls_json_member_double(json, "exchange_us", exchange_us > 0 ? exchange_us : 0);
    ls_json_member_double(json, "kernel_us", kernel_us);
    ls_json_member_double(json, "update_us", update_us);
    ls_json_member_double(json, "cache_speedup", cache_speedup);
    ls_json_object_close(json);
    return LS_OK;
}
