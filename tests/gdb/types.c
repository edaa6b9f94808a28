// One value of each public type, for the printers.
#include <stdio.h>

#include "ranks/ranks.h"

static void look_at_types(void) {
    printf("%s", "");
}

int main(void) {
    const ls_mesh mesh = {.ndim = 2, .dim = {2, 2}, .name = {"host", "gpu"}};
    const ls_world_options options = {.mesh = mesh, .seed = 3};
    ls_world *world = NULL;
    ls_backend *backend = NULL;
    ls_comm *comm = NULL;
    ls_local_tensor *tensor = NULL, *half = NULL;
    ls_rank_int *sizes = NULL;
    float full[6 * 4];
    for (int i = 0; i < 24; i++) {
        full[i] = (float)i / 2;
    }
    const unsigned short halves[4] = {0x3f80, 0x4000, 0xc040, 0x7fc0};  // 1, 2, -3, NaN
    const ls_placements placements = LS_PLACE(LS_SHARD(0), LS_REPLICATE);
    const ls_placements partial = LS_PLACE(LS_PARTIAL(LS_SUM), LS_PARTIAL(LS_SUM));
    const ls_shape shape = LS_SHAPE(6, 4);
    const ls_block block = {.offset = LS_SHAPE(2, 0), .size = LS_SHAPE(3, 4)};
    const ls_dtype dtype = LS_BF16;
    const ls_op op = LS_PREMUL_SUM;
    const ls_kind kind = LS_REDUCE_SCATTER;
    const ls_status code = LS_ERR_DEADLOCK;
    const int at_fault[] = {1, 2, 5};
    const ls_finding finding = {.id = LS_FINDING_OP_MISMATCH,
                                .ranks = at_fault,
                                .rank_count = 3,
                                .where = "a/train.c:7",
                                .text = "sum and max"};
    const ls_fault fault = {.type = LS_FAULT_BIT_FLIP, .rank = 2, .call = 4, .amount = 17};
    if (ls_world_create(&world, &options) != LS_OK ||
        ls_backend_sim_create(&backend, world) != LS_OK ||
        ls_comm_create(&comm, backend, (const int[]){3, 1}, 2, "pair") != LS_OK ||
        ls_local_tensor_distribute(&tensor, world, full, &shape, LS_F32, &placements) != LS_OK ||
        ls_local_tensor_distribute(&half, world, halves, &LS_SHAPE(4), LS_BF16, &partial) !=
            LS_OK ||
        ls_rank_int_create(&sizes, world, (const int64_t[]){3, 3, 3, 3}) != LS_OK) {
        return 1;
    }
    const ls_call call = {.kind = LS_BROADCAST,
                          .comm = comm,
                          .rank = 3,
                          .seq = 2,
                          .dtype = LS_I64,
                          .root = 1,
                          .count = 9,
                          .file = "x/y.c",
                          .line = 12};
    ((float *)ls_local_tensor_shard(tensor, 3, 0)->data)[1] += 1;
    look_at_types();
    printf("%d%d%d%d%d%d%d%d\n", (int)dtype, (int)op, (int)kind, (int)code, finding.rank_count,
           fault.rank, block.size.ndim, call.line);
    ls_rank_int_free(sizes);
    ls_local_tensor_free(half);
    ls_local_tensor_free(tensor);
    ls_comm_free(comm);
    ls_backend_free(backend);
    ls_world_free(world);
    return 0;
}
