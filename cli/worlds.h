// A PyTorch program on several numbers of ranks, whose models are compared with those of the first.
#pragma once

#include "cli/cli.h"
#include "runner/result.h"

typedef struct cli_worlds {
    const char *command;  // "verify" or "prove", for the report
    const char *ranks;    // "1,4": the reference's first; NULL: 1 and 2
    const char *ignore;   // patterns of names that are not compared; NULL: none
    const char *keep;     // a new folder for the captures; NULL: they are removed
    const char *options;  // further ones of the command, as a reproduction needs them; may be ""
    uint64_t steps;       // how many steps of the optimizer are compared; 0: all
    bool steps_given;
    double deadline_seconds;
    bool deadline_given;
    bool all;            // continue after the first tensor that is wrong
    bool strict;         // notes of the runs fail
    bool floats, exact;  // which arithmetic; both: one after the other
} cli_worlds;

#define CLI_WORLDS_OPTIONS(given)                                                                  \
    CLI_OPTION(CLI_STRING, "ranks", &(given).ranks, "N,M...", .short_name = 'n',                   \
               .help = "Run the program on N ranks, the reference, then on M ranks and so on "     \
                       "(default: 1,2). "                                                          \
                       "One number: on 1 and on that many"),                                       \
        CLI_OPTION(CLI_U64, "steps", &(given).steps, "N", .given = &(given).steps_given,           \
                   .help =                                                                         \
                       "Compare the first N steps of the optimizer, and the weights at the end "   \
                       "(default: 4 for verify, all for prove)"),                                  \
        CLI_OPTION(CLI_SWITCH, "all", &(given).all,                                                \
                   .help = "Continue after the first tensor that is wrong"),                       \
        CLI_OPTION(                                                                                \
            CLI_STRING, "ignore", &(given).ignore, "PATTERNS",                                     \
            .help =                                                                                \
                "Do not compare tensors whose names match one of these patterns, separated by "    \
                "commas"),                                                                         \
        CLI_OPTION(CLI_STRING, "keep", &(given).keep, "DIR", .output = CLI_OUTPUT_FOLDER,          \
                   .help = "Keep the captures of the runs in a new folder, which diff reads"),     \
        CLI_OPTION(                                                                                \
            CLI_DOUBLE, "deadline", &(given).deadline_seconds, "SECONDS",                          \
            .double_max = CLI_SECONDS_MAX, .given = &(given).deadline_given,                       \
            .help =                                                                                \
                "End a run without progress for this many seconds, and explain it (default: 300 "  \
                "if ranks wait; 0: never)")

// Lets the models of the Python processes that are started from here on be kept in a new folder.
int cli_worlds_capture(const char *dir);

// Runs the program of the arguments and reports: the exit code.
int cli_worlds_run(const cli_worlds *given, const cli_args *args);
