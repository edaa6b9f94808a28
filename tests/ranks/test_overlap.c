// Overlap bugs and similar ones: each program is wrong on known ranks. Its finding must name them,
// the line and the kind under every schedule, and its corrected version must have none.
#include <criterion/criterion.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ranks/ranks.h"

#define WORLD      ls_rank_world(self)
#define HERE(call) (at->line = __LINE__, (call))
#define SEEDS      8

typedef struct place {
    bool clean;
    int line;  // the place of the finding
} place;

// The optimizer reads a gradient whose wait comes later.
static int read_early(ls_rank *self, void *arg) {
    place *at = arg;
    float *grad = ls_rank_alloc(self, 64), sum = 0;
    ls_request *request = NULL;
    for (int i = 0; i < 16; i++) {
        grad[i] = 1;
    }
    LS_TRY(HERE(ls_all_reduce_async(grad, grad, 16, LS_F32, LS_SUM, WORLD, &request)));
    LS_TRY(ls_barrier(WORLD));  // the data has arrived: without a shadow it would be visible
    sum += at->clean ? 0 : ((volatile float *)grad)[3];
    LS_TRY(ls_wait(request));
    int status = grad[0] == 3 && (at->clean || isnan(sum)) ? 0 : 1;
    ls_rank_free(self, grad);
    return status;
}

// malloc's memory is not protected; a value computed from the pattern names the call.
static int read_early_from_malloc(ls_rank *self, void *arg) {
    place *at = arg;
    float *grad = malloc(64), step[1] = {1}, out[1];
    ls_request *request = NULL;
    for (int i = 0; i < 16; i++) {
        grad[i] = 1;
    }
    LS_TRY(HERE(ls_all_reduce_async(grad, grad, 16, LS_F32, LS_SUM, WORLD, &request)));
    step[0] -= at->clean ? 0 : 0.5f * ((volatile float *)grad)[3];
    LS_TRY(ls_wait(request));
    LS_TRY(ls_all_reduce(step, out, 1, LS_F32, LS_SUM, WORLD));
    free(grad);
    return 0;
}

static int write_early_to_stack(ls_rank *self, void *arg) {
    place *at = arg;
    float grad[4] = {1, 2, 3, 4};
    ls_request *request = NULL;
    LS_TRY(HERE(ls_all_reduce_async(grad, grad, 4, LS_F32, LS_SUM, WORLD, &request)));
    if (!at->clean && ls_rank_id(self) == 1) {
        ((volatile float *)grad)[2] = 7;
    }
    LS_TRY(ls_wait(request));
    return grad[2] == 9 ? 0 : 1;
}

static void *scribble(void *arg) {
    *(volatile float *)arg += 1;
    return NULL;
}

// Another thread still accumulates into a bucket that is in flight.
static int helper_writes(ls_rank *self, void *arg) {
    place *at = arg;
    float *bucket = ls_rank_alloc(self, 4096);
    ls_request *request = NULL;
    pthread_t helper;
    for (int i = 0; i < 1024; i++) {
        bucket[i] = 1;
    }
    LS_TRY(HERE(ls_all_reduce_async(bucket, bucket, 1024, LS_F32, LS_SUM, WORLD, &request)));
    if (!at->clean && ls_rank_id(self) == 1 &&
        pthread_create(&helper, NULL, scribble, bucket) == 0) {
        (void)pthread_join(helper, NULL);
    }
    LS_TRY(ls_wait(request));
    ls_rank_free(self, bucket);
    return 0;
}

static int garbage_copied(ls_rank *self, void *arg) {
    place *at = arg;
    float *holes = ls_rank_alloc(self, 64), *sent = ls_rank_alloc(self, 64), all[48];
    for (int i = 0; i < 16; i++) {
        sent[i] = 1;
        if (i < 4 || i > 6 || at->clean || ls_rank_id(self) != 1) {
            holes[i] = 1;
        }
    }
    LS_TRY(ls_all_gather(sent, all, 16, LS_F32, WORLD));  // whole
    memcpy(sent + 8, holes + 4, 2 * sizeof *sent);
    LS_TRY(HERE(ls_all_gather(sent, all, 16, LS_F32, WORLD)));
    ls_rank_free(self, holes);
    ls_rank_free(self, sent);
    return 0;
}

// Rank 1 never wrote the data that rank 0 forwards.
static int garbage_forwarded(ls_rank *self, void *arg) {
    place *at = arg;
    at->line = __LINE__ + 1;
    float *mine = ls_rank_alloc(self, 32), got[8] = {0}, sum[8];
    int rank = ls_rank_id(self);
    for (int i = 0; i < 8; i++) {
        if (at->clean || rank != 1 || i != 5) {
            mine[i] = 1;
        }
    }
    LS_TRY(rank == 1   ? ls_send(mine, 8, LS_F32, 0, WORLD)
           : rank == 0 ? ls_recv(got, 8, LS_F32, 1, WORLD)
                       : LS_OK);
    LS_TRY(ls_all_reduce(got, sum, 8, LS_F32, LS_SUM, WORLD));
    ls_rank_free(self, mine);
    return 0;
}

static int destroyed_before_wait(ls_rank *self, void *arg) {
    place *at = arg;
    float x = 1;
    ls_rank_comm *comm = NULL;
    ls_request *request = NULL;
    LS_TRY(ls_comm_split(&comm, WORLD, 0, 0));
    LS_TRY(ls_all_reduce_async(&x, &x, 1, LS_F32, LS_SUM, comm, &request));
    LS_TRY(ls_barrier(WORLD));
    LS_TRY(at->clean ? ls_wait(request) : LS_OK);
    LS_TRY(HERE(ls_comm_destroy(comm)));
    return at->clean ? 0 : ls_wait(request);
}

static int group_left_open(ls_rank *self, void *arg) {
    place *at = arg;
    float *in = ls_rank_alloc(self, 64), out[16] = {0}, sum = 0;
    int rank = ls_rank_id(self), next = (rank + 1) % 3, before = (rank + 2) % 3;
    LS_TRY(ls_group_start(self));
    LS_TRY(ls_send(out, 16, LS_F32, next, WORLD));
    LS_TRY(HERE(ls_recv(in, 16, LS_F32, before, WORLD)));
    LS_TRY(!at->clean && rank == 1 ? LS_OK : ls_group_end(self));
    sum += ((volatile float *)in)[0];
    LS_TRY(ls_barrier(WORLD));
    ls_rank_free(self, in);
    return sum == 0 ? 0 : 1;
}

static int group_ended_twice(ls_rank *self, void *arg) {
    place *at = arg;
    LS_TRY(ls_group_start(self));
    LS_TRY(ls_group_end(self));
    if (!at->clean && ls_rank_id(self) == 1) {
        LS_TRY(HERE(ls_group_end(self)));
    }
    return ls_barrier(WORLD);
}

static int nan_in_place(ls_rank *self, void *arg) {
    place *at = arg;
    float x[2] = {1, !at->clean && ls_rank_id(self) == 1 ? NAN : 1};
    return HERE(ls_all_reduce(x, x, 2, LS_F32, LS_SUM, WORLD));
}

static int seeded_apart(ls_rank *self, void *arg) {
    place *at = arg;
    float w[2] = {1, !at->clean && ls_rank_id(self) == 1 ? 2 : 1};
    LS_TRY(HERE(ls_replica_declare(w, 2, LS_F32, WORLD)));
    LS_TRY(ls_barrier(WORLD));
    return ls_replica_forget(w, WORLD);
}

// Different since an asynchronous call; the copies are freed much later.
static int apart_after_async(ls_rank *self, void *arg) {
    place *at = arg;
    float w[2] = {1, 1};
    ls_request *request = NULL;
    LS_TRY(ls_replica_declare(w, 2, LS_F32, WORLD));
    if (!at->clean && ls_rank_id(self) == 1) {
        w[1] = 5;
    }
    LS_TRY(HERE(ls_all_reduce_async(w, w, 1, LS_F32, LS_SUM, WORLD, &request)));
    LS_TRY(ls_wait(request));
    LS_TRY(ls_barrier(WORLD));
    return ls_replica_forget(w, WORLD);
}

static int written_beside(ls_rank *self, void *arg) {
    place *at = arg;
    float *x = ls_rank_alloc(self, 16);
    for (int i = 0; i < 4; i++) {
        x[i] = 1;
    }
    if (!at->clean && ls_rank_id(self) == 1) {
        ((volatile float *)x)[4] = 1;
    }
    LS_TRY(HERE(ls_all_reduce(x, x, 4, LS_F32, LS_SUM, WORLD)));
    ls_rank_free(self, x);
    return 0;
}

static int eat(int n) {
    volatile char big[16384];
    big[0] = (char)n;
    return n > 0 ? eat(n - 1) + big[0] : 0;
}

static int deep(ls_rank *self, void *arg) {
    place *at = arg;
    LS_TRY(HERE(ls_barrier(WORLD)));
    int sum = !at->clean && ls_rank_id(self) == 1 ? eat(100) : 0;
    return sum + ls_barrier(WORLD);
}

static int leaves_thread(ls_rank *self, void *arg) {
    place *at = arg;
    LS_TRY(HERE(ls_barrier(WORLD)));
    if (!at->clean && ls_rank_id(self) == 1) {
        pthread_exit(NULL);
    }
    return ls_barrier(WORLD);
}

static int exits(ls_rank *self, void *arg) {
    place *at = arg;
    LS_TRY(HERE(ls_barrier(WORLD)));
    if (!at->clean && ls_rank_id(self) == 1) {
        exit(3);
    }
    return ls_barrier(WORLD);
}

static int loops(ls_rank *self, void *arg) {
    place *at = arg;
    LS_TRY(HERE(ls_barrier(WORLD)));
    for (volatile bool on = !at->clean && ls_rank_id(self) == 1; on;) {
    }
    return ls_barrier(WORLD);
}

static const struct expected {
    const char *name;
    ls_spmd_program program;
    ls_finding_id id;
    int rank;  // only this rank; -1: all three
    const char *contains;
    double deadline_seconds;
} expected[] = {
    {"read early", read_early, LS_FINDING_BUFFER_USE_BEFORE_WAIT, -1, "its result is read", 0},
    {"from malloc", read_early_from_malloc, LS_FINDING_BUFFER_USE_BEFORE_WAIT, -1,
     "before it waited for it", 0},
    {"written early", write_early_to_stack, LS_FINDING_BUFFER_USE_BEFORE_WAIT, 1,
     "element 2 of its receive buffer was written", 0},
    {"helper", helper_writes, LS_FINDING_BUFFER_USE_BEFORE_WAIT, 1, "before it is waited for", 0},
    {"copied", garbage_copied, LS_FINDING_BUFFER_UNINITIALISED, 1, "element 8", 0},
    {"forwarded", garbage_forwarded, LS_FINDING_BUFFER_UNINITIALISED, 1,
     "element 5 of what rank 0 sends is a copy of it", 0},
    {"destroyed", destroyed_before_wait, LS_FINDING_HANDLE_USE_AFTER_FREE, -2, "not waited for", 0},
    {"open group", group_left_open, LS_FINDING_CALL_INVALID, 1, "its group, opened at", 0},
    {"ended twice", group_ended_twice, LS_FINDING_CALL_INVALID, 1, "the last group was opened at",
     0},
    {"nan", nan_in_place, LS_FINDING_VALUE_NAN_FIRST, 1, "what rank 1 sent", 0},
    {"seeds", seeded_apart, LS_FINDING_REPLICA_DIVERGED, 1, "as they are declared", 0},
    {"async", apart_after_async, LS_FINDING_REPLICA_DIVERGED, 1, "after all_reduce sum of 1", 0},
    {"beside", written_beside, LS_FINDING_BUFFER_TOO_SMALL, 1, "past the end of", 0},
    {"deep", deep, LS_FINDING_RANK_DIED, 1, "used up its stack", 0},
    {"pthread_exit", leaves_thread, LS_FINDING_RANK_DIED, 1, "ended its thread", 0},
    {"exit", exits, LS_FINDING_RANK_DIED, 1, "called exit(3) after its last call", 0},
    {"loop", loops, LS_FINDING_MISSING_RANK, 1, "without a call", 0.2},
};

static void run_one(const struct expected *e, uint64_t seed, bool clean) {
    place at = {.clean = clean};
    ls_spmd_result *result = NULL;
    const ls_spmd_options options = {
        .ranks = 3,
        .seed = seed,
        .schedule = seed == 0 ? LS_SCHEDULE_ROUND_ROBIN : LS_SCHEDULE_RANDOM,
        .deadline_seconds = clean ? 0 : e->deadline_seconds,
    };
    int status = ls_spmd_run(&result, e->program, &at, &options);
    cr_assert_not_null(result);
    int count = ls_spmd_finding_count(result);
    if (clean) {
        cr_assert(status == LS_OK && count == 0, "%s, seed %d: %s", e->name, (int)seed,
                  count > 0 ? ls_spmd_finding(result, 0)->text : ls_error_last()->text);
    } else {
        cr_assert_eq(count, 1, "%s, seed %d: %d findings, %s", e->name, (int)seed, count,
                     count > 1 ? ls_spmd_finding(result, 1)->text : ls_error_last()->text);
        const ls_finding *finding = ls_spmd_finding(result, 0);
        const char *colon = strrchr(finding->where, ':');
        cr_assert_eq(finding->id, e->id, "%s: %s", e->name, finding->text);
        cr_assert(e->rank == -2 || finding->rank_count == (e->rank < 0 ? 3 : 1), "%s: %s", e->name,
                  finding->text);
        cr_assert(e->rank < 0 || finding->ranks[0] == e->rank, "%s: %s", e->name, finding->text);
        cr_assert(colon != NULL && strtol(colon + 1, NULL, 10) == at.line, "%s: %s, not line %d",
                  e->name, finding->where, at.line);
        cr_assert_not_null(strstr(finding->text, e->contains), "%s: %s", e->name, finding->text);
    }
    ls_spmd_result_free(result);
}

Test(overlap, every_bug_is_named_at_its_rank_and_line, .timeout = 120) {
    for (size_t i = 0; i < sizeof expected / sizeof expected[0]; i++) {
        for (uint64_t seed = 0; seed < (expected[i].deadline_seconds > 0 ? 2 : SEEDS); seed++) {
            run_one(&expected[i], seed, false);
        }
    }
}

Test(overlap, twins_without_the_bug_give_nothing, .timeout = 120) {
    for (size_t i = 0; i < sizeof expected / sizeof expected[0]; i++) {
        for (uint64_t seed = 0; seed < SEEDS; seed++) {
            run_one(&expected[i], seed, true);
        }
    }
}

// Correct programs that look similar: padding that is never read, masks, flags, one buffer sent
// twice, a rank's own block of an in-place gather read meanwhile.
static int idioms(ls_rank *self, void *arg) {
    (void)arg;
    int me = ls_rank_id(self);
    ls_request *requests[4] = {0};
    float *slots = ls_rank_alloc(self, 3 * 16), *got = ls_rank_alloc(self, 3 * 16);
    for (int p = 0; p < 3; p++) {
        slots[4 * p] = (float)me;
    }
    LS_TRY(ls_all_to_all(slots, got, 4, LS_F32, WORLD));
    float mask[2] = {-INFINITY, 1}, flag[1] = {me == 1 ? INFINITY : 1};
    LS_TRY(ls_all_reduce(mask, mask, 2, LS_F32, LS_MAX, WORLD));
    LS_TRY(ls_all_reduce(flag, flag, 1, LS_F32, LS_SUM, WORLD));
    float *read_only = ls_rank_alloc(self, 16), in[2][4];
    read_only[0] = read_only[1] = read_only[2] = read_only[3] = 1;
    for (int p = 1; p < 3; p++) {
        LS_TRY(ls_send_async(read_only, 4, LS_F32, (me + p) % 3, WORLD, &requests[p - 1]));
        LS_TRY(ls_recv_async(in[p - 1], 4, LS_F32, (me + p) % 3, WORLD, &requests[p + 1]));
    }
    float sum = ((volatile float *)read_only)[0];
    LS_TRY(ls_wait_all(requests, 4));
    float *shards = ls_rank_alloc(self, 3 * 4096);
    for (int i = 0; i < 1024; i++) {
        shards[me * 1024 + i] = (float)me;
    }
    LS_TRY(
        ls_all_gather_async(shards + (size_t)me * 1024, shards, 1024, LS_F32, WORLD, &requests[0]));
    sum += ((volatile float *)shards)[me * 1024];
    LS_TRY(ls_wait(requests[0]));
    int wrong = shards[2048] != 2 || in[1][3] != 1 || sum != (float)(1 + me);
    ls_rank_free(self, slots);
    ls_rank_free(self, got);
    ls_rank_free(self, read_only);
    ls_rank_free(self, shards);
    return wrong;
}

Test(overlap, legitimate_idioms_give_nothing, .timeout = 60) {
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        ls_spmd_result *result = NULL;
        const ls_spmd_options options = {.ranks = 3, .seed = seed, .schedule = LS_SCHEDULE_RANDOM};
        int status = ls_spmd_run(&result, idioms, NULL, &options);
        cr_assert_eq(status, LS_OK, "seed %d: %s", (int)seed,
                     ls_spmd_finding_count(result) > 0 ? ls_spmd_finding(result, 0)->text
                                                       : ls_error_last()->text);
        ls_spmd_result_free(result);
    }
}

// A sum of sums is a warning, which does not fail, and a finding if that is requested.
static int sum_line;

static int twice(ls_rank *self, void *arg) {
    (void)arg;
    float grad[8], other[8];
    for (int i = 0; i < 8; i++) {
        grad[i] = (float)(i + ls_rank_id(self));
        other[i] = -grad[i];
    }
    LS_TRY(ls_all_reduce(other, other, 8, LS_F32, LS_SUM, WORLD));
    sum_line = __LINE__ + 1;
    LS_TRY(ls_all_reduce(grad, grad, 8, LS_F32, LS_SUM, WORLD));
    return ls_all_reduce(grad, grad, 8, LS_F32, LS_SUM, WORLD);
}

Test(overlap, a_sum_of_sums_is_a_warning) {
    ls_spmd_result *result = NULL;
    char gave[32];
    cr_assert_eq(ls_spmd_run(&result, twice, NULL, &(ls_spmd_options){.ranks = 3}), LS_OK);
    cr_assert_eq(ls_spmd_finding_count(result), 0);
    cr_assert_eq(ls_spmd_warning_count(result), 1);
    cr_assert_eq(ls_spmd_warning(result, 0)->id, LS_FINDING_REDUNDANT_REDUCE);
    (void)snprintf(gave, sizeof gave, ".c:%d", sum_line);
    cr_assert_not_null(strstr(ls_spmd_warning(result, 0)->text, gave));
    ls_spmd_result_free(result);
    const ls_spmd_options asked = {.ranks = 3, .checks = "collective.redundant_reduce"};
    cr_assert_eq(ls_spmd_run(&result, twice, NULL, &asked), LS_ERR_FINDING);
    cr_assert_eq(ls_spmd_warning_count(result), 0);
    ls_spmd_result_free(result);
}

// ---- Polling, several requests, and helper threads ---------------------------------------------
static int polls(ls_rank *self, void *arg) {
    (void)arg;
    float a[4] = {1, 1, 1, 1}, b[4] = {2, 2, 2, 2};
    ls_request *requests[2] = {0};
    bool done = false;
    int first = -1, second = -1, none = 0;
    LS_TRY(ls_all_reduce_async(a, a, 4, LS_F32, LS_SUM, WORLD, &requests[0]));
    while (!done) {
        LS_TRY(ls_test(&done, &requests[0]));
    }
    LS_TRY(ls_all_reduce_async(a, a, 4, LS_F32, LS_SUM, WORLD, &requests[0]));
    LS_TRY(ls_all_reduce_async(b, b, 4, LS_F32, LS_SUM, WORLD, &requests[1]));
    LS_TRY(ls_wait_any(&first, requests, 2));
    LS_TRY(ls_wait_any(&second, requests, 2));
    LS_TRY(ls_wait_any(&none, requests, 2));
    return first + second == 1 && none == -1 && a[0] == 9 && b[3] == 6 ? 0 : 1;
}

static int polls_for_nothing(ls_rank *self, void *arg) {
    (void)arg;
    float a[4] = {0};
    ls_request *request = NULL;
    if (ls_rank_id(self) == 2) {
        return 0;
    }
    LS_TRY(ls_all_reduce_async(a, a, 4, LS_F32, LS_SUM, WORLD, &request));
    for (bool done = false; !done;) {
        LS_TRY(ls_test(&done, &request));
    }
    return 0;
}

static void *calls_for(void *arg) {
    ls_rank *self = arg;
    float x = 1;
    if (ls_rank_attach(self) != LS_OK || ls_all_reduce(&x, &x, 1, LS_F32, LS_SUM, WORLD) != LS_OK) {
        return NULL;
    }
    ls_rank_detach(self);
    return x == 3 ? arg : NULL;
}

static int helped(ls_rank *self, void *arg) {
    pthread_t helper;
    void *made = NULL;
    (void)arg;
    if (pthread_create(&helper, NULL, calls_for, self) != 0 || pthread_join(helper, &made) != 0) {
        return 1;
    }
    return made == self ? ls_barrier(WORLD) : 1;
}

Test(overlap, polls_and_helper_threads_complete, .timeout = 60) {
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        ls_spmd_result *result = NULL;
        const ls_spmd_options options = {
            .ranks = 3,
            .seed = seed,
            .schedule = seed == 0   ? LS_SCHEDULE_ROUND_ROBIN
                        : seed == 1 ? LS_SCHEDULE_PARALLEL
                                    : LS_SCHEDULE_RANDOM,
        };
        cr_assert_eq(ls_spmd_run(&result, polls, NULL, &options), LS_OK, "%s",
                     ls_error_last()->text);
        ls_spmd_result_free(result);
        cr_assert_eq(ls_spmd_run(&result, helped, NULL, &options), LS_OK, "%s",
                     ls_error_last()->text);
        ls_spmd_result_free(result);
    }
    ls_spmd_result *result = NULL;
    cr_assert_eq(ls_spmd_run(&result, polls_for_nothing, NULL, &(ls_spmd_options){.ranks = 3}),
                 LS_ERR_FINDING);
    cr_assert_eq(ls_spmd_finding(result, 0)->ranks[0], 2);
    ls_spmd_result_free(result);
}

// The environment sets options of a program with its own main; a wrong word is refused by name.
Test(overlap, the_environment_sets_options) {
    ls_spmd_result *result = NULL;
    const ls_spmd_options options = {.ranks = 3};
    (void)setenv("LOCKSTEP_FAULTS", "die@1:0", 1);
    cr_assert_neq(ls_spmd_run(&result, twice, NULL, &options), LS_OK);
    cr_assert_eq(ls_spmd_finding(result, 0)->id, LS_FINDING_RANK_DIED);
    ls_spmd_result_free(result);
    const ls_spmd_options fixed = {.ranks = 3, .fixed = true};
    cr_assert_eq(ls_spmd_run(&result, twice, NULL, &fixed), LS_OK);
    ls_spmd_result_free(result);
    (void)unsetenv("LOCKSTEP_FAULTS");
    (void)setenv("LOCKSTEP_SCHEDULE", "sometimes", 1);
    cr_assert_eq(ls_spmd_run(&result, twice, NULL, &options), LS_ERR_INVALID);
    cr_assert_not_null(strstr(ls_error_last()->text, "LOCKSTEP_SCHEDULE"));
    (void)unsetenv("LOCKSTEP_SCHEDULE");
}
