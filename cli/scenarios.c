// Loading scenarios for the commands.
#include "cli/scenarios.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/machine.h"
#include "base/memory.h"
#include "cli/trace.h"
#include "orders/order.h"
#include "planner/plan_file.h"
#include "runner/scenario/memory_need.h"
#include "runner/launch/real.h"

#define PLAN_BYTES_MAX ((size_t)64 << 20)

int cli_plan_load(ls_plan *out, ls_arena *arena, const char *path) {
    char *text;
    size_t bytes;
    int status = ls_file_read(&text, &bytes, arena, path, PLAN_BYTES_MAX);
    if (status != LS_OK) {
        return cli_fail(status);
    }
    ls_text errors = {0};
    status = ls_plan_read(out, arena, &errors, path, text, bytes);
    if (status != LS_OK) {
        (void)fputs(ls_text_string(&errors), stderr);
        int code = errors.length ? LS_EXIT_USAGE : cli_fail(status);
        ls_text_free(&errors);
        return code;
    }
    ls_text_free(&errors);
    return LS_EXIT_OK;
}

static int check_options(const cli_run_options *options) {
    if (options->processes > 0 && !options->spread) {
        cli_error("--processes takes a number only with --on mpi: elsewhere each rank has its own "
                  "process");
        return LS_EXIT_USAGE;
    }
    ls_order *order = NULL;
    int status = options->order == NULL ? LS_OK : ls_order_parse(&order, options->order);
    ls_order_free(order);
    return status == LS_OK ? LS_EXIT_OK : cli_fail(status);
}

// BYTES, or a number of KiB, MiB, GiB or TiB as 512M or 16G.
static int parse_memory(uint64_t *out, const char *text) {
    static const char *const units = "KMGT";
    const char *end = NULL;
    uint64_t number = 0;
    bool good = cli_read_number(&number, &end, text);
    const char *unit = *end != 0 ? strchr(units, *end) : NULL;
    int shift = unit != NULL ? 10 * (int)(unit - units + 1) : 0;
    if (!good || (*end != 0 && (unit == NULL || end[1] != 0)) || number > UINT64_MAX >> shift) {
        return LS_FAIL(LS_ERR_INVALID, "--memory needs a number of bytes such as 16G, not '%s'",
                       text);
    }
    *out = number << shift;
    return LS_OK;
}

static int load_one(ls_scenario **out, const char *path, bool allow_outside) {
    ls_diagnostics *diagnostics = NULL;
    int status = ls_diagnostics_create(&diagnostics, path);
    if (status != LS_OK) {
        return cli_fail(status);
    }
    const ls_scenario_options options = {
        .allow_outside = allow_outside,
        .has_seed = cli_options_common.seed_given,
        .seed = cli_options_common.seed,
    };
    int code = LS_EXIT_OK;
    status = ls_scenario_load(out, diagnostics, path, &options);
    if (status != LS_OK) {
        ls_text text = {0};
        ls_diagnostics_format(&text, diagnostics);
        fputs(ls_text_string(&text), stderr);
        ls_text_free(&text);
        if (ls_diagnostics_count(diagnostics) == 0) {
            code = cli_fail(status);
        } else {
            code = status == LS_ERR_MEMORY ? LS_EXIT_ENVIRONMENT : LS_EXIT_USAGE;
        }
    }
    ls_diagnostics_free(diagnostics);
    return code;
}

int cli_scenarios_load(cli_scenarios *out, const cli_args *files, bool allow_outside) {
    int code = LS_EXIT_OK;
    *out = (cli_scenarios){.at = calloc((size_t)files->count + 1, sizeof(ls_scenario *))};
    if (out->at == NULL) {
        return cli_fail(LS_FAIL(LS_ERR_MEMORY, "cannot load %d scenarios", files->count));
    }
    for (int i = 0; i < files->count; i++) {
        int one = load_one(&out->at[out->count], files->values[i], allow_outside);
        if (one == LS_EXIT_OK) {
            out->count += 1;
        } else if (one > code) {
            code = one;
        }
    }
    if (code != LS_EXIT_OK) {
        cli_scenarios_free(out);
    }
    return code;
}

int cli_scenarios_check(const cli_args *files, bool allow_outside) {
    cli_scenarios scenarios;
    int code = cli_scenarios_load(&scenarios, files, allow_outside);
    if (code == LS_EXIT_OK) {
        cli_scenarios_free(&scenarios);
    }
    return code;
}

int cli_memory_limit(uint64_t *out, const cli_run_options *options) {
    *out = ls_machine_memory();
    if (options->memory != NULL && parse_memory(out, options->memory) != LS_OK) {
        return cli_fail(LS_ERR_INVALID);
    }
    // A smaller limit is refused with what the run needs; until then, there is memory to say so.
    ls_alloc_limit(*out < LS_MEMORY_LEAST ? LS_MEMORY_LEAST : *out);
    return LS_EXIT_OK;
}

static int load_to_run(cli_scenarios *out, const cli_args *files, const cli_run_options *options) {
    uint64_t limit = 0;
    int code = cli_memory_limit(&limit, options);
    code = code == LS_EXIT_OK ? check_options(options) : code;
    code = code == LS_EXIT_OK ? cli_scenarios_load(out, files, options->allow_outside) : code;
    for (int i = 0; code == LS_EXIT_OK && i < out->count; i++) {
        double need =
            options->shape_only ? ls_memory_need_of_shape(out->at[i]) : ls_memory_need(out->at[i]);
        int status = ls_memory_check(out->at[i], need, limit);
        if (status != LS_OK) {
            code = cli_fail(status);
            cli_scenarios_free(out);
        }
    }
    return code;
}

void cli_scenarios_free(cli_scenarios *scenarios) {
    for (int i = 0; i < scenarios->count; i++) {
        ls_scenario_free(scenarios->at[i]);
    }
    free(scenarios->at);
    *scenarios = (cli_scenarios){0};
}

// The folder is created with its first contents: a run that is killed leaves no empty one.
static int check_keep_dir(const char *dir, const cli_scenarios *scenarios) {
    if (dir == NULL) {
        return LS_EXIT_OK;
    }
    for (int i = 0; i < scenarios->count; i++) {
        char own[PATH_MAX];
        ls_real_recording_dir(own, sizeof own, dir, scenarios->at[i]);
        for (int k = 0; k < i; k++) {
            char other[PATH_MAX];
            ls_real_recording_dir(other, sizeof other, dir, scenarios->at[k]);
            if (strcmp(own, other) == 0) {
                cli_error("the recordings of %s and %s would both be \"%s\": their names must "
                          "differ in a letter, a digit, '.' or '_'",
                          scenarios->at[k]->file, scenarios->at[i]->file, own);
                return LS_EXIT_USAGE;
            }
        }
    }
    if (mkdir(dir, 0777) == 0) {
        (void)rmdir(dir);
    } else if (errno != EEXIST) {
        cli_error("cannot make the directory \"%s\": %s", dir, strerror(errno));
        return LS_EXIT_USAGE;
    }
    return LS_EXIT_OK;
}

int cli_scenarios_run(const cli_args *files, const cli_run_options *options, const char *keep_dir,
                      int (*work)(const cli_scenarios *scenarios, ls_device *device),
                      ls_device *device) {
    cli_scenarios scenarios;
    int code = load_to_run(&scenarios, files, options);
    CLI_TRY(code);
    code = check_keep_dir(keep_dir, &scenarios);
    code = code == LS_EXIT_OK ? work(&scenarios, device) : code;
    cli_scenarios_free(&scenarios);
    return code;
}

ls_run_options cli_run_options_of(const cli_run_options *options, const ls_text *command) {
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    int processes = cores > 0 ? (int)cores : 1;
    if (options->processes > 0) {
        processes = options->processes;
    }
    return (ls_run_options){
        .order = options->order,
        .deadline_seconds = options->deadline_seconds > 0 ? options->deadline_seconds : 60.0,
        .program_dir = cli_program_dir(),
        .mpiexec = LOCKSTEP_MPIEXEC,
        .processes = options->processes_given,
        .spread = options->spread ? processes : 0,
        .allow_outside = options->allow_outside,
        .shape_only = options->shape_only,
        .reproduce = command->failed ? NULL : ls_text_string(command),
    };
}

static int report_each(ls_results *results, const cli_scenarios *scenarios, const cli_each *each) {
    int status = LS_OK;
    for (int i = 0; status == LS_OK && i < scenarios->count; i++) {
        cli_progress(each->doing, i, scenarios->count);
        status = each->one(results, scenarios->at[i], &each->run);
    }
    cli_progress_end();
    int code = status == LS_OK ? cli_report(results) : cli_fail(status);
    if (each->run.pool != NULL) {
        status = ls_process_pool_end(each->run.pool);
        int ended = status == LS_OK ? LS_EXIT_OK : cli_fail(status);
        code = code == LS_EXIT_OK ? ended : code;
    }
    return code;
}

int cli_scenarios_each(const cli_scenarios *scenarios, cli_each *each, ls_text *reproduce) {
    ls_process_pool pool = {0};
    ls_results *results = NULL;
    int status = ls_results_create(&results, each->command);
    int code = status == LS_OK ? cli_trace_open(&each->run.trace, each->machine) : cli_fail(status);
    if (code == LS_EXIT_OK) {
        each->run.skip_too_few_gpus = scenarios->count > 1;
        each->run.pool = scenarios->count > 1 ? &pool : NULL;
        code = cli_trace_close(each->run.trace, report_each(results, scenarios, each));
    }
    ls_results_free(results);
    ls_text_free(reproduce);
    return code;
}

void cli_reproduce_options(ls_text *out, const cli_run_options *options) {
    if (options->order != NULL) {
        ls_text_puts(out, " --order ");
        ls_text_shell(out, options->order);
    }
    if (cli_options_common.seed_given) {
        ls_text_printf(out, " --seed %llu", (unsigned long long)cli_options_common.seed);
    }
    if (options->memory != NULL) {
        ls_text_puts(out, " --memory ");
        ls_text_shell(out, options->memory);
    }
    if (options->processes_given && !options->spread) {
        ls_text_puts(out, " --processes");
    }
    if (options->shape_only) {
        ls_text_puts(out, " --shape-only");
    }
    if (options->allow_outside) {
        ls_text_puts(out, " --allow-outside");
    }
}

const char *cli_program_dir(void) {
    static char path[PATH_MAX];
    ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1);
    if (length < 0) {
        return "";
    }
    path[length] = 0;
    char *slash = strrchr(path, '/');
    if (slash != NULL) {
        *slash = 0;
    }
    return path;
}
