// One controller, every rank: a matrix cut by rows over the ranks, its column sums, and the whole
// of it again. Each call acts on all shards that this process holds.
//
// The bug: the partial sums are used as if they were the sums, without the all_reduce.
#include <stdio.h>

#include "launch.h"

#define ROWS    6
#define COLUMNS 4

// Each rank's own column sums, [1, COLUMNS] per rank.
static int partial_sums(ls_local_tensor **out, const ls_local_tensor *matrix) {
    const ls_placements partial = LS_PLACE(LS_PARTIAL(LS_SUM));
    CHECK(ls_local_tensor_zeros(out, ls_local_tensor_world(matrix), &LS_SHAPE(1, COLUMNS), LS_F32,
                                &partial));
    const int *ranks = ls_local_tensor_ranks(matrix);
    for (int i = 0; i < ls_local_tensor_rank_count(matrix); i++) {
        const ls_shard *from = ls_local_tensor_shard(matrix, ranks[i], 0);
        float *to = ls_local_tensor_shard(*out, ranks[i], 0)->data;
        for (size_t e = 0; e < from->count; e++) {
            to[e % COLUMNS] += ((const float *)from->data)[e];
        }
    }
    return LS_OK;
}

static int sums_of(ls_backend *backend, const example *given, const ls_local_tensor *matrix) {
    ls_local_tensor *sums = NULL, *whole = NULL;
    float out[COLUMNS];
    const ls_placements everywhere = LS_PLACE(LS_REPLICATE);
    int status = partial_sums(&sums, matrix);
    if (status == LS_OK) {
        status = given->bug ? ls_local_tensor_clone(&whole, sums)
                            : ls_tensor_redistribute(&whole, backend, sums, &everywhere);
    }
    if (status == LS_OK) {
        status = ls_local_tensor_reconcile(out, whole);  // every rank holds the same bits
    }
    if (status == LS_OK && ls_world_held(ls_backend_world(backend))[0] == 0) {
        printf("column sums: %g %g %g %g\n", (double)out[0], (double)out[1], (double)out[2],
               (double)out[3]);
    }
    ls_local_tensor_free(whole);
    ls_local_tensor_free(sums);
    return status;
}

static int controller(ls_backend *backend, const example *given) {
    float full[ROWS * COLUMNS], again[ROWS * COLUMNS];
    for (int i = 0; i < ROWS * COLUMNS; i++) {
        full[i] = (float)i / 4;
    }
    ls_local_tensor *matrix = NULL;
    const ls_placements rows = LS_PLACE(LS_SHARD(0));
    CHECK(ls_local_tensor_distribute(&matrix, ls_backend_world(backend), full,
                                     &LS_SHAPE(ROWS, COLUMNS), LS_F32, &rows));
    int status = sums_of(backend, given, matrix);
    if (status == LS_OK) {
        status = ls_tensor_full(again, sizeof again, backend, matrix);
    }
    if (status == LS_OK && ls_world_held(ls_backend_world(backend))[0] == 0) {
        printf("full tensor: last element %g\n", (double)again[ROWS * COLUMNS - 1]);
    }
    ls_local_tensor_free(matrix);
    return status;
}

int main(int argc, char **argv) {
    return example_controller(argc, argv, controller, 4);
}
