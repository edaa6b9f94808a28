// Runs a scenario's program: its tensors, then its steps in order. One interpreter for a process
// that holds all ranks, some, or one, and for a rank that runs as a thread.
#include "runner/program/program.h"

#include "kernels/kernels.h"
#include "orders/bound.h"
#include "runner/steps/step.h"

static int emit(const ls_stage_sink *sink, const ls_stage_output *output) {
    return sink != NULL ? sink->emit(sink->arg, output) : LS_OK;
}

int ls_program__emit(const ls_stage_sink *sink, const ls_scenario_step *step, const char *table,
                     const char *field, int rank, ls_dtype dtype, const ls_shape *shape,
                     const void *data, bool reduces) {
    return emit(sink, &(ls_stage_output){.stage = step->name,
                                         .table = table,
                                         .field = field,
                                         .rank = rank,
                                         .dtype = dtype,
                                         .shape = *shape,
                                         .data = data,
                                         .reduces = reduces});
}

int ls_program__emit_expected(const ls_program *program, const ls_scenario_step *step,
                              const char *table, const char *field, int rank, ls_dtype dtype,
                              const ls_shape *shape, const void *data, const double *exact,
                              const double *bounds, const unsigned char *overflow) {
    ls_stage_output output = {.stage = step->name,
                              .table = table,
                              .field = field,
                              .rank = rank,
                              .dtype = dtype,
                              .shape = *shape,
                              .data = data,
                              .exact = exact,
                              .bounds = bounds,
                              .overflow = overflow};
    size_t count = 0, bytes = ls_dtype_bytes(dtype);
    LS_TRY(ls_shape_count(&count, shape));
    if (exact != NULL && overflow == NULL) {
        output.overflow = ls_arena_alloc(program->arena, count, 1);
        if (output.overflow == NULL) {
            return LS_ERR_MEMORY;
        }
    }
    if (data == NULL) {  // for texts: the exact values as they would be stored
        unsigned char *stored = ls_arena_alloc(program->arena, count, bytes);
        for (size_t i = 0; stored != NULL && i < count; i++) {
            ls_element_from_f64(stored + i * bytes, dtype, exact[i]);
        }
        if (stored == NULL) {
            return LS_ERR_MEMORY;
        }
        output.data = stored;
    }
    return emit(program->execution->expected, &output);
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
    if (overflow == NULL) {
        return LS_ERR_MEMORY;
    }
    for (size_t i = 0; exact != NULL && i < cells->count; i++) {
        bool proves = ls_bound_proves(cells->bounds[i], cells->sizes[i]);
        overflow[i] = cells->overflow[i] | (proves ? LS_OVERFLOW_NONE : LS_BOUND_VACUOUS);
    }
    return ls_program__emit_expected(program, step, table, field, rank, dtype, &cells->shape,
                                     cells->bits, exact, cells->bounds, overflow);
}

// A rank whose program has no tensors has no backend of its own.
static int open_program(ls_program *program, const ls_execution *execution, ls_arena *arena) {
    const ls_scenario *scenario = execution->scenario;
    ls_backend *backend = execution->backend;
    size_t steps = (size_t)scenario->step_count;
    *program = (ls_program){
        .execution = execution,
        .scenario = scenario,
        .self = execution->self,
        .backend = backend,
        .world = backend != NULL ? backend->world : NULL,
        .arena = arena,
        .calls = ls_arena_alloc(arena, steps, sizeof(ls_step_calls)),
        .axes = ls_arena_alloc(arena, (size_t)scenario->mesh.ndim, sizeof(ls_axis *)),
        .tensors = ls_arena_alloc(arena, (size_t)scenario->tensor_count + steps,
                                  sizeof(ls_program_tensor)),
    };
    if (program->calls == NULL || program->axes == NULL || program->tensors == NULL) {
        return LS_ERR_MEMORY;
    }
    LS_TRY(program->self != NULL ? ls_program__open_comms(program) : LS_OK);
    if (backend == NULL) {
        return LS_OK;
    }
    LS_TRY(ls_comm_create(&program->all, backend, NULL, scenario->ranks, "world"));
    return ls_program__create_tensors(program);
}

static void close_program(ls_program *program) {
    for (int i = 0; i < program->tensor_count; i++) {
        ls_local_tensor_free(program->tensors[i].tensor);
    }
    for (int i = 0; program->axes != NULL && i < program->scenario->mesh.ndim; i++) {
        ls_axis_free(program->axes[i]);
    }
    ls_comm_free(program->all);
}

static int run_step(ls_program *program, int index) {
    const ls_scenario_step *step = &program->scenario->steps[index];
    int status = ls_step_type_of(step->kind)->run(program, step);
    if (status != LS_OK && (program->self == NULL || ls_step_on_tensors(step))) {
        return ls_error_wrap("%s: step %s", ls_scenario_where(program->scenario, &step->node),
                             step->name);
    }
    return status;
}

static int run_steps(ls_program *program) {
    for (int i = 0; i < program->scenario->step_count; i++) {
        const ls_scenario_except *except =
            ls_program__except(program, &program->scenario->steps[i]);
        if (except != NULL && except->exit) {
            return LS_OK;
        }
        bool swap = except != NULL && except->swap && i + 1 < program->scenario->step_count;
        LS_TRY(swap ? run_step(program, i + 1) : LS_OK);
        LS_TRY(run_step(program, i));
        i += swap ? 1 : 0;
    }
    return LS_OK;
}

int ls_execute__program(const ls_execution *execution, ls_arena *arena) {
    ls_program program;
    int status = open_program(&program, execution, arena);
    status = status == LS_OK ? run_steps(&program) : status;
    close_program(&program);
    if (status == LS_OK && program.self != NULL) {
        ls_program__free_calls(&program);
    }
    return status;
}
