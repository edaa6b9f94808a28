// `lockstep prove --rules`: the table of sharding rules, which Python makes and this reports.
#pragma once

#include <stdbool.h>

#include "cli/cli.h"

typedef struct cli_rules {
    const char *subject;   // "dtensor" or "torchrec"; NULL: no table is asked for
    const char *only;      // names and patterns of operators; NULL: all
    const char *results;   // the file of the table; NULL: it is not kept
    const char *against;   // an earlier such file; NULL: none
    const char *programs;  // a folder for a program of each defect; NULL: none
    const char *python;    // the interpreter; NULL: python3
    int sample;            // of the right results, how many run on gloo as well
    bool resume, quick;
} cli_rules;

#define CLI_RULES_OPTIONS(given)                                                                   \
    CLI_OPTION(                                                                                    \
        CLI_STRING, "rules", &(given).subject, "dtensor|torchrec",                                 \
        .help = "Compare each sharding rule of DTensor or TorchRec with the unsharded operation"), \
        CLI_OPTION(                                                                                \
            CLI_STRING, "only", &(given).only, "PATTERNS",                                         \
            .help =                                                                                \
                "With --rules: the operators or expressions with one of these names, separated "   \
                "by ';'"),                                                                         \
        CLI_OPTION(CLI_STRING, "results", &(given).results, "FILE",                                \
                   .help = "With --rules: keep the table, a line of JSON for each combination"),   \
        CLI_OPTION(CLI_SWITCH, "resume", &(given).resume,                                          \
                   .help = "With --rules: continue the table in the file of --results"),           \
        CLI_OPTION(CLI_STRING, "against", &(given).against, "FILE",                                \
                   .help = "With --rules: name what is new, mended or changed since this table"),  \
        CLI_OPTION(CLI_STRING, "programs", &(given).programs, "DIR", .output = CLI_OUTPUT_FOLDER,  \
                   .help = "With --rules: write a plain PyTorch program for each defect"),         \
        CLI_OPTION(                                                                                \
            CLI_INT, "sample", &(given).sample, "N", .int_min = 0, .int_max = 10000,               \
            .help =                                                                                \
                "With --rules: run N right results, drawn by the seed, on gloo too (default: 0)"), \
        CLI_OPTION(CLI_SWITCH, "quick", &(given).quick,                                            \
                   .help = "With --rules: on two ranks only"),                                     \
        CLI_OPTION(CLI_STRING, "python", &(given).python, "PROGRAM",                               \
                   .help = "With --rules: the interpreter that has torch (default: python3)")

// Whether an option other than --rules is given.
bool cli_rules_given(const cli_rules *given);
// Returns an exit code.
int cli_rules_run(const cli_rules *given);
