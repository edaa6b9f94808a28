// Why a table went where it went, and the picture of the ranks.
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "planner/problem.h"

typedef struct alternative {
    int choice;
    int64_t ticks;     // of the plan with it; LS_TICKS_NONE: it fits nowhere beside the others
    unsigned blocked;  // then the constraints that keep it from fitting; 0: memory does
} alternative;

static void describe(ls_text *out, const ls_choice *choice, int member) {
    const ls_planner_option *option = choice->options[member];
    ls_text_printf(out, "%s %s", ls_sharding_name(option->sharding),
                   ls_planner_kernel_name(option->kernel));
    if (option->column_blocks > 1) {
        ls_text_printf(out, ", %d blocks of %lld columns", option->column_blocks,
                       (long long)option->shards[0].block.columns);
    }
}

static double ms_of(const ls_planner_problem *problem, int64_t ticks) {
    return (double)ticks / problem->ticks_per_ms;
}

static int find_item(const ls_planner_problem *problem, int table, int *member) {
    for (int i = 0; i < problem->item_count; i++) {
        for (int m = 0; m < problem->items[i].table_count; m++) {
            if (problem->items[i].tables[m] == table) {
                *member = m;
                return i;
            }
        }
    }
    return -1;
}

static int find_table(const ls_planner_problem *problem, const char *name, int *table) {
    const char *near = NULL;
    size_t least = 4;
    for (int t = 0; t < problem->table_count; t++) {
        if (strcmp(problem->tables[t].name, name) == 0) {
            *table = t;
            return LS_OK;
        }
        size_t distance = ls_edit_distance(problem->tables[t].name, name, 3);
        if (distance < least) {
            least = distance;
            near = problem->tables[t].name;
        }
    }
    return LS_FAIL(LS_ERR_NOT_FOUND, "no table is called \"%s\"%s%s%s", name,
                   near ? "; did you mean \"" : "", near ? near : "", near ? "\"?" : "");
}

// One line per choice, cheapest plan first (choices are few, so a simple sort).
static void sort_alternatives(alternative *list, int count) {
    for (int i = 1; i < count; i++) {
        alternative x = list[i];
        int at = i;
        while (at > 0 && list[at - 1].ticks > x.ticks) {
            list[at] = list[at - 1];
            at--;
        }
        list[at] = x;
    }
}

static void write_alternative(ls_text *out, const ls_planner_problem *problem, const ls_item *item,
                              int member, const alternative *other, int64_t now) {
    const ls_choice *choice = &item->choices[other->choice];
    ls_text_puts(out, "  ");
    describe(out, choice, member);
    ls_text_printf(out, ": %.5g ms in all, %.5g ms on its most loaded rank, %.4g GiB of HBM",
                   ms_of(problem, choice->work), ms_of(problem, choice->ticks_max),
                   (double)choice->hbm_sum / 1073741824.0);
    if (choice->too_large) {
        ls_text_puts(out, "; larger than any rank\n");
    } else if (other->ticks == LS_TICKS_NONE && other->blocked != 0) {
        ls_text_puts(out, "; ");
        ls_search__write_blocked(out, problem, item, other->blocked);
        ls_text_puts(out, " leaves no rank for it\n");
    } else if (other->ticks == LS_TICKS_NONE) {
        ls_text_puts(out, "; the memory that the other tables leave is too small\n");
    } else {
        ls_text_printf(out, "; the plan would cost %.6g ms (%+.3g %%)\n",
                       ms_of(problem, other->ticks),
                       100.0 * ((double)other->ticks / (double)now - 1.0));
    }
}

static int explain(ls_text *out, const ls_planner_problem *problem, const ls_planner_result *result,
                   int table, ls_arena *arena) {
    int member = 0;
    int index = find_item(problem, table, &member);
    LS_ASSERT(index >= 0);
    const ls_item *item = &problem->items[index];
    const ls_assignment *assignment = ls_result__assignment(problem, result);
    ls_state state;
    ls_assignment now;
    LS_TRY(ls_state__create(&state, problem, arena));
    LS_TRY(ls_assignment__create(&now, problem, arena));
    ls_assignment__copy(&now, assignment, problem);
    int64_t cost = ls_assignment__evaluate(problem, &now, &state);
    LS_ASSERT(cost != LS_TICKS_NONE);
    const ls_choice *chosen = &item->choices[now.choice[index]];
    alternative *list = ls_arena_alloc(arena, (size_t)item->choice_count, sizeof(*list));
    LS_TRY_MEMORY(list != NULL);
    ls_text_printf(out, "%s: ", problem->tables[table].name);
    describe(out, chosen, member);
    ls_text_puts(out, " on");
    for (int k = 0; k < result->plan.tables[table].shard_count; k++) {
        const ls_plan_shard *shard = &result->plan.tables[table].shards[k];
        ls_text_printf(out, "%s rank %d (%.4g of its %.4g ms)", k ? "," : "", shard->rank,
                       ls_planner_cost_total(&result->shards[table][k].cost),
                       result->ranks[shard->rank].ms);
    }
    if (item->table_count > 1) {
        ls_text_printf(out, "\nkept together with %d other tables (%s)", item->table_count - 1,
                       problem->tables[table].together);
    }
    ls_text_printf(out, "\nthe plan costs %.6g ms; with all other tables where they are:\n",
                   ms_of(problem, cost));
    ls_state__take_item(&state, item, chosen, now.place[index]);
    int count = 0;
    for (int c = 0; c < item->choice_count; c++) {
        const ls_choice *choice = &item->choices[c];
        if (c == assignment->choice[index]) {
            continue;
        }
        list[count] = (alternative){.choice = c, .ticks = LS_TICKS_NONE};
        if (!choice->too_large && ls_search__put_greedy(&state, item, choice, now.place[index])) {
            list[count].ticks = ls_state__max(&state) + ls_state__startup(&state);
            ls_state__take_item(&state, item, choice, now.place[index]);
        } else if (!choice->too_large) {
            list[count].blocked = ls_search__blocked(&state, item, choice, now.place[index]);
        }
        count++;
    }
    sort_alternatives(list, count);
    for (int i = 0; i < count; i++) {
        write_alternative(out, problem, item, member, &list[i], cost);
    }
    if (count && list[0].ticks != LS_TICKS_NONE) {
        ls_text_puts(out, "next best: ");
        describe(out, &item->choices[list[0].choice], member);
        ls_text_puts(out, "\n");
    }
    return out->failed ? LS_FAIL(LS_ERR_MEMORY, "no memory for the explanation") : LS_OK;
}

int ls_planner_explain(ls_text *out, const ls_planner_problem *problem,
                       const ls_planner_result *result, const char *name) {
    LS_ASSERT(out && problem && result && name);
    int table = 0;
    if (!result->found) {
        return LS_FAIL(LS_ERR_INVALID, "there is no plan to explain");
    }
    LS_TRY(find_table(problem, name, &table));
    ls_arena *arena;
    LS_TRY(ls_arena_create(&arena));
    int status = explain(out, problem, result, table, arena);
    ls_arena_free(arena);
    return status;
}

// ---- The picture --------------------------------------------------------------------------------

#define BAR_LEFT   60
#define BAR_WIDTH  420
#define BAR_HEIGHT 14
#define ROW_HEIGHT 22

static void bar(ls_text *out, double x, double y, double width, const char *fill,
                const char *title) {
    if (width > 0.0) {
        ls_text_printf(out,
                       "<rect x=\"%.2f\" y=\"%.1f\" width=\"%.2f\" height=\"%d\" fill=\"%s\">"
                       "<title>%s</title></rect>\n",
                       x, y, width, BAR_HEIGHT, fill, title);
    }
}

static const char *const fills[5] = {"#4477aa", "#66ccee", "#228833", "#ccbb44", "#aa3377"};
static const char *const names[5] = {"forward compute", "forward communication", "backward compute",
                                     "backward communication", "prefetch"};

static void draw_legend(ls_text *out, double y) {
    double x = BAR_LEFT;
    for (int i = 0; i < 5; i++) {
        ls_text_printf(out, "<rect x=\"%.1f\" y=\"%.1f\" width=\"10\" height=\"10\" fill=\"%s\"/>",
                       x, y - 9.0, fills[i]);
        ls_text_printf(out, "<text x=\"%.1f\" y=\"%.1f\">%s</text>\n", x + 14.0, y, names[i]);
        x += 32.0 + 6.5 * (double)strlen(names[i]);
    }
}

static void draw_rank(ls_text *out, const ls_planner_rank *rank, int r, double most, double y) {
    double parts[5] = {rank->cost.forward_compute_ms, rank->cost.forward_comms_ms,
                       rank->cost.backward_compute_ms, rank->cost.backward_comms_ms,
                       rank->cost.prefetch_ms};
    double x = BAR_LEFT;
    ls_text_printf(out, "<text x=\"4\" y=\"%.1f\">%d</text>\n", y + 11.0, r);
    for (int i = 0; i < 5; i++) {
        double width = most > 0.0 ? parts[i] / most * BAR_WIDTH : 0.0;
        char title[96];
        (void)snprintf(title, sizeof(title), "rank %d, %s: %.5g ms", r, names[i], parts[i]);
        bar(out, x, y, width, fills[i], title);
        x += width;
    }
    double left = BAR_LEFT + BAR_WIDTH + 90.0;
    double share =
        rank->hbm_capacity > 0 ? (double)rank->hbm_bytes / (double)rank->hbm_capacity : 0.0;
    char title[96];
    (void)snprintf(title, sizeof(title), "rank %d: %lld of %lld bytes", r,
                   (long long)rank->hbm_bytes, (long long)rank->hbm_capacity);
    ls_text_printf(out, "<text x=\"%.1f\" y=\"%.1f\">%.3g ms</text>\n", BAR_LEFT + BAR_WIDTH + 6.0,
                   y + 11.0, rank->ms);
    ls_text_printf(out,
                   "<rect x=\"%.1f\" y=\"%.1f\" width=\"200\" height=\"%d\" fill=\"none\" "
                   "stroke=\"#888888\"/>\n",
                   left, y, BAR_HEIGHT);
    bar(out, left, y, 200.0 * share, share > 0.95 ? "#ee6677" : "#bbbbbb", title);
}

int ls_planner_write_svg(ls_text *out, const ls_planner_problem *problem,
                         const ls_planner_result *result) {
    LS_ASSERT(out && problem && result);
    if (!result->found) {
        return LS_FAIL(LS_ERR_INVALID, "there is no plan to draw");
    }
    double most = 0.0;
    for (int r = 0; r < problem->ranks; r++) {
        most = fmax(most, result->ranks[r].ms);
    }
    int height = 70 + ROW_HEIGHT * problem->ranks;
    ls_text_printf(out,
                   "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"800\" height=\"%d\" "
                   "font-family=\"sans-serif\" font-size=\"11\">\n"
                   "<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n"
                   "<text x=\"4\" y=\"14\">cost %.6g ms: startup %.6g ms and the longest rank's "
                   "time; lower bound %.6g ms (dashed)</text>\n"
                   "<text x=\"4\" y=\"54\">rank</text><text x=\"%d\" y=\"54\">time, without "
                   "startup</text><text x=\"%d\" y=\"54\">device memory</text>\n",
                   height, result->ms, result->startup_ms, result->lower_bound_ms, BAR_LEFT,
                   BAR_LEFT + BAR_WIDTH + 90);
    draw_legend(out, 34.0);
    for (int r = 0; r < problem->ranks; r++) {
        draw_rank(out, &result->ranks[r], r, most, 62.0 + ROW_HEIGHT * r);
    }
    double x =
        BAR_LEFT +
        (most > 0.0 ? (result->lower_bound_ms - result->startup_ms) / most : 0.0) * BAR_WIDTH;
    if (x >= BAR_LEFT && x <= BAR_LEFT + BAR_WIDTH) {
        ls_text_printf(out,
                       "<line x1=\"%.2f\" y1=\"58\" x2=\"%.2f\" y2=\"%d\" stroke=\"#000000\" "
                       "stroke-dasharray=\"3,3\"/>\n",
                       x, x, height - 6);
    }
    ls_text_puts(out, "</svg>\n");
    return out->failed ? LS_FAIL(LS_ERR_MEMORY, "no memory for the picture") : LS_OK;
}
