// Calls of the library's own on a backend that holds one rank, and calls that it refuses.
#include "ranks/internal.h"

// A call that the backend refused, or could not complete: the run is over.
int ls_direct__fail(ls_request *request, int status) {
    ls_spmd *run = request->rank->run;
    if (run->status != LS_OK) {
        return ls_spmd__failed(run, request->rank);
    }
    if (ls_check_last()->found) {
        status = ls_findings__add_check(run, &request, 1);
        ls_spmd__fail(run, status, ls_finding_name(ls_check_last()->id));
    } else {
        ls_spmd__fail(run, status, ls_error_last()->text);
    }
    return ls_spmd__failed(run, request->rank);
}

int ls_direct__collective(const ls_request *request, ls_call call) {
    call.comm = request->call.comm;
    call.rank = request->call.rank;
    call.file = request->call.file;
    call.line = request->call.line;
    return ls_backend_run(request->rank->run->backend, &call, 1);
}
