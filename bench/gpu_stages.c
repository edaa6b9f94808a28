// A plan's collectives, lookups and updates on GPUs, timed rank by rank.
#include "bench/gpu_stages.h"

#include <string.h>

#include "backends/nccl/nccl.h"
#include "bench/gpu_time.h"
#include "kernels/cuda/device.h"
#include "kernels/cuda/kernels_cuda.h"

#define WARMUP 5
#define BATCH  20  // calls of one collective sample
#define LEAST  ((size_t)64)

typedef struct gpu_runner {
    const ls_work *steps;
    ls_backend *backend;
    ls_comm **comms;    // [group_count]
    ls_device *device;  // the GPU of the thread that uses it
    double *samples;    // [LS_STAGE_TIMES_SAMPLES][ranks]
} gpu_runner;

// ---- Collectives --------------------------------------------------------------------------------
// Device buffers of one collective, by member.
typedef struct buffers {
    ls_call *calls;
    void **send, **recv;
} buffers;

static int open_buffers(const gpu_runner *runner, const ls_work_collective *collective,
                        buffers *out, ls_arena *arena) {
    size_t size = (size_t)collective->size;
    out->calls = ls_arena_copy(arena, collective->calls, size * sizeof *out->calls);
    out->send = ls_arena_alloc(arena, size, sizeof *out->send);
    out->recv = ls_arena_alloc(arena, size, sizeof *out->recv);
    if (out->calls == NULL || out->send == NULL || out->recv == NULL) {
        return LS_ERR_MEMORY;
    }
    for (int m = 0; m < collective->size; m++) {
        ls_call *call = &out->calls[m];
        size_t sent = collective->send_bytes[m], received = collective->recv_bytes[m];
        LS_TRY(ls_nccl_alloc(&out->send[m], runner->backend, call->rank, sent + LEAST));
        LS_TRY(ls_nccl_alloc(&out->recv[m], runner->backend, call->rank, received + LEAST));
        if (sent > 0) {
            LS_TRY(ls_nccl_copy_in(runner->backend, call->rank, out->send[m], call->send, sent));
        }
        call->comm = runner->comms[collective->group];
        call->send = out->send[m];
        call->recv = out->recv[m];
    }
    return LS_OK;
}

static void close_buffers(const gpu_runner *runner, const ls_work_collective *collective,
                          const buffers *own) {
    for (int m = 0; m < collective->size && own->send != NULL && own->recv != NULL; m++) {
        ls_nccl_free(runner->backend, collective->calls[m].rank, own->send[m]);
        ls_nccl_free(runner->backend, collective->calls[m].rank, own->recv[m]);
    }
}

static int check_results(const gpu_runner *runner, const ls_work_collective *collective,
                         const buffers *own, ls_arena *arena) {
    for (int m = 0; m < collective->size; m++) {
        size_t bytes = collective->recv_bytes[m];
        void *got = ls_arena_alloc(arena, bytes, 1);
        if (got == NULL) {
            return LS_ERR_MEMORY;
        }
        if (bytes > 0) {
            LS_TRY(ls_nccl_copy_out(runner->backend, own->calls[m].rank, got, own->recv[m], bytes));
        }
        LS_TRY(ls_work_check_collective(collective, m, got));
    }
    return LS_OK;
}

static int run_collective(void *arg, const ls_work_collective *collective, double *samples) {
    const gpu_runner *runner = arg;
    ls_arena *arena = NULL;
    buffers own = {NULL, NULL, NULL};
    LS_TRY(ls_arena_create(&arena));
    int status = open_buffers(runner, collective, &own, arena);
    if (status == LS_OK) {
        status = ls_nccl_time_each(samples, runner->backend, own.calls, collective->size, WARMUP,
                                   LS_STAGE_TIMES_SAMPLES, BATCH);
    }
    status = status == LS_OK ? check_results(runner, collective, &own, arena) : status;
    close_buffers(runner, collective, &own);
    ls_arena_free(arena);
    return status;
}

// ---- Lookups ------------------------------------------------------------------------------------
// One lookup's arrays on its GPU.
typedef struct device_lookup {
    const ls_work_lookup *lookup;
    void *table, *out;
    int64_t *ids, *offsets;
    float *weights;
} device_lookup;

static int64_t result_rows(const ls_work_lookup *lookup) {
    return lookup->pooling == LS_POOL_NONE ? lookup->id_count : lookup->bags;
}

static int result_bytes(size_t *out, const ls_work_lookup *lookup) {
    LS_TRY(ls_size_mul(out, (size_t)result_rows(lookup), (size_t)lookup->block.columns));
    return ls_size_mul(out, *out, ls_dtype_bytes(lookup->out_dtype));
}

static int upload_table(device_lookup *own, const ls_work *steps) {
    const ls_plan_shard *block = &own->lookup->block;
    size_t cells, element = ls_dtype_bytes(own->lookup->dtype);
    void *host = NULL;
    LS_TRY(ls_size_mul(&cells, (size_t)block->rows, (size_t)block->columns));
    LS_TRY(ls_alloc(&host, cells, element));
    int status = ls_work_weights(host, steps, own->lookup->table, &own->lookup->block);
    status = status == LS_OK ? ls_gpu__upload(&own->table, host, cells * element) : status;
    ls_free(host, cells, element);
    return status;
}

static int open_lookup(device_lookup *own, const ls_work *steps, const ls_work_lookup *lookup) {
    size_t ids = (size_t)lookup->id_count, bytes;
    own->lookup = lookup;
    LS_TRY(upload_table(own, steps));
    LS_TRY(ls_gpu__upload((void **)&own->ids, lookup->ids, ids * sizeof(int64_t)));
    LS_TRY(ls_gpu__upload((void **)&own->offsets, lookup->offsets,
                          ((size_t)lookup->bags + 1) * sizeof(int64_t)));
    if (lookup->weights != NULL) {
        LS_TRY(ls_gpu__upload((void **)&own->weights, lookup->weights, ids * sizeof(float)));
    }
    LS_TRY(result_bytes(&bytes, lookup));
    return ls_gpu__upload(&own->out, NULL, bytes);
}

static void close_lookup(device_lookup *own) {
    (void)cudaFree(own->table);
    (void)cudaFree(own->ids);
    (void)cudaFree(own->offsets);
    (void)cudaFree(own->weights);
    (void)cudaFree(own->out);
}

static int launch(const device_lookup *own, void *stream) {
    const ls_work_lookup *lookup = own->lookup;
    const ls_plan_shard *block = &lookup->block;
    if (result_rows(lookup) == 0) {
        return LS_OK;
    }
    if (lookup->pooling == LS_POOL_NONE) {
        return ls_kernel_gather_rows_cuda(own->out, own->table,
                                          (size_t)block->columns * ls_dtype_bytes(lookup->dtype),
                                          block->rows, own->ids, (size_t)lookup->id_count, stream);
    }
    return ls_kernel_pooled_lookup_cuda(
        own->out, (size_t)block->columns, own->table,
        &(const ls_table_shape){lookup->dtype, block->rows, (size_t)block->columns},
        &(const ls_bags){own->ids, own->offsets, own->weights, lookup->padding_id, lookup->pooling,
                         (size_t)lookup->bags},
        stream);
}

static int check_lookup(const device_lookup *own) {
    size_t bytes;
    void *got = NULL;
    LS_TRY(result_bytes(&bytes, own->lookup));
    LS_TRY(ls_alloc(&got, bytes, 1));
    int status =
        ls_gpu__cuda(cudaMemcpy(got, own->out, bytes, cudaMemcpyDeviceToHost), "cudaMemcpy");
    status = status == LS_OK ? ls_work_check_lookup(own->lookup, got) : status;
    ls_free(got, bytes, 1);
    return status;
}

typedef struct launches {
    const device_lookup *own;
    int count;
    void *stream;
} launches;

static int launch_all(void *arg) {
    const launches *l = arg;
    for (int k = 0; k < l->count; k++) {
        LS_TRY(launch(&l->own[k], l->stream));
    }
    return LS_OK;
}

// Seconds of a rank's launches, into its column of the samples.
static int time_column(const gpu_runner *runner, int rank, void *stream,
                       int (*launch_them)(void *arg), void *arg) {
    const ls_gpu_timing timing = {.warmup = WARMUP,
                                  .count = LS_STAGE_TIMES_SAMPLES,
                                  .stream = stream,
                                  .samples = runner->samples + rank,
                                  .stride = runner->steps->ranks};
    LS_TRY(ls_gpu__time(&timing, launch_them, arg));
    for (int i = 0; i < timing.count; i++) {
        timing.samples[i * timing.stride] *= 1e-3;
    }
    return LS_OK;
}

// One rank's lookups, in its own thread.
static int time_rank(void *arg, int rank, void *stream) {
    const gpu_runner *runner = arg;
    const ls_work *steps = runner->steps;
    device_lookup *own = NULL;
    int count = 0;
    LS_TRY(ls_alloc((void **)&own, (size_t)steps->lookup_count, sizeof *own));
    int status = LS_OK;
    for (int k = 0; k < steps->lookup_count && status == LS_OK; k++) {
        if (steps->lookups[k].rank == rank) {
            status = open_lookup(&own[count++], steps, &steps->lookups[k]);
        }
    }
    if (status == LS_OK && count > 0) {
        status = time_column(runner, rank, stream, launch_all, &(launches){own, count, stream});
    }
    for (int k = 0; k < count && status == LS_OK; k++) {
        status = check_lookup(&own[k]);
    }
    for (int k = 0; k < count; k++) {
        close_lookup(&own[k]);
    }
    ls_free(own, (size_t)steps->lookup_count, sizeof *own);
    return status;
}

// ---- Updates ------------------------------------------------------------------------------------
// By the device's kernels, on the default stream of the GPU that is current. The first update is
// the simulator's; those that are timed go on from there.
typedef struct updates {
    const ls_work_shard *shards;
    int count;
} updates;

static int do_updates(void *arg) {
    const updates *u = arg;
    for (int k = 0; k < u->count; k++) {
        LS_TRY(ls_work_shard_update(&u->shards[k]));
    }
    return LS_OK;
}

static int time_updates(const gpu_runner *runner, int rank, updates *own) {
    LS_TRY(do_updates(own));
    for (int k = 0; k < own->count; k++) {
        LS_TRY(ls_work_shard_check(&own->shards[k]));
    }
    return time_column(runner, rank, NULL, do_updates, own);
}

// One rank's updates, in its own thread.
static int time_rank_updates(void *arg, int rank, void *stream) {
    (void)stream;
    const gpu_runner *runner = arg;
    const ls_work *steps = runner->steps;
    ls_work_shard *own = NULL;
    int count = 0;
    LS_TRY(ls_alloc((void **)&own, (size_t)steps->update_count, sizeof *own));
    int status = LS_OK;
    for (int k = 0; k < steps->update_count && status == LS_OK; k++) {
        if (steps->updates[k].rank == rank) {
            status = ls_work_shard_open(&own[count++], runner->device, steps, &steps->updates[k]);
        }
    }
    if (status == LS_OK && count > 0) {
        status = time_updates(runner, rank, &(updates){own, count});
    }
    for (int k = 0; k < count; k++) {
        ls_work_shard_close(&own[k]);
    }
    ls_free(own, (size_t)steps->update_count, sizeof *own);
    return status;
}

static int on_ranks(gpu_runner *runner, int (*job)(void *arg, int rank, void *stream),
                    double *samples) {
    memset(samples, 0, (size_t)runner->steps->ranks * LS_STAGE_TIMES_SAMPLES * sizeof *samples);
    runner->samples = samples;
    return ls_nccl_on_ranks(runner->backend, job, runner);
}

static int run_lookups(void *arg, double *samples) {
    return on_ranks(arg, time_rank, samples);
}

static int run_updates(void *arg, double *samples) {
    return on_ranks(arg, time_rank_updates, samples);
}

// ---- All of it ----------------------------------------------------------------------------------
static int measure(ls_stage_times *out, gpu_runner *gpu, const ls_plan *plan, ls_arena *arena,
                   void (*progress)(const char *what, int done, int total)) {
    const ls_work *steps = gpu->steps;
    char *versions = ls_arena_alloc(arena, 256, 1);
    gpu->comms = ls_arena_alloc(arena, (size_t)steps->group_count, sizeof(ls_comm *));
    if (versions == NULL || gpu->comms == NULL) {
        return LS_ERR_MEMORY;
    }
    LS_TRY(ls_nccl_describe(versions, 256));
    int status = LS_OK;
    for (int i = 0; i < steps->group_count && status == LS_OK; i++) {
        const ls_work_group *group = &steps->groups[i];
        status = ls_comm_create(&gpu->comms[i], gpu->backend, group->ranks, group->size, "timed");
    }
    if (status == LS_OK) {
        const ls_work_runner runner = {.arg = gpu,
                                       .backend = "nccl",
                                       .versions = versions,
                                       .collective = run_collective,
                                       .lookups = run_lookups,
                                       .updates = run_updates,
                                       .progress = progress};
        status = ls_stage_times_measure(out, steps, plan, &runner, arena);
    }
    for (int i = 0; i < steps->group_count; i++) {
        ls_comm_free(gpu->comms[i]);
    }
    return status;
}

int ls_bench_gpu_stages(ls_stage_times *out, const ls_work *steps, const ls_plan *plan,
                        ls_arena *arena, void (*progress)(const char *what, int done, int total)) {
    LS_ASSERT(out != NULL && steps != NULL && plan != NULL);
    const ls_world_options options = {.mesh = steps->scenario->mesh};
    const ls_nccl_options nccl = {.blocking = true, .quiet_log = true};
    ls_world *world = NULL;
    gpu_runner gpu = {.steps = steps};
    LS_TRY(ls_world_create(&world, &options));
    int status = ls_backend_nccl_create(&gpu.backend, world, &nccl);
    status = status == LS_OK ? ls_device_cuda_open(&gpu.device) : status;
    status = status == LS_OK ? measure(out, &gpu, plan, arena, progress) : status;
    ls_backend_free(gpu.backend);
    ls_world_free(world);
    return status;
}
