// Buffers that calls own until they complete. A send buffer may be read and not written. A receive
// buffer may not even be read.
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "mpi/coll.h"
#include "mpi/rma.h"

_Thread_local __attribute__((tls_model("initial-exec"))) mpi_rank *ls_mpi__watched;

static bool owns(const mpi_rank *me) {
    return me->owned[0].root != NULL || me->owned[1].root != NULL;
}

// Threads that the program started are watched while they run; the rank's own thread from the first
// one on.
void ls_mpi__watch(mpi_rank *me) {
    if (pthread_equal(me->rank->thread, pthread_self()) != 0) {
        bool used = owns(me) || me->window_count > 0 || me->rank->thread_count > 1;
        ls_mpi__watched = used ? me : NULL;
    }
}

static void tell(mpi_rank *me, mpi_owned *owned, const char *does, const char *function,
                 const char *file, int line) {
    if (owned->told) {
        return;
    }
    owned->told = true;
    ls_mpi__finding(me, LS_FINDING_BUFFER_USE_BEFORE_WAIT, file, line,
                    "%s %s a buffer at %s:%d that %s, made at %s:%d, %s and owns until %s",
                    function != NULL ? function : "the program", does, file, line, owned->function,
                    owned->file, owned->line, owned->writes ? "writes" : "reads",
                    owned == me->bsend_owned ? "MPI_Buffer_detach" : "it is complete");
}

// The first buffer that calls read (write) and that overlaps the range. A freed request's buffer is
// not owned once its message is complete.
static mpi_owned *owner_of(mpi_rank *me, const char *low, const char *high, bool writes) {
    mpi_interval *at;
    while ((at = ls_mpi__interval_search(&me->owned[writes ? 1 : 0], low, high, NULL)) != NULL) {
        mpi_owned *owned = ((mpi_held *)at)->owned;
        if (owned->until == NULL || owned->until->state != LS_REQUEST_DONE) {
            return owned;
        }
        ls_mpi__disown(me, owned);
    }
    return NULL;
}

mpi_owned *ls_mpi__owner(mpi_rank *me, const char *low, const char *high, bool writes) {
    mpi_owned *writer = owner_of(me, low, high, true);
    return writer == NULL && writes ? owner_of(me, low, high, false) : writer;
}

#define LOOKS_MAX 100
// Between these two no other thread of the rank changes ownership. False: another thread may be
// about to.
static bool look(mpi_rank *me, bool *alone) {
    *alone = me->rank->thread_count == 1;
    if (*alone) {
        return true;
    }
    (void)pthread_mutex_lock(&me->look);
    me->looks = true;
    for (int i = 0; ls_turns__inside(me->rank); i++) {
        me->looks = false;
        if (i == LOOKS_MAX) {  // the other thread may wait for this one
            (void)pthread_mutex_unlock(&me->look);
            return false;
        }
        (void)sched_yield();
        me->looks = true;
    }
    return true;
}

static void look_away(mpi_rank *me, bool alone) {
    if (!alone) {
        me->looks = false;
        (void)pthread_mutex_unlock(&me->look);
    }
}

void ls_mpi__accessed(mpi_rank *me, const void *at, size_t bytes, bool writes, const void *code) {
    const char *low = at, *high = low + bytes;
    bool alone;
    if (ls_mpi__state.run->status != LS_OK || ls_schedule__inside() || !look(me, &alone)) {
        return;
    }
    mpi_race race;
    race.me = NULL;
    mpi_owned *owned = ls_mpi__owner(me, low, high, writes);
    if (me->window_count > 0 && !(me->unordered && me->rank->thread_count > 1)) {
        ls_mpi__win_access(&race, me, low, high, writes, code);
    }
    look_away(me, alone);
    if (owned != NULL && !owned->told) {
        const char *file;
        int line;
        ls_mpi__line_of(me, code, &file, &line);
        tell(me, owned, writes ? "writes" : "reads", NULL, file, line);
    }
    ls_mpi__race_report(&race);
}

static mpi_win *exposes(const mpi_rank *me, const char *low, const char *high) {
    for (mpi_win *win = me->windows; win != NULL; win = win->next) {
        bool own =
            win->flavor == MPI_WIN_FLAVOR_CREATE && win->base < high && win->base + win->size > low;
        if (own || ls_mpi__interval_search(&win->attached, low, high, NULL) != NULL) {
            return win;
        }
    }
    return NULL;
}

// The call that owns, or the window that exposes, a byte of the range.
static bool used_by(mpi_owned **owned, mpi_win **win, mpi_rank *me, const char *low,
                    const char *high) {
    bool alone;
    if (me == NULL || low >= high || ls_mpi__state.run->status != LS_OK || ls_schedule__inside() ||
        me->finalised || !look(me, &alone)) {
        return false;
    }
    *owned = ls_mpi__owner(me, low, high, true);
    *win = *owned == NULL ? exposes(me, low, high) : NULL;
    look_away(me, alone);
    return *owned != NULL || *win != NULL;
}

static const char *exposed_until(const mpi_win *win) {
    return win->flavor == MPI_WIN_FLAVOR_DYNAMIC ? "MPI_Win_detach" : "MPI_Win_free";
}

bool ls_mpi__still_used(const char *low, const char *high, const void *code) {
    mpi_rank *me = ls_mpi__watched;
    mpi_owned *owned;
    mpi_win *win;
    const char *file;
    int line;
    if (!used_by(&owned, &win, me, low, high)) {
        return false;
    }
    if (owned != NULL && !owned->told) {
        ls_mpi__line_of(me, code, &file, &line);
        tell(me, owned, "frees", NULL, file, line);
    }
    if (win != NULL && !win->told) {
        const mpi_slot *slot = ls_mpi__handle_slot(me, win->handle);
        ls_mpi__line_of(me, code, &file, &line);
        win->told = true;
        ls_mpi__finding(me, LS_FINDING_BUFFER_USE_BEFORE_WAIT, file, line,
                        "the program frees memory at %s:%d that the window of %s at %s:%d exposes "
                        "until %s",
                        file, line, slot->function, slot->file, slot->line, exposed_until(win));
    }
    return true;
}

void ls_mpi__left_behind(const void *stack) {
    mpi_rank *me = ls_mpi__watched;
    const char *low = (const char *)me->rank->stack_low, *high = stack;
    mpi_owned *owned;
    mpi_win *win;
    if (low == NULL || high > low + me->rank->stack_bytes ||
        !used_by(&owned, &win, me, low, high)) {
        return;
    }
    if (owned != NULL && !owned->told) {
        owned->told = true;
        ls_mpi__finding(me, LS_FINDING_BUFFER_USE_BEFORE_WAIT, ls_mpi__file, ls_mpi__line,
                        "a function has returned before %s:%d; %s, made at %s:%d, %s a variable of "
                        "it and owns that until it is complete",
                        ls_mpi__file, ls_mpi__line, owned->function, owned->file, owned->line,
                        owned->writes ? "writes" : "reads");
    }
    if (win != NULL && !win->told) {
        const mpi_slot *slot = ls_mpi__handle_slot(me, win->handle);
        win->told = true;
        ls_mpi__finding(me, LS_FINDING_BUFFER_USE_BEFORE_WAIT, ls_mpi__file, ls_mpi__line,
                        "a function has returned before %s:%d; the window of %s at %s:%d exposes "
                        "one of its variables until %s",
                        ls_mpi__file, ls_mpi__line, slot->function, slot->file, slot->line,
                        exposed_until(win));
    }
}

// Reports an access by a call, at the place of the call.
static void touch(mpi_rank *me, const mpi_ranges *where, bool writes, const char *function) {
    mpi_owned *owned = NULL;
    for (size_t i = 0; i < where->count && owned == NULL; i++) {
        owned = ls_mpi__owner(me, where->all[i].low, where->all[i].high, writes);
    }
    if (owned != NULL) {
        tell(me, owned, writes ? "writes" : "reads", function, ls_mpi__file, ls_mpi__line);
    }
    for (size_t i = 0; i < where->count && me->window_count > 0; i++) {
        ls_mpi__win_local(me, where->all[i].low, where->all[i].high, writes, function, ls_mpi__file,
                          ls_mpi__line);
    }
}

static bool is_empty(const mpi_place *place) {
    return place->count == 0 || place->type == NULL || place->type->size == 0;
}

// Owns all places; each is checked first.
static void ranges_of(mpi_ranges *out, mpi_rank *me, const mpi_place *places, size_t n,
                      const char *function) {
    *out = (mpi_ranges){.all = &out->one};
    mpi_ranges *each = n > 1 ? ls_mpi__alloc(n * sizeof *each) : out;
    size_t count = 0;
    for (size_t i = 0; i < n; i++) {
        if (!is_empty(&places[i])) {
            ls_mpi__buffer_check(me, &places[i], function);
            ls_mpi__ranges(&each[i], &places[i]);
            count += each[i].count;
        }
    }
    if (n <= 1) {
        return;
    }
    out->all = ls_mpi__alloc(count * sizeof *out->all);
    for (size_t i = 0; i < n; i++) {
        for (size_t k = 0; k < each[i].count; k++) {
            mpi_range *last = out->all + out->count - (out->count > 0 ? 1 : 0);
            if (out->count > 0 && last->high == each[i].all[k].low) {
                last->high = each[i].all[k].high;
            } else {
                out->all[out->count++] = each[i].all[k];
            }
        }
        if (each[i].count > 0) {
            ls_mpi__ranges_free(&each[i]);
        }
    }
    free(each);
}

void ls_mpi__touch_places(mpi_rank *me, const mpi_place *places, size_t n, bool writes,
                          const char *function) {
    if (!owns(me) && me->window_count == 0) {
        for (size_t i = 0; i < n; i++) {
            if (!is_empty(&places[i])) {
                ls_mpi__buffer_check(me, &places[i], function);
            }
        }
        return;
    }
    mpi_ranges where;
    ranges_of(&where, me, places, n, function);
    touch(me, &where, writes, function);
    ls_mpi__ranges_free(&where);
}

void ls_mpi__touch_typed(mpi_rank *me, const void *buf, size_t count, const mpi_type *type,
                         bool writes, const char *function) {
    ls_mpi__touch_places(me, &(const mpi_place){buf, count, type}, 1, writes, function);
}

mpi_owned *ls_mpi__own_places(mpi_rank *me, const mpi_place *places, size_t n, bool writes,
                              const char *function) {
    mpi_ranges where;
    ranges_of(&where, me, places, n, function);
    if (where.count == 0) {
        ls_mpi__ranges_free(&where);
        return NULL;
    }
    touch(me, &where, writes, function);
    mpi_owned *made = ls_mpi__alloc(sizeof *made + where.count * sizeof made->held[0]);
    *made = (mpi_owned){.writes = writes,
                        .function = function,
                        .file = ls_mpi__file,
                        .line = ls_mpi__line,
                        .held_count = where.count};
    for (size_t i = 0; i < where.count; i++) {
        made->held[i] = (mpi_held){{.low = where.all[i].low, .high = where.all[i].high}, made};
        ls_mpi__interval_add(&me->owned[writes ? 1 : 0], &made->held[i].at);
    }
    ls_mpi__ranges_free(&where);
    ls_mpi__watch(me);
    return made;
}

mpi_owned *ls_mpi__own(mpi_rank *me, const void *buf, size_t count, const mpi_type *type,
                       bool writes, const char *function) {
    return ls_mpi__own_places(me, &(const mpi_place){buf, count, type}, 1, writes, function);
}

void ls_mpi__disown(mpi_rank *me, mpi_owned *owned) {
    if (owned == NULL) {
        return;
    }
    for (size_t i = 0; i < owned->held_count; i++) {
        ls_mpi__interval_remove(&me->owned[owned->writes ? 1 : 0], &owned->held[i].at);
    }
    if (owned->holder != NULL) {
        *owned->holder = NULL;
    }
    if (owned->of_epoch != NULL) {
        *owned->of_epoch = owned->next;
        if (owned->next != NULL) {
            owned->next->of_epoch = owned->of_epoch;
        }
    }
    free(owned);
    ls_mpi__watch(me);
}

// ---- Buffers of RMA calls -----------------------------------------------------------------------
void ls_mpi__own_in_epoch(mpi_owned *owned, mpi_win *win, int target) {
    if (owned == NULL) {
        return;
    }
    if (win->owned == NULL) {
        win->owned = ls_mpi__alloc((size_t)win->shared->size * sizeof *win->owned);
    }
    mpi_owned **first = &win->owned[target];
    for (size_t i = 0; i < owned->held_count; i++) {
        ls_mpi__race_origin(win->owner, owned->held[i].at.low, owned->held[i].at.high, owned);
    }
    owned->win = win;
    owned->target = target;
    owned->next = *first;
    owned->of_epoch = first;
    if (*first != NULL) {
        (*first)->of_epoch = &owned->next;
    }
    *first = owned;
}

void ls_mpi__disown_epoch(mpi_rank *me, const mpi_win *win, int target) {
    for (int t = target < 0 ? 0 : target; win->owned != NULL && t < win->shared->size; t++) {
        while (win->owned[t] != NULL) {
            ls_mpi__disown(me, win->owned[t]);
        }
        if (target >= 0) {
            return;
        }
    }
}

// A loop may send from one buffer many times: one record covers it until the epoch ends.
#define LOOKED_AT 8
bool ls_mpi__owned_in_epoch(mpi_rank *me, const mpi_win *win, int target, const mpi_place *place) {
    mpi_ranges where;
    ls_mpi__ranges(&where, place);
    const mpi_range *first = where.all;
    mpi_interval *at = NULL;
    bool found = false;
    for (int i = 0; i < LOOKED_AT && where.count > 0 && !found; i++) {
        at = ls_mpi__interval_search(&me->owned[0], first->low, first->high, at);
        if (at == NULL) {
            break;
        }
        const mpi_owned *owned = ((const mpi_held *)at)->owned;
        found = owned->win == win && owned->holder == NULL && owned->target == target &&
                !owned->told && owned->held_count == where.count;
        for (size_t k = 0; k < where.count && found; k++) {
            found = owned->held[k].at.low == where.all[k].low &&
                    owned->held[k].at.high == where.all[k].high;
        }
    }
    ls_mpi__ranges_free(&where);
    return found;
}
