// Why nothing fits, and which single changes would help. Every change offered was planned again and
// has a plan.
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/compare.h"
#include "base/time.h"
#include "planner/problem.h"

#define TABLES_TRIED_MAX 16     // the largest tables are tried first
#define NODES_PER_TRY    50000  // a plan is looked for, not the best one

// ---- Where memory ends --------------------------------------------------------------------------

static int64_t least_memory(const ls_item *item, bool hbm, bool ddr) {
    int64_t least = INT64_MAX;
    for (int c = 0; c < item->choice_count; c++) {
        const ls_choice *choice = &item->choices[c];
        int64_t sum = (hbm ? choice->hbm_sum : 0) + (ddr ? choice->ddr_sum : 0);
        least = sum < least ? sum : least;
    }
    return least;
}

// Bytes that all items at least need of the memories named, more than there are.
static int64_t missing(const ls_planner_problem *problem, bool hbm, bool ddr) {
    double bytes = 0.0;
    for (int i = 0; i < problem->item_count; i++) {
        bytes += (double)least_memory(&problem->items[i], hbm, ddr);
    }
    bytes -= hbm ? (double)problem->hbm_capacity * problem->ranks : 0.0;
    bytes -= ddr ? (double)problem->ddr_capacity * problem->pools : 0.0;
    return bytes > 0.0 ? (int64_t)bytes : 0;
}

static void find_shortage(ls_planner_diagnosis *out, const ls_planner_problem *problem) {
    out->hbm_missing = missing(problem, true, false);
    out->ddr_missing = missing(problem, false, true);
    out->either_missing = missing(problem, true, true);
    out->shortage = out->hbm_missing || out->ddr_missing || out->either_missing;
}

// Of an item without a place, the choice that comes nearest to fitting on the roomiest rank.
static void find_need(ls_planner_diagnosis *out, const ls_item *item) {
    int64_t least = INT64_MAX;
    for (int c = 0; c < item->choice_count; c++) {
        const ls_choice *choice = &item->choices[c];
        int64_t ddr = 0;
        for (int k = 0; k < choice->shard_count; k++) {
            ddr = choice->ddr[k] > ddr ? choice->ddr[k] : ddr;
        }
        int64_t hbm_short = choice->hbm_max - out->roomiest_bytes;
        int64_t ddr_short = ddr - out->roomiest_ddr;
        int64_t lacking = (hbm_short > 0 ? hbm_short : 0) + (ddr_short > 0 ? ddr_short : 0);
        if (lacking < least) {
            least = lacking;
            out->needed_bytes = choice->hbm_max;
            out->needed_ddr = ddr;
            out->needed_as = choice->options[0];
        }
    }
}

typedef struct sized {
    int64_t hbm;  // least that the item, or all that the choice, needs
    int index;
} sized;

static int compare_sizes(const void *a, const void *b) {
    const sized *x = a, *y = b;
    int order = ls_compare(x->hbm, y->hbm);
    return order != 0 ? order : ls_compare(x->index, y->index);
}

// Places an item by the fitting choice with the least memory. False: none fits.
static bool put_smallest(ls_state *state, const ls_item *item, int *place, sized *choices,
                         ls_search_budget *clock) {
    for (int c = 0; c < item->choice_count; c++) {
        choices[c] = (sized){item->choices[c].hbm_sum, c};
    }
    qsort(choices, (size_t)item->choice_count, sizeof(*choices), compare_sizes);
    for (int k = 0; k < item->choice_count; k++) {
        const ls_choice *choice = &item->choices[choices[k].index];
        ls_search__look(clock, ls_search__looks(state->problem, choice));
        if (!choice->too_large && ls_search__put_greedy(state, item, choice, place)) {
            return true;
        }
    }
    return false;
}

static void note_used(ls_planner_diagnosis *out, const ls_planner_problem *problem,
                      const ls_state *state) {
    memcpy(out->hbm_used, state->hbm, (size_t)problem->ranks * sizeof(int64_t));
    memcpy(out->ddr_used, state->ddr, (size_t)problem->pools * sizeof(int64_t));
    for (int r = 0; r < problem->ranks; r++) {
        int64_t left = problem->hbm_capacity - state->hbm[r];
        if (r == 0 || left > out->roomiest_bytes) {
            out->roomiest_bytes = left;
            out->roomiest_rank = r;
        }
    }
    for (int p = 0; p < problem->pools; p++) {
        int64_t left = problem->ddr_capacity - state->ddr[p];
        out->roomiest_ddr = p == 0 || left > out->roomiest_ddr ? left : out->roomiest_ddr;
    }
}

// Puts the largest items first and notes those that find no place.
static int fill_up(ls_planner_diagnosis *out, const ls_planner_problem *problem, ls_arena *arena) {
    ls_state state;
    ls_assignment now;
    LS_TRY(ls_state__create(&state, problem, arena));
    LS_TRY(ls_assignment__create(&now, problem, arena));
    size_t count = (size_t)problem->item_count;
    int most = 1;
    sized *items = ls_arena_alloc(arena, count, sizeof(*items));
    for (int i = 0; items && i < problem->item_count; i++) {
        const ls_item *item = &problem->items[i];
        items[i] = (sized){-least_memory(item, true, false), i};
        most = item->choice_count > most ? item->choice_count : most;
    }
    sized *choices = ls_arena_alloc(arena, (size_t)most, sizeof(*choices));
    LS_TRY_MEMORY(items != NULL && choices != NULL);
    qsort(items, count, sizeof(*items), compare_sizes);
    ls_search_budget clock = {.deadline = problem->deadline > 0.0 ? problem->deadline : INFINITY};
    clock.deadline_first = clock.deadline;
    const ls_item *unplaced = NULL;
    out->first_unplaced = -1;
    for (size_t n = 0; n < count; n++) {
        const ls_item *item = &problem->items[items[n].index];
        // After the deadline the plan stays as it is.
        if (!clock.late && put_smallest(&state, item, now.place[items[n].index], choices, &clock)) {
            continue;
        }
        out->unplaced += item->table_count;
        out->out_of_time = clock.late;
        if (out->first_unplaced < 0 && !clock.late) {
            out->first_unplaced = item->tables[0];
            unplaced = item;
        }
    }
    note_used(out, problem, &state);
    if (unplaced) {
        find_need(out, unplaced);
        int *place = now.place[unplaced - problem->items];
        for (int c = 0; c < unplaced->choice_count && out->blocked == 0; c++) {
            if (!unplaced->choices[c].too_large) {
                out->blocked = ls_search__blocked(&state, unplaced, &unplaced->choices[c], place);
            }
        }
    }
    return LS_OK;
}

// ---- Changes ------------------------------------------------------------------------------------

typedef struct trial {
    ls_planner_diagnosis *out;
    ls_planner_problem *problem;
    ls_topology topology;
    ls_planner_table *tables;  // a copy to change
    int64_t nodes_left;
} trial;

// Whether another change can be tried: how long, in *seconds (0: without limit).
static bool another(trial *t, double *seconds) {
    *seconds = 0.0;
    if (t->out->out_of_nodes || t->out->out_of_time) {
        return false;
    }
    t->out->out_of_nodes = t->nodes_left <= 0;
    if (t->problem->deadline > 0.0) {
        *seconds = t->problem->deadline - ls_time_now();
        t->out->out_of_time = *seconds <= 0.0;
    }
    return !t->out->out_of_nodes && !t->out->out_of_time;
}

static int begin(trial *t) {
    size_t bytes = (size_t)t->problem->table_count * sizeof(*t->tables);
    t->topology = t->problem->topology;
    t->tables = ls_arena_copy(t->problem->arena, t->problem->tables, bytes);
    return t->tables ? LS_OK : LS_ERR_MEMORY;
}

// Plans the changed input; keeps the change if that has a plan. *found may be NULL.
static int try_change(trial *t, bool *found, const char *format, ...) LS_PRINTF(3, 4);
static int try_change(trial *t, bool *found, const char *format, ...) {
    if (found) {
        *found = false;
    }
    ls_planner_options options = t->problem->options;
    if (t->out->change_count == LS_PLANNER_CHANGES_MAX || !another(t, &options.seconds_max)) {
        return LS_OK;
    }
    options.nodes_max = t->nodes_left < NODES_PER_TRY ? t->nodes_left : NODES_PER_TRY;
    options.gap_goal = 1e9;
    options.cut = false;  // independent of the duration of a trial
    ls_planner_problem *problem;
    t->out->tried++;
    int status = ls_planner_problem_create(&problem, &t->topology, t->tables,
                                           t->problem->table_count, &options);
    if (status == LS_ERR_MEMORY) {
        return status;
    }
    if (status != LS_OK) {
        t->out->out_of_time = status == LS_ERR_TIMEOUT;
        return LS_OK;  // else the change makes no sense here
    }
    ls_planner_result result;
    status = ls_planner_solve(&result, problem);
    t->nodes_left -= status == LS_OK ? result.nodes + 1 : 0;
    t->out->out_of_time = status == LS_OK && result.timed_out;
    if (status == LS_OK && result.found) {
        ls_planner_change *change = &t->out->changes[t->out->change_count++];
        va_list args;
        va_start(args, format);
        (void)vsnprintf(change->text, sizeof(change->text), format, args);
        va_end(args);
        change->topology = t->topology;
        change->tables = t->tables;
        change->ms = result.ms;
        if (found) {
            *found = true;
        }
    }
    ls_planner_problem_free(problem);
    return status;
}

// A table's constraints, one at a time, and then the ways to make it smaller.
static int try_table(trial *t, int index) {
    const ls_planner_table *table = &t->problem->tables[index];
    const char *name = table->name;
    if (table->layout) {
        LS_TRY(begin(t));
        t->tables[index].layout = NULL;
        LS_TRY(try_change(t, NULL, "let the planner cut and place table %s", name));
    }
    if (table->rank_count || table->forbidden_count) {
        LS_TRY(begin(t));
        t->tables[index].rank_count = t->tables[index].forbidden_count = 0;
        LS_TRY(try_change(t, NULL, "allow table %s on any rank", name));
    }
    if (table->apart || table->together) {
        LS_TRY(begin(t));
        t->tables[index].apart = t->tables[index].together = NULL;
        LS_TRY(try_change(t, NULL, "drop with and apart for table %s", name));
    }
    static const ls_sharding splits[] = {LS_COLUMN_WISE, LS_TABLE_COLUMN_WISE, LS_TABLE_ROW_WISE,
                                         LS_ROW_WISE, LS_TABLE_WISE};
    for (size_t s = 0; table->shardings && s < sizeof(splits) / sizeof(splits[0]); s++) {
        if (table->shardings & (1u << splits[s])) {
            continue;
        }
        LS_TRY(begin(t));
        t->tables[index].shardings |= 1u << splits[s];
        LS_TRY(try_change(t, NULL, "allow %s for table %s", ls_sharding_name(splits[s]), name));
    }
    int64_t least = table->columns_min ? table->columns_min : 32;
    for (int64_t parts = 2; parts <= 8; parts *= 2) {
        int64_t width = table->columns / parts;
        bool found = false;
        if (table->columns % parts || width % 4 || width < 4 || width >= least) {
            continue;
        }
        LS_TRY(begin(t));
        t->tables[index].columns_min = width;
        LS_TRY(try_change(t, &found, "split table %s into %lld blocks of %lld columns", name,
                          (long long)parts, (long long)width));
        if (found) {
            break;
        }
    }
    if (table->kernels && !(table->kernels & (1u << LS_PLANNER_FUSED_UVM))) {
        LS_TRY(begin(t));
        t->tables[index].kernels |= 1u << LS_PLANNER_FUSED_UVM;
        LS_TRY(try_change(t, NULL, "keep the rows of table %s in host memory (fused_uvm)", name));
    }
    if (table->element_bytes == 4 && !table->row_format) {
        LS_TRY(begin(t));
        t->tables[index].element_bytes = 2;
        LS_TRY(try_change(t, NULL, "store table %s in 2 bytes an element (f16 or bf16)", name));
    }
    return LS_OK;
}

static int try_world(trial *t) {
    static const double factors[] = {0.75, 0.5, 0.25, 0.125};
    bool found = false;
    LS_TRY(begin(t));
    int more = t->problem->hosts > 1 ? t->problem->group : 1;
    t->topology.ranks += more;
    t->topology.ranks_per_host += t->problem->hosts > 1 ? 0 : 1;
    LS_TRY(try_change(t, &found, "one %s more: %d ranks", more > 1 ? "host" : "rank",
                      t->topology.ranks));
    if (!found) {
        LS_TRY(begin(t));
        t->topology.ranks *= 2;
        t->topology.ranks_per_host *= t->problem->hosts > 1 ? 1 : 2;
        LS_TRY(try_change(t, NULL, "twice the ranks: %d", t->topology.ranks));
    }
    for (int f = 0; f < 4; f++) {
        LS_TRY(begin(t));
        for (int i = 0; i < t->problem->table_count; i++) {
            const ls_planner_table *table = &t->tables[i];
            size_t bytes = (size_t)table->feature_count * sizeof(*table->features);
            ls_planner_feature *features = ls_arena_copy(t->problem->arena, table->features, bytes);
            LS_TRY_MEMORY(features != NULL);
            for (int k = 0; k < table->feature_count; k++) {
                features[k].batch = floor(features[k].batch * factors[f]);
            }
            t->tables[i].features = features;
        }
        LS_TRY(try_change(t, &found, "a batch of %g a rank instead of %g",
                          t->tables[0].features[0].batch, t->problem->tables[0].features[0].batch));
        if (found) {
            break;
        }
    }
    return LS_OK;
}

static double table_bytes(const ls_planner_table *table) {
    return (double)table->rows * ls_cost__row_bytes(table, table->columns);
}

static int try_changes(ls_planner_diagnosis *out, ls_planner_problem *problem) {
    const ls_planner_options *options = &problem->options;
    trial t = {.out = out, .problem = problem};
    t.nodes_left = options->nodes_max ? options->nodes_max : LS_PLANNER_NODES_DEFAULT;
    double below = INFINITY;
    int after = -1;
    for (int n = 0; n < TABLES_TRIED_MAX && n < problem->table_count; n++) {
        int best = -1;
        for (int i = 0; i < problem->table_count; i++) {
            double bytes = table_bytes(&problem->tables[i]);
            bool later = bytes < below || (bytes == below && i > after);
            if (later && (best < 0 || bytes > table_bytes(&problem->tables[best]))) {
                best = i;
            }
        }
        LS_ASSERT(best >= 0);
        LS_TRY(try_table(&t, best));
        below = table_bytes(&problem->tables[best]);
        after = best;
    }
    return try_world(&t);
}

int ls_planner_diagnose(ls_planner_diagnosis *out, ls_planner_problem *problem) {
    LS_ASSERT(out && problem);
    memset(out, 0, sizeof(*out));
    out->hbm_used = ls_arena_alloc(problem->arena, (size_t)problem->ranks, sizeof(int64_t));
    out->ddr_used = ls_arena_alloc(problem->arena, (size_t)problem->pools, sizeof(int64_t));
    LS_TRY_MEMORY(out->hbm_used != NULL && out->ddr_used != NULL);
    if (problem->deadline == 0.0 && problem->options.seconds_max > 0.0) {  // not solved before
        problem->deadline = ls_time_now() + problem->options.seconds_max;
    }
    find_shortage(out, problem);
    ls_arena *arena;
    LS_TRY(ls_arena_create(&arena));
    int status = fill_up(out, problem, arena);
    ls_arena_free(arena);
    return status == LS_OK ? try_changes(out, problem) : status;
}

// ---- Telling ------------------------------------------------------------------------------------

static void write_tables(ls_text *out, const ls_planner_problem *problem) {
    ls_text_puts(out, "\nthe cheapest option of each table that fits on an empty machine:\n");
    for (int t = 0; t < problem->table_count; t++) {
        const ls_planner_option *best = NULL;
        double best_ms = INFINITY;
        int64_t least = INT64_MAX;
        for (int o = 0; o < problem->option_counts[t]; o++) {
            const ls_planner_option *option = &problem->table_options[t][o];
            double ms = 0.0;
            int64_t largest = 0;
            int64_t largest_ddr = 0;
            for (int k = 0; k < option->shard_count; k++) {
                ms = fmax(ms, ls_planner_cost_total(&option->shards[k].cost));
                int64_t hbm = option->shards[k].hbm_bytes;
                int64_t ddr = option->shards[k].ddr_bytes;
                largest = hbm > largest ? hbm : largest;
                largest_ddr = ddr > largest_ddr ? ddr : largest_ddr;
            }
            bool fits = largest <= problem->hbm_capacity && largest_ddr <= problem->ddr_capacity;
            least = largest < least && largest_ddr <= problem->ddr_capacity ? largest : least;
            if (fits && ms < best_ms) {
                best = option;
                best_ms = ms;
            }
        }
        ls_text_printf(out, "  %s: ", problem->tables[t].name);
        if (best) {
            ls_text_printf(out, "%s %s, %d shards, %.4g ms on its most loaded rank\n",
                           ls_sharding_name(best->sharding), ls_planner_kernel_name(best->kernel),
                           best->shard_count, best_ms);
        } else {
            ls_text_printf(out, "none; its least shard takes %lld bytes of the %lld on a rank\n",
                           (long long)least, (long long)problem->hbm_capacity);
        }
    }
}

static void write_blocked(ls_text *out, const ls_planner_problem *problem,
                          const ls_planner_diagnosis *diagnosis) {
    for (int i = 0; i < problem->item_count; i++) {
        const ls_item *item = &problem->items[i];
        if (item->tables[0] == diagnosis->first_unplaced) {
            ls_search__write_blocked(out, problem, item, diagnosis->blocked);
            ls_text_printf(out, " leaves no rank for table %s, although memory has room for it",
                           problem->tables[diagnosis->first_unplaced].name);
        }
    }
}

int ls_planner_write_diagnosis(ls_text *out, const ls_planner_problem *problem,
                               const ls_planner_diagnosis *diagnosis) {
    LS_ASSERT(out && problem && diagnosis);
    if (diagnosis->shortage) {
        const char *names[3] = {"device memory", "host memory", "device and host memory together"};
        int64_t bytes[3] = {diagnosis->hbm_missing, diagnosis->ddr_missing,
                            diagnosis->either_missing};
        const char *join = "";
        ls_text_puts(out, "shortage: all ranks together lack at least ");
        for (int i = 0; i < 3; i++) {
            if (bytes[i] > 0) {
                ls_text_printf(out, "%s%lld bytes of %s", join, (long long)bytes[i], names[i]);
                join = ", ";
            }
        }
        ls_text_puts(out, "\n");
    } else if (diagnosis->blocked != 0) {
        ls_text_puts(out, "constraints: ");
        write_blocked(out, problem, diagnosis);
        ls_text_puts(out, "\n");
    } else {
        ls_text_puts(out,
                     "fragmentation: there is enough memory in all, but not in pieces that the "
                     "tables, as they may be cut, need\n");
    }
    if (diagnosis->first_unplaced >= 0 && diagnosis->blocked == 0) {
        const ls_planner_option *as = diagnosis->needed_as;
        ls_text_printf(
            out,
            "table %s finds no place: nearest as %s %s, whose largest shard takes %lld bytes "
            "of device memory and %lld of host memory; most left is %lld (rank %d) and %lld\n",
            problem->tables[diagnosis->first_unplaced].name, ls_sharding_name(as->sharding),
            ls_planner_kernel_name(as->kernel), (long long)diagnosis->needed_bytes,
            (long long)diagnosis->needed_ddr, (long long)diagnosis->roomiest_bytes,
            diagnosis->roomiest_rank, (long long)diagnosis->roomiest_ddr);
    }
    ls_text_printf(out, "with %d of %d tables placed, the ranks hold\n",
                   problem->table_count - diagnosis->unplaced, problem->table_count);
    for (int r = 0; r < problem->ranks; r++) {
        ls_text_printf(out, "  rank %d: %lld of %lld bytes\n", r, (long long)diagnosis->hbm_used[r],
                       (long long)problem->hbm_capacity);
    }
    write_tables(out, problem);
    const char *cut;
    if (diagnosis->out_of_time) {
        cut = "; the clock cut this: another run may offer others";
    } else {
        cut = diagnosis->out_of_nodes ? "; the limit of nodes left out the rest" : "";
    }
    ls_text_printf(out,
                   "\nsingle changes with which a plan exists (%d tried, each planned again%s):\n",
                   diagnosis->tried, cut);
    for (int i = 0; i < diagnosis->change_count; i++) {
        ls_text_printf(out, "  %s: %.5g ms\n", diagnosis->changes[i].text,
                       diagnosis->changes[i].ms);
    }
    if (diagnosis->change_count == 0) {
        ls_text_puts(out, "  none of them\n");
    }
    return out->failed ? LS_FAIL(LS_ERR_MEMORY, "no memory for the report") : LS_OK;
}
