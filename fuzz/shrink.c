// Shrinking. A change is any small edit of the tree, tried in a fixed order; the reader of
// scenarios decides whether it is valid, so this file knows only where the schema counts ranks and
// members.
#include "fuzz/shrink.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "base/base.h"

enum { DROP_HALVES, DROP_MEMBERS, MESH, DROP_KEYS, LISTS, NUMBERS };

// ---- Consistency --------------------------------------------------------------------------------
static bool among(const char *key, const char *const *words) {
    for (; *words != NULL; words++) {
        if (strcmp(key, *words) == 0) {
            return true;
        }
    }
    return false;
}

static int64_t ranks_of(const json_t *scenario) {
    const json_t *shape = json_object_get(json_object_get(scenario, "mesh"), "shape");
    int64_t ranks = 1;
    for (size_t i = 0; i < json_array_size(shape); i++) {
        ranks *= json_integer_value(json_array_get(shape, i));
    }
    return ranks < 1 ? 1 : ranks;
}

static void cut(json_t *array, size_t count) {
    while (json_array_size(array) > count) {
        (void)json_array_remove(array, json_array_size(array) - 1);
    }
}

// Numbers of ranks below `ranks`, in whatever nest of lists.
static void wrap_ranks(json_t *value, int64_t ranks) {
    if (json_is_integer(value)) {
        (void)json_integer_set(value, json_integer_value(value) % ranks);
    }
    for (size_t i = 0; i < json_array_size(value); i++) {
        wrap_ranks(json_array_get(value, i), ranks);
    }
}

// "S(0), R, P(sum)" for so many mesh dimensions.
static void cut_places(json_t *object, const char *key, size_t axes) {
    const char *text = json_string_value(json_object_get(object, key));
    size_t length = 0, commas = 0;
    for (; text != NULL && text[length] != 0; length++) {
        commas += text[length] == ',' && text[length + 1] == ' ';
        if (commas == axes) {
            (void)json_object_set_new(object, key, json_stringn(text, length));
            return;
        }
    }
}

// Wrapping does not make names equal.
static void drop_doubles(json_t *array) {
    for (size_t i = 0; i < json_array_size(array); i++) {
        for (size_t k = json_array_size(array) - 1; k > i; k--) {
            if (json_equal(json_array_get(array, i), json_array_get(array, k))) {
                (void)json_array_remove(array, k);
            }
        }
    }
}

static void fit_mesh(json_t *value, int64_t ranks, size_t axes) {
    static const char *const of_ranks[] = {"ranks", "rank",       "root",      "source", "pairs",
                                           "host",  "only_ranks", "not_ranks", NULL};
    static const char *const by_rank[] = {"batch",   "stride_per_rank", "counts",
                                          "factors", "splits",          NULL};
    static const char *const places[] = {"placements", "to", NULL};
    const char *key;
    json_t *member;
    for (size_t i = 0; i < json_array_size(value); i++) {
        fit_mesh(json_array_get(value, i), ranks, axes);
    }
    if (!json_is_object(value)) {
        return;
    }
    void *at = json_object_iter(value);
    while (at != NULL) {
        key = json_object_iter_key(at);
        member = json_object_iter_value(at);
        at = json_object_iter_next(value, at);
        bool lists = strcmp(key, "values") == 0 && json_is_array(json_array_get(member, 0));
        if (among(key, of_ranks)) {
            bool group = json_object_get(value, "sizes") == NULL;
            wrap_ranks(member, ranks);
            if (group && strcmp(key, "ranks") == 0) {
                drop_doubles(member);
            }
        } else if (among(key, by_rank) || lists) {
            cut(member, (size_t)ranks);
            for (size_t i = 0; strcmp(key, "splits") == 0 && i < json_array_size(member); i++) {
                cut(json_array_get(member, i), (size_t)ranks);
            }
        } else if (among(key, places)) {
            cut_places(value, key, axes);
        } else {
            fit_mesh(member, ranks, axes);
        }
    }
}

// Inputs of features that no table has go with it.
static void drop_unused_features(json_t *scenario) {
    json_t *features = json_object_get(json_object_get(scenario, "inputs"), "features");
    json_t *tables = json_object_get(scenario, "tables");
    void *at = json_object_iter(features);
    while (at != NULL) {
        const char *name = json_object_iter_key(at);
        bool used = false;
        for (size_t t = 0; t < json_array_size(tables); t++) {
            json_t *fed_by = json_object_get(json_array_get(tables, t), "features");
            for (size_t f = 0; f < json_array_size(fed_by); f++) {
                used |= strcmp(json_string_value(json_array_get(fed_by, f)), name) == 0;
            }
        }
        if (used) {
            at = json_object_iter_next(features, at);
        } else {
            (void)json_object_del(features, name);
            at = json_object_iter(features);  // later steps are checked again
        }
    }
}

// ---- Changes ------------------------------------------------------------------------------------
// Counts down to the change that is wanted.
static bool turn(long *number) {
    return (*number)-- == 0;
}

static bool drop_halves(json_t *value, long *number) {
    size_t count = json_array_size(value), half = count / 2;
    if (count >= 4 && turn(number)) {
        cut(value, half);
        return true;
    }
    if (count >= 4 && turn(number)) {
        for (size_t i = 0; i < half; i++) {
            (void)json_array_remove(value, 0);
        }
        return true;
    }
    return false;
}

static bool drop_member(json_t *value, long *number) {
    bool mappings =
        json_is_object(json_array_get(value, 0)) || json_is_string(json_array_get(value, 0));
    for (size_t i = 0; mappings && i < json_array_size(value); i++) {
        if (turn(number)) {
            return json_array_remove(value, i) == 0;
        }
    }
    return false;
}

static bool drop_key(json_t *value, long *number) {
    const char *key;
    json_t *member;
    json_object_foreach(value, key, member) {
        if (turn(number)) {
            return json_object_del(value, key) == 0;
        }
    }
    return false;
}

// A list of numbers loses one, or becomes one number; a list of lists loses a list.
static bool change_list(json_t *parent, const char *key, json_t *value, long *number) {
    json_t *first = json_array_get(value, 0);
    if (!json_is_number(first) && !json_is_array(first)) {
        return false;
    }
    if (key != NULL && json_is_number(first) && turn(number)) {
        return json_object_set(parent, key, first) == 0;
    }
    for (size_t i = 0; i < json_array_size(value); i++) {
        if (turn(number)) {
            return json_array_remove(value, i) == 0;
        }
    }
    return false;
}

static bool change_number(json_t *value, long *number) {
    if (json_is_integer(value)) {
        int64_t now = json_integer_value(value);
        const int64_t smaller[] = {0, 1, 2, now / 2, now - 1};
        for (size_t i = 0; now > 0 && i < sizeof smaller / sizeof *smaller; i++) {
            if (smaller[i] < now && turn(number)) {
                return json_integer_set(value, smaller[i]) == 0;
            }
        }
        if (now < 0 && turn(number)) {
            return json_integer_set(value, 0) == 0;
        }
    } else if (json_is_real(value)) {
        double now = json_real_value(value);
        const double smaller[] = {0, 1, trunc(now)};
        for (size_t i = 0; i < sizeof smaller / sizeof *smaller; i++) {
            bool is = fabs(smaller[i]) < fabs(now) ||
                      (now != smaller[i] && now == now + 0.0 && i == 1 && trunc(now) != now);
            if (is && turn(number)) {
                return json_real_set(value, smaller[i]) == 0;
            }
        }
    }
    return false;
}

static bool change_value(json_t *parent, const char *key, json_t *value, int pass, long *number) {
    bool array = json_is_array(value), object = json_is_object(value);
    bool changed;
    if (pass == DROP_HALVES) {
        changed = array && drop_halves(value, number);
    } else if (pass == DROP_MEMBERS) {
        changed = array && drop_member(value, number);
    } else if (pass == DROP_KEYS) {
        changed = object && drop_key(value, number);
    } else {
        changed = pass == LISTS ? array && change_list(parent, key, value, number)
                                : change_number(value, number);
    }
    for (size_t i = 0; array && !changed && i < json_array_size(value); i++) {
        changed = change_value(value, NULL, json_array_get(value, i), pass, number);
    }
    void *at = object && !changed ? json_object_iter(value) : NULL;
    while (at != NULL && !changed) {
        const char *name = json_object_iter_key(at);
        json_t *member = json_object_iter_value(at);
        at = json_object_iter_next(value, at);
        bool ours = strcmp(name, "mesh") != 0 && strcmp(name, "lockstep") != 0;
        changed = ours && change_value(value, name, member, pass, number);
    }
    return changed;
}

// Fewer ranks: an axis less, or one of half its size or one less.
static bool change_mesh(json_t *scenario, long *number) {
    json_t *mesh = json_object_get(scenario, "mesh"), *shape = json_object_get(mesh, "shape");
    size_t axes = json_array_size(shape);
    for (size_t axis = 0; axis < axes; axis++) {
        json_t *size = json_array_get(shape, axis);
        int64_t now = json_integer_value(size);
        if (axes > 1 && turn(number)) {
            (void)json_array_remove(shape, axis);
            (void)json_object_del(mesh, "names");
            fit_mesh(scenario, ranks_of(scenario), axes - 1);
            return true;
        }
        const int64_t smaller[] = {1, 2, now / 2, now - 1};
        for (size_t i = 0; i < sizeof smaller / sizeof *smaller; i++) {
            if (smaller[i] < now && smaller[i] > 0 && turn(number)) {
                (void)json_integer_set(size, smaller[i]);
                json_t *kept = json_incref(mesh);
                (void)json_object_del(scenario, "mesh");  // its own numbers are no ranks
                json_t *others = scenario;
                int64_t ranks = 1;
                for (size_t a = 0; a < axes; a++) {
                    ranks *= json_integer_value(json_array_get(shape, a));
                }
                fit_mesh(others, ranks, axes);
                (void)json_object_set_new(scenario, "mesh", kept);
                return true;
            }
        }
    }
    return false;
}

bool ls_fuzz_shrink__fewer_ranks(json_t *scenario, long number) {
    return change_mesh(scenario, &number);
}

bool ls_fuzz_shrink__change(json_t *scenario, int pass, long number) {
    LS_ASSERT(pass >= 0 && pass < LS_FUZZ_PASSES);
    bool changed = pass == MESH ? change_mesh(scenario, &number)
                                : change_value(NULL, NULL, scenario, pass, &number);
    if (changed) {
        drop_unused_features(scenario);
    }
    return changed;
}

// ---- The search ---------------------------------------------------------------------------------
// Tries every change of a pass; *smaller: one stayed.
static int try_pass(json_t **scenario, int pass, bool *smaller, ls_fuzz_fails_fn fails, void *arg,
                    const int *asked, int asked_max) {
    for (long number = 0; *asked < asked_max;) {
        json_t *candidate = json_deep_copy(*scenario);
        if (candidate == NULL) {
            return LS_FAIL(LS_ERR_MEMORY, "cannot copy a scenario");
        }
        if (!ls_fuzz_shrink__change(candidate, pass, number)) {
            json_decref(candidate);
            break;
        }
        bool still = false, same = json_equal(candidate, *scenario) != 0;
        int status = same ? LS_OK : fails(arg, candidate, &still);
        if (status == LS_OK && still) {
            json_decref(*scenario);
            *scenario = candidate;
            *smaller = true;  // the next one has this number now
        } else {
            json_decref(candidate);
            number += 1;
        }
        LS_TRY(status);
    }
    return LS_OK;
}

int ls_fuzz_shrink(json_t **scenario, ls_fuzz_fails_fn fails, void *arg, const int *asked,
                   int asked_max) {
    bool smaller = true;
    while (smaller && *asked < asked_max) {
        smaller = false;
        for (int pass = 0; pass < LS_FUZZ_PASSES; pass++) {
            LS_TRY(try_pass(scenario, pass, &smaller, fails, arg, asked, asked_max));
        }
    }
    return LS_OK;
}
