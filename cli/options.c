// Parsing of options against their tables, and the sentences for what does not fit.
#include "cli/options.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"

#define OPTIONS_MAX 64

static const char *const color_names[] = {"auto", "always", "never", NULL};

typedef struct common_row {
    unsigned mask;  // 0: every command takes it
    cli_option option;
} common_row;

static const common_row common_rows[] = {
    {CLI_COMMON_SEED,
     {CLI_U64, "seed", &cli_options_common.seed, "N", .given = &cli_options_common.seed_given,
      .help = "Seed of all random numbers; overrides the scenario's"}},
    {CLI_COMMON_SEED_UNUSED,
     {CLI_U64, "seed", &cli_options_common.seed, "N",
      .help = "Accepted for uniformity; has no effect"}},
    {CLI_COMMON_REPORTS,
     {CLI_STRING, "json", &cli_options_common.json, "FILE", .output = CLI_OUTPUT_FILE,
      .help = "Write the result as JSON; -: to stdout, and nothing else goes there"}},
    {CLI_COMMON_REPORTS,
     {CLI_STRING, "junit", &cli_options_common.junit, "FILE", .output = CLI_OUTPUT_FILE,
      .help = "Write the result as JUnit XML; -: to stdout"}},
    {CLI_COMMON_REPORTS,
     {CLI_STRING, "report", &cli_options_common.report, "FILE", .output = CLI_OUTPUT_FILE,
      .help = "Write the result as one self-contained HTML page; -: to stdout"}},
    {CLI_COMMON_TRACE,
     {CLI_STRING, "trace", &cli_options_common.trace, "FILE", .output = CLI_OUTPUT_FILE,
      .help = "Write a Chrome trace of every rank's calls"}},
    {0,
     {CLI_SWITCH, "quiet", &cli_options_common.quiet, .short_name = 'q',
      .help = "Print failures and the last line only"}},
    {0,
     {CLI_CHOICE, "color", &cli_options_common.color, "WHEN", .choices = color_names,
      .help = "Colour the report"}},
    {0,
     {CLI_SWITCH, "help", &cli_options_common.help, .short_name = 'h', .help = "Show this help"}},
};

void cli_options_each(const cli_command *command,
                      void (*visit)(void *arg, const cli_option *option), void *arg) {
    if (command->options != NULL) {
        for (const cli_option *option = command->options; option->long_name != NULL; option++) {
            visit(arg, option);
        }
    }
    for (size_t i = 0; i < sizeof common_rows / sizeof common_rows[0]; i++) {
        if (common_rows[i].mask == 0 || (common_rows[i].mask & command->common) != 0) {
            visit(arg, &common_rows[i].option);
        }
    }
}

typedef struct option_list {
    const cli_option *rows[OPTIONS_MAX];
    size_t count;
} option_list;

static void collect(void *arg, const cli_option *option) {
    option_list *list = arg;
    LS_ASSERT(list->count < OPTIONS_MAX);
    LS_ASSERT((option->type == CLI_SWITCH) == (option->value_name == NULL));
    LS_ASSERT((option->type == CLI_CHOICE) == (option->choices != NULL));
    LS_ASSERT(option->type == CLI_STRING || option->output == CLI_NO_OUTPUT);
    LS_ASSERT(!option->optional || (option->type == CLI_INT && option->given != NULL));
    list->rows[list->count++] = option;
}

static const cli_option *find_long(const option_list *list, const char *name, size_t length) {
    for (size_t i = 0; i < list->count; i++) {
        const char *candidate = list->rows[i]->long_name;
        if (strlen(candidate) == length && memcmp(candidate, name, length) == 0) {
            return list->rows[i];
        }
    }
    return NULL;
}

static const cli_option *find_short(const option_list *list, char name) {
    for (size_t i = 0; i < list->count; i++) {
        if (list->rows[i]->short_name == name) {
            return list->rows[i];
        }
    }
    return NULL;
}

static int usage_error(const cli_command *command, const char *format, ...) LS_PRINTF(2, 3);
static int usage_error(const cli_command *command, const char *format, ...) {
    va_list args;
    va_start(args, format);
    char sentence[512];
    (void)vsnprintf(sentence, sizeof sentence, format, args);
    va_end(args);
    cli_error("%s", sentence);
    (void)fprintf(
        stderr, "usage: lockstep %s [options]%s%s\n'lockstep %s --help' lists the options\n",
        command->name, command->arguments[0] != 0 ? " " : "", command->arguments, command->name);
    return LS_FAIL(LS_ERR_INVALID, "%s", sentence);
}

static int unknown_long(const cli_command *command, const option_list *list, const char *name,
                        size_t length) {
    const char *names[OPTIONS_MAX];
    for (size_t i = 0; i < list->count; i++) {
        names[i] = list->rows[i]->long_name;
    }
    char word[64];
    (void)snprintf(word, sizeof word, "%.*s", (int)(length < 63 ? length : 63), name);
    const char *nearest = ls_nearest(word, names, list->count);
    if (nearest != NULL) {
        return usage_error(command, "unknown option '--%s'; did you mean '--%s'?", word, nearest);
    }
    return usage_error(command, "unknown option '--%s'", word);
}

bool cli_read_number(uint64_t *out, const char **end, const char *text) {
    bool hex = text[0] == '0' && (text[1] == 'x' || text[1] == 'X');
    char *behind = NULL;
    errno = 0;
    unsigned long long value = strtoull(text, &behind, hex ? 16 : 10);
    *out = value;
    *end = behind;
    return text[0] >= '0' && text[0] <= '9' && errno == 0;
}

static int set_int(const cli_command *command, const cli_option *option, const char *text) {
    LS_ASSERT(option->int_min >= 0 && option->int_min < option->int_max);
    uint64_t value = 0;
    const char *end = NULL;
    if (!cli_read_number(&value, &end, text) || *end != 0 || value < (uint64_t)option->int_min ||
        value > (uint64_t)option->int_max) {
        return usage_error(command, "--%s needs a whole number from %d to %d, not '%s'",
                           option->long_name, option->int_min, option->int_max, text);
    }
    *(int *)option->value = (int)value;
    return LS_OK;
}

static int set_u64(const cli_command *command, const cli_option *option, const char *text) {
    const char *end = NULL;
    uint64_t value = 0;
    if (!cli_read_number(&value, &end, text) || *end != 0) {
        return usage_error(command, "--%s needs a number from 0 to 2^64 - 1, not '%s'",
                           option->long_name, text);
    }
    *(uint64_t *)option->value = value;
    return LS_OK;
}

static int set_double(const cli_command *command, const cli_option *option, const char *text) {
    LS_ASSERT(option->double_max > 0 && isfinite(option->double_max));
    char *end = NULL;
    double value = strtod(text, &end);
    if (end == text || *end != 0 || !(value >= 0 && value <= option->double_max)) {
        return usage_error(command, "--%s needs a number from 0 to %.15g, not '%s'",
                           option->long_name, option->double_max, text);
    }
    *(double *)option->value = value;
    return LS_OK;
}

static int set_choice(const cli_command *command, const cli_option *option, const char *text) {
    size_t count = 0;
    char list[256] = "";
    for (; option->choices[count] != NULL; count++) {
        if (strcmp(option->choices[count], text) == 0) {
            *(int *)option->value = (int)count;
            return LS_OK;
        }
        size_t used = strlen(list);
        (void)snprintf(list + used, sizeof list - used, "%s%s", count == 0 ? "" : ", ",
                       option->choices[count]);
    }
    const char *nearest = ls_nearest(text, option->choices, count);
    if (nearest != NULL) {
        return usage_error(command, "--%s needs one of %s, not '%s'; did you mean '%s'?",
                           option->long_name, list, text, nearest);
    }
    return usage_error(command, "--%s needs one of %s, not '%s'", option->long_name, list, text);
}

static int set(const cli_command *command, const cli_option *option, const char *text) {
    if (option->given != NULL) {
        *option->given = true;
    }
    switch (option->type) {
    case CLI_SWITCH:
        *(bool *)option->value = true;
        return LS_OK;
    case CLI_STRING:
        if (text[0] == 0) {
            return usage_error(command, "--%s needs a value that is not empty", option->long_name);
        }
        *(const char **)option->value = text;
        return LS_OK;
    case CLI_INT:
        return set_int(command, option, text);
    case CLI_U64:
        return set_u64(command, option, text);
    case CLI_DOUBLE:
        return set_double(command, option, text);
    case CLI_CHOICE:
        return set_choice(command, option, text);
    }
    LS_ASSERT(!"an option's type is one of cli_type");
    return LS_ERR_INVALID;
}

static bool is_digit(char letter) {
    return letter >= '0' && letter <= '9';
}

// --name, --name VALUE, --name=VALUE. *index moves past a separate value.
static int parse_long(const cli_command *command, const option_list *list, int argc, char **argv,
                      int *index) {
    const char *name = argv[*index] + 2;
    size_t length = strcspn(name, "=");
    const cli_option *option = find_long(list, name, length);
    if (option == NULL) {
        return unknown_long(command, list, name, length);
    }
    const char *value = name[length] == '=' ? name + length + 1 : NULL;
    if (option->type == CLI_SWITCH) {
        if (value != NULL) {
            return usage_error(command, "--%s takes no value", option->long_name);
        }
        return set(command, option, "");
    }
    if (value == NULL && option->optional &&
        !(*index + 1 < argc && is_digit(argv[*index + 1][0]))) {
        *option->given = true;
        return LS_OK;
    }
    if (value == NULL) {
        if (*index + 1 >= argc) {
            return usage_error(command, "--%s needs a value: --%s %s", option->long_name,
                               option->long_name, option->value_name);
        }
        value = argv[++*index];
    }
    return set(command, option, value);
}

// -a, -ab (switches), -n VALUE, -nVALUE
static int parse_short(const cli_command *command, const option_list *list, int argc, char **argv,
                       int *index) {
    for (const char *letter = argv[*index] + 1; *letter != 0; letter++) {
        const cli_option *option = find_short(list, *letter);
        if (option == NULL) {
            return usage_error(command, "unknown option '-%c'", *letter);
        }
        if (option->type == CLI_SWITCH) {
            LS_TRY(set(command, option, ""));
            continue;
        }
        if (letter[1] != 0) {
            return set(command, option, letter + 1);
        }
        if (*index + 1 >= argc) {
            return usage_error(command, "-%c needs a value: -%c %s", *letter, *letter,
                               option->value_name);
        }
        return set(command, option, argv[++*index]);
    }
    return LS_OK;
}

// Whether the word is, as a whole, an option of the table.
static bool known(const option_list *list, const char *word) {
    if (word[1] == '-') {
        return find_long(list, word + 2, strcspn(word + 2, "=")) != NULL;
    }
    return word[2] == 0 && find_short(list, word[1]) != NULL;
}

int cli_options_parse(cli_args *args, const char **storage, const cli_command *command, int argc,
                      char **argv) {
    LS_ASSERT(args != NULL && command != NULL);
    *args = (cli_args){.values = storage, .before_dashes = -1};
    option_list list = {.count = 0};
    cli_options_each(command, collect, &list);
    bool only_arguments = false;
    for (int i = 0; i < argc; i++) {
        const char *word = argv[i];
        if (only_arguments || word[0] != '-' || word[1] == 0) {
            storage[args->count++] = word;
        } else if (strcmp(word, "--") == 0) {
            only_arguments = true;
            args->before_dashes = args->count;
        } else if (command->passes_options && !known(&list, word)) {
            storage[args->count++] = word;
        } else if (word[1] == '-') {
            LS_TRY(parse_long(command, &list, argc, argv, &i));
        } else {
            LS_TRY(parse_short(command, &list, argc, argv, &i));
        }
    }
    if (cli_options_common.help) {
        return LS_OK;
    }
    if (args->count < command->arguments_min) {
        return usage_error(command, "an argument is missing: %s", command->arguments);
    }
    if (command->arguments_max >= 0 && args->count > command->arguments_max) {
        return usage_error(command, "unexpected argument '%s'", storage[command->arguments_max]);
    }
    return LS_OK;
}
