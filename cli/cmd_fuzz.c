// lockstep fuzz: random scenarios (or given ones) in many ways, and what failed made small.
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/commands.h"
#include "cli/scenarios.h"
#include "fuzz/campaign.h"

#define CASES_DEFAULT 200

static struct {
    double minutes, seconds;
    bool minutes_given, seconds_given;
    int count;
    int first;
    int runs;
    int real;
    const char *keep;
    bool print;
    bool allow_outside;
} given = {.count = 0, .runs = 400};

static const char *const reals[] = {"none", "mpi", NULL};

static const cli_option options[] = {
    {CLI_INT, "count", &given.count, "N", .int_min = 1, .int_max = 1000000000,
     .help = "Number of random scenarios (default 200, or as many as there is time for)"},
    {CLI_DOUBLE, "minutes", &given.minutes, "M", .double_max = 1e7, .given = &given.minutes_given,
     .help = "Start no scenario after this many minutes"},
    {CLI_DOUBLE, "seconds", &given.seconds, "S", .double_max = CLI_SECONDS_MAX,
     .given = &given.seconds_given, .help = "Start no scenario after this many seconds"},
    {CLI_INT, "first", &given.first, "N", .int_min = 0, .int_max = 1000000000,
     .help = "Number of the first scenario (default 0)"},
    {CLI_CHOICE, "real", &given.real, "NAME", .choices = reals,
     .help = "Compare each scenario with real processes, too"},
    {CLI_STRING, "keep", &given.keep, "DIR", .output = CLI_OUTPUT_FOLDER,
     .help = "Write each minimised failure to a file in DIR"},
    {CLI_INT, "runs", &given.runs, "N", .int_min = 0, .int_max = 1000000,
     .help = "Minimise a failure with at most N runs (default 400; 0: do not minimise)"},
    {CLI_SWITCH, "print", &given.print, .help = "Print the scenario of --first and run nothing"},
    CLI_OUTSIDE_OPTION(given.allow_outside),
    {.long_name = NULL},
};

static int print_case(void) {
    ls_text text = {0};
    int status = ls_fuzz_case_text(&text, cli_options_common.seed, (uint32_t)given.first);
    int code = status == LS_OK ? cli_output("-", &text) : cli_fail(status);
    ls_text_free(&text);
    return code;
}

static void progress(void *arg, int done, int total) {
    (void)arg;
    cli_progress("trying", done, total);
}

static void tell_counts(const ls_fuzz_counts *counts) {
    const double mib = 1024.0 * 1024.0;
    cli_note("%llu cases, %llu runs; %llu injected: %llu found, %llu change no bit, %llu within "
             "rounding, %llu without effect",
             (unsigned long long)counts->cases, (unsigned long long)counts->trials,
             (unsigned long long)counts->injected, (unsigned long long)counts->found,
             (unsigned long long)counts->harmless, (unsigned long long)counts->rounding,
             (unsigned long long)counts->missed);
    cli_note("%.1f MiB after the first cases, %.1f MiB after the last",
             (double)counts->memory_first / mib, (double)counts->memory_last / mib);
}

static int fuzz(const cli_args *files) {
    ls_results *results = NULL;
    const ls_text nothing = {0};
    ls_run_options run =
        cli_run_options_of(&(cli_run_options){.allow_outside = given.allow_outside}, &nothing);
    const double seconds = given.minutes_given ? given.minutes * 60 : given.seconds;
    int total = seconds > 0 ? 1000000000 : CASES_DEFAULT;
    if (files->count > 0) {
        total = files->count;
    } else if (given.count > 0) {
        total = given.count;
    }
    const ls_fuzz_options campaign = {
        .seed = cli_options_common.seed,
        .first = files->count > 0 ? 0 : (uint32_t)given.first,
        .count = (uint32_t)total,
        .seconds = seconds,
        .files = files->values,
        .file_count = files->count,
        .real = given.real != 0,
        .runs_max = given.runs,
        .keep_dir = given.keep,
        .run = &run,
        .progress = progress,
    };
    ls_fuzz_counts counts = {0};
    int status = ls_results_create(&results, "fuzz");
    status = status == LS_OK ? ls_fuzz_run(results, &counts, &campaign) : status;
    cli_progress_end();
    int code = status == LS_OK ? LS_EXIT_OK : cli_fail(status);
    if (status == LS_OK || (results != NULL && results->failed > 0)) {
        int reported = cli_report(results);  // also what failed before it had to end
        code = status == LS_OK ? reported : code;
    }
    if (status == LS_OK && !cli_options_common.quiet) {
        tell_counts(&counts);
    }
    ls_results_free(results);
    return code;
}

static int run(const cli_args *args) {
    if (given.minutes_given && given.seconds_given) {
        cli_error("--minutes and --seconds exclude each other");
        return LS_EXIT_USAGE;
    }
    if ((given.minutes_given && !(given.minutes > 0)) ||
        (given.seconds_given && !(given.seconds > 0))) {
        cli_error("--%s needs a number above 0", given.minutes_given ? "minutes" : "seconds");
        return LS_EXIT_USAGE;
    }
    if (args->count > 0 && (given.count > 0 || given.first > 0 || given.print)) {
        cli_error("--count, --first and --print apply to random scenarios, not to files");
        return LS_EXIT_USAGE;
    }
    if (given.print) {
        return print_case();
    }
    if (given.keep != NULL && mkdir(given.keep, 0777) != 0 && errno != EEXIST) {
        cli_error("cannot make the directory \"%s\": %s", given.keep, strerror(errno));
        return LS_EXIT_USAGE;
    }
    int code = cli_scenarios_check(args, given.allow_outside);
    return code == LS_EXIT_OK ? fuzz(args) : code;
}

const cli_command cli_cmd_fuzz = {
    .name = "fuzz",
    .arguments = "[FILE...]",
    .arguments_max = -1,
    .summary = "Fuzz random scenarios and minimise failures",
    .details =
        "Generates random scenarios, the same ones for a seed. Each runs unchanged, under another "
        "reduction order, under other schedules, with other shardings and another order of its "
        "tables, over a field (prove), and with --real mpi against real processes. A share of them "
        "has an injected defect, which must be found or change nothing. A failure is minimised as "
        "long as it fails "
        "in the same way. With FILEs, these run instead of random ones.",
    .example = "lockstep fuzz --count 50 --seed 7 --keep found",
    .common = CLI_COMMON_REPORTS | CLI_COMMON_SEED,
    .options = options,
    .run = run,
};
