// An extracted scenario as a C program: the steps' calls, a switch for the ranks that differ.
#include <string.h>

#include "diagnose/extract.h"

#include "fuzz/scenario_text.h"

typedef struct writing {
    ls_text *out;
    const json_t *scenario;
    json_t *groups;  // lists of ranks, without the world's
    json_int_t ranks;
    int requests;  // of asynchronous steps so far
} writing;

void ls_extract_write_scenario(ls_text *out, const json_t *scenario, const char *comment) {
    static const char *const keys[] = {"lockstep", "name", "mesh", "program", "faults"};
    json_t *ordered = json_object();
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        json_t *value = json_object_get(scenario, keys[i]);
        if (value != NULL) {
            (void)json_object_set(ordered, keys[i], value);
        }
    }
    ls_text_puts(out, comment);
    ls_fuzz_write(out, ordered);
    json_decref(ordered);
}

// ---- Fields of steps ----------------------------------------------------------------------------
static const json_t *steps_of(const json_t *scenario) {
    return json_object_get(json_object_get(scenario, "program"), "steps");
}

// The step's kind; *body: its fields, NULL where it has none ("barrier").
static const char *kind_of(const json_t **body, const json_t *step) {
    *body = NULL;
    if (json_is_string(step)) {
        return json_string_value(step);
    }
    void *at = json_object_iter((json_t *)(uintptr_t)step);
    *body = at != NULL ? json_object_iter_value(at) : NULL;
    return at != NULL ? json_object_iter_key(at) : "";
}

static const json_t *field(const json_t *except, const json_t *body, const char *key) {
    const json_t *own = json_object_get(except, key);
    return own != NULL ? own : json_object_get(body, key);
}

static ls_dtype dtype_of(const json_t *except, const json_t *body) {
    const char *name = json_string_value(field(except, body, "dtype"));
    ls_dtype dtype = LS_F32;
    return name == NULL || ls_dtype_parse(&dtype, name) != LS_OK ? LS_F32 : dtype;
}

static json_int_t count_of(const json_t *except, const json_t *body) {
    const json_t *count = field(except, body, "count");
    return count != NULL ? json_integer_value(count) : 1;
}

// Bytes that any call needs on either side.
static unsigned long long bytes_of(const json_t *scenario, json_int_t ranks) {
    unsigned long long most = 1;
    const json_t *steps = steps_of(scenario);
    for (size_t i = 0; i < json_array_size(steps); i++) {
        const json_t *body;
        (void)kind_of(&body, json_array_get(steps, i));
        const json_t *excepts = json_object_get(body, "except");
        for (size_t k = 0; k <= json_array_size(excepts); k++) {
            const json_t *except = k > 0 ? json_array_get(excepts, k - 1) : NULL;
            const unsigned long long bytes = (unsigned long long)count_of(except, body) *
                                             ls_dtype_bytes(dtype_of(except, body)) *
                                             (unsigned long long)ranks;
            most = bytes > most ? bytes : most;
            unsigned long long split = 0;
            const json_t *counts = json_object_get(except, "counts");
            for (size_t c = 0; c < json_array_size(counts); c++) {
                split += (unsigned long long)json_integer_value(json_array_get(counts, c)) *
                         ls_dtype_bytes(dtype_of(except, body));
            }
            most = split > most ? split : most;
        }
    }
    return most;
}

// Adds the groups that the steps name.
static void find_groups(writing *w) {
    const json_t *steps = steps_of(w->scenario);
    for (size_t i = 0; i < json_array_size(steps); i++) {
        const json_t *body;
        (void)kind_of(&body, json_array_get(steps, i));
        json_t *ranks = json_object_get(body, "ranks");
        bool known = ranks == NULL;
        for (size_t g = 0; g < json_array_size(w->groups) && !known; g++) {
            known = json_equal(json_array_get(w->groups, g), ranks) != 0;
        }
        if (!known) {
            (void)json_array_append(w->groups, ranks);
        }
    }
}

static int group_of(const writing *w, const json_t *body) {
    const json_t *ranks = json_object_get(body, "ranks");
    for (size_t g = 0; ranks != NULL && g < json_array_size(w->groups); g++) {
        if (json_equal(json_array_get(w->groups, g), ranks)) {
            return (int)g;
        }
    }
    return -1;
}

// ---- Calls --------------------------------------------------------------------------------------
static const char *upper(char *out, size_t bytes, const char *word) {
    size_t i = 0;
    for (; word[i] != 0 && i + 1 < bytes; i++) {
        out[i] = word[i] >= 'a' && word[i] <= 'z' ? (char)(word[i] - 'a' + 'A') : word[i];
    }
    out[i] = 0;
    return out;
}

static void put_request(writing *w, bool async) {
    if (async) {
        ls_text_printf(w->out, ", &requests[%d]", w->requests);
    }
}

// An all_to_all whose send counts differ from the step's. The receive counts are those of the step.
static void put_split_call(writing *w, const json_t *counts, const json_t *body,
                           const json_t *except, const char *comm) {
    char type[16];
    const bool async = json_is_true(json_object_get(body, "async"));
    ls_text_printf(w->out, "CHECK(ls_all_to_all_v%s(sent, received", async ? "_async" : "");
    for (int side = 0; side < 2; side++) {
        for (size_t i = 0; i < json_array_size(counts); i++) {
            const json_int_t count = json_integer_value(json_array_get(counts, i));
            ls_text_printf(w->out, "%s%lld", i > 0 ? ", " : ", ((size_t[]){",
                           (long long)(side == 0 ? count : count_of(except, body)));
        }
        ls_text_puts(w->out, "})");
    }
    ls_text_printf(w->out, ", LS_%s, %s",
                   upper(type, sizeof type, ls_dtype_name(dtype_of(except, body))), comm);
    put_request(w, async);
    ls_text_puts(w->out, "));");
}

static void put_call(writing *w, const char *kind, const json_t *body, const json_t *except,
                     int group) {
    char type[16], name[16], comm[24] = "world";
    const char *called = json_string_value(json_object_get(except, "call"));
    const bool async = json_is_true(json_object_get(body, "async"));
    ls_kind parsed = LS_BARRIER;
    called = called != NULL ? called : kind;
    (void)ls_kind_parse(&parsed, called);
    const ls_collective *collective = ls_collective_of(parsed);
    if (group >= 0) {
        (void)snprintf(comm, sizeof comm, "group_%d", group);
    }
    const json_t *counts = json_object_get(except, "counts");
    if (parsed == LS_ALL_TO_ALL && counts != NULL) {
        put_split_call(w, counts, body, except, comm);
        return;
    }
    ls_text_printf(w->out, "CHECK(ls_%s%s(", called, async ? "_async" : "");
    if (ls_collective_has_data(collective)) {
        ls_text_printf(w->out, "sent, received, %lld, LS_%s, ", (long long)count_of(except, body),
                       upper(type, sizeof type, ls_dtype_name(dtype_of(except, body))));
    }
    if (collective->reduces) {
        const char *op = json_string_value(field(except, body, "op"));
        ls_text_printf(w->out, "LS_%s, ", upper(name, sizeof name, op != NULL ? op : "sum"));
    }
    if (collective->root_word != NULL) {
        ls_text_printf(w->out, "%d, ", (int)json_integer_value(field(except, body, "root")));
    }
    ls_text_puts(w->out, comm);
    put_request(w, async);
    ls_text_puts(w->out, "));");
}

static void put_message(writing *w, const json_t *body, const json_t *except, bool sends,
                        int peer) {
    char type[16];
    const bool async = json_is_true(json_object_get(body, "async"));
    ls_text_printf(w->out, "CHECK(ls_%s%s(%s, %lld, LS_%s, %d, world", sends ? "send" : "recv",
                   async ? "_async" : "", sends ? "sent" : "received",
                   (long long)count_of(except, body),
                   upper(type, sizeof type, ls_dtype_name(dtype_of(except, body))), peer);
    put_request(w, async);
    ls_text_puts(w->out, "));");
}

// ---- Steps --------------------------------------------------------------------------------------
static bool lists(const json_t *ranks, json_int_t rank) {
    if (json_is_integer(ranks)) {
        return json_integer_value(ranks) == rank;
    }
    for (size_t i = 0; i < json_array_size(ranks); i++) {
        if (json_integer_value(json_array_get(ranks, i)) == rank) {
            return true;
        }
    }
    return false;
}

static const json_t *except_of(const json_t *body, json_int_t rank) {
    const json_t *excepts = json_object_get(body, "except");
    for (size_t i = 0; i < json_array_size(excepts); i++) {
        const json_t *except = json_array_get(excepts, i);
        if (lists(json_object_get(except, "ranks"), rank)) {
            return except;
        }
    }
    return NULL;
}

static void put_messages(writing *w, const json_t *body) {
    const json_t *pairs = json_object_get(body, "pairs");
    for (size_t i = 0; i < json_array_size(pairs); i++) {
        const json_t *pair = json_array_get(pairs, i);
        for (size_t side = 0; side < 2; side++) {
            const json_int_t rank = json_integer_value(json_array_get(pair, side)),
                             peer = json_integer_value(json_array_get(pair, 1 - side));
            const json_t *except = except_of(body, rank);
            if (json_is_true(json_object_get(except, "skip"))) {
                continue;
            }
            ls_text_printf(w->out, "    if (rank == %lld) {\n        ", (long long)rank);
            if (json_is_true(json_object_get(except, "exit"))) {
                ls_text_puts(w->out, "return 0;");
            } else {
                put_message(w, body, except, side == 0, (int)peer);
            }
            ls_text_puts(w->out, "\n    }\n");
        }
    }
}

static void put_collective(writing *w, const char *kind, const json_t *body) {
    const json_t *excepts = json_object_get(body, "except");
    const int group = group_of(w, body);
    if (json_array_size(excepts) == 0 && group < 0) {
        ls_text_puts(w->out, "    ");
        put_call(w, kind, body, NULL, group);
        ls_text_puts(w->out, "\n");
        return;
    }
    ls_text_puts(w->out, "    switch (rank) {\n");
    for (size_t i = 0; i < json_array_size(excepts); i++) {
        const json_t *except = json_array_get(excepts, i);
        for (json_int_t r = 0; r < w->ranks; r++) {
            if (lists(json_object_get(except, "ranks"), r)) {
                ls_text_printf(w->out, "    case %lld:\n", (long long)r);
            }
        }
        if (json_is_true(json_object_get(except, "exit"))) {
            ls_text_puts(w->out, "        return 0;\n");
            continue;
        }
        if (!json_is_true(json_object_get(except, "skip"))) {
            ls_text_puts(w->out, "        ");
            put_call(w, kind, body, except, group);
            ls_text_puts(w->out, "\n");
        }
        ls_text_puts(w->out, "        break;\n");
    }
    ls_text_puts(w->out, "    default:\n");
    if (group >= 0) {
        ls_text_printf(w->out, "        if (group_%d == NULL) {\n            break;\n        }\n",
                       group);
    }
    ls_text_puts(w->out, "        ");
    put_call(w, kind, body, NULL, group);
    ls_text_puts(w->out, "\n    }\n");
}

static int requests_of(const json_t *scenario) {
    int count = 0;
    const json_t *steps = steps_of(scenario);
    for (size_t i = 0; i < json_array_size(steps); i++) {
        const json_t *body;
        (void)kind_of(&body, json_array_get(steps, i));
        count += json_is_true(json_object_get(body, "async")) ? 1 : 0;
    }
    return count;
}

// Whether ranks make different calls.
static bool needs_rank(const json_t *scenario) {
    const json_t *steps = steps_of(scenario);
    for (size_t i = 0; i < json_array_size(steps); i++) {
        const json_t *body;
        const char *kind = kind_of(&body, json_array_get(steps, i));
        if (strcmp(kind, "send_recv") == 0 || json_object_get(body, "except") != NULL ||
            json_object_get(body, "ranks") != NULL) {
            return true;
        }
    }
    return false;
}

static void put_start(writing *w, int requests) {
    ls_text_printf(w->out,
                   "#include <lockstep/lockstep.h>\n#include <string.h>\n\n"
                   "#define BYTES %lluu\n#define CHECK(call) if ((call) != LS_OK) return 1\n\n"
                   "int spmd_main(ls_rank *self, void *arg) {\n    (void)arg;\n"
                   "%s"
                   "    ls_rank_comm *world = ls_rank_world(self);\n"
                   "    char *sent = ls_rank_alloc(self, BYTES), *received = ls_rank_alloc(self, "
                   "BYTES);\n    memset(sent, 0, BYTES);\n    memset(received, 0, BYTES);\n",
                   bytes_of(w->scenario, w->ranks),
                   needs_rank(w->scenario) ? "    const int rank = ls_rank_id(self);\n" : "");
    for (size_t g = 0; g < json_array_size(w->groups); g++) {
        const json_t *ranks = json_array_get(w->groups, g);
        ls_text_printf(w->out, "    ls_rank_comm *group_%zu = NULL;\n", g);
        ls_text_printf(w->out, "    static const int members_%zu[] = {", g);
        for (size_t i = 0; i < json_array_size(ranks); i++) {
            ls_text_printf(w->out, "%s%lld", i > 0 ? ", " : "",
                           (long long)json_integer_value(json_array_get(ranks, i)));
        }
        ls_text_printf(w->out,
                       "};\n    CHECK(ls_comm_subset(&group_%zu, world, members_%zu, %zu));\n", g,
                       g, json_array_size(ranks));
    }
    if (requests > 0) {
        ls_text_printf(w->out, "    ls_request *requests[%d] = {NULL};\n", requests);
    }
    ls_text_puts(w->out, "\n");
}

void ls_extract_write_program(ls_text *out, const json_t *scenario, const char *comment) {
    const json_t *shape = json_object_get(json_object_get(scenario, "mesh"), "shape");
    const int requests = requests_of(scenario);
    writing w = {.out = out,
                 .scenario = scenario,
                 .groups = json_array(),
                 .ranks = json_integer_value(json_array_get(shape, 0))};
    find_groups(&w);
    ls_text_puts(out, comment);
    put_start(&w, requests);
    for (size_t i = 0; i < json_array_size(steps_of(scenario)); i++) {
        const json_t *body;
        const char *kind = kind_of(&body, json_array_get(steps_of(scenario), i));
        if (strcmp(kind, "wait") == 0) {
            continue;
        }
        if (strcmp(kind, "send_recv") == 0) {
            put_messages(&w, body);
        } else {
            put_collective(&w, kind, body);
        }
        w.requests += json_is_true(json_object_get(body, "async")) ? 1 : 0;
    }
    if (requests > 0) {
        ls_text_printf(out, "    CHECK(ls_wait_all(requests, %d));\n", requests);
    }
    ls_text_puts(out,
                 "    ls_rank_free(self, sent);\n    ls_rank_free(self, received);\n    return "
                 "0;\n}\n");
    out->failed |= w.groups == NULL;
    json_decref(w.groups);
}
