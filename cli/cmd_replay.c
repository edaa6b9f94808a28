// lockstep replay DIR: everything recorded in a directory, again in the simulator, compared.
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/commands.h"
#include "cli/scenarios.h"
#include "cli/trace.h"
#include "scenarios/runner/replay_nccl.h"
#include "scenarios/runner/replay_torch.h"

#define DEPTH_MAX 4  // of folders in folders

static struct {
    cli_run_options run;
    const char *machine;
} given;

static const cli_option options[] = {
    CLI_RUN_OPTIONS(given.run),
    CLI_MACHINE_OPTION(given.machine),
    {.long_name = NULL},
};

static bool has_file(const char *dir, const char *name) {
    char path[PATH_MAX];
    int length = snprintf(path, sizeof path, "%s/%s", dir, name);
    return length > 0 && (size_t)length < sizeof path && access(path, F_OK) == 0;
}

typedef struct replay {
    ls_results *results;
    ls_text summary;
    ls_trace *trace;  // NULL: none is wanted
} replay;

// One recording of ours: its own copy of the scenario, compared with what it recorded.
static int replay_recording(replay *to, const char *dir) {
    char path[PATH_MAX];
    bool beside_files = has_file(dir, LS_RECORDING_INPUTS "/scenario.yaml");
    int length = snprintf(path, sizeof path, "%s/%s", dir,
                          beside_files ? LS_RECORDING_INPUTS "/scenario.yaml" : "scenario.yaml");
    if (length < 0 || (size_t)length >= sizeof path) {
        return LS_FAIL(LS_ERR_IO, "the path \"%s\" is too long", dir);
    }
    const char *file = path;
    const cli_args args = {.count = 1, .values = &file};
    cli_scenarios scenarios;
    if (cli_scenarios_load(&scenarios, &args, given.run.allow_outside) != LS_EXIT_OK) {
        return LS_FAIL(LS_ERR_FORMAT, "the recording in \"%s\" has no usable scenario", dir);
    }
    ls_text command = {0};
    ls_text_printf(&command, "lockstep compare --real %s", dir);
    const ls_run_options run_options = cli_run_options_of(&given.run, ls_text_string(&command));
    int status = ls_run_compared(to->results, scenarios.at[0], dir, &run_options);
    ls_text_free(&command);
    cli_scenarios_free(&scenarios);
    LS_TRY(status);
    return ls_trace_recording(to->trace, dir);
}

static bool is_recording(const char *dir) {
    return has_file(dir, "manifest.json") && has_file(dir, "scenario.yaml");
}

static int compare_names(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

// The entries' names, sorted; the caller frees each and the array.
static int list_entries(char ***names, size_t *count, const char *dir) {
    *names = NULL;
    *count = 0;
    DIR *stream = opendir(dir);
    if (stream == NULL) {
        return LS_FAIL(LS_ERR_IO, "cannot read the directory \"%s\": %s", dir, strerror(errno));
    }
    for (struct dirent *entry = readdir(stream); entry != NULL; entry = readdir(stream)) {
        if (entry->d_name[0] == '.') {
            continue;
        }
        char **grown = realloc(*names, (*count + 1) * sizeof **names);
        char *name = strdup(entry->d_name);
        if (grown == NULL || name == NULL) {
            free(name);
            *names = grown != NULL ? grown : *names;
            (void)closedir(stream);
            return LS_FAIL(LS_ERR_MEMORY, "cannot list \"%s\"", dir);
        }
        *names = grown;
        (*names)[*count] = name;
        *count += 1;
    }
    (void)closedir(stream);
    if (*count > 1) {
        qsort(*names, *count, sizeof **names, compare_names);
    }
    return LS_OK;
}

static int replay_dir(replay *to, const char *dir, int depth);

static int replay_entries(replay *to, const char *dir, int depth) {
    char **names = NULL;
    size_t count = 0;
    int status = list_entries(&names, &count, dir);
    for (size_t i = 0; status == LS_OK && i < count; i++) {
        char path[PATH_MAX];
        int length = snprintf(path, sizeof path, "%s/%s", dir, names[i]);
        struct stat what;
        if (length > 0 && (size_t)length < sizeof path && stat(path, &what) == 0 &&
            S_ISDIR(what.st_mode)) {
            status = replay_dir(to, path, depth + 1);
        }
    }
    for (size_t i = 0; i < count; i++) {
        free(names[i]);
    }
    free(names);
    return status;
}

// A directory of NCCL results, of torch results, one recording, or a folder of any of these and of
// folders of them.
static int replay_dir(replay *to, const char *dir, int depth) {
    if (is_recording(dir)) {
        return replay_recording(to, dir);
    }
    if (ls_replay_nccl_recognises(dir)) {
        LS_TRY(ls_replay_nccl(to->results, &to->summary, dir, 0));
        return ls_trace_nccl(to->trace, dir);
    }
    if (ls_replay_torch_recognises(dir)) {
        return ls_replay_torch(to->results, dir);
    }
    return depth < DEPTH_MAX ? replay_entries(to, dir, depth) : LS_OK;
}

static int replay_all(replay *to, const cli_args *args) {
    int status = ls_results_create(&to->results, "replay");
    for (int i = 0; status == LS_OK && i < args->count; i++) {
        status = replay_dir(to, args->values[i], 0);
    }
    if (status == LS_OK) {
        return cli_report_with(to->results, &to->summary);
    }
    int code = cli_fail(status);
    return status == LS_ERR_IO || status == LS_ERR_FORMAT ? LS_EXIT_USAGE : code;
}

static int run(const cli_args *args) {
    int code = cli_outputs_check(NULL);
    if (code != LS_EXIT_OK) {
        return code;
    }
    replay to = {.results = NULL};
    code = cli_trace_open(&to.trace, given.machine);
    if (code != LS_EXIT_OK) {
        return code;
    }
    code = replay_all(&to, args);
    if (to.trace != NULL && ls_trace_sets(to.trace) == 0 && code != LS_EXIT_USAGE) {
        cli_note("nothing that was replayed records calls: the trace is empty");
    }
    ls_text_free(&to.summary);
    ls_results_free(to.results);
    return cli_trace_close(to.trace, code);
}

const cli_command cli_cmd_replay = {
    .name = "replay",
    .arguments = "DIR...",
    .arguments_min = 1,
    .arguments_max = -1,
    .summary = "Repeat everything recorded in a directory in the simulator, and compare",
    .details =
        "Reads recordings made by 'lockstep record', results of NCCL collectives "
        "(manifest.json and *.bin) and of torch (dtensor_*.json, embedding*.safetensors), also in "
        "folders of DIR. "
        "What is not supported counts as skipped, never as passed. The trace has the calls "
        "as they were recorded; torch's results record none.",
    .common = CLI_COMMON_REPORTS | CLI_COMMON_TRACE | CLI_COMMON_SEED,
    .options = options,
    .run = run,
};
