// Which calls match, and the report of those that do not.
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "backends/match.h"
#include "collectives/check.h"
#include "tests/collectives/world.h"

// The report lists ranks that made no such call: eight of them, and that there are more. The
// minority is at fault, and of two halves the one without a call.
Test(match, missing_ranks_are_listed) {
    fixture f = open_world(11);
    ls_call calls[10];
    for (int i = 0; i < 10; i++) {
        calls[i] = (ls_call){.kind = LS_BARRIER, .comm = f.comm, .rank = i};
    }
    static const struct {
        int from, callers, at_fault;
        const char *text;
    } cases[] = {{0, 10, 10, "1 of 11 ranks made no such call: 10"},
                 {0, 8, 8, "3 of 11 ranks made no such call: 8, 9, 10"},
                 {2, 8, 0, "3 of 11 ranks made no such call: 0, 1, 10"},
                 {0, 2, 0, "9 of 11 ranks made no such call: 2, 3, 4, 5, 6, 7, 8, 9, ..."}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        cr_expect_eq(ls_backend_run(f.backend, calls + cases[i].from, cases[i].callers),
                     LS_ERR_MISMATCH);
        cr_expect_not_null(strstr(ls_error_last()->text, cases[i].text), "%s",
                           ls_error_last()->text);
        cr_expect_eq(ls_error_last()->rank, cases[i].at_fault);
    }
    close_world(&f);
    f = open_world(2);
    calls[0].comm = f.comm;
    cr_expect_eq(ls_backend_run(f.backend, calls, 1), LS_ERR_MISMATCH);
    cr_expect_eq(ls_error_last()->rank, 1);
    close_world(&f);
}

// Before it matches or gets a number, a call is checked: it is by a member, on an open communicator
// of its backend.
Test(match, calls_that_are_none_are_refused) {
    fixture f = open_world(3), other = open_world(2);
    ls_comm *two = NULL;
    cr_assert_eq(ls_comm_create(&two, f.backend, (int[]){0, 1}, 2, "two"), LS_OK);
    static const char *const texts[] = {"belongs to another backend", "belongs to another backend",
                                        "was closed", "is not a member of the communicator"};
    for (int i = 0; i < 4; i++) {
        ls_call calls[2] = {{.kind = LS_BARRIER, .comm = two, .rank = 0},
                            {.kind = LS_BARRIER, .comm = two, .rank = 1}};
        calls[1].comm = i == 0 ? NULL : i == 1 ? other.comm : two;
        calls[1].rank = i == 3 ? 2 : 1;
        two->closed = i == 2;
        cr_expect_eq(ls_backend_run(f.backend, calls, 2), LS_ERR_INVALID, "%d", i);
        cr_expect_not_null(strstr(ls_error_last()->text, texts[i]), "%s", ls_error_last()->text);
        two->closed = false;
    }
    ls_call good[2] = {{.kind = LS_BARRIER, .comm = two, .rank = 0},
                       {.kind = LS_BARRIER, .comm = two, .rank = 1}};
    cr_expect_eq(ls_backend_run(f.backend, good, 2), LS_OK, "%s", ls_error_last()->text);
    cr_expect(good[0].seq == 0 && good[1].seq == 0);
    ls_comm_free(two);
    close_world(&other);
    close_world(&f);
}

// Calls of a recording, without buffers, match by kind only: different kinds do not, except a send
// and its receive.
Test(match, recorded_kinds_that_differ) {
    fixture f = open_world(2);
    ls_call calls[2];
    for (int i = 0; i < 2; i++) {
        calls[i] = (ls_call){.kind = LS_ALL_REDUCE, .comm = f.comm, .rank = i};
    }
    ls_match match = {0};
    cr_expect_eq(ls_match__kinds(&match, calls, 2), LS_OK, "%s", ls_error_last()->text);
    cr_expect_eq(match.event_count, 1);
    ls_match__free(&match);
    ls_call message[2] = {{.kind = LS_SEND, .comm = f.comm, .rank = 0, .root = 1},
                          {.kind = LS_RECV, .comm = f.comm, .rank = 1, .root = 0}};
    cr_expect_eq(ls_match__kinds(&match, message, 2), LS_OK, "%s", ls_error_last()->text);
    cr_expect_eq(match.event_count, 1);
    ls_match__free(&match);
    calls[1].kind = LS_BROADCAST;
    match = (ls_match){0};
    cr_expect_eq(ls_match__kinds(&match, calls, 2), LS_ERR_MISMATCH);
    cr_expect_not_null(
        strstr(ls_error_last()->text, "rank 1 makes broadcast where rank 0 makes all_reduce"), "%s",
        ls_error_last()->text);
    ls_match__free(&match);
    close_world(&f);
}

// Empty buffers overlap nothing. After a call whose count exceeds its buffers, the other calls are
// still checked.
Test(match, overlaps) {
    fixture f = open_world(2);
    float in[2] = {1, 2}, out[4] = {0};
    ls_call calls[2];
    for (int i = 0; i < 2; i++) {
        calls[i] = (ls_call){.kind = LS_BROADCAST,
                             .comm = f.comm,
                             .rank = i,
                             .dtype = LS_F32,
                             .count = 0,
                             .send = in,
                             .recv = out};
    }
    ls_call both[4] = {calls[0], calls[1], calls[0], calls[1]};
    both[0].count = both[1].count = 2;
    both[1].recv = out + 2;
    both[2].recv = both[3].recv = out + 1;  // inside of the first one's output
    cr_expect_eq(ls_backend_run(f.backend, both, 4), LS_OK, "%s", ls_error_last()->text);
    cr_expect(out[1] == 2 && out[3] == 2);
    both[2].count = both[3].count = 1;
    both[0].overstated = true;
    cr_expect_eq(ls_backend_run(f.backend, both, 4), LS_ERR_INVALID);
    cr_expect_not_null(strstr(ls_error_last()->text, "one writes memory"), "%s",
                       ls_error_last()->text);
    close_world(&f);
}

// Equal calls with different purposes: of the calls with a purpose, those without the majority's
// are at fault, and the first of them is named. A call without a purpose agrees with all.
Test(collectives, purposes_are_compared) {
    static const struct {
        const char *purposes[5];
        int wrong, wrongs;  // -1: none
    } cases[] = {
        {{"ids", "ids", "ids", "ids", "ids"}, -1, 0},
        {{NULL, "ids", NULL, "", "ids"}, -1, 0},
        {{"ids", "ids", "lengths", "ids", "ids"}, 2, 1},
        {{"lengths", "ids", "ids", NULL, NULL}, 0, 1},
        {{"a", "b", "c", "c", NULL}, 0, 2},
        {{"a", "b", NULL, NULL, NULL}, 1, 1},
        {{NULL, "a", "b", "b", "a"}, 2, 2},
    };
    fixture f = open_world(5);
    for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
        ls_call calls[5];
        const ls_call *pointers[5];
        char copies[5][8];  // equal purposes may be different pointers
        for (int i = 0; i < 5; i++) {
            const char *purpose = cases[k].purposes[i];
            (void)snprintf(copies[i], sizeof copies[i], "%s", purpose != NULL ? purpose : "");
            calls[i] = (ls_call){.kind = LS_ALL_REDUCE,
                                 .comm = f.comm,
                                 .rank = i,
                                 .purpose = purpose != NULL ? copies[i] : NULL,
                                 .file = "train.py",
                                 .line = 10 + i};
            pointers[i] = &calls[i];
        }
        ls_check_clear();
        int status = ls_check__purposes(pointers, 5);
        const ls_check_failure *failure = ls_check_last();
        bool found = cases[k].wrong >= 0;
        cr_expect(status == (found ? LS_ERR_MISMATCH : LS_OK) && failure->found == found, "%zu", k);
        cr_expect(!found || (failure->id == LS_FINDING_PURPOSE_MISMATCH &&
                             failure->ranks[0] == cases[k].wrong &&
                             failure->rank_count == cases[k].wrongs &&
                             failure->line == 10 + cases[k].wrong),
                  "%zu", k);
    }
    close_world(&f);
}
