// Reductions that a program makes: sums of what each rank multiplies first.
#include <string.h>

#include "exec/front.h"
#include "kernels/element.h"

#define SCALAR_OF_HOST 1  // ncclScalarHostImmediate

LS_NCCL_EXPORT ncclResult_t ncclRedOpCreatePreMulSum(ncclRedOp_t *op, const void *scalar,
                                                     ncclDataType_t type, int residence,
                                                     ncclComm_t comm) {
    unsigned char value[8] = {0};
    ncclResult_t result = ls_front__check(comm, "ncclRedOpCreatePreMulSum");
    if (result == ncclSuccess &&
        (op == NULL || scalar == NULL || type < 0 || type >= LS_DTYPE_COUNT)) {
        result = ls_front__fail(ncclInvalidArgument, "ncclRedOpCreatePreMulSum: type %d", type);
    }
    if (result != ncclSuccess) {
        return result;
    }
    if (residence == SCALAR_OF_HOST) {
        memcpy(value, scalar, ls_dtype_bytes((ls_dtype)type));
    } else {
        result = ls_cuda__read(value, scalar, ls_dtype_bytes((ls_dtype)type));
    }
    for (int i = 0; i < LS_FRONT_OPS_MAX && result == ncclSuccess; i++) {
        if (!comm->op_used[i]) {
            comm->op_used[i] = true;
            comm->op_type[i] = type;
            comm->op_scalar[i] = ls_element_to_f64(value, (ls_dtype)type);
            *op = LS_PREMUL_SUM + i;
            return ncclSuccess;
        }
    }
    return result != ncclSuccess
               ? result
               : ls_front__fail(ncclInvalidUsage, "more than %d reductions of a communicator",
                                LS_FRONT_OPS_MAX);
}

LS_NCCL_EXPORT ncclResult_t ncclRedOpDestroy(ncclRedOp_t op, ncclComm_t comm) {
    ncclResult_t result = ls_front__check(comm, "ncclRedOpDestroy");
    int made = op - LS_PREMUL_SUM;
    if (result == ncclSuccess && (made < 0 || made >= LS_FRONT_OPS_MAX || !comm->op_used[made])) {
        result =
            ls_front__fail(ncclInvalidArgument,
                           "ncclRedOpDestroy: the reduction %d was not made by the program", op);
    }
    if (result == ncclSuccess) {
        comm->op_used[made] = false;
    }
    return result;
}
