// The search against exhaustive enumeration: every choice of every table in every place, for random
// small problems with every kind of constraint. It shares only the options and their costs with the
// planner; not items, ticks, bounds, symmetries or packing.
#include <criterion/criterion.h>
#include <math.h>

#include "planner/problem.h"
#include "tests/planner/small.h"

#define RANKS_MAX 8
#define STEPS_MAX 4000000  // then a problem is left undecided
#define CLOSE     1e-9     // relative; ticks are finer

typedef struct try_all {
    const instance *in;
    const ls_planner_problem *problem;
    double limit;  // ms: plans of this cost or more do not matter
    double load[RANKS_MAX];
    int64_t hbm[RANKS_MAX], ddr[RANKS_MAX];  // ddr: by pool
    int uses[LS_SHARDING_COUNT];
    const ls_planner_option *option[TABLES];  // NULL: not placed
    int rank[TABLES][16];                     // of each shard
    double rest_ms[TABLES + 1];               // least of the tables from here on, over all ranks
    int64_t rest_hbm[TABLES + 1];
    int64_t steps;
    bool found;
} try_all;

static double startup(const try_all *t) {
    double ms = 0.0;
    for (int s = 0; s < LS_SHARDING_COUNT; s++) {
        ms += t->uses[s] ? t->problem->startup_ms[s] : 0.0;
    }
    return ms;
}

static int pool_of(const ls_topology *topology, int rank) {
    return topology->ddr_shared ? rank / topology->ranks_per_host : rank;
}

static bool may_lie(const ls_planner_table *table, int rank) {
    bool listed = table->rank_count == 0;
    for (int i = 0; i < table->rank_count; i++) {
        listed = listed || table->ranks[i] == rank;
    }
    for (int i = 0; i < table->forbidden_count; i++) {
        listed = listed && table->forbidden[i] != rank;
    }
    return listed;
}

// Whether the placement so far is within memory and the constraints of table `index` hold beside
// the placed tables. From the input only.
static bool allowed(const try_all *t, int index) {
    const ls_topology *topology = &t->in->topology;
    const ls_planner_table *table = &t->in->tables[index];
    const ls_planner_option *option = t->option[index];
    for (int r = 0; r < topology->ranks; r++) {
        int64_t room = topology->ddr_bytes;
        room *= topology->ddr_shared ? topology->ranks_per_host : 1;
        if (t->hbm[r] > topology->hbm_bytes || t->ddr[pool_of(topology, r)] > room) {
            return false;
        }
    }
    for (int k = 0; k < option->shard_count; k++) {
        bool given = table->layout && option->pinned;
        if (!given && !may_lie(table, t->rank[index][k])) {
            return false;
        }
    }
    for (int other = 0; other < t->in->count; other++) {
        const ls_planner_table *with = &t->in->tables[other];
        if (other == index || !t->option[other]) {
            continue;
        }
        bool shared = false;
        for (int k = 0; k < option->shard_count; k++) {
            for (int j = 0; j < t->option[other]->shard_count; j++) {
                shared = shared || t->rank[index][k] == t->rank[other][j];
            }
        }
        if (table->apart && with->apart && strcmp(table->apart, with->apart) == 0 && shared) {
            return false;
        }
        if (table->together && with->together && strcmp(table->together, with->together) == 0) {
            bool same = option->sharding == t->option[other]->sharding &&
                        option->shard_count == t->option[other]->shard_count;
            for (int k = 0; same && k < option->shard_count; k++) {
                same = t->rank[index][k] == t->rank[other][k];
            }
            if (!same) {
                return false;
            }
        }
    }
    return true;
}

static void add(try_all *t, int index, int shard, int sign) {
    const ls_planner_shard *of = &t->option[index]->shards[shard];
    int rank = t->rank[index][shard];
    t->load[rank] += sign * ls_planner_cost_total(&of->cost);
    t->hbm[rank] += sign * of->hbm_bytes;
    t->ddr[pool_of(&t->in->topology, rank)] += sign * of->ddr_bytes;
}

static bool worth(const try_all *t, int next) {
    double most = 0.0;
    double sum = t->rest_ms[next];
    int64_t hbm = t->rest_hbm[next];
    int ranks = t->in->topology.ranks;
    for (int r = 0; r < ranks; r++) {
        most = fmax(most, t->load[r]);
        sum += t->load[r];
        hbm += t->hbm[r];
    }
    most = fmax(most, sum / ranks * (1.0 - CLOSE)) + startup(t);
    return most < t->limit && hbm <= t->in->topology.hbm_bytes * ranks;
}

static void place_table(try_all *t, int index);

static bool done(const try_all *t) {
    return t->found || t->steps > STEPS_MAX;
}

// Shard `shard` of the option at `index`, and then all after it, in every place.
static void place_shard(try_all *t, int index, int shard) {
    const ls_planner_option *option = t->option[index];
    const ls_topology *topology = &t->in->topology;
    t->steps++;
    if (shard == option->shard_count) {
        if (allowed(t, index) && worth(t, index + 1)) {
            place_table(t, index + 1);
        }
        return;
    }
    int group = topology->ranks_per_host;
    for (int rank = 0; rank < topology->ranks && !done(t); rank++) {
        bool here = true;
        if (option->pinned) {
            here = rank == option->shards[shard].block.rank;
        } else if (option->sharding == LS_DATA_PARALLEL || option->sharding == LS_ROW_WISE) {
            here = rank == shard;
        } else if (option->sharding == LS_TABLE_ROW_WISE || option->sharding == LS_GRID) {
            // One shard of a block on each rank of a host.
            int within = shard % group;
            here = rank % group == within &&
                   (within == 0 || rank / group == t->rank[index][shard - 1] / group);
        } else if (option->sharding == LS_TABLE_COLUMN_WISE) {
            here = shard == 0 || rank / group == t->rank[index][0] / group;
        }
        if (!here) {
            continue;
        }
        double before = t->load[rank];
        t->rank[index][shard] = rank;
        add(t, index, shard, 1);
        if (t->load[rank] + startup(t) < t->limit && t->hbm[rank] <= topology->hbm_bytes) {
            place_shard(t, index, shard + 1);
        }
        add(t, index, shard, -1);
        t->load[rank] = before;
    }
}

static void place_table(try_all *t, int index) {
    if (index == t->in->count) {
        t->found = true;
        return;
    }
    int options = ls_planner_option_count(t->problem, index);
    for (int o = 0; o < options && !done(t); o++) {
        const ls_planner_option *option = ls_planner_option_at(t->problem, index, o);
        // Row wise on the ranks that a table may lie on stands by itself.
        bool alone = !t->in->tables[index].together && !t->in->tables[index].apart;
        if (option->pinned && !alone) {
            continue;
        }
        t->option[index] = option;
        t->uses[option->sharding]++;
        place_shard(t, index, 0);
        t->uses[option->sharding]--;
        t->option[index] = NULL;
    }
}

typedef enum answer { NO, YES, UNDECIDED } answer;

// Whether there is any plan that costs less than `limit`.
static answer any_below(const instance *in, const ls_planner_problem *problem, double limit) {
    try_all t = {.in = in, .problem = problem, .limit = limit};
    for (int i = in->count - 1; i >= 0; i--) {
        double least = INFINITY;
        int64_t least_hbm = INT64_MAX;
        for (int o = 0; o < ls_planner_option_count(problem, i); o++) {
            const ls_planner_option *option = ls_planner_option_at(problem, i, o);
            double sum = 0.0;
            int64_t hbm = 0;
            for (int k = 0; k < option->shard_count; k++) {
                sum += ls_planner_cost_total(&option->shards[k].cost);
                hbm += option->shards[k].hbm_bytes;
            }
            least = fmin(least, sum);
            least_hbm = hbm < least_hbm ? hbm : least_hbm;
        }
        t.rest_ms[i] = t.rest_ms[i + 1] + least;
        t.rest_hbm[i] = t.rest_hbm[i + 1] + least_hbm;
    }
    place_table(&t, 0);
    return t.found ? YES : t.steps > STEPS_MAX ? UNDECIDED : NO;
}

// The found plan has the reported cost and violates nothing, computed from its blocks.
static void expect_sound(const instance *in, const ls_planner_problem *problem,
                         const ls_planner_result *result, uint64_t seed) {
    try_all t = {.in = in, .problem = problem};
    for (int i = 0; i < in->count; i++) {
        t.option[i] = result->chosen[i];
        t.uses[t.option[i]->sharding]++;
        for (int k = 0; k < t.option[i]->shard_count; k++) {
            t.rank[i][k] = result->shards[i][k].block.rank;
            add(&t, i, k, 1);
        }
    }
    double most = 0.0;
    for (int i = 0; i < in->count; i++) {
        cr_expect(allowed(&t, i), "seed %d: table %d breaks a limit", (int)seed, i);
    }
    for (int r = 0; r < in->topology.ranks; r++) {
        most = fmax(most, t.load[r]);
    }
    most += startup(&t);
    cr_expect(fabs(most - result->ms) <= CLOSE * most, "seed %d: %.12g, and it costs %.12g",
              (int)seed, result->ms, most);
}

// Solves, and checks the claims: the plan, "proven", and the bound. *ms: the known optimum, or 0.
// Returns whether it was decided.
static bool judge(instance *in, uint64_t seed, int64_t nodes, bool exact_only, double *optimum) {
    in->options.nodes_max = nodes;
    in->options.exact_only = exact_only;
    ls_planner_problem *problem;
    ls_planner_result result;
    cr_assert(ls_planner_problem_create(&problem, &in->topology, in->tables, in->count,
                                        &in->options) == LS_OK,
              "seed %d: %s", (int)seed, ls_error_last()->text);
    cr_assert(ls_planner_solve(&result, problem) == LS_OK);
    if (result.found) {
        expect_sound(in, problem, &result, seed);
    }
    answer below = NO;
    if (result.proven && *optimum == 0.0) {
        below = any_below(in, problem, result.found ? result.ms * (1.0 - CLOSE) : INFINITY);
        cr_expect(below != YES, "seed %d, %d nodes: said to be %s, and there is a better plan",
                  (int)seed, (int)nodes, result.found ? "optimal" : "impossible");
        *optimum = below != NO ? 0.0 : result.found ? result.ms : INFINITY;
    }
    if (*optimum > 0.0) {
        double ms = result.found ? result.ms : INFINITY;
        cr_expect(!result.proven || fabs(ms - *optimum) <= CLOSE * *optimum || ms == *optimum,
                  "seed %d, %d nodes: proven %.12g, and it is %.12g", (int)seed, (int)nodes, ms,
                  *optimum);
        cr_expect(result.lower_bound_ms <= *optimum * (1.0 + CLOSE),
                  "seed %d: bound %.12g, and it is %.12g", (int)seed, result.lower_bound_ms,
                  *optimum);
    }
    ls_planner_problem_free(problem);
    return result.proven && below != UNDECIDED;
}

// Claims of optimality and infeasibility are true, and no bound exceeds the optimum: with a full
// search with and without an initial plan, and with an immediate stop.
Test(exhaustive, nothing_is_better_than_what_is_proven) {
    const int count = 300;
    int decided = 0;
    int impossible = 0;
    for (int n = 1; n <= count; n++) {
        static instance in;
        make_instance(&in, (uint64_t)n);
        double optimum = 0.0;
        bool whole = judge(&in, (uint64_t)n, 2000000, true, &optimum);
        (void)judge(&in, (uint64_t)n, 2000000, false, &optimum);
        (void)judge(&in, (uint64_t)n, 1, false, &optimum);
        decided += whole;
        impossible += isinf(optimum);
    }
    // Instances of both kinds, or the test proves little.
    cr_expect(decided >= count * 9 / 10 && impossible >= 10, "%d decided, %d impossible", decided,
              impossible);
}
