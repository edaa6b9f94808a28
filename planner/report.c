// A plan reported to people (text) and to programs (JSON).
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "planner/problem.h"
#include "formats/json.h"

static const char *const stop_texts[] = {
    [LS_PLANNER_STOP_PROVEN] = "proven",
    [LS_PLANNER_STOP_GAP] = "stopped at the gap asked for",
    [LS_PLANNER_STOP_NODES] = "stopped at the limit of nodes",
    [LS_PLANNER_STOP_TIME] = "stopped at the limit of time",
    [LS_PLANNER_STOP_SIZE] = "too large for a complete search",
};
static const char *const stop_names[] = {
    [LS_PLANNER_STOP_PROVEN] = "proven", [LS_PLANNER_STOP_GAP] = "gap",
    [LS_PLANNER_STOP_NODES] = "nodes",   [LS_PLANNER_STOP_TIME] = "time",
    [LS_PLANNER_STOP_SIZE] = "size",
};

static double gib(int64_t bytes) {
    return (double)bytes / 1073741824.0;
}

static double percent(int64_t part, int64_t whole) {
    return whole > 0 ? 100.0 * (double)part / (double)whole : 0.0;
}

static int most_loaded(const ls_planner_result *result, int ranks) {
    int most = 0;
    for (int r = 1; r < ranks; r++) {
        most = result->ranks[r].ms > result->ranks[most].ms ? r : most;
    }
    return most;
}

static void write_timed_out(ls_text *out, const ls_planner_result *result) {
    if (result->timed_out) {
        ls_text_puts(out, "the time limit ended the search: another run may find another plan (a "
                          "limit of nodes alone always gives the same)\n");
    }
}

static void write_verdict(ls_text *out, const ls_planner_problem *problem,
                          const ls_planner_result *result) {
    ls_text_printf(out, "%d tables on %d ranks of %d a host (%s)\n", problem->table_count,
                   problem->ranks, problem->group, problem->topology.name);
    if (!result->found) {
        ls_text_printf(out, "no plan: %s\n",
                       result->proven ? "proven that none fits"
                                      : "none was found, and none was ruled out");
        write_timed_out(out, result);
        return;
    }
    ls_text_printf(out, "cost %.6g ms a step, lower bound %.6g ms", result->ms,
                   result->lower_bound_ms);
    if (result->proven) {
        ls_text_puts(out, ": optimal, proven\n");
    } else {
        ls_text_printf(out, ": at most %.3g %% above the best (%s)\n", 100.0 * result->gap,
                       stop_texts[result->stop]);
    }
    ls_text_printf(out, "looked at %" PRId64 " nodes in %.2f s, first plan after %.3f s\n",
                   result->nodes, result->seconds, result->first_seconds);
    write_timed_out(out, result);
}

static void write_ranks(ls_text *out, const ls_planner_problem *problem,
                        const ls_planner_result *result) {
    ls_text_printf(out, "\n%5s %11s %11s %11s %11s %11s %16s %16s %9s %10s %6s\n", "rank",
                   "cost ms", "fwd comp", "fwd comms", "bwd comp", "bwd comms", "HBM GiB",
                   "DDR GiB", "input MB", "output MB", "shards");
    for (int r = 0; r < problem->ranks; r++) {
        const ls_planner_rank *rank = &result->ranks[r];
        ls_text_printf(out,
                       "%5d %11.5g %11.5g %11.5g %11.5g %11.5g %8.3f (%3.0f%%) %8.3f (%3.0f%%) "
                       "%9.3g %10.3g %6d\n",
                       r, rank->ms, rank->cost.forward_compute_ms, rank->cost.forward_comms_ms,
                       rank->cost.backward_compute_ms, rank->cost.backward_comms_ms,
                       gib(rank->hbm_bytes), percent(rank->hbm_bytes, rank->hbm_capacity),
                       gib(rank->ddr_bytes), percent(rank->ddr_bytes, rank->ddr_capacity),
                       (double)rank->input_bytes / 1e6, (double)rank->output_bytes / 1e6,
                       rank->shards);
    }
}

static void write_places(ls_text *out, const ls_plan_table *table) {
    int most = table->shard_count < 12 ? table->shard_count : 12;
    for (int k = 0; k < most; k++) {
        ls_text_printf(out, "%s%d", k ? "," : "", table->shards[k].rank);
    }
    ls_text_puts(out, most < table->shard_count ? ",..." : "");
}

static void write_tables(ls_text *out, const ls_planner_problem *problem,
                         const ls_planner_result *result) {
    int width = 5;
    for (int t = 0; t < problem->table_count; t++) {
        int length = (int)strlen(problem->tables[t].name);
        width = length > width ? length : width;
    }
    width = width > 40 ? 40 : width;
    ls_text_printf(out, "\n%-*s %-17s %-17s %11s %12s %9s %9s %10s  %s\n", width, "table",
                   "sharding", "kernel", "cost ms", "rows", "columns", "block", "HBM GiB", "ranks");
    for (int t = 0; t < problem->table_count; t++) {
        const ls_planner_option *option = result->chosen[t];
        double ms = 0.0;
        int64_t hbm = 0;
        for (int k = 0; k < option->shard_count; k++) {
            ms += ls_planner_cost_total(&option->shards[k].cost);
            hbm += option->shards[k].hbm_bytes;
        }
        ls_text_printf(
            out, "%-*.40s %-17s %-17s %11.5g %12" PRId64 " %9" PRId64 " %9" PRId64 " %10.3f  ",
            width, problem->tables[t].name, ls_sharding_name(option->sharding),
            ls_planner_kernel_name(option->kernel), ms, problem->tables[t].rows,
            problem->tables[t].columns, option->shards[0].block.columns, gib(hbm));
        write_places(out, &result->plan.tables[t]);
        ls_text_puts(out, "\n");
    }
}

// Imbalance as TorchRec reports it: how far the largest share is from an even one.
static void write_imbalance(ls_text *out, const ls_planner_problem *problem,
                            const ls_planner_result *result) {
    double sum = 0.0;
    double hbm = 0.0;
    int64_t most_hbm = 0;
    int worst = most_loaded(result, problem->ranks);
    for (int r = 0; r < problem->ranks; r++) {
        sum += result->ranks[r].ms;
        hbm += (double)result->ranks[r].hbm_bytes;
        most_hbm = result->ranks[r].hbm_bytes > most_hbm ? result->ranks[r].hbm_bytes : most_hbm;
    }
    const ls_planner_rank *rank = &result->ranks[worst];
    double mean = sum / problem->ranks;
    ls_text_printf(
        out, "\nmost loaded: rank %d, %.5g ms, %.3g x the mean; largest memory %.3g x the mean\n",
        worst, rank->ms, mean > 0.0 ? rank->ms / mean : 1.0,
        hbm > 0.0 ? (double)most_hbm * problem->ranks / hbm : 1.0);
    const struct {
        const char *name;
        double ms;
    } parts[] = {{"forward compute", rank->cost.forward_compute_ms},
                 {"forward communication", rank->cost.forward_comms_ms},
                 {"backward compute", rank->cost.backward_compute_ms},
                 {"backward communication", rank->cost.backward_comms_ms},
                 {"prefetch", rank->cost.prefetch_ms},
                 {"start-up of collectives", result->startup_ms}};
    ls_text_puts(out, "critical path:");
    int largest = 0;
    for (int i = 0; i < 6; i++) {
        largest = parts[i].ms > parts[largest].ms ? i : largest;
        if (parts[i].ms > 0.0) {
            ls_text_printf(out, "%s %s %.4g ms", i ? "," : "", parts[i].name, parts[i].ms);
        }
    }
    ls_text_printf(out, "; %s dominates\n", parts[largest].name);
}

// The tables that load the most loaded rank most.
static void write_heaviest(ls_text *out, const ls_planner_problem *problem,
                           const ls_planner_result *result) {
    int worst = most_loaded(result, problem->ranks);
    ls_text_printf(out, "heaviest on rank %d:", worst);
    double below = INFINITY;
    int after = -1;
    for (int n = 0; n < 5; n++) {
        int best = -1;
        double best_ms = 0.0;
        for (int t = 0; t < problem->table_count; t++) {
            double ms = 0.0;
            for (int k = 0; k < result->chosen[t]->shard_count; k++) {
                const ls_planner_shard *shard = &result->shards[t][k];
                ms += shard->block.rank == worst ? ls_planner_cost_total(&shard->cost) : 0.0;
            }
            bool later = ms < below || (ms == below && t > after);
            if (ms > best_ms && later) {
                best = t;
                best_ms = ms;
            }
        }
        if (best < 0) {
            break;
        }
        ls_text_printf(out, "%s %s %.4g ms", n ? "," : "", problem->tables[best].name, best_ms);
        below = best_ms;
        after = best;
    }
    ls_text_puts(out, "\n");
}

int ls_planner_write_text(ls_text *out, const ls_planner_problem *problem,
                          const ls_planner_result *result) {
    LS_ASSERT(out && problem && result);
    write_verdict(out, problem, result);
    if (result->found) {
        write_ranks(out, problem, result);
        write_tables(out, problem, result);
        write_imbalance(out, problem, result);
        write_heaviest(out, problem, result);
    }
    return out->failed ? LS_FAIL(LS_ERR_MEMORY, "no memory for the report") : LS_OK;
}

// ---- JSON ---------------------------------------------------------------------------------------

static void json_pair(ls_json *json, const char *key, int64_t a, int64_t b) {
    ls_json_member_array(json, key);
    ls_json_int(json, a);
    ls_json_int(json, b);
    ls_json_array_close(json);
}

static void json_tables(ls_json *json, const ls_planner_result *result) {
    ls_json_member_array(json, "tables");
    for (int t = 0; t < result->plan.table_count; t++) {
        const ls_plan_table *table = &result->plan.tables[t];
        ls_json_object_open(json);
        ls_json_member_string(json, "name", table->name);
        ls_json_member_string(json, "sharding", ls_sharding_name(table->sharding));
        ls_json_member_string(json, "kernel", ls_planner_kernel_name(table->kernel));
        ls_json_member_array(json, "shards");
        for (int k = 0; k < table->shard_count; k++) {
            const ls_planner_shard *shard = &result->shards[t][k];
            ls_json_object_open(json);
            ls_json_member_int(json, "rank", shard->block.rank);
            json_pair(json, "offset", shard->block.row_offset, shard->block.column_offset);
            json_pair(json, "size", shard->block.rows, shard->block.columns);
            ls_json_member_double(json, "cost_ms", ls_planner_cost_total(&shard->cost));
            ls_json_member_int(json, "hbm_bytes", shard->hbm_bytes);
            ls_json_object_close(json);
        }
        ls_json_array_close(json);
        ls_json_object_close(json);
    }
    ls_json_array_close(json);
}

static void json_ranks(ls_json *json, const ls_planner_result *result) {
    ls_json_member_array(json, "per_rank");
    for (int r = 0; r < result->plan.ranks; r++) {
        const ls_planner_rank *rank = &result->ranks[r];
        ls_json_object_open(json);
        ls_json_member_int(json, "rank", r);
        ls_json_member_double(json, "cost_ms", rank->ms);
        ls_json_member_int(json, "hbm_bytes", rank->hbm_bytes);
        ls_json_member_int(json, "hbm_capacity_bytes", rank->hbm_capacity);
        ls_json_member_int(json, "ddr_bytes", rank->ddr_bytes);
        ls_json_member_int(json, "ddr_capacity_bytes", rank->ddr_capacity);
        ls_json_member_int(json, "input_bytes", rank->input_bytes);
        ls_json_member_int(json, "output_bytes", rank->output_bytes);
        ls_json_member_int(json, "shards", rank->shards);
        ls_json_member_double(json, "forward_compute_ms", rank->cost.forward_compute_ms);
        ls_json_member_double(json, "forward_comms_ms", rank->cost.forward_comms_ms);
        ls_json_member_double(json, "backward_compute_ms", rank->cost.backward_compute_ms);
        ls_json_member_double(json, "backward_comms_ms", rank->cost.backward_comms_ms);
        ls_json_member_double(json, "prefetch_ms", rank->cost.prefetch_ms);
        ls_json_object_close(json);
    }
    ls_json_array_close(json);
}

int ls_planner_write_json(ls_text *out, const ls_planner_problem *problem,
                          const ls_planner_result *result, const char *why) {
    LS_ASSERT(out && problem && result);
    ls_json json;
    ls_json_report_begin(&json, out, 2, "plan");
    ls_json_member_string(&json, "verdict", result->found ? "pass" : "fail");
    ls_json_member_int(&json, "ranks", problem->ranks);
    ls_json_member_string(&json, "topology", problem->topology.name);
    if (result->found) {
        ls_json_member_double(&json, "cost_ms", result->ms);
        ls_json_member_double(&json, "lower_bound_ms", result->lower_bound_ms);
        ls_json_member_double(&json, "gap", result->gap);
        ls_json_member_double(&json, "startup_ms", result->startup_ms);
    }
    ls_json_member_bool(&json, "proven_optimal", result->found && result->proven);
    ls_json_member_string(&json, "stop", stop_names[result->stop]);
    ls_json_member_int(&json, "nodes", result->nodes);
    ls_json_member_bool(&json, "repeatable", !result->timed_out);
    if (!result->found) {
        ls_json_member_bool(&json, "proven_impossible", result->proven);
        ls_json_member_string(&json, "why", why);
    } else {
        json_tables(&json, result);
        json_ranks(&json, result);
    }
    ls_json_report_end(&json);
    return out->failed ? LS_FAIL(LS_ERR_MEMORY, "no memory for the report") : LS_OK;
}
