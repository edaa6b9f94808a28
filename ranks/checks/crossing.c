// Equal calls of one communicator that a rank makes in another order than others: in one round rank
// a is at line x and rank b at line y, in another one a is at y and b at x. Two branches that match
// on purpose do not cross: each line belongs to one side. If roles alternate, they do;
// docs/ranks.md describes the distinction.
//
// Each round in which a and b are at different lines is an edge from a's line to b's. Calls in
// another order are a cycle of edges: each side makes the same calls there, one by one.
#include <stdio.h>
#include <string.h>

#include "ranks/internal.h"
#include "ranks/checks/sites.h"

#define CLASSES_MAX   16  // members by what they call; more of them change roles, or go their ways
#define CROSSINGS_MAX 16  // of a run
#define AROUND        2   // calls reported before and after

// Two members, and the rounds in which they are at different lines.
typedef struct pair {
    ls_spmd *run;
    const ls_shared_comm *shared;
    const ls_sites *sites;
    int a, b;                     // members
    int edges[LS_SITES_ROUNDS];   // [edge_count] rounds, ascending
    int circle[LS_SITES_ROUNDS];  // [edge_count] the cycle of an edge, from 0; -1: none
    int edge_count;
    int rounds[LS_SITES_ROUNDS];  // [round_count] of the current cycle, ascending
    int round_count;
} pair;

static const ls_site_round *round_at(const pair *p, int round) {
    return &p->sites->rounds[round];
}

static const ls_site *site_at(const pair *p, int round, int member) {
    return ls_sites__at(round_at(p, round), member);
}

// Where a member is in any round.
static ls_site place_at(const pair *p, int round, int member) {
    const ls_site_round *at = round_at(p, round);
    if (at->mixed) {
        return *ls_sites__at(at, member);
    }
    const char *file = at->call.file != NULL ? at->call.file : "";
    return (ls_site){.file = file, .line = at->call.line, .count = at->call.count};
}

// ---- Circles -----------------------------------------------------------------------------------
// Whether calls of either round would have matched those of the other.
static bool same_form(const pair *p, int i, int j) {
    const ls_call *x = &round_at(p, i)->call, *y = &round_at(p, j)->call;
    return x->kind == y->kind && x->dtype == y->dtype && x->op == y->op && x->root == y->root &&
           site_at(p, i, p->a)->count == site_at(p, j, p->a)->count &&
           site_at(p, i, p->b)->count == site_at(p, j, p->b)->count;
}

// The shortest way of earlier edges from b's line of edge `last` back to a's line of it, the newest
// first among equals: next [edge_count] leads along it from the edge that is returned; -1: none.
static int find_way(const pair *p, int last, int *next) {
    int queue[LS_SITES_ROUNDS], head = 0, tail = 0;
    bool seen[LS_SITES_ROUNDS] = {false};
    const ls_site *goal = site_at(p, p->edges[last], p->b);
    queue[tail++] = last;
    while (head < tail) {
        int to = queue[head++];
        const ls_site *at = site_at(p, p->edges[to], p->a);
        for (int e = last - 1; e >= 0; e--) {
            if (seen[e] || p->circle[e] >= 0 || !same_form(p, p->edges[e], p->edges[last]) ||
                !ls_sites__same(site_at(p, p->edges[e], p->b), at)) {
                continue;
            }
            seen[e] = true;
            next[e] = to;
            if (ls_sites__same(site_at(p, p->edges[e], p->a), goal)) {
                return e;
            }
            queue[tail++] = e;
        }
    }
    return -1;
}

static int find_circles(pair *p) {
    int circles = 0, next[LS_SITES_ROUNDS];
    for (int e = 0; e < p->edge_count; e++) {
        p->circle[e] = -1;
    }
    for (int last = 1; last < p->edge_count; last++) {
        int e = find_way(p, last, next);
        if (e < 0) {
            continue;
        }
        for (; e != last; e = next[e]) {
            p->circle[e] = circles;
        }
        p->circle[last] = circles++;
    }
    return circles;
}

static void take_circle(pair *p, int circle) {
    p->round_count = 0;
    for (int e = 0; e < p->edge_count; e++) {
        if (p->circle[e] == circle) {
            p->rounds[p->round_count++] = p->edges[e];
        }
    }
    LS_ASSERT(p->round_count >= 2);
}

// Its index among the cycle's lines; -1: none.
static int line_in_circle(const pair *p, const ls_site *site) {
    for (int i = 0; i < p->round_count; i++) {
        if (ls_sites__same(site_at(p, p->rounds[i], p->a), site)) {
            return i;
        }
    }
    return -1;
}

// ---- Counter-evidence ---------------------------------------------------------------------------
// The two are at one of the lines while the other is elsewhere, outside of any cycle: branches.
static bool meets_otherwise(const pair *p) {
    for (int e = 0; e < p->edge_count; e++) {
        if (p->circle[e] < 0 && (line_in_circle(p, site_at(p, p->edges[e], p->a)) >= 0 ||
                                 line_in_circle(p, site_at(p, p->edges[e], p->b)) >= 0)) {
            return true;
        }
    }
    return false;
}

// For the members that reach the cycle's lines: the number with a and the number with b, each time.
// False: some with neither, so roles change.
static bool count_sides(const pair *p, int *like_a, int *like_b) {
    *like_a = 0;
    *like_b = 0;
    for (int m = 0; m < p->shared->comm->size; m++) {
        bool with_a = true, with_b = true, comes = false;
        for (int r = 0; r < p->sites->count; r++) {
            if (round_at(p, r)->mixed && line_in_circle(p, site_at(p, r, m)) >= 0) {
                const ls_site *site = site_at(p, r, m);
                comes = true;
                with_a = with_a && ls_sites__same(site, site_at(p, r, p->a));
                with_b = with_b && ls_sites__same(site, site_at(p, r, p->b));
            }
        }
        if (comes && !with_a && !with_b) {
            return false;
        }
        *like_a += comes && with_a ? 1 : 0;
        *like_b += comes && with_b ? 1 : 0;
    }
    return true;
}

// Whether a member reaches the cycle's lines in turn: none twice before each of the others.
static bool in_turn(const pair *p, int member) {
    int counts[LS_SITES_ROUNDS] = {0};
    for (int r = 0; r < p->sites->count; r++) {
        const ls_site place = place_at(p, r, member);
        int line = line_in_circle(p, &place);
        if (line < 0) {
            continue;
        }
        counts[line] += 1;
        for (int i = 0; i < p->round_count; i++) {
            if (counts[line] > counts[i] + 1) {
                return false;
            }
        }
    }
    return true;
}

static bool same_memory(const ls_site *a, const ls_site *b) {
    return a->allocation != 0 && a->allocation == b->allocation && a->memory == b->memory &&
           a->allocated_line == b->allocated_line &&
           strcmp(a->allocated_file, b->allocated_file) == 0;
}

// Whether both members go through their memory alike, whatever lines they are at: the lines are two
// ways to take part in the same. Where they are two calls, each has its own data.
static bool same_data(const pair *p) {
    bool moved_alike = true, alike = true;
    for (int i = 0; i < p->round_count; i++) {
        const ls_site *a = site_at(p, p->rounds[i], p->a), *b = site_at(p, p->rounds[i], p->b);
        const ls_site *a_first = site_at(p, p->rounds[0], p->a);
        const ls_site *b_first = site_at(p, p->rounds[0], p->b);
        alike = alike && same_memory(a, b);
        moved_alike = moved_alike && a->allocation == a_first->allocation &&
                      b->allocation == b_first->allocation &&
                      a->memory - a_first->memory == b->memory - b_first->memory;
    }
    return alike || moved_alike;
}

// ---- Telling -----------------------------------------------------------------------------------
static void add_calls(ls_text *text, const pair *p, int member) {
    int first = p->rounds[0], last = p->rounds[p->round_count - 1];
    first = first > AROUND ? first - AROUND : 0;
    last = last + AROUND < p->sites->count ? last + AROUND : p->sites->count - 1;
    ls_text_printf(text, "calls of rank %d on %s, in its order:\n", p->shared->comm->ranks[member],
                   p->shared->comm->name);
    for (int r = first; r <= last; r++) {
        char what[256], where[LS_CALL_WHERE_MAX];
        const ls_site place = place_at(p, r, member);
        ls_call call = round_at(p, r)->call;
        call.file = place.file;
        call.line = place.line;
        call.count = place.count;
        ls_call_describe(what, sizeof what, &call);
        ls_text_printf(text, "  %s at %s%s\n", what, ls_call__where(where, &call),
                       round_at(p, r)->mixed ? " (others at another line)" : "");
    }
}

static void add_side(ls_text *text, const pair *p, int member, const int *ranks, int count,
                     bool majority) {
    char list[128];
    ls_ranks_format(list, sizeof list, ranks, count);
    ls_text_printf(text, "  rank%s %s%s:", count > 1 ? "s" : "", list,
                   majority ? " (the majority)" : "");
    for (int i = 0; i < p->round_count; i++) {
        char where[LS_CALL_WHERE_MAX];
        const ls_site *site = site_at(p, p->rounds[i], member);
        const ls_call call = {.file = site->file, .line = site->line};
        ls_text_printf(text, "%s %s", i > 0 ? ", then" : "", ls_call__where(where, &call));
    }
    ls_text_puts(text, "\n");
}

static bool does_as(const pair *p, int member, int model) {
    bool same = true;
    for (int i = 0; i < p->round_count && same; i++) {
        same = ls_sites__same(site_at(p, p->rounds[i], member), site_at(p, p->rounds[i], model));
    }
    return same;
}

static bool known(const pair *p, const ls_site *where) {
    for (const ls_crossing *at = p->run->crossings; at != NULL; at = at->next) {
        if (at->shared == p->shared && at->ranks[0] == p->shared->comm->ranks[p->b] &&
            (ls_sites__same(&at->first, where) || ls_sites__same(&at->second, where))) {
            return true;
        }
    }
    return false;
}

// b and those that do as it does are at fault.
static int keep(pair *p, bool majority) {
    const ls_comm *comm = p->shared->comm;
    ls_spmd *run = p->run;
    const ls_site *where = site_at(p, p->rounds[0], p->b);
    if (run->crossing_count >= CROSSINGS_MAX || known(p, where)) {
        return LS_OK;
    }
    ls_crossing *made = ls_arena_alloc(run->arena, 1, sizeof *made);
    int *wrong = ls_arena_alloc(run->arena, (size_t)comm->size, sizeof *wrong);
    int *right = ls_arena_alloc(run->arena, (size_t)comm->size, sizeof *right);
    LS_TRY_MEMORY(made != NULL && wrong != NULL && right != NULL);
    int wrong_count = 0, right_count = 0;
    for (int m = 0; m < comm->size; m++) {
        if (does_as(p, m, p->b)) {
            wrong[wrong_count++] = comm->ranks[m];
        } else if (does_as(p, m, p->a)) {
            right[right_count++] = comm->ranks[m];
        }
    }
    char what[256];
    ls_call_describe(what, sizeof what, &round_at(p, p->rounds[0])->call);
    ls_text text = {0};
    ls_text_printf(&text,
                   "the ranks make the same calls in different orders: equal calls, %s, match from "
                   "different lines, so each gets the data of another\n",
                   what);
    add_side(&text, p, p->a, right, right_count, majority);
    add_side(&text, p, p->b, wrong, wrong_count, false);
    add_calls(&text, p, p->b);
    add_calls(&text, p, p->a);
    *made = (ls_crossing){.shared = p->shared,
                          .ranks = wrong,
                          .rank_count = wrong_count,
                          .first = *where,
                          .second = *site_at(p, p->rounds[1], p->b),
                          .text = ls_arena_strdup(run->arena, ls_findings__string(run, &text))};
    ls_text_free(&text);
    LS_TRY_MEMORY(made->text != NULL);
    ls_crossing **end = &run->crossings;
    while (*end != NULL) {
        end = &(*end)->next;
    }
    *end = made;
    run->crossing_count += 1;
    return LS_OK;
}

static int judge_circle(pair *p) {
    int like_a = 0, like_b = 0;
    if (meets_otherwise(p) || !count_sides(p, &like_a, &like_b) || same_data(p)) {
        return LS_OK;
    }
    bool majority = like_a != like_b;
    if (!majority && !in_turn(p, p->a) && !in_turn(p, p->b)) {
        return LS_OK;
    }
    if (like_b <= like_a) {
        return keep(p, majority);
    }
    pair turned = *p;
    turned.a = p->b;
    turned.b = p->a;
    return keep(&turned, majority);
}

// ---- All members -------------------------------------------------------------------------------
static bool same_rounds(const ls_sites *sites, int a, int b) {
    for (int r = 0; r < sites->count; r++) {
        const ls_site_round *round = &sites->rounds[r];
        if (round->mixed && !ls_sites__same(ls_sites__at(round, a), ls_sites__at(round, b))) {
            return false;
        }
    }
    return true;
}

// One member of each class of those that are at the same lines all along: out [CLASSES_MAX].
// Returns how many, or 0: nothing to compare, or too many.
static int find_classes(int *out, const ls_shared_comm *shared) {
    int count = 0;
    for (int m = 0; m < shared->comm->size; m++) {
        int c = 0;
        while (c < count && !same_rounds(shared->sites, m, out[c])) {
            c += 1;
        }
        if (c == CLASSES_MAX) {
            return 0;
        }
        if (c == count) {
            out[count++] = m;
        }
    }
    return count;
}

static int judge_pair(pair *p) {
    p->edge_count = 0;
    for (int r = 0; r < p->sites->count; r++) {
        if (round_at(p, r)->mixed && !ls_sites__same(site_at(p, r, p->a), site_at(p, r, p->b))) {
            p->edges[p->edge_count++] = r;
        }
    }
    int circles = find_circles(p);
    for (int c = 0; c < circles; c++) {
        take_circle(p, c);
        LS_TRY(judge_circle(p));
    }
    return LS_OK;
}

int ls_crossing__find(ls_spmd *run, const ls_shared_comm *shared) {
    int classes[CLASSES_MAX];
    int count = find_classes(classes, shared);
    for (int i = 0; i < count; i++) {
        for (int j = i + 1; j < count; j++) {
            pair p = {.run = run,
                      .shared = shared,
                      .sites = shared->sites,
                      .a = classes[i],
                      .b = classes[j]};
            LS_TRY(judge_pair(&p));
        }
    }
    return LS_OK;
}
