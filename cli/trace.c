// See trace.h.
#include "cli/trace.h"

#include <string.h>

#include "base/file.h"

#define MACHINE_BYTES_MAX ((size_t)1 << 20)
#define HOST_RANKS        8

// Traces name ranks of many scenarios, so a machine here has as many hosts as it takes.
static int find_machine(ls_topology *out, const char *name) {
    const int ranks = LS_TOPOLOGY_RANKS_MAX;
    if (strpbrk(name, "./") == NULL) {
        return ls_topology_preset(out, name, ranks, HOST_RANKS);
    }
    ls_arena *arena = NULL;
    char *text = NULL;
    size_t bytes = 0;
    LS_TRY(ls_arena_create(&arena));
    int status = ls_file_read(&text, &bytes, arena, name, MACHINE_BYTES_MAX);
    if (status == LS_OK) {
        *out = (ls_topology){.ranks = ranks, .ranks_per_host = HOST_RANKS};
        ls_text errors = {0};
        status = ls_topology_parse(out, &errors, name, text, bytes);
        ls_text_free(&errors);
    }
    ls_arena_free(arena);
    return status;
}

int cli_trace_open(ls_trace **out, const char *machine) {
    *out = NULL;
    if (cli_options_common.trace == NULL) {
        if (machine != NULL) {
            cli_error("--machine requires --trace, whose clock it sets");
            return LS_EXIT_USAGE;
        }
        return LS_EXIT_OK;
    }
    ls_topology topology;
    if (machine != NULL && find_machine(&topology, machine) != LS_OK) {
        cli_error("%s", ls_error_last()->text);
        return LS_EXIT_USAGE;
    }
    int status = ls_trace_create(out, machine != NULL ? &topology : NULL, false);
    return status == LS_OK ? LS_EXIT_OK : cli_fail(status);
}

int cli_trace_close(ls_trace *trace, int code) {
    if (trace == NULL) {
        return code;
    }
    if (code == LS_EXIT_USAGE) {
        ls_trace_free(trace);
        return code;
    }
    const char *path = cli_options_common.trace;
    size_t length = strlen(path);
    bool plain = length > 4 && strcmp(path + length - 4, ".txt") == 0;
    ls_text text = {0};
    int status = plain ? ls_trace_text(&text, trace) : ls_trace_json(&text, trace);
    int own = status == LS_OK ? cli_output(path, &text) : cli_fail(status);
    ls_text_free(&text);
    ls_trace_free(trace);
    return own > code ? own : code;
}
