// Programs that violate every rule: no crash, no hang, and each mistake has its finding.
#include <criterion/criterion.h>
#include <pthread.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "bugs.h"

#define WORLD ls_rank_world(self)

// For any random program the run ends, and a repetition has the same statuses and words.
Test(hostile, random_programs_end) {
    int findings[LS_FINDING_COUNT] = {0}, kinds = 0;
    for (uint64_t seed = 0; seed < 1500; seed++) {
        ls_spmd_result *results[2] = {NULL, NULL};
        for (int again = 0; again < 2; again++) {
            const ls_spmd_options options = {.ranks = 1 + (int)(seed % 4),
                                             .seed = seed,
                                             .schedule = (ls_schedule_kind)(seed % 3),
                                             .checks = seed % 5 == 0 ? "all" : NULL,
                                             .lookahead = seed % 2 == 0 ? 0 : 5};
            (void)ls_spmd_run(&results[again], hostile, &seed, &options);
            cr_assert_not_null(results[again]);
        }
        int count = ls_spmd_finding_count(results[0]);
        cr_assert_eq(count, ls_spmd_finding_count(results[1]), "seed %d", (int)seed);
        for (int i = 0; i < count; i++) {
            const ls_finding *finding = ls_spmd_finding(results[0], i);
            cr_assert_str_eq(finding->text, ls_spmd_finding(results[1], i)->text, "seed %d",
                             (int)seed);
            kinds += findings[finding->id]++ == 0 ? 1 : 0;
        }
        ls_spmd_result_free(results[0]);
        ls_spmd_result_free(results[1]);
    }
    cr_assert_geq(kinds, 12, "only %d kinds of findings: the programs do too little", kinds);
}

// The same in parallel, where only the end is asserted.
Test(hostile, random_programs_end_in_parallel) {
    for (uint64_t seed = 0; seed < 500; seed++) {
        ls_spmd_result *result = NULL;
        const ls_spmd_options options = {
            .ranks = 2 + (int)(seed % 3), .seed = seed, .schedule = LS_SCHEDULE_PARALLEL};
        (void)ls_spmd_run(&result, hostile, &seed, &options);
        cr_assert_not_null(result);
        ls_spmd_result_free(result);
    }
}

// ---- One mistake at a time ----------------------------------------------------------------------
typedef int (*mistake)(ls_rank *self, float *data, void *shared);

typedef struct mistake_run {
    mistake make;
    ls_request *shared[4];  // data that ranks exchange
} mistake_run;

static int with_memory(ls_rank *self, void *arg) {
    mistake_run *run = arg;
    float *data = ls_rank_alloc(self, 16 * sizeof *data);
    for (int i = 0; i < 16; i++) {
        data[i] = 1;
    }
    int status = run->make(self, data, run->shared);
    ls_rank_free(self, data);
    return status;
}

static int null_send(ls_rank *self, float *data, void *shared) {
    (void)shared;
    return ls_all_reduce(ls_rank_id(self) == 1 ? NULL : data, data, 4, LS_F32, LS_SUM, WORLD);
}

static int null_and_empty(ls_rank *self, float *data, void *shared) {
    (void)data, (void)shared;
    LS_TRY(ls_all_reduce(NULL, NULL, 0, LS_F32, LS_SUM, WORLD));
    LS_TRY(ls_all_to_all(NULL, NULL, 0, LS_F32, WORLD));
    LS_TRY(ls_check_replica(NULL, 0, LS_F32, WORLD));
    return ls_group_start(self) == LS_OK ? ls_group_end(self) : 1;
}

static int largest_count(ls_rank *self, float *data, void *shared) {
    (void)shared;
    LS_TRY(ls_all_gather(data, data + 4, 1, LS_F32, WORLD));
    size_t count = ls_rank_id(self) == 0 ? SIZE_MAX / 12 + 1 : 1;  // times 12 is 8
    return ls_all_gather(data, data + 4, count, LS_F32, WORLD);
}

static int largest_replica(ls_rank *self, float *data, void *shared) {
    (void)shared;
    return ls_check_replica(data, ls_rank_id(self) == 1 ? SIZE_MAX / 2 : 4, LS_F32, WORLD);
}

static int null_replica(ls_rank *self, float *data, void *shared) {
    (void)shared;
    return ls_replica_declare(ls_rank_id(self) == 2 ? NULL : data, 4, LS_F32, WORLD);
}

static int peer_out_of_range(ls_rank *self, float *data, void *shared) {
    (void)shared;
    return ls_rank_id(self) == 2 ? ls_send(data, 1, LS_F32, 3, WORLD) : LS_OK;
}

static int root_below_zero(ls_rank *self, float *data, void *shared) {
    (void)shared;
    return ls_broadcast(data, data, 1, LS_F32, ls_rank_id(self) == 1 ? -1 : 0, WORLD);
}

static int no_kind(ls_rank *self, float *data, void *shared) {
    (void)shared;
    const ls_call call = {.kind = (ls_kind)(ls_rank_id(self) == 1 ? 77 : LS_ALL_REDUCE),
                          .send = data,
                          .recv = data,
                          .count = 1,
                          .dtype = LS_F32};
    return ls_post_at(__FILE__, __LINE__, &call, WORLD, NULL);
}

static int no_dtype(ls_rank *self, float *data, void *shared) {
    (void)shared;
    ls_dtype dtype = ls_rank_id(self) == 1 ? (ls_dtype)-5 : LS_F32;
    return ls_all_reduce(data, data, 1, dtype, LS_SUM, WORLD);
}

static int group_without_end(ls_rank *self, float *data, void *shared) {
    (void)shared;
    LS_TRY(ls_group_start(self));
    return ls_all_reduce(data, data, 1, LS_F32, LS_SUM, WORLD);
}

static int end_without_group(ls_rank *self, float *data, void *shared) {
    (void)shared;
    if (ls_group_end(self) != LS_ERR_INVALID) {
        return 1;
    }
    return ls_all_reduce(data, data, 1, LS_F32, LS_SUM, WORLD);
}

static int wait_inside_group(ls_rank *self, float *data, void *shared) {
    (void)shared;
    ls_request *request = NULL;
    LS_TRY(ls_group_start(self));
    LS_TRY(ls_all_reduce_async(data, data, 1, LS_F32, LS_SUM, WORLD, &request));
    LS_TRY(ls_rank_id(self) == 0 ? ls_wait(request) : LS_OK);
    LS_TRY(ls_group_end(self));
    return ls_rank_id(self) == 0 ? LS_OK : ls_wait(request);
}

static int split_inside_group(ls_rank *self, float *data, void *shared) {
    (void)data, (void)shared;
    ls_rank_comm *comm = NULL;
    LS_TRY(ls_group_start(self));
    if (ls_comm_split(&comm, WORLD, 0, 0) != LS_ERR_INVALID || comm != NULL) {
        return 1;
    }
    return ls_group_end(self);
}

static int destroyed_in_flight(ls_rank *self, float *data, void *shared) {
    (void)shared;
    ls_rank_comm *comm = NULL;
    ls_request *request = NULL;
    LS_TRY(ls_comm_split(&comm, WORLD, 0, 0));
    if (ls_rank_id(self) == 2) {
        LS_TRY(ls_all_reduce_async(data, data, 1, LS_F32, LS_SUM, comm, &request));
        return ls_comm_destroy(comm);
    }
    LS_TRY(ls_barrier(WORLD));
    return LS_OK;
}

static int destroyed_twice(ls_rank *self, float *data, void *shared) {
    (void)data, (void)shared;
    ls_rank_comm *comm = NULL;
    LS_TRY(ls_comm_split(&comm, WORLD, 0, 0));
    LS_TRY(ls_comm_destroy(comm));
    return ls_rank_id(self) == 1 ? ls_comm_destroy(comm) : LS_OK;
}

static int freed_in_flight(ls_rank *self, float *data, void *shared) {
    (void)shared;
    ls_request *request = NULL;
    LS_TRY(ls_all_reduce_async(data, data, 1, LS_F32, LS_SUM, WORLD, &request));
    if (ls_rank_id(self) == 1) {
        ls_rank_free(self, data);
    }
    LS_TRY(ls_wait(request));
    return LS_OK;
}

static int touched_after_free(ls_rank *self, float *data, void *shared) {
    (void)data, (void)shared;
    float *own = ls_rank_alloc(self, 16);
    ls_rank_free(self, own);
    return ls_rank_id(self) == 2 ? ls_writes(self, own, 4) : LS_OK;
}

static int request_of_another(ls_rank *self, float *data, void *shared) {
    ls_request **requests = shared;
    LS_TRY(ls_all_reduce_async(data, data, 1, LS_F32, LS_SUM, WORLD, &requests[ls_rank_id(self)]));
    LS_TRY(ls_barrier(WORLD));
    return ls_wait(requests[ls_rank_id(self) == 1 ? 2 : ls_rank_id(self)]);
}

// More requests than are remembered: the pointer is not dereferenced.
static int request_of_long_ago(ls_rank *self, float *data, void *shared) {
    (void)shared;
    ls_request *first = NULL;
    for (int i = 0; i < 400; i++) {
        ls_request *request = NULL;
        LS_TRY(ls_all_reduce_async(data, data, 1, LS_F32, LS_MAX, WORLD, &request));
        LS_TRY(ls_wait(request));
        first = i == 0 ? request : first;
    }
    return ls_rank_id(self) == 1 ? ls_wait(first) : LS_OK;
}

static int freed_twice(ls_rank *self, float *data, void *shared) {
    (void)shared;
    if (ls_rank_id(self) == 0) {
        ls_rank_free(self, data);
        data = NULL;
    }
    return ls_barrier(WORLD);
}

static int freed_inside(ls_rank *self, float *data, void *shared) {
    (void)shared;
    if (ls_rank_id(self) == 2) {
        ls_rank_free(self, data + 1);
    }
    return LS_OK;
}

static int touched_too_far(ls_rank *self, float *data, void *shared) {
    (void)shared;
    return ls_rank_id(self) == 1 ? ls_reads(self, data + 8, SIZE_MAX) : LS_OK;
}

static int touched_null(ls_rank *self, float *data, void *shared) {
    (void)data, (void)shared;
    return ls_rank_id(self) == 1 ? ls_writes(self, NULL, 4) : LS_OK;
}

static int returns_an_error(ls_rank *self, float *data, void *shared) {
    (void)shared;
    return ls_rank_id(self) == 2 ? LS_ERR_IO : ls_all_reduce(data, data, 1, LS_F32, LS_SUM, WORLD);
}

// Continues after the run has failed, ignoring errors.
static int deaf(ls_rank *self, float *data, void *shared) {
    (void)shared;
    int failures = 0;
    for (int i = 0; i < 100; i++) {
        ls_op op = ls_rank_id(self) == 1 && i == 50 ? LS_MAX : LS_SUM;
        failures += ls_all_reduce(data, data + 4, 1, LS_F32, op, WORLD) != LS_OK ? 1 : 0;
        ls_request *request = NULL;
        failures += ls_barrier_async(WORLD, &request) != LS_OK ? 1 : 0;
        failures += request != NULL && ls_wait(request) != LS_OK ? 1 : 0;
    }
    return failures == 0 ? 1 : 0;
}

static int members_twice(ls_rank *self, float *data, void *shared) {
    (void)data, (void)shared;
    const int members[2] = {1, 1};
    ls_rank_comm *comm = NULL;
    return ls_comm_subset(&comm, WORLD, members, 2) == LS_ERR_INVALID && comm == NULL ? LS_OK : 1;
}

static int no_members(ls_rank *self, float *data, void *shared) {
    (void)data, (void)shared;
    ls_rank_comm *comm = NULL;
    LS_TRY(ls_comm_subset(&comm, WORLD, NULL, 0));
    LS_TRY(ls_comm_subset(&comm, WORLD, NULL, -7));
    if (comm != NULL || ls_comm_subset(&comm, WORLD, NULL, INT_MAX) != LS_ERR_INVALID ||
        ls_rank_axis(&comm, self, -1) != LS_ERR_INVALID ||
        ls_rank_axis(&comm, self, 1) != LS_ERR_INVALID || comm != NULL) {
        return 1;
    }
    return ls_comm_destroy(NULL);
}

static int handle_of_another(ls_rank *self, float *data, void *shared) {
    ls_rank_comm **handles = shared;
    handles[ls_rank_id(self)] = WORLD;
    LS_TRY(ls_barrier(WORLD));
    return ls_all_reduce(data, data, 1, LS_F32, LS_SUM, ls_rank_id(self) == 2 ? handles[0] : WORLD);
}

static int world_destroyed(ls_rank *self, float *data, void *shared) {
    (void)data, (void)shared;
    return ls_rank_id(self) == 1 ? ls_comm_destroy(WORLD) : ls_barrier(WORLD);
}

static int nothing_to_allocate(ls_rank *self, float *data, void *shared) {
    (void)shared;
    if (ls_rank_alloc(self, SIZE_MAX) != NULL || ls_rank_alloc(self, PTRDIFF_MAX) != NULL) {
        return 1;
    }
    char *empty = ls_rank_alloc(self, 0);
    LS_TRY(ls_reads(self, empty, 0));
    LS_TRY(ls_all_reduce(empty, data, 0, LS_F32, LS_SUM, WORLD));
    ls_rank_free(self, empty);
    return empty == NULL ? 1 : LS_OK;
}

static const struct expected {
    mistake make;
    int rank;  // at fault; -1: no mistake
    ls_finding_id finding;
    const char *contains;
} expected[] = {
    {null_send, 1, LS_FINDING_BUFFER_TOO_SMALL, "its send buffer is NULL"},
    {null_and_empty, -1, 0, ""},
    {largest_count, 0, LS_FINDING_COUNT_MISMATCH, "overflow"},
    {largest_replica, 1, LS_FINDING_COUNT_MISMATCH, "overflows size_t"},
    {null_replica, 2, LS_FINDING_BUFFER_TOO_SMALL, "its buffer is NULL"},
    {peer_out_of_range, 2, LS_FINDING_P2P_UNMATCHED_SEND, "peer 3 is not in [0, 3)"},
    {root_below_zero, 1, LS_FINDING_ROOT_MISMATCH, "root -1 is not in [0, 3)"},
    {no_kind, 1, LS_FINDING_KIND_MISMATCH, "77 is not a kind of call"},
    {no_dtype, 1, LS_FINDING_DTYPE_MISMATCH, "its dtype is unknown"},
    {group_without_end, 0, LS_FINDING_CALL_INVALID,
     "returned inside of the group that it opened at"},
    {end_without_group, 0, LS_FINDING_CALL_INVALID, "ls_group_end without its ls_group_start"},
    {wait_inside_group, 0, LS_FINDING_DEADLOCK_CYCLE, "whose end starts it"},
    {split_inside_group, 0, LS_FINDING_CALL_INVALID, "inside of a group; this one was opened at"},
    {destroyed_in_flight, 2, LS_FINDING_HANDLE_USE_AFTER_FREE, "with a call in flight"},
    {destroyed_twice, 1, LS_FINDING_HANDLE_USE_AFTER_FREE, "already destroyed at"},
    {freed_in_flight, 1, LS_FINDING_BUFFER_USE_BEFORE_WAIT, "frees memory before it waits"},
    {touched_after_free, 2, LS_FINDING_HANDLE_USE_AFTER_FREE, "writes memory that was freed at"},
    {request_of_another, 1, LS_FINDING_HANDLE_USE_AFTER_FREE, "it waits for a request of rank 2"},
    {request_of_long_ago, 1, LS_FINDING_HANDLE_USE_AFTER_FREE, "waited for long ago"},
    {freed_twice, 0, LS_FINDING_HANDLE_USE_AFTER_FREE, "a second time"},
    {freed_inside, 2, LS_FINDING_HANDLE_USE_AFTER_FREE, "did not give it"},
    {touched_too_far, 1, LS_FINDING_BUFFER_TOO_SMALL, "of which 32 are left"},
    {touched_null, 1, LS_FINDING_BUFFER_TOO_SMALL, "writes 4 bytes of a buffer that is NULL"},
    {returns_an_error, 2, LS_FINDING_RANK_EXITED_EARLY, "returned (status -"},
    {deaf, 1, LS_FINDING_OP_MISMATCH, "rank 1 says max"},
    {members_twice, 0, LS_FINDING_CALL_INVALID, "member 1 is named twice"},
    {no_members, 0, LS_FINDING_CALL_INVALID, "is not in"},
    {handle_of_another, 2, LS_FINDING_GROUP_MISMATCH, "the handle of rank 0"},
    {world_destroyed, 1, LS_FINDING_CALL_INVALID, "world belongs to the run"},
    {nothing_to_allocate, -1, 0, ""},
};

// Each mistake has its finding, at its rank, under every schedule; correct programs have none.
Test(hostile, mistakes_have_names) {
    for (size_t i = 0; i < sizeof expected / sizeof expected[0]; i++) {
        const struct expected *e = &expected[i];
        for (uint64_t seed = 0; seed < 6; seed++) {
            mistake_run run = {.make = e->make};
            ls_spmd_result *result = NULL;
            const ls_spmd_options options = {.ranks = 3,
                                             .seed = seed,
                                             .schedule = seed == 0 ? LS_SCHEDULE_ROUND_ROBIN
                                                                   : LS_SCHEDULE_RANDOM};
            int status = ls_spmd_run(&result, with_memory, &run, &options);
            cr_assert_not_null(result);
            int count = ls_spmd_finding_count(result);
            if (e->rank < 0) {
                cr_assert_eq(status, LS_OK, "mistake %d: %s", (int)i, ls_error_last()->text);
                cr_assert_eq(count, 0);
            } else {
                cr_assert_geq(count, 1, "mistake %d: status %d, %s", (int)i, status,
                              ls_error_last()->text);
                const ls_finding *finding = ls_spmd_finding(result, 0);
                cr_assert_str_eq(ls_finding_name(finding->id), ls_finding_name(e->finding),
                                 "mistake %d: %s", (int)i, finding->text);
                cr_assert_eq(finding->ranks[0], e->rank, "mistake %d: %s", (int)i, finding->text);
                cr_assert_not_null(strstr(finding->text, e->contains), "mistake %d: %s", (int)i,
                                   finding->text);
            }
            ls_spmd_result_free(result);
        }
    }
}

// Outside of programs there are no ranks to make calls.
Test(hostile, calls_outside_of_programs_are_refused) {
    float data[1] = {0};
    cr_assert_eq(ls_all_reduce(data, data, 1, LS_F32, LS_SUM, NULL), LS_ERR_INVALID);
    cr_assert_eq(ls_wait(NULL), LS_ERR_INVALID);
    cr_assert_eq(ls_check_replicas(NULL), LS_ERR_INVALID);
    cr_assert_eq(ls_replica_declare(data, 1, LS_F32, NULL), LS_ERR_INVALID);
    cr_assert_eq(ls_group_start(NULL), LS_ERR_INVALID);
    cr_assert_eq(ls_comm_destroy(NULL), LS_OK);
}

#define SCRIBBLED 16384  // floats: 16 pages

static void *scribble(void *arg) {
    for (size_t i = 0; i < SCRIBBLED; i += 64) {
        ((volatile float *)arg)[i] = 1;
    }
    return NULL;
}

// A thread of no rank writes a bucket while its rank waits for it: its access hits pages that are
// being opened.
static int scribbled(ls_rank *self, void *arg) {
    (void)arg;
    float *bucket = ls_rank_alloc(self, SCRIBBLED * sizeof *bucket);
    for (size_t i = 0; i < SCRIBBLED; i++) {
        bucket[i] = 1;
    }
    for (int i = 0; i < 4; i++) {
        pthread_t helper;
        ls_request *request = NULL;
        LS_TRY(ls_all_reduce_async(bucket, bucket, SCRIBBLED, LS_F32, LS_MAX, ls_rank_world(self),
                                   &request));
        bool started = pthread_create(&helper, NULL, scribble, bucket) == 0;
        int status = ls_wait(request);
        if (started) {
            (void)pthread_join(helper, NULL);
        }
        LS_TRY(status);
    }
    ls_rank_free(self, bucket);
    return 0;
}

// However the two interleave, the result is a finding or none, and no crash.
Test(hostile, a_foreign_thread_meets_opening_pages) {
    for (int seed = 0; seed < 120; seed++) {
        ls_spmd_result *result = NULL;
        const ls_spmd_options options = {.ranks = 3,
                                         .seed = (uint64_t)seed,
                                         .checks = "buffer.use_before_wait",
                                         .schedule = LS_SCHEDULE_RANDOM};
        (void)ls_spmd_run(&result, scribbled, NULL, &options);
        cr_assert_not_null(result);
        for (int i = 0; i < ls_spmd_finding_count(result); i++) {
            cr_expect_eq(ls_spmd_finding(result, i)->id, LS_FINDING_BUFFER_USE_BEFORE_WAIT, "%s",
                         ls_spmd_finding(result, i)->text);
        }
        ls_spmd_result_free(result);
    }
}
