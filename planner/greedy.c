// Places one item greedily.
#include "planner/problem.h"

// The least loaded place where the unit fits, or -1.
static int best_place(const ls_state *state, const ls_item *item, const ls_choice *choice, int unit,
                      int first, int end) {
    int best = -1;
    int64_t best_load = INT64_MAX;
    for (int place = first; place < end; place++) {
        int64_t load = 0;
        if (choice->fit == LS_FIT_HOST) {
            for (int k = 0; k < choice->unit_shards; k++) {
                int rank = place * choice->unit_shards + k;
                int64_t here = state->load[rank] + choice->ticks[unit * choice->unit_shards + k];
                load = here > load ? here : load;
            }
        } else if (choice->fit != LS_FIT_ALL) {
            load = state->load[place];
        }
        if (load < best_load && ls_state__fits(state, item, choice, unit, place)) {
            best = place;
            best_load = load;
        }
    }
    return best;
}

static bool put_units(ls_state *state, const ls_item *item, const ls_choice *choice, int *place,
                      int first, int end) {
    for (int unit = 0; unit < choice->unit_count; unit++) {
        place[unit] = best_place(state, item, choice, unit, first, end);
        if (place[unit] < 0) {
            while (unit-- > 0) {
                ls_state__take(state, choice, unit, place[unit]);
            }
            return false;
        }
        ls_state__put(state, choice, unit, place[unit]);
    }
    ls_state__mark(state, item, choice, place, true);
    return true;
}

bool ls_search__put_greedy(ls_state *state, const ls_item *item, const ls_choice *choice,
                           int *place) {
    const ls_planner_problem *problem = state->problem;
    switch (choice->fit) {
    case LS_FIT_ALL:
        return put_units(state, item, choice, place, 0, 1);
    case LS_FIT_HOST:
        return put_units(state, item, choice, place, 0, problem->hosts);
    case LS_FIT_RANK:
        return put_units(state, item, choice, place, 0, problem->ranks);
    case LS_FIT_HOST_RANK:
        break;
    }
    // The host whose most loaded rank would be least loaded, tried in full.
    int best = -1;
    int64_t best_load = INT64_MAX;
    for (int host = 0; host < problem->hosts; host++) {
        int first = host * problem->group;
        if (!put_units(state, item, choice, place, first, first + problem->group)) {
            continue;
        }
        int64_t load = 0;
        for (int r = first; r < first + problem->group; r++) {
            load = state->load[r] > load ? state->load[r] : load;
        }
        ls_state__take_item(state, item, choice, place);
        if (load < best_load) {
            best = host;
            best_load = load;
        }
    }
    return best >= 0 && put_units(state, item, choice, place, best * problem->group,
                                  (best + 1) * problem->group);
}
