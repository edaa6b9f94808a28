// Makes a plan better step by step: unloads the most loaded rank by moving a shard away, exchanging
// two shards, or cutting a table another way; and when nothing helps, takes some items out at
// random (from the seed, so the same every time) and puts them back.
#include "planner/problem.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct unit {
    int item, unit;
} unit;

typedef struct climber {
    const ls_planner_problem *problem;
    ls_search_budget *budget;
    ls_assignment now;
    ls_state state;
    unit *units;     // shards that are on one rank each, grouped by it
    int *first;      // [ranks + 1] into units
    int *filled;     // [ranks] scratch
    int *old_place;  // scratch for the places of one item
    uint64_t draws;  // random numbers used
} climber;

typedef struct move {
    int64_t load;  // of the more loaded of the two ranks afterwards
    int from_item, from_unit, to_rank;
    int with_item, with_unit;  // exchanged with; -1: none
} move;

static bool movable(const ls_choice *choice) {
    return choice->fit == LS_FIT_RANK || choice->fit == LS_FIT_HOST_RANK;
}

static const ls_choice *chosen(const climber *c, int item) {
    return &c->problem->items[item].choices[c->now.choice[item]];
}

static void group_units(climber *c) {
    const ls_planner_problem *problem = c->problem;
    memset(c->first, 0, ((size_t)problem->ranks + 1) * sizeof(int));
    for (int pass = 0; pass < 2; pass++) {
        for (int i = 0; i < problem->item_count; i++) {
            const ls_choice *choice = chosen(c, i);
            for (int u = 0; movable(choice) && u < choice->unit_count; u++) {
                int rank = c->now.place[i][u];
                if (pass == 0) {
                    c->first[rank + 1]++;
                } else {
                    c->units[c->filled[rank]++] = (unit){i, u};
                }
            }
        }
        for (int r = 0; pass == 0 && r < problem->ranks; r++) {
            c->first[r + 1] += c->first[r];
            c->filled[r] = c->first[r];
        }
    }
}

static int most_loaded(const climber *c) {
    int most = 0;
    for (int r = 1; r < c->problem->ranks; r++) {
        most = c->state.load[r] > c->state.load[most] ? r : most;
    }
    return most;
}

static bool host_stays(const climber *c, const ls_choice *choice, int from, int to) {
    return choice->fit != LS_FIT_HOST_RANK || choice->unit_count == 1 ||
           from / c->problem->group == to / c->problem->group;
}

// Moves unit a to `to` and, if b is not NULL, unit b from there to `from`. False: that breaks a
// limit, and nothing has changed.
static bool exchange(climber *c, unit a, int from, const unit *b, int to) {
    const ls_item *item = &c->problem->items[a.item];
    const ls_choice *choice = chosen(c, a.item);
    const ls_item *other = b ? &c->problem->items[b->item] : NULL;
    const ls_choice *other_choice = b ? chosen(c, b->item) : NULL;
    ls_state__mark(&c->state, item, choice, c->now.place[a.item], false);
    ls_state__take(&c->state, choice, a.unit, from);
    if (b) {
        ls_state__mark(&c->state, other, other_choice, c->now.place[b->item], false);
        ls_state__take(&c->state, other_choice, b->unit, to);
    }
    bool fits = ls_state__fits(&c->state, item, choice, a.unit, to);
    int a_at = fits ? to : from;
    ls_state__put(&c->state, choice, a.unit, a_at);
    c->now.place[a.item][a.unit] = a_at;
    ls_state__mark(&c->state, item, choice, c->now.place[a.item], true);
    if (!b) {
        return fits;
    }
    bool swaps = fits && ls_state__fits(&c->state, other, other_choice, b->unit, from);
    // Other units of its item must not stand where the first item has just come.
    for (int u = 0; swaps && other->apart && u < other_choice->unit_count; u++) {
        int rank = u == b->unit ? from : c->now.place[b->item][u];
        swaps = !(c->state.apart[rank] & other->apart);
    }
    if (fits && !swaps) {
        ls_state__mark(&c->state, item, choice, c->now.place[a.item], false);
        ls_state__take(&c->state, choice, a.unit, to);
        ls_state__put(&c->state, choice, a.unit, from);
        c->now.place[a.item][a.unit] = from;
        ls_state__mark(&c->state, item, choice, c->now.place[a.item], true);
    }
    int b_at = swaps ? from : to;
    ls_state__put(&c->state, other_choice, b->unit, b_at);
    c->now.place[b->item][b->unit] = b_at;
    ls_state__mark(&c->state, other, other_choice, c->now.place[b->item], true);
    return swaps;
}

static void consider(move *best, move candidate) {
    if (candidate.load < best->load) {
        *best = candidate;
    }
}

// The move or exchange that leaves the more loaded of its two ranks least loaded.
static bool unload_by_move(climber *c, int from) {
    const ls_planner_problem *problem = c->problem;
    const int64_t *load = c->state.load;
    move best = {.load = load[from]};
    for (int k = c->first[from]; k < c->first[from + 1]; k++) {
        unit a = c->units[k];
        const ls_choice *choice = chosen(c, a.item);
        int64_t ticks = choice->ticks[a.unit];
        int64_t looked = 0;  // at exchanges
        for (int to = 0; to < problem->ranks; to++) {
            if (to == from || load[to] >= best.load || !host_stays(c, choice, from, to)) {
                continue;
            }
            const ls_item *item = &problem->items[a.item];
            if (load[to] + ticks < best.load && !item->apart &&
                ls_state__fits(&c->state, item, choice, a.unit, to)) {
                consider(&best, (move){load[to] + ticks, a.item, a.unit, to, -1, -1});
            }
            looked += c->first[to + 1] - c->first[to];
            for (int j = c->first[to]; j < c->first[to + 1]; j++) {
                unit b = c->units[j];
                const ls_choice *other = chosen(c, b.item);
                int64_t less = ticks - other->ticks[b.unit];
                if (less <= 0 || b.item == a.item || load[to] + less >= best.load ||
                    load[from] - less >= best.load || !host_stays(c, other, to, from)) {
                    continue;
                }
                bool room = c->state.hbm[to] - other->hbm[b.unit] + choice->hbm[a.unit] <=
                                problem->hbm_capacity &&
                            c->state.hbm[from] + other->hbm[b.unit] - choice->hbm[a.unit] <=
                                problem->hbm_capacity;
                if (room) {
                    int64_t after =
                        load[to] + less > load[from] - less ? load[to] + less : load[from] - less;
                    consider(&best, (move){after, a.item, a.unit, to, b.item, b.unit});
                }
            }
        }
        ls_search__count(c->budget, problem->ranks / 8, looked);
        if (ls_search__over(c->budget, LS_TICKS_NONE)) {
            break;
        }
    }
    if (best.load >= load[from]) {
        return false;
    }
    unit a = {best.from_item, best.from_unit};
    unit b = {best.with_item, best.with_unit};
    // It may break a limit that the quick look does not see; then other ways are tried.
    return exchange(c, a, from, best.with_item < 0 ? NULL : &b, best.to_rank);
}

static int64_t cost(const climber *c) {
    return ls_state__max(&c->state) + ls_state__startup(&c->state);
}

// Another choice or place for one item, if that makes the plan cheaper.
static bool rechoose(climber *c, int index) {
    const ls_item *item = &c->problem->items[index];
    int64_t best = cost(c);
    int old = c->now.choice[index];
    int best_choice = -1;
    int *place = c->now.place[index];
    memcpy(c->old_place, place, (size_t)item->choices[old].unit_count * sizeof(int));
    ls_state__take_item(&c->state, item, &item->choices[old], place);
    for (int k = 0; k < item->choice_count; k++) {
        const ls_choice *choice = &item->choices[k];
        if (choice->dominated) {
            continue;
        }
        if (ls_search__over(c->budget, LS_TICKS_NONE)) {
            break;
        }
        ls_search__count(c->budget, 1, ls_search__looks(c->problem, choice));
        if (!ls_search__put_greedy(&c->state, item, choice, place)) {
            continue;
        }
        int64_t now = cost(c);
        if (now < best) {
            best = now;
            best_choice = k;
        }
        ls_state__take_item(&c->state, item, choice, place);
    }
    if (best_choice >= 0) {
        c->now.choice[index] = best_choice;
        bool put = ls_search__put_greedy(&c->state, item, &item->choices[best_choice], place);
        LS_ASSERT(put);
        return true;
    }
    memcpy(place, c->old_place, (size_t)item->choices[old].unit_count * sizeof(int));
    ls_state__put_item(&c->state, item, &item->choices[old], place);
    return false;
}

static bool lies_on(const climber *c, int index, int rank) {
    const ls_choice *choice = chosen(c, index);
    if (choice->fit == LS_FIT_ALL) {
        return true;
    }
    for (int u = 0; u < choice->unit_count; u++) {
        int place = c->now.place[index][u];
        if (place == (choice->fit == LS_FIT_HOST ? rank / c->problem->group : rank)) {
            return true;
        }
    }
    return false;
}

static bool unload_by_choice(climber *c, int rank) {
    for (int i = 0; i < c->problem->item_count; i++) {
        if (!lies_on(c, i, rank)) {
            continue;
        }
        if (rechoose(c, i)) {
            return true;
        }
        if (ls_search__over(c->budget, LS_TICKS_NONE)) {
            break;
        }
    }
    return false;
}

static void climb(climber *c, const ls_assignment *best) {
    while (!ls_search__over(c->budget, best->ticks)) {
        ls_search__count(c->budget, 1, c->problem->item_count + c->problem->ranks);
        group_units(c);
        int rank = most_loaded(c);
        if (!unload_by_move(c, rank) && !unload_by_choice(c, rank)) {
            return;
        }
    }
}

static uint64_t draw(climber *c, uint64_t bound) {
    return ls_random_below(bound, c->problem->options.seed, ls_random_stream("planner/improve"), 0,
                           c->draws++);
}

// The cheapest choice for all ranks together, with memory at the price that the bound found for it.
static int least_work(const climber *c, const ls_item *item) {
    int best = -1;
    double least = INFINITY;
    for (int k = 0; k < item->choice_count; k++) {
        const ls_choice *choice = &item->choices[k];
        double price = (double)choice->work + c->budget->multiplier * (double)choice->hbm_sum;
        if (!choice->dominated && price < least) {
            least = price;
            best = k;
        }
    }
    return best;
}

// Takes a few items out and puts them back with another choice or place. False: they did not fit;
// the state is then incomplete.
static bool shake(climber *c) {
    const ls_planner_problem *problem = c->problem;
    int rank = most_loaded(c);
    int count = 2 + (int)draw(c, 4);
    for (int n = 0; n < count; n++) {
        int index = (int)draw(c, (uint64_t)problem->item_count);
        // Every other item is one of the most loaded rank's own.
        for (int tries = 0; n % 2 == 0 && tries < 64 && !lies_on(c, index, rank); tries++) {
            index = (int)draw(c, (uint64_t)problem->item_count);
        }
        const ls_item *item = &problem->items[index];
        const ls_choice *old = chosen(c, index);
        ls_state__take_item(&c->state, item, old, c->now.place[index]);
        int choice = c->now.choice[index];
        uint64_t way = draw(c, 3);  // as before, the least work, or any
        if (way == 1) {
            choice = least_work(c, item);
        } else if (way == 2) {
            choice = (int)draw(c, (uint64_t)item->choice_count);
            choice = item->choices[choice].dominated ? c->now.choice[index] : choice;
        }
        c->now.choice[index] = choice;
        ls_search__count(c->budget, 0, ls_search__looks(problem, &item->choices[choice]));
        if (!ls_search__put_greedy(&c->state, item, &item->choices[choice], c->now.place[index])) {
            return false;
        }
    }
    return true;
}

static int prepare(climber *c, const ls_assignment *best, ls_arena *arena) {
    const ls_planner_problem *problem = c->problem;
    size_t total = 0;
    size_t most = 1;
    for (int i = 0; i < problem->item_count; i++) {
        size_t here = 1;
        for (int k = 0; k < problem->items[i].choice_count; k++) {
            size_t units = (size_t)problem->items[i].choices[k].unit_count;
            here = units > here ? units : here;
        }
        total += here;
        most = here > most ? here : most;
    }
    c->units = ls_arena_alloc(arena, total, sizeof(*c->units));
    c->first = ls_arena_alloc(arena, (size_t)problem->ranks + 1, sizeof(int));
    c->filled = ls_arena_alloc(arena, (size_t)problem->ranks, sizeof(int));
    c->old_place = ls_arena_alloc(arena, most, sizeof(int));
    LS_TRY_MEMORY(c->units != NULL && c->first != NULL && c->filled != NULL &&
                  c->old_place != NULL);
    LS_TRY(ls_state__create(&c->state, problem, arena));
    LS_TRY(ls_assignment__create(&c->now, problem, arena));
    ls_assignment__copy(&c->now, best, problem);
    return LS_OK;
}

int ls_search__improve(ls_assignment *best, const ls_planner_problem *problem,
                       ls_search_budget *budget, int64_t rounds_max, ls_arena *arena) {
    if (best->ticks == LS_TICKS_NONE) {
        return LS_OK;
    }
    climber c = {.problem = problem, .budget = budget};
    LS_TRY(prepare(&c, best, arena));
    for (int64_t round = 0; round < rounds_max && !ls_search__over(budget, best->ticks); round++) {
        // A round counts although it may end before it has examined anything.
        ls_search__count(budget, 1, problem->item_count + problem->ranks);
        int64_t loaded = ls_assignment__evaluate(problem, &c.now, &c.state);
        LS_ASSERT(loaded != LS_TICKS_NONE);
        bool whole = round == 0 || shake(&c);
        if (whole) {
            climb(&c, best);
            c.now.ticks = cost(&c);
            if (c.now.ticks < best->ticks) {
                ls_assignment__copy(best, &c.now, problem);
                continue;
            }
        }
        // A plan a little worse is a new place to start from; a worse one, or a broken one, is not.
        bool near = whole && (double)c.now.ticks <= (double)best->ticks * 1.01 && round % 8 != 7;
        if (!near) {
            ls_assignment__copy(&c.now, best, problem);
        }
    }
    return LS_OK;
}
