// NCCL's collectives, messages and groups, as programs call them.
#include "exec/front_functions.h"

LS_NCCL_EXPORT ncclResult_t ncclGroupStart(void) {
    ls_front__group_start();
    return ncclSuccess;
}

LS_NCCL_EXPORT ncclResult_t ncclGroupEnd(void) {
    return ls_front__group_end();
}

// As it would be: nothing is issued, and no time is known.
LS_NCCL_EXPORT ncclResult_t ncclGroupSimulateEnd(ls_nccl_sim_info *info) {
    ls_front__group_drop();
    if (info != NULL) {
        info->estimated_time = 0;
    }
    return ls_front__group_end();
}

#define CALL(name, parameters, arguments, ...)                                                     \
    LS_NCCL_EXPORT ncclResult_t name parameters {                                                  \
        return ls_front__make(&(ls_front_issue){__VA_ARGS__, comm, stream, NULL});                 \
    }
LS_FRONT_FUNCTIONS(CALL)
