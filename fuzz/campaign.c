// The campaign's processes: one runs case after case and reports the outcomes here. If it ends or
// finds a failure, the failure is shrunk, each try in a separate process, and another one
// continues.
#define _DEFAULT_SOURCE  // MAP_ANONYMOUS
#include "fuzz/campaign.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "base/memory.h"
#include "base/time.h"
#include "fuzz/draw.h"
#include "fuzz/scenario_text.h"
#include "fuzz/shrink.h"
#include "fuzz/trial.h"
#include "process/child.h"
#include "runner/launch/process_pool.h"
#include "process/reaper.h"

#define CASE_SECONDS      120  // after which a case hangs; none takes a second
#define CASE_SECONDS_REAL 300
#define EARLY_CASES       200  // by then the process has finished its start
// The largest piece of memory, the same on every machine: no case needs it, and a size that an
// injected defect damages may ask for any.
#define CASE_PIECE_BYTES ((uint64_t)1 << 30)

// Data shared by the processes: plain data in shared pages.
typedef struct fuzz_board {
    uint32_t number;  // of the case that runs
    int way;
    bool ended;  // the campaign has no more cases
    ls_fuzz_counts counts;
    ls_fuzz_outcome outcome;
    ls_error error;  // LS_OK: none; the environment failed
} fuzz_board;

typedef struct fuzz_campaign {
    const ls_fuzz_options *options;
    ls_run_options run;
    fuzz_board *board;
    ls_reaper reaper;  // of the folder for scenarios that real processes read, and for checkpoints
    char checkpoint[PATH_MAX + 8];  // in it
    double began;
} fuzz_campaign;

static uint64_t resident_bytes(void) {
    unsigned long long pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (file != NULL) {
        pages = fscanf(file, "%*u %llu", &pages) == 1 ? pages : 0;
        (void)fclose(file);
    }
    return pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

// ---- Cases --------------------------------------------------------------------------------------
static int make_case(json_t **out, uint64_t seed, uint32_t number) {
    static void (*const makers[])(ls_fuzz_draw * draw, json_t * scenario) = {
        ls_fuzz_make_tables, ls_fuzz_make_tensors, ls_fuzz_make_buffers, ls_fuzz_make_tensors};
    ls_fuzz_draw draw = {.seed = seed, .number = number};
    json_t *scenario = json_object();
    char name[32];
    (void)snprintf(name, sizeof name, "case %u", (unsigned)number);
    ls_fuzz_set_int(&draw, scenario, "lockstep", 1);
    ls_fuzz_set_text(&draw, scenario, "name", name);
    ls_fuzz_set_int(&draw, scenario, "seed", ls_fuzz_below(&draw, 1000));
    makers[number % 4](&draw, scenario);
    if (number % 8 >= 6) {  // a share of the kinds
        ls_fuzz_inject(&draw, scenario);
    } else if (number % 16 == 0) {
        ls_fuzz_inject(&draw, scenario);
    }
    *out = scenario;
    if (draw.failed) {
        json_decref(scenario);
        return LS_FAIL(LS_ERR_MEMORY, "cannot generate a scenario");
    }
    return LS_OK;
}

int ls_fuzz_case_text(ls_text *out, uint64_t seed, uint32_t number) {
    json_t *scenario = NULL;
    LS_TRY(make_case(&scenario, seed, number));
    ls_fuzz_write(out, scenario);
    json_decref(scenario);
    return out->failed ? LS_FAIL(LS_ERR_MEMORY, "cannot write a scenario") : LS_OK;
}

static int get_case(json_t **out, const fuzz_campaign *campaign, uint32_t number) {
    const ls_fuzz_options *options = campaign->options;
    return options->file_count > 0 ? ls_fuzz_read(out, options->files[number])
                                   : make_case(out, options->seed, number);
}

// The name of a case; of real runs the file that their processes read.
static void case_file(char *out, size_t bytes, const fuzz_campaign *campaign, uint32_t number) {
    if (campaign->options->file_count > 0) {
        (void)snprintf(out, bytes, "%s", campaign->options->files[number]);
    } else if (campaign->options->real) {
        (void)snprintf(out, bytes, "%s/case.yaml", campaign->reaper.dir);
    } else {
        (void)snprintf(out, bytes, "case-%u.yaml", (unsigned)number);
    }
}

static int write_tree(const char *path, const json_t *scenario, const char *comment) {
    ls_text text = {0};
    ls_text_puts(&text, comment);
    ls_fuzz_write(&text, scenario);
    int status = text.failed ? LS_FAIL(LS_ERR_MEMORY, "cannot write a scenario")
                             : ls_file_write(path, ls_text_string(&text), text.length);
    ls_text_free(&text);
    return status;
}

// Runs one trial of a tree. Real processes find it in a file.
static int try_tree(fuzz_campaign *campaign, const json_t *scenario, const char *file, int way) {
    bool own = strncmp(file, campaign->reaper.dir, strlen(campaign->reaper.dir)) == 0;
    if (ls_fuzz_way_real(way) && own) {
        LS_TRY(write_tree(file, scenario, ""));
    }
    campaign->board->way = way;
    return ls_fuzz_try(&campaign->board->outcome, scenario, file, way, &campaign->run);
}

static void count_end(ls_fuzz_counts *counts, ls_fuzz_end end, int way) {
    counts->trials += end != LS_FUZZ_UNFIT;
    counts->nothing += end == LS_FUZZ_NOTHING && way == 0;
    counts->found += end == LS_FUZZ_FOUND;
    counts->harmless += end == LS_FUZZ_HARMLESS;
    counts->rounding += end == LS_FUZZ_ROUNDING;
    counts->missed += end == LS_FUZZ_MISSED;
    counts->injected += end == LS_FUZZ_FOUND || end == LS_FUZZ_HARMLESS ||
                        end == LS_FUZZ_ROUNDING || end == LS_FUZZ_MISSED;
}

// Every way that fits; *failed: the board has the outcome.
static int run_case(fuzz_campaign *campaign, uint32_t number, bool *failed) {
    fuzz_board *board = campaign->board;
    json_t *scenario = NULL;
    char file[PATH_MAX + 16];
    int status = get_case(&scenario, campaign, number);
    bool all = campaign->options->file_count > 0;
    case_file(file, sizeof file, campaign, number);
    for (int way = 0; status == LS_OK && !*failed && way < ls_fuzz_way_count(); way++) {
        if ((ls_fuzz_way_real(way) && !campaign->options->real) ||
            (!all && !ls_fuzz_way_turn(way, number))) {
            continue;
        }
        status = try_tree(campaign, scenario, file, way);
        ls_fuzz_end end = board->outcome.end;
        count_end(&board->counts, end, way);
        if (status == LS_OK && way == 0 && end == LS_FUZZ_UNFIT) {
            ls_text errors = {0};
            ls_scenario *parsed = NULL;
            (void)ls_fuzz_parse(&parsed, scenario, file, campaign->run.allow_outside, &errors);
            board->outcome = (ls_fuzz_outcome){.end = LS_FUZZ_FAILED, .class_ = LS_CLASS_ERROR};
            (void)snprintf(board->outcome.sign, sizeof board->outcome.sign, "refused");
            (void)snprintf(board->outcome.text, sizeof board->outcome.text, "%s",
                           ls_text_string(&errors));
            ls_scenario_free(parsed);
            ls_text_free(&errors);
        } else if (status == LS_OK && end == LS_FUZZ_ENVIRONMENT && !board->outcome.injected) {
            status = LS_FAIL(LS_ERR_BACKEND, "%s", board->outcome.text);
        }
        *failed = board->outcome.end == LS_FUZZ_FAILED;
    }
    json_decref(scenario);
    board->counts.cases += status == LS_OK;
    return status;
}

// ---- Processes ----------------------------------------------------------------------------------
static bool is_time_over(const fuzz_campaign *campaign) {
    double seconds = campaign->options->seconds;
    return seconds > 0 && ls_time_now() - campaign->began >= seconds;
}

// Runs cases from the board's number on, until one fails or there are no more.
static void run_cases(fuzz_campaign *campaign) {
    const ls_fuzz_options *options = campaign->options;
    fuzz_board *board = campaign->board;
    ls_process_pool pool = {0};
    bool failed = false;
    int status = LS_OK;
    uint32_t end = options->first + options->count;
    campaign->run.pool = &pool;
    for (; status == LS_OK && !failed && board->number < end && !is_time_over(campaign);
         board->number += !failed) {
        (void)alarm(options->real ? CASE_SECONDS_REAL : CASE_SECONDS);
        if (options->progress != NULL) {
            options->progress(options->progress_arg, (int)(board->number - options->first),
                              (int)options->count);
        }
        status = run_case(campaign, board->number, &failed);
        if (board->counts.cases <= EARLY_CASES) {
            board->counts.memory_first = resident_bytes();
        }
    }
    (void)alarm(0);
    board->counts.memory_last = resident_bytes();
    int ended = ls_process_pool_end(&pool);
    status = status == LS_OK ? ended : status;
    board->ended = !failed;
    board->error = status != LS_OK ? *ls_error_last() : (ls_error){0};
}

// Runs `work` in a separate process. A crash or a hang is the board's outcome.
static int run_apart(fuzz_campaign *campaign, void (*work)(fuzz_campaign *campaign)) {
    fuzz_board *board = campaign->board;
    int how = 0;
    pid_t pid = ls_child_fork(SIGKILL);
    if (pid < 0) {
        return LS_FAIL(LS_ERR_IO, "cannot start a process: %s", strerror(errno));
    }
    if (pid == 0) {
        (void)close(campaign->reaper.pipe);  // the child does not keep the folder
        ls_alloc_limit(CASE_PIECE_BYTES);
        work(campaign);
        _exit(0);
    }
    ls_child_wait(pid, &how);
    if (WIFSIGNALED(how) || WEXITSTATUS(how) != 0) {
        bool hangs = WIFSIGNALED(how) && WTERMSIG(how) == SIGALRM;
        int code = WIFSIGNALED(how) ? WTERMSIG(how) : WEXITSTATUS(how);
        board->ended = false;
        board->error = (ls_error){0};
        board->outcome = (ls_fuzz_outcome){.end = LS_FUZZ_FAILED, .class_ = LS_CLASS_ERROR};
        const char *sign = "exit", *text = "the process exits during it";
        if (hangs) {
            sign = "hangs";
            text = "it does not end";
        } else if (WIFSIGNALED(how)) {
            sign = "signal";
            text = strsignal(code);
        }
        (void)snprintf(board->outcome.sign, sizeof board->outcome.sign, "%s %d", sign, code);
        (void)snprintf(board->outcome.text, sizeof board->outcome.text, "%s", text);
    }
    return LS_OK;
}

// ---- A failure ----------------------------------------------------------------------------------
typedef struct fuzz_shrinking {
    fuzz_campaign *campaign;
    const json_t *candidate;
    const char *file;
    ls_fuzz_outcome outcome;  // of the smallest so far
    int way, runs;
} fuzz_shrinking;

static fuzz_shrinking *current;  // of the process that tries, which takes no argument

static void try_candidate(fuzz_campaign *campaign) {
    (void)alarm(ls_fuzz_way_real(current->way) ? CASE_SECONDS_REAL : CASE_SECONDS);
    int status = try_tree(campaign, current->candidate, current->file, current->way);
    if (status != LS_OK) {
        campaign->board->outcome.end = LS_FUZZ_UNFIT;
    }
}

static int still_fails(void *arg, const json_t *scenario, bool *fails) {
    fuzz_shrinking *shrinking = arg;
    fuzz_campaign *campaign = shrinking->campaign;
    ls_scenario *parsed = NULL;
    int status =
        ls_fuzz_parse(&parsed, scenario, shrinking->file, campaign->run.allow_outside, NULL);
    bool refused = strcmp(shrinking->outcome.sign, "refused") == 0;
    ls_scenario_free(parsed);
    if (status != LS_OK || refused) {  // a case may be refused for several reasons
        return status == LS_ERR_MEMORY ? status : LS_OK;
    }
    shrinking->candidate = scenario;
    shrinking->runs += 1;
    current = shrinking;
    campaign->run.pool = NULL;
    LS_TRY(run_apart(campaign, try_candidate));
    const ls_fuzz_outcome *outcome = &campaign->board->outcome;
    *fails = outcome->end == LS_FUZZ_FAILED && strcmp(outcome->sign, shrinking->outcome.sign) == 0;
    if (*fails) {
        shrinking->outcome = *outcome;
    }
    return LS_OK;
}

// The file's first lines: the reason for it, and how to reproduce that.
static const char *comment_of(ls_arena *arena, const fuzz_shrinking *shrinking,
                              const char *origin) {
    ls_text text = {0};
    const char *line = shrinking->outcome.text;
    ls_text_printf(&text, "# %s, %s: %s\n", origin, ls_fuzz_way_name(shrinking->way),
                   shrinking->outcome.sign);
    while (*line != 0) {
        size_t length = strcspn(line, "\n");
        ls_text_puts(&text, "#   ");
        ls_text_plain(&text, line, length);
        ls_text_puts(&text, "\n");
        line += length + (line[length] == '\n');
    }
    return ls_result_text(arena, &text);
}

static const char *text_of(ls_arena *arena, const json_t *scenario) {
    ls_text text = {0};
    ls_fuzz_write(&text, scenario);
    return ls_result_text(arena, &text);
}

static int add_failure(ls_results *results, fuzz_campaign *campaign,
                       const fuzz_shrinking *shrinking, const json_t *scenario, uint32_t number) {
    const ls_fuzz_options *options = campaign->options;
    ls_arena *arena = results->arena;
    bool random = options->file_count == 0;
    const char *name = random ? ls_arena_printf(arena, "case %u", (unsigned)number)
                              : ls_arena_strdup(arena, options->files[number]);
    const char *real = options->real ? " --real mpi" : "";
    const char *origin =
        random ? ls_arena_printf(arena, "lockstep fuzz --seed %llu --first %u --count 1%s",
                                 (unsigned long long)options->seed, (unsigned)number, real)
               : ls_result_command(arena, "lockstep fuzz", options->files[number]);
    const char *comment = comment_of(arena, shrinking, origin);
    const char *shrunk = text_of(arena, scenario), *kept = NULL;
    if (options->keep_dir != NULL) {
        kept = random
                   ? ls_arena_printf(arena, "%s/seed_%llu_case_%u.yaml", options->keep_dir,
                                     (unsigned long long)options->seed, (unsigned)number)
                   : ls_arena_printf(arena, "%s/file_%u.yaml", options->keep_dir, (unsigned)number);
        LS_TRY(write_tree(kept, scenario, comment));
    }
    const char *reproduce =
        kept != NULL ? ls_result_command(arena, ls_fuzz_way_command(shrinking->way), kept) : origin;
    const ls_case_result result = {
        .name = name,
        .file = kept != NULL ? kept : name,
        .backend = "sim",
        .real = ls_fuzz_way_real(shrinking->way) ? "mpi" : NULL,
        .class_ = LS_CLASS_ERROR,
        .error = ls_arena_printf(arena, "%s: %s (%d runs to shrink it)",
                                 ls_fuzz_way_name(shrinking->way), shrinking->outcome.text,
                                 shrinking->runs),
        .scenario = shrunk,
        .reproduce = reproduce,
    };
    return ls_results_add(results, &result);
}

static int shrink_failure(ls_results *results, fuzz_campaign *campaign, uint32_t number) {
    const fuzz_board *board = campaign->board;
    char file[PATH_MAX + 16];
    json_t *scenario = NULL;
    LS_TRY(get_case(&scenario, campaign, number));
    case_file(file, sizeof file, campaign, number);
    if (ls_fuzz_way_real(board->way) && campaign->options->file_count > 0) {
        (void)snprintf(file, sizeof file, "%s/case.yaml", campaign->reaper.dir);
    }
    fuzz_shrinking shrinking = {
        .campaign = campaign, .file = file, .outcome = board->outcome, .way = board->way};
    int status = ls_fuzz_shrink(&scenario, still_fails, &shrinking, &shrinking.runs,
                                campaign->options->runs_max);
    status =
        status == LS_OK ? add_failure(results, campaign, &shrinking, scenario, number) : status;
    json_decref(scenario);
    return status;
}

// ---- The campaign -------------------------------------------------------------------------------
static int open_folder(fuzz_campaign *campaign) {
    LS_TRY(ls_reaper_make(&campaign->reaper, NULL));
    (void)snprintf(campaign->checkpoint, sizeof campaign->checkpoint, "%s/tables",
                   campaign->reaper.dir);
    campaign->run.checkpoint = campaign->checkpoint;
    return LS_OK;
}

static int run_all(ls_results *results, fuzz_campaign *campaign) {
    fuzz_board *board = campaign->board;
    board->number = campaign->options->first;
    while (!board->ended && results->failed < LS_FUZZ_FAILURES_MAX) {
        LS_TRY(run_apart(campaign, run_cases));
        if (board->error.code != LS_OK) {
            return LS_FAIL(board->error.code, "case %u: %s", (unsigned)board->number,
                           board->error.text);
        }
        if (!board->ended) {
            uint32_t failed = board->number;
            LS_TRY(shrink_failure(results, campaign, failed));
            board->number = failed + 1;
        }
    }
    return LS_OK;
}

int ls_fuzz_run(ls_results *results, ls_fuzz_counts *counts, const ls_fuzz_options *options) {
    fuzz_campaign campaign = {.options = options, .run = *options->run, .began = ls_time_now()};
    campaign.board = mmap(NULL, sizeof *campaign.board, PROT_READ | PROT_WRITE,
                          MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (campaign.board == MAP_FAILED) {
        return LS_FAIL(LS_ERR_MEMORY, "cannot share a page between processes");
    }
    int status = open_folder(&campaign);
    if (status == LS_OK) {
        status = run_all(results, &campaign);
        ls_reaper_remove(&campaign.reaper);
    }
    *counts = campaign.board->counts;
    uint64_t failed = (uint64_t)results->failed;
    uint64_t passed = counts->cases > failed ? counts->cases - failed : 0;
    results->passed += (int)(passed - (counts->nothing < passed ? counts->nothing : passed));
    results->skipped += (int)counts->nothing;
    (void)munmap(campaign.board, sizeof *campaign.board);
    return status;
}
