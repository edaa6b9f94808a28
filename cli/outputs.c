// See outputs.h. Files that a scenario names are not checked: a plan may be made anew of the
// scenario that it is for.
#define _XOPEN_SOURCE 700
#include "cli/outputs.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "cli/cli.h"

#define OUTPUTS_MAX 16

typedef struct named {
    const cli_command *command;
    const char *outputs[OUTPUTS_MAX];
    bool folders[OUTPUTS_MAX];
    size_t count;
    const char *of;  // while inputs are looked for: what would be overwritten
    bool is_input;
} named;

static bool is_stdout(const char *path) {
    return strcmp(path, "-") == 0;
}

// The last name of a path, without trailing slashes [*length], and its folder.
static const char *split(size_t *length, char *folder, size_t bytes, const char *path) {
    size_t end = strlen(path);
    while (end > 1 && path[end - 1] == '/') {
        end--;
    }
    size_t start = end;
    while (start > 0 && path[start - 1] != '/') {
        start--;
    }
    *length = end - start;
    (void)snprintf(folder, bytes, "%.*s", start > 0 ? (int)start : 1, start > 0 ? path : ".");
    return path + start;
}

// Whether two paths that lead to nothing yet would be one file.
static bool same_place(const char *a, const char *b) {
    char folder_a[PATH_MAX], folder_b[PATH_MAX];
    size_t length_a, length_b;
    const char *name_a = split(&length_a, folder_a, sizeof folder_a, a);
    const char *name_b = split(&length_b, folder_b, sizeof folder_b, b);
    struct stat one, other;
    return length_a == length_b && memcmp(name_a, name_b, length_a) == 0 &&
           stat(folder_a, &one) == 0 && stat(folder_b, &other) == 0 && one.st_dev == other.st_dev &&
           one.st_ino == other.st_ino;
}

static bool same_file(const char *a, const char *b) {
    struct stat one, other;
    if (strcmp(a, b) == 0) {
        return true;
    }
    if (is_stdout(a) || is_stdout(b)) {
        return false;
    }
    bool has_one = stat(a, &one) == 0, has_other = stat(b, &other) == 0;
    if (!has_one && !has_other) {
        return same_place(a, b);
    }
    return has_one && has_other && (S_ISREG(one.st_mode) || S_ISDIR(one.st_mode)) &&
           one.st_dev == other.st_dev && one.st_ino == other.st_ino;
}

// Whether a word of the command line names the file: as it stands, or as measured:FILE or
// FILE:FUNCTION.
static bool names(const char *word, const char *file) {
    const char *colon = strchr(word, ':');
    if (same_file(word, file) || (colon != NULL && same_file(colon + 1, file))) {
        return true;
    }
    char path[PATH_MAX];
    colon = strrchr(word, ':');
    size_t length = colon != NULL ? (size_t)(colon - word) : 0;
    (void)snprintf(path, sizeof path, "%.*s", (int)(length < sizeof path ? length : 0), word);
    return path[0] != 0 && same_file(path, file);
}

static void add_output(named *all, const char *path, bool folder) {
    LS_ASSERT(all->count < OUTPUTS_MAX);
    all->folders[all->count] = folder;
    all->outputs[all->count++] = path;
}

static void take_output(void *arg, const cli_option *option) {
    named *all = arg;
    const char *path = option->output != CLI_NO_OUTPUT ? *(const char **)option->value : NULL;
    if (path != NULL) {
        add_output(all, path, option->output == CLI_OUTPUT_FOLDER);
    }
}

static void look_at_input(void *arg, const cli_option *option) {
    named *all = arg;
    if (option->type == CLI_STRING && option->output == CLI_NO_OUTPUT) {
        const char *word = *(const char **)option->value;
        all->is_input = all->is_input || (word != NULL && names(word, all->of));
    }
}

// Whether an argument or another option names the file. Values of options may be no paths: a
// missing file is none of them.
static bool is_input(named *all, const cli_args *args, const char *path) {
    all->of = path;
    all->is_input = false;
    if (access(path, F_OK) == 0) {
        cli_options_each(all->command, look_at_input, all);
    }
    for (int i = 0; i < args->count && !all->is_input; i++) {
        all->is_input = i + 1 != all->command->output_argument && names(args->values[i], path);
    }
    return all->is_input;
}

int cli_outputs_check(const cli_command *command, const cli_args *args) {
    LS_ASSERT(command != NULL && args != NULL);
    named all = {.command = command};
    cli_options_each(command, take_output, &all);
    if (command->output_argument > 0) {
        add_output(&all, args->values[command->output_argument - 1], true);
    }
    for (size_t i = 0; i < all.count; i++) {
        for (size_t j = 0; j < i; j++) {
            if (same_file(all.outputs[i], all.outputs[j])) {
                cli_error("two outputs go to '%s'", all.outputs[i]);
                return LS_EXIT_USAGE;
            }
        }
        bool file = !all.folders[i] && !is_stdout(all.outputs[i]);
        int status = file ? ls_file_write_check(all.outputs[i]) : LS_OK;
        if (status != LS_OK) {
            return cli_fail(status);
        }
    }
    for (size_t i = 0; i < all.count; i++) {
        bool file = !all.folders[i] && !is_stdout(all.outputs[i]);
        if (file && is_input(&all, args, all.outputs[i])) {
            cli_error("'%s' would overwrite an input of this call", all.outputs[i]);
            return LS_EXIT_USAGE;
        }
    }
    return LS_EXIT_OK;
}
