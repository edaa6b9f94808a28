// Lists the redistributions of a program.
#include "runner/plan/redistributions.h"

#include "backends/kinds.h"
#include "base/machine.h"
#include "runner/program/execute.h"
#include "runner/scenario/memory_need.h"

static int run(ls_redistributions *out, const ls_scenario *scenario, ls_world *world) {
    ls_backend *backend = NULL;
    LS_TRY(ls_backend_kind_sim.open(&backend, world, NULL));
    const ls_execution execution = {
        .scenario = scenario, .backend = backend, .redistributions = out};
    ls_finding finding;
    bool found = false;
    int status = ls_execute(&execution, out->arena, &finding, &found);
    ls_backend_free(backend);
    return status;
}

int ls_redistributions_of(ls_redistributions *out, const char **stopped,
                          const ls_scenario *scenario, ls_arena *arena) {
    LS_ASSERT(out != NULL && stopped != NULL && scenario != NULL && arena != NULL);
    *out = (ls_redistributions){.arena = arena};
    *stopped = NULL;
    if (!scenario->is_program || scenario->tensor_count == 0) {
        return LS_OK;
    }
    const ls_world_options options = {.mesh = scenario->mesh, .seed = scenario->seed};
    ls_world *world = NULL;
    int status = ls_memory_check(scenario, ls_memory_need(scenario), ls_machine_memory());
    status = status == LS_OK ? ls_world_create(&world, &options) : status;
    status = status == LS_OK ? run(out, scenario, world) : status;
    ls_world_free(world);
    if (status == LS_OK || status == LS_ERR_MEMORY) {
        return status;
    }
    *stopped = ls_arena_printf(arena, "%s", ls_error_last()->text);
    return *stopped != NULL ? LS_OK : LS_ERR_MEMORY;
}
