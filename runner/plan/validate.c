// Runs a plan in the simulator and counts the bytes of its collectives.
#include "runner/plan/validate.h"

#include <inttypes.h>
#include <stddef.h>
#include <string.h>

#include "runner/program/execute.h"
#include "runner/scenario/inputs.h"
#include "formats/json.h"
#include "embedding/stages.h"

static const struct {
    const char *name, *purpose;  // its name in reports; the name of its calls
    size_t offset;               // of the stage in ls_traffic_rank
} stages[] = {
#define STAGE(reported, purpose, member)                                                           \
    { reported, purpose, offsetof(ls_traffic_rank, member) }
    STAGE("input_dist sizes", "input_dist sizes", sizes),
    STAGE("input_dist batches", "input_dist batches", batches),
    STAGE("input_dist lengths", "input_dist lengths", lengths),
    STAGE("input_dist ids", "input_dist ids", ids),
    STAGE("input_dist weights", "input_dist weights", weights),
    STAGE("output_dist reduce", "output_dist reduce", reduce),
    STAGE("output_dist all_to_all", "output_dist outputs", outputs),
#undef STAGE
};
#define STAGE_COUNT ((int)(sizeof stages / sizeof *stages))

static const ls_traffic_stage *stage_of(const ls_traffic_rank *rank, int stage) {
    return (const ls_traffic_stage *)(const void *)((const char *)rank + stages[stage].offset);
}

// ---- Planned bytes ------------------------------------------------------------------------------

// Ids as the source rank sends them: clamped or wrapped if the scenario says so.
static int settle(int64_t *out, int64_t id, int64_t rows, ls_id_policy policy) {
    if (id >= 0 && id < rows) {
        *out = id;
    } else if (policy == LS_ID_CLAMP) {
        *out = id < 0 ? 0 : rows - 1;
    } else if (policy == LS_ID_WRAP) {
        *out = (id % rows + rows) % rows;
    } else {
        return LS_FAIL(LS_ERR_INVALID, "id %" PRId64 " is not among the table's %" PRId64 " rows",
                       id, rows);
    }
    return LS_OK;
}

static int count_features(const ls_scenario *scenario) {
    int count = 0;
    for (int t = 0; t < scenario->table_count; t++) {
        count += scenario->tables[t].features.count;
    }
    return count;
}

// The ids of one rank: out [features of all tables in table order].
static int rank_ids(ls_traffic_ids *out, const ls_scenario *scenario, int rank, ls_arena *arena) {
    ls_keyed_jagged *jagged;
    LS_TRY(ls_inputs_jagged(&jagged, scenario, 0, rank));
    int status = LS_OK;
    int next = 0;
    for (int t = 0; t < scenario->table_count && status == LS_OK; t++) {
        const ls_scenario_table *table = &scenario->tables[t];
        for (int f = 0; f < table->features.count && status == LS_OK; f++) {
            int key = 0;
            while (key < jagged->key_count - 1 &&
                   strcmp(jagged->keys[key], table->features.at[f]) != 0) {
                key++;
            }
            ls_jagged feature = ls_keyed_jagged_feature(jagged, key);
            int64_t count = feature.offsets[feature.batch] - feature.offsets[0];
            int64_t *ids = ls_arena_alloc(arena, count ? (size_t)count : 1, sizeof *ids);
            status = ids != NULL ? LS_OK : LS_ERR_MEMORY;
            for (int64_t i = 0; i < count && status == LS_OK; i++) {
                status =
                    settle(&ids[i], feature.ids[i], table->rows, scenario->inputs.ids_out_of_range);
            }
            out[next++] = (ls_traffic_ids){ids, count, feature.batch};
        }
        if (status != LS_OK) {
            status = ls_error_wrap("table %s, rank %d", table->name, rank);
        }
    }
    ls_keyed_jagged_free(jagged);
    return status;
}

static int count_planned(ls_validated_rank *out, const ls_scenario *scenario, const ls_plan *plan,
                         ls_arena *arena) {
    size_t ranks = (size_t)scenario->ranks;
    size_t features = (size_t)count_features(scenario);
    ls_traffic_table *tables = ls_arena_alloc(arena, (size_t)scenario->table_count, sizeof *tables);
    const ls_traffic_ids **ids = ls_arena_alloc(arena, ranks, sizeof *ids);
    ls_traffic_rank *counted = ls_arena_alloc(arena, ranks, sizeof *counted);
    LS_TRY_MEMORY(tables != NULL && ids != NULL && counted != NULL);
    for (int t = 0; t < scenario->table_count; t++) {
        const ls_table table = ls_scenario_table_config(scenario, t);
        bool pooled = table.pooling != LS_POOL_NONE;
        ls_traffic_pooling pooling = table.pooling == LS_POOL_MAX ? LS_TRAFFIC_MAX : LS_TRAFFIC_SUM;
        if (!pooled) {
            pooling = LS_TRAFFIC_SEQUENCE;
        }
        tables[t] = (ls_traffic_table){
            .pooling = pooling,
            .output = ls_table_output_dtype(&table),
            .weighted = table.weighted,
            .feature_count = table.feature_count,
        };
    }
    for (int r = 0; r < scenario->ranks; r++) {
        ls_traffic_ids *mine = ls_arena_alloc(arena, features ? features : 1, sizeof *mine);
        LS_TRY_MEMORY(mine != NULL);
        LS_TRY(rank_ids(mine, scenario, r, arena));
        ids[r] = mine;
    }
    LS_TRY(ls_plan_traffic(counted, plan, tables, ids, scenario->inputs.variable));
    for (size_t r = 0; r < ranks; r++) {
        out[r].planned = counted[r];
    }
    return LS_OK;
}

// ---- Moved bytes --------------------------------------------------------------------------------
typedef struct watch {
    ls_validated_rank *ranks;
    bool overflow;
} watch;

static void see_call(void *arg, const ls_call *call) {
    watch *w = arg;
    size_t sent = 0;
    size_t received = 0;
    w->overflow = w->overflow || ls_call_send_elements(&sent, call) != LS_OK ||
                  ls_call_recv_elements(&received, call) != LS_OK;
    int s = 0;
    while (s < STAGE_COUNT && strcmp(stages[s].purpose, call->purpose) != 0) {
        s++;
    }
    if (s == STAGE_COUNT) {
        return;  // the exchange of norms for max_norm
    }
    ls_traffic_rank *mine = &w->ranks[call->rank].simulated;
    ls_traffic_stage *stage = (ls_traffic_stage *)(void *)((char *)mine + stages[s].offset);
    stage->sent += sent * ls_dtype_bytes(call->dtype);
    stage->received += received * ls_dtype_bytes(call->dtype);
}

static int simulate(watch *w, const ls_scenario *scenario, const ls_plan *plan, ls_arena *arena) {
    const ls_world_options options = {.mesh = scenario->mesh, .seed = scenario->seed};
    ls_world *world = NULL;
    ls_backend *backend = NULL;
    LS_TRY(ls_world_create(&world, &options));
    int status = ls_backend_sim_create(&backend, world);
    if (status == LS_OK) {
        backend->observer = see_call;
        backend->observer_arg = w;
        const ls_execution execution = {
            .scenario = scenario, .backend = backend, .plan = plan, .forward_only = true};
        ls_finding finding = {0};
        bool found = false;
        status = ls_execute(&execution, arena, &finding, &found);
    }
    ls_backend_free(backend);
    ls_world_free(world);
    return status;
}

int ls_validate_plan(ls_validated_rank *out, const ls_scenario *scenario, const ls_plan *plan) {
    LS_ASSERT(out != NULL && plan->ranks == scenario->ranks);
    if (scenario->is_program) {
        return LS_FAIL(LS_ERR_INVALID, "%s: a program has no plan", scenario->file);
    }
    LS_ASSERT(plan->table_count == scenario->table_count);
    memset(out, 0, (size_t)scenario->ranks * sizeof *out);
    ls_arena *arena;
    LS_TRY(ls_arena_create(&arena));
    watch w = {.ranks = out};
    int status = count_planned(out, scenario, plan, arena);
    status = status == LS_OK ? simulate(&w, scenario, plan, arena) : status;
    if (status == LS_OK && w.overflow) {
        status = LS_FAIL(LS_ERR_OVERFLOW, "the bytes of a call overflow");
    }
    ls_arena_free(arena);
    return status;
}

// ---- Reports ------------------------------------------------------------------------------------
static bool same(const ls_traffic_stage *a, const ls_traffic_stage *b) {
    return a->sent == b->sent && a->received == b->received;
}

int ls_validate_differing(const ls_validated_rank *ranks, int count) {
    int differing = 0;
    for (int r = 0; r < count; r++) {
        for (int s = 0; s < STAGE_COUNT; s++) {
            const ls_traffic_stage *planned = stage_of(&ranks[r].planned, s);
            const ls_traffic_stage *simulated = stage_of(&ranks[r].simulated, s);
            differing += planned->sent != simulated->sent;
            differing += planned->received != simulated->received;
        }
    }
    return differing;
}

void ls_validate_write_text(ls_text *out, const ls_validated_rank *ranks, int count) {
    ls_text_printf(out, "%6s  %-22s %14s %14s %14s %14s\n", "rank", "bytes of stage",
                   "planned sent", "simulated", "planned recv", "simulated");
    for (int r = 0; r < count; r++) {
        for (int s = 0; s < STAGE_COUNT; s++) {
            const ls_traffic_stage *planned = stage_of(&ranks[r].planned, s);
            const ls_traffic_stage *simulated = stage_of(&ranks[r].simulated, s);
            if (planned->sent + planned->received + simulated->sent + simulated->received == 0) {
                continue;
            }
            ls_text_printf(out,
                           "%6d  %-22s %14" PRIu64 " %14" PRIu64 " %14" PRIu64 " %14" PRIu64 "%s\n",
                           r, stages[s].name, planned->sent, simulated->sent, planned->received,
                           simulated->received, same(planned, simulated) ? "" : "  differ");
        }
    }
    int differing = ls_validate_differing(ranks, count);
    if (differing == 0) {
        ls_text_puts(out, "planned bytes are simulated bytes on every rank and stage\n");
    } else {
        ls_text_printf(out, "%d numbers differ\n", differing);
    }
}

void ls_validate_write_json(ls_text *out, const ls_validated_rank *ranks, int count) {
    ls_json json;
    int differing = ls_validate_differing(ranks, count);
    ls_json_report_begin(&json, out, 2, "plan");
    ls_json_member_string(&json, "verdict", differing == 0 ? "pass" : "fail");
    ls_json_member_int(&json, "differing", differing);
    ls_json_member_array(&json, "per_rank");
    for (int r = 0; r < count; r++) {
        for (int s = 0; s < STAGE_COUNT; s++) {
            ls_json_object_open(&json);
            ls_json_member_int(&json, "rank", r);
            ls_json_member_string(&json, "stage", stages[s].name);
            ls_json_member_uint(&json, "planned_sent", stage_of(&ranks[r].planned, s)->sent);
            ls_json_member_uint(&json, "simulated_sent", stage_of(&ranks[r].simulated, s)->sent);
            ls_json_member_uint(&json, "planned_received",
                                stage_of(&ranks[r].planned, s)->received);
            ls_json_member_uint(&json, "simulated_received",
                                stage_of(&ranks[r].simulated, s)->received);
            ls_json_object_close(&json);
        }
    }
    ls_json_array_close(&json);
    ls_json_report_end(&json);
}
