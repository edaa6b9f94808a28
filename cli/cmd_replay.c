// lockstep replay DIR: everything recorded in a directory, again in the simulator, compared.
#define _XOPEN_SOURCE 700
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "backends/kinds.h"
#include "cli/commands.h"
#include "cli/scenarios.h"
#include "cli/trace.h"
#include "runner/compare/recorded.h"
#include "runner/replay/import.h"
#include "runner/scenario/memory_need.h"

#define DEPTH_MAX 64  // of folders in folders

static struct {
    cli_run_options run;
    const char *machine;
    bool resharded, verbose;
} given;

static const cli_option options[] = {
    CLI_RUN_OPTIONS(given.run),
    CLI_MACHINE_OPTION(given.machine),
    {CLI_SWITCH, "resharded", &given.resharded,
     .help = "Also replay training with the tables sharded in other ways"},
    {CLI_SWITCH, "verbose", &given.verbose,
     .help = "Name every skipped case, even if many have the same reason"},
    {.long_name = NULL},
};

typedef struct visited {
    dev_t device;
    ino_t inode;
} visited;

typedef struct replay {
    ls_results *results;
    ls_text summary;
    ls_trace *trace;  // NULL: none is wanted
    uint64_t memory;  // that a run may take, in bytes
    visited *folders;
    int folder_count, folder_room;
} replay;

// ---- One folder ---------------------------------------------------------------------------------
// A recording of ours: its own copy of the scenario, compared with what it recorded. The scenario's
// own checks are for its author; a replay always compares.
static int replay_recording(replay *to, const char *dir, const ls_run_options *how) {
    ls_recording *recording = NULL;
    ls_scenario *scenario = NULL;
    LS_TRY(ls_recording_open(&recording, dir));
    int status = ls_recorded_scenario(&scenario, recording, dir, given.run.allow_outside);
    ls_recording_free(recording);
    LS_TRY(status);
    scenario->checks.real_off = false;
    if (scenario->checks.real > LS_CLASS_WITHIN_BOUND) {
        scenario->checks.real = LS_CLASS_WITHIN_BOUND;
    }
    if (cli_options_common.seed_given) {
        scenario->seed = cli_options_common.seed;
    }
    const ls_real_source real = {.dir = dir};
    status = ls_memory_check(scenario, ls_memory_need(scenario), to->memory);
    status = status == LS_OK ? ls_run_compared(to->results, scenario, &real, how) : status;
    ls_scenario_free(scenario);
    LS_TRY(status);
    return ls_trace_recording(to->trace, dir);
}

static int replay_folder(bool *recording, replay *to, const char *dir) {
    ls_text command = {0};
    ls_text_puts(&command, "lockstep replay");
    cli_reproduce_options(&command, &given.run);
    ls_text_puts(&command, given.resharded ? " --resharded" : "");
    ls_run_options how = cli_run_options_of(&given.run, &command);
    how.resharded = given.resharded;
    how.reproduce_of = dir;
    ls_run_options traced = how;  // a recording's own calls are traced
    traced.trace = to->trace;
    int status = ls_import_dir(to->results, &to->summary, recording, dir, &traced);
    if (status == LS_OK && *recording) {
        status = replay_recording(to, dir, &how);
    }
    ls_text_free(&command);
    return status;
}

// ---- Folders in folders -------------------------------------------------------------------------
// A result that cannot be replayed is a failed case, and the others continue.
static int add_unusable(replay *to, const char *path) {
    ls_arena *arena = to->results->arena;
    ls_case_result result = {
        .name = ls_arena_strdup(arena, path),
        .file = ls_arena_strdup(arena, path),
        .backend = ls_backend_kind_sim.name,
        .real = "recording",
        .reproduce = ls_result_command(arena, "lockstep replay", path),
    };
    ls_case_result_set_error(&result, arena);
    LS_TRY_MEMORY(result.name != NULL && result.file != NULL && result.reproduce != NULL &&
                  result.error != NULL);
    ls_error_clear();
    return ls_results_add(to->results, &result);
}

// *seen: the folder was visited before, on another way (a link to it, or the same argument again).
static int visit(bool *seen, replay *to, const struct stat *folder) {
    *seen = false;
    for (int i = 0; i < to->folder_count && !*seen; i++) {
        *seen = to->folders[i].device == folder->st_dev && to->folders[i].inode == folder->st_ino;
    }
    if (!*seen) {
        visited *grown = ls_arena_grow(to->results->arena, to->folders, to->folder_count,
                                       &to->folder_room, sizeof *grown);
        LS_TRY_MEMORY(grown != NULL);
        to->folders = grown;
        to->folders[to->folder_count++] = (visited){folder->st_dev, folder->st_ino};
    }
    return LS_OK;
}

static int not_here(const struct dirent *entry) {
    return strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
}

static int replay_path(replay *to, const char *path, int depth);

// The folders in `dir`, by name; not the inputs that a recording keeps for its scenario.
static int replay_inner(replay *to, const char *dir, bool recording, int depth) {
    struct dirent **entries = NULL;
    int count = scandir(dir, &entries, not_here, alphasort);
    if (count < 0) {
        return LS_FAIL(ls_status_of_errno(errno), "cannot read the folder '%s': %s", dir,
                       strerror(errno));
    }
    int status = LS_OK;
    for (int i = 0; i < count; i++) {
        char path[PATH_MAX];
        int length = snprintf(path, sizeof path, "%s/%s", dir, entries[i]->d_name);
        bool fits = length > 0 && (size_t)length < sizeof path;
        if (status == LS_OK && !fits) {
            (void)LS_FAIL(LS_ERR_LIMIT, "a path in '%.200s...' is too long", dir);
            status = add_unusable(to, dir);
        } else if (status == LS_OK &&
                   !(recording && strcmp(entries[i]->d_name, LS_RECORDING_INPUTS) == 0)) {
            status = replay_path(to, path, depth + 1);
        }
        free(entries[i]);
    }
    free(entries);
    return status;
}

static int replay_dir(replay *to, const char *dir, const struct stat *about, int depth) {
    bool seen = false;
    LS_TRY(visit(&seen, to, about));
    if (seen) {
        cli_note("%s: this folder was already replayed", dir);
        return LS_OK;
    }
    if (depth > DEPTH_MAX) {
        return LS_FAIL(LS_ERR_LIMIT, "'%s' is deeper than %d folders", dir, DEPTH_MAX);
    }
    bool recording = false;
    int status = replay_folder(&recording, to, dir);
    bool unreadable = status == LS_ERR_IO;
    if (status != LS_OK && status != LS_ERR_MEMORY) {
        status = add_unusable(to, dir);
    }
    LS_TRY(status);
    status = replay_inner(to, dir, recording, depth);
    return unreadable && status == LS_ERR_IO ? LS_OK : status;  // was reported
}

// A folder, and the folders in it. Files of other kinds are none of ours.
static int replay_path(replay *to, const char *path, int depth) {
    struct stat about;
    int status = LS_OK;
    if (stat(path, &about) != 0) {
        status = LS_FAIL(ls_status_of_errno(errno), "cannot read '%s': %s", path, strerror(errno));
    } else if (S_ISDIR(about.st_mode)) {
        status = replay_dir(to, path, &about, depth);
    } else if (depth == 0) {
        status = LS_FAIL(LS_ERR_FORMAT, "'%s' is not a folder", path);
    }
    return status == LS_OK || status == LS_ERR_MEMORY ? status : add_unusable(to, path);
}

static int replay_all(replay *to, const cli_args *args) {
    int status = ls_results_create(&to->results, "replay");
    for (int i = 0; status == LS_OK && i < args->count; i++) {
        status = replay_path(to, args->values[i], 0);
    }
    return status == LS_OK ? cli_report_with(to->results, &to->summary, !given.verbose)
                           : cli_fail(status);
}

static int run(const cli_args *args) {
    replay to = {.results = NULL};
    int code = cli_memory_limit(&to.memory, &given.run);
    CLI_TRY(code == LS_EXIT_OK ? cli_trace_open(&to.trace, given.machine) : code);
    code = replay_all(&to, args);
    if (to.trace != NULL && ls_trace_sets(to.trace) == 0 && code != LS_EXIT_USAGE) {
        cli_note("no replayed recording contains calls: the trace is empty");
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
    .summary = "Repeat all recordings of a directory in the simulator and compare",
    .details =
        "Reads recordings of 'lockstep record' and 'lockstep exec', and results of NCCL "
        "collectives (manifest.json and *.bin), torch (dtensor_*.json, embedding*.safetensors) and "
        "TorchRec. It searches all folders below DIR, each once. Unsupported results are skipped "
        "and never pass; unreadable ones fail. Skipped cases with the same reason share one line; "
        "the JSON report lists each case.",
    .example = "lockstep replay kept --junit results.xml",
    .common = CLI_COMMON_REPORTS | CLI_COMMON_TRACE | CLI_COMMON_SEED,
    .options = options,
    .run = run,
};
