// The text of a finding: the sentence of the check, the ranks' arguments, and the last calls of
// both sides.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ranks/internal.h"

#define FINDINGS_MAX  256  // of a run; more of them say nothing new
#define SIDES_MAX     6
#define LS_MERGED_MAX 64  // ranks that are listed

static void add_counts(ls_text *text, const char *verb, const size_t *counts, int size) {
    if (counts == NULL) {
        return;
    }
    ls_text_printf(text, ", %s {", verb);
    for (int m = 0; m < size && m < LS_SPLITS_SHOWN; m++) {
        ls_text_printf(text, "%s%zu", m > 0 ? ", " : "", counts[m]);
    }
    ls_text_printf(text, "%s}", size > LS_SPLITS_SHOWN ? ", ..." : "");
}

// An uneven call's counts for each member.
static void add_splits(ls_text *text, const ls_call *call) {
    add_counts(text, "sends", call->send_counts, call->comm->size);
    add_counts(text, "receives", call->recv_counts, call->comm->size);
}

// ---- Recording ---------------------------------------------------------------------------------
static int compare_ints(const void *a, const void *b) {
    return (*(const int *)a > *(const int *)b) - (*(const int *)a < *(const int *)b);
}

// The finding of that kind at that place; NULL: none.
static ls_finding *at_place(const ls_spmd_result *result, ls_finding_id id, const char *where) {
    for (int i = 0; i < result->finding_count; i++) {
        ls_finding *finding = &result->findings[i];
        if (finding->id == id && strcmp(finding->where, where) == 0) {
            return finding;
        }
    }
    return NULL;
}

static bool names(const ls_finding *finding, int rank) {
    return finding->rank_count == 0 ||
           ls_ranks_find(finding->ranks, finding->rank_count, rank) >= 0;
}

bool ls_findings__known(const ls_spmd *run, ls_finding_id id, int rank, const char *file,
                        int line) {
    char where[LS_CALL_WHERE_MAX + 256];
    (void)snprintf(where, sizeof where, "%s:%d", file, line);
    const ls_finding *finding = at_place(run->result, id, where);
    return finding != NULL && names(finding, rank);
}

// The same bug on more ranks: one finding.
static void merge(ls_spmd_result *result, ls_finding *into, const int *ranks, int rank_count) {
    int others[LS_MERGED_MAX], other_count = 0;
    const char **first = &result->first_texts[into - result->findings];
    int before = result->first_counts[into - result->findings];
    int *merged = (int *)(uintptr_t)into->ranks;  // ours, with room for every rank
    for (int i = 0; i < rank_count && into->rank_count < result->rank_count; i++) {
        if (!names(into, ranks[i])) {
            merged[into->rank_count++] = ranks[i];
        }
    }
    const int *of = result->first_ranks[into - result->findings];
    qsort(merged, (size_t)into->rank_count, sizeof *merged, compare_ints);
    for (int i = 0; i < into->rank_count && other_count < LS_MERGED_MAX; i++) {
        bool told = false;
        for (int k = 0; k < before; k++) {
            told = told || of[k] == merged[i];
        }
        if (!told) {
            others[other_count++] = merged[i];
        }
    }
    char list[128];
    ls_ranks_format(list, sizeof list, others, other_count);
    const char *text = NULL;
    if (other_count != 0) {
        text = ls_arena_printf(result->arena, "%sthe same on rank%s %s\n", *first,
                               other_count > 1 ? "s" : "", list);
    }
    into->text = text != NULL ? text : into->text;
}

// Consequences of data that was read too early.
static bool follows(const ls_spmd_result *result, ls_finding_id id) {
    if (id != LS_FINDING_REPLICA_DIVERGED && id != LS_FINDING_VALUE_NAN_FIRST &&
        id != LS_FINDING_VALUE_INF_FIRST && id != LS_FINDING_BUFFER_UNINITIALISED &&
        id != LS_FINDING_REDUNDANT_REDUCE) {
        return false;
    }
    for (int i = 0; i < result->finding_count; i++) {
        ls_finding_id other = result->findings[i].id;
        if (other != id && (other == LS_FINDING_BUFFER_USE_BEFORE_WAIT ||
                            other == LS_FINDING_BUFFER_MODIFIED_IN_FLIGHT ||
                            other == LS_FINDING_BUFFER_UNINITIALISED)) {
            return true;
        }
    }
    return false;
}

static ls_finding *new_finding(ls_spmd_result *result) {
    if (result->finding_count == result->finding_room) {
        int room = result->finding_room == 0 ? 8 : 2 * result->finding_room;
        size_t n = (size_t)result->finding_count;
        ls_finding *more = ls_arena_alloc(result->arena, (size_t)room, sizeof *more);
        const char **texts = ls_arena_alloc(result->arena, (size_t)room, sizeof *texts);
        const int **ranks = ls_arena_alloc(result->arena, (size_t)room, sizeof *ranks);
        int *counts = ls_arena_alloc(result->arena, (size_t)room, sizeof *counts);
        if (more == NULL || texts == NULL || ranks == NULL || counts == NULL) {
            return NULL;
        }
        if (n > 0) {
            memcpy(more, result->findings, n * sizeof *more);
            memcpy((void *)texts, (const void *)result->first_texts, n * sizeof *texts);
            memcpy((void *)ranks, (const void *)result->first_ranks, n * sizeof *ranks);
            memcpy(counts, result->first_counts, n * sizeof *counts);
        }
        result->findings = more;
        result->first_texts = texts;
        result->first_ranks = ranks;
        result->first_counts = counts;
        result->finding_room = room;
    }
    return &result->findings[result->finding_count];
}

// Possibly intended behaviour is reported beside the findings.
static void add_warning(ls_spmd *run, const ls_finding *warning) {
    ls_spmd_result *result = run->result;
    for (int i = 0; i < result->warning_count; i++) {
        if (strcmp(result->warnings[i].where, warning->where) == 0) {
            return;
        }
    }
    if (result->warning_count < LS_WARNINGS_MAX) {
        result->warnings[result->warning_count] = *warning;
        result->warnings[result->warning_count].text =
            ls_arena_strdup(result->arena, warning->text);
        result->warning_count += result->warnings[result->warning_count].text != NULL ? 1 : 0;
    }
}

bool ls_findings__add(ls_spmd *run, ls_finding_id id, const int *ranks, int rank_count,
                      const char *file, int line, const char *text) {
    if (!run->checks[id] || run->lookahead != NULL) {
        return false;
    }
    ls_spmd_result *result = run->result;
    const char *where =
        file != NULL && file[0] != '\0' ? ls_arena_printf(result->arena, "%s:%d", file, line) : "";
    size_t room = (size_t)(rank_count > result->rank_count ? rank_count : result->rank_count);
    int *sorted = ls_arena_alloc(result->arena, 2 * room + 1, sizeof *sorted);
    if (where == NULL || sorted == NULL) {
        return true;
    }
    if (rank_count > 0) {
        memcpy(sorted, ranks, (size_t)rank_count * sizeof *sorted);
        qsort(sorted, (size_t)rank_count, sizeof *sorted, compare_ints);
        memcpy(sorted + room, sorted, (size_t)rank_count * sizeof *sorted);
    }
    if (id == LS_FINDING_REDUNDANT_REDUCE && !run->warned) {
        if (!follows(result, id)) {
            add_warning(run, &(ls_finding){.id = id,
                                           .ranks = sorted,
                                           .rank_count = rank_count,
                                           .where = where,
                                           .text = text});
        }
        return true;
    }
    ls_finding *same = at_place(result, id, where);
    if (same != NULL) {
        merge(result, same, ranks, rank_count);
        return true;
    }
    if (result->finding_count >= FINDINGS_MAX || follows(result, id)) {
        return true;
    }
    ls_finding *finding = new_finding(result);
    const char *copy = ls_arena_strdup(result->arena, text);
    if (finding == NULL || copy == NULL) {
        return true;
    }
    *finding = (ls_finding){
        .id = id, .ranks = sorted, .rank_count = rank_count, .where = where, .text = copy};
    ls_seen__found(finding);
    result->first_texts[result->finding_count] = copy;
    result->first_ranks[result->finding_count] = sorted + room;
    result->first_counts[result->finding_count] = rank_count;
    result->finding_count += 1;
    ls_hooks__before_stop();
    ls_gdb_hook_finding(run, finding);
    return true;
}

void ls_findings__withdraw(ls_spmd *run, ls_finding_id id,
                           bool (*explained)(const ls_spmd *run, int rank, const char *where)) {
    ls_spmd_result *result = run->result;
    int kept = 0;
    for (int i = 0; i < result->finding_count; i++) {
        const ls_finding *finding = &result->findings[i];
        bool all = finding->id == id && finding->rank_count > 0;
        for (int k = 0; all && k < finding->rank_count; k++) {
            all = explained(run, finding->ranks[k], finding->where);
        }
        if (!all) {
            result->findings[kept] = result->findings[i];
            result->first_texts[kept] = result->first_texts[i];
            result->first_ranks[kept] = result->first_ranks[i];
            result->first_counts[kept++] = result->first_counts[i];
        }
    }
    result->finding_count = kept;
}

const char *ls_findings__string(ls_spmd *run, const ls_text *text) {
    if (text->failed) {
        ls_arena_fail(run->result->arena);
    }
    return ls_text_string(text);
}

// ---- Texts -------------------------------------------------------------------------------------
void ls_findings__history(ls_text *text, const ls_rank *rank, int most) {
    if (rank->history == NULL) {
        return;  // of another process
    }
    uint64_t kept = rank->call_count < (uint64_t)rank->run->history ? rank->call_count
                                                                    : (uint64_t)rank->run->history;
    kept = kept < (uint64_t)most ? kept : (uint64_t)most;
    if (kept == 0) {
        ls_text_printf(text, "rank %d has made no call\n", rank->id);
        return;
    }
    ls_text_printf(text, "last calls of rank %d, newest last:\n", rank->id);
    for (uint64_t n = rank->call_count - kept; n < rank->call_count; n++) {
        const ls_history_entry *entry = &rank->history[n % (uint64_t)rank->run->history];
        char what[256], where[LS_CALL_WHERE_MAX];
        if (entry->number != n || entry->call.comm == NULL) {
            continue;  // a call that a fault left out
        }
        ls_call_describe(what, sizeof what, &entry->call);
        ls_text_printf(text, "  %s", what);
        add_splits(text, &entry->call);
        ls_text_printf(text, "%s at %s\n", entry->done ? "" : " (not complete)",
                       ls_call__where(where, &entry->call));
    }
}

typedef struct side {
    char what[256];
    char where[LS_CALL_WHERE_MAX];
    int *ranks;
    int count;
} side;

void ls_findings__sides(ls_text *text, ls_request *const *requests, int count) {
    side sides[SIDES_MAX];
    int side_count = 0, others = 0, largest = 0;
    void *memory = NULL;
    if (ls_alloc(&memory, (size_t)count * SIDES_MAX, sizeof(int)) != LS_OK) {
        return;
    }
    for (int i = 0; i < count; i++) {
        if (requests[i] == NULL) {
            continue;
        }
        char what[256], where[LS_CALL_WHERE_MAX];
        ls_call_describe(what, sizeof what, &requests[i]->call);
        (void)ls_call__where(where, &requests[i]->call);
        int s = 0;
        while (s < side_count &&
               (strcmp(sides[s].what, what) != 0 || strcmp(sides[s].where, where) != 0)) {
            s += 1;
        }
        if (s == SIDES_MAX) {
            others += 1;
            continue;
        }
        if (s == side_count) {
            (void)snprintf(sides[s].what, sizeof sides[s].what, "%s", what);
            (void)snprintf(sides[s].where, sizeof sides[s].where, "%s", where);
            sides[s].ranks = (int *)memory + (size_t)s * (size_t)count;
            sides[s].count = 0;
            side_count += 1;
        }
        sides[s].ranks[sides[s].count++] = requests[i]->call.rank;
        largest = sides[s].count > sides[largest].count ? s : largest;
    }
    for (int s = 0; s < side_count; s++) {
        char ranks[128];
        qsort(sides[s].ranks, (size_t)sides[s].count, sizeof(int), compare_ints);
        ls_ranks_format(ranks, sizeof ranks, sides[s].ranks, sides[s].count);
        bool majority = s == largest && 2 * sides[s].count > count && side_count > 1;
        ls_text_printf(text, "  rank%s %s%s: %s at %s\n", sides[s].count > 1 ? "s" : "", ranks,
                       majority ? " (the majority)" : "", sides[s].what, sides[s].where);
    }
    for (int i = 0, shown = 0; i < count && shown < SIDES_MAX; i++) {
        const ls_call *call = requests[i] != NULL ? &requests[i]->call : NULL;
        if (call == NULL || (call->send_counts == NULL && call->recv_counts == NULL)) {
            continue;
        }
        shown += 1;
        ls_text_printf(text, "  splits of rank %d", call->rank);
        add_splits(text, call);
        ls_text_printf(text, "\n");
    }
    if (others > 0) {
        ls_text_printf(text, "  %d more ranks differ\n", others);
    }
    ls_free(memory, (size_t)count * SIDES_MAX, sizeof(int));
}

// ---- One call ----------------------------------------------------------------------------------
static void add_call(ls_spmd *run, ls_finding_id id, const ls_request *request, const char *format,
                     va_list args) {
    char what[256];
    ls_call_describe(what, sizeof what, &request->call);
    char message[LS_ERROR_TEXT_MAX];
    (void)vsnprintf(message, sizeof message, format, args);
    ls_text text = {0};
    ls_text_printf(&text, "rank %d, %s", request->call.rank, what);
    if (request->call.comm != NULL) {
        add_splits(&text, &request->call);
    }
    ls_text_printf(&text, ": %s\n", message);
    ls_findings__history(&text, request->rank, 4);
    (void)ls_findings__add(run, id, &request->call.rank, 1, request->call.file, request->call.line,
                           ls_findings__string(run, &text));
    ls_text_free(&text);
}

bool ls_findings__add_call(ls_spmd *run, ls_finding_id id, const ls_request *request,
                           const char *format, ...) {
    if (!run->checks[id]) {
        return false;
    }
    va_list args;
    va_start(args, format);
    add_call(run, id, request, format, args);
    va_end(args);
    return true;
}

int ls_findings__fatal_call(ls_spmd *run, ls_finding_id id, const ls_request *request,
                            const char *format, ...) {
    if (run->checks[id]) {
        va_list args;
        va_start(args, format);
        add_call(run, id, request, format, args);
        va_end(args);
    }
    ls_spmd__fail(run, run->checks[id] ? LS_ERR_FINDING : LS_ERR_MISMATCH, ls_finding_name(id));
    return ls_spmd__failed(run, request->rank);
}

int ls_findings__refuse(ls_rank *rank, const char *file, int line, const char *format, ...) {
    char message[LS_ERROR_TEXT_MAX];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(message, sizeof message, format, args);
    va_end(args);
    if (rank == NULL) {
        return LS_FAIL(LS_ERR_INVALID, "%s:%d: %s", file, line, message);
    }
    ls_schedule__enter(rank);
    if (rank->run->status == LS_OK) {
        ls_text text = {0};
        ls_text_printf(&text, "rank %d: %s\n", rank->id, message);
        ls_findings__history(&text, rank, 4);
        rank->erred = ls_findings__add(rank->run, LS_FINDING_CALL_INVALID, &rank->id, 1, file, line,
                                       ls_findings__string(rank->run, &text));
        ls_text_free(&text);
    }
    ls_schedule__leave(rank);
    return LS_FAIL_RANK(LS_ERR_INVALID, rank->id, "%s:%d: %s", file, line, message);
}

// ---- Calls that disagree -----------------------------------------------------------------------
// The ranks whose calls say something else than most do: out [count]; returns how many.
static int minority(int *out, ls_request *const *requests, int count) {
    int best = 0, best_votes = -1;
    char a[256], b[256];
    for (int i = 0, votes = 0; i < count; i++) {  // a majority vote, then its count
        ls_call_describe(a, sizeof a, &requests[i]->call);
        ls_call_describe(b, sizeof b, &requests[best]->call);
        if (best_votes < 0 || votes == 0) {
            best = i, votes = 1, best_votes = 0;
        } else {
            votes += strcmp(a, b) == 0 ? 1 : -1;
        }
    }
    int found = 0;
    ls_call_describe(b, sizeof b, &requests[best]->call);
    for (int i = 0; i < count; i++) {
        ls_call_describe(a, sizeof a, &requests[i]->call);
        if (strcmp(a, b) != 0) {
            out[found++] = requests[i]->call.rank;
        }
    }
    return found;
}

void ls_findings__check_text(ls_text *text, const ls_check_failure *failure,
                             ls_request *const *requests, int count) {
    ls_findings__sides(text, requests, count);
    // The calls of one rank at fault, and of one that is not.
    const ls_rank *wrong = NULL, *right = NULL;
    for (int i = 0; i < count; i++) {
        if (requests[i] == NULL) {
            continue;
        }
        if (ls_ranks_find(failure->ranks, failure->rank_count, requests[i]->call.rank) >= 0) {
            wrong = wrong == NULL ? requests[i]->rank : wrong;
        } else {
            right = right == NULL ? requests[i]->rank : right;
        }
    }
    if (wrong != NULL) {
        ls_findings__history(text, wrong, 4);
    }
    if (right != NULL) {
        ls_findings__history(text, right, 4);
    }
}

int ls_findings__add_check(ls_spmd *run, ls_request *const *requests, int count) {
    const ls_check_failure failure = *ls_check_last();
    if (!failure.found || !run->checks[failure.id]) {
        return failure.found ? LS_ERR_MISMATCH : ls_error_last()->code;
    }
    ls_text text = {0};
    ls_text_printf(&text, "%s\n", ls_error_last()->text);
    ls_findings__check_text(&text, &failure, requests, count);
    void *memory = NULL;
    const int *ranks = failure.ranks;
    int rank_count = failure.rank_count;
    if (failure.rank_total > failure.rank_count &&
        ls_alloc(&memory, (size_t)count, sizeof(int)) == LS_OK) {
        rank_count = minority(memory, requests, count);
        ranks = memory;
    }
    (void)ls_findings__add(run, failure.id, ranks, rank_count, failure.file, failure.line,
                           ls_findings__string(run, &text));
    ls_text_free(&text);
    if (memory != NULL) {
        ls_free(memory, (size_t)count, sizeof(int));
    }
    return LS_ERR_FINDING;
}
