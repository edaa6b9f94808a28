// Random programs on tensors: what they begin with, and what is known of each tensor. The steps are
// make_steps.c's.
#include <stdio.h>
#include <string.h>

#include "fuzz/tensor_model.h"

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

// If only one axis shards, its parts may have any sizes.
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
        if (kind == 0) {
            dtypes[i] = ls_fuzz_integer(draw);
        } else {
            dtypes[i] = kind == 1 ? ls_fuzz_float(draw) : LS_FUZZ_WORD(draw, "f32", "f64");
        }
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
