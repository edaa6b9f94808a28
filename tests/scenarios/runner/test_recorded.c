// The scenario and the calls of a recording.
#include <criterion/criterion.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runner/compare/recorded.h"

#define SCENARIO(name, count)                                                                      \
    "lockstep: 1\nname: " name                                                                     \
    "\nmesh: {shape: [2]}\nprogram: {steps: [{all_reduce: {count: " count "}}]}\n"

// A recording of `ranks` ranks in a separate, otherwise empty folder.
static ls_recording *record(const char *name, int ranks, const char *scenario, char *folder) {
    ls_world *world = NULL;
    ls_recording_writer *writer = NULL;
    ls_recording *recording = NULL;
    const ls_world_options options = {.mesh = LS_MESH(ranks)};
    const ls_recording_info info = {
        .name = name, .scenario = scenario, .backend = "sim", .ranks = ranks, .versions = "none"};
    memcpy(folder, "/tmp/ls_recorded_XXXXXX", sizeof "/tmp/ls_recorded_XXXXXX");
    cr_assert(mkdtemp(folder) != NULL);
    cr_assert(ls_world_create(&world, &options) == LS_OK);
    cr_assert(ls_recording_writer_create(&writer, folder, world, &info) == LS_OK);
    cr_assert(ls_recording_writer_finish(writer) == LS_OK);
    ls_recording_writer_free(writer);
    ls_world_free(world);
    cr_assert(ls_recording_open(&recording, folder) == LS_OK, "%s", ls_error_last()->text);
    return recording;
}

static void drop(ls_recording *recording, const char *folder) {
    char line[128];
    ls_recording_free(recording);
    (void)snprintf(line, sizeof line, "rm -r '%s'", folder);
    cr_assert(system(line) == 0);
}

// A path that is too long is an error, not a missing scenario.
Test(recorded, paths_have_a_limit) {
    char folder[32], path[PATH_MAX + 1];
    ls_scenario *scenario = NULL;
    ls_recording *recording = record("sums", 2, SCENARIO("sums", "4"), folder);
    memset(path, 'x', PATH_MAX);
    path[PATH_MAX] = 0;
    cr_expect(ls_recorded_scenario(&scenario, recording, path, false) == LS_ERR_LIMIT);
    cr_expect(scenario == NULL && strstr(ls_error_last()->text, "is too long") != NULL);
    drop(recording, folder);
}

// A recording's scenario has its name and as many ranks, not more and not fewer.
Test(recorded, scenario_and_manifest_agree) {
    const struct {
        const char *name;
        int ranks;
        const char *why;
    } cases[] = {{"sums", 2, NULL},
                 {"sum", 2, "is called \"sum\", its scenario \"sums\""},
                 {"sums", 1, "has 1 ranks, its scenario 2"},
                 {"sums", 3, "has 3 ranks, its scenario 2"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char folder[32];
        ls_scenario *scenario = NULL;
        ls_recording *recording =
            record(cases[i].name, cases[i].ranks, SCENARIO("sums", "4"), folder);
        int status = ls_recorded_scenario(&scenario, recording, folder, false);
        if (cases[i].why == NULL) {
            cr_expect(status == LS_OK && scenario != NULL);
        } else {
            cr_expect(status == LS_ERR_FORMAT && scenario == NULL);
            cr_expect(strstr(ls_error_last()->text, cases[i].why) != NULL, "%s",
                      ls_error_last()->text);
        }
        ls_scenario_free(scenario);
        drop(recording, folder);
    }
}

// A recording matches a scenario with the same meaning, however it is written; for others the first
// difference is reported, also if the recording's text is a prefix.
Test(recorded, of_another_scenario) {
    static const char *const texts[] = {
        SCENARIO("sums", "4"),
        "# the same\nname: \"sums\"\nlockstep: 1\nmesh:\n  shape: [2]\n"
        "program: {steps: [{all_reduce: {count: 0x4}}]}\n",
        SCENARIO("sums", "5"), SCENARIO("sums", "44"), SCENARIO("mean", "4")};
    char folder[32];
    ls_recording *recording = record("sums", 2, texts[0], folder);
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        ls_diagnostics *diagnostics = NULL;
        ls_scenario *scenario = NULL;
        cr_assert(ls_diagnostics_create(&diagnostics, "t.yaml") == LS_OK);
        cr_assert(ls_scenario_parse(&scenario, diagnostics, "t.yaml", texts[i], strlen(texts[i]),
                                    NULL) == LS_OK,
                  "%zu", i);
        int status = ls_recorded_check(recording, folder, scenario, false);
        cr_expect(status == (i < 2 ? LS_OK : LS_ERR_FORMAT), "%zu: %d", i, status);
        cr_expect(i < 2 || strstr(ls_error_last()->text, "is of another scenario") != NULL);
        ls_scenario_free(scenario);
        ls_diagnostics_free(diagnostics);
    }
    drop(recording, folder);
}

// The calls of one rank that sums with `op`.
static ls_recording *calls_of(ls_op op) {
    ls_world *world = NULL;
    ls_backend *backend = NULL;
    ls_comm *comm = NULL;
    ls_recording_writer *writer = NULL;
    ls_recording *calls = NULL;
    const ls_world_options options = {.mesh = LS_MESH(1)};
    const ls_recording_info info = {.ranks = 1};
    cr_assert(ls_world_create(&world, &options) == LS_OK);
    cr_assert(ls_backend_sim_create(&backend, world) == LS_OK);
    cr_assert(ls_comm_create(&comm, backend, NULL, 0, "world") == LS_OK);
    cr_assert(ls_recording_writer_create(&writer, "", world, &info) == LS_OK);
    backend->observer = ls_recording_writer_observe;
    backend->observer_arg = writer;
    for (int i = 0; i < 2; i++) {
        float in = 1, out = 0;
        ls_call call = {.kind = LS_ALL_REDUCE,
                        .comm = comm,
                        .dtype = LS_F32,
                        .op = i == 0 ? LS_SUM : op,
                        .count = 1,
                        .send = &in,
                        .recv = &out};
        cr_assert(ls_backend_run(backend, &call, 1) == LS_OK, "%s", ls_error_last()->text);
    }
    cr_assert(ls_recording_writer_calls(&calls, writer) == LS_OK);
    ls_recording_writer_free(writer);
    ls_comm_free(comm);
    ls_backend_free(backend);
    ls_world_free(world);
    return calls;
}

// One differing call is wrong, beside a step that is called "calls"; without a difference there is
// no stage.
Test(recorded, calls_that_differ) {
    ls_recording *simulated = calls_of(LS_SUM), *same = calls_of(LS_SUM), *other = calls_of(LS_MAX);
    ls_comparison comparison = {.main = LS_JUDGE_REAL};
    cr_assert(ls_arena_create(&comparison.arena) == LS_OK);
    ls_stage_result *step = ls_comparison__stage(&comparison, LS_JUDGE_REAL, 0, "calls");
    step->class_ = LS_CLASS_BIT_EXACT;
    cr_assert(ls_recorded_compare_calls(&comparison, simulated, same) == LS_OK);
    cr_expect(comparison.stage_count == 1);
    cr_assert(ls_recorded_compare_calls(&comparison, simulated, other) == LS_OK);
    cr_assert(comparison.stage_count == 2);
    const ls_stage_result *stage = &comparison.stages[1];
    cr_expect(stage->class_ == LS_CLASS_WRONG && stage->elements == 2 && stage->differing == 1);
    cr_expect(stage->divergence != NULL && strstr(stage->divergence, "max") != NULL, "%s",
              stage->divergence);
    cr_expect(comparison.stages[0].class_ == LS_CLASS_BIT_EXACT);
    ls_arena_free(comparison.arena);
    ls_recording_free(simulated);
    ls_recording_free(same);
    ls_recording_free(other);
}
