// Random programs on buffers: every collective, type, operation and group, and messages.
#include <stdio.h>
#include <string.h>

#include "collectives/collectives.h"
#include "fuzz/draw.h"

#define STEPS_MAX 6

typedef struct buffers_maker {
    ls_fuzz_draw *draw;
    ls_fuzz_mesh mesh;
} buffers_maker;

// Whether a kind is one of some words, with spaces around each.
static bool among(const char *kind, const char *words) {
    char word[32];
    (void)snprintf(word, sizeof word, " %s ", kind);
    return strstr(words, word) != NULL;
}

// The members of the group: the world, a list of ranks, or the lines along an axis.
static int make_group(buffers_maker *maker, json_t *keys) {
    ls_fuzz_draw *draw = maker->draw;
    int64_t kind = ls_fuzz_below(draw, 3), members[LS_FUZZ_RANKS_MAX];
    if (kind == 0) {
        return maker->mesh.ranks;
    }
    if (kind == 1) {
        int axis = (int)ls_fuzz_below(draw, maker->mesh.axes);
        char text[8];
        (void)snprintf(text, sizeof text, "%d", axis);
        ls_fuzz_set_text(draw, keys, "axis", text);
        return (int)maker->mesh.shape[axis];
    }
    int count = (int)ls_fuzz_range(draw, 1, maker->mesh.ranks);
    for (int i = 0; i < maker->mesh.ranks; i++) {
        members[i] = i;
    }
    for (int i = 0; i < count; i++) {
        int other = (int)ls_fuzz_range(draw, i, maker->mesh.ranks - 1);
        int64_t kept = members[i];
        members[i] = members[other];
        members[other] = kept;
    }
    ls_fuzz_set_ints(draw, keys, "ranks", members, count);
    return count;
}

static const char *make_operation(ls_fuzz_draw *draw, json_t *keys, const char *dtype,
                                  int members) {
    bool whole = ls_fuzz_dtype_whole(dtype);
    const char *op = LS_FUZZ_WORD(draw, "sum", "sum", "prod", "max", "min", "avg", "premul_sum");
    if (whole && ls_fuzz_chance(draw, 30)) {
        op = LS_FUZZ_WORD(draw, "band", "bor", "bxor");
    }
    ls_fuzz_set_text(draw, keys, "op", op);
    if (strcmp(op, "premul_sum") == 0) {
        json_t *factors = ls_fuzz_array(draw, keys, "factors");
        for (int m = 0; m < members; m++) {
            double factor =
                whole ? (double)ls_fuzz_below(draw, 3) : LS_FUZZ_REAL(draw, 0.5, 0.1, -1.25, 3);
            draw->failed |= json_array_append_new(factors, json_real(factor)) != 0;
        }
    }
    return op;
}

// How much each member moves: the same, or its own.
static void make_counts(ls_fuzz_draw *draw, json_t *keys, const char *kind, int members) {
    bool of_members = among(kind, " all_gather reduce_scatter gather scatter ");
    bool of_pairs = strcmp(kind, "all_to_all") == 0;
    bool uneven = ls_fuzz_chance(draw, 50);
    if (uneven && of_members) {
        json_t *counts = ls_fuzz_array(draw, keys, "counts");
        for (int m = 0; m < members; m++) {
            ls_fuzz_push_int(draw, counts, LS_FUZZ_NUMBER(draw, 0, 1, 2, 9));
        }
    } else if (uneven && of_pairs) {
        json_t *splits = ls_fuzz_array(draw, keys, "splits");
        for (int from = 0; from < members; from++) {
            json_t *row = ls_fuzz_push_array(draw, splits);
            for (int to = 0; to < members; to++) {
                ls_fuzz_push_int(draw, row, LS_FUZZ_NUMBER(draw, 0, 1, 4));
            }
        }
    } else {
        ls_fuzz_set_int(draw, keys, "count", LS_FUZZ_NUMBER(draw, 0, 1, 3, 17, 64));
    }
}

static void make_pairs(buffers_maker *maker, json_t *keys) {
    ls_fuzz_draw *draw = maker->draw;
    json_t *pairs = ls_fuzz_array(draw, keys, "pairs");
    int64_t count = ls_fuzz_range(draw, 1, 6);
    for (int64_t i = 0; i < count; i++) {
        int64_t from = ls_fuzz_below(draw, maker->mesh.ranks);
        int64_t to = (from + ls_fuzz_range(draw, 1, maker->mesh.ranks - 1)) % maker->mesh.ranks;
        json_t *pair = ls_fuzz_push_array(draw, pairs);
        ls_fuzz_push_int(draw, pair, from);
        ls_fuzz_push_int(draw, pair, to);
    }
}

// A call with everything that its kind can say.
static void make_call(buffers_maker *maker, json_t *keys, const char *kind) {
    ls_fuzz_draw *draw = maker->draw;
    bool messages = strcmp(kind, "send_recv") == 0;
    int members = messages ? 0 : make_group(maker, keys);
    if (messages) {
        make_pairs(maker, keys);
    }
    if (strcmp(kind, "barrier") == 0) {
        return;
    }
    const char *dtype = ls_fuzz_chance(draw, 50) ? ls_fuzz_float(draw) : ls_fuzz_integer(draw);
    const char *op = "";
    ls_fuzz_set_text(draw, keys, "dtype", dtype);
    make_counts(draw, keys, kind, members);
    if (among(kind, " all_reduce reduce reduce_scatter scan exscan ")) {
        op = make_operation(draw, keys, dtype, members);
    }
    if (!messages && strcmp(kind, "all_to_all") != 0 && strcmp(kind, "gather") != 0 &&
        strcmp(kind, "scatter") != 0 && ls_fuzz_chance(draw, 30)) {
        ls_fuzz_set_true(draw, keys, "in_place");
    }
    if (among(kind, " reduce broadcast gather scatter ")) {
        ls_fuzz_set_int(draw, keys, "root", ls_fuzz_below(draw, members));
    }
    // An overflow or a NaN is a finding: ranks watch their own calls for it.
    if (strcmp(op, "prod") == 0) {
        ls_fuzz_set_text(draw, keys, "values", "exact");
    } else {
        ls_fuzz_values(draw, keys, "values", dtype, 0, true);
    }
}

static void push_wait(ls_fuzz_draw *draw, json_t *steps, const char *name) {
    json_t *wait = ls_fuzz_object(draw, ls_fuzz_push_object(draw, steps), "wait");
    ls_fuzz_set_text(draw, wait, "step", name);
}

// The program reads its received data: its own, or compares all ranks'.
static void use_result(ls_fuzz_draw *draw, json_t *steps, const json_t *call) {
    const char *kind = LS_FUZZ_WORD(draw, "check_replica", "touch", "");
    if (kind[0] != 0 && json_integer_value(json_object_get(call, "count")) > 0) {
        json_t *keys = ls_fuzz_object(draw, ls_fuzz_push_object(draw, steps), kind);
        ls_fuzz_set_text(draw, keys, "step", json_string_value(json_object_get(call, "name")));
    }
}

void ls_fuzz_make_buffers(ls_fuzz_draw *draw, json_t *scenario) {
    buffers_maker maker = {.draw = draw};
    char names[STEPS_MAX][32];
    int waiting = 0;
    int64_t count = ls_fuzz_range(draw, 1, STEPS_MAX);
    ls_fuzz_mesh_make(&maker.mesh, draw, scenario, LS_FUZZ_AXES_MAX);
    json_t *program = ls_fuzz_object(draw, scenario, "program");
    json_t *steps = ls_fuzz_array(draw, program, "steps");
    for (int64_t i = 0; i < count; i++) {
        int64_t number = ls_fuzz_below(draw, (int64_t)LS_KIND_COUNT);
        bool messages = number == LS_SEND || number == LS_RECV;
        const char *kind = messages ? "send_recv" : ls_kind_name((ls_kind)number);
        if (messages && maker.mesh.ranks == 1) {
            kind = "barrier";
        }
        json_t *keys = ls_fuzz_object(draw, ls_fuzz_push_object(draw, steps), kind);
        char name[32];
        (void)snprintf(name, sizeof name, "%s %d", kind, (int)i);
        ls_fuzz_set_text(draw, keys, "name", name);
        make_call(&maker, keys, kind);
        if (strcmp(kind, "barrier") != 0 && ls_fuzz_chance(draw, 30)) {
            ls_fuzz_set_true(draw, keys, "async");
            memcpy(names[waiting++], name, sizeof name);
        } else if (among(kind, " all_reduce broadcast all_gather ") && ls_fuzz_chance(draw, 30)) {
            ls_fuzz_set_true(draw, keys, "replica");
            use_result(draw, steps, keys);
        }
        while (waiting > 0 && ls_fuzz_chance(draw, 50)) {
            int64_t which = ls_fuzz_below(draw, waiting);
            push_wait(draw, steps, names[which]);
            memmove(names[which], names[waiting - 1], sizeof names[which]);
            waiting -= 1;
        }
    }
    for (int i = 0; i < waiting; i++) {
        push_wait(draw, steps, names[i]);
    }
    ls_fuzz_order(draw, scenario);
}
