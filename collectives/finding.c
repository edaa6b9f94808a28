// Names of findings, and the per-thread record of what the last failing check found.
#include "collectives/finding.h"

#include <stdio.h>
#include <string.h>

#include "collectives/check.h"

static const struct {
    const char *name;
    bool on;
    const char *reads, *text;
} findings[] = {
#define LS_FINDING_ROW(id, ...) [id] = {__VA_ARGS__},
    LS_FINDING_MAP(LS_FINDING_ROW)
#undef LS_FINDING_ROW
};

bool ls_finding_default(ls_finding_id id) {
    LS_ASSERT((int)id >= 0 && id < LS_FINDING_COUNT);
    return findings[id].on;
}

const char *ls_finding_reads(ls_finding_id id) {
    LS_ASSERT((int)id >= 0 && id < LS_FINDING_COUNT);
    return findings[id].reads;
}

bool ls_finding_needs_data(ls_finding_id id) {
    return strstr(ls_finding_reads(id), "bytes") != NULL;
}

bool ls_finding_spares_values(ls_finding_id id) {
    return strcmp(ls_finding_reads(id), "handles") == 0;
}

const char *ls_finding_text(ls_finding_id id) {
    LS_ASSERT((int)id >= 0 && id < LS_FINDING_COUNT);
    return findings[id].text;
}

const char *ls_finding_name(ls_finding_id id) {
    LS_ASSERT((int)id >= 0 && id < LS_FINDING_COUNT);
    return findings[id].name;
}

bool ls_place_equal(const ls_place *a, const ls_place *b) {
    return a->state == b->state && a->calls == b->calls &&
           (a->state != LS_PLACE_WAITS || (a->awaited == b->awaited && a->line == b->line));
}

void ls_place_format(char *out, size_t out_bytes, const ls_place *place) {
    unsigned long long calls = place->calls, awaited = place->awaited;
    switch (place->state) {
    case LS_PLACE_UNKNOWN:
        (void)snprintf(out, out_bytes, "has made no call");
        return;
    case LS_PLACE_WAITS:
        (void)snprintf(out, out_bytes, "waits in call %llu, %s (line %d)", awaited, place->what,
                       place->line);
        return;
    case LS_PLACE_RUNS:
    case LS_PLACE_STALLS:
    case LS_PLACE_RETURNED:
    case LS_PLACE_DIED:
        break;
    }
    const char *does = place->state == LS_PLACE_RETURNED ? "has returned" : "died";
    if (place->state == LS_PLACE_RUNS) {
        does = "runs";
    } else if (place->state == LS_PLACE_STALLS) {
        does = "stalls";
    }
    (void)snprintf(out, out_bytes, "%s after %llu call%s", does, calls, calls == 1 ? "" : "s");
}

int ls_finding_parse(ls_finding_id *out, const char *name) {
    LS_ASSERT(out != NULL && name != NULL);
    for (int id = 0; id < LS_FINDING_COUNT; id++) {
        if (strcmp(name, findings[id].name) == 0) {
            *out = (ls_finding_id)id;
            return LS_OK;
        }
    }
    const char *names[LS_FINDING_COUNT];
    for (int id = 0; id < LS_FINDING_COUNT; id++) {
        names[id] = findings[id].name;
    }
    const char *near = ls_nearest(name, names, LS_FINDING_COUNT);
    return LS_FAIL(LS_ERR_NOT_FOUND, "there is no finding named \"%.64s\"%s%s%s", name,
                   near != NULL ? "; did you mean \"" : "", near != NULL ? near : "",
                   near != NULL ? "\"?" : "");
}

static _Thread_local ls_check_failure last_failure = {.file = ""};

const ls_check_failure *ls_check_last(void) {
    return &last_failure;
}

void ls_check_clear(void) {
    last_failure = (ls_check_failure){.file = ""};
}

void ls_check__note(ls_finding_id id, const ls_call *call) {
    ls_check_clear();
    last_failure.found = true;
    last_failure.id = id;
    ls_check__note_rank(call);
}

void ls_check__restore(const ls_check_failure *failure) {
    last_failure = *failure;
}

void ls_check__forget_file(void) {
    last_failure.file = "";
    last_failure.line = 0;
}

void ls_check__restart_ranks(void) {
    last_failure.rank_count = 0;
    last_failure.rank_total = 0;
}

void ls_check__note_rank(const ls_call *call) {
    ls_check_failure *failure = &last_failure;
    if (failure->rank_total == 0 && call->file != NULL) {
        failure->file = call->file;
        failure->line = call->line;
    }
    ls_check__note_rank_number(call->rank);
}

void ls_check__note_rank_number(int rank) {
    ls_check_failure *failure = &last_failure;
    failure->rank_total += 1;
    // Keeps the lowest ranks, ascending: an insertion into a short array.
    int at = failure->rank_count;
    while (at > 0 && failure->ranks[at - 1] > rank) {
        at -= 1;
    }
    if (at == LS_CHECK_RANKS_MAX) {
        return;
    }
    int last =
        failure->rank_count < LS_CHECK_RANKS_MAX ? failure->rank_count : LS_CHECK_RANKS_MAX - 1;
    memmove(&failure->ranks[at + 1], &failure->ranks[at], (size_t)(last - at) * sizeof(int));
    failure->ranks[at] = rank;
    failure->rank_count = last + 1;
}

int ls_check_finding(ls_finding *out, ls_arena *arena) {
    const ls_check_failure *failure = &last_failure;
    if (!failure->found) {
        return LS_FAIL(LS_ERR_NOT_FOUND, "no check failed");
    }
    const char *text = ls_arena_strdup(arena, ls_error_last()->text);
    const int *ranks = ls_arena_copy(arena, failure->ranks, sizeof failure->ranks);
    const char *where = failure->file != NULL && failure->file[0] != '\0'
                            ? ls_arena_printf(arena, "%s:%d", failure->file, failure->line)
                            : "";
    LS_TRY_MEMORY(text != NULL && ranks != NULL && where != NULL);
    *out = (ls_finding){.id = failure->id,
                        .ranks = ranks,
                        .rank_count = failure->rank_count,
                        .where = where,
                        .text = text};
    return LS_OK;
}
