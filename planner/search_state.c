// The state of a search: its clock, its count and the best plan so far.
#include <math.h>
#include "planner/problem.h"
#include "base/time.h"

double ls_planner_cost_total(const ls_planner_cost *cost) {
    return cost->forward_compute_ms + cost->backward_compute_ms + cost->forward_comms_ms +
           cost->backward_comms_ms + cost->prefetch_ms;
}

int ls_problem__in_time(const ls_planner_problem *problem, int listed) {
    if (problem->deadline > 0.0 && ls_time_now() > problem->deadline) {
        return LS_FAIL(LS_ERR_TIMEOUT,
                       "plan: the time limit passed after listing the options of %d of %d tables "
                       "on %d ranks, before there was a plan",
                       listed, problem->table_count, problem->ranks);
    }
    return LS_OK;
}

#define LOOKS_PER_NODE 1024

#define LOOKS_PER_CLOCK 16384  // a look takes some nanoseconds, the clock some tens of them

void ls_search__count(ls_search_budget *budget, int64_t nodes, int64_t looks) {
    LS_ASSERT(nodes >= 0 && looks >= 0);
    budget->nodes += nodes + looks / LOOKS_PER_NODE;
    ls_search__look(budget, 64 * nodes + looks);
}

void ls_search__look(ls_search_budget *budget, int64_t looks) {
    budget->looks += looks;
    if (budget->looks >= LOOKS_PER_CLOCK && !budget->late && !isinf(budget->deadline)) {
        budget->looks = 0;
        budget->late =
            ls_time_now() > (budget->first == 0.0 ? budget->deadline_first : budget->deadline);
    }
}

int64_t ls_search__looks(const ls_planner_problem *problem, const ls_choice *choice) {
    int64_t units = choice->unit_count;
    switch (choice->fit) {
    case LS_FIT_ALL:
        return choice->shard_count;
    case LS_FIT_HOST:
        return units * problem->hosts * choice->unit_shards;
    case LS_FIT_RANK:
        return units * problem->ranks;
    case LS_FIT_HOST_RANK:
        break;
    }
    return units * (problem->ranks + problem->group);
}

void ls_search__found(ls_search_budget *budget) {
    if (budget->first == 0.0) {
        budget->first = ls_time_now();
        budget->late = budget->first > budget->deadline;
    }
}

bool ls_search__over(const ls_search_budget *budget, int64_t best) {
    if (best != LS_TICKS_NONE) {
        if (best <= budget->lower ||
            (double)(best - budget->lower) <= budget->gap_goal * (double)budget->lower) {
            return true;
        }
    }
    return budget->nodes >= budget->nodes_max || budget->late;
}
