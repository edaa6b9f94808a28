// Steps of random programs on tensors that introduce tensors or read one: lookups and losses,
// equality checks, placing, an element that all its holders write, and the whole.
#include <stdio.h>
#include <string.h>

#include "fuzz/tensor_model.h"

// ---- Steps that bring their own tensors ---------------------------------------------------------
// A tensor for only one step: of [rows, columns], or [rows] if columns is 0.
static json_t *declare_for(ls_fuzz_program *program, char name[8], int64_t rows, int64_t columns,
                           const char *dtype, int sharded_dim) {
    ls_fuzz_draw *draw = program->draw;
    char places[64] = "";
    int64_t shape[2] = {rows, columns};
    (void)snprintf(name, 8, "y%zu", json_array_size(program->tensors) % 1000);
    for (int axis = 0; axis < program->mesh.axes; axis++) {
        size_t at = strlen(places);
        const char *comma = axis > 0 ? ", " : "";
        bool cut = axis == 0 && sharded_dim >= 0;
        (void)snprintf(places + at, sizeof places - at, cut ? "%sS(%d)" : "%sR", comma,
                       sharded_dim);
    }
    json_t *keys = ls_fuzz_push_object(draw, program->tensors);
    ls_fuzz_set_text(draw, keys, "name", name);
    ls_fuzz_set_ints(draw, keys, "shape", shape, columns > 0 ? 2 : 1);
    ls_fuzz_set_text(draw, keys, "dtype", dtype);
    ls_fuzz_set_text(draw, keys, "values", "normal");
    ls_fuzz_set_text(draw, keys, "placements", places);
    return keys;
}

static void list_below(ls_fuzz_draw *draw, json_t *tensor, int64_t count, int64_t bound) {
    json_t *list = ls_fuzz_array(draw, ls_fuzz_object(draw, tensor, "values"), "values");
    for (int64_t i = 0; i < count; i++) {
        ls_fuzz_push_int(draw, list, ls_fuzz_below(draw, bound));
    }
}

// Further arguments of a loss: weights of its classes, smoothed labels, a class that does not
// count.
static void choose_loss(ls_fuzz_program *program, json_t *keys, int64_t classes,
                        const char *dtype) {
    ls_fuzz_draw *draw = program->draw;
    if (ls_fuzz_chance(draw, 40)) {
        ls_fuzz_set_real(draw, keys, "smoothing", LS_FUZZ_REAL(draw, 0.1, 1));
    }
    if (ls_fuzz_chance(draw, 40)) {
        ls_fuzz_set_text(draw, keys, "reduction", LS_FUZZ_WORD(draw, "sum", "mean"));
    }
    if (ls_fuzz_chance(draw, 30)) {
        ls_fuzz_set_int(draw, keys, "ignored", ls_fuzz_below(draw, classes));
    }
    if (ls_fuzz_chance(draw, 40)) {
        char name[8];
        json_t *weights =
            declare_for(program, name, classes, 0, dtype, (int)ls_fuzz_range(draw, -1, 0));
        json_t *list = ls_fuzz_array(draw, ls_fuzz_object(draw, weights, "values"), "uniform");
        ls_fuzz_push_int(draw, list, 1);
        ls_fuzz_push_int(draw, list, 3);
        ls_fuzz_set_text(draw, keys, "weights", name);
    }
}

// Rows of a sharded weight, and the loss of samples whose logits are sharded either way.
void ls_fuzz_look_up(ls_fuzz_program *program) {
    ls_fuzz_draw *draw = program->draw;
    char ids[8], weight[8];
    bool embeds = ls_fuzz_chance(draw, 60);
    int64_t count = ls_fuzz_range(draw, 1, 9), rows = ls_fuzz_range(draw, 1, 12);
    int64_t dim = ls_fuzz_range(draw, 1, 5), pooled = ls_fuzz_below(draw, 3);
    int cut = (int)ls_fuzz_range(draw, -1, embeds ? 0 : 1);  // ids; samples, classes
    int64_t columns = embeds && pooled == 0 ? ls_fuzz_range(draw, 1, 3) : 0;
    json_t *indices = declare_for(program, ids, count, columns, "i64", cut == 0 ? 0 : -1);
    list_below(draw, indices, count * (columns > 0 ? columns : 1), embeds ? rows : dim);
    const char *dtype = LS_FUZZ_WORD(draw, "f32", "f64");
    (void)declare_for(program, weight, embeds ? rows : count, dim, dtype,
                      embeds ? (int)ls_fuzz_below(draw, 2) : cut);
    json_t *keys =
        ls_fuzz_push_step(program, embeds ? "embedding" : "cross_entropy", embeds ? ids : weight);
    char into[16];
    (void)snprintf(into, sizeof into, "x%zu", json_array_size(program->steps) % 1000);
    ls_fuzz_set_text(draw, keys, "other", embeds ? weight : ids);
    ls_fuzz_set_text(draw, keys, "into", into);
    if (!embeds) {
        choose_loss(program, keys, dim, dtype);
    }
    if (columns > 0) {
        ls_fuzz_set_text(draw, keys, "pooling", LS_FUZZ_WORD(draw, "sum", "mean", "max"));
    }
}

// Moved and redistributed data is unchanged.
void ls_fuzz_check_equal(ls_fuzz_program *program) {
    ls_fuzz_tensor *tensor = ls_fuzz_pick(program, ls_fuzz_fits_values, NULL);
    if (tensor == NULL || program->count >= LS_FUZZ_TENSORS_MAX) {
        return;
    }
    ls_fuzz_tensor made = *tensor;
    char text[64], name[8];
    memcpy(name, tensor->name, sizeof name);
    ls_fuzz_places(program, made.places, made.dtype, made.shape.dims, 0);
    ls_fuzz_places_text(text, sizeof text, program, made.places);
    ls_fuzz_cut(program, &made);
    json_t *keys = ls_fuzz_push_step(program, "redistribute", name);
    ls_fuzz_set_text(program->draw, keys, "to", text);
    ls_fuzz_put(program, keys, tensor, &made, true);
    keys = ls_fuzz_push_step(program, "check_equal", name);
    ls_fuzz_set_text(program->draw, keys, "other", program->of[program->count - 1].name);
}

bool ls_fuzz_fits_replicated(const ls_fuzz_program *program, const ls_fuzz_tensor *tensor,
                             const ls_fuzz_tensor *other) {
    (void)other;
    for (int axis = 0; tensor->placed && axis < program->mesh.axes; axis++) {
        if (tensor->places[axis].kind != 'R') {
            return false;
        }
    }
    return tensor->placed && ls_fuzz_elements(&tensor->shape) > 0;
}

static bool fits_whole_alike(const ls_fuzz_program *program, const ls_fuzz_tensor *tensor,
                             const ls_fuzz_tensor *other) {
    return ls_fuzz_fits_values(program, tensor, NULL) && strcmp(tensor->dtype, other->dtype) == 0 &&
           ls_fuzz_same_shape(&tensor->shape, &other->shape);
}

// Of one whole, with another placement: the model does not follow where they meet.
void ls_fuzz_bring_together(ls_fuzz_program *program, const char *kind) {
    ls_fuzz_tensor *a = ls_fuzz_pick(program, ls_fuzz_fits_values, NULL);
    ls_fuzz_tensor *b = a != NULL ? ls_fuzz_pick(program, fits_whole_alike, a) : NULL;
    if (b != NULL && !(strcmp(kind, "sub") == 0 && a->dtype[0] == 'u')) {
        const ls_fuzz_tensor made = {.dtype = a->dtype};
        json_t *keys = ls_fuzz_push_step(program, kind, a->name);
        ls_fuzz_set_text(program->draw, keys, "other", b->name);
        ls_fuzz_put(program, keys, a, &made, true);
    }
}

// The ranks' own arrays, alike here, as parts of a whole.
void ls_fuzz_place_own(ls_fuzz_program *program) {
    ls_fuzz_draw *draw = program->draw;
    ls_fuzz_tensor *tensor = ls_fuzz_pick(program, ls_fuzz_fits_replicated, NULL);
    if (tensor == NULL || program->mesh.axes > 1 || tensor->shape.dims == 0) {
        return;
    }
    ls_fuzz_tensor made = *tensor;
    made.shape.at[0] *= program->mesh.ranks;
    made.places[0] = (ls_fuzz_place){.kind = 'S', .op = ""};
    ls_fuzz_cut(program, &made);
    json_t *keys = ls_fuzz_push_step(program, "place", tensor->name);
    ls_fuzz_set_ints(draw, keys, "shape", made.shape.at, made.shape.dims);
    ls_fuzz_set_text(draw, keys, "to", "S(0)");
    ls_fuzz_put(program, keys, tensor, &made, true);
}

// All ranks that hold the element write it: no defect.
void ls_fuzz_change(ls_fuzz_program *program) {
    ls_fuzz_draw *draw = program->draw;
    ls_fuzz_tensor *tensor = ls_fuzz_pick(program, ls_fuzz_fits_replicated, NULL);
    if (tensor == NULL ||
        (strcmp(tensor->dtype, "f32") != 0 && strcmp(tensor->dtype, "f64") != 0)) {
        return;
    }
    json_t *keys = ls_fuzz_push_step(program, "change", tensor->name);
    json_t *ranks = ls_fuzz_array(draw, keys, "ranks");
    for (int rank = 0; rank < program->mesh.ranks; rank++) {
        ls_fuzz_push_int(draw, ranks, rank);
    }
    ls_fuzz_set_int(draw, keys, "element", ls_fuzz_below(draw, ls_fuzz_elements(&tensor->shape)));
    // A number that no element has yet, or nothing would change.
    ls_fuzz_set_real(draw, keys, "value", 1000.0625 + (double)json_array_size(program->steps));
}

void ls_fuzz_full(ls_fuzz_program *program) {
    ls_fuzz_tensor *tensor = ls_fuzz_pick(program, ls_fuzz_fits_placed, NULL);
    if (tensor != NULL) {
        (void)ls_fuzz_push_step(program, "full", tensor->name);
    }
}
