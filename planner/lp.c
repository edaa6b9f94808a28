// The problem as a mixed-integer program in CPLEX LP format, for independent solvers.
//
// x_i_c: item i takes choice c. y_i_c_u_p: its unit u is at place p. h_i_c_g: all its units are on
// host g. C: the most loaded rank's cost. w_s: sharding type s is in use.
#include "planner/problem.h"

#include <stdarg.h>
#include <stdio.h>

typedef struct writer {
    ls_text *out;
    const ls_planner_problem *problem;
    int terms;  // on the present line
    int rows;
} writer;

static void row(writer *w, const char *name) {
    ls_text_printf(w->out, "\n %s%d:", name, w->rows++);
    w->terms = 0;
}

static void term(writer *w, double factor, const char *format, ...) LS_PRINTF(3, 4);
static void term(writer *w, double factor, const char *format, ...) {
    char name[96];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(name, sizeof(name), format, args);
    va_end(args);
    ls_text_printf(w->out, "%s %s %.17g %s", w->terms % 6 == 5 ? "\n  " : "",
                   factor < 0.0 ? "-" : "+", factor < 0.0 ? -factor : factor, name);
    w->terms++;
}

static double ms_of(const ls_planner_problem *problem, int64_t ticks) {
    return (double)ticks / problem->ticks_per_ms;
}

static int places(const ls_planner_problem *problem, const ls_choice *choice) {
    if (choice->fit == LS_FIT_ALL) {
        return 1;
    }
    return choice->fit == LS_FIT_HOST ? problem->hosts : problem->ranks;
}

static bool allowed(const ls_planner_problem *problem, const ls_item *item, const ls_choice *choice,
                    int unit, int place) {
    for (int k = 0; !choice->pinned && item->allowed && k < choice->unit_shards; k++) {
        int shard = unit * choice->unit_shards + k;
        if (!item->allowed[ls_problem__rank(problem, choice, shard, place)]) {
            return false;
        }
    }
    return true;
}

// Memory is counted in shares of the capacity: solvers lose their way among numbers of all sizes.
static double capacity(int64_t bytes) {
    return bytes > 0 ? (double)bytes : 1.0;
}

typedef enum resource { LOAD, HBM, DDR } resource;

// The part of that limit that a shard takes at its place.
static double share_of(const ls_planner_problem *problem, const ls_choice *choice, resource kind,
                       int shard) {
    if (kind == LOAD) {
        return ms_of(problem, choice->ticks[shard]);
    }
    return kind == HBM ? (double)choice->hbm[shard] / capacity(problem->hbm_capacity)
                       : (double)choice->ddr[shard] / capacity(problem->ddr_capacity);
}

// The terms of everything that item units put on `where` (a rank, or a pool for DDR). *most: the
// largest that any one adds.
static void resource_terms(writer *w, resource kind, int where) {
    const ls_planner_problem *problem = w->problem;
    for (int i = 0; i < problem->item_count; i++) {
        const ls_item *item = &problem->items[i];
        for (int c = 0; c < item->choice_count; c++) {
            const ls_choice *choice = &item->choices[c];
            for (int u = 0; u < choice->unit_count; u++) {
                for (int p = 0; p < places(problem, choice); p++) {
                    double sum = 0.0;
                    for (int k = 0; k < choice->unit_shards; k++) {
                        int shard = u * choice->unit_shards + k;
                        int rank = ls_problem__rank(problem, choice, shard, p);
                        bool here = where == (kind == DDR ? ls_problem__pool(problem, rank) : rank);
                        if (here) {
                            sum += share_of(problem, choice, kind, shard);
                        }
                    }
                    if (sum != 0.0) {
                        term(w, sum, "y_%d_%d_%d_%d", i, c, u, p);
                    }
                }
            }
        }
    }
}

static void write_choices(writer *w) {
    const ls_planner_problem *problem = w->problem;
    for (int i = 0; i < problem->item_count; i++) {
        const ls_item *item = &problem->items[i];
        row(w, "one_");
        for (int c = 0; c < item->choice_count; c++) {
            term(w, 1.0, "x_%d_%d", i, c);
        }
        ls_text_puts(w->out, " = 1");
        for (int c = 0; c < item->choice_count; c++) {
            const ls_choice *choice = &item->choices[c];
            for (int u = 0; u < choice->unit_count; u++) {
                row(w, "place_");
                for (int p = 0; p < places(problem, choice); p++) {
                    if (allowed(problem, item, choice, u, p)) {
                        term(w, 1.0, "y_%d_%d_%d_%d", i, c, u, p);
                    }
                }
                term(w, -1.0, "x_%d_%d", i, c);
                ls_text_puts(w->out, " = 0");
                for (int p = 0; p < places(problem, choice); p++) {
                    if (!allowed(problem, item, choice, u, p)) {
                        row(w, "never_");
                        term(w, 1.0, "y_%d_%d_%d_%d", i, c, u, p);
                        ls_text_puts(w->out, " = 0");
                    }
                    if (choice->fit == LS_FIT_HOST_RANK) {
                        row(w, "host_");
                        term(w, 1.0, "y_%d_%d_%d_%d", i, c, u, p);
                        term(w, -1.0, "h_%d_%d_%d", i, c, p / problem->group);
                        ls_text_puts(w->out, " <= 0");
                    }
                }
            }
            if (choice->fit == LS_FIT_HOST_RANK) {
                row(w, "onehost_");
                for (int g = 0; g < problem->hosts; g++) {
                    term(w, 1.0, "h_%d_%d_%d", i, c, g);
                }
                term(w, -1.0, "x_%d_%d", i, c);
                ls_text_puts(w->out, " = 0");
            }
            if (problem->startup[choice->sharding] > 0) {
                row(w, "type_");
                term(w, 1.0, "x_%d_%d", i, c);
                term(w, -1.0, "w_%d", choice->sharding);
                ls_text_puts(w->out, " <= 0");
            }
        }
    }
}

// Two items of one apart group share no rank: no unit of the one where a unit of the other is.
static void write_apart(writer *w) {
    const ls_planner_problem *problem = w->problem;
    for (int g = 0; problem->any_apart && g < LS_PLANNER_APART_MAX; g++) {
        for (int r = 0; r < problem->ranks; r++) {
            int members = 0;
            for (int i = 0; i < problem->item_count; i++) {
                members += (int)((problem->items[i].apart >> g) & 1);
            }
            if (members < 2) {
                break;
            }
            row(w, "apart_");
            for (int i = 0; i < problem->item_count; i++) {
                if ((problem->items[i].apart >> g) & 1) {
                    term(w, 1.0, "on_%d_%d", i, r);
                }
            }
            ls_text_puts(w->out, " <= 1");
        }
    }
    for (int i = 0; i < problem->item_count; i++) {
        const ls_item *item = &problem->items[i];
        for (int c = 0; item->apart && c < item->choice_count; c++) {
            const ls_choice *choice = &item->choices[c];
            for (int shard = 0; shard < choice->shard_count; shard++) {
                int u = shard / choice->unit_shards;
                for (int p = 0; p < places(problem, choice); p++) {
                    row(w, "on_");
                    term(w, 1.0, "y_%d_%d_%d_%d", i, c, u, p);
                    term(w, -1.0, "on_%d_%d", i, ls_problem__rank(problem, choice, shard, p));
                    ls_text_puts(w->out, " <= 0");
                }
            }
        }
    }
}

static void write_binaries(writer *w) {
    const ls_planner_problem *problem = w->problem;
    ls_text_puts(w->out, "\nBinary\n");
    for (int i = 0; i < problem->item_count; i++) {
        const ls_item *item = &problem->items[i];
        for (int r = 0; item->apart && r < problem->ranks; r++) {
            ls_text_printf(w->out, " on_%d_%d\n", i, r);
        }
        for (int c = 0; c < item->choice_count; c++) {
            const ls_choice *choice = &item->choices[c];
            ls_text_printf(w->out, " x_%d_%d\n", i, c);
            for (int u = 0; u < choice->unit_count; u++) {
                for (int p = 0; p < places(problem, choice); p++) {
                    ls_text_printf(w->out, " y_%d_%d_%d_%d\n", i, c, u, p);
                }
            }
            for (int g = 0; choice->fit == LS_FIT_HOST_RANK && g < problem->hosts; g++) {
                ls_text_printf(w->out, " h_%d_%d_%d\n", i, c, g);
            }
        }
    }
    for (int s = 0; s < LS_SHARDING_COUNT; s++) {
        if (problem->startup[s] > 0) {
            ls_text_printf(w->out, " w_%d\n", s);
        }
    }
}

int ls_planner_write_lp(ls_text *out, const ls_planner_problem *problem) {
    LS_ASSERT(out && problem);
    writer w = {.out = out, .problem = problem};
    ls_text_puts(out, "\\ lockstep plan\nMinimize\n cost:");
    term(&w, 1.0, "C");
    for (int s = 0; s < LS_SHARDING_COUNT; s++) {
        if (problem->startup[s] > 0) {
            term(&w, ms_of(problem, problem->startup[s]), "w_%d", s);
        }
    }
    ls_text_puts(out, "\nSubject To");
    write_choices(&w);
    for (int r = 0; r < problem->ranks; r++) {
        row(&w, "load_");
        resource_terms(&w, LOAD, r);
        term(&w, -1.0, "C");
        ls_text_puts(out, " <= 0");
        row(&w, "hbm_");
        resource_terms(&w, HBM, r);
        term(&w, 0.0, "C");  // a row must have a variable
        ls_text_puts(out, problem->hbm_capacity > 0 ? " <= 1" : " <= 0");
    }
    for (int p = 0; p < problem->pools; p++) {
        row(&w, "ddr_");
        resource_terms(&w, DDR, p);
        term(&w, 0.0, "C");
        ls_text_puts(out, problem->ddr_capacity > 0 ? " <= 1" : " <= 0");
    }
    write_apart(&w);
    write_binaries(&w);
    ls_text_puts(out, "End\n");
    return out->failed ? LS_FAIL(LS_ERR_MEMORY, "plan: no memory for the program text") : LS_OK;
}
