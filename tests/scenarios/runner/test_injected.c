// When a real run's finding equals the simulation's.
#include <criterion/criterion.h>

#include "runner/launch/injected.h"

static bool agrees(ls_finding_id simulated, int first, int count, ls_finding_id real, int rank) {
    int ranks[] = {0, 1, 2, 3};
    const ls_finding found = {.id = simulated, .ranks = &ranks[first], .rank_count = count};
    const ls_finding seen = {.id = real, .ranks = &ranks[rank], .rank_count = 1};
    return ls_injected_agrees(&found, 1, &seen);
}

// The same finding at the same rank, or the first mismatched call of one that the simulation finds
// by looking ahead; never another rank's, and never another disagreement.
Test(injected, the_same_rank) {
    cr_assert(agrees(LS_FINDING_OP_MISMATCH, 2, 1, LS_FINDING_OP_MISMATCH, 2));
    cr_assert_not(agrees(LS_FINDING_OP_MISMATCH, 2, 1, LS_FINDING_OP_MISMATCH, 1));
    cr_assert_not(agrees(LS_FINDING_OP_MISMATCH, 2, 1, LS_FINDING_COUNT_MISMATCH, 2));
    cr_assert(agrees(LS_FINDING_MISSING_RANK, 2, 1, LS_FINDING_COUNT_MISMATCH, 2));
    cr_assert_not(agrees(LS_FINDING_MISSING_RANK, 2, 1, LS_FINDING_COUNT_MISMATCH, 3));
    cr_assert_not(agrees(LS_FINDING_OP_MISMATCH, 1, 2, LS_FINDING_OP_MISMATCH, 1));
}

// If ranks elsewhere decided which of two members is at fault, the real run may name the other one:
// no third, and for no other finding.
Test(injected, the_other_of_two) {
    static const int ranks[] = {2}, others[] = {3}, nobody[] = {0};
    const ls_finding found = {.id = LS_FINDING_DTYPE_MISMATCH,
                              .ranks = ranks,
                              .rank_count = 1,
                              .others = others,
                              .other_count = 1};
    ls_finding seen = {.id = LS_FINDING_DTYPE_MISMATCH, .ranks = others, .rank_count = 1};
    cr_assert(ls_injected_agrees(&found, 1, &seen));
    seen.ranks = ranks;
    cr_assert(ls_injected_agrees(&found, 1, &seen));
    seen.ranks = nobody;
    cr_assert_not(ls_injected_agrees(&found, 1, &seen));
    seen.ranks = others;
    seen.id = LS_FINDING_COUNT_MISMATCH;
    cr_assert_not(ls_injected_agrees(&found, 1, &seen));
}

// A process that ends early reports only itself.
Test(injected, a_rank_that_ends_by_itself) {
    cr_assert(agrees(LS_FINDING_RANK_EXITED_EARLY, 1, 3, LS_FINDING_RANK_EXITED_EARLY, 2));
    cr_assert_not(agrees(LS_FINDING_RANK_EXITED_EARLY, 1, 2, LS_FINDING_RANK_EXITED_EARLY, 3));
    cr_assert_not(agrees(LS_FINDING_OP_MISMATCH, 1, 3, LS_FINDING_RANK_EXITED_EARLY, 2));
}

// A rank that waited until its deadline names one rank of a cycle, the one that returned, or one
// that does not make the others' extra call.
Test(injected, the_deadline) {
    cr_assert(agrees(LS_FINDING_DEADLOCK_CYCLE, 0, 2, LS_FINDING_P2P_UNMATCHED_SEND, 1));
    cr_assert_not(agrees(LS_FINDING_DEADLOCK_CYCLE, 0, 2, LS_FINDING_P2P_UNMATCHED_SEND, 2));
    cr_assert(agrees(LS_FINDING_DEADLOCK_CROSS_COMMUNICATOR, 0, 2, LS_FINDING_MISSING_RANK, 0));
    cr_assert(agrees(LS_FINDING_RANK_EXITED_EARLY, 2, 1, LS_FINDING_MISSING_RANK, 2));
    cr_assert_not(agrees(LS_FINDING_RANK_EXITED_EARLY, 2, 1, LS_FINDING_MISSING_RANK, 1));
    cr_assert(agrees(LS_FINDING_EXTRA_CALL, 0, 1, LS_FINDING_MISSING_RANK, 1));
    cr_assert_not(agrees(LS_FINDING_EXTRA_CALL, 0, 1, LS_FINDING_MISSING_RANK, 0));
    // Without a hang in the simulation a deadline proves nothing.
    cr_assert_not(agrees(LS_FINDING_OP_MISMATCH, 2, 1, LS_FINDING_MISSING_RANK, 2));
    cr_assert_not(agrees(LS_FINDING_VALUE_NAN_FIRST, 2, 1, LS_FINDING_MISSING_RANK, 2));
    const ls_finding nobody = {.id = LS_FINDING_MISSING_RANK};
    cr_assert_not(ls_injected_agrees(NULL, 0, &nobody));
}
