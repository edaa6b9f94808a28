// lockstep doctor: what this build and this machine can do, and why not.
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/machine.h"
#include "base/version.h"
#include "cli/cli.h"
#include "cli/commands.h"
#include "cli/scenarios.h"
#include "formats/json.h"
#include "process/child.h"
#ifdef LOCKSTEP_WITH_NCCL
#include "backends/nccl/nccl.h"
#include "kernels/cuda/device.h"
#include "formats/json.h"
#endif

#define CHECKS_MAX 16
#define TEXT_MAX   512

typedef struct check {
    const char *name;
    const char *kind;  // "build", "backend", "device", "machine" or "tool"
    bool available;
    char text[TEXT_MAX];  // description, or the reason why it is missing
} check;

typedef struct checks {
    check rows[CHECKS_MAX];
    int count;
} checks;

static void add(checks *list, const char *kind, const char *name, bool available,
                const char *format, ...) LS_PRINTF(5, 6);
static void add(checks *list, const char *kind, const char *name, bool available,
                const char *format, ...) {
    LS_ASSERT(list->count < CHECKS_MAX);
    check *row = &list->rows[list->count++];
    row->name = name;
    row->kind = kind;
    row->available = available;
    va_list args;
    va_start(args, format);
    (void)vsnprintf(row->text, sizeof row->text, format, args);
    va_end(args);
}

// Replaces every run of spaces by one.
static void squeeze(char *text) {
    char *to = text;
    for (const char *from = text; *from != 0; from++) {
        if (*from != ' ' || from[1] != ' ') {
            *to++ = *from;
        }
    }
    *to = 0;
}

// The first line that `program argument` prints on stdout and that contains `needle`; "" if none.
static void program_line(char *out, size_t out_bytes, const char *program, const char *argument,
                         const char *needle) {
    out[0] = 0;
    int ends[2];
    if (pipe(ends) != 0) {
        return;
    }
    pid_t child = ls_child_fork(SIGKILL);
    if (child == 0) {
        (void)dup2(ends[1], STDOUT_FILENO);
        (void)close(ends[0]);
        (void)close(ends[1]);
        (void)alarm(10);  // survives exec: a program that hangs is ended
        (void)execl(program, program, argument, (char *)NULL);
        _exit(127);
    }
    (void)close(ends[1]);
    FILE *stream = child > 0 ? fdopen(ends[0], "r") : NULL;
    if (stream == NULL) {
        (void)close(ends[0]);
        return;
    }
    char line[TEXT_MAX];
    while (fgets(line, sizeof line, stream) != NULL) {
        if (out[0] == 0 && strstr(line, needle) != NULL) {
            line[strcspn(line, "\n")] = 0;
            (void)snprintf(out, out_bytes, "%s", line + strspn(line, " "));
            squeeze(out);
        }
    }
    (void)fclose(stream);
    ls_child_wait(child, NULL);
}

static void check_tool(checks *list, const char *name, const char *package, const char *use) {
    char path[PATH_MAX];
    char version[128];
    if (!cli_find_program(path, sizeof path, name)) {
        add(list, "tool", name, false, "not in PATH; for %s: apt-get install %s", use, package);
        return;
    }
    program_line(version, sizeof version, path, "--version", "");
    add(list, "tool", name, true, "%.300s (%s)", path, version);
}

// The path of a program in this program's folder, where it can be run.
static bool beside_this(char *out, size_t out_bytes, const char *name) {
    int used = snprintf(out, out_bytes, "%s/%s", cli_program_dir(), name);
    return used > 0 && (size_t)used < out_bytes && access(out, X_OK) == 0;
}

static void add_missing(checks *list, const ls_backend_kind *kind) {
    add(list, "backend", kind->name, false, "this build has no %s: %s",
        kind->threads_program != NULL ? kind->threads_program : kind->program, kind->about);
}

// A backend with a process per rank, which mpiexec starts.
static void check_processes(checks *list, const ls_backend_kind *kind) {
    char program[PATH_MAX];
    if (!beside_this(program, sizeof program, kind->program)) {
        add_missing(list, kind);
        return;
    }
    char launcher[PATH_MAX];
    if (!cli_find_program(launcher, sizeof launcher, "mpiexec.mpich")) {
        add(list, "backend", kind->name, false,
            "mpiexec.mpich is not in PATH: apt-get install mpich");
        return;
    }
    char version[128];
    program_line(version, sizeof version, launcher, "--version", "Version");
    add(list, "backend", kind->name, true, "MPICH, %.200s, %s", launcher, version);
}

#ifndef LOCKSTEP_WITH_NCCL
// A row from lockstep-cuda, which has CUDA and NCCL inside: "backend nccl no DESCRIPTION".
static void ask_cuda(checks *list, const char *program, const char *kind, const char *name) {
    char told[TEXT_MAX], needle[64], yes[64], no[64];
    (void)snprintf(needle, sizeof needle, "%-8s %s", kind, name);
    (void)snprintf(yes, sizeof yes, "%s yes ", name);
    (void)snprintf(no, sizeof no, "%s no ", name);
    program_line(told, sizeof told, program, "doctor", needle);
    const char *answer = strstr(told, yes);
    bool works = answer != NULL;
    answer = works ? answer + strlen(yes) : strstr(told, no);
    if (!works) {
        answer = answer != NULL ? answer + strlen(no) : "it does not answer";
    }
    add(list, kind, name, works, "lockstep-cuda: %.400s", answer);
}
#endif

// A backend with GPUs.
static void check_gpus(checks *list, const ls_backend_kind *kind) {
    char line[256] = "";
    FILE *driver = fopen("/proc/driver/nvidia/version", "r");
    if (driver != NULL) {
        if (fgets(line, sizeof line, driver) != NULL) {
            line[strcspn(line, "\n")] = 0;
        }
        (void)fclose(driver);
    }
    add(list, "machine", "nvidia driver", line[0] != 0, "%s",
        line[0] != 0 ? line : "no /proc/driver/nvidia/version: no driver, or no NVIDIA GPU");
#ifdef LOCKSTEP_WITH_NCCL
    char text[TEXT_MAX];
    bool works = ls_nccl_describe(text, sizeof text) == LS_OK;
    add(list, "backend", kind->name, works, "%s", works ? text : ls_error_last()->text);
    works = ls_device_cuda_describe(text, sizeof text) == LS_OK;
    add(list, "device", "cuda", works, "%s", works ? text : ls_error_last()->text);
#else
    char program[PATH_MAX];
    if (!beside_this(program, sizeof program, kind->threads_program)) {
        add_missing(list, kind);
        add(list, "device", "cuda", false, "this build has no %s", kind->threads_program);
        return;
    }
    ask_cuda(list, program, "backend", kind->name);
    ask_cuda(list, program, "device", "cuda");
#endif
}

static void check_machine(checks *list) {
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    long pages = sysconf(_SC_PHYS_PAGES);
    long page_bytes = sysconf(_SC_PAGESIZE);
    add(list, "machine", "processors", processors > 0, "%ld", processors);
    if (pages > 0 && page_bytes > 0) {
        add(list, "machine", "memory", true, "%.1f GiB",
            (double)pages * (double)page_bytes / (1024.0 * 1024.0 * 1024.0));
    }
    if (ls_machine_memory() != UINT64_MAX) {
        add(list, "machine", "run memory", true,
            "%.1f GiB by default, half of the memory available now; --memory changes it",
            (double)ls_machine_memory() / (1024.0 * 1024.0 * 1024.0));
    }
    if (ls_machine_threads() != UINT64_MAX) {
        add(list, "machine", "threads", true, "at most %llu: one per rank in SPMD programs",
            (unsigned long long)ls_machine_threads());
    }
}

static void check_all(checks *list) {
    add(list, "build", "lockstep", true, "%s, %s, %s %s%s%s", LS_VERSION, LOCKSTEP_BUILD_TYPE,
#if defined(__clang__)
        "clang",
#else
        "gcc",
#endif
        __VERSION__, LOCKSTEP_SANITIZERS[0] != 0 ? ", sanitizers: " : "", LOCKSTEP_SANITIZERS);
    for (int i = 0; ls_backend_kinds[i] != NULL; i++) {
        const ls_backend_kind *kind = ls_backend_kinds[i];
        if (kind->open != NULL) {
            add(list, "backend", kind->name, true, "%s", kind->about);
        } else if (kind->threads_program != NULL) {
            check_gpus(list, kind);
        } else {
            check_processes(list, kind);
        }
    }
    check_machine(list);
    check_tool(list, "gdb", "gdb", "lockstep gdb");
    check_tool(list, "valgrind", "valgrind", "the memcheck tests");
}

static void write_text(ls_text *out, const checks *list) {
    bool color = cli_color_on();
    for (int i = 0; i < list->count; i++) {
        const check *row = &list->rows[i];
        const char *on = row->available ? "\033[32m" : "\033[33m";
        if (!color) {
            on = "";
        }
        ls_text_printf(out, "%-8s %-14s %s%-4s%s %s\n", row->kind, row->name, on,
                       row->available ? "yes" : "no", color ? "\033[0m" : "", row->text);
    }
}

static void write_json(ls_text *out, const checks *list) {
    ls_json json;
    ls_json_report_begin(&json, out, 2, "doctor");
    ls_json_member_string(&json, "version", LS_VERSION);
    ls_json_member_array(&json, "checks");
    for (int i = 0; i < list->count; i++) {
        const check *row = &list->rows[i];
        ls_json_object_open(&json);
        ls_json_member_string(&json, "kind", row->kind);
        ls_json_member_string(&json, "name", row->name);
        ls_json_member_bool(&json, "available", row->available);
        ls_json_member_string(&json, "text", row->text);
        ls_json_object_close(&json);
    }
    ls_json_array_close(&json);
    ls_json_report_end(&json);
}

// Available parts pass; missing ones are skipped, for the reason in its text.
static int write_pages(const checks *list) {
    ls_results *results = NULL;
    int status = ls_results_create(&results, "doctor");
    for (int i = 0; i < list->count && status == LS_OK; i++) {
        const check *row = &list->rows[i];
        status = ls_results_add(results, &(ls_case_result){
                                             .name = row->name,
                                             .file = row->kind,
                                             .pass = row->available,
                                             .skipped = !row->available,
                                             .skip_reason = row->available ? NULL : row->text,
                                         });
    }
    int code = status == LS_OK ? cli_report_pages(results) : cli_fail(status);
    ls_results_free(results);
    return code;
}

static int run(const cli_args *args) {
    (void)args;
    int code = LS_EXIT_OK;
    checks list = {.count = 0};
    check_all(&list);
    if (!cli_stdout_taken() && !cli_options_common.quiet) {
        ls_text text = {0};
        write_text(&text, &list);
        code = cli_print(&text);
        ls_text_free(&text);
    }
    if (cli_options_common.json != NULL && code == LS_EXIT_OK) {
        ls_text text = {0};
        write_json(&text, &list);
        code = cli_output(cli_options_common.json, &text);
        ls_text_free(&text);
    }
    return code == LS_EXIT_OK ? write_pages(&list) : code;
}

const cli_command cli_cmd_doctor = {
    .name = "doctor",
    .arguments = "",
    .arguments_max = 0,
    .summary =
        "List what this build and this machine can do, with the reason for each missing part",
    .details = "Lists the backends, the machine and the tools. A missing backend is not an error: "
               "the exit code is 0.",
    .example = "lockstep doctor",
    .common = CLI_COMMON_REPORTS | CLI_COMMON_SEED_UNUSED,
    .run = run,
};
