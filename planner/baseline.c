// TorchRec's search, restated, as the baseline to beat: proposers pick an option for every table,
// partitioners place them greedily, and the cheapest plan that fits is kept. No bound, no proof.
#include "base/compare.h"
#include "base/time.h"
#include "planner/problem.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define PROPOSALS_DEFAULT INT64_C(10000)
#define GRID_MAX          10000.0
#define BINS_PER_RANK     100
#define BALANCE_TRIES     10
#define BALANCE_TOLERANCE 1.02
#define BALANCE_STOP      (INT64_C(10) << 20)

typedef struct ordered {
    int64_t first, second;
    int item;
} ordered;

typedef struct baseline {
    const ls_planner_problem *problem;
    ls_planner_problem limited;  // the same with less memory, for the memory-balanced partitioner
    ls_planner_partitioner partitioner;
    ls_assignment now, kept, best;
    ls_state state;
    ordered *order;     // [items] scratch
    int *sorted_ranks;  // [ranks]
    int **sorted;       // [items][choices] by cost
    int *at;            // [items] index into sorted
    int64_t left;       // proposals
    ls_arena *arena;
} baseline;

// ---- Placing ------------------------------------------------------------------------------------

static int place_one(const baseline *b, const ls_item *item, const ls_choice *choice, int unit,
                     int first, int end) {
    int group = b->problem->group;
    int best = -1;
    for (int r = first; r < end; r++) {
        bool less = best < 0 || b->state.load[r] < b->state.load[best] ||
                    (b->state.load[r] == b->state.load[best] && r % group < best % group);
        if (less && ls_state__fits(&b->state, item, choice, unit, r)) {
            best = r;
        }
    }
    return best;
}

static bool place_shards(baseline *b, const ls_item *item, const ls_choice *choice, int *place,
                         int first, int end) {
    for (int u = 0; u < choice->unit_count; u++) {
        place[u] = place_one(b, item, choice, u, first, end);
        if (place[u] < 0) {
            while (u-- > 0) {
                ls_state__take(&b->state, choice, u, place[u]);
            }
            return false;
        }
        ls_state__put(&b->state, choice, u, place[u]);
    }
    return true;
}

static bool place_blocks(baseline *b, const ls_item *item, const ls_choice *choice, int *place,
                         int host) {
    for (int u = 0; u < choice->unit_count; u++) {
        place[u] = (host + u) % b->problem->hosts;
        if (!ls_state__fits(&b->state, item, choice, u, place[u])) {
            while (u-- > 0) {
                ls_state__take(&b->state, choice, u, place[u]);
            }
            return false;
        }
        ls_state__put(&b->state, choice, u, place[u]);
    }
    return true;
}

static int64_t host_load(const baseline *b, int host) {
    int64_t sum = 0;
    for (int i = 0; i < b->problem->group; i++) {
        sum += b->state.load[host * b->problem->group + i];
    }
    return sum;
}

// Hosts by their load, first the least; the first on which everything fits.
static bool place_on_host(baseline *b, const ls_item *item, const ls_choice *choice, int *place) {
    int hosts = b->problem->hosts;
    int group = b->problem->group;
    int *order = b->sorted_ranks;
    for (int h = 0; h < hosts; h++) {
        int at = h;
        while (at > 0 && host_load(b, order[at - 1]) > host_load(b, h)) {
            order[at] = order[at - 1];
            at--;
        }
        order[at] = h;
    }
    for (int h = 0; h < hosts; h++) {
        bool placed =
            choice->fit == LS_FIT_HOST
                ? place_blocks(b, item, choice, place, order[h])
                : place_shards(b, item, choice, place, order[h] * group, (order[h] + 1) * group);
        if (placed) {
            return true;
        }
    }
    return false;
}

static bool place_item(baseline *b, int index) {
    const ls_item *item = &b->problem->items[index];
    const ls_choice *choice = &item->choices[b->now.choice[index]];
    int *place = b->now.place[index];
    bool placed;
    if (choice->fit == LS_FIT_ALL) {
        place[0] = 0;
        placed = ls_state__fits(&b->state, item, choice, 0, 0);
        if (placed) {
            ls_state__put(&b->state, choice, 0, 0);
        }
    } else if (choice->fit == LS_FIT_RANK) {
        placed = place_shards(b, item, choice, place, 0, b->problem->ranks);
    } else {
        placed = place_on_host(b, item, choice, place);
    }
    if (placed) {
        ls_state__mark(&b->state, item, choice, place, true);
    }
    return placed;
}

static const ls_choice *chosen(const baseline *b, int index) {
    return &b->problem->items[index].choices[b->now.choice[index]];
}

static int compare_descending(const void *a, const void *b) {
    const ordered *x = a, *y = b;
    int order = ls_compare(y->first, x->first);
    order = order != 0 ? order : ls_compare(y->second, x->second);
    return order != 0 ? order : ls_compare(x->item, y->item);
}

// Fills b->now.ticks.
static void greedy_perf(baseline *b, int64_t hbm_capacity) {
    int items = b->problem->item_count;
    ordered *order = b->order;
    b->limited.hbm_capacity = hbm_capacity;
    ls_state__clear(&b->state);
    b->now.ticks = LS_TICKS_NONE;
    for (int i = 0; i < items; i++) {
        const ls_choice *choice = chosen(b, i);
        bool uniform = choice->fit == LS_FIT_ALL;
        order[i] =
            (ordered){uniform ? INT64_MAX : choice->hbm_sum, uniform ? 0 : choice->ddr_sum, i};
    }
    qsort(order, (size_t)items, sizeof(*order), compare_descending);
    for (int k = 0; k < items; k++) {
        if (!place_item(b, order[k].item)) {
            return;
        }
    }
    b->now.ticks = ls_state__max(&b->state) + ls_state__startup(&b->state);
}

// Looks for the least memory per rank that costs no more than 2 % more.
static void memory_balanced(baseline *b) {
    int64_t most = b->problem->hbm_capacity;
    greedy_perf(b, most);
    if (b->now.ticks == LS_TICKS_NONE) {
        return;
    }
    int64_t whole = b->now.ticks;
    double sum = 0.0;
    int64_t largest = 0;
    for (int i = 0; i < b->problem->item_count; i++) {
        sum += (double)chosen(b, i)->hbm_sum;
        largest = chosen(b, i)->hbm_max > largest ? chosen(b, i)->hbm_max : largest;
    }
    ls_assignment__copy(&b->kept, &b->now, b->problem);
    int64_t low = (int64_t)(sum / b->problem->ranks);
    low = largest > low ? largest : low;
    int64_t high = most;
    for (int i = 0; i < BALANCE_TRIES && high - low > BALANCE_STOP; i++) {
        int64_t middle = low + (high - low) / 2;
        greedy_perf(b, middle);
        if (b->now.ticks != LS_TICKS_NONE &&
            (double)b->now.ticks <= BALANCE_TOLERANCE * (double)whole) {
            ls_assignment__copy(&b->kept, &b->now, b->problem);
            high = middle;
        } else {
            low = middle;
        }
    }
    ls_assignment__copy(&b->now, &b->kept, b->problem);
}

// Places what the proposer chose and keeps it if it is the best so far. False: no proposals are
// left.
static bool rate(baseline *b) {
    if (b->partitioner == LS_PARTITION_MEMORY_BALANCED) {
        memory_balanced(b);
    } else {
        greedy_perf(b, b->problem->hbm_capacity);
    }
    if (b->now.ticks < b->best.ticks) {
        ls_assignment__copy(&b->best, &b->now, b->problem);
    }
    return --b->left > 0;
}

// ---- Proposing ----------------------------------------------------------------------------------

static void sort_choices(baseline *b, bool by_depth) {
    for (int i = 0; i < b->problem->item_count; i++) {
        const ls_item *item = &b->problem->items[i];
        int *sorted = b->sorted[i];
        for (int c = 0; c < item->choice_count; c++) {
            int at = c;
            const ls_choice *x = &item->choices[c];
            while (at > 0) {
                const ls_choice *y = &item->choices[sorted[at - 1]];
                bool less = by_depth ? x->ticks_max < y->ticks_max : x->work < y->work;
                if (!less) {
                    break;
                }
                sorted[at] = sorted[at - 1];
                at--;
            }
            sorted[at] = c;
        }
        b->at[i] = 0;
        b->now.choice[i] = sorted[0];
    }
}

static bool larger_storage(const ls_choice *a, const ls_choice *b) {
    if (a->hbm_max != b->hbm_max) {
        return a->hbm_max > b->hbm_max;
    }
    if (a->hbm_sum != b->hbm_sum) {
        return a->hbm_sum > b->hbm_sum;
    }
    return a->ddr_sum > b->ddr_sum;
}

static void propose_greedy(baseline *b, bool by_depth) {
    sort_choices(b, by_depth);
    while (rate(b)) {
        int largest = -1;
        for (int i = 0; i < b->problem->item_count; i++) {
            if (b->at[i] + 1 < b->problem->items[i].choice_count &&
                (largest < 0 || larger_storage(chosen(b, i), chosen(b, largest)))) {
                largest = i;
            }
        }
        if (largest < 0) {
            return;
        }
        b->now.choice[largest] = b->sorted[largest][++b->at[largest]];
    }
}

static void propose_uniform(baseline *b) {
    for (int s = 0; s < LS_SHARDING_COUNT; s++) {
        bool all = true;
        sort_choices(b, true);
        for (int i = 0; i < b->problem->item_count && all; i++) {
            const ls_item *item = &b->problem->items[i];
            int found = -1;
            for (int c = 0; c < item->choice_count && found < 0; c++) {
                found = item->choices[b->sorted[i][c]].sharding == s ? b->sorted[i][c] : -1;
            }
            all = found >= 0;
            b->now.choice[i] = all ? found : 0;
        }
        if (all && !rate(b)) {
            return;
        }
    }
}

static void propose_grid(baseline *b) {
    int items = b->problem->item_count;
    double product = 1.0;
    for (int i = 0; i < items; i++) {
        product *= b->problem->items[i].choice_count;
        b->now.choice[i] = 0;
    }
    if (product > GRID_MAX) {
        return;
    }
    while (rate(b)) {
        int i = items - 1;
        while (i >= 0 && ++b->now.choice[i] == b->problem->items[i].choice_count) {
            b->now.choice[i--] = 0;
        }
        if (i < 0) {
            return;
        }
    }
}

// cost[bin]: least total cost of the items so far with memory in that bin; taken[item][bin]: by
// which choice.
static int propose_dynamic(baseline *b) {
    const ls_planner_problem *problem = b->problem;
    size_t items = (size_t)problem->item_count;
    size_t bins = (size_t)BINS_PER_RANK * (size_t)problem->ranks + 1;
    double bin_bytes = fmax(1.0, (double)problem->hbm_capacity / BINS_PER_RANK);
    double *cost = ls_arena_alloc(b->arena, 2 * bins, sizeof(*cost));
    uint16_t *taken = ls_arena_alloc(b->arena, items * bins, sizeof(*taken));
    LS_TRY_MEMORY(cost != NULL && taken != NULL);
    double *next = cost + bins;
    for (size_t bin = 1; bin < bins; bin++) {
        cost[bin] = INFINITY;
    }
    for (size_t i = 0; i < items; i++) {
        const ls_item *item = &problem->items[i];
        for (size_t bin = 0; bin < bins; bin++) {
            next[bin] = INFINITY;
        }
        for (int c = 0; c < item->choice_count; c++) {
            double width = ceil((double)item->choices[c].hbm_sum / bin_bytes);
            size_t step = width < (double)bins ? (size_t)width : bins;
            for (size_t bin = step; bin < bins; bin++) {
                double sum = cost[bin - step] + (double)item->choices[c].work;
                if (sum < next[bin]) {
                    next[bin] = sum;
                    taken[i * bins + bin] = (uint16_t)c;
                }
            }
        }
        double *swap = cost;
        cost = next;
        next = swap;
    }
    for (size_t bin = bins; bin-- > 0;) {
        size_t rest = bin;
        if (isinf(cost[bin])) {
            continue;
        }
        for (size_t i = items; i-- > 0;) {
            int c = taken[i * bins + rest];
            b->now.choice[i] = c;
            rest -= (size_t)ceil((double)problem->items[i].choices[c].hbm_sum / bin_bytes);
        }
        if (!rate(b)) {
            break;
        }
    }
    return LS_OK;
}

// ---- All ----------------------------------------------------------------------------------------

static int prepare(baseline *b) {
    const ls_planner_problem *problem = b->problem;
    size_t items = (size_t)problem->item_count;
    b->limited = *problem;
    LS_TRY(ls_state__create(&b->state, &b->limited, b->arena));
    LS_TRY(ls_assignment__create(&b->now, problem, b->arena));
    LS_TRY(ls_assignment__create(&b->kept, problem, b->arena));
    LS_TRY(ls_assignment__create(&b->best, problem, b->arena));
    b->order = ls_arena_alloc(b->arena, items, sizeof(ordered));
    b->sorted_ranks = ls_arena_alloc(b->arena, (size_t)problem->ranks, sizeof(int));
    b->sorted = ls_arena_alloc(b->arena, items, sizeof(*b->sorted));
    b->at = ls_arena_alloc(b->arena, items, sizeof(int));
    LS_TRY_MEMORY(b->order != NULL && b->sorted_ranks != NULL && b->sorted != NULL &&
                  b->at != NULL);
    for (size_t i = 0; i < items; i++) {
        b->sorted[i] =
            ls_arena_alloc(b->arena, (size_t)problem->items[i].choice_count, sizeof(int));
        LS_TRY_MEMORY(b->sorted[i] != NULL);
    }
    return LS_OK;
}

static int propose(baseline *b, ls_planner_proposer proposer) {
    int64_t each = b->left;
    if (proposer == LS_PROPOSE_GRID || proposer == LS_PROPOSE_ALL) {
        propose_grid(b);
        b->left = each;
    }
    if (proposer == LS_PROPOSE_GREEDY_DEPTH || proposer == LS_PROPOSE_ALL) {
        propose_greedy(b, true);
        b->left = each;
    }
    if (proposer == LS_PROPOSE_GREEDY_SUM || proposer == LS_PROPOSE_ALL) {
        propose_greedy(b, false);
        b->left = each;
    }
    if (proposer == LS_PROPOSE_UNIFORM || proposer == LS_PROPOSE_ALL) {
        propose_uniform(b);
    }
    return proposer == LS_PROPOSE_DYNAMIC ? propose_dynamic(b) : LS_OK;
}

int ls_planner_baseline(ls_planner_result *result, ls_planner_problem *problem,
                        ls_planner_proposer proposer, ls_planner_partitioner partitioner,
                        int64_t proposals_max) {
    LS_ASSERT(result && problem);
    *result = (ls_planner_result){.lower_bound_ms = 0.0, .stop = LS_PLANNER_STOP_NODES};
    double started = ls_time_now();
    baseline b = {.problem = problem, .partitioner = partitioner};
    b.left = proposals_max > 0 ? proposals_max : PROPOSALS_DEFAULT;
    LS_TRY(ls_arena_create(&b.arena));
    int status = prepare(&b);
    status = status == LS_OK ? propose(&b, proposer) : status;
    if (status == LS_OK && b.best.ticks != LS_TICKS_NONE) {
        status = ls_result__fill(result, problem, &b.best);
    }
    result->seconds = ls_time_now() - started;
    ls_arena_free(b.arena);
    return status;
}
