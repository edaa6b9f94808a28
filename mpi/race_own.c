// Accesses of a rank's own: to its windows, and of several threads to origin buffers of RMA calls.
#include "mpi/rma.h"

#define PROGRAM "the program"

// Returns the rank's first window from `from` on that overlaps [low, high), or NULL. *target: the
// member that owns the memory.
static mpi_win *window_at(mpi_win *from, const char *low, const char *high, int *target) {
    for (mpi_win *win = from; win != NULL; win = win->next) {
        *target = win->member;
        if (low < win->base + win->size && high > win->base && win->base != NULL) {
            return win;
        }
        if (ls_mpi__interval_search(&win->attached, low, high, NULL) != NULL) {
            return win;
        }
        for (int m = 0; win->flavor == MPI_WIN_FLAVOR_SHARED && m < win->shared->size; m++) {
            const mpi_win *other = win->shared->members[m];
            if (low < other->base + other->size && high > other->base) {
                *target = m;
                return win;
            }
        }
    }
    return NULL;
}

static void local(mpi_race *out, mpi_rank *me, const mpi_range *range, const mpi_access *how) {
    int target;
    *out = (mpi_race){0};
    for (mpi_win *win = me->windows;
         (win = window_at(win, range->low, range->high, &target)) != NULL && out->me == NULL;
         win = win->next) {
        // Accesses of a rank between creating a window and its next call count as initialisation.
        if (target == win->member && win->made_at == me->entered) {
            continue;
        }
        mpi_access now = *how;
        now.target = ls_mpi__comm_world_rank(win->comm, target);
        now.target_member = target;
        now.window = win->shared;
        now.lock = win->locks_held[target];
        ls_mpi__race_own(out, me, range, &now, true);
    }
}

void ls_mpi__win_local(mpi_rank *me, const char *low, const char *high, bool writes,
                       const char *function, const char *file, int line) {
    mpi_race race;
    local(&race, me, &(mpi_range){low, high},
          &(mpi_access){
              .called = true, .writes = writes, .function = function, .file = file, .line = line});
    ls_mpi__race_report(&race);
}

// ---- Origin buffers of RMA calls outside of windows, and accesses of other threads --------------
// The last small accesses of the rank's threads, by place; a later one may replace any of them.
#define LAST 4096
#define UNIT 8  // bytes that begin at one place

typedef struct touch {
    const char *low;  // NULL: none
    size_t bytes;
    int slot;
    uint64_t done, blocks;
    const void *code;
    const char *file;  // of the thread's last call
    int line;
} touch;
struct mpi_touches {
    touch all[2][LAST];  // [1]: writes
};

static touch *touch_at(mpi_rank *me, bool writes, uintptr_t unit) {
    return &me->touches->all[writes ? 1 : 0][unit % LAST];
}

static bool races(mpi_race *out, mpi_rank *me, const touch *with, const mpi_range *range,
                  bool writes) {
    if (with->low >= range->high || with->low + with->bytes <= range->low ||
        with->slot == ls_mpi__thread(me)->slot || ls_mpi__clock(me)[with->slot] >= with->done ||
        ls_mpi__block_number(me, with->low) > with->blocks) {
        return false;
    }
    out->me = me;
    out->before = (mpi_access){.origin = me->id,
                               .writes = writes,
                               .function = PROGRAM,
                               .code = with->code,
                               .file = with->file,
                               .line = with->line};
    return true;
}

// An access of another thread that the call is not ordered after.
static bool find_touch(mpi_race *out, mpi_rank *me, const mpi_range *range, bool all) {
    uintptr_t first = (uintptr_t)range->low / UNIT - 1, end = (uintptr_t)range->high / UNIT + 1;
    end = end - first < LAST ? end : first + LAST;
    for (int writes = all ? 0 : 1; writes < 2; writes++) {
        for (uintptr_t unit = first; unit < end; unit++) {
            if (races(out, me, touch_at(me, writes == 1, unit), range, writes == 1)) {
                return true;
            }
        }
    }
    return false;
}

static bool is_outside(mpi_rank *me, const mpi_range *range) {
    bool threads = me->rank->thread_count > 1 || me->main.next != NULL;
    bool main_thread = pthread_equal(me->rank->thread, pthread_self()) != 0;
    if (!threads || (!main_thread && ls_mpi__on_stack(me, range->low))) {
        return false;  // later threads may have the same memory as their stack
    }
    me->touches = me->touches != NULL ? me->touches : ls_mpi__alloc(sizeof *me->touches);
    return true;
}

static void outside(mpi_race *out, mpi_rank *me, const mpi_range *range, const mpi_access *how) {
    *out = (mpi_race){0};
    size_t bytes = (size_t)(range->high - range->low);
    if (!is_outside(me, range)) {
        return;
    }
    mpi_access now = *how;
    now.target = me->id;
    now.blocks = ls_mpi__block_number(me, NULL);
    bool small = !now.called && bytes <= 2 * UNIT;
    if (!small || ls_mpi__race_outside()) {
        ls_mpi__race_own(out, me, range, &now, !small);
    }
    if (now.called && out->me == NULL && find_touch(out, me, range, now.writes)) {
        out->now = now;
        out->now.origin = me->id;
    }
    if (small) {
        int slot = ls_mpi__thread(me)->slot;
        *touch_at(me, now.writes, (uintptr_t)range->low / UNIT) =
            (touch){range->low, bytes,    slot,     ls_mpi__clock(me)[slot],
                    now.blocks, now.code, now.file, now.line};
    }
}

void ls_mpi__race_origin(mpi_rank *me, const char *low, const char *high, const mpi_owned *by) {
    int target;
    mpi_race race = {0};
    if (window_at(me->windows, low, high, &target) == NULL) {
        outside(&race, me, &(mpi_range){low, high},
                &(mpi_access){.called = true,
                              .writes = by->writes,
                              .function = by->function,
                              .file = by->file,
                              .line = by->line});
    }
    ls_mpi__race_report(&race);
}

void ls_mpi__win_access(mpi_race *out, mpi_rank *me, const char *low, const char *high, bool writes,
                        const void *code) {
    int target;
    bool in_window = window_at(me->windows, low, high, &target) != NULL;
    (in_window ? local : outside)(out, me, &(mpi_range){low, high},
                                  &(mpi_access){.writes = writes,
                                                .function = PROGRAM,
                                                .file = ls_mpi__file,
                                                .line = ls_mpi__line,
                                                .code = code});
}
