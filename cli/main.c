// lockstep: finds the command, parses its options, runs it.
#include <locale.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>

#include "base/version.h"
#include "cli/cli.h"
#include "cli/commands.h"
#include "cli/debugger.h"
#include "cli/outputs.h"

static const cli_command *const commands[] = {
#define COMMAND(name) &cli_cmd_##name,
    CLI_COMMANDS(COMMAND)
#undef COMMAND
        NULL,
};

static int print(void (*make)(ls_text *out, const cli_command *const *commands)) {
    ls_text text = {0};
    make(&text, commands);
    int code = cli_output("-", &text);
    ls_text_free(&text);
    return code;
}

static void make_version(ls_text *out, const cli_command *const *unused) {
    (void)unused;
    ls_text_printf(out, "lockstep %s\n", LS_VERSION);
}

static const cli_command *find_command(const char *name) {
    for (size_t i = 0; commands[i] != NULL; i++) {
        if (strcmp(commands[i]->name, name) == 0) {
            return commands[i];
        }
    }
    const char *names[sizeof commands / sizeof commands[0]];
    size_t count = 0;
    for (; commands[count] != NULL; count++) {
        names[count] = commands[count]->name;
    }
    const char *nearest = ls_nearest(name, names, count);
    if (nearest != NULL) {
        cli_error("unknown command '%.64s'; did you mean '%s'?", name, nearest);
    } else {
        cli_error("unknown command '%.64s'; 'lockstep --help' lists the commands", name);
    }
    return NULL;
}

static int help(const cli_command *command) {
    ls_text text = {0};
    cli_help_command(&text, command);
    int code = cli_output("-", &text);
    ls_text_free(&text);
    return code;
}

// lockstep help [COMMAND]
static int run_help(int argc, char **argv) {
    if (argc == 0) {
        return print(cli_help_program);
    }
    const cli_command *command = find_command(argv[0]);
    return command != NULL ? help(command) : LS_EXIT_USAGE;
}

static int run_command(const cli_command *command, int argc, char **argv) {
    const char **storage = calloc((size_t)argc + 1, sizeof *storage);
    if (storage == NULL) {
        cli_error("out of memory");
        return LS_EXIT_ENVIRONMENT;
    }
    cli_args args;
    int code = LS_EXIT_USAGE;
    if (cli_options_parse(&args, storage, command, argc, argv) == LS_OK) {
        if (cli_options_common.help) {
            code = help(command);
        } else {
            code = cli_outputs_check(command, &args);
            code = code == LS_EXIT_OK ? command->run(&args) : code;
        }
    }
    free(storage);
    return code;
}

static int run_completion(const char *shell) {
    ls_text text = {0};
    int code = LS_EXIT_USAGE;
    if (cli_completion(&text, commands, shell) == LS_OK) {
        code = cli_output("-", &text);
    } else {
        cli_error("%s", ls_error_last()->text);
    }
    ls_text_free(&text);
    return code;
}

// The manual page of a command, or of the program where `name` is NULL.
static int run_man_page(const char *name) {
    if (name == NULL) {
        return print(cli_help_man);
    }
    const cli_command *command = find_command(name);
    if (command == NULL) {
        return LS_EXIT_USAGE;
    }
    ls_text text = {0};
    cli_help_man_command(&text, command);
    int code = cli_output("-", &text);
    ls_text_free(&text);
    return code;
}

// Options of the program itself, before any command; `next` follows, or is NULL.
static int run_program_option(const char *word, const char *next) {
    static const char *const names[] = {"--help", "--version", "--man-page", "--completion"};
    if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0) {
        return print(cli_help_program);
    }
    if (strcmp(word, "--version") == 0) {
        return print(make_version);
    }
    if (strcmp(word, "--man-page") == 0) {
        return run_man_page(next);
    }
    if (strcmp(word, "--completion") == 0) {
        return run_completion(next != NULL ? next : "bash");
    }
    const char *nearest = ls_nearest(word, names, sizeof names / sizeof names[0]);
    if (nearest != NULL) {
        cli_error("unknown option '%.64s'; did you mean '%s'?", word, nearest);
    } else {
        cli_error("unknown option '%.64s'; options come after the command", word);
    }
    return LS_EXIT_USAGE;
}

// A training step takes and frees arrays of megabytes, batch after batch: handed back to the system
// and asked for again, each page costs more than what is done with it.
static void keep_freed_memory(void) {
#ifdef __GLIBC__
    (void)mallopt(M_MMAP_THRESHOLD, 32 << 20);
    (void)mallopt(M_TRIM_THRESHOLD, 1 << 30);
#endif
}

int main(int argc, char **argv) {
    keep_freed_memory();
    cli_debugger_remember(argc, argv);
    cli_arguments = argv;
    (void)setlocale(LC_CTYPE, "");  // numbers stay as C prints them
    if (argc < 2) {
        ls_text text = {0};
        cli_help_program(&text, commands);
        (void)fputs(ls_text_string(&text), stderr);
        ls_text_free(&text);
        return LS_EXIT_USAGE;
    }
    if (argv[1][0] == '-') {
        return run_program_option(argv[1], argv[2]);
    }
    if (strcmp(argv[1], "help") == 0) {
        return run_help(argc - 2, argv + 2);
    }
    const cli_command *command = find_command(argv[1]);
    if (command != NULL && argv[2] != NULL && strcmp(argv[2], "--version") == 0) {
        return print(make_version);
    }
    return command != NULL ? run_command(command, argc - 2, argv + 2) : LS_EXIT_USAGE;
}
