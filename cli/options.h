// The option table. One table for each command has all facts about its options; parsing, --help,
// usage errors, the man page and the shell completion are generated from it.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/text.h"

typedef enum cli_type {
    CLI_SWITCH,  // bool: set to true
    CLI_STRING,  // const char *: borrowed from argv
    CLI_INT,     // int within [int_min, int_max], which begins at 0 or above
    CLI_U64,     // uint64_t, decimal or 0x...
    CLI_DOUBLE,  // double within [0, double_max]
    CLI_CHOICE,  // int: the index in `choices`
} cli_type;

// The kind of output that an option's value names.
typedef enum cli_output_kind {
    CLI_NO_OUTPUT,
    CLI_OUTPUT_FILE,    // "-": stdout
    CLI_OUTPUT_FOLDER,  // existing content stays
} cli_output_kind;

// A table of options ends with a row whose long_name is NULL. A row begins with the type, the name,
// where the value goes and the value's name; it names its other members.
typedef struct cli_option {
    cli_type type;
    const char *long_name;       // without the dashes
    void *value;                 // where the value goes; its type follows from `type`
    const char *value_name;      // "FILE"; NULL for a switch
    const char *help;            // one sentence without a full stop
    char short_name;             // 0: none
    const char *const *choices;  // CLI_CHOICE: NULL-terminated
    cli_output_kind output;      // CLI_STRING: cli_outputs_check() checks it
    bool *given;                 // set when the option was given; may be NULL
    int int_min, int_max;        // CLI_INT: the range
    double double_max;           // CLI_DOUBLE: the largest
    // CLI_INT: the value may be left out, and stays as it is; a word that begins with a digit is
    // one.
    bool optional;
} cli_option;

// A row within another macro.
#define CLI_OPTION(...)                                                                            \
    { __VA_ARGS__ }

#define CLI_SECONDS_MAX 1e9  // of options that say for how long: 31 years

// Which of the common options a command takes. --help, --quiet and --color: all of them.
#define CLI_COMMON_REPORTS     1u   // --json, --junit, --report
#define CLI_COMMON_TRACE       4u   // --trace
#define CLI_COMMON_SEED        8u   // --seed
#define CLI_COMMON_SEED_UNUSED 16u  // --seed of a command that draws nothing

typedef enum cli_color { CLI_COLOR_AUTO, CLI_COLOR_ALWAYS, CLI_COLOR_NEVER } cli_color;

// The common options, as given.
typedef struct cli_common {
    const char *json;    // --json F: NULL, a path or "-"
    const char *junit;   // --junit F
    const char *report;  // --report F.html
    const char *trace;   // --trace F.json
    uint64_t seed;       // --seed N
    bool seed_given;     //
    bool quiet;          // --quiet: only findings and errors
    int color;           // a cli_color
    bool help;           // --help
} cli_common;

extern cli_common cli_options_common;

// The command line without its options. argv[0] is the first argument, not the command's name.
typedef struct cli_args {
    int count;
    const char **values;
    int before_dashes;  // how many of them came before "--"; -1: there was none
} cli_args;

typedef struct cli_command {
    const char *name;
    const char *arguments;  // how usage shows them: "FILE..."; "" for none
    int arguments_min;
    int arguments_max;                 // -1: any number
    int output_argument;               // the number of that which is written; 0: all are inputs
    const char *summary;               // one line, for the list of commands
    const char *details;               // a paragraph or more for --help and the man page
    const char *example;               // one command line
    unsigned common;                   // CLI_COMMON_ bits
    const cli_option *options;         // the command's own; NULL: none
    bool passes_options;               // an unknown option is an argument: another program's
    int (*run)(const cli_args *args);  // an exit code
} cli_command;

// Parses argv[0..argc) (after the command's name) into the tables' values and *args, whose array is
// `storage` [argc]. A usage error is reported on stderr and returns LS_ERR_INVALID.
int cli_options_parse(cli_args *args, const char **storage, const cli_command *command, int argc,
                      char **argv);

// A whole number at the beginning of a text, decimal or 0x..., without a sign or a space, and what
// follows it; false: there is none, or it is above 2^64 - 1.
bool cli_read_number(uint64_t *out, const char **end, const char *text);

// Calls visit for each option that the command takes: its own first, then the common ones.
void cli_options_each(const cli_command *command,
                      void (*visit)(void *arg, const cli_option *option), void *arg);

// What --help prints.
void cli_help_command(ls_text *out, const cli_command *command);
void cli_help_program(ls_text *out, const cli_command *const *commands);
// lockstep(1), and lockstep-COMMAND(1), in man's own language.
void cli_help_man(ls_text *out, const cli_command *const *commands);
void cli_help_man_command(ls_text *out, const cli_command *command);
// A completion script for "bash", "zsh" or "fish"; LS_ERR_NOT_FOUND for another shell.
int cli_completion(ls_text *out, const cli_command *const *commands, const char *shell);
