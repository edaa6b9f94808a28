// The planning problem as the searches see it. Internal to planner/ and its tests.
//
// Tables that must lie together are one item. An item has choices; a choice places units: one shard
// on a rank, the shards of one column block on the ranks of a host, or one shard on every rank.
//
// Costs are counted in ticks, whole numbers: a plan's cost then does not depend on the order in
// which shards were added, and two ranks are equal when their numbers are. A tick is so small that
// all tables together make less than 2^61 of them.
#pragma once

#include "planner/cost.h"

#define LS_PLANNER_CHOICES_MAX 4096  // of one item
#define LS_PLANNER_APART_MAX   64    // groups of tables kept apart

typedef enum ls_fit {
    LS_FIT_RANK,       // each shard on any rank; several may share one (table wise, column wise)
    LS_FIT_HOST_RANK,  // all shards on one host, each on any of its ranks (table column wise)
    LS_FIT_HOST,       // each unit on a host, its shards on the host's ranks (table row wise, grid)
    LS_FIT_ALL         // shard r on rank r (row wise, data parallel)
} ls_fit;

typedef struct ls_choice {
    ls_fit fit;
    int sharding;      // an ls_sharding: whose start-up is paid
    int shard_count;   //
    int unit_count;    // places to choose
    int unit_shards;   // shards in each unit
    const double *ms;  // [shard_count], as are ticks, hbm and ddr
    const int64_t *ticks, *hbm, *ddr;
    int64_t work, ticks_max;  // sum and largest of ticks
    int64_t hbm_sum, ddr_sum, hbm_max;
    bool equal_units;  // all units cost the same in every respect
    bool pinned;       // of a table with given ranks: LS_FIT_ALL, but not of a shard on every rank
    bool too_large;    // one of its shards exceeds any rank's memory
    bool dominated;    // too large, or another choice is at least as good wherever this one fits
    const ls_planner_option *const *options;  // [table_count of the item]. Pinned: their shards are
                                              // not the choice's, which are sums per rank
} ls_choice;

#define LS_BLOCKED_APART 1u  // tables that it shares no rank with
#define LS_BLOCKED_RANKS 2u  // the ranks that it may use

typedef struct ls_item {
    int table_count;
    const int *tables;
    int choice_count;
    ls_choice *choices;
    const uint8_t *allowed;  // [ranks]; NULL: every rank
    uint64_t apart;          // bit per group of tables that share no rank
} ls_item;

struct ls_planner_problem {
    ls_arena *arena;
    ls_topology topology;
    ls_planner_options options;
    ls_planner_table *tables;
    int table_count;
    ls_planner_option **table_options;  // [tables][option_counts]
    int *option_counts;
    ls_item *items;
    int item_count;
    int ranks, group, hosts, pools;  // group: ranks of a host; pools of host memory
    int64_t hbm_capacity;            // per rank, after reservations
    int64_t ddr_capacity;            // per pool
    int *rank_class;                 // [ranks] ranks of equal class may be exchanged
    double ticks_per_ms;
    double startup_ms[LS_SHARDING_COUNT];              // once per plan for each type in use
    ls_cost_startup startup_parts[LS_SHARDING_COUNT];  // its terms
    int64_t startup[LS_SHARDING_COUNT];                // the same in ticks
    bool any_apart;
    double create_seconds;  // it took to make this problem
    int64_t create_looks;   // at blocks and choices, while it was made: the search's nodes, too
    double deadline;        // to make it by, and of the last search, for what follows it; 0: none
    struct ls_found_plan *found;  // the last plan of a result; NULL: none yet
};

#define LS_TICKS_NONE INT64_MAX  // the cost of no plan

// A placement of all items. Places of LS_FIT_ALL choices are unused.
typedef struct ls_assignment {
    int *choice;    // [items]
    int **place;    // [items][most units of any choice of the item]: a rank; a host for LS_FIT_HOST
    int64_t ticks;  // cost with start-up; LS_TICKS_NONE: not a plan
} ls_assignment;

// The assignment of a result, which has the same `chosen`.
typedef struct ls_found_plan {
    const ls_planner_option **chosen;
    ls_assignment assignment;
    struct ls_found_plan *before;
} ls_found_plan;

// Loads of all ranks while items come and go.
typedef struct ls_state {
    const ls_planner_problem *problem;
    int64_t *load;    // [ranks] ticks
    int64_t *hbm;     // [ranks] bytes used
    int64_t *ddr;     // [pools]
    uint64_t *apart;  // [ranks] groups of tables present
    int type_uses[LS_SHARDING_COUNT];
} ls_state;

static inline int ls_problem__pool(const ls_planner_problem *problem, int rank) {
    return problem->topology.ddr_shared ? rank / problem->group : rank;
}
// The rank of shard `shard` of a choice whose unit is at `place`.
static inline int ls_problem__rank(const ls_planner_problem *problem, const ls_choice *choice,
                                   int shard, int place) {
    switch (choice->fit) {
    case LS_FIT_HOST:
        return place * problem->group + shard % choice->unit_shards;
    case LS_FIT_ALL:
        return shard;
    default:
        return place;
    }
}

int ls_problem__enumerate(ls_planner_problem *problem);
int ls_problem__items(ls_planner_problem *problem);
// LS_ERR_TIMEOUT, with how many tables were listed, when making the problem takes too long.
int ls_problem__in_time(const ls_planner_problem *problem, int listed);
void ls_problem__mark_dominated(ls_choice *choices, int count, const double *startup);

int ls_state__create(ls_state *state, const ls_planner_problem *problem, ls_arena *arena);
void ls_state__clear(ls_state *state);
// Whether unit `unit` of a choice fits at `place` beside the placed ones: memory, apart, allowed
// ranks.
bool ls_state__fits(const ls_state *state, const ls_item *item, const ls_choice *choice, int unit,
                    int place);
void ls_state__put(ls_state *state, const ls_choice *choice, int unit, int place);
void ls_state__take(ls_state *state, const ls_choice *choice, int unit, int place);
// Adds an item's apart groups to its ranks, or removes them. Units of one item may share a rank, so
// this is done for all of them at once, after the last put and before the first take.
void ls_state__mark(ls_state *state, const ls_item *item, const ls_choice *choice, const int *place,
                    bool present);
// All units of an item, with the mark.
void ls_state__put_item(ls_state *state, const ls_item *item, const ls_choice *choice,
                        const int *place);
void ls_state__take_item(ls_state *state, const ls_item *item, const ls_choice *choice,
                         const int *place);
int64_t ls_state__max(const ls_state *state);
int64_t ls_state__startup(const ls_state *state);  // of the types in use

int ls_assignment__create(ls_assignment *out, const ls_planner_problem *problem, ls_arena *arena);
void ls_assignment__copy(ls_assignment *to, const ls_assignment *from,
                         const ls_planner_problem *problem);
// Cost of a complete assignment, from scratch; LS_TICKS_NONE when it breaks a limit. Leaves the
// assignment's load in `state`.
int64_t ls_assignment__evaluate(const ls_planner_problem *problem, const ls_assignment *assignment,
                                ls_state *state);

// Least level C with sum(max(0, C - load[r])) >= work, and at least every load. sorted [count]
// ascending.
int64_t ls_bound__level(const int64_t *sorted, int count, int64_t work);

// ---- The searches -------------------------------------------------------------------------------
// best comes in with the incumbent (LS_TICKS_NONE: none) and goes out with the better.
typedef struct ls_search_budget {
    int64_t nodes, nodes_max;
    int64_t looks;          // since the clock was read
    double deadline;        // of ls_time_now; INFINITY: none
    double deadline_first;  // the same while there is no plan: saying why takes time, too
    bool late;              // the deadline was seen to have passed
    int64_t lower;          // proven bound
    double multiplier;      // of ls_bound__root
    double gap_goal;        //
    double started, first;  // when the search began; when the first plan was there (0: not yet)
} ls_search_budget;
// Counts nodes, and examined places, choices or exchanges: 1,024 of these are one node. Every loop
// that can be long counts, because only this function reads the clock.
void ls_search__count(ls_search_budget *budget, int64_t nodes, int64_t looks);
// The same only for the clock, where the work depends on the input and not on the remaining nodes.
void ls_search__look(ls_search_budget *budget, int64_t looks);
// Whether to stop: best is good enough, the nodes are spent, or it is late.
bool ls_search__over(const ls_search_budget *budget, int64_t best);
// Looks that ls_search__put_greedy takes at most.
int64_t ls_search__looks(const ls_planner_problem *problem, const ls_choice *choice);
// Notes when the first plan was there.
void ls_search__found(ls_search_budget *budget);
// Sets budget->lower, a cost that no plan can be under, or LS_TICKS_NONE when total memory alone
// rules every plan out; and budget->multiplier, the price of a byte of device memory, in ticks,
// that gave the bound. Weaker when it is late.
void ls_bound__root(ls_search_budget *budget, const ls_planner_problem *problem);
int ls_search__construct(ls_assignment *best, const ls_planner_problem *problem,
                         ls_search_budget *budget, ls_arena *arena);
int ls_search__improve(ls_assignment *best, const ls_planner_problem *problem,
                       ls_search_budget *budget, int64_t rounds_max, ls_arena *arena);
// Puts all units of a choice, each on the least loaded place where it fits; false: it does not fit,
// and nothing has changed.
bool ls_search__put_greedy(ls_state *state, const ls_item *item, const ls_choice *choice,
                           int *place);
// The fewest constraints of the item, LS_BLOCKED_ bits, without which the choice that does not fit
// would fit; 0: it is memory that lacks. place: room for one of its units each.
unsigned ls_search__blocked(ls_state *state, const ls_item *item, const ls_choice *choice,
                            int *place);
// These constraints, with the tables that share `apart`: "'apart: big', with category".
void ls_search__write_blocked(ls_text *out, const ls_planner_problem *problem, const ls_item *item,
                              unsigned blocked);
// The exact search recurses once per block placed, so it is for problems without too many of them.
bool ls_search__exact_possible(const ls_planner_problem *problem);
// *complete: the whole tree was searched, so best is optimal (or there is no plan).
int ls_search__exact(ls_assignment *best, bool *complete, const ls_planner_problem *problem,
                     ls_search_budget *budget, ls_arena *arena);

// Fills everything of the result that follows from an assignment.
int ls_result__fill(ls_planner_result *result, ls_planner_problem *problem,
                    const ls_assignment *assignment);
// The assignment of a result that has a plan.
const ls_assignment *ls_result__assignment(const ls_planner_problem *problem,
                                           const ls_planner_result *result);
