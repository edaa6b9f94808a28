// The outputs of a step, as stages.
#include "runner/program/program.h"

#include "kernels/kernels.h"
#include "orders/bound.h"

int ls_program__emit(const ls_stage_sink *sink, const ls_stage_output *output) {
    return sink != NULL ? sink->emit(sink->arg, output) : LS_OK;
}

int ls_program__emit_expected(const ls_program *program, ls_stage_output output) {
    size_t count = 0, bytes = ls_dtype_bytes(output.dtype);
    LS_TRY(ls_shape_count(&count, &output.shape));
    if (output.exact != NULL && output.overflow == NULL) {
        output.overflow = ls_arena_alloc(program->arena, count, 1);
        LS_TRY_MEMORY(output.overflow != NULL);
    }
    if (output.data == NULL) {  // for texts: the exact values as they would be stored
        unsigned char *stored = ls_arena_alloc(program->arena, count, bytes);
        for (size_t i = 0; stored != NULL && i < count; i++) {
            ls_element_from_f64(stored + i * bytes, output.dtype, output.exact[i]);
        }
        LS_TRY_MEMORY(stored != NULL);
        output.data = stored;
    }
    return ls_program__emit(program->execution->expected, &output);
}

int ls_program__axis(ls_axis **out, ls_program *program, int axis) {
    LS_ASSERT(axis >= 0 && axis < program->scenario->mesh.ndim);
    if (program->axes[axis] == NULL) {
        LS_TRY(ls_axis_create(&program->axes[axis], program->backend, axis));
    }
    *out = program->axes[axis];
    return LS_OK;
}

int ls_program__emit_cells(const ls_program *program, const ls_scenario_step *step,
                           const char *table, const char *field, int rank, const ls_cells *cells,
                           ls_dtype dtype) {
    const double *exact = cells->bits == NULL ? cells->exact : NULL;
    unsigned char *overflow = ls_arena_alloc(program->arena, cells->count, 1);
    LS_TRY_MEMORY(overflow != NULL);
    for (size_t i = 0; exact != NULL && i < cells->count; i++) {
        bool proves = ls_bound_proves(cells->bounds[i], cells->sizes[i]);
        overflow[i] = cells->overflow[i] | (proves ? LS_OVERFLOW_NONE : LS_BOUND_VACUOUS);
    }
    return ls_program__emit_expected(program, (ls_stage_output){.stage = step->name,
                                                                .table = table,
                                                                .field = field,
                                                                .rank = rank,
                                                                .dtype = dtype,
                                                                .shape = cells->shape,
                                                                .data = cells->bits,
                                                                .exact = exact,
                                                                .bounds = cells->bounds,
                                                                .overflow = overflow});
}
