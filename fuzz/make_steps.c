// The steps of random programs on tensors: of each kind what operands it can take, and what becomes
// of their shapes and placements. Where a placement is not followed, the result is not used again.
#include <stdio.h>
#include <string.h>

#include "fuzz/tensor_model.h"

static bool is(const char *a, const char *b) {
    return strcmp(a, b) == 0;
}

json_t *ls_fuzz_push_step(ls_fuzz_program *program, const char *kind, const char *tensor) {
    ls_fuzz_draw *draw = program->draw;
    json_t *keys = ls_fuzz_object(draw, ls_fuzz_push_object(draw, program->steps), kind);
    ls_fuzz_set_text(draw, keys, "tensor", tensor);
    return keys;
}

// The result replaces the operand or has a separate name.
void ls_fuzz_put(ls_fuzz_program *program, json_t *keys, ls_fuzz_tensor *operand,
                 const ls_fuzz_tensor *made, bool always) {
    ls_fuzz_tensor copy = *made;
    bool room = program->count < LS_FUZZ_TENSORS_MAX;
    if (room && (always || ls_fuzz_chance(program->draw, 75))) {
        (void)snprintf(copy.name, sizeof copy.name, "x%zu", json_array_size(program->steps) % 1000);
        ls_fuzz_set_text(program->draw, keys, "into", copy.name);
        program->of[program->count++] = copy;
    } else {
        memcpy(copy.name, operand->name, sizeof copy.name);
        *operand = copy;
    }
}

static bool has_partial(const ls_fuzz_program *program, const ls_fuzz_tensor *tensor) {
    for (int axis = 0; tensor->placed && axis < program->mesh.axes; axis++) {
        if (tensor->places[axis].kind == 'P') {
            return true;
        }
    }
    return false;
}

// Whether all its partial placements are of one of two operations.
static bool partial_only(const ls_fuzz_program *program, const ls_fuzz_tensor *tensor,
                         const char *a, const char *b) {
    for (int axis = 0; tensor->placed && axis < program->mesh.axes; axis++) {
        const ls_fuzz_place *place = &tensor->places[axis];
        if (place->kind == 'P' && !is(place->op, a) && !is(place->op, b)) {
            return false;
        }
    }
    return true;
}

static bool shards_dim(const ls_fuzz_program *program, const ls_fuzz_tensor *tensor, int dim) {
    for (int axis = 0; tensor->placed && axis < program->mesh.axes; axis++) {
        if (tensor->places[axis].kind == 'S' && tensor->places[axis].dim == dim) {
            return true;
        }
    }
    return false;
}

static bool same_places(const ls_fuzz_program *program, const ls_fuzz_tensor *a,
                        const ls_fuzz_tensor *b) {
    for (int axis = 0; axis < program->mesh.axes; axis++) {
        const ls_fuzz_place *x = &a->places[axis], *y = &b->places[axis];
        if (x->kind != y->kind || x->dim != y->dim || !is(x->op, y->op) || x->sized != y->sized ||
            memcmp(x->sizes, y->sizes, sizeof x->sizes) != 0) {
            return false;
        }
    }
    return true;
}

static bool same_shards(const ls_fuzz_program *program, const ls_fuzz_tensor *a,
                        const ls_fuzz_tensor *b) {
    for (int rank = 0; rank < program->mesh.ranks; rank++) {
        if (!ls_fuzz_same_shape(&a->shards[rank], &b->shards[rank])) {
            return false;
        }
    }
    return true;
}

static bool same_offsets(const ls_fuzz_program *program, const ls_fuzz_tensor *a,
                         const ls_fuzz_tensor *b) {
    ls_fuzz_shape at, at_other, size;
    for (int rank = 0; a->placed && b->placed && rank < program->mesh.ranks; rank++) {
        ls_fuzz_offset(program, a, rank, &at, &size);
        ls_fuzz_offset(program, b, rank, &at_other, &size);
        if (!ls_fuzz_same_shape(&at, &at_other)) {
            return false;
        }
    }
    return true;
}

// ---- Fitting tensors ----------------------------------------------------------------------------
bool ls_fuzz_fits_placed(const ls_fuzz_program *program, const ls_fuzz_tensor *tensor,
                         const ls_fuzz_tensor *other) {
    (void)program, (void)other;
    return tensor->placed;
}

static bool fits_cut(const ls_fuzz_program *program, const ls_fuzz_tensor *tensor,
                     const ls_fuzz_tensor *other) {
    (void)program, (void)other;
    return tensor->cut;
}

static bool fits_dims(const ls_fuzz_program *program, const ls_fuzz_tensor *tensor,
                      const ls_fuzz_tensor *other) {
    (void)program, (void)other;
    return tensor->cut && tensor->shards[0].dims > 0;
}

bool ls_fuzz_fits_values(const ls_fuzz_program *program, const ls_fuzz_tensor *tensor,
                         const ls_fuzz_tensor *other) {
    (void)other;
    return tensor->placed && tensor->shape.dims > 0 && ls_fuzz_elements(&tensor->shape) > 0 &&
           !has_partial(program, tensor);
}

static bool fits_whole_floats(const ls_fuzz_program *program, const ls_fuzz_tensor *tensor,
                              const ls_fuzz_tensor *other) {
    return ls_fuzz_fits_values(program, tensor, other) &&
           (is(tensor->dtype, "f32") || is(tensor->dtype, "f64"));
}

static bool fits_alike(const ls_fuzz_program *program, const ls_fuzz_tensor *tensor,
                       const ls_fuzz_tensor *other) {
    return tensor->cut && is(tensor->dtype, other->dtype) && same_shards(program, tensor, other) &&
           same_offsets(program, tensor, other);
}

static bool fits_matrix(const ls_fuzz_program *program, const ls_fuzz_tensor *tensor,
                        const ls_fuzz_tensor *other) {
    (void)program, (void)other;
    return tensor->cut && tensor->shards[0].dims == 2 &&
           (is(tensor->dtype, "f32") || is(tensor->dtype, "f64"));
}

static bool fits_factor(const ls_fuzz_program *program, const ls_fuzz_tensor *tensor,
                        const ls_fuzz_tensor *other) {
    bool fits = fits_matrix(program, tensor, NULL) && is(tensor->dtype, other->dtype);
    for (int rank = 0; fits && rank < program->mesh.ranks; rank++) {
        fits = other->shards[rank].at[1] == tensor->shards[rank].at[0];
    }
    return fits;
}

static bool fits_scaled(const ls_fuzz_program *program, const ls_fuzz_tensor *tensor,
                        const ls_fuzz_tensor *other) {
    (void)other;
    return tensor->cut && (partial_only(program, tensor, "sum", "avg") ||
                           partial_only(program, tensor, "max", "min"));
}

static bool fits_two_dims(const ls_fuzz_program *program, const ls_fuzz_tensor *tensor,
                          const ls_fuzz_tensor *other) {
    (void)program, (void)other;
    return tensor->cut && tensor->shards[0].dims >= 2;
}

// ---- Steps on whole tensors ---------------------------------------------------------------------
static void redistribute(ls_fuzz_program *program) {
    ls_fuzz_tensor *tensor = ls_fuzz_pick(program, ls_fuzz_fits_placed, NULL);
    if (tensor == NULL) {
        return;
    }
    ls_fuzz_tensor made = *tensor;
    char text[64];
    ls_fuzz_places(program, made.places, made.dtype, made.shape.dims, 20);
    ls_fuzz_places_text(text, sizeof text, program, made.places);
    ls_fuzz_cut(program, &made);
    json_t *keys = ls_fuzz_push_step(program, "redistribute", tensor->name);
    ls_fuzz_set_text(program->draw, keys, "to", text);
    ls_fuzz_put(program, keys, tensor, &made, false);
}

static void elementwise(ls_fuzz_program *program, const char *kind) {
    if (ls_fuzz_chance(program->draw, 25)) {
        ls_fuzz_bring_together(program, kind);
        return;
    }
    ls_fuzz_tensor *a = ls_fuzz_pick(program, fits_cut, NULL);
    ls_fuzz_tensor *b = a != NULL ? ls_fuzz_pick(program, fits_alike, a) : NULL;
    bool sub = is(kind, "sub"), mul = is(kind, "mul");
    // Maxima and minima in one tensor are refused: which is reduced first would change the value.
    bool mixed =
        b != NULL && has_partial(program, a) && has_partial(program, b) &&
        !same_places(program, a, b) &&
        !(partial_only(program, a, "sum", "avg") && partial_only(program, b, "sum", "avg"));
    if (b == NULL || mixed ||
        (sub && (a->dtype[0] == 'u' || !partial_only(program, b, "sum", "avg")))) {
        return;
    }
    ls_fuzz_tensor made = *a;
    made.placed =
        a->placed && b->placed && same_places(program, a, b) &&
        ls_fuzz_same_shape(&a->shape, &b->shape) &&
        (mul ? partial_only(program, a, "prod", "prod") : partial_only(program, a, "sum", "avg"));
    made.cut = made.placed || !a->placed || !b->placed;  // else they are reduced first
    json_t *keys = ls_fuzz_push_step(program, kind, a->name);
    ls_fuzz_set_text(program->draw, keys, "other", b->name);
    ls_fuzz_put(program, keys, a, &made, false);
}

static bool is_linear(const ls_fuzz_place *place) {
    return place->kind == 'R' ||
           (place->kind == 'P' && (is(place->op, "sum") || is(place->op, "avg")));
}

// Fills in the placements of a product; false: the ranks' products are no parts of the whole's.
static bool product_places(const ls_fuzz_program *program, ls_fuzz_tensor *made,
                           const ls_fuzz_tensor *a, const ls_fuzz_tensor *b) {
    ls_fuzz_shape at, at_other, size;
    if (!a->placed || !b->placed || a->shape.at[1] != b->shape.at[0]) {
        return false;
    }
    for (int axis = 0; axis < program->mesh.axes; axis++) {
        const ls_fuzz_place *x = &a->places[axis], *y = &b->places[axis];
        if (((x->kind == 'S' && x->dim == 0) || is_linear(x)) && y->kind == 'R') {
            made->places[axis] = *x;
        } else if (x->kind == 'R' && ((y->kind == 'S' && y->dim == 1) || is_linear(y))) {
            made->places[axis] = *y;
        } else if (x->kind == 'S' && x->dim == 1 && y->kind == 'S' && y->dim == 0) {
            made->places[axis] = (ls_fuzz_place){.kind = 'P', .op = "sum"};
        } else {
            return false;
        }
    }
    for (int rank = 0; rank < program->mesh.ranks; rank++) {
        ls_fuzz_offset(program, a, rank, &at, &size);
        ls_fuzz_offset(program, b, rank, &at_other, &size);
        if (at.at[1] != at_other.at[0]) {
            return false;
        }
    }
    return true;
}

static void matmul(ls_fuzz_program *program) {
    ls_fuzz_tensor *a = ls_fuzz_pick(program, fits_matrix, NULL);
    ls_fuzz_tensor *b = a != NULL ? ls_fuzz_pick(program, fits_factor, a) : NULL;
    if (b == NULL) {
        return;
    }
    ls_fuzz_tensor made = *a;
    made.placed = product_places(program, &made, a, b);
    made.shape.at[1] = b->shape.at[1];
    for (int rank = 0; rank < program->mesh.ranks; rank++) {
        made.shards[rank].at[1] = b->shards[rank].at[1];
    }
    json_t *keys = ls_fuzz_push_step(program, "matmul", a->name);
    ls_fuzz_set_text(program->draw, keys, "other", b->name);
    ls_fuzz_put(program, keys, a, &made, false);
}

static void scale(ls_fuzz_program *program) {
    ls_fuzz_tensor *tensor = ls_fuzz_pick(program, fits_scaled, NULL);
    if (tensor == NULL) {
        return;
    }
    bool linear = partial_only(program, tensor, "sum", "avg");
    ls_fuzz_tensor made = *tensor;
    json_t *keys = ls_fuzz_push_step(program, "scale", tensor->name);
    if (ls_fuzz_dtype_whole(tensor->dtype)) {
        ls_fuzz_set_int(program->draw, keys, "factor",
                        ls_fuzz_below(program->draw, linear ? 4 : 2));
    } else {
        double factor = LS_FUZZ_REAL(program->draw, 0.5, 0.1, 3, 0, -1.5, 1000);
        ls_fuzz_set_real(program->draw, keys, "factor", linear || factor > 0 ? factor : 2);
    }
    ls_fuzz_put(program, keys, tensor, &made, false);
}

static void swap_dims(ls_fuzz_shape *shape) {
    int64_t first = shape->at[0];
    shape->at[0] = shape->at[1];
    shape->at[1] = first;
}

static void transpose(ls_fuzz_program *program) {
    ls_fuzz_tensor *tensor = ls_fuzz_pick(program, fits_two_dims, NULL);
    if (tensor == NULL) {
        return;
    }
    ls_fuzz_tensor made = *tensor;
    swap_dims(&made.shape);
    for (int rank = 0; rank < program->mesh.ranks; rank++) {
        swap_dims(&made.shards[rank]);
    }
    for (int axis = 0; axis < program->mesh.axes; axis++) {
        ls_fuzz_place *place = &made.places[axis];
        place->dim = place->kind == 'S' && place->dim < 2 ? 1 - place->dim : place->dim;
    }
    ls_fuzz_put(program, ls_fuzz_push_step(program, "transpose", tensor->name), tensor, &made,
                false);
}

static void narrow(ls_fuzz_program *program) {
    ls_fuzz_draw *draw = program->draw;
    ls_fuzz_tensor *tensor = ls_fuzz_pick(program, fits_dims, NULL);
    if (tensor == NULL) {
        return;
    }
    int dims = tensor->shards[0].dims, dim = (int)ls_fuzz_below(draw, dims);
    int64_t least = tensor->shards[0].at[dim];
    for (int rank = 1; rank < program->mesh.ranks; rank++) {
        int64_t here = tensor->shards[rank].at[dim];
        least = here < least ? here : least;
    }
    int64_t start = ls_fuzz_range(draw, 0, least), length = ls_fuzz_range(draw, 0, least - start);
    ls_fuzz_tensor made = *tensor;
    made.placed = tensor->placed && !shards_dim(program, tensor, dim);
    made.shape.at[dim] = length;
    for (int rank = 0; rank < program->mesh.ranks; rank++) {
        made.shards[rank].at[dim] = length;
    }
    json_t *keys = ls_fuzz_push_step(program, "narrow", tensor->name);
    ls_fuzz_set_int(draw, keys, "dim", ls_fuzz_chance(draw, 70) ? dim : dim - dims);
    ls_fuzz_set_int(draw, keys, "start", start);
    ls_fuzz_set_int(draw, keys, "length", length);
    ls_fuzz_put(program, keys, tensor, &made, false);
}

// A tensor beside itself, which always fits.
static void cat(ls_fuzz_program *program) {
    ls_fuzz_draw *draw = program->draw;
    ls_fuzz_tensor *tensor = ls_fuzz_pick(program, fits_dims, NULL);
    if (tensor == NULL) {
        return;
    }
    int dim = (int)ls_fuzz_below(draw, tensor->shards[0].dims);
    ls_fuzz_tensor *other = ls_fuzz_pick(program, fits_alike, tensor);
    if (tensor->placed != other->placed ||
        (tensor->placed && !(same_places(program, tensor, other) &&
                             ls_fuzz_same_shape(&tensor->shape, &other->shape)))) {
        return;
    }
    ls_fuzz_tensor made = *tensor;
    made.shape.at[dim] *= 2;
    for (int rank = 0; rank < program->mesh.ranks; rank++) {
        made.shards[rank].at[dim] *= 2;
    }
    if (tensor->placed) {  // shards along the dimension are gathered first
        for (int axis = 0; axis < program->mesh.axes; axis++) {
            if (made.places[axis].kind == 'S' && made.places[axis].dim == dim) {
                made.places[axis] = (ls_fuzz_place){.kind = 'R', .op = ""};
            }
        }
        ls_fuzz_cut(program, &made);
    }
    json_t *keys = ls_fuzz_object(draw, ls_fuzz_push_object(draw, program->steps), "cat");
    json_t *names = ls_fuzz_array(draw, keys, "tensors");
    ls_fuzz_push_text(draw, names, tensor->name);
    ls_fuzz_push_text(draw, names, other->name);
    ls_fuzz_set_int(draw, keys, "dim", dim);
    ls_fuzz_put(program, keys, tensor, &made, true);
}

// Steps whose results this file does not follow further: folds of a dimension, and views.
static void last_step(ls_fuzz_program *program) {
    ls_fuzz_draw *draw = program->draw;
    const char *kind = LS_FUZZ_WORD(draw, "sum", "mean", "prod", "amax", "amin", "norm", "softmax",
                                    "log_softmax", "slice", "view", "cast", "dropout");
    ls_fuzz_tensor *tensor = ls_fuzz_pick(program, fits_whole_floats, NULL);
    if (tensor == NULL) {
        return;
    }
    ls_fuzz_tensor made = {.dtype = tensor->dtype};
    int dim = (int)ls_fuzz_below(draw, tensor->shape.dims);
    json_t *keys = ls_fuzz_push_step(program, kind, tensor->name);
    if (is(kind, "slice")) {
        int64_t start = ls_fuzz_below(draw, tensor->shape.at[dim]);
        ls_fuzz_set_int(draw, keys, "dim", dim);
        ls_fuzz_set_int(draw, keys, "start", start);
        ls_fuzz_set_int(draw, keys, "length",
                        ls_fuzz_range(draw, 1, tensor->shape.at[dim] - start));
    } else if (is(kind, "view")) {
        int64_t shape[LS_FUZZ_DIMS_MAX + 1];
        memcpy(shape, tensor->shape.at, sizeof tensor->shape.at);
        shape[tensor->shape.dims] = 1;  // always a view of whatever is sharded
        ls_fuzz_set_ints(draw, keys, "shape", shape, tensor->shape.dims + 1);
    } else if (is(kind, "cast")) {
        ls_fuzz_set_text(draw, keys, "dtype", ls_fuzz_float(draw));
    } else if (is(kind, "dropout")) {
        ls_fuzz_set_real(draw, keys, "p", LS_FUZZ_REAL(draw, 0, 0.3, 0.9));
        made = *tensor;
    } else {
        ls_fuzz_set_int(draw, keys, "dim", dim);
    }
    ls_fuzz_put(program, keys, tensor, &made, true);
}

// ---- Collectives on the shards ------------------------------------------------------------------
// Whether the ranks of each line along an axis have shards of one shape, but for a dimension.
static bool lines_alike(const ls_fuzz_program *program, const ls_fuzz_tensor *tensor, int axis,
                        int free_dim) {
    int stride = 1;
    for (int a = axis + 1; a < program->mesh.axes; a++) {
        stride *= (int)program->mesh.shape[a];
    }
    for (int rank = 0; rank < program->mesh.ranks; rank++) {
        int first = rank - stride * ls_fuzz_mesh_at(&program->mesh, rank, axis);
        for (int d = 0; d < tensor->shards[rank].dims; d++) {
            if (d != free_dim && tensor->shards[rank].at[d] != tensor->shards[first].at[d]) {
                return false;
            }
        }
    }
    return true;
}

static void collective(ls_fuzz_program *program, const char *kind) {
    ls_fuzz_draw *draw = program->draw;
    int axis = (int)ls_fuzz_below(draw, program->mesh.axes), dim = (int)ls_fuzz_below(draw, 2);
    int cat_dim = (int)ls_fuzz_below(draw, 2);
    bool all_to_all = is(kind, "all_to_all"), gathers = is(kind, "all_gather");
    ls_fuzz_tensor *tensor = ls_fuzz_pick(program, fits_two_dims, NULL);
    int but = all_to_all ? cat_dim : -1;
    if (gathers) {
        but = dim;
    }
    if (tensor == NULL || !lines_alike(program, tensor, axis, but)) {
        return;
    }
    ls_fuzz_tensor made = {.dtype = tensor->dtype};
    json_t *keys = ls_fuzz_push_step(program, kind, tensor->name);
    char text[8];
    (void)snprintf(text, sizeof text, "%d", axis);
    if (program->mesh.axes > 1 || ls_fuzz_chance(draw, 50)) {
        ls_fuzz_set_text(draw, keys, "axis", text);
    }
    const ls_fuzz_place *place = &tensor->places[axis];
    if (is(kind, "all_reduce") || is(kind, "reduce_scatter")) {
        const char *op = LS_FUZZ_WORD(draw, "sum", "sum", "avg", "prod", "max", "min");
        if (is(kind, "all_reduce") && tensor->placed && place->kind == 'P' &&
            ls_fuzz_chance(draw, 60)) {
            op = place->op;
            made = *tensor;
            made.places[axis] = (ls_fuzz_place){.kind = 'R', .op = ""};
        }
        ls_fuzz_set_text(draw, keys, "op", op);
    } else if (is(kind, "broadcast")) {
        ls_fuzz_set_int(draw, keys, "root", ls_fuzz_below(draw, program->mesh.shape[axis]));
        made = *tensor;
    }
    if (gathers || is(kind, "reduce_scatter")) {
        ls_fuzz_set_int(draw, keys, "dim", dim);
    } else if (all_to_all) {
        ls_fuzz_set_int(draw, keys, "split_dim", dim);
        ls_fuzz_set_int(draw, keys, "cat_dim", cat_dim);
    }
    ls_fuzz_put(program, keys, tensor, &made, false);
}

void ls_fuzz_step(ls_fuzz_program *program) {
    const char *kind =
        LS_FUZZ_WORD(program->draw, "redistribute", "redistribute", "redistribute", "full", "full",
                     "matmul", "add", "sub", "mul", "scale", "transpose", "narrow", "cat", "last",
                     "last", "change", "look_up", "check_equal", "place", "all_reduce",
                     "all_gather", "reduce_scatter", "all_to_all", "broadcast");
    static const struct {
        const char *kind;
        void (*make)(ls_fuzz_program *program);
    } makers[] = {
        {"redistribute", redistribute},
        {"full", ls_fuzz_full},
        {"matmul", matmul},
        {"scale", scale},
        {"transpose", transpose},
        {"narrow", narrow},
        {"cat", cat},
        {"last", last_step},
        {"change", ls_fuzz_change},
        {"look_up", ls_fuzz_look_up},
        {"check_equal", ls_fuzz_check_equal},
        {"place", ls_fuzz_place_own},
    };
    for (size_t i = 0; i < sizeof makers / sizeof *makers; i++) {
        if (is(kind, makers[i].kind)) {
            makers[i].make(program);
            return;
        }
    }
    if (is(kind, "add") || is(kind, "sub") || is(kind, "mul")) {
        elementwise(program, kind);
    } else {
        collective(program, kind);
    }
}
