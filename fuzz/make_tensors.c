// Random programs on tensors: what they begin with, and what is known of each tensor. The steps are
// make_steps.c's.
#include <stdio.h>
#include <string.h>

#include "fuzz/tensor_model.h"

int64_t ls_fuzz_elements(const ls_fuzz_shape *shape) {
    int64_t count = 1;
    for (int d = 0; d < shape->dims; d++) {
        count *= shape->at[d];
    }
    return count;
}

bool ls_fuzz_same_shape(const ls_fuzz_shape *a, const ls_fuzz_shape *b) {
    return a->dims == b->dims && memcmp(a->at, b->at, (size_t)a->dims * sizeof *a->at) == 0;
}

int64_t ls_fuzz_chunk(int64_t *start, int64_t size, int64_t count, int64_t index) {
    int64_t each = (size + count - 1) / count;
    *start = each * index < size ? each * index : size;
    return size - *start < each ? size - *start : each;
}

void ls_fuzz_places(ls_fuzz_program *program, ls_fuzz_place *out, const char *dtype, int dims,
                    int partial) {
    ls_fuzz_draw *draw = program->draw;
    const char *op = LS_FUZZ_WORD(draw, "sum", "sum", "avg", "prod", "max", "min");
    if (ls_fuzz_dtype_whole(dtype) && ls_fuzz_chance(draw, 33)) {
        op = LS_FUZZ_WORD(draw, "band", "bor", "bxor");
    }
    bool linear = strcmp(op, "sum") == 0 || strcmp(op, "avg") == 0;
    for (int axis = 0; axis < program->mesh.axes; axis++) {
        int64_t kind = ls_fuzz_below(draw, 100);
        out[axis] = (ls_fuzz_place){.kind = 'R', .op = ""};
        if (kind < partial) {
            out[axis].kind = 'P';
            out[axis].op = linear ? LS_FUZZ_WORD(draw, "sum", "avg") : op;
        } else if (kind < 75 && dims > 0) {
            out[axis].kind = 'S';
            out[axis].dim = (int)ls_fuzz_below(draw, dims);
        }
    }
}

void ls_fuzz_places_text(char *out, size_t bytes, const ls_fuzz_program *program,
                         const ls_fuzz_place *places) {
    size_t at = 0;
    out[0] = 0;
    for (int axis = 0; axis < program->mesh.axes && at < bytes; axis++) {
        const ls_fuzz_place *place = &places[axis];
        const char *comma = axis > 0 ? ", " : "";
        int more = place->kind == 'R' ? snprintf(out + at, bytes - at, "%sR", comma)
                   : place->kind == 'S'
                       ? snprintf(out + at, bytes - at, "%sS(%d)", comma, place->dim)
                       : snprintf(out + at, bytes - at, "%sP(%s)", comma, place->op);
        at += more > 0 ? (size_t)more : 0;
    }
}

void ls_fuzz_offset(const ls_fuzz_program *program, const ls_fuzz_tensor *tensor, int rank,
                    ls_fuzz_shape *at, ls_fuzz_shape *size) {
    *size = tensor->shape;
    *at = (ls_fuzz_shape){.dims = tensor->shape.dims};
    for (int axis = 0; axis < program->mesh.axes; axis++) {
        const ls_fuzz_place *place = &tensor->places[axis];
        int here = ls_fuzz_mesh_at(&program->mesh, rank, axis);
        if (place->kind != 'S') {
            continue;
        }
        int64_t start = 0, length;
        if (place->sized) {
            for (int i = 0; i < here; i++) {
                start += place->sizes[i];
            }
            length = place->sizes[here];
        } else {
            length = ls_fuzz_chunk(&start, size->at[place->dim], program->mesh.shape[axis], here);
        }
        at->at[place->dim] += start;
        size->at[place->dim] = length;
    }
}

void ls_fuzz_cut(const ls_fuzz_program *program, ls_fuzz_tensor *tensor) {
    ls_fuzz_shape at;
    tensor->placed = tensor->cut = true;
    for (int rank = 0; rank < program->mesh.ranks; rank++) {
        ls_fuzz_offset(program, tensor, rank, &at, &tensor->shards[rank]);
    }
}

// Blocks along the first dimension, each somewhere: a rank has one, several or none. Nothing but
// the whole is asked of them.
static void declare_blocks(ls_fuzz_program *program, json_t *keys, const ls_fuzz_tensor *tensor) {
    ls_fuzz_draw *draw = program->draw;
    int64_t sizes[4], start = 0;
    int parts = (int)ls_fuzz_range(draw, 1, 4);
    ls_fuzz_parts(draw, sizes, parts, tensor->shape.at[0]);
    json_t *blocks = ls_fuzz_array(draw, keys, "blocks");
    for (int i = 0; i < parts; i++) {
        int64_t at[LS_FUZZ_DIMS_MAX] = {start}, size[LS_FUZZ_DIMS_MAX];
        memcpy(size, tensor->shape.at, sizeof size);
        size[0] = sizes[i];
        start += sizes[i];
        json_t *block = ls_fuzz_push_object(draw, blocks);
        ls_fuzz_set_int(draw, block, "rank", ls_fuzz_below(draw, program->mesh.ranks));
        ls_fuzz_set_ints(draw, block, "offset", at, tensor->shape.dims);
        ls_fuzz_set_ints(draw, block, "size", size, tensor->shape.dims);
    }
    json_t *full = ls_fuzz_object(draw, ls_fuzz_push_object(draw, program->steps), "full");
    ls_fuzz_set_text(draw, full, "tensor", tensor->name);
}

// Where one axis alone shards, its parts may be of any sizes.
static void size_parts(ls_fuzz_program *program, json_t *keys, ls_fuzz_tensor *tensor) {
    int only = -1, sharded = 0;
    for (int axis = 0; axis < program->mesh.axes; axis++) {
        if (tensor->places[axis].kind == 'S') {
            only = axis;
            sharded += 1;
        }
    }
    if (sharded == 1 && ls_fuzz_chance(program->draw, 40)) {
        ls_fuzz_place *place = &tensor->places[only];
        int parts = (int)program->mesh.shape[only];
        place->sized = true;
        ls_fuzz_parts(program->draw, place->sizes, parts, tensor->shape.at[place->dim]);
        ls_fuzz_set_ints(program->draw, keys, "sizes", place->sizes, parts);
    }
}

static void declare(ls_fuzz_program *program, int number, const char *dtype) {
    ls_fuzz_draw *draw = program->draw;
    ls_fuzz_tensor *tensor = &program->of[program->count];
    *tensor = (ls_fuzz_tensor){.dtype = dtype};
    (void)snprintf(tensor->name, sizeof tensor->name, "t%d", number % 1000);
    tensor->shape.dims = (int)LS_FUZZ_NUMBER(draw, 1, 2, 2, 2, 3);
    for (int d = 0; d < tensor->shape.dims; d++) {
        tensor->shape.at[d] = ls_fuzz_chance(draw, 93) ? LS_FUZZ_NUMBER(draw, 1, 2, 3, 5, 8)
                                                       : LS_FUZZ_NUMBER(draw, 0, 11);
    }
    json_t *keys = ls_fuzz_push_object(draw, program->tensors);
    ls_fuzz_set_text(draw, keys, "name", tensor->name);
    ls_fuzz_set_ints(draw, keys, "shape", tensor->shape.at, tensor->shape.dims);
    ls_fuzz_set_text(draw, keys, "dtype", dtype);
    ls_fuzz_values(draw, keys, "values", dtype, ls_fuzz_elements(&tensor->shape), false);
    if (ls_fuzz_chance(draw, 12)) {
        declare_blocks(program, keys, tensor);
        return;
    }
    char text[64];
    ls_fuzz_places(program, tensor->places, dtype, tensor->shape.dims, 30);
    size_parts(program, keys, tensor);
    ls_fuzz_places_text(text, sizeof text, program, tensor->places);
    ls_fuzz_set_text(draw, keys, "placements", text);
    if (ls_fuzz_chance(draw, 20)) {
        ls_fuzz_set_int(draw, keys, "source", ls_fuzz_below(draw, program->mesh.ranks));
    } else if (strchr(text, 'P') != NULL && ls_fuzz_chance(draw, 40)) {
        ls_fuzz_set_text(draw, keys, "parts", "each");
    }
    ls_fuzz_cut(program, tensor);
    program->count += 1;
}

void ls_fuzz_make_tensors(ls_fuzz_draw *draw, json_t *scenario) {
    ls_fuzz_program program = {.draw = draw};
    ls_fuzz_mesh_make(&program.mesh, draw, scenario, LS_FUZZ_AXES_MAX);
    json_t *keys = ls_fuzz_object(draw, scenario, "program");
    program.tensors = ls_fuzz_array(draw, keys, "tensors");
    program.steps = ls_fuzz_array(draw, keys, "steps");
    const char *dtypes[2];
    for (int i = 0; i < 2; i++) {
        int64_t kind = ls_fuzz_below(draw, 3);
        dtypes[i] = kind == 0   ? ls_fuzz_integer(draw)
                    : kind == 1 ? ls_fuzz_float(draw)
                                : LS_FUZZ_WORD(draw, "f32", "f64");
    }
    int64_t count = ls_fuzz_range(draw, 1, 3), steps = ls_fuzz_range(draw, 1, 8);
    for (int64_t i = 0; i < count; i++) {
        declare(&program, (int)i, dtypes[ls_fuzz_below(draw, 2)]);
    }
    for (int64_t i = 0; i < steps; i++) {
        ls_fuzz_step(&program);
    }
    if (json_array_size(program.steps) == 0) {
        (void)ls_fuzz_object(draw, ls_fuzz_push_object(draw, program.steps), "barrier");
    }
    ls_fuzz_order(draw, scenario);
}

// Any of the tensors that fit; NULL: there is none.
ls_fuzz_tensor *ls_fuzz_pick(ls_fuzz_program *program, ls_fuzz_fits_fn fits,
                             const ls_fuzz_tensor *other) {
    ls_fuzz_tensor *found[LS_FUZZ_TENSORS_MAX];
    int count = 0;
    for (int i = 0; i < program->count; i++) {
        if (fits(program, &program->of[i], other)) {
            found[count++] = &program->of[i];
        }
    }
    return count > 0 ? found[ls_fuzz_below(program->draw, count)] : NULL;
}
