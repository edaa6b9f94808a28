// Compares the recordings of two runs of a program. See exec_runs.h.
#include "runner/replay/exec_runs.h"

#include <stdlib.h>
#include <string.h>

#include "collectives/collectives.h"
#include "formats/json_read.h"

#define JSON_BYTES_MAX ((size_t)1 << 30)

// A rank's part in a call.
typedef struct part {
    json_int_t rank, number;
    const char *sequence;  // the sequence that has the program's order: "" for the first thread's
                           // calls; for other threads the communicator
    const json_t *entry, *member;
    bool any;  // a receive from any rank, which may differ in correct programs
} part;

typedef struct recorded {
    json_t *root;
    part *parts;  // by rank, sequence and number
    size_t count;
} recorded;

// Parts at the same place of both runs; NULL if a run has no such call.
typedef struct pair {
    const part *first, *second;
} pair;

typedef struct comparison {
    const ls_exec_runs *runs;
    recorded run[2];
    pair *pairs;  // by rank and the first run's number
    size_t pair_count;
    uint64_t compared, by_bytes, followed, any, summed;
    const part *followed_first;
    pair parted, other_data, wrong;  // the first of each; .first and .second NULL: none
} comparison;

// ---- Reading ------------------------------------------------------------------------------------
static const char *text_of(const json_t *object, const char *key) {
    const char *text = json_string_value(json_object_get(object, key));
    return text != NULL ? text : "";
}

static int compare_numbers(json_int_t a, json_int_t b) {
    return (a > b) - (a < b);
}

static int by_place(const void *left, const void *right) {
    const part *a = left, *b = right;
    int order = compare_numbers(a->rank, b->rank);
    order = order != 0 ? order : strcmp(a->sequence, b->sequence);
    return order != 0 ? order : compare_numbers(a->number, b->number);
}

static int by_number(const void *left, const void *right) {
    const part *a = ((const pair *)left)->first, *b = ((const pair *)right)->first;
    int order = compare_numbers(a->rank, b->rank);
    return order != 0 ? order : compare_numbers(a->number, b->number);
}

static void add_parts(recorded *to, const json_t *entry) {
    const json_t *ranks = json_object_get(entry, "ranks");
    const json_t *members = json_object_get(entry, "members");
    for (size_t m = 0; m < json_array_size(members); m++) {
        const json_t *member = json_array_get(members, m);
        to->parts[to->count++] = (part){
            .rank = json_integer_value(json_array_get(ranks, m)),
            .number = json_integer_value(json_object_get(member, "number")),
            .sequence =
                json_is_true(json_object_get(member, "main")) ? "" : text_of(entry, "communicator"),
            .entry = entry,
            .member = member,
            .any = json_is_true(json_object_get(member, "any")),
        };
    }
}

static int read_run(recorded *out, const char *dir) {
    ls_text path = {0};
    ls_text_printf(&path, "%s/exec.json", dir);
    int status = path.failed ? LS_FAIL(LS_ERR_MEMORY, "no memory")
                             : ls_json_read(&out->root, ls_text_string(&path), JSON_BYTES_MAX);
    ls_text_free(&path);
    LS_TRY(status);
    const json_t *calls = json_object_get(out->root, "calls");
    size_t count = 0;
    for (size_t i = 0; i < json_array_size(calls); i++) {
        count += json_array_size(json_object_get(json_array_get(calls, i), "members"));
    }
    out->parts = calloc(count + 1, sizeof *out->parts);
    LS_TRY(out->parts != NULL ? LS_OK : LS_FAIL(LS_ERR_MEMORY, "no memory"));
    for (size_t i = 0; i < json_array_size(calls); i++) {
        add_parts(out, json_array_get(calls, i));
    }
    LS_ASSERT(out->count == count);
    qsort(out->parts, count, sizeof *out->parts, by_place);
    return LS_OK;
}

// ---- Calls --------------------------------------------------------------------------------------
static bool is_same_call(const part *a, const part *b) {
    static const char *const keys[] = {"call", "dtype", "count",   "op",
                                       "root", "ranks", "factors", "communicator"};
    for (size_t k = 0; k < sizeof keys / sizeof *keys; k++) {
        const json_t *left = json_object_get(a->entry, keys[k]);
        const json_t *right = json_object_get(b->entry, keys[k]);
        if (left != right && (left == NULL || right == NULL || !json_equal(left, right))) {
            return false;
        }
    }
    return true;
}

static bool is_together(const part *a, const part *b) {
    return a->rank == b->rank && strcmp(a->sequence, b->sequence) == 0;
}

static json_int_t number_of(const pair *at) {
    return at->first != NULL ? at->first->number : at->second->number;
}

static json_int_t rank_of(const pair *at) {
    return at->first != NULL ? at->first->rank : at->second->rank;
}

static void keep_first(pair *kept, pair found) {
    bool none = kept->first == NULL && kept->second == NULL;
    int order = none ? -1 : compare_numbers(number_of(&found), number_of(kept));
    order = order != 0 ? order : compare_numbers(rank_of(&found), rank_of(kept));
    *kept = order < 0 ? found : *kept;
}

static const part *part_at(const recorded *run, size_t at) {
    return at < run->count ? &run->parts[at] : NULL;
}

// Skips receives from any rank, whose order is not determined.
static size_t skip_any(comparison *c, const recorded *run, size_t at) {
    while (at < run->count && run->parts[at].any) {
        if (run == &c->run[0]) {
            c->pairs[c->pair_count++] = (pair){&run->parts[at], NULL};
            c->any += 1;
        }
        at++;
    }
    return at;
}

static size_t skip_sequence(const recorded *run, size_t at, const part *of) {
    while (at < run->count && is_together(&run->parts[at], of)) {
        at++;
    }
    return at;
}

// Pairs the calls of each sequence, up to the first that differs.
static int pair_calls(comparison *c) {
    c->pairs = calloc(c->run[0].count + 1, sizeof *c->pairs);
    LS_TRY(c->pairs != NULL ? LS_OK : LS_FAIL(LS_ERR_MEMORY, "no memory"));
    for (size_t i = 0, j = 0;;) {
        i = skip_any(c, &c->run[0], i);
        j = skip_any(c, &c->run[1], j);
        const part *a = part_at(&c->run[0], i), *b = part_at(&c->run[1], j);
        if (a == NULL && b == NULL) {
            break;
        }
        bool together = a != NULL && b != NULL && is_together(a, b);
        if (together && is_same_call(a, b)) {
            c->pairs[c->pair_count++] = (pair){a, b};
            i++;
            j++;
            continue;
        }
        bool first = a != NULL && (b == NULL || together || by_place(a, b) < 0);
        bool second = b != NULL && (a == NULL || together || by_place(b, a) < 0);
        keep_first(&c->parted, (pair){first ? a : NULL, second ? b : NULL});
        const part *of = first ? a : b;
        i = skip_sequence(&c->run[0], i, of);
        j = skip_sequence(&c->run[1], j, of);
    }
    qsort(c->pairs, c->pair_count, sizeof *c->pairs, by_number);
    return LS_OK;
}

// ---- Data ---------------------------------------------------------------------------------------
static bool is_same_side(const json_t *a, const json_t *b, const char *side) {
    return strcmp(text_of(a, side), text_of(b, side)) == 0;
}

static bool is_all_sent_same(const json_t *a, const json_t *b) {
    const json_t *left = json_object_get(a, "members"), *right = json_object_get(b, "members");
    for (size_t m = 0; m < json_array_size(left); m++) {
        if (!is_same_side(json_array_get(left, m), json_array_get(right, m), "sent")) {
            return false;
        }
    }
    return true;
}

static bool is_sum(const json_t *entry) {
    return json_object_get(entry, "op") != NULL;
}

// The received data of a call that is not replayed: equal inputs give equal data.
static void compare_received(comparison *c, const pair *at) {
    if (json_object_get(at->second->entry, "file") != NULL) {
        return;
    }
    if (is_sum(at->first->entry)) {
        c->summed += 1;
    } else if (is_all_sent_same(at->first->entry, at->second->entry)) {
        c->by_bytes += 1;
        if (!is_same_side(at->first->member, at->second->member, "received")) {
            keep_first(&c->wrong, *at);
        }
    }
}

static bool has_side(const part *of, const char *side) {
    return text_of(of->member, side)[0] != 0;
}

static void compare_data(comparison *c) {
    json_int_t rank = -1;
    bool same = true;  // all data that the rank has received so far
    for (size_t p = 0; p < c->pair_count; p++) {
        const pair *at = &c->pairs[p];
        same = same || at->first->rank != rank;
        rank = at->first->rank;
        if (at->second == NULL) {
            same = false;
            continue;
        }
        if (!has_side(at->first, "sent") && !has_side(at->first, "received") &&
            !has_side(at->second, "sent") && !has_side(at->second, "received")) {
            continue;
        }
        if (is_same_side(at->first->member, at->second->member, "sent")) {
            c->compared += 1;
            compare_received(c, at);
        } else if (same) {
            keep_first(&c->other_data, *at);
            same = false;
        } else {
            c->followed += 1;
            c->followed_first = c->followed_first != NULL ? c->followed_first : at->first;
        }
        same = same && is_same_side(at->first->member, at->second->member, "received");
    }
}

// ---- The report ---------------------------------------------------------------------------------
static void describe(ls_text *out, const part *of) {
    if (of == NULL) {
        ls_text_puts(out, "no such call\n");
        return;
    }
    const json_t *entry = of->entry, *ranks = json_object_get(entry, "ranks");
    const char *op = text_of(entry, "op");
    ls_kind kind = LS_BARRIER;
    (void)ls_kind_parse(&kind, text_of(entry, "call"));
    bool message = ls_kind_is_message(kind);
    if (message) {
        ls_text_printf(out, "message from rank %lld to rank %lld",
                       json_integer_value(json_array_get(ranks, 0)),
                       json_integer_value(json_array_get(ranks, 1)));
    } else {
        ls_text_printf(out, "%s%s%s", ls_kind_name(kind), op[0] != 0 ? " " : "", op);
    }
    if (message || ls_collective_has_data(ls_collective_of(kind))) {
        json_int_t count = json_integer_value(json_object_get(entry, "count"));
        ls_text_puts(out, " of ");
        if (count > 0) {  // else it has no count, or one for each rank
            ls_text_printf(out, "%lld ", count);
        }
        ls_text_puts(out, text_of(entry, "dtype"));
    }
    if (!message && ls_collective_of(kind)->root_word != NULL) {
        ls_text_printf(out, ", root %lld", json_integer_value(json_object_get(entry, "root")));
    }
    ls_text_printf(out, " on %s at %s\n", text_of(entry, "communicator"),
                   text_of(of->member, "where"));
}

static int add_finding(ls_case_result *to, ls_arena *arena, const comparison *c, ls_finding_id id,
                       const pair *at) {
    const part *of = at->second != NULL ? at->second : at->first;
    int *ranks = ls_arena_alloc(arena, 1, sizeof *ranks);
    LS_TRY(ranks != NULL ? LS_OK : LS_ERR_MEMORY);
    ranks[0] = (int)of->rank;
    ls_text text = {0};
    if (id == LS_FINDING_RUNS_CALLS_DIFFER) {
        ls_text_printf(&text,
                       "rank %lld makes a different call in the second run, its call %lld:\n",
                       of->rank, number_of(at));
    } else {
        ls_text_printf(&text,
                       "rank %lld sends different data in the second run, in its call %lld, "
                       "although it had received the same data\n",
                       of->rank, number_of(at));
    }
    ls_text_printf(&text, "  the first run: ");
    describe(&text, at->first);
    ls_text_printf(&text, "  on %s: ", c->runs->real);
    describe(&text, at->second);
    ls_text_puts(&text, id == LS_FINDING_RUNS_CALLS_DIFFER
                            ? "  later calls are not compared"
                            : "  likely causes: random numbers without a seed, the time, or files "
                              "of an earlier run; dependent data is not compared");
    to->findings[to->finding_count++] =
        (ls_finding){.id = id,
                     .ranks = ranks,
                     .rank_count = 1,
                     .where = ls_arena_strdup(arena, text_of(of->member, "where")),
                     .text = ls_result_text(arena, &text)};
    return LS_OK;
}

static void add_stage(ls_case_result *to, const char *name, uint64_t elements, uint64_t differing) {
    if (elements > 0) {
        to->stages[to->stage_count++] =
            (ls_stage_result){.name = name,
                              .judge = LS_JUDGE_REAL,
                              .class_ = differing > 0 ? LS_CLASS_WRONG : LS_CLASS_BIT_EXACT,
                              .elements = elements,
                              .differing = differing};
    }
}

static void tell_uncompared(ls_text *summary, const comparison *c) {
    if (c->followed > 0) {
        ls_text_printf(summary,
                       "not compared: the data sent in %llu calls that follow from a sum in "
                       "another order or a receive from any rank; the first is rank %lld's ",
                       (unsigned long long)c->followed, c->followed_first->rank);
        describe(summary, c->followed_first);
    }
    if (c->summed > 0) {
        ls_text_printf(summary,
                       "not compared: the results of %llu sums with counts for each rank\n",
                       (unsigned long long)c->summed);
    }
    if (c->any > 0) {
        ls_text_printf(summary, "not compared: %llu receives from any rank\n",
                       (unsigned long long)c->any);
    }
}

static bool is_any(const pair *at) {
    return at->first != NULL || at->second != NULL;
}

static int report(ls_results *results, ls_text *summary, const comparison *c) {
    ls_arena *arena = results->arena;
    ls_case_result row = {.name = c->runs->name,
                          .file = c->runs->file,
                          .backend = "sim",
                          .real = c->runs->real,
                          .reproduce = c->runs->reproduce};
    row.stages = ls_arena_alloc(arena, 2, sizeof *row.stages);
    row.findings = ls_arena_alloc(arena, 2, sizeof *row.findings);
    LS_TRY(row.stages != NULL && row.findings != NULL ? LS_OK : LS_ERR_MEMORY);
    add_stage(&row, "what ranks sent", c->compared, 0);
    add_stage(&row, "what messages and uneven calls gave", c->by_bytes, is_any(&c->wrong) ? 1 : 0);
    if (is_any(&c->parted)) {
        LS_TRY(add_finding(&row, arena, c, LS_FINDING_RUNS_CALLS_DIFFER, &c->parted));
    }
    if (is_any(&c->other_data)) {
        LS_TRY(add_finding(&row, arena, c, LS_FINDING_RUNS_INPUTS_DIFFER, &c->other_data));
    }
    row.pass = row.finding_count == 0 && !is_any(&c->wrong);
    if (is_any(&c->wrong)) {
        ls_text text = {0};
        ls_text_printf(&text,
                       "rank %lld received different data in the same call: ", rank_of(&c->wrong));
        describe(&text, c->wrong.second);
        row.stages[row.stage_count - 1].divergence = ls_result_text(arena, &text);
    }
    row.skipped = row.pass && c->compared == 0;
    row.skip_reason = row.skipped ? "no call had data to compare in both runs" : NULL;
    tell_uncompared(summary, c);
    return ls_results_add(results, &row);
}

int ls_exec_runs_compare(ls_results *results, ls_text *summary, uint64_t *compared,
                         const ls_exec_runs *runs) {
    LS_ASSERT(results != NULL && summary != NULL && compared != NULL && runs != NULL);
    LS_ASSERT(runs->first != NULL && runs->second != NULL && runs->name != NULL);
    comparison c = {.runs = runs};
    int status = read_run(&c.run[0], runs->first);
    status = status == LS_OK ? read_run(&c.run[1], runs->second) : status;
    status = status == LS_OK ? pair_calls(&c) : status;
    if (status == LS_OK) {
        compare_data(&c);
        *compared = c.compared;
        status = report(results, summary, &c);
    }
    free(c.pairs);
    for (int r = 0; r < 2; r++) {
        free(c.run[r].parts);
        json_decref(c.run[r].root);
    }
    return status;
}
