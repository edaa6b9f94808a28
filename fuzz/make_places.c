// Draws placements, shapes and cuts of tensors.
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
        int more;
        if (place->kind == 'R') {
            more = snprintf(out + at, bytes - at, "%sR", comma);
        } else {
            more = place->kind == 'S' ? snprintf(out + at, bytes - at, "%sS(%d)", comma, place->dim)
                                      : snprintf(out + at, bytes - at, "%sP(%s)", comma, place->op);
        }
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

int64_t ls_fuzz_chunk(int64_t *start, int64_t size, int64_t count, int64_t index) {
    int64_t each = (size + count - 1) / count;
    *start = each * index < size ? each * index : size;
    return size - *start < each ? size - *start : each;
}
