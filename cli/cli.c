// Diagnostics, outputs and the terminal, for all commands.
#include "cli/cli.h"
#include <stdio.h>
#include <limits.h>

#include <errno.h>
#include <langinfo.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/time.h"
#include "report/report.h"

cli_common cli_options_common;

static void diagnose(const char *kind, const char *format, va_list args) LS_PRINTF(2, 0);
static void diagnose(const char *kind, const char *format, va_list args) {
    cli_progress_end();
    (void)fflush(stdout);
    char sentence[2 * LS_ERROR_TEXT_MAX];
    (void)vsnprintf(sentence, sizeof sentence, format, args);
    ls_text plain = {0};  // names of files and what is quoted from them may be hostile
    ls_text_plain(&plain, sentence, strlen(sentence));
    (void)fprintf(stderr, "lockstep: %s: %s\n", kind, ls_text_string(&plain));
    ls_text_free(&plain);
}

void cli_error(const char *format, ...) {
    va_list args;
    va_start(args, format);
    diagnose("error", format, args);
    va_end(args);
}

void cli_note(const char *format, ...) {
    va_list args;
    va_start(args, format);
    diagnose("note", format, args);
    va_end(args);
}

int cli_exit_of(int status) {
    switch (status) {
    case LS_OK:
        return LS_EXIT_OK;
    case LS_ERR_MISMATCH:
    case LS_ERR_DEADLOCK:
    case LS_ERR_FINDING:
        return LS_EXIT_FINDING;
    default:  // invalid, overflow, io, format, unsupported, limit, not found
        return ls_status_is_environment(status) ? LS_EXIT_ENVIRONMENT : LS_EXIT_USAGE;
    }
}

int cli_fail(int status) {
    LS_ASSERT(status != LS_OK);
    const ls_error *error = ls_error_last();
    cli_error("%s", error->code != LS_OK ? error->text : ls_status_text(status));
    return cli_exit_of(status);
}

static bool terminal_capable(void) {
    const char *term = getenv("TERM");
    return isatty(STDOUT_FILENO) && term != NULL && strcmp(term, "dumb") != 0;
}

char **cli_arguments;

int cli_become(const char *program) {
    char path[PATH_MAX];
    ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1);
    char *slash = length > 0 ? (path[length] = 0, strrchr(path, '/')) : NULL;
    size_t room = slash != NULL ? sizeof path - (size_t)(slash + 1 - path) : 0;
    if (strlen(program) >= room) {
        cli_error("cannot find %s", program);
        return LS_EXIT_ENVIRONMENT;
    }
    (void)snprintf(slash + 1, room, "%s", program);
    if (access(path, X_OK) != 0) {
        cli_error("\"%s\" is missing: this build has no CUDA and NCCL", path);
        return LS_EXIT_ENVIRONMENT;
    }
    (void)execv(path, cli_arguments);
    cli_error("cannot run %s: %s", path, strerror(errno));
    return LS_EXIT_ENVIRONMENT;
}

bool cli_color_on(void) {
    switch (cli_options_common.color) {
    case CLI_COLOR_ALWAYS:
        return true;
    case CLI_COLOR_NEVER:
        return false;
    default:;
        const char *no_color = getenv("NO_COLOR");
        return terminal_capable() && (no_color == NULL || no_color[0] == 0);
    }
}

bool cli_unicode_on(void) {
    return terminal_capable() && strcmp(nl_langinfo(CODESET), "UTF-8") == 0;
}

static bool is_stdout(const char *path) {
    return path != NULL && strcmp(path, "-") == 0;
}

bool cli_stdout_taken(void) {
    const cli_common *common = &cli_options_common;
    return is_stdout(common->json) || is_stdout(common->junit) || is_stdout(common->report) ||
           is_stdout(common->trace);
}

int cli_output(const char *path, const ls_text *text) {
    LS_ASSERT(path != NULL);
    if (text->failed) {
        cli_error("out of memory while '%s' was assembled", path);
        return LS_EXIT_ENVIRONMENT;
    }
    if (!is_stdout(path)) {
        int status = ls_file_write(path, ls_text_string(text), text->length);
        return status == LS_OK ? LS_EXIT_OK : cli_fail(status);
    }
    cli_progress_end();
    bool written = fwrite(ls_text_string(text), 1, text->length, stdout) == text->length;
    if (fflush(stdout) != 0 || !written) {
        cli_error("cannot write to stdout: %s", strerror(errno));
        return LS_EXIT_ENVIRONMENT;
    }
    return LS_EXIT_OK;
}

int cli_print(const ls_text *text) {
    ls_text plain = {.failed = text->failed};
    ls_text_plain_lines(&plain, ls_text_string(text), text->length);
    int code = cli_output(cli_stdout_taken() ? "/dev/stderr" : "-", &plain);
    ls_text_free(&plain);
    return code;
}

// The exit code of the findings stands unless an output could not be written: a reader of that file
// would miss them.
static int worse(int a, int b) {
    if (a == LS_EXIT_OK || b == LS_EXIT_ENVIRONMENT) {
        return b != LS_EXIT_OK ? b : a;
    }
    return a;
}

typedef int report_writer(ls_text *out, const ls_results *results);

static int report_to(const char *path, report_writer *write, const ls_results *results) {
    if (path == NULL) {
        return LS_EXIT_OK;
    }
    ls_text text = {0};
    int status = write(&text, results);
    int code = status == LS_OK ? cli_output(path, &text) : cli_fail(status);
    ls_text_free(&text);
    return code;
}

int cli_report(const ls_results *results) {
    return cli_report_with(results, NULL, false);
}

int cli_report_with(const ls_results *results, const ls_text *summary, bool count_skips) {
    LS_ASSERT(results != NULL);
    bool summed_up = summary != NULL && summary->length > 0;
    const cli_common *common = &cli_options_common;
    cli_progress_end();
    int code = results->passed == 0 ? LS_EXIT_NOTHING : LS_EXIT_OK;
    if (results->environment != 0) {
        code = LS_EXIT_ENVIRONMENT;
    } else if (results->unusable != 0) {
        code = LS_EXIT_USAGE;
    } else if (results->failed != 0) {
        code = LS_EXIT_FINDING;
    }
    if (!cli_stdout_taken()) {
        ls_text text = {0};
        ls_report_style style = {.color = cli_color_on(),
                                 .unicode = cli_unicode_on(),
                                 .quiet = common->quiet,
                                 .summed_up = summed_up,
                                 .count_skips = count_skips};
        if (summed_up && !common->quiet) {
            code = worse(code, cli_print(summary));
        }
        int status = ls_report_text(&text, results, &style);
        code = worse(code, status == LS_OK ? cli_output("-", &text) : cli_fail(status));
        ls_text_free(&text);
    }
    code = worse(code, report_to(common->json, ls_report_json, results));
    return worse(code, cli_report_pages(results));
}

int cli_report_pages(const ls_results *results) {
    LS_ASSERT(results != NULL);
    int code = report_to(cli_options_common.junit, ls_report_junit, results);
    return worse(code, report_to(cli_options_common.report, ls_report_html, results));
}

// ---- progress -----------------------------------------------------------------------------------

#define PROGRESS_DELAY_MS  500
#define PROGRESS_PERIOD_MS 100
#define PROGRESS_CELLS     30

static struct {
    bool started, drawn;
    int64_t start_ms, last_ms;
} progress;

static int64_t now_ms(void) {
    return (int64_t)(ls_time_now() * 1000);
}

void cli_progress(const char *what, int done, int total) {
    LS_ASSERT(done >= 0 && done <= total);
    const char *term = getenv("TERM");
    if (cli_options_common.quiet || total == 0 || !isatty(STDERR_FILENO) || term == NULL ||
        strcmp(term, "dumb") == 0) {
        return;
    }
    int64_t now = now_ms();
    if (!progress.started) {
        progress.started = true;
        progress.start_ms = now;
    }
    if (now - progress.start_ms < PROGRESS_DELAY_MS ||
        (progress.drawn && now - progress.last_ms < PROGRESS_PERIOD_MS)) {
        return;
    }
    char bar[PROGRESS_CELLS + 1];
    int filled = (int)((int64_t)PROGRESS_CELLS * done / total);
    memset(bar, '.', PROGRESS_CELLS);
    memset(bar, '#', (size_t)filled);
    bar[PROGRESS_CELLS] = 0;
    (void)fprintf(stderr, "\r\033[K[%s] %d/%d %.40s", bar, done, total, what);
    (void)fflush(stderr);
    progress.drawn = true;
    progress.last_ms = now;
}

void cli_progress_end(void) {
    if (progress.drawn) {
        (void)fputs("\r\033[K", stderr);
        (void)fflush(stderr);
    }
    progress.started = false;
    progress.drawn = false;
}

bool cli_find_beside(char *out, size_t bytes, const char *name) {
    static const char *const places[] = {"", "../lib/", "../lib/lockstep/",
                                         "../lib/x86_64-linux-gnu/lockstep/", "../share/lockstep/"};
    char own[PATH_MAX];
    ssize_t length = readlink("/proc/self/exe", own, sizeof own - 1);
    own[length > 0 ? length : 0] = 0;
    char *slash = strrchr(own, '/');
    for (size_t i = 0; slash != NULL && i < sizeof places / sizeof *places; i++) {
        int wrote = snprintf(out, bytes, "%.*s/%s%s", (int)(slash - own), own, places[i], name);
        if (wrote > 0 && (size_t)wrote < bytes && access(out, R_OK) == 0) {
            return true;
        }
    }
    return false;
}

bool cli_find_program(char *out, size_t bytes, const char *name) {
    const char *path = getenv("PATH");
    while (path != NULL && *path != 0) {
        size_t length = strcspn(path, ":");
        int used = snprintf(out, bytes, "%.*s/%s", (int)length, path, name);
        struct stat facts;  // a build tree in PATH has folders named gdb and python
        if (used > 0 && (size_t)used < bytes && access(out, X_OK) == 0 && stat(out, &facts) == 0 &&
            S_ISREG(facts.st_mode)) {
            return true;
        }
        path += length + (path[length] == ':' ? 1 : 0);
    }
    return false;
}
