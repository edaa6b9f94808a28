// lockstep extract DUMP...: the calls that the finding of a hung job needs, as a small scenario or
// C program.
#include <string.h>

#include "cli/cli.h"
#include "cli/commands.h"
#include "cli/dumps.h"
#include "diagnose/extract.h"

static const char *python, *output;
static bool as_program;

static const cli_option options[] = {
    {CLI_SWITCH, "c", &as_program,
     .help = "Write a C program for lockstep spmd instead of a scenario"},
    {CLI_STRING, "output", &output, "FILE", .short_name = 'o', .output = CLI_OUTPUT_FILE,
     .help = "Write to FILE (default: stdout)"},
    CLI_PYTHON_OPTION(python),
    {.long_name = NULL},
};

// The finding's first sentence, with its place, as a comment.
static const char *comment_of(ls_arena *arena, const ls_finding *finding, const json_t *tree) {
    const int length = (int)strcspn(finding->text != NULL ? finding->text : "", "\n");
    const char *text = finding->text != NULL ? finding->text : "";
    if (!as_program) {
        return ls_arena_printf(arena, "# %s: %.*s\n", ls_finding_name(finding->id), length, text);
    }
    ls_text command = {0};
    const json_t *shape = json_object_get(json_object_get(tree, "mesh"), "shape");
    const json_t *faults = json_object_get(tree, "faults");
    ls_text_printf(&command, "lockstep spmd -n %d",
                   (int)json_integer_value(json_array_get(shape, 0)));
    for (size_t i = 0; i < json_array_size(faults); i++) {
        const json_t *fault = json_array_get(faults, i);
        ls_text_printf(&command, "%s%s@%d:%d", i == 0 ? " --faults " : ",",
                       json_string_value(json_object_get(fault, "type")),
                       (int)json_integer_value(json_object_get(fault, "rank")),
                       (int)json_integer_value(json_object_get(fault, "call")));
    }
    const char *line = ls_arena_printf(
        arena,
        "// %s: %.*s\n// cc -g -shared -fPIC extracted.c -o extracted.so $(pkg-config --cflags "
        "--libs lockstep)\n// %s ./extracted.so\n",
        ls_finding_name(finding->id), length, text, ls_text_string(&command));
    ls_text_free(&command);
    return line;
}

static int write_extract(const json_t *tree, const ls_finding *finding, ls_arena *arena) {
    ls_text text = {0};
    const char *comment = comment_of(arena, finding, tree);
    if (comment == NULL) {
        return cli_fail(LS_ERR_MEMORY);
    }
    if (as_program) {
        ls_extract_write_program(&text, tree, comment);
    } else {
        ls_extract_write_scenario(&text, tree, comment);
    }
    const int code = output != NULL ? cli_output(output, &text) : cli_print(&text);
    ls_text_free(&text);
    return code;
}

static int extract(const ls_history *history, const ls_finding *finding) {
    ls_arena *arena = NULL;
    json_t *tree = NULL;
    int status = ls_arena_create(&arena);
    status = status == LS_OK ? ls_history_extract(&tree, history, finding->id, arena) : status;
    int code = status == LS_OK ? LS_EXIT_OK : cli_fail(status);
    if (code == LS_EXIT_OK && tree == NULL) {
        cli_error(
            "no scenario of these calls reproduces %s; lockstep diagnose explains the finding",
            ls_finding_name(finding->id));
        code = LS_EXIT_FINDING;
    } else if (code == LS_EXIT_OK) {
        code = write_extract(tree, finding, arena);
    }
    json_decref(tree);
    ls_arena_free(arena);
    return code;
}

static int run(const cli_args *args) {
    ls_history *history = NULL;
    ls_spmd_result *found = NULL;
    int code = cli_dumps_explain(&history, &found, args, python, NULL);
    if (code == LS_EXIT_OK && ls_spmd_finding_count(found) == 0) {
        cli_error("the calls agree: there is no finding to extract");
        code = LS_EXIT_NOTHING;
    } else if (code == LS_EXIT_OK) {
        code = extract(history, ls_spmd_finding(found, 0));
    }
    ls_spmd_result_free(found);
    ls_history_free(history);
    return code;
}

const cli_command cli_cmd_extract = {
    .name = "extract",
    .arguments = "DUMP...",
    .arguments_min = 1,
    .arguments_max = -1,
    .summary = "Make a small scenario, or C program, with the finding of a hung job",
    .details = "Reads dumps as diagnose does. Writes a minimised scenario of the calls that cause "
               "the finding: lockstep run shows it, lockstep gdb steps through it. Exit code 5: "
               "the calls agree.",
    .example = "lockstep extract kept/rank_* > hang.yaml",
    .common = 0,
    .options = options,
    .run = run,
};
