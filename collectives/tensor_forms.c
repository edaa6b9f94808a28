// The collectives that there are on local tensors, by kind.
#include "collectives/collectives.h"

static int all_gather(ls_local_tensor **out, const ls_local_tensor *in, const ls_tensor_call *call,
                      const ls_axis *axis) {
    return ls_tensor_all_gather(out, in, call->dim, axis);
}

static int all_reduce(ls_local_tensor **out, const ls_local_tensor *in, const ls_tensor_call *call,
                      const ls_axis *axis) {
    return ls_tensor_all_reduce(out, in, call->op, axis);
}

static int all_to_all(ls_local_tensor **out, const ls_local_tensor *in, const ls_tensor_call *call,
                      const ls_axis *axis) {
    return ls_tensor_all_to_all(out, in, call->split_dim, call->cat_dim, axis);
}

static int broadcast(ls_local_tensor **out, const ls_local_tensor *in, const ls_tensor_call *call,
                     const ls_axis *axis) {
    LS_TRY(ls_local_tensor_clone(out, in));
    return ls_tensor_broadcast(*out, call->root, axis);
}

static int reduce_scatter(ls_local_tensor **out, const ls_local_tensor *in,
                          const ls_tensor_call *call, const ls_axis *axis) {
    return ls_tensor_reduce_scatter(out, in, call->op, call->dim, axis);
}

ls_collective_on_tensor ls_collective_tensor_form(ls_kind kind) {
    static const ls_collective_on_tensor forms[LS_KIND_COUNT] = {
        [LS_ALL_GATHER] = all_gather,         [LS_ALL_REDUCE] = all_reduce,
        [LS_ALL_TO_ALL] = all_to_all,         [LS_BROADCAST] = broadcast,
        [LS_REDUCE_SCATTER] = reduce_scatter,
    };
    LS_ASSERT((int)kind >= 0 && kind < LS_KIND_COUNT);
    return forms[kind];
}
