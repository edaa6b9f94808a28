// Costs that no plan can be under.
//
// For a level C: a plan of cost C uses only choices whose largest shard is at most C, their work
// together is at most C on every rank, and no two shards of more than C / 2 share a rank. The least
// C for which all of that can hold is a lower bound. Device memory enters by a price per byte: the
// work of any plan is at least the least sum of (work + price * bytes) less the price of all
// memory, for any price.
#include "planner/problem.h"

#include <math.h>

typedef struct query {
    const ls_planner_problem *problem;
    ls_search_budget *budget;  // for its clock
    unsigned types;            // sharding types allowed
    double multiplier;         // ticks per byte of device memory
} query;

static bool usable(const query *q, const ls_choice *choice, int64_t level) {
    return !choice->dominated && (q->types & (1u << choice->sharding)) &&
           choice->ticks_max <= level;
}

static int64_t shards_above(const ls_choice *choice, int64_t half) {
    int64_t count = 0;
    for (int k = 0; k < choice->shard_count; k++) {
        count += choice->ticks[k] > half;
    }
    return count;
}

// Least total work of choices usable at a level, with the price of memory; false: some item has
// none, or too many shards are large. *hbm: device memory of the choices taken.
static bool least_work(int64_t *work, double *hbm, const query *q, int64_t level) {
    double total = 0.0;
    int64_t exact = 0;
    int64_t large = 0;
    *hbm = 0.0;
    for (int i = 0; i < q->problem->item_count; i++) {
        const ls_item *item = &q->problem->items[i];
        ls_search__look(q->budget, item->choice_count);
        double least = INFINITY;
        const ls_choice *taken = NULL;
        int64_t fewest = INT64_MAX;
        for (int c = 0; c < item->choice_count; c++) {
            const ls_choice *choice = &item->choices[c];
            if (!usable(q, choice, level)) {
                continue;
            }
            double priced = (double)choice->work + q->multiplier * (double)choice->hbm_sum;
            if (priced < least || (priced == least && choice->hbm_sum < taken->hbm_sum)) {
                least = priced;
                taken = choice;
            }
            if (fewest > 0 && choice->ticks_max > level / 2) {
                int64_t above = shards_above(choice, level / 2);
                fewest = above < fewest ? above : fewest;
            } else {
                fewest = 0;
            }
        }
        if (!taken) {
            return false;
        }
        large += fewest;
        if (large > q->problem->ranks) {
            return false;
        }
        total += least;
        exact += taken->work;
        *hbm += (double)taken->hbm_sum;
    }
    double memory = (double)q->problem->hbm_capacity * q->problem->ranks;
    // Sums of doubles are off by less than this; whole ticks need no care.
    *work = exact;
    if (q->multiplier > 0.0) {
        *work = (int64_t)fmax(0.0, total * (1.0 - 1e-12) - q->multiplier * memory * (1.0 + 1e-12));
    }
    return true;
}

static bool level_possible(const query *q, int64_t level) {
    int64_t work;
    double hbm;
    int ranks = q->problem->ranks;
    return least_work(&work, &hbm, q, level) && work / ranks + (work % ranks != 0) <= level;
}

// The least possible level, or LS_TICKS_NONE when it is not under `worth`.
static int64_t least_level(const query *q, int64_t worth) {
    if (worth <= 0 || !level_possible(q, worth - 1)) {
        return LS_TICKS_NONE;
    }
    int64_t low = -1;  // impossible
    int64_t high = worth - 1;
    while (high - low > 1) {
        int64_t middle = low + (high - low) / 2;
        if (level_possible(q, middle)) {
            high = middle;
        } else {
            low = middle;
        }
    }
    return high;
}

// The price of a byte that makes the bound largest, near enough: the one at which the memory of the
// cheapest choices just fits.
static double best_multiplier(const ls_planner_problem *problem, ls_search_budget *budget) {
    query q = {.problem = problem, .budget = budget, .types = ~0u};
    double memory = (double)problem->hbm_capacity * problem->ranks;
    int64_t work;
    double hbm;
    int64_t any = LS_TICKS_NONE / 4;
    if (!least_work(&work, &hbm, &q, any) || hbm <= memory) {
        return 0.0;
    }
    double high = fmax((double)work, 1.0) / fmax(memory, 1.0);
    for (int i = 0; i < 200 && !budget->late; i++) {
        q.multiplier = high;
        (void)least_work(&work, &hbm, &q, any);
        if (hbm <= memory) {
            break;
        }
        high *= 2.0;
    }
    double low = 0.0;
    for (int i = 0; i < 60 && !budget->late; i++) {
        q.multiplier = 0.5 * (low + high);
        (void)least_work(&work, &hbm, &q, any);
        if (hbm <= memory) {
            high = q.multiplier;
        } else {
            low = q.multiplier;
        }
    }
    return high;
}

static bool memory_suffices(const ls_planner_problem *problem) {
    double hbm = 0.0;
    double ddr = 0.0;
    double both = 0.0;
    for (int i = 0; i < problem->item_count; i++) {
        int64_t least_hbm = INT64_MAX;
        int64_t least_ddr = INT64_MAX;
        int64_t least_both = INT64_MAX;
        for (int c = 0; c < problem->items[i].choice_count; c++) {
            const ls_choice *choice = &problem->items[i].choices[c];
            if (!choice->too_large) {
                least_hbm = choice->hbm_sum < least_hbm ? choice->hbm_sum : least_hbm;
                least_ddr = choice->ddr_sum < least_ddr ? choice->ddr_sum : least_ddr;
                int64_t sum = choice->hbm_sum + choice->ddr_sum;
                least_both = sum < least_both ? sum : least_both;
            }
        }
        if (least_hbm == INT64_MAX) {
            return false;
        }
        hbm += (double)least_hbm;
        ddr += (double)least_ddr;
        both += (double)least_both;
    }
    double hbm_most = (double)problem->hbm_capacity * problem->ranks;
    double ddr_most = (double)problem->ddr_capacity * problem->pools;
    return hbm <= hbm_most && ddr <= ddr_most && both <= hbm_most + ddr_most;
}

static unsigned types_present(const ls_planner_problem *problem) {
    unsigned present = 0;
    for (int i = 0; i < problem->item_count; i++) {
        for (int c = 0; c < problem->items[i].choice_count; c++) {
            present |= 1u << problem->items[i].choices[c].sharding;
        }
    }
    return present;
}

static int64_t startup_of(const ls_planner_problem *problem, unsigned types) {
    int64_t sum = 0;
    for (int s = 0; s < LS_SHARDING_COUNT; s++) {
        sum += types & (1u << s) ? problem->startup[s] : 0;
    }
    return sum;
}

// The least level with choices of these types, or LS_TICKS_NONE when it is not under `worth`. Both
// bounds hold, with and without a price on memory, so the larger counts.
static int64_t level_of(const ls_planner_problem *problem, ls_search_budget *budget, unsigned types,
                        int64_t worth) {
    query q = {.problem = problem, .budget = budget, .types = types};
    int64_t level = least_level(&q, worth);
    if (budget->multiplier > 0.0 && level != LS_TICKS_NONE) {
        q.multiplier = budget->multiplier;
        int64_t priced = least_level(&q, worth);
        level = priced > level ? priced : level;
    }
    return level;
}

void ls_bound__root(ls_search_budget *budget, const ls_planner_problem *problem) {
    budget->lower = LS_TICKS_NONE;
    budget->multiplier = 0.0;
    if (!memory_suffices(problem)) {
        return;
    }
    budget->multiplier = best_multiplier(problem, budget);
    unsigned present = types_present(problem);
    // All types without paying for any: a bound, too, and all there is time for when it is late.
    int64_t most = LS_TICKS_NONE / 4;
    budget->lower = level_of(problem, budget, present, most);
    if (budget->lower == LS_TICKS_NONE || startup_of(problem, present) == 0) {
        return;
    }
    // Every set of types pays for itself and allows its own choices; the best set counts.
    int64_t least = most;
    for (unsigned types = 1; types <= present; types++) {
        if (types & ~present) {
            continue;
        }
        if (budget->late) {
            return;
        }
        int64_t pays = startup_of(problem, types);
        int64_t level = level_of(problem, budget, types, least - pays);
        least = level == LS_TICKS_NONE ? least : level + pays;
    }
    budget->lower = least == most ? LS_TICKS_NONE : least;
}

int64_t ls_bound__level(const int64_t *sorted, int count, int64_t work) {
    LS_ASSERT(count >= 1 && work >= 0);
    int64_t left = work;  // fill up to each next load in turn
    for (int i = 1; i < count; i++) {
        int64_t step = sorted[i] - sorted[i - 1];
        if (step >= left / i + (left % i != 0)) {
            return sorted[count - 1];
        }
        left -= step * i;
    }
    return sorted[count - 1] + left / count + (left % count != 0);
}
