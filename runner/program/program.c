// Runs a scenario's program: its tensors, then its steps in order.
#include "runner/program/program.h"

#include "kernels/kernels.h"

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

int ls_program__emit_memory(const ls_stage_sink *sink, ls_arena *arena, ls_backend *backend,
                            const ls_scenario_step *step, const char *field, int rank,
                            const void *memory, size_t count, ls_dtype dtype, bool reduces) {
    ls_shape shape = LS_SHAPE((int64_t)count);
    if (sink == NULL || memory == NULL || count == 0) {
        return LS_OK;
    }
    if (backend->ops->is_device != NULL && backend->ops->is_device(backend, memory)) {
        size_t bytes = count * ls_dtype_bytes(dtype);
        void *host = ls_arena_alloc(arena, bytes, 1);
        LS_TRY(host != NULL ? backend->ops->read_device(backend, host, memory, bytes)
                            : LS_ERR_MEMORY);
        memory = host;
    }
    return ls_program__emit(sink, step, NULL, field, rank, dtype, &shape, memory, reduces);
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

bool ls_program__on_buffers(const ls_scenario_step *step) {
    return ls_step_makes_calls(step->kind) && step->tensor == NULL;
}

int ls_program__open(ls_program *program, const ls_execution *execution, ls_arena *arena) {
    const ls_scenario *scenario = execution->scenario;
    *program = (ls_program){
        .execution = execution,
        .scenario = scenario,
        .backend = execution->backend,
        .world = execution->backend->world,
        .arena = arena,
        .axes = ls_arena_alloc(arena, (size_t)scenario->mesh.ndim, sizeof(ls_axis *)),
        .tensors = ls_arena_alloc(arena, (size_t)(scenario->tensor_count + scenario->step_count),
                                  sizeof(ls_program_tensor)),
    };
    if (program->axes == NULL || program->tensors == NULL) {
        return LS_ERR_MEMORY;
    }
    LS_TRY(ls_comm_create(&program->all, program->backend, NULL, scenario->ranks, "world"));
    return ls_program__create_tensors(program);
}

void ls_program__close(ls_program *program) {
    for (int i = 0; i < program->tensor_count; i++) {
        ls_local_tensor_free(program->tensors[i].tensor);
    }
    for (int i = 0; program->axes != NULL && i < program->scenario->mesh.ndim; i++) {
        ls_axis_free(program->axes[i]);
    }
    ls_comm_free(program->all);
}

static int run_steps(ls_program *program) {
    for (int i = 0; i < program->scenario->step_count; i++) {
        const ls_scenario_step *step = &program->scenario->steps[i];
        if (step->kind >= LS_STEP_WAIT) {
            continue;  // what they say is of programs with a thread for each rank: program_ranks.c
        }
        int status = ls_program__on_buffers(step) ? ls_program__collective(program, step)
                                                  : ls_program__tensor_step(program, step);
        if (status != LS_OK) {
            return ls_error_wrap("%s: step %s", ls_scenario_where(program->scenario, &step->node),
                                 step->name);
        }
    }
    return LS_OK;
}

int ls_execute__program(const ls_execution *execution, ls_arena *arena) {
    ls_program program;
    int status = ls_program__open(&program, execution, arena);
    status = status == LS_OK ? run_steps(&program) : status;
    ls_program__close(&program);
    return status;
}
