// The steps of a planned scenario: they move the planned bytes, and a wrong result is reported.
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "runner/plan/scenario_plan.h"
#include "runner/plan/stage_times.h"
#include "runner/plan/validate.h"

// Two groups by sharding type and weights, a sequence table, a padding id, an id that repeats.
static const char text[] =
    "lockstep: 1\nname: steps\nseed: 5\nmesh: {shape: [4]}\n"
    "tables:\n"
    "  - {name: a, rows: 50, dim: 8, features: [x, y], sharding: {type: row_wise}}\n"
    "  - {name: b, rows: 9, dim: 16, pooling: mean, padding_id: 7, sharding: {type: column_wise, "
    "ranks: [2, 0], columns: 8}}\n"
    "  - {name: c, rows: 30, dim: 4, pooling: none, sharding: {type: table_wise, ranks: [3]}}\n"
    "  - {name: d, rows: 20, dim: 4, pooling: max, sharding: {type: row_wise}}\n"
    "  - {name: e, rows: 6, dim: 4, sharding: {type: data_parallel}}\n"
    "inputs:\n  batch: [3, 0, 5, 2]\n  weighted: true\n  features:\n"
    "    x: {lengths: {uniform: [0, 6]}}\n    y: {lengths: {uniform: [0, 2]}}\n";

typedef struct fixture {
    ls_diagnostics *diagnostics;
    ls_scenario *scenario;
    ls_arena *arena;
    ls_plan plan;
    ls_work steps;
} fixture;

static void open_text(fixture *f, const char *scenario) {
    cr_assert(ls_diagnostics_create(&f->diagnostics, "t.yaml") == LS_OK);
    int status =
        ls_scenario_parse(&f->scenario, f->diagnostics, "t.yaml", scenario, strlen(scenario), NULL);
    ls_text said = {0};
    ls_diagnostics_format(&said, f->diagnostics);
    cr_assert(status == LS_OK, "%s", ls_text_string(&said));
    ls_text_free(&said);
    cr_assert(ls_arena_create(&f->arena) == LS_OK);
    cr_assert(ls_scenario_plan(&f->plan, f->scenario, f->arena) == LS_OK);
    cr_assert(ls_work_capture(&f->steps, f->scenario, &f->plan, f->arena) == LS_OK, "%s",
              ls_error_last()->text);
}

static void open_fixture(fixture *f) {
    open_text(f, text);
}

static void close_fixture(fixture *f) {
    ls_arena_free(f->arena);
    ls_scenario_free(f->scenario);
    ls_diagnostics_free(f->diagnostics);
}

// The bytes of all steps together are those that the planner counts from the plan and the ids.
Test(steps, move_the_planned_bytes) {
    fixture f;
    open_fixture(&f);
    ls_validated_rank ranks[4];
    cr_assert(ls_validate_plan(ranks, f.scenario, &f.plan) == LS_OK);
    for (int r = 0; r < 4; r++) {
        const ls_traffic_rank *planned = &ranks[r].planned;
        uint64_t inputs =
            planned->sizes.sent + planned->lengths.sent + planned->ids.sent + planned->weights.sent;
        uint64_t outputs = planned->reduce.sent + planned->outputs.sent;
        for (int i = 0; i < f.steps.collective_count; i++) {
            const ls_work_collective *step = &f.steps.collectives[i];
            for (int m = 0; m < step->size; m++) {
                if (step->calls[m].rank == r) {
                    uint64_t *of = step->stage == LS_WORK_INPUT_DIST ? &inputs : &outputs;
                    *of -= step->send_bytes[m];
                }
            }
        }
        cr_expect(inputs == 0 && outputs == 0, "rank %d: %lld and %lld bytes too many", r,
                  (long long)-inputs, (long long)-outputs);
    }
    close_fixture(&f);
}

// Every shard of every feature is looked up once, with the bags that it received.
Test(steps, hold_every_lookup) {
    fixture f;
    open_fixture(&f);
    // a: four blocks, two features; b: two; c: one; d: four; e: one on each of four ranks.
    cr_expect(f.steps.lookup_count == 8 + 2 + 1 + 4 + 4, "%d lookups", f.steps.lookup_count);
    for (int i = 0; i < f.steps.lookup_count; i++) {
        const ls_work_lookup *lookup = &f.steps.lookups[i];
        int64_t own[] = {3, 0, 5, 2};
        cr_expect(lookup->block.rank == lookup->rank);
        cr_expect(lookup->bags == (lookup->table == 4 ? own[lookup->rank] : 10));
        cr_expect((lookup->padding_id == 7) == (lookup->table == 1));
    }
    close_fixture(&f);
}

// A differing byte is found in moved data, a wrong sum in added data, and NaN in both.
Test(steps, wrong_results_are_told) {
    fixture f;
    open_fixture(&f);
    int sums = 0;
    int moved = 0;
    for (int i = 0; i < f.steps.collective_count; i++) {
        const ls_work_collective *step = &f.steps.collectives[i];
        for (int m = 0; m < step->size; m++) {
            size_t bytes = step->recv_bytes[m];
            cr_expect(ls_work_check_collective(step, m, step->calls[m].recv) == LS_OK);
            if (bytes == 0) {
                continue;
            }
            bool adds = step->calls[m].kind == LS_REDUCE_SCATTER && step->calls[m].op == LS_SUM;
            char *wrong = ls_arena_copy(f.arena, step->calls[m].recv, bytes);
            if (adds) {
                float *last = (float *)(void *)(wrong + bytes - sizeof(float));
                *last += 0.01F;
                cr_expect(ls_work_check_collective(step, m, wrong) == LS_ERR_FINDING);
                *last = __builtin_nanf("");
            } else {
                wrong[bytes - 1] ^= 1;
            }
            cr_expect(ls_work_check_collective(step, m, wrong) == LS_ERR_FINDING);
            sums += adds;
            moved += !adds;
        }
    }
    cr_expect(sums > 0 && moved > 0);
    for (int i = 0; i < f.steps.lookup_count; i++) {
        const ls_work_lookup *lookup = &f.steps.lookups[i];
        int64_t rows = lookup->pooling == LS_POOL_NONE ? lookup->id_count : lookup->bags;
        size_t cells = (size_t)(rows * lookup->block.columns);
        if (lookup->values != NULL && cells > 0) {
            float *wrong = ls_arena_copy(f.arena, lookup->values, cells * sizeof(float));
            cr_expect(ls_work_check_lookup(lookup, wrong) == LS_OK);
            wrong[cells - 1] += 1;
            cr_expect(ls_work_check_lookup(lookup, wrong) == LS_ERR_FINDING);
        }
    }
    close_fixture(&f);
}

// Timed by the simulator, which checks every result; all of it is written and read back equal.
Test(steps, times_round_trip) {
    fixture f;
    open_fixture(&f);
    ls_stage_times times;
    cr_assert(ls_stage_times_simulate(&times, &f.steps, &f.plan, f.arena) == LS_OK, "%s",
              ls_error_last()->text);
    ls_text first = {0};
    ls_text second = {0};
    ls_text errors = {0};
    cr_assert(ls_stage_times_write(&first, &times) == LS_OK);
    ls_stage_times again;
    cr_assert(ls_stage_times_read(&again, f.arena, &errors, "t.json", ls_text_string(&first),
                                  first.length) == LS_OK,
              "%s", ls_text_string(&errors));
    cr_expect(ls_stage_times_check(&again, f.scenario) == LS_OK);
    cr_assert(ls_stage_times_write(&second, &again) == LS_OK);
    cr_expect_str_eq(ls_text_string(&first), ls_text_string(&second));
    for (int i = 0; i < 4 * LS_WORK_STAGE_COUNT; i++) {
        cr_expect(times.stages[i].median_ms >= times.stages[i].least_ms);
    }
    // Truncated anywhere, it is refused.
    for (size_t bytes = 0; bytes + 3 < first.length; bytes += 97) {
        ls_text why = {0};
        cr_expect(ls_stage_times_read(&again, f.arena, &why, "t.json", ls_text_string(&first),
                                      bytes) == LS_ERR_FORMAT);
        cr_expect(why.length > 0);
        ls_text_free(&why);
    }
    ls_text_free(&first);
    ls_text_free(&second);
    ls_text_free(&errors);
    close_fixture(&f);
}

static const char trained[] =
    "lockstep: 1\nname: t\nmesh: {shape: [2, 2], names: [host, gpu]}\ntables:\n"
    "  - {name: a, rows: 30, dim: 8, pooling: sum, features: [x, y], sharding: {type: row_wise}}\n"
    "  - {name: b, rows: 20, dim: 8, pooling: mean, sharding: {type: column_wise, columns: 4, "
    "ranks: [0, 1]}}\n"
    "  - {name: c, rows: 9, dim: 4, padding_id: 3, sharding: {type: table_wise, ranks: [3]}, "
    "optimizer: {type: adam, form: dense}}\n"
    "  - {name: d, rows: 7, dim: 4, pooling: sum, padding_id: 2, sharding: {type: data_parallel}, "
    "optimizer: {type: adam, weight_decay: 0.5}}\n"
    "inputs: {batch: 5, weighted: true}\nsteps: [forward, backward, update]\n"
    "train: {steps: 2, clip_norm: 0.5}\noptimizer: {type: rowwise_adagrad, lr: 0.1}\n";

// The result of one update of a shard, from the weights before it.
static int update_again(const fixture *f, const ls_work_update *update) {
    ls_work_shard shard;
    cr_assert(ls_work_shard_open(&shard, ls_device_host(), &f->steps, update) == LS_OK);
    cr_assert(ls_work_shard_update(&shard) == LS_OK);
    int status = ls_work_shard_check(&shard);
    ls_work_shard_close(&shard);
    return status;
}

// Repeating the updates of every shard gives the simulator's bits; with one changed gradient it
// does not. In table d only rows of bags decay: neither the padding nor the rest.
Test(steps, update_as_the_simulator_does) {
    fixture f;
    open_text(&f, trained);
    cr_assert(f.steps.stage_count == LS_WORK_STAGE_COUNT);
    cr_assert(f.steps.update_count == 4 + 2 + 1 + 4, "%d", f.steps.update_count);
    for (int i = 0; i < f.steps.update_count; i++) {
        ls_work_update *update = &f.steps.updates[i];
        cr_expect(update_again(&f, update) == LS_OK, "%s", ls_error_last()->text);
        if (update->id_count == 0 || update->dense != NULL) {
            continue;
        }
        for (size_t k = 0; k < update->row_count * (size_t)update->block.columns; k++) {
            ((float *)update->gradients)[k] += 100;
        }
        cr_expect(update_again(&f, update) == LS_ERR_FINDING, "update %d", i);
    }
    close_fixture(&f);
}
