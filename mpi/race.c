// Races on windows: two accesses of which at least one writes, and neither of which is complete
// before the other begins. What orders them is what MPI says does: epochs, messages, collectives;
// each rank has a vector clock of these.
#include <stdlib.h>
#include <string.h>

#include "mpi/rma.h"

#define KEPT_FIRST 256  // accesses before the first look at which are past
#define LOCAL_MAX  1024
#define OP_CAS     (-1)

// All accesses of the run, newest first: windows may share memory.
static mpi_access *accesses;
static int access_count, told;

// ---- Clocks -------------------------------------------------------------------------------------
static int ranks(void) {
    return ls_mpi__state.rank_count;
}

static void merge(uint64_t *into, const uint64_t *from) {
    for (int r = 0; from != NULL && r < ranks(); r++) {
        into[r] = from[r] > into[r] ? from[r] : into[r];
    }
}

void ls_mpi__clock_tick(mpi_rank *me) {
    me->clock[me->id] += 1;
}

void ls_mpi__clock_message(mpi_rank *to, const uint64_t *from) {
    merge(to->clock, from);
}

uint64_t *ls_mpi__clock_copy(const mpi_rank *me) {
    size_t bytes = (size_t)ranks() * sizeof(uint64_t);
    uint64_t *made = ls_mpi__alloc(bytes);
    memcpy(made, me->clock, bytes);
    return made;
}

static mpi_rank *rank_of(const ls_request *request) {
    return &ls_mpi__state.ranks[request->call.rank];
}

void ls_mpi__clock_met(ls_request *const *requests, int size) {
    const mpi_record *model = requests[0]->record;
    uint64_t *sum = ls_mpi__alloc((size_t)ranks() * sizeof *sum);
    int root = -1;
    for (int m = 0; m < size && model->collective->rooted; m++) {
        const mpi_record *record = requests[m]->record;
        bool is = record->comm->inter ? record->root == MPI_ROOT : record->root == m;
        root = is ? m : root;
    }
    switch (model->collective->sync) {
    case MPI_SYNC_FROM_ROOT:
        for (int m = 0; m < size && root >= 0; m++) {
            merge(rank_of(requests[m])->clock, rank_of(requests[root])->clock);
        }
        break;
    case MPI_SYNC_TO_ROOT:
        for (int m = 0; m < size && root >= 0; m++) {
            merge(rank_of(requests[root])->clock, rank_of(requests[m])->clock);
        }
        break;
    case MPI_SYNC_PREFIX:
        for (int m = 0; m < size; m++) {
            merge(sum, rank_of(requests[m])->clock);
            merge(rank_of(requests[m])->clock, sum);
        }
        break;
    case MPI_SYNC_ALL:
        for (int m = 0; m < size; m++) {
            merge(sum, rank_of(requests[m])->clock);
        }
        for (int m = 0; m < size; m++) {
            merge(rank_of(requests[m])->clock, sum);
        }
        break;
    }
    for (int m = 0; m < size; m++) {
        ls_mpi__clock_tick(rank_of(requests[m]));
    }
    free(sum);
}

// Of post and complete: the last of each pair of members.
static uint64_t **signal_clock(mpi_window *shared, int from, int to, bool post) {
    size_t n = (size_t)shared->size;
    if (shared->signal_clocks == NULL) {
        shared->signal_clocks = ls_mpi__alloc(2 * n * n * sizeof(uint64_t *));
    }
    return &shared->signal_clocks[((post ? n : 0) + (size_t)from) * n + (size_t)to];
}

void ls_mpi__clock_signal(mpi_win *win, int to, bool post) {
    uint64_t **at = signal_clock(win->shared, win->member, to, post);
    free(*at);
    *at = ls_mpi__clock_copy(win->owner);
}

void ls_mpi__clock_signalled(mpi_win *win, int from, bool post) {
    merge(win->owner->clock, *signal_clock(win->shared, from, win->member, post));
}

// An exclusive lock comes after those that were there before it.
void ls_mpi__clock_lock(mpi_win *win, int target) {
    merge(win->owner->clock, win->shared->locks[target].clock);
}

void ls_mpi__clock_unlock(mpi_win *win, int target, bool exclusive) {
    mpi_lock *lock = &win->shared->locks[target];
    if (exclusive) {
        if (lock->clock == NULL) {
            lock->clock = ls_mpi__alloc((size_t)ranks() * sizeof(uint64_t));
        }
        merge(lock->clock, win->owner->clock);
    }
    ls_mpi__clock_tick(win->owner);
}

// ---- Accesses -----------------------------------------------------------------------------------
static bool complete_before(const mpi_access *a, const uint64_t *clock) {
    return a->done != UINT64_MAX && clock[a->origin] >= a->done;
}

static bool may_mix(const mpi_access *a, const mpi_access *b) {
    if (!a->atomic || !b->atomic || a->basic != b->basic) {
        return false;
    }
    return a->op == b->op || a->op == MPI_NO_OP || b->op == MPI_NO_OP || a->op == OP_CAS ||
           b->op == OP_CAS;
}

// Whether they have a byte in common: both lists of parts are in the order of their addresses.
static bool meet(const mpi_access *a, const mpi_access *b) {
    if (a->low >= b->high || b->low >= a->high) {
        return false;
    }
    const mpi_range whole_a = {a->low, a->high}, whole_b = {b->low, b->high};
    const mpi_range *x = a->parts != NULL ? a->parts : &whole_a;
    const mpi_range *y = b->parts != NULL ? b->parts : &whole_b;
    const mpi_range *end_x = x + (a->parts != NULL ? a->part_count : 1);
    const mpi_range *end_y = y + (b->parts != NULL ? b->part_count : 1);
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

static void tell(mpi_win *win, const mpi_access *before, const mpi_access *now) {
    if (told++ > 0) {
        return;  // what follows has the same cause
    }
    mpi_rank *me = win->owner;
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

static void drop(mpi_access *access) {
    free(access->parts);
    free(access->clock);
    free(access);
}

// What every rank knows to be complete races with nothing to come.
static void prune(void) {
    mpi_access **at = &accesses;
    while (*at != NULL) {
        mpi_access *access = *at;
        bool past = true;
        for (int r = 0; r < ranks() && past; r++) {
            const mpi_rank *rank = &ls_mpi__state.ranks[r];
            past = rank->finalised || complete_before(access, rank->clock);
        }
        if (past) {
            *at = access->next;
            drop(access);
            access_count -= 1;
        } else {
            at = &access->next;
        }
    }
}

static void keep(const mpi_access *now) {
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
}

static int lock_of(const mpi_win *win, int target) {
    return win->locks_held[target];
}

// Who reads atomically what others wrote atomically comes after what they had complete by then:
// flags, counters and locks of the program's own are made of this.
static void acquire(mpi_rank *me, const mpi_access *now) {
    for (const mpi_access *at = accesses; at != NULL; at = at->next) {
        if (at->clock != NULL && meet(at, now)) {
            merge(me->clock, at->clock);
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
    const mpi_access *before = find_race(win, &now);
    if (before != NULL) {
        tell(win, before, &now);
    }
    now.clock = now.atomic && now.writes ? ls_mpi__clock_copy(me) : NULL;
    keep(&now);
    ls_mpi__clock_tick(me);  // what is complete from here on is not in the clock that it left
}

void ls_mpi__race_complete(mpi_win *win, int target, bool remote) {
    mpi_rank *me = win->owner;
    for (mpi_owned *at = me->owned, *next; at != NULL; at = next) {
        next = at->next;
        if (at->win == win && (target < 0 || at->target == target)) {
            ls_mpi__disown(me, at);
        }
    }
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
                          .line = line};
        const mpi_access *before = find_race(win, &now);
        bool known = before == NULL && extend(&now);
        if (!known && code != NULL && access_count < LOCAL_MAX) {
            ls_mpi__line_of(me, code, &now.file, &now.line);
        }
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
