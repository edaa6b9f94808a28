// A scenario as an SPMD program: every rank runs its stages or steps in a thread, makes its own
// calls, and applies its exceptions. So a bug appears as in the ranks' own code, with the ranks at
// fault and the line of the step. Tables and tensors are on a backend that holds only this rank.
#include "runner/program/program.h"

static bool has_tensors(const ls_scenario *scenario) {
    bool has = !scenario->is_program || scenario->tensor_count > 0;
    for (int i = 0; i < scenario->step_count; i++) {
        has = has || ls_step_on_tensors(&scenario->steps[i]);
    }
    return has;
}

// The line of the calls of tables and tensors outside of steps.
static int first_line(const ls_scenario *scenario) {
    if (scenario->is_program) {
        return scenario->tensor_count > 0 ? scenario->tensors[0].node.mark.line : 1;
    }
    return scenario->tables[0].node.mark.line;
}

static int run_rank(ls_program_run *shared, ls_rank *self, ls_backend *own, ls_arena *arena) {
    const ls_execution execution = {.scenario = shared->scenario,
                                    .backend = own,
                                    .sink = shared->sink,
                                    .self = self,
                                    .shape_only = shared->shape_only};
    ls_finding finding = {0};
    bool found = false;
    if (shared->scenario->is_program) {
        return ls_execute__program(&execution, arena);
    }
    int status = ls_execute__embedding(&execution, shared->arena, &finding, &found);
    if (found && !shared->found) {
        shared->finding = finding;
        shared->found = true;
    }
    return status;
}

int ls_program__rank_main(ls_rank *self, void *arg) {
    ls_program_run *shared = arg;
    const ls_scenario *scenario = shared->scenario;
    ls_arena *arena = NULL;
    ls_backend *own = NULL;
    LS_TRY(ls_arena_create(&arena));
    int status = has_tensors(scenario)
                     ? ls_rank_backend_create(&own, self, scenario->file, first_line(scenario))
                     : LS_OK;
    status = status == LS_OK ? run_rank(shared, self, own, arena) : status;
    if (status != LS_OK && shared->error.code == LS_OK) {
        shared->error = *ls_error_last();
        shared->error.code = status;
        if (status != LS_ERR_FINDING || shared->error.rank == LS_RANK_NONE) {
            shared->error.rank = ls_rank_id(self);  // else it names the ranks that this rank
                                                    // matched with
        }
    }
    ls_backend_free(own);
    ls_arena_free(arena);
    return status;
}
