// Two recordings of `lockstep exec`, compared with each other.
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runner/replay/exec_runs.h"

typedef struct given {
    const char *first, *second;  // calls
    const char *finding;         // its name; NULL: none
    const char *told;            // in its text, or in the uncompared part; NULL: anything
    uint64_t compared;
    bool wrong;
} given;

static void write_list(const char *dir, const char *calls) {
    char path[64];
    (void)mkdir(dir, 0700);
    (void)snprintf(path, sizeof path, "%s/exec.json", dir);
    FILE *file = fopen(path, "w");
    cr_assert(file != NULL);
    (void)fprintf(file, "{\"made_by\": \"lockstep exec\", \"calls\": [%s]}", calls);
    cr_assert(fclose(file) == 0);
}

static void try_one(const given *try) {
    char dir[] = "/tmp/lockstep_runs_XXXXXX", first[64], second[64], command[64];
    cr_assert(mkdtemp(dir) != NULL);
    (void)snprintf(first, sizeof first, "%s/a", dir);
    (void)snprintf(second, sizeof second, "%s/b", dir);
    write_list(first, try->first);
    write_list(second, try->second);
    ls_results *results = NULL;
    ls_text summary = {0};
    uint64_t compared = 0;
    const ls_exec_runs runs = {.first = first,
                               .second = second,
                               .real = "gloo",
                               .name = "both",
                               .file = "train.py",
                               .reproduce = "again"};
    cr_assert(ls_results_create(&results, "exec") == LS_OK);
    cr_assert(ls_exec_runs_compare(results, &summary, &compared, &runs) == LS_OK, "%s",
              ls_error_last()->text);
    cr_assert(results->case_count == 1);
    const ls_case_result *row = &results->cases[0];
    const char *text = row->finding_count > 0 ? row->findings[0].text : ls_text_string(&summary);
    cr_expect(row->finding_count == (try->finding != NULL ? 1 : 0), "%s", text);
    cr_expect(row->pass == (try->finding == NULL && !try->wrong), "%s", text);
    cr_expect((row->class_ == LS_CLASS_WRONG) == try->wrong);
    cr_expect(row->skipped == (row->pass && try->compared == 0));
    cr_expect(compared == try->compared, "%d of %s", (int)compared, try->second);
    if (try->finding != NULL && row->finding_count > 0) {
        cr_expect(strcmp(ls_finding_name(row->findings[0].id), try->finding) == 0, "%s", text);
    }
    cr_expect(try->told == NULL || strstr(text, try->told) != NULL, "%s", text);
    ls_text_free(&summary);
    ls_results_free(results);
    (void)snprintf(command, sizeof command, "rm -r %s", dir);
    cr_assert(system(command) == 0);
}

#define MEMBER(number, line, data)                                                                 \
    "{\"number\": " number ", \"where\": \"train.py:" line "\"" data "}"
#define SIDES(sent, received) ", \"sent\": \"" sent "\", \"received\": \"" received "\""
#define CALL(what, comm, ranks, members)                                                           \
    "{\"call\": " what ", \"communicator\": \"" comm "\", \"ranks\": [" ranks                      \
    "], \"members\": [" members "]}"
#define SUM(type, count)                                                                           \
    "\"all_reduce\", \"op\": \"sum\", \"root\": 0, \"dtype\": \"" type "\", \"count\": " count
#define ONE_SUM(type, count, sent)                                                                 \
    CALL(SUM(type, count), "world", "0", MEMBER("0", "3", SIDES(sent, "b")))
#define CAST(root)         "\"broadcast\", \"root\": " root ", \"dtype\": \"f32\", \"count\": 4"
#define TWO(first, second) MEMBER("0", "5", first) "," MEMBER("0", "6", second)
#define SENT                                                                                       \
    "{\"call\": \"send\", \"root\": 1, \"dtype\": \"f32\", \"count\": 2, \"communicator\": "       \
    "\"world\", \"ranks\": [0, 1], \"members\": ["
#define MESSAGE(number, any, data, got)                                                            \
    SENT "{\"number\": " number ", \"sent\": \"" data "\"},{\"number\": " number any               \
         ", \"received\": \"" got "\"}]}"

// Every rank's calls on each communicator, in their order.
Test(exec_runs, finds_the_first_call_that_differs) {
    const char *calls = "runs.calls_differ";
    const given tries[] = {
        {ONE_SUM("f32", "4", "a"), ONE_SUM("f32", "4", "a"), NULL, NULL, 1, false},
        {ONE_SUM("f32", "4", "a"), ONE_SUM("f32", "5", "a"), calls,
         "of 5 f32 on world at train.py:3", 0, false},
        {ONE_SUM("f32", "4", "a"), ONE_SUM("f16", "4", "a"), calls, "of 4 f16", 0, false},
        {ONE_SUM("f32", "4", "a"), "", calls, "on gloo: no such call", 0, false},
        {"", ONE_SUM("f32", "4", "a"), calls, "the first run: no such call", 0, false},
        {CALL(CAST("0"), "world", "0, 1", TWO("", "")),
         CALL(CAST("1"), "world", "0, 1", TWO("", "")), calls, "root 1 on world at train.py:5", 0,
         false},
        {CALL(CAST("0"), "world", "0, 1", TWO("", "")),
         CALL(CAST("0"), "pair", "0, 1", TWO("", "")), calls, "on pair", 0, false},
        // The same in another order of completion.
        {ONE_SUM("f32", "4", "a") "," CALL(SUM("f32", "9"), "world", "0", MEMBER("1", "4", "")),
         CALL(SUM("f32", "9"), "world", "0", MEMBER("1", "4", "")) "," ONE_SUM("f32", "4", "a"),
         NULL, NULL, 1, false},
        {ONE_SUM("f32", "4", "a") "," CALL(SUM("f32", "9"), "world", "0", MEMBER("1", "4", "")),
         CALL(SUM("f32", "9"), "world", "0", MEMBER("0", "4", "")) "," CALL(
             SUM("f32", "4"), "world", "0", MEMBER("1", "3", SIDES("a", "b"))),
         calls, "its call 0", 0, false},
    };
    for (size_t i = 0; i < sizeof tries / sizeof *tries; i++) {
        try_one(&tries[i]);
    }
}

// Two communicators in turn: ordered only if the first thread makes both calls.
Test(exec_runs, orders_the_calls_of_the_first_thread) {
#define ON(comm, number, main) CALL(SUM("f32", "4"), comm, "0", MEMBER(number, "3", main))
#define MAIN                   ", \"main\": true"
    const given tries[] = {
        {ON("a", "0", MAIN) "," ON("b", "1", MAIN), ON("a", "1", MAIN) "," ON("b", "0", MAIN),
         "runs.calls_differ", "sum of 4 f32 on b", 0, false},
        {ON("a", "0", "") "," ON("b", "1", MAIN), ON("a", "1", "") "," ON("b", "0", MAIN), NULL,
         NULL, 0, false},
    };
    for (size_t i = 0; i < sizeof tries / sizeof *tries; i++) {
        try_one(&tries[i]);
    }
}

// Sent data is compared until a rank has received other data; and moved data.
Test(exec_runs, finds_the_first_input_that_differs) {
    const char *inputs = "runs.inputs_differ";
#define THEN(sent) "," CALL(SUM("f32", "9"), "world", "0", MEMBER("1", "4", SIDES(sent, "d")))
    const given tries[] = {
        {ONE_SUM("f32", "4", "a"), ONE_SUM("f32", "4", "c"), inputs, "its call 0, although", 0,
         false},
        {ONE_SUM("f32", "4", "a") THEN("a"), ONE_SUM("f32", "4", "a") THEN("c"), inputs,
         "its call 1, although", 1, false},
        {ONE_SUM("f32", "4", "a") THEN("a"),
         CALL(SUM("f32", "4"), "world", "0", MEMBER("0", "3", SIDES("a", "z"))) THEN("c"), NULL,
         "the data sent in 1 calls", 1, false},
        {MESSAGE("0", "", "a", "a"), MESSAGE("0", "", "a", "a"), NULL, NULL, 2, false},
        {MESSAGE("0", "", "a", "a"), MESSAGE("0", "", "a", "b"), NULL, NULL, 2, true},
        {MESSAGE("0", "", "a", "a"), MESSAGE("0", "", "b", "b"), inputs,
         "message from rank 0 to rank 1 of 2 f32", 1, false},
        {MESSAGE("0", ", \"any\": true", "a", "a"), MESSAGE("0", ", \"any\": true", "a", "b"), NULL,
         "1 receives from any rank", 1, false},
    };
    for (size_t i = 0; i < sizeof tries / sizeof *tries; i++) {
        try_one(&tries[i]);
    }
}
