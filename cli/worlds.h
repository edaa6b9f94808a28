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
    {.type = CLI_STRING,                                                                           \
     .short_name = 'n',                                                                            \
     .long_name = "ranks",                                                                         \
     .value = &(given).ranks,                                                                      \
     .value_name = "N,M...",                                                                       \
     .help =                                                                                       \
         "Run the program on N ranks, the reference, then on M ranks and so on (default: 1,2). "   \
         "One number: on 1 and on that many"},                                                     \
        {.type = CLI_U64,                                                                          \
         .long_name = "steps",                                                                     \
         .value = &(given).steps,                                                                  \
         .given = &(given).steps_given,                                                            \
         .value_name = "N",                                                                        \
         .help = "Compare the first N steps of the optimizer, and the weights at the end "         \
                 "(default: 4 for verify, all for prove)"},                                        \
        {.type = CLI_SWITCH,                                                                       \
         .long_name = "all",                                                                       \
         .value = &(given).all,                                                                    \
         .help = "Continue after the first tensor that is wrong"},                                 \
        {.type = CLI_STRING,                                                                       \
         .long_name = "ignore",                                                                    \
         .value = &(given).ignore,                                                                 \
         .value_name = "PATTERNS",                                                                 \
         .help = "Do not compare tensors whose names match one of these patterns, separated by "   \
                 "commas"},                                                                        \
        {.type = CLI_STRING,                                                                       \
         .long_name = "keep",                                                                      \
         .value = &(given).keep,                                                                   \
         .output = CLI_OUTPUT_FOLDER,                                                              \
         .value_name = "DIR",                                                                      \
         .help = "Keep the captures of the runs in a new folder, which diff reads"},               \
    {                                                                                              \
        .type = CLI_DOUBLE, .long_name = "deadline", .double_max = CLI_SECONDS_MAX,                \
        .value = &(given).deadline_seconds, .given = &(given).deadline_given,                      \
        .value_name = "SECONDS",                                                                   \
        .help = "End a run without progress for this many seconds, and explain it (default: 300 "  \
                "if ranks wait; 0: never)"                                                         \
    }

// Lets the models of the Python processes that are started from here on be kept in a new folder.
int cli_worlds_capture(const char *dir);

// Runs the program of the arguments and reports: the exit code.
int cli_worlds_run(const cli_worlds *given, const cli_args *args);
