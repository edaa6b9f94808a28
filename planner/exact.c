// The exact search: depth first over items, choices and places, cut off by lower bounds, with ranks
// that are alike tried once. Visits the same nodes on every machine unless a deadline stops it.
#include "base/compare.h"
#include "planner/problem.h"

#include <stdlib.h>
#include <string.h>

#define UNITS_MAX 3000  // the search recurses once per unit placed

typedef struct search {
    const ls_planner_problem *problem;
    ls_search_budget *budget;
    ls_assignment *best;
    ls_assignment now;
    ls_state state;
    int *order;             // [items] in which they are placed
    int64_t *rest_work;     // [items + 1] least work of the items from here on
    double *rest_priced;    // [items + 1] the same with the price of memory
    int64_t *rest_hbm;      // [items + 1] least device memory
    int64_t *rest_ddr;      //
    int64_t *rest_largest;  // [items + 1] largest shard that some item cannot avoid
    int **choice_order;     // [items][choices] by ascending work, without the dominated
    int *choice_counts;
    int64_t *sorted;  // [ranks] scratch
    bool stopped;
} search;

static bool place_item(search *s, int depth);

static int compare_ticks(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a;
    int64_t y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

// Whether no completion of the present placement can be better than the best plan.
static bool hopeless(search *s, int depth) {
    const ls_planner_problem *problem = s->problem;
    int ranks = problem->ranks;
    int64_t hbm = 0;
    for (int r = 0; r < ranks; r++) {
        s->sorted[r] = s->state.load[r];
        hbm += problem->hbm_capacity - s->state.hbm[r];
    }
    int64_t ddr = 0;
    for (int p = 0; p < problem->pools; p++) {
        ddr += problem->ddr_capacity - s->state.ddr[p];
    }
    if (s->rest_hbm[depth] > hbm || s->rest_ddr[depth] > ddr) {
        return true;
    }
    qsort(s->sorted, (size_t)ranks, sizeof(*s->sorted), compare_ticks);
    int64_t work = s->rest_work[depth];
    double priced = s->rest_priced[depth] - s->budget->multiplier * (double)hbm;
    if (priced > (double)work) {
        work = (int64_t)(priced * (1.0 - 1e-12));
    }
    int64_t level = ls_bound__level(s->sorted, ranks, work);
    int64_t largest = s->sorted[0] + s->rest_largest[depth];
    level = largest > level ? largest : level;
    return s->best->ticks != LS_TICKS_NONE &&
           level + ls_state__startup(&s->state) >= s->best->ticks;
}

static bool same_rank(const search *s, int a, int b) {
    const ls_state *state = &s->state;
    bool pool = s->problem->topology.ddr_shared || state->ddr[a] == state->ddr[b];
    return s->problem->rank_class[a] == s->problem->rank_class[b] &&
           state->load[a] == state->load[b] && state->hbm[a] == state->hbm[b] &&
           state->apart[a] == state->apart[b] && pool;
}

static bool same_host(const search *s, int a, int b) {
    int group = s->problem->group;
    if (s->problem->topology.ddr_shared && s->state.ddr[a] != s->state.ddr[b]) {
        return false;
    }
    for (int i = 0; i < group; i++) {
        if (!same_rank(s, a * group + i, b * group + i)) {
            return false;
        }
    }
    return true;
}

// Whether an earlier host, or an earlier rank of its host, is in exactly the state of this one:
// then what follows from here follows from there.
static bool repeated_host(const search *s, int host) {
    for (int earlier = 0; earlier < host; earlier++) {
        if (same_host(s, earlier, host)) {
            return true;
        }
    }
    return false;
}

static bool repeated_rank(const search *s, int rank) {
    int group = s->problem->group;
    for (int earlier = rank / group * group; earlier < rank; earlier++) {
        if (same_rank(s, earlier, rank)) {
            return true;
        }
    }
    return false;
}

static bool place_unit(search *s, int depth, const ls_choice *choice, int unit);

static bool try_place(search *s, int depth, const ls_choice *choice, int unit, int place) {
    int index = s->order[depth];
    const ls_item *item = &s->problem->items[index];
    if (ls_search__over(s->budget, s->best->ticks)) {
        s->stopped = true;
        return false;
    }
    ls_search__count(s->budget, 1, s->problem->ranks);
    if (!ls_state__fits(&s->state, item, choice, unit, place)) {
        return true;
    }
    s->now.place[index][unit] = place;
    ls_state__put(&s->state, choice, unit, place);
    bool on = place_unit(s, depth, choice, unit + 1);
    ls_state__take(&s->state, choice, unit, place);
    return on;
}

// Places unit `unit` of the item at `depth` and all after it. False: the search is to stop.
static bool place_unit(search *s, int depth, const ls_choice *choice, int unit) {
    const ls_planner_problem *problem = s->problem;
    int index = s->order[depth];
    const ls_item *item = &problem->items[index];
    if (unit == choice->unit_count) {
        ls_state__mark(&s->state, item, choice, s->now.place[index], true);
        bool on = hopeless(s, depth + 1) || place_item(s, depth + 1);
        ls_state__mark(&s->state, item, choice, s->now.place[index], false);
        return on;
    }
    if (choice->fit == LS_FIT_ALL) {
        return try_place(s, depth, choice, unit, 0);
    }
    const int *places = s->now.place[index];
    bool hosts = choice->fit == LS_FIT_HOST;
    int first = 0;
    int end = hosts ? problem->hosts : problem->ranks;
    if (choice->fit == LS_FIT_HOST_RANK && unit > 0) {
        first = places[0] / problem->group * problem->group;
        end = first + problem->group;
    }
    if (unit > 0 && choice->equal_units && places[unit - 1] > first) {
        first = places[unit - 1];  // equal units in the order of their places
    }
    // Which ranks are alike is asked of each pair on a host, and of pairs of hosts.
    ls_search__count(s->budget, 0, (int64_t)problem->ranks * (problem->group + problem->hosts));
    for (int place = first; place < end; place++) {
        bool repeated = hosts ? repeated_host(s, place)
                              : repeated_rank(s, place) || repeated_host(s, place / problem->group);
        if (repeated) {
            continue;
        }
        if (!hosts && s->best->ticks != LS_TICKS_NONE &&
            s->state.load[place] + choice->ticks[unit] + ls_state__startup(&s->state) >=
                s->best->ticks) {
            ls_search__count(s->budget, 1, 0);
            continue;
        }
        if (!try_place(s, depth, choice, unit, place)) {
            return false;
        }
    }
    return true;
}

static bool place_item(search *s, int depth) {
    const ls_planner_problem *problem = s->problem;
    if (depth == problem->item_count) {
        int64_t ticks = ls_state__max(&s->state) + ls_state__startup(&s->state);
        if (ticks < s->best->ticks) {
            s->now.ticks = ticks;
            ls_assignment__copy(s->best, &s->now, problem);
            ls_search__found(s->budget);
        }
        s->stopped = ls_search__over(s->budget, s->best->ticks);
        return !s->stopped;
    }
    if (ls_search__over(s->budget, s->best->ticks)) {
        s->stopped = true;
        return false;
    }
    int index = s->order[depth];
    for (int c = 0; c < s->choice_counts[index]; c++) {
        s->now.choice[index] = s->choice_order[index][c];
        const ls_choice *choice = &problem->items[index].choices[s->now.choice[index]];
        if (!place_unit(s, depth, choice, 0)) {
            return false;
        }
    }
    return true;
}

// ---- Preparation --------------------------------------------------------------------------------

typedef struct keyed {
    int64_t key, second;
    int index;
} keyed;

static int compare_keys(const void *a, const void *b) {
    const keyed *x = a, *y = b;
    int order = ls_compare(x->key, y->key);
    order = order != 0 ? order : ls_compare(x->second, y->second);
    return order != 0 ? order : ls_compare(x->index, y->index);
}

static int sort_choices(search *s, int index, ls_arena *arena) {
    const ls_item *item = &s->problem->items[index];
    keyed *keys = ls_arena_alloc(arena, (size_t)item->choice_count, sizeof(*keys));
    s->choice_order[index] = ls_arena_alloc(arena, (size_t)item->choice_count, sizeof(int));
    LS_TRY_MEMORY(keys != NULL && s->choice_order[index] != NULL);
    int count = 0;
    for (int c = 0; c < item->choice_count; c++) {
        if (!item->choices[c].dominated) {
            keys[count++] = (keyed){item->choices[c].work, item->choices[c].hbm_sum, c};
        }
    }
    qsort(keys, (size_t)count, sizeof(*keys), compare_keys);
    for (int c = 0; c < count; c++) {
        s->choice_order[index][c] = keys[c].index;
    }
    s->choice_counts[index] = count;
    return LS_OK;
}

static int64_t smaller(int64_t a, int64_t b) {
    return a < b ? a : b;
}

// Sums over what is left at each depth, from the last item to the first.
static void sum_rests(search *s) {
    const ls_planner_problem *problem = s->problem;
    for (int depth = problem->item_count - 1; depth >= 0; depth--) {
        const ls_item *item = &problem->items[s->order[depth]];
        int64_t work = INT64_MAX;
        int64_t hbm = INT64_MAX;
        int64_t ddr = INT64_MAX;
        int64_t largest = INT64_MAX;
        double priced = 0.0;
        for (int c = 0; c < s->choice_counts[s->order[depth]]; c++) {
            const ls_choice *choice = &item->choices[s->choice_order[s->order[depth]][c]];
            work = smaller(work, choice->work);
            hbm = smaller(hbm, choice->hbm_sum);
            ddr = smaller(ddr, choice->ddr_sum);
            largest = smaller(largest, choice->ticks_max);
            double sum = (double)choice->work + s->budget->multiplier * (double)choice->hbm_sum;
            priced = c == 0 || sum < priced ? sum : priced;
        }
        s->rest_work[depth] = s->rest_work[depth + 1] + work;
        s->rest_hbm[depth] = s->rest_hbm[depth + 1] + hbm;
        s->rest_ddr[depth] = s->rest_ddr[depth + 1] + ddr;
        s->rest_priced[depth] = s->rest_priced[depth + 1] + priced;
        s->rest_largest[depth] =
            largest > s->rest_largest[depth + 1] ? largest : s->rest_largest[depth + 1];
    }
}

static int prepare(search *s, ls_arena *arena) {
    const ls_planner_problem *problem = s->problem;
    size_t items = (size_t)problem->item_count;
    s->order = ls_arena_alloc(arena, items, sizeof(int));
    s->rest_work = ls_arena_alloc(arena, items + 1, sizeof(int64_t));
    s->rest_hbm = ls_arena_alloc(arena, items + 1, sizeof(int64_t));
    s->rest_ddr = ls_arena_alloc(arena, items + 1, sizeof(int64_t));
    s->rest_largest = ls_arena_alloc(arena, items + 1, sizeof(int64_t));
    s->rest_priced = ls_arena_alloc(arena, items + 1, sizeof(double));
    s->choice_order = ls_arena_alloc(arena, items, sizeof(int *));
    s->choice_counts = ls_arena_alloc(arena, items, sizeof(int));
    s->sorted = ls_arena_alloc(arena, (size_t)problem->ranks, sizeof(int64_t));
    keyed *keys = ls_arena_alloc(arena, items, sizeof(*keys));
    LS_TRY_MEMORY(s->order != NULL && s->rest_work != NULL && s->rest_hbm != NULL &&
                  s->rest_ddr != NULL && s->rest_largest != NULL && s->rest_priced != NULL &&
                  s->choice_order != NULL && s->choice_counts != NULL && s->sorted != NULL &&
                  keys != NULL);
    LS_TRY(ls_state__create(&s->state, problem, arena));
    LS_TRY(ls_assignment__create(&s->now, problem, arena));
    for (int i = 0; i < problem->item_count; i++) {
        LS_TRY(sort_choices(s, i, arena));
        const ls_item *item = &problem->items[i];
        int64_t largest = INT64_MAX;
        for (int c = 0; c < s->choice_counts[i]; c++) {
            largest = smaller(largest, item->choices[s->choice_order[i][c]].ticks_max);
        }
        // Large ones first: they decide most. Ties in the order of the tables.
        keys[i] = (keyed){-largest, -item->choices[s->choice_order[i][0]].work, i};
    }
    qsort(keys, items, sizeof(*keys), compare_keys);
    for (size_t i = 0; i < items; i++) {
        s->order[i] = keys[i].index;
    }
    sum_rests(s);
    return LS_OK;
}

// Units to place at most, when every item is cut in the way that makes most of them.
static int64_t most_units(const ls_planner_problem *problem) {
    int64_t units = 0;
    for (int i = 0; i < problem->item_count; i++) {
        int most = 0;
        for (int c = 0; c < problem->items[i].choice_count; c++) {
            const ls_choice *choice = &problem->items[i].choices[c];
            most = !choice->dominated && choice->unit_count > most ? choice->unit_count : most;
        }
        units += most;
    }
    return units;
}

bool ls_search__exact_possible(const ls_planner_problem *problem) {
    return most_units(problem) <= UNITS_MAX;
}

int ls_search__exact(ls_assignment *best, bool *complete, const ls_planner_problem *problem,
                     ls_search_budget *budget, ls_arena *arena) {
    LS_ASSERT(ls_search__exact_possible(problem));
    search s = {.problem = problem, .budget = budget, .best = best};
    LS_TRY(prepare(&s, arena));
    place_item(&s, 0);
    *complete = !s.stopped;
    return LS_OK;
}
