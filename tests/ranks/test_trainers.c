// Training programs under many schedules: with each injected bug exactly its finding, at its ranks
// and its line; without one none, with all checks. LOCKSTEP_SEEDS sets the number of seeds.
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>

#include "trainers.h"

#define SEEDS 20

static int seeds(void) {
    const char *given = getenv("LOCKSTEP_SEEDS");
    return given != NULL ? (int)strtol(given, NULL, 10) : SEEDS;
}

// Seed -1: the default schedule.
static ls_spmd_options options_of(const trainer *t, int seed, const char *checks) {
    ls_spmd_options options = {.mesh = t->mesh, .checks = checks, .fixed = true};
    cr_assert_eq(ls_mesh_size(&options.ranks, &t->mesh), LS_OK);
    options.seed = seed < 0 ? 0 : (uint64_t)seed;
    options.schedule = seed < 0 ? LS_SCHEDULE_ROUND_ROBIN : LS_SCHEDULE_RANDOM;
    return options;
}

static void check_bug(const trainer *t, const injected_bug *bug, int seed) {
    const ls_spmd_options options = options_of(t, seed, NULL);
    trainer_run run = {.bug = bug->name};
    ls_spmd_result *result = NULL;
    cr_expect_neq(ls_spmd_run(&result, t->program, &run, &options), LS_OK);
    cr_assert_not_null(result);
    cr_expect_eq(ls_spmd_finding_count(result), 1, "%s, %s, seed %d: %d findings", t->name,
                 bug->name, seed, ls_spmd_finding_count(result));
    for (int i = 0; i < ls_spmd_finding_count(result); i++) {
        const ls_finding *finding = ls_spmd_finding(result, i);
        unsigned ranks = 0;
        for (int k = 0; k < finding->rank_count; k++) {
            ranks |= 1u << finding->ranks[k];
        }
        const char *colon = strrchr(finding->where, ':');
        long line = colon != NULL ? strtol(colon + 1, NULL, 10) : 0;
        cr_expect(finding->id == bug->finding && ranks == bug->ranks &&
                      line == run.lines[bug->site],
                  "%s, %s, seed %d: %s of ranks %x at %s, not %s of %x at line %d:\n%s", t->name,
                  bug->name, seed, ls_finding_name(finding->id), ranks, finding->where,
                  ls_finding_name(bug->finding), bug->ranks, run.lines[bug->site], finding->text);
    }
    ls_spmd_result_free(result);
}

static void check_bugs(const trainer *t) {
    cr_assert_geq(t->bug_count, 15);
    for (int i = 0; i < t->bug_count; i++) {
        for (int seed = -1; seed < seeds(); seed++) {
            check_bug(t, &t->bugs[i], seed);
        }
    }
}

static void check_correct(const trainer *t) {
    for (int seed = -1; seed < seeds(); seed++) {
        for (int all = 0; all < 2; all++) {
            const ls_spmd_options options = options_of(t, seed, all ? "all" : NULL);
            trainer_run run = {.bug = ""};
            ls_spmd_result *result = NULL;
            int status = ls_spmd_run(&result, t->program, &run, &options);
            cr_expect(status == LS_OK && ls_spmd_warning_count(result) == 0, "%s, seed %d: %s",
                      t->name, seed, ls_error_last()->text);
            ls_spmd_result_free(result);
        }
    }
}

// Tensor parallel with sequence parallel inside of data parallel: no axis has a majority, so other
// ranks must decide which one is wrong.
Test(trainers, sequence_parallel_bugs) {
    check_bugs(&sequence_parallel_trainer);
}

// Names do not show which communicators correspond: a user's axis may have the name of another
// one's axis, or of a part of it.
Test(trainers, bugs_under_names_that_mislead) {
    trainer misnamed = sequence_parallel_trainer;
    (void)snprintf(misnamed.mesh.name[0], sizeof misnamed.mesh.name[0], "t");
    (void)snprintf(misnamed.mesh.name[1], sizeof misnamed.mesh.name[1], "t/1");
    check_bugs(&misnamed);
}

// An embedding and experts: uneven counts, padded slots, subsets.
Test(trainers, expert_bugs) {
    check_bugs(&experts_trainer);
}

// Neither program without a bug has a finding or a warning, under any schedule and checks.
Test(trainers, correct_programs) {
    check_correct(&sequence_parallel_trainer);
    check_correct(&experts_trainer);
}
