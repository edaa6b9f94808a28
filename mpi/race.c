// Races on windows: two accesses of which at least one writes, and neither of which is complete
// before the other begins. What orders them, the clocks of clock.c know.
#include <stdlib.h>
#include <string.h>

#include "mpi/rma.h"

#define KEPT_FIRST 256  // accesses before the first look at which are past
#define LOCAL_MAX  1024
#define OP_CAS     (-1)

// All accesses of the run, newest first: windows may share memory.
static mpi_access *accesses;
static int access_count, told;
static uint64_t changes = 1;  // of that list

// ---- Accesses -----------------------------------------------------------------------------------
static bool complete_before(const mpi_access *a, const uint64_t *clock) {
    if (a->done != UINT64_MAX && clock[a->origin] >= a->done) {
        return true;
    }
    for (int r = 0; a->seen != NULL && r < ls_mpi__state.rank_count; r++) {
        if (a->seen[r] != 0 && clock[r] >= a->seen[r]) {
            return true;
        }
    }
    return false;
}

static bool may_mix(const mpi_access *a, const mpi_access *b) {
    if (!a->atomic || !b->atomic || a->basic != b->basic) {
        return false;
    }
    if (a->origin == b->origin) {
        return true;  // accumulates of one origin are in its order
    }
    return a->op == b->op || a->op == MPI_NO_OP || b->op == MPI_NO_OP || a->op == OP_CAS ||
           b->op == OP_CAS;
}

// The first of the parts that does not end before the address.
static const mpi_range *part_at(const mpi_access *a, const char *low) {
    const mpi_range *first = a->parts, *end = a->parts + a->part_count;
    while (first < end) {
        const mpi_range *middle = first + (end - first) / 2;
        if (middle->high <= low) {
            first = middle + 1;
        } else {
            end = middle;
        }
    }
    return first;
}

// Whether they have a byte in common: both lists of parts are in the order of their addresses.
static bool meet(const mpi_access *a, const mpi_access *b) {
    const mpi_range whole_a = {a->low, a->high}, whole_b = {b->low, b->high};
    const mpi_range *x = a->parts != NULL ? part_at(a, b->low) : &whole_a;
    const mpi_range *y = b->parts != NULL ? part_at(b, a->low) : &whole_b;
    const mpi_range *end_x = a->parts != NULL ? a->parts + a->part_count : x + 1;
    const mpi_range *end_y = b->parts != NULL ? b->parts + b->part_count : y + 1;
    while (x < end_x && y < end_y) {
        if (x->low < y->high && y->low < x->high) {
            return true;
        }
        if (x->high <= y->high) {
            x += 1;
        } else {
            y += 1;
        }
    }
    return false;
}

static bool conflict(const mpi_access *a, const mpi_access *b) {
    if ((!a->writes && !b->writes) || !meet(a, b)) {
        return false;
    }
    if (may_mix(a, b) || (a->local && b->local && a->origin == b->origin)) {
        return false;
    }
    // Locks of one target let only one of them in where one is exclusive.
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

static void tell(mpi_win *win, mpi_access *before, mpi_access *now) {
    if (told++ > 0) {
        return;  // what follows has the same cause
    }
    mpi_rank *me = win->owner;
    find_line(before);
    find_line(now);
    ls_mpi__finding(
        me, LS_FINDING_RMA_RACE, now->file, now->line,
        "a race on window memory of rank %d: %s of rank %d at %s:%d %s what %s of rank %d at "
        "%s:%d %s, and neither is complete before the other begins",
        now->target, now->function, now->origin, now->file, now->line, does(now), before->function,
        before->origin, before->file, before->line, does(before));
}

static mpi_access *find_race(mpi_win *win, const mpi_access *now) {
    for (mpi_access *at = accesses; at != NULL; at = at->next) {
        if (conflict(at, now) && !complete_before(at, win->owner->clock)) {
            return at;
        }
    }
    return NULL;
}

// What the rank's own reads and writes could race with: what it knew to be complete once, it knows
// from then on.
static void find_rivals(mpi_rank *me) {
    me->rival_count = 0;
    for (mpi_access *at = accesses; at != NULL; at = at->next) {
        if ((at->local && at->origin == me->id) || complete_before(at, me->clock)) {
            continue;
        }
        if (me->rival_count == me->rival_room) {
            me->rival_room = me->rival_room > 0 ? 2 * me->rival_room : 16;
            mpi_access **more = ls_mpi__alloc((size_t)me->rival_room * sizeof *more);
            if (me->rival_count > 0) {
                memcpy(more, me->rivals, (size_t)me->rival_count * sizeof *more);
            }
            free(me->rivals);
            me->rivals = more;
        }
        me->rivals[me->rival_count++] = at;
    }
    me->rivals_of = changes;
}

static mpi_access *find_race_of_own(mpi_rank *me, const mpi_access *now) {
    if (me->rivals_of != changes) {
        find_rivals(me);
    }
    for (int i = 0; i < me->rival_count; i++) {
        if (conflict(me->rivals[i], now) && !complete_before(me->rivals[i], me->clock)) {
            return me->rivals[i];
        }
    }
    return NULL;
}

static void drop(mpi_access *access) {
    free(access->parts);
    free(access->clock);
    free(access->seen);
    free(access);
}

// What every rank knows to be complete races with nothing to come.
static void prune(void) {
    mpi_access **at = &accesses;
    while (*at != NULL) {
        mpi_access *access = *at;
        bool past = true;
        for (int r = 0; r < ls_mpi__state.rank_count && past; r++) {
            const mpi_rank *rank = &ls_mpi__state.ranks[r];
            past = rank->finalised || complete_before(access, rank->clock);
        }
        if (past) {
            *at = access->next;
            drop(access);
            access_count -= 1;
            changes += 1;
        } else {
            at = &access->next;
        }
    }
}

// Whether whatever races with `at` races with `now`, too, by which it can be replaced: the same
// again, later.
static bool repeats(const mpi_access *now, const mpi_access *at) {
    return !at->local && !now->local && at->parts == NULL && now->parts == NULL &&
           at->origin == now->origin && at->window == now->window && at->low == now->low &&
           at->high == now->high && at->writes == now->writes && at->fetches == now->fetches &&
           at->atomic == now->atomic && at->op == now->op && at->basic == now->basic &&
           at->lock == now->lock;
}

static void keep(const mpi_access *now) {
    changes += 1;
    for (mpi_access *at = accesses; at != NULL; at = at->next) {
        if (repeats(now, at)) {
            mpi_access *next = at->next;
            free(at->clock);
            free(at->seen);
            *at = *now;
            at->next = next;
            return;
        }
    }
    if (access_count >= KEPT_FIRST && (access_count & (KEPT_FIRST - 1)) == 0) {
        prune();
    }
    mpi_access *made = ls_mpi__alloc(sizeof *made);
    *made = *now;
    made->next = accesses;
    accesses = made;
    access_count += 1;
}

void ls_mpi__race_end(void) {
    while (accesses != NULL) {
        mpi_access *next = accesses->next;
        drop(accesses);
        accesses = next;
    }
    access_count = told = 0;
    changes += 1;
}

static int lock_of(const mpi_win *win, int target) {
    return win->locks_held[target];
}

// Who reads atomically what others wrote atomically comes after what they had complete by then, and
// after that write itself: flags, counters and locks of the program's own are made of this.
static void acquire(mpi_rank *me, const mpi_access *now) {
    for (mpi_access *at = accesses; at != NULL; at = at->next) {
        if (at->clock == NULL || !meet(at, now)) {
            continue;
        }
        ls_mpi__clock_message(me, at->clock);
        if (now->parts == NULL && now->low <= at->low && now->high >= at->high) {
            size_t bytes = (size_t)ls_mpi__state.rank_count * sizeof *at->seen;
            at->seen = at->seen != NULL ? at->seen : ls_mpi__alloc(bytes);
            at->seen[me->id] = at->seen[me->id] != 0 ? at->seen[me->id] : me->clock[me->id] + 1;
        }
    }
}

static int by_address(const void *a, const void *b) {
    const mpi_range *x = a, *y = b;
    return x->low < y->low ? -1 : x->low > y->low;
}

// Where the elements lie: neighbors are one part.
static void set_place(mpi_access *now, const char *base, size_t count, const mpi_type *type) {
    if (type->contiguous) {
        now->low = base;
        now->high = base + count * type->size;
        return;
    }
    size_t n = 0, all = count * type->segment_count;
    mpi_range *parts = ls_mpi__alloc(all * sizeof *parts);
    for (size_t i = 0; i < all; i++) {
        const mpi_segment *part = &type->segments[i % type->segment_count];
        const char *low = base + (ptrdiff_t)(i / type->segment_count) * type->extent + part->offset;
        parts[i] = (mpi_range){low, low + part->count * ls_mpi__basic(part->basic)->size};
    }
    qsort(parts, all, sizeof *parts, by_address);
    for (size_t i = 0; i < all; i++) {
        if (n > 0 && parts[i].low <= parts[n - 1].high) {
            parts[n - 1].high =
                parts[i].high > parts[n - 1].high ? parts[i].high : parts[n - 1].high;
        } else {
            parts[n++] = parts[i];
        }
    }
    now->low = n > 0 ? parts[0].low : base;
    now->high = n > 0 ? parts[n - 1].high : base;
    now->parts = parts;
    now->part_count = n;
}

void ls_mpi__race_remote(mpi_win *win, int target, const char *base, size_t count,
                         const mpi_type *type, const mpi_access *how) {
    mpi_rank *me = win->owner;
    mpi_access now = *how;
    now.origin = me->id;
    now.target = ls_mpi__comm_world_rank(win->comm, target);
    now.target_member = target;
    now.basic = type->segment_count > 0 ? type->segments[0].basic : 0;
    now.lock = lock_of(win, target);
    now.begun = me->clock[me->id];
    now.done = UINT64_MAX;
    now.window = win->shared;
    now.file = ls_mpi__file;
    now.line = ls_mpi__line;
    set_place(&now, base, count, type);
    if (now.atomic && now.fetches) {
        acquire(me, &now);
    }
    mpi_access *before = find_race(win, &now);
    if (before != NULL) {
        tell(win, before, &now);
    }
    now.clock = now.atomic && now.writes ? ls_mpi__clock_copy(me) : NULL;
    keep(&now);
    ls_mpi__clock_tick(me);  // what is complete from here on is not in the clock that it left
}

void ls_mpi__race_complete(mpi_win *win, int target, bool remote) {
    mpi_rank *me = win->owner;
    ls_mpi__disown_epoch(me, win, target);
    for (mpi_access *at = accesses; at != NULL; at = at->next) {
        if (at->origin == me->id && at->window == win->shared && at->done == UINT64_MAX &&
            (remote || at->fetches) && (target < 0 || at->target_member == target)) {
            at->done = me->clock[me->id];
        }
    }
}

void ls_mpi__race_requested(mpi_win *win, int request) {
    for (mpi_access *at = accesses; at != NULL; at = at->next) {
        if (at->origin == win->owner->id && at->request == -1) {
            at->request = request;
        }
    }
}

// Its request is complete, and with it what brings a result.
void ls_mpi__race_request_done(mpi_rank *me, int request) {
    for (mpi_access *at = accesses; at != NULL; at = at->next) {
        if (at->origin == me->id && at->request == request) {
            at->request = 0;
            at->done = at->fetches && at->done == UINT64_MAX ? me->clock[me->id] : at->done;
        }
    }
    ls_mpi__clock_tick(me);
}

void ls_mpi__race_close(mpi_win *win) {
    ls_mpi__race_complete(win, -1, true);
}

// ---- The program's own reads and writes ---------------------------------------------------------
// The window of the rank's that holds the address; *target: whose memory it is.
static mpi_win *window_at(mpi_rank *me, mpi_win *from, const char *low, const char *high,
                          int *target) {
    for (mpi_win *win = from; win != NULL; win = win->next) {
        *target = win->member;
        if (low < win->base + win->size && high > win->base && win->base != NULL) {
            return win;
        }
        for (const mpi_attached *part = win->attached; part != NULL; part = part->next) {
            if (low < part->high && high > part->low) {
                return win;
            }
        }
        for (int m = 0; win->flavor == MPI_WIN_FLAVOR_SHARED && m < win->shared->size; m++) {
            const mpi_win *other = win->shared->members[m];
            if (low < other->base + other->size && high > other->base) {
                *target = m;
                return win;
            }
        }
    }
    (void)me;
    return NULL;
}

// Grows an access of the same clock that it continues; false: there is none.
static bool extend(const mpi_access *now) {
    int looked = 0;
    for (mpi_access *at = accesses; at != NULL && looked < 16; at = at->next, looked++) {
        if (at->local && at->origin == now->origin && at->target == now->target &&
            at->begun == now->begun && at->writes == now->writes && at->lock == now->lock &&
            now->low <= at->high && now->high >= at->low) {
            at->low = now->low < at->low ? now->low : at->low;
            at->high = now->high > at->high ? now->high : at->high;
            return true;
        }
    }
    return false;
}

static void local(mpi_rank *me, const char *low, const char *high, bool writes,
                  const char *function, const char *file, int line, const void *code) {
    int target;
    for (mpi_win *win = me->windows; (win = window_at(me, win, low, high, &target)) != NULL;
         win = win->next) {
        // What a rank does between making a window and its next call is taken to fill it.
        if (target == win->member && win->made_at == me->entered) {
            continue;
        }
        mpi_access now = {.low = low,
                          .high = high,
                          .origin = me->id,
                          .target = ls_mpi__comm_world_rank(win->comm, target),
                          .target_member = target,
                          .local = true,
                          .window = win->shared,
                          .writes = writes,
                          .lock = lock_of(win, target),
                          .begun = me->clock[me->id],
                          .done = me->clock[me->id],
                          .function = function != NULL ? function : "the program",
                          .file = file,
                          .line = line,
                          .code = code};
        mpi_access *before = find_race_of_own(me, &now);
        bool known = before == NULL && extend(&now);
        if (before != NULL) {
            tell(win, before, &now);
        } else if (!known && access_count < LOCAL_MAX) {
            keep(&now);
        }
    }
}

void ls_mpi__win_local(mpi_rank *me, const char *low, const char *high, bool writes,
                       const char *function, const char *file, int line) {
    local(me, low, high, writes, function, file, line, NULL);
}

void ls_mpi__win_access(mpi_rank *me, const char *low, const char *high, bool writes,
                        const void *code) {
    int target;
    if (window_at(me, me->windows, low, high, &target) != NULL) {
        local(me, low, high, writes, NULL, ls_mpi__file, ls_mpi__line, code);
    }
}
