// Shared by the commands that run a user's program (spmd, mpi, exec): options of its run, and the
// report of what was found.
#pragma once

#include "cli/options.h"
#include "ranks/ranks.h"
#include "ranks/settings.h"
#include "runner/result.h"

// Each command takes those that it has a row for.
typedef struct cli_program_options {
    int ranks, schedule, delayed_rank, history, stack_kib;
    double deadline_seconds;
    const char *checks, *faults;
    bool schedule_given, delayed_given, deadline_given;
} cli_program_options;

#define CLI_RANKS_OPTION(program, most, help_)                                                     \
    CLI_OPTION(CLI_INT, "ranks", &(program).ranks, "N", .short_name = 'n', .int_min = 1,           \
               .int_max = (most), .help = help_)

#define CLI_SCHEDULE_OPTIONS(program)                                                              \
    CLI_OPTION(CLI_CHOICE, "schedule", &(program).schedule, "NAME",                                \
               .given = &(program).schedule_given, .choices = ls_spmd__schedules,                  \
               .help = "Schedule: round-robin (default), random (by --seed), delay or parallel"),  \
        CLI_OPTION(CLI_INT, "delayed-rank", &(program).delayed_rank, "R",                          \
                   .given = &(program).delayed_given, .int_min = 0, .int_max = 65535,              \
                   .help = "The rank that --schedule delay holds back (default: 0)")

#define CLI_CHECKS_OPTION(program)                                                                 \
    CLI_OPTION(CLI_STRING, "checks", &(program).checks, "GLOBS",                                   \
               .help = "Checks to enable: 'all', '-value.*', 'buffer.*,-handle.leak'")

#define CLI_FAULTS_OPTION(program)                                                                 \
    CLI_OPTION(CLI_STRING, "faults", &(program).faults, "LIST",                                    \
               .help =                                                                             \
                   "Faults to inject, as TYPE@RANK:CALL[:AMOUNT],... with types as in scenarios")

#define CLI_HISTORY_OPTION(program)                                                                \
    CLI_OPTION(CLI_INT, "history", &(program).history, "N", .int_min = 1, .int_max = 4096,         \
               .help = "Calls of each rank that a finding lists (default: 16)")

#define CLI_STACK_OPTION(program, least, help_)                                                    \
    CLI_OPTION(CLI_INT, "stack", &(program).stack_kib, "KIB", .int_min = (least),                  \
               .int_max = 1 << 20, .help = help_)

#define CLI_DEADLINE_OPTION(program, help_)                                                        \
    CLI_OPTION(CLI_DOUBLE, "deadline", &(program).deadline_seconds, "SECONDS",                     \
               .double_max = CLI_SECONDS_MAX, .given = &(program).deadline_given, .help = help_)
#define CLI_RANK_DEADLINE_HELP                                                                     \
    "End a rank that makes no call for this many seconds (default: 60; 0: never)"

// The library's options for such a run, with --seed; faults [LS_SPMD_FAULTS_MAX] holds those of
// --faults. An error is printed. Returns an exit code.
int cli_program_settings(ls_spmd_options *out, ls_fault *faults,
                         const cli_program_options *program);

// Notes what is no finding: warnings, and faults that were not injected. result may be NULL.
void cli_program_notes(const ls_spmd_result *result, int fault_count);

// The class of a run of which nothing is compared.
ls_class cli_program_class(bool pass, int findings);
// Adds a run that ended with `status` as a case; frees `reproduce`. The checks of a run without a
// finding.
const char *cli_program_checked(ls_arena *arena, uint64_t calls, int ranks);
int cli_program_add(ls_results *results, const char *name, const ls_spmd_result *result, int status,
                    ls_text *reproduce);
// Reports a run that ended with `status` as the one case of `command`; frees `reproduce`. Returns
// an exit code.
int cli_program_report(const char *command, const char *name, const ls_spmd_result *result,
                       int status, int fault_count, ls_text *reproduce);
