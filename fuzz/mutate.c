// Defects in the user's own scenario, by the mechanisms of scenarios: faults, exceptions of ranks,
// shards that do not add up to their table.
#include "fuzz/mutate.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz/scenario_text.h"
#include "fuzz/trial.h"
#include "ranks/fault.h"
#include "runner/scenario/scenario.h"

#define CALLS_MAX   64  // of a rank, in which defects are injected
#define RANKS_TRIED 3   // the first, one in the midst, the last
#define NOTICED_MAX 8   // checks that a row of the table names

// Kinds of defects, as the table calls them.
#define KIND_MAP(X)                                                                                \
    X(CALL_LEFT_OUT, "a call left out")                                                            \
    X(CALL_TWICE, "a call made twice")                                                             \
    X(BIT_FLIPPED, "a bit flipped")                                                                \
    X(WRONG_COUNT, "a wrong count")                                                                \
    X(ROUTED_WRONG, "something misrouted")                                                         \
    X(RANK_DIES, "a rank dies")                                                                    \
    X(WRONG_DIVISOR, "a wrong divisor")                                                            \
    X(DUPLICATES_DROPPED, "duplicates dropped")                                                    \
    X(OTHERS_STATE, "another shard's state")                                                       \
    X(TOO_EARLY, "an early update")                                                                \
    X(STALE_ROWS, "stale rows")                                                                    \
    X(OTHER_OPERATION, "another operation")                                                        \
    X(OTHER_ROOT, "another root")                                                                  \
    X(OTHER_TYPE, "another type")                                                                  \
    X(OTHER_ORDER, "another order")                                                                \
    X(RANKS_SWAPPED, "two ranks swapped")                                                          \
    X(STALE_BUFFER, "a stale buffer")                                                              \
    X(ROWS_OFF_BY_ONE, "a shard off by one")

enum {
#define KIND_ENUM(kind, text) kind,
    KIND_MAP(KIND_ENUM)
#undef KIND_ENUM
        KIND_COUNT
};

static const char *const kind_names[KIND_COUNT] = {
#define KIND_NAME(kind, text) text,
    KIND_MAP(KIND_NAME)
#undef KIND_NAME
};

static const struct {
    int kind;
    const char *type;
    int64_t index;  // -1: it takes none
    bool of_training;
} faults[] = {
    {CALL_LEFT_OUT, "skip_call", -1, false},
    {CALL_TWICE, "double_call", -1, false},
    {BIT_FLIPPED, "bit_flip", 0, false},
    {BIT_FLIPPED, "bit_flip", 30, false},
    {WRONG_COUNT, "wrong_count", 1, false},
    {ROUTED_WRONG, "wrong_split", 1, false},
    {RANK_DIES, "die", -1, false},
    {WRONG_DIVISOR, "gradient_divided_twice", 0, true},
    {DUPLICATES_DROPPED, "duplicate_counted_once", 0, true},
    {OTHERS_STATE, "state_of_another_shard", 0, true},
    {TOO_EARLY, "early_update", 0, true},
    {STALE_ROWS, "stale_rows", 0, true},
};
#define FAULT_COUNT (sizeof faults / sizeof *faults)

typedef struct row {
    int injected, noticed, nothing, survived;
    const char *by[NOTICED_MAX];
    int times[NOTICED_MAX];
} row;

typedef struct mutating {
    ls_results *results;
    const char *file;
    const json_t *tree;
    const ls_run_options *options;
    int ranks, left;
    row rows[KIND_COUNT];
    ls_fuzz_end last;  // how the last one ended
} mutating;

// ---- One defect ---------------------------------------------------------------------------------
static void note(mutating *m, int kind, const char *by) {
    row *to = &m->rows[kind];
    for (int i = 0; i < NOTICED_MAX; i++) {
        if (to->by[i] == NULL || strcmp(to->by[i], by) == 0) {
            to->by[i] = by;
            to->times[i] += 1;
            return;
        }
    }
}

// How more would be noticed.
enum { DEFAULT_CHECKS, PROOF, EXACT_NUMBERS, REMEDY_COUNT };
static const char *const remedies[REMEDY_COUNT] = {
    "without its checks: the default ones would notice it", "`lockstep prove` would notice it",
    "with numbers that add up exactly in any order (exact) and checks: {oracle: bit_exact} the "
    "oracle would"};

static int remedied(json_t **out, const json_t *scenario, int remedy) {
    json_t *tree = json_deep_copy(scenario);
    json_t *program = json_object_get(tree, "program");
    json_t *lists[] = {json_object_get(tree, "tables"), json_object_get(program, "tensors")};
    static const char *const keys[] = {"weights", "values"};
    bool failed = tree == NULL;
    (void)json_object_del(tree, "checks");
    for (int l = 0; remedy == EXACT_NUMBERS && l < 2; l++) {
        for (size_t i = 0; i < json_array_size(lists[l]); i++) {
            json_t *of = json_array_get(lists[l], i);
            failed |= json_object_set_new(of, keys[l], json_string("exact")) != 0;
        }
    }
    if (remedy == EXACT_NUMBERS && !failed) {
        json_t *checks = json_pack("{s:s}", "oracle", "bit_exact");
        failed = json_object_set_new(tree, "checks", checks) != 0;
    }
    *out = tree;
    return failed ? LS_FAIL(LS_ERR_MEMORY, "cannot change a scenario") : LS_OK;
}

static int end_remedied(ls_fuzz_end *end, const mutating *m, const json_t *scenario, int remedy) {
    ls_fuzz_outcome outcome = {.end = LS_FUZZ_UNFIT};
    json_t *tree = NULL;
    int status = LS_OK;
    if (remedy == PROOF) {
        status = ls_fuzz_prove(&outcome, scenario, m->file, m->options);
    } else {
        status = remedied(&tree, scenario, remedy);
        status = status == LS_OK ? ls_fuzz_try(&outcome, tree, m->file, 0, m->options) : status;
    }
    json_decref(tree);
    *end = outcome.end;
    return status;
}

// The first remedy under which the scenario passes, and fails with the defect. NULL: none is.
static int ask_remedies(const char **would, const mutating *m, const json_t *injected) {
    *would = NULL;
    for (int remedy = 0; remedy < REMEDY_COUNT && *would == NULL; remedy++) {
        ls_fuzz_end clean, found;
        LS_TRY(end_remedied(&clean, m, m->tree, remedy));
        LS_TRY(end_remedied(&found, m, injected, remedy));
        *would = clean == LS_FUZZ_PASSED && found == LS_FUZZ_FOUND ? remedies[remedy] : NULL;
    }
    return LS_OK;
}

static int add_case(mutating *m, int kind, const char *what, const ls_fuzz_outcome *outcome,
                    const json_t *injected) {
    ls_arena *arena = m->results->arena;
    row *to = &m->rows[kind];
    const char *by = ls_arena_strdup(arena, outcome->sign), *would = NULL;
    ls_case_result result = {
        .name = ls_arena_printf(arena, "%s: %s", kind_names[kind], what),
        .file = ls_arena_strdup(arena, m->file),
        .backend = "sim",
        .class_ = outcome->class_,
        .reproduce = ls_result_command(arena, "lockstep mutate", m->file),
    };
    to->injected += 1;
    if (outcome->end == LS_FUZZ_FOUND) {
        to->noticed += 1;
        result.pass = true;
        result.noticed_by = by;
        note(m, kind, by != NULL ? by : "");
    } else if (outcome->end == LS_FUZZ_HARMLESS) {
        to->nothing += 1;
        result.skipped = true;
        result.skip_reason = "it changes no bit of any output";
    } else {
        to->survived += 1;
        result.class_ = LS_CLASS_ERROR;
        LS_TRY(ask_remedies(&would, m, injected));
        result.error =
            ls_arena_printf(arena, "outputs changed but no check noticed; %s",
                            would != NULL ? would : "the exact-arithmetic oracle would not either");
    }
    return ls_results_add(m->results, &result);
}

// Tries a tree with a defect, which is taken. One that does not fit is none.
static int try_defect(mutating *m, int kind, const char *what, json_t *injected, bool failed) {
    ls_fuzz_outcome outcome = {.end = LS_FUZZ_UNFIT};
    int status =
        injected == NULL || failed ? LS_FAIL(LS_ERR_MEMORY, "cannot inject a defect") : LS_OK;
    if (status == LS_OK && m->left > 0) {
        status = ls_fuzz_try(&outcome, injected, m->file, 0, m->options);
    }
    m->last = outcome.end;
    // Shards that do not make up the table are no injected fault to the verdict.
    if (kind == ROWS_OFF_BY_ONE && outcome.end == LS_FUZZ_FAILED &&
        outcome.class_ != LS_CLASS_UNJUDGED) {
        outcome.end = LS_FUZZ_FOUND;
        (void)snprintf(outcome.sign, sizeof outcome.sign, "%s",
                       outcome.class_ == LS_CLASS_ERROR ? "the plan's check" : "oracle");
    }
    if (status == LS_OK && outcome.end == LS_FUZZ_ENVIRONMENT) {
        status = LS_FAIL(LS_ERR_BACKEND, "%s", outcome.text);
    }
    if (status == LS_OK && outcome.end != LS_FUZZ_UNFIT && outcome.end != LS_FUZZ_MISSED) {
        m->left -= 1;
        status = add_case(m, kind, what, &outcome, injected);
    }
    json_decref(injected);
    return status;
}

// ---- Kinds --------------------------------------------------------------------------------------
static int rank_tried(const mutating *m, int which) {
    if (which == 0) {
        return 0;
    }
    return which == 1 ? m->ranks - 1 : m->ranks / 2;
}

static int inject_fault(mutating *m, size_t which, int rank, int call) {
    char what[120];
    json_t *tree = json_deep_copy(m->tree);
    json_t *fault = json_pack("{s:s, s:i}", "type", faults[which].type, "rank", rank);
    bool failed = false;
    if (!faults[which].of_training) {
        failed |= json_object_set_new(fault, "call", json_integer(call)) != 0;
        int length = snprintf(what, sizeof what, "{type: %s, rank: %d, call: %d",
                              faults[which].type, rank, call);
        if (faults[which].index >= 0) {
            failed |= json_object_set_new(fault, "index", json_integer(faults[which].index)) != 0;
            length += snprintf(what + length, sizeof what - (size_t)length, ", index: %" PRId64,
                               faults[which].index);
        }
        (void)snprintf(what + length, sizeof what - (size_t)length, "}");
    } else {
        (void)snprintf(what, sizeof what, "{type: %s, rank: %d}", faults[which].type, rank);
    }
    failed |= json_object_set_new(tree, "faults", json_pack("[o]", fault)) != 0;
    return try_defect(m, faults[which].kind, what, tree, failed);
}

static int inject_faults(mutating *m) {
    int tried = m->ranks < RANKS_TRIED ? m->ranks : RANKS_TRIED;
    for (int t = 0; t < tried; t++) {
        int rank = rank_tried(m, t), calls = 0;
        do {  // the first kind gives the number of calls
            LS_TRY(inject_fault(m, 0, rank, calls++));
        } while (m->last != LS_FUZZ_MISSED && m->last != LS_FUZZ_UNFIT && calls < CALLS_MAX);
        for (size_t which = 1; which < FAULT_COUNT; which++) {
            int most = faults[which].of_training ? 1 : calls - 1;
            for (int call = 0; call < most; call++) {
                LS_TRY(inject_fault(m, which, rank, call));
            }
        }
    }
    return LS_OK;
}

// One rank deviates from step `number`.
static int inject_except(mutating *m, size_t number, int kind, const char *key, json_t *value) {
    json_t *tree = json_deep_copy(m->tree);
    json_t *steps = json_object_get(json_object_get(tree, "program"), "steps");
    json_t *step = json_array_get(steps, number);
    json_t *keys = json_object_iter_value(json_object_iter(step));
    json_t *ranks = json_object_get(keys, "ranks");
    int64_t rank = json_array_size(ranks) > 0
                       ? json_integer_value(json_array_get(ranks, json_array_size(ranks) - 1))
                       : m->ranks - 1;
    json_t *text = json_copy(value);
    char *said = json_dumps(text, JSON_ENCODE_ANY);
    char what[160];
    (void)snprintf(what, sizeof what, "step %zu (%s): ranks: [%lld], %s: %s", number,
                   json_object_iter_key(json_object_iter(step)), (long long)rank, key,
                   said != NULL ? said : "");
    json_decref(text);
    free(said);
    json_t *except = json_pack("{s:[I], s:o}", "ranks", (json_int_t)rank, key, value);
    bool failed = json_object_set_new(keys, "except", json_pack("[o]", except)) != 0;
    return try_defect(m, kind, what, tree, failed);
}

static int inject_excepts(mutating *m) {
    const json_t *steps = json_object_get(json_object_get(m->tree, "program"), "steps");
    for (size_t i = 0; i < json_array_size(steps); i++) {
        json_t *step = json_array_get(steps, i);
        const json_t *keys = json_object_iter_value(json_object_iter(step));
        if (!json_is_object(keys)) {
            continue;  // `barrier`
        }
        const char *op = json_string_value(json_object_get(keys, "op"));
        const char *dtype = json_string_value(json_object_get(keys, "dtype"));
        bool sums = op == NULL || strcmp(op, "max") != 0;
        bool wide = dtype != NULL && strcmp(dtype, "f64") == 0;
        LS_TRY(inject_except(m, i, OTHER_OPERATION, "op", json_string(sums ? "max" : "sum")));
        LS_TRY(inject_except(m, i, WRONG_DIVISOR, "op",
                             json_string(op != NULL && strcmp(op, "avg") == 0 ? "sum" : "avg")));
        json_int_t root = json_integer_value(json_object_get(keys, "root"));
        LS_TRY(inject_except(m, i, OTHER_ROOT, "root", json_integer(root == 0 ? 1 : 0)));
        LS_TRY(inject_except(m, i, OTHER_TYPE, "dtype", json_string(wide ? "f32" : "f64")));
        LS_TRY(inject_except(m, i, OTHER_ORDER, "swap", json_true()));
        LS_TRY(inject_except(m, i, OTHER_ORDER, "reverse", json_true()));
        json_t *group = json_copy(json_object_get(keys, "ranks"));
        if (json_array_size(group) >= 2) {
            (void)json_array_insert(group, 2, json_array_get(group, 0));
            (void)json_array_remove(group, 0);
            LS_TRY(inject_except(m, i, RANKS_SWAPPED, "group", json_incref(group)));
        }
        json_decref(group);
        LS_TRY(inject_except(m, i, STALE_BUFFER, "unwritten", json_true()));
    }
    return LS_OK;
}

// The sizes of a table's blocks, one of them a row or a column off.
static int inject_shards(mutating *m) {
    size_t count = json_array_size(json_object_get(m->tree, "tables"));
    for (size_t t = 0; t < count; t++) {
        for (int more = -1; more <= 1; more += 2) {
            json_t *tree = json_deep_copy(m->tree);
            json_t *table = json_array_get(json_object_get(tree, "tables"), t);
            json_t *sharding = json_object_get(table, "sharding");
            json_t *sizes = json_object_get(sharding, "sizes");
            const char *type = json_string_value(json_object_get(sharding, "type"));
            int64_t rows = json_integer_value(json_object_get(table, "rows"));
            bool failed = false;
            if (sizes == NULL && type != NULL && strcmp(type, "row_wise") == 0) {
                json_t *of = json_object_get(sharding, "ranks");
                int64_t parts = of != NULL ? (int64_t)json_array_size(of) : m->ranks;
                int64_t each = parts > 0 ? (rows + parts - 1) / parts : rows;
                failed |= json_object_set_new(sharding, "sizes", json_array()) != 0;
                sizes = json_object_get(sharding, "sizes");
                for (int64_t i = 0; i < parts; i++) {
                    int64_t left = rows - each * i;
                    int64_t size = left < each ? left : each;
                    if (left < 0) {
                        size = 0;
                    }
                    failed |= json_array_append_new(sizes, json_integer(size)) != 0;
                }
            }
            json_t *first = json_array_get(sizes, 0);
            int64_t size = json_integer_value(first) + more;
            if (first == NULL || size < 0) {
                json_decref(tree);
                continue;
            }
            (void)json_integer_set(first, size);
            failed |= json_object_set_new(sharding, "allow_broken", json_true()) != 0;
            char what[120];
            (void)snprintf(what, sizeof what, "the first block of table %zu has %" PRId64, t, size);
            LS_TRY(try_defect(m, ROWS_OFF_BY_ONE, what, tree, failed));
        }
    }
    return LS_OK;
}

// ---- The table ----------------------------------------------------------------------------------
static void write_table(ls_text *out, const mutating *m) {
    ls_text_printf(out, "%s\n%-22s%9s%9s%12s%10s  %s\n", m->file, "", "injected", "noticed",
                   "no effect", "survived", "by");
    for (int kind = 0; kind < KIND_COUNT; kind++) {
        const row *of = &m->rows[kind];
        if (of->injected == 0) {
            continue;
        }
        ls_text_printf(out, "%-22s%9d%9d%12d%10d  ", kind_names[kind], of->injected, of->noticed,
                       of->nothing, of->survived);
        for (int i = 0; i < NOTICED_MAX && of->by[i] != NULL; i++) {
            ls_text_printf(out, "%s%s %d", i > 0 ? ", " : "", of->by[i], of->times[i]);
        }
        ls_text_puts(out, "\n");
    }
}

static int check_clean(mutating *m) {
    ls_fuzz_outcome outcome;
    ls_scenario *scenario = NULL;
    LS_TRY(ls_fuzz_parse(&scenario, m->tree, m->file, m->options->allow_outside, NULL));
    m->ranks = scenario->ranks;
    bool injects = ls_scenario_injects(scenario) || json_object_get(m->tree, "expect") != NULL;
    ls_scenario_free(scenario);
    if (injects) {
        return LS_FAIL(LS_ERR_INVALID, "%s: it has a defect or expects one already", m->file);
    }
    LS_TRY(ls_fuzz_try(&outcome, m->tree, m->file, 0, m->options));
    if (outcome.end == LS_FUZZ_FAILED && outcome.class_ != LS_CLASS_UNJUDGED) {
        return LS_FAIL(LS_ERR_INVALID, "%s: it fails without any defect: %s", m->file,
                       outcome.text);
    }
    return LS_OK;
}

int ls_fuzz_mutate(ls_results *results, ls_text *table, const char *file, int most,
                   const ls_run_options *options) {
    json_t *tree = NULL;
    LS_TRY(ls_fuzz_read(&tree, file));
    mutating m = {.results = results, .file = file, .tree = tree, .options = options, .left = most};
    int status = check_clean(&m);
    status = status == LS_OK ? inject_shards(&m) : status;
    status = status == LS_OK ? inject_excepts(&m) : status;
    status = status == LS_OK ? inject_faults(&m) : status;
    if (status == LS_OK) {
        write_table(table, &m);
    }
    json_decref(tree);
    return status;
}
