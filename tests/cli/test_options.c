// Tests of the option table: accepted and refused command lines.
#include <criterion/criterion.h>
#include <criterion/redirect.h>
#include <string.h>

#include "cli/cli.h"

static bool flag;
static const char *text;
static int number;
static uint64_t big;
static double real;
static int choice;
static bool choice_given;
static int copies;
static bool copies_given;

static const char *const backends[] = {"sim", "mpi", "nccl", NULL};
static const cli_option options[] = {
    {.type = CLI_SWITCH, .short_name = 'f', .long_name = "flag", .value = &flag, .help = "A flag"},
    {.type = CLI_STRING,
     .short_name = 't',
     .long_name = "text",
     .value = &text,
     .value_name = "T",
     .help = "A text"},
    {.type = CLI_INT,
     .short_name = 'n',
     .long_name = "number",
     .value = &number,
     .value_name = "N",
     .help = "A number",
     .int_min = 1,
     .int_max = 8},
    {.type = CLI_U64, .long_name = "big", .value = &big, .value_name = "N", .help = "Big"},
    {.type = CLI_DOUBLE,
     .long_name = "real",
     .value = &real,
     .value_name = "X",
     .help = "Real",
     .double_max = 2.5},
    {.type = CLI_CHOICE,
     .long_name = "backend",
     .value = &choice,
     .value_name = "B",
     .help = "Backend",
     .choices = backends,
     .given = &choice_given},
    {.type = CLI_INT,
     .long_name = "copies",
     .value = &copies,
     .value_name = "N",
     .help = "Copies",
     .int_min = 1,
     .int_max = 8,
     .optional = true,
     .given = &copies_given},
    {.long_name = NULL},
};

static const cli_command command = {
    .name = "try",
    .arguments = "FILE...",
    .arguments_min = 1,
    .arguments_max = 3,
    .summary = "Try",
    .common = CLI_COMMON_SEED | CLI_COMMON_REPORTS,
    .options = options,
};

#define ARGS_MAX 16

static int parse(cli_args *args, const char **storage, const char *const *words) {
    char *argv[ARGS_MAX];
    int argc = 0;
    for (; words[argc] != NULL; argc++) {
        argv[argc] = (char *)words[argc];
    }
    return cli_options_parse(args, storage, &command, argc, argv);
}

#define PARSE(...) parse(&args, storage, (const char *const[]){__VA_ARGS__, NULL})

// Every form of every type is read, and arguments keep their order around options.
Test(options, all_forms_are_read) {
    cli_args args;
    const char *storage[ARGS_MAX];
    cr_assert(PARSE("a", "-fn", "3", "--text=x=y", "b", "--big", "0xffffffffffffffff", "--real",
                    "1e-3", "--backend", "mpi", "--seed=9", "--", "-c") == LS_OK);
    cr_expect(flag && number == 3 && big == UINT64_MAX && real == 1e-3);
    cr_expect(choice == 1 && choice_given);
    cr_expect_str_eq(text, "x=y");
    cr_expect(cli_options_common.seed == 9 && cli_options_common.seed_given);
    cr_assert(args.count == 3);
    cr_expect_str_eq(args.values[0], "a");
    cr_expect_str_eq(args.values[1], "b");
    cr_expect_str_eq(args.values[2], "-c");
}

// An optional number is taken if there is one; other words are not.
Test(options, a_value_may_be_left_out) {
    cli_args args;
    const char *storage[ARGS_MAX];
    cr_assert(PARSE("--copies", "a") == LS_OK);
    cr_expect(copies_given && copies == 0 && args.count == 1);
    cr_assert(PARSE("a", "--copies", "--flag") == LS_OK);
    cr_expect(copies == 0 && flag);
    cr_assert(PARSE("--copies", "3", "a") == LS_OK);
    cr_expect(copies == 3 && args.count == 1);
    cr_assert(PARSE("a", "--copies=4") == LS_OK);
    cr_expect(copies == 4);
    cr_assert(PARSE("a", "--copies") == LS_OK);
    cr_redirect_stderr();
    cr_expect(PARSE("a", "--copies", "9") == LS_ERR_INVALID);
}

// A lone dash is an argument, and --json takes one as its value.
Test(options, dash_is_a_value) {
    cli_args args;
    const char *storage[ARGS_MAX];
    cr_assert(PARSE("-", "--json", "-") == LS_OK);
    cr_expect(args.count == 1);
    cr_expect(cli_stdout_taken());
}

// A command that passes options on takes the ones that it declares, and keeps the others in order.
Test(options, what_is_not_known_is_handed_on) {
    cli_args args;
    const char *storage[ARGS_MAX];
    cli_command passes = command;
    passes.passes_options = true;
    passes.arguments_max = -1;
    char *words[] = {"--big=7", "a", "--bigger", "-f", "-fx", "--text", "-z", "-z"};
    cr_assert(cli_options_parse(&args, storage, &passes, 8, words) == LS_OK);
    cr_expect(big == 7 && flag && args.count == 4);
    cr_expect_str_eq(text, "-z");
    cr_expect_str_eq(args.values[1], "--bigger");
    cr_expect_str_eq(args.values[2], "-fx");
    cr_expect_str_eq(args.values[3], "-z");
}

// Each of these is refused with its message.
Test(options, misuse_is_refused_with_the_reason) {
    cr_redirect_stderr();
    cli_args args;
    const char *storage[ARGS_MAX];
    static const struct {
        const char *words[4];
        const char *reason;
    } rows[] = {
        {{"a", "--txt", "x"}, "unknown option '--txt'; did you mean '--text'?"},
        {{"a", "--trace", "x"}, "unknown option '--trace'"},
        {{"a", "-x"}, "unknown option '-x'"},
        {{"a", "--text"}, "--text needs a value: --text T"},
        {{"a", "-n"}, "-n needs a value: -n N"},
        {{"a", "--flag=1"}, "--flag takes no value"},
        {{"a", "--number", "9"}, "--number needs a whole number from 1 to 8, not '9'"},
        {{"a", "--number", "3x"}, "--number needs a whole number from 1 to 8, not '3x'"},
        {{"a", "--number", "99999999999999999999"},
         "--number needs a whole number from 1 to 8, not '99999999999999999999'"},
        {{"a", "--big", "-1"}, "--big needs a number from 0 to 2^64 - 1, not '-1'"},
        {{"a", "--big", "18446744073709551616"},
         "--big needs a number from 0 to 2^64 - 1, not '18446744073709551616'"},
        {{"a", "--number", " 3"}, "--number needs a whole number from 1 to 8, not ' 3'"},
        {{"a", "--number", "0"}, "--number needs a whole number from 1 to 8, not '0'"},
        {{"a", "--number", "4294967298"},
         "--number needs a whole number from 1 to 8, not '4294967298'"},
        {{"a", "--big", "0x"}, "--big needs a number from 0 to 2^64 - 1, not '0x'"},
        {{"a", "--real", "nan"}, "--real needs a number from 0 to 2.5, not 'nan'"},
        {{"a", "--real", "2.6"}, "--real needs a number from 0 to 2.5, not '2.6'"},
        {{"a", "--real", "1e999"}, "--real needs a number from 0 to 2.5, not '1e999'"},
        {{"a", "--real", "-0.1"}, "--real needs a number from 0 to 2.5, not '-0.1'"},
        {{"a", "--backend", "ncl"},
         "--backend needs one of sim, mpi, nccl, not 'ncl'; did you mean 'nccl'?"},
        {{"a", "--text", ""}, "--text needs a value that is not empty"},
        {{"--flag"}, "an argument is missing: FILE..."},
        {{"a", "b", "c", "d"}, "unexpected argument 'd'"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const char *words[5] = {0};
        memcpy(words, rows[i].words, sizeof rows[i].words);
        cr_expect(parse(&args, storage, words) == LS_ERR_INVALID, "%s", rows[i].reason);
        cr_expect_str_eq(ls_error_last()->text, rows[i].reason);
    }
}
