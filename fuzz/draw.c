// Draws, the tree that they fill, and what kinds of random scenarios share.
#include "fuzz/draw.h"

#include <stdlib.h>
#include <string.h>

#include "base/random.h"

int64_t ls_fuzz_below(ls_fuzz_draw *draw, int64_t bound) {
    LS_ASSERT(bound >= 1);
    return (int64_t)ls_random_below((uint64_t)bound, draw->seed, ls_random_stream("fuzz"),
                                    draw->number, draw->index++);
}

int64_t ls_fuzz_range(ls_fuzz_draw *draw, int64_t low, int64_t high) {
    LS_ASSERT(low <= high);
    return low + ls_fuzz_below(draw, high - low + 1);
}

bool ls_fuzz_chance(ls_fuzz_draw *draw, int percent) {
    return ls_fuzz_below(draw, 100) < percent;
}

static int compare_numbers(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

void ls_fuzz_parts(ls_fuzz_draw *draw, int64_t *out, int count, int64_t total) {
    LS_ASSERT(count >= 1 && total >= 0);
    for (int i = 0; i < count - 1; i++) {
        out[i] = ls_fuzz_range(draw, 0, total);
    }
    out[count - 1] = total;
    qsort(out, (size_t)count, sizeof *out, compare_numbers);
    for (int i = count - 1; i > 0; i--) {
        out[i] -= out[i - 1];
    }
}

// ---- The tree -----------------------------------------------------------------------------------
void ls_fuzz_set(ls_fuzz_draw *draw, json_t *object, const char *key, json_t *value) {
    draw->failed |= json_object_set_new(object, key, value) != 0;
}

void ls_fuzz_set_text(ls_fuzz_draw *draw, json_t *object, const char *key, const char *text) {
    ls_fuzz_set(draw, object, key, json_string(text));
}

void ls_fuzz_set_int(ls_fuzz_draw *draw, json_t *object, const char *key, int64_t value) {
    ls_fuzz_set(draw, object, key, json_integer(value));
}

void ls_fuzz_set_real(ls_fuzz_draw *draw, json_t *object, const char *key, double value) {
    ls_fuzz_set(draw, object, key, json_real(value));
}

void ls_fuzz_set_true(ls_fuzz_draw *draw, json_t *object, const char *key) {
    ls_fuzz_set(draw, object, key, json_true());
}

void ls_fuzz_set_ints(ls_fuzz_draw *draw, json_t *object, const char *key, const int64_t *values,
                      int count) {
    json_t *array = ls_fuzz_array(draw, object, key);
    for (int i = 0; i < count; i++) {
        ls_fuzz_push_int(draw, array, values[i]);
    }
}

json_t *ls_fuzz_object(ls_fuzz_draw *draw, json_t *object, const char *key) {
    ls_fuzz_set(draw, object, key, json_object());
    return json_object_get(object, key);
}

json_t *ls_fuzz_array(ls_fuzz_draw *draw, json_t *object, const char *key) {
    ls_fuzz_set(draw, object, key, json_array());
    return json_object_get(object, key);
}

static json_t *push(ls_fuzz_draw *draw, json_t *array, json_t *value) {
    draw->failed |= json_array_append_new(array, value) != 0;
    return draw->failed ? NULL : json_array_get(array, json_array_size(array) - 1);
}

json_t *ls_fuzz_push_object(ls_fuzz_draw *draw, json_t *array) {
    return push(draw, array, json_object());
}

json_t *ls_fuzz_push_array(ls_fuzz_draw *draw, json_t *array) {
    return push(draw, array, json_array());
}

void ls_fuzz_push_int(ls_fuzz_draw *draw, json_t *array, int64_t value) {
    (void)push(draw, array, json_integer(value));
}

void ls_fuzz_push_text(ls_fuzz_draw *draw, json_t *array, const char *text) {
    (void)push(draw, array, json_string(text));
}

// ---- Shared by kinds of scenarios ---------------------------------------------------------------
void ls_fuzz_mesh_make(ls_fuzz_mesh *out, ls_fuzz_draw *draw, json_t *scenario, int axes_max) {
    static const ls_fuzz_mesh meshes[] = {
        {{1}, 1, 1},    {{2}, 1, 2},    {{3}, 1, 3},    {{4}, 1, 4},       {{5}, 1, 5},
        {{6}, 1, 6},    {{7}, 1, 7},    {{2, 2}, 2, 4}, {{2, 3}, 2, 6},    {{3, 2}, 2, 6},
        {{1, 3}, 2, 3}, {{2, 1}, 2, 2}, {{2, 4}, 2, 8}, {{2, 1, 2}, 3, 4},
    };
    do {
        *out = meshes[ls_fuzz_below(draw, (int64_t)(sizeof meshes / sizeof *meshes))];
    } while (out->axes > axes_max);
    json_t *mesh = ls_fuzz_object(draw, scenario, "mesh");
    ls_fuzz_set_ints(draw, mesh, "shape", out->shape, out->axes);
}

int ls_fuzz_mesh_at(const ls_fuzz_mesh *mesh, int rank, int axis) {
    LS_ASSERT(axis >= 0 && axis < mesh->axes);
    int inner = 1;
    for (int a = axis + 1; a < mesh->axes; a++) {
        inner *= (int)mesh->shape[a];
    }
    return rank / inner % (int)mesh->shape[axis];
}

bool ls_fuzz_dtype_whole(const char *dtype) {
    return dtype[0] == 'i' || dtype[0] == 'u';
}

const char *ls_fuzz_float(ls_fuzz_draw *draw) {
    return LS_FUZZ_WORD(draw, "f16", "bf16", "f32", "f64");
}

const char *ls_fuzz_integer(ls_fuzz_draw *draw) {
    return LS_FUZZ_WORD(draw, "i8", "u8", "i32", "u32", "i64", "u64");
}

static void set_pair(ls_fuzz_draw *draw, json_t *object, const char *key, json_t *a, json_t *b) {
    json_t *pair = ls_fuzz_array(draw, object, key);
    (void)push(draw, pair, a);
    (void)push(draw, pair, b);
}

// Numbers listed one by one: ordinary ones, and those at the ends of what a type holds.
static void list_values(ls_fuzz_draw *draw, json_t *values, const char *dtype, int64_t count) {
    static const double odd[] = {0.0, -0.0, 6e-8, -6e-8, 60000.0, -60000.0};
    static const double odd_wide[] = {0.0, -0.0, 1e-40, 1e15, -1e15, 1e-45};
    bool wide = strcmp(dtype, "f16") != 0, special = ls_fuzz_chance(draw, 40);
    json_t *list = ls_fuzz_array(draw, values, "values");
    for (int64_t i = 0; i < count; i++) {
        if (ls_fuzz_dtype_whole(dtype)) {
            ls_fuzz_push_int(draw, list, ls_fuzz_range(draw, dtype[0] == 'u' ? 0 : -9, 9));
        } else if (special && ls_fuzz_chance(draw, 20)) {
            (void)push(draw, list, json_real((wide ? odd_wide : odd)[ls_fuzz_below(draw, 6)]));
        } else {
            (void)push(draw, list, json_real((double)ls_fuzz_range(draw, -9999, 9999) / 1000));
        }
    }
}

static void make_large(ls_fuzz_draw *draw, json_t *values, const char *dtype) {
    int64_t top;
    if (strcmp(dtype, "f16") == 0) {
        top = 60000;
    } else if (strcmp(dtype, "i8") == 0) {
        top = 127;
    } else {
        top = strcmp(dtype, "u8") == 0 ? 255 : INT64_C(1) << 31;
    }
    if (ls_fuzz_chance(draw, 50)) {
        ls_fuzz_set_int(draw, values, "constant", top);
    } else {
        set_pair(draw, values, "uniform", json_integer(dtype[0] == 'u' ? 0 : -top),
                 json_integer(top));
    }
}

void ls_fuzz_values(ls_fuzz_draw *draw, json_t *object, const char *key, const char *dtype,
                    int64_t count, bool finite) {
    enum { EXACT, NORMAL, WIDE, UNIFORM, ARANGE, CONSTANT, SPLITMIX, LISTED, LARGE };
    bool whole = ls_fuzz_dtype_whole(dtype);
    int64_t kind = ls_fuzz_range(draw, EXACT, finite ? LISTED : LARGE);
    if (kind == EXACT || kind == NORMAL || kind == SPLITMIX ||
        (kind == LISTED && (count < 1 || count > 24 || finite))) {
        const char *numbers = kind == SPLITMIX && !finite ? "splitmix" : "exact";
        if (kind == NORMAL) {
            numbers = "normal";
        }
        ls_fuzz_set_text(draw, object, key, numbers);
        return;
    }
    json_t *values = ls_fuzz_object(draw, object, key);
    if (kind == WIDE) {
        json_t *normal = ls_fuzz_object(draw, values, "normal");
        ls_fuzz_set_real(draw, normal, "std", LS_FUZZ_REAL(draw, 0.001, 30, 1000));
        ls_fuzz_set_int(draw, normal, "mean", LS_FUZZ_NUMBER(draw, 0, 1, -7));
    } else if (kind == UNIFORM && whole) {
        set_pair(draw, values, "uniform", json_integer(dtype[0] == 'u' ? 0 : -9), json_integer(9));
    } else if (kind == UNIFORM) {
        set_pair(draw, values, "uniform", json_real(-0.5),
                 json_real(LS_FUZZ_REAL(draw, 0.25, 100)));
    } else if (kind == ARANGE) {
        json_t *arange = ls_fuzz_object(draw, values, "arange");
        ls_fuzz_set_int(draw, arange, "start", ls_fuzz_range(draw, dtype[0] == 'u' ? 0 : -9, 5));
        ls_fuzz_set_int(draw, arange, "step", LS_FUZZ_NUMBER(draw, 0, 1, 3));
    } else if (kind == CONSTANT && whole) {
        ls_fuzz_set_int(draw, values, "constant", LS_FUZZ_NUMBER(draw, 0, 1, 3, 7));
    } else if (kind == CONSTANT) {
        ls_fuzz_set_real(draw, values, "constant", LS_FUZZ_REAL(draw, 0, 1, 0.1, -1.7, 1e-5));
    } else if (kind == LISTED) {
        list_values(draw, values, dtype, count);
    } else {
        make_large(draw, values, dtype);
    }
}

void ls_fuzz_order(ls_fuzz_draw *draw, json_t *scenario) {
    if (ls_fuzz_chance(draw, 30)) {
        ls_fuzz_set_text(
            draw, scenario, "order",
            LS_FUZZ_WORD(draw, "rank", "ring", "tree", "ring:proto=ll", "tree:proto=simple"));
    }
}
