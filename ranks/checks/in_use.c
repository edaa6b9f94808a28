// Buffers of a call that another one uses, which the rank has not waited for.
#include "ranks/internal.h"

// A call whose buffers another one uses that is not waited for.
static int check_open(ls_request *request) {
    ls_spmd *run = request->rank->run;
    const ls_call *call = &request->call;
    if (!run->checks[LS_FINDING_BUFFER_USE_BEFORE_WAIT] || call->overstated) {
        return LS_OK;
    }
    for (ls_request *at = request->rank->open; at != NULL; at = at->next) {
        if (at == request || at->told || at->call.overstated) {
            continue;
        }
        bool reads =
            ls_memory__meets(call->send, request->send_bytes, at->call.recv, at->recv_bytes);
        bool writes =
            ls_memory__meets(call->recv, request->recv_bytes, at->call.recv, at->recv_bytes) ||
            ls_memory__meets(call->recv, request->recv_bytes, at->call.send, at->send_bytes);
        if (reads || writes) {
            char where[LS_CALL_WHERE_MAX];
            (void)ls_findings__add_call(run, LS_FINDING_BUFFER_USE_BEFORE_WAIT, request,
                                        "it %s a buffer of the %s at %s, which was not waited for",
                                        writes ? "writes" : "reads", ls_kind_name(at->call.kind),
                                        ls_call__where(where, &at->call));
            ls_flight__settle(at, request->call.file, request->call.line);
            return LS_OK;
        }
    }
    return LS_OK;
}

const ls_rank_check ls_rank_check__in_use = {.made = check_open};
