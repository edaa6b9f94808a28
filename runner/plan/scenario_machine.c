// Finds the machine that a scenario is planned for.
#include "runner/plan/scenario_machine.h"

#include <string.h>

#include "base/file.h"

#define MACHINE_BYTES_MAX ((size_t)64 << 20)

bool ls_scenario_machine_is_path(const char *name) {
    return strpbrk(name, "./") != NULL;
}

static int read_file(ls_topology *out, ls_text *errors, const char *path) {
    ls_arena *arena = NULL;
    char *text = NULL;
    size_t bytes = 0;
    LS_TRY(ls_arena_create(&arena));
    int status = ls_file_read(&text, &bytes, arena, path, MACHINE_BYTES_MAX);
    status = status == LS_OK ? ls_topology_parse(out, errors, path, text, bytes) : status;
    ls_arena_free(arena);
    return status;
}

int ls_scenario_machine(ls_topology *out, ls_text *errors, const ls_scenario *scenario,
                        const char *name) {
    LS_ASSERT(out != NULL && errors != NULL && scenario != NULL);
    if (name == NULL) {
        name = scenario->machine != NULL ? scenario->machine : LS_SCENARIO_MACHINE;
    }
    if (!ls_scenario_machine_is_path(name)) {
        return ls_topology_preset(out, name, scenario->ranks, scenario->ranks_per_host);
    }
    *out = (ls_topology){.ranks = scenario->ranks, .ranks_per_host = scenario->ranks_per_host};
    LS_TRY(read_file(out, errors, name));
    if (out->ranks != scenario->ranks || out->ranks_per_host != scenario->ranks_per_host) {
        return LS_FAIL(
            LS_ERR_INVALID, "%s: a machine of %d ranks, %d a host, for a scenario of %d, %d a host",
            name, out->ranks, out->ranks_per_host, scenario->ranks, scenario->ranks_per_host);
    }
    return LS_OK;
}
