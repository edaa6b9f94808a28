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
    {                                                                                              \
        .type = CLI_INT, .short_name = 'n', .long_name = "ranks", .value = &(program).ranks,       \
        .value_name = "N", .help = help_, .int_min = 1, .int_max = (most)                          \
    }

#define CLI_SCHEDULE_OPTIONS(program)                                                              \
    {.type = CLI_CHOICE,                                                                           \
     .long_name = "schedule",                                                                      \
     .value = &(program).schedule,                                                                 \
     .given = &(program).schedule_given,                                                           \
     .value_name = "NAME",                                                                         \
     .choices = ls_spmd__schedules,                                                                \
     .help = "Schedule: round-robin (default), random (by --seed), delay or parallel"},            \
    {                                                                                              \
        .type = CLI_INT, .long_name = "delayed-rank", .value = &(program).delayed_rank,            \
        .given = &(program).delayed_given, .value_name = "R",                                      \
        .help = "The rank that --schedule delay holds back (default: 0)", .int_min = 0,            \
        .int_max = 65535                                                                           \
    }

#define CLI_CHECKS_OPTION(program)                                                                 \
    {                                                                                              \
        .type = CLI_STRING, .long_name = "checks", .value = &(program).checks,                     \
        .value_name = "GLOBS",                                                                     \
        .help = "Checks to enable: 'all', '-value.*', 'buffer.*,-handle.leak'"                     \
    }

#define CLI_FAULTS_OPTION(program)                                                                 \
    {                                                                                              \
        .type = CLI_STRING, .long_name = "faults", .value = &(program).faults,                     \
        .value_name = "LIST",                                                                      \
        .help = "Faults to inject, as TYPE@RANK:CALL[:AMOUNT],... with types as in scenarios"      \
    }

#define CLI_HISTORY_OPTION(program)                                                                \
    {                                                                                              \
        .type = CLI_INT, .long_name = "history", .value = &(program).history, .value_name = "N",   \
        .help = "Calls of each rank that a finding lists (default: 16)", .int_min = 1,             \
        .int_max = 4096                                                                            \
    }

#define CLI_STACK_OPTION(program, least, help_)                                                    \
    {                                                                                              \
        .type = CLI_INT, .long_name = "stack", .value = &(program).stack_kib, .value_name = "KIB", \
        .help = help_, .int_min = (least), .int_max = 1 << 20                                      \
    }

#define CLI_DEADLINE_OPTION(program, help_)                                                        \
    {                                                                                              \
        .type = CLI_DOUBLE, .long_name = "deadline", .value = &(program).deadline_seconds,         \
        .double_max = CLI_SECONDS_MAX, .given = &(program).deadline_given,                         \
        .value_name = "SECONDS", .help = help_                                                     \
    }
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
