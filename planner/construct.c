// First plans: one choice per item by a price on work and memory, then the largest shards first,
// each on the least loaded rank that has room. Tried for several prices and size limits.
#include "base/compare.h"
#include "planner/problem.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct ordered {
    int64_t key;
    int item;
} ordered;

#define NODES_ALWAYS 20000

typedef struct builder {
    const ls_planner_problem *problem;
    ls_search_budget *budget;
    ls_assignment now;
    ls_assignment family;  // best of the recipes that are alike
    ls_state state;
    ordered *order;  // [items]
} builder;

typedef struct recipe {
    double memory_price;  // ticks per byte of device memory
    int64_t level;        // choices with a larger shard are avoided
    unsigned types;       // sharding types used where an item has a choice of them
    bool by_memory;       // the largest memory first, instead of the largest cost
} recipe;

static int compare_ordered(const void *a, const void *b) {
    const ordered *x = a, *y = b;
    int order = ls_compare(y->key, x->key);
    return order != 0 ? order : ls_compare(x->item, y->item);
}

unsigned ls_search__blocked(ls_state *state, const ls_item *item, const ls_choice *choice,
                            int *place) {
    for (unsigned lifted = 1; lifted <= (LS_BLOCKED_APART | LS_BLOCKED_RANKS); lifted++) {
        ls_item free = *item;
        free.apart = (lifted & LS_BLOCKED_APART) != 0 ? 0 : item->apart;
        free.allowed = (lifted & LS_BLOCKED_RANKS) != 0 ? NULL : item->allowed;
        if (ls_search__put_greedy(state, &free, choice, place)) {
            ls_state__take_item(state, &free, choice, place);
            return lifted;
        }
    }
    return 0;
}

static bool is_of(const ls_item *item, int table) {
    bool found = false;
    for (int m = 0; m < item->table_count; m++) {
        found = found || item->tables[m] == table;
    }
    return found;
}

#define NAMED_MAX 4  // tables that share `apart`

static void write_apart(ls_text *out, const ls_planner_problem *problem, const ls_item *item,
                        const char *apart) {
    int count = 0;
    ls_text_printf(out, "'apart: %s'", apart);
    for (int t = 0; t < problem->table_count; t++) {
        const ls_planner_table *other = &problem->tables[t];
        if (is_of(item, t) || other->apart == NULL || strcmp(other->apart, apart) != 0) {
            continue;
        }
        if (count < NAMED_MAX) {
            ls_text_printf(out, "%s%s", count == 0 ? " with " : ", ", other->name);
        }
        count++;
    }
    if (count > NAMED_MAX) {
        ls_text_printf(out, " and %d more", count - NAMED_MAX);
    }
}

void ls_search__write_blocked(ls_text *out, const ls_planner_problem *problem, const ls_item *item,
                              unsigned blocked) {
    const char *between = "";
    for (int m = 0; m < item->table_count && (blocked & LS_BLOCKED_APART) != 0; m++) {
        const ls_planner_table *table = &problem->tables[item->tables[m]];
        bool told = table->apart == NULL;
        for (int k = 0; k < m && !told; k++) {
            const char *before = problem->tables[item->tables[k]].apart;
            told = before != NULL && strcmp(before, table->apart) == 0;
        }
        if (!told) {
            ls_text_puts(out, between);
            write_apart(out, problem, item, table->apart);
            between = " and ";
        }
    }
    if ((blocked & LS_BLOCKED_RANKS) != 0) {
        bool only = false, not_on = false;
        for (int m = 0; m < item->table_count; m++) {
            only = only || problem->tables[item->tables[m]].rank_count > 0;
            not_on = not_on || problem->tables[item->tables[m]].forbidden_count > 0;
        }
        ls_text_printf(out, "%s%s%s%s", between, only ? "'only_ranks'" : "",
                       only && not_on ? " and " : "", not_on ? "'not_ranks'" : "");
    }
}

static double price(const recipe *how, const ls_choice *choice) {
    return (double)choice->work + how->memory_price * (double)choice->hbm_sum;
}

// The cheapest choice at the recipe's prices; those over its level or outside its types only when
// there is no other.
static int choose(const recipe *how, const ls_item *item) {
    int best = -1;
    int best_rank = 0;
    for (int c = 0; c < item->choice_count; c++) {
        const ls_choice *choice = &item->choices[c];
        if (choice->dominated) {
            continue;
        }
        int rank = (choice->ticks_max <= how->level ? 1 : 0) +
                   (how->types & (1u << choice->sharding) ? 2 : 0);
        if (best < 0 || rank > best_rank ||
            (rank == best_rank && price(how, choice) < price(how, &item->choices[best]))) {
            best = c;
            best_rank = rank;
        }
    }
    return best;
}

// Another choice for an item whose first one found no room: the cheapest that fits.
static bool place_otherwise(builder *b, int index, const recipe *how) {
    const ls_item *item = &b->problem->items[index];
    int best = -1;
    for (int c = 0; c < item->choice_count; c++) {
        const ls_choice *choice = &item->choices[c];
        if (choice->dominated ||
            (best >= 0 && price(how, choice) >= price(how, &item->choices[best]))) {
            continue;
        }
        ls_search__count(b->budget, 0, ls_search__looks(b->problem, choice));
        if (ls_search__put_greedy(&b->state, item, choice, b->now.place[index])) {
            ls_state__take_item(&b->state, item, choice, b->now.place[index]);
            best = c;
        }
    }
    if (best < 0) {
        return false;
    }
    b->now.choice[index] = best;
    return ls_search__put_greedy(&b->state, item, &item->choices[best], b->now.place[index]);
}

// must: there is no plan yet, so the nodes do not count, and the clock only after what takes some
// hundredths of a second.
static bool spent(const builder *b, bool must) {
    if (must) {
        return b->budget->late && b->budget->nodes >= NODES_ALWAYS;
    }
    return ls_search__over(b->budget, LS_TICKS_NONE);
}

static void build(builder *b, const recipe *how, bool must) {
    const ls_planner_problem *problem = b->problem;
    ls_state__clear(&b->state);
    b->now.ticks = LS_TICKS_NONE;
    for (int i = 0; i < problem->item_count; i++) {
        b->now.choice[i] = choose(how, &problem->items[i]);
        const ls_choice *choice = &problem->items[i].choices[b->now.choice[i]];
        int64_t key = how->by_memory ? choice->hbm_max : choice->ticks_max;
        // A table on all ranks has no choice of place, so it goes first.
        b->order[i] = (ordered){choice->fit == LS_FIT_ALL ? INT64_MAX : key, i};
    }
    qsort(b->order, (size_t)problem->item_count, sizeof(*b->order), compare_ordered);
    ls_search__count(b->budget, 1, problem->item_count);
    for (int k = 0; k < problem->item_count; k++) {
        int i = b->order[k].item;
        const ls_item *item = &problem->items[i];
        const ls_choice *choice = &item->choices[b->now.choice[i]];
        if (spent(b, must)) {
            return;
        }
        ls_search__count(b->budget, 0, ls_search__looks(problem, choice));
        if (!ls_search__put_greedy(&b->state, item, choice, b->now.place[i]) &&
            !place_otherwise(b, i, how)) {
            return;
        }
    }
    b->now.ticks = ls_state__max(&b->state) + ls_state__startup(&b->state);
}

static void keep_better(ls_assignment *best, const builder *b) {
    if (b->now.ticks < best->ticks) {
        ls_assignment__copy(best, &b->now, b->problem);
        ls_search__found(b->budget);
    }
}

#define FAMILY_ROUNDS 8
static const double memory_factors[] = {0.0, 1.0, 2.0, 8.0, 64.0, 1e6};
static const double level_factors[] = {1.0, 0.8, 0.6, 0.45, 0.3, 0.2, 4.0};
static const unsigned type_sets[] = {
    ~0u,
    1u << LS_TABLE_WISE | 1u << LS_COLUMN_WISE,
    1u << LS_TABLE_WISE | 1u << LS_COLUMN_WISE | 1u << LS_TABLE_ROW_WISE,
    1u << LS_TABLE_WISE | 1u << LS_COLUMN_WISE | 1u << LS_ROW_WISE,
    1u << LS_TABLE_WISE | 1u << LS_COLUMN_WISE | 1u << LS_DATA_PARALLEL,
    1u << LS_TABLE_WISE,
};
#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

// All recipes of one price and one set of types; the best of them is worth a little improvement.
// tried: families were tried before this one; the first goes on until there is a plan, beyond the
// budget, so that a plan that is easy to find is found in no time at all.
static int try_family(ls_assignment *best, builder *b, double memory_price, unsigned types,
                      bool tried, ls_arena *arena) {
    ls_search_budget *budget = b->budget;
    ls_assignment *family = &b->family;
    family->ticks = LS_TICKS_NONE;
    for (size_t l = 0; l < COUNT(level_factors); l++) {
        for (int by_memory = 0; by_memory < 2; by_memory++) {
            recipe how = {.memory_price = memory_price,
                          .level = (int64_t)(level_factors[l] * (double)budget->lower),
                          .types = types,
                          .by_memory = by_memory != 0};
            bool must = !tried && best->ticks == LS_TICKS_NONE;
            if (spent(b, must)) {
                return LS_OK;
            }
            build(b, &how, must);
            keep_better(family, b);
            if (family->ticks < best->ticks) {
                ls_assignment__copy(best, family, b->problem);
            }
        }
    }
    if (family->ticks == LS_TICKS_NONE || ls_search__over(budget, best->ticks)) {
        return LS_OK;
    }
    LS_TRY(ls_search__improve(family, b->problem, budget, FAMILY_ROUNDS, arena));
    if (family->ticks < best->ticks) {
        ls_assignment__copy(best, family, b->problem);
    }
    return LS_OK;
}

int ls_search__construct(ls_assignment *best, const ls_planner_problem *problem,
                         ls_search_budget *budget, ls_arena *arena) {
    builder b = {.problem = problem, .budget = budget};
    LS_TRY(ls_state__create(&b.state, problem, arena));
    LS_TRY(ls_assignment__create(&b.now, problem, arena));
    LS_TRY(ls_assignment__create(&b.family, problem, arena));
    b.order = ls_arena_alloc(arena, (size_t)problem->item_count, sizeof(*b.order));
    LS_TRY_MEMORY(b.order != NULL);
    // Without a price from the bound, one at which all memory is worth all the time there is.
    double memory = fmax(1.0, (double)problem->hbm_capacity * problem->ranks);
    double unit = budget->multiplier > 0.0 ? budget->multiplier
                                           : (double)budget->lower * problem->ranks / memory;
    for (size_t m = 0; m < COUNT(memory_factors); m++) {
        for (size_t t = 0; t < COUNT(type_sets); t++) {
            bool tried = m > 0 || t > 0;
            if (tried && ls_search__over(budget, best->ticks)) {
                return LS_OK;
            }
            LS_TRY(try_family(best, &b, memory_factors[m] * unit, type_sets[t], tried, arena));
        }
    }
    return LS_OK;
}
