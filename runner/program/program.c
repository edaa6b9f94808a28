// Runs a scenario's program: its tensors, then its steps in order. One interpreter serves a process
// that holds any number of ranks, and a rank that runs as a thread.
#include "runner/program/program.h"

#include "collectives/check.h"
#include "ranks/hooks.h"
#include "runner/hooks.h"
#include "runner/steps/step.h"

// A rank of a program without tensors has no backend.
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
    LS_TRY_MEMORY(program->calls != NULL && program->axes != NULL && program->tensors != NULL);
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

// The finding of a step's check outside of ranks' threads.
static void stop_at_finding(const ls_program *program) {
    ls_finding finding;
    if (program->self == NULL && ls_check_last()->found &&
        ls_check_finding(&finding, program->arena) == LS_OK) {
        ls_hooks__before_stop();
        ls_gdb_hook_finding(NULL, &finding);
    }
}

static int run_step(ls_program *program, int index) {
    const ls_scenario_step *step = &program->scenario->steps[index];
    program->step = index;
    int status = step->type->run(program, step);
    if (status != LS_OK) {
        stop_at_finding(program);
    }
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
    ls_gdb_execution seen = {.scenario = execution->scenario,
                             .self = execution->self,
                             .program = &program,
                             .step = &program.step};
    ls_hooks__execution_open(&seen);
    status = status == LS_OK ? run_steps(&program) : status;
    ls_hooks__execution_close(&seen);
    close_program(&program);
    if (status == LS_OK && program.self != NULL) {
        ls_program__free_calls(&program);
    }
    return status;
}
