// Worlds, tensors and errors in several threads at once, for TSan and valgrind: each thread has its
// own world and also makes tensors in a shared one; every result is checked.
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "local_tensor/local_tensor.h"

enum { THREADS = 4, ROUNDS = 12 };

static ls_world *shared_world;

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #condition,                     \
                    ls_error_last()->text);                                                        \
            return (void *)1;                                                                      \
        }                                                                                          \
    } while (0)

// Makes, combines and compares tensors of one world.
static void *use_world(ls_world *world, int round) {
    const ls_shape shape = LS_SHAPE(5 + round, 7);
    const ls_placements placements = LS_PLACE(LS_SHARD(round % 2), LS_SHARD(0));
    ls_local_tensor *a = NULL;
    ls_local_tensor *b = NULL;
    ls_local_tensor *sum = NULL;
    ls_local_tensor *back = NULL;
    CHECK(ls_local_tensor_zeros(&a, world, &shape, LS_F32, &placements) == LS_OK);
    CHECK(ls_local_tensor_randn(a, "stress") == LS_OK);
    CHECK(ls_local_tensor_clone(&b, a) == LS_OK);
    CHECK(ls_local_tensor_scale(b, -1) == LS_OK);
    CHECK(ls_local_tensor_elementwise(&sum, a, b, LS_SUM) == LS_OK);
    CHECK(ls_local_tensor_transpose(&back, a, 0, 1) == LS_OK);
    CHECK(ls_local_tensor_check(sum) == LS_OK && ls_local_tensor_check(back) == LS_OK);
    for (int i = 0; i < ls_local_tensor_rank_count(sum); i++) {
        const ls_shard *shard = ls_local_tensor_shard(sum, ls_local_tensor_ranks(sum)[i], 0);
        for (size_t e = 0; e < shard->count; e++) {
            CHECK(((const float *)shard->data)[e] == 0);
        }
    }
    CHECK(ls_local_tensor_shard(a, 4, 0) == NULL);  // an error only in this thread
    CHECK(ls_error_last()->rank == 4);
    ls_local_tensor *const all[] = {a, b, sum, back};
    for (int i = 0; i < 4; i++) {
        ls_local_tensor_free(all[i]);
    }
    return NULL;
}

static void *run(void *arg) {
    ls_error_clear();
    for (int round = 0; round < ROUNDS; round++) {
        ls_world *own = NULL;
        ls_world_options options = {.mesh = LS_MESH(2, 2), .seed = (uint64_t)round};
        CHECK(ls_world_create(&own, &options) == LS_OK);
        CHECK(use_world(own, round) == NULL);
        CHECK(use_world(shared_world, round) == NULL);
        const ls_block blocks[2] = {{LS_SHAPE(0, 0), LS_SHAPE(2, 2)},
                                    {LS_SHAPE(1, 1), LS_SHAPE(2, 2)}};
        ls_local_tensor *tensor = NULL;
        CHECK(ls_local_tensor_from_blocks(&tensor, own, LS_F64, &LS_SHAPE(3, 3),
                                          (const int[]){0, 3}, blocks, 2, false) == LS_ERR_INVALID);
        CHECK(strstr(ls_error_last()->text, "overlap") != NULL);
        ls_world_free(own);
    }
    return arg;
}

int main(void) {
    pthread_t threads[THREADS];
    int failed = 0;
    if (ls_world_create(&shared_world, &(ls_world_options){.mesh = LS_MESH(2, 2)}) != LS_OK) {
        return 1;
    }
    for (int i = 0; i < THREADS; i++) {
        if (pthread_create(&threads[i], NULL, run, NULL) != 0) {
            return 1;
        }
    }
    for (int i = 0; i < THREADS; i++) {
        void *result = NULL;
        if (pthread_join(threads[i], &result) != 0 || result != NULL) {
            failed = 1;
        }
    }
    if (failed == 0) {
        ls_world_free(shared_world);
    }
    return failed;
}
