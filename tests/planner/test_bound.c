// Tests of a plan's proof, each part against its definition: the lower bounds, and the choices and
// places of the first plans.
#include <math.h>
#include <stdlib.h>

#include "planner/problem.h"
#include "tests/planner/golden.h"
#include "tests/planner/small.h"

// ---- Filling up loads ---------------------------------------------------------------------------

static int compare_loads(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a;
    int64_t y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

// The least level with room for the work, by trying all of them upwards.
Test(bound, level_is_the_least_with_room) {
    for (uint64_t seed = 1; seed <= 2000; seed++) {
        int64_t loads[6];
        int count = 1 + (int)draw(seed, 1, 6);
        for (int i = 0; i < count; i++) {
            loads[i] = (int64_t)draw(seed * 10 + (uint64_t)i, 2, 12);
        }
        int64_t work = (int64_t)draw(seed, 3, 40);
        qsort(loads, (size_t)count, sizeof(*loads), compare_loads);
        int64_t level = loads[count - 1];
        int64_t room = -1;
        while (room < work) {
            room = 0;
            for (int i = 0; i < count; i++) {
                room += level - loads[i];
            }
            level += room < work;
        }
        int64_t got = ls_bound__level(loads, count, work);
        cr_expect(got == level, "seed %d: %lld, not %lld", (int)seed, (long long)got,
                  (long long)level);
    }
}

// ---- The bound at the root ----------------------------------------------------------------------

// A necessary condition of every plan of cost C or less with these types, ignoring memory.
static bool may_cost(const ls_planner_problem *problem, unsigned types, int64_t level) {
    int64_t work = 0;
    int64_t large = 0;
    for (int i = 0; i < problem->item_count; i++) {
        int64_t least = INT64_MAX;
        int64_t fewest = INT64_MAX;
        for (int c = 0; c < problem->items[i].choice_count; c++) {
            const ls_choice *choice = &problem->items[i].choices[c];
            int64_t sum = 0;
            int64_t most = 0;
            int64_t above = 0;
            for (int k = 0; k < choice->shard_count; k++) {
                sum += choice->ticks[k];
                most = choice->ticks[k] > most ? choice->ticks[k] : most;
                above += choice->ticks[k] > level / 2;
            }
            if (choice->dominated || !(types >> choice->sharding & 1) || most > level) {
                continue;
            }
            least = sum < least ? sum : least;
            fewest = above < fewest ? above : fewest;
        }
        if (least == INT64_MAX) {
            return false;
        }
        work += least;
        large += fewest;
    }
    return large <= problem->ranks && (double)work <= (double)level * problem->ranks;
}

// The least cost at which some set of types satisfies the condition, to a millionth.
static double least_cost(const ls_planner_problem *problem) {
    double best = INFINITY;
    for (unsigned types = 1; types < 1u << LS_SHARDING_COUNT; types++) {
        int64_t pays = 0;
        for (int s = 0; s < LS_SHARDING_COUNT; s++) {
            pays += types >> s & 1 ? problem->startup[s] : 0;
        }
        int64_t low = 0;
        int64_t high = INT64_MAX / 4;
        if (!may_cost(problem, types, high)) {
            continue;
        }
        while (high - low > 1 && (double)(high - low) > 1e-6 * (double)high) {
            int64_t middle = low + (high - low) / 2;
            *(may_cost(problem, types, middle) ? &high : &low) = middle;
        }
        best = fmin(best, (double)low + (double)pays);
    }
    return best;
}

// The bound is at least the one of its definition without a price on memory, and none reports
// infeasibility if memory suffices. (The exhaustive search tests that it is not too high.)
Test(bound, the_root_is_no_weaker_than_its_definition) {
    int stronger = 0;
    for (uint64_t seed = 1; seed <= 150; seed++) {
        static instance in;
        make_instance(&in, seed);
        ls_planner_problem *problem;
        cr_assert(ls_planner_problem_create(&problem, &in.topology, in.tables, in.count,
                                            &in.options) == LS_OK);
        ls_search_budget budget = {.deadline = INFINITY, .deadline_first = INFINITY};
        ls_bound__root(&budget, problem);
        double want = least_cost(problem);
        if (budget.lower != LS_TICKS_NONE) {
            cr_expect((double)budget.lower >= want * (1.0 - 2e-6), "seed %d: %g, not %g", (int)seed,
                      (double)budget.lower, want);
            stronger += (double)budget.lower > want * 1.0001;
            cr_expect((double)budget.lower <= want * 1.0001 || budget.multiplier > 0.0);
        }
        ls_planner_problem_free(problem);
    }
    cr_expect(stronger >= 3, "%d", stronger);  // the price on memory counts
}

// To the tick: as many equal tables as ranks cost what one of them does, and so does a single one.
Test(bound, the_root_is_the_optimum_of_equal_tables) {
    static const ls_planner_feature ids = {.pooling = 2.0, .poolings = 1.0, .batch = 16.0};
    for (int ranks = 1; ranks <= 2; ranks++) {
        ls_topology topology;
        cr_assert(ls_topology_preset(&topology, "h100", ranks, ranks) == LS_OK);
        ls_planner_table tables[2] = {make_table("a", 1000, 64, &ids),
                                      make_table("b", 1000, 64, &ids)};
        for (int i = 0; i < 2; i++) {
            tables[i].shardings = 1u << LS_TABLE_WISE;
            tables[i].kernels = 1u << LS_PLANNER_FUSED;
        }
        const ls_planner_options options = {.model = LS_PLANNER_TORCHREC};
        ls_planner_problem *problem;
        ls_planner_result result;
        cr_assert(ls_planner_problem_create(&problem, &topology, tables, ranks, &options) == LS_OK);
        ls_search_budget budget = {.deadline = INFINITY, .deadline_first = INFINITY};
        ls_bound__root(&budget, problem);
        cr_expect(budget.lower == problem->items[0].choices[0].ticks_max);
        cr_assert(ls_planner_solve(&result, problem) == LS_OK && result.proven);
        ls_planner_problem_free(problem);
    }
}

// Tables for device or host memory, each of which nearly fits alone, and both together not: ruled
// out by their sum, without a node.
Test(bound, both_memories_together_are_too_little) {
    static const ls_planner_feature ids = {.pooling = 2.0, .poolings = 1.0, .batch = 16.0};
    const int64_t table_bytes = INT64_C(64) << 20;
    ls_planner_table tables[6];
    const char *names[6] = {"a", "b", "c", "d", "e", "f"};
    for (int i = 0; i < 6; i++) {
        tables[i] = make_table(names[i], table_bytes / 256, 64, &ids);
        tables[i].kernels = 1u << LS_PLANNER_FUSED | 1u << LS_PLANNER_FUSED_UVM;
    }
    for (int enough = 0; enough < 2; enough++) {
        ls_topology topology;
        cr_assert(ls_topology_preset(&topology, "h100", 2, 2) == LS_OK);
        topology.hbm_bytes = topology.ddr_bytes = table_bytes * 3 * (enough ? 11 : 9) / 20;
        const ls_planner_options options = {.nodes_max = 20000};
        ls_planner_problem *problem;
        ls_planner_result result;
        cr_assert(ls_planner_problem_create(&problem, &topology, tables, 6, &options) == LS_OK);
        cr_assert(ls_planner_solve(&result, problem) == LS_OK);
        if (!enough) {
            cr_expect(!result.found && result.proven && result.nodes == 0, "%lld nodes",
                      (long long)result.nodes);
        } else {
            cr_expect(result.nodes > 0);
        }
        ls_planner_problem_free(problem);
    }
}

// Ranks of equal load are not equivalent if their device memory, their host memory (of the rank, or
// of the host) or separated tables differ: c fits beside b alone, and a and b not together.
Test(bound, ranks_that_differ_in_anything_are_tried) {
    static const ls_planner_feature often = {.pooling = 20.0, .poolings = 1.0, .batch = 64.0};
    static const ls_planner_feature seldom = {.pooling = 2.0, .poolings = 1.0, .batch = 64.0};
    static const struct {
        const char *machine;
        int per_host;
        ls_planner_kernel kernel;
        const char *state_of_a, *apart;
        int64_t tenths, c_tenths;  // room, and the size of c, in tenths of a table
    } cases[] = {{"h100", 2, LS_PLANNER_FUSED, "adam", NULL, 33, 15},
                 {"h100", 1, LS_PLANNER_FUSED_UVM, "adam", NULL, 33, 15},
                 {"v100_torchrec", 2, LS_PLANNER_FUSED_UVM, "adam", NULL, 33, 15},
                 {"h100", 2, LS_PLANNER_FUSED, "sgd", "x", 19, 5}};
    const int64_t bytes = INT64_C(64) << 20;
    for (int n = 0; n < 4; n++) {
        ls_topology topology;
        cr_assert(ls_topology_preset(&topology, cases[n].machine, 2, cases[n].per_host) == LS_OK);
        *(cases[n].kernel == LS_PLANNER_FUSED ? &topology.hbm_bytes : &topology.ddr_bytes) =
            bytes * cases[n].tenths / 10;
        ls_planner_table tables[3] = {
            make_table("a", bytes / 256, 64, &often), make_table("b", bytes / 256, 64, &often),
            make_table("c", bytes / 256 * cases[n].c_tenths / 10, 64, &seldom)};
        for (int i = 0; i < 3; i++) {
            tables[i].shardings = 1u << LS_TABLE_WISE;
            tables[i].kernels = 1u << cases[n].kernel;
            tables[i].optimizer = i == 0 ? cases[n].state_of_a : "sgd";
            tables[i].apart = i == 1 ? NULL : cases[n].apart;
        }
        const ls_planner_options options = {.model = LS_PLANNER_TORCHREC, .exact_only = true};
        ls_planner_problem *problem;
        ls_planner_result result;
        cr_assert(ls_planner_problem_create(&problem, &topology, tables, 3, &options) == LS_OK);
        const ls_choice *of_a = &problem->items[0].choices[0];
        const ls_choice *of_b = &problem->items[1].choices[0];
        cr_assert(of_a->work == of_b->work && of_a->work > problem->items[2].choices[0].work);
        cr_assert((of_a->hbm_sum + of_a->ddr_sum > of_b->hbm_sum + of_b->ddr_sum) ==
                  !cases[n].apart);
        cr_assert(ls_planner_solve(&result, problem) == LS_OK);
        cr_expect(result.found && result.proven, "case %d", n);
        ls_planner_problem_free(problem);
    }
}

// A choice is dropped only for one that is as good in time and in both memories, and of its type if
// types have start-ups; of two equal ones one stays.
Test(bound, only_the_worse_choice_is_left_out) {
    static const struct {
        double ms;
        int64_t hbm, ddr;
        int sharding;
        double startup;
        bool first_out, second_out;
    } cases[] = {{1.0, 10, 10, LS_TABLE_WISE, 0.1, false, true},  // equal
                 {1.1, 10, 10, LS_TABLE_WISE, 0.1, false, true},
                 {0.9, 10, 10, LS_TABLE_WISE, 0.1, true, false},
                 {0.9, 11, 10, LS_TABLE_WISE, 0.1, false, false},
                 {0.9, 10, 11, LS_TABLE_WISE, 0.1, false, false},
                 {0.9, 10, 10, LS_COLUMN_WISE, 0.1, false, false},
                 {0.9, 10, 10, LS_COLUMN_WISE, 0.0, true, false}};
    for (size_t n = 0; n < sizeof cases / sizeof *cases; n++) {
        double startup[LS_SHARDING_COUNT] = {0};
        const double ms = 1.0;
        const int64_t bytes = 10;
        ls_choice choices[2] = {{.fit = LS_FIT_RANK,
                                 .sharding = LS_TABLE_WISE,
                                 .shard_count = 1,
                                 .unit_count = 1,
                                 .ms = &ms,
                                 .hbm = &bytes,
                                 .ddr = &bytes}};
        choices[1] = choices[0];
        choices[1].ms = &cases[n].ms;
        choices[1].hbm = &cases[n].hbm;
        choices[1].ddr = &cases[n].ddr;
        choices[1].sharding = cases[n].sharding;
        startup[LS_TABLE_WISE] = cases[n].startup;
        ls_problem__mark_dominated(choices, 2, startup);
        // Of two equal ones either may stay.
        bool equal = n == 0 && choices[0].dominated != choices[1].dominated;
        cr_expect(equal || (choices[0].dominated == cases[n].first_out &&
                            choices[1].dominated == cases[n].second_out),
                  "case %d", (int)n);
    }
}

// A table may take the last byte of a rank, of device memory and of host memory; not one more.
Test(bound, the_last_byte_is_used) {
    static const ls_planner_feature ids = {.pooling = 2.0, .poolings = 1.0, .batch = 16.0};
    static const ls_planner_kernel kernels[] = {LS_PLANNER_FUSED, LS_PLANNER_FUSED_UVM};
    for (int n = 0; n < 4; n++) {
        ls_planner_table table = make_table("a", 10000, 64, &ids);
        table.shardings = 1u << LS_TABLE_WISE;
        table.kernels = 1u << kernels[n / 2];
        ls_topology topology;
        cr_assert(ls_topology_preset(&topology, "h100", 1, 1) == LS_OK);
        const ls_planner_options options = {.exact_only = n % 2 == 1};
        bool found[3];
        for (int more = 1; more >= -1; more--) {  // the first to learn what it takes
            ls_planner_problem *problem;
            ls_planner_result result;
            cr_assert(ls_planner_problem_create(&problem, &topology, &table, 1, &options) == LS_OK);
            cr_assert(ls_planner_solve(&result, problem) == LS_OK);
            found[more + 1] = result.found;
            const ls_planner_shard *shard = &ls_planner_option_at(problem, 0, 0)->shards[0];
            topology.hbm_bytes = shard->hbm_bytes - (n / 2 == 0 && more == 0);
            topology.ddr_bytes = shard->ddr_bytes - (n / 2 == 1 && more == 0);
            ls_planner_problem_free(problem);
        }
        cr_expect(found[2] && found[1] && !found[0], "case %d", n);
    }
}

// ---- Where blocks are put -----------------------------------------------------------------------

// A row block table of a host goes where the host's most loaded rank stays least loaded, not to the
// host of another rank.
Test(place, the_host_whose_most_loaded_rank_is_least) {
    static const ls_planner_feature ids = {.pooling = 2.0, .poolings = 1.0, .batch = 16.0};
    ls_topology topology;
    cr_assert(ls_topology_preset(&topology, "h100", 6, 2) == LS_OK);
    ls_planner_table table = make_table("a", 1000, 64, &ids);
    table.shardings = 1u << LS_TABLE_ROW_WISE;
    const ls_planner_options options = {0};
    ls_planner_problem *problem;
    cr_assert(ls_planner_problem_create(&problem, &topology, &table, 1, &options) == LS_OK);
    const ls_item *item = &problem->items[0];
    const ls_choice *choice = &item->choices[0];
    cr_assert(choice->fit == LS_FIT_HOST && choice->unit_shards == 2 && choice->unit_count == 1);
    static const int64_t loads[][6] = {
        {90, 90, 0, 100, 50, 50}, {50, 50, 90, 90, 0, 100}, {100, 0, 50, 50, 90, 90}};
    static const int want[] = {2, 0, 1};
    ls_state state;
    cr_assert(ls_state__create(&state, problem, problem->arena) == LS_OK);
    for (int n = 0; n < 3; n++) {
        int place = -1;
        for (int r = 0; r < 6; r++) {
            state.load[r] = loads[n][r] * choice->ticks_max;
        }
        cr_assert(ls_search__put_greedy(&state, item, choice, &place));
        cr_expect(place == want[n], "case %d: host %d", n, place);
        ls_state__take_item(&state, item, choice, &place);
    }
    ls_planner_problem_free(problem);
}

// If one-option tables all started on one rank, no move and no swap remains that would unload the
// most loaded rank.
Test(place, no_exchange_is_left) {
    enum { TABLE_COUNT = 11, RANK_COUNT = 3 };
    static const char *const names[TABLE_COUNT] = {"a", "b", "c", "d", "e", "f",
                                                   "g", "h", "i", "j", "k"};
    static ls_planner_feature ids[TABLE_COUNT];
    static ls_planner_table tables[TABLE_COUNT];
    ls_topology topology;
    cr_assert(ls_topology_preset(&topology, "h100", RANK_COUNT, RANK_COUNT) == LS_OK);
    const ls_planner_options options = {0};
    for (uint64_t seed = 0; seed < 10; seed++) {
        for (int i = 0; i < TABLE_COUNT; i++) {
            double pooling = 100.0 + (double)ls_random_below(900, seed, 0, 0, (uint64_t)i);
            ids[i] = (ls_planner_feature){.pooling = pooling, .poolings = 1.0, .batch = 512.0};
            tables[i] = make_table(names[i], 100000, 64, &ids[i]);
            tables[i].shardings = 1u << LS_TABLE_WISE;
            tables[i].kernels = 1u << LS_PLANNER_FUSED;
        }
        ls_planner_problem *problem;
        ls_assignment at;
        ls_state state;
        cr_assert(ls_planner_problem_create(&problem, &topology, tables, TABLE_COUNT, &options) ==
                  LS_OK);
        cr_assert(ls_assignment__create(&at, problem, problem->arena) == LS_OK);
        cr_assert(ls_state__create(&state, problem, problem->arena) == LS_OK);
        for (int i = 0; i < TABLE_COUNT; i++) {
            cr_assert(problem->items[i].choice_count == 1);
            at.choice[i] = at.place[i][0] = 0;
        }
        at.ticks = ls_assignment__evaluate(problem, &at, &state);
        ls_search_budget budget = {.nodes_max = INT64_MAX, .deadline = INFINITY};
        cr_assert(ls_search__improve(&at, problem, &budget, 1, problem->arena) == LS_OK);
        cr_assert(ls_assignment__evaluate(problem, &at, &state) == at.ticks);
        int most = 0;
        for (int r = 1; r < RANK_COUNT; r++) {
            most = state.load[r] > state.load[most] ? r : most;
        }
        for (int a = 0; a < TABLE_COUNT; a++) {
            for (int b = -1; b < TABLE_COUNT && at.place[a][0] == most; b++) {
                for (int to = 0; to < RANK_COUNT; to++) {
                    if (to == most || (b >= 0 && at.place[b][0] != to)) {
                        continue;
                    }
                    int64_t ticks = problem->items[a].choices[0].ticks[0] -
                                    (b >= 0 ? problem->items[b].choices[0].ticks[0] : 0);
                    cr_expect(state.load[most] - ticks >= state.load[most] ||
                                  state.load[to] + ticks >= state.load[most],
                              "seed %d: table %d to rank %d for %d", (int)seed, a, to, b);
                }
            }
        }
        ls_planner_problem_free(problem);
    }
}

// ---- Machines -----------------------------------------------------------------------------------

// The presets equal their data sheets: memory of a GPU, 2 TB of a host's for 8 GPUs, and
// bandwidths.
Test(machines, are_their_data_sheets) {
    static const struct {
        const char *name;
        double hbm_gb, ddr_gb_of_8, hbm_gb_s, ddr_gb_s, link_gb_s, intra_gb_s, inter_gbit_s, cache;
        bool shared;
    } sheets[] = {
        {"v100_torchrec", 32 * 1.073741824, 8 * 128 * 1.073741824, 897 * 1.073741824,
         51 * 1.073741824, 32 * 1.073741824, 600 * 1.073741824, 12.5 * 8 * 1.073741824, 2.5, false},
        {"a100", 80, 2000, 2039, 50, 31.5, 300, 200, 2.5, true},
        {"h100", 80, 2000, 3350, 75, 63, 450, 400, 2.5, true},
        {"h200", 141, 2000, 4800, 75, 63, 450, 400, 2.0, true},
    };
    for (int i = 0; i < 4; i++) {
        ls_topology got;
        cr_assert(ls_topology_preset(&got, sheets[i].name, 16, 0) == LS_OK);
        cr_expect(fabs((double)got.hbm_bytes / 1e9 - sheets[i].hbm_gb) < 1e-6, "%s", got.name);
        cr_expect(fabs((double)got.ddr_bytes * 8 / 1e9 - sheets[i].ddr_gb_of_8) < 1e-6, "%s",
                  got.name);
        // Bandwidths are bytes a millisecond.
        cr_expect(fabs(got.hbm_bandwidth / 1e6 - sheets[i].hbm_gb_s) < 1e-6, "%s", got.name);
        cr_expect(fabs(got.ddr_bandwidth / 1e6 - sheets[i].ddr_gb_s) < 1e-6, "%s", got.name);
        cr_expect(fabs(got.link_bandwidth / 1e6 - sheets[i].link_gb_s) < 1e-6, "%s", got.name);
        cr_expect(fabs(got.intra_bandwidth / 1e6 - sheets[i].intra_gb_s) < 1e-6, "%s", got.name);
        cr_expect(fabs(got.inter_bandwidth / 1e6 * 8 - sheets[i].inter_gbit_s) < 1e-6, "%s",
                  got.name);
        cr_expect(got.cache_speedup == sheets[i].cache && got.ddr_shared == sheets[i].shared);
        cr_expect(got.ranks == 16 && got.ranks_per_host == 8);
        cr_expect(fabs(got.intra_latency_us - 0.6) < 1e-9 &&
                  fabs(got.inter_latency_us - 2.7) < 1e-9 && fabs(got.launch_us - 6.6) < 1e-9);
    }
    cr_expect(ls_topology_preset_name(4) == NULL);
}
