// Runs in a single process, and runs that are spread over processes.
#define _XOPEN_SOURCE 700

#include "runner/launch/real.h"

int ls_real_spread(const ls_real_request *request) {
    int processes = request->options->spread;
    if (request->source.backend->open == NULL || processes == 0 ||
        ls_scenario_injects(request->scenario)) {
        return 0;
    }
    return processes < request->scenario->ranks ? processes : request->scenario->ranks;
}

bool ls_real_one_process(const ls_real_request *request) {
    const ls_backend_kind *backend = request->source.backend;
    return (backend->open != NULL && ls_real_spread(request) == 0) ||
           (backend->threads_program != NULL && !request->options->processes);
}
