// See seen.h.
#define _GNU_SOURCE  // MAP_ANONYMOUS
#include "ranks/seen.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "ranks/internal.h"

#define LAST_CALLS 4

ls_seen *ls_seen__here;
bool ls_seen__forked;

static void in_child(void) {
    ls_seen__forked = true;
}

int ls_seen_open(ls_seen **out, int ranks) {
    static bool watches;
    size_t bytes;
    *out = NULL;
    LS_TRY(ls_size_mul(&bytes, (size_t)ranks, sizeof(ls_seen_place)));
    LS_TRY(ls_size_add(&bytes, bytes, sizeof(ls_seen)));
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
        return LS_FAIL(LS_ERR_MEMORY, "no memory that processes share");
    }
    *out = memory;
    (*out)->bytes = bytes;
    (*out)->place_count = ranks;
    (*out)->running = -1;
    if (!watches) {
        watches = pthread_atfork(NULL, NULL, in_child) == 0;
    }
    return LS_OK;
}

void ls_seen_close(ls_seen *seen) {
    if (seen != NULL) {
        (void)munmap(seen, seen->bytes);
    }
}

void ls_seen__begin(void) {
    ls_seen__forked = false;
    if (ls_seen__here != NULL) {
        ls_seen__here->running = -1;
        ls_seen__here->check.claimed = ls_seen__here->check.there = false;
        ls_seen__here->end.claimed = ls_seen__here->end.there = false;
        ls_seen__here->forked[0] = 0;
    }
}

void ls_seen__at(int rank, const char *file, int line) {
    ls_seen *seen = ls_seen__here;
    if (seen == NULL || rank >= seen->place_count || ls_seen__forked) {
        return;
    }
    ls_seen_place *place = &seen->places[rank];
    if (place->key != file) {
        place->key = file;
        (void)snprintf(place->file, sizeof place->file, "%s", file != NULL ? file : "");
    }
    place->line = line;
}

void ls_seen__found(const ls_finding *finding) {
    ls_seen *seen = ls_seen__here;
    if (seen == NULL || ls_seen__forked || atomic_exchange(&seen->check.claimed, true)) {
        return;
    }
    ls_seen_finding *out = &seen->check;
    out->id = finding->id;
    out->rank_count = finding->rank_count < LS_SEEN_RANKS ? finding->rank_count : LS_SEEN_RANKS;
    memcpy(out->ranks, finding->ranks, (size_t)out->rank_count * sizeof(int));
    (void)snprintf(out->where, sizeof out->where, "%s", finding->where);
    (void)snprintf(out->text, sizeof out->text, "%s", finding->text);
    out->there = true;
}

static void add_calls(char *out, size_t bytes, const ls_rank *rank) {
    uint64_t room = (uint64_t)rank->run->history;
    uint64_t kept = rank->call_count < room ? rank->call_count : room;
    kept = kept < LAST_CALLS ? kept : LAST_CALLS;
    size_t used = strlen(out);
    if (kept > 0) {
        (void)snprintf(out + used, bytes - used, "last calls of rank %d, newest last:\n", rank->id);
    }
    for (uint64_t n = rank->call_count - kept; n < rank->call_count; n++) {
        const ls_history_entry *entry = &rank->history[n % room];
        char what[256], where[LS_CALL_WHERE_MAX];
        if (entry->number != n || entry->call.comm == NULL) {
            continue;
        }
        ls_call_describe(what, sizeof what, &entry->call);
        used = strlen(out);
        (void)snprintf(out + used, bytes - used, "  %s%s at %s\n", what,
                       entry->done ? "" : " (not complete)", ls_call__where(where, &entry->call));
    }
}

void ls_seen__lost(const ls_rank *rank, ls_finding_id id, const char *why) {
    ls_seen *seen = ls_seen__here;
    if (seen == NULL || ls_seen__forked || rank->id >= seen->place_count ||
        (rank->run->status != LS_OK && seen->check.there) ||  // which it follows from
        atomic_exchange(&seen->end.claimed, true)) {
        return;
    }
    ls_seen_finding *out = &seen->end;
    const ls_seen_place *place = &seen->places[rank->id];
    out->id = id;
    out->ranks[0] = rank->id;
    out->rank_count = 1;
    out->where[0] = 0;
    if (place->line > 0) {
        (void)snprintf(out->where, sizeof out->where, "%s:%d", place->file, place->line);
    }
    (void)snprintf(out->text, sizeof out->text, "rank %d %s %s%s\n", rank->id, why,
                   place->line > 0 ? "in or after its call at " : "before its first call",
                   out->where);
    out->there = true;
    add_calls(out->text, sizeof out->text, rank);
}
