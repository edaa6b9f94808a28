// One defect in a scenario: a fault of a rank, or, in programs on buffers, a rank that deviates
// from a step.
#include <string.h>

#include "fuzz/draw.h"
#include "ranks/fault.h"

static int ranks_of(const json_t *scenario) {
    const json_t *shape = json_object_get(json_object_get(scenario, "mesh"), "shape");
    int ranks = 1;
    for (size_t i = 0; i < json_array_size(shape); i++) {
        ranks *= (int)json_integer_value(json_array_get(shape, i));
    }
    return ranks;
}

static void inject_fault(ls_fuzz_draw *draw, json_t *scenario, int ranks) {
    static const char *const types[] = {
#define FAULT_TEXT(name, text) text,
        LS_FAULT_MAP(FAULT_TEXT)
#undef FAULT_TEXT
    };
    bool trains = json_object_get(scenario, "optimizer") != NULL, scales = false;
    const json_t *tables = json_object_get(scenario, "tables");
    for (size_t t = 0; t < json_array_size(tables); t++) {
        scales |= json_object_get(json_array_get(tables, t), "max_norm") != NULL;
    }
    ls_fault_type last = scales ? LS_FAULT_TYPE_COUNT : LS_FAULT_STALE_ROWS;  // of scaled rows
    if (!trains) {
        last = LS_FAULT_DIVIDED_TWICE;
    }
    ls_fault_type type;
    do {  // the slow are right, and which allocation fails is another test's
        type = last == LS_FAULT_TYPE_COUNT && ls_fuzz_chance(draw, 25)
                   ? LS_FAULT_STALE_ROWS
                   : (ls_fault_type)ls_fuzz_below(draw, (int64_t)last);
    } while (type == LS_FAULT_SLOW || type == LS_FAULT_ALLOCATION);
    json_t *fault = ls_fuzz_push_object(draw, ls_fuzz_array(draw, scenario, "faults"));
    ls_fuzz_set_text(draw, fault, "type", types[type]);
    ls_fuzz_set_int(draw, fault, "rank", ls_fuzz_below(draw, ranks));
    if (!ls_fault_of_training(type)) {
        ls_fuzz_set_int(draw, fault, "call", LS_FUZZ_NUMBER(draw, 0, 0, 0, 1, 2, 3));
    }
    if (type == LS_FAULT_BIT_FLIP) {
        ls_fuzz_set_int(draw, fault, "index", LS_FUZZ_NUMBER(draw, 0, 7, 23, 30, 31, 62, 97));
    } else if (type == LS_FAULT_WRONG_COUNT || type == LS_FAULT_WRONG_SPLIT) {
        ls_fuzz_set_int(draw, fault, "index", LS_FUZZ_NUMBER(draw, 1, -1, 7));
    }
}

// An exception of a rank in a collective: one that fits any call, or one of its arguments.
static void inject_except(ls_fuzz_draw *draw, json_t *keys, int ranks) {
    static const char *const always[] = {"skip", "repeat", "exit"};
    static const char *const said[] = {"dtype", "op", "root"};
    json_t *except = ls_fuzz_push_object(draw, ls_fuzz_array(draw, keys, "except"));
    json_t *of = ls_fuzz_array(draw, except, "ranks");
    const json_t *group = json_object_get(keys, "ranks");
    int64_t size = group != NULL ? (int64_t)json_array_size(group) : ranks;
    int64_t member = ls_fuzz_below(draw, size);
    ls_fuzz_push_int(draw, of,
                     group == NULL ? member
                                   : json_integer_value(json_array_get(group, (size_t)member)));
    const char *what = said[ls_fuzz_below(draw, 3)];
    bool lines = json_object_get(keys, "axis") != NULL && strcmp(what, "root") == 0;
    if (json_object_get(keys, what) == NULL || lines) {
        ls_fuzz_set_true(draw, except, always[ls_fuzz_below(draw, 3)]);
    } else if (strcmp(what, "dtype") == 0) {
        ls_fuzz_set_text(draw, except, what, LS_FUZZ_WORD(draw, "f32", "f64", "i32"));
    } else if (strcmp(what, "op") == 0) {
        ls_fuzz_set_text(draw, except, what, LS_FUZZ_WORD(draw, "max", "min", "sum"));
    } else {
        ls_fuzz_set_int(draw, except, what, ls_fuzz_below(draw, size));
    }
}

void ls_fuzz_inject(ls_fuzz_draw *draw, json_t *scenario) {
    json_t *program = json_object_get(scenario, "program");
    json_t *steps = json_object_get(program, "steps");
    int ranks = ranks_of(scenario);
    json_t *step = NULL;
    const char *kind = "";
    if (json_array_size(steps) > 0 && json_object_get(program, "tensors") == NULL) {
        int64_t which = ls_fuzz_below(draw, (int64_t)json_array_size(steps));
        step = json_array_get(steps, (size_t)which);
        kind = json_object_iter_key(json_object_iter(step));
    }
    bool collective = strstr(" wait send_recv touch check_replica ", kind) == NULL;
    if (collective && ls_fuzz_chance(draw, 50)) {
        inject_except(draw, json_object_get(step, kind), ranks);
    } else {
        inject_fault(draw, scenario, ranks);
    }
}
