// Completion scripts for shells, made of the command and option tables.
#include <string.h>

#include "cli/options.h"

// ---- bash ---------------------------------------------------------------------------------------

static void bash_name(void *arg, const cli_option *option) {
    ls_text_printf(arg, " --%s", option->long_name);
}

static void bash_choices(void *arg, const cli_option *option) {
    if (option->choices == NULL) {
        return;
    }
    ls_text *out = arg;
    ls_text_printf(out, "    *:--%s) words=\"", option->long_name);
    for (size_t i = 0; option->choices[i] != NULL; i++) {
        ls_text_printf(out, "%s%s", i == 0 ? "" : " ", option->choices[i]);
    }
    ls_text_puts(out, "\" ;;\n");
}

static void complete_bash(ls_text *out, const cli_command *const *commands) {
    ls_text_puts(out,
                 "# bash completion for lockstep\n_lockstep() {\n"
                 "    local cur=\"${COMP_WORDS[COMP_CWORD]}\" prev=\"${COMP_WORDS[COMP_CWORD-1]}\""
                 " words=\"\"\n    if [ \"$COMP_CWORD\" = 1 ]; then\n        words=\"--help "
                 "--version");
    for (size_t i = 0; commands[i] != NULL; i++) {
        ls_text_printf(out, " %s", commands[i]->name);
    }
    ls_text_puts(out, "\"\n    else\n    case \"${COMP_WORDS[1]}:$prev\" in\n");
    for (size_t i = 0; commands[i] != NULL; i++) {
        ls_text choices = {0};
        cli_options_each(commands[i], bash_choices, &choices);
        ls_text pattern = {0};
        ls_text_printf(&pattern, "    %s:", commands[i]->name);
        const char *row = ls_text_string(&choices);
        while (*row != 0) {  // "    *:--x)" becomes "    NAME:--x)"
            size_t length = strcspn(row, "\n") + 1;
            ls_text_puts(out, ls_text_string(&pattern));
            ls_text_append(out, row + 6, length - 6);
            row += length;
        }
        ls_text_free(&choices);
        ls_text_free(&pattern);
        ls_text_printf(out, "    %s:*) words=\"", commands[i]->name);
        cli_options_each(commands[i], bash_name, out);
        ls_text_puts(out, "\" ;;\n");
    }
    ls_text_puts(out,
                 "    esac\n    fi\n"
                 "    if [ -n \"$words\" ] && { [ \"$COMP_CWORD\" = 1 ] || [[ $cur == -* ]] || "
                 "[[ $words != *--* ]]; }; then\n"
                 "        mapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$cur\")\n"
                 "    else\n        mapfile -t COMPREPLY < <(compgen -f -- \"$cur\")\n    fi\n}\n"
                 "complete -o filenames -F _lockstep lockstep\n");
}

// ---- zsh ----------------------------------------------------------------------------------------

// Text within single quotes, where `escaped` are the characters that take a backslash there.
static void quoted(ls_text *out, const char *text, const char *escaped, const char *quote) {
    for (; *text != 0; text++) {
        if (*text == '\'') {
            ls_text_puts(out, quote);
        } else {
            ls_text_printf(out, "%s%c", strchr(escaped, *text) != NULL ? "\\" : "", *text);
        }
    }
}

static void words(ls_text *out, const char *const *choices) {
    for (size_t i = 0; choices[i] != NULL; i++) {
        ls_text_printf(out, "%s%s", i == 0 ? "" : " ", choices[i]);
    }
}

static void zsh_text(ls_text *out, const char *text) {
    quoted(out, text, "\\[]:", "'\\''");
}

static void zsh_option(void *arg, const cli_option *option) {
    ls_text *out = arg;
    const char *equals = option->value_name != NULL ? "=" : "";
    if (option->short_name != 0) {
        ls_text_printf(out, "        '(-%c --%s)'{-%c,--%s%s}'[", option->short_name,
                       option->long_name, option->short_name, option->long_name, equals);
    } else {
        ls_text_printf(out, "        '--%s%s[", option->long_name, equals);
    }
    zsh_text(out, option->help);
    ls_text_puts(out, "]");
    if (option->value_name != NULL) {
        ls_text_puts(out, option->optional ? "::" : ":");
        zsh_text(out, option->value_name);
        if (option->choices != NULL) {
            ls_text_puts(out, ":(");
            words(out, option->choices);
            ls_text_puts(out, ")");
        } else {
            ls_text_puts(out, ":_files");
        }
    }
    ls_text_puts(out, "' \\\n");
}

static void complete_zsh(ls_text *out, const cli_command *const *commands) {
    ls_text_puts(out, "#compdef lockstep\n# zsh completion for lockstep\n_lockstep() {\n"
                      "    local -a commands\n    commands=(\n");
    for (size_t i = 0; commands[i] != NULL; i++) {
        ls_text_printf(out, "        '%s:", commands[i]->name);
        zsh_text(out, commands[i]->summary);
        ls_text_puts(out, "'\n");
    }
    ls_text_puts(out, "    )\n    if (( CURRENT == 2 )); then\n"
                      "        _describe command commands\n        compadd -- --help --version\n"
                      "        return\n    fi\n    shift words\n    (( CURRENT-- ))\n"
                      "    case $words[1] in\n");
    for (size_t i = 0; commands[i] != NULL; i++) {
        ls_text_printf(out, "    %s)\n        _arguments \\\n", commands[i]->name);
        cli_options_each(commands[i], zsh_option, out);
        ls_text_puts(out, "        '*:file:_files' ;;\n");
    }
    ls_text_puts(out, "    esac\n}\n_lockstep \"$@\"\n");
}

// ---- fish ---------------------------------------------------------------------------------------

static void fish_text(ls_text *out, const char *text) {
    quoted(out, text, "\\", "\\'");
}

typedef struct fish {
    ls_text *out;
    const char *command;
} fish;

static void fish_option(void *arg, const cli_option *option) {
    const fish *shell = arg;
    ls_text *out = shell->out;
    ls_text_printf(out, "complete -c lockstep -n '__fish_seen_subcommand_from %s' -l %s",
                   shell->command, option->long_name);
    if (option->short_name != 0) {
        ls_text_printf(out, " -s %c", option->short_name);
    }
    if (option->choices != NULL) {
        ls_text_puts(out, " -x -a '");
        words(out, option->choices);
        ls_text_puts(out, "'");
    } else if (option->value_name != NULL && !option->optional) {
        ls_text_puts(out, " -r");
    }
    ls_text_puts(out, " -d '");
    fish_text(out, option->help);
    ls_text_puts(out, "'\n");
}

static void complete_fish(ls_text *out, const cli_command *const *commands) {
    static const char start[] = "complete -c lockstep -n __fish_use_subcommand -f";
    ls_text_printf(out, "# fish completion for lockstep\n%s -l help\n%s -l version\n", start,
                   start);
    for (size_t i = 0; commands[i] != NULL; i++) {
        ls_text_printf(out, "%s -a %s -d '", start, commands[i]->name);
        fish_text(out, commands[i]->summary);
        ls_text_puts(out, "'\n");
        fish shell = {.out = out, .command = commands[i]->name};
        cli_options_each(commands[i], fish_option, &shell);
    }
}

// ---- Which --------------------------------------------------------------------------------------

static const struct {
    const char *name;
    void (*complete)(ls_text *out, const cli_command *const *commands);
} shells[] = {{"bash", complete_bash}, {"zsh", complete_zsh}, {"fish", complete_fish}};

int cli_completion(ls_text *out, const cli_command *const *commands, const char *shell) {
    for (size_t i = 0; i < sizeof shells / sizeof shells[0]; i++) {
        if (strcmp(shell, shells[i].name) == 0) {
            shells[i].complete(out, commands);
            return LS_OK;
        }
    }
    return LS_FAIL(LS_ERR_NOT_FOUND, "no completion for the shell '%.64s'; bash, zsh or fish",
                   shell);
}
