// How the tables of a random scenario are trained: steps, gradients, and an optimizer with all that
// its formula reads.
#include <string.h>

#include "fuzz/draw.h"
#include "kernels/optimizer.h"

static bool is_kind(const json_t *object, const char *key, const char *text) {
    const char *value = json_string_value(json_object_get(object, key));
    return value != NULL && strcmp(value, text) == 0;
}

// Numbers that formulas are sensitive to, in a share of the optimizers: 0 too, where it may be.
static void set_constants(ls_fuzz_draw *draw, json_t *keys, ls_optimizer_kind kind) {
    static const struct {
        const char *key;
        double values[3];
    } constants[] = {{"eps", {0, 1e-3, 0.5}},
                     {"beta1", {0, 0.5, 0.99}},
                     {"beta2", {0, 0.9, 0.9999}},
                     {"eta", {0, 0.01, 1}},
                     {"initial_accumulator", {0, 0.1, 3}}};
    bool any = ls_fuzz_chance(draw, 40);
    for (size_t i = 0; any && i < sizeof constants / sizeof *constants; i++) {
        const char *key = constants[i].key;
        if (ls_optimizer_reads(kind, key) && ls_fuzz_chance(draw, 50)) {
            ls_fuzz_set_real(draw, keys, key, constants[i].values[ls_fuzz_below(draw, 3)]);
        }
    }
}

// None, the form's own, or one that it has as well.
static void set_decay(ls_fuzz_draw *draw, json_t *keys, ls_optimizer_kind kind,
                      ls_optimizer_form form) {
    const ls_optimizer_traits *about = ls_optimizer_about(kind);
    bool own = about->decay[form] != LS_DECAY_NONE;
    ls_weight_decay modes[LS_WEIGHT_DECAY_COUNT];
    int count = 0;
    for (int mode = LS_DECAY_DEFAULT + 1; mode < LS_WEIGHT_DECAY_COUNT; mode++) {
        if ((about->decays[form] & 1u << mode) != 0) {
            modes[count++] = (ls_weight_decay)mode;
        }
    }
    bool named = count > 0 && ls_fuzz_chance(draw, 40);
    if (named) {
        ls_fuzz_set_text(draw, keys, "weight_decay_mode",
                         ls_weight_decay_name(modes[ls_fuzz_below(draw, count)]));
    }
    if ((named || own) && ls_fuzz_chance(draw, 60)) {
        ls_fuzz_set_real(draw, keys, "weight_decay", 0.1);
    }
}

static void make_optimizer(ls_fuzz_draw *draw, json_t *object, const json_t *tables) {
    json_t *keys = ls_fuzz_object(draw, object, "optimizer");
    ls_optimizer_kind kind = (ls_optimizer_kind)ls_fuzz_below(draw, LS_OPTIMIZER_KIND_COUNT);
    const ls_optimizer_traits *about = ls_optimizer_about(kind);
    bool narrow = true;
    ls_optimizer_form form = ls_fuzz_chance(draw, 30) ? LS_OPTIMIZER_DENSE : LS_OPTIMIZER_FUSED;
    bool dense = form == LS_OPTIMIZER_DENSE;
    ls_fuzz_set_text(draw, keys, "type", about->name);
    ls_fuzz_set_real(draw, keys, "lr", LS_FUZZ_REAL(draw, 0.02, 0.5));
    if (dense) {
        ls_fuzz_set_text(draw, keys, "form", "dense");
    }
    if ((kind == LS_OPTIMIZER_LARS_SGD || (kind == LS_OPTIMIZER_SGD && dense)) &&
        ls_fuzz_chance(draw, 50)) {
        ls_fuzz_set_real(draw, keys, "momentum", LS_FUZZ_REAL(draw, 0.9, 0));
    }
    set_constants(draw, keys, kind);
    set_decay(draw, keys, kind, form);
    for (size_t t = 0; t < json_array_size(tables); t++) {
        const json_t *table = json_array_get(tables, t);
        narrow = narrow && (is_kind(table, "dtype", "f16") || is_kind(table, "dtype", "bf16"));
    }
    if (!dense && narrow && ls_fuzz_chance(draw, 50)) {
        ls_fuzz_set_true(draw, keys, "stochastic_rounding");
    }
}

// No rank knows whose row is the largest of a bag that it holds a part of.
static bool cuts_bags(const json_t *table) {
    const json_t *sharding = json_object_get(table, "sharding");
    return !json_is_string(json_object_get(sharding, "type")) ||
           is_kind(sharding, "type", "row_wise") || is_kind(sharding, "type", "table_row_wise") ||
           is_kind(sharding, "type", "grid");
}

static void make_update(ls_fuzz_draw *draw, json_t *scenario, json_t *train, json_t *tables) {
    make_optimizer(draw, scenario, tables);
    int64_t count = ls_fuzz_range(draw, 1, 3);
    ls_fuzz_set_int(draw, train, "steps", count);
    if (ls_fuzz_chance(draw, 20)) {
        ls_fuzz_set_real(draw, train, "clip_norm", LS_FUZZ_REAL(draw, 0.1, 10));
    }
    for (size_t t = 0; t < json_array_size(tables); t++) {
        json_t *one = json_pack("[O]", json_array_get(tables, t));
        draw->failed |= one == NULL;
        if (ls_fuzz_chance(draw, 30)) {
            make_optimizer(draw, json_array_get(tables, t), one);
        }
        json_decref(one);
    }
    if (count > 1 && ls_fuzz_chance(draw, 20)) {
        ls_fuzz_set_true(draw, scenario, "pipeline");
    }
}

void ls_fuzz_make_training(ls_fuzz_draw *draw, json_t *scenario, json_t *tables) {
    json_t *steps = ls_fuzz_array(draw, scenario, "steps");
    ls_fuzz_push_text(draw, steps, "forward");
    ls_fuzz_push_text(draw, steps, "backward");
    for (size_t t = 0; t < json_array_size(tables); t++) {
        json_t *table = json_array_get(tables, t);
        if (is_kind(table, "pooling", "max") && cuts_bags(table)) {
            ls_fuzz_set_text(draw, table, "pooling", "sum");
        }
    }
    json_t *train = ls_fuzz_object(draw, scenario, "train");
    if (ls_fuzz_chance(draw, 50)) {
        ls_fuzz_values(draw, train, "gradients", "f32", 0, true);
    }
    if (ls_fuzz_chance(draw, 20)) {
        ls_fuzz_set_text(draw, train, "gradient_division", "none");
    }
    if (ls_fuzz_chance(draw, 80)) {
        ls_fuzz_push_text(draw, steps, "update");
        make_update(draw, scenario, train, tables);
    }
}
