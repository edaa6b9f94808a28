// The reports of runs: their content, number and order.
#include <criterion/criterion.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ranks/ranks.h"

#define WORLD ls_rank_world(self)

static int touches_again(ls_rank *self, void *arg) {
    (void)arg;
    for (int i = 0; i < 5; i++) {
        LS_TRY(ls_rank_id(self) % 4 != 0 ? ls_reads(self, NULL, 4) : LS_OK);
    }
    return 0;
}

// The same mistake at the same place is reported once, with all ranks that make it.
Test(told, a_mistake_in_a_loop_is_told_once) {
    ls_spmd_result *result = NULL;
    cr_assert_eq(ls_spmd_run(&result, touches_again, NULL, &(ls_spmd_options){.ranks = 7}),
                 LS_ERR_FINDING);
    cr_assert_eq(ls_spmd_finding_count(result), 1);
    const ls_finding *finding = ls_spmd_finding(result, 0);
    cr_assert(finding->rank_count == 5 && finding->ranks[0] == 1 && finding->ranks[4] == 6);
    cr_assert_not_null(strstr(finding->text, "\nthe same on ranks 2, 3, 5, 6\n"), "%s",
                       finding->text);
    ls_spmd_result_free(result);
}

static int alone(ls_rank *self, void *arg) {
    (void)arg;
    ls_rank_comm *own = NULL;
    LS_TRY(ls_comm_split(&own, WORLD, ls_rank_id(self), 0));
    LS_TRY(ls_barrier(own));
    return ls_comm_destroy(own);
}

// A rank that stalls while no other waits for it is still named.
Test(told, a_stalled_rank_is_named_when_nobody_waits) {
    const ls_fault fault = {LS_FAULT_STALL, 2, 1, 0};
    ls_spmd_result *result = NULL;
    const ls_spmd_options options = {.ranks = 3, .faults = &fault, .fault_count = 1};
    cr_assert_eq(ls_spmd_run(&result, alone, NULL, &options), LS_ERR_FINDING);
    const ls_finding *finding = ls_spmd_finding(result, 0);
    cr_assert_eq(finding->id, LS_FINDING_MISSING_RANK);
    cr_assert_eq(finding->ranks[0], 2);
    cr_assert_not_null(strstr(finding->text, "no other rank is left"));
    ls_spmd_result_free(result);
}

// Rank 0 waits for 2, which waits for 3, which waits for 0; so does 1, whose message 0 could
// receive.
static int waits_for_one_of_two(ls_rank *self, void *arg) {
    (void)arg;
    const int me = ls_rank_id(self);
    int32_t got[2];
    ls_request *open[2] = {NULL, NULL};
    if (me > 0) {
        return ls_recv(got, 1, LS_I32, me == 2 ? 3 : 0, WORLD);
    }
    LS_TRY(ls_recv_async(&got[0], 1, LS_I32, 1, WORLD, &open[0]));
    LS_TRY(ls_recv_async(&got[1], 1, LS_I32, 2, WORLD, &open[1]));
    return ls_wait(open[1]);
}

// A cycle follows the calls that are waited for; a shorter one through other open calls is none.
Test(told, a_circle_is_of_what_is_waited_for) {
    ls_spmd_result *result = NULL;
    const ls_spmd_options options = {.ranks = 4};
    cr_assert(ls_spmd_run(&result, waits_for_one_of_two, NULL, &options) == LS_ERR_DEADLOCK);
    const ls_finding *finding = ls_spmd_finding(result, 0);
    cr_assert_eq(finding->id, LS_FINDING_DEADLOCK_CYCLE);
    cr_assert_eq(finding->rank_count, 3, "%s", finding->text);
    cr_expect(finding->ranks[0] == 0 && finding->ranks[1] == 2 && finding->ranks[2] == 3);
    ls_spmd_result_free(result);
}

static int updates_meanwhile(ls_rank *self, void *arg) {
    (void)arg;
    float weights[2] = {1, 2}, loss[2] = {1, 1};
    ls_request *request = NULL;
    LS_TRY(ls_replica_declare(weights, 2, LS_F32, WORLD));
    LS_TRY(ls_all_reduce_async(loss, loss + 1, 1, LS_F32, LS_SUM, WORLD, &request));
    weights[0] += 1;  // during the call: the others have not come so far
    LS_TRY(ls_wait(request));
    LS_TRY(ls_barrier(WORLD));
    return ls_replica_forget(weights, WORLD);
}

// A rank continues after an asynchronous call, so replicas are not compared then.
Test(told, replicas_are_not_compared_on_the_way) {
    for (uint64_t seed = 0; seed < 10; seed++) {
        ls_spmd_result *result = NULL;
        const ls_spmd_options options = {
            .ranks = 3, .seed = seed, .schedule = LS_SCHEDULE_RANDOM, .checks = "replica.*"};
        cr_assert_eq(ls_spmd_run(&result, updates_meanwhile, NULL, &options), LS_OK, "%s",
                     ls_error_last()->text);
        ls_spmd_result_free(result);
    }
}

static int keeps_its_memory(ls_rank *self, void *arg) {
    (void)arg;
    int32_t *table = ls_rank_alloc(self, 4 * sizeof *table);
    LS_TRY(ls_replica_declare(table, 4, LS_I32, WORLD));
    for (int i = 0; i < 4; i++) {
        table[i] = ls_rank_id(self) == 1 ? -i : 0;
    }
    return 0;
}

// Replicas that are never freed are compared at the end.
Test(told, kept_replicas_are_compared_at_the_end) {
    ls_spmd_result *result = NULL;
    const ls_spmd_options options = {.ranks = 3, .checks = "-handle.leak"};
    cr_assert_eq(ls_spmd_run(&result, keeps_its_memory, NULL, &options), LS_ERR_FINDING);
    const ls_finding *finding = ls_spmd_finding(result, 0);
    cr_assert_eq(finding->id, LS_FINDING_REPLICA_DIVERGED);
    cr_assert_eq(finding->ranks[0], 1);
    cr_assert_not_null(strstr(finding->text, "at the end: rank 1 holds"), "%s", finding->text);
    ls_spmd_result_free(result);
}

// A rank of the second half writes memory that only that half's calls compare.
static int differs_in_a_part(ls_rank *self, void *arg) {
    const int *odd = arg;
    float weights[2] = {1, 1};
    ls_rank_comm *half = NULL;
    LS_TRY(ls_comm_split(&half, WORLD, ls_rank_id(self) / 2, 0));
    LS_TRY(ls_replica_declare(weights, 2, LS_F32, WORLD));
    LS_TRY(ls_barrier(WORLD));
    LS_TRY(ls_all_reduce(weights, weights, 1, LS_F32, LS_MAX, half));
    weights[1] += ls_rank_id(self) == *odd ? 1 : 0;
    LS_TRY(ls_all_reduce(weights, weights, 1, LS_F32, LS_MAX, half));
    LS_TRY(ls_all_reduce(weights, weights, 1, LS_F32, LS_MIN, half));
    int other = 0;  // the first half continues after the second has called
    LS_TRY(ls_rank_id(self) < 2 ? ls_recv(&other, 1, LS_I32, ls_rank_id(self) + 2, WORLD)
                                : ls_send(&other, 1, LS_I32, ls_rank_id(self) - 2, WORLD));
    LS_TRY(ls_replica_forget(weights, WORLD));
    return ls_comm_destroy(half);
}

// A call of some members compares their copies, and a difference is reported once.
Test(told, replicas_are_compared_after_calls_of_a_part) {
    int odd = -1;
    ls_spmd_result *result = NULL;
    const ls_spmd_options options = {.ranks = 4, .checks = "replica.*"};
    cr_assert_eq(ls_spmd_run(&result, differs_in_a_part, &odd, &options), LS_OK, "%s",
                 ls_error_last()->text);
    ls_spmd_result_free(result);
    odd = 3;
    cr_assert_eq(ls_spmd_run(&result, differs_in_a_part, &odd, &options), LS_ERR_FINDING);
    cr_expect_eq(ls_spmd_finding_count(result), 1);
    const ls_finding *finding = ls_spmd_finding(result, 0);
    cr_expect_eq(finding->id, LS_FINDING_REPLICA_DIVERGED);
    cr_expect(finding->rank_count == 1 && finding->ranks[0] == 3, "%s", finding->text);
    ls_spmd_result_free(result);
}

static int declares_again(ls_rank *self, void *arg) {
    (void)arg;
    float weights[2] = {1, 1};
    for (int time = 0; time < 2; time++) {
        LS_TRY(ls_replica_declare(weights, 2, LS_F32, WORLD));
        LS_TRY(ls_rank_id(self) == 0 ? ls_replica_forget(weights, WORLD) : LS_OK);
    }
    weights[1] += ls_rank_id(self) == 1 ? 1 : 0;
    return ls_all_reduce(weights, weights, 1, LS_F32, LS_MAX, WORLD);
}

// One member's forgetting applies to all, also for reused memory.
Test(told, a_replica_is_forgotten_each_time) {
    ls_spmd_result *result = NULL;
    const ls_spmd_options options = {.ranks = 3, .checks = "replica.*"};
    cr_assert_eq(ls_spmd_run(&result, declares_again, NULL, &options), LS_OK, "%s",
                 ls_error_last()->text);
    ls_spmd_result_free(result);
}

typedef struct forgetting {
    int forgotten;  // of the two replicas, before
    int differs;    // the one that rank 1 writes
    bool late;      // the first one is forgotten after it is freed
} forgetting;

static int forgets_one(ls_rank *self, void *arg) {
    const forgetting *of = arg;
    float *tables[2];
    for (int i = 0; i < 2; i++) {
        tables[i] = ls_rank_alloc(self, sizeof(float));
        tables[i][0] = 1;
        LS_TRY(ls_replica_declare(tables[i], 1, LS_F32, WORLD));
    }
    LS_TRY(ls_barrier(WORLD));
    if (!of->late) {
        LS_TRY(ls_replica_forget(tables[of->forgotten], WORLD));
    }
    tables[of->differs][0] += ls_rank_id(self) == 1 ? 1 : 0;
    for (int i = 0; i < 2; i++) {
        ls_rank_free(self, tables[i]);
    }
    return of->late ? ls_replica_forget(tables[of->forgotten], WORLD) : LS_OK;
}

// Forgotten memory may differ when it is freed, other memory may not.
Test(told, only_what_is_forgotten_may_differ) {
    static const forgetting cases[] = {{0, 0, false}, {1, 1, false}, {0, 1, false},
                                       {1, 0, false}, {0, 0, true},  {1, 1, true}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        forgetting of = cases[i];
        bool found = of.late || of.forgotten != of.differs;
        ls_spmd_result *result = NULL;
        const ls_spmd_options options = {.ranks = 3, .checks = "replica.*"};
        cr_expect_eq(ls_spmd_run(&result, forgets_one, &of, &options),
                     found ? LS_ERR_FINDING : LS_OK, "%zu", i);
        cr_expect_eq(ls_spmd_finding_count(result), found ? 1 : 0, "%zu", i);
        ls_spmd_result_free(result);
    }
}

// Allocates from the end to the start.
typedef struct downwards {
    _Alignas(64) unsigned char memory[1 << 18];
    size_t left;
} downwards;

static downwards *below;  // NULL: ordinary

// By the linker's --wrap.
void *__real_aligned_alloc(size_t alignment, size_t size);
void __real_free(void *pointer);
void *__wrap_aligned_alloc(size_t alignment, size_t size);
void __wrap_free(void *pointer);

void *__wrap_aligned_alloc(size_t alignment, size_t size) {
    if (below == NULL || size > below->left) {
        return __real_aligned_alloc(alignment, size);
    }
    below->left -= size;
    return below->memory + below->left;
}

void __wrap_free(void *pointer) {
    uintptr_t at = (uintptr_t)pointer, start = (uintptr_t)below;
    if (below == NULL || at - start >= sizeof *below) {
        __real_free(pointer);
    }
}

static int leaks_three(ls_rank *self, void *arg) {
    int *lines = arg;
    void *first = ls_rank_alloc(self, 100);
    lines[0] = __LINE__ - 1;
    for (int i = 0; i < 2; i++) {
        first = ls_rank_alloc(self, 10) != NULL ? first : NULL;
    }
    return first != NULL ? 0 : 1;
}

// Leaks are reported in program order, whatever their addresses, one for each place.
Test(told, leaks_are_told_in_order) {
    static downwards memory = {.left = sizeof memory.memory};
    below = &memory;
    int lines[1] = {0};
    ls_spmd_result *result = NULL;
    const ls_spmd_options options = {.ranks = 1};
    cr_assert_eq(ls_spmd_run(&result, leaks_three, lines, &options), LS_ERR_FINDING, "%s",
                 ls_error_last()->text);
    cr_assert_eq(ls_spmd_finding_count(result), 2);
    char where[32];
    (void)snprintf(where, sizeof where, ".c:%d", lines[0]);
    cr_assert_not_null(strstr(ls_spmd_finding(result, 0)->where, where));
    cr_assert_not_null(strstr(ls_spmd_finding(result, 1)->text, "the 20 bytes"), "%s",
                       ls_spmd_finding(result, 1)->text);
    cr_assert_not_null(strstr(ls_spmd_finding(result, 1)->text, "2 times"));
    ls_spmd_result_free(result);
}

// ---- A request that is left ---------------------------------------------------------------------
static int reads_early(ls_rank *self, void *arg) {
    const bool *waits = arg;
    static float sums[2][4];
    float *sum = sums[ls_rank_id(self)];
    ls_request *request = NULL;
    LS_TRY(ls_all_reduce_async(sum, sum, 4, LS_F32, LS_SUM, WORLD, &request));
    LS_TRY(ls_rank_id(self) == 1 ? ls_reads(self, sum, 4) : LS_OK);
    return *waits || ls_rank_id(self) == 0 ? ls_wait(request) : 0;
}

// A missing wait and the consequence for its buffer are one bug.
Test(told, a_request_that_is_left_is_one_bug) {
    for (int waits = 0; waits < 2; waits++) {
        bool wait = waits == 1;
        ls_spmd_result *result = NULL;
        cr_assert_eq(ls_spmd_run(&result, reads_early, &wait, &(ls_spmd_options){.ranks = 2}),
                     LS_ERR_FINDING);
        cr_assert_eq(ls_spmd_finding_count(result), 1);
        const ls_finding *finding = ls_spmd_finding(result, 0);
        cr_expect_eq(finding->id,
                     wait ? LS_FINDING_BUFFER_USE_BEFORE_WAIT : LS_FINDING_HANDLE_LEAK);
        cr_expect(finding->rank_count == 1 && finding->ranks[0] == 1, "%s", finding->text);
        cr_expect_eq(strstr(finding->text, "waited for, and its buffer was used meanwhile") != NULL,
                     !wait, "%s", finding->text);
        ls_spmd_result_free(result);
    }
}

typedef struct named_axis {
    const char *axis;
    int odd;  // the rank that differs
} named_axis;

static int differs_on_named(ls_rank *self, void *arg) {
    const named_axis *named = arg;
    ls_rank_comm *along = NULL, *grads = NULL;
    float x = 1;
    LS_TRY(ls_rank_axis_named(&along, self, named->axis));
    LS_TRY(ls_all_reduce(&x, &x, 1, LS_F32, LS_SUM, along));
    LS_TRY(ls_comm_split(&grads, along, 0, 0));
    LS_TRY(ls_comm_set_name(grads, "gradients"));
    LS_TRY(
        ls_all_reduce(&x, &x, 1, LS_F32, ls_rank_id(self) == named->odd ? LS_MAX : LS_SUM, grads));
    return ls_comm_destroy(grads);
}

static ls_spmd_result *run_named(const char *axis, int odd, int expected) {
    named_axis named = {axis, odd};
    ls_spmd_result *result = NULL;
    const ls_spmd_options options = {.ranks = 4, .mesh = LS_MESH_NAMED(("host", "gpu"), 2, 2)};
    cr_expect_eq(ls_spmd_run(&result, differs_on_named, &named, &options), expected);
    cr_assert_eq(ls_spmd_finding_count(result), 1);
    return result;
}

// Axes are found by name, and a communicator has its members' name.
Test(told, names_of_axes_and_communicators) {
    ls_spmd_result *result = run_named("gpu", 3, LS_ERR_FINDING);
    const ls_finding *finding = ls_spmd_finding(result, 0);
    cr_expect_eq(finding->id, LS_FINDING_OP_MISMATCH);
    cr_expect(finding->rank_count == 1 && finding->ranks[0] == 3, "%s", finding->text);
    cr_expect_not_null(strstr(finding->text, "all_reduce on gradients"), "%s", finding->text);
    cr_expect_not_null(strstr(finding->text, " on gpu[1]"), "%s", finding->text);
    ls_spmd_result_free(result);
    result = run_named("gpus", 3, LS_ERR_FINDING);
    cr_expect_eq(ls_spmd_finding(result, 0)->id, LS_FINDING_CALL_INVALID);
    cr_expect_not_null(strstr(ls_spmd_finding(result, 0)->text, "gpus"));
    ls_spmd_result_free(result);
}

// If two members differ, neither is the minority: ranks elsewhere decide, and without them the
// first one is kept.
Test(told, others_say_who_is_at_fault) {
    for (int odd = 0; odd < 4; odd++) {
        ls_spmd_result *result = run_named("gpu", odd, LS_ERR_FINDING);
        const ls_finding *finding = ls_spmd_finding(result, 0);
        cr_expect(finding->rank_count == 1 && finding->ranks[0] == odd, "%s", finding->text);
        bool turned = finding->other_count == 1 && finding->others[0] == (odd ^ 1);
        cr_expect(odd % 2 == 0 ? turned : finding->others == NULL && finding->other_count == 0);
        char says[64];
        (void)snprintf(says, sizeof says, "rank %d makes the call at ", odd < 2 ? 2 : 0);
        cr_expect_eq(strstr(finding->text, says) != NULL, odd % 2 == 0, "%s", finding->text);
        ls_spmd_result_free(result);
    }
}

// ---- Matched calls ------------------------------------------------------------------------------
static int sums_and_sends(ls_rank *self, void *arg) {
    (void)arg;
    ls_rank_comm *world = ls_rank_world(self);
    float data[2] = {1, 2}, sum[2];
    LS_TRY(ls_all_reduce(data, sum, 2, LS_F32, LS_SUM, world));
    return ls_rank_id(self) == 0 ? ls_send(data, 2, LS_F32, 1, world)
                                 : ls_recv(data, 2, LS_F32, 0, world);
}

static void note_met(void *arg, const ls_call *const *calls, int size) {
    char *kinds = arg;
    size_t used = strlen(kinds);
    for (int m = 0; m < size; m++) {
        used += (size_t)snprintf(kinds + used, 128 - used, "%d %s; ", calls[m]->rank,
                                 ls_kind_name(calls[m]->kind));
    }
}

// An observer receives each set of calls once: those of a collective, and a send with its receive.
Test(told, calls_that_have_met) {
    char kinds[128] = "";
    const ls_spmd_options options = {.ranks = 2, .met = note_met, .met_arg = kinds};
    ls_spmd_result *result = NULL;
    cr_assert(ls_spmd_run(&result, sums_and_sends, NULL, &options) == LS_OK);
    cr_expect_str_eq(kinds, "0 all_reduce; 1 all_reduce; 0 send; 1 recv; ");
    ls_spmd_result_free(result);
}

// ---- Ends of the process that are a rank's ------------------------------------------------------
static int exits_at_once(ls_rank *self, void *arg) {
    (void)arg;
    LS_TRY(ls_barrier(ls_rank_world(self)));
    if (ls_rank_id(self) == 1) {
        _exit(0);
    }
    return ls_barrier(ls_rank_world(self));
}

static void *help_and_exit(void *arg) {
    ls_rank *self = arg;
    if (ls_rank_attach(self) == LS_OK) {
        exit(0);
    }
    return NULL;
}

static int helper_exits(ls_rank *self, void *arg) {
    (void)arg;
    LS_TRY(ls_barrier(ls_rank_world(self)));
    pthread_t helper;
    if (ls_rank_id(self) == 1 && pthread_create(&helper, NULL, help_and_exit, self) == 0) {
        (void)pthread_join(helper, NULL);
    }
    return ls_barrier(ls_rank_world(self));
}

// The other ranks continue to the end of the run, and so does the process.
Test(told, exit_is_the_end_of_a_rank) {
    static const struct {
        ls_spmd_program program;
        const char *told;
    } ends[] = {{exits_at_once, "rank 1 called _exit(0) after its last call"},
                {helper_exits, "rank 1 called exit(0) on a thread that it has attached"}};
    for (int i = 0; i < 2 * 8; i++) {
        const ls_spmd_options options = {.ranks = 3,
                                         .seed = (uint64_t)i,
                                         .schedule =
                                             i < 2 ? LS_SCHEDULE_ROUND_ROBIN : LS_SCHEDULE_RANDOM};
        ls_spmd_result *result = NULL;
        cr_assert(ls_spmd_run(&result, ends[i % 2].program, NULL, &options) == LS_ERR_FINDING);
        cr_assert_eq(ls_spmd_finding_count(result), 1);
        const ls_finding *finding = ls_spmd_finding(result, 0);
        cr_assert(finding->id == LS_FINDING_RANK_DIED && finding->rank_count == 1 &&
                      finding->ranks[0] == 1 && strstr(finding->text, ends[i % 2].told) != NULL,
                  "%s", finding->text);
        ls_spmd_result_free(result);
    }
}
