// Times the steps of a plan in the simulator.
#include <stdlib.h>

#include "backends/kinds.h"
#include "base/time.h"
#include "runner/plan/stage_times.h"

#define WARMUP 2

typedef struct sim_runner {
    const ls_work *steps;
    ls_backend *backend;
} sim_runner;

// ---- Collectives --------------------------------------------------------------------------------
static int time_calls(const sim_runner *runner, const ls_work_collective *collective,
                      ls_call *calls, double *samples) {
    int size = collective->size;
    for (int i = -WARMUP; i < LS_STAGE_TIMES_SAMPLES; i++) {
        double began = ls_time_now();
        LS_TRY(ls_backend_run(runner->backend, calls, size));
        double each = (ls_time_now() - began) / size;
        for (int m = 0; m < size && i >= 0; m++) {
            samples[i * size + m] = each;
        }
    }
    for (int m = 0; m < size; m++) {
        LS_TRY(ls_work_check_collective(collective, m, calls[m].recv));
    }
    return LS_OK;
}

static int run_collective(void *arg, const ls_work_collective *collective, double *samples) {
    const sim_runner *runner = arg;
    const ls_work_group *group = &runner->steps->groups[collective->group];
    ls_arena *arena = NULL;
    ls_comm *comm = NULL;
    LS_TRY(ls_arena_create(&arena));
    ls_call *calls = ls_arena_copy(arena, collective->calls,
                                   (size_t)collective->size * sizeof *collective->calls);
    int status = calls != NULL
                     ? ls_comm_create(&comm, runner->backend, group->ranks, group->size, "timed")
                     : LS_ERR_MEMORY;
    for (int m = 0; m < collective->size && status == LS_OK; m++) {
        calls[m].comm = comm;
        calls[m].recv = ls_arena_alloc(arena, collective->recv_bytes[m], 1);
        status = calls[m].recv != NULL ? LS_OK : LS_ERR_MEMORY;
    }
    status = status == LS_OK ? time_calls(runner, collective, calls, samples) : status;
    ls_comm_free(comm);
    ls_arena_free(arena);
    return status;
}

// ---- Lookups ------------------------------------------------------------------------------------
typedef struct prepared {
    void *table, *out;
} prepared;

static void look_up(const ls_work_lookup *lookup, const prepared *memory) {
    const ls_plan_shard *block = &lookup->block;
    if (lookup->pooling == LS_POOL_NONE) {
        ls_kernel_gather_rows(memory->out, memory->table,
                              (size_t)block->columns * ls_dtype_bytes(lookup->dtype), block->rows,
                              lookup->ids, (size_t)lookup->id_count);
        return;
    }
    ls_kernel_pooled_lookup(
        memory->out, (size_t)block->columns, memory->table,
        &(const ls_table_shape){lookup->dtype, block->rows, (size_t)block->columns},
        &(const ls_bags){lookup->ids, lookup->offsets, lookup->weights, lookup->padding_id,
                         lookup->pooling, (size_t)lookup->bags});
}

static int prepare(prepared *out, const ls_work *steps, const ls_work_lookup *lookup,
                   ls_arena *arena) {
    int64_t rows = lookup->pooling == LS_POOL_NONE ? lookup->id_count : lookup->bags;
    size_t cells;
    LS_TRY(ls_size_mul(&cells, (size_t)lookup->block.rows, (size_t)lookup->block.columns));
    out->table = ls_arena_alloc(arena, cells, ls_dtype_bytes(lookup->dtype));
    LS_TRY(ls_size_mul(&cells, (size_t)rows, (size_t)lookup->block.columns));
    out->out = ls_arena_alloc(arena, cells, ls_dtype_bytes(lookup->out_dtype));
    LS_TRY_MEMORY(out->table != NULL && out->out != NULL);
    return ls_work_weights(out->table, steps, lookup->table, &lookup->block);
}

static int time_lookups(const ls_work *steps, int rank, double *samples, ls_arena *arena) {
    prepared *memory = ls_arena_alloc(arena, (size_t)steps->lookup_count, sizeof *memory);
    LS_TRY_MEMORY(memory != NULL);
    for (int k = 0; k < steps->lookup_count; k++) {
        if (steps->lookups[k].rank == rank) {
            LS_TRY(prepare(&memory[k], steps, &steps->lookups[k], arena));
        }
    }
    for (int i = -WARMUP; i < LS_STAGE_TIMES_SAMPLES; i++) {
        double began = ls_time_now();
        for (int k = 0; k < steps->lookup_count; k++) {
            if (steps->lookups[k].rank == rank) {
                look_up(&steps->lookups[k], &memory[k]);
            }
        }
        if (i >= 0) {
            samples[i * steps->ranks + rank] = ls_time_now() - began;
        }
    }
    for (int k = 0; k < steps->lookup_count; k++) {
        if (steps->lookups[k].rank == rank) {
            LS_TRY(ls_work_check_lookup(&steps->lookups[k], memory[k].out));
        }
    }
    return LS_OK;
}

// ---- Updates ------------------------------------------------------------------------------------
// The first update is the simulator's; the timed ones continue from there.
static int time_shards(const ls_work_shard *shards, int count, double *samples, int stride) {
    for (int i = -WARMUP; i < LS_STAGE_TIMES_SAMPLES; i++) {
        double began = ls_time_now();
        for (int k = 0; k < count; k++) {
            LS_TRY(ls_work_shard_update(&shards[k]));
        }
        double took = ls_time_now() - began;
        for (int k = 0; k < count && i == -WARMUP; k++) {
            LS_TRY(ls_work_shard_check(&shards[k]));
        }
        if (i >= 0) {
            samples[i * stride] = took;
        }
    }
    return LS_OK;
}

static int time_updates(const ls_work *steps, int rank, double *samples, ls_arena *arena) {
    ls_work_shard *shards = ls_arena_alloc(arena, (size_t)steps->update_count, sizeof *shards);
    int count = 0;
    int status = shards != NULL ? LS_OK : LS_ERR_MEMORY;
    for (int k = 0; k < steps->update_count && status == LS_OK; k++) {
        if (steps->updates[k].rank == rank) {
            status =
                ls_work_shard_open(&shards[count++], ls_device_host(), steps, &steps->updates[k]);
        }
    }
    status = status == LS_OK ? time_shards(shards, count, samples + rank, steps->ranks) : status;
    for (int k = 0; k < count; k++) {
        ls_work_shard_close(&shards[k]);
    }
    return status;
}

// ---- Rank after rank ----------------------------------------------------------------------------
typedef int (*rank_work)(const ls_work *steps, int rank, double *samples, ls_arena *arena);

static int run_ranks(const sim_runner *runner, rank_work work, double *samples) {
    for (int r = 0; r < runner->steps->ranks; r++) {
        ls_arena *arena = NULL;
        LS_TRY(ls_arena_create(&arena));
        int status = work(runner->steps, r, samples, arena);
        ls_arena_free(arena);
        LS_TRY(status);
    }
    return LS_OK;
}

static int run_lookups(void *arg, double *samples) {
    return run_ranks(arg, time_lookups, samples);
}

static int run_updates(void *arg, double *samples) {
    return run_ranks(arg, time_updates, samples);
}

int ls_stage_times_simulate(ls_stage_times *out, const ls_work *steps, const ls_plan *plan,
                            ls_arena *arena) {
    LS_ASSERT(out != NULL && steps != NULL && plan != NULL);
    const ls_world_options options = {.mesh = steps->scenario->mesh};
    ls_world *world = NULL;
    sim_runner sim = {.steps = steps};
    LS_TRY(ls_world_create(&world, &options));
    int status = ls_backend_sim_create(&sim.backend, world);
    if (status == LS_OK) {
        const ls_work_runner runner = {.arg = &sim,
                                       .backend = ls_backend_kind_sim.name,
                                       .versions = "the simulator, one CPU thread for all ranks",
                                       .collective = run_collective,
                                       .lookups = run_lookups,
                                       .updates = run_updates};
        status = ls_stage_times_measure(out, steps, plan, &runner, arena);
    }
    ls_backend_free(sim.backend);
    ls_world_free(world);
    return status;
}
