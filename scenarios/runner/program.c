// Runs a scenario's program: its tensors, then its steps in order.
#include "scenarios/runner/program.h"

int ls_program__emit(const ls_stage_sink *sink, const ls_scenario_step *step, const char *table,
                     const char *field, int rank, ls_dtype dtype, const ls_shape *shape,
                     const void *data, bool reduces, const double *bounds) {
    if (sink == NULL) {
        return LS_OK;
    }
    const ls_stage_output output = {
        .stage = step->name,
        .table = table,
        .field = field,
        .rank = rank,
        .dtype = dtype,
        .shape = *shape,
        .data = data,
        .reduces = reduces,
        .bounds = bounds,
    };
    return sink->emit(sink->arg, &output);
}

int ls_program__axis(ls_axis **out, ls_program *program, int axis) {
    LS_ASSERT(axis >= 0 && axis < program->scenario->mesh.ndim);
    if (program->axes[axis] == NULL) {
        LS_TRY(ls_axis_create(&program->axes[axis], program->backend, axis));
    }
    *out = program->axes[axis];
    return LS_OK;
}

static bool is_raw_collective(const ls_scenario_step *step) {
    return step->kind <= LS_STEP_BARRIER && step->tensor == NULL;
}

static int run_steps(ls_program *program) {
    LS_TRY(
        ls_comm_create(&program->all, program->backend, NULL, program->scenario->ranks, "world"));
    LS_TRY(ls_program__create_tensors(program));
    for (int i = 0; i < program->scenario->step_count; i++) {
        const ls_scenario_step *step = &program->scenario->steps[i];
        if (step->kind >= LS_STEP_WAIT) {
            continue;  // what they say is of programs with a thread for each rank: program_ranks.c
        }
        int status = is_raw_collective(step) ? ls_program__collective(program, step)
                                             : ls_program__tensor_step(program, step);
        if (status != LS_OK) {
            return ls_error_wrap("%s: step %s", ls_scenario_where(program->scenario, &step->node),
                                 step->name);
        }
    }
    return LS_OK;
}

int ls_execute__program(const ls_execution *execution, ls_arena *arena) {
    const ls_scenario *scenario = execution->scenario;
    ls_program program = {
        .execution = execution,
        .scenario = scenario,
        .backend = execution->backend,
        .world = execution->backend->world,
        .arena = arena,
        .axes = ls_arena_alloc(arena, (size_t)scenario->mesh.ndim, sizeof(ls_axis *)),
        .tensors = ls_arena_alloc(arena, (size_t)(scenario->tensor_count + scenario->step_count),
                                  sizeof(ls_program_tensor)),
    };
    if (program.axes == NULL || program.tensors == NULL) {
        return LS_ERR_MEMORY;
    }
    int status = run_steps(&program);
    for (int i = 0; i < program.tensor_count; i++) {
        ls_local_tensor_free(program.tensors[i].tensor);
    }
    for (int i = 0; i < scenario->mesh.ndim; i++) {
        ls_axis_free(program.axes[i]);
    }
    ls_comm_free(program.all);
    return status;
}
