// Loads and memory of all ranks while shards are put on them and taken off again; assignments and
// what they cost.
#include "planner/problem.h"

#include <math.h>
#include <string.h>

int ls_state__create(ls_state *state, const ls_planner_problem *problem, ls_arena *arena) {
    size_t ranks = (size_t)problem->ranks;
    *state = (ls_state){.problem = problem};
    state->load = ls_arena_alloc(arena, ranks, sizeof(int64_t));
    state->hbm = ls_arena_alloc(arena, ranks, sizeof(int64_t));
    state->ddr = ls_arena_alloc(arena, (size_t)problem->pools, sizeof(int64_t));
    state->apart = ls_arena_alloc(arena, ranks, sizeof(uint64_t));
    return state->load && state->hbm && state->ddr && state->apart ? LS_OK : LS_ERR_MEMORY;
}

void ls_state__clear(ls_state *state) {
    size_t ranks = (size_t)state->problem->ranks;
    memset(state->load, 0, ranks * sizeof(int64_t));
    memset(state->hbm, 0, ranks * sizeof(int64_t));
    memset(state->ddr, 0, (size_t)state->problem->pools * sizeof(int64_t));
    memset(state->apart, 0, ranks * sizeof(uint64_t));
    memset(state->type_uses, 0, sizeof(state->type_uses));
}

bool ls_state__fits(const ls_state *state, const ls_item *item, const ls_choice *choice, int unit,
                    int place) {
    const ls_planner_problem *problem = state->problem;
    int first = unit * choice->unit_shards;
    for (int shard = first; shard < first + choice->unit_shards; shard++) {
        int rank = ls_problem__rank(problem, choice, shard, place);
        if (state->hbm[rank] > problem->hbm_capacity - choice->hbm[shard]) {
            return false;
        }
        if (!choice->pinned && item->allowed && !item->allowed[rank]) {
            return false;
        }
        if (state->apart[rank] & item->apart) {
            return false;
        }
    }
    if (choice->ddr_sum == 0) {
        return true;
    }
    if (!problem->topology.ddr_shared) {
        for (int shard = first; shard < first + choice->unit_shards; shard++) {
            int rank = ls_problem__rank(problem, choice, shard, place);
            if (state->ddr[rank] > problem->ddr_capacity - choice->ddr[shard]) {
                return false;
            }
        }
        return true;
    }
    int64_t pool_sum = 0;  // shards of a unit come host by host
    int pool = -1;
    for (int shard = first; shard < first + choice->unit_shards; shard++) {
        int here = ls_problem__rank(problem, choice, shard, place) / problem->group;
        pool_sum = (here == pool ? pool_sum : 0) + choice->ddr[shard];
        pool = here;
        if (state->ddr[pool] > problem->ddr_capacity - pool_sum) {
            return false;
        }
    }
    return true;
}

static void add(ls_state *state, const ls_choice *choice, int unit, int place, int sign) {
    const ls_planner_problem *problem = state->problem;
    int first = unit * choice->unit_shards;
    for (int shard = first; shard < first + choice->unit_shards; shard++) {
        int rank = ls_problem__rank(problem, choice, shard, place);
        state->load[rank] += sign * choice->ticks[shard];
        state->hbm[rank] += sign * choice->hbm[shard];
        state->ddr[ls_problem__pool(problem, rank)] += sign * choice->ddr[shard];
    }
    state->type_uses[choice->sharding] += sign;
}

void ls_state__put(ls_state *state, const ls_choice *choice, int unit, int place) {
    add(state, choice, unit, place, 1);
}

void ls_state__take(ls_state *state, const ls_choice *choice, int unit, int place) {
    add(state, choice, unit, place, -1);
}

void ls_state__mark(ls_state *state, const ls_item *item, const ls_choice *choice, const int *place,
                    bool present) {
    if (!item->apart) {
        return;
    }
    for (int shard = 0; shard < choice->shard_count; shard++) {
        int rank =
            ls_problem__rank(state->problem, choice, shard, place[shard / choice->unit_shards]);
        state->apart[rank] =
            present ? state->apart[rank] | item->apart : state->apart[rank] & ~item->apart;
    }
}

void ls_state__put_item(ls_state *state, const ls_item *item, const ls_choice *choice,
                        const int *place) {
    for (int unit = 0; unit < choice->unit_count; unit++) {
        ls_state__put(state, choice, unit, place[unit]);
    }
    ls_state__mark(state, item, choice, place, true);
}

void ls_state__take_item(ls_state *state, const ls_item *item, const ls_choice *choice,
                         const int *place) {
    ls_state__mark(state, item, choice, place, false);
    for (int unit = 0; unit < choice->unit_count; unit++) {
        ls_state__take(state, choice, unit, place[unit]);
    }
}

int64_t ls_state__max(const ls_state *state) {
    int64_t most = 0;
    for (int r = 0; r < state->problem->ranks; r++) {
        most = state->load[r] > most ? state->load[r] : most;
    }
    return most;
}

int64_t ls_state__startup(const ls_state *state) {
    int64_t sum = 0;
    for (int s = 0; s < LS_SHARDING_COUNT; s++) {
        sum += state->type_uses[s] ? state->problem->startup[s] : 0;
    }
    return sum;
}

// ---- Assignments --------------------------------------------------------------------------------

static int most_units(const ls_item *item) {
    int most = 1;
    for (int c = 0; c < item->choice_count; c++) {
        most = item->choices[c].unit_count > most ? item->choices[c].unit_count : most;
    }
    return most;
}

int ls_assignment__create(ls_assignment *out, const ls_planner_problem *problem, ls_arena *arena) {
    size_t items = (size_t)problem->item_count;
    *out = (ls_assignment){.ticks = LS_TICKS_NONE};
    out->choice = ls_arena_alloc(arena, items, sizeof(int));
    out->place = ls_arena_alloc(arena, items, sizeof(int *));
    size_t total = 0;
    for (int i = 0; i < problem->item_count; i++) {
        total += (size_t)most_units(&problem->items[i]);
    }
    int *places = ls_arena_alloc(arena, total, sizeof(int));
    LS_TRY_MEMORY(out->choice != NULL && out->place != NULL && places != NULL);
    for (int i = 0; i < problem->item_count; i++) {
        out->place[i] = places;
        places += most_units(&problem->items[i]);
    }
    return LS_OK;
}

void ls_assignment__copy(ls_assignment *to, const ls_assignment *from,
                         const ls_planner_problem *problem) {
    for (int i = 0; i < problem->item_count; i++) {
        const ls_choice *choice = &problem->items[i].choices[from->choice[i]];
        to->choice[i] = from->choice[i];
        memcpy(to->place[i], from->place[i], (size_t)choice->unit_count * sizeof(int));
    }
    to->ticks = from->ticks;
}

int64_t ls_assignment__evaluate(const ls_planner_problem *problem, const ls_assignment *assignment,
                                ls_state *state) {
    ls_state__clear(state);
    for (int i = 0; i < problem->item_count; i++) {
        const ls_item *item = &problem->items[i];
        const ls_choice *choice = &item->choices[assignment->choice[i]];
        const int *place = assignment->place[i];
        for (int unit = 0; unit < choice->unit_count; unit++) {
            bool strays = choice->fit == LS_FIT_HOST_RANK &&
                          place[unit] / problem->group != place[0] / problem->group;
            if (strays || !ls_state__fits(state, item, choice, unit, place[unit])) {
                return LS_TICKS_NONE;
            }
            ls_state__put(state, choice, unit, place[unit]);
        }
        ls_state__mark(state, item, choice, place, true);
    }
    return ls_state__max(state) + ls_state__startup(state);
}
