// See exec_report.h.
#include "cli/exec_report.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/programs.h"

#define FRONT    "liblockstep-nccl-front.so"
#define OBSERVER "liblockstep-nccl-observe.so"
#define PYTHON   "python/lockstep/hook"
#define WHEEL    "../hook"  // where this program came inside of the Python package

int cli_exec_find_front(char *out, size_t bytes, bool observe) {
    const char *name = observe ? OBSERVER : FRONT;
    if (!cli_find_beside(out, bytes, name)) {
        cli_error("%s is not beside this program, nor where it is installed", name);
        return LS_EXIT_ENVIRONMENT;
    }
    return LS_EXIT_OK;
}

bool cli_exec_find_python(char *out, size_t bytes) {
    return cli_find_beside(out, bytes, PYTHON) ||
           (cli_find_beside(out, bytes, WHEEL "/sitecustomize.py") &&
            cli_find_beside(out, bytes, WHEEL));
}

const char *cli_exec_start(ls_arena *arena, const ls_exec_result *result, int ranks) {
    if (result->forked > 0) {
        return ls_arena_printf(arena, "%d of %d ranks %s forked", result->forked, ranks,
                               result->forked == 1 ? "was" : "were");
    }
    return result->start_why[0] != 0
               ? ls_arena_printf(arena, "no rank was forked: %s", result->start_why)
               : NULL;
}

const char *cli_exec_error(ls_arena *arena, const ls_exec_result *result, int ranks) {
    if (result->loss != NULL) {
        return result->loss;
    }
    if (result->failed_rank >= 0) {
        if (ranks > 0) {
            return ls_arena_printf(arena, "the process of rank %d ended with exit code %d%s%s",
                                   result->failed_rank, result->failed_code,
                                   result->failed_line[0] != 0 ? ": " : "", result->failed_line);
        }
        return ls_arena_printf(arena, "the program ended with exit code %d", result->failed_code);
    }
    if (result->died) {
        return ranks > 0 ? "a process of the program was killed"
                         : "the program, or a process of it, was killed";
    }
    return ls_arena_strdup(arena, result->why);
}

int cli_exec_check_program(const char *name) {
    char path[PATH_MAX];
    if (strchr(name, '/') != NULL ? access(name, X_OK) == 0
                                  : cli_find_program(path, sizeof path, name)) {
        return LS_EXIT_OK;
    }
    cli_error("cannot start '%.200s': %s", name,
              strchr(name, '/') != NULL ? strerror(errno) : "no such program in PATH");
    return LS_EXIT_USAGE;
}

// The words of Python's options that have one more behind them.
static bool takes_a_word(const char *option) {
    return strcmp(option, "-X") == 0 || strcmp(option, "-W") == 0;
}

const char *cli_exec_name(const char *const *argv) {
    const char *slash = strrchr(argv[0], '/'), *base = slash != NULL ? slash + 1 : argv[0];
    if (strncmp(base, "python", 6) != 0) {
        return argv[0];
    }
    for (int i = 1; argv[i] != NULL; i += takes_a_word(argv[i]) ? 2 : 1) {
        bool module = strcmp(argv[i], "-m") == 0 && argv[i + 1] != NULL;
        if (module || argv[i][0] != '-') {
            return argv[i + (module ? 1 : 0)];
        }
        if (strcmp(argv[i], "-c") == 0 || (takes_a_word(argv[i]) && argv[i + 1] == NULL)) {
            break;
        }
    }
    return argv[0];
}

ls_call_row *cli_exec_calls(ls_arena *arena, const ls_exec_result *result) {
    ls_call_row *rows = ls_arena_alloc(arena, (size_t)result->made_count + 1, sizeof *rows);
    for (int i = 0; rows != NULL && i < result->made_count; i++) {
        const ls_exec_calls *made = &result->made[i];
        rows[i] = (ls_call_row){
            .call = ls_kind_name(made->kind),
            .communicator = ls_arena_strdup(arena, made->communicator),
            .purpose = made->purpose != NULL ? ls_arena_strdup(arena, made->purpose) : NULL,
            .where = ls_arena_printf(arena, "%s:%d", made->file, made->line),
            .calls = made->calls,
            .bytes = made->bytes};
    }
    return rows;
}

const char *cli_exec_unchecked(ls_arena *arena, const ls_exec_result *result) {
    if (result->quit) {
        return "the debugger ended it";
    }
    if (result->calls == 0) {
        return ls_arena_printf(arena,
                               "%d of its processes connected, and none made a collective call; "
                               "calls of NCCL and torch.distributed are seen, those of other "
                               "libraries (JAX's own gloo, TensorPipe under RPC, MPI) are not",
                               result->processes);
    }
    if (result->widest == 1 && result->processes > 1) {
        return ls_arena_printf(
            arena,
            "each of %d processes made a world of its own, so none of their %llu calls involved "
            "another rank; does the program use RANK and WORLD_SIZE?",
            result->processes, (unsigned long long)result->calls);
    }
    return NULL;
}

// ---- Stacks -------------------------------------------------------------------------------------
// Whether the `length` bytes at `text` name that place, and not one whose number begins alike.
static bool names(const char *text, size_t length, const char *where) {
    size_t bytes = strlen(where);
    for (size_t i = 0; i + bytes <= length; i++) {
        if (memcmp(text + i, where, bytes) == 0 &&
            (text[i + bytes] < '0' || text[i + bytes] > '9')) {
            return true;
        }
    }
    return false;
}

// Adds what called the rank's last call from a place that the line names; whether there is one.
static bool add_stack(ls_text *text, const ls_exec_result *result, int run, int rank,
                      const char *line, size_t length) {
    for (int i = 0; i < result->place_count; i++) {
        const ls_exec_place *place = &result->places[i];
        const char *above = place->stack != NULL ? strchr(place->stack, '\n') : NULL;
        char where[PATH_MAX];
        (void)snprintf(where, sizeof where, "%s:%d", place->file, place->line);
        if (place->run != run || place->rank != rank || !names(line, length, where)) {
            continue;
        }
        if (above == NULL || above[1] == 0) {
            return false;
        }
        ls_text_printf(text, "rank %d reached %s through:\n", rank, where);
        for (const char *at = place->stack; *at != 0;) {
            size_t frame = strcspn(at, "\n");
            ls_text_printf(text, "  %.*s\n", (int)frame, at);
            at += at[frame] != 0 ? frame + 1 : frame;
        }
        return true;
    }
    return false;
}

#define STACKS_MAX 8  // ranks of a finding whose stacks are shown

// The finding's text, with one stack for each of its sides: of the first rank that each line before
// the histories names first.
static const char *with_stacks(ls_arena *arena, const ls_finding *finding,
                               const ls_exec_result *result, int run) {
    ls_text text = {0};
    int shown[STACKS_MAX], count = 0;
    ls_text_puts(&text, finding->text);
    for (const char *line = finding->text; *line != 0 && count < STACKS_MAX;) {
        size_t length = strcspn(line, "\n");
        const char *word = line + strspn(line, " ");
        if (strncmp(word, "last calls of", strlen("last calls of")) == 0) {
            break;
        }
        size_t skip = 6;
        if (strncmp(word, "ranks ", 6) != 0) {
            skip = strncmp(word, "rank ", 5) == 0 ? 5 : 0;
        }
        if (skip > 0 && word[skip] >= '0' && word[skip] <= '9') {
            int rank = (int)strtol(word + skip, NULL, 10);
            if (ls_ranks_find(shown, count, rank) < 0 &&
                add_stack(&text, result, run, rank, line, length)) {
                shown[count++] = rank;
            }
        }
        line += length + (line[length] != 0 ? 1 : 0);
    }
    const char *where = finding->where != NULL ? finding->where : "";
    for (int i = 0; i < finding->rank_count && count < STACKS_MAX; i++) {
        int rank = finding->ranks[i];
        if (ls_ranks_find(shown, count, rank) < 0 &&
            add_stack(&text, result, run, rank, where, strlen(where))) {
            shown[count++] = rank;
        }
    }
    return ls_result_text(arena, &text);
}

// Those of one run, behind the `count` in findings; ended: its number, 0 where it is the only run.
static int add_findings(ls_finding *findings, int count, ls_arena *arena,
                        const ls_exec_result *result, const ls_spmd_result *spmd, int ended) {
    for (int i = 0; spmd != NULL && i < ls_spmd_finding_count(spmd); i++) {
        ls_finding *made = &findings[count++];
        *made = *ls_spmd_finding(spmd, i);
        made->text = with_stacks(arena, made, result, ended > 0 ? ended : 1);
        if (ended > 0 && made->text != NULL) {
            made->text =
                ls_arena_printf(arena, "%sit ended run %d of the job\n", made->text, ended);
        }
    }
    return count;
}

ls_finding *cli_exec_findings(int *count, ls_arena *arena, const ls_exec_result *result) {
    int most = result->spmd != NULL ? ls_spmd_finding_count(result->spmd) : 0, runs = 0;
    for (const ls_exec_ended *at = result->before; at != NULL; at = at->next) {
        most += ls_spmd_finding_count(at->spmd);
    }
    ls_finding *findings = ls_arena_alloc(arena, (size_t)most + 1, sizeof *findings);
    *count = 0;
    if (findings == NULL) {
        return NULL;
    }
    for (const ls_exec_ended *at = result->before; at != NULL; at = at->next) {
        runs += 1;
        if (!at->forgiven) {
            *count = add_findings(findings, *count, arena, result, at->spmd, runs);
        }
    }
    *count = add_findings(findings, *count, arena, result, result->spmd, runs > 0 ? runs + 1 : 0);
    return findings;
}
