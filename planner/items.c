// Converts tables and options to items and choices: tables that are kept together become one item,
// and dominated choices are marked.
#include "planner/problem.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static ls_fit fit_of(ls_sharding sharding) {
    ls_sharding_traits of = ls_sharding_traits_of(sharding);
    if (sharding == LS_DATA_PARALLEL || of.rows == LS_OVER_WORLD) {
        return LS_FIT_ALL;
    }
    if (of.rows == LS_OVER_HOST) {
        return LS_FIT_HOST;
    }
    return of.one_host ? LS_FIT_HOST_RANK : LS_FIT_RANK;
}

static void summarize(ls_choice *choice) {
    choice->hbm_sum = choice->ddr_sum = choice->hbm_max = 0;
    choice->equal_units = true;
    for (int i = 0; i < choice->shard_count; i++) {
        choice->hbm_sum += choice->hbm[i];
        choice->ddr_sum += choice->ddr[i];
        choice->hbm_max = choice->hbm[i] > choice->hbm_max ? choice->hbm[i] : choice->hbm_max;
        int first = i % choice->unit_shards;
        choice->equal_units = choice->equal_units && choice->ms[i] == choice->ms[first] &&
                              choice->hbm[i] == choice->hbm[first] &&
                              choice->ddr[i] == choice->ddr[first];
    }
}

static ls_fit fit_of_option(const ls_planner_option *option) {
    return option->pinned ? LS_FIT_ALL : fit_of(option->sharding);
}

static int shards_of_choice(const ls_planner_option *option, int ranks) {
    return option->pinned ? ranks : option->shard_count;
}

// Sums over an option (other NULL), or over a choice of the item so far and an option.
static int make_choice(ls_choice *out, const ls_choice *so_far, int members,
                       const ls_planner_option *option, int ranks, ls_arena *arena) {
    int count = shards_of_choice(option, ranks);
    size_t n = (size_t)count;
    double *ms = ls_arena_alloc(arena, n, sizeof(*ms));
    int64_t *hbm = ls_arena_alloc(arena, 2 * n, sizeof(*hbm));
    const ls_planner_option **options =
        ls_arena_alloc(arena, (size_t)members + 1, sizeof(*options));
    LS_TRY_MEMORY(ms != NULL && hbm != NULL && options != NULL);
    int64_t *ddr = hbm + n;
    for (size_t i = 0; so_far && i < n; i++) {
        ms[i] = so_far->ms[i];
        hbm[i] = so_far->hbm[i];
        ddr[i] = so_far->ddr[i];
    }
    for (int k = 0; k < option->shard_count; k++) {
        const ls_planner_shard *shard = &option->shards[k];
        int i = option->pinned ? shard->block.rank : k;
        ms[i] += ls_planner_cost_total(&shard->cost);
        hbm[i] += shard->hbm_bytes;
        ddr[i] += shard->ddr_bytes;
    }
    for (int i = 0; i < members; i++) {
        options[i] = so_far->options[i];
    }
    options[members] = option;
    *out = (ls_choice){.fit = fit_of_option(option),
                       .sharding = (int)option->sharding,
                       .pinned = option->pinned,
                       .shard_count = count,
                       .ms = ms,
                       .hbm = hbm,
                       .ddr = ddr,
                       .options = options};
    out->unit_shards = out->shard_count;
    if (out->fit != LS_FIT_ALL) {
        out->unit_shards = out->fit == LS_FIT_HOST ? out->shard_count / option->column_blocks : 1;
    }
    out->unit_count = out->shard_count / out->unit_shards;
    summarize(out);
    return LS_OK;
}

static bool at_least_as_good(const ls_choice *a, const ls_choice *b) {
    if (a->fit != b->fit || a->shard_count != b->shard_count || a->unit_count != b->unit_count) {
        return false;
    }
    for (int i = 0; i < a->shard_count; i++) {
        if (a->ms[i] > b->ms[i] || a->hbm[i] > b->hbm[i] || a->ddr[i] > b->ddr[i]) {
            return false;
        }
    }
    return true;
}

void ls_problem__mark_dominated(ls_choice *choices, int count, const double *startup) {
    for (int i = 0; i < count; i++) {
        for (int j = 0; j < count && !choices[i].dominated; j++) {
            // Another type may already be paid for or not, so types are compared only where none
            // is.
            bool same =
                choices[i].sharding == choices[j].sharding ||
                (startup[choices[i].sharding] == 0.0 && startup[choices[j].sharding] == 0.0);
            if (i != j && same && !choices[j].dominated &&
                at_least_as_good(&choices[j], &choices[i])) {
                choices[i].dominated = true;
            }
        }
    }
}

// ---- Items --------------------------------------------------------------------------------------

static bool place_allowed(const ls_planner_problem *problem, const ls_item *item,
                          const ls_planner_option *option) {
    if (option->pinned) {  // its ranks are those that the table may use
        return item->table_count == 1 && !problem->tables[item->tables[0]].apart;
    }
    if (!item->allowed) {
        return true;
    }
    ls_fit fit = fit_of(option->sharding);
    int most = 0;  // allowed ranks of the best host
    int total = 0;
    for (int host = 0; host < problem->hosts; host++) {
        int here = 0;
        for (int i = 0; i < problem->group; i++) {
            here += item->allowed[host * problem->group + i];
        }
        most = here > most ? here : most;
        total += here;
    }
    if (fit == LS_FIT_ALL) {
        return total == problem->ranks;
    }
    return fit == LS_FIT_HOST ? most == problem->group : total > 0;
}

// Choices of the item's first `members` tables and table `table` together.
static int extend(ls_planner_problem *problem, ls_item *item, int members, int table) {
    int options = problem->option_counts[table];
    int before = members ? item->choice_count : 1;
    ls_choice *choices =
        ls_arena_alloc(problem->arena, (size_t)before * (size_t)options, sizeof(*choices));
    LS_TRY_MEMORY(choices != NULL);
    int count = 0;
    for (int b = 0; b < before; b++) {
        const ls_choice *so_far = members ? &item->choices[b] : NULL;
        for (int o = 0; o < options; o++) {
            const ls_planner_option *option = &problem->table_options[table][o];
            bool alike = !so_far || (so_far->sharding == (int)option->sharding &&
                                     so_far->shard_count == option->shard_count);
            if (alike && place_allowed(problem, item, option)) {
                LS_TRY(make_choice(&choices[count], so_far, members, option, problem->ranks,
                                   problem->arena));
                count++;
            }
        }
    }
    if (item->table_count > 1) {
        ls_problem__mark_dominated(choices, count, problem->startup_ms);
        int kept = 0;
        for (int i = 0; i < count; i++) {
            if (!choices[i].dominated) {
                choices[kept++] = choices[i];
            }
        }
        count = kept;
    }
    if (count == 0) {
        return LS_FAIL(LS_ERR_NOT_FOUND, "plan: table %s: no sharding satisfies its ranks%s%s",
                       problem->tables[table].name,
                       members ? " and matches the tables kept together with it: " : "",
                       members ? problem->tables[table].together : "");
    }
    if (count > LS_PLANNER_CHOICES_MAX) {
        return LS_FAIL(LS_ERR_LIMIT,
                       "plan: the tables kept together as %s have more than %d choices",
                       problem->tables[table].together, LS_PLANNER_CHOICES_MAX);
    }
    item->choices = choices;
    item->choice_count = count;
    return LS_OK;
}

static int set_allowed(ls_planner_problem *problem, ls_item *item) {
    uint8_t *allowed = NULL;
    for (int m = 0; m < item->table_count; m++) {
        const ls_planner_table *table = &problem->tables[item->tables[m]];
        if (!table->rank_count && !table->forbidden_count) {
            continue;
        }
        uint8_t *mine = ls_arena_alloc(problem->arena, (size_t)problem->ranks, 1);
        LS_TRY_MEMORY(mine != NULL);
        memset(mine, table->rank_count ? 0 : 1, (size_t)problem->ranks);
        for (int i = 0; i < table->rank_count; i++) {
            mine[table->ranks[i]] = 1;
        }
        for (int i = 0; i < table->forbidden_count; i++) {
            mine[table->forbidden[i]] = 0;
        }
        for (int r = 0; allowed && r < problem->ranks; r++) {
            mine[r] = mine[r] && allowed[r];
        }
        allowed = mine;
    }
    item->allowed = allowed;
    return LS_OK;
}

static int group_number(const char **groups, int *count, const char *name) {
    for (int i = 0; i < *count; i++) {
        if (strcmp(groups[i], name) == 0) {
            return i;
        }
    }
    if (*count == LS_PLANNER_APART_MAX) {
        return -1;
    }
    groups[*count] = name;
    return (*count)++;
}

static int set_apart(ls_planner_problem *problem) {
    const char *groups[LS_PLANNER_APART_MAX];
    int count = 0;
    for (int i = 0; i < problem->item_count; i++) {
        ls_item *item = &problem->items[i];
        for (int m = 0; m < item->table_count; m++) {
            const ls_planner_table *table = &problem->tables[item->tables[m]];
            if (!table->apart) {
                continue;
            }
            int group = group_number(groups, &count, table->apart);
            if (group < 0) {
                return LS_FAIL(LS_ERR_LIMIT, "plan: more than %d groups of tables are kept apart",
                               LS_PLANNER_APART_MAX);
            }
            if (item->apart & (UINT64_C(1) << group)) {
                return LS_FAIL(
                    LS_ERR_INVALID,
                    "plan: table %s must be both with and apart from another one (%s, %s)",
                    table->name, table->together, table->apart);
            }
            item->apart |= UINT64_C(1) << group;
            problem->any_apart = true;
        }
    }
    return LS_OK;
}

#define VALUES_MAX 16  // different values distinguished in one refinement

// Splits classes so that ranks of different value are in different ones. renamed [VALUES_MAX *
// ranks]
static void refine(ls_planner_problem *problem, const uint8_t *value, int *renamed) {
    int classes = 0;
    memset(renamed, -1, VALUES_MAX * (size_t)problem->ranks * sizeof(int));
    for (int r = 0; r < problem->ranks; r++) {
        int *name = &renamed[VALUES_MAX * problem->rank_class[r] + value[r]];
        *name = *name < 0 ? classes++ : *name;
        problem->rank_class[r] = *name;
    }
}

// Numbers the different shards of a choice that has one on every rank, or on every rank of a host.
// False: more than VALUES_MAX of them.
static bool shard_values(uint8_t *value, const ls_choice *choice, int ranks) {
    int seen[VALUES_MAX];
    int count = 0;
    for (int r = 0; r < ranks; r++) {
        int shard = r % choice->unit_shards;
        int v = 0;
        while (v < count && (choice->ticks[seen[v]] != choice->ticks[shard] ||
                             choice->hbm[seen[v]] != choice->hbm[shard] ||
                             choice->ddr[seen[v]] != choice->ddr[shard])) {
            v++;
        }
        if (v == VALUES_MAX) {
            return false;
        }
        if (v == count) {
            seen[count++] = shard;
        }
        value[r] = (uint8_t)v;
    }
    return true;
}

// Ranks are of one class if exchanging them changes nothing: every table may use both or neither,
// and shards on all ranks or on a whole host put the same load on both.
static int set_rank_classes(ls_planner_problem *problem) {
    size_t ranks = (size_t)problem->ranks;
    problem->rank_class = ls_arena_alloc(problem->arena, ranks, sizeof(int));
    int *renamed = ls_arena_alloc(problem->arena, VALUES_MAX * ranks, sizeof(int));
    uint8_t *value = ls_arena_alloc(problem->arena, ranks, 1);
    LS_TRY_MEMORY(problem->rank_class != NULL && renamed != NULL && value != NULL);
    bool alike = true;
    for (int i = 0; i < problem->item_count && alike; i++) {
        const ls_item *item = &problem->items[i];
        if (item->allowed) {
            refine(problem, item->allowed, renamed);
        }
        for (int c = 0; c < item->choice_count && alike; c++) {
            const ls_choice *choice = &item->choices[c];
            if (choice->dominated || (choice->fit != LS_FIT_ALL && choice->fit != LS_FIT_HOST)) {
                continue;
            }
            bool even = choice->equal_units || choice->fit == LS_FIT_ALL;
            alike = even && shard_values(value, choice, problem->ranks);
            bool flat = true;
            for (int r = 1; r < problem->ranks && alike; r++) {
                flat = flat && value[r] == 0;
            }
            if (alike && !flat) {
                refine(problem, value, renamed);
            }
        }
    }
    for (int r = 0; r < problem->ranks && !alike; r++) {
        problem->rank_class[r] = r;
    }
    return LS_OK;
}

// A choice with a shard larger than any rank's memory fits nowhere.
static void mark_too_large(const ls_planner_problem *problem, ls_item *item) {
    for (int c = 0; c < item->choice_count; c++) {
        ls_choice *choice = &item->choices[c];
        int64_t pool = 0;
        for (int k = 0; k < choice->shard_count; k++) {
            pool = choice->ddr[k] > pool ? choice->ddr[k] : pool;
        }
        choice->too_large = choice->hbm_max > problem->hbm_capacity || pool > problem->ddr_capacity;
        choice->dominated = choice->dominated || choice->too_large;
    }
}

static int make_item(ls_planner_problem *problem, ls_item *item, int first) {
    const char *together = problem->tables[first].together;
    int count = 1;
    for (int i = first + 1; together && i < problem->table_count; i++) {
        const char *other = problem->tables[i].together;
        count += other && strcmp(other, together) == 0;
    }
    int *members = ls_arena_alloc(problem->arena, (size_t)count, sizeof(*members));
    LS_TRY_MEMORY(members != NULL);
    members[item->table_count++] = first;
    for (int i = first + 1; item->table_count < count; i++) {
        const char *other = problem->tables[i].together;
        if (other && strcmp(other, together) == 0) {
            members[item->table_count++] = i;
        }
    }
    item->tables = members;
    LS_TRY(set_allowed(problem, item));
    for (int m = 0; m < item->table_count; m++) {
        LS_TRY(extend(problem, item, m, members[m]));
    }
    mark_too_large(problem, item);
    ls_problem__mark_dominated(item->choices, item->choice_count, problem->startup_ms);
    return LS_OK;
}

static bool comes_later(const ls_planner_problem *problem, int table) {
    const char *together = problem->tables[table].together;
    for (int i = 0; together && i < table; i++) {
        const char *other = problem->tables[i].together;
        if (other && strcmp(other, together) == 0) {
            return true;
        }
    }
    return false;
}

// Chooses the tick and counts every cost in it.
static int set_ticks(ls_planner_problem *problem) {
    double total = 0.0;
    for (int s = 0; s < LS_SHARDING_COUNT; s++) {
        total += problem->startup_ms[s];
    }
    for (int i = 0; i < problem->item_count; i++) {
        double most = 0.0;
        for (int c = 0; c < problem->items[i].choice_count; c++) {
            const ls_choice *choice = &problem->items[i].choices[c];
            double sum = 0.0;
            for (int k = 0; k < choice->shard_count; k++) {
                sum += choice->ms[k];
            }
            most = fmax(most, sum);
        }
        total += most;
    }
    LS_ASSERT(isfinite(total));
    int exponent;
    (void)frexp(total, &exponent);
    problem->ticks_per_ms = ldexp(1.0, 60 - exponent > 100 ? 100 : 60 - exponent);
    for (int s = 0; s < LS_SHARDING_COUNT; s++) {
        problem->startup[s] = (int64_t)(problem->startup_ms[s] * problem->ticks_per_ms);
    }
    for (int i = 0; i < problem->item_count; i++) {
        for (int c = 0; c < problem->items[i].choice_count; c++) {
            ls_choice *choice = &problem->items[i].choices[c];
            int64_t *ticks =
                ls_arena_alloc(problem->arena, (size_t)choice->shard_count, sizeof(*ticks));
            LS_TRY_MEMORY(ticks != NULL);
            for (int k = 0; k < choice->shard_count; k++) {
                ticks[k] = (int64_t)(choice->ms[k] * problem->ticks_per_ms);
                choice->work += ticks[k];
                choice->ticks_max = ticks[k] > choice->ticks_max ? ticks[k] : choice->ticks_max;
            }
            choice->ticks = ticks;
        }
    }
    return LS_OK;
}

int ls_problem__items(ls_planner_problem *problem) {
    problem->items =
        ls_arena_alloc(problem->arena, (size_t)problem->table_count, sizeof(*problem->items));
    LS_TRY_MEMORY(problem->items != NULL);
    for (int i = 0; i < problem->table_count; i++) {
        if (!comes_later(problem, i)) {
            LS_TRY(ls_problem__in_time(problem, problem->table_count));
            LS_TRY(make_item(problem, &problem->items[problem->item_count], i));
            problem->item_count++;
        }
    }
    LS_TRY(set_ticks(problem));
    LS_TRY(set_apart(problem));
    return set_rank_classes(problem);
}
