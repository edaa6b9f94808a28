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
    {.type = CLI_STRING,                                                                           \
     .long_name = "rules",                                                                         \
     .value = &(given).subject,                                                                    \
     .value_name = "dtensor|torchrec",                                                             \
     .help = "Compare each sharding rule of DTensor or TorchRec with the unsharded operation"},    \
        {.type = CLI_STRING,                                                                       \
         .long_name = "only",                                                                      \
         .value = &(given).only,                                                                   \
         .value_name = "PATTERNS",                                                                 \
         .help = "With --rules: the operators or expressions with one of these names, separated "  \
                 "by ';'"},                                                                        \
        {.type = CLI_STRING,                                                                       \
         .long_name = "results",                                                                   \
         .value = &(given).results,                                                                \
         .value_name = "FILE",                                                                     \
         .help = "With --rules: keep the table, a line of JSON for each combination"},             \
        {.type = CLI_SWITCH,                                                                       \
         .long_name = "resume",                                                                    \
         .value = &(given).resume,                                                                 \
         .help = "With --rules: continue the table in the file of --results"},                     \
        {.type = CLI_STRING,                                                                       \
         .long_name = "against",                                                                   \
         .value = &(given).against,                                                                \
         .value_name = "FILE",                                                                     \
         .help = "With --rules: name what is new, mended or changed since this table"},            \
        {.type = CLI_STRING,                                                                       \
         .long_name = "programs",                                                                  \
         .value = &(given).programs,                                                               \
         .value_name = "DIR",                                                                      \
         .output = CLI_OUTPUT_FOLDER,                                                              \
         .help = "With --rules: write a plain PyTorch program for each defect"},                   \
        {.type = CLI_INT,                                                                          \
         .long_name = "sample",                                                                    \
         .value = &(given).sample,                                                                 \
         .value_name = "N",                                                                        \
         .help = "With --rules: run N right results, drawn by the seed, on gloo too (default: 0)", \
         .int_min = 0,                                                                             \
         .int_max = 10000},                                                                        \
        {.type = CLI_SWITCH,                                                                       \
         .long_name = "quick",                                                                     \
         .value = &(given).quick,                                                                  \
         .help = "With --rules: on two ranks only"},                                               \
    {                                                                                              \
        .type = CLI_STRING, .long_name = "python", .value = &(given).python,                       \
        .value_name = "PROGRAM",                                                                   \
        .help = "With --rules: the interpreter that has torch (default: python3)"                  \
    }

// Whether an option other than --rules is given.
bool cli_rules_given(const cli_rules *given);
// Returns an exit code.
int cli_rules_run(const cli_rules *given);
