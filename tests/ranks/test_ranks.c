// The checks on programs with known bugs, schedules and their replay, faults, and the limits of a
// run.
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "base/machine.h"

#include "bugs.h"

#define WORLD ls_rank_world(self)

static void run_bug(const bug *b, bool clean, ls_schedule_kind schedule, uint64_t seed,
                    ls_spmd_result **result, int *status, int *line) {
    bug_run state = {.clean = clean};
    const ls_spmd_options options = {.ranks = b->ranks,
                                     .seed = seed,
                                     .schedule = schedule,
                                     .checks = b->checks,
                                     .lookahead = b->lookahead};
    *status = ls_spmd_run(result, b->program, &state, &options);
    *line = state.line;
}

static void expect_bug(const bug *b, ls_schedule_kind schedule, uint64_t seed) {
    ls_spmd_result *result = NULL;
    int status = LS_OK, line = 0;
    run_bug(b, false, schedule, seed, &result, &status, &line);
    cr_assert_eq(status, b->deadlock ? LS_ERR_DEADLOCK : LS_ERR_FINDING, "%s seed %d: status %d %s",
                 b->name, (int)seed, status, ls_error_last()->text);
    cr_assert_geq(ls_spmd_finding_count(result), 1, "%s", b->name);
    for (int i = 0; i < ls_spmd_finding_count(result); i++) {
        const ls_finding *finding = ls_spmd_finding(result, i);
        cr_assert_str_eq(ls_finding_name(finding->id), ls_finding_name(b->finding), "%s: %s",
                         b->name, finding->text);
        cr_assert_not_null(strstr(finding->text, b->contains), "%s: %s", b->name, finding->text);
        if (b->fault_rank_count >= 0) {
            cr_assert_eq(finding->rank_count, b->fault_rank_count, "%s: %d ranks", b->name,
                         finding->rank_count);
            cr_assert_arr_eq(finding->ranks, b->fault_ranks,
                             (size_t)b->fault_rank_count * sizeof(int), "%s: rank %d", b->name,
                             finding->ranks[0]);
        }
        if (line != 0) {
            char where[32];
            (void)snprintf(where, sizeof where, ".c:%d", line);
            cr_assert_not_null(strstr(finding->where, where), "%s: %s, not %s\n%s", b->name,
                               finding->where, where, finding->text);
        }
    }
    ls_spmd_result_free(result);
}

// Every bug is found under its name, with its ranks and its line, under every schedule.
Test(ranks, every_bug_is_found) {
    for (int i = 0; i < bug_count; i++) {
        expect_bug(&bugs[i], LS_SCHEDULE_ROUND_ROBIN, 0);
        expect_bug(&bugs[i], LS_SCHEDULE_DELAY, 0);
        for (uint64_t seed = 1; seed <= 10; seed++) {
            expect_bug(&bugs[i], LS_SCHEDULE_RANDOM, seed);
        }
    }
}

// Its corrected version has no finding, with every check on.
Test(ranks, clean_twins_are_clean) {
    for (int i = 0; i < bug_count; i++) {
        for (uint64_t seed = 0; seed < 5; seed++) {
            bug twin = bugs[i];
            twin.checks = "all";
            ls_spmd_result *result = NULL;
            int status = LS_OK, line = 0;
            run_bug(&twin, true, seed == 0 ? LS_SCHEDULE_ROUND_ROBIN : LS_SCHEDULE_RANDOM, seed,
                    &result, &status, &line);
            cr_assert_eq(status, LS_OK, "%s: %s\n%s", twin.name, ls_error_last()->text,
                         result != NULL && ls_spmd_finding_count(result) > 0
                             ? ls_spmd_finding(result, 0)->text
                             : "");
            cr_assert_eq(ls_spmd_finding_count(result), 0);
            ls_spmd_result_free(result);
        }
    }
}

// A seed gives the same schedule, findings and words every time; another seed another schedule.
Test(ranks, seeds_replay) {
    bool differs = false;
    for (int i = 0; i < bug_count; i++) {
        ls_spmd_result *a = NULL, *b = NULL, *c = NULL;
        int status = 0, line = 0;
        run_bug(&bugs[i], false, LS_SCHEDULE_RANDOM, 7, &a, &status, &line);
        run_bug(&bugs[i], false, LS_SCHEDULE_RANDOM, 7, &b, &status, &line);
        run_bug(&bugs[i], false, LS_SCHEDULE_RANDOM, 8, &c, &status, &line);
        cr_assert_eq(ls_spmd_schedule_digest(a), ls_spmd_schedule_digest(b), "%s", bugs[i].name);
        cr_assert_str_eq(ls_spmd_finding(a, 0)->text, ls_spmd_finding(b, 0)->text);
        differs = differs || ls_spmd_schedule_digest(a) != ls_spmd_schedule_digest(c);
        ls_spmd_result_free(a);
        ls_spmd_result_free(b);
        ls_spmd_result_free(c);
    }
    cr_assert(differs);
}

// A disabled check has no finding; a run that cannot complete still ends.
Test(ranks, checks_are_switched_by_name) {
    for (int i = 0; i < bug_count; i++) {
        char off[64];
        (void)snprintf(off, sizeof off, "-%s", ls_finding_name(bugs[i].finding));
        bug without = bugs[i];
        without.checks = off;
        if (without.finding == LS_FINDING_BUFFER_TOO_SMALL ||
            without.finding == LS_FINDING_HANDLE_USE_AFTER_FREE ||
            strcmp(without.name, "request_leak") == 0) {
            continue;  // unchecked, these programs really violate the rules
        }
        ls_spmd_result *result = NULL;
        int status = LS_OK, line = 0;
        run_bug(&without, false, LS_SCHEDULE_ROUND_ROBIN, 0, &result, &status, &line);
        for (int k = 0; k < ls_spmd_finding_count(result); k++) {
            cr_assert_neq(ls_spmd_finding(result, k)->id, without.finding, "%s", without.name);
        }
        ls_spmd_result_free(result);
    }
    ls_spmd_result *result = NULL;
    bug_run state = {0};
    const ls_spmd_options options = {.ranks = 2, .checks = "colective.*"};
    cr_assert_eq(ls_spmd_run(&result, bugs[0].program, &state, &options), LS_ERR_NOT_FOUND);
    cr_assert_null(result);
}

// All users of a run's list of checks read it in the same way.
Test(ranks, one_check_is_asked_for) {
    bool on = true;
    cr_assert_eq(ls_spmd_check_on(&on, NULL, LS_FINDING_BUFFER_MODIFIED_IN_FLIGHT), LS_OK);
    cr_assert_not(on);
    cr_assert_eq(ls_spmd_check_on(&on, "-*,replica.*", LS_FINDING_REPLICA_DIVERGED), LS_OK);
    cr_assert(on);
    cr_assert_eq(ls_spmd_check_on(&on, "all,-rep*", LS_FINDING_REPLICA_DIVERGED), LS_OK);
    cr_assert_not(on);
    cr_assert_eq(ls_spmd_check_on(&on, "replicas", LS_FINDING_REPLICA_DIVERGED), LS_ERR_NOT_FOUND);
}

// Every call has the expected result under every schedule, without a finding.
Test(ranks, every_call_works) {
    int rounds = 3;
    for (int schedule = 0; schedule <= LS_SCHEDULE_PARALLEL; schedule++) {
        for (int ranks = 2; ranks <= 12; ranks += 5) {
            ls_spmd_result *result = NULL;
            const ls_spmd_options options = {.ranks = ranks,
                                             .mesh = LS_MESH_NAMED(("all"), ranks),
                                             .seed = 3,
                                             .schedule = (ls_schedule_kind)schedule,
                                             .delayed_rank = 1,
                                             .checks = "all"};
            int status = ls_spmd_run(&result, every_call, &rounds, &options);
            cr_assert_eq(status, LS_OK, "%s", ls_error_last()->text);
            cr_assert_gt(ls_spmd_call_count(result), 0);
            ls_spmd_result_free(result);
        }
    }
}

// ---- Faults ----
static int loop(ls_rank *self, void *arg) {
    (void)arg;
    float *data = ls_rank_alloc(self, 64 * sizeof(float));
    if (data == NULL) {
        return 3;
    }
    for (int i = 0; i < 64; i++) {
        data[i] = 1;
    }
    for (int i = 0; i < 3; i++) {
        LS_TRY(ls_all_reduce(data, data, 64, LS_F32, LS_MAX, ls_rank_world(self)));
        LS_TRY(ls_barrier(ls_rank_world(self)));
    }
    LS_TRY(ls_check_replica(data, 64, LS_F32, ls_rank_world(self)));
    ls_rank_free(self, data);
    return 0;
}

static void expect_fault(ls_fault fault, ls_finding_id id, const char *contains) {
    ls_spmd_result *result = NULL;
    const ls_spmd_options options = {
        .ranks = 4, .faults = &fault, .fault_count = 1, .lookahead = 4};
    int status = ls_spmd_run(&result, loop, NULL, &options);
    cr_assert_eq(status, LS_ERR_FINDING, "fault %d: %d", (int)fault.type, status);
    cr_assert_str_eq(ls_finding_name(ls_spmd_finding(result, 0)->id), ls_finding_name(id),
                     "fault %d: %s", (int)fault.type, ls_spmd_finding(result, 0)->text);
    cr_assert_eq(ls_spmd_finding(result, 0)->ranks[0], fault.rank);
    cr_assert_not_null(strstr(ls_spmd_finding(result, 0)->text, contains), "fault %d: %s",
                       (int)fault.type, ls_spmd_finding(result, 0)->text);
    ls_spmd_result_free(result);
}

// Each fault causes its finding, at its rank.
Test(ranks, faults_are_found) {
    expect_fault((ls_fault){LS_FAULT_DIE, 2, 3, 0}, LS_FINDING_RANK_DIED, "others wait for it");
    expect_fault((ls_fault){LS_FAULT_STALL, 1, 2, 0}, LS_FINDING_MISSING_RANK,
                 "others wait for it");
    expect_fault((ls_fault){LS_FAULT_SKIP_CALL, 3, 2, 0}, LS_FINDING_MISSING_RANK, "left out");
    expect_fault((ls_fault){LS_FAULT_DOUBLE_CALL, 3, 2, 0}, LS_FINDING_EXTRA_CALL,
                 "one extra call");
    expect_fault((ls_fault){LS_FAULT_WRONG_COUNT, 0, 2, -1}, LS_FINDING_COUNT_MISMATCH,
                 "count differs");
    expect_fault((ls_fault){LS_FAULT_ALLOCATION, 1, 0, 1}, LS_FINDING_RANK_EXITED_EARLY,
                 "returned (status 3)");
    expect_fault((ls_fault){LS_FAULT_BIT_FLIP, 1, 6, 40}, LS_FINDING_REPLICA_DIVERGED, "replicas");
}

// A slow rank changes only the schedule.
Test(ranks, slow_is_no_bug) {
    const ls_fault fault = {LS_FAULT_SLOW, 0, 1, 0};
    uint64_t digests[2];
    for (int i = 0; i < 2; i++) {
        ls_spmd_result *result = NULL;
        const ls_spmd_options options = {
            .ranks = 4, .faults = &fault, .fault_count = i, .schedule = LS_SCHEDULE_RANDOM};
        cr_assert_eq(ls_spmd_run(&result, loop, NULL, &options), LS_OK, "%s",
                     ls_error_last()->text);
        digests[i] = ls_spmd_schedule_digest(result);
        ls_spmd_result_free(result);
    }
    cr_assert_neq(digests[0], digests[1]);
}

// Rank 0 takes the first message: only some schedules send rank 2's before rank 1's.
static int race(ls_rank *self, void *arg) {
    int *arrivals = arg;
    float data[2] = {0, 0};
    ls_rank_comm *world = ls_rank_world(self);
    if (ls_rank_id(self) == 0) {
        LS_TRY(ls_barrier(world));
        int first = arrivals[0];
        arrivals[1] = 0;
        return ls_recv(data, first == 2 ? 2 : 1, LS_F32, 1, world) == LS_OK ? 0 : 1;
    }
    if (arrivals[1] == 0) {
        arrivals[0] = ls_rank_id(self);
        arrivals[1] = 1;
    }
    LS_TRY(ls_barrier(world));
    return ls_rank_id(self) == 1 ? ls_send(data, 1, LS_F32, 0, world) : 0;
}

// A bug that some schedules hide is found by trying, at the smallest seed, and replays with it.
Test(ranks, explore_finds_the_smallest_seed) {
    int arrivals[2] = {0, 0};
    ls_spmd_result *result = NULL;
    uint64_t seed = 99;
    const ls_spmd_options options = {.ranks = 3};
    int status = ls_spmd_explore(&result, &seed, race, arrivals, &options, 0, 64);
    cr_assert_eq(status, LS_ERR_FINDING);
    cr_assert_eq(ls_spmd_finding(result, 0)->id, LS_FINDING_P2P_COUNT_MISMATCH);
    for (uint64_t s = 0; s <= seed; s++) {
        ls_spmd_result *again = NULL;
        ls_spmd_options one = {.ranks = 3, .schedule = LS_SCHEDULE_RANDOM, .seed = s};
        arrivals[0] = arrivals[1] = 0;
        int got = ls_spmd_run(&again, race, arrivals, &one);
        cr_assert_eq(got, s == seed ? LS_ERR_FINDING : LS_OK);
        if (s == seed) {
            cr_assert_str_eq(ls_spmd_finding(again, 0)->text, ls_spmd_finding(result, 0)->text);
        }
        ls_spmd_result_free(again);
    }
    ls_spmd_result_free(result);
}

// ---- Worlds ----
static int nested(ls_rank *self, void *arg) {
    (void)arg;
    int rounds = 1;
    float data[2] = {1, 2};
    LS_TRY(ls_barrier(ls_rank_world(self)));
    if (ls_rank_id(self) == 0) {
        ls_spmd_result *inner = NULL;
        const ls_spmd_options options = {.ranks = 3};
        LS_TRY(ls_spmd_run(&inner, every_call, &rounds, &options));
        ls_spmd_result_free(inner);
    }
    return ls_all_reduce(data, data, 2, LS_F32, LS_SUM, ls_rank_world(self));
}

// Two independent runs in one process: one inside a rank of the other.
Test(ranks, runs_are_independent) {
    ls_spmd_result *result = NULL;
    cr_assert_eq(ls_spmd_run(&result, nested, NULL, &(ls_spmd_options){.ranks = 2}), LS_OK);
    ls_spmd_result_free(result);
}

static int all_reduces(ls_rank *self, void *arg) {
    const int *calls = arg;
    float data[256];
    for (int i = 0; i < *calls; i++) {
        for (int k = 0; k < 256; k++) {
            data[k] = (float)((ls_rank_id(self) + k) % 7);
        }
        LS_TRY(ls_all_reduce(data, data, 256, LS_F32, LS_SUM, ls_rank_world(self)));
    }
    return 0;
}

// A thousand ranks and four thousand run in one process.
Test(ranks, thousands_of_ranks, .timeout = 100) {
    const int counts[2] = {1024, 4096};
    for (int i = 0; i < 2; i++) {
        int calls = 2;
        ls_spmd_result *result = NULL;
        const ls_spmd_options options = {.ranks = counts[i]};
        cr_assert_eq(ls_spmd_run(&result, all_reduces, &calls, &options), LS_OK, "%s",
                     ls_error_last()->text);
        cr_assert_eq(ls_spmd_call_count(result), (uint64_t)(counts[i] * calls));
        ls_spmd_result_free(result);
    }
}

// Invalid options are refused before anything runs.
Test(ranks, bad_options_are_refused) {
    ls_spmd_result *result = NULL;
    int calls = 1;
    const ls_fault fault = {LS_FAULT_DIE, 9, 0, 0};
    const ls_spmd_options bad[] = {
        {.ranks = 0},
        {.ranks = LS_RANKS_MAX + 1},
        {.ranks = 2, .mesh = LS_MESH(3)},
        {.ranks = 2, .schedule = LS_SCHEDULE_DELAY, .delayed_rank = 2},
        {.ranks = 2, .faults = &fault, .fault_count = 1},
        {.ranks = 2, .history = -1},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        cr_assert_neq(ls_spmd_run(&result, all_reduces, &calls, &bad[i]), LS_OK, "option %zu", i);
        cr_assert_null(result);
    }
}

// Asynchronous and in place: the received data overlaps a block of the sent data, which is still
// sent; the other blocks must not change meanwhile.
static int scatters_in_place(ls_rank *self, void *arg) {
    const bool changes = *(const bool *)arg;
    float *data = ls_rank_alloc(self, 6 * sizeof *data);
    ls_request *request = NULL;
    for (int i = 0; i < 6; i++) {
        data[i] = (float)(10 * ls_rank_id(self) + i);
    }
    float *own = data + 2 * ls_rank_id(self);
    LS_TRY(ls_reduce_scatter_async(data, own, 2, LS_F32, LS_SUM, WORLD, &request));
    if (changes) {
        data[(2 * ls_rank_id(self) + 2) % 6] += 1;
    }
    LS_TRY(ls_wait(request));
    for (int i = 0; i < 6; i++) {  // the sum over 0, 10 and 20 in its own block
        bool summed = i / 2 == ls_rank_id(self);
        cr_expect(data[i] == (float)(summed ? 30 + 3 * i : 10 * ls_rank_id(self) + i) || changes);
    }
    ls_rank_free(self, data);
    return LS_OK;
}

Test(ranks, a_block_in_place_is_sent) {
    for (int changes = 0; changes < 2; changes++) {
        ls_spmd_result *result = NULL;
        bool arg = changes == 1;
        const ls_spmd_options options = {.ranks = 3, .checks = "all"};
        cr_assert_eq(ls_spmd_run(&result, scatters_in_place, &arg, &options),
                     changes ? LS_ERR_FINDING : LS_OK, "%d: %s", changes, ls_error_last()->text);
        cr_assert((ls_spmd_finding_count(result) > 0) == arg);
        cr_expect(!changes ||
                  ls_spmd_finding(result, 0)->id == LS_FINDING_BUFFER_MODIFIED_IN_FLIGHT);
        ls_spmd_result_free(result);
    }
}

// A bit flips in a rank's sent data: not in a barrier, not in an empty buffer, and not in received
// data. Data that is sent to others is flipped, inside of the buffer.
static int sends_little(ls_rank *self, void *arg) {
    float data[4] = {1, 2, 3, 4}, *got = (float *)arg + 4 * ls_rank_id(self);
    LS_TRY(ls_barrier(WORLD));
    LS_TRY(ls_all_reduce(data, got, 0, LS_F32, LS_SUM, WORLD));
    LS_TRY(ls_broadcast(data, got, 2, LS_F32, 0, WORLD));
    return ls_all_reduce(data, got, 2, LS_F32, LS_MAX, WORLD);
}

Test(ranks, bits_that_are_not_sent_do_not_flip) {
    static const char *const why[] = {
        "call 0 of rank 1, barrier, sends no data, so no bit can flip",
        "call 1 of rank 1, all_reduce, sends no data, so no bit can flip",
        "call 2 of rank 1, broadcast, sends no data, so no bit can flip", NULL};
    for (uint64_t call = 0; call < 4; call++) {
        float got[8] = {0};
        ls_spmd_result *result = NULL;
        const ls_fault fault = {LS_FAULT_BIT_FLIP, 1, call, 2 * 32 + 22};
        const ls_spmd_options options = {.ranks = 2, .faults = &fault, .fault_count = 1};
        cr_assert_eq(ls_spmd_run(&result, sends_little, got, &options), LS_OK);
        const char *told = ls_spmd_fault_missed(result, 0);
        cr_expect(why[call] == NULL ? told == NULL : told != NULL && strcmp(told, why[call]) == 0,
                  "call %d: %s", (int)call, told != NULL ? told : "injected");
        // The highest bit of the fraction adds half of 1; bit numbers wrap around the sent data.
        cr_expect(got[0] == (call < 3 ? 1.0F : 1.5F), "call %d: %g", (int)call, got[0]);
        cr_expect(got[1] == 2 && got[2] == 0, "call %d", (int)call);
        ls_spmd_result_free(result);
    }
}

// A fault at a call that its rank never makes is not injected, and the result says so.
Test(ranks, faults_that_are_not_reached_are_told) {
    ls_spmd_result *result = NULL;
    int calls = 2;
    const ls_fault faults[] = {{LS_FAULT_SLOW, 1, 1, 0}, {LS_FAULT_SLOW, 1, 2, 0}};
    const ls_spmd_options options = {.ranks = 2, .faults = faults, .fault_count = 2};
    cr_assert_eq(ls_spmd_run(&result, all_reduces, &calls, &options), LS_OK);
    cr_assert_null(ls_spmd_fault_missed(result, 0));
    cr_assert_str_eq(ls_spmd_fault_missed(result, 1), "rank 1 does not reach it");
    ls_spmd_result_free(result);
}

// The same for a wrong count that does not change the moved data.
static int without_a_count(ls_rank *self, void *arg) {
    const size_t counts[2] = {1, 1};
    float data[2] = {1, 2}, got[2] = {0};
    (void)arg;
    LS_TRY(ls_barrier(WORLD));
    LS_TRY(ls_all_to_all_v(data, got, counts, counts, LS_F32, WORLD));
    return ls_check_replica(data, 2, LS_F32, WORLD);
}

Test(ranks, faults_that_change_nothing_are_told) {
    ls_spmd_result *result = NULL;
    const ls_fault faults[] = {{LS_FAULT_WRONG_COUNT, 1, 0, 1},
                               {LS_FAULT_WRONG_SPLIT, 1, 0, 1},
                               {LS_FAULT_WRONG_COUNT, 1, 1, 1},
                               {LS_FAULT_BIT_FLIP, 1, 1, 0}};
    const ls_spmd_options options = {.ranks = 2, .faults = faults, .fault_count = 4};
    cr_assert_eq(ls_spmd_run(&result, without_a_count, NULL, &options), LS_ERR_FINDING);
    const char *barrier = ls_spmd_fault_missed(result, 0), *moves = ls_spmd_fault_missed(result, 2);
    cr_expect_str_eq(barrier, "call 0 of rank 1, barrier, has no count");
    cr_expect_str_eq(ls_spmd_fault_missed(result, 1), barrier);
    cr_expect_str_eq(moves, "call 1 of rank 1, all_to_all, has no single count; "
                            "wrong_split changes its counts");
    cr_expect_null(ls_spmd_fault_missed(result, 3));
    ls_spmd_result_free(result);
    const ls_fault others[] = {{LS_FAULT_WRONG_SPLIT, 1, 1, 1}, {LS_FAULT_WRONG_COUNT, 1, 2, 1}};
    for (int i = 0; i < 2; i++) {
        const ls_spmd_options each = {.ranks = 2, .faults = &others[i], .fault_count = 1};
        cr_assert_eq(ls_spmd_run(&result, without_a_count, NULL, &each), LS_ERR_FINDING, "%d", i);
        cr_expect_null(ls_spmd_fault_missed(result, 0));
        ls_spmd_result_free(result);
    }
}

// More ranks than the machine has threads for are refused at the start, with the limit.
Test(ranks, too_many_for_the_machine) {
    ls_spmd_result *result = NULL;
    const ls_spmd_options options = {.ranks = LS_RANKS_MAX};
    char most[32];
    if (ls_machine_threads() >= LS_RANKS_MAX) {
        cr_skip_test("this machine has a thread for every rank");
    }
    (void)snprintf(most, sizeof most, "at most %llu", (unsigned long long)ls_machine_threads());
    cr_assert_eq(ls_spmd_run(&result, without_a_count, NULL, &options), LS_ERR_RESOURCE);
    cr_assert_null(result);
    cr_expect_not_null(strstr(ls_error_last()->text, most), "%s", ls_error_last()->text);
}

// A failure of the program itself is distinguished from one that the checks stop.
static int returns_seven(ls_rank *self, void *arg) {
    (void)arg;
    return ls_rank_id(self) == 1 ? 7 : 0;
}

Test(ranks, exit_status_is_kept) {
    ls_spmd_result *result = NULL;
    cr_assert_eq(ls_spmd_run(&result, returns_seven, NULL, &(ls_spmd_options){.ranks = 3}),
                 LS_ERR_RANK_DIED);
    cr_assert_eq(ls_spmd_exit_status(result, 1), 7);
    cr_assert_eq(ls_spmd_exit_status(result, 2), 0);
    cr_assert_eq(ls_spmd_finding_count(result), 0);
    ls_spmd_result_free(result);
}
