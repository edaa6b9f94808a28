// Races on windows: two accesses, at least one of which writes, that the clocks of clock.c do not
// order.
#include <stdlib.h>
#include <string.h>

#include "mpi/rma.h"

#define KEPT_FIRST  256    // ranges before past accesses are first removed
#define SEEN_FIRST  16     // the same, of ranges that one access meets
#define LOCAL_MAX   65536  // local accesses that are kept
#define OUTSIDE_MAX 4096   // accesses outside of windows that are kept
#define OP_CAS      (-1)

// A range of an access.
typedef struct mpi_reached {
    mpi_interval at;
    mpi_access *access;
} mpi_reached;

// All accesses of the run, since windows may share memory: [0] reads, [1] writes.
static mpi_intervals reached[2];
static int kept, kept_limit = KEPT_FIRST;
static int seen, seen_limit = SEEN_FIRST;  // ranges that the last access met
static atomic_int outside_count;
static atomic_int told;
static pthread_mutex_t turn = PTHREAD_MUTEX_INITIALIZER;  // guards the accesses that are kept

static mpi_access *access_of(const mpi_interval *at) {
    return ((const mpi_reached *)at)->access;
}

// ---- Accesses -----------------------------------------------------------------------------------
static bool complete_before(const mpi_access *a, const uint64_t *clock) {
    if (a->done != UINT64_MAX && clock[a->slot] >= a->done) {
        return true;
    }
    for (int r = 0; a->seen != NULL && r < ls_mpi__clock_count(); r++) {
        if (a->seen[r] != 0 && clock[r] >= a->seen[r]) {
            return true;
        }
    }
    return false;
}

// apart: the distance of their first bytes. Elements that overlap partially are not one element.
static bool may_mix(const mpi_access *a, const mpi_access *b, ptrdiff_t apart) {
    if (!a->atomic || !b->atomic || a->basic != b->basic ||
        (a->basic != 0 && apart % (ptrdiff_t)ls_mpi__basic(a->basic)->size != 0)) {
        return false;
    }
    if (a->origin == b->origin) {
        return true;  // accumulates of one origin are ordered
    }
    return a->op == b->op || a->op == MPI_NO_OP || b->op == MPI_NO_OP || a->op == OP_CAS ||
           b->op == OP_CAS;
}

// Whether two accesses conflict that have a byte in common and of which one writes.
static bool conflict(const mpi_access *a, const mpi_access *b, ptrdiff_t apart) {
    if ((a->window == NULL) != (b->window == NULL)) {
        return false;  // windows are made where all threads have met
    }
    bool own = a->local && b->local && a->origin == b->origin;
    if (may_mix(a, b, apart) || (own && (a->slot == b->slot || (!a->called && !b->called)))) {
        return false;  // races between threads of one rank are not MPI's
    }
    // Locks of one target exclude each other if one is exclusive.
    bool excluded = a->origin != b->origin && a->window == b->window && a->lock != 0 &&
                    b->lock != 0 &&
                    (a->lock == MPI_LOCK_EXCLUSIVE || b->lock == MPI_LOCK_EXCLUSIVE);
    return !excluded;
}

static const char *does(const mpi_access *a) {
    return a->writes ? "writes" : "reads";
}

static void find_line(mpi_access *of) {
    if (of->code != NULL) {
        ls_mpi__line_of(&ls_mpi__state.ranks[of->origin], of->code, &of->file, &of->line);
        of->code = NULL;
    }
}

void ls_mpi__race_report(mpi_race *race) {
    mpi_access *before = &race->before, *now = &race->now;
    if (race->me == NULL || told++ > 0) {
        return;  // later races have the same cause
    }
    find_line(before);
    find_line(now);
    ls_mpi__finding(
        race->me, LS_FINDING_RMA_RACE, now->file, now->line,
        "a race on %s of rank %d: %s of rank %d at %s:%d %s what %s of rank %d at %s:%d %s, and "
        "neither is complete before the other begins",
        now->window != NULL ? "window memory" : "a buffer", now->target, now->function, now->origin,
        now->file, now->line, does(now), before->function, before->origin, before->file,
        before->line, does(before));
}

// The memory was allocated after that access.
static bool is_new(const mpi_access *access, const char *at) {
    return access->window == NULL &&
           ls_mpi__block_number(&ls_mpi__state.ranks[access->origin], at) > access->blocks;
}

static mpi_access *find_race(mpi_rank *me, const mpi_range *range, const mpi_access *now) {
    const uint64_t *clock = ls_mpi__clock(me);
    seen = 0;
    for (int writes = now->writes ? 0 : 1; writes < 2; writes++) {
        mpi_interval *at = NULL;
        while ((at = ls_mpi__interval_search(&reached[writes], range->low, range->high, at)) !=
               NULL) {
            mpi_access *access = access_of(at);
            seen += 1;
            if (conflict(access, now, at->low - range->low) && !complete_before(access, clock) &&
                !is_new(access, at->low)) {
                return access;
            }
        }
    }
    return NULL;
}

static void close_access(mpi_access *access) {
    if (access->open != NULL) {
        *access->open = access->next;
        if (access->next != NULL) {
            access->next->open = access->open;
        }
        access->open = NULL;
    }
}

static void complete(mpi_access *access, mpi_rank *me) {
    close_access(access);
    access->slot = ls_mpi__thread(me)->slot;
    access->done = ls_mpi__clock(me)[access->slot];
}

// Releases one range of the access.
static void drop(mpi_access *access) {
    access->ranges -= 1;
    if (access->ranges > 0) {
        return;
    }
    close_access(access);
    if (access->request != NULL) {
        access->request->access = NULL;
    }
    free(access->clock);
    free(access->seen);
    free(access);
}

static bool is_past_on(const mpi_access *access, const mpi_rank *rank) {
    bool past = rank->finalised || complete_before(access, rank->main.clock);
    const mpi_thread *at = rank->finalised || rank->unordered ? NULL : rank->main.next;
    for (; at != NULL && past; at = at->next) {
        past = complete_before(access, at->clock) ||
               (at->outside && rank->forked != NULL && complete_before(access, rank->forked));
    }
    return past;
}

static bool is_past(const mpi_access *access) {
    bool past = access->window != NULL || is_past_on(access, &ls_mpi__state.ranks[access->origin]);
    for (int r = 0; r < ls_mpi__state.rank_count && past && access->window != NULL; r++) {
        past = is_past_on(access, &ls_mpi__state.ranks[r]);
    }
    return past;
}

static bool is_outside(const mpi_access *access) {
    return access->window == NULL;
}

static void remove_range(mpi_reached *range) {
    outside_count -= is_outside(range->access) ? 1 : 0;
    ls_mpi__interval_remove(&reached[range->access->writes ? 1 : 0], &range->at);
    drop(range->access);
    free(range);
    kept -= 1;
}

static void remove_all(bool (*which)(const mpi_access *access)) {
    for (int writes = 0; writes < 2; writes++) {
        mpi_interval *at = ls_mpi__interval_first(&reached[writes]);
        while (at != NULL) {
            mpi_reached *range = (mpi_reached *)at;
            at = ls_mpi__interval_after(&reached[writes], at);
            if (which(range->access)) {
                remove_range(range);
            }
        }
    }
}

// Removes accesses that all ranks have seen complete, where there are many: none can race.
static void remove_past(void) {
    if (kept < kept_limit && seen <= seen_limit) {
        return;
    }
    int before = kept;
    remove_all(is_past);
    kept_limit = kept < KEPT_FIRST / 2 ? KEPT_FIRST : 2 * kept;
    seen_limit = kept < before / 2 ? SEEN_FIRST : 2 * seen_limit;
    seen = 0;
}

// Whether everything that races with `at` also races with `now`, a later access of the same kind.
// Then `now` replaces it.
static bool repeats(const mpi_access *now, const mpi_access *at) {
    bool local = now->window != NULL ? at->local || now->local : at->called != now->called;
    return !local && at->slot == now->slot && at->window == now->window &&
           at->fetches == now->fetches && at->atomic == now->atomic && at->op == now->op &&
           at->basic == now->basic && at->lock == now->lock;
}

static void keep(const mpi_range *range, mpi_access *now) {
    mpi_intervals *set = &reached[now->writes ? 1 : 0];
    now->ranges += 1;
    mpi_interval *at = NULL;
    while ((at = ls_mpi__interval_search(set, range->low, range->high, at)) != NULL) {
        mpi_reached *own = (mpi_reached *)at;
        if (at->low == range->low && at->high == range->high && repeats(now, own->access)) {
            drop(own->access);
            own->access = now;
            return;
        }
    }
    remove_past();
    mpi_reached *made = ls_mpi__alloc(sizeof *made);
    *made = (mpi_reached){{.low = range->low, .high = range->high}, now};
    ls_mpi__interval_add(set, &made->at);
    kept += 1;
    outside_count += is_outside(now) ? 1 : 0;
}

void ls_mpi__race_end(void) {
    for (int writes = 0; writes < 2; writes++) {
        while (reached[writes].root != NULL) {
            remove_range((mpi_reached *)reached[writes].root);
        }
    }
    told = 0;
    kept_limit = KEPT_FIRST;
    seen_limit = SEEN_FIRST;
}

static int lock_of(const mpi_win *win, int target) {
    return win->locks_held[target];
}

// An atomic read of an atomically written value is ordered after that write and after what its
// writer had completed by then. Flags, counters and locks of the program rely on this.
static void acquire(mpi_rank *me, const mpi_ranges *where) {
    const mpi_range *range = where->all;
    for (size_t i = 0; i < where->count; i++) {
        mpi_interval *next = NULL;
        while ((next = ls_mpi__interval_search(&reached[1], range[i].low, range[i].high, next)) !=
               NULL) {
            mpi_access *at = access_of(next);
            if (at->clock == NULL) {
                continue;
            }
            ls_mpi__clock_message(me, at->clock);
            if (at->whole && where->count == 1 && range->low <= next->low &&
                range->high >= next->high) {
                int slot = ls_mpi__thread(me)->slot;
                at->seen = at->seen != NULL ? at->seen : ls_mpi__clock_make();
                at->seen[slot] = at->seen[slot] != 0 ? at->seen[slot] : ls_mpi__clock(me)[slot] + 1;
            }
        }
    }
}

static void open_access(mpi_win *win, mpi_access *access) {
    mpi_access ***lists = &win->open[access->fetches ? 1 : 0];
    if (*lists == NULL) {
        *lists = ls_mpi__alloc((size_t)win->shared->size * sizeof **lists);
    }
    mpi_access **first = &(*lists)[access->target_member];
    access->next = *first;
    access->open = first;
    if (*first != NULL) {
        (*first)->open = &access->next;
    }
    *first = access;
}

// Records all ranges of one access; separate ranges are kept separately.
static mpi_access *look_at(mpi_win *win, const mpi_ranges *where, const mpi_access *how) {
    mpi_rank *me = win->owner;
    mpi_access *now = ls_mpi__alloc(sizeof *now), *before = NULL;
    *now = *how;
    (void)pthread_mutex_lock(&turn);
    if (now->atomic && now->fetches) {
        acquire(me, where);
    }
    for (size_t i = 0; i < where->count && before == NULL; i++) {
        before = find_race(me, &where->all[i], now);
    }
    mpi_race race = {0};
    if (before != NULL) {
        race = (mpi_race){me, *before, *now};
    }
    now->clock = now->atomic && now->writes ? ls_mpi__clock_copy(me) : NULL;
    now->whole = where->count == 1;
    now->ranges = 1;  // ours until all are recorded
    open_access(win, now);
    for (size_t i = 0; i < where->count; i++) {
        keep(&where->all[i], now);
    }
    bool alone = now->ranges == 1;
    drop(now);
    (void)pthread_mutex_unlock(&turn);
    ls_mpi__race_report(&race);
    return alone ? NULL : now;
}

mpi_access *ls_mpi__race_remote(mpi_win *win, int target, const mpi_place *place,
                                const mpi_access *how) {
    mpi_rank *me = win->owner;
    if (told > 0) {
        return NULL;
    }
    mpi_access now = *how;
    now.origin = me->id;
    now.called = true;
    now.slot = ls_mpi__thread(me)->slot;
    now.target = ls_mpi__comm_world_rank(win->comm, target);
    now.target_member = target;
    now.basic = place->type->segment_count > 0 ? place->type->segments[0].basic : 0;
    now.lock = lock_of(win, target);
    now.begun = ls_mpi__clock(me)[now.slot];
    now.done = UINT64_MAX;
    now.window = win->shared;
    now.file = ls_mpi__file;
    now.line = ls_mpi__line;
    mpi_ranges where;
    ls_mpi__ranges(&where, place);
    mpi_access *made = look_at(win, &where, &now);
    ls_mpi__ranges_free(&where);
    ls_mpi__clock_tick(me);  // later completions are not in the clock that was released
    return made;
}

static void complete_all(mpi_access *first, mpi_rank *me) {
    while (first != NULL) {
        mpi_access *next = first->next;
        complete(first, me);
        first = next;
    }
}

void ls_mpi__race_complete(mpi_win *win, int target, bool remote) {
    mpi_rank *me = win->owner;
    ls_mpi__disown_epoch(me, win, target);
    int first = target < 0 ? 0 : target, end = target < 0 ? win->shared->size : target + 1;
    (void)pthread_mutex_lock(&turn);
    for (int fetches = remote ? 0 : 1; fetches < 2; fetches++) {
        for (int t = first; win->open[fetches] != NULL && t < end; t++) {
            complete_all(win->open[fetches][t], me);
        }
    }
    (void)pthread_mutex_unlock(&turn);
}

void ls_mpi__race_requested(mpi_access *access, mpi_request *request) {
    if (access != NULL) {
        access->request = request;
        request->access = access;
    }
}

// The request is complete. If the call fetches, its result is too.
void ls_mpi__race_request_done(mpi_rank *me, mpi_request *request) {
    (void)pthread_mutex_lock(&turn);
    mpi_access *access = request->access;
    if (access != NULL) {
        access->request = NULL;
        request->access = NULL;
        if (access->fetches && access->done == UINT64_MAX) {
            complete(access, me);
        }
    }
    (void)pthread_mutex_unlock(&turn);
    ls_mpi__clock_tick(me);
}

// No call can reach that memory through the window any more, and another rank may get it.
void ls_mpi__race_forget(const mpi_win *win, const char *low, const char *high) {
    (void)pthread_mutex_lock(&turn);
    for (int writes = 0; writes < 2; writes++) {
        mpi_interval *at = ls_mpi__interval_search(&reached[writes], low, high, NULL);
        while (at != NULL) {
            mpi_reached *range = (mpi_reached *)at;
            at = ls_mpi__interval_search(&reached[writes], low, high, at);
            const mpi_access *of = range->access;
            if (of->window == win->shared && of->target_member == win->member) {
                remove_range(range);
            }
        }
    }
    (void)pthread_mutex_unlock(&turn);
}

void ls_mpi__race_close(mpi_win *win) {
    ls_mpi__race_complete(win, -1, true);
    ls_mpi__race_forget(win, win->base, win->base + win->size);
}

// ---- Accesses of the rank's own -----------------------------------------------------------------
// Extends an access with the same clock that this one continues; false: there is none.
static bool extend(const mpi_range *range, const mpi_access *now) {
    mpi_intervals *set = &reached[now->writes ? 1 : 0];
    mpi_interval *at = NULL;
    while ((at = ls_mpi__interval_search(set, range->low - 1, range->high + 1, at)) != NULL) {
        const mpi_access *of = access_of(at);
        if (of->local && of->slot == now->slot && of->window == now->window &&
            of->target == now->target && of->begun == now->begun && of->lock == now->lock &&
            of->called == now->called) {
            break;
        }
    }
    if (at == NULL || (at->low <= range->low && at->high >= range->high)) {
        return at != NULL;
    }
    ls_mpi__interval_remove(set, at);
    at->low = range->low < at->low ? range->low : at->low;
    at->high = range->high > at->high ? range->high : at->high;
    ls_mpi__interval_add(set, at);
    return true;
}

bool ls_mpi__race_outside(void) {
    return outside_count > 0;
}

void ls_mpi__race_own(mpi_race *out, mpi_rank *me, const mpi_range *range, mpi_access *now,
                      bool keeps) {
    *out = (mpi_race){0};
    if (told > 0) {
        return;
    }
    (void)pthread_mutex_lock(&turn);
    now->slot = ls_mpi__thread(me)->slot;
    now->begun = now->done = ls_mpi__clock(me)[now->slot];
    now->origin = me->id;
    now->whole = now->local = true;
    const mpi_access *before = find_race(me, range, now);
    bool outside = now->window == NULL;
    if (outside && keeps && outside_count >= OUTSIDE_MAX) {
        remove_all(is_outside);
    }
    if (before != NULL) {
        *out = (mpi_race){me, *before, *now};
    } else if (!keeps) {
        // The caller has a place for it.
    } else if (!outside && extend(range, now)) {
        remove_past();
    } else if (outside || kept < LOCAL_MAX) {
        mpi_access *made = ls_mpi__alloc(sizeof *made);
        *made = *now;
        keep(range, made);
    }
    (void)pthread_mutex_unlock(&turn);
}
