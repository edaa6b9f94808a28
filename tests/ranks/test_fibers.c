// Ranks as fibers of one thread: they have the findings of ranks on threads, also if a program does
// not end by returning, and there may be more of them than threads.
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/machine.h"

#include "bugs.h"

#define WORLD ls_rank_world(self)

static ls_spmd_result *run_bug(const bug *b, bool clean, uint64_t seed, bool fibers, int *status) {
    bug_run state = {.clean = clean};
    ls_spmd_result *result = NULL;
    const ls_spmd_options options = {.ranks = b->ranks,
                                     .seed = seed,
                                     .schedule = seed == 0   ? LS_SCHEDULE_ROUND_ROBIN
                                                 : seed == 1 ? LS_SCHEDULE_DELAY
                                                             : LS_SCHEDULE_RANDOM,
                                     .checks = b->checks,
                                     .lookahead = b->lookahead,
                                     .fibers = fibers};
    *status = ls_spmd_run(&result, b->program, &state, &options);
    cr_assert_not_null(result, "%s: %s", b->name, ls_error_last()->text);
    return result;
}

static void expect_same(const bug *b, bool clean, uint64_t seed) {
    int status[2] = {0, 0};
    ls_spmd_result *threads = run_bug(b, clean, seed, false, &status[0]);
    ls_spmd_result *fibers = run_bug(b, clean, seed, true, &status[1]);
    cr_assert_eq(status[0], status[1], "%s, seed %d", b->name, (int)seed);
    cr_assert_eq(ls_spmd_schedule_digest(threads), ls_spmd_schedule_digest(fibers), "%s, seed %d",
                 b->name, (int)seed);
    cr_assert_eq(ls_spmd_finding_count(threads), ls_spmd_finding_count(fibers), "%s", b->name);
    for (int i = 0; i < ls_spmd_finding_count(threads); i++) {
        cr_assert_str_eq(ls_spmd_finding(threads, i)->text, ls_spmd_finding(fibers, i)->text, "%s",
                         b->name);
    }
    for (int r = 0; r < b->ranks; r++) {
        cr_assert_eq(ls_spmd_exit_status(threads, r), ls_spmd_exit_status(fibers, r), "%s rank %d",
                     b->name, r);
    }
    ls_spmd_result_free(threads);
    ls_spmd_result_free(fibers);
}

// The same ranks run in the same order, with the same findings in the same words.
Test(fibers, show_what_threads_show) {
    for (int i = 0; i < bug_count; i++) {
        for (uint64_t seed = 0; seed < 5; seed++) {
            expect_same(&bugs[i], false, seed);
        }
        expect_same(&bugs[i], true, 2);
    }
}

// ---- Programs that do not return ----------------------------------------------------------------
static int deep(volatile char *above, int left) {
    volatile char frame[4096];
    frame[0] = above[0];
    frame[4095] = (char)left;
    return left == 0 ? frame[0] : deep(frame, left - 1) + frame[4095];
}

static int uses_up_its_stack(ls_rank *self, void *arg) {
    (void)arg;
    volatile char top[1] = {0};
    LS_TRY(ls_barrier(WORLD));
    return ls_rank_id(self) == 1 && deep(top, 1 << 20) == 1 ? 1 : ls_barrier(WORLD);
}

static int exits(ls_rank *self, void *arg) {
    (void)arg;
    LS_TRY(ls_barrier(WORLD));
    if (ls_rank_id(self) == 1) {
        exit(9);
    }
    return ls_barrier(WORLD);
}

// The rank is lost and reported, and the others end.
Test(fibers, programs_that_do_not_return) {
    static const struct {
        ls_spmd_program program;
        const char *contains;
    } lost[] = {{uses_up_its_stack, "used up its stack"}, {exits, "called exit(9)"}};
    for (size_t i = 0; i < sizeof lost / sizeof lost[0]; i++) {
        ls_spmd_result *result = NULL;
        const ls_spmd_options options = {.ranks = 3, .fibers = true};
        cr_assert_eq(ls_spmd_run(&result, lost[i].program, NULL, &options), LS_ERR_FINDING, "%zu",
                     i);
        const ls_finding *finding = ls_spmd_finding(result, 0);
        cr_assert_eq(finding->id, LS_FINDING_RANK_DIED, "%s", finding->text);
        cr_assert_eq(finding->ranks[0], 1, "%s", finding->text);
        cr_assert_not_null(strstr(finding->text, lost[i].contains), "%s", finding->text);
        ls_spmd_result_free(result);
    }
}

// ---- Errors -------------------------------------------------------------------------------------
// A rank's last error stays its own after others have run and failed.
static int remembers(ls_rank *self, void *arg) {
    (void)arg;
    char own[64];
    (void)LS_FAIL_RANK(LS_ERR_IO, ls_rank_id(self), "rank %d failed", ls_rank_id(self));
    (void)snprintf(own, sizeof own, "rank %d failed", ls_rank_id(self));
    for (int i = 0; i < 3; i++) {
        LS_TRY(ls_barrier(WORLD));
        if (strcmp(ls_error_last()->text, own) != 0 || ls_error_last()->rank != ls_rank_id(self)) {
            return LS_ERR_INVALID;
        }
    }
    return LS_OK;
}

Test(fibers, each_has_its_last_error) {
    ls_spmd_result *result = NULL;
    const ls_spmd_options options = {.ranks = 4, .fibers = true, .schedule = LS_SCHEDULE_RANDOM};
    cr_assert_eq(ls_spmd_run(&result, remembers, NULL, &options), LS_OK, "%s",
                 ls_error_last()->text);
    ls_spmd_result_free(result);
}

// ---- Many ---------------------------------------------------------------------------------------
static int sums(ls_rank *self, void *arg) {
    uint32_t one = 1, all = 0;
    LS_TRY(ls_all_reduce(&one, &all, 1, LS_U32, LS_SUM, WORLD));
    *(uint64_t *)arg += all;
    return LS_OK;
}

// As many as a world can have: more threads than Linux gives to a process.
Test(fibers, as_many_as_a_world_can_have) {
    uint64_t total = 0, ranks = LS_RANKS_MAX;
    ls_spmd_result *result = NULL;
    const ls_spmd_options options = {
        .ranks = LS_RANKS_MAX, .fibers = true, .stack_bytes = (size_t)64 << 10, .history = 1};
    cr_assert_lt(ls_machine_threads(), ranks);
    int status = ls_spmd_run(&result, sums, &total, &options);
    cr_assert_eq(status, LS_OK, "%s", ls_error_last()->text);
    cr_assert_eq(total, ranks * ranks);
    ls_spmd_result_free(result);
}
