// A call's arguments may be gone before the call is complete.
#include <criterion/criterion.h>
#include <string.h>

#include "ranks/ranks.h"

#define VALUES 4096

// ---- A rank returns without having waited ------------------------------------------------------
typedef struct leaving {
    bool on_stack;
    float heap[3][2 * VALUES];  // of each rank
} leaving;

static int leave_early(ls_rank *self, void *arg) {
    leaving *state = arg;
    float own[2 * VALUES];
    float *send = state->on_stack ? own : state->heap[ls_rank_id(self)];
    float *recv = send + VALUES;
    ls_request *request = NULL;
    for (int i = 0; i < VALUES; i++) {
        send[i] = (float)(ls_rank_id(self) + 1) * (float)i;
        recv[i] = -1;
    }
    LS_TRY(ls_all_reduce_async(send, recv, VALUES, LS_F32, LS_SUM, ls_rank_world(self), &request));
    return ls_rank_id(self) == 1 ? 0 : ls_wait(request);
}

// Whether the others arrive before or after it returns, nothing is written to a dead stack frame,
// and the finding is the request without a wait.
Test(lifetimes, a_rank_leaves_its_stack) {
    static leaving state = {.on_stack = true};
    int ended = 0;
    for (uint64_t seed = 0; seed < 20; seed++) {
        ls_spmd_result *result = NULL;
        const ls_spmd_options options = {.ranks = 3, .seed = seed, .schedule = LS_SCHEDULE_RANDOM};
        cr_assert_eq(ls_spmd_run(&result, leave_early, &state, &options), LS_ERR_FINDING, "%s",
                     ls_error_last()->text);
        cr_assert_eq(ls_spmd_finding_count(result), 1);
        cr_assert_eq(ls_spmd_finding(result, 0)->id, LS_FINDING_HANDLE_LEAK);
        cr_assert_eq(ls_spmd_finding(result, 0)->ranks[0], 1);
        ended += strstr(ls_spmd_finding(result, 0)->text, "was on the rank's stack") != NULL;
        ls_spmd_result_free(result);
    }
    cr_assert_gt(ended, 0);
}

// With buffers that outlive the program the others' calls complete with correct sums.
Test(lifetimes, a_rank_leaves_its_heap) {
    static leaving state = {.on_stack = false};
    for (uint64_t seed = 0; seed < 20; seed++) {
        ls_spmd_result *result = NULL;
        const ls_spmd_options options = {.ranks = 3, .seed = seed, .schedule = LS_SCHEDULE_RANDOM};
        memset(state.heap, 0, sizeof state.heap);
        cr_assert_eq(ls_spmd_run(&result, leave_early, &state, &options), LS_ERR_FINDING, "%s",
                     ls_error_last()->text);
        cr_assert_eq(ls_spmd_finding_count(result), 1);
        cr_assert_eq(ls_spmd_finding(result, 0)->id, LS_FINDING_HANDLE_LEAK);
        for (int i = 0; i < VALUES; i++) {
            cr_assert_eq(state.heap[0][VALUES + i], 6 * (float)i, "seed %d, element %d", (int)seed,
                         i);
        }
        ls_spmd_result_free(result);
    }
}

// ---- Counts that are used again ----------------------------------------------------------------
static int reuse_counts(ls_rank *self, void *arg) {
    (void)arg;
    int ranks = ls_comm_size(ls_rank_world(self));
    size_t counts[8];
    int32_t send[16], recv[16];
    for (int i = 0; i < ranks; i++) {
        counts[i] = 2;
        send[2 * i] = send[2 * i + 1] = 10 * ls_rank_id(self) + i;
    }
    ls_request *request = NULL;
    LS_TRY(
        ls_all_to_all_v_async(send, recv, counts, counts, LS_I32, ls_rank_world(self), &request));
    memset(counts, 0xff, sizeof counts);  // the call has a copy by now
    LS_TRY(ls_wait(request));
    for (int i = 0; i < 2 * ranks; i++) {
        if (recv[i] != 10 * (i / 2) + ls_rank_id(self)) {
            return 1;
        }
    }
    return 0;
}

// The arrays of counts may be changed as soon as an asynchronous call returns.
Test(lifetimes, counts_are_copied) {
    for (uint64_t seed = 0; seed < 5; seed++) {
        ls_spmd_result *result = NULL;
        const ls_spmd_options options = {
            .ranks = 5, .seed = seed, .schedule = LS_SCHEDULE_RANDOM, .checks = "all"};
        cr_assert_eq(ls_spmd_run(&result, reuse_counts, NULL, &options), LS_OK, "%s",
                     ls_error_last()->text);
        ls_spmd_result_free(result);
    }
}
