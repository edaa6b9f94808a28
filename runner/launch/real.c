// Starts the processes of a real run, waits for them under a deadline, and reads their recording;
// or reads an earlier recording.
#define _XOPEN_SOURCE 700
#include "runner/launch/real.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "collectives/check.h"
#include "orders/order.h"
#include "runner/launch/process_pool.h"
#include "process/reaper.h"
#include "runner/launch/launch.h"
#include "runner/compare/recorded.h"
#include "runner/program/run_rank.h"
#include "runner/scenario/scenario_files.h"
#include "runner/scenario/stage_names.h"

#define OUTPUT_LINES_MAX 12  // of a failed run's output

// The temporary directory of one real run: the recording being made and the ranks' marks.
struct scratch {
    char recording[PATH_MAX];
    char marks[PATH_MAX];
    ls_reaper reaper;  // removes the directory when this process ends, in whatever way
};

static int fill(char out[PATH_MAX], const char *path, const char *below) {
    int length = snprintf(out, PATH_MAX, "%s%s", path, below);
    return length < PATH_MAX ? LS_OK : LS_FAIL(LS_ERR_IO, "the path \"%.100s\" is too long", path);
}

static int make_dir(const char *path) {
    if (mkdir(path, 0777) != 0) {
        return LS_FAIL(ls_status_of_errno(errno), "cannot make the directory \"%s\": %s", path,
                       strerror(errno));
    }
    return LS_OK;
}

// A recording that is kept is written beside its final path, so that publishing it is one rename.
static int scratch_create(struct scratch *scratch, const char *keep_dir) {
    LS_TRY(ls_reaper_make(&scratch->reaper, keep_dir));
    int status = fill(scratch->recording, scratch->reaper.dir, "/recording");
    status = status == LS_OK ? fill(scratch->marks, scratch->reaper.dir, "/marks") : status;
    status = status == LS_OK ? make_dir(scratch->recording) : status;
    status = status == LS_OK ? make_dir(scratch->marks) : status;
    if (status != LS_OK) {
        ls_reaper_remove(&scratch->reaper);
    }
    return status;
}

// The last lines of a run's output, for the error.
static const char *last_lines(const ls_text *output) {
    const char *start = ls_text_string(output);
    const char *at = start + output->length;
    int lines = 0;
    while (at > start && lines <= OUTPUT_LINES_MAX) {
        at -= 1;
        lines += *at == '\n';
    }
    return at;
}

// The word before "run" in sentences.
static const char *name_of(const ls_real_request *request) {
    return ls_real_spread(request) > 0 ? "spread" : request->source.backend->name;
}

static int note_death(const ls_launch_result *launched, const ls_real_request *request,
                      ls_arena *arena, ls_finding *finding, bool *found) {
    int *ranks = ls_arena_alloc(arena, 1, sizeof *ranks);
    int spread = ls_real_spread(request);
    const char *who = spread > 0 ? ls_arena_printf(arena, "process %d of the %d of the spread run",
                                                   launched->died_rank, spread)
                                 : ls_arena_printf(arena, "rank %d of the %s run",
                                                   launched->died_rank, name_of(request));
    const char *text = launched->died_signal != 0
                           ? ls_arena_printf(arena, "%s was ended by signal %d (%s) after %.1f s",
                                             who, launched->died_signal,
                                             strsignal(launched->died_signal), launched->seconds)
                           : ls_arena_printf(arena, "%s ended early, after %.1f s\n%s", who,
                                             launched->seconds, last_lines(&launched->output));
    LS_TRY_MEMORY(ranks != NULL && who != NULL && text != NULL);
    if (spread > 0) {  // no rank died
        return LS_FAIL(LS_ERR_RANK_DIED, "%s", text);
    }
    ranks[0] = launched->died_rank;
    *finding = (ls_finding){
        .id = LS_FINDING_RANK_DIED, .ranks = ranks, .rank_count = 1, .where = "", .text = text};
    *found = true;
    return LS_FAIL_RANK(launched->died_injected ? LS_ERR_FINDING : LS_ERR_RANK_DIED,
                        launched->died_rank, "%s", text);
}

// The status of a finished launch. A rank that ended with an error reported it; a spread simulation
// fails like any simulation.
static int judge_launch(const ls_launch_result *launched, const ls_real_request *request,
                        const char *marks, ls_arena *arena, ls_finding *finding, bool *found) {
    const char *name = name_of(request);
    if (launched->hung) {
        return LS_FAIL(LS_ERR_DEADLOCK, "the %s run hangs", name);
    }
    if (launched->timed_out) {
        return LS_FAIL(LS_ERR_TIMEOUT,
                       "the %s run had not ended after %.0f s and was killed; %s%s%s", name,
                       launched->seconds, ls_text_string(&launched->seen),
                       launched->output.length > 0 ? "it printed:\n" : "its ranks printed nothing",
                       last_lines(&launched->output));
    }
    // A rank that ends with a report takes the others and the launcher with it, unless a signal
    // ended one before.
    char told[LS_ERROR_TEXT_MAX];
    int code = LS_OK;
    if (launched->exit_code != 0 && ls_launch_error(&code, told, sizeof told, marks,
                                                    request->scenario->ranks, &launched->died_at)) {
        return ls_real_spread(request) > 0
                   ? LS_FAIL(code, "%s", told)
                   : LS_FAIL(LS_ERR_BACKEND, "the %s run failed: %s", name, told);
    }
    if (launched->launcher_died) {
        return LS_FAIL(LS_ERR_BACKEND,
                       "the launcher of the %s run (%s, or a process that starts ranks for it) "
                       "ended before the ranks were done; no rank is at fault%s%s",
                       name, request->options->mpiexec,
                       launched->output.length > 0 ? "; it printed:\n" : "",
                       last_lines(&launched->output));
    }
    if (launched->died_rank != LS_RANK_NONE && launched->died_signal != 0) {
        return note_death(launched, request, arena, finding, found);
    }
    if (launched->exit_code != 0 && launched->started == 0 && !ls_real_one_process(request)) {
        return LS_FAIL(LS_ERR_BACKEND,
                       "the launcher of the %s run (%s) failed with exit code %d before a rank had "
                       "started:\n%s",
                       name, request->options->mpiexec, launched->exit_code,
                       last_lines(&launched->output));
    }
    if (launched->exit_code != 0) {
        return LS_FAIL(LS_ERR_BACKEND, "the %s run failed with exit code %d:\n%s", name,
                       launched->exit_code, last_lines(&launched->output));
    }
    if (launched->died_rank != LS_RANK_NONE) {
        return note_death(launched, request, arena, finding, found);
    }
    return LS_OK;
}

// Runs it on processes of `process pool`. They stay for the next run unless the run failed or
// injected defects, which may leave messages behind.
static int run_on(ls_launch_result *launched, ls_process_pool *pool, const struct scratch *scratch,
                  const ls_real_request *request) {
    // The starting process has checked paths outside of the scenario's folder.
    ls_launch_run run = {.seed = request->scenario->seed,
                         .deadline_seconds = request->options->deadline_seconds,
                         .own_calls = request->own_calls};
    LS_TRY(fill(run.scenario, request->scenario->file, ""));
    LS_TRY(fill(run.recording, scratch->recording, ""));
    LS_TRY(fill(run.marks, scratch->marks, ""));
    LS_TRY(fill(run.order, request->options->order != NULL ? request->options->order : "", ""));
    ls_process_set *set = NULL;
    LS_TRY(ls_process_pool_take(&set, pool, request));
    int spread = ls_real_spread(request);
    int status = ls_process_set_run(launched, set, &run,
                                    spread > 0 ? spread : request->scenario->ranks, &request->hang);
    int given = ls_process_pool_give_back(pool, set, status == LS_OK && !request->own_calls);
    if (status == LS_OK && given != LS_OK) {
        ls_launch_result_free(launched);
    }
    return status == LS_OK ? given : status;
}

static int judge_run(const ls_launch_result *launched, const struct scratch *scratch,
                     const ls_real_request *request, ls_arena *arena, ls_finding *finding,
                     bool *found) {
    int ranks = request->scenario->ranks;
    if (ls_launch_finding(finding, scratch->marks, ranks, arena)) {
        *found = true;
        return LS_FAIL(LS_ERR_FINDING, "%s", finding->text);
    }
    return judge_launch(launched, request, scratch->marks, arena, finding, found);
}

static int launch(const struct scratch *scratch, const ls_real_request *request, ls_arena *arena,
                  ls_finding *finding, bool *found) {
    ls_process_pool own = {0};
    ls_process_pool *pool = request->options->pool != NULL ? request->options->pool : &own;
    ls_launch_result launched;
    int status = run_on(&launched, pool, scratch, request);
    if (status == LS_OK) {
        status = judge_run(&launched, scratch, request, arena, finding, found);
        ls_launch_result_free(&launched);
    }
    int ended = ls_process_pool_end(&own);
    status = status == LS_OK ? ended : status;
    char too_few[LS_ERROR_TEXT_MAX];
    if (status != LS_OK &&
        ls_launch_too_few(too_few, sizeof too_few, scratch->marks, request->scenario->ranks)) {
        *request->too_few_gpus = true;
        status = LS_FAIL(LS_ERR_BACKEND, "%s", too_few);
    }
    return status;
}

// All ranks in this process.
static int run_here(const struct scratch *scratch, const ls_real_request *request, ls_arena *arena,
                    ls_finding *finding, bool *found) {
    const ls_scenario *scenario = request->scenario;
    const char *stated =
        request->options->order != NULL ? request->options->order : scenario->order;
    const ls_world_options options = {.mesh = scenario->mesh, .seed = scenario->seed};
    struct ls_device *device = request->options->device;
    ls_world *world = NULL;
    ls_backend *backend = NULL;
    ls_order *order = NULL;
    int status = stated != NULL ? ls_order_parse(&order, stated) : LS_OK;
    status = status == LS_OK ? ls_world_create_on(&world, &options, device) : status;
    status = status == LS_OK ? request->source.backend->open(&backend, world, device) : status;
    if (status == LS_OK) {
        const ls_rank_run run = {
            .scenario = scenario, .backend = backend, .dir = scratch->recording};
        backend->order = order;
        status = ls_run_rank(&run, arena, finding, found);
    }
    ls_backend_free(backend);
    ls_world_free(world);
    ls_order_free(order);
    return status;
}

static int read_imported(ls_stages *stages, const ls_real_request *request) {
    const ls_imported *imported = request->source.imported;
    ls_scenario_stages named = {request->scenario, ls_stages_sink(stages)};
    const ls_stage_sink sink = ls_scenario_stages_sink(&named);
    if (imported->order != NULL) {
        LS_TRY(ls_call_orders_of_text(request->orders, imported->order, imported->channels));
    }
    return imported->read(imported->arg, &sink);
}

// Reads the requested parts of the recording.
static int take(ls_stages *stages, const ls_recording *recording, const ls_real_request *request) {
    if (request->orders != NULL) {
        LS_TRY(ls_call_orders_create(request->orders, recording));
    }
    if (stages == NULL) {
        return LS_OK;
    }
    ls_scenario_stages named = {request->scenario, ls_stages_sink(stages)};
    const ls_stage_sink sink = ls_scenario_stages_sink(&named);
    LS_TRY(ls_recording_read(recording, &sink));
    return ls_stages_arrange(stages, request->scenario);
}

// `foreign`: it was not made by this command from this scenario.
static int read_recording(ls_stages *stages, const char *dir, const ls_real_request *request,
                          bool foreign) {
    ls_recording *recording = NULL;
    LS_TRY(ls_recording_open(&recording, dir));
    int status = foreign ? ls_recorded_check(recording, dir, request->scenario,
                                             request->options->allow_outside)
                         : LS_OK;
    status = status == LS_OK ? take(stages, recording, request) : status;
    if (status == LS_OK && request->calls != NULL) {
        *request->calls = recording;
    } else {
        ls_recording_free(recording);
    }
    return status;
}

static bool is_recording(const char *dir) {
    char path[PATH_MAX];
    int length = snprintf(path, sizeof path, "%s/manifest.json", dir);
    return length > 0 && (size_t)length < sizeof path && access(path, F_OK) == 0;
}

// A directory of recordings has one for each scenario, by its name; it may also be a single
// recording.
static int read_existing(ls_stages *stages, const char *dir, const ls_real_request *request) {
    if (is_recording(dir)) {
        return read_recording(stages, dir, request, true);
    }
    char path[PATH_MAX];
    ls_real_recording_dir(path, sizeof path, dir, request->scenario);
    return read_recording(stages, path, request, true);
}

// A recording replaces only one of the same scenario name: different names may map to the same
// folder.
static int check_place(const char *dir, const ls_scenario *scenario) {
    ls_recording *earlier = NULL;
    if (!is_recording(dir)) {
        return LS_OK;
    }
    int status = ls_recording_open(&earlier, dir);
    if (status != LS_OK) {
        return status == LS_ERR_MEMORY ? status : (ls_error_clear(), LS_OK);  // publishing decides
    }
    if (strcmp(ls_recording_about(earlier)->name, scenario->name) != 0) {
        status = LS_FAIL(LS_ERR_LIMIT,
                         "\"%s\" holds a recording of another scenario, \"%.100s\"; lockstep does "
                         "not replace it with one of \"%.100s\"",
                         dir, ls_recording_about(earlier)->name, scenario->name);
    }
    ls_recording_free(earlier);
    return status;
}

void ls_real_recording_dir(char *out, size_t out_bytes, const char *dir,
                           const ls_scenario *scenario) {
    char name[128];
    size_t length = 0;
    bool gap = false;
    for (const char *c = scenario->name; *c != 0 && length + 2 < sizeof name; c++) {
        bool plain = (*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z') ||
                     (*c >= '0' && *c <= '9') || *c == '.' || *c == '_';
        plain = plain && !(length == 0 && *c == '.');
        if (plain && gap && length > 0) {
            name[length++] = '-';
        }
        if (plain) {
            name[length++] = *c;
        }
        gap = !plain;
    }
    name[length] = 0;
    (void)snprintf(out, out_bytes, "%s/%s", dir, length > 0 ? name : "scenario");
}

// Copies the files that the scenario reads into the recording and moves it to its final path.
static int keep(const struct scratch *scratch, const ls_scenario *scenario, const char *dir) {
    char inputs[PATH_MAX];
    int length = snprintf(inputs, sizeof inputs, "%s/" LS_RECORDING_INPUTS, scratch->recording);
    if (length < 0 || (size_t)length >= sizeof inputs) {
        return LS_FAIL(LS_ERR_IO, "the path of \"%s\" is too long", scratch->recording);
    }
    LS_TRY(ls_scenario_copy_files(scenario, inputs));
    return ls_recording_publish(scratch->recording, dir);
}

int ls_real_run(ls_stages *stages, const ls_real_request *request, ls_arena *arena,
                ls_finding *finding, bool *found) {
    *found = false;
    const ls_backend_kind *backend = request->source.backend;
    if (request->source.imported != NULL) {
        return read_imported(stages, request);
    }
    if (backend == NULL) {
        return read_existing(stages, request->source.dir, request);
    }
    char place[PATH_MAX];
    bool kept = request->options->keep_dir != NULL;
    if (kept) {
        ls_real_recording_dir(place, sizeof place, request->options->keep_dir, request->scenario);
        LS_TRY(check_place(place, request->scenario));
    }
    struct scratch scratch;
    LS_TRY(scratch_create(&scratch, kept ? place : NULL));
    int status = backend->open != NULL && ls_real_spread(request) == 0
                     ? run_here(&scratch, request, arena, finding, found)
                     : launch(&scratch, request, arena, finding, found);
    if (status == LS_OK && stages != NULL && ls_real_spread(request) > 0) {
        status = ls_stages_to_file(stages, scratch.reaper.dir);
    }
    status = status == LS_OK ? read_recording(stages, scratch.recording, request, false) : status;
    if (status == LS_OK && kept) {
        status = keep(&scratch, request->scenario, place);
    }
    ls_reaper_remove(&scratch.reaper);
    return status;
}
