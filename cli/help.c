// Texts for people from the command and option tables: --help and the man page. Shell completions
// are in completion.c.
#include <ctype.h>
#include <string.h>

#include "base/version.h"
#include "cli/commands.h"
#include "cli/options.h"

#define HELP_COLUMN 26
#define HELP_WIDTH  96

// Appends `text` wrapped at HELP_WIDTH, each line after the first indented by `indent`; `column` is
// where the first line stands. A newline in the text starts a new line.
static void wrap(ls_text *out, const char *text, size_t column, size_t indent) {
    bool line_start = true;
    while (*text != 0) {
        size_t length = strcspn(text, " \n");
        if (!line_start && column + 1 + length > HELP_WIDTH) {
            ls_text_puts(out, "\n");
            ls_text_repeat(out, ' ', indent);
            column = indent;
        } else if (!line_start) {
            ls_text_puts(out, " ");
            column++;
        }
        ls_text_append(out, text, length);
        column += length;
        line_start = false;
        text += length;
        if (*text == '\n') {
            ls_text_puts(out, "\n");
            ls_text_repeat(out, ' ', text[1] == '\n' ? 0 : indent);
            column = indent;
            line_start = true;
        }
        text += *text != 0;
    }
    ls_text_puts(out, "\n");
}

static void option_names(ls_text *out, const cli_option *option) {
    if (option->short_name != 0) {
        ls_text_printf(out, "-%c, ", option->short_name);
    }
    ls_text_printf(out, "--%s", option->long_name);
    if (option->value_name != NULL) {
        ls_text_printf(out, option->optional ? " [%s]" : " %s", option->value_name);
    }
}

// Whether the sentence names each of the choices.
static bool names_choices(const cli_option *option) {
    for (size_t i = 0; option->choices[i] != NULL; i++) {
        if (strstr(option->help, option->choices[i]) == NULL) {
            return false;
        }
    }
    return true;
}

static void option_text(ls_text *out, const cli_option *option) {
    ls_text_puts(out, option->help);
    if (option->choices != NULL && !names_choices(option)) {
        ls_text_puts(out, ": ");
        for (size_t i = 0; option->choices[i] != NULL; i++) {
            ls_text_printf(out, "%s%s", i == 0 ? "" : ", ", option->choices[i]);
        }
    }
}

static void help_option(void *arg, const cli_option *option) {
    ls_text *out = arg;
    ls_text names = {0};
    ls_text text = {0};
    option_names(&names, option);
    option_text(&text, option);
    ls_text_printf(out, "  %s%s", option->short_name == 0 ? "    " : "", ls_text_string(&names));
    size_t column = 2 + names.length + (option->short_name == 0 ? 4 : 0);
    if (column + 2 > HELP_COLUMN) {
        ls_text_puts(out, "\n");
        column = 0;
    }
    ls_text_repeat(out, ' ', HELP_COLUMN - column);
    wrap(out, ls_text_string(&text), HELP_COLUMN, HELP_COLUMN);
    out->failed = out->failed || names.failed || text.failed;
    ls_text_free(&names);
    ls_text_free(&text);
}

void cli_help_command(ls_text *out, const cli_command *command) {
    ls_text_printf(out, "usage: lockstep %s [options]%s%s\n\n", command->name,
                   command->arguments[0] != 0 ? " " : "", command->arguments);
    ls_text_printf(out, "%s.\n", command->summary);
    if (command->details != NULL) {
        ls_text_puts(out, "\n");
        wrap(out, command->details, 0, 0);
    }
    ls_text_printf(out, "\nexample:\n  %s\n\noptions:\n", command->example);
    cli_options_each(command, help_option, out);
}

typedef struct help_row {
    const char *name, *text;
} help_row;

static const help_row environment[] = {
    {"TMPDIR", "folder for temporary files and sockets; default: /tmp"},
    {"NO_COLOR", "if set to any text, --color auto prints no colours"},
    {"LOCKSTEP_SCHEDULE", "of programs that call ls_spmd_run: the schedule, as --schedule of spmd"},
    {"LOCKSTEP_SEED", "their seed"},
    {"LOCKSTEP_DELAYED_RANK", "the rank that the schedule delay holds back"},
    {"LOCKSTEP_EXPLORE", "number of schedules to try"},
    {"LOCKSTEP_LOOKAHEAD", "calls that a rank may be ahead of the others"},
    {"LOCKSTEP_HISTORY", "calls of each rank that a finding lists"},
    {"LOCKSTEP_STACK", "stack of a rank in KiB"},
    {"LOCKSTEP_DEADLINE", "seconds without a call after which a rank is ended"},
    {"LOCKSTEP_CHECKS", "their checks, as --checks of spmd"},
    {"LOCKSTEP_FAULTS", "their faults, as --faults of spmd"},
    {"LOCKSTEP_GDB", "gdb executable for 'lockstep gdb'; default: gdb in PATH"},
    {"LOCKSTEP_PYTHON", "Python of the debugger (exec --debug and --core, dap); default: python3"},
    {"LOCKSTEP_NCCL_LIBRARY", "path of libnccl.so for real NCCL runs"},
    {"LOCKSTEP_EXEC_DEVICE", "bytes from which exec keeps a call in GPU memory; default: 4 MiB"},
    {"HYDRA_HOST_FILE", "hosts of MPICH's mpiexec for real MPI runs"},
    {NULL, NULL},
};

static const help_row files[] = {
    {"PREFIX/share/doc/lockstep/docs", "the documentation"},
    {"PREFIX/share/doc/lockstep/docs/scenario.schema.json", "JSON schema of scenario files"},
    {"PREFIX/share/lockstep/gdb/lockstep-gdb.py", "the gdb extension"},
    {NULL, NULL},
};

static const char exit_codes[] = "0 all checks passed; 1 a finding; 2 the command line or an input "
                                 "file is unusable; 3 the environment failed; 5 nothing ran";

void cli_help_program(ls_text *out, const cli_command *const *commands) {
    ls_text_puts(out, "usage: lockstep COMMAND [options] [arguments]\n\nRuns and checks every rank "
                      "of an SPMD program on one machine, and compares the results\nwith real runs "
                      "bit for bit.\n\ncommands:\n");
    for (; *commands != NULL; commands++) {
        ls_text_printf(out, "  %-12s %s\n", (*commands)->name, (*commands)->summary);
    }
    ls_text_puts(out, "\n'lockstep COMMAND --help' explains a command, 'lockstep --version' names "
                      "this build.\n\nenvironment:\n");
    for (const help_row *row = environment; row->name != NULL; row++) {
        ls_text_printf(out, "  %-22s %s\n", row->name, row->text);
    }
    ls_text_puts(out, "\nexit codes:\n  ");
    wrap(out, exit_codes, 2, 2);
}

// ---- man page -----------------------------------------------------------------------------------

// Text for roff: dashes are minus signs, a dot or quote never starts a line.
static void roff(ls_text *out, const char *text) {
    bool line_start = true;
    for (; *text != 0; text++) {
        if (line_start && (*text == '.' || *text == '\'')) {
            ls_text_puts(out, "\\&");
        }
        line_start = *text == '\n';
        if (*text == '-') {
            ls_text_puts(out, "\\-");
        } else if (*text == '\\') {
            ls_text_puts(out, "\\e");
        } else {
            ls_text_append(out, text, 1);
        }
    }
}

static void man_option(void *arg, const cli_option *option) {
    ls_text *out = arg;
    ls_text text = {0};
    ls_text_puts(out, ".TP\n.B ");
    option_names(&text, option);
    roff(out, ls_text_string(&text));
    ls_text_free(&text);
    ls_text_puts(out, "\n");
    option_text(&text, option);
    roff(out, ls_text_string(&text));
    ls_text_puts(out, ".\n");
    ls_text_free(&text);
}

static void man_rows(ls_text *out, const char *title, const help_row *row) {
    ls_text_printf(out, ".SH %s\n", title);
    for (; row->name != NULL; row++) {
        ls_text_puts(out, ".TP\n.B ");
        roff(out, row->name);
        ls_text_puts(out, "\n");
        roff(out, row->text);
        ls_text_puts(out, ".\n");
    }
}

static void man_example(ls_text *out, const cli_command *command) {
    LS_ASSERT(command->example != NULL);
    ls_text_puts(out, ".PP\n.nf\n");
    roff(out, command->example);
    ls_text_puts(out, "\n.fi\n");
}

static void man_body(ls_text *out, const cli_command *command) {
    roff(out, command->summary);
    ls_text_puts(out, ".\n");
    if (command->details != NULL) {
        ls_text_puts(out, ".PP\n");
        roff(out, command->details);
        ls_text_puts(out, "\n");
    }
}

static void man_end(ls_text *out, const char *see_also) {
    ls_text_puts(out, ".SH EXIT STATUS\n");
    roff(out, exit_codes);
    ls_text_puts(out, ".\n");
    man_rows(out, "ENVIRONMENT", environment);
    man_rows(out, "FILES", files);
    ls_text_printf(out, ".SH SEE ALSO\n%s\n", see_also);
}

void cli_help_man_command(ls_text *out, const cli_command *command) {
    ls_text_puts(out, ".TH LOCKSTEP-");
    for (const char *c = command->name; *c != 0; c++) {
        ls_text_printf(out, "%c", toupper((unsigned char)*c));
    }
    ls_text_printf(out, " 1 \"\" \"lockstep %s\"\n.SH NAME\nlockstep\\-%s \\- ", LS_VERSION,
                   command->name);
    roff(out, command->summary);
    ls_text_printf(out, "\n.SH SYNOPSIS\n.B lockstep %s\n[options] ", command->name);
    roff(out, command->arguments);
    ls_text_puts(out, "\n.SH DESCRIPTION\n");
    man_body(out, command);
    ls_text_puts(out, ".SH OPTIONS\n");
    cli_options_each(command, man_option, out);
    ls_text_puts(out, ".SH EXAMPLES\n");
    man_example(out, command);
    man_end(out, ".BR lockstep (1)");
}

void cli_help_man(ls_text *out, const cli_command *const *commands) {
    ls_text_printf(out, ".TH LOCKSTEP 1 \"\" \"lockstep %s\"\n", LS_VERSION);
    ls_text_puts(out, ".SH NAME\nlockstep \\- run and check every rank of an SPMD program\n"
                      ".SH SYNOPSIS\n.B lockstep\n.I COMMAND\n[options] [arguments]\n"
                      ".SH COMMANDS\n");
    for (const cli_command *const *each = commands; *each != NULL; each++) {
        ls_text_printf(out, ".SS lockstep %s [options] %s\n", (*each)->name, (*each)->arguments);
        man_body(out, *each);
        cli_options_each(*each, man_option, out);
    }
    ls_text_puts(out, ".SH EXAMPLES\n");
    for (const cli_command *const *each = commands; *each != NULL; each++) {
        man_example(out, *each);
    }
    ls_text see = {0};
    for (const cli_command *const *each = commands; *each != NULL; each++) {
        ls_text_printf(&see, ".BR lockstep\\-%s (1),\n", (*each)->name);
    }
    ls_text_puts(&see, ".BR lockstep (3)");
    man_end(out, ls_text_string(&see));
    out->failed = out->failed || see.failed;
    ls_text_free(&see);
}
